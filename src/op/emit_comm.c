/* emit_comm.c - emitters of the ops that ranks do together: all_reduce.
 *
 * Owns: that such an op is on the comm queue. */
#include "op/emit_internal.h"

void rt_emit_all_reduce(rt_plan *p, rt_view x, rt_view fault, uint32_t ranks)
{
    emit e;
    const rt_queue queue = p->queue;
    if (!emit_begin(&e, p, RT_OP_ALL_REDUCE, EMIT_SLOTS(x, fault))) return;
    if (ranks == 0) emit_fail(&e, "ranks is 0, expected 1 or more");
    emit_fault(&e, RT_REDUCE_FAULT);
    e.args.rows = (rt_rows_args){ .N = x.rows, .C = x.cols, .R = ranks };
    rt_plan_queue(p, RT_QUEUE_COMM);
    emit_end(&e);
    rt_plan_queue(p, queue);
}
