/* plan.c - making plans, activations and views of them. What recording an op checks is in record.c. */
#include "op/plan_internal.h"

#include <stdarg.h>
#include <stdio.h>

int rt_plan_new(rt_plan **out, rt_space *s, const char *name, const rt_policy *policy, rt_err *e)
{
    *out = NULL;
    rt_plan *p = rt_alloc_zero(sizeof *p, 16);
    if (!p) return rt_fail(e, RT_NOMEM, "no memory for plan '%s'", name);
    p->space = s;
    p->policy = *policy;
    p->label = "";
    p->name = rt_arena_strdup(&p->names, name);
    if (!p->name) {
        rt_plan_free(p);
        return rt_fail(e, RT_NOMEM, "no memory for plan '%s'", name);
    }
    *out = p;
    return RT_OK;
}

void rt_plan_free(rt_plan *p)
{
    if (!p) return;
    for (uint32_t i = 0; i < p->nwritten_space; i++) rt_region_free(&p->written_space[i]);
    for (uint32_t i = 0; i < p->nacts; i++) rt_region_free(&p->written_acts[i]);
    rt_free(p->written_space);
    rt_free(p->written_acts);
    rt_free(p->ops);
    rt_free(p->acts);
    rt_arena_free(&p->names);
    rt_free(p);
}

int rt_plan_status(const rt_plan *p, rt_err *e)
{
    const rt_err *from = p->space->err.status ? &p->space->err : &p->err;
    if (from->status && e) *e = *from;
    return from->status;
}

void rt_plan_fail(rt_plan *p, int status, const char *format, ...)
{
    char text[sizeof p->err.text];
    va_list ap;
    if (p->err.status) return;
    va_start(ap, format);
    vsnprintf(text, sizeof text, format, ap);
    va_end(ap);
    rt_fail(&p->err, status, "plan '%s', op %u%s%s: %s", p->name, p->nops, p->label[0] ? ", " : "", p->label, text);
}

rt_view rt_act(rt_plan *p, rt_dtype dtype, uint32_t rows, uint32_t cols, const char *name)
{
    rt_buffer b;
    rt_err e = { 0 };
    if (p->err.status) return RT_NONE;
    if (rt_buffer_init(&b, &p->names, RT_CLASS_ACT, dtype, rows, cols, name, &e) < 0) {
        rt_plan_fail(p, e.status, "%s", e.text);
        return RT_NONE;
    }
    uint32_t n = p->nacts + 1;
    if (n >= RT_ACT_BIT || !rt_grow((void **)&p->acts, &p->acts_cap, n, sizeof *p->acts) ||
        !rt_grow((void **)&p->written_acts, &p->written_acts_cap, n, sizeof *p->written_acts)) {
        rt_plan_fail(p, RT_NOMEM, "no memory for activation '%s'", name);
        return RT_NONE;
    }
    p->acts[p->nacts] = b;
    p->written_acts[p->nacts] = (rt_region){ 0 };
    p->nacts = n;
    return (rt_view){ .buf = RT_ACT_BIT | (n - 1), .rows = rows, .cols = cols, .stride = cols };
}

void rt_plan_label(rt_plan *p, const char *format, ...)
{
    char text[160];
    va_list ap;
    if (p->err.status) return;
    va_start(ap, format);
    vsnprintf(text, sizeof text, format, ap);
    va_end(ap);
    const char *copy = rt_arena_strdup(&p->names, text);
    if (copy)
        p->label = copy;
    else
        rt_plan_fail(p, RT_NOMEM, "no memory for label '%s'", text);
}

void rt_plan_queue(rt_plan *p, rt_queue q) { p->queue = q; }

const rt_buffer *rt_plan_buffer(const rt_plan *p, rt_view v)
{
    if (v.buf & RT_ACT_BIT) return (v.buf & ~RT_ACT_BIT) < p->nacts ? &p->acts[v.buf & ~RT_ACT_BIT] : NULL;
    return v.buf && v.buf <= p->space->nbufs ? &p->space->bufs[v.buf - 1] : NULL;
}

rt_dtype rt_plan_dtype(const rt_plan *p, rt_view v) { return rt_plan_buffer(p, v)->dtype; }

uint64_t rt_view_bytes(const rt_plan *p, rt_view v)
{
    return v.buf ? rt_dtype_bytes(rt_plan_dtype(p, v), (uint64_t)v.rows * v.cols) : 0;
}

int rt_plan_clone_buffers(rt_plan **out, const rt_plan *p, rt_err *e)
{
    int rc;
    rt_plan *q = NULL;
    RT_TRY(rt_plan_new(&q, p->space, p->name, &p->policy, e));
    for (uint32_t i = 0; i < p->nacts; i++)
        rt_act(q, p->acts[i].dtype, p->acts[i].rows, p->acts[i].cols, p->acts[i].name);
    RT_TRY(rt_plan_status(q, e));
    *out = q;
    q = NULL;
out:
    rt_plan_free(q);
    return rc;
}

void rt_plan_append(rt_plan *p, const rt_op *op)
{
    if (p->err.status) return;
    if (strcmp(p->label, op->label) != 0) rt_plan_label(p, "%s", op->label);
    if (!rt_grow((void **)&p->ops, &p->ops_cap, p->nops + 1, sizeof *p->ops))
        rt_plan_fail(p, RT_NOMEM, "no memory for another op");
    if (p->err.status) return;
    p->ops[p->nops] = *op;
    p->ops[p->nops++].label = p->label;
}

/* ---- parts of a view ---- */

static bool usable(rt_plan *p, rt_view v, const char *what)
{
    if (p->err.status) return false;
    if (rt_plan_buffer(p, v)) return true;
    rt_plan_fail(p, RT_INVALID, "%s of a view that has no buffer", what);
    return false;
}

rt_view rt_view_cols(rt_plan *p, rt_view v, uint32_t first, uint32_t count)
{
    if (!usable(p, v, "columns")) return RT_NONE;
    uint32_t block = rt_dtype_table[rt_plan_dtype(p, v)].block_elems;
    if (count == 0 || first > v.cols || count > v.cols - first || first % block || count % block) {
        rt_plan_fail(p, RT_INVALID, "columns [%u,%u+%u) of '%s' (%u,%u) %s: out of range or not whole blocks", first,
                     first, count, rt_plan_buffer(p, v)->name, v.rows, v.cols, rt_dtype_name(rt_plan_dtype(p, v)));
        return RT_NONE;
    }
    v.off += first;
    v.cols = count;
    return v;
}

rt_view rt_view_rows(rt_plan *p, rt_view v, uint32_t first, uint32_t count)
{
    if (!usable(p, v, "rows")) return RT_NONE;
    if (count == 0 || first > v.rows || count > v.rows - first) {
        rt_plan_fail(p, RT_INVALID, "rows [%u,%u+%u) of '%s' (%u,%u): out of range", first, first, count,
                     rt_plan_buffer(p, v)->name, v.rows, v.cols);
        return RT_NONE;
    }
    v.off += first * v.stride;
    v.rows = count;
    return v;
}

rt_view rt_view_shape(rt_plan *p, rt_view v, uint32_t rows, uint32_t cols)
{
    if (!usable(p, v, "another shape")) return RT_NONE;
    uint32_t block = rt_dtype_table[rt_plan_dtype(p, v)].block_elems;
    if ((v.rows > 1 && v.stride != v.cols) || (uint64_t)rows * cols != (uint64_t)v.rows * v.cols || cols % block ||
        cols == 0) {
        rt_plan_fail(p, RT_INVALID, "'%s' (%u,%u) with row stride %llu cannot be seen as (%u,%u)",
                     rt_plan_buffer(p, v)->name, v.rows, v.cols, (unsigned long long)v.stride, rows, cols);
        return RT_NONE;
    }
    v.rows = rows;
    v.cols = cols;
    v.stride = cols;
    return v;
}
