/* cuda_kd_careful.cu - kd_loss after the fast walk: figures of every position, the rows that it left, in double, and
 * the sums over all rows.
 *
 * A block has the figures of RT_CUDA_KD_BATCH rows to make. A row is marked when a number is not finite or when its
 * logits are so far apart that f32 sums say nothing; it is done as backend/ref does it: maxima, sums of exponentials,
 * terms of D, gradient, each in a walk of its own. */
#include "backend/cuda/kernels/cuda_kd_terms.cuh"

namespace
{
struct Room {
    double d[32];
    uint64_t u[32];
};

/* One after the other over the same room. */
RT_DEVICE double all_sum(double v, Room *room)
{
    v = block_sum(v, room->d);
    __syncthreads();
    return v;
}
RT_DEVICE double all_max(double v, Room *room)
{
    v = block_max(v, room->d, -(double)RT_INFINITY);
    __syncthreads();
    return v;
}
RT_DEVICE uint64_t all_best(uint64_t v, Room *room)
{
    v = block_max(v, room->u, (uint64_t)0);
    __syncthreads();
    return v;
}

template <class T> struct Careful {
    const rt_cuda_kd_params &p;
    uint32_t row, target;
    const uint8_t *bits; /* Vc without the listed ids */
    const T *s;          /* (V) */
    const char *t;       /* (U) */
    Room *room;
    bool twice;
    /* maxima, logarithms of sums relative to them: student at T 1; student and teacher over what bits says */
    double m1, ms, mt, l1, ls, lt;
    double div, total;
    double lk;         /* top-k: log of the sum over all of Vc, relative to ms or to the list's largest */
    double top, slope; /* top-k: that reference; gradient of the remaining ids together */
    bool sound, some;  /* some: bits has a column */

    __device__ bool in(uint32_t v) const { return bits[v / 8] >> v % 8 & 1; }
    __device__ double student(uint32_t v) const { return to_float(s[v]); }
    __device__ double teacher(uint32_t v) const { return load_one(t, p.t_dtype, v); }
    __device__ double lq_of(double x) const { return (x - ms) / p.a.T - ls; }
    __device__ double lp_of(double x) const { return (x - mt) / p.a.T - lt; }

    __device__ uint32_t read_maxima()
    {
        double a = -(double)RT_INFINITY, b = a, c = a;
        uint64_t mine = 0, theirs = 0;
        bool fine = true, any = false;
        for (uint32_t v = threadIdx.x; v < p.a.V; v += blockDim.x) {
            const double x = student(v);
            fine = fine && isfinite(x);
            a = x > a ? x : a;
            if (!in(v)) continue;
            any = true;
            b = x > b ? x : b;
            const uint64_t rank = kd_rank((float)x, v);
            mine = rank > mine ? rank : mine;
            if (!p.a.U) continue;
            const double y = teacher(v);
            fine = fine && isfinite(y);
            c = y > c ? y : c;
            const uint64_t other = kd_rank((float)y, v);
            theirs = other > theirs ? other : theirs;
        }
        m1 = all_max(a, room), ms = all_max(b, room), mt = all_max(c, room);
        if (p.a.k) {
            theirs = kd_best_listed(p, row);
            for (uint32_t j = threadIdx.x; j < p.a.k; j += blockDim.x) {
                if (!kd_counts(p, row, j, twice)) continue;
                const uint64_t rank = kd_rank(listed(j), (uint32_t)*element<int32_t>(p.id, row, j));
                mine = rank > mine ? rank : mine;
            }
        }
        mine = all_best(mine, room), theirs = all_best(theirs, room);
        sound = !__syncthreads_or(!fine) && sound;
        some = __syncthreads_or(any);
        return (p.a.U || p.a.k) && mine && (uint32_t)mine == (uint32_t)theirs;
    }
    __device__ void read_sums()
    {
        double a = 0, b = 0, c = 0;
        for (uint32_t v = threadIdx.x; v < p.a.V; v += blockDim.x) {
            const double x = student(v);
            a += exp(x - m1);
            if (!in(v)) continue;
            b += exp((x - ms) / p.a.T);
            if (p.a.U) c += exp((teacher(v) - mt) / p.a.T);
        }
        l1 = log(all_sum(a, room)), ls = log(all_sum(b, room)), lt = log(all_sum(c, room));
    }
    __device__ void read_terms()
    {
        double d = 0, g, all = 0;
        for (uint32_t v = threadIdx.x; v < p.a.V; v += blockDim.x) {
            if (!in(v)) continue;
            d += kd_term(p.kind, p.a.mix, lp_of(teacher(v)), lq_of(student(v)), g);
            all += g;
        }
        div = all_sum(d, room), total = all_sum(all, room);
    }

    __device__ float listed(uint32_t j) const { return ((const float *)p.listed)[(uint64_t)row * p.a.k + j]; }
    __device__ double listed_lq(uint32_t j) const { return ((double)listed(j) - top) / p.a.T - lk; }
    __device__ void read_list()
    {
        double m = some ? ms : -(double)RT_INFINITY, sum = 0, d = 0, all = 0, g;
        bool fine = true;
        for (uint32_t j = threadIdx.x; j < p.a.k; j += blockDim.x) {
            if (!kd_counts(p, row, j, twice)) continue;
            m = listed(j) > m ? listed(j) : m;
            fine = fine && isfinite(*element<float>(p.logp, row, j));
        }
        top = all_max(m, room);
        for (uint32_t j = threadIdx.x; j < p.a.k; j += blockDim.x)
            if (kd_counts(p, row, j, twice)) sum += exp(((double)listed(j) - top) / p.a.T);
        sum = all_sum(sum, room);
        const double rest_log = (ms - top) / p.a.T + ls, rest = *element<float>(p.rest, row, 0);
        if (some) sum += exp(rest_log);
        lk = log(sum);
        for (uint32_t j = threadIdx.x; j < p.a.k; j += blockDim.x) {
            if (!kd_counts(p, row, j, twice)) continue;
            d += kd_term(p.kind, p.a.mix, *element<float>(p.logp, row, j), listed_lq(j), g);
            all += g;
        }
        div = all_sum(d, room), total = all_sum(all, room);
        sound = !__syncthreads_or(!fine) && sound && isfinite(rest);
        slope = 0;
        if (!some) return; /* a mass of nothing is only rounding */
        div += kd_term(p.kind, p.a.mix, rest <= 0 ? -(double)RT_INFINITY : log(rest), rest_log - lk, g);
        total += g;
        slope = g - exp(rest_log - lk) * total;
    }

    __device__ void write(double tokens)
    {
        const double kd = p.a.kd_weight * (p.a.t2 ? (double)p.a.T * p.a.T : 1.0) / p.a.T;
        T *to = element<T>(p.logits, row, 0);
        double g;
        for (uint32_t v = threadIdx.x; v < p.a.V; v += blockDim.x) {
            const double x = student(v);
            double y = p.a.ce_weight * (exp(x - m1 - l1) - (v == target));
            if (p.a.U && in(v)) {
                const double lq = lq_of(x);
                kd_term(p.kind, p.a.mix, lp_of(teacher(v)), lq, g);
                y += kd * (g - exp(lq) * total);
            } else if (p.a.k && in(v)) {
                y += kd * exp(lq_of(x)) * slope;
            }
            narrow(to + v, (float)(y / tokens));
        }
        __syncthreads();
        for (uint32_t j = threadIdx.x; j < p.a.k; j += blockDim.x) {
            if (!kd_counts(p, row, j, twice)) continue;
            const uint32_t v = (uint32_t)*element<int32_t>(p.id, row, j);
            const double lq = listed_lq(j);
            kd_term(p.kind, p.a.mix, *element<float>(p.logp, row, j), lq, g);
            const double y = p.a.ce_weight * (exp(listed(j) - m1 - l1) - (v == target));
            narrow(to + v, (float)((y + kd * (g - exp(lq) * total)) / tokens));
        }
    }
};

/* Of one position. */
struct Figures {
    double ce, div;
    uint32_t top1, trained, bad;
};

RT_DEVICE bool is_sound(const rt_cuda_kd_params &p, double ce, double div, double tokens)
{
    const double weight = p.a.kd_weight * (p.a.t2 ? (double)p.a.T * p.a.T : 1.0);
    return isfinite((float)((p.a.ce_weight * ce + weight * div) / tokens));
}

RT_DEVICE uint64_t best_of(const rt_cuda_kd_params &p, const uint64_t *rank)
{
    uint64_t best = 0;
    for (uint32_t i = 0; i < p.blocks; i++) best = rank[i] > best ? rank[i] : best;
    return best;
}

/* From what the fast walk left. */
RT_DEVICE Figures figures_of(const rt_cuda_kd_params &p, uint32_t row, double tokens)
{
    const rt_cuda_kd_result &x = ((const rt_cuda_kd_result *)p.result)[row];
    const float log2e = 0x1.715476p+0f; /* as the walk has it */
    Figures f = { 0, 0, 0, x.trained, 0 };
    if (!x.trained || x.redo) return f;
    const bool known = (uint32_t)*element<int32_t>(p.target, row, 0) < p.a.V;
    const double s = known ? x.s : __uint_as_float(0x7fc00000u);
    const uint64_t mine = best_of(p, x.rank_s), theirs = best_of(p, x.rank_t);
    f.ce = (x.k1 + log2(x.z1) - s * log2e) * RT_LN2;
    f.div = x.d;
    if (x.some && p.form == RT_CUDA_KD_FORWARD) f.div = (x.d / x.zt + log2(x.zs) - log2(x.zt)) * RT_LN2;
    if (x.some && p.form == RT_CUDA_KD_REVERSE) f.div = (x.d / x.zs + log2(x.zt) - log2(x.zs)) * RT_LN2;
    f.top1 = mine && (uint32_t)mine == (uint32_t)theirs;
    f.bad = x.bad || !is_sound(p, f.ce, f.div, tokens);
    return f;
}

template <class T> __device__ Figures careful(const rt_cuda_kd_params &p, uint32_t row, double tokens, Room *room)
{
    const uint32_t packs = (p.a.V - 1) / 8 + 1;
    uint8_t *bits = shared_bytes();
    bool twice = false, unknown = false;
    kd_fill_bits(p, bits, 0, packs);
    __syncthreads();
    if (p.a.k) kd_clear_listed<T>(p, row, bits, 0, packs, twice, unknown);
    Careful<T> c = { p, row, (uint32_t)*element<int32_t>(p.target, row, 0), bits, element<T>(p.logits, row, 0) };
    c.t = p.teacher.at + (uint64_t)row * p.teacher.stride * (p.t_dtype == RT_DTYPE_F32 ? 4 : 2);
    c.room = room;
    c.twice = __syncthreads_or(twice);
    c.sound = !__syncthreads_or(unknown) && !c.twice;
    const uint32_t top1 = c.read_maxima();
    c.read_sums();
    c.div = c.total = 0;
    if (p.a.U && c.some) c.read_terms();
    if (p.a.k) c.read_list();
    const double s = c.target < p.a.V ? c.student(c.target) : (double)__uint_as_float(0x7fc00000u);
    const double ce = c.l1 - (s - c.m1);
    __syncthreads(); /* the target's logit was read by everyone */
    if (p.a.grad) c.write(tokens);
    __syncthreads(); /* the bits are done with */
    return { ce, c.div, top1, 1, !(c.sound && is_sound(p, ce, c.div, tokens)) };
}

/* The figures of a batch of rows, one for each lane of the first warp, and their sums. */
template <class T> __device__ void figures(const rt_cuda_kd_params &p)
{
    __shared__ Room room;
    __shared__ uint32_t marked;
    const uint32_t lane = threadIdx.x, row = blockIdx.x * RT_CUDA_KD_BATCH + lane;
    const bool mine = lane < RT_CUDA_KD_BATCH && row < p.a.N;
    const double tokens = ((const rt_step *)p.step)->tokens;
    Figures f = {};
    if (lane < RT_CUDA_KD_BATCH) {
        if (mine) f = figures_of(p, row, tokens);
        const uint32_t redo = __ballot_sync(RT_EVERY_LANE, mine && ((const rt_cuda_kd_result *)p.result)[row].redo);
        if (lane == 0) marked = redo;
    }
    __syncthreads();
    for (uint32_t left = marked; left; left &= left - 1) {
        const uint32_t i = __ffs((int)left) - 1;
        const Figures g = careful<T>(p, blockIdx.x * RT_CUDA_KD_BATCH + i, tokens, &room);
        if (lane == i) f = g;
    }
    if (lane >= RT_CUDA_KD_BATCH) return;
    if (mine && p.ce.at) *element<float>(p.ce, row, 0) = (float)f.ce;
    if (mine && p.div.at) *element<float>(p.div, row, 0) = (float)f.div;
    if (mine && p.top1.at) *element<float>(p.top1, row, 0) = (float)f.top1;
    const rt_cuda_kd_part part = { { lanes_sum(f.ce), lanes_sum(f.div), lanes_sum((double)f.top1),
                                     lanes_sum((double)f.trained) },
                                   lanes_max(f.bad ? UINT64_MAX - row : (uint64_t)0) };
    if (lane == 0) ((rt_cuda_kd_part *)p.part)[blockIdx.x] = part;
}
static_assert(RT_CUDA_KD_BATCH == 32, "a lane for each row of a batch");
} // namespace

#define KERNELS(name, T)                                                                                               \
    extern "C" __global__ void __launch_bounds__(RT_CUDA_KD_THREADS) kd_figures_##name(const rt_cuda_kd_params p)      \
    {                                                                                                                  \
        begin_kernel();                                                                                                \
        next_may_begin();                                                                                              \
        figures<T>(p);                                                                                                 \
    }
RT_FOR_FLOATS(KERNELS)

/* Ahead of the fast walk: no row was drawn yet. */
extern "C" __global__ void kd_begin(const rt_cuda_kd_params p)
{
    begin_kernel();
    if (threadIdx.x == 0) *(uint32_t *)p.drawn = 0;
}

/* The sums of all positions (in double, in an order that N fixes, rounded once), the lowest bad one. */
extern "C" __global__ void __launch_bounds__(RT_CUDA_BLOCK) kd_finish(const rt_cuda_kd_params p)
{
    begin_kernel();
    __shared__ Room room;
    const uint32_t parts = (p.a.N - 1) / RT_CUDA_KD_BATCH + 1;
    double sum[4] = { 0, 0, 0, 0 };
    uint64_t bad = 0;
    for (uint32_t i = threadIdx.x; i < parts; i += blockDim.x) {
        const rt_cuda_kd_part &x = ((const rt_cuda_kd_part *)p.part)[i];
#pragma unroll
        for (int j = 0; j < 4; j++) sum[j] += x.sum[j];
        bad = x.bad > bad ? x.bad : bad; /* the largest is of the first */
    }
#pragma unroll
    for (int i = 0; i < 4; i++) sum[i] = all_sum(sum[i], &room);
    bad = all_best(bad, &room);
    if (threadIdx.x) return;
    float *sums = (float *)p.sums;
    rt_fault *fault = (rt_fault *)p.fault;
    for (int i = 0; i < 4; i++) sums[i] = (float)((p.acc ? sums[i] : 0.0) + sum[i]);
    if (!bad || fault->set) return;
    fault->step = ((const rt_step *)p.step)->step;
    fault->site = p.a.site;
    fault->row = (uint32_t)(UINT64_MAX - bad);
    fault->set = 1;
}
