/* jinja_compare.c - equality, order, containment and sorting, as Python has them.
 *
 * Owns: which types compare and how. Values may be nested deeply or share parts, so every step is counted. */
#include "text/jinja/jinja_call.h"

#include <math.h>
#include <string.h>

/* ---- numbers: exact even where a double cannot hold the integer ---- */

static int sign_of(int64_t a, int64_t b) { return (a > b) - (a < b); }

/* <0, 0, >0, or 2 when one is not a number */
static int int_float_order(int64_t i, double f)
{
    if (isnan(f)) return 2;
    if (f >= 9223372036854775808.0) return -1;
    if (f < -9223372036854775808.0) return 1;
    double whole = trunc(f);
    int order = sign_of(i, (int64_t)whole);
    if (order) return order;
    return (f < whole) - (f > whole);
}

static int number_order(rt_jval a, rt_jval b)
{
    int64_t i, k;
    bool a_int = rt_jv_index(a, &i), b_int = rt_jv_index(b, &k);
    if (a_int && b_int) return sign_of(i, k);
    if (a_int) return int_float_order(i, b.f);
    if (b_int) {
        int order = int_float_order(k, a.f);
        return order == 2 ? 2 : -order;
    }
    if (isnan(a.f) || isnan(b.f)) return 2;
    return (a.f > b.f) - (a.f < b.f);
}

/* ---- equality ---- */

bool rt_j_same(rt_jrun *r, rt_jval a, rt_jval b)
{
    if (a.type != b.type) return false;
    switch (a.type) {
    case RT_J_NONE: return true;
    case RT_J_BOOL: return a.b == b.b;
    case RT_J_INT: return a.i == b.i;
    case RT_J_FLOAT: return memcmp(&a.f, &b.f, sizeof a.f) == 0;
    case RT_J_STR: return rt_jstr_equal(r, a.s, b.s);
    default: return a.p == b.p;
    }
}

static int equal_lists(rt_jrun *r, const rt_jlist *a, const rt_jlist *b, bool *out)
{
    *out = a->n == b->n;
    for (uint32_t i = 0; i < a->n && *out; i++) {
        bool same = rt_j_same(r, a->items[i], b->items[i]);
        int rc = same ? rt_j_tick(r, 0) : rt_j_equal(r, a->items[i], b->items[i], out);
        if (rc < 0) return rc;
    }
    return rt_j_tick(r, a->n / 16);
}

static int equal_dicts(rt_jrun *r, const rt_jdict *a, const rt_jdict *b, bool *out)
{
    *out = a->n == b->n;
    for (uint32_t i = 0; i < a->n && *out; i++) {
        rt_jpair *other;
        int rc = rt_jdict_find(r, b, a->items[i].key, &other);
        *out = other != NULL;
        if (rc == RT_OK && other && !rt_j_same(r, a->items[i].value, other->value))
            rc = rt_j_equal(r, a->items[i].value, other->value, out);
        if (rc < 0) return rc;
    }
    return RT_OK;
}

/* Keys and items compare as sets; values only with themselves. */
static int equal_views(rt_jrun *r, const rt_jview *a, const rt_jview *b, bool *out)
{
    *out = a == b;
    if (a->kind != b->kind || a->kind == RT_J_VALUES || *out) return RT_OK;
    if (a->kind == RT_J_ITEMS) return equal_dicts(r, a->d, b->d, out);
    *out = a->d->n == b->d->n;
    for (uint32_t i = 0; i < a->d->n && *out; i++) {
        rt_jpair *other;
        int rc = rt_jdict_find(r, b->d, a->d->items[i].key, &other);
        if (rc < 0) return rc;
        *out = other != NULL;
    }
    return RT_OK;
}

static bool equal_ranges(const rt_jrange *a, const rt_jrange *b)
{
    if (a->n != b->n) return false;
    return a->n == 0 || (a->start == b->start && (a->n == 1 || a->step == b->step));
}

static int equal_nested(rt_jrun *r, rt_jval a, rt_jval b, bool *out)
{
    switch (a.type) {
    case RT_J_LIST:
    case RT_J_TUPLE: return equal_lists(r, a.l, b.l, out);
    case RT_J_DICT: return equal_dicts(r, a.d, b.d, out);
    case RT_J_VIEW: return equal_views(r, a.view, b.view, out);
    case RT_J_RANGE: *out = equal_ranges(a.range, b.range); return RT_OK;
    case RT_J_UNDEFINED: *out = true; return RT_OK;
    case RT_J_METHOD: *out = a.method->fn == b.method->fn && rt_j_same(r, a.method->self, b.method->self); return RT_OK;
    default: *out = a.p == b.p; return RT_OK;
    }
}

int rt_j_equal(rt_jrun *r, rt_jval a, rt_jval b, bool *out)
{
    *out = false;
    if (rt_jv_is_number(a) && rt_jv_is_number(b)) {
        *out = number_order(a, b) == 0;
        return RT_OK;
    }
    if (a.type != b.type) return RT_OK;
    if (a.type <= RT_J_STR && a.type != RT_J_UNDEFINED) {
        *out = rt_j_same(r, a, b);
        return rt_j_tick(r, 0);
    }
    int rc = rt_j_enter(r);
    if (rc < 0) return rc;
    rc = equal_nested(r, a, b, out);
    rt_j_leave(r);
    return rc;
}

/* ---- order ---- */

static bool holds(rt_jorder op, int order)
{
    switch (op) {
    case RT_J_LT: return order < 0;
    case RT_J_LE: return order <= 0;
    case RT_J_GT: return order > 0;
    default: return order >= 0;
    }
}

/* The first items that differ decide; else the lengths. */
static int compare_lists(rt_jrun *r, rt_jorder op, const rt_jlist *a, const rt_jlist *b, bool *out)
{
    uint32_t n = a->n < b->n ? a->n : b->n;
    for (uint32_t i = 0; i < n; i++) {
        bool equal = rt_j_same(r, a->items[i], b->items[i]);
        int rc = equal ? rt_j_tick(r, 0) : rt_j_equal(r, a->items[i], b->items[i], &equal);
        if (rc < 0) return rc;
        if (!equal) return rt_j_compare(r, op, a->items[i], b->items[i], out);
    }
    *out = holds(op, sign_of(a->n, b->n));
    return rt_j_tick(r, n / 16);
}

int rt_j_compare(rt_jrun *r, rt_jorder op, rt_jval a, rt_jval b, bool *out)
{
    static const char *const signs[] = { "<", "<=", ">", ">=" };
    if (a.type == RT_J_UNDEFINED) return rt_jundef_fail(r, a);
    if (b.type == RT_J_UNDEFINED) return rt_jundef_fail(r, b);
    if (rt_jv_is_number(a) && rt_jv_is_number(b)) {
        int order = number_order(a, b);
        *out = order != 2 && holds(op, order);
        return RT_OK;
    }
    if (a.type == RT_J_STR && b.type == RT_J_STR) {
        *out = holds(op, rt_jstr_order(r, a.s, b.s));
        return rt_j_tick(r, 0);
    }
    if (rt_jv_is_list(a) && a.type == b.type) {
        int rc = rt_j_enter(r);
        if (rc < 0) return rc;
        rc = compare_lists(r, op, a.l, b.l, out);
        rt_j_leave(r);
        return rc;
    }
    if (a.type == RT_J_VIEW && b.type == RT_J_VIEW)
        return rt_j_unsupported(r, "the order of dict views is not supported");
    return rt_j_fail(r, "'%s' not supported between instances of '%s' and '%s'", signs[op], rt_jtype_name(a.type),
                     rt_jtype_name(b.type));
}

/* ---- containment ---- */

static int contains_by_walk(rt_jrun *r, rt_jval container, rt_jval item, bool *out)
{
    rt_jiter *it;
    int rc = rt_j_iter(r, container, &it);
    *out = false;
    while (rc >= 0 && !*out) {
        rt_jval x;
        rc = rt_j_next(r, it, &x);
        if (rc <= 0) break;
        *out = rt_j_same(r, x, item);
        if (!*out) rc = rt_j_equal(r, x, item, out);
    }
    return rc < 0 ? rc : RT_OK;
}

int rt_j_contains(rt_jrun *r, rt_jval container, rt_jval item, bool *out)
{
    rt_jpair *found;
    size_t at;
    int rc;
    switch (container.type) {
    case RT_J_STR:
        if (item.type != RT_J_STR)
            return rt_j_fail(r, "'in <string>' requires string as left operand, not %s", rt_jtype_name(item.type));
        rc = rt_jstr_find(r, container.s, item.s, 0, container.s->len, false, &at);
        *out = at != SIZE_MAX;
        return rc;
    case RT_J_DICT:
        rc = rt_jdict_find(r, container.d, item, &found);
        *out = found != NULL;
        return rc;
    case RT_J_VIEW:
        if (container.view->kind != RT_J_KEYS) return contains_by_walk(r, container, item, out);
        rc = rt_jdict_find(r, container.view->d, item, &found);
        *out = found != NULL;
        return rc;
    case RT_J_UNDEFINED: *out = false; return RT_OK;
    case RT_J_LIST:
    case RT_J_TUPLE:
    case RT_J_RANGE:
    case RT_J_LOOP:
    case RT_J_ITER: return contains_by_walk(r, container, item, out);
    default: return rt_j_fail(r, "argument of type '%s' is not iterable", rt_jtype_name(container.type));
    }
}

/* ---- sorting: a stable merge sort that only asks `later < earlier`, as Python does ---- */

typedef struct sorter {
    rt_jrun *r;
    rt_jval *items, *keys, *items2, *keys2;
    bool reverse;
} sorter;

/* Whether the item at `later` must come before the one at `earlier`. Reversed, equal ones keep their order too. */
static int goes_first(sorter *s, uint32_t later, uint32_t earlier, bool *out)
{
    if (s->reverse) return rt_j_compare(s->r, RT_J_LT, s->keys[earlier], s->keys[later], out);
    return rt_j_compare(s->r, RT_J_LT, s->keys[later], s->keys[earlier], out);
}

static int merge(sorter *s, uint32_t from, uint32_t mid, uint32_t to)
{
    uint32_t a = from, b = mid, n = from;
    while (a < mid || b < to) {
        bool second = a == mid;
        if (a < mid && b < to) {
            int rc = goes_first(s, b, a, &second);
            if (rc < 0) return rc;
        }
        uint32_t take = second ? b++ : a++;
        s->items2[n] = s->items[take];
        s->keys2[n++] = s->keys[take];
    }
    memcpy(s->items + from, s->items2 + from, (to - from) * sizeof *s->items);
    memcpy(s->keys + from, s->keys2 + from, (to - from) * sizeof *s->keys);
    return rt_j_tick(s->r, to - from);
}

int rt_j_sort(rt_jrun *r, rt_jval *items, rt_jval *keys, uint32_t n, bool reverse)
{
    if (n < 2) return RT_OK;
    sorter s = { .r = r, .items = items, .keys = keys, .reverse = reverse };
    if (!(s.items2 = rt_j_alloc(r, n * sizeof *items))) return rt_j_status(r);
    if (!(s.keys2 = rt_j_alloc(r, n * sizeof *keys))) return rt_j_status(r);
    for (uint64_t width = 1; width < n; width *= 2) {
        for (uint64_t from = 0; from + width < n; from += 2 * width) {
            uint64_t to = from + 2 * width < n ? from + 2 * width : n;
            int rc = merge(&s, (uint32_t)from, (uint32_t)(from + width), (uint32_t)to);
            if (rc < 0) return rc;
        }
    }
    return RT_OK;
}
