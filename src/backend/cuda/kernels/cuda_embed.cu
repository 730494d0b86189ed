/* cuda_embed.cu - rows of a table by id, and their gradient.
 *
 * Forward: a warp has a row of y. Quantised tables are those of cuda_dequant.cu.
 *
 * Backward, dtable[ids[i]] += dy[i] in order of i: two small launches find for every id its first position and how
 * often it occurs (integers, so their atomics have no order). Then there is a block for each position; only that of the
 * first position of an id works. It collects the others, in order, and adds their rows to the table's row in registers:
 * the row is read once, summed in f32 and rounded once. */
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

enum { FETCH = 8, LIST = RT_CUDA_EMBED_LANES * FETCH, WARPS = RT_CUDA_EMBED_LANES / 32, ROWS = 8 };

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
template <class T, int W>
RT_DEVICE void add_list(float (&sum)[W], const rt_cuda_mat &dy, const uint32_t *list, uint32_t n, uint64_t col, Part e)
{
    for (uint32_t k = 0; k < n; k++) {
        float v[W];
        load(v, element<T>(dy, list[k], col), e);
#pragma unroll
        for (int i = 0; i < W; i++) sum[i] += v[i];
    }
}
template <class T, int W>
RT_DEVICE void add_list(float (&sum)[W], const rt_cuda_mat &dy, const uint32_t *list, uint32_t n, uint64_t col, Whole)
{
    for (uint32_t k = 0; k < n; k += ROWS) {
        Raw<16> raw[ROWS];
#pragma unroll
        for (int r = 0; r < ROWS; r++)
            if (k + r < n) raw[r] = load_raw<16>(element<T>(dy, list[k + r], col));
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

/* The row of position i is asked for before it is known whether the block has anything to do: it is the first of its id
 * more often than not, and the only one then. */
template <class T, class G, class E>
__device__ void add_rows(const rt_cuda_embed_bwd_params &p, uint32_t i, uint64_t col, bool mine, uint32_t *list, E e)
{
    constexpr int W = 16 / (int)sizeof(T);
    float own[W], sum[W];
    const int32_t id = *element<int32_t>(p.ids, i, 0);
    if (mine) load(own, element<T>(p.dy, i, col), e);
    if (id < 0 || (uint32_t)id >= p.a.V) return;
    const rt_cuda_embed_seen seen = ((const rt_cuda_embed_seen *)p.seen)[id];
    if (seen.first != i) return;
    if (mine) load(sum, element<G>(p.dtable, id, col), e);
    if (seen.count == 1) {
#pragma unroll
        for (int k = 0; mine && k < W; k++) sum[k] += own[k];
    } else {
        uint32_t left = seen.count;
        for (uint64_t from = i; left; from += LIST) {
            const uint32_t n = find_positions(p, id, from, list);
            if (mine) add_list<T>(sum, p.dy, list, n, col, e);
            left -= n;
            __syncthreads();
        }
    }
    if (mine) store(element<G>(p.dtable, id, col), sum, e);
}

template <class T, class G> __device__ void scatter(const rt_cuda_embed_bwd_params &p, uint32_t *list)
{
    constexpr int W = 16 / (int)sizeof(T);
    const uint32_t i = blockIdx.x / p.chunks, chunk = blockIdx.x - i * p.chunks;
    const uint64_t col = ((uint64_t)chunk * RT_CUDA_EMBED_LANES + threadIdx.x) * W;
    const bool mine = col < p.a.C;
    const Part part = { mine && p.a.C - col < W ? (uint32_t)(p.a.C - col) : (uint32_t)W };
    if (p.whole)
        add_rows<T, G>(p, i, col, mine, list, Whole());
    else
        add_rows<T, G>(p, i, col, mine, list, part);
}
} // namespace

extern "C" __global__ void __launch_bounds__(RT_CUDA_BLOCK) embed_bwd_clear(const rt_cuda_embed_bwd_params p)
{
    begin_kernel();
    const uint64_t v = (uint64_t)blockIdx.x * blockDim.x + threadIdx.x;
    if (v < p.a.V) ((rt_cuda_embed_seen *)p.seen)[v] = { UINT32_MAX, 0 };
}

extern "C" __global__ void __launch_bounds__(RT_CUDA_BLOCK) embed_bwd_count(const rt_cuda_embed_bwd_params p)
{
    begin_kernel();
    const uint64_t i = (uint64_t)blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= p.a.N) return;
    const int32_t id = *element<int32_t>(p.ids, i, 0);
    if (id < 0 || (uint32_t)id >= p.a.V) return;
    rt_cuda_embed_seen *seen = (rt_cuda_embed_seen *)p.seen + id;
    atomicMin(&seen->first, (uint32_t)i);
    atomicAdd(&seen->count, 1u);
}

#define KERNELS(name, T)                                                                                               \
    extern "C" __global__ void __launch_bounds__(RT_CUDA_EMBED_LANES, 6)                                               \
        embed_bwd_##name(const rt_cuda_embed_bwd_params p)                                                             \
    {                                                                                                                  \
        begin_kernel();                                                                                                \
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
