/* cuda_matmul_packed.cuh - packed weights, blocks of GGUF, as the left operand of MMAs with a in bf16; device code.
 *
 * What is multiplied on tensor cores is the codes, small whole numbers that bf16 has exactly: of each group of values
 * that share a scale, sum = d sum(q x) + m sum(x), in f32, which is what the exact values of the weights give, and
 * makes a weight cost an instruction and a half instead of five. The sum of x is an MMA with ones. Where a type has an
 * m, codes are taken from the middle of their range, and m with them, so that neither sum is large where their
 * difference is not.
 *
 * A lane owns 8 neighbouring elements of K in every 32 as in cuda_matmul_few.cu, where groups are 32 long; where they
 * are 16, four in every 16, so that an MMA is a group. The factors of a chunk are unpacked by all lanes at once. */
#ifndef RT_BACKEND_CUDA_KERNELS_CUDA_MATMUL_PACKED_CUH
#define RT_BACKEND_CUDA_KERNELS_CUDA_MATMUL_PACKED_CUH

#include "backend/cuda/kernels/cuda_dequant.cuh"
#include "backend/cuda/kernels/cuda_matmul_few.cuh"

enum { CHUNK = RT_FEW_CHUNK };

/* Of a type: its zero (of unsigned codes the middle of their range), whether it has an m, whether codes have 8 bits. */
enum { PLAIN, AFFINE, WIDE };
#define KINDS(X)                                                                                                       \
    X(Q8_0, 128, WIDE)                                                                                                 \
    X(Q4_0, 8, PLAIN)                                                                                                  \
    X(Q4_1, 8, AFFINE)                                                                                                 \
    X(Q5_0, 16, PLAIN)                                                                                                 \
    X(Q5_1, 16, AFFINE)                                                                                                \
    X(Q2_K, 2, AFFINE)                                                                                                 \
    X(Q3_K, 4, PLAIN)                                                                                                  \
    X(Q4_K, 8, AFFINE)                                                                                                 \
    X(Q5_K, 16, AFFINE)                                                                                                \
    X(Q6_K, 32, PLAIN)                                                                                                 \
    X(IQ4_NL, 128, WIDE)                                                                                               \
    X(IQ4_XS, 128, WIDE)
template <int DTYPE> struct Kind;
#define X(NAME, zero, kind)                                                                                            \
    template <> struct Kind<RT_DTYPE_##NAME> {                                                                         \
        static constexpr uint32_t ZERO = zero, KIND = kind;                                                            \
    };
KINDS(X)
#undef X
#define X(NAME, name, elems, size)                                                                                     \
    struct NAME : Kind<RT_DTYPE_##NAME> {                                                                              \
        static constexpr int DTYPE = RT_DTYPE_##NAME, ELEMS = elems, SIZE = size, BYTES = CHUNK / elems * size;        \
        static __device__ __forceinline__ void decode(Codes &v, Stored b, uint32_t e) { decode_##name(v, b, e); }      \
    };
RT_FOR_QUANTS(X)
#undef X

/* Bytes 2 i and 2 i + 1 less zero, in bf16. A byte of 7 bits under the exponent of 128 is 128 and the byte. */
template <class Q> RT_DEVICE uint32_t code_pair(uint32_t w, int i)
{
    const uint32_t pick = i ? 0x4342 : 0x4140, under = 0x43434343;
    if constexpr (Q::KIND == WIDE) /* the eighth bit, less 128: what is missing is 128, or nothing */
        return fma_bf16(__byte_perm(~w & 0x80808080, under, pick), 0xbf80bf80,
                        __byte_perm(w & 0x7f7f7f7f, under, pick));
    else
        return fma_bf16(__byte_perm(w, under, pick), 0x3f803f80, (0xc300 | Q::ZERO) * 0x10001u);
}

template <class Q> constexpr int GROUP = RT_FEW_GROUP(Q::DTYPE);
template <class Q> constexpr int GROUPS = CHUNK / GROUP<Q>;
template <class Q> constexpr int PITCH = RT_FEW_PITCH(Q::DTYPE, Q::BYTES);
template <class Q> constexpr int COPIES = RT_FEW_COPIES(Q::DTYPE, Q::BYTES);
template <class Q> using Rows = Packed_rows<Q::BYTES, COPIES<Q>, PITCH<Q>, Q::ELEMS == CHUNK>;
/* A block begins on a multiple of the largest power of two in its size, so this much may lie ahead of it. */
template <class Q> constexpr int AHEAD = 32 - (Q::SIZE & -Q::SIZE);
#define X(NAME, name, elems, size)                                                                                     \
    static_assert(COPIES<NAME> * 16 >= NAME::BYTES + AHEAD<NAME>, "a chunk is copied whole, wherever it begins");
RT_FOR_QUANTS(X)
#undef X

/* The codes that are values e.. of a row of a chunk, and their factors. */
template <class Q> RT_DEVICE void decode(Codes &c, const unsigned char *row, uint32_t e)
{
    Q::decode(c, Stored{ row + e / Q::ELEMS * Q::SIZE }, e % Q::ELEMS);
}

/* d and m of four neighbouring groups from the 16 bytes that Q4_K and Q5_K begin with, the first four or the others: as
 * affine_factors, a byte each. ZERO is taken from codes. */
template <int ZERO> RT_DEVICE void four_factors(float2 (&f)[4], const unsigned char *block, uint32_t upper)
{
    const uint4 h = *(const uint4 *)block;
    const uint32_t scales = upper ? (h.w & 0x0f0f0f0f) | (h.y >> 2 & 0x30303030) : h.y & 0x3f3f3f3f;
    const uint32_t mins = upper ? (h.w >> 4 & 0x0f0f0f0f) | (h.z >> 2 & 0x30303030) : h.z & 0x3f3f3f3f;
    const float d = twins<f16>::low(h.x), m = twins<f16>::high(h.x);
#pragma unroll
    for (int i = 0; i < 4; i++) {
        const Bytes both = { { scales, mins } };
        f[i].x = d * number_of(both, i, 0);
        f[i].y = -(m * number_of(both, 4 + i, 0));
        if (ZERO) f[i].y = fmaf(f[i].x, (float)ZERO, f[i].y);
    }
}

/* factors (16, GROUPS + 1) = d and m of the groups of a chunk, where ZERO is taken from codes; two lanes a row, which
 * begins at `at`. */
template <class Q, int ZERO> RT_DEVICE void unpack_row(float2 *factors, const unsigned char *at)
{
    enum { EACH = GROUPS<Q> / 2 };
    const uint32_t row = threadIdx.x % 32 / 2, first = threadIdx.x % 2 * EACH;
    float2 *const to = factors + row * (GROUPS<Q> + 1) + first;
    if constexpr (Q::DTYPE == RT_DTYPE_Q4_K || Q::DTYPE == RT_DTYPE_Q5_K) {
        float2 f[4];
        four_factors<ZERO>(f, at, first);
#pragma unroll
        for (int i = 0; i < 4; i++) to[i] = f[i];
    } else {
#pragma unroll
        for (int i = 0; i < EACH; i++) {
            Codes c;
            decode<Q>(c, at, (first + i) * GROUP<Q>);
            to[i] = make_float2(c.d, Q::KIND != AFFINE ? 0.0f : ZERO ? fmaf(c.d, (float)ZERO, c.m) : c.m);
        }
    }
    __syncwarp();
}

template <class Q>
RT_DEVICE void unpack_factors(float2 *factors, const unsigned char *stage, const Rows<Q> &weights, uint32_t chunk)
{
    const uint32_t row = threadIdx.x % 32 / 2;
    unpack_row<Q, Q::ZERO>(factors, stage + row * PITCH<Q> + weights.skew(row, chunk));
}

/* a (the left operand of two MMAs) = codes of a row of a chunk, elements e to e + 31, every second register from
 * `half`. */
template <class Q> RT_DEVICE void load_codes(uint32_t (&a)[2][4], const unsigned char *row, uint32_t e, int half)
{
    const uint32_t t = threadIdx.x % 4;
    Codes c;
#pragma unroll
    for (int s = 0; s < 2; s++) {
        if (GROUP<Q> == 16 || s == 0) decode<Q>(c, row, e + (GROUP<Q> == 16 ? s * 16 + t / 2 * 8 : t * 8));
        const uint32_t w = GROUP<Q> == 16 ? (t % 2 ? c.q.w[1] : c.q.w[0]) : c.q.w[s];
#pragma unroll
        for (int i = 0; i < 2; i++) a[s][half + 2 * i] = code_pair<Q>(w, i);
    }
}

/* A lane's share of 32 elements of a row of a, the right operand of those MMAs. */
template <class Q> RT_DEVICE uint4 load_x(const void *from)
{
    const char *at = (const char *)from;
    const uint32_t t = threadIdx.x % 4;
    if constexpr (GROUP<Q> == 32) return *(const uint4 *)(at + t * 16);
    const uint2 low = *(const uint2 *)(at + t * 8), high = *(const uint2 *)(at + 32 + t * 8);
    return make_uint4(low.x, low.y, high.x, high.y);
}

/* acc += d s + m x for both weight rows of a lane; x: of its two rows of a */
template <class Q>
RT_DEVICE void add_group(float (&a)[4], const float (&s)[4], float x0, float x1, const float2 (&f)[2])
{
#pragma unroll
    for (int e = 0; e < 4; e++) {
        if constexpr (Q::KIND == AFFINE) a[e] = fmaf(f[e / 2].y, e % 2 ? x1 : x0, a[e]);
        a[e] = fmaf(f[e / 2].x, s[e], a[e]);
    }
}

/* The sums of x of the groups of 32 elements: of two where groups are 16. */
template <class Q> RT_DEVICE void sum_x(float (&first)[4], float (&second)[4], const uint4 &b)
{
    const uint32_t one[4] = { 0x3f803f80, 0x3f803f80, 0x3f803f80, 0x3f803f80 };
    mma_bf16(first, one, b.x, b.y);
    if constexpr (GROUP<Q> == 32)
        mma_bf16(first, one, b.z, b.w);
    else
        mma_bf16(second, one, b.z, b.w);
}

#endif
