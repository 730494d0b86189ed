/* cuda_kd.cu - the distillation loss and its gradient in place of the student's logits.
 *
 * A row belongs to a cluster of blocks (to one block where there are no clusters), each with a slice of its columns. A
 * block reads its slice once from memory: the first walk keeps the packs in shared memory and adds up exponentials, the
 * blocks exchange their sums, the last walk writes the gradient. The divergences that need p and q normalised (JSD,
 * skewed, total variation) take one more walk between the two. Where a slice does not fit it is read again, from L2.
 *
 * Exponentials are powers of two: e = 2^(c x - K), c = log2(e) or log2(e)/T, with an integer K near the largest c x.
 * The multiplication and the subtraction round once; sums move from one K to another by a power of two, which rounds
 * nothing. The power must be small where the exponential counts, or its rounding is seen: K begins as the largest of
 * the block's first packs, and a thread that meets a larger value moves its own.
 *
 * Anything that leaves the range of f32 shows as a sum that is not finite: such a row is left as it was and marked, and
 * cuda_kd_careful.cu does it again in double. */
#include "backend/cuda/kernels/cuda_kd_walk.cuh"

namespace
{
/* ---- from the blocks of a row to its constants ---- */

/* The row's from the blocks', by the first warp, a lane for each block. */
struct RowSums {
    double k[3], z[SUMS], best;
    uint64_t rank_s, rank_t; /* of the best of Vc; 0: none */
    uint32_t flags;
};
/* 2^n, n an integer and not positive; 0 where that is too small to count */
RT_DEVICE double exact_power(double n) { return n < -1000 ? 0.0 : __longlong_as_double((long long)(n + 1023) << 52); }

RT_DEVICE void join_cluster(const Head *h, RowSums &x, bool one, bool reverse)
{
    const uint32_t lane = threadIdx.x % 32;
    double y[STATS];
    const bool mine = lane < cluster_size();
    cluster_read(y, h->stat, mine ? lane : 0);
#pragma unroll
    for (int i = 0; i < 3; i++) x.k[i] = lanes_max(mine ? y[i] : (double)NO_K);
    const bool s = mine && y[BEST_S] > -RT_INFINITY, t = mine && y[BEST_T] > -RT_INFINITY;
    x.best = lanes_max(s ? y[BEST_S] : -(double)RT_INFINITY);
    x.rank_s = lanes_max(s ? kd_rank((float)y[BEST_S], (uint32_t)y[AT_S]) : 0ull);
    x.rank_t = lanes_max(t ? kd_rank((float)y[BEST_T], (uint32_t)y[AT_T]) : 0ull);
    x.flags = 0;
#pragma unroll
    for (uint32_t bit = 1; bit <= TWICE; bit *= 2)
        if (__any_sync(RT_EVERY_LANE, mine && ((uint32_t)y[FLAGS] & bit))) x.flags |= bit;
    const double up_s = y[KS] - x.k[KS], up_t = y[KT] - x.k[KT], fs = exact_power(up_s), ft = exact_power(up_t);
    const double zs = y[MAXIMA + ZS], zt = y[MAXIMA + ZT], d = y[MAXIMA + ZD];
    double z[SUMS];
    z[Z1] = y[MAXIMA + Z1] * (one ? fs : exact_power(y[K1] - x.k[K1]));
    z[ZS] = fs * zs;
    z[ZT] = ft * zt;
    z[ZD] = reverse ? fs * (d + zs * (up_s - up_t)) : ft * (d + zt * (up_t - up_s));
#pragma unroll
    for (int i = 0; i < SUMS; i++) x.z[i] = lanes_sum(mine ? z[i] : 0.0);
    if (one) {
        x.z[Z1] += x.z[ZS];
        x.k[K1] = x.k[KS];
    }
}

/* What follows from a row's sums, by thread 0. Divisions are few and logarithms left out where the gradient does not
 * need them: the block waits. */
template <class TS, int TB> RT_DEVICE void settle(const Row<TS, TB> &r, const RowSums &x, double tokens)
{
    const rt_kd_args &a = r.p.a;
    Consts &c = r.head->c;
    const double T = a.T, over = 1 / tokens, kd = a.kd_weight * (a.t2 ? T : 1 / T) * over;
    double ce = a.ce_weight * over;
    c.flags = x.flags;
    c.some = x.rank_s != 0;
    c.k1 = (float)x.k[K1], c.ks = (float)x.k[KS], c.kt = (float)x.k[KT];
    c.z1 = x.z[Z1], c.zs = c.some ? x.z[ZS] : 0, c.zt = x.z[ZT], c.d = c.div = c.total = 0;
    c.best = x.rank_s;
    c.top1 = a.U && c.some && (uint32_t)x.rank_s == (uint32_t)x.rank_t;
    c.ce = ce, c.kd = kd;
    ce /= c.z1;
    c.a1 = c.a1s = c.both = Factor(ce);
    c.as = c.at = Factor(0.0);
    c.x0 = c.x1 = c.iq = c.ip = 0.0f;
    /* a sum far below its reference has lost terms */
    if (!(c.z1 > 0x1p-60) || (c.some && !(c.zs > 0x1p-60)) || (a.U && c.some && !(c.zt > 0x1p-60))) c.flags |= REDO;
    if (c.flags & REDO || !a.U || !c.some) return;
    const double inv_t = 1 / c.zt;
    double inv_s = 1 / c.zs;
    c.d = x.z[ZD] * (r.p.form == RT_CUDA_KD_REVERSE ? inv_s : inv_t);
    /* at T = 1 the reference is that of all columns; where those of Vc are below it, theirs goes down to them */
    const double far = r.one ? rint(x.best * LOG2E) - x.k[KS] : 0, down = far < -100 ? -100 : far;
    if (down < 0) {
        const double f = exact_power(down);
        c.ks += (float)down;
        c.zs /= f;
        c.d += r.p.form == RT_CUDA_KD_REVERSE ? -down : down;
        ce *= f;
        inv_s *= f;
        c.a1s = Factor(ce);
    }
    c.as = Factor(kd * inv_s);
    c.at = Factor(-kd * inv_t);
    c.both = Factor(ce + kd * inv_s);
    c.iq = (float)inv_s;
    c.ip = (float)inv_t;
    if (r.p.form != RT_CUDA_KD_REVERSE) return;
    const double logs = log2(c.zt) - log2(c.zs);
    c.total = c.div = (c.d + logs) * RT_LN2;
    c.x1 = (float)(kd * inv_s * RT_LN2);
    c.x0 = (float)(kd * inv_s * (RT_LN2 * logs - c.div));
}

/* ---- the walk between: D and the sum of q dD/dq of the divergences that are no KL ---- */

template <class TS, int TB> RT_DEVICE void pair_walk(const Row<TS, TB> &r)
{
    const Consts &c = r.head->c;
    float div = 0.0f, total = 0.0f;
    for (uint32_t k = threadIdx.x; k < r.packs; k += blockDim.x) {
        float s[W], t[W];
        r.widen(s, t, r.again(k));
        const uint32_t in = r.in_vc(k);
#pragma unroll
        for (int i = 0; i < W; i++) {
            if (!(in >> i & 1)) continue;
            const float q = power_of_two<TS>(s[i], r.ct, c.ks) * c.iq;
            const float p = power_of_two<TS>(t[i], r.ct, c.kt) * c.ip;
            float slope;
            div += kd_pair_term(r.p.kind, r.p.a.mix, p, q, slope);
            total = fmaf(q, slope, total);
        }
    }
    const double all = block_sum((double)div, r.head->room);
    __syncthreads();
    const double sum = block_sum((double)total, r.head->room);
    if (threadIdx.x == 0) r.head->pair[0] = all, r.head->pair[1] = sum;
    cluster_arrive();
    cluster_wait();
    if (threadIdx.x < 32) {
        const bool mine = threadIdx.x < cluster_size();
        double y[2];
        cluster_read(y, r.head->pair, mine ? threadIdx.x : 0);
        y[0] = lanes_sum(mine ? y[0] : 0.0), y[1] = lanes_sum(mine ? y[1] : 0.0);
        if (threadIdx.x == 0) r.head->c.div = y[0], r.head->c.total = y[1];
    }
    __syncthreads();
}

/* ---- a top-k teacher: in double, the list is short ---- */

/* log q of entry j */
template <class TS, int TB> RT_DEVICE double listed_lq(const Row<TS, TB> &r, uint32_t j)
{
    const float logit = ((const float *)r.p.listed)[(uint64_t)r.row * r.p.a.k + j];
    return ((double)logit * r.ct - r.head->c.lk - r.head->c.log2z) * RT_LN2;
}

template <class TS, int TB> RT_DEVICE void list_terms(const Row<TS, TB> &r)
{
    const rt_cuda_kd_params &p = r.p;
    Head *h = r.head;
    const bool twice = h->c.flags & TWICE, some = h->c.some;
    const float *listed = (const float *)p.listed + (uint64_t)r.row * p.a.k;
    double top = some ? h->c.ks : (double)NO_K, sum = 0, div = 0, total = 0, g;
    uint64_t best = 0;
    bool bad = false;
    for (uint32_t j = threadIdx.x; j < p.a.k; j += blockDim.x) {
        if (!kd_counts(p, r.row, j, twice)) continue;
        const double k = rint((double)listed[j] * r.ct);
        top = k > top ? k : top;
        const uint64_t rank = kd_rank(listed[j], (uint32_t)*element<int32_t>(p.id, r.row, j));
        best = rank > best ? rank : best;
        bad = bad || !is_finite(listed[j]) || !is_finite(*element<float>(p.logp, r.row, j));
    }
    top = block_max(top, h->room, (double)NO_K);
    best = block_max(best, h->room_u, (uint64_t)0);
    __syncthreads();
    const uint64_t theirs = block_max(kd_best_listed(p, r.row), h->room_u, (uint64_t)0);
    for (uint32_t j = threadIdx.x; j < p.a.k; j += blockDim.x)
        if (kd_counts(p, r.row, j, twice)) sum += exp2((double)listed[j] * r.ct - top);
    sum = block_sum(sum, h->room);
    const double rest_log2 = some ? h->c.ks - top + log2(h->c.zs) : 0;
    if (some) sum += exp2(rest_log2);
    if (threadIdx.x == 0) h->c.lk = top, h->c.log2z = log2(sum);
    __syncthreads();
    for (uint32_t j = threadIdx.x; j < p.a.k; j += blockDim.x) {
        if (!kd_counts(p, r.row, j, twice)) continue;
        div += kd_term(p.kind, p.a.mix, *element<float>(p.logp, r.row, j), listed_lq(r, j), g);
        total += g;
    }
    div = block_sum(div, h->room);
    __syncthreads();
    total = block_sum(total, h->room);
    bad = __syncthreads_or(bad);
    if (threadIdx.x) return;
    const double rest = *element<float>(p.rest, r.row, 0);
    double q_rest = 0;
    g = 0;
    if (some) { /* with no id left a mass is only rounding */
        const double lq = (rest_log2 - h->c.log2z) * RT_LN2, lp = rest <= 0 ? -(double)RT_INFINITY : log(rest);
        q_rest = exp(lq);
        div += kd_term(p.kind, p.a.mix, lp, lq, g);
        total += g;
        h->c.as = Factor(h->c.kd / h->c.zs * (g - q_rest * total));
        h->c.both = Factor(h->c.ce / h->c.z1 + h->c.kd / h->c.zs * (g - q_rest * total));
    }
    h->c.div = div, h->c.total = total;
    if (!isfinite(sum) || !isfinite(div) || !isfinite(total)) h->c.flags |= REDO;
    if (bad || !isfinite(rest)) h->c.flags |= BAD;
    best = best > h->c.best ? best : h->c.best;
    h->c.top1 = best && (uint32_t)best == (uint32_t)theirs;
}

/* ---- the gradient ---- */

/* v = what CE and D make of a pack's columns; in: those of Vc that are not listed. */
template <class TS, int TB>
RT_DEVICE void slopes(float (&v)[W], const Row<TS, TB> &r, const float (&s)[W], const float (&t)[W], uint32_t in)
{
    const Consts &c = r.head->c;
    const uint32_t form = r.p.form;
    if (r.one && in == 255 && form <= RT_CUDA_KD_FORWARD) {
#pragma unroll
        for (int i = 0; i < W; i++) v[i] = times<TS>(c.both, power_of_two<TS>(s[i], r.ct, c.ks), 0.0f);
        if (form == RT_CUDA_KD_STUDENT) return;
#pragma unroll
        for (int i = 0; i < W; i++) v[i] = times<TS>(c.at, power_of_two<TS>(t[i], r.ct, c.kt), v[i]);
        return;
    }
#pragma unroll
    for (int i = 0; i < W; i++) {
        const float es = power_of_two<TS>(s[i], r.ct, c.ks);
        const bool mine = in >> i & 1;
        if (r.one && mine)
            v[i] = times<TS>(c.a1s, es, 0.0f);
        else
            v[i] = times<TS>(c.a1, power_of_two<TS>(s[i], LOG2E, c.k1), 0.0f);
        if (!mine) continue;
        if (form == RT_CUDA_KD_STUDENT) {
            v[i] = times<TS>(c.as, es, v[i]);
        } else if (form == RT_CUDA_KD_FORWARD) {
            v[i] = times<TS>(c.at, power_of_two<TS>(t[i], r.ct, c.kt), times<TS>(c.as, es, v[i]));
        } else if (form == RT_CUDA_KD_REVERSE) {
            const float apart = fmaf(s[i], r.ct, -c.ks) - fmaf(t[i], r.ct, -c.kt);
            v[i] = fmaf(es, fmaf(c.x1, apart, c.x0), v[i]);
        } else {
            const float q = es * c.iq;
            float slope;
            kd_pair_term(r.p.kind, r.p.a.mix, power_of_two<TS>(t[i], r.ct, c.kt) * c.ip, q, slope);
            v[i] = fmaf((float)c.kd * q, slope - (float)c.total, v[i]);
        }
    }
}

template <class TS, int TB> RT_DEVICE void write_walk(const Row<TS, TB> &r)
{
    for (uint32_t k = threadIdx.x; k < r.packs; k += blockDim.x) {
        const uint64_t col = ((uint64_t)r.first + k) * W;
        const uint32_t n = r.p.a.V - col < W ? (uint32_t)(r.p.a.V - col) : W;
        float s[W], t[W], v[W];
        r.widen(s, t, r.again(k));
        slopes(v, r, s, t, r.in_vc(k));
        if (r.target / W == r.first + k) {
#pragma unroll
            for (int i = 0; i < W; i++) /* every element, so that none has an address */
                v[i] = (float)(v[i] - (r.target % W == i ? r.head->c.ce : 0.0));
        }
        TS *to = element<TS>(r.p.logits, r.row, col);
        if (r.p.s_whole && n == W)
            store(to, v, Whole());
        else
            store(to, v, Part{ n });
    }
}

/* The listed columns of the slice, which the walk took for others. */
template <class TS, int TB> RT_DEVICE void write_listed(const Row<TS, TB> &r)
{
    const rt_cuda_kd_params &p = r.p;
    const Consts &c = r.head->c;
    __syncthreads();
    for (uint32_t j = threadIdx.x; j < p.a.k; j += blockDim.x) {
        const int32_t id = *element<int32_t>(p.id, r.row, j);
        if (id < 0 || (uint32_t)id / W - r.first >= r.packs || !kd_counts(p, r.row, j, c.flags & TWICE)) continue;
        const double x = ((const float *)p.listed)[(uint64_t)r.row * p.a.k + j], lq = listed_lq(r, j);
        double g, slope = c.ce * (exp2(x * (r.one ? r.ct : LOG2E) - c.k1) / c.z1 - ((uint32_t)id == r.target));
        kd_term(p.kind, p.a.mix, *element<float>(p.logp, r.row, j), lq, g);
        slope += c.kd * (g - exp(lq) * c.total);
        narrow(element<TS>(p.logits, r.row, (uint32_t)id), (float)slope);
    }
}

/* ---- a row ---- */

/* The row's figures, by thread 0 of the first block. */
template <class TS, int TB> RT_DEVICE void report(const Row<TS, TB> &r, double tokens)
{
    const rt_cuda_kd_params &p = r.p;
    const Consts &c = r.head->c;
    rt_cuda_kd_result y = { 0, c.div, c.top1, 1, 0, c.flags & REDO };
    if (!y.redo) {
        const float s = r.target < p.a.V ? r.head->s_target : __uint_as_float(0x7fc00000u);
        y.ce = (c.k1 + log2(c.z1) - (double)s * LOG2E) * RT_LN2;
        if (p.form == RT_CUDA_KD_FORWARD && c.some) y.div = (c.d - log2(c.zt) + log2(c.zs)) * RT_LN2;
        const double weight = p.a.kd_weight * (p.a.t2 ? (double)p.a.T * p.a.T : 1.0);
        y.bad = c.flags & BAD || !is_finite((float)((p.a.ce_weight * y.ce + weight * y.div) / tokens));
    }
    ((rt_cuda_kd_result *)p.result)[r.row] = y;
}

template <class TS> RT_DEVICE void zero_row(const rt_cuda_kd_params &p, uint32_t row, uint32_t first, uint32_t packs)
{
    const float zero[W] = { 0.0f };
    for (uint32_t k = threadIdx.x; k < packs; k += blockDim.x) {
        const uint64_t col = ((uint64_t)first + k) * W;
        const uint32_t n = p.a.V - col < W ? (uint32_t)(p.a.V - col) : W;
        if (p.s_whole && n == W)
            store(element<TS>(p.logits, row, col), zero, Whole());
        else
            store(element<TS>(p.logits, row, col), zero, Part{ n });
    }
}

/* LIST: the teacher is top-k. */
template <class TS, int TB, bool LIST> __device__ void kd_row(const rt_cuda_kd_params &p)
{
    const uint32_t rank = cluster_rank(), row = blockIdx.x / p.blocks, total = (p.a.V - 1) / W + 1;
    if (cluster_size() != p.blocks) __trap(); /* launched for another architecture than compiled for */
    const uint32_t first = rank * p.packs < total ? rank * p.packs : total;
    const uint32_t packs = total - first < p.packs ? total - first : p.packs;
    const int32_t target = *element<int32_t>(p.target, row, 0);
    const double tokens = ((const rt_step *)p.step)->tokens;
    if (target < 0) {
        if (p.a.grad) zero_row<TS>(p, row, first, packs);
        if (rank == 0 && threadIdx.x == 0) ((rt_cuda_kd_result *)p.result)[row] = { 0, 0, 0, 0, 0, 0 };
        return;
    }
    unsigned char *shared = shared_bytes();
    Head *h = (Head *)shared;
    Row<TS, TB> r = { p, h, shared + RT_CUDA_KD_HEAD };
    r.kept_s = (Raw<W *(int)sizeof(TS)> *)(r.bits + RT_CUDA_KD_BITMAP(p.packs));
    r.kept_t = (Raw<W * TB> *)(r.kept_s + p.packs);
    r.s = (const char *)element<TS>(p.logits, row, 0);
    r.t = p.teacher.at + (uint64_t)row * p.teacher.stride * TB;
    r.row = row, r.target = (uint32_t)target, r.first = first, r.packs = packs;
    r.one = p.a.T == 1.0f || (!p.a.U && !p.a.k);
    r.ct = r.one ? LOG2E : (float)(1.4426950408889634 / p.a.T);
    if (threadIdx.x == 0) {
        h->at_s = h->at_t = UINT32_MAX;
        if (r.target < p.a.V) h->s_target = to_float(*element<TS>(p.logits, row, r.target));
    }
    bool twice = false, unknown = false;
    if (p.bits) kd_fill_bits(p, r.bits, first, packs);
    __syncthreads();
    if (LIST) {
        kd_clear_listed<TS>(p, row, r.bits, first, packs, twice, unknown);
        __syncthreads();
    }
    Walk<TS, TB> w = { r, NO_K, NO_K, NO_K, 0.0f, 0.0f, 0.0f, 0.0f, 0.0f, -RT_INFINITY, -RT_INFINITY, 0, 0, false };
    w.run();
    join_block(w, (w.odd ? REDO : 0) | (unknown ? BAD : 0) | (twice ? TWICE : 0));
    cluster_arrive();
    cluster_wait();
    if (threadIdx.x < 32) {
        RowSums x;
        join_cluster(h, x, r.one, p.form == RT_CUDA_KD_REVERSE);
        if (threadIdx.x == 0) settle(r, x, tokens);
    }
    __syncthreads();
    if (!(h->c.flags & REDO)) {
        if (!LIST && p.form == RT_CUDA_KD_PAIR && h->c.some) pair_walk(r);
        if (LIST) list_terms(r);
        __syncthreads();
    }
    cluster_arrive(); /* nobody reads another's shared memory behind this */
    if (p.a.grad && !(h->c.flags & REDO)) {
        write_walk(r);
        if (LIST) write_listed(r);
    }
    if (rank == 0 && threadIdx.x == 0) report(r, tokens);
    cluster_wait();
}
} // namespace

/* Two blocks on a multiprocessor where two slices fit. sm_120 has a third of the shared memory. */
#if __CUDA_ARCH__ >= 1200
#define FIT 1
#else
#define FIT 2
#endif
#define KERNEL(kernel, TS, size, list)                                                                                 \
    extern "C" __global__ void __launch_bounds__(RT_CUDA_KD_THREADS, sizeof(TS) == 2 && size == 2 && !list ? FIT : 1)  \
        RT_CLUSTER(RT_CUDA_KD_CLUSTER) kernel(const rt_cuda_kd_params p)                                               \
    {                                                                                                                  \
        kd_row<TS, size, list>(p);                                                                                     \
    }
#define KERNELS(name, TS)                                                                                              \
    KERNEL(kd_rows_##name##_2, TS, 2, false)                                                                           \
    KERNEL(kd_rows_##name##_4, TS, 4, false)                                                                           \
    KERNEL(kd_list_##name, TS, 2, true)
RT_FOR_FLOATS(KERNELS)
