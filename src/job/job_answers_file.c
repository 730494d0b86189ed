/* job_answers_file.c - prompts from a file, and their answers as lines of another. See job_answers_internal.h. */
#include "job/job_answers_internal.h"

#include "base/json.h"

#include <stdlib.h>
#include <string.h>

/* ---- prompts ---- */

static int check_ids(const rt_tok_ids *ids, uint32_t vocab, rt_err *e)
{
    if (!ids->count) return rt_fail(e, RT_INVALID, "the prompt has no tokens");
    for (uint32_t i = 0; i < ids->count; i++)
        if (ids->ids[i] >= vocab)
            return rt_fail(e, RT_INVALID, "id %u of the prompt is outside the model's vocabulary of %u", ids->ids[i],
                           vocab);
    return RT_OK;
}

static int ids_of(const rt_data_text *t, const rt_prompt_line *line, json_t **record, rt_tok_ids *ids, rt_err *e)
{
    int rc = rt_prompt_record(t, line->text, line->len, line->json, record, e);
    return rc < 0 ? rc : rt_prompt_from_record(t, *record, NULL, ids, e);
}

static int in_line(const rt_asked_list *l, uint64_t number, int rc, rt_err *e)
{
    if (rc < 0) rt_err_context(e, "%s, line %llu", l->path, (unsigned long long)number);
    return rc;
}

int rt_asked_ids(rt_asked_list *l, const rt_data_text *t, uint32_t i, json_t **record, rt_tok_ids *ids, rt_err *e)
{
    int rc = RT_OK;
    const rt_asked *a = &l->each[i];
    if (!l->file) RT_TRY(rt_prompt_file_open(&l->file, l->path, false, e));
    for (; l->at <= i && rc >= 0; l->at++)
        if ((rc = rt_prompt_file_next(l->file, &l->line, e)) == 0) break;
    RT_TRY(rc);
    if (l->at == i + 1) RT_TRY(in_line(l, l->line.number, ids_of(t, &l->line, record, ids, e), e));
    if (l->at != i + 1 || !rt_hash_equal(rt_hash(ids->ids, ids->count * sizeof *ids->ids), a->hash))
        RT_TRY(rt_fail(e, RT_INVALID,
                       "%s, line %llu, was changed while its prompts were being answered; run the same "
                       "command again",
                       l->path, (unsigned long long)a->number));
    rc = RT_OK;
out:
    return rc;
}

static int add(rt_asked_list *l, const rt_data_text *t, const rt_prompt_line *line, uint32_t vocab, rt_err *e)
{
    int rc;
    json_t *record = NULL;
    rt_tok_ids ids = { 0 };
    if (!rt_grow((void **)&l->each, &l->cap, l->count + 1, sizeof *l->each)) RT_TRY(rt_no_memory(e, "prompts"));
    RT_TRY(ids_of(t, line, &record, &ids, e));
    RT_TRY(check_ids(&ids, vocab, e));
    l->each[l->count++] = (rt_asked){ .number = line->number, .hash = rt_hash(ids.ids, ids.count * sizeof *ids.ids) };
    if (ids.count > l->longest) {
        l->longest = ids.count;
        l->longest_at = line->number;
    }
out:
    json_decref(record);
    rt_free(ids.ids);
    return in_line(l, line->number, rc, e);
}

static int by_hash(const void *a, const void *b, void *list)
{
    const rt_asked *x = (const rt_asked *)list + *(const uint32_t *)a,
                   *y = (const rt_asked *)list + *(const uint32_t *)b;
    if (x->hash.hi != y->hash.hi) return x->hash.hi < y->hash.hi ? -1 : 1;
    if (x->hash.lo != y->hash.lo) return x->hash.lo < y->hash.lo ? -1 : 1;
    return (x > y) - (x < y);
}

/* Equal prompts have other draws: each goes on counting where the one before it ends. */
static int count_equal(rt_asked_list *l, uint32_t samples, rt_err *e)
{
    uint32_t *order = rt_alloc((l->count + (size_t)1) * sizeof *order, 16);
    if (!order) return rt_no_memory(e, "prompts");
    for (uint32_t i = 0; i < l->count; i++) order[i] = i;
    qsort_r(order, l->count, sizeof *order, by_hash, l->each);
    for (uint32_t i = 1; i < l->count; i++) {
        const rt_asked *before = &l->each[order[i - 1]];
        rt_asked *a = &l->each[order[i]];
        if (rt_hash_equal(a->hash, before->hash)) a->ordinal = before->ordinal + samples;
    }
    rt_free(order);
    return RT_OK;
}

int rt_asked_read(rt_asked_list *l, const rt_data_text *t, const char *path, uint32_t samples, uint32_t vocab,
                  rt_job_tell *tell, rt_err *e)
{
    int rc;
    rt_prompt_file *f = NULL;
    rt_prompt_line line;
    l->path = path;
    tell->what = "reading the prompts";
    RT_TRY(rt_prompt_file_open(&f, path, false, e));
    while ((rc = rt_prompt_file_next(f, &line, e)) == 1) {
        RT_TRY(add(l, t, &line, vocab, e));
        tell->done = l->count;
        if (rt_job_tell_stop(tell)) RT_TRY(rt_fail(e, RT_INTERRUPTED, "interrupted while reading the prompts"));
        if (l->count == UINT32_MAX / samples) RT_TRY(rt_fail(e, RT_INVALID, "%s holds too many prompts", path));
    }
    RT_TRY(rc);
    if (!l->count) RT_TRY(rt_fail(e, RT_INVALID, "%s has no prompts", path));
    RT_TRY(count_equal(l, samples, e));
out:
    rt_prompt_file_close(f);
    return rc;
}

void rt_asked_free(rt_asked_list *l)
{
    rt_prompt_file_close(l->file);
    rt_free(l->each);
}

/* ---- answers ---- */

double rt_given_mean(const rt_given *g) { return g->count ? g->logp / g->count : 0; }

/* Rows of an embedding that no tokenizer defines say nothing. */
static int text_of(const rt_tokenizer *tok, const rt_given *g, rt_str *text, rt_err *e)
{
    int rc;
    rt_tok_stream *stream = NULL;
    rt_token_info info;
    RT_TRY(rt_tok_stream_new(&stream, tok, RT_DECODE_SKIP_SPECIAL, e));
    for (uint32_t i = 0; i < g->count - (g->stopped && g->count ? 1 : 0); i++)
        if (rt_tokenizer_token(tok, g->ids[i], &info)) RT_TRY(rt_tok_stream_push(stream, g->ids[i], text, e));
    RT_TRY(rt_tok_stream_end(stream, text, e));
    if (text->failed) RT_TRY(rt_no_memory(e, "an answer"));
out:
    rt_tok_stream_free(stream);
    return rc;
}

static json_t *logps_json(const rt_given *g)
{
    json_t *list = json_array();
    for (uint32_t i = 0; list && i < g->count; i++) json_array_append_new(list, json_real((double)g->logps[i]));
    return list;
}

static int put_line(rt_str *lines, const rt_asked *a, const json_t *record, const rt_tokenizer *tok, const rt_given *g,
                    uint32_t sample, bool logps, const char *settings, rt_err *e)
{
    int rc;
    char hash[33];
    rt_str text = { 0 };
    json_t *j = NULL;
    char *dump = NULL;
    rt_json_forget();
    RT_TRY(text_of(tok, g, &text, e));
    j = rt_prompt_answered(record, text.data ? text.data : "", text.len);
    json_t *facts = json_pack("{s:s, s:i, s:s, s:i, s:b, s:f, s:o*}", "prompt_hash", rt_hash_text(hash, a->hash),
                              "sample", (int)sample, "settings", settings, "tokens", (int)g->count, "stopped",
                              (int)g->stopped, "logp", g->logp, "logps", logps ? logps_json(g) : NULL);
    int failed = !j || !facts || json_object_update(j, facts) < 0;
    json_decref(facts);
    if (failed || !(dump = rt_json_dump(j, JSON_COMPACT | JSON_REAL_PRECISION(9))))
        RT_TRY(rt_no_memory(e, "an answer"));
    rt_str_printf(lines, "%s\n", dump);
out:
    rt_free(dump);
    json_decref(j);
    rt_str_free(&text);
    return rc;
}

int rt_given_write(rt_append *f, const rt_asked *a, const json_t *record, const rt_tokenizer *tok, const rt_given *g,
                   uint32_t count, bool best, bool logps, const char *settings, rt_err *e)
{
    int rc = RT_OK;
    rt_str lines = { 0 };
    uint32_t first = 0;
    for (uint32_t i = 1; best && i < count; i++)
        if (rt_given_mean(&g[i]) > rt_given_mean(&g[first])) first = i;
    for (uint32_t i = first; i < (best ? first + 1 : count); i++)
        RT_TRY(put_line(&lines, a, record, tok, &g[i], i, logps, settings, e));
    if (lines.failed) RT_TRY(rt_no_memory(e, "an answer"));
    RT_TRY(rt_append_put(f, lines.data, lines.len, e));
out:
    rt_str_free(&lines);
    return rc;
}

/* ---- what is there already ---- */

static int check_line(const char *path, uint32_t number, const char *line, size_t len, const rt_asked *a,
                      const char *settings, rt_err *e)
{
    char hash[33];
    json_t *j = rt_json_load(line, len, JSON_ALLOW_NUL, NULL);
    const char *has = json_string_value(json_object_get(j, "prompt_hash"));
    const char *under = json_string_value(json_object_get(j, "settings"));
    int rc = RT_OK;
    if (!has || !under)
        rc = rt_fail(e, RT_INVALID, "%s, line %u, is not an answer written by retort generate; give another --out",
                     path, number);
    else if (strcmp(under, settings) != 0)
        rc = rt_fail(e, RT_INVALID,
                     "%s was begun with another model or other settings; use those, or give another --out", path);
    else if (strcmp(has, rt_hash_text(hash, a->hash)) != 0)
        rc =
            rt_fail(e, RT_INVALID, "%s, line %u, does not answer the prompt in line %llu of --data; give another --out",
                    path, number, (unsigned long long)a->number);
    json_decref(j);
    return rc;
}

/* How an answer to the first prompt begins, up to where the model speaks. */
static int beginning_of(rt_asked_list *l, const rt_data_text *t, uint32_t i, rt_str *out, rt_err *e)
{
    int rc;
    json_t *record = NULL, *j = NULL;
    rt_tok_ids ids = { 0 };
    char *dump = NULL;
    rt_json_forget();
    RT_TRY(rt_asked_ids(l, t, i, &record, &ids, e));
    j = rt_prompt_answered(record, "", 0);
    if (!j || !(dump = rt_json_dump(j, JSON_COMPACT))) RT_TRY(rt_no_memory(e, "an answer"));
    size_t n = strlen(dump);
    while (n > 1 && memcmp(dump + n - 2, "\"\"", 2) != 0) n--; /* the empty answer */
    rt_str_append_n(out, dump, n - 1);
    if (out->failed) RT_TRY(rt_no_memory(e, "an answer"));
out:
    rt_free(dump);
    json_decref(j);
    json_decref(record);
    rt_free(ids.ids);
    return rc;
}

/* A last line without its end. What is not certain to be ours is never cut off: a whole record is checked as one, and
 * less than that has to begin as the answer to prompt i does. Zeros are what a power failure leaves. */
static int check_rest(const char *path, const char *rest, size_t len, uint32_t number, uint32_t i, rt_asked_list *l,
                      const rt_data_text *t, const char *settings, rt_err *e)
{
    int rc = RT_OK;
    rt_str begins = { 0 };
    while (len && !rest[len - 1]) len--;
    if (!len) return RT_OK;
    json_t *whole = rt_json_load(rest, len, JSON_ALLOW_NUL, NULL);
    bool other = i >= l->count;
    if (whole && !other) RT_TRY(check_line(path, number, rest, len, &l->each[i], settings, e));
    if (!whole && !other) {
        RT_TRY(beginning_of(l, t, i, &begins, e));
        other = memcmp(rest, begins.data, len < begins.len ? len : begins.len) != 0;
    }
    if (other)
        RT_TRY(rt_fail(e, RT_INVALID,
                       "%s ends in an incomplete line that retort generate did not write; give another "
                       "--out",
                       path));
out:
    json_decref(whole);
    rt_str_free(&begins);
    return rc;
}

int rt_given_found(const char *path, rt_asked_list *l, const rt_data_text *t, uint32_t lines, const char *settings,
                   uint32_t *found, uint64_t *bytes, rt_err *e)
{
    int rc = RT_OK;
    rt_map map = { 0 };
    uint32_t n = 0;
    uint64_t at = 0;
    *found = 0;
    *bytes = 0;
    RT_TRY(rt_map_open(&map, path, e));
    const char *text = (const char *)map.data;
    for (const char *end; (end = memchr(text + at, '\n', map.size - at)); at = (uint64_t)(end - text) + 1) {
        if (n / lines >= l->count)
            RT_TRY(rt_fail(e, RT_INVALID, "%s holds more answers than --data has prompts; give another --out", path));
        RT_TRY(check_line(path, n + 1, text + at, (size_t)(end - text) - at, &l->each[n / lines], settings, e));
        if (++n % lines == 0) *bytes = (uint64_t)(end - text) + 1;
    }
    RT_TRY(check_rest(path, text + at, map.size - at, n + 1, n / lines, l, t, settings, e));
    *found = n / lines;
out:
    rt_map_close(&map);
    return rc;
}
