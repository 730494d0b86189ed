/* cpu_sample.c - one id per row from its logits: temperature, top-k, top-p.
 *
 * A chunk is one row. Shares are added up in rank order in double, as the specification does, so that the same random
 * number gives the same id; only the order in which the whole sum is taken differs. The ranking is made only as deep as
 * the draw needs: the best few ids by a heap, more of them when the draw falls below, at last all of them by radix. */
#include "backend/cpu/cpu.h"
#include "backend/cpu/cpu_rank.h"
#include "base/rng.h"

enum { FIRST_DEPTH = 256, HEAP_DEPTH = 4096 }; /* ids ranked at first; the most for which a heap is used */
enum { DIGIT = 11 };                           /* bits of a radix digit: three for a value */

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
    uint32_t deepest; /* all that may stay */
    uint64_t *keys;   /* (threads,per_thread) */
    uint64_t per_thread;
} sample_job;

static uint32_t deepest(const rt_sample_args *a)
{
    if (a->temperature == 0) return 1;
    return a->top_k && a->top_k < a->V ? a->top_k : a->V;
}
/* Keys of a thread: a heap, or all ids twice. */
static uint64_t keys_of(const rt_sample_args *a) { return deepest(a) <= HEAP_DEPTH ? deepest(a) : 2 * (uint64_t)a->V; }
uint64_t RT_CPU(work_sample)(const rt_cpu_work *w) { return w->threads * keys_of(&w->args->sample) * sizeof(uint64_t); }

/* exp(x) for x <= 0 in double, 2 units in the last place; 2^-1020 below that. x = n ln2 + r, exp(r) by its series to
 * r^13. */
RT_INLINE vd exp_f64(vd x)
{
    static const double series[] = {
        1.0 / 479001600, 1.0 / 39916800, 1.0 / 3628800, 1.0 / 362880, 1.0 / 40320, 1.0 / 5040, 1.0 / 720,
        1.0 / 120,       1.0 / 24,       1.0 / 6,       0.5,          1.0,         1.0
    };
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

/* to (n) = from (n), larger digit first, else in the same order */
static void radix_pass(uint64_t *to, const uint64_t *from, uint32_t n, uint32_t shift)
{
    enum { BINS = 1 << DIGIT };
    uint32_t bin[BINS] = { 0 }, before = 0;
    for (uint32_t i = 0; i < n; i++) bin[from[i] >> shift & (BINS - 1)]++;
    for (uint32_t d = BINS; d-- > 0;) {
        uint32_t count = bin[d];
        bin[d] = before;
        before += count;
    }
    for (uint32_t i = 0; i < n; i++) to[bin[from[i] >> shift & (BINS - 1)]++] = from[i];
}

/* Ranks the best ids of a row, `depth` of them; false when a logit is not finite. */
static bool rank_row(const sample_job *j, const void *x, rank_top *t, uint32_t depth)
{
    const rt_dtype d = j->o->slot[RT_SAMPLE_X].dtype;
    const uint32_t V = j->a->V;
    const bool heap = depth <= HEAP_DEPTH;
    _Alignas(64) float copy[ROW_BLOCK];
    *t = (rank_top){ .key = t->key, .most = heap ? depth : V };
    for (uint64_t from = 0; from < V; from += ROW_BLOCK) {
        uint32_t n = V - from < ROW_BLOCK ? (uint32_t)(V - from) : ROW_BLOCK;
        const float *b = as_f32(x, d, from, n, copy);
        if (heap) rank_block(t, b, all_ones, n, (uint32_t)from);
        for (uint32_t i = 0; !heap && i < n; i++) {
            int32_t size = (int32_t)(rt_f32_bits(b[i]) & 0x7fffffff);
            t->largest = size > t->largest ? size : t->largest;
            t->key[from + i] = rank_key(b[i], (uint32_t)from + i);
        }
    }
    if (!rank_finite(t)) return false;
    if (heap) {
        rank_sort(t);
        return true;
    }
    /* Ids come in order and equal values stay in theirs, so only the value, the upper half of a key, is sorted by. */
    uint64_t *spare = t->key + V;
    radix_pass(spare, t->key, V, 32);
    radix_pass(t->key, spare, V, 32 + DIGIT);
    radix_pass(spare, t->key, V, 32 + 2 * DIGIT);
    memcpy(t->key, spare, depth * sizeof *spare);
    t->n = depth;
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
    while (prefix < t->n && (prefix == 0 || j->a->top_p >= 1 || mass < j->a->top_p))
        mass += weight(j, t, prefix++) / sum;
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
        depth = depth < HEAP_DEPTH && j->deepest > HEAP_DEPTH ? HEAP_DEPTH : j->deepest;
        rank_row(j, x, t, depth);
    }
}

static void sample_chunk(void *ctx, uint32_t i, uint32_t worker)
{
    const sample_job *j = ctx;
    const rt_operand *xo = &j->o->slot[RT_SAMPLE_X], *id = &j->o->slot[RT_SAMPLE_ID];
    const uint8_t *x =
        (const uint8_t *)rt_host_ptr(xo) + i * xo->stride * rt_dtype_table[xo->dtype].block_bytes; /* (V) */
    rank_top t = { .key = j->keys + worker * j->per_thread };
    float u = rt_rng_unit(rt_philox(j->seed, (uint64_t)j->a->stream << 32 | j->step, i).v[0]);
    ((int32_t *)rt_host_ptr(id))[i * id->stride] = sample_row(j, x, &t, u);
}

void RT_CPU(sample)(const rt_cpu_ctx *c, const rt_bound_op *o)
{
    const rt_sample_args *a = &o->args.sample;
    rt_step step;
    memcpy(&step, rt_host_ptr(&o->slot[RT_SAMPLE_STEP]), sizeof step);
    sample_job j = { .o = o, .a = a, .seed = step.seed, .step = step.step, .deepest = deepest(a) };
    j.keys = rt_host_ptr(&o->work);
    j.per_thread = keys_of(a);
    rt_pool_run(c->pool, a->N, sample_chunk, &j);
}
