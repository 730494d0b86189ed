/* e4m3.h - OCP's 8-bit float with 4 bits of exponent and 3 of mantissa (e4m3fn), and rows of it with a scale each.
 *
 * Owns: the codes, and what the scale of a row is. A code is sign, exponent (bias 7), mantissa: 448 is the largest
 * number, 2^-6 the least normal one, 2^-9 the least above 0; there is no infinity, and 0x7f and 0xff are NaN.
 *
 * The scale of a row is the least power of two 2^e with max|x| <= 448 2^e. Since e4m3 is a float format, that costs
 * no precision beside the best scale, only a part of one binade of range; and multiplying by it is exact, so that
 * codes and scales are the same bits wherever they are computed. A row of zeros has scale 1. e is at least -126, so
 * that scale and 1 / scale are normal f32: below 448 2^-126 a row loses bits, as f32 itself does there. A row with a
 * value that is not finite has the scale NaN and NaN for codes: what is computed from it is NaN, never clamped. */
#ifndef RT_NUM_E4M3_H
#define RT_NUM_E4M3_H

#include "num/dtype.h"

enum { RT_E4M3_NAN = 0x7f, RT_E4M3_MOST = 0x7e /* 448 */ };

extern const float rt_e4m3_values[256];
static inline float rt_e4m3_to_f32(uint8_t code) { return rt_e4m3_values[code]; }

/* To nearest, ties to even; beyond 448, infinities too, 448 with the sign of x. Every NaN becomes 0x7f. */
static inline uint8_t rt_e4m3_from_f32(float x)
{
    uint32_t u = rt_f32_bits(x), magnitude = u & 0x7fffffffu, sign = u >> 24 & 0x80u;
    if (magnitude > 0x7f800000u) return RT_E4M3_NAN;
    if (magnitude >= 0x43e00000u) return (uint8_t)(sign | RT_E4M3_MOST);
    /* Normal result: a mantissa that rounds up carries into the exponent. Subnormal: the last bit of a number just
     * above 2^14 is worth 2^-9, so the addition does the rounding. */
    if (magnitude >= 0x3c800000u)
        return (uint8_t)(sign | (magnitude + 0x7ffffu + (magnitude >> 20 & 1u) - (120u << 23)) >> 20);
    return (uint8_t)(sign | (rt_f32_bits(rt_f32_from_bits(magnitude) + 16384.0f) - rt_f32_bits(16384.0f)));
}

/* The scale of a row whose largest magnitude has these bits; they compare like the magnitudes do, and what is not
 * finite is above all numbers. */
static inline float rt_e4m3_scale(uint32_t most)
{
    if (most >= 0x7f800000u) return rt_f32_from_bits(0x7fc00000u);
    if (most == 0) return 1.0f;
    uint32_t e = (most + 0x1fffffu) >> 23; /* 448 is 1.75 2^8: a mantissa above 1.75 takes the next exponent */
    return rt_f32_from_bits((e > 9 ? e - 8 : 1) << 23);
}
/* 1 / scale, exactly; NaN for NaN. */
static inline float rt_e4m3_inverse(float scale)
{
    return scale != scale ? scale : rt_f32_from_bits((254u << 23) - rt_f32_bits(scale));
}
/* Bits of the largest magnitude of x (n), not below `least`. */
uint32_t rt_e4m3_most(const float *x, uint64_t n, uint32_t least);
/* codes (n) = x inverse */
void rt_e4m3_codes(uint8_t *codes, const float *x, uint64_t n, float inverse);

/* Rows of x as codes and scales, and back: x = code scale, one rounding (none where the scale is a power of two). */
void rt_e4m3_rows(uint8_t *codes /* (rows,cols) */, float *scale /* (rows) */, const float *x /* (rows,cols) */,
                  uint64_t rows, uint64_t cols);
void rt_e4m3_rows_to_f32(float *x /* (rows,cols) */, const uint8_t *codes /* (rows,cols) */,
                         const float *scale /* (rows) */, uint64_t rows, uint64_t cols);

#endif
