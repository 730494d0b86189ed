/* api_evaluate.c - a model measured on text, alone or beside a teacher. */
#include "api/api_internal.h"

static void set_count(rt_settings *s, rt_setting_id id, uint64_t *field, uint64_t value)
{
    *field = value;
    s->given[id] = value != 0;
}

static int fill_settings(rt_settings *s, const retort_evaluate_options *o, rt_err *e)
{
    int rc = RT_OK;
    const struct {
        rt_setting_id id;
        const char *text;
    } texts[] = { { RT_SETTING_ID_device, o->device },
                  { RT_SETTING_ID_loss_on, o->loss_on },
                  { RT_SETTING_ID_chat_template, o->chat_template },
                  { RT_SETTING_ID_teacher_weights, o->teacher_weights } };
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        if (texts[i].text) RT_TRY(rt_settings_set(s, texts[i].id, texts[i].text, e));
    for (const char *const *v = o->template_vars; v && *v; v++)
        RT_TRY(rt_settings_set(s, RT_SETTING_ID_template_var, *v, e));
    set_count(s, RT_SETTING_ID_threads, &s->threads, o->threads);
    set_count(s, RT_SETTING_ID_seq_len, &s->seq_len, o->seq_len);
    set_count(s, RT_SETTING_ID_batch, &s->batch, o->batch);
    set_count(s, RT_SETTING_ID_vocab, &s->vocab, o->vocab);
    set_count(s, RT_SETTING_ID_skip_bad, &s->skip_bad, o->skip_bad);
    s->allow_drop = o->allow_drop != 0;
out:
    return rc;
}

int retort_evaluate(const retort_model *m, const retort_model *teacher, const char *const *data, uint32_t count,
                    const retort_evaluate_options *given, retort_evaluation *out, retort_error *error)
{
    int rc;
    rt_err e = { 0 };
    rt_settings s = { 0 };
    retort_evaluate_options o;
    rt_job_evaluation v = { 0 };
    if (!m || !out || (count && !data))
        RT_TRY(rt_fail(&e, RT_USAGE, "retort_evaluate: a model, data and a place for the result are needed"));
    RT_TRY(rt_api_take(&o, sizeof o, given, "retort_evaluate_options", &e));
    RT_TRY(fill_settings(&s, &o, &e));
    RT_TRY(rt_settings_set(&s, RT_SETTING_ID_student, m->file->spec, &e));
    if (teacher) RT_TRY(rt_settings_set(&s, RT_SETTING_ID_teacher, teacher->file->spec, &e));
    for (uint32_t i = 0; i < count; i++) RT_TRY(rt_settings_set(&s, RT_SETTING_ID_data, data[i], &e));
    rt_job_env env = m->env;
    env.now = o.now;
    RT_TRY(rt_job_evaluate(
        &v, &s, &(rt_job_evaluate_opts){ .env = &env, .rows = o.rows, .progress = o.progress, .ctx = o.ctx }, &e));
    *out = rt_api_evaluation(&v.result);
out:
    rt_job_evaluation_free(&v);
    return rt_api_end(rc, &e, error);
}
