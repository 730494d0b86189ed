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

static bool bwd_need(const rt_plan *p, const rt_op *op, rt_need *need)
{
    (void)p, (void)op;
    return vk_takes(need, "a workgroup for each id, its tokens in order");
}

/* Every token is looked at for each 512 columns, and may be added. */
static uint64_t bwd_rounds(const rt_op *op)
{
    const rt_embed_args *a = &op->args.embed;
    return vk_div_up(a->C, 512) * 5 * a->N;
}

static void bwd_emit(rt_vk_builder *b, const rt_bound_op *o)
{
    rt_vk_dispatch d = { .shader = "vk_embed_bwd",
                         .spec = { o->slot[RT_EMBED_DY].dtype, o->slot[RT_EMBED_DTABLE].dtype },
                         .items = o->args.embed.N };
    rt_vk_push(b, o, &d);
}

const rt_vk_op rt_vk_embed_fwd = { fwd_need, fwd_emit, NULL };
const rt_vk_op rt_vk_embed_bwd = { bwd_need, bwd_emit, bwd_rounds };
