/* vk_quant_fit.glsl - the search for the scales and integers of a block: num/quant_fit.h with an invocation for each
 * lane.
 *
 * The same candidates, the same order of every sum, the same choice, so that the blocks are the same to the bit:
 * nothing may be merged, so arithmetic is spelled out. A workgroup of 32 has one block; invocations 8 to 31 do what the
 * one of t % 8 does, so that all take every branch together. */
#ifndef VK_QUANT_FIT_GLSL
#define VK_QUANT_FIT_GLSL

const uint LANES = 8, BLOCK_MAX = 256, GROUP_MAX = 32, F16_NAN = 0x7e00u, F16_INF = 0x7c00u;

/* What a block is to store, in the order of its values; and what the search needs. */
shared float fit_x[BLOCK_MAX], fit_y[GROUP_MAX], group_scale[16], group_min[16], of_lanes[LANES];
shared int fit_q[BLOCK_MAX], fit_scale_of[16], fit_min_of[16];
uint fit_d, fit_m; /* the same in all */

/* The places of integers: bottom..top, or the uneven ones of IQ4. */
struct Grid {
    float bottom, top;
    bool uneven;
};

uint lane8() { return gl_LocalInvocationID.x % LANES; }
float add(float a, float b)
{
    precise float y = a + b;
    return y;
}
float sub(float a, float b)
{
    precise float y = a - b;
    return y;
}
float mul(float a, float b)
{
    precise float y = a * b;
    return y;
}
/* Of equals the second. */
float min8(float a, float b) { return a < b ? a : b; }
float max8(float a, float b) { return b < a ? a : b; }

/* What the lanes have, known by all. */
void tell_lanes(float v)
{
    barrier();
    if (gl_LocalInvocationID.x < LANES) of_lanes[gl_LocalInvocationID.x] = v;
    barrier();
}
float of_lane(float v, int i)
{
    tell_lanes(v);
    return of_lanes[i];
}
uint of_lane_u(uint v, int i) { return floatBitsToUint(of_lane(uintBitsToFloat(v), i)); }

/* Nearest integer, ties to even; |t| < 2^22. */
float round8(float t) { return sub(add(t, 12582912.0), 12582912.0); }
float snap(float t, Grid k)
{
    if (!k.uneven) return round8(min8(max8(t, k.bottom), k.top));
    float p = iq4_place(0);
    for (uint i = 0; i < 15; i++) {
        float low = iq4_place(i), high = iq4_place(i + 1);
        p = (low + high) / 2 < t ? high : p;
    }
    return p;
}

/* The lane of the least error below `least`; of equals the first; a lane that is not a number never wins. */
int best_lane(float error, inout float least)
{
    int best = -1;
    tell_lanes(error);
    for (int i = 0; i < int(LANES); i++)
        if (of_lanes[i] < least) {
            least = of_lanes[i];
            best = i;
        }
    return best;
}
float sum_of(float v)
{
    tell_lanes(v);
    return add(add(add(of_lanes[0], of_lanes[4]), add(of_lanes[1], of_lanes[5])),
               add(add(of_lanes[2], of_lanes[6]), add(of_lanes[3], of_lanes[7])));
}
/* Halves folded onto each other: of equals the lower lane's. */
float least_of(float v)
{
    float t[LANES];
    tell_lanes(v);
    for (uint i = 0; i < LANES; i++) t[i] = of_lanes[i];
    for (uint w = LANES / 2; w > 0; w /= 2)
        for (uint i = 0; i < w; i++) t[i] = min8(t[i + w], t[i]);
    return t[0];
}
void extremes(uint x, uint n, out float low, out float high)
{
    float l = fit_x[x + lane8()], h = l;
    for (uint i = LANES; i < n; i += LANES) {
        l = min8(l, fit_x[x + i + lane8()]);
        h = max8(h, fit_x[x + i + lane8()]);
    }
    low = least_of(l);
    high = -least_of(sub(0.0, h));
}

/* The f16 scale for which `reach` comes to `steps` steps: the nearest, or the next where that leaves reach outside. */
uint scale_for(float reach, float steps)
{
    uint h = to_f16(quotient(reach, steps));
    return h < F16_INF && reach > mul(add(steps, 0.5), from_f16(h)) ? h + 1 : h;
}

/* ---- scale and offset: x ~ scale * q + offset with q in 0..top ---- */

struct Span {
    uint n;
    float low, high, sum, sum_sq; /* of x; of x - low, which lies in fit_y */
};
struct Affine {
    float scale, offset, error; /* of x - low */
};

Span span_of(uint x, uint n, bool subtract)
{
    Span g = Span(n, 0, 0, 0, 0);
    float sum = 0, sum_sq = 0;
    extremes(x, n, g.low, g.high);
    if (subtract && g.low > 0) g.low = 0;
    barrier();
    for (uint i = 0; i < n; i += LANES) {
        float y = sub(fit_x[x + i + lane8()], g.low);
        if (gl_LocalInvocationID.x < LANES) fit_y[i + lane8()] = y;
        sum = add(sum, y);
        sum_sq = add(sum_sq, mul(y, y));
    }
    g.sum = sum_of(sum);
    g.sum_sq = sum_of(sum_sq);
    return g;
}

/* Fixes the integers by (origin, inverse), fits scale and offset to them, keeps the best of them if it is better. */
void try_affine(Span g, Grid k, float origin, float inverse, bool subtract, inout Affine best)
{
    float q1 = 0, qq = 0, yq = 0;
    for (uint i = 0; i < g.n; i++) {
        float y = fit_y[i], q = snap(mul(sub(y, origin), inverse), k);
        q1 = add(q1, q);
        qq = add(qq, mul(q, q));
        yq = add(yq, mul(y, q));
    }
    float n = float(g.n), limit = subtract ? -g.low : 0.0, nqq = mul(n, qq), det = sub(nqq, mul(q1, q1));
    float offset = quotient(sub(mul(qq, g.sum), mul(q1, yq)), det);
    bool is_fixed = det < mul(1e-5, nqq) || (subtract && limit < offset);
    offset = is_fixed ? limit : offset;
    float scale = quotient(sub(yq, mul(offset, q1)), qq);
    float error = sub(mul(scale, qq), mul(2.0, sub(yq, mul(offset, q1))));
    error = add(mul(scale, error), mul(offset, sub(mul(n, offset), mul(2.0, g.sum))));
    int at = best_lane(0 < scale ? add(error, g.sum_sq) : INF_F, best.error);
    float s = of_lane(scale, max(at, 0)), o = of_lane(offset, max(at, 0));
    if (at < 0) return;
    best.scale = s;
    best.offset = o;
}

/* How far, in steps, a candidate moves the ends of the range inwards; far: two turns. */
vec2 ends_of(bool far, uint turn)
{
    const float low[LANES] = float[](-0.2, 0.25, 0.25, 0.6, 0.6, 1.0, 0.1, 1.0);
    const float high[LANES] = float[](0.25, -0.2, 0.6, 0.25, 1.0, 0.6, 0.1, 0.1);
    const float far_of[4] = float[](-0.2, 0.25, 0.7, 1.2);
    uint l = lane8();
    return far ? vec2(far_of[2 * turn + l / 4], far_of[l % 4]) : vec2(low[l], high[l]);
}

Affine fit_affine(Span g, Grid k, bool far, bool subtract)
{
    const float wider[LANES] = float[](1.0, 1.02, 0.98, 1.0, 1.0, 1.03, 0.97, 1.0);
    const float shift[LANES] = float[](0.0, -0.1, 0.1, 0.25, -0.25, -0.35, 0.35, 0.0);
    Affine best = Affine(0, 0, INF_F);
    float step = quotient(sub(g.high, g.low), k.top);
    if (!(step > 9.0949470e-13)) return best; /* 2^-40: finer than any f16 scale can follow */
    for (uint t = 0; t < (far ? 2 : 1); t++) {
        vec2 end = ends_of(far, t);
        float steps = sub(sub(k.top, end.x), end.y);
        try_affine(g, k, mul(end.x, step), quotient(k.top, mul(steps, step)), subtract, best);
    }
    if (best.scale > 0) {
        float scale = mul(best.scale, wider[lane8()]), origin = add(best.offset, mul(shift[lane8()], scale));
        try_affine(g, k, origin, quotient(1.0, scale), subtract, best);
    }
    return best;
}

/* ---- a scale alone: x ~ scale * q ---- */

void try_scale(uint x, uint n, Grid k, float inverse, inout Affine best)
{
    float qq = 0, xq = 0;
    for (uint i = 0; i < n; i++) {
        float v = fit_x[x + i], q = snap(mul(v, inverse), k);
        qq = add(qq, mul(q, q));
        xq = add(xq, mul(v, q));
    }
    float scale = quotient(xq, qq);
    int at = best_lane(sub(0.0, mul(scale, xq)), best.error);
    float s = of_lane(scale, max(at, 0));
    if (at >= 0) best.scale = s;
}

/* The value of largest magnitude; of equals the positive one. */
float largest_of(uint x, uint n)
{
    float low, high;
    extremes(x, n, low, high);
    return high < -low ? low : high;
}

/* Where the candidates put the value of largest magnitude, in steps. */
const uint WHERE_32 = 0, WHERE_16 = 1, WHERE_4 = 3, WHERE_IQ4 = 5; /* the second turn is the next one */
float where_of(uint which)
{
    const float at[7 * LANES] = float[](
        -32.7, -32.4, -32.2, -32.0, -31.8, -31.6, -31.3, -31.0, -16.9, -16.6, -16.3, -16.0, -15.7, -15.4, -15.1, -14.8,
        16.0, 15.7, 15.4, 15.1, 14.8, 14.5, 14.2, 13.9, -4.8, -4.5, -4.2, -4.0, -3.8, -3.6, -3.3, -3.0, 2.6, 2.8, 3.0,
        3.2, 3.4, 3.6, 3.8, 4.0, -150.0, -142.0, -135.0, -130.0, -127.0, -122.0, -117.0, -112.0, 100.0, 107.0, 113.0,
        118.0, 123.0, 128.0, 133.0, 138.0);
    return at[which * LANES + lane8()];
}

float fit_scale(uint x, uint n, Grid k, uint where)
{
    const float wider[LANES] = float[](1.0, 1.004, 0.996, 1.008, 0.992, 1.014, 0.986, 1.02);
    Affine best = Affine(0, 0, INF_F);
    float largest = largest_of(x, n);
    if (!(abs(largest) > 9.0949470e-13)) return 0;
    for (uint t = 0; t < (where == WHERE_32 ? 1 : 2); t++)
        try_scale(x, n, k, quotient(where_of(where + t), largest), best);
    if (best.scale != 0) try_scale(x, n, k, quotient(1.0, mul(best.scale, wider[lane8()])), best);
    return best.scale;
}

/* ---- what is stored ---- */

float inverse_of(float scale) { return 0 < mul(scale, scale) ? quotient(1.0, scale) : 0.0; }

/* The squared error of scale * q + offset when every q is the best one. */
float errors(uint x, uint n, Grid k, float scale, float offset)
{
    float inverse = inverse_of(scale), sum = 0;
    for (uint i = 0; i < n; i++) {
        float v = sub(fit_x[x + i], offset), rest = sub(v, mul(scale, snap(mul(v, inverse), k)));
        sum = add(sum, mul(rest, rest));
    }
    return sum;
}
void integers(uint x, uint n, Grid k, float scale, float offset)
{
    float inverse = inverse_of(scale);
    FOR_LANES (i, n)
        fit_q[x + i] = int(snap(mul(sub(fit_x[x + i], offset), inverse), k));
}
float clamp_round(float t, float bottom, float top) { return t <= bottom ? bottom : t >= top ? top : round8(t); }

/* ---- super-blocks ---- */

/* Q4_K, Q5_K, Q2_K: value = d * scale * q - dmin * min, both factors integers up to `most`. */
bool affine_block(uint n, Grid k, float most, bool far)
{
    const float ds[2 * LANES] = float[](
        0.0, -1.0, 1.0, 0.0, 0.0, 1.0, -1.0, 2.0, 1.0, -1.0, 0.0, 0.0, 1.0, -1.0, -2.0, 0.0);
    const float dm[2 * LANES] = float[](
        0.0, 0.0, 0.0, 1.0, -1.0, 1.0, -1.0, 1.0, -1.0, 1.0, 2.0, -2.0, 2.0, -2.0, -1.0, 0.0);
    float most_scale = 0, most_min = 0;
    for (uint j = 0; j < BLOCK_MAX / n; j++) {
        Span g = span_of(n * j, n, true);
        Affine a = fit_affine(g, k, far, true);
        float low = -add(a.offset, g.low);
        if (gl_LocalInvocationID.x == 0) {
            group_scale[j] = a.scale;
            group_min[j] = low;
        }
        most_scale = max(most_scale, a.scale);
        most_min = max(most_min, low);
    }
    fit_d = scale_for(most_scale, most);
    fit_m = scale_for(most_min, most);
    if (fit_d >= F16_INF || fit_m >= F16_INF) return false;
    float d = from_f16(fit_d), dmin = from_f16(fit_m);
    barrier();
    for (uint j = 0; j < BLOCK_MAX / n; j++) {
        float s0 = d > 0 ? clamp_round(quotient(group_scale[j], d), 0, most) : 0.0;
        float m0 = dmin > 0 ? clamp_round(quotient(group_min[j], dmin), 0, most) : 0.0;
        float least = INF_F, s_best = 0, m_best = 0;
        for (uint t = 0; t < 2; t++) {
            float s = min8(max8(add(s0, ds[t * LANES + lane8()]), 0.0), most);
            float m = min8(max8(add(m0, dm[t * LANES + lane8()]), 0.0), most);
            int at = best_lane(errors(n * j, n, k, mul(s, d), sub(0.0, mul(m, dmin))), least);
            float sl = of_lane(s, max(at, 0)), ml = of_lane(m, max(at, 0));
            if (at < 0) continue;
            s_best = sl;
            m_best = ml;
        }
        if (gl_LocalInvocationID.x == 0) {
            fit_scale_of[j] = int(s_best);
            fit_min_of[j] = int(m_best);
        }
        integers(n * j, n, k, mul(d, s_best), -mul(dmin, m_best));
    }
    return true;
}

/* Q6_K, Q3_K, IQ4_XS: value = d * scale * q, the factor in -most..most-1. */
bool scaled_block(uint n, Grid k, float most, uint where)
{
    const float around[LANES] = float[](0.0, -1.0, 1.0, 2.0, -2.0, 3.0, -3.0, 0.0);
    float largest = 0;
    for (uint j = 0; j < BLOCK_MAX / n; j++) {
        float s = fit_scale(n * j, n, k, where);
        if (gl_LocalInvocationID.x == 0) group_scale[j] = s;
        if (abs(s) > abs(largest)) largest = s;
    }
    fit_d = scale_for(abs(largest), most);
    if (fit_d >= F16_INF) return false;
    if (largest > 0) fit_d |= 0x8000u; /* the factor reaches -most but not most */
    float d = from_f16(fit_d);
    barrier();
    for (uint j = 0; j < BLOCK_MAX / n; j++) {
        float wish = d != 0 ? clamp_round(quotient(group_scale[j], d), -most, most - 1) : 0.0, least = INF_F;
        float s = min8(max8(add(wish, around[lane8()]), -most), most - 1);
        int at = best_lane(errors(n * j, n, k, mul(s, d), 0.0), least);
        float best = of_lane(s, max(at, 0)), factor = at < 0 ? 0.0 : best;
        if (gl_LocalInvocationID.x == 0) fit_scale_of[j] = int(factor);
        integers(n * j, n, k, mul(d, factor), 0.0);
    }
    return true;
}

/* ---- blocks of 32 ---- */

/* Beside the neighbours of a wish: the scale of a plain block, and its negative. */
const int PLAIN = 0x10000, MIRROR = 0x20000;

/* The f16 number `steps` from h, as stored. What is no finite number becomes `plain`. */
uint f16_near(uint h, int steps, uint plain)
{
    int magnitude = int(h & 0x7fffu) + steps;
    uint y = magnitude >= 0 && magnitude < int(F16_INF) ? (h & 0x8000u) | uint(magnitude) : plain;
    return steps == MIRROR ? y ^ 0x8000u : y;
}

/* Q5_0, IQ4_NL: value = d * q. reach: the place of largest magnitude. */
bool scale_block(Grid k, float reach, uint where)
{
    const int around[LANES] = int[](0, 1, -1, 2, -2, 3, PLAIN, MIRROR);
    float largest = largest_of(0, 32), least = INF_F;
    uint plain = scale_for(abs(largest), abs(reach));
    if (plain >= F16_INF) return false;
    if ((largest > 0) != (reach > 0)) plain |= 0x8000u;
    uint h = f16_near(to_f16(fit_scale(0, 32, k, where)), around[lane8()], plain);
    int at = best_lane(errors(0, 32, k, from_f16(h), 0.0), least);
    uint best = of_lane_u(h, max(at, 0));
    fit_d = at < 0 ? plain : best;
    integers(0, 32, k, from_f16(fit_d), 0.0);
    return true;
}

/* Q4_1, Q5_1: value = d * q + m. */
bool offset_block(Grid k)
{
    const int ds[2 * LANES] = int[](0, 1, -1, 0, 0, 1, -1, PLAIN, 1, -1, 0, 0, 1, -1, 2, -2);
    const int ms[2 * LANES] = int[](0, 0, 0, 1, -1, 1, -1, PLAIN, -1, 1, 2, -2, 2, -2, 0, 0);
    Span g = span_of(0, 32, false);
    float far = abs(g.high) > abs(g.low) ? g.high : g.low, least = INF_F;
    fit_d = scale_for(sub(g.high, g.low), k.top);
    fit_m = to_f16(g.low);
    if (fit_d >= F16_INF || (fit_m & 0x7fffu) >= F16_INF) {
        fit_d = scale_for(abs(far), k.top);
        fit_m = 0;
        if (fit_d >= F16_INF || (g.low < 0 && g.high > 0)) return false;
        if (far < 0) fit_d |= 0x8000u;
    } else {
        Affine a = fit_affine(g, k, false, false);
        uint d0 = to_f16(a.scale), m0 = to_f16(add(a.offset, g.low)), plain_d = fit_d, plain_m = fit_m;
        for (uint t = 0; t < 2; t++) {
            uint d = f16_near(d0, ds[t * LANES + lane8()], plain_d), m = f16_near(m0, ms[t * LANES + lane8()], plain_m);
            int at = best_lane(errors(0, 32, k, from_f16(d), from_f16(m)), least);
            uint best_d = of_lane_u(d, max(at, 0)), best_m = of_lane_u(m, max(at, 0));
            if (at < 0) continue;
            fit_d = best_d;
            fit_m = best_m;
        }
    }
    integers(0, 32, k, from_f16(fit_d), from_f16(fit_m));
    return true;
}

#endif
