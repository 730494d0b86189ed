/* api_generate.c - text from a model, token by token. */
#include "api/api_internal.h"

#include <string.h>

struct retort_generator {
    rt_job_generator *g;
};

int retort_generator_new(retort_generator **out, const retort_model *m, const retort_generator_options *given,
                         retort_error *error)
{
    int rc;
    rt_err e = { 0 };
    rt_settings s = { 0 };
    retort_generator_options o;
    retort_generator *g = rt_alloc_zero(sizeof *g, 16);
    if (!g) RT_TRY(rt_no_memory(&e, "a generator"));
    if (!out || !m) RT_TRY(rt_fail(&e, RT_USAGE, "retort_generator_new: out and a model are needed"));
    RT_TRY(rt_api_take(&o, sizeof o, given, "retort_generator_options", &e));
    const rt_generate_opts go = { .context = o.context,
                                  .sampling = { .temperature = o.temperature,
                                                .top_k = o.top_k,
                                                .top_p = o.top_p == 0 ? 1 : o.top_p,
                                                .min_p = o.min_p,
                                                .repetition_penalty =
                                                    o.repetition_penalty == 0 ? 1 : o.repetition_penalty,
                                                .seed = o.seed } };
    RT_TRY(rt_job_generator_new(&g->g, m->file, &go, &e));
    s.threads = o.threads;
    if (o.device) RT_TRY(rt_settings_set(&s, RT_SETTING_ID_device, o.device, &e));
    RT_TRY(rt_job_generator_seal(g->g, 0, &s, m->env.environment, &e));
    *out = g;
    g = NULL;
out:
    retort_generator_free(g);
    return rt_api_end(rc, &e, error);
}

void retort_generator_free(retort_generator *g)
{
    if (g) rt_job_generator_free(g->g);
    rt_free(g);
}

typedef struct answer {
    retort_prompt_options o;
    rt_str text;
} answer;

static int on_token(void *ctx, uint32_t id, const char *text, size_t len)
{
    answer *a = ctx;
    rt_str_append_n(&a->text, text, len);
    return a->o.token ? a->o.token(a->o.ctx, id, text, len) : 0;
}

int retort_generate(retort_generator *g, const char *prompt, const retort_prompt_options *o, char **text,
                    retort_generated *out, retort_error *error)
{
    int rc;
    rt_err e = { 0 };
    rt_tok_ids ids = { 0 };
    rt_job_generated made;
    retort_generated facts;
    answer a = { 0 };
    if (!g) RT_TRY(rt_fail(&e, RT_USAGE, "retort_generate: a generator is needed"));
    if (out) RT_TRY(rt_api_check(out, "retort_generated", &e));
    RT_TRY(rt_api_take(&a.o, sizeof a.o, o, "retort_prompt_options", &e));
    const rt_job_prompt p = {
        .text = prompt, .len = prompt ? strlen(prompt) : 0, .system = a.o.system, .raw = a.o.raw != 0, .now = a.o.now
    };
    RT_TRY(rt_job_generator_prompt(g->g, &p, &ids, &e));
    RT_TRY(rt_job_generator_run(g->g, &ids, a.o.max_new ? a.o.max_new : 256, on_token, &a, &made, &e));
    facts = (retort_generated){ .prompt_tokens = made.stats.prompt,
                                .tokens = made.stats.made,
                                .stopped = made.stopped,
                                .prompt_seconds = made.stats.prompt_seconds,
                                .seconds = made.stats.made_seconds };
    if (text) RT_TRY(rt_api_give(&a.text, text, &e));
    if (out) RT_TRY(rt_api_fill(out, &facts, sizeof facts, "retort_generated", &e));
out:
    rt_free(ids.ids);
    rt_str_free(&a.text);
    return rt_api_end(rc, &e, error);
}
