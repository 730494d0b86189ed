/* cuda_attn_bwd.c - attention backward: which kernels take an op, their scratch and their launches.
 *
 * Owns: the op attn_bwd on this backend. Launches: the stats of all queries (cuda_attn_stats.cu), dq, then dk and dv
 * (cuda_attn_hopper_bwd.cu or cuda_attn_bwd.cu on tensor cores, cuda_attn_plain.cu otherwise), then the sum of the
 * parts where there are several. Scratch: 16 bytes for every query and head; with P parts of the query heads, P f32
 * copies of dk and dv. */
#include "backend/cuda/cuda_attn_host.h"
#include "backend/cuda/cuda_numbers.h"

typedef struct bwd_kernel {
    uint32_t width, rows, others; /* columns of a tile; rows that a block owns; rows of a tile that streams by */
    uint32_t groups;              /* of cuda_attn_hopper_bwd.cu: warpgroups that compute; 0: of cuda_attn_bwd.cu */
    bool rounded;                 /* rounds weights: for ops that allow it */
    const char *dq, *dk, *dv;     /* dk also writes dv where dv is null */
    const char *text;
} bwd_kernel;

static const bwd_kernel kernels[] = {
    { 64, 128, 64, 2, true, "rt_attn_hopper_DQ_64_rounded", "rt_attn_hopper_DKV_64_rounded", NULL,
      "flash, warpgroups, width 64, rounded weights" },
    { 128, 128, 64, 2, true, "rt_attn_hopper_DQ_128_rounded", "rt_attn_hopper_DKV_128_rounded", NULL,
      "flash, warpgroups, width 128, rounded weights" },
    { 64, 128, 64, 2, false, "rt_attn_hopper_DQ_64", "rt_attn_hopper_DKV_64", NULL, "flash, warpgroups, width 64" },
    { 64, 128, 32, 0, false, "rt_attn_bwd_DQ_64", "rt_attn_bwd_DKV_64", NULL, "flash, tensor cores, width 64" },
    { 96, 64, 32, 0, false, "rt_attn_bwd_DQ_96", "rt_attn_bwd_DKV_96", NULL, "flash, tensor cores, width 96" },
    { 128, 64, 32, 0, false, "rt_attn_bwd_DQ_128", "rt_attn_bwd_DKV_128", NULL, "flash, tensor cores, width 128" },
    { 256, 64, 16, 0, false, "rt_attn_bwd_DQ_256", "rt_attn_bwd_DK_256", "rt_attn_bwd_DV_256",
      "flash, tensor cores, width 256" },
};
static const uint32_t in_tiles = 1u << RT_ATTNB_DQ | 1u << RT_ATTNB_DK | 1u << RT_ATTNB_DV | 1u << RT_ATTNB_DO |
                                 1u << RT_ATTNB_Q | 1u << RT_ATTNB_K | 1u << RT_ATTNB_V | 1u << RT_ATTNB_O;

/* What the block owns (two matrices), and two stages of what streams by. */
static uint32_t shared_bytes(const bwd_kernel *k)
{
    if (k->groups) return RT_CUDA_ATTN_HOPPER_BWD_SHARED(k->width);
    return rt_cuda_attn_rows_bytes(2 * k->rows + 4 * k->others, k->width);
}

static const bwd_kernel *choose(const rt_cuda_caps *c, const rt_attn_args *a, rt_dtype d, bool aligned)
{
    if (!aligned || d != RT_DTYPE_BF16) return NULL;
    const uint32_t width = rt_cuda_attn_width(c, a->D, a->scale);
    for (size_t i = 0; i < sizeof kernels / sizeof *kernels; i++)
        if (kernels[i].width == width && (!kernels[i].groups || rt_cuda_attn_hopper(c, a->D, width)) &&
            (!kernels[i].rounded || a->rounded) && shared_bytes(&kernels[i]) <= c->shared_max)
            return &kernels[i];
    return NULL;
}

/* How the work is cut; k null: the plain kernels. */
typedef struct bwd_cut {
    uint32_t parts, heads; /* of the query heads of a kv head */
    uint64_t tiles;        /* of all rows of the batch */
    uint64_t stats, sums;  /* bytes of scratch */
} bwd_cut;

/* Blocks of dk and dv: a few for every multiprocessor of a large GPU, by shape alone; every part costs a pass over f32
 * sums. */
static bwd_cut cut(const rt_cuda_caps *caps, const rt_attn_args *a, const bwd_kernel *k)
{
    const rt_cuda_numbers *n = rt_cuda_numbers_of(caps->sm);
    const uint32_t group = a->H / a->K, rows = k ? k->rows : RT_CUDA_ATTN_PLAIN_TILE;
    bwd_cut c = { .tiles = (uint64_t)a->B * ((a->T + rows - 1) / rows) };
    const uint64_t blocks = c.tiles * a->K, target = k && k->groups ? n->attn_bwd_hopper : n->attn_bwd_blocks;
    const uint64_t wanted = (target + blocks - 1) / blocks;
    c.parts = !k ? 1 : wanted < group ? (uint32_t)wanted : group;
    c.heads = (group + c.parts - 1) / c.parts;
    c.parts = (group + c.heads - 1) / c.heads;
    c.stats = (uint64_t)a->B * a->T * a->H * sizeof(rt_cuda_attn_stat);
    c.stats = rt_align_up(c.stats, 256);
    c.sums = c.parts > 1 ? 2 * sizeof(float) * c.parts * a->B * a->T * a->K * a->D : 0;
    return c;
}

static bool bwd_need(const rt_cuda_caps *c, const rt_plan *p, const rt_op *op, rt_need *need)
{
    const rt_attn_args *a = &op->args.attn;
    const rt_dtype d = rt_plan_dtype(p, op->slot[RT_ATTNB_Q]);
    const bool aligned = rt_cuda_attn_views_aligned(op, in_tiles);
    const bwd_kernel *k = choose(c, a, d, aligned);
    const bwd_cut x = cut(c, a, choose(c, a, d, true)); /* the other way needs no more */
    *need = (rt_need){ .kernel = k ? k->text : "flash, f32",
                       .plain = k ? NULL : rt_cuda_attn_plain_why(c, d, a->D, a->scale, aligned, d == RT_DTYPE_BF16),
                       .work_bytes = x.stats + x.sums };
    return rt_cuda_attn_counts(d, a->T, (uint64_t)a->B * a->T * a->H / 32 + 1, need);
}

static rt_cuda_attn_bwd_params params_of(const rt_bound_op *op, const bwd_cut *x)
{
    const rt_attn_args *a = &op->args.attn;
    const uint64_t work = rt_cuda_addr(&op->work);
    return (rt_cuda_attn_bwd_params){ .a = *a,
                                      .dtype = rt_cuda_attn_dtype(op->slot[RT_ATTNB_Q].dtype),
                                      .scale2 = a->scale * RT_CUDA_LOG2E,
                                      .parts = x->parts,
                                      .heads = x->heads,
                                      .dq = rt_cuda_attn_mat_of(&op->slot[RT_ATTNB_DQ]),
                                      .dk = rt_cuda_attn_mat_of(&op->slot[RT_ATTNB_DK]),
                                      .dv = rt_cuda_attn_mat_of(&op->slot[RT_ATTNB_DV]),
                                      .d_o = rt_cuda_attn_mat_of(&op->slot[RT_ATTNB_DO]),
                                      .q = rt_cuda_attn_mat_of(&op->slot[RT_ATTNB_Q]),
                                      .k = rt_cuda_attn_mat_of(&op->slot[RT_ATTNB_K]),
                                      .v = rt_cuda_attn_mat_of(&op->slot[RT_ATTNB_V]),
                                      .o = rt_cuda_attn_mat_of(&op->slot[RT_ATTNB_O]),
                                      .lse = rt_cuda_attn_mat_of(&op->slot[RT_ATTNB_LSE]),
                                      .start = rt_cuda_attn_mat_of(&op->slot[RT_ATTNB_START]),
                                      .stats = work,
                                      .sums = work + x->stats };
}

static void push(rt_cuda_builder *b, const char *module, const char *kernel, uint64_t blocks, uint32_t threads,
                 uint32_t shared, const rt_cuda_attn_bwd_params *p)
{
    rt_cuda_attn_push(b, module, kernel, blocks, threads, shared, p, sizeof *p);
}

static void bwd_emit(rt_cuda_builder *b, const rt_bound_op *op)
{
    const rt_attn_args *a = &op->args.attn;
    const rt_dtype d = op->slot[RT_ATTNB_Q].dtype;
    const bool aligned = rt_cuda_attn_aligned(op, in_tiles), wide = aligned && d != RT_DTYPE_F32;
    const bwd_kernel *k = choose(rt_cuda_builder_caps(b), a, d, aligned);
    const bwd_cut x = cut(rt_cuda_builder_caps(b), a, k);
    rt_cuda_attn_bwd_params p = params_of(op, &x);
    const uint64_t queries = (uint64_t)a->B * a->T * a->H, sums = (uint64_t)a->B * a->T * a->K * a->D / 2;
    if (k && k->groups) {
        p.q_map = rt_cuda_attn_map(b, &op->slot[RT_ATTNB_Q], a, a->H);
        p.k_map = rt_cuda_attn_map(b, &op->slot[RT_ATTNB_K], a, a->K);
        p.v_map = rt_cuda_attn_map(b, &op->slot[RT_ATTNB_V], a, a->K);
        p.do_map = rt_cuda_attn_map(b, &op->slot[RT_ATTNB_DO], a, a->H);
    }
    push(b, "cuda_attn_stats", wide ? "rt_attn_stats_wide" : "rt_attn_stats", (queries + 31) / 32, 256, 0, &p);
    if (!k) {
        const uint32_t shared = rt_cuda_attn_plain_bytes(2);
        push(b, "cuda_attn_plain", "rt_attn_plain_dq", x.tiles * a->H, RT_CUDA_ATTN_PLAIN_THREADS, shared, &p);
        push(b, "cuda_attn_plain", "rt_attn_plain_dkv", x.tiles * a->K, RT_CUDA_ATTN_PLAIN_THREADS, shared, &p);
        return;
    }
    const char *const module = k->groups ? "cuda_attn_hopper_bwd" : "cuda_attn_bwd";
    const uint32_t threads = k->groups ? (k->groups + 1) * RT_CUDA_ATTN_HOPPER_GROUP : RT_CUDA_ATTN_THREADS;
    const uint64_t blocks = x.tiles * a->K * x.parts, all = x.tiles * a->H, sms = rt_cuda_builder_caps(b)->sms;
    push(b, module, k->dq, k->groups && all > sms ? sms : all, threads, shared_bytes(k), &p);
    push(b, module, k->dk, blocks, threads, shared_bytes(k), &p);
    if (k->dv) push(b, module, k->dv, blocks, threads, shared_bytes(k), &p);
    if (x.parts > 1) push(b, "cuda_attn_bwd", "rt_attn_bwd_sum", (sums + 255) / 256, 256, 0, &p);
}

const rt_cuda_op rt_cuda_attn_bwd = { bwd_need, bwd_emit };
