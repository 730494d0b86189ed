/* quant_k_low.c - Q2_K and Q3_K: super-blocks of 256 values in sixteen groups of 16.
 *
 * Owns: both layouts, both ways. */
#include "num/quant_block.h"

/* ---- blocks to values; every product is exact ---- */

void rt_q2_k_to_f32(float *y, const rt_q2_k *x, uint64_t blocks)
{
    for (uint64_t b = 0; b < blocks; b++, x++) {
        float d = rt_quant_load_f16(x->d), dmin = rt_quant_load_f16(x->dmin);
        for (int g = 0; g < 16; g++, y += 16) {
            const uint8_t *q = x->q + g / 8 * 32 + g % 2 * 16;
            int shift = g % 8 / 2 * 2;
            float scale = d * (float)(x->scales[g] & 15), min = dmin * (float)(x->scales[g] >> 4);
            for (int l = 0; l < 16; l++) y[l] = scale * (float)(q[l] >> shift & 3) - min;
        }
    }
}

/* Scale g in 0..63: the low four bits are nibble g / 8 of byte g % 8, the upper two are bit pair g / 4 of byte
 * 8 + g % 4. */
static int scale_q3(const uint8_t s[12], int g)
{
    return (s[g % 8] >> g / 8 * 4 & 15) | (s[8 + g % 4] >> g / 4 * 2 & 3) << 4;
}

void rt_q3_k_to_f32(float *y, const rt_q3_k *x, uint64_t blocks)
{
    for (uint64_t b = 0; b < blocks; b++, x++) {
        float d = rt_quant_load_f16(x->d);
        for (int g = 0; g < 16; g++, y += 16) {
            const uint8_t *q = x->q + g / 8 * 32 + g % 2 * 16, *high = x->high + g % 2 * 16;
            int shift = g % 8 / 2 * 2;
            float scale = d * (float)(scale_q3(x->scales, g) - 32);
            for (int l = 0; l < 16; l++) y[l] = scale * (float)((q[l] >> shift & 3) + (high[l] >> g / 2 & 1) * 4 - 4);
        }
    }
}

/* ---- values to blocks ---- */

/* The low two bits of the integers q + zero. */
static void pack_pairs(uint8_t out[64], const int8_t *q /* (256) */, int zero)
{
    memset(out, 0, 64);
    for (int i = 0; i < RT_QK_BLOCK; i++) {
        int at = i / 128 * 32 + i % 32, shift = i % 128 / 32 * 2;
        out[at] |= (uint8_t)(((q[i] + zero) & 3) << shift);
    }
}

void rt_q2_k_from_f32(rt_q2_k *y, const float *x, uint64_t blocks)
{
    rt_quant_fit_fn fit = rt_quant_fit_for(RT_DTYPE_Q2_K);
    rt_quant_fit f;
    for (uint64_t b = 0; b < blocks; b++, y++, x += RT_QK_BLOCK) {
        bool lost = rt_quant_fit_block(fit, &f, x, RT_QK_BLOCK) == RT_QUANT_LOST;
        rt_quant_store_f16(y->d, lost ? RT_QUANT_NAN : f.d);
        rt_quant_store_f16(y->dmin, lost ? RT_QUANT_NAN : f.m);
        for (int g = 0; g < 16; g++) y->scales[g] = (uint8_t)((f.scale[g] & 15) | (f.min[g] & 15) << 4);
        pack_pairs(y->q, f.q, 0);
    }
}

void rt_q3_k_from_f32(rt_q3_k *y, const float *x, uint64_t blocks)
{
    rt_quant_fit_fn fit = rt_quant_fit_for(RT_DTYPE_Q3_K);
    rt_quant_fit f;
    for (uint64_t b = 0; b < blocks; b++, y++, x += RT_QK_BLOCK) {
        bool lost = rt_quant_fit_block(fit, &f, x, RT_QK_BLOCK) == RT_QUANT_LOST;
        memset(y, 0, sizeof *y);
        rt_quant_store_f16(y->d, lost ? RT_QUANT_NAN : f.d);
        for (int g = 0; g < 16; g++) {
            int scale = f.scale[g] + 32;
            y->scales[g % 8] |= (uint8_t)((scale & 15) << g / 8 * 4);
            y->scales[8 + g % 4] |= (uint8_t)(scale >> 4 << g / 4 * 2);
        }
        pack_pairs(y->q, f.q, 4);
        for (int i = 0; i < RT_QK_BLOCK; i++) y->high[i % 32] |= (uint8_t)(((f.q[i] + 4) >> 2 & 1) << i / 32);
    }
}
