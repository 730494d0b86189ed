/* api_plan.c - what a plan says: memory, programs, their ops, the resolved settings. It reads what api_run.c opened. */
#include "api/api_internal.h"

#include "job/run/run_cost.h"
#include "settings/settings_yaml.h"

#include <string.h>

static uint32_t programs_of(const retort_plan *p)
{
    const rt_plan *plans[RT_PROGRAM_MOST];
    return rt_step_plan_list(rt_run_trainer(p->known)->plan, plans);
}

int retort_plan_describe(const retort_plan *p, retort_plan_facts *out, retort_error *error)
{
    rt_err e = { 0 };
    rt_run_cost cost;
    int rc = rt_run_cost_new(&cost, p->known, &e);
    if (rc < 0) return rt_api_end(rc, &e, error);
    const rt_exec_memory m = cost.memory;
    const rt_trainer *t = rt_run_trainer(p->known);
    const rt_resolved *v = rt_run_resolved(p->known);
    const rt_run_facts *f = rt_run_known(p->known);
    const retort_plan_facts facts = { .programs = programs_of(p),
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
                                      .trained_parameters = rt_decoder_trained(t->plan->student),
                                      .flops_teacher = cost.teacher,
                                      .flops_student = cost.student,
                                      .flops_update = cost.update,
                                      .checkpoint_bytes = cost.checkpoint,
                                      .disk_bytes = cost.disk,
                                      .memory_limit = rt_run_fitted(p->known)->ask.limit,
                                      .fits = rt_run_fitted(p->known)->fits };
    return rt_api_end(rt_api_fill(out, &facts, sizeof facts, "retort_plan_facts", &e), &e, error);
}

static int check_program(const retort_plan *p, uint32_t program, rt_err *e)
{
    uint32_t n = programs_of(p);
    return program < n ? RT_OK : rt_fail(e, RT_NOT_FOUND, "there is no program %u; the plan has %u", program, n);
}

int retort_plan_program(const retort_plan *p, uint32_t program, retort_program_facts *out, retort_error *error)
{
    int rc;
    rt_err e = { 0 };
    RT_TRY(check_program(p, program, &e));
    const rt_plan *plan = rt_exec_plan(rt_run_trainer(p->known)->x, program);
    retort_program_facts facts = { .ops = plan->nops, .name = plan->name };
    for (uint32_t i = 0; i < plan->nops; i++) {
        facts.flops += rt_op_flops(plan, &plan->ops[i]);
        facts.bytes += rt_op_bytes(plan, &plan->ops[i]);
    }
    RT_TRY(rt_api_fill(out, &facts, sizeof facts, "retort_program_facts", &e));
out:
    return rt_api_end(rc, &e, error);
}

static int print(const retort_plan *p, uint32_t program, rt_print format, char **text, rt_err *e)
{
    int rc;
    rt_str out = { 0 };
    if (!text) RT_TRY(rt_fail(e, RT_USAGE, "a place for the text is needed"));
    RT_TRY(check_program(p, program, e));
    RT_TRY(rt_exec_print(rt_run_trainer(p->known)->x, program, format, &out, e));
    RT_TRY(rt_api_give(&out, text, e));
out:
    rt_str_free(&out);
    return rc;
}

int retort_plan_text(const retort_plan *p, uint32_t program, char **text, retort_error *error)
{
    rt_err e = { 0 };
    return rt_api_end(print(p, program, RT_PRINT_TEXT, text, &e), &e, error);
}

int retort_plan_json(const retort_plan *p, uint32_t program, char **text, retort_error *error)
{
    rt_err e = { 0 };
    return rt_api_end(print(p, program, RT_PRINT_JSON, text, &e), &e, error);
}

int retort_plan_settings(const retort_plan *p, char **text, retort_error *error)
{
    int rc;
    rt_err e = { 0 };
    rt_str out = { 0 };
    if (!text) RT_TRY(rt_fail(&e, RT_USAGE, "a place for the text is needed"));
    RT_TRY(rt_settings_to_yaml(&p->settings, &out, &e));
    RT_TRY(rt_api_give(&out, text, &e));
out:
    rt_str_free(&out);
    return rt_api_end(rc, &e, error);
}
