/* vk_quant.c - dispatches of dequant, quant and quant_rows. */
#include "backend/vulkan/vk_op.h"

static bool dequant_need(const rt_plan *p, const rt_op *op, rt_need *need)
{
    (void)p, (void)op;
    return vk_takes(need, "a value at a time");
}

static void dequant_emit(rt_vk_builder *b, const rt_bound_op *o)
{
    const rt_operand *y = &o->slot[RT_ROWS_Y], *x = &o->slot[RT_ROWS_X];
    rt_vk_dispatch d = { .shader = "vk_dequant",
                         .spec = { 0, y->dtype, x->dtype },
                         .own = { x->rows, x->cols },
                         .items = x->rows * vk_div_up(x->cols, RT_VK_PART) };
    rt_vk_push(b, o, &d);
}

static bool quant_need(const rt_plan *p, const rt_op *op, rt_need *need)
{
    rt_dtype d = vk_dtype(p, op, RT_ROWS_Y);
    bool plain = d == RT_DTYPE_Q8_0 || d == RT_DTYPE_Q4_0;
    return vk_takes(need, plain ? "a workgroup for each block" : "a workgroup for each block, scales searched");
}

/* A workgroup has more than one block where there are more of them than workgroups, of which any device has 65,535; the
 * search of a block has three tries for each value, two choices, and for IQ4 the places at each. */
static uint64_t quant_rounds(const rt_op *op)
{
    const rt_rows_args *a = &op->args.rows;
    uint64_t blocks = vk_div_up((uint64_t)a->N * a->C, 32);
    return vk_div_up(blocks, 65535) * 4096;
}

static void quant_emit(rt_vk_builder *b, const rt_bound_op *o)
{
    const rt_operand *y = &o->slot[RT_ROWS_Y], *x = &o->slot[RT_ROWS_X];
    rt_vk_dispatch d = { .shader = "vk_quantise",
                         .spec = { 0, y->dtype },
                         .items = (uint64_t)x->rows * (x->cols / rt_dtype_table[y->dtype].block_elems) };
    rt_vk_push(b, o, &d);
}

/* Blocks stand for values that are exact in f32. */
static bool rows_need(const rt_plan *p, const rt_op *op, rt_need *need)
{
    if (!rt_dtype_is_quant(vk_dtype(p, op, RT_QROWS_X))) return vk_takes(need, "a workgroup for each row");
    vk_refuses(need, "quantised blocks are dequantised first");
    need->recast = 1 + RT_QROWS_X;
    need->recast_to = RT_DTYPE_F32;
    return false;
}

static void rows_emit(rt_vk_builder *b, const rt_bound_op *o)
{
    rt_vk_dispatch d = { .shader = "vk_quant_rows", .spec = { o->slot[RT_QROWS_X].dtype }, .items = o->args.rows.N };
    rt_vk_push(b, o, &d);
}

const rt_vk_op rt_vk_dequant = { dequant_need, dequant_emit, NULL };
const rt_vk_op rt_vk_quant = { quant_need, quant_emit, quant_rounds };
const rt_vk_op rt_vk_quant_rows = { rows_need, rows_emit, NULL };
