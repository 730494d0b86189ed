/* jinja_value.h - values of the template language, and the run they live in. Internal to the jinja files.
 *
 * Owns: the value type with Python's meaning of it (text, truth, equality, order, iteration), and the memory and limits
 * of one compilation or rendering. Strings, lists, tuples and dicts never change once another value can see them (the
 * sandbox forbids it), so parts are shared and not copied. Everything dies with the run's arenas. */
#ifndef RT_JINJA_JINJA_VALUE_H
#define RT_JINJA_JINJA_VALUE_H

#include "base/err.h"
#include "base/mem.h"
#include "base/str.h"
#include "text/jinja/jinja.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* ---- the run ---- */

typedef struct rt_jrun rt_jrun;
typedef struct rt_jscope rt_jscope;

struct rt_jrun {
    rt_arena small, large;                         /* large allocations apart, so that they waste no block's tail */
    uint64_t memory_left, steps_left, output_left; /* output_left: of the whole scratch, see out */
    /* Bytes that were compared or counted since the last step: the next one is dearer by these. */
    uint64_t seen;
    uint32_t depth_left;
    uint32_t line; /* of the statement or call being worked on, for messages */
    rt_err *e;     /* never null */
    /* Rendering only. Text is made at the end of `out` and, when it is to be a value, cut off again: so one buffer
     * serves the output, captures of macros and all string building, with the discipline of a stack. */
    rt_str *out;
    /* The last string that + made: where it ends and what room follows, so that adding to it again copies nothing. */
    char *cat_end;
    size_t cat_room;
    const rt_jinja *tmpl;
    struct rt_jval *globals; /* by symbol */
    rt_jscope *scope;        /* null: only globals are in sight */
    uint32_t captures;       /* macros, block sets, filter blocks and generation blocks around this point */
    uint32_t generations;
    rt_jinja_result *result;
    int64_t now;
};

/* Zeroed. Null with the error set: then `return rt_j_status(r)`. */
void *rt_j_alloc(rt_jrun *r, size_t bytes);
static inline int rt_j_status(const rt_jrun *r) { return r->e->status < 0 ? r->e->status : RT_INTERNAL; }
/* RT_INVALID, with "template line N: " before the message. */
int rt_j_fail(rt_jrun *r, const char *format, ...) __attribute__((format(printf, 2, 3)));
int rt_j_unsupported(rt_jrun *r, const char *format, ...) __attribute__((format(printf, 2, 3)));
int rt_j_tick(rt_jrun *r, uint64_t steps);
int rt_j_enter(rt_jrun *r); /* one level deeper, and one step; pairs with leave */
static inline void rt_j_leave(rt_jrun *r) { r->depth_left++; }

/* ---- values ---- */

typedef enum rt_jtype {
    RT_J_UNDEFINED,
    RT_J_NONE,
    RT_J_BOOL,
    RT_J_INT,
    RT_J_FLOAT,
    RT_J_STR,
    RT_J_LIST,
    RT_J_TUPLE,
    RT_J_DICT,
    RT_J_RANGE,
    RT_J_VIEW,      /* dict.keys(), values(), items() */
    RT_J_ITER,      /* what filters such as map give: can be walked once */
    RT_J_NAMESPACE, /* the one value that changes */
    RT_J_LOOP,
    RT_J_MACRO,
    RT_J_METHOD,   /* of a value, not yet called */
    RT_J_FUNCTION, /* a global one */
    RT_J_CYCLER,
    RT_J_JOINER,
    RT_J_MISSING, /* no value at all: an argument that was not given, a name without a variable */
} rt_jtype;

typedef struct rt_jval rt_jval;
typedef struct rt_jstr {
    const char *data; /* UTF-8, not terminated */
    uint32_t len;     /* bytes */
    uint32_t chars;   /* code points; RT_J_UNCOUNTED until somebody asks */
    bool markup;      /* the result of |safe or |escape: adding to it escapes the other side */
} rt_jstr;
enum { RT_J_UNCOUNTED = UINT32_MAX };
typedef struct rt_jlist rt_jlist;
typedef struct rt_jdict rt_jdict;
typedef struct rt_jundef rt_jundef;
typedef struct rt_jrange rt_jrange;
typedef struct rt_jview rt_jview;
typedef struct rt_jiter rt_jiter;
typedef struct rt_jloop rt_jloop;
typedef struct rt_jmacro rt_jmacro;
typedef struct rt_jmethod rt_jmethod;
typedef struct rt_jbuiltin rt_jbuiltin;
typedef struct rt_jcycler rt_jcycler;
typedef struct rt_jjoiner rt_jjoiner;

struct rt_jval {
    rt_jtype type;
    union {
        bool b;
        int64_t i;
        double f;
        const rt_jundef *u;
        rt_jstr *s;
        rt_jlist *l; /* list and tuple */
        rt_jdict *d; /* dict and namespace */
        const rt_jrange *range;
        const rt_jview *view;
        rt_jiter *iter;
        rt_jloop *loop;
        const rt_jmacro *macro;
        const rt_jmethod *method;
        const rt_jbuiltin *fn;
        rt_jcycler *cycler;
        rt_jjoiner *joiner;
        const void *p;
    };
};

struct rt_jlist {
    rt_jval *items;
    uint32_t n, cap;
    bool group;    /* a pair of |groupby: has the attributes grouper and list */
    bool printing; /* its text is being made, so inside of that it is "[...]" */
};

typedef struct rt_jpair {
    rt_jval key, value;
} rt_jpair;
struct rt_jdict {
    rt_jpair *items; /* in order of insertion */
    uint32_t n, cap;
    bool printing;
};

/* Why a value is undefined; the message is made only when somebody uses it. */
struct rt_jundef {
    const char *hint;    /* the whole message, or null */
    const rt_jstr *name; /* of the variable or attribute; null: element says it */
    rt_jtype of;         /* type that has no such attribute; RT_J_MISSING: a variable */
    rt_jval element;
};

struct rt_jrange {
    int64_t start, stop, step, n;
};

typedef enum rt_jview_kind { RT_J_KEYS, RT_J_VALUES, RT_J_ITEMS } rt_jview_kind;
struct rt_jview {
    const rt_jdict *d;
    rt_jview_kind kind;
};

struct rt_jnode;
struct rt_jmacro {
    const rt_jstr *name; /* null: the body of a call block */
    const struct rt_jnode *node;
    rt_jscope *scope; /* where it was defined, which is what its body sees */
};

struct rt_jcycler {
    rt_jlist *items;
    uint32_t pos;
};

struct rt_jjoiner {
    rt_jval sep;
    bool used;
};

static inline rt_jval rt_jv(rt_jtype type) { return (rt_jval){ .type = type }; }
static inline rt_jval rt_jv_bool(bool b) { return (rt_jval){ .type = RT_J_BOOL, .b = b }; }
static inline rt_jval rt_jv_int(int64_t i) { return (rt_jval){ .type = RT_J_INT, .i = i }; }
static inline rt_jval rt_jv_float(double f) { return (rt_jval){ .type = RT_J_FLOAT, .f = f }; }
static inline rt_jval rt_jv_str(rt_jstr *s) { return (rt_jval){ .type = RT_J_STR, .s = s }; }
static inline rt_jval rt_jv_list(rt_jtype type, rt_jlist *l) { return (rt_jval){ .type = type, .l = l }; }
static inline bool rt_jv_is_list(rt_jval v) { return v.type == RT_J_LIST || v.type == RT_J_TUPLE; }
/* An index: int or bool. */
static inline bool rt_jv_index(rt_jval v, int64_t *out)
{
    if (v.type != RT_J_INT && v.type != RT_J_BOOL) return false;
    *out = v.type == RT_J_BOOL ? v.b : v.i;
    return true;
}
/* int, bool or float */
static inline bool rt_jv_is_number(rt_jval v)
{
    return v.type == RT_J_INT || v.type == RT_J_BOOL || v.type == RT_J_FLOAT;
}

const char *rt_jtype_name(rt_jtype type); /* as Python names it */

/* ---- strings ---- */

/* The string shares data, which must live as long as the run. */
int rt_jstr_view(rt_jrun *r, const char *data, size_t len, rt_jval *out);
int rt_jstr_literal(rt_jrun *r, const char *terminated, rt_jval *out);
/* Bytes [from, to) of s, sharing its data and its markup flag. */
int rt_jstr_part(rt_jrun *r, const rt_jstr *s, size_t from, size_t to, rt_jval *out);
uint32_t rt_jstr_chars(rt_jrun *r, rt_jstr *s);
bool rt_jstr_equal(rt_jrun *r, const rt_jstr *a, const rt_jstr *b);
bool rt_jstr_is(const rt_jstr *s, const char *terminated);
int rt_jstr_order(rt_jrun *r, const rt_jstr *a, const rt_jstr *b); /* <0, 0, >0, by code point */
/* The byte at which code point number index starts; index may be the number of code points. */
size_t rt_jstr_offset(rt_jrun *r, const rt_jstr *s, uint32_t index);
/* First or last place of needle in s at or after from and ending at or before to, or SIZE_MAX. */
int rt_jstr_find(rt_jrun *r, const rt_jstr *s, const rt_jstr *needle, size_t from, size_t to, bool last, size_t *at);
int rt_jstr_concat(rt_jrun *r, const rt_jstr *a, const rt_jstr *b, rt_jval *out);
int rt_jstr_repeat(rt_jrun *r, const rt_jstr *s, int64_t times, rt_jval *out);
/* & < > ' " as HTML has them; the result is markup. */
int rt_jstr_escape(rt_jrun *r, const rt_jstr *s, rt_jval *out);

/* One code point at data[*at], which moves on; never past len. */
uint32_t rt_j_decode(const char *data, size_t len, size_t *at);

/* ---- text at the end of the run's scratch ---- */

size_t rt_j_mark(const rt_jrun *r);
int rt_j_put(rt_jrun *r, const char *data, size_t len);
int rt_j_puts(rt_jrun *r, const char *terminated);
int rt_j_put_char(rt_jrun *r, uint32_t c);
/* What follows mark becomes a string and leaves the scratch. */
int rt_j_cut(rt_jrun *r, size_t mark, rt_jval *out);
/* str(v) and repr(v), appended. */
int rt_j_put_str(rt_jrun *r, rt_jval v);
int rt_j_put_repr(rt_jrun *r, rt_jval v);
/* str(v) as a string value; v itself when it is one (markup kept). */
int rt_j_str(rt_jrun *r, rt_jval v, rt_jval *out);
int rt_j_format_float(char buf[32], double x); /* Python's repr; returns its length */

/* ---- lists and dicts ---- */

int rt_jlist_new(rt_jrun *r, uint32_t cap, rt_jlist **out);
int rt_jlist_push(rt_jrun *r, rt_jlist *l, rt_jval v);
int rt_jdict_new(rt_jrun *r, uint32_t cap, rt_jdict **out);
/* found is null when there is none. Fails when key cannot be one (a list, a dict). */
int rt_jdict_find(rt_jrun *r, const rt_jdict *d, rt_jval key, rt_jpair **found);
int rt_jdict_set(rt_jrun *r, rt_jdict *d, rt_jval key, rt_jval value);
const rt_jval *rt_jdict_get_str(rt_jrun *r, const rt_jdict *d, const rt_jstr *key); /* null when there is none */
bool rt_jv_hashable(rt_jrun *r, rt_jval v);
int rt_jtuple2(rt_jrun *r, rt_jval a, rt_jval b, rt_jval *out);

/* ---- truth, equality, order ---- */

bool rt_j_truth(rt_jval v);
int rt_j_equal(rt_jrun *r, rt_jval a, rt_jval b, bool *out);
typedef enum rt_jorder { RT_J_LT, RT_J_LE, RT_J_GT, RT_J_GE } rt_jorder;
int rt_j_compare(rt_jrun *r, rt_jorder op, rt_jval a, rt_jval b, bool *out);
int rt_j_contains(rt_jrun *r, rt_jval container, rt_jval item, bool *out);
/* Whether both are the same object; for numbers and strings, equal ones of one type. */
bool rt_j_same(rt_jrun *r, rt_jval a, rt_jval b);
/* Stable; items and keys (n of each) are sorted together by key. */
int rt_j_sort(rt_jrun *r, rt_jval *items, rt_jval *keys, uint32_t n, bool reverse);
/* len(v); false when v has none. */
bool rt_j_length(rt_jrun *r, rt_jval v, int64_t *out);

/* ---- iteration ---- */

struct rt_jiter {
    int (*next)(rt_jrun *r, rt_jiter *it, rt_jval *out); /* 1: *out is the next item; 0: no more; <0: failed */
    rt_jval source;
    int64_t at; /* index or byte offset */
    bool reverse;
    rt_jiter *inner; /* that it draws from */
    const void *ctx; /* of the filter that made it */
    const char *name;
};
int rt_j_iter(rt_jrun *r, rt_jval v, rt_jiter **out);
/* For reversed(): *out is null when v cannot be walked backwards. */
int rt_j_iter_reversed(rt_jrun *r, rt_jval v, rt_jiter **out);
static inline int rt_j_next(rt_jrun *r, rt_jiter *it, rt_jval *out) { return it->next(r, it, out); }
int rt_j_to_list(rt_jrun *r, rt_jval v, rt_jlist **out); /* a new list, or v's own where it is one */

/* ---- undefined ---- */

int rt_jundef_name(rt_jrun *r, const rt_jstr *name, rt_jval *out);
int rt_jundef_attr(rt_jrun *r, rt_jval of, const rt_jstr *name, rt_jval *out);
int rt_jundef_item(rt_jrun *r, rt_jval of, rt_jval element, rt_jval *out);
int rt_jundef_hint(rt_jrun *r, const char *hint, rt_jval *out); /* hint must outlive the run */
int rt_jundef_fail(rt_jrun *r, rt_jval undefined);              /* always an error */

/* ---- JSON ---- */

int rt_j_from_json(rt_jrun *r, const json_t *j, rt_jval *out); /* strings share j's memory */
/* The first `head` items of an array. */
int rt_j_from_json_head(rt_jrun *r, const json_t *j, size_t head, rt_jval *out);

#endif
