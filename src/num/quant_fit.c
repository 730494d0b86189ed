/* quant_fit.c - the search for the scale (and min) of one group of a K type.
 *
 * Owns: the importance of a value, the candidates, the least-squares step. Knows no byte layout.
 * Method: a candidate is a guess of where the integers begin and end on the value axis. It fixes the integers; given
 * those, the best scale and min are a weighted least-squares problem of two unknowns, whose error has a closed form, so
 * a candidate costs one pass. The best one is then refined by taking integers and scale in turns.
 * Arithmetic runs in four fixed lanes that are added in a fixed order: the result is the same on every machine. */
#include "num/quant_block.h"

#include <math.h>

typedef float vec4 __attribute__((vector_size(16)));
typedef int32_t mask4 __attribute__((vector_size(16)));

static inline vec4 load4(const float *p)
{
    vec4 v;
    memcpy(&v, p, sizeof v);
    return v;
}

static inline void store4(float *p, vec4 v) { memcpy(p, &v, sizeof v); }
static inline vec4 splat4(float s) { return (vec4){ s, s, s, s }; }
static inline float sum4(vec4 v) { return (v[0] + v[1]) + (v[2] + v[3]); }

static inline vec4 min4(vec4 a, vec4 b)
{
    mask4 m = a < b;
    return (vec4)((m & (mask4)a) | (~m & (mask4)b));
}

static inline vec4 max4(vec4 a, vec4 b)
{
    mask4 m = a > b;
    return (vec4)((m & (mask4)a) | (~m & (mask4)b));
}

/* Nearest integer within bottom..top, ties to even. Cut to the range first: the addition rounds only below 2^22. */
static inline vec4 round4(vec4 t, vec4 bottom, vec4 top)
{
    const vec4 magic = splat4(0x1.8p23f);
    return (min4(max4(t, bottom), top) + magic) - magic;
}

/* Importance: one plus the magnitude in units of the group's root mean square. Nothing is known here of the inputs
 * that a weight will meet; large weights carry most of a product, so they are favoured a little, at the price of about
 * 1 % in plain root mean square error. */
void rt_quant_group_init(rt_quant_group *g, const float *x, int n)
{
    vec4 sum_xx = splat4(0), sum_w = splat4(0), sum_wx = splat4(0), sum_wxx = splat4(0);
    g->n = n;
    memcpy(g->x, x, (size_t)n * sizeof *x);
    for (int i = 0; i < n; i += 4) {
        vec4 v = load4(x + i);
        sum_xx += v * v;
    }
    float rms = sqrtf(sum4(sum_xx) / (float)n);
    vec4 inverse = splat4(rms > 0x1p-60f ? 1.0f / rms : 0.0f);
    for (int i = 0; i < n; i += 4) {
        vec4 v = load4(x + i);
        vec4 w = splat4(1) + max4(v, -v) * inverse;
        vec4 wx = w * v;
        store4(g->w + i, w);
        store4(g->wx + i, wx);
        sum_w += w;
        sum_wx += wx;
        sum_wxx += wx * v;
    }
    g->sum_w = sum4(sum_w);
    g->sum_wx = sum4(sum_wx);
    g->sum_wxx = sum4(sum_wxx);
}

/* Weighted sums over the integers q = round((x - origin) * inverse). */
typedef struct integer_sums {
    float q, qq, xq;
} integer_sums;

static integer_sums sums_of(const rt_quant_group *g, float origin, float inverse, int bottom, int top)
{
    vec4 sum_q = splat4(0), sum_qq = splat4(0), sum_xq = splat4(0);
    vec4 from = splat4(origin), times = splat4(inverse), least = splat4((float)bottom), most = splat4((float)top);
    for (int i = 0; i < g->n; i += 4) {
        vec4 q = round4((load4(g->x + i) - from) * times, least, most);
        vec4 wq = load4(g->w + i) * q;
        sum_q += wq;
        sum_qq += wq * q;
        sum_xq += load4(g->wx + i) * q;
    }
    return (integer_sums){ sum4(sum_q), sum4(sum_qq), sum4(sum_xq) };
}

typedef struct candidate {
    float scale, min, error;
} candidate;

/* Fixes the integers by (origin, inverse), fits scale and min to them, and keeps the result if it is better. */
static void try_affine(const rt_quant_group *g, int top, float origin, float inverse, candidate *best)
{
    integer_sums s = sums_of(g, origin, inverse, 0, top);
    float det = g->sum_w * s.qq - s.q * s.q;
    float scale = 0, offset = 1;
    if (det > 1e-5f * g->sum_w * s.qq) { /* below, the integers are all equal but for rounding */
        scale = (g->sum_w * s.xq - g->sum_wx * s.q) / det;
        offset = (s.qq * g->sum_wx - s.q * s.xq) / det;
    }
    if (offset > 0) { /* the format only subtracts */
        offset = 0;
        scale = s.qq > 0 ? s.xq / s.qq : 0;
    }
    if (!(scale > 0)) return;
    float error = g->sum_wxx - scale * s.xq - offset * g->sum_wx;
    if (error < best->error) *best = (candidate){ scale, -offset, error };
}

void rt_quant_fit_affine(const rt_quant_group *g, int top, float *scale, float *min)
{
    /* How far, in steps, a candidate moves an end of the range inwards: a few values at the ends are given up for a
     * finer step in the middle. Every pair of ends is tried. */
    static const float inset[] = { -0.2f, 0.25f, 0.7f, 1.2f };
    enum { INSETS = sizeof inset / sizeof inset[0] };
    float low = 0, high = g->x[0];
    for (int i = 0; i < g->n; i++) {
        low = g->x[i] < low ? g->x[i] : low;
        high = g->x[i] > high ? g->x[i] : high;
    }
    candidate best = { 0, -low, INFINITY };
    float step = (high - low) / (float)top;
    if (step > 0x1p-40f) { /* finer than any f16 scale can follow: the group is a constant */
        for (int i = 0; i < INSETS; i++) {
            for (int j = 0; j < INSETS; j++) {
                float steps = (float)top - inset[i] - inset[j];
                try_affine(g, top, low + inset[i] * step, (float)top / (steps * step), &best);
            }
        }
        for (int turn = 0; turn < 2 && best.scale > 0; turn++) {
            try_affine(g, top, -best.min, 1.0f / best.scale, &best);
        }
    }
    *scale = best.scale;
    *min = best.min;
}

static void try_scale(const rt_quant_group *g, int half, float inverse, candidate *best)
{
    integer_sums s = sums_of(g, 0, inverse, -half, half - 1);
    if (!(s.qq > 0)) return;
    float scale = s.xq / s.qq, error = g->sum_wxx - scale * s.xq;
    if (error < best->error) *best = (candidate){ scale, 0, error };
}

float rt_quant_fit_scale(const rt_quant_group *g, int half)
{
    /* How far, in steps, the value of largest magnitude lies beyond -half. */
    static const float beyond[] = { -1.0f, -0.7f, -0.4f, -0.2f, 0, 0.2f, 0.4f, 0.7f, 1.0f };
    enum { COUNT = sizeof beyond / sizeof beyond[0] };
    float largest = 0;
    for (int i = 0; i < g->n; i++) {
        if (fabsf(g->x[i]) > fabsf(largest)) largest = g->x[i];
    }
    candidate best = { 0, 0, INFINITY };
    if (fabsf(largest) > 0x1p-40f) {
        for (int i = 0; i < COUNT; i++) try_scale(g, half, -((float)half + beyond[i]) / largest, &best);
        if (best.scale != 0) try_scale(g, half, 1.0f / best.scale, &best);
    }
    return best.scale;
}

float rt_quant_error(const rt_quant_group *g, float scale, float min, int bottom, int top)
{
    vec4 inverse = splat4(scale != 0 ? 1.0f / scale : 0.0f), steps = splat4(scale), shift = splat4(min);
    vec4 least = splat4((float)bottom), most = splat4((float)top), sum = splat4(0);
    for (int i = 0; i < g->n; i += 4) {
        vec4 x = load4(g->x + i);
        vec4 rest = x - (steps * round4((x + shift) * inverse, least, most) - shift);
        sum += load4(g->w + i) * rest * rest;
    }
    return sum4(sum);
}

void rt_quant_integers(int8_t *q, const rt_quant_group *g, float scale, float min, int bottom, int top)
{
    vec4 inverse = splat4(scale != 0 ? 1.0f / scale : 0.0f), shift = splat4(min);
    vec4 least = splat4((float)bottom), most = splat4((float)top);
    for (int i = 0; i < g->n; i += 4) {
        vec4 t = round4((load4(g->x + i) + shift) * inverse, least, most);
        for (int k = 0; k < 4; k++) q[i + k] = (int8_t)t[k];
    }
}
