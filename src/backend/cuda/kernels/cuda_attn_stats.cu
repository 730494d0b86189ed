/* cuda_attn_stats.cu - what the backward of attention wants to know about each query before it begins.
 *
 * Owns: rt_cuda_attn_stat of every query and head: eight threads form do.o of one, in a fixed tree; lse is brought to
 * units of log 2, and the first key is looked up once for all kernels that follow. */
#include "backend/cuda/kernels/cuda_attn_dev.cuh"

/* Eight elements from element `at` on, which is a multiple of eight on a 16-byte boundary. */
RT_DEVICE void load_8(float (&x)[8], uint64_t from, uint64_t at, uint32_t dtype)
{
    const uint4 raw = *(const uint4 *)((const uint16_t *)from + at);
    const uint32_t word[4] = { raw.x, raw.y, raw.z, raw.w };
#pragma unroll
    for (int i = 0; i < 4; i++) {
        x[2 * i] = dtype == RT_CUDA_ATTN_BF16 ? rt_bf16::first(word[i]) : rt_f16::first(word[i]);
        x[2 * i + 1] = dtype == RT_CUDA_ATTN_BF16 ? rt_bf16::second(word[i]) : rt_f16::second(word[i]);
    }
}

/* wide: 16-bit elements on 16-byte boundaries. */
template <bool WIDE> RT_DEVICE void attn_stats(const rt_cuda_attn_bwd_params &p)
{
    const uint64_t item = ((uint64_t)blockIdx.x * blockDim.x + threadIdx.x) / 8, row = item / p.a.H;
    const uint32_t h = (uint32_t)(item % p.a.H), part = threadIdx.x % 8, t = (uint32_t)(row % p.a.T);
    const bool in = row < (uint64_t)p.a.B * p.a.T;
    const uint64_t x = row * p.d_o.stride + (uint64_t)h * p.a.D, y = row * p.o.stride + (uint64_t)h * p.a.D;
    float sum = 0;
    for (uint32_t d = part * (WIDE ? 8 : 1); in && d < p.a.D; d += WIDE ? 64 : 8) {
        float a[8], b[8];
        if (WIDE) {
            load_8(a, p.d_o.at, x + d, p.dtype);
            load_8(b, p.o.at, y + d, p.dtype);
        } else {
            a[0] = load_any((const void *)p.d_o.at, x + d, p.dtype);
            b[0] = load_any((const void *)p.o.at, y + d, p.dtype);
        }
#pragma unroll
        for (int i = 0; i < (WIDE ? 8 : 1); i++) sum = fmaf(a[i], b[i], sum);
    }
    for (int k = 1; k < 8; k *= 2) sum += __shfl_xor_sync(~0u, sum, k);
    if (!in || part != 0) return;
    const float lse = ((const float *)p.lse.at)[row * p.lse.stride + h];
    const int lo = first_key(p.a, p.start, row - t, (int)t);
    ((rt_cuda_attn_stat *)p.stats)[((row / p.a.T) * p.a.H + h) * p.a.T + t] = { lse * 0x1.715476p+0f, sum, lo, 0 };
}

extern "C" __global__ void __launch_bounds__(256) rt_attn_stats(const __grid_constant__ rt_cuda_attn_bwd_params p)
{
    begin_kernel();
    attn_stats<false>(p);
}
extern "C" __global__ void __launch_bounds__(256) rt_attn_stats_wide(const __grid_constant__ rt_cuda_attn_bwd_params p)
{
    begin_kernel();
    attn_stats<true>(p);
}
