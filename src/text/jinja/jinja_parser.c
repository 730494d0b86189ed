/* jinja_parser.c - statements: from tokens to the tree of a template.
 *
 * Owns: the tags, names as symbols, what is refused when compiling. Expressions are for jinja_parse_expr.c. */
#include "text/jinja/jinja_ast.h"

#include <string.h>

/* ---- tokens ---- */

bool rt_jat_name(const rt_jtoken *t, const char *name) { return t->kind == RT_JT_NAME && rt_jstr_is(t->value.s, name); }

bool rt_jskip_name(rt_jparser *p, const char *name)
{
    if (!rt_jat_name(rt_jpeek(p), name)) return false;
    p->at++;
    return true;
}

bool rt_jskip(rt_jparser *p, int kind)
{
    if (rt_jpeek(p)->kind != kind) return false;
    p->at++;
    return true;
}

int rt_junexpected(rt_jparser *p, const char *wanted)
{
    enum { SHOWN = 60 };
    const rt_jtoken *t = rt_jpeek(p);
    p->r->line = t->line;
    if (t->kind == RT_JT_NAME || t->kind == RT_JT_STRING) {
        const rt_jstr *s = t->value.s;
        return rt_j_fail(p->r, "expected %s, got '%.*s'", wanted, (int)(s->len < SHOWN ? s->len : SHOWN), s->data);
    }
    if (t->kind > 256) return rt_j_fail(p->r, "expected %s, got '%c%c'", wanted, t->kind / 256, t->kind % 256);
    if (t->kind > RT_JT_OPERATOR) return rt_j_fail(p->r, "expected %s, got '%c'", wanted, t->kind);
    static const char *const names[] = {
        [RT_JT_END] = "the end of the template",
        [RT_JT_DATA] = "text",
        [RT_JT_VAR_BEGIN] = "'{{'",
        [RT_JT_VAR_END] = "the end of the tag",
        [RT_JT_BLOCK_BEGIN] = "'{%'",
        [RT_JT_BLOCK_END] = "the end of the tag",
        [RT_JT_INT] = "a number",
        [RT_JT_FLOAT] = "a number",
    };
    return rt_j_fail(p->r, "expected %s, got %s", wanted, names[t->kind]);
}

int rt_jexpect(rt_jparser *p, int kind, const char *what)
{
    if (rt_jpeek(p)->kind != kind) return rt_junexpected(p, what);
    p->at++;
    return RT_OK;
}

/* ---- nodes and symbols ---- */

int rt_jnode_new(rt_jparser *p, rt_jkind kind, uint32_t line, rt_jnode **out)
{
    p->r->line = line;
    rt_jnode *node = rt_j_alloc(p->r, sizeof *node);
    if (!node) return rt_j_status(p->r);
    node->kind = kind;
    node->line = line;
    *out = node;
    return RT_OK;
}

int rt_jnodes_push(rt_jparser *p, rt_jnodes *list, rt_jnode *node)
{
    if (list->n == list->cap) {
        uint32_t cap = list->cap ? 2 * list->cap : 4;
        rt_jnode **bigger = rt_j_alloc(p->r, cap * sizeof *bigger);
        if (!bigger) return rt_j_status(p->r);
        if (list->n > 0) memcpy(bigger, list->items, list->n * sizeof *bigger);
        list->items = bigger;
        list->cap = cap;
    }
    list->items[list->n++] = node;
    return RT_OK;
}

int rt_jsymbol(rt_jparser *p, const rt_jstr *name, uint32_t *out)
{
    rt_jinja *t = p->tmpl;
    int rc = rt_j_tick(p->r, t->n_symbols / 16);
    if (rc < 0) return rc;
    for (uint32_t i = 0; i < t->n_symbols; i++) {
        if (!rt_jstr_equal(p->r, t->symbols[i], name)) continue;
        *out = i;
        return RT_OK;
    }
    if (t->n_symbols == p->cap_symbols) {
        uint32_t cap = p->cap_symbols ? 2 * p->cap_symbols : 32;
        const rt_jstr **bigger = rt_j_alloc(p->r, cap * sizeof *bigger);
        if (!bigger) return rt_j_status(p->r);
        if (t->n_symbols > 0) memcpy(bigger, t->symbols, t->n_symbols * sizeof *bigger);
        t->symbols = bigger;
        p->cap_symbols = cap;
    }
    *out = t->n_symbols;
    t->symbols[t->n_symbols++] = name;
    return RT_OK;
}

/* ---- targets of assignments ---- */

static int check_target(rt_jparser *p, const rt_jnode *node)
{
    int rc = rt_j_enter(p->r);
    if (rc < 0) return rc;
    p->r->line = node->line;
    if (node->kind == RT_JN_TUPLE) {
        for (uint32_t i = 0; i < node->n && rc == RT_OK; i++) rc = check_target(p, node->list[i]);
    } else if (node->kind == RT_JN_NAME && node->symbol == RT_JS_LOOP && p->loops > 0) {
        rc = rt_j_fail(p->r, "the special variable 'loop' cannot be assigned to inside a loop");
    } else if (node->kind != RT_JN_NAME && node->kind != RT_JN_NS_TARGET) {
        rc = rt_j_fail(p->r, "what stands before '=' (or after 'for') cannot be assigned to");
    }
    rt_j_leave(p->r);
    return rc;
}

static int parse_target(rt_jparser *p, int mode, rt_jnode **out)
{
    uint32_t seen = p->seen; /* being assigned to is not being read */
    int rc = rt_jparse_tuple(p, mode | RT_JP_TARGET, out);
    p->seen = seen;
    return rc == RT_OK ? check_target(p, *out) : rc;
}

/* A name that can be assigned to. */
static int parse_name(rt_jparser *p, const rt_jstr **name, uint32_t *symbol)
{
    static const char *const constants[] = { "true", "false", "none", "True", "False", "None" };
    const rt_jtoken *t = rt_jpeek(p);
    int rc = rt_jexpect(p, RT_JT_NAME, "a name");
    if (rc < 0) return rc;
    for (size_t i = 0; i < sizeof constants / sizeof *constants; i++)
        if (rt_jstr_is(t->value.s, constants[i])) return rt_j_fail(p->r, "cannot assign to '%s'", constants[i]);
    *name = t->value.s;
    return rt_jsymbol(p, *name, symbol);
}

/* ---- bodies ---- */

static int parse_statement(rt_jparser *p, rt_jnode **out);

static bool at_any(const rt_jparser *p, const char *const *ends)
{
    for (; ends && *ends; ends++)
        if (rt_jat_name(rt_jpeek(p), *ends)) return true;
    return false;
}

static int parse_output(rt_jparser *p, rt_jnode **out)
{
    rt_jnodes list = { 0 };
    rt_jnode *value;
    uint32_t line = rt_jpeek(p)->line;
    p->at++;
    int rc = rt_jparse_tuple(p, RT_JP_FULL, &value);
    if (rc == RT_OK) rc = rt_jexpect(p, RT_JT_VAR_END, "the end of the tag '}}'");
    if (rc == RT_OK) rc = rt_jnodes_push(p, &list, value);
    if (rc == RT_OK) rc = rt_jnode_new(p, RT_JN_OUTPUT, line, out);
    if (rc < 0) return rc;
    (*out)->list = list.items;
    (*out)->n = list.n;
    return RT_OK;
}

/* Text and statements up to a tag in ends (which stays current, its name), or the end of the template where ends is
 * null. */
static int parse_body(rt_jparser *p, const char *const *ends, rt_jnode **out)
{
    rt_jnodes list = { 0 };
    rt_jnode *node = NULL;
    uint32_t line = rt_jpeek(p)->line;
    int rc = rt_j_enter(p->r);
    if (rc < 0) return rc;
    while (rc == RT_OK && rt_jpeek(p)->kind != RT_JT_END) {
        const rt_jtoken *t = rt_jpeek(p);
        if (t->kind == RT_JT_DATA) {
            rc = rt_jnode_new(p, RT_JN_DATA, t->line, &node);
            if (rc == RT_OK) node->value = t->value;
            p->at++;
        } else if (t->kind == RT_JT_VAR_BEGIN) {
            rc = parse_output(p, &node);
        } else {
            p->at++; /* {% */
            if (at_any(p, ends)) break;
            rc = parse_statement(p, &node);
            if (rc == RT_OK) rc = rt_jexpect(p, RT_JT_BLOCK_END, "the end of the tag '%}'");
        }
        if (rc == RT_OK) rc = rt_jnodes_push(p, &list, node);
    }
    rt_j_leave(p->r);
    if (rc < 0) return rc;
    if (ends && rt_jpeek(p)->kind == RT_JT_END) {
        p->r->line = line;
        return rt_j_fail(p->r, "the block that begins here lacks its {%% %s %%}", ends[0]);
    }
    rc = rt_jnode_new(p, RT_JN_BODY, line, out);
    if (rc < 0) return rc;
    (*out)->list = list.items;
    (*out)->n = list.n;
    return RT_OK;
}

/* The rest of an opening tag, and its body up to one of ends. */
static int parse_block(rt_jparser *p, const char *const *ends, bool drop, rt_jnode **out)
{
    rt_jskip(p, ':'); /* as Python has it */
    int rc = rt_jexpect(p, RT_JT_BLOCK_END, "the end of the tag '%}'");
    if (rc == RT_OK) rc = parse_body(p, ends, out);
    if (rc == RT_OK && drop) p->at++;
    return rc;
}

/* The same for a body with a scope of its own, where an unknown filter is a fault at once. */
static int parse_scoped(rt_jparser *p, const char *const *ends, bool drop, rt_jnode **out)
{
    bool soft = p->soft;
    p->soft = false;
    int rc = parse_block(p, ends, drop, out);
    p->soft = soft;
    return rc;
}

/* ---- statements ---- */

static int parse_if(rt_jparser *p, rt_jnode *node)
{
    static const char *const ends[] = { "endif", "elif", "else", NULL }, *const last[] = { "endif", NULL };
    rt_jnodes list = { 0 };
    bool soft = p->soft, more = true;
    int rc = RT_OK;
    p->soft = true;
    while (rc == RT_OK && more) {
        rt_jnode *test, *body;
        rc = rt_jparse_tuple(p, RT_JP_NO_COND, &test);
        if (rc == RT_OK) rc = parse_block(p, ends, false, &body);
        if (rc == RT_OK) rc = rt_jnodes_push(p, &list, test);
        if (rc == RT_OK) rc = rt_jnodes_push(p, &list, body);
        more = rc == RT_OK && rt_jskip_name(p, "elif");
    }
    if (rc == RT_OK && rt_jskip_name(p, "else"))
        rc = parse_block(p, last, true, &node->a);
    else if (rc == RT_OK)
        p->at++;
    p->soft = soft;
    node->list = list.items;
    node->n = list.n;
    return rc;
}

static int parse_for(rt_jparser *p, rt_jnode *node)
{
    static const char *const ends[] = { "endfor", "else", NULL }, *const last[] = { "endfor", NULL };
    bool soft = p->soft;
    p->loops++;
    int rc = parse_target(p, RT_JP_UNTIL_IN, &node->a);
    p->loops--;
    if (rc < 0) return rc;
    if (!rt_jskip_name(p, "in")) return rt_junexpected(p, "'in'");
    rc = rt_jparse_tuple(p, RT_JP_NO_COND | RT_JP_UNTIL_RECURSIVE, &node->b);
    p->soft = false;
    if (rc == RT_OK && rt_jskip_name(p, "if")) rc = rt_jparse_expression(p, &node->c);
    p->soft = soft;
    if (rc < 0) return rc;
    if (rt_jat_name(rt_jpeek(p), "recursive")) return rt_j_unsupported(p->r, "recursive loops are not supported");
    p->loops++;
    rc = parse_scoped(p, ends, false, &node->d);
    p->loops--;
    if (rc == RT_OK && rt_jskip_name(p, "else")) return parse_scoped(p, last, true, &node->e);
    p->at++;
    return rc;
}

static int parse_set(rt_jparser *p, rt_jnode *node)
{
    static const char *const ends[] = { "endset", NULL };
    int rc = parse_target(p, RT_JP_NAMESPACE, &node->a);
    if (rc < 0) return rc;
    if (rt_jskip(p, '=')) return rt_jparse_tuple(p, RT_JP_FULL, &node->b);
    node->kind = RT_JN_SET_BLOCK;
    rc = rt_jparse_filters(p, false, NULL, &node->b);
    return rc == RT_OK ? parse_scoped(p, ends, true, &node->d) : rc;
}

/* (a, b=1), from the parenthesis on. */
static int parse_params(rt_jparser *p, rt_jparams *params)
{
    rt_jnodes names = { 0 };
    bool defaults = false;
    int rc = rt_jexpect(p, '(', "'('");
    while (rc == RT_OK && rt_jpeek(p)->kind != ')') {
        rt_jnode *param;
        if (names.n > 0 && (rc = rt_jexpect(p, ',', "','")) < 0) return rc;
        rc = rt_jnode_new(p, RT_JN_NAME, rt_jpeek(p)->line, &param);
        if (rc == RT_OK) rc = parse_name(p, &param->name, &param->symbol);
        if (rc < 0) return rc;
        for (uint32_t i = 0; i < names.n; i++)
            if (names.items[i]->symbol == param->symbol)
                return rt_j_fail(p->r, "duplicate argument '%.*s'", (int)param->name->len, param->name->data);
        if (rt_jskip(p, '=')) {
            defaults = true;
            rc = rt_jparse_expression(p, &param->a);
        } else if (defaults) {
            rc = rt_j_fail(p->r, "non-default argument follows default argument");
        }
        if (rc == RT_OK) rc = rt_jnodes_push(p, &names, param);
        if (rc == RT_OK) rc = rt_j_tick(p->r, names.n);
    }
    if (rc == RT_OK) rc = rt_jexpect(p, ')', "')'");
    if (rc < 0 || names.n == 0) return rc;
    params->n = names.n;
    if (!(params->names = rt_j_alloc(p->r, names.n * sizeof *params->names)) ||
        !(params->symbols = rt_j_alloc(p->r, names.n * sizeof *params->symbols)) ||
        !(params->defaults = rt_j_alloc(p->r, names.n * sizeof *params->defaults)))
        return rt_j_status(p->r);
    for (uint32_t i = 0; i < names.n; i++) {
        params->names[i] = names.items[i]->name;
        params->symbols[i] = names.items[i]->symbol;
        params->defaults[i] = names.items[i]->a;
    }
    return RT_OK;
}

/* The body of a macro or call block: a world of its own for loops and for the names caller, varargs and kwargs. */
static int parse_macro_body(rt_jparser *p, const char *end, rt_jnode *node)
{
    const char *const ends[] = { end, NULL };
    uint32_t loops = p->loops, seen = p->seen;
    p->loops = 0;
    p->seen = 0;
    int rc = parse_scoped(p, ends, true, &node->d);
    rt_jparams *params = node->params;
    if (rc == RT_OK && params) {
        uint32_t named = 0;
        for (uint32_t i = 0; i < params->n; i++)
            if (params->symbols[i] < RT_JS_FIXED) named |= 1u << params->symbols[i];
        params->uses_caller = (p->seen & ~named) >> RT_JS_CALLER & 1;
        params->uses_kwargs = (p->seen & ~named) >> RT_JS_KWARGS & 1;
        params->uses_varargs = (p->seen & ~named) >> RT_JS_VARARGS & 1;
    }
    p->seen |= seen;
    p->loops = loops;
    return rc;
}

static int new_params(rt_jparser *p, rt_jnode *node)
{
    node->params = rt_j_alloc(p->r, sizeof *node->params);
    return node->params ? RT_OK : rt_j_status(p->r);
}

static int parse_macro(rt_jparser *p, rt_jnode *node)
{
    bool soft = p->soft;
    int rc = parse_name(p, &node->name, &node->symbol);
    if (rc == RT_OK) rc = new_params(p, node);
    p->soft = false;
    if (rc == RT_OK) rc = parse_params(p, node->params);
    p->soft = soft;
    return rc == RT_OK ? parse_macro_body(p, "endmacro", node) : rc;
}

static int parse_call_block(rt_jparser *p, rt_jnode *node)
{
    int rc = new_params(p, node);
    if (rc == RT_OK && rt_jpeek(p)->kind == '(') rc = parse_params(p, node->params);
    if (rc == RT_OK) rc = rt_jparse_expression(p, &node->a);
    if (rc < 0) return rc;
    if (node->a->kind != RT_JN_CALL) return rt_j_fail(p->r, "a call block needs a call");
    return parse_macro_body(p, "endcall", node);
}

static int parse_filter_block(rt_jparser *p, rt_jnode *node)
{
    static const char *const ends[] = { "endfilter", NULL };
    int rc = rt_jparse_filters(p, true, NULL, &node->b);
    return rc == RT_OK ? parse_scoped(p, ends, true, &node->d) : rc;
}

static int parse_with(rt_jparser *p, rt_jnode *node)
{
    static const char *const ends[] = { "endwith", NULL };
    rt_jnodes list = { 0 };
    int rc = RT_OK;
    while (rc == RT_OK && rt_jpeek(p)->kind != RT_JT_BLOCK_END) {
        rt_jnode *target, *value;
        if (list.n > 0 && (rc = rt_jexpect(p, ',', "','")) < 0) return rc;
        rc = parse_target(p, 0, &target);
        if (rc == RT_OK) rc = rt_jexpect(p, '=', "'='");
        if (rc == RT_OK) rc = rt_jparse_expression(p, &value);
        if (rc == RT_OK) rc = rt_jnodes_push(p, &list, target);
        if (rc == RT_OK) rc = rt_jnodes_push(p, &list, value);
    }
    node->list = list.items;
    node->n = list.n;
    return rc == RT_OK ? parse_scoped(p, ends, true, &node->d) : rc;
}

static int parse_print(rt_jparser *p, rt_jnode *node)
{
    rt_jnodes list = { 0 };
    int rc = RT_OK;
    while (rc == RT_OK && rt_jpeek(p)->kind != RT_JT_BLOCK_END) {
        rt_jnode *value;
        if (list.n > 0 && (rc = rt_jexpect(p, ',', "','")) < 0) return rc;
        rc = rt_jparse_expression(p, &value);
        if (rc == RT_OK) rc = rt_jnodes_push(p, &list, value);
    }
    node->list = list.items;
    node->n = list.n;
    return rc;
}

static int parse_jump(rt_jparser *p, rt_jnode *node)
{
    (void)node;
    return p->loops > 0 ? RT_OK : rt_j_fail(p->r, "break or continue outside of a loop");
}

static int parse_generation(rt_jparser *p, rt_jnode *node)
{
    p->tmpl->has_generation = true;
    return parse_macro_body(p, "endgeneration", node);
}

static int parse_statement(rt_jparser *p, rt_jnode **out)
{
    static const struct {
        const char *name;
        rt_jkind kind;
        int (*parse)(rt_jparser *p, rt_jnode *node);
    } tags[] = {
        { "for", RT_JN_FOR, parse_for },
        { "if", RT_JN_IF, parse_if },
        { "set", RT_JN_SET, parse_set },
        { "macro", RT_JN_MACRO, parse_macro },
        { "call", RT_JN_CALL_BLOCK, parse_call_block },
        { "filter", RT_JN_FILTER_BLOCK, parse_filter_block },
        { "with", RT_JN_WITH, parse_with },
        { "print", RT_JN_OUTPUT, parse_print },
        { "break", RT_JN_BREAK, parse_jump },
        { "continue", RT_JN_CONTINUE, parse_jump },
        { "generation", RT_JN_GENERATION, parse_generation },
    };
    static const char *const refused[] = { "include", "import", "from", "extends", "block", "autoescape", NULL };
    const rt_jtoken *t = rt_jpeek(p);
    p->r->line = t->line;
    if (t->kind != RT_JT_NAME) return rt_junexpected(p, "the name of a tag");
    for (size_t i = 0; i < sizeof tags / sizeof *tags; i++) {
        if (!rt_jat_name(t, tags[i].name)) continue;
        p->at++;
        int rc = rt_jnode_new(p, tags[i].kind, t->line, out);
        return rc == RT_OK ? tags[i].parse(p, *out) : rc;
    }
    int len = t->value.s->len < 60 ? (int)t->value.s->len : 60;
    if (at_any(p, refused)) return rt_j_unsupported(p->r, "the tag '%.*s' is not supported", len, t->value.s->data);
    return rt_j_fail(p->r, "unknown or misplaced tag '%.*s'", len, t->value.s->data);
}

int rt_jinja_parse(rt_jrun *r, const rt_jtokens *tokens, rt_jinja *out)
{
    static const char *const fixed[] = { "loop", "caller", "varargs", "kwargs" };
    rt_jparser p = { .r = r, .tokens = tokens->items, .tmpl = out };
    rt_jnode *body;
    for (uint32_t i = 0; i < RT_JS_FIXED; i++) {
        rt_jval name;
        uint32_t symbol;
        int rc = rt_jstr_literal(r, fixed[i], &name);
        if (rc == RT_OK) rc = rt_jsymbol(&p, name.s, &symbol);
        if (rc < 0) return rc;
    }
    int rc = parse_body(&p, NULL, &body);
    if (rc < 0) return rc;
    if (p.unknown.n > 0) {
        const rt_jnode *node = p.unknown.items[0];
        bool known, filter = node->kind == RT_JN_FILTER;
        r->line = node->line;
        if (filter)
            rt_j_filter_find(node->name->data, node->name->len, &known);
        else
            rt_j_test_find(node->name->data, node->name->len, &known);
        return rt_j_no_builtin(r, filter ? "filter" : "test", node->name->data, node->name->len, known);
    }
    out->body = body;
    return rt_jinja_scopes(r, body, out->n_symbols);
}
