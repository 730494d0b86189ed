/* cuda_attn_hopper.cu - attention forward on Hopper: o = softmax(scale q k') v, bf16 or f16 storage, heads of 64 or
 * 128.
 *
 * Owns: the op attn_fwd where cuda_attn_fwd.c finds what cuda_attn_fwd.cu asks for, machine code of sm_90 and heads
 * that fill their tiles. What is computed, and to how many bits, is as there. Leaves to cuda_attn_hopper.cuh how blocks
 * work: an item is a tile of queries of one head; keys and values stream by as k0 k1 v0 k2 v1 ..
 *
 * While a warpgroup multiplies weights and values of a tile, its scores of the next tile become weights. It passes over
 * tiles that none of its rows sees, and adds the third part of weights at the edge of what is seen. Each output is
 * computed by one warpgroup in the order of keys, so its bits depend on shapes and data alone. */
#include "backend/cuda/kernels/cuda_attn_hopper.cuh"

/* Shared memory of a block with NC warpgroups that compute: queries, ring, results on their way out, first keys of the
 * queries, first key and number of the tiles, barriers. */
template <int D, int NC> struct plan {
    static constexpr int QUERIES = NC * ROWS, SLOTS = D == 64 ? 16 : 8;
    static constexpr uint32_t TILE = ROWS * D * 2;
    using ring_type = ring<SLOTS, TILE>;
    static constexpr uint32_t RING = NC * TILE, OUT = RING + SLOTS * TILE, FIRST = OUT + QUERIES * pitch<D>,
                              RANGE = FIRST + QUERIES * 4, BARS = RANGE + 16, END = BARS + ring_type::bar_bytes;
    static_assert(END + 1024 <= RT_CUDA_ATTN_HOPPER_SHARED(D, NC), "the host asks for as much");
};

struct item {
    uint64_t row0; /* of the batch, in rows of the operands */
    uint32_t b, h; /* batch, query head */
    int i0;        /* position of its first query */
};

/* Items with the most keys come first. */
template <int QUERIES> RT_DEVICE bool next_tile(item &x, const rt_cuda_attn_fwd_params &p, uint32_t round)
{
    const uint32_t tiles = (p.a.T + QUERIES - 1) / QUERIES;
    uint32_t n;
    if (!next_item(n, round, (uint64_t)p.a.B * p.a.H * tiles)) return false;
    const uint32_t rest = n / p.a.H;
    x.h = n % p.a.H;
    x.b = rest % p.a.B;
    x.row0 = (uint64_t)x.b * p.a.T;
    x.i0 = (int)(tiles - 1 - rest / p.a.B) * QUERIES;
    return true;
}

/* Steps of keys and values of tile j of n, from the first of the item on. */
RT_HOPPER uint32_t step_k(int j) { return j ? 2 * j - 1 : 0; }
RT_HOPPER uint32_t step_v(int j, int n) { return j < n - 1 ? 2 * j + 2 : 2 * n - 1; }

/* Of one warp; its first lane asks for the copies. */
template <int D, int NC> RT_DEVICE void copy_all(const rt_cuda_attn_fwd_params &p, uint32_t at, unsigned char *shared)
{
    using P = plan<D, NC>;
    const typename P::ring_type ring = { at + P::RING, at + P::BARS };
    const int T = (int)p.a.T;
    uint32_t step = 0;
    item x;
    for (uint32_t round = 0; next_tile<P::QUERIES>(x, p, round); round++) {
        const int end = min(x.i0 + P::QUERIES, T);
        int first = INT32_MAX;
        barrier_wait(ring.own_empty(), (round & 1) ^ 1);
        for (int n = lane(); n < P::QUERIES; n += 32) {
            const int i = x.i0 + n, lo = first_key(p.a, p.start, x.row0, i);
            ((int *)(shared + P::FIRST))[n] = lo;
            if (lo <= i) first = min(first, lo); /* behind the end of the row lo is no position */
        }
        first = warp_min(first);
        const int j0 = first / ROWS * ROWS, n = first < end ? (end - j0 + ROWS - 1) / ROWS : 0;
        const uint32_t kv = x.h / (p.a.H / p.a.K);
        if (lane() == 0) {
            *(int2 *)(shared + P::RANGE) = make_int2(j0, n);
            barrier_expect(ring.own_full(), NC * P::TILE);
            for (int w = 0; w < NC; w++)
                fetch<D>(at + w * P::TILE, p.q_map, x.h, x.i0 + w * ROWS, x.b, ring.own_full());
        } else {
            barrier_arrive(ring.own_full());
        }
        int k = j0, v = j0;
#pragma unroll 1
        for (int s = 0; s < 2 * n; s++, step++) {
            const bool is_k = s == 0 || (s & 1 && s < 2 * n - 1);
            barrier_wait(ring.empty(step), ring.parity(step) ^ 1);
            if (lane() == 0) {
                barrier_expect(ring.full(step), P::TILE);
                fetch<D>(ring.tile(step), is_k ? p.k_map : p.v_map, kv, is_k ? k : v, x.b, ring.full(step));
            }
            (is_k ? k : v) += ROWS;
        }
    }
}

/* ---- the warpgroups that compute ---- */

/* This lane's rows of a warpgroup while they are computed; [half]: row lane/4 + 8 half of the warp. */
struct fwd_rows {
    float top[2], sum[2]; /* largest score, sum of weights: this lane's part of it */
    int i[2], lo[2];      /* position, first key */
};

/* Scores of keys j0 .. j0 + ROWS - 1 become -infinity where they are not seen. */
RT_HOPPER void mask(float (&s)[ROWS / 8][4], const fwd_rows &w, int j0)
{
#pragma unroll
    for (int n = 0; n < ROWS / 8; n++)
#pragma unroll
        for (int e = 0; e < 4; e++) {
            const int j = j0 + n * 8 + lane() % 4 * 2 + e % 2;
            if (j < w.lo[e / 2] || j > w.i[e / 2]) s[n][e] = -INFINITY;
        }
}

/* Scores become weights (times E::lift); top and sum are brought up to date. What o holds must be multiplied by shrink.
 * Four maxima and four sums at a time: warps are too few to wait for one after the other. */
template <class E> RT_DEVICE void soften(float (&s)[ROWS / 8][4], fwd_rows &w, float (&shrink)[2], float scale2)
{
    float top[2][4], sum[2][4];
#pragma unroll
    for (int n = 0; n < ROWS / 8; n++)
#pragma unroll
        for (int half = 0; half < 2; half++) {
            const float x = fmaxf(s[n][half * 2], s[n][half * 2 + 1]);
            top[half][n % 4] = n < 4 ? x : fmaxf(top[half][n % 4], x);
        }
#pragma unroll
    for (int half = 0; half < 2; half++) {
        float x = fmaxf(fmaxf(top[half][0], top[half][1]), fmaxf(top[half][2], top[half][3]));
        x = fmaxf(x, __shfl_xor_sync(~0u, x, 1));
        x = fmaxf(x, __shfl_xor_sync(~0u, x, 2));
        x = fmaxf(w.top[half], x * scale2);
        /* a row that has seen nothing yet: the difference of two infinities must be none */
        top[half][0] = x == -INFINITY ? 0.0f : x;
        shrink[half] = power_2(w.top[half] - top[half][0]);
        w.top[half] = x;
    }
#pragma unroll
    for (int n = 0; n < ROWS / 8; n++)
#pragma unroll
        for (int half = 0; half < 2; half++) {
#pragma unroll
            for (int e = half * 2; e < half * 2 + 2; e++)
                s[n][e] = power_2(fmaf(s[n][e], scale2, -top[half][0])) * E::lift;
            const float x = s[n][half * 2] + s[n][half * 2 + 1];
            sum[half][n % 4] = n < 4 ? x : sum[half][n % 4] + x;
        }
#pragma unroll
    for (int half = 0; half < 2; half++)
        w.sum[half] = fmaf(w.sum[half], shrink[half], (sum[half][0] + sum[half][1]) + (sum[half][2] + sum[half][3]));
}

/* o and lse of this warp's rows, the first of which is at position `row`; a row that saw nothing has o NaN and lse
 * -infinity. */
template <class E, int D>
RT_DEVICE void rows_end(const fwd_rows &w, const float (&o)[1][D / 8][4], const rt_cuda_attn_fwd_params &p,
                        const item &x, int row, unsigned char *out)
{
    float f[1][2];
#pragma unroll
    for (int half = 0; half < 2; half++) {
        float sum = w.sum[half];
        sum += __shfl_xor_sync(~0u, sum, 1);
        sum += __shfl_xor_sync(~0u, sum, 2);
        f[0][half] = 1.0f / sum;
        if (lane() % 4 == 0 && w.i[half] < (int)p.a.T)
            ((float *)p.lse.at)[(x.row0 + w.i[half]) * p.lse.stride + x.h] =
                fmaf(w.top[half], 0x1.62e430p-1f, logf(sum / E::lift));
    }
    tile_store<E, D, 1>((uint16_t *)p.o.at + (x.row0 + row) * p.o.stride + (uint64_t)x.h * D, p.o.stride,
                        (int)p.a.T - row, D, o, f, out);
}

/* ONE: weights enter their GEMM rounded to 16 bits, in one part; else in two, at edges in E::parts. */
template <class E, int D, int NC, bool ONE>
RT_DEVICE void compute_all(const rt_cuda_attn_fwd_params &p, uint32_t at, unsigned char *shared)
{
    using P = plan<D, NC>;
    const int group = (int)threadIdx.x / GROUP;
    const typename P::ring_type ring = { at + P::RING, at + P::BARS };
    uint32_t base = 0; /* the first step of the item */
    item x;
    for (uint32_t round = 0; next_tile<P::QUERIES>(x, p, round); round++) {
        constexpr bool REST = !ONE && E::parts == 3;
        uint32_t q[D / 16][4], hi[ROWS / 16][4], lo[ROWS / 16][4];
        float o[1][D / 8][4], s[ROWS / 8][4], shrink[2];
        fwd_rows w;
        barrier_wait(ring.own_full(), round & 1);
        load_left<D>(q, at + group * P::TILE);
        const int *const firsts = (const int *)(shared + P::FIRST) + group * ROWS;
        const int row = x.i0 + group * ROWS;
        const seen all = seen_by(firsts, 1, row, (int)p.a.T);
#pragma unroll
        for (int half = 0; half < 2; half++) {
            const int r = warp() % 4 * 16 + lane() / 4 + half * 8;
            w.i[half] = row + r;
            w.lo[half] = firsts[r];
            w.top[half] = -INFINITY;
            w.sum[half] = 0;
        }
        const int2 range = *(const int2 *)(shared + P::RANGE);
        const int j0 = __shfl_sync(~0u, range.x, 0), n = __shfl_sync(~0u, range.y, 0);
        ring.release_own();
        clear(o[0]);
        /* tiles a .. b - 1 of n are seen; others are passed over */
        const bool any = all.first <= all.last;
        const int a = any ? (all.first - j0) / ROWS : n, b = any ? (all.last - j0) / ROWS + 1 : n;
        for (int j = 0; j < n; j++) {
            if (j == a) {
                bool edge = j0 + a * ROWS < all.lo_max || j0 + a * ROWS + ROWS - 1 > row;
                ring.wait(base + step_k(a));
                const uint32_t k_side = side(ring.tile(base + step_k(a)), 16);
                wgmma_fence();
                scores<E, D>(s, q, k_side);
                wgmma_commit();
                wgmma_wait<0>();
                hold(s);
                ring.release(base + step_k(a));
                if (edge) mask(s, w, j0 + a * ROWS);
                soften<E>(s, w, shrink, p.scale2);
                split<E, ONE>(hi, lo, s);
                if (REST && edge) {
                    ring.wait(base + step_v(a, n));
                    add_rest<E, D>(o[0], s, hi, lo, side(ring.tile(base + step_v(a, n)), PANEL));
                }
                for (j++; j < b; j++) {
                    const uint32_t here = base + 2 * j - 1, before = base + 2 * j; /* keys of j, values of j - 1 */
                    const uint32_t k_side = side(ring.tile(here), 16), v_side = side(ring.tile(before), PANEL);
                    ring.wait(here);
                    ring.wait(before);
                    wgmma_fence();
                    scores<E, D>(s, q, k_side);
                    wgmma_commit();
                    add<E, D>(o[0], hi, v_side);
                    if (!ONE) add<E, D>(o[0], lo, v_side);
                    wgmma_commit();
                    wgmma_wait<1>();
                    hold(s);
                    ring.release(here);
                    edge = j0 + j * ROWS < all.lo_max || j0 + j * ROWS + ROWS - 1 > row;
                    if (edge) mask(s, w, j0 + j * ROWS);
                    /* always; but without a branch the wait below would be moved ahead of it */
                    if (p.scale2 > 0) soften<E>(s, w, shrink, p.scale2);
                    wgmma_wait<0>();
                    hold(o[0]);
                    hold(hi);
                    if (!ONE) hold(lo);
                    ring.release(before);
#pragma unroll
                    for (int d = 0; d < D / 8; d++)
#pragma unroll
                        for (int e = 0; e < 4; e++) o[0][d][e] *= shrink[e / 2];
                    split<E, ONE>(hi, lo, s);
                    if (REST && edge) {
                        ring.wait(base + step_v(j, n));
                        add_rest<E, D>(o[0], s, hi, lo, side(ring.tile(base + step_v(j, n)), PANEL));
                    }
                }
                const uint32_t last = base + step_v(b - 1, n), v_side = side(ring.tile(last), PANEL);
                ring.wait(last);
                wgmma_fence();
                add<E, D>(o[0], hi, v_side);
                if (!ONE) add<E, D>(o[0], lo, v_side);
                wgmma_commit();
                wgmma_wait<0>();
                hold(o[0]);
                hold(hi);
                if (!ONE) hold(lo);
                ring.release(last);
                if (j >= n) break;
            }
            ring.wait(base + step_k(j));
            ring.release(base + step_k(j));
            ring.wait(base + step_v(j, n));
            ring.release(base + step_v(j, n));
        }
        rows_end<E, D>(w, o, p, x, row + warp() % 4 * 16, shared + P::OUT + warp() * 16 * pitch<D>);
        base += 2 * n;
    }
}

template <class E, int D, int NC, bool ONE> RT_DEVICE void attn_fwd(const rt_cuda_attn_fwd_params &p)
{
    using P = plan<D, NC>;
    constexpr int R = 24, W = NC == 2 ? 240 : 160;
    static_assert(registers_suffice(NC, R, W), "or those who take would wait forever");
    const uint32_t low = shared_at(rt_shared), at = (low + 1023) & ~1023u;
    if (threadIdx.x == 0) typename P::ring_type{ at + P::RING, at + P::BARS }.make(NC);
    __syncthreads();
    if (threadIdx.x >= NC * GROUP) {
        registers_give<R>();
        if (threadIdx.x < NC * GROUP + 32) copy_all<D, NC>(p, at, rt_shared + (at - low));
    } else {
        registers_take<W>();
        compute_all<E, D, NC, ONE>(p, at, rt_shared + (at - low));
    }
}

#define KERNEL(name, type, D, NC, ONE)                                                                                 \
    extern "C" __global__ void __launch_bounds__((NC + 1) * GROUP, 1)                                                  \
        rt_attn_hopper_##name(const __grid_constant__ rt_cuda_attn_fwd_params p)                                       \
    {                                                                                                                  \
        begin_kernel();                                                                                                \
        RT_SM90A(attn_fwd<rt_##type, D, NC, ONE>(p));                                                                  \
    }
KERNEL(bf16_64, bf16, 64, 3, false)
KERNEL(bf16_128, bf16, 128, 2, false)
KERNEL(f16_64, f16, 64, 3, false)
KERNEL(f16_128, f16, 128, 2, false)
KERNEL(bf16_64_rounded, bf16, 64, 3, true)
KERNEL(bf16_128_rounded, bf16, 128, 2, true)
KERNEL(f16_64_rounded, f16, 64, 3, true)
KERNEL(f16_128_rounded, f16, 128, 2, true)
