/* quant.h - the quantised block layouts (GGML's), as pure functions over rows.
 *
 * Owns: the byte layout of every quantised dtype, exact dequantisation, and a quantiser for each. Tuned are those that
 * models are written in: Q8_0, Q5_0, Q5_1, Q4_K, Q5_K, Q6_K (docs/quantisation.md compares them with another one).
 * Q4_1, Q2_K, Q3_K, IQ4_NL and IQ4_XS share their search; Q4_0 is plain rounding. Everything is little-endian and
 * deterministic; n is a multiple of the dtype's block. */
#ifndef RT_NUM_QUANT_H
#define RT_NUM_QUANT_H

#include "num/dtype.h"

/* y (n) f32 = values of the blocks x. Each product is rounded as f32 arithmetic without contraction rounds it. */
void rt_quant_to_f32(float *y, const void *x, rt_dtype d, uint64_t n);
/* y = blocks for the values x (n) f32. Finite input only: a block with a non-finite value yields NaN scales, so that
 * the fault stays visible. */
void rt_quant_from_f32(void *y, const float *x, rt_dtype d, uint64_t n);
/* The 6-bit (scale, min) pair j in 0..7 of a Q4_K or Q5_K super-block's 12 bytes. */
void rt_quant_scale_min(const uint8_t s[12], int j, uint8_t *scale, uint8_t *min);

#endif
