/* test_emit.c - the emitters of layers, attention and rows: for each a recording that it accepts, with the operands and
 * arguments that it fills, and every refusal with a message that names the op, the operand and the numbers. Loss and
 * update are in test_emit_loss.c. */
#include "emit_case.h"

/* ---- what holds for every op ---- */

static void test_any_operand(void **state)
{
    (void)state;
    rt_view y = out(3, 4), x = f32(3, 4), none = RT_NONE, zero_rows = x, zero_cols = x;
    zero_rows.rows = 0;
    zero_cols.cols = 0;
    REFUSE(rt_emit_cast(plan, none, x), "cast: y is missing");
    REFUSE(rt_emit_cast(plan, y, none), "cast: x is missing");
    REFUSE(rt_emit_cast(plan, y, zero_rows), "cast: x is (0,4): no dimension may be 0");
    REFUSE(rt_emit_cast(plan, zero_cols, x), "cast: y is (3,0): no dimension may be 0");
    rt_view other = { .buf = RT_ACT_BIT | 7, .rows = 3, .cols = 4, .stride = 4 };
    REFUSE(rt_emit_cast(plan, other, x), "cast: y is a view of a buffer that this plan does not have");
    other.buf = 1000;
    REFUSE(rt_emit_cast(plan, y, other), "cast: x is a view of a buffer that this plan does not have");
    rt_view tall = f32(0x80000000u, 1), wide = f32(1, 0x80000000u);
    REFUSE(rt_emit_fill(plan, tall, 0), "fill: y is (2147483648,1): a dimension is over 2147483647");
    REFUSE(rt_emit_fill(plan, wide, 0), "fill: y is (1,2147483648): a dimension is over 2147483647");
    ACCEPT(FILL, rt_emit_fill(plan, f32(0x7fffffffu, 1), 0));
    rt_view q = in(RT_DTYPE_Q4_K, 2, 512), part = q;
    part.cols = 100;
    REFUSE(rt_emit_dequant(plan, out(2, 100), part), "dequant: x is (2,100) q4_k", "multiple of 256");
}

/* The first refusal is the one that is told, and nothing is recorded after it. */
static void test_errors_stick(void **state)
{
    (void)state;
    rt_err e = { 0 };
    rt_view y = out(3, 4), x = f32(3, 4);
    fresh_plan();
    rt_plan_label(plan, "layer %d", 3);
    rt_emit_cast(plan, y, f32(3, 5));
    rt_emit_fill(plan, y, 1);
    rt_emit_add(plan, y, RT_NONE, x);
    assert_int_equal(rt_plan_status(plan, &e), RT_INVALID);
    assert_int_equal(plan->nops, 0);
    assert_non_null(strstr(e.text, "layer 3"));
    assert_non_null(strstr(e.text, "cast: y is (3,4), expected (3,5): the shape of x"));
    /* A failed space is told as such, and not as a missing operand. */
    fresh_plan();
    assert_int_equal(rt_space_buf(space, RT_CLASS_INPUT, RT_DTYPE_F32, 0, 4, "empty").buf, 0);
    rt_emit_cast(plan, y, RT_NONE);
    assert_int_equal(rt_plan_status(plan, &e), RT_INVALID);
    assert_non_null(strstr(e.text, "'empty'"));
    assert_int_equal(plan->err.status, RT_OK);
}

/* ---- layers ---- */

static void test_embed(void **state)
{
    (void)state;
    rt_view y = out(5, 6), dy = f32(5, 6), table = f32(11, 6), ids = i32(5, 1), dtable = out(11, 6);
    ACCEPT(EMBED_FWD, rt_emit_embed_fwd(plan, y, table, ids));
    SLOTS_ARE(y, table, ids);
    assert_int_equal(last.args.embed.N, 5);
    assert_int_equal(last.args.embed.V, 11);
    assert_int_equal(last.args.embed.C, 6);
    ACCEPT(EMBED_FWD, rt_emit_embed_fwd(plan, out(5, 64), in(RT_DTYPE_Q8_0, 3, 64), ids));
    REFUSE(rt_emit_embed_fwd(plan, out(5, 7), table, ids), "embed_fwd: y is (5,7), expected (5,6)", "table");
    REFUSE(rt_emit_embed_fwd(plan, out(5, 6), table, i32(4, 1)), "embed_fwd: ids is (4,1), expected (5,1)");
    REFUSE(rt_emit_embed_fwd(plan, out(5, 6), table, i32(5, 2)), "embed_fwd: ids is (5,2), expected (5,1)");
    REFUSE(rt_emit_embed_fwd(plan, out(5, 6), RT_NONE, ids), "embed_fwd: table is missing");

    ACCEPT(EMBED_BWD, rt_emit_embed_bwd(plan, dtable, dy, ids));
    SLOTS_ARE(dtable, dy, ids);
    assert_int_equal(plan->nops, 2); /* the fill, since some rows are not written */
    assert_int_equal(last.args.embed.N, 5);
    assert_int_equal(last.args.embed.V, 11);
    assert_int_equal(last.args.embed.C, 6);
    REFUSE(rt_emit_embed_bwd(plan, dtable, f32(5, 5), ids), "embed_bwd: dy is (5,5), expected (5,6)", "dtable");
    REFUSE(rt_emit_embed_bwd(plan, dtable, f32(5, 6), i32(6, 1)), "embed_bwd: ids is (6,1), expected (5,1)");
    REFUSE(rt_emit_embed_bwd(plan, dtable, f32(5, 6), i32(5, 3)), "embed_bwd: ids is (5,3), expected (5,1)");
}

static void check_norm_args(uint32_t N, uint32_t H, uint32_t D)
{
    assert_int_equal(last.args.rmsnorm.N, N);
    assert_int_equal(last.args.rmsnorm.H, H);
    assert_int_equal(last.args.rmsnorm.D, D);
    assert_true(last.args.rmsnorm.eps == 1e-6f);
}

static void test_rmsnorm(void **state)
{
    (void)state;
    rt_view y = out(5, 12), x = f32(5, 12), w = f32(1, 12), w4 = f32(1, 4), none = RT_NONE;
    ACCEPT(RMSNORM_FWD, rt_emit_rmsnorm_fwd(plan, y, none, x, w, 1, 1e-6f));
    SLOTS_ARE(y, none, x, w);
    check_norm_args(5, 1, 12);
    ACCEPT(RMSNORM_FWD, rt_emit_rmsnorm_fwd(plan, y, none, x, w4, 3, 1e-6f));
    check_norm_args(5, 3, 4);
    REFUSE(rt_emit_rmsnorm_fwd(plan, y, none, x, w, 0, 1e-6f), "rmsnorm_fwd: x is (5,12)", "0 heads");
    REFUSE(rt_emit_rmsnorm_fwd(plan, y, none, x, w, 5, 1e-6f), "rmsnorm_fwd: x is (5,12)", "12 columns", "5 heads");
    REFUSE(rt_emit_rmsnorm_fwd(plan, y, none, x, w, 3, 1e-6f), "rmsnorm_fwd: w is (1,12), expected (1,4)");
    REFUSE(rt_emit_rmsnorm_fwd(plan, y, none, x, f32(2, 12), 1, 1e-6f), "rmsnorm_fwd: w is (2,12), expected (1,12)");
    REFUSE(rt_emit_rmsnorm_fwd(plan, out(4, 12), none, x, w, 1, 1e-6f), "rmsnorm_fwd: y is (4,12), expected (5,12)");
    REFUSE(rt_emit_rmsnorm_fwd(plan, y, none, x, w, 1, 0), "rmsnorm_fwd: eps is 0");
    REFUSE(rt_emit_rmsnorm_fwd(plan, y, none, x, w, 1, -1), "rmsnorm_fwd: eps is -1");
    REFUSE(rt_emit_rmsnorm_fwd(plan, y, none, x, w, 1, NAN), "rmsnorm_fwd: eps is nan");
    REFUSE(rt_emit_rmsnorm_fwd(plan, y, none, x, w, 1, INFINITY), "rmsnorm_fwd: eps is inf");

    rt_view dx = out(5, 12), dw = out(1, 12), dy = f32(5, 12);
    ACCEPT(RMSNORM_BWD, rt_emit_rmsnorm_bwd(plan, dx, dw, dy, x, w, 1, 1e-6f));
    SLOTS_ARE(dx, dw, dy, x, w);
    check_norm_args(5, 1, 12);
    ACCEPT(RMSNORM_BWD, rt_emit_rmsnorm_bwd(plan, dx, none, dy, x, w4, 3, 1e-6f));
    SLOTS_ARE(dx, none, dy, x, w4);
    check_norm_args(5, 3, 4);
    REFUSE(rt_emit_rmsnorm_bwd(plan, dx, dw, dy, x, w, 7, 1e-6f), "rmsnorm_bwd: x is (5,12)", "7 heads");
    REFUSE(rt_emit_rmsnorm_bwd(plan, dx, dw, dy, x, w, 1, 0), "rmsnorm_bwd: eps is 0");
    REFUSE(rt_emit_rmsnorm_bwd(plan, dx, dw, dy, x, w4, 1, 1e-6f), "rmsnorm_bwd: w is (1,4), expected (1,12)");
    REFUSE(rt_emit_rmsnorm_bwd(plan, out(5, 11), dw, dy, x, w, 1, 1e-6f), "rmsnorm_bwd: dx is (5,11), expected (5,12)");
    REFUSE(rt_emit_rmsnorm_bwd(plan, dx, dw, f32(6, 12), x, w, 1, 1e-6f), "rmsnorm_bwd: dy is (6,12), expected (5,12)");
    REFUSE(rt_emit_rmsnorm_bwd(plan, dx, out(1, 11), dy, x, w, 1, 1e-6f), "rmsnorm_bwd: dw is (1,11), expected (1,12)");
}

static void test_add_rmsnorm(void **state)
{
    (void)state;
    rt_view y = out(5, 12), h = out(5, 12), x = f32(5, 12), res = f32(5, 12), w = f32(1, 12), bad = out(5, 13);
    rt_view none = RT_NONE;
    ACCEPT(ADD_RMSNORM_FWD, rt_emit_add_rmsnorm_fwd(plan, y, none, h, x, res, w, 1e-6f));
    check_norm_args(5, 1, 12);
    SLOTS_ARE(y, none, h, x, res, w);
    REFUSE(rt_emit_add_rmsnorm_fwd(plan, bad, none, h, x, res, w, 1e-6f),
           "add_rmsnorm_fwd: y is (5,13), expected (5,12)");
    REFUSE(rt_emit_add_rmsnorm_fwd(plan, y, none, bad, x, res, w, 1e-6f),
           "add_rmsnorm_fwd: h is (5,13), expected (5,12)");
    REFUSE(rt_emit_add_rmsnorm_fwd(plan, y, none, h, x, f32(4, 12), w, 1e-6f),
           "add_rmsnorm_fwd: res is (4,12), expected (5,12)");
    REFUSE(rt_emit_add_rmsnorm_fwd(plan, y, none, h, x, res, f32(1, 6), 1e-6f),
           "add_rmsnorm_fwd: w is (1,6), expected (1,12)");
    REFUSE(rt_emit_add_rmsnorm_fwd(plan, y, none, h, x, res, w, -1e-6f), "add_rmsnorm_fwd: eps is -1e-06");

    rt_view dx = out(5, 12), dw = out(1, 12), dy = f32(5, 12), hv = f32(5, 12), dres = f32(5, 12);
    ACCEPT(ADD_RMSNORM_BWD, rt_emit_add_rmsnorm_bwd(plan, dx, dw, dy, hv, w, dres, 1e-6f));
    check_norm_args(5, 1, 12);
    SLOTS_ARE(dx, dw, dy, hv, w, dres);
    REFUSE(rt_emit_add_rmsnorm_bwd(plan, bad, dw, dy, hv, w, dres, 1e-6f),
           "add_rmsnorm_bwd: dx is (5,13), expected (5,12): the shape of h");
    REFUSE(rt_emit_add_rmsnorm_bwd(plan, dx, out(1, 4), dy, hv, w, dres, 1e-6f),
           "add_rmsnorm_bwd: dw is (1,4), expected (1,12)");
    REFUSE(rt_emit_add_rmsnorm_bwd(plan, dx, dw, f32(1, 12), hv, w, dres, 1e-6f),
           "add_rmsnorm_bwd: dy is (1,12), expected (5,12)");
    REFUSE(rt_emit_add_rmsnorm_bwd(plan, dx, dw, dy, hv, f32(1, 3), dres, 1e-6f),
           "add_rmsnorm_bwd: w is (1,3), expected (1,12)");
    REFUSE(rt_emit_add_rmsnorm_bwd(plan, dx, dw, dy, hv, w, f32(5, 3), 1e-6f),
           "add_rmsnorm_bwd: dres is (5,3), expected (5,12)");
    REFUSE(rt_emit_add_rmsnorm_bwd(plan, dx, dw, dy, hv, w, dres, NAN), "add_rmsnorm_bwd: eps is nan");
    REFUSE(rt_emit_add_rmsnorm_bwd(plan, dx, dw, dy, hv, w, RT_NONE, 1e-6f), "add_rmsnorm_bwd: dres is missing");
}

static void check_matmul(uint32_t ta, uint32_t tb)
{
    assert_int_equal(last.args.matmul.M, 3);
    assert_int_equal(last.args.matmul.N, 4);
    assert_int_equal(last.args.matmul.K, 5);
    assert_int_equal(last.args.matmul.ta, ta);
    assert_int_equal(last.args.matmul.tb, tb);
    assert_true(last.args.matmul.alpha == 0.5f);
}

static void test_matmul(void **state)
{
    (void)state;
    rt_view o = out(3, 4), a = f32(3, 5), at = f32(5, 3), b = f32(5, 4), bt = f32(4, 5), bias = f32(1, 4);
    rt_view none = RT_NONE;
    ACCEPT(MATMUL, rt_emit_matmul(plan, o, a, b, none, "nn", 0.5f));
    SLOTS_ARE(o, a, b, none);
    check_matmul(0, 0);
    ACCEPT(MATMUL, rt_emit_matmul(plan, o, a, bt, bias, "nt", 0.5f));
    SLOTS_ARE(o, a, bt, bias);
    check_matmul(0, 1);
    ACCEPT(MATMUL, rt_emit_matmul(plan, o, at, b, none, "tn", 0.5f));
    check_matmul(1, 0);
    ACCEPT(MATMUL, rt_emit_matmul(plan, o, at, bt, bias, "tt", 0.5f));
    check_matmul(1, 1);
    REFUSE(rt_emit_matmul(plan, out(512, 7), f32(512, 896), f32(895, 7), none, "nn", 1),
           "matmul: a is (512,896) transposed n, so b must have 896 rows; it has 895");
    REFUSE(rt_emit_matmul(plan, o, at, b, none, "nn", 1),
           "matmul: a is (5,3) transposed n, so b must have 3 rows; it has 5");
    REFUSE(rt_emit_matmul(plan, o, a, b, none, "tn", 1),
           "matmul: a is (3,5) transposed t, so b must have 3 rows; it has 5");
    REFUSE(rt_emit_matmul(plan, o, a, b, none, "nt", 1),
           "matmul: a is (3,5) transposed n, so b must have 5 columns; it has 4");
    REFUSE(rt_emit_matmul(plan, out(4, 4), a, b, none, "nn", 1), "matmul: out is (4,4), expected (3,4)");
    REFUSE(rt_emit_matmul(plan, out(3, 5), a, b, none, "nn", 1), "matmul: out is (3,5), expected (3,4)");
    REFUSE(rt_emit_matmul(plan, o, a, b, f32(1, 3), "nn", 1), "matmul: bias is (1,3), expected (1,4)");
    REFUSE(rt_emit_matmul(plan, o, a, b, f32(2, 4), "nn", 1), "matmul: bias is (2,4), expected (1,4)");
    REFUSE(rt_emit_matmul(plan, o, a, b, none, "n", 1), "matmul: transposes is \"n\", expected nn, nt, tn or tt");
    REFUSE(rt_emit_matmul(plan, o, a, b, none, "nnn", 1), "matmul: transposes is \"nnn\"");
    REFUSE(rt_emit_matmul(plan, o, a, b, none, "xn", 1), "matmul: transposes is \"xn\"");
    REFUSE(rt_emit_matmul(plan, o, a, b, none, "nT", 1), "matmul: transposes is \"nT\"");
    REFUSE(rt_emit_matmul(plan, o, a, b, none, NULL, 1), "matmul: transposes is \"\"");
    REFUSE(rt_emit_matmul(plan, o, a, b, none, "nn", NAN), "matmul: alpha is nan");
    REFUSE(rt_emit_matmul(plan, o, a, b, none, "nn", -INFINITY), "matmul: alpha is -inf");
}

static void test_matmul_quantised(void **state)
{
    (void)state;
    rt_view w = in(RT_DTYPE_Q4_0, 64, 32), x = f32(3, 32), dy = f32(3, 64), none = RT_NONE;
    ACCEPT(MATMUL, rt_emit_matmul(plan, out(3, 64), x, w, none, "nt", 1));
    ACCEPT(MATMUL, rt_emit_matmul(plan, out(3, 32), dy, w, none, "nn", 1));
    REFUSE(rt_emit_matmul(plan, out(3, 32), f32(64, 3), w, none, "tn", 1), "matmul: b is q4_0", "nn or nt, not tn");
    REFUSE(rt_emit_matmul(plan, out(3, 64), f32(32, 3), w, none, "tt", 1), "matmul: b is q4_0", "nn or nt, not tt");
}

static void test_bias_grad(void **state)
{
    (void)state;
    rt_view db = out(1, 7), dy = f32(5, 7);
    ACCEPT(BIAS_GRAD, rt_emit_bias_grad(plan, db, dy));
    SLOTS_ARE(db, dy);
    assert_int_equal(last.args.rows.N, 5);
    assert_int_equal(last.args.rows.C, 7);
    REFUSE(rt_emit_bias_grad(plan, out(1, 6), f32(5, 7)), "bias_grad: db is (1,6), expected (1,7)");
    REFUSE(rt_emit_bias_grad(plan, out(5, 7), f32(5, 7)), "bias_grad: db is (5,7), expected (1,7)");
    REFUSE(rt_emit_bias_grad(plan, out(1, 7), RT_NONE), "bias_grad: dy is missing");
}

static void test_rope(void **state)
{
    (void)state;
    rt_view y = out(5, 24), x = f32(5, 24), freq = f32(1, 4), pos = i32(5, 1);
    ACCEPT(ROPE_FWD, rt_emit_rope_fwd(plan, y, x, freq, pos, 1.25f));
    SLOTS_ARE(y, x, freq, pos);
    assert_int_equal(last.args.rope.N, 5);
    assert_int_equal(last.args.rope.H, 3);
    assert_int_equal(last.args.rope.D, 8);
    assert_true(last.args.rope.scale == 1.25f);
    REFUSE(rt_emit_rope_fwd(plan, out(5, 15), f32(5, 15), freq, pos, 1), "rope_fwd: x is (5,15)", "heads of 8",
           "4 frequencies");
    REFUSE(rt_emit_rope_fwd(plan, y, x, f32(2, 4), pos, 1), "rope_fwd: freq is (2,4), expected (1,4)");
    REFUSE(rt_emit_rope_fwd(plan, out(4, 24), x, freq, pos, 1), "rope_fwd: y is (4,24), expected (5,24)");
    REFUSE(rt_emit_rope_fwd(plan, y, x, freq, i32(4, 1), 1), "rope_fwd: pos is (4,1), expected (5,1)");
    REFUSE(rt_emit_rope_fwd(plan, y, x, freq, i32(5, 2), 1), "rope_fwd: pos is (5,2), expected (5,1)");
    REFUSE(rt_emit_rope_fwd(plan, y, x, freq, pos, NAN), "rope_fwd: scale is nan");
    REFUSE(rt_emit_rope_fwd(plan, y, x, freq, pos, INFINITY), "rope_fwd: scale is inf");
    REFUSE(rt_emit_rope_fwd(plan, y, x, freq, pos, 0), "rope_fwd: scale is 0");

    ACCEPT(ROPE_BWD, rt_emit_rope_bwd(plan, y, x, freq, pos, 1));
    SLOTS_ARE(y, x, freq, pos);
    assert_int_equal(last.args.rope.H, 3);
    assert_int_equal(last.args.rope.D, 8);
    REFUSE(rt_emit_rope_bwd(plan, out(5, 12), f32(5, 12), freq, pos, 1), "rope_bwd: dy is (5,12)", "heads of 8");
    REFUSE(rt_emit_rope_bwd(plan, out(5, 16), x, freq, pos, 1), "rope_bwd: dx is (5,16), expected (5,24)");
    REFUSE(rt_emit_rope_bwd(plan, y, x, freq, i32(1, 1), 1), "rope_bwd: pos is (1,1), expected (5,1)");
    REFUSE(rt_emit_rope_bwd(plan, y, x, freq, pos, -1), "rope_bwd: scale is -1");
}

static void test_swiglu(void **state)
{
    (void)state;
    rt_view g = f32(5, 7), u = f32(5, 7), dy = f32(5, 7), dg = out(5, 7), du = out(5, 7), y = out(5, 7);
    rt_view bad = out(5, 8), none = RT_NONE;
    ACCEPT(SWIGLU_FWD, rt_emit_swiglu_fwd(plan, dg, none, g, u));
    SLOTS_ARE(dg, none, g, u);
    assert_int_equal(last.args.swiglu.N, 5);
    assert_int_equal(last.args.swiglu.F, 7);
    REFUSE(rt_emit_swiglu_fwd(plan, bad, none, g, u), "swiglu_fwd: y is (5,8), expected (5,7)");
    REFUSE(rt_emit_swiglu_fwd(plan, dg, none, g, f32(4, 7)), "swiglu_fwd: u is (4,7), expected (5,7)");
    ACCEPT(SWIGLU_BWD, rt_emit_swiglu_bwd(plan, dg, du, y, dy, g, u));
    SLOTS_ARE(dg, du, y, dy, g, u);
    assert_int_equal(last.args.swiglu.N, 5);
    assert_int_equal(last.args.swiglu.F, 7);
    REFUSE(rt_emit_swiglu_bwd(plan, bad, du, none, dy, g, u), "swiglu_bwd: dg is (5,8), expected (5,7)");
    REFUSE(rt_emit_swiglu_bwd(plan, dg, bad, none, dy, g, u), "swiglu_bwd: du is (5,8), expected (5,7)");
    REFUSE(rt_emit_swiglu_bwd(plan, dg, du, bad, dy, g, u), "swiglu_bwd: y is (5,8), expected (5,7)");
    REFUSE(rt_emit_swiglu_bwd(plan, dg, du, none, f32(6, 7), g, u), "swiglu_bwd: dy is (6,7), expected (5,7)");
    REFUSE(rt_emit_swiglu_bwd(plan, dg, du, none, dy, g, f32(5, 1)), "swiglu_bwd: u is (5,1), expected (5,7)");
}

/* ---- attention ---- */

static const rt_attn_shape heads = { .T = 6, .H = 4, .K = 2, .D = 8, .window = 3, .scale = 0.25f };

/* `heads` with one number changed */
static rt_attn_shape changed;
#define HEADS(field, value) (changed = heads, changed.field = (value), &changed)

static void test_attn_numbers(void **state)
{
    (void)state;
    rt_view o = out(12, 32), lse = out(12, 4), q = f32(12, 32), k = f32(12, 16), v = f32(12, 16), none = RT_NONE;
#define FWD(s) rt_emit_attn_fwd(plan, o, lse, q, k, v, none, s)
    ACCEPT(ATTN_FWD, FWD(&heads));
    assert_int_equal(last.args.attn.B, 2);
    assert_int_equal(last.args.attn.T, 6);
    assert_int_equal(last.args.attn.H, 4);
    assert_int_equal(last.args.attn.K, 2);
    assert_int_equal(last.args.attn.D, 8);
    assert_int_equal(last.args.attn.window, 3);
    assert_true(last.args.attn.scale == 0.25f);
    ACCEPT(ATTN_FWD, FWD(HEADS(scale, 0)));
    assert_true(last.args.attn.scale == (float)(1 / sqrt(8.0)));
    REFUSE(FWD(NULL), "attn_fwd: no shape");
    REFUSE(FWD(HEADS(T, 0)), "attn_fwd: T is 0");
    REFUSE(FWD(HEADS(T, 0x80000000u)), "attn_fwd: T is 2147483648");
    REFUSE(FWD(HEADS(T, 5)), "attn_fwd: q is (12,32)", "12 rows", "multiple of T, which is 5");
    REFUSE(FWD(HEADS(T, 24)), "attn_fwd: q is (12,32)", "multiple of T, which is 24");
    REFUSE(FWD(HEADS(H, 0)), "attn_fwd: H is 0 and K is 2");
    REFUSE(FWD(HEADS(K, 0)), "attn_fwd: H is 4 and K is 0");
    REFUSE(FWD(HEADS(K, 3)), "attn_fwd: H is 4, expected a multiple of K, which is 3");
    REFUSE(FWD(HEADS(K, 8)), "attn_fwd: H is 4, expected a multiple of K, which is 8");
    REFUSE(FWD(HEADS(D, 0)), "attn_fwd: D is 0, expected a multiple of 8 up to 256");
    REFUSE(FWD(HEADS(D, 12)), "attn_fwd: D is 12, expected a multiple of 8 up to 256");
    REFUSE(FWD(HEADS(D, 264)), "attn_fwd: D is 264, expected a multiple of 8 up to 256");
    ACCEPT(ATTN_FWD, FWD(HEADS(window, INT32_MAX)));
    REFUSE(FWD(HEADS(window, 0x80000000u)), "attn_fwd: window is 2147483648");
    REFUSE(FWD(HEADS(scale, NAN)), "attn_fwd: scale is nan");
    REFUSE(FWD(HEADS(scale, INFINITY)), "attn_fwd: scale is inf");
#undef FWD
    rt_attn_shape wide = { .T = 12, .H = 1, .K = 1, .D = 256 };
    rt_view q256 = f32(12, 256);
    ACCEPT(ATTN_FWD, rt_emit_attn_fwd(plan, out(12, 256), out(12, 1), q256, q256, q256, none, &wide));
    assert_true(last.args.attn.scale == 0.0625f);
}

static void test_attn_fwd(void **state)
{
    (void)state;
    rt_view o = out(12, 32), lse = out(12, 4), q = f32(12, 32), k = f32(12, 16), v = f32(12, 16), start = i32(12, 1);
    rt_view bad = f32(12, 24), badw = out(12, 24);
    ACCEPT(ATTN_FWD, rt_emit_attn_fwd(plan, o, lse, q, k, v, start, &heads));
    SLOTS_ARE(o, lse, q, k, v, start);
    REFUSE(rt_emit_attn_fwd(plan, badw, lse, q, k, v, start, &heads), "attn_fwd: o is (12,24), expected (12,32)");
    REFUSE(rt_emit_attn_fwd(plan, o, badw, q, k, v, start, &heads), "attn_fwd: lse is (12,24), expected (12,4)");
    REFUSE(rt_emit_attn_fwd(plan, o, lse, bad, k, v, start, &heads), "attn_fwd: q is (12,24), expected (12,32)");
    REFUSE(rt_emit_attn_fwd(plan, o, lse, q, bad, v, start, &heads), "attn_fwd: k is (12,24), expected (12,16)");
    REFUSE(rt_emit_attn_fwd(plan, o, lse, q, k, bad, start, &heads), "attn_fwd: v is (12,24), expected (12,16)");
    REFUSE(rt_emit_attn_fwd(plan, o, lse, q, f32(6, 16), v, start, &heads), "attn_fwd: k is (6,16), expected (12,16)");
    REFUSE(rt_emit_attn_fwd(plan, o, lse, q, k, v, i32(6, 1), &heads), "attn_fwd: start is (6,1), expected (12,1)");
    REFUSE(rt_emit_attn_fwd(plan, o, lse, q, k, v, i32(12, 2), &heads), "attn_fwd: start is (12,2), expected (12,1)");
    REFUSE(rt_emit_attn_fwd(plan, o, RT_NONE, q, k, v, start, &heads), "attn_fwd: lse is missing");
}

static void test_attn_bwd(void **state)
{
    (void)state;
    rt_view dq = out(12, 32), dk = out(12, 16), dv = out(12, 16), d_o = f32(12, 32), q = f32(12, 32);
    rt_view k = f32(12, 16), v = f32(12, 16), o = f32(12, 32), lse = f32(12, 4), st = i32(12, 1);
    rt_view bad = f32(12, 24), badw = out(12, 24);
    const rt_attn_shape *s = &heads;
    ACCEPT(ATTN_BWD, rt_emit_attn_bwd(plan, dq, dk, dv, d_o, q, k, v, o, lse, st, s));
    SLOTS_ARE(dq, dk, dv, d_o, q, k, v, o, lse, st);
    assert_int_equal(last.args.attn.B, 2);
    assert_int_equal(last.args.attn.window, 3);
    ACCEPT(ATTN_BWD, rt_emit_attn_bwd(plan, dq, dk, dv, d_o, q, k, v, o, lse, RT_NONE, s));
    REFUSE(rt_emit_attn_bwd(plan, badw, dk, dv, d_o, q, k, v, o, lse, st, s), "attn_bwd: dq is (12,24)", "(12,32)");
    REFUSE(rt_emit_attn_bwd(plan, dq, badw, dv, d_o, q, k, v, o, lse, st, s), "attn_bwd: dk is (12,24)", "(12,16)");
    REFUSE(rt_emit_attn_bwd(plan, dq, dk, badw, d_o, q, k, v, o, lse, st, s), "attn_bwd: dv is (12,24)", "(12,16)");
    REFUSE(rt_emit_attn_bwd(plan, dq, dk, dv, bad, q, k, v, o, lse, st, s), "attn_bwd: do is (12,24)", "(12,32)");
    REFUSE(rt_emit_attn_bwd(plan, dq, dk, dv, d_o, bad, k, v, o, lse, st, s), "attn_bwd: q is (12,24)", "(12,32)");
    REFUSE(rt_emit_attn_bwd(plan, dq, dk, dv, d_o, q, bad, v, o, lse, st, s), "attn_bwd: k is (12,24)", "(12,16)");
    REFUSE(rt_emit_attn_bwd(plan, dq, dk, dv, d_o, q, k, bad, o, lse, st, s), "attn_bwd: v is (12,24)", "(12,16)");
    REFUSE(rt_emit_attn_bwd(plan, dq, dk, dv, d_o, q, k, v, bad, lse, st, s), "attn_bwd: o is (12,24)", "(12,32)");
    REFUSE(rt_emit_attn_bwd(plan, dq, dk, dv, d_o, q, k, v, o, bad, st, s), "attn_bwd: lse is (12,24)", "(12,4)");
    REFUSE(rt_emit_attn_bwd(plan, dq, dk, dv, d_o, q, k, v, o, lse, i32(1, 12), s), "attn_bwd: start is (1,12)",
           "(12,1)");
    REFUSE(rt_emit_attn_bwd(plan, dq, dk, dv, d_o, q, k, v, o, lse, st, HEADS(D, 9)), "attn_bwd: D is 9");
    REFUSE(rt_emit_attn_bwd(plan, dq, dk, dv, d_o, q, k, v, o, lse, st, HEADS(T, 7)), "attn_bwd: q is (12,32)",
           "which is 7");
}

static void test_attn_decode(void **state)
{
    (void)state;
    rt_attn_shape two = { .T = 2, .H = 4, .K = 2, .D = 8 };
    rt_view o = out(6, 32), q = f32(6, 32), kc = f32(30, 16), vc = f32(30, 16), len = i32(3, 1), bad = f32(30, 8);
    ACCEPT(ATTN_DECODE, rt_emit_attn_decode(plan, o, q, kc, vc, len, RT_NONE, &two));
    SLOTS_ARE(o, q, kc, vc, len, RT_NONE);
    assert_int_equal(last.args.decode.B, 3);
    assert_int_equal(last.args.decode.Q, 2);
    assert_int_equal(last.args.decode.S, 10);
    assert_int_equal(last.args.decode.H, 4);
    assert_int_equal(last.args.decode.K, 2);
    assert_int_equal(last.args.decode.D, 8);
    assert_int_equal(last.args.decode.window, 0);
    assert_true(last.args.decode.scale == (float)(1 / sqrt(8.0)));
    REFUSE(rt_emit_attn_decode(plan, out(5, 32), q, kc, vc, len, RT_NONE, &two),
           "attn_decode: o is (5,32), expected (6,32)");
    REFUSE(rt_emit_attn_decode(plan, out(6, 24), f32(6, 24), kc, vc, len, RT_NONE, &two),
           "attn_decode: q is (6,24), expected (6,32)");
    REFUSE(rt_emit_attn_decode(plan, o, q, bad, vc, len, RT_NONE, &two), "attn_decode: kc is (30,8), expected (30,16)");
    REFUSE(rt_emit_attn_decode(plan, o, q, kc, bad, len, RT_NONE, &two), "attn_decode: vc is (30,8), expected (30,16)");
    REFUSE(rt_emit_attn_decode(plan, o, q, f32(31, 16), vc, len, RT_NONE, &two), "attn_decode: kc is (31,16)",
           "31 rows", "3 sequences");
    REFUSE(rt_emit_attn_decode(plan, o, q, f32(3, 16), f32(3, 16), len, RT_NONE, &two), "attn_decode: kc is (3,16)",
           "1 rows", "2 new tokens");
    REFUSE(rt_emit_attn_decode(plan, o, q, kc, vc, i32(2, 1), RT_NONE, &two),
           "attn_decode: len is (2,1), expected (3,1)");
    REFUSE(rt_emit_attn_decode(plan, o, q, kc, vc, i32(3, 2), RT_NONE, &two),
           "attn_decode: len is (3,2), expected (3,1)");
    rt_view pages = f32(320, 16), table = i32(3, 2);
    two.page = 64;
    ACCEPT(ATTN_DECODE, rt_emit_attn_decode(plan, o, q, pages, pages, len, table, &two));
    SLOTS_ARE(o, q, pages, pages, len, table);
    assert_int_equal(last.args.decode.S, 128);
    assert_int_equal(last.args.decode.page, 64);
    REFUSE(rt_emit_attn_decode(plan, o, q, pages, pages, len, i32(2, 2), &two), "attn_decode: table is (2,2)", "(3,2)");
    REFUSE(rt_emit_attn_decode(plan, o, q, f32(300, 16), f32(300, 16), len, table, &two), "attn_decode: kc is (300,16)",
           "which is 64");
    two.page = 32;
    REFUSE(rt_emit_attn_decode(plan, o, q, pages, pages, len, table, &two), "attn_decode: page is 32", "64");
    two.T = 4;
    REFUSE(rt_emit_attn_decode(plan, o, q, kc, vc, len, RT_NONE, &two), "attn_decode: q is (6,32)", "4 new tokens");
    two.T = 7;
    REFUSE(rt_emit_attn_decode(plan, o, q, kc, vc, len, RT_NONE, &two), "attn_decode: q is (6,32)", "7 new tokens");
    two.T = 0;
    REFUSE(rt_emit_attn_decode(plan, o, q, kc, vc, len, RT_NONE, &two), "attn_decode: T is 0");
    REFUSE(rt_emit_attn_decode(plan, o, q, kc, vc, len, RT_NONE, NULL), "attn_decode: no shape");
}

/* ---- rows ---- */

static void check_rows(uint32_t N, uint32_t C, uint32_t R, float alpha)
{
    assert_int_equal(last.args.rows.N, N);
    assert_int_equal(last.args.rows.C, C);
    assert_int_equal(last.args.rows.R, R);
    assert_true(last.args.rows.alpha == alpha);
}

static void test_rows(void **state)
{
    (void)state;
    rt_view y = out(5, 7), a = f32(5, 7), b = f32(5, 7), one = f32(1, 1), none = RT_NONE;
    ACCEPT(ADD, rt_emit_add(plan, y, a, b));
    SLOTS_ARE(y, a, b);
    check_rows(5, 7, 0, 0);
    REFUSE(rt_emit_add(plan, out(5, 6), a, b), "add: y is (5,6), expected (5,7)");
    REFUSE(rt_emit_add(plan, y, a, f32(4, 7)), "add: b is (4,7), expected (5,7)");
    ACCEPT(SCALE, rt_emit_scale(plan, y, a, one, -2));
    SLOTS_ARE(y, a, one);
    check_rows(5, 7, 0, -2);
    ACCEPT(SCALE, rt_emit_scale(plan, y, a, none, 0));
    REFUSE(rt_emit_scale(plan, y, f32(5, 8), one, 1), "scale: y is (5,7), expected (5,8)");
    REFUSE(rt_emit_scale(plan, y, a, f32(1, 2), 1), "scale: s is (1,2), expected (1,1)");
    REFUSE(rt_emit_scale(plan, y, a, one, NAN), "scale: alpha is nan");
    REFUSE(rt_emit_scale(plan, y, a, one, INFINITY), "scale: alpha is inf");
    ACCEPT(CAST, rt_emit_cast(plan, y, b));
    SLOTS_ARE(y, b);
    check_rows(5, 7, 0, 0);
    REFUSE(rt_emit_cast(plan, y, f32(7, 5)), "cast: y is (5,7), expected (7,5)");
    ACCEPT(FILL, rt_emit_fill(plan, y, -INFINITY));
    check_rows(5, 7, 0, -INFINITY);
}

static void test_copy(void **state)
{
    (void)state;
    rt_view x = f32(3, 7), cache = f32(9, 7), rows = i32(3, 1), none = RT_NONE;
    ACCEPT(COPY, rt_emit_copy(plan, out(3, 7), x, none));
    check_rows(3, 7, 0, 0);
    ACCEPT(COPY, rt_emit_copy(plan, cache, x, rows));
    SLOTS_ARE(cache, x, rows);
    check_rows(3, 7, 9, 0);
    REFUSE(rt_emit_copy(plan, cache, x, none), "copy: y is (9,7), expected (3,7)");
    REFUSE(rt_emit_copy(plan, f32(9, 6), x, rows), "copy: y is (9,6), expected (9,7)");
    REFUSE(rt_emit_copy(plan, cache, x, i32(9, 1)), "copy: rows is (9,1), expected (3,1)");
    REFUSE(rt_emit_copy(plan, cache, x, i32(3, 2)), "copy: rows is (3,2), expected (3,1)");
}

static void test_quant(void **state)
{
    (void)state;
    rt_view y = rt_space_buf(space, RT_CLASS_OUTPUT, RT_DTYPE_Q6_K, 2, 256, "blocks"), x = f32(2, 256);
    ACCEPT(QUANT, rt_emit_quant(plan, y, x));
    SLOTS_ARE(y, x);
    check_rows(2, 256, 0, 0);
    REFUSE(rt_emit_quant(plan, y, f32(2, 255)), "quant: y is (2,256), expected (2,255)");
    ACCEPT(DEQUANT, rt_emit_dequant(plan, out(2, 256), in(RT_DTYPE_Q5_K, 2, 256)));
    check_rows(2, 256, 0, 0);
    REFUSE(rt_emit_dequant(plan, out(1, 256), in(RT_DTYPE_Q5_K, 2, 256)), "dequant: y is (1,256), expected (2,256)");
}

int main(void)
{
#define TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
    const struct CMUnitTest tests[] = {
        TEST(test_any_operand),
        TEST(test_errors_stick),
        TEST(test_embed),
        TEST(test_rmsnorm),
        TEST(test_add_rmsnorm),
        TEST(test_matmul),
        TEST(test_matmul_quantised),
        TEST(test_bias_grad),
        TEST(test_rope),
        TEST(test_swiglu),
        TEST(test_attn_numbers),
        TEST(test_attn_fwd),
        TEST(test_attn_bwd),
        TEST(test_attn_decode),
        TEST(test_rows),
        TEST(test_copy),
        TEST(test_quant),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
