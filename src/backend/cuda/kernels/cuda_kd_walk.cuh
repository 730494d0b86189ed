/* cuda_kd_walk.cuh - the first walk of kd_loss over a block's slice of a row: exponentials, their sums, the best
 * columns; and the join of what the warps of a row have found. */
#ifndef RT_BACKEND_CUDA_KERNELS_CUDA_KD_WALK_CUH
#define RT_BACKEND_CUDA_KERNELS_CUDA_KD_WALK_CUH

#include "backend/cuda/kernels/cuda_kd_row.cuh"

namespace
{
template <class X> struct Walk {
    using S = typename X::S;
    Slice<X> &r;
    float k1, ks, kt;
    float z1, zs, zt, d;
    float line; /* a sum that is finite only if every value was */
    float best_s, best_t;
    uint32_t at_s, at_t; /* packs of the best */
    uint32_t flags;

    __device__ void clear()
    {
        k1 = ks = kt = NO_K;
        z1 = zs = zt = d = line = 0.0f;
        best_s = best_t = -RT_INFINITY;
        at_s = at_t = flags = 0;
    }

    /* New references, near c x of a largest x that is too far above the old one. */
    __device__ void lift_s(float x)
    {
        const float to = rintf(x * r.p.ct), up = to - ks, f = exact_power(-up);
        if (X::TEACHER) d = X::REVERSE ? f * (d - up * zs) : d + up * zt;
        zs *= f;
        if (r.p.one) z1 *= f;
        ks = to;
    }
    __device__ void lift_t(float x)
    {
        const float to = rintf(x * r.p.ct), up = to - kt, f = exact_power(-up);
        d = X::REVERSE ? d + up * zs : f * (d - up * zt);
        zt *= f;
        kt = to;
    }
    __device__ void lift_1(float x)
    {
        const float to = rintf(x * LOG2E);
        z1 *= exact_power(k1 - to);
        k1 = to;
    }
    /* m1, ms, mt: the largest of the pack, of all columns, of those in Vc, of the teacher's. */
    __device__ void lift(float m1, float ms, float mt, uint32_t k)
    {
        const float top = r.p.one ? m1 : ms, up_s = fmaf(top, r.p.ct, -ks), up_t = fmaf(mt, r.p.ct, -kt);
        const float up_1 = r.p.one ? up_s : fmaf(m1, LOG2E, -k1);
        if (ms > best_s) best_s = ms, at_s = k;
        if (X::TEACHER && mt > best_t) best_t = mt, at_t = k;
        if (fmaxf(fmaxf(up_1, up_s), X::TEACHER ? up_t : up_s) <= 1.0f) return;
        if (up_s > 1.0f) lift_s(top);
        if (!r.p.one && up_1 > 1.0f) lift_1(m1);
        if (X::TEACHER && up_t > 1.0f) lift_t(mt);
    }

    /* A pack that is all in Vc. */
    __device__ void whole(const float (&s)[W], const float (&t)[W])
    {
        const float c = r.p.ct;
#pragma unroll
        for (int i = 0; i < W; i++) {
            const float a = fmaf(s[i], c, -ks), es = power_of_two<S>(s[i], c, ks);
            zs += es;
            if (!X::TEACHER) {
                line += a;
                continue;
            }
            const float b = fmaf(t[i], c, -kt), et = power_of_two<S>(t[i], c, kt);
            zt += et;
            if (X::PAIR)
                line += a - b;
            else
                d = X::REVERSE ? fmaf(es, a - b, d) : fmaf(et, b - a, d);
        }
        if (r.p.one) return;
#pragma unroll
        for (int i = 0; i < W; i++) z1 += power_of_two<S>(s[i], LOG2E, k1);
    }
    /* A pack with columns outside Vc, or behind the end: they count as 0, whatever is there. */
    __device__ void part(const float (&s)[W], const float (&t)[W], uint32_t have, uint32_t in)
    {
        const float c = r.p.ct;
#pragma unroll
        for (int i = 0; i < W; i++) {
            const bool there = have >> i & 1, mine = in >> i & 1;
            const float a = fmaf(s[i], c, -ks), es = power_of_two<S>(s[i], c, ks);
            zs += mine ? es : 0.0f;
            line += there ? a : 0.0f;
            if (r.p.one)
                z1 += there && !mine ? es : 0.0f;
            else
                z1 += there ? power_of_two<S>(s[i], LOG2E, k1) : 0.0f;
            if (!X::TEACHER) continue;
            const float b = fmaf(t[i], c, -kt), et = power_of_two<S>(t[i], c, kt);
            zt += mine ? et : 0.0f;
            line += mine ? b : 0.0f;
            if (!X::PAIR) d += mine ? (X::REVERSE ? es * (a - b) : et * (b - a)) : 0.0f;
        }
    }
    __device__ void maxima(const float (&s)[W], const float (&t)[W], uint32_t have, uint32_t in, float &m1, float &ms,
                           float &mt) const
    {
        m1 = ms = mt = -RT_INFINITY;
#pragma unroll
        for (int i = 0; i < W; i++) {
            m1 = have >> i & 1 ? fmaxf(m1, s[i]) : m1;
            ms = in >> i & 1 ? fmaxf(ms, s[i]) : ms;
            if (X::TEACHER) mt = in >> i & 1 ? fmaxf(mt, t[i]) : mt;
        }
    }
    /* References from the warp's first packs, so that few threads have to move their own later. */
    __device__ void refer(float m1, float ms, float mt)
    {
        m1 = lanes_max(m1);
        ms = r.p.one || !r.p.bits ? m1 : lanes_max(ms);
        if (m1 > NO_K && is_finite(m1)) k1 = rintf(m1 * LOG2E);
        if (ms > NO_K && is_finite(ms)) ks = rintf(ms * r.p.ct);
        if (!X::TEACHER) return;
        mt = lanes_max(mt);
        if (mt > NO_K && is_finite(mt)) kt = rintf(mt * r.p.ct);
    }

    __device__ void run()
    {
        r.template walk<FIRST>(r.row, true, [&](uint32_t k) {
            const uint32_t in = r.in_vc(k);
            float s[W], t[W], m1, ms, mt = NO_K;
            r.widen(s, t);
            if (in == 255) {
                m1 = ms = largest(s);
                if (X::TEACHER) mt = largest(t);
            } else {
                maxima(s, t, r.exists(k), in, m1, ms, mt);
            }
            if (k == threadIdx.x) refer(m1, ms, mt);
            lift(m1, ms, mt, k);
            if (in == 255)
                whole(s, t);
            else
                part(s, t, r.exists(k), in);
        });
    }

    /* The warp's, in every lane. */
    __device__ Record join(uint32_t drawn) const
    {
        const bool odd = !is_finite(z1 + zs + zt) || !is_finite(d) || !is_finite(line);
        Record x = { { lanes_max(k1), lanes_max(ks), lanes_max(kt) }, lanes_max(best_s), lanes_max(best_t) };
        const float up_s = ks - x.k[KS], up_t = kt - x.k[KT], fs = exact_power(up_s), ft = exact_power(up_t);
        x.z[Z1] = lanes_sum(z1 * (r.p.one ? fs : exact_power(k1 - x.k[K1])));
        x.z[ZS] = lanes_sum(zs * fs);
        if (X::TEACHER) {
            x.z[ZT] = lanes_sum(zt * ft);
            x.z[ZD] = lanes_sum(X::REVERSE ? fs * (d + zs * (up_s - up_t)) : ft * (d + zt * (up_t - up_s)));
        }
        x.flags = __any_sync(RT_EVERY_LANE, odd) ? REDO : 0;
        if (X::LIST)
            x.flags |= (__any_sync(RT_EVERY_LANE, flags & BAD) ? BAD : 0) |
                       (__any_sync(RT_EVERY_LANE, flags & TWICE) ? TWICE : 0);
        x.drawn[0] = drawn;
        return x;
    }
};

/* kd_rank of the first column of a pack that is in Vc and whose value is best. */
template <class E> RT_DEVICE uint64_t first_of(const E *pack, uint32_t in, float best, uint32_t col)
{
    uint32_t i = 0;
#pragma unroll 1
    while (i < W - 1 && !((in >> i & 1) && to_float(pack[i]) == best)) i++;
    return kd_rank(best, col + i);
}

/* ---- from the warps of a row to its constants, by one warp ---- */

struct RowSums {
    float k[KINDS], best_s, best_t;
    double z[SUMS];
    uint32_t flags, after;
};
/* 2^n, n an integer and not positive; 0 where that is too small to count */
RT_DEVICE double exact_power(double n) { return n < -1000 ? 0.0 : __longlong_as_double((long long)(n + 1023) << 52); }

/* n records, 32 at a time */
template <class X> RT_DEVICE RowSums join_row(const Record *record, uint32_t n, bool one)
{
    const uint32_t lane = threadIdx.x % 32;
    RowSums x = { { NO_K, NO_K, NO_K }, -RT_INFINITY, -RT_INFINITY, { 0, 0, 0, 0 }, 0, record[0].drawn[0] };
    for (uint32_t i = lane; i < n; i += 32) {
#pragma unroll
        for (int j = 0; j < KINDS; j++) x.k[j] = fmaxf(x.k[j], record[i].k[j]);
        x.best_s = fmaxf(x.best_s, record[i].best_s);
        x.best_t = fmaxf(x.best_t, record[i].best_t);
        x.flags |= record[i].flags;
    }
#pragma unroll
    for (int j = 0; j < KINDS; j++) x.k[j] = lanes_max(x.k[j]);
    x.best_s = lanes_max(x.best_s);
    x.best_t = lanes_max(x.best_t);
    for (uint32_t o = 16; o > 0; o /= 2) x.flags |= __shfl_xor_sync(RT_EVERY_LANE, x.flags, o);
    for (uint32_t i = lane; i < n; i += 32) {
        const Record &y = record[i];
        const double up_s = (double)y.k[KS] - x.k[KS], up_t = (double)y.k[KT] - x.k[KT];
        const double fs = exact_power(up_s), ft = exact_power(up_t);
        x.z[Z1] += y.z[Z1] * (one ? fs : exact_power((double)y.k[K1] - x.k[K1]));
        x.z[ZS] += y.z[ZS] * fs;
        x.z[ZT] += y.z[ZT] * ft;
        x.z[ZD] += X::REVERSE ? fs * (y.z[ZD] + y.z[ZS] * (up_s - up_t)) : ft * (y.z[ZD] + y.z[ZT] * (up_t - up_s));
    }
#pragma unroll
    for (int j = 0; j < SUMS; j++) x.z[j] = lanes_sum(x.z[j]);
    if (one) {
        x.z[Z1] += x.z[ZS];
        x.k[K1] = x.k[KS];
    }
    return x;
}

/* What follows from a row's sums. The block waits for it: the slow divisions and logarithms of three numbers are done
 * by three lanes at once, and logarithms that the gradient does not need are left to kd_figures. */
template <class X> RT_DEVICE void settle(const Slice<X> &r, const RowSums &x)
{
    const uint32_t lane = threadIdx.x % 32;
    const bool some = x.best_s > -RT_INFINITY;
    const double z = lane == Z1 ? x.z[Z1] : lane == ZS ? x.z[ZS] : x.z[ZT], inv = 1 / z;
    const double inv_1 = __shfl_sync(RT_EVERY_LANE, inv, Z1), inv_t = __shfl_sync(RT_EVERY_LANE, inv, ZT);
    double inv_s = __shfl_sync(RT_EVERY_LANE, inv, ZS), logs = 0;
    if (X::REVERSE) {
        const double log = log2(z);
        logs = __shfl_sync(RT_EVERY_LANE, log, ZT) - __shfl_sync(RT_EVERY_LANE, log, ZS);
    }
    if (lane) return;
    Consts &c = *r.c;
    const double kd = r.head->kd;
    double ce = r.head->ce * inv_1;
    c.flags = x.flags, c.after = x.after, c.some = some;
    c.k1 = x.k[K1], c.ks = x.k[KS], c.kt = x.k[KT];
    c.best_s = x.best_s, c.best_t = x.best_t;
    c.z1 = x.z[Z1], c.zs = some ? x.z[ZS] : 0, c.zt = x.z[ZT], c.d = c.div = c.total = 0;
    c.a1 = c.a1s = c.both = Factor(ce);
    c.as = c.at = Factor(0.0);
    c.x0 = c.x1 = c.iq = c.ip = 0.0f;
    /* a sum far below its reference has lost terms */
    if (!(c.z1 > 0x1p-60) || (some && !(c.zs > 0x1p-60)) || (X::TEACHER && some && !(c.zt > 0x1p-60))) c.flags |= REDO;
    if (c.flags & REDO || !X::TEACHER || !some) return;
    c.d = x.z[ZD] * (X::REVERSE ? inv_s : inv_t);
    /* at T = 1 the reference is that of all columns; where those of Vc are below it, theirs goes down to them */
    const float far = r.p.one ? rintf(x.best_s * LOG2E) - c.ks : 0.0f, down = far < -100.0f ? -100.0f : far;
    if (down < 0.0f) {
        const double f = exact_power((double)down);
        c.ks += down;
        c.zs /= f;
        c.d += X::REVERSE ? -down : down;
        ce *= f;
        inv_s *= f;
        logs += down;
        c.a1s = Factor(ce);
    }
    c.as = Factor(kd * inv_s);
    c.at = Factor(-kd * inv_t);
    c.both = Factor(ce + kd * inv_s);
    c.iq = (float)inv_s;
    c.ip = (float)inv_t;
    if (!X::REVERSE) return;
    c.total = c.div = (c.d + logs) * RT_LN2;
    c.x1 = (float)(kd * inv_s * RT_LN2);
    c.x0 = (float)(kd * inv_s * (RT_LN2 * logs - c.div));
}
} // namespace

#endif
