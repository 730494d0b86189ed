/* cuda_matmul.cu - products of our own: for what cuBLASLt does not take, and where it is not there.
 *
 * out[m][n] = alpha sum_k op(a)[m][k] op(b)[k][n] + bias[n], or += ; any strides, any mix of f32, bf16 and f16, products
 * and sums in f32. A block of 256 threads owns a tile of 64 x 64; a thread owns 4 x 4 of it. Steps of 16 along K go
 * through shared memory, in order, so every element is one chain of additions: the result does not depend on the GPU. */
#include "backend/cuda/kernels/cuda_matmul.h"

#include <cuda_bf16.h>
#include <cuda_fp16.h>

static __device__ __forceinline__ float load(const void *p, uint64_t i, uint32_t type)
{
    if (type == RT_CUDA_F32) return ((const float *)p)[i];
    if (type == RT_CUDA_BF16) return __bfloat162float(((const __nv_bfloat16 *)p)[i]);
    return __half2float(((const __half *)p)[i]);
}

static __device__ __forceinline__ void store(void *p, uint64_t i, uint32_t type, float x)
{
    if (type == RT_CUDA_F32)
        ((float *)p)[i] = x;
    else if (type == RT_CUDA_BF16)
        ((__nv_bfloat16 *)p)[i] = __float2bfloat16_rn(x);
    else
        ((__half *)p)[i] = __float2half_rn(x);
}

/* One step of a tile into shared memory as t[k][line]: `lines` of op(x) from `first`, columns k0 to k0 + 15. Threads run
 * along whichever direction is contiguous. */
static __device__ __forceinline__ void fetch(float (*t)[RT_MATMUL_TILE + 1], const void *x, uint32_t type, uint64_t line_step,
                                             uint64_t k_step, uint32_t first, uint32_t lines, uint32_t k0, uint32_t K)
{
    bool along_k = k_step == 1;
    for (uint32_t i = threadIdx.x; i < RT_MATMUL_TILE * RT_MATMUL_STEP; i += RT_MATMUL_THREADS) {
        uint32_t k = along_k ? i % RT_MATMUL_STEP : i / RT_MATMUL_TILE;
        uint32_t line = along_k ? i / RT_MATMUL_STEP : i % RT_MATMUL_TILE;
        bool inside = first + line < lines && k0 + k < K;
        t[k][line] = inside ? load(x, (uint64_t)(first + line) * line_step + (uint64_t)(k0 + k) * k_step, type) : 0.0f;
    }
}

extern "C" __global__ void __launch_bounds__(RT_MATMUL_THREADS) rt_matmul_tiles(const rt_cuda_matmul_params p)
{
    __shared__ float a[RT_MATMUL_STEP][RT_MATMUL_TILE + 1], b[RT_MATMUL_STEP][RT_MATMUL_TILE + 1];
    uint32_t m0 = blockIdx.x / p.tiles_n * RT_MATMUL_TILE, n0 = blockIdx.x % p.tiles_n * RT_MATMUL_TILE;
    uint32_t row = threadIdx.x / 16 * 4, col = threadIdx.x % 16;
    float sum[4][4] = {};
    for (uint32_t k0 = 0; k0 < p.K; k0 += RT_MATMUL_STEP) {
        fetch(a, (const void *)p.a, p.a_type, p.a_row, p.a_col, m0, p.M, k0, p.K);
        fetch(b, (const void *)p.b, p.b_type, p.b_col, p.b_row, n0, p.N, k0, p.K);
        __syncthreads();
#pragma unroll
        for (int k = 0; k < RT_MATMUL_STEP; k++)
#pragma unroll
            for (int i = 0; i < 4; i++)
#pragma unroll
                for (int j = 0; j < 4; j++) sum[i][j] = fmaf(a[k][row + i], b[k][col + 16 * j], sum[i][j]);
        __syncthreads();
    }
#pragma unroll
    for (int i = 0; i < 4; i++)
#pragma unroll
        for (int j = 0; j < 4; j++) {
            uint32_t m = m0 + row + i, n = n0 + col + 16 * j;
            if (m >= p.M || n >= p.N) continue;
            uint64_t at = (uint64_t)m * p.out_row + n;
            float y = p.alpha * sum[i][j];
            if (p.bias) y += load((const void *)p.bias, n, p.bias_type);
            if (p.acc) y += load((const void *)p.out, at, p.out_type);
            store((void *)p.out, at, p.out_type, y);
        }
}

/* A thread owns elements one grid apart. */
extern "C" __global__ void __launch_bounds__(RT_MATMUL_THREADS) rt_matmul_bias(const rt_cuda_bias_params p)
{
    uint64_t all = (uint64_t)p.M * p.N, step = (uint64_t)gridDim.x * RT_MATMUL_THREADS;
    for (uint64_t i = (uint64_t)blockIdx.x * RT_MATMUL_THREADS + threadIdx.x; i < all; i += step) {
        uint64_t row = i / p.N, col = i % p.N;
        store((void *)p.out, row * p.out_row + col, p.out_type, load((const void *)p.bias, col, p.bias_type));
    }
}
