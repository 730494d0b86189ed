/* cuda_attn_hopper_bwd.cu - attention backward on Hopper: dq, dk and dv, bf16 storage, heads of 64 or 128.
 *
 * Owns: the op attn_bwd where cuda_attn_bwd.c finds what cuda_attn_bwd.cu asks for, machine code of sm_90 and heads
 * that fill their tiles. What is computed is as there, in two forms:
 *   DQ   owns q, do of one head;     streams k, v of its kv head:       dq = scale ds k
 *   DKV  owns k, v of one kv head;   streams q, do of its query heads:  dk = scale ds' q,  dv = p' do
 * Leaves to cuda_attn_hopper.cuh how blocks work; a step brings a tile of each of the two matrices.
 *
 * Weights enter their GEMM in two parts, three at edges; ONE: rounded to 16 bits, in one. While a warpgroup multiplies
 * the weights of a step, the scores of the next step become weights. dk and dv of heads of 128 leave no registers for
 * that: there the two warpgroups of a block take turns by themselves. */
#include "backend/cuda/kernels/cuda_attn_hopper.cuh"

enum form { DQ, DKV };
enum { NC = 2, OWN = NC * ROWS, STATS = ROWS * (int)sizeof(rt_cuda_attn_stat) };

/* Where the left sides of scores are: in registers both (as long as there are some), the first, or none. OVERLAP: of
 * the sums of a step with the scores of the next. Shared memory: what is owned, the ring, results on their way out,
 * stats of owned queries, first row and number of the tiles that stream by, barriers. */
template <int FORM, int D, bool ONE> struct plan {
    static constexpr bool OVERLAP = FORM == DQ || D == 64;
    static constexpr bool FIRST_HELD = FORM == DQ || (D == 64 && ONE);
    static constexpr bool BOTH_HELD = FIRST_HELD && D == 64;
    static constexpr int SLOTS = D == 64 ? 8 : 4;
    static constexpr uint32_t TILE = ROWS * D * 2, SLOT = 2 * TILE + STATS, RING = 2 * NC * TILE,
                              OUT = RING + SLOTS * SLOT, OWN_STATS = OUT + OWN * pitch<RT_PANEL>,
                              RANGE = OWN_STATS + NC * STATS, BARS = RANGE + 16;
    using ring_type = ring<SLOTS, SLOT>;
    static_assert(BARS + ring_type::bar_bytes + 1024 <= RT_CUDA_ATTN_HOPPER_BWD_SHARED(D), "the host asks for as much");
};

struct item {
    uint64_t row0;       /* of the batch, in rows of the operands */
    uint64_t stats;      /* of the batch, head 0 */
    uint32_t kv, h0, h1; /* kv head; query heads */
    uint32_t b, part;    /* batch */
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
    x.b = n % p.a.B;
    x.row0 = (uint64_t)x.b * p.a.T;
    x.stats = (uint64_t)x.b * p.a.H * p.a.T;
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

/* ---- the warp that copies ---- */

/* Of one warp; its first lane asks for the copies. Stats behind the last row of a batch are not brought, and nobody
 * looks at what is there instead. */
template <int FORM, int D, bool ONE>
RT_DEVICE void copy_all(const rt_cuda_attn_bwd_params &p, uint32_t at, unsigned char *shared)
{
    using P = plan<FORM, D, ONE>;
    const typename P::ring_type ring = { at + P::RING, at + P::BARS };
    const int T = (int)p.a.T;
    const rt_cuda_tensor_map &own1 = FORM == DQ ? p.q_map : p.k_map, &own2 = FORM == DQ ? p.do_map : p.v_map;
    const rt_cuda_tensor_map &m1 = FORM == DQ ? p.k_map : p.q_map, &m2 = FORM == DQ ? p.v_map : p.do_map;
    const rt_cuda_attn_stat *const stats = (const rt_cuda_attn_stat *)p.stats;
    uint32_t step = 0;
    item x;
    for (uint32_t round = 0; next_tile<FORM>(x, p, round); round++) {
        const int2 range = range_of<FORM>(x, p);
        const uint32_t own_head = FORM == DQ ? x.h0 : x.kv;
        barrier_wait(ring.own_empty(), (round & 1) ^ 1);
        if (lane() == 0) {
            const uint32_t bytes = FORM == DQ ? min(OWN, T - x.own) * (uint32_t)sizeof *stats : 0;
            *(int2 *)(shared + P::RANGE) = range;
            barrier_expect(ring.own_full(), 2 * NC * P::TILE + bytes);
            for (int w = 0; w < NC; w++) {
                const int row = x.own + w * ROWS;
                fetch<D>(at + w * P::TILE, own1, own_head, row, x.b, ring.own_full());
                fetch<D>(at + (NC + w) * P::TILE, own2, own_head, row, x.b, ring.own_full());
            }
            if (FORM == DQ)
                bytes_copy(at + P::OWN_STATS, stats + x.stats + (uint64_t)x.h0 * T + x.own, bytes, ring.own_full());
        } else {
            barrier_arrive(ring.own_full());
        }
#pragma unroll 1
        for (uint32_t h = x.h0; h < x.h1; h++) {
            const uint32_t head = FORM == DQ ? x.kv : h;
#pragma unroll 1
            for (int s = 0; s < range.y; s++, step++) {
                const int row = range.x + s * ROWS;
                const uint32_t to = ring.tile(step), full = ring.full(step);
                const uint32_t bytes = FORM == DKV ? min(ROWS, T - row) * (uint32_t)sizeof *stats : 0;
                barrier_wait(ring.empty(step), ring.parity(step) ^ 1);
                if (lane() != 0) continue;
                barrier_expect(full, 2 * P::TILE + bytes);
                fetch<D>(to, m1, head, row, x.b, full);
                fetch<D>(to + P::TILE, m2, head, row, x.b, full);
                if (FORM == DKV) bytes_copy(to + 2 * P::TILE, stats + x.stats + (uint64_t)h * T + row, bytes, full);
            }
        }
    }
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

/* Does any of the keys from `row` on see only some of the queries of a tile from `from` on? uneven: queries may have
 * other first keys than 0. */
RT_HOPPER bool edge_of_queries(const unsigned char *stats, int from, int row, int T, bool uneven)
{
    const bool edge = from < row + ROWS - 1 || from + ROWS > T;
    if (!uneven) return edge;
    const rt_cuda_attn_stat *q = (const rt_cuda_attn_stat *)stats + lane();
    return warp_max(max(q[0].lo, q[32].lo)) > row || edge;
}

/* Positions and stats of this lane's rows of those that the warpgroup owns, from `row` on; what all of them see. */
RT_HOPPER seen own_queries(rt_cuda_attn_stat (&stat)[2], int (&i)[2], const rt_cuda_attn_stat *stats, int row, int T)
{
#pragma unroll
    for (int half = 0; half < 2; half++) {
        i[half] = row + warp() % 4 * 16 + lane() / 4 + half * 8;
        stat[half] = stats[i[half] - row];
        if (i[half] >= T) stat[half].lo = INT32_MAX;
    }
    return seen_by(&stats->lo, sizeof *stats / sizeof(int), row, T);
}

/* s = a b', both tiles in shared memory. */
template <int D> RT_DEVICE void scores_of_tiles(float (&s)[ROWS / 8][4], uint32_t a, uint32_t b)
{
#pragma unroll
    for (int d = 0; d < D / 16; d++) {
        const uint32_t on = (d / 4 * PANEL + d % 4 * 32) / 16;
        wgmma_panels<rt_bf16>(s, side_at(a + on), side_at(b + on), d > 0);
    }
}

/* s = a b': the left side in registers, or else its tile at `at`. */
template <int D, bool HELD>
RT_DEVICE void scores_either(float (&s)[ROWS / 8][4], const uint32_t (&held)[D / 16][4], uint32_t at, uint32_t b)
{
    if constexpr (HELD)
        scores<rt_bf16, D>(s, held, b);
    else
        scores_of_tiles<D>(s, at, b);
}

/* Sums of a part, as they are. */
template <int D>
RT_DEVICE void store_sums(const rt_cuda_attn_bwd_params &p, const item &x, uint32_t which, int row,
                          const float (&acc)[D / 8][4], float f)
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
                    make_float2(acc[n][half * 2] * f, acc[n][half * 2 + 1] * f);
        }
}

/* Results of this warp, whose first row is at position `row`, a panel after the other. */
template <int FORM, int D>
RT_DEVICE void store_rows(const rt_cuda_attn_bwd_params &p, const item &x, const rt_cuda_attn_mat &to, uint32_t which,
                          int row, const float (&acc)[D / 8][4], float f, unsigned char *out)
{
    if (FORM == DKV && p.parts > 1) {
        store_sums<D>(p, x, which, row, acc, f);
        return;
    }
    const float scale[1][2] = { { f, f } };
    uint16_t *const at = (uint16_t *)to.at + (x.row0 + row) * to.stride + (uint64_t)(FORM == DQ ? x.h0 : x.kv) * D;
#pragma unroll
    for (int c = 0; c < D / RT_PANEL; c++) {
        float panel[1][RT_PANEL / 8][4];
#pragma unroll
        for (int n = 0; n < RT_PANEL / 8; n++)
#pragma unroll
            for (int e = 0; e < 4; e++) panel[0][n][e] = acc[c * RT_PANEL / 8 + n][e];
        tile_store<rt_bf16, RT_PANEL, 1>(at + c * RT_PANEL, to.stride, (int)p.a.T - row, RT_PANEL, panel, scale, out);
    }
}

template <int FORM, int D, bool ONE>
RT_DEVICE void compute_all(const rt_cuda_attn_bwd_params &p, uint32_t at, unsigned char *shared)
{
    using P = plan<FORM, D, ONE>;
    const int group = (int)threadIdx.x / GROUP, T = (int)p.a.T;
    const typename P::ring_type ring = { at + P::RING, at + P::BARS };
    const uint32_t own1 = side(at + group * P::TILE, 16), own2 = side(at + (NC + group) * P::TILE, 16);
    const bool uneven = p.start.at || p.a.window; /* queries may have other first keys than 0 */
    uint32_t step = 0;
    item x;
    for (uint32_t round = 0; next_tile<FORM>(x, p, round); round++) {
        uint32_t ds_hi[ROWS / 16][4], ds_lo[ROWS / 16][4], p_hi[ROWS / 16][4], p_lo[ROWS / 16][4];
        float one[D / 8][4], two[D / 8][4], s[ROWS / 8][4], dp[ROWS / 8][4];
        uint32_t left1[D / 16][4], left2[D / 16][4];
        rt_cuda_attn_stat stat[2];
        int i[2];
        const int row = x.own + group * ROWS, mine = row + warp() % 4 * 16; /* of the warpgroup, of the warp */
        seen all = { 0, 0, 0 };
        barrier_wait(ring.own_full(), round & 1);
        const int2 range = *(const int2 *)(shared + P::RANGE);
        const int x0 = __shfl_sync(~0u, range.x, 0), n = __shfl_sync(~0u, range.y, 0);
        int a, b; /* of the n tiles that stream by, a .. b - 1 are seen */
        if (P::FIRST_HELD) load_left<D>(left1, at + group * P::TILE);
        if (P::BOTH_HELD) load_left<D>(left2, at + (NC + group) * P::TILE);
        if constexpr (FORM == DQ) {
            all = own_queries(stat, i, (const rt_cuda_attn_stat *)(shared + P::OWN_STATS) + group * ROWS, row, T);
            const bool any = all.first <= all.last;
            a = any ? (all.first - x0) / ROWS : n;
            b = any ? (all.last - x0) / ROWS + 1 : n;
        } else {
            a = row < T ? min(group, n) : n;
            b = n;
        }
        if (P::BOTH_HELD) ring.release_own();
        clear(one);
        if (FORM == DKV) clear(two);
        /* the tile t of a head, in steps of the ring: scores of it, with what the step before leaves to be added */
        auto begin_scores = [&](uint32_t tile) {
            const uint32_t b1 = side(tile, 16), b2 = side(tile + P::TILE, 16);
            wgmma_fence();
            scores_either<D, P::FIRST_HELD>(s, left1, own1, b1);
            scores_either<D, P::BOTH_HELD>(dp, left2, own2, b2);
            wgmma_commit();
        };
        auto begin_sums = [&](uint32_t tile) {
            const uint32_t b1 = side(tile, PANEL), b2 = side(tile + P::TILE, PANEL);
            add<rt_bf16, D>(one, ds_hi, b1);
            if (!ONE) add<rt_bf16, D>(one, ds_lo, b1);
            if constexpr (FORM == DKV) {
                add<rt_bf16, D>(two, p_hi, b2);
                if (!ONE) add<rt_bf16, D>(two, p_lo, b2);
            }
            wgmma_commit();
        };
        auto hold_all = [&] {
            hold(one);
            hold(ds_hi);
            if (!ONE) hold(ds_lo);
            if constexpr (FORM == DKV) {
                hold(two);
                hold(p_hi);
                if (!ONE) hold(p_lo);
            }
        };
        auto is_edge = [&](int t, uint32_t step) {
            const int from = x0 + t * ROWS;
            if (FORM == DQ) return from < all.lo_max || from + ROWS - 1 > row;
            return edge_of_queries(shared + (ring.tile(step) - at) + 2 * P::TILE, from, row, T, uneven);
        };
        auto weigh_all = [&](int t, uint32_t step, bool edge) {
            const int from = x0 + t * ROWS;
            const unsigned char *const stats = shared + (ring.tile(step) - at) + 2 * P::TILE;
            if (FORM == DQ && edge) weigh_keys<true>(s, dp, stat, i, from, p.scale2);
            if (FORM == DQ && !edge) weigh_keys<false>(s, dp, stat, i, from, p.scale2);
            if (FORM == DKV && edge) weigh_queries<true>(s, dp, stats, mine, from, T, p.scale2);
            if (FORM == DKV && !edge) weigh_queries<false>(s, dp, stats, mine, from, T, p.scale2);
        };
        auto make_parts = [&](uint32_t tile, bool edge) {
            split<rt_bf16, ONE>(ds_hi, ds_lo, dp);
            if constexpr (FORM == DKV) split<rt_bf16, ONE>(p_hi, p_lo, s);
            if (ONE || !edge) return;
            add_rest<rt_bf16, D>(one, dp, ds_hi, ds_lo, side(tile, PANEL));
            if constexpr (FORM == DKV) add_rest<rt_bf16, D>(two, s, p_hi, p_lo, side(tile + P::TILE, PANEL));
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
        if (!P::OVERLAP) {
            for (; done < steps; advance(), pass_over()) {
                ring.wait(step);
                begin_scores(ring.tile(step));
                const bool edge = is_edge(t, step);
                wgmma_wait<0>();
                hold(s);
                hold(dp);
                weigh_all(t, step, edge);
                make_parts(ring.tile(step), edge);
                wgmma_fence();
                begin_sums(ring.tile(step));
                wgmma_wait<0>();
                hold_all();
                ring.release(step);
            }
        } else if (done < steps) {
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
        if (!P::BOTH_HELD) ring.release_own();
        unsigned char *const out = shared + P::OUT + warp() * 16 * pitch<RT_PANEL>;
        store_rows<FORM, D>(p, x, FORM == DQ ? p.dq : p.dk, 0, mine, one, p.a.scale, out);
        if (FORM == DKV) store_rows<FORM, D>(p, x, p.dv, 1, mine, two, 1.0f, out);
    }
}

template <int FORM, int D, bool ONE> RT_DEVICE void attn_bwd(const rt_cuda_attn_bwd_params &p)
{
    using P = plan<FORM, D, ONE>;
    constexpr int R = 24, W = 240;
    static_assert(registers_suffice(NC, R, W), "or those who take would wait forever");
    const uint32_t low = shared_at(rt_shared), at = (low + 1023) & ~1023u;
    if (threadIdx.x == 0) typename P::ring_type{ at + P::RING, at + P::BARS }.make(NC);
    __syncthreads();
    if (threadIdx.x >= NC * GROUP) {
        registers_give<R>();
        if (threadIdx.x < NC * GROUP + 32) copy_all<FORM, D, ONE>(p, at, rt_shared + (at - low));
    } else {
        registers_take<W>();
        compute_all<FORM, D, ONE>(p, at, rt_shared + (at - low));
    }
}

#define KERNEL(name, form, D, ONE)                                                                                     \
    extern "C" __global__ void __launch_bounds__((NC + 1) * GROUP, 1)                                                  \
        rt_attn_hopper_##name(const __grid_constant__ rt_cuda_attn_bwd_params p)                                       \
    {                                                                                                                  \
        begin_kernel();                                                                                                \
        RT_SM90A(attn_bwd<form, D, ONE>(p));                                                                           \
    }
KERNEL(DQ_64, DQ, 64, false)
KERNEL(DKV_64, DKV, 64, false)
KERNEL(DQ_64_rounded, DQ, 64, true)
KERNEL(DKV_64_rounded, DKV, 64, true)
KERNEL(DQ_128_rounded, DQ, 128, true)
KERNEL(DKV_128_rounded, DKV, 128, true)
