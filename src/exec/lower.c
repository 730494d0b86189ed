/* lower.c - from the plan as recorded to the ops that this device will run.
 *
 * An op that the backend refuses is rewritten into ops that it takes; there is one rule so far: a quantised operand is
 * expanded into scratch first. What no rule helps is an error that names the op, its dtypes and the backend's reason.
 * With poison, every float activation is filled with NaN after its last use, by ordinary ops, so it works on any
 * backend. Scratch that an op asks for becomes an activation that lives for that op alone. */
#include "exec/exec_internal.h"

#include <math.h>
#include <stdio.h>

static bool supported(rt_dev *d, const rt_plan *p, const rt_op *op, rt_need *need)
{
    *need = (rt_need){ 0 };
    return d->api->supports(d, p, op, need);
}

static int refuse(rt_dev *d, const rt_plan *p, const rt_op *op, const rt_need *need, rt_err *e)
{
    char types[128] = "";
    size_t n = 0;
    for (uint32_t i = 0; i < rt_op_slots(op->kind) && n < sizeof types - 16; i++)
        if (op->slot[i].buf)
            n += (size_t)snprintf(types + n, sizeof types - n, "%s%s", n ? ", " : "",
                                  rt_dtype_name(rt_plan_dtype(p, op->slot[i])));
    return rt_fail(e, RT_UNSUPPORTED, "plan '%s', op %u%s%s: backend %s cannot run %s(%s): %s", p->name,
                   (uint32_t)(op - p->ops), op->label[0] ? ", " : "", op->label, d->api->name, rt_op_name(op->kind),
                   types, need->why_not[0] ? need->why_not : "it has no kernel for it");
}

/* The float type to expand into: that of the op's activations. */
static rt_dtype expanded_dtype(const rt_plan *p, const rt_op *op)
{
    RT_FOR_SLOTS (i, op->kind)
        if (op->slot[i].buf && rt_op_specs[op->kind].slot[i].rule == RT_RULE_ACT) return rt_plan_dtype(p, op->slot[i]);
    return p->policy.act;
}

/* Rewrites op in place to read an expanded copy of its first quantised operand; the dequantisation is appended to q.
 * false: it has none. */
static bool expand_quantised(rt_plan *q, rt_op *op)
{
    RT_FOR_SLOTS (i, op->kind) {
        rt_view v = op->slot[i];
        if (!v.buf || rt_op_specs[op->kind].slot[i].rule != RT_RULE_WEIGHT || !rt_dtype_is_quant(rt_plan_dtype(q, v)))
            continue;
        rt_view wide = rt_act(q, expanded_dtype(q, op), v.rows, v.cols, "expanded");
        rt_op deq = { .kind = RT_OP_DEQUANT, .queue = op->queue, .label = op->label };
        deq.args.rows = (rt_rows_args){ .N = v.rows, .C = v.cols };
        deq.slot[RT_ROWS_Y] = wide;
        deq.slot[RT_ROWS_X] = v;
        rt_plan_append(q, &deq);
        op->slot[i] = wide;
        return !q->err.status;
    }
    return false;
}

/* After op t: NaN over every float activation whose last use it was. */
static void poison_dead(rt_plan *q, const rt_plan *p, const rt_life *life, uint32_t t)
{
    for (uint32_t i = 0; i < p->nacts; i++) {
        const rt_buffer *b = &p->acts[i];
        if (life[i].last != t || life[i].first > life[i].last || !rt_dtype_is_float(b->dtype)) continue;
        rt_op fill = { .kind = RT_OP_FILL, .queue = p->ops[t].queue, .label = "poison" };
        fill.args.rows = (rt_rows_args){ .N = b->rows, .C = b->cols, .alpha = NAN };
        fill.slot[RT_ROWS_Y] = (rt_view){ RT_ACT_BIT | i, b->rows, b->cols, 0, b->cols };
        rt_plan_append(q, &fill);
    }
}

static int poisoned(rt_plan **io, rt_err *e)
{
    int rc;
    rt_plan *p = *io, *q = NULL;
    uint32_t peak_op;
    rt_life *life = rt_alloc((p->nacts + 1) * sizeof *life, 16);
    if (!life) RT_TRY(rt_fail(e, RT_NOMEM, "no memory for lifetimes"));
    RT_TRY(rt_plan_clone_buffers(&q, p, e));
    rt_plan_lifetimes(p, life, &peak_op);
    for (uint32_t t = 0; t < p->nops; t++) {
        rt_plan_append(q, &p->ops[t]);
        poison_dead(q, p, life, t);
    }
    RT_TRY(rt_plan_status(q, e));
    *io = q;
    q = p;
out:
    rt_free(life);
    rt_plan_free(q);
    return rc;
}

int rt_lower(rt_plan **out, rt_dev *d, const rt_plan *p, bool poison, rt_err *e)
{
    int rc;
    rt_plan *q = NULL;
    rt_need need;
    RT_TRY(rt_plan_clone_buffers(&q, p, e));
    for (uint32_t t = 0; t < p->nops; t++) {
        rt_op op = p->ops[t];
        bool ok = supported(d, p, &p->ops[t], &need);
        rt_need first = need;
        while (!ok && expand_quantised(q, &op)) ok = supported(d, q, &op, &need);
        RT_TRY(rt_plan_status(q, e));
        if (!ok) RT_TRY(refuse(d, p, &p->ops[t], &first, e));
        rt_plan_append(q, &op);
    }
    RT_TRY(rt_plan_status(q, e));
    if (poison) RT_TRY(poisoned(&q, e));
    *out = q;
    q = NULL;
out:
    rt_plan_free(q);
    return rc;
}

int rt_lower_work(rt_plan *p, rt_dev *d, const char **kernel, rt_err *e)
{
    enum { ROW = 4096 }; /* scratch as rows of bytes, because a column count is 32 bits */
    for (uint32_t t = 0; t < p->nops; t++) {
        rt_need need;
        if (!supported(d, p, &p->ops[t], &need)) return refuse(d, p, &p->ops[t], &need, e);
        kernel[t] = need.kernel ? need.kernel : rt_op_name(p->ops[t].kind);
        if (!need.work_bytes) continue;
        uint64_t rows = need.work_bytes / ROW + (need.work_bytes % ROW != 0);
        if (rows > UINT32_MAX)
            return rt_fail(e, RT_NOMEM, "op %u %s asks for %llu bytes of scratch", t, rt_op_name(p->ops[t].kind),
                           (unsigned long long)need.work_bytes);
        rt_view work = rt_act(p, RT_DTYPE_U8, (uint32_t)rows, ROW, "scratch");
        p->ops[t].work = work;
    }
    return rt_plan_status(p, e);
}
