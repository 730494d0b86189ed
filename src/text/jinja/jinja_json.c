/* jinja_json.c - values from JSON, and tojson as Python's json.dumps writes it.
 *
 * Owns: the order of keys (that of the document), quoting, separators and indentation. */
#include "text/jinja/jinja_call.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* ---- from JSON ---- */

int rt_j_from_json_head(rt_jrun *r, const json_t *j, size_t head, rt_jval *out)
{
    rt_jlist *l;
    size_t n = json_array_size(j) < head ? json_array_size(j) : head;
    if (n > INT32_MAX) return rt_j_fail(r, "a JSON array is too long");
    int rc = rt_jlist_new(r, (uint32_t)n, &l);
    for (size_t i = 0; i < n && rc == RT_OK; i++) rc = rt_j_from_json(r, json_array_get(j, i), &l->items[l->n++]);
    if (rc == RT_OK) *out = rt_jv_list(RT_J_LIST, l);
    return rc;
}

static int from_object(rt_jrun *r, const json_t *j, rt_jval *out)
{
    rt_jdict *d;
    if (json_object_size(j) > INT32_MAX) return rt_j_fail(r, "a JSON object is too large");
    int rc = rt_jdict_new(r, (uint32_t)json_object_size(j), &d);
    json_t *object = (json_t *)(uintptr_t)j; /* jansson's iterators take no const, and change nothing */
    for (void *it = json_object_iter(object); it && rc == RT_OK; it = json_object_iter_next(object, it)) {
        rt_jpair *pair = &d->items[d->n++];
        rc = rt_jstr_view(r, json_object_iter_key(it), json_object_iter_key_len(it), &pair->key);
        if (rc == RT_OK) rc = rt_j_from_json(r, json_object_iter_value(it), &pair->value);
    }
    if (rc == RT_OK) *out = (rt_jval){ .type = RT_J_DICT, .d = d };
    return rc;
}

int rt_j_from_json(rt_jrun *r, const json_t *j, rt_jval *out)
{
    switch (json_typeof(j)) {
    case JSON_NULL: *out = rt_jv(RT_J_NONE); return RT_OK;
    case JSON_TRUE: *out = rt_jv_bool(true); return RT_OK;
    case JSON_FALSE: *out = rt_jv_bool(false); return RT_OK;
    case JSON_INTEGER: *out = rt_jv_int(json_integer_value(j)); return RT_OK;
    case JSON_REAL: *out = rt_jv_float(json_real_value(j)); return RT_OK;
    case JSON_STRING: return rt_jstr_view(r, json_string_value(j), json_string_length(j), out);
    default: break;
    }
    int rc = rt_j_enter(r);
    if (rc < 0) return rc;
    rc = json_is_array(j) ? rt_j_from_json_head(r, j, SIZE_MAX, out) : from_object(r, j, out);
    rt_j_leave(r);
    return rc;
}

/* ---- to JSON ---- */

typedef struct writer {
    rt_jrun *r;
    bool ascii, sort, pretty;
    const rt_jstr *indent, *item, *key; /* one level of indentation; between items; between key and value */
    uint32_t depth;
} writer;

static int put_value(writer *w, rt_jval v);

static int put_char(writer *w, uint32_t c)
{
    char buf[16];
    switch (c) {
    case '"': return rt_j_puts(w->r, "\\\"");
    case '\\': return rt_j_puts(w->r, "\\\\");
    case '\n': return rt_j_puts(w->r, "\\n");
    case '\r': return rt_j_puts(w->r, "\\r");
    case '\t': return rt_j_puts(w->r, "\\t");
    case '\f': return rt_j_puts(w->r, "\\f");
    case '\b': return rt_j_puts(w->r, "\\b");
    default: break;
    }
    if (c >= ' ' && (c < 0x7F || !w->ascii)) return rt_j_put_char(w->r, c);
    if (c < 0x10000)
        snprintf(buf, sizeof buf, "\\u%04x", (unsigned)c);
    else
        snprintf(buf, sizeof buf, "\\u%04x\\u%04x", (unsigned)(0xD800 + ((c - 0x10000) >> 10)),
                 (unsigned)(0xDC00 + ((c - 0x10000) & 0x3FF)));
    return rt_j_puts(w->r, buf);
}

static int put_string(writer *w, const rt_jstr *s)
{
    int rc = rt_j_tick(w->r, s->len / 64);
    if (rc == RT_OK) rc = rt_j_put(w->r, "\"", 1);
    for (size_t at = 0, from = 0; rc == RT_OK && at < s->len;) {
        size_t before = at;
        uint32_t c = rt_j_decode(s->data, s->len, &at);
        bool plain = c >= ' ' && c != '"' && c != '\\' && (c < 0x7F || !w->ascii);
        if (plain && at < s->len) continue;
        rc = rt_j_put(w->r, s->data + from, (plain ? at : before) - from);
        if (rc == RT_OK && !plain) rc = put_char(w, c);
        from = at;
    }
    return rc == RT_OK ? rt_j_put(w->r, "\"", 1) : rc;
}

static int put_number(writer *w, rt_jval v)
{
    if (v.type == RT_J_FLOAT && isnan(v.f)) return rt_j_puts(w->r, "NaN");
    if (v.type == RT_J_FLOAT && isinf(v.f)) return rt_j_puts(w->r, v.f < 0 ? "-Infinity" : "Infinity");
    return rt_j_put_repr(w->r, v);
}

static int new_line(writer *w)
{
    if (!w->pretty) return RT_OK;
    int rc = rt_j_put(w->r, "\n", 1);
    for (uint32_t i = 0; i < w->depth && rc == RT_OK; i++) rc = rt_j_put(w->r, w->indent->data, w->indent->len);
    return rc;
}

static int put_list(writer *w, const rt_jlist *l)
{
    if (l->n == 0) return rt_j_puts(w->r, "[]");
    int rc = rt_j_puts(w->r, "[");
    w->depth++;
    for (uint32_t i = 0; i < l->n && rc == RT_OK; i++) {
        if (i > 0) rc = rt_j_put(w->r, w->item->data, w->item->len);
        if (rc == RT_OK) rc = new_line(w);
        if (rc == RT_OK) rc = put_value(w, l->items[i]);
    }
    w->depth--;
    if (rc == RT_OK) rc = new_line(w);
    return rc == RT_OK ? rt_j_puts(w->r, "]") : rc;
}

/* A key that is no string is written as one; what has no JSON form is refused. */
static int put_key(writer *w, rt_jval key)
{
    if (key.type == RT_J_STR) return put_string(w, key.s);
    if (key.type != RT_J_NONE && !rt_jv_is_number(key))
        return rt_j_fail(w->r, "tojson: keys must be str, int, float, bool or None, not %s", rt_jtype_name(key.type));
    int rc = rt_j_put(w->r, "\"", 1);
    if (rc == RT_OK) rc = put_value(w, key);
    return rc == RT_OK ? rt_j_put(w->r, "\"", 1) : rc;
}

static int sorted_pairs(rt_jrun *r, const rt_jdict *d, const rt_jpair **out)
{
    rt_jval *keys = rt_j_alloc(r, d->n * sizeof *keys), *places = rt_j_alloc(r, d->n * sizeof *places);
    rt_jpair *pairs = rt_j_alloc(r, d->n * sizeof *pairs);
    if (!keys || !places || !pairs) return rt_j_status(r);
    for (uint32_t i = 0; i < d->n; i++) {
        keys[i] = d->items[i].key;
        places[i] = rt_jv_int(i);
    }
    int rc = rt_j_sort(r, places, keys, d->n, false);
    for (uint32_t i = 0; i < d->n && rc == RT_OK; i++) pairs[i] = d->items[places[i].i];
    *out = pairs;
    return rc;
}

static int put_dict(writer *w, const rt_jdict *d)
{
    const rt_jpair *pairs = d->items;
    if (d->n == 0) return rt_j_puts(w->r, "{}");
    int rc = w->sort ? sorted_pairs(w->r, d, &pairs) : RT_OK;
    if (rc == RT_OK) rc = rt_j_puts(w->r, "{");
    w->depth++;
    for (uint32_t i = 0; i < d->n && rc == RT_OK; i++) {
        if (i > 0) rc = rt_j_put(w->r, w->item->data, w->item->len);
        if (rc == RT_OK) rc = new_line(w);
        if (rc == RT_OK) rc = put_key(w, pairs[i].key);
        if (rc == RT_OK) rc = rt_j_put(w->r, w->key->data, w->key->len);
        if (rc == RT_OK) rc = put_value(w, pairs[i].value);
    }
    w->depth--;
    if (rc == RT_OK) rc = new_line(w);
    return rc == RT_OK ? rt_j_puts(w->r, "}") : rc;
}

static int put_value(writer *w, rt_jval v)
{
    int rc = rt_j_enter(w->r);
    if (rc < 0) return rc;
    switch (v.type) {
    case RT_J_NONE: rc = rt_j_puts(w->r, "null"); break;
    case RT_J_BOOL: rc = rt_j_puts(w->r, v.b ? "true" : "false"); break;
    case RT_J_INT:
    case RT_J_FLOAT: rc = put_number(w, v); break;
    case RT_J_STR: rc = put_string(w, v.s); break;
    case RT_J_LIST:
    case RT_J_TUPLE: rc = put_list(w, v.l); break;
    case RT_J_DICT: rc = put_dict(w, v.d); break;
    default: rc = rt_j_fail(w->r, "tojson: object of type %s is not JSON serializable", rt_jtype_name(v.type)); break;
    }
    rt_j_leave(w->r);
    return rc;
}

/* separators=(item, key) */
static int read_separators(rt_jrun *r, rt_jval v, writer *w)
{
    rt_jlist *l;
    int rc = rt_j_to_list(r, v, &l);
    if (rc < 0) return rc;
    if (l->n != 2 || l->items[0].type != RT_J_STR || l->items[1].type != RT_J_STR)
        return rt_j_fail(r, "tojson: separators must be two strings");
    w->item = l->items[0].s;
    w->key = l->items[1].s;
    return RT_OK;
}

int rt_j_tojson(rt_jrun *r, const rt_jcall *c, rt_jval *out)
{
    enum { ASCII, INDENT, SEPARATORS, SORT };
    static const rt_jstr comma = { .data = ",", .len = 1, .chars = 1 }, wide = { .data = ", ", .len = 2, .chars = 2 },
                         colon = { .data = ": ", .len = 2, .chars = 2 };
    rt_jstr blank = { .data = " ", .len = 1, .chars = 1 };
    rt_jval indent = rt_jarg_given(c, INDENT) ? c->a[INDENT] : rt_jv(RT_J_NONE);
    writer w = { .r = r, .ascii = rt_jarg_truth(c, ASCII, false), .sort = rt_jarg_truth(c, SORT, false) };
    int64_t width;
    int rc = RT_OK;
    w.pretty = indent.type != RT_J_NONE;
    w.item = w.pretty ? &comma : &wide;
    w.key = &colon;
    if (w.pretty && indent.type != RT_J_STR) {
        rc = rt_jv_index(indent, &width) ? rt_jstr_repeat(r, &blank, width, &indent)
                                         : rt_j_fail(r, "tojson: indent must be an integer or str");
    }
    if (rc == RT_OK && w.pretty) w.indent = indent.s;
    if (rc == RT_OK && rt_jarg_given(c, SEPARATORS) && c->a[SEPARATORS].type != RT_J_NONE)
        rc = read_separators(r, c->a[SEPARATORS], &w);
    size_t mark = rt_j_mark(r);
    if (rc == RT_OK) rc = put_value(&w, c->self);
    return rc == RT_OK ? rt_j_cut(r, mark, out) : rc;
}
