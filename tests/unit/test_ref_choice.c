/* test_ref_choice.c - sample and topk of the reference at the edges that random cases do not reach: logits whose plain
 * exponential overflows, one id, everything kept and almost nothing kept. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "backend/ref/ref.h"
#include "base/rng.h"

#include <math.h>

enum { V = 6 };

typedef struct how {
    double temperature, top_k, top_p, min_p, penalty;
} how;

/* The id for this key; seen, logp: may be null. */
static int32_t sample_row(const double *x, how h, uint32_t key, uint32_t *seen, double *logp)
{
    double work[8 * V];
    int32_t id = -99;
    uint32_t keys[2] = { key, 7 };
    rt_args args = { .sample = { .N = 1, .V = V } };
    rt_ref_call c = { .args = &args, .work = work };
    _Static_assert(sizeof h == RT_HOW_COLS * sizeof(double), "the columns of how");
    if (h.penalty == 0) h.penalty = 1;
    assert_true(rt_ref_work(RT_OP_SAMPLE, &args) <= 8 * V);
    c.s[RT_SAMPLE_ID] = &id;
    c.s[RT_SAMPLE_LOGP] = logp;
    c.s[RT_SAMPLE_SEEN] = seen;
    c.s[RT_SAMPLE_X] = (void *)(uintptr_t)x;
    c.s[RT_SAMPLE_KEY] = keys;
    c.s[RT_SAMPLE_HOW] = &h;
    rt_ref_table_double[RT_OP_SAMPLE](&c);
    return id;
}

static int32_t sample(const double *x, how h, uint32_t key) { return sample_row(x, h, key, NULL, NULL); }

/* Inverse of the cumulative distribution at the same random number, written for two ids of known masses. */
static void huge_logits_are_differences(void **state)
{
    const double base[] = { 0.0, 900.0, -900.0 };
    uint32_t seen[2] = { 0 };
    (void)state;
    for (uint32_t t = 1; t <= 200; t++)
        for (int b = 0; b < 3; b++) {
            double x[V] = { base[b] + 1.0, base[b], -5000, -5000, -5000, -5000 };
            float u = rt_rng_unit(rt_philox(0, rt_sample_stream, (uint64_t)7 << 32 | t).v[0]);
            int32_t want = u < 1 / (1 + exp(-1.0 / 0.5)) ? 0 : 1;
            int32_t got = sample(x, (how){ .temperature = 0.5, .top_p = 1 }, t);
            assert_int_equal(got, want);
            seen[got]++;
        }
    assert_true(seen[0] > 400 && seen[1] > 20); /* both happen: e^2 to 1 */
}

static void the_smallest_prefix_is_kept(void **state)
{
    double x[V] = { log(0.5), log(0.3), log(0.1), log(0.05), log(0.03), log(0.02) };
    (void)state;
    for (uint32_t t = 1; t <= 300; t++) {
        how a = { .temperature = 1, .top_p = 0.75 };
        assert_true(sample(x, a, t) < 2); /* 0.5 + 0.3 reaches 0.75 */
        a.top_p = 0.25;
        assert_int_equal(sample(x, a, t), 0);
        a.top_p = 1;
        a.top_k = 3;
        assert_true(sample(x, a, t) < 3);
        a.temperature = 0;
        assert_int_equal(sample(x, a, t), 0);
        a = (how){ .temperature = 1, .top_p = 1, .min_p = 0.19 }; /* 0.1 is more than 0.19 of 0.5, 0.05 is not */
        assert_true(sample(x, a, t) < 3);
        a.min_p = 0.21;
        assert_true(sample(x, a, t) < 2);
        a.min_p = 1;
        assert_int_equal(sample(x, a, t), 0);
    }
}

/* A penalty moves the choice and not the log-probability; what is chosen is seen. */
static void seen_ids_are_penalised(void **state)
{
    double x[V] = { 2, 1.9, -1, -1.1, -2, -3 }, logp, sum = 0;
    uint32_t seen = 1;
    (void)state;
    for (int i = 0; i < V; i++) sum += exp(x[i]);
    assert_int_equal(sample_row(x, (how){ .penalty = 1.2 }, 0, &seen, &logp), 1); /* 2 / 1.2 < 1.9 */
    assert_true(fabs(logp - (1.9 - log(sum))) < 1e-14);
    assert_int_equal(seen, 3);
    assert_int_equal(sample_row(x, (how){ .penalty = 1.2 }, 0, &seen, &logp), 0);
    for (int i = 0; i < 3; i++) x[i] = -1 - 0.01 * i;
    seen = 5;
    assert_int_equal(sample_row(x, (how){ .penalty = 1.2 }, 0, &seen, NULL), 1); /* -1 becomes -1.2 */
    assert_int_equal(sample_row(x, (how){ .penalty = 1.2 }, 0, NULL, NULL), 0);
    x[4] = NAN;
    seen = 0;
    assert_int_equal(sample_row(x, (how){ 0 }, 0, &seen, &logp), -1);
    assert_true(isnan(logp) && seen == 0);
}

static void topk_of_huge_logits(void **state)
{
    double x[V] = { 900, 901, 899, -900, 901, 0 }, logp[3], rest, work[8 * V];
    int32_t id[3];
    rt_args args = { .topk = { .N = 1, .V = V, .k = 3, .T = 0.5f } };
    rt_ref_call c = { .args = &args, .work = work };
    (void)state;
    assert_true(rt_ref_work(RT_OP_TOPK, &args) <= 8 * V);
    c.s[RT_TOPK_ID] = id;
    c.s[RT_TOPK_LOGP] = logp;
    c.s[RT_TOPK_REST] = &rest;
    c.s[RT_TOPK_X] = x;
    rt_ref_table_double[RT_OP_TOPK](&c);
    double sum = 2 + exp(-2.0) + exp(-4.0);
    assert_true(id[0] == 1 && id[1] == 4 && id[2] == 0); /* a tie goes to the lower id */
    assert_true(fabs(logp[0] + log(sum)) < 1e-14 && fabs(logp[2] + 2 + log(sum)) < 1e-14);
    assert_true(fabs(rest - exp(-4.0) / sum) < 1e-15);
}

/* One logit that is no number, wherever it stands, makes the row's answer none; one outside the mask does not count. */
static void topk_of_no_numbers(void **state)
{
    static const double bad[] = { NAN, INFINITY, -INFINITY };
    (void)state;
    for (int b = 0; b < 3; b++)
        for (uint32_t at = 0; at < V; at++) {
            double x[V] = { 1, 2, 3, 4, 5, 6 }, logp[2], rest, work[8 * V];
            int32_t id[2];
            uint32_t all = (1u << V) - 1, without = all & ~(1u << at);
            rt_args args = { .topk = { .N = 1, .V = V, .k = 2, .T = 1 } };
            rt_ref_call c = { .args = &args, .work = work };
            x[at] = bad[b];
            c.s[RT_TOPK_ID] = id;
            c.s[RT_TOPK_LOGP] = logp;
            c.s[RT_TOPK_REST] = &rest;
            c.s[RT_TOPK_X] = x;
            c.s[RT_TOPK_VMASK] = &all;
            rt_ref_table_double[RT_OP_TOPK](&c);
            assert_true(id[0] == -1 && id[1] == -1 && isnan(logp[0]) && isnan(logp[1]));
            c.s[RT_TOPK_VMASK] = &without;
            rt_ref_table_double[RT_OP_TOPK](&c);
            assert_true(id[0] == (at == V - 1 ? V - 2 : V - 1) && isfinite(logp[0]) && isfinite(rest));
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(huge_logits_are_differences),
                                        cmocka_unit_test(the_smallest_prefix_is_kept),
                                        cmocka_unit_test(seen_ids_are_penalised), cmocka_unit_test(topk_of_huge_logits),
                                        cmocka_unit_test(topk_of_no_numbers) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
