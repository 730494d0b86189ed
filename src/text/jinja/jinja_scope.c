/* jinja_scope.c - which names a scope hides from the beginning.
 *
 * Owns: one rule of Jinja that is not a matter of order in time. Jinja decides when compiling where a name lives. A
 * name that a scope assigns before reading it, and that no outer scope knows, is undefined there until the assignment
 * runs, even when the caller gave a variable of that name: `{% set x %}{{ x }}{% endset %}` prints nothing for x. An
 * assignment inside an `if` does not count, because the name may stay what it was. Names that are not hidden are looked
 * up when they are needed. */
#include "text/jinja/jinja_ast.h"

#include <string.h>

typedef enum how { UNKNOWN, GIVEN, LOOKED_UP, UNDEFINED } how;

/* The names of one scope, by symbol. */
typedef struct names {
    const struct names *parent;
    uint8_t *how;    /* how the name comes to be known here */
    uint8_t *stored; /* whether it is assigned here */
} names;

typedef struct finder {
    rt_jrun *r;
    uint32_t n; /* symbols */
} finder;

static int visit(finder *f, names *s, const rt_jnode *node);

static bool known(const names *s, uint32_t symbol)
{
    for (; s; s = s->parent)
        if (s->how[symbol] != UNKNOWN) return true;
    return false;
}

static int new_names(finder *f, const names *parent, const names *copy, names *out)
{
    uint8_t *bytes = rt_j_alloc(f->r, 2 * (size_t)f->n + 1);
    if (!bytes) return rt_j_status(f->r);
    *out = (names){ .parent = parent, .how = bytes, .stored = bytes + f->n };
    if (copy) {
        memcpy(out->how, copy->how, f->n);
        memcpy(out->stored, copy->stored, f->n);
    }
    return rt_j_tick(f->r, f->n / 64);
}

/* ---- what a scope reads and assigns ---- */

static void load(names *s, uint32_t symbol)
{
    if (!known(s, symbol)) s->how[symbol] = LOOKED_UP;
}

static void store(names *s, uint32_t symbol)
{
    s->stored[symbol] = 1;
    if (s->how[symbol] != UNKNOWN) return;
    s->how[symbol] = known(s->parent, symbol) ? LOOKED_UP : UNDEFINED;
}

static void store_target(names *s, const rt_jnode *target, bool param)
{
    if (target->kind == RT_JN_TUPLE) {
        for (uint32_t i = 0; i < target->n; i++) store_target(s, target->list[i], param);
    } else if (target->kind == RT_JN_NS_TARGET) {
        load(s, target->symbol);
    } else if (param) {
        s->stored[target->symbol] = 1;
        s->how[target->symbol] = GIVEN;
    } else {
        store(s, target->symbol);
    }
}

static int visit_list(finder *f, names *s, rt_jnode *const *list, uint32_t n, uint32_t step, uint32_t from)
{
    int rc = RT_OK;
    for (uint32_t i = from; i < n && rc == RT_OK; i += step) rc = visit(f, s, list[i]);
    return rc;
}

/* A branch sees what came before it; what it assigns may or may not have happened afterwards. */
static int visit_branch(finder *f, names *s, names *after, const rt_jnode *body)
{
    names branch;
    if (!body) return RT_OK;
    int rc = new_names(f, s->parent, s, &branch);
    if (rc == RT_OK) rc = visit(f, &branch, body);
    for (uint32_t i = 0; i < f->n && rc == RT_OK; i++) {
        if (branch.how[i] != UNKNOWN) after->how[i] = branch.how[i];
        after->stored[i] |= branch.stored[i];
    }
    return rc;
}

static int visit_if(finder *f, names *s, const rt_jnode *node)
{
    names after;
    int rc = new_names(f, s->parent, s, &after);
    for (uint32_t i = 0; i + 1 < node->n && rc == RT_OK; i += 2) {
        rc = visit(f, i == 0 ? s : &after, node->list[i]);
        if (rc == RT_OK) rc = visit_branch(f, s, &after, node->list[i + 1]);
    }
    if (rc == RT_OK) rc = visit_branch(f, s, &after, node->a);
    for (uint32_t i = 0; i < f->n && rc == RT_OK; i++) {
        bool maybe = after.stored[i] && !s->stored[i];
        if (after.how[i] != UNKNOWN) s->how[i] = maybe ? LOOKED_UP : after.how[i];
        s->stored[i] |= after.stored[i];
    }
    return rc;
}

static int visit_args(finder *f, names *s, const rt_jcall_node *args)
{
    if (!args) return RT_OK;
    int rc = visit_list(f, s, args->pos, args->n_pos, 1, 0);
    if (rc == RT_OK) rc = visit_list(f, s, args->kw, args->n_kw, 1, 0);
    if (rc == RT_OK && args->star) rc = visit(f, s, args->star);
    if (rc == RT_OK && args->star_star) rc = visit(f, s, args->star_star);
    return rc;
}

static int visit_expression(finder *f, names *s, const rt_jnode *node)
{
    const rt_jnode *parts[] = { node->a, node->b, node->c, node->d };
    int rc = visit_list(f, s, node->list, node->n, 1, 0);
    for (int i = 0; i < 4 && rc == RT_OK; i++)
        if (parts[i]) rc = visit(f, s, parts[i]);
    return rc == RT_OK ? visit_args(f, s, node->args) : rc;
}

/* Bodies with a scope of their own are left out: they have their turn in open_scopes. */
static int visit_node(finder *f, names *s, const rt_jnode *node)
{
    int rc;
    switch (node->kind) {
    case RT_JN_NAME: load(s, node->symbol); return RT_OK;
    case RT_JN_IF: return visit_if(f, s, node);
    case RT_JN_FOR: return visit(f, s, node->b);
    case RT_JN_SET:
        rc = visit(f, s, node->b);
        if (rc == RT_OK) store_target(s, node->a, false);
        return rc;
    case RT_JN_SET_BLOCK: store_target(s, node->a, false); return RT_OK;
    case RT_JN_MACRO: store(s, node->symbol); return RT_OK;
    case RT_JN_CALL_BLOCK: return visit(f, s, node->a);
    case RT_JN_FILTER_BLOCK: return visit(f, s, node->b);
    case RT_JN_WITH: return visit_list(f, s, node->list, node->n, 2, 1);
    case RT_JN_GENERATION: return RT_OK;
    default: return visit_expression(f, s, node); /* and plain lists of statements */
    }
}

static int visit(finder *f, names *s, const rt_jnode *node)
{
    int rc = rt_j_enter(f->r);
    if (rc < 0) return rc;
    rc = visit_node(f, s, node);
    rt_j_leave(f->r);
    return rc;
}

/* ---- scopes inside scopes ---- */

static int open_scopes(finder *f, const names *outer, const rt_jnode *node);

/* The body of a scope, whose own names (parameters, targets) are in s already. */
static int close_scope(finder *f, names *s, rt_jnode *body)
{
    if (!body) return RT_OK;
    int rc = visit(f, s, body);
    if (rc < 0) return rc;
    uint32_t n = 0;
    for (uint32_t i = 0; i < f->n; i++) n += s->how[i] == UNDEFINED;
    if (n > 0 && !(body->hidden = rt_j_alloc(f->r, n * sizeof *body->hidden))) return rt_j_status(f->r);
    for (uint32_t i = 0; i < f->n; i++)
        if (s->how[i] == UNDEFINED) body->hidden[body->n_hidden++] = i;
    return open_scopes(f, s, body);
}

static int open_macro(finder *f, const names *outer, const rt_jnode *node)
{
    names s;
    const rt_jparams *p = node->params;
    int rc = new_names(f, outer, NULL, &s);
    for (uint32_t i = 0; p && i < p->n && rc == RT_OK; i++) s.how[p->symbols[i]] = GIVEN;
    for (uint32_t i = 0; p && i < p->n && rc == RT_OK; i++)
        if (p->defaults[i]) rc = visit(f, &s, p->defaults[i]);
    if (rc < 0) return rc;
    if (p && p->uses_caller) s.how[RT_JS_CALLER] = GIVEN;
    if (p && p->uses_kwargs) s.how[RT_JS_KWARGS] = GIVEN;
    if (p && p->uses_varargs) s.how[RT_JS_VARARGS] = GIVEN;
    return close_scope(f, &s, node->d);
}

static int open_for(finder *f, const names *outer, const rt_jnode *node)
{
    names body, other;
    int rc = new_names(f, outer, NULL, &body);
    if (rc == RT_OK) rc = new_names(f, outer, NULL, &other);
    if (rc < 0) return rc;
    body.how[RT_JS_LOOP] = GIVEN;
    store_target(&body, node->a, true);
    rc = close_scope(f, &body, node->d);
    return rc == RT_OK ? close_scope(f, &other, node->e) : rc;
}

static int open_block(finder *f, const names *outer, const rt_jnode *node)
{
    names s;
    int rc = new_names(f, outer, NULL, &s);
    for (uint32_t i = 0; node->kind == RT_JN_WITH && i + 1 < node->n && rc == RT_OK; i += 2)
        store_target(&s, node->list[i], true);
    return rc == RT_OK ? close_scope(f, &s, node->d) : rc;
}

static int open_node(finder *f, const names *outer, const rt_jnode *node)
{
    int rc = RT_OK;
    switch (node->kind) {
    case RT_JN_FOR: return open_for(f, outer, node);
    case RT_JN_MACRO:
    case RT_JN_CALL_BLOCK: return open_macro(f, outer, node);
    case RT_JN_SET_BLOCK:
    case RT_JN_FILTER_BLOCK:
    case RT_JN_GENERATION:
    case RT_JN_WITH: return open_block(f, outer, node);
    case RT_JN_IF:
        for (uint32_t i = 1; i < node->n && rc == RT_OK; i += 2) rc = open_scopes(f, outer, node->list[i]);
        return rc == RT_OK && node->a ? open_scopes(f, outer, node->a) : rc;
    default: return RT_OK;
    }
}

static int open_scopes(finder *f, const names *outer, const rt_jnode *body)
{
    int rc = rt_j_enter(f->r);
    if (rc < 0) return rc;
    for (uint32_t i = 0; i < body->n && rc == RT_OK; i++) rc = open_node(f, outer, body->list[i]);
    rt_j_leave(f->r);
    return rc;
}

int rt_jinja_scopes(rt_jrun *r, rt_jnode *body, uint32_t n_symbols)
{
    finder f = { .r = r, .n = n_symbols };
    names root;
    int rc = new_names(&f, NULL, NULL, &root);
    return rc == RT_OK ? close_scope(&f, &root, body) : rc;
}
