/* jinja_parse_expr.c - expressions: from tokens to nodes, with Jinja's order of operators.
 *
 * Owns: the grammar below a statement. From loose to tight: inline if, or, and, not, comparisons, + and -, ~, * / // %,
 * **, signs. Two oddities are Jinja's own: ** groups to the left, and a sign binds tighter than ** and filters. What
 * follows a value (attributes, items, calls, filters, tests) is in jinja_parse_postfix.c. */
#include "text/jinja/jinja_ast.h"

#include <string.h>

static int parse_or(rt_jparser *p, rt_jnode **out);

int rt_jnode2(rt_jparser *p, rt_jkind kind, uint32_t line, rt_jnode *a, rt_jnode *b, rt_jnode **out)
{
    int rc = rt_jnode_new(p, kind, line, out);
    if (rc < 0) return rc;
    (*out)->a = a;
    (*out)->b = b;
    return RT_OK;
}

int rt_jnode_list(rt_jparser *p, rt_jkind kind, uint32_t line, const rt_jnodes *list, rt_jnode **out)
{
    int rc = rt_jnode_new(p, kind, line, out);
    if (rc < 0) return rc;
    (*out)->list = list->items;
    (*out)->n = list->n;
    return RT_OK;
}

/* ---- values ---- */

static int parse_const(rt_jparser *p, rt_jval value, rt_jnode **out)
{
    int rc = rt_jnode_new(p, RT_JN_CONST, rt_jpeek(p)->line, out);
    if (rc == RT_OK) (*out)->value = value;
    p->at++;
    return rc;
}

static int parse_name(rt_jparser *p, int mode, rt_jnode **out)
{
    const rt_jtoken *t = rt_jpeek(p);
    const rt_jstr *name = t->value.s;
    if (rt_jstr_is(name, "true") || rt_jstr_is(name, "True")) return parse_const(p, rt_jv_bool(true), out);
    if (rt_jstr_is(name, "false") || rt_jstr_is(name, "False")) return parse_const(p, rt_jv_bool(false), out);
    if (rt_jstr_is(name, "none") || rt_jstr_is(name, "None")) return parse_const(p, rt_jv(RT_J_NONE), out);
    p->at++;
    bool member = (mode & RT_JP_NAMESPACE) && rt_jskip(p, '.');
    int rc = rt_jnode_new(p, member ? RT_JN_NS_TARGET : RT_JN_NAME, t->line, out);
    if (rc == RT_OK) rc = rt_jsymbol(p, name, &(*out)->symbol);
    if (rc < 0) return rc;
    (*out)->name = name;
    if ((*out)->symbol < RT_JS_FIXED) p->seen |= 1u << (*out)->symbol;
    if (!member) return RT_OK;
    (*out)->value = rt_jpeek(p)->value;
    return rt_jexpect(p, RT_JT_NAME, "an attribute's name");
}

/* "a" 'b' is one string. */
static int parse_string(rt_jparser *p, rt_jnode **out)
{
    uint32_t first = p->at;
    int rc = parse_const(p, rt_jpeek(p)->value, out);
    size_t len = p->tokens[first].value.s->len;
    while (rc == RT_OK && rt_jpeek(p)->kind == RT_JT_STRING) len += p->tokens[p->at++].value.s->len;
    if (rc < 0 || p->at == first + 1) return rc;
    char *data = rt_j_alloc(p->r, len);
    if (!data) return rt_j_status(p->r);
    size_t n = 0;
    for (uint32_t i = first; i < p->at; i++) {
        const rt_jstr *s = p->tokens[i].value.s;
        memcpy(data + n, s->data, s->len);
        n += s->len;
    }
    rc = rt_jstr_view(p->r, data, len, &(*out)->value);
    if (rc == RT_OK) rt_jstr_chars(p->r, (*out)->value.s);
    return rc;
}

/* [a, b] and {a: b}, from behind the opening bracket. */
static int parse_display(rt_jparser *p, bool dict, rt_jnode **out)
{
    rt_jnodes list = { 0 };
    uint32_t line = rt_jpeek(p)->line;
    int close = dict ? '}' : ']', rc = RT_OK;
    p->at++;
    while (rc == RT_OK && rt_jpeek(p)->kind != close) {
        rt_jnode *node;
        if (list.n > 0) {
            if ((rc = rt_jexpect(p, ',', "','")) < 0) return rc;
            if (rt_jpeek(p)->kind == close) break;
        }
        rc = rt_jparse_expression(p, &node);
        if (rc == RT_OK) rc = rt_jnodes_push(p, &list, node);
        if (rc < 0 || !dict) continue;
        rc = rt_jexpect(p, ':', "':'");
        if (rc == RT_OK) rc = rt_jparse_expression(p, &node);
        if (rc == RT_OK) rc = rt_jnodes_push(p, &list, node);
    }
    if (rc == RT_OK) rc = rt_jexpect(p, close, dict ? "'}'" : "']'");
    return rc == RT_OK ? rt_jnode_list(p, dict ? RT_JN_DICT : RT_JN_LIST, line, &list, out) : rc;
}

int rt_jparse_primary(rt_jparser *p, int mode, rt_jnode **out)
{
    const rt_jtoken *t = rt_jpeek(p);
    switch (t->kind) {
    case RT_JT_NAME: return parse_name(p, mode, out);
    case RT_JT_STRING: return parse_string(p, out);
    case RT_JT_INT:
    case RT_JT_FLOAT: return parse_const(p, t->value, out);
    case '(': {
        p->at++;
        int rc = rt_jparse_tuple(p, RT_JP_PARENTHESES, out);
        return rc == RT_OK ? rt_jexpect(p, ')', "')'") : rc;
    }
    case '[': return parse_display(p, false, out);
    case '{': return parse_display(p, true, out);
    default: return rt_junexpected(p, "an expression");
    }
}

static bool tuple_ends(const rt_jparser *p, int mode)
{
    const rt_jtoken *t = rt_jpeek(p);
    if (t->kind == RT_JT_VAR_END || t->kind == RT_JT_BLOCK_END || t->kind == ')') return true;
    return ((mode & RT_JP_UNTIL_IN) && rt_jat_name(t, "in")) ||
           ((mode & RT_JP_UNTIL_RECURSIVE) && rt_jat_name(t, "recursive"));
}

int rt_jparse_tuple(rt_jparser *p, int mode, rt_jnode **out)
{
    rt_jnodes list = { 0 };
    bool tuple = false;
    uint32_t line = rt_jpeek(p)->line;
    int rc = rt_j_enter(p->r);
    if (rc < 0) return rc;
    while (rc == RT_OK) {
        if (list.n > 0 && (rc = rt_jexpect(p, ',', "','")) < 0) break;
        if (tuple_ends(p, mode)) break;
        rt_jnode *node;
        if (mode & RT_JP_TARGET)
            rc = rt_jparse_primary(p, mode, &node);
        else if (mode & RT_JP_NO_COND)
            rc = parse_or(p, &node);
        else
            rc = rt_jparse_expression(p, &node);
        if (rc == RT_OK) rc = rt_jnodes_push(p, &list, node);
        if (rc < 0 || rt_jpeek(p)->kind != ',') break;
        tuple = true;
    }
    rt_j_leave(p->r);
    if (rc < 0) return rc;
    if (!tuple && list.n > 0) {
        *out = list.items[0];
        return RT_OK;
    }
    if (!tuple && !(mode & RT_JP_PARENTHESES)) return rt_junexpected(p, "an expression");
    return rt_jnode_list(p, RT_JN_TUPLE, line, &list, out);
}

/* ---- operators, tightest first ---- */

static int parse_unary(rt_jparser *p, bool with_filter, rt_jnode **out)
{
    const rt_jtoken *t = rt_jpeek(p);
    int rc = rt_j_enter(p->r);
    if (rc < 0) return rc;
    if (t->kind == '-' || t->kind == '+') {
        rt_jnode *value;
        p->at++;
        rc = parse_unary(p, false, &value);
        if (rc == RT_OK) rc = rt_jnode2(p, RT_JN_UNARY, t->line, value, NULL, out);
        if (rc == RT_OK) (*out)->op = (uint32_t)t->kind;
    } else {
        rc = rt_jparse_primary(p, 0, out);
    }
    if (rc == RT_OK) rc = rt_jparse_postfix(p, out);
    while (rc == RT_OK && with_filter) {
        if (rt_jpeek(p)->kind == '|')
            rc = rt_jparse_filters(p, false, *out, out);
        else if (rt_jskip_name(p, "is"))
            rc = rt_jparse_test(p, *out, out);
        else if (rt_jpeek(p)->kind == '(')
            rc = rt_jparse_call(p, *out, out);
        else
            break;
    }
    rt_j_leave(p->r);
    return rc;
}

/* Operators of one strength, grouping to the left. */
typedef struct level {
    struct {
        int token;
        rt_jop op;
    } ops[4];
    int n;
} level;
static const level levels[] = {
    { { { '+', RT_J_ADD }, { '-', RT_J_SUB } }, 2 },
    { { { '~', RT_J_ADD } }, 1 }, /* its operands become one node, see parse_level */
    { { { '*', RT_J_MUL }, { '/', RT_J_DIV }, { RT_JT_2('/', '/'), RT_J_FLOORDIV }, { '%', RT_J_MOD } }, 4 },
    { { { RT_JT_2('*', '*'), RT_J_POW } }, 1 },
};
enum { LEVEL_CONCAT = 1, LEVELS = sizeof levels / sizeof *levels };

static int parse_level(rt_jparser *p, int at, rt_jnode **out)
{
    if (at == LEVELS) return parse_unary(p, true, out);
    rt_jnodes parts = { 0 };
    uint32_t line = rt_jpeek(p)->line;
    int rc = parse_level(p, at + 1, out);
    if (rc == RT_OK && at == LEVEL_CONCAT) rc = rt_jnodes_push(p, &parts, *out);
    while (rc == RT_OK) {
        int i = 0;
        rt_jnode *right;
        while (i < levels[at].n && rt_jpeek(p)->kind != levels[at].ops[i].token) i++;
        if (i == levels[at].n) break;
        p->at++;
        rc = parse_level(p, at + 1, &right);
        if (rc < 0) break;
        if (at == LEVEL_CONCAT) {
            rc = rt_jnodes_push(p, &parts, right);
            continue;
        }
        rc = rt_jnode2(p, RT_JN_BINARY, line, *out, right, out);
        if (rc == RT_OK) (*out)->op = levels[at].ops[i].op;
    }
    return rc == RT_OK && parts.n > 1 ? rt_jnode_list(p, RT_JN_CONCAT, line, &parts, out) : rc;
}

/* The comparison at the current token, which is skipped; -1 when there is none. */
static int compare_op(rt_jparser *p)
{
    static const int tokens[] = {
        RT_JT_2('=', '='), RT_JT_2('!', '='), '<', RT_JT_2('<', '='), '>', RT_JT_2('>', '=')
    };
    for (int i = 0; i < (int)(sizeof tokens / sizeof *tokens); i++)
        if (rt_jskip(p, tokens[i])) return i; /* in the order of rt_jcompare */
    if (rt_jskip_name(p, "in")) return RT_JC_IN;
    if (!rt_jat_name(rt_jpeek(p), "not") || !rt_jat_name(&p->tokens[p->at + 1], "in")) return -1;
    p->at += 2;
    return RT_JC_NOT_IN;
}

static int parse_compare(rt_jparser *p, rt_jnode **out)
{
    rt_jnodes operands = { 0 };
    uint32_t line = rt_jpeek(p)->line;
    int rc = parse_level(p, 0, out), op;
    while (rc == RT_OK && (op = compare_op(p)) >= 0) {
        rt_jnode *value, *operand;
        rc = parse_level(p, 0, &value);
        if (rc == RT_OK) rc = rt_jnode2(p, RT_JN_OPERAND, line, value, NULL, &operand);
        if (rc < 0) return rc;
        operand->op = (uint32_t)op;
        rc = rt_jnodes_push(p, &operands, operand);
    }
    if (rc < 0 || operands.n == 0) return rc;
    rt_jnode *first = *out;
    rc = rt_jnode_list(p, RT_JN_COMPARE, line, &operands, out);
    if (rc == RT_OK) (*out)->a = first;
    return rc;
}

static int parse_not(rt_jparser *p, rt_jnode **out)
{
    uint32_t line = rt_jpeek(p)->line;
    if (!rt_jskip_name(p, "not")) return parse_compare(p, out);
    int rc = rt_j_enter(p->r);
    if (rc < 0) return rc;
    rc = parse_not(p, out);
    rt_j_leave(p->r);
    return rc == RT_OK ? rt_jnode2(p, RT_JN_NOT, line, *out, NULL, out) : rc;
}

/* What next parses, joined by a word, grouping to the left. */
static int parse_joined(rt_jparser *p, const char *word, rt_jkind kind, int (*next)(rt_jparser *, rt_jnode **),
                        rt_jnode **out)
{
    int rc = next(p, out);
    while (rc == RT_OK && rt_jat_name(rt_jpeek(p), word)) {
        rt_jnode *right;
        uint32_t line = rt_jpeek(p)->line;
        p->at++;
        rc = next(p, &right);
        if (rc == RT_OK) rc = rt_jnode2(p, kind, line, *out, right, out);
    }
    return rc;
}

static int parse_and(rt_jparser *p, rt_jnode **out) { return parse_joined(p, "and", RT_JN_AND, parse_not, out); }
static int parse_or(rt_jparser *p, rt_jnode **out) { return parse_joined(p, "or", RT_JN_OR, parse_and, out); }

int rt_jparse_expression(rt_jparser *p, rt_jnode **out)
{
    bool soft = p->soft;
    uint32_t unknown = p->unknown.n;
    int rc = rt_j_enter(p->r);
    if (rc < 0) return rc;
    rc = parse_or(p, out);
    while (rc == RT_OK && rt_jat_name(rt_jpeek(p), "if")) {
        rt_jnode *value = *out, *test, *other = NULL;
        uint32_t line = rt_jpeek(p)->line;
        p->at++;
        p->soft = true;
        p->unknown.n = unknown; /* what was read before the `if` is inside it too */
        rc = parse_or(p, &test);
        if (rc == RT_OK && rt_jskip_name(p, "else")) rc = rt_jparse_expression(p, &other);
        if (rc == RT_OK) rc = rt_jnode2(p, RT_JN_COND, line, test, value, out);
        if (rc == RT_OK) (*out)->c = other;
    }
    p->soft = soft;
    rt_j_leave(p->r);
    return rc;
}
