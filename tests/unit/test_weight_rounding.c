/* test_weight_rounding.c - what verify allows attention for rounding its weights to 16 bits (rt_weight_rounding): sums
 * of weights that are rounded to nearest are as far off as it says, and coarser weights are seen. */
#include "num/dtype.h"
#include "verify/tolerance.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

enum { SUMS = 4000 };

static uint64_t state = 1;
static double uniform(void)
{
    state = state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (double)(state >> 11) * 0x1p-53;
}
static double normal(void) { return sqrt(-2 * log(1 - uniform())) * cos(6.283185307179586 * uniform()); }

typedef double rounding(double x);
static double nearest_bf16(double x)
{
    uint16_t stored;
    double back;
    rt_float_from_f64(&stored, &x, RT_DTYPE_BF16, 1);
    rt_float_to_f64(&back, &stored, RT_DTYPE_BF16, 1);
    return back;
}
static double nearest_f16(double x)
{
    uint16_t stored;
    double back;
    rt_float_from_f64(&stored, &x, RT_DTYPE_F16, 1);
    rt_float_to_f64(&back, &stored, RT_DTYPE_F16, 1);
    return back;
}
static double of_bits(double x, int bits, double (*how)(double))
{
    int e;
    const double m = frexp(x, &e);
    return ldexp(how(ldexp(m, bits)), e - bits);
}
static double cut_off(double x) { return of_bits(x, 8, floor); }
static double coarser(double x) { return of_bits(x, 7, nearbyint); }

/* The errors of sums over `keys` weights of a softmax, root mean square, as a part of what the rms of the op allows for
 * rounding; and the largest as a part of its limit. */
static double error_of(rounding *how, rt_dtype stored, uint32_t keys, double *largest)
{
    const rt_tolerance *t = rt_tolerance_find(RT_OP_ATTN_FWD, 0);
    double errors = 0, allowed = 0;
    *largest = 0;
    for (uint32_t n = 0; n < SUMS; n++) {
        double off = 0, square = 0;
        for (uint32_t j = 0; j < keys; j++) {
            const double p = exp(normal()), x = normal();
            off += (how(p) - p) * x;
            square += p * x * p * x;
        }
        const double term = rt_weight_rounding(RT_OP_ATTN_FWD, 0, stored, square) * RT_ROUNDING_UNIT;
        errors += off * off;
        allowed += t->rms * term * t->rms * term;
        *largest = fmax(*largest, fabs(off) / (t->limit * term));
    }
    return sqrt(errors / allowed);
}

static void test_nearest(void **unused)
{
    (void)unused;
    for (uint32_t keys = 1; keys <= 1024; keys *= 4) {
        double largest, rms = error_of(nearest_bf16, RT_DTYPE_BF16, keys, &largest);
        print_message("bf16, %u keys: rms %.3f, largest %.3f of what is allowed\n", keys, rms, largest);
        assert_in_range((int)(rms * 100), 90, 104);
        assert_true(largest < 1);
        rms = error_of(nearest_f16, RT_DTYPE_F16, keys, &largest);
        assert_in_range((int)(rms * 100), 90, 104);
        assert_true(largest < 1);
    }
}

/* Weights that lose one bit more, or are cut off instead of rounded, are beyond it. */
static void test_coarser(void **unused)
{
    (void)unused;
    for (uint32_t keys = 1; keys <= 1024; keys *= 4) {
        double largest, rms = error_of(coarser, RT_DTYPE_BF16, keys, &largest);
        print_message("7 bits, %u keys: rms %.3f\n", keys, rms);
        assert_true(rms > 1.8);
        rms = error_of(cut_off, RT_DTYPE_BF16, keys, &largest);
        print_message("cut off, %u keys: rms %.3f\n", keys, rms);
        assert_true(rms > 1.8);
        assert_true(error_of(nearest_bf16, RT_DTYPE_F16, keys, &largest) > 7);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(test_nearest), cmocka_unit_test(test_coarser) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
