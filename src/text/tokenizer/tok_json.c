/* tok_json.c - tokenizer.json: the file as a whole, its added tokens, and the getters that the readers of its parts
 * use.
 *
 * Owns: the order in which the parts are read, messages about JSON. Leaves the model to tok_json_model.c and the steps
 * before and after it to tok_json_steps.c. */
#include "text/tokenizer/tok_json.h"
#include "base/json.h"

#include <stdio.h>

static void place(rt_tok_json *v, const char *format, const char *path, const char *key, size_t index)
{
    char whole[400];
    int n = key ? snprintf(whole, sizeof whole, format, path, *path ? "." : "", key)
                : snprintf(whole, sizeof whole, format, path, index);
    size_t len = n < 0 ? 0 : (size_t)n < sizeof whole ? (size_t)n : sizeof whole - 1;
    /* Of a place that is too long the end says most. */
    size_t skip = len >= sizeof v->path ? len - sizeof v->path + 1 : 0;
    memcpy(v->path, whole + skip, len - skip);
    v->path[len - skip] = 0;
}

rt_tok_json rt_tok_json_member(const rt_tok_json *object, const char *key)
{
    rt_tok_json v = { .value = json_object_get(object->value, key) };
    place(&v, "%s%s%s", object->path, key, 0);
    return v;
}

rt_tok_json rt_tok_json_item(const rt_tok_json *array, size_t index)
{
    rt_tok_json v = { .value = json_array_get(array->value, index) };
    place(&v, "%s[%zu]", array->path, NULL, index);
    return v;
}

bool rt_tok_json_none(const rt_tok_json *v) { return !v->value || json_is_null(v->value); }

static int expected(const rt_tok_json *v, const char *what, rt_err *e)
{
    return rt_fail(e, RT_FORMAT, "%s: expected %s%s", v->path, what, v->value ? "" : ", found nothing");
}

int rt_tok_json_string(const rt_tok_json *v, rt_tok_text *out, rt_err *e)
{
    if (!json_is_string(v->value)) return expected(v, "a string", e);
    *out = (rt_tok_text){ json_string_value(v->value), json_string_length(v->value) };
    return RT_OK;
}

int rt_tok_json_bool_or(const rt_tok_json *object, const char *key, bool fallback, bool *out, rt_err *e)
{
    rt_tok_json v = rt_tok_json_member(object, key);
    *out = fallback;
    if (rt_tok_json_none(&v)) return RT_OK;
    return rt_tok_json_bool(object, key, out, e);
}

int rt_tok_json_bool(const rt_tok_json *object, const char *key, bool *out, rt_err *e)
{
    rt_tok_json v = rt_tok_json_member(object, key);
    if (!json_is_boolean(v.value)) return expected(&v, "true or false", e);
    *out = json_is_true(v.value);
    return RT_OK;
}

int rt_tok_json_uint(const rt_tok_json *v, uint32_t *out, rt_err *e)
{
    json_int_t n = json_is_integer(v->value) ? json_integer_value(v->value) : -1;
    if (n < 0 || n >= UINT32_MAX) return expected(v, "a number from 0 to 4294967294", e);
    *out = (uint32_t)n;
    return RT_OK;
}

int rt_tok_json_array(const rt_tok_json *v, size_t *count, rt_err *e)
{
    if (!json_is_array(v->value)) return expected(v, "a list", e);
    *count = json_array_size(v->value);
    return RT_OK;
}

int rt_tok_json_object(const rt_tok_json *v, rt_err *e)
{
    return json_is_object(v->value) ? RT_OK : expected(v, "an object", e);
}

int rt_tok_json_type(const rt_tok_json *object, rt_tok_text *out, rt_err *e)
{
    int rc = rt_tok_json_object(object, e);
    if (rc < 0) return rc;
    rt_tok_json type = rt_tok_json_member(object, "type");
    return rt_tok_json_string(&type, out, e);
}

bool rt_tok_json_is(rt_tok_text text, const char *word)
{
    return strlen(word) == text.len && memcmp(word, text.data, text.len) == 0;
}

int rt_tok_json_unknown(const rt_tok_json *object, rt_tok_text type, const char *what, rt_err *e)
{
    return rt_fail(e, RT_UNSUPPORTED, "%s: %s '%.*s' is not supported", object->path, what,
                   (int)(type.len < 60 ? type.len : 60), type.data);
}

/* The package ignores the ids in the list: a token that the vocabulary has keeps its id there, the others are numbered
 * on from its size. Where the list says otherwise, one of the two is wrong. */
static int added_token(rt_tokenizer *t, const rt_tok_json *v, uint32_t *next, rt_err *e)
{
    rt_tok_added a = { 0 };
    rt_tok_json content = rt_tok_json_member(v, "content"), id = rt_tok_json_member(v, "id");
    int rc;
    RT_TRY(rt_tok_json_object(v, e));
    RT_TRY(rt_tok_json_uint(&id, &a.id, e));
    RT_TRY(rt_tok_json_string(&content, &a.content, e));
    RT_TRY(rt_tok_json_bool(v, "single_word", &a.single_word, e));
    RT_TRY(rt_tok_json_bool(v, "lstrip", &a.lstrip, e));
    RT_TRY(rt_tok_json_bool(v, "rstrip", &a.rstrip, e));
    RT_TRY(rt_tok_json_bool(v, "normalized", &a.normalized, e));
    RT_TRY(rt_tok_json_bool(v, "special", &a.special, e));
    uint32_t known = rt_tok_vocab_find(&t->vocab, a.content.data, a.content.len);
    for (uint32_t i = 0; i < t->added_len && known == RT_TOK_NONE; i++)
        if (t->added[i].content.len == a.content.len &&
            memcmp(t->added[i].content.data, a.content.data, a.content.len) == 0)
            known = t->added[i].id;
    if (a.content.len == 0) return RT_OK;
    if (known == RT_TOK_NONE) known = (*next)++;
    if (known != a.id)
        return rt_fail(e, RT_FORMAT,
                       "%s: '%.*s' is listed with id %u, but has id %u by the vocabulary; save the tokenizer again",
                       v->path, (int)(a.content.len < 60 ? a.content.len : 60), a.content.data, a.id, known);
    rc = rt_tok_added_add(t, &a, v->path, e);
out:
    return rc;
}

static int added_tokens(rt_tokenizer *t, const rt_tok_json *v, rt_err *e)
{
    if (rt_tok_json_none(v)) return RT_OK;
    size_t count;
    uint32_t next = t->vocab.model_count;
    int rc;
    RT_TRY(rt_tok_json_array(v, &count, e));
    for (size_t i = 0; i < count; i++) {
        rt_tok_json item = rt_tok_json_item(v, i);
        RT_TRY(added_token(t, &item, &next, e));
    }
out:
    return rc;
}

static int read_parts(rt_tokenizer *t, const rt_tok_json *root, rt_err *e)
{
    rt_tok_json version = rt_tok_json_member(root, "version");
    rt_tok_json model = rt_tok_json_member(root, "model"), added = rt_tok_json_member(root, "added_tokens");
    rt_tok_json norm = rt_tok_json_member(root, "normalizer"), pre = rt_tok_json_member(root, "pre_tokenizer");
    rt_tok_json post = rt_tok_json_member(root, "post_processor"), decoder = rt_tok_json_member(root, "decoder");
    rt_tok_text text;
    int rc;
    if (version.value) {
        RT_TRY(rt_tok_json_string(&version, &text, e));
        if (!rt_tok_json_is(text, "1.0")) return rt_tok_json_unknown(&version, text, "the file's version", e);
    }
    RT_TRY(rt_tok_json_model(t, &model, e));
    RT_TRY(rt_tok_json_normalizer(t, &norm, 0, e));
    RT_TRY(rt_tok_json_pre_tokenizer(t, &pre, 0, e));
    RT_TRY(rt_tok_json_decoder(t, &decoder, 0, e));
    t->has_decoder = !rt_tok_json_none(&decoder);
    RT_TRY(added_tokens(t, &added, e));
    RT_TRY(rt_tok_json_post_processor(t, &post, 0, e));
    RT_TRY(rt_tok_finish(t, e));
out:
    return rc;
}

int rt_tokenizer_from_json(rt_tokenizer **out, const char *text, size_t len, rt_err *e)
{
    json_error_t error;
    rt_tokenizer *t = NULL;
    int rc = RT_OK;
    *out = NULL;
    rt_json_init();
    rt_json_out_of_memory(); /* what was before is not of interest */
    json_t *root = json_loadb(text, len, JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL, &error);
    if (!root) {
        if (rt_json_out_of_memory()) return rt_tok_out_of_memory(e);
        /* jansson has no keys with a NUL in them; no published vocabulary has either. */
        int status = json_error_code(&error) == json_error_null_byte_in_key ? RT_UNSUPPORTED : RT_FORMAT;
        return rt_fail(e, status, "tokenizer.json: line %d, column %d: %s", error.line, error.column, error.text);
    }
    rt_tok_json top = { .value = root };
    if (!json_is_object(root)) RT_TRY(rt_fail(e, RT_FORMAT, "tokenizer.json: expected an object"));
    t = rt_tok_new();
    if (!t) RT_TRY(rt_tok_out_of_memory(e));
    RT_TRY(read_parts(t, &top, e));
    *out = t;
    t = NULL;
out:
    rt_tokenizer_free(t);
    json_decref(root);
    return rc;
}
