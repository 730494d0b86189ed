/* cuda_attn_decode.c - attention over the cache: which kernel takes an op, how the cache is cut, and the launches.
 *
 * Owns: the op attn_decode on this backend. Two launches: a block for every (sequence, kv head, block of query rows,
 * split of the keys), which leaves its part in scratch, and the join of the parts (cuda_attn_join.cu). Scratch: 2 + D
 * words for every query row and split. */
#include "backend/cuda/cuda_attn_host.h"
#include "backend/cuda/cuda_numbers.h"

typedef struct decode_kernel {
    uint32_t width;
    const char *bf16, *f16, *text;
} decode_kernel;

static const decode_kernel kernels[] = {
    { 64, "rt_attn_decode_bf16_64", "rt_attn_decode_f16_64", "splits of the cache, tensor cores, width 64" },
    { 128, "rt_attn_decode_bf16_128", "rt_attn_decode_f16_128", "splits of the cache, tensor cores, width 128" },
    { 256, "rt_attn_decode_bf16_256", "rt_attn_decode_f16_256", "splits of the cache, tensor cores, width 256" },
};
static const uint32_t in_tiles = 1u << RT_DEC_Q | 1u << RT_DEC_KC | 1u << RT_DEC_VC;

/* Queries, keys and values; the join of the warps takes less. */
static uint32_t shared_bytes(const decode_kernel *k)
{
    return rt_cuda_attn_rows_bytes(RT_CUDA_ATTN_DECODE_ROWS + 2 * RT_CUDA_ATTN_DECODE_KEYS, k->width);
}

static const decode_kernel *choose(const rt_cuda_caps *c, const rt_decode_args *a, rt_dtype d, bool aligned)
{
    if (!aligned || (d != RT_DTYPE_BF16 && d != RT_DTYPE_F16)) return NULL;
    const uint32_t width = rt_cuda_attn_width(c, a->D, a->scale);
    for (size_t i = 0; width && i < sizeof kernels / sizeof *kernels; i++)
        if (kernels[i].width >= width && shared_bytes(&kernels[i]) <= c->shared_max) return &kernels[i];
    return NULL;
}

typedef struct decode_cut {
    uint32_t blocks, splits;
    uint64_t rows, tops, outs; /* query rows of all kv heads; bytes of scratch */
} decode_cut;

/* By shape alone, as if the cache were full. */
static decode_cut cut(const rt_cuda_caps *caps, const rt_decode_args *a, const decode_kernel *k)
{
    const rt_cuda_numbers *n = rt_cuda_numbers_of(caps->sm);
    const uint32_t block = k ? RT_CUDA_ATTN_DECODE_ROWS : RT_CUDA_ATTN_PLAIN_TILE;
    const uint64_t R = (uint64_t)a->Q * (a->H / a->K), most = (a->S + n->decode_keys - 1) / n->decode_keys;
    decode_cut c = { .blocks = (uint32_t)((R + block - 1) / block), .rows = (uint64_t)a->B * a->K * R };
    const uint64_t units = (uint64_t)a->B * a->K * c.blocks, wanted = (n->decode_blocks + units - 1) / units;
    c.splits = (uint32_t)(wanted < most ? wanted : most);
    c.tops = rt_align_up(c.rows * c.splits * 2 * sizeof(float), 256);
    c.outs = c.rows * c.splits * a->D * sizeof(float);
    return c;
}

static bool decode_need(const rt_cuda_caps *c, const rt_plan *p, const rt_op *op, rt_need *need)
{
    const rt_decode_args *a = &op->args.decode;
    const rt_dtype d = rt_plan_dtype(p, op->slot[RT_DEC_Q]);
    const bool aligned = rt_cuda_attn_views_aligned(op, in_tiles);
    const decode_kernel *k = choose(c, a, d, aligned);
    const decode_cut x = cut(c, a, choose(c, a, d, true)), plain = cut(c, a, NULL);
    const uint64_t R = (uint64_t)a->Q * (a->H / a->K), bytes = x.tops + x.outs, plain_bytes = plain.tops + plain.outs;
    *need = (rt_need){ .kernel = k ? k->text : "splits of the cache, f32",
                       .plain = k ? NULL : rt_cuda_attn_plain_why(c, d, a->D, a->scale, aligned, true),
                       .work_bytes = bytes > plain_bytes ? bytes : plain_bytes };
    return rt_cuda_attn_counts(d, a->S > R ? a->S : R, (uint64_t)a->B * a->K * x.blocks * x.splits, need);
}

static void decode_emit(rt_cuda_builder *b, const rt_bound_op *op)
{
    const rt_decode_args *a = &op->args.decode;
    const rt_dtype d = op->slot[RT_DEC_Q].dtype;
    const decode_kernel *k = choose(rt_cuda_builder_caps(b), a, d, rt_cuda_attn_aligned(op, in_tiles));
    const decode_cut x = cut(rt_cuda_builder_caps(b), a, k);
    const uint64_t work = rt_cuda_addr(&op->work), blocks = (uint64_t)a->B * a->K * x.blocks * x.splits;
    const rt_cuda_attn_decode_params p = { .a = *a,
                                           .dtype = rt_cuda_attn_dtype(d),
                                           .scale2 = a->scale * RT_CUDA_LOG2E,
                                           .splits = x.splits,
                                           .blocks = x.blocks,
                                           .o = rt_cuda_attn_mat_of(&op->slot[RT_DEC_O]),
                                           .q = rt_cuda_attn_mat_of(&op->slot[RT_DEC_Q]),
                                           .kc = rt_cuda_attn_mat_of(&op->slot[RT_DEC_KC]),
                                           .vc = rt_cuda_attn_mat_of(&op->slot[RT_DEC_VC]),
                                           .len = rt_cuda_attn_mat_of(&op->slot[RT_DEC_LEN]),
                                           .table = rt_cuda_attn_mat_of(&op->slot[RT_DEC_TABLE]),
                                           .tops = work,
                                           .outs = work + x.tops };
    if (k)
        rt_cuda_attn_push(b, "cuda_attn_decode", d == RT_DTYPE_BF16 ? k->bf16 : k->f16, blocks, RT_CUDA_ATTN_THREADS,
                          shared_bytes(k), &p, sizeof p);
    else
        rt_cuda_attn_push(b, "cuda_attn_join", "rt_attn_decode_plain", blocks, RT_CUDA_ATTN_PLAIN_THREADS,
                          rt_cuda_attn_plain_bytes(1), &p, sizeof p);
    rt_cuda_attn_push(b, "cuda_attn_join", "rt_attn_decode_join", (x.rows + 7) / 8, 256, 0, &p, sizeof p);
}

const rt_cuda_op rt_cuda_attn_decode = { decode_need, decode_emit };
