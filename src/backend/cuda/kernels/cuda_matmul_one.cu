/* cuda_matmul_one.cu - out = alpha a b' + bias of one row, weights b of 16 bits.
 *
 * A block has a multiprocessor to itself and a run of weight rows, as many as any other but for one. A row is read by
 * one warp, or in parts by several, 16 bytes a lane at a time and straight into registers, the next row while this one
 * is multiplied. Each lane keeps its share of a in registers.
 *
 * Why deterministic: how many warps share a row follows from K alone; their sums are added in order. */
#include "backend/cuda/kernels/cuda_common.cuh"
#include "backend/cuda/kernels/cuda_matmul_few.cuh"
#include "backend/cuda/kernels/cuda_matmul_one.h"

namespace
{
enum { PACKS = RT_ONE_PACKS };

/* Where a warp works: every teams-th row from `row` to `end`, of them the packs from `pack` on, `packs` a lane. */
struct Share {
    uint32_t first, row, end, teams, part;
    uint32_t pack, packs, all;

    __device__ __forceinline__ Share(const rt_cuda_few_params &p, const rt_cuda_few_tensor &t)
    {
        const uint32_t block = blockIdx.x - t.first, warp = threadIdx.x / 32;
        first = (uint32_t)((uint64_t)t.N * block / t.blocks);
        end = (uint32_t)((uint64_t)t.N * (block + 1) / t.blocks);
        teams = blockDim.x / 32 / p.split;
        part = warp % p.split;
        row = first + warp / p.split;
        all = p.K / 8;
        packs = (all + 32 * p.split - 1) / (32 * p.split);
        pack = part * packs * 32 + threadIdx.x % 32;
    }
    __device__ __forceinline__ bool has(int u) const { return (uint32_t)u < packs && pack + u * 32 < all; }
    __device__ __forceinline__ void load(uint4 (&v)[PACKS], const char *from) const
    {
#pragma unroll
        for (int u = 0; u < PACKS; u++) v[u] = has(u) ? ((const uint4 *)from)[pack + u * 32] : make_uint4(0, 0, 0, 0);
    }
};

template <class E> RT_DEVICE float dot(const uint4 (&w)[PACKS], const uint4 (&x)[PACKS])
{
    float low = 0, high = 0;
#pragma unroll
    for (int u = 0; u < PACKS; u++) {
        const uint32_t a[4] = { w[u].x, w[u].y, w[u].z, w[u].w }, b[4] = { x[u].x, x[u].y, x[u].z, x[u].w };
#pragma unroll
        for (int i = 0; i < 4; i++) {
            low = fmaf(twins<E>::low(a[i]), twins<E>::low(b[i]), low);
            high = fmaf(twins<E>::high(a[i]), twins<E>::high(b[i]), high);
        }
    }
    return low + high;
}

template <class E> RT_DEVICE void expect_weights(const rt_cuda_few_params &p)
{
    const rt_cuda_few_tensor &t = p.tensor[tensor_of(p)];
    const Share s(p, t);
    for (uint32_t row = s.row; row < s.end && row <= s.row + s.teams; row += s.teams)
        for (int u = 0; u < PACKS; u++)
            if (threadIdx.x % 8 == 0 && s.has(u)) expect_soon(t.b + row * t.b_step + (s.pack + u * 32) * 16);
}

/* room: (rows of the block, parts) f32 */
template <class E> RT_DEVICE void one(const rt_cuda_few_params &p)
{
    const rt_cuda_few_tensor &t = p.tensor[tensor_of(p)];
    const Share s(p, t);
    float *const room = (float *)shared_bytes();
    uint4 x[PACKS], w[PACKS];
    next_may_begin();
    if (s.row < s.end) s.load(w, t.b + s.row * t.b_step);
    s.load(x, p.a.at);
#pragma unroll 1
    for (uint32_t row = s.row; row < s.end; row += s.teams) {
        uint4 next[PACKS];
        if (row + s.teams < s.end) s.load(next, t.b + (row + s.teams) * t.b_step);
        const float sum = lanes_sum(dot<E>(w, x));
        if (threadIdx.x % 32 == 0) room[(row - s.first) * p.split + s.part] = sum;
#pragma unroll
        for (int u = 0; u < PACKS; u++) w[u] = next[u];
    }
    __syncthreads();
    for (uint32_t i = threadIdx.x; i < s.end - s.first; i += blockDim.x) {
        float sum = room[i * p.split];
        for (uint32_t k = 1; k < p.split; k++) sum += room[i * p.split + k];
        few_store(t, 0, s.first + i, sum);
    }
}
} // namespace

#define KERNEL(name, E)                                                                                                \
    extern "C" __global__ void __launch_bounds__(32 * RT_ONE_WARPS, 1)                                                 \
        matmul_one_##name(const __grid_constant__ rt_cuda_few_params p)                                                \
    {                                                                                                                  \
        expect_weights<E>(p);                                                                                          \
        begin_kernel();                                                                                                \
        one<E>(p);                                                                                                     \
    }
KERNEL(bf16, bf16)
KERNEL(f16, f16)
