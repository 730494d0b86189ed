/* ref_rmsnorm.c - root-mean-square norm over groups of D columns, alone and fused with a residual addition.
 *
 * With n = H groups per row, each group x (D) is normalised by itself:
 *   r  = 1 / sqrt(mean(x^2) + eps)
 *   y  = x r w
 *   dx = r (dy w) - x r^3 mean(dy w x)
 *   dw = sum over groups of dy x r */
#include "backend/ref/ref.h"

#include <tgmath.h>

static real inverse_rms(const real *x /* (D) */, size_t D, real eps)
{
    real sum = 0;
    for (size_t d = 0; d < D; d++) sum += x[d] * x[d];
    return 1 / sqrt(sum / D + eps);
}

static void forward(real *y, const real *x, const real *w, const rt_rmsnorm_args *a)
{
    size_t D = a->D, groups = (size_t)a->N * a->H;
    for (size_t i = 0; i < groups; i++) {
        real r = inverse_rms(x + i * D, D, a->eps);
        for (size_t d = 0; d < D; d++) y[i * D + d] = x[i * D + d] * r * w[d];
    }
}

/* dx and, unless null, dw: both += */
static void backward(real *dx, real *dw, const real *dy, const real *x, const real *w, const rt_rmsnorm_args *a)
{
    size_t D = a->D, groups = (size_t)a->N * a->H;
    for (size_t i = 0; i < groups; i++) {
        const real *xi = x + i * D, *dyi = dy + i * D;
        real r = inverse_rms(xi, D, a->eps);
        real mean = 0; /* of dy w x */
        for (size_t d = 0; d < D; d++) mean += dyi[d] * w[d] * xi[d];
        mean /= D;
        for (size_t d = 0; d < D; d++) dx[i * D + d] += r * dyi[d] * w[d] - xi[d] * r * r * r * mean;
        for (size_t d = 0; dw && d < D; d++) dw[d] += dyi[d] * xi[d] * r;
    }
}

void REF(rmsnorm_fwd)(const rt_ref_call *c)
{
    /* y, x (N,H*D); w (1,D) */
    forward(c->s[RT_RMS_Y], c->s[RT_RMS_X], c->s[RT_RMS_W], &c->args->rmsnorm);
}

void REF(rmsnorm_bwd)(const rt_ref_call *c)
{
    /* dx (N,H*D) +=; dw (1,D) +=; dy, x (N,H*D); w (1,D) */
    backward(c->s[RT_RMSB_DX], c->s[RT_RMSB_DW], c->s[RT_RMSB_DY], c->s[RT_RMSB_X], c->s[RT_RMSB_W], &c->args->rmsnorm);
}

/* h = x + res; y = rmsnorm(h) w */
void REF(add_rmsnorm_fwd)(const rt_ref_call *c)
{
    const rt_rmsnorm_args *a = &c->args->rmsnorm;
    real *h = c->s[RT_ARMS_H];                                 /* (N,H*D) */
    const real *x = c->s[RT_ARMS_X], *res = c->s[RT_ARMS_RES]; /* (N,H*D) */
    size_t n = (size_t)a->N * a->H * a->D;
    for (size_t i = 0; i < n; i++) h[i] = x[i] + res[i];
    forward(c->s[RT_ARMS_Y], h, c->s[RT_ARMS_W], a);
}

/* dx += dres + (dx of rmsnorm); h is what the forward wrote */
void REF(add_rmsnorm_bwd)(const rt_ref_call *c)
{
    const rt_rmsnorm_args *a = &c->args->rmsnorm;
    real *dx = c->s[RT_RMSB_DX];           /* (N,H*D) += */
    const real *dres = c->s[RT_RMSB_DRES]; /* (N,H*D) */
    size_t n = (size_t)a->N * a->H * a->D;
    for (size_t i = 0; i < n; i++) dx[i] += dres[i];
    backward(dx, c->s[RT_RMSB_DW], c->s[RT_RMSB_DY], c->s[RT_RMSB_X], c->s[RT_RMSB_W], a);
}
