/* test_plan.c - the recorder: regions, sticky errors, what was written, `=` and `+=`, aliasing, dtype rules, lifetimes.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "op/emit.h"
#include "op/region.h"

#include <stdio.h>

typedef struct fixture {
    rt_space *s;
    rt_plan *p;
} fixture;

static int setup(void **state)
{
    fixture *f = rt_alloc_zero(sizeof *f, 16);
    rt_err e = { 0 };
    assert_int_equal(rt_space_new(&f->s, &e), RT_OK);
    assert_int_equal(rt_plan_new(&f->p, f->s, "test", &rt_policy_f32, &e), RT_OK);
    *state = f;
    return 0;
}
static int teardown(void **state)
{
    fixture *f = *state;
    rt_plan_free(f->p);
    rt_space_free(f->s);
    rt_free(f);
    return rt_alloc_live() == 0 ? 0 : -1;
}

static rt_view buf(fixture *f, rt_class c, uint32_t rows, uint32_t cols, const char *name)
{
    return rt_space_buf(f->s, c, RT_DTYPE_F32, rows, cols, name);
}
static rt_view act(fixture *f, uint32_t rows, uint32_t cols, const char *name)
{
    return rt_act(f->p, RT_DTYPE_F32, rows, cols, name);
}
static void expect_error(fixture *f, int status, const char *part)
{
    rt_err e = { 0 };
    assert_int_equal(rt_plan_status(f->p, &e), status);
    if (!strstr(e.text, part)) fail_msg("'%s' does not contain '%s'", e.text, part);
}
static void expect_ok(fixture *f)
{
    rt_err e = { 0 };
    if (rt_plan_status(f->p, &e) != RT_OK) fail_msg("%s", e.text);
}

/* ---- regions against a bitmap ---- */

enum { GR = 9, GC = 7 };
static void paint(bool map[GR][GC], rt_view v)
{
    for (uint32_t r = 0; r < v.rows; r++)
        for (uint32_t c = 0; c < v.cols; c++) {
            uint64_t at = v.off + r * v.stride + c;
            map[at / GC][at % GC] = true;
        }
}
static uint64_t left_in_map(bool map[GR][GC], rt_view v)
{
    uint64_t n = 0;
    for (uint32_t r = 0; r < v.rows; r++)
        for (uint32_t c = 0; c < v.cols; c++) {
            uint64_t at = v.off + r * v.stride + c;
            n += !map[at / GC][at % GC];
        }
    return n;
}
static uint32_t rnd(uint64_t *s, uint32_t n)
{
    *s = *s * 6364136223846793005ull + 1442695040888963407ull;
    return (uint32_t)(*s >> 33) % n;
}
static rt_view random_view(uint64_t *s)
{
    for (;;) {
        rt_view v = { .rows = 1 + rnd(s, GR), .cols = 1 + rnd(s, 2 * GC), .off = rnd(s, GR * GC) };
        switch (rnd(s, 3)) {
        case 0: v.stride = GC; break;
        case 1: v.stride = v.cols; break;
        default: v.stride = v.cols + rnd(s, GC); break;
        }
        if (v.stride >= v.cols && v.off + (v.rows - 1) * v.stride + v.cols <= GR * GC) return v;
    }
}
static void region_matches_bitmap(void **state)
{
    rt_buffer b = { "b", RT_CLASS_ACT, RT_DTYPE_F32, GR, GC, GR * GC * 4 };
    uint64_t seed = 7;
    (void)state;
    for (int trial = 0; trial < 400; trial++) {
        bool map[GR][GC] = { { false } };
        rt_region have = { 0 };
        for (int k = 0; k < 12; k++) {
            rt_region of = { 0 }, left = { 0 };
            rt_view v = random_view(&seed);
            assert_true(rt_region_of_view(&of, &b, v));
            assert_int_equal(rt_region_elems(&of), (uint64_t)v.rows * v.cols);
            assert_true(rt_region_subtract(&left, &of, &have));
            assert_int_equal(rt_region_elems(&left), left_in_map(map, v));
            assert_int_equal(rt_region_overlap(&of, &have), left_in_map(map, v) != (uint64_t)v.rows * v.cols);
            assert_true(rt_region_add(&have, &of));
            paint(map, v);
            uint64_t painted = 0;
            for (int r = 0; r < GR; r++)
                for (int c = 0; c < GC; c++) painted += map[r][c];
            assert_int_equal(rt_region_elems(&have), painted);
            rt_region_free(&of);
            rt_region_free(&left);
        }
        rt_region_free(&have);
    }
}
static void region_merges_columns(void **state)
{
    rt_buffer b = { "qkv", RT_CLASS_ACT, RT_DTYPE_F32, 100, 12, 4800 };
    rt_region have = { 0 };
    (void)state;
    for (uint32_t c = 0; c < 12; c += 4) {
        rt_region of = { 0 };
        assert_true(rt_region_of_view(&of, &b, (rt_view){ 1, 100, 4, c, 12 }));
        assert_true(rt_region_add(&have, &of));
        rt_region_free(&of);
        assert_int_equal(have.n, 1); /* neighbours join, so tracking stays cheap */
    }
    rt_region_free(&have);
}

/* ---- recording ---- */

static void read_before_write(void **state)
{
    fixture *f = *state;
    rt_view x = act(f, 4, 8, "x"), y = act(f, 4, 8, "y");
    rt_emit_scale(f->p, y, x, RT_NONE, 2.0f);
    expect_error(f, RT_INVALID, "reads 'x' before anything wrote it (32 of 32");
}
static void partly_written_is_not_enough(void **state)
{
    fixture *f = *state;
    rt_view x = act(f, 4, 8, "x"), y = act(f, 4, 8, "y");
    rt_emit_fill(f->p, rt_view_rows(f->p, x, 0, 3), 1.0f);
    rt_emit_scale(f->p, rt_view_rows(f->p, y, 0, 3), rt_view_rows(f->p, x, 0, 3), RT_NONE, 2.0f);
    expect_ok(f);
    rt_emit_scale(f->p, y, x, RT_NONE, 2.0f);
    expect_error(f, RT_INVALID, "(8 of 32 elements, first at row 3, column 0)");
}
static void gradients_are_undefined_until_assumed(void **state)
{
    fixture *f = *state;
    rt_view g = buf(f, RT_CLASS_GRAD, 4, 8, "g"), dy = buf(f, RT_CLASS_INPUT, 3, 8, "dy");
    rt_emit_bias_grad(f->p, rt_view_rows(f->p, g, 0, 1), dy);
    rt_emit_bias_grad(f->p, rt_view_rows(f->p, g, 0, 1), dy);
    rt_plan_assume_defined(f->p, g);
    rt_emit_bias_grad(f->p, rt_view_rows(f->p, g, 2, 1), dy);
    expect_ok(f);
    assert_int_equal(f->p->ops[0].acc, 0); /* first write assigns */
    assert_int_equal(f->p->ops[1].acc, 1); /* second adds */
    assert_int_equal(f->p->ops[2].acc, 1); /* an earlier program wrote it */
    assert_int_equal(f->p->nops, 3);
}
static void halves_have_their_own_history(void **state)
{
    fixture *f = *state;
    rt_view g = buf(f, RT_CLASS_GRAD, 1, 16, "g"), dy = buf(f, RT_CLASS_INPUT, 3, 16, "dy");
    rt_emit_bias_grad(f->p, rt_view_cols(f->p, g, 0, 8), rt_view_cols(f->p, dy, 0, 8));
    rt_emit_bias_grad(f->p, rt_view_cols(f->p, g, 8, 8), rt_view_cols(f->p, dy, 8, 8));
    rt_emit_bias_grad(f->p, g, dy);
    expect_ok(f);
    assert_int_equal(f->p->ops[0].acc, 0);
    assert_int_equal(f->p->ops[1].acc, 0);
    assert_int_equal(f->p->ops[2].acc, 1);
}
static void gaps_are_filled_before_adding(void **state)
{
    fixture *f = *state;
    rt_view g = buf(f, RT_CLASS_GRAD, 1, 16, "g"), dy = buf(f, RT_CLASS_INPUT, 3, 16, "dy");
    rt_emit_bias_grad(f->p, rt_view_cols(f->p, g, 4, 8), rt_view_cols(f->p, dy, 4, 8));
    rt_emit_bias_grad(f->p, g, dy);
    expect_ok(f);
    assert_int_equal(f->p->nops, 4); /* bias, fill, fill, bias */
    assert_int_equal(f->p->ops[1].kind, RT_OP_FILL);
    assert_int_equal(f->p->ops[2].kind, RT_OP_FILL);
    assert_true(f->p->ops[1].args.rows.alpha == 0.0f);
    assert_int_equal(f->p->ops[1].slot[0].cols + f->p->ops[2].slot[0].cols, 8);
    assert_int_equal(f->p->ops[3].acc, 1);
}
static void a_sparse_writer_never_assigns(void **state)
{
    fixture *f = *state;
    rt_view g = buf(f, RT_CLASS_GRAD, 10, 8, "g"), dy = buf(f, RT_CLASS_INPUT, 3, 8, "dy");
    rt_view ids = rt_space_buf(f->s, RT_CLASS_INPUT, RT_DTYPE_I32, 3, 1, "ids");
    rt_emit_embed_bwd(f->p, g, dy, ids);
    rt_emit_embed_bwd(f->p, g, dy, ids);
    expect_ok(f);
    assert_int_equal(f->p->nops, 3);
    assert_int_equal(f->p->ops[0].kind, RT_OP_FILL);
    assert_int_equal(f->p->ops[1].acc, 1);
    assert_int_equal(f->p->ops[2].acc, 1);
}
static void scatter_needs_a_defined_target(void **state)
{
    fixture *f = *state;
    rt_view cache = act(f, 10, 8, "cache"), x = buf(f, RT_CLASS_INPUT, 3, 8, "x");
    rt_view rows = rt_space_buf(f->s, RT_CLASS_INPUT, RT_DTYPE_I32, 3, 1, "rows");
    rt_emit_copy(f->p, cache, x, rows);
    expect_error(f, RT_INVALID, "reads 'cache' before anything wrote it");
}
static void outputs_may_not_overlap_inputs(void **state)
{
    fixture *f = *state;
    rt_view x = buf(f, RT_CLASS_STATE, 4, 16, "x");
    rt_emit_add(f->p, rt_view_cols(f->p, x, 0, 8), rt_view_cols(f->p, x, 0, 8), rt_view_cols(f->p, x, 8, 8));
    expect_ok(f); /* exactly in place is allowed for add */
    rt_emit_add(f->p, rt_view_cols(f->p, x, 0, 8), rt_view_cols(f->p, x, 4, 8), rt_view_cols(f->p, x, 8, 8));
    expect_error(f, RT_INVALID, "output 'y' overlaps operand 'a' in buffer 'x'");
}
static void in_place_means_the_same_elements(void **state)
{
    fixture *f = *state;
    rt_view x = buf(f, RT_CLASS_STATE, 4, 16, "x"), b = buf(f, RT_CLASS_STATE, 2, 4, "b");
    /* one row: the stride says nothing */
    rt_emit_add(f->p, (rt_view){ x.buf, 1, 4, 0, 16 }, (rt_view){ x.buf, 1, 4, 0, 4 }, rt_view_rows(f->p, b, 0, 1));
    expect_ok(f);
    /* two rows: same corner and shape, other elements */
    rt_emit_add(f->p, (rt_view){ x.buf, 2, 4, 0, 16 }, (rt_view){ x.buf, 2, 4, 0, 8 }, b);
    expect_error(f, RT_INVALID, "output 'y' overlaps operand 'a'");
}
static void in_place_needs_one_corner_and_shape(void **state)
{
    fixture *f = *state;
    rt_view x = buf(f, RT_CLASS_STATE, 4, 16, "x"), b = buf(f, RT_CLASS_STATE, 2, 4, "b");
    rt_emit_add(f->p, (rt_view){ x.buf, 2, 4, 1, 16 }, (rt_view){ x.buf, 2, 4, 0, 16 }, b);
    expect_error(f, RT_INVALID, "output 'y' overlaps operand 'a'");
}
static void in_place_residual_assigns(void **state)
{
    fixture *f = *state;
    rt_view dh = act(f, 4, 8, "dh"), dy = buf(f, RT_CLASS_INPUT, 4, 8, "dy"), h = buf(f, RT_CLASS_INPUT, 4, 8, "h");
    rt_view w = buf(f, RT_CLASS_PARAM, 1, 8, "w"), dx = act(f, 4, 8, "dx");
    rt_emit_fill(f->p, dh, 1.0f);
    rt_emit_add_rmsnorm_bwd(f->p, dh, RT_NONE, dy, h, w, dh, 1e-6f); /* dh = dh + ..., once */
    rt_emit_add_rmsnorm_bwd(f->p, dx, RT_NONE, dy, h, w, dh, 1e-6f);
    rt_emit_add_rmsnorm_bwd(f->p, dx, RT_NONE, dy, h, w, dh, 1e-6f);
    expect_ok(f);
    assert_int_equal(f->p->ops[1].acc, 0);
    assert_int_equal(f->p->ops[2].acc, 0);
    assert_int_equal(f->p->ops[3].acc, 1);
}
static void dtype_rules(void **state)
{
    fixture *f = *state;
    rt_view x = rt_space_buf(f->s, RT_CLASS_INPUT, RT_DTYPE_BF16, 4, 8, "x");
    rt_view y = rt_space_buf(f->s, RT_CLASS_OUTPUT, RT_DTYPE_F16, 4, 8, "y");
    rt_emit_scale(f->p, y, x, RT_NONE, 1.0f);
    expect_error(f, RT_INVALID, "operand 'x' is bf16 but 'y' is f16; they must agree");
}
static void f64_is_all_or_nothing(void **state)
{
    fixture *f = *state;
    rt_view x = rt_space_buf(f->s, RT_CLASS_INPUT, RT_DTYPE_F64, 4, 8, "x");
    rt_view y = rt_space_buf(f->s, RT_CLASS_OUTPUT, RT_DTYPE_F32, 4, 8, "y");
    rt_emit_cast(f->p, y, x);
    expect_error(f, RT_INVALID, "f64 throughout");
}
static void errors_stick(void **state)
{
    fixture *f = *state;
    rt_view x = act(f, 4, 8, "x");
    rt_view_rows(f->p, x, 3, 2);
    expect_error(f, RT_INVALID, "rows [3,3+2) of 'x' (4,8): out of range");
    rt_emit_fill(f->p, x, 0.0f);
    rt_act(f->p, RT_DTYPE_F32, 0, 0, "later");
    expect_error(f, RT_INVALID, "rows [3,3+2) of 'x' (4,8): out of range");
    assert_int_equal(f->p->nops, 0);
}
static void a_bad_space_is_reported_by_the_plan(void **state)
{
    fixture *f = *state;
    rt_space_buf(f->s, RT_CLASS_PARAM, RT_DTYPE_Q4_K, 4, 100, "w");
    expect_error(f, RT_INVALID, "columns must be a multiple of the block of 256");
}
static void sizes_that_overflow_are_refused(void **state)
{
    fixture *f = *state;
    rt_act(f->p, RT_DTYPE_F64, UINT32_MAX, UINT32_MAX, "huge");
    expect_error(f, RT_INVALID, "overflows");
}
static void views_of_other_plans_are_refused(void **state)
{
    fixture *f = *state;
    rt_view stray = { RT_ACT_BIT | 5, 4, 8, 0, 8 };
    rt_emit_fill(f->p, stray, 0.0f);
    rt_err e = { 0 };
    assert_int_equal(rt_plan_status(f->p, &e), RT_INVALID);
}
static void reshape(void **state)
{
    fixture *f = *state;
    rt_view x = buf(f, RT_CLASS_STATE, 6, 8, "x");
    rt_view s = rt_view_shape(f->p, x, 12, 4);
    assert_int_equal(s.rows, 12);
    assert_int_equal(s.stride, 4);
    s = rt_view_shape(f->p, x, 48, 1); /* one column is a shape too */
    assert_int_equal(s.rows, 48);
    assert_int_equal(s.stride, 1);
    expect_ok(f);
    rt_view_shape(f->p, rt_view_cols(f->p, x, 0, 4), 3, 8);
    expect_error(f, RT_INVALID, "cannot be seen as (3,8)");
}

static void parts_of_parts(void **state)
{
    fixture *f = *state;
    rt_view x = buf(f, RT_CLASS_STATE, 6, 20, "x");
    rt_view a = rt_view_cols(f->p, rt_view_cols(f->p, x, 4, 12), 3, 5),
            b = rt_view_rows(f->p, rt_view_rows(f->p, a, 2, 4), 1, 2);
    expect_ok(f);
    assert_int_equal(a.off, 7);
    assert_int_equal(a.cols, 5);
    assert_int_equal(b.off, 7 + 3 * 20);
    assert_int_equal(b.rows, 2);
    assert_int_equal(b.stride, 20);
    rt_view_cols(f->p, a, 3, 3);
    expect_error(f, RT_INVALID, "columns [3,3+3) of 'x' (6,5)");
}
static void nothing_alive(void **state)
{
    fixture *f = *state;
    rt_life life[1];
    uint32_t peak_op = 9;
    rt_emit_fill(f->p, buf(f, RT_CLASS_STATE, 2, 2, "x"), 0.0f);
    expect_ok(f);
    assert_int_equal(rt_plan_lifetimes(f->p, life, &peak_op), 0);
    assert_int_equal(peak_op, 0);
}
static void ops_by_name(void **state)
{
    rt_op_kind k;
    (void)state;
    for (int i = 0; i < RT_OP_COUNT; i++) {
        assert_true(rt_op_find(rt_op_name((rt_op_kind)i), &k));
        assert_int_equal(k, i);
        assert_true(rt_op_slots(k) >= 1 && rt_op_slots(k) <= RT_MAX_SLOTS);
        RT_FOR_SLOTS (s, k) assert_non_null(rt_op_specs[k].slot[s].name);
    }
    assert_false(rt_op_find("no such op", &k));
}

static void lifetimes_and_peak(void **state)
{
    fixture *f = *state;
    rt_view a = act(f, 64, 64, "a"), b = act(f, 64, 64, "b"), c = act(f, 64, 128, "c"), d = act(f, 64, 64, "d");
    rt_view unused = act(f, 64, 64, "unused");
    rt_life life[5];
    uint32_t peak_op;
    (void)unused;
    rt_emit_fill(f->p, a, 1.0f);                                      /* 0 */
    rt_emit_scale(f->p, b, a, RT_NONE, 1.0f);                         /* 1 */
    rt_emit_scale(f->p, rt_view_cols(f->p, c, 0, 64), b, RT_NONE, 1); /* 2: b and c alive */
    rt_emit_scale(f->p, d, rt_view_cols(f->p, c, 0, 64), RT_NONE, 1); /* 3 */
    expect_ok(f);
    uint64_t peak = rt_plan_lifetimes(f->p, life, &peak_op);
    assert_int_equal(life[0].first, 0);
    assert_int_equal(life[0].last, 1);
    assert_int_equal(life[1].first, 1);
    assert_int_equal(life[1].last, 2);
    assert_int_equal(life[2].last, 3);
    assert_true(life[4].first > life[4].last);
    assert_int_equal(peak, (64 * 64 + 64 * 128) * 4);
    assert_int_equal(peak_op, 2);
}

static void scratch_that_stays(void **state)
{
    fixture *f = *state;
    rt_view a = act(f, 64, 64, "a"), b = act(f, 64, 64, "b"), scratch = act(f, 64, 64, "scratch");
    rt_life life[3];
    uint32_t peak_op;
    for (int i = 0; i < 3; i++) rt_emit_fill(f->p, i < 2 ? a : b, 1.0f);
    expect_ok(f);
    f->p->ops[1].work = scratch;
    rt_plan_lifetimes(f->p, life, &peak_op);
    assert_int_equal(life[2].first, 1);
    assert_int_equal(life[2].last, 1);
    f->p->ops[1].work_stays = true;
    uint64_t peak = rt_plan_lifetimes(f->p, life, &peak_op);
    assert_int_equal(life[2].first, 1);
    assert_int_equal(life[2].last, 2);
    assert_int_equal(peak, 2 * 64 * 64 * 4);
}

#define T(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(region_matches_bitmap),
        cmocka_unit_test(region_merges_columns),
        T(read_before_write),
        T(partly_written_is_not_enough),
        T(gradients_are_undefined_until_assumed),
        T(halves_have_their_own_history),
        T(gaps_are_filled_before_adding),
        T(a_sparse_writer_never_assigns),
        T(scatter_needs_a_defined_target),
        T(outputs_may_not_overlap_inputs),
        T(in_place_residual_assigns),
        T(in_place_means_the_same_elements),
        T(in_place_needs_one_corner_and_shape),
        T(dtype_rules),
        T(f64_is_all_or_nothing),
        T(errors_stick),
        T(a_bad_space_is_reported_by_the_plan),
        T(sizes_that_overflow_are_refused),
        T(views_of_other_plans_are_refused),
        T(reshape),
        T(lifetimes_and_peak),
        T(scratch_that_stays),
        T(parts_of_parts),
        T(nothing_alive),
        cmocka_unit_test(ops_by_name),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
