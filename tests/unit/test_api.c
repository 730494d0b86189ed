/* test_api.c - the public C API: structs of every size, what is refused, and one small run through all of it: plan,
 * distil, stop, resume, evaluate, generate, save. */
#include "train_case.h"

#include "../../include/retort.h"

#include "settings/settings.h"

#include <math.h>

static retort_error err;
static char teacher_path[512], student_path[512], data_path[512], eval_path[512], scratch_path[512];

/* The error says all of the words, which are separated by '|'. */
static void refused(int rc, int status, const char *words)
{
    rt_err e = { .status = err.status };
    snprintf(e.text, sizeof e.text, "%.490s", err.text);
    if (rc != status || err.status != status) fail_msg("status %d, not %d: %s", rc, status, err.text);
    assert_says(&e, words);
}

static void fine(int rc)
{
    if (rc != RETORT_OK) fail_msg("status %d: %s", rc, err.text);
    assert_int_equal(err.status, RETORT_OK);
    assert_int_equal(err.text[0], 0);
}

static void put_texts(const char *name, uint32_t first, uint32_t count)
{
    rt_str s = { 0 };
    for (uint32_t i = first; i < first + count; i++)
        rt_str_printf(&s, "{\"text\": \"the quick brown fox %u jumps over %u lazy dogs and %u wizards\"}\n", i,
                      i * 7 % 97, i * i % 89);
    put_file(name, s.data, s.len);
    rt_str_free(&s);
}

static int set_up(void **state)
{
    rt_model_config c = tiny_config("tiny-qwen2", 1);
    if (make_test_dir(state) != 0) return -1;
    snprintf(teacher_path, sizeof teacher_path, "%s", in_dir("teacher"));
    snprintf(student_path, sizeof student_path, "%s", in_dir("student"));
    snprintf(data_path, sizeof data_path, "%s", in_dir("d.jsonl"));
    snprintf(eval_path, sizeof eval_path, "%s", in_dir("e.jsonl"));
    snprintf(scratch_path, sizeof scratch_path, "%s", in_dir("scratch"));
    write_model(teacher_path, &c, RT_DTYPE_F32, false);
    c = tiny_config("tiny-llama", 2);
    write_model(student_path, &c, RT_DTYPE_F32, false);
    put_texts("d.jsonl", 0, 40);
    put_texts("e.jsonl", 100, 10);
    return mkdir(scratch_path, 0777);
}

static retort_places places(void) { return (retort_places){ .size = sizeof(retort_places), .scratch = scratch_path }; }

static void set(retort_settings *s, const char *name, const char *value)
{
    fine(retort_settings_set(s, name, value, &err));
}

static retort_settings *settings(const char *out)
{
    retort_settings *s;
    fine(retort_settings_new(&s, &err));
    set(s, "teacher", teacher_path);
    set(s, "student", student_path);
    set(s, "data", data_path);
    set(s, "eval_data", eval_path);
    set(s, "out", in_dir(out));
    set(s, "steps", "4");
    set(s, "batch", "4");
    set(s, "micro-batch", "2");
    set(s, "--seq-len", "64");
    set(s, "lr", "3e-3");
    set(s, "eval_every", "2");
    set(s, "threads", "2");
    return s;
}

static uint32_t files_in(const char *path)
{
    rt_arena a = { 0 };
    char **names;
    uint32_t count = 0;
    rt_err e = { 0 };
    assert_int_equal(rt_dir_list(&names, &count, &a, path, &e), RT_OK);
    rt_arena_free(&a);
    return count;
}

/* ---- small things ---- */

static void test_words(void **state)
{
    (void)state;
    assert_string_equal(retort_version(), RETORT_VERSION);
    assert_string_equal(retort_status_text(RETORT_NOMEM), "out of memory");
    uint32_t n = 0, known = 0;
    for (; retort_device_name(n); n++)
        known += strcmp(retort_device_name(n), "cpu") == 0 || strcmp(retort_device_name(n), "cuda") == 0;
    assert_int_equal(known, 2);
    assert_null(retort_device_name(n + 100));
    retort_model_facts facts = { .size = sizeof facts };
    retort_plan_facts plan = { .size = sizeof plan };
    retort_program_facts program = { .size = sizeof program };
    char *text;
    refused(retort_model_describe(NULL, &facts, &err), RETORT_USAGE, "model");
    refused(retort_plan_describe(NULL, &plan, &err), RETORT_USAGE, "plan");
    refused(retort_plan_program(NULL, 0, &program, &err), RETORT_USAGE, "plan");
    refused(retort_plan_text(NULL, 0, &text, &err), RETORT_USAGE, "plan");
    refused(retort_plan_json(NULL, 0, &text, &err), RETORT_USAGE, "plan");
    refused(retort_plan_preview(NULL, &text, &err), RETORT_USAGE, "plan");
    refused(retort_plan_cost(NULL, 1, &text, &err), RETORT_USAGE, "plan");
    refused(retort_plan_settings(NULL, &text, &err), RETORT_USAGE, "plan");
    retort_model_free(NULL);
    retort_settings_free(NULL);
    retort_plan_free(NULL);
    retort_generator_free(NULL);
    retort_text_free(NULL);
}

/* Structs that are smaller or larger than the library's. */
static void test_sizes(void **state)
{
    (void)state;
    struct {
        retort_places p;
        char more[16];
    } large = { .p = { .size = sizeof large } };
    retort_places bad = { 0 }, small = { .size = offsetof(retort_places, scratch), .scratch = (const char *)1 };
    retort_model *m = NULL;
    refused(retort_model_load(&m, student_path, &bad, &err), RETORT_USAGE, "retort_places|size|sizeof");
    bad.size = 3;
    refused(retort_model_load(&m, student_path, &bad, &err), RETORT_USAGE, "retort_places");
    bad.size = UINT32_MAX;
    refused(retort_model_load(&m, student_path, &bad, &err), RETORT_USAGE, "retort_places");
    large.more[15] = 1;
    refused(retort_model_load(&m, student_path, &large.p, &err), RETORT_UNSUPPORTED, "retort_places|older");
    assert_null(m);
    large.more[15] = 0;
    fine(retort_model_load(&m, student_path, &large.p, &err));
    retort_model_free(m);
    fine(retort_model_load(&m, student_path, &small, &err)); /* a member that the caller does not know is not read */
    struct {
        retort_model_facts f;
        char more[16];
    } wide;
    memset(&wide, 0x55, sizeof wide);
    wide.f.size = sizeof wide;
    fine(retort_model_describe(m, &wide.f, &err));
    assert_true(wide.f.size == sizeof wide && wide.f.layers > 0 && wide.more[0] == 0 && wide.more[15] == 0);
    retort_model_facts narrow;
    memset(&narrow, 0x55, sizeof narrow);
    narrow.size = offsetof(retort_model_facts, width);
    fine(retort_model_describe(m, &narrow, &err));
    assert_true(narrow.layers == wide.f.layers && narrow.width == 0x55555555u);
    narrow.size = 0;
    refused(retort_model_describe(m, &narrow, &err), RETORT_USAGE, "retort_model_facts");
    refused(retort_model_describe(m, NULL, &err), RETORT_USAGE, "retort_model_facts");
    assert_int_equal(retort_model_describe(m, NULL, NULL), RETORT_USAGE); /* no error struct: the status is enough */
    retort_model_free(m);
}

static void test_model(void **state)
{
    (void)state;
    retort_model *m = NULL;
    retort_model_facts f = { .size = sizeof f };
    refused(retort_model_load(&m, in_dir("none"), NULL, &err), RETORT_NOT_FOUND, "none");
    refused(retort_model_load(&m, NULL, NULL, &err), RETORT_USAGE, "model");
    refused(retort_model_load(NULL, student_path, NULL, &err), RETORT_USAGE, "out");
    assert_null(m);
    fine(retort_model_load(&m, student_path, NULL, &err));
    fine(retort_model_describe(m, &f, &err));
    assert_string_equal(f.format, "hf");
    assert_string_equal(f.family, "llama");
    assert_string_equal(f.path, student_path);
    assert_true(f.width == 32 && f.hidden == 48 && f.has_tokenizer && f.has_chat_template && f.context > 0);
    assert_true(f.parameters > 0 && f.bytes >= 4 * f.parameters && f.tensors > 0);
    retort_model_free(m);
}

/* ---- settings ---- */

static void test_settings(void **state)
{
    (void)state;
    retort_settings *s;
    char *text = NULL, *mapping = NULL;
    retort_setting_facts f = { .size = sizeof f };
    static const char yaml[] = "learning_rate: 5e-05\nseed: 7\n", wrong[] = "seed: 8\nsed: 9\n";
    fine(retort_settings_new(&s, &err));
    char value[] = "a.jsonl";
    set(s, "data", value);
    value[0] = 'X'; /* it was copied */
    set(s, "data", "b");
    refused(retort_settings_set(s, "lrr", "1", &err), RETORT_USAGE, "'lrr'|did you mean lr?");
    refused(retort_settings_set(s, "lr", "fast", &err), RETORT_USAGE, "--lr|'fast'");
    refused(retort_settings_set(s, "lr", NULL, &err), RETORT_USAGE, "value");
    fine(retort_settings_set_yaml(s, yaml, strlen(yaml), "y", &mapping, &err));
    assert_string_equal(mapping, "learning_rate -> --lr 5e-05\n");
    retort_text_free(mapping);
    refused(retort_settings_set_yaml(s, wrong, strlen(wrong), "w.yaml", NULL, &err), RETORT_INVALID,
            "w.yaml:2: |'sed'");
    fine(retort_settings_yaml(s, &text, &err));
    assert_non_null(strstr(text, "\n  - a.jsonl\n  - b\n"));
    assert_non_null(strstr(text, "\nlr: 5.0e-05 "));
    assert_non_null(strstr(text, "\nseed: 7 "));
    retort_text_free(text);
    retort_settings_free(s);
    fine(retort_settings_new(&s, &err));
    fine(retort_settings_yaml(s, &text, &err));
    assert_string_equal(text, "");
    retort_text_free(text);
    retort_settings_free(s);
    uint32_t n = 0;
    for (; retort_setting_describe(n, &f, &err) == RETORT_OK; n++) assert_true(f.name[0] && f.type[0] && f.help[0]);
    refused(err.status, RETORT_NOT_FOUND, "settings");
    assert_int_equal(n, RT_SETTING_COUNT_ALL);
}

/* ---- a run ---- */

typedef struct seen {
    uint32_t ready, steps, evaluations, notes, saved, stop_after;
    double loss[16];
    retort_plan_facts facts;
    char *settings;
} seen;

static void on_ready(void *ctx, const retort_plan *p)
{
    seen *v = ctx;
    retort_error e;
    char *preview;
    v->ready++;
    v->facts.size = sizeof v->facts;
    assert_int_equal(retort_plan_describe(p, &v->facts, &e), RETORT_OK);
    assert_int_equal(retort_plan_settings(p, &v->settings, &e), RETORT_OK);
    assert_int_equal(retort_plan_preview(p, &preview, &e), RETORT_OK); /* the run is where it was afterwards */
    retort_text_free(preview);
}
static void on_step(void *ctx, const retort_step *s)
{
    seen *v = ctx;
    assert_true(s->step >= 1 && s->step <= 15 && isfinite(s->loss) && s->trained > 0 && s->lr >= 0);
    v->loss[s->step] = s->loss;
    v->steps++;
}
static void on_evaluated(void *ctx, uint32_t step, const retort_evaluation *e, int best)
{
    seen *v = ctx;
    (void)step, (void)best;
    assert_true(e->has_teacher && isfinite(e->kl.mean) && e->documents == 10);
    v->evaluations++;
}
static void on_note(void *ctx, const char *text)
{
    seen *v = ctx;
    assert_true(text[0]);
    v->notes++;
}
static void on_saved(void *ctx, const char *path)
{
    seen *v = ctx;
    rt_arena a = { 0 };
    rt_err e = { 0 };
    char **names, out[600];
    uint32_t count, kept = 0;
    assert_true(rt_path_is_dir(path));
    snprintf(out, sizeof out, "%.*s", (int)(rt_path_base(path) - path), path);
    assert_int_equal(rt_dir_list(&names, &count, &a, out, &e), RT_OK);
    for (uint32_t i = 0; i < count; i++) kept += strncmp(names[i], "checkpoint-", 11) == 0;
    rt_arena_free(&a);
    assert_true(kept <= 2); /* older ones go at once, not when the run ends */
    v->saved++;
}
static int on_stop(void *ctx)
{
    const seen *v = ctx;
    return v->stop_after && v->steps >= v->stop_after;
}

static retort_events events_of(seen *v)
{
    return (retort_events){ .size = sizeof(retort_events),
                            .ctx = v,
                            .note = on_note,
                            .ready = on_ready,
                            .step = on_step,
                            .evaluated = on_evaluated,
                            .saved = on_saved,
                            .stop = on_stop };
}

static void check_plan(const retort_plan *p, const retort_plan_facts *f)
{
    char *text = NULL;
    retort_program_facts g = { .size = sizeof g };
    assert_true(f->programs == 12 && f->steps == 4 && f->batch == 4 && f->micro_batch == 2 && f->seq_len == 64);
    assert_int_equal(f->memory_parameters + f->memory_gradients + f->memory_state + f->memory_step_values +
                         f->memory_inputs + f->memory_outputs + f->memory_activations,
                     f->memory_total);
    assert_true(f->peak_bytes > 0 && f->peak_bytes <= f->memory_activations && f->peak_program[0] && f->peak_op[0]);
    assert_true(f->records == 40 && f->rows_per_epoch > 0 && f->held_rows > 0 && f->trained_parameters > 0);
    for (uint32_t i = 0; i < f->programs; i++) {
        fine(retort_plan_program(p, i, &g, &err));
        assert_true(g.name[0] && g.ops > 0 && g.bytes > 0 && (g.flops > 0 || strcmp(g.name, "start") == 0));
        fine(retort_plan_text(p, i, &text, &err));
        assert_non_null(strstr(text, g.name));
        retort_text_free(text);
        fine(retort_plan_json(p, i, &text, &err));
        json_t *j = json_loads(text, 0, NULL);
        assert_true(json_is_object(j));
        json_decref(j);
        retort_text_free(text);
    }
    refused(retort_plan_program(p, 12, &g, &err), RETORT_NOT_FOUND, "program 12|12");
    refused(retort_plan_text(p, 99, &text, &err), RETORT_NOT_FOUND, "program 99");
}

static void check_preview(const retort_plan *p)
{
    char *text = NULL;
    refused(retort_plan_preview(p, NULL, &err), RETORT_USAGE, "text");
    fine(retort_plan_preview(p, &text, &err));
    json_t *j = json_loads(text, 0, NULL), *overlap = json_object_get(j, "overlap"),
           *pieces = json_object_get(json_array_get(json_object_get(j, "samples"), 0), "pieces");
    assert_string_equal(json_string_value(json_object_get(j, "objective")),
                        "loss = 0.10 CE + 0.90 KL(teacher||student), T 1, 98 % of tokens trained");
    assert_int_equal(json_integer_value(json_object_get(j, "records")), 40);
    assert_int_equal(json_integer_value(json_object_get(overlap, "texts")), 10);
    assert_int_equal(json_integer_value(json_object_get(overlap, "rows_read")), 16);
    assert_int_equal(json_array_size(json_object_get(j, "samples")), 2);
    assert_int_equal(json_array_size(pieces), 2); /* the first token, which nothing predicts, and the rest */
    assert_true(json_is_false(json_object_get(json_array_get(pieces, 0), "trained")));
    assert_true(json_is_true(json_object_get(json_array_get(pieces, 1), "trained")));
    json_decref(j);
    retort_text_free(text);
}

/* What `retort plan --json` prints: the figures of the plan, and times where they are asked for. */
static void check_cost(const retort_plan *p, const retort_plan_facts *f)
{
    char *text = NULL;
    refused(retort_plan_cost(p, 0, NULL, &err), RETORT_USAGE, "text");
    for (int timed = 0; timed < 2; timed++) {
        fine(retort_plan_cost(p, timed, &text, &err));
        json_t *j = json_loads(text, 0, NULL), *memory = json_object_get(j, "memory"),
               *seconds = json_object_get(j, "seconds");
        assert_int_equal(json_integer_value(json_object_get(memory, "total")), f->memory_total);
        assert_int_equal(json_integer_value(json_object_get(json_object_get(j, "flops"), "update")), f->flops_update);
        assert_int_equal(timed, seconds && json_real_value(json_object_get(seconds, "step")) > 0);
        json_decref(j);
        retort_text_free(text);
    }
}

/* What a plan says is what the run has; and it leaves nothing behind. */
static void test_plan(void **state)
{
    (void)state;
    retort_settings *s = settings("planned");
    const retort_places where = places();
    retort_run_options o = { .size = sizeof o, .places = &where };
    retort_plan *p = NULL;
    retort_plan_facts f = { .size = sizeof f };
    char *text = NULL;
    fine(retort_plan_new(&p, s, &o, &err));
    assert_int_equal(files_in(scratch_path), 1);
    fine(retort_plan_describe(p, &f, &err));
    check_plan(p, &f);
    check_preview(p);
    check_cost(p, &f);
    fine(retort_plan_settings(p, &text, &err));
    assert_non_null(strstr(text, "/planned"));
    assert_non_null(strstr(text, "\nwarmup: "));
    rt_settings back = { 0 };
    rt_arena a = { 0 };
    rt_err e = { 0 };
    if (rt_settings_from_yaml(&back, text, strlen(text), "plan", &a, NULL, &e) < 0) fail_msg("%s", e.text);
    rt_arena_free(&a);
    retort_text_free(text);
    retort_plan_free(p);
    assert_int_equal(files_in(scratch_path), 0);
    assert_false(rt_path_exists(in_dir("planned")));

    set(s, "out", in_dir("ran"));
    seen v = { 0 };
    retort_events events = events_of(&v);
    retort_summary done = { .size = sizeof done };
    o.events = &events;
    fine(retort_distill(s, &o, &done, &err));
    retort_text_free(v.settings);
    assert_true(v.ready == 1 && v.steps == 4 && v.evaluations == 3 && v.saved > 2 && v.notes > 0);
    assert_int_equal(v.facts.memory_total, f.memory_total);
    assert_int_equal(v.facts.trained_parameters, f.trained_parameters);
    assert_true(done.before.has_teacher && done.after.positions > 0 && done.saved_step > 0);
    assert_true(done.after.cross_entropy.mean < done.before.cross_entropy.mean);
    refused(retort_distill(s, &o, &done, &err), RETORT_INVALID, "ran|not empty");
    retort_settings_free(s);
}

/* The second run comes after the first, into a folder of its own; `ready` is that of the first. */
static void test_control(void **state)
{
    (void)state;
    retort_settings *s = settings("judged");
    seen v = { 0 };
    retort_events events = events_of(&v);
    retort_run_options o = { .size = sizeof o, .events = &events };
    retort_summary done = { .size = sizeof done };
    events.evaluated = NULL; /* it looks for a teacher */
    set(s, "control", "on");
    fine(retort_distill(s, &o, &done, &err));
    retort_text_free(v.settings);
    assert_true(v.ready == 1 && v.steps == 8);
    assert_true(done.control_saved.positions == done.saved.positions && !done.control_saved.has_teacher);
    assert_true(done.control_saved.cross_entropy.mean < done.before.cross_entropy.mean);
    assert_true(done.control_after.cross_entropy.mean != done.after.cross_entropy.mean);
    assert_true(rt_path_exists(in_dir("judged/run/control/config.json")));
    retort_settings_free(s);
}

static void test_stop_and_resume(void **state)
{
    (void)state;
    retort_settings *s = settings("whole"), *t = settings("parts");
    seen a = { 0 }, b = { 0 };
    retort_events events = events_of(&a);
    retort_run_options o = { .size = sizeof o, .events = &events };
    fine(retort_distill(s, &o, NULL, &err));
    retort_text_free(a.settings);
    events = events_of(&b);
    b.stop_after = 2;
    refused(retort_distill(t, &o, NULL, &err), RETORT_INTERRUPTED, "step 2 of 4");
    retort_text_free(b.settings);
    assert_int_equal(b.steps, 2);
    b.stop_after = 0;
    o.resume = 1;
    retort_settings *u;
    fine(retort_settings_new(&u, &err));
    set(u, "out", in_dir("parts"));
    fine(retort_distill(u, &o, NULL, &err));
    retort_text_free(b.settings);
    assert_int_equal(b.steps, 4);
    for (int i = 1; i <= 4; i++) assert_memory_equal(&a.loss[i], &b.loss[i], sizeof a.loss[i]);
    /* Once more, when it has ended: nothing is done, and the summary is that of its record. */
    retort_summary again = { .size = sizeof again };
    uint32_t saved = b.saved;
    b.settings = NULL;
    fine(retort_distill(u, &o, &again, &err));
    assert_null(b.settings);
    assert_true(b.steps == 4 && b.saved == saved && again.saved_step > 0);
    assert_true(again.saved.cross_entropy.mean > 0 && again.before.cross_entropy.mean > 0 && again.after.positions > 0);
    retort_settings_free(s);
    retort_settings_free(t);
    retort_settings_free(u);
}

static void test_refused_runs(void **state)
{
    (void)state;
    retort_settings *s = settings("refused"), *none;
    retort_run_options o = { .size = sizeof o, .resume = 1 };
    retort_summary bad = { 0 };
    retort_plan *p = NULL;
    fine(retort_settings_new(&none, &err));
    refused(retort_train(s, NULL, NULL, &err), RETORT_INVALID, "--teacher|distill");
    refused(retort_distill(none, NULL, NULL, &err), RETORT_USAGE, "--teacher|train");
    refused(retort_distill(s, &o, NULL, &err), RETORT_NOT_FOUND, "no run");
    refused(retort_plan_new(&p, s, &o, &err), RETORT_USAGE, "resume");
    refused(retort_distill(s, NULL, &bad, &err), RETORT_USAGE, "retort_summary|size");
    refused(retort_distill(NULL, NULL, NULL, &err), RETORT_USAGE, "settings");
    set(s, "device", "abacus");
    refused(retort_distill(s, NULL, NULL, &err), RETORT_NO_BACKEND, "abacus|cpu");
    assert_false(rt_path_exists(in_dir("refused")));
    retort_settings_free(s);
    retort_settings_free(none);
}

static void test_train_alone(void **state)
{
    (void)state;
    retort_settings *s;
    retort_summary done = { .size = sizeof done };
    fine(retort_settings_new(&s, &err));
    set(s, "student", student_path);
    set(s, "data", data_path);
    set(s, "out", in_dir("alone"));
    set(s, "steps", "2");
    set(s, "batch", "2");
    set(s, "seq_len", "64");
    fine(retort_train(s, NULL, &done, &err));
    assert_true(!done.after.has_teacher && done.after.positions > 0);
    retort_settings_free(s);
}

/* ---- evaluation, generation, saving ---- */

static void test_evaluate(void **state)
{
    (void)state;
    retort_model *m, *t;
    retort_evaluation alone, both, itself, rounded;
    const retort_places where = places();
    const char *data[] = { eval_path };
    retort_evaluate_options o = { .size = sizeof o, .batch = 2, .seq_len = 64, .threads = 2 };
    fine(retort_model_load(&m, in_dir("ran"), &where, &err));
    fine(retort_model_load(&t, teacher_path, &where, &err));
    refused(retort_evaluate(m, NULL, &(const char *){ NULL }, 1, &o, &alone, &err), RETORT_USAGE, "null");
    fine(retort_evaluate(m, NULL, data, 1, &o, &alone, &err));
    fine(retort_evaluate(m, t, data, 1, &o, &both, &err));
    fine(retort_evaluate(t, t, data, 1, &o, &itself, &err));
    assert_true(!alone.has_teacher && both.has_teacher && alone.documents == 10);
    assert_true(fabs(alone.cross_entropy.mean - both.cross_entropy.mean) < 1e-9);
    assert_true(both.kl.mean > 0 && fabs(itself.kl.mean) < 1e-6 && itself.agreement.mean == 1.0);
    assert_int_equal(files_in(scratch_path), 0);
    o.teacher_weights = "bf16";
    fine(retort_evaluate(m, t, data, 1, &o, &rounded, &err));
    assert_true(rounded.kl.mean != both.kl.mean && fabs(rounded.kl.mean - both.kl.mean) < 1e-3);
    assert_true(rounded.cross_entropy.mean == both.cross_entropy.mean);
    refused(retort_evaluate(m, NULL, data, 1, &o, &alone, &err), RETORT_USAGE, "--teacher-weights needs --teacher");
    o.teacher_weights = NULL;
    refused(retort_evaluate(m, NULL, NULL, 0, NULL, &alone, &err), RETORT_USAGE, "data");
    refused(retort_evaluate(NULL, NULL, data, 1, NULL, &alone, &err), RETORT_USAGE, "model");
    data[0] = "/nowhere.jsonl";
    refused(retort_evaluate(m, NULL, data, 1, NULL, &alone, &err), RETORT_NOT_FOUND, "nowhere");
    o.seq_len = 1;
    data[0] = eval_path;
    refused(retort_evaluate(m, NULL, data, 1, &o, &alone, &err), RETORT_INVALID, "--seq-len");
    assert_int_equal(files_in(scratch_path), 0);
    retort_model_free(m);
    retort_model_free(t);
}

typedef struct heard {
    uint32_t tokens, limit;
    rt_str text;
} heard;

static int on_token(void *ctx, uint32_t id, const char *text, size_t len)
{
    heard *h = ctx;
    (void)id;
    rt_str_append_n(&h->text, text, len);
    return ++h->tokens == h->limit;
}

/* Counts the ids that no token has. */
static int on_id(void *ctx, uint32_t id, const char *text, size_t len)
{
    heard *h = ctx;
    if (id == UINT32_MAX || id < RT_BYTE_TOKENS) return 0;
    h->tokens++;
    assert_true(len == 0 && text[0] == 0);
    return 0;
}

static void test_generate(void **state)
{
    (void)state;
    retort_model *m;
    retort_generator *g = NULL;
    heard h = { .limit = 0 };
    retort_prompt_options o = { .size = sizeof o, .max_new = 12, .raw = 1, .token = on_token, .ctx = &h };
    retort_generated made = { .size = sizeof made };
    char *one = NULL, *two = NULL;
    fine(retort_model_load(&m, teacher_path, NULL, &err));
    fine(retort_generator_new(&g, m, NULL, &err));
    fine(retort_generate(g, "the quick", &o, &one, &made, &err));
    assert_int_equal(made.prompt_tokens, 9);
    assert_true(made.tokens <= 12 && (made.tokens == 12 || made.stopped));
    assert_string_equal(h.text.data ? h.text.data : "", one);
    fine(retort_generate(g, "the quick", &o, &two, NULL, &err));
    assert_string_equal(one, two); /* begins anew */
    h.tokens = 0;
    h.limit = 3;
    fine(retort_generate(g, "the quick", &o, NULL, &made, &err));
    assert_true(h.tokens <= 4 && made.tokens <= 3 && !made.stopped); /* the fourth: the rest of a letter */
    o.system = "be brief";
    refused(retort_generate(g, "hello", &o, NULL, NULL, &err), RETORT_INVALID, "system|--raw");
    o.raw = 0;
    fine(retort_generate(g, "hello", &o, NULL, &made, &err));
    assert_true(made.prompt_tokens > strlen("hello") + strlen("be brief"));
    refused(retort_generate(g, "", &o, NULL, NULL, &err), RETORT_INVALID, "empty");
    refused(retort_generate(NULL, "x", NULL, NULL, NULL, &err), RETORT_USAGE, "generator");
    retort_generator_free(g);
    g = NULL;
    /* Rows of the embedding that no token has are chosen by an untrained model too: they say nothing. */
    retort_generator_options odd = { .size = sizeof odd, .repetition_penalty = 3 };
    fine(retort_generator_new(&g, m, &odd, &err));
    o = (retort_prompt_options){ .size = sizeof o, .max_new = 60, .raw = 1, .token = on_id, .ctx = &h };
    h.tokens = 0;
    fine(retort_generate(g, "the quick", &o, NULL, &made, &err));
    assert_true(h.tokens > 0 && made.tokens == 60);
    retort_generator_free(g);
    g = NULL;
    retort_generator_options bad = { .size = sizeof bad, .top_p = 2 };
    refused(retort_generator_new(&g, m, &bad, &err), RETORT_USAGE, "--top-p");
    assert_null(g);
    retort_text_free(one);
    retort_text_free(two);
    rt_str_free(&h.text);
    retort_model_free(m);
}

static int stop_at_once(void *ctx, const char *what, uint64_t done, uint64_t total)
{
    (void)ctx, (void)what, (void)done, (void)total;
    return 1;
}

static void test_save(void **state)
{
    (void)state;
    retort_model *m, *again;
    retort_model_facts f = { .size = sizeof f };
    retort_save_options o = { .size = sizeof o };
    fine(retort_model_load(&m, teacher_path, NULL, &err));
    fine(retort_model_save(m, in_dir("m.gguf"), NULL, &err));
    refused(retort_model_save(m, in_dir("m.gguf"), NULL, &err), RETORT_INVALID, "there already|--force");
    o.replace = 1;
    o.dtype = "q8_0";
    fine(retort_model_save(m, in_dir("m.gguf"), &o, &err));
    fine(retort_model_load(&again, in_dir("m.gguf"), NULL, &err));
    fine(retort_model_describe(again, &f, &err));
    assert_string_equal(f.format, "gguf");
    assert_true(f.has_tokenizer && f.width == 32);
    refused(retort_model_save(again, in_dir("m.gguf"), &o, &err), RETORT_INVALID, "holds the input");
    retort_model_free(again);
    refused(retort_model_save(m, teacher_path, &o, &err), RETORT_INVALID, "holds the input");
    /* What lies in a folder that would be replaced is lost with it. */
    fine(retort_model_save(m, in_dir("folder"), NULL, &err));
    fine(retort_model_save(m, in_dir("folder/inner.gguf"), NULL, &err));
    fine(retort_model_load(&again, in_dir("folder/inner.gguf"), NULL, &err));
    refused(retort_model_save(again, in_dir("folder"), &o, &err), RETORT_INVALID, "holds the input");
    assert_true(rt_path_exists(in_dir("folder/inner.gguf")));
    retort_model_free(again);
    o.dtype = "q99";
    refused(retort_model_save(m, in_dir("x"), &o, &err), RETORT_USAGE, "'q99'");
    o = (retort_save_options){ .size = sizeof o, .format = "zip" };
    refused(retort_model_save(m, in_dir("x"), &o, &err), RETORT_USAGE, "'zip'|gguf");
    o = (retort_save_options){ .size = sizeof o, .progress = stop_at_once };
    refused(retort_model_save(m, in_dir("x"), &o, &err), RETORT_INTERRUPTED, "not written");
    refused(retort_model_save(m, "", NULL, &err), RETORT_USAGE, "path");
    assert_false(rt_path_exists(in_dir("x")));
    retort_model_free(m);
}

/* ---- out of memory ---- */

static int to_rt(int rc, rt_err *e)
{
    e->status = err.status;
    snprintf(e->text, sizeof e->text, "%.490s", err.text);
    return rc;
}

static int load_and_free(void *ctx, rt_err *e)
{
    retort_model *m;
    const retort_places where = places();
    int rc = retort_model_load(&m, ctx, &where, &err);
    if (rc == RETORT_OK) retort_model_free(m);
    return to_rt(rc, e);
}

static int make_settings(void *ctx, rt_err *e)
{
    static const char yaml[] = "learning_rate: 5e-05\nout: x y\n";
    retort_settings *s = NULL;
    char *mapping = NULL, *text = NULL;
    int rc = retort_settings_new(&s, &err);
    (void)ctx;
    if (rc == RETORT_OK) rc = retort_settings_set(s, "data", "a", &err);
    if (rc == RETORT_OK) rc = retort_settings_set_yaml(s, yaml, strlen(yaml), "y", &mapping, &err);
    if (rc == RETORT_OK) rc = retort_settings_yaml(s, &text, &err);
    retort_text_free(mapping);
    retort_text_free(text);
    retort_settings_free(s);
    return to_rt(rc, e);
}

static void test_out_of_memory(void **state)
{
    (void)state;
    fail_each(load_and_free, student_path, 0);
    fail_each(make_settings, NULL, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_words),           cmocka_unit_test(test_sizes),        cmocka_unit_test(test_model),
        cmocka_unit_test(test_settings),        cmocka_unit_test(test_plan),         cmocka_unit_test(test_control),
        cmocka_unit_test(test_stop_and_resume), cmocka_unit_test(test_refused_runs), cmocka_unit_test(test_train_alone),
        cmocka_unit_test(test_evaluate),        cmocka_unit_test(test_generate),     cmocka_unit_test(test_save),
        cmocka_unit_test(test_out_of_memory),
    };
    return cmocka_run_group_tests(tests, set_up, remove_test_dir);
}
