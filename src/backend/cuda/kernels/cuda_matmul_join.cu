/* cuda_matmul_join.cu - the two small kernels beside GEMMs: parts of K joined, and a bias written into every row.
 *
 * In a module of its own, since cuBLASLt's GEMMs need the second where they need none of ours. A thread owns packs
 * of 8 elements of a row (the parts of one pack are added in order), or elements one grid apart. */
#include "backend/cuda/kernels/cuda_matmul.cuh"

enum { W = RT_MATMUL_PACK };

template <class T> RT_DEVICE void join_out(const Target &t, uint32_t m, uint32_t n, const float (&v)[1][W])
{
    float bias[W];
    bias_load(bias, t, n);
    if (t.packs && n + W <= t.N) {
        packs_out<T>(t, m, n, 0, v, bias);
        return;
    }
#pragma unroll
    for (int i = 0; i < W; i++)
        if (n + i < t.N) one_out<T>(t, m, n + i, v[0][i], bias[i]);
}

extern "C" __global__ void __launch_bounds__(RT_CUDA_BLOCK) matmul_join(const rt_cuda_matmul_params p)
{
    begin_kernel();
    const uint32_t packs = p.tile_m * p.tile_n / W, blocks = packs / RT_CUDA_BLOCK; /* of a tile */
    const uint32_t tile = blockIdx.x / blocks, i = blockIdx.x % blocks * RT_CUDA_BLOCK + threadIdx.x;
    const Target t = target_of(p, corner_of(p, p.whole + tile));
    const uint32_t m = t.at.m + i * W / p.tile_n, n = t.at.n + i * W % p.tile_n;
    if (m >= t.M || n >= t.N) return;
    const float *from = (const float *)p.sums + ((uint64_t)tile * p.parts * packs + i) * W;
    float v[1][W];
    load(v[0], from, Whole());
    for (uint32_t k = 1; k < p.parts; k++) {
        float x[W];
        load(x, from + (uint64_t)k * packs * W, Whole());
#pragma unroll
        for (int c = 0; c < W; c++) v[0][c] += x[c];
    }
    if (t.type == RT_DTYPE_F32)
        join_out<float>(t, m, n, v);
    else if (t.type == RT_DTYPE_BF16)
        join_out<bf16>(t, m, n, v);
    else
        join_out<f16>(t, m, n, v);
}

extern "C" __global__ void __launch_bounds__(RT_CUDA_BLOCK) matmul_bias(const rt_cuda_bias_params p)
{
    begin_kernel();
    const uint64_t all = (uint64_t)p.M * p.N, step = (uint64_t)gridDim.x * RT_CUDA_BLOCK;
    for (uint64_t i = (uint64_t)blockIdx.x * RT_CUDA_BLOCK + threadIdx.x; i < all; i += step) {
        const uint64_t row = i / p.N, col = i % p.N;
        store_one(p.out.at, p.out_type, row * p.out.stride + col, load_one(p.bias, p.bias_type, col));
    }
}
