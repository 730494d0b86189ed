/* tokenize_run.c - `retort tokenize` over data: samples, shards, and the report.
 *
 * Owns: what is counted and printed. Tokenizing is text/data/dataset.h, shards are text/data_shard.h. */
#include "cli/tokenize.h"

#include "base/file.h"
#include "base/json.h"
#include "base/sys.h"
#include "cli/model_arg.h"
#include "cli/progress.h"
#include "cli/version.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

typedef struct run {
    const rt_tokenize_request *q;
    rt_tokenize_text t;
    rt_data_list list;
    rt_pool *pool;
    rt_shard_set *set; /* null: nothing is written */
    rt_progress progress;
    rt_tokenize_stats stats;
    rt_rows_opts rows;
    rt_rows_count fit;     /* what rows of --seq-len make of it */
    rt_shard_record whole; /* a text that comes in parts, so far */
    json_t *samples;
    uint64_t shown, disk;
    uint32_t shards;
    double seconds;
} run;

/* ---- samples ---- */

static int show_record(run *s, const rt_shard_record *r, const char *place, rt_err *e)
{
    bool colour = !s->q->json && isatty(STDOUT_FILENO);
    rt_str text = { 0 };
    int rc;
    if (s->shown >= s->q->show) return RT_OK;
    s->shown++;
    RT_TRY(rt_tokenize_sample(&text, s->t.text.tok, r, colour, e));
    if (s->q->json)
        json_array_append_new(s->samples,
                              json_pack("{s:s, s:s, s:I, s:I, s:s%}", "place", place, "kind",
                                        rt_record_kind_name(r->kind), "tokens", (json_int_t)r->count, "trained",
                                        (json_int_t)r->trained, "text", text.data ? text.data : "", text.len));
    else
        printf("--- %s: %s, %u tokens, %u trained\n%s\n", place, rt_record_kind_name(r->kind), r->count, r->trained,
               text.data ? text.data : "");
out:
    rt_str_free(&text);
    return rc;
}

/* ---- one record ---- */

static int on_record(void *ctx, const rt_data_place *where, const rt_encoded *r, rt_err *e)
{
    run *s = ctx;
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
        s->whole = rec;
        if (where->line)
            snprintf(place, sizeof place, "%.360s:%llu", where->path, (unsigned long long)where->line);
        else
            snprintf(place, sizeof place, "%.390s", where->path);
        RT_TRY(show_record(s, &rec, place, e));
    } else {
        s->whole.count += rec.count;
        s->whole.trained += rec.trained;
    }
    if (where->parts & RT_PART_LAST) rt_rows_count_record(&s->fit, &s->whole, &s->rows, false);
    if (s->set) RT_TRY(rt_shard_set_add(s->set, r, where->source, where->parts, e));
out:
    return rc;
}

static bool on_stop(void *ctx)
{
    (void)ctx;
    return rt_interrupt_wanted();
}

static void on_progress(void *ctx, const rt_tokenize_stats *st)
{
    run *s = ctx;
    rt_progress_step(&s->progress, "tokenizing", st->disk_done, s->disk);
}

/* ---- the report ---- */

static char *million(char *buf, size_t size, double x)
{
    snprintf(buf, size, x >= 1e6 ? "%.1f M" : "%.0f", x >= 1e6 ? x / 1e6 : x);
    return buf;
}

static void print_fit(const run *s)
{
    const rt_rows_count *f = &s->fit;
    if (s->q->seq_len)
        printf("rows of %u: %llu texts in pieces, %llu conversations cut after a turn; dropped: %llu too long, %llu "
               "without a target\n",
               s->q->seq_len, (unsigned long long)f->split, (unsigned long long)f->cut, (unsigned long long)f->too_long,
               (unsigned long long)f->no_target);
    else if (f->no_target)
        printf("without     a target: %llu records\n", (unsigned long long)f->no_target);
}

static void print_report(const run *s)
{
    const rt_tokenize_stats *st = &s->stats;
    char rate[32];
    double share = st->tokens ? 100.0 * (double)st->trained / (double)st->tokens : 0;
    printf("records     %llu (%llu text, %llu completion, %llu chat)\n", (unsigned long long)st->records,
           (unsigned long long)st->kinds[0], (unsigned long long)st->kinds[1], (unsigned long long)st->kinds[2]);
    printf("tokens      %llu, of which %llu trained (%.1f %%)\n", (unsigned long long)st->tokens,
           (unsigned long long)st->trained, share);
    print_fit(s);
    if (st->bad)
        printf("skipped     %llu bad record%s; the first: %s\n", (unsigned long long)st->bad, st->bad == 1 ? "" : "s",
               st->first_bad);
    printf("speed       %.1f MB/s, %s tokens/s, %.2f s, %u threads\n", (double)st->bytes / 1e6 / s->seconds,
           million(rate, sizeof rate, (double)st->tokens / s->seconds), s->seconds, rt_pool_threads(s->pool));
    if (s->q->out) printf("written     %s (%u shard%s)\n", s->q->out, s->shards, s->shards == 1 ? "" : "s");
}

static json_t *report_json(const run *s)
{
    const rt_tokenize_stats *st = &s->stats;
    const rt_rows_count *f = &s->fit;
    char hash[33];
    json_t *j =
        json_pack("{s:I, s:{s:I, s:I, s:I}, s:I, s:I, s:I, s:I, s:f, s:f, s:f, s:i, s:s, s:s?, s:i}", "records",
                  (json_int_t)st->records, "kinds", "text", (json_int_t)st->kinds[0], "completion",
                  (json_int_t)st->kinds[1], "chat", (json_int_t)st->kinds[2], "bad", (json_int_t)st->bad, "tokens",
                  (json_int_t)st->tokens, "trained", (json_int_t)st->trained, "bytes", (json_int_t)st->bytes, "seconds",
                  s->seconds, "tokens_per_second", (double)st->tokens / s->seconds, "bytes_per_second",
                  (double)st->bytes / s->seconds, "threads", (int)rt_pool_threads(s->pool), "tokenizer",
                  rt_hash_text(hash, rt_tokenizer_hash(s->t.text.tok)), "out", s->q->out, "shards", (int)s->shards);
    json_t *rows = json_pack("{s:I, s:I, s:I, s:I, s:I}", "seq_len", (json_int_t)s->q->seq_len, "split",
                             (json_int_t)f->split, "cut", (json_int_t)f->cut, "too_long", (json_int_t)f->too_long,
                             "no_target", (json_int_t)f->no_target);
    if (j && st->bad) json_object_set_new(j, "first_bad", json_string(st->first_bad));
    if (j) json_object_set_new(j, "rows", rows);
    if (j && s->q->show) json_object_set(j, "samples", s->samples);
    return j;
}

/* What a shard says about where it came from. */
static int origin(const run *s, char **out, rt_err *e)
{
    const rt_data_text *t = &s->t.text;
    json_t *sources = json_array(), *j;
    for (uint32_t i = 0; sources && i < s->list.source_count; i++)
        json_array_append_new(sources, json_string(s->list.sources[i].name));
    j = json_pack("{s:s, s:s, s:o, s:s}", "program", "retort " RT_VERSION, "model", rt_path_base(s->q->model),
                  "sources", sources, "loss", s->q->loss_name ? s->q->loss_name : "turns");
    if (j && s->stats.kinds[RT_RECORD_CHAT]) {
        json_object_set_new(j, "strftime_now", json_integer(t->now));
        json_object_set_new(j, "utc_offset", json_integer(t->utc_offset));
    }
    if (j && s->t.template_hash[0]) json_object_set_new(j, "chat_template", json_string(s->t.template_hash));
    if (j && s->t.extra) json_object_set(j, "template_vars", s->t.extra);
    *out = j ? json_dumps(j, JSON_COMPACT) : NULL;
    json_decref(j);
    return *out ? RT_OK : rt_fail(e, RT_NOMEM, "out of memory to describe the shards");
}

/* ---- text ---- */

static int tokenize(run *s, rt_err *e)
{
    const rt_tokenize_request *q = s->q;
    rt_tokenize_opts o = { .text = &s->t.text,
                           .loss = q->loss_name && strcmp(q->loss_name, "all") == 0 ? RT_LOSS_ALL : RT_LOSS_TURNS,
                           .skip_bad = q->skip_bad,
                           .max_records = q->show && !q->out ? q->show : 0,
                           .pool = s->pool,
                           .sink = on_record,
                           .stop = on_stop,
                           .progress = on_progress,
                           .ctx = s };
    char *about = NULL;
    int rc;
    double start = rt_now();
    for (uint32_t i = 0; i < s->list.file_count; i++) s->disk += s->list.files[i].size;
    if (q->out) {
        rt_shard_identity id = { rt_tokenizer_hash(s->t.text.tok), rt_tokenizer_size(s->t.text.tok) };
        RT_TRY(rt_shard_set_new(&s->set, q->out, &id, q->shard_tokens, e));
    }
    rt_interrupt_catch();
    rt_progress_begin(&s->progress);
    rc = rt_data_tokenize(&s->list, 0, s->list.source_count, &o, &s->stats, e);
    rt_progress_end(&s->progress);
    s->seconds = rt_now() - start + 1e-9;
    RT_TRY(rc);
    /* Of a few samples nothing can be said about the whole. */
    if (!o.max_records) RT_TRY(rt_rows_judge(&s->fit, s->list.sources[0].name, &s->rows, e));
    if (s->set) {
        RT_TRY(origin(s, &about, e));
        RT_TRY(rt_shard_set_commit(s->set, about, &s->shards, e));
    }
    if (q->json)
        rc = rt_print_json(report_json(s), e);
    else if (!o.max_records)
        print_report(s);
out:
    rt_free(about);
    return rc;
}

/* ---- shards that are there already ---- */

static int show_shard(run *s, rt_shard *shard, rt_err *e)
{
    const rt_shard_info *about = rt_shard_about(shard);
    rt_rows_count c;
    int rc;
    RT_TRY(rt_rows_survey(&shard, 1, &s->rows, &c, e));
    s->fit.records += c.records;
    s->fit.split += c.split;
    s->fit.cut += c.cut;
    s->fit.too_long += c.too_long;
    s->fit.no_target += c.no_target;
    s->stats.records += about->records;
    s->stats.tokens += about->tokens;
    s->stats.trained += about->trained;
    for (uint64_t i = 0; i < about->records && s->shown < s->q->show; i++) {
        rt_shard_record r;
        char place[400];
        rt_shard_get(shard, i, &r);
        snprintf(place, sizeof place, "%.360s record %llu", about->path, (unsigned long long)i);
        RT_TRY(show_record(s, &r, place, e));
    }
out:
    return rc;
}

static int read_shards(run *s, rt_err *e)
{
    const rt_tokenize_request *q = s->q;
    const rt_tokenizer *tok = s->t.text.tok;
    rt_hash128 hash = tok ? rt_tokenizer_hash(tok) : (rt_hash128){ 0 };
    rt_shard_expect x = { .tokenizer = tok ? &hash : NULL, .block = q->seq_len };
    int rc = RT_OK;
    x.vocab = q->vocab ? q->vocab : tok ? rt_tokenizer_size(tok) : 0;
    if (q->out) return rt_fail(e, RT_INVALID, "%s holds tokens already; leave -o out to look at it", q->data.text[0]);
    if (q->show && !tok) return rt_fail(e, RT_USAGE, "retort tokenize: --show needs --model to turn ids into text");
    for (uint32_t i = 0; i < s->list.file_count; i++) {
        rt_shard *shard = NULL;
        rc = rt_shard_open(&shard, s->list.files[i].path, &x, e);
        if (rc == RT_OK && q->verify) rc = rt_shard_verify(shard, e);
        if (rc == RT_OK) rc = show_shard(s, shard, e);
        rt_shard_close(shard);
        if (rc < 0) return rc;
    }
    if (q->json)
        return rt_print_json(json_pack("{s:I, s:I, s:I, s:i, s:b, s:O}", "records", (json_int_t)s->stats.records,
                                       "tokens", (json_int_t)s->stats.tokens, "trained", (json_int_t)s->stats.trained,
                                       "shards", (int)s->list.file_count, "verified", q->verify, "samples", s->samples),
                             e);
    printf("%u shard%s%s: %llu records, %llu tokens, %llu trained\n", s->list.file_count,
           s->list.file_count == 1 ? "" : "s", q->verify ? ", verified" : "", (unsigned long long)s->stats.records,
           (unsigned long long)s->stats.tokens, (unsigned long long)s->stats.trained);
    print_fit(s);
    return RT_OK;
}

/* ---- the whole ---- */

static int check_output(const rt_tokenize_request *q, rt_err *e)
{
    if (!q->out) return RT_OK;
    bool file = rt_path_ends(q->out, ".rtok");
    if (!rt_path_exists(q->out)) return RT_OK;
    if (file && rt_path_is_dir(q->out)) return rt_fail(e, RT_INVALID, "%s is a directory", q->out);
    if (file && !q->force) return rt_fail(e, RT_INVALID, "%s is there already; --force replaces it", q->out);
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

int rt_tokenize_data(const rt_tokenize_request *q, rt_err *e)
{
    run s = { .q = q };
    rt_hub_env env = rt_hub_env_get();
    int rc;
    s.rows = (rt_rows_opts){ .seq_len = q->seq_len ? q->seq_len : UINT32_MAX, .allow_drop = q->allow_drop };
    s.samples = json_array();
    if (!s.samples) RT_TRY(rt_fail(e, RT_NOMEM, "out of memory"));
    RT_TRY(check_output(q, e));
    RT_TRY(rt_data_list_open(&s.list, q->data.text, q->data.count, &env, e));
    for (uint32_t i = 0; i < s.list.note_count; i++) fprintf(stderr, "note: %s\n", s.list.notes[i]);
    for (uint32_t i = 0; i < s.list.source_count; i++)
        if (s.list.sources[i].weighted)
            RT_TRY(rt_fail(e, RT_INVALID,
                           "%s: a weight belongs to training, where each source has its own; leave it out",
                           s.list.sources[i].spec));
    RT_TRY(hold_tokens(&s.list, e));
    bool tokens = rc == 1;
    if (!tokens && !q->model)
        RT_TRY(rt_fail(e, RT_USAGE, "retort tokenize: --model is missing: a model, a tokenizer.json or a GGUF"));
    RT_TRY(rt_tokenize_text_open(&s.t, q, e));
    RT_TRY(rt_pool_for(&s.pool, q->threads, e));
    rc = tokens ? read_shards(&s, e) : tokenize(&s, e);
out:
    rt_shard_set_free(s.set);
    rt_tokenize_text_close(&s.t);
    rt_data_list_close(&s.list);
    rt_pool_free(s.pool);
    json_decref(s.samples);
    return rc < 0 ? rc : RT_OK;
}
