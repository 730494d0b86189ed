/* ref_sample.c - one id per row.
 *
 * The logits of seen ids are penalised: above 0 divided by the penalty, else multiplied. Ids are ranked by logit, ties
 * by lower id. The first top_k stay; of their softmax at the temperature, the smallest prefix whose mass reaches top_p
 * stays, and of it what is at least min_p times as likely as the first; at least one id. u in [0,1) depends on the key
 * alone; the id is the first whose cumulative share of what stays exceeds u. Temperature 0 takes the first id. A row
 * with a logit that is not finite gives -1, and NaN for its log-probability. That is of the logits as they came, at
 * temperature 1. The id is then seen. Scratch: 3 V elements. */
#include "backend/ref/ref.h"

#include "backend/ref/ref_rank.h"
#include "base/rng.h"

#include <tgmath.h>

/* order (V): the ids, ranked by y */
static int32_t choose(const real *y /* (V) */, uint32_t V, const real *how, float u, const int32_t *order,
                      real *p /* (V) */)
{
    const real T = how[RT_HOW_TEMPERATURE], top_p = how[RT_HOW_TOP_P], min_p = how[RT_HOW_MIN_P];
    if (T <= 0) return order[0];
    size_t kept = rt_sample_most((float)how[RT_HOW_TOP_K], V), prefix = 0;
    real sum = 0, mass = 0, below = 0; /* mass: of the prefix, as a share of sum */
    for (size_t j = 0; j < kept; j++) sum += p[j] = exp((y[order[j]] - y[order[0]]) / T);
    while (prefix < kept && (prefix == 0 || ((top_p >= 1 || mass < top_p) && p[prefix] >= min_p)))
        mass += p[prefix++] / sum;
    for (size_t j = 0; j < prefix; j++) {
        below += p[j] / sum;
        if (below / mass > u) return order[j];
    }
    return order[prefix - 1];
}

/* log softmax of x (V) at id */
static real log_share(const real *x, uint32_t V, int32_t id)
{
    real max = x[0], sum = 0;
    for (uint32_t v = 1; v < V; v++) max = fmax(max, x[v]);
    for (uint32_t v = 0; v < V; v++) sum += exp(x[v] - max);
    return x[id] - max - log(sum);
}

static bool penalised(real *y /* (V) = */, const real *x, uint32_t V, const uint32_t *seen, real by)
{
    for (uint32_t v = 0; v < V; v++) {
        if (!isfinite(x[v])) return false;
        bool is_seen = seen && seen[v / 32] >> v % 32 & 1;
        y[v] = !is_seen ? x[v] : x[v] > 0 ? x[v] / by : x[v] * by;
    }
    return true;
}

void REF(sample)(const rt_ref_call *c)
{
    const rt_sample_args *a = &c->args->sample;
    int32_t *id = c->s[RT_SAMPLE_ID];                              /* (N,1) */
    real *logp = c->s[RT_SAMPLE_LOGP];                             /* (N,1) or null */
    uint32_t *seen = c->s[RT_SAMPLE_SEEN];                         /* (N,ceil(V/32)) or null */
    const real *x = c->s[RT_SAMPLE_X], *how = c->s[RT_SAMPLE_HOW]; /* (N,V), (N,RT_HOW_COLS) */
    const uint32_t *key = c->s[RT_SAMPLE_KEY];                     /* (N,2) */
    real *y = c->work, *p = y + a->V;
    int32_t *order = (int32_t *)(p + a->V);
    const size_t words = ((size_t)a->V + 31) / 32;
    for (size_t i = 0; i < a->N; i++, x += a->V, how += RT_HOW_COLS, key += 2) {
        uint32_t *bits = seen ? seen + i * words : NULL;
        float u = rt_rng_unit(rt_philox(0, rt_sample_stream, (uint64_t)key[1] << 32 | key[0]).v[0]);
        id[i] = -1;
        if (logp) logp[i] = (real)NAN;
        if (!penalised(y, x, a->V, bits, how[RT_HOW_PENALTY])) continue;
        for (uint32_t v = 0; v < a->V; v++) order[v] = (int32_t)v;
        rank_ids(order, a->V, y);
        id[i] = choose(y, a->V, how, u, order, p);
        if (logp) logp[i] = log_share(x, a->V, id[i]);
        if (bits) bits[id[i] / 32] |= 1u << id[i] % 32;
    }
}
