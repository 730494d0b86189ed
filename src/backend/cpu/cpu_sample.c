/* cpu_sample.c - one id per row from its logits: temperature, top-k, top-p.
 *
 * A chunk is one row. Shares are added up in rank order in double, as the specification does, so that the same random
 * number gives the same id; only the order in which the whole sum is taken differs. The ranking is made only as deep as
 * the draw needs: the best few ids first, more of them when the draw falls below. */
#include "backend/cpu/cpu.h"
#include "backend/cpu/cpu_rank.h"
#include "base/rng.h"

enum { FIRST_DEPTH = 256, DEEPER = 16 }; /* ids ranked at first; how many times more when they do not suffice */

typedef double vd __attribute__((vector_size(sizeof(vf))));
typedef int64_t vl __attribute__((vector_size(sizeof(vf))));
typedef uint64_t vul __attribute__((vector_size(sizeof(vf))));
typedef float vhalf __attribute__((vector_size(sizeof(vf) / 2)));
enum { DL = VL / 2 };

typedef struct sample_job {
    const rt_bound_op *o;
    const rt_sample_args *a;
    uint64_t seed;
    uint32_t step;
    uint64_t *keys; /* (threads,deepest) */
    uint32_t deepest;
} sample_job;

/* The deepest ranking: all that may stay. */
static uint32_t kept(const rt_sample_args *a)
{
    if (a->temperature == 0) return 1;
    return a->top_k && a->top_k < a->V ? a->top_k : a->V;
}
uint64_t RT_CPU(work_sample)(const rt_cpu_work *w)
{
    return (uint64_t)w->threads * kept(&w->args->sample) * sizeof(uint64_t);
}

/* exp(x) for x <= 0 in double, 2 units in the last place; 2^-1020 below that. x = n ln2 + r, exp(r) by its series to r^13. */
RT_INLINE vd exp_f64(vd x)
{
    static const double series[] = { 1.0 / 479001600, 1.0 / 39916800, 1.0 / 3628800, 1.0 / 362880, 1.0 / 40320, 1.0 / 5040,
                                     1.0 / 720,       1.0 / 120,      1.0 / 24,      1.0 / 6,      0.5,         1.0,
                                     1.0 };
    const vd zero = { 0 }, magic = zero + 0x1.8p52, low = zero - 707.0;
    vl above = x > low;
    vd y = (vd)(((vl)x & above) | ((vl)low & ~above));
    vd t = y * 0x1.71547652b82fep+0 + magic, n = t - magic;
    vd r = (y - n * 0x1.62e42fee00000p-1) - n * 0x1.a39ef35793c76p-33;
    vd p = zero + 1.0 / 6227020800;
    for (int i = 0; i < 13; i++) p = p * r + series[i];
    return (vd)((vul)p + ((vul)t << 52));
}

/* sum of exp((x - top) / T) over x (n) */
static double block_mass(const float *x, uint32_t n, double top, double inv_T)
{
    vd sum[2] = { { 0 } };
    double all = 0;
    uint32_t i = 0;
    for (; i + VL <= n; i += VL)
        for (uint32_t k = 0; k < 2; k++) {
            vhalf h;
            memcpy(&h, x + i + k * DL, sizeof h);
            sum[k] += exp_f64((__builtin_convertvector(h, vd) - top) * inv_T);
        }
    for (int k = 0; k < DL; k++) all += sum[0][k] + sum[1][k];
    for (; i < n; i++) all += exp((x[i] - top) * inv_T);
    return all;
}

/* Ranks the best ids of a row, at most `depth`; false when a logit is not finite. */
static bool rank_row(const sample_job *j, const void *x, rank_top *t, uint32_t depth)
{
    const rt_dtype d = j->o->slot[RT_SAMPLE_X].dtype;
    _Alignas(64) float copy[ROW_BLOCK];
    *t = (rank_top){ .key = t->key, .most = depth };
    for (uint64_t from = 0; from < j->a->V; from += ROW_BLOCK) {
        uint32_t n = j->a->V - from < ROW_BLOCK ? (uint32_t)(j->a->V - from) : ROW_BLOCK;
        rank_block(t, as_f32(x, d, from, n, copy), all_ones, n, (uint32_t)from);
    }
    if (!rank_finite(t)) return false;
    rank_sort(t);
    return true;
}
static double row_mass(const sample_job *j, const void *x, double top)
{
    const rt_dtype d = j->o->slot[RT_SAMPLE_X].dtype;
    _Alignas(64) float copy[ROW_BLOCK];
    double sum = 0;
    for (uint64_t from = 0; from < j->a->V; from += ROW_BLOCK) {
        uint32_t n = j->a->V - from < ROW_BLOCK ? (uint32_t)(j->a->V - from) : ROW_BLOCK;
        sum += block_mass(as_f32(x, d, from, n, copy), n, top, 1.0 / j->a->temperature);
    }
    return sum;
}

static double weight(const sample_job *j, const rank_top *t, uint32_t e)
{
    return exp(((double)rank_value(t->key[e]) - rank_value(t->key[0])) / j->a->temperature);
}

/* The id that u picks among the ranked ones; -1 when it lies below them. sum: of the weights of all that may stay. */
static int32_t draw(const sample_job *j, const rank_top *t, double sum, float u)
{
    const bool all = t->n == j->deepest;
    double mass = 0, below = 0;
    uint32_t prefix = 0;
    while (prefix < t->n && (prefix == 0 || j->a->top_p >= 1 || mass < j->a->top_p)) mass += weight(j, t, prefix++) / sum;
    if (!all && (j->a->top_p >= 1 || mass < j->a->top_p)) {
        if (j->a->top_p < 1) return -1; /* where the prefix ends is not known yet */
        mass = 1;
    }
    for (uint32_t e = 0; e < prefix; e++) {
        below += weight(j, t, e) / sum;
        if (below / mass > u) return (int32_t)rank_id(t->key[e]);
    }
    return all || j->a->top_p < 1 ? (int32_t)rank_id(t->key[prefix - 1]) : -1;
}

static int32_t sample_row(const sample_job *j, const void *x, rank_top *t, float u)
{
    const rt_sample_args *a = j->a;
    uint32_t depth = a->top_k == 0 && j->deepest > FIRST_DEPTH ? FIRST_DEPTH : j->deepest;
    if (!rank_row(j, x, t, depth)) return -1;
    if (a->temperature == 0) return (int32_t)rank_id(t->key[0]);
    double sum = 0;
    if (j->deepest == a->V)
        sum = row_mass(j, x, rank_value(t->key[0]));
    else
        for (uint32_t e = 0; e < t->n; e++) sum += weight(j, t, e);
    for (;;) {
        int32_t id = draw(j, t, sum, u);
        if (id >= 0) return id;
        depth = depth > j->deepest / DEEPER ? j->deepest : depth * DEEPER;
        rank_row(j, x, t, depth);
    }
}

static void sample_chunk(void *ctx, uint32_t i, uint32_t worker)
{
    const sample_job *j = ctx;
    const rt_operand *xo = &j->o->slot[RT_SAMPLE_X], *id = &j->o->slot[RT_SAMPLE_ID];
    const uint8_t *x = (const uint8_t *)rt_host_ptr(xo) + i * xo->stride * rt_dtype_table[xo->dtype].block_bytes; /* (V) */
    rank_top t = { .key = j->keys + (uint64_t)worker * j->deepest };
    float u = rt_rng_unit(rt_philox(j->seed, (uint64_t)j->a->stream << 32 | j->step, i).v[0]);
    ((int32_t *)rt_host_ptr(id))[i * id->stride] = sample_row(j, x, &t, u);
}

void RT_CPU(sample)(const rt_cpu_ctx *c, const rt_bound_op *o)
{
    const rt_sample_args *a = &o->args.sample;
    rt_step step;
    memcpy(&step, rt_host_ptr(&o->slot[RT_SAMPLE_STEP]), sizeof step);
    sample_job j = { .o = o, .a = a, .seed = step.seed, .step = step.step, .deepest = kept(a) };
    j.keys = rt_host_ptr(&o->work);
    rt_pool_run(c->pool, a->N, sample_chunk, &j);
}
