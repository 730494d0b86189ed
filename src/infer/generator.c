/* generator.c - see generator.h. */
#include "infer/generator.h"

#include "base/sys.h"

const rt_generate_opts rt_generate_defaults = { .sampling = { .top_p = 1.0, .repetition_penalty = 1.0 } };

struct rt_generator {
    rt_sampling sampling;
    rt_engine *engine;
    uint64_t told; /* the request whose id fn is called with */
};

static int generator_new(rt_generator **out, const rt_generate_opts *o, rt_err *e)
{
    rt_generator *g = rt_alloc_zero(sizeof *g, 16);
    if (!g) return rt_no_memory(e, "a generator");
    g->sampling = o->sampling;
    *out = g;
    return RT_OK;
}

int rt_generator_record(rt_generator **out, rt_space *s, rt_decoder *model, const rt_policy *policy,
                        const rt_generate_opts *o, rt_err *e)
{
    int rc;
    rt_generator *g = NULL;
    RT_TRY(generator_new(&g, o, e));
    /* A run's samples are made step by step: when one ends, nothing is left under way. */
    const rt_engine_opts how = { .context = o->context, .int8 = o->int8, .logits = true };
    RT_TRY(rt_engine_record(&g->engine, s, model, policy, &how, e));
    *out = g;
    g = NULL;
out:
    rt_generator_free(g);
    return rc;
}

void rt_generator_plans(const rt_generator *g, const rt_plan *plans[RT_GENERATOR_PROGRAMS])
{
    const rt_plan *all[RT_ENGINE_PROGRAMS];
    rt_engine_plans(g->engine, all);
    for (int i = 0; i < RT_GENERATOR_PROGRAMS; i++) plans[i] = all[i];
}

int rt_generator_attach(rt_generator *g, rt_exec *x, uint32_t first, rt_err *e)
{
    return rt_engine_attach(g->engine, x, first, e);
}

int rt_generator_open(rt_generator **out, rt_dev *d, const rt_model_file *m, const rt_policy *policy,
                      const rt_generate_opts *o, rt_err *e)
{
    int rc;
    rt_generator *g = NULL;
    RT_TRY(generator_new(&g, o, e));
    RT_TRY(rt_engine_open(&g->engine, d, m, policy,
                          &(rt_engine_opts){ .context = o->context, .watch = o->watch, .int8 = o->int8 }, e));
    *out = g;
    g = NULL;
out:
    rt_generator_free(g);
    return rc;
}

void rt_generator_free(rt_generator *g)
{
    if (!g) return;
    rt_engine_free(g->engine);
    rt_free(g);
}

uint32_t rt_generator_context(const rt_generator *g) { return rt_engine_context(g->engine); }

int rt_generator_logits(rt_generator *g, float *logits, rt_err *e)
{
    return rt_engine_logits(g->engine, g->told, logits, e);
}

typedef struct text {
    rt_generator *g;
    rt_token_fn fn;
    void *ctx;
    uint32_t made;
} text;

static int on_event(void *ctx, const rt_token_event *t, rt_err *e)
{
    text *x = ctx;
    if (t->end == RT_END_NONFINITE)
        return rt_fail(e, RT_NONFINITE, "the logits of token %u are not finite; the model is damaged", t->place);
    if (t->id == UINT32_MAX) return RT_OK;
    x->g->told = t->request;
    x->made++;
    return x->fn(x->ctx, t->id, e);
}

int rt_generator_run(rt_generator *g, const uint32_t *prompt, uint32_t count, uint32_t max_new, rt_token_fn fn,
                     void *ctx, rt_generate_stats *stats, rt_err *e)
{
    int rc;
    text x = { g, fn, ctx, 0 };
    const rt_engine_stats before = rt_engine_stats_of(g->engine);
    const rt_request r = {
        .prompt = prompt, .count = count, .max_new = max_new, .sampling = g->sampling, .fn = on_event, .ctx = &x
    };
    double begun = rt_now();
    RT_TRY(rt_engine_add(g->engine, &r, NULL, e));
    while (rt_engine_busy(g->engine)) RT_TRY(rt_engine_step(g->engine, e));
    const double reading = rt_engine_stats_of(g->engine).prompt_seconds - before.prompt_seconds;
    if (stats)
        *stats = (rt_generate_stats){ count, x.made, reading, rt_now() - begun - reading, before.gemms, before.int8 };
out:
    return rc;
}
