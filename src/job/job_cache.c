/* job_cache.c - what a teacher says of a text, asked once and kept. See job.h.
 *
 * Rows are asked for in the order of the data, in batches of a fixed number, and a batch of which something is missing
 * is asked for as a whole: so a cache that was begun, stopped and filled holds the very bits of one made in one go. */
#include "job/job_cache_internal.h"

#include "base/json.h"
#include "base/sys.h"
#include "job/prepare/fit.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

enum { POSITIONS = 2048, MOST_ROWS = 64 };

const rt_setting_id rt_job_cache_settings[] = {
    RT_SETTING_ID_teacher,       RT_SETTING_ID_student,        RT_SETTING_ID_base,
    RT_SETTING_ID_data,          RT_SETTING_ID_eval_data,      RT_SETTING_ID_out,
    RT_SETTING_ID_seq_len,       RT_SETTING_ID_temperature,    RT_SETTING_ID_held_out,
    RT_SETTING_ID_held_seed,     RT_SETTING_ID_seed,           RT_SETTING_ID_teacher_weights,
    RT_SETTING_ID_teacher_batch, RT_SETTING_ID_teacher_memory, RT_SETTING_ID_chat_template,
    RT_SETTING_ID_columns,       RT_SETTING_ID_template_var,   RT_SETTING_ID_loss_on,
    RT_SETTING_ID_skip_bad,      RT_SETTING_ID_allow_drop,     RT_SETTING_ID_vocab,
    RT_SETTING_ID_device,        RT_SETTING_ID_tune,           RT_SETTING_ID_threads,
    RT_SETTING_COUNT_ALL
};

/* ---- what is asked ---- */

static int check_settings(rt_cache_work *w, rt_err *e)
{
    const rt_settings *s = &w->settings;
    const rt_job_cache_opts *o = w->o;
    if (!s->out) return rt_fail(e, RT_USAGE, "--out is missing; give the folder for the cache");
    if (!s->teacher.count)
        return rt_fail(e, RT_USAGE, "--teacher is missing; give the model whose probabilities are stored");
    if (s->teacher.count > 1)
        return rt_fail(e, RT_USAGE, "--teacher is given twice, and a cache has one teacher; make one cache for each");
    if (!w->remote && !rt_path_exists(s->teacher.text[0]) && strchr(s->teacher.text[0], '='))
        return rt_fail(e, RT_USAGE,
                       "--teacher %s: weight=, data= and prompt= do not apply to a cache; give the model alone",
                       s->teacher.text[0]);
    if (rt_cache_is(s->teacher.text[0]))
        return rt_fail(e, RT_INVALID, "--teacher %s is itself a cache; give the model, or join caches with --join",
                       s->teacher.text[0]);
    if (!s->data.count)
        return rt_fail(e, RT_USAGE, "--data is missing; give the text that the student will be trained on");
    if (o->parts && (o->part < 1 || o->part > o->parts))
        return rt_fail(e, RT_USAGE, "--part %u/%u is out of range (1/%u to %u/%u)", o->part, o->parts, o->parts,
                       o->parts, o->parts);
    if (!((float)s->temperature > 0) || !isfinite((float)s->temperature)) /* as sections have it */
        return rt_fail(e, RT_USAGE, "--temperature %g is out of range (above 0, as an f32)", s->temperature);
    if ((float)s->temperature == 1) w->settings.temperature = 1;
    int rc = rt_job_output_outside_runs(s->out, e);
    if (rc < 0) return rc;
    bool there = rt_cache_is(s->out);
    w->fresh = !rt_path_exists(s->out);
    if (there && !o->fill && !o->parts) return rt_cache_work_there(w, e);
    if (!there && o->fill)
        return rt_fail(e, RT_NOT_FOUND, "--fill: %s is not a cache; leave --fill out to make one", s->out);
    w->there = there;
    return RT_OK;
}

/* What the cache that is there was made with, where nothing else is said; what is said must be the same. */
static int take_from_cache(rt_cache_work *w, rt_err *e)
{
    rt_settings *s = &w->settings;
    const json_t *a = rt_cache_about(w->cache), *held = json_object_get(a, "held_out");
    const char *keep = json_string_value(json_object_get(a, "keep"));
    double T = json_number_value(json_object_get(a, "temperature"));
    json_int_t batch = json_integer_value(json_object_get(a, "batch"));
    uint64_t seed = (uint64_t)json_integer_value(json_object_get(a, "seed"));
    int rc = rt_inputs_cache_says(w->cache, s->out, e);
    if (rc < 0) return rc;
    if (batch < 1 || batch > INT32_MAX)
        return rt_fail(e, RT_FORMAT,
                       "%s/cache.json has a \"batch\" of %lld rows, which is out of range; make the cache again",
                       s->out, (long long)batch);
    if (w->keep && strcmp(w->keep, keep) != 0)
        return rt_fail(e, RT_INVALID, "--keep %s: %s stores %s; leave --keep out, or make another cache", w->keep,
                       s->out, keep);
    if (s->given[RT_SETTING_ID_temperature] && s->temperature != T)
        return rt_fail(e, RT_INVALID,
                       "--temperature %g: %s was made at %g; leave --temperature out, or make another cache",
                       s->temperature, s->out, T);
    if (s->given[RT_SETTING_ID_teacher_batch] && s->teacher_batch != (uint64_t)batch)
        return rt_fail(e, RT_INVALID, "--teacher-batch %" PRIu64 ": %s was made with %lld; leave it out",
                       s->teacher_batch, s->out, (long long)batch);
    if (s->given[RT_SETTING_ID_seed] && s->seed != seed)
        return rt_fail(e, RT_INVALID, "--seed %" PRIu64 ": %s was made with %" PRIu64 "; leave it out", s->seed, s->out,
                       seed);
    w->keep = keep;
    RT_SETTINGS_PUT(s, temperature, T);
    RT_SETTINGS_PUT(s, teacher_batch, (uint64_t)batch);
    RT_SETTINGS_PUT(s, seed, seed);
    if (!s->given[RT_SETTING_ID_seq_len])
        RT_SETTINGS_PUT(s, seq_len, (uint64_t)json_integer_value(json_object_get(a, "seq_len")));
    if (!held || s->eval_data.count) return RT_OK;
    if (!s->given[RT_SETTING_ID_held_out]) {
        rt_share v = { json_number_value(json_object_get(held, "value")),
                       json_is_true(json_object_get(held, "percent")) };
        RT_SETTINGS_PUT(s, held_out, v);
    }
    if (!s->given[RT_SETTING_ID_held_seed])
        RT_SETTINGS_PUT(s, held_seed, (uint64_t)json_integer_value(json_object_get(held, "seed")));
    return RT_OK;
}

/* ---- the teacher ---- */

/* Rows at a time: those that were asked for, or about as many positions as the device does well with. */
static int choose_rows(rt_cache_work *w, uint32_t positions, rt_err *e)
{
    const rt_settings *s = &w->settings;
    uint64_t rows = (positions ? positions : POSITIONS) / w->r.seq_len, most = INT32_MAX / w->r.seq_len;
    rows = rows < 1 ? 1 : rows > MOST_ROWS ? MOST_ROWS : rows;
    if (s->given[RT_SETTING_ID_teacher_batch]) rows = s->teacher_batch;
    if (rows < 1 || rows > most)
        return rt_fail(e, RT_USAGE, "--teacher-batch %" PRIu64 " is out of range (1 to %" PRIu64 " rows of %u tokens)",
                       rows, most, w->r.seq_len);
    w->B = (uint32_t)rows;
    return RT_OK;
}

/* Whether the host could keep the whole teacher beside the device. */
static bool host_has_room(const rt_cache_work *w)
{
    uint64_t bytes = 0;
    rt_sys_memory system;
    rt_sys_memory_query(&system);
    for (uint32_t i = 0; i < w->teacher->part_count; i++) bytes += w->teacher->parts[i].map.size;
    return bytes <= rt_fit_budget(system.available);
}

/* With its layers where the settings say; where they do not, the first of device, host and disk that takes them. */
static int open_where_it_fits(rt_cache_work *w, rt_says_opts *o, const rt_watch *watch, rt_err *e)
{
    rt_err why = { 0 };
    bool open = w->r.teacher_memory == RT_TEACHER_AUTO;
    rt_teacher_memory m = open ? RT_TEACHER_DEVICE : w->r.teacher_memory;
    o->home = rt_teacher_memory_class(m);
    int rc = rt_says_open(&w->says, w->dev, w->teacher, o, watch, &why);
    while (open && rc == RT_NOMEM && m < RT_TEACHER_DISK) {
        if (++m == RT_TEACHER_HOST && (w->host || !host_has_room(w))) continue;
        o->home = rt_teacher_memory_class(m);
        rc = rt_says_open(&w->says, w->dev, w->teacher, o, watch, &why);
    }
    if (rc >= 0 && open && m != RT_TEACHER_DEVICE)
        rt_note(&w->out->notes, "the teacher's layers are kept %s, since they do not fit on the device",
                m == RT_TEACHER_HOST ? "in the host's memory" : "on disk");
    if (rc < 0 && e) *e = why;
    return rc;
}

static int open_teacher(rt_cache_work *w, rt_err *e)
{
    int rc;
    rt_dtype *dtypes;
    const rt_watch watch = { rt_job_tell_watch, &w->tell };
    rt_teacher_weights kept = w->r.teacher_weights == RT_WEIGHTS_AUTO ? RT_WEIGHTS_NATIVE : w->r.teacher_weights;
    RT_TRY(rt_inputs_dtypes(&dtypes, w->teacher, &w->arena, e));
    rt_weights_dtypes(dtypes, dtypes, &w->teacher->config, kept);
    RT_TRY(rt_cache_work_mask(w, e));
    rt_says_opts o = { .B = w->B,
                       .T = w->r.seq_len,
                       .form = w->plan.form,
                       .n = w->plan.n,
                       .held_n = w->plan.held_n,
                       .temperature = w->settings.temperature,
                       .seed = w->settings.seed,
                       .dtypes = dtypes,
                       .coded = rt_weights_coded(&w->teacher->config, kept),
                       .vmask = w->mask };
    RT_TRY(open_where_it_fits(w, &o, &watch, e));
out:
    return rc;
}

/* ---- asking ---- */

/* Row `at` of those that are held out. */
static int copy_held(const rt_cache_work *w, uint64_t at, rt_row *row)
{
    const size_t T = w->r.seq_len, bytes = T * sizeof *row->ids;
    const rt_batch *h = &w->held;
    memcpy(row->ids, h->ids + at * T, bytes);
    memcpy(row->target, h->target + at * T, bytes);
    memcpy(row->start, h->start + at * T, bytes);
    memcpy(row->pos, h->pos + at * T, bytes);
    row->tokens = (uint32_t)T;
    return 1;
}

/* Up to B rows of a side, of which some were read; those that are not there are padding. */
static int read_batch(rt_cache_work *w, bool held, uint64_t read, rt_cache_batch *b, rt_err *e)
{
    int rc = RT_OK, more = 1;
    uint32_t T = w->r.seq_len, n = 0;
    size_t N = (size_t)w->B * T;
    b->tokens = 0;
    for (; n < w->B && read + n < w->most[held] && more; n += (uint32_t)more) {
        rt_row row = { .ids = b->ids + (size_t)n * T,
                       .target = b->ids + N + (size_t)n * T,
                       .start = b->ids + 2 * N + (size_t)n * T,
                       .pos = b->ids + 3 * N + (size_t)n * T };
        RT_TRY(more = w->rows[held] ? rt_rows_next(w->rows[held], &row, e) : copy_held(w, read + n, &row));
        more = more && row.epoch <= w->epochs;
        if (more) b->tokens += row.tokens;
    }
    b->rows = n;
    for (uint32_t i = n; i < w->B && n; i++)
        for (uint32_t t = 0; t < T; t++) {
            size_t to = (size_t)i * T + t;
            b->ids[to] = 0;
            b->ids[N + to] = -1;
            b->ids[2 * N + to] = 0;
            b->ids[3 * N + to] = (int32_t)t;
        }
    rc = RT_OK;
out:
    return rc;
}

/* Whether it is to be asked: what is under way already is heard before that is known. 1: it is. */
static int is_wanted(rt_cache_work *w, rt_cache_batch *b, rt_err *e)
{
    int rc = RT_OK;
    bool lacks = rt_cache_work_find(w, b);
    if (lacks && w->remote && rt_cache_remote_expects(w, b)) {
        RT_TRY(rt_cache_remote_hear_all(w, false, e));
        lacks = rt_cache_work_find(w, b);
    }
    rc = lacks;
out:
    return rc;
}

static int ask_side(rt_cache_work *w, bool held, uint64_t *batch, rt_err *e)
{
    int rc;
    uint64_t read = 0;
    for (;; ++*batch) {
        rt_cache_batch *b = &w->batch[w->turn];
        if (w->remote) RT_TRY(rt_cache_remote_hear(w, w->turn, e));
        if (w->remote) RT_TRY(rt_cache_remote_hear_all(w, true, e));
        RT_TRY(rt_cache_work_commit_in_time(w, e));
        b->held = held;
        RT_TRY(read_batch(w, held, read, b, e));
        if (!b->rows) return RT_OK;
        read += b->rows;
        w->out->rows += b->rows;
        RT_TRY(rt_watch_step(&(rt_watch){ rt_job_tell_watch, &w->tell }, "running the teacher", w->out->rows,
                             w->all_rows, e));
        if (!held && read <= w->skip) continue;
        if (w->o->parts && *batch % w->o->parts != w->o->part - 1) continue;
        RT_TRY(is_wanted(w, b, e));
        if (!rc) continue;
        RT_TRY(w->remote ? rt_cache_remote_send(w, w->turn, e) : rt_cache_work_ask(w, b, e));
        w->turn = (w->turn + 1) % w->batches;
    }
out:
    return rc;
}

static int count_rows(rt_cache_work *w, rt_err *e)
{
    int rc = RT_OK;
    for (int side = 0; side < 2; side++) {
        uint64_t rows;
        RT_TRY(rt_rows_in_epoch(w->rows[side], 0, &rows, e));
        w->all_rows += rows;
    }
out:
    return rc;
}

int rt_cache_work_ask_all(rt_cache_work *w, bool held_first, rt_err *e)
{
    uint64_t batch = 0;
    w->committed = rt_now();
    int rc = ask_side(w, held_first, &batch, e);
    if (rc >= 0) rc = ask_side(w, !held_first, &batch, e);
    if (rc >= 0 && w->remote) rc = rt_cache_remote_hear_all(w, false, e);
    if (rc >= 0 || rc == RT_INTERRUPTED || w->remote) { /* what was computed is kept */
        int kept = w->remote && rc < 0 ? rt_cache_remote_hear_all(w, true, NULL) : RT_OK;
        if (kept >= 0) kept = rt_cache_work_keep(w, rc < 0 ? NULL : e);
        if (kept >= 0) kept = rt_cache_work_commit(w, rc < 0 ? NULL : e);
        if (rc >= 0) rc = kept;
    }
    if (rc == RT_INTERRUPTED || (rc < 0 && w->remote && w->out->computed))
        rt_err_context(e, "%s has what was computed so far; %s", w->settings.out,
                       w->o->again ? w->o->again : "--fill adds the rest");
    return rc;
}

static int ask_all(rt_cache_work *w, rt_err *e)
{
    int rc;
    double begun = rt_now();
    RT_TRY(count_rows(w, e));
    w->most[0] = w->most[1] = w->epochs = UINT64_MAX;
    rc = rt_cache_work_ask_all(w, false, e);
    w->out->seconds = rt_now() - begun;
    if (w->says) rt_says_seconds(w->says, &w->out->forward, &w->out->head);
    w->out->remote = w->remote != NULL;
    if (w->remote) w->out->repeats = rt_remote_repeats(w->remote->server);
out:
    return rc;
}

/* ---- all of it ---- */

/* A device here, and on it the teacher. */
static int open_here(rt_cache_work *w, rt_err *e)
{
    int rc;
    rt_dev_info info;
    RT_TRY(rt_job_device_open(&w->dev, &w->settings, NULL, w->o->env->environment, NULL, e));
    RT_TRY(w->dev->api->info(w->dev, &info, e));
    w->act = rt_device_policy(w->dev)->act;
    RT_TRY(choose_rows(w, info.positions, e));
    w->host = info.host;
    if (w->host && w->r.teacher_memory == RT_TEACHER_HOST)
        RT_TRY(rt_fail(e, RT_USAGE, "--teacher-memory host needs a device with memory of its own; use device or disk"));
    /* What is wrong with a cache that is there is said before anything is loaded; a new one begins when all else is
     * there, so that no folder is left of a teacher that does not fit. */
    if (w->there) RT_TRY(rt_cache_work_begin(w, e));
    rc = open_teacher(w, e);
    if (rc == RT_NOMEM) rt_err_context(e, "computing %u rows at once (a smaller --teacher-batch needs less)", w->B);
out:
    return rc;
}

static int open_server(rt_cache_work *w, rt_err *e)
{
    int rc;
    w->act = w->remote->act;
    RT_TRY(choose_rows(w, w->remote->positions, e));
    RT_TRY(rt_cache_remote_check(w, e));
    RT_TRY(rt_cache_work_mask(w, e));
    if (w->there) RT_TRY(rt_cache_work_begin(w, e));
out:
    return rc;
}

static int make(rt_cache_work *w, rt_err *e)
{
    int rc;
    w->keep = w->o->keep;
    if (w->settings.teacher.count == 1) RT_TRY(rt_cache_remote_begin(w, e));
    RT_TRY(check_settings(w, e));
    if (w->there) {
        RT_TRY(rt_cache_open(&w->cache, w->settings.out, e));
        RT_TRY(take_from_cache(w, e));
    }
    RT_TRY(rt_job_pool_new(&w->pool, (uint32_t)w->settings.threads, e));
    RT_TRY(rt_dir_scratch(&w->folder, &w->arena, w->o->env->scratch, "retort-cache", e));
    w->keep = w->keep ? w->keep : "topk:64";
    if (w->remote) RT_TRY(rt_cache_remote_open(w, e));
    RT_TRY(rt_cache_work_inputs(w, e));
    RT_TRY(rt_keep_parse(&w->plan, w->keep, w->pair->common, e));
    const rt_settings *said = w->o->settings;
    if (w->plan.form == RT_FORM_HIDDEN && said->given[RT_SETTING_ID_temperature] && said->temperature != 1)
        RT_TRY(rt_fail(e, RT_USAGE, "--temperature %g has no effect on hidden states, which serve any; leave it out",
                       said->temperature));
    RT_TRY(w->remote ? open_server(w, e) : open_here(w, e));
    RT_TRY(rt_cache_work_room(w, e));
    if (!w->there) RT_TRY(rt_cache_work_begin(w, e));
    if (!w->o->begin) RT_TRY(ask_all(w, e));
out:
    return rc;
}

static void close_work(rt_cache_work *w)
{
    for (int i = 0; i < RT_CACHE_SECTIONS; i++) rt_cache_writer_free(w->writer[i]);
    rt_says_free(w->says);
    rt_cache_work_free(w);
    rt_cache_remote_free(w);
    rt_cache_close(w->cache);
    rt_rows_close(w->rows[0]);
    rt_rows_close(w->rows[1]);
    rt_job_device_close(w->dev);
    rt_inputs_close(w->in);
    rt_pair_free(&w->own);
    json_decref(w->imported);
    rt_pool_free(w->pool);
    if (w->folder) rt_dir_remove(w->folder);
    rt_arena_free(&w->arena);
}

int rt_job_cache(rt_job_cached *out, const rt_job_cache_opts *o, rt_err *e)
{
    int rc;
    rt_cache_work w = {
        .o = o, .out = out, .settings = *o->settings, .tell = { .progress = o->progress, .ctx = o->ctx }
    };
    rt_notes notes;
    bool empty;
    *out = (rt_job_cached){ 0 };
    rt_json_init();
    RT_TRY(rt_settings_defaults(&w.settings, e));
    rc = o->to           ? rt_cache_work_export(&w, e)
         : o->join_count ? rt_cache_work_join(&w, e)
         : o->from_count ? rt_cache_work_import(&w, e)
                         : make(&w, e);
    RT_TRY(rc);
    rt_job_cached made = *out;
    notes = out->notes;
    rc = rt_cache_work_look(out, o->to ? o->of : w.settings.out, &w.tell, e);
    if (rc == RT_INTERRUPTED) rt_err_context(e, "%s is made; retort cache shows it", w.settings.out);
    RT_TRY(rc);
    out->notes = notes;
    out->rows = made.rows;
    out->computed = made.computed;
    out->tokens = made.tokens;
    out->seconds = made.seconds;
    out->forward = made.forward;
    out->head = made.head;
    out->remote = made.remote;
    out->repeats = made.repeats;
out:
    /* A server that refuses the first question leaves nothing. */
    empty = rc < 0 && w.remote && w.fresh && w.cache && !o->parts && !out->computed;
    close_work(&w);
    if (empty) rt_cache_work_undo(&w);
    if (rc < 0) rt_job_cached_free(out);
    return rc;
}
