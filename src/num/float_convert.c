/* float_convert.c - runs of values between the plain float dtypes (F32, BF16, F16, F64), and E4M3.
 *
 * Owns: the loops, and the single rounding from double to the half types. A run may start at any byte, because tensors
 * of a mapped file need not be aligned. Any other dtype is a fault of the caller: the output is left
 * as it was.
 * Between the half types and f32 eight values go at a time, by the integer arithmetic of the single conversions with
 * every branch turned into a mask: any machine with vectors does that at about the rate of its memory, and the bits,
 * those of NaNs too, are the same on all of them. */
#include "num/e4m3.h"

#include <stddef.h>

static uint16_t load16(const void *p, uint64_t i)
{
    uint16_t v;
    memcpy(&v, (const unsigned char *)p + 2 * i, 2);
    return v;
}

static void store16(void *p, uint64_t i, uint16_t v) { memcpy((unsigned char *)p + 2 * i, &v, 2); }

static float load32(const void *p, uint64_t i)
{
    float v;
    memcpy(&v, (const unsigned char *)p + 4 * i, 4);
    return v;
}

static void store32(void *p, uint64_t i, float v) { memcpy((unsigned char *)p + 4 * i, &v, 4); }

static double load64(const void *p, uint64_t i)
{
    double v;
    memcpy(&v, (const unsigned char *)p + 8 * i, 8);
    return v;
}

static void store64(void *p, uint64_t i, double v) { memcpy((unsigned char *)p + 8 * i, &v, 8); }

/* In place is allowed, and so is nothing at all: memmove itself forbids null pointers even then. */
static void copy(void *y, const void *x, uint64_t bytes)
{
    if (bytes) memmove(y, x, bytes);
}

/* ---- half types and f32, eight at a time ---- */

enum { RUN = 8 };
typedef uint16_t half8 __attribute__((vector_size(16)));
typedef uint32_t word4 __attribute__((vector_size(16)));
typedef int32_t int4 __attribute__((vector_size(16)));
typedef float float4 __attribute__((vector_size(16)));

static inline word4 select4(int4 mask, word4 a, word4 b) { return (a & (word4)mask) | (b & ~(word4)mask); }

/* The halves of eight 16-bit values, widened; and back, of words below 2^16. As two shuffles of 16-bit parts, which
 * every compiler turns into a few instructions; little-endian, as everything here. */
static inline word4 widen_low(half8 h)
{
    return (word4)__builtin_shufflevector(h, (half8){ 0 }, 0, 8, 1, 9, 2, 10, 3, 11);
}
static inline word4 widen_high(half8 h)
{
    return (word4)__builtin_shufflevector(h, (half8){ 0 }, 4, 12, 5, 13, 6, 14, 7, 15);
}
static inline half8 narrow(word4 low, word4 high)
{
    return __builtin_shufflevector((half8)low, (half8)high, 0, 2, 4, 6, 8, 10, 12, 14);
}

static inline word4 words_from_f16(word4 h)
{
    word4 sign = (h & 0x8000u) << 16, magnitude = h & 0x7fffu, moved = magnitude << 13;
    word4 normal = moved + (112u << 23), special = moved | 0x7f800000u;
    word4 subnormal = (word4)(__builtin_convertvector((int4)magnitude, float4) * 0x1p-24f);
    int4 m = (int4)magnitude;
    return sign | select4(m < 0x400, subnormal, select4(m < 0x7c00, normal, special));
}

static inline word4 words_to_f16(word4 u)
{
    word4 sign = u >> 16 & 0x8000u, magnitude = u & 0x7fffffffu;
    int4 m = (int4)magnitude;
    word4 nan = 0x7e00u | (magnitude >> 13 & 0x3ffu);
    word4 normal = (magnitude + 0xfffu + (magnitude >> 13 & 1u) - (112u << 23)) >> 13;
    word4 subnormal = (word4)((float4)magnitude + 0.5f) - 0x3f000000u;
    word4 infinite = magnitude * 0 + 0x7c00u;
    word4 finite = select4(m < 0x38800000, subnormal, select4(m < 0x47800000, normal, infinite));
    return sign | select4(m > 0x7f800000, nan, finite);
}

static inline word4 words_to_bf16(word4 u)
{
    int4 is_nan = (int4)(u & 0x7fffffffu) > 0x7f800000;
    return select4(is_nan, u >> 16 | 0x40u, (u + 0x7fffu + (u >> 16 & 1u)) >> 16);
}

static void f32_from_half(void *y, const void *x, uint64_t n, bool bf16)
{
    const unsigned char *from = x;
    unsigned char *to = y;
    uint64_t i = 0;
    for (; i + RUN <= n; i += RUN) {
        half8 h;
        memcpy(&h, from + 2 * i, sizeof h);
        word4 low = widen_low(h), high = widen_high(h);
        low = bf16 ? low << 16 : words_from_f16(low);
        high = bf16 ? high << 16 : words_from_f16(high);
        memcpy(to + 4 * i, &low, sizeof low);
        memcpy(to + 4 * i + 16, &high, sizeof high);
    }
    for (; i < n; i++) store32(y, i, bf16 ? rt_bf16_to_f32(load16(x, i)) : rt_f16_to_f32(load16(x, i)));
}

static void half_from_f32(void *y, const void *x, uint64_t n, bool bf16)
{
    const unsigned char *from = x;
    unsigned char *to = y;
    uint64_t i = 0;
    for (; i + RUN <= n; i += RUN) {
        word4 low, high;
        memcpy(&low, from + 4 * i, sizeof low);
        memcpy(&high, from + 4 * i + 16, sizeof high);
        half8 h =
            bf16 ? narrow(words_to_bf16(low), words_to_bf16(high)) : narrow(words_to_f16(low), words_to_f16(high));
        memcpy(to + 2 * i, &h, sizeof h);
    }
    for (; i < n; i++) store16(y, i, bf16 ? rt_bf16_from_f32(load32(x, i)) : rt_f16_from_f32(load32(x, i)));
}

/* x cut to f32 towards zero, with the last bit set when anything was cut off (round to odd). The mark keeps a later
 * rounding to at most 22 bits from seeing a tie that is not one, so the pair rounds as one step. Overflow gives the
 * largest finite number, which is odd and which both half types then round to infinity. */
static float f32_round_to_odd(double x)
{
    uint64_t u;
    memcpy(&u, &x, 8);
    uint32_t sign = (uint32_t)(u >> 32) & 0x80000000u;
    uint64_t mantissa = u & 0xfffffffffffffu;
    int exponent = (int)((u >> 52) & 0x7ffu) - 1023 + 127;
    if (exponent == 2047 - 1023 + 127) {
        uint32_t payload = mantissa ? 0x400000u | (uint32_t)(mantissa >> 29) : 0;
        return rt_f32_from_bits(sign | 0x7f800000u | payload);
    }
    if (exponent >= 255) return rt_f32_from_bits(sign | 0x7f7fffffu);
    int drop = 29;
    uint32_t high = 0;
    if (exponent >= 1) {
        high = (uint32_t)exponent << 23;
    } else { /* f32 subnormal or less; a double subnormal, or zero, only leaves the mark, which rounds away */
        mantissa |= 1ull << 52;
        drop += 1 - exponent;
        if (drop > 60) drop = 60;
    }
    uint32_t kept = (uint32_t)(mantissa >> drop);
    uint32_t odd = (mantissa & ((1ull << drop) - 1)) != 0;
    return rt_f32_from_bits(sign | high | kept | odd);
}

void rt_float_to_f64(double *y, const void *x, rt_dtype d, uint64_t n)
{
    switch (d) {
    case RT_DTYPE_F32:
        for (uint64_t i = 0; i < n; i++) store64(y, i, (double)load32(x, i));
        break;
    case RT_DTYPE_BF16:
        for (uint64_t i = 0; i < n; i++) store64(y, i, (double)rt_bf16_to_f32(load16(x, i)));
        break;
    case RT_DTYPE_F16:
        for (uint64_t i = 0; i < n; i++) store64(y, i, (double)rt_f16_to_f32(load16(x, i)));
        break;
    case RT_DTYPE_F64: copy(y, x, n * 8); break;
    case RT_DTYPE_E4M3:
        for (uint64_t i = 0; i < n; i++) store64(y, i, (double)rt_e4m3_to_f32(((const uint8_t *)x)[i]));
        break;
    default: break;
    }
}

void rt_float_to_f32(float *y, const void *x, rt_dtype d, uint64_t n)
{
    switch (d) {
    case RT_DTYPE_F32: copy(y, x, n * 4); break;
    case RT_DTYPE_BF16: f32_from_half(y, x, n, true); break;
    case RT_DTYPE_F16: f32_from_half(y, x, n, false); break;
    case RT_DTYPE_F64:
        for (uint64_t i = 0; i < n; i++) store32(y, i, (float)load64(x, i));
        break;
    case RT_DTYPE_E4M3:
        for (uint64_t i = 0; i < n; i++) store32(y, i, rt_e4m3_to_f32(((const uint8_t *)x)[i]));
        break;
    default: break;
    }
}

void rt_float_from_f64(void *y, const double *x, rt_dtype d, uint64_t n)
{
    switch (d) {
    case RT_DTYPE_F32:
        for (uint64_t i = 0; i < n; i++) store32(y, i, (float)load64(x, i));
        break;
    case RT_DTYPE_BF16:
        for (uint64_t i = 0; i < n; i++) store16(y, i, rt_bf16_from_f32(f32_round_to_odd(load64(x, i))));
        break;
    case RT_DTYPE_F16:
        for (uint64_t i = 0; i < n; i++) store16(y, i, rt_f16_from_f32(f32_round_to_odd(load64(x, i))));
        break;
    case RT_DTYPE_F64: copy(y, x, n * 8); break;
    case RT_DTYPE_E4M3:
        for (uint64_t i = 0; i < n; i++) ((uint8_t *)y)[i] = rt_e4m3_from_f32(f32_round_to_odd(load64(x, i)));
        break;
    default: break;
    }
}

void rt_float_from_f32(void *y, const float *x, rt_dtype d, uint64_t n)
{
    switch (d) {
    case RT_DTYPE_F32: copy(y, x, n * 4); break;
    case RT_DTYPE_BF16: half_from_f32(y, x, n, true); break;
    case RT_DTYPE_F16: half_from_f32(y, x, n, false); break;
    case RT_DTYPE_F64:
        for (uint64_t i = 0; i < n; i++) store64(y, i, (double)load32(x, i));
        break;
    case RT_DTYPE_E4M3:
        for (uint64_t i = 0; i < n; i++) ((uint8_t *)y)[i] = rt_e4m3_from_f32(load32(x, i));
        break;
    default: break;
    }
}
