/* test_scaled.c - e4m3 codes with a scale for each row: the codes against an oracle of numbers, what the scale of a row
 * is, and how quant_rows, ops that make codes and matmul_scaled are recorded and counted.
 *
 * The oracle knows a code as sign, exponent and mantissa, and rounding as the nearest of all 254 numbers; of two that
 * are equally near, the one with an even code. */
#include "base/rng.h"
#include "num/e4m3.h"
#include "op/plan_facts.h"

#include "emit_case.h"

#include <float.h>

static double value_of(int code)
{
    int e = code >> 3 & 15, m = code & 7;
    double v = e ? ldexp(8 + m, e - 10) : ldexp(m, -9);
    return code & 0x80 ? -v : v;
}

static uint8_t nearest(double x)
{
    int best = 0;
    if (isnan(x)) return RT_E4M3_NAN;
    for (int c = 1; c <= RT_E4M3_MOST; c++) {
        double old = fabs(value_of(best) - fabs(x)), now = fabs(value_of(c) - fabs(x));
        if (now < old || (now == old && c % 2 == 0)) best = c;
    }
    return (uint8_t)(isinf(x) ? RT_E4M3_MOST : best) | (signbit(x) ? 0x80 : 0);
}

static void check(double x)
{
    uint8_t want = nearest(x), from64, from32;
    float narrow = (float)x;
    rt_float_from_f64(&from64, &x, RT_DTYPE_E4M3, 1);
    if (from64 != want) fail_msg("%a from f64: code %02x, want %02x", x, from64, want);
    want = nearest((double)narrow);
    rt_float_from_f32(&from32, &narrow, RT_DTYPE_E4M3, 1);
    if (from32 != want || rt_e4m3_from_f32(narrow) != want)
        fail_msg("%a: codes %02x and %02x, want %02x", (double)narrow, from32, rt_e4m3_from_f32(narrow), want);
}

static void test_every_code(void **state)
{
    (void)state;
    for (int c = 0; c < 256; c++) {
        uint8_t code = (uint8_t)c, again;
        float x = rt_e4m3_to_f32(code), run;
        double wide;
        rt_float_to_f32(&run, &code, RT_DTYPE_E4M3, 1);
        rt_float_to_f64(&wide, &code, RT_DTYPE_E4M3, 1);
        if ((c & 0x7f) == RT_E4M3_NAN) {
            assert_true(isnan(x) && isnan(run) && isnan(wide) && rt_e4m3_from_f32(x) == RT_E4M3_NAN);
            continue;
        }
        assert_true((double)x == value_of(c) && !signbit(x) == !(c & 0x80) && run == x && wide == value_of(c));
        rt_float_from_f32(&again, &x, RT_DTYPE_E4M3, 1);
        assert_int_equal(again, c);
    }
}

static void test_rounding(void **state)
{
    (void)state;
    for (int c = 0; c < RT_E4M3_MOST; c++) {
        double low = value_of(c), high = value_of(c + 1), middle = (low + high) / 2;
        const double x[] = { low, middle, nextafter(middle, low), nextafter(middle, high), low * 0.9 + high * 0.1 };
        for (int i = 0; i < 5; i++) {
            check(x[i]);
            check(-x[i]);
        }
    }
    const double edge[] = { 448, 463.9, 464, 465, 1e9, INFINITY, NAN, 0x1p-10, 0x1.8p-10, 1e-30, 0.0, 0x1p-149 };
    for (size_t i = 0; i < sizeof edge / sizeof *edge; i++) {
        check(edge[i]);
        check(-edge[i]);
    }
    for (uint32_t i = 0; i < 20000; i++) {
        rt_rng4 r = rt_philox(5, 1, i);
        check(ldexp((double)(int32_t)r.v[0], -31 + (int)(r.v[1] % 24) - 12));
    }
}

/* The least power of two with most <= 448 scale, by trying. */
static float least_scale(float most)
{
    for (int e = -126; e < 128; e++)
        if (most <= 448 * ldexp(1, e)) return ldexpf(1, e);
    return 0;
}

static void test_scale(void **state)
{
    (void)state;
    const float most[] = { 448, 449, 447.9f, 1, 0.875f, 0.8750001f, FLT_MAX, FLT_MIN, 1e-40f, 3e-36f, 5.3e-36f, 1.75f };
    for (size_t i = 0; i < sizeof most / sizeof *most; i++) {
        float s = rt_e4m3_scale(rt_f32_bits(most[i]));
        if (s != least_scale(most[i])) fail_msg("%a: scale %a", (double)most[i], (double)s);
        assert_true(rt_e4m3_inverse(s) == 1 / s && isnormal(s) && isnormal(1 / s));
    }
    assert_true(rt_e4m3_scale(0) == 1.0f);
    assert_true(isnan(rt_e4m3_scale(rt_f32_bits(INFINITY))) && isnan(rt_e4m3_scale(0x7fc00000u)));
    assert_true(isnan(rt_e4m3_inverse(NAN)));
}

enum { ROWS = 5, COLS = 19 };

static void test_rows(void **state)
{
    (void)state;
    float x[ROWS * COLS], scale[ROWS], back[ROWS * COLS];
    uint8_t codes[ROWS * COLS];
    for (uint32_t i = 0; i < ROWS * COLS; i++)
        x[i] = ldexpf((float)(int32_t)rt_philox(3, 2, i).v[0], -31 + 20 * (int)(i / COLS) - 30);
    for (int k = 0; k < COLS; k++) x[2 * COLS + k] = 0;
    x[3 * COLS + 18] = -INFINITY; /* the last of a row, behind whole vectors */
    rt_e4m3_rows(codes, scale, x, ROWS, COLS);
    rt_e4m3_rows_to_f32(back, codes, scale, ROWS, COLS);
    for (int r = 0; r < ROWS; r++) {
        float most = 0;
        for (int k = 0; k < COLS; k++) most = fmaxf(most, fabsf(x[r * COLS + k]));
        for (int k = r * COLS; k < (r + 1) * COLS; k++) {
            if (r == 3) {
                assert_true(isnan(scale[r]) && codes[k] == RT_E4M3_NAN && isnan(back[k]));
                continue;
            }
            assert_true(scale[r] == (most == 0 ? 1 : least_scale(most)));
            assert_int_equal(codes[k], nearest((double)x[k] / (double)scale[r]));
            assert_true(back[k] == rt_e4m3_to_f32(codes[k]) * scale[r]);
            assert_true(fabsf(back[k] - x[k]) <= fmaxf(fabsf(x[k]) / 16, scale[r] * 0x1p-10f));
        }
    }
}

/* ---- recording ---- */

static rt_view put(rt_dtype d, uint32_t rows, uint32_t cols)
{
    return rt_space_buf(space, RT_CLASS_OUTPUT, d, rows, cols, "out");
}

static const rt_dtype F = RT_DTYPE_F32, B = RT_DTYPE_BF16, Q = RT_DTYPE_E4M3;

static void test_quant_rows(void **state)
{
    (void)state;
    rt_view x = in(B, 3, 7), y = put(Q, 3, 7), scale = put(F, 3, 1);
    ACCEPT(QUANT_ROWS, rt_emit_quant_rows(plan, y, scale, x));
    SLOTS_ARE(y, scale, x);
    assert_true(last.args.rows.N == 3 && last.args.rows.C == 7);
    assert_int_equal(rt_op_flops(plan, &last), 2 * 21);
    assert_int_equal(rt_op_bytes(plan, &last), 21 + 12 + 42);
    REFUSE(rt_emit_quant_rows(plan, put(Q, 3, 6), scale, x), "quant_rows: y is (3,6), expected (3,7)");
    REFUSE(rt_emit_quant_rows(plan, y, put(F, 1, 3), x), "quant_rows: scale is (1,3), expected (3,1)");
    REFUSE(rt_emit_quant_rows(plan, put(RT_DTYPE_U8, 3, 7), scale, x), "operand 'y' is u8; it takes e4m3");
    REFUSE(rt_emit_quant_rows(plan, y, put(B, 3, 1), x), "operand 'scale' is bf16; it takes f32");
    REFUSE(rt_emit_quant_rows(plan, y, scale, in(Q, 3, 7)),
           "operand 'x' is e4m3; it takes f32, bf16, f16 or a quantised type");
}

/* Ops that leave their y as codes at once: a scale for each row with codes, none without. */
static void test_coded(void **state)
{
    (void)state;
    rt_view x = in(B, 3, 8), res = in(B, 3, 8), w = in(F, 1, 8), y = put(Q, 3, 8), scale = put(F, 3, 1), none = RT_NONE;
    rt_view h = put(B, 3, 8), values = put(B, 3, 8);
    ACCEPT(RMSNORM_FWD, rt_emit_rmsnorm_fwd(plan, y, scale, x, w, 1, 1e-6f));
    SLOTS_ARE(y, scale, x, w);
    assert_int_equal(rt_op_flops(plan, &last), (4 + 2) * 24);
    assert_int_equal(rt_op_bytes(plan, &last), 24 + 12 + 48 + 32);
    ACCEPT(ADD_RMSNORM_FWD, rt_emit_add_rmsnorm_fwd(plan, y, scale, h, x, res, w, 1e-6f));
    SLOTS_ARE(y, scale, h, x, res, w);
    assert_int_equal(rt_op_flops(plan, &last), (5 + 2) * 24);
    ACCEPT(SWIGLU_FWD, rt_emit_swiglu_fwd(plan, y, scale, x, res));
    SLOTS_ARE(y, scale, x, res);
    assert_int_equal(rt_op_flops(plan, &last), (5 + 2) * 24);
    assert_int_equal(rt_op_bytes(plan, &last), 24 + 12 + 2 * 48);
    REFUSE(rt_emit_rmsnorm_fwd(plan, y, none, x, w, 1, 1e-6f), "rmsnorm_fwd: y is e4m3, and its scale is missing");
    REFUSE(rt_emit_add_rmsnorm_fwd(plan, values, scale, h, x, res, w, 1e-6f),
           "add_rmsnorm_fwd: scale is given, but y is bf16: only codes, e4m3, have scales");
    REFUSE(rt_emit_swiglu_fwd(plan, y, put(F, 1, 3), x, res), "swiglu_fwd: scale is (1,3), expected (3,1)");
    REFUSE(rt_emit_swiglu_fwd(plan, y, put(B, 3, 1), x, res), "operand 'scale' is bf16; it takes f32");
    REFUSE(rt_emit_swiglu_fwd(plan, put(RT_DTYPE_U8, 3, 8), none, x, res),
           "operand 'y' is u8; it takes f32, bf16, f16 or e4m3");
    REFUSE(rt_emit_swiglu_fwd(plan, put(F, 3, 8), none, x, res), "operand 'y' is f32 but 'g' is bf16; they must agree");
    REFUSE(rt_emit_rmsnorm_fwd(plan, y, scale, x, in(F, 1, 4), 2, 1e-6f),
           "y is e4m3, which is made of whole rows, and there are 2 heads");
}

static void test_matmul_scaled(void **state)
{
    (void)state;
    rt_view a = in(Q, 3, 5), b = in(Q, 4, 5), sa = in(F, 3, 1), sb = in(F, 4, 1), bias = in(B, 1, 4), none = RT_NONE;
    rt_view y = put(B, 3, 4);
    ACCEPT(MATMUL_SCALED, rt_emit_matmul_scaled(plan, y, a, sa, b, sb, bias));
    SLOTS_ARE(y, a, b, sa, sb, bias);
    const rt_matmul_args *m = &last.args.matmul;
    assert_true(m->M == 3 && m->N == 4 && m->K == 5 && !m->ta && m->tb == 1 && m->alpha == 1);
    assert_int_equal(rt_op_flops(plan, &last), 2 * 60);
    assert_int_equal(rt_op_bytes(plan, &last), 24 + 15 + 20 + 12 + 16 + 8);
    ACCEPT(MATMUL_SCALED, rt_emit_matmul_scaled(plan, put(F, 3, 4), a, sa, b, sb, none));
    REFUSE(rt_emit_matmul_scaled(plan, y, a, sa, in(Q, 4, 6), sb, none),
           "matmul_scaled: a is (3,5), so b must have 5 columns; it has 6");
    REFUSE(rt_emit_matmul_scaled(plan, put(B, 4, 3), a, sa, b, sb, none), "out is (4,3), expected (3,4)");
    REFUSE(rt_emit_matmul_scaled(plan, y, a, sb, b, sb, none), "sa is (4,1), expected (3,1)");
    REFUSE(rt_emit_matmul_scaled(plan, y, a, sa, b, sa, none), "sb is (3,1), expected (4,1)");
    REFUSE(rt_emit_matmul_scaled(plan, y, a, sa, b, sb, in(B, 4, 1)), "bias is (4,1), expected (1,4)");
    REFUSE(rt_emit_matmul_scaled(plan, y, in(B, 3, 5), sa, b, sb, none), "operand 'a' is bf16; it takes e4m3");
    REFUSE(rt_emit_matmul_scaled(plan, y, a, RT_NONE, b, sb, none), "sa is missing");
    REFUSE(rt_emit_matmul(plan, out(3, 4), a, b, none, "nt", 1), "operand 'a' is e4m3; it takes f32, bf16 or f16");
}

/* A second one adds. */
static void test_accumulates(void **state)
{
    (void)state;
    rt_view a = in(Q, 3, 5), b = in(Q, 4, 5), sa = in(F, 3, 1), sb = in(F, 4, 1), y = put(F, 3, 4);
    fresh_plan();
    for (uint32_t i = 0; i < 2; i++) {
        rt_emit_matmul_scaled(plan, y, a, sa, b, sb, RT_NONE);
        accepted(RT_OP_MATMUL_SCALED, "matmul_scaled", __LINE__);
        assert_int_equal(last.acc, i);
    }
}

int main(void)
{
#define TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_code), cmocka_unit_test(test_rounding), cmocka_unit_test(test_scale),
        cmocka_unit_test(test_rows),       TEST(test_quant_rows),           TEST(test_coded),
        TEST(test_matmul_scaled),          TEST(test_accumulates),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
