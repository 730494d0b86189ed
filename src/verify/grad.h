/* grad.h - derivatives checked against signed central differences, in double on `ref`.
 *
 * A problem has a forward plan, a plan that also runs backward, inputs with the buffers that hold their gradients, and
 * a scalar: the sum of the outputs times fixed weights. Every element (or a fixed sample of a large input) is moved
 * both ways by h and 2h; the fourth-order formula leaves an error near 1e-12, so the limit can be what the issue of
 * trust needs: 1e-6 of max(|analytic|, |numeric|, 1e-3 of the largest in the tensor). */
#ifndef RT_VERIFY_GRAD_H
#define RT_VERIFY_GRAD_H

#include "exec/exec.h"
#include "op/emit.h"

enum { RT_GRAD_VARS = 64, RT_GRAD_OUTS = 3, RT_GRAD_DATA = 48 };

typedef struct rt_grad_var {
    rt_view x, dx; /* f64, same shape, without gaps */
    const char *name;
} rt_grad_var;

typedef struct rt_grad_out {
    rt_view y;             /* f64 output of the forward plan */
    rt_view dy;            /* where backward reads dL/dy; RT_NONE when the op makes its own (losses) */
    const double *weights; /* (elements of y); null: random, and written to dy */
} rt_grad_out;

/* Fixed data of any dtype that both plans read. */
typedef struct rt_grad_data {
    rt_view v;
    const void *data;
} rt_grad_data;

typedef struct rt_grad_problem {
    rt_space *space;
    rt_plan *forward, *backward;
    rt_grad_var var[RT_GRAD_VARS];
    uint32_t nvars;
    rt_grad_out out[RT_GRAD_OUTS];
    uint32_t nouts;
    rt_grad_data data[RT_GRAD_DATA];
    uint32_t ndata;
    double h;      /* 0: 1e-3 */
    double spread; /* of the random inputs; 0: 1 */
    uint64_t seed;
    uint32_t samples; /* elements per input, 0: all */
} rt_grad_problem;

typedef struct rt_grad_report {
    double worst; /* error / limit; below 1 is a pass */
    uint64_t checked;
    char where[200]; /* the worst element: input, index, analytic, numeric */
} rt_grad_report;

/* RT_OK when everything could be measured; the verdict is report->worst < 1. */
int rt_grad_check(rt_dev *ref_double, const rt_grad_problem *g, rt_grad_report *report, rt_err *e);

/* The problems of single ops, by number and by name (grad_ops.c): false past the last. A variant selects flags. */
bool rt_grad_op(uint32_t index, const char **name, uint32_t *variant);
int rt_grad_op_check(rt_dev *ref_double, const char *name, uint32_t variant, rt_grad_report *report, rt_err *e);

/* Deterministic numbers for tests of this room: roughly normal, from (seed, index). */
double rt_test_normal(uint64_t seed, uint64_t index);

#endif
