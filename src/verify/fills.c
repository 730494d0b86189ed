/* fills.c - what operands are filled with. Every number depends on the case's name, the slot and the element's index
 * alone (Philox), so a case has the same inputs on every machine and in every order. */
#include "base/rng.h"
#include "verify/op_case.h"

#include <math.h>

uint32_t rt_fill_word(const rt_fill *f, uint64_t i) { return rt_philox(f->seed, f->stream, i).v[0]; }

/* Two numbers from four words: each the sum of four 16-bit uniforms, deviation 1, at most 3.46 in size. Bounded, so
 * that nothing overflows f16 by chance. */
static void pair(const rt_fill *f, uint64_t i, double out[2])
{
    rt_rng4 r = rt_philox(f->seed, f->stream, i);
    for (int k = 0; k < 2; k++) {
        uint32_t a = r.v[2 * k], b = r.v[2 * k + 1];
        double sum = (double)((a & 0xffffu) + (a >> 16) + (b & 0xffffu) + (b >> 16)) / 65536.0;
        out[k] = (sum - 2.0) * 1.7320508075688772;
    }
}

double rt_fill_number(const rt_fill *f, uint64_t i)
{
    double two[2];
    pair(f, i / 2, two);
    return two[i % 2];
}

static uint64_t count(const rt_fill *f) { return (uint64_t)f->rows * f->cols; }

void rt_fill_normal(const rt_op_case *c, const rt_fill *f)
{
    double two[2], q = f->q == 0 ? 1 : f->q;
    (void)c;
    for (uint64_t i = 0; i < count(f); i++) {
        if (i % 2 == 0) pair(f, i / 2, two);
        f->x[i] = f->p + q * two[i % 2];
    }
}

void rt_fill_positive(const rt_op_case *c, const rt_fill *f)
{
    (void)c;
    for (uint64_t i = 0; i < count(f); i++) f->x[i] = f->p + f->q * fabs(rt_fill_number(f, i));
}

void rt_fill_const(const rt_op_case *c, const rt_fill *f)
{
    (void)c;
    for (uint64_t i = 0; i < count(f); i++) f->x[i] = f->p;
}

void rt_fill_special(const rt_op_case *c, const rt_fill *f)
{
    static const double
        special[] = { INFINITY, -INFINITY, NAN,      0.0,    -0.0,       1e-45,     -3e-39,
                      6e-8,     65519.0,   -65520.0, 3.4e38, 1.00390625, 1.01171875 /* ties of bf16 */ };
    (void)c;
    for (uint64_t i = 0; i < count(f); i++) {
        uint32_t w = rt_fill_word(f, i) % 61;
        f->x[i] = w < RT_COUNT(special) ? special[w] : 3 * rt_fill_number(f, i);
    }
}

void rt_fill_ties(const rt_op_case *c, const rt_fill *f)
{
    (void)c;
    for (uint64_t i = 0; i < count(f); i++) f->x[i] = rint(f->q * rt_fill_number(f, i) / f->p) * f->p;
}

void rt_fill_below(const rt_op_case *c, const rt_fill *f)
{
    uint32_t p = (uint32_t)f->p, q = (uint32_t)f->q;
    (void)c;
    for (uint64_t i = 0; i < count(f); i++) {
        rt_rng4 r = rt_philox(f->seed, f->stream, i);
        bool stray = q && r.v[1] % q == 0;
        f->i[i] = !stray       ? (int32_t)(r.v[0] % p)
                  : r.v[2] % 2 ? (int32_t)p + (int32_t)(r.v[0] % 3)
                               : -1 - (int32_t)(r.v[0] % 3);
    }
}

void rt_fill_positions(const rt_op_case *c, const rt_fill *f)
{
    (void)c;
    for (uint64_t i = 0; i < count(f); i++) f->i[i] = (int32_t)(f->p + f->q * (double)i);
}

void rt_fill_bits(const rt_op_case *c, const rt_fill *f)
{
    uint32_t bits = (uint32_t)f->q, limit = (uint32_t)(f->p * 4294967295.0), set = 0;
    (void)c;
    for (uint64_t i = 0; i < count(f); i++) {
        uint32_t word = 0;
        for (uint32_t b = 0; b < 32; b++)
            if (32 * i + b < bits && rt_fill_word(f, 32 * i + b) <= limit) word |= 1u << b;
        set |= word;
        f->i[i] = (int32_t)word;
    }
    if (!set) f->i[0] = 1;
}

void rt_fill_step(const rt_op_case *c, const rt_fill *f)
{
    rt_step s = { .step = (uint32_t)f->p, .tokens = (uint32_t)f->q, .lr = 0.0123f, .seed = f->seed };
    (void)c;
    memcpy(f->b, &s, sizeof s);
}

void rt_fill_fault(const rt_op_case *c, const rt_fill *f)
{
    static const int32_t set[4] = { 1, 3, 77, 5 };
    (void)c;
    for (int i = 0; i < 4; i++) f->i[i] = f->p != 0 ? set[i] : 0;
}
