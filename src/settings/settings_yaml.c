/* settings_yaml.c - reads settings from YAML with libyaml's events: one map, its values scalars or lists of scalars.
 *
 * Owns: walking the events and refusing what settings have no use for (anchors, tags, maps inside), with the line. The
 * names of other tools are settings_alias.c's, writing is settings_yaml_write.c's. libyaml allocates with malloc and
 * has no hook; what it holds is bounded by RT_YAML_BYTES and freed before the call returns. */
#include "settings/settings_internal.h"

#include "base/file.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <yaml.h>

int rt_yaml_refuse(const rt_yaml_file *f, uint32_t line, const char *format, ...)
{
    char text[400];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    return rt_fail(f->e, RT_INVALID, "%s:%u: %s", f->where, line, text);
}

/* ---- events ---- */

static uint32_t line_of(const yaml_event_t *v) { return (uint32_t)v->start_mark.line + 1; }

/* Bytes that are no text have no mark, only an offset. */
static uint32_t line_at(const char *text, size_t len, size_t offset)
{
    uint32_t line = 1;
    for (size_t i = 0; i < offset && i < len; i++) line += text[i] == '\n';
    return line;
}

typedef struct reader {
    rt_yaml_file *f;
    yaml_parser_t parser;
    yaml_event_t event;
    bool has_event;
    const char *text;
    size_t len;
} reader;

static int syntax_error(const reader *r)
{
    const yaml_parser_t *p = &r->parser;
    if (p->error == YAML_MEMORY_ERROR) return rt_no_memory(r->f->e, r->f->where);
    uint32_t line = p->error == YAML_READER_ERROR ? line_at(r->text, r->len, p->problem_offset)
                                                  : (uint32_t)p->problem_mark.line + 1;
    return rt_fail(r->f->e, RT_FORMAT, "%s:%u: not YAML: %s%s%s", r->f->where, line, p->context ? p->context : "",
                   p->context ? ", " : "", p->problem ? p->problem : "it cannot be read");
}

/* The next event into r->event. What no event of a settings file has is refused here. */
static int next(reader *r)
{
    if (r->has_event) yaml_event_delete(&r->event);
    r->has_event = false;
    if (!yaml_parser_parse(&r->parser, &r->event)) return syntax_error(r);
    r->has_event = true;
    const yaml_event_t *v = &r->event;
    const yaml_char_t *anchor = NULL, *tag = NULL;
    if (v->type == YAML_ALIAS_EVENT)
        return rt_yaml_refuse(r->f, line_of(v), "*%s repeats an anchor; settings have none: write the value out",
                              (const char *)v->data.alias.anchor);
    if (v->type == YAML_SCALAR_EVENT) anchor = v->data.scalar.anchor, tag = v->data.scalar.tag;
    if (v->type == YAML_SEQUENCE_START_EVENT) anchor = v->data.sequence_start.anchor, tag = v->data.sequence_start.tag;
    if (v->type == YAML_MAPPING_START_EVENT) anchor = v->data.mapping_start.anchor, tag = v->data.mapping_start.tag;
    if (anchor)
        return rt_yaml_refuse(r->f, line_of(v), "&%s is an anchor; settings have none: write the value alone",
                              (const char *)anchor);
    if (tag)
        return rt_yaml_refuse(r->f, line_of(v), "the tag %s means nothing here: write the value alone",
                              (const char *)tag);
    return RT_OK;
}

/* The scalar of the current event, in the arena. */
static int take_scalar(reader *r, const char **out)
{
    const yaml_event_t *v = &r->event;
    const char *text = (const char *)v->data.scalar.value;
    if (strlen(text) != v->data.scalar.length)
        return rt_yaml_refuse(r->f, line_of(v), "the value has a zero byte in it; remove it");
    *out = rt_arena_strdup(r->f->arena, text);
    return *out ? RT_OK : rt_no_memory(r->f->e, r->f->where);
}

static bool is_null(const yaml_event_t *v)
{
    static const char *const words[] = { "", "~", "null", "Null", "NULL" };
    if (v->data.scalar.style != YAML_PLAIN_SCALAR_STYLE) return false;
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (strcmp((const char *)v->data.scalar.value, words[i]) == 0) return true;
    return false;
}

/* ---- names and values ---- */

static int unknown_name(const rt_yaml_file *f, const char *name, uint32_t line)
{
    const char *names[RT_SETTING_COUNT_ALL + RT_SETTINGS_ALIASES + 1] = { 0 };
    char plain[80];
    uint32_t n = 0;
    size_t len = 0;
    for (const char *p = name; *p; p++) {
        if (len == 0 && *p == '-') continue; /* of "--lr" */
        if (len + 1 < sizeof plain) plain[len++] = *p == '-' ? '_' : *p;
    }
    plain[len] = 0;
    for (int i = 0; i < RT_SETTING_COUNT_ALL; i++) names[n++] = rt_setting_table[i].field;
    for (uint32_t i = 0; rt_settings_alias_name(i); i++) names[n++] = rt_settings_alias_name(i);
    const char *near = rt_nearest(plain, names);
    return rt_yaml_refuse(f, line, "'%.60s' is not a setting%s%s%s", name, near ? "; did you mean " : "",
                          near ? near : "", near ? "?" : "; retort distill --help lists them");
}

static int refuse_twice(const rt_yaml_file *f, const rt_yaml_entry *a, const rt_yaml_entry *b)
{
    return rt_yaml_refuse(f, b->line, "'%s' is given already on line %u; leave one out", b->name, a->line);
}

/* A name: a new entry at the end of the list. */
static int take_name(reader *r)
{
    rt_yaml_file *f = r->f;
    uint32_t line = line_of(&r->event);
    const char *name;
    if (r->event.type != YAML_SCALAR_EVENT) return rt_yaml_refuse(f, line, "a name was expected, such as lr: 5e-5");
    int rc = take_scalar(r, &name);
    if (rc < 0) return rc;
    rt_setting_id id = rt_setting_find(name);
    uint32_t alias = id == RT_SETTING_COUNT_ALL ? rt_alias_find(name) : RT_ALIAS_NONE;
    if (id == RT_SETTING_COUNT_ALL && alias == RT_ALIAS_NONE) return unknown_name(f, name, line);
    rt_yaml_entry *x = rt_arena_alloc(f->arena, sizeof *x);
    if (!x) return rt_no_memory(f->e, f->where);
    *x = (rt_yaml_entry){ .name = name, .line = line, .id = id, .alias = alias };
    for (const rt_yaml_entry *y = f->first; y; y = y->next)
        if (y->id == id && y->alias == alias) return refuse_twice(f, y, x);
    if (f->last)
        f->last->next = x;
    else
        f->first = x;
    f->last = x;
    return RT_OK;
}

static int refuse_map(const rt_yaml_file *f, uint32_t line)
{
    return rt_yaml_refuse(f, line, "'%s' holds a map; settings are plain: one name and its value on each line",
                          f->last->name);
}

static int take_list(reader *r)
{
    int rc;
    rt_yaml_entry *x = r->f->last;
    x->list = true;
    for (;;) {
        RT_TRY(next(r));
        uint32_t line = line_of(&r->event);
        if (r->event.type == YAML_SEQUENCE_END_EVENT) break;
        if (r->event.type == YAML_MAPPING_START_EVENT) RT_TRY(refuse_map(r->f, line));
        if (r->event.type != YAML_SCALAR_EVENT)
            RT_TRY(rt_yaml_refuse(r->f, line, "'%s' holds a list in a list; one level is enough", x->name));
        if (x->count == RT_SETTING_WORDS)
            RT_TRY(rt_yaml_refuse(r->f, line, "'%s' has more than %d values", x->name, RT_SETTING_WORDS));
        if (is_null(&r->event)) RT_TRY(rt_yaml_refuse(r->f, line, "'%s' has an empty value in its list", x->name));
        RT_TRY(take_scalar(r, &x->value[x->count]));
        x->count++;
    }
    x->null = x->count == 0;
out:
    return rc;
}

static int take_value(reader *r)
{
    rt_yaml_entry *x = r->f->last;
    if (r->event.type == YAML_SEQUENCE_START_EVENT) return take_list(r);
    if (r->event.type != YAML_SCALAR_EVENT) return refuse_map(r->f, line_of(&r->event));
    x->null = is_null(&r->event);
    if (x->null) return RT_OK;
    x->count = 1;
    return take_scalar(r, &x->value[0]);
}

/* Every name of the file, none of them understood yet. */
static int read_entries(reader *r)
{
    int rc;
    RT_TRY(next(r)); /* the stream's start */
    RT_TRY(next(r));
    if (r->event.type == YAML_STREAM_END_EVENT) goto out; /* nothing but comments */
    RT_TRY(next(r));
    if (r->event.type == YAML_SCALAR_EVENT && is_null(&r->event)) {
        RT_TRY(next(r));
    } else {
        if (r->event.type != YAML_MAPPING_START_EVENT)
            RT_TRY(rt_yaml_refuse(r->f, line_of(&r->event), "settings are lines of a name, a colon and a value"));
        for (;;) {
            RT_TRY(next(r));
            if (r->event.type == YAML_MAPPING_END_EVENT) break;
            RT_TRY(take_name(r));
            RT_TRY(next(r));
            RT_TRY(take_value(r));
        }
        RT_TRY(next(r)); /* the document's end */
    }
    RT_TRY(next(r));
    if (r->event.type != YAML_STREAM_END_EVENT)
        RT_TRY(rt_yaml_refuse(r->f, line_of(&r->event), "a second document begins here; settings are one"));
out:
    return rc;
}

/* ---- setting ---- */

int rt_yaml_claim(rt_yaml_file *f, const rt_yaml_entry *x, rt_setting_id id)
{
    const rt_yaml_entry *other = f->by[id];
    if (other && other != x)
        return rt_yaml_refuse(f, x->line, "'%s' and '%s' of line %u both say %s; leave one out", x->name, other->name,
                              other->line, rt_setting_table[id].flag);
    f->by[id] = x;
    return RT_OK;
}

int rt_yaml_set(rt_yaml_file *f, const rt_yaml_entry *x, rt_setting_id id, const char *text)
{
    const char *metavar = rt_setting_table[id].metavar;
    /* YAML's other words for on and off, where the setting is text. */
    int yes = metavar && strcmp(metavar, "on|off") == 0 ? rt_setting_switch(text) : -1;
    int rc = rt_yaml_claim(f, x, id);
    if (rc < 0) return rc;
    rc = rt_settings_set(&f->settings, id, yes < 0 ? text : yes ? "on" : "off", f->e);
    if (rc >= 0) return rc;
    rt_err_context(f->e, "%s:%u", f->where, x->line);
    if (f->e) f->e->status = RT_INVALID;
    return RT_INVALID;
}

static int apply_own(rt_yaml_file *f)
{
    int rc = RT_OK;
    for (const rt_yaml_entry *x = f->first; x; x = x->next) {
        if (x->id == RT_SETTING_COUNT_ALL || x->null) continue;
        if (x->list && rt_setting_table[x->id].kind != RT_SETTING_LIST)
            RT_TRY(rt_yaml_refuse(f, x->line, "'%s' takes one value, not a list", x->name));
        for (uint32_t i = 0; i < x->count; i++) RT_TRY(rt_yaml_set(f, x, x->id, x->value[i]));
    }
out:
    return rc;
}

int rt_settings_from_yaml(rt_settings *s, const char *text, size_t len, const char *where, rt_arena *a,
                          rt_settings_aliases *used, rt_err *e)
{
    int rc;
    rt_yaml_file f = { .where = where, .arena = a, .used = used, .e = e };
    reader r = { .f = &f, .text = text, .len = len };
    if (used) used->count = 0;
    if (len > RT_YAML_BYTES)
        return rt_fail(e, RT_FORMAT, "%s:1: %zu bytes are no settings; the limit is %d", where, len, RT_YAML_BYTES);
    if (!yaml_parser_initialize(&r.parser)) return rt_no_memory(e, where);
    yaml_parser_set_encoding(&r.parser, YAML_UTF8_ENCODING);
    yaml_parser_set_input_string(&r.parser, (const unsigned char *)text, len);
    RT_TRY(read_entries(&r));
    RT_TRY(apply_own(&f));
    RT_TRY(rt_alias_apply(&f));
    rt_settings_overlay(s, &f.settings);
out:
    if (r.has_event) yaml_event_delete(&r.event);
    yaml_parser_delete(&r.parser);
    if (rc < 0 && used) used->count = 0;
    return rc;
}

int rt_settings_from_yaml_file(rt_settings *s, const char *path, rt_arena *a, rt_settings_aliases *used, rt_err *e)
{
    int rc;
    rt_str text = { 0 };
    RT_TRY(rt_file_read(path, RT_YAML_BYTES, &text, e));
    RT_TRY(rt_settings_from_yaml(s, text.data ? text.data : "", text.len, path, a, used, e));
out:
    rt_str_free(&text);
    return rc;
}
