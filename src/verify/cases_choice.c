/* cases_choice.c - the cases of topk, draw and sample, which choose ids from logits.
 *
 * Their ids are compared exactly: ties are broken by rule, the random number of a row of sample is exact in f32, and
 * draw compares whole numbers. */
#include "base/rng.h"
#include "verify/values.h"

#include <math.h>

enum { N, V, K }; /* dimensions: rows, columns, ids asked for */

static void logits(const rt_op_case *c, const rt_fill *f, uint32_t how)
{
    rt_fill g = *f;
    g.p = how == 1 ? 0.5 : 0;
    g.q = how == 3 ? 30 : 2;
    if (how == 1)
        rt_fill_ties(c, &g);
    else
        rt_fill_normal(c, &g);
    if (how == 2) f->x[(uint64_t)(f->rows / 2) * f->cols + f->cols / 3] = c->dim[V] % 2 ? NAN : INFINITY;
}

/* x (n), the largest first. Heapsort: the C library's sort may take memory. */
static void descending(double *x, uint32_t n)
{
    for (uint32_t end = n, root = n / 2; end > 1;) {
        if (root > 0) {
            root--;
        } else {
            double least = x[0];
            x[0] = x[--end];
            x[end] = least;
        }
        for (uint32_t at = root, child; (child = 2 * at + 1) < end; at = child) {
            if (child + 1 < end && x[child + 1] < x[child]) child++;
            if (x[at] <= x[child]) break;
            double held = x[at];
            x[at] = x[child];
            x[child] = held;
        }
    }
}

/* ---- topk ---- */

enum { TEMPERATURE, MASK, LOGITS };
static const rt_op_flag topk_flags[] = { RT_FLAG("temperature", "T1", "T2.5"),
                                         RT_FLAG("vocabulary", "", "vmask", "vmask-few"),
                                         RT_FLAG("logits", "", "ties", "special", "spread") };
static const rt_op_shape topk_shapes[] = { { RT_SHAPE_ODD, { 5, 37, 7 } },
                                           { RT_SHAPE_ONE, { 1, 1, 1 } },
                                           { RT_SHAPE_BIG, { 7, 5003, 65 } },
                                           { RT_SHAPE_WIDTH, { 3, 67, 67 } } };

static void topk_fix(rt_op_case *c)
{
    if (c->dim[K] > c->dim[V]) c->dim[K] = c->dim[V];
}

static void fill_topk(const rt_op_case *c, const rt_fill *f) { logits(c, f, c->flag[LOGITS]); }

static void topk_layout(const rt_op_case *c, rt_layout *l)
{
    const uint32_t *d = c->dim;
    l->slot[RT_TOPK_ID] = RT_SLOT(d[N], d[K], NULL);
    l->slot[RT_TOPK_LOGP] = RT_SLOT(d[N], d[K], NULL);
    l->slot[RT_TOPK_REST] = RT_SLOT(d[N], 1, NULL);
    l->slot[RT_TOPK_X] = RT_SLOT(d[N], d[V], fill_topk);
    if (c->flag[MASK])
        l->slot[RT_TOPK_VMASK] = RT_SLOT(1, (d[V] + 31) / 32, rt_fill_bits, c->flag[MASK] == 1 ? 0.8 : 0.02, d[V]);
}

static float temperature(const rt_op_case *c) { return c->flag[TEMPERATURE] ? 2.5f : 1.0f; }

static void topk_emit(rt_plan *p, const rt_op_case *c, const rt_view *v)
{
    rt_emit_topk(p, v[RT_TOPK_ID], v[RT_TOPK_LOGP], v[RT_TOPK_REST], v[RT_TOPK_X], v[RT_TOPK_VMASK], temperature(c));
}

/* y: the logits of a row that are in Vc; returns how many. */
static uint32_t in_vocabulary(const rt_values *v, const double *x, double *y)
{
    const int32_t *mask = rt_values_row(v, RT_TOPK_VMASK, 0);
    uint32_t n = 0;
    for (uint32_t i = 0; i < v->c->dim[V]; i++)
        if (!mask || ((uint32_t)mask[i / 32] >> i % 32 & 1)) y[n++] = x[i];
    return n;
}

/* logp: 1 + |log p|. rest: a mass p has the relative error of its logarithm, so the sum of p (1 + |log p|) of what is
 * left: of all of Vc but the k largest. */
static void topk_terms(rt_values *v, uint32_t slot, const double *want, double *scale)
{
    const uint32_t *d = v->c->dim, k = d[K];
    const double *x = rt_values_dense(v, RT_TOPK_X);
    double *y = rt_values_scratch(v, d[V] * sizeof *y), T = (double)temperature(v->c);
    if (slot == RT_TOPK_LOGP)
        for (uint64_t i = 0; i < (uint64_t)d[N] * k; i++) scale[i] = 1 + fabs(want[i]);
    if (slot == RT_TOPK_LOGP || !x || !y) return;
    for (uint32_t r = 0; r < d[N]; r++) {
        uint32_t n = in_vocabulary(v, x + (uint64_t)r * d[V], y);
        double sum = 0;
        descending(y, n);
        for (uint32_t i = n; i-- > 0;) sum += exp((y[i] - y[0]) / T);
        for (uint32_t i = n; i-- > k;) {
            double logp = (y[i] - y[0]) / T - log(sum);
            scale[r] += exp(logp) * (1 + fabs(logp));
        }
    }
}

const rt_op_set rt_op_set_topk = { .kind = RT_OP_TOPK,
                                   .ndims = 3,
                                   RT_TABLE(shapes, topk_shapes),
                                   RT_TABLE(flags, topk_flags),
                                   .fix = topk_fix,
                                   .layout = topk_layout,
                                   .emit = topk_emit,
                                   .terms = topk_terms,
                                   .large = { .signature = "bf16", .dim = { 13, 32000, 64 } } };

/* ---- draw ---- */

/* As topk; k is the draws of a row. Big: several blocks of columns in which several draws lie, and as many as a row
 * has. */
static const rt_op_shape draw_shapes[] = { { RT_SHAPE_ODD, { 5, 37, 7 } },
                                           { RT_SHAPE_ONE, { 1, 1, 1 } },
                                           { RT_SHAPE_BIG, { 7, 5003, 1024 } },
                                           { RT_SHAPE_WIDTH, { 3, 67, 67 } } };

static void fill_key(const rt_op_case *c, const rt_fill *f)
{
    (void)c;
    for (uint32_t i = 0; i < f->rows * f->cols; i++) f->i[i] = (int32_t)rt_fill_word(f, i);
}

static void draw_layout(const rt_op_case *c, rt_layout *l)
{
    const uint32_t *d = c->dim;
    l->slot[RT_DRAW_ID] = RT_SLOT(d[N], d[K], NULL);
    l->slot[RT_DRAW_LOGP] = RT_SLOT(d[N], d[K], NULL);
    l->slot[RT_DRAW_ENTROPY] = RT_SLOT(d[N], 1, NULL);
    l->slot[RT_DRAW_X] = RT_SLOT(d[N], d[V], fill_topk);
    if (c->flag[MASK])
        l->slot[RT_DRAW_VMASK] = RT_SLOT(1, (d[V] + 31) / 32, rt_fill_bits, c->flag[MASK] == 1 ? 0.8 : 0.02, d[V]);
    l->slot[RT_DRAW_KEY] = RT_SLOT(d[N], 2, fill_key);
    l->slot[RT_DRAW_STEP] = RT_SLOT(1, sizeof(rt_step), rt_fill_step, 12, 34);
}

static void draw_emit(rt_plan *p, const rt_op_case *c, const rt_view *v)
{
    rt_emit_draw(p, v[RT_DRAW_ID], v[RT_DRAW_LOGP], v[RT_DRAW_ENTROPY], v[RT_DRAW_X], v[RT_DRAW_VMASK], v[RT_DRAW_KEY],
                 v[RT_DRAW_STEP], temperature(c));
}

/* The logarithm of a sum that is at least 1, and a mean of logarithms, none of which is negative. */
static void draw_terms(rt_values *v, uint32_t slot, const double *want, double *scale)
{
    (void)slot;
    for (uint32_t r = 0; r < v->c->dim[N]; r++) scale[r] = 1 + fabs(want[r]);
}

/* `ref` in float adds up the terms of the entropy one by one. */
static double draw_serial(const rt_op_case *c) { return c->dim[V]; }

const rt_op_set rt_op_set_draw = { .kind = RT_OP_DRAW,
                                   .ndims = 3,
                                   RT_TABLE(shapes, draw_shapes),
                                   RT_TABLE(flags, topk_flags),
                                   .layout = draw_layout,
                                   .emit = draw_emit,
                                   .terms = draw_terms,
                                   .serial_terms = draw_serial,
                                   .large = { .signature = "bf16", .dim = { 13, 32000, 50 } } };

/* ---- sample ---- */

enum { HEAT, TOP_K, TOP_P, MIN_P, PENALTY, CHOICES, SHARE, MIXED };
static const rt_op_flag sample_flags[] = {
    RT_FLAG("temperature", "", "greedy", "hot"),   RT_FLAG("top_k", "", "k1", "k5", "kall"),
    RT_FLAG("top_p", "", "p0.6", "p0.05"),         RT_FLAG("min_p", "", "m0.1", "m0.9"),
    RT_FLAG("seen ids", "", "seen", "penalty1.5"), RT_FLAG("logits", "", "ties", "special", "spread"),
    RT_FLAG("log-probability", "", "logp"),        RT_FLAG("rows", "", "mixed")
};
static const rt_op_shape sample_shapes[] = { { RT_SHAPE_ODD, { 13, 37 } },
                                             { RT_SHAPE_ONE, { 1, 1 } },
                                             { RT_SHAPE_BIG, { 11, 5003 } } };

/* How a row chooses: as the flags say, or mixed, each row in its own way. */
static void how_of(const rt_op_case *c, uint32_t row, double how[RT_HOW_COLS])
{
    static const double heat[] = { 0.8f, 0.0f, 3.0f }, top_p[] = { 1.0f, 0.6f, 0.05f }, min_p[] = { 0, 0.1f, 0.9f };
    const uint32_t n = c->dim[V], by = c->flag[MIXED] ? row : 0;
    const double top_k[] = { 0, 1, n < 5 ? n : 5, n };
    how[RT_HOW_TEMPERATURE] = heat[(c->flag[HEAT] + by) % 3];
    how[RT_HOW_TOP_K] = top_k[(c->flag[TOP_K] + by / 3) % 4];
    how[RT_HOW_TOP_P] = top_p[(c->flag[TOP_P] + by / 2) % 3];
    how[RT_HOW_MIN_P] = min_p[(c->flag[MIN_P] + by / 5) % 3];
    how[RT_HOW_PENALTY] = c->flag[PENALTY] == 2 && by % 4 != 3 ? 1.5 : 1;
}

static void fill_how(const rt_op_case *c, const rt_fill *f)
{
    for (uint32_t r = 0; r < f->rows; r++) how_of(c, r, f->x + (uint64_t)r * RT_HOW_COLS);
}

static void fill_sample(const rt_op_case *c, const rt_fill *f) { logits(c, f, c->flag[CHOICES]); }

static void sample_layout(const rt_op_case *c, rt_layout *l)
{
    const uint32_t n = c->dim[N], words = (c->dim[V] + 31) / 32;
    l->slot[RT_SAMPLE_ID] = RT_SLOT(n, 1, NULL);
    l->slot[RT_SAMPLE_X] = RT_SLOT(n, c->dim[V], fill_sample);
    l->slot[RT_SAMPLE_KEY] = RT_SLOT(n, 2, fill_key);
    l->slot[RT_SAMPLE_HOW] = RT_SLOT(n, RT_HOW_COLS, fill_how);
    if (c->flag[SHARE]) l->slot[RT_SAMPLE_LOGP] = RT_SLOT(n, 1, NULL);
    if (c->flag[PENALTY]) l->slot[RT_SAMPLE_SEEN] = RT_SLOT(n, words, rt_fill_bits, 0.3, c->dim[V]);
}

static void sample_emit(rt_plan *p, const rt_op_case *c, const rt_view *v)
{
    (void)c;
    rt_emit_sample(p, v[RT_SAMPLE_ID], v[RT_SAMPLE_LOGP], v[RT_SAMPLE_SEEN], v[RT_SAMPLE_X], v[RT_SAMPLE_KEY],
                   v[RT_SAMPLE_HOW]);
}

/* logp: 1 + |log p| */
static void sample_terms(rt_values *v, uint32_t slot, const double *want, double *scale)
{
    (void)slot;
    for (uint32_t i = 0; i < v->c->dim[N]; i++) scale[i] = 1 + fabs(want[i]);
}

/* x (V) of a row, as the penalty leaves it, in y. */
static void penalise(const rt_values *v, uint32_t row, const double *x, double by, double *y)
{
    const int32_t *seen = v->c->flag[PENALTY] ? rt_values_row(v, RT_SAMPLE_SEEN, row) : NULL;
    for (uint32_t i = 0; i < v->c->dim[V]; i++) {
        bool is_seen = seen && (uint32_t)seen[i / 32] >> i % 32 & 1;
        y[i] = !is_seen ? x[i] : x[i] > 0 ? x[i] / by : x[i] * by;
    }
}

/* Is the random number of the row within slack of the share of `got` in rank order? Of what stays of the ids, as the op
 * defines it. */
static bool sample_accepts(rt_values *v, uint32_t row, int32_t got, double slack)
{
    const uint32_t n = v->c->dim[V];
    const double *dense = rt_values_dense(v, RT_SAMPLE_X);
    const int32_t *key = rt_values_row(v, RT_SAMPLE_KEY, row);
    double *x = rt_values_scratch(v, n * sizeof *x), *y = rt_values_scratch(v, n * sizeof *y);
    double how[RT_HOW_COLS], sum = 0, mass = 0, below = 0;
    how_of(v->c, row, how);
    if (got < 0 || (uint32_t)got >= n || how[RT_HOW_TEMPERATURE] == 0 || !dense || !key || !x || !y) return false;
    double u =
        (double)rt_rng_unit(rt_philox(0, rt_sample_stream, (uint64_t)(uint32_t)key[1] << 32 | (uint32_t)key[0]).v[0]);
    uint32_t kept = rt_sample_most((float)how[RT_HOW_TOP_K], n), prefix = 0, before = 0;
    penalise(v, row, dense + (uint64_t)row * n, how[RT_HOW_PENALTY], x);
    memcpy(y, x, n * sizeof *y);
    descending(y, n);
    for (uint32_t i = 0; i < n; i++) before += x[i] > x[got] || (x[i] == x[got] && i < (uint32_t)got);
    for (uint32_t i = 0; i < kept; i++) sum += exp((y[i] - y[0]) / how[RT_HOW_TEMPERATURE]);
    for (; prefix < kept; prefix++) {
        double w = exp((y[prefix] - y[0]) / how[RT_HOW_TEMPERATURE]), p = w / sum;
        bool stays = (how[RT_HOW_TOP_P] >= 1 || mass < how[RT_HOW_TOP_P]) && w >= how[RT_HOW_MIN_P];
        if (prefix > 0 && !stays) break;
        if (prefix < before) below += p;
        mass += p;
    }
    double own = exp((x[got] - y[0]) / how[RT_HOW_TEMPERATURE]) / sum;
    return before < prefix && below / mass <= u + slack && (below + own) / mass >= u - slack;
}

/* Equal shares round the same way every time, so the errors of `ref` in float add up to their number. */
static double ranks_squared(const rt_op_case *c) { return (double)c->dim[V] * c->dim[V]; }

/* Large: the likeliest, since a random number is that of its row. */
const rt_op_set rt_op_set_sample = { .kind = RT_OP_SAMPLE,
                                     .ndims = 2,
                                     RT_TABLE(shapes, sample_shapes),
                                     RT_TABLE(flags, sample_flags),
                                     .layout = sample_layout,
                                     .emit = sample_emit,
                                     .terms = sample_terms,
                                     .serial_terms = ranks_squared,
                                     .accepts = sample_accepts,
                                     .large = { .signature = "bf16", .dim = { 13, 32000 }, .flag = { [HEAT] = 1 } } };
