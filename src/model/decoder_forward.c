/* decoder_forward.c - the ops of forward: whole rows for training, and new tokens against a cache for generation.
 *
 * The residual stream h is added to and normed in one op at each boundary, so a layer begins with its normed input
 * already there, and the norm behind a layer is the next one's first, or the last of all:
 *
 *   h = embed(ids);  n = norm(h)
 *   per layer:  a = out(attention(rope(qkv(n))));  h, n = h + a, norm(h + a);  m = down(swiglu(gate_up(n)));
 *               h, n = h + m, norm(h + m) */
#include "model/decoder_internal.h"

#include <string.h>

int rt_trace_new(rt_trace **out, const rt_decoder *d, const rt_recompute *r, rt_view step, rt_err *e)
{
    uint32_t layers = d->config.layers;
    rt_trace *t = rt_alloc_zero(sizeof *t, 16);
    if (t) t->layer = rt_arena_alloc(&t->arena, sizeof *t->layer * layers);
    if (t) t->recompute = rt_arena_alloc(&t->arena, sizeof *t->recompute * layers);
    if (!t || !t->layer || !t->recompute) {
        rt_trace_free(t);
        return rt_fail(e, RT_NOMEM, "no memory for what forward keeps");
    }
    for (uint32_t i = 0; i < layers; i++) t->recompute[i] = r ? r[i] : RT_RECOMPUTE_NONE;
    t->step = step;
    *out = t;
    return RT_OK;
}

void rt_trace_free(rt_trace *t)
{
    if (!t) return;
    rt_arena_free(&t->arena);
    rt_free(t);
}

static rt_view act(rt_plan *p, uint32_t rows, uint32_t cols, const char *name)
{
    return rt_act(p, p->policy.act, rows, cols, name);
}

static float eps(const rt_decoder *d) { return (float)d->config.norm_eps; }

/* From s->qkv: q/k norm, rope; leaves q and k as attention takes them in *q and *k. */
static void queries_keys(rt_plan *p, const rt_decoder *d, uint32_t layer, const rt_tokens *t, rt_layer_trace *s,
                         rt_view *q, rt_view *k)
{
    const rt_model_config *c = &d->config;
    const rt_layer *l = &d->layers[layer];
    uint32_t N = s->qkv.rows, qd = c->heads * c->head_dim, kd = c->kv_heads * c->head_dim;
    *q = rt_view_cols(p, s->qkv, 0, qd);
    *k = rt_view_cols(p, s->qkv, qd, kd);
    if (c->qk_norm) {
        s->qn = act(p, N, qd, "q normed");
        s->kn = act(p, N, kd, "k normed");
        rt_emit_rmsnorm_fwd(p, s->qn, RT_NONE, *q, rt_value(d, l->q_norm), c->heads, eps(d));
        rt_emit_rmsnorm_fwd(p, s->kn, RT_NONE, *k, rt_value(d, l->k_norm), c->kv_heads, eps(d));
        *q = s->qn;
        *k = s->kn;
    }
    if (c->layer_flags[layer] & RT_LAYER_NO_ROPE) return;
    rt_view qk = rt_view_cols(p, s->qkv, 0, qd + kd); /* side by side, where no norm moved them apart */
    rt_view first = c->qk_norm ? *q : qk;
    rt_emit_rope_fwd(p, first, first, d->freq, t->pos, d->rope_scale); /* in place: backward needs the rotated alone */
    if (c->qk_norm) rt_emit_rope_fwd(p, *k, *k, d->freq, t->pos, d->rope_scale);
}

/* Projections, q/k norm, rope: leaves q and k as attention takes them in *q and *k, v in *v. */
static void queries_keys_values(rt_plan *p, const rt_decoder *d, uint32_t layer, const rt_tokens *t, rt_layer_trace *s,
                                rt_view *q, rt_view *k, rt_view *v)
{
    const rt_model_config *c = &d->config;
    uint32_t N = s->n1.x.rows, qd = c->heads * c->head_dim, kd = c->kv_heads * c->head_dim;
    s->qkv = act(p, N, qd + 2 * kd, "qkv");
    rt_linear_forward(p, d, &d->layers[layer].qkv, &s->at[0], s->qkv, s->n1, s->step, s->low[0]);
    queries_keys(p, d, layer, t, s, q, k);
    *v = rt_view_cols(p, s->qkv, qd + kd, kd);
}

rt_attn_shape rt_decoder_attn_shape(const rt_plan *p, const rt_decoder *d, uint32_t layer, uint32_t T)
{
    const rt_model_config *c = &d->config;
    return (rt_attn_shape){ .T = T,
                            .H = c->heads,
                            .K = c->kv_heads,
                            .D = c->head_dim,
                            .window = c->layer_flags[layer] & RT_LAYER_WINDOW ? c->window : 0,
                            .rounded = p->policy.attn_rounded };
}

/* From s->o: the residual stream behind attention, and its norm. */
static void add_attention(rt_plan *p, const rt_decoder *d, uint32_t layer, rt_layer_trace *s)
{
    const rt_layer *l = &d->layers[layer];
    uint32_t N = s->o.rows, C = d->config.width;
    rt_view a = act(p, N, C, "attention out");
    rt_linear_forward(p, d, &l->out, &s->at[1], a, (rt_input){ .x = s->o }, s->step, s->low[1]);
    s->h_mid = act(p, N, C, "h mid");
    s->n2 = rt_linear_input(p, d, &l->gate_up, N, C, "n2");
    rt_emit_add_rmsnorm_fwd(p, s->n2.x, s->n2.scale, s->h_mid, a, s->h_in, rt_value(d, l->mlp_norm), eps(d));
}

/* s->h_in and s->n1 are there; everything up to s->n2 and s->h_mid. */
static void attention_half(rt_plan *p, const rt_decoder *d, uint32_t layer, const rt_tokens *t, rt_layer_trace *s)
{
    const rt_model_config *c = &d->config;
    uint32_t N = s->n1.x.rows;
    rt_view q, k, v;
    rt_attn_shape shape = rt_decoder_attn_shape(p, d, layer, t->T);
    queries_keys_values(p, d, layer, t, s, &q, &k, &v);
    s->o = act(p, N, c->heads * c->head_dim, "o");
    s->lse = rt_act(p, p->policy.scalar, N, c->heads, "lse");
    rt_emit_attn_fwd(p, s->o, s->lse, q, k, v, t->start, &shape);
    add_attention(p, d, layer, s);
}

rt_input rt_norm_again(rt_plan *p, const rt_decoder *d, uint32_t norm, const rt_linear *l, rt_view h, const char *name)
{
    rt_input n = rt_linear_input(p, d, l, h.rows, h.cols, name);
    rt_emit_rmsnorm_fwd(p, n.x, n.scale, h, rt_value(d, norm), 1, eps(d));
    return n;
}

void rt_queries_keys_again(rt_plan *p, const rt_decoder *d, uint32_t layer, const rt_tokens *t, rt_layer_trace *s)
{
    rt_view q, k;
    queries_keys(p, d, layer, t, s, &q, &k);
}

/* From s->n2: s->gate_up */
static void gate_up(rt_plan *p, const rt_decoder *d, uint32_t layer, rt_layer_trace *s)
{
    s->gate_up = act(p, s->n2.x.rows, 2 * d->config.hidden, "gate_up");
    rt_linear_forward(p, d, &d->layers[layer].gate_up, &s->at[2], s->gate_up, s->n2, s->step, s->low[2]);
}

/* (N,C): the MLP's output, not yet added. */
static rt_view mlp_half(rt_plan *p, const rt_decoder *d, uint32_t layer, rt_layer_trace *s)
{
    uint32_t N = s->n2.x.rows, F = d->config.hidden;
    const rt_linear *down = &d->layers[layer].down;
    gate_up(p, d, layer, s);
    rt_input y = rt_linear_input(p, d, down, N, F, "act");
    rt_view m = act(p, N, d->config.width, "mlp out");
    rt_emit_swiglu_fwd(p, y.x, y.scale, rt_view_cols(p, s->gate_up, 0, F), rt_view_cols(p, s->gate_up, F, F));
    if (!y.scale.buf) s->act = y.x;
    rt_linear_forward(p, d, down, &s->at[3], m, y, s->step, s->low[3]);
    return m;
}

/* The norm behind layer `layer`: the next one's first, or the last of all. */
static rt_view next_norm(const rt_decoder *d, uint32_t layer)
{
    return rt_value(d, layer + 1 < d->config.layers ? d->layers[layer + 1].attn_norm : d->final_norm);
}

/* Where attention of a layer gets its keys and values from. */
typedef struct attention_source {
    const rt_tokens *t;
    const rt_kv_cache *cache; /* null: the rows themselves */
    const rt_kv_rows *rows;
} attention_source;

static void cached_half(rt_plan *p, const rt_decoder *d, uint32_t layer, const attention_source *a, rt_layer_trace *s)
{
    const rt_model_config *c = &d->config;
    rt_view q, k, v;
    rt_attn_shape shape = rt_decoder_attn_shape(p, d, layer, a->t->T);
    shape.page = a->cache->page;
    queries_keys_values(p, d, layer, a->t, s, &q, &k, &v);
    rt_emit_copy(p, a->cache->k[layer], k, a->rows->to);
    rt_emit_copy(p, a->cache->v[layer], v, a->rows->to);
    s->o = act(p, s->n1.x.rows, c->heads * c->head_dim, "o");
    rt_emit_attn_decode(p, s->o, q, a->cache->k[layer], a->cache->v[layer], a->rows->len, a->rows->table, &shape);
    add_attention(p, d, layer, s);
}

/* What is there for backward of all that forward has made. */
static rt_layer_trace kept(const rt_layer_trace *s, rt_recompute r)
{
    rt_layer_trace k = *s;
    if (r >= RT_RECOMPUTE_NONE) {
        k.n1 = k.n2 = (rt_input){ RT_NONE, RT_NONE };
        k.act = RT_NONE;
    }
    if (r >= RT_RECOMPUTE_NORMS) k.qn = k.kn = RT_NONE;
    if (r >= RT_RECOMPUTE_MLP) {
        k.gate_up = RT_NONE;
        memset(k.low[2], 0, sizeof k.low[2]);
        memset(k.low[3], 0, sizeof k.low[3]);
    }
    if (r == RT_RECOMPUTE_BLOCK) k = (rt_layer_trace){ .h_in = s->h_in, .step = s->step };
    return k;
}

/* The matrices of a layer come to the device, where they are not there. What is recorded of the layer before it
 * follows, so that nothing of that has to be waited for; and those of two layers are there at a time. */
static void fetch_layer(rt_plan *p, const rt_decoder *d, uint32_t layer, rt_fetched at[4])
{
    const rt_layer *l = &d->layers[layer];
    const rt_linear *const linear[4] = { &l->qkv, &l->out, &l->gate_up, &l->down };
    if (layer == d->config.layers) return;
    rt_plan_label(p, "weights of layer %u", layer);
    for (int i = 0; i < 4; i++) at[i] = rt_linear_fetch(p, d, linear[i]);
}

static void forward(rt_plan *p, const rt_decoder *d, const attention_source *a, rt_trace *trace, rt_view hidden)
{
    const rt_model_config *c = &d->config;
    uint32_t N = a->t->B * a->t->T;
    rt_view h = act(p, N, c->width, "h");
    rt_fetched next[4];
    fetch_layer(p, d, 0, next);
    rt_plan_label(p, "embedding");
    rt_emit_embed_fwd(p, h, rt_value(d, d->embed), a->t->ids);
    rt_input n = rt_norm_again(p, d, d->layers[0].attn_norm, &d->layers[0].qkv, h, "n1");
    for (uint32_t i = 0; i < c->layers; i++) {
        rt_layer_trace s = { .h_in = h, .n1 = n, .step = trace ? trace->step : RT_NONE };
        memcpy(s.at, next, sizeof s.at);
        fetch_layer(p, d, i + 1, next);
        rt_plan_label(p, "layer %u", i);
        if (a->cache)
            cached_half(p, d, i, a, &s);
        else
            attention_half(p, d, i, a->t, &s);
        rt_view m = mlp_half(p, d, i, &s);
        h = act(p, N, c->width, "h");
        n = i + 1 == c->layers ? (rt_input){ .x = hidden }
                               : rt_linear_input(p, d, &d->layers[i + 1].qkv, N, c->width, "n1");
        rt_emit_add_rmsnorm_fwd(p, n.x, n.scale, h, m, s.h_mid, next_norm(d, i), eps(d));
        if (trace) trace->layer[i] = kept(&s, trace->recompute[i]);
    }
    if (trace) trace->h_last = h;
}

void rt_decoder_forward(rt_plan *p, const rt_decoder *d, const rt_tokens *t, rt_trace *trace, rt_view hidden)
{
    forward(p, d, &(attention_source){ .t = t }, trace, hidden);
}

void rt_decoder_decode(rt_plan *p, const rt_decoder *d, const rt_tokens *t, const rt_kv_cache *cache,
                       const rt_kv_rows *rows, rt_view hidden)
{
    forward(p, d, &(attention_source){ t, cache, rows }, NULL, hidden);
}

int rt_decoder_cache(rt_decoder *d, rt_space *s, uint32_t pages, uint32_t page, rt_kv_cache *out, rt_err *e)
{
    uint64_t rows = (uint64_t)pages * page;
    uint32_t cols = d->config.kv_heads * d->config.head_dim;
    *out = (rt_kv_cache){ .pages = pages, .page = page };
    if (rows > INT32_MAX) return rt_fail(e, RT_INVALID, "a cache of %u pages of %u positions is too long", pages, page);
    out->k = rt_arena_alloc(&d->arena, sizeof(rt_view) * d->config.layers);
    out->v = rt_arena_alloc(&d->arena, sizeof(rt_view) * d->config.layers);
    if (!out->k || !out->v) return rt_fail(e, RT_NOMEM, "no memory for a cache of %u layers", d->config.layers);
    for (uint32_t i = 0; i < d->config.layers; i++) {
        out->k[i] = rt_space_buf(s, RT_CLASS_STATE, d->policy.act, (uint32_t)rows, cols, "key cache");
        out->v[i] = rt_space_buf(s, RT_CLASS_STATE, d->policy.act, (uint32_t)rows, cols, "value cache");
    }
    return rt_space_status(s, e);
}

void rt_layer_again(rt_plan *p, const rt_decoder *d, uint32_t layer, const rt_tokens *t, rt_recompute r,
                    rt_layer_trace *s)
{
    const rt_layer *l = &d->layers[layer];
    if (r == RT_RECOMPUTE_BLOCK) {
        s->n1 = rt_norm_again(p, d, l->attn_norm, &l->qkv, s->h_in, "n1");
        attention_half(p, d, layer, t, s);
    } else {
        s->n2 = rt_norm_again(p, d, l->mlp_norm, &l->gate_up, s->h_mid, "n2");
    }
    gate_up(p, d, layer, s);
}

void rt_decoder_logits(rt_plan *p, const rt_decoder *d, rt_view logits, rt_view hidden)
{
    rt_linear_head(p, logits, hidden, rt_value(d, d->head));
}
