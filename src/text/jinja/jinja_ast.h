/* jinja_ast.h - tokens, the tree that a template is compiled to, and the compiled template. Internal to the jinja
 * files.
 *
 * Owns: what the parser hands to the evaluator. Names are numbered (symbols), filters and tests are resolved where they
 * are known, so that rendering looks nothing up by text but attributes and keys. */
#ifndef RT_JINJA_JINJA_AST_H
#define RT_JINJA_JINJA_AST_H

#include "text/jinja/jinja_call.h"

/* ---- tokens ---- */

typedef enum rt_jtoken_kind {
    RT_JT_END,
    RT_JT_DATA,
    RT_JT_VAR_BEGIN,
    RT_JT_VAR_END,
    RT_JT_BLOCK_BEGIN,
    RT_JT_BLOCK_END,
    RT_JT_NAME,
    RT_JT_STRING,
    RT_JT_INT,
    RT_JT_FLOAT,
    /* Operators: their characters, so that a new one needs no name. Two characters are first * 256 + second. */
    RT_JT_OPERATOR = 32,
} rt_jtoken_kind;
#define RT_JT_2(a, b) ((a)*256 + (b))

typedef struct rt_jtoken {
    int kind; /* rt_jtoken_kind, or an operator's characters */
    uint32_t line;
    rt_jval value; /* text of data, names and strings; numbers */
} rt_jtoken;

typedef struct rt_jtokens {
    rt_jtoken *items;
    uint32_t n, cap;
} rt_jtokens;

/* The tokens of a template; the last is RT_JT_END. They live in the run. */
int rt_jinja_lex(rt_jrun *r, const char *text, size_t bytes, rt_jtokens *out);

/* ---- nodes ---- */

typedef enum rt_jkind {
    /* expressions */
    RT_JN_CONST,  /* value */
    RT_JN_NAME,   /* name, symbol */
    RT_JN_TUPLE,  /* list */
    RT_JN_LIST,   /* list */
    RT_JN_DICT,   /* list: key, value, key, value */
    RT_JN_ATTR,   /* a.name */
    RT_JN_ITEM,   /* a[b] */
    RT_JN_SLICE,  /* a[b:c:d], each of b, c, d may be null */
    RT_JN_CALL,   /* a(args) */
    RT_JN_FILTER, /* a|builtin(args); a is null in a filter block: the text of the block */
    RT_JN_TEST,   /* a is builtin(args) */
    RT_JN_UNARY,  /* op: '-' or '+' */
    RT_JN_BINARY, /* op: rt_jop */
    RT_JN_AND,
    RT_JN_OR,
    RT_JN_NOT,
    RT_JN_COMPARE, /* a, then list of RT_JN_OPERAND */
    RT_JN_OPERAND, /* op: rt_jcompare; a */
    RT_JN_CONCAT,  /* list */
    RT_JN_COND,    /* b if a else c; c may be null */
    /* statements */
    RT_JN_DATA,         /* value */
    RT_JN_OUTPUT,       /* list of expressions */
    RT_JN_IF,           /* list: test, body, test, body...; a: else body or null */
    RT_JN_FOR,          /* for a in b if c (may be null): d; e: else body or null */
    RT_JN_SET,          /* a = b */
    RT_JN_SET_BLOCK,    /* a = body d through the filters of b (may be null) */
    RT_JN_MACRO,        /* name, symbol, params, body d */
    RT_JN_CALL_BLOCK,   /* call a with params and body d */
    RT_JN_FILTER_BLOCK, /* body d through b */
    RT_JN_WITH,         /* list: target, value, target, value...; body d */
    RT_JN_BREAK,
    RT_JN_CONTINUE,
    RT_JN_GENERATION, /* body d */
    RT_JN_BODY,       /* list of statements */
    RT_JN_NS_TARGET,  /* a target name.attr: symbol and value (the attribute) */
} rt_jkind;

typedef enum rt_jcompare {
    RT_JC_EQ,
    RT_JC_NE,
    RT_JC_LT,
    RT_JC_LE,
    RT_JC_GT,
    RT_JC_GE,
    RT_JC_IN,
    RT_JC_NOT_IN
} rt_jcompare;

typedef struct rt_jnode rt_jnode;

/* The arguments of a call, filter or test. */
typedef struct rt_jcall_node {
    rt_jnode **pos;
    uint32_t n_pos;
    const rt_jstr **kw_names;
    rt_jnode **kw;
    uint32_t n_kw;
    rt_jnode *star, *star_star; /* *args and **kwargs, or null */
} rt_jcall_node;

/* The parameters of a macro or call block. */
typedef struct rt_jparams {
    const rt_jstr **names;
    uint32_t *symbols;
    rt_jnode **defaults; /* null where there is none */
    uint32_t n;
    bool uses_caller, uses_kwargs, uses_varargs; /* without naming them as parameters */
} rt_jparams;

struct rt_jnode {
    rt_jkind kind;
    uint32_t op;
    uint32_t line;
    uint32_t symbol;
    rt_jval value;
    const rt_jstr *name;
    rt_jnode *a, *b, *c, *d, *e;
    rt_jnode **list;
    uint32_t n;
    rt_jcall_node *args;
    rt_jparams *params;
    const rt_jbuiltin *builtin; /* null: there is none of that name, which matters only when it is reached */
    /* Of a body with a scope: names that are undefined from its beginning, whatever the caller's variables say. */
    uint32_t *hidden;
    uint32_t n_hidden;
};

/* ---- the compiled template ---- */

/* Symbols that every template has. */
enum { RT_JS_LOOP, RT_JS_CALLER, RT_JS_VARARGS, RT_JS_KWARGS, RT_JS_FIXED };

struct rt_jinja {
    rt_arena small, large;
    const rt_jnode *body;
    const rt_jstr **symbols;
    uint32_t n_symbols;
    bool has_generation;
};

/* Compiles tokens; what it makes lives in the run. */
int rt_jinja_parse(rt_jrun *r, const rt_jtokens *tokens, rt_jinja *out);

/* Finds the hidden names of every scope. */
int rt_jinja_scopes(rt_jrun *r, rt_jnode *body, uint32_t n_symbols);

/* ---- between the parser's files ---- */

typedef struct rt_jnodes {
    rt_jnode **items;
    uint32_t n, cap;
} rt_jnodes;

typedef struct rt_jparser {
    rt_jrun *r;
    const rt_jtoken *tokens;
    uint32_t at;
    uint32_t loops; /* around this point, inside the innermost macro */
    uint32_t seen;  /* bits of RT_JS_*: names read since the innermost macro began */
    /* Filters and tests that do not exist. Inside an if they are a fault only when they are reached, so there (soft)
     * they are not kept. */
    rt_jnodes unknown;
    bool soft;
    rt_jinja *tmpl;
    uint32_t cap_symbols;
} rt_jparser;

typedef enum rt_jtuple_mode {
    RT_JP_FULL = 0,
    RT_JP_NO_COND = 1,     /* no inline if */
    RT_JP_TARGET = 2,      /* names and literals only */
    RT_JP_NAMESPACE = 4,   /* with RT_JP_TARGET: name.attr too */
    RT_JP_PARENTHESES = 8, /* may be empty */
    RT_JP_UNTIL_IN = 16,
    RT_JP_UNTIL_RECURSIVE = 32,
} rt_jtuple_mode;

int rt_jparse_expression(rt_jparser *p, rt_jnode **out);
int rt_jparse_tuple(rt_jparser *p, int mode, rt_jnode **out);
int rt_jparse_primary(rt_jparser *p, int mode, rt_jnode **out); /* a name, a literal, something in brackets */
int rt_jparse_postfix(rt_jparser *p, rt_jnode **node);          /* .a [b] (c) behind it */
int rt_jparse_call(rt_jparser *p, rt_jnode *callee, rt_jnode **out);
int rt_jparse_test(rt_jparser *p, rt_jnode *value, rt_jnode **out); /* from behind `is` */
int rt_jparse_filters(rt_jparser *p, bool start_inline, rt_jnode *node, rt_jnode **out);

int rt_jnode_new(rt_jparser *p, rt_jkind kind, uint32_t line, rt_jnode **out);
int rt_jnode2(rt_jparser *p, rt_jkind kind, uint32_t line, rt_jnode *a, rt_jnode *b, rt_jnode **out);
int rt_jnode_list(rt_jparser *p, rt_jkind kind, uint32_t line, const rt_jnodes *list, rt_jnode **out);
int rt_jnodes_push(rt_jparser *p, rt_jnodes *list, rt_jnode *node);
int rt_jsymbol(rt_jparser *p, const rt_jstr *name, uint32_t *out);
static inline const rt_jtoken *rt_jpeek(const rt_jparser *p) { return &p->tokens[p->at]; }
bool rt_jat_name(const rt_jtoken *t, const char *name);
bool rt_jskip_name(rt_jparser *p, const char *name);
bool rt_jskip(rt_jparser *p, int kind);
int rt_jexpect(rt_jparser *p, int kind, const char *what);
/* A syntax error at the current token. */
int rt_junexpected(rt_jparser *p, const char *wanted);

#endif
