/* job_evaluate.c - a model measured on text, alone or beside a teacher. See job.h. */
#include "job/job_internal.h"

#include "base/json.h"
#include "base/sys.h"
#include "job/prepare/fit.h"
#include "teacher/remote/remote.h"

#include <stdlib.h>

enum { BATCH = 8, MOST_LENGTH = 2048 };

/* What lives while it is measured. */
typedef struct work {
    const rt_job_evaluate_opts *o;
    rt_job_evaluation *out;
    rt_arena arena;
    rt_settings settings;
    rt_teacher_weights asked, own; /* of the teacher; of the model */
    rt_weights_choice weights;
    rt_memory_choice memory;
    uint32_t bf16_layers[RT_MAX_LAYERS], bf16_count; /* of the model in fp8 */
    rt_inputs *in;
    rt_pool *pool;
    rt_dev *dev;
    rt_trainer *trainer;
    rt_eval_set *set;
    rt_watch watch; /* o's progress */
    uint32_t B, T;
    rt_settings run;     /* of the run whose part is measured, or whose model is; given: as its record has them */
    const char *run_out; /* its folder; null: there is none */
    char *folder;        /* of token shards, removed at the end */
    rt_job_tell tell;
} work;

/* How the model's own weights are kept. */
static int parse_weights(work *w, rt_err *e)
{
    const rt_job_evaluate_opts *o = w->o;
    if (o->weights && (!rt_weights_parse(o->weights, &w->own) || w->own == RT_WEIGHTS_AUTO))
        return rt_fail(e, RT_USAGE, "--weights is native, bf16, fp8 or fp8-native, not '%s'", o->weights);
    if (!o->bf16_layers) return RT_OK;
    if (w->own != RT_WEIGHTS_FP8) return rt_fail(e, RT_USAGE, "--bf16-layers needs --weights fp8");
    if (strcmp(o->bf16_layers, "none") == 0) return RT_OK;
    return rt_job_layers_parse(w->bf16_layers, &w->bf16_count, "--bf16-layers", o->bf16_layers, e);
}

/* What inputs look at. */
static int fill_settings(work *w, rt_err *e)
{
    int rc;
    rt_settings *s = &w->settings;
    const rt_job_evaluate_opts *o = w->o;
    const struct {
        rt_setting_id id;
        const char *text;
    } texts[] = { { RT_SETTING_ID_student, o->model },   { RT_SETTING_ID_teacher, o->teacher },
                  { RT_SETTING_ID_base, o->base },       { RT_SETTING_ID_device, o->device },
                  { RT_SETTING_ID_loss_on, o->loss_on }, { RT_SETTING_ID_chat_template, o->chat_template },
                  { RT_SETTING_ID_columns, o->columns } };
    RT_TRY(rt_settings_defaults(s, e));
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        if (texts[i].text) RT_TRY(rt_settings_set(s, texts[i].id, texts[i].text, e));
    for (uint32_t i = 0; i < o->data_count; i++) RT_TRY(rt_settings_set(s, RT_SETTING_ID_data, o->data[i], e));
    for (uint32_t i = 0; i < o->var_count; i++)
        RT_TRY(rt_settings_set(s, RT_SETTING_ID_template_var, o->template_vars[i], e));
    s->allow_degenerate = true; /* comparing a model with itself is a fair question here */
    s->allow_drop = o->allow_drop;
    s->skip_bad = o->skip_bad;
    s->threads = o->threads;
    s->vocab = o->vocab;
    s->given[RT_SETTING_ID_vocab] = o->vocab != 0;
    if (o->held_out_of && (o->data_count || o->seq_len))
        RT_TRY(rt_fail(e, RT_USAGE, "--held-out-of and --%s exclude one another: the run has its own; leave one out",
                       o->data_count ? "data" : "seq-len"));
    if (!o->data_count && !o->held_out_of)
        RT_TRY(rt_fail(e, RT_USAGE,
                       "--data is missing; give a text to measure on, or --held-out-of RUN, or --tasks FILE"));
    if (o->teacher && rt_remote_is(o->teacher))
        RT_TRY(rt_fail(e, RT_INVALID, "--teacher %s is a server; retort eval measures beside a model that is here",
                       o->teacher));
    if (o->teacher_weights && !o->teacher) RT_TRY(rt_fail(e, RT_USAGE, "--teacher-weights needs --teacher"));
    if (o->teacher_weights && !rt_weights_parse(o->teacher_weights, &w->asked))
        RT_TRY(rt_fail(e, RT_USAGE, "--teacher-weights is " RT_WEIGHTS_WORDS ", not '%s'", o->teacher_weights));
    RT_TRY(parse_weights(w, e));
out:
    return rc;
}

/* ---- a run ---- */

/* Its settings, where the folder is that of one. */
static int find_run(work *w, const char *folder, rt_err *e)
{
    int rc = RT_OK;
    bool checked;
    json_t *j = NULL;
    char *path = rt_path_join(&w->arena, folder, "run/settings.json");
    if (!path) RT_TRY(rt_no_memory(e, "a path"));
    if (!rt_path_exists(path)) return RT_OK;
    RT_TRY(rt_checked_json_read_old(&j, &checked, path, e));
    RT_TRY(rt_settings_from_json(&w->run, j, &w->arena, e));
    w->run_out = folder;
out:
    json_decref(j);
    return rc;
}

/* The rows that the run evaluates on, from the tokens that it left. */
static int open_held_out(work *w, const rt_inputs_opts *with, rt_err *e)
{
    int rc;
    rt_settings *s = &w->settings;
    const rt_settings *run = &w->run;
    rt_inputs_opts io = *with;
    rt_run_facts f;
    rt_resolved r;
    char *index = rt_path_join(&w->arena, w->o->held_out_of, "run/data/train.json");
    io.folder = rt_path_join(&w->arena, w->o->held_out_of, "run/data");
    if (!index || !io.folder) RT_TRY(rt_no_memory(e, "a path"));
    if (!w->run_out || !rt_path_exists(index) || !run->given[RT_SETTING_ID_seq_len])
        RT_TRY(rt_fail(e, RT_NOT_FOUND, "--held-out-of %s: there is no run with its tokens; name the --out of one",
                       w->o->held_out_of));
    s->data = run->data;
    s->eval_data = run->eval_data;
    s->held_out = run->held_out;
    s->given[RT_SETTING_ID_held_out] = run->given[RT_SETTING_ID_held_out];
    RT_SETTINGS_PUT(s, seq_len, run->seq_len);
    s->seed = run->seed;
    s->held_seed = run->held_seed;
    s->given[RT_SETTING_ID_held_seed] = run->given[RT_SETTING_ID_held_seed];
    s->allow_drop = s->allow_drop || run->allow_drop;
    RT_TRY(rt_inputs_open(&w->in, s, &io, e));
    RT_TRY(rt_inputs_data(w->in, s, &io, e));
    RT_TRY(rt_inputs_facts(w->in, &f, e));
    RT_TRY(rt_resolve_before_rows(s, &f, &r, e));
    RT_TRY(rt_inputs_rows(w->in, s, &r, &f, e));
    w->T = r.seq_len;
    RT_TRY(rt_eval_set_new(&w->set, w->in->held, w->B, w->T, RT_EVAL_MOST_ROWS, e));
    if (run->given[RT_SETTING_ID_eval_rows]) RT_TRY(rt_eval_set_pick(w->set, (uint32_t)run->eval_rows, run->seed, e));
    if (w->o->rows) RT_TRY(rt_eval_set_pick(w->set, w->o->rows, run->seed, e));
out:
    return rc;
}

/* ---- the data ---- */

/* A model that lies in its run's folder is measured in rows as it was there. */
static int choose_length(work *w, const rt_run_facts *f, rt_err *e)
{
    const rt_inputs *in = w->in;
    bool given = w->o->seq_len != 0, own = !given && w->run.given[RT_SETTING_ID_seq_len];
    uint64_t T = given ? w->o->seq_len : own ? w->run.seq_len : rt_align_up(f->length99, 256);
    uint32_t most = in->student->config.context;
    if (in->teacher && in->teacher->config.context < most) most = in->teacher->config.context;
    if (!given && T > MOST_LENGTH) T = MOST_LENGTH;
    if (!given && T > most) T = most;
    w->T = (uint32_t)T;
    if (T >= 2 && T <= most) return RT_OK;
    return rt_fail(e, RT_INVALID, "--seq-len %llu is out of range (2 to %u, the model's context)",
                   (unsigned long long)T, most);
}

/* An id without a row in an embedding would be read from beyond its end. */
static int check_ids(const work *w, rt_err *e)
{
    int32_t bad;
    uint32_t rows = rt_inputs_id_rows(w->in);
    if (rt_eval_set_below(w->set, rows, &bad)) return RT_OK;
    return rt_fail(e, RT_INVALID,
                   "id %d is in the data, and an embedding has %u rows; the data is of another tokenizer", bad, rows);
}

static int open_text(work *w, const rt_inputs_opts *with, rt_err *e)
{
    int rc;
    rt_run_facts facts;
    rt_rows *rows = NULL;
    rt_inputs_opts io = *with;
    RT_TRY(rt_dir_scratch(&w->folder, &w->arena, w->o->env->scratch, "retort-eval", e));
    io.folder = w->folder;
    RT_TRY(rt_inputs_open(&w->in, &w->settings, &io, e));
    RT_TRY(rt_inputs_data(w->in, &w->settings, &io, e));
    RT_TRY(rt_inputs_facts(w->in, &facts, e));
    RT_TRY(choose_length(w, &facts, e));
    rt_rows_opts ro = { .seq_len = w->T, .in_order = true, .epochs = 1, .allow_drop = w->settings.allow_drop };
    RT_TRY(rt_rows_open(&rows, w->in->train_sources, w->in->train_count, &ro, e));
    w->out->data = rt_inputs_count(rows, w->in->train_count);
    RT_TRY(rt_eval_set_new(&w->set, rows, w->B, w->T, w->o->rows, e));
out:
    rt_rows_close(rows);
    return rc;
}

static int open_data(work *w, rt_err *e)
{
    int rc;
    const rt_job_env *env = w->o->env;
    const rt_inputs_opts io = { .env = &env->hub,
                                .pool = w->pool,
                                .now = env->now,
                                .measure = true,
                                .stop = rt_job_tell_stop,
                                .progress = rt_job_tell_progress,
                                .ctx = &w->tell };
    RT_TRY(find_run(w, w->o->held_out_of ? w->o->held_out_of : w->o->model, e));
    RT_TRY(w->o->held_out_of ? open_held_out(w, &io, e) : open_text(w, &io, e));
    if (w->in->cache)
        RT_TRY(rt_fail(e, RT_INVALID,
                       "--teacher %s is a cache, and retort eval needs a model as teacher; name the "
                       "model that the cache was made with",
                       w->o->teacher));
    if (rt_inputs_prompted(w->in))
        RT_TRY(rt_fail(e, RT_INVALID, "--teacher %s: retort eval does not support prompt=; give the model alone",
                       w->o->teacher));
    uint32_t rows = rt_eval_set_rows(w->set);
    if (rows < w->B) rt_eval_set_batch(w->set, w->B = rows); /* nothing is measured of what fills a batch up */
    RT_TRY(check_ids(w, e));
    if (w->o->word && !w->in->text)
        RT_TRY(rt_fail(e, RT_INVALID, "--word needs a tokenizer, and %s has none", w->in->student->name));
    if (w->o->word) RT_TRY(rt_eval_set_word(w->set, w->in->text->tokenizer, w->o->word, e));
out:
    return rc;
}

/* ---- the programs ---- */

static int model_dtypes(work *w, rt_dtype **out, rt_err *e)
{
    int rc;
    const rt_model_config *c = &w->in->student->config;
    RT_TRY(rt_inputs_dtypes(out, w->in->student, &w->arena, e));
    for (uint32_t i = 0; i < w->bf16_count; i++)
        if (w->bf16_layers[i] >= c->layers)
            RT_TRY(rt_fail(e, RT_USAGE, "--bf16-layers %s: the model has %u layers", w->o->bf16_layers, c->layers));
    if (w->o->bf16_layers)
        rt_weights_fp8(*out, *out, c, w->bf16_layers, w->bf16_count);
    else
        rt_weights_dtypes(*out, *out, c, w->own);
out:
    return rc;
}

static int open_trainer(work *w, rt_err *e)
{
    int rc;
    const rt_inputs *in = w->in;
    rt_dtype *student, *teacher = NULL;
    RT_TRY(model_dtypes(w, &student, e));
    if (in->teacher) RT_TRY(rt_inputs_dtypes(&teacher, in->teacher, &w->arena, e));
    RT_TRY(rt_job_device_open(&w->dev, &w->settings, NULL, w->o->env->environment, NULL, e));
    rt_step_opts so = { .B = w->B,
                        .T = w->T,
                        .loss = { .divergence = RT_DIV_FORWARD_KL, .temperature = 1, .ce_weight = 1 },
                        .policy = *rt_device_policy(w->dev),
                        .student = &in->student->config,
                        .teacher = in->teacher ? &in->teacher->config : NULL,
                        .student_dtypes = student,
                        .student_coded = rt_weights_coded(&in->student->config, w->own),
                        .teacher_dtypes = teacher,
                        .eval_only = true,
                        .vmask = in->teacher && in->pair.masked };
    if (teacher) RT_TRY(rt_fit_evaluation(w->dev, &so, w->asked, teacher, &w->weights, e));
    bool stored = rt_weights_as_stored(w->weights.weights);
    if (teacher) RT_TRY(rt_fit_evaluation_memory(w->dev, &so, stored, &w->memory, e));
    RT_TRY(rt_trainer_open(&w->trainer, w->dev, &so, &(rt_seal_opts){ 0 }, e));
    w->trainer->watch = &w->watch;
    RT_TRY(rt_trainer_load(w->trainer, in->student, in->teacher, in->pair.mask, 0, e));
out:
    return rc;
}

/* ---- what is said ---- */

static int by_value(const void *a, const void *b)
{
    float x = *(const float *)a, y = *(const float *)b;
    return x < y ? -1 : x > y;
}

double rt_job_evaluation_percentile(const rt_job_evaluation *v, double share)
{
    return v->kl[(uint64_t)(share * (double)(v->result.positions - 1) + 0.5)];
}

static int measure(work *w, rt_err *e)
{
    int rc;
    rt_job_evaluation *v = w->out;
    float *kl = NULL;
    if (w->in->teacher && !(v->kl = kl = rt_alloc(rt_eval_set_positions(w->set) * sizeof *kl, 64)))
        RT_TRY(rt_no_memory(e, "the divergence of every position"));
    rc = rt_evaluate(w->trainer, w->set, &v->result, kl, e);
    if (rc == RT_NONFINITE)
        rt_err_context(e, w->in->teacher ? "%s beside %s" : "%s", w->in->student->name,
                       w->in->teacher ? w->in->teacher->name : "");
    RT_TRY(rc);
    if (kl) qsort(kl, v->result.positions, sizeof *kl, by_value);
out:
    return rc;
}

static void note_even(rt_notes *notes, const rt_inputs *in, const rt_eval_result *v)
{
    rt_str text = { 0 };
    rt_eval_say_even(&text, v, in->student->name, in->teacher ? in->teacher->name : NULL);
    if (text.len) rt_note(notes, "%s", text.data);
    rt_str_free(&text);
}

/* --rows takes the first ones, in which some files may have nothing. */
static void note_absent(rt_notes *notes, const rt_eval_set *set, uint32_t rows)
{
    rt_str names = { 0 };
    if (rows) rt_eval_set_absent(set, &names);
    if (names.len) rt_note(notes, "--rows %u: nothing of %s is measured", rows, names.data);
    rt_str_free(&names);
}

static void note_memory(rt_notes *notes, const rt_memory_choice *c)
{
    rt_str text = { 0 };
    rt_memory_say(&text, c);
    if (text.len) rt_note(notes, "%s", text.data);
    rt_str_free(&text);
}

/* Everything that outlives models and device. */
static int keep(work *w, rt_err *e)
{
    rt_job_evaluation *v = w->out;
    const rt_inputs *in = w->in;
    rt_str why = { 0 };
    bool teacher = in->teacher != NULL;
    v->rows = rt_eval_set_rows(w->set);
    v->seq_len = w->T;
    v->own_length = !w->o->seq_len && w->run.given[RT_SETTING_ID_seq_len];
    v->notes = in->notes;
    note_absent(&v->notes, w->set, w->o->rows);
    note_even(&v->notes, in, &v->result);
    note_memory(&v->notes, &w->memory);
    v->model = rt_arena_strdup(&v->arena, in->student->name);
    v->model_weights = rt_weights_name(w->own);
    if (teacher) {
        rt_weights_say(&why, &w->weights);
        v->teacher = rt_arena_strdup(&v->arena, in->teacher->name);
        v->weights = rt_weights_name(w->weights.weights);
        v->weights_chosen = why.failed ? NULL : rt_arena_strdup(&v->arena, why.data ? why.data : "");
    }
    rt_str_free(&why);
    return v->model && (!teacher || (v->teacher && v->weights_chosen)) ? RT_OK : rt_no_memory(e, "an evaluation");
}

static void close_work(work *w)
{
    rt_eval_set_free(w->set);
    rt_trainer_free(w->trainer);
    rt_job_device_close(w->dev);
    rt_inputs_close(w->in);
    rt_pool_free(w->pool);
    if (w->folder) rt_dir_remove(w->folder);
    rt_arena_free(&w->arena);
}

int rt_job_evaluate(rt_job_evaluation *out, const rt_job_evaluate_opts *o, rt_err *e)
{
    int rc;
    work w = { .o = o,
               .out = out,
               .asked = RT_WEIGHTS_AUTO,
               .B = o->batch ? o->batch : BATCH,
               .watch = { o->progress, o->ctx },
               .tell = { .progress = o->progress, .ctx = o->ctx } };
    *out = (rt_job_evaluation){ 0 };
    rt_json_init();
    RT_TRY(fill_settings(&w, e));
    RT_TRY(rt_job_pool_new(&w.pool, o->threads, e));
    RT_TRY(open_data(&w, e));
    RT_TRY(open_trainer(&w, e));
    RT_TRY(measure(&w, e));
    RT_TRY(keep(&w, e));
out:
    close_work(&w);
    if (rc < 0) rt_job_evaluation_free(out);
    return rc;
}

void rt_job_evaluation_free(rt_job_evaluation *v)
{
    rt_free((void *)v->kl);
    rt_arena_free(&v->arena);
    *v = (rt_job_evaluation){ 0 };
}
