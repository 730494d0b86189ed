/* jinja_filter_seq.c - filters over sequences as a whole: ends, order, groups, sums.
 *
 * Owns: those. Filters that take each item by itself (map, select) are in jinja_filter_select.c. */
#include "text/jinja/jinja_eval.h"

/* ---- ends and length ---- */

static int f_first(rt_jrun *r, const rt_jcall *c, rt_jval *out)
{
    rt_jiter *it;
    int rc = rt_j_iter(r, c->self, &it);
    if (rc == RT_OK) rc = rt_j_next(r, it, out);
    if (rc < 0) return rc;
    return rc > 0 ? RT_OK : rt_jundef_hint(r, "No first item, sequence was empty.", out);
}

static int f_last(rt_jrun *r, const rt_jcall *c, rt_jval *out)
{
    rt_jiter *it;
    int rc = rt_j_iter_reversed(r, c->self, &it);
    if (rc == RT_OK && !it) rc = rt_j_fail(r, "'%s' object is not reversible", rt_jtype_name(c->self.type));
    if (rc == RT_OK) rc = rt_j_next(r, it, out);
    if (rc < 0) return rc;
    return rc > 0 ? RT_OK : rt_jundef_hint(r, "No last item, sequence was empty.", out);
}

static int f_length(rt_jrun *r, const rt_jcall *c, rt_jval *out)
{
    int64_t n;
    int rc = RT_OK;
    if (c->self.type == RT_J_LOOP)
        rc = rt_jloop_length(r, c->self.loop, &n);
    else if (!rt_j_length(r, c->self, &n))
        rc = rt_j_fail(r, "object of type '%s' has no len()", rt_jtype_name(c->self.type));
    if (rc == RT_OK) *out = rt_jv_int(n);
    return rc;
}

static int iter_over(rt_jrun *r, rt_jlist *l, const char *name, rt_jval *out)
{
    rt_jiter *it;
    int rc = rt_j_iter(r, rt_jv_list(RT_J_LIST, l), &it);
    if (rc < 0) return rc;
    it->name = name;
    *out = (rt_jval){ .type = RT_J_ITER, .iter = it };
    return RT_OK;
}

static int f_list(rt_jrun *r, const rt_jcall *c, rt_jval *out)
{
    rt_jlist *l = NULL;
    int rc = rt_j_to_list(r, c->self, &l);
    *out = rt_jv_list(RT_J_LIST, l);
    return rc;
}

static int f_reverse(rt_jrun *r, const rt_jcall *c, rt_jval *out)
{
    rt_jiter *it;
    if (c->self.type == RT_J_STR) return rt_j_slice(r, c->self, rt_jv(RT_J_NONE), rt_jv(RT_J_NONE), rt_jv_int(-1), out);
    int rc = rt_j_iter_reversed(r, c->self, &it);
    if (rc < 0) return rc;
    if (it) {
        *out = (rt_jval){ .type = RT_J_ITER, .iter = it };
        return RT_OK;
    }
    rt_jlist *l;
    rc = rt_j_to_list(r, c->self, &l);
    if (rc < 0) return rc;
    return rt_j_slice(r, rt_jv_list(RT_J_LIST, l), rt_jv(RT_J_NONE), rt_jv(RT_J_NONE), rt_jv_int(-1), out);
}

static int f_join(rt_jrun *r, const rt_jcall *c, rt_jval *out)
{
    rt_jval sep, item;
    rt_jiter *it;
    int rc = rt_jarg_given(c, 0) ? rt_j_str(r, c->a[0], &sep) : rt_jstr_literal(r, "", &sep);
    if (rc == RT_OK) rc = rt_j_iter(r, c->self, &it);
    if (rc < 0) return rc;
    size_t mark = rt_j_mark(r);
    for (bool first = true; (rc = rt_j_next(r, it, &item)) > 0; first = false) {
        rc = rt_j_get_path(r, item, c->a[1], NULL, &item);
        if (rc == RT_OK && !first) rc = rt_j_put(r, sep.s->data, sep.s->len);
        if (rc == RT_OK) rc = rt_j_put_str(r, item);
        if (rc < 0) break;
    }
    return rc == RT_OK ? rt_j_cut(r, mark, out) : rc;
}

/* ---- order ---- */

/* The key by which an item is ordered: a path into it, in lower case unless case matters. */
static int key_of(rt_jrun *r, rt_jval item, rt_jval path, const rt_jval *fallback, bool case_sensitive, rt_jval *out)
{
    int rc = rt_j_get_path(r, item, path, fallback, out);
    return rc == RT_OK && !case_sensitive ? rt_j_ignore_case(r, *out, out) : rc;
}

/* A copy of the items, which sorting may move. */
static int copy_items(rt_jrun *r, rt_jval v, rt_jlist **out)
{
    rt_jlist *l;
    int rc = rt_j_to_list(r, v, &l);
    if (rc == RT_OK) rc = rt_jlist_new(r, l->n, out);
    for (uint32_t i = 0; rc == RT_OK && i < l->n; i++) (*out)->items[(*out)->n++] = l->items[i];
    return rc;
}

/* "a,b.c": the list of both values. */
static int keys_of(rt_jrun *r, rt_jval item, rt_jval paths, bool case_sensitive, rt_jval *out)
{
    rt_jlist *keys;
    int rc = rt_jlist_new(r, 1, &keys);
    size_t at = 0, end;
    do {
        rt_jval path = paths, key;
        if (rc == RT_OK && paths.type == RT_J_STR) {
            for (end = at; end < paths.s->len && paths.s->data[end] != ',';) end++;
            rc = rt_jstr_part(r, paths.s, at, end, &path);
            at = end + 1;
        }
        if (rc == RT_OK) rc = key_of(r, item, path, NULL, case_sensitive, &key);
        if (rc == RT_OK) rc = rt_jlist_push(r, keys, key);
    } while (rc == RT_OK && paths.type == RT_J_STR && at <= paths.s->len);
    if (rc == RT_OK) *out = rt_jv_list(RT_J_LIST, keys);
    return rc;
}

static int f_sort(rt_jrun *r, const rt_jcall *c, rt_jval *out)
{
    enum { REVERSE, CASE, ATTRIBUTE };
    rt_jlist *items, *keys;
    int rc = copy_items(r, c->self, &items);
    if (rc == RT_OK) rc = rt_jlist_new(r, items->n, &keys);
    for (uint32_t i = 0; rc == RT_OK && i < items->n; i++)
        rc = keys_of(r, items->items[i], c->a[ATTRIBUTE], rt_jarg_truth(c, CASE, false), &keys->items[keys->n++]);
    if (rc == RT_OK) rc = rt_j_sort(r, items->items, keys->items, items->n, rt_jarg_truth(c, REVERSE, false));
    if (rc == RT_OK) *out = rt_jv_list(RT_J_LIST, items);
    return rc;
}

static int f_dictsort(rt_jrun *r, const rt_jcall *c, rt_jval *out)
{
    enum { CASE, BY, REVERSE };
    bool by_value = false;
    rt_jlist *items, *keys;
    if (c->self.type == RT_J_UNDEFINED) return rt_jundef_fail(r, c->self);
    if (c->self.type != RT_J_DICT) return rt_j_fail(r, "dictsort needs a dict, not %s", rt_jtype_name(c->self.type));
    if (rt_jarg_given(c, BY)) {
        by_value = c->a[BY].type == RT_J_STR && rt_jstr_is(c->a[BY].s, "value");
        if (!by_value && !(c->a[BY].type == RT_J_STR && rt_jstr_is(c->a[BY].s, "key")))
            return rt_j_fail(r, "dictsort: you can only sort by either \"key\" or \"value\"");
    }
    const rt_jdict *d = c->self.d;
    int rc = rt_jlist_new(r, d->n, &items);
    if (rc == RT_OK) rc = rt_jlist_new(r, d->n, &keys);
    for (uint32_t i = 0; rc == RT_OK && i < d->n; i++) {
        rc = rt_jtuple2(r, d->items[i].key, d->items[i].value, &items->items[items->n++]);
        rt_jval key = by_value ? d->items[i].value : d->items[i].key;
        if (rc == RT_OK && !rt_jarg_truth(c, CASE, false)) rc = rt_j_ignore_case(r, key, &key);
        keys->items[keys->n++] = key;
    }
    if (rc == RT_OK) rc = rt_j_sort(r, items->items, keys->items, items->n, rt_jarg_truth(c, REVERSE, false));
    if (rc == RT_OK) *out = rt_jv_list(RT_J_LIST, items);
    return rc;
}

static int f_extreme(rt_jrun *r, const rt_jcall *c, rt_jval *out)
{
    enum { CASE, ATTRIBUTE };
    rt_jiter *it;
    rt_jval item, key, best = rt_jv(RT_J_MISSING);
    bool case_sensitive = rt_jarg_truth(c, CASE, false);
    int rc = rt_j_iter(r, c->self, &it);
    while (rc >= 0 && (rc = rt_j_next(r, it, &item)) > 0) {
        bool better = best.type == RT_J_MISSING;
        rc = key_of(r, item, c->a[ATTRIBUTE], NULL, case_sensitive, &key);
        if (rc == RT_OK && !better) rc = rt_j_compare(r, (rt_jorder)c->fn->how, key, best, &better);
        if (rc < 0) break;
        if (!better) continue;
        best = key;
        *out = item;
    }
    if (rc < 0) return rc;
    return best.type != RT_J_MISSING ? RT_OK : rt_jundef_hint(r, "No aggregated item, sequence was empty.", out);
}

static int f_unique(rt_jrun *r, const rt_jcall *c, rt_jval *out)
{
    enum { CASE, ATTRIBUTE };
    rt_jlist *kept;
    rt_jdict *seen;
    rt_jiter *it;
    rt_jval item, key;
    int rc = rt_jlist_new(r, 0, &kept);
    if (rc == RT_OK) rc = rt_jdict_new(r, 0, &seen);
    if (rc == RT_OK) rc = rt_j_iter(r, c->self, &it);
    while (rc >= 0 && (rc = rt_j_next(r, it, &item)) > 0) {
        rc = key_of(r, item, c->a[ATTRIBUTE], NULL, rt_jarg_truth(c, CASE, false), &key);
        uint32_t before = rc == RT_OK ? seen->n : 0;
        if (rc == RT_OK) rc = rt_jdict_set(r, seen, key, item);
        if (rc == RT_OK && seen->n > before) rc = rt_jlist_push(r, kept, item);
    }
    return rc < 0 ? rc : iter_over(r, kept, "unique", out);
}

/* ---- groups ---- */

static int f_groupby(rt_jrun *r, const rt_jcall *c, rt_jval *out)
{
    enum { ATTRIBUTE, DEFAULT, CASE };
    const rt_jval *fallback = rt_jarg_given(c, DEFAULT) ? &c->a[DEFAULT] : NULL;
    bool case_sensitive = rt_jarg_truth(c, CASE, false), equal;
    rt_jlist *items, *keys, *groups, *group = NULL;
    int rc = copy_items(r, c->self, &items);
    if (rc == RT_OK) rc = rt_jlist_new(r, items->n, &keys);
    for (uint32_t i = 0; rc == RT_OK && i < items->n; i++)
        rc = key_of(r, items->items[i], c->a[ATTRIBUTE], fallback, case_sensitive, &keys->items[keys->n++]);
    if (rc == RT_OK) rc = rt_j_sort(r, items->items, keys->items, items->n, false);
    if (rc == RT_OK) rc = rt_jlist_new(r, 0, &groups);
    for (uint32_t i = 0; rc == RT_OK && i < items->n; i++) {
        rt_jval key = keys->items[i], pair;
        equal = false;
        if (i > 0) rc = rt_j_equal(r, keys->items[i - 1], key, &equal);
        if (rc == RT_OK && !equal) {
            rc = rt_jlist_new(r, 0, &group);
            /* The key of the first item as it is, not in lower case. */
            if (rc == RT_OK && !case_sensitive) rc = rt_j_get_path(r, items->items[i], c->a[ATTRIBUTE], fallback, &key);
            if (rc == RT_OK) rc = rt_jtuple2(r, key, rt_jv_list(RT_J_LIST, group), &pair);
            if (rc == RT_OK) pair.l->group = true;
            if (rc == RT_OK) rc = rt_jlist_push(r, groups, pair);
        }
        if (rc == RT_OK) rc = rt_jlist_push(r, group, items->items[i]);
    }
    if (rc == RT_OK) *out = rt_jv_list(RT_J_LIST, groups);
    return rc;
}

static int f_batch(rt_jrun *r, const rt_jcall *c, rt_jval *out)
{
    rt_jlist *rows, *row = NULL;
    rt_jiter *it;
    rt_jval item;
    int64_t width;
    int rc = rt_jarg_index(r, c, 0, 0, &width);
    if (rc == RT_OK) rc = rt_jlist_new(r, 0, &rows);
    if (rc == RT_OK) rc = rt_j_iter(r, c->self, &it);
    while (rc >= 0 && (rc = rt_j_next(r, it, &item)) > 0) {
        rc = RT_OK;
        /* A batch of width 0 ends before its first item, so it begins with an empty row. */
        if (!row && width == 0) rc = rt_jlist_new(r, 0, &row);
        if (rc == RT_OK && row && row->n == width) {
            rc = rt_jlist_push(r, rows, rt_jv_list(RT_J_LIST, row));
            row = NULL;
        }
        if (rc == RT_OK && !row) rc = rt_jlist_new(r, 0, &row);
        if (rc == RT_OK) rc = rt_jlist_push(r, row, item);
    }
    bool fill = rt_jarg_given(c, 1) && c->a[1].type != RT_J_NONE;
    while (rc == RT_OK && row && fill && row->n < width) {
        rc = rt_jlist_push(r, row, c->a[1]);
        if (rc == RT_OK) rc = rt_j_tick(r, 1);
    }
    if (rc == RT_OK && row) rc = rt_jlist_push(r, rows, rt_jv_list(RT_J_LIST, row));
    return rc < 0 ? rc : iter_over(r, rows, "batch", out);
}

static int f_slice(rt_jrun *r, const rt_jcall *c, rt_jval *out)
{
    rt_jlist *all, *columns, *column;
    int64_t n, at = 0;
    int rc = rt_jarg_index(r, c, 0, 0, &n);
    if (rc == RT_OK) rc = rt_j_to_list(r, c->self, &all);
    if (rc == RT_OK && n == 0) rc = rt_j_fail(r, "slice: integer division or modulo by zero");
    if (rc == RT_OK) rc = rt_jlist_new(r, 0, &columns);
    bool fill = rt_jarg_given(c, 1) && c->a[1].type != RT_J_NONE;
    for (int64_t i = 0; rc == RT_OK && i < n; i++) {
        int64_t each = all->n / n, more = all->n % n, count = each + (i < more);
        rc = rt_jlist_new(r, (uint32_t)count + 1, &column);
        for (int64_t k = 0; rc == RT_OK && k < count; k++) column->items[column->n++] = all->items[at++];
        if (rc == RT_OK && fill && i >= more) rc = rt_jlist_push(r, column, c->a[1]);
        if (rc == RT_OK) rc = rt_jlist_push(r, columns, rt_jv_list(RT_J_LIST, column));
        if (rc == RT_OK) rc = rt_j_tick(r, 1);
    }
    return rc < 0 ? rc : iter_over(r, columns, "slice", out);
}

static int f_sum(rt_jrun *r, const rt_jcall *c, rt_jval *out)
{
    enum { ATTRIBUTE, START };
    rt_jiter *it;
    rt_jval item;
    *out = rt_jarg_given(c, START) ? c->a[START] : rt_jv_int(0);
    if (out->type == RT_J_STR) return rt_j_fail(r, "sum: cannot sum strings, use |join");
    int rc = rt_j_iter(r, c->self, &it);
    while (rc >= 0 && (rc = rt_j_next(r, it, &item)) > 0) {
        rc = rt_j_get_path(r, item, c->a[ATTRIBUTE], NULL, &item);
        if (rc == RT_OK) rc = rt_j_binary(r, RT_J_ADD, *out, item, out);
    }
    return rc;
}

static int f_items(rt_jrun *r, const rt_jcall *c, rt_jval *out)
{
    rt_jlist *l;
    int rc = RT_OK;
    if (c->self.type != RT_J_DICT && c->self.type != RT_J_UNDEFINED)
        return rt_j_fail(r, "items: can only get item pairs from a mapping");
    uint32_t n = c->self.type == RT_J_DICT ? c->self.d->n : 0;
    rc = rt_jlist_new(r, n, &l);
    for (uint32_t i = 0; rc == RT_OK && i < n; i++)
        rc = rt_jtuple2(r, c->self.d->items[i].key, c->self.d->items[i].value, &l->items[l->n++]);
    return rc < 0 ? rc : iter_over(r, l, "items", out);
}

const rt_jbuiltin rt_j_sequence_filters[] = {
    { "first", "", f_first, 0 },
    { "last", "", f_last, 0 },
    { "length", "", f_length, 0 },
    { "count", "", f_length, 0 },
    { "list", "", f_list, 0 },
    { "reverse", "", f_reverse, 0 },
    { "join", "d= attribute=", f_join, 0 },
    { "sort", "reverse= case_sensitive= attribute=", f_sort, 0 },
    { "dictsort", "case_sensitive= by= reverse=", f_dictsort, 0 },
    { "min", "case_sensitive= attribute=", f_extreme, RT_J_LT },
    { "max", "case_sensitive= attribute=", f_extreme, RT_J_GT },
    { "unique", "case_sensitive= attribute=", f_unique, 0 },
    { "groupby", "attribute default= case_sensitive=", f_groupby, 0 },
    { "batch", "linecount fill_with=", f_batch, 0 },
    { "slice", "slices fill_with=", f_slice, 0 },
    { "sum", "attribute= start=", f_sum, 0 },
    { "items", "", f_items, 0 },
    { 0 },
};
