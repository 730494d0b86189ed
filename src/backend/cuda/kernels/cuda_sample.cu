/* cuda_sample.cu - one id per row from its logits: temperature, top-k, top-p.
 *
 * A block has a row. Shares are added up in rank order in double, in runs: each thread has a run of the ranked ids, and
 * the runs' sums are added up in order. The ranking is made only as deep as the draw needs: first the best few, then
 * all that may stay. */
#include "backend/cuda/kernels/cuda_rank.cuh"
#include "backend/cuda/kernels/cuda_rng.cuh"

namespace
{
/* 24 random bits of (seed, stream, index) as a float in [0,1), as in base/rng.h */
RT_DEVICE float random_unit(uint64_t seed, uint64_t stream, uint64_t index)
{
    return (float)(philox(seed, stream, index).v[0] >> 8) * (1.0f / 16777216.0f);
}

struct Draw {
    double before[RT_CUDA_CHOICE_THREADS]; /* of each run: the shares of all runs before it */
    double mass;                           /* of what stays */
    uint32_t last;                         /* rank that ends it */
    uint32_t at;                           /* rank that is drawn */
};

/* Ranked ids and their shares of `sum`. */
struct Ranked {
    const rt_sample_args &a;
    const uint64_t *keys;
    uint32_t n, run; /* run: ids of one thread */
    double sum;
    __device__ double weight(uint32_t j) const
    {
        return exp(((double)rank_value(keys[j]) - rank_value(keys[0])) / a.temperature);
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
        d.last = d.at = r.n;
    }
    __syncthreads();
    uint32_t prefix = r.n;
    if (r.a.top_p < 1) {
        r.find(d, r.a.top_p, true, &d.last);
        __syncthreads();
        if (d.last == r.n && !all) return -1; /* where the prefix ends is not known yet */
        prefix = d.last < r.n ? d.last + 1 : r.n;
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
    return all || r.a.top_p < 1 ? (int32_t)rank_id(r.keys[prefix - 1]) : -1;
}

template <class T> __device__ void sample(const rt_cuda_sample_params &p)
{
    enum { FIRST = 1024 };
    __shared__ uint64_t near[RT_CUDA_CHOICE_SHARED];
    __shared__ Draw d;
    __shared__ double room[32];
    const uint32_t row = blockIdx.x;
    const rt_step *step = (const rt_step *)p.step;
    const float u = random_unit(step->seed, (uint64_t)p.a.stream << 32 | step->step, row);
    const Columns<T> c = { element<T>(p.x, row, 0), nullptr, p.a.V };
    uint32_t depth = p.a.top_k == 0 && p.deepest > FIRST ? FIRST : p.deepest;
    int32_t id = -1;
    for (;;) {
        const Chosen y = choose(c, depth);
        if (!y.finite) break;
        uint64_t *keys = depth <= RT_CUDA_CHOICE_SHARED ? near : (uint64_t *)p.keys + row * p.room;
        rank_chosen(c, y, keys, room_for(y.n));
        if (p.deepest == 1) {
            id = (int32_t)rank_id(keys[0]);
            break;
        }
        Ranked r = { p.a, keys, y.n, (y.n + blockDim.x - 1) / blockDim.x, 0 };
        double sum = 0;
        if (p.deepest == p.a.V) { /* all columns, ranked or not */
            const double top = rank_value(keys[0]);
            for (uint32_t v = threadIdx.x; v < p.a.V; v += blockDim.x)
                sum += exp(((double)c.value(v) - top) / p.a.temperature);
        } else {
            for (uint32_t j = threadIdx.x; j < y.n; j += blockDim.x) sum += r.weight(j);
        }
        r.sum = block_sum(sum, room);
        __syncthreads();
        id = pick(r, u, depth == p.deepest, d);
        __syncthreads();
        if (id >= 0) break;
        depth = p.deepest;
    }
    if (threadIdx.x == 0) *element<int32_t>(p.id, row, 0) = id;
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
