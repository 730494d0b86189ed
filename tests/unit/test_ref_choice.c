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

static int32_t sample(const double *x, rt_sample_args a, uint32_t step_number)
{
    double work[8 * V];
    int32_t id = -99;
    rt_step step = { .step = step_number, .tokens = 1, .seed = 11 };
    rt_args args = { .sample = a };
    rt_ref_call c = { .args = &args, .work = work };
    assert_true(rt_ref_work(RT_OP_SAMPLE, &args) <= 8 * V);
    c.s[RT_SAMPLE_ID] = &id;
    c.s[RT_SAMPLE_X] = (void *)(uintptr_t)x;
    c.s[RT_SAMPLE_STEP] = &step;
    rt_ref_table_double[RT_OP_SAMPLE](&c);
    return id;
}

/* Inverse of the cumulative distribution at the same random number, written for two ids of known masses. */
static void huge_logits_are_differences(void **state)
{
    const double base[] = { 0.0, 900.0, -900.0 };
    uint32_t seen[2] = { 0 };
    (void)state;
    for (uint32_t t = 1; t <= 200; t++)
        for (int b = 0; b < 3; b++) {
            double x[V] = { base[b] + 1.0, base[b], -5000, -5000, -5000, -5000 };
            float u = rt_rng_unit(rt_philox(11, (uint64_t)3 << 32 | t, 0).v[0]);
            int32_t want = u < 1 / (1 + exp(-1.0 / 0.5)) ? 0 : 1;
            int32_t got =
                sample(x, (rt_sample_args){ .N = 1, .V = V, .temperature = 0.5f, .top_p = 1, .stream = 3 }, t);
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
        rt_sample_args a = { .N = 1, .V = V, .temperature = 1, .top_p = 0.75f };
        assert_true(sample(x, a, t) < 2); /* 0.5 + 0.3 reaches 0.75 */
        a.top_p = 0.25f;
        assert_int_equal(sample(x, a, t), 0);
        a.top_p = 1;
        a.top_k = 3;
        assert_true(sample(x, a, t) < 3);
        a.temperature = 0;
        assert_int_equal(sample(x, a, t), 0);
    }
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
                                        cmocka_unit_test(topk_of_huge_logits), cmocka_unit_test(topk_of_no_numbers) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
