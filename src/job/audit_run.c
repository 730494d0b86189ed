/* audit_run.c - see audit_run.h: the recorded settings resolved, and the order of the checks. */
#include "job/audit_internal.h"

static double scheduled_rate(const void *schedule, uint32_t step) { return rt_schedule_lr(schedule, step); }

/* Everything that depends on models and data was settled when the run began, and is in its record. */
static int resolve_recorded(rt_audit *v, rt_err *e)
{
    int rc;
    rt_settings s = v->settings;
    rt_resolved *r = &((rt_again *)v->resolver)->recorded;
    rt_model_config any = { .context = UINT32_MAX, .width = 1 };
    rt_run_facts f = { .student = &any, .teacher = v->facts.teacher ? &any : NULL };
    if (!s.given[RT_SETTING_ID_steps]) { /* tokens or epochs were: how many steps that makes, the data says */
        rt_settings_forget(&s, RT_SETTING_ID_tokens);
        rt_settings_forget(&s, RT_SETTING_ID_epochs);
        RT_SETTINGS_PUT(&s, steps, rt_evidence_steps_meant(&v->facts));
    }
    RT_TRY(rt_resolve_before_rows(&s, &f, r, e));
    RT_TRY(rt_resolve_with_rows(&s, &f, r, e));
    v->recorded = (rt_recorded){ .steps = r->steps,
                                 .batch = r->batch,
                                 .seq_len = r->seq_len,
                                 .ce_weight = r->loss.ce_weight,
                                 .kd_weight = rt_loss_kd_weight(&r->loss),
                                 .max_grad_norm = r->max_grad_norm,
                                 .save_best = r->save_best,
                                 .stop_if_worse = r->stop_if_worse,
                                 .rate = scheduled_rate,
                                 .schedule = &r->schedule };
out:
    return rc;
}

int rt_audit_run(const char *path, const rt_audit_opts *o, rt_audit_result *out, rt_err *e)
{
    int rc;
    bool usable;
    rt_again a = { .opts = o };
    rt_audit v = { .report = o->report, .ctx = o->ctx, .resolve = resolve_recorded, .resolver = &a, .result = out };
    *out = (rt_audit_result){ 0 };
    RT_TRY(rt_audit_open(&v, path, &usable, e));
    if (!usable) goto out;
    rt_watch_tell(&o->watch, "checking the files", 0, 0);
    RT_TRY(rt_audit_files(&v, e));
    RT_TRY(rt_audit_settings(&v, e));
    if (!v.has_settings) goto out;
    RT_TRY(rt_audit_lines(&v, e));
    rt_watch_tell(&o->watch, "checking the checkpoints", 0, 0);
    RT_TRY(rt_audit_checkpoints(&v, e));
    RT_TRY(rt_audit_models(&v, &a, e));
    RT_TRY(rt_audit_verdict(&v, e));
out:
    rt_eval_set_free(a.held);
    rt_trainer_free(a.trainer);
    rt_inputs_close(a.in);
    rt_model_file_close(a.output);
    rt_loop_free(&a.first);
    rt_audit_close(&v);
    return rc;
}
