/* jinja_methods.c - methods of lists, dicts, ranges, floats and cyclers. None of them changes a list or a dict. */
#include "text/jinja/jinja_call.h"

#include <math.h>
#include <string.h>

/* ---- list, tuple, range ---- */

static int m_copy_list(rt_jrun *r, const rt_jcall *c, rt_jval *out)
{
    rt_jlist *l;
    int rc = rt_jlist_new(r, 0, &l);
    if (rc < 0) return rc;
    l->items = c->self.l->items;
    l->n = c->self.l->n;
    *out = rt_jv_list(RT_J_LIST, l);
    return RT_OK;
}

static int m_count(rt_jrun *r, const rt_jcall *c, rt_jval *out)
{
    rt_jiter *it;
    rt_jval item;
    int64_t n = 0;
    int rc = rt_j_iter(r, c->self, &it);
    while (rc >= 0 && (rc = rt_j_next(r, it, &item)) > 0) {
        bool equal = rt_j_same(r, item, c->a[0]);
        if (!equal && (rc = rt_j_equal(r, item, c->a[0], &equal)) < 0) break;
        n += equal;
    }
    *out = rt_jv_int(n);
    return rc < 0 ? rc : RT_OK;
}

static int m_index(rt_jrun *r, const rt_jcall *c, rt_jval *out)
{
    rt_jslice s;
    int64_t n;
    rt_jval none = rt_jv(RT_J_NONE), item;
    rt_j_length(r, c->self, &n);
    int rc = rt_j_slice_of(r, rt_jarg_given(c, 1) ? c->a[1] : none, rt_jarg_given(c, 2) ? c->a[2] : none, none, n, &s);
    for (int64_t i = s.first; rc == RT_OK && i < s.first + s.count; i++) {
        bool equal;
        rc = rt_j_getitem(r, c->self, rt_jv_int(i), &item);
        if (rc == RT_OK) rc = rt_j_equal(r, item, c->a[0], &equal);
        if (rc == RT_OK) rc = rt_j_tick(r, 1);
        if (rc < 0 || !equal) continue;
        *out = rt_jv_int(i);
        return RT_OK;
    }
    return rc < 0 ? rc : rt_j_fail(r, "the value is not in the %s", rt_jtype_name(c->self.type));
}

const rt_jbuiltin rt_j_list_methods[] = {
    { "copy", "", m_copy_list, 0 },
    { "count", "value /", m_count, 0 },
    { "index", "value start= stop= /", m_index, 0 },
    { 0 },
};

const rt_jbuiltin rt_j_range_methods[] = { { "count", "value /", m_count, 0 },
                                           { "index", "value /", m_index, 0 },
                                           { 0 } };

/* ---- dict ---- */

static int m_get(rt_jrun *r, const rt_jcall *c, rt_jval *out)
{
    rt_jpair *found;
    int rc = rt_jdict_find(r, c->self.d, c->a[0], &found);
    if (rc < 0) return rc;
    if (found)
        *out = found->value;
    else
        *out = rt_jarg_given(c, 1) ? c->a[1] : rt_jv(RT_J_NONE);
    return RT_OK;
}

static int m_view(rt_jrun *r, const rt_jcall *c, rt_jval *out)
{
    rt_jview *v = rt_j_alloc(r, sizeof *v);
    if (!v) return rt_j_status(r);
    *v = (rt_jview){ c->self.d, (rt_jview_kind)c->fn->how };
    *out = (rt_jval){ .type = RT_J_VIEW, .view = v };
    return RT_OK;
}

static int m_copy_dict(rt_jrun *r, const rt_jcall *c, rt_jval *out)
{
    rt_jdict *d;
    int rc = rt_jdict_new(r, c->self.d->n, &d);
    if (rc < 0) return rc;
    if (c->self.d->n > 0) memcpy(d->items, c->self.d->items, c->self.d->n * sizeof *d->items);
    d->n = c->self.d->n;
    *out = (rt_jval){ .type = RT_J_DICT, .d = d };
    return rt_j_tick(r, d->n / 16);
}

const rt_jbuiltin rt_j_dict_methods[] = {
    { "get", "key default= /", m_get, 0 }, { "keys", "", m_view, RT_J_KEYS }, { "values", "", m_view, RT_J_VALUES },
    { "items", "", m_view, RT_J_ITEMS },   { "copy", "", m_copy_dict, 0 },    { 0 },
};

/* dict.fromkeys(keys, value) of the global `dict` */
static int m_fromkeys(rt_jrun *r, const rt_jcall *c, rt_jval *out)
{
    rt_jdict *d;
    rt_jiter *it;
    rt_jval key, value = rt_jarg_given(c, 1) ? c->a[1] : rt_jv(RT_J_NONE);
    int rc = rt_jdict_new(r, 0, &d);
    if (rc == RT_OK) rc = rt_j_iter(r, c->a[0], &it);
    if (rc < 0) return rc;
    while ((rc = rt_j_next(r, it, &key)) > 0)
        if ((rc = rt_jdict_set(r, d, key, value)) < 0) return rc;
    *out = (rt_jval){ .type = RT_J_DICT, .d = d };
    return rc;
}

const rt_jbuiltin rt_j_dict_type_methods[] = { { "fromkeys", "keys value= /", m_fromkeys, 0 }, { 0 } };

/* ---- others ---- */

static int m_is_integer(rt_jrun *r, const rt_jcall *c, rt_jval *out)
{
    (void)r;
    *out = rt_jv_bool(isfinite(c->self.f) && floor(c->self.f) == c->self.f);
    return RT_OK;
}

const rt_jbuiltin rt_j_float_methods[] = { { "is_integer", "", m_is_integer, 0 }, { 0 } };

static int m_next(rt_jrun *r, const rt_jcall *c, rt_jval *out)
{
    rt_jcycler *cycler = c->self.cycler;
    (void)r;
    *out = cycler->items->items[cycler->pos];
    cycler->pos = (cycler->pos + 1) % cycler->items->n;
    return RT_OK;
}

static int m_reset(rt_jrun *r, const rt_jcall *c, rt_jval *out)
{
    (void)r;
    c->self.cycler->pos = 0;
    *out = rt_jv(RT_J_NONE);
    return RT_OK;
}

const rt_jbuiltin rt_j_cycler_methods[] = { { "next", "", m_next, 0 }, { "reset", "", m_reset, 0 }, { 0 } };
