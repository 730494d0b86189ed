/* quant_fit.h - the search for the scales and integers of a block. Compiled by quant_fit.c and quant_fit_avx2.c.
 *
 * Owns: the candidates, the least-squares step, the choice among what a block can really store. Knows no byte layout.
 * Method: a candidate says where the integers begin on the value axis and how far apart they are. It fixes the
 * integers; given those, the best scale and offset are a least-squares problem of two unknowns with a closed form, so a
 * candidate costs one pass over its group. Eight candidates are tried at once, one in each lane; then eight more around
 * the best. What the search wishes for is finally rounded to what the format has, and there again the neighbours are
 * tried, with the error that the stored numbers really give. The error is the plain sum of squares: nothing is known
 * here of the inputs that a weight will meet.
 * A lane adds up its values one after another, so the result is the same on every machine. */
#ifndef RT_NUM_QUANT_FIT_H
#define RT_NUM_QUANT_FIT_H

#include "num/lanes8.h"
#include "num/quant_block.h"

#include <math.h>

/* The places that a stored integer stands for: the integers bottom..top themselves, or the uneven ones of IQ4. */
typedef struct grid {
    float bottom, top;
    bool uneven;
} grid;

/* The place nearest to each lane. */
RT_LANE_FN lanes snap(lanes t, const grid *k)
{
    if (!k->uneven) return round8(min8(max8(t, set8(k->bottom)), set8(k->top)));
    lanes p = set8((float)rt_iq4_values[0]);
    for (int i = 0; i < 15; i++) {
        float low = (float)rt_iq4_values[i], high = (float)rt_iq4_values[i + 1];
        p = select8(less8(set8((low + high) / 2), t), set8(high), p);
    }
    return p;
}

/* The lane of the least error; a lane that is not a number never wins. */
RT_LANE_FN int best_lane(lanes error, float *least)
{
    float e[LANES];
    int best = -1;
    store8(e, error);
    for (int i = 0; i < LANES; i++) {
        if (e[i] < *least) {
            *least = e[i];
            best = i;
        }
    }
    return best;
}

/* ---- scale and offset: x ~ scale * q + offset with q in 0..top ---- */

typedef struct affine_group {
    int n;                   /* 16 or 32 */
    float y[RT_QUANT_GROUP]; /* x - low, so that the sums below do not cancel */
    float low, high;         /* of x; low at most 0 when the offset may not be positive */
    float sum, sum_sq;       /* of y */
} affine_group;

typedef struct affine_fit {
    float scale, offset, error; /* of y */
} affine_fit;

/* Lanes folded onto each other, always in the same order. */
RT_LANE_FN float sum_of(lanes v)
{
    float t[LANES];
    store8(t, v);
    return ((t[0] + t[4]) + (t[1] + t[5])) + ((t[2] + t[6]) + (t[3] + t[7]));
}

RT_LANE_FN float least_of(lanes v)
{
    float t[LANES];
    store8(t, v);
    for (int w = LANES / 2; w > 0; w /= 2)
        for (int i = 0; i < w; i++) t[i] = t[i + w] < t[i] ? t[i + w] : t[i];
    return t[0];
}

RT_LANE_FN void extremes(const float *x, int n, float *low, float *high)
{
    lanes l = load8(x), h = l;
    for (int i = LANES; i < n; i += LANES) {
        l = min8(l, load8(x + i));
        h = max8(h, load8(x + i));
    }
    *low = least_of(l);
    *high = -least_of(sub8(set8(0), h));
}

/* subtract: the format has no positive offset. */
RT_LANE_FN void affine_group_init(affine_group *g, const float *x, int n, bool subtract)
{
    lanes sum = set8(0), sum_sq = set8(0);
    g->n = n;
    extremes(x, n, &g->low, &g->high);
    if (subtract && g->low > 0) g->low = 0;
    for (int i = 0; i < n; i += LANES) {
        lanes y = sub8(load8(x + i), set8(g->low));
        store8(g->y + i, y);
        sum = add8(sum, y);
        sum_sq = add8(sum_sq, mul8(y, y));
    }
    g->sum = sum_of(sum);
    g->sum_sq = sum_of(sum_sq);
}

/* Fixes the integers by (origin, inverse), fits scale and offset to them, keeps the best of them if it is better. */
RT_LANE_FN void try_affine(const affine_group *g, const grid *k, lanes origin, lanes inverse, bool subtract,
                           affine_fit *best)
{
    lanes q1 = set8(0), qq = set8(0), yq = set8(0), zero = set8(0);
    for (int i = 0; i < g->n; i++) {
        lanes y = set8(g->y[i]), q = snap(mul8(sub8(y, origin), inverse), k);
        q1 = add8(q1, q);
        qq = add8(qq, mul8(q, q));
        yq = add8(yq, mul8(y, q));
    }
    lanes n = set8((float)g->n), sum = set8(g->sum), limit = set8(subtract ? -g->low : 0);
    lanes nqq = mul8(n, qq), det = sub8(nqq, mul8(q1, q1));
    lanes offset = div8(sub8(mul8(qq, sum), mul8(q1, yq)), det);
    /* where the integers are all equal but for rounding, or the offset is not allowed, it is the limit */
    lane_mask fixed = less8(det, mul8(set8(1e-5f), nqq));
    if (subtract) fixed = either8(fixed, less8(limit, offset));
    offset = select8(fixed, limit, offset);
    lanes scale = div8(sub8(yq, mul8(offset, q1)), qq);
    lanes two = set8(2), error = sub8(mul8(scale, qq), mul8(two, sub8(yq, mul8(offset, q1))));
    error = add8(mul8(scale, error), mul8(offset, sub8(mul8(n, offset), mul8(two, sum))));
    error = select8(less8(zero, scale), add8(error, set8(g->sum_sq)), set8(INFINITY));
    int at = best_lane(error, &best->error);
    if (at < 0) return;
    float s[LANES], o[LANES];
    store8(s, scale);
    store8(o, offset);
    best->scale = s[at];
    best->offset = o[at];
}

/* How far, in steps, a candidate moves the low and the high end of the range inwards: a few values at the ends are
 * given up for a finer step in the middle. */
typedef struct ends {
    float low[LANES], high[LANES];
} ends;

/* The best scale and offset of y; a scale of 0 says that the group is a constant, low. */
RT_LANE_FN affine_fit fit_affine(const affine_group *g, const grid *k, const ends *e, int turns, bool subtract)
{
    /* a second look around the best: other steps, and origins moved by parts of a step */
    static const float wider[LANES] = { 1, 1.02f, 0.98f, 1, 1, 1.03f, 0.97f, 1 };
    static const float shift[LANES] = { 0, -0.1f, 0.1f, 0.25f, -0.25f, -0.35f, 0.35f, 0 };
    affine_fit best = { 0, 0, INFINITY };
    float step = (g->high - g->low) / k->top;
    if (!(step > 0x1p-40f)) return best; /* finer than any f16 scale can follow */
    for (int t = 0; t < turns; t++) {
        lanes low = load8(e[t].low), high = load8(e[t].high), steps = sub8(sub8(set8(k->top), low), high);
        try_affine(g, k, mul8(low, set8(step)), div8(set8(k->top), mul8(steps, set8(step))), subtract, &best);
    }
    if (best.scale > 0) {
        lanes scale = mul8(set8(best.scale), load8(wider));
        lanes origin = add8(set8(best.offset), mul8(load8(shift), scale));
        try_affine(g, k, origin, div8(set8(1), scale), subtract, &best);
    }
    return best;
}

/* ---- a scale alone: x ~ scale * q ---- */

/* Fixes the integers by the inverse of a scale, fits the scale to them, keeps the best if it is better. */
RT_LANE_FN void try_scale(const float *x, int n, const grid *k, lanes inverse, affine_fit *best)
{
    lanes qq = set8(0), xq = set8(0);
    for (int i = 0; i < n; i++) {
        lanes v = set8(x[i]), q = snap(mul8(v, inverse), k);
        qq = add8(qq, mul8(q, q));
        xq = add8(xq, mul8(v, q));
    }
    lanes scale = div8(xq, qq);
    int at = best_lane(sub8(set8(0), mul8(scale, xq)), &best->error); /* but for the sum of squares of x */
    if (at < 0) return;
    float s[LANES];
    store8(s, scale);
    best->scale = s[at];
}

/* The value of largest magnitude; of equals the positive one. */
RT_LANE_FN float largest_of(const float *x, int n)
{
    float low, high;
    extremes(x, n, &low, &high);
    return high < -low ? low : high;
}

/* where: the places, in steps, on which the candidates put the value of largest magnitude; 0 for a group of zeros. */
RT_LANE_FN float fit_scale(const float *x, int n, const grid *k, const float (*where)[LANES], int turns)
{
    static const float wider[LANES] = { 1, 1.004f, 0.996f, 1.008f, 0.992f, 1.014f, 0.986f, 1.02f };
    affine_fit best = { 0, 0, INFINITY };
    float largest = largest_of(x, n);
    if (fabsf(largest) > 0x1p-40f) {
        for (int t = 0; t < turns; t++) try_scale(x, n, k, div8(load8(where[t]), set8(largest)), &best);
        if (best.scale != 0) try_scale(x, n, k, div8(set8(1), mul8(set8(best.scale), load8(wider))), &best);
    }
    return best.scale;
}

/* ---- what is stored ---- */

RT_LANE_FN lanes inverse_of(lanes scale)
{
    lanes zero = set8(0);
    return select8(less8(zero, mul8(scale, scale)), div8(set8(1), scale), zero);
}

/* The squared error of scale * q + offset when every q is the best one. */
RT_LANE_FN lanes errors(const float *x, int n, const grid *k, lanes scale, lanes offset)
{
    lanes inverse = inverse_of(scale), sum = set8(0);
    for (int i = 0; i < n; i++) {
        lanes v = sub8(set8(x[i]), offset), rest = sub8(v, mul8(scale, snap(mul8(v, inverse), k)));
        sum = add8(sum, mul8(rest, rest));
    }
    return sum;
}

/* Those q: integers, or the places of IQ4. n is a multiple of 8. */
RT_LANE_FN void integers(int8_t *q, const float *x, int n, const grid *k, float scale, float offset)
{
    lanes inverse = inverse_of(set8(scale));
    for (int i = 0; i < n; i += LANES) {
        float t[LANES];
        store8(t, snap(mul8(sub8(load8(x + i), set8(offset)), inverse), k));
        for (int j = 0; j < LANES; j++) q[i + j] = (int8_t)t[j];
    }
}

RT_LANE_FN int clamp_int(float t, int bottom, int top)
{
    return t <= (float)bottom ? bottom : t >= (float)top ? top : (int)lrintf(t);
}

/* ---- super-blocks ---- */

/* Q4_K, Q5_K, Q2_K: value = d * scale * q - dmin * min, both factors integers up to `most`. */
RT_LANE_FN bool affine_block(rt_quant_fit *y, const float *x, int n, const grid *k, int most, const ends *e, int turns)
{
    /* around the wish */
    static const float ds[2][LANES] = { { 0, -1, 1, 0, 0, 1, -1, 2 }, { 1, -1, 0, 0, 1, -1, -2, 0 } };
    static const float dm[2][LANES] = { { 0, 0, 0, 1, -1, 1, -1, 1 }, { -1, 1, 2, -2, 2, -2, -1, 0 } };
    int groups = RT_QK_BLOCK / n;
    float scale[16], min[16], most_scale = 0, most_min = 0;
    for (int j = 0; j < groups; j++) {
        affine_group g;
        affine_group_init(&g, x + n * j, n, true);
        affine_fit f = fit_affine(&g, k, e, turns, true);
        scale[j] = f.scale;
        min[j] = -(f.offset + g.low);
        most_scale = fmaxf(most_scale, scale[j]);
        most_min = fmaxf(most_min, min[j]);
    }
    y->d = rt_quant_scale_for(most_scale, (float)most);
    y->m = rt_quant_scale_for(most_min, (float)most);
    if (y->d >= RT_QUANT_INF || y->m >= RT_QUANT_INF) return false;
    float d = rt_f16_to_f32(y->d), dmin = rt_f16_to_f32(y->m);
    lanes zero = set8(0), top = set8((float)most);
    for (int j = 0; j < groups; j++) {
        lanes s0 = set8((float)(d > 0 ? clamp_int(scale[j] / d, 0, most) : 0));
        lanes m0 = set8((float)(dmin > 0 ? clamp_int(min[j] / dmin, 0, most) : 0));
        float least = INFINITY, s_best = 0, m_best = 0;
        for (int t = 0; t < 2; t++) {
            lanes s = min8(max8(add8(s0, load8(ds[t])), zero), top), m = min8(max8(add8(m0, load8(dm[t])), zero), top);
            lanes error = errors(x + n * j, n, k, mul8(s, set8(d)), sub8(zero, mul8(m, set8(dmin))));
            int at = best_lane(error, &least);
            float sl[LANES], ml[LANES];
            if (at < 0) continue;
            store8(sl, s);
            store8(ml, m);
            s_best = sl[at];
            m_best = ml[at];
        }
        y->scale[j] = (int8_t)s_best;
        y->min[j] = (int8_t)m_best;
        integers(y->q + n * j, x + n * j, n, k, d * s_best, -(dmin * m_best));
    }
    return true;
}

/* Q6_K, Q3_K, IQ4_XS: value = d * scale * q, the factor in -most..most-1. */
RT_LANE_FN bool scaled_block(rt_quant_fit *y, const float *x, int n, const grid *k, int most,
                             const float (*where)[LANES], int turns)
{
    static const float around[LANES] = { 0, -1, 1, 2, -2, 3, -3, 0 };
    int groups = RT_QK_BLOCK / n;
    float scale[16], largest = 0;
    for (int j = 0; j < groups; j++) {
        scale[j] = fit_scale(x + n * j, n, k, where, turns);
        if (fabsf(scale[j]) > fabsf(largest)) largest = scale[j];
    }
    y->d = rt_quant_scale_for(fabsf(largest), (float)most);
    if (y->d >= RT_QUANT_INF) return false;
    if (largest > 0) y->d |= 0x8000u; /* the factor reaches -most but not most */
    float d = rt_f16_to_f32(y->d);
    for (int j = 0; j < groups; j++) {
        lanes wish = set8((float)(d != 0 ? clamp_int(scale[j] / d, -most, most - 1) : 0));
        lanes s = min8(max8(add8(wish, load8(around)), set8((float)-most)), set8((float)(most - 1)));
        float least = INFINITY, list[LANES];
        int at = best_lane(errors(x + n * j, n, k, mul8(s, set8(d)), set8(0)), &least);
        store8(list, s);
        y->scale[j] = at < 0 ? 0 : (int8_t)list[at];
        integers(y->q + n * j, x + n * j, n, k, d * (float)y->scale[j], 0);
    }
    return true;
}

/* ---- blocks of 32 ---- */

/* Beside the neighbours of a wish: the scale of a plain block, and its negative. */
enum { PLAIN = 0x10000, MIRROR = 0x20000 };

/* Eight f16 numbers, `steps` from h: as stored, and their values. What is no finite number becomes `plain`. */
RT_LANE_FN lanes f16_around(uint16_t list[LANES], uint16_t h, const int *steps, uint16_t plain)
{
    float v[LANES];
    for (int i = 0; i < LANES; i++) {
        int magnitude = (h & 0x7fff) + steps[i];
        bool fine = magnitude >= 0 && magnitude < (int)RT_QUANT_INF;
        list[i] = fine ? (uint16_t)((h & 0x8000u) | (unsigned)magnitude) : plain;
        if (steps[i] == MIRROR) list[i] ^= 0x8000u;
        v[i] = rt_f16_to_f32(list[i]);
    }
    return load8(v);
}

/* Q5_0, IQ4_NL: value = d * q. reach: the place of largest magnitude, which takes the largest value in a plain block.
 */
RT_LANE_FN bool scale_block(rt_quant_fit *y, const float *x, const grid *k, float reach, const float (*where)[LANES],
                            int turns)
{
    static const int around[LANES] = { 0, 1, -1, 2, -2, 3, PLAIN, MIRROR };
    float largest = largest_of(x, RT_Q0_BLOCK), least = INFINITY;
    uint16_t plain = rt_quant_scale_for(fabsf(largest), fabsf(reach)), list[LANES];
    if (plain >= RT_QUANT_INF) return false;
    if ((largest > 0) != (reach > 0)) plain |= 0x8000u;
    uint16_t wish = rt_f16_from_f32(fit_scale(x, RT_Q0_BLOCK, k, where, turns));
    int at = best_lane(errors(x, RT_Q0_BLOCK, k, f16_around(list, wish, around, plain), set8(0)), &least);
    y->d = at < 0 ? plain : list[at];
    integers(y->q, x, RT_Q0_BLOCK, k, rt_f16_to_f32(y->d), 0);
    return true;
}

/* Q4_1, Q5_1: value = d * q + m. Where the f16 m cannot reach the values, which are then on one side of zero, it is 0.
 */
RT_LANE_FN bool offset_block(rt_quant_fit *y, const float *x, const grid *k, const ends *e, int turns)
{
    static const int d_steps[2][LANES] = { { 0, 1, -1, 0, 0, 1, -1, PLAIN }, { 1, -1, 0, 0, 1, -1, 2, -2 } };
    static const int m_steps[2][LANES] = { { 0, 0, 0, 1, -1, 1, -1, PLAIN }, { -1, 1, 2, -2, 2, -2, 0, 0 } };
    affine_group g;
    affine_group_init(&g, x, RT_Q0_BLOCK, false);
    float far = fabsf(g.high) > fabsf(g.low) ? g.high : g.low, least = INFINITY;
    uint16_t d = rt_quant_scale_for(g.high - g.low, k->top), m = rt_f16_from_f32(g.low);
    if (d >= RT_QUANT_INF || (m & 0x7fffu) >= RT_QUANT_INF) {
        d = rt_quant_scale_for(fabsf(far), k->top);
        m = 0;
        if (d >= RT_QUANT_INF || (g.low < 0 && g.high > 0)) return false;
        if (far < 0) d |= 0x8000u;
        y->d = d;
        y->m = m;
    } else {
        affine_fit f = fit_affine(&g, k, e, turns, false);
        uint16_t d0 = rt_f16_from_f32(f.scale), m0 = rt_f16_from_f32(f.offset + g.low), dl[LANES], ml[LANES];
        y->d = d;
        y->m = m;
        for (int t = 0; t < 2; t++) {
            lanes dv = f16_around(dl, d0, d_steps[t], d), mv = f16_around(ml, m0, m_steps[t], m);
            int at = best_lane(errors(x, RT_Q0_BLOCK, k, dv, mv), &least);
            if (at < 0) continue;
            y->d = dl[at];
            y->m = ml[at];
        }
    }
    integers(y->q, x, RT_Q0_BLOCK, k, rt_f16_to_f32(y->d), rt_f16_to_f32(y->m));
    return true;
}

/* ---- the types ---- */

static const ends ends_near[1] = { { { -0.2f, 0.25f, 0.25f, 0.6f, 0.6f, 1.0f, 0.1f, 1.0f },
                                     { 0.25f, -0.2f, 0.6f, 0.25f, 1.0f, 0.6f, 0.1f, 0.1f } } };
static const ends ends_far[2] = { { { -0.2f, -0.2f, -0.2f, -0.2f, 0.25f, 0.25f, 0.25f, 0.25f },
                                    { -0.2f, 0.25f, 0.7f, 1.2f, -0.2f, 0.25f, 0.7f, 1.2f } },
                                  { { 0.7f, 0.7f, 0.7f, 0.7f, 1.2f, 1.2f, 1.2f, 1.2f },
                                    { -0.2f, 0.25f, 0.7f, 1.2f, -0.2f, 0.25f, 0.7f, 1.2f } } };
static const float where_32[1][LANES] = { { -32.7f, -32.4f, -32.2f, -32, -31.8f, -31.6f, -31.3f, -31 } };
static const float where_16[2][LANES] = { { -16.9f, -16.6f, -16.3f, -16, -15.7f, -15.4f, -15.1f, -14.8f },
                                          { 16, 15.7f, 15.4f, 15.1f, 14.8f, 14.5f, 14.2f, 13.9f } };
static const float where_4[2][LANES] = { { -4.8f, -4.5f, -4.2f, -4, -3.8f, -3.6f, -3.3f, -3 },
                                         { 2.6f, 2.8f, 3, 3.2f, 3.4f, 3.6f, 3.8f, 4 } };
static const float where_iq4[2][LANES] = { { -150, -142, -135, -130, -127, -122, -117, -112 },
                                           { 100, 107, 113, 118, 123, 128, 133, 138 } };

#define RT_FIT(type, call)                                                                                             \
    static bool fit_##type(rt_quant_fit *y, const float *x) { return call; }
RT_FIT(q2_k, affine_block(y, x, 16, &(const grid){ 0, 3, false }, 15, ends_far, 2))
RT_FIT(q4_k, affine_block(y, x, 32, &(const grid){ 0, 15, false }, 63, ends_near, 1))
RT_FIT(q5_k, affine_block(y, x, 32, &(const grid){ 0, 31, false }, 63, ends_near, 1))
RT_FIT(q3_k, scaled_block(y, x, 16, &(const grid){ -4, 3, false }, 32, where_4, 2))
RT_FIT(q6_k, scaled_block(y, x, 16, &(const grid){ -32, 31, false }, 128, where_32, 1))
RT_FIT(iq4_xs, scaled_block(y, x, 32, &(const grid){ 0, 0, true }, 32, where_iq4, 2))
RT_FIT(q5_0, scale_block(y, x, &(const grid){ -16, 15, false }, -16, where_16, 2))
RT_FIT(iq4_nl, scale_block(y, x, &(const grid){ 0, 0, true }, -127, where_iq4, 2))
RT_FIT(q4_1, offset_block(y, x, &(const grid){ 0, 15, false }, ends_near, 1))
RT_FIT(q5_1, offset_block(y, x, &(const grid){ 0, 31, false }, ends_near, 1))
#undef RT_FIT

#define RT_FIT_TABLE                                                                                                   \
    {                                                                                                                  \
        [RT_DTYPE_Q2_K] = fit_q2_k, [RT_DTYPE_Q3_K] = fit_q3_k, [RT_DTYPE_Q4_K] = fit_q4_k,                            \
        [RT_DTYPE_Q5_K] = fit_q5_k, [RT_DTYPE_Q6_K] = fit_q6_k, [RT_DTYPE_IQ4_XS] = fit_iq4_xs,                        \
        [RT_DTYPE_Q4_1] = fit_q4_1, [RT_DTYPE_Q5_0] = fit_q5_0, [RT_DTYPE_Q5_1] = fit_q5_1,                            \
        [RT_DTYPE_IQ4_NL] = fit_iq4_nl                                                                                 \
    }

#endif
