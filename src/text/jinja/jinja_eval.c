/* jinja_eval.c - the value of an expression.
 *
 * Owns: the walk over expression nodes and the names in sight. Operators, access, filters and calls do their work in
 * files of their own. */
#include "text/jinja/jinja_eval.h"

/* ---- names ---- */

int rt_jscope_push(rt_jrun *r, rt_jscope *parent)
{
    rt_jscope *s = rt_j_alloc(r, sizeof *s);
    if (!s) return rt_j_status(r);
    s->parent = parent;
    r->scope = s;
    return RT_OK;
}

int rt_jscope_set(rt_jrun *r, uint32_t symbol, rt_jval value)
{
    if (!r->scope) {
        r->globals[symbol] = value;
        return RT_OK;
    }
    for (rt_jvar *v = r->scope->vars; v; v = v->next) {
        if (v->symbol != symbol) continue;
        v->value = value;
        return RT_OK;
    }
    rt_jvar *v = rt_j_alloc(r, sizeof *v);
    if (!v) return rt_j_status(r);
    *v = (rt_jvar){ symbol, value, r->scope->vars };
    r->scope->vars = v;
    return RT_OK;
}

rt_jval rt_jscope_get(const rt_jrun *r, uint32_t symbol)
{
    for (const rt_jscope *s = r->scope; s; s = s->parent)
        for (const rt_jvar *v = s->vars; v; v = v->next)
            if (v->symbol == symbol) return v->value;
    return r->globals[symbol];
}

static int eval_name(rt_jrun *r, const rt_jnode *node, rt_jval *out)
{
    *out = rt_jscope_get(r, node->symbol);
    return out->type == RT_J_MISSING ? rt_jundef_name(r, node->name, out) : RT_OK;
}

/* ---- literals ---- */

static int eval_list(rt_jrun *r, const rt_jnode *node, rt_jtype type, rt_jval *out)
{
    rt_jlist *l;
    int rc = rt_jlist_new(r, node->n, &l);
    if (rc < 0) return rc;
    for (uint32_t i = 0; i < node->n && rc == RT_OK; i++) rc = rt_j_eval(r, node->list[i], &l->items[l->n++]);
    *out = rt_jv_list(type, l);
    return rc;
}

static int eval_dict(rt_jrun *r, const rt_jnode *node, rt_jval *out)
{
    rt_jdict *d;
    int rc = rt_jdict_new(r, node->n / 2, &d);
    if (rc < 0) return rc;
    for (uint32_t i = 0; i + 1 < node->n && rc == RT_OK; i += 2) {
        rt_jval key, value;
        rc = rt_j_eval(r, node->list[i], &key);
        if (rc == RT_OK) rc = rt_j_eval(r, node->list[i + 1], &value);
        if (rc == RT_OK) rc = rt_jdict_set(r, d, key, value);
    }
    *out = (rt_jval){ .type = RT_J_DICT, .d = d };
    return rc;
}

/* ---- operators ---- */

static int eval_unary(rt_jrun *r, const rt_jnode *node, rt_jval *out)
{
    rt_jval v;
    int rc = rt_j_eval(r, node->a, &v);
    r->line = node->line;
    return rc == RT_OK ? rt_j_negate(r, v, node->op == '-', out) : rc;
}

static int eval_binary(rt_jrun *r, const rt_jnode *node, rt_jval *out)
{
    rt_jval a, b;
    int rc = rt_j_eval(r, node->a, &a);
    if (rc == RT_OK) rc = rt_j_eval(r, node->b, &b);
    r->line = node->line;
    return rc == RT_OK ? rt_j_binary(r, (rt_jop)node->op, a, b, out) : rc;
}

/* `and` and `or` give one of their operands, not a bool. */
static int eval_logic(rt_jrun *r, const rt_jnode *node, rt_jval *out)
{
    int rc = rt_j_eval(r, node->a, out);
    if (rc < 0 || rt_j_truth(*out) == (node->kind == RT_JN_OR)) return rc;
    return rt_j_eval(r, node->b, out);
}

static int compare(rt_jrun *r, rt_jcompare op, rt_jval a, rt_jval b, bool *out)
{
    int rc;
    switch (op) {
    case RT_JC_EQ:
    case RT_JC_NE: rc = rt_j_equal(r, a, b, out); break;
    case RT_JC_LT: return rt_j_compare(r, RT_J_LT, a, b, out);
    case RT_JC_LE: return rt_j_compare(r, RT_J_LE, a, b, out);
    case RT_JC_GT: return rt_j_compare(r, RT_J_GT, a, b, out);
    case RT_JC_GE: return rt_j_compare(r, RT_J_GE, a, b, out);
    default: rc = rt_j_contains(r, b, a, out); break;
    }
    if (op == RT_JC_NE || op == RT_JC_NOT_IN) *out = !*out;
    return rc;
}

/* a < b < c: each operand is evaluated once, and no further than the first that does not hold. */
static int eval_compare(rt_jrun *r, const rt_jnode *node, rt_jval *out)
{
    rt_jval left, right;
    bool holds = true;
    int rc = rt_j_eval(r, node->a, &left);
    for (uint32_t i = 0; i < node->n && holds && rc == RT_OK; i++) {
        rc = rt_j_eval(r, node->list[i]->a, &right);
        r->line = node->line;
        if (rc == RT_OK) rc = compare(r, (rt_jcompare)node->list[i]->op, left, right, &holds);
        left = right;
    }
    *out = rt_jv_bool(holds);
    return rc;
}

static int eval_concat(rt_jrun *r, const rt_jnode *node, rt_jval *out)
{
    /* All operands are evaluated before the first is turned into text. */
    rt_jval parts;
    int rc = eval_list(r, node, RT_J_LIST, &parts);
    size_t mark = rt_j_mark(r);
    r->line = node->line;
    if (rc == RT_OK && parts.l->n == 2 && parts.l->items[0].type == RT_J_STR && parts.l->items[1].type == RT_J_STR &&
        !parts.l->items[0].s->markup && !parts.l->items[1].s->markup)
        return rt_jstr_concat(r, parts.l->items[0].s, parts.l->items[1].s, out);
    for (uint32_t i = 0; i < node->n && rc == RT_OK; i++) rc = rt_j_put_str(r, parts.l->items[i]);
    return rc == RT_OK ? rt_j_cut(r, mark, out) : rc;
}

static int eval_cond(rt_jrun *r, const rt_jnode *node, rt_jval *out)
{
    rt_jval test;
    int rc = rt_j_eval(r, node->a, &test);
    if (rc < 0) return rc;
    if (rt_j_truth(test)) return rt_j_eval(r, node->b, out);
    if (node->c) return rt_j_eval(r, node->c, out);
    return rt_jundef_hint(r, "the inline if-expression evaluated to false and no else section was defined", out);
}

/* ---- access and calls ---- */

static int eval_access(rt_jrun *r, const rt_jnode *node, rt_jval *out)
{
    rt_jval object, key;
    int rc = rt_j_eval(r, node->a, &object);
    if (rc == RT_OK && node->kind == RT_JN_ITEM) rc = rt_j_eval(r, node->b, &key);
    if (rc < 0) return rc;
    r->line = node->line;
    return node->kind == RT_JN_ITEM ? rt_j_getitem(r, object, key, out) : rt_j_getattr(r, object, node->name, out);
}

static int eval_slice(rt_jrun *r, const rt_jnode *node, rt_jval *out)
{
    rt_jval object, parts[3];
    const rt_jnode *nodes[] = { node->b, node->c, node->d };
    int rc = rt_j_eval(r, node->a, &object);
    for (int i = 0; i < 3 && rc == RT_OK; i++) {
        parts[i] = rt_jv(RT_J_NONE);
        if (nodes[i]) rc = rt_j_eval(r, nodes[i], &parts[i]);
    }
    r->line = node->line;
    return rc == RT_OK ? rt_j_slice(r, object, parts[0], parts[1], parts[2], out) : rc;
}

/* **kwargs after the named ones. */
static int add_keywords(rt_jrun *r, rt_jval v, rt_jkw *kw, uint32_t *n, uint32_t cap)
{
    for (uint32_t i = 0; i < v.d->n && *n < cap; i++) {
        if (v.d->items[i].key.type != RT_J_STR) return rt_j_fail(r, "keywords must be strings");
        const rt_jstr *name = v.d->items[i].key.s;
        for (uint32_t k = 0; k < *n; k++)
            if (rt_jstr_equal(r, kw[k].name, name)) return rt_j_fail(r, "got multiple values for a keyword argument");
        kw[(*n)++] = (rt_jkw){ name, v.d->items[i].value };
        int rc = rt_j_tick(r, *n / 16);
        if (rc < 0) return rc;
    }
    return RT_OK;
}

int rt_j_eval_args(rt_jrun *r, const rt_jcall_node *node, const rt_jkw *extra, rt_jargs *out)
{
    static const rt_jcall_node none;
    rt_jval more = { 0 }, named = { 0 };
    rt_jlist *pos, *rest = NULL;
    *out = (rt_jargs){ 0 };
    if (!node) node = &none;
    int rc = rt_jlist_new(r, node->n_pos, &pos);
    for (uint32_t i = 0; i < node->n_pos && rc == RT_OK; i++) rc = rt_j_eval(r, node->pos[i], &pos->items[pos->n++]);
    if (rc == RT_OK && node->star) rc = rt_j_eval(r, node->star, &more);
    if (rc == RT_OK && node->star) rc = rt_j_to_list(r, more, &rest);
    for (uint32_t i = 0; rest && i < rest->n && rc == RT_OK; i++) rc = rt_jlist_push(r, pos, rest->items[i]);
    uint32_t n = 0, cap = node->n_kw + (extra != NULL);
    rt_jkw *kw = NULL;
    if (rc == RT_OK && cap > 0 && !(kw = rt_j_alloc(r, cap * sizeof *kw))) rc = rt_j_status(r);
    for (uint32_t i = 0; i < node->n_kw && rc == RT_OK; i++) {
        kw[n].name = node->kw_names[i];
        rc = rt_j_eval(r, node->kw[i], &kw[n++].value);
    }
    if (rc == RT_OK && extra) kw[n++] = *extra;
    if (rc == RT_OK && node->star_star) {
        rc = rt_j_eval(r, node->star_star, &named);
        if (rc == RT_OK && named.type != RT_J_DICT) rc = rt_j_fail(r, "argument after ** must be a mapping");
        if (rc < 0) return rc;
        rt_jkw *all = rt_j_alloc(r, (n + (size_t)named.d->n) * sizeof *all);
        if (!all) return rt_j_status(r);
        for (uint32_t i = 0; i < n; i++) all[i] = kw[i];
        kw = all;
        rc = add_keywords(r, named, kw, &n, n + named.d->n);
    }
    if (rc < 0) return rc;
    *out = (rt_jargs){ .pos = pos->items, .n_pos = pos->n, .kw = kw, .n_kw = n };
    return RT_OK;
}

static int eval_call(rt_jrun *r, const rt_jnode *node, rt_jval *out)
{
    rt_jval callee;
    rt_jargs args;
    int rc = rt_j_eval(r, node->a, &callee);
    if (rc == RT_OK) rc = rt_j_eval_args(r, node->args, NULL, &args);
    r->line = node->line;
    return rc == RT_OK ? rt_j_call(r, callee, &args, out) : rc;
}

/* A filter or test, its value already known. */
static int apply(rt_jrun *r, const rt_jnode *node, rt_jval value, rt_jval *out)
{
    rt_jargs args;
    bool known;
    int rc = rt_j_eval_args(r, node->args, NULL, &args);
    r->line = node->line;
    if (rc < 0) return rc;
    if (node->builtin) return rt_j_call_builtin(r, node->builtin, value, &args, out);
    bool filter = node->kind == RT_JN_FILTER;
    if (filter)
        rt_j_filter_find(node->name->data, node->name->len, &known);
    else
        rt_j_test_find(node->name->data, node->name->len, &known);
    return rt_j_no_builtin(r, filter ? "filter" : "test", node->name->data, node->name->len, known);
}

static int eval_applied(rt_jrun *r, const rt_jnode *node, rt_jval *out)
{
    rt_jval value;
    int rc = rt_j_eval(r, node->a, &value);
    return rc == RT_OK ? apply(r, node, value, out) : rc;
}

int rt_j_eval_filters(rt_jrun *r, const rt_jnode *node, rt_jval text, rt_jval *out)
{
    rt_jval value = text;
    int rc = rt_j_enter(r);
    if (rc < 0) return rc;
    if (node->a) rc = rt_j_eval_filters(r, node->a, text, &value);
    if (rc == RT_OK) rc = apply(r, node, value, out);
    rt_j_leave(r);
    return rc;
}

/* ---- the walk ---- */

static int eval_node(rt_jrun *r, const rt_jnode *node, rt_jval *out)
{
    switch (node->kind) {
    case RT_JN_CONST: *out = node->value; return RT_OK;
    case RT_JN_NAME: return eval_name(r, node, out);
    case RT_JN_TUPLE: return eval_list(r, node, RT_J_TUPLE, out);
    case RT_JN_LIST: return eval_list(r, node, RT_J_LIST, out);
    case RT_JN_DICT: return eval_dict(r, node, out);
    case RT_JN_ATTR:
    case RT_JN_ITEM: return eval_access(r, node, out);
    case RT_JN_SLICE: return eval_slice(r, node, out);
    case RT_JN_CALL: return eval_call(r, node, out);
    case RT_JN_FILTER:
    case RT_JN_TEST: return eval_applied(r, node, out);
    case RT_JN_UNARY: return eval_unary(r, node, out);
    case RT_JN_BINARY: return eval_binary(r, node, out);
    case RT_JN_AND:
    case RT_JN_OR: return eval_logic(r, node, out);
    case RT_JN_NOT: {
        int rc = rt_j_eval(r, node->a, out);
        if (rc == RT_OK) *out = rt_jv_bool(!rt_j_truth(*out));
        return rc;
    }
    case RT_JN_COMPARE: return eval_compare(r, node, out);
    case RT_JN_CONCAT: return eval_concat(r, node, out);
    case RT_JN_COND: return eval_cond(r, node, out);
    default: return rt_fail(r->e, RT_INTERNAL, "template line %u: a statement where a value should be", node->line);
    }
}

int rt_j_eval(rt_jrun *r, const rt_jnode *node, rt_jval *out)
{
    int rc = rt_j_enter(r);
    if (rc < 0) return rc;
    r->line = node->line;
    rc = eval_node(r, node, out);
    rt_j_leave(r);
    return rc;
}
