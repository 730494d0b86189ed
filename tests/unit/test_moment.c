/* test_moment.c - moments narrower than f32: their formats, that rounding by chance has no direction, and that over
 * 2,000 steps m and v follow those of an AdamW in double, where nearest rounding stands still. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "backend/ref/ref.h"
#include "base/rng.h"
#include "num/moment.h"

#include <math.h>
#include <string.h>

/* ---- formats ---- */

enum { CHANCES = 1 << 16 };

static void test_codes(void **state)
{
    (void)state;
    for (uint32_t exp = 1; exp <= 220; exp += 73)
        for (uint32_t code = 0; code < 256; code++) {
            float x = rt_moment_value(code, exp);
            double quanta = code < 8 ? code : ldexp(8 + code % 8, (int)(code / 8) - 1);
            assert_true((double)x == ldexp(quanta, (int)exp - 127));
            if (code) assert_true(x > rt_moment_value(code - 1, exp));
            for (uint32_t chance = 0; chance < CHANCES; chance += 0x1111) { /* what is stored stays what it is */
                assert_int_equal(rt_moment_v(x, exp, chance), code);
                assert_int_equal(rt_moment_m_value(rt_moment_m(-x, exp, chance & 0x7fff), exp) == -x, code < 128);
            }
        }
    assert_int_equal(rt_moment_m(-0.0f, 100, 0), 0); /* there is one 0 */
    assert_int_equal(rt_moment_exps(1) + rt_moment_exps(128), 4);
    assert_int_equal(rt_moment_exps(129), 4);
}

/* The least exponent whose largest code is not below the largest value. */
static void test_exponents(void **state)
{
    static const struct {
        uint32_t top, code;
    } of[] = { { RT_MOMENT_M_TOP, 127 }, { RT_MOMENT_V_TOP, 255 } };
    (void)state;
    for (int k = 0; k < 2; k++) {
        uint32_t top = of[k].top, code = of[k].code;
        for (float x = 1e-20f; x < 1e30f; x *= 1.0371f) {
            uint32_t exp = rt_moment_exp(x, top);
            assert_true(rt_moment_value(code, exp) >= x && rt_moment_value(code, exp - 1) < x);
            assert_true(rt_moment_code(x, exp, CHANCES - 1) <= code);
        }
        assert_int_equal(rt_moment_exp(0, top), 0);
        assert_int_equal(rt_moment_exp(1e-45f, top), 1);
        assert_int_equal(rt_moment_exp(3.4e38f, top), 255); /* 1.875 2^127 is the largest */
        assert_int_equal(rt_moment_exp(INFINITY, top), 255);
        assert_int_equal(rt_moment_exp(NAN, top), 255);
        assert_int_equal(rt_moment_exp(-NAN, top), 255);
    }
    assert_true(isnan(rt_moment_m_value(rt_moment_m(1, 255, 9), 255)));
    assert_true(isnan(rt_moment_v_value(rt_moment_v(1, 255, 9), 255)));
    assert_true(rt_moment_m_value(rt_moment_m(1, 0, 9), 0) == 0 && rt_moment_v_value(0xff, 0) == 0);
}

/* The mean over all chances is the value itself, to the 16 bits of a chance. */
static void test_no_direction(void **state)
{
    static const float values[] = { 1.0f, 1.01f, 1.12f, 1.4999f, 1.87f, 0.37f, 0.0131f, 1e-4f, 1.1e-5f, 3e-6f };
    (void)state;
    for (uint32_t i = 0; i < sizeof values / sizeof *values; i++) {
        float x = values[i];
        uint32_t exp_m = rt_moment_exp(1.875f, RT_MOMENT_M_TOP), exp_v = rt_moment_exp(1.875f, RT_MOMENT_V_TOP);
        double m = 0, v = 0, h = 0, quantum = ldexp(1, (int)exp_m - 127);
        for (uint32_t c = 0; c < CHANCES; c++) {
            m += (double)rt_moment_m_value(rt_moment_m(-x, exp_m, c), exp_m);
            v += (double)rt_moment_v_value(rt_moment_v(x, exp_v, c), exp_v);
            h += (double)rt_bf16_to_f32(rt_moment_bf16(x, c));
        }
        assert_true(fabs(m / CHANCES + (double)x) <= (0.125 * (double)x + quantum) / CHANCES);
        assert_true(fabs(v / CHANCES - (double)x) <= 0.125 * (double)x / CHANCES);
        assert_true(fabs(h / CHANCES - (double)x) <= 0x1p-7 * (double)x / CHANCES);
    }
}

/* v above 0 never becomes 0, whatever else is in its block: 0 under a root is what would make a huge update. */
static void test_v_is_never_0(void **state)
{
    (void)state;
    for (float most = 1e-12f; most < 1e12f; most *= 10)
        for (float x = most; x > 0; x /= 16)
            for (uint32_t chance = 0; chance < CHANCES; chance += 0x0fff)
                assert_true(rt_moment_v(x, rt_moment_exp(most, RT_MOMENT_V_TOP), chance) > 0);
    assert_int_equal(rt_moment_v(0, rt_moment_exp(1, RT_MOMENT_V_TOP), CHANCES - 1), 0);
}

static void test_bf16(void **state)
{
    (void)state;
    assert_int_equal(rt_moment_bf16(1.0f, 0xffff), 0x3f80);
    assert_int_equal(rt_moment_bf16(1.00001f, 0), 0x3f80);
    assert_int_equal(rt_moment_bf16(1.00001f, 0xffff), 0x3f81);
    assert_int_equal(rt_moment_bf16(-1.00001f, 0xffff), 0xbf81);
    assert_int_equal(rt_moment_bf16(INFINITY, 0xffff), 0x7f80);
    assert_int_equal(rt_moment_bf16(-INFINITY, 0xffff), 0xff80);
    assert_true(isnan(rt_bf16_to_f32(rt_moment_bf16(rt_f32_from_bits(0x7f800001), 0xffff))));
}

/* ---- 2,000 steps ---- */

enum { N = 8, C = 300, ALL = N * C, STEPS = 2000, EXPS = 6 }; /* two blocks of a row, and a part of one */

/* Several of them at once, each with an AdamW in double beside it. */
typedef struct adam {
    rt_args args;
    float w[ALL], g[ALL], m[ALL], v[ALL]; /* moments in bf16 as f32, which holds them */
    uint8_t cm[ALL], cv[ALL], exps[N * EXPS];
    double w64[ALL], m64[ALL], v64[ALL];
    double most, most64;  /* |step of a weight| / lr, so far */
    double apart, travel; /* sums of |w - w64| and of |w64| at the end */
} adam;

static void begin(adam *a, rt_dtype d, float beta2)
{
    memset(a, 0, sizeof *a);
    a->args.adamw = (rt_adamw_args){ N, C, 0.9f, beta2, 1e-8f, 0, (uint32_t)d, 3, 0 };
}

static void one_step(adam *a, uint32_t t)
{
    static float before[ALL];
    rt_step step = { .step = t, .tokens = 1, .lr = 1e-3f, .seed = 11 };
    bool codes = a->args.adamw.moments == RT_DTYPE_U8;
    rt_ref_call c = { .args = &a->args };
    double b1 = (double)a->args.adamw.beta1, b2 = (double)a->args.adamw.beta2, eps = (double)a->args.adamw.eps;
    c.s[RT_ADAM_PARAM] = a->w;
    c.s[RT_ADAM_M] = codes ? (void *)a->cm : a->m;
    c.s[RT_ADAM_V] = codes ? (void *)a->cv : a->v;
    c.s[RT_ADAM_EXPS] = codes ? a->exps : NULL;
    c.s[RT_ADAM_GRAD] = a->g;
    c.s[RT_ADAM_STEP] = &step;
    memcpy(before, a->w, sizeof before);
    rt_ref_table_float[RT_OP_ADAMW](&c);
    for (int i = 0; i < ALL; i++) {
        double g = (double)a->g[i], lr = (double)step.lr;
        a->m64[i] = b1 * a->m64[i] + (1 - b1) * g;
        a->v64[i] = b2 * a->v64[i] + (1 - b2) * g * g;
        double move = a->m64[i] / (1 - pow(b1, t)) / (sqrt(a->v64[i] / (1 - pow(b2, t))) + eps);
        a->w64[i] -= lr * move;
        a->most64 = fmax(a->most64, fabs(move));
        a->most = fmax(a->most, fabs((double)a->w[i] - (double)before[i]) / lr);
        if (!codes) continue;
        const uint8_t *exps = a->exps + i / C * EXPS + 2 * (i % C / RT_MOMENT_BLOCK);
        a->m[i] = rt_moment_m_value(a->cm[i], exps[0]);
        a->v[i] = rt_moment_v_value(a->cv[i], exps[1]);
    }
}

static void finish(adam *a)
{
    for (int i = 0; i < ALL; i++) {
        a->apart += fabs((double)a->w[i] - a->w64[i]);
        a->travel += fabs(a->w64[i]);
    }
}

/* The magnitudes of a block go over four decades. */
static float size_of(int i) { return powf(10, -(float)(i % 5)); }

/* The mean of x / want, and its least and largest. */
static double ratio(const float *x, const double *want, double *least, double *largest)
{
    double sum = 0, n = 0;
    *least = INFINITY;
    *largest = 0;
    for (int i = 0; i < ALL; i++) {
        if (want[i] == 0) continue;
        double r = (double)x[i] / want[i];
        sum += r;
        n++;
        *least = fmin(*least, r);
        *largest = fmax(*largest, r);
    }
    return sum / n;
}

static const rt_dtype narrow[] = { RT_DTYPE_BF16, RT_DTYPE_U8 };
static const float betas[] = { 0.95f, 0.999f };

static void test_constant(void **state)
{
    static adam a;
    (void)state;
    for (int k = 0; k < 4; k++) {
        double least, largest, mean;
        begin(&a, narrow[k / 2], betas[k % 2]);
        for (int i = 0; i < ALL; i++) a.g[i] = size_of(i) * (i % 2 ? 1.3f : -0.7f);
        for (uint32_t t = 1; t <= STEPS; t++) one_step(&a, t);
        finish(&a);
        mean = ratio(a.v, a.v64, &least, &largest);
        print_message("constant, %s, beta2 %g: v %.4f (%.3f to %.3f)", rt_dtype_name(narrow[k / 2]),
                      (double)betas[k % 2], mean, least, largest);
        assert_true(fabs(mean - 1) < 0.02 && least > 0.4 && largest < 2);
        mean = ratio(a.m, a.m64, &least, &largest);
        print_message("; m %.4f (%.3f to %.3f); w apart %.4f; step %.3f, %.3f\n", mean, least, largest,
                      a.apart / a.travel, a.most, a.most64);
        assert_true(fabs(mean - 1) < 0.02 && least > 0.5 && largest < 1.5);
        /* 1 / sqrt(v) of a v that varies by s is too large by 3/8 s^2 on average: s is 0.02 and at most 0.3 here */
        assert_true(a.apart < (narrow[k / 2] == RT_DTYPE_BF16 ? 0.02 : 0.06) * a.travel && a.most < 2 * a.most64);
    }
}

/* Each element has a gradient in one of fifty steps; v decays in between, and begins at 0 for some time. */
static void test_sparse(void **state)
{
    static adam a;
    (void)state;
    for (int k = 0; k < 4; k++) {
        double least, largest, mean, zeros = 0;
        begin(&a, narrow[k / 2], betas[k % 2]);
        for (uint32_t t = 1; t <= STEPS; t++) {
            for (int i = 0; i < ALL; i++) {
                rt_rng4 r = rt_philox(5, t, (uint64_t)i);
                a.g[i] = r.v[0] % 50 ? 0 : size_of(i) * (2 * rt_rng_unit(r.v[1]) - 1);
            }
            one_step(&a, t);
            for (int i = 0; i < ALL; i++) zeros += a.v64[i] > 1e-30 && a.v[i] == 0;
        }
        finish(&a);
        mean = ratio(a.v, a.v64, &least, &largest);
        print_message("sparse, %s, beta2 %g: v %.4f (%.3f to %.3f); w apart %.4f; step %.3f, %.3f\n",
                      rt_dtype_name(narrow[k / 2]), (double)betas[k % 2], mean, least, largest, a.apart / a.travel,
                      a.most, a.most64);
        assert_true(zeros == 0);
        assert_true(a.most < 1.5 * a.most64); /* no update that is larger than theirs */
        assert_true(least > 0.05);
        if (betas[k % 2] > 0.99f)
            assert_true(fabs(mean - 1) < 0.05 && largest < 5); /* else some are at the least code */
        assert_true(a.apart < 0.15 * a.travel);
    }
}

/* What is proved above is the rounding's doing: to nearest, v stands still long before it is there. */
static void test_nearest_stands_still(void **state)
{
    float bf16 = 0, code = 0;
    double v = 0;
    (void)state;
    for (int t = 0; t < STEPS; t++) {
        v = 0.999 * v + 0.001;
        bf16 = rt_bf16_to_f32(rt_bf16_from_f32(0.999f * bf16 + 0.001f));
        uint32_t exp = rt_moment_exp(1, RT_MOMENT_V_TOP); /* with a neighbour of 1 */
        code = rt_moment_v_value(rt_moment_v(0.999f * code + 0.001f, exp, 1 << 15), exp);
    }
    print_message("to nearest: bf16 %.3f, 8 bits %.3f, want %.3f\n", (double)bf16, (double)code, v);
    assert_true((double)bf16 < 0.5 * v && (double)code < 0.1 * v);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_codes),        cmocka_unit_test(test_exponents),
        cmocka_unit_test(test_no_direction), cmocka_unit_test(test_v_is_never_0),
        cmocka_unit_test(test_bf16),         cmocka_unit_test(test_constant),
        cmocka_unit_test(test_sparse),       cmocka_unit_test(test_nearest_stands_still),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
