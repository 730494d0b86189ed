/* quant_k.c - Q4_K, Q5_K and Q6_K: super-blocks of 256 values whose groups have integer scales of their own.
 *
 * Owns: the three layouts, both ways. The search for what to store is in quant_fit.h. */
#include "num/quant_block.h"

enum { AFFINE_GROUPS = 8 };

void rt_quant_scale_min(const uint8_t s[12], int j, uint8_t *scale, uint8_t *min)
{
    if (j < 4) {
        *scale = s[j] & 63;
        *min = s[j + 4] & 63;
    } else {
        *scale = (uint8_t)((s[j + 4] & 15) | (s[j - 4] >> 6) << 4);
        *min = (uint8_t)((s[j + 4] >> 4) | (s[j] >> 6) << 4);
    }
}

static void pack_scale_min(uint8_t s[12], const uint8_t scale[8], const uint8_t min[8])
{
    for (int j = 0; j < 4; j++) {
        s[j] = (uint8_t)(scale[j] | (scale[j + 4] >> 4) << 6);
        s[j + 4] = (uint8_t)(min[j] | (min[j + 4] >> 4) << 6);
        s[j + 8] = (uint8_t)((scale[j + 4] & 15) | (min[j + 4] & 15) << 4);
    }
}

/* ---- blocks to values ---- */

/* d * scale and dmin * min have at most 17 bits and are exact; so is their product with q. */
static void group_factors(const uint8_t scales[12], float d, float dmin, int j, float *scale, float *min)
{
    uint8_t s, m;
    rt_quant_scale_min(scales, j, &s, &m);
    *scale = d * (float)s;
    *min = dmin * (float)m;
}

void rt_q4_k_to_f32(float *y, const rt_q4_k *x, uint64_t blocks)
{
    for (uint64_t b = 0; b < blocks; b++, x++) {
        float d = rt_quant_load_f16(x->d), dmin = rt_quant_load_f16(x->dmin);
        const uint8_t *q = x->q;
        for (int j = 0; j < AFFINE_GROUPS; j += 2, q += 32, y += 64) {
            float s0, m0, s1, m1;
            group_factors(x->scales, d, dmin, j, &s0, &m0);
            group_factors(x->scales, d, dmin, j + 1, &s1, &m1);
            for (int l = 0; l < 32; l++) y[l] = s0 * (float)(q[l] & 15) - m0;
            for (int l = 0; l < 32; l++) y[l + 32] = s1 * (float)(q[l] >> 4) - m1;
        }
    }
}

/* q (n) = four bits of each byte of `low` from `shift`, with bits of `high` from `high_shift` above them. A fixed
 * number of bytes and nothing else in the loop: that is what compilers turn into vectors. */
static inline __attribute__((always_inline)) void unpack(uint8_t *q, int n, const uint8_t *low, int shift,
                                                         const uint8_t *high, int high_shift, int high_mask)
{
    for (int l = 0; l < n; l++) q[l] = (uint8_t)((low[l] >> shift & 15) | (high[l] >> high_shift & high_mask) << 4);
}

static void put_q5(float y[32], const uint8_t *low, int shift, const uint8_t *high, int high_shift, float s, float m)
{
    uint8_t q[32];
    unpack(q, 32, low, shift, high, high_shift, 1);
    for (int l = 0; l < 32; l++) y[l] = s * (float)q[l] - m;
}

static void put_q6(float y[16], const uint8_t *low, int shift, const uint8_t *high, int high_shift, float s)
{
    uint8_t q[16];
    unpack(q, 16, low, shift, high, high_shift, 3);
    for (int l = 0; l < 16; l++) y[l] = s * (float)(q[l] - 32);
}

void rt_q5_k_to_f32(float *y, const rt_q5_k *x, uint64_t blocks)
{
    for (uint64_t b = 0; b < blocks; b++, x++) {
        float d = rt_quant_load_f16(x->d), dmin = rt_quant_load_f16(x->dmin);
        for (int j = 0; j < AFFINE_GROUPS; j++, y += 32) {
            float s, m;
            group_factors(x->scales, d, dmin, j, &s, &m);
            put_q5(y, x->q + 32 * (j / 2), j % 2 * 4, x->high, j, s, m);
        }
    }
}

/* d * scale is exact (19 bits); its product with q may have 25 and is rounded, so the order of the two matters. */
void rt_q6_k_to_f32(float *y, const rt_q6_k *x, uint64_t blocks)
{
    for (uint64_t b = 0; b < blocks; b++, x++) {
        float d = rt_quant_load_f16(x->d);
        for (int half = 0; half < 2; half++) {
            const uint8_t *low = x->low + 64 * half, *high = x->high + 32 * half;
            for (int g = 0; g < 8; g++, y += 16) { /* groups of 16, two in each quarter of the half */
                int part = g / 2, at = g % 2 * 16;
                put_q6(y, low + (part & 1) * 32 + at, part / 2 * 4, high + at, 2 * part,
                       d * (float)x->scales[8 * half + g]);
            }
        }
    }
}

/* ---- values to blocks ---- */

static void pack_nibbles(uint8_t *out /* (128) */, const int8_t *q /* (256) */)
{
    for (int pair = 0; pair < 4; pair++, out += 32, q += 64) {
        for (int l = 0; l < 32; l++) out[l] = (uint8_t)((q[l] & 15) | (q[l + 32] & 15) << 4);
    }
}

/* The scales of a Q4_K or Q5_K block, and room for its integers. */
static void store_affine(uint8_t d[2], uint8_t dmin[2], uint8_t scales[12], const rt_quant_fit *f, rt_quant_range range)
{
    uint8_t scale[AFFINE_GROUPS], min[AFFINE_GROUPS];
    for (int j = 0; j < AFFINE_GROUPS; j++) {
        scale[j] = (uint8_t)f->scale[j];
        min[j] = (uint8_t)f->min[j];
    }
    rt_quant_store_f16(d, range == RT_QUANT_LOST ? RT_QUANT_NAN : f->d);
    rt_quant_store_f16(dmin, range == RT_QUANT_LOST ? RT_QUANT_NAN : f->m);
    pack_scale_min(scales, scale, min);
}

void rt_q4_k_from_f32(rt_q4_k *y, const float *x, uint64_t blocks)
{
    rt_quant_fit_fn fit = rt_quant_fit_for(RT_DTYPE_Q4_K);
    rt_quant_fit f;
    for (uint64_t b = 0; b < blocks; b++, y++, x += RT_QK_BLOCK) {
        rt_quant_range range = rt_quant_fit_block(fit, &f, x, RT_QK_BLOCK);
        store_affine(y->d, y->dmin, y->scales, &f, range);
        pack_nibbles(y->q, f.q);
    }
}

void rt_q5_k_from_f32(rt_q5_k *y, const float *x, uint64_t blocks)
{
    rt_quant_fit_fn fit = rt_quant_fit_for(RT_DTYPE_Q5_K);
    rt_quant_fit f;
    for (uint64_t b = 0; b < blocks; b++, y++, x += RT_QK_BLOCK) {
        rt_quant_range range = rt_quant_fit_block(fit, &f, x, RT_QK_BLOCK);
        store_affine(y->d, y->dmin, y->scales, &f, range);
        pack_nibbles(y->q, f.q);
        memset(y->high, 0, sizeof y->high);
        for (int j = 0; j < AFFINE_GROUPS; j++) {
            for (int l = 0; l < 32; l++) y->high[l] |= (uint8_t)((f.q[32 * j + l] >> 4 & 1) << j);
        }
    }
}

void rt_q6_k_from_f32(rt_q6_k *y, const float *x, uint64_t blocks)
{
    rt_quant_fit_fn fit = rt_quant_fit_for(RT_DTYPE_Q6_K);
    rt_quant_fit f;
    for (uint64_t b = 0; b < blocks; b++, y++, x += RT_QK_BLOCK) {
        rt_quant_range range = rt_quant_fit_block(fit, &f, x, RT_QK_BLOCK);
        memset(y, 0, sizeof *y);
        memcpy(y->scales, f.scale, sizeof y->scales);
        rt_quant_store_f16(y->d, range == RT_QUANT_LOST ? RT_QUANT_NAN : f.d);
        for (int half = 0; half < 2; half++) {
            for (int part = 0; part < 4; part++) {
                for (int l = 0; l < 32; l++) {
                    int v = f.q[128 * half + 32 * part + l] + 32;
                    y->low[64 * half + (part & 1) * 32 + l] |= (uint8_t)((v & 15) << part / 2 * 4);
                    y->high[32 * half + l] |= (uint8_t)(v >> 4 << 2 * part);
                }
            }
        }
    }
}
