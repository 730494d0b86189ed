/* generator.c - see generator.h. */
#include "infer/generator.h"

#include "base/sys.h"

enum { BLOCK = 128 }; /* tokens of the prompt at a time */
enum { PROMPT, TOKEN, CHOOSE };

const rt_generate_opts rt_generate_defaults = { .top_p = 1.0, .repetition_penalty = 1.0 };

/* The inputs of a program that takes n tokens. */
typedef struct feed {
    rt_tokens tokens;
    rt_view slot, len;
    rt_plan *plan;
} feed;

struct rt_generator {
    rt_generate_opts opts;
    rt_policy policy;
    uint32_t context, vocab;
    rt_space *space;
    rt_decoder *model;
    bool owner; /* of space, model and x */
    rt_kv_cache cache;
    feed feed[2]; /* PROMPT, TOKEN */
    rt_plan *choose;
    rt_view logits, id, step;
    rt_exec *x;
    uint32_t first;     /* program PROMPT's index in x */
    float *host_logits; /* (V), with a penalty only */
    bool *seen;         /* (V) */
};

static void declare_feed(rt_generator *g, feed *f, uint32_t n)
{
    rt_space *s = g->space;
    f->tokens = (rt_tokens){ .B = 1, .T = n };
    f->tokens.ids = rt_space_buf(s, RT_CLASS_INPUT, RT_DTYPE_I32, n, 1, "ids");
    f->tokens.pos = rt_space_buf(s, RT_CLASS_INPUT, RT_DTYPE_I32, n, 1, "positions");
    f->slot = rt_space_buf(s, RT_CLASS_INPUT, RT_DTYPE_I32, n, 1, "cache rows");
    f->len = rt_space_buf(s, RT_CLASS_INPUT, RT_DTYPE_I32, 1, 1, "cache length");
}

static int record_programs(rt_generator *g, rt_err *e)
{
    int rc;
    const rt_generate_opts *o = &g->opts;
    uint32_t C = g->model->config.width;
    rt_sample_opts sample = { .top_k = o->top_k, .temperature = (float)o->temperature, .top_p = (float)o->top_p };
    for (int i = PROMPT; i <= TOKEN; i++) {
        feed *f = &g->feed[i];
        RT_TRY(rt_plan_new(&f->plan, g->space, i == PROMPT ? "prompt" : "token", &g->policy, e));
        rt_view hidden = rt_act(f->plan, g->policy.act, f->tokens.T, C, "hidden");
        rt_decoder_decode(f->plan, g->model, &f->tokens, &g->cache, f->slot, f->len, hidden);
        if (i == PROMPT) continue;
        rt_plan_label(f->plan, "head");
        rt_decoder_logits(f->plan, g->model, g->logits, hidden);
    }
    RT_TRY(rt_plan_new(&g->choose, g->space, "choice", &g->policy, e));
    rt_plan_assume_defined(g->choose, g->logits);
    rt_emit_sample(g->choose, g->id, g->logits, g->step, &sample);
out:
    return rc;
}

/* In the space and over the model that g has. */
static int record(rt_generator *g, rt_err *e)
{
    int rc;
    uint32_t most = g->model->config.context;
    g->vocab = g->model->config.vocab;
    g->context = g->opts.context ? g->opts.context : most < 4096 ? most : 4096;
    /* The last block of a prompt may be padded beyond it. */
    RT_TRY(rt_decoder_cache(g->model, g->space, 1, (uint32_t)rt_align_up(g->context, BLOCK) + BLOCK, &g->cache, e));
    declare_feed(g, &g->feed[PROMPT], BLOCK);
    declare_feed(g, &g->feed[TOKEN], 1);
    g->logits = rt_space_buf(g->space, RT_CLASS_OUTPUT, g->policy.logits, 1, g->vocab, "logits");
    g->id = rt_space_buf(g->space, RT_CLASS_OUTPUT, RT_DTYPE_I32, 1, 1, "id");
    g->step = rt_space_buf(g->space, RT_CLASS_STEP, RT_DTYPE_U8, 1, sizeof(rt_step), "step values");
    RT_TRY(record_programs(g, e));
    if (g->opts.repetition_penalty == 1.0) goto out;
    g->host_logits = rt_alloc(g->vocab * sizeof *g->host_logits, 64);
    g->seen = rt_alloc_zero(g->vocab * sizeof *g->seen, 16);
    if (!g->host_logits || !g->seen) RT_TRY(rt_fail(e, RT_NOMEM, "no memory for a penalty over %u ids", g->vocab));
out:
    return rc;
}

/* Cache rows that were never written are read by nobody, but an op may want its operand to be finite. */
static int clear_cache(rt_generator *g, rt_err *e)
{
    int rc = RT_OK;
    uint32_t cols = g->cache.k[0].cols;
    uint64_t bytes = rt_dtype_bytes(g->policy.act, (uint64_t)g->cache.S * cols);
    void *zero = rt_alloc_zero(bytes, 64);
    if (!zero) RT_TRY(rt_fail(e, RT_NOMEM, "no memory for a cache of %u positions", g->cache.S));
    for (uint32_t i = 0; i < g->model->config.layers; i++) {
        RT_TRY(rt_exec_write(g->x, g->cache.k[i], zero, bytes, e));
        RT_TRY(rt_exec_write(g->x, g->cache.v[i], zero, bytes, e));
    }
out:
    rt_free(zero);
    return rc;
}

static int generator_new(rt_generator **out, const rt_policy *policy, const rt_generate_opts *o, rt_err *e)
{
    rt_generator *g = rt_alloc_zero(sizeof *g, 16);
    if (!g) return rt_fail(e, RT_NOMEM, "no memory for a generator");
    g->opts = *o;
    g->policy = policy ? *policy : rt_policy_f32;
    *out = g;
    return RT_OK;
}

int rt_generator_record(rt_generator **out, rt_space *s, rt_decoder *model, const rt_policy *policy,
                        const rt_generate_opts *o, rt_err *e)
{
    int rc;
    rt_generator *g = NULL;
    RT_TRY(generator_new(&g, policy, o, e));
    g->space = s;
    g->model = model;
    RT_TRY(record(g, e));
    *out = g;
    g = NULL;
out:
    rt_generator_free(g);
    return rc;
}

void rt_generator_plans(const rt_generator *g, const rt_plan *plans[RT_GENERATOR_PROGRAMS])
{
    plans[PROMPT] = g->feed[PROMPT].plan;
    plans[TOKEN] = g->feed[TOKEN].plan;
    plans[CHOOSE] = g->choose;
}

int rt_generator_attach(rt_generator *g, rt_exec *x, uint32_t first, rt_err *e)
{
    g->x = x;
    g->first = first;
    return clear_cache(g, e);
}

/* Space and model of a file that is opened for generation alone. */
static int declare_model(rt_generator *g, const rt_model_file *m, rt_err *e)
{
    int rc;
    uint32_t count = rt_param_count(&m->config);
    rt_dtype *dtypes = rt_alloc(count * sizeof *dtypes, 16);
    if (!dtypes) RT_TRY(rt_fail(e, RT_NOMEM, "no memory to open %s", m->spec));
    RT_TRY(rt_load_dtypes(dtypes, m, e));
    g->owner = true;
    RT_TRY(rt_space_new(&g->space, e));
    rt_decoder_opts o = { .name = "model",
                          .policy = &g->policy,
                          .dtypes = g->policy.weight == RT_DTYPE_F64 ? NULL : dtypes };
    RT_TRY(rt_decoder_new(&g->model, g->space, &m->config, &o, e));
out:
    rt_free(dtypes);
    return rc;
}

int rt_generator_open(rt_generator **out, rt_dev *d, const rt_model_file *m, const rt_policy *policy,
                      const rt_generate_opts *o, rt_err *e)
{
    int rc;
    rt_generator *g = NULL;
    const rt_plan *plans[RT_GENERATOR_PROGRAMS];
    RT_TRY(rt_model_file_check(m, e));
    RT_TRY(generator_new(&g, policy ? policy : rt_device_policy(d), o, e));
    RT_TRY(declare_model(g, m, e));
    RT_TRY(record(g, e));
    rt_generator_plans(g, plans);
    RT_TRY(rt_exec_seal(&g->x, d, plans, RT_GENERATOR_PROGRAMS, &(rt_seal_opts){ 0 }, e));
    RT_TRY(rt_load_weights(g->x, g->model, m, NULL, e));
    RT_TRY(rt_generator_attach(g, g->x, 0, e));
    *out = g;
    g = NULL;
out:
    rt_generator_free(g);
    return rc;
}

void rt_generator_free(rt_generator *g)
{
    if (!g) return;
    for (int i = PROMPT; i <= TOKEN; i++) rt_plan_free(g->feed[i].plan);
    rt_plan_free(g->choose);
    if (g->owner) {
        rt_exec_free(g->x);
        rt_decoder_free(g->model);
        rt_space_free(g->space);
    }
    rt_free(g->host_logits);
    rt_free(g->seen);
    rt_free(g);
}

uint32_t rt_generator_context(const rt_generator *g) { return g->context; }

/* Runs program which over count tokens that begin at position at; a block is filled up with its last token. */
static int take(rt_generator *g, int which, const uint32_t *ids, uint32_t count, uint32_t at, rt_err *e)
{
    int rc;
    const feed *f = &g->feed[which];
    uint32_t n = f->tokens.T;
    int32_t id[BLOCK], pos[BLOCK], len = (int32_t)(at + n);
    rt_ticket t;
    for (uint32_t i = 0; i < n; i++) {
        id[i] = (int32_t)ids[i < count ? i : count - 1];
        pos[i] = (int32_t)(at + i);
    }
    RT_TRY(rt_exec_write(g->x, f->tokens.ids, id, n * sizeof *id, e));
    RT_TRY(rt_exec_write(g->x, f->tokens.pos, pos, n * sizeof *pos, e));
    RT_TRY(rt_exec_write(g->x, f->slot, pos, n * sizeof *pos, e));
    RT_TRY(rt_exec_write(g->x, f->len, &len, sizeof len, e));
    RT_TRY(rt_exec_run(g->x, g->first + (uint32_t)which, &t, e));
    RT_TRY(rt_exec_wait(g->x, t, e));
out:
    return rc;
}

int rt_generator_logits(rt_generator *g, float *logits, rt_err *e)
{
    int rc;
    uint64_t bytes = rt_dtype_bytes(g->policy.logits, g->vocab);
    void *raw = NULL;
    if (g->policy.logits == RT_DTYPE_F32) return rt_exec_read(g->x, g->logits, logits, bytes, e);
    if (!(raw = rt_alloc(bytes, 64))) RT_TRY(rt_fail(e, RT_NOMEM, "no memory for %u logits", g->vocab));
    RT_TRY(rt_exec_read(g->x, g->logits, raw, bytes, e));
    rt_float_to_f32(logits, raw, g->policy.logits, g->vocab);
out:
    rt_free(raw);
    return rc;
}

static int apply_penalty(rt_generator *g, rt_err *e)
{
    int rc;
    float by = (float)g->opts.repetition_penalty;
    RT_TRY(rt_generator_logits(g, g->host_logits, e));
    for (uint32_t i = 0; i < g->vocab; i++)
        if (g->seen[i]) g->host_logits[i] = g->host_logits[i] < 0 ? g->host_logits[i] * by : g->host_logits[i] / by;
    if (g->policy.logits == RT_DTYPE_F32)
        RT_TRY(rt_exec_write(g->x, g->logits, g->host_logits, g->vocab * sizeof(float), e));
    else
        RT_TRY(rt_fail(e, RT_UNSUPPORTED, "a repetition penalty needs f32 logits"));
out:
    return rc;
}

static int choose(rt_generator *g, uint32_t index, uint32_t *id, rt_err *e)
{
    int rc;
    int32_t got;
    rt_ticket t;
    rt_step step = { .step = index + 1, .tokens = 1, .seed = g->opts.seed };
    if (g->seen) RT_TRY(apply_penalty(g, e));
    RT_TRY(rt_exec_write(g->x, g->step, &step, sizeof step, e));
    RT_TRY(rt_exec_run(g->x, g->first + CHOOSE, &t, e));
    RT_TRY(rt_exec_wait(g->x, t, e));
    RT_TRY(rt_exec_read(g->x, g->id, &got, sizeof got, e));
    if (got < 0 || (uint32_t)got >= g->vocab)
        RT_TRY(rt_fail(e, RT_NONFINITE, "the logits of token %u are not finite; the model is damaged", index));
    *id = (uint32_t)got;
    if (g->seen) g->seen[*id] = true;
out:
    return rc;
}

static int check_prompt(const rt_generator *g, const uint32_t *prompt, uint32_t count, rt_err *e)
{
    if (count == 0) return rt_fail(e, RT_INVALID, "the prompt is empty; there is nothing to continue");
    if (count >= g->context)
        return rt_fail(e, RT_INVALID, "the prompt has %u tokens and the context only %u; raise --context", count,
                       g->context);
    for (uint32_t i = 0; i < count; i++)
        if (prompt[i] >= g->vocab)
            return rt_fail(e, RT_INVALID, "id %u of the prompt is outside the model's vocabulary of %u", prompt[i],
                           g->vocab);
    return RT_OK;
}

int rt_generator_run(rt_generator *g, const uint32_t *prompt, uint32_t count, uint32_t max_new, rt_token_fn fn,
                     void *ctx, rt_generate_stats *stats, rt_err *e)
{
    int rc, more = 0;
    uint32_t at = 0, id, made = 0;
    double start = rt_now();
    RT_TRY(check_prompt(g, prompt, count, e));
    if (g->seen) memset(g->seen, 0, g->vocab * sizeof *g->seen);
    for (uint32_t i = 0; g->seen && i < count; i++) g->seen[prompt[i]] = true;
    for (; at + 1 < count; at += BLOCK) {
        uint32_t n = count - 1 - at < BLOCK ? count - 1 - at : BLOCK;
        RT_TRY(take(g, PROMPT, prompt + at, n, at, e));
    }
    id = prompt[count - 1];
    double begun = rt_now();
    for (at = count - 1; made < max_new && at < g->context && more == 0; at++) {
        RT_TRY(take(g, TOKEN, &id, 1, at, e));
        RT_TRY(choose(g, made, &id, e));
        made++;
        RT_TRY(more = fn(ctx, id, e));
    }
    rc = RT_OK;
    if (stats) *stats = (rt_generate_stats){ count, made, begun - start, rt_now() - begun };
out:
    return rc;
}
