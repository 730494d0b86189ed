/* cuda_kd.cu - the distillation loss and its gradient in place of the student's logits.
 *
 * A row belongs to a cluster of blocks (to one block where there are no clusters), each with a slice of its columns. A
 * block reads its slice once from memory, into shared memory: the first walk adds up exponentials, the warps of the row
 * exchange their sums, the last walk writes the gradient. The divergences that need p and q normalised (JSD, skewed,
 * total variation) take one more walk between the two. Where a slice does not fit it is read again, from L2.
 *
 * Clusters stay and draw rows until there are none left. A thread that has read a pack for the last time asks for that
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

template <class X, bool TV> RT_DEVICE void pair_sums(Slice<X> &r, float &div, float &total)
{
    using S = typename X::S;
    constexpr bool FAST = X::SIZE == 2;
    const Pair<FAST> form(r.p.kind, r.p.a.mix);
    const float ks = r.c->ks, kt = r.c->kt, iq = r.c->iq, ip = r.c->ip;
    const auto add = [&](const float(&s)[W], const float(&t)[W], uint32_t in) {
        PairSums<FAST> sums;
#pragma unroll
        for (int i = 0; i < W; i++) {
            const float q = power_of_two<S>(s[i], r.p.ct, ks) * iq, p = power_of_two<S>(t[i], r.p.ct, kt) * ip;
            const bool mine = in >> i & 1;
            sums.template add<TV>(form, mine ? p : 0.0f, mine ? q : 0.0f);
        }
        div += sums.template div<TV>(form), total += sums.template total<TV>(form);
    };
    if constexpr (X::SWIFT) {
        const auto widened = [&](uint32_t at_s, uint32_t at_t, uint32_t in) {
            float s[W], t[W];
            widen<S>(s, at_s);
            widen<S>(t, at_t);
            add(s, t, in);
        };
        r.each(0, r.clean, [&](uint32_t, uint32_t at_s, uint32_t at_t) { widened(at_s, at_t, 255); });
        r.each(r.clean, r.mine, [&](uint32_t k, uint32_t at_s, uint32_t at_t) { widened(at_s, at_t, r.in_vc(k)); });
    } else {
        r.template walk<BETWEEN>(r.row, true, [&](uint32_t k) {
            float s[W], t[W];
            r.widen_both(s, t);
            add(s, t, r.in_vc(k));
        });
    }
}

template <class X> RT_DEVICE void pair_walk(Slice<X> &r, uint32_t exchange)
{
    float div = 0.0f, total = 0.0f;
    if (kd_without_logs(r.p.kind))
        pair_sums<X, true>(r, div, total);
    else
        pair_sums<X, false>(r, div, total);
    Record x = {};
    x.z[0] = lanes_sum(div), x.z[1] = lanes_sum(total);
    const Record *record = tell_all(r.head, exchange, x);
    if (record) {
        double y[2] = { 0, 0 };
        for (uint32_t i = threadIdx.x; i < cluster_size() * (blockDim.x / 32); i += 32)
            y[0] += record[i].z[0], y[1] += record[i].z[1];
        y[0] = lanes_sum(y[0]), y[1] = lanes_sum(y[1]);
        if (threadIdx.x == 0) r.c->div = y[0], r.c->total = y[1];
    }
    __syncthreads();
}

/* ---- the gradient ---- */

/* The row's constants that it takes, out of shared memory. */
template <class X> struct Gradient {
    using S = typename X::S;
    const rt_cuda_kd_params &p;
    float k1, ks, kt, k_at, k4, as4, x0, x1, iq, ip, total;
    Factor a1, as, at, a1s, both;
    Pair<X::SIZE == 2> form; /* its slope, and total, times the weight of D */

    __device__ Gradient(const Slice<X> &r) : p(r.p), form(r.p.kind, r.p.a.mix)
    {
        const Consts &c = *r.c;
        const float kd = (float)r.head->kd;
        k1 = c.k1, ks = c.ks, kt = c.kt, k_at = c.k_at, k4 = c.k4, as4 = c.as4;
        x0 = c.x0, x1 = c.x1, iq = c.iq, ip = c.ip;
        a1 = c.a1, as = c.as, at = c.at, a1s = c.a1s, both = c.both;
        total = (float)c.total * kd;
        form.sl *= kd, form.sp *= kd, form.sq *= kd, form.st *= kd;
    }
    /* What CE and D make of a column; in: it is of Vc and not listed. HOW: that of p; TV: D is total variation. */
    template <int HOW, bool TV = false> __device__ float of(float s, float t, bool in) const
    {
        constexpr bool one = HOW == RT_CUDA_KD_SAME;
        const float c = p.ct, es = power_of_two<S>(s, c, ks);
        float v;
        if (HOW >= RT_CUDA_KD_SQUARE && in)
            v = times<S>(a1s, e1_of(es, HOW), 0.0f);
        else if (one && in)
            v = times<S>(X::FORM <= RT_CUDA_KD_FORWARD ? both : a1s, es, 0.0f);
        else
            v = times<S>(a1, power_of_two<S>(s, LOG2E, k1), 0.0f);
        if (!in) return v;
        if (X::FORM <= RT_CUDA_KD_FORWARD && !one) v = times<S>(as, es, v);
        if (!X::TEACHER) return v;
        if (X::REVERSE) return fmaf(es, fmaf(x1, fmaf(s, c, -ks) - fmaf(t, c, -kt), x0), v);
        const float et = power_of_two<S>(t, c, kt);
        if (!X::PAIR) return times<S>(at, et, v);
        const float q = es * iq;
        return fmaf(q, form.template slope<TV>(et * ip, q) - total, v);
    }
    /* The same of a column of Vc, for the usual losses, with fewer instructions. */
    template <int HOW, bool TV> __device__ float swift(float s, float t) const
    {
        if (X::FORM != RT_CUDA_KD_FORWARD || X::SIZE == 4) return of<HOW, TV>(s, t, true);
        const float e = exp2_fast(fmaf(s, p.ct, HOW == RT_CUDA_KD_FOURTH ? -k4 : -ks));
        const float at_et = exp2_fast(fmaf(t, p.ct, -k_at)); /* minus that */
        if (HOW == RT_CUDA_KD_SAME) return fmaf(both.high, e, -at_et);
        if (HOW == RT_CUDA_KD_SQUARE) return fmaf(e, fmaf(a1s.high, e, as.high), -at_et);
        if (HOW == RT_CUDA_KD_FOURTH) return fmaf(e, fmaf(e * e, e, as4), -at_et);
        return fmaf(a1.high, exp2_fast(fmaf(s, LOG2E, -k1)), fmaf(as.high, e, -at_et));
    }
    /* Of a pack; the usual ones without a question for each column. */
    template <int HOW, bool TV>
    __device__ void pack_of(float (&v)[W], const float (&s)[W], const float (&t)[W], uint32_t in) const
    {
        if (in == 255) {
#pragma unroll
            for (int i = 0; i < W; i++) v[i] = swift<HOW, TV>(s[i], t[i]);
        } else {
#pragma unroll
            for (int i = 0; i < W; i++) v[i] = of<HOW, TV>(s[i], t[i], in >> i & 1);
        }
    }
    template <int HOW> __device__ void pack(float (&v)[W], const float (&s)[W], const float (&t)[W], uint32_t in) const
    {
        if (X::PAIR && form.tv)
            pack_of<HOW, true>(v, s, t, in);
        else
            pack_of<HOW, false>(v, s, t, in);
    }
    template <int HOW> __device__ float one(float s, float t, bool in) const
    {
        return X::PAIR && form.tv ? of<HOW, true>(s, t, in) : of<HOW>(s, t, in);
    }
};

/* Where rows stay in shared memory: the gradient of each pack. As soon as a pack has been read that of the next row is
 * asked for: nothing of that row can be added up before all of it is there. */
template <class X, int HOW>
RT_DEVICE void write_swift(const Slice<X> &r, const Gradient<X> &g, uint32_t next, bool asks)
{
    using S = typename X::S;
    constexpr uint32_t THREADS = RT_CUDA_KD_THREADS;
    const uint32_t with_teacher = r.first < r.p.a.U / W ? r.p.a.U / W - r.first : 0;
    S *to = r.student(r.row, threadIdx.x);
    const S *next_s = r.student(next, threadIdx.x);
    const char *next_t = r.teacher(next, threadIdx.x);
    const auto put = [&](uint32_t at_s, uint32_t at_t, uint32_t in, bool taught) {
        float s[W], t[W], v[W];
        widen<S>(s, at_s);
        if (X::TEACHER) widen<S>(t, at_t);
        if (asks) fetch_async<W * sizeof(S)>(at_s, next_s);
        if (X::TEACHER && asks && taught) fetch_async<W * sizeof(S)>(at_t, next_t);
        fetch_close();
        g.template pack<HOW>(v, s, t, in);
        store(to, v, Whole());
        to += THREADS * W, next_s += THREADS * W, next_t += THREADS * W * sizeof(S);
    };
    r.each(0, r.clean, [&](uint32_t, uint32_t at_s, uint32_t at_t) { put(at_s, at_t, 255, true); });
    r.each(r.clean, r.mine,
           [&](uint32_t k, uint32_t at_s, uint32_t at_t) { put(at_s, at_t, r.in_vc(k), k < with_teacher); });
}

/* The last walk. The target's column is written again behind it; what it has to be is found before its logits go. */
template <class X> RT_DEVICE void write_row(Slice<X> &r, uint32_t next, bool asks)
{
    const Gradient<X> g(r);
    const uint32_t k = r.target / W - r.first, i = r.target % W;
    const bool owns = threadIdx.x == r.c->owner;
    float fix = 0.0f;
    if (owns) {
        const float s = r.student_at(k, i), t = X::TEACHER ? r.teacher_at(k, i) : 0.0f;
        const bool in = r.in_vc(k) >> i & 1;
        const float v = r.p.how == RT_CUDA_KD_APART    ? g.template one<RT_CUDA_KD_APART>(s, t, in)
                        : r.p.how == RT_CUDA_KD_SAME   ? g.template one<RT_CUDA_KD_SAME>(s, t, in)
                        : r.p.how == RT_CUDA_KD_SQUARE ? g.template one<RT_CUDA_KD_SQUARE>(s, t, in)
                                                       : g.template one<RT_CUDA_KD_FOURTH>(s, t, in);
        fix = (float)(v - r.head->ce);
    }
    if constexpr (X::SWIFT) {
        if (X::FORM == RT_CUDA_KD_CE || r.p.how == RT_CUDA_KD_SAME)
            write_swift<X, RT_CUDA_KD_SAME>(r, g, next, asks);
        else if (X::SIZE == 4 || r.p.how == RT_CUDA_KD_APART)
            write_swift<X, RT_CUDA_KD_APART>(r, g, next, asks);
        else if (r.p.how == RT_CUDA_KD_SQUARE)
            write_swift<X, RT_CUDA_KD_SQUARE>(r, g, next, asks);
        else
            write_swift<X, RT_CUDA_KD_FOURTH>(r, g, next, asks);
    } else {
        r.template walk<LAST>(next, asks, [&](uint32_t at) {
            float s[W], t[W], v[W];
            r.widen_both(s, t);
            if (r.p.how)
                g.template pack<RT_CUDA_KD_SAME>(v, s, t, r.in_vc(at));
            else
                g.template pack<RT_CUDA_KD_APART>(v, s, t, r.in_vc(at));
            r.write(at, v);
        });
    }
    if (owns) narrow(r.student(r.row, k) + i, fix);
}

/* Where a row is not written, or has no target: its gradient is 0 then. */
template <class X> RT_DEVICE void pass_row(Slice<X> &r, uint32_t next, bool asks, bool zeros)
{
    const float zero[W] = {};
    r.template walk<LAST>(next, asks, [&](uint32_t k) {
        if (zeros) r.write(k, zero);
    });
}

/* ---- a row ---- */

/* The next row that nobody has, in the first thread of a cluster. Two it has from the start; it draws another for each
 * row that it does. Which cluster has a row leaves no trace in its numbers. */
RT_DEVICE uint32_t draw(const rt_cuda_kd_params &p)
{
    const bool first = cluster_rank() == 0 && threadIdx.x == 0;
    return first ? 2 * (gridDim.x / p.blocks) + atomicAdd((uint32_t *)p.drawn, 1u) : 0;
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
    if (record) settle(r, join_row<X>(record, cluster_size() * warps, r.p.how == RT_CUDA_KD_SAME));
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
    const uint32_t k = r.target / W - r.first;
    rt_cuda_kd_result *y = result_of(r);
    y->rank_s[cluster_rank()] = y->rank_t[cluster_rank()] = 0;
    r.c->owner = k < r.packs && r.target < r.p.a.V ? k % blockDim.x : UINT32_MAX;
}

/* Puts the first column of a pack that is in Vc and has this value into the result; false: there is none. */
RT_DEVICE bool report_first(uint64_t *rank, const float (&v)[W], uint32_t in, float best, uint32_t col)
{
    uint32_t at = W;
#pragma unroll
    for (int i = W; i-- > 0;)
        if ((in >> i & 1) && v[i] == best) at = i;
    if (at < W) raise(rank, kd_rank(best, col + at));
    return at < W;
}

/* Behind that, by the threads that have the row's best columns. */
template <class X> RT_DEVICE void report_best(const Walk<X> &w)
{
    const Slice<X> &r = w.r;
    bool seek_s = w.best_s == r.c->best_s, seek_t = X::TEACHER && w.best_t == r.c->best_t;
    if (!r.c->some || (!X::TEACHER && !X::LIST)) return;
    rt_cuda_kd_result *y = result_of(r);
    for (uint32_t k = threadIdx.x; k < r.packs && (seek_s || seek_t); k += blockDim.x) {
        const uint32_t in = r.in_vc(k), col = (r.first + k) * W;
        float v[W];
        if (seek_s && (X::SWIFT || k == w.at_s)) {
            r.student_pack(v, k);
            seek_s = !report_first(&y->rank_s[cluster_rank()], v, in, w.best_s, col);
        }
        if (seek_t && (X::SWIFT || k == w.at_t)) {
            r.teacher_pack(v, k);
            seek_t = !report_first(&y->rank_t[cluster_rank()], v, in, w.best_t, col);
        }
    }
}

/* Squaring doubles the error of an exponential. Where a column has most of the mass, and CE is small, z1 may not have
 * that of this column: what is missing of it. (The gradient keeps it: what it divides by z1 has it too.) */
RT_DEVICE double mend(const rt_cuda_kd_params &p, const Consts &c)
{
    const float es = exp2_fast(fmaf(c.best_s, p.ct, -c.ks)), scale = exact_power((int32_t)(power(p.how) * c.ks - c.k1));
    return (double)exp2_poly(c.best_s, LOG2E, c.k1) - e1_of(es, p.how) * scale;
}

/* And the rest, by one thread of the first block. */
template <class X> RT_DEVICE void report(const Slice<X> &r)
{
    const Consts &c = *r.c;
    rt_cuda_kd_result *y = result_of(r);
    y->trained = r.trained();
    y->redo = r.trained() && c.flags & REDO;
    if (!r.trained()) return;
    y->z1 = c.z1 + (r.p.how >= RT_CUDA_KD_SQUARE && c.some ? mend(r.p, c) : 0), y->zs = c.zs, y->zt = c.zt;
    y->d = X::FORM == RT_CUDA_KD_FORWARD || X::REVERSE ? c.zd : c.div;
    y->k1 = c.k1, y->some = c.some;
    y->bad = c.flags & BAD;
}

/* ---- all rows ---- */

/* What comes before the rows; the first is on its way meanwhile. */
template <class X> RT_DEVICE void begin(Slice<X> &r)
{
    const rt_kd_args &a = r.p.a;
    Head *h = r.head;
    if (r.trained()) r.ask_first(r.row);
    if (r.p.bits && !X::LIST) kd_fill_bits(r.p, r.bits(), r.first, r.packs);
    if (threadIdx.x == 0) {
        const double over = 1.0 / ((const rt_step *)r.p.step)->tokens;
        h->ce = a.ce_weight * over;
        h->kd = a.kd_weight * (a.t2 ? (double)a.T : 1.0 / a.T) * over;
        mail_begin(&h->box[0]);
        mail_begin(&h->box[1]);
    }
    cluster_sync(); /* all blocks are there to be told something */
    for (r.clean = 0; r.clean < r.mine && r.in_vc(threadIdx.x + r.clean * blockDim.x) == 255;) r.clean++;
    if (X::SWIFT) r.differs = __any_sync(RT_EVERY_LANE, r.clean < r.mine);
}

/* Clusters begin one behind the other, all within about the time of a row: some read while others compute, and go on
 * so. Not worth it where they have few rows each. */
RT_DEVICE void begin_in_turn(const rt_cuda_kd_params &p)
{
    enum { ROWS = 16 };
    const uint32_t clusters = gridDim.x / p.blocks;
    if (p.a.N / clusters < ROWS) return;
    for (const long long begun = clock64(), delay = blockIdx.x / p.blocks * (p.packs * p.cycles / clusters);
         clock64() - begun < delay;) {}
}

template <class X> __device__ void kd_rows(const rt_cuda_kd_params &p)
{
    if (cluster_size() != p.blocks) __trap();          /* launched for another architecture than compiled for */
    const bool clerk = threadIdx.x == blockDim.x - 32; /* of another warp than the one that settles */
    Slice<X> r = slice_of<X>(p);
    uint32_t next = (gridDim.x + blockIdx.x) / p.blocks, exchange = 0, turn = 0;
    r.row = blockIdx.x / p.blocks, r.target = (uint32_t)target_of(p, r.row);
    begin_in_turn(p);
    begin(r);
    while (r.row < p.a.N) {
        const int32_t next_target = target_of(p, next);
        const uint32_t after = draw(p);
        const Consts &c = *(r.c = &r.head->c[turn ^= 1]);
        if (clerk) report_begin(r);
        Walk<X> w = { r };
        w.clear();
        if (X::LIST && r.trained()) w.flags = take_list(r);
        if (r.trained()) w.run();
        meet(r, exchange++, w.join(after));
        if (r.trained() && !(c.flags & REDO)) {
            report_best(w);
            if (X::PAIR && c.some) pair_walk(r, exchange++);
            if (X::LIST) list_terms(r);
        }
        if (clerk && cluster_rank() == 0) report(r);
        if (threadIdx.x == c.owner) result_of(r)->s = r.student_at(r.target / W - r.first, r.target % W);
        if (r.trained() && p.a.grad && !(c.flags & REDO)) {
            write_row(r, next, next_target >= 0);
            if (X::LIST) write_listed(r);
        } else {
            pass_row(r, next, next_target >= 0, p.a.grad && !r.trained());
        }
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
#define KERNEL(kernel, S, form, swift, fit)                                                                            \
    extern "C" __global__ void __launch_bounds__(RT_CUDA_KD_THREADS, fit) kernel(const rt_cuda_kd_params p)            \
    {                                                                                                                  \
        begin_kernel();                                                                                                \
        next_may_begin(); /* a few blocks */                                                                           \
        kd_rows<Kind<S, form, swift>>(p);                                                                              \
    }
#define BOTH(form, kernel, S, fit)                                                                                     \
    KERNEL(kernel, S, form, false, fit)                                                                                \
    KERNEL(swift_##kernel, S, form, true, fit)
#define KERNELS(name, S)                                                                                               \
    BOTH(RT_CUDA_KD_CE, kd_ce_##name, S, FIT)                                                                          \
    BOTH(RT_CUDA_KD_FORWARD, kd_forward_##name, S, sizeof(S) == 2 ? FIT : 1)                                           \
    BOTH(RT_CUDA_KD_REVERSE, kd_reverse_##name, S, sizeof(S) == 2 ? FIT : 1)                                           \
    BOTH(RT_CUDA_KD_PAIR, kd_pair_##name, S, sizeof(S) == 2 ? FIT : 1)                                                 \
    KERNEL(kd_list_##name, S, RT_CUDA_KD_LIST, false, 1)
RT_FOR_FLOATS(KERNELS)
