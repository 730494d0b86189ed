/* e4m3.c - see e4m3.h: the table of values, and the loops over rows.
 *
 * Rows go sixteen values at a time, by the integer arithmetic of the single conversion with its branches turned into
 * masks, as in float_convert.c. */
#include "num/e4m3.h"

#include <math.h>

/* Of each code; the shift counts from 2^-10, half of the least. */
#define MAGNITUDE(c) ((c) == 0x7f ? NAN : (float)((c) < 8 ? 2 * (c) : (8 + ((c)&7)) << ((c) >> 3)) * 0x1p-10f)
#define EIGHT(c, sign)                                                                                                 \
    sign MAGNITUDE(c), sign MAGNITUDE(c + 1), sign MAGNITUDE(c + 2), sign MAGNITUDE(c + 3), sign MAGNITUDE(c + 4),     \
        sign MAGNITUDE(c + 5), sign MAGNITUDE(c + 6), sign MAGNITUDE(c + 7)
#define HALF(sign)                                                                                                     \
    EIGHT(0, sign), EIGHT(8, sign), EIGHT(16, sign), EIGHT(24, sign), EIGHT(32, sign), EIGHT(40, sign),                \
        EIGHT(48, sign), EIGHT(56, sign), EIGHT(64, sign), EIGHT(72, sign), EIGHT(80, sign), EIGHT(88, sign),          \
        EIGHT(96, sign), EIGHT(104, sign), EIGHT(112, sign), EIGHT(120, sign)
const float rt_e4m3_values[256] = { HALF(+), HALF(-) };

enum { RUN = 16, FOUR = 4 };
typedef uint8_t byte16 __attribute__((vector_size(16)));
typedef uint16_t half8 __attribute__((vector_size(16)));
typedef uint32_t word4 __attribute__((vector_size(16)));
typedef int32_t int4 __attribute__((vector_size(16)));
typedef float float4 __attribute__((vector_size(16)));

static inline word4 select4(int4 mask, word4 a, word4 b) { return (a & (word4)mask) | (b & ~(word4)mask); }

uint32_t rt_e4m3_most(const float *x, uint64_t n, uint32_t least)
{
    int4 most = { (int32_t)least, (int32_t)least, (int32_t)least, (int32_t)least };
    uint64_t i = 0;
    for (; i + FOUR <= n; i += FOUR) {
        int4 v;
        memcpy(&v, x + i, sizeof v);
        v &= 0x7fffffff;
        most = (int4)select4(v > most, (word4)v, (word4)most);
    }
    for (int k = 0; k < FOUR; k++)
        if ((uint32_t)most[k] > least) least = (uint32_t)most[k];
    for (; i < n; i++) {
        uint32_t u = rt_f32_bits(x[i]) & 0x7fffffffu;
        if (u > least) least = u;
    }
    return least;
}

static inline word4 words_of(float4 x)
{
    word4 u = (word4)x, sign = u >> 24 & 0x80u, magnitude = u & 0x7fffffffu;
    int4 m = (int4)magnitude;
    word4 normal = (magnitude + 0x7ffffu + (magnitude >> 20 & 1u) - (120u << 23)) >> 20;
    word4 subnormal = (word4)((float4)magnitude + 16384.0f) - 0x46800000u;
    word4 most = magnitude * 0 + RT_E4M3_MOST, nan = magnitude * 0 + RT_E4M3_NAN;
    word4 finite = select4(m < 0x3c800000, subnormal, select4(m < 0x43e00000, normal, most));
    return select4(m > 0x7f800000, nan, sign | finite);
}

/* Words below 2^16, and halves below 2^8, side by side. */
static inline half8 halves_of(word4 low, word4 high)
{
    return __builtin_shufflevector((half8)low, (half8)high, 0, 2, 4, 6, 8, 10, 12, 14);
}
static inline byte16 bytes_of(half8 low, half8 high)
{
    return __builtin_shufflevector((byte16)low, (byte16)high, 0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28,
                                   30);
}

void rt_e4m3_codes(uint8_t *codes, const float *x, uint64_t n, float inverse)
{
    uint64_t i = 0;
    for (; i + RUN <= n; i += RUN) {
        float4 v[RUN / FOUR];
        memcpy(v, x + i, sizeof v);
        half8 low = halves_of(words_of(v[0] * inverse), words_of(v[1] * inverse));
        half8 high = halves_of(words_of(v[2] * inverse), words_of(v[3] * inverse));
        byte16 c = bytes_of(low, high);
        memcpy(codes + i, &c, sizeof c);
    }
    for (; i < n; i++) codes[i] = rt_e4m3_from_f32(x[i] * inverse);
}

void rt_e4m3_rows(uint8_t *codes, float *scale, const float *x, uint64_t rows, uint64_t cols)
{
    for (uint64_t r = 0; r < rows; r++, codes += cols, x += cols) {
        scale[r] = rt_e4m3_scale(rt_e4m3_most(x, cols, 0));
        rt_e4m3_codes(codes, x, cols, rt_e4m3_inverse(scale[r]));
    }
}

void rt_e4m3_rows_to_f32(float *x, const uint8_t *codes, const float *scale, uint64_t rows, uint64_t cols)
{
    for (uint64_t r = 0; r < rows; r++, codes += cols, x += cols)
        for (uint64_t i = 0; i < cols; i++) x[i] = rt_e4m3_values[codes[i]] * scale[r];
}
