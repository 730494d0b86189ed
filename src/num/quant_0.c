/* quant_0.c - Q8_0 and Q4_0: 32 values and one f16 scale.
 *
 * Owns: both layouts, both ways. The integers are derived from the scale as stored, not from the one wished for, so
 * that a value within reach is never further than half a step from its block value. */
#include "num/quant_block.h"

#include <math.h>

void rt_q8_0_to_f32(float *y, const rt_q8_0 *x, uint64_t blocks)
{
    for (uint64_t b = 0; b < blocks; b++, x++, y += RT_Q0_BLOCK) {
        float d = rt_quant_load_f16(x->d);
        for (int i = 0; i < 32; i++) y[i] = d * (float)x->q[i];
    }
}

void rt_q4_0_to_f32(float *y, const rt_q4_0 *x, uint64_t blocks)
{
    for (uint64_t b = 0; b < blocks; b++, x++, y += RT_Q0_BLOCK) {
        float d = rt_quant_load_f16(x->d);
        for (int i = 0; i < 16; i++) y[i] = d * (float)((x->q[i] & 15) - 8);
        for (int i = 0; i < 16; i++) y[i + 16] = d * (float)((x->q[i] >> 4) - 8);
    }
}

/* t rounded to an integer (ties to even) and kept within bottom..top; |t| is small enough for the addition to round. */
static int round_within(float t, int bottom, int top)
{
    int q = (int)((t + 0x1.8p23f) - 0x1.8p23f);
    return q < bottom ? bottom : q > top ? top : q;
}

void rt_q8_0_from_f32(rt_q8_0 *y, const float *x, uint64_t blocks)
{
    for (uint64_t b = 0; b < blocks; b++, y++, x += RT_Q0_BLOCK) {
        float most = 0;
        rt_quant_range range = rt_quant_range_of(x, RT_Q0_BLOCK, &most);
        uint16_t h = range == RT_QUANT_FINE ? rt_quant_scale_for(most, 127) : 0;
        memset(y, 0, sizeof *y);
        if (range == RT_QUANT_ZERO) continue;
        if (range == RT_QUANT_LOST || h >= RT_QUANT_INF) {
            rt_quant_store_f16(y->d, RT_QUANT_NAN);
            continue;
        }
        float d = rt_f16_to_f32(h);
        rt_quant_store_f16(y->d, h);
        for (int i = 0; i < 32; i++) y->q[i] = (int8_t)round_within(x[i] / d, -127, 127);
    }
}

void rt_q4_0_from_f32(rt_q4_0 *y, const float *x, uint64_t blocks)
{
    for (uint64_t b = 0; b < blocks; b++, y++, x += RT_Q0_BLOCK) {
        float most = 0;
        rt_quant_range range = rt_quant_range_of(x, RT_Q0_BLOCK, &most);
        uint16_t h = range == RT_QUANT_FINE ? rt_quant_scale_for(most, 8) : 0;
        memset(y, 0, sizeof *y);
        memset(y->q, 0x88, sizeof y->q);
        if (range == RT_QUANT_ZERO) continue;
        if (range == RT_QUANT_LOST || h >= RT_QUANT_INF) {
            rt_quant_store_f16(y->d, RT_QUANT_NAN);
            continue;
        }
        int at = 0; /* of the first value of that magnitude */
        while (fabsf(x[at]) != most) at++;
        if (x[at] > 0) h |= 0x8000u; /* the integers reach -8 but not 8: the largest value takes the longer side */
        float d = rt_f16_to_f32(h);
        rt_quant_store_f16(y->d, h);
        for (int i = 0; i < 16; i++) {
            int low = round_within(x[i] / d, -8, 7) + 8, high = round_within(x[i + 16] / d, -8, 7) + 8;
            y->q[i] = (uint8_t)(low | high << 4);
        }
    }
}
