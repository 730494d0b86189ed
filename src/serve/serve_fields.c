/* serve_fields.c - the fields of a JSON object, with what is said of those that are wrong. See serve_ask.h. */
#include "serve/serve_ask.h"

#include <stdarg.h>
#include <stdio.h>

int rt_refuse(rt_refusal *why, uint32_t http, const char *param, const char *format, ...)
{
    va_list args;
    *why = (rt_refusal){ .http = http, .param = param, .err.status = RT_INVALID };
    va_start(args, format);
    vsnprintf(why->err.text, sizeof why->err.text, format, args);
    va_end(args);
    return RT_INVALID;
}

int rt_field_fail(rt_fields *f, const char *name, const char *format, ...)
{
    va_list args;
    if (f->bad) return RT_INVALID;
    f->bad = true;
    *f->why = (rt_refusal){ .http = 400, .param = name, .err.status = RT_INVALID };
    va_start(args, format);
    vsnprintf(f->why->err.text, sizeof f->why->err.text, format, args);
    va_end(args);
    return RT_INVALID;
}

const char *rt_json_type_name(const json_t *j)
{
    switch (json_typeof(j)) {
    case JSON_OBJECT: return "an object";
    case JSON_ARRAY: return "a list";
    case JSON_STRING: return "a string";
    case JSON_INTEGER: return "a whole number";
    case JSON_REAL: return "a number";
    case JSON_TRUE:
    case JSON_FALSE: return "true or false";
    default: return "null";
    }
}

static const json_t *present(const rt_fields *f, const char *name)
{
    const json_t *j = json_object_get(f->body, name);
    return json_is_null(j) ? NULL : j;
}

bool rt_field_flag(rt_fields *f, const char *name, bool otherwise)
{
    const json_t *j = present(f, name);
    if (!j) return otherwise;
    if (!json_is_boolean(j)) rt_field_fail(f, name, "%s is %s; it takes true or false", name, rt_json_type_name(j));
    return json_is_true(j);
}

int64_t rt_field_whole(rt_fields *f, const char *name, int64_t otherwise, int64_t least, int64_t most)
{
    const json_t *j = present(f, name);
    if (!j) return otherwise;
    if (!json_is_integer(j)) {
        rt_field_fail(f, name, "%s is %s; it takes a whole number", name, rt_json_type_name(j));
        return otherwise;
    }
    const int64_t v = json_integer_value(j);
    if (v >= least && v <= most) return v;
    rt_field_fail(f, name, "%s is %lld, which is out of range (%lld to %lld)", name, (long long)v, (long long)least,
                  (long long)most);
    return otherwise;
}

double rt_field_real(rt_fields *f, const char *name, double otherwise, double least, double most)
{
    const json_t *j = present(f, name);
    if (!j) return otherwise;
    if (!json_is_number(j)) {
        rt_field_fail(f, name, "%s is %s; it takes a number", name, rt_json_type_name(j));
        return otherwise;
    }
    const double v = json_number_value(j);
    if (v >= least && v <= most) return v;
    rt_field_fail(f, name, "%s is %g, which is out of range (%g to %g)", name, v, least, most);
    return otherwise;
}

const json_t *rt_field_of(rt_fields *f, const char *name, json_type type)
{
    static const char *const wanted[] = {
        [JSON_OBJECT] = "an object", [JSON_ARRAY] = "a list", [JSON_STRING] = "a string"
    };
    const json_t *j = present(f, name);
    if (!j || json_typeof(j) == type) return j;
    rt_field_fail(f, name, "%s is %s; it takes %s", name, rt_json_type_name(j), wanted[type]);
    return NULL;
}

const json_t *rt_field_text(rt_fields *f, const char *name) { return rt_field_of(f, name, JSON_STRING); }

void rt_field_ids(rt_fields *f, const char *name, const json_t *list, rt_tok_ids *out)
{
    const size_t n = json_array_size(list);
    if (f->bad) return;
    if (n > UINT32_MAX / 2 || !rt_grow((void **)&out->ids, &out->cap, out->count + (uint32_t)n, sizeof *out->ids)) {
        f->bad = true;
        rt_refuse(f->why, 500, name, "no memory for the ids of %s", name);
        return;
    }
    for (size_t i = 0; i < n; i++) {
        const json_t *j = json_array_get(list, i);
        const json_int_t v = json_integer_value(j);
        if (!json_is_integer(j)) {
            rt_field_fail(f, name, "item %zu of %s is %s; it takes ids", i, name, rt_json_type_name(j));
            return;
        }
        if (v < 0 || v > UINT32_MAX) {
            rt_field_fail(f, name, "item %zu of %s, %lld, is not a token id", i, name, (long long)v);
            return;
        }
        out->ids[out->count++] = (uint32_t)v;
    }
}
