/* jinja_value.c - lists, dicts and undefined values; truth and length of any value.
 *
 * Owns: how they are made and looked into. Equality and order are for jinja_compare.c, walking for jinja_iter.c. */
#include "text/jinja/jinja_call.h"

#include <string.h>

const char *rt_jtype_name(rt_jtype type)
{
    static const char *const names[] = {
        [RT_J_UNDEFINED] = "Undefined", [RT_J_NONE] = "NoneType",
        [RT_J_BOOL] = "bool",           [RT_J_INT] = "int",
        [RT_J_FLOAT] = "float",         [RT_J_STR] = "str",
        [RT_J_LIST] = "list",           [RT_J_TUPLE] = "tuple",
        [RT_J_DICT] = "dict",           [RT_J_RANGE] = "range",
        [RT_J_VIEW] = "dict view",      [RT_J_ITER] = "generator",
        [RT_J_NAMESPACE] = "Namespace", [RT_J_LOOP] = "loop",
        [RT_J_MACRO] = "Macro",         [RT_J_METHOD] = "method",
        [RT_J_FUNCTION] = "function",   [RT_J_CYCLER] = "Cycler",
        [RT_J_JOINER] = "Joiner",       [RT_J_MISSING] = "missing value",
    };
    return names[type];
}

/* ---- lists ---- */

/* Doubling in an arena: what is left behind is at most what is in use. */
static void *grown(rt_jrun *r, const void *items, uint32_t n, uint32_t *cap, size_t size)
{
    uint64_t wanted = *cap < 4 ? 4 : 2 * (uint64_t)*cap;
    if (wanted > UINT32_MAX / 2) {
        rt_j_fail(r, "a list of %llu items is too long", (unsigned long long)wanted);
        return NULL;
    }
    void *bigger = rt_j_alloc(r, (size_t)wanted * size);
    if (!bigger) return NULL;
    if (n > 0) memcpy(bigger, items, n * size);
    *cap = (uint32_t)wanted;
    return bigger;
}

int rt_jlist_new(rt_jrun *r, uint32_t cap, rt_jlist **out)
{
    rt_jlist *l = rt_j_alloc(r, sizeof *l);
    if (!l) return rt_j_status(r);
    if (cap > 0 && !(l->items = rt_j_alloc(r, cap * sizeof *l->items))) return rt_j_status(r);
    l->cap = cap;
    *out = l;
    return RT_OK;
}

int rt_jlist_push(rt_jrun *r, rt_jlist *l, rt_jval v)
{
    if (l->n == l->cap) {
        rt_jval *bigger = grown(r, l->items, l->n, &l->cap, sizeof *bigger);
        if (!bigger) return rt_j_status(r);
        l->items = bigger;
    }
    l->items[l->n++] = v;
    return RT_OK;
}

int rt_jtuple2(rt_jrun *r, rt_jval a, rt_jval b, rt_jval *out)
{
    rt_jlist *l;
    int rc = rt_jlist_new(r, 2, &l);
    if (rc < 0) return rc;
    l->items[0] = a;
    l->items[1] = b;
    l->n = 2;
    *out = rt_jv_list(RT_J_TUPLE, l);
    return RT_OK;
}

/* ---- dicts: small as a rule, so keys are compared one after another, and the steps are counted ---- */

int rt_jdict_new(rt_jrun *r, uint32_t cap, rt_jdict **out)
{
    rt_jdict *d = rt_j_alloc(r, sizeof *d);
    if (!d) return rt_j_status(r);
    if (cap > 0 && !(d->items = rt_j_alloc(r, cap * sizeof *d->items))) return rt_j_status(r);
    d->cap = cap;
    *out = d;
    return RT_OK;
}

static bool hashable(rt_jrun *r, rt_jval v, int depth)
{
    if (v.type == RT_J_LIST || v.type == RT_J_DICT || (v.type == RT_J_VIEW && v.view->kind != RT_J_VALUES))
        return false;
    if (v.type != RT_J_TUPLE) return true;
    for (uint32_t i = 0; i < v.l->n; i++)
        if (depth == 0 || rt_j_tick(r, 1) < 0 || !hashable(r, v.l->items[i], depth - 1)) return false;
    return true;
}

bool rt_jv_hashable(rt_jrun *r, rt_jval v)
{
    enum { DEPTH = 8 }; /* tuples in tuples; no key of use is nested deeper, and a bomb must not be walked */
    return hashable(r, v, DEPTH);
}

int rt_jdict_find(rt_jrun *r, const rt_jdict *d, rt_jval key, rt_jpair **found)
{
    *found = NULL;
    bool can = rt_jv_hashable(r, key);
    int rc = rt_j_tick(r, 1 + d->n / 16);
    if (rc == RT_OK && !can) return rt_j_fail(r, "unhashable type: '%s'", rt_jtype_name(key.type));
    for (uint32_t i = 0; i < d->n && rc == RT_OK; i++) {
        bool equal;
        rt_jval k = d->items[i].key;
        if (k.type == RT_J_STR && key.type == RT_J_STR)
            equal = rt_jstr_equal(r, k.s, key.s), rc = rt_j_tick(r, 0);
        else
            rc = rt_j_equal(r, k, key, &equal);
        if (rc < 0 || !equal) continue;
        *found = &d->items[i];
        break;
    }
    return rc;
}

int rt_jdict_set(rt_jrun *r, rt_jdict *d, rt_jval key, rt_jval value)
{
    rt_jpair *found;
    int rc = rt_jdict_find(r, d, key, &found);
    if (rc < 0) return rc;
    if (found) {
        found->value = value;
        return RT_OK;
    }
    if (d->n == d->cap) {
        rt_jpair *bigger = grown(r, d->items, d->n, &d->cap, sizeof *bigger);
        if (!bigger) return rt_j_status(r);
        d->items = bigger;
    }
    d->items[d->n++] = (rt_jpair){ key, value };
    return RT_OK;
}

const rt_jval *rt_jdict_get_str(rt_jrun *r, const rt_jdict *d, const rt_jstr *key)
{
    for (uint32_t i = 0; i < d->n; i++)
        if (d->items[i].key.type == RT_J_STR && rt_jstr_equal(r, d->items[i].key.s, key)) return &d->items[i].value;
    return NULL;
}

/* ---- truth and length ---- */

static bool items_of(rt_jval v, int64_t *out)
{
    switch (v.type) {
    case RT_J_UNDEFINED: *out = 0; return true;
    case RT_J_LIST:
    case RT_J_TUPLE: *out = v.l->n; return true;
    case RT_J_DICT: *out = v.d->n; return true;
    case RT_J_VIEW: *out = v.view->d->n; return true;
    case RT_J_RANGE: *out = v.range->n; return true;
    default: return false;
    }
}

bool rt_j_length(rt_jrun *r, rt_jval v, int64_t *out)
{
    if (v.type != RT_J_STR) return items_of(v, out);
    *out = rt_jstr_chars(r, v.s);
    return true;
}

bool rt_j_truth(rt_jval v)
{
    int64_t n;
    switch (v.type) {
    case RT_J_NONE: return false;
    case RT_J_BOOL: return v.b;
    case RT_J_INT: return v.i != 0;
    case RT_J_FLOAT: return v.f != 0; /* NaN is true */
    case RT_J_STR: return v.s->len > 0;
    default: return !items_of(v, &n) || n > 0;
    }
}

/* ---- undefined ---- */

static int undefined(rt_jrun *r, rt_jundef u, rt_jval *out)
{
    rt_jundef *copy = rt_j_alloc(r, sizeof *copy);
    if (!copy) return rt_j_status(r);
    *copy = u;
    *out = (rt_jval){ .type = RT_J_UNDEFINED, .u = copy };
    return RT_OK;
}

int rt_jundef_name(rt_jrun *r, const rt_jstr *name, rt_jval *out)
{
    return undefined(r, (rt_jundef){ .name = name, .of = RT_J_MISSING }, out);
}

int rt_jundef_attr(rt_jrun *r, rt_jval of, const rt_jstr *name, rt_jval *out)
{
    return undefined(r, (rt_jundef){ .name = name, .of = of.type }, out);
}

int rt_jundef_item(rt_jrun *r, rt_jval of, rt_jval element, rt_jval *out)
{
    if (element.type == RT_J_STR) return rt_jundef_attr(r, of, element.s, out);
    return undefined(r, (rt_jundef){ .of = of.type, .element = element }, out);
}

int rt_jundef_hint(rt_jrun *r, const char *hint, rt_jval *out)
{
    return undefined(r, (rt_jundef){ .hint = hint }, out);
}

int rt_jundef_fail(rt_jrun *r, rt_jval v)
{
    enum { SHOWN = 100 };
    const rt_jundef *u = v.u;
    if (u->hint) return rt_j_fail(r, "%s", u->hint);
    const char *type = u->of == RT_J_NONE ? "None" : rt_jtype_name(u->of);
    const char *object = u->of == RT_J_NONE ? "" : " object";
    if (u->name) {
        int len = u->name->len < SHOWN ? (int)u->name->len : SHOWN;
        if (u->of == RT_J_MISSING) return rt_j_fail(r, "'%.*s' is undefined", len, u->name->data);
        return rt_j_fail(r, "'%s%s' has no attribute '%.*s'", type, object, len, u->name->data);
    }
    rt_jval text;
    size_t mark = rt_j_mark(r);
    int rc = rt_j_put_repr(r, u->element);
    if (rc == RT_OK) rc = rt_j_cut(r, mark, &text);
    if (rc < 0) return rc;
    return rt_j_fail(r, "%s%s has no element %.*s", type, object, (int)(text.s->len < SHOWN ? text.s->len : SHOWN),
                     text.s->data);
}
