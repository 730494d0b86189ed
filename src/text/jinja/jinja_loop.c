/* jinja_loop.c - for loops and the variable `loop`.
 *
 * Owns: the order in which items are drawn. As in Jinja a loop draws its next item only when it is needed or asked for
 * (loop.last, loop.nextitem), and the condition of the loop is evaluated when an item is drawn. */
#include "text/jinja/jinja_eval.h"

#include <string.h>

struct rt_jloop {
    rt_jval iterable;
    rt_jiter *it;
    bool filtered;  /* its length is not that of iterable */
    int64_t index0; /* -1 before the first item */
    int64_t length; /* -1: not asked for yet */
    rt_jval before, current;
    rt_jval after; /* drawn ahead; RT_J_MISSING: not drawn */
    bool ended;    /* drawing ahead found no more */
    rt_jval changed;
};

/* ---- the loop's condition ---- */

typedef struct condition {
    const rt_jnode *target, *test;
    rt_jscope *scope;
} condition;

/* The item as its target holds it: `for a, b in x if c` gives on a tuple, whatever the item was. */
static int repack(rt_jrun *r, const rt_jnode *target, rt_jval *out)
{
    if (target->kind != RT_JN_TUPLE) {
        *out = rt_jscope_get(r, target->symbol);
        return RT_OK;
    }
    rt_jlist *l;
    int rc = rt_j_enter(r);
    if (rc < 0) return rc;
    rc = rt_jlist_new(r, target->n, &l);
    for (uint32_t i = 0; i < target->n && rc == RT_OK; i++) rc = repack(r, target->list[i], &l->items[l->n++]);
    rt_j_leave(r);
    if (rc == RT_OK) *out = rt_jv_list(RT_J_TUPLE, l);
    return rc;
}

static int next_passing(rt_jrun *r, rt_jiter *it, rt_jval *out)
{
    const condition *c = it->ctx;
    rt_jscope *scope = r->scope;
    rt_jval item, test;
    int rc;
    while ((rc = rt_j_next(r, it->inner, &item)) > 0) {
        rc = rt_jscope_push(r, c->scope);
        if (rc == RT_OK) rc = rt_j_assign(r, c->target, item);
        if (rc == RT_OK) rc = rt_j_eval(r, c->test, &test);
        if (rc == RT_OK && rt_j_truth(test)) {
            rc = repack(r, c->target, out);
            if (rc == RT_OK) rc = 1;
            break;
        }
        if (rc < 0) break;
    }
    r->scope = scope;
    return rc;
}

static int open_condition(rt_jrun *r, const rt_jnode *node, rt_jloop *loop)
{
    rt_jiter *it = rt_j_alloc(r, sizeof *it);
    condition *c = rt_j_alloc(r, sizeof *c);
    if (!it || !c) return rt_j_status(r);
    *c = (condition){ node->a, node->c, r->scope };
    *it = (rt_jiter){ .next = next_passing, .inner = loop->it, .ctx = c, .name = "for" };
    loop->it = it;
    loop->filtered = true;
    return RT_OK;
}

/* ---- drawing ---- */

/* after is the next item, or ended is set */
static int draw_ahead(rt_jrun *r, rt_jloop *loop)
{
    if (loop->after.type != RT_J_MISSING || loop->ended) return RT_OK;
    int rc = rt_j_next(r, loop->it, &loop->after);
    if (rc == 0) loop->ended = true;
    if (rc <= 0) loop->after = rt_jv(RT_J_MISSING);
    return rc < 0 ? rc : RT_OK;
}

/* 1: current is the next item */
static int draw(rt_jrun *r, rt_jloop *loop)
{
    int rc = draw_ahead(r, loop);
    if (rc < 0 || loop->ended) return rc;
    loop->before = loop->current;
    loop->current = loop->after;
    loop->after = rt_jv(RT_J_MISSING);
    loop->index0++;
    return 1;
}

int rt_jloop_length(rt_jrun *r, rt_jloop *loop, int64_t *out)
{
    if (loop->length < 0 && (loop->filtered || !rt_j_length(r, loop->iterable, &loop->length))) {
        /* Nobody knows without drawing all that is left. */
        rt_jlist *rest;
        rt_jval left;
        int rc = rt_jlist_new(r, 0, &rest);
        while (rc == RT_OK && !loop->ended && (rc = rt_j_next(r, loop->it, &left)) > 0)
            rc = rt_jlist_push(r, rest, left);
        if (rc == RT_OK) rc = rt_j_iter(r, rt_jv_list(RT_J_LIST, rest), &loop->it);
        if (rc < 0) return rc;
        loop->length = rest->n + loop->index0 + 1 + (loop->after.type != RT_J_MISSING);
    }
    *out = loop->length;
    return RT_OK;
}

/* ---- attributes ---- */

static int loop_cycle(rt_jrun *r, const rt_jcall *c, rt_jval *out)
{
    if (c->args->n_kw > 0) return rt_j_fail(r, "loop.cycle() takes no keyword arguments");
    if (c->args->n_pos == 0) return rt_j_fail(r, "no items for cycling given");
    *out = c->args->pos[c->self.loop->index0 % c->args->n_pos];
    return RT_OK;
}

static int loop_changed(rt_jrun *r, const rt_jcall *c, rt_jval *out)
{
    rt_jlist *now;
    bool equal = false;
    if (c->args->n_kw > 0) return rt_j_fail(r, "loop.changed() takes no keyword arguments");
    int rc = rt_jlist_new(r, c->args->n_pos, &now);
    for (uint32_t i = 0; i < c->args->n_pos && rc == RT_OK; i++) rc = rt_jlist_push(r, now, c->args->pos[i]);
    rt_jval value = rt_jv_list(RT_J_TUPLE, now), *last = &c->self.loop->changed;
    if (rc == RT_OK && last->type == RT_J_TUPLE) rc = rt_j_equal(r, *last, value, &equal);
    if (rc == RT_OK && !equal) *last = value;
    *out = rt_jv_bool(!equal);
    return rc;
}

const rt_jbuiltin rt_j_loop_methods[] = { { "cycle", NULL, loop_cycle, 0 },
                                          { "changed", NULL, loop_changed, 0 },
                                          { 0 } };

static int neighbour(rt_jrun *r, rt_jloop *loop, bool next, rt_jval *out)
{
    if (!next) {
        if (loop->index0 == 0) return rt_jundef_hint(r, "there is no previous item", out);
        *out = loop->before;
        return RT_OK;
    }
    int rc = draw_ahead(r, loop);
    if (rc < 0) return rc;
    if (loop->ended) return rt_jundef_hint(r, "there is no next item", out);
    *out = loop->after;
    return RT_OK;
}

int rt_jloop_attr(rt_jrun *r, rt_jloop *loop, const rt_jstr *name, rt_jval *out, bool *found)
{
    int64_t length = 0;
    int rc = RT_OK;
    *found = true;
    if (rt_jstr_is(name, "index")) {
        *out = rt_jv_int(loop->index0 + 1);
    } else if (rt_jstr_is(name, "index0")) {
        *out = rt_jv_int(loop->index0);
    } else if (rt_jstr_is(name, "first")) {
        *out = rt_jv_bool(loop->index0 == 0);
    } else if (rt_jstr_is(name, "last")) {
        rc = draw_ahead(r, loop);
        *out = rt_jv_bool(loop->ended);
    } else if (rt_jstr_is(name, "length")) {
        rc = rt_jloop_length(r, loop, &length);
        *out = rt_jv_int(length);
    } else if (rt_jstr_is(name, "revindex")) {
        rc = rt_jloop_length(r, loop, &length);
        *out = rt_jv_int(length - loop->index0);
    } else if (rt_jstr_is(name, "revindex0")) {
        rc = rt_jloop_length(r, loop, &length);
        *out = rt_jv_int(length - loop->index0 - 1);
    } else if (rt_jstr_is(name, "previtem") || rt_jstr_is(name, "nextitem")) {
        rc = neighbour(r, loop, name->data[0] == 'n', out);
    } else if (rt_jstr_is(name, "depth") || rt_jstr_is(name, "depth0")) {
        *out = rt_jv_int(name->len == 5); /* only recursive loops are deeper */
    } else {
        *found = false;
    }
    return rc;
}

/* ---- the statement ---- */

static int run_loop(rt_jrun *r, const rt_jnode *node, rt_jloop *loop, rt_jflow *flow)
{
    rt_jscope *outer = r->scope;
    rt_jval self = { .type = RT_J_LOOP, .loop = loop };
    bool completed = false; /* an iteration that was left by break or continue does not count: so it is in Jinja */
    int rc;
    while ((rc = draw(r, loop)) > 0) {
        rt_jflow inner = RT_JF_NEXT;
        rc = rt_jscope_push(r, outer);
        if (rc == RT_OK) rc = rt_jscope_set(r, RT_JS_LOOP, self);
        r->line = node->line;
        if (rc == RT_OK) rc = rt_j_assign(r, node->a, loop->current);
        if (rc == RT_OK) rc = rt_j_exec(r, node->d, &inner);
        r->scope = outer;
        if (rc < 0) return rc;
        if (inner == RT_JF_BREAK) break;
        if (inner == RT_JF_NEXT) completed = true;
        r->line = node->line;
    }
    if (rc < 0 || completed || !node->e) return rc;
    rc = rt_jscope_push(r, outer);
    if (rc == RT_OK) rc = rt_j_exec(r, node->e, flow); /* a break in here is the outer loop's */
    r->scope = outer;
    return rc;
}

int rt_j_exec_for(rt_jrun *r, const rt_jnode *node, rt_jflow *flow)
{
    rt_jloop *loop = rt_j_alloc(r, sizeof *loop);
    if (!loop) return rt_j_status(r);
    loop->index0 = loop->length = -1;
    loop->after = rt_jv(RT_J_MISSING);
    int rc = rt_j_eval(r, node->b, &loop->iterable);
    r->line = node->line;
    if (rc == RT_OK) rc = rt_j_iter(r, loop->iterable, &loop->it);
    if (rc == RT_OK && node->c) rc = open_condition(r, node, loop);
    return rc == RT_OK ? run_loop(r, node, loop, flow) : rc;
}
