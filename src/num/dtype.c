/* dtype.c - the dtype table, names, and conversion of single half-precision values.
 *
 * Owns: the rows of RT_DTYPE_LIST as data, and the f16 <-> f32 bit arithmetic. Runs of values are in float_convert.c,
 * block formats in quant_0.c and quant_k.c. */
#include "num/dtype.h"

#include <stddef.h>

const rt_dtype_info rt_dtype_table[RT_DTYPE_COUNT] = {
#define X(name, text, block, bytes, cls) {text, block, bytes, cls},
    RT_DTYPE_LIST(X)
#undef X
};

/* ASCII only, so that the locale has no say in what a dtype is called. */
static char lower(char c) { return c >= 'A' && c <= 'Z' ? (char)(c - 'A' + 'a') : c; }

static bool same_name(const char *a, const char *b)
{
    for (; *a && *b; a++, b++) {
        if (lower(*a) != lower(*b)) return false;
    }
    return *a == *b;
}

bool rt_dtype_parse(const char *name, rt_dtype *out)
{
    if (!name) return false;
    for (int d = 0; d < RT_DTYPE_COUNT; d++) {
        if (same_name(name, rt_dtype_table[d].name)) {
            *out = (rt_dtype)d;
            return true;
        }
    }
    return false;
}

float rt_f16_to_f32(uint16_t h)
{
    uint32_t sign = (uint32_t)(h & 0x8000u) << 16, magnitude = h & 0x7fffu;
    if (magnitude >= 0x7c00u) return rt_f32_from_bits(sign | 0x7f800000u | (magnitude & 0x3ffu) << 13);
    if (magnitude >= 0x0400u) return rt_f32_from_bits(sign | ((magnitude << 13) + (112u << 23)));
    /* A subnormal counts units of 2^-24: an exact product of normal numbers, whatever the flush-to-zero mode. */
    return rt_f32_from_bits(sign | rt_f32_bits((float)magnitude * 0x1p-24f));
}

uint16_t rt_f16_from_f32(float x)
{
    uint32_t u = rt_f32_bits(x), magnitude = u & 0x7fffffffu;
    uint16_t sign = (uint16_t)((u >> 16) & 0x8000u);
    if (magnitude > 0x7f800000u) return (uint16_t)(sign | 0x7e00u | ((magnitude >> 13) & 0x3ffu)); /* quiet NaN */
    if (magnitude >= 0x47800000u) return (uint16_t)(sign | 0x7c00u);                               /* 65536 and above */
    if (magnitude >= 0x38800000u) {
        /* Normal result. The carry of a mantissa that rounds up moves into the exponent; 65520 becomes infinity so. */
        uint32_t rounded = magnitude + 0xfffu + ((magnitude >> 13) & 1u);
        return (uint16_t)(sign | ((rounded - (112u << 23)) >> 13));
    }
    /* Subnormal result: the last bit of a number just above 0.5 is worth 2^-24, so the addition does the rounding. */
    return (uint16_t)(sign | (rt_f32_bits(rt_f32_from_bits(magnitude) + 0.5f) - 0x3f000000u));
}
