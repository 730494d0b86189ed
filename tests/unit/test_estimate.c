/* test_estimate.c - how long programs will take, on a clock of our own: the middle of runs, other work on the machine,
 * ops that cost the same timed once, and pieces of ops that are too large. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "exec/estimate.h"
#include "exec_case.h"
#include "op/emit.h"

#include <math.h>

/* ---- a clock that runs move ---- */

static double clock_now;
double __wrap_rt_now(void); /* the linker puts it in the place of rt_now */
double __wrap_rt_now(void) { return clock_now; }

static const double *script; /* seconds of the runs, one after the other; null: by the work of the op */
static uint32_t ran;
static double rate; /* of work in a second */
static struct {
    rt_op op;
    double work, seconds;
} timed[64]; /* every run */

static rt_op op_now;
static double work_now;

static bool take_op(rt_dev *d, const rt_plan *p, const rt_op *op, rt_need *need)
{
    uint64_t flops = rt_op_flops(p, op), bytes = rt_op_bytes(p, op);
    const rt_backend *f = as_real(d);
    bool yes = real_api->supports(d, p, op, need);
    d->api = f;
    op_now = *op;
    work_now = (double)(flops > bytes ? flops : bytes);
    return yes;
}

/* Computes nothing: only the clock is looked at. */
static int pass_time(rt_dev *d, rt_prog *g, rt_ticket *t, rt_err *e)
{
    (void)d, (void)g, (void)e;
    double seconds = script ? script[ran] : work_now / rate;
    if (ran < 64) {
        timed[ran].op = op_now;
        timed[ran].work = work_now;
        timed[ran].seconds = seconds;
    }
    ran++;
    clock_now += seconds;
    if (t) *t = 0;
    return RT_OK;
}

static rt_dev *open_timed(const double *seconds, double work_rate)
{
    rt_dev *d = open_fake(take_op);
    fake.run = pass_time;
    script = seconds;
    rate = work_rate;
    ran = 0;
    return d;
}

typedef struct programs {
    rt_dev *d;
    rt_space *s;
    rt_plan *p;
    rt_exec *x;
} programs;

static void begin(programs *v, rt_dev *d)
{
    rt_err e = { 0 };
    *v = (programs){ .d = d };
    ok(rt_space_new(&v->s, &e), &e);
    ok(rt_plan_new(&v->p, v->s, "timed", &rt_policy_f32, &e), &e);
}

static double estimate(programs *v)
{
    rt_err e = { 0 };
    rt_exec_span span = { .total = -1 };
    rt_seal_opts dry = { .dry = true };
    ok(rt_exec_seal(&v->x, v->d, (const rt_plan *const *)&v->p, 1, &dry, &e), &e);
    ok(rt_exec_estimate(v->x, NULL, 0, &span, &e), &e);
    rt_exec_free(v->x);
    rt_plan_free(v->p);
    rt_space_free(v->s);
    close_fake(v->d);
    return span.total;
}

static rt_view f32(programs *v, uint32_t rows, uint32_t cols)
{
    return rt_space_buf(v->s, RT_CLASS_STATE, RT_DTYPE_F32, rows, cols, "x");
}

static void scale(programs *v, uint32_t rows) { rt_emit_scale(v->p, f32(v, rows, 8), f32(v, rows, 8), RT_NONE, 2.0f); }

static void expect(double got, double want)
{
    if (fabs(got - want) > 1e-9 * want) fail_msg("%.9g s, expected %.9g", got, want);
}

/* ---- the middle of runs ---- */

static void middle_of_runs(void **state)
{
    (void)state;
    programs v;
    /* The first does not count; of four the mean of the two in the middle. They end when they were 10 ms in all. */
    static const double four[] = { 0.005, 0.005, 0.001, 0.004, 0.002 };
    begin(&v, open_timed(four, 0));
    scale(&v, 4);
    expect(estimate(&v), 0.003);
    assert_int_equal(ran, 5);
    /* Three at least, and the middle one; it took longer than usual in all, and so will a step. */
    static const double three[] = { 0.001, 0.002, 0.012, 0.001 };
    begin(&v, open_timed(three, 0));
    scale(&v, 4);
    expect(estimate(&v), 0.002 * (0.015 / 0.006));
    assert_int_equal(ran, 4);
    /* One that says enough by itself counts, and runs end when they were long enough. */
    static const double one[] = { 0.25 };
    begin(&v, open_timed(one, 0));
    scale(&v, 4);
    expect(estimate(&v), 0.25);
    assert_int_equal(ran, 1);
    static const double few[] = { 0.0625, 0.0625, 0.125 };
    begin(&v, open_timed(few, 0));
    scale(&v, 4);
    expect(estimate(&v), 0.0625 * (0.25 / 0.1875));
    assert_int_equal(ran, 3);
}

/* Two ops that differ are timed each, a third that is like the first is not; what kept runs waiting is over all. */
static void sum_of_ops(void **state)
{
    (void)state;
    programs v;
    static const double both[] = { 0.001, 0.001, 0.002, 0.012, 0.001, 0.004, 0.004, 0.004 };
    begin(&v, open_timed(both, 0));
    scale(&v, 4);
    scale(&v, 6);
    scale(&v, 4);
    expect(estimate(&v), (0.002 + 0.004 + 0.002) * (0.015 + 0.012) / (3 * 0.002 + 3 * 0.004));
    assert_int_equal(ran, 8);
    static const double even[] = { 0.005, 0.003, 0.001, 0.005, 0.002, 0.001, 0.004, 0.004, 0.004 };
    begin(&v, open_timed(even, 0));
    scale(&v, 4);
    scale(&v, 6);
    expect(estimate(&v), (0.0025 + 0.004) * (0.011 + 0.012) / (4 * 0.0025 + 3 * 0.004));
    assert_int_equal(ran, 9);
}

/* ---- pieces ---- */

/* A device whose time is the work: whatever the piece is, the whole comes out. */
static void pieces_of_gemms(void **state)
{
    (void)state;
    enum { M = 4096, N = 8192, K = 2048 };
    programs v;
    /* 1.4e11 flops at 1e12 a second; the first piece, at most 5e8, takes 0.5 ms, so four times as much, twice. */
    begin(&v, open_timed(NULL, 1e12));
    rt_emit_matmul(v.p, f32(&v, M, N), f32(&v, M, K), f32(&v, N, K), RT_NONE, "nt", 1.0f);
    double whole = 2.0 * M * N * K;
    expect(estimate(&v), whole / 1e12);
    double most = 5e8, last = 0;
    uint32_t pieces = 0;
    for (uint32_t i = 0; i < ran && i < 64; i++) {
        const rt_matmul_args *a = &timed[i].op.args.matmul;
        const rt_view *slot = timed[i].op.slot;
        if (timed[i].work != last) {
            if (last) most *= 4;
            pieces++;
            last = timed[i].work;
        }
        /* Edges are cut down to what was asked for, as far as 512 allows, and the operands with them. */
        assert_true(a->M >= 512 && a->N >= 512 && a->K >= 512 && a->M % 32 == 0 && a->N % 32 == 0 && a->K % 32 == 0);
        assert_true(timed[i].work <= most && timed[i].work >= 0.8 * most);
        assert_true(slot[RT_MM_OUT].rows == a->M && slot[RT_MM_OUT].cols == a->N && slot[RT_MM_A].cols == a->K);
        assert_true(slot[RT_MM_B].rows == a->N && slot[RT_MM_B].cols == a->K);
    }
    assert_int_equal(pieces, 3); /* 0.5, 2 and 8 ms: the first that took 4 ms is taken */
}

/* Of codes: scales are cut with the rows that they belong to, also where both operands have as many. */
static void pieces_of_scaled_gemms(void **state)
{
    (void)state;
    enum { M = 4096, N = 4096, K = 2048 };
    const rt_dtype codes = RT_DTYPE_E4M3;
    programs v;
    begin(&v, open_timed(NULL, 1e12));
    rt_view a = rt_space_buf(v.s, RT_CLASS_INPUT, codes, M, K, "a"),
            b = rt_space_buf(v.s, RT_CLASS_INPUT, codes, N, K, "b");
    rt_emit_matmul_scaled(v.p, f32(&v, M, N), a, f32(&v, M, 1), b, f32(&v, N, 1), f32(&v, 1, N));
    expect(estimate(&v), 2.0 * M * N * K / 1e12);
    for (uint32_t i = 0; i < ran && i < 64; i++) {
        const rt_matmul_args *g = &timed[i].op.args.matmul;
        const rt_view *s = timed[i].op.slot;
        assert_true(g->M <= M && g->N < N && g->K >= 512 && g->M % 32 == 0 && g->N % 32 == 0 && g->K % 32 == 0);
        assert_true(s[RT_MMS_OUT].rows == g->M && s[RT_MMS_OUT].cols == g->N);
        assert_true(s[RT_MMS_A].rows == g->M && s[RT_MMS_A].cols == g->K && s[RT_MMS_SA].rows == g->M);
        assert_true(s[RT_MMS_B].rows == g->N && s[RT_MMS_B].cols == g->K && s[RT_MMS_SB].rows == g->N);
        assert_true(s[RT_MMS_BIAS].cols == g->N);
    }
}

/* Rows in blocks stay whole, so as much as was asked for cannot be left out. */
static void pieces_of_quantised_gemms(void **state)
{
    (void)state;
    enum { M = 2048, N = 4096, K = 8192 };
    programs v;
    begin(&v, open_timed(NULL, 1e10));
    rt_view w = rt_space_buf(v.s, RT_CLASS_STATE, RT_DTYPE_Q8_0, N, K, "w");
    rt_emit_matmul(v.p, f32(&v, M, N), f32(&v, M, K), w, RT_NONE, "nt", 1.0f);
    expect(estimate(&v), 2.0 * M * N * K / 1e10);
    const rt_matmul_args *a = &timed[0].op.args.matmul;
    assert_true(a->M == 512 && a->N == 512 && a->K == K);
}

/* The positions of the first piece of attention over B sequences of T. */
static uint32_t attention_piece(uint32_t B, uint32_t T, uint32_t H)
{
    enum { D = 64 };
    programs v;
    rt_attn_shape shape = { .T = T, .H = H, .K = H, .D = D };
    begin(&v, open_timed(NULL, 1e10)); /* the first piece takes long enough */
    rt_view q = f32(&v, B * T, H * D), k = f32(&v, B * T, H * D), u = f32(&v, B * T, H * D), o = f32(&v, B * T, H * D);
    rt_view lse = f32(&v, B * T, H), start = rt_space_buf(v.s, RT_CLASS_STATE, RT_DTYPE_I32, B * T, 1, "start");
    rt_emit_attn_fwd(v.p, o, lse, q, k, u, start, &shape);
    double seconds = estimate(&v);
    const rt_attn_args *a = &timed[0].op.args.attn;
    assert_true(seconds > 0);
    assert_int_equal(a->B, 1); /* no whole sequence is as little as was asked for */
    assert_int_equal(timed[0].op.slot[RT_ATTN_Q].rows, a->B * a->T);
    return a->T;
}

/* Positions are halved until a piece is at most twice what was asked for, 5e8 of 256 T^2 H / 2, but not below 512. */
static void pieces_of_attention(void **state)
{
    (void)state;
    assert_int_equal(attention_piece(4, 4096, 2), 1024);
    assert_int_equal(attention_piece(4, 1884, 2), 1884); /* 1.8 times */
    assert_int_equal(attention_piece(2, 1200, 16), 600);
    assert_int_equal(attention_piece(2, 1200, 64), 600);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(middle_of_runs),         cmocka_unit_test(sum_of_ops),
        cmocka_unit_test(pieces_of_gemms),        cmocka_unit_test(pieces_of_quantised_gemms),
        cmocka_unit_test(pieces_of_scaled_gemms), cmocka_unit_test(pieces_of_attention),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
