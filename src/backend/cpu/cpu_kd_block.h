/* cpu_kd_block.h - the vector loops of kd_loss over one block of a row.
 *
 * Owns: maxima, exponentials relative to them, their sums, the divergences that need both distributions, the gradient.
 * Everything is f32 in, f32 out; cpu_kd.c converts other dtypes block by block, and joins the blocks of a row.
 *
 * A block has its own references: m1 is the largest student logit of all its columns (for CE), ms and mt the largest
 * student and teacher logits among its columns of Vc. It leaves behind e = exp(x/T), x a logit less its reference,
 * which lies in [0,1] and is never computed twice: the gradient is a few multiplications away once the row's sums are
 * known. There is e1 of the student (all columns, T = 1), es of the student (Vc, else 0) and et of the teacher (Vc,
 * else 0); es is e1 where T is 1 and the whole block is in Vc. For reverse KL et holds x_s - x_t instead, for the
 * divergences of KD_PAIR it becomes dD/dq.
 *
 * Two variants of each loop. The fast one is for whole blocks inside Vc with no |x| above 2^60: nothing in it can
 * overflow or become NaN. The careful one masks lanes, keeps NaN, and lets an exponential below 2^-125 be exactly 0. In
 * the fast one such an exponential may come out as 2^-125: a block's sum is at least 1, so all of them shift it by less
 * than 2^-115, and with differences x_s - x_t below 2^62 D by less than 2^-53. */
#ifndef RT_BACKEND_CPU_CPU_KD_BLOCK_H
#define RT_BACKEND_CPU_CPU_KD_BLOCK_H

#include "backend/cpu/cpu_kd_terms.h"

enum { KD_RUN = 16 * VL };     /* columns summed in f32 before they join the block's sum: few additions deep */
enum { KD_HUGE = 0x5d800000 }; /* bits of 2^60f */

typedef enum kd_form {
    KD_STUDENT, /* no teacher logits: e1 and es alone */
    KD_FORWARD, /* forward KL */
    KD_REVERSE, /* reverse KL */
    KD_PAIR     /* D needs both distributions normalised: a second loop */
} kd_form;

typedef struct kd_block {
    const float *s, *t;             /* (n), readable up to a multiple of VL; t null for KD_STUDENT */
    const uint32_t *bits;           /* (ROW_BLOCK/32) careful: bit set when the column is in Vc */
    uint32_t n;                     /* columns */
    float m1, ms, mt;               /* minus infinity where there is no column */
    float c1, ct;                   /* log2(e), log2(e)/T */
    float *e1, *es, *et;            /* (n up to a multiple of VL) out; e1 may be s, es unused when shared */
    const uint8_t *next_s, *next_t; /* the same rows, one block on, to be fetched meanwhile */
    double z1, zs, zt, d;           /* out: sums of e1, es, et; d: of et (x_t - x_s), or es (x_s - x_t) */
} kd_block;

/* ---- maxima ---- */
/* m1 = ms, mt of a whole block; false when a value is not finite or above 2^60. */
RT_INLINE bool scan_fast(kd_block *b, const bool teacher)
{
    const vi abs = (vi){ 0 } + 0x7fffffff;
    vf s0 = vload(b->s), s1 = vload(b->s + VL), t0 = { 0 }, t1 = { 0 };
    vi a0 = { 0 }, a1 = { 0 };
    if (teacher) {
        t0 = vload(b->t);
        t1 = vload(b->t + VL);
    }
    for (uint32_t i = 0; i < ROW_BLOCK; i += 2 * VL) {
        vf s = vload(b->s + i), u = vload(b->s + i + VL);
        s0 = vmax(s0, s);
        s1 = vmax(s1, u);
        a0 = vimax(a0, (vi)s & abs);
        a1 = vimax(a1, (vi)u & abs);
        if (teacher) {
            vf t = vload(b->t + i), w = vload(b->t + i + VL);
            t0 = vmax(t0, t);
            t1 = vmax(t1, w);
            a0 = vimax(a0, (vi)t & abs);
            a1 = vimax(a1, (vi)w & abs);
        }
    }
    b->m1 = b->ms = block_max(vmax(s0, s1));
    b->mt = block_max(vmax(t0, t1));
    return block_imax(vimax(a0, a1)) <= KD_HUGE;
}
/* Any block; false when a student logit, or a teacher logit in Vc, is not finite. */
RT_INLINE bool scan_careful(kd_block *b, const bool teacher)
{
    const vi abs = (vi){ 0 } + 0x7fffffff;
    const vf low = vset(-INFINITY);
    vf m1 = low, ms = low, mt = low;
    vi a = { 0 };
    for (uint32_t i = 0; i < b->n; i += VL) {
        vi all = lanes_below(b->n, i), in = all & lanes_set(b->bits, i);
        vf s = vload(b->s + i);
        m1 = vmax(m1, vselect(all, s, low));
        ms = vmax(ms, vselect(in, s, low));
        a = vimax(a, (vi)s & abs & all);
        if (teacher) {
            vf t = vload(b->t + i);
            mt = vmax(mt, vselect(in, t, low));
            a = vimax(a, (vi)t & abs & in);
        }
    }
    b->m1 = block_max(m1);
    b->ms = block_max(ms);
    b->mt = block_max(mt);
    return block_imax(a) < 0x7f800000;
}
/* The first column of x (n) whose bit is set and whose value is m; n when there is none. */
RT_INLINE uint32_t first_equal(const float *x, const uint32_t *bits, uint32_t n, float m)
{
    vi none = (vi){ 0 } + (int32_t)n, first = -none;
    for (uint32_t i = 0; i < n; i += VL) {
        vi hit = lanes_below(n, i) & lanes_set(bits, i) & (vload(x + i) == vset(m));
        vi at = viota() + (int32_t)i;
        first = vimax(first, -((at & hit) | (none & ~hit)));
    }
    return (uint32_t)-block_imax(first);
}

/* ---- exponentials ---- */
typedef struct kd_acc {
    vf z1, zs, zt, d;
} kd_acc;

RT_INLINE void exp_careful(kd_block *b, uint32_t i, kd_acc *a, const kd_form form, const bool share)
{
    vi all = lanes_below(b->n, i), in = all & lanes_set(b->bits, i);
    vf s = vload(b->s + i), xs = s - vset(share ? b->m1 : b->ms);
    vf e1 = exp2_careful(s - vset(b->m1), b->c1, all), es = e1;
    a->z1 += e1;
    vstore(b->e1 + i, e1);
    if (!share) {
        es = exp2_careful(xs, b->ct, in);
        a->zs += es;
        vstore(b->es + i, es);
    }
    if (form == KD_STUDENT) return;
    vf xt = vload(b->t + i) - vset(b->mt), et = exp2_careful(xt, b->ct, in), d = xs - xt;
    a->zt += et;
    d = (vf)((vi)d & ((form == KD_REVERSE ? es : et) > vset(0.0f))); /* 0 log 0 = 0 */
    if (form == KD_FORWARD) a->d = vfma(et, -d, a->d);
    if (form == KD_REVERSE) a->d = vfma(es, d, a->d);
    vstore(b->et + i, form == KD_REVERSE ? d : et);
}

/* Two vectors; m1 is ms. */
RT_INLINE void exp_fast(kd_block *b, uint32_t i, kd_acc a[2], const kd_form form, const bool share)
{
    const bool teacher = form != KD_STUDENT;
    vf x[4], e[4], es[2];
    const float c[4] = { b->c1, b->c1, b->ct, b->ct };
    for (int k = 0; k < 2; k++) {
        x[k] = vload(b->s + i + k * VL) - vset(b->ms);
        x[2 + k] = teacher ? vload(b->t + i + k * VL) - vset(b->mt) : x[k];
    }
    exp2_fast(e, x, c, teacher ? 4 : 2);
    if (!share) exp2_fast(es, x, c + 2, 2);
    for (int k = 0; k < 2; k++) {
        if (share) es[k] = e[k];
        a[k].z1 += e[k];
        vstore(b->e1 + i + k * VL, e[k]);
        if (!share) a[k].zs += es[k];
        if (!share) vstore(b->es + i + k * VL, es[k]);
        if (!teacher) continue;
        vf d = x[k] - x[2 + k];
        a[k].zt += e[2 + k];
        if (form == KD_FORWARD) a[k].d = vfma(e[2 + k], -d, a[k].d);
        if (form == KD_REVERSE) a[k].d = vfma(es[k], d, a[k].d);
        vstore(b->et + i + k * VL, form == KD_REVERSE ? d : e[2 + k]);
    }
}

RT_INLINE void acc_add(kd_acc *a, const kd_acc p[2])
{
    a->z1 += p[0].z1 + p[1].z1;
    a->zs += p[0].zs + p[1].zs;
    a->zt += p[0].zt + p[1].zt;
    a->d += p[0].d + p[1].d;
}

RT_INLINE void exp_loop(kd_block *b, const kd_form form, const bool share, const bool careful)
{
    kd_acc a = { 0 };
    for (uint32_t i = 0; i < b->n; i += KD_RUN) {
        uint32_t end = careful && b->n - i < KD_RUN ? b->n : i + KD_RUN;
        kd_acc p[2] = { 0 };
        for (uint32_t k = i; careful && k < end; k += VL) exp_careful(b, k, p, form, share);
        for (uint32_t k = i; !careful && k < end; k += 2 * VL) {
            __builtin_prefetch(b->next_s + 4 * k);
            if (VL == 16) __builtin_prefetch(b->next_s + 4 * k + 64);
            if (form != KD_STUDENT) __builtin_prefetch(b->next_t + 4 * k);
            if (form != KD_STUDENT && VL == 16) __builtin_prefetch(b->next_t + 4 * k + 64);
            exp_fast(b, k, p, form, share);
        }
        acc_add(&a, p);
    }
    b->z1 = block_sum(a.z1);
    b->zs = share ? b->z1 : block_sum(a.zs);
    b->zt = form == KD_STUDENT ? 0 : block_sum(a.zt);
    b->d = form == KD_FORWARD || form == KD_REVERSE ? block_sum(a.d) : 0;
}

/* ---- divergences of KD_PAIR ---- */
/* et becomes c; *d and *c are the sums of D's terms and of q c. */
RT_INLINE void pair_loop(const float *es, float *et, uint32_t n, float qs, float pt, const uint32_t kind, float mix,
                         double *d, double *c)
{
    vf sum_d = { 0 }, sum_c = { 0 };
    for (uint32_t i = 0; i < n; i += KD_RUN) {
        uint32_t end = n - i < KD_RUN ? n : i + KD_RUN;
        vf run_d = { 0 }, run_c = { 0 };
        for (uint32_t k = i; k < end; k += VL) {
            vf q = vload(es + k) * vset(qs), p = vload(et + k) * vset(pt), slope;
            run_d += pair_term(p, q, kind, mix, &slope);
            run_c = vfma(q, slope, run_c);
            vstore(et + k, slope);
        }
        sum_d += run_d;
        sum_c += run_c;
    }
    *d += block_sum(sum_d);
    *c += block_sum(sum_c);
}

/* ---- gradients: g (n up to a multiple of VL) may be e1 ---- */
/* g = a1 e1 + as es + at et; without es (shared) as is part of a1, et may be absent */
RT_INLINE void grad_linear(float *g, const float *e1, const float *es, const float *et, uint32_t n, float a1, float as,
                           float at)
{
    for (uint32_t i = 0; i < n; i += VL) {
        vf v = vset(a1) * vload(e1 + i);
        if (es) v = vfma(vset(as), vload(es + i), v);
        if (et) v = vfma(vset(at), vload(et + i), v);
        vstore(g + i, v);
    }
}
/* g = a1 e1 + es (x1 x + x0); without es (shared) es is e1 */
RT_INLINE void grad_product(float *g, const float *e1, const float *es, const float *x, uint32_t n, float a1, float x1,
                            float x0)
{
    for (uint32_t i = 0; i < n; i += VL) {
        vf w = vfma(vset(x1), vload(x + i), vset(x0)), e = vload(e1 + i);
        vstore(g + i, es ? vfma(vset(a1), e, vload(es + i) * w) : e * (w + vset(a1)));
    }
}

#endif
