/* ref_mix.c - several teachers as one: the logits of a mixture of their probabilities, one teacher at a time.
 *
 * y = T log(exp(y0 / T) + w weight p), p = softmax(x / T) over Vc: the ids below U whose bit is set in vmask. Over
 * teachers t, each one's y the y0 of the next, that is T log sum of w p_t: softmax(y / T) is the mixture, whatever the
 * shares add up to, so kd_loss takes y as a teacher's full logits. No probability is RT_MIX_FLOOR instead of minus
 * infinity: so is every id of a row that all teachers so far have a weight of 0 for. A weight that is negative or not
 * finite, or a logit of x that is not while the weight is above 0, makes Vc NaN. Ids outside Vc are 0. */
#include "backend/ref/ref.h"

#include <stdbool.h>
#include <tgmath.h>

static bool in_vc(const rt_mix_args *a, const uint32_t *vmask, uint32_t v)
{
    return v < a->U && (!vmask || (vmask[v / 32] >> v % 32 & 1));
}

/* b + T log(exp((a - b) / T) + 1), from the larger of both; NaN when one is */
static real mixed(real a, real b, real T)
{
    real hi = a > b ? a : b, lo = a > b ? b : a;
    return hi + T * log1p(exp((lo - hi) / T));
}

static void mix_row(real *y /* (V) */, const real *y0 /* (V) or null */, const real *x /* (U) */, const uint32_t *vmask,
                    const rt_mix_args *a, real weight)
{
    real max = -(real)INFINITY, sum = 0;
    bool sound = isfinite(weight) && weight >= 0;
    for (uint32_t v = 0; weight > 0 && v < a->V; v++) {
        if (!in_vc(a, vmask, v)) continue;
        sound = sound && isfinite(x[v]);
        max = fmax(max, x[v]);
    }
    for (uint32_t v = 0; weight > 0 && v < a->V; v++)
        if (in_vc(a, vmask, v)) sum += exp((x[v] - max) / a->T);
    real shift = a->T * (log(weight) - log(sum));
    for (uint32_t v = 0; v < a->V; v++) {
        bool had = y0 && !(y0[v] <= RT_MIX_FLOOR);
        real z = had ? y0[v] : RT_MIX_FLOOR;
        if (!in_vc(a, vmask, v)) {
            y[v] = 0;
            continue;
        }
        if (weight != 0) {
            real add = x[v] - max + shift;
            z = had ? mixed(y0[v], add, a->T) : add;
        }
        y[v] = !sound ? (real)NAN : z < RT_MIX_FLOOR ? RT_MIX_FLOOR : z;
    }
}

void REF(mix_logits)(const rt_ref_call *c)
{
    const rt_mix_args *a = &c->args->mix;
    real *y = c->s[RT_MIX_Y];                   /* (N,V) */
    const real *y0 = c->s[RT_MIX_Y0];           /* (N,V) or null */
    const real *x = c->s[RT_MIX_X];             /* (N,U) */
    const real *weight = c->s[RT_MIX_WEIGHT];   /* (N,1) or null */
    const uint32_t *vmask = c->s[RT_MIX_VMASK]; /* (1,ceil(V/32)) or null */
    for (size_t i = 0; i < a->N; i++)
        mix_row(y + i * a->V, y0 ? y0 + i * a->V : NULL, x + i * a->U, vmask, a, a->w * (weight ? weight[i] : (real)1));
}
