/* cuda_matmul_packed.cu - out = alpha a b' + bias of few rows, weights b in blocks of GGUF, a in bf16.
 *
 * What is multiplied on tensor cores is the codes, small whole numbers that bf16 has exactly: of each group of values
 * that share a scale, sum = d sum(q x) + m sum(x), in f32, which is what the exact values of the weights give, and
 * makes a weight cost an instruction and a half instead of five. The sum of x is an MMA with ones. Where a type has an
 * m, codes are taken from the middle of their range, and m with them, so that neither sum is large where their
 * difference is not.
 *
 * A lane owns 8 neighbouring elements of K in every 32 as in cuda_matmul_few.cu, where groups are 32 long; where they
 * are 16, four in every 16, so that an MMA is a group. The factors of a chunk are unpacked by all lanes at once. */
#include "backend/cuda/kernels/cuda_dequant.cuh"
#include "backend/cuda/kernels/cuda_matmul_few.cuh"

namespace
{
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

RT_DEVICE uint32_t fma_2(uint32_t a, uint32_t b, uint32_t c)
{
    uint32_t d = 0;
    RT_SM80(asm("fma.rn.bf16x2 %0, %1, %2, %3;" : "=r"(d) : "r"(a), "r"(b), "r"(c)));
    return d;
}

/* Bytes 2 i and 2 i + 1 less zero, in bf16. A byte of 7 bits under the exponent of 128 is 128 and the byte. */
template <class Q> RT_DEVICE uint32_t code_pair(uint32_t w, int i)
{
    const uint32_t pick = i ? 0x4342 : 0x4140, under = 0x43434343;
    if constexpr (Q::KIND == WIDE) /* the eighth bit, less 128: what is missing is 128, or nothing */
        return fma_2(__byte_perm(~w & 0x80808080, under, pick), 0xbf80bf80, __byte_perm(w & 0x7f7f7f7f, under, pick));
    else
        return fma_2(__byte_perm(w, under, pick), 0x3f803f80, (0xc300 | Q::ZERO) * 0x10001u);
}

template <class Q> constexpr int GROUP = RT_FEW_GROUP(Q::DTYPE);
template <class Q> constexpr int GROUPS = CHUNK / GROUP<Q>;
template <class Q> constexpr int PITCH = RT_FEW_PITCH(Q::BYTES);
template <class Q, int MT> constexpr int STAGES = RT_FEW_STAGES(Q::DTYPE, Q::BYTES, 16 * MT);

/* The codes that are values e.. of a row of a chunk, and their factors. */
template <class Q> RT_DEVICE void decode(Codes &c, const unsigned char *row, uint32_t e)
{
    Q::decode(c, Stored{ row + e / Q::ELEMS * Q::SIZE }, e % Q::ELEMS);
}

template <class Q, int NT, int MT> struct Multiply {
    typedef Weights<16 * MT, Q::BYTES, PITCH<Q>, false> W;
    const W *weights;
    const char *x;          /* row m0 + l / 4 of a; */
    uint64_t down;          /* bytes of 8 rows */
    uint32_t rows;          /* of those that begin at x, how many exist */
    uint32_t K;
    const unsigned char *stages;
    float2 *factors; /* (16 MT, GROUPS + 1) d and m, where zero is taken from codes */
    float acc[MT][NT][4];

    __device__ __forceinline__ void unpack_factors(const unsigned char *stage, uint32_t chunk)
    {
#pragma unroll
        for (int u = 0; u < 16 * MT * GROUPS<Q> / 32; u++) {
            const uint32_t i = u * 32 + threadIdx.x % 32, row = i / GROUPS<Q>, group = i % GROUPS<Q>;
            Codes c;
            decode<Q>(c, stage + row * PITCH<Q> + weights->skew(row, chunk), group * GROUP<Q>);
            factors[row * (GROUPS<Q> + 1) + group] =
                make_float2(c.d, Q::KIND == AFFINE ? fmaf(c.d, (float)Q::ZERO, c.m) : 0.0f);
        }
        __syncwarp();
    }

    /* a (the left operand of two MMAs) = codes of a row of a chunk, elements e to e + 31, every second register from
     * `half`. */
    __device__ __forceinline__ void load_codes(uint32_t (&a)[2][4], const unsigned char *row, uint32_t e, int half) const
    {
        const uint32_t t = threadIdx.x % 4;
        Codes c;
        if constexpr (GROUP<Q> == 32) {
            decode<Q>(c, row, e + t * 8);
#pragma unroll
            for (int s = 0; s < 2; s++)
#pragma unroll
                for (int i = 0; i < 2; i++) a[s][half + 2 * i] = code_pair<Q>(c.q.w[s], i);
        } else {
#pragma unroll
            for (int s = 0; s < 2; s++) {
                decode<Q>(c, row, e + s * 16 + t / 2 * 8);
                const uint32_t w = t % 2 ? c.q.w[1] : c.q.w[0];
#pragma unroll
                for (int i = 0; i < 2; i++) a[s][half + 2 * i] = code_pair<Q>(w, i);
            }
        }
    }

    __device__ __forceinline__ uint4 load_x(uint32_t n, uint32_t k) const
    {
        const uint32_t t = threadIdx.x % 4;
        if (n >= rows) return make_uint4(0, 0, 0, 0);
        const char *at = x + n * down + k * 2;
        if constexpr (GROUP<Q> == 32) return *(const uint4 *)(at + t * 16);
        const uint2 low = *(const uint2 *)(at + t * 8), high = *(const uint2 *)(at + 32 + t * 8);
        return make_uint4(low.x, low.y, high.x, high.y);
    }

    /* acc += d s + m x for both weight rows of a lane */
    __device__ __forceinline__ void add(float (&a)[4], const float (&s)[4], const float (&ones)[4],
                                        const float2 (&f)[2]) const
    {
#pragma unroll
        for (int e = 0; e < 4; e++) {
            if constexpr (Q::KIND == AFFINE) a[e] = fmaf(f[e / 2].y, ones[e], a[e]);
            a[e] = fmaf(f[e / 2].x, s[e], a[e]);
        }
    }

    __device__ __forceinline__ void load_factors(float2 (&f)[MT][2], uint32_t group) const
    {
        const uint32_t g = threadIdx.x % 32 / 4;
#pragma unroll
        for (int i = 0; i < 2 * MT; i++) f[i / 2][i % 2] = factors[(g + 8 * i) * (GROUPS<Q> + 1) + group];
    }

    __device__ __forceinline__ void operator()(uint32_t chunk, uint32_t at)
    {
        const uint32_t g = threadIdx.x % 32 / 4, runs = min((uint32_t)CHUNK, K - chunk * CHUNK) / 32;
        const unsigned char *const stage = stages + at, *row[2 * MT];
#pragma unroll
        for (int i = 0; i < 2 * MT; i++)
            row[i] = stage + (g + 8 * i) * PITCH<Q> + weights->skew(g + 8 * i, chunk);
        unpack_factors(stage, chunk);
#pragma unroll(MT == 1 ? 2 : 1)
        for (uint32_t j = 0; j < runs; j++) {
            uint32_t a[MT][2][4];
            float2 f[MT][2], last[MT][2];
#pragma unroll
            for (int i = 0; i < 2 * MT; i++) load_codes(a[i / 2], row[i], j * 32, i % 2);
            load_factors(f, j * 32 / GROUP<Q>);
            if constexpr (GROUP<Q> == 16) load_factors(last, j * 2 + 1);
#pragma unroll
            for (int n = 0; n < NT; n++) {
                const uint4 b = load_x(n, chunk * CHUNK + j * 32);
                const uint32_t one[4] = { 0x3f803f80, 0x3f803f80, 0x3f803f80, 0x3f803f80 };
                float ones[4] = {};
                if constexpr (Q::KIND == AFFINE) mma_bf16(ones, one, b.x, b.y);
                if constexpr (Q::KIND == AFFINE && GROUP<Q> == 32) mma_bf16(ones, one, b.z, b.w);
#pragma unroll
                for (int i = 0; i < MT; i++) {
                    float s[4] = {};
                    mma_bf16(s, a[i][0], b.x, b.y);
                    if constexpr (GROUP<Q> == 32) mma_bf16(s, a[i][1], b.z, b.w);
                    add(acc[i][n], s, ones, f[i]);
                }
                if constexpr (GROUP<Q> == 16) {
                    float more[4] = {};
                    if constexpr (Q::KIND == AFFINE) mma_bf16(more, one, b.z, b.w);
#pragma unroll
                    for (int i = 0; i < MT; i++) {
                        float s[4] = {};
                        mma_bf16(s, a[i][1], b.z, b.w);
                        add(acc[i][n], s, more, last[i]);
                    }
                }
            }
        }
    }
};

template <class Q, int NT, int MT> RT_DEVICE void few(const rt_cuda_few_params &p)
{
    enum { ROWS = 16 * MT, STAGE = ROWS * PITCH<Q>, MINE = RT_FEW_WARP_BYTES(Q::DTYPE, Q::BYTES, ROWS) };
    const rt_cuda_few_tensor &t = p.tensor[tensor_of(p)];
    const Place_of_warp w = few_place<ROWS, 8 * NT>(p, t);
    unsigned char *const stages = shared_bytes() + threadIdx.x / 32 * MINE;
    typedef Multiply<Q, NT, MT> Work;
    const typename Work::W weights = { t.b + w.n0 * t.b_step, t.b_step, t.N - min(t.N, w.n0), (uint32_t)t.b_row };
    const uint32_t m = w.m0 + threadIdx.x % 32 / 4;
    weights.expect(w.part, p.split, STAGES<Q, MT> - 1);
    begin_kernel();
    next_may_begin();
    Work work = { &weights,
                  p.a.at + m * p.a.stride * 2,
                  16 * p.a.stride,
                  m < p.M ? (p.M - m + 7) / 8 : 0,
                  p.K,
                  stages,
                  (float2 *)(stages + STAGES<Q, MT> * STAGE),
                  {} };
    few_walk<STAGES<Q, MT>, STAGE>(weights, shared_at(stages), w.part, p.split, (p.K + CHUNK - 1) / CHUNK, work);
    few_out<MT, NT>(work.acc, p, t, w, (float *)shared_bytes());
}
} // namespace

#define KERNEL(name, Q, NT, MT, blocks)                                                                                \
    extern "C" __global__ void __launch_bounds__(RT_FEW_THREADS, blocks)                                               \
        matmul_few_##name(const __grid_constant__ rt_cuda_few_params p)                                                \
    {                                                                                                                  \
        few<Q, NT, MT>(p);                                                                                             \
    }
#define KERNELS(NAME, name, elems, size)                                                                               \
    KERNEL(name##_8, NAME, 1, 1, 2)                                                                                    \
    KERNEL(name##_16, NAME, 2, 1, 2)                                                                                   \
    KERNEL(name##_64, NAME, 8, 2, 1)
RT_FOR_QUANTS(KERNELS)
