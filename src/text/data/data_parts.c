/* data_parts.c - what of the data can be measured by itself: each source, or each file of a source that has a few. See
 * data_rows.h.
 *
 * A shard's text names what its records come from ("sources"), and each record has the number of one of them. */
#include "text/data/data_rows_internal.h"

#include "base/json.h"
#include "base/str.h"

#include <string.h>

/* "source", "file", or of several sources "source: file"; the end of what is too long, which is where paths differ. */
static bool add(rt_row_parts *p, const char *source, const char *file)
{
    rt_str name = { 0 };
    rt_str_printf(&name, "%s%s%s", source, *source && *file ? ": " : "", file);
    size_t cut = name.len < RT_PART_NAME ? 0 : name.len - RT_PART_NAME + 1;
    while (!name.failed && ((unsigned char)name.data[cut] & 0xC0) == 0x80) cut++; /* not inside a character */
    if (!name.failed) memcpy(p->name[p->count++], name.data + cut, name.len - cut + 1);
    bool ok = !name.failed;
    rt_str_free(&name);
    return ok;
}

/* The names that a source's only shard has, or null where there are not several. */
static json_t *names_of(const rt_rows_source *s)
{
    rt_span text = s->count == 1 ? rt_shard_about(s->shards[0])->text : (rt_span){ 0 };
    json_t *j = text.len ? rt_json_load(text.data, text.len, 0, NULL) : NULL;
    json_t *names = json_incref(json_object_get(j, "sources"));
    bool several = json_array_size(names) > 1;
    for (size_t i = 0; i < json_array_size(names); i++) several = several && json_is_string(json_array_get(names, i));
    json_decref(j);
    if (several) return names;
    json_decref(names);
    return NULL;
}

/* Whether all found room. */
static bool fill(rt_row_parts *p, const rt_units *sources, uint32_t count, bool files)
{
    bool fits = count <= RT_PARTS_MOST;
    *p = (rt_row_parts){ 0 };
    for (uint32_t i = 0; i < count && fits; i++) {
        const rt_rows_source *s = &sources[i].source;
        json_t *names = files ? names_of(s) : NULL;
        size_t n = names ? json_array_size(names) : 1;
        fits = n <= RT_PARTS_MOST - p->count;
        p->first[i] = p->count;
        p->files[i] = names ? (uint32_t)n : 0;
        for (size_t k = 0; k < n && fits; k++)
            fits = add(p, names && count == 1 ? "" : s->name, names ? json_string_value(json_array_get(names, k)) : "");
        json_decref(names);
    }
    return fits;
}

void rt_units_parts(const rt_units *sources, uint32_t count, rt_row_parts *p)
{
    bool all = fill(p, sources, count, true) || fill(p, sources, count, false);
    if (!all || p->count < 2) *p = (rt_row_parts){ 0 };
}

uint32_t rt_row_part(const rt_row_parts *p, const rt_row_doc *d)
{
    if (!p->count) return 0;
    return p->first[d->source] + (d->number < p->files[d->source] ? d->number : 0);
}
