/* cpu_random.h - random words of neighbouring columns, many at a time: rt_philox of base/rng.h in vectors.
 *
 * A word depends on seed, stream, row and column alone, so how rows are cut, and among how many threads, changes
 * nothing. */
#ifndef RT_BACKEND_CPU_CPU_RANDOM_H
#define RT_BACKEND_CPU_CPU_RANDOM_H

#include "backend/cpu/simd.h"

#if defined(__SSE2__)
#include <immintrin.h>
#endif

enum { RT_RANDOM_SETS = 2, RT_RANDOM_WORDS = RT_RANDOM_SETS * 4 * VL }; /* vectors under way; four words of a lane */

typedef uint64_t vul __attribute__((vector_size(sizeof(vf))));

/* The low and the high halves of a times m, lane by lane. */
RT_INLINE void multiply(vu a, uint32_t m, vu *low, vu *high)
{
#if defined(RT_ISA_avx512)
    __m512i even = _mm512_mul_epu32((__m512i)a, _mm512_set1_epi32((int)m));
    __m512i odd = _mm512_mul_epu32(_mm512_srli_epi64((__m512i)a, 32), _mm512_set1_epi32((int)m));
#elif defined(RT_ISA_avx2)
    __m256i even = _mm256_mul_epu32((__m256i)a, _mm256_set1_epi32((int)m));
    __m256i odd = _mm256_mul_epu32(_mm256_srli_epi64((__m256i)a, 32), _mm256_set1_epi32((int)m));
#elif defined(RT_ISA_neon)
    uint64x2_t even = vmull_n_u32(vmovn_u64((uint64x2_t)a), m), odd = vmull_n_u32(vshrn_n_u64((uint64x2_t)a, 32), m);
#elif defined(__SSE2__)
    __m128i even = _mm_mul_epu32((__m128i)a, _mm_set1_epi32((int)m));
    __m128i odd = _mm_mul_epu32(_mm_srli_epi64((__m128i)a, 32), _mm_set1_epi32((int)m));
#else
    vul even = ((vul)a & 0xffffffffu) * m, odd = ((vul)a >> 32) * m;
#endif
    *low = (vu)(((vul)even & 0xffffffffu) | (vul)odd << 32);
    *high = (vu)((vul)even >> 32 | ((vul)odd & ~(uint64_t)0xffffffffu));
}

RT_INLINE vu vload_u(const uint32_t *p)
{
    vu v;
    memcpy(&v, p, sizeof v);
    return v;
}

/* word (RT_RANDOM_WORDS) of columns 4 group and on: of column j word j % 4 at (seed, stream, row << 32 | j / 4) */
__attribute__((unused)) static void random_words(uint32_t *word, uint64_t seed, uint64_t stream, uint32_t row,
                                                 uint32_t group)
{
    const vu zero = { 0 };
    vu c[RT_RANDOM_SETS][4];
    uint32_t k0 = (uint32_t)seed, k1 = (uint32_t)(seed >> 32);
    for (uint32_t s = 0; s < RT_RANDOM_SETS; s++) {
        c[s][0] = zero + (group + s * VL);
        for (uint32_t i = 0; i < VL; i++) c[s][0][i] += i;
        c[s][1] = zero + row;
        c[s][2] = zero + (uint32_t)stream;
        c[s][3] = zero + (uint32_t)(stream >> 32);
    }
    for (int round = 0; round < 10; round++, k0 += 0x9E3779B9u, k1 += 0xBB67AE85u)
        for (uint32_t s = 0; s < RT_RANDOM_SETS; s++) {
            vu low0, high0, low1, high1;
            multiply(c[s][0], 0xD2511F53u, &low0, &high0);
            multiply(c[s][2], 0xCD9E8D57u, &low1, &high1);
            c[s][0] = high1 ^ c[s][1] ^ k0;
            c[s][1] = low1;
            c[s][2] = high0 ^ c[s][3] ^ k1;
            c[s][3] = low0;
        }
    for (uint32_t s = 0; s < RT_RANDOM_SETS; s++)
        for (uint32_t i = 0; i < VL; i++)
            for (int k = 0; k < 4; k++) *word++ = c[s][k][i];
}

#endif
