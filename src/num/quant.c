/* quant.c - quantised rows by dtype, and the rounding of a block's f16 scale.
 *
 * Owns: the dispatch of quant.h, what counts as a lost block, and how a scale becomes f16. The formats themselves are
 * in quant_0.c, quant_1.c, quant_k.c, quant_k_low.c and quant_iq4.c. A dtype that is not quantised is a fault of the
 * caller: the output is left as it was. */
#include "num/quant_block.h"

void rt_quant_to_f32(float *y, const void *x, rt_dtype d, uint64_t n)
{
    uint64_t blocks = n / rt_dtype_table[d].block_elems;
    switch (d) {
    case RT_DTYPE_Q8_0: rt_q8_0_to_f32(y, x, blocks); break;
    case RT_DTYPE_Q4_0: rt_q4_0_to_f32(y, x, blocks); break;
    case RT_DTYPE_Q4_K: rt_q4_k_to_f32(y, x, blocks); break;
    case RT_DTYPE_Q5_K: rt_q5_k_to_f32(y, x, blocks); break;
    case RT_DTYPE_Q6_K: rt_q6_k_to_f32(y, x, blocks); break;
    case RT_DTYPE_Q4_1: rt_q4_1_to_f32(y, x, blocks); break;
    case RT_DTYPE_Q5_0: rt_q5_0_to_f32(y, x, blocks); break;
    case RT_DTYPE_Q5_1: rt_q5_1_to_f32(y, x, blocks); break;
    case RT_DTYPE_Q2_K: rt_q2_k_to_f32(y, x, blocks); break;
    case RT_DTYPE_Q3_K: rt_q3_k_to_f32(y, x, blocks); break;
    case RT_DTYPE_IQ4_NL: rt_iq4_nl_to_f32(y, x, blocks); break;
    case RT_DTYPE_IQ4_XS: rt_iq4_xs_to_f32(y, x, blocks); break;
    default: break;
    }
}

void rt_quant_from_f32(void *y, const float *x, rt_dtype d, uint64_t n)
{
    uint64_t blocks = n / rt_dtype_table[d].block_elems;
    switch (d) {
    case RT_DTYPE_Q8_0: rt_q8_0_from_f32(y, x, blocks); break;
    case RT_DTYPE_Q4_0: rt_q4_0_from_f32(y, x, blocks); break;
    case RT_DTYPE_Q4_K: rt_q4_k_from_f32(y, x, blocks); break;
    case RT_DTYPE_Q5_K: rt_q5_k_from_f32(y, x, blocks); break;
    case RT_DTYPE_Q6_K: rt_q6_k_from_f32(y, x, blocks); break;
    case RT_DTYPE_Q4_1: rt_q4_1_from_f32(y, x, blocks); break;
    case RT_DTYPE_Q5_0: rt_q5_0_from_f32(y, x, blocks); break;
    case RT_DTYPE_Q5_1: rt_q5_1_from_f32(y, x, blocks); break;
    case RT_DTYPE_Q2_K: rt_q2_k_from_f32(y, x, blocks); break;
    case RT_DTYPE_Q3_K: rt_q3_k_from_f32(y, x, blocks); break;
    case RT_DTYPE_IQ4_NL: rt_iq4_nl_from_f32(y, x, blocks); break;
    case RT_DTYPE_IQ4_XS: rt_iq4_xs_from_f32(y, x, blocks); break;
    default: break;
    }
}

rt_quant_range rt_quant_range_of(const float *x, int n, float *magnitude)
{
    /* Magnitudes compare like their bits, and there a NaN is larger than everything. */
    typedef int32_t int4 __attribute__((vector_size(16)));
    int4 most = { 0 };
    for (int i = 0; i < n; i += 4) {
        int4 v;
        memcpy(&v, x + i, sizeof v);
        v &= 0x7fffffff;
        int4 more = v > most;
        most = (v & more) | (most & ~more);
    }
    int32_t m01 = most[0] > most[1] ? most[0] : most[1], m23 = most[2] > most[3] ? most[2] : most[3];
    int32_t m = m01 > m23 ? m01 : m23;
    if (m <= 0x33000000) return RT_QUANT_ZERO; /* 2^-25 */
    if (m >= 0x4e800000) return RT_QUANT_LOST; /* 2^30; the widest type, Q6_K, ends at 65504 * 128 * 32 < 2^28.01 */
    *magnitude = rt_f32_from_bits((uint32_t)m);
    return RT_QUANT_FINE;
}

uint16_t rt_quant_scale_for(float reach, float steps)
{
    uint16_t h = rt_f16_from_f32(reach / steps);
    if (h < RT_QUANT_INF && reach > (steps + 0.5f) * rt_f16_to_f32(h)) h++;
    return h;
}
