/* foreign_jsonl.c - axolotl's and vLLM's JSON lines.
 *
 * axolotl: row r of "logprobs" is of the token at front + r, front being the tokens that have no row; the row of the
 * first token is of nothing that was read. vLLM: element i of "prompt_logprobs" is of token i, the first is null. */
#include "teacher/cache/foreign_internal.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_ENTRIES = 4096 };

/* "token_id:7" or "7". */
static bool id_of(const char *text, const char *before, int32_t *id)
{
    size_t n = strlen(before);
    char *end;
    if (!text || strncmp(text, before, n) != 0 || text[n] < '0' || text[n] > '9') return false;
    unsigned long long x = strtoull(text + n, &end, 10);
    *id = (int32_t)x;
    return x <= INT32_MAX && *end == '\0';
}

static bool logp_of(const json_t *entry, float *logp)
{
    const json_t *x = json_object_get(entry, "logprob");
    *logp = (float)json_number_value(x);
    return json_is_number(x) && !isnan(*logp);
}

static bool entries_of(rt_foreign_lines kind, json_t *row, rt_foreign_entry *entries, uint32_t *count)
{
    uint32_t n = 0;
    size_t i;
    const char *key;
    json_t *x;
    *count = 0;
    if (json_is_null(row)) return true;
    if (kind == RT_FOREIGN_AXOLOTL) {
        if (!json_is_array(row) || json_array_size(row) > MOST_ENTRIES) return false;
        json_array_foreach(row, i, x)
        {
            const char *token = json_string_value(json_object_get(x, "token"));
            if (!id_of(token, "token_id:", &entries[n].id) || !logp_of(x, &entries[n].logp)) return false;
            n++;
        }
    } else {
        if (!json_is_object(row) || json_object_size(row) > MOST_ENTRIES) return false;
        json_object_foreach(row, key, x)
        {
            if (!id_of(key, "", &entries[n].id) || !logp_of(x, &entries[n].logp)) return false;
            n++;
        }
    }
    *count = n;
    return true;
}

static int read_ids(rt_foreign_doc *d, const json_t *list, rt_err *e)
{
    for (uint32_t i = 0; i < d->tokens; i++) {
        const json_t *x = json_array_get(list, i);
        json_int_t id = json_integer_value(x);
        if (!json_is_integer(x) || id < 0 || id > INT32_MAX)
            return rt_fail(e, RT_FORMAT, "token %u of the text is not a token id", i);
        d->ids[i] = (int32_t)id;
    }
    return RT_OK;
}

static int read_rows(rt_foreign_doc *d, rt_foreign_lines kind, const json_t *rows, rt_err *e)
{
    int rc = RT_OK;
    size_t count = json_array_size(rows), front = d->tokens - count;
    rt_foreign_entry *entries = rt_alloc(MOST_ENTRIES * sizeof *entries, 16);
    if (!entries) return rt_no_memory(e, "a line");
    for (size_t r = 0; r < count && rc == RT_OK; r++) {
        uint32_t n;
        if (front + r == 0) continue; /* nothing was read before it */
        if (!entries_of(kind, json_array_get(rows, r), entries, &n))
            rc = rt_fail(e, RT_FORMAT, "row %zu of the log-probabilities does not follow the format", r);
        else if (n > 0)
            rc = rt_foreign_set(d, (uint32_t)(front + r - 1), entries, n, e);
    }
    rt_free(entries);
    return rc;
}

int rt_foreign_line_read(rt_foreign_doc *out, rt_foreign_lines kind, const char *line, size_t len, const int32_t *ids,
                         uint32_t tokens, uint32_t k, rt_err *e)
{
    int rc;
    bool vllm = kind == RT_FOREIGN_VLLM;
    const char *ids_name = vllm ? "prompt_token_ids" : "input_ids", *rows_name = vllm ? "prompt_logprobs" : "logprobs";
    json_t *all = rt_json_load(line, len, 0, NULL);
    const json_t *record = all;
    *out = (rt_foreign_doc){ 0 };
    if (!all && rt_json_out_of_memory()) RT_TRY(rt_no_memory(e, "a line"));
    if (!json_is_object(all)) RT_TRY(rt_fail(e, RT_FORMAT, "a line is not a JSON object"));
    if (vllm && json_array_size(json_object_get(all, "choices")) == 1)
        record = json_array_get(json_object_get(all, "choices"), 0);
    const json_t *list = json_object_get(record, ids_name), *rows = json_object_get(record, rows_name);
    if (!list) list = json_object_get(all, ids_name);
    if (!json_is_array(rows)) RT_TRY(rt_fail(e, RT_FORMAT, "a line has no list \"%s\"", rows_name));
    if (!ids && !json_is_array(list))
        RT_TRY(rt_fail(e, RT_FORMAT, "a line has no list \"%s\", without which its positions are unknown", ids_name));
    size_t n = ids ? tokens : json_array_size(list);
    if (n > RT_FOREIGN_MOST_TOKENS || json_array_size(rows) > n)
        RT_TRY(
            rt_fail(e, RT_FORMAT, "a line has %zu rows of log-probabilities for %zu tokens", json_array_size(rows), n));
    RT_TRY(rt_foreign_doc_new(out, (uint32_t)n, k, e));
    if (ids)
        memcpy(out->ids, ids, n * sizeof *ids);
    else
        RT_TRY(read_ids(out, list, e));
    rc = read_rows(out, kind, rows, e);
out:
    if (rc < 0) rt_foreign_doc_free(out);
    json_decref(all);
    return rc;
}

/* ---- writing ---- */

static void write_row(rt_str *out, rt_foreign_lines kind, const rt_foreign_doc *d, uint32_t p)
{
    const int32_t *id = d->id + (size_t)p * d->k;
    const float *logp = d->logp + (size_t)p * d->k;
    bool vllm = kind == RT_FOREIGN_VLLM;
    if (vllm && id[0] < 0) {
        rt_str_append(out, "null");
        return;
    }
    rt_str_append(out, vllm ? "{" : "[");
    for (uint32_t i = 0; i < d->k && id[i] >= 0; i++) {
        rt_str_printf(out,
                      vllm ? "%s\"%" PRId32 "\":{\"logprob\":" : "%s{\"token\":\"token_id:%" PRId32 "\",\"logprob\":",
                      i ? "," : "", id[i]);
        rt_json_put_float(out, logp[i]);
        if (vllm) rt_str_printf(out, ",\"rank\":%" PRIu32 ",\"decoded_token\":null", i + 1);
        rt_str_append(out, "}");
    }
    rt_str_append(out, vllm ? "}" : "]");
}

void rt_foreign_line_write(rt_str *out, rt_foreign_lines kind, const rt_foreign_doc *d)
{
    bool vllm = kind == RT_FOREIGN_VLLM;
    rt_str_append(out, vllm ? "{\"prompt_token_ids\":[" : "{\"input_ids\":[");
    for (uint32_t i = 0; i < d->tokens; i++) rt_str_printf(out, "%s%" PRId32, i ? "," : "", d->ids[i]);
    rt_str_append(out, vllm ? "],\"prompt_logprobs\":[null" : "],\"logprobs\":[");
    for (uint32_t p = 0; p + 1 < d->tokens; p++) { /* the row of the token after p */
        if (p > 0 || vllm) rt_str_append(out, ",");
        write_row(out, kind, d, p);
    }
    rt_str_append(out, "]}\n");
}
