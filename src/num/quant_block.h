/* quant_block.h - what the files of the quantised types share: block layouts, scale rounding, the scale search.
 *
 * Internal to num/. Owns: the structs that name each byte of a block (alignment 1, so any byte may start a block) and
 * the seams between quant.c (dispatch), the formats (quant_0.c, quant_1.c, quant_k.c, quant_k_low.c, quant_iq4.c) and
 * the search (quant_fit.c). */
#ifndef RT_NUM_QUANT_BLOCK_H
#define RT_NUM_QUANT_BLOCK_H

#include "num/quant.h"

enum { RT_Q0_BLOCK = 32, RT_QK_BLOCK = 256 };

typedef struct rt_q8_0 {
    uint8_t d[2]; /* f16 */
    int8_t q[32]; /* value = d * q */
} rt_q8_0;

typedef struct rt_q4_0 {
    uint8_t d[2];  /* f16 */
    uint8_t q[16]; /* low nibbles: values 0..15, high nibbles: values 16..31; value = d * (q - 8) */
} rt_q4_0;

/* Q4_K and Q5_K: eight groups of 32; value = d * scale[group] * q - dmin * min[group]. */
typedef struct rt_q4_k {
    uint8_t d[2], dmin[2]; /* f16 */
    uint8_t scales[12];    /* eight 6-bit (scale, min) pairs, see rt_quant_scale_min */
    uint8_t q[128];        /* 32 bytes per two groups: low nibbles the first, high nibbles the second */
} rt_q4_k;

typedef struct rt_q5_k {
    uint8_t d[2], dmin[2];
    uint8_t scales[12];
    uint8_t high[32]; /* bit g of byte l: fifth bit of value l of group g */
    uint8_t q[128];   /* as in Q4_K */
} rt_q5_k;

/* Sixteen groups of 16; value = d * scale[group] * (q - 32). */
typedef struct rt_q6_k {
    uint8_t low[128]; /* per half of 128 values: 64 bytes, nibbles of values l, l+32 (low) and l+64, l+96 (high) */
    uint8_t high[64]; /* per half: 32 bytes, bit pairs 0, 2, 4, 6 of values l, l+32, l+64, l+96 */
    int8_t scales[16];
    uint8_t d[2]; /* f16 */
} rt_q6_k;

typedef struct rt_q4_1 {
    uint8_t d[2], m[2]; /* f16 */
    uint8_t q[16];      /* as in Q4_0; value = d * q + m */
} rt_q4_1;

typedef struct rt_q5_0 {
    uint8_t d[2];    /* f16 */
    uint8_t high[4]; /* bit i of the little-endian word: fifth bit of value i */
    uint8_t q[16];   /* as in Q4_0; value = d * (q - 16) */
} rt_q5_0;

typedef struct rt_q5_1 {
    uint8_t d[2], m[2];
    uint8_t high[4]; /* as in Q5_0 */
    uint8_t q[16];   /* value = d * q + m */
} rt_q5_1;

/* Sixteen groups of 16; value = d * scale[group] * q - dmin * min[group]. */
typedef struct rt_q2_k {
    uint8_t scales[16];    /* low nibble: scale, high nibble: min */
    uint8_t q[64];         /* per half of 128 values: 32 bytes, bit pairs 0, 2, 4, 6 of values l, l+32, l+64, l+96 */
    uint8_t d[2], dmin[2]; /* f16 */
} rt_q2_k;

/* Sixteen groups of 16; value = d * (scale[group] - 32) * (q - 4). */
typedef struct rt_q3_k {
    uint8_t high[32];   /* bit p of byte l: third bit of value 32 * p + l */
    uint8_t q[64];      /* the two others, as in Q2_K */
    uint8_t scales[12]; /* sixteen 6-bit scales, see scale_q3 of quant_k_low.c */
    uint8_t d[2];       /* f16 */
} rt_q3_k;

typedef struct rt_iq4_nl {
    uint8_t d[2];  /* f16 */
    uint8_t q[16]; /* as in Q4_0; value = d * rt_iq4_values[q] */
} rt_iq4_nl;

/* Eight groups of 32; value = d * (scale[group] - 32) * rt_iq4_values[q]. */
typedef struct rt_iq4_xs {
    uint8_t d[2];          /* f16 */
    uint8_t scale_high[2]; /* bits 2 g and 2 g + 1 of the little-endian word: the upper two of six bits of group g */
    uint8_t scale_low[4];  /* nibble g: the lower four */
    uint8_t q[128];        /* per group 16 bytes as in Q4_0 */
} rt_iq4_xs;

_Static_assert(sizeof(rt_q4_1) == 20 && sizeof(rt_q5_0) == 22 && sizeof(rt_q5_1) == 24, "bytes without padding");
_Static_assert(sizeof(rt_q2_k) == 84 && sizeof(rt_q3_k) == 110, "bytes without padding");
_Static_assert(sizeof(rt_iq4_nl) == 18 && sizeof(rt_iq4_xs) == 136, "bytes without padding");
_Static_assert(sizeof(rt_q8_0) == 34 && sizeof(rt_q4_0) == 18, "Q8_0 and Q4_0 are bytes without padding");
_Static_assert(sizeof(rt_q4_k) == 144 && sizeof(rt_q5_k) == 176 && sizeof(rt_q6_k) == 210, "so are the K types");

/* ---- the formats: `blocks` blocks each way ---- */
void rt_q8_0_to_f32(float *y, const rt_q8_0 *x, uint64_t blocks);
void rt_q4_0_to_f32(float *y, const rt_q4_0 *x, uint64_t blocks);
void rt_q4_k_to_f32(float *y, const rt_q4_k *x, uint64_t blocks);
void rt_q5_k_to_f32(float *y, const rt_q5_k *x, uint64_t blocks);
void rt_q6_k_to_f32(float *y, const rt_q6_k *x, uint64_t blocks);
void rt_q4_1_to_f32(float *y, const rt_q4_1 *x, uint64_t blocks);
void rt_q5_0_to_f32(float *y, const rt_q5_0 *x, uint64_t blocks);
void rt_q5_1_to_f32(float *y, const rt_q5_1 *x, uint64_t blocks);
void rt_q2_k_to_f32(float *y, const rt_q2_k *x, uint64_t blocks);
void rt_q3_k_to_f32(float *y, const rt_q3_k *x, uint64_t blocks);
void rt_iq4_nl_to_f32(float *y, const rt_iq4_nl *x, uint64_t blocks);
void rt_iq4_xs_to_f32(float *y, const rt_iq4_xs *x, uint64_t blocks);
void rt_q8_0_from_f32(rt_q8_0 *y, const float *x, uint64_t blocks);
void rt_q4_0_from_f32(rt_q4_0 *y, const float *x, uint64_t blocks);
void rt_q4_k_from_f32(rt_q4_k *y, const float *x, uint64_t blocks);
void rt_q5_k_from_f32(rt_q5_k *y, const float *x, uint64_t blocks);
void rt_q6_k_from_f32(rt_q6_k *y, const float *x, uint64_t blocks);
void rt_q4_1_from_f32(rt_q4_1 *y, const float *x, uint64_t blocks);
void rt_q5_0_from_f32(rt_q5_0 *y, const float *x, uint64_t blocks);
void rt_q5_1_from_f32(rt_q5_1 *y, const float *x, uint64_t blocks);
void rt_q2_k_from_f32(rt_q2_k *y, const float *x, uint64_t blocks);
void rt_q3_k_from_f32(rt_q3_k *y, const float *x, uint64_t blocks);
void rt_iq4_nl_from_f32(rt_iq4_nl *y, const float *x, uint64_t blocks);
void rt_iq4_xs_from_f32(rt_iq4_xs *y, const float *x, uint64_t blocks);
/* The sixteen places of an IQ4 integer on the value axis, rising. */
extern const int8_t rt_iq4_values[16];

/* ---- quant.c: scales ---- */
static inline float rt_quant_load_f16(const uint8_t b[2]) { return rt_f16_to_f32((uint16_t)(b[0] | b[1] << 8)); }
static inline void rt_quant_store_f16(uint8_t b[2], uint16_t h)
{
    b[0] = (uint8_t)h;
    b[1] = (uint8_t)(h >> 8);
}

/* What the largest magnitude of a block says about it. */
typedef enum rt_quant_range {
    RT_QUANT_FINE,
    RT_QUANT_ZERO, /* at most 2^-25: every value a block can hold is a multiple of 2^-24, so zero is the nearest */
    RT_QUANT_LOST, /* not finite, or beyond anything that a block can hold: the scales become NaN */
} rt_quant_range;

/* n is a multiple of 4. */
rt_quant_range rt_quant_range_of(const float *x /* (n) */, int n, float *magnitude);
/* The f16 scale for which `reach` >= 0 comes to `steps` steps: the nearest one, or the next larger one where the
 * nearest (a subnormal) would leave reach more than half a step outside. Infinity when there is none. */
uint16_t rt_quant_scale_for(float reach, float steps);
#define RT_QUANT_NAN 0x7e00u /* f16 */
#define RT_QUANT_INF 0x7c00u

/* ---- quant_fit.c: the search for scales ---- */
enum { RT_QUANT_GROUP = 32 }; /* the longest group */

/* What a block is to store, in the order of its values. */
typedef struct rt_quant_fit {
    uint16_t d, m;             /* f16: scale, and offset or scale of the mins */
    int8_t scale[16], min[16]; /* the factors of the groups of a super-block, signed where the type has signed ones */
    int8_t q[RT_QK_BLOCK];     /* the integers; for IQ4 the places that they stand for */
} rt_quant_fit;

/* false: no finite scale will do. */
typedef bool (*rt_quant_fit_fn)(rt_quant_fit *y, const float *x /* one block, RT_QUANT_FINE */);
extern const rt_quant_fit_fn rt_quant_fits_plain[RT_DTYPE_COUNT];
#ifdef __x86_64__
extern const rt_quant_fit_fn rt_quant_fits_avx2[RT_DTYPE_COUNT];
#endif
/* The search of d for this machine: the same results everywhere, faster here or there. */
rt_quant_fit_fn rt_quant_fit_for(rt_dtype d);
/* Fits one block of n values. Unless it is FINE y becomes all zero. */
rt_quant_range rt_quant_fit_block(rt_quant_fit_fn fit, rt_quant_fit *y, const float *x /* (n) */, int n);

#endif
