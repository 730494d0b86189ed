/* large.h - cases of more than 2^31 elements: run by large.c, listed in large_cases.c. */
#ifndef RT_VERIFY_LARGE_H
#define RT_VERIFY_LARGE_H

#include "verify/op_case.h"

/* c->data is an rt_op_case whose first dimension is rows: the pattern that the case repeats. RT_CASE_UNSUPPORTED, with
 * what it would need, where memory is short. */
int rt_large_case_run(const rt_case *c, rt_verify_env *env, rt_case_result *r, rt_err *e);

#endif
