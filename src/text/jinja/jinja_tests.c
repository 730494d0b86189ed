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

static int t_parity(rt_jrun *r, const rt_jcall *c, rt_jval *out)
{
    return modulo(r, c->self, rt_jv_int(2), c->fn->how, out);
}
static int t_divisible(rt_jrun *r, const rt_jcall *c, rt_jval *out) { return modulo(r, c->self, c->a[0], 0, out); }

/* ---- comparisons ---- */

static int t_equal(rt_jrun *r, const rt_jcall *c, rt_jval *out)
{
    bool equal;
    int rc = rt_j_equal(r, c->self, c->a[0], &equal);
    return rc == RT_OK ? yes(out, equal == c->fn->how) : rc;
}

static int t_order(rt_jrun *r, const rt_jcall *c, rt_jval *out)
{
    bool holds;
    int rc = rt_j_compare(r, (rt_jorder)c->fn->how, c->self, c->a[0], &holds);
    return rc == RT_OK ? yes(out, holds) : rc;
}

static int t_in(rt_jrun *r, const rt_jcall *c, rt_jval *out)
{
    bool found;
    int rc = rt_j_contains(r, c->a[0], c->self, &found);
    return rc == RT_OK ? yes(out, found) : rc;
}

static int t_sameas(rt_jrun *r, const rt_jcall *c, rt_jval *out)
{
    (void)r;
    return yes(out, rt_j_same(r, c->self, c->a[0]));
}

/* ---- names ---- */

static int t_named(rt_jrun *r, const rt_jcall *c, rt_jval *out)
{
    bool known;
    if (!rt_jv_hashable(r, c->self)) return rt_j_fail(r, "unhashable type: '%s'", rt_jtype_name(c->self.type));
    const rt_jbuiltin *(*find)(const char *, size_t, bool *) = c->fn->how == 'f' ? rt_j_filter_find : rt_j_test_find;
    return yes(out, c->self.type == RT_J_STR && find(c->self.s->data, c->self.s->len, &known));
}

static const rt_jbuiltin tests[] = {
    { "defined", "", t_defined, 0 },
    { "undefined", "", t_undefined, 0 },
    { "none", "", t_none, 0 },
    { "boolean", "", t_boolean, 0 },
    { "true", "", t_true, 0 },
    { "false", "", t_false, 0 },
    { "integer", "", t_integer, 0 },
    { "float", "", t_float, 0 },
    { "number", "", t_number, 0 },
    { "string", "", t_string, 0 },
    { "mapping", "", t_mapping, 0 },
    { "sequence", "", t_sequence, 0 },
    { "iterable", "", t_iterable, 0 },
    { "callable", "", t_callable, 0 },
    { "escaped", "", t_escaped, 0 },
    { "lower", "", t_lower, 0 },
    { "upper", "", t_upper, 0 },
    { "odd", "", t_parity, 1 },
    { "even", "", t_parity, 0 },
    { "divisibleby", "num", t_divisible, 0 },
    { "==", "other /", t_equal, true },
    { "eq", "other /", t_equal, true },
    { "equalto", "other /", t_equal, true },
    { "!=", "other /", t_equal, false },
    { "ne", "other /", t_equal, false },
    { "<", "other /", t_order, RT_J_LT },
    { "lt", "other /", t_order, RT_J_LT },
    { "lessthan", "other /", t_order, RT_J_LT },
    { "<=", "other /", t_order, RT_J_LE },
    { "le", "other /", t_order, RT_J_LE },
    { ">", "other /", t_order, RT_J_GT },
    { "gt", "other /", t_order, RT_J_GT },
    { "greaterthan", "other /", t_order, RT_J_GT },
    { ">=", "other /", t_order, RT_J_GE },
    { "ge", "other /", t_order, RT_J_GE },
    { "in", "seq", t_in, 0 },
    { "sameas", "other", t_sameas, 0 },
    { "filter", "", t_named, 'f' },
    { "test", "", t_named, 't' },
    { 0 },
};

const rt_jbuiltin *rt_j_test_find(const char *name, size_t len, bool *known)
{
    *known = false; /* there is none in Jinja that is not here */
    return rt_j_table_find(tests, name, len);
}
