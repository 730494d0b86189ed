/* cpu_kd_terms.h - one outcome of a divergence in double, from logarithms; for the columns of kd_loss that are computed
 * apart.
 *
 * Owns: the formulas of every divergence in their stable form. The vector form of the same is in cpu_kd_block.h. */
#ifndef RT_BACKEND_CPU_CPU_KD_TERMS_H
#define RT_BACKEND_CPU_CPU_KD_TERMS_H

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

#endif
