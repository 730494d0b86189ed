/* jinja_exec.c - statements: text, assignments, conditions, blocks, macros.
 *
 * Owns: what each statement writes and which scope it opens. Loops are for jinja_loop.c. A body that is captured
 * (macro, block set, filter block) writes to the end of the same buffer and is cut off again. */
#include "text/jinja/jinja_eval.h"

/* ---- assignment ---- */

static int assign_namespace(rt_jrun *r, const rt_jnode *target, rt_jval value)
{
    rt_jval ns = rt_jscope_get(r, target->symbol);
    const rt_jstr *attr = target->value.s;
    if (ns.type != RT_J_NAMESPACE) return rt_j_fail(r, "cannot assign attribute on non-namespace object");
    if (attr->data[0] == '_')
        return rt_j_fail(r, "a namespace cannot hold the attribute '%.*s', whose name begins with an underscore",
                         (int)(attr->len < 60 ? attr->len : 60), attr->data);
    return rt_jdict_set(r, ns.d, target->value, value);
}

static int unpack(rt_jrun *r, const rt_jnode *target, rt_jval value)
{
    rt_jlist *items;
    int rc = rt_j_to_list(r, value, &items);
    if (rc < 0) return rc;
    if (items->n < target->n)
        return rt_j_fail(r, "not enough values to unpack (expected %u, got %u)", target->n, items->n);
    if (items->n > target->n) return rt_j_fail(r, "too many values to unpack (expected %u)", target->n);
    for (uint32_t i = 0; i < target->n && rc == RT_OK; i++) rc = rt_j_assign(r, target->list[i], items->items[i]);
    return rc;
}

int rt_j_assign(rt_jrun *r, const rt_jnode *target, rt_jval value)
{
    int rc = rt_j_enter(r);
    if (rc < 0) return rc;
    if (target->kind == RT_JN_NAME)
        rc = rt_jscope_set(r, target->symbol, value);
    else if (target->kind == RT_JN_NS_TARGET)
        rc = assign_namespace(r, target, value);
    else
        rc = unpack(r, target, value);
    rt_j_leave(r);
    return rc;
}

static int exec_set(rt_jrun *r, const rt_jnode *node)
{
    rt_jval value;
    int rc = rt_j_eval(r, node->b, &value);
    r->line = node->line;
    return rc == RT_OK ? rt_j_assign(r, node->a, value) : rc;
}

/* ---- bodies ---- */

static int exec_body(rt_jrun *r, const rt_jnode *body, rt_jflow *flow)
{
    int rc = RT_OK;
    for (uint32_t i = 0; i < body->n_hidden && rc == RT_OK; i++)
        rc = rt_jscope_set(r, body->hidden[i], rt_jv(RT_J_MISSING));
    for (uint32_t i = 0; i < body->n && rc == RT_OK && *flow == RT_JF_NEXT; i++) rc = rt_j_exec(r, body->list[i], flow);
    return rc;
}

/* A body, its text as a value. */
static int capture(rt_jrun *r, const rt_jnode *body, rt_jflow *flow, rt_jval *out)
{
    size_t mark = rt_j_mark(r);
    r->captures++;
    int rc = rt_j_exec(r, body, flow);
    r->captures--;
    return rc == RT_OK ? rt_j_cut(r, mark, out) : rc;
}

static int exec_set_block(rt_jrun *r, const rt_jnode *node, rt_jflow *flow)
{
    rt_jscope *outer = r->scope;
    rt_jval text;
    int rc = rt_jscope_push(r, outer);
    if (rc == RT_OK) rc = capture(r, node->d, flow, &text);
    if (rc == RT_OK && *flow == RT_JF_NEXT && node->b) rc = rt_j_eval_filters(r, node->b, text, &text);
    r->scope = outer;
    if (rc < 0 || *flow != RT_JF_NEXT) return rc;
    r->line = node->line;
    return rt_j_assign(r, node->a, text);
}

static int exec_filter_block(rt_jrun *r, const rt_jnode *node, rt_jflow *flow)
{
    rt_jscope *outer = r->scope;
    rt_jval text;
    int rc = rt_jscope_push(r, outer);
    if (rc == RT_OK) rc = capture(r, node->d, flow, &text);
    if (rc == RT_OK && *flow == RT_JF_NEXT) rc = rt_j_eval_filters(r, node->b, text, &text);
    if (rc == RT_OK && *flow == RT_JF_NEXT) rc = rt_j_put_str(r, text);
    r->scope = outer;
    return rc;
}

static int exec_with(rt_jrun *r, const rt_jnode *node, rt_jflow *flow)
{
    rt_jscope *outer = r->scope, *inner;
    int rc = rt_jscope_push(r, outer);
    if (rc < 0) return rc;
    inner = r->scope;
    for (uint32_t i = 0; i + 1 < node->n && rc == RT_OK; i += 2) {
        rt_jval value;
        r->scope = outer; /* values do not see the targets before them */
        rc = rt_j_eval(r, node->list[i + 1], &value);
        r->scope = inner;
        if (rc == RT_OK) rc = rt_j_assign(r, node->list[i], value);
    }
    if (rc == RT_OK) rc = rt_j_exec(r, node->d, flow);
    r->scope = outer;
    return rc;
}

static int exec_if(rt_jrun *r, const rt_jnode *node, rt_jflow *flow)
{
    for (uint32_t i = 0; i + 1 < node->n; i += 2) {
        rt_jval test;
        int rc = rt_j_eval(r, node->list[i], &test);
        if (rc < 0) return rc;
        if (rt_j_truth(test)) return rt_j_exec(r, node->list[i + 1], flow);
    }
    return node->a ? rt_j_exec(r, node->a, flow) : RT_OK;
}

static int exec_output(rt_jrun *r, const rt_jnode *node)
{
    int rc = RT_OK;
    for (uint32_t i = 0; i < node->n && rc == RT_OK; i++) {
        rt_jval value;
        rc = rt_j_eval(r, node->list[i], &value);
        r->line = node->line;
        if (rc == RT_OK) rc = rt_j_put_str(r, value);
    }
    return rc;
}

/* ---- generation blocks ---- */

static int add_range(rt_jrun *r, size_t begin)
{
    rt_jinja_result *res = r->result;
    if (r->out->len == begin) return RT_OK;
    if (!rt_grow((void **)&res->ranges, &res->cap_ranges, res->n_ranges + 1, sizeof *res->ranges))
        return rt_fail(r->e, RT_NOMEM, "template line %u: out of memory", r->line);
    res->ranges[res->n_ranges++] = (rt_text_range){ begin, r->out->len };
    return RT_OK;
}

/* Its body is a macro that is called at once: a scope of its own, but its text goes straight out. */
static int exec_generation(rt_jrun *r, const rt_jnode *node, rt_jflow *flow)
{
    rt_jscope *outer = r->scope;
    size_t begin = rt_j_mark(r);
    int rc = rt_jscope_push(r, outer);
    if (rc < 0) return rc;
    r->generations++;
    rc = rt_j_exec(r, node->d, flow);
    r->generations--;
    r->scope = outer;
    if (rc < 0 || r->generations > 0) return rc;
    if (r->captures == 0) return add_range(r, begin);
    r->result->ranges_lost = true;
    return RT_OK;
}

/* ---- macros ---- */

static int new_macro(rt_jrun *r, const rt_jnode *node, rt_jval *out)
{
    rt_jmacro *macro = rt_j_alloc(r, sizeof *macro);
    if (!macro) return rt_j_status(r);
    *macro = (rt_jmacro){ .name = node->name, .node = node, .scope = r->scope };
    *out = (rt_jval){ .type = RT_J_MACRO, .macro = macro };
    return RT_OK;
}

static int exec_macro(rt_jrun *r, const rt_jnode *node)
{
    rt_jval macro;
    int rc = new_macro(r, node, &macro);
    return rc == RT_OK ? rt_jscope_set(r, node->symbol, macro) : rc;
}

static int exec_call_block(rt_jrun *r, const rt_jnode *node)
{
    rt_jval callee, text;
    rt_jkw caller = { .name = r->tmpl->symbols[RT_JS_CALLER] };
    rt_jargs args;
    int rc = new_macro(r, node, &caller.value);
    if (rc == RT_OK) rc = rt_j_eval(r, node->a->a, &callee);
    if (rc == RT_OK) rc = rt_j_eval_args(r, node->a->args, &caller, &args);
    r->line = node->line;
    if (rc == RT_OK) rc = rt_j_call(r, callee, &args, &text);
    return rc == RT_OK ? rt_j_put_str(r, text) : rc;
}

/* Takes the keyword argument name out of kw (used: one flag each); missing when it is not there. */
static rt_jval take_keyword(rt_jrun *r, const rt_jargs *args, bool *used, const rt_jstr *name)
{
    for (uint32_t i = 0; i < args->n_kw; i++) {
        if (used[i] || !rt_jstr_equal(r, args->kw[i].name, name)) continue;
        used[i] = true;
        return args->kw[i].value;
    }
    return rt_jv(RT_J_MISSING);
}

/* The names that a macro's body may read without declaring them: caller, kwargs, varargs. */
static int bind_special(rt_jrun *r, const rt_jmacro *macro, const rt_jargs *args, bool *used)
{
    const rt_jparams *p = macro->node->params;
    int rc = RT_OK;
    if (p->uses_caller) {
        rt_jval caller = take_keyword(r, args, used, r->tmpl->symbols[RT_JS_CALLER]);
        if (caller.type == RT_J_MISSING || caller.type == RT_J_NONE)
            rc = rt_jundef_hint(r, "No caller defined", &caller);
        if (rc == RT_OK) rc = rt_jscope_set(r, RT_JS_CALLER, caller);
    }
    rt_jdict *rest = NULL;
    if (rc == RT_OK && p->uses_kwargs) rc = rt_jdict_new(r, args->n_kw, &rest);
    for (uint32_t i = 0; i < args->n_kw && rc == RT_OK; i++) {
        if (used[i]) continue;
        const rt_jstr *name = args->kw[i].name;
        if (!rest) return rt_j_fail(r, "the macro takes no keyword argument '%.*s'", (int)name->len, name->data);
        rt_jval key;
        rc = rt_jstr_part(r, name, 0, name->len, &key);
        if (rc == RT_OK) rc = rt_jdict_set(r, rest, key, args->kw[i].value);
    }
    if (rc == RT_OK && rest) rc = rt_jscope_set(r, RT_JS_KWARGS, (rt_jval){ .type = RT_J_DICT, .d = rest });
    if (rc < 0 || (!p->uses_varargs && args->n_pos <= p->n)) return rc;
    if (!p->uses_varargs) return rt_j_fail(r, "the macro takes not more than %u argument(s)", p->n);
    rt_jlist *more;
    rc = rt_jlist_new(r, 0, &more);
    for (uint32_t i = p->n; i < args->n_pos && rc == RT_OK; i++) rc = rt_jlist_push(r, more, args->pos[i]);
    return rc == RT_OK ? rt_jscope_set(r, RT_JS_VARARGS, rt_jv_list(RT_J_TUPLE, more)) : rc;
}

static int bind_params(rt_jrun *r, const rt_jmacro *macro, const rt_jargs *args)
{
    const rt_jparams *p = macro->node->params;
    bool *used = rt_j_alloc(r, args->n_kw);
    if (!used) return rt_j_status(r);
    int rc = RT_OK;
    for (uint32_t i = 0; i < p->n && rc == RT_OK; i++) {
        rt_jval v = i < args->n_pos ? args->pos[i] : take_keyword(r, args, used, p->names[i]);
        rc = rt_jscope_set(r, p->symbols[i], v);
        if (rc == RT_OK) rc = rt_j_tick(r, args->n_kw);
    }
    if (rc == RT_OK) rc = bind_special(r, macro, args, used);
    /* Defaults see the parameters before them, and those given; not yet those that have theirs still to come. */
    for (uint32_t i = 0; i < p->n && rc == RT_OK; i++) {
        rt_jval v = rt_jscope_get(r, p->symbols[i]);
        if (v.type != RT_J_MISSING) continue;
        rc = p->defaults[i] ? rt_j_eval(r, p->defaults[i], &v) : rt_jundef_name(r, p->names[i], &v);
        if (rc == RT_OK) rc = rt_jscope_set(r, p->symbols[i], v);
    }
    return rc;
}

int rt_j_call_macro(rt_jrun *r, const rt_jmacro *macro, const rt_jargs *args, rt_jval *out)
{
    rt_jscope *scope = r->scope;
    rt_jflow flow = RT_JF_NEXT;
    uint32_t line = r->line, generations = r->generations;
    int rc = rt_j_enter(r);
    if (rc == RT_OK) rc = rt_jscope_push(r, macro->scope);
    if (rc == RT_OK) rc = bind_params(r, macro, args);
    r->generations = 0; /* a block in here is not inside one where the macro is called */
    if (rc == RT_OK) rc = capture(r, macro->node->d, &flow, out);
    r->generations = generations;
    r->scope = scope;
    if (rc < 0) return rc;
    r->line = line;
    rt_j_leave(r);
    return RT_OK;
}

/* ---- the walk ---- */

static int exec_node(rt_jrun *r, const rt_jnode *node, rt_jflow *flow)
{
    switch (node->kind) {
    case RT_JN_BODY: return exec_body(r, node, flow);
    case RT_JN_DATA: return rt_j_put(r, node->value.s->data, node->value.s->len);
    case RT_JN_OUTPUT: return exec_output(r, node);
    case RT_JN_IF: return exec_if(r, node, flow);
    case RT_JN_FOR: return rt_j_exec_for(r, node, flow);
    case RT_JN_SET: return exec_set(r, node);
    case RT_JN_SET_BLOCK: return exec_set_block(r, node, flow);
    case RT_JN_MACRO: return exec_macro(r, node);
    case RT_JN_CALL_BLOCK: return exec_call_block(r, node);
    case RT_JN_FILTER_BLOCK: return exec_filter_block(r, node, flow);
    case RT_JN_WITH: return exec_with(r, node, flow);
    case RT_JN_BREAK: *flow = RT_JF_BREAK; return RT_OK;
    case RT_JN_CONTINUE: *flow = RT_JF_CONTINUE; return RT_OK;
    case RT_JN_GENERATION: return exec_generation(r, node, flow);
    default: return rt_fail(r->e, RT_INTERNAL, "template line %u: a value where a statement should be", node->line);
    }
}

int rt_j_exec(rt_jrun *r, const rt_jnode *node, rt_jflow *flow)
{
    int rc = rt_j_enter(r);
    if (rc < 0) return rc;
    r->line = node->line;
    rc = exec_node(r, node, flow);
    rt_j_leave(r);
    return rc;
}
