/* step_values.c - raw access to what a trainer has on its device: weights, masters, moments, gradients. See step.h. */
#include "num/moment.h"
#include "train/follow.h"
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

/* ---- what ranks share out ---- */

static bool is_shared_out(const rt_trainer *t, char what)
{
    return t->plan->slices.ranks && (what == 'w' ? t->plan->masters : what != 'g');
}

static uint32_t cols_of(const rt_trainer *t, char what, uint32_t param)
{
    uint32_t cols = t->plan->student->params[param].value.cols;
    return what == 's' ? (uint32_t)rt_moment_exps(cols) : cols;
}

/* Of elements [first, first + n) of a parameter those that a rank owns: where they begin among its own (at), and in
 * the n (from); 0: none. */
static uint64_t part_of_rank(const rt_trainer *t, char what, uint32_t param, uint32_t rank, uint64_t first, uint64_t n,
                             uint64_t *at, uint64_t *from)
{
    const rt_slices *s = &t->plan->slices;
    uint64_t cols = cols_of(t, what, param), begin = rt_slices_first(s, param, rank) * cols;
    uint64_t end = begin + rt_slices_rows(s, param, rank) * cols;
    uint64_t lo = first > begin ? first : begin, hi = first + n < end ? first + n : end;
    *at = lo - begin;
    *from = lo - first;
    return hi > lo ? hi - lo : 0;
}

/* Of what this rank has. */
static int move_own(rt_trainer *t, char what, uint32_t param, uint64_t first, uint64_t n, void *read_to,
                    const void *write_from, rt_err *e)
{
    rt_view v = part_of(view_of(t, what, param), first, n);
    rt_dtype d = rt_trainer_state_dtype(t, what, param);
    if (d == RT_DTYPE_F32) return rt_step_move(t, v, read_to, write_from, e);
    return read_to ? rt_exec_read(t->x, v, read_to, rt_dtype_bytes(d, n), e)
                   : rt_exec_write(t->x, v, write_from, rt_dtype_bytes(d, n), e);
}

int rt_step_show(rt_trainer *t, char what, uint32_t param, uint64_t first, uint64_t n, void *data, rt_err *e)
{
    int rc = RT_OK;
    rt_peers *p = t->peers;
    rt_dtype d = rt_trainer_state_dtype(t, what, param);
    for (uint32_t r = 0; r < p->size; r++) {
        uint64_t at, from, count = part_of_rank(t, what, param, r, first, n, &at, &from);
        if (!count) continue;
        void *place = (uint8_t *)data + rt_dtype_bytes(d, from);
        if (r == p->rank) RT_TRY(move_own(t, what, param, at, count, place, NULL, e));
        p->give_from(p->ctx, r, place, rt_dtype_bytes(d, count));
    }
out:
    if (rc < 0) p->torn = true;
    return rc;
}

/* ---- state ---- */

rt_dtype rt_trainer_state_dtype(const rt_trainer *t, char what, uint32_t param)
{
    const rt_step_plan *s = t->plan;
    (void)param;
    if (what == 'w' || s->opts.policy.scalar == RT_DTYPE_F64) return RT_DTYPE_F32;
    return what == 's' ? RT_DTYPE_U8 : s->moment_dtype;
}

uint64_t rt_trainer_state_elems(const rt_trainer *t, char what, uint32_t param)
{
    const rt_param *p = &t->plan->student->params[param];
    if (what != 'w' && !p->grad.buf) return 0;
    if (what == 's' && t->plan->moment_dtype != RT_DTYPE_U8) return 0;
    return (uint64_t)p->value.rows * cols_of(t, what, param);
}

int rt_trainer_read_state(rt_trainer *t, char what, uint32_t param, uint64_t first, uint64_t n, void *out, rt_err *e)
{
    if (!is_shared_out(t, what)) return move_own(t, what, param, first, n, out, NULL, e);
    if (!t->peers) return rt_fail(e, RT_INTERNAL, "the other ranks are gone, and with them what they own");
    rt_word_say(t->peers, &(rt_word){ .kind = RT_WORD_SHOW, .what = what, .param = param, .first = first, .count = n });
    return rt_step_show(t, what, param, first, n, out, e);
}

int rt_trainer_write_state(rt_trainer *t, char what, uint32_t param, uint64_t first, uint64_t n, const void *in,
                           rt_err *e)
{
    int rc = RT_OK;
    uint64_t at = first, from = 0, count = n;
    if (is_shared_out(t, what)) count = part_of_rank(t, what, param, t->plan->slices.rank, first, n, &at, &from);
    if (count)
        RT_TRY(move_own(t, what, param, at, count, NULL,
                        (const uint8_t *)in + rt_dtype_bytes(rt_trainer_state_dtype(t, what, param), from), e));
    /* the stored weight follows its master */
    if (what == 'w' && t->plan->masters && t->plan->student->params[param].grad.buf)
        RT_TRY(rt_step_move(t, part_of(t->plan->student->params[param].value, first, n), NULL, in, e));
out:
    return rc;
}

/* ---- values ---- */

/* What is shared out, in its own dtype on the way. */
static int move_shared(rt_trainer *t, char what, uint32_t param, uint64_t first, uint64_t n, float *read_to,
                       const float *write_from, rt_err *e)
{
    int rc;
    rt_dtype d = rt_trainer_state_dtype(t, what, param);
    if (!rt_dtype_is_float(d)) return rt_fail(e, RT_INTERNAL, "codes have no values of their own to move");
    void *raw = rt_alloc(rt_dtype_bytes(d, n), 64);
    if (!raw) RT_TRY(rt_no_memory(e, "a parameter"));
    if (read_to) {
        RT_TRY(rt_trainer_read_state(t, what, param, first, n, raw, e));
        rt_float_to_f32(read_to, raw, d, n);
    } else {
        rt_float_from_f32(raw, write_from, d, n);
        RT_TRY(rt_trainer_write_state(t, what, param, first, n, raw, e));
    }
out:
    rt_free(raw);
    return rc;
}

int rt_trainer_read_part(rt_trainer *t, char what, uint32_t param, uint64_t first, uint64_t n, float *out, rt_err *e)
{
    if (is_shared_out(t, what)) return move_shared(t, what, param, first, n, out, NULL, e);
    return rt_step_move(t, part_of(view_of(t, what, param), first, n), out, NULL, e);
}

int rt_trainer_write_part(rt_trainer *t, char what, uint32_t param, uint64_t first, uint64_t n, const float *in,
                          rt_err *e)
{
    if (what == 'w') return rt_trainer_write_state(t, what, param, first, n, in, e);
    if (is_shared_out(t, what)) return move_shared(t, what, param, first, n, NULL, in, e);
    return rt_step_move(t, part_of(view_of(t, what, param), first, n), NULL, in, e);
}

int rt_trainer_read(rt_trainer *t, char what, uint32_t param, float *out, rt_err *e)
{
    return rt_trainer_read_part(t, what, param, 0, rt_trainer_elems(t, param), out, e);
}

int rt_trainer_write(rt_trainer *t, char what, uint32_t param, const float *in, rt_err *e)
{
    return rt_trainer_write_part(t, what, param, 0, rt_trainer_elems(t, param), in, e);
}
