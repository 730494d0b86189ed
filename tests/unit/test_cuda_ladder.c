/* test_cuda_ladder.c - runs on the stand-in for CUDA whose calls fail at random moments, and what takes their place:
 * the second GPU, then the CPU, each opened as a new process opens it. The stand-in computes nothing, so it is the
 * order of the data, the steps and who took them that is looked at. CUDA_LADDER_TRIALS: how many (4). */
#include "run_case.h"
#include "standin_case.h"

#include "backend/cuda/cuda_internal.h"
#include "base/json.h"
#include "exec/exec_internal.h"
#include "job/job.h"

#include <stdlib.h>

static const standin FRESH = { STANDIN_MACHINE, .clean = 1 };

static rt_exec *computing; /* of the run that is open */
static const rt_step_plan *plan;

static void *place_of(rt_view v)
{
    const rt_buffer *b = &computing->space->bufs[v.buf - 1];
    return (void *)(uintptr_t)(computing->mem[b->cls]->addr + computing->space_off[v.buf - 1]);
}

/* The device says that it trained what the step has. */
static void compute(const char *name)
{
    if (!computing || strcmp(name, "cuGraphLaunch") != 0) return;
    const rt_step *step = place_of(plan->step);
    float *sums = place_of(plan->sums);
    sums[3] = (float)step->tokens;
}

static void on_hung(void *ctx, const rt_job_again *next, int rc, rt_err *e)
{
    (void)ctx, (void)next, (void)rc;
    fail_msg("%s", e->text);
}

/* One process of a run; what it hands to the next is in *next. */
static int process(const char *failed, bool resume, rt_job_again *next, char taken[48], rt_err *e)
{
    static char variable[8192];
    const char *const environment[] = { variable, NULL };
    const rt_job_env env = { .environment = environment, .version = "test" };
    static const rt_run_events events;
    rt_job_run_opts o = { .kind = RT_JOB_DISTILL, .env = &env, .events = &events, .resume = resume, .hung = on_hung };
    rt_run_summary summary;
    rt_job_run j = { 0 };
    run_case c;
    snprintf(variable, sizeof variable, RT_LADDER_VARIABLE "=%s", failed);
    run_begin(&c, "teacher", "student", "o");
    c.settings.given[RT_SETTING_ID_micro_batch] = false;
    run_set(&c, RT_SETTING_ID_tune, "off");
    run_set(&c, RT_SETTING_ID_on_device_failure, "degrade");
    int rc = rt_job_run_open(&j, &c.settings, &o, e);
    if (rc >= 0) {
        bool gpu = strcmp(j.dev->api->name, "cuda") == 0;
        computing = gpu ? rt_run_trainer(j.run)->x : NULL;
        plan = rt_run_trainer(j.run)->plan;
        rc = rt_job_run_train(&j, &summary, e);
        computing = NULL;
    }
    snprintf(taken, 48, "%s", j.ladder.device);
    *next = j.next;
    if (next->wanted) rt_job_run_abandon(&j);
    rt_job_run_close(&j);
    rt_arena_free(&c.arena);
    assert_int_equal(s->live, 0);
    return rc;
}

/* Step, tokens and trained positions of every line, and which devices there were. */
static rt_str data_of(const char *out)
{
    rt_str text = { 0 };
    char path[400];
    snprintf(path, sizeof path, "%s/run/metrics.jsonl", in_dir(out));
    FILE *f = fopen(path, "re");
    assert_non_null(f);
    for (json_t *j; (j = json_loadf(f, JSON_DISABLE_EOF_CHECK, NULL)); json_decref(j))
        if (strcmp(json_string_value(json_object_get(j, "event")), "step") == 0)
            rt_str_printf(&text, "%d %d %d\n", (int)json_integer_value(json_object_get(j, "step")),
                          (int)json_integer_value(json_object_get(j, "tokens")),
                          (int)json_integer_value(json_object_get(j, "trained")));
    fclose(f);
    return text;
}

static uint32_t drawn;
static uint32_t draw(uint32_t most)
{
    drawn = drawn * 1664525 + 1013904223;
    return (drawn >> 8) % most;
}

/* Sticky errors, and memory that is gone for one call. */
static void plant(uint32_t trial)
{
    static const char *const names[] = { "", "cuGraphLaunch", "cuEventSynchronize", "cuMemcpyHtoDAsync_v2" };
    *s = FRESH;
    s->hook = compute;
    s->devices = 2;
    s->fail_name = names[draw(4)];
    s->fail_at = s->fail_name[0] ? 1 + (int)draw(40) : 400 + (int)draw(1400); /* not before it is open */
    s->fail_result = trial % 3 == 2 && strcmp(s->fail_name, "cuGraphLaunch") == 0 ? RT_CU_OUT_OF_MEMORY : 700;
    s->sticky = s->fail_result == 700;
}

static void every_run_ends_with_its_data(void **state)
{
    const char *wanted = getenv("CUDA_LADDER_TRIALS");
    uint32_t trials = wanted ? (uint32_t)atoi(wanted) : 4, failed = 0, on_cpu = 0;
    rt_str first = { 0 };
    (void)state;
    for (uint32_t t = 0; t <= trials; t++) {
        rt_err e = { 0 };
        rt_job_again next = { 0 };
        rt_str lines = { 0 };
        char taken[48], before[48] = "";
        bool resume = false;
        int rc, processes = 0;
        drawn = t;
        do {
            if (t) plant(t);
            if (!t)
                *s = FRESH, s->hook = compute, s->devices = 2; /* nothing fails: what the others are compared with */
            rc = process(lines.data ? lines.data : "", resume, &next, taken, &e);
            failed += rc < 0;
            if (rc < 0 && !next.wanted) fail_msg("trial %u: %s: %s", t, taken, e.text);
            if (strcmp(taken, before) <= 0 && strcmp(taken, "cpu:0") != 0) fail_msg("trial %u: %s again", t, taken);
            snprintf(before, sizeof before, "%s", taken);
            rt_str_free(&lines);
            lines = next.failed;
            resume = next.resume;
        } while (rc < 0 && ++processes < 5);
        assert_true(rc >= 0 && processes <= 2);
        on_cpu += strcmp(taken, "cpu:0") == 0;
        assert_true(rt_path_exists(in_dir("o/config.json")));
        rt_str data = data_of("o");
        if (!t) first = data;
        assert_string_equal(data.data, first.data);
        if (t) rt_str_free(&data);
        rt_str_free(&lines);
        char command[500];
        snprintf(command, sizeof command, "rm -rf '%s'", in_dir("o"));
        assert_int_equal(system(command), 0);
    }
    rt_str_free(&first);
    printf("%u trials: %u devices failed, %u ended on the CPU\n", trials, failed, on_cpu);
    assert_true(failed > 0);
}

static int set_up(void **state)
{
    if (find_standin(state) != 0 || make_test_dir(state) != 0) return -1;
    put_run_inputs();
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(every_run_ends_with_its_data) };
    return cmocka_run_group_tests(tests, set_up, remove_test_dir);
}
