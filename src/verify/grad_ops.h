/* grad_ops.h - the gradient problems of single ops, by number and by name. */
#ifndef RT_VERIFY_GRAD_OPS_H
#define RT_VERIFY_GRAD_OPS_H

#include "verify/grad.h"

/* The problem with this number: false past the last. A variant selects flags (see grad_ops.c). */
bool rt_grad_op(uint32_t index, const char **name, uint32_t *variant);
int rt_grad_op_check(rt_dev *ref_double, const char *name, uint32_t variant, rt_grad_report *report, rt_err *e);

#endif
