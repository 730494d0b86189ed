/* api_plan.c - what a plan says: memory, programs, their ops, cost, preview, the resolved settings. It reads what
 * api_run.c opened. */
#include "api/api_internal.h"

#include "base/json.h"
#include "job/preview.h"
#include "job/run/run_cost.h"
#include "settings/settings.h"

static int need_plan(const retort_plan *p, rt_err *e) { return p ? RT_OK : rt_fail(e, RT_USAGE, "a plan is needed"); }

int retort_plan_describe(const retort_plan *p, retort_plan_facts *out, retort_error *error)
{
    rt_err e = { 0 };
    rt_run_cost cost;
    int rc = need_plan(p, &e);
    if (rc >= 0) rc = rt_run_cost_new(&cost, p->known, &e);
    if (rc < 0) return rt_api_end(rc, &e, error);
    const rt_exec_memory m = cost.memory;
    const rt_job_programs programs = rt_job_run_programs(p->known);
    const rt_resolved *v = rt_run_resolved(p->known);
    const rt_run_facts *f = rt_run_known(p->known);
    const retort_plan_facts facts = { .programs = programs.count,
                                      .memory_total = m.total,
                                      .memory_parameters = m.by_class[RT_CLASS_PARAM],
                                      .memory_gradients = m.by_class[RT_CLASS_GRAD],
                                      .memory_state = m.by_class[RT_CLASS_STATE],
                                      .memory_step_values = m.by_class[RT_CLASS_STEP],
                                      .memory_inputs = m.by_class[RT_CLASS_INPUT],
                                      .memory_outputs = m.by_class[RT_CLASS_OUTPUT],
                                      .memory_activations = m.by_class[RT_CLASS_ACT],
                                      .peak_bytes = m.peak_live,
                                      .peak_program = cost.peak_program,
                                      .peak_op = cost.peak_label,
                                      .steps = v->steps,
                                      .batch = v->batch,
                                      .micro_batch = v->micro_batch,
                                      .seq_len = v->seq_len,
                                      .held_rows = rt_run_held_rows(p->known),
                                      .records = f->records,
                                      .rows_per_epoch = f->rows_per_epoch,
                                      .trained_parameters = programs.trained,
                                      .flops_teacher = cost.teacher,
                                      .flops_student = cost.student,
                                      .flops_update = cost.update,
                                      .checkpoint_bytes = cost.checkpoint,
                                      .disk_bytes = cost.disk,
                                      .memory_limit = rt_run_fitted(p->known)->ask.limit,
                                      .fits = rt_run_fitted(p->known)->fits };
    return rt_api_end(rt_api_fill(out, &facts, sizeof facts, "retort_plan_facts", &e), &e, error);
}

int retort_plan_program(const retort_plan *p, uint32_t program, retort_program_facts *out, retort_error *error)
{
    int rc;
    rt_err e = { 0 };
    rt_job_program of;
    RT_TRY(need_plan(p, &e));
    RT_TRY(rt_job_run_program(p->known, program, &of, &e));
    const retort_program_facts facts = { .ops = of.ops, .name = of.name, .flops = of.flops, .bytes = of.bytes };
    RT_TRY(rt_api_fill(out, &facts, sizeof facts, "retort_program_facts", &e));
out:
    return rt_api_end(rc, &e, error);
}

/* ---- texts ---- */

static int need_text(const retort_plan *p, char **text, rt_err *e)
{
    return text ? need_plan(p, e) : rt_fail(e, RT_USAGE, "a place for the text is needed");
}

static int print(const retort_plan *p, uint32_t program, bool json, char **text, retort_error *error)
{
    int rc;
    rt_err e = { 0 };
    rt_str out = { 0 };
    RT_TRY(need_text(p, text, &e));
    RT_TRY(rt_job_run_program_print(p->known, program, json, &out, &e));
    RT_TRY(rt_api_give(&out, text, &e));
out:
    rt_str_free(&out);
    return rt_api_end(rc, &e, error);
}

int retort_plan_text(const retort_plan *p, uint32_t program, char **text, retort_error *error)
{
    return print(p, program, false, text, error);
}

int retort_plan_json(const retort_plan *p, uint32_t program, char **text, retort_error *error)
{
    return print(p, program, true, text, error);
}

int retort_plan_settings(const retort_plan *p, char **text, retort_error *error)
{
    int rc;
    rt_err e = { 0 };
    rt_str out = { 0 };
    RT_TRY(need_text(p, text, &e));
    RT_TRY(rt_settings_to_yaml(&p->job.settings, &out, &e));
    RT_TRY(rt_api_give(&out, text, &e));
out:
    rt_str_free(&out);
    return rt_api_end(rc, &e, error);
}

/* Takes the reference. */
static int give_json(json_t *j, char **text, rt_err *e)
{
    char *dumped = rt_json_dump(j, JSON_INDENT(2));
    json_decref(j);
    if (!dumped) return rt_no_memory(e, "a text");
    *text = dumped;
    return RT_OK;
}

int retort_plan_preview(const retort_plan *p, char **text, retort_error *error)
{
    int rc;
    rt_err e = { 0 };
    rt_preview *v = NULL;
    rt_json_init();
    RT_TRY(need_text(p, text, &e));
    RT_TRY(rt_preview_new(&v, p->known, &e));
    RT_TRY(give_json(rt_preview_json(v), text, &e));
out:
    rt_preview_free(v);
    return rt_api_end(rc, &e, error);
}

int retort_plan_cost(const retort_plan *p, int timed, char **text, retort_error *error)
{
    int rc;
    rt_err e = { 0 };
    rt_run_cost cost;
    rt_json_init();
    RT_TRY(need_text(p, text, &e));
    if (timed && (!p->job.run || p->opts.kind != RT_JOB_PLAN))
        RT_TRY(rt_fail(&e, RT_USAGE, "the ops of a run are timed before it begins: of a plan of retort_plan_new"));
    RT_TRY(rt_run_cost_new(&cost, p->known, &e));
    if (timed) RT_TRY(rt_run_cost_time(&cost, p->job.run, &e));
    RT_TRY(give_json(rt_run_cost_json(&cost, p->known), text, &e));
out:
    return rt_api_end(rc, &e, error);
}
