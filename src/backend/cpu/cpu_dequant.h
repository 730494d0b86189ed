/* cpu_dequant.h - quantised blocks to f32, by vectors. Included by the kernels that read quantised weights.
 *
 * Owns: the unpacking of each layout (num/quant.h names them) for one ISA. The values are those of rt_quant_to_f32 bit
 * for bit: every product in them is exact in f32, so that contracting one with the subtraction changes nothing. */
#ifndef RT_BACKEND_CPU_CPU_DEQUANT_H
#define RT_BACKEND_CPU_CPU_DEQUANT_H

#include "backend/cpu/simd.h"
#include "num/e4m3.h"

/* Bytes of a block, as constants. */
enum {
#define X(kind, name, block, bytes, cls) BYTES_##kind = bytes,
    RT_DTYPE_LIST(X)
#undef X
};

enum { HALF = 128 }; /* of the 256 elements of a super-block: what can be had alone */

/* All layouts come in runs of 16 bytes. */
typedef uint8_t vb __attribute__((vector_size(16)));
typedef uint16_t vb2 __attribute__((vector_size(16)));
enum { RUN = 16, PARTS = RUN / VL };

RT_INLINE vb load_bytes(const uint8_t *p)
{
    vb v;
    memcpy(&v, p, sizeof v);
    return v;
}
/* Shifts of bytes for those who mask off what comes in from the byte beside. */
RT_INLINE vb shift_left(vb v, int n) { return (vb)((vb2)v << n); }
RT_INLINE vb shift_right(vb v, int n) { return (vb)((vb2)v >> n); }

RT_INLINE float load_f16(const uint8_t *p)
{
    uint16_t h;
    memcpy(&h, p, sizeof h);
#if defined(RT_ISA_avx512) || defined(RT_ISA_avx2)
    return _cvtsh_ss(h);
#elif defined(RT_ISA_neon)
    return v_from_f16((vh){ h })[0];
#else
    return rt_f16_to_f32(h);
#endif
}

/* Two neighbours at once. */
RT_INLINE void load_f16_pair(float *a, float *b, const uint8_t *x)
{
#if defined(RT_ISA_avx512) || defined(RT_ISA_avx2)
    int32_t both;
    memcpy(&both, x, sizeof both);
    const __m128 v = _mm_cvtph_ps(_mm_cvtsi32_si128(both));
    *a = v[0];
    *b = v[1];
#else
    *a = load_f16(x);
    *b = load_f16(x + 2);
#endif
}

/* f (16) = q. Widening bytes fourfold in one step is what compilers turn into single bytes; so by instructions, or
 * twice twofold. */
RT_INLINE void widen_bytes(vf f[PARTS], vb q)
{
#if defined(RT_ISA_avx512)
    f[0] = (vf)_mm512_cvtepi32_ps(_mm512_cvtepu8_epi32((__m128i)q));
#elif defined(RT_ISA_avx2)
    f[0] = (vf)_mm256_cvtepi32_ps(_mm256_cvtepu8_epi32((__m128i)q));
    f[1] = (vf)_mm256_cvtepi32_ps(_mm256_cvtepu8_epi32(_mm_srli_si128((__m128i)q, 8)));
#elif defined(RT_ISA_neon)
    uint16x8_t low = vmovl_u8(vget_low_u8((uint8x16_t)q)), high = vmovl_u8(vget_high_u8((uint8x16_t)q));
    f[0] = (vf)vcvtq_f32_u32(vmovl_u16(vget_low_u16(low)));
    f[1] = (vf)vcvtq_f32_u32(vmovl_u16(vget_high_u16(low)));
    f[2] = (vf)vcvtq_f32_u32(vmovl_u16(vget_low_u16(high)));
    f[3] = (vf)vcvtq_f32_u32(vmovl_u16(vget_high_u16(high)));
#else
    const vb2 even = (vb2)q & 255, odd = (vb2)q >> 8; /* bytes 0 2 4 ..., 1 3 5 ... */
    for (int i = 0; i < PARTS; i++)
        f[i] = __builtin_convertvector((vi){ even[2 * i], odd[2 * i], even[2 * i + 1], odd[2 * i + 1] }, vf);
#endif
}

/* y (16) = s * q - m */
RT_INLINE void put_affine(float *y, vb q, vf s, vf m)
{
    vf f[PARTS];
    widen_bytes(f, q);
    for (int i = 0; i < PARTS; i++) vstore(y + i * VL, s * f[i] - m);
}

/* y (16) = s * (q - zero) */
RT_INLINE void put_centred(float *y, vb q, vf s, vf zero)
{
    vf f[PARTS];
    widen_bytes(f, q);
    for (int i = 0; i < PARTS; i++) vstore(y + i * VL, s * (f[i] - zero));
}

/* low (16) = s0 * (q - zero) - m0 of the lower nibbles, high (16) = s1 * (q - zero) - m1 of the upper ones. Sixteen
 * values fit one register of AVX-512, where a nibble is the index of its value. */
RT_INLINE void put_nibbles(float *low, float *high, vb q, float zero, float s0, float m0, float s1, float m1)
{
#if defined(RT_ISA_avx512)
    const vf place = { 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15 }, count = place - zero;
    const __m512i i = _mm512_cvtepu8_epi32((__m128i)q);
    vstore(low, (vf)_mm512_permutexvar_ps(i, (__m512)(s0 * count - m0)));
    vstore(high, (vf)_mm512_permutexvar_ps(_mm512_srli_epi32(i, 4), (__m512)(s1 * count - m1)));
#else
    vf a[PARTS], b[PARTS];
    widen_bytes(a, q & 15);
    widen_bytes(b, shift_right(q, 4) & 15);
    for (int i = 0; i < PARTS; i++) vstore(low + i * VL, s0 * (a[i] - zero) - m0);
    for (int i = 0; i < PARTS; i++) vstore(high + i * VL, s1 * (b[i] - zero) - m1);
#endif
}

/* y (32) = d * q; q signed: where no instruction widens it, its top bit flipped, it counts from -128 */
RT_INLINE void dequant_q8_0(float *y, const uint8_t *x)
{
#if defined(RT_ISA_avx512)
    const vf s = vset(load_f16(x));
    vstore(y, s * (vf)_mm512_cvtepi32_ps(_mm512_cvtepi8_epi32((__m128i)load_bytes(x + 2))));
    vstore(y + VL, s * (vf)_mm512_cvtepi32_ps(_mm512_cvtepi8_epi32((__m128i)load_bytes(x + 2 + VL))));
#else
    const vf d = vset(load_f16(x)), zero = vset(128.0f);
    put_centred(y, load_bytes(x + 2) ^ 128, d, zero);
    put_centred(y + 16, load_bytes(x + 18) ^ 128, d, zero);
#endif
}

/* y (32) = d * (q - 8) */
RT_INLINE void dequant_q4_0(float *y, const uint8_t *x)
{
    const float d = load_f16(x);
    put_nibbles(y, y + 16, load_bytes(x + 2), 8, d, 0, d, 0);
}

/* The sixteen fifth bits that begin at `bits`, a byte for each, in its place */
RT_INLINE vb fifth_bits(const uint8_t *bits /* (2) */)
{
    const uint64_t each = 0x0101010101010101u;
    const vb place = { 1, 2, 4, 8, 16, 32, 64, 128, 1, 2, 4, 8, 16, 32, 64, 128 };
    uint64_t both[2] = { bits[0] * each, bits[1] * each };
    vb h;
    memcpy(&h, both, sizeof h);
    return (vb)((h & place) != 0) & 16;
}

/* y (32) = d * (q - 16) */
RT_INLINE void dequant_q5_0(float *y, const uint8_t *x)
{
    const vf d = vset(load_f16(x)), zero = vset(16.0f);
    const vb q = load_bytes(x + 6);
    put_centred(y, (q & 15) | fifth_bits(x + 2), d, zero);
    put_centred(y + 16, (shift_right(q, 4) & 15) | fifth_bits(x + 4), d, zero);
}

/* y (32) = d * q + m. five: Q5_1, whose fifth bits are in 4 bytes before the nibbles. */
RT_INLINE void dequant_offset(float *y, const uint8_t *x, bool five)
{
    float d, m;
    load_f16_pair(&d, &m, x);
    m = -m;
    const vb q = load_bytes(x + (five ? 8 : 4));
    if (!five) {
        put_nibbles(y, y + 16, q, 0, d, m, d, m);
        return;
    }
    put_affine(y, (q & 15) | fifth_bits(x + 4), vset(d), vset(m));
    put_affine(y + 16, (shift_right(q, 4) & 15) | fifth_bits(x + 6), vset(d), vset(m));
}

/* The places of IQ4_NL's integers (rt_quant_to_f32 has them as signed numbers), counted from -128 */
RT_INLINE vb iq4_places(vb q)
{
    const vb place = { 1, 24, 45, 63, 79, 93, 106, 118, 129, 141, 153, 166, 181, 197, 217, 241 };
#if defined(RT_ISA_avx512) || defined(RT_ISA_avx2)
    return (vb)_mm_shuffle_epi8((__m128i)place, (__m128i)q);
#elif defined(RT_ISA_neon)
    return (vb)vqtbl1q_u8((uint8x16_t)place, (uint8x16_t)q);
#else
    vb v;
    for (int i = 0; i < RUN; i++) v[i] = place[q[i]];
    return v;
#endif
}

/* y (32) = d * place of q; q: 16 bytes */
RT_INLINE void put_iq4(float *y, const uint8_t *nibbles, float scale)
{
    const vf d = vset(scale), zero = vset(128.0f);
    const vb q = load_bytes(nibbles);
    put_centred(y, iq4_places(q & 15), d, zero);
    put_centred(y + 16, iq4_places(shift_right(q, 4) & 15), d, zero);
}

/* y (128) = d * scale * place of q, a scale for every 32 */
RT_INLINE void dequant_iq4_xs(float *y, const uint8_t *x, int half)
{
    const float d = load_f16(x);
    for (int g = 4 * half; g < 4 * half + 4; g++, y += 32) {
        int low = x[4 + g / 2] >> 4 * (g % 2) & 15, high = x[2 + g / 4] >> 2 * (g % 4) & 3;
        put_iq4(y, x + 8 + 16 * g, d * (float)((low | high << 4) - 32));
    }
}

/* y (128) = d * scale * q - dmin * min, scale and min for every 16 */
RT_INLINE void dequant_q2_k(float *y, const uint8_t *x, int half)
{
    const float d = load_f16(x + 80), dmin = load_f16(x + 82);
    const uint8_t *s = x + 8 * half, *q = x + 16 + 32 * half;
    for (int i = 0; i < 2; i++, q += RUN, y += RUN, s++) {
        const vb v = load_bytes(q);
        for (int part = 0; part < 4; part++) {
            const uint8_t f = s[2 * part];
            put_affine(y + 32 * part, shift_right(v, 2 * part) & 3, vset(d * (float)(f & 15)),
                       vset(dmin * (float)(f >> 4)));
        }
    }
}

/* f (16) = d * (the 6-bit scales of a Q3_K block - 32) */
RT_INLINE void load_scales_q3(float f[16], const uint8_t *s /* (12) */, float d)
{
    uint32_t a, b, c, w[4];
    memcpy(&a, s, 4);
    memcpy(&b, s + 4, 4);
    memcpy(&c, s + 8, 4);
    w[0] = (a & 0x0f0f0f0fu) | (c & 0x03030303u) << 4;
    w[1] = (b & 0x0f0f0f0fu) | (c >> 2 & 0x03030303u) << 4;
    w[2] = (a >> 4 & 0x0f0f0f0fu) | (c >> 4 & 0x03030303u) << 4;
    w[3] = (b >> 4 & 0x0f0f0f0fu) | (c >> 6 & 0x03030303u) << 4;
    put_centred(f, load_bytes((const uint8_t *)w), vset(d), vset(32.0f));
}

/* y (128) = d * scale * (q - 4), a scale for every 16 */
RT_INLINE void dequant_q3_k(float *y, const uint8_t *x, int half)
{
    const uint8_t *high = x, *q = x + 32 + 32 * half;
    const vf zero = vset(4.0f);
    float scales[16], *s = scales + 8 * half;
    load_scales_q3(scales, x + 96, load_f16(x + 108));
    for (int i = 0; i < 2; i++, q += RUN, high += RUN, y += RUN, s++) {
        const vb v = load_bytes(q), h = load_bytes(high);
        for (int part = 0; part < 4; part++) {
            const uint8_t bit = (uint8_t)(1u << (4 * half + part));
            vb t = (shift_right(v, 2 * part) & 3) | ((vb)((h & bit) != 0) & 4);
            put_centred(y + 32 * part, t, vset(s[2 * part]), zero);
        }
    }
}

/* The 6-bit factors of a Q4_K or Q5_K block: eight scales, then eight mins */
RT_INLINE vb factor_bytes(const uint8_t *s /* (12) */)
{
    uint32_t a, b, c, w[4];
    memcpy(&a, s, 4);
    memcpy(&b, s + 4, 4);
    memcpy(&c, s + 8, 4);
    w[0] = a & 0x3f3f3f3fu;
    w[1] = (c & 0x0f0f0f0fu) | (a >> 2 & 0x30303030u);
    w[2] = b & 0x3f3f3f3fu;
    w[3] = (c >> 4 & 0x0f0f0f0fu) | (b >> 2 & 0x30303030u);
    return load_bytes((const uint8_t *)w);
}

/* The same as f32 */
RT_INLINE void load_factors(float f[16], const uint8_t *s /* (12) */)
{
    vf v[PARTS];
    widen_bytes(v, factor_bytes(s));
    for (int i = 0; i < PARTS; i++) vstore(f + i * VL, v[i]);
}

/* y (128) = d * scale * q - dmin * min. five: Q5_K, whose fifth bits are in 32 bytes before the nibbles. */
RT_INLINE void dequant_affine(float *y, const uint8_t *x, int half, bool five)
{
    float d, dmin;
    load_f16_pair(&d, &dmin, x);
    const uint8_t *high = x + 16, *nibbles = x + 16 + (five ? 32 : 0) + 64 * half;
    float f[16];
    load_factors(f, x + 4);
    const float *scale = f + 4 * half, *min = scale + 8;
    for (int pair = 0; pair < 2; pair++, nibbles += 32, y += 64) {
        const uint8_t bit = (uint8_t)(1u << (4 * half + 2 * pair)); /* of the first group of the pair */
        const float s0 = d * scale[2 * pair], m0 = dmin * min[2 * pair];
        const float s1 = d * scale[2 * pair + 1], m1 = dmin * min[2 * pair + 1];
        for (int i = 0; i < 32; i += RUN) {
            const vb q = load_bytes(nibbles + i);
            if (!five) {
                put_nibbles(y + i, y + 32 + i, q, 0, s0, m0, s1, m1);
                continue;
            }
            const vb h = load_bytes(high + i), h0 = (vb)((h & bit) != 0), h1 = (vb)((h & (uint8_t)(bit << 1)) != 0);
            put_affine(y + i, (q & 15) | (h0 & 16), vset(s0), vset(m0));
            put_affine(y + 32 + i, (shift_right(q, 4) & 15) | (h1 & 16), vset(s1), vset(m1));
        }
    }
}

/* y (128) = d * scale * (q - 32), a scale for every 16 */
RT_INLINE void dequant_q6_k(float *y, const uint8_t *x, int half)
{
    const float d = load_f16(x + 208);
    const uint8_t *low = x + 64 * half, *high = x + 128 + 32 * half;
    const vf zero = vset(32.0f);
    float scales[16], *s = scales + 8 * half; /* signed, as in Q8_0 */
    put_centred(scales, load_bytes(x + 192) ^ 128, vset(d), vset(128.0f));
    for (int i = 0; i < 2; i++, low += RUN, high += RUN, y += RUN) {
        const vb a = load_bytes(low), b = load_bytes(low + 32), h = load_bytes(high);
        put_centred(y, (a & 15) | (shift_left(h, 4) & 48), vset(s[i]), zero);
        put_centred(y + 32, (b & 15) | (shift_left(h, 2) & 48), vset(s[2 + i]), zero);
        put_centred(y + 64, (shift_right(a, 4) & 15) | (h & 48), vset(s[4 + i]), zero);
        put_centred(y + 96, (shift_right(b, 4) & 15) | (shift_right(h, 2) & 48), vset(s[6 + i]), zero);
    }
}

/* y (n) f32 = elements first .. first + n of the row x; both are multiples of 32, or of 128 where blocks have 256. */
static inline __attribute__((unused)) void dequant_run(float *y, const void *x, rt_dtype d, uint64_t first, uint64_t n)
{
    const uint32_t elems = rt_dtype_table[d].block_elems, bytes = rt_dtype_table[d].block_bytes;
    const uint32_t unit = elems == 32 ? 32 : HALF;
    const uint64_t begin = first / unit, end = (first + n) / unit;
/* the units in turn: p is the block of each, half which part of it */
#define EACH(call)                                                                                                     \
    for (uint64_t i = begin; i < end; i++, y += unit) {                                                                \
        const uint8_t *p = (const uint8_t *)x + i * unit / elems * bytes;                                              \
        const int half = (int)(i % 2);                                                                                 \
        (void)half;                                                                                                    \
        call;                                                                                                          \
    }                                                                                                                  \
    break
    switch (d) {
    case RT_DTYPE_Q8_0: EACH(dequant_q8_0(y, p));
    case RT_DTYPE_Q4_0: EACH(dequant_q4_0(y, p));
    case RT_DTYPE_Q4_1: EACH(dequant_offset(y, p, false));
    case RT_DTYPE_Q5_0: EACH(dequant_q5_0(y, p));
    case RT_DTYPE_Q5_1: EACH(dequant_offset(y, p, true));
    case RT_DTYPE_IQ4_NL: EACH(put_iq4(y, p + 2, load_f16(p)));
    case RT_DTYPE_Q2_K: EACH(dequant_q2_k(y, p, half));
    case RT_DTYPE_Q3_K: EACH(dequant_q3_k(y, p, half));
    case RT_DTYPE_Q4_K: EACH(dequant_affine(y, p, half, false));
    case RT_DTYPE_Q5_K: EACH(dequant_affine(y, p, half, true));
    case RT_DTYPE_Q6_K: EACH(dequant_q6_k(y, p, half));
    case RT_DTYPE_IQ4_XS: EACH(dequant_iq4_xs(y, p, half));
    default: break;
    }
#undef EACH
}

/* y (n) f32 = elements first .. first + n of the row x of e4m3, or of any float or quantised dtype but F64. */
static inline __attribute__((unused)) void widen_run(float *y, const void *x, rt_dtype d, uint64_t first, uint64_t n)
{
    uint64_t i = 0;
    if (rt_dtype_is_quant(d)) {
        dequant_run(y, x, d, first, n);
        return;
    }
    if (d == RT_DTYPE_E4M3) {
        for (; i < n; i++) y[i] = rt_e4m3_values[((const uint8_t *)x)[first + i]];
        return;
    }
    RT_FOR_FLOAT(d, D, {
        for (; i + VL <= n; i += VL) vstore(y + i, vload_t(x, first + i, D));
        for (; i < n; i++) y[i] = load_t(x, first + i, D);
    });
}

/* Bytes from one row of an operand to the next. */
RT_INLINE uint64_t row_bytes(rt_dtype d, uint64_t stride) { return rt_dtype_bytes(d, stride); }

#endif
