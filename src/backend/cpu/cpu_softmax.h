/* cpu_softmax.h - what kernels over rows of logits share: blocks of a row as f32, lanes of a bitmap, exponentials.
 *
 * Owns: 2^(x c) for x c <= 0 in a fast form and in a careful one, reductions of a vector in a fixed order, columns of
 * a row in any float dtype as f32. Rows are walked in blocks of ROW_BLOCK columns, which stay in L1. */
#ifndef RT_BACKEND_CPU_CPU_SOFTMAX_H
#define RT_BACKEND_CPU_CPU_SOFTMAX_H

#include "backend/cpu/simd.h"

enum { ROW_BLOCK = 1024 }; /* columns; a multiple of 32 */

/* ---- blocks ---- */
__attribute__((unused)) static const uint32_t all_ones[ROW_BLOCK / 32] = {
#define O8 UINT32_MAX, UINT32_MAX, UINT32_MAX, UINT32_MAX, UINT32_MAX, UINT32_MAX, UINT32_MAX, UINT32_MAX
    O8, O8, O8, O8
#undef O8
};
_Static_assert(ROW_BLOCK / 32 == 32, "all_ones is written out");

RT_INLINE void widen_loop(float *y, const void *x, uint64_t from, uint32_t n, rt_dtype d)
{
    uint32_t i = 0;
    for (; i + VL <= n; i += VL) vstore(y + i, vload_t(x, from + i, d));
    if (i < n) vstore(y + i, vload_tn(x, from + i, n - i, d));
}
/* Columns from.. of a row as f32: the row itself, or a copy that can be read up to a multiple of VL. */
RT_INLINE const float *as_f32(const void *x, rt_dtype d, uint64_t from, uint32_t n, float *copy /* (ROW_BLOCK) */)
{
    if (d == RT_DTYPE_F32 && n == ROW_BLOCK) return (const float *)x + from;
    RT_FOR_FLOAT(d, D, widen_loop(copy, x, from, n, D));
    return copy;
}
/* y, columns from.., = x (n), x readable up to a multiple of VL */
RT_INLINE void narrow_loop(void *y, uint64_t from, const float *x, uint32_t n, rt_dtype d)
{
    uint32_t i = 0;
    for (; i + VL <= n; i += VL) vstore_t(y, from + i, vload(x + i), d);
    if (i < n) vstore_tn(y, from + i, vload(x + i), n - i, d);
}

/* ---- lanes ---- */
RT_INLINE vi vimax(vi a, vi b)
{
#if defined(RT_ISA_avx512)
    return (vi)_mm512_max_epi32((__m512i)a, (__m512i)b);
#elif defined(RT_ISA_avx2)
    return (vi)_mm256_max_epi32((__m256i)a, (__m256i)b);
#else
    vi m = a > b;
    return (a & m) | (b & ~m);
#endif
}
RT_INLINE vi viota(void)
{
    vi v;
    for (int i = 0; i < VL; i++) v[i] = i;
    return v;
}
/* Lanes i.. of a block that are columns, and those whose bit is set. */
RT_INLINE vi lanes_below(uint32_t n, uint32_t i) { return viota() < (vi){ 0 } + (int32_t)(n - i); }
RT_INLINE vi lanes_set(const uint32_t *bits, uint32_t i)
{
    vi one;
    for (int k = 0; k < VL; k++) one[k] = 1 << k;
    return (((vi){ 0 } + (int32_t)(bits[i / 32] >> i % 32)) & one) != 0;
}
/* In a fixed order, as vsum and vhmax are, in fewer instructions. */
RT_INLINE float block_sum(vf v)
{
#if defined(RT_ISA_avx512)
    return _mm512_reduce_add_ps((__m512)v);
#else
    return vsum(v);
#endif
}
RT_INLINE float block_max(vf v)
{
#if defined(RT_ISA_avx512)
    return _mm512_reduce_max_ps((__m512)v);
#else
    return vhmax(v);
#endif
}
RT_INLINE int32_t block_imax(vi v)
{
#if defined(RT_ISA_avx512)
    return _mm512_reduce_max_epi32((__m512i)v);
#else
    int32_t m = v[0];
    for (int i = 1; i < VL; i++) m = v[i] > m ? v[i] : m;
    return m;
#endif
}

/* x c - n, n near x c, as if x c were not rounded. Spelled out, because x c is also needed rounded and a compiler that
 * sees both may take the difference of the two rounded numbers. */
RT_INLINE vf mul_sub(vf x, float c, vf n)
{
#if defined(RT_ISA_avx512)
    return (vf)_mm512_fmsub_ps((__m512)x, _mm512_set1_ps(c), (__m512)n);
#elif defined(RT_ISA_avx2)
    return (vf)_mm256_fmsub_ps((__m256)x, _mm256_set1_ps(c), (__m256)n);
#elif defined(RT_ISA_neon)
    return (vf)vfmaq_n_f32((float32x4_t)-n, (float32x4_t)x, c);
#else /* without a fused multiply-add the halves are multiplied apart: their products are exact */
    float ch = rt_f32_from_bits(rt_f32_bits(c) & 0xfffff000u);
    vf xh = (vf)((vi)x & ~0xfff);
    return (xh * vset(ch) - n) + (xh * vset(c - ch) + (x - xh) * vset(c));
#endif
}

/* e[k] = 2^(x[k] c[k]) for k < count, x c <= 0. 2^(x c) = 2^n 2^r, n = round(x c), r = x c - n; 2^r on [-1/2,1/2] by a
 * polynomial with p(0) = 1 whose relative error is 2.6e-9 (minimax). Where c is the nearest f32 of what is meant, 2^-25
 * away at most, the result is within 1.2e-7 + 2^-25 |x c| of it, relatively. Not for NaN or infinity: see the careful
 * variant. Several at once and step by step, because one alone is a chain of dependent instructions longer than a core
 * looks ahead. */
RT_INLINE void exp2_fast(vf *e, const vf *x, const float *c, const int count)
{
    static const float poly[] = {
        0x1.5f7276p-10f, 0x1.3b270ep-7f, 0x1.c6ae72p-5f, 0x1.ebfbe2p-3f, 0x1.62e432p-1f, 1.0f
    };
    vf n[4], r[4], p[4];
    for (int k = 0; k < count; k++) {
#if defined(RT_ISA_avx512)
        n[k] = (vf)_mm512_roundscale_ps((__m512)(x[k] * vset(c[k])), _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
        r[k] = mul_sub(x[k], c[k], n[k]);
#else
        const vf magic = vset(0x1.8p23f); /* adding it rounds to an integer in the low mantissa bits */
        vf y = vmax(vset(-125.0f / c[k]), x[k]);
        n[k] = vfma(y, vset(c[k]), magic);
        r[k] = mul_sub(y, c[k], n[k] - magic);
#endif
    }
    for (int k = 0; k < count; k++) p[k] = vset(0x1.470b4ap-13f);
    for (int i = 0; i < 6; i++)
        for (int k = 0; k < count; k++) p[k] = vfma(p[k], r[k], vset(poly[i]));
    for (int k = 0; k < count; k++)
#if defined(RT_ISA_avx512)
        e[k] = (vf)_mm512_scalef_ps((__m512)p[k], (__m512)n[k]);
#else
        e[k] = (vf)((vu)p[k] + ((vu)n[k] << 23));
#endif
}
/* The same in the lanes of mask, 0 in the others; exactly 0 below 2^-125, NaN stays NaN. */
RT_INLINE vf exp2_careful(vf x, float c, vi mask)
{
    vf y = x * vset(c), e;
    exp2_fast(&e, &x, &c, 1);
    e = vselect(y > vset(-125.0f), e, vset(0.0f));
    return (vf)((vi)vselect(y == y, e, y) & mask);
}

#endif
