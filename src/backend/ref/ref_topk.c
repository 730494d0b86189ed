/* ref_topk.c - the k most likely ids of a row, as a cached teacher stores them.
 *
 * log p = log softmax(x / T) over Vc, the ids whose bit is set in vmask. Descending, ties by lower id. rest is the
 * mass of the ids of Vc that are not listed, added up from them, not taken from 1. Scratch: V elements. */
#include "backend/ref/ref.h"

#include "backend/ref/ref_rank.h"

#include <tgmath.h>

static void topk_row(int32_t *id /* (k) */, real *logp /* (k) */, real *rest, const real *x /* (V) */,
                     const uint32_t *vmask, const rt_topk_args *a, int32_t *order /* (V) */)
{
    size_t n = 0;
    bool finite = true;
    for (uint32_t v = 0; v < a->V; v++) {
        if (vmask && !(vmask[v / 32] >> v % 32 & 1)) continue;
        finite = finite && isfinite(x[v]);
        order[n++] = (int32_t)v;
    }
    if (!finite) {
        for (size_t j = 0; j < a->k; j++) {
            id[j] = -1;
            logp[j] = (real)NAN;
        }
        *rest = (real)NAN;
        return;
    }
    rank_ids(order, n, x);
    real sum = 0; /* of exp(x/T - max), the smallest first */
    for (size_t j = n; j-- > 0;) sum += exp((x[order[j]] - x[order[0]]) / a->T);
    for (size_t j = 0; j < a->k; j++) {
        id[j] = j < n ? order[j] : -1;
        logp[j] = j < n ? (x[order[j]] - x[order[0]]) / a->T - log(sum) : -(real)INFINITY;
    }
    real left = 0;
    for (size_t j = n; j-- > a->k;) left += exp((x[order[j]] - x[order[0]]) / a->T - log(sum));
    *rest = left;
}

void REF(topk)(const rt_ref_call *c)
{
    const rt_topk_args *a = &c->args->topk;
    int32_t *id = c->s[RT_TOPK_ID];              /* (N,k) */
    real *logp = c->s[RT_TOPK_LOGP];             /* (N,k) */
    real *rest = c->s[RT_TOPK_REST];             /* (N,1) */
    const real *x = c->s[RT_TOPK_X];             /* (N,V) */
    const uint32_t *vmask = c->s[RT_TOPK_VMASK]; /* (1,ceil(V/32)) or null */
    for (size_t i = 0; i < a->N; i++)
        topk_row(id + i * a->k, logp + i * a->k, rest + i, x + i * a->V, vmask, a, c->work);
}
