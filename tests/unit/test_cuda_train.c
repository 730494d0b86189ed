/* test_cuda_train.c - whole runs on the CUDA backend over the stand-in driver: memory that the driver refuses although
 * it called it free, a GPU that is lost, numbers that were never computed, a teacher beside the device, and GEMMs that
 * are timed by default. The stand-in computes nothing, so a hook writes the one number that the host checks. */
#include "run_case.h"
#include "standin_case.h"

#include "backend/cuda/cuda_internal.h"
#include "base/json.h"
#include "exec/exec_internal.h"
#include "job/audit_run.h"
#include "job/job.h"
#include "job/prepare/fit.h"
#include "job/run/run_cost.h"

#include <math.h>

static const standin FRESH = { STANDIN_MACHINE, .clean = 1 };

/* ---- a run ---- */

static rt_exec *computing; /* of the run that is open */
static const rt_step_plan *plan;
static uint32_t launches, waits;
static uint32_t launched[RUN_STEPS + 1], waited[RUN_STEPS + 1]; /* when the result of a step was known */
static float trained_value;                                     /* NAN: as many as the step has */

static void *place_of(rt_view v)
{
    const rt_buffer *b = &computing->space->bufs[v.buf - 1];
    return (void *)(uintptr_t)(computing->mem[b->cls]->addr + computing->space_off[v.buf - 1]);
}

/* The device says that it trained what the step has. */
static void compute(const char *name)
{
    waits += strcmp(name, "cuEventSynchronize") == 0 || strcmp(name, "cuStreamSynchronize") == 0;
    if (!computing || strcmp(name, "cuGraphLaunch") != 0) return;
    launches++;
    const rt_step *step = place_of(plan->step);
    float *sums = place_of(plan->sums);
    sums[3] = isnan(trained_value) ? (float)step->tokens : trained_value;
}

static char pages[1 << 16], notes[1 << 14];
static uint32_t page_count, lose_at;
static rt_fit fitted; /* of the last run that was opened */

static void keep_page(void *ctx, const char *text)
{
    (void)ctx;
    page_count++;
    strncat(pages, text, sizeof pages - strlen(pages) - 1);
}
static void keep_note(void *ctx, const char *text)
{
    (void)ctx;
    strncat(notes, text, sizeof notes - strlen(notes) - 2);
    strcat(notes, "\n");
}
static void after_step(void *ctx, const rt_run_line *l)
{
    (void)ctx;
    launched[l->step] = launches;
    waited[l->step] = waits;
    if (l->step != lose_at) return;
    s->fail_name = "cuEventSynchronize";
    s->fail_at = 1;
    s->fail_result = 700;
    s->sticky = 1;
}

static int set_up(void **state)
{
    *s = FRESH;
    s->hook = compute;
    computing = NULL;
    launches = waits = page_count = lose_at = 0;
    trained_value = NAN;
    pages[0] = notes[0] = 0;
    if (make_test_dir(state) != 0) return -1;
    put_run_inputs();
    return 0;
}

/* To whatever end it comes; everything is given back. more: name, value, ..., null. */
static int run_cuda(const char *out, bool resume, const char *const *more, rt_settings *settled, rt_err *e)
{
    static const rt_hub_env env;
    run_case c;
    run_begin(&c, "teacher", "student", out);
    c.settings.given[RT_SETTING_ID_micro_batch] = false;
    if (resume) memset(&c.settings, 0, sizeof c.settings);
    run_set(&c, RT_SETTING_ID_out, in_dir(out));
    for (; more && *more; more += 2) run_set(&c, rt_setting_find(more[0]), more[1]);
    rt_run_events events = { .refused = keep_page, .note = keep_note, .step = after_step };
    int rc = rt_device_open(&c.dev, "cuda", &(rt_dev_opts){ 0 }, NULL, e);
    if (rc < 0) fail_msg("%s", e->text);
    c.opts = (rt_run_opts){ .env = &env, .events = &events, .dev = c.dev, .resume = resume, .version = "test" };
    rc = rt_run_open(&c.run, &c.settings, &c.opts, e);
    if (rc >= 0) {
        computing = c.run->trainer->x;
        plan = c.run->trainer->plan;
        fitted = c.run->fit;
        rc = rt_run_train(c.run, &c.summary, e);
        computing = NULL;
    }
    if (settled) *settled = c.settings; /* its texts are gone */
    run_end(&c);
    assert_int_equal(s->live, 0);
    assert_int_equal(s->used, 0);
    return rc;
}

/* ---- a run that comes to its end, and steps that do not wait ---- */

static void a_step_waits_for_the_one_before_it_alone(void **state)
{
    rt_err e = { 0 };
    (void)state;
    if (run_cuda("o", false, NULL, NULL, &e) < 0) fail_msg("%s", e.text);
    assert_int_equal(page_count, 0);
    const char *plain = strstr(notes, "done by plain kernels, which are slower: attn_fwd, attn_bwd");
    assert_non_null(plain); /* heads of tiny models */
    assert_non_null(strstr(plain, "(heads of fewer than 32 columns)\n"));
    assert_null(strstr(plain + 1, "done by plain kernels")); /* once */
    assert_true(rt_path_exists(in_dir("o/run/checkpoints/checkpoint-000012")));
    for (uint32_t i = 2; i < 6; i++) assert_int_equal(waited[i] - waited[i - 1], 1);
    /* When a result is known the next step has been launched, but for the sixth: then the run is evaluated and saved.
     */
    uint32_t programs = launched[2] - launched[1];
    assert_true(programs >= 3); /* teacher, student, update */
    for (uint32_t i = 2; i < 6; i++) assert_int_equal(launched[i] - launched[i - 1], programs);
    assert_int_equal(launched[6], launched[5]);
}

/* ---- memory that is refused ---- */

static void what_the_driver_refuses_is_made_smaller(void **state)
{
    static const char *const native[] = { "teacher_weights", "native", NULL }; /* so that nothing is measured before */
    rt_err e = { 0 };
    (void)state;
    if (run_cuda("whole", false, native, NULL, &e) < 0) fail_msg("%s", e.text);
    uint64_t whole = fitted.need;
    for (int at = 1; at < 6; at++) { /* each of a handful of allocations */
        char out[16];
        *s = FRESH;
        s->hook = compute;
        s->lt_refuses = 1; /* so that no product is tried on scratch before */
        s->fail_name = "cuMemAlloc_v2";
        s->fail_at = at;
        s->fail_result = RT_CU_OUT_OF_MEMORY;
        pages[0] = notes[0] = 0;
        page_count = 0;
        snprintf(out, sizeof out, "o%d", at);
        if (run_cuda(out, false, native, NULL, &e) < 0) fail_msg("%s", e.text);
        assert_int_equal(page_count, 1);
        assert_true(fitted.need < whole && rt_recompute_named(&fitted.chosen.recompute) > 0);
        assert_non_null(strstr(pages, "verdict   fits by the device's figures, and the device refused it"));
        assert_non_null(strstr(pages, "parameters"));
        assert_non_null(strstr(notes, "the device refused the "));
        assert_non_null(strstr(notes, "CUDA_ERROR_OUT_OF_MEMORY"));
        assert_non_null(strstr(notes, " with --recompute "));
    }
}

/* Memory that is refused where fp8 is measured: the run is as it would be without. */
static void what_is_refused_to_a_measurement_is_not_taken(void **state)
{
    rt_err e = { 0 };
    (void)state;
    if (run_cuda("measured", false, NULL, NULL, &e) < 0) fail_msg("%s", e.text);
    uint64_t need = fitted.need;
    assert_int_equal(fitted.weights.fp8.state, RT_FP8_MEASURED);
    *s = FRESH;
    s->hook = compute;
    s->lt_refuses = 1;
    s->fail_name = "cuMemAlloc_v2";
    s->fail_at = 2;
    s->fail_result = RT_CU_OUT_OF_MEMORY;
    if (run_cuda("refused", false, NULL, NULL, &e) < 0) fail_msg("%s", e.text);
    assert_int_equal(fitted.weights.fp8.state, RT_FP8_NO_ROOM);
    assert_true(page_count == 0 && fitted.need == need && fitted.weights.weights == RT_WEIGHTS_NATIVE);
}

static void smaller_and_smaller_until_nothing_is_left(void **state)
{
    rt_err e = { 0 };
    (void)state;
    s->lt_refuses = 1;
    s->hidden = FRESH.memory - (64 << 10);
    assert_int_equal(run_cuda("none", false, NULL, NULL, &e), RT_NOMEM);
    assert_true(page_count > 3);
    assert_non_null(strstr(e.text, "even with --micro-batch 1 --recompute block, and the device gives no more than"));
    assert_non_null(strstr(e.text, "what fits: "));
    assert_non_null(strstr(pages, "verdict   does not fit, even with --micro-batch 1 --recompute block"));
    assert_non_null(strstr(pages, "since the device refused more"));
    assert_non_null(strstr(pages, "would fit "));
    assert_false(rt_path_exists(in_dir("none"))); /* nothing is half written */
    /* One byte too few for all of it: the next smaller is found. */
    *s = FRESH;
    s->hook = compute;
    s->lt_refuses = 1;
    s->module_bytes = 0;
    if (run_cuda("all", false, NULL, NULL, &e) < 0) fail_msg("%s", e.text);
    assert_int_equal(fitted.chosen.micro_batch, 4);
    uint64_t need = fitted.need, memory = need;
    s->hidden = FRESH.memory - need + 1;
    page_count = 0;
    if (run_cuda("less", false, NULL, NULL, &e) < 0) fail_msg("%s", e.text);
    assert_int_equal(page_count, 1);
    assert_true(fitted.chosen.micro_batch == 4 && fitted.need < need); /* a layer is recomputed instead */
    /* The same where the device still calls free what the run may take, and no byte more. */
    while (rt_fit_budget(memory) < need) memory++;
    assert_int_equal(rt_fit_budget(memory), need);
    s->memory = memory;
    s->hidden = memory - need + 1;
    page_count = 0;
    if (run_cuda("equal", false, NULL, NULL, &e) < 0) fail_msg("%s", e.text);
    assert_int_equal(page_count, 1);
    assert_true(fitted.chosen.micro_batch == 4 && fitted.need < need); /* a layer is recomputed instead */
}

/* What the user has said is not changed behind his back. */
static void what_was_fixed_is_refused(void **state)
{
    static const char *const fixed[] = { "micro_batch", "4", "recompute", "none", NULL };
    rt_err e = { 0 };
    (void)state;
    s->lt_refuses = 1;
    s->hidden = FRESH.memory - (64 << 10);
    assert_int_equal(run_cuda("fixed", false, fixed, NULL, &e), RT_NOMEM);
    assert_int_equal(page_count, 2); /* what was refused, and that it is the only one */
    assert_null(strstr(e.text, "even with"));
    assert_string_equal(notes, "only 12 steps: distillation usually needs some hundreds; --epochs or --steps asks for "
                               "more\nthe data is plain text alone, and the chat format of the model is not trained; "
                               "add chats to keep it\n");
    assert_false(rt_path_exists(in_dir("fixed")));
}

/* ---- a GPU that is lost ---- */

static void a_lost_gpu_leaves_the_last_checkpoint(void **state)
{
    rt_progress_state state_of;
    rt_err e = { 0 };
    (void)state;
    lose_at = 8;
    assert_int_equal(run_cuda("o", false, NULL, NULL, &e), RT_DEVICE);
    assert_int_equal(s->lost, 1);
    assert_non_null(strstr(e.text, "illegal memory access"));
    assert_non_null(strstr(e.text, "--sync names the op"));
    if (rt_checkpoint_check(in_dir("o/run/checkpoints/checkpoint-000006"), &state_of, &e) < 0) fail_msg("%s", e.text);
    assert_int_equal(state_of.step, 6);
    assert_false(rt_path_exists(in_dir("o/model.safetensors")));
    *s = FRESH; /* another GPU, and the run goes on */
    s->hook = compute;
    lose_at = 0;
    if (run_cuda("o", true, NULL, NULL, &e) < 0) fail_msg("%s", e.text);
    assert_true(rt_path_exists(in_dir("o/run/checkpoints/checkpoint-000012")));
}

/* ---- numbers that were never computed ---- */

static void what_is_not_finite_without_a_fault_is_said_so(void **state)
{
    rt_err e = { 0 };
    (void)state;
    s->clean = 0; /* memory as it comes: not a number */
    assert_int_equal(run_cuda("eval", false, NULL, NULL, &e), RT_NONFINITE);
    assert_non_null(strstr(e.text, "evaluation: the cross-entropy is not finite, and no op says where it began"));
    *s = FRESH;
    s->hook = compute;
    trained_value = INFINITY;
    assert_int_equal(run_cuda("step", false, NULL, NULL, &e), RT_NONFINITE);
    assert_memory_equal(e.text, "step 1: a count of positions is not finite, and no op", 53);
    trained_value = 3; /* finite and wrong is another fault */
    assert_int_equal(run_cuda("count", false, NULL, NULL, &e), RT_INTERNAL);
    assert_memory_equal(e.text, "step 1: the device trained 3 positions and the host had counted ", 64);
}

/* ---- a run that is verified ---- */

typedef struct heard {
    char backend[2][16], name[96], why[500]; /* of the last; the backends of the first two */
    uint32_t count, checks, failed;          /* failed: of the measures */
} heard;

static void hear_device(void *ctx, rt_dev *d, const char *why)
{
    heard *h = ctx;
    rt_dev_info info;
    if (d->api->info(d, &info, NULL) < 0) fail_msg("no info");
    snprintf(h->backend[h->count++ % 2], sizeof h->backend[0], "%s", d->api->name);
    snprintf(h->name, sizeof h->name, "%s", info.name);
    snprintf(h->why, sizeof h->why, "%s", why);
}

static void hear_check(void *ctx, const rt_check *c)
{
    heard *h = ctx;
    h->checks++;
    h->failed += c->outcome == RT_CHECK_FAIL && strncmp(c->name, "held-out", 8) == 0;
    if (c->outcome == RT_CHECK_FAIL) print_message("%s: %s\n", c->name, c->text);
}

static heard verify_run(const char *out)
{
    static const rt_hub_env env;
    rt_err e = { 0 };
    rt_audit_result v;
    heard h = { 0 };
    rt_pool *pool;
    assert_int_equal(rt_pool_new(&pool, 1, &e), RT_OK);
    rt_audit_opts o = {
        .env = &env, .threads = 1, .pool = pool, .report = hear_check, .device = hear_device, .ctx = &h
    };
    if (rt_audit_run(in_dir(out), &o, &v, &e) < 0) fail_msg("%s", e.text);
    rt_pool_free(pool);
    assert_int_equal(s->live, 0);
    return h;
}

/* What the stand-in did not compute measures 0 when it is measured again, and something on the CPU. */
static void a_run_is_measured_on_its_own_device(void **state)
{
    rt_err e = { 0 };
    json_t *verdict, *claim;
    size_t i;
    (void)state;
    s->devices = 2;
    if (run_cuda("o", false, NULL, NULL, &e) < 0) fail_msg("%s", e.text);
    assert_int_equal(rt_json_read(&verdict, in_dir("o/run/verdict.json"), &e), RT_OK);
    uint32_t memory = 0;
    json_array_foreach(json_object_get(verdict, "falsifiers"), i,
                       claim) if (strcmp(json_string_value(json_object_get(claim, "id")), "F-PLAN-MEMORY-001") == 0)
    {
        memory++;
        assert_string_equal(json_string_value(json_object_get(claim, "verdict")), "pass");
        assert_non_null(strstr(json_string_value(json_object_get(claim, "measured")), "by the driver"));
    }
    assert_int_equal(memory, 1);
    json_decref(verdict);
    heard h = verify_run("o");
    assert_string_equal(h.backend[0], "cuda");
    assert_string_equal(h.name, "Stand-in 0");
    assert_string_equal(h.why, "");
    assert_true(h.count == 1 && h.checks > 10 && h.failed == 0);
    s->devices = 0; /* it is gone */
    h = verify_run("o");
    assert_string_equal(h.backend[0], "cpu");
    assert_string_equal(h.why, "Stand-in 0, which the run used, cannot be used here: the driver sees no NVIDIA GPU");
    assert_true(h.count == 1 && h.failed > 0);
    s->devices = 1; /* it is here and has no room */
    s->hidden = FRESH.memory - (64 << 10);
    s->lt_refuses = 1;
    h = verify_run("o");
    assert_int_equal(h.count, 2);
    assert_string_equal(h.backend[0], "cuda");
    assert_string_equal(h.backend[1], "cpu");
    assert_memory_equal(h.why, "Stand-in 0, which the run used, did not take the models: ", 57);
}

/* ---- a teacher beside the device ---- */

/* A whole run with the layers beside the device: copies are in the graph of the teacher, on a stream of their own. */
static void a_run_streams_its_teacher(void **state)
{
    (void)state;
    static const char *const homes[] = { "host", "disk" };
    for (int k = 0; k < 2; k++) {
        rt_err e = { 0 };
        const char *const more[] = { "teacher_memory", homes[k], "teacher_weights", "native", NULL };
        *s = FRESH;
        s->hook = compute;
        if (run_cuda(homes[k], false, more, NULL, &e) < 0) fail_msg("%s", e.text);
        assert_int_equal(fitted.chosen.memory, k ? RT_TEACHER_DISK : RT_TEACHER_HOST);
        assert_int_equal(fitted.memory.why, RT_MEMORY_ASKED);
        assert_non_null(strstr(s->log, "cuMemcpyAsync"));
        assert_int_equal(strstr(s->log, "cuLaunchHostFunc") != NULL, k);
    }
}

/* ---- GEMMs by timing ---- */

/* A job on the stand-in with the cache of this test; nothing is said of tuning. */
static void open_job(rt_job_run *j, run_case *c, rt_job_kind kind)
{
    static char cache[600];
    static const char *const environment[] = { cache, NULL };
    static const rt_job_env env = { .environment = environment, .version = "test" };
    static const rt_run_events events = { .note = keep_note };
    rt_err e = { 0 };
    snprintf(cache, sizeof cache, "XDG_CACHE_HOME=%s", in_dir("cache"));
    run_begin(c, "teacher", "student", "o");
    run_set(c, RT_SETTING_ID_device, "cuda");
    notes[0] = 0;
    *j = (rt_job_run){ 0 };
    rt_job_run_opts o = { .kind = kind, .env = &env, .events = &events };
    if (rt_job_run_open(j, &c->settings, &o, &e) < 0) fail_msg("%s", e.text);
}

static rt_hash128 close_job(rt_job_run *j, run_case *c)
{
    rt_hash128 h = { 0 };
    rt_err e = { 0 };
    assert_int_equal(rt_exec_hash(rt_run_trainer(j->run)->x, 0, &h, &e), RT_OK);
    rt_job_run_close(j);
    rt_arena_free(&c->arena);
    assert_int_equal(s->live, 0);
    return h;
}

static void train_job(rt_job_run *j)
{
    rt_err e = { 0 };
    rt_run_summary summary;
    computing = j->run->trainer->x;
    plan = j->run->trainer->plan;
    if (rt_run_train(j->run, &summary, &e) < 0) fail_msg("%s", e.text);
    computing = NULL;
}

static void a_run_times_its_gemms_and_a_plan_does_not(void **state)
{
    rt_err e = { 0 };
    rt_job_run j;
    run_case c;
    rt_run_cost cost;
    (void)state;
    s->lt_ms[0] = 3;
    s->lt_ms[1] = 1;
    s->lt_ms[2] = 2;
    open_job(&j, &c, RT_JOB_PLAN);
    assert_int_equal(rt_run_cost_new(&cost, j.run, &e), RT_OK);
    if (rt_run_cost_time(&cost, j.run, &e) < 0) fail_msg("%s", e.text);
    rt_hash128 planned = close_job(&j, &c);
    assert_false(rt_path_exists(in_dir("cache")));
    open_job(&j, &c, RT_JOB_DISTILL);
    if (!strstr(notes, " GEMMs timed in ") || !strstr(notes, "; kept in ")) fail_msg("%s", notes);
    assert_string_equal(j.settings.tune, "on");
    train_job(&j);
    rt_hash128 ran = close_job(&j, &c);
    assert_memory_not_equal(&planned, &ran, sizeof ran);
    assert_true(rt_path_exists(in_dir("cache/retort/products.tsv")) && rt_path_exists(in_dir("o/run/products.tsv")));
    /* from here on a plan is the run's, by the choices of all runs */
    s->lt_ms[1] = 4;
    open_job(&j, &c, RT_JOB_PLAN);
    planned = close_job(&j, &c);
    assert_memory_equal(&planned, &ran, sizeof ran);
    rt_dir_remove(in_dir("cache"));
    open_job(&j, &c, RT_JOB_PLAN);
    planned = close_job(&j, &c);
    assert_memory_not_equal(&planned, &ran, sizeof ran);
}

int main(void)
{
#define C(f) cmocka_unit_test_setup_teardown(f, set_up, remove_test_dir)
    const struct CMUnitTest tests[] = {
        C(a_step_waits_for_the_one_before_it_alone),
        C(what_the_driver_refuses_is_made_smaller),
        C(what_is_refused_to_a_measurement_is_not_taken),
        C(smaller_and_smaller_until_nothing_is_left),
        C(what_was_fixed_is_refused),
        C(a_lost_gpu_leaves_the_last_checkpoint),
        C(what_is_not_finite_without_a_fault_is_said_so),
        C(a_run_is_measured_on_its_own_device),
        C(a_run_streams_its_teacher),
        C(a_run_times_its_gemms_and_a_plan_does_not),
    };
    return cmocka_run_group_tests(tests, find_standin, NULL);
}
