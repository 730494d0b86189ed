/* emit_optim.c - emitters of the update: norm_sq, clip, adamw.
 *
 * Owns: the rule of master weights: a parameter that is stored narrower than f32 has an f32 master; one that is f32 (or
 * f64, in the specification) is its own. */
#include "num/moment.h"
#include "op/emit_internal.h"

static void adamw_options(emit *e, const rt_adamw_opts *o)
{
    const struct {
        const char *name;
        float value;
    } beta[] = { { "beta1", o->beta1 }, { "beta2", o->beta2 } };
    for (int i = 0; i < 2; i++)
        if (!(beta[i].value >= 0 && beta[i].value < 1))
            emit_fail(e, "%s is %g, expected 0 <= %s < 1", beta[i].name, (double)beta[i].value, beta[i].name);
    emit_positive(e, "eps", o->eps);
    emit_not_negative(e, "weight_decay", o->weight_decay);
}

static void adamw_master(emit *e)
{
    rt_dtype d = rt_plan_dtype(e->p, e->s[RT_ADAM_PARAM]);
    bool own = d == RT_DTYPE_F32 || d == RT_DTYPE_F64;
    if (own && emit_has(e, RT_ADAM_MASTER))
        emit_fail(e, "master is given, but param is %s and so its own master", rt_dtype_name(d));
    if (!own && !emit_has(e, RT_ADAM_MASTER))
        emit_fail(e, "master is missing: param is %s, so its f32 values live there", rt_dtype_name(d));
}

/* Codes of 8 bits have exponents, nothing else has. */
static void adamw_exps(emit *e)
{
    rt_dtype d = rt_plan_dtype(e->p, e->s[RT_ADAM_M]);
    if (d == RT_DTYPE_U8 && !emit_has(e, RT_ADAM_EXPS)) emit_fail(e, "exps is missing: m is u8 codes");
    if (d != RT_DTYPE_U8 && emit_has(e, RT_ADAM_EXPS))
        emit_fail(e, "exps is given, but m is %s and not u8 codes", rt_dtype_name(d));
    emit_shape(e, RT_ADAM_EXPS, e->s[RT_ADAM_PARAM].rows, rt_moment_exps(e->s[RT_ADAM_PARAM].cols),
               "two exponents for each block");
}

void rt_emit_adamw(rt_plan *p, const rt_adamw_io *io, const rt_adamw_opts *o)
{
    emit e;
    if (!emit_begin(
            &e, p, RT_OP_ADAMW,
            EMIT_SLOTS(io->param, io->master, io->m, io->v, io->exps, io->grad, io->step, io->gscale, io->fault)))
        return;
    adamw_options(&e, o);
    adamw_master(&e);
    adamw_exps(&e);
    emit_like(&e, RT_ADAM_MASTER, RT_ADAM_PARAM);
    emit_like(&e, RT_ADAM_M, RT_ADAM_PARAM);
    emit_like(&e, RT_ADAM_V, RT_ADAM_PARAM);
    emit_like(&e, RT_ADAM_GRAD, RT_ADAM_PARAM);
    emit_step(&e, RT_ADAM_STEP);
    emit_shape(&e, RT_ADAM_GSCALE, 1, 1, "one factor");
    emit_fault(&e, RT_ADAM_FAULT);
    rt_dtype d = rt_plan_dtype(p, io->m);
    bool rounded = d == RT_DTYPE_BF16 || d == RT_DTYPE_U8; /* else nothing of the parameter but its shape counts */
    e.args.adamw = (rt_adamw_args){ .N = io->param.rows,
                                    .C = io->param.cols,
                                    .beta1 = o->beta1,
                                    .beta2 = o->beta2,
                                    .eps = o->eps,
                                    .weight_decay = o->weight_decay,
                                    .moments = rounded ? (uint32_t)d : RT_DTYPE_F32,
                                    .stream = rounded ? o->stream : 0,
                                    .row = rounded ? o->row : 0 };
    emit_end(&e);
}

void rt_emit_norm_sq(rt_plan *p, rt_view out, rt_view x, rt_view fault, rt_view step, uint32_t site)
{
    emit e;
    if (!emit_begin(&e, p, RT_OP_NORM_SQ, EMIT_SLOTS(out, x, fault, step))) return;
    emit_shape(&e, RT_NSQ_OUT, 1, 1, "one sum");
    emit_fault_and_step(&e, RT_NSQ_FAULT, RT_NSQ_STEP);
    e.args.rows = (rt_rows_args){ .N = x.rows, .C = x.cols, .site = site };
    emit_end(&e);
}

void rt_emit_clip(rt_plan *p, rt_view scale, rt_view norm, rt_view nsq, rt_view fault, rt_view step, float max_norm,
                  uint32_t site)
{
    emit e;
    if (!emit_begin(&e, p, RT_OP_CLIP, EMIT_SLOTS(scale, norm, nsq, fault, step))) return;
    emit_shape(&e, RT_CLIP_SCALE, 1, 1, "one factor");
    emit_shape(&e, RT_CLIP_NORM, 1, 1, "one norm");
    emit_shape(&e, RT_CLIP_NSQ, 1, 1, "one sum");
    emit_fault_and_step(&e, RT_CLIP_FAULT, RT_CLIP_STEP);
    emit_finite(&e, "max_norm", max_norm);
    e.args.clip = (rt_clip_args){ max_norm, site };
    emit_end(&e);
}
