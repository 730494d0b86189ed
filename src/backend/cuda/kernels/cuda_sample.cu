/* cuda_sample.cu - one id per row from its logits: penalty, top-k, temperature, top-p, min-p.
 *
 * A block has a row. Shares are added up in rank order in double, in runs: each thread has a run of the ranked ids, and
 * the runs' sums are added up in order. The ranking is made only as deep as the draw needs: first the best few, then
 * all that may stay; none at temperature 0, where one pass finds the best and the log-probability. */
#include "backend/cuda/kernels/cuda_rank.cuh"
#include "backend/cuda/kernels/cuda_rng.cuh"

namespace
{
/* 24 random bits of (seed, stream, index) as a float in [0,1), as in base/rng.h */
RT_DEVICE float random_unit(uint64_t seed, uint64_t stream, uint64_t index)
{
    return (float)(philox(seed, stream, index).v[0] >> 8) * (1.0f / 16777216.0f);
}

/* rt_sample_most of op/args.h, which host code has */
RT_DEVICE uint32_t h_most(float top_k, uint32_t V) { return top_k >= 1 && top_k < (float)V ? (uint32_t)top_k : V; }

struct Draw {
    double before[RT_CUDA_CHOICE_THREADS]; /* of each run: the shares of all runs before it */
    double mass;                           /* of what stays */
    uint32_t last;                         /* rank that ends it by top_p */
    uint32_t cut;                          /* the first rank below min_p */
    uint32_t at;                           /* rank that is drawn */
};

/* How a row chooses. */
struct How {
    double T, top_p, min_p;
    uint32_t deepest; /* ids that may stay */
};

/* Ranked ids and their shares of `sum`. */
struct Ranked {
    const How &a;
    const uint64_t *keys;
    uint32_t n, run; /* run: ids of one thread */
    double sum;
    __device__ double weight(uint32_t j) const
    {
        return exp(((double)rank_value(keys[j]) - rank_value(keys[0])) / a.T);
    }
    __device__ uint32_t begin() const { return threadIdx.x * run < n ? threadIdx.x * run : n; }
    __device__ uint32_t end() const { return begin() + run < n ? begin() + run : n; }

    /* The first rank whose cumulative share is above (or at, if `reach`) limit; n when there is none. */
    __device__ void find(const Draw &d, double limit, bool reach, uint32_t *out) const
    {
        double below = d.before[threadIdx.x];
        for (uint32_t j = begin(); j < end(); j++) {
            below += weight(j) / sum;
            if (!(reach ? below >= limit : below > limit)) continue;
            atomicMin(out, j);
            return;
        }
    }
};

/* The id that u picks among the ranked ones; -1 when it lies below them. all: no id that may stay is missing. */
RT_DEVICE int32_t pick(const Ranked &r, float u, bool all, Draw &d)
{
    double mine = 0;
    for (uint32_t j = r.begin(); j < r.end(); j++) mine += r.weight(j) / r.sum;
    d.before[threadIdx.x] = mine;
    __syncthreads();
    if (threadIdx.x == 0) {
        double before = 0;
        for (uint32_t i = 0; i < blockDim.x; i++) {
            const double run = d.before[i];
            d.before[i] = before;
            before += run;
        }
        d.mass = before;
        d.last = d.cut = d.at = r.n;
    }
    __syncthreads();
    if (r.a.top_p < 1) r.find(d, r.a.top_p, true, &d.last);
    for (uint32_t j = r.begin(); r.a.min_p > 0 && j < r.end(); j++) {
        if (j == 0 || r.weight(j) >= r.a.min_p) continue;
        atomicMin(&d.cut, j);
        break;
    }
    __syncthreads();
    const uint32_t last = d.last, cut = d.cut;
    const bool limits = r.a.top_p < 1 || r.a.min_p > 0, ended = all || last < r.n || cut < r.n;
    if (limits && !ended) return -1; /* where the prefix ends is not known yet */
    const uint32_t prefix = min(last < r.n ? last + 1 : r.n, cut);
    if (limits) {
        if (r.begin() < prefix && prefix <= r.end()) {
            double below = d.before[threadIdx.x];
            for (uint32_t j = r.begin(); j < prefix; j++) below += r.weight(j) / r.sum;
            d.mass = below;
        }
    } else if (!all && threadIdx.x == 0) {
        d.mass = 1;
    }
    __syncthreads();
    r.find(d, (double)u * d.mass, false, &d.at);
    __syncthreads();
    if (d.at < prefix) return (int32_t)rank_id(r.keys[d.at]);
    return ended ? (int32_t)rank_id(r.keys[prefix - 1]) : -1;
}

/* What one pass over a row says of it: the best column, as it came and penalised; and log sum of exp. */
struct Scan {
    uint64_t best; /* rank_key of the best penalised value */
    float top;     /* the largest as it came */
    double sum;    /* of exp(x - top) */
    bool finite;
};

/* Of a thread: its best column, and a sum whose maximum may still rise. */
struct Seen {
    float best, top, sum;
    uint32_t id;
    int odd;
};

template <class T, int W> RT_DEVICE void see(Seen &y, const Columns<T> &c, const float (&x)[W], uint32_t v)
{
    const float log2e = 1.44269504f;
    float top = y.top;
#pragma unroll
    for (int i = 0; i < W; i++) {
        const float a = c.penalised(x[i], v + i);
        y.odd |= (__float_as_uint(x[i]) & 0x7f800000) == 0x7f800000;
        y.id = a > y.best ? v + i : y.id;
        y.best = a > y.best ? a : y.best;
        top = fmaxf(top, x[i]);
    }
    if (top > y.top) {
        y.sum = y.sum > 0 ? y.sum * exp2_fast((y.top - top) * log2e) : 0;
        y.top = top;
    }
#pragma unroll
    for (int i = 0; i < W; i++) y.sum += exp2_fast((x[i] - top) * log2e);
}

/* log softmax of the row as it came, at id */
template <class T> __device__ float log_share(const Columns<T> &c, int32_t id, const Scan &all)
{
    return (float)((double)to_float(c.x[id]) - all.top - log(all.sum));
}

/* room (32): shared, of doubles. All threads get the answer. */
template <class T> __device__ Scan scan_row(const Columns<T> &c, double *room)
{
    enum { W = 16 / sizeof(T) };
    Seen y = { -INFINITY, -INFINITY, 0, 0, 0 };
    if ((uint64_t)c.x % 16 == 0) {
        const uint32_t packs = c.V / W;
#pragma unroll 2
        for (uint32_t i = threadIdx.x; i < packs; i += blockDim.x) {
            float x[W];
            load(x, c.x + i * W, Whole());
            see<T, W>(y, c, x, i * W);
        }
        for (uint32_t v = packs * W + threadIdx.x; v < c.V; v += blockDim.x) {
            const float x[1] = { to_float(c.x[v]) };
            see<T, 1>(y, c, x, v);
        }
    } else {
        for (uint32_t v = threadIdx.x; v < c.V; v += blockDim.x) {
            const float x[1] = { to_float(c.x[v]) };
            see<T, 1>(y, c, x, v);
        }
    }
    Scan all;
    all.finite = !__syncthreads_or(y.odd);
    all.best = block_max(y.best == -INFINITY ? 0 : rank_key(y.best, y.id), (uint64_t *)room, (uint64_t)0);
    __syncthreads();
    all.top = (float)block_max((double)y.top, room, (double)-INFINITY);
    __syncthreads();
    all.sum = block_sum(y.sum > 0 ? (double)y.sum * exp((double)y.top - all.top) : 0.0, room);
    __syncthreads();
    return all;
}

template <class T> __device__ void sample(const rt_cuda_sample_params &p)
{
    enum { FIRST = 1024 };
    __shared__ uint64_t near[RT_CUDA_CHOICE_SHARED];
    __shared__ Draw d;
    __shared__ double room[32];
    const uint32_t row = blockIdx.x, V = p.a.V;
    const float *how = element<float>(p.how, row, 0), penalty = how[RT_HOW_PENALTY];
    const uint32_t *key = element<uint32_t>(p.key, row, 0);
    uint32_t *seen = p.seen.at ? element<uint32_t>(p.seen, row, 0) : nullptr;
    const float u = random_unit(0, rt_sample_stream, (uint64_t)key[1] << 32 | key[0]);
    const How h = { how[RT_HOW_TEMPERATURE], how[RT_HOW_TOP_P], how[RT_HOW_MIN_P], h_most(how[RT_HOW_TOP_K], V) };
    const bool greedy = h.T <= 0;
    const Columns<T> c = { element<T>(p.x, row, 0), nullptr, V, penalty != 1 ? seen : nullptr, penalty };
    uint32_t depth = h.deepest == V && V > FIRST ? FIRST : h.deepest;
    const Scan all = scan_row(c, room);
    int32_t id = greedy && all.finite ? (int32_t)rank_id(all.best) : -1;
    while (!greedy && all.finite) {
        const Chosen y = choose(c, depth);
        uint64_t *keys = depth <= RT_CUDA_CHOICE_SHARED ? near : (uint64_t *)p.keys + row * p.room;
        rank_chosen(c, y, keys, room_for(y.n));
        Ranked r = { h, keys, y.n, (y.n + blockDim.x - 1) / blockDim.x, 0 };
        double sum = 0;
        if (h.deepest == V) { /* all columns, ranked or not */
            const double top = rank_value(keys[0]);
            for (uint32_t v = threadIdx.x; v < V; v += blockDim.x) sum += exp(((double)c.value(v) - top) / h.T);
        } else {
            for (uint32_t j = threadIdx.x; j < y.n; j += blockDim.x) sum += r.weight(j);
        }
        r.sum = block_sum(sum, room);
        __syncthreads();
        id = pick(r, u, depth == h.deepest, d);
        __syncthreads();
        if (id >= 0) break;
        depth = h.deepest;
    }
    if (threadIdx.x != 0) return;
    *element<int32_t>(p.id, row, 0) = id;
    if (p.logp.at) *element<float>(p.logp, row, 0) = id < 0 ? __uint_as_float(0x7fc00000u) : log_share(c, id, all);
    if (seen && id >= 0) seen[id / 32] |= 1u << id % 32;
}
} // namespace

#define KERNELS(name, T)                                                                                               \
    extern "C" __global__ void __launch_bounds__(RT_CUDA_CHOICE_THREADS, 1)                                            \
        sample_##name(const rt_cuda_sample_params p)                                                                   \
    {                                                                                                                  \
        begin_kernel();                                                                                                \
        sample<T>(p);                                                                                                  \
    }
RT_FOR_FLOATS(KERNELS)
