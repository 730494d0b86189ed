/* api_evaluate.c - a model measured on text, alone or beside a teacher. */
#include "api/api_internal.h"

int retort_evaluate(const retort_model *m, const retort_model *teacher, const char *const *data, uint32_t count,
                    const retort_evaluate_options *given, retort_evaluation *out, retort_error *error)
{
    int rc;
    rt_err e = { 0 };
    retort_evaluate_options o;
    rt_job_evaluation v = { 0 };
    uint32_t vars = 0;
    if (!m || !out || (count && !data))
        RT_TRY(rt_fail(&e, RT_USAGE, "retort_evaluate: a model, data and a place for the result are needed"));
    for (uint32_t i = 0; i < count; i++)
        if (!data[i]) RT_TRY(rt_fail(&e, RT_USAGE, "retort_evaluate: data %u is a null pointer", i));
    RT_TRY(rt_api_take(&o, sizeof o, given, "retort_evaluate_options", &e));
    while (o.template_vars && o.template_vars[vars]) vars++;
    rt_job_env env = m->env;
    env.now = o.now;
    const rt_job_evaluate_opts jo = { .model = m->file->spec,
                                      .teacher = teacher ? teacher->file->spec : NULL,
                                      .teacher_weights = o.teacher_weights,
                                      .weights = o.weights,
                                      .bf16_layers = o.bf16_layers,
                                      .data = data,
                                      .data_count = count,
                                      .template_vars = o.template_vars,
                                      .var_count = vars,
                                      .loss_on = o.loss_on,
                                      .columns = o.columns,
                                      .chat_template = o.chat_template,
                                      .device = o.device,
                                      .held_out_of = o.held_out_of,
                                      .seq_len = o.seq_len,
                                      .batch = o.batch,
                                      .threads = o.threads,
                                      .vocab = o.vocab,
                                      .skip_bad = o.skip_bad,
                                      .allow_drop = o.allow_drop != 0,
                                      .rows = o.rows,
                                      .env = &env,
                                      .progress = o.progress,
                                      .ctx = o.ctx };
    RT_TRY(rt_job_evaluate(&v, &jo, &e));
    *out = rt_api_evaluation(&v.result);
out:
    rt_job_evaluation_free(&v);
    return rt_api_end(rc, &e, error);
}
