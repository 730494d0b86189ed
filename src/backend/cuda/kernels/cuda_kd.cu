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

/* The row's from the blocks', by one thread, in order of rank. */
struct RowSums {
    double k[3], z[SUMS], best_s, best_t, at_s, at_t;
    uint32_t flags;
};
RT_DEVICE double exp2_shift(double n) { return n < -1000 ? 0 : exp2(n); }

RT_DEVICE void join_cluster(const Head *h, RowSums &x, bool one, bool reverse)
{
    const uint32_t blocks = cluster_size();
    x.k[K1] = x.k[KS] = x.k[KT] = NO_K;
    x.best_s = x.best_t = -RT_INFINITY;
    x.at_s = x.at_t = UINT32_MAX;
    x.flags = 0;
    for (uint32_t b = 0; b < blocks; b++) {
#pragma unroll
        for (int i = 0; i < 3; i++) {
            const double k = cluster_read(&h->stat[i], b);
            x.k[i] = k > x.k[i] ? k : x.k[i];
        }
        x.flags |= (uint32_t)cluster_read(&h->stat[FLAGS], b);
        const double s = cluster_read(&h->stat[BEST_S], b), t = cluster_read(&h->stat[BEST_T], b);
        if (s > x.best_s)
            x.best_s = s, x.at_s = cluster_read(&h->stat[AT_S], b); /* slices rise: the first has lower ids */
        if (t > x.best_t) x.best_t = t, x.at_t = cluster_read(&h->stat[AT_T], b);
    }
#pragma unroll
    for (int i = 0; i < SUMS; i++) x.z[i] = 0;
    for (uint32_t b = 0; b < blocks; b++) {
        const double up_s = cluster_read(&h->stat[KS], b) - x.k[KS], up_t = cluster_read(&h->stat[KT], b) - x.k[KT];
        const double fs = exp2_shift(up_s), ft = exp2_shift(up_t);
        const double zs = cluster_read(&h->stat[MAXIMA + ZS], b), zt = cluster_read(&h->stat[MAXIMA + ZT], b);
        const double d = cluster_read(&h->stat[MAXIMA + ZD], b);
        const double f1 = one ? fs : exp2_shift(cluster_read(&h->stat[K1], b) - x.k[K1]);
        x.z[Z1] += f1 * cluster_read(&h->stat[MAXIMA + Z1], b);
        x.z[ZS] += fs * zs;
        x.z[ZT] += ft * zt;
        x.z[ZD] += reverse ? fs * (d + zs * (up_s - up_t)) : ft * (d + zt * (up_t - up_s));
    }
    if (one) {
        x.z[Z1] += x.z[ZS];
        x.k[K1] = x.k[KS];
    }
}

/* What follows from a row's sums, by thread 0. Logarithms are left out where the gradient does not need them. */
template <class TS, int TB> RT_DEVICE void settle(const Row<TS, TB> &r, const RowSums &x, double tokens)
{
    const rt_kd_args &a = r.p.a;
    Consts &c = r.head->c;
    const double T = a.T, ce = a.ce_weight / tokens, kd = a.kd_weight * (a.t2 ? T : 1 / T) / tokens;
    c.flags = x.flags;
    c.some = x.best_s > -RT_INFINITY;
    c.k1 = (float)x.k[K1], c.ks = (float)x.k[KS], c.kt = (float)x.k[KT];
    c.z1 = x.z[Z1], c.zs = c.some ? x.z[ZS] : 0, c.zt = x.z[ZT], c.d = c.div = c.total = 0;
    c.best = c.some ? kd_rank((float)x.best_s, (uint32_t)x.at_s) : 0;
    c.top1 = a.U && c.some && x.at_s == x.at_t;
    c.ce = ce, c.kd = kd;
    c.a1 = c.a1s = c.both = Factor(ce / c.z1);
    c.as = c.at = Factor(0.0);
    c.x0 = c.x1 = c.iq = c.ip = 0.0f;
    /* a sum far below its reference has lost terms */
    if (!(c.z1 > 0x1p-60) || (c.some && !(c.zs > 0x1p-60)) || (a.U && c.some && !(c.zt > 0x1p-60))) c.flags |= REDO;
    if (c.flags & REDO || !a.U || !c.some) return;
    c.d = x.z[ZD] / (r.p.form == RT_CUDA_KD_REVERSE ? c.zs : c.zt);
    /* at T = 1 the reference is that of all columns; where those of Vc are below it, theirs goes down to them */
    const double far = r.one ? rint(x.best_s * LOG2E) - x.k[KS] : 0;
    const int down = far < -100 ? -100 : (int)far;
    if (down < 0) {
        c.ks += (float)down;
        c.zs = ldexp(c.zs, -down);
        c.d += r.p.form == RT_CUDA_KD_REVERSE ? -down : down;
        c.a1s = Factor(ldexp(ce / c.z1, down));
    }
    c.as = Factor(kd / c.zs);
    c.at = Factor(-kd / c.zt);
    c.both = Factor((down < 0 ? ldexp(ce / c.z1, down) : ce / c.z1) + kd / c.zs);
    c.iq = (float)(1 / c.zs);
    c.ip = (float)(1 / c.zt);
    if (r.p.form != RT_CUDA_KD_REVERSE) return;
    const double logs = log2(c.zt) - log2(c.zs);
    c.total = c.div = (c.d + logs) * RT_LN2;
    c.x1 = (float)(kd / c.zs * RT_LN2);
    c.x0 = (float)(kd / c.zs * (RT_LN2 * logs - c.div));
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
    if (threadIdx.x == 0) {
        double x = 0, y = 0;
        for (uint32_t b = 0; b < cluster_size(); b++) {
            x += cluster_read(&r.head->pair[0], b);
            y += cluster_read(&r.head->pair[1], b);
        }
        r.head->c.div = x, r.head->c.total = y;
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
    if (threadIdx.x == 0) {
        RowSums x;
        join_cluster(h, x, r.one, p.form == RT_CUDA_KD_REVERSE);
        settle(r, x, tokens);
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
