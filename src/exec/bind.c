/* bind.c - views become operands: an allocation, a byte offset, a shape. */
#include "exec/exec_internal.h"

#include <string.h>

static rt_operand bind_view(const rt_exec *x, const rt_sealed *s, bool promised, rt_view v)
{
    if (!v.buf) return (rt_operand){ 0 };
    const rt_buffer *b = rt_plan_buffer(s->plan, v);
    uint64_t base = v.buf & RT_ACT_BIT ? s->place[v.buf & ~RT_ACT_BIT] : x->space_off[v.buf - 1];
    bool read = b->cls == RT_CLASS_DISK;
    return (rt_operand){ .mem = read       ? NULL
                                : promised ? RT_MEM_PROMISED
                                           : x->mem[b->cls],
                         .reader = read ? &x->reader : NULL,
                         .off = base + rt_dtype_bytes(b->dtype, v.off),
                         .dtype = b->dtype,
                         .rows = v.rows,
                         .cols = v.cols,
                         .stride = v.rows == 1 ? v.cols : v.stride };
}

void rt_bind(const rt_exec *x, uint32_t program, bool promised, rt_bound_op *ops)
{
    const rt_sealed *s = &x->prog[program];
    for (uint32_t t = 0; t < s->plan->nops; t++) {
        const rt_op *op = &s->plan->ops[t];
        rt_bound_op *b = &ops[t];
        *b = (rt_bound_op){ .kind = op->kind,
                            .queue = op->queue,
                            .acc = op->acc,
                            .nslots = rt_op_slots(op->kind),
                            .args = op->args,
                            .choice = s->choice[t],
                            .peers = op->queue == RT_QUEUE_COMM ? x->opts.peers : NULL };
        memcpy(b->after, s->after[t], sizeof b->after);
        RT_FOR_SLOTS (i, op->kind) b->slot[i] = bind_view(x, s, promised, op->slot[i]);
        b->work = bind_view(x, s, promised, op->work);
    }
}
