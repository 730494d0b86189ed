/* ref_kd.c - the distillation loss of one chunk of positions, and its gradient in place of the student's logits.
 *
 * CE = log sum exp(z) - z[target] over all V columns, at temperature 1.
 * D compares two distributions over the same outcomes, P of the teacher and Q of the student:
 *   full logits: the outcomes are the ids of Vc; P = softmax(teacher / T), Q = q = softmax(z / T), both over Vc;
 *   top-k: the listed ids, and one more outcome for all the other ids of Vc together.
 * Every divergence is a sum of terms D(P_j, Q_j), so with g_j = Q_j dD/dQ_j the gradient is the same for all of them:
 *   T dD/dz_v = q_v / Q_j g_j - q_v sum(g),  j the outcome of v; a constant times Q in g cancels and is left out.
 * loss of a position = (ce_weight CE + kd_weight [T^2] D) / tokens, tokens counted over the whole optimizer step.
 *
 * P and Q are kept as logarithms, so one that underflows is a plain 0 with a finite logarithm. An outcome that does not
 * exist (id outside Vc, unused entry, no ids left over) has both logarithms at minus infinity and contributes nothing.
 * Scratch: 2 V + 3 (max(V,k) + 1) elements. */
#include "backend/ref/ref.h"

#include <tgmath.h>

typedef struct scratch {
    real *logq;     /* (V) log q of each id of Vc, minus infinity outside */
    int32_t *which; /* (V) outcome of each id, -1 outside Vc */
    real *lp, *lq;  /* (n) log P, log Q of the outcomes */
    real *g;        /* (n) Q dD/dQ */
    size_t n;       /* outcomes */
} scratch;

static bool in_vc(const rt_kd_args *a, const uint32_t *vmask, uint32_t v)
{
    return (!vmask || (vmask[v / 32] >> v % 32 & 1)) && (a->U == 0 || v < a->U);
}

/* w x, where nothing times anything is nothing: 0 log 0 = 0 */
static real times(real w, real x) { return w == 0 ? 0 : w * x; }

/* log(exp(a) + exp(b)); NaN when both are minus infinity, which only ever meets a weight of 0 */
static real logaddexp(real a, real b)
{
    real hi = a > b ? a : b, lo = a > b ? b : a; /* unlike fmax and fmin this keeps a NaN */
    return hi + log1p(exp(lo - hi));
}

/* y = log softmax(x / T) over the ids of Vc */
static void log_softmax(real *y /* (V) */, const real *x, const int32_t *which /* (V) */, size_t V, real T)
{
    real max = -(real)INFINITY, sum = 0;
    for (size_t v = 0; v < V; v++)
        if (which[v] >= 0) max = fmax(max, x[v] / T);
    for (size_t v = 0; v < V; v++)
        if (which[v] >= 0) sum += exp(x[v] / T - max);
    for (size_t v = 0; v < V; v++) y[v] = which[v] >= 0 ? (x[v] / T - max) - log(sum) : -(real)INFINITY;
}

/* One outcome: its term of D, and g. */
static real term(uint32_t kind, real mix, real lp, real lq, real *g)
{
    real p = exp(lp), q = exp(lq), lm, d;
    switch (kind) {
    case RT_DIV_FORWARD_KL: *g = -p; return times(p, lp - lq);
    case RT_DIV_REVERSE_KL: return *g = times(q, lq - lp);
    case RT_DIV_JSD:
        lm = logaddexp(log(mix) + lp, log(1 - mix) + lq);
        *g = (1 - mix) * times(q, lq - lm);
        return mix * times(p, lp - lm) + *g;
    case RT_DIV_SKEW_FKL:
        lm = logaddexp(log(mix) + lp, log(1 - mix) + lq);
        *g = -times(p, exp(log(1 - mix) + lq - lm));
        return times(p, lp - lm);
    case RT_DIV_SKEW_RKL:
        lm = logaddexp(log(mix) + lq, log(1 - mix) + lp);
        d = times(q, lq - lm);
        *g = d + times(q, exp(log(1 - mix) + lp - lm));
        return d;
    default: /* RT_DIV_TV; at p = q the derivative is taken as 0 */
        *g = (q > p) ? q / 2 : (q < p) ? -q / 2 : 0;
        return fabs(p - q) / 2;
    }
}

static real divergence(const rt_kd_args *a, scratch *s)
{
    uint32_t kind = a->divergence;
    if (kind == RT_DIV_JSD && a->mix == 0) kind = RT_DIV_FORWARD_KL;
    if (kind == RT_DIV_JSD && a->mix == 1) kind = RT_DIV_REVERSE_KL;
    real sum = 0;
    for (size_t j = 0; j < s->n; j++) sum += term(kind, a->mix, s->lp[j], s->lq[j], &s->g[j]);
    return sum;
}

/* The outcomes when the teacher gives all its logits. false: one of them in Vc is not finite. */
static bool full_outcomes(const rt_kd_args *a, const real *z, const real *teacher /* (U) */, const uint32_t *vmask,
                          scratch *s)
{
    bool sound = true;
    for (uint32_t v = 0; v < a->V; v++) {
        s->which[v] = in_vc(a, vmask, v) ? (int32_t)v : -1;
        if (s->which[v] >= 0) sound = sound && isfinite(teacher[v]);
    }
    log_softmax(s->logq, z, s->which, a->V, a->T);
    log_softmax(s->lp, teacher, s->which, a->V, a->T);
    for (uint32_t v = 0; v < a->V; v++) s->lq[v] = s->logq[v];
    s->n = a->V;
    return sound;
}

/* The outcomes when the teacher gives k ids with their log-probabilities, and the mass of the rest. A negative id is an
 * unused entry. false: a number is not finite, or an id is outside Vc or listed twice; that entry is left out. */
static bool topk_outcomes(const rt_kd_args *a, const real *z, const int32_t *id, const real *logp, real rest,
                          const uint32_t *vmask, scratch *s)
{
    int32_t others = (int32_t)a->k;
    bool sound = isfinite(rest);
    for (uint32_t v = 0; v < a->V; v++) s->which[v] = in_vc(a, vmask, v) ? others : -1;
    log_softmax(s->logq, z, s->which, a->V, a->T);
    for (uint32_t j = 0; j < a->k; j++) {
        s->lp[j] = s->lq[j] = -(real)INFINITY;
        if (id[j] < 0) continue;
        bool known = (uint32_t)id[j] < a->V && s->which[id[j]] == others;
        sound = sound && known && isfinite(logp[j]);
        if (!known) continue;
        s->which[id[j]] = (int32_t)j;
        s->lp[j] = logp[j];
        s->lq[j] = s->logq[id[j]];
    }
    /* Added up from the ids that are left, not taken from 1. Where none is left a mass is only rounding. */
    real max = -(real)INFINITY, sum = 0;
    bool left = false;
    for (uint32_t v = 0; v < a->V; v++)
        if (s->which[v] == others) {
            left = true;
            max = fmax(max, s->logq[v]);
        }
    for (uint32_t v = 0; v < a->V; v++)
        if (s->which[v] == others) sum += exp(s->logq[v] - max);
    s->lq[others] = left ? max + log(sum) : -(real)INFINITY;
    s->lp[others] = left && !(rest <= 0) ? log(rest) : -(real)INFINITY;
    s->n = (size_t)a->k + 1;
    return sound;
}

/* The likeliest id of Vc, or the likeliest of a list; ties go to the lowest id; -1 when there is none. */
static int32_t best_of_vc(const real *x, const int32_t *which, uint32_t V)
{
    int32_t best = -1;
    for (uint32_t v = 0; v < V; v++)
        if (which[v] >= 0 && (best < 0 || x[v] > x[best])) best = (int32_t)v;
    return best;
}

static int32_t best_of_list(const int32_t *id, const real *logp, uint32_t k)
{
    int64_t best = -1;
    for (uint32_t j = 0; j < k; j++) {
        if (id[j] < 0) continue;
        if (best < 0 || logp[j] > logp[best] || (logp[j] == logp[best] && id[j] < id[best])) best = j;
    }
    return best < 0 ? -1 : id[best];
}

typedef struct figures {
    real ce, div, top1;
    bool sound; /* everything read was finite and in range */
} figures;

/* The loss of row i; z becomes its gradient when that is wanted. */
static figures kd_row(const rt_ref_call *c, real *z /* (V) */, size_t i, uint32_t target, scratch *s)
{
    const rt_kd_args *a = &c->args->kd;
    const uint32_t *vmask = c->s[RT_KD_VMASK];
    const rt_step *step = c->s[RT_KD_STEP];
    figures f = { 0, 0, 0, true };

    real max = -(real)INFINITY, sum = 0;
    for (uint32_t v = 0; v < a->V; v++) {
        f.sound = f.sound && isfinite(z[v]);
        max = fmax(max, z[v]);
    }
    for (uint32_t v = 0; v < a->V; v++) sum += exp(z[v] - max);
    real logsum = log(sum);
    f.ce = target < a->V ? logsum - (z[target] - max) : (real)NAN; /* which makes the loss a fault */

    real total = 0; /* of g */
    s->n = 0;
    if (a->U || a->k) {
        const real *teacher = a->U ? (const real *)c->s[RT_KD_TEACHER] + i * a->U : NULL;
        const int32_t *id = a->U ? NULL : (const int32_t *)c->s[RT_KD_TK_ID] + i * a->k;
        const real *logp = a->U ? NULL : (const real *)c->s[RT_KD_TK_LOGP] + i * a->k;
        bool sound = a->U ? full_outcomes(a, z, teacher, vmask, s)
                          : topk_outcomes(a, z, id, logp, ((const real *)c->s[RT_KD_TK_REST])[i], vmask, s);
        f.sound = f.sound && sound;
        f.div = divergence(a, s);
        int32_t mine = best_of_vc(z, s->which, a->V);
        f.top1 = mine >= 0 && mine == (a->U ? best_of_vc(teacher, s->which, a->V) : best_of_list(id, logp, a->k));
        for (size_t j = 0; j < s->n; j++) total += s->g[j];
    }

    real kd_weight = a->kd_weight * (a->t2 ? (real)a->T * a->T : 1);
    f.sound = f.sound && isfinite((a->ce_weight * f.ce + kd_weight * f.div) / step->tokens);
    for (uint32_t v = 0; a->grad && v < a->V; v++) {
        real slope = a->ce_weight * (exp((z[v] - max) - logsum) - (v == target));
        if (s->n && s->which[v] >= 0) {
            int32_t j = s->which[v];
            slope += kd_weight / a->T * (times(s->g[j], exp(s->logq[v] - s->lq[j])) - exp(s->logq[v]) * total);
        }
        z[v] = slope / step->tokens;
    }
    return f;
}

void REF(kd_loss)(const rt_ref_call *c)
{
    const rt_kd_args *a = &c->args->kd;
    real *logits = c->s[RT_KD_LOGITS];                                           /* (N,V) in place */
    real *sums = c->s[RT_KD_SUMS];                                               /* (1,4) += */
    real *ce = c->s[RT_KD_CE], *div = c->s[RT_KD_DIV], *top1 = c->s[RT_KD_TOP1]; /* (N,1) or null */
    rt_fault *fault = c->s[RT_KD_FAULT];
    const int32_t *target = c->s[RT_KD_TARGET]; /* (N,1) */
    const rt_step *step = c->s[RT_KD_STEP];
    size_t V = a->V, most = (a->V > a->k ? a->V : a->k) + (size_t)1;
    real *w = c->work;
    scratch s = { w, (int32_t *)(w + V), w + 2 * V, w + 2 * V + most, w + 2 * V + 2 * most, 0 };
    for (size_t i = 0; i < a->N; i++) {
        real *z = logits + i * V;
        figures f = { 0, 0, 0, true };
        if (target[i] >= 0) {
            f = kd_row(c, z, i, (uint32_t)target[i], &s);
            sums[3] += 1;
        } else {
            for (size_t v = 0; a->grad && v < V; v++) z[v] = 0;
        }
        sums[0] += f.ce;
        sums[1] += f.div;
        sums[2] += f.top1;
        if (ce) ce[i] = f.ce;
        if (div) div[i] = f.div;
        if (top1) top1[i] = f.top1;
        if (!f.sound && !fault->set) *fault = (rt_fault){ 1, step->step, a->site, (uint32_t)i };
    }
}
