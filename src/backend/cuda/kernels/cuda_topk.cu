/* cuda_topk.cu - the k most likely ids of each row with their log-probabilities, and the mass of the others.
 *
 * A block has a row, and reads it once. Each thread keeps the largest of the columns that it reads, and their mass. At
 * least k columns are no smaller than the k-th largest of what the threads keep, so the best k are among the columns of
 * the few threads that keep as much: those are read again, and what is not below that bound is ranked by counting. The
 * mass left over is added up from the columns that are not listed, not taken from 1: of most threads it is known, of
 * those few it is added up again. Sums are in an order that the row alone fixes; what atomics have gathered is ranked
 * before it is used. Where k is large, or many columns are no smaller than the bound, digits of the order decide
 * (cuda_rank.cuh). */
#include "backend/cuda/kernels/cuda_rank.cuh"
#include "backend/cuda/kernels/cuda_row.cuh"

namespace
{
enum { THREADS = RT_CUDA_TOPK_THREADS, WARPS = THREADS / 32, FAR = RT_CUDA_CHOICE_SHARED };

struct Shared {
    uint64_t near[FAR];     /* keys that are not below the bound, in any order */
    uint64_t ranked[FAR];   /* the largest first */
    uint32_t kept[THREADS]; /* threads whose columns are read again, rising */
    uint32_t count[WARPS];
    uint32_t n; /* of near */
    double room[32];
};

/* How a row is taken apart: what a thread knows of the columns that it reads. */
struct Known {
    float max;  /* -inf: no column of it counts */
    float mass; /* of 2^((x - max) c), 297 columns of 151,936 in f32 */
    float odd;  /* 0, or NaN where a column is not finite */
};

template <class T> RT_DEVICE Known read_all(const PackedRow<T> &r, float c)
{
    constexpr int W = PackedRow<T>::W;
    Known y = { __uint_as_float(0xff800000u), 0.0f, 0.0f };
    r.template each<4>(threadIdx.x, r.packs, THREADS, [&](uint32_t, float(&v)[W], uint32_t live) {
        float top = y.max, mass = 0;
        if (!live) return;
        if (live == PackedRow<T>::EVERY) {
#pragma unroll
            for (int i = 0; i < W; i++) y.odd = fmaf(v[i], 0.0f, y.odd);
        } else {
#pragma unroll
            for (int i = 0; i < W; i++) {
                if (live >> i & 1)
                    y.odd = fmaf(v[i], 0.0f, y.odd);
                else
                    v[i] = __uint_as_float(0xff800000u);
            }
        }
#pragma unroll
        for (int i = 0; i < W; i++) top = fmaxf(top, v[i]);
        if (top > y.max) {
            y.mass *= exp2_fast((y.max - top) * c);
            y.max = top;
        }
#pragma unroll
        for (int i = 0; i < W; i++) mass += exp2_fast((v[i] - top) * c);
        y.mass += mass;
    });
    return y;
}

/* The order of values by their first 16 bits: a larger value has no smaller prefix. */
RT_DEVICE uint32_t prefix_of(float x) { return (uint32_t)(rank_key(x, 0) >> 48); }

/* The largest prefix that at least k threads reach; 0 when fewer keep anything. */
RT_DEVICE uint32_t find_bound(uint32_t prefix, uint32_t k)
{
    uint32_t bound = 0;
    for (uint32_t bit = 0x8000; bit; bit >>= 1)
        if ((uint32_t)__syncthreads_count(prefix >= (bound | bit)) >= k) bound |= bit;
    return bound;
}

/* s.kept = the threads of which `mine` is true; returns how many. */
RT_DEVICE uint32_t list_threads(Shared &s, bool mine)
{
    const uint32_t lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    const uint32_t in = __ballot_sync(RT_EVERY_LANE, mine);
    if (lane == 0) s.count[warp] = (uint32_t)__popc(in);
    __syncthreads();
    uint32_t before = 0, all = 0;
    for (uint32_t w = 0; w < WARPS; w++) {
        if (w < warp) before += s.count[w];
        all += s.count[w];
    }
    if (mine) s.kept[before + (uint32_t)__popc(in & ((1u << lane) - 1))] = threadIdx.x;
    __syncthreads();
    return all;
}

/* The columns of n threads again: s.near = those that reach the bound, as far as there is room, s.n how many there are;
 * returns this thread's share of the mass of the others, relative to that of `least`. */
template <class T>
RT_DEVICE float read_again(const PackedRow<T> &r, Shared &s, uint32_t n, uint32_t bound, float least, float c)
{
    constexpr int W = PackedRow<T>::W;
    const uint32_t each = (r.packs + THREADS - 1) / THREADS;
    float mass = 0;
    for (uint32_t i = threadIdx.x; i < n * each; i += THREADS) {
        const uint32_t pack = s.kept[i / each] + i % each * THREADS, live = pack < r.packs ? r.bits(pack) : 0;
        float v[W];
        if (!live) continue;
        r.read(v, pack);
#pragma unroll
        for (int j = 0; j < W; j++) {
            if (!(live >> j & 1)) continue;
            if (prefix_of(v[j]) < bound) {
                mass += exp2_fast((v[j] - least) * c);
                continue;
            }
            const uint32_t at = atomicAdd(&s.n, 1u);
            if (at < FAR) s.near[at] = rank_key(v[j], pack * W + j);
        }
    }
    __syncthreads();
    return mass;
}

/* s.ranked = the n keys of s.near, all different. */
RT_DEVICE void rank_near(Shared &s, uint32_t n)
{
    for (uint32_t i = threadIdx.x; i < n; i += THREADS) {
        const uint64_t key = s.near[i];
        uint32_t above = 0;
        for (uint32_t j = 0; j < n; j++) above += s.near[j] > key;
        s.ranked[above] = key;
    }
    __syncthreads();
}

/* What is said of a row: the ids of y, whose keys are ranked; the mass of those beyond them, of this thread. */
RT_DEVICE void say(const rt_cuda_topk_params &p, const Chosen &y, const uint64_t *keys, double left, double *room)
{
    const uint32_t row = blockIdx.x, k = p.a.k;
    const float none = __uint_as_float(0x7fc00000u), zero = __uint_as_float(0xff800000u); /* NaN, log 0 */
    const double T1 = p.a.T, top = y.n ? rank_value(keys[0]) : 0.0;
    double listed = 0;
    for (uint32_t j = threadIdx.x; j < y.n; j += blockDim.x) listed += exp((rank_value(keys[j]) - top) / T1);
    listed = block_sum(listed, room);
    __syncthreads();
    left = block_sum(left, room);
    const double sum = listed + left, logs = log(sum);
    for (uint32_t j = threadIdx.x; j < k; j += blockDim.x) {
        const bool have = y.finite && j < y.n;
        *element<int32_t>(p.id, row, j) = have ? (int32_t)rank_id(keys[j]) : -1;
        *element<float>(p.logp, row, j) = have       ? (float)((rank_value(keys[j]) - top) / T1 - logs)
                                          : y.finite ? zero
                                                     : none;
    }
    if (threadIdx.x == 0) *element<float>(p.rest, row, 0) = !y.finite ? none : y.n ? (float)(left / sum) : 0.0f;
}

/* By digits of the order, in several walks over the row; any k. */
template <class T> RT_DEVICE void by_digits(const rt_cuda_topk_params &p, uint64_t *near, double *room)
{
    const uint32_t row = blockIdx.x;
    const Columns<T> c = { element<T>(p.x, row, 0), (const uint32_t *)p.vmask, p.a.V, nullptr, 1 };
    const Chosen y = choose(c, p.a.k);
    uint64_t *keys = p.keys ? (uint64_t *)p.keys + row * p.room : near;
    rank_chosen(c, y, keys, room_for(y.n));
    const float first = y.n ? rank_value(keys[0]) : 0.0f, inv = (float)(1 / (double)p.a.T);
    double left = 0;
    for (uint32_t v = threadIdx.x; v < p.a.V; v += blockDim.x) {
        if (!c.has(v) || rank_key(c.value(v), v) >= y.least) continue;
        left += expf((c.value(v) - first) * inv);
    }
    say(p, y, keys, left, room);
}

/* False, and nothing is written, where the few threads have more columns than there is room for. */
template <class T> RT_DEVICE bool by_bound(const rt_cuda_topk_params &p, Shared &s)
{
    const PackedRow<T> r(element<T>(p.x, blockIdx.x, 0), (const uint32_t *)p.vmask, p.a.V);
    const double T1 = p.a.T, steep = 1.44269504088896340736 / T1;
    const float c = (float)(steep < 0x1p127 ? steep : 0x1p127);
    if (threadIdx.x == 0) s.n = 0;
    const Known mine = read_all(r, c);
    if (__syncthreads_or(!(mine.odd == 0))) {
        say(p, Chosen{ 0, 0, false }, s.ranked, 0, s.room);
        return true;
    }
    const bool some = mine.mass > 0;
    const uint32_t prefix = some ? prefix_of(mine.max) : 0, bound = find_bound(prefix, p.a.k);
    const float least = rank_value((uint64_t)bound << 48);
    const bool again = some && prefix >= bound;
    const uint32_t n = list_threads(s, again);
    double left = bound ? (double)read_again(r, s, n, bound, least, c) : read_again(r, s, n, 0, 0.0f, c);
    const uint32_t near = s.n;
    if (near > FAR) return false;
    rank_near(s, near);
    const Chosen y = { 0, near < p.a.k ? near : p.a.k, true };
    const double top = y.n ? rank_value(s.ranked[0]) : 0.0;
    if (left > 0) left *= exp((least - top) / T1);
    if (some && !again) left += (double)mine.mass * exp((mine.max - top) / T1);
    for (uint32_t j = y.n + threadIdx.x; j < near; j += THREADS) left += exp((rank_value(s.ranked[j]) - top) / T1);
    say(p, y, s.ranked, left, s.room);
    return true;
}

template <class T> __device__ void topk(const rt_cuda_topk_params &p)
{
    __shared__ Shared s;
    if (p.a.k <= THREADS / 2 && by_bound<T>(p, s)) return;
    __syncthreads();
    by_digits<T>(p, s.near, s.room);
}
} // namespace

#define KERNELS(name, T)                                                                                               \
    extern "C" __global__ void __launch_bounds__(RT_CUDA_TOPK_THREADS, 2) topk_##name(const rt_cuda_topk_params p)     \
    {                                                                                                                  \
        begin_kernel();                                                                                                \
        topk<T>(p);                                                                                                    \
    }
RT_FOR_FLOATS(KERNELS)
