/* cuda_attn_decode.cu - attention of the newest tokens over the cache on tensor cores, bf16 or f16 storage.
 *
 * Owns: attn_decode where cuda_attn_decode.c finds 16-bit operands on 16-byte boundaries and sm_80. Reading the cache
 * is the cost, so its keys are split among blocks, and a block takes 16 query rows of one kv head, which read every key
 * once. Keys and values of a tile are under way together, those of the next come while this one's are used. Of each
 * tile of keys every warp takes a quarter, with maxima and sums of its own; at the end the warps are
 * joined in order, and the block leaves its part for cuda_attn_join.cu. Weights are added in as many parts as make them
 * exact: here that costs nothing. */
#include "backend/cuda/kernels/cuda_attn_split.cuh"
#include "backend/cuda/kernels/cuda_attn_tile.cuh"

enum { ROWS = RT_CUDA_ATTN_DECODE_ROWS, KEYS = RT_CUDA_ATTN_DECODE_KEYS, MINE = KEYS / WARPS };

/* The query rows as one warp sees them; [half]: row lane/4 + 8 half. */
template <int DP> struct decode_rows {
    float o[1][DP / 8][4];
    float top[2], sum[2];
    int lo[2], hi[2];
};

template <int DP> RT_DEVICE void fetch_queries(const rt_cuda_attn_decode_params &p, const split_block &b, uint32_t to)
{
    for (int c = (int)threadIdx.x; c < ROWS * (DP / 8); c += RT_CUDA_ATTN_THREADS) {
        const int r = c / (DP / 8), d = c % (DP / 8) * 8;
        const bool in = r < b.rows && d < (int)p.a.D;
        copy_async(to + r * pitch<DP> + d * 2,
                   (const uint16_t *)p.q.at + (in ? query_at(p, p.q, b.seq, b.kv, b.r0 + r) + d : 0), in);
    }
}

template <int DP>
RT_DEVICE void rows_begin(decode_rows<DP> &w, const rt_cuda_attn_decode_params &p, const split_block &b)
{
#pragma unroll
    for (int half = 0; half < 2; half++) {
        const int r = lane() / 4 + half * 8;
        w.top[half] = -INFINITY;
        w.sum[half] = 0;
        w.hi[half] = r < b.rows ? last_seen(p.a, b.len, (b.r0 + r) % (int)p.a.Q) : -1;
        w.lo[half] = r < b.rows ? first_seen(p.a, w.hi[half]) : 0;
        w.hi[half] = min(w.hi[half], b.j1 - 1);
    }
#pragma unroll
    for (int n = 0; n < DP / 8; n++)
#pragma unroll
        for (int e = 0; e < 4; e++) w.o[0][n][e] = 0;
}

/* Scores of keys from j on become weights (times E::lift); what is not seen becomes 0. */
template <class E, int DP> RT_DEVICE void soften(float (&s)[1][MINE / 8][4], decode_rows<DP> &w, int j, float scale2)
{
    float shrink[2];
#pragma unroll
    for (int half = 0; half < 2; half++) {
        float top = w.top[half], sum = 0;
#pragma unroll
        for (int n = 0; n < MINE / 8; n++)
#pragma unroll
            for (int e = 0; e < 2; e++) {
                float &x = s[0][n][half * 2 + e];
                const int key = j + n * 8 + lane() % 4 * 2 + e;
                x = key < w.lo[half] || key > w.hi[half] ? -INFINITY : x * scale2;
                top = fmaxf(top, x);
            }
        top = fmaxf(top, __shfl_xor_sync(~0u, top, 1));
        top = fmaxf(top, __shfl_xor_sync(~0u, top, 2));
        const float base = top == -INFINITY ? 0.0f : top; /* nothing seen yet */
#pragma unroll
        for (int n = 0; n < MINE / 8; n++)
#pragma unroll
            for (int e = 0; e < 2; e++) {
                float &x = s[0][n][half * 2 + e];
                x = power_2(x - base) * E::lift;
                sum += x;
            }
        shrink[half] = power_2(w.top[half] - base);
        w.sum[half] = fmaf(w.sum[half], shrink[half], sum);
        w.top[half] = top;
    }
#pragma unroll
    for (int n = 0; n < DP / 8; n++)
#pragma unroll
        for (int e = 0; e < 4; e++) w.o[0][n][e] *= shrink[e / 2];
}

/* Joins the warps in order. Shared memory: (WARPS,ROWS) pairs, then (WARPS,ROWS,DP) values. */
template <int DP> RT_DEVICE void rows_end(decode_rows<DP> &w, const rt_cuda_attn_decode_params &p, const split_block &b)
{
    float2 *tops = (float2 *)rt_shared;
    float *outs = (float *)(tops + WARPS * ROWS);
    __syncthreads(); /* nobody reads keys or values any more */
#pragma unroll
    for (int half = 0; half < 2; half++) {
        const int r = warp() * ROWS + lane() / 4 + half * 8;
        float sum = w.sum[half];
        sum += __shfl_xor_sync(~0u, sum, 1);
        sum += __shfl_xor_sync(~0u, sum, 2);
        if (lane() % 4 == 0) tops[r] = make_float2(w.top[half], sum);
#pragma unroll
        for (int n = 0; n < DP / 8; n++)
            *(float2 *)(outs + r * DP + n * 8 + lane() % 4 * 2) =
                make_float2(w.o[0][n][half * 2], w.o[0][n][half * 2 + 1]);
    }
    __syncthreads();
    for (int c = (int)threadIdx.x; c < b.rows * DP; c += RT_CUDA_ATTN_THREADS) {
        const int r = c / DP, d = c % DP;
        float top = -INFINITY, sum = 0, out = 0;
        for (int n = 0; n < WARPS; n++) top = fmaxf(top, tops[n * ROWS + r].x);
        const float base = top == -INFINITY ? 0.0f : top;
        for (int n = 0; n < WARPS; n++) {
            const float f = power_2(tops[n * ROWS + r].x - base);
            sum = fmaf(tops[n * ROWS + r].y, f, sum);
            out = fmaf(outs[(n * ROWS + r) * DP + d], f, out);
        }
        const uint64_t at = part_at(p, b, r);
        if (d == 0) ((float2 *)p.tops)[at] = make_float2(top, sum);
        if (d < (int)p.a.D) ((float *)p.outs)[at * p.a.D + d] = out;
    }
}

template <class E, int DP> RT_DEVICE void attn_decode(const rt_cuda_attn_decode_params &p)
{
    const split_block b = split_place(p, ROWS, KEYS);
    if (b.len == 0) return; /* cuda_attn_join.cu says NaN */
    const uint64_t col = (uint64_t)b.kv * p.a.D;
    const uint16_t *k = (const uint16_t *)p.kc.at + col, *v = (const uint16_t *)p.vc.at + col;
    const uint32_t sq = shared_at(rt_shared), sk = sq + ROWS * pitch<DP>, sv = sk + KEYS * pitch<DP>;
    const int D = (int)p.a.D;
    decode_rows<DP> w;
    rows_begin(w, p, b);
    fetch_queries<DP>(p, b, sq);
    uint64_t at = b.j0 < b.j1 ? cache_row(p, b.seq, b.j0) : 0;
    if (b.j0 < b.j1) tile_fetch<KEYS, DP>(sk, k + at * p.kc.stride, p.kc.stride, b.j1 - b.j0, D);
    copy_group();
    if (b.j0 < b.j1) tile_fetch<KEYS, DP>(sv, v + at * p.vc.stride, p.vc.stride, b.j1 - b.j0, D);
    copy_group();
    for (int j = b.j0; j < b.j1; j += KEYS) {
        float s[1][MINE / 8][4];
        const bool more = j + KEYS < b.j1;
        if (more) at = cache_row(p, b.seq, j + KEYS);
        copy_groups_wait<1>();
        __syncthreads(); /* keys are here */
        tile_scores<E, DP, 1, MINE>(s, sq, sk + warp() * MINE * pitch<DP>);
        __syncthreads(); /* nobody reads the keys any more */
        if (more) tile_fetch<KEYS, DP>(sk, k + at * p.kc.stride, p.kc.stride, b.j1 - j - KEYS, D);
        copy_group();
        soften<E>(s, w, j + warp() * MINE, p.scale2);
        copy_groups_wait<1>();
        __syncthreads(); /* values are here */
        tile_add<E, E::parts, DP>(w.o, s, 0, sv + warp() * MINE * pitch<DP>);
        __syncthreads(); /* nobody reads the values any more */
        if (more) tile_fetch<KEYS, DP>(sv, v + at * p.vc.stride, p.vc.stride, b.j1 - j - KEYS, D);
        copy_group();
    }
    copy_wait(); /* of the queries, where there was no key */
    rows_end(w, p, b);
}

#define KERNEL(type, DP)                                                                                               \
    extern "C" __global__ void __launch_bounds__(RT_CUDA_ATTN_THREADS)                                                 \
        rt_attn_decode_##type##_##DP(const __grid_constant__ rt_cuda_attn_decode_params p)                             \
    {                                                                                                                  \
        begin_kernel();                                                                                                \
        next_may_begin();                                                                                              \
        attn_decode<rt_##type, DP>(p);                                                                                 \
    }
KERNEL(bf16, 64)
KERNEL(bf16, 128)
KERNEL(bf16, 256)
KERNEL(f16, 64)
KERNEL(f16, 128)
KERNEL(f16, 256)
