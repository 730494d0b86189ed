/* cuda_gemm.c - products by cuBLASLt: one algorithm per shape, chosen once, described in words, launched.
 *
 * Owns: from row-major views to the library's column-major layouts, the choice of algorithm and its name in a program's
 * hash, the first launch of each (the library loads its kernels lazily). The library's own choice is taken, out of
 * those that add up partial sums in f32 in a fixed order; the same library on the same GPU chooses the same. Row-major
 * out = a b is column-major out' = b' a', so the library's A is our b.
 *
 * Leaves to cuda_matmul.c: which products come here. */
#include "backend/cuda/cuda_internal.h"

#include <stdio.h>
#include <string.h>

struct rt_cuda_gemm {
    rt_cuda_gemm *next;
    rt_cuda_gemm_key key;
    bool usable, used, warm; /* used: by a program that was prepared */
    void *desc, *a, *b, *out;
    rt_lt_choice choice;
    uint32_t splits;
    char text[112];
};

static int lt_type(uint32_t dtype)
{
    return dtype == RT_DTYPE_F32 ? RT_LT_F32 : dtype == RT_DTYPE_BF16 ? RT_LT_BF16 : RT_LT_F16;
}

static void release(rt_cuda_dev *d, rt_cuda_gemm *g)
{
    if (g->desc) d->lt.desc_free(g->desc);
    if (g->a) d->lt.layout_free(g->a);
    if (g->b) d->lt.layout_free(g->b);
    if (g->out) d->lt.layout_free(g->out);
    g->desc = g->a = g->b = g->out = NULL;
}

/* Descriptors of the product. The address of a bias is set before each launch; here it tells its alignment. */
static bool describe(rt_cuda_dev *d, rt_cuda_gemm *g)
{
    const rt_cuda_gemm_key *k = &g->key;
    int type = lt_type(k->type), out = lt_type(k->out_type), yes = RT_LT_TRANSPOSE, bias = RT_LT_EPILOGUE_BIAS;
    bool ok = d->lt.desc_new(&g->desc, RT_LT_COMPUTE_F32, RT_LT_F32) == 0;
    if (k->tb) ok = ok && d->lt.desc_set(g->desc, RT_LT_DESC_TRANS_A, &yes, sizeof yes) == 0;
    if (k->ta) ok = ok && d->lt.desc_set(g->desc, RT_LT_DESC_TRANS_B, &yes, sizeof yes) == 0;
    if (k->bias_type != RT_CUDA_NO_BIAS) {
        int bias_type = lt_type(k->bias_type);
        const void *aligned = (const void *)(uintptr_t)k->align_bias;
        ok = ok && d->lt.desc_set(g->desc, RT_LT_DESC_EPILOGUE, &bias, sizeof bias) == 0 &&
             d->lt.desc_set(g->desc, RT_LT_DESC_BIAS_TYPE, &bias_type, sizeof bias_type) == 0 &&
             d->lt.desc_set(g->desc, RT_LT_DESC_BIAS, &aligned, sizeof aligned) == 0;
    }
    return ok && d->lt.layout_new(&g->a, type, k->tb ? k->K : k->N, k->tb ? k->N : k->K, (int64_t)k->stride_b) == 0 &&
           d->lt.layout_new(&g->b, type, k->ta ? k->M : k->K, k->ta ? k->K : k->M, (int64_t)k->stride_a) == 0 &&
           d->lt.layout_new(&g->out, out, k->N, k->M, (int64_t)k->stride_out) == 0;
}

static bool choose(rt_cuda_dev *d, rt_cuda_gemm *g)
{
    const rt_cuda_gemm_key *k = &g->key;
    const uint32_t align[] = { k->align_b, k->align_a, k->align_out, k->align_out };
    uint64_t most = RT_CUDA_GEMM_WORK;
    uint32_t reductions = RT_LT_REDUCTION_COMPUTE_TYPE;
    void *pref = NULL;
    int found = 0;
    bool ok = d->lt.pref_new(&pref) == 0 && d->lt.pref_set(pref, RT_LT_PREF_WORK_BYTES, &most, sizeof most) == 0 &&
              d->lt.pref_set(pref, RT_LT_PREF_REDUCTIONS, &reductions, sizeof reductions) == 0;
    for (int i = 0; i < 4; i++)
        ok = ok && d->lt.pref_set(pref, RT_LT_PREF_ALIGN_A + i, &align[i], sizeof align[i]) == 0;
    ok = ok && d->lt.choose(d->lt_handle, g->desc, g->a, g->b, g->out, g->out, pref, 1, &g->choice, &found) == 0;
    if (pref) d->lt.pref_free(pref);
    return ok && found > 0 && g->choice.state == 0;
}

/* The algorithm in words: it enters the program's hash. */
static void name(rt_cuda_dev *d, rt_cuda_gemm *g)
{
    static const struct {
        int which;
        const char *text;
        size_t bytes;
    } part[] = { { RT_LT_CONFIG_ID, "algorithm", 4 },    { RT_LT_CONFIG_TILE, "tile", 4 },
                 { RT_LT_CONFIG_STAGES, "stages", 4 },   { RT_LT_CONFIG_SPLIT_K, "split", 4 },
                 { RT_LT_CONFIG_SWIZZLE, "swizzle", 4 }, { RT_LT_CONFIG_CUSTOM, "custom", 4 },
                 { RT_LT_CONFIG_CLUSTER, "cluster", 2 } };
    size_t n = (size_t)snprintf(g->text, sizeof g->text, "cublaslt");
    for (size_t i = 0; i < sizeof part / sizeof *part; i++) {
        uint32_t value = 0;
        size_t written = 0;
        if (d->lt.config(&g->choice.algo, part[i].which, &value, part[i].bytes, &written) == 0 && n < sizeof g->text)
            n += (size_t)snprintf(g->text + n, sizeof g->text - n, " %s %u", part[i].text, value);
        if (part[i].which == RT_LT_CONFIG_SPLIT_K) g->splits = value > 1 ? value : 1;
    }
}

rt_cuda_gemm *rt_cuda_gemm_find(rt_cuda_dev *d, const rt_cuda_gemm_key *k)
{
    if (!d->lt_handle) return NULL;
    for (rt_cuda_gemm *g = d->gemms; g; g = g->next)
        if (memcmp(&g->key, k, sizeof *k) == 0) return g->usable ? g : NULL;
    rt_cuda_gemm *g = rt_alloc_zero(sizeof *g, 16);
    if (!g) return NULL;
    g->key = *k;
    g->usable = describe(d, g) && choose(d, g);
    if (g->usable)
        name(d, g);
    else
        release(d, g);
    g->next = d->gemms;
    d->gemms = g;
    return g->usable ? g : NULL;
}

uint64_t rt_cuda_gemm_work(const rt_cuda_gemm *g) { return g->choice.work_bytes; }
const char *rt_cuda_gemm_text(const rt_cuda_gemm *g) { return g->text; }
uint32_t rt_cuda_gemm_splits(const rt_cuda_gemm *g) { return g->splits; }

static const void *host_of(rt_cu_ptr p) { return (const void *)(uintptr_t)p; }

int rt_cuda_gemm_run(rt_cuda_dev *d, const rt_cuda_gemm *g, const rt_cuda_gemm_io *io, rt_err *e)
{
    int rc;
    float beta = g->key.acc ? 1.0f : 0.0f;
    const void *bias = host_of(io->bias);
    void *out = (void *)(uintptr_t)io->out, *work = (void *)(uintptr_t)io->work;
    if (g->key.bias_type != RT_CUDA_NO_BIAS)
        RT_TRY(rt_cuda_lt_status(&d->lt, d->lt.desc_set(g->desc, RT_LT_DESC_BIAS, &bias, sizeof bias), "matmul", e));
    RT_TRY(rt_cuda_lt_status(&d->lt,
                             d->lt.matmul(d->lt_handle, g->desc, &io->alpha, host_of(io->b), g->a, host_of(io->a), g->b,
                                          &beta, out, g->out, out, g->out, &g->choice.algo, work, g->choice.work_bytes,
                                          d->stream),
                             "matmul", e));
out:
    return rc;
}

/* ---- the first launch of each ---- */

static uint64_t extent(uint64_t rows, uint64_t cols, uint64_t stride, uint32_t dtype)
{
    return ((rows - 1) * stride + cols) * rt_dtype_bytes((rt_dtype)dtype, 1);
}

/* Bytes that the largest operand reaches over; all of them lie at the same place of the scratch. */
static uint64_t reach(const rt_cuda_gemm *g)
{
    const rt_cuda_gemm_key *k = &g->key;
    uint64_t most = extent(k->M, k->N, k->stride_out, k->out_type);
    uint64_t a = extent(k->ta ? k->K : k->M, k->ta ? k->M : k->K, k->stride_a, k->type);
    uint64_t b = extent(k->tb ? k->N : k->K, k->tb ? k->K : k->N, k->stride_b, k->type);
    if (a > most) most = a;
    if (b > most) most = b;
    return rt_align_up(most, 256);
}

int rt_cuda_gemms_warm(rt_cuda_dev *d, rt_err *e)
{
    int rc = RT_OK;
    uint64_t most = 0;
    rt_mem *scratch = NULL;
    for (rt_cuda_gemm *g = d->gemms; g; g = g->next)
        if (g->used && !g->warm && reach(g) > most) most = reach(g);
    if (!most) return RT_OK;
    RT_TRY(rt_cuda_mem_new(&d->base, most + RT_CUDA_GEMM_WORK, RT_MEM_DEVICE, &scratch, e));
    for (rt_cuda_gemm *g = d->gemms; g; g = g->next) {
        if (!g->used || g->warm) continue;
        rt_cu_ptr at = scratch->addr;
        rt_cuda_gemm_io io = { at, at, at, at, at + most, 1.0f };
        RT_TRY(rt_cuda_gemm_run(d, g, &io, e));
        g->warm = true;
    }
    RT_TRY(rt_cuda_status(&d->cu, d->cu.stream_wait(d->stream), e, "the first launch of each product"));
out:
    rt_cuda_mem_free(&d->base, scratch);
    return rc;
}

void rt_cuda_gemm_use(rt_cuda_gemm *g) { g->used = true; }

void rt_cuda_gemms_free(rt_cuda_dev *d)
{
    for (rt_cuda_gemm *g = d->gemms, *next; g; g = next) {
        next = g->next;
        release(d, g);
        rt_free(g);
    }
    d->gemms = NULL;
}
