/* vk_rmsnorm.c - dispatches of rmsnorm, forward and backward, plain, per head and with the residual sum. */
#include "backend/vulkan/vk_sums.h"

static uint64_t groups_of(const rt_rmsnorm_args *a) { return (uint64_t)a->N * a->H; }

static bool fits(const rt_rmsnorm_args *a, rt_need *need)
{
    if (groups_of(a) < 1u << 31) return true;
    snprintf(need->why_not, sizeof need->why_not, "%u rows of %u groups are more than 2^31 groups", a->N, a->H);
    return false;
}

/* ---- forward ---- */

static bool fwd_need(const rt_plan *p, const rt_op *op, rt_need *need)
{
    (void)p;
    return vk_takes(need, op->slot[RT_CODED_SCALE].buf ? "a workgroup for each row, e4m3 codes of it"
                                                       : "a workgroup for each group") &&
           fits(&op->args.rmsnorm, need);
}

static void fwd_emit(rt_vk_builder *b, const rt_bound_op *o)
{
    bool residual = o->kind == RT_OP_ADD_RMSNORM_FWD;
    rt_vk_dispatch d = { .shader = "vk_rmsnorm",
                         .spec = { o->slot[residual ? RT_ARMS_X : RT_RMS_X].dtype, residual,
                                   o->slot[RT_CODED_SCALE].mem != NULL },
                         .items = groups_of(&o->args.rmsnorm) };
    rt_vk_push(b, o, &d);
}

/* ---- backward ---- */

/* Groups of a workgroup, one after the other: so many that the sums of dw, one row for each workgroup, are few beside
 * what is read, and so few that a GPU is busy. */
enum { PART_GROUPS = 32, PARTS = 1024 };
static rt_vk_parts parts_of(const rt_rmsnorm_args *a)
{
    uint64_t groups = groups_of(a), each = vk_div_up(groups, PARTS);
    if (each < PART_GROUPS) each = PART_GROUPS;
    return (rt_vk_parts){ (uint32_t)vk_div_up(groups, each), (uint32_t)each };
}

static bool bwd_need(const rt_plan *p, const rt_op *op, rt_need *need)
{
    const rt_rmsnorm_args *a = &op->args.rmsnorm;
    (void)p;
    return vk_takes_with_work(need, "a workgroup for some groups; weight gradient from its sums",
                              op->slot[RT_RMSB_DW].buf ? (uint64_t)parts_of(a).count * a->D * sizeof(float) : 0) &&
           fits(a, need);
}

static uint64_t bwd_rounds(const rt_op *op)
{
    const rt_rmsnorm_args *a = &op->args.rmsnorm;
    uint64_t group = 2 * vk_div_up(a->D, RT_VK_GROUP) + 20;
    return parts_of(a).rows * group + parts_of(a).count;
}

static void bwd_emit(rt_vk_builder *b, const rt_bound_op *o)
{
    const rt_rmsnorm_args *a = &o->args.rmsnorm;
    rt_vk_parts parts = parts_of(a);
    rt_vk_dispatch d = { .shader = "vk_rmsnorm_bwd",
                         .spec = { o->slot[RT_RMSB_DX].dtype },
                         .own = { parts.count, parts.rows },
                         .items = parts.count };
    rt_vk_push(b, o, &d);
    if (o->slot[RT_RMSB_DW].mem) vk_push_total(b, o, RT_RMSB_DW, parts.count, 0);
}

const rt_vk_op rt_vk_rmsnorm_fwd = { fwd_need, fwd_emit, NULL };
const rt_vk_op rt_vk_add_rmsnorm_fwd = { fwd_need, fwd_emit, NULL };
const rt_vk_op rt_vk_rmsnorm_bwd = { bwd_need, bwd_emit, bwd_rounds };
const rt_vk_op rt_vk_add_rmsnorm_bwd = { bwd_need, bwd_emit, bwd_rounds };
