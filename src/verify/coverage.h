/* coverage.h - does every legal signature of every op have the cases that it must have? For the unit tests: a new op,
 * dtype rule, operand or flag without cases turns them red. */
#ifndef RT_VERIFY_COVERAGE_H
#define RT_VERIFY_COVERAGE_H

#include "verify/op_case.h"

/* RT_OK, or RT_INTERNAL naming the first op and signature that lacks something, and what. Of each signature: every kind
 * of shape that its op lists, at least an odd one and one of ones, and a big one unless the op has one shape only;
 * every allowed value of every flag; `=` and `+=` of every accumulating output; every in-place form. Of each op: every
 * optional operand present and absent; every output strided and not; every vector width, unless it has one shape only.
 */
int rt_coverage_check(const rt_case_list *l, rt_err *e);

#endif
