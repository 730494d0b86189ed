/* cuda_attn_plain.cu - attention forward and backward in f32 on ordinary cores, for what the tensor-core kernels leave.
 *
 * Owns: attn_fwd and attn_bwd of f32 operands, of f16 in the backward, of sm_75, of narrow heads and of operands off
 * their 16-byte boundaries. Blocks and the order of sums are as in cuda_attn_fwd.cu and cuda_attn_bwd.cu. */
#include "backend/cuda/kernels/cuda_attn_plain.cuh"

extern "C" __global__ void __launch_bounds__(RT_CUDA_ATTN_PLAIN_THREADS)
    rt_attn_plain_fwd(const __grid_constant__ rt_cuda_attn_fwd_params p)
{
    const int T = (int)p.a.T, D = (int)p.a.D;
    const uint32_t h = blockIdx.x % p.a.H, rest = blockIdx.x / p.a.H, tiles = (T + TILE - 1) / TILE;
    const uint64_t row0 = (uint64_t)(rest % p.a.B) * T, kv = (uint64_t)(h / (p.a.H / p.a.K)) * D;
    const int i0 = (int)(tiles - 1 - rest / p.a.B) * TILE, rows = min((int)TILE, T - i0);
    plain_queries w;
    plain_queries_begin(w);
    int first = INT32_MAX;
    for (int i = i0 + (int)(threadIdx.x & 31); i < i0 + rows; i += 32) {
        const int lo = first_key(p.a, p.start, row0, i);
        if (lo <= i) first = min(first, lo);
    }
    first = warp_min(first);
#pragma unroll
    for (int i = 0; i < 4; i++) {
        w.hi[i] = i0 + thread_y() * 4 + i;
        w.lo[i] = first_key(p.a, p.start, row0, w.hi[i]);
    }
    const uint64_t col = (uint64_t)h * D;
    plain_attend(w, p.q.at, [&](int r) { return (row0 + i0 + r) * p.q.stride + col; }, rows, p.k.at,
                 [&](int j) { return (row0 + j) * p.k.stride + kv; }, p.v.at,
                 [&](int j) { return (row0 + j) * p.v.stride + kv; }, min(first, i0 + rows) / TILE * TILE, i0 + rows, D,
                 p.scale2, p.dtype);
#pragma unroll
    for (int i = 0; i < 4; i++) {
        if (w.hi[i] >= T) continue;
        const uint64_t row = row0 + w.hi[i];
        const float f = 1.0f / w.sum[i];
        if (thread_x() == 0)
            ((float *)p.lse.at)[row * p.lse.stride + h] = fmaf(w.top[i], 0x1.62e430p-1f, logf(w.sum[i]));
#pragma unroll
        for (int n = 0; n < SLICES; n++)
#pragma unroll
            for (int e = 0; e < 2; e++) {
                const int d = n * SLICE + thread_x() * 2 + e;
                if (d < D) store_any((void *)p.o.at, row * p.o.stride + col + d, w.o[n][i][e] * f, p.dtype);
            }
    }
}
