/* test_verify.c - the verifier verified: its comparison, its coverage, its inputs, and that it finds what is wrong with
 * a backend. Negative controls throughout: a check that cannot fail proves nothing. */
#include "backend/host.h"
#include "base/rng.h"
#include "verify/compare.h"
#include "verify/op_case.h"
#include "verify/tolerance.h"
#include "verify/values.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static const rt_backend *find_backend(const char *name)
{
    const rt_backend *b;
    assert_int_equal(rt_backend_find(name, &b, NULL), RT_OK);
    return b;
}

/* ---- comparison ---- */

enum { ROWS = 7, COLS = 300 };

typedef struct numbers {
    double got[ROWS * COLS], want[ROWS * COLS], scale[ROWS * COLS];
} numbers;

/* want: any numbers; got: those, stored as d; scale: |want|. */
static rt_compare make_numbers(numbers *n, rt_dtype d)
{
    rt_fill f = { .x = n->want, .rows = ROWS, .cols = COLS, .seed = 5, .stream = 1, .q = 1 };
    uint8_t stored[ROWS * COLS * 8];
    rt_fill_normal(NULL, &f);
    rt_float_from_f64(stored, n->want, d, ROWS * COLS);
    rt_float_to_f64(n->got, stored, d, ROWS * COLS);
    for (int i = 0; i < ROWS * COLS; i++) n->scale[i] = fabs(n->want[i]);
    return (rt_compare){ n->got, n->want, n->scale, ROWS, COLS, d, 2, 1 };
}

static const rt_dtype dtypes[] = { RT_DTYPE_F32, RT_DTYPE_BF16, RT_DTYPE_F16 };

static void test_half_ulp(void **state)
{
    (void)state;
    assert_true(rt_half_ulp(1.0, RT_DTYPE_F32) == 0x1p-24);
    assert_true(rt_half_ulp(-1.99, RT_DTYPE_F32) == 0x1p-24);
    assert_true(rt_half_ulp(2.0, RT_DTYPE_F32) == 0x1p-23);
    assert_true(rt_half_ulp(1.0, RT_DTYPE_BF16) == 0x1p-8);
    assert_true(rt_half_ulp(1.0, RT_DTYPE_F16) == 0x1p-11);
    assert_true(rt_half_ulp(0.0, RT_DTYPE_F32) == 0x1p-150);
    assert_true(rt_half_ulp(1e-6, RT_DTYPE_F16) == 0x1p-25);
    assert_true(rt_half_ulp(1e-40, RT_DTYPE_BF16) == 0x1p-134);
    assert_true(rt_half_ulp(1.0, RT_DTYPE_F64) == 0);
}

static void test_best_rounding_passes(void **state)
{
    numbers n;
    rt_verdict v;
    (void)state;
    for (int i = 0; i < 3; i++) {
        rt_compare c = make_numbers(&n, dtypes[i]);
        assert_true(rt_compare_floats(&c, &v));
        c.limit = c.rms = 0;
        assert_true(rt_compare_floats(&c, &v));
        assert_true(v.error <= 1 && v.error > 0.9);
    }
}

static void test_one_element_off(void **state)
{
    numbers n;
    rt_verdict v;
    (void)state;
    for (int i = 0; i < 3; i++) {
        rt_compare c = make_numbers(&n, dtypes[i]);
        int at = 3 * COLS + 17;
        double allowed = rt_half_ulp(n.want[at], dtypes[i]) + 2 * RT_ROUNDING_UNIT * n.scale[at];
        n.got[at] = n.want[at] + 0.99 * allowed;
        c.rms = 1e9;
        assert_true(rt_compare_floats(&c, &v));
        n.got[at] = n.want[at] + 2 * allowed;
        assert_false(rt_compare_floats(&c, &v));
        assert_int_equal(v.row, 3);
        assert_int_equal(v.col, 17);
        assert_true(v.error > 1.9 && v.error < 2.1);
        char text[200];
        rt_verdict_text(&v, text, sizeof text);
        assert_non_null(strstr(text, "row 3, column 17"));
    }
}

static void test_not_finite(void **state)
{
    numbers n;
    rt_verdict v;
    (void)state;
    static const double kinds[] = { 1.5, NAN, INFINITY, -INFINITY };
    for (int want = 0; want < 4; want++)
        for (int got = 0; got < 4; got++) {
            rt_compare c = make_numbers(&n, RT_DTYPE_F32);
            n.want[5] = kinds[want];
            n.got[5] = kinds[got];
            n.scale[5] = fabs(kinds[want]);
            assert_int_equal(rt_compare_floats(&c, &v), want == got);
        }
}

/* A number that the dtype cannot hold becomes the infinity of its sign. */
static void test_overflow(void **state)
{
    double got = INFINITY, want = 65520, scale = want;
    rt_verdict v;
    rt_compare c = { &got, &want, &scale, 1, 1, RT_DTYPE_F16, 0, 0 };
    (void)state;
    assert_true(rt_compare_floats(&c, &v));
    got = -INFINITY;
    assert_false(rt_compare_floats(&c, &v));
    got = INFINITY;
    want = 65000;
    assert_false(rt_compare_floats(&c, &v));
}

static void test_swapped_rows(void **state)
{
    numbers n;
    rt_verdict v;
    (void)state;
    for (int i = 0; i < 3; i++) {
        rt_compare c = make_numbers(&n, dtypes[i]);
        double row[COLS];
        memcpy(row, n.got, sizeof row);
        memcpy(n.got, n.got + COLS, sizeof row);
        memcpy(n.got + COLS, row, sizeof row);
        assert_false(rt_compare_floats(&c, &v));
    }
}

/* Every element is within its own limit, but all are off to the same side. */
static void test_bias(void **state)
{
    numbers n;
    rt_verdict v;
    rt_compare c = make_numbers(&n, RT_DTYPE_F32);
    (void)state;
    c.limit = 8;
    c.rms = 0.5;
    assert_true(rt_compare_floats(&c, &v));
    for (int i = 0; i < ROWS * COLS; i++) n.got[i] = n.want[i] + 6 * RT_ROUNDING_UNIT * n.scale[i];
    assert_false(rt_compare_floats(&c, &v));
    assert_true(v.error <= 1 && v.rms_error > 1);
    char text[200];
    rt_verdict_text(&v, text, sizeof text);
    assert_non_null(strstr(text, "sum of squares"));
}

/* bf16 by cutting bits off instead of rounding: the classical fault. */
static void test_truncation(void **state)
{
    numbers n;
    rt_verdict v;
    rt_compare c = make_numbers(&n, RT_DTYPE_BF16);
    (void)state;
    for (int i = 0; i < ROWS * COLS; i++)
        n.got[i] = (double)rt_bf16_to_f32((uint16_t)(rt_f32_bits((float)n.want[i]) >> 16));
    assert_false(rt_compare_floats(&c, &v));
}

static void test_unpromised(void **state)
{
    double got[2] = { 7, 7 }, want[2] = { 1, NAN }, scale[2] = { RT_SCALE_ANY, RT_SCALE_ANY };
    rt_verdict v;
    rt_compare c = { got, want, scale, 1, 2, RT_DTYPE_F32, 1, 1 };
    (void)state;
    assert_true(rt_compare_floats(&c, &v));
    scale[0] = scale[1] = RT_SCALE_FINITENESS;
    assert_false(rt_compare_floats(&c, &v));
    got[1] = -INFINITY;
    assert_true(rt_compare_floats(&c, &v));
}

/* ---- the tolerance table ---- */

static void test_tolerances(void **state)
{
    uint32_t n, outputs = 0;
    const rt_tolerance *t = rt_tolerance_table(&n);
    (void)state;
    for (uint32_t i = 0; i < n; i++) {
        assert_true(t[i].reason[0] != 0);
        assert_true(t[i].limit >= 0 && t[i].limit <= 16 && t[i].rms <= t[i].limit);
        assert_true(rt_op_specs[t[i].op].slot[t[i].slot].access != RT_READ);
        assert_ptr_equal(rt_tolerance_find(t[i].op, t[i].slot), &t[i]);
        assert_true((t[i].scale == RT_SCALE_TERMS) <= (rt_op_sets[t[i].op]->terms != NULL));
        assert_non_null(rt_scale_text(t[i].scale));
    }
    for (int k = 0; k < RT_OP_COUNT; k++)
        for (uint32_t s = 0; s < rt_op_slots((rt_op_kind)k); s++) {
            if (rt_op_specs[k].slot[s].access == RT_READ) continue;
            outputs++;
            assert_non_null(rt_tolerance_find((rt_op_kind)k, s));
        }
    assert_int_equal(n, outputs);
}

/* ---- signatures ---- */

static bool is_listed(const rt_signature *list, uint32_t n, rt_op_kind kind, const rt_signature *s)
{
    for (uint32_t i = 0; i < n; i++) {
        bool same = list[i].absent == s->absent;
        for (uint32_t k = 0; k < rt_op_slots(kind); k++)
            same = same && (s->absent >> k & 1 || list[i].dtype[k] == s->dtype[k]);
        if (same) return true;
    }
    return false;
}

static int record_signature(const rt_op_case *c)
{
    rt_space *s = NULL;
    rt_plan *p = NULL;
    rt_layout l = { 0 };
    rt_view v[RT_MAX_SLOTS] = { { 0 } };
    c->set->layout(c, &l);
    assert_int_equal(rt_space_new(&s, NULL), RT_OK);
    for (uint32_t i = 0; i < rt_op_slots(c->set->kind); i++)
        if (l.slot[i].rows)
            v[i] = rt_space_buf(s, RT_CLASS_STATE, c->sig.dtype[i], l.slot[i].rows, l.slot[i].cols, "x");
    assert_int_equal(rt_plan_new(&p, s, "signature", &rt_policy_f32, NULL), RT_OK);
    c->set->emit(p, c, v);
    int rc = rt_plan_status(p, NULL);
    rt_plan_free(p);
    rt_space_free(s);
    return rc;
}

/* The recorder takes what is listed and refuses what is not: dtypes by chance, mostly near a legal signature. */
static void test_signatures(void **state)
{
    static rt_signature list[RT_SIGNATURES_MAX];
    uint32_t legal = 0, refused = 0;
    (void)state;
    for (int k = 0; k < RT_OP_COUNT; k++) {
        uint32_t n = rt_signature_list((rt_op_kind)k, list);
        assert_in_range(n, 1, RT_SIGNATURES_MAX - 1);
        for (uint32_t i = 0; i < 400; i++) {
            rt_rng4 r = rt_philox(1, (uint64_t)k, i);
            rt_op_case c = { .set = rt_op_sets[k], .sig = list[r.v[0] % n], .dim = { 256, 256, 256, 256, 256, 256 } };
            uint32_t slot = r.v[1] % rt_op_slots((rt_op_kind)k);
            rt_dtype d = (rt_dtype)(r.v[2] % RT_DTYPE_COUNT);
            if (i % 4 && d != RT_DTYPE_F64) c.sig.dtype[slot] = d; /* f64 is the specification's */
            if (c.set->fix) c.set->fix(&c);
            /* an absent operand's dtype is nobody's business, and some are absent without flags */
            rt_layout l = { 0 };
            c.set->layout(&c, &l);
            for (uint32_t j = 0; j < rt_op_slots((rt_op_kind)k); j++)
                if (!l.slot[j].rows) c.sig.dtype[j] = list[0].dtype[j];
            bool want = is_listed(list, n, (rt_op_kind)k, &c.sig);
            int rc = record_signature(&c);
            if ((rc == RT_OK) != want)
                print_error("%s, slot %u as %s\n", rt_op_name((rt_op_kind)k), slot, rt_dtype_name(d));
            assert_int_equal(rc == RT_OK, want);
            legal += want;
            refused += !want;
        }
    }
    assert_true(legal > 1000 && refused > 1000);
    assert_int_equal(rt_signature_list(RT_OP_MATMUL, list), 300);
}

/* ---- coverage ---- */

static uint32_t drop_if(rt_case_list *l, bool (*drop)(const rt_op_case *c))
{
    uint32_t kept = 0, dropped = 0;
    for (uint32_t i = 0; i < l->n; i++) {
        if (l->cases[i].run == rt_op_case_run && drop(l->cases[i].data))
            dropped++;
        else
            l->cases[kept++] = l->cases[i];
    }
    l->n = kept;
    return dropped;
}

static bool big_softmax_part(const rt_op_case *c)
{
    return c->set->kind == RT_OP_KD_LOSS && c->sig_index == 7 && c->shape_kind == RT_SHAPE_BIG;
}
static bool adding_q4_k(const rt_op_case *c)
{
    rt_layout l = { 0 };
    c->set->layout(c, &l);
    return c->set->kind == RT_OP_MATMUL && c->sig.dtype[RT_MM_B] == RT_DTYPE_Q4_K && l.slot[RT_MM_OUT].fill;
}
static bool all_bf16_rope(const rt_op_case *c)
{
    return c->set->kind == RT_OP_ROPE_BWD && c->sig.dtype[RT_ROPE_Y] == RT_DTYPE_BF16;
}
static bool in_place_add(const rt_op_case *c)
{
    rt_layout l = { 0 };
    c->set->layout(c, &l);
    return c->set->kind == RT_OP_ADD && l.slot[RT_ROWS_Y].in_place == 1 + RT_ROWS_B;
}
static bool with_gscale(const rt_op_case *c)
{
    rt_layout l = { 0 };
    c->set->layout(c, &l);
    return c->set->kind == RT_OP_ADAMW && l.slot[RT_ADAM_GSCALE].rows;
}

static void test_coverage(void **state)
{
    static const struct {
        bool (*drop)(const rt_op_case *c);
        const char *says;
    } holes[] = { { big_softmax_part, "three tiles" },
                  { adding_q4_k, "q4_k" },
                  { all_bf16_rope, "bf16: no case at all" },
                  { in_place_add, "add, f32" },
                  { with_gscale, "adamw, f32" } };
    rt_case_list l;
    rt_err e = { 0 };
    uint32_t ops = 0;
    (void)state;
    assert_int_equal(rt_case_list_all(&l, &e), RT_OK);
    if (rt_coverage_check(&l, &e) < 0) fail_msg("%s", e.text);
    for (uint32_t i = 0; i < l.n; i++) ops += l.cases[i].run == rt_op_case_run;
    assert_true(ops >= 1500);
    rt_case_list_free(&l);
    for (size_t i = 0; i < sizeof holes / sizeof *holes; i++) {
        assert_int_equal(rt_case_list_all(&l, &e), RT_OK);
        assert_true(drop_if(&l, holes[i].drop) > 0);
        assert_int_equal(rt_coverage_check(&l, &e), RT_INTERNAL);
        if (!strstr(e.text, holes[i].says)) fail_msg("'%s' lacks '%s'", e.text, holes[i].says);
        rt_case_list_free(&l);
    }
}

/* Names are unique and usable as they are; the quick subset has every signature. */
static void test_names(void **state)
{
    rt_case_list l;
    (void)state;
    assert_int_equal(rt_case_list_all(&l, NULL), RT_OK);
    for (uint32_t i = 0; i < l.n; i++) {
        assert_null(strpbrk(l.cases[i].name, " \t\n\"'"));
        assert_non_null(l.cases[i].run);
        if (i && strcmp(l.cases[i].op, l.cases[i - 1].op) == 0)
            assert_true(strcmp(l.cases[i].name, l.cases[i - 1].name) != 0);
    }
    for (uint32_t i = 0; i < l.n; i++) {
        const rt_op_case *c = l.cases[i].data;
        bool quick = false;
        if (l.cases[i].run != rt_op_case_run) continue;
        for (uint32_t j = i; j < l.n && !quick; j++) {
            const rt_op_case *d = l.cases[j].data;
            quick = l.cases[j].run == rt_op_case_run && l.cases[j].quick && d->set == c->set &&
                    d->sig_index == c->sig_index;
            if (l.cases[j].run != rt_op_case_run || d->set != c->set || d->sig_index != c->sig_index) break;
        }
        while (i + 1 < l.n && l.cases[i + 1].run == rt_op_case_run &&
               ((const rt_op_case *)l.cases[i + 1].data)->set == c->set &&
               ((const rt_op_case *)l.cases[i + 1].data)->sig_index == c->sig_index)
            i++;
        assert_true(quick);
    }
    rt_case_list_free(&l);
}

/* ---- inputs ---- */

static void test_inputs(void **state)
{
    rt_case_list l;
    rt_verify_env env = { 0 };
    rt_arena first = { 0 };
    uint64_t last_seed = 0;
    rt_values v[2];
    (void)state;
    assert_int_equal(rt_case_list_all(&l, NULL), RT_OK);
    assert_int_equal(find_backend("ref")->open(&env.spec, 0, &(rt_dev_opts){ 0 }, NULL), RT_OK);
    for (uint32_t i = 0; i < l.n; i += 37) {
        const rt_op_case *c = l.cases[i].data;
        if (l.cases[i].run != rt_op_case_run || c->shape_kind == RT_SHAPE_BIG) continue;
        assert_int_equal(rt_values_make(&v[0], c, &env, NULL), RT_OK);
        first = env.scratch;
        env.scratch = (rt_arena){ 0 };
        assert_int_equal(rt_values_make(&v[1], c, &env, NULL), RT_OK);
        assert_int_equal(v[0].nbufs, v[1].nbufs);
        for (uint32_t b = 0; b < v[0].nbufs; b++)
            assert_memory_equal(v[0].buf[b].init, v[1].buf[b].init, v[0].buf[b].bytes);
        assert_true(v[0].seed != last_seed);
        last_seed = v[0].seed;
        rt_arena_free(&first);
        rt_arena_free(&env.scratch);
    }
    env.spec->api->close(env.spec);
    rt_case_list_free(&l);
}

/* ---- a backend that misbehaves: ref in double behind a mask ---- */

typedef enum mischief { HONEST, WRONG, SKIPS, OUTSIDE, BESIDE, TOUCHES_INPUT, UNSTABLE, REFUSES } mischief;
static struct {
    mischief what;
    rt_bound_op op; /* the last op sealed that is not poison */
    uint32_t runs;
} fake;
static rt_backend fake_api;

static bool fake_supports(rt_dev *d, const rt_plan *p, const rt_op *op, rt_need *need)
{
    if (fake.what == REFUSES && op->kind == RT_OP_ADD) {
        snprintf(need->why_not, sizeof need->why_not, "it cannot add");
        return false;
    }
    return find_backend("ref")->supports(d, p, op, need);
}

static int fake_seal(rt_dev *d, const rt_bound_op *ops, uint32_t nops, rt_prog **out, rt_err *e)
{
    for (uint32_t i = 0; i < nops; i++)
        if (ops[i].kind == RT_OP_ADD) fake.op = ops[i];
    fake.runs = 0;
    return find_backend("ref")->seal(d, ops, nops, out, e);
}

/* After ref has run: the harm to the operands of the add. */
static void do_harm(void)
{
    const rt_operand *y = &fake.op.slot[RT_ROWS_Y], *x = &fake.op.slot[RT_ROWS_X];
    uint64_t size = rt_dtype_table[y->dtype].block_bytes, row = y->cols * size;
    uint8_t *out = rt_host_ptr(y);
    switch (fake.what) {
    case WRONG: out[size - 2] ^= 8; break; /* an upper bit of a number */
    case OUTSIDE: out[-1] ^= 1; break;
    case BESIDE: out[row] ^= 1; break;
    case TOUCHES_INPUT: *(uint8_t *)rt_host_ptr(x) ^= 1; break;
    case UNSTABLE: out[0] ^= fake.runs == 2; break;
    default: break;
    }
}

static int fake_run(rt_dev *d, rt_prog *g, rt_ticket *t, rt_err *e)
{
    if (fake.what == SKIPS) {
        *t = 0;
        return RT_OK;
    }
    int rc = find_backend("ref")->run(d, g, t, e);
    fake.runs++;
    if (fake.what != HONEST && fake.what != REFUSES) do_harm();
    return rc;
}

typedef struct heard {
    uint32_t results;
    const char *says; /* looked for in the texts of those that do not pass */
    uint32_t said;
    char text[300]; /* the last of those texts */
} heard;

static void hear(void *ctx, const rt_case_result *r)
{
    heard *h = ctx;
    h->results++;
    if (r->outcome != RT_CASE_PASS) {
        snprintf(h->text, sizeof h->text, "%s", r->text);
        h->said += h->says && strstr(r->text, h->says) != NULL;
    }
    assert_true((r->outcome == RT_CASE_PASS) <= (r->error <= 1));
}

/* The device is ref's own, with the fake in front of it. */
static int fake_open(rt_dev **out, int index, const rt_dev_opts *o, rt_err *e)
{
    int rc = find_backend("ref")->open(out, index, o, e);
    if (rc >= 0) (*out)->api = &fake_api;
    return rc;
}

static rt_verify_totals run_fake(mischief what, const char *op, heard *h)
{
    rt_verify_totals t;
    rt_err e = { 0 };
    fake_api = *find_backend("ref");
    fake_api.name = "fake";
    fake_api.open = fake_open;
    fake_api.supports = fake_supports;
    fake_api.seal = fake_seal;
    fake_api.run = fake_run;
    fake.what = what;
    h->results = 0;
    rt_verify_opts o = { .api = &fake_api, .op = op, .quick = true, .report = hear, .ctx = h };
    if (rt_verify_run(&o, &t, &e) < 0) fail_msg("%s", e.text);
    assert_int_equal(h->results, t.passed + t.failed + t.unsupported);
    return t;
}

static void test_honest_backend(void **state)
{
    heard h = { 0 };
    rt_verify_totals t = run_fake(HONEST, "add", &h);
    (void)state;
    assert_true(t.passed > 3);
    assert_int_equal(t.failed + t.unsupported, 0);
}

static void expect_failures(mischief what, const char *says, bool all)
{
    heard h = { .says = says };
    rt_verify_totals t = run_fake(what, "add", &h);
    assert_true(t.failed > 0);
    if (all) assert_int_equal(t.passed, 0);
    if (!h.said) fail_msg("no failure says '%s'; the last one: %s", says, h.text);
}

static void test_misbehaving_backend(void **state)
{
    (void)state;
    expect_failures(WRONG, "output 'y'", false); /* a NaN stays a NaN */
    expect_failures(SKIPS, "output 'y'", true);
    expect_failures(OUTSIDE, "outside buffer", false); /* in a strided case the byte before is not the guard's */
    expect_failures(BESIDE, "beside its row", false);
    expect_failures(TOUCHES_INPUT, "was changed", false);
    expect_failures(UNSTABLE, "in a second run", true);
}

static void test_unsupported_is_counted(void **state)
{
    heard h = { 0 };
    rt_verify_totals t = run_fake(REFUSES, "add", &h);
    (void)state;
    assert_true(t.unsupported > 3);
    assert_int_equal(t.passed + t.failed, 0);
    assert_non_null(strstr(h.text, "it cannot add"));
    t = run_fake(REFUSES, "cast", &h);
    assert_true(t.passed > 3);
    assert_int_equal(t.unsupported, 0);
}

/* ---- requests ---- */

static bool stop_at_third(void *ctx) { return ((heard *)ctx)->results == 2; }

static void count_names(void *ctx, const char *name, const char *op)
{
    assert_string_equal(op, "clip");
    assert_true(strncmp(name, "clip/", 5) == 0);
    ++*(uint32_t *)ctx;
}

static void test_requests(void **state)
{
    rt_verify_totals t;
    rt_err e = { 0 };
    heard h = { 0 };
    uint32_t names = 0;
    (void)state;
    assert_int_equal(rt_verify_run(&(rt_verify_opts){ .op = "matmu" }, &t, &e), RT_USAGE);
    assert_non_null(strstr(e.text, "'matmul'"));
    assert_int_equal(rt_verify_run(&(rt_verify_opts){ .backend = "abacus" }, &t, &e), RT_NO_BACKEND);
    rt_verify_opts o = { .backend = "ref", .op = "clip", .report = hear, .ctx = &h };
    assert_int_equal(rt_verify_list(&o, count_names, &names, &e), RT_OK);
    assert_int_equal(rt_verify_run(&o, &t, &e), RT_OK);
    assert_int_equal(t.passed, names);
    h = (heard){ 0 };
    o.stop = stop_at_third;
    assert_int_equal(rt_verify_run(&o, &t, &e), RT_INTERRUPTED);
    assert_int_equal(t.passed, 2);
    o = (rt_verify_opts){ .backend = "ref", .op = "matmul", .memory_limit = 1000 };
    assert_int_equal(rt_verify_run(&o, &t, &e), RT_NOMEM);
    assert_non_null(strstr(e.text, "case matmul/"));
}

/* ---- memory: every allocation of a case fails in turn ---- */

static struct {
    uint64_t left; /* allocations until one fails */
} scarce;

static void *scarce_alloc(void *ctx, size_t bytes, size_t align)
{
    void *p = NULL;
    (void)ctx;
    if (scarce.left-- == 0) return NULL;
    return posix_memalign(&p, align, bytes) == 0 ? p : NULL;
}
static void scarce_free(void *ctx, void *p)
{
    (void)ctx;
    free(p);
}

/* Opens, runs the case, closes, while allocation number i fails, for every i until none does. */
static void run_scarcely(const rt_case *c)
{
    bool ran = false;
    for (uint64_t i = 0; !ran; i++) {
        rt_verify_env env = { 0 };
        rt_verify_opts o = { .backend = "ref" };
        rt_case_result r;
        rt_err e = { 0 };
        uint64_t live = rt_alloc_live();
        scarce.left = i;
        int rc = rt_verify_env_open(&env, &o, &e);
        if (rc >= 0) rc = rt_case_run(c, &env, &r, &e);
        ran = scarce.left <= i;
        rt_verify_env_close(&env);
        assert_int_equal(rt_alloc_live(), live);
        assert_int_equal(rc, ran ? RT_OK : RT_NOMEM);
        if (ran) assert_int_equal(r.outcome, RT_CASE_PASS);
        scarce.left = UINT64_MAX;
    }
}

static void test_scarce_memory(void **state)
{
    static const char *const ops[] = { "matmul", "attn_bwd", "kd_loss", "sample", "adamw", "embed_bwd" };
    const rt_allocator a = { scarce_alloc, scarce_free, NULL };
    rt_case_list l;
    (void)state;
    scarce.left = UINT64_MAX;
    rt_allocator_set(&a);
    assert_int_equal(rt_case_list_all(&l, NULL), RT_OK);
    for (size_t i = 0; i < sizeof ops / sizeof *ops; i++) {
        uint32_t k = 0;
        while (strcmp(l.cases[k].op, ops[i]) != 0) k++;
        run_scarcely(&l.cases[k]);
    }
    rt_case_list_free(&l);
    rt_allocator_set(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_half_ulp),
        cmocka_unit_test(test_best_rounding_passes),
        cmocka_unit_test(test_one_element_off),
        cmocka_unit_test(test_not_finite),
        cmocka_unit_test(test_overflow),
        cmocka_unit_test(test_swapped_rows),
        cmocka_unit_test(test_bias),
        cmocka_unit_test(test_truncation),
        cmocka_unit_test(test_unpromised),
        cmocka_unit_test(test_tolerances),
        cmocka_unit_test(test_signatures),
        cmocka_unit_test(test_coverage),
        cmocka_unit_test(test_names),
        cmocka_unit_test(test_inputs),
        cmocka_unit_test(test_honest_backend),
        cmocka_unit_test(test_misbehaving_backend),
        cmocka_unit_test(test_unsupported_is_counted),
        cmocka_unit_test(test_requests),
        cmocka_unit_test(test_scarce_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
