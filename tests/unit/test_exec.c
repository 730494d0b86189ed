/* test_exec.c - seal and run: placement, sharing of allocations, limits, poison, guards, no allocation after
 * seal. Runs on `ref` and `cpu`, and on small fake backends that refuse or misbehave. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "backend/host.h"
#include "exec_case.h"
#include "op/emit.h"
#include "verify/block.h"

#include <malloc.h>
#include <math.h>

static const rt_block_shape SHAPE = { .config = { .layers = 1,
                                                  .width = 16,
                                                  .heads = 4,
                                                  .kv_heads = 2,
                                                  .head_dim = 8,
                                                  .hidden = 9,
                                                  .vocab = 23,
                                                  .qkv_bias = true,
                                                  .o_bias = true,
                                                  .qk_norm = true },
                                      .B = 2,
                                      .T = 5,
                                      .chunk = 5,
                                      .documents = true,
                                      .divergence = RT_DIV_FORWARD_KL,
                                      .temperature = 1.0f };

/* ---- placement ---- */

static void placement_never_overlaps(void **state)
{
    enum { N = 60 };
    uint64_t bytes[N], place[N], seed = 99;
    uint32_t order[N];
    rt_life life[N];
    (void)state;
    for (int trial = 0; trial < 300; trial++) {
        uint64_t live_peak = 0, sum = 0;
        uint64_t pad = trial % 3 == 0 ? 256 : 0;
        for (int i = 0; i < N; i++) {
            seed = seed * 6364136223846793005ull + 1442695040888963407ull;
            bytes[i] = 1 + (seed >> 40) % 5000;
            life[i].first = (uint32_t)(seed >> 20) % 100;
            life[i].last = life[i].first + (uint32_t)(seed >> 10) % 30;
            if (i % 17 == 0) life[i] = (rt_life){ UINT32_MAX, 0 };
        }
        uint64_t arena = rt_place(place, bytes, life, N, pad, true, order);
        for (int i = 0; i < N; i++) {
            if (life[i].first > life[i].last) {
                assert_true(place[i] == UINT64_MAX);
                continue;
            }
            sum += rt_align_up(bytes[i], 256) + 2 * pad;
            assert_int_equal(place[i] % 256, 0);
            assert_true(place[i] >= pad && place[i] + bytes[i] + pad <= arena);
            for (int j = 0; j < i; j++) {
                bool together =
                    life[j].first <= life[j].last && life[i].first <= life[j].last && life[j].first <= life[i].last;
                if (together)
                    assert_true(place[i] + bytes[i] + pad <= place[j] - pad ||
                                place[j] + bytes[j] + pad <= place[i] - pad);
            }
        }
        for (uint32_t t = 0; t < 130; t++) {
            uint64_t live = 0;
            for (int i = 0; i < N; i++)
                if (life[i].first <= t && t <= life[i].last) live += rt_align_up(bytes[i], 256) + 2 * pad;
            if (live > live_peak) live_peak = live;
        }
        assert_true(arena >= live_peak);
        assert_true(arena < live_peak + live_peak / 2); /* reuse works: far from the sum of all */
        assert_true(arena < sum);
        assert_true(rt_place(place, bytes, life, N, pad, false, order) == sum);
    }
}

/* The same rule written again, slowly: largest first, then first used, then first declared; lowest free place. */
static void placement_follows_its_rule(void **state)
{
    enum { N = 40 };
    uint64_t bytes[N], place[N], want[N], seed = 5;
    uint32_t order[N];
    rt_life life[N];
    bool done[N] = { false };
    (void)state;
    for (int i = 0; i < N; i++) {
        seed = seed * 6364136223846793005ull + 1442695040888963407ull;
        bytes[i] = 256 * (1 + (seed >> 40) % 9); /* many equal sizes */
        life[i].first = (uint32_t)(seed >> 20) % 50;
        life[i].last = life[i].first + (uint32_t)(seed >> 10) % 20;
    }
    for (int n = 0; n < N; n++) {
        int b = -1;
        for (int i = 0; i < N; i++)
            if (!done[i] && (b < 0 || bytes[i] > bytes[b] || (bytes[i] == bytes[b] && life[i].first < life[b].first)))
                b = i;
        for (want[b] = 0;; want[b] += 256) {
            bool free_here = true;
            for (int j = 0; j < N && free_here; j++)
                free_here = !done[j] || life[j].first > life[b].last || life[b].first > life[j].last ||
                            want[j] + bytes[j] <= want[b] || want[b] + bytes[b] <= want[j];
            if (free_here) break;
        }
        done[b] = true;
    }
    rt_place(place, bytes, life, N, 0, true, order);
    for (int i = 0; i < N; i++) assert_int_equal(place[i], want[i]);
}

/* ---- several programs, one set of allocations ---- */

static void programs_share_allocations(void **state)
{
    rt_err e = { 0 };
    rt_dev *d = open_dev("ref", 0);
    rt_block *b;
    rt_exec *x, *alone;
    rt_exec_memory m, ma;
    (void)state;
    ok(rt_block_new(&b, &SHAPE, &rt_policy_f32, &e), &e);
    const rt_plan *plans[] = { b->eval, b->step };
    ok(rt_exec_seal(&x, d, plans, 2, NULL, &e), &e);
    ok(rt_exec_seal(&alone, d, plans + 1, 1, NULL, &e), &e);
    rt_exec_memory_query(x, &m);
    rt_exec_memory_query(alone, &ma);
    assert_int_equal(m.total, ma.total); /* the arena is the maximum, not the sum */
    assert_int_equal(m.peak_program, 1);
    uint64_t sum = 0;
    for (int k = 0; k < RT_CLASS_COUNT; k++) sum += m.by_class[k];
    assert_int_equal(m.total, sum);
    assert_true(m.peak_live <= m.by_class[RT_CLASS_ACT]);
    assert_true(m.by_class[RT_CLASS_GRAD] > 0 && m.by_class[RT_CLASS_PARAM] > 0);
    float after_eval[4], after_step[4];
    ok(rt_block_fill(x, b, &e), &e);
    run(x, 0);
    ok(rt_exec_read(x, b->sums, after_eval, sizeof after_eval, &e), &e);
    run(x, 1);
    ok(rt_exec_read(x, b->sums, after_step, sizeof after_step, &e), &e);
    assert_memory_equal(after_eval, after_step, sizeof after_eval); /* same loss with and without backward */
    assert_true(after_eval[0] > 0 && isfinite(after_eval[0]));
    rt_exec_free(x);
    rt_exec_free(alone);
    rt_block_free(b);
    d->api->close(d);
}

/* Two micro-batches: `=` in the first program, `+=` in the second, twice the gradient. */
static void gradients_accumulate_over_programs(void **state)
{
    rt_err e = { 0 };
    rt_dev *d = open_dev("ref", 0);
    rt_space *s;
    rt_plan *p[2];
    rt_exec *x;
    float dy[6] = { 1, 2, 3, 4, 5, 6 }, g[3];
    (void)state;
    ok(rt_space_new(&s, &e), &e);
    rt_view in = rt_space_buf(s, RT_CLASS_INPUT, RT_DTYPE_F32, 2, 3, "dy");
    rt_view grad = rt_space_buf(s, RT_CLASS_GRAD, RT_DTYPE_F32, 1, 3, "g");
    for (int i = 0; i < 2; i++) {
        ok(rt_plan_new(&p[i], s, i ? "next" : "first", &rt_policy_f32, &e), &e);
        if (i) rt_plan_assume_defined(p[i], grad);
        rt_emit_bias_grad(p[i], grad, in);
    }
    ok(rt_exec_seal(&x, d, (const rt_plan *const *)p, 2, &(rt_seal_opts){ .poison = true, .guards = true }, &e), &e);
    ok(rt_exec_write(x, in, dy, sizeof dy, &e), &e);
    run(x, 0);
    run(x, 1);
    run(x, 1);
    ok(rt_exec_read(x, grad, g, sizeof g, &e), &e);
    assert_true(g[0] == 15 && g[1] == 21 && g[2] == 27);
    run(x, 0); /* and `=` starts again without anybody zeroing */
    ok(rt_exec_read(x, grad, g, sizeof g, &e), &e);
    assert_true(g[0] == 5 && g[1] == 7 && g[2] == 9);
    ok(rt_exec_check(x, &e), &e);
    rt_exec_free(x);
    rt_plan_free(p[0]);
    rt_plan_free(p[1]);
    rt_space_free(s);
    d->api->close(d);
}

static bool refuse_swiglu(rt_dev *d, const rt_plan *p, const rt_op *op, rt_need *need)
{
    if (op->kind == RT_OP_SWIGLU_FWD) {
        strcpy(need->why_not, "no such kernel here");
        return false;
    }
    const rt_backend *f = as_real(d);
    bool yes = real_api->supports(d, p, op, need);
    d->api = f;
    return yes;
}
static void unsupported_ops_are_named(void **state)
{
    rt_err e = { 0 };
    rt_dev *d = open_fake(refuse_swiglu);
    rt_block *b;
    rt_exec *x;
    (void)state;
    ok(rt_block_new(&b, &SHAPE, &rt_policy_f32, &e), &e);
    const rt_plan *p = b->step;
    assert_int_equal(rt_exec_seal(&x, d, &p, 1, NULL, &e), RT_UNSUPPORTED);
    assert_null(x);
    assert_non_null(strstr(e.text, "backend fake cannot run swiglu_fwd(f32, f32, f32): no such kernel here"));
    assert_non_null(strstr(e.text, "layer 0"));
    rt_block_free(b);
    d->api = real_api;
    d->api->close(d);
}

/* ---- limits and refusals ---- */

static void memory_limit_is_a_clear_refusal(void **state)
{
    rt_err e = { 0 };
    rt_dev *d = open_dev("cpu", 1);
    rt_block *b;
    rt_exec *x;
    rt_exec_memory m;
    uint64_t live = rt_alloc_live();
    (void)state;
    ok(rt_block_new(&b, &SHAPE, &rt_policy_f32, &e), &e);
    const rt_plan *p = b->step;
    ok(rt_exec_seal(&x, d, &p, 1, NULL, &e), &e);
    rt_exec_memory_query(x, &m);
    rt_exec_free(x);
    ok(rt_exec_seal(&x, d, &p, 1, &(rt_seal_opts){ .memory_limit = m.total }, &e), &e); /* exactly enough */
    rt_exec_free(x);
    assert_int_equal(rt_exec_seal(&x, d, &p, 1, &(rt_seal_opts){ .memory_limit = m.total - 1 }, &e), RT_NOMEM);
    assert_non_null(strstr(e.text, "the limit is"));
    assert_non_null(strstr(e.text, "1 B too much"));
    assert_non_null(strstr(e.text, "fullest"));
    rt_block_free(b);
    assert_int_equal(rt_alloc_live(), live); /* nothing left behind */
    d->api->close(d);
}
/* A dry seal is the same set, asked, printed and hashed alike, with nothing allocated on the device. */
static int refuse_memory(rt_dev *d, uint64_t bytes, rt_mem_kind kind, rt_mem **out, rt_err *e)
{
    (void)d, (void)bytes, (void)kind, (void)out;
    return rt_fail(e, RT_INTERNAL, "a dry seal asked for memory");
}
static void dry_seals_are_the_same_without_memory(void **state)
{
    rt_err e = { 0 };
    rt_dev *d = open_dev("cpu", 2);
    const rt_backend *own_api = d->api;
    rt_backend none = *own_api;
    rt_block *b;
    rt_exec *wet, *dry;
    rt_exec_memory m, n;
    rt_hash128 h, k;
    rt_str text = { 0 }, again = { 0 };
    rt_step step = { 0 };
    (void)state;
    ok(rt_block_new(&b, &SHAPE, &rt_policy_f32, &e), &e);
    const rt_plan *p = b->step;
    ok(rt_exec_seal(&wet, d, &p, 1, NULL, &e), &e);
    none.mem_new = refuse_memory;
    d->api = &none;
    assert_int_equal(rt_exec_seal(&dry, d, &p, 1, NULL, &e), RT_INTERNAL); /* the control: a real one does ask */
    ok(rt_exec_seal(&dry, d, &p, 1, &(rt_seal_opts){ .dry = true, .memory_limit = 1 }, &e), &e); /* no limit is held */
    d->api = own_api;
    rt_exec_memory_query(wet, &m);
    rt_exec_memory_query(dry, &n);
    assert_memory_equal(&m, &n, sizeof m);
    ok(rt_exec_hash(wet, 0, &h, &e), &e);
    ok(rt_exec_hash(dry, 0, &k, &e), &e);
    assert_true(h.hi == k.hi && h.lo == k.lo);
    ok(rt_exec_print(wet, 0, RT_PRINT_TEXT, &text, &e), &e);
    ok(rt_exec_print(dry, 0, RT_PRINT_TEXT, &again, &e), &e);
    assert_string_equal(text.data, again.data);
    rt_view v = { 1, 1, 1, 0, 1 };
    assert_int_equal(rt_exec_run(dry, 0, NULL, &e), RT_INVALID);
    assert_non_null(strstr(e.text, "dry"));
    assert_int_equal(rt_exec_write(dry, v, &step, 4, &e), RT_INVALID);
    assert_int_equal(rt_exec_read(dry, v, &step, 4, &e), RT_INVALID);
    assert_non_null(strstr(e.text, "dry"));
    assert_int_equal(rt_exec_check(dry, &e), RT_INVALID);
    rt_str_free(&text);
    rt_str_free(&again);
    rt_exec_free(wet);
    rt_exec_free(dry);
    rt_block_free(b);
    d->api->close(d);
}
/* Sizes whose sum passes 64 bits are refused before anything is added up wrongly. */
static void sums_that_overflow_are_refused(void **state)
{
    rt_err e = { 0 };
    rt_dev *d = open_dev("cpu", 1);
    (void)state;
    for (int acts = 0; acts < 2; acts++) {
        rt_space *s;
        rt_plan *p;
        rt_exec *x;
        ok(rt_space_new(&s, &e), &e);
        ok(rt_plan_new(&p, s, "huge", &rt_policy_f32, &e), &e);
        for (int i = 0; i < 5; i++) {
            rt_view v = acts ? rt_act(p, RT_DTYPE_F32, INT32_MAX, 1u << 29, "a")
                             : rt_space_buf(s, RT_CLASS_STATE, RT_DTYPE_F32, INT32_MAX, 1u << 29, "s");
            rt_emit_fill(p, v, 0.0f);
        }
        if (acts) /* keeps all of them alive together */
            for (uint32_t i = 0; i < 5; i++) rt_emit_fill(p, (rt_view){ RT_ACT_BIT | i, 1, 1, 0, 1 }, 0.0f);
        assert_int_equal(rt_exec_seal(&x, d, (const rt_plan *const *)&p, 1, NULL, &e), RT_NOMEM);
        assert_non_null(strstr(e.text, "exceed any memory"));
        rt_plan_free(p);
        rt_space_free(s);
    }
    d->api->close(d);
}
static void recording_errors_surface_at_seal(void **state)
{
    rt_err e = { 0 };
    rt_dev *d = open_dev("ref", 0);
    rt_block *b;
    rt_exec *x;
    rt_block_shape bad = SHAPE;
    bad.config.head_dim = 12; /* not a multiple of 8 */
    (void)state;
    ok(rt_block_new(&b, &bad, &rt_policy_f32, &e), &e);
    const rt_plan *p = b->step;
    assert_int_equal(rt_exec_seal(&x, d, &p, 1, NULL, &e), RT_INVALID);
    assert_non_null(strstr(e.text, "attn_fwd"));
    assert_int_equal(rt_exec_seal(&x, d, &p, 0, NULL, &e), RT_INVALID);
    rt_block_free(b);
    d->api->close(d);
}
static void host_moves_are_checked(void **state)
{
    rt_err e = { 0 };
    rt_dev *d = open_dev("ref", 0);
    rt_block *b;
    rt_exec *x;
    float small[2] = { 0 };
    (void)state;
    ok(rt_block_new(&b, &SHAPE, &rt_policy_f32, &e), &e);
    const rt_plan *p = b->step;
    ok(rt_exec_seal(&x, d, &p, 1, NULL, &e), &e);
    assert_int_equal(rt_exec_write(x, b->teacher, small, sizeof small, &e), RT_INVALID);
    assert_non_null(strstr(e.text, "'teacher' (10,23) f32 holds 920 bytes; 8 were given"));
    assert_int_equal(rt_exec_write(x, RT_NONE, small, sizeof small, &e), RT_INVALID);
    rt_view gaps = { b->teacher.buf, 2, 1, 0, 23 };
    assert_int_equal(rt_exec_read(x, gaps, small, sizeof small, &e), RT_INVALID);
    rt_view outside = { b->teacher.buf, 1, 2, 229, 2 };
    assert_int_equal(rt_exec_read(x, outside, small, sizeof small, &e), RT_INVALID);
    assert_int_equal(rt_exec_run(x, 1, NULL, &e), RT_INVALID);
    assert_int_equal(rt_exec_check(x, &e), RT_INVALID);
    rt_exec_free(x);
    rt_block_free(b);
    d->api->close(d);
}

/* ---- what a backend decides comes back to it ---- */

static bool deciding(rt_dev *d, const rt_plan *p, const rt_op *op, rt_need *need)
{
    const rt_backend *f = as_real(d);
    bool yes = real_api->supports(d, p, op, need);
    d->api = f;
    need->choice.words[0] = 100 + op->kind;
    need->choice.words[11] = (uint64_t)(op->args.rows.alpha * 8);
    return yes;
}

static rt_bound_op seen[64];
static uint32_t nseen;
static int spy_seal(rt_dev *d, const rt_bound_op *ops, uint32_t n, rt_prog **out, rt_err *e)
{
    const rt_backend *f = as_real(d);
    nseen = n < 64 ? n : 64;
    memcpy(seen, ops, nseen * sizeof *ops);
    int rc = real_api->seal(d, ops, n, out, e);
    d->api = f;
    return rc;
}

static void choices_come_back_with_their_ops(void **state)
{
    rt_err e = { 0 };
    rt_space *s;
    rt_plan *p;
    rt_exec *x;
    (void)state;
    rt_dev *d = open_fake(deciding);
    fake.seal = spy_seal;
    ok(rt_space_new(&s, &e), &e);
    rt_view y = rt_space_buf(s, RT_CLASS_OUTPUT, RT_DTYPE_F32, 3, 7, "y");
    ok(rt_plan_new(&p, s, "decided", &rt_policy_f32, &e), &e);
    for (int i = 0; i < 3; i++) rt_emit_fill(p, y, (float)i);
    rt_emit_scale(p, y, y, RT_NONE, 0.5f);
    ok(rt_exec_seal(&x, d, (const rt_plan *const *)&p, 1, NULL, &e), &e);
    assert_int_equal(nseen, 4);
    for (uint32_t i = 0; i < 4; i++) {
        assert_int_equal(seen[i].choice.words[0], 100 + seen[i].kind);
        assert_int_equal(seen[i].choice.words[11], i < 3 ? 8 * i : 4);
    }
    rt_exec_free(x);
    rt_plan_free(p);
    rt_space_free(s);
    close_fake(d);
}

/* ---- guards and poison catch what they are for ---- */

static void (*fill_hook)(const rt_bound_op *op);
static int sabotage_run(rt_dev *d, rt_prog *g, rt_ticket *t, rt_err *e)
{
    const rt_backend *f = as_real(d);
    int rc = real_api->run(d, g, t, e);
    d->api = f;
    if (fill_hook) fill_hook(&seen[0]);
    return rc;
}
static void write_past_end(const rt_bound_op *op)
{
    const rt_operand *y = &op->slot[0];
    ((uint8_t *)rt_host_ptr(y))[rt_dtype_bytes(y->dtype, (uint64_t)y->rows * y->cols)] = 0;
}
static void write_before_start(const rt_bound_op *op) { ((uint8_t *)rt_host_ptr(&op->slot[0]))[-1] = 0; }

static void guards_catch_a_stray_byte(void **state)
{
    void (*const hooks[])(const rt_bound_op *) = { NULL, write_past_end, write_before_start };
    rt_err e = { 0 };
    (void)state;
    for (int i = 0; i < 3; i++) {
        rt_dev *d = open_fake(real_api ? real_api->supports : backend("ref")->supports);
        rt_space *s;
        rt_plan *p;
        rt_exec *x;
        fake.seal = spy_seal;
        fake.run = sabotage_run;
        fill_hook = hooks[i];
        ok(rt_space_new(&s, &e), &e);
        rt_view y = rt_space_buf(s, RT_CLASS_OUTPUT, RT_DTYPE_F32, 3, 7, "y");
        ok(rt_plan_new(&p, s, "guard", &rt_policy_f32, &e), &e);
        rt_emit_fill(p, y, 1.0f);
        ok(rt_exec_seal(&x, d, (const rt_plan *const *)&p, 1, &(rt_seal_opts){ .guards = true }, &e), &e);
        run(x, 0);
        assert_int_equal(rt_exec_check(x, &e), i ? RT_INTERNAL : RT_OK);
        if (i) assert_non_null(strstr(e.text, "outside buffer 'y'"));
        rt_exec_free(x);
        rt_plan_free(p);
        rt_space_free(s);
        d->api = real_api;
        d->api->close(d);
    }
}
static void poison_fills_the_dead(void **state)
{
    rt_err e = { 0 };
    rt_dev *d = open_dev("ref", 0);
    rt_block *b;
    rt_exec *x;
    uint32_t fills = 0;
    (void)state;
    ok(rt_block_new(&b, &SHAPE, &rt_policy_f32, &e), &e);
    const rt_plan *p = b->step;
    ok(rt_exec_seal(&x, d, &p, 1, &(rt_seal_opts){ .poison = true }, &e), &e);
    const rt_plan *q = rt_exec_plan(x, 0);
    for (uint32_t t = 0; t < q->nops; t++)
        if (q->ops[t].kind == RT_OP_FILL && isnan(q->ops[t].args.rows.alpha)) fills++;
    assert_true(fills == b->step->nacts); /* every activation of the block is a float and is used */
    rt_exec_free(x);
    rt_block_free(b);
    d->api->close(d);
}

/* ---- nothing is allocated after seal ---- */

static void no_allocation_after_seal(void **state)
{
    static const char *const names[] = { "ref", "cpu" };
    rt_err e = { 0 };
    (void)state;
    for (int i = 0; i < 2; i++) {
        rt_dev *d = open_dev(names[i], 2);
        rt_block *b;
        rt_exec *x;
        float sums[4];
        ok(rt_block_new(&b, &SHAPE, &rt_policy_f32, &e), &e);
        const rt_plan *p = b->step;
        ok(rt_exec_seal(&x, d, &p, 1, NULL, &e), &e);
        ok(rt_block_fill(x, b, &e), &e);
        uint64_t count = rt_alloc_count();
        struct mallinfo2 before = mallinfo2();
        for (int k = 0; k < 100; k++) {
            run(x, 0);
            ok(rt_exec_read(x, b->sums, sums, sizeof sums, &e), &e);
        }
        struct mallinfo2 after = mallinfo2();
        assert_int_equal(rt_alloc_count(), count);
        assert_int_equal(after.uordblks + after.hblkhd, before.uordblks + before.hblkhd);
        rt_exec_free(x);
        rt_block_free(b);
        d->api->close(d);
    }
}

/* ---- identity ---- */

static void hashes_tell_programs_apart(void **state)
{
    rt_err e = { 0 };
    rt_dev *r = open_dev("ref", 0), *c = open_dev("cpu", 1), *c2 = open_dev("cpu", 2);
    rt_dev *devs[] = { r, c, c2 };
    rt_block *b, *other;
    rt_hash128 h[3], ho, again;
    rt_exec *x;
    rt_block_shape shape = SHAPE;
    shape.temperature = 2.0f;
    (void)state;
    ok(rt_block_new(&b, &SHAPE, &rt_policy_f32, &e), &e);
    ok(rt_block_new(&other, &shape, &rt_policy_f32, &e), &e);
    for (int i = 0; i < 3; i++) {
        const rt_plan *p = b->step;
        ok(rt_exec_seal(&x, devs[i], &p, 1, NULL, &e), &e);
        ok(rt_exec_hash(x, 0, &h[i], &e), &e);
        ok(rt_exec_hash(x, 0, &again, &e), &e);
        assert_memory_equal(&h[i], &again, sizeof again);
        rt_exec_free(x);
    }
    const rt_plan *p = other->step;
    ok(rt_exec_seal(&x, r, &p, 1, NULL, &e), &e);
    ok(rt_exec_hash(x, 0, &ho, &e), &e);
    rt_exec_free(x);
    assert_memory_not_equal(&h[0], &h[1], sizeof ho); /* another backend */
    assert_memory_not_equal(&h[0], &ho, sizeof ho);   /* another argument */
    rt_block_free(b);
    rt_block_free(other);
    for (int i = 0; i < 3; i++) devs[i]->api->close(devs[i]);
}

/* Copies to the device of bytes that are all ones, as marks of the parts of the arena that they reach. */
enum { PART = 1 << 12 };
static uint8_t poisoned[256];
static int mark_copy(rt_dev *d, const rt_copy *c, rt_ticket *t, rt_err *e)
{
    const rt_backend *f = as_real(d);
    int rc = real_api->copy(d, c, t, e);
    d->api = f;
    const uint8_t *bytes = c->host;
    bool ones = c->to_device;
    for (uint64_t i = 0; ones && i < c->bytes; i++) ones = bytes[i] == 0xff;
    for (uint64_t at = c->off; ones && at < c->off + c->bytes; at += PART)
        if (at / PART < sizeof poisoned) poisoned[at / PART] = 1;
    return rc;
}

static bool any_op(rt_dev *d, const rt_plan *p, const rt_op *op, rt_need *need)
{
    const rt_backend *f = as_real(d);
    bool yes = real_api->supports(d, p, op, need);
    d->api = f;
    return yes;
}

/* An arena that is larger than what is copied at a time is poisoned to its end. */
static void all_of_the_arena_is_poisoned(void **state)
{
    enum { ROWS = 256, COLS = 256 }; /* 256 KiB */
    rt_err e = { 0 };
    rt_dev *d = open_fake(any_op);
    rt_space *s;
    rt_plan *p;
    rt_exec *x;
    (void)state;
    fake.copy = mark_copy;
    ok(rt_space_new(&s, &e), &e);
    rt_view in = rt_space_buf(s, RT_CLASS_STATE, RT_DTYPE_F32, ROWS, COLS, "in");
    rt_view out = rt_space_buf(s, RT_CLASS_STATE, RT_DTYPE_F32, ROWS, COLS, "out");
    ok(rt_plan_new(&p, s, "poisoned", &rt_policy_f32, &e), &e);
    rt_view mid = rt_act(p, RT_DTYPE_F32, ROWS, COLS, "mid");
    rt_emit_copy(p, mid, in, RT_NONE);
    rt_emit_copy(p, out, mid, RT_NONE);
    ok(rt_exec_seal(&x, d, (const rt_plan *const *)&p, 1, &(rt_seal_opts){ .poison = true }, &e), &e);
    run(x, 0);
    for (uint32_t i = 0; i < ROWS * COLS * 4 / PART; i++)
        if (!poisoned[i]) fail_msg("the arena is not poisoned at %u KiB", i * PART / 1024);
    rt_exec_free(x);
    rt_plan_free(p);
    rt_space_free(s);
    close_fake(d);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(placement_never_overlaps),         cmocka_unit_test(placement_follows_its_rule),
        cmocka_unit_test(programs_share_allocations),       cmocka_unit_test(gradients_accumulate_over_programs),
        cmocka_unit_test(unsupported_ops_are_named),        cmocka_unit_test(dry_seals_are_the_same_without_memory),
        cmocka_unit_test(memory_limit_is_a_clear_refusal),  cmocka_unit_test(sums_that_overflow_are_refused),
        cmocka_unit_test(recording_errors_surface_at_seal), cmocka_unit_test(host_moves_are_checked),
        cmocka_unit_test(guards_catch_a_stray_byte),        cmocka_unit_test(poison_fills_the_dead),
        cmocka_unit_test(no_allocation_after_seal),         cmocka_unit_test(hashes_tell_programs_apart),
        cmocka_unit_test(all_of_the_arena_is_poisoned),     cmocka_unit_test(choices_come_back_with_their_ops),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
