/* order.c - what an op has to wait for in queues that run beside its own, and how long a program then takes.
 *
 * Owns: the one rule of order. The list of a plan is a right order; two ops of different queues keep it where they
 * touch the same bytes and one of them writes. Bytes are those of the placed program, so that memory which two
 * activations have one after the other orders them too: a slot is not filled again before it has been read. A queue is
 * in order by itself, so that waiting for its last op that matters is waiting for all before it. */
#include "exec/exec_internal.h"

/* Bytes of a class that an operand reaches, gaps included. */
typedef struct extent {
    rt_class cls;
    uint64_t begin, end;
} extent;

static extent extent_of(const rt_exec *x, const rt_sealed *s, rt_view v)
{
    const rt_buffer *b = rt_plan_buffer(s->plan, v);
    uint64_t base = v.buf & RT_ACT_BIT ? s->place[v.buf & ~RT_ACT_BIT] : x->space_off[v.buf - 1];
    uint64_t elems = (v.rows - 1) * (v.rows == 1 ? 0 : v.stride) + v.cols;
    return (extent){ b->cls, base + rt_dtype_bytes(b->dtype, v.off), base + rt_dtype_bytes(b->dtype, v.off + elems) };
}

static bool meet(const extent *a, const extent *b)
{
    return a->cls == b->cls && a->begin < b->end && b->begin < a->end;
}

/* Slot i of an op; behind the last one its scratch. */
static rt_view operand(const rt_op *op, uint32_t i) { return i < rt_op_slots(op->kind) ? op->slot[i] : op->work; }

static bool writes(const rt_op *op, uint32_t i)
{
    return i == rt_op_slots(op->kind) || rt_op_access(op->kind, i, op->slot) != RT_READ;
}

static bool conflict(const rt_exec *x, const rt_sealed *s, const rt_op *a, const rt_op *b)
{
    for (uint32_t i = 0; i <= rt_op_slots(a->kind); i++) {
        if (!operand(a, i).buf) continue;
        extent of_a = extent_of(x, s, operand(a, i));
        for (uint32_t k = 0; k <= rt_op_slots(b->kind); k++) {
            if (!operand(b, k).buf || !(writes(a, i) || writes(b, k))) continue;
            extent of_b = extent_of(x, s, operand(b, k));
            if (meet(&of_a, &of_b)) return true;
        }
    }
    return false;
}

/* seen[q][r]: how many ops from the first one on queue q knows to be done, as far as they are of queue r. */
void rt_order(const rt_exec *x, const rt_sealed *s, uint32_t (*after)[RT_QUEUE_COUNT])
{
    uint32_t seen[RT_QUEUE_COUNT][RT_QUEUE_COUNT] = { 0 }, used = 0;
    const rt_op *ops = s->plan->ops;
    for (uint32_t t = 0; t < s->plan->nops; t++) used |= 1u << ops[t].queue;
    if (!(used & (used - 1))) return; /* one queue */
    for (uint32_t t = 0; t < s->plan->nops; t++)
        for (uint32_t r = 0; r < RT_QUEUE_COUNT; r++) {
            uint32_t *known = &seen[ops[t].queue][r];
            if (r == (uint32_t)ops[t].queue || !(used >> r & 1)) continue;
            for (uint32_t k = t; k > *known; k--) {
                if ((uint32_t)ops[k - 1].queue != r || !conflict(x, s, &ops[k - 1], &ops[t])) continue;
                after[t][r] = *known = k;
            }
        }
}

rt_exec_span rt_exec_span_of(const rt_exec *x, uint32_t program, const double *seconds)
{
    const rt_sealed *s = &x->prog[program];
    rt_exec_span span = { 0 };
    double free_at[RT_QUEUE_COUNT] = { 0 };
    double *done =
        rt_alloc(s->plan->nops * sizeof *done, 16); /* null: nothing is hidden, which is the cautious answer */
    for (uint32_t t = 0; t < s->plan->nops; t++) {
        const rt_op *op = &s->plan->ops[t];
        double begin = free_at[op->queue];
        *(op->queue == RT_QUEUE_COPY ? &span.copy : &span.compute) += seconds[t];
        for (uint32_t r = 0; done && r < RT_QUEUE_COUNT; r++)
            if (s->after[t][r] && done[s->after[t][r] - 1] > begin) begin = done[s->after[t][r] - 1];
        free_at[op->queue] = begin + seconds[t];
        if (done) done[t] = free_at[op->queue];
        if (free_at[op->queue] > span.total) span.total = free_at[op->queue];
    }
    if (!done || !x->dev->api->queues) span.total = span.compute + span.copy;
    rt_free(done);
    return span;
}

double rt_exec_hidden(const rt_exec_span *s)
{
    double seen = s->total - s->compute;
    return s->copy <= 0 ? 1 : seen <= 0 ? 1 : seen >= s->copy ? 0 : 1 - seen / s->copy;
}
