/* cuda_attn_hopper_bwd.cu - attention backward on Hopper: dq, dk and dv, bf16 storage, heads of 64.
 *
 * Owns: the op attn_bwd where cuda_attn_bwd.c finds what cuda_attn_bwd.cu asks for, machine code of sm_90 and heads of
 * 64. What is computed, and to how many bits, is as there, in two forms:
 *   DQ   owns q, do of one head;     streams k, v of its kv head:       dq = scale ds k
 *   DKV  owns k, v of one kv head;   streams q, do of its query heads:  dk = scale ds' q,  dv = p' do
 * Leaves to cuda_attn_hopper.cuh how blocks work; a step brings a tile of each of the two matrices.
 *
 * While a warpgroup multiplies the weights of a step, the scores of the next step become weights. */
#include "backend/cuda/kernels/cuda_attn_hopper.cuh"

enum form { DQ, DKV };
enum { NC = 2, OWN = NC * ROWS, D = 64, TILE = ROWS * D * 2 };
enum { SLOTS = 8, AHEAD = 4, STATS = ROWS * (int)sizeof(rt_cuda_attn_stat), SLOT = 2 * TILE + STATS };

/* Shared memory: what is owned, the ring, results on their way out, stats of owned queries, first row and number of the
 * tiles that stream by, barriers. */
enum {
    RING = 2 * NC * TILE,
    OUT = RING + SLOTS * SLOT,
    OWN_STATS = OUT + OWN * (D + RT_CUDA_ATTN_PAD) * 2,
    RANGE = OWN_STATS + NC * STATS,
    BARS = RANGE + 16,
    END = BARS + (2 * SLOTS + 2) * 8,
};
static_assert(END + 1024 <= RT_CUDA_ATTN_HOPPER_BWD_SHARED, "the host asks for as much");
using bwd_ring = ring<SLOTS, SLOT>;

struct item {
    uint64_t row0;       /* of the batch, in rows of the operands */
    uint64_t stats;      /* of the batch, head 0 */
    uint32_t kv, h0, h1; /* kv head; query heads */
    uint32_t part;
    int own; /* position of the first row owned */
};

/* DQ: the last tiles see the most keys; DKV: the first are seen by the most queries. */
template <int FORM> RT_DEVICE bool next_tile(item &x, const rt_cuda_attn_bwd_params &p, uint32_t round)
{
    const uint32_t tiles = (p.a.T + OWN - 1) / OWN, group = p.a.H / p.a.K;
    uint32_t n;
    if (!next_item(n, round, (uint64_t)p.a.B * tiles * (FORM == DQ ? p.a.H : p.a.K * p.parts))) return false;
    if (FORM == DQ) {
        x.h0 = n % p.a.H;
        x.h1 = x.h0 + 1;
        x.kv = x.h0 / group;
        x.part = 0;
        n /= p.a.H;
        x.own = (int)(tiles - 1 - n / p.a.B) * OWN;
    } else {
        take_part(x, p, n, group);
        x.own = (int)(n / p.a.B) * OWN;
    }
    x.row0 = (uint64_t)(n % p.a.B) * p.a.T;
    x.stats = (uint64_t)(n % p.a.B) * p.a.H * p.a.T;
    return true;
}

/* The first row that streams by and the number of tiles of them. */
template <int FORM> RT_DEVICE int2 range_of(const item &x, const rt_cuda_attn_bwd_params &p)
{
    const int T = (int)p.a.T, own_end = min(x.own + OWN, T);
    int begin = x.own, end = own_end;
    if (FORM == DQ) {
        int first = INT32_MAX;
        for (int i = x.own + lane(); i < own_end; i += 32) {
            const int lo = first_key(p.a, p.start, x.row0, i);
            if (lo <= i) first = min(first, lo);
        }
        begin = min(warp_min(first), end);
    } else {
        end = end_of_queries(p, x.row0, x.own, own_end);
    }
    if (begin >= end) return make_int2(0, 0);
    begin = begin / ROWS * ROWS;
    return make_int2(begin, (end - begin + ROWS - 1) / ROWS);
}

/* ---- the warpgroup that copies ---- */

/* Where this thread begins in rows of a head from `row` on. */
RT_HOPPER const uint16_t *rows_of(const rt_cuda_attn_mat &m, uint64_t row, uint32_t head)
{
    return (const uint16_t *)m.at + (row + fetch_row()) * m.stride + (uint64_t)head * D + fetch_col();
}

template <int FORM> RT_DEVICE void copy_all(const rt_cuda_attn_bwd_params &p, uint32_t at, unsigned char *shared)
{
    const int T = (int)p.a.T, t = (int)threadIdx.x % GROUP;
    const rt_cuda_attn_mat &own1 = FORM == DQ ? p.q : p.k, &own2 = FORM == DQ ? p.d_o : p.v;
    const rt_cuda_attn_mat &m1 = FORM == DQ ? p.k : p.q, &m2 = FORM == DQ ? p.v : p.d_o;
    feeder<bwd_ring, AHEAD> f = { { at + RING, at + BARS }, 0, 0, 0 };
    item x;
    for (uint32_t round = 0; next_tile<FORM>(x, p, round); round++) {
        const int2 range = range_of<FORM>(x, p);
        const uint32_t own_head = FORM == DQ ? x.h0 : x.kv;
        f.acquire(f.ring.own_empty(), (round & 1) ^ 1);
        f.own = f.asked;
        if (t == 0) *(int2 *)(shared + RANGE) = range;
        for (int w = 0; w < NC; w++) {
            const uint64_t row = x.row0 + x.own + w * ROWS;
            const int left = T - x.own - w * ROWS - fetch_row();
            fetch<D>(at + w * TILE + fetch_at(), rows_of(own1, row, own_head), own1.stride, left);
            fetch<D>(at + (NC + w) * TILE + fetch_at(), rows_of(own2, row, own_head), own2.stride, left);
        }
        if (FORM == DQ) /* behind the end they are 0, and nobody looks at them */
            copy_async(at + OWN_STATS + t * sizeof(rt_cuda_attn_stat),
                       (const rt_cuda_attn_stat *)p.stats + x.stats + (uint64_t)x.h0 * T + x.own + t, x.own + t < T);
        if (!range.y) f.no_steps();
#pragma unroll 1
        for (uint32_t h = x.h0; h < x.h1; h++) {
            const uint32_t head = FORM == DQ ? x.kv : h;
            const uint16_t *a = rows_of(m1, x.row0 + range.x, head), *b = rows_of(m2, x.row0 + range.x, head);
            const rt_cuda_attn_stat *stat =
                (const rt_cuda_attn_stat *)p.stats + x.stats + (uint64_t)h * T + range.x + t;
            int rows = T - range.x;
#pragma unroll 1
            for (int s = 0; s < range.y; s++) {
                f.acquire_step();
                const uint32_t to = f.ring.tile(f.asked);
                fetch<D>(to + fetch_at(), a, m1.stride, rows - fetch_row());
                fetch<D>(to + TILE + fetch_at(), b, m2.stride, rows - fetch_row());
                if (FORM == DKV && t < ROWS) copy_async(to + 2 * TILE + t * sizeof *stat, stat, t < rows);
                a += ROWS * m1.stride;
                b += ROWS * m2.stride;
                stat += ROWS;
                rows -= ROWS;
                f.step_asked();
            }
        }
    }
    f.announce_all();
}

/* ---- the warpgroups that compute ---- */

/* s becomes p, dp becomes ds; what is not seen becomes 0 in both. */
RT_HOPPER void weigh(float &s, float &dp, float lse2, float delta, float scale2)
{
    s = power_2(fmaf(s, scale2, -lse2));
    dp = s * (dp - delta);
}

/* Rows are queries at i[half], columns keys from x on. */
template <bool EDGE>
RT_DEVICE void weigh_keys(float (&s)[ROWS / 8][4], float (&dp)[ROWS / 8][4], const rt_cuda_attn_stat (&stat)[2],
                          const int (&i)[2], int x, float scale2)
{
#pragma unroll
    for (int n = 0; n < ROWS / 8; n++)
#pragma unroll
        for (int e = 0; e < 4; e++) {
            const rt_cuda_attn_stat &q = stat[e / 2];
            weigh(s[n][e], dp[n][e], q.lse2, q.delta, scale2);
            const int j = x + n * 8 + lane() % 4 * 2 + e % 2;
            if (EDGE && (j < q.lo || j > i[e / 2])) s[n][e] = dp[n][e] = 0;
        }
}

/* Rows are keys from `row` on, columns queries from x on with their stats. */
template <bool EDGE>
RT_DEVICE void weigh_queries(float (&s)[ROWS / 8][4], float (&dp)[ROWS / 8][4], const unsigned char *stats, int row,
                             int x, int T, float scale2)
{
#pragma unroll
    for (int n = 0; n < ROWS / 8; n++)
#pragma unroll
        for (int e = 0; e < 2; e++) {
            const int c = n * 8 + lane() % 4 * 2 + e, i = x + c;
            const rt_cuda_attn_stat q = ((const rt_cuda_attn_stat *)stats)[c];
#pragma unroll
            for (int half = 0; half < 2; half++) {
                const int j = row + lane() / 4 + half * 8;
                weigh(s[n][half * 2 + e], dp[n][half * 2 + e], q.lse2, q.delta, scale2);
                if (EDGE && (j < q.lo || j > i || i >= T)) s[n][half * 2 + e] = dp[n][half * 2 + e] = 0;
            }
        }
}

/* s = a b', both tiles in shared memory. */
RT_HOPPER void scores_of_tiles(float (&s)[ROWS / 8][4], uint32_t a, uint32_t b)
{
#pragma unroll
    for (int d = 0; d < D / 16; d++) wgmma_panels<rt_bf16>(s, side_at(a + d * 2), side_at(b + d * 2), d > 0);
}

/* Sums of a part, as they are. */
RT_HOPPER void store_sums(const rt_cuda_attn_bwd_params &p, const item &x, uint32_t which, int row,
                          const float (&acc)[1][D / 8][4], float f)
{
    const uint64_t rows = (uint64_t)p.a.B * p.a.T, cols = (uint64_t)p.a.K * D;
    float *to = (float *)p.sums + ((uint64_t)which * p.parts + x.part) * rows * cols + (uint64_t)x.kv * D;
#pragma unroll
    for (int n = 0; n < D / 8; n++)
#pragma unroll
        for (int half = 0; half < 2; half++) {
            const int r = row + lane() / 4 + half * 8, d = n * 8 + lane() % 4 * 2;
            if (r < (int)p.a.T)
                *(float2 *)(to + (x.row0 + r) * cols + d) =
                    make_float2(acc[0][n][half * 2] * f, acc[0][n][half * 2 + 1] * f);
        }
}

/* Results of this warp, whose first row is at position `row`. */
template <int FORM>
RT_DEVICE void store_rows(const rt_cuda_attn_bwd_params &p, const item &x, const rt_cuda_attn_mat &to, uint32_t which,
                          int row, const float (&acc)[1][D / 8][4], float f, unsigned char *out)
{
    if (FORM == DKV && p.parts > 1) {
        store_sums(p, x, which, row, acc, f);
        return;
    }
    const float scale[1][2] = { { f, f } };
    uint16_t *const at = (uint16_t *)to.at + (x.row0 + row) * to.stride + (uint64_t)(FORM == DQ ? x.h0 : x.kv) * D;
    tile_store<rt_bf16, D, 1>(at, to.stride, (int)p.a.T - row, D, acc, scale, out);
}

template <int FORM> struct left_sides {
};
template <> struct left_sides<DQ> {
    uint32_t a[D / 16][4], b[D / 16][4];
};

template <int FORM> RT_DEVICE void compute_all(const rt_cuda_attn_bwd_params &p, uint32_t at, unsigned char *shared)
{
    const int group = (int)threadIdx.x / GROUP, T = (int)p.a.T;
    const bwd_ring ring = { at + RING, at + BARS };
    const uint32_t own1 = side(at + group * TILE, 16), own2 = side(at + (NC + group) * TILE, 16);
    const bool uneven = p.start.at || p.a.window; /* queries may have other first keys than 0 */
    uint32_t step = 0;
    item x;
    for (uint32_t round = 0; next_tile<FORM>(x, p, round); round++) {
        uint32_t ds_hi[ROWS / 16][4], ds_lo[ROWS / 16][4], p_hi[ROWS / 16][4], p_lo[ROWS / 16][4];
        float one[1][D / 8][4], two[1][D / 8][4], s[ROWS / 8][4], dp[ROWS / 8][4];
        left_sides<FORM> left;
        rt_cuda_attn_stat stat[2];
        int i[2];
        const int row = x.own + group * ROWS, mine = row + warp() % 4 * 16; /* of the warpgroup, of the warp */
        seen all = { 0, 0, 0 };
        barrier_wait(ring.own_full(), round & 1);
        const int2 range = *(const int2 *)(shared + RANGE);
        const int x0 = __shfl_sync(~0u, range.x, 0), n = __shfl_sync(~0u, range.y, 0);
        int a, b; /* of the n tiles that stream by, a .. b - 1 are seen */
        if constexpr (FORM == DQ) {
            const rt_cuda_attn_stat *const stats = (const rt_cuda_attn_stat *)(shared + OWN_STATS) + group * ROWS;
            load_left<D>(left.a, at + group * TILE);
            load_left<D>(left.b, at + (NC + group) * TILE);
#pragma unroll
            for (int half = 0; half < 2; half++) {
                i[half] = mine + lane() / 4 + half * 8;
                stat[half] = stats[i[half] - row];
                if (i[half] >= T) stat[half].lo = INT32_MAX;
            }
            all = seen_by(&stats->lo, sizeof *stats / sizeof(int), row, T);
            ring.release_own();
            const bool any = all.first <= all.last;
            a = any ? (all.first - x0) / ROWS : n;
            b = any ? (all.last - x0) / ROWS + 1 : n;
        } else {
            a = row < T ? min(group, n) : n;
            b = n;
        }
        clear(one[0]);
        if (FORM == DKV) clear(two[0]);

        /* the tile t of a head, in steps of the ring: scores of it, with what the step before leaves to be added */
        auto begin_scores = [&](uint32_t tile) {
            const uint32_t b1 = side(tile, 16), b2 = side(tile + TILE, 16);
            wgmma_fence();
            if constexpr (FORM == DQ) {
                scores<rt_bf16, D>(s, left.a, b1);
                scores<rt_bf16, D>(dp, left.b, b2);
            } else {
                scores_of_tiles(s, own1, b1);
                scores_of_tiles(dp, own2, b2);
            }
            wgmma_commit();
        };
        auto begin_sums = [&](uint32_t tile) {
            const uint32_t b1 = side(tile, PANEL), b2 = side(tile + TILE, PANEL);
            add<rt_bf16, D>(one[0], ds_hi, b1);
            add<rt_bf16, D>(one[0], ds_lo, b1);
            if constexpr (FORM == DKV) {
                add<rt_bf16, D>(two[0], p_hi, b2);
                add<rt_bf16, D>(two[0], p_lo, b2);
            }
            wgmma_commit();
        };
        auto hold_all = [&] {
            hold(one[0]);
            hold(ds_hi);
            hold(ds_lo);
            if constexpr (FORM == DKV) {
                hold(two[0]);
                hold(p_hi);
                hold(p_lo);
            }
        };
        auto is_edge = [&](int t, uint32_t step) {
            const int from = x0 + t * ROWS;
            if (FORM == DQ) return from < all.lo_max || from + ROWS - 1 > row;
            bool edge = from < row + ROWS - 1 || from + ROWS > T;
            if (!uneven) return edge;
            const rt_cuda_attn_stat *q =
                (const rt_cuda_attn_stat *)(shared + (ring.tile(step) - at) + 2 * TILE) + lane();
            return warp_max(max(q[0].lo, q[32].lo)) > row || edge;
        };
        auto weigh_all = [&](int t, uint32_t step, bool edge) {
            const int from = x0 + t * ROWS;
            const unsigned char *const stats = shared + (ring.tile(step) - at) + 2 * TILE;
            if (FORM == DQ && edge) weigh_keys<true>(s, dp, stat, i, from, p.scale2);
            if (FORM == DQ && !edge) weigh_keys<false>(s, dp, stat, i, from, p.scale2);
            if (FORM == DKV && edge) weigh_queries<true>(s, dp, stats, mine, from, T, p.scale2);
            if (FORM == DKV && !edge) weigh_queries<false>(s, dp, stats, mine, from, T, p.scale2);
        };
        auto make_parts = [&](uint32_t tile, bool edge) {
            split<rt_bf16>(ds_hi, ds_lo, dp);
            if constexpr (FORM == DKV) split<rt_bf16>(p_hi, p_lo, s);
            if (!edge) return;
            add_rest<rt_bf16, D>(one[0], dp, ds_hi, ds_lo, side(tile, PANEL));
            if constexpr (FORM == DKV) add_rest<rt_bf16, D>(two[0], s, p_hi, p_lo, side(tile + TILE, PANEL));
        };

        const int steps = n * (int)(x.h1 - x.h0);
        int t = 0, done = 0; /* tile of its head; steps of the item that are done */
        auto advance = [&] { done++, step++, t = t + 1 == n ? 0 : t + 1; };
        auto pass_over = [&] {
            for (; done < steps && (t < a || t >= b); advance()) { /* up to the next step that is seen */
                ring.wait(step);
                ring.release(step);
            }
        };
        pass_over();
        if (done < steps) {
            ring.wait(step);
            bool edge = is_edge(t, step);
            begin_scores(ring.tile(step));
            wgmma_wait<0>();
            hold(s);
            hold(dp);
            weigh_all(t, step, edge);
            make_parts(ring.tile(step), edge);
            for (;;) {
                const uint32_t before = step;
                advance();
                pass_over();
                if (done == steps) {
                    wgmma_fence();
                    begin_sums(ring.tile(before));
                    wgmma_wait<0>();
                    hold_all();
                    ring.release(before);
                    break;
                }
                ring.wait(step);
                edge = is_edge(t, step);
                begin_scores(ring.tile(step));
                begin_sums(ring.tile(before));
                wgmma_wait<1>();
                hold(s);
                hold(dp);
                weigh_all(t, step, edge);
                wgmma_wait<0>();
                hold_all();
                ring.release(before);
                make_parts(ring.tile(step), edge);
            }
        }
        if (FORM == DKV) ring.release_own();
        unsigned char *const out = shared + OUT + warp() * 16 * pitch<D>;
        store_rows<FORM>(p, x, FORM == DQ ? p.dq : p.dk, 0, mine, one, p.a.scale, out);
        if (FORM == DKV) store_rows<FORM>(p, x, p.dv, 1, mine, two, 1.0f, out);
    }
}

template <int FORM> RT_DEVICE void attn_bwd(const rt_cuda_attn_bwd_params &p)
{
    constexpr int R = 56, W = 224;
    static_assert(registers_suffice(NC, R, W), "or those who take would wait forever");
    const uint32_t low = shared_at(rt_shared), at = (low + 1023) & ~1023u;
    if (threadIdx.x == 0) bwd_ring{ at + RING, at + BARS }.make(NC);
    __syncthreads();
    if (threadIdx.x >= NC * GROUP) {
        registers_give<R>();
        copy_all<FORM>(p, at, rt_shared + (at - low));
    } else {
        registers_take<W>();
        compute_all<FORM>(p, at, rt_shared + (at - low));
    }
}

#define KERNEL(form)                                                                                                   \
    extern "C" __global__ void __launch_bounds__((NC + 1) * GROUP, 1)                                                  \
        rt_attn_hopper_##form##_64(const __grid_constant__ rt_cuda_attn_bwd_params p)                                  \
    {                                                                                                                  \
        begin_kernel();                                                                                                \
        RT_SM90A(attn_bwd<form>(p));                                                                                   \
    }
KERNEL(DQ)
KERNEL(DKV)
