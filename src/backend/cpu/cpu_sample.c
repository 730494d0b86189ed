/* cpu_sample.c - one id per row from its logits: penalty, top-k, temperature, top-p, min-p; and its log-probability.
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
    uint32_t V;
    uint64_t *keys; /* (threads,2 V): all ids twice */
} sample_job;

/* A row and how it chooses. */
typedef struct sample_row {
    const void *x; /* (V) */
    rt_dtype dtype;
    uint32_t V, deepest;  /* deepest: all that may stay */
    const uint32_t *seen; /* bits of what is penalised; null: nothing is */
    float penalty;
    double inv_T, top_p, min_p;
} sample_row;

uint64_t RT_CPU(work_sample)(const rt_cpu_work *w)
{
    return w->threads * 2 * (uint64_t)w->args->sample.V * sizeof(uint64_t);
}

/* Columns from .. of a row, penalised; readable up to a multiple of VL. */
static const float *row_block(const sample_row *r, uint64_t from, uint32_t n, float *copy /* (ROW_BLOCK) */)
{
    const float *b = as_f32(r->x, r->dtype, from, n, copy);
    if (!r->seen) return b;
    if (b != copy) memcpy(copy, b, n * sizeof *copy);
    for (uint32_t w = 0; w * 32 < n; w++)
        for (uint32_t bits = r->seen[from / 32 + w]; bits; bits &= bits - 1) {
            uint32_t i = w * 32 + (uint32_t)__builtin_ctz(bits);
            if (i < n) copy[i] = copy[i] > 0 ? copy[i] / r->penalty : copy[i] * r->penalty;
        }
    return copy;
}

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
static bool rank_row(const sample_row *r, rank_top *t, uint32_t depth)
{
    const bool heap = depth <= HEAP_DEPTH;
    _Alignas(64) float copy[ROW_BLOCK];
    *t = (rank_top){ .key = t->key, .most = heap ? depth : r->V };
    for (uint64_t from = 0; from < r->V; from += ROW_BLOCK) {
        uint32_t n = r->V - from < ROW_BLOCK ? (uint32_t)(r->V - from) : ROW_BLOCK;
        const float *b = row_block(r, from, n, copy);
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
    uint64_t *spare = t->key + r->V;
    radix_pass(spare, t->key, r->V, 32);
    radix_pass(t->key, spare, r->V, 32 + DIGIT);
    radix_pass(spare, t->key, r->V, 32 + 2 * DIGIT);
    memcpy(t->key, spare, depth * sizeof *spare);
    t->n = depth;
    return true;
}

/* sum over the row of exp((x - top) / T) */
static double row_mass(const sample_row *r, double top)
{
    _Alignas(64) float copy[ROW_BLOCK];
    double sum = 0;
    for (uint64_t from = 0; from < r->V; from += ROW_BLOCK) {
        uint32_t n = r->V - from < ROW_BLOCK ? (uint32_t)(r->V - from) : ROW_BLOCK;
        sum += block_mass(row_block(r, from, n, copy), n, top, r->inv_T);
    }
    return sum;
}

static double weight(const sample_row *r, const rank_top *t, uint32_t e)
{
    return exp(((double)rank_value(t->key[e]) - rank_value(t->key[0])) * r->inv_T);
}

/* The id that u picks among the ranked ones; -1 when it lies below them. sum: of the weights of all that may stay. */
static int32_t draw(const sample_row *r, const rank_top *t, double sum, float u)
{
    double mass = 0, below = 0;
    bool ended = t->n == r->deepest; /* what stays is among the ranked */
    uint32_t prefix = 0;
    for (; prefix < t->n; prefix++) {
        double w = weight(r, t, prefix);
        if (prefix > 0 && ((r->top_p < 1 && mass >= r->top_p) || w < r->min_p)) break;
        mass += w / sum;
    }
    ended = ended || prefix < t->n || (r->top_p < 1 && mass >= r->top_p);
    if (!ended) {
        if (r->top_p < 1 || r->min_p > 0) return -1; /* where the prefix ends is not known yet */
        mass = 1;
    }
    for (uint32_t e = 0; e < prefix; e++) {
        below += weight(r, t, e) / sum;
        if (below / mass > u) return (int32_t)rank_id(t->key[e]);
    }
    return ended ? (int32_t)rank_id(t->key[prefix - 1]) : -1;
}

/* greedy: the first of the ranking */
static int32_t choose(const sample_row *r, rank_top *t, bool greedy, float u)
{
    uint32_t depth = greedy ? 1 : r->deepest == r->V && r->V > FIRST_DEPTH ? FIRST_DEPTH : r->deepest;
    if (!rank_row(r, t, depth)) return -1;
    if (greedy) return (int32_t)rank_id(t->key[0]);
    double sum = 0;
    if (r->deepest == r->V)
        sum = row_mass(r, rank_value(t->key[0]));
    else
        for (uint32_t e = 0; e < t->n; e++) sum += weight(r, t, e);
    for (;;) {
        int32_t id = draw(r, t, sum, u);
        if (id >= 0) return id;
        depth = depth < HEAP_DEPTH && r->deepest > HEAP_DEPTH ? HEAP_DEPTH : r->deepest;
        rank_row(r, t, depth);
    }
}

/* log softmax of the row as it came, at temperature 1, at id */
static float log_share(const sample_row *row, rank_top *t, int32_t id)
{
    sample_row r = *row;
    r.seen = NULL;
    r.inv_T = 1;
    if (row->seen || t->n == 0) rank_row(&r, t, 1); /* the largest may be another one */
    const double top = rank_value(t->key[0]);
    return (float)((double)load_t(r.x, (uint32_t)id, r.dtype) - top - log(row_mass(&r, top)));
}

static void *row_of(const rt_operand *x, uint32_t i)
{
    return (uint8_t *)rt_host_ptr(x) + i * rt_dtype_bytes(x->dtype, x->stride);
}

static void sample_chunk(void *ctx, uint32_t i, uint32_t worker)
{
    const sample_job *j = ctx;
    const rt_operand *s = j->o->slot;
    const float *how = row_of(&s[RT_SAMPLE_HOW], i);
    const uint32_t *key = row_of(&s[RT_SAMPLE_KEY], i);
    uint32_t *seen = s[RT_SAMPLE_SEEN].mem ? row_of(&s[RT_SAMPLE_SEEN], i) : NULL;
    const bool greedy = how[RT_HOW_TEMPERATURE] <= 0;
    sample_row r = { .x = row_of(&s[RT_SAMPLE_X], i),
                     .dtype = s[RT_SAMPLE_X].dtype,
                     .V = j->V,
                     .deepest = rt_sample_most(how[RT_HOW_TOP_K], j->V),
                     .seen = how[RT_HOW_PENALTY] != 1.0f ? seen : NULL,
                     .penalty = how[RT_HOW_PENALTY],
                     .inv_T = greedy ? 1 : 1.0 / (double)how[RT_HOW_TEMPERATURE],
                     .top_p = how[RT_HOW_TOP_P],
                     .min_p = how[RT_HOW_MIN_P] };
    rank_top t = { .key = j->keys + worker * 2 * (uint64_t)j->V };
    float u = rt_rng_unit(rt_philox(0, rt_sample_stream, (uint64_t)key[1] << 32 | key[0]).v[0]);
    int32_t id = choose(&r, &t, greedy, u);
    *(int32_t *)row_of(&s[RT_SAMPLE_ID], i) = id;
    if (s[RT_SAMPLE_LOGP].mem) *(float *)row_of(&s[RT_SAMPLE_LOGP], i) = id < 0 ? NAN : log_share(&r, &t, id);
    if (seen && id >= 0) seen[id / 32] |= 1u << id % 32;
}

void RT_CPU(sample)(const rt_cpu_ctx *c, const rt_bound_op *o)
{
    sample_job j = { .o = o, .V = o->args.sample.V, .keys = rt_host_ptr(&o->work) };
    rt_pool_run(c->pool, o->args.sample.N, sample_chunk, &j);
}
