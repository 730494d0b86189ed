/* init_random.c - random weights: the table of normal quantiles, the numbers drawn from it, the model made of them. */
#include "format/init_random.h"

#include "base/rng.h"
#include "num/quant.h"

#include <math.h>

/* ---- the table ---- */

/* exp(-t) for 0 <= t < 16: the series on t/64, squared six times. Only sums, products and quotients, which every IEEE
 * machine rounds alike; the C library's exp differs from one to the next. */
static double exp_minus(double t)
{
    double x = t / 64, sum = 1, term = 1;
    for (int k = 1; k < 20; k++) {
        term *= x / k;
        sum += term;
    }
    for (int k = 0; k < 6; k++) sum *= sum;
    return 1 / sum;
}

/* The area under the normal curve between 0 and x, x in [0, 5]: density(x) times x + x^3/3 + x^5/(3*5) + ... All terms
 * are positive, so nothing cancels. */
static double area_to(double x, double *density)
{
    double square = x * x, term = x, sum = x;
    for (int k = 3; term > sum * 1e-18; k += 2) {
        term *= square / k;
        sum += term;
    }
    *density = exp_minus(square / 2) * 0.39894228040143267794; /* 1 / sqrt(2 pi) */
    return *density * sum;
}

void rt_normal_quantiles(float *q)
{
    enum { HALF = RT_NORMAL_VALUES / 2 };
    double x = 0;
    for (int i = 0; i < HALF; i++) {
        double want = (i + 0.5) / RT_NORMAL_VALUES, density;
        /* Newton from the neighbour, from below: the area is concave here, so no step goes past the root. */
        for (int step = 0; step < 20; step++) {
            double off = want - area_to(x, &density), move = off / density;
            x += move;
            if (fabs(move) < 1e-12 * x) break;
        }
        q[HALF + i] = (float)x;
        q[HALF - 1 - i] = (float)-x;
    }
}

/* ---- drawing ---- */

enum { LANES = 8, GROUP = 8 }; /* values of one counter; counters that are computed side by side */

/* rt_philox for GROUP consecutive counters at once, laid out so that the compiler can keep them in vectors. A test
 * holds it to rt_philox. */
static void philox_group(uint32_t out[4][GROUP], uint64_t seed, uint64_t stream, uint64_t index)
{
    uint32_t c0[GROUP], c1[GROUP], c2[GROUP], c3[GROUP];
    uint32_t k0 = (uint32_t)seed, k1 = (uint32_t)(seed >> 32);
    for (int i = 0; i < GROUP; i++) {
        c0[i] = (uint32_t)(index + (uint64_t)i);
        c1[i] = (uint32_t)((index + (uint64_t)i) >> 32);
        c2[i] = (uint32_t)stream;
        c3[i] = (uint32_t)(stream >> 32);
    }
    for (int round = 0; round < 10; round++) {
        for (int i = 0; i < GROUP; i++) {
            uint64_t p0 = (uint64_t)0xD2511F53u * c0[i], p1 = (uint64_t)0xCD9E8D57u * c2[i];
            uint32_t n0 = (uint32_t)(p1 >> 32) ^ c1[i] ^ k0, n2 = (uint32_t)(p0 >> 32) ^ c3[i] ^ k1;
            c1[i] = (uint32_t)p1;
            c3[i] = (uint32_t)p0;
            c0[i] = n0;
            c2[i] = n2;
        }
        k0 += 0x9E3779B9u;
        k1 += 0xBB67AE85u;
    }
    for (int i = 0; i < GROUP; i++) {
        out[0][i] = c0[i];
        out[1][i] = c1[i];
        out[2][i] = c2[i];
        out[3][i] = c3[i];
    }
}

static void fill_group(float *y /* (GROUP * LANES) */, const float *q, float scale, uint64_t seed, uint64_t stream,
                       uint64_t index)
{
    uint32_t bits[4][GROUP];
    philox_group(bits, seed, stream, index);
    for (int i = 0; i < GROUP; i++)
        for (int w = 0; w < 4; w++) {
            y[i * LANES + 2 * w] = q[bits[w][i] & 0xffffu] * scale;
            y[i * LANES + 2 * w + 1] = q[bits[w][i] >> 16] * scale;
        }
}

void rt_normal_fill(float *y, uint64_t n, const float *q, float scale, uint64_t seed, uint64_t stream, uint64_t first)
{
    enum { SPAN = GROUP * LANES };
    float part[SPAN];
    uint64_t done = 0;
    while (done < n) {
        uint64_t at = first + done, skip = at % SPAN, take = SPAN - skip;
        if (skip == 0 && n - done >= SPAN) {
            fill_group(y + done, q, scale, seed, stream, at / LANES);
            done += SPAN;
            continue;
        }
        if (take > n - done) take = n - done;
        fill_group(part, q, scale, seed, stream, (at - skip) / LANES);
        memcpy(y + done, part + skip, take * sizeof *y);
        done += take;
    }
}

/* ---- the model ---- */

enum { PIECE = 16 * 1024 }; /* f32 values that a worker makes at a time: they stay in its cache */

typedef struct job {
    const rt_model_out *o;
    const rt_init_opts *opts;
    const float *q; /* (RT_NORMAL_VALUES) */
    float *scratch; /* (threads, per_worker) */
    uint64_t per_worker;
} job;

static int from_f32(void *dst, const float *x, rt_dtype d, uint64_t n, rt_err *e)
{
    if (rt_dtype_is_quant(d))
        rt_quant_from_f32(dst, x, d, n);
    else
        rt_float_from_f32(dst, x, d, n);
    return rt_stayed_finite(dst, d, n, "a random matrix", "a smaller initializer_range, or --dtype", e);
}

static bool is_norm(rt_role r)
{
    return r == RT_ROLE_ATTN_NORM || r == RT_ROLE_MLP_NORM || r == RT_ROLE_FINAL_NORM || r == RT_ROLE_Q_NORM ||
           r == RT_ROLE_K_NORM;
}

static int fill_rows(void *ctx, uint32_t i, uint64_t row, uint64_t rows, void *dst, uint32_t worker, rt_err *e)
{
    const job *j = ctx;
    const rt_out_tensor *t = &j->o->tensors[i];
    const rt_model_config *c = j->o->config;
    uint64_t shape[2];
    bool matrix = rt_role_shape(c, t->role, shape) == 2;
    uint64_t cols = matrix ? shape[1] : shape[0], block = rt_dtype_table[t->dtype].block_elems;
    uint64_t first = row * cols, n = rows * cols, step = j->per_worker / block * block;
    float *x = j->scratch + worker * j->per_worker;
    /* Blocks run along rows, and rows are whole blocks: pieces may end anywhere between two blocks. */
    for (uint64_t at = 0; at < n; at += step) {
        uint64_t len = n - at < step ? n - at : step;
        if (matrix)
            rt_normal_fill(x, len, j->q, (float)c->init_range, c->init_seed, i, first + at);
        else
            for (uint64_t k = 0; k < len; k++) x[k] = is_norm(t->role) ? 1.0f : 0.0f;
        int rc = from_f32((uint8_t *)dst + rt_dtype_bytes(t->dtype, at), x, t->dtype, len, e);
        if (rc < 0) return rc;
    }
    return RT_OK;
}

static int on_progress(void *ctx, uint64_t done, uint64_t total)
{
    const job *j = ctx;
    return j->opts->progress ? j->opts->progress(j->opts->ctx, done, total) : RT_OK;
}

static int open_again(void *ctx, const char *path, rt_err *e)
{
    rt_model_file *m = NULL;
    const rt_hub_env env = { 0 };
    (void)ctx;
    int rc = rt_model_file_open(&m, path, &env, e);
    if (rc >= 0) rc = rt_model_file_check(m, e);
    rt_model_file_close(m);
    return rc;
}

int rt_init_random(const rt_model_out *o, const rt_init_opts *opts, rt_pool *pool, rt_err *e)
{
    float *q = rt_alloc(RT_NORMAL_VALUES * sizeof *q, 64);
    job j = { .o = o, .opts = opts, .q = q, .per_worker = PIECE };
    j.scratch = rt_alloc(j.per_worker * sizeof(float) * rt_pool_threads(pool), 64);
    int rc = RT_OK;
    if (!q || !j.scratch) {
        rc = rt_no_memory(e, o->path);
        goto out;
    }
    rt_normal_quantiles(q);
    const rt_model_write_calls calls = { fill_rows, on_progress, open_again, &j };
    RT_TRY(rt_model_write(o, &calls, pool, e));
out:
    rt_free(q);
    rt_free(j.scratch);
    return rc;
}
