/* vk_choice.c - dispatches of what picks or mixes rows of logits: topk, sample, draw, mix_logits. */
#include "backend/vulkan/vk_op.h"

#include "num/draw.h"

static bool row_need(const rt_plan *p, const rt_op *op, rt_need *need)
{
    (void)p, (void)op;
    return vk_takes(need, "a workgroup for each row");
}

/* ---- topk ---- */

enum { NEAR = 512, DIGITS = 1024 }; /* of vk_topk.comp: keys that shared memory takes, counters of a digit */

static uint32_t power_of_two(uint32_t least)
{
    uint32_t n = 2;
    while (n < least) n *= 2;
    return n;
}
static bool is_near(const rt_topk_args *a) { return 2 * (uint64_t)a->k <= NEAR; }
/* Keys of the list of a row: some columns have the same digits as the k-th. */
static uint32_t listed(const rt_topk_args *a) { return is_near(a) ? NEAR : power_of_two(2 * a->k); }

static bool topk_need(const rt_plan *p, const rt_op *op, rt_need *need)
{
    const rt_topk_args *a = &op->args.topk;
    (void)p;
    return vk_takes_with_work(need, "a workgroup for each row, digits counted, candidates sorted",
                              is_near(a) ? 0 : a->N * (uint64_t)listed(a) * sizeof(uint64_t));
}

/* Seven digits at most, two readings at least; ten turns of each of the steps of a sort. */
static uint64_t topk_rounds(const rt_op *op)
{
    const rt_topk_args *a = &op->args.topk;
    uint64_t columns = vk_div_up(a->V, RT_VK_GROUP), keys = vk_div_up(listed(a), RT_VK_GROUP), steps = 0;
    for (uint32_t n = listed(a); n > 1; n /= 2) steps++;
    return 9 * columns + 7 * (3 * DIGITS / RT_VK_GROUP + RT_VK_GROUP) + steps * (steps + 1) / 2 * (keys + 1) + 4 * keys;
}

static void topk_emit(rt_vk_builder *b, const rt_bound_op *o)
{
    const rt_topk_args *a = &o->args.topk;
    rt_vk_dispatch d = {
        .shader = "vk_topk", .spec = { o->slot[RT_TOPK_X].dtype, !is_near(a) }, .own = { listed(a) }, .items = a->N
    };
    rt_vk_push(b, o, &d);
}

/* ---- the others ---- */

static void mix_emit(rt_vk_builder *b, const rt_bound_op *o)
{
    rt_vk_dispatch d = { .shader = "vk_mix",
                         .spec = { o->slot[RT_MIX_Y].dtype, o->slot[RT_MIX_X].dtype },
                         .items = o->args.mix.N };
    rt_vk_push(b, o, &d);
}

/* ids that a row is sorted among */
static uint32_t sorted_ids(const rt_sample_args *a) { return power_of_two(a->V); }

static bool sample_need(const rt_plan *p, const rt_op *op, rt_need *need)
{
    const rt_sample_args *a = &op->args.sample;
    (void)p;
    return vk_takes_with_work(need, "a workgroup for each row, ids sorted",
                              (uint64_t)a->N * sorted_ids(a) * sizeof(uint64_t));
}

/* One invocation walks down the ranks, three times at most; the sort is short beside that. */
static uint64_t sample_rounds(const rt_op *op) { return 4 * (uint64_t)sorted_ids(&op->args.sample); }

static void sample_emit(rt_vk_builder *b, const rt_bound_op *o)
{
    const rt_sample_args *a = &o->args.sample;
    rt_vk_dispatch d = {
        .shader = "vk_sample", .spec = { o->slot[RT_SAMPLE_X].dtype }, .own = { sorted_ids(a) }, .items = a->N
    };
    rt_vk_push(b, o, &d);
}

/* Of its share of the draws: the run that each falls into and the id in it; then its place among all. */
static uint64_t draw_rounds(const rt_op *op)
{
    const rt_draw_args *a = &op->args.draw;
    uint64_t run = vk_div_up(a->V, RT_VK_GROUP), draws = vk_div_up(a->n, RT_VK_GROUP);
    return 4 * run + draws * (7 * (RT_VK_GROUP + run) + 2 * (uint64_t)a->n + 64);
}

static void draw_emit(rt_vk_builder *b, const rt_bound_op *o)
{
    const rt_draw_args *a = &o->args.draw;
    rt_vk_dispatch d = { .shader = "vk_draw",
                         .spec = { o->slot[RT_DRAW_X].dtype },
                         .own = { rt_f32_bits((float)(rt_draw_scale(a->T) * 0x1p-32)) },
                         .items = a->N };
    rt_vk_push(b, o, &d);
}

const rt_vk_op rt_vk_topk = { topk_need, topk_emit, topk_rounds };
const rt_vk_op rt_vk_sample = { sample_need, sample_emit, sample_rounds };
const rt_vk_op rt_vk_draw = { row_need, draw_emit, draw_rounds };
const rt_vk_op rt_vk_mix_logits = { row_need, mix_emit, NULL };
