/* moment.h - how the optimizer's moments are stored in fewer bits than f32: bf16, or 8 bits with an exponent for each
 * block of 128; and the one way in which they are rounded, which is by chance.
 *
 * Owns: the formats and their rounding, as functions of single values. Header only: kernels of other backends mirror
 * it. docs/numerics.md says why it is so.
 *
 * A value is rounded up with a chance that is its distance from the number below, by 16 random bits that belong to the
 * element and the step; so what is too small for a step of the format is kept on average.
 *
 * 8 bits: a code c below 8 counts c quanta, any other (8 + c % 8) 2^(c / 8 - 1): a float with three bits behind the
 * leading one and gradual underflow. The quantum of a block is a power of two, stored as the exponent byte of its f32:
 * 0 makes every value 0, 255 (infinity) marks a block that has a value which is not finite, and makes all of it NaN. m
 * has a sign and 7 bits of code, v 8 bits of code. v above 0 never becomes 0. */
#ifndef RT_NUM_MOMENT_H
#define RT_NUM_MOMENT_H

#include "num/dtype.h"

enum {
    RT_MOMENT_BLOCK = 128, /* elements of a row that share an exponent; the last block of a row may be shorter */
    RT_MOMENT_M_TOP = 17,  /* the largest code of m is 1.875 2^17 quanta, */
    RT_MOMENT_V_TOP = 33   /* that of v 1.875 2^33 */
};

/* Exponent bytes of a row of C elements: of each block that of m, then that of v. */
static inline uint64_t rt_moment_exps(uint64_t C) { return 2 * ((C + RT_MOMENT_BLOCK - 1) / RT_MOMENT_BLOCK); }

/* chance: 16 random bits. */
static inline uint16_t rt_moment_bf16(float x, uint32_t chance)
{
    uint32_t u = rt_f32_bits(x);
    if ((u & 0x7f800000u) == 0x7f800000u) return rt_bf16_from_f32(x);
    return (uint16_t)((u + chance) >> 16);
}

/* The exponent byte of a block whose largest magnitude is `most`: the least whose largest code is not below it. */
static inline uint32_t rt_moment_exp(float most, uint32_t top)
{
    uint32_t u = rt_f32_bits(most) & 0x7fffffffu, e = (u + 0xfffffu) >> 23; /* of it, rounded up to three bits */
    return u == 0 ? 0 : e >= 255 ? 255 : e <= top ? 1 : e - top;
}

/* Quanta of a code, times the quantum. */
static inline float rt_moment_value(uint32_t code, uint32_t exp)
{
    float quanta = code < 8 ? (float)code : rt_f32_from_bits((129u << 23) + (code << 20));
    return quanta * rt_f32_from_bits(exp << 23);
}

/* The code of x >= 0 in a block with this exponent, of which x is no larger than the largest. */
static inline uint32_t rt_moment_code(float x, uint32_t exp, uint32_t chance)
{
    if (exp == 0 || exp == 255) return 0;
    float quanta = x * rt_f32_from_bits((254 - exp) << 23); /* exact */
    uint32_t below = quanta < 8 ? 8 : 0;
    uint32_t u = rt_f32_bits(quanta + (float)below) + (chance << 4 | 8); /* 20 bits go */
    return (u >> 20) - (129u << 3) - below;
}

static inline uint8_t rt_moment_m(float x, uint32_t exp, uint32_t chance)
{
    uint32_t sign = rt_f32_bits(x) >> 31, code = rt_moment_code(sign ? -x : x, exp, chance);
    return (uint8_t)(code ? sign << 7 | code : 0); /* there is one 0 */
}
static inline uint8_t rt_moment_v(float x, uint32_t exp, uint32_t chance)
{
    uint32_t code = rt_moment_code(x, exp, chance);
    return (uint8_t)(code == 0 && x > 0 && exp != 0 && exp != 255 ? 1 : code);
}
static inline float rt_moment_m_value(uint8_t code, uint32_t exp)
{
    float x = rt_moment_value(code & 0x7fu, exp);
    return code & 0x80u ? -x : x;
}
static inline float rt_moment_v_value(uint8_t code, uint32_t exp) { return rt_moment_value(code, exp); }

#endif
