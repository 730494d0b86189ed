/* cuda_attn_fwd.cu - attention forward on tensor cores: o = softmax(scale q k') v, bf16 or f16 storage.
 *
 * Owns: the op attn_fwd where cuda_attn_fwd.c finds 16-bit operands on 16-byte boundaries and sm_80. A block takes a
 * tile of queries of one head and walks over the tiles of keys that any of them sees, in order, with the running
 * maximum and sum of each query; nothing else is ever written but o and lse. While a tile of scores is computed its
 * values are on the way; while weights and values are multiplied the next keys are. A warp leaves out what none of its
 * rows sees. Blocks with the most keys come first. Each output is computed by one warp in the order of keys, so its
 * bits depend on shapes and data alone.
 *
 * A weight that is masked is 0; a value that is not finite therefore reaches the queries of its tile that do not see it
 * (as NaN) where src/backend/ref keeps it from them. Keys and queries that are not finite reach what sees them only. */
#include "backend/cuda/kernels/cuda_attn_tile.cuh"

enum { KEYS = RT_CUDA_ATTN_FWD_KEYS };

/* The rows of a warp while they are computed; [m][half]: row 16 m + lane/4 + 8 half of the warp. */
template <int DP, int MT> struct fwd_rows {
    float o[MT][DP / 8][4];       /* not yet divided by sum */
    float top[MT][2], sum[MT][2]; /* largest score, sum of weights: this lane's part of it */
    int row;                      /* position of row 0 of the warp */
    int first, last, lo_max;      /* keys that any row sees; keys lo_max .. row are seen by every row */
};

/* Where the first key of a row is kept: behind its query. */
template <int DP, int MT> RT_DEVICE int *first_of(int m, int half)
{
    return (int *)(rt_shared + (warp() * 16 * MT + m * 16 + lane() / 4 + half * 8) * pitch<DP> + DP * 2);
}

template <int DP, int MT>
RT_DEVICE void rows_begin(fwd_rows<DP, MT> &w, const rt_cuda_attn_fwd_params &p, uint64_t row0, int i0)
{
    w.row = i0 + warp() * 16 * MT;
    w.first = INT32_MAX;
    w.last = w.lo_max = -1;
#pragma unroll
    for (int m = 0; m < MT; m++)
#pragma unroll
        for (int half = 0; half < 2; half++) {
            const int i = w.row + m * 16 + lane() / 4 + half * 8, lo = first_key(p.a, p.start, row0, i);
            if (lane() % 4 == 0) *first_of<DP, MT>(m, half) = lo;
            w.top[m][half] = -INFINITY;
            w.sum[m][half] = 0;
            w.lo_max = max(w.lo_max, lo);
            if (lo <= i) {
                w.first = min(w.first, lo);
                w.last = max(w.last, i);
            }
        }
    w.first = warp_min(w.first);
    w.last = warp_max(w.last);
    w.lo_max = warp_max(w.lo_max);
#pragma unroll
    for (int m = 0; m < MT; m++)
#pragma unroll
        for (int n = 0; n < DP / 8; n++)
#pragma unroll
            for (int e = 0; e < 4; e++) w.o[m][n][e] = 0;
}

/* The first key that any query of the block sees. */
RT_DEVICE int block_first(const rt_cuda_attn_fwd_params &p, uint64_t row0, int i0, int queries)
{
    int first = INT32_MAX;
    for (int i = i0 + lane(); i < i0 + queries; i += 32) {
        const int lo = first_key(p.a, p.start, row0, i);
        if (lo <= i) first = min(first, lo);
    }
    return warp_min(first);
}

/* Scores of keys j0 .. j0 + KEYS - 1 become -infinity where they are not seen. */
template <int DP, int MT> RT_DEVICE void mask(float (&s)[MT][KEYS / 8][4], const fwd_rows<DP, MT> &w, int j0)
{
#pragma unroll
    for (int m = 0; m < MT; m++)
#pragma unroll
        for (int half = 0; half < 2; half++) {
            const int i = w.row + m * 16 + lane() / 4 + half * 8, lo = *first_of<DP, MT>(m, half);
#pragma unroll
            for (int n = 0; n < KEYS / 8; n++)
#pragma unroll
                for (int e = 0; e < 2; e++) {
                    const int j = j0 + n * 8 + lane() % 4 * 2 + e;
                    if (j < lo || j > i) s[m][n][half * 2 + e] = -INFINITY;
                }
        }
}

/* Scores become weights (times E::lift); top and sum are brought up to date, and what o holds is brought to the new
 * top. */
template <class E, int DP, int MT> RT_DEVICE void soften(float (&s)[MT][KEYS / 8][4], fwd_rows<DP, MT> &w, float scale2)
{
    float shrink[MT][2];
    bool moved = false;
#pragma unroll
    for (int m = 0; m < MT; m++)
#pragma unroll
        for (int half = 0; half < 2; half++) {
            float top = -INFINITY;
#pragma unroll
            for (int n = 0; n < KEYS / 8; n++) top = fmaxf(top, fmaxf(s[m][n][half * 2], s[m][n][half * 2 + 1]));
            top = fmaxf(top, __shfl_xor_sync(~0u, top, 1));
            top = fmaxf(top, __shfl_xor_sync(~0u, top, 2));
            top = fmaxf(w.top[m][half], top * scale2);
            /* a row that has seen nothing yet: the difference of two infinities must be none */
            const float base = top == -INFINITY ? 0.0f : top;
            float sum = 0;
#pragma unroll
            for (int n = 0; n < KEYS / 8; n++)
#pragma unroll
                for (int e = half * 2; e < half * 2 + 2; e++) {
                    s[m][n][e] = power_2(fmaf(s[m][n][e], scale2, -base)) * E::lift;
                    sum += s[m][n][e];
                }
            shrink[m][half] = power_2(w.top[m][half] - base);
            moved |= top != w.top[m][half];
            w.sum[m][half] = fmaf(w.sum[m][half], shrink[m][half], sum);
            w.top[m][half] = top;
        }
    if (!__any_sync(~0u, moved)) return;
#pragma unroll
    for (int m = 0; m < MT; m++)
#pragma unroll
        for (int n = 0; n < DP / 8; n++)
#pragma unroll
            for (int e = 0; e < 4; e++) w.o[m][n][e] *= shrink[m][e / 2];
}

/* o and lse of this warp's rows; a row that saw nothing has o NaN and lse -infinity. */
template <class E, int DP, int MT>
RT_DEVICE void rows_end(fwd_rows<DP, MT> &w, const rt_cuda_attn_fwd_params &p, uint64_t row0, uint32_t h,
                        unsigned char *at)
{
    const uint64_t row = row0 + w.row;
    float f[MT][2];
#pragma unroll
    for (int m = 0; m < MT; m++)
#pragma unroll
        for (int half = 0; half < 2; half++) {
            float sum = w.sum[m][half];
            sum += __shfl_xor_sync(~0u, sum, 1);
            sum += __shfl_xor_sync(~0u, sum, 2);
            f[m][half] = 1.0f / sum;
            const int r = m * 16 + lane() / 4 + half * 8;
            if (lane() % 4 == 0 && w.row + r < (int)p.a.T)
                ((float *)p.lse.at)[(row + r) * p.lse.stride + h] =
                    fmaf(w.top[m][half], 0x1.62e430p-1f, logf(sum / E::lift));
        }
    tile_store<E, DP, MT>((uint16_t *)p.o.at + row * p.o.stride + (uint64_t)h * p.a.D, p.o.stride, (int)p.a.T - w.row,
                          (int)p.a.D, w.o, f, at);
}

template <class E, int DP, int MT> RT_DEVICE void attn_fwd(const rt_cuda_attn_fwd_params &p)
{
    constexpr int QUERIES = WARPS * 16 * MT;
    const int T = (int)p.a.T, D = (int)p.a.D;
    const uint32_t h = blockIdx.x % p.a.H, rest = blockIdx.x / p.a.H, tiles = (T + QUERIES - 1) / QUERIES;
    const uint64_t row0 = (uint64_t)(rest % p.a.B) * T;
    const int i0 = (int)(tiles - 1 - rest / p.a.B) * QUERIES, queries = min(QUERIES, T - i0);
    const uint64_t kv = (uint64_t)(h / (p.a.H / p.a.K)) * D;
    const uint16_t *k = (const uint16_t *)p.k.at + row0 * p.k.stride + kv;
    const uint16_t *v = (const uint16_t *)p.v.at + row0 * p.v.stride + kv;
    const uint32_t sq = shared_at(rt_shared), sk = sq + QUERIES * pitch<DP>, sv = sk + KEYS * pitch<DP>;

    fwd_rows<DP, MT> w;
    rows_begin(w, p, row0, i0);
    const int first = block_first(p, row0, i0, queries), end = i0 + queries;
    int j0 = first < end ? first / KEYS * KEYS : end;
    tile_fetch<QUERIES, DP>(sq, (const uint16_t *)p.q.at + (row0 + i0) * p.q.stride + (uint64_t)h * D, p.q.stride,
                            queries, D);
    if (j0 < end) tile_fetch<KEYS, DP>(sk, k + j0 * p.k.stride, p.k.stride, T - j0, D);
    for (; j0 < end; j0 += KEYS) {
        const bool seen = j0 <= w.last && j0 + KEYS > w.first;
        float s[MT][KEYS / 8][4];
        copy_wait();
        __syncthreads(); /* keys are here, and nobody reads the values of the tile before */
        tile_fetch<KEYS, DP>(sv, v + j0 * p.v.stride, p.v.stride, T - j0, D);
        if (seen) tile_scores<E, DP, MT, KEYS>(s, sq + warp() * 16 * MT * pitch<DP>, sk);
        copy_wait();
        __syncthreads(); /* values are here, and nobody reads the keys any more */
        if (j0 + KEYS < end) tile_fetch<KEYS, DP>(sk, k + (j0 + KEYS) * p.k.stride, p.k.stride, T - j0 - KEYS, D);
        if (!seen) continue;
        const bool edge = j0 < w.lo_max || j0 + KEYS - 1 > w.row;
        if (edge) mask(s, w, j0);
        soften<E>(s, w, p.scale2);
#pragma unroll
        for (int n = 0; n < KEYS / 16; n++) { /* the choice is made for every n: so less is carried in registers */
            if (edge && (j0 + n * 16 > w.last || j0 + n * 16 + 16 <= w.first)) continue;
            if (edge)
                tile_add<E, E::parts, DP>(w.o, s, n, sv + n * 16 * pitch<DP>);
            else
                tile_add<E, 2, DP>(w.o, s, n, sv + n * 16 * pitch<DP>);
        }
    }
    copy_wait(); /* of the queries, where no key was seen: nothing may still arrive where o passes through */
    rows_end<E, DP, MT>(w, p, row0, h, rt_shared + warp() * 16 * MT * pitch<DP>);
}

#define KERNEL(type, DP, MT, blocks)                                                                                   \
    extern "C" __global__ void __launch_bounds__(RT_CUDA_ATTN_THREADS, blocks)                                         \
        rt_attn_fwd_##type##_##DP(const __grid_constant__ rt_cuda_attn_fwd_params p)                                   \
    {                                                                                                                  \
        begin_kernel();                                                                                                \
        attn_fwd<rt_##type, DP, MT>(p);                                                                                \
    }
KERNEL(bf16, 64, 2, 2)
KERNEL(bf16, 96, 2, 2)
KERNEL(bf16, 128, 2, 2)
KERNEL(bf16, 256, 1, 1)
KERNEL(f16, 64, 2, 2)
KERNEL(f16, 96, 2, 2)
KERNEL(f16, 128, 2, 2)
KERNEL(f16, 256, 1, 1)
