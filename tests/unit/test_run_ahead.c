/* test_run_ahead.c - steps that are begun before the result of the last is known: on a device that does nothing until
 * somebody waits for it, a run gives the bits, files and messages that it gives on the CPU, whatever ends it. */
#include "run_case.h"

#include "base/str.h"
#include "base/sys.h"
#include "op/emit.h"

/* ---- a device that is late: it takes what it is told, and does it when it is waited for ---- */

typedef struct order {
    rt_ticket ticket;
    rt_prog *prog; /* to run; null: a copy */
    rt_copy copy;
    uint8_t *taken; /* what goes to the device */
} order;

static struct {
    rt_backend api;
    const rt_backend *real;
    order *list;
    uint32_t count, cap;
    rt_ticket given;
    uint32_t most_ahead; /* programs that were enqueued after what was waited for */
    uint32_t before;     /* orders that were not done when the last program was enqueued */
    double worked;       /* seconds that programs took */
    bool lost;
} late;

static order *late_add(void)
{
    if (late.count == late.cap) {
        late.cap = late.cap ? 2 * late.cap : 64;
        late.list = realloc(late.list, late.cap * sizeof *late.list);
        assert_non_null(late.list);
    }
    order *o = &late.list[late.count++];
    *o = (order){ .ticket = ++late.given };
    return o;
}

static int late_wait(rt_dev *d, rt_ticket t, rt_err *e);

static int late_copy(rt_dev *d, const rt_copy *c, rt_ticket *t, rt_err *e)
{
    if (late.lost) return rt_fail(e, RT_DEVICE, "the device is gone");
    order *o = late_add();
    o->copy = *c;
    if (c->to_device && c->bytes) {
        o->taken = malloc(c->bytes);
        assert_non_null(o->taken);
        memcpy(o->taken, c->host, c->bytes);
        o->copy.host = o->taken;
    }
    if (t) *t = o->ticket;
    return !t && !c->to_device ? late_wait(d, o->ticket, e) : RT_OK;
}

static int late_run(rt_dev *d, rt_prog *g, rt_ticket *t, rt_err *e)
{
    (void)d;
    if (late.lost) return rt_fail(e, RT_DEVICE, "the device is gone");
    late.before = late.count;
    order *o = late_add();
    o->prog = g;
    if (t) *t = o->ticket;
    return RT_OK;
}

/* Everything up to t, in order. */
static int late_do(rt_dev *d, rt_ticket t, rt_err *e)
{
    int rc = RT_OK;
    uint32_t n = 0;
    for (; n < late.count && late.list[n].ticket <= t && rc >= 0; n++) {
        order *o = &late.list[n];
        double begun = rt_now();
        if (!late.lost) rc = o->prog ? late.real->run(d, o->prog, NULL, e) : late.real->copy(d, &o->copy, NULL, e);
        if (o->prog) late.worked += rt_now() - begun;
        free(o->taken);
    }
    late.count -= n;
    if (late.count) memmove(late.list, late.list + n, late.count * sizeof *late.list);
    return rc;
}

static int late_wait(rt_dev *d, rt_ticket t, rt_err *e)
{
    uint32_t ahead = 0;
    if (late.lost) return rt_fail(e, RT_DEVICE, "the device is gone");
    int rc = late_do(d, t, e);
    for (uint32_t i = 0; i < late.count; i++) ahead += late.list[i].prog != NULL;
    if (ahead > late.most_ahead) late.most_ahead = ahead;
    return rc;
}

static double late_seconds(rt_dev *d, rt_ticket t)
{
    (void)d;
    return t ? 0.001 : 0;
}

static void late_mem_free(rt_dev *d, rt_mem *m)
{
    late_do(d, UINT64_MAX, NULL);
    late.real->mem_free(d, m);
}

static void late_prog_free(rt_dev *d, rt_prog *g)
{
    late_do(d, UINT64_MAX, NULL);
    late.real->prog_free(d, g);
}

static bool has_clock = true, is_async = true;

static rt_dev *late_device(void)
{
    rt_dev *d = open_device("cpu", 1);
    free(late.list);
    memset(&late, 0, sizeof late);
    late.real = d->api;
    late.api = *d->api;
    late.api.copy = late_copy;
    late.api.run = late_run;
    late.api.wait = late_wait;
    late.api.seconds = has_clock ? late_seconds : NULL;
    late.api.async = is_async;
    late.api.mem_free = late_mem_free;
    late.api.prog_free = late_prog_free;
    d->api = &late.api;
    return d;
}

/* ---- runs ---- */

typedef struct ending {
    int rc;
    rt_err e;
    char dir[32];
} ending;

static uint32_t stop_at, lose_at, reached;

static bool stops(void *ctx)
{
    (void)ctx;
    return stop_at && reached >= stop_at;
}

static void on_step(void *ctx, const rt_run_line *l)
{
    (void)ctx;
    reached = l->step;
    if (l->step == lose_at) late.lost = true;
}

/* A run on the late device, or on the CPU, with some more settings, to whatever end it comes. */
static ending run_on(bool on_late, const char *out, bool resume, const char *const *more)
{
    static const rt_hub_env env;
    ending x = { 0 };
    run_case c;
    run_begin(&c, "teacher", "student", out);
    if (resume) { /* everything is in the record */
        memset(&c.settings, 0, sizeof c.settings);
        run_set(&c, RT_SETTING_ID_out, in_dir(out));
    }
    for (; more && *more; more += 2) run_set(&c, rt_setting_find(more[0]), more[1]);
    snprintf(x.dir, sizeof x.dir, "%s", out);
    reached = 0;
    c.events.stop = stops;
    c.events.step = on_step;
    c.dev = on_late ? late_device() : open_device("cpu", 1);
    c.opts = (rt_run_opts){ .env = &env, .events = &c.events, .dev = c.dev, .resume = resume, .version = "test" };
    x.rc = rt_run_open(&c.run, &c.settings, &c.opts, &x.e);
    if (x.rc >= 0) x.rc = rt_run_train(c.run, &c.summary, &x.e);
    run_end(&c);
    return x;
}

static ending run_ok(bool on_late, const char *out, const char *const *more)
{
    ending x = run_on(on_late, out, false, more);
    if (x.rc < 0) fail_msg("%s: %s", out, x.e.text);
    return x;
}

static rt_str read_all(const char *dir, const char *name)
{
    rt_str s = { 0 };
    rt_err e = { 0 };
    char path[400];
    snprintf(path, sizeof path, "%s/%s", in_dir(dir), name);
    if (rt_file_read(path, 64u << 20, &s, &e) < 0) fail_msg("%s", e.text);
    return s;
}

static void same_file(const char *a, const char *b, const char *name)
{
    rt_str x = read_all(a, name), y = read_all(b, name);
    if (x.len != y.len || memcmp(x.data, y.data, x.len) != 0) fail_msg("%s of %s and %s differ", name, a, b);
    rt_str_free(&x);
    rt_str_free(&y);
}

/* The lines of metrics.jsonl without what a clock says. */
static void same_metrics(const char *a, const char *b)
{
    rt_str text[2] = { read_all(a, "run/metrics.jsonl"), read_all(b, "run/metrics.jsonl") }, bare[2] = { { 0 }, { 0 } };
    rt_json_init();
    for (int i = 0; i < 2; i++)
        for (char *line = strtok(text[i].data, "\n"); line; line = strtok(NULL, "\n")) {
            json_t *j = json_loads(line, 0, NULL);
            assert_non_null(j);
            json_object_del(j, "seconds");
            char *dumped = json_dumps(j, JSON_COMPACT | JSON_REAL_PRECISION(17));
            rt_str_printf(&bare[i], "%s\n", dumped);
            rt_free(dumped);
            json_decref(j);
        }
    assert_string_equal(bare[0].data, bare[1].data);
    for (int i = 0; i < 2; i++) {
        rt_str_free(&text[i]);
        rt_str_free(&bare[i]);
    }
}

static void same_ends(const char *a, const char *b)
{
    same_metrics(a, b);
    same_file(a, b, "model.safetensors");
    same_file(a, b, "run/checkpoints/checkpoint-000006/state.safetensors");
    same_file(a, b, "run/checkpoints/checkpoint-000012/state.safetensors");
}

static int set_up(void **state)
{
    stop_at = lose_at = 0;
    has_clock = is_async = true;
    if (make_test_dir(state) != 0) return -1;
    put_run_inputs();
    return 0;
}

/* ---- what must not change ---- */

static void results_are_those_of_a_run_that_waits(void **state)
{
    static const char *const each[] = { "eval_every", "1", NULL };
    (void)state;
    run_ok(false, "cpu", NULL);
    run_ok(true, "late", NULL);
    assert_true(late.most_ahead >= 4); /* teacher and student of two micro-batches, at least */
    same_ends("cpu", "late");
    run_ok(false, "cpu1", each); /* where every step is looked at, none is begun early */
    run_ok(true, "late1", each);
    assert_int_equal(late.most_ahead, 0);
    same_metrics("cpu1", "late1");
}

static void a_dump_is_the_same(void **state)
{
    static const char *const dump[] = { "dump_step", "4", NULL };
    (void)state;
    run_ok(false, "cpu", dump);
    run_ok(true, "late", dump);
    assert_true(late.most_ahead > 0);
    same_ends("cpu", "late");
    same_file("cpu", "late", "run/dump-000004/step.json");
    same_file("cpu", "late", "run/dump-000004/logits.safetensors");
    same_file("cpu", "late", "run/dump-000004/student/model.safetensors");
}

/* A step that is under way when the user wants an end is finished, saved, and resumed from. */
static void stopping_finishes_what_was_begun(void **state)
{
    (void)state;
    run_ok(false, "whole", NULL);
    stop_at = 3;
    ending x = run_on(false, "cpu", false, NULL);
    assert_int_equal(x.rc, RT_INTERRUPTED);
    assert_non_null(strstr(x.e.text, "stopped after step 3 of 12"));
    x = run_on(true, "late", false, NULL);
    assert_int_equal(x.rc, RT_INTERRUPTED);
    assert_non_null(strstr(x.e.text, "stopped after step 4 of 12"));
    assert_true(rt_path_exists(in_dir("late/run/checkpoints/checkpoint-000004")));
    stop_at = 0;
    x = run_on(true, "late", true, NULL);
    if (x.rc < 0) fail_msg("%s", x.e.text);
    same_ends("whole", "late");
}

/* Not a number at step 2, while step 3 is under way: the message, the metrics and what is saved are as if it were not.
 */
static void a_number_that_is_not_finite_is_told_of_its_own_step(void **state)
{
    static const char *const wild[] = { "lr", "1e30", "warmup", "0", NULL };
    (void)state;
    ending a = run_on(false, "cpu", false, wild), b = run_on(true, "late", false, wild);
    assert_int_equal(a.rc, RT_NONFINITE);
    assert_int_equal(b.rc, RT_NONFINITE);
    assert_true(late.most_ahead > 0);
    assert_non_null(strstr(a.e.text, "step 2: "));
    assert_string_equal(a.e.text, b.e.text);
    same_metrics("cpu", "late");
    assert_false(rt_path_exists(in_dir("late/run/checkpoints/checkpoint-000006")));
}

/* A device that is lost in step 8 leaves the checkpoint of step 6, from which the run comes to the same end. */
static void a_lost_device_leaves_the_last_checkpoint(void **state)
{
    rt_progress_state s;
    rt_err e = { 0 };
    (void)state;
    run_ok(false, "whole", NULL);
    lose_at = 7;
    ending x = run_on(true, "late", false, NULL);
    assert_int_equal(x.rc, RT_DEVICE);
    assert_non_null(strstr(x.e.text, "the device is gone"));
    lose_at = 0;
    if (rt_checkpoint_check(in_dir("late/run/checkpoints/checkpoint-000006"), &s, &e) < 0) fail_msg("%s", e.text);
    assert_int_equal(s.step, 6);
    assert_false(rt_path_exists(in_dir("late/model.safetensors")));
    x = run_on(true, "late", true, NULL);
    if (x.rc < 0) fail_msg("%s", x.e.text);
    same_ends("whole", "late");
}

/* ---- the clock of a device, and whether it runs by itself, are two things ---- */

static void without_a_clock_results_are_the_same(void **state)
{
    (void)state;
    has_clock = false;
    run_ok(false, "cpu", NULL);
    run_ok(true, "late", NULL);
    same_ends("cpu", "late");
}

/* A device that is done when it returns is not given a step early because it has a clock. */
static void a_clock_alone_begins_nothing_early(void **state)
{
    (void)state;
    is_async = false;
    run_ok(true, "late", NULL);
    assert_int_equal(late.most_ahead, 0);
}

/* One program that takes a moment, and what a write and a timed run of it say. */
static void a_run_is_timed_by_the_device_or_with_nothing_else_under_way(void **state)
{
    enum { N = 256 };
    static float a[N * N];
    (void)state;
    for (int mode = 0; mode < 4; mode++) {
        rt_err e = { 0 };
        rt_space *sp;
        rt_plan *p;
        rt_exec *x;
        rt_exec_timing t;
        is_async = mode & 1, has_clock = mode & 2;
        rt_dev *d = late_device();
        assert_int_equal(rt_space_new(&sp, &e), RT_OK);
        rt_view in = rt_space_buf(sp, RT_CLASS_INPUT, RT_DTYPE_F32, N, N, "in"),
                out = rt_space_buf(sp, RT_CLASS_OUTPUT, RT_DTYPE_F32, N, N, "out");
        assert_int_equal(rt_plan_new(&p, sp, "square", &rt_policy_f32, &e), RT_OK);
        rt_emit_matmul(p, out, in, in, RT_NONE, "nt", 1.0f);
        if (rt_exec_seal(&x, d, (const rt_plan *const *)&p, 1, NULL, &e) < 0) fail_msg("%s", e.text);
        assert_int_equal(rt_exec_enqueues(x), is_async);
        assert_int_equal(rt_exec_write(x, in, a, sizeof a, &e), RT_OK);
        assert_int_equal(rt_exec_run(x, 0, NULL, &e), RT_OK);
        assert_int_equal(rt_exec_run_timed(x, 0, &t, &e), RT_OK);
        bool waits = is_async && !has_clock;
        assert_int_equal(late.before, waits ? 0 : 2); /* the write and the run before it */
        assert_int_equal(late.count, waits ? 0 : 3);
        assert_int_equal(rt_exec_wait(x, t.ticket, &e), RT_OK);
        if (has_clock) assert_true(rt_exec_seconds(x, &t) == 0.001);
        if (waits) assert_true(rt_exec_seconds(x, &t) > 0.1 * late.worked); /* of two, of which one is timed */
        rt_exec_free(x);
        rt_plan_free(p);
        rt_space_free(sp);
        d->api->close(d);
    }
}

/* ---- the two halves of a step ---- */

static void two_steps_may_be_under_way(void **state)
{
    enum { T = 8 };
    int32_t ids[T] = { 1, 2, 3, 4, 5, 6, 7, 8 }, pos[T] = { 0, 1, 2, 3, 4, 5, 6, 7 }, start[T] = { 0 },
            target[T] = { 2, 3, 4, 5, 6, 7, 8, -1 }, none[T];
    rt_err e = { 0 };
    rt_trainer *t = NULL;
    rt_step_result out, first;
    rt_model_config c = tiny_config("tiny-qwen2", 1);
    (void)state;
    rt_model_file *m = open_model(in_dir("student"));
    rt_dev *d = late_device();
    rt_step_opts o = step_options(&c, NULL, 1, T);
    o.loss.ce_weight = 1;
    if (rt_trainer_open(&t, d, &o, &(rt_seal_opts){ 0 }, &e) < 0) fail_msg("%s", e.text);
    if (rt_trainer_load(t, m, NULL, NULL, 1, &e) < 0) fail_msg("%s", e.text);
    memset(none, 0xff, sizeof none);
    rt_batch b = { ids, pos, start, target, NULL }, empty = { ids, pos, start, none, NULL };
    assert_int_equal(rt_trainer_end(t, &out, &e), RT_INTERNAL); /* none was begun */
    assert_int_equal(rt_trainer_begin(t, &b, 1, 1, 1e-2, 1, &e), RT_OK);
    assert_int_equal(rt_trainer_begin(t, &empty, 1, 2, 1e-2, 1, &e), RT_INVALID);
    assert_int_equal(rt_trainer_begin(t, &b, 1, 2, 1e-2, 1, &e), RT_OK);
    assert_int_equal(rt_trainer_begin(t, &b, 1, 3, 1e-2, 1, &e), RT_INTERNAL); /* one too many */
    ids[0] = 9;                                                                /* rows were taken when begin returned */
    assert_int_equal(rt_trainer_end(t, &first, &e), RT_OK);
    assert_int_equal(rt_trainer_end(t, &out, &e), RT_OK);
    assert_true(first.trained == 7 && out.trained == 7 && out.loss < first.loss);
    assert_int_equal(rt_trainer_begin(t, &b, 1, 3, 1e-2, 1, &e), RT_OK); /* freed while under way */
    rt_trainer_free(t);
    assert_int_equal(late.count, 0);
    d->api->close(d);
    rt_model_file_close(m);
}

int main(void)
{
#define C(f) cmocka_unit_test_setup_teardown(f, set_up, remove_test_dir)
    const struct CMUnitTest tests[] = {
        C(results_are_those_of_a_run_that_waits),
        C(a_dump_is_the_same),
        C(stopping_finishes_what_was_begun),
        C(a_number_that_is_not_finite_is_told_of_its_own_step),
        C(a_lost_device_leaves_the_last_checkpoint),
        C(two_steps_may_be_under_way),
        C(without_a_clock_results_are_the_same),
        C(a_clock_alone_begins_nothing_early),
        C(a_run_is_timed_by_the_device_or_with_nothing_else_under_way),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
