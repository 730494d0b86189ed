/* job_run.c - a run from its settings: what may be asked of it, its device, and what it has sealed. The run itself is
 * run.h. */
#include "job/job.h"

#include "base/json.h"

int rt_job_run_check(const rt_settings *s, const rt_job_run_opts *o, rt_err *e)
{
    if (o->override && !o->resume) return rt_fail(e, RT_USAGE, "--override needs --resume");
    if (o->smoke && o->resume) return rt_fail(e, RT_USAGE, "--smoke and --resume exclude one another; give one");
    if (o->kind == RT_JOB_PLAN && o->resume) return rt_fail(e, RT_USAGE, "a plan is of a new run; leave resume out");
    if (o->kind == RT_JOB_DISTILL && !o->resume && !s->teacher.count)
        return rt_fail(e, RT_USAGE, "retort distill needs --teacher; retort train learns without one");
    for (int i = 0; o->kind == RT_JOB_TRAIN && i < RT_SETTING_COUNT_ALL; i++)
        if (rt_setting_rests_on((rt_setting_id)i, RT_SETTING_ID_teacher) && rt_settings_asks(s, (rt_setting_id)i))
            return rt_fail(e, RT_INVALID, "retort train has no teacher; leave %s out, or use retort distill",
                           rt_setting_table[i].flag);
    return RT_OK;
}

void rt_job_teacher_share(const rt_inputs *in, uint32_t teacher, rt_str *out) { rt_inputs_shares(in, teacher, out); }

/* With the device's own default where nothing is said: a run times what it will launch for days, a plan times nothing
 * that it is not told to, and a resumed run has its record. */
static rt_settings for_device(const rt_settings *s, const rt_job_run_opts *o)
{
    rt_settings d = *s;
    if (!o->resume && !d.given[RT_SETTING_ID_tune])
        RT_SETTINGS_PUT(&d, tune, o->kind == RT_JOB_PLAN ? "known" : rt_setting_table[RT_SETTING_ID_tune].def);
    return d;
}

int rt_job_run_open(rt_job_run *j, const rt_settings *s, const rt_job_run_opts *o, rt_err *e)
{
    int rc;
    char why[RT_JOB_WHY];
    rt_json_init();
    rt_json_forget();
    RT_TRY(rt_job_run_check(s, o, e));
    rt_settings device = for_device(s, o);
    RT_TRY(rt_job_device_open(&j->dev, &device, o->resume, o->env->environment, why, e));
    if (o->device) o->device(o->events ? o->events->ctx : NULL, j->dev, why);
    j->settings = *s;
    j->opts = (rt_run_opts){ .env = &o->env->hub,
                             .events = o->events,
                             .resume = o->resume,
                             .override = o->override,
                             .fit = o->fit,
                             .dry = o->kind == RT_JOB_PLAN,
                             .smoke = o->smoke,
                             .scratch = o->env->scratch,
                             .now = o->env->now,
                             .dev = j->dev,
                             .version = o->env->version,
                             .build = o->env->build };
    RT_TRY(rt_run_open(&j->run, &j->settings, &j->opts, e));
out:
    if (rc < 0) rt_job_run_close(j);
    return rc;
}

void rt_job_run_close(rt_job_run *j)
{
    rt_run_close(j->run);
    rt_job_device_close(j->dev);
    j->run = NULL;
    j->dev = NULL;
}

/* ---- its programs ---- */

rt_job_programs rt_job_run_programs(const rt_run *r)
{
    const rt_trainer *t = rt_run_trainer(r);
    const rt_plan *plans[RT_PROGRAM_MOST];
    rt_exec_memory m;
    rt_exec_memory_query(t->x, &m);
    return (rt_job_programs){ .count = rt_step_plan_list(t->plan, plans),
                              .memory = m.total,
                              .activations = m.by_class[RT_CLASS_ACT],
                              .trained = rt_decoder_trained(t->plan->student) };
}

static int check_program(const rt_run *r, uint32_t program, rt_err *e)
{
    const rt_plan *plans[RT_PROGRAM_MOST];
    uint32_t n = rt_step_plan_list(rt_run_trainer(r)->plan, plans);
    return program < n ? RT_OK : rt_fail(e, RT_NOT_FOUND, "there is no program %u; the plan has %u", program, n);
}

int rt_job_run_program(const rt_run *r, uint32_t program, rt_job_program *out, rt_err *e)
{
    int rc = check_program(r, program, e);
    if (rc < 0) return rc;
    const rt_plan *plan = rt_exec_plan(rt_run_trainer(r)->x, program);
    *out = (rt_job_program){ .name = plan->name, .ops = plan->nops };
    for (uint32_t i = 0; i < plan->nops; i++) {
        out->flops += rt_op_flops(plan, &plan->ops[i]);
        out->bytes += rt_op_bytes(plan, &plan->ops[i]);
    }
    return RT_OK;
}

int rt_job_run_program_print(const rt_run *r, uint32_t program, bool json, rt_str *out, rt_err *e)
{
    int rc = check_program(r, program, e);
    return rc < 0 ? rc : rt_exec_print(rt_run_trainer(r)->x, program, json ? RT_PRINT_JSON : RT_PRINT_TEXT, out, e);
}
