/* settings_yaml.c - reads settings from YAML with libyaml's events: one map, its values scalars or lists of scalars.
 *
 * Owns: walking the events and refusing what settings have no use for (anchors of lists and maps, tags, maps inside but
 * for those of other tools), with the line. What names mean is settings_source.c's, writing is settings_yaml_write.c's.
 * libyaml allocates with malloc and has no hook; what it holds is bounded by RT_YAML_BYTES and freed before the call
 * returns.
 */
#include "settings/settings_internal.h"

#include <string.h>
#include <yaml.h>

/* ---- events ---- */

/* Bytes that are no text have no mark, only an offset. */
static uint32_t line_at(const char *text, size_t len, size_t offset)
{
    uint32_t line = 1;
    for (size_t i = 0; i < offset && i < len; i++) line += text[i] == '\n';
    return line;
}

enum { MOST_LEVELS = 100, MOST_ANCHORS = 64 };

/* A scalar with a name, which may be said again by it. */
typedef struct anchor {
    const char *name, *text;
    yaml_scalar_style_t style;
} anchor;

typedef struct reader {
    rt_setting_source *f;
    yaml_parser_t parser;
    yaml_event_t event;
    bool has_event;
    const char *text;
    size_t len;
    uint32_t line; /* of a text inside another: its own */
    anchor anchors[MOST_ANCHORS];
    uint32_t anchor_count;
} reader;

static uint32_t line_of(const reader *r) { return r->line ? r->line : (uint32_t)r->event.start_mark.line + 1; }

static int syntax_error(const reader *r)
{
    const yaml_parser_t *p = &r->parser;
    if (p->error == YAML_MEMORY_ERROR) return rt_no_memory(r->f->e, r->f->where);
    uint32_t line = r->line                         ? r->line
                    : p->error == YAML_READER_ERROR ? line_at(r->text, r->len, p->problem_offset)
                                                    : (uint32_t)p->problem_mark.line + 1;
    if (r->line) return rt_source_refuse(r->f, line, "'%.80s' is no map of names and values", r->text);
    return rt_fail(r->f->e, RT_FORMAT, "%s:%u: not YAML: %s%s%s", r->f->where, line, p->context ? p->context : "",
                   p->context ? ", " : "", p->problem ? p->problem : "it cannot be read");
}

static int keep_anchor(reader *r, const char *name)
{
    const yaml_event_t *v = &r->event;
    const char *text = (const char *)v->data.scalar.value;
    if (r->anchor_count == MOST_ANCHORS)
        return rt_source_refuse(r->f, line_of(r), "&%.40s is one anchor too many; %d are possible", name, MOST_ANCHORS);
    if (strlen(text) != v->data.scalar.length)
        return rt_source_refuse(r->f, line_of(r), "the value has a zero byte in it; remove it");
    anchor *to = &r->anchors[r->anchor_count];
    to->name = rt_arena_strdup(r->f->arena, name);
    to->text = rt_arena_strdup(r->f->arena, text);
    to->style = v->data.scalar.style;
    if (!to->name || !to->text) return rt_no_memory(r->f->e, "settings");
    r->anchor_count++;
    return RT_OK;
}

/* What an anchor stands for takes the place of its name. */
static int repeat_anchor(reader *r)
{
    const char *name = (const char *)r->event.data.alias.anchor;
    const anchor *from = NULL;
    for (uint32_t i = 0; i < r->anchor_count; i++)
        if (strcmp(r->anchors[i].name, name) == 0) from = &r->anchors[i]; /* the last one */
    if (!from)
        return rt_source_refuse(r->f, line_of(r), "*%.40s repeats no value of one word that came before; write it out",
                                name);
    yaml_mark_t start = r->event.start_mark;
    yaml_event_delete(&r->event);
    r->has_event = yaml_scalar_event_initialize(&r->event, NULL, NULL, (const yaml_char_t *)from->text,
                                                (int)strlen(from->text), 1, 1, from->style);
    r->event.start_mark = start;
    return r->has_event ? RT_OK : rt_no_memory(r->f->e, "settings");
}

/* The next event into r->event. What no event of a settings file has is refused here. */
static int next(reader *r)
{
    if (r->has_event) yaml_event_delete(&r->event);
    r->has_event = false;
    if (!yaml_parser_parse(&r->parser, &r->event)) return syntax_error(r);
    r->has_event = true;
    const yaml_event_t *v = &r->event;
    const yaml_char_t *name = NULL, *tag = NULL;
    if (v->type == YAML_ALIAS_EVENT) return repeat_anchor(r);
    if (v->type == YAML_SCALAR_EVENT) tag = v->data.scalar.tag;
    if (v->type == YAML_SEQUENCE_START_EVENT) name = v->data.sequence_start.anchor, tag = v->data.sequence_start.tag;
    if (v->type == YAML_MAPPING_START_EVENT) name = v->data.mapping_start.anchor, tag = v->data.mapping_start.tag;
    if (name)
        return rt_source_refuse(r->f, line_of(r), "&%s is an anchor of more than one word; write the value alone",
                                (const char *)name);
    if (tag)
        return rt_source_refuse(r->f, line_of(r), "the tag %s means nothing here: write the value alone",
                                (const char *)tag);
    if (v->type == YAML_SCALAR_EVENT && v->data.scalar.anchor)
        return keep_anchor(r, (const char *)v->data.scalar.anchor);
    return RT_OK;
}

/* The scalar of the current event, in the arena. */
static int take_scalar(reader *r, const char **out)
{
    const yaml_event_t *v = &r->event;
    const char *text = (const char *)v->data.scalar.value;
    if (strlen(text) != v->data.scalar.length)
        return rt_source_refuse(r->f, line_of(r), "the value has a zero byte in it; remove it");
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

/* The value of the current event, whatever it is, is not looked at. */
static int skip(reader *r)
{
    int rc = RT_OK, depth = 0;
    for (;;) {
        yaml_event_type_t type = r->event.type;
        if (type == YAML_SEQUENCE_START_EVENT || type == YAML_MAPPING_START_EVENT) depth++;
        if (type == YAML_SEQUENCE_END_EVENT || type == YAML_MAPPING_END_EVENT) depth--;
        if (depth == 0) break;
        /* libyaml looks at every open level for each token. */
        if (depth > MOST_LEVELS)
            return rt_source_refuse(r->f, line_of(r), "more than %d levels of nesting", MOST_LEVELS);
        RT_TRY(next(r));
    }
out:
    return rc;
}

static int take_map(reader *r, rt_setting_entry *x);

/* A scalar of x's value. */
static int take_word(reader *r, rt_setting_entry *x)
{
    uint32_t line = line_of(r);
    if (x->count == RT_SETTING_WORDS)
        return rt_source_refuse(r->f, line, "'%s' has more than %d values", x->name, RT_SETTING_WORDS);
    int rc = take_scalar(r, &x->value[x->count]);
    x->count += rc >= 0;
    return rc;
}

static int take_list(reader *r, rt_setting_entry *x)
{
    int rc;
    x->list = true;
    for (;;) {
        RT_TRY(next(r));
        uint32_t line = line_of(r);
        if (r->event.type == YAML_SEQUENCE_END_EVENT) break;
        if (r->event.type == YAML_MAPPING_START_EVENT) {
            RT_TRY(take_map(r, x));
            continue;
        }
        if (r->event.type != YAML_SCALAR_EVENT)
            RT_TRY(rt_source_refuse(r->f, line, "'%s' holds a list in a list; one level is enough", x->name));
        if (is_null(&r->event)) RT_TRY(rt_source_refuse(r->f, line, "'%s' has an empty value in its list", x->name));
        RT_TRY(take_word(r, x));
    }
    x->null = x->count == 0 && !x->map;
out:
    return rc;
}

static int take_value(reader *r, rt_setting_entry *x)
{
    if (r->event.type == YAML_SEQUENCE_START_EVENT) return take_list(r, x);
    if (r->event.type == YAML_MAPPING_START_EVENT) return take_map(r, x);
    x->null = is_null(&r->event);
    return x->null ? RT_OK : take_word(r, x);
}

/* A name with its value. */
static int take_pair(reader *r)
{
    int rc;
    const char *name;
    rt_setting_entry *x;
    uint32_t line = line_of(r);
    if (r->event.type != YAML_SCALAR_EVENT)
        return rt_source_refuse(r->f, line, "a name was expected, such as lr: 5e-5");
    RT_TRY(take_scalar(r, &name));
    RT_TRY(rt_source_add(r->f, name, line, &x));
    RT_TRY(next(r));
    RT_TRY(x ? take_value(r, x) : skip(r));
out:
    return rc;
}

/* The names up to the end of a map. */
static int take_pairs(reader *r)
{
    int rc;
    for (;;) {
        RT_TRY(next(r));
        if (r->event.type == YAML_MAPPING_END_EVENT) break;
        RT_TRY(take_pair(r));
    }
out:
    return rc;
}

/* ---- entries of a list of data ---- */

/* The scalar of the current event, as a word of v. */
static int add_word(reader *r, const rt_setting_entry *x, rt_dataset_value *v, const char *name)
{
    if (v->count == RT_DATASET_VALUES)
        return rt_source_refuse(r->f, v->line, "'%s' has more than %d values in %.40s", x->name, RT_DATASET_VALUES,
                                v->key);
    v->name[v->count] = name;
    int rc = take_scalar(r, &v->text[v->count]);
    v->count += rc >= 0;
    return rc;
}

/* A word, a list of words or a map of words; what lies deeper is the one word "...". */
static int take_dataset_value(reader *r, const rt_setting_entry *x, rt_dataset_value *v)
{
    int rc;
    const char *name = NULL;
    yaml_event_type_t type = r->event.type;
    if (type == YAML_SCALAR_EVENT) return add_word(r, x, v, NULL);
    v->map = type == YAML_MAPPING_START_EVENT;
    for (;;) {
        RT_TRY(next(r));
        if (r->event.type == YAML_MAPPING_END_EVENT || r->event.type == YAML_SEQUENCE_END_EVENT) break;
        if (v->map) {
            if (r->event.type != YAML_SCALAR_EVENT)
                RT_TRY(rt_source_refuse(r->f, v->line, "a name was expected in %.40s", v->key));
            RT_TRY(take_scalar(r, &name));
            RT_TRY(next(r));
        }
        if (r->event.type == YAML_SCALAR_EVENT) {
            RT_TRY(add_word(r, x, v, name));
            continue;
        }
        if (v->count < RT_DATASET_VALUES) {
            v->name[v->count] = name;
            v->text[v->count++] = "...";
        }
        RT_TRY(skip(r));
    }
out:
    return rc;
}

/* One `path: a.jsonl` with what is beside it. */
static int take_dataset(reader *r, rt_setting_entry *x)
{
    int rc;
    rt_dataset d = { .f = r->f, .x = x, .path_line = line_of(r) };
    for (;;) {
        RT_TRY(next(r));
        rt_dataset_value v = { .line = line_of(r) };
        if (r->event.type == YAML_MAPPING_END_EVENT) break;
        if (r->event.type != YAML_SCALAR_EVENT)
            RT_TRY(rt_source_refuse(r->f, v.line, "a name was expected, such as path: a.jsonl"));
        RT_TRY(take_scalar(r, &v.key));
        RT_TRY(next(r));
        bool null = r->event.type == YAML_SCALAR_EVENT && is_null(&r->event);
        RT_TRY(take_dataset_value(r, x, &v));
        if (!null) RT_TRY(rt_source_keep(r->f, v.line, rt_dataset_take(&d, &v)));
    }
    RT_TRY(rt_dataset_end(&d));
out:
    return rc;
}

static int take_map(reader *r, rt_setting_entry *x)
{
    uint32_t line = line_of(r);
    rt_alias_shape shape = x->id == RT_SETTING_COUNT_ALL ? rt_alias_shape_of(x->alias) : RT_SHAPE_PLAIN;
    x->map = true;
    if (shape == RT_SHAPE_DATASETS && x->list) return take_dataset(r, x);
    if (shape == RT_SHAPE_INSIDE && !x->list) return take_pairs(r);
    int rc = RT_OK;
    if (shape != RT_SHAPE_ANY)
        rc = rt_source_keep(
            r->f, line,
            rt_source_refuse(r->f, line, "'%s' holds a map; settings are plain: one name and its value on each line",
                             x->name));
    return rc < 0 ? rc : skip(r);
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
            RT_TRY(rt_source_refuse(r->f, line_of(r), "settings are lines of a name, a colon and a value"));
        RT_TRY(take_pairs(r));
        RT_TRY(next(r)); /* the document's end */
    }
    RT_TRY(next(r));
    if (r->event.type != YAML_STREAM_END_EVENT)
        RT_TRY(rt_source_refuse(r->f, line_of(r), "a second document begins here; settings are one"));
out:
    return rc;
}

static int read_text(reader *r)
{
    if (!yaml_parser_initialize(&r->parser)) return rt_no_memory(r->f->e, "settings");
    yaml_parser_set_encoding(&r->parser, YAML_UTF8_ENCODING);
    yaml_parser_set_input_string(&r->parser, (const unsigned char *)r->text, r->len);
    int rc = read_entries(r);
    if (r->has_event) yaml_event_delete(&r->event);
    yaml_parser_delete(&r->parser);
    return rc;
}

int rt_source_yaml(rt_setting_source *f, const char *text, size_t len, const char *where)
{
    reader r = { .f = f, .text = text, .len = len };
    if (len > RT_YAML_BYTES)
        return rt_fail(f->e, RT_FORMAT, "%s:1: %zu bytes are no settings; the limit is %d", where, len, RT_YAML_BYTES);
    rt_source_enter(f, where);
    return read_text(&r);
}

int rt_source_inside(rt_setting_source *f, const char *text, uint32_t line)
{
    reader r = { .f = f, .text = text, .len = strlen(text), .line = line };
    return read_text(&r);
}

int rt_settings_from_yaml(rt_settings *s, const char *text, size_t len, const char *where, rt_arena *a,
                          rt_settings_notes *notes, rt_err *e)
{
    int rc;
    rt_err own = { 0 };
    rt_setting_source f = { .arena = a, .e = e ? e : &own };
    if (notes) notes->count = 0;
    RT_TRY(rt_source_yaml(&f, text, len, where));
    rc = rt_source_apply(&f, s);
    rt_source_report(&f, NULL, notes);
out:
    return rc;
}

int rt_settings_from_yaml_file(rt_settings *s, const char *path, rt_arena *a, rt_settings_notes *notes, rt_err *e)
{
    return rt_settings_from_both(s, NULL, 0, path, a, NULL, notes, e);
}
