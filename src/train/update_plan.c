/* update_plan.c - see update_plan.h. */
#include "train/update_plan.h"

#include "num/moment.h"

#include <stdio.h>

/* ---- state ---- */

static rt_view moment(rt_step_plan *s, const rt_param *p, uint32_t rows, rt_dtype d, uint32_t cols, const char *what)
{
    char name[RT_NAME_BYTES], text[RT_NAME_BYTES + 16];
    snprintf(text, sizeof text, "%s %s", rt_param_name(name, p), what);
    return rt_space_buf(s->space, RT_CLASS_STATE, d, rows, cols, text);
}

static bool is_shared_out(const rt_step_plan *s) { return s->slices.ranks > 0; }

/* Rows of a trained parameter that this rank updates. */
static uint32_t own_rows(const rt_step_plan *s, uint32_t i)
{
    const rt_param *p = &s->student->params[i];
    if (!p->grad.buf) return 0;
    return is_shared_out(s) ? rt_slices_rows(&s->slices, i, s->slices.rank) : p->value.rows;
}

static uint32_t own_first(const rt_step_plan *s, uint32_t i)
{
    return is_shared_out(s) ? rt_slices_first(&s->slices, i, s->slices.rank) : 0;
}

int rt_update_moments(rt_step_plan *s, rt_err *e)
{
    const rt_decoder *d = s->student;
    rt_dtype scalar = s->opts.policy.scalar, narrow = scalar == RT_DTYPE_F64 ? scalar : s->opts.moments;
    s->moment_dtype = narrow;
    s->masters = s->opts.policy.weight != scalar;
    s->moments = rt_arena_alloc(&s->arena, sizeof *s->moments * d->param_count);
    if (!s->moments) return rt_no_memory(e, "the optimizer's state");
    for (uint32_t i = 0; i < d->param_count; i++) {
        const rt_param *p = &d->params[i];
        rt_moments *m = &s->moments[i];
        uint32_t rows = own_rows(s, i), cols = p->value.cols;
        if (!rows) continue;
        m->m = moment(s, p, rows, narrow, cols, "m");
        m->v = moment(s, p, rows, narrow, cols, "v");
        if (narrow == RT_DTYPE_U8) m->exps = moment(s, p, rows, narrow, (uint32_t)rt_moment_exps(cols), "exponents");
        if (s->masters) m->master = moment(s, p, rows, scalar, cols, "master");
    }
    return RT_OK;
}

static bool shares_grads(const rt_step_plan *s) { return is_shared_out(s) && s->opts.zero == RT_ZERO_GRADS; }

/* The ranks of a run share its state out between rows of what is trained. */
int rt_update_slices(rt_step_plan *s, rt_err *e)
{
    int rc;
    const rt_step_opts *o = &s->opts;
    const rt_decoder *d = s->student;
    if (!d->bucket) return RT_OK;
    s->bucket_sum = rt_arena_alloc(&s->arena, d->bucket_count * sizeof *s->bucket_sum);
    if (!s->bucket_sum) RT_TRY(rt_no_memory(e, "the slices of ranks"));
    RT_TRY(rt_slices_new(&s->slices, &s->arena, d, o->ranks, o->rank, e));
    for (uint32_t b = 0; shares_grads(s) && b < d->bucket_count; b++)
        if (s->slices.bucket[b].count)
            s->bucket_sum[b] = rt_space_buf(s->space, RT_CLASS_GRAD, o->policy.grad_many, 1, s->slices.bucket[b].count,
                                            "gradient of a slice");
out:
    return rc;
}

/* ---- gradients ---- */

/* Adds bucket b up over the ranks. */
static void scatter(rt_step_plan *s, rt_plan *p, uint32_t b)
{
    rt_plan_label(p, "sum of bucket %u", b);
    rt_emit_reduce_scatter(p, s->bucket_sum[b], s->student->bucket[b].grad, s->slices.bucket[b], s->opts.ranks);
}

void rt_update_grads(rt_step_plan *s, rt_plan *p, bool more)
{
    rt_decoder *d = s->student;
    for (uint32_t i = 0; more && !shares_grads(s) && i < d->param_count; i++)
        if (d->params[i].grad.buf) rt_plan_assume_defined(p, d->params[i].grad);
    for (uint32_t b = 0; shares_grads(s) && b < d->bucket_count; b++) {
        if (!d->bucket[b].grad.buf) continue;
        rt_decoder_put_grads(d, b,
                             rt_act(p, s->opts.policy.grad_many, 1, d->bucket[b].grad.cols, "gradient of a bucket"));
        if (more && s->bucket_sum[b].buf) rt_plan_assume_defined(p, s->bucket_sum[b]);
    }
}

/* One bucket later, so that it keeps its place while the next is computed beside it. */
void rt_update_done(void *step_plan, rt_plan *p, uint32_t bucket)
{
    rt_step_plan *s = step_plan;
    if (!shares_grads(s)) return;
    rt_update_last(s, p);
    s->bucket_held = 1 + bucket;
}

void rt_update_last(rt_step_plan *s, rt_plan *p)
{
    if (s->bucket_held) scatter(s, p, s->bucket_held - 1);
    s->bucket_held = 0;
}

/* ---- the update ---- */

static bool is_matrix(const rt_param *p) { return p->part || p->value.rows > 1; }

/* Each rank has the sums of what it owns: by now, or they are made here. */
static void record_scatter(rt_step_plan *s, rt_plan *p)
{
    const rt_decoder *d = s->student;
    for (uint32_t b = 0; b < d->bucket_count; b++) {
        uint32_t count = s->slices.bucket[b].count;
        rt_view grad = d->bucket[b].grad;
        if (shares_grads(s)) {
            if (count) rt_plan_assume_defined(p, s->bucket_sum[b]);
            continue;
        }
        if (!grad.buf) continue;
        s->bucket_sum[b] = count ? rt_act(p, rt_plan_dtype(p, grad), 1, count, "gradient of a slice") : RT_NONE;
        rt_plan_assume_defined(p, grad);
        scatter(s, p, b);
    }
}

/* From here on every rank has the same sums, and the gradients of what it updates. */
static void record_ranks(rt_step_plan *s, rt_plan *p)
{
    const rt_decoder *d = s->student;
    uint32_t ranks = s->opts.ranks;
    if (ranks < 2) return;
    rt_plan_label(p, "sum over ranks");
    rt_plan_assume_defined(p, s->sums);
    rt_emit_all_reduce(p, s->sums, s->fault, ranks);
    if (is_shared_out(s)) {
        record_scatter(s, p);
        return;
    }
    for (uint32_t i = 0; i < d->param_count; i++) {
        if (!d->params[i].grad.buf) continue;
        rt_plan_assume_defined(p, d->params[i].grad);
        rt_emit_all_reduce(p, d->params[i].grad, RT_NONE, ranks);
    }
}

/* The gradient of those rows of a parameter that this rank updates, added up over the ranks. */
static rt_view own_grad(const rt_step_plan *s, uint32_t i)
{
    const rt_param *q = &s->student->params[i];
    if (!is_shared_out(s)) return q->grad;
    uint64_t at = q->grad.off + (uint64_t)own_first(s, i) * q->grad.cols;
    return (rt_view){ .buf = s->bucket_sum[q->bucket].buf,
                      .rows = own_rows(s, i),
                      .cols = q->grad.cols,
                      .off = at - s->slices.bucket[q->bucket].first,
                      .stride = q->grad.cols };
}

static void record_norm(rt_step_plan *s, rt_plan *p)
{
    bool any = false;
    rt_plan_label(p, "gradient norm");
    for (uint32_t i = 0; i < s->student->param_count; i++) {
        if (!own_rows(s, i)) continue;
        if (!is_shared_out(s)) rt_plan_assume_defined(p, own_grad(s, i));
        rt_emit_norm_sq(p, s->nsq, own_grad(s, i), s->fault, s->step, RT_SITE_GRAD + i); /* =, then += */
        any = true;
    }
    if (!any) rt_emit_fill(p, s->nsq, 0.0f); /* more ranks than rows */
    if (is_shared_out(s)) rt_emit_all_reduce(p, s->nsq, s->fault, s->opts.ranks);
    rt_emit_clip(p, s->clip, s->norm, s->nsq, s->fault, s->step, (float)s->opts.max_grad_norm, RT_SITE_NORM);
}

/* What each rank has updated, to all. */
static void record_gather(rt_step_plan *s, rt_plan *p)
{
    const rt_decoder *d = s->student;
    rt_plan_label(p, "weights of all ranks");
    for (uint32_t b = 0; b < d->bucket_count; b++)
        if (d->bucket[b].value.buf) rt_emit_all_gather(p, d->bucket[b].value, s->slices.bucket[b], s->opts.ranks);
}

void rt_update_record(rt_step_plan *s, rt_plan *p)
{
    const rt_decoder *d = s->student;
    const rt_step_opts *o = &s->opts;
    rt_adamw_opts adamw = { (float)o->beta1, (float)o->beta2, (float)o->eps, 0, 0, 0 };
    record_ranks(s, p);
    record_norm(s, p);
    rt_plan_label(p, "adamw");
    for (uint32_t i = 0; i < d->param_count; i++) {
        const rt_param *q = &d->params[i];
        uint32_t rows = own_rows(s, i);
        if (!rows) continue;
        adamw.weight_decay = is_matrix(q) ? (float)o->weight_decay : 0.0f;
        rt_adamw_io io = { .param = rt_view_rows(p, q->value, own_first(s, i), rows),
                           .master = s->moments[i].master,
                           .m = s->moments[i].m,
                           .v = s->moments[i].v,
                           .exps = s->moments[i].exps,
                           .grad = own_grad(s, i),
                           .step = s->step,
                           .gscale = s->clip,
                           .fault = s->fault };
        adamw.stream = i;
        adamw.row = own_first(s, i);
        rt_emit_adamw(p, &io, &adamw);
    }
    if (is_shared_out(s)) record_gather(s, p);
}

/* ---- the start ---- */

/* Codes and exponents are bytes, which the host sets to 0. */
static bool fills_moments(const rt_moments *m) { return m->m.buf && !m->exps.buf; }
static bool casts_master(const rt_moments *m, const rt_param *p) { return m->master.buf && !p->part; }

/* Adapters begin elsewhere, and their masters with them. */
void rt_update_record_start(rt_step_plan *s, rt_plan *p)
{
    const rt_decoder *d = s->student;
    for (uint32_t i = 0; i < d->param_count; i++) {
        const rt_moments *m = &s->moments[i];
        if (fills_moments(m)) {
            rt_emit_fill(p, m->m, 0.0f);
            rt_emit_fill(p, m->v, 0.0f);
        }
        if (casts_master(m, &d->params[i]))
            rt_emit_cast(p, m->master, rt_view_rows(p, d->params[i].value, own_first(s, i), own_rows(s, i)));
    }
}

bool rt_update_needs_start(const rt_step_plan *s)
{
    bool any = false;
    for (uint32_t i = 0; i < s->student->param_count; i++)
        any = any || fills_moments(&s->moments[i]) || casts_master(&s->moments[i], &s->student->params[i]);
    return any;
}
