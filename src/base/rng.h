/* rng.h - counter-based random numbers: the value depends on (seed, stream, index) alone, so it is the same for any
 * number of threads, any order, and any backend (Philox 4x32-10). Header only: kernels of other backends mirror it. */
#ifndef RT_BASE_RNG_H
#define RT_BASE_RNG_H

#include <stdint.h>

typedef struct rt_rng4 {
    uint32_t v[4];
} rt_rng4;

static inline rt_rng4 rt_philox(uint64_t seed, uint64_t stream, uint64_t index)
{
    uint32_t c[4] = { (uint32_t)index, (uint32_t)(index >> 32), (uint32_t)stream, (uint32_t)(stream >> 32) };
    uint32_t k0 = (uint32_t)seed, k1 = (uint32_t)(seed >> 32);
    for (int round = 0; round < 10; round++) {
        uint64_t p0 = (uint64_t)0xD2511F53u * c[0], p1 = (uint64_t)0xCD9E8D57u * c[2];
        uint32_t n0 = (uint32_t)(p1 >> 32) ^ c[1] ^ k0, n2 = (uint32_t)(p0 >> 32) ^ c[3] ^ k1;
        c[1] = (uint32_t)p1;
        c[3] = (uint32_t)p0;
        c[0] = n0;
        c[2] = n2;
        k0 += 0x9E3779B9u;
        k1 += 0xBB67AE85u;
    }
    return (rt_rng4){ { c[0], c[1], c[2], c[3] } };
}

/* 24 random bits as a float in [0, 1): exact in f32, so every backend gets the same number. */
static inline float rt_rng_unit(uint32_t bits) { return (float)(bits >> 8) * (1.0f / 16777216.0f); }

#endif
