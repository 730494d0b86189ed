/* step_values.c - raw access to what a trainer has on its device: weights, masters, moments, gradients. See step.h. */
#include "train/step_internal.h"

uint64_t rt_trainer_elems(const rt_trainer *t, uint32_t param)
{
    rt_view v = t->plan->student->params[param].value;
    return (uint64_t)v.rows * v.cols;
}

/* The weight is read from its master where it has one: the stored weight is only the master rounded. */
static rt_view view_of(const rt_trainer *t, char what, uint32_t param)
{
    const rt_moments *m = &t->plan->moments[param];
    const rt_param *p = &t->plan->student->params[param];
    switch (what) {
    case 'm': return m->m;
    case 'v': return m->v;
    case 's': return m->exps;
    case 'g': return p->grad;
    default: return m->master.buf ? m->master : p->value;
    }
}

int rt_step_move(rt_trainer *t, rt_view v, float *read_to, const float *write_from, rt_err *e)
{
    int rc;
    rt_dtype d = rt_plan_dtype(rt_exec_plan(t->x, 0), v);
    uint64_t n = (uint64_t)v.rows * v.cols, bytes = rt_dtype_bytes(d, n);
    void *raw = NULL;
    if (d == RT_DTYPE_F32)
        return read_to ? rt_exec_read(t->x, v, read_to, bytes, e) : rt_exec_write(t->x, v, write_from, bytes, e);
    if (!rt_dtype_is_float(d)) return rt_fail(e, RT_INTERNAL, "blocks and codes have no values of their own to move");
    if (!(raw = rt_alloc(bytes, 64))) RT_TRY(rt_fail(e, RT_NOMEM, "no memory to move a parameter"));
    if (read_to) {
        RT_TRY(rt_exec_read(t->x, v, raw, bytes, e));
        rt_float_to_f32(read_to, raw, d, n);
    } else {
        rt_float_from_f32(raw, write_from, d, n);
        RT_TRY(rt_exec_write(t->x, v, raw, bytes, e));
    }
out:
    rt_free(raw);
    return rc;
}

/* Parameters and their state are without gaps, so a part is one row of elements. */
static rt_view part_of(rt_view v, uint64_t first, uint64_t n)
{
    return (rt_view){ v.buf, 1, (uint32_t)n, v.off + first, n };
}

int rt_trainer_read_part(rt_trainer *t, char what, uint32_t param, uint64_t first, uint64_t n, float *out, rt_err *e)
{
    return rt_step_move(t, part_of(view_of(t, what, param), first, n), out, NULL, e);
}

int rt_trainer_write_part(rt_trainer *t, char what, uint32_t param, uint64_t first, uint64_t n, const float *in,
                          rt_err *e)
{
    int rc = rt_step_move(t, part_of(view_of(t, what, param), first, n), NULL, in, e);
    /* the stored weight follows its master */
    if (rc >= 0 && what == 'w' && t->plan->moments[param].master.buf)
        rc = rt_step_move(t, part_of(t->plan->student->params[param].value, first, n), NULL, in, e);
    return rc;
}

rt_dtype rt_trainer_state_dtype(const rt_trainer *t, char what, uint32_t param)
{
    rt_view v = view_of(t, what, param);
    rt_dtype d = what == 'w' ? RT_DTYPE_F32 : rt_plan_dtype(rt_exec_plan(t->x, 0), v);
    return d == RT_DTYPE_F64 ? RT_DTYPE_F32 : d;
}

uint64_t rt_trainer_state_elems(const rt_trainer *t, char what, uint32_t param)
{
    rt_view v = view_of(t, what, param);
    return v.buf ? (uint64_t)v.rows * v.cols : 0;
}

int rt_trainer_read_state(rt_trainer *t, char what, uint32_t param, uint64_t first, uint64_t n, void *out, rt_err *e)
{
    rt_dtype d = rt_trainer_state_dtype(t, what, param);
    if (d == RT_DTYPE_F32) return rt_trainer_read_part(t, what, param, first, n, out, e);
    return rt_exec_read(t->x, part_of(view_of(t, what, param), first, n), out, rt_dtype_bytes(d, n), e);
}

int rt_trainer_write_state(rt_trainer *t, char what, uint32_t param, uint64_t first, uint64_t n, const void *in,
                           rt_err *e)
{
    rt_dtype d = rt_trainer_state_dtype(t, what, param);
    if (d == RT_DTYPE_F32) return rt_trainer_write_part(t, what, param, first, n, in, e);
    return rt_exec_write(t->x, part_of(view_of(t, what, param), first, n), in, rt_dtype_bytes(d, n), e);
}

int rt_trainer_read(rt_trainer *t, char what, uint32_t param, float *out, rt_err *e)
{
    return rt_trainer_read_part(t, what, param, 0, rt_trainer_elems(t, param), out, e);
}

int rt_trainer_write(rt_trainer *t, char what, uint32_t param, const float *in, rt_err *e)
{
    return rt_trainer_write_part(t, what, param, 0, rt_trainer_elems(t, param), in, e);
}
