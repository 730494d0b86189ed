/* cuda_draw.cu - random draws from a softmax over each row, and its entropy.
 *
 * A block has a row, and reads it twice: for the largest logit and the smallest, and for the weights. Its columns are
 * cut into parts; a warp adds up the weights of a part, and later finds the column of a draw in the part that it falls
 * on. Weights are the integers of num/draw.h, so their sums are exact in any order; the entropy is added up in an order
 * that the row alone fixes. */
#include "backend/cuda/kernels/cuda_range.cuh"
#include "backend/cuda/kernels/cuda_rank.cuh"
#include "backend/cuda/kernels/cuda_rng.cuh"
#include "backend/cuda/kernels/cuda_row.cuh"
#include "num/draw.h"

namespace
{
enum { THREADS = RT_CUDA_DRAW_THREADS, WARPS = THREADS / 32, PART = 256, PARTS = RT_DRAW_IDS / PART };
static_assert(PARTS % THREADS == 0, "a thread adds up a run of parts");
static_assert(RT_DRAW_MOST <= 2 * THREADS, "a thread sorts two draws");

struct Row {
    uint64_t upto[PARTS];             /* the weights of a part and of those before it */
    uint64_t mark[RT_DRAW_MOST];      /* of each draw: below the sum of all weights */
    uint32_t drawn[RT_DRAW_MOST];     /* the ids, then sorted */
    uint16_t begin[RT_DRAW_MOST + 1]; /* where each distinct id begins among the sorted */
    uint32_t firsts[WARPS];
    uint64_t sums[WARPS];
    uint32_t bad; /* the first id whose logit is not finite */
    double room[32];
    float max[32], min[32];
};

/* In lanes' order, up to and with this one. */
RT_DEVICE uint64_t lanes_upto(uint64_t v)
{
    for (uint32_t o = 1; o < 32; o *= 2) {
        const uint64_t other = __shfl_up_sync(RT_EVERY_LANE, v, o);
        if (threadIdx.x % 32 >= o) v += other;
    }
    return v;
}

/* The sum over the lanes, of numbers below 2^51. */
RT_DEVICE uint64_t lanes_total(uint64_t v)
{
    const uint32_t low = warp_add((uint32_t)v & 0xffffffu), high = warp_add((uint32_t)(v >> 24));
    return ((uint64_t)high << 24) + low;
}

/* The first id whose logit is not finite, of a row that has one. */
template <class T> RT_DEVICE void find_bad(const PackedRow<T> &w, Row &r)
{
    uint32_t bad = UINT32_MAX;
    w.template each<1>(threadIdx.x, w.packs, THREADS, [&](uint32_t pack, float(&v)[PackedRow<T>::W], uint32_t live) {
        for (int i = PackedRow<T>::W; i-- > 0;)
            if ((live >> i & 1) && (__float_as_uint(v[i]) & 0x7f800000) == 0x7f800000)
                bad = min(bad, pack * PackedRow<T>::W + i);
    });
    if (threadIdx.x == 0) r.bad = UINT32_MAX;
    __syncthreads();
    if (bad != UINT32_MAX) atomicMin(&r.bad, bad);
    __syncthreads();
}

/* The largest logit and the smallest; false when one is not finite, the first of those in r.bad. */
template <class T> RT_DEVICE bool find_range(const PackedRow<T> &w, Row &r, float *max, float *min)
{
    const Range<T> g = range_of<THREADS>(w);
    const float low = g.least(), high = g.most();
    *max = block_max(high, r.max, -infinity());
    *min = -block_max(-low, r.min, -infinity());
    if (!__syncthreads_or(!(low > high) && !(fabsf(low) < infinity() && fabsf(high) < infinity()))) return true;
    find_bad(w, r);
    return false;
}

/* r.upto = sums of all parts up to each; r.upto had those of the parts. Behind a barrier, and before one. */
RT_DEVICE void sum_up(Row &r, uint32_t parts)
{
    const uint32_t each = (parts + THREADS - 1) / THREADS, first = threadIdx.x * each;
    const uint32_t lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    uint64_t mine = 0;
    for (uint32_t i = first; i < first + each && i < parts; i++) mine += r.upto[i];
    const uint64_t upto = lanes_upto(mine);
    if (lane == 31) r.sums[warp] = upto;
    __syncthreads();
    uint64_t before = upto - mine;
    for (uint32_t w = 0; w < warp; w++) before += r.sums[w];
    for (uint32_t i = first; i < first + each && i < parts; i++) r.upto[i] = before += r.upto[i];
    __syncthreads();
}

/* `below`, at least 0, as f64. QUICK: its bits are moved, as if zero and what is subnormal were 2^-127 and more. */
template <bool QUICK> RT_DEVICE double wide(float below)
{
    const uint32_t bits = __float_as_uint(below);
    return QUICK ? __hiloint2double((int)((bits >> 3) + 0x38000000u), (int)(bits << 29)) : (double)below;
}

/* The largest logit of a row, and whether no other is so far below it that its depth passes 2^49. */
struct Top {
    float max;
    bool quick;
};

/* The weights of the columns of a pack that count, by rt_draw_depth and rt_draw_weight; returns their sum. depths: +=
 * 2^-d d of each, d its depth. QUICK: every column counts, and top.quick. From p.end on a weight is 0, and what follows
 * of it is nothing. */
template <bool QUICK, int W>
RT_DEVICE uint64_t weigh_columns(const rt_cuda_draw_params &p, Top top, const float (&v)[W], uint32_t live,
                                 uint64_t (&w)[W], float *depths)
{
    constexpr uint32_t poly[] = { RT_DRAW_POLY };
    constexpr int terms = sizeof poly / sizeof *poly;
    uint32_t x[W], m[W], down[W];
    uint64_t sum = 0;
    float part = 0;
#pragma unroll
    for (int i = 0; i < W; i++) {
        const bool in = QUICK || ((live >> i & 1) && top.max - v[i] < p.end);
        const float below = in ? top.max - v[i] : 0.0f, d = below * p.steep;
        /* the mantissa is 2^51 less the depth, which is rounded so */
        const double t = __fma_rn(-wide<QUICK>(below), p.scale, 0x1.8p52);
        x[i] = (uint32_t)__double2loint(t);
        down[i] = in ? 0x43380014u - (uint32_t)__double2hiint(t) : 64;
        m[i] = poly[terms - 1];
        part = fmaf(in ? exp2_fast(-d) : 0.0f, d, part);
    }
#pragma unroll
    for (int k = terms - 2; k >= -1; k--)
#pragma unroll
        for (int i = 0; i < W; i++) m[i] = (k < 0 ? 0x80000000u : poly[k < 0 ? 0 : k]) + __umulhi(x[i], m[i]);
#pragma unroll
    for (int i = 0; i < W; i++) {
        asm("shr.u64 %0, %1, %2;" : "=l"(w[i]) : "l"((uint64_t)m[i] << 32), "r"(down[i])); /* 64 and more: 0 */
        sum += w[i];
    }
    *depths += part;
    return sum;
}
template <int W>
RT_DEVICE uint64_t weigh_pack(const rt_cuda_draw_params &p, Top top, const float (&v)[W], uint32_t live,
                              uint64_t (&w)[W], float *depths)
{
    if (live == (1u << W) - 1u && top.quick) return weigh_columns<true>(p, top, v, live, w, depths);
    return weigh_columns<false>(p, top, v, live, w, depths);
}

/* By a warp: r.upto of a part; returns the sum of 2^-depth times depth in this lane. */
RT_DEVICE float keep_part(Row &r, uint32_t part, uint64_t sum, float depths)
{
    sum = lanes_total(sum);
    if (threadIdx.x % 32 == 0) r.upto[part] = sum;
    return depths;
}

template <int U, class T> RT_DEVICE void read_part(Raw<16> (&raw)[U], const T *at)
{
#pragma unroll
    for (int u = 0; u < U; u++) raw[u] = load_raw<16>(at + u * 32 * PackedRow<T>::W);
}

/* The parts that are read in whole packs, each while the one before is weighed; returns how many they are. */
template <class T>
RT_DEVICE uint32_t add_whole(const rt_cuda_draw_params &p, const PackedRow<T> &row, Row &r, Top top, double *depths)
{
    constexpr int W = PackedRow<T>::W, U = PART / 32 / W;
    const uint32_t parts = row.whole / (U * 32), lane = threadIdx.x % 32;
    const T *at = row.x + (threadIdx.x / 32 * PART + lane * W);
    Raw<16> next[U];
    if (threadIdx.x / 32 < parts) read_part(next, at);
    for (uint32_t part = threadIdx.x / 32; part < parts; part += WARPS) {
        uint64_t sum = 0;
        float mine = 0;
        Raw<16> raw[U];
#pragma unroll
        for (int u = 0; u < U; u++) raw[u] = next[u];
        at += WARPS * PART;
        if (part + WARPS < parts) read_part(next, at);
#pragma unroll
        for (int u = 0; u < U; u++) {
            const uint32_t live = row.vmask ? row.bits((part * U + u) * 32 + lane) : row.EVERY;
            float v[W];
            uint64_t w[W];
            unpack<T, W>(v, raw[u]);
            sum += weigh_pack(p, top, v, live, w, &mine);
        }
        *depths += (double)keep_part(r, part, sum, mine);
    }
    return parts;
}

/* r.upto of all parts; the sum of 2^-depth times depth, in f32 within a part and a lane. */
template <class T>
RT_DEVICE double add_up(const rt_cuda_draw_params &p, const PackedRow<T> &row, Row &r, Top top, uint32_t parts)
{
    constexpr int W = PackedRow<T>::W, LANES = PART / W; /* packs of a part */
    double depths = 0;
    uint32_t part = add_whole(p, row, r, top, &depths);
    for (part += threadIdx.x / 32; part < parts; part += WARPS) {
        uint64_t sum = 0;
        float mine = 0;
        row.template each<1>(part * LANES + threadIdx.x % 32, (part + 1) * LANES, 32,
                             [&](uint32_t, float(&v)[W], uint32_t live) {
                                 uint64_t w[W];
                                 sum += weigh_pack(p, top, v, live, w, &mine);
                             });
        depths += (double)keep_part(r, part, sum, mine);
    }
    depths = block_sum(depths, r.room); /* and a barrier */
    sum_up(r, parts);
    return depths;
}

/* By a warp: the first id whose weight and those before it are more than mark, which is below the sum of all. */
template <class T>
RT_DEVICE uint32_t find(const rt_cuda_draw_params &p, const PackedRow<T> &row, const Row &r, Top top, uint32_t parts,
                        uint64_t mark)
{
    constexpr int W = PackedRow<T>::W, LANES = PART / W;
    const uint32_t lane = threadIdx.x % 32;
    uint32_t part = 0;
    for (uint32_t high = parts - 1; part < high;) {
        const uint32_t middle = (part + high) / 2;
        if (r.upto[middle] > mark)
            high = middle;
        else
            part = middle + 1;
    }
    uint64_t before = part ? r.upto[part - 1] : 0;
    for (uint32_t first = part * LANES;; first += 32) {
        const uint32_t pack = first + lane, live = pack < row.packs ? row.bits(pack) : 0;
        float v[W] = {}, depths = 0;
        uint64_t w[W], own = 0;
        if (live) row.read(v, pack);
        own = weigh_pack(p, top, v, live, w, &depths);
        uint64_t upto = before + lanes_upto(own);
        const uint32_t over = __ballot_sync(RT_EVERY_LANE, upto > mark);
        before = __shfl_sync(RT_EVERY_LANE, upto, 31);
        if (!over) continue;
        uint32_t at = W; /* how many of this lane's columns are not before the one that is looked for */
#pragma unroll
        for (int i = W - 1; i >= 0; i--)
            if (upto > mark) upto -= w[i], at = i;
        return __shfl_sync(RT_EVERY_LANE, pack * W + at, __ffs((int)over) - 1);
    }
}

/* r.drawn (n) rising, and what is behind it up to a power of two. */
RT_DEVICE void sort_drawn(Row &r, uint32_t n)
{
    const uint32_t room = room_for(n);
    for (uint32_t j = n + threadIdx.x; j < room; j += THREADS) r.drawn[j] = UINT32_MAX;
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
    const uint32_t lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    uint32_t all = 0;
    for (uint32_t from = 0; from < n; from += THREADS) {
        const uint32_t j = from + threadIdx.x;
        const bool first = j < n && (j == 0 || r.drawn[j] != r.drawn[j - 1]);
        const uint32_t mine = __ballot_sync(RT_EVERY_LANE, first);
        if (lane == 0) r.firsts[warp] = (uint32_t)__popc(mine);
        __syncthreads();
        uint32_t before = all;
        for (uint32_t w = 0; w < WARPS; w++) {
            if (w < warp) before += r.firsts[w];
            all += r.firsts[w];
        }
        if (first) r.begin[before + (uint32_t)__popc(mine & ((1u << lane) - 1))] = (uint16_t)j;
        __syncthreads();
    }
    if (threadIdx.x == 0) r.begin[all] = (uint16_t)n;
    __syncthreads();
    return all;
}

template <class T> __device__ void draw(const rt_cuda_draw_params &p)
{
    __shared__ Row r;
    const uint32_t row = blockIdx.x, n = p.a.n, parts = (p.a.V + PART - 1) / PART;
    const float none = __uint_as_float(0x7fc00000u);
    const rt_step *step = (const rt_step *)p.step;
    const uint32_t *words = element<uint32_t>(p.key, row, 0);
    const uint64_t key = (uint64_t)words[1] << 32 | words[0];
    const PackedRow<T> x(element<T>(p.x, row, 0), (const uint32_t *)p.vmask, p.a.V);
    float max, min, entropy = none;
    uint32_t k = 0;
    const bool finite = find_range(x, r, &max, &min);
    const Top top = { max, max - min < p.reach };
    if (finite) {
        const double depths = add_up(p, x, r, top, parts);
        const uint64_t sum = r.upto[parts - 1];
        entropy = 0;
        if (sum) {
            for (uint32_t d = threadIdx.x; d < n; d += THREADS) {
                const Random w = philox(step->seed, key, (uint64_t)0xffffffffu << 32 | d / 2);
                const uint64_t bits = d % 2 ? (uint64_t)w.v[3] << 32 | w.v[2] : (uint64_t)w.v[1] << 32 | w.v[0];
                r.mark[d] = __umul64hi(bits, sum);
            }
            __syncthreads();
            for (uint32_t d = threadIdx.x / 32; d < n; d += WARPS) {
                const uint32_t id = find(p, x, r, top, parts, r.mark[d]);
                if (threadIdx.x % 32 == 0) r.drawn[d] = id;
            }
            sort_drawn(r, n);
            k = find_distinct(r, n);
            const double all = (double)sum / (double)RT_DRAW_ONE;
            entropy = (float)(log(all) + depths / all * 0.69314718055994530942);
        }
    }
    for (uint32_t j = threadIdx.x; j < n; j += THREADS) {
        const bool have = j < k, bad = !finite && j == 0;
        *element<int32_t>(p.id, row, j) = have ? (int32_t)r.drawn[r.begin[j]] : bad ? (int32_t)r.bad : -1;
        *element<float>(p.logp, row, j) = have     ? (float)log((double)(r.begin[j + 1] - r.begin[j]) / n)
                                          : finite ? 0.0f
                                                   : none;
    }
    if (threadIdx.x == 0) *element<float>(p.entropy, row, 0) = entropy;
}
} // namespace

#define KERNELS(name, T)                                                                                               \
    extern "C" __global__ void __launch_bounds__(RT_CUDA_DRAW_THREADS, 2) draw_##name(const rt_cuda_draw_params p)     \
    {                                                                                                                  \
        begin_kernel();                                                                                                \
        draw<T>(p);                                                                                                    \
    }
RT_FOR_FLOATS(KERNELS)
