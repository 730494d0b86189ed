/* apr_quant.c - AprQ4 and AprQ8, both ways.
 *
 * Owns: the two layouts of apr_quant.h. Values that are not finite, or too large for the scale's type, give a scale
 * that is not a number, so that the fault stays visible. */
#include "num/apr_quant.h"

#include "num/dtype.h"

#include <math.h>

enum { BLOCK = 32, BLOCK_BYTES = 18 };

void rt_apr_q4_to_f32(float *y, const void *x, uint64_t n)
{
    const uint8_t *block = x;
    for (uint64_t at = 0; at < n; at += BLOCK, block += BLOCK_BYTES) {
        float scale = rt_f16_to_f32((uint16_t)(block[0] | block[1] << 8)), v[BLOCK];
        uint64_t left = n - at < BLOCK ? n - at : BLOCK;
        for (int i = 0; i < BLOCK / 2; i++) {
            v[2 * i] = scale * (float)((block[2 + i] & 15) - 8);
            v[2 * i + 1] = scale * (float)((block[2 + i] >> 4) - 8);
        }
        memcpy(y + at, v, left * sizeof *y);
    }
}

void rt_apr_q8_to_f32(float *y, const void *x, uint64_t n)
{
    const uint8_t *q = (const uint8_t *)x + 4;
    float scale;
    memcpy(&scale, x, sizeof scale);
    for (uint64_t i = 0; i < n; i++) y[i] = scale * (float)(int8_t)q[i];
}

/* NaN when any value is not finite. */
static float largest_magnitude(const float *x, uint64_t n)
{
    uint32_t most = 0;
    for (uint64_t i = 0; i < n; i++) {
        uint32_t magnitude = rt_f32_bits(x[i]) & 0x7fffffffu;
        most = magnitude > most ? magnitude : most;
    }
    return most < 0x7f800000u ? rt_f32_from_bits(most) : NAN;
}

/* The integer of x within -limit..limit; 0 where the scale says that there is none. */
static int integer_of(float x, float scale, int limit)
{
    float t = scale > 0 ? x / scale : 0;
    return t <= (float)-limit ? -limit : t >= (float)limit ? limit : (int)lrintf(t);
}

void rt_apr_q4_from_f32(void *y, const float *x, uint64_t n)
{
    uint8_t *block = y;
    for (uint64_t at = 0; at < n; at += BLOCK, block += BLOCK_BYTES) {
        uint64_t left = n - at < BLOCK ? n - at : BLOCK;
        uint16_t h = rt_f16_from_f32(largest_magnitude(x + at, left) / 7);
        if (h >= 0x7c00u) h = 0x7e00u;
        float scale = rt_f16_to_f32(h);
        block[0] = (uint8_t)h;
        block[1] = (uint8_t)(h >> 8);
        for (uint64_t i = 0; i < BLOCK; i += 2) {
            int low = i < left ? integer_of(x[at + i], scale, 7) : 0;
            int high = i + 1 < left ? integer_of(x[at + i + 1], scale, 7) : 0;
            block[2 + i / 2] = (uint8_t)((low + 8) | (high + 8) << 4);
        }
    }
}

void rt_apr_q8_from_f32(void *y, const float *x, uint64_t n)
{
    uint8_t *q = (uint8_t *)y + 4;
    float scale = largest_magnitude(x, n) / 127;
    memcpy(y, &scale, sizeof scale);
    for (uint64_t i = 0; i < n; i++) q[i] = (uint8_t)(int8_t)integer_of(x[i], scale, 127);
}
