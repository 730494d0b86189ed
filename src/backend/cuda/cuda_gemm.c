/* cuda_gemm.c - products by cuBLASLt: one algorithm per shape, chosen once, described in words, launched.
 *
 * Owns: from row-major views to the library's column-major layouts, the choice of algorithm and its name in a program's
 * hash, the first launch of each (the library loads its kernels lazily). The library's own choice is taken, out of
 * those that add up partial sums in f32 in a fixed order and round a sum once; the same library on the same GPU chooses
 * the same. Row-major out = a b is column-major out' = b' a', so the library's A is our b.
 *
 * Rounding once: where the output has 16 bits and something is added to the product, some of the library's kernels
 * round the product first (seen in 13.1). Each candidate is therefore tried on numbers that tell, and the first that is
 * right is taken.
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

/* The library's candidates, best first; how many. */
static int candidates(rt_cuda_dev *d, const rt_cuda_gemm *g, rt_lt_choice *list, int room)
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
    ok = ok && d->lt.choose(d->lt_handle, g->desc, g->a, g->b, g->out, g->out, pref, room, list, &found) == 0;
    if (pref) d->lt.pref_free(pref);
    return ok ? found : 0;
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
    }
}

uint64_t rt_cuda_gemm_work(const rt_cuda_gemm *g) { return g->choice.work_bytes; }
const char *rt_cuda_gemm_text(const rt_cuda_gemm *g) { return g->text; }

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

/* ---- sizes ---- */

static uint64_t extent(uint64_t rows, uint64_t cols, uint64_t stride, uint32_t dtype)
{
    return ((rows - 1) * stride + cols) * rt_dtype_bytes((rt_dtype)dtype, 1);
}

/* Bytes that the operands reach over. */
static uint64_t reach_a(const rt_cuda_gemm_key *k)
{
    return extent(k->ta ? k->K : k->M, k->ta ? k->M : k->K, k->stride_a, k->type);
}
static uint64_t reach_b(const rt_cuda_gemm_key *k)
{
    return extent(k->tb ? k->N : k->K, k->tb ? k->K : k->N, k->stride_b, k->type);
}
static uint64_t reach_out(const rt_cuda_gemm_key *k) { return extent(k->M, k->N, k->stride_out, k->out_type); }

/* Of the largest. */
static uint64_t reach(const rt_cuda_gemm *g)
{
    uint64_t most = reach_out(&g->key), a = reach_a(&g->key), b = reach_b(&g->key);
    if (a > most) most = a;
    if (b > most) most = b;
    return rt_align_up(most, 256);
}

/* ---- rounding once ---- */

/* a b, half a unit above a number of 16 bits whose last bit is 0, plus that half unit, is the next number. Rounded
 * before the addition, the half unit is lost twice, both times to the even number. */
typedef struct telling {
    uint16_t a, b, half, sum;
} telling;
static const telling telling_bf16 = { 0x3F88, 0x3F88, 0x3B80, 0x3F91 }; /* (1 + 2^-4)^2, 2^-8, 1 + 2^-3 + 2^-7 */
static const telling telling_f16 = { 0x3C20, 0x3C10, 0x1000, 0x3C31 };  /* (1 + 2^-5)(1 + 2^-6), 2^-11 */

static bool needs_telling(const rt_cuda_gemm_key *k)
{
    return k->out_type != RT_DTYPE_F32 && (k->acc || k->bias_type != RT_CUDA_NO_BIAS);
}

/* Column 0 of op(a) and row 0 of op(b) are set, so that every element of the product is one term; and what is added. */
static int lay_out(rt_cuda_dev *d, const rt_cuda_gemm_key *k, const rt_cuda_gemm_io *io, const telling *t, rt_err *e)
{
    const rt_cuda_driver *cu = &d->cu;
    rt_cu_stream s = d->stream;
    int result = cu->fill_bytes(io->a, 0, reach_a(k), s);
    if (!result) result = cu->fill_bytes(io->b, 0, reach_b(k), s);
    if (!result) result = cu->fill_halves(io->a, 2 * k->stride_a, t->a, k->ta ? k->M : 1, k->ta ? 1 : k->M, s);
    if (!result) result = cu->fill_halves(io->b, 2 * k->stride_b, t->b, k->tb ? 1 : k->N, k->tb ? k->N : 1, s);
    if (!result) result = cu->fill_halves(io->out, 2 * k->stride_out, k->acc ? t->half : 0, k->N, k->M, s);
    if (!result) result = cu->fill_halves(io->bias, 2 * (size_t)k->N, t->half, k->N, 1, s);
    return rt_cuda_status(cu, result, e, "filling scratch");
}

/* The first and the last row of the output, which begins at a byte of m. */
static int read_rows(rt_cuda_dev *d, const rt_cuda_gemm_key *k, rt_mem *m, uint64_t at, uint16_t want, bool *right,
                     rt_err *e)
{
    int rc = RT_OK;
    uint64_t bytes = 2 * (uint64_t)k->N;
    uint16_t *row = rt_alloc(bytes, 16);
    if (!row) RT_TRY(rt_fail(e, RT_NOMEM, "no memory to try a product"));
    for (int last = 0; last < 2; last++) {
        rt_copy c = { m, at + (last ? 2 * (k->M - 1) * k->stride_out : 0), bytes, row, false };
        RT_TRY(rt_cuda_mem_copy(&d->base, &c, NULL, e));
        for (uint32_t i = 0; i < k->N; i++) *right = *right && row[i] == want;
    }
out:
    rt_free(row);
    return rc;
}

/* Does the candidate in g round once? */
static int tell(rt_cuda_dev *d, const rt_cuda_gemm *g, bool *right, rt_err *e)
{
    int rc;
    const rt_cuda_gemm_key *k = &g->key;
    const telling *t = k->out_type == RT_DTYPE_BF16 ? &telling_bf16 : &telling_f16;
    uint64_t b = rt_align_up(reach_a(k), 256), out = b + rt_align_up(reach_b(k), 256);
    uint64_t bias = out + rt_align_up(reach_out(k), 256), work = bias + rt_align_up(2 * (uint64_t)k->N, 256);
    rt_mem *m = NULL;
    *right = true;
    RT_TRY(rt_cuda_mem_new(&d->base, work + g->choice.work_bytes, RT_MEM_DEVICE, &m, e));
    rt_cuda_gemm_io io = { m->addr, m->addr + b, m->addr + out, m->addr + bias, m->addr + work, 1.0f };
    RT_TRY(lay_out(d, k, &io, t, e));
    RT_TRY(rt_cuda_gemm_run(d, g, &io, e));
    RT_TRY(read_rows(d, k, m, out, t->sum, right, e));
out:
    rt_cuda_mem_free(&d->base, m);
    return rc;
}

/* ---- the choice ---- */

static int choose(rt_cuda_dev *d, rt_cuda_gemm *g, rt_err *e)
{
    enum { CANDIDATES = 8 };
    rt_lt_choice list[CANDIDATES];
    int rc = RT_OK, found = candidates(d, g, list, needs_telling(&g->key) ? CANDIDATES : 1);
    for (int i = 0; i < found && !g->usable; i++) {
        g->choice = list[i];
        g->usable = list[i].state == 0;
        if (g->usable && needs_telling(&g->key)) RT_TRY(tell(d, g, &g->usable, e));
    }
    if (g->usable) name(d, g);
out:
    return rc;
}

int rt_cuda_gemm_find(rt_cuda_dev *d, const rt_cuda_gemm_key *k, rt_cuda_gemm **out, rt_err *e)
{
    int rc = RT_OK;
    *out = NULL;
    if (!d->lt_handle) return RT_OK;
    for (rt_cuda_gemm *g = d->gemms; g; g = g->next)
        if (memcmp(&g->key, k, sizeof *k) == 0) {
            *out = g->usable ? g : NULL;
            return RT_OK;
        }
    rt_cuda_gemm *g = rt_alloc_zero(sizeof *g, 16);
    if (!g) return rt_fail(e, RT_NOMEM, "no memory for a product");
    g->key = *k;
    if (describe(d, g)) RT_TRY(choose(d, g, e));
    if (!g->usable) release(d, g);
    g->next = d->gemms;
    d->gemms = g;
    *out = g->usable ? g : NULL;
    return RT_OK;
out:
    release(d, g);
    rt_free(g);
    return rc;
}

/* ---- the first launch of each ---- */

int rt_cuda_gemms_warm(rt_cuda_dev *d, rt_err *e)
{
    int rc = RT_OK;
    uint64_t most = 0;
    rt_mem *scratch = NULL;
    for (rt_cuda_gemm *g = d->gemms; g; g = g->next)
        if (g->used && !g->warm && reach(g) > most) most = reach(g);
    if (!most) return RT_OK;
    RT_TRY(rt_cuda_mem_new(&d->base, most + RT_CUDA_GEMM_WORK, RT_MEM_DEVICE, &scratch, e));
    RT_TRY(rt_cuda_status(&d->cu, d->cu.fill_bytes(scratch->addr, 0, most, d->stream), e, "clearing scratch"));
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
