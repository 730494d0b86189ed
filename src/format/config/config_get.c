/* config_get.c - values of keys of a config.json: taken with a message that names the file and the key, and set.
 *
 * Owns: the first error of a reading. Which keys there are, and what they mean, is for the other files. */
#include "format/config/config_internal.h"

#include <stdarg.h>
#include <stdio.h>

void rt_config_fault(rt_config_reader *r, int status, const char *format, ...)
{
    char text[400];
    va_list args;
    if (r->rc < 0) return;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    r->rc = rt_fail(r->e, status, "%s: %s", r->where, text);
}

bool rt_config_has(const rt_config_reader *r, const char *key)
{
    const json_t *v = json_object_get(r->at, key);
    return v && !json_is_null(v);
}

const char *rt_config_kind(const json_t *v)
{
    switch (json_typeof(v)) {
    case JSON_OBJECT: return "an object";
    case JSON_ARRAY: return "a list";
    case JSON_STRING: return "a string";
    case JSON_INTEGER: return "a whole number";
    case JSON_REAL: return "a number";
    case JSON_NULL: return "null";
    default: return "true or false";
    }
}

void rt_config_wrong_kind(rt_config_reader *r, const char *key, const char *wanted, const json_t *v)
{
    rt_config_fault(r, RT_FORMAT, "key \"%s%s\" must be %s, but is %s: correct the file", r->path, key, wanted,
                    rt_config_kind(v));
}

uint32_t rt_config_u32(rt_config_reader *r, const char *key, uint32_t min, uint32_t max, uint32_t fallback)
{
    const json_t *v = json_object_get(r->at, key);
    if (!v || r->rc < 0) return fallback;
    if (!json_is_integer(v)) {
        rt_config_wrong_kind(r, key, "a whole number", v);
        return fallback;
    }
    json_int_t n = json_integer_value(v);
    if (n >= (json_int_t)min && n <= (json_int_t)max) return (uint32_t)n;
    rt_config_fault(r, RT_FORMAT, "key \"%s%s\": %lld is out of range (%u to %u): correct the file", r->path, key,
                    (long long)n, min, max);
    return fallback;
}

double rt_config_real(rt_config_reader *r, const char *key, double fallback)
{
    const json_t *v = json_object_get(r->at, key);
    if (!v || r->rc < 0) return fallback;
    if (json_is_number(v)) return json_number_value(v);
    rt_config_wrong_kind(r, key, "a number", v);
    return fallback;
}

bool rt_config_bool(rt_config_reader *r, const char *key, bool fallback)
{
    const json_t *v = json_object_get(r->at, key);
    if (!v || r->rc < 0) return fallback;
    if (json_is_boolean(v)) return json_is_true(v);
    rt_config_wrong_kind(r, key, "true or false", v);
    return fallback;
}

const char *rt_config_text(rt_config_reader *r, const char *key, const char *fallback)
{
    const json_t *v = json_object_get(r->at, key);
    if (!v || json_is_null(v) || r->rc < 0) return fallback;
    if (json_is_string(v)) return json_string_value(v);
    rt_config_wrong_kind(r, key, "a string", v);
    return fallback;
}

bool rt_config_put(json_t *object, const char *key, json_t *value)
{
    return value && json_object_set_new(object, key, value) == 0;
}
