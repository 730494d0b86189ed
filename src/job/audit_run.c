/* audit_run.c - see audit_run.h: the recorded settings resolved, and the order of the checks. */
#include "job/audit_internal.h"

#include "format/run_places.h"

#include "base/file.h"
#include "base/json.h"

#include <stdio.h>

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

/* What the files of a run say of one another. */
static int audit_records(rt_audit *v, rt_err *e)
{
    int rc;
    RT_TRY(rt_audit_files(v, e));
    RT_TRY(rt_audit_settings(v, e));
    if (!v->has_settings) goto out;
    RT_TRY(rt_audit_lines(v, e));
    RT_TRY(rt_audit_checkpoints(v, e));
out:
    return rc;
}

/* ---- the control ---- */

typedef struct heard {
    char text[400]; /* of the first check that failed */
} heard;

static void hear(void *ctx, const rt_check *c)
{
    heard *h = ctx;
    if (c->outcome == RT_CHECK_FAIL && !h->text[0]) snprintf(h->text, sizeof h->text, "%s: %.300s", c->name, c->text);
}

/* A run of its own, which the manifest names by its checksum; here its records, and with `retort verify` all of it. */
static int audit_control(rt_audit *v, rt_err *e)
{
    int rc;
    bool usable = false;
    rt_err why = { 0 };
    heard h = { 0 };
    rt_again a = { 0 };
    rt_audit_result found = { 0 };
    rt_hash128 want;
    rt_audit c = { .report = hear, .ctx = &h, .resolve = resolve_recorded, .resolver = &a, .result = &found };
    const json_t *named = json_object_get(v->manifest, RT_MANIFEST_CONTROL);
    char *path = rt_control_of(&v->arena, v->root);
    if (!path) return rt_no_memory(e, "a path");
    if (!v->settings.control && !named) return RT_OK;
    if (!rt_path_exists(path) || !named) {
        rt_audit_tell(v, "control", RT_CHECK_NOT_CHECKED, "%s",
                      named ? "it is not there any more"
                            : "the manifest does not name it: it has not ended, or is of an "
                              "older version");
        return RT_OK;
    }
    rc = rt_audit_open(&c, path, &usable, &why);
    if (rc >= 0 && usable) rc = audit_records(&c, &why);
    if (rc >= 0 && usable && c.has_settings) rc = rt_audit_verdict(&c, &why);
    if (rc < 0 && !h.text[0]) snprintf(h.text, sizeof h.text, "%.390s", why.text);
    if (!h.text[0] && (!rt_hash_from_json(named, &want) || !rt_hash_equal(want, found.manifest)))
        snprintf(h.text, sizeof h.text, "its manifest.json is not the one that the manifest of the run names");
    rt_audit_close(&c);
    if (rc == RT_NOMEM) return rt_fail(e, rc, "%s", why.text);
    if (h.text[0])
        rt_audit_tell(v, "control", RT_CHECK_FAIL, RT_MANIFEST_CONTROL "/: %s", h.text);
    else
        rt_audit_tell(v, "control", RT_CHECK_PASS,
                      "the one that the manifest names; its files and records are as it left them (retort verify %s "
                      "also measures it again)",
                      rt_shell_word(&v->arena, path));
    return RT_OK;
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
    RT_TRY(audit_records(&v, e));
    if (!v.has_settings) goto out;
    RT_TRY(audit_control(&v, e));
    RT_TRY(rt_audit_models(&v, &a, e));
    RT_TRY(rt_audit_verdict(&v, e));
out:
    rt_eval_set_free(a.held);
    rt_trainer_free(a.trainer);
    rt_inputs_close(a.in);
    rt_model_file_close(a.output);
    rt_loop_free(&a.first);
    rt_audit_device_close(&a);
    rt_audit_close(&v);
    return rc;
}
