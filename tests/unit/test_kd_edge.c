/* test_kd_edge.c - the gradient of kd_loss in f32 where its terms cancel, against the bounds of docs/numerics.md:
 * reverse KL with all mass on different ids, total variation where q is nearly p. */
#include "exec_case.h"
#include "op/emit.h"

#include <float.h>
#include <math.h>

enum { ROWS = 64, IDS = 4096 };
static const double U = FLT_EPSILON / 2; /* 2^-24 */

typedef struct edge {
    float z[ROWS * IDS], teacher[ROWS * IDS], grad[ROWS * IDS];
    float T;
    rt_divergence divergence;
} edge;

/* The loss of all rows as one optimizer step of one token, so that gradients are those of a position. */
static void differentiate(edge *k, const char *on)
{
    rt_err e = { 0 };
    rt_space *s;
    rt_plan *p;
    rt_exec *x;
    rt_dev *d = open_dev(on, 1);
    int32_t target[ROWS] = { 0 };
    uint32_t fault[4] = { 0 };
    rt_step step = { .step = 1, .tokens = 1 };
    ok(rt_space_new(&s, &e), &e);
    rt_view in = rt_space_buf(s, RT_CLASS_INPUT, RT_DTYPE_F32, ROWS, IDS, "z");
    rt_view out = rt_space_buf(s, RT_CLASS_OUTPUT, RT_DTYPE_F32, ROWS, IDS, "gradient");
    rt_kd_io io = { .logits = out,
                    .sums = rt_space_buf(s, RT_CLASS_OUTPUT, RT_DTYPE_F32, 1, 4, "sums"),
                    .fault = rt_space_buf(s, RT_CLASS_STATE, RT_DTYPE_U32, 1, 4, "fault"),
                    .target = rt_space_buf(s, RT_CLASS_INPUT, RT_DTYPE_I32, ROWS, 1, "targets"),
                    .step = rt_space_buf(s, RT_CLASS_INPUT, RT_DTYPE_U8, 1, sizeof step, "step"),
                    .teacher = rt_space_buf(s, RT_CLASS_INPUT, RT_DTYPE_F32, ROWS, IDS, "teacher") };
    rt_kd_opts o = { .divergence = k->divergence, .T = k->T, .ce_weight = 0, .kd_weight = 1, .grad = true };
    ok(rt_plan_new(&p, s, "edge", &rt_policy_f32, &e), &e);
    rt_emit_copy(p, out, in, RT_NONE);
    rt_emit_kd_loss(p, &io, &o);
    ok(rt_exec_seal(&x, d, (const rt_plan *const *)&p, 1, NULL, &e), &e);
    ok(rt_exec_write(x, in, k->z, sizeof k->z, &e), &e);
    ok(rt_exec_write(x, io.teacher, k->teacher, sizeof k->teacher, &e), &e);
    ok(rt_exec_write(x, io.target, target, sizeof target, &e), &e);
    ok(rt_exec_write(x, io.fault, fault, sizeof fault, &e), &e);
    ok(rt_exec_write(x, io.step, &step, sizeof step, &e), &e);
    run(x, 0);
    ok(rt_exec_read(x, out, k->grad, sizeof k->grad, &e), &e);
    rt_exec_free(x);
    rt_plan_free(p);
    rt_space_free(s);
    d->api->close(d);
}

/* log softmax(x / T) in double. */
static void log_softmax(double *out, const float *x, double T)
{
    double most = -INFINITY, sum = 0;
    for (int v = 0; v < IDS; v++)
        if (x[v] / T > most) most = x[v] / T; /* fmax here makes gcc 12 for aarch64 break down */
    for (int v = 0; v < IDS; v++) sum += exp(x[v] / T - most);
    for (int v = 0; v < IDS; v++) out[v] = x[v] / T - most - log(sum);
}

static double noise(uint64_t i) /* in [-1, 1) */
{
    i = (i + 1) * 6364136223846793005u + 1442695040888963407u;
    i = (i ^ i >> 29) * 0xbf58476d1ce4e5b9u;
    return (double)(i >> 11) * 0x1p-52 - 1;
}

static const char *const devices[] = { "ref", "cpu" };
enum { DEVICES = sizeof devices / sizeof *devices };

/* Logits 55 to 65 above the rest, on one id for the student and another for the teacher, at T 0.25: the true gradient
 * is below 1e-90 everywhere. What is there instead is at most u |log q/p| q / T. */
static void reverse_kl_of_different_ids(void **state)
{
    (void)state;
    static edge k;
    k = (edge){ .T = 0.25f, .divergence = RT_DIV_REVERSE_KL };
    for (uint32_t i = 0; i < ROWS * IDS; i++) {
        k.z[i] = (float)noise(i);
        k.teacher[i] = (float)noise(i + ROWS * IDS);
    }
    for (uint32_t r = 0; r < ROWS; r++) {
        k.z[r * IDS + 7 * r] = (float)(60 + 5 * noise(r));
        k.teacher[r * IDS + 7 * r + 3] = (float)(60 + 5 * noise(r + 999));
    }
    for (int d = 0; d < DEVICES; d++) {
        double p[IDS], q[IDS], worst = 0, most = 0;
        differentiate(&k, devices[d]);
        for (uint32_t r = 0; r < ROWS; r++) {
            log_softmax(p, k.teacher + r * IDS, k.T);
            log_softmax(q, k.z + r * IDS, k.T);
            double D = 0, far = 0;
            for (int v = 0; v < IDS; v++) D += exp(q[v]) * (q[v] - p[v]);
            for (int v = 0; v < IDS; v++) far = fmax(far, exp(q[v]) > 0.5 ? fabs(q[v] - p[v]) : 0);
            for (int v = 0; v < IDS; v++) {
                double want = exp(q[v]) * (q[v] - p[v] - D) / k.T, off = fabs(k.grad[r * IDS + v] - want);
                double limit = U * far * exp(q[v]) / k.T;
                /* An exponential below 2^-125 may come out as that (cpu_kd_block.h), to the roundings of a product. */
                limit += 0x1.0001p-125 * (fabs(q[v] - p[v]) + D) / k.T;
                assert_true(off <= limit);
                if (limit > 1e-12) worst = fmax(worst, off / limit);
                most = fmax(most, off);
            }
        }
        print_message("%s: at most %.1e, %.2f of the bound\n", devices[d], most, worst);
        assert_true(most < 6.5e-5);
    }
}

/* A student that is its teacher but for 1e-4, at T 20: a sign may be wrong where q and p differ by less than their own
 * errors, and the gradient there is at most q / 2T in size, with either sign. */
static void total_variation_of_nearly_the_same(void **state)
{
    (void)state;
    static edge k;
    k = (edge){ .T = 20, .divergence = RT_DIV_TV };
    for (uint32_t i = 0; i < ROWS * IDS; i++) {
        k.teacher[i] = (float)(6 * noise(i));
        k.z[i] = (float)(k.teacher[i] + 1e-4 * noise(i + ROWS * IDS));
    }
    for (int d = 0; d < DEVICES; d++) {
        uint32_t wrong = 0;
        double p[IDS], q[IDS], apart = 0;
        differentiate(&k, devices[d]);
        for (uint32_t r = 0; r < ROWS; r++) {
            log_softmax(p, k.teacher + r * IDS, k.T);
            log_softmax(q, k.z + r * IDS, k.T);
            double S = 0;
            for (int v = 0; v < IDS; v++) S += exp(q[v]) * (q[v] > p[v] ? 0.5 : -0.5);
            for (int v = 0; v < IDS; v++) {
                double Q = exp(q[v]), want = Q * ((q[v] > p[v] ? 0.5 : -0.5) - S) / k.T, got = k.grad[r * IDS + v];
                assert_true(fabs(got) <= Q / k.T * 1.01);
                if (fabs(got - want) < 0.25 * Q / k.T) continue;
                wrong++;
                apart = fmax(apart, fabs(expm1(q[v] - p[v])));
            }
        }
        print_message("%s: %u of %d signs, where q and p are %.1e of themselves apart or less\n", devices[d], wrong,
                      ROWS * IDS, apart);
        assert_true(apart <= 0x1p-21);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(reverse_kl_of_different_ids),
                                        cmocka_unit_test(total_variation_of_nearly_the_same) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
