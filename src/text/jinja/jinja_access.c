/* jinja_access.c - attributes, items and slices of values, with the sandbox's rules.
 *
 * Owns: v.name (attribute first, then item), v[key] (item first, then attribute), v[a:b:c], and paths such as "a.b.0".
 * What would change a list or a dict is undefined here, so that calling it is an error, as in the sandbox. A name that
 * Python has and we do not is refused by name, never taken for undefined. */
#include "text/jinja/jinja_eval.h"

#include <string.h>

/* ---- attributes ---- */

static bool listed(const char *names, const rt_jstr *name)
{
    for (size_t len; *names; names += len + (names[len] == ' ')) {
        len = strcspn(names, " ");
        if (len == name->len && memcmp(names, name->data, len) == 0) return true;
    }
    return false;
}

/* What each type has in Python besides its table: names that change it, and names that are not supported. */
static const char *const changing[] = {
    [RT_J_LIST] = "append clear pop reverse insert sort extend remove",
    [RT_J_DICT] = "clear pop popitem setdefault update",
    [RT_J_MISSING] = NULL,
};
static const char *const unsupported[] = {
    [RT_J_STR] = "encode format_map isnumeric maketrans translate",
    [RT_J_DICT] = "fromkeys",
    [RT_J_BOOL] = "real imag numerator denominator conjugate bit_length bit_count to_bytes from_bytes as_integer_ratio",
    [RT_J_INT] = "real imag numerator denominator conjugate bit_length bit_count to_bytes from_bytes as_integer_ratio "
                 "is_integer",
    [RT_J_FLOAT] = "real imag conjugate hex fromhex as_integer_ratio",
    [RT_J_VIEW] = "isdisjoint mapping",
    [RT_J_ITER] = "send throw close gi_frame gi_code gi_running gi_yieldfrom gi_suspended",
    [RT_J_MACRO] = "arguments",
    [RT_J_MISSING] = NULL,
};

static const rt_jbuiltin *find_method(rt_jval v, const rt_jstr *name)
{
    const rt_jbuiltin *tables[2] = { NULL, NULL };
    switch (v.type) {
    case RT_J_STR:
        tables[0] = rt_j_str_methods;
        tables[1] = rt_j_str_search_methods;
        break;
    case RT_J_LIST:
    case RT_J_TUPLE: tables[0] = rt_j_list_methods; break;
    case RT_J_DICT: tables[0] = rt_j_dict_methods; break;
    case RT_J_RANGE: tables[0] = rt_j_range_methods; break;
    case RT_J_FLOAT: tables[0] = rt_j_float_methods; break;
    case RT_J_LOOP: tables[0] = rt_j_loop_methods; break;
    case RT_J_CYCLER: tables[0] = rt_j_cycler_methods; break;
    case RT_J_FUNCTION:
        if (strcmp(v.fn->name, "dict") == 0) tables[0] = rt_j_dict_type_methods;
        break;
    default: break;
    }
    for (int i = 0; i < 2 && tables[i]; i++) {
        const rt_jbuiltin *fn = rt_j_table_find(tables[i], name->data, name->len);
        /* A tuple has no copy(). */
        if (fn && !(v.type == RT_J_TUPLE && rt_jstr_is(name, "copy"))) return fn;
    }
    return NULL;
}

typedef struct field {
    const char *name; /* null: the end */
    rt_jval value;
} field;

static int field_of(const field *f, const rt_jstr *name, rt_jval *out, bool *found)
{
    while (f->name && !rt_jstr_is(name, f->name)) f++;
    *found = f->name != NULL;
    if (*found) *out = f->value;
    return RT_OK;
}

static int macro_field(rt_jrun *r, const rt_jmacro *macro, const rt_jstr *name, rt_jval *out, bool *found)
{
    const rt_jparams *p = macro->node->params;
    const field fields[] = { { "name", rt_jv(RT_J_NONE) },
                             { "caller", rt_jv_bool(p->uses_caller) },
                             { "catch_kwargs", rt_jv_bool(p->uses_kwargs) },
                             { "catch_varargs", rt_jv_bool(p->uses_varargs) },
                             { 0 } };
    if (rt_jstr_is(name, "name") && macro->name) return rt_jstr_part(r, macro->name, 0, macro->name->len, out);
    return field_of(fields, name, out, found);
}

/* Attributes that are values. */
static int find_field(rt_jrun *r, rt_jval v, const rt_jstr *name, rt_jval *out, bool *found)
{
    const rt_jval *held;
    *found = true;
    switch (v.type) {
    case RT_J_NAMESPACE:
        held = rt_jdict_get_str(r, v.d, name);
        if ((*found = held != NULL)) *out = *held;
        return RT_OK;
    case RT_J_LOOP: return rt_jloop_attr(r, v.loop, name, out, found);
    case RT_J_TUPLE:
        *found = v.l->group && (rt_jstr_is(name, "grouper") || rt_jstr_is(name, "list"));
        if (*found) *out = v.l->items[name->data[0] == 'l'];
        return RT_OK;
    case RT_J_RANGE:
        return field_of((const field[]){ { "start", rt_jv_int(v.range->start) },
                                         { "stop", rt_jv_int(v.range->stop) },
                                         { "step", rt_jv_int(v.range->step) },
                                         { 0 } },
                        name, out, found);
    case RT_J_MACRO: return macro_field(r, v.macro, name, out, found);
    case RT_J_CYCLER:
        return field_of((const field[]){ { "current", v.cycler->items->items[v.cycler->pos] },
                                         { "items", rt_jv_list(RT_J_TUPLE, v.cycler->items) },
                                         { "pos", rt_jv_int(v.cycler->pos) },
                                         { 0 } },
                        name, out, found);
    case RT_J_JOINER:
        return field_of((const field[]){ { "sep", v.joiner->sep }, { "used", rt_jv_bool(v.joiner->used) }, { 0 } },
                        name, out, found);
    default: *found = false; return RT_OK;
    }
}

/* What Python's getattr finds. */
static int find_attr(rt_jrun *r, rt_jval v, const rt_jstr *name, rt_jval *out, bool *found)
{
    int rc = find_field(r, v, name, out, found);
    if (rc < 0 || *found) return rc;
    const rt_jbuiltin *fn = find_method(v, name);
    if (fn) {
        rt_jmethod *m = rt_j_alloc(r, sizeof *m);
        if (!m) return rt_j_status(r);
        *m = (rt_jmethod){ fn, v };
        *out = (rt_jval){ .type = RT_J_METHOD, .method = m };
        *found = true;
        return RT_OK;
    }
    if (changing[v.type] && listed(changing[v.type], name)) {
        *found = true;
        return rt_jundef_hint(r, "a template cannot change a list or a dict: access to that method is unsafe", out);
    }
    if (unsupported[v.type] && listed(unsupported[v.type], name))
        return rt_j_unsupported(r, "'%.*s' of a %s is not supported", (int)name->len, name->data,
                                rt_jtype_name(v.type));
    return RT_OK;
}

int rt_j_getattr(rt_jrun *r, rt_jval v, const rt_jstr *name, rt_jval *out)
{
    bool found;
    if (v.type == RT_J_UNDEFINED) return rt_jundef_fail(r, v);
    int rc = find_attr(r, v, name, out, &found);
    if (rc < 0 || found) return rc;
    const rt_jval *item = v.type == RT_J_DICT ? rt_jdict_get_str(r, v.d, name) : NULL;
    if (!item) return rt_jundef_attr(r, v, name, out);
    *out = *item;
    return rt_j_tick(r, v.d->n / 16);
}

/* ---- items ---- */

static int char_at(rt_jrun *r, rt_jstr *s, int64_t index, rt_jval *out)
{
    int rc = rt_j_tick(r, s->chars == s->len ? 0 : s->len / 64);
    if (rc < 0) return rc;
    size_t from = rt_jstr_offset(r, s, (uint32_t)index), to = from;
    rt_j_decode(s->data, s->len, &to);
    return rt_jstr_part(r, s, from, to, out);
}

/* v[key] as Python has it; *found is false for what raises there. */
static int find_item(rt_jrun *r, rt_jval v, rt_jval key, rt_jval *out, bool *found)
{
    int64_t index, n;
    *found = false;
    if (v.type == RT_J_DICT) {
        rt_jpair *pair = NULL;
        int rc = rt_jv_hashable(r, key) ? rt_jdict_find(r, v.d, key, &pair) : RT_OK;
        *found = pair != NULL;
        if (pair) *out = pair->value;
        return rc;
    }
    if (v.type != RT_J_STR && !rt_jv_is_list(v) && v.type != RT_J_RANGE) return RT_OK;
    if (!rt_jv_index(key, &index) || !rt_j_length(r, v, &n)) return RT_OK;
    if (index < 0) index += n;
    if (index < 0 || index >= n) return RT_OK;
    *found = true;
    if (v.type == RT_J_STR) return char_at(r, v.s, index, out);
    *out = v.type == RT_J_RANGE ? rt_jv_int(v.range->start + index * v.range->step) : v.l->items[index];
    return RT_OK;
}

int rt_j_getitem(rt_jrun *r, rt_jval v, rt_jval key, rt_jval *out)
{
    bool found;
    if (v.type == RT_J_UNDEFINED) return rt_jundef_fail(r, v);
    int rc = find_item(r, v, key, out, &found);
    if (rc < 0 || found) return rc;
    if (key.type == RT_J_STR) rc = find_attr(r, v, key.s, out, &found);
    if (rc < 0 || found) return rc;
    return rt_jundef_item(r, v, key, out);
}

/* ---- slices ---- */

static int slice_index(rt_jrun *r, rt_jval v, int64_t def, int64_t *out)
{
    *out = def;
    if (v.type == RT_J_NONE || rt_jv_index(v, out)) return RT_OK;
    if (v.type == RT_J_UNDEFINED) return rt_jundef_fail(r, v);
    return rt_j_fail(r, "slice indices must be integers or None, not %s", rt_jtype_name(v.type));
}

/* An index into n items, from the end when negative, held inside [low, high]. */
static int64_t clamp_index(int64_t i, int64_t n, int64_t low, int64_t high)
{
    if (i < 0) i = i < -n ? low : i + n;
    return i < low ? low : i > high ? high : i;
}

int rt_j_slice_of(rt_jrun *r, rt_jval start, rt_jval stop, rt_jval step, int64_t n, rt_jslice *out)
{
    int64_t by, from, to;
    int rc = slice_index(r, step, 1, &by);
    if (rc == RT_OK && by == 0) rc = rt_j_fail(r, "slice step cannot be zero");
    if (rc == RT_OK) rc = slice_index(r, start, by > 0 ? 0 : INT64_MAX, &from);
    if (rc == RT_OK) rc = slice_index(r, stop, by > 0 ? INT64_MAX : INT64_MIN, &to);
    if (rc < 0) return rc;
    if (by == INT64_MIN) by++; /* no list is that long */
    if (by > 0) {
        from = clamp_index(from, n, 0, n);
        to = clamp_index(to, n, 0, n);
        *out = (rt_jslice){ from, to, by, to > from ? (to - from - 1) / by + 1 : 0 };
    } else {
        from = clamp_index(from, n, -1, n - 1);
        to = to == INT64_MIN ? -1 : clamp_index(to, n, -1, n - 1);
        *out = (rt_jslice){ from, to, by, from > to ? (from - to - 1) / -by + 1 : 0 };
    }
    return RT_OK;
}

static int slice_list(rt_jrun *r, rt_jval v, rt_jslice s, rt_jval *out)
{
    rt_jlist *l;
    int rc = rt_j_tick(r, (uint64_t)s.count / 16);
    if (rc == RT_OK) rc = rt_jlist_new(r, s.step == 1 ? 0 : (uint32_t)s.count, &l);
    if (rc < 0) return rc;
    if (s.step == 1) { /* nobody changes a list, so its part can be shared; cap 0 keeps a push from writing into it */
        l->items = s.count > 0 ? v.l->items + s.first : NULL;
        l->n = (uint32_t)s.count;
    } else {
        for (int64_t i = 0; i < s.count; i++) l->items[l->n++] = v.l->items[s.first + i * s.step];
    }
    *out = rt_jv_list(v.type, l);
    return RT_OK;
}

static int slice_str(rt_jrun *r, rt_jstr *s, rt_jslice cut, rt_jval *out)
{
    int rc = rt_j_tick(r, s->len / 64);
    if (rc < 0) return rc;
    if (cut.count == 0) return rt_jstr_part(r, s, 0, 0, out);
    if (cut.step == 1) {
        size_t from = rt_jstr_offset(r, s, (uint32_t)cut.first), to = from;
        if (s->chars == s->len)
            to += (size_t)cut.count;
        else
            for (int64_t i = 0; i < cut.count; i++) rt_j_decode(s->data, s->len, &to);
        return rt_jstr_part(r, s, from, to, out);
    }
    /* Where each code point begins. */
    uint32_t *at = rt_j_alloc(r, ((size_t)s->chars + 1) * sizeof *at), n = 0;
    if (!at) return rt_j_status(r);
    for (size_t p = 0; p < s->len; rt_j_decode(s->data, s->len, &p)) at[n++] = (uint32_t)p;
    at[n] = s->len;
    size_t mark = rt_j_mark(r);
    for (int64_t i = 0; i < cut.count && rc == RT_OK; i++) {
        int64_t k = cut.first + i * cut.step;
        rc = rt_j_put(r, s->data + at[k], at[k + 1] - at[k]);
    }
    if (rc == RT_OK) rc = rt_j_cut(r, mark, out);
    if (rc == RT_OK) out->s->markup = s->markup;
    return rc;
}

int rt_j_slice(rt_jrun *r, rt_jval v, rt_jval start, rt_jval stop, rt_jval step, rt_jval *out)
{
    rt_jslice s;
    int64_t n;
    if (v.type == RT_J_UNDEFINED) return rt_jundef_fail(r, v);
    if (v.type != RT_J_STR && !rt_jv_is_list(v) && v.type != RT_J_RANGE)
        return rt_j_fail(r, "'%s' object cannot be sliced", rt_jtype_name(v.type));
    rt_j_length(r, v, &n);
    int rc = rt_j_slice_of(r, start, stop, step, n, &s);
    if (rc < 0) return rc;
    if (v.type == RT_J_STR) return slice_str(r, v.s, s, out);
    if (v.type != RT_J_RANGE) return slice_list(r, v, s, out);
    rt_jrange *range = rt_j_alloc(r, sizeof *range);
    if (!range) return rt_j_status(r);
    int64_t first = v.range->start + s.first * v.range->step, by;
    if (__builtin_mul_overflow(s.step, v.range->step, &by)) return rt_j_fail(r, "the step of a range is too large");
    *range = (rt_jrange){ first, v.range->start + s.stop * v.range->step, by, s.count };
    *out = (rt_jval){ .type = RT_J_RANGE, .range = range };
    return RT_OK;
}

/* ---- paths ---- */

static bool all_digits(const char *text, size_t len, int64_t *out)
{
    *out = 0;
    for (size_t i = 0; i < len; i++) {
        if (text[i] < '0' || text[i] > '9' || i > 17) return false;
        *out = *out * 10 + (text[i] - '0');
    }
    return len > 0;
}

int rt_j_get_path(rt_jrun *r, rt_jval v, rt_jval path, const rt_jval *fallback, rt_jval *out)
{
    int rc = RT_OK;
    *out = v;
    if (path.type == RT_J_MISSING || path.type == RT_J_NONE) return RT_OK;
    size_t at = 0, end;
    do {
        rt_jval key = path;
        if (path.type == RT_J_STR) {
            const char *dot = memchr(path.s->data + at, '.', path.s->len - at);
            end = dot ? (size_t)(dot - path.s->data) : path.s->len;
            int64_t index;
            if (all_digits(path.s->data + at, end - at, &index))
                key = rt_jv_int(index);
            else
                rc = rt_jstr_part(r, path.s, at, end, &key);
            at = end + 1;
        }
        if (rc == RT_OK) rc = rt_j_getitem(r, *out, key, out);
        if (rc == RT_OK && fallback && fallback->type != RT_J_NONE && out->type == RT_J_UNDEFINED) *out = *fallback;
    } while (rc == RT_OK && path.type == RT_J_STR && at <= path.s->len);
    return rc;
}
