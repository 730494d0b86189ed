/* cuda_dequant.cuh - sixteen consecutive values of a quantised block: the layouts of num/quant_block.h on the device.
 *
 * Owns: the place of every bit. Sixteen values never cross a group, so they have one scale. Scales times small integers
 * are exact in f32 and only the last operation rounds, so contraction changes nothing and the values are those of
 * num/quant_*.c to the bit. A block may begin at any even byte. */
#ifndef RT_BACKEND_CUDA_KERNELS_CUDA_DEQUANT_CUH
#define RT_BACKEND_CUDA_KERNELS_CUDA_DEQUANT_CUH

#include "backend/cuda/kernels/cuda_common.cuh"

enum { RT_CUDA_RUN = 16 }; /* values that are decoded together */

/* Sixteen bytes in four words. */
struct Bytes {
    uint32_t w[4];
};

/* Where blocks lie: in global memory as stored, or in shared memory, where bytes before and behind may be read. */
struct Stored {
    const uint8_t *p;
    __device__ Stored operator+(uint64_t n) const { return { p + n }; }
    __device__ uint32_t operator[](uint32_t i) const { return p[i]; }
    __device__ uint32_t half_word() const { return *(const uint16_t *)p; }
    __device__ uint32_t word() const { return half_word() | (*this + 2).half_word() << 16; }
    __device__ Bytes bytes() const
    {
        return { { word(), (*this + 4).word(), (*this + 8).word(), (*this + 12).word() } };
    }
};
struct Staged {
    const uint8_t *p;
    __device__ Staged operator+(uint64_t n) const { return { p + n }; }
    __device__ uint32_t operator[](uint32_t i) const { return p[i]; }
    __device__ uint32_t half_word() const { return *(const uint16_t *)p; }
    __device__ uint32_t word() const { return half_word() | (*this + 2).half_word() << 16; }
    __device__ Bytes bytes() const /* five aligned words in place of eight half ones: fewer trips, fewer conflicts */
    {
        const uint32_t shift = (uint32_t)((uintptr_t)p & 2) * 8;
        const uint32_t *w = (const uint32_t *)(p - ((uintptr_t)p & 2));
        Bytes b;
        uint32_t low = w[0];
#pragma unroll
        for (int i = 0; i < 4; i++) {
            const uint32_t high = i < 3 || shift ? w[i + 1] : 0;
            b.w[i] = __funnelshift_r(low, high, shift);
            low = high;
        }
        return b;
    }
};
template <class At> RT_DEVICE float scale_at(At b) { return to_float(f16{ (uint16_t)b.half_word() }); }

/* Integer i of the sixteen. */
RT_DEVICE uint32_t byte_of(const Bytes &b, int i) { return b.w[i / 4] >> 8 * (i % 4) & 255; }

/* Bits shift.. of each byte, as many as `ones` has. */
RT_DEVICE Bytes bits_of(Bytes b, uint32_t shift, uint32_t ones)
{
#pragma unroll
    for (int i = 0; i < 4; i++) b.w[i] = b.w[i] >> shift & ones * 0x01010101u;
    return b;
}
/* low | high << n for each byte */
RT_DEVICE Bytes join_bits(Bytes low, const Bytes &high, uint32_t n)
{
#pragma unroll
    for (int i = 0; i < 4; i++) low.w[i] |= high.w[i] << n;
    return low;
}

/* v = d (q - zero) */
RT_DEVICE void put_scaled(float (&v)[RT_CUDA_RUN], const Bytes &q, float d, int zero)
{
#pragma unroll
    for (int i = 0; i < RT_CUDA_RUN; i++) v[i] = d * (float)((int)byte_of(q, i) - zero);
}
/* v = d q + m */
RT_DEVICE void put_affine(float (&v)[RT_CUDA_RUN], const Bytes &q, float d, float m)
{
#pragma unroll
    for (int i = 0; i < RT_CUDA_RUN; i++) v[i] = d * (float)byte_of(q, i) + m;
}
/* v = d times the place that q names, of the sixteen of IQ4 */
RT_DEVICE void put_places(float (&v)[RT_CUDA_RUN], const Bytes &q, float d)
{
    /* -127 -104 -83 -65, -49 -35 -22 -10, 1 13 25 38, 53 69 89 113 as bytes */
    const uint32_t place[4] = { 0xbfad9881u, 0xf6eaddcfu, 0x26190d01u, 0x71594535u };
#pragma unroll
    for (int i = 0; i < RT_CUDA_RUN; i++) {
        const uint32_t k = byte_of(q, i), w = k & 8 ? (k & 4 ? place[3] : place[2]) : (k & 4 ? place[1] : place[0]);
        v[i] = d * (float)(int8_t)(w >> 8 * (k & 3));
    }
}

/* The fifth bits of values e.. of a 32-bit word of them, bit i to bit 0 of byte i. */
RT_DEVICE Bytes fifth_bits(uint32_t word, uint32_t e)
{
    Bytes b;
    word >>= e;
#pragma unroll
    for (int i = 0; i < 4; i++) { /* four bits to four bytes; the products do not meet */
        const uint32_t n = word >> 4 * i & 15;
        b.w[i] = (n & 1) | (n & 2) << 7 | (n & 4) << 14 | (n & 8) << 21;
    }
    return b;
}

/* The 6-bit pair j of the twelve bytes of Q4_K and Q5_K. */
template <class At> RT_DEVICE void scale_min(At s, uint32_t j, uint32_t &scale, uint32_t &min)
{
    if (j < 4) {
        scale = s[j] & 63;
        min = s[j + 4] & 63;
    } else {
        scale = (s[j + 4] & 15) | (s[j - 4] >> 6) << 4;
        min = (s[j + 4] >> 4) | (s[j] >> 6) << 4;
    }
}
/* Groups of 32 with a scale and a min: the factors of value e. */
template <class At> RT_DEVICE void affine_factors(At b, uint32_t e, float &d, float &m)
{
    uint32_t scale, min;
    scale_min(b + 4, e / 32, scale, min);
    d = scale_at(b) * (float)scale;
    m = -(scale_at(b + 2) * (float)min);
}
/* Scale g of Q3_K in 0..63: the low four bits are nibble g / 8 of byte g % 8, the upper two bit pair g / 4 of byte
 * 8 + g % 4. */
template <class At> RT_DEVICE int scale_q3(At s, uint32_t g)
{
    return (s[g % 8] >> g / 8 * 4 & 15) | (s[8 + g % 4] >> g / 4 * 2 & 3) << 4;
}

/* ---- one function for each type: v = values e.. of the block b, e a multiple of 16 ---- */
typedef float Run[RT_CUDA_RUN];

template <class At> RT_DEVICE void decode_q8_0(Run &v, At b, uint32_t e)
{
    const Bytes q = (b + 2 + e).bytes();
    const float d = scale_at(b);
#pragma unroll
    for (int i = 0; i < RT_CUDA_RUN; i++) v[i] = d * (float)(int8_t)byte_of(q, i);
}
/* Blocks of 32: low nibbles are the first sixteen, high ones the others. */
template <class At> RT_DEVICE Bytes nibbles(At q, uint32_t e) { return bits_of(q.bytes(), e / 4, 15); }

template <class At> RT_DEVICE void decode_q4_0(Run &v, At b, uint32_t e)
{
    put_scaled(v, nibbles(b + 2, e), scale_at(b), 8);
}
template <class At> RT_DEVICE void decode_q4_1(Run &v, At b, uint32_t e)
{
    put_affine(v, nibbles(b + 4, e), scale_at(b), scale_at(b + 2));
}
template <class At> RT_DEVICE void decode_q5_0(Run &v, At b, uint32_t e)
{
    put_scaled(v, join_bits(nibbles(b + 6, e), fifth_bits((b + 2).word(), e), 4), scale_at(b), 16);
}
template <class At> RT_DEVICE void decode_q5_1(Run &v, At b, uint32_t e)
{
    put_affine(v, join_bits(nibbles(b + 8, e), fifth_bits((b + 4).word(), e), 4), scale_at(b), scale_at(b + 2));
}
template <class At> RT_DEVICE void decode_iq4_nl(Run &v, At b, uint32_t e)
{
    put_places(v, nibbles(b + 2, e), scale_at(b));
}
template <class At> RT_DEVICE void decode_iq4_xs(Run &v, At b, uint32_t e)
{
    const uint32_t g = e / 32, high = (b + 2).half_word();
    const int scale = (b[4 + g / 2] >> 4 * (g % 2) & 15) | (int)(high >> 2 * g & 3) << 4;
    put_places(v, nibbles(b + 8 + 16 * g, e % 32), scale_at(b) * (float)(scale - 32));
}
template <class At> RT_DEVICE void decode_q4_k(Run &v, At b, uint32_t e)
{
    float d, m;
    affine_factors(b, e, d, m);
    put_affine(v, bits_of((b + 16 + e / 64 * 32 + e % 32).bytes(), e / 32 % 2 * 4, 15), d, m);
}
template <class At> RT_DEVICE void decode_q5_k(Run &v, At b, uint32_t e)
{
    float d, m;
    affine_factors(b, e, d, m);
    const Bytes low = bits_of((b + 48 + e / 64 * 32 + e % 32).bytes(), e / 32 % 2 * 4, 15);
    put_affine(v, join_bits(low, bits_of((b + 16 + e % 32).bytes(), e / 32, 1), 4), d, m);
}
/* d scale is exact; its product with q may have 25 bits and is rounded, so the order of the two matters. */
template <class At> RT_DEVICE void decode_q6_k(Run &v, At b, uint32_t e)
{
    const uint32_t half = e / 128, part = e % 128 / 32, l = e % 32;
    const Bytes low = bits_of((b + 64 * half + (part & 1) * 32 + l).bytes(), part / 2 * 4, 15);
    const Bytes high = bits_of((b + 128 + 32 * half + l).bytes(), 2 * part, 3);
    put_scaled(v, join_bits(low, high, 4), scale_at(b + 208) * (float)(int8_t)b[192 + e / 16], 32);
}
template <class At> RT_DEVICE void decode_q2_k(Run &v, At b, uint32_t e)
{
    const uint32_t g = e / 16, s = b[g];
    const Bytes q = bits_of((b + 16 + g / 8 * 32 + g % 2 * 16).bytes(), g % 8 / 2 * 2, 3);
    put_affine(v, q, scale_at(b + 80) * (float)(s & 15), -(scale_at(b + 82) * (float)(s >> 4)));
}
template <class At> RT_DEVICE void decode_q3_k(Run &v, At b, uint32_t e)
{
    const uint32_t g = e / 16;
    const Bytes q = bits_of((b + 32 + g / 8 * 32 + g % 2 * 16).bytes(), g % 8 / 2 * 2, 3);
    const Bytes high = bits_of((b + g % 2 * 16).bytes(), g / 2, 1);
    put_scaled(v, join_bits(q, high, 2), scale_at(b + 108) * (float)(scale_q3(b + 96, g) - 32), 4);
}

/* name, elements, bytes of a block */
#define RT_FOR_QUANTS(X)                                                                                               \
    X(Q8_0, q8_0, 32, 34)                                                                                              \
    X(Q4_0, q4_0, 32, 18)                                                                                              \
    X(Q4_K, q4_k, 256, 144)                                                                                            \
    X(Q5_K, q5_k, 256, 176)                                                                                            \
    X(Q6_K, q6_k, 256, 210)                                                                                            \
    X(Q4_1, q4_1, 32, 20)                                                                                              \
    X(Q5_0, q5_0, 32, 22)                                                                                              \
    X(Q5_1, q5_1, 32, 24)                                                                                              \
    X(Q2_K, q2_k, 256, 84)                                                                                             \
    X(Q3_K, q3_k, 256, 110)                                                                                            \
    X(IQ4_NL, iq4_nl, 32, 18)                                                                                          \
    X(IQ4_XS, iq4_xs, 256, 136)

/* v = values e.. of a row of blocks, whatever the type; e a multiple of 16 */
template <class At> RT_DEVICE void decode_any(Run &v, At row, uint32_t dtype, uint64_t e)
{
    switch (dtype) {
#define X(NAME, name, elems, size)                                                                                     \
    case RT_DTYPE_##NAME: decode_##name(v, row + e / elems * size, (uint32_t)(e % elems)); break;
        RT_FOR_QUANTS(X)
#undef X
    default: break;
    }
}

#endif
