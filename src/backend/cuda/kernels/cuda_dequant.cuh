/* cuda_dequant.cuh - eight consecutive values of a quantised block: the layouts of num/quant_block.h on the device.
 *
 * Owns: the place of every bit. Eight values never cross a group, so they have one scale. Scales times small integers
 * are exact in f32 and only the last operation rounds, so contraction changes nothing and the values are those of
 * num/quant_*.c to the bit. Buffers begin on 256-byte boundaries, so a block lies on a multiple of the largest power of
 * two in its size: 16 bytes for Q4_K and Q5_K, 8 for IQ4_XS and Q5_1, 4 for Q2_K and Q4_1, 2 for the others. */
#ifndef RT_BACKEND_CUDA_KERNELS_CUDA_DEQUANT_CUH
#define RT_BACKEND_CUDA_KERNELS_CUDA_DEQUANT_CUH

#include "backend/cuda/kernels/cuda_common.cuh"
#include "backend/cuda/kernels/cuda_dequant.h"

typedef float Run[RT_CUDA_RUN];

/* Eight bytes in two words. */
struct Bytes {
    uint32_t w[2];
};

/* The same eight values as they are stored: d (q - zero), or d q + m. Whoever looks at some of this alone pays for that
 * alone. */
struct Codes {
    Bytes q;
    float d, m;
};

/* Where a block, or a part of it, lies. */
struct Stored {
    const uint8_t *p;
    __device__ Stored operator+(uint64_t n) const { return { p + n }; }
    __device__ uint32_t operator[](uint32_t i) const { return p[i]; }
    __device__ uint32_t half_word() const { return *(const uint16_t *)p; }
    __device__ float scale() const { return to_float(f16{ *(const uint16_t *)p }); } /* f16 */
    template <int ALIGN> __device__ Bytes bytes() const
    {
        if constexpr (ALIGN == 8) {
            const uint2 v = *(const uint2 *)p;
            return { { v.x, v.y } };
        } else if constexpr (ALIGN == 4) {
            return { { ((const uint32_t *)p)[0], ((const uint32_t *)p)[1] } };
        } else { /* two whole words, which may begin before p, and the half word that is then left */
            const uint32_t before = (uint32_t)(uintptr_t)p & 2;
            const uint32_t *w = (const uint32_t *)(p - before);
            const uint32_t a = w[0], b = w[1], c = before ? (*this + 6).half_word() : 0;
            return { { __funnelshift_r(a, b, 8 * before), __funnelshift_r(b, c, 8 * before) } };
        }
    }
    /* The same on a multiple of 2 where four more bytes are of the block: three words, and no other address. */
    __device__ Bytes inner_bytes() const
    {
        const uint32_t before = (uint32_t)(uintptr_t)p & 2;
        const uint32_t *w = (const uint32_t *)(p - before);
        const uint32_t a = w[0], b = w[1], c = w[2];
        return { { __funnelshift_r(a, b, 8 * before), __funnelshift_r(b, c, 8 * before) } };
    }
};

/* Bits shift.. of each byte, as many as `ones` has. */
RT_DEVICE Bytes bits_of(Bytes b, uint32_t shift, uint32_t ones)
{
#pragma unroll
    for (int i = 0; i < 2; i++) b.w[i] = b.w[i] >> shift & ones * 0x01010101u;
    return b;
}
/* low | high << n for each byte */
RT_DEVICE Bytes join_bits(Bytes low, const Bytes &high, uint32_t n)
{
#pragma unroll
    for (int i = 0; i < 2; i++) low.w[i] |= high.w[i] << n;
    return low;
}

/* Byte i less zero: a byte under the exponent of 2^23 is 2^23 and the byte, exactly. */
RT_DEVICE float number_of(const Bytes &b, int i, int zero)
{
    const uint32_t bits = __byte_perm(b.w[i / 4], 0x4b000000u, 0x7440 + i % 4);
    return __uint_as_float(bits) - (float)((1 << 23) + zero);
}
/* v = d (q - zero) */
RT_DEVICE void put_scaled(Run &v, const Bytes &q, float d, int zero)
{
#pragma unroll
    for (int i = 0; i < RT_CUDA_RUN; i++) v[i] = d * number_of(q, i, zero);
}
/* v = d q + m */
RT_DEVICE void put_affine(Run &v, const Bytes &q, float d, float m)
{
#pragma unroll
    for (int i = 0; i < RT_CUDA_RUN; i++) v[i] = d * number_of(q, i, 0) + m;
}
RT_DEVICE void put_scaled(Codes &v, const Bytes &q, float d, int) { v = Codes{ q, d, 0 }; }
RT_DEVICE void put_affine(Codes &v, const Bytes &q, float d, float m) { v = Codes{ q, d, m }; }
/* v = d times the place that q names, of the sixteen of IQ4. A byte is picked out of eight by three bits, four bytes at
 * a time; the fourth bit chooses between the lower eight places and the upper. */
template <class V> RT_DEVICE void put_places(V &v, Bytes q, float d)
{
    /* -127 -104 -83 -65, -49 -35 -22 -10, 1 13 25 38, 53 69 89 113, each plus 128 */
    const uint32_t place[4] = { 0x3f2d1801u, 0x766a5d4fu, 0xa6998d81u, 0xf1d9c5b5u };
#pragma unroll
    for (int i = 0; i < 2; i++) {
        const uint32_t pairs = (q.w[i] | q.w[i] >> 4) & 0x00ff00ffu, pick = (pairs | pairs >> 8) & 0x7777;
        const uint32_t low = __byte_perm(place[0], place[1], pick), high = __byte_perm(place[2], place[3], pick);
        const uint32_t upper = (q.w[i] >> 3 & 0x01010101u) * 255;
        q.w[i] = (low & ~upper) | (high & upper);
    }
    put_scaled(v, q, d, 128);
}

/* The fifth bits of values e.. of a 32-bit word of them, bit i to bit 0 of byte i. */
RT_DEVICE Bytes fifth_bits(Stored high, uint32_t e)
{
    const uint32_t word = high.half_word() | (high + 2).half_word() << 16;
    Bytes b;
#pragma unroll
    for (int i = 0; i < 2; i++) { /* four bits to four bytes; the products do not meet */
        const uint32_t n = word >> e >> 4 * i & 15;
        b.w[i] = (n & 1) | (n & 2) << 7 | (n & 4) << 14 | (n & 8) << 21;
    }
    return b;
}

/* Q4_K and Q5_K begin with sixteen bytes: scale and min of the block in f16, then eight 6-bit pairs. The factors of the
 * group of 32 that value e is in. Of pairs 4 to 7 the low bits are nibbles of the last word, the upper two lie above
 * the pairs 0 to 3. */
RT_DEVICE void affine_factors(Stored b, uint32_t e, float &d, float &m)
{
    const uint4 h = *(const uint4 *)b.p;
    const uint32_t shift = e / 32 % 4 * 8, scales = h.y >> shift, mins = h.z >> shift, low = h.w >> shift;
    const uint32_t scale = e < 128 ? scales & 63 : (low & 15) | (scales >> 2 & 48);
    const uint32_t min = e < 128 ? mins & 63 : (low >> 4 & 15) | (mins >> 2 & 48);
    d = twins<f16>::low(h.x) * (float)scale;
    m = -(twins<f16>::high(h.x) * (float)min);
}
/* Scale g of Q3_K in 0..63: the low four bits are nibble g / 8 of byte g % 8, the upper two bit pair g / 4 of byte
 * 8 + g % 4. */
RT_DEVICE int scale_q3(Stored s, uint32_t g)
{
    return (s[g % 8] >> g / 8 * 4 & 15) | (s[8 + g % 4] >> g / 4 * 2 & 3) << 4;
}

/* ---- one function for each type: v (a Run or Codes) = values e.. of the block b, e a multiple of 8 ---- */

template <class V> RT_DEVICE void decode_q8_0(V &v, Stored b, uint32_t e)
{
    Bytes q = (b + 2 + e).bytes<2>();
#pragma unroll
    for (int i = 0; i < 2; i++) q.w[i] ^= 0x80808080u; /* from -128.. to 0.. */
    put_scaled(v, q, b.scale(), 128);
}
/* Blocks of 32: low nibbles are the first sixteen, high ones the others. */
template <int ALIGN> RT_DEVICE Bytes nibbles(Stored q, uint32_t e)
{
    return bits_of((q + e % 16).bytes<ALIGN>(), e / 16 * 4, 15);
}

template <class V> RT_DEVICE void decode_q4_0(V &v, Stored b, uint32_t e)
{
    put_scaled(v, nibbles<2>(b + 2, e), b.scale(), 8);
}
template <class V> RT_DEVICE void decode_q4_1(V &v, Stored b, uint32_t e)
{
    put_affine(v, nibbles<4>(b + 4, e), b.scale(), (b + 2).scale());
}
template <class V> RT_DEVICE void decode_q5_0(V &v, Stored b, uint32_t e)
{
    put_scaled(v, join_bits(nibbles<2>(b + 6, e), fifth_bits(b + 2, e), 4), b.scale(), 16);
}
template <class V> RT_DEVICE void decode_q5_1(V &v, Stored b, uint32_t e)
{
    put_affine(v, join_bits(nibbles<8>(b + 8, e), fifth_bits(b + 4, e), 4), b.scale(), (b + 2).scale());
}
template <class V> RT_DEVICE void decode_iq4_nl(V &v, Stored b, uint32_t e)
{
    put_places(v, nibbles<2>(b + 2, e), b.scale());
}
template <class V> RT_DEVICE void decode_iq4_xs(V &v, Stored b, uint32_t e)
{
    const uint32_t g = e / 32, high = (b + 2).half_word();
    const int scale = (b[4 + g / 2] >> 4 * (g % 2) & 15) | (int)(high >> 2 * g & 3) << 4;
    put_places(v, nibbles<8>(b + 8 + 16 * g, e % 32), b.scale() * (float)(scale - 32));
}
template <class V> RT_DEVICE void decode_q4_k(V &v, Stored b, uint32_t e)
{
    float d, m;
    affine_factors(b, e, d, m);
    put_affine(v, bits_of((b + 16 + e / 64 * 32 + e % 32).bytes<8>(), e / 32 % 2 * 4, 15), d, m);
}
template <class V> RT_DEVICE void decode_q5_k(V &v, Stored b, uint32_t e)
{
    float d, m;
    affine_factors(b, e, d, m);
    const Bytes low = bits_of((b + 48 + e / 64 * 32 + e % 32).bytes<8>(), e / 32 % 2 * 4, 15);
    put_affine(v, join_bits(low, bits_of((b + 16 + e % 32).bytes<8>(), e / 32, 1), 4), d, m);
}
/* d scale is exact; its product with q may have 25 bits and is rounded, so the order of the two matters. */
template <class V> RT_DEVICE void decode_q6_k(V &v, Stored b, uint32_t e)
{
    const uint32_t half = e / 128, part = e % 128 / 32, l = e % 32;
    const Bytes low = bits_of((b + 64 * half + (part & 1) * 32 + l).inner_bytes(), part / 2 * 4, 15);
    const Bytes high = bits_of((b + 128 + 32 * half + l).inner_bytes(), 2 * part, 3);
    put_scaled(v, join_bits(low, high, 4), (b + 208).scale() * (float)(int8_t)b[192 + e / 16], 32);
}
template <class V> RT_DEVICE void decode_q2_k(V &v, Stored b, uint32_t e)
{
    const uint32_t g = e / 16, s = b[g];
    const Bytes q = bits_of((b + 16 + e / 128 * 32 + e % 32).bytes<4>(), e % 128 / 32 * 2, 3);
    put_affine(v, q, (b + 80).scale() * (float)(s & 15), -((b + 82).scale() * (float)(s >> 4)));
}
template <class V> RT_DEVICE void decode_q3_k(V &v, Stored b, uint32_t e)
{
    const Bytes q = bits_of((b + 32 + e / 128 * 32 + e % 32).inner_bytes(), e % 128 / 32 * 2, 3);
    const Bytes high = bits_of((b + e % 32).inner_bytes(), e / 32, 1);
    put_scaled(v, join_bits(q, high, 2), (b + 108).scale() * (float)(scale_q3(b + 96, e / 16) - 32), 4);
}

/* A type of blocks: how many values (ELEMS) and bytes (BYTES) one has, and its function. */
template <int DTYPE> struct Block;
#define X(NAME, name, elems, size)                                                                                     \
    template <> struct Block<RT_DTYPE_##NAME> {                                                                        \
        static constexpr uint32_t ELEMS = elems, BYTES = size;                                                         \
        static __device__ void decode(Run &v, Stored b, uint32_t e) { decode_##name(v, b, e); }                        \
    };
RT_FOR_QUANTS(X)
#undef X

#endif
