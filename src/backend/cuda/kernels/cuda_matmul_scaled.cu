/* cuda_matmul_scaled.cu - GEMMs of e4m3 codes on ordinary cores: for what the library does not take.
 *
 * Any strides and alignment. Codes become f32, exactly; products and sums are f32, every element one chain of
 * additions in the order of K; then scales and bias, rounded once. A block of 256 threads owns a tile of 64 x 64, a
 * thread 4 x 4 of it, 16 of K at a time through shared memory. */
#include "backend/cuda/kernels/cuda_common.cuh"
#include "backend/cuda/kernels/cuda_scaled.h"

enum { TILE = RT_SCALED_TILE, STEP = RT_SCALED_STEP, PITCH = TILE + 4 };
static_assert(TILE * STEP == 4 * RT_CUDA_BLOCK, "a thread fetches four codes of each operand");

typedef float Step[STEP][PITCH]; /* [k][row] */

/* Four codes along row `line` of x, from k on; those that are not there are 0. */
RT_DEVICE void fetch(float (&v)[4], const rt_cuda_mat &x, bool packs, uint32_t line, uint32_t lines, uint32_t k,
                     uint32_t K)
{
    const uint8_t *from = element<uint8_t>(x, line, k);
    const uint32_t left = line < lines && k < K ? K - k : 0;
    uint32_t four = 0;
    if (packs && left >= 4) {
        four = *(const uint32_t *)from;
    } else {
#pragma unroll
        for (int i = 0; i < 4; i++)
            if ((uint32_t)i < left) four |= (uint32_t)from[i] << 8 * i;
    }
#pragma unroll
    for (int i = 0; i < 4; i++) v[i] = e4m3_to_float(four >> 8 * i & 0xffu);
}

extern "C" __global__ void __launch_bounds__(RT_CUDA_BLOCK) matmul_scaled(const rt_cuda_scaled_params p)
{
    begin_kernel();
    __shared__ __align__(16) Step a, b;
    const uint32_t m0 = blockIdx.x / p.tiles_n * TILE, n0 = blockIdx.x % p.tiles_n * TILE;
    const uint32_t line = threadIdx.x / (STEP / 4), at = threadIdx.x % (STEP / 4) * 4; /* that it fetches */
    const uint32_t row = threadIdx.x / (TILE / 4) * 4, col = threadIdx.x % (TILE / 4) * 4;
    float sum[4][4] = {};
    for (uint32_t k = 0; k < p.K; k += STEP) {
        float va[4], vb[4];
        fetch(va, p.a, p.packs, m0 + line, p.M, k + at, p.K);
        fetch(vb, p.b, p.packs, n0 + line, p.N, k + at, p.K);
        __syncthreads();
#pragma unroll
        for (int i = 0; i < 4; i++) {
            a[at + i][line] = va[i];
            b[at + i][line] = vb[i];
        }
        __syncthreads();
#pragma unroll
        for (int i = 0; i < STEP; i++) {
            const float4 x = *(const float4 *)&a[i][row], y = *(const float4 *)&b[i][col];
            const float xs[4] = { x.x, x.y, x.z, x.w }, ys[4] = { y.x, y.y, y.z, y.w };
#pragma unroll
            for (int r = 0; r < 4; r++)
#pragma unroll
                for (int c = 0; c < 4; c++) sum[r][c] = fmaf(xs[r], ys[c], sum[r][c]);
        }
    }
#pragma unroll
    for (int r = 0; r < 4; r++) {
        const uint32_t m = m0 + row + r;
        if (m >= p.M) break;
        const float sa = *element<float>(p.sa, m, 0);
#pragma unroll
        for (int c = 0; c < 4; c++) {
            const uint32_t n = n0 + col + c;
            if (n >= p.N) break;
            const uint64_t i = m * p.out.stride + n;
            float y = sum[r][c] * sa * *element<float>(p.sb, n, 0);
            if (p.bias) y += load_one(p.bias, p.bias_type, n);
            if (p.acc) y += load_one(p.out.at, p.out_type, i);
            store_one(p.out.at, p.out_type, i, y);
        }
    }
}
