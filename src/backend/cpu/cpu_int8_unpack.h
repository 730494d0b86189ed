/* cpu_int8_unpack.h - blocks of the types that matmul_int8 takes as bytes and factors, by vectors.
 *
 * Owns: for one ISA the codes of a span of 256 elements in chunks of 4 VL bytes, its factors, sums of four products of
 * bytes. Codes are whole numbers from 0 to 63; those of Q8_0 are signed. AVX-512 has two blocks in a chunk: of Q4_K and
 * Q5_K those whose nibbles lie in 64 bytes (int8_place), of the others neighbours. */
#ifndef RT_BACKEND_CPU_CPU_INT8_UNPACK_H
#define RT_BACKEND_CPU_CPU_INT8_UNPACK_H

#include "backend/cpu/cpu_dequant.h"
#include "backend/cpu/cpu_int8.h"

enum { CHUNK = 4 * VL, CHUNKS = RT_INT8_SPAN / CHUNK, FACTORS = 16 / VL /* vectors of 16 */ };
typedef uint8_t vq __attribute__((vector_size(4 * VL)));
typedef uint16_t vq2 __attribute__((vector_size(4 * VL)));

RT_INLINE bool is_affine_k(rt_dtype b) { return b == RT_DTYPE_Q4_K || b == RT_DTYPE_Q5_K; }

/* Where block i of a span has its codes among those of a. */
RT_INLINE uint32_t int8_place(uint32_t i, rt_dtype b)
{
    return VL == 16 && is_affine_k(b) ? (i & 4) | (i & 1) << 1 | (i >> 1 & 1) : i;
}

/* ---- codes ---- */

RT_INLINE vq load_codes(const void *p)
{
    vq v;
    memcpy(&v, p, sizeof v);
    return v;
}
RT_INLINE vq down(vq v, int n) { return (vq)((vq2)v >> n); }
RT_INLINE vq up(vq v, int n) { return (vq)((vq2)v << n); }

/* Of blocks of 32. x: the first block of the span; have: how many there are, the last of which stands for those that
 * are missing: they meet zeros. */
RT_INLINE vq codes_32(const uint8_t *x, uint32_t j, uint32_t have, rt_dtype b)
{
    const uint32_t bytes = b == RT_DTYPE_Q8_0 ? BYTES_Q8_0 : b == RT_DTYPE_Q4_0 ? BYTES_Q4_0 : BYTES_Q4_1;
    const uint32_t first = j * CHUNK / 32;
    const uint8_t *p = x + first * bytes + (b == RT_DTYPE_Q4_1 ? 4 : 2);
#if defined(RT_ISA_avx512)
    const uint8_t *q = first + 1 < have ? p + bytes : p;
    __m256i low, high;
    if (b == RT_DTYPE_Q8_0) {
        low = _mm256_loadu_si256((const __m256i *)p);
        high = _mm256_loadu_si256((const __m256i *)q);
        return (vq)_mm512_inserti64x4(_mm512_castsi256_si512(low), high, 1);
    }
    const vq2 nibble = {
        0, 0, 0, 0, 0, 0, 0, 0, 4, 4, 4, 4, 4, 4, 4, 4, 0, 0, 0, 0, 0, 0, 0, 0, 4, 4, 4, 4, 4, 4, 4, 4
    };
    low = _mm256_broadcastsi128_si256((__m128i)load_bytes(p));
    high = _mm256_broadcastsi128_si256((__m128i)load_bytes(q));
    const vq2 both = (vq2)_mm512_inserti64x4(_mm512_castsi256_si512(low), high, 1);
    return (vq)(both >> nibble) & 15;
#else
    (void)have;
    if (b == RT_DTYPE_Q8_0) return load_codes(p + j * CHUNK % 32);
#if defined(RT_ISA_avx2)
    const __m128i v = (__m128i)load_bytes(p);
    return (vq)_mm256_set_m128i(_mm_srli_epi16(v, 4), v) & 15;
#else
    return (j % 2 ? down(load_codes(p), 4) : load_codes(p)) & 15;
#endif
#endif
}

#if defined(RT_ISA_avx512)
RT_INLINE vq twice(const uint8_t *p /* (32) */)
{
    return (vq)_mm512_broadcast_i64x4(_mm256_loadu_si256((const __m256i *)p));
}
#define TWO_SHIFTS(a, b)                                                                                               \
    {                                                                                                                  \
        a, a, a, a, a, a, a, a, a, a, a, a, a, a, a, a, b, b, b, b, b, b, b, b, b, b, b, b, b, b, b, b                 \
    }
#endif

/* Of a super-block of Q4_K or Q5_K. */
RT_INLINE vq codes_affine(const uint8_t *x, uint32_t j, bool five)
{
    const uint8_t *nibbles = x + (five ? 48 : 16), *fifth = x + 16;
#if defined(RT_ISA_avx512)
    const uint32_t group = j / 2 * 4 + j % 2; /* and the next but one */
    vq v = load_codes(nibbles + j / 2 * 64);
    v = (j % 2 ? down(v, 4) : v) & 15;
    if (!five) return v;
    const vq2 place = TWO_SHIFTS(0, 2);
    return v | (up((vq)((vq2)twice(fifth) >> (place + (uint16_t)group)), 4) & 16);
#else
    const uint32_t group = j * CHUNK / 32, at = j * CHUNK % 32;
    vq v = load_codes(nibbles + group / 2 * 32 + at);
    v = (group % 2 ? down(v, 4) : v) & 15;
    if (!five) return v;
    return v | (up(down(load_codes(fifth + at), (int)group), 4) & 16);
#endif
}

/* Of a super-block of Q6_K. */
RT_INLINE vq codes_q6(const uint8_t *x, uint32_t j)
{
#if defined(RT_ISA_avx512)
    const uint8_t *low = x + j / 2 * 64, *high = x + 128 + j / 2 * 32;
    const vq v = load_codes(low);
    if (j % 2 == 0) return (v & 15) | ((vq)((vq2)twice(high) << (vq2)TWO_SHIFTS(4, 2)) & 48);
    return (down(v, 4) & 15) | ((vq)((vq2)twice(high) >> (vq2)TWO_SHIFTS(0, 2)) & 48);
#else
    const uint32_t half = j * CHUNK / 128, part = j * CHUNK / 32 % 4, at = j * CHUNK % 32;
    const vq v = load_codes(x + half * 64 + part % 2 * 32 + at), h = load_codes(x + 128 + half * 32 + at);
    return ((part < 2 ? v : down(v, 4)) & 15) | (up(down(h, (int)(2 * part)), 4) & 48);
#endif
}

/* Chunk j of a span that begins at x. */
RT_INLINE vq codes_of(const uint8_t *x, uint32_t j, uint32_t have, rt_dtype b)
{
    if (is_affine_k(b)) return codes_affine(x, j, b == RT_DTYPE_Q5_K);
    return b == RT_DTYPE_Q6_K ? codes_q6(x, j) : codes_32(x, j, have, b);
}

/* ---- factors ---- */

/* f (16): of `have` blocks that are `bytes` apart the f16 at their beginning, and that again or (two) the one behind.
 */
RT_INLINE void factors_32(vf f[FACTORS], const uint8_t *x, uint32_t bytes, uint32_t have, bool two)
{
    typedef uint32_t words __attribute__((vector_size(VL == 4 ? 16 : 32)));
    enum { EACH = sizeof(words) / 4 };
    for (uint32_t i = 0; i < RT_INT8_BLOCKS; i += EACH) {
        words w = { 0 };
#pragma GCC unroll 8
        for (uint32_t l = 0; l < EACH; l++) {
            uint32_t word;
            memcpy(&word, x + (i + l < have ? i + l : have - 1) * bytes, 4);
            w[l] = word;
        }
#if defined(RT_ISA_avx512)
        const __m512i both = _mm512_inserti64x4(_mm512_castsi256_si512((__m256i)w), (__m256i)(two ? w >> 16 : w), 1);
        f[0] = v_from_f16(v_narrow_u16((vu)both & 0xffff));
#else
        f[i / VL] = v_from_f16(v_narrow_u16((vu)w & 0xffff));
        f[FACTORS / 2 + i / VL] = two ? v_from_f16(v_narrow_u16((vu)w >> 16)) : f[i / VL];
#endif
    }
}

/* f (16) = d scale of eight groups, dmin min of them */
RT_INLINE void factors_affine(vf f[FACTORS], const uint8_t *x)
{
    float d, dmin;
    load_f16_pair(&d, &dmin, x);
    widen_bytes(f, factor_bytes(x + 4));
#if defined(RT_ISA_avx512)
    f[0] *= (vf){ d, d, d, d, d, d, d, d, dmin, dmin, dmin, dmin, dmin, dmin, dmin, dmin };
#else
    for (int i = 0; i < FACTORS; i++) f[i] *= vset(i < FACTORS / 2 ? d : dmin);
#endif
}

/* f (16) = d scale of sixteen groups */
RT_INLINE void factors_q6(vf f[FACTORS], const uint8_t *x)
{
    const vf d = vset(load_f16(x + 208));
    widen_bytes(f, load_bytes(x + 192) ^ 128);
    for (int i = 0; i < FACTORS; i++) f[i] = d * (f[i] - vset(128.0f));
}

RT_INLINE void factors_of(vf f[FACTORS], const uint8_t *x, uint32_t have, rt_dtype b)
{
    switch (b) {
    case RT_DTYPE_Q8_0: factors_32(f, x, BYTES_Q8_0, have, false); break;
    case RT_DTYPE_Q4_0: factors_32(f, x, BYTES_Q4_0, have, false); break;
    case RT_DTYPE_Q4_1: factors_32(f, x, BYTES_Q4_1, have, true); break;
    case RT_DTYPE_Q6_K: factors_q6(f, x); break;
    default: factors_affine(f, x);
    }
}

/* For each lane of chunk j the factor of its block. */
RT_INLINE vf factor_of(const vf f[FACTORS], uint32_t j, rt_dtype b)
{
#if defined(RT_ISA_avx512)
    const vi lane = { 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15 };
    const int32_t n = (int32_t)j;
    const vi at = b == RT_DTYPE_Q6_K ? lane / 4 + 4 * n
                  : is_affine_k(b)   ? lane / 8 * 2 + n / 2 * 4 + n % 2
                                     : lane / 8 + 2 * n;
    return (vf)_mm512_permutexvar_ps((__m512i)at, (__m512)f[0]);
#elif defined(RT_ISA_avx2)
    const vi lane = { 0, 1, 2, 3, 4, 5, 6, 7 };
    const int32_t n = (int32_t)j;
    if (b == RT_DTYPE_Q6_K) return (vf)_mm256_permutevar8x32_ps((__m256)f[j / 4], (__m256i)(lane / 4 + n % 4 * 2));
    return (vf)_mm256_permutevar8x32_ps((__m256)f[0], _mm256_set1_epi32(n));
#else
    const uint32_t at = b == RT_DTYPE_Q6_K ? j : j / 2;
    return vset(f[at / VL][at % VL]);
#endif
}

/* ---- sums of products ---- */

#if defined(RT_ISA_avx512)
#define WIDE(name) _mm512_##name
typedef __m512i vm;
#if RT_DOT
#define DOT_BYTES(sum, q, c) _mm512_dpbusd_epi32(sum, q, c)
#endif
#elif defined(RT_ISA_avx2)
#define WIDE(name) _mm256_##name
typedef __m256i vm;
#if RT_DOT
#define DOT_BYTES(sum, q, c) _mm256_dpbusd_avx_epi32(sum, q, c)
#endif
#endif

/* Lane i: the sum of q c over bytes 4 i to 4 i + 3, exactly. b is Q8_0: q is signed, and both may be -128. */
RT_INLINE vi quads(vq q, vq c, rt_dtype b)
{
#if defined(RT_ISA_avx512) || defined(RT_ISA_avx2)
    const vm x = (vm)q, y = (vm)c;
#if RT_DOT
    const vm zero = (vm)(vi){ 0 }, top = (vm)((vq){ 0 } + 128);
    if (b == RT_DTYPE_Q8_0) return (vi)DOT_BYTES(zero, (vm)(q ^ 128), y) - (vi)DOT_BYTES(zero, top, y);
    return (vi)DOT_BYTES(zero, x, y);
#else
    if (b == RT_DTYPE_Q8_0) { /* two products of -128 would pass 16 bits */
        const vm even =
            WIDE(madd_epi16)(WIDE(srai_epi16)(WIDE(slli_epi16)(x, 8), 8), WIDE(srai_epi16)(WIDE(slli_epi16)(y, 8), 8));
        return (vi)even + (vi)WIDE(madd_epi16)(WIDE(srai_epi16)(x, 8), WIDE(srai_epi16)(y, 8));
    }
    return (vi)WIDE(madd_epi16)(WIDE(maddubs_epi16)(x, y), WIDE(set1_epi16)(1));
#endif
#elif defined(RT_ISA_neon)
    const int8x16_t x = (int8x16_t)q, y = (int8x16_t)c;
    (void)b;
#if RT_DOT
    return (vi)vdotq_s32(vdupq_n_s32(0), x, y);
#else
    const int16x8_t low = vmull_s8(vget_low_s8(x), vget_low_s8(y)), high = vmull_high_s8(x, y);
    return (vi)vpaddq_s32(vpaddlq_s16(low), vpaddlq_s16(high));
#endif
#else
    typedef int16_t vs __attribute__((vector_size(16)));
    const vs even = ((vs)up(q, 8) >> 8) * ((vs)up(c, 8) >> 8), odd = ((vs)q >> 8) * ((vs)c >> 8);
    (void)b;
    return (((vi)even << 16) >> 16) + ((vi)even >> 16) + (((vi)odd << 16) >> 16) + ((vi)odd >> 16);
#endif
}

#endif
