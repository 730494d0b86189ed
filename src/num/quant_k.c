/* quant_k.c - Q4_K, Q5_K and Q6_K: super-blocks of 256 values whose groups have integer scales of their own.
 *
 * Owns: the three layouts, both ways, and the choice of the super-block's f16 scales. The search inside a group is in
 * quant_fit.c. After the f16 scales are fixed every group looks at the integer scales next to its wish, with the error
 * that the stored numbers really give, and the integers are derived from what is stored. */
#include "num/quant_block.h"

#include <math.h>

enum { AFFINE_GROUPS = 8, AFFINE_GROUP = 32, SIGNED_GROUPS = 16, SIGNED_GROUP = 16 };

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

void rt_q5_k_to_f32(float *y, const rt_q5_k *x, uint64_t blocks)
{
    for (uint64_t b = 0; b < blocks; b++, x++) {
        float d = rt_quant_load_f16(x->d), dmin = rt_quant_load_f16(x->dmin);
        const uint8_t *q = x->q, *h = x->high;
        for (int j = 0; j < AFFINE_GROUPS; j += 2, q += 32, y += 64) {
            float s0, m0, s1, m1;
            group_factors(x->scales, d, dmin, j, &s0, &m0);
            group_factors(x->scales, d, dmin, j + 1, &s1, &m1);
            for (int l = 0; l < 32; l++) y[l] = s0 * (float)((q[l] & 15) | (h[l] >> j & 1) << 4) - m0;
            for (int l = 0; l < 32; l++) y[l + 32] = s1 * (float)((q[l] >> 4) | (h[l] >> (j + 1) & 1) << 4) - m1;
        }
    }
}

/* d * scale is exact (19 bits); its product with q may have 25 and is rounded, so the order of the two matters. */
void rt_q6_k_to_f32(float *y, const rt_q6_k *x, uint64_t blocks)
{
    for (uint64_t b = 0; b < blocks; b++, x++) {
        float d = rt_quant_load_f16(x->d);
        for (int half = 0; half < 2; half++, y += 128) {
            const uint8_t *low = x->low + 64 * half, *high = x->high + 32 * half;
            const int8_t *scales = x->scales + 8 * half;
            for (int part = 0; part < 4; part++) {
                const uint8_t *nibbles = low + (part & 1) * 32;
                int shift = part / 2 * 4;
                for (int l = 0; l < 32; l++) {
                    int q = (nibbles[l] >> shift & 15) | (high[l] >> 2 * part & 3) << 4;
                    y[32 * part + l] = d * (float)scales[2 * part + l / 16] * (float)(q - 32);
                }
            }
        }
    }
}

/* ---- values to blocks ---- */

static int clamp_int(float t, int bottom, int top)
{
    return t <= (float)bottom ? bottom : t >= (float)top ? top : (int)lrintf(t);
}

/* The integer pair near the wish that serves the group best with the f16 scales as they are. */
static void pick_scale_min(const rt_quant_group *g, int top, float d, float dmin, float scale, float min, uint8_t *s,
                           uint8_t *m)
{
    int s0 = d > 0 ? clamp_int(scale / d, 0, 63) : 0, m0 = dmin > 0 ? clamp_int(min / dmin, 0, 63) : 0;
    float best = rt_quant_error(g, d * (float)s0, dmin * (float)m0, 0, top);
    *s = (uint8_t)s0;
    *m = (uint8_t)m0;
    for (int i = s0 - 1; i <= s0 + 1; i++) {
        for (int j = m0 - 1; j <= m0 + 1; j++) {
            if (i < 0 || i > 63 || j < 0 || j > 63 || (i == s0 && j == m0)) continue;
            float error = rt_quant_error(g, d * (float)i, dmin * (float)j, 0, top);
            if (error < best) {
                best = error;
                *s = (uint8_t)i;
                *m = (uint8_t)j;
            }
        }
    }
}

/* All of a Q4_K or Q5_K super-block but the places of the integers. false: the block is lost. */
static bool quantise_affine(const float *x /* (256) */, int top, uint8_t hd[2], uint8_t hmin[2], uint8_t scales[12],
                            int8_t q[RT_QK_BLOCK])
{
    rt_quant_group group[AFFINE_GROUPS];
    float scale[AFFINE_GROUPS], min[AFFINE_GROUPS], most_scale = 0, most_min = 0, largest;
    rt_quant_range range = rt_quant_range_of(x, RT_QK_BLOCK, &largest);
    if (range != RT_QUANT_FINE) return range == RT_QUANT_ZERO;
    for (int j = 0; j < AFFINE_GROUPS; j++) {
        rt_quant_group_init(&group[j], x + AFFINE_GROUP * j, AFFINE_GROUP);
        rt_quant_fit_affine(&group[j], top, &scale[j], &min[j]);
        most_scale = fmaxf(most_scale, scale[j]);
        most_min = fmaxf(most_min, min[j]);
    }
    uint16_t d16 = rt_quant_scale_for(most_scale, 63), dmin16 = rt_quant_scale_for(most_min, 63);
    if (d16 >= RT_QUANT_INF || dmin16 >= RT_QUANT_INF) return false;
    float d = rt_f16_to_f32(d16), dmin = rt_f16_to_f32(dmin16);
    uint8_t s[AFFINE_GROUPS], m[AFFINE_GROUPS];
    for (int j = 0; j < AFFINE_GROUPS; j++) {
        pick_scale_min(&group[j], top, d, dmin, scale[j], min[j], &s[j], &m[j]);
        rt_quant_integers(q + AFFINE_GROUP * j, &group[j], d * (float)s[j], dmin * (float)m[j], 0, top);
    }
    rt_quant_store_f16(hd, d16);
    rt_quant_store_f16(hmin, dmin16);
    pack_scale_min(scales, s, m);
    return true;
}

static void pack_nibbles(uint8_t *out /* (128) */, const int8_t *q /* (256) */)
{
    for (int pair = 0; pair < 4; pair++, out += 32, q += 64) {
        for (int l = 0; l < 32; l++) out[l] = (uint8_t)((q[l] & 15) | (q[l + 32] & 15) << 4);
    }
}

void rt_q4_k_from_f32(rt_q4_k *y, const float *x, uint64_t blocks)
{
    for (uint64_t b = 0; b < blocks; b++, y++, x += RT_QK_BLOCK) {
        int8_t q[RT_QK_BLOCK] = {0};
        memset(y, 0, sizeof *y);
        if (!quantise_affine(x, 15, y->d, y->dmin, y->scales, q)) {
            rt_quant_store_f16(y->d, RT_QUANT_NAN);
            rt_quant_store_f16(y->dmin, RT_QUANT_NAN);
        }
        pack_nibbles(y->q, q);
    }
}

void rt_q5_k_from_f32(rt_q5_k *y, const float *x, uint64_t blocks)
{
    for (uint64_t b = 0; b < blocks; b++, y++, x += RT_QK_BLOCK) {
        int8_t q[RT_QK_BLOCK] = {0};
        memset(y, 0, sizeof *y);
        if (!quantise_affine(x, 31, y->d, y->dmin, y->scales, q)) {
            rt_quant_store_f16(y->d, RT_QUANT_NAN);
            rt_quant_store_f16(y->dmin, RT_QUANT_NAN);
        }
        pack_nibbles(y->q, q);
        for (int j = 0; j < AFFINE_GROUPS; j++) {
            for (int l = 0; l < 32; l++) y->high[l] |= (uint8_t)((q[32 * j + l] >> 4 & 1) << j);
        }
    }
}

/* The best of the integer scales next to the wish. */
static int8_t pick_scale(const rt_quant_group *g, float d, float scale)
{
    int s0 = clamp_int(scale / d, -128, 127), s = s0;
    float best = rt_quant_error(g, d * (float)s0, 0, -32, 31);
    for (int i = s0 - 1; i <= s0 + 1; i += 2) {
        if (i < -128 || i > 127) continue;
        float error = rt_quant_error(g, d * (float)i, 0, -32, 31);
        if (error < best) {
            best = error;
            s = i;
        }
    }
    return (int8_t)s;
}

/* q is left at 0 for a block of zeros; false: the block is lost. */
static bool quantise_signed(const float *x /* (256) */, rt_q6_k *y, int8_t q[RT_QK_BLOCK])
{
    rt_quant_group group[SIGNED_GROUPS];
    float scale[SIGNED_GROUPS], most = 0, largest;
    rt_quant_range range = rt_quant_range_of(x, RT_QK_BLOCK, &largest);
    if (range != RT_QUANT_FINE) return range == RT_QUANT_ZERO;
    for (int j = 0; j < SIGNED_GROUPS; j++) {
        rt_quant_group_init(&group[j], x + SIGNED_GROUP * j, SIGNED_GROUP);
        scale[j] = rt_quant_fit_scale(&group[j], 32);
        if (fabsf(scale[j]) > fabsf(most)) most = scale[j];
    }
    uint16_t d16 = rt_quant_scale_for(fabsf(most), 128);
    if (d16 >= RT_QUANT_INF) return false;
    if (most > 0) d16 |= 0x8000u; /* int8 reaches -128 but not 128 */
    float d = rt_f16_to_f32(d16);
    for (int j = 0; j < SIGNED_GROUPS; j++) {
        y->scales[j] = pick_scale(&group[j], d, scale[j]);
        rt_quant_integers(q + SIGNED_GROUP * j, &group[j], d * (float)y->scales[j], 0, -32, 31);
    }
    rt_quant_store_f16(y->d, d16);
    return true;
}

void rt_q6_k_from_f32(rt_q6_k *y, const float *x, uint64_t blocks)
{
    for (uint64_t b = 0; b < blocks; b++, y++, x += RT_QK_BLOCK) {
        int8_t q[RT_QK_BLOCK] = {0};
        memset(y, 0, sizeof *y);
        if (!quantise_signed(x, y, q)) rt_quant_store_f16(y->d, RT_QUANT_NAN);
        for (int half = 0; half < 2; half++) {
            for (int part = 0; part < 4; part++) {
                for (int l = 0; l < 32; l++) {
                    int v = q[128 * half + 32 * part + l] + 32;
                    y->low[64 * half + (part & 1) * 32 + l] |= (uint8_t)((v & 15) << part / 2 * 4);
                    y->high[32 * half + l] |= (uint8_t)(v >> 4 << 2 * part);
                }
            }
        }
    }
}
