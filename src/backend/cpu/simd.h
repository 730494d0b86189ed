/* simd.h - one vector type per instruction set, and the few functions that kernels are written in.
 *
 * Owns: lanes (VL), loads and stores with conversion from and to f32/bf16/f16, partial rows, reductions in a fixed
 * tree, exp and log. Kernel files include it once and are compiled per ISA; everything here is static and inlined, so
 * no wide instruction can leak into another object. A dtype argument is meant to be a constant at the call: kernels are
 * written as always-inline bodies over `rt_dtype d` and instantiated by a switch outside the loop (RT_FOR_FLOAT). */
#ifndef RT_BACKEND_CPU_SIMD_H
#define RT_BACKEND_CPU_SIMD_H

#include "num/dtype.h"

#include <math.h>
#include <stdint.h>
#include <string.h>

#if defined(RT_ISA_avx512)
#include <immintrin.h>
enum { VL = 16 };
#elif defined(RT_ISA_avx2)
#include <immintrin.h>
enum { VL = 8 };
#elif defined(RT_ISA_neon)
#include <arm_neon.h>
enum { VL = 4 };
#else
enum { VL = 4 };
#endif

#define RT_INLINE static inline __attribute__((always_inline, unused))

#if defined(RT_ISA_avx512)
typedef float vf __attribute__((vector_size(64)));
typedef int32_t vi __attribute__((vector_size(64)));
typedef uint32_t vu __attribute__((vector_size(64)));
typedef uint16_t vh __attribute__((vector_size(32)));
#elif defined(RT_ISA_avx2)
typedef float vf __attribute__((vector_size(32)));
typedef int32_t vi __attribute__((vector_size(32)));
typedef uint32_t vu __attribute__((vector_size(32)));
typedef uint16_t vh __attribute__((vector_size(16)));
#else
typedef float vf __attribute__((vector_size(16)));
typedef int32_t vi __attribute__((vector_size(16)));
typedef uint32_t vu __attribute__((vector_size(16)));
typedef uint16_t vh __attribute__((vector_size(8)));
#endif

RT_INLINE vf vset(float x) { return x - (vf){ 0 }; }
RT_INLINE vf vload(const float *p)
{
    vf v;
    memcpy(&v, p, sizeof v);
    return v;
}
RT_INLINE void vstore(float *p, vf v) { memcpy(p, &v, sizeof v); }
/* The first n < VL lanes; the others are 0 (load) or untouched (store). */
RT_INLINE vf vload_n(const float *p, uint32_t n)
{
    vf v = { 0 };
    memcpy(&v, p, n * sizeof(float));
    return v;
}
RT_INLINE void vstore_n(float *p, vf v, uint32_t n) { memcpy(p, &v, n * sizeof(float)); }

/* mask: all ones or all zeros per lane, as comparisons give */
RT_INLINE vf vselect(vi mask, vf a, vf b) { return (vf)(((vi)a & mask) | ((vi)b & ~mask)); }

/* a*b + c: kernel objects allow contraction, so this is one instruction where the ISA has it */
RT_INLINE vf vfma(vf a, vf b, vf c) { return a * b + c; }

/* A NaN in a is lost, a NaN in b is kept (as x86 does): callers that must see NaN test for it themselves. */
RT_INLINE vf vmax(vf a, vf b)
{
#if defined(RT_ISA_avx512)
    return (vf)_mm512_max_ps((__m512)a, (__m512)b);
#elif defined(RT_ISA_avx2)
    return (vf)_mm256_max_ps((__m256)a, (__m256)b);
#else
    return vselect(a > b, a, b);
#endif
}
RT_INLINE vf vmin(vf a, vf b)
{
#if defined(RT_ISA_avx512)
    return (vf)_mm512_min_ps((__m512)a, (__m512)b);
#elif defined(RT_ISA_avx2)
    return (vf)_mm256_min_ps((__m256)a, (__m256)b);
#else
    return vselect(a < b, a, b);
#endif
}

RT_INLINE vf vsqrt(vf a)
{
#if defined(RT_ISA_avx512)
    return (vf)_mm512_sqrt_ps((__m512)a);
#elif defined(RT_ISA_avx2)
    return (vf)_mm256_sqrt_ps((__m256)a);
#elif defined(RT_ISA_neon)
    return (vf)vsqrtq_f32((float32x4_t)a);
#else
    vf r;
    for (int i = 0; i < VL; i++) r[i] = sqrtf(a[i]);
    return r;
#endif
}

/* Sums and maxima over lanes: halves folded onto each other, always in the same order. */
RT_INLINE float vsum(vf v)
{
#if defined(RT_ISA_avx512) || defined(RT_ISA_avx2)
#if defined(RT_ISA_avx512)
    __m256 y = _mm256_add_ps(_mm512_castps512_ps256((__m512)v), _mm512_extractf32x8_ps((__m512)v, 1));
#else
    __m256 y = (__m256)v;
#endif
    __m128 x = _mm_add_ps(_mm256_castps256_ps128(y), _mm256_extractf128_ps(y, 1));
    x = _mm_add_ps(x, _mm_movehl_ps(x, x));
    return _mm_cvtss_f32(_mm_add_ss(x, _mm_shuffle_ps(x, x, 1)));
#else
    float t[VL];
    vstore(t, v);
    for (int w = VL / 2; w > 0; w /= 2)
        for (int i = 0; i < w; i++) t[i] += t[i + w];
    return t[0];
#endif
}
RT_INLINE float vhmax(vf v)
{
    float t[VL];
    vstore(t, v);
    for (int w = VL / 2; w > 0; w /= 2)
        for (int i = 0; i < w; i++) t[i] = t[i + w] > t[i] ? t[i + w] : t[i];
    return t[0];
}

/* ---- conversion ---- */
RT_INLINE vu v_widen_u16(vh h)
{
#if defined(RT_ISA_avx512)
    return (vu)_mm512_cvtepu16_epi32((__m256i)h);
#elif defined(RT_ISA_avx2)
    return (vu)_mm256_cvtepu16_epi32((__m128i)h);
#else
    return __builtin_convertvector(h, vu);
#endif
}
/* lanes below 2^16 */
RT_INLINE vh v_narrow_u16(vu x)
{
#if defined(RT_ISA_avx512)
    return (vh)_mm512_cvtepi32_epi16((__m512i)x);
#elif defined(RT_ISA_avx2)
    __m256i p = _mm256_permute4x64_epi64(_mm256_packus_epi32((__m256i)x, (__m256i)x), 0x08);
    return (vh)_mm256_castsi256_si128(p);
#else
    return __builtin_convertvector(x, vh);
#endif
}
RT_INLINE vf v_from_bf16(vh h) { return (vf)(v_widen_u16(h) << 16); }
RT_INLINE vh v_to_bf16(vf x)
{
    vu u = (vu)x;
    vu r = (u + 0x7fffu + ((u >> 16) & 1u)) >> 16;
    vu nan = (u >> 16) | 0x40u;
    vi is_nan = (vi)((u & 0x7fffffffu) > 0x7f800000u);
    return v_narrow_u16((r & ~(vu)is_nan) | (nan & (vu)is_nan));
}
RT_INLINE vf v_from_f16(vh h)
{
#if defined(RT_ISA_avx512)
    return (vf)_mm512_cvtph_ps((__m256i)h);
#elif defined(RT_ISA_avx2)
    return (vf)_mm256_cvtph_ps((__m128i)h);
#elif defined(RT_ISA_neon)
    return (vf)vcvt_f32_f16((float16x4_t)h);
#else
    vf v;
    for (int i = 0; i < VL; i++) v[i] = rt_f16_to_f32(h[i]);
    return v;
#endif
}
RT_INLINE vh v_to_f16(vf x)
{
#if defined(RT_ISA_avx512)
    return (vh)_mm512_cvtps_ph((__m512)x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
#elif defined(RT_ISA_avx2)
    return (vh)_mm256_cvtps_ph((__m256)x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
#elif defined(RT_ISA_neon)
    return (vh)vcvt_f16_f32((float32x4_t)x);
#else
    vh h;
    for (int i = 0; i < VL; i++) h[i] = rt_f16_from_f32(x[i]);
    return h;
#endif
}

/* Element i of a row of dtype d (F32, BF16 or F16): VL lanes, or the first n < VL. */
RT_INLINE vf vload_t(const void *p, uint64_t i, rt_dtype d)
{
    vh h;
    if (d == RT_DTYPE_F32) return vload((const float *)p + i);
    memcpy(&h, (const uint16_t *)p + i, sizeof h);
    return d == RT_DTYPE_BF16 ? v_from_bf16(h) : v_from_f16(h);
}
RT_INLINE vf vload_tn(const void *p, uint64_t i, uint32_t n, rt_dtype d)
{
    vh h = { 0 };
    if (d == RT_DTYPE_F32) return vload_n((const float *)p + i, n);
    memcpy(&h, (const uint16_t *)p + i, n * sizeof(uint16_t));
    return d == RT_DTYPE_BF16 ? v_from_bf16(h) : v_from_f16(h);
}
RT_INLINE void vstore_t(void *p, uint64_t i, vf v, rt_dtype d)
{
    if (d == RT_DTYPE_F32) {
        vstore((float *)p + i, v);
    } else {
        vh h = d == RT_DTYPE_BF16 ? v_to_bf16(v) : v_to_f16(v);
        memcpy((uint16_t *)p + i, &h, sizeof h);
    }
}
RT_INLINE void vstore_tn(void *p, uint64_t i, vf v, uint32_t n, rt_dtype d)
{
    if (d == RT_DTYPE_F32) {
        vstore_n((float *)p + i, v, n);
    } else {
        vh h = d == RT_DTYPE_BF16 ? v_to_bf16(v) : v_to_f16(v);
        memcpy((uint16_t *)p + i, &h, n * sizeof(uint16_t));
    }
}
RT_INLINE float load_t(const void *p, uint64_t i, rt_dtype d)
{
    if (d == RT_DTYPE_F32) return ((const float *)p)[i];
    uint16_t h = ((const uint16_t *)p)[i];
    return d == RT_DTYPE_BF16 ? rt_bf16_to_f32(h) : rt_f16_to_f32(h);
}
RT_INLINE void store_t(void *p, uint64_t i, float x, rt_dtype d)
{
    if (d == RT_DTYPE_F32)
        ((float *)p)[i] = x;
    else
        ((uint16_t *)p)[i] = d == RT_DTYPE_BF16 ? rt_bf16_from_f32(x) : rt_f16_from_f32(x);
}

/* Instantiates a statement for each float storage dtype: RT_FOR_FLOAT(dtype, D, body(args, D)); */
#define RT_FOR_FLOAT(value, D, statement)                                                                              \
    do {                                                                                                               \
        switch (value) {                                                                                               \
        case RT_DTYPE_F32: {                                                                                           \
            const rt_dtype D = RT_DTYPE_F32;                                                                           \
            statement;                                                                                                 \
        } break;                                                                                                       \
        case RT_DTYPE_BF16: {                                                                                          \
            const rt_dtype D = RT_DTYPE_BF16;                                                                          \
            statement;                                                                                                 \
        } break;                                                                                                       \
        default: {                                                                                                     \
            const rt_dtype D = RT_DTYPE_F16;                                                                           \
            statement;                                                                                                 \
        } break;                                                                                                       \
        }                                                                                                              \
    } while (0)

/* ---- exp and log: below 2 units in the last place of f32 over the whole range; NaN stays NaN ---- */
/* p * 2^n for p near 1 and n a whole number from -150 to 129. A result below the normal numbers comes out rounded and
 * not flushed; without an instruction for it 2^n is applied in two halves, each of them a normal number. */
RT_INLINE vf vscale2(vf p, vf n)
{
#if defined(RT_ISA_avx512)
    return (vf)_mm512_scalef_ps((__m512)p, (__m512)n);
#else
    vi k = __builtin_convertvector(n, vi), h = k >> 1, l = k - h;
    return p * (vf)((h + 127) << 23) * (vf)((l + 127) << 23);
#endif
}

/* exp(x) = 2^n * exp(r), n = round(x/ln2), |r| <= ln2/2; exp(r) = 1 + r + r^2 q(r) with the minimax q of degree 4
 * (relative error 3.1e-9). Above 88.73 it is infinity. The order of operands in vmax and vmin keeps a NaN. */
RT_INLINE vf vexp(vf x)
{
    const vf log2e = vset(0x1.715476p+0f), ln2_hi = vset(0x1.62e400p-1f), ln2_lo = vset(0x1.7f7d1cp-20f);
    const vf magic = vset(0x1.8p23f); /* adding and subtracting it rounds to a whole number */
    vf c = vmin(vset(89.0f), vmax(vset(-104.0f), x));
    vf n = vfma(c, log2e, magic) - magic;
    vf r = vfma(-n, ln2_lo, vfma(-n, ln2_hi, c));
    vf p = vset(0x1.6a2352p-10f);
    p = vfma(p, r, vset(0x1.123a6cp-7f));
    p = vfma(p, r, vset(0x1.5558f4p-5f));
    p = vfma(p, r, vset(0x1.555490p-3f));
    p = vfma(p, r, vset(0x1.fffffcp-2f));
    p = vfma(p, r, vset(1.0f));
    p = vfma(p, r, vset(1.0f));
    return vscale2(p, n);
}

/* log(x) for x > 0: x = 2^n * m, m in [sqrt(1/2), sqrt(2)); log m = 2 atanh(s), s = (m-1)/(m+1), |s| <= 0.1716, by its
 * odd series to s^9. 0 gives -inf, negative gives NaN, inf and NaN stay. */
RT_INLINE vf vlog(vf x)
{
    const vf ln2_hi = vset(0x1.62e400p-1f), ln2_lo = vset(0x1.7f7d1cp-20f);
    vi tiny = x < vset(0x1p-126f);
    vf y = vselect(tiny, x * vset(0x1p24f), x);
    vi u = (vi)y - 0x3f3504f3; /* bits of sqrt(1/2) */
    vi n = u >> 23;
    vf m = (vf)((u & 0x7fffff) + 0x3f3504f3);
    n = n - (tiny & 24);
    vf nf = __builtin_convertvector(n, vf);
    vf f = m - vset(1.0f);
    vf s = f / (m + vset(1.0f)), z = s * s;
    vf q = vset(2.0f / 9.0f);
    q = vfma(q, z, vset(2.0f / 7.0f));
    q = vfma(q, z, vset(2.0f / 5.0f));
    q = vfma(q, z, vset(2.0f / 3.0f));
    q = q * z;
    /* log m = f - s*(f - q): keeps the leading term exact */
    vf r = vfma(nf, ln2_hi, f - (s * (f - q) - nf * ln2_lo));
    r = vselect(x == vset(INFINITY), x, r);
    r = vselect(x == vset(0.0f), vset(-INFINITY), r);
    return vselect((x < vset(0.0f)) | (x != x), vset(NAN), r);
}

#endif
