/* cuda_kd_walk.cuh - the first walk of kd_loss over a block's slice of a row: exponentials, their sums, the best
 * columns; and the join of what the warps of a row have found. */
#ifndef RT_BACKEND_CUDA_KERNELS_CUDA_KD_WALK_CUH
#define RT_BACKEND_CUDA_KERNELS_CUDA_KD_WALK_CUH

#include "backend/cuda/kernels/cuda_kd_row.cuh"

namespace
{
/* The largest element of packs as they are stored. */
template <class T> struct Peak {
    uint32_t top = sizeof(T) == 2 && twins<T>::high(0xff80ff80u) < -1e30f ? 0xff80ff80u : 0xfc00fc00u;
    __device__ void add(const Raw<2 * W> &x)
    {
        top = twins_max<T>(top, twins_max<T>(twins_max<T>(x.w[0], x.w[1]), twins_max<T>(x.w[2], x.w[3])));
    }
    __device__ float value() const { return fmaxf(twins<T>::low(top), twins<T>::high(top)); }
};
template <> struct Peak<float> {
    float top = -RT_INFINITY;
    __device__ void add(const Raw<4 * W> &x)
    {
#pragma unroll
        for (int i = 0; i < W; i++) top = fmaxf(top, __uint_as_float(x.w[i]));
    }
    __device__ float value() const { return top; }
};

/* What a thread finds. Maxima: of all columns, of the student's in Vc, of the teacher's. */
template <class X> struct Walk {
    using S = typename X::S;
    Slice<X> &r;
    float k1, ks, kt;
    float from_ks; /* e1 that comes from es counts from a multiple of ks: the factor to what counts from k1 */
    float z1, zs, zt, d;
    float line; /* a sum that is finite only if every value was */
    float best_s, best_t;
    uint32_t at_s, at_t; /* packs of the best (not swift) */
    uint32_t flags;

    __device__ void clear()
    {
        k1 = ks = kt = NO_K;
        from_ks = z1 = zs = zt = d = line = 0.0f;
        best_s = best_t = -RT_INFINITY;
        at_s = at_t = flags = 0;
    }

    /* A pack that is all in Vc. It is added up by itself: equal terms round the same way every time. */
    template <int HOW> __device__ void whole(const float (&s)[W], const float (&t)[W])
    {
        const float c = r.p.ct;
        float y1 = 0.0f, ys = 0.0f, yt = 0.0f, yd = 0.0f;
#pragma unroll
        for (int i = 0; i < W; i++) {
            const float a = fmaf(s[i], c, -ks), es = power_of_two<S>(s[i], c, ks);
            ys += es;
            if (HOW == RT_CUDA_KD_APART) y1 += power_of_two<S>(s[i], LOG2E, k1);
            if (HOW == RT_CUDA_KD_SQUARE) y1 = fmaf(es, es, y1);
            if (HOW == RT_CUDA_KD_FOURTH) y1 = fmaf(es * es, es * es, y1);
            if (!X::TEACHER) {
                line += a;
                continue;
            }
            const float b = fmaf(t[i], c, -kt), et = power_of_two<S>(t[i], c, kt);
            yt += et;
            if (X::PAIR)
                line += a - b;
            else
                yd = X::REVERSE ? fmaf(es, a - b, yd) : fmaf(et, b - a, yd);
        }
        zs += ys, zt += yt, d += yd, z1 += y1;
    }
    /* A pack with columns outside Vc, or behind the end: they count as 0, whatever is there. */
    __device__ void part(const float (&s)[W], const float (&t)[W], uint32_t have, uint32_t in)
    {
        const float c = r.p.ct;
        float y1 = 0.0f, ys = 0.0f, yt = 0.0f, yd = 0.0f;
#pragma unroll
        for (int i = 0; i < W; i++) {
            const bool there = have >> i & 1, mine = in >> i & 1;
            const float a = fmaf(s[i], c, -ks), es = power_of_two<S>(s[i], c, ks);
            ys += mine ? es : 0.0f;
            if (mine && X::SIZE == 2 && r.p.how >= RT_CUDA_KD_SQUARE)
                y1 += e1_of(es, r.p.how) * from_ks;
            else
                y1 += there && !(mine && r.p.how) ? power_of_two<S>(s[i], LOG2E, k1) : 0.0f;
            line += there ? a : 0.0f;
            if (!X::TEACHER) continue;
            const float b = fmaf(t[i], c, -kt), et = power_of_two<S>(t[i], c, kt);
            yt += mine ? et : 0.0f;
            line += mine ? b : 0.0f;
            if (!X::PAIR) yd += mine ? (X::REVERSE ? es * (a - b) : et * (b - a)) : 0.0f;
        }
        z1 += y1, zs += ys, zt += yt, d += yd;
    }
    __device__ void maxima(const float (&s)[W], const float (&t)[W], uint32_t have, uint32_t in, float &m1, float &ms,
                           float &mt) const
    {
#pragma unroll
        for (int i = 0; i < W; i++) {
            m1 = have >> i & 1 ? fmaxf(m1, s[i]) : m1;
            ms = in >> i & 1 ? fmaxf(ms, s[i]) : ms;
            if (X::TEACHER) mt = in >> i & 1 ? fmaxf(mt, t[i]) : mt;
        }
    }
    /* References for the warp. */
    __device__ void refer(float m1, float ms, float mt)
    {
        m1 = warp_max(m1);
        ms = r.differs ? warp_max(ms) : m1;
        if (m1 > NO_K && is_finite(m1)) k1 = rintf(m1 * LOG2E);
        if (ms > NO_K && is_finite(ms)) ks = rintf(ms * r.p.ct);
        if (r.p.how >= RT_CUDA_KD_SQUARE && ks != NO_K) {
            k1 = fmaxf(k1, ks * power(r.p.how));
            from_ks = exact_power((int32_t)(ks * power(r.p.how) - k1));
        }
        if (!X::TEACHER) return;
        mt = warp_max(mt);
        if (mt > NO_K && is_finite(mt)) kt = rintf(mt * r.p.ct);
    }

    /* ---- swift: the maxima of all packs first, from what is stored; then nothing has to move ---- */

    template <int HOW> __device__ void whole_packs()
    {
        r.each(0, r.clean, [&](uint32_t, uint32_t at_s, uint32_t at_t) {
            float s[W], t[W];
            widen<S>(s, at_s);
            if (X::TEACHER) widen<S>(t, at_t);
            whole<HOW>(s, t);
        });
        if (HOW >= RT_CUDA_KD_SQUARE) z1 *= from_ks;
    }

    __device__ void run_swift()
    {
        Peak<S> top_s, top_t;
        r.each_come(r.clean, [&](uint32_t, uint32_t at_s, uint32_t at_t) {
            top_s.add(raw_pack<S>(at_s));
            if (X::TEACHER) top_t.add(raw_pack<S>(at_t));
        });
        float m1 = top_s.value(), ms = m1, mt = top_t.value();
        r.each(r.clean, r.mine, [&](uint32_t k, uint32_t at_s, uint32_t at_t) {
            float s[W], t[W];
            widen<S>(s, at_s);
            if (X::TEACHER) widen<S>(t, at_t);
            maxima(s, t, 255, r.in_vc(k), m1, ms, mt);
        });
        best_s = ms, best_t = mt;
        refer(m1, ms, mt);
        if (X::FORM == RT_CUDA_KD_CE || r.p.how == RT_CUDA_KD_SAME)
            whole_packs<RT_CUDA_KD_SAME>();
        else if (X::SIZE == 4 || r.p.how == RT_CUDA_KD_APART)
            whole_packs<RT_CUDA_KD_APART>();
        else if (r.p.how == RT_CUDA_KD_SQUARE)
            whole_packs<RT_CUDA_KD_SQUARE>();
        else
            whole_packs<RT_CUDA_KD_FOURTH>();
        r.each(r.clean, r.mine, [&](uint32_t k, uint32_t at_s, uint32_t at_t) {
            float s[W], t[W];
            widen<S>(s, at_s);
            if (X::TEACHER) widen<S>(t, at_t);
            part(s, t, 255, r.in_vc(k));
        });
    }

    /* ---- else: pack by pack. References from the warp's first packs; a thread that meets more moves its own ---- */

    __device__ void lift_s(float x)
    {
        const float to = rintf(x * r.p.ct), up = to - ks, f = exact_power((int32_t)-up);
        if (X::TEACHER) d = X::REVERSE ? f * (d - up * zs) : d + up * zt;
        zs *= f;
        ks = to;
    }
    __device__ void lift_t(float x)
    {
        const float to = rintf(x * r.p.ct), up = to - kt, f = exact_power((int32_t)-up);
        d = X::REVERSE ? d + up * zs : f * (d - up * zt);
        zt *= f;
        kt = to;
    }
    __device__ void lift_1(float x)
    {
        const float to = rintf(x * LOG2E);
        z1 *= exact_power((int32_t)(k1 - to));
        k1 = to;
    }
    __device__ void lift(float m1, float ms, float mt, uint32_t k)
    {
        if (ms > best_s) best_s = ms, at_s = k;
        if (fmaf(ms, r.p.ct, -ks) > 1.0f) lift_s(ms);
        if (fmaf(m1, LOG2E, -k1) > 1.0f) lift_1(m1);
        if (!X::TEACHER) return;
        if (mt > best_t) best_t = mt, at_t = k;
        if (fmaf(mt, r.p.ct, -kt) > 1.0f) lift_t(mt);
    }
    __device__ void run_any()
    {
        r.template walk<FIRST>(r.row, true, [&](uint32_t k) {
            const uint32_t have = r.exists(k), in = r.in_vc(k);
            float s[W], t[W], m1 = -RT_INFINITY, ms = m1, mt = m1;
            r.widen_both(s, t);
            maxima(s, t, have, in, m1, ms, mt);
            if (k == threadIdx.x) refer(m1, ms, mt);
            lift(m1, ms, mt, k);
            if (in == 255 && r.p.how)
                whole<RT_CUDA_KD_SAME>(s, t);
            else if (in == 255)
                whole<RT_CUDA_KD_APART>(s, t);
            else
                part(s, t, have, in);
        });
    }

    __device__ void run()
    {
        if constexpr (X::SWIFT)
            run_swift();
        else
            run_any();
    }

    __device__ bool far(float k) const { return fabsf(k) > MOST_K && k != NO_K; }

    /* The warp's, in every lane. */
    __device__ Record join(uint32_t drawn) const
    {
        const bool odd = !is_finite(z1 + zs + zt) || !is_finite(d) || !is_finite(line) || far(k1) || far(ks) || far(kt);
        Record x = { { 0 }, { (int32_t)k1, (int32_t)ks, (int32_t)kt }, 0, warp_max(best_s), warp_max(best_t) };
        float y1 = z1, ys = zs, yt = zt, yd = d;
        if (!X::SWIFT) {
            const int32_t k[KINDS] = { x.k[K1], x.k[KS], x.k[KT] };
            for (int i = 0; i < KINDS; i++) x.k[i] = warp_max(k[i]);
            const int32_t up_s = k[KS] - x.k[KS], up_t = k[KT] - x.k[KT];
            const float fs = exact_power(up_s), ft = exact_power(up_t), apart = (float)(up_s - up_t);
            y1 *= exact_power(k[K1] - x.k[K1]);
            ys *= fs, yt *= ft;
            yd = X::REVERSE ? fs * (d + zs * apart) : ft * (d - zt * apart);
        }
        x.z[Z1] = lanes_sum(y1);
        x.z[ZS] = lanes_sum(ys);
        if (X::TEACHER) x.z[ZT] = lanes_sum(yt);
        if (X::TEACHER) x.z[ZD] = lanes_sum(yd);
        x.flags = warp_or(flags | (odd ? REDO : 0));
        x.drawn = drawn;
        return x;
    }
};

/* ---- from the warps of a row to its constants, by one warp: the others wait ---- */

struct RowSums {
    int32_t k[KINDS];
    float best_s, best_t;
    double z[SUMS];
    uint32_t flags, after;
};

/* n records, a few to a lane. At T = 1 CE takes the columns of Vc from zs. */
template <class X> RT_DEVICE RowSums join_row(const Record *record, uint32_t n, bool same)
{
    enum { EACH = (MOST_BLOCKS * RT_CUDA_KD_THREADS / 32 + 31) / 32 };
    RowSums x = { { (int32_t)NO_K, (int32_t)NO_K, (int32_t)NO_K }, -RT_INFINITY, -RT_INFINITY };
    const Record none = { { 0 }, { (int32_t)NO_K, (int32_t)NO_K, (int32_t)NO_K }, 0, -RT_INFINITY, -RT_INFINITY };
    Record y[EACH];
    float z[SUMS] = {};
    x.after = record[0].drawn;
#pragma unroll
    for (int i = 0; i < EACH; i++) {
        y[i] = none;
        if (threadIdx.x + 32 * i < n) y[i] = record[threadIdx.x + 32 * i];
#pragma unroll
        for (int j = 0; j < KINDS; j++) x.k[j] = max(x.k[j], y[i].k[j]);
        x.best_s = fmaxf(x.best_s, y[i].best_s);
        x.best_t = fmaxf(x.best_t, y[i].best_t);
        x.flags |= y[i].flags;
    }
#pragma unroll
    for (int j = 0; j < KINDS; j++) x.k[j] = warp_max(x.k[j]);
    x.best_s = warp_max(x.best_s);
    x.best_t = warp_max(x.best_t);
    x.flags = warp_or(x.flags);
#pragma unroll
    for (int i = 0; i < EACH; i++) {
        const int32_t up_s = y[i].k[KS] - x.k[KS], up_t = y[i].k[KT] - x.k[KT];
        const float fs = exact_power(up_s), ft = exact_power(up_t), apart = (float)(up_s - up_t);
        z[Z1] += y[i].z[Z1] * exact_power(y[i].k[K1] - x.k[K1]);
        z[ZS] += y[i].z[ZS] * fs;
        z[ZT] += y[i].z[ZT] * ft;
        z[ZD] += X::REVERSE ? fs * fmaf(y[i].z[ZS], apart, y[i].z[ZD]) : ft * fmaf(-y[i].z[ZT], apart, y[i].z[ZD]);
    }
#pragma unroll
    for (int j = 0; j < SUMS; j++) x.z[j] = lanes_sum((double)z[j]);
    if (same) {
        const int32_t k = max(x.k[K1], x.k[KS]);
        x.z[Z1] = x.z[Z1] * exact_power(x.k[K1] - k) + x.z[ZS] * exact_power(x.k[KS] - k);
        x.k[K1] = k;
    }
    return x;
}

/* What follows from a row's sums; three divisions by three lanes at once. Logarithms are left to kd_figures. */
template <class X> RT_DEVICE void settle(const Slice<X> &r, const RowSums &x)
{
    using Real = Real<typename X::S>;
    const bool some = x.best_s > -RT_INFINITY;
    const Real inv = Real(1) / (Real)(threadIdx.x == Z1 ? x.z[Z1] : threadIdx.x == ZS ? x.z[ZS] : x.z[ZT]);
    const Real inv_1 = __shfl_sync(RT_EVERY_LANE, inv, Z1), inv_t = __shfl_sync(RT_EVERY_LANE, inv, ZT);
    const Real inv_s = __shfl_sync(RT_EVERY_LANE, inv, ZS);
    if (threadIdx.x) return;
    Consts &c = *r.c;
    const int32_t from = r.p.how >= RT_CUDA_KD_SQUARE ? (int32_t)power(r.p.how) * x.k[KS] : x.k[KS];
    const Real kd = (Real)r.head->kd, ce = (Real)r.head->ce * inv_1, ce_s = ce * exact_power(from - x.k[K1]);
    c.flags = x.flags, c.after = x.after, c.some = some;
    c.k1 = (float)x.k[K1], c.ks = (float)x.k[KS], c.kt = (float)x.k[KT];
    c.best_s = x.best_s, c.best_t = x.best_t;
    c.z1 = x.z[Z1], c.zs = some ? x.z[ZS] : 0, c.zt = x.z[ZT], c.zd = x.z[ZD];
    c.div = c.total = 0;
    c.a1 = Factor(ce);
    c.a1s = c.both = Factor(ce_s);
    c.as = c.at = Factor(0.0f);
    c.x0 = c.x1 = c.iq = c.ip = 0.0f;
    /* a sum far below its reference has lost terms */
    if (!(c.z1 > 0x1p-60) || (some && !(c.zs > 0x1p-60)) || (X::TEACHER && some && !(c.zt > 0x1p-60))) c.flags |= REDO;
    if (c.flags & REDO || !X::TEACHER || !some) return;
    c.as = Factor(kd * inv_s);
    c.at = Factor(-kd * inv_t);
    c.k_at = c.kt - log2_fast(-c.at.high); /* infinite where at is 0, as at et is then */
    c.both = Factor(ce_s + kd * inv_s);
    if (r.p.how == RT_CUDA_KD_FOURTH) {
        c.k4 = c.ks - 0.25f * log2_fast(fmaxf(c.a1s.high, 0x1p-120f)); /* less than that is nothing beside as es */
        c.as4 = c.as.high * exp2_fast(c.k4 - c.ks);
    }
    c.iq = (float)inv_s;
    c.ip = (float)inv_t;
    c.x1 = (float)(kd * inv_s * (Real)RT_LN2);
    c.x0 = (float)(kd * inv_s * (Real)RT_LN2 * inv_s * -(Real)x.z[ZD]);
}
} // namespace

#endif
