/* jinja_str_search.c - methods of strings that look for parts: find, count, startswith, split, partition.
 *
 * Owns: positions, which are counted in code points outside and in bytes inside. Parts share the memory of the whole.
 */
#include "base/utf8.h"
#include "text/jinja/jinja_call.h"
#include "text/jinja/jinja_unicode.h"

#include <string.h>

/* ---- ranges ---- */

/* The byte range that the parameters at i and i + 1 (start, end) give; *empty when start lies behind end. */
static int byte_range(rt_jrun *r, const rt_jcall *c, int i, size_t *from, size_t *to, bool *empty)
{
    rt_jslice s;
    rt_jval none = rt_jv(RT_J_NONE);
    rt_jval start = rt_jarg_given(c, i) ? c->a[i] : none, end = rt_jarg_given(c, i + 1) ? c->a[i + 1] : none;
    rt_jstr *whole = c->self.s;
    int64_t n = rt_jstr_chars(r, whole), first;
    int rc = rt_j_slice_of(r, start, end, none, n, &s);
    if (rc == RT_OK) rc = rt_j_tick(r, whole->chars == whole->len ? 0 : whole->len / 64);
    if (rc < 0) return rc;
    /* A start behind the end of the text finds nothing, not even the empty string. */
    *empty = s.stop < s.first || (rt_jv_index(start, &first) && first > n);
    *from = rt_jstr_offset(r, whole, (uint32_t)s.first);
    *to = *empty ? *from : rt_jstr_offset(r, whole, (uint32_t)s.stop);
    return RT_OK;
}

static int64_t char_index(rt_jrun *r, const rt_jstr *s, size_t at)
{
    rt_jstr head = { .data = s->data, .len = (uint32_t)at, .chars = RT_J_UNCOUNTED };
    return s->chars == s->len ? (int64_t)at : rt_jstr_chars(r, &head);
}

enum { LAST = 1, MUST = 2 };

static int m_find(rt_jrun *r, const rt_jcall *c, rt_jval *out)
{
    rt_jstr *needle;
    size_t from, to, at = SIZE_MAX;
    bool empty;
    int rc = rt_jarg_str(r, c, 0, &needle);
    if (rc == RT_OK && !needle) rc = rt_j_fail(r, "%s() argument must be str", c->fn->name);
    if (rc == RT_OK) rc = byte_range(r, c, 1, &from, &to, &empty);
    if (rc == RT_OK && !empty) rc = rt_jstr_find(r, c->self.s, needle, from, to, c->fn->how & LAST, &at);
    if (rc == RT_OK && c->fn->how & MUST && at == SIZE_MAX) rc = rt_j_fail(r, "substring not found");
    if (rc < 0) return rc;
    *out = rt_jv_int(at == SIZE_MAX ? -1 : char_index(r, c->self.s, at));
    return RT_OK;
}

static int m_count(rt_jrun *r, const rt_jcall *c, rt_jval *out)
{
    rt_jstr *needle;
    size_t from, to, at;
    bool empty;
    int64_t n = 0;
    int rc = rt_jarg_str(r, c, 0, &needle);
    if (rc == RT_OK && !needle) rc = rt_j_fail(r, "count() argument must be str");
    if (rc == RT_OK) rc = byte_range(r, c, 1, &from, &to, &empty);
    if (rc < 0) return rc;
    if (needle->len == 0) {
        *out = rt_jv_int(empty ? 0 : char_index(r, c->self.s, to) - char_index(r, c->self.s, from) + 1);
        return RT_OK;
    }
    while (!empty && (rc = rt_jstr_find(r, c->self.s, needle, from, to, false, &at)) == RT_OK && at != SIZE_MAX) {
        n++;
        from = at + needle->len;
        if ((rc = rt_j_tick(r, 1)) < 0) break;
    }
    *out = rt_jv_int(n);
    return rc;
}

/* ---- beginnings and ends ---- */

static bool has_at(rt_jrun *r, const rt_jstr *s, const rt_jstr *part, size_t from, size_t to, bool end)
{
    if (part->len > to - from) return false;
    r->seen += part->len;
    return memcmp(s->data + (end ? to - part->len : from), part->data, part->len) == 0;
}

static int m_affix(rt_jrun *r, const rt_jcall *c, rt_jval *out)
{
    size_t from, to;
    bool empty, found = false, end = c->fn->how == LAST;
    int rc = byte_range(r, c, 1, &from, &to, &empty);
    if (rc < 0) return rc;
    if (c->a[0].type == RT_J_STR) {
        found = !empty && has_at(r, c->self.s, c->a[0].s, from, to, end);
    } else if (c->a[0].type == RT_J_TUPLE) {
        for (uint32_t i = 0; i < c->a[0].l->n && !found; i++) {
            rt_jval part = c->a[0].l->items[i];
            if (part.type != RT_J_STR)
                return rt_j_fail(r, "tuple for %s must only contain str, not %s", c->fn->name,
                                 rt_jtype_name(part.type));
            found = !empty && has_at(r, c->self.s, part.s, from, to, end);
        }
        rc = rt_j_tick(r, c->a[0].l->n);
    } else {
        return rt_j_fail(r, "%s first arg must be str or a tuple of str, not %s", c->fn->name,
                         rt_jtype_name(c->a[0].type));
    }
    *out = rt_jv_bool(found);
    return rc;
}

/* ---- splitting ---- */

static int push_part(rt_jrun *r, rt_jlist *l, const rt_jstr *s, size_t from, size_t to)
{
    rt_jval part;
    int rc = rt_jstr_part(r, s, from, to, &part);
    if (rc == RT_OK) rc = rt_jlist_push(r, l, part);
    return rc == RT_OK ? rt_j_tick(r, 1) : rc;
}

static void reverse_list(rt_jlist *l)
{
    for (uint32_t i = 0; i < l->n / 2; i++) {
        rt_jval x = l->items[i];
        l->items[i] = l->items[l->n - 1 - i];
        l->items[l->n - 1 - i] = x;
    }
}

static int split_by(rt_jrun *r, const rt_jstr *s, const rt_jstr *sep, int64_t max, rt_jlist *l)
{
    size_t from = 0, at;
    int rc = RT_OK;
    for (; rc == RT_OK && max > 0; max--) {
        rc = rt_jstr_find(r, s, sep, from, s->len, false, &at);
        if (rc < 0 || at == SIZE_MAX) break;
        rc = push_part(r, l, s, from, at);
        from = at + sep->len;
    }
    return rc == RT_OK ? push_part(r, l, s, from, s->len) : rc;
}

static int rsplit_by(rt_jrun *r, const rt_jstr *s, const rt_jstr *sep, int64_t max, rt_jlist *l)
{
    size_t to = s->len, at;
    int rc = RT_OK;
    for (; rc == RT_OK && max > 0; max--) {
        rc = rt_jstr_find(r, s, sep, 0, to, true, &at);
        if (rc < 0 || at == SIZE_MAX) break;
        rc = push_part(r, l, s, at + sep->len, to);
        to = at;
    }
    if (rc == RT_OK) rc = push_part(r, l, s, 0, to);
    reverse_list(l);
    return rc;
}

/* The end of the run of white space (or of the rest) that begins at `at`. */
static size_t skip(const rt_jstr *s, size_t at, bool space)
{
    while (at < s->len) {
        size_t next = at;
        if (rt_ju_space(rt_j_decode(s->data, s->len, &next)) != space) break;
        at = next;
    }
    return at;
}

static size_t skip_back(const rt_jstr *s, size_t at, bool space)
{
    while (at > 0) {
        size_t p = (size_t)(rt_utf8_before(s->data, s->data + at) - s->data), next = p;
        if (rt_ju_space(rt_j_decode(s->data, s->len, &next)) != space) break;
        at = p;
    }
    return at;
}

static int split_words(rt_jrun *r, const rt_jstr *s, int64_t max, rt_jlist *l)
{
    int rc = rt_j_tick(r, s->len / 16);
    for (size_t at = skip(s, 0, true); at < s->len && rc == RT_OK; max--) {
        size_t end = max > 0 ? skip(s, at, false) : s->len;
        rc = push_part(r, l, s, at, end);
        at = skip(s, end, true);
    }
    return rc;
}

static int rsplit_words(rt_jrun *r, const rt_jstr *s, int64_t max, rt_jlist *l)
{
    int rc = rt_j_tick(r, s->len / 16);
    for (size_t at = skip_back(s, s->len, true); at > 0 && rc == RT_OK; max--) {
        size_t begin = max > 0 ? skip_back(s, at, false) : 0;
        rc = push_part(r, l, s, begin, at);
        at = skip_back(s, begin, true);
    }
    reverse_list(l);
    return rc;
}

static int m_split(rt_jrun *r, const rt_jcall *c, rt_jval *out)
{
    bool right = c->fn->how == LAST;
    rt_jstr *sep, *s = c->self.s;
    int64_t max;
    rt_jlist *l;
    int rc = rt_jarg_str(r, c, 0, &sep);
    if (rc == RT_OK && sep && sep->len == 0) rc = rt_j_fail(r, "empty separator");
    if (rc == RT_OK) rc = rt_jarg_index(r, c, 1, -1, &max);
    if (rc == RT_OK) rc = rt_jlist_new(r, 0, &l);
    if (rc < 0) return rc;
    if (max < 0) max = INT64_MAX;
    if (sep)
        rc = right ? rsplit_by(r, s, sep, max, l) : split_by(r, s, sep, max, l);
    else
        rc = right ? rsplit_words(r, s, max, l) : split_words(r, s, max, l);
    *out = rt_jv_list(RT_J_LIST, l);
    return rc;
}

static bool ends_line(uint32_t c)
{
    return (c >= 0xA && c <= 0xD) || (c >= 0x1C && c <= 0x1E) || c == 0x85 || c == 0x2028 || c == 0x2029;
}

int rt_jstr_splitlines(rt_jrun *r, const rt_jstr *s, bool keep, rt_jlist **out)
{
    int rc = rt_jlist_new(r, 0, out);
    for (size_t at = 0, from = 0; at < s->len && rc == RT_OK;) {
        size_t end = at;
        uint32_t c = rt_j_decode(s->data, s->len, &at);
        if (!ends_line(c) && at < s->len) continue;
        if (!ends_line(c))
            end = at;
        else if (c == '\r' && at < s->len && s->data[at] == '\n')
            at++;
        rc = push_part(r, *out, s, from, keep ? at : end);
        from = at;
    }
    return rc == RT_OK ? rt_j_tick(r, s->len / 16) : rc;
}

static int m_splitlines(rt_jrun *r, const rt_jcall *c, rt_jval *out)
{
    rt_jlist *l = NULL;
    int rc = rt_jstr_splitlines(r, c->self.s, rt_jarg_truth(c, 0, false), &l);
    *out = rt_jv_list(RT_J_LIST, l);
    return rc;
}

static int m_partition(rt_jrun *r, const rt_jcall *c, rt_jval *out)
{
    bool last = c->fn->how == LAST;
    rt_jstr *sep, *s = c->self.s;
    rt_jlist *l;
    size_t at;
    int rc = rt_jarg_str(r, c, 0, &sep);
    if (rc == RT_OK && (!sep || sep->len == 0)) rc = rt_j_fail(r, "%s() needs a separator", c->fn->name);
    if (rc == RT_OK) rc = rt_jstr_find(r, s, sep, 0, s->len, last, &at);
    if (rc == RT_OK) rc = rt_jlist_new(r, 3, &l);
    if (rc < 0) return rc;
    /* Not found: the whole string in front, or for rpartition at the end. */
    size_t cut = at != SIZE_MAX ? at : last ? 0 : s->len, rest = at != SIZE_MAX ? at + sep->len : cut;
    rc = push_part(r, l, s, 0, cut);
    if (rc == RT_OK) rc = push_part(r, l, s, cut, rest);
    if (rc == RT_OK) rc = push_part(r, l, s, rest, s->len);
    *out = rt_jv_list(RT_J_TUPLE, l);
    return rc;
}

const rt_jbuiltin rt_j_str_search_methods[] = {
    { "find", "sub start= end= /", m_find, 0 },
    { "rfind", "sub start= end= /", m_find, LAST },
    { "index", "sub start= end= /", m_find, MUST },
    { "rindex", "sub start= end= /", m_find, LAST | MUST },
    { "count", "sub start= end= /", m_count, 0 },
    { "startswith", "prefix start= end= /", m_affix, 0 },
    { "endswith", "suffix start= end= /", m_affix, LAST },
    { "split", "sep= maxsplit=", m_split, 0 },
    { "rsplit", "sep= maxsplit=", m_split, LAST },
    { "splitlines", "keepends=", m_splitlines, 0 },
    { "partition", "sep /", m_partition, 0 },
    { "rpartition", "sep /", m_partition, LAST },
    { 0 },
};
