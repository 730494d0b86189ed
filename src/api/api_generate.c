/* api_generate.c - text from a model, token by token. The same steps as `retort generate`. */
#include "api/api_internal.h"

#include "infer/generator.h"
#include "text/data/model_text.h"

#include <jansson.h>
#include <string.h>

struct retort_generator {
    const rt_model_file *model;
    rt_text_source *text;
    rt_dev *dev;
    rt_generator *g;
    rt_stops stops;
};

static int open_all(retort_generator *g, const retort_model *m, const retort_generator_options *o, rt_err *e)
{
    int rc;
    const rt_model_file *f = g->model = m->file;
    RT_TRY(rt_model_file_check(f, e));
    RT_TRY(rt_text_from_model(&g->text, &f->text, &f->config, f->path, e));
    g->stops = rt_stops_of(&f->config, g->text->eos, g->text->end_of_turn);
    RT_TRY(rt_api_device_open(&g->dev, o->device, o->threads, &m->places, e));
    rt_generate_opts go = { .context = o->context,
                            .temperature = o->temperature,
                            .top_k = o->top_k,
                            .top_p = o->top_p == 0 ? 1 : o->top_p,
                            .repetition_penalty = o->repetition_penalty == 0 ? 1 : o->repetition_penalty,
                            .seed = o->seed };
    if (!(go.temperature >= 0)) RT_TRY(rt_fail(e, RT_USAGE, "temperature cannot be negative"));
    if (!(go.top_p > 0 && go.top_p <= 1)) RT_TRY(rt_fail(e, RT_USAGE, "top_p is above 0 and at most 1"));
    if (!(go.repetition_penalty > 0)) RT_TRY(rt_fail(e, RT_USAGE, "repetition_penalty is above 0"));
    RT_TRY(rt_generator_open(&g->g, g->dev, f, NULL, &go, e));
out:
    return rc;
}

int retort_generator_new(retort_generator **out, const retort_model *m, const retort_generator_options *given,
                         retort_error *error)
{
    int rc;
    rt_err e = { 0 };
    retort_generator_options o;
    retort_generator *g = rt_alloc_zero(sizeof *g, 16);
    if (!g) RT_TRY(rt_fail(&e, RT_NOMEM, "no memory for a generator"));
    if (!out || !m) RT_TRY(rt_fail(&e, RT_USAGE, "retort_generator_new: out and a model are needed"));
    RT_TRY(rt_api_take(&o, sizeof o, given, "retort_generator_options", &e));
    RT_TRY(open_all(g, m, &o, &e));
    *out = g;
    g = NULL;
out:
    retort_generator_free(g);
    return rt_api_end(rc, &e, error);
}

void retort_generator_free(retort_generator *g)
{
    if (!g) return;
    rt_generator_free(g->g);
    if (g->dev) g->dev->api->close(g->dev);
    rt_text_close(g->text);
    rt_free(g);
}

/* ---- the prompt ---- */

static int encode(const retort_generator *g, const char *text, size_t len, unsigned flags, rt_tok_ids *ids, rt_err *e)
{
    rt_tok_scratch *scratch = NULL;
    int rc = rt_tok_scratch_new(&scratch, g->text->tokenizer, e);
    if (rc >= 0) rc = rt_tokenizer_encode(g->text->tokenizer, scratch, text, len, flags, ids, e);
    rt_tok_scratch_free(scratch);
    return rc;
}

static bool add_message(json_t *list, const char *role, const char *text)
{
    return json_array_append_new(list, json_pack("{s:s, s:s}", "role", role, "content", text)) == 0;
}

static int chat_prompt(const retort_generator *g, const char *prompt, const retort_prompt_options *o, rt_tok_ids *ids,
                       rt_err *e)
{
    int rc;
    rt_jinja_result r = { 0 };
    json_t *list = json_array();
    rt_chat_options c = { .add_generation_prompt = true, .special = g->text->special, .now = o->now };
    if (!list || (o->system && !add_message(list, "system", o->system)) || !add_message(list, "user", prompt))
        RT_TRY(rt_fail(e, RT_INVALID, "the prompt is not UTF-8, or memory is out"));
    RT_TRY(rt_chat_render(g->text->chat, list, &c, &r, e));
    RT_TRY(encode(g, r.text.data ? r.text.data : "", r.text.len, 0, ids, e));
out:
    rt_jinja_result_free(&r);
    json_decref(list);
    return rc;
}

static int make_prompt(const retort_generator *g, const char *prompt, const retort_prompt_options *o, rt_tok_ids *ids,
                       rt_err *e)
{
    bool chat = !o->raw && g->text->chat;
    if (!prompt || !prompt[0]) return rt_fail(e, RT_INVALID, "the prompt is empty");
    if (o->system && !chat)
        return rt_fail(e, RT_INVALID, "a system message needs a chat template, and %s",
                       o->raw ? "raw leaves it out" : "the model has none");
    return chat ? chat_prompt(g, prompt, o, ids, e) : encode(g, prompt, strlen(prompt), RT_ENCODE_SPECIAL, ids, e);
}

/* ---- the answer ---- */

typedef struct answer {
    const retort_generator *g;
    retort_prompt_options o;
    rt_tok_stream *stream;
    rt_str text;
    bool stopped;
} answer;

/* A piece of text to the caller; its answer. */
static int hand_over(answer *a, uint32_t id, const rt_str *part)
{
    const char *text = part->data ? part->data : "";
    rt_str_append_n(&a->text, text, part->len);
    return a->o.token && a->o.token(a->o.ctx, id, text, part->len) ? 1 : 0;
}

static int on_token(void *ctx, uint32_t id, rt_err *e)
{
    answer *a = ctx;
    rt_str part = { 0 };
    int rc;
    if (rt_stops_has(&a->g->stops, id)) return a->stopped = true, 1;
    RT_TRY(rt_tok_stream_push(a->stream, id, &part, e));
    rc = hand_over(a, id, &part);
out:
    rt_str_free(&part);
    return rc;
}

/* What is left of a letter that never came to its end. */
static int finish(answer *a, rt_err *e)
{
    rt_str rest = { 0 };
    int rc = rt_tok_stream_end(a->stream, &rest, e);
    if (rc >= 0 && rest.len) hand_over(a, UINT32_MAX, &rest);
    rt_str_free(&rest);
    return rc;
}

int retort_generate(retort_generator *g, const char *prompt, const retort_prompt_options *o, char **text,
                    retort_generated *out, retort_error *error)
{
    int rc;
    rt_err e = { 0 };
    rt_tok_ids ids = { 0 };
    rt_generate_stats stats;
    retort_generated facts;
    answer a = { .g = g };
    if (!g) RT_TRY(rt_fail(&e, RT_USAGE, "retort_generate: a generator is needed"));
    if (out) RT_TRY(rt_api_check(out, "retort_generated", &e));
    RT_TRY(rt_api_take(&a.o, sizeof a.o, o, "retort_prompt_options", &e));
    RT_TRY(make_prompt(g, prompt, &a.o, &ids, &e));
    RT_TRY(rt_tok_stream_new(&a.stream, g->text->tokenizer, RT_DECODE_SKIP_SPECIAL, &e));
    RT_TRY(rt_generator_run(g->g, ids.ids, ids.count, a.o.max_new ? a.o.max_new : 256, on_token, &a, &stats, &e));
    RT_TRY(finish(&a, &e));
    facts = (retort_generated){ .prompt_tokens = stats.prompt,
                                .tokens = stats.made,
                                .stopped = a.stopped,
                                .prompt_seconds = stats.prompt_seconds,
                                .seconds = stats.made_seconds };
    if (text) RT_TRY(rt_api_give(&a.text, text, &e));
    if (out) RT_TRY(rt_api_fill(out, &facts, sizeof facts, "retort_generated", &e));
out:
    rt_free(ids.ids);
    rt_tok_stream_free(a.stream);
    rt_str_free(&a.text);
    return rt_api_end(rc, &e, error);
}
