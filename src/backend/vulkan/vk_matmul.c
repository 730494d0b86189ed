/* vk_matmul.c - dispatches of the GEMMs: matmul, of codes with scales, of 8-bit codes and packed weights. A shader
 * has them all: what an element is worth is decided where it is loaded. */
#include "backend/vulkan/vk_op.h"

enum { TILE = 64 };                            /* of vk_matmul.comp */
enum { WEIGHTS = 4, MOST = 8, FEW_ROWS = 16 }; /* of vk_matmul_few.comp; of a, beyond which a tile is better */

static bool is_few(const rt_matmul_args *a) { return a->M <= FEW_ROWS && !a->ta && a->tb; }

static bool matmul_need(const rt_plan *p, const rt_op *op, rt_need *need)
{
    bool packed = rt_dtype_is_quant(vk_dtype(p, op, RT_MM_B));
    if (is_few(&op->args.matmul)) return vk_takes(need, "few rows, b read once");
    return vk_takes(need, packed ? "tiles 64x64, b dequantised on the way" : "tiles 64x64, f32 sums");
}

static uint64_t matmul_rounds(const rt_op *op)
{
    const rt_matmul_args *a = &op->args.matmul;
    if (is_few(a)) return 5 * vk_div_up(a->K, RT_VK_GROUP) + 40;
    return vk_div_up(a->K, 16) * 12;
}

/* Rows of a that a workgroup of the few has: a power of two, so that there are not many pipelines. */
static uint32_t few_rows(const rt_matmul_args *a)
{
    uint32_t n = 1;
    while (n < a->M && n < MOST) n *= 2;
    return n;
}

static void matmul_emit(rt_vk_builder *b, const rt_bound_op *o)
{
    const rt_matmul_args *a = &o->args.matmul;
    uint32_t scaled = o->kind == RT_OP_MATMUL_SCALED, few = few_rows(a);
    rt_vk_dispatch d = { .shader = "vk_matmul",
                         .spec = { o->slot[RT_MM_A].dtype, o->slot[RT_MM_B].dtype, scaled },
                         .items = vk_div_up(a->M, TILE) * vk_div_up(a->N, TILE) };
    if (is_few(a)) {
        d.shader = "vk_matmul_few";
        d.spec[2] |= (few - 1) << 1;
        d.items = vk_div_up(a->M, few) * vk_div_up(a->N, WEIGHTS);
    }
    rt_vk_push(b, o, &d);
}

const rt_vk_op rt_vk_matmul = { matmul_need, matmul_emit, matmul_rounds };
const rt_vk_op rt_vk_matmul_scaled = { matmul_need, matmul_emit, matmul_rounds };
const rt_vk_op rt_vk_matmul_int8 = { matmul_need, matmul_emit, matmul_rounds };
