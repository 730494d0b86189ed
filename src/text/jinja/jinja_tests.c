/* jinja_tests.c - tests: what may follow `is`. */
#include "text/jinja/jinja_eval.h"

#include <string.h>

static int yes(rt_jval *out, bool answer)
{
    *out = rt_jv_bool(answer);
    return RT_OK;
}

/* ---- types ---- */

#define TYPE_TEST(name, condition)                                                                                     \
    static int name(rt_jrun *r, const rt_jcall *c, rt_jval *out)                                                       \
    {                                                                                                                  \
        rt_jval v = c->self;                                                                                           \
        (void)r;                                                                                                       \
        return yes(out, condition);                                                                                    \
    }
TYPE_TEST(t_defined, v.type != RT_J_UNDEFINED)
TYPE_TEST(t_undefined, v.type == RT_J_UNDEFINED)
TYPE_TEST(t_none, v.type == RT_J_NONE)
TYPE_TEST(t_boolean, v.type == RT_J_BOOL)
TYPE_TEST(t_true, v.type == RT_J_BOOL && v.b)
TYPE_TEST(t_false, v.type == RT_J_BOOL && !v.b)
TYPE_TEST(t_integer, v.type == RT_J_INT)
TYPE_TEST(t_float, v.type == RT_J_FLOAT)
TYPE_TEST(t_number, rt_jv_is_number(v))
TYPE_TEST(t_string, v.type == RT_J_STR)
TYPE_TEST(t_mapping, v.type == RT_J_DICT)
TYPE_TEST(t_escaped, v.type == RT_J_STR && v.s->markup)
/* An undefined value has a length, can be walked and can be called, which then fails. */
TYPE_TEST(t_sequence, v.type == RT_J_UNDEFINED || v.type == RT_J_STR || rt_jv_is_list(v) || v.type == RT_J_DICT ||
                          v.type == RT_J_RANGE)
TYPE_TEST(t_iterable, v.type == RT_J_UNDEFINED || v.type == RT_J_STR || rt_jv_is_list(v) || v.type == RT_J_DICT ||
                          v.type == RT_J_RANGE || v.type == RT_J_VIEW || v.type == RT_J_ITER || v.type == RT_J_LOOP)
TYPE_TEST(t_callable, v.type == RT_J_UNDEFINED || v.type == RT_J_METHOD || v.type == RT_J_FUNCTION ||
                          v.type == RT_J_MACRO || v.type == RT_J_JOINER || v.type == RT_J_LOOP)

/* ---- case ---- */

static int case_test(rt_jrun *r, const rt_jcall *c, const char *method, rt_jval *out)
{
    rt_jval text;
    rt_jargs none = { 0 };
    int rc = rt_j_str(r, c->self, &text);
    if (rc < 0) return rc;
    return rt_j_call_builtin(r, rt_j_table_find(rt_j_str_methods, method, strlen(method)), text, &none, out);
}

static int t_lower(rt_jrun *r, const rt_jcall *c, rt_jval *out) { return case_test(r, c, "islower", out); }
static int t_upper(rt_jrun *r, const rt_jcall *c, rt_jval *out) { return case_test(r, c, "isupper", out); }

/* ---- numbers ---- */

static int modulo(rt_jrun *r, rt_jval v, rt_jval by, int64_t wanted, rt_jval *out)
{
    rt_jval rest;
    bool equal = false;
    int rc = rt_j_binary(r, RT_J_MOD, v, by, &rest);
    if (rc == RT_OK) rc = rt_j_equal(r, rest, rt_jv_int(wanted), &equal);
    return rc == RT_OK ? yes(out, equal) : rc;
}

static int t_odd(rt_jrun *r, const rt_jcall *c, rt_jval *out) { return modulo(r, c->self, rt_jv_int(2), 1, out); }
static int t_even(rt_jrun *r, const rt_jcall *c, rt_jval *out) { return modulo(r, c->self, rt_jv_int(2), 0, out); }
static int t_divisible(rt_jrun *r, const rt_jcall *c, rt_jval *out) { return modulo(r, c->self, c->a[0], 0, out); }

/* ---- comparisons ---- */

static int t_eq(rt_jrun *r, const rt_jcall *c, rt_jval *out)
{
    bool equal;
    int rc = rt_j_equal(r, c->self, c->a[0], &equal);
    return rc == RT_OK ? yes(out, equal) : rc;
}

static int t_ne(rt_jrun *r, const rt_jcall *c, rt_jval *out)
{
    bool equal;
    int rc = rt_j_equal(r, c->self, c->a[0], &equal);
    return rc == RT_OK ? yes(out, !equal) : rc;
}

#define ORDER_TEST(name, op)                                                                                           \
    static int name(rt_jrun *r, const rt_jcall *c, rt_jval *out)                                                       \
    {                                                                                                                  \
        bool holds;                                                                                                    \
        int rc = rt_j_compare(r, op, c->self, c->a[0], &holds);                                                        \
        return rc == RT_OK ? yes(out, holds) : rc;                                                                     \
    }
ORDER_TEST(t_lt, RT_J_LT)
ORDER_TEST(t_le, RT_J_LE)
ORDER_TEST(t_gt, RT_J_GT)
ORDER_TEST(t_ge, RT_J_GE)

static int t_in(rt_jrun *r, const rt_jcall *c, rt_jval *out)
{
    bool found;
    int rc = rt_j_contains(r, c->a[0], c->self, &found);
    return rc == RT_OK ? yes(out, found) : rc;
}

static int t_sameas(rt_jrun *r, const rt_jcall *c, rt_jval *out)
{
    (void)r;
    return yes(out, rt_j_same(c->self, c->a[0]));
}

/* ---- names ---- */

static int t_filter(rt_jrun *r, const rt_jcall *c, rt_jval *out)
{
    bool known;
    if (!rt_jv_hashable(c->self)) return rt_j_fail(r, "unhashable type: '%s'", rt_jtype_name(c->self.type));
    return yes(out, c->self.type == RT_J_STR && rt_j_filter_find(c->self.s->data, c->self.s->len, &known));
}

static int t_test(rt_jrun *r, const rt_jcall *c, rt_jval *out)
{
    bool known;
    if (!rt_jv_hashable(c->self)) return rt_j_fail(r, "unhashable type: '%s'", rt_jtype_name(c->self.type));
    return yes(out, c->self.type == RT_J_STR && rt_j_test_find(c->self.s->data, c->self.s->len, &known));
}

static const rt_jbuiltin tests[] = {
    { "defined", "", t_defined },
    { "undefined", "", t_undefined },
    { "none", "", t_none },
    { "boolean", "", t_boolean },
    { "true", "", t_true },
    { "false", "", t_false },
    { "integer", "", t_integer },
    { "float", "", t_float },
    { "number", "", t_number },
    { "string", "", t_string },
    { "mapping", "", t_mapping },
    { "sequence", "", t_sequence },
    { "iterable", "", t_iterable },
    { "callable", "", t_callable },
    { "escaped", "", t_escaped },
    { "lower", "", t_lower },
    { "upper", "", t_upper },
    { "odd", "", t_odd },
    { "even", "", t_even },
    { "divisibleby", "num", t_divisible },
    { "==", "other /", t_eq },
    { "eq", "other /", t_eq },
    { "equalto", "other /", t_eq },
    { "!=", "other /", t_ne },
    { "ne", "other /", t_ne },
    { "<", "other /", t_lt },
    { "lt", "other /", t_lt },
    { "lessthan", "other /", t_lt },
    { "<=", "other /", t_le },
    { "le", "other /", t_le },
    { ">", "other /", t_gt },
    { "gt", "other /", t_gt },
    { "greaterthan", "other /", t_gt },
    { ">=", "other /", t_ge },
    { "ge", "other /", t_ge },
    { "in", "seq", t_in },
    { "sameas", "other", t_sameas },
    { "filter", "", t_filter },
    { "test", "", t_test },
    { 0 },
};

const rt_jbuiltin *rt_j_test_find(const char *name, size_t len, bool *known)
{
    *known = false; /* there is none in Jinja that is not here */
    return rt_j_table_find(tests, name, len);
}
