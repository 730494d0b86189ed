/* tolerance.h - how far an output may be from the double-precision one: one entry per op and output, with its reason.
 *
 * |got - want| <= half a unit in the last place of the output's dtype at want (the best that any rounding can do)
 *                 + limit u scale,   u = 2^-24, the rounding unit of the f32 arithmetic behind every output.
 *                 + 2^-124 unless limit is 0: f32 arithmetic may take what is below its smallest normal number for 0.
 * And over a whole output, so that many small errors of one kind cannot hide below the limit of one:
 * sqrt(sum (got - want)^2) <= sqrt(sum (best rounding error)^2) + (rms + limit / sqrt(n)) u sqrt(sum scale^2),
 * where limit / sqrt(n) is what chance can do in an output of n elements.
 * The dtype of the output enters through the first term alone: a bf16 output is judged by the best bf16 error. */
#ifndef RT_VERIFY_TOLERANCE_H
#define RT_VERIFY_TOLERANCE_H

#include "op/op.h"

typedef enum rt_scale {
    RT_SCALE_EXACT, /* the very bits: integers, blocks, copies */
    RT_SCALE_SELF,  /* |want| */
    RT_SCALE_TERMS  /* the sum of the magnitudes that were added up to it, from the op's formula */
} rt_scale;

typedef struct rt_tolerance {
    rt_op_kind op;
    uint32_t slot;
    rt_scale scale;
    double limit, rms; /* in units of u scale */
    double serial; /* `ref` in float does everything in float and adds up one by one: for it, limit and rms are larger
                      by this times the root of the case's serial terms (op_case.h) */
    const char *reason;
} rt_tolerance;

/* Added to the rms of products of 16-bit operands on a device that is not the processor: its tensor cores cut sums off
 * instead of rounding them, so errors have a direction; 0.62 in all was seen on an H200 at K 2560. */
#define RT_CUT_OFF_RMS 0.3

/* What tensor cores lose of a GEMM of e4m3 codes, on a device that is not the processor. As Hopper's were measured in
 * public (DeepSeek-V3's report, arXiv 2412.19437, section 3.5.2: about 14 bits; later ones call the same an accumulator
 * of 22 bits, 1 + 8 + 13): an instruction aligns 32 products and the sum so far to the largest of these 33 addends and
 * cuts each off 13 bits below it. A cut loses less than 2^-13 of the largest, 2^-13 / sqrt(3) of it in the root mean
 * square, and the signs of the addends are those of the data, so that an instruction loses sqrt(33 / 3) 2^-13 and K /
 * 32 of them the root of their number times that. The largest is a product, or the sum so far: of at most 128 products,
 * because without fast accumulation the library adds the tensor cores' sums up in f32 that often (CUTLASS does; cuBLAS
 * does not say), which is |a| |b| sqrt(128) / K for products by chance, half as much again counted here. With fast
 * accumulation the sum so far is of all K and the cuts of it have one direction, so the loss grows with K: 1 % at K
 * 8960 where this is 0.1 %, and a bf16 output rounds by 0.1 %. So it is off.
 * As a term (tolerance.c) that the rms of matmul_scaled allows just that for: lengths |a| |b|, most: the product of the
 * largest magnitudes of both rows. */
#define RT_E4M3_MMA_K 32
#define RT_E4M3_CHUNK 128
#define RT_E4M3_MMA_UNIT 0x1p-13
double rt_e4m3_cut_off(double lengths, double most, uint32_t K);
/* What attention loses where an op allows its weights (p, ds) to be rounded to the 16 bits of its operands before they
 * are multiplied, on a device that is not the processor. A weight has `bits` significant bits then: its error lies
 * anywhere within half a unit of its last place, 2^-bits / sqrt(3) of the beginning of its binade in the root mean
 * square, and magnitudes lie anywhere in their binades (the mean of 1 / x^2 over the logarithm of x from 1 to 2 is
 * 3 / (8 ln 2)): 0.425 2^-bits of the weight. Errors of different weights have nothing to do with one another, so a sum
 * of weights times x is off by that times the root of the sum of their squares, `square`. As a term that the rms of the
 * slot allows just that for, and its limit six times as much. The sum of weights that o is divided by is of weights
 * that are not rounded. */
#define RT_WEIGHT_ROUNDING 0.425
double rt_weight_rounding(rt_op_kind op, uint32_t slot, rt_dtype stored, double square);
#define RT_ROUNDING_UNIT 0x1p-24
#define RT_UNDERFLOW 0x1p-124

const rt_tolerance *rt_tolerance_table(uint32_t *n);
/* Null when the slot is no output. */
const rt_tolerance *rt_tolerance_find(rt_op_kind op, uint32_t slot);
/* "|want|", "sum of |terms|" */
const char *rt_scale_text(rt_scale s);

#endif
