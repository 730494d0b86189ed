/* settings_source.c - settings by name, whether a file or a command line has them: names are found, each gives its
 * setting once, and everything that is wrong is kept, so that it can be said at once. */
#include "settings/settings_internal.h"

#include "base/file.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

void rt_source_enter(rt_setting_source *f, const char *where)
{
    f->where = where;
    f->notes = &f->told[where != NULL];
    f->faults = &f->wrong[where != NULL];
}

bool rt_source_beaten(const rt_setting_entry *x, const rt_setting_entry *y) { return x->where && !y->where; }

static int status_of(const rt_setting_source *f) { return f->where ? RT_INVALID : RT_USAGE; }

int rt_source_refuse(const rt_setting_source *f, uint32_t line, const char *format, ...)
{
    char text[400];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    if (!f->where) return rt_fail(f->e, RT_USAGE, "%s", text);
    return rt_fail(f->e, RT_INVALID, "%s:%u: %s", f->where, line, text);
}

int rt_source_note(rt_setting_source *f, rt_settings_notes *to, uint32_t line, const char *text)
{
    if (to->count == RT_SETTINGS_NOTES) return RT_OK;
    const char *copy = rt_arena_strdup(f->arena, text);
    if (!copy) return rt_no_memory(f->e, "settings");
    uint32_t at = to->count++;
    for (; at > 0 && to->items[at - 1].line > line; at--) to->items[at] = to->items[at - 1];
    to->items[at] = (rt_settings_note){ line, copy };
    return RT_OK;
}

int rt_source_keep(rt_setting_source *f, uint32_t line, int rc)
{
    if (rc != status_of(f) || f->faults->count == RT_SETTINGS_NOTES) return rc; /* nothing like settings: enough */
    rc = rt_source_note(f, f->faults, line, f->e->text);
    if (rc >= 0) *f->e = (rt_err){ 0 };
    return rc;
}

/* ---- names ---- */

static int unknown_name(const rt_setting_source *f, const char *name, uint32_t line)
{
    const char *names[RT_SETTING_COUNT_ALL + RT_SETTINGS_NOTES + 1] = { 0 };
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
    return rt_source_refuse(f, line, "'%.60s' is not a setting%s%s%s", name, near ? "; did you mean " : "",
                            near ? near : "",
                            near ? "?" : "; --help lists ours, docs/other-tools.md those of other tools");
}

int rt_source_add(rt_setting_source *f, const char *name, uint32_t line, rt_setting_entry **out)
{
    rt_setting_id id = rt_setting_find(name);
    uint32_t alias = id == RT_SETTING_COUNT_ALL ? rt_alias_find(name) : RT_ALIAS_NONE;
    *out = NULL;
    if (id == RT_SETTING_COUNT_ALL && alias == RT_ALIAS_NONE)
        return rt_source_keep(f, line, unknown_name(f, name, line));
    const char *won = NULL;
    for (rt_setting_entry *y = f->first; y; y = y->next) {
        if (y->id != id || y->alias != alias) continue;
        if (f->where && !y->where)
            won = y->name;
        else if (!f->where && y->where)
            y->won = name;
        else
            return rt_source_keep(
                f, line, rt_source_refuse(f, line, "'%s' is given already on line %u; leave one out", name, y->line));
    }
    rt_setting_entry *x = rt_arena_alloc(f->arena, sizeof *x);
    if (!x) return rt_no_memory(f->e, "settings");
    *x = (rt_setting_entry){ .name = name, .where = f->where, .won = won, .line = line, .id = id, .alias = alias };
    if (f->last)
        f->last->next = x;
    else
        f->first = x;
    f->last = *out = x;
    return RT_OK;
}

/* ---- setting ---- */

/* The entry of the command line to which x yields, or null. */
static const rt_setting_entry *winner(const rt_setting_source *f, const rt_setting_entry *x, rt_setting_id id)
{
    if (!x->where) return NULL;
    for (int i = 0; i < RT_SETTING_COUNT_ALL; i++) {
        const rt_setting_entry *y = f->by[i];
        if (y && !y->where && ((rt_setting_id)i == id || rt_setting_rival((rt_setting_id)i, id))) return y;
    }
    return NULL;
}

int rt_source_claim(rt_setting_source *f, rt_setting_entry *x, rt_setting_id id)
{
    const rt_setting_entry *won = winner(f, x, id);
    char line[32] = "";
    f->yields = won != NULL;
    if (won) {
        x->won = won->name;
        return RT_OK;
    }
    for (int i = 0; i < RT_SETTING_COUNT_ALL; i++) /* what the file gave before */
        if (f->by[i] && rt_source_beaten(f->by[i], x) && ((int)id == i || rt_setting_rival(id, (rt_setting_id)i))) {
            rt_settings_forget(&f->settings, (rt_setting_id)i);
            f->by[i] = NULL;
        }
    const rt_setting_entry *other = f->by[id];
    if (!other || other == x) {
        f->by[id] = x;
        return RT_OK;
    }
    if (f->where) snprintf(line, sizeof line, " of line %u", other->line);
    return rt_source_refuse(f, x->line, "'%s' and '%s'%s both say %s; leave one out", x->name, other->name, line,
                            rt_setting_table[id].flag);
}

static bool is_path(rt_setting_id id)
{
    static const rt_setting_id ids[] = { RT_SETTING_ID_teacher,       RT_SETTING_ID_student,
                                         RT_SETTING_ID_base,          RT_SETTING_ID_data,
                                         RT_SETTING_ID_eval_data,     RT_SETTING_ID_out,
                                         RT_SETTING_ID_cublaslt,      RT_SETTING_ID_chat_template,
                                         RT_SETTING_ID_sample_prompts };
    for (size_t i = 0; i < sizeof ids / sizeof *ids; i++)
        if (ids[i] == id) return true;
    return false;
}

int rt_source_set(rt_setting_source *f, rt_setting_entry *x, rt_setting_id id, const char *text)
{
    rt_settings aside = { 0 };
    /* YAML's other words for on and off, where the setting is text. */
    int yes = f->where && rt_setting_stands_alone(rt_setting_table[id].metavar) ? rt_setting_switch(text) : -1;
    int rc = rt_source_claim(f, x, id);
    if (rc < 0) return rc;
    if (f->strict && is_path(id) && strncmp(text, "~/", 2) == 0)
        return rt_source_refuse(f, x->line, "'%s' is %.80s, and ~ is a word of the shell's; write the path out",
                                x->name, text);
    if (x->where && rt_setting_table[id].kind == RT_SETTING_COUNT) text = rt_setting_whole(f->arena, text);
    if (!text) return rt_no_memory(f->e, "settings");
    rc = rt_settings_set(f->yields ? &aside : &f->settings, id, yes < 0 ? text : yes ? "on" : "off", f->e);
    if (rc >= 0 || !f->where) return rc;
    rt_err_context(f->e, "%s:%u", f->where, x->line);
    f->e->status = RT_INVALID;
    return RT_INVALID;
}

static int set_own(rt_setting_source *f, rt_setting_entry *x)
{
    int rc = RT_OK;
    if (x->list && !rt_setting_repeats(rt_setting_table[x->id].kind))
        return rt_source_refuse(f, x->line, "'%s' takes one value, not a list", x->name);
    if (x->id == RT_SETTING_ID_optimizer && x->count == 1)
        return rt_alias_optimizer(f, x); /* axolotl's has this name */
    for (uint32_t i = 0; i < x->count; i++) RT_TRY(rt_source_set(f, x, x->id, x->value[i]));
out:
    return rc;
}

/* Maps that are one text, as JSON has them. */
static int open_maps(rt_setting_source *f)
{
    int rc = RT_OK;
    for (rt_setting_entry *x = f->first; x; x = x->next) {
        if (x->id != RT_SETTING_COUNT_ALL || rt_alias_shape_of(x->alias) != RT_SHAPE_INSIDE) continue;
        if (x->map || x->count != 1 || x->value[0][0] != '{') continue;
        rt_source_enter(f, x->where);
        RT_TRY(rt_source_keep(f, x->line, rt_source_inside(f, x->value[0], x->line)));
        x->map = true;
    }
out:
    return rc;
}

int rt_source_apply(rt_setting_source *f, rt_settings *s)
{
    int rc;
    RT_TRY(open_maps(f));
    for (rt_setting_entry *x = f->first; x; x = x->next) {
        rt_source_enter(f, x->where);
        if (x->id != RT_SETTING_COUNT_ALL && !x->null && !x->map) RT_TRY(rt_source_keep(f, x->line, set_own(f, x)));
    }
    RT_TRY(rt_alias_apply(f));
    if (f->strict) RT_TRY(rt_source_check_ranges(f));
    const rt_settings_notes *bad = f->wrong[0].count ? &f->wrong[0] : &f->wrong[1];
    int status = f->wrong[0].count ? RT_USAGE : RT_INVALID;
    if (bad->count > 1)
        rc = rt_fail(f->e, status, "%s (and %u more)", bad->items[0].text, bad->count - 1);
    else if (bad->count)
        rc = rt_fail(f->e, status, "%s", bad->items[0].text);
    else
        rt_settings_overlay(s, &f->settings);
out:
    return rc;
}

void rt_source_report(const rt_setting_source *f, rt_settings_notes *words, rt_settings_notes *file)
{
    const bool bad = f->wrong[0].count || f->wrong[1].count;
    if (words) *words = bad ? f->wrong[0] : f->told[0];
    if (file) *file = bad ? f->wrong[1] : f->told[1];
    if (file && f->wrong[0].count) file->count = 0;
}

/* ---- a command line, alone or over a file ---- */

static int add_words(rt_setting_source *f, const rt_setting_word *words, uint32_t count)
{
    int rc = RT_OK;
    rt_source_enter(f, NULL);
    for (uint32_t i = 0; i < count; i++) {
        const rt_setting_word *w = &words[i];
        rt_setting_entry *x;
        RT_TRY(rt_source_add(f, w->name, i + 1, &x));
        if (!x) continue;
        if (w->count > RT_SETTING_WORDS)
            RT_TRY(rt_fail(f->e, RT_USAGE, "%s has more than %d values", w->name, RT_SETTING_WORDS));
        x->bare = w->count == 0;
        x->list = w->count > 1;
        x->count = x->bare ? 1 : w->count;
        x->value[0] = "true";
        for (uint32_t k = 0; k < w->count; k++) x->value[k] = w->value[k];
    }
out:
    return rc;
}

int rt_settings_from_both(rt_settings *s, const rt_setting_word *words, uint32_t count, const char *path, rt_arena *a,
                          rt_settings_notes *of_words, rt_settings_notes *of_file, rt_err *e)
{
    int rc;
    rt_err own = { 0 };
    rt_str text = { 0 };
    rt_setting_source f = { .arena = a, .strict = true, .e = e ? e : &own };
    if (of_words) of_words->count = 0;
    if (of_file) of_file->count = 0;
    RT_TRY(add_words(&f, words, count));
    if (path) {
        RT_TRY(rt_file_read(path, RT_YAML_BYTES, &text, e));
        RT_TRY(rt_source_yaml(&f, text.data ? text.data : "", text.len, path));
    }
    rc = rt_source_apply(&f, s);
    rt_source_report(&f, of_words, of_file);
out:
    rt_str_free(&text);
    return rc;
}

int rt_settings_from_words(rt_settings *s, const rt_setting_word *words, uint32_t count, rt_arena *a,
                           rt_settings_notes *notes, rt_err *e)
{
    return rt_settings_from_both(s, words, count, NULL, a, notes, NULL, e);
}
