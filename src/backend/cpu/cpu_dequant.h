/* cpu_dequant.h - quantised blocks to f32, by vectors. Included by the kernels that read quantised weights.
 *
 * Owns: the unpacking of each layout (num/quant.h names them) for one ISA. The values are those of rt_quant_to_f32 bit
 * for bit: every product in them is exact in f32, so that contracting one with the subtraction changes nothing. */
#ifndef RT_BACKEND_CPU_CPU_DEQUANT_H
#define RT_BACKEND_CPU_CPU_DEQUANT_H

#include "backend/cpu/simd.h"

/* Bytes in GGML's blocks; half: 128 of the 256 elements of a K type. */
enum { Q8_0_BYTES = 34, Q4_0_BYTES = 18, Q4_K_BYTES = 144, Q5_K_BYTES = 176, Q6_K_BYTES = 210, HALF = 128 };

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

/* y (32) = d * q; q signed: its top bit flipped, it counts from -128 */
RT_INLINE void dequant_q8_0(float *y, const uint8_t *x)
{
    const vf d = vset(load_f16(x)), zero = vset(128.0f);
    put_centred(y, load_bytes(x + 2) ^ 128, d, zero);
    put_centred(y + 16, load_bytes(x + 18) ^ 128, d, zero);
}

/* y (32) = d * (q - 8) */
RT_INLINE void dequant_q4_0(float *y, const uint8_t *x)
{
    const vf d = vset(load_f16(x)), zero = vset(8.0f);
    const vb q = load_bytes(x + 2);
    put_centred(y, q & 15, d, zero);
    put_centred(y + 16, shift_right(q, 4) & 15, d, zero);
}

/* f (16) = the 6-bit factors of a Q4_K or Q5_K block: eight scales, then eight mins */
RT_INLINE void load_factors(float f[16], const uint8_t *s /* (12) */)
{
    uint32_t a, b, c, w[4];
    vf v[PARTS];
    memcpy(&a, s, 4);
    memcpy(&b, s + 4, 4);
    memcpy(&c, s + 8, 4);
    w[0] = a & 0x3f3f3f3fu;
    w[1] = (c & 0x0f0f0f0fu) | (a >> 2 & 0x30303030u);
    w[2] = b & 0x3f3f3f3fu;
    w[3] = (c >> 4 & 0x0f0f0f0fu) | (b >> 2 & 0x30303030u);
    widen_bytes(v, load_bytes((const uint8_t *)w));
    for (int i = 0; i < PARTS; i++) vstore(f + i * VL, v[i]);
}

/* y (128) = d * scale * q - dmin * min. five: Q5_K, whose fifth bits are in 32 bytes before the nibbles. */
RT_INLINE void dequant_affine(float *y, const uint8_t *x, int half, bool five)
{
    const float d = load_f16(x), dmin = load_f16(x + 2);
    const uint8_t *high = x + 16, *nibbles = x + 16 + (five ? 32 : 0) + 64 * half;
    float f[16];
    load_factors(f, x + 4);
    const float *scale = f + 4 * half, *min = scale + 8;
    for (int pair = 0; pair < 2; pair++, nibbles += 32, y += 64) {
        const uint8_t bit = (uint8_t)(1u << (4 * half + 2 * pair)); /* of the first group of the pair */
        const vf s0 = vset(d * scale[2 * pair]), m0 = vset(dmin * min[2 * pair]);
        const vf s1 = vset(d * scale[2 * pair + 1]), m1 = vset(dmin * min[2 * pair + 1]);
        for (int i = 0; i < 32; i += RUN) {
            vb q = load_bytes(nibbles + i), q0 = q & 15, q1 = shift_right(q, 4) & 15;
            if (five) {
                vb h = load_bytes(high + i);
                q0 |= (vb)((h & bit) != 0) & 16;
                q1 |= (vb)((h & (uint8_t)(bit << 1)) != 0) & 16;
            }
            put_affine(y + i, q0, s0, m0);
            put_affine(y + 32 + i, q1, s1, m1);
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

/* y (n) f32 = elements first .. first + n of the row x; both are multiples of 32, or of 128 for the K types. */
static inline __attribute__((unused)) void dequant_run(float *y, const void *x, rt_dtype d, uint64_t first, uint64_t n)
{
    const uint8_t *p = x;
    uint64_t i = first / HALF, end = (first + n) / HALF; /* halves, for the K types */
    switch (d) {
    case RT_DTYPE_Q8_0:
        p += first / 32 * Q8_0_BYTES;
        for (uint64_t b = 0; b < n / 32; b++) dequant_q8_0(y + 32 * b, p + Q8_0_BYTES * b);
        break;
    case RT_DTYPE_Q4_0:
        p += first / 32 * Q4_0_BYTES;
        for (uint64_t b = 0; b < n / 32; b++) dequant_q4_0(y + 32 * b, p + Q4_0_BYTES * b);
        break;
    case RT_DTYPE_Q4_K:
        for (; i < end; i++, y += HALF) dequant_affine(y, p + Q4_K_BYTES * (i / 2), (int)(i % 2), false);
        break;
    case RT_DTYPE_Q5_K:
        for (; i < end; i++, y += HALF) dequant_affine(y, p + Q5_K_BYTES * (i / 2), (int)(i % 2), true);
        break;
    case RT_DTYPE_Q6_K:
        for (; i < end; i++, y += HALF) dequant_q6_k(y, p + Q6_K_BYTES * (i / 2), (int)(i % 2));
        break;
    default: break;
    }
}

/* y (n) f32 = elements first .. first + n of the row x of any float or quantised dtype but F64. */
static inline __attribute__((unused)) void widen_run(float *y, const void *x, rt_dtype d, uint64_t first, uint64_t n)
{
    uint64_t i = 0;
    if (rt_dtype_is_quant(d)) {
        dequant_run(y, x, d, first, n);
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
