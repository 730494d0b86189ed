/* cuda_draw.cu - random draws from a softmax over each row, and its entropy.
 *
 * A block has a row. Its columns are cut into parts; a warp adds up the weights of a part, and later finds the column
 * of a draw in the part that it falls on. Weights are the integers of num/draw.h, so their sums are exact in any order.
 */
#include "backend/cuda/kernels/cuda_rank.cuh"
#include "backend/cuda/kernels/cuda_rng.cuh"
#include "num/draw.h"

namespace
{
enum { WARPS = RT_CUDA_CHOICE_THREADS / 32, PARTS = RT_CUDA_DRAW_PARTS };
static_assert(PARTS == 8 * 32, "a lane of one warp adds up eight parts");
static_assert(RT_DRAW_MOST <= RT_CUDA_CHOICE_THREADS, "a thread has a draw");

struct Row {
    uint64_t upto[PARTS];             /* the weights of a part and of those before it */
    uint32_t drawn[RT_DRAW_MOST];     /* the ids, then sorted */
    uint32_t begin[RT_DRAW_MOST + 1]; /* where each distinct id begins among the sorted */
    uint32_t firsts[WARPS];
    uint32_t bad; /* the first id whose logit is not finite */
    double room[32];
    float max[32];
};

/* rt_draw_depth and rt_draw_weight */
RT_DEVICE uint64_t weigh(const rt_cuda_draw_params &p, float below, uint64_t *depth)
{
    constexpr uint32_t poly[] = { RT_DRAW_POLY };
    constexpr int terms = sizeof poly / sizeof *poly;
    /* the mantissa is the product, rounded */
    const double t = __fma_rn((double)below, p.scale, 0x1p52);
    const uint64_t k = below < p.end ? (uint64_t)__double_as_longlong(t) & 0xfffffffffffffull : (uint64_t)63 << 32;
    const uint32_t x = (uint32_t)k;
    uint32_t m = poly[terms - 1];
#pragma unroll
    for (int i = terms - 2; i >= 0; i--) m = poly[i] - __umulhi(x, m);
    *depth = k;
    return ((1ull << 32) - __umulhi(x, m)) << 11 >> (k >> 32);
}

/* In lanes' order, up to and with this one. */
RT_DEVICE uint64_t lanes_upto(uint64_t v)
{
    for (uint32_t o = 1; o < 32; o *= 2) {
        const uint64_t other = __shfl_up_sync(RT_EVERY_LANE, v, o);
        if (threadIdx.x % 32 >= o) v += other;
    }
    return v;
}

/* The largest logit; false when one is not finite, the first of those in r.bad. */
template <class T> RT_DEVICE bool find_max(const Columns<T> &c, Row &r, float *max)
{
    const float none = __uint_as_float(0xff800000u);
    float top = none;
    uint32_t bad = UINT32_MAX;
    if (threadIdx.x == 0) r.bad = UINT32_MAX;
    for (uint32_t v = threadIdx.x; v < c.V; v += blockDim.x) {
        if (!c.has(v)) continue;
        const float x = c.value(v);
        if ((__float_as_uint(x) & 0x7f800000) == 0x7f800000) bad = v < bad ? v : bad;
        top = x > top ? x : top;
    }
    *max = block_max(top, r.max, none);
    if (!__syncthreads_or(bad != UINT32_MAX)) return true;
    if (bad != UINT32_MAX) atomicMin(&r.bad, bad);
    __syncthreads();
    return false;
}

/* r.upto of all parts; the sum of weight times depth, in f32 within a part and a lane. */
template <class T> RT_DEVICE double add_up(const rt_cuda_draw_params &p, const Columns<T> &c, Row &r, float max)
{
    const uint32_t lane = threadIdx.x % 32;
    double depths = 0;
    for (uint32_t part = threadIdx.x / 32; part < PARTS; part += WARPS) {
        const uint64_t first = (uint64_t)part * p.run, end = first + p.run < c.V ? first + p.run : c.V;
        uint64_t sum = 0, depth;
        float mine = 0;
        for (uint64_t v = first + lane; v < end; v += 32) {
            if (!c.has((uint32_t)v)) continue;
            const uint64_t w = weigh(p, max - c.value((uint32_t)v), &depth);
            sum += w;
            mine += (float)w * (float)depth;
        }
        depths += (double)mine;
        sum = lanes_sum(sum);
        if (lane == 0) r.upto[part] = sum;
    }
    depths = block_sum(depths, r.room); /* and a barrier */
    if (threadIdx.x < 32) {
        uint64_t mine = 0;
        for (uint32_t i = 0; i < 8; i++) mine += r.upto[8 * lane + i];
        uint64_t before = lanes_upto(mine) - mine;
        for (uint32_t i = 0; i < 8; i++) r.upto[8 * lane + i] = before += r.upto[8 * lane + i];
    }
    __syncthreads();
    return depths;
}

/* By a warp: the first id whose weight and those before it are more than mark, which is below the sum of all. */
template <class T>
RT_DEVICE uint32_t find(const rt_cuda_draw_params &p, const Columns<T> &c, const Row &r, float max, uint64_t mark)
{
    const uint32_t lane = threadIdx.x % 32;
    uint32_t part = 0;
    for (uint32_t high = PARTS - 1; part < high;) {
        const uint32_t middle = (part + high) / 2;
        if (r.upto[middle] > mark)
            high = middle;
        else
            part = middle + 1;
    }
    uint64_t before = part ? r.upto[part - 1] : 0, depth;
    for (uint32_t first = part * p.run;; first += 32) {
        const uint32_t v = first + lane;
        uint64_t upto = v < c.V && c.has(v) ? weigh(p, max - c.value(v), &depth) : 0;
        upto = before + lanes_upto(upto);
        const uint32_t over = __ballot_sync(RT_EVERY_LANE, upto > mark);
        if (over) return first + (uint32_t)__ffs((int)over) - 1;
        before = __shfl_sync(RT_EVERY_LANE, upto, 31);
    }
}

/* r.drawn (n) rising, and what is behind it up to a power of two. */
RT_DEVICE void sort_drawn(Row &r, uint32_t n)
{
    const uint32_t room = room_for(n);
    if (threadIdx.x >= n && threadIdx.x < room) r.drawn[threadIdx.x] = UINT32_MAX;
    __syncthreads();
    for (uint32_t size = 2; size <= room; size *= 2) {
        for (uint32_t apart = size / 2; apart > 0; apart /= 2) {
            const uint32_t low = threadIdx.x / apart * 2 * apart + threadIdx.x % apart, high = low + apart;
            if (threadIdx.x < room / 2) {
                const uint32_t a = r.drawn[low], b = r.drawn[high];
                if ((a > b) == ((low & size) == 0)) r.drawn[low] = b, r.drawn[high] = a;
            }
            __syncthreads();
        }
    }
}

/* r.begin of the distinct ids, and n behind the last; returns how many. */
RT_DEVICE uint32_t find_distinct(Row &r, uint32_t n)
{
    const uint32_t j = threadIdx.x, lane = j % 32, warp = j / 32;
    const bool first = j < n && (j == 0 || r.drawn[j] != r.drawn[j - 1]);
    const uint32_t mine = __ballot_sync(RT_EVERY_LANE, first);
    if (lane == 0) r.firsts[warp] = (uint32_t)__popc(mine);
    __syncthreads();
    uint32_t before = 0, all = 0;
    for (uint32_t w = 0; w < WARPS; w++) {
        if (w < warp) before += r.firsts[w];
        all += r.firsts[w];
    }
    if (first) r.begin[before + (uint32_t)__popc(mine & ((1u << lane) - 1))] = j;
    if (j == 0) r.begin[all] = n;
    __syncthreads();
    return all;
}

template <class T> __device__ void draw(const rt_cuda_draw_params &p)
{
    __shared__ Row r;
    const uint32_t row = blockIdx.x, n = p.a.n, j = threadIdx.x;
    const float none = __uint_as_float(0x7fc00000u);
    const rt_step *step = (const rt_step *)p.step;
    const uint32_t *words = element<uint32_t>(p.key, row, 0);
    const uint64_t key = (uint64_t)words[1] << 32 | words[0];
    const Columns<T> c = { element<T>(p.x, row, 0), (const uint32_t *)p.vmask, p.a.V };
    float max, entropy = none;
    uint32_t k = 0;
    const bool finite = find_max(c, r, &max);
    if (finite) {
        const double depths = add_up(p, c, r, max);
        const uint64_t sum = r.upto[PARTS - 1];
        entropy = 0;
        if (sum) {
            for (uint32_t d = j / 32; d < n; d += WARPS) {
                const Random w = philox(step->seed, key, (uint64_t)0xffffffffu << 32 | d / 2);
                const uint64_t bits = d % 2 ? (uint64_t)w.v[3] << 32 | w.v[2] : (uint64_t)w.v[1] << 32 | w.v[0];
                const uint32_t id = find(p, c, r, max, __umul64hi(bits, sum));
                if (j % 32 == 0) r.drawn[d] = id;
            }
            sort_drawn(r, n);
            k = find_distinct(r, n);
            entropy = (float)(log((double)sum / (double)RT_DRAW_ONE) +
                              depths / (double)sum * (0.69314718055994530942 * 0x1p-32));
        }
    }
    if (j < n) {
        const bool have = j < k, bad = !finite && j == 0;
        *element<int32_t>(p.id, row, j) = have ? (int32_t)r.drawn[r.begin[j]] : bad ? (int32_t)r.bad : -1;
        *element<float>(p.logp, row, j) = have     ? (float)log((double)(r.begin[j + 1] - r.begin[j]) / n)
                                          : finite ? 0.0f
                                                   : none;
    }
    if (j == 0) *element<float>(p.entropy, row, 0) = entropy;
}
} // namespace

#define KERNELS(name, T)                                                                                               \
    extern "C" __global__ void __launch_bounds__(RT_CUDA_CHOICE_THREADS, 1) draw_##name(const rt_cuda_draw_params p)   \
    {                                                                                                                  \
        begin_kernel();                                                                                                \
        draw<T>(p);                                                                                                    \
    }
RT_FOR_FLOATS(KERNELS)
