/* settings.c - see settings.h. */
#include "settings/settings.h"

#include "base/json.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

const rt_setting_info rt_setting_table[RT_SETTING_COUNT_ALL] = {
#define X(field, flag, kind, def, bind, metavar, help)                                                                 \
    { #field, flag, RT_SETTING_##kind, def, RT_BIND_##bind, metavar, help, offsetof(rt_settings, field) },
    RT_SETTING_TABLE(X)
#undef X
};

static void *value_of(rt_settings *s, rt_setting_id id) { return (char *)s + rt_setting_table[id].offset; }
static const void *value_of_const(const rt_settings *s, rt_setting_id id)
{
    return (const char *)s + rt_setting_table[id].offset;
}

void rt_settings_clear(rt_settings *s) { memset(s, 0, sizeof *s); }

rt_setting_id rt_setting_find(const char *name)
{
    while (*name == '-') name++;
    for (int i = 0; i < RT_SETTING_COUNT_ALL; i++) {
        const char *a = rt_setting_table[i].field, *b = name;
        while (*a && (*a == *b || (*a == '_' && *b == '-'))) a++, b++;
        if (!*a && !*b) return (rt_setting_id)i;
    }
    return RT_SETTING_COUNT_ALL;
}

static int set_number(rt_settings *s, rt_setting_id id, const char *text, rt_err *e)
{
    const rt_setting_info *f = &rt_setting_table[id];
    char *end;
    errno = 0;
    if (f->kind == RT_SETTING_REAL) {
        double v = strtod(text, &end);
        if (*end || end == text || !isfinite(v))
            return rt_fail(e, RT_USAGE, "%s takes a number, not '%s'", f->flag, text);
        *(double *)value_of(s, id) = v;
        return RT_OK;
    }
    unsigned long long v = strtoull(text, &end, 10);
    if (errno || *end || text[0] < '0' || text[0] > '9')
        return rt_fail(e, RT_USAGE, "%s takes a whole number, not '%s'", f->flag, text);
    *(uint64_t *)value_of(s, id) = v;
    return RT_OK;
}

static int set_switch(rt_settings *s, rt_setting_id id, const char *text, rt_err *e)
{
    static const char *const yes[] = { "true", "on", "yes", "1" }, *const no[] = { "false", "off", "no", "0" };
    for (int i = 0; i < 4; i++) {
        if (strcmp(text, yes[i]) == 0) return *(bool *)value_of(s, id) = true, RT_OK;
        if (strcmp(text, no[i]) == 0) return *(bool *)value_of(s, id) = false, RT_OK;
    }
    return rt_fail(e, RT_USAGE, "%s is on or off, not '%s'", rt_setting_table[id].flag, text);
}

int rt_settings_set(rt_settings *s, rt_setting_id id, const char *text, rt_err *e)
{
    int rc = RT_OK;
    rt_setting_list *list = value_of(s, id);
    switch (rt_setting_table[id].kind) {
    case RT_SETTING_TEXT: *(const char **)value_of(s, id) = text; break;
    case RT_SETTING_LIST:
        if (list->count == RT_SETTING_WORDS)
            return rt_fail(e, RT_USAGE, "%s can be given %d times at most", rt_setting_table[id].flag,
                           RT_SETTING_WORDS);
        list->text[list->count++] = text;
        break;
    case RT_SETTING_REAL:
    case RT_SETTING_COUNT: rc = set_number(s, id, text, e); break;
    case RT_SETTING_SWITCH: rc = set_switch(s, id, text, e); break;
    }
    if (rc == RT_OK) s->given[id] = true;
    return rc;
}

int rt_settings_defaults(rt_settings *s, rt_err *e)
{
    int rc = RT_OK;
    for (int i = 0; i < RT_SETTING_COUNT_ALL; i++) {
        const char *def = rt_setting_table[i].def;
        if (s->given[i] || !*def || strcmp(def, "auto") == 0) continue;
        RT_TRY(rt_settings_set(s, (rt_setting_id)i, def, e));
    }
out:
    return rc;
}

/* Settings that say the same in different words: the one that was there does not stand against the one that comes. */
static void forget_rivals(rt_settings *base, const rt_settings *over)
{
    static const rt_setting_id length[] = { RT_SETTING_ID_steps, RT_SETTING_ID_tokens, RT_SETTING_ID_epochs,
                                            RT_SETTING_ID_time };
    for (int i = 0; i < 4; i++)
        for (int k = 0; k < 4 && over->given[length[i]]; k++) base->given[length[k]] = false;
    if (over->given[RT_SETTING_ID_alpha])
        base->given[RT_SETTING_ID_kd_weight] = base->given[RT_SETTING_ID_ce_weight] = false;
    if (over->given[RT_SETTING_ID_eval_data]) base->given[RT_SETTING_ID_held_out] = false;
    if (over->given[RT_SETTING_ID_held_out]) {
        base->given[RT_SETTING_ID_eval_data] = false;
        base->eval_data.count = 0;
    }
}

void rt_settings_overlay(rt_settings *base, const rt_settings *over)
{
    static const size_t sizes[] = { [RT_SETTING_TEXT] = sizeof(const char *),
                                    [RT_SETTING_LIST] = sizeof(rt_setting_list),
                                    [RT_SETTING_REAL] = sizeof(double),
                                    [RT_SETTING_COUNT] = sizeof(uint64_t),
                                    [RT_SETTING_SWITCH] = sizeof(bool) };
    forget_rivals(base, over);
    for (int i = 0; i < RT_SETTING_COUNT_ALL; i++) {
        if (!over->given[i]) continue;
        memcpy(value_of(base, (rt_setting_id)i), value_of_const(over, (rt_setting_id)i),
               sizes[rt_setting_table[i].kind]);
        base->given[i] = true;
    }
}

/* JSON's integers end at 2^63; what is above is a string. */
static json_t *count_json(uint64_t v)
{
    return v <= INT64_MAX ? json_integer((json_int_t)v) : json_sprintf("%" PRIu64, v);
}

static json_t *to_json(const rt_settings *s, rt_setting_id id)
{
    const void *v = value_of_const(s, id);
    switch (rt_setting_table[id].kind) {
    case RT_SETTING_TEXT: return json_string(*(const char *const *)v);
    case RT_SETTING_REAL: return json_real(*(const double *)v);
    case RT_SETTING_COUNT: return count_json(*(const uint64_t *)v);
    case RT_SETTING_SWITCH: return json_boolean(*(const bool *)v);
    case RT_SETTING_LIST: break;
    }
    const rt_setting_list *list = v;
    json_t *a = json_array();
    for (uint32_t i = 0; a && i < list->count; i++)
        if (json_array_append_new(a, json_string(list->text[i])) != 0) {
            json_decref(a);
            a = NULL;
        }
    return a;
}

json_t *rt_settings_to_json(const rt_settings *s)
{
    rt_json_init();
    json_t *o = json_object();
    for (int i = 0; o && i < RT_SETTING_COUNT_ALL; i++)
        if (s->given[i] && json_object_set_new(o, rt_setting_table[i].field, to_json(s, (rt_setting_id)i)) != 0) {
            json_decref(o);
            o = NULL;
        }
    return o;
}

/* A JSON value as the text that a flag would have. */
static const char *text_of(const json_t *v, rt_arena *a)
{
    switch (json_typeof(v)) {
    case JSON_STRING: return rt_arena_strdup(a, json_string_value(v));
    case JSON_INTEGER: return rt_arena_printf(a, "%" JSON_INTEGER_FORMAT, json_integer_value(v));
    case JSON_REAL: return rt_arena_printf(a, "%.17g", json_real_value(v));
    case JSON_TRUE: return "true";
    case JSON_FALSE: return "false";
    default: return NULL;
    }
}

static int set_from_json(rt_settings *s, rt_setting_id id, const json_t *v, rt_arena *a, rt_err *e)
{
    const rt_setting_info *f = &rt_setting_table[id];
    if (json_is_null(v)) return RT_OK;
    if (json_is_array(v) && f->kind != RT_SETTING_LIST)
        return rt_fail(e, RT_INVALID, "%s takes one value, not a list", f->field);
    if (json_is_object(v)) return rt_fail(e, RT_INVALID, "%s takes a plain value, not an object", f->field);
    if (!json_is_array(v)) {
        const char *text = text_of(v, a);
        return text ? rt_settings_set(s, id, text, e) : rt_fail(e, RT_NOMEM, "no memory for setting %s", f->field);
    }
    for (size_t i = 0; i < json_array_size(v); i++) {
        const json_t *item = json_array_get(v, i);
        if (json_is_array(item) || json_is_object(item))
            return rt_fail(e, RT_INVALID, "%s takes a list of plain values", f->field);
        int rc = set_from_json(s, id, item, a, e);
        if (rc < 0) return rc;
    }
    return RT_OK;
}

static int unknown_key(const char *key, rt_err *e)
{
    const char *names[RT_SETTING_COUNT_ALL + 1] = { 0 };
    for (int i = 0; i < RT_SETTING_COUNT_ALL; i++) names[i] = rt_setting_table[i].field;
    const char *near = rt_nearest(key, names);
    return rt_fail(e, RT_INVALID, "'%s' is not a setting%s%s%s", key, near ? "; did you mean " : "", near ? near : "",
                   near ? "?" : "");
}

int rt_settings_from_json(rt_settings *s, const json_t *object, rt_arena *a, rt_err *e)
{
    int rc = RT_OK;
    const char *key;
    json_t *value;
    if (!json_is_object(object)) return rt_fail(e, RT_INVALID, "settings are an object of names and values");
    json_object_foreach((json_t *)(uintptr_t)object, key, value)
    {
        rt_setting_id id = rt_setting_find(key);
        if (id == RT_SETTING_COUNT_ALL) RT_TRY(unknown_key(key, e));
        RT_TRY(set_from_json(s, id, value, a, e));
    }
out:
    return rc;
}

static void append_value(const rt_settings *s, rt_setting_id id, rt_str *out)
{
    json_t *v = s->given[id] ? to_json(s, id) : NULL;
    char *text = v ? json_dumps(v, JSON_ENCODE_ANY | JSON_COMPACT | JSON_REAL_PRECISION(9)) : NULL;
    rt_str_append(out, text ? text : "not given");
    rt_free(text);
    json_decref(v);
}

static bool same(const rt_settings *a, const rt_settings *b, rt_setting_id id)
{
    json_t *x = to_json(a, id), *y = to_json(b, id);
    bool equal = a->given[id] == b->given[id] && x && y && json_equal(x, y);
    json_decref(x);
    json_decref(y);
    return equal;
}

uint32_t rt_settings_diff(const rt_settings *was, const rt_settings *now, rt_str *out)
{
    uint32_t bound = 0;
    for (int i = 0; i < RT_SETTING_COUNT_ALL; i++) {
        rt_setting_id id = (rt_setting_id)i;
        if (!now->given[i] || same(was, now, id)) continue;
        rt_str_printf(out, "%s%s: was ", out->len ? "\n" : "", rt_setting_table[i].flag);
        append_value(was, id, out);
        rt_str_append(out, ", now ");
        append_value(now, id, out);
        bound += rt_setting_table[i].bind == RT_BIND_RUN;
    }
    return bound;
}
