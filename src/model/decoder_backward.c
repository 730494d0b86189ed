/* decoder_backward.c - the ops of backward, in the opposite order of decoder_forward.c.
 *
 * dh (N,C) is the gradient that reaches the residual stream; each half of a layer adds its own path to it in place:
 *
 *   dh = (norm behind the last layer)' dhidden
 *   per layer, last first:  dh += n2-path of down, swiglu, gate_up;  dh += n1-path of out, attention, rope, qkv
 *   embedding += dh */
#include "model/decoder_internal.h"

static rt_view act(rt_plan *p, uint32_t rows, uint32_t cols, const char *name)
{
    return rt_act(p, p->policy.act, rows, cols, name);
}

static float eps(const rt_decoder *d) { return (float)d->config.norm_eps; }

static void mlp_backward(rt_plan *p, const rt_decoder *d, uint32_t layer, rt_layer_trace *s, rt_view dh)
{
    const rt_layer *l = &d->layers[layer];
    uint32_t N = dh.rows, C = d->config.width, F = d->config.hidden;
    rt_view dact = act(p, N, F, "dact");
    rt_linear_dx(p, d, &l->down, dh, dact, s->step, s->low[3]);
    /* In place: gate and up become their gradients, dact the activation if a gradient of down's asks for it and it was
     * not kept. */
    rt_view g = rt_view_cols(p, s->gate_up, 0, F), u = rt_view_cols(p, s->gate_up, F, F);
    rt_view again = !s->act.buf && rt_linear_reads_x(d, &l->down) ? dact : RT_NONE;
    rt_emit_swiglu_bwd(p, g, u, again, dact, g, u);
    rt_linear_dw(p, d, &l->down, dh, s->act.buf ? s->act : again, s->step, s->low[3]);
    if (!s->n2.x.buf && rt_linear_reads_x(d, &l->gate_up))
        s->n2 = rt_norm_again(p, d, l->mlp_norm, &l->gate_up, s->h_mid, "n2");
    rt_view dn2 = act(p, N, C, "dn2");
    rt_linear_dw(p, d, &l->gate_up, s->gate_up, s->n2.x, s->step, s->low[2]);
    rt_linear_dx(p, d, &l->gate_up, s->gate_up, dn2, s->step, s->low[2]);
    rt_emit_add_rmsnorm_bwd(p, dh, rt_grad(d, l->mlp_norm), dn2, s->h_mid, rt_value(d, l->mlp_norm), dh, eps(d));
}

/* Through rope and q/k norm: from dq, dk as attention gives them to the parts of dqkv. */
static void queries_keys_backward(rt_plan *p, const rt_decoder *d, uint32_t layer, const rt_tokens *t,
                                  const rt_layer_trace *s, rt_view dqkv, rt_view dq, rt_view dk)
{
    const rt_model_config *c = &d->config;
    const rt_layer *l = &d->layers[layer];
    uint32_t qd = c->heads * c->head_dim, kd = c->kv_heads * c->head_dim;
    if (!(c->layer_flags[layer] & RT_LAYER_NO_ROPE)) {
        rt_view first = c->qk_norm ? dq : rt_view_cols(p, dqkv, 0, qd + kd);
        rt_emit_rope_bwd(p, first, first, d->freq, t->pos, d->rope_scale);
        if (c->qk_norm) rt_emit_rope_bwd(p, dk, dk, d->freq, t->pos, d->rope_scale);
    }
    if (!c->qk_norm) return;
    rt_emit_rmsnorm_bwd(p, rt_view_cols(p, dqkv, 0, qd), rt_grad(d, l->q_norm), dq, rt_view_cols(p, s->qkv, 0, qd),
                        rt_value(d, l->q_norm), c->heads, eps(d)); /* = */
    rt_emit_rmsnorm_bwd(p, rt_view_cols(p, dqkv, qd, kd), rt_grad(d, l->k_norm), dk, rt_view_cols(p, s->qkv, qd, kd),
                        rt_value(d, l->k_norm), c->kv_heads, eps(d)); /* = */
}

static void attention_backward(rt_plan *p, const rt_decoder *d, uint32_t layer, const rt_tokens *t, rt_layer_trace *s,
                               rt_view dh)
{
    const rt_model_config *c = &d->config;
    const rt_layer *l = &d->layers[layer];
    uint32_t N = dh.rows, qd = c->heads * c->head_dim, kd = c->kv_heads * c->head_dim;
    rt_attn_shape shape = rt_decoder_attn_shape(p, d, layer, t->T);
    rt_view d_o = act(p, N, qd, "do"), dqkv = act(p, N, qd + 2 * kd, "dqkv");
    rt_linear_dw(p, d, &l->out, dh, s->o, s->step, s->low[1]);
    rt_linear_dx(p, d, &l->out, dh, d_o, s->step, s->low[1]);
    if (c->qk_norm && !s->qn.buf) rt_queries_keys_again(p, d, layer, t, s);
    rt_view q = c->qk_norm ? s->qn : rt_view_cols(p, s->qkv, 0, qd);
    rt_view k = c->qk_norm ? s->kn : rt_view_cols(p, s->qkv, qd, kd);
    rt_view dq = c->qk_norm ? act(p, N, qd, "dq") : rt_view_cols(p, dqkv, 0, qd);
    rt_view dk = c->qk_norm ? act(p, N, kd, "dk") : rt_view_cols(p, dqkv, qd, kd);
    rt_emit_attn_bwd(p, dq, dk, rt_view_cols(p, dqkv, qd + kd, kd), d_o, q, k, rt_view_cols(p, s->qkv, qd + kd, kd),
                     s->o, s->lse, t->start, &shape);
    queries_keys_backward(p, d, layer, t, s, dqkv, dq, dk);
    /* Below the lowest layer nothing is trained, so its input's gradient is asked for by its norm alone. */
    bool further = layer > d->lowest || d->embed_trained || rt_grad(d, l->attn_norm).buf;
    rt_view dn1 = further ? act(p, N, c->width, "dn1") : RT_NONE;
    if (!s->n1.x.buf && rt_linear_reads_x(d, &l->qkv))
        s->n1 = rt_norm_again(p, d, l->attn_norm, &l->qkv, s->h_in, "n1");
    rt_linear_dw(p, d, &l->qkv, dqkv, s->n1.x, s->step, s->low[0]);
    if (!further) return;
    rt_linear_dx(p, d, &l->qkv, dqkv, dn1, s->step, s->low[0]);
    rt_emit_add_rmsnorm_bwd(p, dh, rt_grad(d, l->attn_norm), dn1, s->h_in, rt_value(d, l->attn_norm), dh, eps(d));
}

static void tell(rt_plan *p, const rt_decoder *d, const rt_bucket_done *done, uint32_t bucket)
{
    if (done && d->bucket && d->bucket[bucket].grad.buf) done->fn(done->ctx, p, bucket);
}

void rt_decoder_backward(rt_plan *p, const rt_decoder *d, const rt_tokens *t, rt_trace *trace, rt_view dhidden,
                         const rt_bucket_done *done)
{
    rt_view dh = act(p, dhidden.rows, dhidden.cols, "dh");
    if (d->lowest == d->config.layers && !rt_grad(d, d->final_norm).buf) {
        tell(p, d, done, rt_bucket_of(d, RT_ROLE_HEAD, 0));
        return;
    }
    rt_plan_label(p, "final norm backward");
    rt_emit_rmsnorm_bwd(p, dh, rt_grad(d, d->final_norm), dhidden, trace->h_last, rt_value(d, d->final_norm), 1,
                        eps(d)); /* = */
    tell(p, d, done, rt_bucket_of(d, RT_ROLE_FINAL_NORM, 0));
    for (uint32_t i = d->config.layers; i-- > d->lowest;) {
        rt_layer_trace *s = &trace->layer[i];
        if (trace->recompute[i] >= RT_RECOMPUTE_MLP) {
            rt_plan_label(p, "layer %u again", i);
            rt_layer_again(p, d, i, t, trace->recompute[i], s);
        }
        rt_plan_label(p, "layer %u backward", i);
        mlp_backward(p, d, i, s, dh);
        attention_backward(p, d, i, t, s, dh);
        tell(p, d, done, rt_bucket_of(d, RT_ROLE_ATTN_NORM, i));
    }
    if (!d->embed_trained) return;
    rt_plan_label(p, "embedding backward");
    rt_emit_embed_bwd(p, rt_grad(d, d->embed), dh, t->ids); /* += */
    tell(p, d, done, rt_bucket_of(d, RT_ROLE_EMBED, 0));
}

void rt_decoder_logits_backward(rt_plan *p, const rt_decoder *d, rt_view dlogits, rt_view hidden, rt_view dhidden)
{
    rt_view grad = rt_grad(d, d->head);
    rt_emit_matmul(p, dhidden, dlogits, rt_value(d, d->head), RT_NONE, "nn", 1.0f); /* = */
    if (grad.buf) rt_emit_matmul(p, grad, dlogits, hidden, RT_NONE, "tn", 1.0f);    /* +=, = for the first chunk */
}
