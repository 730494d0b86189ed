/* jinja_eval.h - between the files that walk the tree: expressions, statements, loops, calls. Internal to the jinja
 * files. */
#ifndef RT_JINJA_JINJA_EVAL_H
#define RT_JINJA_JINJA_EVAL_H

#include "text/jinja/jinja_ast.h"

/* A scope holds the few names that a loop, macro or block sets; what it does not hold is looked for further out, and at
 * last among the globals. Macros keep the scope they were defined in, so scopes are never reused. */
typedef struct rt_jvar {
    uint32_t symbol;
    rt_jval value;
    struct rt_jvar *next;
} rt_jvar;
struct rt_jscope {
    rt_jscope *parent; /* null: the globals */
    rt_jvar *vars;
};

/* Enters a new scope; the caller puts r->scope back. */
int rt_jscope_push(rt_jrun *r, rt_jscope *parent);
int rt_jscope_set(rt_jrun *r, uint32_t symbol, rt_jval value);
rt_jval rt_jscope_get(const rt_jrun *r, uint32_t symbol); /* RT_J_MISSING when there is none */

int rt_j_eval(rt_jrun *r, const rt_jnode *node, rt_jval *out);
/* node through its filters, which a filter block or block set begins with text. */
int rt_j_eval_filters(rt_jrun *r, const rt_jnode *node, rt_jval text, rt_jval *out);
int rt_j_eval_args(rt_jrun *r, const rt_jcall_node *node, const rt_jkw *extra, rt_jargs *out);

/* What a statement did: went on, or left its loop or iteration. */
typedef enum rt_jflow { RT_JF_NEXT, RT_JF_BREAK, RT_JF_CONTINUE } rt_jflow;
int rt_j_exec(rt_jrun *r, const rt_jnode *node, rt_jflow *flow);
int rt_j_assign(rt_jrun *r, const rt_jnode *target, rt_jval value);

int rt_j_exec_for(rt_jrun *r, const rt_jnode *node, rt_jflow *flow);
int rt_j_call_macro(rt_jrun *r, const rt_jmacro *macro, const rt_jargs *args, rt_jval *out);

#endif
