/* test_ladder.c - a run that survives its device, without a process that is executed again (tests/cli/ladder.sh): what
 * is decided when a device fails, the watch over its calls, the copy of the state in memory, and a CPU that is too
 * slow. */
#include "run_case.h"

#include "base/sys.h"
#include "job/run/ladder.h"

#include <stdatomic.h>
#include <time.h>

/* ---- a CPU that plays a GPU, and fails ---- */

static struct {
    rt_backend api;
    const rt_backend *real;
    uint32_t runs, fails_at; /* programs that were run; the one that fails, and all after it; 0: none */
    int status;
    double sleeps; /* seconds, in every wait */
} gpu;

static int gpu_run(rt_dev *d, rt_prog *g, rt_ticket *t, rt_err *e)
{
    if (gpu.fails_at && ++gpu.runs >= gpu.fails_at) return rt_fail(e, gpu.status, "it is gone");
    return gpu.real->run(d, g, t, e);
}

static int gpu_wait(rt_dev *d, rt_ticket t, rt_err *e)
{
    const struct timespec s = { .tv_nsec = (long)(1e9 * gpu.sleeps) };
    if (gpu.sleeps > 0) nanosleep(&s, NULL);
    return gpu.real->wait(d, t, e);
}

static int gpu_info(rt_dev *d, rt_dev_info *out, rt_err *e)
{
    int rc = gpu.real->info(d, out, e);
    out->host = false;
    return rc;
}

static rt_dev *gpu_device(void)
{
    rt_dev *d = open_device("cpu", 1);
    memset(&gpu, 0, sizeof gpu);
    gpu.status = RT_DEVICE;
    gpu.real = d->api;
    gpu.api = *d->api;
    gpu.api.name = "gpu";
    gpu.api.run = gpu_run;
    gpu.api.wait = gpu_wait;
    gpu.api.info = gpu_info;
    d->api = &gpu.api;
    return d;
}

static atomic_int hung_calls;
static void on_hung(void *ctx, double seconds)
{
    *(double *)ctx = seconds;
    atomic_fetch_add(&hung_calls, 1);
}

static rt_dev *watched(double *seconds)
{
    rt_dev *d;
    rt_err e = { 0 };
    atomic_store(&hung_calls, 0);
    assert_int_equal(rt_dev_watch(&d, gpu_device(), on_hung, seconds, &e), RT_OK);
    return d;
}

/* ---- what a user says ---- */

static rt_ladder begin(const char *device, const char *failure, const char *failed, bool ranks)
{
    rt_ladder l;
    rt_err e = { 0 };
    rt_settings s = { 0 };
    char text[600];
    const char *const env[] = { text, NULL };
    snprintf(text, sizeof text, RT_LADDER_VARIABLE "=%s", failed ? failed : "");
    if (device) RT_SETTINGS_PUT(&s, device, device);
    if (failure) RT_SETTINGS_PUT(&s, on_device_failure, failure);
    assert_int_equal(rt_ladder_begin(&l, &s, ranks, env, &e), RT_OK);
    if (l.failed) l.failed = l.newest = NULL; /* it was in this frame */
    return l;
}

static void a_failure_is_not_the_end_unless_somebody_says_so(void **state)
{
    rt_ladder l;
    rt_err e = { 0 };
    (void)state;
    assert_true(begin(NULL, NULL, NULL, false).on && begin("auto", "auto", NULL, false).on);
    assert_false(begin("vulkan", NULL, NULL, false).on); /* a device that is asked for by name */
    assert_true(begin("vulkan", "degrade", NULL, false).on);
    assert_false(begin(NULL, "stop", NULL, false).on);
    assert_false(begin(NULL, NULL, NULL, true).on || begin(NULL, "degrade", NULL, true).on); /* ranks */
    assert_int_equal(begin("cuda:1", "retry:3", NULL, false).retries, 3);
    assert_true(begin("cuda:1", "retry:3", NULL, false).on);
    static const char *const bad[] = { "retry", "retry:", "retry:-1", "retry:101", "retry:1x", "go", "" };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        rt_settings s = { 0 };
        RT_SETTINGS_PUT(&s, on_device_failure, bad[i]);
        assert_int_equal(rt_ladder_begin(&l, &s, false, NULL, &e), RT_USAGE);
        assert_non_null(strstr(e.text, "--on-device-failure"));
    }
}

static void a_device_that_failed_is_left_out(void **state)
{
    static const char lines[] = "cuda:0 failed after step 3: a\ncuda:1 cannot take the run, before the first step: b\n"
                                "cuda:0 failed after step 9: c";
    const struct {
        uint32_t retries;
        const char *names;
    } cases[] = { { 0, "cuda:0 cuda:1 cuda:0" }, { 1, "cuda:0 cuda:0" }, { 2, "" } };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const rt_ladder l = { .failed = lines, .retries = cases[i].retries };
        rt_str names = { 0 };
        rt_ladder_left_out(&l, &names);
        assert_string_equal(names.data ? names.data : "", cases[i].names);
        rt_str_free(&names);
    }
}

/* ---- what follows ---- */

static void only_the_device_sends_a_run_on(void **state)
{
    double seconds = 0;
    rt_dev *d = watched(&seconds);
    rt_job_again next;
    const rt_err why = { RT_DEVICE, "lost\nit is" };
    const struct {
        int rc, fault;
        bool on, begun, sealed, named, failed, asked, host, wanted;
    } cases[] = {
        { RT_DEVICE, 0, .on = true, .begun = true, .wanted = true },
        { RT_DEVICE, 0, .on = true, .wanted = true },
        { RT_DEVICE, 0, .on = false, .begun = true },
        { RT_DEVICE, 0, .on = true, .begun = true, .host = true }, /* there is nothing below the CPU */
        { RT_NONFINITE, 0, .on = true, .begun = true },
        { RT_INTERRUPTED, 0, .on = true, .begun = true },
        { RT_IO, 0, .on = true, .begun = true },
        { RT_NOMEM, 0, .on = true, .begun = true }, /* of the host */
        { RT_NOMEM, RT_NOMEM, .on = true, .begun = true, .wanted = true },
        { RT_NOMEM, RT_NOMEM, .on = true }, /* it does not fit, which is said */
        { RT_NOMEM, RT_NOMEM, .on = true, .sealed = true, .wanted = true },
        { RT_INTERNAL, 0, .on = true, .begun = true },
        { RT_INTERNAL, RT_DEVICE, .on = true, .begun = true, .wanted = true }, /* what came of the fault */
        { RT_NOMEM, 0, .on = true, .failed = true, .wanted = true },
        { RT_UNSUPPORTED, 0, .on = true },
        { RT_UNSUPPORTED, 0, .on = true, .asked = true, .wanted = true },
        { RT_UNSUPPORTED, 0, .on = true, .asked = true, .named = true },
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        rt_err e = { 0 };
        rt_need need;
        rt_space space = { 0 };
        rt_plan plan = { .space = &space };
        rt_op op = { .kind = RT_OP_FILL };
        rt_ladder l = { .on = cases[i].on,
                        .begun = cases[i].begun,
                        .named = cases[i].named,
                        .failed = cases[i].failed ? "gpu:1 failed after step 2: x" : NULL,
                        .device = "gpu:0",
                        .host = cases[i].host };
        d->api->close(d);
        d = watched(&seconds);
        if (cases[i].asked) d->api->supports(d, &plan, &op, &need);
        gpu.fails_at = 1;
        gpu.status = cases[i].fault;
        if (cases[i].fault) assert_int_equal(d->api->run(d, NULL, NULL, &e), cases[i].fault);
        rt_ladder_decide(&next, &l, d, cases[i].rc, &why, 7, cases[i].begun || cases[i].sealed);
        if (next.wanted != cases[i].wanted) fail_msg("case %zu: %d", i, next.wanted);
        if (next.wanted)
            assert_true(next.resume == (cases[i].begun || cases[i].sealed) && !strchr(next.text, '\n') &&
                        strstr(next.text, "gpu:0"));
        if (next.wanted && l.failed)
            assert_int_equal(strncmp(next.failed.data, "gpu:1 failed after step 2: x\ngpu:0 ", 35), 0);
        rt_str_free(&next.failed);
    }
    d->api->close(d);
}

/* ---- the watch ---- */

static void a_fault_is_kept_until_it_is_forgiven(void **state)
{
    double seconds = 0;
    rt_err e = { 0 }, why = { 0 };
    rt_dev *d = watched(&seconds), *plain = open_device("cpu", 1);
    (void)state;
    assert_int_equal(rt_dev_fault(d, &why), RT_OK);
    gpu.fails_at = 1;
    gpu.status = RT_IO; /* a reader's, say */
    assert_int_equal(d->api->run(d, NULL, NULL, &e), RT_IO);
    assert_int_equal(rt_dev_fault(d, NULL), RT_OK);
    gpu.status = RT_DEVICE;
    assert_int_equal(d->api->run(d, NULL, NULL, NULL), RT_DEVICE); /* who has no place for the message */
    assert_int_equal(rt_dev_fault(d, &why), RT_DEVICE);
    assert_string_equal(why.text, "it is gone");
    rt_dev_forgive(d);
    assert_int_equal(rt_dev_fault(d, &why), RT_OK);
    d->api->close(d);
    assert_int_equal(rt_dev_fault(plain, &why), RT_OK);
    rt_dev_allow(plain, 1);
    plain->api->close(plain);
}

static void a_call_that_does_not_come_back_is_told_of_once(void **state)
{
    double seconds = 0;
    rt_err e = { 0 };
    rt_dev *d = watched(&seconds);
    (void)state;
    rt_dev_allow(d, 0.4);
    gpu.sleeps = 0.04;
    for (int i = 0; i < 12; i++) assert_int_equal(d->api->wait(d, 0, &e), RT_OK); /* together longer than that */
    assert_int_equal(atomic_load(&hung_calls), 0);
    gpu.sleeps = 0.9;
    assert_int_equal(d->api->wait(d, 0, &e), RT_OK);
    assert_int_equal(atomic_load(&hung_calls), 1);
    assert_true(seconds >= 0.4 && seconds < 0.5);
    d->api->close(d);
}

/* ---- the state in memory ---- */

/* When the ninth step has ended the device is lost. */
static void on_step(void *ctx, const rt_run_line *l)
{
    (void)ctx;
    if (l->step == 9) gpu.fails_at = 1;
}

/* A run on the device that fails in a step; then what is left of it on the CPU. */
static int run_on(rt_dev *d, const char *out, bool resume, const char *copies, const rt_run_device *device, rt_err *e)
{
    static const rt_hub_env env;
    run_case c;
    run_begin(&c, "teacher", "student", out);
    run_set(&c, RT_SETTING_ID_keep_host_copy, copies);
    c.events.step = on_step;
    c.opts = (rt_run_opts){
        .env = &env, .events = &c.events, .dev = d, .device = device, .resume = resume, .version = "test"
    };
    c.dev = d;
    int rc = rt_run_open(&c.run, &c.settings, &c.opts, e);
    if (rc >= 0) rc = rt_run_train(c.run, &c.summary, e);
    run_end(&c);
    return rc;
}

static void what_is_newer_in_memory_becomes_a_checkpoint(void **state)
{
    rt_err e = { 0 };
    (void)state;
    put_run_inputs();
    rt_dev *d = gpu_device();
    assert_int_equal(run_on(d, "o", false, "2", NULL, &e), RT_DEVICE);
    rt_arena a = { 0 };
    char *newest;
    assert_int_equal(rt_checkpoint_newest(&newest, &a, in_dir("o"), &e), RT_OK);
    assert_non_null(newest);
    rt_progress_state s;
    assert_int_equal(rt_checkpoint_check(newest, &s, &e), RT_OK);
    assert_int_equal(s.step, 8);
    rt_arena_free(&a);
    const rt_run_device device = { .name = "cpu:0",
                                   .passed_over = "",
                                   .failed = "gpu:0 failed after step 9: it is gone" };
    if (run_on(open_device("cpu", 1), "o", true, "2", &device, &e) < 0) fail_msg("%s", e.text);
    if (run_on(open_device("cpu", 1), "alone", false, "0", NULL, &e) < 0) fail_msg("%s", e.text);
    rt_hash128 one, other; /* the same backend: to the bit */
    assert_int_equal(rt_file_hash(in_dir("o/model.safetensors"), &one, &e), RT_OK);
    assert_int_equal(rt_file_hash(in_dir("alone/model.safetensors"), &other, &e), RT_OK);
    assert_true(rt_hash_equal(one, other));
}

/* ---- a CPU in the place of a GPU ---- */

static rt_run moved_run(rt_settings *s, rt_run_opts *o, double left)
{
    rt_run r = { .settings = s, .opts = o };
    r.resolved.steps = 100;
    r.loop.state.step = 50;
    r.moved = (rt_run_moved){ .timed = true, .from = 50, .left = left };
    return r;
}

static void a_cpu_that_is_too_slow_gives_up(void **state)
{
    rt_settings s = { 0 };
    const rt_run_device device = { .name = "cpu:0", .passed_over = "", .failed = "gpu:0 failed after step 50: x" };
    rt_dev *d = open_device("cpu", 1);
    rt_run_opts o = { .dev = d, .device = &device };
    rt_err e = { 0 };
    (void)state;
    /* 50 steps were left, of a second each; 49 of 3.1 s are too much, 48 of 3.1 s not */
    for (int i = 0; i < 2; i++) {
        const double seconds = i ? 3.2 : 3.1;
        rt_run r = moved_run(&s, &o, 50);
        rt_run_device_stepped(&r, &(rt_loop_step){ .step = 51, .seconds = 100 }); /* the first touches memory */
        assert_false(rt_run_device_slow(&r));
        r.loop.state.step = 52;
        rt_run_device_stepped(&r, &(rt_loop_step){ .step = 52, .seconds = seconds });
        assert_int_equal(rt_run_device_slow(&r), i);
        assert_int_equal(rt_run_device_given_up(&r, RT_INTERRUPTED, &e), i ? RT_DEVICE : RT_INTERRUPTED);
        assert_int_equal(rt_run_device_given_up(&r, RT_OK, &e), RT_OK);
        rt_run_device_stepped(&r, &(rt_loop_step){ .step = 53, .seconds = 1000 }); /* it was measured once */
        assert_int_equal(rt_run_device_slow(&r), i);
    }
    assert_non_null(strstr(e.text, "gpu:0 failed after step 50: x; on the CPU the rest would take "));
    assert_non_null(strstr(e.text, "a checkpoint of step 52 is kept"));
    rt_run r = moved_run(&s, &o, 1); /* in the middle of its first step */
    assert_false(rt_run_device_slow(&r));
    rt_run_device_stepping(&r);
    r.moved.begun -= 59;
    assert_false(rt_run_device_slow(&r));
    r.moved.begun -= 2;
    assert_true(rt_run_device_slow(&r));
    r.moved.left = 21;
    assert_false(rt_run_device_slow(&r));
    rt_run other = { .settings = &s, .opts = &o }; /* nothing has failed */
    assert_false(rt_run_device_slow(&other));
    d->api->close(d);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_failure_is_not_the_end_unless_somebody_says_so),
        cmocka_unit_test(a_device_that_failed_is_left_out),
        cmocka_unit_test(only_the_device_sends_a_run_on),
        cmocka_unit_test(a_fault_is_kept_until_it_is_forgiven),
        cmocka_unit_test(a_call_that_does_not_come_back_is_told_of_once),
        cmocka_unit_test_setup_teardown(what_is_newer_in_memory_becomes_a_checkpoint, make_test_dir, remove_test_dir),
        cmocka_unit_test(a_cpu_that_is_too_slow_gives_up),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
