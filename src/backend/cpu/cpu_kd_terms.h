/* cpu_kd_terms.h - the divergences outcome by outcome: in double from logarithms, for the columns of kd_loss that are
 * computed apart, and in vectors from probabilities, for its walk.
 *
 * Owns: the formulas in their stable forms. The two KLs have none in vectors: they are sums of the walk before. */
#ifndef RT_BACKEND_CPU_CPU_KD_TERMS_H
#define RT_BACKEND_CPU_CPU_KD_TERMS_H

#include "backend/cpu/cpu_softmax.h"
#include "op/args.h"

#include <math.h>

/* w x with 0 times anything 0: an outcome of no mass has no term, whatever its logarithm */
static inline double kd_weigh(double w, double x) { return w == 0 ? 0 : w * x; }

/* log(mix exp(a) + (1-mix) exp(b)), 0 < mix < 1; a or b may be minus infinity */
static inline double kd_log_mix(double mix, double a, double b)
{
    a += log(mix);
    b += log1p(-mix);
    double top = a > b ? a : b;
    return top == -INFINITY ? top : top + log(exp(a - top) + exp(b - top));
}

/* Term of D for an outcome with log-probabilities lp of the teacher and lq of the student; *g = q dD/dq up to a
 * constant times q. kind is never a JSD or skewed form with mix 0 or 1. */
static inline double kd_term(uint32_t kind, double mix, double lp, double lq, double *g)
{
    const double p = exp(lp), q = exp(lq);
    double lm, d;
    switch (kind) {
    case RT_DIV_FORWARD_KL: *g = -p; return kd_weigh(p, lp - lq);
    case RT_DIV_REVERSE_KL: *g = kd_weigh(q, lq - lp); return *g;
    case RT_DIV_JSD:
        lm = kd_log_mix(mix, lp, lq);
        *g = (1 - mix) * kd_weigh(q, lq - lm);
        return mix * kd_weigh(p, lp - lm) + *g;
    case RT_DIV_SKEW_FKL:
        lm = kd_log_mix(mix, lp, lq);
        *g = -(1 - mix) * kd_weigh(p, exp(lq - lm));
        return kd_weigh(p, lp - lm);
    case RT_DIV_SKEW_RKL:
        lm = kd_log_mix(mix, lq, lp);
        d = kd_weigh(q, lq - lm);
        *g = d - mix * kd_weigh(q, exp(lq - lm));
        return d;
    default: /* RT_DIV_TV; no slope where p is q */ *g = q > p ? q / 2 : q < p ? -q / 2 : 0; return fabs(p - q) / 2;
    }
}

/* ---- vectors ---- */
/* log(x) of a positive normal number, absolute error below 6e-8 (1 + |log x|), and relative near 1: x = 2^n (1 + f), 1
 * + f in [sqrt(1/2), sqrt(2)); log(1 + f) = f - f^2/2 + f^3 p(f) (minimax, 2^-27 off). No division, no special cases.
 */
RT_INLINE vf log_fast(vf x)
{
    vi u = (vi)x - 0x3f3504f3; /* bits of sqrt(1/2) */
    vf n = __builtin_convertvector(u >> 23, vf), f = (vf)((u & 0x7fffff) + 0x3f3504f3) - vset(1.0f), g = f * f;
    /* in pairs: shorter chains than term by term */
    vf p01 = vfma(vset(-0x1.0001dp-2f), f, vset(0x1.55554cp-2f)),
       p23 = vfma(vset(-0x1.548ba6p-3f), f, vset(0x1.99a522p-3f));
    vf p45 = vfma(vset(-0x1.0c4222p-3f), f, vset(0x1.227c7ep-3f)),
       p67 = vfma(vset(-0x1.43ec56p-4f), f, vset(0x1.074f64p-3f));
    vf p = vfma(vfma(p67, g, p45), g * g, vfma(p23, g, p01));
    p = vfma(n, vset(0x1.7f7d1cp-20f), g * vfma(p, f, vset(-0.5f))); /* ln 2 in two parts */
    return vfma(n, vset(0x1.62e4p-1f), f + p);
}

/* From p = et pt and q = es qs: term of D, and c = dD/dq (up to a constant, which cancels in the gradient). A ratio is
 * kept at or above 1e-37, so its logarithm is finite; it is below that only where the p or q it is multiplied by is 0
 * or too small to count. */
RT_INLINE vf pair_term(vf p, vf q, const uint32_t kind, float mix, vf *c)
{
    const vf tiny = vset(1e-37f), a = vset(mix), b = vset(1.0f - mix);
    if (kind == RT_DIV_TV) {
        vf h = vset(0.5f);
        *c = (vf)((vi)h & (q > p)) - (vf)((vi)h & (q < p));
        return vmax(p - q, q - p) * h;
    }
    vf m = kind == RT_DIV_SKEW_RKL ? vfma(a, q, b * p) : vfma(a, p, b * q), inv = vset(1.0f) / vmax(tiny, m);
    vf r = (kind == RT_DIV_SKEW_FKL ? p : q) * inv, l = log_fast(vmax(tiny, r));
    if (kind == RT_DIV_JSD) {
        *c = b * l;
        return vfma(a * p, log_fast(vmax(tiny, p * inv)), q * *c);
    }
    if (kind == RT_DIV_SKEW_FKL) {
        *c = -b * r;
        return p * l;
    }
    *c = vfma(-a, r, l);
    return q * l;
}

#endif
