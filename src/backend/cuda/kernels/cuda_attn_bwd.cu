/* cuda_attn_bwd.cu - attention backward on tensor cores: dq, dk and dv, bf16 storage.
 *
 * Owns: the op attn_bwd where cuda_attn_bwd.c finds bf16 operands on 16-byte boundaries and sm_80. One kernel body in
 * four forms. A block owns a tile of rows and streams the rows of the other side past it, two tiles in flight; it forms
 *   s = own1 other1',  dp = own2 other2',  p = 2^(s scale2 - lse2),  ds = p (dp - delta)
 * and adds ds other1 and p other2 to what it owns, in the order in which they come:
 *   DQ   owns q, do of one head;     streams k, v of its kv head:       dq = scale ds k
 *   DKV  owns k, v of one kv head;   streams q, do of its query heads:  dk = scale ds' q,  dv = p' do
 *   DK, DV: the halves of DKV, for heads whose sums do not fit the registers together.
 * So nothing is added up by atomics. Where there are few keys the query heads of a kv head are cut into parts, which
 * leave f32 sums in scratch; rt_attn_bwd_sum adds them in order. Rows that no query of a tile sees are left out.
 *
 * As in the forward, a query, key or gradient that is not finite reaches its whole tile. f16 is not here: ds has the
 * range of the gradient, which f16 cannot hold in parts. */
#include "backend/cuda/kernels/cuda_attn_tile.cuh"

enum form { DQ, DKV, DK, DV };

/* What this warp's rows of the tile are. */
template <int MT> struct bwd_rows {
    int row;                 /* position of the first */
    int first, last, lo_max; /* DQ: keys that any row sees; keys lo_max .. row are seen by every row */
};

/* A step: head and first row of the tile that streams by. */
struct bwd_step {
    uint32_t h;
    int x;
};

/* Where a block works, the same for all its threads. */
struct bwd_block {
    uint64_t row0;       /* of the batch, in rows of the operands */
    uint32_t kv, h0, h1; /* kv head; query heads */
    uint32_t part;
    int own, begin, end; /* first row owned; rows that stream by: begin (a multiple of the tile) to end - 1 */
};

template <int FORM, int OWN, int ROWS> RT_DEVICE bwd_block place_block(const rt_cuda_attn_bwd_params &p)
{
    const uint32_t group = p.a.H / p.a.K, tiles = (p.a.T + OWN - 1) / OWN;
    bwd_block b;
    uint32_t n = blockIdx.x;
    if (FORM == DQ) { /* the last tiles see the most keys */
        b.h0 = n % p.a.H;
        b.h1 = b.h0 + 1;
        b.kv = b.h0 / group;
        b.part = 0;
        n /= p.a.H;
        b.row0 = (uint64_t)(n % p.a.B) * p.a.T;
        b.own = (int)(tiles - 1 - n / p.a.B) * OWN;
        b.end = min(b.own + OWN, (int)p.a.T);
        int first = b.end;
        for (int i = b.own + lane(); i < b.end; i += 32) {
            const int lo = first_key(p.a, p.start, b.row0, i);
            if (lo <= i) first = min(first, lo);
        }
        b.begin = warp_min(first);
    } else { /* the first tiles are seen by the most queries */
        take_part(b, p, n, group);
        b.row0 = (uint64_t)(n % p.a.B) * p.a.T;
        b.own = (int)(n / p.a.B) * OWN;
        b.end = end_of_queries(p, b.row0, b.own, min(b.own + OWN, (int)p.a.T));
        b.begin = b.own;
    }
    b.begin = b.begin / ROWS * ROWS;
    return b;
}

RT_DEVICE const uint16_t *rows_of(const rt_cuda_attn_mat &m, uint64_t row, uint32_t head, uint32_t D)
{
    return (const uint16_t *)m.at + row * m.stride + (uint64_t)head * D;
}

/* Asks for the tiles of a step; each row of queries brings its stat along. */
template <int FORM, int DP, int ROWS>
RT_DEVICE void fetch_step(const rt_cuda_attn_bwd_params &p, const bwd_block &b, bwd_step s, uint32_t to)
{
    const int left = (int)p.a.T - s.x, D = (int)p.a.D;
    const uint64_t row = b.row0 + s.x;
    const rt_cuda_attn_mat &m1 = FORM == DQ ? p.k : p.q, &m2 = FORM == DQ ? p.v : p.d_o;
    const uint32_t head = FORM == DQ ? b.kv : s.h;
    tile_fetch<ROWS, DP>(to, rows_of(m1, row, head, p.a.D), m1.stride, left, D);
    tile_fetch<ROWS, DP>(to + ROWS * pitch<DP>, rows_of(m2, row, head, p.a.D), m2.stride, left, D);
    if (FORM != DQ && threadIdx.x < ROWS) {
        const uint64_t at = ((b.row0 / p.a.T) * p.a.H + s.h) * p.a.T + s.x + threadIdx.x;
        copy_async(to + threadIdx.x * pitch<DP> + DP * 2, (const rt_cuda_attn_stat *)p.stats + at,
                   (int)threadIdx.x < left);
    }
}

/* ---- weights: s becomes p, dp becomes ds; what is not seen becomes 0 in both ---- */

RT_DEVICE void weigh(float &s, float &dp, float lse2, float delta, float scale2, bool seen)
{
    const float p = power_2(fmaf(s, scale2, -lse2));
    s = seen ? p : 0.0f;
    dp = seen ? p * (dp - delta) : 0.0f;
}

/* Rows are queries, columns keys from x on. */
template <int MT, int N>
RT_DEVICE void weigh_keys(float (&s)[MT][N][4], float (&dp)[MT][N][4], const rt_cuda_attn_stat (&stat)[MT][2], int row,
                          int x, float scale2, bool edge)
{
#pragma unroll
    for (int m = 0; m < MT; m++)
#pragma unroll
        for (int n = 0; n < N; n++)
#pragma unroll
            for (int e = 0; e < 4; e++) {
                const rt_cuda_attn_stat &q = stat[m][e / 2];
                const int i = row + m * 16 + lane() / 4 + e / 2 * 8, j = x + n * 8 + lane() % 4 * 2 + e % 2;
                weigh(s[m][n][e], dp[m][n][e], q.lse2, q.delta, scale2, !edge || (j >= q.lo && j <= i));
            }
}

/* Rows are keys, columns queries from x on, whose stats follow the rows of the tile at `stats`. */
template <int DP, int MT, int N>
RT_DEVICE void weigh_queries(float (&s)[MT][N][4], float (&dp)[MT][N][4], const unsigned char *stats, int row, int x,
                             int T, float scale2, bool edge)
{
#pragma unroll
    for (int n = 0; n < N; n++)
#pragma unroll
        for (int e = 0; e < 2; e++) {
            const int c = n * 8 + lane() % 4 * 2 + e, i = x + c;
            const rt_cuda_attn_stat q = *(const rt_cuda_attn_stat *)(stats + c * pitch<DP> + DP * 2);
#pragma unroll
            for (int m = 0; m < MT; m++)
#pragma unroll
                for (int half = 0; half < 2; half++) {
                    const int j = row + m * 16 + lane() / 4 + half * 8;
                    weigh(s[m][n][half * 2 + e], dp[m][n][half * 2 + e], q.lse2, q.delta, scale2,
                          !edge || (j >= q.lo && j <= i && i < T));
                }
        }
}

/* ---- a block ---- */

template <int DP, int MT> RT_DEVICE void clear(float (&acc)[MT][DP / 8][4])
{
#pragma unroll
    for (int m = 0; m < MT; m++)
#pragma unroll
        for (int n = 0; n < DP / 8; n++)
#pragma unroll
            for (int e = 0; e < 4; e++) acc[m][n][e] = 0;
}

/* DQ: the stats of this warp's rows, and what they see together. */
template <int MT>
RT_DEVICE void rows_begin(bwd_rows<MT> &w, rt_cuda_attn_stat (&stat)[MT][2], const rt_cuda_attn_bwd_params &p,
                          const bwd_block &b)
{
    w.first = INT32_MAX;
    w.last = w.lo_max = -1;
#pragma unroll
    for (int m = 0; m < MT; m++)
#pragma unroll
        for (int half = 0; half < 2; half++) {
            const int i = w.row + m * 16 + lane() / 4 + half * 8;
            stat[m][half] = { 0, 0, INT32_MAX, 0 };
            if (i < (int)p.a.T)
                stat[m][half] = ((const rt_cuda_attn_stat *)p.stats)[((b.row0 / p.a.T) * p.a.H + b.h0) * p.a.T + i];
            const int lo = stat[m][half].lo;
            w.lo_max = max(w.lo_max, lo);
            if (lo <= i) {
                w.first = min(w.first, lo);
                w.last = max(w.last, i);
            }
        }
    w.first = warp_min(w.first);
    w.last = warp_max(w.last);
    w.lo_max = warp_max(w.lo_max);
}

/* Does any row of this warp meet any row of the tile at x, and is any pair of them not seen (edge)? */
template <int FORM, int DP, int MT, int ROWS>
RT_DEVICE bool meets(const bwd_rows<MT> &w, const unsigned char *tile, int x, int T, bool &edge)
{
    if (FORM == DQ) {
        edge = x < w.lo_max || x + ROWS - 1 > w.row;
        return x <= w.last && x + ROWS > w.first;
    }
    const int c = lane() % ROWS, i = x + c, j1 = w.row + 16 * MT - 1;
    const int lo = ((const rt_cuda_attn_stat *)(tile + c * pitch<DP> + DP * 2))->lo;
    edge = __any_sync(~0u, lo > w.row || i < j1 || i >= T);
    return __any_sync(~0u, lo <= min(i, j1) && i >= w.row && i < T);
}

/* one += ds other1, two += p other2, as far as the form has them, for rows 16 n to 16 n + 15 of a step's tiles. */
template <class E, int PARTS, int FORM, int DP, int MT, int N>
RT_DEVICE void add_all(float (&one)[MT][DP / 8][4], float (&two)[MT][DP / 8][4], const float (&p)[MT][N][4],
                       const float (&ds)[MT][N][4], int n, uint32_t other1, uint32_t to_other2)
{
    other1 += n * 16 * pitch<DP>;
    if (FORM != DV) tile_add<E, PARTS, DP>(one, ds, n, other1);
    if (FORM == DKV || FORM == DV) tile_add<E, PARTS, DP>(two, p, n, other1 + to_other2);
}

/* The sums of a part, as they are. */
template <int DP, int MT>
RT_DEVICE void store_sums(const rt_cuda_attn_bwd_params &p, const bwd_block &b, uint32_t which, int row,
                          const float (&acc)[MT][DP / 8][4], float f)
{
    const uint64_t rows = (uint64_t)p.a.B * p.a.T, cols = (uint64_t)p.a.K * p.a.D;
    float *to = (float *)p.sums + ((uint64_t)which * p.parts + b.part) * rows * cols + (uint64_t)b.kv * p.a.D;
#pragma unroll
    for (int m = 0; m < MT; m++)
#pragma unroll
        for (int n = 0; n < DP / 8; n++)
#pragma unroll
            for (int half = 0; half < 2; half++) {
                const int r = row + m * 16 + lane() / 4 + half * 8, d = n * 8 + lane() % 4 * 2;
                if (r < (int)p.a.T && d < (int)p.a.D)
                    *(float2 *)(to + (b.row0 + r) * cols + d) =
                        make_float2(acc[m][n][half * 2] * f, acc[m][n][half * 2 + 1] * f);
            }
}

template <class E, int FORM, int DP, int MT>
RT_DEVICE void store_rows(const rt_cuda_attn_bwd_params &p, const bwd_block &b, const rt_cuda_attn_mat &to,
                          uint32_t which, int row, const float (&acc)[MT][DP / 8][4], float f, unsigned char *at)
{
    if (FORM != DQ && p.parts > 1) {
        store_sums<DP, MT>(p, b, which, row, acc, f);
        return;
    }
    float scale[MT][2];
#pragma unroll
    for (int m = 0; m < MT; m++) scale[m][0] = scale[m][1] = f;
    tile_store<E, DP, MT>((uint16_t *)rows_of(to, b.row0 + row, FORM == DQ ? b.h0 : b.kv, p.a.D), to.stride,
                          (int)p.a.T - row, (int)p.a.D, acc, scale, at);
}

template <class E, int FORM, int DP, int MT, int ROWS> RT_DEVICE void attn_bwd(const rt_cuda_attn_bwd_params &p)
{
    constexpr int OWN = WARPS * 16 * MT;
    constexpr uint32_t TILE = OWN * pitch<DP>, HALF = ROWS * pitch<DP>, OTHERS = FORM == DV ? TILE : 2 * TILE;
    const bwd_block b = place_block<FORM, OWN, ROWS>(p);
    const int T = (int)p.a.T, left = T - b.own;
    const uint32_t own = shared_at(rt_shared), mine = own + warp() * 16 * MT * pitch<DP>;
    const rt_cuda_attn_mat &m1 = FORM == DQ ? p.q : p.k, &m2 = FORM == DQ ? p.d_o : p.v;
    const uint32_t head = FORM == DQ ? b.h0 : b.kv;
    bwd_rows<MT> w;
    rt_cuda_attn_stat stat[MT][2];
    float one[MT][DP / 8][4], two[MT][DP / 8][4]; /* dq or dk; dv */
    w.row = b.own + warp() * 16 * MT;
    if (FORM == DQ) rows_begin(w, stat, p, b);
    clear<DP, MT>(one);
    clear<DP, MT>(two);
    tile_fetch<OWN, DP>(own, rows_of(m1, b.row0 + b.own, head, p.a.D), m1.stride, left, (int)p.a.D);
    if (FORM != DV)
        tile_fetch<OWN, DP>(own + TILE, rows_of(m2, b.row0 + b.own, head, p.a.D), m2.stride, left, (int)p.a.D);
    bwd_step at = { b.begin < b.end ? b.h0 : b.h1, b.begin };
    if (at.h < b.h1) fetch_step<FORM, DP, ROWS>(p, b, at, own + OTHERS);
    for (uint32_t stage = 0; at.h < b.h1; stage ^= 1) {
        const uint32_t here = OTHERS + stage * 2 * HALF, there = OTHERS + (stage ^ 1) * 2 * HALF;
        const int x = at.x;
        copy_wait();
        __syncthreads(); /* this step's tiles are here, and nobody reads those of the step before */
        at.x += ROWS;
        if (at.x >= b.end) at = { at.h + 1, b.begin };
        if (at.h < b.h1) fetch_step<FORM, DP, ROWS>(p, b, at, own + there);
        bool edge;
        if (!meets<FORM, DP, MT, ROWS>(w, rt_shared + here, x, T, edge)) continue;
        float s[MT][ROWS / 8][4], dp[MT][ROWS / 8][4];
        tile_scores<E, DP, MT, ROWS>(s, mine, own + here);
        if (FORM != DV) tile_scores<E, DP, MT, ROWS>(dp, mine + TILE, own + here + HALF);
        if (FORM == DQ)
            weigh_keys(s, dp, stat, w.row, x, p.scale2, edge);
        else
            weigh_queries<DP>(s, dp, rt_shared + here, w.row, x, T, p.scale2, edge);
#pragma unroll
        for (int n = 0; n < ROWS / 16; n++)
            if (edge)
                add_all<E, E::parts, FORM, DP>(one, two, s, dp, n, own + here, HALF);
            else
                add_all<E, 2, FORM, DP>(one, two, s, dp, n, own + here, HALF);
    }
    copy_wait(); /* of what is owned, where nothing streamed by: nothing may still arrive where results pass through */
    unsigned char *const pass = rt_shared + warp() * 16 * MT * pitch<DP>;
    if (FORM != DV) store_rows<E, FORM, DP, MT>(p, b, FORM == DQ ? p.dq : p.dk, 0, w.row, one, p.a.scale, pass);
    if (FORM == DKV || FORM == DV) store_rows<E, FORM, DP, MT>(p, b, p.dv, 1, w.row, two, 1.0f, pass);
}

#define KERNEL(form, DP, MT, ROWS, blocks)                                                                             \
    extern "C" __global__ void __launch_bounds__(RT_CUDA_ATTN_THREADS, blocks)                                         \
        rt_attn_bwd_##form##_##DP(const __grid_constant__ rt_cuda_attn_bwd_params p)                                   \
    {                                                                                                                  \
        begin_kernel();                                                                                                \
        attn_bwd<rt_bf16, form, DP, MT, ROWS>(p);                                                                      \
    }
KERNEL(DQ, 64, 2, 32, 2)
KERNEL(DQ, 96, 1, 32, 2)
KERNEL(DQ, 128, 1, 32, 2)
KERNEL(DQ, 256, 1, 16, 1)
KERNEL(DKV, 64, 2, 32, 2)
KERNEL(DKV, 96, 1, 32, 2)
KERNEL(DKV, 128, 1, 32, 2)
KERNEL(DK, 256, 1, 16, 1)
KERNEL(DV, 256, 1, 16, 1)

/* dk and dv (B*T,K*D) = the sums of their parts, in order; a thread has four columns. */
extern "C" __global__ void __launch_bounds__(256) rt_attn_bwd_sum(const __grid_constant__ rt_cuda_attn_bwd_params p)
{
    begin_kernel();
    const uint64_t cols = (uint64_t)p.a.K * p.a.D, all = (uint64_t)p.a.B * p.a.T * cols;
    const uint64_t n = ((uint64_t)blockIdx.x * blockDim.x + threadIdx.x) * 4, which = n / all, at = n % all;
    if (which > 1) return;
    const float *from = (const float *)p.sums + which * p.parts * all + at;
    float4 sum = *(const float4 *)from;
    for (uint32_t i = 1; i < p.parts; i++) {
        const float4 x = *(const float4 *)(from + i * all);
        sum = make_float4(sum.x + x.x, sum.y + x.y, sum.z + x.z, sum.w + x.w);
    }
    const rt_cuda_attn_mat &m = which ? p.dv : p.dk;
    uint2 *to = (uint2 *)((uint16_t *)m.at + at / cols * m.stride + at % cols);
    *to = { rt_bf16::pair(sum.x, sum.y), rt_bf16::pair(sum.z, sum.w) };
}
