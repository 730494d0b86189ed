/* vk_dropout.c - the dispatch of dropout. */
#include "backend/vulkan/vk_op.h"

static bool dropout_need(const rt_plan *p, const rt_op *op, rt_need *need)
{
    (void)p, (void)op;
    return vk_takes(need, "one pass, an element at a time");
}

static void dropout_emit(rt_vk_builder *b, const rt_bound_op *o)
{
    const rt_dropout_args *a = &o->args.dropout;
    rt_vk_dispatch d = { .shader = "vk_dropout",
                         .spec = { o->slot[RT_DROP_Y].dtype },
                         .own = { a->N, a->C },
                         .items = a->N * vk_div_up(a->C, RT_VK_PART) };
    rt_vk_push(b, o, &d);
}

const rt_vk_op rt_vk_dropout = { dropout_need, dropout_emit, NULL };
