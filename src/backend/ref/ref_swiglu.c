/* ref_swiglu.c - y = g sigmoid(g) u, and its gradients. With s = sigmoid(g):
 *   dg = dy u s (1 + g (1 - s))
 *   du = dy g s
 * and y again, where it is asked for. */
#include "backend/ref/ref.h"

#include <tgmath.h>

/* exp overflows to infinity for very negative x, and 1 / infinity is the right 0. */
static real sigmoid(real x) { return 1 / (1 + exp(-x)); }

void REF(swiglu_fwd)(const rt_ref_call *c)
{
    const rt_swiglu_args *a = &c->args->swiglu;
    real *y = c->s[RT_GLU_Y];                            /* (N,F) */
    const real *g = c->s[RT_GLU_G], *u = c->s[RT_GLU_U]; /* (N,F) */
    size_t n = (size_t)a->N * a->F;
    for (size_t i = 0; i < n; i++) y[i] = g[i] * sigmoid(g[i]) * u[i];
}

void REF(swiglu_bwd)(const rt_ref_call *c)
{
    const rt_swiglu_args *a = &c->args->swiglu;
    real *dg = c->s[RT_GLUB_DG], *du = c->s[RT_GLUB_DU], *y = c->s[RT_GLUB_Y];     /* (N,F) =; y: or null */
    const real *dy = c->s[RT_GLUB_DY], *g = c->s[RT_GLUB_G], *u = c->s[RT_GLUB_U]; /* (N,F) */
    size_t n = (size_t)a->N * a->F;
    for (size_t i = 0; i < n; i++) {
        real s = sigmoid(g[i]);
        dg[i] = dy[i] * u[i] * s * (1 + g[i] * sigmoid(-g[i])); /* 1 - s without its cancellation */
        du[i] = dy[i] * g[i] * s;
        if (y) y[i] = g[i] * s * u[i];
    }
}
