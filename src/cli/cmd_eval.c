/* cmd_eval.c - `retort eval`: how well a model predicts a text, and how close it is to a teacher. */
#include "cli/cli.h"
#include "cli/device_arg.h"
#include "cli/model_arg.h"
#include "cli/progress.h"

#include "job/prepare/fit_need.h"
#include "job/prepare/inputs.h"
#include "train/evaluate.h"

#include <inttypes.h>
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

typedef struct options {
    const char *teacher, *teacher_weights, *device, *loss_on, *chat_template, *word;
    rt_words data, template_var;
    uint32_t seq_len, batch, threads, rows, vocab;
    uint64_t skip_bad;
    bool json, allow_drop;
} options;

typedef struct evaluation {
    rt_arena arena;
    rt_settings settings;
    rt_inputs *in;
    rt_pool *pool;
    rt_dev *dev;
    rt_trainer *trainer;
    rt_eval_set *set;
    rt_progress progress;
    char *folder; /* of token shards, removed at the end */
    rt_eval_result result;
    float *kl;        /* (positions) */
    const char *word; /* whose probability is measured; null: none */
    rt_teacher_weights asked;
    rt_weights_choice weights; /* of the teacher */
} evaluation;

static void tell(void *ctx, const char *what, uint64_t done, uint64_t total)
{
    evaluation *v = ctx;
    (void)rt_progress_step(&v->progress, what, done, total);
}

static bool wants_stop(void *ctx)
{
    (void)ctx;
    return rt_interrupt_wanted();
}

/* The settings that inputs look at. */
static int fill_settings(evaluation *v, const options *o, const char *model, rt_err *e)
{
    int rc;
    rt_settings *s = &v->settings;
    RT_TRY(rt_settings_defaults(s, e));
    RT_TRY(rt_settings_set(s, RT_SETTING_ID_student, model, e));
    if (o->teacher) RT_TRY(rt_settings_set(s, RT_SETTING_ID_teacher, o->teacher, e));
    if (o->loss_on) RT_TRY(rt_settings_set(s, RT_SETTING_ID_loss_on, o->loss_on, e));
    if (o->chat_template) RT_TRY(rt_settings_set(s, RT_SETTING_ID_chat_template, o->chat_template, e));
    for (uint32_t i = 0; i < o->data.count; i++) RT_TRY(rt_settings_set(s, RT_SETTING_ID_data, o->data.text[i], e));
    for (uint32_t i = 0; i < o->template_var.count; i++)
        RT_TRY(rt_settings_set(s, RT_SETTING_ID_template_var, o->template_var.text[i], e));
    s->allow_degenerate = true; /* comparing a model with itself is a fair question here */
    s->allow_drop = o->allow_drop;
    s->skip_bad = o->skip_bad;
    s->vocab = o->vocab;
    s->given[RT_SETTING_ID_vocab] = o->vocab != 0;
    if (s->data.count == 0) RT_TRY(rt_fail(e, RT_USAGE, "retort eval: --data is missing: text to measure on"));
    v->asked = RT_WEIGHTS_AUTO;
    if (o->teacher_weights && !o->teacher)
        RT_TRY(rt_fail(e, RT_USAGE, "retort eval: --teacher-weights is of the --teacher, and there is none"));
    if (o->teacher_weights && !rt_weights_parse(o->teacher_weights, &v->asked))
        RT_TRY(rt_fail(e, RT_USAGE, "--teacher-weights is auto, native or bf16, not '%s'", o->teacher_weights));
out:
    return rc;
}

static int open_data(evaluation *v, const options *o, uint32_t *T, rt_err *e)
{
    int rc;
    rt_hub_env env = rt_hub_env_get();
    rt_run_facts facts;
    rt_rows *rows = NULL;
    const char *base = getenv("TMPDIR");
    char *name = rt_arena_printf(&v->arena, "%s/retort-eval", base && *base ? base : "/tmp");
    if (!name) RT_TRY(rt_fail(e, RT_NOMEM, "no memory for a path"));
    RT_TRY(rt_dir_temp(&v->folder, &v->arena, name, e));
    rt_inputs_opts io = { .env = &env,
                          .pool = v->pool,
                          .folder = v->folder,
                          .now = (int64_t)time(NULL),
                          .stop = wants_stop,
                          .progress = tell,
                          .ctx = v };
    RT_TRY(rt_inputs_open(&v->in, &v->settings, &io, e));
    RT_TRY(rt_inputs_data(v->in, &v->settings, &io, e));
    RT_TRY(rt_inputs_facts(v->in, &facts, e));
    uint32_t most = v->in->student->config.context;
    if (v->in->teacher && v->in->teacher->config.context < most) most = v->in->teacher->config.context;
    *T = o->seq_len ? o->seq_len : (uint32_t)rt_align_up(facts.length99, 256);
    if (!o->seq_len && *T > 2048) *T = 2048;
    if (!o->seq_len && *T > most) *T = most;
    if (*T < 2 || *T > most)
        RT_TRY(rt_fail(e, RT_INVALID, "--seq-len is from 2 to %u, which the model can at most, not %u", most, *T));
    rt_rows_opts ro = { .seq_len = *T, .in_order = true, .epochs = 1, .allow_drop = o->allow_drop };
    RT_TRY(rt_rows_open(&rows, v->in->train_sources, v->in->train_count, &ro, e));
    RT_TRY(rt_eval_set_new(&v->set, rows, o->batch, *T, o->rows, e));
    if (o->word && !v->in->text)
        RT_TRY(rt_fail(e, RT_INVALID, "--word needs a tokenizer, and %s has none", v->in->student->name));
    if (o->word) RT_TRY(rt_eval_set_word(v->set, v->in->text->tokenizer, o->word, e));
out:
    rt_rows_close(rows);
    return rc;
}

static int open_trainer(evaluation *v, const options *o, uint32_t T, rt_err *e)
{
    int rc;
    char count[RT_DEV_COUNT_TEXT];
    const rt_inputs *in = v->in;
    rt_dtype *dtypes = rt_arena_alloc(&v->arena, rt_param_count(&in->student->config) * sizeof *dtypes),
             *teacher = NULL;
    if (!dtypes) RT_TRY(rt_fail(e, RT_NOMEM, "no memory for a model"));
    RT_TRY(rt_load_dtypes(dtypes, in->student, e));
    if (in->teacher) {
        teacher = rt_arena_alloc(&v->arena, rt_param_count(&in->teacher->config) * sizeof *teacher);
        if (!teacher) RT_TRY(rt_fail(e, RT_NOMEM, "no memory for a model"));
        RT_TRY(rt_load_dtypes(teacher, in->teacher, e));
    }
    RT_TRY(rt_device_arg_open(&v->dev, o->device, &RT_DEV_OPTIONS({ "threads", rt_dev_count(count, o->threads) }),
                              false, e));
    rt_step_opts so = { .B = o->batch,
                        .T = T,
                        .loss = { .divergence = RT_DIV_FORWARD_KL, .temperature = 1, .ce_weight = 1 },
                        .policy = *rt_device_policy(v->dev),
                        .student = &in->student->config,
                        .teacher = in->teacher ? &in->teacher->config : NULL,
                        .student_dtypes = dtypes,
                        .teacher_dtypes = teacher,
                        .eval_only = true,
                        .vmask = in->teacher && in->pair.masked };
    if (teacher) RT_TRY(rt_fit_evaluation(v->dev, &so, v->asked, teacher, &v->weights, e));
    RT_TRY(rt_trainer_open(&v->trainer, v->dev, &so, &(rt_seal_opts){ 0 }, e));
    RT_TRY(rt_trainer_load(v->trainer, in->student, in->teacher, in->pair.mask, 0, e));
out:
    return rc;
}

/* ---- printing ---- */

static int by_value(const void *a, const void *b)
{
    float x = *(const float *)a, y = *(const float *)b;
    return x < y ? -1 : x > y;
}

static double percentile(const float *sorted, uint64_t n, double p)
{
    uint64_t i = (uint64_t)(p * (double)(n - 1) + 0.5);
    return sorted[i];
}

static void print_measure(const char *name, rt_measure m)
{
    if (isnan(m.error))
        printf("%-22s %.4f\n", name, m.mean);
    else
        printf("%-22s %.4f +- %.4f\n", name, m.mean, m.error);
}

static json_t *measure(rt_measure m)
{
    return json_pack("{s:f, s:o}", "mean", m.mean, "error", isnan(m.error) ? json_null() : json_real(m.error));
}

static const double shares[] = { 0.5, 0.9, 0.99 };
static const char *const share_names[] = { "p50", "p90", "p99" };

static json_t *word_json(const evaluation *v)
{
    const rt_eval_result *r = &v->result;
    json_t *j = json_pack("{s:o, s:I, s:o}", "text", rt_json_text(v->word), "places", (json_int_t)r->places,
                          "probability", measure(r->word));
    if (j && r->teacher) json_object_set_new(j, "teacher_probability", measure(r->teacher_word));
    return j;
}

static int print_json(const evaluation *v, rt_err *e)
{
    const rt_eval_result *r = &v->result;
    json_t *j = json_pack("{s:s, s:I, s:I, s:o, s:f, s:f}", "model", v->in->student->name, "positions",
                          (json_int_t)r->positions, "documents", (json_int_t)r->documents, "cross_entropy",
                          measure(r->ce), "perplexity", exp(r->ce.mean), "seconds", r->seconds);
    if (j && r->teacher) {
        json_t *p = json_object();
        for (int i = 0; i < 3; i++)
            json_object_set_new(p, share_names[i], json_real(percentile(v->kl, r->positions, shares[i])));
        json_object_set_new(j, "teacher", json_string(v->in->teacher->name));
        json_object_set_new(j, "teacher_weights", json_string(rt_weights_name(v->weights.weights)));
        json_object_set_new(j, "forward_kl", measure(r->kl));
        json_object_set_new(j, "forward_kl_percentiles", p);
        json_object_set_new(j, "agreement", measure(r->agreement));
        json_object_set_new(j, "teacher_cross_entropy", measure(r->teacher_ce));
    }
    if (j && r->places) json_object_set_new(j, "word", word_json(v));
    return rt_print_json(j, e);
}

static void print_closeness(const evaluation *v)
{
    const rt_eval_result *r = &v->result;
    print_measure("KL(teacher||model)", r->kl);
    printf("%-22s", "  of positions");
    for (int i = 0; i < 3; i++) printf(" %s %.4f ", share_names[i], percentile(v->kl, r->positions, shares[i]));
    printf("\n");
    print_measure("top-1 agreement", r->agreement);
    print_measure("teacher cross-entropy", r->teacher_ce);
}

/* Three digits, whatever the power of ten: a word that was never learned has next to none. */
static void print_probability(const char *name, rt_measure m)
{
    printf("%-22s %.3g", name, m.mean);
    if (!isnan(m.error)) printf(" +- %.2g", m.error);
    printf("\n");
}

static void print_word(const evaluation *v)
{
    const rt_eval_result *r = &v->result;
    printf("%-22s '%s', at %" PRIu64 " places\n", "word", v->word, r->places);
    print_probability("  probability", r->word);
    if (r->teacher) print_probability("  teacher's", r->teacher_word);
}

static void print_text(const evaluation *v)
{
    const rt_eval_result *r = &v->result;
    rt_str weights = { 0 };
    for (uint32_t i = 0; i < v->in->note_count; i++) printf("note: %s\n", v->in->notes[i]);
    rt_weights_say(&weights, &v->weights);
    if (weights.len) printf("%-22s %s\n", "weights", weights.data);
    rt_str_free(&weights);
    printf("%-22s %" PRIu64 " in %" PRIu64 " documents, %u rows\n", "positions", r->positions, r->documents,
           rt_eval_set_rows(v->set));
    print_measure("cross-entropy", r->ce);
    printf("%-22s %.3f\n", "perplexity", exp(r->ce.mean));
    if (r->teacher) print_closeness(v);
    if (r->places) print_word(v);
}

static int evaluate(const options *o, const char *model, rt_err *e)
{
    int rc;
    uint32_t T;
    evaluation v = { .word = o->word };
    rt_interrupt_catch();
    rt_progress_begin(&v.progress);
    RT_TRY(fill_settings(&v, o, model, e));
    RT_TRY(rt_pool_for(&v.pool, o->threads, e));
    RT_TRY(open_data(&v, o, &T, e));
    RT_TRY(open_trainer(&v, o, T, e));
    v.kl = rt_alloc(rt_eval_set_positions(v.set) * sizeof *v.kl, 64);
    if (!v.kl) RT_TRY(rt_fail(e, RT_NOMEM, "no memory for the divergence of every position"));
    RT_TRY(rt_evaluate(v.trainer, v.set, &v.result, v.kl, e));
    rt_progress_end(&v.progress);
    if (v.result.teacher) qsort(v.kl, v.result.positions, sizeof *v.kl, by_value);
    if (o->json)
        RT_TRY(print_json(&v, e));
    else
        print_text(&v);
out:
    rt_free(v.kl);
    rt_eval_set_free(v.set);
    rt_trainer_free(v.trainer);
    if (v.dev) v.dev->api->close(v.dev);
    rt_inputs_close(v.in);
    rt_pool_free(v.pool);
    if (v.folder) rt_dir_remove(v.folder);
    rt_arena_free(&v.arena);
    return rc;
}

int rt_cmd_eval(int argc, char **argv, rt_err *e)
{
    static options o = { .batch = 8 };
    rt_words words = { 0 };
    bool help;
    const rt_flag flags[] = {
        { "--data", RT_FLAG_LIST, &o.data, "PATH", "text to measure on, as distill takes it; may be repeated" },
        { "--teacher", RT_FLAG_TEXT, &o.teacher, "MODEL", "also measure how close the model is to this one" },
        { "--teacher-weights", RT_FLAG_TEXT, &o.teacher_weights, "W",
          "native, bf16 or auto, as distill has it (auto)" },
        { "--word", RT_FLAG_TEXT, &o.word, "W", "also measure how probable this word is where the text has it" },
        { "--seq-len", RT_FLAG_COUNT, &o.seq_len, "N", "positions of a row (as the data needs, up to 2048)" },
        { "--batch", RT_FLAG_COUNT, &o.batch, "N", "rows at a time (8)" },
        { "--rows", RT_FLAG_COUNT, &o.rows, "N", "rows at most (all)" },
        { "--loss-on", RT_FLAG_TEXT, &o.loss_on, "turns|all", "measure assistant turns, or everything" },
        { "--chat-template", RT_FLAG_TEXT, &o.chat_template, "T", "teacher, student or a file" },
        { "--template-var", RT_FLAG_LIST, &o.template_var, "K=V", "a variable for the chat template" },
        { "--skip-bad", RT_FLAG_WHOLE, &o.skip_bad, "N", "records at fault that may be skipped" },
        { "--allow-drop", RT_FLAG_BOOL, &o.allow_drop, NULL, "go on when more than 5 % of the records do not fit" },
        { "--vocab", RT_FLAG_COUNT, &o.vocab, "N", "ids in use, where neither model has a tokenizer" },
        { "--device", RT_FLAG_TEXT, &o.device, "D", "where to run (auto)" },
        { "--threads", RT_FLAG_COUNT, &o.threads, "N", "of the processor" },
        { "--json", RT_FLAG_BOOL, &o.json, NULL, "the same numbers as JSON" },
        { 0 },
    };
    const rt_command c = {
        .name = "eval",
        .usage = "retort eval MODEL --data D [--teacher T] [flags]",
        .text = "Measures a model on text: cross-entropy and perplexity, and with a teacher the divergence from it\n"
                "(mean, percentiles) and how often both would choose the same token. Errors are over documents.\n"
                "--word W is the mean probability of W, all of its tokens together, where W stands in the text as a\n"
                "word of its own.",
        .example = "retort eval out --teacher Qwen/Qwen2.5-7B --data held-out.jsonl",
        .flags = flags,
        .min_words = 1,
        .max_words = 1,
        .words = &words,
    };
    int rc = rt_args_parse(&c, argc, argv, &help, e);
    if (rc < 0 || help) return rc;
    return evaluate(&o, words.text[0], e);
}
