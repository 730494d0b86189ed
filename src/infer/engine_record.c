/* engine_record.c - the programs of an engine, and how they become a sealed set. See engine.h; what runs them is
 * engine.c.
 */
#include "infer/engine_internal.h"

#include "base/sys.h"

static rt_view input(rt_engine *g, rt_dtype d, uint32_t rows, uint32_t cols, const char *name)
{
    return rt_space_buf(g->space, RT_CLASS_INPUT, d, rows, cols, name);
}
static rt_view output(rt_engine *g, rt_dtype d, uint32_t rows, uint32_t cols, const char *name)
{
    return rt_space_buf(g->space, RT_CLASS_OUTPUT, d, rows, cols, name);
}

static void declare_piece(rt_engine *g, rt_feed *f, uint32_t T)
{
    const uint32_t B = g->opts.prompts;
    f->tokens = (rt_tokens){ .B = B, .T = T };
    f->tokens.ids = input(g, RT_DTYPE_I32, B * T, 1, "ids");
    f->tokens.pos = input(g, RT_DTYPE_I32, B * T, 1, "positions");
    f->rows.to = input(g, RT_DTYPE_I32, B * T, 1, "cache rows");
    f->rows.len = input(g, RT_DTYPE_I32, B, 1, "cache lengths");
    f->rows.table = input(g, RT_DTYPE_I32, B, g->per_seat, "pages");
}

/* One token of each of N sequences. Its ids are there from the step before; what else it is told of its places is one
 * buffer, so that a step writes little. */
static void declare_token(rt_engine *g, rt_feed *f, uint32_t N)
{
    f->tokens = (rt_tokens){ .B = N, .T = 1 };
    f->tokens.ids = rt_space_buf(g->space, RT_CLASS_STATE, RT_DTYPE_I32, N, 1, "ids");
    g->places = input(g, RT_DTYPE_I32, 3 * N, 1, "positions, cache rows, cache lengths");
    f->tokens.pos = f->rows.to = f->rows.len = g->places;
    f->tokens.pos.rows = f->rows.to.rows = f->rows.len.rows = N;
    f->rows.to.off = N;
    f->rows.len.off = 2 * (uint64_t)N;
    f->rows.table = input(g, RT_DTYPE_I32, N, g->per_seat, "pages");
}

static int plan_new(rt_engine *g, rt_plan **out, uint32_t *program, const char *name, rt_err *e)
{
    *program = g->programs++;
    return rt_plan_new(out, g->space, name, &g->policy, e);
}

/* The token program's GEMMs, and those of them that read activations in 8 bits: some, where they are asked for. */
static int count_gemms(rt_engine *g, rt_err *e)
{
    const rt_plan *p = g->token.plan;
    for (uint32_t i = 0; i < p->nops; i++) {
        const rt_op_kind k = p->ops[i].kind;
        g->stats.int8 += k == RT_OP_MATMUL_INT8;
        g->stats.gemms += k == RT_OP_MATMUL_INT8 || k == RT_OP_MATMUL || k == RT_OP_MATMUL_SCALED;
    }
    if (!g->opts.int8 || g->stats.int8) return RT_OK;
    return rt_fail(e, RT_INVALID,
                   "int8 activations need weights in q8_0, q4_0, q4_1, q4_k, q5_k or q6_k, and this model has none; "
                   "retort quantize makes them");
}

/* A piece of a prompt, or of several; with echoes its hidden states stay. */
static int record_piece(rt_engine *g, int which, rt_err *e)
{
    int rc;
    rt_feed *f = &g->piece[which];
    const uint32_t T = rt_piece_rows(which), rows = g->opts.prompts * T, C = g->model->config.width;
    declare_piece(g, f, T);
    RT_TRY(plan_new(g, &f->plan, &f->program, which == RT_PIECE_LARGE ? "piece" : "small piece", e));
    rt_view hidden = g->opts.echo ? rt_space_buf(g->space, RT_CLASS_STATE, g->policy.act, rows, C, "hidden of a piece")
                                  : rt_act(f->plan, g->policy.act, rows, C, "hidden");
    g->echo[which].hidden = hidden;
    rt_decoder_decode(f->plan, g->model, &f->tokens, &g->cache, &f->rows, hidden);
    rc = rt_plan_status(f->plan, e);
out:
    return rc;
}

static int record_echo(rt_engine *g, int which, rt_err *e)
{
    int rc;
    rt_echo *x = &g->echo[which];
    const uint32_t T = rt_piece_rows(which), top = g->opts.top;
    const rt_kd_opts how = { .T = 1, .ce_weight = 1 };
    x->target = input(g, RT_DTYPE_I32, T, 1, "ids to score");
    x->step = rt_space_buf(g->space, RT_CLASS_STEP, RT_DTYPE_U8, 1, sizeof(rt_step), "step values");
    x->fault = rt_space_buf(g->space, RT_CLASS_STATE, RT_DTYPE_U32, 1, sizeof(rt_fault) / 4, "fault");
    x->ce = output(g, g->policy.scalar, T, 1, "cross entropy");
    x->sums = output(g, g->policy.scalar, 1, 4, "sums");
    if (top) {
        x->top_id = output(g, RT_DTYPE_I32, T, top, "likely ids");
        x->top_logp = output(g, g->policy.scalar, T, top, "log-probabilities");
        x->rest = output(g, g->policy.scalar, T, 1, "rest");
    }
    RT_TRY(plan_new(g, &x->plan, &x->program, which == RT_PIECE_LARGE ? "echo" : "small echo", e));
    rt_plan *p = x->plan;
    rt_plan_assume_defined(p, x->hidden);
    for (uint32_t at = 0; at < T; at += RT_ENGINE_HEAD) {
        rt_view logits = rt_act(p, g->policy.logits, RT_ENGINE_HEAD, g->vocab, "logits");
#define PART(v) rt_view_rows(p, v, at, RT_ENGINE_HEAD)
        const rt_kd_io io = { .logits = logits,
                              .sums = x->sums,
                              .ce = PART(x->ce),
                              .fault = x->fault,
                              .target = PART(x->target),
                              .step = x->step };
        rt_plan_label(p, "rows %u to %u", at, at + RT_ENGINE_HEAD - 1);
        rt_decoder_logits(p, g->model, logits, PART(x->hidden));
        rt_emit_kd_loss(p, &io, &how);
        if (top) rt_emit_topk(p, PART(x->top_id), PART(x->top_logp), PART(x->rest), logits, RT_NONE, 1);
#undef PART
    }
    rc = rt_plan_status(p, e);
out:
    return rc;
}

static int record_token(rt_engine *g, rt_err *e)
{
    int rc;
    rt_feed *f = &g->token;
    const uint32_t N = g->slots;
    declare_token(g, f, N);
    g->logits = output(g, g->policy.logits, N, g->vocab, "logits");
    g->logp = output(g, g->policy.scalar, N, 1, "log-probability");
    g->seen = rt_space_buf(g->space, RT_CLASS_STATE, RT_DTYPE_U32, N, g->words, "ids seen");
    g->key = input(g, RT_DTYPE_U32, N, 2, "keys of draws");
    g->how = input(g, g->policy.scalar, N, RT_HOW_COLS, "how to choose");
    RT_TRY(plan_new(g, &f->plan, &f->program, "token", e));
    f->plan->policy.int8 = g->opts.int8;
    rt_view hidden = rt_act(f->plan, g->policy.act, N, g->model->config.width, "hidden");
    rt_decoder_decode(f->plan, g->model, &f->tokens, &g->cache, &f->rows, hidden);
    rt_plan_label(f->plan, "head");
    rt_decoder_logits(f->plan, g->model, g->logits, hidden);
    rt_emit_sample(f->plan, f->tokens.ids, g->logp, g->seen, g->logits, g->key, g->how);
    RT_TRY(rt_plan_status(f->plan, e));
    RT_TRY(count_gemms(g, e));
    if (!g->opts.top) goto out;
    g->top_id = output(g, RT_DTYPE_I32, N, g->opts.top, "likely ids");
    g->top_logp = output(g, g->policy.scalar, N, g->opts.top, "log-probabilities");
    g->rest = output(g, g->policy.scalar, N, 1, "rest");
    RT_TRY(plan_new(g, &g->top, &g->top_program, "top", e));
    rt_plan_assume_defined(g->top, g->logits);
    rt_emit_topk(g->top, g->top_id, g->top_logp, g->rest, g->logits, RT_NONE, 1);
    rc = rt_plan_status(g->top, e);
out:
    return rc;
}

/* Sizes that follow from the options and the model. */
static int settle(rt_engine *g, rt_err *e)
{
    const rt_model_config *c = &g->model->config;
    rt_engine_opts *o = &g->opts;
    uint64_t positions;
    g->slots = o->slots ? o->slots : 1;
    g->context = o->context ? o->context : c->context < 4096 ? c->context : 4096;
    g->vocab = c->vocab;
    g->words = (g->vocab + 31) / 32;
    /* The last piece of a prompt may be padded beyond the context. */
    g->per_seat = (uint32_t)((rt_align_up(g->context, RT_ENGINE_LARGE) + RT_ENGINE_LARGE) / RT_ENGINE_PAGE);
    positions = o->positions ? o->positions : (uint64_t)g->slots * g->context;
    if (!o->prompts) o->prompts = 1;
    if (o->prompts > RT_ENGINE_PIECES || (o->echo && o->prompts > 1))
        return rt_fail(e, RT_INVALID, "pieces of %u prompts at once: at most %d, and 1 with an echo", o->prompts,
                       RT_ENGINE_PIECES);
    if (g->context > c->context)
        return rt_fail(e, RT_INVALID,
                       "a context of %u tokens was asked for, and the model's own is %u; lower --context", g->context,
                       c->context);
    if (o->top > g->vocab)
        return rt_fail(e, RT_INVALID, "%u log-probabilities were asked for; the vocabulary has %u", o->top, g->vocab);
    if (positions < g->context)
        return rt_fail(e, RT_INVALID,
                       "a cache of %llu positions cannot hold one text of %u; make it larger, or the "
                       "context shorter",
                       (unsigned long long)positions, g->context);
    /* Whole pages for every text of some length: a page of each is not full. */
    uint64_t pages = (positions + RT_ENGINE_PAGE - 1) / RT_ENGINE_PAGE + (o->positions ? 0 : g->slots);
    if (pages > INT32_MAX / RT_ENGINE_PAGE - 1)
        return rt_fail(e, RT_INVALID, "a cache of %llu positions is too large; give fewer slots or a shorter context",
                       (unsigned long long)positions);
    g->pages.count = (uint32_t)pages;
    return RT_OK;
}

static int take_memory(rt_engine *g, rt_err *e)
{
    const uint64_t N = g->slots, P = g->opts.prompts, pieces = P * RT_ENGINE_LARGE, top = g->opts.top;
    const uint64_t rows = N > pieces ? N : pieces;
#define TAKE(p, n) ((p) = rt_arena_alloc(&g->arena, (n) * sizeof *(p)))
    int32_t *free = NULL;
    TAKE(free, g->pages.count);
    if (!free || !TAKE(g->seat, N) || !TAKE(g->table, N * g->per_seat) || !TAKE(g->host, 4 * rows) ||
        !TAKE(g->keys, 2 * N) || !TAKE(g->hows, N * RT_HOW_COLS) || !TAKE(g->ids, rows) || !TAKE(g->logps, rows) ||
        !TAKE(g->bits, g->words) || !TAKE(g->piece_table, P * g->per_seat) || !TAKE(g->top_ids, rows * top + 1) ||
        !TAKE(g->top_logps, rows * top + 1))
        return rt_no_memory(e, "an engine");
    for (int i = 0; i < 2; i++) {
        rt_flight *f = &g->flight[i];
        if (!TAKE(f->name, N) || !TAKE(f->ids, N) || !TAKE(f->logps, N) || !TAKE(f->top_ids, N * top + 1) ||
            !TAKE(f->top_logps, N * top + 1))
            return rt_no_memory(e, "an engine");
    }
    for (uint64_t i = 0; i < N; i++)
        if (!TAKE(g->seat[i].ids, g->context + (uint64_t)1)) return rt_no_memory(e, "an engine");
#undef TAKE
    rt_pages_init(&g->pages, free, g->pages.count);
    return RT_OK;
}

int rt_engine_record_all(rt_engine *g, rt_err *e)
{
    int rc;
    RT_TRY(settle(g, e));
    RT_TRY(rt_decoder_cache(g->model, g->space, g->pages.count + 1, RT_ENGINE_PAGE, &g->cache, e));
    for (int i = 0; i < RT_PIECES; i++) RT_TRY(record_piece(g, i, e));
    for (int i = 0; g->opts.echo && i < RT_PIECES; i++) RT_TRY(record_echo(g, i, e));
    RT_TRY(record_token(g, e));
    RT_TRY(rt_space_status(g->space, e));
    RT_TRY(take_memory(g, e));
out:
    return rc;
}

uint32_t rt_engine_plans(const rt_engine *g, const rt_plan *plans[RT_ENGINE_PROGRAMS])
{
    for (int i = 0; i < RT_PIECES; i++) {
        plans[g->piece[i].program] = g->piece[i].plan;
        if (g->opts.echo) plans[g->echo[i].program] = g->echo[i].plan;
    }
    plans[g->token.program] = g->token.plan;
    if (g->top) plans[g->top_program] = g->top;
    return g->programs;
}

static int engine_new(rt_engine **out, const rt_policy *policy, const rt_engine_opts *o, rt_err *e)
{
    rt_engine *g = rt_alloc_zero(sizeof *g, 16);
    if (!g) return rt_no_memory(e, "an engine");
    g->opts = *o;
    g->policy = policy ? *policy : rt_policy_f32;
    *out = g;
    return RT_OK;
}

uint32_t rt_engine_prompts(const rt_dev *d, const rt_engine_opts *o)
{
    const uint32_t eighth = o->slots / 8;
    if (!d->api->async || o->echo || eighth < 2) return 1;
    return eighth < RT_ENGINE_PIECES ? eighth : RT_ENGINE_PIECES;
}

int rt_engine_record(rt_engine **out, rt_space *s, rt_decoder *model, const rt_policy *policy, const rt_engine_opts *o,
                     rt_err *e)
{
    int rc;
    rt_engine *g = NULL;
    RT_TRY(engine_new(&g, policy, o, e));
    g->space = s;
    g->model = model;
    RT_TRY(rt_engine_record_all(g, e));
    *out = g;
    g = NULL;
out:
    rt_engine_free(g);
    return rc;
}

/* Zeroes over a buffer of the space. */
static int clear(rt_engine *g, rt_view v, const void *zero, uint64_t bytes, rt_err *e)
{
    int rc = RT_OK;
    const uint64_t row = rt_dtype_bytes(g->space->bufs[v.buf - 1].dtype, v.cols), most = bytes / row;
    for (uint64_t at = 0; at < v.rows; at += most) {
        uint64_t n = v.rows - at < most ? v.rows - at : most;
        rt_view part = { v.buf, (uint32_t)n, v.cols, v.off + at * v.stride, v.stride };
        RT_TRY(rt_exec_write(g->x, part, zero, n * row, e));
    }
out:
    return rc;
}

/* Cache rows that were never written are read by nobody but rows without a request; those and kernels that multiply
 * what is masked want them to be finite. */
int rt_engine_attach(rt_engine *g, rt_exec *x, uint32_t first, rt_err *e)
{
    int rc;
    const rt_step step = { .step = 1, .tokens = 1 };
    const uint64_t bytes = 1 << 20;
    void *zero = rt_alloc_zero(bytes, 64);
    if (!zero) RT_TRY(rt_no_memory(e, "a cache"));
    g->x = x;
    g->first = first;
    for (uint32_t i = 0; i < g->model->config.layers; i++) {
        RT_TRY(clear(g, g->cache.k[i], zero, bytes, e));
        RT_TRY(clear(g, g->cache.v[i], zero, bytes, e));
    }
    RT_TRY(clear(g, g->seen, zero, bytes, e));
    RT_TRY(clear(g, g->token.tokens.ids, zero, bytes, e));
    for (int i = 0; g->opts.echo && i < RT_PIECES; i++) {
        RT_TRY(rt_exec_write(x, g->echo[i].step, &step, sizeof step, e));
        RT_TRY(clear(g, g->echo[i].fault, zero, bytes, e));
    }
out:
    rt_free(zero);
    return rc;
}

/* Space and model of a file that is opened for generation alone. */
static int declare_model(rt_engine *g, const rt_model_file *m, rt_err *e)
{
    int rc;
    uint32_t count = rt_param_count(&m->config);
    rt_dtype *dtypes = rt_alloc(count * sizeof *dtypes, 16);
    if (!dtypes) RT_TRY(rt_fail(e, RT_NOMEM, "no memory to open %s", m->spec));
    RT_TRY(rt_load_dtypes(dtypes, m, e));
    g->owner = true;
    RT_TRY(rt_space_new(&g->space, e));
    rt_decoder_opts o = { .name = "model", .policy = &g->policy, .dtypes = dtypes };
    RT_TRY(rt_decoder_new(&g->model, g->space, &m->config, &o, e));
out:
    rt_free(dtypes);
    return rc;
}

int rt_engine_open(rt_engine **out, rt_dev *d, const rt_model_file *m, const rt_policy *policy, const rt_engine_opts *o,
                   rt_err *e)
{
    int rc;
    rt_engine *g = NULL;
    const rt_plan *plans[RT_ENGINE_PROGRAMS];
    RT_TRY(rt_model_file_check(m, e));
    RT_TRY(engine_new(&g, policy ? policy : rt_device_policy(d), o, e));
    g->opts.prompts = o->prompts ? o->prompts : rt_engine_prompts(d, o);
    RT_TRY(declare_model(g, m, e));
    RT_TRY(rt_engine_record_all(g, e));
    uint32_t n = rt_engine_plans(g, plans);
    RT_TRY(rt_exec_seal(&g->x, d, plans, n, &(rt_seal_opts){ 0 }, e));
    RT_TRY(rt_load_weights(g->x, g->model, m, o->watch, e));
    RT_TRY(rt_engine_attach(g, g->x, 0, e));
    *out = g;
    g = NULL;
out:
    rt_engine_free(g);
    return rc;
}

void rt_engine_free(rt_engine *g)
{
    if (!g) return;
    if (g->owner && g->x) rt_engine_settle_steps(g);
    for (int i = 0; i < RT_PIECES; i++) {
        rt_plan_free(g->piece[i].plan);
        rt_plan_free(g->echo[i].plan);
    }
    rt_plan_free(g->token.plan);
    rt_plan_free(g->top);
    if (g->owner) {
        rt_exec_free(g->x);
        rt_decoder_free(g->model);
        rt_space_free(g->space);
    }
    for (uint32_t i = 0; g->seat && i < g->slots; i++) rt_free((void *)(uintptr_t)g->seat[i].ask.stop);
    rt_arena_free(&g->arena);
    rt_free(g);
}
