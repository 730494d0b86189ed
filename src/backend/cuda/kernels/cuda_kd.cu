/* cuda_kd.cu - the distillation loss and its gradient in place of the student's logits.
 *
 * A row belongs to a cluster of blocks (to one block where there are no clusters), each with a slice of its columns. A
 * block reads its slice once from memory, into shared memory: the first walk adds up exponentials, the warps of the row
 * exchange their sums, the last walk writes the gradient. The divergences that need p and q normalised (JSD, skewed,
 * total variation) take one more walk between the two. Where a slice does not fit it is read again, from L2.
 *
 * Clusters stay and draw rows until there are none left. A thread that has written the gradient of a pack asks for that
 * pack of the next row at once: memory is busy while sums are formed and exchanged. Which cluster has done a row leaves
 * no trace in it.
 *
 * Exponentials are powers of two: e = 2^(c x - K), c = log2(e) or log2(e)/T, with an integer K near the largest c x.
 * The multiplication and the subtraction round once; sums move from one K to another by a power of two, which rounds
 * nothing. The power must be small where the exponential counts, or its rounding is seen: K begins as the largest of
 * the warp's first packs, and a thread that meets a larger value moves its own.
 *
 * Anything that leaves the range of f32 shows as a sum that is not finite: such a row is left as it was and marked, and
 * cuda_kd_careful.cu does it again in double. */
#include "backend/cuda/kernels/cuda_kd_list.cuh"
#include "backend/cuda/kernels/cuda_kd_walk.cuh"

namespace
{
/* ---- the walk between: D and the sum of q dD/dq of the divergences that are no KL ---- */

template <class X> RT_DEVICE void pair_walk(Slice<X> &r, uint32_t exchange)
{
    Consts &c = *r.c;
    float div = 0.0f, total = 0.0f;
    r.template walk<BETWEEN>(r.row, true, [&](uint32_t k) {
        const uint32_t in = r.in_vc(k);
        float s[W], t[W];
        r.widen(s, t);
#pragma unroll
        for (int i = 0; i < W; i++) {
            if (!(in >> i & 1)) continue;
            const float q = power_of_two<typename X::S>(s[i], r.p.ct, c.ks) * c.iq;
            const float p = power_of_two<typename X::S>(t[i], r.p.ct, c.kt) * c.ip;
            float slope;
            div += kd_pair_term(r.p.kind, r.p.a.mix, p, q, slope);
            total = fmaf(q, slope, total);
        }
    });
    Record x = {};
    x.z[0] = lanes_sum(div), x.z[1] = lanes_sum(total);
    const Record *record = tell_all(r.head, exchange, x);
    if (record) {
        double y[2] = { 0, 0 };
        for (uint32_t i = threadIdx.x; i < cluster_size() * (blockDim.x / 32); i += 32)
            y[0] += record[i].z[0], y[1] += record[i].z[1];
        y[0] = lanes_sum(y[0]), y[1] = lanes_sum(y[1]);
        if (threadIdx.x == 0) c.div = y[0], c.total = y[1];
    }
    __syncthreads();
}

/* ---- the gradient ---- */

/* v = what CE and D make of a pack's columns; in: those of Vc that are not listed. one: of p. */
template <class X>
RT_DEVICE void slopes(float (&v)[W], const Slice<X> &r, const float (&s)[W], const float (&t)[W], uint32_t in, bool one)
{
    using S = typename X::S;
    const Consts &c = *r.c;
    const float ct = r.p.ct;
#pragma unroll
    for (int i = 0; i < W; i++) {
        const float es = power_of_two<S>(s[i], ct, c.ks);
        const bool mine = in >> i & 1;
        if (one && mine && X::FORM <= RT_CUDA_KD_FORWARD)
            v[i] = times<S>(c.both, es, 0.0f);
        else if (one && mine)
            v[i] = times<S>(c.a1s, es, 0.0f);
        else
            v[i] = times<S>(c.a1, power_of_two<S>(s[i], LOG2E, c.k1), 0.0f);
        if (!mine) continue;
        if (X::FORM <= RT_CUDA_KD_FORWARD && !one) v[i] = times<S>(c.as, es, v[i]);
        if (!X::TEACHER) continue;
        const float et = power_of_two<S>(t[i], ct, c.kt);
        if (X::FORM == RT_CUDA_KD_FORWARD) v[i] = times<S>(c.at, et, v[i]);
        if (X::REVERSE) v[i] = fmaf(es, fmaf(c.x1, fmaf(s[i], ct, -c.ks) - fmaf(t[i], ct, -c.kt), c.x0), v[i]);
        if (X::PAIR) {
            const float q = es * c.iq;
            float slope;
            kd_pair_term(r.p.kind, r.p.a.mix, et * c.ip, q, slope);
            v[i] = fmaf((float)r.head->kd * q, slope - (float)c.total, v[i]);
        }
    }
}

/* Where the row has no target. */
template <class X> RT_DEVICE void write_zeros(const Slice<X> &r, uint32_t k)
{
    const float zero[W] = {};
    r.write(k, zero);
}

template <class X> RT_DEVICE void write_pack(const Slice<X> &r, uint32_t k)
{
    float s[W], t[W], v[W];
    r.widen(s, t);
    const uint32_t in = r.in_vc(k);
    if (in != 255)
        slopes(v, r, s, t, in, r.p.one);
    else if (r.p.one)
        slopes(v, r, s, t, 255, true);
    else
        slopes(v, r, s, t, 255, false);
    if (r.has_target(k)) {
#pragma unroll
        for (int i = 0; i < W; i++) /* every element, so that none has an address */
            v[i] = (float)(v[i] - (r.target % W == i ? r.head->ce : 0.0));
    }
    r.write(k, v);
}

/* ---- a row ---- */

static __device__ uint32_t drawn; /* rows; 0 before and after every launch: launches follow each other */

/* The next row that nobody has, in the first thread of a cluster. It draws two, and another for each row that it does:
 * a number that is known in all, behind which the count begins at 0 again. */
RT_DEVICE uint32_t draw(const rt_cuda_kd_params &p)
{
    const bool first = cluster_rank() == 0 && threadIdx.x == 0;
    return first ? atomicInc(&drawn, p.draws - 1) : 0;
}
RT_DEVICE int32_t target_of(const rt_cuda_kd_params &p, uint32_t row)
{
    return row < p.a.N ? *element<int32_t>(p.target, row, 0) : -1;
}

/* Bits of the row, where rows differ: its list is taken out of them. */
template <class X> RT_DEVICE uint32_t take_list(const Slice<X> &r)
{
    bool twice = false, unknown = false;
    __syncthreads(); /* everyone is done with the row before */
    kd_fill_bits(r.p, r.bits(), r.first, r.packs);
    __syncthreads();
    kd_clear_listed<typename X::S>(r.p, r.row, r.bits(), r.first, r.packs, twice, unknown);
    __syncthreads();
    return (unknown ? BAD : 0) | (twice ? TWICE : 0);
}

/* From the warps' sums to the row's constants, in every block. */
template <class X> RT_DEVICE void meet(const Slice<X> &r, uint32_t exchange, const Record &x)
{
    const uint32_t warps = blockDim.x / 32;
    const Record *record = tell_all(r.head, exchange, x);
    if (record) settle(r, join_row<X>(record, cluster_size() * warps, r.p.one));
    __syncthreads();
}

/* ---- what is left of a row for cuda_kd_careful.cu: each block has places of its own in the row's result ---- */

template <class X> RT_DEVICE rt_cuda_kd_result *result_of(const Slice<X> &r)
{
    return (rt_cuda_kd_result *)r.p.result + r.row;
}

/* Before the blocks meet, by one thread of each. */
template <class X> RT_DEVICE void report_begin(const Slice<X> &r)
{
    rt_cuda_kd_result *y = result_of(r);
    y->rank_s[cluster_rank()] = y->rank_t[cluster_rank()] = 0;
}

/* Behind that, by the threads that have the row's best columns. */
template <class X> RT_DEVICE void report_best(const Walk<X> &w)
{
    const Slice<X> &r = w.r;
    rt_cuda_kd_result *y = result_of(r);
    if (!r.c->some || (!X::TEACHER && !X::LIST)) return;
    if (w.best_s == r.c->best_s)
        raise(&y->rank_s[cluster_rank()],
              first_of(r.pack_s(w.at_s), r.in_vc(w.at_s), w.best_s, (r.first + w.at_s) * W));
    if (X::TEACHER && w.best_t == r.c->best_t) {
        const char *pack = r.pack_t(w.at_t);
        const uint32_t in = r.in_vc(w.at_t), col = (r.first + w.at_t) * W;
        raise(&y->rank_t[cluster_rank()], X::T_SIZE == 4 ? first_of((const float *)pack, in, w.best_t, col)
                                          : r.p.t_dtype == RT_DTYPE_BF16
                                              ? first_of((const bf16 *)pack, in, w.best_t, col)
                                              : first_of((const f16 *)pack, in, w.best_t, col));
    }
}

/* By one thread of the first block. */
template <class X> RT_DEVICE void report(const Slice<X> &r)
{
    const Consts &c = *r.c;
    rt_cuda_kd_result *y = result_of(r);
    y->trained = r.trained();
    y->redo = r.trained() && c.flags & REDO;
    if (!r.trained()) return;
    y->z1 = c.z1, y->zs = c.zs, y->zt = c.zt;
    y->d = X::FORM == RT_CUDA_KD_FORWARD ? c.d : c.div;
    y->k1 = c.k1, y->some = c.some;
    y->bad = c.flags & BAD;
}

/* ---- all rows ---- */

/* What comes before the rows. Returns the first two of the cluster. */
template <class X> RT_DEVICE uint2 begin(const Slice<X> &r)
{
    const rt_kd_args &a = r.p.a;
    Head *h = r.head;
    if (r.p.bits && !X::LIST) kd_fill_bits(r.p, r.bits(), r.first, r.packs);
    if (threadIdx.x == 0) {
        const double over = 1.0 / ((const rt_step *)r.p.step)->tokens;
        h->ce = a.ce_weight * over;
        h->kd = a.kd_weight * (a.t2 ? (double)a.T : 1.0 / a.T) * over;
        mail_begin(&h->box[0]);
        mail_begin(&h->box[1]);
    }
    cluster_sync(); /* all blocks are there to be told something */
    Record x = {};
    x.drawn[0] = draw(r.p), x.drawn[1] = draw(r.p);
    tell_all(h, 0, x);
    __syncthreads();
    return make_uint2(records(h)->drawn[0], records(h)->drawn[1]);
}

template <class X> __device__ void kd_rows(const rt_cuda_kd_params &p)
{
    if (cluster_size() != p.blocks) __trap(); /* launched for another architecture than compiled for */
    Slice<X> r = slice_of<X>(p);
    const uint2 two = begin(r);
    uint32_t next = two.y, exchange = 0, turn = 0;
    r.row = two.x, r.target = (uint32_t)target_of(p, r.row);
    if (r.trained()) r.ask_first(r.row);
    while (r.row < p.a.N) {
        const int32_t next_target = target_of(p, next);
        const uint32_t after = draw(p);
        const Consts &c = *(r.c = &r.head->c[turn ^= 1]);
        if (threadIdx.x == 0) report_begin(r);
        Walk<X> w = { r };
        w.clear();
        if (X::LIST && r.trained()) w.flags = take_list(r);
        if (r.trained()) w.run();
        meet(r, ++exchange, w.join(after));
        if (r.trained() && !(c.flags & REDO)) {
            report_best(w);
            if (X::PAIR && c.some) pair_walk(r, ++exchange);
            if (X::LIST) list_terms(r);
        }
        if (threadIdx.x == 0 && cluster_rank() == 0) report(r);
        const bool writes = p.a.grad && r.trained() && !(c.flags & REDO), zeros = p.a.grad && !r.trained();
        r.template walk<LAST>(next, next_target >= 0, [&](uint32_t k) {
            if (r.trained() && r.has_target(k) && r.target < p.a.V)
                result_of(r)->s = to_float(r.pack_s(k)[r.target % W]);
            if (writes) write_pack(r, k);
            if (zeros) write_zeros(r, k);
        });
        if (X::LIST && writes) write_listed(r);
        r.row = next, r.target = (uint32_t)next_target, next = c.after;
    }
}
} // namespace

/* Two blocks on a multiprocessor where two slices fit. sm_120 has a third of the shared memory. */
#if __CUDA_ARCH__ >= 1200
#define FIT 1
#else
#define FIT 2
#endif
#define KERNEL(kernel, S, size, form, fit)                                                                             \
    extern "C" __global__ void __launch_bounds__(RT_CUDA_KD_THREADS, fit) RT_CLUSTER(RT_CUDA_KD_CLUSTER)               \
        kernel(const rt_cuda_kd_params p)                                                                              \
    {                                                                                                                  \
        kd_rows<Kind<S, size, form>>(p);                                                                               \
    }
#define FORMS(name, S, size, fit)                                                                                      \
    KERNEL(kd_forward_##name##_##size, S, size, RT_CUDA_KD_FORWARD, fit)                                               \
    KERNEL(kd_reverse_##name##_##size, S, size, RT_CUDA_KD_REVERSE, fit)                                               \
    KERNEL(kd_pair_##name##_##size, S, size, RT_CUDA_KD_PAIR, fit)
#define KERNELS(name, S)                                                                                               \
    KERNEL(kd_ce_##name, S, 2, RT_CUDA_KD_CE, FIT)                                                                     \
    KERNEL(kd_list_##name, S, 2, RT_CUDA_KD_LIST, 1)                                                                   \
    FORMS(name, S, 2, sizeof(S) == 2 ? FIT : 1)                                                                        \
    FORMS(name, S, 4, 1)
RT_FOR_FLOATS(KERNELS)
