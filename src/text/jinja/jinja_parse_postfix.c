/* jinja_parse_postfix.c - what may follow a value: attributes, items, slices, calls, filters and tests.
 *
 * Owns: the arguments of a call, and finding filters and tests by name when compiling. */
#include "text/jinja/jinja_ast.h"

#include <string.h>

static int parse_args(rt_jparser *p, rt_jcall_node **out);

/* ---- attributes, items, calls ---- */

static int parse_slice(rt_jparser *p, rt_jnode *object, rt_jnode *first, uint32_t line, rt_jnode **out)
{
    rt_jnode *parts[3] = { first, NULL, NULL };
    int rc = RT_OK;
    for (int i = 1; i < 3 && rt_jskip(p, ':'); i++) {
        int kind = rt_jpeek(p)->kind;
        if (kind != ':' && kind != ']' && kind != ',') rc = rt_jparse_expression(p, &parts[i]);
        if (rc < 0) return rc;
    }
    if (rt_jpeek(p)->kind == ',') return rt_j_fail(p->r, "a slice cannot be part of a tuple");
    rc = rt_jnode_new(p, RT_JN_SLICE, line, out);
    if (rc < 0) return rc;
    (*out)->a = object;
    (*out)->b = parts[0];
    (*out)->c = parts[1];
    (*out)->d = parts[2];
    return rt_jexpect(p, ']', "']'");
}

/* a[...], from behind the bracket. */
static int parse_subscript(rt_jparser *p, rt_jnode *object, rt_jnode **out)
{
    uint32_t line = p->tokens[p->at - 1].line;
    rt_jnodes list = { 0 };
    rt_jnode *key = NULL;
    int rc = RT_OK;
    if (rt_jpeek(p)->kind == ':') return parse_slice(p, object, NULL, line, out);
    while (rc == RT_OK && rt_jpeek(p)->kind != ']') {
        if (list.n > 0 && (rc = rt_jexpect(p, ',', "','")) < 0) return rc;
        if ((rc = rt_jparse_expression(p, &key)) < 0) return rc;
        if (rt_jpeek(p)->kind == ':') {
            if (list.n > 0) return rt_j_fail(p->r, "a slice cannot be part of a tuple");
            return parse_slice(p, object, key, line, out);
        }
        rc = rt_jnodes_push(p, &list, key);
    }
    if (rc == RT_OK) rc = rt_jexpect(p, ']', "']'");
    if (rc == RT_OK && list.n != 1) rc = rt_jnode_list(p, RT_JN_TUPLE, line, &list, &key);
    return rc == RT_OK ? rt_jnode2(p, RT_JN_ITEM, line, object, key, out) : rc;
}

/* a.name or a.0, from behind the dot. */
static int parse_member(rt_jparser *p, rt_jnode *object, rt_jnode **out)
{
    const rt_jtoken *t = rt_jpeek(p);
    rt_jnode *key;
    if (t->kind == RT_JT_NAME) {
        int rc = rt_jnode2(p, RT_JN_ATTR, t->line, object, NULL, out);
        if (rc == RT_OK) (*out)->name = t->value.s;
        p->at++;
        return rc;
    }
    if (t->kind != RT_JT_INT) return rt_junexpected(p, "a name or a number");
    int rc = rt_jparse_primary(p, 0, &key);
    return rc == RT_OK ? rt_jnode2(p, RT_JN_ITEM, t->line, object, key, out) : rc;
}

int rt_jparse_call(rt_jparser *p, rt_jnode *callee, rt_jnode **out)
{
    rt_jcall_node *args;
    uint32_t line = rt_jpeek(p)->line;
    int rc = parse_args(p, &args);
    if (rc == RT_OK) rc = rt_jnode2(p, RT_JN_CALL, line, callee, NULL, out);
    if (rc == RT_OK) (*out)->args = args;
    return rc;
}

int rt_jparse_postfix(rt_jparser *p, rt_jnode **node)
{
    int rc = RT_OK;
    while (rc == RT_OK) {
        if (rt_jskip(p, '.'))
            rc = parse_member(p, *node, node);
        else if (rt_jskip(p, '['))
            rc = parse_subscript(p, *node, node);
        else if (rt_jpeek(p)->kind == '(')
            rc = rt_jparse_call(p, *node, node);
        else
            break;
    }
    return rc;
}

/* One argument of a call: a, name=a, *a or **a. Their order is that of Python. */
static int parse_arg(rt_jparser *p, rt_jcall_node *args, rt_jnodes *pos, rt_jnodes *kw, rt_jnode **names)
{
    static const char *const wrong = "invalid syntax for function call expression";
    rt_jnode *node;
    if (rt_jskip(p, '*')) {
        if (args->star || args->star_star) return rt_j_fail(p->r, "%s", wrong);
        return rt_jparse_expression(p, &args->star);
    }
    if (rt_jskip(p, RT_JT_2('*', '*'))) {
        if (args->star_star) return rt_j_fail(p->r, "%s", wrong);
        return rt_jparse_expression(p, &args->star_star);
    }
    if (args->star_star) return rt_j_fail(p->r, "%s", wrong);
    if (rt_jpeek(p)->kind != RT_JT_NAME || p->tokens[p->at + 1].kind != '=') {
        if (args->star || kw->n > 0) return rt_j_fail(p->r, "%s", wrong);
        int rc = rt_jparse_expression(p, &node);
        return rc == RT_OK ? rt_jnodes_push(p, pos, node) : rc;
    }
    const rt_jstr *name = rt_jpeek(p)->value.s;
    p->at += 2;
    for (rt_jnode *other = *names; other; other = other->a)
        if (rt_jstr_equal(p->r, other->name, name))
            return rt_j_fail(p->r, "keyword argument repeated: %.*s", (int)name->len, name->data);
    int rc = rt_jparse_expression(p, &node);
    if (rc == RT_OK) rc = rt_jnodes_push(p, kw, node);
    if (rc == RT_OK) rc = rt_jnode2(p, RT_JN_NAME, node->line, *names, NULL, &node);
    if (rc < 0) return rc;
    node->name = name;
    *names = node; /* newest first */
    return rt_j_tick(p->r, kw->n);
}

static int parse_args(rt_jparser *p, rt_jcall_node **out)
{
    rt_jnodes pos = { 0 }, kw = { 0 };
    rt_jnode *names = NULL;
    rt_jcall_node *args = rt_j_alloc(p->r, sizeof *args);
    if (!args) return rt_j_status(p->r);
    int rc = rt_jexpect(p, '(', "'('");
    for (bool first = true; rc == RT_OK && rt_jpeek(p)->kind != ')'; first = false) {
        if (!first && (rc = rt_jexpect(p, ',', "','")) < 0) return rc;
        if (!first && rt_jpeek(p)->kind == ')') break;
        rc = parse_arg(p, args, &pos, &kw, &names);
    }
    if (rc == RT_OK) rc = rt_jexpect(p, ')', "')'");
    if (rc < 0) return rc;
    args->pos = pos.items;
    args->n_pos = pos.n;
    args->kw = kw.items;
    args->n_kw = kw.n;
    if (kw.n > 0 && !(args->kw_names = rt_j_alloc(p->r, kw.n * sizeof *args->kw_names))) return rt_j_status(p->r);
    for (uint32_t i = kw.n; i-- > 0; names = names->a) args->kw_names[i] = names->name;
    *out = args;
    return RT_OK;
}

/* name or name.name, as filters and tests may be called. */
static int parse_dotted(rt_jparser *p, const rt_jstr **out)
{
    uint32_t first = p->at;
    size_t len = 0, n = 0;
    int rc = rt_jexpect(p, RT_JT_NAME, "a name");
    if (rc < 0) return rc;
    *out = p->tokens[first].value.s;
    while (rc == RT_OK && rt_jskip(p, '.')) rc = rt_jexpect(p, RT_JT_NAME, "a name");
    if (rc < 0 || p->at == first + 1) return rc;
    for (uint32_t i = first; i < p->at; i += 2) len += p->tokens[i].value.s->len + 1;
    char *data = rt_j_alloc(p->r, len);
    if (!data) return rt_j_status(p->r);
    for (uint32_t i = first; i < p->at; i += 2) {
        const rt_jstr *part = p->tokens[i].value.s;
        memcpy(data + n, part->data, part->len);
        n += part->len;
        if (i + 1 < p->at) data[n++] = '.';
    }
    rt_jval whole;
    rc = rt_jstr_view(p->r, data, n, &whole);
    if (rc == RT_OK) *out = whole.s;
    return rc;
}

static int resolve(rt_jparser *p, rt_jnode *node)
{
    bool known;
    bool filter = node->kind == RT_JN_FILTER;
    node->builtin = filter ? rt_j_filter_find(node->name->data, node->name->len, &known)
                           : rt_j_test_find(node->name->data, node->name->len, &known);
    return node->builtin || p->soft ? RT_OK : rt_jnodes_push(p, &p->unknown, node);
}

int rt_jparse_filters(rt_jparser *p, bool start_inline, rt_jnode *node, rt_jnode **out)
{
    int rc = RT_OK;
    while (rc == RT_OK && (start_inline || rt_jskip(p, '|'))) {
        uint32_t line = rt_jpeek(p)->line;
        const rt_jstr *name;
        start_inline = false;
        rc = parse_dotted(p, &name);
        if (rc == RT_OK) rc = rt_jnode2(p, RT_JN_FILTER, line, node, NULL, &node);
        if (rc < 0) return rc;
        node->name = name;
        if (rt_jpeek(p)->kind == '(') rc = parse_args(p, &node->args);
        if (rc == RT_OK) rc = resolve(p, node);
    }
    *out = node;
    return rc;
}

/* Whether the token after a test's name begins its one argument: `is divisibleby 3`. */
static bool begins_argument(const rt_jtoken *t)
{
    switch (t->kind) {
    case RT_JT_NAME: return !rt_jat_name(t, "else") && !rt_jat_name(t, "or") && !rt_jat_name(t, "and");
    case RT_JT_STRING:
    case RT_JT_INT:
    case RT_JT_FLOAT:
    case '[':
    case '{': return true;
    default: return false;
    }
}

/* From behind `is`. */
int rt_jparse_test(rt_jparser *p, rt_jnode *value, rt_jnode **out)
{
    uint32_t line = p->tokens[p->at - 1].line;
    bool negated = rt_jskip_name(p, "not");
    const rt_jstr *name;
    rt_jnode *test, *arg;
    rt_jnodes args = { 0 };
    int rc = parse_dotted(p, &name);
    if (rc == RT_OK) rc = rt_jnode2(p, RT_JN_TEST, line, value, NULL, &test);
    if (rc < 0) return rc;
    test->name = name;
    if (rt_jpeek(p)->kind == '(') {
        rc = parse_args(p, &test->args);
    } else if (begins_argument(rt_jpeek(p))) {
        if (rt_jat_name(rt_jpeek(p), "is")) return rt_j_fail(p->r, "tests cannot be chained with 'is'");
        rc = rt_jparse_primary(p, 0, &arg);
        if (rc == RT_OK) rc = rt_jparse_postfix(p, &arg);
        if (rc == RT_OK) rc = rt_jnodes_push(p, &args, arg);
        if (rc == RT_OK && !(test->args = rt_j_alloc(p->r, sizeof *test->args))) rc = rt_j_status(p->r);
        if (rc < 0) return rc;
        test->args->pos = args.items;
        test->args->n_pos = 1;
    }
    if (rc == RT_OK) rc = resolve(p, test);
    *out = test;
    return rc == RT_OK && negated ? rt_jnode2(p, RT_JN_NOT, line, test, NULL, out) : rc;
}
