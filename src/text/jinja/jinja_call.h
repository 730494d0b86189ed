/* jinja_call.h - what can be called with a name: filters, tests, methods, global functions, and how arguments reach
 * their parameters. Internal to the jinja files.
 *
 * Owns: the tables' common type. Every builtin has the same C signature, so one binder checks the arguments of all. */
#ifndef RT_JINJA_JINJA_CALL_H
#define RT_JINJA_JINJA_CALL_H

#include "text/jinja/jinja_value.h"

typedef struct rt_jkw {
    const rt_jstr *name;
    rt_jval value;
} rt_jkw;

typedef struct rt_jargs {
    const rt_jval *pos;
    uint32_t n_pos;
    const rt_jkw *kw;
    uint32_t n_kw;
} rt_jargs;

enum { RT_J_MAX_PARAMS = 6 };
typedef struct rt_jcall {
    const rt_jbuiltin *fn;
    rt_jval self;               /* the value of a filter, test or method; missing for a function */
    rt_jval a[RT_J_MAX_PARAMS]; /* bound parameters; RT_J_MISSING where an optional one was not given */
    const rt_jargs *args;       /* as written, for those without a parameter list */
} rt_jcall;

struct rt_jbuiltin {
    const char *name;
    /* Parameter names separated by blanks; "x=" is optional; those before "/" cannot be given by name. Null: the
     * function looks at args itself. */
    const char *params;
    int (*run)(rt_jrun *r, const rt_jcall *c, rt_jval *out);
    int how; /* which of several that one `run` does; its own numbers */
};

struct rt_jmethod {
    const rt_jbuiltin *fn;
    rt_jval self;
};

/* Binds args to fn's parameters and runs it. */
int rt_j_call_builtin(rt_jrun *r, const rt_jbuiltin *fn, rt_jval self, const rt_jargs *args, rt_jval *out);
/* Calls any value. */
int rt_j_call(rt_jrun *r, rt_jval callee, const rt_jargs *args, rt_jval *out);
/* An item of args by keyword, or null. */
const rt_jval *rt_jargs_kw(const rt_jargs *args, const char *name);

/* By name; null when there is none. Names of jinja2 that are not supported are told apart by *known. */
const rt_jbuiltin *rt_j_filter_find(const char *name, size_t len, bool *known);
const rt_jbuiltin *rt_j_test_find(const char *name, size_t len, bool *known);
const rt_jbuiltin *rt_j_global_find(const char *name, size_t len);
/* "no filter named 'x'" or that it is not supported. */
int rt_j_no_builtin(rt_jrun *r, const char *what, const char *name, size_t len, bool known);

/* The tables, ended by a null name. */
extern const rt_jbuiltin rt_j_text_filters[], rt_j_sequence_filters[], rt_j_select_filters[], rt_j_other_filters[];
extern const rt_jbuiltin rt_j_str_methods[], rt_j_str_search_methods[], rt_j_list_methods[], rt_j_dict_methods[],
    rt_j_range_methods[], rt_j_float_methods[], rt_j_loop_methods[], rt_j_cycler_methods[], rt_j_dict_type_methods[];
const rt_jbuiltin *rt_j_table_find(const rt_jbuiltin *table, const char *name, size_t len);

/* ---- access ---- */

/* v.name and v[key] with the rules of the environment: attribute first, or item first. */
int rt_j_getattr(rt_jrun *r, rt_jval v, const rt_jstr *name, rt_jval *out);
int rt_j_getitem(rt_jrun *r, rt_jval v, rt_jval key, rt_jval *out);
/* v[start:stop:step]; RT_J_NONE where a part is not given. */
int rt_j_slice(rt_jrun *r, rt_jval v, rt_jval start, rt_jval stop, rt_jval step, rt_jval *out);
/* A Python slice over n items. */
typedef struct rt_jslice {
    int64_t first, stop, step, count;
} rt_jslice;
int rt_j_slice_of(rt_jrun *r, rt_jval start, rt_jval stop, rt_jval step, int64_t n, rt_jslice *out);
/* The attribute argument of filters: "a.b.0", or an integer. */
int rt_j_get_path(rt_jrun *r, rt_jval v, rt_jval path, const rt_jval *fallback, rt_jval *out);
/* Attributes of a loop. *found is false when it has none of that name. */
int rt_jloop_attr(rt_jrun *r, rt_jloop *loop, const rt_jstr *name, rt_jval *out, bool *found);
int rt_jloop_length(rt_jrun *r, rt_jloop *loop, int64_t *out);

/* ---- operators ---- */

typedef enum rt_jop {
    RT_J_ADD,
    RT_J_SUB,
    RT_J_MUL,
    RT_J_DIV,
    RT_J_FLOORDIV,
    RT_J_MOD,
    RT_J_POW,
} rt_jop;
int rt_j_binary(rt_jrun *r, rt_jop op, rt_jval a, rt_jval b, rt_jval *out);
int rt_j_negate(rt_jrun *r, rt_jval v, bool minus, rt_jval *out);

/* ---- formatting ---- */

int rt_j_percent(rt_jrun *r, const rt_jstr *format, rt_jval args, rt_jval *out);
int rt_j_format(rt_jrun *r, const rt_jstr *format, const rt_jargs *args, rt_jval *out);
int rt_j_tojson(rt_jrun *r, const rt_jcall *c, rt_jval *out);

/* ---- helpers of the tables ---- */

/* A parameter as bool (any truth), index or string; def where it was not given. */
int rt_jarg_index(rt_jrun *r, const rt_jcall *c, int i, int64_t def, int64_t *out);
bool rt_jarg_truth(const rt_jcall *c, int i, bool def);
int rt_jarg_str(rt_jrun *r, const rt_jcall *c, int i, rt_jstr **out); /* null where it is none or was not given */
static inline bool rt_jarg_given(const rt_jcall *c, int i) { return c->a[i].type != RT_J_MISSING; }
/* x.lower() for strings, x for others. */
int rt_j_ignore_case(rt_jrun *r, rt_jval v, rt_jval *out);
typedef enum rt_jcase { RT_J_LOWER, RT_J_UPPER, RT_J_TITLE, RT_J_CAPITALIZE, RT_J_SWAPCASE, RT_J_FOLD } rt_jcase;
int rt_jstr_case(rt_jrun *r, const rt_jstr *s, rt_jcase mode, rt_jval *out);
/* Strips characters of chars (white space when null) from the ends; what is left is the bytes [from, to). */
void rt_jstr_ends(const rt_jstr *s, const rt_jstr *chars, bool left, bool right, size_t *from, size_t *to);
int rt_jstr_strip(rt_jrun *r, const rt_jstr *s, const rt_jstr *chars, bool left, bool right, rt_jval *out);
int rt_jstr_replace(rt_jrun *r, const rt_jstr *s, const rt_jstr *old, const rt_jstr *new_, int64_t count, rt_jval *out);
int rt_jstr_splitlines(rt_jrun *r, const rt_jstr *s, bool keep, rt_jlist **out);
int rt_jstr_pad(rt_jrun *r, const rt_jstr *s, int64_t width, const rt_jstr *fill, char align, rt_jval *out);

#endif
