/* cuda_rmsnorm.c - launches of rmsnorm, forward and backward, plain, per head and with the residual sum. */
#include "backend/cuda/kernels/cuda_rmsnorm.h"

#include "backend/cuda/cuda_numbers.h"
#include "backend/cuda/cuda_op.h"

enum {
    SUMS_ROOM = 4096, /* bytes: what two blocks of the backward have of shared memory besides */
    WEIGHT_MAX = 8192 /* columns that a block of the forward keeps of the weight, 32 KiB */
};

static uint32_t power_of_two(uint32_t n, uint32_t most)
{
    uint32_t t = 1;
    while (t < n && t < most) t *= 2;
    return t;
}

static uint32_t packs_of(const rt_rmsnorm_args *a, rt_dtype d) { return (uint32_t)cuda_div_up(a->D, cuda_width(d)); }

/* Threads of a group: lanes of a warp where one can hold it, else as many warps as it needs. */
static uint32_t team_of(uint32_t packs, uint32_t most)
{
    uint32_t holds = (packs + RT_CUDA_NORM_HOLDS - 1) / RT_CUDA_NORM_HOLDS;
    return holds <= 32 ? power_of_two(packs, 32) : power_of_two(holds, most);
}

/* Is every group whole packs of W, aligned in every operand of A's shape and in w? */
static bool is_whole(const rt_bound_op *o, uint32_t shaped, const rt_operand *w, uint32_t W)
{
    for (uint32_t i = 0; i < o->nslots; i++)
        if (shaped >> i & 1 && !cuda_aligned(&o->slot[i], W)) return false;
    return cuda_aligned(w, W) && o->args.rmsnorm.D % W == 0;
}

/* ---- forward ---- */

static bool fwd_need(const rt_cuda_caps *c, const rt_plan *p, const rt_op *op, rt_need *need)
{
    (void)c;
    return cuda_takes(p, op, need,
                      op->slot[RT_CODED_SCALE].buf ? "a team for each row, e4m3 codes of it" : "a team for each group");
}

static void fwd_push(rt_cuda_builder *b, const rt_bound_op *o, const char *kernel, rt_cuda_rmsnorm_params *p,
                     uint32_t shaped, const rt_operand *w, rt_dtype d)
{
    p->a = o->args.rmsnorm;
    p->y = cuda_mat(&o->slot[RT_CODED_Y]);
    p->scale = cuda_mat(&o->slot[RT_CODED_SCALE]);
    p->team = team_of(packs_of(&p->a, d), RT_CUDA_BLOCK);
    p->held = is_whole(o, shaped, w, cuda_width(d)) && p->a.D <= WEIGHT_MAX &&
              packs_of(&p->a, d) <= p->team * RT_CUDA_NORM_HOLDS;
    p->w = rt_cuda_addr(w);
    p->w_dtype = w->dtype;
    uint64_t blocks = cuda_div_up((uint64_t)p->a.N * p->a.H, RT_CUDA_BLOCK / p->team);
    uint32_t shared = p->held ? p->a.D * (uint32_t)sizeof(float) : 0;
    cuda_push_1d(b, "cuda_rmsnorm", kernel, (uint32_t)blocks, RT_CUDA_BLOCK, shared, p, sizeof *p);
}

static void fwd_emit(rt_cuda_builder *b, const rt_bound_op *o)
{
    rt_dtype d = o->slot[RT_RMS_X].dtype;
    rt_cuda_rmsnorm_params p = { .x = cuda_mat(&o->slot[RT_RMS_X]) };
    const char *kernel =
        o->slot[RT_RMS_SCALE].mem ? CUDA_KERNEL("coded_rmsnorm_fwd", d) : CUDA_KERNEL("rmsnorm_fwd", d);
    fwd_push(b, o, kernel, &p, 1u << RT_RMS_Y | 1u << RT_RMS_X, &o->slot[RT_RMS_W], d);
}

static void add_fwd_emit(rt_cuda_builder *b, const rt_bound_op *o)
{
    rt_dtype d = o->slot[RT_ARMS_X].dtype;
    const char *kernel =
        o->slot[RT_ARMS_SCALE].mem ? CUDA_KERNEL("coded_add_rmsnorm_fwd", d) : CUDA_KERNEL("add_rmsnorm_fwd", d);
    rt_cuda_rmsnorm_params p = { .h = cuda_mat(&o->slot[RT_ARMS_H]),
                                 .x = cuda_mat(&o->slot[RT_ARMS_X]),
                                 .res = cuda_mat(&o->slot[RT_ARMS_RES]) };
    fwd_push(b, o, kernel, &p, 1u << RT_ARMS_Y | 1u << RT_ARMS_H | 1u << RT_ARMS_X | 1u << RT_ARMS_RES,
             &o->slot[RT_ARMS_W], d);
}

/* ---- backward ---- */

/* Threads of a group: lanes of a warp where it is short, else whole warps; a pack each, or RT_CUDA_NORM_LONG. */
typedef struct bwd_cut {
    uint32_t team, teams, blocks;
    bool is_long;
} bwd_cut;

static bwd_cut cut_bwd(const rt_cuda_caps *caps, const rt_rmsnorm_args *a, rt_dtype d)
{
    uint32_t most = rt_cuda_numbers_of(caps->sm)->norm_bwd_blocks; /* sum_columns has them all under way at once */
    uint32_t packs = packs_of(a, d), groups = a->N * a->H;
    bwd_cut c = { .is_long = packs > RT_CUDA_NORM_BLOCK };
    uint32_t threads = c.is_long ? (uint32_t)cuda_div_up(packs, RT_CUDA_NORM_LONG) : packs;
    c.team = threads <= 32 ? power_of_two(threads, 32) : (uint32_t)cuda_div_up(threads, 32) * 32;
    c.teams = c.is_long ? 1 : RT_CUDA_NORM_BLOCK / c.team;
    uint64_t blocks = cuda_div_up(groups, c.teams * (c.is_long ? 1 : RT_CUDA_NORM_GROUPS));
    c.blocks = (uint32_t)(blocks < most ? blocks : most);
    return c;
}

static bool bwd_need(const rt_cuda_caps *c, const rt_plan *p, const rt_op *op, rt_need *need)
{
    const rt_rmsnorm_args *a = &op->args.rmsnorm;
    if (!cuda_takes(p, op, need, "a team for a few groups, weight gradient in registers")) return false;
    rt_dtype d = rt_plan_dtype(p, op->slot[RT_RMSB_DX]);
    uint32_t widest = RT_CUDA_NORM_BLOCK * RT_CUDA_NORM_LONG * cuda_width(d);
    if (a->D > widest) {
        snprintf(need->why_not, sizeof need->why_not, "a group has %u columns, over the %u of the widest kernel", a->D,
                 widest);
        return false;
    }
    if ((uint64_t)a->N * a->H > INT32_MAX) {
        snprintf(need->why_not, sizeof need->why_not, "%u rows of %u groups are more than 2^31 groups", a->N, a->H);
        return false;
    }
    need->work_stays = op->slot[RT_RMSB_DW].buf;
    if (need->work_stays) need->work_bytes = (uint64_t)cut_bwd(c, a, d).blocks * a->D * sizeof(float);
    return true;
}

static const char *bwd_kernel(bool residual, bool is_long, bool whole, rt_dtype d)
{
    if (residual)
        return is_long ? whole ? CUDA_KERNEL("long_add_rmsnorm_bwd", d) : CUDA_KERNEL("long_odd_add_rmsnorm_bwd", d)
               : whole ? CUDA_KERNEL("add_rmsnorm_bwd", d)
                       : CUDA_KERNEL("odd_add_rmsnorm_bwd", d);
    return is_long ? whole ? CUDA_KERNEL("long_rmsnorm_bwd", d) : CUDA_KERNEL("long_odd_rmsnorm_bwd", d)
           : whole ? CUDA_KERNEL("rmsnorm_bwd", d)
                   : CUDA_KERNEL("odd_rmsnorm_bwd", d);
}

static void bwd_emit(rt_cuda_builder *b, const rt_bound_op *o)
{
    const rt_operand *s = o->slot, *dw = &s[RT_RMSB_DW], *w = &s[RT_RMSB_W];
    const rt_rmsnorm_args *a = &o->args.rmsnorm;
    rt_dtype d = s[RT_RMSB_DX].dtype;
    bool residual = o->kind == RT_OP_ADD_RMSNORM_BWD;
    uint32_t shaped = 1u << RT_RMSB_DX | 1u << RT_RMSB_DY | 1u << RT_RMSB_X | (residual ? 1u << RT_RMSB_DRES : 0);
    bwd_cut cut = cut_bwd(rt_cuda_builder_caps(b), a, d);
    /* groups under way, of x, dy and dres; where two blocks of a multiprocessor have the room, twice as many */
    uint32_t stage = cut.is_long ? 0 : (residual ? 3 : 2) * RT_CUDA_NORM_GROUPS * RT_CUDA_NORM_BLOCK * 16;
    rt_cuda_rmsnorm_params p = { .a = *a,
                                 .team = cut.team,
                                 .stages = 4 * stage + SUMS_ROOM <= rt_cuda_builder_caps(b)->shared_max ? 2 : 1,
                                 .x = cuda_mat(&s[RT_RMSB_X]),
                                 .dx = cuda_mat(&s[RT_RMSB_DX]),
                                 .dy = cuda_mat(&s[RT_RMSB_DY]),
                                 .w = rt_cuda_addr(w),
                                 .part = dw->mem ? rt_cuda_addr(&o->work) : 0,
                                 .w_dtype = w->dtype,
                                 .acc = cuda_adds(o, RT_RMSB_DX) };
    if (residual) p.res = cuda_mat(&s[RT_RMSB_DRES]);
    /* behind them in the same place the weight gradients of the teams */
    uint32_t fetched = p.stages * stage,
             sums = cut.teams > 1 ? cut.teams * packs_of(a, d) * cuda_width(d) * (uint32_t)sizeof(float) : 0;
    cuda_push_1d(b, "cuda_rmsnorm_bwd", bwd_kernel(residual, cut.is_long, is_whole(o, shaped, w, cuda_width(d)), d),
                 cut.blocks, cut.teams * cut.team, fetched > sums ? fetched : sums, &p, sizeof p);
    if (p.part) rt_cuda_sum_later(b, dw, p.part, cut.blocks, cuda_adds(o, RT_RMSB_DW));
}

const rt_cuda_op rt_cuda_rmsnorm_fwd = { fwd_need, fwd_emit };
const rt_cuda_op rt_cuda_add_rmsnorm_fwd = { fwd_need, add_fwd_emit };
const rt_cuda_op rt_cuda_rmsnorm_bwd = { bwd_need, bwd_emit };
const rt_cuda_op rt_cuda_add_rmsnorm_bwd = { bwd_need, bwd_emit };
