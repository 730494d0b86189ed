/* job_cache_foreign.c - caches from files of other tools, and files for other tools from a cache.
 *
 * What comes in are lists of likely ids, which serve any use at temperature 1: a position is found by the tokens before
 * it, whatever text a run reads, and what it does not find it says. Such a file does not tell which weights made it, so
 * the cache is known by the file; a model that is here lends its tokenizer, template and configuration. */
#include "job/job_cache_internal.h"

#include "base/file.h"
#include "base/json.h"
#include "teacher/cache/foreign.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

enum { AXOLOTL = RT_FOREIGN_AXOLOTL, VLLM = RT_FOREIGN_VLLM, SUROGATE, FORMATS, DEFAULT_K = 64 };
static const char *const formats[FORMATS + 1] = { [AXOLOTL] = "axolotl", [VLLM] = "vllm", [SUROGATE] = "surogate" };

const char *const *rt_job_cache_formats(void) { return formats; }

static int find_format(const char *text, int *out, rt_err *e)
{
    for (*out = 0; text && *out < FORMATS; ++*out)
        if (strcmp(text, formats[*out]) == 0) return RT_OK;
    return rt_fail(e, RT_USAGE, "--format is axolotl, vllm or surogate; not '%s'", text ? text : "");
}

/* ---- files read ---- */

/* What is done with each document; it may change it. */
typedef int (*take_fn)(rt_cache_work *w, void *ctx, rt_foreign_doc *d, rt_err *e);

static int each_line(rt_cache_work *w, const char *path, int format, uint32_t k, take_fn take, void *ctx, rt_err *e)
{
    int rc;
    rt_map m = { 0 };
    uint64_t number = 0;
    RT_TRY(rt_map_open(&m, path, e));
    for (uint64_t at = 0, end; at < m.size; at = end + 1) {
        rt_foreign_doc d = { 0 };
        const char *line = (const char *)m.data + at, *feed = memchr(line, '\n', m.size - at);
        end = feed ? (uint64_t)(feed - (const char *)m.data) : m.size;
        number++;
        if (end - at == strspn(line, " \t\r") || end == at) continue;
        rc = rt_foreign_line_read(&d, (rt_foreign_lines)format, line, end - at, NULL, 0, k, e);
        if (rc >= 0) rc = take(w, ctx, &d, e);
        rt_foreign_doc_free(&d);
        if (rc < 0) rt_err_context(e, "%s, line %" PRIu64, path, number);
        RT_TRY(rc);
    }
out:
    rt_map_close(&m);
    return rc;
}

static int each_captured(rt_cache_work *w, const char *path, take_fn take, void *ctx, rt_err *e)
{
    int rc, more = 1;
    rt_foreign_kd *f = NULL;
    RT_TRY(rt_foreign_kd_open(&f, w->o->tokens, path, w->o->window, e));
    while (more) {
        rt_foreign_doc d = { 0 };
        RT_TRY(more = rt_foreign_kd_next(f, &d, e));
        rc = more ? take(w, ctx, &d, e) : RT_OK;
        rt_foreign_doc_free(&d);
        if (rc < 0) rt_err_context(e, "%s", path);
        RT_TRY(rc);
    }
out:
    rt_foreign_kd_close(f);
    return rc;
}

static int each_document(rt_cache_work *w, int format, take_fn take, void *ctx, rt_err *e)
{
    int rc = RT_OK;
    const rt_watch watch = { rt_job_tell_watch, &w->tell };
    for (uint32_t i = 0; i < w->o->from_count; i++) {
        RT_TRY(rt_watch_step(&watch, "reading files of another tool", i, w->o->from_count, e));
        RT_TRY(format == SUROGATE ? each_captured(w, w->o->from[i], take, ctx, e)
                                  : each_line(w, w->o->from[i], format, w->plan.n, take, ctx, e));
    }
out:
    return rc;
}

/* ---- checked, and put into the cache ---- */

typedef struct import {
    uint64_t documents, positions; /* of which something is said */
    uint64_t dropped;              /* listed ids that do not count: what was given to them is part of the rest */
    uint32_t longest;
} import;

static int check_ids(const rt_cache_work *w, const rt_foreign_doc *d, rt_err *e)
{
    const uint32_t V = w->teacher->config.vocab;
    for (uint32_t i = 0; i < d->tokens; i++)
        if ((uint32_t)d->ids[i] >= V)
            return rt_fail(e, RT_INVALID, "token %u has id %d, and %s has %u ids; name the model that this text is for",
                           i, d->ids[i], w->settings.teacher.text[0], V);
    for (size_t i = 0; i < (size_t)d->tokens * d->k; i++)
        if (d->id[i] >= 0 && (uint32_t)d->id[i] >= V)
            return rt_fail(e, RT_INVALID,
                           "id %d is listed after token %zu, and %s has %u ids; name the model that made it", d->id[i],
                           i / d->k, w->settings.teacher.text[0], V);
    return RT_OK;
}

static int measure_document(rt_cache_work *w, void *ctx, rt_foreign_doc *d, rt_err *e)
{
    import *in = ctx;
    in->documents++;
    if (d->tokens > in->longest) in->longest = d->tokens;
    for (uint32_t p = 0; p < d->tokens; p++) in->positions += d->id[(size_t)p * d->k] >= 0;
    return check_ids(w, d, e);
}

/* Ids that do not count leave the list of a position. */
static void drop_ids(const rt_cache_work *w, import *in, rt_foreign_doc *d)
{
    if (!w->mask) return;
    for (uint32_t p = 0; p < d->tokens; p++) {
        int32_t *id = d->id + (size_t)p * d->k;
        float *logp = d->logp + (size_t)p * d->k;
        uint32_t n = 0;
        for (uint32_t i = 0; i < d->k && id[i] >= 0; i++) {
            if (rt_pair_has(w->pair, (uint32_t)id[i])) {
                id[n] = id[i];
                logp[n++] = logp[i];
                continue;
            }
            d->rest[p] += expf(logp[i]);
            in->dropped++;
        }
        for (; n < d->k && id[n] >= 0; n++) id[n] = -1, logp[n] = 0;
    }
}

static int put_document(rt_cache_work *w, void *ctx, rt_foreign_doc *d, rt_err *e)
{
    drop_ids(w, ctx, d);
    return rt_foreign_put(w->writer[0], &w->sections[0], d, e);
}

/* ---- a cache made of them ---- */

static int check_import(rt_cache_work *w, int *format, rt_err *e)
{
    const rt_job_cache_opts *o = w->o;
    const rt_settings *s = &w->settings;
    int rc = find_format(o->format, format, e);
    if (rc < 0) return rc;
    if (!s->out) return rt_fail(e, RT_USAGE, "--out is missing; give the folder for the cache");
    if (s->teacher.count != 1)
        return rt_fail(e, RT_USAGE,
                       "--from needs --teacher, once: the model that wrote these files, or one with its tokenizer");
    if (*format == SUROGATE && (!o->tokens || o->from_count != 1))
        return rt_fail(e, RT_USAGE, "--format surogate takes one --from FILE.kd and its token shard with --tokens");
    if (*format != SUROGATE && (o->tokens || o->window))
        return rt_fail(e, RT_USAGE, "%s is of --format surogate; leave it out", o->tokens ? "--tokens" : "--window");
    if (s->given[RT_SETTING_ID_temperature] && s->temperature != 1)
        return rt_fail(e, RT_INVALID,
                       "--temperature %g: files of other tools are taken for temperature 1, at which held-out text is "
                       "measured; leave it out",
                       s->temperature);
    rc = rt_job_output_outside_runs(s->out, e);
    if (rc < 0) return rc;
    w->fresh = !rt_path_exists(s->out);
    return rt_cache_is(s->out) ? rt_cache_work_there(w, e) : RT_OK;
}

static int open_pair(rt_cache_work *w, rt_err *e)
{
    int rc;
    rt_settings s = w->settings;
    const rt_inputs_opts io = { .env = &w->o->env->hub,
                                .pool = w->pool,
                                .now = w->o->env->now,
                                .stop = rt_job_tell_stop,
                                .progress = rt_job_tell_progress,
                                .ctx = &w->tell };
    bool alone = !s.student;
    if (alone) s.student = s.teacher.text[0], s.teacher.count = 0;
    RT_TRY(rt_inputs_open(&w->in, &s, &io, e));
    w->teacher = alone ? w->in->student : w->in->teacher;
    const rt_tokenizer *t = w->in->text ? w->in->text->tokenizer : NULL;
    const uint32_t V = w->teacher->config.vocab;
    if (alone) RT_TRY(rt_pair_check(&w->own, t, V, t, V, (uint32_t)s.vocab, e));
    w->pair = alone ? &w->own : &w->in->pair;
    w->out->notes = w->in->notes;
    RT_TRY(rt_cache_work_mask(w, e));
out:
    return rc;
}

/* Topk:K, where nothing is said as many as the file has. */
static int choose_keep(rt_cache_work *w, int format, rt_err *e)
{
    int rc;
    rt_foreign_kd *f = NULL;
    uint32_t k = w->pair->common < DEFAULT_K ? w->pair->common : DEFAULT_K;
    if (format == SUROGATE) {
        RT_TRY(rt_foreign_kd_open(&f, w->o->tokens, w->o->from[0], w->o->window, e));
        k = rt_foreign_kd_k(f);
    }
    w->keep = w->o->keep ? w->o->keep : rt_arena_printf(&w->arena, "topk:%u", k);
    if (!w->keep) RT_TRY(rt_no_memory(e, "what is kept"));
    RT_TRY(rt_keep_parse(&w->plan, w->keep, w->pair->common, e));
    if (w->plan.form != RT_FORM_TOPK || w->plan.n > RT_FOREIGN_MOST_K || (format == SUROGATE && w->plan.n < k))
        RT_TRY(rt_fail(e, RT_USAGE, "--keep %s: these files have lists of likely ids; give topk:%u%s", w->keep, k,
                       format == SUROGATE ? " or more" : ""));
    w->plan.blind = true;
    w->plan.exact = false;
out:
    rt_foreign_kd_close(f);
    return rc;
}

/* The teacher is known by what the files hold. */
static int identify(rt_cache_work *w, int format, rt_err *e)
{
    int rc = RT_OK;
    rt_hash128 all = { 0 };
    for (uint32_t i = 0; i < w->o->from_count; i++) {
        rt_hash128 both[2] = { all };
        RT_TRY(rt_file_hash(w->o->from[i], &both[1], e));
        all = rt_hash(both, sizeof both);
    }
    w->imported = json_pack("{s:s, s:s, s:i, s:o, s:{}}", "name", rt_path_base(w->o->from[0]), "family",
                            formats[format], "parameters", 0, "content_hash", rt_hash_to_json(all), "files");
    if (!w->imported) RT_TRY(rt_no_memory(e, "a teacher"));
out:
    return rc;
}

int rt_cache_work_import(rt_cache_work *w, rt_err *e)
{
    int rc, format;
import in = { 0 };
    RT_TRY(check_import(w, &format, e));
    RT_TRY(rt_job_pool_new(&w->pool, (uint32_t)w->settings.threads, e));
    RT_TRY(open_pair(w, e));
    RT_TRY(choose_keep(w, format, e));
    RT_TRY(each_document(w, format, measure_document, &in, e));
    if (!in.positions)
        RT_TRY(rt_fail(e, RT_FORMAT, "%s says nothing of any token; is it of --format %s?", w->o->from[0],
                       formats[format]));
    RT_TRY(identify(w, format, e));
    w->settings.temperature = 1;
    w->act = RT_DTYPE_F32;
    w->B = 1;
    w->r.seq_len = w->settings.given[RT_SETTING_ID_seq_len] ? (uint32_t)w->settings.seq_len : in.longest;
    RT_TRY(rt_cache_work_begin(w, e));
    RT_TRY(each_document(w, format, put_document, &in, e));
    RT_TRY(rt_cache_writer_commit(w->writer[0], e));
    rt_note(&w->out->notes,
            "%" PRIu64 " positions of %" PRIu64 " documents, of up to %u tokens; taken for %s at temperature 1, which "
            "no such file tells",
            in.positions, in.documents, in.longest, w->settings.teacher.text[0]);
    rt_note(&w->out->notes, "what is not listed is 1 minus what is; of tokens that are not listed nothing is known, so "
                            "the teacher's cross-entropy on held-out text is not measured");
    if (in.dropped)
        rt_note(&w->out->notes, "%" PRIu64 " listed ids do not count, and are part of the rest", in.dropped);
out:
    return rc;
}

/* ---- files for other tools ---- */

typedef struct export
{
    rt_cache *cache;
    rt_writer *file; /* of JSON lines; null: docs are kept */
    uint64_t at;
    rt_foreign_doc *docs;
    uint32_t count, cap;
    uint64_t written, lacking; /* positions that are trained on */
}
export;

/* Tokens [first, end) of a row, which are of one document, and the one that is predicted last. */
static int take_document(export *x, const rt_row *row, uint32_t first, uint32_t end, rt_foreign_doc *d, rt_err *e)
{
    int rc;
    const rt_cache_section *s;
    const int32_t last = row->target[end - 1];
    rt_cache_sections(x->cache, &s);
    RT_TRY(rt_foreign_doc_new(d, end - first + (last >= 0), s->n, e));
    memcpy(d->ids, row->ids + first, (end - first) * sizeof *d->ids);
    if (last >= 0) d->ids[end - first] = last;
    RT_TRY(rt_foreign_take(x->cache, 0, d, e));
    for (uint32_t p = first; p < end; p++) {
        bool has = d->id[(size_t)(p - first) * d->k] >= 0;
        x->written += has;
        x->lacking += row->target[p] >= 0 && !has;
    }
out:
    return rc;
}

static int put_line(export *x, int format, const rt_foreign_doc *d, rt_err *e)
{
    int rc;
    rt_str line = { 0 };
    rt_foreign_line_write(&line, (rt_foreign_lines)format, d);
    if (line.failed) RT_TRY(rt_no_memory(e, "a line"));
    RT_TRY(rt_writer_put(x->file, x->at, line.data, line.len, e));
    x->at += line.len;
out:
    rt_str_free(&line);
    return rc;
}

static int put_row(rt_cache_work *w, export *x, int format, const rt_row *row, rt_err *e)
{
    int rc = RT_OK;
    const uint32_t T = w->r.seq_len;
    for (uint32_t first = 0, end; first < T; first = end) {
        rt_foreign_doc d = { 0 };
        bool trained = false;
        for (end = first; end < T && row->start[end] == row->start[first]; end++)
            trained = trained || row->target[end] >= 0;
        if (!trained) continue; /* padding, or nothing that anybody asks about */
        rc = take_document(x, row, first, end, &d, e);
        if (rc >= 0 && format != SUROGATE) rc = put_line(x, format, &d, e);
        if (rc >= 0 && format == SUROGATE) {
            if (rt_grow((void **)&x->docs, &x->cap, x->count + 1, sizeof *x->docs)) {
                x->docs[x->count++] = d;
                continue;
            }
            rc = rt_no_memory(e, "documents");
        }
        rt_foreign_doc_free(&d);
        RT_TRY(rc);
    }
out:
    return rc;
}

static int check_export(const rt_cache_work *w, const export *x, int format, rt_err *e)
{
    const rt_cache_section *s;
    const rt_job_cache_opts *o = w->o;
    rt_cache_sections(x->cache, &s);
    if (s->keep != RT_KEEP_TOPK || s->n > RT_FOREIGN_MOST_K)
        return rt_fail(e, RT_INVALID, "%s keeps %s%s, and other tools read lists of up to %d likely ids", o->of,
                       s->keep == RT_KEEP_TOPK ? "longer lists" : rt_keep_name(s->keep),
                       s->keep == RT_KEEP_TOPK ? "" : " alone", RT_FOREIGN_MOST_K);
    if (!w->settings.data.count)
        return rt_fail(e, RT_USAGE,
                       "--to needs --data: a cache has hashes of texts, and a file for another tool has their tokens");
    if ((format == SUROGATE) != (o->tokens != NULL))
        return rt_fail(e, RT_USAGE, "--tokens FILE is the token shard that --format surogate writes, and no other");
    if (rt_path_exists(o->to) || (o->tokens && rt_path_exists(o->tokens)))
        return rt_fail(e, RT_INVALID, "%s exists; remove it, or give another name",
                       rt_path_exists(o->to) ? o->to : o->tokens);
    return RT_OK;
}

/* What rows are made with is the cache's. */
static int settle(rt_cache_work *w, const export *x, rt_err *e)
{
    rt_settings *s = &w->settings;
    const json_t *a = rt_cache_about(x->cache);
    char *model = rt_path_join(&w->arena, w->o->of, RT_CACHE_MODEL);
    if (!model) return rt_no_memory(e, "a path");
    w->lent = s->teacher.text[0] = model;
    s->teacher.count = 1;
    RT_SETTINGS_PUT(s, seq_len, (uint64_t)json_integer_value(json_object_get(a, "seq_len")));
    s->given[RT_SETTING_ID_seq_len] = true;
    return RT_OK;
}

/* All rows of a side: the data is all of it, whatever part of it a run would hold out. */
static int put_rows(rt_cache_work *w, export *x, int format, bool held, rt_err *e)
{
    int rc = RT_OK, more = 1;
    const uint32_t T = w->r.seq_len;
    int32_t *all = rt_alloc_zero((size_t)4 * T * sizeof *all, 64);
    rt_row row = { .ids = all, .target = all + T, .start = all + 2 * T, .pos = all + 3 * T };
    if (!all) RT_TRY(rt_no_memory(e, "a row"));
    while (more) {
        RT_TRY(rt_watch_step(&(rt_watch){ rt_job_tell_watch, &w->tell }, "writing a file", w->out->rows, 0, e));
        RT_TRY(more = rt_rows_next(w->rows[held], &row, e));
        w->out->rows += (uint64_t)more;
        if (more) RT_TRY(put_row(w, x, format, &row, e));
    }
out:
    rt_free(all);
    return rc;
}

int rt_cache_work_export(rt_cache_work *w, rt_err *e)
{
    int rc, format;
    export x = { 0 };
    const rt_job_cache_opts *o = w->o;
    RT_TRY(find_format(o->format, &format, e));
    RT_TRY(rt_cache_open(&x.cache, o->of, e));
    RT_TRY(rt_inputs_cache_says(x.cache, o->of, e));
    RT_TRY(rt_inputs_cache_files(x.cache, o->of, e));
    RT_TRY(check_export(w, &x, format, e));
    RT_TRY(settle(w, &x, e));
    RT_TRY(rt_job_pool_new(&w->pool, (uint32_t)w->settings.threads, e));
    RT_TRY(rt_dir_scratch(&w->folder, &w->arena, o->env->scratch, "retort-cache", e));
    RT_TRY(rt_cache_work_inputs(w, e));
    if (format != SUROGATE) RT_TRY(rt_writer_open(&x.file, o->to, e));
    RT_TRY(put_rows(w, &x, format, false, e));
    RT_TRY(put_rows(w, &x, format, true, e));
    if (!x.written)
        RT_TRY(rt_fail(e, RT_NOT_FOUND, "%s has nothing of this data; name the data that it was made for", o->of));
    RT_TRY(format == SUROGATE ? rt_foreign_kd_write(o->tokens, o->to, x.docs, x.count, w->teacher->config.vocab, "", e)
                              : rt_writer_commit(x.file, e));
    rt_note(&w->out->notes, "%s has %" PRIu64 " positions; %" PRIu64 " that are trained on are not in the cache", o->to,
            x.written, x.lacking);
    rt_note(&w->out->notes,
            "held-out positions and the mass of the rest are not written, and that the temperature is "
            "%g is said nowhere in it",
            json_number_value(json_object_get(rt_cache_about(x.cache), "temperature")));
out:
    for (uint32_t i = 0; i < x.count; i++) rt_foreign_doc_free(&x.docs[i]);
    rt_free(x.docs);
    rt_writer_free(x.file);
    rt_cache_close(x.cache);
    return rc;
}
