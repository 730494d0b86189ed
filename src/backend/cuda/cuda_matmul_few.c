/* cuda_matmul_few.c - GEMMs of few rows, bound by the bytes of their weights: which of them, how K is split, the
 * launches. The kernels are kernels/cuda_matmul_few.cu (weights of 16 bits), cuda_matmul_packed.cu (in blocks, up to 16
 * rows) and cuda_matmul_packed_many.cu (more); of one row cuda_matmul_one.cu and cuda_matmul_one_packed.cu.
 *
 * Neighbours that multiply one operand (q, k and v; gate and up) are one launch where one kernel does them. */
#include "backend/cuda/kernels/cuda_matmul_few.h"
#include "backend/cuda/cuda_internal.h"
#include "backend/cuda/cuda_matmul_own.h"
#include "backend/cuda/cuda_numbers.h"
#include "backend/cuda/cuda_op.h"
#include "backend/cuda/kernels/cuda_dequant.h"
#include "backend/cuda/kernels/cuda_matmul_one.h"

/* ---- one row ----
 *
 * A block has a multiprocessor to itself, and all blocks begin together: weight rows are dealt so that none has more
 * than one more than another of the same matrix (packed: 16 more). */

typedef struct one_cut {
    uint32_t blocks, warps, shared; /* blocks of all tensors; warps and bytes of each */
} one_cut;

enum { LEAST_WARPS = 4, SUMS = 16 << 10 }; /* what K has to leave room for: warps, and bytes of sums */

/* Shared memory of packed weights: bytes of a warp; of a chunk of a. */
typedef struct packed {
    uint32_t warp, chunk;
} packed;

static packed packed_of(rt_dtype d)
{
    static const packed all[RT_DTYPE_COUNT] = {
#define X(NAME, name, elems, size)                                                                                     \
    [RT_DTYPE_##NAME] = { RT_ONE_WARP_BYTES(RT_DTYPE_##NAME, RT_FEW_CHUNK / (elems) * (size)),                         \
                          RT_ONE_CHUNK_BYTES(RT_DTYPE_##NAME) },
        RT_FOR_QUANTS(X)
#undef X
    };
    return all[d];
}

static uint32_t chunks_of(uint32_t K) { return (K + RT_FEW_CHUNK - 1) / RT_FEW_CHUNK; }

/* Is K short enough for the shared memory of a block? */
static bool one_takes(const rt_cuda_caps *c, rt_dtype weights, uint32_t K)
{
    const packed x = packed_of(weights);
    if (!rt_dtype_is_quant(weights)) return K <= RT_ONE_WARPS * RT_ONE_PART;
    return (uint64_t)chunks_of(K) * x.chunk + LEAST_WARPS * x.warp + SUMS <= c->shared_max;
}

/* Gives each tensor its share of the multiprocessors, in units of weight rows. Returns the most that a block has. */
static uint32_t deal(const rt_cuda_caps *c, rt_cuda_few_params *p, uint32_t unit, uint32_t *blocks)
{
    uint64_t all = 0;
    uint32_t most = 0;
    *blocks = 0;
    for (uint32_t i = 0; i < p->count; i++) all += cuda_div_up(p->tensor[i].N, unit);
    for (uint32_t i = 0; i < p->count; i++) {
        rt_cuda_few_tensor *t = &p->tensor[i];
        const uint64_t units = cuda_div_up(t->N, unit), share = c->sms * units / all;
        t->first = *blocks;
        t->blocks = (uint32_t)(share < 1 ? 1 : share > units ? units : share);
        *blocks += t->blocks;
        if (cuda_div_up(units, t->blocks) > most) most = (uint32_t)cuda_div_up(units, t->blocks);
    }
    return most;
}

/* Warps that have chunks of one 16 of weight rows, at most, where a block has so many 16s. */
static uint32_t parts_of(uint32_t groups, uint32_t chunks, uint32_t warps)
{
    const uint32_t units = groups * chunks, busy = units < warps ? units : warps;
    const uint32_t most = (uint32_t)cuda_div_up(chunks - 1, units / busy) + 1;
    return most < busy ? most : busy;
}

/* Of a launch whose K and tensors are in p: fills their blocks in, and p's split. */
static one_cut one_deal(const rt_cuda_caps *c, rt_dtype weights, rt_cuda_few_params *p)
{
    one_cut cut = { .warps = RT_ONE_WARPS };
    if (!rt_dtype_is_quant(weights)) {
        p->split = (uint32_t)cuda_div_up(p->K, RT_ONE_PART);
        cut.warps = RT_ONE_WARPS / p->split * p->split;
        cut.shared = deal(c, p, 1, &cut.blocks) * p->split * (uint32_t)sizeof(float);
        return cut;
    }
    const packed x = packed_of(weights);
    const uint32_t chunks = chunks_of(p->K), groups = deal(c, p, 16, &cut.blocks);
    for (;; cut.warps--) {
        p->split = parts_of(groups, chunks, cut.warps);
        if (groups > 1 && parts_of(groups - 1, chunks, cut.warps) > p->split)
            p->split = parts_of(groups - 1, chunks, cut.warps);
        cut.shared = cut.warps * x.warp + chunks * x.chunk + groups * p->split * 16 * (uint32_t)sizeof(float);
        if (cut.shared <= c->shared_max || cut.warps == 1) return cut;
    }
}

/* ---- which kernel ---- */

typedef struct kernel {
    const char *module, *name;
    uint32_t rows;          /* most, of a block; a GEMM of more has several */
    uint32_t warps, shared; /* of a block; bytes. Of one row: see below */
    bool many;              /* blocks have parts of K, and not warps */
} kernel;

enum { SIZES = 5 };
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
        "cuda_matmul_packed_many", "matmul_many_" name "_" #rows, rows, RT_MANY_WARPS(RT_DTYPE_##NAME, bytes),         \
            RT_MANY_BYTES(RT_DTYPE_##NAME, bytes, rows), true                                                          \
    }
#define ONE(module, name)                                                                                              \
    {                                                                                                                  \
        module, "matmul_one_" name, 1, RT_ONE_WARPS, 0, false                                                          \
    }
#define CHUNK_BYTES(elems, size) (RT_FEW_CHUNK / (elems) * (size))
#define WARP_BYTES(NAME, bytes) RT_FEW_WARP_BYTES(RT_DTYPE_##NAME, bytes, RT_FEW_STAGES(RT_DTYPE_##NAME, bytes))
#define PACKED(NAME, name, elems, size)                                                                                \
    { RT_DTYPE_##NAME,                                                                                                 \
      { ONE("cuda_matmul_one_packed", #name),                                                                          \
        FEW("cuda_matmul_packed", #name, 8, WARP_BYTES(NAME, CHUNK_BYTES(elems, size))),                               \
        FEW("cuda_matmul_packed", #name, 16, WARP_BYTES(NAME, CHUNK_BYTES(elems, size))),                              \
        MANY(NAME, #name, 32, CHUNK_BYTES(elems, size)), MANY(NAME, #name, 64, CHUNK_BYTES(elems, size)) } },
#define WORDS(NAME, name)                                                                                              \
    { RT_DTYPE_##NAME,                                                                                                 \
      { ONE("cuda_matmul_one", #name), FEW("cuda_matmul_few", #name, 8, RT_FEW_WARP_BYTES_16),                         \
        FEW("cuda_matmul_few", #name, 16, RT_FEW_WARP_BYTES_16) } },
static const kernels all[] = { RT_FOR_QUANTS(PACKED) WORDS(BF16, bf16) WORDS(F16, f16) };

/* Null: there is none. */
static const kernel *kernel_of(const rt_cuda_caps *c, rt_dtype d, const rt_matmul_args *m)
{
    const kernel *best = NULL;
    const uint32_t least = one_takes(c, d, m->K) ? 1 : 2;
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        for (uint32_t k = 0; k < SIZES && all[i].dtype == d && (!best || best->rows < m->M); k++)
            if (all[i].size[k].rows >= least) best = &all[i].size[k];
    return best;
}

static bool on_16_bytes(const rt_cuda_side *s) { return s->align >= 16 && s->stride * 2 % 16 == 0; }

/* Kernels of these types were mended after they last ran on a GPU: until `retort verify --op matmul` has passed on one
 * their blocks are dequantised first, as those of many rows are. */
static bool unproven(rt_dtype d)
{
    return d == RT_DTYPE_Q8_0 || d == RT_DTYPE_Q4_0 || d == RT_DTYPE_Q5_0 || d == RT_DTYPE_IQ4_NL;
}

static bool takes(const rt_cuda_caps *c, const rt_matmul_args *m, const rt_cuda_side *s)
{
    const rt_cuda_numbers *n = rt_cuda_numbers_of(c->sm);
    const rt_dtype a = s[RT_MM_A].dtype, b = s[RT_MM_B].dtype;
    const kernel *k = kernel_of(c, b, m);
    if (c->sm < 80 || m->ta || !m->tb || !k || !on_16_bytes(&s[RT_MM_A]) || k->shared > c->shared_max) return false;
    if (rt_dtype_is_quant(b)) return !unproven(b) && a == RT_DTYPE_BF16 && m->M <= n->few_packed;
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
    if (k->rows == 1) return "one row";
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
    const kernel *k = kernel_of(c, s[RT_MM_B].dtype, m);
    f.split = k->rows == 1 ? 1 : split_of(c, m, s[RT_MM_B].dtype, k);
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
    const rt_cuda_caps *c = rt_cuda_builder_caps(b);
    const kernel *k = kernel_of(c, ops->slot[RT_MM_B].dtype, m);
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
    one_cut cut = { (uint32_t)blocks, k->warps, k->shared };
    if (k->rows == 1) cut = one_deal(c, ops->slot[RT_MM_B].dtype, &p);
    cuda_push_1d(b, k->module, k->name, cut.blocks, 32 * cut.warps, cut.shared, &p, sizeof p);
    if (k->many && few->split > 1) push_joins(b, &p);
    return p.count;
}
