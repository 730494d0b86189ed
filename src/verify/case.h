/* case.h - what a case is, the list of them, and what a case is given to run in.
 *
 * Owns: rt_case, families of cases, the environment. A family is one object named in RT_CASE_FAMILY_LIST whose `add`
 * puts its cases into a list; most describe one op as data (op_case.h) and are run by the harness, others bring their
 * own `run`. */
#ifndef RT_VERIFY_CASE_H
#define RT_VERIFY_CASE_H

#include "base/mem.h"
#include "op/plan.h"
#include "verify/verify.h"

enum { RT_VERIFY_DEVS = 4 };

/* What cases run in. Cases run one after another, on one thread. */
typedef struct rt_verify_env {
    const rt_verify_opts *opts;
    rt_dev *spec;                     /* `ref` in double */
    rt_dev *dev[RT_VERIFY_DEVS];      /* the tested backend; for `cpu` also with 1, 2 and 7 threads */
    uint32_t threads[RT_VERIFY_DEVS]; /* of each; 0 where the backend has no such number */
    uint32_t ndevs;                   /* at least 1 */
    bool serial;                      /* the tested backend is `ref` in float, which adds up one by one */
    bool cuts_off;                    /* its GEMMs of 16- and 8-bit operands may cut sums off (tolerance.h) */
    rt_arena scratch;                 /* emptied after every case */
} rt_verify_env;

typedef struct rt_case rt_case;
/* Fills outcome, error and text of r (name, op and seconds are filled by the caller; the outcome arrives as PASS, the
 * rest as zero). A case that does not pass returns RT_OK; a negative status means that it could not be run at all. */
typedef int (*rt_case_run_fn)(const rt_case *c, rt_verify_env *env, rt_case_result *r, rt_err *e);

struct rt_case {
    const char *name; /* unique, no blanks: "rope_fwd/bf16/17x3x10/strided" */
    const char *op;
    bool quick; /* part of --quick */
    bool large; /* of --large alone */
    rt_case_run_fn run;
    const void *data; /* the family's own */
};

/* Grows while families add to it. Errors stick. */
typedef struct rt_case_list {
    rt_case *cases;
    uint32_t n, cap;
    rt_arena memory; /* names and data */
    rt_err err;
} rt_case_list;

/* A case with a printed name (and the null run and data, for the caller to fill); null after an error. The pointer is
 * valid until the next call. op is kept as it is, not copied. */
rt_case *rt_case_add(rt_case_list *l, const char *op, const char *format, ...) __attribute__((format(printf, 3, 4)));
/* bytes, zeroed, that live as long as the list; null after an error (which sticks). */
void *rt_case_alloc(rt_case_list *l, size_t bytes);

typedef struct rt_case_family {
    const char *name;
    void (*add)(rt_case_list *l);
} rt_case_family;

/* Every family, in the order in which its cases run: `const rt_case_family rt_family_<name>`. ops (ops.c) is one op at
 * a time, grad and block are in grad_cases.c and block_cases.c, large in large_cases.c. */
#define RT_CASE_FAMILY_LIST(X) X(ops) X(grad) X(block) X(large)
#define X(name) extern const rt_case_family rt_family_##name;
RT_CASE_FAMILY_LIST(X)
#undef X

/* All cases of all families; free with rt_case_list_free. */
int rt_case_list_all(rt_case_list *out, rt_err *e);
void rt_case_list_free(rt_case_list *l);

/* Opens the devices of a run; close accepts a zeroed env. */
int rt_verify_env_open(rt_verify_env *env, const rt_verify_opts *o, rt_err *e);
void rt_verify_env_close(rt_verify_env *env);
/* Runs one case: result complete with name, op and seconds. */
int rt_case_run(const rt_case *c, rt_verify_env *env, rt_case_result *r, rt_err *e);

#endif
