/* test_verify_large.c - the cases of more than 2^31 elements, here with fewer: that they pass on a sound backend, that
 * every memory-bound op has one, and that they find what goes wrong only far from the beginning. */
#include "backend/host.h"
#include "memory_case.h"
#include "verify/op_case.h"

#include <stdio.h>
#include <string.h>

/* The largest patterns are repeated four times, most some seventeen times. */
enum { ELEMENTS = 1500000 };

static const rt_backend *find_backend(const char *name)
{
    const rt_backend *b;
    assert_int_equal(rt_backend_find(name, &b, NULL), RT_OK);
    return b;
}

/* ---- what there is ---- */

typedef struct heard {
    uint32_t results;
    char text[300]; /* of the last that did not pass */
} heard;

static void hear(void *ctx, const rt_case_result *r)
{
    heard *h = ctx;
    h->results++;
    if (r->outcome == RT_CASE_PASS) return;
    snprintf(h->text, sizeof h->text, "%s", r->text);
}

static void test_all_pass(void **state)
{
    rt_verify_totals t;
    rt_err e = { 0 };
    heard h = { 0 };
    rt_verify_opts o = { .backend = "cpu", .large = true, .elements = ELEMENTS, .report = hear, .ctx = &h };
    (void)state;
    if (rt_verify_run(&o, &t, &e) < 0) fail_msg("%s", e.text);
    if (t.failed || t.unsupported) fail_msg("%s", h.text);
    assert_int_equal(t.passed, h.results);
    assert_true(t.passed > 20);
}

/* Products and attention are bound by arithmetic, and clip has three numbers. */
static bool is_memory_bound(rt_op_kind k)
{
    return k != RT_OP_MATMUL && k != RT_OP_MATMUL_SCALED && k != RT_OP_MATMUL_INT8 && k != RT_OP_ATTN_FWD &&
           k != RT_OP_ATTN_BWD && k != RT_OP_ATTN_DECODE && k != RT_OP_CLIP && k != RT_OP_REDUCE_SCATTER &&
           k != RT_OP_ALL_GATHER;
}

static void test_every_op_has_one(void **state)
{
    rt_case_list l;
    rt_err e = { 0 };
    (void)state;
    if (rt_case_list_all(&l, &e) < 0) fail_msg("%s", e.text);
    for (int k = 0; k < RT_OP_COUNT; k++) {
        uint32_t n = 0;
        for (uint32_t i = 0; i < l.n; i++) {
            const rt_op_case *c = l.cases[i].data;
            if (l.cases[i].large && c->set->kind == (rt_op_kind)k) n++;
        }
        if (n != is_memory_bound((rt_op_kind)k)) fail_msg("%s has %u large cases", rt_op_name((rt_op_kind)k), n);
    }
    rt_case_list_free(&l);
}

/* A pattern that were repeated every 2^n elements or bytes would look right where an index has wrapped. */
static void test_patterns(void **state)
{
    rt_case_list l;
    (void)state;
    assert_int_equal(rt_case_list_all(&l, NULL), RT_OK);
    for (uint32_t i = 0; i < l.n; i++) {
        if (!l.cases[i].large) continue;
        uint32_t rows = ((const rt_op_case *)l.cases[i].data)->dim[0];
        for (uint32_t d = 2; d < rows; d++) assert_true(rows % d != 0);
        assert_true(rows > 2);
    }
    rt_case_list_free(&l);
}

static void count_names(void *ctx, const char *name, const char *op)
{
    uint32_t *n = ctx;
    (void)op;
    n[strstr(name, "/repeated") != NULL]++;
}

static void test_selection(void **state)
{
    uint32_t n[2] = { 0 };
    rt_verify_totals t;
    rt_err e = { 0 };
    (void)state;
    assert_int_equal(rt_verify_list(&(rt_verify_opts){ .large = true }, count_names, n, &e), RT_OK);
    assert_true(n[0] == 0 && n[1] > 20);
    n[1] = 0;
    assert_int_equal(rt_verify_list(&(rt_verify_opts){ 0 }, count_names, n, &e), RT_OK);
    assert_true(n[0] > 1500 && n[1] == 0);
    assert_int_equal(rt_verify_run(&(rt_verify_opts){ .large = true, .op = "matmul" }, &t, &e), RT_USAGE);
    assert_non_null(strstr(e.text, "no large case"));
}

/* ---- a backend that is right at the beginning: ref in double behind a mask ---- */

typedef enum mischief { HONEST, WRAPS, LAST_ONE, HOLE, HALF_A_SUM, TOUCHES_INPUT, OUTSIDE, UNSTABLE } mischief;
static struct {
    mischief what;
    uint32_t hole; /* repetition that has it */
    rt_bound_op op;
    rt_prog *prog;
    uint32_t runs;
} fake;
static rt_backend fake_api;

static int fake_seal(rt_dev *d, const rt_bound_op *ops, uint32_t nops, rt_prog **out, rt_err *e)
{
    int rc = find_backend("ref")->seal(d, ops, nops, out, e);
    for (uint32_t i = 0; i < nops; i++)
        if (ops[i].kind == RT_OP_ADD || ops[i].kind == RT_OP_BIAS_GRAD) {
            fake.op = ops[i];
            fake.prog = *out;
        }
    return rc;
}

static uint16_t *element(const rt_operand *o, uint64_t row, uint64_t col)
{
    return (uint16_t *)rt_host_ptr(o) + row * o->stride + col;
}

/* After the op: rows of bf16 (add), or a row of sums in f32. */
static void do_harm(void)
{
    const rt_operand *y = &fake.op.slot[RT_ROWS_Y], *x = &fake.op.slot[RT_ROWS_X];
    uint32_t last = y->rows - 1, wrap = 256, pattern = 61;
    fake.runs++;
    switch (fake.what) {
    case WRAPS: /* as if an index had lost a bit in the last quarter */
        for (uint32_t r = last; r > last / 4 * 3; r--)
            memcpy(element(y, r, 0), element(y, r - wrap, 0), y->cols * sizeof(uint16_t));
        break;
    case LAST_ONE: *element(y, last, y->cols - 1) ^= 0x40; break;
    case HOLE: *element(y, (uint64_t)fake.hole * pattern + 7, 11) = 0xffff; break;
    case HALF_A_SUM:
        for (uint32_t k = 0; k < y->cols; k++) ((float *)rt_host_ptr(y))[k] *= 0.9f;
        break;
    case TOUCHES_INPUT: *element(x, x->rows - 1, x->cols - 1) ^= 1; break;
    case OUTSIDE: *element(y, last, y->cols) ^= 1; break;
    case UNSTABLE: *element(y, last, 3) ^= fake.runs == 2; break;
    case HONEST: break;
    }
}

static int fake_run(rt_dev *d, rt_prog *g, rt_ticket *t, rt_err *e)
{
    int rc = find_backend("ref")->run(d, g, t, e);
    if (g == fake.prog) do_harm();
    return rc;
}

static int fake_open(rt_dev **out, int index, const rt_dev_opts *o, rt_err *e)
{
    int rc = find_backend("ref")->open(out, index, o, e);
    if (rc >= 0) (*out)->api = &fake_api;
    return rc;
}

static void make_fake(mischief what)
{
    fake_api = *find_backend("ref");
    fake_api.name = "fake";
    fake_api.open = fake_open;
    fake_api.seal = fake_seal;
    fake_api.run = fake_run;
    fake.what = what;
    fake.prog = NULL;
    fake.runs = 0;
}

static rt_verify_totals run_fake(mischief what, const char *op, uint64_t limit, heard *h)
{
    rt_verify_totals t;
    rt_err e = { 0 };
    make_fake(what);
    *h = (heard){ 0 };
    rt_verify_opts o = {
        .api = &fake_api, .op = op, .large = true, .elements = ELEMENTS, .memory_limit = limit, .report = hear, .ctx = h
    };
    if (rt_verify_run(&o, &t, &e) < 0) fail_msg("%s", e.text);
    assert_int_equal(h->results, 1);
    return t;
}

static void expect(mischief what, const char *op, const char *says)
{
    heard h;
    rt_verify_totals t = run_fake(what, op, 0, &h);
    assert_int_equal(t.failed, says != NULL);
    if (says && !strstr(h.text, says)) fail_msg("'%s' lacks '%s'", h.text, says);
}

static void test_misbehaving_backend(void **state)
{
    (void)state;
    expect(HONEST, "add", NULL);
    expect(WRAPS, "add", "from row");
    expect(LAST_ONE, "add", "from row");
    expect(TOUCHES_INPUT, "add", "was changed");
    expect(OUTSIDE, "add", "outside buffer");
    expect(UNSTABLE, "add", "second run");
    expect(HONEST, "bias_grad", NULL);
    expect(HALF_A_SUM, "bias_grad", "output 'db'");
}

/* A hole anywhere is found, also where no repetition is looked at by itself. */
static void test_hole(void **state)
{
    uint32_t all = ELEMENTS / (61 * 1536) + 2, by_sum = 0;
    (void)state;
    for (fake.hole = 0; fake.hole < all; fake.hole++) {
        heard h;
        assert_int_equal(run_fake(HOLE, "add", 0, &h).failed, 1);
        by_sum += strstr(h.text, "sum of squares of all") != NULL;
    }
    assert_true(by_sum >= 3 && by_sum < all);
}

static void test_short_of_memory(void **state)
{
    heard h;
    rt_verify_totals t = run_fake(HONEST, "add", 1 << 20, &h);
    (void)state;
    assert_int_equal(t.unsupported, 1);
    assert_int_equal(t.passed + t.failed, 0);
    assert_non_null(strstr(h.text, "limit is 1.00 MiB"));
}

/* `ref` in float adds up one by one: its sums over so many rows mean nothing, and nothing is said of them. */
static void test_serial_backend(void **state)
{
    rt_verify_totals t;
    rt_err e = { 0 };
    rt_verify_opts o = { .backend = "ref", .large = true, .elements = 1 };
    (void)state;
    assert_int_equal(rt_verify_run(&o, &t, &e), RT_OK);
    assert_true(t.unsupported > 20 && t.passed + t.failed == 0);
}

/* ---- memory of the host: every allocation of a case fails in turn ---- */

static int run_case(void *ctx, rt_err *e)
{
    rt_verify_env env = { 0 };
    rt_verify_opts o = { .api = &fake_api, .large = true, .elements = 1 };
    rt_case_result r = { .outcome = RT_CASE_FAIL };
    int rc = rt_verify_env_open(&env, &o, e);
    if (rc >= 0) rc = rt_case_run(ctx, &env, &r, e);
    rt_verify_env_close(&env);
    if (rc < 0 || r.outcome == RT_CASE_PASS) return rc;
    /* what seal has no memory for is told as a case that does not fit */
    return rt_fail(e, r.outcome == RT_CASE_UNSUPPORTED ? RT_NOMEM : RT_INTERNAL, "%s", r.text);
}

static void test_scarce_memory(void **state)
{
    rt_case_list l;
    uint32_t k = 0;
    (void)state;
    make_fake(HONEST);
    assert_int_equal(rt_case_list_all(&l, NULL), RT_OK);
    while (!l.cases[k].large || strcmp(l.cases[k].op, "fill") != 0) k++;
    fail_each(run_case, &l.cases[k], 0);
    rt_case_list_free(&l);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_all_pass),
        cmocka_unit_test(test_every_op_has_one),
        cmocka_unit_test(test_patterns),
        cmocka_unit_test(test_selection),
        cmocka_unit_test(test_hole),
        cmocka_unit_test(test_misbehaving_backend),
        cmocka_unit_test(test_short_of_memory),
        cmocka_unit_test(test_serial_backend),
        cmocka_unit_test(test_scarce_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
