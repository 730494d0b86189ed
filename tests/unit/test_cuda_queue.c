/* test_cuda_queue.c - the copy queue in a captured graph, on a stand-in driver: what comes before what by streams and
 * events, that nothing is overwritten while it is read, that a copy of the next layer waits for nothing of this one;
 * and copies that are read from files, with what goes wrong there. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "cuda_case.h"

#include "exec/exec_internal.h"

#include <math.h>

enum { LAYERS = 6, ROWS = 4, COLS = 256, READERS = 2, OPS = LAYERS * (1 + READERS), STREAMS = 4 };

/* h = h + w + w of each layer; its w comes in ahead of the layer before it. */
typedef struct chain {
    rt_dev *d;
    rt_space *s;
    rt_plan *p;
    rt_exec *x;
    rt_view away[LAYERS], in, out;
    uint32_t copy[LAYERS], first[LAYERS]; /* which op */
} chain;

static rt_view fetch(chain *c, uint32_t layer)
{
    rt_view slot = rt_act(c->p, RT_DTYPE_BF16, ROWS, COLS, "slot");
    rt_plan_queue(c->p, RT_QUEUE_COPY);
    c->copy[layer] = c->p->nops;
    rt_emit_copy(c->p, slot, c->away[layer], RT_NONE);
    rt_plan_queue(c->p, RT_QUEUE_COMPUTE);
    return slot;
}

static void open_chain(chain *c, rt_class home, const rt_dev_opts *o)
{
    rt_err e = { 0 };
    *c = (chain){ .d = open_ok(o) };
    assert_int_equal(rt_space_new(&c->s, &e), RT_OK);
    assert_int_equal(rt_plan_new(&c->p, c->s, "chain", &rt_policy_bf16, &e), RT_OK);
    for (int i = 0; i < LAYERS; i++) c->away[i] = rt_space_buf(c->s, home, RT_DTYPE_BF16, ROWS, COLS, "w");
    c->in = rt_space_buf(c->s, RT_CLASS_INPUT, RT_DTYPE_BF16, ROWS, COLS, "in");
    c->out = rt_space_buf(c->s, RT_CLASS_OUTPUT, RT_DTYPE_BF16, ROWS, COLS, "out");
    rt_view next = fetch(c, 0), h = c->in;
    for (uint32_t i = 0; i < LAYERS; i++) {
        rt_view w = next, y = i + 1 == LAYERS ? c->out : rt_act(c->p, RT_DTYPE_BF16, ROWS, COLS, "h");
        if (i + 1 < LAYERS) next = fetch(c, i + 1);
        c->first[i] = c->p->nops;
        for (int k = 0; k < READERS; k++) rt_emit_add(c->p, y, k ? y : h, w);
        h = y;
    }
    if (rt_exec_seal(&c->x, c->d, (const rt_plan *const *)&c->p, 1, NULL, &e) < 0) fail_msg("%s", e.text);
}

static void close_chain(chain *c)
{
    rt_exec_free(c->x);
    rt_plan_free(c->p);
    rt_space_free(c->s);
    c->d->api->close(c->d);
    assert_int_equal(s->live, 0);
}

/* ---- what a capture says about order ---- */

/* Of each op of the chain, the ops that are done before it, as bits; and those that are at the end of the graph. */
typedef struct order {
    uint32_t before[OPS], at_end;
    const void *stream[OPS];
    uint32_t waits; /* for events */
} order;

typedef struct clock_of {
    const void *who;
    uint32_t done;
} clock_of;

static clock_of *clock_for(clock_of *list, uint32_t n, const void *who)
{
    for (uint32_t i = 0; i < n; i++) {
        if (!list[i].who) list[i].who = who;
        if (list[i].who == who) return &list[i];
    }
    fail_msg("more streams or events than expected");
    return NULL;
}

/* Kernels are the ops of the compute queue in their order, copies those of the other. */
static order order_of(const chain *c)
{
    order o = { 0 };
    clock_of stream[STREAMS] = { 0 }, event[2 * OPS] = { 0 };
    uint32_t kernel = 0, copy = 0;
    const void *main_stream = NULL;
    for (uint32_t i = 0; i < s->steps; i++) {
        const standin_step *t = &s->step[i];
        clock_of *now = clock_for(stream, STREAMS, t->stream);
        uint32_t op = 0;
        switch (t->what) {
        case 'r':
            if (!main_stream) main_stream = t->stream; /* where the other queue leaves it */
            clock_for(event, 2 * OPS, t->event)->done = now->done;
            continue;
        case 'w':
            now->done |= clock_for(event, 2 * OPS, t->event)->done;
            o.waits++;
            continue;
        case 'h': continue;
        case 'c': op = c->copy[copy++]; break;
        default: op = c->first[kernel / READERS] + kernel % READERS; kernel++;
        }
        o.before[op] = now->done;
        o.stream[op] = t->stream;
        now->done |= 1u << op;
    }
    assert_true(kernel == LAYERS * READERS && copy == LAYERS);
    o.at_end = clock_for(stream, STREAMS, main_stream)->done;
    return o;
}

static bool meet(const rt_operand *a, const rt_operand *b)
{
    uint64_t of_a = a->rows * rt_dtype_bytes(a->dtype, a->cols), of_b = b->rows * rt_dtype_bytes(b->dtype, b->cols);
    return a->mem && a->mem == b->mem && a->off < b->off + of_b && b->off < a->off + of_a;
}

/* Do two ops touch the same bytes, one of them writing? */
static bool conflict(const rt_bound_op *a, const rt_bound_op *b)
{
    for (uint32_t i = 0; i < a->nslots; i++)
        for (uint32_t k = 0; k < b->nslots; k++)
            if ((i == 0 || k == 0) && meet(&a->slot[i], &b->slot[k])) return true; /* slot 0 is what is written */
    return false;
}

static void a_graph_keeps_the_order_and_no_more(void **state)
{
    (void)state;
    chain c;
    rt_bound_op ops[OPS];
    uint32_t pairs = 0;
    open_chain(&c, RT_CLASS_HOST, NULL);
    assert_int_equal(c.x->prog[0].plan->nops, OPS);
    order o = order_of(&c);
    rt_bind(c.x, 0, false, ops);
    for (uint32_t b = 0; b < OPS; b++)
        for (uint32_t a = 0; a < b; a++) {
            if (!conflict(&ops[a], &ops[b])) continue;
            pairs++;
            if (!(o.before[b] >> a & 1)) fail_msg("op %u may begin before op %u has ended", b, a);
        }
    assert_true(pairs > 3 * LAYERS);
    for (uint32_t i = 0; i < LAYERS; i++) {
        assert_ptr_not_equal(o.stream[c.copy[i]], o.stream[c.first[i]]);
        /* the layer before is computed meanwhile; the one before that has been, since its slot is filled again */
        if (i > 0) assert_int_equal(o.before[c.copy[i]] >> c.first[i - 1] & 1, 0);
        if (i > 1) assert_int_equal(o.before[c.copy[i]] >> (c.first[i - 2] + READERS - 1) & 1, 1);
    }
    assert_int_equal(o.at_end, (1u << OPS) - 1); /* the graph ends when both queues have */
    /* A kernel that waits for the other queue does not begin before the one ahead of it has ended. */
    assert_int_equal(s->launches - s->overlaps, LAYERS);
    /* Two slots: what comes in goes to two places in turn. */
    for (uint32_t i = 2; i < LAYERS; i++)
        assert_int_equal(ops[c.copy[i]].slot[RT_ROWS_Y].off, ops[c.copy[i - 2]].slot[RT_ROWS_Y].off);
    close_chain(&c);
}

/* The negative control: the same capture without its events is found out. */
static void order_that_is_missing_is_seen(void **state)
{
    (void)state;
    chain c;
    rt_bound_op ops[OPS];
    uint32_t missing = 0;
    open_chain(&c, RT_CLASS_HOST, NULL);
    for (uint32_t i = 0; i < s->steps; i++)
        if (s->step[i].what == 'w') s->step[i].what = 'h'; /* which orders nothing */
    order o = order_of(&c);
    rt_bind(c.x, 0, false, ops);
    for (uint32_t b = 0; b < OPS; b++)
        for (uint32_t a = 0; a < b; a++) missing += conflict(&ops[a], &ops[b]) && !(o.before[b] >> a & 1);
    assert_true(missing >= LAYERS);
    close_chain(&c);
}

/* ---- memory of the host ---- */

static void host_memory_is_pinned_written_and_read_back(void **state)
{
    (void)state;
    chain c;
    rt_err e = { 0 };
    static uint16_t w[ROWS * COLS], back[ROWS * COLS];
    open_chain(&c, RT_CLASS_HOST, NULL);
    rt_exec_memory m;
    rt_exec_memory_query(c.x, &m);
    uint64_t away = LAYERS * sizeof w;
    assert_true(m.host == away && m.by_class[RT_CLASS_HOST] == away && m.total + away > m.total);
    assert_int_equal(m.total, m.by_class[RT_CLASS_INPUT] + m.by_class[RT_CLASS_OUTPUT] + m.by_class[RT_CLASS_ACT]);
    assert_int_equal(((rt_cuda_dev *)c.d)->own_bytes, m.total); /* of the device nothing else was taken */
    for (uint32_t i = 0; i < LAYERS; i++) {
        for (uint32_t k = 0; k < ROWS * COLS; k++) w[k] = (uint16_t)(k + i);
        assert_int_equal(rt_exec_write(c.x, c.away[i], w, sizeof w, &e), RT_OK);
    }
    assert_int_equal(rt_exec_read(c.x, c.away[LAYERS - 1], back, sizeof back, &e), RT_OK);
    assert_memory_equal(w, back, sizeof w);
    for (uint32_t i = 0, n = 0; i < s->steps; i++) { /* the copies of the graph read just those */
        if (s->step[i].what != 'c') continue;
        assert_int_equal(s->step[i].bytes, sizeof w);
        assert_int_equal(*(const uint16_t *)(uintptr_t)s->step[i].from, n++);
    }
    close_chain(&c);
}

/* A limit is of the device. */
static void a_limit_does_not_count_the_host(void **state)
{
    (void)state;
    chain c;
    rt_err e = { 0 };
    rt_exec *x = NULL;
    open_chain(&c, RT_CLASS_HOST, NULL);
    rt_exec_memory m;
    rt_exec_memory_query(c.x, &m);
    rt_seal_opts o = { .memory_limit = m.total };
    if (rt_exec_seal(&x, c.d, (const rt_plan *const *)&c.p, 1, &o, &e) < 0) fail_msg("%s", e.text);
    rt_exec_free(x);
    o.memory_limit--;
    assert_int_equal(rt_exec_seal(&x, c.d, (const rt_plan *const *)&c.p, 1, &o, &e), RT_NOMEM);
    assert_null(strstr(e.text, "host parameter"));
    close_chain(&c);
}

/* ---- files ---- */

static uint32_t reads, fails;

static int serve(void *ctx, rt_view v, void *to, rt_err *e)
{
    const chain *c = ctx;
    if (++reads == fails) return rt_fail(e, RT_IO, "t.gguf: tensor w cannot be read");
    assert_int_equal(v.buf, c->away[(reads - 1) % LAYERS].buf);
    memset(to, (int)reads, v.rows * rt_dtype_bytes(RT_DTYPE_BF16, v.cols));
    return RT_OK;
}

static void files_are_read_between_the_launches_of_a_graph(void **state)
{
    (void)state;
    chain c;
    rt_err e = { 0 };
    rt_ticket t;
    reads = fails = 0;
    open_chain(&c, RT_CLASS_DISK, NULL);
    rt_exec_serve(c.x, serve, &c);
    rt_exec_memory m;
    rt_exec_memory_query(c.x, &m);
    assert_true(m.host == 0 && m.disk == LAYERS * ROWS * COLS * 2);
    uint32_t calls = 0;
    for (uint32_t i = 0; i + 1 < s->steps; i++) { /* each is read into the stage, and copied from there */
        if (s->step[i].what != 'h') continue;
        calls++;
        assert_int_equal(s->step[i + 1].what, 'c');
        assert_ptr_equal(s->step[i].stream, s->step[i + 1].stream);
        assert_true(s->step[i + 1].from == (uint64_t)(uintptr_t)((rt_cuda_dev *)c.d)->read_stage);
    }
    assert_int_equal(calls, LAYERS);
    assert_int_equal(reads, 0); /* nothing is read to record it */
    for (uint32_t run = 1; run <= 2; run++) {
        if (rt_exec_run(c.x, 0, &t, &e) < 0 || rt_exec_wait(c.x, t, &e) < 0) fail_msg("%s", e.text);
        assert_int_equal(reads, run * LAYERS);
    }
    order o = order_of(&c);
    for (uint32_t i = 1; i < LAYERS; i++) assert_int_equal(o.before[c.copy[i]] >> c.first[i - 1] & 1, 0);
    /* What goes wrong there is told by whoever waits, and nothing is read or run after it. */
    reads = 0;
    fails = 3;
    assert_int_equal(rt_exec_run(c.x, 0, &t, &e), RT_OK);
    assert_int_equal(rt_exec_wait(c.x, t, &e), RT_IO);
    assert_non_null(strstr(e.text, "t.gguf: tensor w cannot be read"));
    assert_int_equal(reads, 3);
    assert_int_equal(rt_exec_run(c.x, 0, &t, &e), RT_IO);
    close_chain(&c);
}

/* The same ops, one by one and timed: every copy, and every wait of the compute queue for one. Nothing is left of that,
 * whatever call fails. */
static void queues_are_timed(void **state)
{
    (void)state;
    chain c;
    rt_err e = { 0 };
    rt_exec_span span;
    reads = fails = 0;
    open_chain(&c, RT_CLASS_DISK, NULL);
    rt_exec_serve(c.x, serve, &c);
    int live = s->live;
    if (rt_exec_measure(c.x, 0, &span, &e) < 0) fail_msg("%s", e.text);
    assert_int_equal(reads, LAYERS);
    assert_int_equal(s->live, live);
    const double copy = LAYERS * STANDIN_COPY_MS * 1e-3, waited = LAYERS * STANDIN_WAIT_MS * 1e-3;
    assert_true(fabs(span.copy - copy) < 1e-6 && fabs(span.total - span.compute - waited) < 1e-6);
    assert_true(span.total > copy + waited);
    assert_true(fabs(rt_exec_hidden(&span) - (1 - waited / copy)) < 1e-6);
    static const char *const names[] = { "cuEventCreate", "cuEventRecord", "cuLaunchKernelEx", "cuMemcpyAsync" };
    for (size_t k = 0; k < sizeof names / sizeof *names; k++)
        for (int at = 1; at <= 4; at++) {
            s->fail_name = names[k];
            s->fail_at = at;
            s->fail_result = 700;
            reads = 0;
            int rc = rt_exec_measure(c.x, 0, &span, &e);
            assert_true(rc < 0 || s->fail_name != NULL);
            s->fail_name = NULL;
            assert_int_equal(s->live, live);
        }
    reads = 0;
    fails = 2;
    assert_int_equal(rt_exec_measure(c.x, 0, &span, &e), RT_IO);
    assert_int_equal(rt_exec_measure(c.x, 1, &span, &e), RT_INVALID);
    close_chain(&c);
    open_chain(&c, RT_CLASS_HOST, &RT_DEV_OPTIONS({ "sync", "on" }));
    assert_int_equal(rt_exec_measure(c.x, 0, &span, &e), RT_UNSUPPORTED);
    close_chain(&c);
}

/* With --sync there is one stream, and the op that failed is named. */
static void synchronous_ops_run_in_turn(void **state)
{
    (void)state;
    chain c;
    rt_err e = { 0 };
    rt_ticket t;
    reads = 0;
    fails = 2;
    open_chain(&c, RT_CLASS_DISK, &RT_DEV_OPTIONS({ "sync", "on" }));
    rt_exec_serve(c.x, serve, &c);
    assert_int_equal(rt_exec_run(c.x, 0, &t, &e), RT_IO);
    assert_non_null(strstr(e.text, "op 1 (copy)"));
    assert_int_equal(reads, 2);
    close_chain(&c);
}

/* Whatever call fails, nothing is left behind. */
static void any_call_may_fail(void **state)
{
    static const char *const names[] = { "cuStreamCreate", "cuMemHostAlloc", "cuEventCreate",   "cuStreamWaitEvent",
                                         "cuMemcpyAsync",  "cuEventRecord",  "cuLaunchHostFunc" };
    (void)state;
    for (size_t k = 0; k < sizeof names / sizeof *names; k++)
        for (int at = 1; at <= 3; at++) {
            chain c = { 0 };
            rt_err e = { 0 };
            rt_exec *x = NULL;
            *s = FRESH;
            open_chain(&c, RT_CLASS_DISK, NULL);
            rt_exec_free(c.x);
            c.x = NULL;
            c.d->api->close(c.d);
            c.d = open_ok(NULL);
            s->fail_name = names[k];
            s->fail_at = at;
            s->fail_result = 700;
            int rc = rt_exec_seal(&x, c.d, (const rt_plan *const *)&c.p, 1, NULL, &e);
            if (rc >= 0 && s->fail_name == NULL) fail_msg("%s failed and nothing was said", names[k]);
            s->fail_name = NULL;
            rt_exec_free(x);
            close_chain(&c);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(a_graph_keeps_the_order_and_no_more, fresh),
        cmocka_unit_test_setup(order_that_is_missing_is_seen, fresh),
        cmocka_unit_test_setup(host_memory_is_pinned_written_and_read_back, fresh),
        cmocka_unit_test_setup(a_limit_does_not_count_the_host, fresh),
        cmocka_unit_test_setup(files_are_read_between_the_launches_of_a_graph, fresh),
        cmocka_unit_test_setup(queues_are_timed, fresh),
        cmocka_unit_test_setup(synchronous_ops_run_in_turn, fresh),
        cmocka_unit_test_setup(any_call_may_fail, fresh),
    };
    return cmocka_run_group_tests(tests, find_standin, NULL);
}
