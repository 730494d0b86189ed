/* vk_matmul.c - dispatches of the GEMMs: matmul, of codes with scales, of 8-bit codes and packed weights. One shader
 * has them all: what an element is worth is decided where it is loaded. */
#include "backend/vulkan/vk_op.h"

enum { TILE = 64 }; /* of vk_matmul.comp */

static bool matmul_need(const rt_plan *p, const rt_op *op, rt_need *need)
{
    bool packed = rt_dtype_is_quant(vk_dtype(p, op, RT_MM_B));
    return vk_takes(need, packed ? "tiles 64x64, b dequantised on the way" : "tiles 64x64, f32 sums");
}

static uint64_t matmul_rounds(const rt_op *op) { return 2 * vk_div_up(op->args.matmul.K, 16); }

static void matmul_emit(rt_vk_builder *b, const rt_bound_op *o)
{
    const rt_matmul_args *a = &o->args.matmul;
    rt_vk_dispatch d = { .shader = "vk_matmul",
                         .spec = { o->slot[RT_MM_A].dtype, o->slot[RT_MM_B].dtype, o->kind == RT_OP_MATMUL_SCALED },
                         .items = vk_div_up(a->M, TILE) * vk_div_up(a->N, TILE) };
    rt_vk_push(b, o, &d);
}

const rt_vk_op rt_vk_matmul = { matmul_need, matmul_emit, matmul_rounds };
const rt_vk_op rt_vk_matmul_scaled = { matmul_need, matmul_emit, matmul_rounds };
const rt_vk_op rt_vk_matmul_int8 = { matmul_need, matmul_emit, matmul_rounds };
