/* job_tokenize.c - text as token shards, samples of it with what is trained, shards looked at; one text to ids and
 * back.
 *
 * Owns: what is counted, and when shards are written. Tokenizing is text/data/dataset.h, shards are
 * text/data/data_shard.h. */
#include "job/job_internal.h"

#include "base/json.h"
#include "base/sys.h"
#include "text/data/model_text.h"

#include <stdio.h>
#include <string.h>

enum { MOST_TEMPLATE = 16 << 20, MOST_SHOWN = 4096 };

/* ---- the tokenizer, with what was asked to be different about it ---- */

typedef struct text_source {
    rt_text_source *source; /* null: no model was named */
    rt_chat_template *tmpl; /* of a file */
    json_t *extra;
    char template_hash[33]; /* of the template in use, when it came from a file; else empty */
    rt_data_text text;
} text_source;

static int read_template(text_source *t, const char *path, rt_err *e)
{
    rt_str text = { 0 };
    int rc;
    RT_TRY(rt_file_read(path, MOST_TEMPLATE, &text, e));
    rc = rt_chat_template_new(&t->tmpl, text.data ? text.data : "", text.len, e);
    if (rc < 0) rt_err_context(e, "%s", path);
    rt_hash_text(t->template_hash, rt_hash(text.data, text.len));
out:
    rt_str_free(&text);
    return rc;
}

static int set_eos(rt_data_text *t, const char *eos, rt_err *e)
{
    if (!eos) return RT_OK;
    int64_t id = rt_tokenizer_find(t->tok, eos, strlen(eos));
    if (id < 0) return rt_fail(e, RT_INVALID, "--eos '%s' is not a token of this tokenizer", eos);
    if (t->eot == t->eos) t->eot = id;
    t->eos = id;
    return RT_OK;
}

static void close_text(text_source *t)
{
    rt_chat_template_free(t->tmpl);
    rt_text_close(t->source);
    json_decref(t->extra);
    *t = (text_source){ 0 };
}

static int open_text(text_source *t, const rt_job_text_opts *o, rt_err *e)
{
    int rc;
    *t = (text_source){ .text = { .bos = -1, .eos = -1, .eot = -1 } };
    if (!o->model) return RT_OK;
    RT_TRY(rt_text_open(&t->source, o->model, &o->env->hub, e));
    if (o->template_file) RT_TRY(read_template(t, o->template_file, e));
    if (o->var_count) RT_TRY(rt_template_vars(&t->extra, o->vars, o->var_count, e));
    RT_TRY(rt_data_text_from(&t->text, t->source, t->tmpl, e));
    t->text.extra = t->extra;
    t->text.now = o->env->now; /* some templates print the date */
    t->text.utc_offset = o->env->utc_offset;
    RT_TRY(set_eos(&t->text, o->eos, e));
out:
    if (rc < 0) close_text(t);
    return rc;
}

/* ---- one text ---- */

int rt_job_tokenizer_encode(const rt_tokenizer *t, const char *text, size_t len, unsigned flags, rt_tok_ids *ids,
                            rt_err *e)
{
    rt_tok_scratch *scratch = NULL;
    int rc = rt_tok_scratch_new(&scratch, t, e);
    if (rc >= 0) rc = rt_tokenizer_encode(t, scratch, text, len, flags, ids, e);
    rt_tok_scratch_free(scratch);
    return rc;
}

int rt_job_encode(const rt_job_text_opts *o, const char *text, size_t len, bool special, rt_tok_ids *ids, rt_err *e)
{
    text_source t;
    rt_json_init();
    int rc = open_text(&t, o, e);
    if (rc >= 0) rc = rt_job_tokenizer_encode(t.text.tok, text, len, special ? RT_ENCODE_SPECIAL : 0, ids, e);
    close_text(&t);
    return rc;
}

/* Every number of the text to the stream. */
static int push_numbers(rt_tok_stream *stream, const char *from, size_t len, rt_str *out, rt_err *e)
{
    int rc = RT_OK;
    const char *p = from, *end = p + len;
    for (uint64_t n = 0; p < end; n++) {
        uint64_t id = 0;
        const char *word = p;
        for (; p < end && *p >= '0' && *p <= '9' && id <= UINT32_MAX; p++) id = 10 * id + (uint64_t)(*p - '0');
        if (p > word && (id > UINT32_MAX || (p < end && *p >= '0' && *p <= '9')))
            RT_TRY(rt_fail(e, RT_INVALID, "number %llu is too large for an id", (unsigned long long)n));
        if (p > word)
            RT_TRY(rt_tok_stream_push(stream, (uint32_t)id, out, e));
        else if (!strchr(" \t\r\n,[]", *p) || !*p)
            RT_TRY(rt_fail(e, RT_INVALID, "'%c' at byte %llu; ids are numbers separated by blanks",
                           *p > ' ' && *p < 127 ? *p : '?', (unsigned long long)(p - from)));
        else
            p++;
    }
out:
    return rc;
}

int rt_job_decode(const rt_job_text_opts *o, const char *numbers, size_t len, bool special, rt_str *text, rt_err *e)
{
    int rc;
    text_source t = { 0 };
    rt_tok_stream *stream = NULL;
    rt_json_init();
    RT_TRY(open_text(&t, o, e));
    RT_TRY(rt_tok_stream_new(&stream, t.text.tok, special ? 0 : RT_DECODE_SKIP_SPECIAL, e));
    RT_TRY(push_numbers(stream, numbers, len, text, e));
    RT_TRY(rt_tok_stream_end(stream, text, e));
out:
    rt_tok_stream_free(stream);
    close_text(&t);
    return rc;
}

/* ---- samples ---- */

typedef struct work {
    const rt_job_tokenize_opts *o;
    rt_job_tokenized *done;
    text_source t;
    rt_data_list list;
    rt_pool *pool;
    rt_shard_set *set; /* null: nothing is written */
    rt_rows_opts rows;
    rt_columns columns;
    rt_shard_record whole; /* a text that comes in parts, so far */
    uint64_t shown;        /* of source shown_of */
    uint32_t shown_of;
    uint64_t disk;
    bool stopped;
    double told;   /* when progress was called last */
    uint64_t seen; /* bytes of files */
} work;

static int end_piece(size_t **ends, uint32_t *cap, rt_job_sample *s, size_t at, rt_err *e)
{
    if (!rt_grow((void **)ends, cap, s->count + 1, sizeof **ends)) return rt_no_memory(e, "a sample");
    (*ends)[s->count++] = at;
    return RT_OK;
}

static bool wants_more(work *w, uint32_t source)
{
    if (source != w->shown_of) w->shown = 0;
    w->shown_of = source;
    return w->shown < w->o->show;
}

/* What rows make of a record. */
static void say_fate(const work *w, const rt_shard_record *r, rt_job_sample *s)
{
    rt_rows_count c = { 0 };
    rt_rows_count_record(&c, r, &w->rows, false);
    s->dropped = c.too_long ? "too long" : c.no_target ? "nothing of it is trained" : NULL;
    s->cut = c.cut > 0;
    s->kept = c.tokens;
    s->kept_trained = c.trained;
}

/* A record as text, cut where what is trained begins and ends. Characters that wait for another token are given out on
 * the side of the token that completes them. */
static int show_record(work *w, const rt_shard_record *r, uint32_t source, const char *place, rt_err *e)
{
    int rc;
    rt_tok_stream *stream = NULL;
    rt_str text = { 0 };
    size_t *ends = NULL;
    uint32_t cap = 0, n = r->count < MOST_SHOWN ? r->count : MOST_SHOWN;
    rt_job_sample s = { .place = place,
                        .kind = rt_record_kind_name(r->kind),
                        .tokens = r->count,
                        .trained = r->trained,
                        .left = r->count - n };
    if (!wants_more(w, source)) return RT_OK;
    w->shown++;
    say_fate(w, r, &s);
    RT_TRY(rt_tok_stream_new(&stream, w->t.text.tok, 0, e));
    for (uint32_t i = 0; i < n; i++) {
        bool trained = i > 0 && (!r->target || rt_bit(r->target, i));
        if (trained != (s.count % 2 == 1)) RT_TRY(end_piece(&ends, &cap, &s, text.len, e));
        RT_TRY(rt_tok_stream_push(stream, rt_shard_id(r, i), &text, e));
    }
    RT_TRY(rt_tok_stream_end(stream, &text, e));
    RT_TRY(end_piece(&ends, &cap, &s, text.len, e));
    if (text.failed) RT_TRY(rt_no_memory(e, "a sample"));
    s.text = text.data ? text.data : "";
    s.ends = ends;
    if (w->o->sample) w->o->sample(w->o->ctx, &s);
out:
    rt_tok_stream_free(stream);
    rt_str_free(&text);
    rt_free(ends);
    return rc;
}

/* ---- text ---- */

static int on_record(void *ctx, const rt_data_place *where, const rt_encoded *r, rt_err *e)
{
    work *w = ctx;
    char place[400];
    rt_shard_record rec = { .kind = r->kind,
                            .ids = r->ids.ids,
                            .wide = true,
                            .count = r->ids.count,
                            .trained = r->trained,
                            .next = -1,
                            .target = r->all_targets ? NULL : r->target,
                            .stop = r->has_stops ? r->stop : NULL };
    int rc = RT_OK;
    if (where->parts & RT_PART_FIRST) {
        w->whole = rec;
        if (where->line)
            snprintf(place, sizeof place, "%.360s:%llu", where->path, (unsigned long long)where->line);
        else
            snprintf(place, sizeof place, "%.390s", where->path);
        RT_TRY(show_record(w, &rec, where->source, place, e));
    } else {
        w->whole.count += rec.count;
        w->whole.trained += rec.trained;
    }
    if (where->parts & RT_PART_LAST) rt_rows_count_record(&w->done->rows, &w->whole, &w->rows, RT_HELD_NOT);
    if (w->set) RT_TRY(rt_shard_set_add(w->set, r, where->source, where->parts, e));
out:
    return rc;
}

static void tell(work *w)
{
    w->told = rt_now();
    if (w->o->progress && w->o->progress(w->o->ctx, "tokenizing", w->seen, w->disk)) w->stopped = true;
}

/* Asked between two records, which a template may take a second for. */
static bool on_stop(void *ctx)
{
    work *w = ctx;
    if (rt_now() - w->told > RT_JOB_TELL_SECONDS) tell(w);
    return w->stopped;
}

static void on_progress(void *ctx, const rt_tokenize_stats *st)
{
    work *w = ctx;
    w->seen = st->disk_done;
    tell(w);
}

static void on_note(void *ctx, const char *text)
{
    const work *w = ctx;
    if (w->o->note) w->o->note(w->o->ctx, text);
}

/* What a shard says about where it came from. */
static int origin(const work *w, char **out, rt_err *e)
{
    const rt_data_text *t = &w->t.text;
    char program[64];
    json_t *sources = NULL, *files, *j;
    int rc = rt_data_files_json(&files, &w->list, 0, w->list.source_count, e);
    if (rc < 0) return rc;
    sources = json_array();
    snprintf(program, sizeof program, "retort %s", w->o->text.env->version);
    for (uint32_t i = 0; sources && i < w->list.source_count; i++)
        json_array_append_new(sources, json_string(w->list.sources[i].name));
    j = json_pack("{s:s, s:s, s:o, s:o, s:s}", "program", program, "model", rt_path_base(w->o->text.model), "sources",
                  sources, "files", files, "loss", w->o->loss ? w->o->loss : "turns");
    if (j && w->done->stats.kinds[RT_RECORD_CHAT]) {
        json_object_set_new(j, "strftime_now", json_integer(t->now));
        json_object_set_new(j, "utc_offset", json_integer(t->utc_offset));
    }
    if (j && w->o->columns) json_object_set_new(j, "columns", json_string(w->o->columns));
    if (j && w->t.template_hash[0]) json_object_set_new(j, "chat_template", json_string(w->t.template_hash));
    if (j && w->t.extra) json_object_set(j, "template_vars", w->t.extra);
    *out = rt_json_dump(j, JSON_COMPACT);
    json_decref(j);
    return *out ? RT_OK : rt_no_memory(e, "a description of the shards");
}

static int tokenize(work *w, rt_err *e)
{
    const rt_job_tokenize_opts *q = w->o;
    rt_job_tokenized *done = w->done;
    rt_tokenize_opts o = { .text = &w->t.text,
                           .loss = q->loss && strcmp(q->loss, "all") == 0 ? RT_LOSS_ALL : RT_LOSS_TURNS,
                           .skip_bad = q->skip_bad,
                           .pool = w->pool,
                           .sink = on_record,
                           .stop = on_stop,
                           .progress = on_progress,
                           .note = on_note,
                           .ctx = w };
    char *about = NULL;
    int rc;
    double start = rt_now();
    for (uint32_t i = 0; i < w->list.file_count; i++) w->disk += w->list.files[i].size;
    if (q->out) {
        rt_shard_identity id = { rt_tokenizer_hash(w->t.text.tok), rt_tokenizer_size(w->t.text.tok) };
        RT_TRY(rt_job_output_outside_runs(q->out, e));
        RT_TRY(rt_shard_set_new(&w->set, q->out, &id, q->shard_tokens, e));
        if (!q->replace) rt_shard_set_new_only(w->set);
    }
    RT_TRY(rt_data_tokenize(&w->list, 0, w->list.source_count, &o, &done->stats, e));
    done->seconds = rt_now() - start + 1e-9;
    RT_TRY(rt_rows_judge(&done->rows, w->list.sources[0].name, &w->rows, e));
    if (w->set) {
        RT_TRY(origin(w, &about, e));
        RT_TRY(rt_shard_set_commit(w->set, about, &done->shards, e));
    }
out:
    rt_free(about);
    return rc;
}

/* ---- shards that are there already ---- */

static int show_shard(work *w, rt_shard *shard, uint32_t source, rt_err *e)
{
    const rt_shard_info *about = rt_shard_about(shard);
    rt_job_tokenized *done = w->done;
    rt_rows_count c;
    int rc;
    RT_TRY(rt_rows_survey(&shard, 1, &w->rows, &c, e));
    done->rows.records += c.records;
    done->rows.split += c.split;
    done->rows.cut += c.cut;
    done->rows.too_long += c.too_long;
    done->rows.no_target += c.no_target;
    done->rows.targets += c.targets;
    done->rows.lost += c.lost;
    done->stats.records += about->records;
    done->stats.tokens += about->tokens;
    done->stats.trained += about->trained;
    for (uint64_t i = 0; i < about->records && wants_more(w, source); i++) {
        rt_shard_record r;
        char place[400];
        rt_shard_get(shard, i, &r);
        snprintf(place, sizeof place, "%.360s record %llu", about->path, (unsigned long long)i);
        RT_TRY(show_record(w, &r, source, place, e));
    }
out:
    return rc;
}

static int read_shards(work *w, rt_err *e)
{
    const rt_job_tokenize_opts *q = w->o;
    const rt_tokenizer *tok = w->t.text.tok;
    rt_hash128 hash = tok ? rt_tokenizer_hash(tok) : (rt_hash128){ 0 };
    rt_shard_expect x = { .tokenizer = tok ? &hash : NULL, .block = q->seq_len };
    x.vocab = q->vocab ? q->vocab : tok ? rt_tokenizer_size(tok) : 0;
    if (q->out) return rt_fail(e, RT_INVALID, "%s holds tokens already; leave --out out to look at it", q->data[0]);
    if (q->show && !tok) return rt_fail(e, RT_USAGE, "--show needs --model to turn ids into text");
    for (uint32_t i = 0; i < w->list.file_count; i++) {
        rt_shard *shard = NULL;
        int rc = rt_shard_open(&shard, w->list.files[i].path, &x, e);
        if (rc == RT_OK && q->verify) rc = rt_shard_verify(shard, e);
        if (rc == RT_OK) rc = show_shard(w, shard, w->list.files[i].source, e);
        rt_shard_close(shard);
        if (rc < 0) return rc;
    }
    w->done->read = true;
    w->done->shards = w->list.file_count;
    return RT_OK;
}

/* ---- the whole ---- */

static int check_request(const rt_job_tokenize_opts *q, rt_err *e)
{
    if (q->loss && strcmp(q->loss, "turns") != 0 && strcmp(q->loss, "all") != 0)
        return rt_fail(e, RT_USAGE, "--loss-on is turns or all, not '%s'", q->loss);
    if (!q->out || !rt_path_exists(q->out)) return RT_OK;
    bool file = rt_path_ends(q->out, ".rtok");
    if (file && rt_path_is_dir(q->out)) return rt_fail(e, RT_INVALID, "%s is a directory", q->out);
    if (file && !q->replace) return rt_fail(e, RT_INVALID, "%s is there already; --force replaces it", q->out);
    if (!file && !rt_path_is_dir(q->out))
        return rt_fail(e, RT_INVALID, "%s is a file; a name ending in .rtok makes one shard, any other a directory",
                       q->out);
    return RT_OK;
}

/* 1: all are token shards; 0: none is. */
static int hold_tokens(const rt_data_list *l, rt_err *e)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < l->file_count; i++)
        n += l->files[i].format == RT_DATA_SHARD || l->files[i].format == RT_DATA_BIN;
    if (n > 0 && n < l->file_count) return rt_fail(e, RT_INVALID, "text and token shards in one call; name one kind");
    return n > 0;
}

int rt_job_tokenize(rt_job_tokenized *done, const rt_job_tokenize_opts *q, rt_err *e)
{
    work w = { .o = q, .done = done };
    int rc;
    rt_json_init();
    rt_json_forget();
    *done = (rt_job_tokenized){ 0 };
    w.rows = (rt_rows_opts){ .seq_len = q->seq_len ? q->seq_len : UINT32_MAX, .allow_drop = q->allow_drop };
    RT_TRY(check_request(q, e));
    RT_TRY(rt_data_list_open(&w.list, q->data, q->data_count, &q->text.env->hub, e));
    for (uint32_t i = 0; q->note && i < w.list.note_count; i++) q->note(q->ctx, w.list.notes[i]);
    for (uint32_t i = 0; i < w.list.source_count; i++)
        if (w.list.sources[i].weighted)
            RT_TRY(rt_fail(e, RT_INVALID,
                           "%s: a weight belongs to training, where each source has its own; leave it out",
                           w.list.sources[i].spec));
    if (q->columns) RT_TRY(rt_columns_parse(&w.columns, &w.list.arena, q->columns, e));
    RT_TRY(hold_tokens(&w.list, e));
    bool tokens = rc == 1;
    if (!tokens && !q->text.model)
        RT_TRY(rt_fail(e, RT_USAGE, "--model is missing: a model, a tokenizer.json or a GGUF"));
    RT_TRY(open_text(&w.t, &q->text, e));
    if (q->columns) w.t.text.columns = &w.columns;
    if (w.t.text.tok) rt_hash_text(done->tokenizer, rt_tokenizer_hash(w.t.text.tok));
    RT_TRY(rt_job_pool_new(&w.pool, q->threads, e));
    done->threads = rt_pool_threads(w.pool);
    rc = tokens ? read_shards(&w, e) : tokenize(&w, e);
out:
    rt_shard_set_free(w.set);
    close_text(&w.t);
    rt_data_list_close(&w.list);
    rt_pool_free(w.pool);
    return rc < 0 ? rc : RT_OK;
}
