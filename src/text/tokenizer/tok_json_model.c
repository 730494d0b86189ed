/* tok_json_model.c - the member "model" of tokenizer.json: a BPE vocabulary and its merges, in both forms of the
 * latter.
 *
 * Owns: reading and checking. Leaves the tables to tok_vocab.c and tok_model.c. */
#include "text/tokenizer/tok_json.h"

#include <stdio.h>

/* A stray id must not make the table of ids huge. */
static uint32_t most_id(size_t count) { return count < 256 << 20 ? 8 * (uint32_t)count + 65536 : UINT32_MAX - 1; }

static int read_vocab(rt_tokenizer *t, const rt_tok_json *v, rt_err *e)
{
    int rc = rt_tok_json_object(v, e);
    if (rc < 0) return rc;
    size_t count = json_object_size(v->value);
    uint32_t limit = most_id(count);
    if (count > UINT32_MAX / 4 || !rt_tok_map_reserve(&t->vocab.model, (uint32_t)count)) return rt_tok_out_of_memory(e);
    const char *key;
    json_t *value;
    json_object_foreach((json_t *)(uintptr_t)v->value, key, value)
    {
        json_int_t id = json_is_integer(value) ? json_integer_value(value) : -1;
        if (id < 0) return rt_fail(e, RT_FORMAT, "%s: the id of '%.60s' is not a number from 0 on", v->path, key);
        if (id > limit)
            return rt_fail(e, RT_FORMAT, "%s: id %lld of '%.60s' is absurd in a vocabulary of %zu tokens", v->path,
                           (long long)id, key, count);
        RT_TRY(rt_tok_vocab_add(t, (uint32_t)id, key, strlen(key), v->path, e));
    }
out:
    return rc;
}

/* "a b", or ["a", "b"]. */
static int read_merge(const rt_tok_json *v, bool pairs, rt_tok_text *left, rt_tok_text *right, rt_err *e)
{
    if (pairs) {
        const json_t *a = json_array_get(v->value, 0), *b = json_array_get(v->value, 1);
        if (!json_is_string(a) || !json_is_string(b) || json_array_size(v->value) != 2)
            return rt_fail(e, RT_FORMAT, "%s: expected a list of two strings", v->path);
        *left = (rt_tok_text){ json_string_value(a), json_string_length(a) };
        *right = (rt_tok_text){ json_string_value(b), json_string_length(b) };
        return RT_OK;
    }
    rt_tok_text both;
    int rc = rt_tok_json_string(v, &both, e);
    if (rc < 0) return rc;
    const char *space = memchr(both.data, ' ', both.len);
    size_t at = space ? (size_t)(space - both.data) : both.len;
    if (!space || memchr(space + 1, ' ', both.len - at - 1))
        return rt_fail(e, RT_FORMAT, "%s: expected two tokens with one space between", v->path);
    *left = (rt_tok_text){ both.data, at };
    *right = (rt_tok_text){ space + 1, both.len - at - 1 };
    return RT_OK;
}

static bool is_version_line(const json_t *item)
{
    const char *text = json_string_value(item);
    return text && strncmp(text, "#version", 8) == 0;
}

static int read_merges(rt_tokenizer *t, const rt_tok_json *v, rt_err *e)
{
    size_t count;
    uint32_t rank = 0;
    int rc;
    RT_TRY(rt_tok_json_array(v, &count, e));
    if (count > UINT32_MAX / 4) return rt_tok_out_of_memory(e);
    RT_TRY(rt_tok_merges_reserve(t, (uint32_t)count, e));
    bool pairs = count > 0 && json_is_array(json_array_get(v->value, 0));
    rt_tok_json item = { 0 };
    for (size_t i = 0; i < count; i++) {
        rt_tok_text left, right;
        item.value = json_array_get(v->value, i);
        if (!pairs && is_version_line(item.value)) continue;
        snprintf(item.path, sizeof item.path, "model.merges[%zu]", i);
        RT_TRY(read_merge(&item, pairs, &left, &right, e));
        RT_TRY(rt_tok_merge_add(t, rank++, left, right, item.path, e));
    }
out:
    return rc;
}

static int optional_text(rt_tokenizer *t, const rt_tok_json *model, const char *key, bool *present, rt_tok_text *out,
                         rt_err *e)
{
    rt_tok_json v = rt_tok_json_member(model, key);
    *present = !rt_tok_json_none(&v);
    if (!*present) return RT_OK;
    rt_tok_text text;
    int rc = rt_tok_json_string(&v, &text, e);
    if (rc < 0) return rc;
    *out = rt_tok_keep(&t->vocab, text.data, text.len);
    return out->data ? RT_OK : rt_tok_out_of_memory(e);
}

int rt_tok_json_model(rt_tokenizer *t, const rt_tok_json *v, rt_err *e)
{
    rt_tok_model *m = &t->model;
    rt_tok_json type = rt_tok_json_member(v, "type"), dropout = rt_tok_json_member(v, "dropout");
    rt_tok_json vocab = rt_tok_json_member(v, "vocab"), merges = rt_tok_json_member(v, "merges");
    rt_tok_text name;
    bool present;
    int rc;
    RT_TRY(rt_tok_json_object(v, e));
    if (type.value) { /* old files have none; a vocabulary with merges is BPE */
        RT_TRY(rt_tok_json_string(&type, &name, e));
        if (!rt_tok_json_is(name, "BPE")) return rt_tok_json_unknown(v, name, "the model", e);
    }
    if (!rt_tok_json_none(&dropout) && !(json_is_number(dropout.value) && json_number_value(dropout.value) == 0))
        return rt_fail(e, RT_UNSUPPORTED, "%s: dropout is not supported: it makes ids random", dropout.path);
    RT_TRY(optional_text(t, v, "unk_token", &m->has_unk, &m->unk, e));
    RT_TRY(optional_text(t, v, "continuing_subword_prefix", &present, &m->prefix, e));
    RT_TRY(optional_text(t, v, "end_of_word_suffix", &present, &m->suffix, e));
    RT_TRY(rt_tok_json_bool_or(v, "fuse_unk", false, &m->fuse_unk, e));
    RT_TRY(rt_tok_json_bool_or(v, "byte_fallback", false, &m->byte_fallback, e));
    RT_TRY(rt_tok_json_bool_or(v, "ignore_merges", false, &m->ignore_merges, e));
    RT_TRY(read_vocab(t, &vocab, e));
    RT_TRY(read_merges(t, &merges, e));
out:
    return rc;
}
