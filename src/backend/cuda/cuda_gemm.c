/* cuda_gemm.c - GEMMs by cuBLASLt: one algorithm per shape, chosen once, described in words, launched.
 *
 * Owns: from row-major views to the library's column-major layouts, the choice of algorithm and its name in a program's
 * hash, the first launch of each (the library loads its kernels lazily). Of the library's candidates those are taken
 * that add up partial sums in f32 in a fixed order and round a sum once (cuda_trial.c); of these the library's first,
 * or, where that is asked for, the fastest: they are timed when a program that will run has the GEMM, and until then
 * the scratch of any is asked for, so that what a program takes does not depend on times. A choice is kept in words
 * (cuda_tuned.h) and found again among the same candidates: the library never sees anything that came out of a file.
 * Row-major out = a b is column-major out' = b' a', so the library's A is our b.
 *
 * Leaves to cuda_matmul.c: which GEMMs come here. */
#include "backend/cuda/cuda_internal.h"

#include "base/sys.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { CANDIDATES = 16, FEW = 8 }; /* asked for to time them; asked for to find one that rounds once */

typedef struct candidate {
    rt_lt_choice choice;
    char text[160]; /* the algorithm in words: it enters the program's hash */
} candidate;

struct rt_cuda_gemm {
    rt_cuda_gemm *next;
    rt_cuda_gemm_key key;
    bool usable, used, warm; /* used: by a program that was prepared */
    bool known;              /* chosen before */
    uint64_t work;           /* bytes of scratch, of any algorithm that it may get */
    void *desc, *a, *b, *out;
    candidate is;
};

static int lt_type(uint32_t dtype)
{
    switch (dtype) {
    case RT_DTYPE_F32: return RT_LT_F32;
    case RT_DTYPE_BF16: return RT_LT_BF16;
    case RT_DTYPE_E4M3: return RT_LT_E4M3;
    default: return RT_LT_F16;
    }
}

static bool is_scaled(const rt_cuda_gemm_key *k) { return k->type == RT_DTYPE_E4M3; }

static void release(rt_cuda_dev *d, rt_cuda_gemm *g)
{
    if (g->desc) d->lt.desc_free(g->desc);
    if (g->a) d->lt.layout_free(g->a);
    if (g->b) d->lt.layout_free(g->b);
    if (g->out) d->lt.layout_free(g->out);
    g->desc = g->a = g->b = g->out = NULL;
}

/* Codes have a scale for each row, and their sums leave the tensor cores often, unless asked otherwise:
 * verify/tolerance.h says why. */
static bool describe_scales(rt_cuda_dev *d, rt_cuda_gemm *g)
{
    int mode = RT_LT_SCALE_ROWS;
    int8_t fast = (int8_t)g->key.fast;
    const void *aligned = (const void *)(uintptr_t)256;
    return d->lt.desc_set(g->desc, RT_LT_DESC_FAST_ACCUM, &fast, sizeof fast) == 0 &&
           d->lt.desc_set(g->desc, RT_LT_DESC_SCALE_MODE_A, &mode, sizeof mode) == 0 &&
           d->lt.desc_set(g->desc, RT_LT_DESC_SCALE_MODE_B, &mode, sizeof mode) == 0 &&
           d->lt.desc_set(g->desc, RT_LT_DESC_SCALE_A, &aligned, sizeof aligned) == 0 &&
           d->lt.desc_set(g->desc, RT_LT_DESC_SCALE_B, &aligned, sizeof aligned) == 0;
}

/* Descriptors of the GEMM. The addresses of a bias and of scales are set before each launch; here they tell their
 * alignment. */
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
    if (is_scaled(k)) ok = ok && describe_scales(d, g);
    return ok && d->lt.layout_new(&g->a, type, k->tb ? k->K : k->N, k->tb ? k->N : k->K, (int64_t)k->stride_b) == 0 &&
           d->lt.layout_new(&g->b, type, k->ta ? k->M : k->K, k->ta ? k->K : k->M, (int64_t)k->stride_a) == 0 &&
           d->lt.layout_new(&g->out, out, k->N, k->M, (int64_t)k->stride_out) == 0;
}

/* What the library offers, best first; how many. */
static int offers(rt_cuda_dev *d, const rt_cuda_gemm *g, rt_lt_choice *list, int room)
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

static void name(rt_cuda_dev *d, const rt_cuda_gemm *g, candidate *c)
{
    static const struct {
        int which;
        const char *text;
        size_t bytes;
    } part[] = { { RT_LT_CONFIG_ID, "algorithm", 4 },       { RT_LT_CONFIG_TILE, "tile", 4 },
                 { RT_LT_CONFIG_STAGES, "stages", 4 },      { RT_LT_CONFIG_SPLIT_K, "split", 4 },
                 { RT_LT_CONFIG_SWIZZLE, "swizzle", 4 },    { RT_LT_CONFIG_CUSTOM, "custom", 4 },
                 { RT_LT_CONFIG_CLUSTER, "cluster", 2 },    { RT_LT_CONFIG_INNER, "inner", 2 },
                 { RT_LT_CONFIG_REDUCTION, "reduction", 4 } };
    size_t n = (size_t)snprintf(c->text, sizeof c->text, "cublaslt%s", g->key.fast ? " fast sums" : "");
    for (size_t i = 0; i < sizeof part / sizeof *part; i++) {
        uint32_t value = 0;
        size_t written = 0;
        if (d->lt.config(&c->choice.algo, part[i].which, &value, part[i].bytes, &written) == 0 && n < sizeof c->text)
            n += (size_t)snprintf(c->text + n, sizeof c->text - n, " %s %u", part[i].text, value);
    }
}

uint64_t rt_cuda_gemm_work(const rt_cuda_gemm *g) { return g->work; }
const char *rt_cuda_gemm_text(const rt_cuda_gemm *g) { return g->is.text; }

static const void *host_of(rt_cu_ptr p) { return (const void *)(uintptr_t)p; }

/* The addresses that are a part of the description. The library's A is our b. */
static int set_addresses(rt_cuda_dev *d, const rt_cuda_gemm *g, const rt_cuda_gemm_io *io, rt_err *e)
{
    const struct {
        bool there;
        int which;
        rt_cu_ptr at;
    } all[] = { { g->key.bias_type != RT_CUDA_NO_BIAS, RT_LT_DESC_BIAS, io->bias },
                { is_scaled(&g->key), RT_LT_DESC_SCALE_A, io->scale_b },
                { is_scaled(&g->key), RT_LT_DESC_SCALE_B, io->scale_a } };
    int rc = RT_OK;
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        const void *at = host_of(all[i].at);
        if (all[i].there)
            RT_TRY(rt_cuda_lt_status(&d->lt, d->lt.desc_set(g->desc, all[i].which, &at, sizeof at), "matmul", e));
    }
out:
    return rc;
}

int rt_cuda_gemm_run(rt_cuda_dev *d, const rt_cuda_gemm *g, const rt_cuda_gemm_io *io, rt_err *e)
{
    int rc;
    float beta = g->key.acc ? 1.0f : 0.0f;
    void *out = (void *)(uintptr_t)io->out, *work = (void *)(uintptr_t)io->work;
    RT_TRY(set_addresses(d, g, io, e));
    RT_TRY(rt_cuda_lt_status(&d->lt,
                             d->lt.matmul(d->lt_handle, g->desc, &io->alpha, host_of(io->b), g->a, host_of(io->a), g->b,
                                          &beta, out, g->out, out, g->out, &g->is.choice.algo, work,
                                          g->is.choice.work_bytes, d->stream),
                             "matmul", e));
out:
    return rc;
}

/* ---- the choice ---- */

static bool needs_telling(const rt_cuda_gemm_key *k)
{
    return k->out_type != RT_DTYPE_F32 && (k->acc || k->bias_type != RT_CUDA_NO_BIAS);
}

static bool has(const candidate *list, int n, const char *text)
{
    for (int i = 0; i < n; i++)
        if (strcmp(list[i].text, text) == 0) return true;
    return false;
}

/* The candidates that can run: all of them, or the one that a choice names. Words tell them apart: of two that have the
 * same, the library's first is meant. most: the largest scratch of all that can run, whatever is named. */
static int candidates(rt_cuda_dev *d, const rt_cuda_gemm *g, const char *named, candidate *list, int room,
                      uint64_t *most)
{
    rt_lt_choice all[CANDIDATES];
    int n = 0, found = offers(d, g, all, room);
    *most = 0;
    for (int i = 0; i < found; i++) {
        if (all[i].state != 0) continue;
        if (all[i].work_bytes > *most) *most = all[i].work_bytes;
        list[n].choice = all[i];
        name(d, g, &list[n]);
        if ((!named || strcmp(list[n].text, named) == 0) && !has(list, n, list[n].text)) n++;
    }
    return n;
}

/* Leaves at most `most` that round once. */
static int keep_right(rt_cuda_trial *t, rt_cuda_gemm *g, candidate *list, int *n, int most, rt_err *e)
{
    int rc = RT_OK, kept = 0;
    for (int i = 0; i < *n && kept < most; i++) {
        bool right;
        g->is = list[i];
        RT_TRY(rt_cuda_trial_rounds_once(t, g, &right, e));
        if (right) list[kept++] = list[i];
    }
    *n = kept;
out:
    return rc;
}

/* The fastest first; a later one only where it is faster by more than times scatter. Those that are not timed by the
 * deadline do not count, and *whole is false. */
static int put_fastest_first(rt_cuda_trial *t, rt_cuda_gemm *g, candidate *list, int n, double deadline, bool *whole,
                             rt_err *e)
{
    int rc, best = 0, i = 0;
    double least = INFINITY, seconds;
    RT_TRY(rt_cuda_trial_fill(t, e));
    for (; i < n && rt_now() < deadline; i++) {
        g->is = list[i];
        RT_TRY(rt_cuda_trial_time(t, g, least, &seconds, e));
        if (seconds >= 0.98 * least) continue;
        least = seconds;
        best = i;
    }
    *whole = i == n;
    list[0] = list[best];
out:
    return rc;
}

/* The fastest instead of the library's first; *timed is false where the time was over or there is no memory to try. */
static int choose_fastest(rt_cuda_dev *d, rt_cuda_gemm *g, double deadline, bool *timed, rt_err *e)
{
    candidate list[CANDIDATES], first = g->is;
    rt_cuda_trial trial = { 0 };
    rt_err why = { 0 };
    uint64_t work;
    int rc, n = candidates(d, g, NULL, list, CANDIDATES, &work);
    *timed = n < 2;
    if (n < 2) return RT_OK;
    rc = rt_cuda_trial_open(&trial, d, &g->key, work, &why);
    if (rc == RT_NOMEM) {
        rt_cuda_trial_close(&trial);
        return RT_OK;
    }
    if (rc < 0) RT_TRY(rt_fail(e, rc, "%s", why.text));
    if (needs_telling(&g->key)) RT_TRY(keep_right(&trial, g, list, &n, n, e));
    if (n > 0) RT_TRY(put_fastest_first(&trial, g, list, n, deadline, timed, e));
    if (n > 0) first = list[0];
out:
    g->is = first;
    rt_cuda_trial_close(&trial);
    return rc;
}

/* The one that a choice names, or the library's first that rounds once. */
static int choose(rt_cuda_dev *d, rt_cuda_gemm *g, const char *named, rt_err *e)
{
    candidate list[CANDIDATES];
    rt_cuda_trial trial = { 0 };
    uint64_t work;
    bool telling = needs_telling(&g->key), tuned = d->tune.mode != RT_CUDA_TUNE_OFF;
    int rc = RT_OK, n = candidates(d, g, named, list, named || tuned ? CANDIDATES : telling ? FEW : 1, &work);
    if (n && telling) RT_TRY(rt_cuda_trial_open(&trial, d, &g->key, work, e));
    if (telling) RT_TRY(keep_right(&trial, g, list, &n, 1, e));
    g->usable = n > 0;
    if (g->usable) g->is = list[0];
    g->work = tuned ? work : g->is.choice.work_bytes;
out:
    rt_cuda_trial_close(&trial);
    return rc;
}

/* The GEMM in words: what a choice is kept for. */
static void describe_key(const rt_cuda_gemm_key *k, char *out, size_t size)
{
    char bias[48] = "";
    if (k->bias_type != RT_CUDA_NO_BIAS)
        snprintf(bias, sizeof bias, " + bias %s aligned %u", rt_dtype_name((rt_dtype)k->bias_type), k->align_bias);
    snprintf(out, size, "%c%c %ux%ux%u %s%s %s %s%s, strides %llu %llu %llu, aligned %u %u %u", k->ta ? 't' : 'n',
             k->tb ? 't' : 'n', k->M, k->N, k->K, rt_dtype_name((rt_dtype)k->type), k->fast ? " with fast sums" : "",
             k->acc ? "+=" : "=", rt_dtype_name((rt_dtype)k->out_type), bias, (unsigned long long)k->stride_a,
             (unsigned long long)k->stride_b, (unsigned long long)k->stride_out, k->align_a, k->align_b, k->align_out);
}

/* As chosen before, else as the library does. */
static int decide(rt_cuda_dev *d, rt_cuda_gemm *g, rt_err *e)
{
    int rc;
    char gemm_words[256];
    const char *named;
    describe_key(&g->key, gemm_words, sizeof gemm_words);
    RT_TRY(rt_cuda_tune_named(d, gemm_words, &named, e));
    RT_TRY(choose(d, g, named, e));
    g->known = named && g->usable;
    if (!named || g->usable) return RT_OK;
    d->tune.stale++;
    RT_TRY(choose(d, g, NULL, e));
out:
    return rc;
}

int rt_cuda_gemm_use(rt_cuda_dev *d, rt_cuda_gemm *g, rt_err *e)
{
    int rc = RT_OK;
    char gemm_words[256];
    bool timed = false;
    double begun = rt_now(), left = rt_cuda_tune_left(d);
    if (g->used) return RT_OK;
    if (!g->known && left > 0) RT_TRY(choose_fastest(d, g, begun + left, &timed, e));
    describe_key(&g->key, gemm_words, sizeof gemm_words);
    rt_cuda_how how = g->known ? RT_CUDA_CHOSEN_BEFORE : timed ? RT_CUDA_TIMED : RT_CUDA_UNTIMED;
    RT_TRY(rt_cuda_tune_keep(d, gemm_words, g->is.text, how, rt_now() - begun, e));
    g->used = true;
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
    if (!g) return rt_fail(e, RT_NOMEM, "no memory for a GEMM");
    g->key = *k;
    if (describe(d, g)) RT_TRY(decide(d, g, e));
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
        if (g->used && !g->warm && rt_cuda_gemm_reach(&g->key) > most) most = rt_cuda_gemm_reach(&g->key);
    if (!most) return RT_OK;
    RT_TRY(rt_cuda_mem_new(&d->base, most + RT_CUDA_GEMM_WORK, RT_MEM_DEVICE, &scratch, e));
    RT_TRY(rt_cuda_status(&d->cu, d->cu.fill_bytes(scratch->addr, 0, most, d->stream), e, "clearing scratch"));
    for (rt_cuda_gemm *g = d->gemms; g; g = g->next) {
        if (!g->used || g->warm) continue;
        rt_cu_ptr at = scratch->addr;
        rt_cuda_gemm_io io = { at, at, at, at, at + most, 1.0f, at, at };
        RT_TRY(rt_cuda_gemm_run(d, g, &io, e));
        g->warm = true;
    }
    RT_TRY(rt_cuda_status(&d->cu, d->cu.stream_wait(d->stream), e, "the first launch of each GEMM"));
out:
    rt_cuda_mem_free(&d->base, scratch);
    return rc;
}

void rt_cuda_gemms_free(rt_cuda_dev *d)
{
    for (rt_cuda_gemm *g = d->gemms, *next; g; g = next) {
        next = g->next;
        release(d, g);
        rt_free(g);
    }
    d->gemms = NULL;
}
