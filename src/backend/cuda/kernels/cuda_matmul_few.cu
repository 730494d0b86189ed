/* cuda_matmul_few.cu - out = alpha a b' + bias of few rows, weights b of 16 bits.
 *
 * A lane owns 8 neighbouring elements of K in every 32, of weight rows and rows of a alike: 16 bytes, which are its
 * share of two MMAs of K 16, so nothing is rearranged. */
#include "backend/cuda/kernels/cuda_matmul_few.cuh"

namespace
{
enum { CHUNK = RT_FEW_CHUNK_16, BYTES = Word_rows::BYTES, STAGE = 16 * BYTES };

template <class E> RT_DEVICE void mma(float (&d)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1);
template <> __device__ __forceinline__ void mma<bf16>(float (&d)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1)
{
    mma_bf16(d, a, b0, b1);
}
template <> __device__ __forceinline__ void mma<f16>(float (&d)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1)
{
    mma_f16(d, a, b0, b1);
}

/* Of a lane: where its rows of a begin, m0 + l / 4 and each 8 after it. */
template <class E, int NT> struct Multiply {
    const char *x;
    uint64_t down; /* bytes of 8 rows */
    uint32_t rows; /* of those that begin at x, how many exist */
    uint32_t K;
    const unsigned char *stages;
    float acc[NT][4];

    __device__ __forceinline__ void operator()(uint32_t chunk, uint32_t stage)
    {
        const uint32_t lane = threadIdx.x % 32, g = lane / 4, t = lane % 4;
        const unsigned char *row = stages + stage + g * BYTES;
#pragma unroll
        for (uint32_t j = 0; j < CHUNK / 32; j++) {
            const uint32_t k = chunk * CHUNK + j * 32 + t * 8, at = (j * 4 + t ^ g % 2 * 4) * 16;
            const uint4 w = *(const uint4 *)(row + at), v = *(const uint4 *)(row + 8 * BYTES + at);
            const uint32_t low[4] = { w.x, v.x, w.y, v.y }, high[4] = { w.z, v.z, w.w, v.w };
#pragma unroll
            for (uint32_t n = 0; n < NT; n++) {
                uint4 b = make_uint4(0, 0, 0, 0);
                if (n < rows && k < K) b = *(const uint4 *)(x + n * down + k * 2);
                mma<E>(acc[n], low, b.x, b.y);
                mma<E>(acc[n], high, b.z, b.w);
            }
        }
    }
};

template <int NT> RT_DEVICE void expect_weights(const rt_cuda_few_params &p)
{
    const rt_cuda_few_tensor &t = p.tensor[tensor_of(p)];
    const Place_of_warp w = few_place<8 * NT>(p, t);
    weight_rows(t, w.n0).expect(w.part, p.split, RT_FEW_STAGES_16 - 1, BYTES);
}

template <class E, int NT> RT_DEVICE void few(const rt_cuda_few_params &p)
{
    const rt_cuda_few_tensor &t = p.tensor[tensor_of(p)];
    const Place_of_warp w = few_place<8 * NT>(p, t);
    unsigned char *const stages = shared_bytes() + threadIdx.x / 32 * RT_FEW_WARP_BYTES_16;
    const Word_rows weights = { weight_rows(t, w.n0) };
    const uint32_t m = w.m0 + threadIdx.x % 32 / 4;
    next_may_begin();
    Multiply<E, NT> work = {
        p.a.at + m * p.a.stride * 2, 16 * p.a.stride, m < p.M ? (p.M - m + 7) / 8 : 0, p.K, stages, {}
    };
    few_walk<RT_FEW_STAGES_16, STAGE>(weights, shared_at(stages), w.part, p.split, (p.K + CHUNK - 1) / CHUNK, work);
    few_out<NT>(work.acc, p, t, w, (float *)shared_bytes());
}
} // namespace

#define KERNEL(name, E, NT)                                                                                            \
    extern "C" __global__ void __launch_bounds__(RT_FEW_THREADS, 2)                                                    \
        matmul_few_##name(const __grid_constant__ rt_cuda_few_params p)                                                \
    {                                                                                                                  \
        expect_weights<NT>(p);                                                                                         \
        begin_kernel();                                                                                                \
        few<E, NT>(p);                                                                                                 \
    }
KERNEL(bf16_8, bf16, 1)
KERNEL(bf16_16, bf16, 2)
KERNEL(f16_8, f16, 1)
KERNEL(f16_16, f16, 2)

/* out from parts of sums, which are added in order: a thread for each element. */
extern "C" __global__ void __launch_bounds__(RT_CUDA_BLOCK)
    matmul_few_join(const __grid_constant__ rt_cuda_few_params p)
{
    begin_kernel();
    const rt_cuda_few_tensor &t = p.tensor[0];
    const uint64_t all = (uint64_t)p.M * t.N, i = (uint64_t)blockIdx.x * RT_CUDA_BLOCK + threadIdx.x;
    if (i >= all) return;
    const float *from = (const float *)t.sums + i;
    float sum = from[0];
    for (uint32_t s = 1; s < p.split; s++) sum += from[s * all];
    few_store(t, (uint32_t)(i / t.N), (uint32_t)(i % t.N), sum);
}
