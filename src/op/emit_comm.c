/* emit_comm.c - emitters of the ops that ranks do together: all_reduce, reduce_scatter, all_gather.
 *
 * Owns: that such an op is on the comm queue. */
#include "op/emit_internal.h"

static void end_on_comm(emit *e, uint32_t ranks)
{
    rt_plan *p = e->p;
    const rt_queue queue = p->queue;
    if (ranks == 0) emit_fail(e, "ranks is 0, expected 1 or more");
    rt_plan_queue(p, RT_QUEUE_COMM);
    emit_end(e);
    rt_plan_queue(p, queue);
}

void rt_emit_all_reduce(rt_plan *p, rt_view x, rt_view fault, uint32_t ranks)
{
    emit e;
    if (!emit_begin(&e, p, RT_OP_ALL_REDUCE, EMIT_SLOTS(x, fault))) return;
    emit_fault(&e, RT_REDUCE_FAULT);
    e.args.rows = (rt_rows_args){ .N = x.rows, .C = x.cols, .R = ranks };
    end_on_comm(&e, ranks);
}

/* x is one row, and the slice lies in it. */
static void slice_args(emit *e, int x, const rt_slice *s, uint32_t ranks)
{
    uint32_t C = e->s[x].cols;
    emit_shape(e, x, 1, C, "slices are cut from one row");
    if ((uint64_t)s->first + s->count > C || s->count > s->most || s->most > C)
        emit_fail(e, "the slice of %u elements from %u on (of %u at most) does not lie in a row of %u", s->count,
                  s->first, s->most, C);
    e->args.slice = (rt_slice_args){ .C = C, .R = ranks, .first = s->first, .count = s->count, .most = s->most };
}

void rt_emit_reduce_scatter(rt_plan *p, rt_view own, rt_view x, rt_slice s, uint32_t ranks)
{
    emit e;
    if (!emit_begin(&e, p, RT_OP_REDUCE_SCATTER, EMIT_SLOTS(own, x))) return;
    slice_args(&e, RT_SCATTER_X, &s, ranks);
    emit_shape(&e, RT_SCATTER_OWN, 1, s.count, "the elements of the slice");
    if (s.count && !emit_has(&e, RT_SCATTER_OWN))
        emit_fail(&e, "own is missing, and the slice has %u elements", s.count);
    end_on_comm(&e, ranks);
}

void rt_emit_all_gather(rt_plan *p, rt_view x, rt_slice s, uint32_t ranks)
{
    emit e;
    if (!emit_begin(&e, p, RT_OP_ALL_GATHER, EMIT_SLOTS(x))) return;
    slice_args(&e, RT_GATHER_X, &s, ranks);
    end_on_comm(&e, ranks);
}
