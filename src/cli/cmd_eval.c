/* cmd_eval.c - `retort eval`: how well a model predicts a text, and how close it is to a teacher; or how well it does
 * in tasks (eval_tasks.c). */
#include "cli/cli.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>

static void print_measure(const char *name, rt_measure m)
{
    if (isnan(m.error))
        rt_put("%-22s %.4f\n", name, m.mean);
    else
        rt_put("%-22s %.4f +- %.4f\n", name, m.mean, m.error);
}

static const double shares[] = { 0.5, 0.9, 0.99 };
static const char *const share_names[] = { "p50", "p90", "p99" };

static json_t *word_json(const rt_eval_result *r, const char *word)
{
    json_t *j = json_pack("{s:o, s:I, s:o}", "text", rt_json_text(word), "places", (json_int_t)r->places, "probability",
                          rt_json_measure(r->word));
    if (j && r->teacher) json_object_set_new(j, "teacher_probability", rt_json_measure(r->teacher_word));
    return j;
}

static void put_fate(json_t *j, const rt_rows_count *c)
{
    json_object_set_new(j, "records", json_integer((json_int_t)c->records));
    json_object_set_new(j, "split", json_integer((json_int_t)c->split));
    json_object_set_new(j, "shortened", json_integer((json_int_t)c->cut));
    json_object_set_new(j, "dropped", json_integer((json_int_t)(c->too_long + c->no_target)));
}

static int print_json(const rt_job_evaluation *v, const char *word, rt_err *e)
{
    const rt_eval_result *r = &v->result;
    json_t *j =
        json_pack("{s:s, s:s, s:I, s:I, s:I, s:I, s:o, s:f, s:f}", "model", v->model, "weights", v->model_weights,
                  "positions", (json_int_t)r->positions, "documents", (json_int_t)r->documents, "rows",
                  (json_int_t)v->rows, "seq_len", (json_int_t)v->seq_len, "cross_entropy", rt_json_measure(r->ce),
                  "perplexity", exp(r->ce.mean), "seconds", r->seconds);
    if (j) put_fate(j, &v->data);
    if (j && r->teacher) {
        json_t *p = json_object();
        for (int i = 0; i < 3; i++)
            json_object_set_new(p, share_names[i], json_real(rt_job_evaluation_percentile(v, shares[i])));
        json_object_set_new(j, "teacher", json_string(v->teacher));
        json_object_set_new(j, "teacher_weights", json_string(v->weights));
        json_object_set_new(j, "forward_kl", rt_json_measure(r->kl));
        json_object_set_new(j, "forward_kl_percentiles", p);
        json_object_set_new(j, "agreement", rt_json_measure(r->agreement));
        json_object_set_new(j, "teacher_cross_entropy", rt_json_measure(r->teacher_ce));
    }
    if (j && r->part_count) json_object_set_new(j, "parts", rt_eval_parts_json(r));
    if (j && r->places) json_object_set_new(j, "word", word_json(r, word));
    return rt_print_json(j, e);
}

static void print_closeness(const rt_job_evaluation *v)
{
    const rt_eval_result *r = &v->result;
    print_measure("KL(teacher||model)", r->kl);
    rt_put("%-22s", "  of positions");
    for (int i = 0; i < 3; i++) rt_put(" %s %.4f ", share_names[i], rt_job_evaluation_percentile(v, shares[i]));
    rt_put("\n");
    print_measure("top-1 agreement", r->agreement);
    print_measure("teacher cross-entropy", r->teacher_ce);
}

/* Three digits, whatever the power of ten: a word that was never learned has next to none. */
static void print_probability(const char *name, rt_measure m)
{
    rt_put("%-22s %.3g", name, m.mean);
    if (!isnan(m.error)) rt_put(" +- %.2g", m.error);
    rt_put("\n");
}

static void print_word(const rt_eval_result *r, const char *word)
{
    rt_put("%-22s '%s', at %" PRIu64 " places\n", "word", word, r->places);
    print_probability("  probability", r->word);
    if (r->teacher) print_probability("  teacher's", r->teacher_word);
}

static void print_parts(const rt_eval_result *r)
{
    rt_put("\n%13s", "CE");
    if (r->teacher) rt_put(" %9s %10s", "KL", "agreement");
    rt_put(" %10s  of\n", "documents");
    for (uint32_t i = 0; i < r->part_count; i++) {
        const rt_eval_part *p = &r->parts[i];
        rt_put("%13.4f", p->ce.mean);
        if (r->teacher) rt_put(" %9.4f %10.4f", p->kl.mean, p->agreement.mean);
        rt_put(" %10" PRIu64 "  %s\n", p->documents, p->name);
    }
}

/* Where the row length left something out, or cut it. */
static void print_records(const rt_rows_count *c)
{
    if (!c->split && !c->cut && !c->too_long && !c->no_target) return;
    rt_put("%-22s %" PRIu64, "records", c->records);
    rt_print_fate(c);
    rt_put("\n");
}

static void print_text(const rt_job_evaluation *v, const rt_job_evaluate_opts *o)
{
    const rt_eval_result *r = &v->result;
    for (uint32_t i = 0; i < v->notes.count; i++) rt_put("note: %s\n", v->notes.text[i]);
    if (o->weights)
        rt_put("%-22s the model's are %s%s%s\n", "weights", v->model_weights,
               o->bf16_layers ? ", layers in bf16: " : "", o->bf16_layers ? o->bf16_layers : "");
    if (v->teacher) rt_put("%-22s %s\n", "weights", v->weights_chosen);
    rt_put("%-22s %" PRIu64 " in %" PRIu64 " documents, %u rows of %u tokens%s\n", "positions", r->positions,
           r->documents, v->rows, v->seq_len, v->own_length ? ", as in its run" : "");
    print_records(&v->data);
    print_measure("cross-entropy", r->ce);
    rt_put("%-22s %.3f\n", "perplexity", exp(r->ce.mean));
    if (r->teacher) print_closeness(v);
    if (r->places) print_word(r, o->word);
    if (r->part_count) print_parts(r);
}

static int evaluate(rt_job_evaluate_opts *o, bool json, rt_err *e)
{
    static rt_job_evaluation v;
    rt_job_env env = rt_cli_env(0);
    o->env = &env;
    o->progress = rt_live_progress;
    rt_interrupt_catch();
    rt_live_begin(stderr);
    int rc = rt_job_evaluate(&v, o, e);
    rt_live_end();
    if (rc < 0) return rc;
    if (json)
        rc = print_json(&v, o->word, e);
    else
        print_text(&v, o);
    rt_job_evaluation_free(&v);
    return rc;
}

/* Flags that one of the two ways of measuring has and the other has not. */
static int check_flags(const rt_job_evaluate_opts *o, const rt_tasks_flags *t, rt_err *e)
{
    const char *of_text = o->data_count        ? "--data"
                          : o->held_out_of     ? "--held-out-of"
                          : o->teacher         ? "--teacher"
                          : o->weights         ? "--weights"
                          : o->word            ? "--word"
                          : o->seq_len         ? "--seq-len"
                          : o->batch           ? "--batch"
                          : o->rows            ? "--rows"
                          : o->columns         ? "--columns"
                          : o->loss_on         ? "--loss-on"
                          : o->skip_bad        ? "--skip-bad"
                          : o->allow_drop      ? "--allow-drop"
                          : o->vocab           ? "--vocab"
                          : o->bf16_layers     ? "--bf16-layers"
                          : o->chat_template   ? "--chat-template"
                          : o->teacher_weights ? "--teacher-weights"
                                               : NULL;
    const char *of_tasks = t->beside.count    ? "--beside"
                           : t->require.count ? "--require"
                           : t->chat          ? "--chat"
                           : t->details       ? "--details"
                           : t->slots         ? "--slots"
                                              : NULL;
    if (t->files.count && of_text)
        return rt_fail(e, RT_USAGE, "%s has no effect with --tasks; leave one of them out", of_text);
    if (t->files.count && o->var_count && !t->chat)
        return rt_fail(e, RT_USAGE, "--template-var needs --chat when --tasks is given");
    if (!t->files.count && of_tasks) return rt_fail(e, RT_USAGE, "%s needs --tasks FILE", of_tasks);
    return RT_OK;
}

static int run(rt_job_evaluate_opts *o, const rt_words *words, const rt_words *data, const rt_words *vars,
               const rt_tasks_flags *tasks, bool json, rt_err *e)
{
    o->model = words->text[0];
    o->data = data->text;
    o->data_count = data->count;
    o->template_vars = vars->text;
    o->var_count = vars->count;
    const int rc = check_flags(o, tasks, e);
    if (rc < 0) return rc;
    return tasks->files.count ? rt_tasks_command(o, tasks, json, e) : evaluate(o, json, e);
}

int rt_cmd_eval(int argc, char **argv, rt_err *e)
{
    rt_job_evaluate_opts o = { 0 };
    rt_tasks_flags tasks = { 0 };
    rt_words words = { 0 }, data = { 0 }, vars = { 0 };
    bool json = false, help;
    const rt_flag flags[] = {
        { "--data", RT_FLAG_LIST, &data, "PATH", "text to measure on, as distill takes it; may be repeated" },
        { "--held-out-of", RT_FLAG_TEXT, &o.held_out_of, "RUN",
          "instead of --data: what that run held out, in its rows; the tokenizer must be the same" },
        RT_TASKS_FLAGS(tasks),
        { "--teacher", RT_FLAG_TEXT, &o.teacher, "MODEL", "also measure how close the model is to this one" },
        { "--teacher-weights", RT_FLAG_TEXT, &o.teacher_weights, "W",
          "native, bf16, fp8 or fp8-native as distill has them, or auto, which takes one of the first two (auto)" },
        { "--weights", RT_FLAG_TEXT, &o.weights, "W",
          "the model's own weights: native, bf16, fp8 or fp8-native; with itself as --teacher, what that changes "
          "(native)" },
        { "--bf16-layers", RT_FLAG_TEXT, &o.bf16_layers, "LIST",
          "with --weights fp8: layers that stay bf16, 0,3-5 or none (first and last)" },
        { "--word", RT_FLAG_TEXT, &o.word, "W", "also measure how probable this word is where the text has it" },
        { "--seq-len", RT_FLAG_COUNT, &o.seq_len, "N",
          "positions of a row (as in the run in whose folder the model is, else as the data needs, up to 2048)" },
        { "--batch", RT_FLAG_COUNT, &o.batch, "N", "rows at a time (8, or as many as there are)" },
        { "--rows", RT_FLAG_COUNT, &o.rows, "N", "rows at most (all)" },
        { "--columns", RT_FLAG_TEXT, &o.columns, "K=C,...", "columns of the data, as retort train takes them" },
        { "--loss-on", RT_FLAG_TEXT, &o.loss_on, "turns|all", "measure assistant turns, or everything" },
        { "--chat-template", RT_FLAG_TEXT, &o.chat_template, "T", "teacher, student or a file" },
        { "--template-var", RT_FLAG_LIST, &vars, "K=V", "a variable for the chat template" },
        { "--skip-bad", RT_FLAG_WHOLE, &o.skip_bad, "N", "records at fault that may be skipped" },
        { "--allow-drop", RT_FLAG_BOOL, &o.allow_drop, NULL, "allow more than 5 % of the records to be dropped" },
        { "--vocab", RT_FLAG_COUNT, &o.vocab, "N", "ids in use, where neither model has a tokenizer" },
        RT_WHERE_FLAGS(o),
        { "--json", RT_FLAG_BOOL, &json, NULL, "the same numbers as JSON" },
        { 0 },
    };
    const rt_flag aliases[] = { { "--model", RT_FLAG_LIST, &words, "MODEL", NULL },
                                { "--student", RT_FLAG_LIST, &words, "MODEL", NULL },
                                { 0 } };
    const rt_command c = {
        .name = "eval",
        .usage = "retort eval MODEL --data D|--held-out-of RUN|--tasks FILE [--teacher T] [flags]",
        .text = "Measures a model on text: cross-entropy and perplexity, and with a teacher the divergence from it\n"
                "(mean, percentiles) and how often both would choose the same token. +- is a standard error over\n"
                "documents. --word W is the mean probability of W, all of its tokens together, where W stands in the\n"
                "text as a word of its own. With --tasks: the share of questions answered correctly, by the\n"
                "log-probability of choices (acc, acc_norm) or by the generated answer (exact_match), as lm-eval\n"
                "counts them.",
        .example = "retort eval out --teacher Qwen/Qwen2.5-7B --data held-out.jsonl",
        .flags = flags,
        .aliases = aliases,
        .min_words = 1,
        .max_words = 1,
        .words = &words,
    };
    int rc = rt_args_parse(&c, argc, argv, &help, e);
    if (rc < 0 || help) return rc;
    return run(&o, &words, &data, &vars, &tasks, json, e);
}
