/* cmd_generate.c - `retort generate`: text from a model, streamed as it is made. */
#include "cli/cli.h"
#include "cli/device_arg.h"
#include "cli/model_arg.h"
#include "cli/progress.h"

#include "infer/generator.h"
#include "text/data/model_text.h"

#include <jansson.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

typedef struct options {
    const char *prompt, *system, *device;
    double temperature, top_p, penalty;
    uint64_t top_k, seed;
    uint32_t max_new, context, threads;
    bool raw, ids, json, quiet;
} options;

typedef struct state {
    const options *o;
    rt_model_file *model;
    rt_text_source *text;
    rt_tok_stream *stream;
    rt_str made; /* with --json */
    rt_tok_ids ids;
    rt_stops stops;
    bool stopped;
} state;

/* ---- the prompt ---- */

static int read_input(rt_str *out, rt_err *e)
{
    char buf[65536];
    size_t n;
    while ((n = fread(buf, 1, sizeof buf, stdin)) > 0) rt_str_append_n(out, buf, n);
    if (ferror(stdin)) return rt_fail(e, RT_IO, "standard input could not be read");
    return out->failed ? rt_fail(e, RT_NOMEM, "no memory for the prompt") : RT_OK;
}

static json_t *messages(const options *o, const rt_str *prompt)
{
    json_t *list = json_array();
    if (o->system) json_array_append_new(list, json_pack("{s:s, s:s}", "role", "system", "content", o->system));
    json_array_append_new(list, json_pack("{s:s, s:s%}", "role", "user", "content", prompt->data, prompt->len));
    return list;
}

static int encode(const state *s, const char *text, size_t len, unsigned flags, rt_tok_ids *ids, rt_err *e)
{
    rt_tok_scratch *scratch = NULL;
    int rc = rt_tok_scratch_new(&scratch, s->text->tokenizer, e);
    if (rc >= 0) rc = rt_tokenizer_encode(s->text->tokenizer, scratch, text, len, flags, ids, e);
    rt_tok_scratch_free(scratch);
    return rc;
}

static int chat_prompt(const state *s, const rt_str *prompt, rt_tok_ids *ids, rt_err *e)
{
    int rc;
    rt_jinja_result r = { 0 };
    json_t *list = messages(s->o, prompt);
    rt_chat_options c = { .add_generation_prompt = true, .special = s->text->special, .now = (int64_t)time(NULL) };
    if (json_array_size(list) != (size_t)(s->o->system ? 2 : 1))
        RT_TRY(rt_fail(e, RT_INVALID, "the prompt is not UTF-8, or memory is out"));
    RT_TRY(rt_chat_render(s->text->chat, list, &c, &r, e));
    RT_TRY(encode(s, r.text.data ? r.text.data : "", r.text.len, 0, ids, e));
out:
    rt_jinja_result_free(&r);
    json_decref(list);
    return rc;
}

static int make_prompt(const state *s, rt_tok_ids *ids, rt_err *e)
{
    int rc;
    rt_str prompt = { 0 };
    if (s->o->prompt && strcmp(s->o->prompt, "-") != 0)
        rt_str_append(&prompt, s->o->prompt);
    else
        RT_TRY(read_input(&prompt, e));
    if (prompt.failed) RT_TRY(rt_fail(e, RT_NOMEM, "no memory for the prompt"));
    if (prompt.len == 0)
        RT_TRY(rt_fail(e, RT_INVALID, "the prompt is empty; give --prompt TEXT, or text on standard input"));
    bool chat = !s->o->raw && s->text->chat;
    if (s->o->system && !chat)
        RT_TRY(rt_fail(e, RT_INVALID, "--system needs a chat template, and %s",
                       s->o->raw ? "--raw leaves it out" : "the model has none"));
    if (chat)
        RT_TRY(chat_prompt(s, &prompt, ids, e));
    else
        RT_TRY(encode(s, prompt.data, prompt.len, RT_ENCODE_SPECIAL, ids, e));
out:
    rt_str_free(&prompt);
    return rc;
}

/* ---- the answer ---- */

static int on_token(void *ctx, uint32_t id, rt_err *e)
{
    state *s = ctx;
    rt_str part = { 0 };
    int rc;
    if (rt_stops_has(&s->stops, id)) return s->stopped = true, 1;
    if (rt_interrupt_wanted()) return 1;
    if (s->o->ids) {
        printf("%s%u", s->ids.count++ ? " " : "", id);
        fflush(stdout);
        return RT_OK;
    }
    s->ids.count++;
    rt_token_info info;
    if (!rt_tokenizer_token(s->text->tokenizer, id, &info)) return RT_OK; /* padding of the embedding says nothing */
    RT_TRY(rt_tok_stream_push(s->stream, id, &part, e));
    if (s->o->json)
        rt_str_append_n(&s->made, part.data ? part.data : "", part.len);
    else {
        fwrite(part.data ? part.data : "", 1, part.len, stdout);
        fflush(stdout);
    }
out:
    rt_str_free(&part);
    return rc;
}

static int finish(state *s, const rt_generate_stats *t, rt_err *e)
{
    int rc;
    rt_str rest = { 0 };
    double speed = t->made_seconds > 0 ? t->made / t->made_seconds : 0;
    RT_TRY(rt_tok_stream_end(s->stream, &rest, e));
    if (s->o->json) {
        rt_str_append_n(&s->made, rest.data ? rest.data : "", rest.len);
        RT_TRY(rt_print_json(json_pack("{s:s%, s:i, s:i, s:b, s:f, s:f, s:f}", "text", s->made.data ? s->made.data : "",
                                       s->made.len, "prompt_tokens", (int)t->prompt, "tokens", (int)t->made, "stopped",
                                       (int)s->stopped, "prompt_seconds", t->prompt_seconds, "seconds", t->made_seconds,
                                       "tokens_per_second", speed),
                             e));
    } else {
        fwrite(rest.data ? rest.data : "", 1, rest.len, stdout);
        printf("\n");
        if (!s->o->quiet)
            fprintf(stderr, "%u tokens at %.1f a second%s; prompt of %u in %.2f s\n", t->made, speed,
                    s->stopped ? "" : ", not ended by the model", t->prompt, t->prompt_seconds);
    }
out:
    rt_str_free(&rest);
    return rc;
}

static int generate(const options *o, const char *spec, rt_err *e)
{
    int rc;
    state s = { .o = o };
    rt_hub_env env = rt_hub_env_get();
    rt_dev *dev = NULL;
    rt_generator *g = NULL;
    rt_tok_ids prompt = { 0 };
    rt_generate_stats stats;
    char count[RT_DEV_COUNT_TEXT];
    RT_TRY(rt_model_file_open(&s.model, spec, &env, e));
    RT_TRY(rt_model_file_check(s.model, e));
    RT_TRY(rt_text_from_model(&s.text, &s.model->text, &s.model->config, s.model->path, e));
    s.stops = rt_stops_of(&s.model->config, s.text->eos, s.text->end_of_turn);
    RT_TRY(make_prompt(&s, &prompt, e));
    RT_TRY(rt_tok_stream_new(&s.stream, s.text->tokenizer, RT_DECODE_SKIP_SPECIAL, e));
    RT_TRY(
        rt_device_arg_open(&dev, o->device, &RT_DEV_OPTIONS({ "threads", rt_dev_count(count, o->threads) }), false, e));
    uint32_t need = prompt.count + o->max_new, most = s.model->config.context;
    rt_generate_opts go = { .context = o->context    ? o->context
                                       : need < most ? need
                                                     : most,
                            .temperature = o->temperature,
                            .top_k = (uint32_t)o->top_k,
                            .top_p = o->top_p,
                            .repetition_penalty = o->penalty,
                            .seed = o->seed };
    RT_TRY(rt_generator_open(&g, dev, s.model, NULL, &go, e));
    rt_interrupt_catch();
    RT_TRY(rt_generator_run(g, prompt.ids, prompt.count, o->max_new, on_token, &s, &stats, e));
    RT_TRY(finish(&s, &stats, e));
out:
    rt_free(prompt.ids);
    rt_generator_free(g);
    if (dev) dev->api->close(dev);
    rt_tok_stream_free(s.stream);
    rt_str_free(&s.made);
    rt_text_close(s.text);
    rt_model_file_close(s.model);
    return rc;
}

static int check(const options *o, rt_err *e)
{
    if (o->temperature < 0) return rt_fail(e, RT_USAGE, "retort generate: --temperature cannot be negative");
    if (!(o->top_p > 0 && o->top_p <= 1))
        return rt_fail(e, RT_USAGE, "retort generate: --top-p is above 0 and at most 1");
    if (!(o->penalty > 0)) return rt_fail(e, RT_USAGE, "retort generate: --repetition-penalty is above 0");
    if (o->ids && o->json) return rt_fail(e, RT_USAGE, "retort generate: --ids and --json exclude one another");
    return RT_OK;
}

int rt_cmd_generate(int argc, char **argv, rt_err *e)
{
    options o = { .top_p = 1, .penalty = 1, .max_new = 256 };
    bool help;
    rt_words words = { 0 };
    const rt_flag flags[] = {
        { "--prompt", RT_FLAG_TEXT, &o.prompt, "TEXT", "what to go on from; without it, or with -, standard input" },
        { "--system", RT_FLAG_TEXT, &o.system, "TEXT", "a system message before it" },
        { "--raw", RT_FLAG_BOOL, &o.raw, NULL, "continue the text; no chat template" },
        { "--max-new", RT_FLAG_COUNT, &o.max_new, "N", "tokens at most (256)" },
        { "--temperature", RT_FLAG_REAL, &o.temperature, "T", "0 (default) takes the most likely token always" },
        { "--top-k", RT_FLAG_WHOLE, &o.top_k, "K", "choose among the K most likely; 0: all" },
        { "--top-p", RT_FLAG_REAL, &o.top_p, "P", "choose among the most likely that make up P; 1: all" },
        { "--repetition-penalty", RT_FLAG_REAL, &o.penalty, "R", "above 1 makes seen tokens less likely" },
        { "--seed", RT_FLAG_WHOLE, &o.seed, "N", "of the choices" },
        { "--context", RT_FLAG_COUNT, &o.context, "N", "longest prompt and answer together" },
        { "--ids", RT_FLAG_BOOL, &o.ids, NULL, "print ids instead of text" },
        { "--json", RT_FLAG_BOOL, &o.json, NULL, "text, counts and speed as JSON, at the end" },
        { "--quiet", RT_FLAG_BOOL, &o.quiet, NULL, "no line about speed" },
        { "--device", RT_FLAG_TEXT, &o.device, "D", "where to run (auto)" },
        { "--threads", RT_FLAG_COUNT, &o.threads, "N", "of the processor" },
        { 0 },
    };
    const rt_command c = {
        .name = "generate",
        .usage = "retort generate MODEL [--prompt TEXT] [flags]",
        .text = "Writes what the model says, as it says it. A model with a chat template is asked as in a chat;\n"
                "--raw continues the text itself. Ends at the model's end of turn, or after --max-new tokens.",
        .example = "retort generate out --prompt 'Why is the sky blue?' --temperature 0.7 --top-p 0.9",
        .flags = flags,
        .min_words = 1,
        .max_words = 1,
        .words = &words
    };
    int rc = rt_args_parse(&c, argc, argv, &help, e);
    if (rc < 0 || help) return rc;
    rc = check(&o, e);
    return rc < 0 ? rc : generate(&o, words.text[0], e);
}
