/* cuda_attn_hopper.cuh - what the attention kernels of Hopper share: who copies, who computes, and what lies between;
 * device code.
 *
 * A block stays on its multiprocessor and takes one item (a tile of rows that it owns) after the other. One warp has
 * the copy engine bring what an item owns, then the tiles that stream past it, in the order in which they are wanted,
 * into a ring of slots, as far ahead as there is room, also into the next item. Warpgroups have 64 rows of the item
 * each, and compute. Steps are counted from the first item on; a step's slot is its number modulo the slots. */
#ifndef RT_BACKEND_CUDA_KERNELS_CUDA_ATTN_HOPPER_CUH
#define RT_BACKEND_CUDA_KERNELS_CUDA_ATTN_HOPPER_CUH

#include "backend/cuda/kernels/cuda_attn_tile.cuh"
#include "backend/cuda/kernels/cuda_tma.cuh"

/* Of a kernel's own file, where nothing is called but on Hopper. */
#define RT_HOPPER [[maybe_unused]] RT_DEVICE

enum { GROUP = RT_CUDA_ATTN_HOPPER_GROUP, ROWS = RT_CUDA_ATTN_HOPPER_ROWS }; /* of a warpgroup, and of every tile */
enum { PANEL = ROWS * RT_PANEL_ROW };                                        /* bytes of a panel of a tile */

/* ---- barriers: `slots` times full, then empty; then of what is owned ---- */

template <int SLOTS, uint32_t SLOT> struct ring {
    static_assert((SLOTS & (SLOTS - 1)) == 0, "steps become slots by their last bits");
    uint32_t tiles, bars; /* of shared memory */
    __device__ __forceinline__ uint32_t tile(uint32_t step) const { return tiles + step % SLOTS * SLOT; }
    __device__ __forceinline__ uint32_t full(uint32_t step) const { return bars + step % SLOTS * 8; }
    __device__ __forceinline__ uint32_t empty(uint32_t step) const { return full(step) + SLOTS * 8; }
    __device__ __forceinline__ uint32_t own_full() const { return bars + 2 * SLOTS * 8; }
    __device__ __forceinline__ uint32_t own_empty() const { return bars + (2 * SLOTS + 1) * 8; }
    static __device__ __forceinline__ uint32_t parity(uint32_t step) { return step / SLOTS & 1; }
    __device__ __forceinline__ void wait(uint32_t step) const { barrier_wait(full(step), parity(step)); }
    /* This thread reads no more of it: what a step brought, what an item owns. */
    __device__ __forceinline__ void release(uint32_t step) const { barrier_arrive(empty(step)); }
    __device__ __forceinline__ void release_own() const { barrier_arrive(own_empty()); }
    /* For one thread, before anything else. computing: warpgroups. */
    __device__ __forceinline__ void make(int computing) const
    {
        for (uint32_t i = 0; i < SLOTS; i++) {
            barrier_make(full(i), 1);
            barrier_make(empty(i), computing * GROUP);
        }
        barrier_make(own_full(), 32);
        barrier_make(own_empty(), computing * GROUP);
        barriers_made();
    }
    static constexpr uint32_t bar_bytes = (2 * SLOTS + 2) * 8;
};

/* ---- the warp that copies ---- */

/* ROWS rows of a head of D columns from row `row` of batch `b` on, in panels, by one thread; zeros behind the batch's
 * last row. */
template <int D>
RT_DEVICE void fetch(uint32_t to, const rt_cuda_tensor_map &map, uint32_t head, int row, uint32_t b, uint32_t bar)
{
#pragma unroll
    for (int x = 0; x < D / RT_PANEL; x++)
        box_copy(to + x * PANEL, map, (int)head * D + x * RT_PANEL, row, (int)b, bar);
}

/* ---- the warpgroups that compute ---- */

/* Rows of this warpgroup as left sides, from their tile. */
template <int D> RT_DEVICE void load_left(uint32_t (&a)[D / 16][4], uint32_t at)
{
    const int r = warp() % 4 * 16 + (lane() & 15);
#pragma unroll
    for (int d = 0; d < D / 16; d++)
        load_4(a[d], at + d / 4 * PANEL + r * RT_PANEL_ROW + ((d % 4 * 2 + (lane() >> 4)) ^ (r & 7)) * 16);
}

/* s = a b': a in registers, the tile b at `b` (side() of it). */
template <class E, int D> RT_DEVICE void scores(float (&s)[ROWS / 8][4], const uint32_t (&a)[D / 16][4], uint32_t b)
{
#pragma unroll
    for (int d = 0; d < D / 16; d++) wgmma<E, false>(s, a[d], side_at(b + (d / 4 * PANEL + d % 4 * 32) / 16), d > 0);
}

/* acc += one part of weights times the tile at `b` (side() of it, panels PANEL apart). */
template <class E, int D> RT_DEVICE void add(float (&acc)[D / 8][4], const uint32_t (&part)[ROWS / 16][4], uint32_t b)
{
#pragma unroll
    for (int k = 0; k < ROWS / 16; k++) wgmma<E, true>(acc, part[k], side_at(b + k * 16 * RT_PANEL_ROW / 16), 1);
}

/* Weights in two parts, as left sides of MMAs. ONE: rounded to the first. */
template <class E, bool ONE>
RT_DEVICE void split(uint32_t (&hi)[ROWS / 16][4], uint32_t (&lo)[ROWS / 16][4], const float (&s)[ROWS / 8][4])
{
#pragma unroll
    for (int k = 0; k < ROWS / 16; k++)
#pragma unroll
        for (int i = 0; i < 4; i++) {
            const float x = s[2 * k + i / 2][i % 2 * 2], y = s[2 * k + i / 2][i % 2 * 2 + 1];
            hi[k][i] = E::pair(x, y);
            if (!ONE) lo[k][i] = E::pair(x - E::first(hi[k][i]), y - E::second(hi[k][i]));
        }
}

/* acc += what hi and lo lack of weights, times the tile at `b`; ends before it returns. */
template <class E, int D>
RT_DEVICE void add_rest(float (&acc)[D / 8][4], const float (&s)[ROWS / 8][4], const uint32_t (&hi)[ROWS / 16][4],
                        const uint32_t (&lo)[ROWS / 16][4], uint32_t b)
{
    uint32_t rest[ROWS / 16][4];
#pragma unroll
    for (int k = 0; k < ROWS / 16; k++)
#pragma unroll
        for (int i = 0; i < 4; i++)
            rest[k][i] = E::pair(s[2 * k + i / 2][i % 2 * 2] - E::first(hi[k][i]) - E::first(lo[k][i]),
                                 s[2 * k + i / 2][i % 2 * 2 + 1] - E::second(hi[k][i]) - E::second(lo[k][i]));
    wgmma_fence();
    add<E, D>(acc, rest, b);
    wgmma_commit();
    wgmma_wait<0>();
    hold(acc);
    hold(rest);
}

template <int N> RT_DEVICE void clear(float (&x)[N][4])
{
#pragma unroll
    for (int n = 0; n < N; n++)
#pragma unroll
        for (int e = 0; e < 4; e++) x[n][e] = 0;
}

/* What the 64 rows of queries of a warpgroup see together. */
struct seen {
    int first, last, lo_max; /* keys that any row sees; keys lo_max .. first row are seen by every row */
};

/* lo[n * step]: the first key of row n, which is at position row + n; rows from T on see nothing. */
RT_DEVICE seen seen_by(const int *lo, int step, int row, int T)
{
    seen x = { INT32_MAX, -1, -1 };
#pragma unroll
    for (int n = 0; n < ROWS; n += 32) {
        const int i = row + n + lane(), at = i < T ? lo[(n + lane()) * step] : INT32_MAX;
        x.lo_max = max(x.lo_max, at);
        if (at <= i) {
            x.first = min(x.first, at);
            x.last = i;
        }
    }
    return { warp_min(x.first), warp_max(x.last), warp_max(x.lo_max) };
}

/* The item `round` of this block, if there are so many; blocks take turns in being the first to choose. */
RT_DEVICE bool next_item(uint32_t &n, uint32_t round, uint64_t items)
{
    const uint64_t at = (uint64_t)round * gridDim.x + (round & 1 ? gridDim.x - 1 - blockIdx.x : blockIdx.x);
    n = (uint32_t)at;
    return at < items;
}

#endif
