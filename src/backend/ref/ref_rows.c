/* ref_rows.c - ops that treat a tensor as plain rows: bias_grad, add, scale, cast, copy, fill, quant, dequant,
 * quant_rows, norm_sq.
 *
 * Conversion between dtypes is the driver's: cast, quant and dequant only say that the values are the same. */
#include "backend/ref/ref.h"

#include <string.h>
#include <tgmath.h>

static size_t elements(const rt_rows_args *a) { return (size_t)a->N * a->C; }

/* db = sum over rows of dy */
void REF(bias_grad)(const rt_ref_call *c)
{
    const rt_rows_args *a = &c->args->rows;
    real *db = c->s[RT_BIASG_DB];       /* (1,C) += */
    const real *dy = c->s[RT_BIASG_DY]; /* (N,C) */
    for (size_t j = 0; j < a->C; j++) {
        real sum = 0;
        for (size_t i = 0; i < a->N; i++) sum += dy[i * a->C + j];
        db[j] += sum;
    }
}

/* y = a + b */
void REF(add)(const rt_ref_call *c)
{
    real *y = c->s[RT_ROWS_Y];                             /* (N,C) */
    const real *a = c->s[RT_ROWS_X], *b = c->s[RT_ROWS_B]; /* (N,C) */
    size_t n = elements(&c->args->rows);
    for (size_t i = 0; i < n; i++) y[i] = a[i] + b[i];
}

/* y = alpha s x */
void REF(scale)(const rt_ref_call *c)
{
    real *y = c->s[RT_ROWS_Y];                             /* (N,C) */
    const real *x = c->s[RT_ROWS_X], *s = c->s[RT_ROWS_B]; /* (N,C); (1,1) or null */
    real factor = c->args->rows.alpha * (s ? s[0] : 1);
    size_t n = elements(&c->args->rows);
    for (size_t i = 0; i < n; i++) y[i] = factor * x[i];
}

/* y = x */
static void same(const rt_ref_call *c)
{
    real *y = c->s[RT_ROWS_Y];       /* (N,C) */
    const real *x = c->s[RT_ROWS_X]; /* (N,C) */
    size_t n = elements(&c->args->rows);
    for (size_t i = 0; i < n; i++) y[i] = x[i];
}

void REF(cast)(const rt_ref_call *c) { same(c); }
void REF(dequant)(const rt_ref_call *c) { same(c); }
void REF(quant)(const rt_ref_call *c) { same(c); }

/* The least power of two, not below 2^-126, of which 448 are not below most (num/e4m3.h); 1 for 0. */
static real row_scale(real most)
{
    int e;
    if (!isfinite(most)) return NAN;
    if (most == 0) return 1;
    real f = frexp(most, &e); /* most = f 2^e, 1/2 <= f < 1; 448 = 7/8 2^9 */
    e -= f > (real)0.875 ? 8 : 9;
    return ldexp((real)1, e < -126 ? -126 : e);
}

/* scale = that of the row, y = x / scale, which the driver rounds to e4m3 */
void REF(quant_rows)(const rt_ref_call *c)
{
    const rt_rows_args *a = &c->args->rows;
    real *y = c->s[RT_QROWS_Y], *scale = c->s[RT_QROWS_SCALE]; /* (N,C), (N,1) */
    const real *x = c->s[RT_QROWS_X];                          /* (N,C) */
    for (size_t i = 0; i < a->N; i++) {
        real most = 0;
        for (size_t j = 0; j < a->C; j++)
            if (!isnan(most) && !(fabs(x[i * a->C + j]) <= most)) most = fabs(x[i * a->C + j]);
        scale[i] = row_scale(most);
        for (size_t j = 0; j < a->C; j++) y[i * a->C + j] = x[i * a->C + j] / scale[i];
    }
}

/* y = x, or y[rows[i]] = x[i], the last one winning. Values are not looked at: the driver hands over raw elements
 * (or blocks of a quantised type), C counts those, and `site`, which copy has no other use for, is the bytes of one.
 * 0 there means that the operands are dense arrays of the real type like everybody else's. */
void REF(copy)(const rt_ref_call *c)
{
    const rt_rows_args *a = &c->args->rows;
    char *y = c->s[RT_ROWS_Y];             /* (N,C), or (R,C) with rows */
    const char *x = c->s[RT_ROWS_X];       /* (N,C) */
    const int32_t *rows = c->s[RT_ROWS_B]; /* (N,1) or null */
    size_t bytes = a->C * (size_t)(a->site ? a->site : sizeof(real));
    for (size_t i = 0; i < a->N; i++) {
        if (rows && (rows[i] < 0 || (uint32_t)rows[i] >= a->R)) continue;
        memcpy(y + (rows ? (size_t)rows[i] : i) * bytes, x + i * bytes, bytes);
    }
}

/* y = alpha */
void REF(fill)(const rt_ref_call *c)
{
    real *y = c->s[RT_ROWS_Y]; /* (N,C) */
    size_t n = elements(&c->args->rows);
    for (size_t i = 0; i < n; i++) y[i] = c->args->rows.alpha;
}

/* The first row with a non-finite element; 0 when there is none (the sum itself overflowed). */
static uint32_t bad_row(const real *x /* (N,C) */, const rt_rows_args *a)
{
    for (size_t i = 0; i < elements(a); i++)
        if (!isfinite(x[i])) return (uint32_t)(i / a->C);
    return 0;
}

/* out += sum of x^2; a sum that is not finite is a fault */
void REF(norm_sq)(const rt_ref_call *c)
{
    const rt_rows_args *a = &c->args->rows;
    real *out = c->s[RT_NSQ_OUT];            /* (1,1) += */
    const real *x = c->s[RT_NSQ_X];          /* (N,C) */
    rt_fault *fault = c->s[RT_NSQ_FAULT];    /* or null */
    const rt_step *step = c->s[RT_NSQ_STEP]; /* with fault */
    real sum = 0;
    for (size_t i = 0; i < elements(a); i++) sum += x[i] * x[i];
    out[0] += sum;
    if (fault && !fault->set && !isfinite(sum)) *fault = (rt_fault){ 1, step->step, a->site, bad_row(x, a) };
}
