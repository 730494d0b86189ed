/* cuda_kd_terms.cuh - the divergences, outcome by outcome, and the vocabulary that they are over.
 *
 * Owns: the formulas in their stable forms, in double from logarithms and in f32 from probabilities; which columns are
 * in Vc; the entries of a top-k teacher. Used by the fast walk (cuda_kd.cu) and by the careful one
 * (cuda_kd_careful.cu). */
#ifndef RT_BACKEND_CUDA_KERNELS_CUDA_KD_TERMS_CUH
#define RT_BACKEND_CUDA_KERNELS_CUDA_KD_TERMS_CUH

#include "backend/cuda/kernels/cuda_common.cuh"
#include "backend/cuda/kernels/cuda_kd.h"

#define RT_LN2 0.693147180559945309417
#define RT_INFINITY __uint_as_float(0x7f800000u)

/* w x with 0 times anything 0: an outcome of no mass has no term, whatever its logarithm */
RT_DEVICE double kd_weigh(double w, double x) { return w == 0 ? 0 : w * x; }

/* log(mix exp(a) + (1-mix) exp(b)), 0 < mix < 1; a or b may be minus infinity */
RT_DEVICE double kd_log_mix(double mix, double a, double b)
{
    a += log(mix);
    b += log1p(-mix);
    const double top = a > b ? a : b;
    return isinf(top) ? top : top + log(exp(a - top) + exp(b - top));
}

/* Term of D for an outcome with log-probabilities lp of the teacher and lq of the student; g = q dD/dq up to a constant
 * times q. kind is never a JSD or skewed form with mix 0 or 1. */
RT_DEVICE double kd_term(uint32_t kind, double mix, double lp, double lq, double &g)
{
    const double p = exp(lp), q = exp(lq);
    if (kind == RT_DIV_FORWARD_KL) {
        g = -p;
        return kd_weigh(p, lp - lq);
    }
    if (kind == RT_DIV_REVERSE_KL) return g = kd_weigh(q, lq - lp);
    if (kind == RT_DIV_TV) { /* no slope where p is q */
        g = q > p ? q / 2 : q < p ? -q / 2 : 0;
        return fabs(p - q) / 2;
    }
    const double lm = kind == RT_DIV_SKEW_RKL ? kd_log_mix(mix, lq, lp) : kd_log_mix(mix, lp, lq);
    if (kind == RT_DIV_JSD) {
        g = (1 - mix) * kd_weigh(q, lq - lm);
        return mix * kd_weigh(p, lp - lm) + g;
    }
    if (kind == RT_DIV_SKEW_FKL) {
        g = -(1 - mix) * kd_weigh(p, exp(lq - lm));
        return kd_weigh(p, lp - lm);
    }
    const double d = kd_weigh(q, lq - lm);
    g = d - mix * kd_weigh(q, exp(lq - lm));
    return d;
}

/* Of those, the ones that are not the formula of logarithms below. */
RT_DEVICE bool kd_without_logs(uint32_t kind) { return kind == RT_DIV_TV; }

/* The divergences that are neither KL, from p and q in f32. Total variation is by itself; the others are one formula,
 *
 *   m = mp p + mq q,  term of D = tp p log2(p/m) + tq q log2(q/m),  dD/dq = sl log2(q/m) + sp p/m + sq q/m
 *
 * A ratio is kept at or above 1e-37, so its logarithm is finite; it is below that only where the p or q it is
 * multiplied by is 0 or too small to count. FAST: the units' own reciprocal and logarithm, the latter up to 2.4e-7 off
 * near 1; for logits of 16 bits. */
template <bool FAST> struct Pair {
    float mp, mq, tp, tq, sl, sp, sq;
    float st = 0.5f; /* of total variation, where q is above p */
    bool tv;

    __device__ Pair(uint32_t kind, float mix)
    {
        const bool jsd = kind == RT_DIV_JSD, forward = kind == RT_DIV_SKEW_FKL, reverse = kind == RT_DIV_SKEW_RKL;
        const float a = mix, b = 1.0f - mix, ln2 = (float)RT_LN2;
        tv = kd_without_logs(kind);
        mp = reverse ? b : a, mq = reverse ? a : b;
        tp = (jsd ? a : forward ? 1.0f : 0.0f) * ln2;
        tq = (jsd ? b : reverse ? 1.0f : 0.0f) * ln2;
        sl = tq; /* of JSD and of the reverse form alike */
        sp = forward ? -b : 0.0f, sq = reverse ? -a : 0.0f;
    }
    static __device__ float over(float x) { return FAST ? reciprocal_fast(x) : 1.0f / x; }
    static __device__ float log2_of(float x) { return FAST ? log2_fast(fmaxf(1e-37f, x)) : log2f(fmaxf(1e-37f, x)); }
    __device__ float over_m(float p, float q) const { return over(fmaxf(1e-37f, fmaf(mp, p, mq * q))); }

    /* dD/dq; TV: this is tv */
    template <bool TV> __device__ float slope(float p, float q) const
    {
        if (TV) return (q > p ? st : 0.0f) - (q < p ? st : 0.0f);
        const float inv = over_m(p, q), rq = q * inv;
        return fmaf(sl, log2_of(rq), fmaf(sp, p * inv, sq * rq));
    }
};

/* Sums of a few outcomes: terms of D, and q dD/dq. */
template <bool FAST> struct PairSums {
    float p_lp = 0.0f, q_lq = 0.0f, q_rp = 0.0f, q_rq = 0.0f; /* of total variation: terms, -, q dD/dq, - */

    template <bool TV> __device__ void add(const Pair<FAST> &f, float p, float q)
    {
        if (TV) {
            p_lp += 0.5f * fabsf(p - q);
            q_rp = fmaf(q, f.template slope<true>(p, q), q_rp);
            return;
        }
        const float inv = f.over_m(p, q), rp = p * inv, rq = q * inv;
        p_lp = fmaf(p, f.log2_of(rp), p_lp);
        q_lq = fmaf(q, f.log2_of(rq), q_lq);
        q_rp = fmaf(q, rp, q_rp);
        q_rq = fmaf(q, rq, q_rq);
    }
    template <bool TV> __device__ float div(const Pair<FAST> &f) const
    {
        return TV ? p_lp : fmaf(f.tp, p_lp, f.tq * q_lq);
    }
    template <bool TV> __device__ float total(const Pair<FAST> &f) const
    {
        return TV ? q_rp : fmaf(f.sl, q_lq, fmaf(f.sp, q_rp, f.sq * q_rq));
    }
};

/* ---- the vocabulary ---- */

RT_DEVICE uint32_t kd_end_of_vc(const rt_kd_args &a) { return a.U && a.U < a.V ? a.U : a.V; }

RT_DEVICE bool kd_in_vc(const rt_cuda_kd_params &p, uint32_t v)
{
    return v < kd_end_of_vc(p.a) && (!p.vmask || (((const uint32_t *)p.vmask)[v / 32] >> v % 32 & 1));
}

/* bits (packs, a multiple of 4 bytes of room) = Vc of the columns from first * 8 on */
RT_DEVICE void kd_fill_bits(const rt_cuda_kd_params &p, uint8_t *bits, uint32_t first, uint32_t packs)
{
    const uint64_t end = kd_end_of_vc(p.a);
    for (uint32_t k = threadIdx.x; k < RT_CUDA_KD_BITMAP(packs); k += blockDim.x) {
        const uint64_t col = ((uint64_t)first + k) * 8;
        const uint32_t have = k >= packs || col >= end ? 0 : end - col >= 8 ? 255 : (1u << (end - col)) - 1;
        bits[k] = (uint8_t)(have && p.vmask ? ((const uint8_t *)p.vmask)[first + k] & have : have);
    }
}

/* ---- a top-k teacher ---- */

/* Takes the listed ids out of the bitmap and keeps their student logits, which the gradient will overwrite. `twice`:
 * some id is listed twice; `unknown`: some is outside Vc. */
template <class T>
RT_DEVICE void kd_clear_listed(const rt_cuda_kd_params &p, uint32_t row, uint8_t *bits, uint32_t first, uint32_t packs,
                               bool &twice, bool &unknown)
{
    for (uint32_t j = threadIdx.x; j < p.a.k; j += blockDim.x) {
        const int32_t id = *element<int32_t>(p.id, row, j);
        if (id < 0) continue;
        if (!kd_in_vc(p, (uint32_t)id)) {
            unknown = true;
            continue;
        }
        const uint32_t pack = (uint32_t)id / 8 - first;
        if (pack >= packs) continue; /* another block's, also where the difference wrapped */
        const uint32_t bit = 1u << ((pack % 4) * 8 + (uint32_t)id % 8);
        const uint32_t old = atomicAnd((uint32_t *)(void *)bits + pack / 4, ~bit);
        if (!(old & bit)) twice = true;
        ((float *)p.listed)[(uint64_t)row * p.a.k + j] = to_float(*element<T>(p.logits, row, (uint32_t)id));
    }
}

/* Is entry j one that counts: an id of Vc that no earlier entry has? */
RT_DEVICE bool kd_counts(const rt_cuda_kd_params &p, uint32_t row, uint32_t j, bool twice)
{
    const int32_t id = *element<int32_t>(p.id, row, j);
    if (id < 0 || !kd_in_vc(p, (uint32_t)id)) return false;
    for (uint32_t i = 0; twice && i < j; i++)
        if (*element<int32_t>(p.id, row, i) == id) return false;
    return true;
}

/* A larger key is a larger value; of equal values the one with the lower id. */
RT_DEVICE uint64_t kd_rank(float x, uint32_t id)
{
    uint32_t u = __float_as_uint(x + 0.0f);
    u = u >> 31 ? ~u : u | 0x80000000u;
    return (uint64_t)u << 32 | (uint32_t)~id;
}

RT_DEVICE void raise(uint64_t *best, uint64_t rank) { atomicMax((unsigned long long *)best, (unsigned long long)rank); }

/* The list's most likely id as a rank; 0: the list is empty. */
RT_DEVICE uint64_t kd_best_listed(const rt_cuda_kd_params &p, uint32_t row)
{
    uint64_t best = 0;
    for (uint32_t j = threadIdx.x; j < p.a.k; j += blockDim.x) {
        const int32_t id = *element<int32_t>(p.id, row, j);
        if (id < 0) continue;
        const uint64_t r = kd_rank(*element<float>(p.logp, row, j), (uint32_t)id);
        best = r > best ? r : best;
    }
    return best;
}

#endif
