/* ref_sample.c - one id per row.
 *
 * Ids are ranked by logit, ties by lower id. The first top_k stay; of their softmax at the temperature, the smallest
 * prefix whose mass reaches top_p stays, at least one id. u in [0,1) depends on seed, stream, step and row alone;
 * the id is the first whose cumulative share of that prefix exceeds u. Temperature 0 takes the first id. A row with
 * a logit that is not finite gives -1. Scratch: 2 V elements. */
#include "backend/ref/ref.h"

#include "backend/ref/ref_rank.h"
#include "base/rng.h"

#include <tgmath.h>

static int32_t sample_row(const real *x /* (V) */, const rt_sample_args *a, float u, int32_t *order /* (V) */,
                          real *p /* (V) */)
{
    for (uint32_t v = 0; v < a->V; v++) {
        if (!isfinite(x[v])) return -1;
        order[v] = (int32_t)v;
    }
    rank_ids(order, a->V, x);
    if (a->temperature == 0) return order[0];

    size_t kept = a->top_k && a->top_k < a->V ? a->top_k : a->V;
    real sum = 0;
    for (size_t j = 0; j < kept; j++) sum += p[j] = exp((x[order[j]] - x[order[0]]) / a->temperature);
    real mass = 0; /* of the prefix, as a share of sum */
    size_t prefix = 0;
    while (prefix < kept && (prefix == 0 || a->top_p >= 1 || mass < a->top_p)) mass += p[prefix++] / sum;
    real below = 0;
    for (size_t j = 0; j < prefix; j++) {
        below += p[j] / sum;
        if (below / mass > u) return order[j];
    }
    return order[prefix - 1];
}

void REF(sample)(const rt_ref_call *c)
{
    const rt_sample_args *a = &c->args->sample;
    int32_t *id = c->s[RT_SAMPLE_ID];  /* (N,1) */
    const real *x = c->s[RT_SAMPLE_X]; /* (N,V) */
    const rt_step *step = c->s[RT_SAMPLE_STEP];
    real *p = c->work;
    int32_t *order = (int32_t *)(p + a->V);
    for (size_t i = 0; i < a->N; i++) {
        float u = rt_rng_unit(rt_philox(step->seed, (uint64_t)a->stream << 32 | step->step, i).v[0]);
        id[i] = sample_row(x + i * a->V, a, u, order, p);
    }
}
