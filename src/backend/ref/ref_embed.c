/* ref_embed.c - rows of a table by id, and the gradient of that. */
#include "backend/ref/ref.h"

#include <tgmath.h>

/* y[i] = table[ids[i]] */
void REF(embed_fwd)(const rt_ref_call *c)
{
    const rt_embed_args *a = &c->args->embed;
    real *y = c->s[RT_EMBED_Y];               /* (N,C) */
    const real *table = c->s[RT_EMBED_TABLE]; /* (V,C) */
    const int32_t *ids = c->s[RT_EMBED_IDS];  /* (N,1) */
    size_t C = a->C;
    for (size_t i = 0; i < a->N; i++) {
        bool known = ids[i] >= 0 && (uint32_t)ids[i] < a->V;
        for (size_t j = 0; j < C; j++) y[i * C + j] = known ? table[(size_t)ids[i] * C + j] : (real)NAN;
    }
}

/* dtable[ids[i]] += dy[i], in order of i */
void REF(embed_bwd)(const rt_ref_call *c)
{
    const rt_embed_args *a = &c->args->embed;
    real *dtable = c->s[RT_EMBED_DTABLE];     /* (V,C) += */
    const real *dy = c->s[RT_EMBED_DY];       /* (N,C) */
    const int32_t *ids = c->s[RT_EMBED_BIDS]; /* (N,1) */
    size_t C = a->C;
    for (size_t i = 0; i < a->N; i++) {
        if (ids[i] < 0 || (uint32_t)ids[i] >= a->V) continue;
        for (size_t j = 0; j < C; j++) dtable[(size_t)ids[i] * C + j] += dy[i * C + j];
    }
}
