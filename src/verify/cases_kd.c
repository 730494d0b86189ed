/* cases_kd.c - the cases of kd_loss.
 *
 * Big: the cpu kernel takes a row in blocks of 1024 columns, and a position is a chunk. A top-k teacher is made from
 * logits of its own, so that its ids, log-probabilities and remaining mass belong together. */
#include "base/rng.h"
#include "verify/compare.h"
#include "verify/values.h"

#include <float.h>
#include <math.h>

enum { N, V, TOPK }; /* dimensions: positions, columns, teacher's entries (0: no top-k teacher) */
enum {
    DIVERGENCE,
    MIX,
    TEACHER,
    VOCABULARY,
    T2,
    GRAD,
    NO_CE,
    NO_DIV,
    NO_TOP1,
    ACC,
    MASKED,
    CE_WEIGHT,
    KD_WEIGHT,
    TEMPERATURE,
    FAULT,
    LOGITS,
    SPECIAL
};

static const rt_op_flag flags[] = {
#define X(name, word, label, title, mix) label,
    RT_FLAG("divergence", RT_DIVERGENCE_LIST(X)),
#undef X
    RT_FLAG("mix", "", "mix0", "mix1"),
    RT_FLAG("teacher", "", "topk", "topk-padded"),
    RT_FLAG("vocabulary", "", "vmask", "wider", "narrower"),
    RT_FLAG("t2", "", "t2"),
    RT_RARE("gradient", "", "no-grad"),
    RT_FLAG("ce", "", "no-ce"),
    RT_FLAG("div", "", "no-div"),
    RT_FLAG("top1", "", "no-top1"),
    RT_FLAG("sums", "", "acc"),
    RT_RARE("targets", "", "masked", "all-masked"),
    RT_RARE("ce_weight", "", "ce0"),
    RT_RARE("kd_weight", "", "kd0"),
    RT_FLAG("temperature", "T1", "T2.5", "T0.7", "T2", "T4"),
    RT_RARE("fault", "", "fault-set"),
    RT_FLAG("logits", "", "spread", "ties"),
    RT_RARE("special", "", "nan", "-inf", "+inf", "target", "teacher"),
};
static const rt_op_shape shapes[] = { { RT_SHAPE_ODD, { 5, 37, 7 } },      { RT_SHAPE_ONE, { 1, 1, 1 } },
                                      { RT_SHAPE_BIG, { 7, 3203, 65 } },   { RT_SHAPE_BIG, { 5, 4096, 64 } },
                                      { RT_SHAPE_BIG, { 3, 5003, 1 } },    { RT_SHAPE_BIG, { 4, 3073, 33 } },
                                      { RT_SHAPE_BIG, { 3, 4127, 4127 } }, { RT_SHAPE_BIG, { 3, 33016, 7 } } };
/* Whole, aligned packs of columns at T = 2 and 4, where the student's exponential at T = 1 may come from the one at T:
 * forward KL over all ids, or any divergence over a part of them. */
static const struct power {
    uint32_t V;
    uint8_t T; /* value of the flag */
    bool all_ids, far_apart;
} powers[] = {
    { 4104, 3, true, false },  { 4112, 4, true, false },  { 4120, 3, true, true },    { 4128, 4, true, true },
    { 8200, 3, false, false }, { 8208, 4, false, false }, { 151936, 4, true, false }, { 128264, 3, false, false },
};
/* And rows of any kind. Long ones are cut into pieces on a GPU, in more than one way. */
static const rt_op_shape more[] = { { RT_SHAPE_BIG, { 5, 4104, 7 } },   { RT_SHAPE_BIG, { 5, 4112, 7 } },
                                    { RT_SHAPE_BIG, { 5, 4120, 7 } },   { RT_SHAPE_BIG, { 5, 4128, 7 } },
                                    { RT_SHAPE_BIG, { 5, 8200, 7 } },   { RT_SHAPE_BIG, { 5, 8208, 7 } },
                                    { RT_SHAPE_BIG, { 2, 151936, 7 } }, { RT_SHAPE_BIG, { 3, 128264, 7 } },
                                    { RT_SHAPE_BIG, { 2, 70003, 5 } },  { RT_SHAPE_BIG, { 2, 201096, 5 } } };

static const struct power *power_of(const rt_op_case *c)
{
    for (uint32_t i = 0; i < RT_COUNT(powers); i++)
        if (c->shape_kind == RT_SHAPE_BIG && c->dim[V] == powers[i].V) return &powers[i];
    return NULL;
}

static bool is_full(const rt_op_case *c) { return rt_case_has(c, RT_KD_TEACHER); }
static bool is_topk(const rt_op_case *c) { return !is_full(c) && c->flag[TEACHER]; }

static uint32_t allowed(const rt_op_case *c, uint32_t flag)
{
    if (flag == TEACHER) return is_full(c) ? 1 : 7;
    if (flag == VOCABULARY) return is_full(c) ? 15 : 3;
    if (flag == SPECIAL) return is_full(c) ? 63 : 31;
    if (flag == TEMPERATURE) return power_of(c) ? 31 : 7;
    return UINT32_MAX;
}

static void fix_power(rt_op_case *c, const struct power *p)
{
    c->flag[TEMPERATURE] = p->T;
    c->flag[VOCABULARY] = !p->all_ids;
    c->flag[SPECIAL] = c->flag[GRAD] = c->flag[NO_CE] = c->flag[NO_DIV] = c->flag[KD_WEIGHT] = c->flag[CE_WEIGHT] = 0;
    c->strided = p->all_ids ? RT_DENSE : RT_STRIDED_ALIGNED;
    if (p->all_ids) c->flag[DIVERGENCE] = 0;
    if (p->far_apart)
        c->flag[LOGITS] = 1;
    else if (c->flag[LOGITS] == 1) /* that is for those alone */
        c->flag[LOGITS] = 0;
}

static void fix(rt_op_case *c)
{
    const struct power *p = power_of(c);
    if (p) fix_power(c, p);
    if (!is_topk(c)) c->dim[TOPK] = 0;
    if (is_topk(c) && c->dim[TOPK] == 0) c->dim[TOPK] = 1;
    if (c->dim[TOPK] > c->dim[V]) c->dim[TOPK] = c->dim[V];
    if (!is_full(c) && !is_topk(c)) c->flag[KD_WEIGHT] = 1;
    if (c->flag[KD_WEIGHT]) c->flag[CE_WEIGHT] = 0;                                    /* one of them has to be there */
    if (c->flag[DIVERGENCE] >= RT_DIV_SKEW_FKL && c->flag[MIX] == 2) c->flag[MIX] = 0; /* nothing to learn from */
    if (c->shape_kind == RT_SHAPE_BIG && c->flag[MASKED] == 2) c->flag[MASKED] = 1;    /* something has to be left */
}

static uint32_t teacher_columns(const rt_op_case *c)
{
    uint32_t v = c->dim[V];
    return c->flag[VOCABULARY] == 2 ? v + 5 : c->flag[VOCABULARY] == 3 && v > 3 ? v - 3 : v;
}

/* ---- fills ---- */

static void fill_logits(const rt_op_case *c, const rt_fill *f)
{
    rt_fill g = *f;
    g.p = c->flag[LOGITS] == 2 ? 1 : 0;
    g.q = c->flag[LOGITS] == 1 ? 30 : 2;
    if (c->flag[LOGITS] == 2)
        rt_fill_ties(c, &g);
    else
        rt_fill_normal(c, &g);
}

static void fill_student(const rt_op_case *c, const rt_fill *f)
{
    static const double special[] = { 0, NAN, -INFINITY, INFINITY };
    fill_logits(c, f);
    if (c->flag[SPECIAL] >= 1 && c->flag[SPECIAL] <= 3)
        f->x[(uint64_t)(f->rows / 2) * f->cols + f->cols / 3] = special[c->flag[SPECIAL]];
}

static void fill_teacher(const rt_op_case *c, const rt_fill *f)
{
    fill_logits(c, f);
    if (c->flag[SPECIAL] == 5) f->x[(uint64_t)(f->rows - 1) * f->cols] = NAN;
}

static void fill_targets(const rt_op_case *c, const rt_fill *f)
{
    for (uint32_t i = 0; i < f->rows; i++) {
        uint32_t w = rt_fill_word(f, i);
        bool masked = c->flag[MASKED] == 2 || (c->flag[MASKED] == 1 && i % 3 == 1);
        f->i[i] = masked ? -1 - (int32_t)(w % 100) : (int32_t)(w % c->dim[V]);
    }
    if (c->flag[SPECIAL] == 4) f->i[f->rows / 2] = (int32_t)c->dim[V] + 2;
}

static void layout(const rt_op_case *c, rt_layout *l)
{
    const uint32_t n = c->dim[N], v = c->dim[V], k = c->dim[TOPK];
    l->slot[RT_KD_LOGITS] = RT_SLOT(n, v, fill_student);
    l->slot[RT_KD_SUMS] = RT_SLOT(1, 4, c->flag[ACC] ? rt_fill_positive : NULL, 1, 2);
    if (!c->flag[NO_CE]) l->slot[RT_KD_CE] = RT_SLOT(n, 1, NULL);
    if (!c->flag[NO_DIV]) l->slot[RT_KD_DIV] = RT_SLOT(n, 1, NULL);
    if (!c->flag[NO_TOP1]) l->slot[RT_KD_TOP1] = RT_SLOT(n, 1, NULL);
    l->slot[RT_KD_FAULT] = RT_SLOT(1, 4, rt_fill_fault, c->flag[FAULT]);
    l->slot[RT_KD_TARGET] = RT_SLOT(n, 1, fill_targets);
    l->slot[RT_KD_STEP] = RT_SLOT(1, sizeof(rt_step), rt_fill_step, 12, 3);
    if (is_full(c)) l->slot[RT_KD_TEACHER] = RT_SLOT(n, teacher_columns(c), fill_teacher);
    if (is_topk(c)) {
        l->slot[RT_KD_TK_ID] = RT_SLOT(n, k, rt_fill_below, 1);
        l->slot[RT_KD_TK_LOGP] = RT_SLOT(n, k, rt_fill_const);
        l->slot[RT_KD_TK_REST] = RT_SLOT(n, 1, rt_fill_const);
    }
    if (c->flag[VOCABULARY]) l->slot[RT_KD_VMASK] = RT_SLOT(1, (v + 31) / 32, rt_fill_bits, 0.8, v);
}

static rt_kd_opts options(const rt_op_case *c)
{
    static const float mix[] = { 0.3f, 0.0f, 1.0f }, temperature[] = { 1.0f, 2.5f, 0.7f, 2.0f, 4.0f };
    return (rt_kd_opts){ .divergence = (rt_divergence)c->flag[DIVERGENCE],
                         .T = temperature[c->flag[TEMPERATURE]],
                         .mix = mix[c->flag[MIX]],
                         .ce_weight = c->flag[CE_WEIGHT] ? 0.0f : 0.4f,
                         .kd_weight = c->flag[KD_WEIGHT] ? 0.0f : 0.6f,
                         .t2 = c->flag[T2],
                         .grad = !c->flag[GRAD],
                         .site = 9 };
}

static void emit(rt_plan *p, const rt_op_case *c, const rt_view *v)
{
    rt_kd_io io = { v[RT_KD_LOGITS],  v[RT_KD_SUMS],    v[RT_KD_CE],   v[RT_KD_DIV],     v[RT_KD_TOP1],
                    v[RT_KD_FAULT],   v[RT_KD_TARGET],  v[RT_KD_STEP], v[RT_KD_TEACHER], v[RT_KD_TK_ID],
                    v[RT_KD_TK_LOGP], v[RT_KD_TK_REST], v[RT_KD_VMASK] };
    rt_kd_opts o = options(c);
    rt_emit_kd_loss(p, &io, &o);
}

/* ---- a top-k teacher ---- */

static bool in_mask(const int32_t *mask, uint32_t v) { return !mask || ((uint32_t)mask[v / 32] >> v % 32 & 1); }

/* z (V) logits of a teacher; the k likeliest ids of Vc, their log-probabilities at the loss temperature, what is left.
 * With padding, the last entry is unused and its mass is in what is left. */
static void teacher_row(const rt_values *v, double *z, int32_t *id, double *logp, double *rest)
{
    const rt_op_case *c = v->c;
    const uint32_t n = c->dim[V], k = c->dim[TOPK], used = c->flag[TEACHER] == 2 && k > 1 ? k - 1 : k;
    const int32_t *mask = rt_values_row(v, RT_KD_VMASK, 0);
    double T = (double)options(c).T, max = -INFINITY, sum = 0;
    for (uint32_t i = 0; i < n; i++) {
        if (!in_mask(mask, i)) z[i] = -INFINITY;
        max = fmax(max, z[i] / T);
    }
    for (uint32_t i = 0; i < n; i++) sum += exp(z[i] / T - max);
    for (uint32_t j = 0; j < k; j++) {
        uint32_t best = 0;
        for (uint32_t i = 1; i < n; i++)
            if (z[i] > z[best]) best = i;
        bool none = j >= used || z[best] == -INFINITY;
        id[j] = none ? -1 : (int32_t)best;
        logp[j] = none ? 0 : z[best] / T - max - log(sum);
        if (!none) z[best] = -INFINITY;
    }
    *rest = 0;
    for (uint32_t i = 0; i < n; i++) *rest += exp(z[i] / T - max) / sum;
}

static int prepare(rt_values *v, rt_verify_env *env, rt_err *e)
{
    const rt_op_case *c = v->c;
    const uint32_t n = c->dim[N], k = c->dim[TOPK];
    (void)env;
    if (!is_topk(c)) return RT_OK;
    double *z = rt_values_scratch(v, (uint64_t)n * c->dim[V] * sizeof *z);
    double *logp = rt_values_scratch(v, (uint64_t)n * k * sizeof *logp);
    double *rest = rt_values_scratch(v, n * sizeof *rest);
    int32_t *id = rt_values_scratch(v, (uint64_t)n * k * sizeof *id);
    if (!z || !logp || !rest || !id) return rt_fail(e, RT_NOMEM, "no memory for the operands of case %s", c->name);
    rt_fill f = { .x = z, .rows = n, .cols = c->dim[V], .seed = v->seed, .stream = RT_KD_TEACHER };
    fill_logits(c, &f);
    for (uint32_t i = 0; i < n; i++)
        teacher_row(v, z + (uint64_t)i * c->dim[V], id + (uint64_t)i * k, logp + (uint64_t)i * k, rest + i);
    rt_values_set(v, RT_KD_TK_ID, id);
    rt_values_set(v, RT_KD_TK_LOGP, logp);
    rt_values_set(v, RT_KD_TK_REST, rest);
    return RT_OK;
}

/* ---- magnitudes: what each element is added up from, by the formulas at the head of ref_kd.c ----
 *
 * A probability has the relative error of its logarithm, so P and Q of an outcome weigh 1 + |log P| + |log Q|; that
 * also covers the logarithms that P and Q are multiplied by. In a gradient one that f32 cannot hold as a normal number
 * may count as 0: COUNTS is what rounding takes that much from. */

typedef struct outcomes {
    double *lp, *lq;     /* (n) log P, log Q */
    double *logs, *mass; /* (n) 1 + |log P| + |log Q|, and that times P + Q */
    int32_t *which;      /* (V) outcome of an id, -1 outside Vc */
    double *logq;        /* (V) of each id, over Vc */
    uint32_t n;
    double sum; /* of all weights */
} outcomes;

/* logs, mass and their sum, from lp and lq. */
static void weigh(outcomes *o)
{
    o->sum = 0;
    for (uint32_t j = 0; j < o->n; j++) {
        double p = exp(o->lp[j]), q = exp(o->lq[j]);
        o->logs[j] = 1 + (p > 0 ? fabs(o->lp[j]) : 0) + (q > 0 ? fabs(o->lq[j]) : 0);
        o->mass[j] = (p + q) * o->logs[j];
        o->sum += o->mass[j];
    }
}

/* y = log softmax(x / T) over the ids with an outcome. */
static void log_softmax(double *y, const double *x, const int32_t *which, uint32_t n, double T)
{
    double max = -INFINITY, sum = 0;
    for (uint32_t i = 0; i < n; i++)
        if (which[i] >= 0) max = fmax(max, x[i] / T);
    for (uint32_t i = 0; i < n; i++)
        if (which[i] >= 0) sum += exp(x[i] / T - max);
    const double part = log(sum);
    for (uint32_t i = 0; i < n; i++) y[i] = which[i] >= 0 ? x[i] / T - max - part : -INFINITY;
}

/* false: the teacher of this row has a number that is not finite. */
static bool find_outcomes(rt_values *v, const double *z, uint32_t row, outcomes *o)
{
    const rt_op_case *c = v->c;
    const uint32_t n = c->dim[V], k = c->dim[TOPK], U = v->view[RT_KD_TEACHER].cols;
    const int32_t *mask = rt_values_row(v, RT_KD_VMASK, 0);
    const double *t = rt_values_dense(v, RT_KD_TEACHER), *logp = rt_values_dense(v, RT_KD_TK_LOGP);
    double T = (double)options(c).T;
    bool sound = true;
    o->n = is_full(c) ? n : is_topk(c) ? k + 1 : 0;
    for (uint32_t i = 0; i < n; i++) {
        bool in = o->n && in_mask(mask, i) && (!U || i < U);
        o->which[i] = in ? (int32_t)(U ? i : k) : -1;
        if (in && U) sound = sound && isfinite(t[(uint64_t)row * U + i]);
    }
    log_softmax(o->logq, z, o->which, n, T);
    if (U) {
        log_softmax(o->lp, t + (uint64_t)row * U, o->which, n, T);
        memcpy(o->lq, o->logq, n * sizeof *o->lq);
    } else if (k) {
        const int32_t *id = rt_values_row(v, RT_KD_TK_ID, row);
        double left = 0;
        for (uint32_t j = 0; j < k; j++) {
            o->lp[j] = id[j] < 0 ? -INFINITY : logp[(uint64_t)row * k + j];
            o->lq[j] = id[j] < 0 ? -INFINITY : o->logq[id[j]];
            if (id[j] >= 0) o->which[id[j]] = (int32_t)j;
        }
        for (uint32_t i = 0; i < n; i++) left += o->which[i] == (int32_t)k ? exp(o->logq[i]) : 0;
        o->lp[k] = log(rt_values_dense(v, RT_KD_TK_REST)[row]);
        o->lq[k] = log(left);
    }
    weigh(o);
    return sound;
}

/* One row: scale (V) of its gradient, unless null; of CE and of D. false: the row is at fault, and only the record of
 * that is promised. */
static bool row_terms(rt_values *v, uint32_t row, outcomes *o, double *scale, double *ce, double *div)
{
    const double COUNTS = (double)FLT_MIN / (double)FLT_EPSILON;
    const rt_op_case *c = v->c;
    const uint32_t n = c->dim[V];
    const double *z = rt_values_dense(v, RT_KD_LOGITS) + (uint64_t)row * n;
    rt_kd_opts opt = options(c);
    double T = (double)opt.T, max = -INFINITY, sum = 0, kd = (double)opt.kd_weight / T * (opt.t2 ? T * T : 1);
    int32_t target = *rt_values_row(v, RT_KD_TARGET, row);
    bool sound = target < (int32_t)n;
    for (uint32_t i = 0; i < n; i++) {
        sound = sound && isfinite(z[i]);
        max = fmax(max, z[i]);
    }
    sound = find_outcomes(v, z, row, o) && sound;
    for (uint32_t i = 0; i < n; i++) sum += exp(z[i] - max);
    *ce = target < 0 || !sound ? 0 : 1 + log(sum) + fabs(z[target] - max);
    *div = target < 0 ? 0 : o->sum;
    for (uint32_t i = 0; scale && i < n; i++) {
        double p = exp(z[i] - max) / sum;
        scale[i] = (double)opt.ce_weight * (p * (1 + fabs(z[i] - max)) + ((int32_t)i == target));
        if (o->which[i] >= 0) {
            uint32_t j = (uint32_t)o->which[i];
            double q = exp(o->logq[i]), share = exp(o->logq[i] - o->lq[j]);
            scale[i] += kd * (o->mass[j] * share + q * o->sum) * (q > 0 ? 1 + fabs(o->logq[i]) : 1);
            scale[i] += kd * COUNTS * (o->logs[j] + o->sum);
        }
        scale[i] = target < 0 ? 0 : scale[i] / 3; /* 3 tokens in the step */
    }
    return sound || target < 0;
}

static void terms(rt_values *v, uint32_t slot, const double *want, double *scale)
{
    const uint32_t n = v->c->dim[N], cols = v->c->dim[V], most = cols + v->c->dim[TOPK] + 1;
    double *room = rt_values_scratch(v, (4 * (uint64_t)most + cols) * sizeof *room + cols * sizeof(int32_t));
    double all[2] = { 0, 0 };
    bool sound = true;
    static const uint32_t read[] = { RT_KD_LOGITS, RT_KD_TEACHER, RT_KD_TK_LOGP, RT_KD_TK_REST };
    for (uint32_t i = 0; i < RT_COUNT(read); i++) rt_values_dense(v, read[i]);
    if (v->failed) return;
    outcomes o = { .lp = room,
                   .lq = room + most,
                   .logs = room + 2 * most,
                   .mass = room + 3 * most,
                   .logq = room + 4 * most,
                   .which = (int32_t *)(room + 4 * most + cols) };
    for (uint32_t i = 0; i < n; i++) {
        double ce, div, *row = slot == RT_KD_LOGITS && !v->c->flag[GRAD] ? scale + (uint64_t)i * cols : NULL;
        bool good = row_terms(v, i, &o, row, &ce, &div);
        if (slot == RT_KD_CE || slot == RT_KD_DIV) scale[i] = !good ? RT_SCALE_FINITENESS : slot == RT_KD_CE ? ce : div;
        if (slot == RT_KD_TOP1) scale[i] = good ? 0 : RT_SCALE_ANY;
        for (uint32_t k = 0; row && !good && k < cols; k++) row[k] = RT_SCALE_ANY;
        all[0] += ce;
        all[1] += div;
        sound = sound && good;
    }
    if (slot != RT_KD_SUMS) return;
    const double *before = v->c->flag[ACC] ? rt_values_dense(v, slot) : NULL;
    for (int i = 0; i < 4; i++) scale[i] = fabs(want[i]) + (before ? fabs(before[i]) : 0) + (i < 2 ? all[i] : 0);
    if (sound) return;
    scale[0] = scale[1] = RT_SCALE_FINITENESS;
    scale[2] = RT_SCALE_ANY;
}

/* `ref` in float adds up V exponentials one by one (equal ones round the same way every time), and holds z / T, not a
 * difference of logits. */
static double columns_and_logits(const rt_op_case *c)
{
    double z = (c->flag[LOGITS] == 1 ? 30 : 2) * 3.5 / (double)options(c).T, n = c->dim[V];
    return (c->flag[LOGITS] == 2 ? n + n * n / 256 : n) + z * z;
}

const rt_op_set rt_op_set_kd_loss = {
    .kind = RT_OP_KD_LOSS,
    .ndims = 3,
    RT_TABLE(shapes, shapes),
    RT_TABLE(more, more),
    RT_TABLE(flags, flags),
    .allowed = allowed,
    .fix = fix,
    .layout = layout,
    .emit = emit,
    .prepare = prepare,
    .terms = terms,
    .serial_terms = columns_and_logits,
    .large = { .signature = "bf16.bf16", .dim = { 13, 32000, 0 } },
};
