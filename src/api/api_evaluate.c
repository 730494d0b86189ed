/* api_evaluate.c - a model measured on text, alone or beside a teacher. The same steps as `retort eval`. */
#include "api/api_internal.h"

#include <string.h>

typedef struct evaluation {
    retort_evaluate_options o;
    rt_arena arena;
    rt_settings settings;
    rt_inputs *in;
    rt_pool *pool;
    rt_dev *dev;
    rt_trainer *trainer;
    rt_eval_set *set;
    char *folder; /* of token shards, removed at the end */
    bool stopped;
} evaluation;

static void on_progress(void *ctx, const char *what, uint64_t done, uint64_t total)
{
    evaluation *v = ctx;
    if (v->o.progress && v->o.progress(v->o.ctx, what, done, total)) v->stopped = true;
}

static bool on_stop(void *ctx)
{
    const evaluation *v = ctx;
    return v->stopped;
}

/* The settings that inputs look at. */
static int fill_settings(evaluation *v, const retort_model *m, const retort_model *teacher, const char *const *data,
                         uint32_t count, rt_err *e)
{
    int rc;
    rt_settings *s = &v->settings;
    const retort_evaluate_options *o = &v->o;
    RT_TRY(rt_settings_defaults(s, e));
    RT_TRY(rt_settings_set(s, RT_SETTING_ID_student, m->file->spec, e));
    if (teacher) RT_TRY(rt_settings_set(s, RT_SETTING_ID_teacher, teacher->file->spec, e));
    if (o->loss_on) RT_TRY(rt_settings_set(s, RT_SETTING_ID_loss_on, o->loss_on, e));
    if (o->chat_template) RT_TRY(rt_settings_set(s, RT_SETTING_ID_chat_template, o->chat_template, e));
    for (uint32_t i = 0; i < count; i++) RT_TRY(rt_settings_set(s, RT_SETTING_ID_data, data[i], e));
    if (!s->data.count) RT_TRY(rt_fail(e, RT_USAGE, "retort_evaluate: data is missing: text to measure on"));
    s->allow_degenerate = true; /* comparing a model with itself is a fair question here */
    s->allow_drop = o->allow_drop != 0;
    s->skip_bad = o->skip_bad;
    s->vocab = o->vocab;
    s->given[RT_SETTING_ID_vocab] = o->vocab != 0;
out:
    return rc;
}

static int choose_length(const evaluation *v, const rt_run_facts *f, uint32_t *T, rt_err *e)
{
    const rt_inputs *in = v->in;
    uint32_t most = in->student->config.context;
    if (in->teacher && in->teacher->config.context < most) most = in->teacher->config.context;
    *T = v->o.seq_len ? v->o.seq_len : (uint32_t)rt_align_up(f->length99, 256);
    if (!v->o.seq_len && *T > 2048) *T = 2048;
    if (!v->o.seq_len && *T > most) *T = most;
    if (*T >= 2 && *T <= most) return RT_OK;
    return rt_fail(e, RT_INVALID, "seq_len is from 2 to %u, which the model can at most, not %u", most, *T);
}

static int open_data(evaluation *v, const retort_model *m, uint32_t *T, rt_err *e)
{
    int rc;
    rt_run_facts facts;
    rt_rows *rows = NULL;
    char *name = rt_path_join(&v->arena, m->places.scratch, "retort-evaluate");
    if (!name) RT_TRY(rt_fail(e, RT_NOMEM, "no memory for a path"));
    RT_TRY(rt_dir_temp(&v->folder, &v->arena, name, e));
    rt_inputs_opts io = { .env = &m->places.env,
                          .pool = v->pool,
                          .folder = v->folder,
                          .now = v->o.now,
                          .stop = on_stop,
                          .progress = on_progress,
                          .ctx = v };
    RT_TRY(rt_inputs_open(&v->in, &v->settings, &io, e));
    RT_TRY(rt_inputs_data(v->in, &v->settings, &io, e));
    RT_TRY(rt_inputs_facts(v->in, &facts, e));
    RT_TRY(choose_length(v, &facts, T, e));
    rt_rows_opts ro = { .seq_len = *T, .in_order = true, .epochs = 1, .allow_drop = v->settings.allow_drop };
    RT_TRY(rt_rows_open(&rows, v->in->train_sources, v->in->train_count, &ro, e));
    RT_TRY(rt_eval_set_new(&v->set, rows, v->o.batch ? v->o.batch : 8, *T, v->o.rows, e));
out:
    rt_rows_close(rows);
    return rc;
}

static int dtypes_of(rt_dtype **out, const rt_model_file *m, rt_arena *a, rt_err *e)
{
    *out = rt_arena_alloc(a, rt_param_count(&m->config) * sizeof **out);
    return *out ? rt_load_dtypes(*out, m, e) : rt_fail(e, RT_NOMEM, "no memory for a model");
}

static int open_trainer(evaluation *v, const retort_model *m, uint32_t T, rt_err *e)
{
    int rc;
    const rt_inputs *in = v->in;
    rt_dtype *dtypes, *teacher = NULL;
    uint32_t rows = in->student->config.vocab;
    int32_t bad;
    if (in->teacher && in->teacher->config.vocab < rows) rows = in->teacher->config.vocab;
    if (!rt_eval_set_below(v->set, rows, &bad))
        RT_TRY(rt_fail(e, RT_INVALID,
                       "id %d is in the data, and an embedding has %u rows; the data is of another "
                       "tokenizer",
                       bad, rows));
    RT_TRY(dtypes_of(&dtypes, in->student, &v->arena, e));
    if (in->teacher) RT_TRY(dtypes_of(&teacher, in->teacher, &v->arena, e));
    RT_TRY(rt_api_device_open(&v->dev, v->o.device, v->o.threads, &m->places, e));
    rt_step_opts so = { .B = v->o.batch ? v->o.batch : 8,
                        .T = T,
                        .loss = { .divergence = RT_DIV_FORWARD_KL, .temperature = 1, .ce_weight = 1 },
                        .policy = *rt_device_policy(v->dev),
                        .student = &in->student->config,
                        .teacher = in->teacher ? &in->teacher->config : NULL,
                        .student_dtypes = dtypes,
                        .teacher_dtypes = teacher,
                        .eval_only = true,
                        .vmask = in->teacher && in->pair.masked };
    RT_TRY(rt_trainer_open(&v->trainer, v->dev, &so, &(rt_seal_opts){ 0 }, e));
    RT_TRY(rt_trainer_load(v->trainer, in->student, in->teacher, in->pair.mask, 0, e));
out:
    return rc;
}

static void close_all(evaluation *v)
{
    rt_eval_set_free(v->set);
    rt_trainer_free(v->trainer);
    if (v->dev) v->dev->api->close(v->dev);
    rt_inputs_close(v->in);
    rt_pool_free(v->pool);
    if (v->folder) rt_dir_remove(v->folder);
    rt_arena_free(&v->arena);
    rt_free(v);
}

int retort_evaluate(const retort_model *m, const retort_model *teacher, const char *const *data, uint32_t count,
                    const retort_evaluate_options *o, retort_evaluation *out, retort_error *error)
{
    int rc;
    uint32_t T;
    rt_err e = { 0 };
    rt_eval_result result;
    evaluation *v = rt_alloc_zero(sizeof *v, 16);
    if (!v) RT_TRY(rt_fail(&e, RT_NOMEM, "no memory for an evaluation"));
    if (!m || !out || (count && !data))
        RT_TRY(rt_fail(&e, RT_USAGE, "retort_evaluate: a model, data and a place for the result are needed"));
    RT_TRY(rt_api_take(&v->o, sizeof v->o, o, "retort_evaluate_options", &e));
    RT_TRY(fill_settings(v, m, teacher, data, count, &e));
    RT_TRY(rt_api_pool_new(&v->pool, v->o.threads, &e));
    RT_TRY(open_data(v, m, &T, &e));
    RT_TRY(open_trainer(v, m, T, &e));
    RT_TRY(rt_evaluate(v->trainer, v->set, &result, NULL, &e));
    *out = rt_api_evaluation(&result);
out:
    if (v) close_all(v);
    return rt_api_end(rc, &e, error);
}
