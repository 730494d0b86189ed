/* tok_json_get.c - members of tokenizer.json with their place in the file. See tok_json.h. */
#include "text/tokenizer/tok_json.h"

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
