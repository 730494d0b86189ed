/* vk_math.glsl - functions that Vulkan promises less of than the tolerances allow: each below 1.5 units in the last
 * place on any device that adds and multiplies as IEEE says, and the same bits on all of those.
 *
 * The API lets exp be wrong by 3 + 2|x| units, log by 3, sin by 2^-11, a quotient by 2.5. Here they are a reduction of
 * the argument whose steps are exact or carried in two floats, and a Taylor series; `precise` keeps compilers from
 * merging or reordering. */
#ifndef VK_MATH_GLSL
#define VK_MATH_GLSL

/* A number as the sum of two floats. */
struct Pair {
    float hi, lo;
};

Pair two_sum(float a, float b)
{
    precise float s = a + b, t = s - a;
    precise float lo = (a - (s - t)) + (b - t);
    return Pair(s, lo);
}
/* |a| >= |b| */
Pair fast_sum(float a, float b)
{
    precise float s = a + b;
    precise float lo = b - (s - a);
    return Pair(s, lo);
}
/* Halves of 12 bits, so that their products are exact. */
Pair split(float a)
{
    float hi = uintBitsToFloat(floatBitsToUint(a) & 0xfffff000u);
    precise float lo = a - hi;
    return Pair(hi, lo);
}
Pair two_product(float a, float b)
{
    precise float p = a * b;
    Pair x = split(a), y = split(b);
    precise float lo = ((x.hi * y.hi - p) + x.hi * y.lo + x.lo * y.hi) + x.lo * y.lo;
    return Pair(p, lo);
}
Pair pair_add(Pair a, float b)
{
    Pair s = two_sum(a.hi, b);
    precise float lo = s.lo + a.lo;
    return fast_sum(s.hi, lo);
}
Pair pair_sum(Pair a, Pair b)
{
    Pair s = two_sum(a.hi, b.hi);
    precise float lo = s.lo + a.lo + b.lo;
    return fast_sum(s.hi, lo);
}
Pair pair_product(Pair a, Pair b)
{
    Pair p = two_product(a.hi, b.hi);
    precise float lo = p.lo + a.hi * b.lo + a.lo * b.hi;
    return fast_sum(p.hi, lo);
}

/* a / b, rounded from a residual that is exact */
float quotient(float a, float b)
{
    precise float q = a / b;
    if (!is_finite(q) || !is_finite(b) || q == 0) return q;
    Pair p = two_product(q, b);
    if (!is_finite(p.lo)) return q;
    precise float r = (a - p.hi) - p.lo;
    precise float better = q + r / b;
    return better;
}
float root(float x)
{
    precise float s = sqrt(x);
    if (!is_finite(s) || s == 0) return s;
    Pair p = two_product(s, s);
    if (!is_finite(p.lo)) return s;
    precise float r = (x - p.hi) - p.lo;
    precise float better = s + r / (s + s);
    return better;
}

/* 2^n for n from -126 to 127 */
float power_of_two(int n) { return uintBitsToFloat(uint(n + 127) << 23); }

float exp_of(float x)
{
    if (is_nan(x)) return x;
    if (x > 89.0) return INF_F;
    if (x < -104.0) return 0.0;
    precise float n = floor(x * 1.44269504 + 0.5);
    precise float r = (x - n * 0.693145752) - n * 1.42860682e-6; /* ln 2, the first part of 15 bits */
    precise float p = 1.0 / 720.0 + r * (1.0 / 5040.0);
    p = 1.0 / 6.0 + r * (1.0 / 24.0 + r * (1.0 / 120.0 + r * p));
    precise float y = 1.0 + (r + r * r * (0.5 + r * p));
    int k = int(n), half_k = k / 2;
    return y * power_of_two(half_k) * power_of_two(k - half_k);
}

/* log of a number above 0; log(0) is minus infinity, of what is below NaN */
float log_of(float x)
{
    if (is_nan(x) || x < 0) return NAN_F;
    if (x == 0) return -INF_F;
    if (!is_finite(x)) return x;
    int e = 0;
    if (x < 1.17549435e-38) {
        x *= 16777216.0;
        e = -24;
    }
    uint u = floatBitsToUint(x) - 0x3f3504f3u; /* of the root of 1/2, where m begins */
    e += int(u) >> 23;
    float m = uintBitsToFloat((u & 0x7fffffu) + 0x3f3504f3u), k = float(e);
    precise float f = m - 1.0, s = f / (2.0 + f), z = s * s;
    precise float R = z * (2.0 / 3.0 + z * (2.0 / 5.0 + z * (2.0 / 7.0 + z * (2.0 / 9.0 + z * (2.0 / 11.0)))));
    precise float h = 0.5 * f * f;
    precise float low = s * (h + R) + k * 1.42860682e-6;
    precise float y = k * 0.693145752 - ((h - low) - f);
    return y;
}

/* log(1 + y) for y from 0 to 1 */
float log1p_of(float y)
{
    precise float u = 1.0 + y, lost = y - (u - 1.0);
    precise float l = log_of(u) + lost / u;
    return l;
}

/* Cosine and sine of pos freq. The angle in quarter turns is a product of whole numbers: |pos| and 24 bits of freq,
 * times 2/pi in 64 bits, so that it loses nothing at long context. */
vec2 rotation(int pos, float freq)
{
    uint u = floatBitsToUint(freq);
    uint64_t m = uint64_t((u & 0x7fffffu) | 0x800000u) * uint64_t(uint(abs(pos)));
    int shift = 150 - int(u >> 23 & 255u); /* angle = m 2^-shift */
    if (u >> 23 == 0 || shift < 0 || shift > 120) return vec2(1.0, 0.0);
    const uint64_t k = 0xa2f9836e4e441529ul; /* 2/pi in units of 2^-64 */
    uint64_t a = m >> 32, b = m & 0xfffffffful, c = k >> 32, d = k & 0xfffffffful;
    uint64_t middle = a * d + (b * d >> 32), other = b * c + (middle & 0xfffffffful);
    uint64_t hi = a * c + (middle >> 32) + (other >> 32), lo = (other << 32) | (b * d & 0xfffffffful);
    uint64_t turns = shift < 64 ? hi >> shift : 0ul; /* whole quarters, and the rest in units of 2^-64 */
    uint64_t rest = shift == 0 ? lo : shift < 64 ? hi << 64 - shift | lo >> shift : hi >> shift - 64;
    uint quarter = uint(turns & 3ul) + uint(rest >> 63);
    precise float r = float(int64_t(rest)) * 8.5153040e-20; /* pi/2 2^-64 */
    precise float z = r * r;
    precise float s = -1.0 / 5040.0 + z * (1.0 / 362880.0);
    s = r + r * z * (-1.0 / 6.0 + z * (1.0 / 120.0 + z * s));
    precise float co = 1.0 / 40320.0 + z * (-1.0 / 3628800.0);
    co = 1.0 + z * (-0.5 + z * (1.0 / 24.0 + z * (-1.0 / 720.0 + z * co)));
    vec2 cs = (quarter & 1u) != 0 ? vec2(s, co) : vec2(co, s);
    if ((quarter + 1u & 2u) != 0) cs.x = -cs.x;
    if ((quarter & 2u) != 0) cs.y = -cs.y;
    if ((pos < 0) != (freq < 0)) cs.y = -cs.y;
    return cs;
}

#endif
