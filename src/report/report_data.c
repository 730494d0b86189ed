/* report_data.c - reading what a run left in its folder. See report.h for the files.
 *
 * A run may be writing while it is read: every file is read once, as it is at that moment, and a last line that is not
 * whole is left out and told of. A line in the middle that cannot be read is a fault of the file. */
#include "report/report_internal.h"

#include "base/file.h"
#include "base/json.h"
#include "base/lock.h"

#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

static const uint64_t most_metrics = 1ull << 31, most_json = 16u << 20, most_samples = 256u << 20, most_plan = 8u << 20;

/* ---- lines of JSON ---- */

/* One line; negative on failure. */
typedef int (*line_fn)(rt_report_run *r, const json_t *line, const char *where, rt_err *e);

static int parse_line(rt_report_run *r, const char *text, size_t len, bool last, const char *where, line_fn fn,
                      rt_err *e)
{
    (void)rt_json_out_of_memory();
    json_t *j = rt_json_load(text, len, JSON_ALLOW_NUL, NULL);
    if (!j && rt_json_out_of_memory()) return rt_no_memory(e, "a report");
    if (!j && last) {
        r->cut = true;
        return RT_OK;
    }
    int rc = json_is_object(j) ? fn(r, j, where, e)
                               : rt_fail(e, RT_FORMAT,
                                         "%s: not a JSON object; the file was altered or is damaged, "
                                         "remove the line to continue without it",
                                         where);
    json_decref(j);
    return rc;
}

static int read_lines(rt_report_run *r, const char *name, uint64_t most, line_fn fn, rt_err *e)
{
    int rc;
    rt_str text = { 0 }, where = { 0 };
    char *path = rt_path_join(&r->arena, r->folder, name);
    if (!path) return rt_no_memory(e, "a report");
    if (!rt_path_exists(path)) return RT_OK;
    RT_TRY(rt_file_read(path, most, &text, e));
    uint64_t number = 0;
    for (size_t at = 0; at < text.len;) {
        const char *line = text.data + at, *end = memchr(line, '\n', text.len - at);
        size_t len = end ? (size_t)(end - line) : text.len - at;
        at += len + 1;
        number++;
        where.len = 0;
        rt_str_printf(&where, "%s, line %llu", path, (unsigned long long)number);
        if (where.failed) RT_TRY(rt_no_memory(e, "a report"));
        /* Without its newline a line may be half of one, even where it can be read. */
        if (!end) {
            r->cut = true;
            break;
        }
        if (len) RT_TRY(parse_line(r, line, len, at >= text.len, where.data, fn, e));
    }
    rc = RT_OK;
out:
    rt_str_free(&text);
    rt_str_free(&where);
    return rc;
}

/* ---- metrics ---- */

static double number_of(const json_t *j, const char *key)
{
    const json_t *v = json_object_get(j, key);
    return json_is_number(v) ? json_number_value(v) : NAN;
}

static int step_of(const json_t *line, const char *where, uint32_t *out, rt_err *e)
{
    const json_t *v = json_object_get(line, "step");
    json_int_t step = json_integer_value(v);
    if (!json_is_integer(v) || step < 0 || step > UINT32_MAX)
        return rt_fail(e, RT_FORMAT, "%s: \"step\" is not a whole number from 0; the file was altered or is damaged",
                       where);
    *out = (uint32_t)step;
    return RT_OK;
}

static int add_step(rt_report_run *r, const json_t *line, const char *where, rt_err *e)
{
    uint32_t step;
    int rc = step_of(line, where, &step, e);
    if (rc < 0) return rc;
    const rt_report_step *before = r->step_count ? &r->steps[r->step_count - 1] : NULL;
    if (before && step <= before->step)
        return rt_fail(e, RT_FORMAT, "%s: step %u comes after step %u; the file was altered, or two runs wrote to it",
                       where, step, before->step);
    rt_report_step s = before ? *before : (rt_report_step){ 0 };
    double tokens = number_of(line, "tokens"), seconds = number_of(line, "seconds");
    s.step = step;
    if (tokens >= 0 && tokens < 1e15) s.tokens += (uint64_t)tokens;
    if (seconds >= 0 && seconds < 1e12) s.seconds += seconds;
    for (int i = 0; i < RT_SERIES_COUNT; i++) s.value[i] = number_of(line, rt_report_series_keys[i]);
    if (seconds > 0 && tokens >= 0) s.value[RT_SERIES_SPEED] = tokens / seconds;
    if (!rt_grow((void **)&r->steps, &r->step_cap, r->step_count + 1, sizeof *r->steps))
        return rt_no_memory(e, "a report");
    r->steps[r->step_count++] = s;
    return RT_OK;
}

rt_measure rt_report_measure(const json_t *v)
{
    if (json_is_number(v)) return (rt_measure){ json_number_value(v), NAN, 0 };
    const json_t *mean = json_array_get(v, 0), *error = json_array_get(v, 1);
    return (rt_measure){ json_is_number(mean) ? json_number_value(mean) : NAN,
                         json_is_number(error) ? json_number_value(error) : NAN,
                         json_number_value(json_array_get(v, 2)) };
}

static int add_eval(rt_report_run *r, const json_t *line, const char *where, rt_err *e)
{
    rt_report_eval v = { .positions = (uint64_t)json_integer_value(json_object_get(line, "positions")),
                         .documents = (uint64_t)json_integer_value(json_object_get(line, "documents")),
                         .outcomes = (uint32_t)json_integer_value(json_object_get(line, "outcomes")) };
    int rc = step_of(line, where, &v.step, e);
    if (rc < 0) return rc;
    for (int i = 0; i < RT_HELD_COUNT; i++)
        v.value[i] = rt_report_measure(json_object_get(line, rt_report_held_keys[i]));
    if (!rt_grow((void **)&r->evals, &r->eval_cap, r->eval_count + 1, sizeof *r->evals))
        return rt_no_memory(e, "a report");
    v.parts = json_incref(json_object_get(line, "parts"));
    r->evals[r->eval_count++] = v;
    return RT_OK;
}

static int add_metric(rt_report_run *r, const json_t *line, const char *where, rt_err *e)
{
    const char *event = json_string_value(json_object_get(line, "event"));
    if (event && strcmp(event, "step") == 0) return add_step(r, line, where, e);
    if (event && strcmp(event, "eval") == 0) return add_eval(r, line, where, e);
    return RT_OK; /* kinds of lines that came later */
}

/* ---- samples ---- */

static bool keep_text(rt_report_run *r, const json_t *v, rt_span *out)
{
    size_t len = json_string_length(v);
    char *copy = rt_arena_alloc(&r->arena, len + 1);
    if (copy && len) memcpy(copy, json_string_value(v), len);
    *out = (rt_span){ copy, len };
    return copy != NULL;
}

static int add_sample(rt_report_run *r, const json_t *line, const char *where, rt_err *e)
{
    rt_report_sample s = { .stopped = json_is_true(json_object_get(line, "stopped")) };
    const char *who = json_string_value(json_object_get(line, "who"));
    const json_t *prompt = json_object_get(line, "prompt"), *text = json_object_get(line, "text");
    int rc = step_of(line, where, &s.step, e);
    if (rc < 0) return rc;
    s.teacher = who && strcmp(who, "teacher") == 0;
    if ((!s.teacher && (!who || strcmp(who, "student") != 0)) || !json_is_string(prompt) || !json_is_string(text))
        return rt_fail(e, RT_FORMAT, "%s: a sample has \"prompt\", \"text\" and \"who\", which is student or teacher",
                       where);
    if (!keep_text(r, prompt, &s.prompt) || !keep_text(r, text, &s.text) ||
        !rt_grow((void **)&r->samples, &r->sample_cap, r->sample_count + 1, sizeof *r->samples))
        return rt_no_memory(e, "a report");
    r->samples[r->sample_count++] = s;
    return RT_OK;
}

/* ---- whole files ---- */

static int read_json(rt_report_run *r, const char *name, json_t **out, rt_err *e)
{
    int rc;
    rt_str text = { 0 };
    json_error_t where;
    char *path = rt_path_join(&r->arena, r->folder, name);
    if (!path) return rt_no_memory(e, "a report");
    if (!rt_path_exists(path)) return RT_OK;
    RT_TRY(rt_file_read(path, most_json, &text, e));
    (void)rt_json_out_of_memory();
    *out = rt_json_load(text.data ? text.data : "", text.len, JSON_ALLOW_NUL, &where);
    if (!*out && rt_json_out_of_memory()) RT_TRY(rt_no_memory(e, "a report"));
    if (!*out)
        RT_TRY(rt_fail(e, RT_FORMAT,
                       "%s, line %d: %s; the file was altered or is damaged, move it away to continue "
                       "without it",
                       path, where.line, where.text));
out:
    rt_str_free(&text);
    return rc;
}

static int read_plan(rt_report_run *r, rt_err *e)
{
    char *path = rt_path_join(&r->arena, r->folder, "plan.txt");
    if (!path) return rt_no_memory(e, "a report");
    return rt_path_exists(path) ? rt_file_read(path, most_plan, &r->plan, e) : RT_OK;
}

/* ---- the folder ---- */

/* Whether a folder is that of a run; a run that has only begun has its settings alone. RT_IO when it cannot be looked
 * into. */
static int is_run(rt_report_run *r, const char *folder, bool *is, rt_err *e)
{
    int rc;
    char **names;
    uint32_t count;
    *is = false;
    if (!rt_path_is_dir(folder)) return RT_OK;
    RT_TRY(rt_dir_list(&names, &count, &r->arena, folder, e));
    /* The settings of a run are not told from other files of that name by their name alone, so not outside "run". */
    for (uint32_t i = 0; i < count; i++)
        *is = *is || strcmp(names[i], "metrics.jsonl") == 0 ||
              (strcmp(names[i], "settings.json") == 0 && strcmp(rt_path_base(folder), "run") == 0);
out:
    return rc;
}

/* The folder of metrics.jsonl, and what the run is called: as its --out. */
static int find_folder(rt_report_run *r, const char *path, rt_err *e)
{
    int rc;
    bool is;
    char real[PATH_MAX];
    if (!rt_path_exists(path)) RT_TRY(rt_fail(e, RT_NOT_FOUND, "%s is not there; name the --out of a run", path));
    if (!rt_path_is_dir(path))
        RT_TRY(rt_fail(e, RT_FORMAT, "%s is a file; a report is of a run's folder, its --out", path));
    if (!realpath(path, real)) RT_TRY(rt_fail(e, RT_IO, "%s cannot be looked at; check its permissions", path));
    char *inner = rt_path_join(&r->arena, real, "run"), *own = rt_arena_strdup(&r->arena, real);
    if (!inner || !own) RT_TRY(rt_no_memory(e, "a report"));
    RT_TRY(is_run(r, inner, &is, e));
    if (is) {
        r->folder = inner;
        r->name = rt_path_base(own);
        return RT_OK;
    }
    RT_TRY(is_run(r, own, &is, e));
    if (!is)
        RT_TRY(rt_fail(e, RT_NOT_FOUND,
                       "%s holds no run: there is no run/metrics.jsonl in it; name the --out of "
                       "retort distill or train",
                       path));
    r->folder = own;
    char *cut = strrchr(real, '/');
    if (cut && cut != real && strcmp(cut, "/run") == 0) *cut = 0;
    r->name = rt_arena_strdup(&r->arena, rt_path_base(real));
    if (!r->name) RT_TRY(rt_no_memory(e, "a report"));
out:
    return rc;
}

/* 0: not known. Where epochs or tokens were asked for, the manifest of a run that ended knows how many steps it was. */
static uint32_t wanted_steps(const rt_report_run *r)
{
    const json_t *said = json_object_get(r->settings, "steps"), *measured = json_object_get(r->manifest, "measured");
    if (!said && json_is_true(json_object_get(r->manifest, "finished"))) {
        said = json_object_get(json_object_get(measured, "stopped"), "of");
        if (!said) said = json_object_get(measured, "steps");
    }
    json_int_t steps = json_integer_value(said);
    return steps > 0 && steps <= UINT32_MAX ? (uint32_t)steps : 0;
}

/* With --save-best an earlier step than the last. */
static uint32_t saved_step(const rt_report_run *r)
{
    json_int_t step = json_integer_value(json_object_get(json_object_get(r->manifest, "output"), "step"));
    bool ended = json_is_true(json_object_get(r->manifest, "finished"));
    return ended && step > 0 && step < UINT32_MAX ? (uint32_t)step : UINT32_MAX;
}

/* The model that is there, from its files: rounded as it was saved. Samples are made in memory alone. */
static void read_end(rt_report_run *r)
{
    const json_t *saved = json_object_get(json_object_get(r->manifest, "measured"), "saved");
    if (r->saved == UINT32_MAX || !json_object_get(saved, "ce") || !r->eval_count) return;
    r->end = r->evals[r->after];
    r->end.step = r->saved;
    r->end.positions = (uint64_t)json_integer_value(json_object_get(saved, "positions"));
    r->end.documents = (uint64_t)json_integer_value(json_object_get(saved, "documents"));
    for (int i = 0; i < RT_HELD_COUNT; i++) {
        rt_measure m = rt_report_measure(json_object_get(saved, rt_report_held_keys[i]));
        if (!isnan(m.mean)) r->end.value[i] = m;
    }
    r->end.parts = json_object_get(saved, "parts"); /* the manifest's */
    r->measured = true;
}

const rt_report_eval *rt_report_after(const rt_report_run *r)
{
    return r->measured ? &r->end : r->after ? &r->evals[r->after] : NULL;
}

int rt_report_run_open(rt_report_run **out, const char *path, rt_err *e)
{
    int rc;
    struct stat st;
    rt_report_run *r = rt_alloc_zero(sizeof *r, 16);
    *out = NULL;
    if (!r) return rt_no_memory(e, "a report");
    rt_json_init();
    rt_json_forget();
    RT_TRY(find_folder(r, path, e));
    char *metrics = rt_path_join(&r->arena, r->folder, "metrics.jsonl");
    if (!metrics) RT_TRY(rt_no_memory(e, "a report"));
    if (stat(metrics, &st) == 0) r->written = (int64_t)st.st_mtime;
    RT_TRY(read_lines(r, "metrics.jsonl", most_metrics, add_metric, e));
    RT_TRY(read_lines(r, "samples.jsonl", most_samples, add_sample, e));
    RT_TRY(read_json(r, "settings.json", &r->settings, e));
    json_object_del(r->settings, "hash");
    RT_TRY(read_json(r, "manifest.json", &r->manifest, e));
    RT_TRY(read_json(r, "verdict.json", &r->verdict, e));
    RT_TRY(read_json(r, "bars.json", &r->bars, e));
    RT_TRY(read_plan(r, e));
    r->wanted = wanted_steps(r);
    r->saved = saved_step(r);
    while (r->after + 1 < r->eval_count && r->evals[r->after + 1].step <= r->saved) r->after++;
    read_end(r);
    *out = r;
    r = NULL;
    rc = RT_OK;
out:
    rt_report_run_close(r);
    return rc;
}

void rt_report_run_close(rt_report_run *r)
{
    if (!r) return;
    json_decref(r->settings);
    json_decref(r->manifest);
    json_decref(r->verdict);
    json_decref(r->bars);
    rt_str_free(&r->plan);
    for (uint32_t i = 0; i < r->eval_count; i++) json_decref(r->evals[i].parts);
    rt_free(r->steps);
    rt_free(r->evals);
    rt_free(r->samples);
    rt_arena_free(&r->arena);
    rt_free(r);
}

static rt_eval_result eval_result(const rt_report_eval *v)
{
    return (rt_eval_result){ .ce = v->value[RT_HELD_CE],
                             .div = v->value[RT_HELD_DIVERGENCE],
                             .kl = v->value[RT_HELD_KL],
                             .agreement = v->value[RT_HELD_AGREEMENT],
                             .teacher_ce = v->value[RT_HELD_TEACHER_CE],
                             .teacher = !isnan(v->value[RT_HELD_KL].mean),
                             .positions = v->positions,
                             .documents = v->documents,
                             .outcomes = v->outcomes };
}

rt_report_facts rt_report_run_facts(const rt_report_run *r)
{
    const rt_report_step *end = r->step_count ? &r->steps[r->step_count - 1] : NULL;
    const rt_report_eval *first = r->eval_count ? &r->evals[0] : NULL, *after = rt_report_after(r);
    if (!after) after = first;
    rt_report_facts f = { .name = r->name,
                          .folder = r->folder,
                          .step = end ? end->step : 0,
                          .steps = r->wanted,
                          .cut = r->cut,
                          .evals = r->eval_count,
                          .first_step = first ? first->step : 0,
                          .after_step = after ? after->step : 0,
                          .seconds = end ? end->seconds : 0,
                          .tokens = end ? end->tokens : 0 };
    if (first) f.first = eval_result(first);
    if (after) f.after = eval_result(after);
    const json_t *measured = json_object_get(r->manifest, "measured");
    f.stopped = json_is_true(json_object_get(r->manifest, "finished")) && json_object_get(measured, "stopped");
    f.finished = f.stopped ||
                 (end && r->wanted && end->step >= r->wanted && first && r->evals[r->eval_count - 1].step >= r->wanted);
    f.going = !f.finished && rt_lock_check(r->folder, r->name, NULL) == RT_INVALID;
    return f;
}
