/* vk_optim.c - the dispatch of adamw. */
#include "backend/vulkan/vk_op.h"

#include "num/moment.h"

_Static_assert((int)RT_MOMENT_BLOCK == (int)RT_VK_GROUP, "a workgroup takes the elements that share an exponent");

static bool adamw_need(const rt_plan *p, const rt_op *op, rt_need *need)
{
    (void)p, (void)op;
    return vk_takes(need, "a workgroup for 128 elements of a row");
}

static void adamw_emit(rt_vk_builder *b, const rt_bound_op *o)
{
    const rt_adamw_args *a = &o->args.adamw;
    const rt_operand *s = o->slot;
    rt_vk_dispatch d = { .shader = "vk_adamw",
                         .spec = { s[RT_ADAM_PARAM].dtype, s[RT_ADAM_GRAD].dtype, s[RT_ADAM_M].dtype },
                         .items = a->N * vk_div_up(a->C, RT_MOMENT_BLOCK) };
    rt_vk_push(b, o, &d);
}

const rt_vk_op rt_vk_adamw = { adamw_need, adamw_emit, NULL };
