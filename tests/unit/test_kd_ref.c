/* test_kd_ref.c - the distillation loss of the reference, in double, against closed forms and direct formulas.
 *
 * The function is called through the table, without plan or driver. The teacher as a list, extremes and faults are in
 * test_kd_ref_teacher.c. */
#include "kd_ref.h"

/* ---- closed forms ---- */

/* q = (1/2, 1/4, 1/4), p = (1/4, 1/4, 1/2), target 0: everything is a fraction of a logarithm. */
static kd three_tokens(uint32_t divergence, float mix)
{
    kd k = divergence_only(1, 3, divergence, 1, mix);
    const double z[3] = { log(0.5), log(0.25), log(0.25) }, t[3] = { log(0.25) + 3, log(0.25) + 3, log(0.5) + 3 };
    memcpy(k.z, z, sizeof z);
    memcpy(k.teacher, t, sizeof t);
    return k;
}

static void hand_computed_values(void **state)
{
    (void)state;
    const struct {
        uint32_t divergence;
        float mix;
        double want;
    } cases[] = {
        { RT_DIV_FORWARD_KL, 0, log(2) / 4 },
        { RT_DIV_REVERSE_KL, 0, log(2) / 4 },
        { RT_DIV_JSD, 0.5f, log(4.0 / 3) / 2 + log(2.0 / 3) / 4 },
        { RT_DIV_SKEW_FKL, 0.25f, log(4.0 / 7) / 4 + log(8.0 / 5) / 2 },
        { RT_DIV_SKEW_RKL, 0.25f, log(8.0 / 5) / 2 + log(4.0 / 7) / 4 },
        { RT_DIV_TV, 0, 0.25 },
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        kd k = three_tokens(cases[i].divergence, cases[i].mix);
        run(&k);
        near(k.div[0], cases[i].want, 1e-15);
        near(k.ce[0], log(2), 1e-15);
        assert_true(k.top1[0] == 0 && !k.fault.set);
    }
}

static void hand_computed_gradients(void **state)
{
    (void)state;
    double ln2 = log(2), g0 = log(4.0 / 3) / 4, g2 = log(2.0 / 3) / 8, G = g0 + g2;
    const struct {
        uint32_t divergence;
        double want[3];
    } cases[] = {
        { RT_DIV_FORWARD_KL, { 0.25, 0, -0.25 } },
        { RT_DIV_REVERSE_KL, { ln2 * 3 / 8, -ln2 / 16, -ln2 * 5 / 16 } },
        { RT_DIV_JSD, { g0 - G / 2, -G / 4, g2 - G / 4 } },
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        kd k = three_tokens(cases[i].divergence, 0.5f);
        run(&k);
        for (int v = 0; v < 3; v++) near(k.z[v], cases[i].want[v], 1e-15);
    }
    /* Total variation away from ties: p = (1/8, 1/8, 3/4). */
    kd tv = three_tokens(RT_DIV_TV, 0);
    tv.teacher[0] = tv.teacher[1] = log(0.125);
    tv.teacher[2] = log(0.75);
    run(&tv);
    near(tv.div[0], 0.5, 1e-15);
    near(tv.z[0], 0.125, 1e-15);
    near(tv.z[1], 0.0625, 1e-15);
    near(tv.z[2], -0.1875, 1e-15);
    /* Both parts with their weights, over 3 tokens of which this is one: CE's own gradient is q - (1,0,0). */
    kd k = three_tokens(RT_DIV_FORWARD_KL, 0);
    k.a.ce_weight = 0.5f;
    k.a.kd_weight = 0.25f;
    k.step.tokens = 3;
    run(&k);
    near(k.z[0], (0.5 * -0.5 + 0.25 * 0.25) / 3, 1e-16);
    near(k.z[1], (0.5 * 0.25) / 3, 1e-16);
    near(k.z[2], (0.5 * 0.25 - 0.25 * 0.25) / 3, 1e-16);
}

static void itself_is_zero(void **state)
{
    (void)state;
    for (uint32_t d = 0; d < RT_DIV_COUNT; d++)
        for (int m = 0; m < MIXES; m++) {
            kd k = divergence_only(ROWS, IDS, d, 2, mixes[m]);
            random_logits(&k, 5);
            memcpy(k.teacher, k.z, sizeof k.z);
            run(&k);
            for (int i = 0; i < ROWS; i++) {
                near(k.div[i], 0, 1e-15);
                assert_true(k.top1[i] == 1);
            }
            for (int i = 0; i < ROWS * IDS; i++) near(k.z[i], 0, 1e-16);
            assert_true(k.sums[2] == ROWS && k.sums[3] == ROWS);
        }
}

/* A constant added to all logits changes nothing, so the gradient has no part along it. */
static void gradient_rows_sum_to_zero(void **state)
{
    (void)state;
    for (uint32_t d = 0; d < RT_DIV_COUNT; d++)
        for (int m = 0; m < MIXES; m++)
            for (int ce = 0; ce < 2; ce++) {
                kd k = divergence_only(ROWS, IDS, d, 1.5f, mixes[m]);
                k.a.ce_weight = (float)ce;
                random_logits(&k, 4);
                run(&k);
                for (int i = 0; i < ROWS; i++) {
                    double sum = 0, size = 0;
                    for (int v = 0; v < IDS; v++) {
                        sum += k.z[i * IDS + v];
                        size += fabs(k.z[i * IDS + v]);
                    }
                    assert_true(size > 1e-3);
                    near(sum, 0, 1e-14 * size);
                }
            }
}

static void direct_formulas(void **state)
{
    (void)state;
    for (uint32_t d = 0; d < RT_DIV_COUNT; d++)
        for (int m = 0; m < MIXES; m++)
            for (int t = 0; t < 3; t++) {
                float T = t == 0 ? 1 : t == 1 ? 4 : 0.5f;
                kd k = divergence_only(ROWS, IDS, d, T, mixes[m]), before;
                random_logits(&k, 3);
                for (int i = 0; i < ROWS; i++) k.target[i] = i * 13; /* 0, 13, 26, 39 */
                before = k;
                run(&k);
                double div = 0, ce = 0;
                for (int i = 0; i < ROWS; i++) {
                    double p[IDS], q[IDS], one[IDS], want = 0;
                    softmax(p, before.teacher + i * IDS, IDS, T);
                    softmax(q, before.z + i * IDS, IDS, T);
                    softmax(one, before.z + i * IDS, IDS, 1);
                    for (int v = 0; v < IDS; v++) want += term(d, mixes[m], p[v], q[v]);
                    near(k.div[i], want, 1e-14);
                    near(k.ce[i], -log(one[i * 13]), 1e-14);
                    div += k.div[i];
                    ce += k.ce[i];
                }
                near(k.sums[0], ce, 1e-15);
                near(k.sums[1], div, 1e-15);
            }
}

/* ---- relations between the forms ---- */

static void jsd_is_symmetric_at_half(void **state)
{
    (void)state;
    kd a = divergence_only(ROWS, IDS, RT_DIV_JSD, 1, 0.5f), b = a;
    random_logits(&a, 4);
    memcpy(b.z, a.teacher, sizeof b.z);
    memcpy(b.teacher, a.z, sizeof b.z);
    run(&a);
    run(&b);
    for (int i = 0; i < ROWS; i++) {
        near(a.div[i], b.div[i], 1e-15);
        assert_true(a.div[i] > 0.01 && a.div[i] < log(2));
    }
}

static void forms_that_coincide(void **state)
{
    (void)state;
    const struct {
        uint32_t a;
        float mix;
        uint32_t b;
    } pairs[] = {
        { RT_DIV_JSD, 0, RT_DIV_FORWARD_KL },
        { RT_DIV_JSD, 1, RT_DIV_REVERSE_KL },
        { RT_DIV_SKEW_FKL, 0, RT_DIV_FORWARD_KL },
        { RT_DIV_SKEW_RKL, 0, RT_DIV_REVERSE_KL },
    };
    for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++) {
        kd a = divergence_only(ROWS, IDS, pairs[i].a, 2, pairs[i].mix);
        kd b = divergence_only(ROWS, IDS, pairs[i].b, 2, 0.3f); /* mix means nothing to the plain forms */
        random_logits(&a, 4);
        random_logits(&b, 4);
        run(&a);
        run(&b);
        same_loss(&a, &b, 1e-14);
    }
}

/* Temperature T on logits is temperature 1 on logits / T, and its gradient is 1/T of that; t2 multiplies by T^2. */
static void temperature_and_its_square(void **state)
{
    (void)state;
    for (uint32_t d = 0; d < RT_DIV_COUNT; d++) {
        kd warm = divergence_only(ROWS, IDS, d, 4, 0.25f), squared, cold;
        random_logits(&warm, 8);
        squared = cold = warm;
        squared.a.t2 = 1;
        cold.a.T = 1;
        for (int i = 0; i < ROWS * IDS; i++) {
            cold.z[i] /= 4;
            cold.teacher[i] /= 4;
        }
        run(&warm);
        run(&squared);
        run(&cold);
        for (int i = 0; i < ROWS; i++) {
            near(warm.div[i], cold.div[i], 1e-15);
            near(squared.div[i], warm.div[i], 0); /* what is reported is D itself */
        }
        for (int i = 0; i < ROWS * IDS; i++) {
            near(warm.z[i], cold.z[i] / 4, 1e-16);
            near(squared.z[i], warm.z[i] * 16, 1e-16);
        }
    }
}

static void logits_stay_without_grad(void **state)
{
    (void)state;
    kd k = divergence_only(ROWS, IDS, RT_DIV_JSD, 2, 0.5f), with;
    random_logits(&k, 4);
    k.target[1] = -1;
    with = k;
    k.a.grad = 0;
    kd before = k;
    run(&k);
    run(&with);
    assert_memory_equal(k.z, before.z, sizeof k.z);
    assert_memory_equal(k.sums, with.sums, sizeof k.sums);
    assert_memory_equal(k.div, with.div, sizeof k.div);
}

static void sums_add_and_masked_rows_count_for_nothing(void **state)
{
    (void)state;
    kd all = divergence_only(ROWS, IDS, RT_DIV_REVERSE_KL, 2, 0), some;
    all.a.ce_weight = 1;
    random_logits(&all, 4);
    memcpy(all.teacher, all.z, IDS * sizeof *all.z); /* row 0 agrees */
    some = all;
    some.target[1] = -100;
    some.target[3] = -1;
    for (int v = 0; v < IDS; v++) some.z[IDS + v] = NAN; /* nobody looks at it */
    some.teacher[3 * IDS] = INFINITY;
    for (int j = 0; j < 4; j++) some.sums[j] = 100 + j;
    run(&all);
    run(&some);
    assert_false(some.fault.set);
    for (int i = 0; i < ROWS; i++) {
        bool trained = i % 2 == 0;
        assert_true(some.ce[i] == (trained ? all.ce[i] : 0) && some.div[i] == (trained ? all.div[i] : 0));
        assert_true(some.top1[i] == (trained ? all.top1[i] : 0));
        for (int v = 0; v < IDS; v++) assert_true(some.z[i * IDS + v] == (trained ? all.z[i * IDS + v] : 0));
    }
    assert_true(some.top1[0] == 1);
    near(some.sums[0], 100 + all.ce[0] + all.ce[2], 1e-12);
    near(some.sums[1], 101 + all.div[0] + all.div[2], 1e-12);
    near(some.sums[2], 102 + all.top1[0] + all.top1[2], 0);
    near(some.sums[3], 103 + 2, 0);
}

/* ---- vocabulary ---- */

/* Padding outside Vc, on either side, leaves the divergence alone: the same as if those columns did not exist. */
static void padding_is_outside(void **state)
{
    (void)state;
    enum { V = 37, U = 39, REAL = 33 };
    for (uint32_t d = 0; d < RT_DIV_COUNT; d++) {
        kd small = divergence_only(1, REAL, d, 2, 0.25f), padded = divergence_only(1, V, d, 2, 0.25f);
        padded.a.U = U;
        padded.masked = true;
        for (int v = 0; v < U; v++) padded.teacher[v] = 1000; /* would win by far if it counted */
        padded.teacher[U - 1] = NAN;
        for (int v = 0; v < V; v++) padded.z[v] = 50;
        for (int j = 0, v = 0; j < REAL; j++, v++) {
            if (v == 3 || v == 20 || v == 31) v++; /* holes in the middle too */
            padded.vmask[v / 32] |= 1u << v % 32;
            padded.z[v] = small.z[j] = 4 * noise(3, (uint64_t)j);
            padded.teacher[v] = small.teacher[j] = 4 * noise(4, (uint64_t)j);
        }
        kd before = padded;
        run(&small);
        run(&padded);
        assert_false(padded.fault.set);
        near(padded.div[0], small.div[0], 1e-15);
        assert_true(padded.top1[0] == small.top1[0]);
        double sum = 0;
        for (int v = 0; v < V; v++) sum += exp(before.z[v]);
        near(padded.ce[0], log(sum) - before.z[0], 1e-13); /* CE knows all columns */
        for (int j = 0, v = 0; v < V; v++) {
            bool in = padded.vmask[v / 32] >> v % 32 & 1;
            near(padded.z[v], in ? small.z[j] : 0, 1e-16);
            j += in;
        }
    }
}

static void agreement_takes_the_lowest_of_ties(void **state)
{
    (void)state;
    kd k = divergence_only(2, 4, RT_DIV_FORWARD_KL, 1, 0);
    const double z[8] = { 1, 3, 3, 0, 1, 3, 3, 0 }, t[8] = { 0, 9, 9, 9, 0, 0, 9, 9 };
    memcpy(k.z, z, sizeof z);
    memcpy(k.teacher, t, sizeof t);
    run(&k);
    assert_true(k.top1[0] == 1 && k.top1[1] == 0); /* id 1 on both sides; id 1 against id 2 */

    kd list = divergence_only(2, 4, RT_DIV_FORWARD_KL, 1, 0);
    list.a.U = 0;
    list.a.k = 3;
    memcpy(list.z, z, sizeof z);
    const int32_t id[6] = { -1, 2, 1, 1, 2, -1 }; /* in either order */
    memcpy(list.id, id, sizeof id);
    for (int j = 0; j < 6; j++) list.logp[j] = log(0.4);
    list.rest[0] = list.rest[1] = 0.2;
    run(&list);
    assert_true(list.top1[0] == 1 && list.top1[1] == 1);
}

/* Id 0 is an id like the others, first in the row and first in the list. */
static void agreement_at_the_first_id(void **state)
{
    (void)state;
    for (int list = 0; list < 2; list++) {
        kd k = divergence_only(3, 3, RT_DIV_FORWARD_KL, 1, 0);
        const double z[9] = { 5, 1, 0, 1, 5, 0, 1, 5, 0 }, t[9] = { 4, 2, 1, 2, 4, 1, 4, 2, 1 };
        const double logp[6] = { -0.1, -3, -0.1, -3, -0.1, -3 };
        const int32_t id[6] = { 0, 1, 1, 0, 0, 2 };
        memcpy(k.z, z, sizeof z);
        memcpy(k.teacher, t, sizeof t);
        memcpy(k.id, id, sizeof id);
        memcpy(k.logp, logp, sizeof logp);
        if (list) {
            k.a.U = 0;
            k.a.k = 2;
            k.rest[0] = k.rest[1] = k.rest[2] = 0.01;
        }
        run(&k);
        assert_true(k.top1[0] == 1 && k.top1[1] == 1 && k.top1[2] == 0);
    }
}

/* A teacher with fewer columns than the student: a bit beyond its last column says nothing. */
static void bits_beyond_the_teacher_are_ignored(void **state)
{
    (void)state;
    kd small = divergence_only(1, 3, RT_DIV_JSD, 1, 0.5f), wide = divergence_only(1, 5, RT_DIV_JSD, 1, 0.5f);
    wide.a.U = 3;
    wide.masked = true;
    wide.vmask[0] = 0x1f;
    for (int v = 0; v < 5; v++) wide.z[v] = v;
    for (int v = 0; v < 3; v++) {
        small.z[v] = v;
        small.teacher[v] = wide.teacher[v] = 2 * v % 3;
    }
    wide.teacher[3] = wide.teacher[4] = 100;
    run(&small);
    run(&wide);
    near(wide.div[0], small.div[0], 0);
    for (int v = 0; v < 5; v++) near(wide.z[v], v < 3 ? small.z[v] : 0, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(hand_computed_values),
        cmocka_unit_test(hand_computed_gradients),
        cmocka_unit_test(itself_is_zero),
        cmocka_unit_test(gradient_rows_sum_to_zero),
        cmocka_unit_test(direct_formulas),
        cmocka_unit_test(jsd_is_symmetric_at_half),
        cmocka_unit_test(forms_that_coincide),
        cmocka_unit_test(temperature_and_its_square),
        cmocka_unit_test(logits_stay_without_grad),
        cmocka_unit_test(sums_add_and_masked_rows_count_for_nothing),
        cmocka_unit_test(padding_is_outside),
        cmocka_unit_test(agreement_takes_the_lowest_of_ties),
        cmocka_unit_test(agreement_at_the_first_id),
        cmocka_unit_test(bits_beyond_the_teacher_are_ignored),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
