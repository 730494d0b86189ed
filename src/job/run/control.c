/* control.c - the control of a run (--control): the same student trained without the teacher, so that what the teacher
 * gave can be told from what the text gave.
 *
 * Owns: what is the same (initial weights, tokens, rows in their order, steps, rate, every other setting) and what is
 * not (the loss is cross-entropy alone). The control is a run like any other, in OUT/run/control, after the run itself;
 * it reads the tokens of OUT/run/data. */
#include "job/run/run_internal.h"
#include "job/run/run_report.h"

#include <string.h>

/* The settings of r as they were resolved, without the teacher and what only it needs. */
static void control_settings(rt_settings *s, const rt_run *r, const char *out)
{
    *s = *r->settings;
    for (int i = 0; i < RT_SETTING_COUNT_ALL; i++)
        if (rt_setting_rests_on((rt_setting_id)i, RT_SETTING_ID_teacher)) rt_settings_forget(s, (rt_setting_id)i);
    rt_settings_forget(s, RT_SETTING_ID_tokens);
    rt_settings_forget(s, RT_SETTING_ID_epochs);
    rt_settings_forget(s, RT_SETTING_ID_dump_step);
    /* The tokens are made already, and the template of the output is that of r. */
    if (s->chat_template && strcmp(s->chat_template, "teacher") == 0)
        rt_settings_forget(s, RT_SETTING_ID_chat_template);
    s->out = out;
    s->ce_weight = 1;
    RT_SETTINGS_PUT(s, steps, r->resolved.steps);
}

int rt_run_train_control(rt_run *r, rt_run_summary *out, rt_err *e)
{
    int rc;
    rt_run *control = NULL;
    rt_run_summary summary;
    rt_run_events events = r->events;
    rt_run_opts opts = *r->opts;
    rt_settings *s = rt_arena_alloc(&r->arena, sizeof *s);
    char *path = rt_control_of(&r->arena, r->out),
         *begun = path ? rt_path_join(&r->arena, path, "run/settings.json") : NULL;
    if (!s || !begun) RT_TRY(rt_no_memory(e, "the control of a run"));
    control_settings(s, r, path);
    events.ready = NULL; /* there is nothing to hear of that was not known of r */
    opts.events = &events;
    opts.control_of = r;
    opts.fit = false; /* it has the rows at a time of r */
    opts.resume = rt_path_exists(begun);
    rt_trainer_free(r->trainer);
    r->trainer = NULL;
    rt_run_note(r, "%s the control, the same student without the teacher: same rows, %u steps, into %s",
                opts.resume ? "resuming" : "now", r->resolved.steps, path);
    RT_TRY(rt_run_open(&control, s, &opts, e));
    RT_TRY(rt_run_train_alone(control, &summary, e));
    out->control_after = summary.after;
    out->control_saved = summary.saved;
    RT_TRY(rt_run_evidence_control(r, summary.checksum, out, e));
    RT_TRY(rt_run_write_report(r, e));
out:
    rt_run_close(control);
    return rc;
}

int rt_run_train(rt_run *r, rt_run_summary *out, rt_err *e)
{
    int rc = rt_run_train_alone(r, out, e);
    if (rc >= 0 && !out->smoke && !out->ended && r->settings->control) rc = rt_run_train_control(r, out, e);
    if (rc >= 0 && !out->smoke) {
        out->run_bytes = rt_dir_bytes(r->run);
        out->checkpoint_bytes = r->checkpoints == r->out ? 0 : rt_dir_bytes(r->checkpoints);
    }
    return rt_run_failed(r, rc, e);
}
