/* settings_datasets.c - an entry of another tool's list of data: a path, and what is said beside it
 * (aliases_datasets.h has the names).
 *
 * Owns: the rules of those names. Each becomes part of --data or --columns, is told to have no effect, or is refused
 * with the reason; none is passed over. Columns hold for all data, so that all entries must say the same ones. */
#include "settings/aliases_datasets.h"
#include "settings/settings_internal.h"

#include "base/file.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct name name;
typedef int (*name_fn)(rt_dataset *d, const rt_dataset_value *v, const name *n);
struct name {
    const char *key;
    name_fn fn;
    const char *yes, *no; /* see RT_DATASET_TABLE */
};

static bool is_word(const char *text, const char *words)
{
    size_t n = strlen(text);
    for (const char *p = words; *p; p += strcspn(p, " "), p += *p == ' ')
        if (n == strcspn(p, " ") && strncmp(p, text, n) == 0) return true;
    return false;
}

static int refuse(const rt_dataset *d, const rt_dataset_value *v, const char *why)
{
    return rt_source_refuse(d->f, v->line, "'%s' has %s%s%.60s, which %s", d->x->name, v->key, v->map ? "" : " ",
                            v->map     ? ""
                            : v->count ? v->text[0]
                                       : "[]",
                            why);
}

/* ---- rules ---- */

/* Names without effect are told together, by reason, at the end of the entry. */
static int idle(rt_dataset *d, const rt_dataset_value *v, const name *n)
{
    if (strcmp(v->key, "type") == 0 && v->map)
        return rt_source_refuse(d->f, v->line,
                                "'%s' has a type that is a map, and prompts of one's own are not built; columns: "
                                "prompt=NAME,completion=NAME says which fields are what",
                                d->x->name);
    if (d->idle_count < RT_DATASET_IDLE) d->idle[d->idle_count++] = (rt_dataset_idle){ v->key, n->yes };
    return RT_OK;
}

static int off(rt_dataset *d, const rt_dataset_value *v, const name *n)
{
    const char *text = v->count == 1 && !v->map ? v->text[0] : "?";
    char *end;
    double number = strtod(text, &end);
    static const name nothing = { .yes = "it asks for nothing" };
    if (rt_setting_switch(text) == 0 || (end != text && !*end && number == 0)) return idle(d, v, &nothing);
    return refuse(d, v, n->yes);
}

static int words(rt_dataset *d, const rt_dataset_value *v, const name *n)
{
    static const name same = { .yes = "it is so here" };
    bool all = v->count > 0 && !v->map;
    for (uint32_t i = 0; all && i < v->count; i++)
        if (!is_word(v->text[i], n->yes)) {
            const rt_dataset_value one = { v->key, v->line, false, { v->text[i] }, { NULL }, 1 };
            return refuse(d, &one, n->no);
        }
    return all ? idle(d, v, &same) : refuse(d, v, n->no);
}

static int path(rt_dataset *d, const rt_dataset_value *v, const name *n)
{
    (void)n;
    if (v->map || v->count != 1) return refuse(d, v, "is no path");
    d->path = v->text[0];
    d->path_line = v->line;
    return RT_OK;
}

static int split(rt_dataset *d, const rt_dataset_value *v, const name *n)
{
    (void)n;
    if (v->map || v->count != 1) return refuse(d, v, "is no name of a split");
    if (strpbrk(v->text[0], "[]+")) return refuse(d, v, RT_PART_OF_DATA);
    d->split = v->text[0];
    d->split_line = v->line;
    return RT_OK;
}

static int files(rt_dataset *d, const rt_dataset_value *v, const name *n)
{
    (void)n;
    if (v->map) return refuse(d, v, "are of splits; give the files of one split as path");
    d->files = *v;
    return RT_OK;
}

static int put_column(rt_dataset *d, const rt_dataset_value *v, const char *key, const char *column)
{
    for (uint32_t i = 0; i < d->column_count; i++)
        if (strcmp(d->column[i].key, key) == 0) return refuse(d, v, "is said twice");
    if (d->column_count < RT_DATASET_COLUMNS) d->column[d->column_count++] = (rt_dataset_idle){ key, column };
    return RT_OK;
}

static int column(rt_dataset *d, const rt_dataset_value *v, const name *n)
{
    static const name same = { .yes = "it is so here" };
    if (v->map || v->count != 1) return refuse(d, v, "is no name of a column");
    if (is_word(v->text[0], n->no)) {
        if (strcmp(n->yes, "messages") == 0) d->messages = v->text[0];
        return idle(d, v, &same);
    }
    return put_column(d, v, n->yes, v->text[0]);
}

/* {role: from, content: value}: what templates know, and what the data have. */
static int mappings(rt_dataset *d, const rt_dataset_value *v, const name *n)
{
    static const name same = { .yes = "it is so here" };
    static const char *const known[][2] = { { "role", "role from" }, { "content", "content value" } };
    int rc = RT_OK;
    uint32_t put = d->column_count;
    (void)n;
    if (!v->map) return refuse(d, v, "is a map: role and content, and what the data call them");
    for (uint32_t i = 0; i < v->count; i++) {
        int k = strcmp(v->name[i], known[0][0]) == 0 ? 0 : strcmp(v->name[i], known[1][0]) == 0 ? 1 : 2;
        if (k == 2 && strcmp(v->name[i], v->text[i]) == 0) continue;
        if (k == 2)
            return rt_source_refuse(d->f, v->line,
                                    "'%s' maps %.40s to %.40s, and only role and content can have other names; rename "
                                    "it in the data",
                                    d->x->name, v->name[i], v->text[i]);
        if (!is_word(v->text[i], known[k][1])) RT_TRY(put_column(d, v, known[k][0], v->text[i]));
    }
    if (d->column_count == put) RT_TRY(idle(d, v, &same));
out:
    return rc;
}

static const name table[] = {
#define X(key, rule, yes, no) { #key, rule, yes, no },
    RT_DATASET_TABLE(X)
#undef X
};

_Static_assert(sizeof table / sizeof *table <= 64, "a bit for each");

int rt_dataset_take(rt_dataset *d, const rt_dataset_value *v)
{
    for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
        if (strcmp(table[i].key, v->key) != 0) continue;
        if (d->seen >> i & 1) return refuse(d, v, "is said twice");
        d->seen |= 1ull << i;
        return table[i].fn(d, v, &table[i]);
    }
    return rt_source_refuse(d->f, v->line,
                            "'%s' has '%.40s', which is not read; an entry is a path and the word of a type, and "
                            "columns: prompt=NAME,completion=NAME says which fields are what",
                            d->x->name, v->key);
}

/* ---- the end of an entry ---- */

/* Notes by reason; one that stands there already, of another entry, is not said again. */
static int tell_idle(rt_dataset *d)
{
    int rc = RT_OK;
    rt_str text = { 0 };
    for (uint32_t i = 0; i < d->idle_count; i++) {
        uint32_t count = 0;
        bool first = true;
        for (uint32_t k = 0; k < i; k++) first = first && strcmp(d->idle[k].text, d->idle[i].text) != 0;
        if (!first) continue;
        rt_str_free(&text);
        rt_str_printf(&text, "%s: ", d->x->name);
        for (uint32_t k = i; k < d->idle_count; k++)
            if (strcmp(d->idle[k].text, d->idle[i].text) == 0)
                rt_str_printf(&text, "%s%s", count++ ? ", " : "", d->idle[k].key);
        rt_str_printf(&text, " %s no effect: %s", count > 1 ? "have" : "has", d->idle[i].text);
        if (text.failed) RT_TRY(rt_no_memory(d->f->e, "settings"));
        bool told = false;
        for (uint32_t k = 0; k < d->f->notes->count; k++)
            told = told || strcmp(d->f->notes->items[k].text, text.data) == 0;
        if (!told) RT_TRY(rt_source_note(d->f, d->f->notes, d->x->line, text.data));
    }
out:
    rt_str_free(&text);
    return rc;
}

/* --columns, where an entry has other names than those that are known. */
static int put_columns(rt_dataset *d)
{
    int rc = RT_OK;
    rt_str text = { 0 };
    bool turns = false, messages = false;
    for (uint32_t i = 0; i < d->column_count; i++) {
        const char *key = d->column[i].key;
        turns = turns || strcmp(key, "text") != 0;
        messages = messages || strcmp(key, "messages") == 0;
    }
    if (turns && !messages) rt_str_printf(&text, "messages=%s", d->messages ? d->messages : "messages");
    for (uint32_t i = 0; i < d->column_count; i++)
        rt_str_printf(&text, "%s%s=%s", text.len ? "," : "", d->column[i].key, d->column[i].text);
    const char *now = text.failed ? NULL : rt_arena_strdup(d->f->arena, text.data ? text.data : "");
    if (!now) RT_TRY(rt_no_memory(d->f->e, "settings"));
    if (d->f->columns && strcmp(d->f->columns, now) != 0)
        RT_TRY(rt_source_refuse(d->f, d->path_line,
                                "'%s' has data with the columns %.80s beside data with %.80s, and --columns holds for "
                                "all data; rename them in one file",
                                d->x->name, *now ? now : "that are known", *d->f->columns ? d->f->columns : "those"));
    if (*now && !d->f->columns) {
        RT_TRY(rt_source_set(d->f, d->x, RT_SETTING_ID_columns, now));
        rt_str_free(&text);
        rt_str_printf(&text, "%s -> --columns %s", d->x->name, now);
        RT_TRY(text.failed ? rt_no_memory(d->f->e, "settings")
                           : rt_source_note(d->f, d->f->notes, d->x->line, text.data));
    }
    d->f->columns = now;
out:
    rt_str_free(&text);
    return rc;
}

static int add_path(rt_dataset *d, const char *text)
{
    if (d->x->count == RT_SETTING_WORDS)
        return rt_source_refuse(d->f, d->path_line, "'%s' has more than %d values", d->x->name, RT_SETTING_WORDS);
    d->x->value[d->x->count++] = text;
    return RT_OK;
}

/* The path with its split, or the files of `path: json`. */
static int put_path(rt_dataset *d)
{
    int rc = RT_OK;
    const char *text = d->path;
    if (d->files.count && (!text || !is_word(text, "json csv parquet text arrow")))
        return rt_source_refuse(d->f, d->files.line, "'%s' has data_files beside a path; give the files as path",
                                d->x->name);
    for (uint32_t i = 0; i < d->files.count; i++) RT_TRY(add_path(d, d->files.text[i]));
    if (d->files.count || !text) return RT_OK;
    if (d->split && strcmp(d->split, "train") != 0) {
        if (rt_setting_names_file(text))
            return rt_source_refuse(d->f, d->split_line, "'%s' has split %.40s of a file, and a file has no splits",
                                    d->x->name, d->split);
        text = rt_arena_printf(d->f->arena, "%s:%s", text, d->split);
        if (!text) return rt_no_memory(d->f->e, "settings");
    }
    return add_path(d, text);
out:
    return rc;
}

int rt_dataset_end(rt_dataset *d)
{
    int rc;
    if (d->split && strcmp(d->split, "train") == 0 && d->idle_count < RT_DATASET_IDLE)
        d->idle[d->idle_count++] = (rt_dataset_idle){ "split", "it is so here" };
    uint32_t before = d->x->count;
    RT_TRY(rt_source_keep(d->f, d->path_line, put_path(d)));
    if (d->path && d->x->count == before && before < RT_SETTING_WORDS) RT_TRY(add_path(d, d->path)); /* one fault */
    RT_TRY(rt_source_keep(d->f, d->path_line, put_columns(d)));
    RT_TRY(tell_idle(d));
out:
    return rc;
}
