/* job_cache_folder.c - the folder of a cache: what it says of itself, what of the teacher is kept in it, and joining.
 */
#include "job/job_cache_internal.h"

#include "base/json.h"
#include "base/lock.h"
#include "base/sys.h"
#include "job/prepare/identity.h"
#include "job/prepare/teacher_folder.h"

#include <string.h>
#include <time.h>

static const double wait_seconds = 60; /* for whoever writes the teacher's head */

/* ---- what a cache says of itself ---- */

static bool put(json_t *j, const char *key, json_t *value) { return json_object_set_new(j, key, value) == 0; }

/* All that decides its values, for whoever fills, joins or reads it. */
static int describe(rt_cache_work *w, json_t **out, rt_err *e)
{
    int rc = RT_OK;
    json_t *j = json_object(), *teacher = NULL;
    const rt_settings *s = &w->settings;
    const rt_inputs *in = w->in;
    if (w->remote)
        teacher = json_incref(json_object_get(w->remote->about, "teacher"));
    else if (w->imported)
        teacher = json_incref(w->imported);
    else
        RT_TRY(rt_identity_new(&teacher, w->teacher, w->pool, e));
    bool kept = put(j, "teacher", teacher) && put(j, "keep", json_string(w->keep)) &&
                put(j, "temperature", json_real(s->temperature)) &&
                put(j, "ids",
                    json_pack("{s:I, s:o}", "count", (json_int_t)w->pair->common, "hash",
                              rt_hash_to_json(rt_pair_hash(w->pair)))) &&
                put(j, "seq_len", json_integer(w->r.seq_len)) && put(j, "batch", json_integer(w->B)) &&
                put(j, "seed", json_integer((json_int_t)s->seed)) &&
                put(j, "made_by", json_string(w->o->env->version ? w->o->env->version : "retort"));
    if (kept && in->text && in->text->tokenizer)
        kept = put(j, "tokenizer", rt_hash_to_json(rt_tokenizer_hash(in->text->tokenizer)));
    if (kept && in->template_text.data)
        kept = put(j, "template", rt_hash_to_json(rt_hash(in->template_text.data, in->template_text.len)));
    if (kept && w->r.teacher_weights != RT_WEIGHTS_AUTO && w->r.teacher_weights != RT_WEIGHTS_NATIVE)
        kept = put(j, "teacher_weights", json_string(rt_weights_name(w->r.teacher_weights)));
    if (kept && !w->imported && !s->eval_data.count)
        kept = put(j, "held_out",
                   json_pack("{s:f, s:b, s:I}", "value", s->held_out.value, "percent", s->held_out.percent, "seed",
                             (json_int_t)s->held_seed));
    if (!kept) RT_TRY(rt_no_memory(e, "the description of a cache"));
    *out = j;
    j = NULL;
out:
    json_decref(j);
    return rc;
}

/* The first of what decides values in which two caches are not the same; null: in none. */
static const char *differs(const json_t *a, const json_t *b)
{
    static const struct {
        const char *key, *name;
    } parts[] = { { "keep", "what is kept" },          { "temperature", "the temperature" },
                  { "ids", "the ids that count" },     { "tokenizer", "the tokenizer" },
                  { "template", "the chat template" }, { "teacher_weights", "how the teacher's weights are kept" } };
    bool old;
    const char *part = rt_identity_differs(json_object_get(a, "teacher"), json_object_get(b, "teacher"), &old);
    if (part) return strcmp(part, "values") == 0 ? "the teacher" : part;
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
        const json_t *x = json_object_get(a, parts[i].key), *y = json_object_get(b, parts[i].key);
        if (x || y) {
            if (!x || !y || !json_equal(x, y)) return parts[i].name;
        }
    }
    return NULL;
}

/* ---- beginning ---- */

/* Every file of one into the other, which is there. */
static int copy_folder(const char *from, const char *to, rt_err *e)
{
    int rc;
    rt_arena a = { 0 };
    char **names;
    uint32_t count;
    rt_str text = { 0 };
    RT_TRY(rt_dir_list(&names, &count, &a, from, e));
    for (uint32_t i = 0; i < count; i++) {
        char *x = rt_path_join(&a, from, names[i]), *y = rt_path_join(&a, to, names[i]);
        if (!x || !y) RT_TRY(rt_no_memory(e, "a path"));
        rt_str_free(&text);
        RT_TRY(rt_file_read(x, UINT64_MAX, &text, e));
        RT_TRY(rt_file_write(y, text.data ? text.data : "", text.len, e));
    }
out:
    rt_str_free(&text);
    rt_arena_free(&a);
    return rc;
}

static int write_teacher(rt_cache_work *w, const char *folder, rt_err *e)
{
    if (w->remote) return copy_folder(w->remote->folder, folder, e);
    return rt_teacher_folder_write(w->teacher, w->plan.form == RT_FORM_HIDDEN, folder, &w->out->notes, e);
}

static int check_same(rt_cache_work *w, const json_t *now, rt_err *e)
{
    const char *part = differs(rt_cache_about(w->cache), now);
    if (!part) return RT_OK;
    return rt_fail(e, RT_INVALID, "%s is a different cache: %s is not the same; give another --out", w->settings.out,
                   part);
}

/* Waits, a while, for another process that begins the same cache. */
static int take_folder(rt_cache_work *w, rt_lock **lock, rt_err *e)
{
    int rc;
    const rt_watch watch = { rt_job_tell_watch, &w->tell };
    double begun = rt_now();
    for (;;) {
        rc = rt_lock_take(lock, w->settings.out, "the cache", e);
        if (rc != RT_INVALID || rt_now() - begun > wait_seconds) return rc;
        rc = rt_watch_step(&watch, "waiting for another process to set up the cache", 0, 0, e);
        if (rc < 0) return rc;
        nanosleep(&(struct timespec){ .tv_nsec = 20000000 }, NULL);
    }
}

typedef int (*write_fn)(rt_cache_work *, const char *, rt_err *);

/* {"config.json": hash, ...} of the files in a folder: what a run reads of the teacher is compared with it. */
static int hash_files(json_t **out, const char *folder, rt_err *e)
{
    int rc;
    rt_arena a = { 0 };
    char **names;
    uint32_t count;
    json_t *j = json_object();
    *out = NULL;
    if (!j) RT_TRY(rt_no_memory(e, "the hashes of a cache"));
    RT_TRY(rt_dir_list(&names, &count, &a, folder, e));
    for (uint32_t i = 0; i < count; i++) {
        rt_hash128 h;
        char *path = rt_path_join(&a, folder, names[i]);
        if (!path) RT_TRY(rt_no_memory(e, "a path"));
        RT_TRY(rt_file_hash(path, &h, e));
        if (!put(j, names[i], rt_hash_to_json(h))) RT_TRY(rt_no_memory(e, "the hashes of a cache"));
    }
    *out = j;
    j = NULL;
out:
    json_decref(j);
    rt_arena_free(&a);
    return rc;
}

/* The folder of the teacher, written by a function under a name that it does not keep. Null: it is there. */
static int make_teacher(char **temp, rt_cache_work *w, const char *folder, write_fn write, rt_err *e)
{
    int rc;
    *temp = NULL;
    if (rt_path_is_dir(folder)) return RT_OK;
    RT_TRY(rt_dir_temp(temp, &w->arena, folder, e));
    RT_TRY(write(w, *temp, e));
out:
    return rc;
}

static int create(rt_cache_work *w, const json_t *about, const rt_cache_section *sections, uint32_t count,
                  const char *temp, rt_err *e)
{
    int rc;
    json_t *files = NULL, *whole = json_deep_copy(about);
    RT_TRY(hash_files(&files, temp, e));
    if (!whole || json_object_set(whole, "files", files) != 0) RT_TRY(rt_no_memory(e, "the description of a cache"));
    RT_TRY(rt_cache_create(w->settings.out, whole, sections, count, e));
out:
    json_decref(files);
    json_decref(whole);
    return rc;
}

/* cache.json and what is beside it, made by one of the processes that begin a cache at once; the others find it. */
static int begin_folder(rt_cache_work *w, const json_t *about, const rt_cache_section *sections, uint32_t count,
                        write_fn write, rt_err *e)
{
    int rc;
    rt_lock *lock = NULL;
    const char *out = w->settings.out;
    char *temp = NULL, *folder = rt_path_join(&w->arena, out, RT_CACHE_MODEL);
    uint32_t made = 0;
    bool fresh = !w->there;
    if (!folder) RT_TRY(rt_no_memory(e, "a path"));
    if (fresh) RT_TRY(rt_cache_is(out) ? RT_OK : rt_cache_check_empty(out, e));
    RT_TRY(rt_dir_make_counted(out, &made, e));
    RT_TRY(take_folder(w, &lock, e));
    rt_dir_clean(out); /* what killed processes left */
    if (fresh && rt_cache_is(out)) {
        if (!w->o->parts) RT_TRY(rt_cache_work_there(w, e));
        fresh = false;
    }
    w->fresh = w->fresh && fresh;
    RT_TRY(make_teacher(&temp, w, folder, write, e));
    if (fresh) RT_TRY(create(w, about, sections, count, temp, e));
    if (!w->cache) RT_TRY(rt_cache_open(&w->cache, out, e));
    RT_TRY(check_same(w, about, e));
    if (temp) RT_TRY(rt_dir_commit(temp, folder, e));
    temp = NULL;
    RT_TRY(rt_inputs_cache_files(w->cache, out, e));
out:
    if (temp) rt_dir_remove(temp);
    rt_lock_free(lock, true);
    if (rc < 0) rt_dir_unmake(out, made);
    return rc;
}

static bool is_begun(void *ctx, const char *name)
{
    static const char *const names[] = { "cache.json", RT_CACHE_MODEL "/", "retort.lock" };
    (void)ctx;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (strcmp(name, names[i]) == 0) return true;
    return false;
}

void rt_cache_work_undo(const rt_cache_work *w)
{
    rt_lock *lock = NULL;
    if (!w->fresh || rt_lock_take(&lock, w->settings.out, "the cache", NULL) < 0) return;
    if (rt_dir_holds_only(w->settings.out, is_begun, NULL)) rt_dir_remove(w->settings.out);
    rt_lock_free(lock, true);
}

int rt_cache_work_there(const rt_cache_work *w, rt_err *e)
{
    if (w->o->join_count)
        return rt_fail(e, RT_INVALID, "%s is already a cache; join into it with --fill, or give another --out",
                       w->settings.out);
    return rt_fail(e, RT_INVALID, "%s is already a cache; add what is missing with --fill, or give another --out",
                   w->settings.out);
}

int rt_cache_work_begin(rt_cache_work *w, rt_err *e)
{
    int rc;
    json_t *about = NULL;
    const rt_cache_section *have;
    w->section_count =
        rt_keep_sections(w->sections, &w->plan, w->settings.temperature, w->teacher->config.width, w->act);
    RT_TRY(rt_watch_step(&(rt_watch){ rt_job_tell_watch, &w->tell }, "hashing the teacher", 0, 0, e));
    RT_TRY(describe(w, &about, e));
    RT_TRY(begin_folder(w, about, w->sections, w->section_count, write_teacher, e));
    if (rt_cache_sections(w->cache, &have) == w->section_count)
        memcpy(w->sections, have, w->section_count * sizeof *have); /* the dtype of hidden states is the cache's */
    if (w->plan.form == RT_FORM_HIDDEN && w->sections[0].dtype != w->act)
        RT_TRY(rt_fail(e, RT_INVALID,
                       "%s has hidden states in %s, and this device computes them in %s; fill it on the kind "
                       "of device that it was made on",
                       w->settings.out, rt_dtype_name(w->sections[0].dtype), rt_dtype_name(w->act)));
    for (uint32_t i = 0; i < w->section_count; i++) RT_TRY(rt_cache_writer_new(&w->writer[i], w->cache, i, e));
out:
    json_decref(about);
    return rc;
}

/* ---- joining ---- */

/* Of the first of the caches that are joined. */
static int copy_teacher(rt_cache_work *w, const char *folder, rt_err *e)
{
    const char *from = rt_path_join(&w->arena, w->o->join[0], RT_CACHE_MODEL);
    return from ? copy_folder(from, folder, e) : rt_no_memory(e, "a path");
}

/* The folder of the first, without its blocks. */
static int begin_joined(rt_cache_work *w, const rt_cache *first, rt_err *e)
{
    static const char *const own[] = { "format", "version", "sections", "files", "hash" }; /* of any cache */
    const rt_cache_section *sections;
    uint32_t count = rt_cache_sections(first, &sections);
    json_t *about = json_deep_copy(rt_cache_about(first));
    for (size_t i = 0; i < sizeof own / sizeof *own; i++) json_object_del(about, own[i]);
    int rc = about ? begin_folder(w, about, sections, count, copy_teacher, e) : rt_no_memory(e, "a cache");
    json_decref(about);
    return rc;
}

static int check_joined(const json_t *about, const char *first, const char *path, rt_err *e)
{
    int rc;
    rt_cache *c = NULL;
    RT_TRY(rt_cache_open(&c, path, e));
    const char *part = differs(about, rt_cache_about(c));
    if (part) RT_TRY(rt_fail(e, RT_INVALID, "%s cannot be joined with %s: %s is not the same", path, first, part));
out:
    rt_cache_close(c);
    return rc;
}

int rt_cache_work_join(rt_cache_work *w, rt_err *e)
{
    int rc = RT_OK;
    rt_cache *first = NULL, *from = NULL;
    const rt_job_cache_opts *o = w->o;
    if (!w->settings.out) RT_TRY(rt_fail(e, RT_USAGE, "--out is missing; give the folder of the joined cache"));
    if (w->settings.teacher.count || w->settings.data.count)
        RT_TRY(rt_fail(e, RT_USAGE, "--join runs no teacher; leave --teacher and --data out"));
    RT_TRY(rt_job_output_outside_runs(w->settings.out, e));
    w->there = rt_cache_is(w->settings.out);
    if (w->there && !o->fill) RT_TRY(rt_cache_work_there(w, e));
    RT_TRY(rt_cache_open(&first, o->join[0], e));
    RT_TRY(rt_inputs_cache_files(first, o->join[0], e));
    for (uint32_t i = 1; i < o->join_count; i++) RT_TRY(check_joined(rt_cache_about(first), o->join[0], o->join[i], e));
    if (w->there) RT_TRY(check_joined(rt_cache_about(first), o->join[0], w->settings.out, e));
    RT_TRY(begin_joined(w, first, e));
    for (uint32_t i = 0; i < o->join_count; i++) {
        RT_TRY(rt_cache_open(&from, o->join[i], e));
        rc = rt_cache_merge(w->cache, from, &(rt_watch){ rt_job_tell_watch, &w->tell }, e);
        if (rc == RT_INTERRUPTED)
            rt_err_context(e, "%s keeps what was joined so far; --fill joins the rest", w->settings.out);
        RT_TRY(rc);
        rt_cache_close(from);
        from = NULL;
    }
out:
    rt_cache_close(first);
    rt_cache_close(from);
    return rc;
}

/* ---- looking ---- */

void rt_job_cached_free(rt_job_cached *c)
{
    rt_arena_free(&c->arena);
    *c = (rt_job_cached){ 0 };
}

int rt_cache_work_look(rt_job_cached *out, const char *path, rt_job_tell *tell, rt_err *e)
{
    int rc;
    rt_cache *c = NULL;
    const rt_cache_section *sections;
    rt_hash128 all[RT_CACHE_SECTIONS] = { 0 };
    rt_json_init();
    *out = (rt_job_cached){ 0 };
    RT_TRY(rt_cache_open(&c, path, e));
    const json_t *a = rt_cache_about(c);
    const char *keep = json_string_value(json_object_get(a, "keep"));
    uint32_t count = rt_cache_sections(c, &sections);
    if (keep && rt_keep_parse(&(rt_keep_plan){ 0 }, keep, INT32_MAX, NULL) < 0) keep = NULL; /* another tool's words */
    for (uint32_t i = 0; i < count; i++) {
        rt_cache_size size = rt_cache_size_of(c, i);
        *(i ? &out->held_bytes : &out->bytes) += size.bytes;
        RT_TRY(rt_cache_content(c, i, &(rt_watch){ rt_job_tell_watch, tell }, &all[i],
                                i == 0   ? &out->positions
                                : i == 1 ? &out->held
                                         : NULL,
                                e));
    }
    out->keep = rt_arena_strdup(&out->arena, keep ? keep : "");
    if (!out->keep) RT_TRY(rt_no_memory(e, "a cache"));
    out->temperature = json_number_value(json_object_get(a, "temperature"));
    out->seq_len = (uint32_t)json_integer_value(json_object_get(a, "seq_len"));
    out->batch = (uint32_t)json_integer_value(json_object_get(a, "batch"));
    rt_hash_text(out->content, rt_hash(all, sizeof all));
out:
    rt_cache_close(c);
    if (rc < 0) rt_job_cached_free(out);
    return rc;
}

int rt_job_cache_look(rt_job_cached *out, const char *path, rt_job_progress_fn progress, void *ctx, rt_err *e)
{
    rt_job_tell tell = { .progress = progress, .ctx = ctx };
    return rt_cache_work_look(out, path, &tell, e);
}

void rt_job_cache_facts(rt_job_cached_facts *out, const rt_inputs *in)
{
    static const char *const exact[] = { [RT_FORM_LIVE] = "",
                                         [RT_FORM_HIDDEN] = "exact for every divergence",
                                         [RT_FORM_TOPK] =
                                             "every divergence, over those ids and the rest as one outcome",
                                         [RT_FORM_DRAWS] = "forward KL only, with an unbiased gradient" };
    rt_cache *c = rt_cache_source_cache(in->cache);
    const rt_keep_plan *k = rt_cache_source_keeps(in->cache);
    const char *keep = json_string_value(json_object_get(rt_cache_about(c), "keep"));
    rt_cache_size size = rt_cache_size_of(c, 0);
    *out = (rt_job_cached_facts){ .keep = keep ? keep : rt_source_form_name(k->form),
                                  .temperature = rt_cache_source_temperature(in->cache),
                                  .bytes = size.positions ? (double)size.bytes / (double)size.positions : 0,
                                  .exact = k->exact ? exact[RT_FORM_HIDDEN] : exact[k->form] };
}
