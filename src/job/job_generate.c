/* job_generate.c - text from a model, token by token. See job.h. */
#include "job/job_internal.h"

#include "base/json.h"
#include "text/data/data_prompt.h"
#include "text/data/model_text.h"

#include <string.h>

struct rt_job_generator {
    const rt_model_file *model;
    rt_generate_opts opts;
    rt_text_source *text;
    rt_stops stops;
    rt_dev *dev; /* null until it is sealed */
    rt_generator *g;
};

int rt_job_generator_new(rt_job_generator **out, const rt_model_file *m, const rt_generate_opts *o, rt_err *e)
{
    int rc;
    rt_job_generator *g = NULL;
    rt_json_init();
    RT_TRY(rt_sampling_check(&o->sampling, e));
    RT_TRY(rt_model_file_check(m, e));
    if (!(g = rt_alloc_zero(sizeof *g, 16))) RT_TRY(rt_no_memory(e, "a generator"));
    g->model = m;
    g->opts = *o;
    RT_TRY(rt_text_from_model(&g->text, &m->text, &m->config, m->path, e));
    g->stops = rt_stops_of(&m->config, g->text->eos, g->text->end_of_turn);
    *out = g;
    g = NULL;
out:
    rt_job_generator_free(g);
    return rc;
}

void rt_job_generator_free(rt_job_generator *g)
{
    if (!g) return;
    rt_generator_free(g->g);
    rt_job_device_close(g->dev);
    rt_text_close(g->text);
    rt_free(g);
}

int rt_job_generator_seal(rt_job_generator *g, uint64_t need, const rt_settings *s, const char *const *env, rt_err *e)
{
    int rc;
    rt_generate_opts o = g->opts;
    uint32_t most = g->model->config.context;
    if (!o.context && need) o.context = need < most ? (uint32_t)need : most;
    RT_TRY(rt_job_device_open(&g->dev, s, NULL, env, NULL, e));
    RT_TRY(rt_generator_open(&g->g, g->dev, g->model, NULL, &o, e));
out:
    return rc;
}

/* ---- the prompt ---- */

static bool add_message(json_t *list, const char *role, const char *text, size_t len)
{
    return json_array_append_new(list, json_pack("{s:s, s:s%}", "role", role, "content", text, len)) == 0;
}

static int chat_prompt(const rt_job_generator *g, const rt_job_prompt *p, rt_tok_ids *ids, rt_err *e)
{
    int rc;
    json_t *list = json_array();
    const rt_data_text t = {
        .tok = g->text->tokenizer, .tmpl = g->text->chat, .special = g->text->special, .now = p->now
    };
    if (!list || (p->system && !add_message(list, "system", p->system, strlen(p->system))) ||
        !add_message(list, "user", p->text, p->len))
        RT_TRY(rt_fail(e, RT_INVALID, "the prompt is not UTF-8, or memory is out"));
    RT_TRY(rt_prompt_from_chat(&t, list, NULL, NULL, ids, e));
out:
    json_decref(list);
    return rc;
}

int rt_job_generator_prompt(const rt_job_generator *g, const rt_job_prompt *p, rt_tok_ids *ids, rt_err *e)
{
    bool chat = !p->raw && g->text->chat;
    if (!p->len) return rt_fail(e, RT_INVALID, "the prompt is empty");
    if (p->system && !chat)
        return rt_fail(e, RT_INVALID, "a system message needs a chat template, and %s",
                       p->raw ? "--raw leaves it out" : "the model has none");
    return chat ? chat_prompt(g, p, ids, e)
                : rt_job_tokenizer_encode(g->text->tokenizer, p->text, p->len, RT_ENCODE_SPECIAL, ids, e);
}

/* ---- the answer ---- */

typedef struct answer {
    const rt_job_generator *g;
    rt_job_token_fn fn;
    void *ctx;
    rt_tok_stream *stream;
    bool stopped;
} answer;

static int on_token(void *ctx, uint32_t id, rt_err *e)
{
    answer *a = ctx;
    rt_str part = { 0 };
    rt_token_info info;
    int rc = RT_OK;
    if (rt_stops_has(&a->g->stops, id)) return a->stopped = true, 1;
    /* A row of the embedding that no token has is counted, and says nothing. */
    if (rt_tokenizer_token(a->g->text->tokenizer, id, &info)) RT_TRY(rt_tok_stream_push(a->stream, id, &part, e));
    rc = a->fn(a->ctx, id, part.data ? part.data : "", part.len) ? 1 : 0;
out:
    rt_str_free(&part);
    return rc;
}

/* What is left of a letter that never came to its end. */
static int finish(answer *a, rt_err *e)
{
    rt_str rest = { 0 };
    int rc = rt_tok_stream_end(a->stream, &rest, e);
    if (rc >= 0 && rest.len) a->fn(a->ctx, UINT32_MAX, rest.data, rest.len);
    rt_str_free(&rest);
    return rc;
}

int rt_job_generator_run(rt_job_generator *g, const rt_tok_ids *prompt, uint32_t max_new, rt_job_token_fn fn, void *ctx,
                         rt_job_generated *out, rt_err *e)
{
    int rc;
    answer a = { .g = g, .fn = fn, .ctx = ctx };
    RT_TRY(rt_tok_stream_new(&a.stream, g->text->tokenizer, RT_DECODE_SKIP_SPECIAL, e));
    RT_TRY(rt_generator_run(g->g, prompt->ids, prompt->count, max_new, on_token, &a, &out->stats, e));
    RT_TRY(finish(&a, e));
    out->stopped = a.stopped;
out:
    rt_tok_stream_free(a.stream);
    return rc;
}
