/* settings.c - see settings.h. */
#include "settings/settings_internal.h"

#include "base/json.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

const rt_setting_info rt_setting_table[RT_SETTING_COUNT_ALL] = {
#define X(field, flag, kind, def, bind, need, metavar, help)                                                           \
    { #field,                                                                                                          \
      flag,                                                                                                            \
      RT_SETTING_##kind,                                                                                               \
      def,                                                                                                             \
      RT_BIND_##bind,                                                                                                  \
      RT_NEED_##need,                                                                                                  \
      metavar,                                                                                                         \
      help,                                                                                                            \
      offsetof(rt_settings, field),                                                                                    \
      sizeof(RT_SETTING_TYPE_##kind) },
    RT_SETTING_TABLE(X)
#undef X
};

static void *value_of(rt_settings *s, rt_setting_id id) { return (char *)s + rt_setting_table[id].offset; }
static const void *value_of_const(const rt_settings *s, rt_setting_id id)
{
    return (const char *)s + rt_setting_table[id].offset;
}

static bool is(const char *text, const char *word) { return text && strcmp(text, word) == 0; }

/* ---- names ---- */

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

int rt_setting_unknown(const char *name, int status, rt_err *e)
{
    const char *names[RT_SETTING_COUNT_ALL + 1] = { 0 };
    for (int i = 0; i < RT_SETTING_COUNT_ALL; i++) names[i] = rt_setting_table[i].field;
    const char *near = rt_nearest(name, names);
    return rt_fail(e, status, "'%s' is not a setting%s%s%s", name, near ? "; did you mean " : "", near ? near : "",
                   near ? "?" : "");
}

int rt_setting_switch(const char *text)
{
    static const char *const yes[] = { "true", "on", "yes", "1" }, *const no[] = { "false", "off", "no", "0" };
    for (int i = 0; i < 4; i++) {
        if (strcasecmp(text, yes[i]) == 0) return 1;
        if (strcasecmp(text, no[i]) == 0) return 0;
    }
    return -1;
}

bool rt_setting_stands_alone(const char *words)
{
    return words && strncmp(words, "on|off", 6) == 0 && (!words[6] || words[6] == '|');
}

/* ---- needs ---- */

/* The setting that gives what is needed. */
static const rt_setting_id giver[] = { RT_SETTING_COUNT_ALL,
#define X(name, setting, text, has) RT_SETTING_ID_##setting,
                                       RT_SETTING_NEEDS(X)
#undef X
};

bool rt_setting_rests_on(rt_setting_id id, rt_setting_id on)
{
    while (id != on && id != RT_SETTING_COUNT_ALL) id = giver[rt_setting_table[id].need];
    return id == on;
}

static const char *lacking(const rt_settings *s, rt_setting_need need)
{
    switch (need) {
#define X(name, setting, text, has)                                                                                    \
    case RT_NEED_##name: return (has) ? NULL : text;
        RT_SETTING_NEEDS(X)
#undef X
    case RT_NEED_NOTHING: break;
    }
    return NULL;
}

int rt_settings_check_needs(const rt_settings *s, const bool *said, rt_err *e)
{
    for (int i = 0; i < RT_SETTING_COUNT_ALL; i++) {
        const char *what = said[i] ? lacking(s, rt_setting_table[i].need) : NULL;
        rt_setting_id on = giver[rt_setting_table[i].need];
        /* A default is at rest beside another choice that was made; said alone, it is meant to do something. */
        bool alone = what && *rt_setting_table[on].def && !said[on];
        if (what && (alone || rt_settings_asks(s, (rt_setting_id)i)))
            return rt_fail(e, RT_USAGE, "%s needs %s", rt_setting_table[i].flag, what);
    }
    return RT_OK;
}

/* ---- numbers as text ---- */

const char *rt_setting_digits(char *buf, double v)
{
    for (int digits = 6; digits <= 17; digits++) {
        snprintf(buf, RT_SETTING_DIGITS, "%.*g", digits, v);
        if (strtod(buf, NULL) == v) break;
    }
    return buf;
}

const char *rt_share_text(char *buf, rt_share s)
{
    if (!s.percent)
        snprintf(buf, RT_SETTING_DIGITS, "%.0f", s.value);
    else
        strcat(strcpy(buf, rt_setting_digits((char[RT_SETTING_DIGITS]){ 0 }, s.value)), "%");
    return buf;
}

uint64_t rt_share_of(rt_share s, uint64_t total)
{
    double n = s.percent ? floor(s.value / 100.0 * (double)total + 0.5) : s.value;
    return n < 1 ? s.value > 0 : (uint64_t)n;
}

int rt_settings_out_of_range(const rt_settings *s, rt_setting_id id, const char *range, rt_err *e)
{
    const rt_setting_info *f = &rt_setting_table[id];
    const void *v = value_of_const(s, id);
    char buf[RT_SETTING_DIGITS];
    if (f->kind == RT_SETTING_REAL) rt_setting_digits(buf, *(const double *)v);
    if (f->kind == RT_SETTING_COUNT) snprintf(buf, sizeof buf, "%" PRIu64, *(const uint64_t *)v);
    if (f->kind == RT_SETTING_SHARE) rt_share_text(buf, *(const rt_share *)v);
    return rt_fail(e, RT_USAGE, "%s %s is out of range (%s)", f->flag, buf, range);
}

/* ---- values ---- */

static int set_real(double *v, const char *text, const char *flag, rt_err *e)
{
    char *end;
    *v = strtod(text, &end);
    if (*end || end == text || !isfinite(*v)) return rt_fail(e, RT_USAGE, "%s takes a number, not '%s'", flag, text);
    return RT_OK;
}

static int set_count(uint64_t *v, const char *text, const char *flag, rt_err *e)
{
    char *end;
    errno = 0;
    *v = strtoull(text, &end, 10);
    if (errno || *end || text[0] < '0' || text[0] > '9')
        return rt_fail(e, RT_USAGE, "%s takes a whole number, not '%s'", flag, text);
    return RT_OK;
}

static int set_share(rt_share *v, const char *text, const char *flag, rt_err *e)
{
    char *end;
    *v = (rt_share){ .value = strtod(text, &end) };
    v->percent = end != text && is(end, "%");
    if (end == text || (*end && !v->percent) || !(v->value >= 0) || (v->percent && v->value > 100) ||
        (!v->percent && (v->value != floor(v->value) || v->value > 1e15)))
        return rt_fail(e, RT_USAGE, "%s takes a whole number, or a share such as 5%%, not '%s'", flag, text);
    return RT_OK;
}

static int set_list(rt_setting_list *v, const char *text, const char *flag, rt_err *e)
{
    if (v->count == RT_SETTING_WORDS)
        return rt_fail(e, RT_USAGE, "%s can be given %d times at most", flag, RT_SETTING_WORDS);
    v->text[v->count++] = text;
    return RT_OK;
}

static int set_switch(bool *v, const char *text, const char *flag, rt_err *e)
{
    int yes = rt_setting_switch(text);
    *v = yes == 1;
    return yes < 0 ? rt_fail(e, RT_USAGE, "%s is on or off, not '%s'", flag, text) : RT_OK;
}

int rt_settings_set(rt_settings *s, rt_setting_id id, const char *text, rt_err *e)
{
    int rc = RT_OK;
    const char *flag = rt_setting_table[id].flag;
    void *v = value_of(s, id);
    switch (rt_setting_table[id].kind) {
    case RT_SETTING_TEXT: *(const char **)v = text; break;
    case RT_SETTING_LIST:
    case RT_SETTING_TEXTS: rc = set_list(v, text, flag, e); break;
    case RT_SETTING_REAL: rc = set_real(v, text, flag, e); break;
    case RT_SETTING_COUNT: rc = set_count(v, text, flag, e); break;
    case RT_SETTING_SHARE: rc = set_share(v, text, flag, e); break;
    case RT_SETTING_SWITCH: rc = set_switch(v, text, flag, e); break;
    }
    if (rc == RT_OK) s->given[id] = true;
    return rc;
}

void rt_settings_put_share(rt_settings *s, rt_setting_id id, rt_share v)
{
    *(rt_share *)value_of(s, id) = v;
    s->given[id] = true;
}

void rt_settings_forget(rt_settings *s, rt_setting_id id)
{
    memset(value_of(s, id), 0, rt_setting_table[id].size);
    s->given[id] = false;
}

static bool same_text(const char *a, const char *b) { return a && b ? strcmp(a, b) == 0 : a == b; }

static bool equal(const rt_settings *a, const rt_settings *b, rt_setting_id id)
{
    const void *x = value_of_const(a, id), *y = value_of_const(b, id);
    const rt_setting_list *p = x, *q = y;
    const rt_share *m = x, *n = y;
    switch (rt_setting_table[id].kind) {
    case RT_SETTING_TEXT: return same_text(*(const char *const *)x, *(const char *const *)y);
    case RT_SETTING_REAL: return *(const double *)x == *(const double *)y;
    case RT_SETTING_COUNT: return *(const uint64_t *)x == *(const uint64_t *)y;
    case RT_SETTING_SHARE: return m->value == n->value && m->percent == n->percent;
    case RT_SETTING_SWITCH: return *(const bool *)x == *(const bool *)y;
    case RT_SETTING_LIST:
    case RT_SETTING_TEXTS: break;
    }
    for (uint32_t i = 0; i < p->count && i < q->count; i++)
        if (strcmp(p->text[i], q->text[i]) != 0) return false;
    return p->count == q->count;
}

bool rt_settings_asks(const rt_settings *s, rt_setting_id id)
{
    rt_settings def = { 0 };
    const rt_setting_info *f = &rt_setting_table[id];
    if (*f->def && (f->kind == RT_SETTING_TEXT || !is(f->def, "auto"))) (void)rt_settings_set(&def, id, f->def, NULL);
    return s->given[id] && !equal(s, &def, id);
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

bool rt_setting_rival(rt_setting_id over, rt_setting_id base)
{
    static const rt_setting_id length[] = { RT_SETTING_ID_steps, RT_SETTING_ID_tokens, RT_SETTING_ID_epochs,
                                            RT_SETTING_ID_time };
    static const rt_setting_id pairs[][2] = {
        { RT_SETTING_ID_alpha, RT_SETTING_ID_kd_weight },    { RT_SETTING_ID_alpha, RT_SETTING_ID_ce_weight },
        { RT_SETTING_ID_lr, RT_SETTING_ID_lr_class },        { RT_SETTING_ID_lr_class, RT_SETTING_ID_lr },
        { RT_SETTING_ID_eval_data, RT_SETTING_ID_held_out }, { RT_SETTING_ID_held_out, RT_SETTING_ID_eval_data }
    };
    int both = 0;
    for (int i = 0; i < 4; i++) both += (length[i] == over) + (length[i] == base);
    if (both == 2) return over != base;
    for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++)
        if (pairs[i][0] == over && pairs[i][1] == base) return true;
    return false;
}

/* The one that was there does not stand against the one that comes. */
static void forget_rivals(rt_settings *base, const rt_settings *over)
{
    for (int i = 0; i < RT_SETTING_COUNT_ALL; i++)
        for (int k = 0; k < RT_SETTING_COUNT_ALL && over->given[i]; k++)
            if (rt_setting_rival((rt_setting_id)i, (rt_setting_id)k)) rt_settings_forget(base, (rt_setting_id)k);
}

void rt_settings_overlay(rt_settings *base, const rt_settings *over)
{
    forget_rivals(base, over);
    for (int i = 0; i < RT_SETTING_COUNT_ALL; i++) {
        if (!over->given[i]) continue;
        memcpy(value_of(base, (rt_setting_id)i), value_of_const(over, (rt_setting_id)i), rt_setting_table[i].size);
        base->given[i] = true;
    }
}

/* ---- JSON ---- */

/* JSON's integers end at 2^63; what is above is a string. */
static json_t *count_json(uint64_t v)
{
    return v <= INT64_MAX ? json_integer((json_int_t)v) : json_sprintf("%" PRIu64, v);
}

static json_t *to_json(const rt_settings *s, rt_setting_id id)
{
    const void *v = value_of_const(s, id);
    char buf[RT_SETTING_DIGITS];
    switch (rt_setting_table[id].kind) {
    case RT_SETTING_TEXT: return json_string(*(const char *const *)v);
    case RT_SETTING_REAL: return json_real(*(const double *)v);
    case RT_SETTING_COUNT: return count_json(*(const uint64_t *)v);
    case RT_SETTING_SHARE: return json_string(rt_share_text(buf, *(const rt_share *)v));
    case RT_SETTING_SWITCH: return json_boolean(*(const bool *)v);
    case RT_SETTING_LIST:
    case RT_SETTING_TEXTS: break;
    }
    const rt_setting_list *list = v;
    if (rt_setting_table[id].kind == RT_SETTING_TEXTS && list->count == 1) return json_string(list->text[0]);
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

static const char *const takes[] = { [RT_SETTING_TEXT] = "text",
                                     [RT_SETTING_LIST] = "a list of texts",
                                     [RT_SETTING_TEXTS] = "a text, or a list of them",
                                     [RT_SETTING_REAL] = "a number",
                                     [RT_SETTING_COUNT] = "a whole number",
                                     [RT_SETTING_SHARE] = "a share as text",
                                     [RT_SETTING_SWITCH] = "true or false" };

/* A value that is no list. */
static int set_from_json(rt_settings *s, rt_setting_id id, const json_t *v, rt_arena *a, rt_err *e)
{
    rt_setting_kind kind = rt_setting_table[id].kind;
    void *to = value_of(s, id);
    if (json_is_string(v)) {
        const char *text = rt_arena_strdup(a, json_string_value(v));
        return text ? rt_settings_set(s, id, text, e) : rt_no_memory(e, "settings");
    }
    if (kind == RT_SETTING_REAL && json_is_number(v))
        *(double *)to = json_number_value(v);
    else if (kind == RT_SETTING_COUNT && json_is_integer(v) && json_integer_value(v) >= 0)
        *(uint64_t *)to = (uint64_t)json_integer_value(v);
    else if (kind == RT_SETTING_SWITCH && json_is_boolean(v))
        *(bool *)to = json_is_true(v);
    else if (kind == RT_SETTING_TEXT && json_is_boolean(v) &&
             rt_setting_stands_alone(rt_setting_table[id].metavar)) /* it was a switch once */
        *(const char **)to = json_is_true(v) ? "on" : "off";
    else
        return rt_fail(e, RT_INVALID, "%s takes %s", rt_setting_table[id].field, takes[kind]);
    s->given[id] = true;
    return RT_OK;
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
        if (id == RT_SETTING_COUNT_ALL) RT_TRY(rt_setting_unknown(key, RT_INVALID, e));
        if (json_is_null(value)) continue;
        if (!json_is_array(value)) RT_TRY(set_from_json(s, id, value, a, e));
        if (json_is_array(value) && !rt_setting_repeats(rt_setting_table[id].kind))
            RT_TRY(rt_fail(e, RT_INVALID, "%s takes one value, not a list", key));
        for (size_t i = 0; i < json_array_size(value); i++)
            RT_TRY(set_from_json(s, id, json_array_get(value, i), a, e));
    }
out:
    return rc;
}

int rt_settings_from_record(rt_settings *s, const json_t *object, rt_arena *a, rt_err *e)
{
    int rc = rt_settings_from_json(s, object, a, e);
    /* Runs that began when nothing was timed by default do not say so. */
    if (rc >= 0 && !s->given[RT_SETTING_ID_tune]) rc = rt_settings_set(s, RT_SETTING_ID_tune, "off", e);
    return rc;
}

/* ---- the comparison of a resumed run ---- */

static void append_value(const rt_settings *s, rt_setting_id id, rt_str *out)
{
    json_t *v = s->given[id] ? to_json(s, id) : NULL;
    char *text = v ? json_dumps(v, JSON_ENCODE_ANY | JSON_COMPACT | JSON_REAL_PRECISION(9)) : NULL;
    rt_str_append(out, text ? text : "not given");
    rt_free(text);
    json_decref(v);
}

uint32_t rt_settings_diff(const rt_settings *was, const rt_settings *now, rt_setting_bind least, rt_str *out)
{
    uint32_t bound = 0;
    for (int i = 0; i < RT_SETTING_COUNT_ALL; i++) {
        rt_setting_id id = (rt_setting_id)i;
        if (!now->given[i] || rt_setting_table[i].bind < least) continue;
        if (was->given[i] && equal(was, now, id)) continue;
        rt_str_printf(out, "%s%s: was ", out->len ? "\n" : "", rt_setting_table[i].flag);
        append_value(was, id, out);
        rt_str_append(out, ", now ");
        append_value(now, id, out);
        bound += rt_setting_table[i].bind != RT_BIND_FREE;
    }
    return bound;
}
