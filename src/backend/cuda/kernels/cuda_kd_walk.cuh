/* cuda_kd_walk.cuh - the first walk of kd_loss over a block's slice of a row: exponentials, their sums, the best
 * columns.
 *
 * Owns: powers of two and their references, how packs are fetched and kept, what a row's sums and constants are. What
 * is made of them is in cuda_kd.cu, which also says how references work. */
#ifndef RT_BACKEND_CUDA_KERNELS_CUDA_KD_WALK_CUH
#define RT_BACKEND_CUDA_KERNELS_CUDA_KD_WALK_CUH

#include "backend/cuda/kernels/cuda_kd_terms.cuh"

namespace
{
constexpr int W = RT_CUDA_KD_PACK;
constexpr float LOG2E = 0x1.715476p+0f, NO_K = -1e30f, LAG = 1.0f;

/* ---- powers of two ---- */

/* 2^(c x - k), k an integer, for a power of at most 2^126; never below 2^-126. By a polynomial, 1.2e-7 off: the integer
 * part n of the power is taken off before anything is rounded. */
RT_DEVICE float exp2_poly(float x, float c, float k)
{
    const float magic = 0x1.8p23f; /* adding it rounds to an integer in the low mantissa bits */
    const float a = fmaf(x, c, -k), t = fmaxf(a, -126.0f) + magic, n = t - magic;
    const float r = a > -126.0f ? fmaf(x, c, -(k + n)) : 0.0f;
    float y = 0x1.470b4ap-13f;
    y = fmaf(y, r, 0x1.5f7276p-10f);
    y = fmaf(y, r, 0x1.3b270ep-7f);
    y = fmaf(y, r, 0x1.c6ae72p-5f);
    y = fmaf(y, r, 0x1.ebfbe2p-3f);
    y = fmaf(y, r, 0x1.62e432p-1f);
    y = fmaf(y, r, 1.0f);
    return __uint_as_float(__float_as_uint(y) + (__float_as_uint(t) << 23));
}
/* 16-bit results do not see the last bits of an exponential; f32 ones do. */
template <class T> RT_DEVICE float power_of_two(float x, float c, float k)
{
    return sizeof(T) == 4 ? exp2_poly(x, c, k) : exp2_fast(fmaf(x, c, -k));
}
/* A factor that the gradient of a row is multiplied by: f32 results see its rounding too, in every column alike. */
struct Factor {
    float high, low;
    __device__ Factor() {}
    __device__ Factor(double x) : high((float)x), low((float)(x - high)) {}
};
/* f e + v */
template <class T> RT_DEVICE float times(const Factor &f, float e, float v)
{
    return fmaf(f.high, e, sizeof(T) == 4 ? fmaf(f.low, e, v) : v);
}
/* 2^n, n an integer, at most 127; 0 below 2^-126 */
RT_DEVICE float exact_power(float n) { return n < -126.0f ? 0.0f : __uint_as_float((uint32_t)((int)n + 127) << 23); }

RT_DEVICE float largest(const float (&x)[W])
{
    return fmaxf(fmaxf(fmaxf(x[0], x[1]), fmaxf(x[2], x[3])), fmaxf(fmaxf(x[4], x[5]), fmaxf(x[6], x[7])));
}
RT_DEVICE bool is_finite(float x) { return (__float_as_uint(x) & 0x7f800000) != 0x7f800000; }

/* ---- what the walks leave ---- */

/* Sums of a thread, of a block, of a row: z1 of the student at T = 1 (in columns that are in no other sum), zs of the
 * student over Vc, zt of the teacher over Vc, each 2^-K of what it stands for; d: sum of et (at - as), or es (as - at),
 * a = c x - K. At T = 1 columns of Vc are in zs alone, and its K is that of z1 too. */
enum { K1, KS, KT, BEST_S, BEST_T, FLAGS, MAXIMA };
enum { Z1, ZS, ZT, ZD, SUMS };
enum { AT_S = MAXIMA + SUMS, AT_T, STATS }; /* ids of the best */
enum { REDO = 1, BAD = 2, TWICE = 4 };      /* flags */

struct Consts { /* of a row, the same in every block of its cluster */
    float k1, ks, kt;
    Factor a1, as, at;    /* of e1, es, et in the gradient */
    Factor a1s, both;     /* where e1 is es and counts from ks: a1 from there, and that + as */
    float x0, x1;         /* reverse KL: gradient es (x1 (as - at) + x0) */
    float iq, ip;         /* pair: q = es iq, p = et ip */
    double ce, kd;        /* weights of CE, over tokens, and of D, over tokens and T */
    double z1, zs, zt, d; /* the row's sums; d over that of its own exponentials */
    double div, total;    /* D, sum of q dD/dq */
    double lk, log2z;     /* top-k: reference and logarithm of the sum over all of Vc */
    uint64_t best;        /* rank of the student's most likely id of Vc; 0: none */
    uint32_t flags, top1;
    bool some; /* Vc, less the listed ids, has a column */
};

struct Head {
    double stat[STATS];
    double pair[2];
    double room_d[32][SUMS];
    float room_f[32][MAXIMA];
    double room[32];
    uint64_t room_u[32];
    Consts c;
    uint32_t at_s, at_t;
    float s_target;
};
static_assert(sizeof(Head) <= RT_CUDA_KD_HEAD, "the head of shared memory");

/* ---- packs ---- */

template <class TS, int TB> struct Packs {
    Raw<W *(int)sizeof(TS)> s;
    Raw<W * TB> t;
};

/* n elements of 2 or 4 bytes, one by one */
template <int SIZE> RT_DEVICE Raw<W * SIZE> gather(const char *from, uint32_t n)
{
    Raw<W * SIZE> r;
#pragma unroll
    for (int i = 0; i < W * SIZE / 4; i++) {
        if constexpr (SIZE == 4) {
            r.w[i] = (uint32_t)i < n ? ((const uint32_t *)from)[i] : 0;
        } else {
            const uint16_t *h = (const uint16_t *)from;
            r.w[i] =
                ((uint32_t)2 * i < n ? h[2 * i] : 0) | ((uint32_t)2 * i + 1 < n ? (uint32_t)h[2 * i + 1] << 16 : 0);
        }
    }
    return r;
}

template <class TS, int TB> struct Row {
    const rt_cuda_kd_params &p;
    Head *head;
    uint8_t *bits;                   /* of the slice */
    Raw<W *(int)sizeof(TS)> *kept_s; /* (packs) */
    Raw<W * TB> *kept_t;             /* (packs) */
    const char *s, *t;               /* the row */
    uint32_t row, target;
    uint32_t first, packs; /* the slice */
    float ct;
    bool one; /* e1 is es: T is 1, or there is no D */

    __device__ Packs<TS, TB> fetch(uint32_t k) const
    {
        const uint64_t col = ((uint64_t)first + k) * W;
        const uint32_t ns = p.a.V - col < W ? (uint32_t)(p.a.V - col) : W;
        const uint32_t nt = col >= p.a.U ? 0 : p.a.U - col < W ? (uint32_t)(p.a.U - col) : W;
        Packs<TS, TB> x;
        if (p.s_whole && ns == W)
            x.s = load_raw<W *(int)sizeof(TS)>(s + col * sizeof(TS));
        else
            x.s = gather<(int)sizeof(TS)>(s + col * sizeof(TS), ns);
        if (p.t_whole && nt == W)
            x.t = load_raw<W * TB>(t + col * TB);
        else
            x.t = gather<TB>(t + col * TB, nt);
        return x;
    }
    __device__ Packs<TS, TB> again(uint32_t k) const
    {
        if (!p.keep) return fetch(k);
        Packs<TS, TB> x;
        x.s = load_raw<W *(int)sizeof(TS)>(kept_s + k);
        x.t = {};
        if (p.a.U) x.t = load_raw<W * TB>(kept_t + k);
        return x;
    }
    __device__ void keep(uint32_t k, const Packs<TS, TB> &x) const
    {
        store_raw(kept_s + k, x.s);
        if (p.a.U) store_raw(kept_t + k, x.t);
    }
    __device__ void widen(float (&xs)[W], float (&xt)[W], const Packs<TS, TB> &x) const
    {
        unpack<TS, W>(xs, x.s);
        if constexpr (TB == 4) {
            unpack<float, W>(xt, x.t);
        } else if (p.t_dtype == RT_DTYPE_BF16) {
            unpack<bf16, W>(xt, x.t);
        } else {
            unpack<f16, W>(xt, x.t);
        }
    }
    /* Bit i: column i of the pack exists; is in Vc and not listed. */
    __device__ uint32_t exists(uint32_t k) const
    {
        const uint64_t col = ((uint64_t)first + k) * W;
        return p.a.V - col < W ? (1u << (p.a.V - col)) - 1 : 255;
    }
    __device__ uint32_t in_vc(uint32_t k) const { return p.bits ? bits[k] : exists(k); }
};

/* ---- the first walk ---- */

template <class TS, int TB> struct Walk {
    const Row<TS, TB> &r;
    float k1, ks, kt, z1, zs, zt, d;
    float line; /* a sum that is finite only if every value was */
    float best_s, best_t;
    uint32_t at_s, at_t; /* packs of the best */
    bool odd;            /* a value of a partial pack was not finite */

    /* New references, near c x of the largest x. */
    __device__ void lift_s(float top)
    {
        const float to = rintf(top), up = to - ks, f = exact_power(-up);
        d = r.p.form == RT_CUDA_KD_REVERSE ? f * (d - up * zs) : d + up * zt;
        zs *= f;
        if (r.one) z1 *= f;
        ks = to;
    }
    __device__ void lift_t(float top)
    {
        const float to = rintf(top), up = to - kt, f = exact_power(-up);
        d = r.p.form == RT_CUDA_KD_REVERSE ? d + up * zs : f * (d - up * zt);
        zt *= f;
        kt = to;
    }
    __device__ void lift_1(float top)
    {
        const float to = rintf(top);
        z1 *= exact_power(k1 - to);
        k1 = to;
    }

    /* A pack that is all in Vc. */
    __device__ void whole(const float (&s)[W], const float (&t)[W], uint32_t k)
    {
        const float c = r.ct, ms = largest(s);
        if (ms > best_s) best_s = ms, at_s = k;
        if (ms * c > ks + LAG) lift_s(ms * c);
        if (r.p.a.U) {
            const float mt = largest(t);
            if (mt > best_t) best_t = mt, at_t = k;
            if (mt * c > kt + LAG) lift_t(mt * c);
        }
        if (!r.one) {
            if (ms * LOG2E > k1 + LAG) lift_1(ms * LOG2E);
#pragma unroll
            for (int i = 0; i < W; i++) z1 += power_of_two<TS>(s[i], LOG2E, k1);
        }
        const uint32_t form = r.p.form;
        if (form == RT_CUDA_KD_STUDENT) {
#pragma unroll
            for (int i = 0; i < W; i++) {
                const float a = fmaf(s[i], c, -ks);
                zs += power_of_two<TS>(s[i], c, ks);
                line += a;
            }
        } else if (form == RT_CUDA_KD_FORWARD) {
#pragma unroll
            for (int i = 0; i < W; i++) {
                const float a = fmaf(s[i], c, -ks), b = fmaf(t[i], c, -kt), e = power_of_two<TS>(t[i], c, kt);
                zs += power_of_two<TS>(s[i], c, ks);
                zt += e;
                d = fmaf(e, b - a, d);
            }
        } else {
#pragma unroll
            for (int i = 0; i < W; i++) {
                const float a = fmaf(s[i], c, -ks), b = fmaf(t[i], c, -kt), e = power_of_two<TS>(s[i], c, ks);
                zs += e;
                zt += power_of_two<TS>(t[i], c, kt);
                if (form == RT_CUDA_KD_REVERSE)
                    d = fmaf(e, a - b, d);
                else
                    line += a - b;
            }
        }
    }

    /* A pack with columns outside Vc, or behind the end. */
    __device__ void part(const float (&s)[W], const float (&t)[W], uint32_t k, uint32_t have, uint32_t in)
    {
        const float c = r.ct, low = -RT_INFINITY;
        float m1 = low, ms = low, mt = low;
#pragma unroll
        for (int i = 0; i < W; i++) {
            if (have >> i & 1) {
                m1 = fmaxf(m1, s[i]);
                odd = odd || !is_finite(s[i]);
            }
            if (in >> i & 1) {
                ms = fmaxf(ms, s[i]);
                mt = fmaxf(mt, t[i]);
                odd = odd || (r.p.a.U && !is_finite(t[i]));
            }
        }
        if (ms > best_s) best_s = ms, at_s = k;
        if (mt > best_t) best_t = mt, at_t = k;
        const float top = r.one ? m1 : ms;
        if (top * c > ks + LAG) lift_s(top * c);
        if (mt * c > kt + LAG) lift_t(mt * c);
        if (!r.one && m1 * LOG2E > k1 + LAG) lift_1(m1 * LOG2E);
#pragma unroll
        for (int i = 0; i < W; i++) {
            const bool mine = in >> i & 1;
            if (!(have >> i & 1)) continue;
            if (!r.one) z1 += power_of_two<TS>(s[i], LOG2E, k1);
            const float a = fmaf(s[i], c, -ks);
            if (r.one && !mine) z1 += power_of_two<TS>(s[i], c, ks);
            if (!mine) continue;
            const float es = power_of_two<TS>(s[i], c, ks);
            zs += es;
            if (!r.p.a.U) continue;
            const float b = fmaf(t[i], c, -kt), et = power_of_two<TS>(t[i], c, kt);
            zt += et;
            if (r.p.form == RT_CUDA_KD_FORWARD) d = fmaf(et, b - a, d);
            if (r.p.form == RT_CUDA_KD_REVERSE) d = fmaf(es, a - b, d);
        }
    }

    /* References from the block's first packs. */
    __device__ void begin(const Packs<TS, TB> &x)
    {
        float s[W], t[W], m1 = NO_K, ms = NO_K, mt = NO_K;
        r.widen(s, t, x);
        if (threadIdx.x < r.packs) {
            const uint32_t have = r.exists(threadIdx.x), in = r.in_vc(threadIdx.x);
#pragma unroll
            for (int i = 0; i < W; i++) {
                if (have >> i & 1) m1 = fmaxf(m1, s[i]);
                if (in >> i & 1) ms = fmaxf(ms, s[i]), mt = fmaxf(mt, t[i]);
            }
        }
        float m[3] = { m1, r.one ? m1 : ms, mt };
#pragma unroll
        for (int i = 0; i < 3; i++) {
            m[i] = lanes_max(m[i]);
            if (threadIdx.x % 32 == 0) r.head->room_f[threadIdx.x / 32][i] = m[i];
        }
        __syncthreads();
#pragma unroll
        for (int i = 0; i < 3; i++)
            m[i] = lanes_max(threadIdx.x % 32 < blockDim.x / 32 ? r.head->room_f[threadIdx.x % 32][i] : NO_K);
        if (m[0] > NO_K && is_finite(m[0])) k1 = rintf(m[0] * LOG2E);
        if (m[1] > NO_K && is_finite(m[1])) ks = rintf(m[1] * r.ct);
        if (m[2] > NO_K && is_finite(m[2])) kt = rintf(m[2] * r.ct);
        __syncthreads(); /* the room is used again */
    }

    __device__ void run()
    {
        Packs<TS, TB> x = {}, next;
        if (threadIdx.x < r.packs) x = r.fetch(threadIdx.x);
        begin(x);
        for (uint32_t k = threadIdx.x; k < r.packs; k += blockDim.x) {
            if (k + blockDim.x < r.packs) next = r.fetch(k + blockDim.x);
            if (r.p.keep) r.keep(k, x);
            float s[W], t[W];
            r.widen(s, t, x);
            const uint32_t have = r.exists(k), in = r.in_vc(k);
            if (in == 255)
                whole(s, t, k);
            else
                part(s, t, k, have, in);
            x = next;
        }
        if (!is_finite(z1 + zs + zt) || !is_finite(d) || !is_finite(line)) odd = true;
    }

    /* The first column of pack k that is in Vc and whose value is best. */
    __device__ uint32_t column(uint32_t k, float best, bool teacher) const
    {
        float s[W], t[W];
        r.widen(s, t, r.again(k));
        const uint32_t in = r.in_vc(k);
        uint32_t at = W;
#pragma unroll
        for (int i = W; i-- > 0;)
            if ((in >> i & 1) && (teacher ? t[i] : s[i]) == best) at = i;
        return (r.first + k) * W + at;
    }
};

/* ---- sums over a block and over a cluster ---- */

/* The block's maxima and sums from the threads'; every thread gets the maxima, thread 0 writes both to head->stat. */
template <class TS, int TB> RT_DEVICE void join_block(Walk<TS, TB> &w, uint32_t flags)
{
    Head *h = w.r.head;
    const uint32_t lane = threadIdx.x % 32, warp = threadIdx.x / 32, warps = blockDim.x / 32;
    float m[MAXIMA] = { w.k1, w.ks, w.kt, w.best_s, w.best_t, 0.0f };
#pragma unroll
    for (int i = 0; i < FLAGS; i++) m[i] = lanes_max(m[i]);
    m[FLAGS] = (float)((__any_sync(RT_EVERY_LANE, flags & REDO) ? REDO : 0) |
                       (__any_sync(RT_EVERY_LANE, flags & BAD) ? BAD : 0) |
                       (__any_sync(RT_EVERY_LANE, flags & TWICE) ? TWICE : 0));
#pragma unroll
    for (int i = 0; i < MAXIMA; i++)
        if (lane == 0) h->room_f[warp][i] = m[i];
    __syncthreads();
    uint32_t all = 0;
#pragma unroll
    for (int i = 0; i < FLAGS; i++) m[i] = lanes_max(lane < warps ? h->room_f[lane][i] : -RT_INFINITY);
    for (uint32_t i = 0; i < warps; i++) all |= (uint32_t)h->room_f[i][FLAGS];
    if (w.best_s == m[BEST_S] && w.best_s > -RT_INFINITY) atomicMin(&h->at_s, w.column(w.at_s, w.best_s, false));
    if (w.best_t == m[BEST_T] && w.best_t > -RT_INFINITY) atomicMin(&h->at_t, w.column(w.at_t, w.best_t, true));
    const float up_s = w.ks - m[KS], up_t = w.kt - m[KT], fs = exact_power(up_s), ft = exact_power(up_t);
    const bool reverse = w.r.p.form == RT_CUDA_KD_REVERSE;
    float z[SUMS];
    z[Z1] = w.z1 * (w.r.one ? fs : exact_power(w.k1 - m[K1]));
    z[ZS] = w.zs * fs;
    z[ZT] = w.zt * ft;
    z[ZD] = reverse ? fs * (w.d + w.zs * (up_s - up_t)) : ft * (w.d + w.zt * (up_t - up_s));
#pragma unroll
    for (int i = 0; i < SUMS; i++) {
        const float sum = lanes_sum(z[i]);
        if (lane == 0) h->room_d[warp][i] = sum;
    }
    __syncthreads();
    if (threadIdx.x < SUMS) {
        double sum = 0;
        for (uint32_t i = 0; i < warps; i++) sum += h->room_d[i][threadIdx.x];
        h->stat[MAXIMA + threadIdx.x] = sum;
    }
    if (threadIdx.x == 0) {
        for (int i = 0; i < FLAGS; i++) h->stat[i] = m[i];
        h->stat[FLAGS] = all;
        h->stat[AT_S] = h->at_s;
        h->stat[AT_T] = h->at_t;
    }
}
} // namespace

#endif
