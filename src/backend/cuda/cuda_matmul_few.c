/* cuda_matmul_few.c - GEMMs of few rows, bound by the bytes of their weights: which of them, how K is split, the
 * launches. The kernels are kernels/cuda_matmul_few.cu (weights of 16 bits), cuda_matmul_packed.cu (in blocks, up to 16
 * rows) and cuda_matmul_packed_many.cu (more).
 *
 * Neighbours that multiply one operand (q, k and v; gate and up) are one launch where one kernel does them. */
#include "backend/cuda/kernels/cuda_matmul_few.h"
#include "backend/cuda/cuda_internal.h"
#include "backend/cuda/cuda_matmul_own.h"
#include "backend/cuda/cuda_numbers.h"
#include "backend/cuda/cuda_op.h"
#include "backend/cuda/kernels/cuda_dequant.h"

/* ---- which kernel ---- */

typedef struct kernel {
    const char *module, *name;
    uint32_t rows;   /* most, of a block; a GEMM of more has several */
    uint32_t warps;  /* of a block */
    uint32_t shared; /* bytes */
    bool many;       /* blocks have parts of K, and not warps */
} kernel;

enum { SIZES = 4 };
typedef struct kernels {
    rt_dtype dtype;
    kernel size[SIZES]; /* rows of 0: none */
} kernels;

#define FEW(module, name, rows, bytes)                                                                                 \
    {                                                                                                                  \
        module, "matmul_few_" name "_" #rows, rows, RT_FEW_WARPS, RT_FEW_WARPS *(bytes), false                         \
    }
#define MANY(NAME, name, rows, bytes)                                                                                  \
    {                                                                                                                  \
        "cuda_matmul_packed_many", "matmul_many_" name "_" #rows, rows, RT_MANY_WARPS(bytes),                          \
            RT_MANY_BYTES(RT_DTYPE_##NAME, bytes, rows), true                                                          \
    }
#define CHUNK_BYTES(elems, size) (RT_FEW_CHUNK / (elems) * (size))
#define WARP_BYTES(NAME, bytes) RT_FEW_WARP_BYTES(RT_DTYPE_##NAME, bytes, RT_FEW_STAGES(RT_DTYPE_##NAME, bytes))
#define PACKED(NAME, name, elems, size)                                                                                \
    { RT_DTYPE_##NAME,                                                                                                 \
      { FEW("cuda_matmul_packed", #name, 8, WARP_BYTES(NAME, CHUNK_BYTES(elems, size))),                               \
        FEW("cuda_matmul_packed", #name, 16, WARP_BYTES(NAME, CHUNK_BYTES(elems, size))),                              \
        MANY(NAME, #name, 32, CHUNK_BYTES(elems, size)), MANY(NAME, #name, 64, CHUNK_BYTES(elems, size)) } },
#define WORDS(NAME, name)                                                                                              \
    { RT_DTYPE_##NAME,                                                                                                 \
      { FEW("cuda_matmul_few", #name, 8, RT_FEW_WARP_BYTES_16),                                                        \
        FEW("cuda_matmul_few", #name, 16, RT_FEW_WARP_BYTES_16) } },
static const kernels all[] = { RT_FOR_QUANTS(PACKED) WORDS(BF16, bf16) WORDS(F16, f16) };

/* Null: there is none. */
static const kernel *kernel_of(rt_dtype d, uint32_t M)
{
    const kernel *best = NULL;
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        for (uint32_t k = 0; k < SIZES && all[i].dtype == d && (!best || best->rows < M); k++)
            if (all[i].size[k].rows) best = &all[i].size[k];
    return best;
}

static bool on_16_bytes(const rt_cuda_side *s) { return s->align >= 16 && s->stride * 2 % 16 == 0; }

static bool takes(const rt_cuda_caps *c, const rt_matmul_args *m, const rt_cuda_side *s)
{
    const rt_cuda_numbers *n = rt_cuda_numbers_of(c->sm);
    const rt_dtype a = s[RT_MM_A].dtype, b = s[RT_MM_B].dtype;
    const kernel *k = kernel_of(b, m->M);
    if (c->sm < 80 || m->ta || !m->tb || !k || !on_16_bytes(&s[RT_MM_A]) || k->shared > c->shared_max) return false;
    if (rt_dtype_is_quant(b)) return a == RT_DTYPE_BF16 && m->M <= n->few_packed;
    return a == b && on_16_bytes(&s[RT_MM_B]) && m->K % 8 == 0 && m->M <= n->few_rows;
}

/* How many warps share weight rows, or blocks: what takes the fewest rounds of the whole GPU, a chunk and what a round
 * costs besides (`few_round`, in quarters of a chunk) each. By the shape of the weight alone. */
static uint32_t split_of(const rt_cuda_caps *c, const rt_matmul_args *m, rt_dtype d, const kernel *k)
{
    const rt_cuda_numbers *n = rt_cuda_numbers_of(c->sm);
    const uint64_t chunks = cuda_div_up(m->K, rt_dtype_is_quant(d) ? RT_FEW_CHUNK : RT_FEW_CHUNK_16);
    const uint64_t groups = cuda_div_up(m->N, 16), at_once = (uint64_t)n->few_warps * c->sms;
    const uint64_t tiles = cuda_div_up(groups, k->warps) * cuda_div_up(m->M, k->rows), most = k->many ? 16 : k->warps;
    uint64_t least = UINT64_MAX;
    uint32_t best = 1;
    for (uint32_t split = 1; split <= most && split <= chunks; split += k->many ? 1 : split) {
        const uint64_t rounds = k->many ? cuda_div_up(tiles * split, c->sms) : cuda_div_up(groups * split, at_once);
        const uint64_t cost = rounds * (4 * cuda_div_up(chunks, split) + n->few_round) + (k->many && split > 1 ? 8 : 0);
        if (cost >= least) continue;
        least = cost;
        best = split;
    }
    return best;
}

static const char *text_of(const kernel *k, uint32_t split)
{
#define PARTS(text)                                                                                                    \
    {                                                                                                                  \
        text, text ", K in 2", text ", K in 3", text ", K in 4", text ", K in 5", text ", K in 6", text ", K in 7",    \
            text ", K in 8", text ", K in 9", text ", K in 10", text ", K in 11", text ", K in 12", text ", K in 13",  \
            text ", K in 14", text ", K in 15", text ", K in 16"                                                       \
    }
    static const char *const text[2][16] = { PARTS("few rows, tensor cores"), PARTS("some rows, tensor cores") };
    return text[k->many][split - 1];
}

rt_cuda_few rt_cuda_few_choose(const rt_cuda_caps *c, const rt_matmul_args *m, const rt_cuda_side *s)
{
    rt_cuda_few f = { 0 };
    if (!takes(c, m, s)) return f;
    const kernel *k = kernel_of(s[RT_MM_B].dtype, m->M);
    f.split = split_of(c, m, s[RT_MM_B].dtype, k);
    f.text = text_of(k, f.split);
    if (k->many && f.split > 1) f.work_bytes = (uint64_t)f.split * m->M * m->N * sizeof(float);
    return f;
}

/* ---- launches ---- */

static bool same(const rt_operand *a, const rt_operand *b)
{
    return a->mem == b->mem && a->off == b->off && a->dtype == b->dtype && a->rows == b->rows && a->cols == b->cols &&
           a->stride == b->stride;
}

/* Is the scratch of a nobody else's? It need not last longer than its op. */
static bool keeps_scratch(const rt_bound_op *a, const rt_bound_op *b)
{
    bool yes = !cuda_meet(&a->work, &b->work);
    for (uint32_t i = 0; i < b->nslots; i++) yes = yes && !cuda_meet(&a->work, &b->slot[i]);
    return yes;
}

static bool joins(const rt_bound_op *ops, uint32_t i)
{
    bool yes = same(&ops[i].slot[RT_MM_A], &ops->slot[RT_MM_A]) &&
               ops[i].slot[RT_MM_B].dtype == ops->slot[RT_MM_B].dtype && !ops[i].args.matmul.ta &&
               ops[i].args.matmul.tb;
    for (uint32_t k = 0; k < i; k++)
        yes = yes && cuda_apart(&ops[k], &ops[i], 0) && keeps_scratch(&ops[k], &ops[i]) &&
              keeps_scratch(&ops[i], &ops[k]);
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
                                 .sums = rt_cuda_addr(&o->work),
                                 .N = o->args.matmul.N,
                                 .out_type = out->dtype,
                                 .bias_type = bias->dtype,
                                 .acc = cuda_adds(o, RT_MM_OUT),
                                 .alpha = o->args.matmul.alpha };
}

/* A second launch for each, of parts of K. */
static void push_joins(rt_cuda_builder *b, const rt_cuda_few_params *p)
{
    rt_cuda_few_params one = *p;
    one.count = 1;
    for (uint32_t i = 0; i < p->count; i++) {
        one.tensor[0] = p->tensor[i];
        cuda_push_1d(b, "cuda_matmul_few", "matmul_few_join",
                     (uint32_t)cuda_div_up((uint64_t)p->M * one.tensor[0].N, RT_CUDA_BLOCK), RT_CUDA_BLOCK, 0, &one,
                     sizeof one);
    }
}

uint32_t rt_cuda_few_push(rt_cuda_builder *b, const rt_bound_op *ops, const rt_cuda_few *few, uint32_t n)
{
    const rt_matmul_args *m = &ops->args.matmul;
    const kernel *k = kernel_of(ops->slot[RT_MM_B].dtype, m->M);
    const uint32_t rows = 16 * k->warps / (k->many ? 1 : few->split);
    rt_cuda_few_params p = { .a = cuda_mat(&ops->slot[RT_MM_A]),
                             .M = m->M,
                             .K = m->K,
                             .tiles_m = (uint32_t)cuda_div_up(m->M, k->rows),
                             .split = few->split };
    uint64_t blocks = 0;
    for (; p.count < n && p.count < RT_FEW_TENSORS; p.count++) {
        const rt_bound_op *o = &ops[p.count];
        const uint64_t own = cuda_div_up(o->args.matmul.N, rows) * p.tiles_m * (k->many ? few->split : 1);
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
    cuda_push_1d(b, k->module, k->name, (uint32_t)blocks, 32 * k->warps, k->shared, &p, sizeof p);
    if (k->many && few->split > 1) push_joins(b, &p);
    return p.count;
}
