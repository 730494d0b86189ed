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

/* The others search for their scales; models are converted on the CPU. */
static bool quant_need(const rt_plan *p, const rt_op *op, rt_need *need)
{
    rt_dtype d = vk_dtype(p, op, RT_ROWS_Y);
    if (d == RT_DTYPE_Q8_0 || d == RT_DTYPE_Q4_0) return vk_takes(need, "an invocation for each block");
    vk_refuses(need, "");
    snprintf(need->why_not, sizeof need->why_not, "backend vulkan has no quantiser for %s yet (docs/vulkan.md)",
             rt_dtype_name(d));
    return false;
}

static void quant_emit(rt_vk_builder *b, const rt_bound_op *o)
{
    const rt_operand *y = &o->slot[RT_ROWS_Y], *x = &o->slot[RT_ROWS_X];
    rt_vk_dispatch d = { .shader = "vk_quantise",
                         .spec = { x->dtype, y->dtype },
                         .items = vk_div_up((uint64_t)x->rows * (x->cols / 32), RT_VK_GROUP) };
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
const rt_vk_op rt_vk_quant = { quant_need, quant_emit, NULL };
const rt_vk_op rt_vk_quant_rows = { rows_need, rows_emit, NULL };
