/* test_order.c - ops of two queues: what each waits for follows from the bytes that they touch, two slots make a ring
 * by their lifetimes alone, and a copy of the next layer waits for nothing of this one. Buffers that are on no device.
 */
#include "exec_case.h"

#include "op/emit.h"

#include <math.h>
#include <string.h>

enum { LAYERS = 6, ROWS = 4, COLS = 256, OPS_OF_LAYER = 2 };

/* A chain of layers: h = h + w of the layer, whose weights come in before the layer ahead of it is computed. */
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
    rt_view slot = rt_act(c->p, RT_DTYPE_F32, ROWS, COLS, "slot");
    rt_plan_queue(c->p, RT_QUEUE_COPY);
    c->copy[layer] = c->p->nops;
    rt_emit_copy(c->p, slot, c->away[layer], RT_NONE);
    rt_plan_queue(c->p, RT_QUEUE_COMPUTE);
    return slot;
}

static void record(chain *c, rt_class home)
{
    rt_err e = { 0 };
    ok(rt_space_new(&c->s, &e), &e);
    ok(rt_plan_new(&c->p, c->s, "chain", &rt_policy_f32, &e), &e);
    for (int i = 0; i < LAYERS; i++) c->away[i] = rt_space_buf(c->s, home, RT_DTYPE_F32, ROWS, COLS, "w");
    c->in = rt_space_buf(c->s, RT_CLASS_INPUT, RT_DTYPE_F32, ROWS, COLS, "in");
    c->out = rt_space_buf(c->s, RT_CLASS_OUTPUT, RT_DTYPE_F32, ROWS, COLS, "out");
    rt_view next = fetch(c, 0), h = c->in;
    for (uint32_t i = 0; i < LAYERS; i++) {
        rt_view w = next, y = i + 1 == LAYERS ? c->out : rt_act(c->p, RT_DTYPE_F32, ROWS, COLS, "h");
        if (i + 1 < LAYERS) next = fetch(c, i + 1);
        c->first[i] = c->p->nops;
        rt_emit_add(c->p, y, h, w);
        rt_emit_add(c->p, y, y, w); /* the slot is read until here */
        h = y;
    }
}

static void seal(chain *c, const char *device, rt_class home, const rt_seal_opts *o)
{
    rt_err e = { 0 };
    *c = (chain){ 0 };
    c->d = open_dev(device, device[0] == 'c' ? 2 : 0);
    record(c, home);
    ok(rt_exec_seal(&c->x, c->d, (const rt_plan *const *)&c->p, 1, o, &e), &e);
}

static void end(chain *c)
{
    rt_exec_free(c->x);
    rt_plan_free(c->p);
    rt_space_free(c->s);
    c->d->api->close(c->d);
}

static void order_follows_from_what_is_touched(void **state)
{
    (void)state;
    chain c;
    seal(&c, "cpu", RT_CLASS_HOST, NULL);
    uint32_t(*after)[RT_QUEUE_COUNT] = c.x->prog[0].after;
    for (uint32_t i = 0; i < LAYERS; i++) {
        /* what reads a slot waits for its copy, once */
        assert_int_equal(after[c.first[i]][RT_QUEUE_COPY], c.copy[i] + 1);
        assert_int_equal(after[c.first[i] + 1][RT_QUEUE_COPY], 0);
        /* and the slot is filled again when its last reader is done: that of two layers before, no later one */
        uint32_t last = i < 2 ? 0 : c.first[i - 2] + OPS_OF_LAYER;
        assert_int_equal(after[c.copy[i]][RT_QUEUE_COMPUTE], last);
    }
    /* two slots and two states, whatever the number of layers */
    rt_exec_memory m;
    rt_exec_memory_query(c.x, &m);
    assert_int_equal(m.by_class[RT_CLASS_ACT], 4 * ROWS * COLS * sizeof(float));
    assert_int_equal(m.by_class[RT_CLASS_HOST], LAYERS * ROWS * COLS * sizeof(float));
    assert_int_equal(m.host, 0); /* the device's memory is the host's: it counts there */
    end(&c);
    /* The negative control: where every activation has a place of its own, no copy waits. */
    seal(&c, "cpu", RT_CLASS_HOST, &(rt_seal_opts){ .no_reuse = true });
    for (uint32_t i = 0; i < LAYERS; i++) assert_int_equal(c.x->prog[0].after[c.copy[i]][RT_QUEUE_COMPUTE], 0);
    end(&c);
}

/* Transfers of a third of a layer's time are hidden but for the first; of three times its time, a third of them. */
static void what_is_hidden_follows_from_the_order(void **state)
{
    (void)state;
    chain c;
    double seconds[LAYERS * (1 + OPS_OF_LAYER)];
    rt_backend api;
    seal(&c, "cpu", RT_CLASS_HOST, &(rt_seal_opts){ .dry = true });
    api = *c.d->api;
    const rt_backend *was = c.d->api;
    for (int slow = 0; slow < 2; slow++) {
        double copy = slow ? 12 : 4.0 / 3;
        for (uint32_t t = 0; t < LAYERS * (1 + OPS_OF_LAYER); t++)
            seconds[t] = c.p->ops[t].queue == RT_QUEUE_COPY ? copy : 2;
        rt_exec_span one = rt_exec_span_of(c.x, 0, seconds); /* a device of one queue */
        assert_true(fabs(one.total - (one.compute + one.copy)) < 1e-9 && rt_exec_hidden(&one) < 1e-9);
        api.queues = true;
        c.d->api = &api;
        rt_exec_span two = rt_exec_span_of(c.x, 0, seconds);
        c.d->api = was;
        assert_true(two.compute == LAYERS * 4.0 && fabs(two.copy - LAYERS * copy) < 1e-9);
        /* fast: the first copy, then computing; slow: copies, and the last layer behind them */
        double want = slow ? LAYERS * copy + 4 : copy + LAYERS * 4.0;
        if (fabs(two.total - want) > 1e-9) fail_msg("%g, not %g", two.total, want);
        double hidden = slow ? (LAYERS - 1) * 4.0 / (LAYERS * copy) : (LAYERS - 1.0) / LAYERS;
        assert_true(fabs(rt_exec_hidden(&two) - hidden) < 1e-9);
    }
    end(&c);
}

static void fill(float *w, uint32_t layer)
{
    for (uint32_t k = 0; k < ROWS * COLS; k++) w[k] = (float)(layer + 1) * 0.25f + (float)k;
}

/* ---- buffers that are in no memory ---- */

typedef struct file {
    const chain *c;
    uint32_t reads, fails; /* fails: the read that does, from 1 */
} file;

static int serve(void *ctx, rt_view v, void *to, rt_err *e)
{
    file *f = ctx;
    if (++f->reads == f->fails) return rt_fail(e, RT_IO, "the disk fails");
    for (uint32_t i = 0; i < LAYERS; i++)
        if (f->c->away[i].buf == v.buf) {
            assert_true(v.rows == ROWS && v.cols == COLS && v.off == 0);
            fill(to, i);
            return RT_OK;
        }
    return rt_fail(e, RT_INTERNAL, "another buffer");
}

static void values_are_those_of_host_and_disk(void **state)
{
    static const char *const devices[] = { "ref", "cpu" };
    static float in[ROWS * COLS], w[ROWS * COLS], of_host[ROWS * COLS], of_disk[ROWS * COLS];
    (void)state;
    for (int k = 0; k < 2; k++)
        for (int disk = 0; disk < 2; disk++) {
            rt_err e = { 0 };
            chain c;
            float *out = disk ? of_disk : of_host;
            seal(&c, devices[k], disk ? RT_CLASS_DISK : RT_CLASS_HOST,
                 &(rt_seal_opts){ .poison = true, .guards = true });
            file f = { .c = &c };
            for (uint32_t i = 0; i < LAYERS; i++) {
                fill(w, i);
                int rc = rt_exec_write(c.x, c.away[i], w, sizeof w, &e);
                assert_int_equal(rc, disk ? RT_INTERNAL : RT_OK);
            }
            ok(rt_exec_write(c.x, c.in, in, sizeof in, &e), &e);
            if (disk) assert_int_equal(rt_exec_run(c.x, 0, NULL, &e), RT_INTERNAL); /* nobody serves it */
            rt_exec_serve(c.x, serve, &f);
            run(c.x, 0);
            ok(rt_exec_check(c.x, &e), &e);
            ok(rt_exec_read(c.x, c.out, out, sizeof of_host, &e), &e);
            assert_int_equal(f.reads, disk ? LAYERS : 0);
            rt_exec_memory m;
            rt_exec_memory_query(c.x, &m);
            assert_true(disk ? m.disk > 0 && m.by_class[RT_CLASS_HOST] == 0 : m.disk == 0);
            f = (file){ .c = &c, .fails = 3 };
            if (disk) assert_int_equal(rt_exec_run(c.x, 0, NULL, &e), RT_IO);
            if (disk) assert_string_equal(e.text, "the disk fails");
            end(&c);
            for (uint32_t i = 0; !disk && i < ROWS * COLS; i++) { /* 2 (sum of all layers) */
                float want = 0;
                for (uint32_t l = 0; l < LAYERS; l++) want += 2 * ((float)(l + 1) * 0.25f + (float)i);
                assert_true(out[i] == want);
            }
        }
    assert_memory_equal(of_host, of_disk, sizeof of_host);
}

static void only_a_copy_reads_what_is_away(void **state)
{
    (void)state;
    rt_err e = { 0 };
    for (int k = 0; k < 3; k++) {
        rt_space *s;
        rt_plan *p;
        ok(rt_space_new(&s, &e), &e);
        ok(rt_plan_new(&p, s, "away", &rt_policy_f32, &e), &e);
        rt_view w = rt_space_buf(s, RT_CLASS_HOST, RT_DTYPE_F32, ROWS, COLS, "w"),
                y = rt_act(p, RT_DTYPE_F32, ROWS, COLS, "y");
        rt_view rows = rt_space_buf(s, RT_CLASS_INPUT, RT_DTYPE_I32, ROWS, 1, "rows");
        if (k == 0) rt_emit_add(p, y, w, w);
        if (k == 1) rt_emit_copy(p, rt_space_buf(s, RT_CLASS_STATE, RT_DTYPE_F32, ROWS, COLS, "y"), w, rows);
        if (k == 2) rt_emit_copy(p, rt_view_cols(p, y, 0, 8), rt_view_cols(p, w, 0, 8), RT_NONE);
        assert_int_equal(rt_plan_status(p, &e), RT_INVALID);
        assert_non_null(strstr(e.text, "is the host parameter 'w', which only a copy without gaps can read"));
        rt_plan_free(p);
        rt_space_free(s);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(order_follows_from_what_is_touched),
        cmocka_unit_test(what_is_hidden_follows_from_the_order),
        cmocka_unit_test(values_are_those_of_host_and_disk),
        cmocka_unit_test(only_a_copy_reads_what_is_away),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
