/* cuda_attn_join.cu - the end of attn_decode: the parts of the cache, joined in order; and its plain form, in f32.
 *
 * Owns: rt_attn_decode_join, which both forms end with, and rt_attn_decode_plain for f32 operands, sm_75, narrow heads
 * and operands off their 16-byte boundaries. */
#include "backend/cuda/kernels/cuda_attn_plain.cuh"
#include "backend/cuda/kernels/cuda_attn_split.cuh"

extern "C" __global__ void __launch_bounds__(RT_CUDA_ATTN_PLAIN_THREADS, 1)
    rt_attn_decode_plain(const __grid_constant__ rt_cuda_attn_decode_params p)
{
    begin_kernel();
    const split_block b = split_place(p, TILE, TILE);
    if (b.len == 0) return;
    const uint64_t col = (uint64_t)b.kv * p.a.D;
    plain_queries w;
    plain_queries_begin(w);
#pragma unroll
    for (int i = 0; i < 4; i++) {
        const int r = thread_y() * 4 + i;
        w.hi[i] = r < b.rows ? last_seen(p.a, b.len, (b.r0 + r) % (int)p.a.Q) : -1;
        w.lo[i] = r < b.rows ? first_seen(p.a, w.hi[i]) : 0;
        w.hi[i] = min(w.hi[i], b.j1 - 1); /* behind the split shared memory holds zeros, not keys */
    }
    plain_attend(
        w, p.q.at, [&](int r) { return query_at(p, p.q, b.seq, b.kv, b.r0 + r); }, b.rows, p.kc.at,
        [&](int j) { return cache_row(p, b.seq, j) * p.kc.stride + col; }, p.vc.at,
        [&](int j) { return cache_row(p, b.seq, j) * p.vc.stride + col; }, b.j0, b.j1, (int)p.a.D, p.scale2, p.dtype);
#pragma unroll
    for (int i = 0; i < 4; i++) {
        const int r = thread_y() * 4 + i;
        if (r >= b.rows) continue;
        const uint64_t at = part_at(p, b, r);
        if (thread_x() == 0) ((float2 *)p.tops)[at] = make_float2(w.top[i], w.sum[i]);
#pragma unroll
        for (int n = 0; n < SLICES; n++)
#pragma unroll
            for (int e = 0; e < 2; e++) {
                const int d = n * SLICE + thread_x() * 2 + e;
                if (d < (int)p.a.D) ((float *)p.outs)[at * p.a.D + d] = w.o[n][i][e];
            }
    }
}

/* One warp for each query row; a length that cannot be gives NaN. */
extern "C" __global__ void __launch_bounds__(256)
    rt_attn_decode_join(const __grid_constant__ rt_cuda_attn_decode_params p)
{
    begin_kernel();
    next_may_begin();
    const uint32_t R = p.a.Q * (p.a.H / p.a.K), lane = threadIdx.x & 31;
    const uint64_t row = (uint64_t)blockIdx.x * 8 + threadIdx.x / 32;
    if (row >= (uint64_t)p.a.B * p.a.K * R) return;
    const uint32_t unit = (uint32_t)(row / R), seq = unit / p.a.K;
    const float2 *tops = (const float2 *)p.tops + row * p.splits;
    const float *outs = (const float *)p.outs + row * p.splits * p.a.D;
    const uint64_t to = query_at(p, p.o, seq, unit % p.a.K, (int)(row % R));
    const bool sound = cache_length(p, seq) != 0;
    const uint32_t splits = sound ? p.splits : 0;
    float top = -INFINITY, sum = 0;
    for (uint32_t i = lane; i < splits; i += 32) top = fmaxf(top, tops[i].x);
    for (uint32_t o = 16; o > 0; o /= 2) top = fmaxf(top, __shfl_xor_sync(~0u, top, o));
    const float base = top == -INFINITY ? 0.0f : top;
    for (uint32_t i = 0; i < splits; i += 32) { /* a lane's weight each, added in order */
        const float2 mine = i + lane < splits ? tops[i + lane] : make_float2(-INFINITY, 0);
        const float weight = power_2(mine.x - base);
        for (uint32_t k = 0; k < min(32u, splits - i); k++)
            sum = fmaf(__shfl_sync(~0u, mine.y, k), __shfl_sync(~0u, weight, k), sum);
    }
    const float f = 1.0f / sum;
    const uint32_t step = p.a.D % 4 ? 32 : 128; /* columns of a turn: one a lane, or four where they are whole packs */
    for (uint32_t d = lane * (step / 32); d < p.a.D; d += step) {
        float4 out = { 0, 0, 0, 0 };
#pragma unroll 8
        for (uint32_t i = 0; i < splits; i++) {
            const float weight = power_2(tops[i].x - base), *from = outs + (uint64_t)i * p.a.D + d;
            const float4 x = step == 32 ? float4{ from[0], 0, 0, 0 } : *(const float4 *)from;
            out = { fmaf(x.x, weight, out.x), fmaf(x.y, weight, out.y), fmaf(x.z, weight, out.z),
                    fmaf(x.w, weight, out.w) };
        }
        const float all[4] = { out.x, out.y, out.z, out.w };
#pragma unroll
        for (uint32_t k = 0; k < 4; k++)
            if (k < step / 32) store_any((void *)p.o.at, to + d + k, sound ? all[k] * f : NAN, p.dtype);
    }
}
