/* cmd_generate.c - `retort generate`: text from a model, streamed as it is made. */
#include "cli/cli.h"

#include <stdio.h>
#include <string.h>

typedef struct options {
    const char *prompt, *system, *data, *out, *activations;
    rt_where where;
    rt_sampled sampled;
    uint32_t max_new, context, samples, slots, n;
    bool raw, ids, json, quiet, best_of, logprobs;
    bool int8; /* --activations int8 */
} options;

typedef struct state {
    const options *o;
    rt_str made; /* with --json */
    uint32_t count;
} state;

static int on_token(void *ctx, uint32_t id, const char *text, size_t len)
{
    state *s = ctx;
    bool last = id == UINT32_MAX;
    if (!last && rt_interrupt_wanted(NULL)) return 1;
    if (s->o->json) {
        rt_str_append_n(&s->made, text, len);
        return 0;
    }
    if (s->o->ids && !last)
        printf("%s%u", s->count++ ? " " : "", id);
    else if (!s->o->ids)
        fwrite(text, 1, len, stdout);
    fflush(stdout);
    return 0;
}

static int print_end(const state *s, const rt_job_generated *g, rt_err *e)
{
    const rt_generate_stats *t = &g->stats;
    double speed = t->made_seconds > 0 ? t->made / t->made_seconds : 0;
    if (s->o->json)
        return rt_print_json(json_pack("{s:s%, s:i, s:i, s:b, s:f, s:f, s:f, s:s}", "text",
                                       s->made.data ? s->made.data : "", s->made.len, "prompt_tokens", (int)t->prompt,
                                       "tokens", (int)t->made, "stopped", (int)g->stopped, "prompt_seconds",
                                       t->prompt_seconds, "seconds", t->made_seconds, "tokens_per_second", speed,
                                       "activations", t->int8 ? "int8" : "exact"),
                             e);
    printf("\n");
    if (!s->o->quiet) rt_put_int8(t->int8, t->gemms);
    if (!s->o->quiet)
        rt_put_to(stderr, "%u tokens at %.1f a second%s; prompt of %u in %.2f s\n", t->made, speed,
                  g->stopped ? "" : ", not ended by the model", t->prompt, t->prompt_seconds);
    return RT_OK;
}

static int make_prompt(const rt_job_generator *g, const options *o, int64_t now, rt_tok_ids *ids, rt_err *e)
{
    int rc = RT_OK;
    rt_str text = { 0 };
    rt_job_prompt p = { .text = o->prompt, .system = o->system, .raw = o->raw, .now = now };
    if (!o->prompt || strcmp(o->prompt, "-") == 0) {
        RT_TRY(rt_read_input(&text, e));
        p.text = text.data;
        p.len = text.len;
    } else {
        p.len = strlen(o->prompt);
    }
    if (!p.len) RT_TRY(rt_fail(e, RT_INVALID, "the prompt is empty; give --prompt TEXT, or text on standard input"));
    RT_TRY(rt_job_generator_prompt(g, &p, ids, e));
out:
    rt_str_free(&text);
    return rc;
}

int rt_take_activations(const char *text, bool *int8, rt_err *e)
{
    *int8 = text && strcmp(text, "int8") == 0;
    if (!text || *int8 || strcmp(text, "exact") == 0) return RT_OK;
    return rt_fail(e, RT_USAGE, "--activations takes exact or int8, not '%s'", text);
}

void rt_put_int8(uint32_t int8, uint32_t gemms)
{
    if (int8) rt_put_to(stderr, "int8 activations in %u of %u GEMMs of a token\n", int8, gemms);
}

rt_sampling rt_sampling_of(const rt_sampled *s)
{
    return (rt_sampling){ .temperature = s->temperature,
                          .top_k = (uint32_t)s->top_k,
                          .top_p = s->top_p,
                          .min_p = s->min_p,
                          .repetition_penalty = s->penalty,
                          .seed = s->seed };
}

static int print_answered(const options *o, const rt_job_answered *a, rt_err *e)
{
    double speed = a->seconds > 0 ? (double)a->answer_tokens / a->seconds : 0;
    if (o->json)
        return rt_print_json(json_pack("{s:s, s:I, s:I, s:I, s:I, s:I, s:I, s:f, s:f, s:s}", "out", o->out, "prompts",
                                       (json_int_t)a->prompts, "found", (json_int_t)a->found, "answers",
                                       (json_int_t)a->answers, "stopped", (json_int_t)a->stopped, "prompt_tokens",
                                       (json_int_t)a->prompt_tokens, "tokens", (json_int_t)a->answer_tokens, "seconds",
                                       a->seconds, "tokens_per_second", speed, "activations",
                                       o->int8 ? "int8" : "exact"),
                             e);
    if (o->quiet) return RT_OK;
    rt_put_int8(a->int8, a->gemms);
    if (a->found)
        rt_put_to(stderr, "%llu of %llu prompts were answered already\n", (unsigned long long)a->found,
                  (unsigned long long)a->prompts);
    uint64_t kept = o->best_of && o->samples ? a->answers / o->samples : a->answers;
    if (kept < a->answers) rt_put_to(stderr, "%llu answers made, ", (unsigned long long)a->answers);
    rt_put_to(stderr, "%llu answer%s %s %s, %llu ended by the model; %llu tokens at %.1f a second\n",
              (unsigned long long)kept, kept == 1 ? "" : "s", kept < a->answers ? "kept in" : "in", o->out,
              (unsigned long long)a->stopped, (unsigned long long)a->answer_tokens, speed);
    return RT_OK;
}

/* --data and --out */
static int answer_file(const options *o, const char *spec, rt_err *e)
{
    int rc;
    rt_placed_model m = { 0 };
    rt_job_answered made;
    const rt_job_answers_opts ao = { .data = o->data,
                                     .out = o->out,
                                     .samples = o->samples,
                                     .best_of = o->best_of,
                                     .logps = o->logprobs,
                                     .max_new = o->max_new,
                                     .slots = o->slots,
                                     .context = o->context,
                                     .sampling = rt_sampling_of(&o->sampled),
                                     .int8 = o->int8,
                                     .where = &m.where,
                                     .env = &m.env,
                                     .progress = rt_live_progress };
    if (!o->out) RT_TRY(rt_fail(e, RT_USAGE, "--data needs --out, the file for the answers"));
    if (o->prompt || o->system || o->raw || o->ids)
        RT_TRY(rt_fail(e, RT_USAGE, "--data excludes --prompt, --system, --raw and --ids"));
    RT_TRY(rt_placed_model_open(&m, spec, &o->where, e));
    rt_interrupt_catch();
    if (!o->quiet) rt_live_begin(stderr);
    rc = rt_job_answers(m.file, &ao, &made, e);
    rt_live_end();
    RT_TRY(rc);
    RT_TRY(print_answered(o, &made, e));
out:
    rt_model_file_close(m.file);
    return rc;
}

static int check_file_flags(const options *o, rt_err *e)
{
    const char *flag = o->out        ? "--out"
                       : o->samples  ? "--samples"
                       : o->slots    ? "--slots"
                       : o->best_of  ? "--best-of"
                       : o->logprobs ? "--logprobs"
                                     : NULL;
    if (!o->data && flag) return rt_fail(e, RT_USAGE, "%s needs --data, a file of prompts", flag);
    return RT_OK;
}

static int generate(const options *o, const char *spec, rt_err *e)
{
    int rc;
    state s = { .o = o };
    rt_placed_model m = { 0 };
    rt_job_generator *g = NULL;
    rt_tok_ids prompt = { 0 };
    rt_job_generated made;
    const rt_watch watch = { rt_live_progress, NULL };
    const rt_generate_opts go = {
        .context = o->context, .sampling = rt_sampling_of(&o->sampled), .watch = &watch, .int8 = o->int8
    };
    RT_TRY(check_file_flags(o, e));
    if (o->ids && o->json) RT_TRY(rt_fail(e, RT_USAGE, "retort generate: --ids and --json exclude one another"));
    RT_TRY(rt_placed_model_open(&m, spec, &o->where, e));
    RT_TRY(rt_job_generator_new(&g, m.file, &go, e));
    RT_TRY(make_prompt(g, o, m.env.now, &prompt, e));
    if (!o->quiet) rt_live_begin(stderr);
    rc = rt_job_generator_seal(g, (uint64_t)prompt.count + o->max_new, &m.where, m.env.environment, e);
    rt_live_end();
    RT_TRY(rc);
    rt_interrupt_catch();
    RT_TRY(rt_job_generator_run(g, &prompt, o->max_new, on_token, &s, &made, e));
    RT_TRY(print_end(&s, &made, e));
out:
    rt_free(prompt.ids);
    rt_str_free(&s.made);
    rt_job_generator_free(g);
    rt_model_file_close(m.file);
    return rc;
}

/* -n counts answers where there are several to a prompt, as servers have it, else tokens, as llama.cpp has it. */
static int take_n(options *o, rt_err *e)
{
    uint32_t *count = o->data ? &o->samples : &o->max_new;
    if (o->n && *count)
        return rt_fail(e, RT_USAGE, "-n means %s here, which is given as well; leave one of them out",
                       o->data ? "--samples" : "--max-new");
    if (o->n) *count = o->n;
    if (!o->max_new) o->max_new = 256;
    return RT_OK;
}

static int run(options *o, const char *model, rt_err *e)
{
    int rc = take_n(o, e);
    if (rc >= 0) rc = rt_take_activations(o->activations, &o->int8, e);
    if (rc < 0) return rc;
    return o->data ? answer_file(o, model, e) : generate(o, model, e);
}

int rt_cmd_generate(int argc, char **argv, rt_err *e)
{
    options o = { .sampled = RT_SAMPLED_DEFAULT };
    bool help;
    rt_words words = { 0 };
    const rt_flag flags[] = {
        { "--prompt", RT_FLAG_TEXT, &o.prompt, "TEXT",
          "text to answer or continue; without it, or with -, standard input" },
        { "--system", RT_FLAG_TEXT, &o.system, "TEXT", "a system message before it" },
        { "--raw", RT_FLAG_BOOL, &o.raw, NULL, "continue the text; no chat template" },
        { "--max-new", RT_FLAG_COUNT, &o.max_new, "N", "tokens at most (256)" },
        RT_SAMPLED_FLAGS(o.sampled),
        { "--context", RT_FLAG_COUNT, &o.context, "N", "longest prompt and answer together" },
        { "--data", RT_FLAG_TEXT, &o.data, "FILE", "file of prompts: records as for training, or lines of text" },
        { "--out", RT_FLAG_TEXT, &o.out, "FILE",
          "file for the answers to --data, as training data; an unfinished one is continued" },
        { "--samples", RT_FLAG_COUNT, &o.samples, "N", "answers per prompt of --data (1)" },
        { "--best-of", RT_FLAG_BOOL, &o.best_of, NULL,
          "keep only the best of --samples, by log-probability per token" },
        { "--logprobs", RT_FLAG_BOOL, &o.logprobs, NULL, "write the log-probability of every token to --out" },
        { "--slots", RT_FLAG_COUNT, &o.slots, "N", "answers to --data computed at once (8)" },
        { "--ids", RT_FLAG_BOOL, &o.ids, NULL, "print ids instead of text" },
        { "--json", RT_FLAG_BOOL, &o.json, NULL, "text, counts and speed as JSON, at the end" },
        { "--quiet", RT_FLAG_BOOL, &o.quiet, NULL, "no line about progress or speed" },
        RT_WHERE_FLAGS(o.where),
        RT_ACTIVATIONS_FLAG(o.activations),
        { 0 },
    };
    const rt_flag aliases[] = { { "--max-new-tokens", RT_FLAG_COUNT, &o.max_new, "N", NULL },
                                { "--max-tokens", RT_FLAG_COUNT, &o.max_new, "N", NULL },
                                { "--n-predict", RT_FLAG_COUNT, &o.max_new, "N", NULL },
                                { "-n", RT_FLAG_COUNT, &o.n, "N", NULL },
                                { "-p", RT_FLAG_TEXT, &o.prompt, "TEXT", NULL },
                                { "--temp", RT_FLAG_REAL, &o.sampled.temperature, "T", NULL },
                                { "--model", RT_FLAG_LIST, &words, "MODEL", NULL },
                                { "-m", RT_FLAG_LIST, &words, "MODEL", NULL },
                                { 0 } };
    const rt_command c = {
        .name = "generate",
        .usage = "retort generate MODEL [--prompt TEXT] [flags]",
        .text =
            "Streams text from a model. With a chat template the prompt is a user message; --raw continues the text\n"
            "itself. Ends at the model's end of turn, or after --max-new tokens. With --data and --out it answers a\n"
            "file of prompts, many at once, and writes training data.",
        .example = "retort generate out --prompt 'Why is the sky blue?' --temperature 0.7 --top-p 0.9",
        .flags = flags,
        .aliases = aliases,
        .min_words = 1,
        .max_words = 1,
        .words = &words
    };
    int rc = rt_args_parse(&c, argc, argv, &help, e);
    return rc < 0 || help ? rc : run(&o, words.text[0], e);
}
