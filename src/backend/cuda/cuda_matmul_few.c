/* cuda_matmul_few.c - GEMMs of few rows, bound by the bytes of their weights: which of them, how K is split, the
 * launches. The kernels are kernels/cuda_matmul_few.cu (weights of 16 bits) and cuda_matmul_packed.cu (in blocks).
 *
 * Neighbours that multiply one operand (q, k and v; gate and up) are one launch where one kernel does them. */
#include "backend/cuda/cuda_internal.h"
#include "backend/cuda/cuda_matmul_own.h"
#include "backend/cuda/cuda_numbers.h"
#include "backend/cuda/cuda_op.h"
#include "backend/cuda/kernels/cuda_dequant.h"
#include "backend/cuda/kernels/cuda_matmul_few.h"

/* ---- which kernel ---- */

enum { SIZES = 3 };
static const uint32_t most_rows[SIZES] = { 8, 16, 64 };

typedef struct kernels {
    rt_dtype dtype;
    uint32_t warp_bytes[2]; /* of shared memory: with 16 weight rows of a warp, with 32 */
    const char *name[SIZES];
} kernels;

#define PACKED(NAME, name, elems, size)                                                                                \
    { RT_DTYPE_##NAME,                                                                                                 \
      { RT_FEW_WARP_BYTES(RT_DTYPE_##NAME, RT_FEW_CHUNK / (elems) * (size), 16),                                       \
        RT_FEW_WARP_BYTES(RT_DTYPE_##NAME, RT_FEW_CHUNK / (elems) * (size), 32) },                                     \
      { "matmul_few_" #name "_8", "matmul_few_" #name "_16", "matmul_few_" #name "_64" } },
#define WORDS(NAME, name)                                                                                              \
    { RT_DTYPE_##NAME,                                                                                                 \
      { RT_FEW_WARP_BYTES_16, RT_FEW_WARP_BYTES_16 },                                                                  \
      { "matmul_few_" #name "_8", "matmul_few_" #name "_16", "matmul_few_" #name "_64" } },
static const kernels all[] = { RT_FOR_QUANTS(PACKED) WORDS(BF16, bf16) WORDS(F16, f16) };

static const kernels *kernels_of(rt_dtype d)
{
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        if (all[i].dtype == d) return &all[i];
    return NULL;
}

static uint32_t size_of(uint32_t M)
{
    uint32_t i = 0;
    while (i + 1 < SIZES && M > most_rows[i]) i++;
    return i;
}

/* Weight rows of a warp. */
static uint32_t rows_of(rt_dtype d, uint32_t size) { return rt_dtype_is_quant(d) && size == SIZES - 1 ? 32 : 16; }

static uint32_t shared_of(const kernels *k, uint32_t size)
{
    return RT_FEW_WARPS * k->warp_bytes[rows_of(k->dtype, size) == 32];
}

static bool on_16_bytes(const rt_cuda_side *s) { return s->align >= 16 && s->stride * 2 % 16 == 0; }

static bool takes(const rt_cuda_caps *c, const rt_matmul_args *m, const rt_cuda_side *s)
{
    const rt_cuda_numbers *n = rt_cuda_numbers_of(c->sm);
    const rt_dtype a = s[RT_MM_A].dtype, b = s[RT_MM_B].dtype;
    const kernels *k = kernels_of(b);
    if (c->sm < 80 || m->ta || !m->tb || !k || !on_16_bytes(&s[RT_MM_A])) return false;
    if (shared_of(k, size_of(m->M)) > c->shared_max) return false;
    if (rt_dtype_is_quant(b)) return a == RT_DTYPE_BF16 && m->M <= n->few_packed;
    return a == b && on_16_bytes(&s[RT_MM_B]) && m->K % 8 == 0 && m->M <= n->few_rows;
}

/* Warps that share weight rows: as many as keep all multiprocessors busy, and no more than there are chunks. By the
 * shape of the weight alone, so that a row's bits do not depend on how many there are. */
static uint32_t split_of(const rt_cuda_caps *c, const rt_matmul_args *m, rt_dtype d)
{
    const uint64_t chunks = cuda_div_up(m->K, rt_dtype_is_quant(d) ? RT_FEW_CHUNK : RT_FEW_CHUNK_16);
    const uint64_t wanted = (uint64_t)rt_cuda_numbers_of(c->sm)->few_warps * c->sms, groups = cuda_div_up(m->N, 16);
    uint32_t split = 1;
    while (split < RT_FEW_WARPS && groups * split < wanted && 2 * split <= chunks) split *= 2;
    return split;
}

rt_cuda_few rt_cuda_few_choose(const rt_cuda_caps *c, const rt_matmul_args *m, const rt_cuda_side *s)
{
    static const char *const text[] = { "few rows, tensor cores", "few rows, tensor cores, K in 2",
                                        "few rows, tensor cores, K in 4", "few rows, tensor cores, K in 8" };
    rt_cuda_few f = { 0 };
    if (!takes(c, m, s)) return f;
    f.split = split_of(c, m, s[RT_MM_B].dtype);
    f.text = text[f.split == 8 ? 3 : f.split / 2];
    return f;
}

/* ---- launches ---- */

static bool same(const rt_operand *a, const rt_operand *b)
{
    return a->mem == b->mem && a->off == b->off && a->dtype == b->dtype && a->rows == b->rows && a->cols == b->cols &&
           a->stride == b->stride;
}

static bool joins(const rt_bound_op *ops, uint32_t i)
{
    bool yes = same(&ops[i].slot[RT_MM_A], &ops->slot[RT_MM_A]) &&
               ops[i].slot[RT_MM_B].dtype == ops->slot[RT_MM_B].dtype && !ops[i].args.matmul.ta &&
               ops[i].args.matmul.tb;
    for (uint32_t k = 0; k < i; k++) yes = yes && cuda_apart(&ops[k], &ops[i], 0);
    return yes;
}

static rt_cuda_few_tensor tensor_of(const rt_bound_op *o)
{
    const rt_operand *b = &o->slot[RT_MM_B], *out = &o->slot[RT_MM_OUT], *bias = &o->slot[RT_MM_BIAS];
    return (rt_cuda_few_tensor){ .b = rt_cuda_addr(b),
                                 .b_step = rt_dtype_bytes(b->dtype, b->stride),
                                 .b_row = rt_dtype_bytes(b->dtype, b->cols),
                                 .out = cuda_mat(out),
                                 .bias = rt_cuda_addr(bias),
                                 .N = o->args.matmul.N,
                                 .out_type = out->dtype,
                                 .bias_type = bias->dtype,
                                 .acc = cuda_adds(o, RT_MM_OUT),
                                 .alpha = o->args.matmul.alpha };
}

uint32_t rt_cuda_few_push(rt_cuda_builder *b, const rt_bound_op *ops, const rt_cuda_few *few, uint32_t n)
{
    const rt_matmul_args *m = &ops->args.matmul;
    const kernels *k = kernels_of(ops->slot[RT_MM_B].dtype);
    const uint32_t size = size_of(m->M), rows = rows_of(k->dtype, size) * (RT_FEW_WARPS / few->split);
    rt_cuda_few_params p = { .a = cuda_mat(&ops->slot[RT_MM_A]),
                             .M = m->M,
                             .K = m->K,
                             .tiles_m = (uint32_t)cuda_div_up(m->M, most_rows[size]),
                             .split = few->split };
    uint64_t blocks = 0;
    for (; p.count < n && p.count < RT_FEW_TENSORS; p.count++) {
        const rt_bound_op *o = &ops[p.count];
        const uint64_t own = cuda_div_up(o->args.matmul.N, rows) * p.tiles_m;
        if (p.count && (few[p.count].split != few->split || !joins(ops, p.count) || blocks + own > RT_CUDA_GRID_MAX))
            break;
        p.tensor[p.count] = tensor_of(o);
        p.tensor[p.count].first = (uint32_t)blocks;
        blocks += own;
    }
    if (blocks > RT_CUDA_GRID_MAX) {
        rt_cuda_builder_fail(b, RT_UNSUPPORTED, "the GEMM has more tiles than a launch has blocks");
        return 1;
    }
    cuda_push_1d(b, rt_dtype_is_quant(k->dtype) ? "cuda_matmul_packed" : "cuda_matmul_few", k->name[size],
                 (uint32_t)blocks, RT_FEW_THREADS, shared_of(k, size), &p, sizeof p);
    return p.count;
}
