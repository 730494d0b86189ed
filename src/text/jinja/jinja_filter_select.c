/* jinja_filter_select.c - filters that take each item by itself: map, select, reject and their forms for attributes.
 *
 * Owns: the lazy iterators that they give: an item is worked on only when somebody draws it, and only once. */
#include "text/jinja/jinja_call.h"

#include <string.h>

typedef struct picker {
    const rt_jbuiltin *fn; /* the filter of map, or the test of the others; null: truth decides */
    rt_jargs args;
    rt_jval path, fallback; /* RT_J_MISSING: the item itself, no fallback */
    bool wanted;            /* keep items whose test is this */
} picker;

/* What it draws from is opened when the first item is drawn: a value that cannot be walked is a fault only then. */
static int draw(rt_jrun *r, rt_jiter *it, rt_jval *out)
{
    int rc = it->inner ? RT_OK : rt_j_iter(r, it->source, &it->inner);
    return rc == RT_OK ? rt_j_next(r, it->inner, out) : rc;
}

static int next_mapped(rt_jrun *r, rt_jiter *it, rt_jval *out)
{
    const picker *p = it->ctx;
    rt_jval item;
    int rc = rt_j_enter(r); /* iterators may be stacked deeply */
    if (rc < 0) return rc;
    rc = draw(r, it, &item);
    if (rc > 0) {
        rc = p->fn ? rt_j_call_builtin(r, p->fn, item, &p->args, out)
                   : rt_j_get_path(r, item, p->path, p->fallback.type != RT_J_MISSING ? &p->fallback : NULL, out);
        if (rc == RT_OK) rc = 1;
    }
    rt_j_leave(r);
    return rc;
}

static int next_selected(rt_jrun *r, rt_jiter *it, rt_jval *out)
{
    const picker *p = it->ctx;
    rt_jval value, answer;
    int rc = rt_j_enter(r);
    if (rc < 0) return rc;
    while ((rc = draw(r, it, out)) > 0) {
        rc = rt_j_get_path(r, *out, p->path, NULL, &value);
        answer = value;
        if (rc == RT_OK && p->fn) rc = rt_j_call_builtin(r, p->fn, value, &p->args, &answer);
        if (rc < 0) break;
        if (rt_j_truth(answer) != p->wanted) continue;
        rc = 1;
        break;
    }
    rt_j_leave(r);
    return rc;
}

static int next_none(rt_jrun *r, rt_jiter *it, rt_jval *out)
{
    (void)r, (void)it, (void)out;
    return 0;
}

/* An iterator over c's value that p works on. A value that is false in itself (none, 0, "") gives no items. */
static int new_iter(rt_jrun *r, const rt_jcall *c, picker p, int (*next)(rt_jrun *, rt_jiter *, rt_jval *),
                    rt_jval *out)
{
    rt_jiter *it = rt_j_alloc(r, sizeof *it);
    picker *copy = rt_j_alloc(r, sizeof *copy);
    if (!it || !copy) return rt_j_status(r);
    *copy = p;
    *it = (rt_jiter){
        .next = rt_j_truth(c->self) ? next : next_none, .source = c->self, .ctx = copy, .name = c->fn->name
    };
    *out = (rt_jval){ .type = RT_J_ITER, .iter = it };
    return RT_OK;
}

/* The filter or test that the positional argument at `at` names; the arguments after it are for that one. */
static int named(rt_jrun *r, const rt_jcall *c, uint32_t at, bool filter, picker *p)
{
    rt_jval name = c->args->pos[at];
    bool known = false;
    if (name.type != RT_J_STR)
        return rt_j_fail(r, "%s: the name of a %s must be str", c->fn->name, filter ? "filter" : "test");
    p->fn = filter ? rt_j_filter_find(name.s->data, name.s->len, &known)
                   : rt_j_test_find(name.s->data, name.s->len, &known);
    if (!p->fn) return rt_j_no_builtin(r, filter ? "filter" : "test", name.s->data, name.s->len, known);
    p->args = *c->args;
    p->args.pos += at + 1;
    p->args.n_pos -= at + 1;
    return RT_OK;
}

static int f_map(rt_jrun *r, const rt_jcall *c, rt_jval *out)
{
    picker p = { .path = rt_jv(RT_J_MISSING), .fallback = rt_jv(RT_J_MISSING) };
    const rt_jval *attribute = rt_jargs_kw(c->args, "attribute"), *fallback = rt_jargs_kw(c->args, "default");
    int rc = RT_OK;
    /* What is wrong with the arguments shows only when an item is drawn, so an empty sequence hides it. */
    if (!rt_j_truth(c->self)) return new_iter(r, c, p, next_none, out);
    if (c->args->n_pos == 0 && attribute) {
        p.path = *attribute;
        if (fallback) p.fallback = *fallback;
        if (c->args->n_kw > 1u + (fallback != NULL)) rc = rt_j_fail(r, "map: unexpected keyword argument");
    } else if (c->args->n_pos == 0) {
        rc = rt_j_fail(r, "map requires a filter argument");
    } else {
        rc = named(r, c, 0, true, &p);
    }
    return rc == RT_OK ? new_iter(r, c, p, next_mapped, out) : rc;
}

enum { REJECT = 1, ATTRIBUTE = 2 };

static int f_pick(rt_jrun *r, const rt_jcall *c, rt_jval *out)
{
    picker p = { .path = rt_jv(RT_J_MISSING), .fallback = rt_jv(RT_J_MISSING), .wanted = !(c->fn->how & REJECT) };
    bool attribute = c->fn->how & ATTRIBUTE;
    uint32_t at = attribute;
    int rc = RT_OK;
    if (!rt_j_truth(c->self)) return new_iter(r, c, p, next_none, out);
    if (attribute && c->args->n_pos == 0) return rt_j_fail(r, "%s: missing parameter for attribute name", c->fn->name);
    if (attribute) p.path = c->args->pos[0];
    if (c->args->n_pos > at) rc = named(r, c, at, false, &p);
    return rc == RT_OK ? new_iter(r, c, p, next_selected, out) : rc;
}

const rt_jbuiltin rt_j_select_filters[] = {
    { "map", NULL, f_map, 0 },
    { "select", NULL, f_pick, 0 },
    { "reject", NULL, f_pick, REJECT },
    { "selectattr", NULL, f_pick, ATTRIBUTE },
    { "rejectattr", NULL, f_pick, REJECT | ATTRIBUTE },
    { 0 },
};
