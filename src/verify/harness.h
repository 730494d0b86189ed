/* harness.h - the parts of running a case that the cases of one op share: in double, judging what seal and runs say,
 * checking what came back. harness.c has the usual case, large.c those of more than 2^31 elements. */
#ifndef RT_VERIFY_HARNESS_H
#define RT_VERIFY_HARNESS_H

#include "verify/values.h"

/* The error where there is no measure: wrong bits, NaN for a number. Finite, so that it can be printed as JSON. */
#define RT_CASE_BEYOND 1e6

/* The bytes of every buffer after a run. */
typedef struct rt_after {
    uint8_t *buf[RT_MAX_SLOTS];
} rt_after;

/* The first failure of a case is kept. */
void rt_case_fail(rt_case_result *r, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* What seal or a run says: RT_OK to go on or, with r set, to stop; negative when nothing can be run. */
int rt_case_judge(int rc, const rt_err *why, rt_case_result *r, rt_err *e);
/* Fills want with the buffers that the op writes, from `ref` in double. */
int rt_case_run_double(const rt_values *v, rt_verify_env *env, rt_after *want, rt_case_result *r, rt_err *e);
/* An operand that seal dequantises or casts for the device reaches the op rounded: the double run is given the same. p:
 * the plan as lowered. */
int rt_case_follow_lowering(rt_values *v, const rt_plan *p, rt_err *e);
/* Every output against double, then that everything else is as it was. */
int rt_case_check(rt_values *v, const rt_verify_env *env, const rt_after *got, const rt_after *want, rt_case_result *r,
                  rt_err *e);

#endif
