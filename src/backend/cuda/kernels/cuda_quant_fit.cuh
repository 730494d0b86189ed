/* cuda_quant_fit.cuh - the search for the scales and integers of a block: num/quant_fit.h with a thread for each lane.
 *
 * Owns: the same candidates, the same order of every sum, the same choice, so that the blocks are the same to the bit.
 * Nothing may be contracted: arithmetic is spelled out. A warp has one block; lanes 8 to 31 do what lane % 8 does, so
 * that the whole warp takes every branch together. */
#ifndef RT_BACKEND_CUDA_KERNELS_CUDA_QUANT_FIT_CUH
#define RT_BACKEND_CUDA_KERNELS_CUDA_QUANT_FIT_CUH

#include "backend/cuda/kernels/cuda_common.cuh"

enum { LANES = 8, BLOCK_MAX = 256, GROUP_MAX = 32, F16_NAN = 0x7e00, F16_INF = 0x7c00 };

/* What a block is to store, in the order of its values; and what the search needs. In shared memory. */
struct Fit {
    float x[BLOCK_MAX], y[GROUP_MAX];
    uint16_t d, m;
    int8_t scale[16], min[16], q[BLOCK_MAX];
};

struct Grid {
    float bottom, top;
    bool uneven;
};

RT_DEVICE uint32_t lane8() { return threadIdx.x % LANES; }
RT_DEVICE float add(float a, float b) { return __fadd_rn(a, b); }
RT_DEVICE float sub(float a, float b) { return __fsub_rn(a, b); }
RT_DEVICE float mul(float a, float b) { return __fmul_rn(a, b); }
RT_DEVICE float quotient(float a, float b) { return __fdiv_rn(a, b); }
/* Of equals the second. */
RT_DEVICE float min8(float a, float b) { return a < b ? a : b; }
RT_DEVICE float max8(float a, float b) { return b < a ? a : b; }
RT_DEVICE float of_lane(float v, int i) { return __shfl_sync(RT_EVERY_LANE, v, i); }
RT_DEVICE float f16_value(uint32_t h) { return to_float(f16{ (uint16_t)h }); }
RT_DEVICE uint32_t f16_bits(float x)
{
    f16 h;
    narrow(&h, x);
    return h.bits;
}

/* The sixteen places of IQ4, four to a word. */
RT_DEVICE int iq4_value(int i)
{
    const uint32_t w = i & 8 ? (i & 4 ? 0x71594535u : 0x26190d01u) : (i & 4 ? 0xf6eaddcfu : 0xbfad9881u);
    return (int8_t)(w >> 8 * (i & 3));
}

/* Nearest integer, ties to even; |t| < 2^22. */
RT_DEVICE float round8(float t) { return sub(add(t, 0x1.8p23f), 0x1.8p23f); }

/* The place nearest to t. */
RT_DEVICE float snap(float t, const Grid &k)
{
    if (!k.uneven) return round8(min8(max8(t, k.bottom), k.top));
    float p = (float)iq4_value(0);
#pragma unroll
    for (int i = 0; i < 15; i++) {
        const float low = (float)iq4_value(i), high = (float)iq4_value(i + 1);
        p = (low + high) / 2 < t ? high : p;
    }
    return p;
}

/* The lane of the least error below `least`; of equals the first; a lane that is not a number never wins. */
RT_DEVICE int best_lane(float error, float &least)
{
    int best = -1;
    for (int i = 0; i < LANES; i++) {
        const float e = of_lane(error, i);
        if (e < least) {
            least = e;
            best = i;
        }
    }
    return best;
}

RT_DEVICE float sum_of(float v)
{
    float t[LANES];
#pragma unroll
    for (int i = 0; i < LANES; i++) t[i] = of_lane(v, i);
    return add(add(add(t[0], t[4]), add(t[1], t[5])), add(add(t[2], t[6]), add(t[3], t[7])));
}
/* Halves folded onto each other: of equals the lower lane's. */
RT_DEVICE float least_of(float v)
{
    for (int w = LANES / 2; w > 0; w /= 2) {
        const float other = __shfl_sync(RT_EVERY_LANE, v, (int)lane8() + w);
        v = lane8() < (uint32_t)w && other < v ? other : v;
    }
    return of_lane(v, 0);
}

RT_DEVICE void extremes(const float *x, int n, float &low, float &high)
{
    float l = x[lane8()], h = l;
    for (int i = LANES; i < n; i += LANES) {
        l = min8(l, x[i + lane8()]);
        h = max8(h, x[i + lane8()]);
    }
    low = least_of(l);
    high = -least_of(sub(0, h));
}

/* The f16 scale for which `reach` >= 0 comes to `steps` steps; see num/quant_block.h. */
RT_DEVICE uint32_t scale_for(float reach, float steps)
{
    uint32_t h = f16_bits(quotient(reach, steps));
    if (h < F16_INF && reach > mul(add(steps, 0.5f), f16_value(h))) h++;
    return h;
}

/* ---- scale and offset: x ~ scale * q + offset with q in 0..top ---- */

struct Group {
    int n;
    const float *y; /* x - low */
    float low, high, sum, sum_sq;
};
struct Affine {
    float scale, offset, error; /* of y */
};

RT_DEVICE void group_init(Group &g, Fit *f, const float *x, int n, bool subtract)
{
    float sum = 0, sum_sq = 0;
    g.n = n;
    g.y = f->y;
    extremes(x, n, g.low, g.high);
    if (subtract && g.low > 0) g.low = 0;
    __syncwarp();
    for (int i = 0; i < n; i += LANES) {
        const float y = sub(x[i + lane8()], g.low);
        if (threadIdx.x % 32 < LANES) f->y[i + lane8()] = y;
        sum = add(sum, y);
        sum_sq = add(sum_sq, mul(y, y));
    }
    __syncwarp();
    g.sum = sum_of(sum);
    g.sum_sq = sum_of(sum_sq);
}

/* Fixes the integers by (origin, inverse), fits scale and offset to them, keeps the best of them if it is better. */
RT_DEVICE void try_affine(const Group &g, const Grid &k, float origin, float inverse, bool subtract, Affine &best)
{
    float q1 = 0, qq = 0, yq = 0;
    for (int i = 0; i < g.n; i++) {
        const float y = g.y[i], q = snap(mul(sub(y, origin), inverse), k);
        q1 = add(q1, q);
        qq = add(qq, mul(q, q));
        yq = add(yq, mul(y, q));
    }
    const float n = (float)g.n, limit = subtract ? -g.low : 0.0f, nqq = mul(n, qq), det = sub(nqq, mul(q1, q1));
    float offset = quotient(sub(mul(qq, g.sum), mul(q1, yq)), det);
    bool fixed = det < mul(1e-5f, nqq);
    if (subtract) fixed = fixed || limit < offset;
    offset = fixed ? limit : offset;
    const float scale = quotient(sub(yq, mul(offset, q1)), qq);
    float error = sub(mul(scale, qq), mul(2, sub(yq, mul(offset, q1))));
    error = add(mul(scale, error), mul(offset, sub(mul(n, offset), mul(2, g.sum))));
    error = 0 < scale ? add(error, g.sum_sq) : __uint_as_float(0x7f800000u);
    const int at = best_lane(error, best.error);
    const float s = of_lane(scale, at < 0 ? 0 : at), o = of_lane(offset, at < 0 ? 0 : at);
    if (at < 0) return;
    best.scale = s;
    best.offset = o;
}

/* The value of a table of eight that belongs to this lane. */
RT_DEVICE float mine(const float (&t)[LANES])
{
    float v = t[0];
#pragma unroll
    for (int i = 1; i < LANES; i++)
        if (lane8() == (uint32_t)i) v = t[i];
    return v;
}
RT_DEVICE int mine(const int (&t)[LANES])
{
    int v = t[0];
#pragma unroll
    for (int i = 1; i < LANES; i++)
        if (lane8() == (uint32_t)i) v = t[i];
    return v;
}

/* How far, in steps, a candidate moves the ends of the range inwards; far: two turns. */
RT_DEVICE void ends_of(bool far, int turn, float &low, float &high)
{
    const float near_low[LANES] = { -0.2f, 0.25f, 0.25f, 0.6f, 0.6f, 1.0f, 0.1f, 1.0f };
    const float near_high[LANES] = { 0.25f, -0.2f, 0.6f, 0.25f, 1.0f, 0.6f, 0.1f, 0.1f };
    const float low0[LANES] = { -0.2f, -0.2f, -0.2f, -0.2f, 0.25f, 0.25f, 0.25f, 0.25f };
    const float low1[LANES] = { 0.7f, 0.7f, 0.7f, 0.7f, 1.2f, 1.2f, 1.2f, 1.2f };
    const float far_high[LANES] = { -0.2f, 0.25f, 0.7f, 1.2f, -0.2f, 0.25f, 0.7f, 1.2f };
    low = far ? (turn ? mine(low1) : mine(low0)) : mine(near_low);
    high = far ? mine(far_high) : mine(near_high);
}

RT_DEVICE Affine fit_affine(const Group &g, const Grid &k, bool far, bool subtract)
{
    const float wider[LANES] = { 1, 1.02f, 0.98f, 1, 1, 1.03f, 0.97f, 1 };
    const float shift[LANES] = { 0, -0.1f, 0.1f, 0.25f, -0.25f, -0.35f, 0.35f, 0 };
    Affine best = { 0, 0, __uint_as_float(0x7f800000u) };
    const float step = quotient(sub(g.high, g.low), k.top);
    if (!(step > 0x1p-40f)) return best; /* finer than any f16 scale can follow */
    for (int t = 0; t < (far ? 2 : 1); t++) {
        float low, high;
        ends_of(far, t, low, high);
        const float steps = sub(sub(k.top, low), high);
        try_affine(g, k, mul(low, step), quotient(k.top, mul(steps, step)), subtract, best);
    }
    if (best.scale > 0) {
        const float scale = mul(best.scale, mine(wider)), origin = add(best.offset, mul(mine(shift), scale));
        try_affine(g, k, origin, quotient(1, scale), subtract, best);
    }
    return best;
}

/* ---- a scale alone: x ~ scale * q ---- */

RT_DEVICE void try_scale(const float *x, int n, const Grid &k, float inverse, Affine &best)
{
    float qq = 0, xq = 0;
    for (int i = 0; i < n; i++) {
        const float v = x[i], q = snap(mul(v, inverse), k);
        qq = add(qq, mul(q, q));
        xq = add(xq, mul(v, q));
    }
    const float scale = quotient(xq, qq);
    const int at = best_lane(sub(0, mul(scale, xq)), best.error);
    const float s = of_lane(scale, at < 0 ? 0 : at);
    if (at >= 0) best.scale = s;
}

/* The value of largest magnitude; of equals the positive one. */
RT_DEVICE float largest_of(const float *x, int n)
{
    float low, high;
    extremes(x, n, low, high);
    return high < -low ? low : high;
}

/* Where the candidates put the value of largest magnitude, in steps. */
enum { WHERE_32, WHERE_16, WHERE_4, WHERE_IQ4 };
RT_DEVICE float where_of(int kind, int turn)
{
    const float w32[LANES] = { -32.7f, -32.4f, -32.2f, -32, -31.8f, -31.6f, -31.3f, -31 };
    const float w16a[LANES] = { -16.9f, -16.6f, -16.3f, -16, -15.7f, -15.4f, -15.1f, -14.8f };
    const float w16b[LANES] = { 16, 15.7f, 15.4f, 15.1f, 14.8f, 14.5f, 14.2f, 13.9f };
    const float w4a[LANES] = { -4.8f, -4.5f, -4.2f, -4, -3.8f, -3.6f, -3.3f, -3 };
    const float w4b[LANES] = { 2.6f, 2.8f, 3, 3.2f, 3.4f, 3.6f, 3.8f, 4 };
    const float wia[LANES] = { -150, -142, -135, -130, -127, -122, -117, -112 };
    const float wib[LANES] = { 100, 107, 113, 118, 123, 128, 133, 138 };
    if (kind == WHERE_32) return mine(w32);
    if (kind == WHERE_16) return turn ? mine(w16b) : mine(w16a);
    if (kind == WHERE_4) return turn ? mine(w4b) : mine(w4a);
    return turn ? mine(wib) : mine(wia);
}

RT_DEVICE float fit_scale(const float *x, int n, const Grid &k, int where)
{
    const float wider[LANES] = { 1, 1.004f, 0.996f, 1.008f, 0.992f, 1.014f, 0.986f, 1.02f };
    Affine best = { 0, 0, __uint_as_float(0x7f800000u) };
    const float largest = largest_of(x, n);
    if (!(fabsf(largest) > 0x1p-40f)) return 0;
    for (int t = 0; t < (where == WHERE_32 ? 1 : 2); t++)
        try_scale(x, n, k, quotient(where_of(where, t), largest), best);
    if (best.scale != 0) try_scale(x, n, k, quotient(1, mul(best.scale, mine(wider))), best);
    return best.scale;
}

/* ---- what is stored ---- */

RT_DEVICE float inverse_of(float scale) { return 0 < mul(scale, scale) ? quotient(1, scale) : 0.0f; }

/* The squared error of scale * q + offset when every q is the best one. */
RT_DEVICE float errors(const float *x, int n, const Grid &k, float scale, float offset)
{
    const float inverse = inverse_of(scale);
    float sum = 0;
    for (int i = 0; i < n; i++) {
        const float v = sub(x[i], offset), rest = sub(v, mul(scale, snap(mul(v, inverse), k)));
        sum = add(sum, mul(rest, rest));
    }
    return sum;
}

/* Those q: integers, or the places of IQ4. */
RT_DEVICE void integers(int8_t *q, const float *x, int n, const Grid &k, float scale, float offset)
{
    const float inverse = inverse_of(scale);
    for (int i = (int)(threadIdx.x % 32); i < n; i += 32) q[i] = (int8_t)snap(mul(sub(x[i], offset), inverse), k);
}

RT_DEVICE float clamp_round(float t, int bottom, int top)
{
    return t <= (float)bottom ? (float)bottom : t >= (float)top ? (float)top : rintf(t);
}

/* ---- super-blocks ---- */

/* Q4_K, Q5_K, Q2_K: value = d * scale * q - dmin * min, both factors integers up to `most`. */
RT_DEVICE bool affine_block(Fit *f, int n, const Grid &k, int most, bool far)
{
    const float ds0[LANES] = { 0, -1, 1, 0, 0, 1, -1, 2 }, ds1[LANES] = { 1, -1, 0, 0, 1, -1, -2, 0 };
    const float dm0[LANES] = { 0, 0, 0, 1, -1, 1, -1, 1 }, dm1[LANES] = { -1, 1, 2, -2, 2, -2, -1, 0 };
    const int groups = BLOCK_MAX / n;
    float scale = 0, min = 0, most_scale = 0, most_min = 0; /* of group lane % 32 */
    for (int j = 0; j < groups; j++) {
        Group g;
        group_init(g, f, f->x + n * j, n, true);
        const Affine a = fit_affine(g, k, far, true);
        const float low = -add(a.offset, g.low);
        if (threadIdx.x % 32 == (uint32_t)j) scale = a.scale, min = low;
        most_scale = fmaxf(most_scale, a.scale);
        most_min = fmaxf(most_min, low);
    }
    const uint32_t dh = scale_for(most_scale, (float)most), mh = scale_for(most_min, (float)most);
    if (dh >= F16_INF || mh >= F16_INF) return false;
    const float d = f16_value(dh), dmin = f16_value(mh), top = (float)most;
    for (int j = 0; j < groups; j++) {
        const float sj = of_lane(scale, j), mj = of_lane(min, j);
        const float s0 = d > 0 ? clamp_round(quotient(sj, d), 0, most) : 0.0f;
        const float m0 = dmin > 0 ? clamp_round(quotient(mj, dmin), 0, most) : 0.0f;
        float least = __uint_as_float(0x7f800000u), s_best = 0, m_best = 0;
        for (int t = 0; t < 2; t++) {
            const float s = min8(max8(add(s0, t ? mine(ds1) : mine(ds0)), 0), top);
            const float m = min8(max8(add(m0, t ? mine(dm1) : mine(dm0)), 0), top);
            const int at = best_lane(errors(f->x + n * j, n, k, mul(s, d), sub(0, mul(m, dmin))), least);
            const float sl = of_lane(s, at < 0 ? 0 : at), ml = of_lane(m, at < 0 ? 0 : at);
            if (at >= 0) s_best = sl, m_best = ml;
        }
        f->scale[j] = (int8_t)s_best;
        f->min[j] = (int8_t)m_best;
        integers(f->q + n * j, f->x + n * j, n, k, mul(d, s_best), -mul(dmin, m_best));
    }
    f->d = (uint16_t)dh;
    f->m = (uint16_t)mh;
    return true;
}

/* Q6_K, Q3_K, IQ4_XS: value = d * scale * q, the factor in -most..most-1. */
RT_DEVICE bool scaled_block(Fit *f, int n, const Grid &k, int most, int where)
{
    const float around[LANES] = { 0, -1, 1, 2, -2, 3, -3, 0 };
    const int groups = BLOCK_MAX / n;
    float scale = 0, largest = 0;
    for (int j = 0; j < groups; j++) {
        const float s = fit_scale(f->x + n * j, n, k, where);
        if (threadIdx.x % 32 == (uint32_t)j) scale = s;
        if (fabsf(s) > fabsf(largest)) largest = s;
    }
    uint32_t dh = scale_for(fabsf(largest), (float)most);
    if (dh >= F16_INF) return false;
    if (largest > 0) dh |= 0x8000u; /* the factor reaches -most but not most */
    const float d = f16_value(dh);
    for (int j = 0; j < groups; j++) {
        const float sj = of_lane(scale, j);
        const float wish = d != 0 ? clamp_round(quotient(sj, d), -most, most - 1) : 0.0f;
        const float s = min8(max8(add(wish, mine(around)), (float)-most), (float)(most - 1));
        float least = __uint_as_float(0x7f800000u);
        const int at = best_lane(errors(f->x + n * j, n, k, mul(s, d), 0), least);
        const float best = of_lane(s, at < 0 ? 0 : at);
        const int8_t factor = at < 0 ? 0 : (int8_t)best;
        f->scale[j] = factor;
        integers(f->q + n * j, f->x + n * j, n, k, mul(d, (float)factor), 0);
    }
    f->d = (uint16_t)dh;
    return true;
}

/* ---- blocks of 32 ---- */

/* Beside the neighbours of a wish: the scale of a plain block, and its negative. */
enum { PLAIN = 0x10000, MIRROR = 0x20000 };

/* The f16 number `steps` from h, as stored. What is no finite number becomes `plain`. */
RT_DEVICE uint32_t f16_near(uint32_t h, int steps, uint32_t plain)
{
    const int magnitude = (int)(h & 0x7fff) + steps;
    const bool fine = magnitude >= 0 && magnitude < (int)F16_INF;
    const uint32_t y = fine ? (h & 0x8000u) | (uint32_t)magnitude : plain;
    return steps == MIRROR ? y ^ 0x8000u : y;
}

/* Q5_0, IQ4_NL: value = d * q. reach: the place of largest magnitude. */
RT_DEVICE bool scale_block(Fit *f, const Grid &k, float reach, int where)
{
    const int around[LANES] = { 0, 1, -1, 2, -2, 3, PLAIN, MIRROR };
    const float largest = largest_of(f->x, 32);
    float least = __uint_as_float(0x7f800000u);
    uint32_t plain = scale_for(fabsf(largest), fabsf(reach));
    if (plain >= F16_INF) return false;
    if ((largest > 0) != (reach > 0)) plain |= 0x8000u;
    const uint32_t h = f16_near(f16_bits(fit_scale(f->x, 32, k, where)), mine(around), plain);
    const int at = best_lane(errors(f->x, 32, k, f16_value(h), 0), least);
    const uint32_t best = __shfl_sync(RT_EVERY_LANE, h, at < 0 ? 0 : at), d = at < 0 ? plain : best;
    f->d = (uint16_t)d;
    integers(f->q, f->x, 32, k, f16_value(d), 0);
    return true;
}

/* Q4_1, Q5_1: value = d * q + m. */
RT_DEVICE bool offset_block(Fit *f, const Grid &k)
{
    const int d0s[LANES] = { 0, 1, -1, 0, 0, 1, -1, PLAIN }, d1s[LANES] = { 1, -1, 0, 0, 1, -1, 2, -2 };
    const int m0s[LANES] = { 0, 0, 0, 1, -1, 1, -1, PLAIN }, m1s[LANES] = { -1, 1, 2, -2, 2, -2, 0, 0 };
    Group g;
    group_init(g, f, f->x, 32, false);
    const float far = fabsf(g.high) > fabsf(g.low) ? g.high : g.low;
    float least = __uint_as_float(0x7f800000u);
    uint32_t d = scale_for(sub(g.high, g.low), k.top), m = f16_bits(g.low);
    if (d >= F16_INF || (m & 0x7fffu) >= F16_INF) {
        d = scale_for(fabsf(far), k.top);
        m = 0;
        if (d >= F16_INF || (g.low < 0 && g.high > 0)) return false;
        if (far < 0) d |= 0x8000u;
    } else {
        const Affine a = fit_affine(g, k, false, false);
        const uint32_t d0 = f16_bits(a.scale), m0 = f16_bits(add(a.offset, g.low)), plain_d = d, plain_m = m;
        for (int t = 0; t < 2; t++) {
            const uint32_t dl = f16_near(d0, t ? mine(d1s) : mine(d0s), plain_d);
            const uint32_t ml = f16_near(m0, t ? mine(m1s) : mine(m0s), plain_m);
            const int at = best_lane(errors(f->x, 32, k, f16_value(dl), f16_value(ml)), least);
            const uint32_t db = __shfl_sync(RT_EVERY_LANE, dl, at < 0 ? 0 : at);
            const uint32_t mb = __shfl_sync(RT_EVERY_LANE, ml, at < 0 ? 0 : at);
            if (at >= 0) d = db, m = mb;
        }
    }
    f->d = (uint16_t)d;
    f->m = (uint16_t)m;
    integers(f->q, f->x, 32, k, f16_value(d), f16_value(m));
    return true;
}

/* Q8_0, Q4_0: value = d * q, plain rounding of x / d. most: the largest magnitude. */
RT_DEVICE bool plain_block(Fit *f, float most, bool four)
{
    uint32_t h = scale_for(most, four ? 8.0f : 127.0f);
    if (h >= F16_INF) return false;
    if (four) { /* the integers reach -8 but not 8: the first of the largest values takes the longer side */
        const float v = f->x[threadIdx.x % 32];
        const uint32_t hit = __ballot_sync(RT_EVERY_LANE, fabsf(v) == most);
        if (f->x[__ffs((int)hit) - 1] > 0) h |= 0x8000u;
    }
    const float d = f16_value(h), v = round8(quotient(f->x[threadIdx.x % 32], d));
    const float bottom = four ? -8.0f : -127.0f, top = four ? 7.0f : 127.0f;
    f->d = (uint16_t)h;
    f->q[threadIdx.x % 32] = (int8_t)(v < bottom ? bottom : v > top ? top : v);
    return true;
}

#endif
