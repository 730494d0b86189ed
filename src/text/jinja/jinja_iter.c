/* jinja_iter.c - walking over values, forwards and backwards.
 *
 * Owns: what can be walked, and in which order. Filters that give something to walk make their own rt_jiter. */
#include "text/jinja/jinja_value.h"

#include <string.h>

static int next_nothing(rt_jrun *r, rt_jiter *it, rt_jval *out)
{
    (void)r, (void)it, (void)out;
    return 0;
}

/* Items from at on, or from at down to 0. */
static bool step(rt_jiter *it, int64_t n, int64_t *index)
{
    if (it->reverse ? it->at < 0 : it->at >= n) return false;
    *index = it->at;
    it->at += it->reverse ? -1 : 1;
    return true;
}

static int next_of_list(rt_jrun *r, rt_jiter *it, rt_jval *out)
{
    int64_t i;
    if (!step(it, it->source.l->n, &i)) return 0;
    *out = it->source.l->items[i];
    int rc = rt_j_tick(r, 1);
    return rc < 0 ? rc : 1;
}

static int next_of_range(rt_jrun *r, rt_jiter *it, rt_jval *out)
{
    int64_t i;
    const rt_jrange *range = it->source.range;
    if (!step(it, range->n, &i)) return 0;
    *out = rt_jv_int(range->start + i * range->step);
    int rc = rt_j_tick(r, 1);
    return rc < 0 ? rc : 1;
}

/* Of a dict: its keys. */
static int next_of_dict(rt_jrun *r, rt_jiter *it, rt_jval *out)
{
    int64_t i;
    bool view = it->source.type == RT_J_VIEW;
    const rt_jdict *d = view ? it->source.view->d : it->source.d;
    rt_jview_kind kind = view ? it->source.view->kind : RT_J_KEYS;
    if (!step(it, d->n, &i)) return 0;
    int rc = rt_j_tick(r, 1);
    if (rc < 0) return rc;
    if (kind == RT_J_ITEMS)
        rc = rt_jtuple2(r, d->items[i].key, d->items[i].value, out);
    else
        *out = kind == RT_J_KEYS ? d->items[i].key : d->items[i].value;
    return rc < 0 ? rc : 1;
}

static int next_of_str(rt_jrun *r, rt_jiter *it, rt_jval *out)
{
    const rt_jstr *s = it->source.s;
    if ((uint64_t)it->at >= s->len) return 0;
    size_t from = (size_t)it->at, to = from;
    rt_j_decode(s->data, s->len, &to);
    it->at = (int64_t)to;
    int rc = rt_j_tick(r, 1);
    if (rc == RT_OK) rc = rt_jstr_part(r, s, from, to, out);
    if (rc < 0) return rc;
    out->s->markup = false; /* Python walks the plain string below a Markup */
    return 1;
}

static int new_iter(rt_jrun *r, rt_jval v, rt_jiter **out)
{
    rt_jiter *it = rt_j_alloc(r, sizeof *it);
    if (!it) return rt_j_status(r);
    it->source = v;
    it->name = "iterator";
    switch (v.type) {
    case RT_J_UNDEFINED: it->next = next_nothing; break;
    case RT_J_STR: it->next = next_of_str; break;
    case RT_J_LIST:
    case RT_J_TUPLE: it->next = next_of_list; break;
    case RT_J_DICT:
    case RT_J_VIEW: it->next = next_of_dict; break;
    case RT_J_RANGE: it->next = next_of_range; break;
    default: it->next = NULL; break;
    }
    *out = it;
    return RT_OK;
}

int rt_j_iter(rt_jrun *r, rt_jval v, rt_jiter **out)
{
    if (v.type == RT_J_ITER) {
        *out = v.iter;
        return RT_OK;
    }
    if (v.type == RT_J_LOOP) return rt_j_unsupported(r, "walking over 'loop' is not supported");
    int rc = new_iter(r, v, out);
    if (rc == RT_OK && !(*out)->next) rc = rt_j_fail(r, "'%s' object is not iterable", rt_jtype_name(v.type));
    return rc;
}

int rt_j_iter_reversed(rt_jrun *r, rt_jval v, rt_jiter **out)
{
    rt_jlist *chars;
    int64_t n = 0;
    *out = NULL;
    if (v.type == RT_J_ITER || !rt_j_length(r, v, &n)) return RT_OK;
    int rc = RT_OK;
    if (v.type == RT_J_STR) {
        bool markup = v.s->markup;
        rc = rt_j_to_list(r, v, &chars);
        if (rc < 0) return rc;
        for (uint32_t i = 0; i < chars->n; i++) chars->items[i].s->markup = markup;
        v = rt_jv_list(RT_J_LIST, chars);
    }
    rc = new_iter(r, v, out);
    if (rc < 0) return rc;
    (*out)->reverse = true;
    (*out)->at = n - 1;
    (*out)->name = "reverse";
    return RT_OK;
}

int rt_j_to_list(rt_jrun *r, rt_jval v, rt_jlist **out)
{
    rt_jiter *it;
    rt_jval item;
    int64_t n = 0;
    if (rt_jv_is_list(v)) {
        *out = v.l;
        return RT_OK;
    }
    rt_j_length(r, v, &n);
    int rc = rt_j_iter(r, v, &it);
    if (rc == RT_OK) rc = rt_j_tick(r, (uint64_t)n);
    if (rc == RT_OK) rc = rt_jlist_new(r, (uint32_t)n, out);
    if (rc < 0) return rc;
    while ((rc = rt_j_next(r, it, &item)) > 0)
        if ((rc = rt_jlist_push(r, *out, item)) < 0) return rc;
    return rc;
}
