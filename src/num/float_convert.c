/* float_convert.c - runs of values between the plain float dtypes (F32, BF16, F16, F64).
 *
 * Owns: the loops, and the single rounding from double to the half types. A run may start at any byte, because tensors
 * of a mapped file need not be aligned. A dtype that is not a plain float is a fault of the caller: the output is left
 * as it was. */
#include "num/dtype.h"

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
    default: break;
    }
}

void rt_float_to_f32(float *y, const void *x, rt_dtype d, uint64_t n)
{
    switch (d) {
    case RT_DTYPE_F32: copy(y, x, n * 4); break;
    case RT_DTYPE_BF16:
        for (uint64_t i = 0; i < n; i++) store32(y, i, rt_bf16_to_f32(load16(x, i)));
        break;
    case RT_DTYPE_F16:
        for (uint64_t i = 0; i < n; i++) store32(y, i, rt_f16_to_f32(load16(x, i)));
        break;
    case RT_DTYPE_F64:
        for (uint64_t i = 0; i < n; i++) store32(y, i, (float)load64(x, i));
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
    default: break;
    }
}

void rt_float_from_f32(void *y, const float *x, rt_dtype d, uint64_t n)
{
    switch (d) {
    case RT_DTYPE_F32: copy(y, x, n * 4); break;
    case RT_DTYPE_BF16:
        for (uint64_t i = 0; i < n; i++) store16(y, i, rt_bf16_from_f32(load32(x, i)));
        break;
    case RT_DTYPE_F16:
        for (uint64_t i = 0; i < n; i++) store16(y, i, rt_f16_from_f32(load32(x, i)));
        break;
    case RT_DTYPE_F64:
        for (uint64_t i = 0; i < n; i++) store64(y, i, (double)load32(x, i));
        break;
    default: break;
    }
}
