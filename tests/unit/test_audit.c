/* test_audit.c - `retort verify RUN` against someone who knows the files: numbers are changed and every hash that
 * covers them is written anew, seal included, so that only working out again can find it. An untouched run passes. */
#include "run_case.h"

#include "base/json.h"
#include "evidence/evidence.h"
#include "job/audit_run.h"

#include <math.h>

static rt_dev *dev;
static rt_pool *pool;

/* ---- verifying ---- */

typedef struct told {
    char failed[32][32]; /* names of checks */
    char text[500];      /* of the first */
    uint32_t count;
} told;

static void listen(void *ctx, const rt_check *c)
{
    told *t = ctx;
    if (c->outcome != RT_CHECK_FAIL) return;
    if (!t->count) snprintf(t->text, sizeof t->text, "%s", c->text);
    snprintf(t->failed[t->count++ % 32], sizeof t->failed[0], "%s", c->name);
}

static int verify(const char *run, told *t, rt_audit_result *v, rt_err *e)
{
    static const rt_hub_env env;
    rt_audit_opts o = { .env = &env, .dev = dev, .pool = pool, .report = listen, .ctx = t };
    *t = (told){ 0 };
    return rt_audit_run(in_dir(run), &o, v, e);
}

static bool failed(const told *t, const char *name)
{
    for (uint32_t i = 0; i < t->count; i++)
        if (strcmp(t->failed[i], name) == 0) return true;
    return false;
}

/* ---- a run, and its files to be put back ---- */

static const char *const kept_names[] = { "run/manifest.json", "run/metrics.jsonl", "run/verdict.json",
                                          "run/settings.json", "model.safetensors" };
enum { KEPT = sizeof kept_names / sizeof *kept_names };
static rt_str kept[KEPT];

static const char *file_of(const char *name)
{
    static char path[512];
    snprintf(path, sizeof path, "%s/%s", in_dir("run"), name);
    return path;
}

static void keep_files(void)
{
    rt_err e = { 0 };
    for (int i = 0; i < KEPT; i++)
        if (rt_file_read(file_of(kept_names[i]), 1 << 24, &kept[i], &e) < 0) fail_msg("%s", e.text);
}

static void put_back(void)
{
    rt_err e = { 0 };
    for (int i = 0; i < KEPT; i++)
        if (rt_file_write(file_of(kept_names[i]), kept[i].data, kept[i].len, &e) < 0) fail_msg("%s", e.text);
}

/* ---- forging ---- */

static json_t *manifest; /* being forged */

static json_t *at(json_t *j, const char *a, const char *b, const char *c)
{
    j = json_object_get(j, a);
    if (b) j = json_object_get(j, b);
    return c ? json_object_get(j, c) : j;
}

/* Changes the numbers of the lines of the log for which `change` answers true. */
static void forge_lines(bool (*change)(json_t *line))
{
    rt_err e = { 0 };
    rt_str out = { 0 };
    uint32_t changed = 0;
    for (char *line = strtok(kept[1].data, "\n"); line; line = strtok(NULL, "\n")) {
        json_t *j = json_loads(line, 0, NULL);
        assert_non_null(j);
        changed += change(j);
        char *text = json_dumps(j, JSON_COMPACT | JSON_REAL_PRECISION(17));
        rt_str_printf(&out, "%s\n", text);
        rt_free(text);
        json_decref(j);
    }
    for (size_t i = 0; i < kept[1].len; i++)
        if (!kept[1].data[i]) kept[1].data[i] = '\n'; /* strtok's */
    assert_true(changed > 0);
    assert_int_equal(rt_file_write(file_of("run/metrics.jsonl"), out.data, out.len, &e), RT_OK);
    rt_str_free(&out);
}

/* Every hash of the manifest and its seal are those of the forged files. */
static void seal_again(void)
{
    rt_err e = { 0 };
    json_t *files = json_object();
    if (rt_manifest_files(files, in_dir("run"), NULL, &e) < 0) fail_msg("%s", e.text);
    json_object_del(manifest, "hash");
    json_object_set_new(manifest, "files", files);
    if (rt_checked_json_write(file_of("run/manifest.json"), manifest, NULL, &e) < 0) fail_msg("%s", e.text);
}

static bool is_step(const json_t *j, int step)
{
    return strcmp(json_string_value(json_object_get(j, "event")), "step") == 0 &&
           json_integer_value(json_object_get(j, "step")) == step;
}

static bool is_eval(const json_t *j, int step)
{
    return strcmp(json_string_value(json_object_get(j, "event")), "eval") == 0 &&
           json_integer_value(json_object_get(j, "step")) == step;
}

static void scale(json_t *j, const char *key, double by)
{
    json_t *v = json_object_get(j, key);
    if (json_is_array(v)) {
        json_array_set_new(v, 0, json_real(by * json_number_value(json_array_get(v, 0))));
        return;
    }
    json_object_set_new(j, key,
                        json_is_integer(v) ? json_integer((json_int_t)(by * (double)json_integer_value(v)))
                                           : json_real(by * json_number_value(v)));
}

/* A step with smaller losses, its parts consistent. */
static bool smaller(json_t *j, int step)
{
    if (!is_step(j, step)) return false;
    scale(j, "ce", 0.5);
    scale(j, "divergence", 0.5);
    json_object_set_new(j, "loss",
                        json_real(0.1 * json_number_value(json_object_get(j, "ce")) +
                                  0.9 * json_number_value(json_object_get(j, "divergence"))));
    return true;
}
static bool first_smaller(json_t *j) { return smaller(j, 1); }
static bool loss_alone(json_t *j)
{
    if (is_step(j, 5)) scale(j, "loss", 0.5);
    return is_step(j, 5);
}
static bool other_rate(json_t *j)
{
    if (is_step(j, 7)) scale(j, "lr", 1.01);
    return is_step(j, 7);
}
static bool other_clip(json_t *j)
{
    if (is_step(j, 3)) scale(j, "clip", 0.9);
    return is_step(j, 3);
}
static bool fewer_trained(json_t *j)
{
    if (is_step(j, 4))
        json_object_set_new(j, "trained", json_integer(json_integer_value(json_object_get(j, "trained")) - 1));
    return is_step(j, 4);
}
static bool step_twice(json_t *j)
{
    if (is_step(j, 6)) json_object_set_new(j, "step", json_integer(5));
    return is_step(j, 5);
}
static bool worse_before(json_t *j)
{
    if (is_eval(j, 0)) scale(j, "ce", 1.5), scale(j, "forward_kl", 1.5), scale(j, "divergence", 1.5);
    return is_eval(j, 0);
}
static bool better_after(json_t *j)
{
    if (is_eval(j, RUN_STEPS)) scale(j, "ce", 0.5), scale(j, "forward_kl", 0.5), scale(j, "divergence", 0.5);
    return is_eval(j, RUN_STEPS);
}
static bool better_teacher(json_t *j)
{
    if (is_eval(j, RUN_STEPS)) scale(j, "teacher_ce", 0.5);
    return is_eval(j, RUN_STEPS);
}
static bool other_positions(json_t *j)
{
    if (is_eval(j, RUN_STEPS)) json_object_set_new(j, "positions", json_integer(7));
    return is_eval(j, RUN_STEPS);
}

/* The verdict that follows from the forged log and manifest. */
static void judge_again(void)
{
    rt_err e = { 0 };
    rt_findings f;
    rt_str text = { 0 };
    rt_evidence v = { .teacher = true, .ce_weight = 0.1, .kd_weight = 0.9 };
    v.ce_weight = json_number_value(at(manifest, "settings", "ce_weight", NULL));
    v.kd_weight = json_number_value(at(manifest, "settings", "kd_weight", NULL));
    if (rt_evidence_from_json(&v, json_object_get(manifest, "measured"), &e) < 0) fail_msg("%s", e.text);
    rt_hash_from_json(at(manifest, "student", "content_hash", NULL), &v.student_hash);
    rt_hash_from_json(at(manifest, "teacher", "content_hash", NULL), &v.teacher_hash);
    assert_int_equal(rt_file_read(file_of("run/metrics.jsonl"), 1 << 24, &text, &e), RT_OK);
    for (char *line = strtok(text.data, "\n"); line; line = strtok(NULL, "\n")) {
        json_t *j = json_loads(line, 0, NULL);
        rt_evidence_take_line(&v, j);
        json_decref(j);
    }
    rt_falsify(&f, &v);
    json_t *j = rt_findings_to_json(&f);
    char *out = json_dumps(j, JSON_INDENT(2));
    assert_int_equal(rt_file_write(file_of("run/verdict.json"), out, strlen(out), &e), RT_OK);
    rt_free(out);
    json_decref(j);
    rt_str_free(&text);
}

/* A weight of the model at the root, with the hash of its content. */
static void forge_weight(void)
{
    rt_err e = { 0 };
    rt_hash128 h;
    rt_model_file *m = NULL;
    const size_t at = kept[4].len - 2 - 4 * 1000; /* an exponent or a high digit of a f32, and not of the last */
    kept[4].data[at] ^= 0x10;
    assert_int_equal(rt_file_write(file_of("model.safetensors"), kept[4].data, kept[4].len, &e), RT_OK);
    kept[4].data[at] ^= 0x10;
    if (rt_manifest_output(&m, in_dir("run"), false, &e) < 0) fail_msg("%s", e.text);
    assert_int_equal(rt_model_content_hash(m, pool, &h, NULL, &e), RT_OK);
    json_object_set_new(json_object_get(manifest, "output"), "content_hash", rt_hash_to_json(h));
    rt_model_file_close(m);
}

static void forge_verdict(const char *from, const char *to)
{
    rt_err e = { 0 };
    rt_str out = { 0 };
    char *where = strstr(kept[2].data, from);
    assert_non_null(where);
    rt_str_append_n(&out, kept[2].data, (size_t)(where - kept[2].data));
    rt_str_append(&out, to);
    rt_str_append(&out, where + strlen(from));
    assert_int_equal(rt_file_write(file_of("run/verdict.json"), out.data, out.len, &e), RT_OK);
    rt_str_free(&out);
}

/* Both records of a setting, with their hashes; null: it is in neither. */
static void forge_setting(const char *key, json_t *value)
{
    rt_err e = { 0 };
    json_t *s = json_loads(kept[3].data, 0, NULL), *sessions = json_object_get(manifest, "sessions");
    rt_hash128 bound;
    if (!value) {
        json_object_del(s, key);
        json_object_del(json_object_get(manifest, "settings"), key);
    } else {
        json_object_set(s, key, value);
        json_object_set_new(json_object_get(manifest, "settings"), key, value);
    }
    assert_int_equal(rt_manifest_bound_hash(json_object_get(manifest, "settings"), &bound, &e), RT_OK);
    json_object_set_new(json_array_get(sessions, 0), "settings_hash", rt_hash_to_json(bound));
    json_object_del(s, "hash");
    assert_int_equal(rt_checked_json_write(file_of("run/settings.json"), s, NULL, &e), RT_OK);
    json_decref(s);
}

static void f_first(void) { forge_lines(first_smaller); }
static void f_loss(void) { forge_lines(loss_alone); }
static void f_rate(void) { forge_lines(other_rate); }
static void f_clip(void) { forge_lines(other_clip); }
static void f_trained(void)
{
    forge_lines(fewer_trained);
    json_t *n = at(manifest, "measured", "rows", "trained");
    json_object_set_new(at(manifest, "measured", "rows", NULL), "trained", json_integer(json_integer_value(n) - 1));
    judge_again();
}
static void f_twice(void) { forge_lines(step_twice); }
static void f_before(void) { forge_lines(worse_before), judge_again(); }
static void f_after(void) { forge_lines(better_after), judge_again(); }
static void f_saved(void)
{
    forge_lines(better_after);
    scale(at(manifest, "measured", "saved", NULL), "ce", 0.5);
    scale(at(manifest, "measured", "saved", NULL), "forward_kl", 0.5);
    scale(at(manifest, "measured", "saved", NULL), "divergence", 0.5);
    judge_again();
}
static void f_teacher(void) { forge_lines(better_teacher); }
static void f_positions(void) { forge_lines(other_positions); }
static void f_weight(void) { forge_weight(); }
static void f_pass(void) { forge_verdict("\"pass\"", "\"fail\""); }
static void f_measured(void) { forge_verdict("before", "earlier"); }
static void f_groups(void)
{
    scale(json_array_get(at(manifest, "measured", "groups", NULL), 2), "change", 2);
    judge_again();
}
static void f_student(void)
{
    json_object_set_new(json_object_get(manifest, "student"), "content_hash",
                        json_string("0123456789abcdef0123456789abcdef"));
    judge_again();
}
static void f_config(void)
{
    json_object_set_new(at(manifest, "teacher", "files", NULL), "config.json",
                        json_string("0123456789abcdef0123456789abcdef"));
}
static void f_origin(void)
{
    json_t *source = json_array_get(at(manifest, "data", "train", NULL), 0),
           *files = json_object_get(json_array_get(json_object_get(source, "shards"), 0), "files");
    json_object_set_new(json_array_get(files, 0), "bytes", json_integer(1));
}
static void f_memory(void) { json_object_set_new(at(manifest, "measured", "memory", NULL), "held", json_integer(1)); }
static void f_lr(void) { forge_setting("lr", json_real(0.02)); }
static void f_alpha(void) { forge_setting("kd_weight", json_real(0.8)); }
static void f_seed(void) { json_object_set_new(manifest, "seed", json_integer(7)); }
static void f_data(void)
{
    json_t *source = json_array_get(at(manifest, "data", "train", NULL), 0),
           *shard = json_array_get(json_object_get(source, "shards"), 0);
    json_object_set_new(shard, "hash", json_string("0123456789abcdef0123456789abcdef"));
}
static void f_step(void) { json_object_set_new(at(manifest, "measured", "saved", NULL), "step", json_integer(6)); }
static void f_missing(void) { json_object_del(json_object_get(manifest, "measured"), "groups"); }

static void forgers(void **state)
{
    (void)state;
    static const struct {
        void (*forge)(void);
        const char *check;
    } cases[] = {
        { f_first, "first step" },       { f_loss, "metrics" },          { f_rate, "metrics" },
        { f_clip, "metrics" },           { f_trained, "data" },          { f_twice, "metrics" },
        { f_before, "held-out before" }, { f_after, "held-out logged" }, { f_saved, "held-out after" },
        { f_teacher, "metrics" },        { f_positions, "metrics" },     { f_weight, "output" },
        { f_pass, "verdict" },           { f_measured, "verdict" },      { f_groups, "parameters moved" },
        { f_student, "student" },        { f_memory, "verdict" },        { f_lr, "metrics" },
        { f_alpha, "metrics" },          { f_seed, "settings" },         { f_data, "data" },
        { f_step, "metrics" },           { f_missing, "manifest" },      { f_config, "teacher" },
        { f_origin, "data files" },
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        rt_err e = { 0 };
        told t;
        rt_audit_result v;
        put_back();
        if (rt_checked_json_read(&manifest, file_of("run/manifest.json"), &e) < 0) fail_msg("%s", e.text);
        cases[i].forge();
        seal_again();
        json_decref(manifest);
        if (verify("run", &t, &v, &e) < 0) fail_msg("case %d: %s", (int)i, e.text);
        if (!failed(&t, cases[i].check))
            fail_msg("case %d: '%s' did not fail; %u did (%s: %s)", (int)i, cases[i].check, t.count, t.failed[0],
                     t.text);
        if (failed(&t, "files")) fail_msg("case %d: the forger forgot a file: %s", (int)i, t.text);
    }
    put_back();
}

/* The control: all that a forger does, without changing anything; and the run as it was. */
static void untouched(void **state)
{
    (void)state;
    rt_err e = { 0 };
    told t;
    rt_audit_result v;
    put_back();
    for (int i = 0; i < 2; i++) {
        if (verify("run", &t, &v, &e) < 0) fail_msg("%s", e.text);
        if (t.count) fail_msg("%s failed: %s", t.failed[0], t.text);
        assert_int_equal(v.of[RT_CHECK_FAIL] + v.of[RT_CHECK_NOT_CHECKED], 0);
        assert_int_equal(v.of[RT_CHECK_PASS], 16);
        assert_int_equal(rt_checked_json_read(&manifest, file_of("run/manifest.json"), &e), RT_OK);
        judge_again();
        seal_again();
        json_decref(manifest);
    }
    put_back();
}

/* A run that was begun before there was a setting has what is its default now. */
static void earlier_version(void **state)
{
    (void)state;
    rt_err e = { 0 };
    told t;
    rt_audit_result v;
    put_back();
    assert_int_equal(rt_checked_json_read(&manifest, file_of("run/manifest.json"), &e), RT_OK);
    forge_setting("optimizer", NULL);
    seal_again();
    json_decref(manifest);
    if (verify("run", &t, &v, &e) < 0) fail_msg("%s", e.text);
    if (t.count) fail_msg("%s failed: %s", t.failed[0], t.text);
    assert_int_equal(v.of[RT_CHECK_PASS], 16);
    put_back();
}

/* Four altered files are named, and nothing is left out. */
static void four_altered(void **state)
{
    (void)state;
    static const char *const names[] = { "run/metrics.jsonl", "run/verdict.json", "run/settings.json",
                                         "run/data/train.json" };
    rt_str before[4] = { { 0 } };
    rt_err e = { 0 };
    told t;
    rt_audit_result v;
    put_back();
    for (int i = 0; i < 4; i++) {
        if (rt_file_read(file_of(names[i]), 1 << 24, &before[i], &e) < 0) fail_msg("%s", e.text);
        rt_str_append(&before[i], "\n"); /* which no reader minds */
        assert_int_equal(rt_file_write(file_of(names[i]), before[i].data, before[i].len, &e), RT_OK);
    }
    if (verify("run", &t, &v, &e) < 0) fail_msg("%s", e.text);
    assert_true(failed(&t, "files"));
    for (int i = 0; i < 4; i++) {
        if (!strstr(t.text, names[i])) fail_msg("'%s' lacks %s", t.text, names[i]);
        assert_int_equal(rt_file_write(file_of(names[i]), before[i].data, before[i].len - 1, &e), RT_OK);
        rt_str_free(&before[i]);
    }
    if (strstr(t.text, "...")) fail_msg("%s", t.text);
}

/* A verdict that is no JSON, or gone, is a check that failed; the others are made all the same. */
static void verdict_unreadable(void **state)
{
    (void)state;
    static const char *const texts[] = { "{", NULL };
    rt_err e = { 0 };
    told t;
    rt_audit_result v;
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        put_back();
        if (texts[i])
            assert_int_equal(rt_file_write(file_of("run/verdict.json"), texts[i], strlen(texts[i]), &e), RT_OK);
        else
            assert_int_equal(remove(file_of("run/verdict.json")), 0);
        if (verify("run", &t, &v, &e) < 0) fail_msg("case %zu: %s", i, e.text);
        assert_true(failed(&t, "verdict") && failed(&t, "files"));
        assert_int_equal(v.of[RT_CHECK_FAIL], 2);
        assert_int_equal(v.of[RT_CHECK_FAIL] + v.of[RT_CHECK_PASS], 16);
    }
    put_back();
}

/* A step may take no time that a clock sees. */
static bool no_time(json_t *j)
{
    if (!is_step(j, 2)) return false;
    json_object_set_new(j, "seconds", json_real(0));
    return true;
}
static void steps_without_time(void **state)
{
    (void)state;
    rt_err e = { 0 };
    told t;
    rt_audit_result v;
    put_back();
    if (rt_checked_json_read(&manifest, file_of("run/manifest.json"), &e) < 0) fail_msg("%s", e.text);
    forge_lines(no_time);
    seal_again();
    json_decref(manifest);
    if (verify("run", &t, &v, &e) < 0) fail_msg("%s", e.text);
    if (t.count) fail_msg("%s failed: %s", t.failed[0], t.text);
    put_back();
}

/* What tools/dispatch.sh adds may change with every fetch, so the manifest of a run that goes on must not list it. */
static void dispatched(void **state)
{
    (void)state;
    rt_err e = { 0 };
    static const char *const added[] = { "run/dispatch.json", "run/log.txt", "run/other.json" };
    json_t *files = json_object();
    for (int i = 0; i < 3; i++)
        if (rt_file_write(file_of(added[i]), "{}", 2, &e) < 0) fail_msg("%s", e.text);
    if (rt_manifest_files(files, in_dir("run"), NULL, &e) < 0) fail_msg("%s", e.text);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(json_object_get(files, added[i]) != NULL, i == 2);
        assert_int_equal(remove(file_of(added[i])), 0);
    }
    json_decref(files);
}

/* ---- states of a run ---- */

static void not_finished(void **state)
{
    (void)state;
    rt_err e = { 0 };
    told t;
    rt_audit_result v;
    put_back();
    assert_int_equal(rt_checked_json_read(&manifest, file_of("run/manifest.json"), &e), RT_OK);
    json_object_set_new(manifest, "finished", json_false());
    seal_again();
    json_decref(manifest);
    assert_int_equal(verify("run", &t, &v, &e), RT_INVALID);
    assert_non_null(strstr(e.text, "has not finished"));
    assert_non_null(strstr(e.text, "retort distill --resume"));
    put_back();
    assert_int_equal(rename(file_of("run/manifest.json"), in_dir("aside.json")), 0);
    assert_int_equal(verify("run", &t, &v, &e), RT_INVALID);
    assert_non_null(strstr(e.text, "has no manifest.json"));
    put_back();
    assert_int_equal(verify("nowhere", &t, &v, &e), RT_NOT_FOUND);
    assert_int_equal(verify("student", &t, &v, &e), RT_NOT_FOUND);
    assert_int_equal(verify("text.jsonl", &t, &v, &e), RT_FORMAT);
}

/* What is not there any more is not checked, and never a pass. */
static void gone(void **state)
{
    (void)state;
    rt_err e = { 0 };
    told t;
    rt_audit_result v;
    static const struct {
        const char *name;
        uint32_t missed;
    } cases[] = { { "teacher", 1 }, { "student", 3 }, { "run/run/checkpoints/checkpoint-000012", 1 } };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char *from = strdup(in_dir(cases[i].name)), *to = strdup(in_dir("aside"));
        assert_int_equal(rename(from, to), 0);
        if (verify("run", &t, &v, &e) < 0) fail_msg("%s", e.text);
        assert_int_equal(rename(to, from), 0);
        free(from);
        free(to);
        if (t.count) fail_msg("without %s: %s failed: %s", cases[i].name, t.failed[0], t.text);
        if (v.of[RT_CHECK_NOT_CHECKED] != cases[i].missed)
            fail_msg("without %s: %u not checked", cases[i].name, v.of[RT_CHECK_NOT_CHECKED]);
    }
}

static int set_up(void **state)
{
    rt_err e = { 0 };
    run_case c;
    if (make_test_dir(state) != 0) return -1;
    put_run_inputs();
    run_begin(&c, "teacher", "student", "run");
    run_set(&c, RT_SETTING_ID_lr, "0.002"); /* so that the last step is the best, which some of the forgers need */
    run_open(&c);
    run_train(&c);
    run_end(&c);
    keep_files();
    dev = open_device("cpu", 1);
    return rt_pool_new(&pool, 1, &e);
}

static int tear_down(void **state)
{
    dev->api->close(dev);
    rt_pool_free(pool);
    for (int i = 0; i < KEPT; i++) rt_str_free(&kept[i]);
    return remove_test_dir(state);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(untouched),
        cmocka_unit_test(earlier_version),
        cmocka_unit_test(forgers),
        cmocka_unit_test(four_altered),
        cmocka_unit_test(verdict_unreadable),
        cmocka_unit_test(steps_without_time),
        cmocka_unit_test(dispatched),
        cmocka_unit_test(not_finished),
        cmocka_unit_test(gone),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
