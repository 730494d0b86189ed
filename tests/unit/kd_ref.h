/* kd_ref.h - the fixture of the two test programs of the distillation loss.
 *
 * Owns: one call of the reference in double with all its operands in one struct, and the formulas to compare with. */
#ifndef RT_TESTS_UNIT_KD_REF_H
#define RT_TESTS_UNIT_KD_REF_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "backend/ref/ref.h"

#include <math.h>
#include <stdbool.h>
#include <string.h>

enum { ROWS = 4, IDS = 40, WORK = 2 * IDS + 3 * (IDS + 1), SITE = 77, STEP = 5 };

typedef struct kd {
    rt_kd_args a;
    double z[ROWS * IDS]; /* (N,V) logits, then gradient */
    double teacher[ROWS * IDS];
    int32_t target[ROWS], id[ROWS * IDS];
    double logp[ROWS * IDS], rest[ROWS];
    uint32_t vmask[(IDS + 31) / 32];
    bool masked; /* vmask is given */
    rt_step step;
    rt_fault fault;
    double sums[4], ce[ROWS], div[ROWS], top1[ROWS];
} kd;

static const float mixes[] = { 0.0f, 0.125f, 0.5f, 0.75f };
enum { MIXES = sizeof mixes / sizeof *mixes };

static inline void run(kd *k)
{
    double work[WORK];
    rt_args args = { .kd = k->a };
    bool full = k->a.U > 0, topk = k->a.k > 0;
    rt_ref_call c = { .args = &args, .work = work };
    assert_true(rt_ref_work(RT_OP_KD_LOSS, &args) <= WORK);
    c.s[RT_KD_LOGITS] = k->z;
    c.s[RT_KD_SUMS] = k->sums;
    c.s[RT_KD_CE] = k->ce;
    c.s[RT_KD_DIV] = k->div;
    c.s[RT_KD_TOP1] = k->top1;
    c.s[RT_KD_FAULT] = &k->fault;
    c.s[RT_KD_TARGET] = k->target;
    c.s[RT_KD_STEP] = &k->step;
    c.s[RT_KD_TEACHER] = full ? k->teacher : NULL;
    c.s[RT_KD_TK_ID] = topk ? k->id : NULL;
    c.s[RT_KD_TK_LOGP] = topk ? k->logp : NULL;
    c.s[RT_KD_TK_REST] = topk ? k->rest : NULL;
    c.s[RT_KD_VMASK] = k->masked ? k->vmask : NULL;
    rt_ref_table_double[RT_OP_KD_LOSS](&c);
}

static inline kd divergence_only(uint32_t N, uint32_t V, uint32_t divergence, float T, float mix)
{
    kd k = { .a = { N, V, V, 0, divergence, T, mix, 0, 1, 0, 1, SITE }, .step = { .step = STEP, .tokens = 1 } };
    for (int i = 0; i < ROWS; i++) k.ce[i] = k.div[i] = k.top1[i] = NAN; /* outputs must be written */
    return k;
}

/* Numbers in (-1,1) that depend on seed and i alone. */
static inline double noise(uint64_t seed, uint64_t i)
{
    uint64_t x = (seed * 1000003u + i + 1) * 0x9E3779B97F4A7C15u;
    x = (x ^ x >> 31) * 0xBF58476D1CE4E5B9u;
    return (double)(x >> 11) / 4503599627370496.0 - 1;
}

static inline void random_logits(kd *k, double size)
{
    for (int i = 0; i < ROWS * IDS; i++) {
        k->z[i] = size * noise(1, (uint64_t)i);
        k->teacher[i] = size * noise(2, (uint64_t)i);
    }
}

static inline void near(double got, double want, double tolerance)
{
    if (!(fabs(got - want) <= tolerance)) fail_msg("got %.17g, want %.17g, tolerance %g", got, want, tolerance);
}

/* x log(x/y), 0 where x is */
static inline double weighed(double x, double y) { return x == 0 ? 0 : x * log(x / y); }

/* One outcome's part of a divergence, written down as it is defined. */
static inline double term(uint32_t divergence, double mix, double p, double q)
{
    double m = mix * p + (1 - mix) * q, w = mix * q + (1 - mix) * p;
    if (divergence == RT_DIV_JSD && mix == 0) divergence = RT_DIV_FORWARD_KL;
    switch (divergence) {
    case RT_DIV_FORWARD_KL: return weighed(p, q);
    case RT_DIV_REVERSE_KL: return weighed(q, p);
    case RT_DIV_JSD: return mix * weighed(p, m) + (1 - mix) * weighed(q, m);
    case RT_DIV_SKEW_FKL: return weighed(p, m);
    case RT_DIV_SKEW_RKL: return weighed(q, w);
    default: return fabs(p - q) / 2;
    }
}

static inline void softmax(double *p, const double *x, int n, double T)
{
    double sum = 0;
    for (int v = 0; v < n; v++) sum += p[v] = exp(x[v] / T);
    for (int v = 0; v < n; v++) p[v] /= sum;
}

static inline void same_loss(const kd *a, const kd *b, double tolerance)
{
    for (uint32_t i = 0; i < a->a.N; i++) {
        near(a->div[i], b->div[i], tolerance);
        near(a->ce[i], b->ce[i], tolerance);
        assert_true(a->top1[i] == b->top1[i]);
    }
    for (uint32_t i = 0; i < a->a.N * a->a.V; i++) near(a->z[i], b->z[i], tolerance);
}

#endif
