/* cuda_kd_list.cuh - what kd_loss makes of a top-k teacher: in double, the list is short. Every block of a row does
 * the same list; each writes the gradient of the listed ids in its own slice. */
#ifndef RT_BACKEND_CUDA_KERNELS_CUDA_KD_LIST_CUH
#define RT_BACKEND_CUDA_KERNELS_CUDA_KD_LIST_CUH

#include "backend/cuda/kernels/cuda_kd_row.cuh"

namespace
{
/* log q of entry j */
template <class X> RT_DEVICE double listed_lq(const Slice<X> &r, uint32_t j)
{
    const float logit = ((const float *)r.p.listed)[(uint64_t)r.row * r.p.a.k + j];
    return ((double)logit * r.p.ct - r.c->lk - r.c->log2z) * RT_LN2;
}

/* What is known of the list: K and sum of its exponentials and of the remaining ids', the power of the latter alone. */
struct Listed {
    double top, sum, rest_log2;
    double div, total;
    uint64_t best, theirs; /* kd_rank of the likeliest entries, to student and teacher */
    bool bad;
};

/* Adds it to the row's constants, by one thread. */
template <class X> RT_DEVICE void settle_list(const Slice<X> &r, Listed x)
{
    const rt_cuda_kd_params &p = r.p;
    Head *h = r.head;
    const double rest = *element<float>(p.rest, r.row, 0);
    if (r.c->some) { /* with no id left a mass is only rounding */
        const double lq = (x.rest_log2 - r.c->log2z) * RT_LN2, lp = rest <= 0 ? -(double)RT_INFINITY : log(rest);
        double g;
        x.div += kd_term(p.kind, p.a.mix, lp, lq, g);
        x.total += g;
        const double slope = h->kd / r.c->zs * (g - exp(lq) * x.total);
        r.c->as = Factor(slope);
        r.c->both = Factor((double)r.c->a1s.high + r.c->a1s.low + slope);
    }
    r.c->div = x.div, r.c->total = x.total;
    if (!isfinite(x.sum) || !isfinite(x.div) || !isfinite(x.total)) r.c->flags |= REDO;
    if (x.bad || !isfinite(rest)) r.c->flags |= BAD;
    if (cluster_rank() != 0) return;
    rt_cuda_kd_result *y = (rt_cuda_kd_result *)p.result + r.row;
    raise(&y->rank_s[0], x.best);
    y->rank_t[0] = x.theirs;
}

template <class X> RT_DEVICE void list_terms(const Slice<X> &r)
{
    const rt_cuda_kd_params &p = r.p;
    Head *h = r.head;
    const bool twice = r.c->flags & TWICE, some = r.c->some;
    const float *listed = (const float *)p.listed + (uint64_t)r.row * p.a.k;
    cluster_sync(); /* the blocks have left the logits of their listed ids in memory */
    Listed x = { some ? r.c->ks : (double)NO_K };
    for (uint32_t j = threadIdx.x; j < p.a.k; j += blockDim.x) {
        if (!kd_counts(p, r.row, j, twice)) continue;
        const double k = rint((double)listed[j] * r.p.ct);
        x.top = k > x.top ? k : x.top;
        const uint64_t rank = kd_rank(listed[j], (uint32_t)*element<int32_t>(p.id, r.row, j));
        x.best = rank > x.best ? rank : x.best;
        x.bad = x.bad || !is_finite(listed[j]) || !is_finite(*element<float>(p.logp, r.row, j));
    }
    x.top = block_max(x.top, h->room, (double)NO_K);
    x.best = block_max(x.best, h->room_u, (uint64_t)0);
    __syncthreads();
    x.theirs = block_max(kd_best_listed(p, r.row), h->room_u, (uint64_t)0);
    for (uint32_t j = threadIdx.x; j < p.a.k; j += blockDim.x)
        if (kd_counts(p, r.row, j, twice)) x.sum += exp2((double)listed[j] * r.p.ct - x.top);
    x.sum = block_sum(x.sum, h->room);
    if (some) {
        x.rest_log2 = r.c->ks - x.top + log2(r.c->zs);
        x.sum += exp2(x.rest_log2);
    }
    if (threadIdx.x == 0) r.c->lk = x.top, r.c->log2z = log2(x.sum);
    __syncthreads();
    for (uint32_t j = threadIdx.x; j < p.a.k; j += blockDim.x) {
        if (!kd_counts(p, r.row, j, twice)) continue;
        double g;
        x.div += kd_term(p.kind, p.a.mix, *element<float>(p.logp, r.row, j), listed_lq(r, j), g);
        x.total += g;
    }
    x.div = block_sum(x.div, h->room);
    __syncthreads();
    x.total = block_sum(x.total, h->room);
    x.bad = __syncthreads_or(x.bad);
    if (threadIdx.x == 0) settle_list(r, x);
    __syncthreads();
}

/* The listed columns of the slice, which the walk took for others. */
template <class X> RT_DEVICE void write_listed(const Slice<X> &r)
{
    const rt_cuda_kd_params &p = r.p;
    const Consts &c = *r.c;
    __syncthreads();
    for (uint32_t j = threadIdx.x; j < p.a.k; j += blockDim.x) {
        const int32_t id = *element<int32_t>(p.id, r.row, j);
        if (id < 0 || (uint32_t)id / W - r.first >= r.packs || !kd_counts(p, r.row, j, c.flags & TWICE)) continue;
        const double x = ((const float *)p.listed)[(uint64_t)r.row * p.a.k + j], lq = listed_lq(r, j);
        double g,
            slope = r.head->ce * (exp2(x * (r.p.how ? r.p.ct : LOG2E) - c.k1) / c.z1 - ((uint32_t)id == r.target));
        kd_term(p.kind, p.a.mix, *element<float>(p.logp, r.row, j), lq, g);
        slope += r.head->kd * (g - exp(lq) * c.total);
        narrow(element<typename X::S>(p.logits, r.row, (uint32_t)id), (float)slope);
    }
}
} // namespace

#endif
