/* cuda_attn_fwd.c - attention forward: which kernel takes an op, and its launch.
 *
 * Owns: the op attn_fwd on this backend. One launch, a block for every tile of queries of every head; the kernels are
 * in cuda_attn_fwd.cu (tensor cores) and cuda_attn_plain.cu. Those of cuda_attn_hopper.cu, for machine code of sm_90,
 * have a block for every multiprocessor, which takes tiles in turn. Leaves to cuda_attn_host.h what the attention ops
 * share. */
#include "backend/cuda/cuda_attn_host.h"

typedef struct fwd_kernel {
    uint32_t width, queries; /* columns of a tile; queries of a block */
    uint32_t groups;         /* of cuda_attn_hopper.cu: warpgroups that compute; 0: of cuda_attn_fwd.cu */
    bool rounded;            /* rounds weights: for ops that allow it */
    const char *bf16, *f16, *text;
} fwd_kernel;

static const fwd_kernel kernels[] = {
    { 64, 192, 3, true, "rt_attn_hopper_bf16_64_rounded", "rt_attn_hopper_f16_64_rounded",
      "flash, warpgroups, width 64, 192 queries, rounded weights" },
    { 128, 128, 2, true, "rt_attn_hopper_bf16_128_rounded", "rt_attn_hopper_f16_128_rounded",
      "flash, warpgroups, width 128, 128 queries, rounded weights" },
    { 64, 192, 3, false, "rt_attn_hopper_bf16_64", "rt_attn_hopper_f16_64",
      "flash, warpgroups, width 64, 192 queries" },
    { 128, 128, 2, false, "rt_attn_hopper_bf16_128", "rt_attn_hopper_f16_128",
      "flash, warpgroups, width 128, 128 queries" },
    { 64, 128, 0, false, "rt_attn_fwd_bf16_64", "rt_attn_fwd_f16_64", "flash, tensor cores, width 64, 128 queries" },
    { 96, 128, 0, false, "rt_attn_fwd_bf16_96", "rt_attn_fwd_f16_96", "flash, tensor cores, width 96, 128 queries" },
    { 128, 128, 0, false, "rt_attn_fwd_bf16_128", "rt_attn_fwd_f16_128",
      "flash, tensor cores, width 128, 128 queries" },
    { 256, 64, 0, false, "rt_attn_fwd_bf16_256", "rt_attn_fwd_f16_256", "flash, tensor cores, width 256, 64 queries" },
};
static const uint32_t in_tiles = 1u << RT_ATTN_O | 1u << RT_ATTN_Q | 1u << RT_ATTN_K | 1u << RT_ATTN_V;

static uint32_t shared_bytes(const fwd_kernel *k)
{
    if (k->groups) return RT_CUDA_ATTN_HOPPER_SHARED(k->width, k->groups);
    return rt_cuda_attn_rows_bytes(k->queries + 2 * RT_CUDA_ATTN_FWD_KEYS, k->width);
}

/* The tensor-core kernel for operands of this type, if they are aligned; null: the plain one. */
static const fwd_kernel *choose(const rt_cuda_caps *c, const rt_attn_args *a, rt_dtype d, bool aligned)
{
    if (!aligned || (d != RT_DTYPE_BF16 && d != RT_DTYPE_F16)) return NULL;
    const uint32_t width = rt_cuda_attn_width(c, a->D, a->scale);
    for (size_t i = 0; i < sizeof kernels / sizeof *kernels; i++)
        if (kernels[i].width == width && (!kernels[i].groups || rt_cuda_attn_hopper(c, a->D, width)) &&
            (!kernels[i].rounded || a->rounded) && shared_bytes(&kernels[i]) <= c->shared_max)
            return &kernels[i];
    return NULL;
}

static uint64_t count_blocks(const rt_attn_args *a, const fwd_kernel *k)
{
    const uint32_t queries = k ? k->queries : RT_CUDA_ATTN_PLAIN_TILE;
    return (uint64_t)a->B * a->H * ((a->T + queries - 1) / queries);
}

static bool fwd_need(const rt_cuda_caps *c, const rt_plan *p, const rt_op *op, rt_need *need)
{
    const rt_attn_args *a = &op->args.attn;
    const rt_dtype d = rt_plan_dtype(p, op->slot[RT_ATTN_Q]);
    const bool aligned = rt_cuda_attn_views_aligned(op, in_tiles);
    const fwd_kernel *k = choose(c, a, d, aligned);
    *need = (rt_need){ .kernel = k ? k->text : "flash, f32, 64 queries",
                       .plain = k ? NULL : rt_cuda_attn_plain_why(c, d, a->D, a->scale, aligned, true) };
    return rt_cuda_attn_counts(d, a->T, count_blocks(a, NULL), need);
}

static void fwd_emit(rt_cuda_builder *b, const rt_bound_op *op)
{
    const rt_attn_args *a = &op->args.attn;
    const rt_dtype d = op->slot[RT_ATTN_Q].dtype;
    const fwd_kernel *k = choose(rt_cuda_builder_caps(b), a, d, rt_cuda_attn_aligned(op, in_tiles));
    rt_cuda_attn_fwd_params p = { .a = *a,
                                  .dtype = rt_cuda_attn_dtype(d),
                                  .scale2 = a->scale * RT_CUDA_LOG2E,
                                  .o = rt_cuda_attn_mat_of(&op->slot[RT_ATTN_O]),
                                  .lse = rt_cuda_attn_mat_of(&op->slot[RT_ATTN_LSE]),
                                  .q = rt_cuda_attn_mat_of(&op->slot[RT_ATTN_Q]),
                                  .k = rt_cuda_attn_mat_of(&op->slot[RT_ATTN_K]),
                                  .v = rt_cuda_attn_mat_of(&op->slot[RT_ATTN_V]),
                                  .start = rt_cuda_attn_mat_of(&op->slot[RT_ATTN_START]) };
    const uint64_t blocks = count_blocks(a, k), sms = rt_cuda_builder_caps(b)->sms;
    if (k && k->groups) {
        p.q_map = rt_cuda_attn_map(b, &op->slot[RT_ATTN_Q], a, a->H);
        p.k_map = rt_cuda_attn_map(b, &op->slot[RT_ATTN_K], a, a->K);
        p.v_map = rt_cuda_attn_map(b, &op->slot[RT_ATTN_V], a, a->K);
        rt_cuda_attn_push(b, "cuda_attn_hopper", d == RT_DTYPE_BF16 ? k->bf16 : k->f16, blocks < sms ? blocks : sms,
                          (k->groups + 1) * RT_CUDA_ATTN_HOPPER_GROUP, shared_bytes(k), &p, sizeof p);
    } else if (k) {
        rt_cuda_attn_push(b, "cuda_attn_fwd", d == RT_DTYPE_BF16 ? k->bf16 : k->f16, blocks, RT_CUDA_ATTN_THREADS,
                          shared_bytes(k), &p, sizeof p);
    } else {
        rt_cuda_attn_push(b, "cuda_attn_plain", "rt_attn_plain_fwd", blocks, RT_CUDA_ATTN_PLAIN_THREADS,
                          rt_cuda_attn_plain_bytes(1), &p, sizeof p);
    }
}

const rt_cuda_op rt_cuda_attn_fwd = { fwd_need, fwd_emit };
