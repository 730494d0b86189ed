/* quant_1.c - Q4_1, Q5_0 and Q5_1: 32 values, one f16 scale, and an f16 offset or a fifth bit or both.
 *
 * Owns: the three layouts, both ways. */
#include "num/quant_block.h"

static uint32_t load_word(const uint8_t b[4])
{
    return b[0] | (uint32_t)b[1] << 8 | (uint32_t)b[2] << 16 | (uint32_t)b[3] << 24;
}

/* ---- blocks to values; the products have at most 16 bits and are exact ---- */

void rt_q4_1_to_f32(float *y, const rt_q4_1 *x, uint64_t blocks)
{
    for (uint64_t b = 0; b < blocks; b++, x++, y += RT_Q0_BLOCK) {
        float d = rt_quant_load_f16(x->d), m = rt_quant_load_f16(x->m);
        for (int i = 0; i < 16; i++) y[i] = d * (float)(x->q[i] & 15) + m;
        for (int i = 0; i < 16; i++) y[i + 16] = d * (float)(x->q[i] >> 4) + m;
    }
}

void rt_q5_0_to_f32(float *y, const rt_q5_0 *x, uint64_t blocks)
{
    for (uint64_t b = 0; b < blocks; b++, x++, y += RT_Q0_BLOCK) {
        float d = rt_quant_load_f16(x->d);
        uint32_t high = load_word(x->high);
        for (int i = 0; i < 16; i++) y[i] = d * (float)((int)((x->q[i] & 15) | (high >> i & 1) << 4) - 16);
        for (int i = 0; i < 16; i++) y[i + 16] = d * (float)((int)((x->q[i] >> 4) | (high >> (i + 16) & 1) << 4) - 16);
    }
}

void rt_q5_1_to_f32(float *y, const rt_q5_1 *x, uint64_t blocks)
{
    for (uint64_t b = 0; b < blocks; b++, x++, y += RT_Q0_BLOCK) {
        float d = rt_quant_load_f16(x->d), m = rt_quant_load_f16(x->m);
        uint32_t high = load_word(x->high);
        for (int i = 0; i < 16; i++) y[i] = d * (float)(int)((x->q[i] & 15) | (high >> i & 1) << 4) + m;
        for (int i = 0; i < 16; i++) y[i + 16] = d * (float)(int)((x->q[i] >> 4) | (high >> (i + 16) & 1) << 4) + m;
    }
}

/* ---- values to blocks ---- */

static void pack_nibbles(uint8_t out[16], const int8_t q[32], int zero)
{
    for (int i = 0; i < 16; i++) out[i] = (uint8_t)(((q[i] + zero) & 15) | ((q[i + 16] + zero) & 15) << 4);
}

static void pack_fifth(uint8_t out[4], const int8_t q[32], int zero)
{
    for (int k = 0; k < 4; k++) {
        unsigned byte = 0;
        for (int i = 0; i < 8; i++) byte |= ((unsigned)(q[8 * k + i] + zero) >> 4 & 1) << i;
        out[k] = (uint8_t)byte;
    }
}

void rt_q4_1_from_f32(rt_q4_1 *y, const float *x, uint64_t blocks)
{
    rt_quant_fit_fn fit = rt_quant_fit_for(RT_DTYPE_Q4_1);
    rt_quant_fit f;
    for (uint64_t b = 0; b < blocks; b++, y++, x += RT_Q0_BLOCK) {
        bool lost = rt_quant_fit_block(fit, &f, x, RT_Q0_BLOCK) == RT_QUANT_LOST;
        rt_quant_store_f16(y->d, lost ? RT_QUANT_NAN : f.d);
        rt_quant_store_f16(y->m, lost ? RT_QUANT_NAN : f.m);
        pack_nibbles(y->q, f.q, 0);
    }
}

void rt_q5_0_from_f32(rt_q5_0 *y, const float *x, uint64_t blocks)
{
    rt_quant_fit_fn fit = rt_quant_fit_for(RT_DTYPE_Q5_0);
    rt_quant_fit f;
    for (uint64_t b = 0; b < blocks; b++, y++, x += RT_Q0_BLOCK) {
        bool lost = rt_quant_fit_block(fit, &f, x, RT_Q0_BLOCK) == RT_QUANT_LOST;
        rt_quant_store_f16(y->d, lost ? RT_QUANT_NAN : f.d);
        pack_nibbles(y->q, f.q, 16);
        pack_fifth(y->high, f.q, 16);
    }
}

void rt_q5_1_from_f32(rt_q5_1 *y, const float *x, uint64_t blocks)
{
    rt_quant_fit_fn fit = rt_quant_fit_for(RT_DTYPE_Q5_1);
    rt_quant_fit f;
    for (uint64_t b = 0; b < blocks; b++, y++, x += RT_Q0_BLOCK) {
        bool lost = rt_quant_fit_block(fit, &f, x, RT_Q0_BLOCK) == RT_QUANT_LOST;
        rt_quant_store_f16(y->d, lost ? RT_QUANT_NAN : f.d);
        rt_quant_store_f16(y->m, lost ? RT_QUANT_NAN : f.m);
        pack_nibbles(y->q, f.q, 0);
        pack_fifth(y->high, f.q, 0);
    }
}
