/* tolerance.c - the table of tolerance.h.
 *
 * A limit is an estimate from the roundings behind an output, not a bound that was proved. The figure after a reason is
 * the largest error seen over all cases on avx512, avx2 and generic kernels; limits that a first estimate had too low
 * (rmsnorm, matmul, dg of swiglu) were set after measuring, to between 1.4 and 2 times that figure. */
#include "verify/tolerance.h"

#include <math.h>
#include <stddef.h>

static const rt_tolerance table[] = {
#define T(op, slot, scale, limit, rms, serial, reason)                                                                 \
    {                                                                                                                  \
        RT_OP_##op, slot, RT_SCALE_##scale, limit, rms, serial, reason                                                 \
    }
    T(EMBED_FWD, RT_EMBED_Y, SELF, 0, 0, 0, "the stored value (of a block: exact in f32), rounded once"),
    T(EMBED_BWD, RT_EMBED_DTABLE, TERMS, 4, 0.5, 0,
      "a sum in f32 in order of tokens: each addition rounds a part of the terms' sum; 1.5"),
    T(RMSNORM_FWD, RT_RMS_Y, SELF, 8, 2, 1,
      "1/rms: a sum of squares over D in as few as 4 lanes, root, quotient; then two products; 3.8"),
    T(RMSNORM_FWD, RT_RMS_SCALE, EXACT, 0, 0, 0,
      "as the codes in y: the bits of quant_rows, run on y as A on the same device"),
    T(RMSNORM_BWD, RT_RMSB_DX, TERMS, 16, 2, 1.5,
      "the third power of 1/rms has three times its error, and a mean; 9.3"),
    T(RMSNORM_BWD, RT_RMSB_DW, TERMS, 12, 3, 1, "1/rms of each row, and a sum over rows in chunks; 8.3"),
    T(ADD_RMSNORM_FWD, RT_ARMS_Y, SELF, 8, 2, 1, "as rmsnorm_fwd, after one addition in f32; 5.2"),
    T(ADD_RMSNORM_FWD, RT_ARMS_SCALE, EXACT, 0, 0, 0, "as rmsnorm_fwd"),
    T(ADD_RMSNORM_FWD, RT_ARMS_H, SELF, 1, 0.5, 0, "one addition in f32, then the rounding to h; 0"),
    T(ADD_RMSNORM_BWD, RT_RMSB_DX, TERMS, 16, 2, 1.5, "as rmsnorm_bwd, and one addition; 5.9"),
    T(ADD_RMSNORM_BWD, RT_RMSB_DW, TERMS, 12, 3, 1, "as rmsnorm_bwd; 8.3"),
    T(MATMUL, RT_MM_OUT, TERMS, 8, 0.6, 0,
      "a sum over K of which every part rounds: 0.4 on average however long it is, because the terms are bounded by "
      "|a| |b|; a million elements reach ten times that; 4.7"),
    T(BIAS_GRAD, RT_BIASG_DB, TERMS, 4, 0.5, 0.2, "a sum over rows in blocks of 64; 1.3"),
    T(ROPE_FWD, RT_ROPE_Y, TERMS, 4, 0.6, 1,
      "cos and sin below 2 units, two products and an addition; the angle itself costs nothing; 1.7"),
    T(ROPE_BWD, RT_ROPE_Y, TERMS, 4, 0.6, 1, "as rope_fwd; 1.9"),
    T(ATTN_FWD, RT_ATTN_O, TERMS, 4, 0.5, 0,
      "scores are sums over D, whose error reaches p through the exponential (it is in the terms); a sum over keys; "
      "1.2"),
    T(ATTN_FWD, RT_ATTN_LSE, TERMS, 4, 1, 0, "scores as above, a sum of exponentials, a logarithm; 2.1"),
    T(ATTN_BWD, RT_ATTNB_DQ, TERMS, 2, 0.3, 0, "p and dp from sums over D, their product, a sum over keys; 0.4"),
    T(ATTN_BWD, RT_ATTNB_DK, TERMS, 2, 0.3, 0, "as dq, a sum over queries; 0.4"),
    T(ATTN_BWD, RT_ATTNB_DV, TERMS, 4, 1, 0, "p, then a sum over queries; 2.2"),
    T(ATTN_DECODE, RT_DEC_O, TERMS, 4, 0.5, 0, "as attn_fwd; 0.9"),
    T(SWIGLU_FWD, RT_GLU_Y, SELF, 4, 1, 0, "an exponential below 2 units, an addition, a quotient, two products; 2.5"),
    T(SWIGLU_FWD, RT_GLU_SCALE, EXACT, 0, 0, 0, "as rmsnorm_fwd"),
    T(SWIGLU_BWD, RT_GLUB_DG, TERMS, 6, 1, 0, "as swiglu_fwd, and 1 + g (1 - s); 3.5"),
    T(SWIGLU_BWD, RT_GLUB_DU, SELF, 4, 1, 0, "as swiglu_fwd; 2.5"),
    T(SWIGLU_BWD, RT_GLUB_Y, SELF, 4, 1, 0, "as swiglu_fwd, whose bits it has; 2.5"),
    T(ADD, RT_ROWS_Y, SELF, 1, 0.5, 0, "one addition in f32, then the rounding to y; 0"),
    T(SCALE, RT_ROWS_Y, SELF, 2, 2, 0, "alpha s, times x; one huge element can be all of the sum of squares; 0.5"),
    T(CAST, RT_ROWS_Y, SELF, 0, 0, 0, "the value, rounded once"),
    T(COPY, RT_ROWS_Y, SELF, 0, 0, 0, "the value itself"),
    T(FILL, RT_ROWS_Y, SELF, 0, 0, 0, "the value, rounded once"),
    T(DEQUANT, RT_ROWS_Y, SELF, 0, 0, 0, "the values of a block are exact in f32; rounded once"),
    T(QUANT, RT_ROWS_Y, EXACT, 0, 0, 0, "one quantiser makes the blocks of every backend"),
    T(KD_LOSS, RT_KD_LOGITS, TERMS, 4, 0.5, 2,
      "probabilities with the relative error of their logarithms (in the terms), divided by their sums, added up; 1.7"),
    T(KD_LOSS, RT_KD_SUMS, TERMS, 2, 0.5, 1, "the positions' figures, added up in order; 0.5"),
    T(KD_LOSS, RT_KD_CE, TERMS, 3, 0.5, 1, "a logarithm of a sum, and a difference of logits; 1.9"),
    T(KD_LOSS, RT_KD_DIV, TERMS, 3, 0.6, 1, "a sum over outcomes of probabilities times logarithms; 1.6"),
    T(KD_LOSS, RT_KD_TOP1, TERMS, 0, 0, 0, "0 or 1, by exact comparison of stored logits"),
    T(KD_LOSS, RT_KD_FAULT, EXACT, 0, 0, 0, "the first row at fault, whoever found it"),
    T(ADAMW, RT_ADAM_PARAM, TERMS, 4, 0.5, 0.3, "the moments, a root, two quotients, the update, decay; 3.2"),
    T(ADAMW, RT_ADAM_MASTER, TERMS, 4, 0.5, 0.3, "as param; 3.2"),
    T(ADAMW, RT_ADAM_M, TERMS, 3, 0.5, 0,
      "three products and an addition; narrower than f32, the rounding of what is within that; 1.5"),
    T(ADAMW, RT_ADAM_V, SELF, 4, 0.5, 0,
      "four products and an addition; narrower than f32, the rounding of what is within that; 2.5"),
    T(ADAMW, RT_ADAM_EXPS, EXACT, 0, 0, 0, "of the largest of a block, which is within the limits of m and v"),
    T(NORM_SQ, RT_NSQ_OUT, SELF, 2, 0.5, 2, "f32 over 32 elements of a lane, double above that; 0.2"),
    T(NORM_SQ, RT_NSQ_FAULT, EXACT, 0, 0, 0, "the first row that is not finite"),
    T(CLIP, RT_CLIP_SCALE, SELF, 3, 1, 0, "a root, an addition, a quotient; 0"),
    T(CLIP, RT_CLIP_NORM, SELF, 1, 0.5, 0, "a root; 0"),
    T(CLIP, RT_CLIP_FAULT, EXACT, 0, 0, 0, "set when the norm is not finite"),
    T(TOPK, RT_TOPK_ID, EXACT, 0, 0, 0, "stored logits, compared exactly; ties by lower id"),
    T(TOPK, RT_TOPK_LOGP, TERMS, 3, 0.5, 0, "a difference of logits, less the logarithm of a sum; 0.2"),
    T(TOPK, RT_TOPK_REST, TERMS, 3, 0.5, 0, "a sum of probabilities with the relative error of their logarithms; 0.3"),
    T(SAMPLE, RT_SAMPLE_ID, EXACT, 0, 0, 0.5, "one random number, exact in f32, against shares added up in rank order"),
    T(SAMPLE, RT_SAMPLE_LOGP, TERMS, 3, 0.5, 0, "as of topk"),
    T(SAMPLE, RT_SAMPLE_SEEN, EXACT, 0, 0, 0, "the bit of the id"),
    T(DROPOUT, RT_DROP_Y, TERMS, 3, 1.5, 0,
      "1 / (1 - p) rounded, one error for all elements; times x; one addition; which are kept is exact; 1.8"),
    T(QUANT_ROWS, RT_QROWS_Y, EXACT, 0, 0, 0, "a quotient by a power of two is exact; rounded once"),
    T(QUANT_ROWS, RT_QROWS_SCALE, SELF, 0, 0, 0, "a power of two, by exact comparison"),
    T(MATMUL_SCALED, RT_MMS_OUT, TERMS, 8, 0.6, 0,
      "as matmul, and two products by scales; where tensor cores multiply, the terms have what those cut off; 2.4"),
    T(MATMUL_INT8, RT_MM_OUT, TERMS, 6, 0.6, 0,
      "whole numbers within a block, exact; sums over blocks, of which an offset's part can be larger than the terms; "
      "3.2"),
    T(DRAW, RT_DRAW_ID, EXACT, 0, 0, 0, "whole numbers from the f32 difference of stored logits on (num/draw.h)"),
    T(DRAW, RT_DRAW_LOGP, SELF, 2, 1, 0, "a logarithm of a quotient of whole numbers"),
    T(DRAW, RT_DRAW_ENTROPY, TERMS, 3, 0.5, 0.5, "a logarithm of a sum, and a sum in f32 over the columns of a lane"),
    T(MIX_LOGITS, RT_MIX_Y, TERMS, 2, 0.5, 0.05,
      "differences of logits, T times the logarithm of a sum, an exponential and a logarithm below 2 units"),
    T(ALL_REDUCE, RT_REDUCE_X, SELF, 0, 0, 0, "of one rank, the value itself"),
    T(ALL_REDUCE, RT_REDUCE_FAULT, EXACT, 0, 0, 0, "the record of the first rank that has one"),
    T(REDUCE_SCATTER, RT_SCATTER_OWN, SELF, 1, 0, 0, "of one rank, the value itself, or one sum"),
    T(ALL_GATHER, RT_GATHER_X, SELF, 0, 0, 0, "of one rank, the values themselves"),
#undef T
};

const rt_tolerance *rt_tolerance_table(uint32_t *n)
{
    *n = sizeof table / sizeof *table;
    return table;
}

const rt_tolerance *rt_tolerance_find(rt_op_kind op, uint32_t slot)
{
    for (size_t i = 0; i < sizeof table / sizeof *table; i++)
        if (table[i].op == op && table[i].slot == slot) return &table[i];
    return NULL;
}

double rt_e4m3_cut_off(double lengths, double most, uint32_t K)
{
    enum { ADDENDS = RT_E4M3_MMA_K + 1 };
    double chunk = K < RT_E4M3_CHUNK ? K : RT_E4M3_CHUNK, mmas = ceil((double)K / RT_E4M3_MMA_K);
    double partial = 1.5 * sqrt(chunk) * lengths / K, largest = partial > most ? partial : most;
    double rms = sqrt(ADDENDS / 3.0 * mmas) * RT_E4M3_MMA_UNIT * largest;
    return rms / (rt_tolerance_find(RT_OP_MATMUL_SCALED, RT_MMS_OUT)->rms * RT_ROUNDING_UNIT);
}

double rt_weight_rounding(rt_op_kind op, uint32_t slot, rt_dtype stored, double square)
{
    const rt_tolerance *t = rt_tolerance_find(op, slot);
    const double bits = stored == RT_DTYPE_BF16 ? 8 : 11, rms = RT_WEIGHT_ROUNDING * exp2(-bits) * sqrt(square);
    return fmax(rms / t->rms, 6 * rms / t->limit) / RT_ROUNDING_UNIT;
}

const char *rt_scale_text(rt_scale s)
{
    static const char *const text[] = { "exact", "|want|", "sum of |terms|" };
    return text[s];
}
