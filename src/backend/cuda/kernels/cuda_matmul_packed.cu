/* cuda_matmul_packed.cu - out = alpha a b' + bias of up to 16 rows, weights b packed: a warp for itself. */
#include "backend/cuda/kernels/cuda_matmul_packed.cuh"

namespace
{
template <class Q> constexpr int STAGES = RT_FEW_STAGES(Q::DTYPE, Q::BYTES);

template <class Q, int NT> struct Multiply {
    enum { RUNS = 4 / NT }; /* of which x is under way at a time */
    const Rows<Q> *weights;
    const char *x; /* row m0 + l / 4 of a; */
    uint64_t down; /* bytes of 8 rows */
    uint32_t rows; /* of those that begin at x, how many exist */
    uint32_t K;
    const unsigned char *stages;
    float2 *factors;
    float acc[NT][4];

    /* RUNS runs of 32 elements from e on. */
    __device__ __forceinline__ void multiply(const uint4 (&b)[RUNS][NT], const unsigned char *const (&row)[2],
                                             uint32_t e)
    {
        const uint32_t g = threadIdx.x % 32 / 4;
#pragma unroll
        for (uint32_t j = 0; j < RUNS; j++) {
            uint32_t a[2][4];
            float2 f[2][2];
#pragma unroll
            for (int i = 0; i < 2; i++) load_codes<Q>(a, row[i], e + j * 32, i);
#pragma unroll
            for (int s = 0; s < (GROUP<Q> == 16 ? 2 : 1); s++)
#pragma unroll
                for (int i = 0; i < 2; i++)
                    f[s][i] = factors[(g + 8 * i) * (GROUPS<Q> + 1) + (e + j * 32) / GROUP<Q> + s];
#pragma unroll
            for (int n = 0; n < NT; n++) {
                float x[2][4] = {}, s[4] = {}, more[4] = {};
                if constexpr (Q::KIND == AFFINE) sum_x<Q>(x[0], x[1], b[j][n]);
                mma_bf16(s, a[0], b[j][n].x, b[j][n].y);
                if constexpr (GROUP<Q> == 32) {
                    mma_bf16(s, a[1], b[j][n].z, b[j][n].w);
                } else {
                    mma_bf16(more, a[1], b[j][n].z, b[j][n].w);
                    add_group<Q>(acc[n], more, x[1][0], x[1][1], f[1]);
                }
                add_group<Q>(acc[n], s, x[0][0], x[0][1], f[0]);
            }
        }
    }

    __device__ __forceinline__ void operator()(uint32_t chunk, uint32_t at)
    {
        const uint32_t g = threadIdx.x % 32 / 4;
        const unsigned char *const stage = stages + at;
        const unsigned char *const row[2] = { stage + g * PITCH<Q> + weights->skew(g, chunk),
                                              stage + (g + 8) * PITCH<Q> + weights->skew(g + 8, chunk) };
        const char *const from = x + chunk * (CHUNK * 2);
#pragma unroll(NT == 1 ? 2 : 1)
        for (uint32_t e = 0; e < CHUNK; e += 32 * RUNS) {
            uint4 b[RUNS][NT];
#pragma unroll
            for (uint32_t j = 0; j < RUNS; j++)
#pragma unroll
                for (uint32_t n = 0; n < NT; n++) {
                    b[j][n] = make_uint4(0, 0, 0, 0);
                    const bool in = Q::ELEMS == CHUNK || chunk * CHUNK + e + j * 32 < K;
                    if (n < rows && in) b[j][n] = load_x<Q>(from + n * down + (e + j * 32) * 2);
                }
            if (e == 0) unpack_factors<Q>(factors, stage, *weights, chunk);
            multiply(b, row, e);
        }
        __syncwarp(); /* factors are free again */
    }
};

template <class Q, int NT> RT_DEVICE void expect_weights(const rt_cuda_few_params &p)
{
    const rt_cuda_few_tensor &t = p.tensor[tensor_of(p)];
    const Place_of_warp w = few_place<8 * NT>(p, t);
    weight_rows(t, w.n0).expect(w.part, p.split, STAGES<Q> - 1, Q::BYTES);
}

template <class Q, int NT> RT_DEVICE void few(const rt_cuda_few_params &p)
{
    enum { STAGE = 16 * PITCH<Q>, MINE = RT_FEW_WARP_BYTES(Q::DTYPE, Q::BYTES, STAGES<Q>) };
    const rt_cuda_few_tensor &t = p.tensor[tensor_of(p)];
    const Place_of_warp w = few_place<8 * NT>(p, t);
    unsigned char *const stages = shared_bytes() + threadIdx.x / 32 * MINE;
    const Rows<Q> weights = { weight_rows(t, w.n0) };
    const uint32_t m = w.m0 + threadIdx.x % 32 / 4;
    next_may_begin();
    Multiply<Q, NT> work = { &weights,
                             p.a.at + m * p.a.stride * 2,
                             16 * p.a.stride,
                             m < p.M ? (p.M - m + 7) / 8 : 0,
                             p.K,
                             stages,
                             (float2 *)(stages + STAGES<Q> * STAGE),
                             {} };
    few_walk<STAGES<Q>, STAGE>(weights, shared_at(stages), w.part, p.split, (p.K + CHUNK - 1) / CHUNK, work);
    few_out<NT>(work.acc, p, t, w, (float *)shared_bytes());
}
} // namespace

#define KERNEL(name, Q, NT)                                                                                            \
    extern "C" __global__ void __launch_bounds__(RT_FEW_THREADS, 2)                                                    \
        matmul_few_##name(const __grid_constant__ rt_cuda_few_params p)                                                \
    {                                                                                                                  \
        expect_weights<Q, NT>(p);                                                                                      \
        begin_kernel();                                                                                                \
        few<Q, NT>(p);                                                                                                 \
    }
#define KERNELS(NAME, name, elems, size) KERNEL(name##_8, NAME, 1) KERNEL(name##_16, NAME, 2)
RT_FOR_QUANTS(KERNELS)
