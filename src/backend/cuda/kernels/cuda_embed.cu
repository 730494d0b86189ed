/* cuda_embed.cu - rows of a table by id, and their gradient.
 *
 * Forward: a warp has a row of y. Quantised tables are those of cuda_dequant.cu.
 *
 * Backward, dtable[ids[i]] += dy[i] in order of i: two small launches find for every id its first position and how
 * often it occurs (integers, so their atomics have no order). Then there is a block for each position; only that of the
 * first position of an id writes. It collects the others, in order, and adds their rows to the table's row in
 * registers: the row is read once, summed in f32 and rounded once. */
#include "backend/cuda/kernels/cuda_common.cuh"
#include "backend/cuda/kernels/cuda_embed.h"

namespace
{
/* ---- forward ---- */

/* y = the row, or NaN where there is none; whole packs of a lane are under way together */
template <class T, class G> __device__ void gather_whole(T *to, const G *from, uint32_t C, bool known)
{
    constexpr int W = RT_CUDA_EMBED_PACK, U = RT_CUDA_EMBED_PACKS, STEP = 32 * W;
    for (uint32_t c = threadIdx.x % 32 * W; c < C; c += U * STEP) {
        Raw<W *(int)sizeof(G)> raw[U];
#pragma unroll
        for (int u = 0; u < U; u++)
            if (c + u * STEP < C) raw[u] = load_raw<W *(int)sizeof(G)>(from + c + u * STEP);
#pragma unroll
        for (int u = 0; u < U; u++) {
            float v[W];
            if (c + u * STEP >= C) break;
            unpack<G, W>(v, raw[u]);
#pragma unroll
            for (int i = 0; i < W; i++) v[i] = known ? v[i] : __uint_as_float(0x7fc00000u); /* NaN */
            store(to + c + u * STEP, v, Whole());
        }
    }
}

/* A warp has a row: its lanes wait for one id. */
template <class T, class G> __device__ void gather(const rt_cuda_embed_params &p)
{
    const uint64_t row = (uint64_t)blockIdx.x * (blockDim.x / 32) + threadIdx.x / 32;
    if (row >= p.N) return;
    const int32_t id = *element<int32_t>(p.ids, row, 0);
    const bool known = id >= 0 && (uint32_t)id < p.V;
    const G *from = element<G>(p.table, known ? id : 0, 0); /* some row in any case: no load is behind a branch */
    T *to = element<T>(p.y, row, 0);
    if (p.whole) {
        gather_whole(to, from, p.C, known);
        return;
    }
    for (uint32_t c = threadIdx.x % 32; c < p.C; c += 32)
        narrow(&to[c], known ? to_float(from[c]) : __uint_as_float(0x7fc00000u));
}

/* ---- backward ---- */

enum { FETCH = 8, LIST = RT_CUDA_EMBED_LANES * FETCH, WARPS = RT_CUDA_EMBED_LANES / 32, ROWS = 4 };
enum { W = RT_CUDA_EMBED_COLS, U = RT_CUDA_EMBED_PAIR }; /* columns of a pack, packs of a thread */
enum { FULL = RT_SM_THREADS / RT_CUDA_EMBED_LANES, FIT = FULL < 10 ? FULL : 10 }; /* blocks of a multiprocessor */

/* list = positions of id among LIST of them from `from` on, in order; returns how many. */
RT_DEVICE uint32_t find_positions(const rt_cuda_embed_bwd_params &p, int32_t id, uint64_t from, uint32_t *list)
{
    __shared__ uint32_t found[FETCH * WARPS];
    const uint32_t lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    uint32_t hit[FETCH];
    int32_t v[FETCH];
#pragma unroll
    for (int k = 0; k < FETCH; k++) {
        const uint64_t j = from + k * RT_CUDA_EMBED_LANES + threadIdx.x;
        v[k] = j < p.a.N ? *element<int32_t>(p.ids, j, 0) : -1; /* id itself is not negative */
    }
#pragma unroll
    for (int k = 0; k < FETCH; k++) {
        hit[k] = __ballot_sync(RT_EVERY_LANE, v[k] == id);
        if (lane == 0) found[k * WARPS + warp] = __popc(hit[k]);
    }
    __syncthreads();
    uint32_t before = 0;
#pragma unroll
    for (int i = 0; i < FETCH * WARPS; i++) {
        const int k = i / WARPS;
        if (i % WARPS == warp && hit[k] >> lane & 1)
            list[before + __popc(hit[k] & ((1u << lane) - 1))] =
                (uint32_t)(from + k * RT_CUDA_EMBED_LANES + threadIdx.x);
        before += found[i];
    }
    __syncthreads();
    return before;
}

/* sum += columns col.. of the listed rows of dy, in order; whole packs of several rows are under way at a time */
template <class T>
RT_DEVICE void add_list(float (&sum)[W], const rt_cuda_mat &dy, const uint32_t *list, uint32_t n, uint64_t col, Part e)
{
    for (uint32_t k = 0; k < n; k++) {
        float v[W];
        load(v, element<T>(dy, list[k], col), e);
#pragma unroll
        for (int i = 0; i < W; i++) sum[i] += v[i];
    }
}
template <class T>
RT_DEVICE void add_list(float (&sum)[W], const rt_cuda_mat &dy, const uint32_t *list, uint32_t n, uint64_t col, Whole)
{
    constexpr int BYTES = W * (int)sizeof(T);
    for (uint32_t k = 0; k < n; k += ROWS) {
        Raw<BYTES> raw[ROWS];
#pragma unroll
        for (int r = 0; r < ROWS; r++)
            if (k + r < n) raw[r] = load_raw<BYTES>(element<T>(dy, list[k + r], col));
#pragma unroll
        for (int r = 0; r < ROWS; r++) {
            float v[W];
            if (k + r >= n) break;
            unpack<T, W>(v, raw[r]);
#pragma unroll
            for (int i = 0; i < W; i++) sum[i] += v[i];
        }
    }
}

/* The packs of a thread in a row. Those of neighbours lie side by side, so that a warp writes whole sectors. */
struct Packs {
    uint64_t col[U];
    uint32_t n[U]; /* elements that exist */
    __device__ Packs(uint64_t first, uint64_t C)
    {
#pragma unroll
        for (int u = 0; u < U; u++) {
            col[u] = first + (uint64_t)(u * RT_CUDA_EMBED_LANES + threadIdx.x) * W;
            n[u] = col[u] >= C ? 0 : C - col[u] < W ? (uint32_t)(C - col[u]) : W;
        }
    }
};

/* Position i and its row of the table are asked for before it is known whether the block has anything to do: i is the
 * first of its id more often than not, and the only one then. */
template <class T, class G, class E>
__device__ void add_rows(const rt_cuda_embed_bwd_params &p, uint32_t i, const Packs &at, uint32_t *list, E e)
{
    float own[U][W], sum[U][W];
    const int32_t id = __ldcg(element<int32_t>(p.ids, i, 0)); /* by a plain load f32 spills 40 bytes on sm_90 */
    const bool known = id >= 0 && (uint32_t)id < p.a.V;
#pragma unroll
    for (int u = 0; u < U; u++)
        if (at.n[u]) load(own[u], element<T>(p.dy, i, at.col[u]), extent(e, at.n[u]));
#pragma unroll
    for (int u = 0; u < U; u++)
        if (at.n[u]) load(sum[u], element<G>(p.dtable, known ? id : 0, at.col[u]), extent(e, at.n[u]));
    if (!known) return;
    const rt_cuda_embed_seen seen = ((const rt_cuda_embed_seen *)p.seen)[id];
    if (seen.first != i) return;
    uint32_t left = seen.count;
    if (left == 1) {
#pragma unroll
        for (int u = 0; u < U; u++)
#pragma unroll
            for (int k = 0; k < W; k++) sum[u][k] += own[u][k];
    } else {
        for (uint64_t from = i; left; from += LIST) {
            const uint32_t n = find_positions(p, id, from, list);
#pragma unroll
            for (int u = 0; u < U; u++)
                if (at.n[u]) add_list<T>(sum[u], p.dy, list, n, at.col[u], extent(e, at.n[u]));
            left -= n;
            __syncthreads();
        }
    }
#pragma unroll
    for (int u = 0; u < U; u++)
        if (at.n[u]) store(element<G>(p.dtable, id, at.col[u]), sum[u], extent(e, at.n[u]));
}

template <class T, class G> __device__ void scatter(const rt_cuda_embed_bwd_params &p, uint32_t *list)
{
    const uint32_t i = blockIdx.x / p.chunks, chunk = blockIdx.x - i * p.chunks;
    const Packs at((uint64_t)chunk * RT_CUDA_EMBED_LANES * U * W, p.a.C);
    if (p.whole)
        add_rows<T, G>(p, i, at, list, Whole());
    else
        add_rows<T, G>(p, i, at, list, Part());
}
} // namespace

extern "C" __global__ void __launch_bounds__(RT_CUDA_BLOCK) embed_bwd_clear(const rt_cuda_embed_bwd_params p)
{
    begin_kernel();
    next_may_begin();
    const uint64_t pair = (uint64_t)blockIdx.x * blockDim.x + threadIdx.x; /* of ids; the last has room for two too */
    if (2 * pair < p.a.V) ((uint4 *)p.seen)[pair] = make_uint4(UINT32_MAX, 0, UINT32_MAX, 0);
}

extern "C" __global__ void __launch_bounds__(RT_CUDA_BLOCK) embed_bwd_count(const rt_cuda_embed_bwd_params p)
{
    begin_kernel();
    next_may_begin();
    const uint64_t i = (uint64_t)blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= p.a.N) return;
    const int32_t id = *element<int32_t>(p.ids, i, 0);
    if (id < 0 || (uint32_t)id >= p.a.V) return;
    rt_cuda_embed_seen *seen = (rt_cuda_embed_seen *)p.seen + id;
    atomicMin(&seen->first, (uint32_t)i);
    atomicAdd(&seen->count, 1u);
}

#define KERNELS(name, T)                                                                                               \
    extern "C" __global__ void __launch_bounds__(RT_CUDA_EMBED_LANES, FIT)                                             \
        embed_bwd_##name(const rt_cuda_embed_bwd_params p)                                                             \
    {                                                                                                                  \
        begin_kernel();                                                                                                \
        next_may_begin();                                                                                              \
        __shared__ uint32_t list[LIST];                                                                                \
        if (p.wide)                                                                                                    \
            scatter<T, float>(p, list);                                                                                \
        else                                                                                                           \
            scatter<T, T>(p, list);                                                                                    \
    }
RT_FOR_FLOATS(KERNELS)

#define GATHER(to, T, from, G)                                                                                         \
    extern "C" __global__ void __launch_bounds__(RT_CUDA_BLOCK) embed_##to##_##from(const rt_cuda_embed_params p)      \
    {                                                                                                                  \
        begin_kernel();                                                                                                \
        next_may_begin();                                                                                              \
        gather<T, G>(p);                                                                                               \
    }
#define GATHERS(to, T) GATHER(to, T, f32, float) GATHER(to, T, bf16, bf16) GATHER(to, T, f16, f16)
RT_FOR_FLOATS(GATHERS)
