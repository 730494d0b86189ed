/* cuda_attn_plain.cu - attention forward and backward in f32 on ordinary cores, for what the tensor-core kernels leave.
 *
 * Owns: attn_fwd and attn_bwd of f32 operands, of f16 in the backward, of sm_75, of narrow heads and of operands off
 * their 16-byte boundaries. Blocks and the order of sums are as in cuda_attn_fwd.cu and cuda_attn_bwd.cu. */
#include "backend/cuda/kernels/cuda_attn_plain.cuh"

extern "C" __global__ void __launch_bounds__(RT_CUDA_ATTN_PLAIN_THREADS, 1)
    rt_attn_plain_fwd(const __grid_constant__ rt_cuda_attn_fwd_params p)
{
    begin_kernel();
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
    plain_attend(
        w, p.q.at, [&](int r) { return (row0 + i0 + r) * p.q.stride + col; }, rows, p.k.at,
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

/* ---- backward: see cuda_attn_bwd.cu ---- */

/* Where a block works: rows `own` on of one head (dq) or kv head (dk, dv), against rows begin .. end - 1. */
struct plain_block {
    uint64_t row0;
    uint32_t kv, h0, h1;
    int own, begin, end;
};

template <bool KEYS> RT_DEVICE plain_block plain_place(const rt_cuda_attn_bwd_params &p)
{
    const int T = (int)p.a.T, lane = (int)(threadIdx.x & 31);
    const uint32_t group = p.a.H / p.a.K, heads = KEYS ? p.a.K : p.a.H, n = blockIdx.x / heads, h = blockIdx.x % heads;
    const uint32_t tile = n / p.a.B, tiles = (T + TILE - 1) / TILE;
    plain_block b;
    b.row0 = (uint64_t)(n % p.a.B) * T;
    b.kv = KEYS ? h : h / group;
    b.h0 = KEYS ? h * group : h;
    b.h1 = KEYS ? b.h0 + group : h + 1;
    b.own = (int)(KEYS ? tile : tiles - 1 - tile) * TILE;
    const int rows_end = min(b.own + TILE, T);
    int first = INT32_MAX, last = -1;
    for (int i = b.own + lane; i < (KEYS ? T : rows_end); i += 32) {
        const int lo = first_key(p.a, p.start, b.row0, i);
        if (lo <= i) first = min(first, lo);
        if (lo < min(i + 1, rows_end)) last = i;
    }
    b.begin = (KEYS ? b.own : min(warp_min(first), rows_end)) / TILE * TILE;
    b.end = KEYS ? warp_max(last) + 1 : rows_end;
    return b;
}

/* s and dp become p (in w, for keys alone) and ds (in x), both (own,other). */
template <bool KEYS>
RT_DEVICE void plain_weigh(const float (&s)[4][4], const float (&dp)[4][4], const plain_shared &m,
                           const rt_cuda_attn_stat *stats, int T, int own, int other, float scale2)
{
#pragma unroll
    for (int i = 0; i < 4; i++)
#pragma unroll
        for (int j = 0; j < 4; j++) {
            const int r = thread_y() * 4 + i, c = thread_x() + j * 16;
            const int query = KEYS ? other + c : own + r, key = KEYS ? own + r : other + c;
            rt_cuda_attn_stat q = { 0, 0, INT32_MAX, 0 };
            if (query < T) q = stats[query];
            const bool seen = key >= q.lo && key <= query;
            const float weight = power_2(fmaf(s[i][j], scale2, -q.lse2));
            if (KEYS) m.w[r * WEIGHTS + c] = seen ? weight : 0.0f;
            m.x[r * WEIGHTS + c] = seen ? weight * (dp[i][j] - q.delta) : 0.0f;
        }
}

RT_DEVICE void plain_store(const rt_cuda_attn_mat &to, uint64_t row, uint64_t col, int rows, int D,
                           const float (&acc)[SLICES][4][2], float f, uint32_t dtype)
{
#pragma unroll
    for (int n = 0; n < SLICES; n++)
#pragma unroll
        for (int i = 0; i < 4; i++)
#pragma unroll
            for (int e = 0; e < 2; e++) {
                const int r = thread_y() * 4 + i, d = n * SLICE + thread_x() * 2 + e;
                if (r < rows && d < D)
                    store_any((void *)to.at, (row + r) * to.stride + col + d, acc[n][i][e] * f, dtype);
            }
}

template <bool KEYS> RT_DEVICE void plain_bwd(const rt_cuda_attn_bwd_params &p)
{
    const plain_block b = plain_place<KEYS>(p);
    const plain_shared m = plain_begin();
    const int T = (int)p.a.T, D = (int)p.a.D, own_rows = min((int)TILE, T - b.own);
    const rt_cuda_attn_mat &own1 = KEYS ? p.k : p.q, &own2 = KEYS ? p.v : p.d_o;
    const rt_cuda_attn_mat &other1 = KEYS ? p.q : p.k, &other2 = KEYS ? p.d_o : p.v;
    const float same[4] = { 1, 1, 1, 1 };
    float one[SLICES][4][2], two[SLICES][4][2]; /* dq or dk; dv */
    plain_clear(one);
    plain_clear(two);
    for (uint32_t h = b.h0; h < b.h1; h++)
        for (int x = b.begin; x < b.end; x += TILE) {
            const uint64_t row = b.row0 + b.own, col = (uint64_t)(KEYS ? b.kv : h) * D;
            const uint64_t far = b.row0 + x, far_col = (uint64_t)(KEYS ? h : b.kv) * D;
            const int rows = min((int)TILE, T - x);
            const auto at_own1 = [&](int r) { return (row + r) * own1.stride + col; };
            const auto at_own2 = [&](int r) { return (row + r) * own2.stride + col; };
            const auto at1 = [&](int r) { return (far + r) * other1.stride + far_col; };
            const auto at2 = [&](int r) { return (far + r) * other2.stride + far_col; };
            float s[4][4], dp[4][4];
            plain_scores(s, m, own1.at, at_own1, own_rows, other1.at, at1, rows, D, p.dtype);
            plain_scores(dp, m, own2.at, at_own2, own_rows, other2.at, at2, rows, D, p.dtype);
            plain_weigh<KEYS>(s, dp, m, (const rt_cuda_attn_stat *)p.stats + ((b.row0 / T) * p.a.H + h) * T, T, b.own,
                              x, p.scale2);
            plain_add(one, same, m, m.x, other1.at, at1, rows, D, p.dtype);
            if (KEYS) plain_add(two, same, m, m.w, other2.at, at2, rows, D, p.dtype);
        }
    const uint64_t col = (uint64_t)(KEYS ? b.kv : b.h0) * D;
    plain_store(KEYS ? p.dk : p.dq, b.row0 + b.own, col, own_rows, D, one, p.a.scale, p.dtype);
    if (KEYS) plain_store(p.dv, b.row0 + b.own, col, own_rows, D, two, 1.0f, p.dtype);
}

extern "C" __global__ void __launch_bounds__(RT_CUDA_ATTN_PLAIN_THREADS, 1)
    rt_attn_plain_dq(const __grid_constant__ rt_cuda_attn_bwd_params p)
{
    begin_kernel();
    plain_bwd<false>(p);
}
extern "C" __global__ void __launch_bounds__(RT_CUDA_ATTN_PLAIN_THREADS, 1)
    rt_attn_plain_dkv(const __grid_constant__ rt_cuda_attn_bwd_params p)
{
    begin_kernel();
    plain_bwd<true>(p);
}
