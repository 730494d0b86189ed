/* api_run.c - a run: settings to an open run, its events to the caller's, trained or only planned. */
#include "api/api_internal.h"

/* ---- events ---- */

static void on_note(void *ctx, const char *text)
{
    const retort_plan *p = ctx;
    if (p->user.note) p->user.note(p->user.ctx, text);
}

static void on_progress(void *ctx, const char *what, uint64_t done, uint64_t total)
{
    const retort_plan *p = ctx;
    if (p->user.progress) p->user.progress(p->user.ctx, what, done, total);
}

static void on_ready(void *ctx, const rt_run *r)
{
    retort_plan *p = ctx;
    p->known = r;
    if (p->user.ready) p->user.ready(p->user.ctx, p);
}

static void on_step(void *ctx, const rt_run_line *l)
{
    const retort_plan *p = ctx;
    if (!p->user.step) return;
    const retort_step s = { .step = l->step,
                            .steps = l->steps,
                            .loss = l->result.loss,
                            .cross_entropy = l->result.ce,
                            .divergence = l->result.div,
                            .agreement = l->result.agreement,
                            .grad_norm = l->result.grad_norm,
                            .clip = l->result.clip,
                            .lr = l->lr,
                            .tokens_per_second = l->tokens_per_second,
                            .teacher_share = l->teacher_share,
                            .seconds = l->seconds,
                            .remaining = l->remaining,
                            .trained = l->result.trained,
                            .memory = l->memory };
    p->user.step(p->user.ctx, &s);
}

static void on_evaluated(void *ctx, uint32_t step, const rt_eval_result *v, bool best)
{
    const retort_plan *p = ctx;
    if (!p->user.evaluated) return;
    const retort_evaluation out = rt_api_evaluation(v);
    p->user.evaluated(p->user.ctx, step, &out, best);
}

static void on_saved(void *ctx, const char *path)
{
    const retort_plan *p = ctx;
    if (p->user.saved) p->user.saved(p->user.ctx, path);
}

static bool on_stop(void *ctx)
{
    const retort_plan *p = ctx;
    return p->user.stop && p->user.stop(p->user.ctx) != 0;
}

/* ---- opening ---- */

/* Everything but the run itself. */
static int prepare(retort_plan *p, rt_job_kind kind, const retort_settings *s, const retort_run_options *given,
                   rt_err *e)
{
    int rc;
    retort_run_options o;
    if (!s) RT_TRY(rt_fail(e, RT_USAGE, "settings are needed"));
    RT_TRY(rt_api_take(&o, sizeof o, given, "retort_run_options", e));
    RT_TRY(rt_api_take(&p->user, sizeof p->user, o.events, "retort_events", e));
    RT_TRY(rt_api_env_copy(&p->env, o.places, &p->arena, e));
    p->env.now = o.now;
    p->events = (rt_run_events){ .note = on_note,
                                 .progress = on_progress,
                                 .ready = on_ready,
                                 .step = on_step,
                                 .evaluated = on_evaluated,
                                 .saved = on_saved,
                                 .stop = on_stop,
                                 .ctx = p };
    p->opts = (rt_job_run_opts){
        .kind = kind, .env = &p->env, .events = &p->events, .resume = o.resume != 0, .override = o.override_bound != 0
    };
out:
    return rc;
}

static int open_run(retort_plan *p, const retort_settings *s, rt_err *e)
{
    int rc = rt_job_run_open(&p->job, &s->settings, &p->opts, e);
    p->known = p->job.run;
    return rc;
}

void retort_plan_free(retort_plan *p)
{
    if (!p) return;
    rt_job_run_close(&p->job);
    rt_arena_free(&p->arena);
    rt_free(p);
}

int retort_plan_new(retort_plan **out, const retort_settings *s, const retort_run_options *o, retort_error *error)
{
    int rc;
    rt_err e = { 0 };
    retort_plan *p = rt_alloc_zero(sizeof *p, 16);
    if (!out) RT_TRY(rt_fail(&e, RT_USAGE, "retort_plan_new: out is needed"));
    if (!p) RT_TRY(rt_no_memory(&e, "a plan"));
    RT_TRY(prepare(p, RT_JOB_PLAN, s, o, &e));
    RT_TRY(open_run(p, s, &e));
    *out = p;
    p = NULL;
out:
    retort_plan_free(p);
    return rt_api_end(rc, &e, error);
}

/* ---- training ---- */

static retort_summary summary_of(const rt_run_summary *v)
{
    return (retort_summary){ .saved_step = v->saved_step,
                             .is_best = v->is_best,
                             .before = rt_api_evaluation(&v->before),
                             .after = rt_api_evaluation(&v->after),
                             .saved = rt_api_evaluation(&v->saved),
                             .rounding_rmse = v->difference.rmse,
                             .rounding_max = v->difference.max,
                             .control_after = rt_api_evaluation(&v->control_after),
                             .control_saved = rt_api_evaluation(&v->control_saved),
                             .outcomes = v->before.outcomes };
}

static int train(rt_job_kind kind, const retort_settings *s, const retort_run_options *o, retort_summary *out,
                 rt_err *e)
{
    int rc;
    rt_run_summary summary;
    retort_plan *p = rt_alloc_zero(sizeof *p, 16);
    if (!p) RT_TRY(rt_no_memory(e, "a run"));
    if (out) RT_TRY(rt_api_check(out, "retort_summary", e)); /* before hours are spent */
    RT_TRY(prepare(p, kind, s, o, e));
    RT_TRY(open_run(p, s, e));
    RT_TRY(rt_run_train(p->job.run, &summary, e));
    if (out) {
        const retort_summary v = summary_of(&summary);
        RT_TRY(rt_api_fill(out, &v, sizeof v, "retort_summary", e));
    }
out:
    retort_plan_free(p);
    return rc;
}

int retort_distill(const retort_settings *s, const retort_run_options *o, retort_summary *out, retort_error *error)
{
    rt_err e = { 0 };
    return rt_api_end(train(RT_JOB_DISTILL, s, o, out, &e), &e, error);
}

int retort_train(const retort_settings *s, const retort_run_options *o, retort_summary *out, retort_error *error)
{
    rt_err e = { 0 };
    return rt_api_end(train(RT_JOB_TRAIN, s, o, out, &e), &e, error);
}
