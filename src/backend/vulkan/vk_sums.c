/* vk_sums.c - dispatches of the ops that are a sum: bias_grad, norm_sq; and of clip, which follows the latter. */
#include "backend/vulkan/vk_sums.h"

enum { NORM_PARTS = 256, NORM_PART_BYTES = 16 }; /* of vk_norm.comp */

/* ---- bias_grad ---- */

static bool bias_need(const rt_plan *p, const rt_op *op, rt_need *need)
{
    const rt_rows_args *a = &op->args.rows;
    (void)p;
    return vk_takes_with_work(need, "sums of parts of the rows, then of the parts",
                              (uint64_t)vk_parts(a->N).count * a->C * sizeof(float));
}

static void bias_emit(rt_vk_builder *b, const rt_bound_op *o)
{
    rt_vk_parts parts = vk_parts(o->args.rows.N);
    rt_vk_dispatch d = { .shader = "vk_sums",
                         .spec = { o->slot[RT_BIASG_DY].dtype, 0 },
                         .own = { parts.count, parts.rows },
                         .items = parts.count * vk_div_up(o->args.rows.C, RT_VK_GROUP) };
    rt_vk_push(b, o, &d);
    vk_push_total(b, o, RT_BIASG_DB, parts.count, 0);
}

/* ---- norm_sq, clip ---- */

static bool norm_need(const rt_plan *p, const rt_op *op, rt_need *need)
{
    (void)p, (void)op;
    return vk_takes_with_work(need, "sums in two floats, of parts, then of the parts", NORM_PARTS * NORM_PART_BYTES);
}

static void norm_emit(rt_vk_builder *b, const rt_bound_op *o)
{
    rt_vk_rows r = vk_rows(o, 1u << RT_NSQ_X);
    uint64_t parts = r.rows * vk_div_up(r.cols, RT_VK_PART);
    rt_vk_dispatch d = { .shader = "vk_norm",
                         .spec = { o->slot[RT_NSQ_X].dtype, 0 },
                         .own = { r.rows, r.cols },
                         .items = parts < NORM_PARTS ? parts : NORM_PARTS };
    rt_vk_push(b, o, &d);
    rt_vk_dispatch total = { .shader = "vk_norm", .spec = { 0, 1 }, .own = { (uint32_t)d.items }, .items = 1 };
    rt_vk_push(b, o, &total);
}

static bool clip_need(const rt_plan *p, const rt_op *op, rt_need *need)
{
    (void)p, (void)op;
    return vk_takes(need, "one invocation");
}

static void clip_emit(rt_vk_builder *b, const rt_bound_op *o)
{
    rt_vk_dispatch d = { .shader = "vk_clip", .items = 1 };
    rt_vk_push(b, o, &d);
}

const rt_vk_op rt_vk_bias_grad = { bias_need, bias_emit, NULL };
const rt_vk_op rt_vk_norm_sq = { norm_need, norm_emit, NULL };
const rt_vk_op rt_vk_clip = { clip_need, clip_emit, NULL };
