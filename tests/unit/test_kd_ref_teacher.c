/* test_kd_ref_teacher.c - the distillation loss of the reference: a teacher given as a list, extremes, and faults.
 *
 * The other half of test_kd_ref.c. */
#include "kd_ref.h"

/* ---- the teacher as a list ---- */

/* The first `listed` ids of Vc in falling order of id, then an unused entry where there is room. */
static kd as_list(const kd *full, uint32_t listed, uint32_t k)
{
    kd t = *full;
    t.a.U = 0;
    t.a.k = k;
    for (uint32_t i = 0; i < t.a.N; i++) {
        double p[IDS], rest = 0;
        uint32_t V = t.a.V;
        softmax(p, full->teacher + i * V, (int)V, full->a.T);
        for (uint32_t j = 0; j < k; j++) {
            t.id[i * k + j] = j < listed ? (int32_t)(V - 1 - j) : -7;
            t.logp[i * k + j] = j < listed ? log(p[V - 1 - j]) : NAN;
        }
        for (uint32_t v = 0; v < V - listed; v++) rest += p[v];
        t.rest[i] = rest;
    }
    return t;
}

static void whole_list_equals_full(void **state)
{
    (void)state;
    for (uint32_t d = 0; d < RT_DIV_COUNT; d++)
        for (int r = 0; r < 2; r++) {
            kd full = divergence_only(ROWS, IDS, d, 2, 0.25f);
            full.a.ce_weight = 1;
            random_logits(&full, 4);
            kd list = as_list(&full, IDS, IDS);
            for (int i = 0; i < ROWS; i++) list.rest[i] = r ? 1e-9 : 0; /* mass that has no id is rounding */
            run(&full);
            run(&list);
            assert_false(list.fault.set);
            same_loss(&list, &full, 1e-14);
        }
}

/* One id left over, and it is the first: the rest is that id. */
static void rest_of_one_id_equals_full(void **state)
{
    (void)state;
    for (uint32_t d = 0; d < RT_DIV_COUNT; d++) {
        kd full = divergence_only(ROWS, IDS, d, 2, 0.25f);
        random_logits(&full, 4);
        kd list = as_list(&full, IDS - 1, IDS - 1);
        run(&full);
        run(&list);
        assert_false(list.fault.set);
        same_loss(&list, &full, 1e-13);
    }
}

static void list_and_rest_are_the_outcomes(void **state)
{
    (void)state;
    enum { LISTED = 5 };
    for (uint32_t d = 0; d < RT_DIV_COUNT; d++)
        for (int m = 0; m < MIXES; m++) {
            kd full = divergence_only(ROWS, IDS, d, 1.5f, mixes[m]);
            random_logits(&full, 4);
            kd list = as_list(&full, LISTED, LISTED + 1);
            run(&list);
            assert_false(list.fault.set);
            for (int i = 0; i < ROWS; i++) {
                double p[IDS], q[IDS], want = 0, ps = 0, qs = 0, sum = 0;
                softmax(p, full.teacher + i * IDS, IDS, 1.5);
                softmax(q, full.z + i * IDS, IDS, 1.5);
                for (int v = 0; v < IDS - LISTED; v++) {
                    ps += p[v];
                    qs += q[v];
                }
                for (int v = IDS - LISTED; v < IDS; v++) want += term(d, mixes[m], p[v], q[v]);
                near(list.div[i], want + term(d, mixes[m], ps, qs), 1e-14);
                for (int v = 0; v < IDS; v++) sum += list.z[i * IDS + v];
                near(sum, 0, 1e-15);
                /* The ids that share an outcome share its slope in proportion to q. */
                for (int v = 1; v < IDS - LISTED; v++) near(list.z[i * IDS + v] * q[0], list.z[i * IDS] * q[v], 1e-16);
            }
        }
}

/* A rest of nothing is 0 log 0 for the forms that weigh by P; the forms that weigh by Q have an infinite divergence. */
static void rest_without_mass(void **state)
{
    (void)state;
    for (int r = 0; r < 2; r++)
        for (uint32_t d = 0; d < RT_DIV_COUNT; d++) {
            kd k = divergence_only(1, 3, d, 1, 0.5f);
            k.a.U = 0;
            k.a.k = 2;
            const double z[3] = { log(0.5), log(0.25), log(0.25) }, logp[2] = { log(0.25), log(0.75) };
            memcpy(k.z, z, sizeof z);
            memcpy(k.logp, logp, sizeof logp);
            k.id[1] = 1;
            k.rest[0] = r ? -1e-9 : 0;
            run(&k);
            double want = term(d, 0.5, 0.25, 0.5) + term(d, 0.5, 0.75, 0.25) + term(d, 0.5, 0, 0.25);
            assert_int_equal(k.fault.set, d == RT_DIV_REVERSE_KL);
            if (d == RT_DIV_REVERSE_KL)
                assert_true(isinf(want) && k.div[0] == want);
            else
                near(k.div[0], want, 1e-15);
        }
}

/* Every divergence, full and as a list, with CE: the gradient against differences of the sums that were reported. */
static void central_differences(void **state)
{
    (void)state;
    const double h = 1e-5;
    for (uint32_t d = 0; d < RT_DIV_COUNT; d++)
        for (int list = 0; list < 2; list++) {
            kd k = divergence_only(1, IDS, d, 1.5f, 0.25f);
            k.a.ce_weight = 0.5f;
            k.a.t2 = 1;
            random_logits(&k, 3);
            if (list) k = as_list(&k, 5, 6);
            kd slope = k;
            run(&slope);
            for (int v = 0; v < IDS; v++) {
                kd up = k, down = k;
                up.z[v] += h;
                down.z[v] -= h;
                run(&up);
                run(&down);
                double ce = up.sums[0] - down.sums[0], div = up.sums[1] - down.sums[1];
                near(slope.z[v], (0.5 * ce + 2.25 * div) / (2 * h), 1e-9);
            }
        }
}

/* ---- extremes ---- */

/* A constant on all logits of either side changes nothing, however far it takes them from 0. */
static void far_from_zero(void **state)
{
    (void)state;
    for (int list = 0; list < 2; list++)
        for (int sign = -1; sign <= 1; sign += 2) {
            kd k = divergence_only(ROWS, IDS, RT_DIV_JSD, 1, 0.25f);
            k.a.ce_weight = 1;
            random_logits(&k, 3);
            if (list) k = as_list(&k, 5, 6);
            kd far = k;
            for (int i = 0; i < ROWS * IDS; i++) {
                far.z[i] += sign * 4096;
                far.teacher[i] += sign * 8192;
            }
            run(&k);
            run(&far);
            assert_false(far.fault.set);
            same_loss(&far, &k, 1e-11); /* the sums above were rounded at 2^12 */
        }
}

static void underflow_is_exact(void **state)
{
    (void)state;
    const double gaps[] = { 500, 1000, 1e4 };
    for (size_t i = 0; i < sizeof gaps / sizeof *gaps; i++)
        for (uint32_t d = 0; d < RT_DIV_COUNT; d++) {
            double gap = gaps[i];
            kd k = divergence_only(1, 3, d, 1, 0.25f);
            const double z[3] = { gap / 2, -gap / 2, -gap / 2 }, t[3] = { -gap / 2, gap / 2, -gap / 2 };
            memcpy(k.z, z, sizeof z);
            memcpy(k.teacher, t, sizeof t);
            k.a.ce_weight = 1;
            k.target[0] = 2;
            run(&k);
            /* p = (0,1,0) and q = (1,0,0), disjoint; logarithms differ by the gap. */
            bool log_of_both = d == RT_DIV_FORWARD_KL || d == RT_DIV_REVERSE_KL;
            near(k.div[0], log_of_both ? gap : term(d, 0.25, 0, 1) + term(d, 0.25, 1, 0), 1e-12);
            near(k.ce[0], gap, 1e-12);
            assert_false(k.fault.set);
            /* CE: (1, 0, -1). Forward KL: q - p. The others are flat: q cannot move. */
            double kl = d == RT_DIV_FORWARD_KL;
            near(k.z[0], 1 + kl, 1e-12);
            near(k.z[1], -kl, 1e-12);
            near(k.z[2], -1, 1e-12);
        }
}

/* The student gives the rest, two ids, a mass below the smallest double. */
static void rest_that_underflows(void **state)
{
    (void)state;
    const double gap = 2000;
    kd k = divergence_only(1, 3, RT_DIV_FORWARD_KL, 1, 0);
    k.a.U = 0;
    k.a.k = 1;
    k.z[0] = gap;
    k.logp[0] = log(0.5);
    k.rest[0] = 0.5;
    run(&k);
    near(k.div[0], gap / 2 - 1.5 * log(2), 1e-12);
    near(k.z[0], 0.5, 1e-15);
    near(k.z[1], -0.25, 1e-12); /* a share of the rest: the difference of two logarithms near -2000 */
    near(k.z[2], -0.25, 1e-12);
}

static void no_teacher_is_ce_alone(void **state)
{
    (void)state;
    kd k = divergence_only(ROWS, IDS, RT_DIV_JSD, 2, 0.5f);
    k.a.U = 0;
    k.a.ce_weight = 1;
    k.a.kd_weight = 0;
    random_logits(&k, 4);
    kd before = k;
    run(&k);
    for (int i = 0; i < ROWS; i++) {
        double q[IDS];
        softmax(q, before.z + i * IDS, IDS, 1);
        near(k.ce[i], -log(q[0]), 1e-14);
        assert_true(k.div[i] == 0 && k.top1[i] == 0);
        for (int v = 0; v < IDS; v++) near(k.z[i * IDS + v], q[v] - (v == 0), 1e-15);
    }
}

/* ---- faults ---- */

enum fault_kind {
    STUDENT,
    STUDENT_PADDING,
    TEACHER,
    TEACHER_FIRST,
    LIST,
    REST,
    TARGET,
    LIST_ID,
    LIST_TWICE,
    FAULT_KINDS
};

static kd faulty(enum fault_kind kind, int row, double bad)
{
    kd k = divergence_only(ROWS, IDS, RT_DIV_FORWARD_KL, 1, 0);
    k.masked = true;
    k.vmask[0] = 0xffffffffu;
    k.vmask[1] = 0x7fu; /* id 39 is outside */
    random_logits(&k, 1);
    if (kind == LIST || kind == REST || kind == LIST_ID || kind == LIST_TWICE) k = as_list(&k, 0, 3);
    for (int i = 0; k.a.k && i < ROWS; i++) {
        k.id[i * 3] = 4;
        k.logp[i * 3] = log(0.5);
        k.rest[i] = 0.5;
    }
    switch (kind) {
    case STUDENT: k.z[row * IDS + 5] = bad; break;
    case STUDENT_PADDING: k.z[row * IDS + IDS - 1] = bad; break;
    case TEACHER: k.teacher[row * IDS + 38] = bad; break;
    case TEACHER_FIRST: k.teacher[row * IDS] = bad; break;
    case LIST: k.logp[row * 3] = bad; break;
    case REST: k.rest[row] = bad; break;
    case TARGET: k.target[row] = IDS; break;
    case LIST_ID:
        k.id[row * 3 + 1] = IDS - 1;
        k.logp[row * 3 + 1] = -1;
        break;
    default:
        k.id[row * 3 + 1] = 4;
        k.logp[row * 3 + 1] = -1;
        break;
    }
    return k;
}

static void faults_are_recorded(void **state)
{
    (void)state;
    const double values[] = { NAN, INFINITY, -INFINITY };
    for (int kind = 0; kind < FAULT_KINDS; kind++)
        for (int i = 0; i < 3; i++) {
            kd k = faulty((enum fault_kind)kind, 2, values[i]), good = faulty((enum fault_kind)kind, 2, 0.5);
            run(&k);
            assert_int_equal(k.fault.set, 1);
            assert_int_equal(k.fault.step, STEP);
            assert_int_equal(k.fault.site, SITE);
            assert_int_equal(k.fault.row, 2);
            assert_true(isfinite(k.div[1]) && isfinite(k.z[IDS])); /* other rows are as they were */
            if (kind == TARGET) assert_true(isnan(k.ce[2]));
            if (kind >= TARGET) continue;
            run(&good);
            assert_int_equal(good.fault.set, 0);
        }
}

static void the_first_fault_stays(void **state)
{
    (void)state;
    kd k = faulty(STUDENT, 3, NAN);
    k.z[IDS] = INFINITY; /* row 1 is the lowest bad one */
    run(&k);
    assert_true(k.fault.set == 1 && k.fault.row == 1);
    k.step.step = STEP + 1;
    k.a.site = SITE + 1;
    run(&k); /* everything is bad now, and nothing changes */
    assert_true(k.fault.set == 1 && k.fault.row == 1 && k.fault.step == STEP && k.fault.site == SITE);
}

static void what_is_outside_is_no_fault(void **state)
{
    (void)state;
    kd k = faulty(STUDENT, 0, 0.5);
    k.teacher[IDS - 1] = NAN; /* outside Vc */
    k.z[IDS] = NAN;
    k.target[1] = -1; /* masked */
    run(&k);
    assert_int_equal(k.fault.set, 0);
    kd list = faulty(LIST, 0, -1);
    list.id[1] = -1;
    list.logp[1] = NAN; /* unused */
    run(&list);
    assert_int_equal(list.fault.set, 0);
    assert_true(isfinite(list.div[0]));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(whole_list_equals_full),
        cmocka_unit_test(rest_of_one_id_equals_full),
        cmocka_unit_test(list_and_rest_are_the_outcomes),
        cmocka_unit_test(rest_without_mass),
        cmocka_unit_test(central_differences),
        cmocka_unit_test(far_from_zero),
        cmocka_unit_test(underflow_is_exact),
        cmocka_unit_test(rest_that_underflows),
        cmocka_unit_test(no_teacher_is_ce_alone),
        cmocka_unit_test(faults_are_recorded),
        cmocka_unit_test(the_first_fault_stays),
        cmocka_unit_test(what_is_outside_is_no_fault),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
