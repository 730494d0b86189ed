/* test_apr_quant.c - AprQ4 and AprQ8: blocks written by hand, short last blocks, errors, values that are not finite. */
#include "base/rng.h"
#include "num/apr_quant.h"
#include "num/dtype.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

enum { N = 101 }; /* three blocks and five values */

static void fill(float *x, uint64_t n)
{
    for (uint64_t i = 0; i < n; i++) x[i] = (rt_rng_unit(rt_philox(1, 2, i).v[0]) - 0.5f) * 3;
}

static void test_by_hand(void **state)
{
    (void)state;
    uint8_t q4[18] = { 0x00, 0x38, 0x0f, 0x7a }; /* scale 0.5; the other nibbles are 0: -8 */
    float y[32];
    rt_apr_q4_to_f32(y, q4, 32);
    assert_true(y[0] == 3.5f && y[1] == -4 && y[2] == 1 && y[3] == -0.5f && y[4] == -4 && y[31] == -4);
    uint8_t q8[] = { 0, 0, 0, 0x40, 0x01, 0xff, 0x7f, 0x80 }; /* scale 2.0 */
    rt_apr_q8_to_f32(y, q8, 4);
    assert_true(y[0] == 2 && y[1] == -2 && y[2] == 254 && y[3] == -256);
}

/* Every length: the bytes that are said, nothing written past them or past the values, half a step of error. */
static void test_there_and_back(void **state)
{
    (void)state;
    float x[N], y[N + 1];
    uint8_t bytes[4 * 18 + N + 16];
    fill(x, N);
    for (uint64_t n = 0; n <= N; n++) {
        for (int eight = 0; eight < 2; eight++) {
            uint64_t size = eight ? rt_apr_q8_bytes(n) : rt_apr_q4_bytes(n);
            memset(bytes, 0xee, sizeof bytes);
            for (uint64_t i = 0; i <= N; i++) y[i] = 77;
            if (eight) {
                rt_apr_q8_from_f32(bytes + 1, x, n); /* any address will do */
                rt_apr_q8_to_f32(y, bytes + 1, n);
            } else {
                rt_apr_q4_from_f32(bytes + 1, x, n);
                rt_apr_q4_to_f32(y, bytes + 1, n);
            }
            for (uint64_t i = 1 + size; i < sizeof bytes; i++) assert_int_equal(bytes[i], 0xee);
            assert_true(y[n] == 77);
            float half = 1.5f / (eight ? 127 : 7) / 2;
            for (uint64_t i = 0; i < n; i++) assert_true(fabsf(y[i] - x[i]) <= half * 1.001f);
        }
    }
    assert_int_equal(rt_apr_q4_bytes(0), 0);
    assert_int_equal(rt_apr_q4_bytes(32), 18);
    assert_int_equal(rt_apr_q4_bytes(33), 36);
    assert_int_equal(rt_apr_q8_bytes(33), 37);
}

/* The scale is the largest magnitude over 7, or 127: that value comes back, the others are multiples of the scale. */
static void test_scale(void **state)
{
    (void)state;
    float x[32] = { 0.5f, -7, 3, 1.49f }, y[32];
    uint8_t bytes[36];
    rt_apr_q4_from_f32(bytes, x, 32);
    rt_apr_q4_to_f32(y, bytes, 32);
    assert_true(y[0] == 0 && y[1] == -7 && y[2] == 3 && y[3] == 1 && y[4] == 0); /* 0.5 is a tie: to even */
    x[1] = -254;
    rt_apr_q8_from_f32(bytes, x, 32);
    rt_apr_q8_to_f32(y, bytes, 32);
    assert_true(y[0] == 0 && y[1] == -254 && y[2] == 4 && y[3] == 2); /* 1.5 steps: to even */
}

static void test_zeros(void **state)
{
    (void)state;
    float x[32] = { 0, -0.0f }, y[32];
    uint8_t bytes[36];
    rt_apr_q4_from_f32(bytes, x, 32);
    rt_apr_q4_to_f32(y, bytes, 32);
    for (int i = 0; i < 32; i++) assert_true(y[i] == 0);
    rt_apr_q8_from_f32(bytes, x, 32);
    rt_apr_q8_to_f32(y, bytes, 32);
    for (int i = 0; i < 32; i++) assert_true(y[i] == 0);
}

/* What cannot be stored is not stored as something else. AprQ4 loses the block, AprQ8 the tensor. */
static void test_not_finite(void **state)
{
    (void)state;
    static const float bad[] = { NAN, -NAN, INFINITY, -INFINITY, 1e9f };
    float x[N], y[N];
    uint8_t bytes[4 * 18 + N];
    for (int k = 0; k < 5; k++) {
        fill(x, N);
        x[40] = bad[k];
        rt_apr_q4_from_f32(bytes, x, N);
        rt_apr_q4_to_f32(y, bytes, N);
        for (int i = 0; i < N; i++) assert_true(i / 32 == 1 ? isnan(y[i]) : isfinite(y[i]));
        rt_apr_q8_from_f32(bytes, x, N);
        rt_apr_q8_to_f32(y, bytes, N);
        for (int i = 0; i < N; i++) assert_true(k == 4 ? isfinite(y[i]) : isnan(y[i]));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_by_hand), cmocka_unit_test(test_there_and_back), cmocka_unit_test(test_scale),
        cmocka_unit_test(test_zeros),   cmocka_unit_test(test_not_finite),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
