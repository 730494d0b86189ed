/* vk_rope.c - dispatches of rope, both ways. */
#include "backend/vulkan/vk_op.h"

static bool rope_need(const rt_plan *p, const rt_op *op, rt_need *need)
{
    (void)p, (void)op;
    return vk_takes(need, "angles in whole numbers, once for all heads of a row");
}

static void rope_emit(rt_vk_builder *b, const rt_bound_op *o)
{
    const rt_rope_args *a = &o->args.rope;
    rt_vk_dispatch d = { .shader = "vk_rope",
                         .spec = { o->slot[RT_ROPE_Y].dtype, o->kind == RT_OP_ROPE_BWD },
                         .own = { a->N, a->D / 2 },
                         .items = a->N * vk_div_up(a->D / 2, RT_VK_PART) };
    rt_vk_push(b, o, &d);
}

const rt_vk_op rt_vk_rope_fwd = { rope_need, rope_emit, NULL };
const rt_vk_op rt_vk_rope_bwd = { rope_need, rope_emit, NULL };
