/* test_dropout.c - what dropout keeps: the share that it should, as if by chance, and apart for every stream, step, row
 * and seed; and that only training records it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "backend/ref/ref.h"
#include "train/step_plan.h"

#include <math.h>
#include <string.h>

enum { N = 200, C = 501, ALL = N * C };

/* y (N,C) of ones: 0 or 1 / (1 - p) */
static void drop(float *y, float p, uint32_t stream, rt_step step)
{
    static float ones[ALL];
    rt_args args = { .dropout = { N, C, p, stream } };
    rt_ref_call c = { .args = &args };
    for (int i = 0; i < ALL; i++) ones[i] = 1;
    memset(y, 0, ALL * sizeof *y);
    c.s[RT_DROP_Y] = y;
    c.s[RT_DROP_X] = ones;
    c.s[RT_DROP_STEP] = &step;
    rt_ref_table_float[RT_OP_DROPOUT](&c);
}

/* Is a count of n chances of probability q within five deviations? */
static bool likely(double count, double n, double q) { return fabs(count - n * q) <= 5 * sqrt(n * q * (1 - q)); }

/* How often both of y[i] and z[i + by] are kept, of n. */
static double both(const float *y, const float *z, int by, int n)
{
    double count = 0;
    for (int i = 0; i < n; i++) count += y[i] != 0 && z[i + by] != 0;
    return count;
}

static const rt_step first = { .step = 1, .tokens = 1, .seed = 7 };

static void test_share(void **state)
{
    static float y[ALL];
    const float shares[] = { 0.05f, 0.1f, 0.5f, 0.9f };
    (void)state;
    for (int k = 0; k < 4; k++) {
        double q = 1 - (double)shares[k], kept = 0;
        drop(y, shares[k], 3, first);
        for (int i = 0; i < ALL; i++) {
            assert_true(y[i] == 0 || y[i] == (float)(1 / q));
            kept += y[i] != 0;
        }
        assert_true(likely(kept, ALL, q));
        for (int j = 0; j < 8; j++) { /* of every place within a group of words, and of rows */
            double column = 0;
            for (int i = j; i < ALL; i += C) column += y[i] != 0;
            assert_true(likely(column, N, q));
        }
        /* Neighbours in a row and in a column say nothing of one another. */
        const int apart[] = { 1, 2, 3, 4, 16, 64, C, 2 * C };
        for (int j = 0; j < 8; j++) assert_true(likely(both(y, y, apart[j], ALL - apart[j]), ALL - apart[j], q * q));
    }
    drop(y, 0, 3, first);
    for (int i = 0; i < ALL; i++) assert_true(y[i] == 1);
}

static void test_apart(void **state)
{
    static float y[ALL], z[ALL];
    const rt_step next = { .step = 2, .tokens = 1, .seed = 7 }, other = { .step = 1, .tokens = 1, .seed = 8 };
    (void)state;
    drop(y, 0.5f, 3, first);
    drop(z, 0.5f, 4, first);
    assert_true(likely(both(y, z, 0, ALL), ALL, 0.25)); /* streams */
    drop(z, 0.5f, 3, next);
    assert_true(likely(both(y, z, 0, ALL), ALL, 0.25)); /* steps */
    drop(z, 0.5f, 3, other);
    assert_true(likely(both(y, z, 0, ALL), ALL, 0.25)); /* seeds */
    drop(z, 0.5f, 3, first);
    assert_memory_equal(y, z, sizeof y);
}

/* Rows are those of the step: a micro-batch that begins at row 50 has what the whole has from there on. */
static void test_rows_of_the_step(void **state)
{
    static float y[ALL], z[ALL];
    rt_step later = first;
    (void)state;
    later.row = 50;
    drop(y, 0.3f, 3, first);
    drop(z, 0.3f, 3, later);
    assert_memory_equal(y + 50 * C, z, (size_t)(N - 50) * C * sizeof *y);
}

/* What is not a number stays visible where it is dropped. */
static void test_not_finite(void **state)
{
    float x[] = { NAN, INFINITY, NAN, INFINITY }, y[4] = { 0 };
    rt_step step = first;
    rt_args args = { .dropout = { 1, 4, 0.99f, 0 } };
    rt_ref_call c = { .args = &args, .s = { [RT_DROP_Y] = y, [RT_DROP_X] = x, [RT_DROP_STEP] = &step } };
    (void)state;
    rt_ref_table_float[RT_OP_DROPOUT](&c);
    for (int i = 0; i < 4; i++) assert_false(isfinite(y[i]));
}

static uint32_t count_ops(const rt_plan *p, rt_op_kind kind)
{
    uint32_t n = 0;
    for (uint32_t i = 0; p && i < p->nops; i++) n += p->ops[i].kind == kind;
    return n;
}

/* Streams of a plan: forward and backward of an adapter share one, and no two adapters do. */
static uint32_t count_streams(const rt_plan *p)
{
    uint32_t seen[64], n = 0;
    for (uint32_t i = 0; i < p->nops; i++) {
        uint32_t k = 0, stream = p->ops[i].args.dropout.stream;
        if (p->ops[i].kind != RT_OP_DROPOUT) continue;
        while (k < n && seen[k] != stream) k++;
        if (k == n) seen[n++] = stream;
    }
    return n;
}

static rt_step_plan *record(double dropout, rt_recompute recompute)
{
    rt_err e = { 0 };
    rt_step_plan *s = NULL;
    rt_model_config c = { .layers = 2,
                          .width = 16,
                          .heads = 2,
                          .kv_heads = 1,
                          .head_dim = 8,
                          .hidden = 24,
                          .vocab = 31,
                          .context = 8,
                          .norm_eps = 1e-5,
                          .rope = { .kind = RT_ROPE_PLAIN, .theta = 100.0 } };
    rt_step_opts o = { .B = 2,
                       .T = 8,
                       .accumulate = true,
                       .recompute = rt_recompute_every(recompute),
                       .loss = { .ce_weight = 1, .temperature = 1 },
                       .policy = rt_policy_f32,
                       .beta1 = 0.9,
                       .beta2 = 0.95,
                       .eps = 1e-8,
                       .student = &c,
                       .picks = 2,
                       .sample_context = 8,
                       .lora = { .rank = 2, .alpha = 4, .roles = RT_LORA_ROLES, .dropout = dropout } };
    if (rt_step_plan_new(&s, &o, &e) < 0) fail_msg("%s", e.text);
    return s;
}

static void test_only_training_records_it(void **state)
{
    enum { ADAPTERS = 2 * 7 };
    (void)state;
    for (int recompute = 0; recompute < 2; recompute++) {
        rt_step_plan *s = record(0.1, recompute ? RT_RECOMPUTE_BLOCK : RT_RECOMPUTE_NONE);
        const rt_plan *list[RT_PROGRAM_MOST];
        uint32_t programs = rt_step_plan_list(s, list), with = 0;
        for (uint32_t i = 0; i < programs; i++) with += count_ops(list[i], RT_OP_DROPOUT) > 0;
        assert_int_equal(with, 2); /* the first and the next micro-batch; no evaluation, logits or samples */
        const int micro[] = { RT_PROGRAM_FIRST, RT_PROGRAM_NEXT };
        for (int i = 0; i < 2; i++) {
            /* x in forward, x again in backward, dx: that of the lowest qkv is asked for by nobody. What is recomputed
             * is all but down, whose adapter's x backward makes once for all that it is read for. */
            uint32_t again = recompute ? ADAPTERS - 2 : 0;
            assert_int_equal(count_ops(s->plan[micro[i]], RT_OP_DROPOUT), 3 * ADAPTERS - 3 + again);
            assert_int_equal(count_streams(s->plan[micro[i]]), ADAPTERS);
        }
        rt_step_plan_free(s);
    }
    rt_step_plan *s = record(0, RT_RECOMPUTE_NONE);
    for (int i = 0; i < RT_PROGRAM_COUNT; i++) assert_int_equal(count_ops(s->plan[i], RT_OP_DROPOUT), 0);
    rt_step_plan_free(s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_share),
        cmocka_unit_test(test_apart),
        cmocka_unit_test(test_rows_of_the_step),
        cmocka_unit_test(test_not_finite),
        cmocka_unit_test(test_only_training_records_it),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
