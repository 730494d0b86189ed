/* estimate.h - how long programs will take on their device, without running them.
 *
 * Owns: measuring. Every distinct op of a set (kind, shapes, dtypes, flags) is sealed as a program of its own and
 * timed; a program takes the sum of its ops, but for copies that others hide. An op that is too large to be timed whole
 * is timed on fewer rows or columns and scaled by its arithmetic. Weights and activations are zero, which on no device
 * changes how long a GEMM takes; what does decide it (ids, documents, what is trained) comes from the caller. The set
 * may have been sealed dry.
 */
#ifndef RT_EXEC_ESTIMATE_H
#define RT_EXEC_ESTIMATE_H

#include "exec/exec.h"

/* Values of a buffer of the space, all of it: 4 bytes an element. */
typedef struct rt_known {
    rt_view v;
    const void *data;
} rt_known;

/* Do two ops cost the same: kind, shapes, dtypes and flags, but not where they lie? */
bool rt_op_costs_same(const rt_plan *p, const rt_op *a, const rt_plan *q, const rt_op *b);
/* spans (programs of x). The memory of the largest op is allocated for a moment. */
int rt_exec_estimate(const rt_exec *x, const rt_known *known, uint32_t count, rt_exec_span *spans, rt_err *e);

#endif
