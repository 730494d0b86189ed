/* run_files.c - what a run has on disk besides checkpoints: settings, metrics, the best model; and its notes. */
#include "job/run/run_internal.h"

#include "base/json.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

void rt_run_note(const rt_run *r, const char *format, ...)
{
    char text[400];
    va_list args;
    if (!r->events.note) return;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    r->events.note(r->events.ctx, text);
}

int rt_run_write_json(const char *path, json_t *j, size_t flags, rt_err *e)
{
    char *text = rt_json_dump(j, flags);
    int rc = text ? rt_file_write(path, text, strlen(text), e) : rt_no_memory(e, path);
    rt_free(text);
    json_decref(j);
    return rc;
}

/* ---- settings ---- */

/* settings.json is what a resumed run reads; resolved.yaml says the same to a person, and --config takes it. The first
 * is written first: without it nothing but the lock is in the folder, and a run that is killed then can begin again. */
int rt_run_write_settings(rt_run *r, rt_err *e)
{
    int rc;
    rt_str yaml = { 0 };
    json_t *j = NULL;
    if (r->temporary) return RT_OK;
    RT_TRY(rt_run_holds(r, e));
    RT_TRY(rt_settings_to_yaml(r->settings, &yaml, e));
    if (!(j = rt_settings_to_json(r->settings))) RT_TRY(rt_no_memory(e, r->settings_path));
    RT_TRY(rt_checked_json_write(r->settings_path, j, NULL, e));
    RT_TRY(rt_file_write(r->yaml_path, yaml.data, yaml.len, e));
out:
    json_decref(j);
    rt_str_free(&yaml);
    return rc;
}

/* Tokens are made once: what they came from cannot change in a run. */
static int refuse_other_data(rt_arena *a, const rt_settings *was, const rt_settings *now, rt_err *e)
{
    rt_str diff = { 0 };
    int rc = RT_OK;
    if (rt_settings_diff(was, now, RT_BIND_TOKENS, &diff))
        rc = rt_fail(e, RT_INVALID, "%s; the tokens of a run are made already: begin a new one with --student %s",
                     diff.data ? diff.data : "", now->out ? rt_shell_word(a, now->out) : "OUT");
    rt_str_free(&diff);
    return rc;
}

/* "lr was 0.007, is 0.107", by what the manifest has of the settings; empty where it says nothing. */
static void name_edits(const rt_run *r, const json_t *now, rt_str *out)
{
    const char *key;
    json_t *was, *manifest = NULL, *kept = NULL;
    if (rt_checked_json_read(&manifest, r->manifest_path, NULL) >= 0) {
        const json_t *m = manifest;
        kept = rt_manifest_settings(json_deep_copy(now),
                                    json_string_value(json_object_get(json_object_get(m, "student"), "name")),
                                    json_string_value(json_object_get(json_object_get(m, "teacher"), "name")));
    }
    json_object_foreach(kept ? json_object_get(manifest, "settings") : NULL, key, was)
    {
        json_t *is = json_object_get(kept, key);
        if (json_equal(was, is)) continue;
        char *a = json_dumps(was, JSON_ENCODE_ANY | JSON_REAL_PRECISION(9)),
             *b = is ? json_dumps(is, JSON_ENCODE_ANY | JSON_REAL_PRECISION(9)) : NULL;
        rt_str_printf(out, "%s%s was %s, is %s", out->len ? "; " : ": ", key, a ? a : "other", b ? b : "not there");
        rt_free(a);
        rt_free(b);
    }
    json_decref(kept);
    json_decref(manifest);
}

/* Edited by hand, or damaged: what the run was told is not known any more. */
static int settings_altered(rt_run *r, const json_t *j, rt_err *e)
{
    int rc;
    rt_str edits = { 0 };
    name_edits(r, j, &edits);
    rc = rt_fail(
        e, RT_FORMAT,
        "%s was altered since the run wrote it (its hash is another)%s; put it back as it was and give a change "
        "as a flag with --override, or resume with it as it is: --override",
        r->settings_path, edits.data ? edits.data : "");
    rt_str_free(&edits);
    return rc;
}

int rt_run_read_settings(rt_run *r, rt_settings *was, bool *checked, rt_err *e)
{
    int rc;
    json_t *j = NULL;
    rc = rt_checked_json_read_old(&j, checked, r->settings_path, e);
    if (rc == RT_FORMAT && !j)
        rt_fail(e, rc, "%s cannot be read; the run cannot be resumed without it", r->settings_path);
    if (rc == RT_FORMAT && j) rc = r->opts->override ? RT_OK : settings_altered(r, j, e);
    RT_TRY(rc);
    *was = (rt_settings){ 0 };
    RT_TRY(rt_settings_from_record(was, j, &r->arena, e));
    if (!was->student) RT_TRY(rt_fail(e, RT_FORMAT, "%s names no student: it is not of a run", r->settings_path));
out:
    json_decref(j);
    return rc;
}

int rt_run_join_settings(rt_run *r, rt_err *e)
{
    int rc;
    bool checked = false;
    rt_str diff = { 0 };
    rt_settings *was = rt_arena_alloc(&r->arena, sizeof *was);
    if (!was) RT_TRY(rt_no_memory(e, "the files of a run"));
    RT_TRY(rt_run_read_settings(r, was, &checked, e));
    if (!checked)
        rt_run_note(r, r->opts->override ? "settings.json has no hash of the run: it is taken as it is"
                                         : "settings.json was written before it was hashed: that it is as it was is "
                                           "not checked");
    RT_TRY(refuse_other_data(&r->arena, was, r->settings, e));
    bool given = r->settings->given[RT_SETTING_ID_out];
    r->settings->given[RT_SETTING_ID_out] = false; /* it may have been moved */
    uint32_t bound = rt_settings_diff(was, r->settings, RT_BIND_FREE, &diff);
    r->settings->given[RT_SETTING_ID_out] = given;
    r->changed = diff.len > 0;
    if (bound && !r->opts->override)
        RT_TRY(rt_fail(e, RT_INVALID,
                       "a resumed run keeps its settings; leave these out, or say --override (the curve is then "
                       "another):\n%s",
                       diff.data ? diff.data : ""));
    rt_settings *own = rt_arena_alloc(&r->arena, sizeof *own);
    if (!own) RT_TRY(rt_no_memory(e, "the files of a run"));
    *own = *was;
    r->own = own;
    rt_settings_overlay(was, r->settings);
    *r->settings = *was;
out:
    rt_str_free(&diff);
    return rc;
}

/* ---- metrics ---- */

static double wall_clock(void)
{
    struct timespec t;
    clock_gettime(CLOCK_REALTIME, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* The first evaluation and the last of what is kept of metrics.jsonl. */
static void read_evals(rt_run *r)
{
    rt_eval_result v;
    FILE *f = fopen(r->metrics_path, "re");
    for (json_t *j; f && (j = json_loadf(f, JSON_DISABLE_EOF_CHECK, NULL)); json_decref(j)) {
        rt_eval_base_take_line(r->held, j);
        if (!rt_eval_from_line(j, &v)) continue;
        if (r->evaluated < 0) r->first = v;
        r->last = v;
        rt_worse_take(&r->worse, rt_eval_judged(&v));
        r->evaluated = json_integer_value(json_object_get(j, "step"));
        r->pace.eval = json_number_value(json_object_get(j, "seconds"));
    }
    if (f) fclose(f);
}

/* What is kept of metrics.jsonl into its hash. */
static int hash_kept(rt_run *r, uint64_t keep, rt_err *e)
{
    int rc = RT_OK;
    rt_map m = { 0 };
    rt_hasher_free(r->metrics_hash);
    if (!(r->metrics_hash = rt_hasher_new())) RT_TRY(rt_no_memory(e, "the files of a run"));
    if (keep) RT_TRY(rt_map_open(&m, r->metrics_path, e));
    if (keep) rt_hasher_add(r->metrics_hash, m.data, m.size);
out:
    rt_map_close(&m);
    return rc;
}

int rt_run_open_metrics(rt_run *r, uint64_t keep, rt_err *e)
{
    int rc = rt_append_open(&r->metrics, r->metrics_path, keep, e);
    if (rc == RT_FORMAT)
        rt_err_context(e, "checkpoint-%06u cannot be resumed from (remove it to resume from the one before it)",
                       r->loop.state.step);
    if (rc < 0) return rc;
    r->loop.state.metrics_bytes = keep;
    rc = hash_kept(r, keep, e);
    if (rc < 0) return rc;
    if (keep) read_evals(r);
    rc = rt_samples_begin(r->samples, r->run, r->evaluated, e);
    if (rc < 0) return rc;
    rt_tfevents_opts o = { .now = wall_clock(), .resumed = r->opts->resume, .keep_to = r->loop.state.step };
    return rt_tfevents_open(&r->events_file, r->run, &o, e);
}

void rt_run_close_metrics(rt_run *r)
{
    (void)rt_tfevents_close(r->events_file, NULL); /* flushed after every line */
    r->events_file = NULL;
    rt_append_close(&r->metrics);
}

int rt_run_metric(rt_run *r, json_t *line, rt_err *e)
{
    int rc = RT_OK;
    char *text = rt_json_dump(line, JSON_COMPACT | JSON_REAL_PRECISION(17));
    size_t n = text ? strlen(text) : 0;
    if (!text) RT_TRY(rt_no_memory(e, "the files of a run"));
    text[n++] = '\n'; /* in the place of the terminator */
    RT_TRY(rt_run_holds(r, e));
    RT_TRY(rt_tfevents_line(r->events_file, line, wall_clock(), e));
    RT_TRY(rt_tfevents_flush(r->events_file, e));
    RT_TRY(rt_append_put(&r->metrics, text, n, e));
    r->loop.state.metrics_bytes += n;
    rt_hasher_add(r->metrics_hash, text, n);
out:
    rt_free(text);
    json_decref(line);
    return rc;
}

int rt_run_sync_logs(rt_run *r, rt_err *e)
{
    int rc;
    RT_TRY(rt_append_sync(&r->metrics, e));
    RT_TRY(rt_samples_sync(r->samples, e));
    RT_TRY(rt_tfevents_sync(r->events_file, e));
out:
    return rc;
}

/* ---- models ---- */

/* Swaps a folder for a new one: readers see the old or the new. files: the hashes of the new. */
static int replace_folder(rt_run *r, const char *path, json_t *files, rt_err *e)
{
    int rc;
    char *temp = NULL;
    RT_TRY(rt_dir_temp(&temp, &r->arena, path, e));
    RT_TRY(rt_output_write(temp, r->trainer, &r->output, e));
    RT_TRY(rt_folder_hashes(files, temp, e));
    RT_TRY(rt_path_exists(path) ? rt_dir_replace(temp, path, rt_hf_is_name, NULL, e) : rt_dir_commit(temp, path, e));
    temp = NULL;
out:
    if (temp) rt_dir_remove(temp);
    return rc;
}

int rt_run_write_best(rt_run *r, rt_err *e)
{
    char *path = rt_best_path(&r->arena, r->checkpoints, r->loop.state.step);
    json_t *files = json_object();
    int rc = rt_run_holds(r, e);
    if (rc >= 0) rc = path && files ? replace_folder(r, path, files, e) : rt_no_memory(e, "the files of a run");
    json_decref(rc < 0 ? files : r->best_files);
    if (rc >= 0) r->best_files = files;
    return rc;
}
