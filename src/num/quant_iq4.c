/* quant_iq4.c - IQ4_NL and IQ4_XS: four bits that name one of sixteen uneven places on the value axis.
 *
 * Owns: both layouts, both ways. */
#include "num/quant_block.h"

const int8_t rt_iq4_values[16] = { -127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113 };

/* ---- blocks to values ---- */

static void put_values(float *y /* (32) */, const uint8_t *q /* (16) */, float d)
{
    for (int i = 0; i < 16; i++) y[i] = d * (float)rt_iq4_values[q[i] & 15];
    for (int i = 0; i < 16; i++) y[i + 16] = d * (float)rt_iq4_values[q[i] >> 4];
}

void rt_iq4_nl_to_f32(float *y, const rt_iq4_nl *x, uint64_t blocks)
{
    for (uint64_t b = 0; b < blocks; b++, x++, y += RT_Q0_BLOCK) put_values(y, x->q, rt_quant_load_f16(x->d));
}

/* d * scale has at most 17 bits and its product with a place 24: both are exact. */
void rt_iq4_xs_to_f32(float *y, const rt_iq4_xs *x, uint64_t blocks)
{
    for (uint64_t b = 0; b < blocks; b++, x++) {
        float d = rt_quant_load_f16(x->d);
        unsigned high = x->scale_high[0] | (unsigned)x->scale_high[1] << 8;
        for (int g = 0; g < 8; g++, y += 32) {
            int scale = (x->scale_low[g / 2] >> 4 * (g % 2) & 15) | (int)(high >> 2 * g & 3) << 4;
            put_values(y, x->q + 16 * g, d * (float)(scale - 32));
        }
    }
}

/* ---- values to blocks ---- */

/* Which place p is; a block of zeros has none and takes the one nearest to zero. */
static int index_of(int8_t p)
{
    for (int i = 0; i < 16; i++)
        if (rt_iq4_values[i] == p) return i;
    return 8;
}

static void pack_places(uint8_t out[16], const int8_t p[32])
{
    for (int i = 0; i < 16; i++) out[i] = (uint8_t)(index_of(p[i]) | index_of(p[i + 16]) << 4);
}

void rt_iq4_nl_from_f32(rt_iq4_nl *y, const float *x, uint64_t blocks)
{
    rt_quant_fit_fn fit = rt_quant_fit_for(RT_DTYPE_IQ4_NL);
    rt_quant_fit f;
    for (uint64_t b = 0; b < blocks; b++, y++, x += RT_Q0_BLOCK) {
        bool lost = rt_quant_fit_block(fit, &f, x, RT_Q0_BLOCK) == RT_QUANT_LOST;
        rt_quant_store_f16(y->d, lost ? RT_QUANT_NAN : f.d);
        pack_places(y->q, f.q);
    }
}

void rt_iq4_xs_from_f32(rt_iq4_xs *y, const float *x, uint64_t blocks)
{
    rt_quant_fit_fn fit = rt_quant_fit_for(RT_DTYPE_IQ4_XS);
    rt_quant_fit f;
    for (uint64_t b = 0; b < blocks; b++, y++, x += RT_QK_BLOCK) {
        bool lost = rt_quant_fit_block(fit, &f, x, RT_QK_BLOCK) == RT_QUANT_LOST;
        memset(y, 0, sizeof *y);
        rt_quant_store_f16(y->d, lost ? RT_QUANT_NAN : f.d);
        for (int g = 0; g < 8; g++) {
            int scale = f.scale[g] + 32;
            y->scale_low[g / 2] |= (uint8_t)((scale & 15) << 4 * (g % 2));
            y->scale_high[g / 4] |= (uint8_t)(scale >> 4 << 2 * (g % 4));
            pack_places(y->q + 16 * g, f.q + 32 * g);
        }
    }
}
