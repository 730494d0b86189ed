/* quant_block.h - what the files of the quantised types share: block layouts, scale rounding, the scale search.
 *
 * Internal to num/. Owns: the structs that name each byte of a block (alignment 1, so any byte may start a block) and
 * the seams between quant.c (dispatch), quant_0.c and quant_k.c (formats) and quant_fit.c (search). */
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

_Static_assert(sizeof(rt_q8_0) == 34 && sizeof(rt_q4_0) == 18, "Q8_0 and Q4_0 are bytes without padding");
_Static_assert(sizeof(rt_q4_k) == 144 && sizeof(rt_q5_k) == 176 && sizeof(rt_q6_k) == 210, "so are the K types");

/* ---- quant_0.c, quant_k.c: `blocks` blocks each way ---- */
void rt_q8_0_to_f32(float *y, const rt_q8_0 *x, uint64_t blocks);
void rt_q4_0_to_f32(float *y, const rt_q4_0 *x, uint64_t blocks);
void rt_q4_k_to_f32(float *y, const rt_q4_k *x, uint64_t blocks);
void rt_q5_k_to_f32(float *y, const rt_q5_k *x, uint64_t blocks);
void rt_q6_k_to_f32(float *y, const rt_q6_k *x, uint64_t blocks);
void rt_q8_0_from_f32(rt_q8_0 *y, const float *x, uint64_t blocks);
void rt_q4_0_from_f32(rt_q4_0 *y, const float *x, uint64_t blocks);
void rt_q4_k_from_f32(rt_q4_k *y, const float *x, uint64_t blocks);
void rt_q5_k_from_f32(rt_q5_k *y, const float *x, uint64_t blocks);
void rt_q6_k_from_f32(rt_q6_k *y, const float *x, uint64_t blocks);

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

/* Also gives the value of largest magnitude (the first of equals) when the answer is RT_QUANT_FINE. */
rt_quant_range rt_quant_range_of(const float *x /* (n) */, int n, float *largest);
/* The f16 scale for which `reach` >= 0 comes to `steps` steps: the nearest one, or the next larger one where the
 * nearest (a subnormal) would leave reach more than half a step outside. Infinity when there is none. */
uint16_t rt_quant_scale_for(float reach, float steps);
#define RT_QUANT_NAN 0x7e00u /* f16 */
#define RT_QUANT_INF 0x7c00u

/* ---- quant_fit.c: the search for a group's scale ---- */
enum { RT_QUANT_GROUP = 32 }; /* the longest group */

typedef struct rt_quant_group {
    int n;                    /* 16 or 32 */
    float x[RT_QUANT_GROUP];  /* the values */
    float w[RT_QUANT_GROUP];  /* their importance, > 0 */
    float wx[RT_QUANT_GROUP]; /* w * x */
    float sum_w, sum_wx, sum_wxx;
} rt_quant_group;

void rt_quant_group_init(rt_quant_group *g, const float *x /* (n) */, int n);
/* x ~ scale * q - min with q in 0..top, scale >= 0, min >= 0. */
void rt_quant_fit_affine(const rt_quant_group *g, int top, float *scale, float *min);
/* x ~ scale * q with q in -half..half-1; scale of either sign. */
float rt_quant_fit_scale(const rt_quant_group *g, int half);
/* Weighted squared error of scale * q - min when every q in bottom..top is the best one. */
float rt_quant_error(const rt_quant_group *g, float scale, float min, int bottom, int top);
/* Those q. */
void rt_quant_integers(int8_t *q /* (n) */, const rt_quant_group *g, float scale, float min, int bottom, int top);

#endif
