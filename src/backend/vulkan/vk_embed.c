/* vk_embed.c - dispatches of embed, both ways. */
#include "backend/vulkan/vk_op.h"

static bool fwd_need(const rt_plan *p, const rt_op *op, rt_need *need)
{
    (void)p, (void)op;
    return vk_takes(need, "one pass, an element at a time");
}

static void fwd_emit(rt_vk_builder *b, const rt_bound_op *o)
{
    const rt_embed_args *a = &o->args.embed;
    rt_vk_dispatch d = { .shader = "vk_embed",
                         .spec = { 0, o->slot[RT_EMBED_Y].dtype, o->slot[RT_EMBED_TABLE].dtype },
                         .own = { a->N, a->C },
                         .items = a->N * vk_div_up(a->C, RT_VK_PART) };
    rt_vk_push(b, o, &d);
}

enum { CLEAR, TELL, ADD, OF_ID_BYTES = 8 }; /* of vk_embed_bwd.comp */

static bool bwd_need(const rt_plan *p, const rt_op *op, rt_need *need)
{
    (void)p;
    return vk_takes_with_work(need, "a workgroup for each id, its tokens in order",
                              (uint64_t)op->args.embed.V * OF_ID_BYTES);
}

/* At most all tokens of one id: each is added, and 128 of them are looked at together. */
static uint64_t bwd_rounds(const rt_op *op)
{
    const rt_embed_args *a = &op->args.embed;
    return a->N + 6 * vk_div_up(a->N, RT_VK_GROUP) + 8;
}

static void bwd_emit(rt_vk_builder *b, const rt_bound_op *o)
{
    const rt_embed_args *a = &o->args.embed;
    uint64_t items[] = { [CLEAR] = vk_div_up(a->V, RT_VK_GROUP),
                         [TELL] = vk_div_up(a->N, RT_VK_GROUP),
                         [ADD] = a->N * vk_div_up(a->C, RT_VK_PART) };
    for (uint32_t step = CLEAR; step <= ADD; step++) {
        rt_vk_dispatch d = { .shader = "vk_embed_bwd",
                             .spec = { o->slot[RT_EMBED_DY].dtype, o->slot[RT_EMBED_DTABLE].dtype, step },
                             .items = items[step] };
        rt_vk_push(b, o, &d);
    }
}

const rt_vk_op rt_vk_embed_fwd = { fwd_need, fwd_emit, NULL };
const rt_vk_op rt_vk_embed_bwd = { bwd_need, bwd_emit, bwd_rounds };
