/* compare.c - the comparison of tolerance.h: element by element, and the sum of squares.
 *
 * What is not finite must be the same kind of not finite. A want that the dtype cannot hold must have become the
 * infinity of its sign. */
#include "verify/compare.h"

#include "verify/tolerance.h"

#include <math.h>
#include <stdio.h>

typedef struct format {
    int digits, least; /* bits after the leading one; exponent of the smallest normal number */
    double overflow;   /* from here on rounding gives infinity */
} format;

static format format_of(rt_dtype d)
{
    switch (d) {
    case RT_DTYPE_F32: return (format){ 23, -126, 0x1.ffffffp+127 };
    case RT_DTYPE_BF16: return (format){ 7, -126, 0x1.ffp+127 };
    case RT_DTYPE_F16: return (format){ 10, -14, 65520.0 };
    default: return (format){ 0, 0, INFINITY };
    }
}

/* 2^e for a normal e */
static double power_of_two(int e)
{
    uint64_t bits = (uint64_t)(e + 1023) << 52;
    double x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

static double half_ulp(double x, const format *f)
{
    uint64_t bits;
    memcpy(&bits, &x, sizeof bits);
    int e = (int)(bits >> 52 & 0x7ff) - 1023;
    return power_of_two((e < f->least ? f->least : e) - f->digits - 1);
}

double rt_half_ulp(double x, rt_dtype d)
{
    format f = format_of(d);
    return d == RT_DTYPE_F64 ? 0 : half_ulp(x, &f);
}

/* The error of one element as a part of what is allowed. */
static double element(double got, double want, double slack, double *allowed, const format *f)
{
    *allowed = 0;
    if (isnan(want) || isnan(got)) return isnan(want) && isnan(got) ? 0 : INFINITY;
    if (isinf(want)) return got == want ? 0 : INFINITY;
    *allowed = (f->digits ? half_ulp(want, f) : 0) + slack;
    if (isinf(got)) return signbit(got) == signbit(want) && fabs(want) + slack >= f->overflow ? 0 : INFINITY;
    double error = fabs(got - want);
    return error == 0 ? 0 : *allowed > 0 ? error / *allowed : INFINITY;
}

enum { RUN = 256 };

/* best (n) = want rounded to the dtype: the least error that is possible. */
static void round_run(double *best, const double *want, uint32_t n, rt_dtype d)
{
    double stored[RUN];
    rt_float_from_f64(stored, want, d, n);
    rt_float_to_f64(best, stored, d, n);
}

typedef struct squares {
    double error, best, scale;
    uint64_t n;
} squares;

/* n <= RUN elements of row r from column k on. */
static void compare_run(const rt_compare *c, const format *f, uint32_t r, uint32_t k, uint32_t n, squares *s,
                        rt_verdict *v)
{
    uint64_t at = (uint64_t)r * c->cols + k;
    const double *want = c->want + at, *got = c->got + at, *scales = c->scale + at;
    double best[RUN], allowed;
    if (f->digits) round_run(best, want, n, c->dtype);
    for (uint32_t i = 0; i < n; i++) {
        double scale = isfinite(scales[i]) ? scales[i] : fabs(want[i]), e;
        if (scale == RT_SCALE_ANY || (scale == RT_SCALE_FINITENESS && isfinite(want[i]))) continue;
        if (scale == RT_SCALE_FINITENESS) {
            allowed = 0;
            e = isfinite(got[i]) ? INFINITY : 0;
        } else {
            double slack = c->limit > 0 ? c->limit * RT_ROUNDING_UNIT * scale + RT_UNDERFLOW : 0;
            e = element(got[i], want[i], slack, &allowed, f);
        }
        if (e > v->error) *v = (rt_verdict){ e, 0, r, k + i, got[i], want[i], allowed };
        if (!isfinite(want[i]) || !isfinite(got[i])) continue;
        s->error += (got[i] - want[i]) * (got[i] - want[i]);
        if (f->digits) s->best += (best[i] - want[i]) * (best[i] - want[i]);
        s->scale += scale * scale;
        s->n++;
    }
}

bool rt_compare_floats(const rt_compare *c, rt_verdict *v)
{
    const format f = format_of(c->dtype);
    squares s = { 0, 0, 0, 0 };
    *v = (rt_verdict){ .error = -1 };
    for (uint32_t r = 0; r < c->rows; r++)
        for (uint32_t k = 0; k < c->cols; k += RUN)
            compare_run(c, &f, r, k, c->cols - k < RUN ? c->cols - k : RUN, &s, v);
    if (v->error < 0) v->error = 0; /* nothing was judged */
    double unit = RT_ROUNDING_UNIT * sqrt(s.scale), chance = s.n ? c->limit / sqrt((double)s.n) : 0;
    double allowed = sqrt(s.best) + (c->rms + chance) * unit + (c->limit > 0 ? RT_UNDERFLOW * sqrt((double)s.n) : 0);
    allowed *= 1 + 1e-12; /* the rounding of these sums themselves */
    v->rms_error = s.error == 0 ? 0 : allowed > 0 ? sqrt(s.error) / allowed : INFINITY;
    return v->error <= 1 && v->rms_error <= 1;
}

void rt_verdict_text(const rt_verdict *v, char *buf, size_t size)
{
    if (v->error > 1)
        snprintf(buf, size, "row %u, column %u: got %.9g, want %.17g, %.3g times the %.3g allowed", v->row, v->col,
                 v->got, v->want, v->error, v->allowed);
    else
        snprintf(buf, size,
                 "every element is within its limit, but their sum of squares is %.3g times what is allowed "
                 "(worst: row %u, column %u: got %.9g, want %.17g)",
                 v->rms_error, v->row, v->col, v->got, v->want);
}
