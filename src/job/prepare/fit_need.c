/* fit_need.c - see fit_need.h. */
#include "job/prepare/fit_need.h"

#include <string.h>

/* How often a program runs in one optimizer step of so many micro-batches; in an evaluation of one. */
static uint64_t runs_of(const rt_step_plan *s, rt_program which, uint32_t micro)
{
    uint32_t ahead = s->plan[RT_PROGRAM_AHEAD] ? s->opts.ahead : 0;
    switch (which) {
    case RT_PROGRAM_TEACHER: return ahead ? 0 : micro;
    case RT_PROGRAM_AHEAD: return ahead ? (micro + ahead - 1) / ahead : 0;
    case RT_PROGRAM_FIRST: return 1;
    case RT_PROGRAM_NEXT: return micro - 1;
    case RT_PROGRAM_EVAL: return s->opts.eval_only;
    default: return 0;
    }
}

/* What seal puts before a product whose operand the device would not take as it is. */
static uint64_t expanding(const rt_plan *p)
{
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < p->nops; i++)
        if (p->ops[i].kind == RT_OP_DEQUANT || p->ops[i].kind == RT_OP_CAST) bytes += rt_op_bytes(p, &p->ops[i]);
    return bytes;
}

int rt_fit_ask_device(rt_dev *d, const rt_step_opts *o, uint32_t micro, rt_fit_need *out, rt_err *e)
{
    int rc;
    rt_exec_memory m;
    rt_trainer *t = NULL;
    *out = (rt_fit_need){ 0 };
    RT_TRY(rt_trainer_open(&t, d, o, &(rt_seal_opts){ .dry = true }, e));
    rt_exec_memory_query(t->x, &m);
    out->bytes = m.total;
    for (int i = 0; i < RT_PROGRAM_COUNT; i++)
        if (t->plan->plan[i])
            out->expands += runs_of(t->plan, (rt_program)i, micro) * expanding(rt_exec_plan(t->x, t->plan->index[i]));
out:
    rt_trainer_free(t);
    return rc;
}

/* Both plans, and what the device may give. */
static int compare(rt_dev *d, const rt_step_opts *o, const rt_dtype *stored, rt_weights_case *c, rt_err *e)
{
    int rc;
    rt_step_opts native = *o;
    rt_fit_need a, b;
    rt_dev_info info;
    native.teacher_dtypes = stored;
    RT_TRY(rt_fit_ask_device(d, &native, 1, &a, e));
    RT_TRY(rt_fit_ask_device(d, o, 1, &b, e));
    RT_TRY(d->api->info(d, &info, e));
    *c = (rt_weights_case){ true, a.bytes, b.bytes, rt_fit_budget(info.memory_free), a.expands, b.expands };
out:
    return rc;
}

int rt_fit_evaluation(rt_dev *d, rt_step_opts *o, rt_teacher_weights asked, rt_dtype *dtypes, rt_weights_choice *out,
                      rt_err *e)
{
    int rc = RT_OK;
    uint32_t n = rt_param_count(o->teacher);
    rt_weights_case c = { .differ = rt_weights_differ(dtypes, o->teacher, &o->policy) };
    rt_dtype *stored = rt_alloc(n * sizeof *stored, 16);
    if (!stored) RT_TRY(rt_fail(e, RT_NOMEM, "no memory for a model"));
    memcpy(stored, dtypes, n * sizeof *stored);
    rt_weights_bf16(dtypes, stored, o->teacher);
    *out = (rt_weights_choice){ .weights = asked, .why = RT_WEIGHTS_ASKED };
    if (asked == RT_WEIGHTS_AUTO) {
        if (c.differ) RT_TRY(compare(d, o, stored, &c, e));
        *out = rt_weights_decide(&c);
    }
    if (out->weights == RT_WEIGHTS_NATIVE) memcpy(dtypes, stored, n * sizeof *stored);
out:
    rt_free(stored);
    return rc;
}
