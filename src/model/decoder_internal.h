/* decoder_internal.h - what the decoder's files share: joined projections, and the pieces of a layer. */
#ifndef RT_MODEL_DECODER_INTERNAL_H
#define RT_MODEL_DECODER_INTERNAL_H

#include "model/decoder.h"

#define RT_NO_PARAM UINT32_MAX

/* Of one adapter: t = x A' and its gradient. Of neither, where there is no adapter or it is not there (yet). */
typedef struct rt_low {
    rt_view value, grad;
} rt_low;

/* Where the weights of a projection are for a while: of all its parts joined, or of each; RT_NONE: where they always
 * are. */
typedef struct rt_fetched {
    rt_view weight[RT_LINEAR_PARTS];
} rt_fetched;

/* What a projection reads: rows of values, or codes, each row with its scale. */
typedef struct rt_input {
    rt_view x, scale; /* scale RT_NONE: values */
} rt_input;

/* What a layer's forward makes and backward reads. Views are RT_NONE where a configuration has no such value. n1, n2
 * and act are kept where memory is no question alone: a norm costs little to compute again, to the same bits, and
 * backward of swiglu gives the activation again beside its gradients. */
typedef struct rt_layer_trace {
    rt_view h_in;          /* residual stream at the start */
    rt_input n1;           /* normed */
    rt_view qkv, qn, kn;   /* projections (q and k rotated in place unless they are normed first) */
    rt_view o, lse, h_mid; /* attention's output; residual stream after it */
    rt_input n2;
    rt_view gate_up, act;
    rt_low low[4][RT_LINEAR_PARTS]; /* of qkv, out, gate_up, down */
    rt_view step;                   /* step values, where adapters drop out */
    rt_fetched at[4];               /* of qkv, out, gate_up, down: not kept */
} rt_layer_trace;

struct rt_trace {
    rt_recompute *recompute; /* (layers) */
    rt_layer_trace *layer;   /* (layers) */
    rt_view h_last;          /* residual stream behind the last layer */
    rt_view step;            /* RT_NONE: nothing is dropped */
    rt_arena arena;
};

static inline rt_view rt_value(const rt_decoder *d, uint32_t param)
{
    return param == RT_NO_PARAM ? RT_NONE : d->params[param].value;
}
/* The embedding's is the first, the last is that of the final norm and of the head. */
static inline uint32_t rt_bucket_of(const rt_decoder *d, rt_role role, uint32_t layer)
{
    return rt_role_per_layer(role) ? 1 + layer : role == RT_ROLE_EMBED ? 0 : d->config.layers + 1;
}

static inline rt_view rt_grad(const rt_decoder *d, uint32_t param)
{
    return param == RT_NO_PARAM ? RT_NONE : d->params[param].grad;
}

/* The weights of a projection come to the device, where they are away from it: copies on the copy queue. */
rt_fetched rt_linear_fetch(rt_plan *p, const rt_decoder *d, const rt_linear *l);
/* (N,in) for whoever makes what l reads to write: codes and scales where nothing of l reads values. */
rt_input rt_linear_input(rt_plan *p, const rt_decoder *d, const rt_linear *l, uint32_t N, uint32_t in,
                         const char *name);
/* y (N, all columns) = x (N,in) times the weights, plus bias, plus adapters; low receives t of each adapter. With
 * step values, here and below, an adapter's x is dropout(x). */
void rt_linear_forward(rt_plan *p, const rt_decoder *d, const rt_linear *l, const rt_fetched *at_device, rt_view y,
                       rt_input x, rt_view step, rt_low *low);
/* y (n,V) = x (n,C) times the rows of one matrix */
void rt_linear_head(rt_plan *p, rt_view y, rt_view x, rt_view weight);
/* The two halves of backward, in any order. Gradients of what is trained; t of an adapter is made again where low has
 * none. x may be RT_NONE where nothing reads it. */
void rt_linear_dw(rt_plan *p, const rt_decoder *d, const rt_linear *l, rt_view dy, rt_view x, rt_view step,
                  rt_low *low);
bool rt_linear_reads_x(const rt_decoder *d, const rt_linear *l);
/* dx (N,in) = */
void rt_linear_dx(rt_plan *p, const rt_decoder *d, const rt_linear *l, rt_view dy, rt_view dx, rt_view step,
                  rt_low *low);

rt_attn_shape rt_decoder_attn_shape(const rt_plan *p, const rt_decoder *d, uint32_t layer, uint32_t T);
/* A norm of h (N,C), once more, for l to read. */
rt_input rt_norm_again(rt_plan *p, const rt_decoder *d, uint32_t norm, const rt_linear *l, rt_view h, const char *name);
/* s->qn and s->kn once more, from s->qkv, of a model that norms them. */
void rt_queries_keys_again(rt_plan *p, const rt_decoder *d, uint32_t layer, const rt_tokens *t, rt_layer_trace *s);
/* RT_RECOMPUTE_MLP or more: from what forward has kept of the layer what backward reads of its MLP, and of its
 * attention if that was not kept either. */
void rt_layer_again(rt_plan *p, const rt_decoder *d, uint32_t layer, const rt_tokens *t, rt_recompute r,
                    rt_layer_trace *s);

#endif
