/* test_mix_logits.c - a chain of mix_logits over teachers: its softmax is their mixture, and kd_loss takes it as one.
 */
#include "kd_ref.h"

enum { TEACHERS = 3, PADDED = IDS + 5 };

/* y = or from y0: one teacher more, of ROWS rows */
static void mix(double *y, const double *y0, const double *x, const double *weight, const uint32_t *vmask, uint32_t U,
                float T, float w)
{
    rt_args args = { .mix = { ROWS, IDS, U, T, w } };
    rt_ref_call c = { .args = &args };
    c.s[RT_MIX_Y] = y;
    c.s[RT_MIX_Y0] = (void *)(uintptr_t)y0;
    c.s[RT_MIX_X] = (void *)(uintptr_t)x;
    c.s[RT_MIX_WEIGHT] = (void *)(uintptr_t)weight;
    c.s[RT_MIX_VMASK] = (void *)(uintptr_t)vmask;
    rt_ref_table_double[RT_OP_MIX_LOGITS](&c);
}

static const float shares[TEACHERS] = { 0.5f, 0.3f, 0.2f };

static void a_chain_is_the_mixture(void **state)
{
    static double t[TEACHERS][ROWS * IDS], y[ROWS * IDS];
    const float T = 1.5f;
    (void)state;
    for (int k = 0; k < TEACHERS; k++) {
        for (int i = 0; i < ROWS * IDS; i++) t[k][i] = (k == 1 ? 300 : 5) * noise(30 + (uint64_t)k, (uint64_t)i);
        mix(y, k ? y : NULL, t[k], NULL, NULL, IDS, T, shares[k]);
    }
    for (int r = 0; r < ROWS; r++) {
        double p[IDS], want[IDS] = { 0 }, sum = 0;
        for (int k = 0; k < TEACHERS; k++) {
            softmax(p, t[k] + r * IDS, IDS, (double)T);
            for (int v = 0; v < IDS; v++) want[v] += (double)shares[k] * p[v];
            sum += (double)shares[k];
        }
        for (int v = 0; v < IDS; v++) near(y[r * IDS + v], (double)T * log(want[v]), 1e-12);
        softmax(p, y + r * IDS, IDS, (double)T);
        for (int v = 0; v < IDS; v++) near(p[v], want[v] / sum, 1e-15);
    }
}

/* Shares need not add up to 1, order does not matter, and a teacher twice is itself. */
static void shares_are_relative(void **state)
{
    static double a[ROWS * IDS], b[ROWS * IDS], y[ROWS * IDS], z[ROWS * IDS];
    (void)state;
    for (int i = 0; i < ROWS * IDS; i++) {
        a[i] = 4 * noise(41, (uint64_t)i);
        b[i] = 4 * noise(42, (uint64_t)i);
    }
    mix(y, NULL, a, NULL, NULL, IDS, 1, 0.75f);
    mix(y, y, b, NULL, NULL, IDS, 1, 0.25f);
    mix(z, NULL, b, NULL, NULL, IDS, 1, 2);
    mix(z, z, a, NULL, NULL, IDS, 1, 6);
    for (int i = 0; i < ROWS * IDS; i++) near(z[i] - log(8), y[i], 1e-13);
    mix(y, NULL, a, NULL, NULL, IDS, 1, 0.5f);
    mix(y, y, a, NULL, NULL, IDS, 1, 0.5f);
    mix(z, NULL, a, NULL, NULL, IDS, 1, 1);
    for (int i = 0; i < ROWS * IDS; i++) near(z[i], y[i], 1e-14);
}

/* Each row from one teacher: the others' logits, which nobody computed, are not read. */
static void records_name_their_teacher(void **state)
{
    static double t[TEACHERS][ROWS * IDS], y[ROWS * IDS], alone[ROWS * IDS];
    double weight[TEACHERS][ROWS] = { { 0, 1, 0, 0 }, { 0, 0, 1, 0 }, { 1, 0, 0, 0 } };
    (void)state;
    for (int k = 0; k < TEACHERS; k++)
        for (int i = 0; i < ROWS * IDS; i++)
            t[k][i] = weight[k][i / IDS] > 0 ? 5 * noise(50 + (uint64_t)k, (uint64_t)i) : (double)NAN;
    mix(y, NULL, t[0], weight[0], NULL, IDS, 2, 1);
    for (int v = 0; v < IDS; v++) assert_true(y[v] == (double)RT_MIX_FLOOR && y[IDS + v] > -100);
    mix(y, y, t[1], weight[1], NULL, IDS, 2, 1);
    mix(y, y, t[2], weight[2], NULL, IDS, 2, 1);
    for (int r = 0; r < ROWS - 1; r++) {
        int k = r == 0 ? 2 : r - 1;
        mix(alone, NULL, t[k], weight[k], NULL, IDS, 2, 1);
        for (int v = 0; v < IDS; v++) assert_true(y[r * IDS + v] == alone[r * IDS + v]);
    }
    for (int v = 0; v < IDS; v++) assert_true(y[(ROWS - 1) * IDS + v] == (double)RT_MIX_FLOOR); /* nobody's */
}

/* Padding columns of the teacher and ids outside the mask take no part, whatever is there. */
static void columns_outside_take_no_part(void **state)
{
    static double wide[ROWS * PADDED], x[ROWS * IDS], y[ROWS * IDS], z[ROWS * IDS];
    uint32_t vmask[2] = { ~(1u << 7), 0xff };
    (void)state;
    for (int r = 0; r < ROWS; r++)
        for (int v = 0; v < PADDED; v++) {
            wide[r * PADDED + v] = v < IDS && v != 7 ? 3 * noise(60, (uint64_t)(r * PADDED + v)) : (double)NAN;
            if (v < IDS) x[r * IDS + v] = v != 7 ? wide[r * PADDED + v] : -1e6;
        }
    mix(y, NULL, wide, NULL, vmask, PADDED, 1, 1);
    mix(z, NULL, x, NULL, NULL, IDS, 1, 1);
    for (int i = 0; i < ROWS * IDS; i++) {
        if (i % IDS == 7)
            assert_true(y[i] == 0 && z[i] == (double)RT_MIX_FLOOR);
        else
            near(y[i], z[i], 1e-14);
    }
    /* fewer columns than y */
    mix(y, NULL, x, NULL, vmask, IDS - 10, 1, 1);
    for (int v = IDS - 10; v < IDS; v++) assert_true(y[v] == 0);
}

static void what_is_not_finite_stays_visible(void **state)
{
    static double x[ROWS * IDS], y0[ROWS * IDS], y[ROWS * IDS];
    const double weight[ROWS] = { 1, -1, NAN, 0 };
    (void)state;
    y0[5] = NAN;
    x[IDS - 1] = INFINITY;
    mix(y, y0, x, NULL, NULL, IDS, 1, 1);
    for (int v = 0; v < IDS; v++) assert_true(isnan(y[v]) && isfinite(y[IDS + v]));
    x[IDS - 1] = 0;
    mix(y, y0, x, weight, NULL, IDS, 1, 1);
    for (int v = 0; v < IDS; v++) {
        assert_true(isnan(y[v]) == (v == 5));
        assert_true(isnan(y[IDS + v]) && isnan(y[2 * IDS + v]) && y[3 * IDS + v] == 0);
    }
}

/* The loss against the mixture, by the definition of the divergence. */
static void the_loss_takes_a_mixture(void **state)
{
    double t[2][ROWS * IDS], weight[2][ROWS] = { { 1, 0, 0.5, 0.9 }, { 0, 1, 0.5, 0.1 } };
    (void)state;
    for (uint32_t d = 0; d < RT_DIV_COUNT; d++) {
        kd k = divergence_only(ROWS, IDS, d, 2, 0.25f);
        random_logits(&k, 4);
        for (int m = 0; m < 2; m++) {
            for (int i = 0; i < ROWS * IDS; i++) t[m][i] = 4 * noise(70 + (uint64_t)m, (uint64_t)i);
            mix(k.teacher, m ? k.teacher : NULL, t[m], weight[m], NULL, IDS, 2, 1);
        }
        kd before = k;
        run(&k);
        assert_false(k.fault.set);
        for (int r = 0; r < ROWS; r++) {
            double p[2][IDS], q[IDS], want = 0;
            for (int m = 0; m < 2; m++) softmax(p[m], t[m] + r * IDS, IDS, 2);
            softmax(q, before.z + r * IDS, IDS, 2);
            for (int v = 0; v < IDS; v++) want += term(d, 0.25, weight[0][r] * p[0][v] + weight[1][r] * p[1][v], q[v]);
            near(k.div[r], want, 1e-14);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_chain_is_the_mixture),           cmocka_unit_test(shares_are_relative),
        cmocka_unit_test(records_name_their_teacher),       cmocka_unit_test(columns_outside_take_no_part),
        cmocka_unit_test(what_is_not_finite_stays_visible), cmocka_unit_test(the_loss_takes_a_mixture)
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
