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

int rt_asked_ids(const rt_asked_list *l, const rt_data_text *t, uint32_t i, json_t **record, rt_tok_ids *ids, rt_err *e)
{
    int rc;
    const rt_asked *a = &l->each[i];
    RT_TRY(rt_prompt_record(t, a->line, a->len, l->json, record, e));
    RT_TRY(rt_prompt_from_record(t, *record, NULL, ids, e));
out:
    if (rc < 0) rt_err_context(e, "%s, line %u", l->path, a->number);
    return rc;
}

static int add(rt_asked_list *l, const rt_data_text *t, rt_asked a, uint32_t vocab, rt_err *e)
{
    int rc;
    json_t *record = NULL;
    rt_tok_ids ids = { 0 };
    if (!rt_grow((void **)&l->each, &l->cap, l->count + 1, sizeof *l->each)) RT_TRY(rt_no_memory(e, "prompts"));
    l->each[l->count] = a;
    RT_TRY(rt_asked_ids(l, t, l->count, &record, &ids, e));
    rc = check_ids(&ids, vocab, e);
    if (rc < 0) rt_err_context(e, "%s, line %u", l->path, a.number);
    RT_TRY(rc);
    l->each[l->count++].hash = rt_hash(ids.ids, ids.count * sizeof *ids.ids);
    if (ids.count > l->longest) l->longest = ids.count;
out:
    json_decref(record);
    rt_free(ids.ids);
    return rc;
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
                  rt_err *e)
{
    int rc;
    uint32_t number = 0;
    l->path = path;
    l->json = rt_path_ends(path, ".jsonl");
    RT_TRY(rt_map_open(&l->map, path, e));
    const char *text = (const char *)l->map.data, *stop = text + l->map.size;
    for (const char *line = text, *end; line < stop; line = end + 1) {
        end = memchr(line, '\n', (size_t)(stop - line));
        if (!end) end = stop;
        size_t len = (size_t)(end - line);
        const char *from = line;
        number++;
        while (len && strchr(" \t\r", from[len - 1])) len--;
        while (len && strchr(" \t\r", *from)) from++, len--;
        if (len) RT_TRY(add(l, t, (rt_asked){ .line = from, .len = len, .number = number }, vocab, e));
    }
    if (!l->count) RT_TRY(rt_fail(e, RT_INVALID, "%s holds no prompt", path));
    RT_TRY(count_equal(l, samples, e));
out:
    return rc;
}

void rt_asked_free(rt_asked_list *l)
{
    rt_map_close(&l->map);
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
    RT_TRY(text_of(tok, g, &text, e));
    j = rt_prompt_answered(record, text.data ? text.data : "", text.len);
    json_t *facts = json_pack("{s:s, s:i, s:s, s:i, s:b, s:f, s:o*}", "prompt_hash", rt_hash_text(hash, a->hash),
                              "sample", (int)sample, "settings", settings, "tokens", (int)g->count, "stopped",
                              (int)g->stopped, "logp", g->logp, "logps", logps ? logps_json(g) : NULL);
    int failed = !j || !facts || json_object_update(j, facts) < 0;
    json_decref(facts);
    if (failed || !(dump = json_dumps(j, JSON_COMPACT | JSON_REAL_PRECISION(9)))) RT_TRY(rt_no_memory(e, "an answer"));
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
        rc = rt_fail(e, RT_INVALID, "%s, line %u, is no answer of retort generate; give another --out", path, number);
    else if (strcmp(has, rt_hash_text(hash, a->hash)) != 0)
        rc = rt_fail(e, RT_INVALID, "%s, line %u, answers another prompt than line %u of --data; give another --out",
                     path, number, a->number);
    else if (strcmp(under, settings) != 0)
        rc = rt_fail(e, RT_INVALID,
                     "%s was begun by another model or with other settings; give these, or another --out", path);
    json_decref(j);
    return rc;
}

int rt_given_found(const char *path, const rt_asked_list *l, uint32_t lines, const char *settings, uint32_t *found,
                   uint64_t *bytes, rt_err *e)
{
    int rc = RT_OK;
    rt_map map = { 0 };
    uint32_t n = 0;
    *found = 0;
    *bytes = 0;
    if (!rt_path_exists(path)) return RT_OK;
    RT_TRY(rt_map_open(&map, path, e));
    const char *text = (const char *)map.data;
    for (uint64_t at = 0; at < map.size;) {
        const char *end = memchr(text + at, '\n', map.size - at);
        if (!end) break; /* a line that was cut off */
        const uint64_t next = (uint64_t)(end - text) + 1;
        if (n / lines >= l->count)
            RT_TRY(rt_fail(e, RT_INVALID, "%s holds more answers than --data has prompts; give another --out", path));
        RT_TRY(check_line(path, n + 1, text + at, next - 1 - at, &l->each[n / lines], settings, e));
        at = next;
        if (++n % lines == 0) *bytes = at;
    }
    *found = n / lines;
out:
    rt_map_close(&map);
    return rc;
}
