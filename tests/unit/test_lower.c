/* test_lower.c - lowering of quantised weights, on a backend that cannot multiply them: expanded whole, by slices,
 * ahead of their products; the numbers are those of a backend that can. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "exec_case.h"
#include "memory_case.h"
#include "num/quant.h"
#include "op/emit.h"
#include "verify/grad.h"

#include <math.h>

static bool refuse_quantised_matmul(rt_dev *d, const rt_plan *p, const rt_op *op, rt_need *need)
{
    if (op->kind == RT_OP_MATMUL && rt_dtype_is_quant(rt_plan_dtype(p, op->slot[RT_MM_B]))) {
        strcpy(need->why_not, "b must be a float here");
        need->recast = 1 + RT_MM_B;
        need->recast_to = rt_plan_dtype(p, op->slot[RT_MM_A]);
        return false;
    }
    const rt_backend *f = as_real(d);
    bool yes = real_api->supports(d, p, op, need);
    d->api = f;
    return yes;
}

static void end(rt_exec *x, rt_plan *p, rt_space *s, rt_dev *d, bool is_fake)
{
    rt_exec_free(x);
    rt_plan_free(p);
    rt_space_free(s);
    if (is_fake)
        close_fake(d);
    else
        d->api->close(d);
}

/* A quantised weight that the backend cannot multiply is expanded into scratch first; the numbers are the same. */
static void quantised_operands_are_lowered(void **state)
{
    enum { M = 3, N = 5, K = 256 };
    rt_err e = { 0 };
    static float a[M * K], w[N * K];
    float y[2][M * N];
    uint8_t blocks[N * 144];
    (void)state;
    for (int i = 0; i < M * K; i++) a[i] = (float)rt_test_normal(1, (uint64_t)i);
    for (int i = 0; i < N * K; i++) w[i] = (float)rt_test_normal(2, (uint64_t)i);
    rt_quant_from_f32(blocks, w, RT_DTYPE_Q4_K, N * K);
    for (int i = 0; i < 2; i++) {
        rt_dev *d = i ? open_fake(refuse_quantised_matmul) : open_dev("ref", 0);
        rt_space *s;
        rt_plan *p;
        rt_exec *x;
        rt_str text = { 0 };
        ok(rt_space_new(&s, &e), &e);
        rt_view va = rt_space_buf(s, RT_CLASS_INPUT, RT_DTYPE_F32, M, K, "a");
        rt_view vw = rt_space_buf(s, RT_CLASS_PARAM, RT_DTYPE_Q4_K, N, K, "w");
        rt_view vy = rt_space_buf(s, RT_CLASS_OUTPUT, RT_DTYPE_F32, M, N, "y");
        ok(rt_plan_new(&p, s, "lowered", &rt_policy_f32, &e), &e);
        rt_emit_matmul(p, vy, va, vw, RT_NONE, "nt", 1.0f);
        ok(rt_exec_seal(&x, d, (const rt_plan *const *)&p, 1, NULL, &e), &e);
        assert_int_equal(rt_exec_plan(x, 0)->nops, i ? 2 : 1);
        ok(rt_exec_print(x, 0, RT_PRINT_TEXT, &text, &e), &e);
        assert_int_equal(strstr(text.data, "dequant") != NULL, i); /* the printer shows both */
        ok(rt_exec_write(x, va, a, sizeof a, &e), &e);
        ok(rt_exec_write(x, vw, blocks, sizeof blocks, &e), &e);
        run(x, 0);
        ok(rt_exec_read(x, vy, y[i], sizeof y[i], &e), &e);
        rt_str_free(&text);
        end(x, p, s, d, i);
    }
    assert_memory_equal(y[0], y[1], sizeof y[0]);
}

/* A large weight is expanded by slices that share their scratch: 160 MiB of 170,000 rows of 256 values are 163,840. */
static void large_weights_are_expanded_by_slices(void **state)
{
    enum { N = 170000, K = 256, SLICE = 163840 };
    rt_err e = { 0 };
    static float a[K], y[2][N], bias[N];
    (void)state;
    uint8_t *blocks = rt_alloc(N * 144, 16);
    for (int i = 0; i < K; i++) a[i] = (float)rt_test_normal(1, (uint64_t)i);
    for (int i = 0; i < N; i++) bias[i] = (float)i;
    for (uint32_t i = 0; i < N * 144; i++) blocks[i] = (uint8_t)(i * 2654435761u >> 27); /* small scales */
    for (int i = 0; i < 2; i++) {
        rt_dev *d = i ? open_fake(refuse_quantised_matmul) : open_dev("ref", 0);
        rt_space *s;
        rt_plan *p;
        rt_exec *x;
        ok(rt_space_new(&s, &e), &e);
        rt_view va = rt_space_buf(s, RT_CLASS_INPUT, RT_DTYPE_F32, 1, K, "a");
        rt_view vw = rt_space_buf(s, RT_CLASS_PARAM, RT_DTYPE_Q4_K, N, K, "w");
        rt_view vb = rt_space_buf(s, RT_CLASS_PARAM, RT_DTYPE_F32, 1, N, "bias");
        rt_view vy = rt_space_buf(s, RT_CLASS_OUTPUT, RT_DTYPE_F32, 1, N, "y");
        ok(rt_plan_new(&p, s, "sliced", &rt_policy_f32, &e), &e);
        rt_emit_matmul(p, vy, va, vw, vb, "nt", 0.5f);
        ok(rt_exec_seal(&x, d, (const rt_plan *const *)&p, 1, NULL, &e), &e);
        if (i) {
            const rt_plan *low = rt_exec_plan(x, 0);
            assert_int_equal(low->nops, 4); /* expand, multiply, twice */
            assert_int_equal(low->ops[1].args.matmul.N, SLICE);
            assert_int_equal(low->ops[3].args.matmul.N, N - SLICE);
            assert_int_equal(rt_plan_buffer(low, low->ops[1].slot[RT_MM_B])->bytes, 160 << 20);
            assert_true(rt_view_bytes(low, low->ops[3].slot[RT_MM_B]) < 160 << 20);
            uint32_t first = low->ops[1].slot[RT_MM_B].buf & ~RT_ACT_BIT,
                     second = low->ops[3].slot[RT_MM_B].buf & ~RT_ACT_BIT;
            assert_true(x->prog[0].life[first].last < x->prog[0].life[second].first);
        }
        ok(rt_exec_write(x, va, a, sizeof a, &e), &e);
        ok(rt_exec_write(x, vw, blocks, N * 144, &e), &e);
        ok(rt_exec_write(x, vb, bias, sizeof bias, &e), &e);
        run(x, 0);
        ok(rt_exec_read(x, vy, y[i], sizeof y[i], &e), &e);
        end(x, p, s, d, i);
    }
    assert_memory_equal(y[0], y[1], sizeof y[0]);
    rt_free(blocks);
}

/* ---- backward through a large weight: y = g w, by slices of w that are parts of the sum ---- */

enum { TERMS = 330000, COLS = 256, FIRST_PART = 163840 };

/* y (COLS) as ref has it, or as a backend does that cannot multiply the weight. */
static void sum_of_terms(float *y, const float *g, const uint8_t *blocks, bool refuses, rt_dtype t)
{
    rt_err e = { 0 };
    rt_dev *d = refuses ? open_fake(refuse_quantised_matmul) : open_dev("ref", 0);
    rt_space *s;
    rt_plan *p;
    rt_exec *x;
    float bias[COLS];
    uint8_t narrow[COLS * 4], *in = rt_alloc(TERMS * sizeof(float), 16);
    for (int i = 0; i < COLS; i++) bias[i] = (float)i * 1000;
    ok(rt_space_new(&s, &e), &e);
    rt_view vg = rt_space_buf(s, RT_CLASS_INPUT, t, 1, TERMS, "g");
    rt_view vw = rt_space_buf(s, RT_CLASS_PARAM, RT_DTYPE_Q4_K, TERMS, COLS, "w");
    rt_view vb = rt_space_buf(s, RT_CLASS_PARAM, RT_DTYPE_F32, 1, COLS, "bias");
    rt_view vy = rt_space_buf(s, RT_CLASS_OUTPUT, t, 1, COLS, "y");
    ok(rt_plan_new(&p, s, "parts", t == RT_DTYPE_F32 ? &rt_policy_f32 : &rt_policy_bf16, &e), &e);
    rt_emit_matmul(p, vy, vg, vw, vb, "nn", 0.5f);
    ok(rt_exec_seal(&x, d, (const rt_plan *const *)&p, 1, NULL, &e), &e);
    if (refuses) { /* dequantise and multiply for each slice of 160 MiB; in 16 bits they have twice the rows, and one
                    * cast
                    */
        const rt_plan *low = rt_exec_plan(x, 0);
        bool wide = t == RT_DTYPE_F32;
        assert_int_equal(low->nops, wide ? 6 : 5);
        assert_int_equal(low->ops[1].args.matmul.K, wide ? FIRST_PART : 2 * FIRST_PART);
        assert_int_equal(rt_plan_dtype(low, low->ops[3].slot[RT_MM_OUT]), RT_DTYPE_F32);
        assert_true(low->ops[3].acc >> RT_MM_OUT & 1 && !low->ops[3].slot[RT_MM_BIAS].buf);
    }
    rt_float_from_f32(in, g, t, TERMS);
    ok(rt_exec_write(x, vg, in, rt_dtype_bytes(t, TERMS), &e), &e);
    ok(rt_exec_write(x, vw, blocks, (uint64_t)TERMS * 144, &e), &e);
    ok(rt_exec_write(x, vb, bias, sizeof bias, &e), &e);
    run(x, 0);
    ok(rt_exec_read(x, vy, narrow, rt_dtype_bytes(t, COLS), &e), &e);
    rt_float_to_f32(y, narrow, t, COLS);
    rt_free(in);
    end(x, p, s, d, refuses);
}

static void large_weights_are_summed_by_slices(void **state)
{
    (void)state;
    float y[2][COLS], *g = rt_alloc(TERMS * sizeof *g, 16);
    uint8_t *blocks = rt_alloc((uint64_t)TERMS * 144, 16);
    for (int i = 0; i < TERMS; i++) g[i] = (float)rt_test_normal(1, (uint64_t)i);
    for (uint32_t i = 0; i < TERMS * 144u; i++) blocks[i] = (uint8_t)(i * 2654435761u >> 27); /* small scales */
    for (int bf16 = 0; bf16 < 2; bf16++) {
        rt_dtype t = bf16 ? RT_DTYPE_BF16 : RT_DTYPE_F32;
        for (int i = 0; i < 2; i++) sum_of_terms(y[i], g, blocks, i, t);
        /* three roundings to f32 in the place of one, and one to bf16 */
        for (int i = 0; i < COLS; i++)
            assert_true(fabsf(y[0][i] - y[1][i]) <= fabsf(y[0][i]) * (bf16 ? 0x1p-7f : 0x1p-21f) + 0.01f);
    }
    rt_free(g);
    rt_free(blocks);
}

/* ---- expansions ahead of their products ---- */

/* Products y[i] = a[i] w[i]' as the fake backend runs them: D for an expansion, M for a product, in order. */
enum { PRODUCTS = 6, WIDTH = 256 };
typedef struct products {
    uint32_t n;
    rt_dtype type[PRODUCTS];
    uint32_t rows[PRODUCTS]; /* of a weight */
    bool other[PRODUCTS];    /* a is another one */
} products;

static rt_plan *record_products(rt_space *s, const products *c, rt_view a[2], rt_view *w, rt_view *y, rt_err *e)
{
    rt_plan *p = NULL;
    for (int i = 0; i < 2; i++) a[i] = rt_space_buf(s, RT_CLASS_INPUT, RT_DTYPE_F32, 2, WIDTH, "a");
    for (uint32_t i = 0; i < c->n; i++) {
        w[i] = rt_space_buf(s, RT_CLASS_PARAM, c->type[i], c->rows[i], WIDTH, "w");
        y[i] = rt_space_buf(s, RT_CLASS_OUTPUT, RT_DTYPE_F32, 2, c->rows[i], "y");
    }
    if (rt_plan_new(&p, s, "products", &rt_policy_f32, e) < 0) return NULL;
    for (uint32_t i = 0; i < c->n; i++) rt_emit_matmul(p, y[i], a[c->other[i]], w[i], RT_NONE, "nt", 1.0f);
    return p;
}

static const char *lowered_order(const products *c)
{
    static char order[4 * PRODUCTS + 1];
    rt_err e = { 0 };
    rt_space *s;
    rt_exec *x;
    rt_view a[2], w[PRODUCTS], y[PRODUCTS];
    rt_dev *d = open_fake(refuse_quantised_matmul);
    ok(rt_space_new(&s, &e), &e);
    rt_plan *p = record_products(s, c, a, w, y, &e);
    ok(rt_exec_seal(&x, d, (const rt_plan *const *)&p, 1, &(rt_seal_opts){ .dry = true }, &e), &e);
    const rt_plan *low = rt_exec_plan(x, 0);
    assert_true(low->nops < sizeof order);
    for (uint32_t t = 0, m = 0; t < low->nops; t++) {
        bool product = low->ops[t].kind == RT_OP_MATMUL;
        order[t] = product ? 'M' : 'D';
        order[t + 1] = 0;
        if (product) assert_int_equal(low->ops[t].slot[RT_MM_OUT].buf, y[m++].buf); /* their own order is kept */
    }
    end(x, p, s, d, true);
    return order;
}

static void neighbours_are_expanded_together(void **state)
{
    enum { MIB = 1024 }; /* rows of 256 f32 */
    const rt_dtype Q4 = RT_DTYPE_Q4_K, Q6 = RT_DTYPE_Q6_K, F = RT_DTYPE_F32;
    (void)state;
    assert_string_equal(lowered_order(&(products){ 3, { Q4, Q4, Q6 }, { 7, 3, 3 }, { 0 } }), "DDDMMM");
    /* another operand, another kind of weight */
    assert_string_equal(lowered_order(&(products){ 4, { Q4, Q6, Q4, Q6 }, { 7, 3, 3, 3 }, { 0, 0, 1, 0 } }),
                        "DDMMDMDM");
    assert_string_equal(lowered_order(&(products){ 4, { Q4, F, Q4, Q6 }, { 7, 3, 3, 3 }, { 0 } }), "DMMDDMM");
    /* no more than four, and no more than 160 MiB; one alone may have more, by slices */
    assert_string_equal(lowered_order(&(products){ 6, { Q4, Q4, Q4, Q4, Q4, Q4 }, { 1, 1, 1, 1, 1, 1 }, { 0 } }),
                        "DDDDMMMMDDMM");
    assert_string_equal(lowered_order(&(products){ 3, { Q4, Q4, Q4 }, { 80 * MIB, 80 * MIB, 1 }, { 0 } }), "DDMMDM");
    assert_string_equal(lowered_order(&(products){ 2, { Q4, Q4 }, { 80 * MIB, 80 * MIB + 1 }, { 0 } }), "DMDM");
    assert_string_equal(lowered_order(&(products){ 3, { Q4, Q4, Q4 }, { 1, 160 * MIB, 1 }, { 0 } }), "DMDMDM");
}

static void fill_products(rt_exec *x, const products *c, const rt_view *a, const rt_view *w)
{
    rt_err e = { 0 };
    static float f[8 * WIDTH];
    static uint8_t blocks[8 * WIDTH * 4];
    for (uint32_t i = 0; i < 2 + c->n; i++) {
        rt_view v = i < 2 ? a[i] : w[i - 2];
        rt_dtype d = i < 2 ? RT_DTYPE_F32 : c->type[i - 2];
        assert_true(v.rows <= 8);
        for (uint32_t k = 0; k < v.rows * WIDTH; k++) f[k] = (float)rt_test_normal(1 + i, k);
        if (d != RT_DTYPE_F32) rt_quant_from_f32(blocks, f, d, v.rows * WIDTH);
        ok(rt_exec_write(x, v, d == RT_DTYPE_F32 ? (void *)f : blocks, rt_dtype_bytes(d, v.rows * WIDTH), &e), &e);
    }
}

/* The numbers are those of a backend that takes quantised weights, and there nothing is moved; with poison too, which
 * shows a scratch that is used after its last use. */
static void expansions_change_no_number(void **state)
{
    static const products c = {
        4, { RT_DTYPE_Q4_K, RT_DTYPE_Q6_K, RT_DTYPE_Q4_K, RT_DTYPE_Q6_K }, { 7, 3, 5, 2 }, { false, false, false, true }
    };
    static float got[2][4][2 * 7];
    rt_err e = { 0 };
    (void)state;
    for (int i = 0; i < 2; i++) {
        rt_dev *d = i ? open_fake(refuse_quantised_matmul) : open_dev("ref", 0);
        rt_view a[2], w[PRODUCTS], y[PRODUCTS];
        rt_space *s;
        rt_exec *x;
        ok(rt_space_new(&s, &e), &e);
        rt_plan *p = record_products(s, &c, a, w, y, &e);
        ok(rt_exec_seal(&x, d, (const rt_plan *const *)&p, 1, &(rt_seal_opts){ .poison = true, .guards = true }, &e),
           &e);
        if (!i) assert_int_equal(rt_exec_plan(x, 0)->nops, c.n);
        fill_products(x, &c, a, w);
        run(x, 0);
        for (uint32_t k = 0; k < c.n; k++) ok(rt_exec_read(x, y[k], got[i][k], 8 * c.rows[k], &e), &e);
        ok(rt_exec_check(x, &e), &e);
        end(x, p, s, d, i);
    }
    assert_memory_equal(got[0], got[1], sizeof got[0]);
}

static int seal_products(void *ctx, rt_err *e)
{
    int rc;
    rt_space *s = NULL;
    rt_plan *p = NULL;
    rt_exec *x = NULL;
    rt_view a[2], w[PRODUCTS], y[PRODUCTS];
    RT_TRY(rt_space_new(&s, e));
    p = record_products(s, &(products){ 2, { RT_DTYPE_Q4_K, RT_DTYPE_Q6_K }, { 7, 3 }, { 0 } }, a, w, y, e);
    if (!p) RT_TRY(e->status);
    RT_TRY(rt_exec_seal(&x, ctx, (const rt_plan *const *)&p, 1, &(rt_seal_opts){ .poison = true }, e));
out:
    rt_exec_free(x);
    rt_plan_free(p);
    rt_space_free(s);
    return rc;
}

static bool ask_for_scratch(rt_dev *d, const rt_plan *p, const rt_op *op, rt_need *need)
{
    const rt_backend *f = as_real(d);
    bool yes = real_api->supports(d, p, op, need);
    d->api = f;
    need->work_bytes = op->kind == RT_OP_SCALE ? 5000 : 0;
    need->work_stays = op->kind == RT_OP_SCALE && op == p->ops; /* the first */
    return yes;
}

/* Scratch that an op asks for is placed in whole rows of bytes, for as long as the op says. */
static void scratch_stays_where_it_is_asked_to(void **state)
{
    rt_err e = { 0 };
    rt_dev *d = open_fake(ask_for_scratch);
    rt_space *s;
    rt_plan *p;
    rt_exec *x;
    (void)state;
    ok(rt_space_new(&s, &e), &e);
    rt_view v[3];
    for (int i = 0; i < 3; i++) v[i] = rt_space_buf(s, RT_CLASS_STATE, RT_DTYPE_F32, 4, 8, "v");
    ok(rt_plan_new(&p, s, "scratch", &rt_policy_f32, &e), &e);
    rt_emit_scale(p, v[1], v[0], RT_NONE, 2.0f);
    rt_emit_scale(p, v[2], v[1], RT_NONE, 3.0f);
    ok(rt_exec_seal(&x, d, (const rt_plan *const *)&p, 1, NULL, &e), &e);
    const rt_plan *q = rt_exec_plan(x, 0);
    assert_int_equal(q->nops, 2);
    assert_true(q->ops[0].work_stays && !q->ops[1].work_stays);
    assert_true(q->ops[0].work.rows == 2 && q->ops[0].work.cols == 4096);
    end(x, p, s, d, true);
}

static void lowering_survives_want_of_memory(void **state)
{
    (void)state;
    rt_dev *d = open_fake(refuse_quantised_matmul);
    fail_each(seal_products, d, 0);
    close_fake(d);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(quantised_operands_are_lowered),     cmocka_unit_test(large_weights_are_expanded_by_slices),
        cmocka_unit_test(large_weights_are_summed_by_slices), cmocka_unit_test(neighbours_are_expanded_together),
        cmocka_unit_test(expansions_change_no_number),        cmocka_unit_test(lowering_survives_want_of_memory),
        cmocka_unit_test(scratch_stays_where_it_is_asked_to),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
