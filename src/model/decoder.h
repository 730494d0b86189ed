/* decoder.h - one decoder for every family: its parameters as views of a space, forward and backward written by hand.
 *
 * Owns: which buffers a model has (parameters, gradients, adapters), how projections that read the same input are laid
 * side by side, and the ops of forward and backward. It records; it knows no device and holds no values. The loss is
 * the caller's: forward ends with the normed hidden state and backward begins with its gradient. Dimension letters are
 * those of docs/numerics.md. */
#ifndef RT_MODEL_DECODER_H
#define RT_MODEL_DECODER_H

#include "format/config/names.h"
#include "op/emit.h"

/* Low-rank adapters beside frozen projections: y += (alpha / rank) (x A') B'; in training of dropout(x). */
typedef struct rt_lora {
    uint32_t rank; /* 0: none */
    double alpha;
    uint32_t roles; /* bit r: role r has one; of Q K V O GATE UP DOWN */
    double dropout; /* share of x that is dropped, for each adapter by itself; 0 <= dropout < 1 */
} rt_lora;
enum {
    RT_LORA_ROLES = 1u << RT_ROLE_Q | 1u << RT_ROLE_K | 1u << RT_ROLE_V | 1u << RT_ROLE_O | 1u << RT_ROLE_GATE |
                    1u << RT_ROLE_UP | 1u << RT_ROLE_DOWN
};

/* Layers first.. below end; none where the two are the same. */
typedef struct rt_layer_range {
    uint32_t first, end;
} rt_layer_range;

typedef struct rt_decoder_opts {
    const char *name; /* "student": the start of every buffer's name */
    const rt_policy *policy;
    /* (rt_param_count) as stored; null: the policy's weight dtype. Vectors are plain floats. A matrix of a layer may be
     * e4m3, with a scale for each row; backward does not go through such a model. */
    const rt_dtype *dtypes;
    /* Layers whose matrices, as they are stored, forward makes e4m3 codes of at every use, a scale for each row;
     * backward does not go through such a model either. */
    rt_layer_range coded;
    bool train;         /* trained parameters have gradients */
    bool accumulate;    /* gradients are written in more than one micro-batch of a step */
    const bool *frozen; /* (rt_param_count) or null: none. With adapters everything else is frozen, */
    rt_lora lora;
    bool both; /* with adapters the model's own parameters are trained too: for proofs */
    /* PARAM; or HOST, DISK: matrices of layers lie there, and forward copies those of a layer to the device while the
     * layer before it is computed. Backward does not go through such a model. */
    rt_class home;
    /* What is trained of a layer, of the embedding, or of what is behind the layers, lies in one row of weights and in
     * one of gradients. All of it has the policy's dtypes. */
    bool buckets;
    bool grads_apart; /* of buckets: gradients have no memory until rt_decoder_put_grads, for each plan anew */
    bool head_only;   /* the head is all there is of it, for rt_decoder_logits alone; dtypes has one entry */
} rt_decoder_opts;

/* One tensor of the model, or half an adapter. */
typedef struct rt_param {
    rt_role role;
    uint32_t layer;
    char part;       /* 0: the tensor itself; 'A' (r,in) or 'B' (out,r) of its adapter */
    rt_view value;   /* rows (or columns of one row) of a buffer that may hold its neighbours too; without gaps */
    rt_view scale;   /* (rows,1) of an e4m3 value; else RT_NONE */
    rt_view grad;    /* RT_NONE: frozen */
    uint32_t bucket; /* where it is trained, of a model with buckets */
} rt_param;

/* Parameters that are trained, one after another: element i of both is of the same parameter. */
typedef struct rt_bucket {
    rt_view value, grad; /* (1, all elements); RT_NONE: nothing in it is trained */
} rt_bucket;

/* Projections that read one input, side by side: q k v, or gate up; or one alone. */
enum { RT_LINEAR_PARTS = 3 };
typedef struct rt_linear {
    uint32_t parts;
    uint32_t cols[RT_LINEAR_PARTS];  /* of the output, per part */
    uint32_t param[RT_LINEAR_PARTS]; /* index of the weight */
    bool joined;                     /* one buffer holds all parts: one GEMM does for all */
    bool coded;                      /* e4m3 codes of all parts are made at every use: so does one then */
    rt_view weight, scale, grad;     /* of that buffer */
    bool has_bias;
    rt_view bias, dbias;               /* (1, all columns); dbias RT_NONE when frozen */
    uint32_t adapter[RT_LINEAR_PARTS]; /* index of the A half, B follows; UINT32_MAX: none */
} rt_linear;

typedef struct rt_layer {
    uint32_t attn_norm, mlp_norm, q_norm, k_norm; /* params; UINT32_MAX where absent */
    rt_linear qkv, out, gate_up, down;
} rt_layer;

typedef struct rt_decoder {
    rt_arena arena;
    rt_model_config config;
    rt_policy policy;
    rt_lora lora;
    rt_param *params;      /* the model's in the order of rt_param_at, then the adapters' */
    uint32_t model_params; /* how many are the model's */
    uint32_t param_count;
    rt_layer *layers;
    rt_bucket *bucket;     /* (bucket_count) embedding, layers, what is behind them; null: each has its own buffers */
    uint32_t bucket_count; /* 0, or config.layers + 2 */
    uint32_t embed, final_norm, head; /* params; head is embed in a tied model. UINT32_MAX: a head alone has none */
    uint32_t
        lowest; /* the lowest layer that has to be reached backward; config.layers: none; 0 too for the embedding */
    bool embed_trained;
    rt_view freq;     /* (1,D/2): inverse frequencies, an input written once */
    float rope_scale; /* on cos and sin */
} rt_decoder;

/* Declares every buffer in the space. The configuration is copied. */
int rt_decoder_new(rt_decoder **out, rt_space *s, const rt_model_config *c, const rt_decoder_opts *o, rt_err *e);
void rt_decoder_free(rt_decoder *d); /* accepts null */
/* "model.layers.0.self_attn.q_proj.weight", or with ".lora_A.weight" in the place of ".weight". */
char *rt_param_name(char buf[RT_NAME_BYTES], const rt_param *p);
/* Elements that are trained. */
uint64_t rt_decoder_trained(const rt_decoder *d);

/* The tokens of a batch: B rows of T. All (B*T,1) i32. */
typedef struct rt_tokens {
    uint32_t B, T;
    rt_view ids;
    rt_view pos;   /* position within its document */
    rt_view start; /* first position, within the row, of its document; RT_NONE: one document per row */
} rt_tokens;

/* What backward of a layer computes again instead of finding it kept; each level has all that is before it. */
typedef enum rt_recompute {
    RT_RECOMPUTE_NOTHING = -1,
    RT_RECOMPUTE_NONE,  /* the norms of the residual stream, and the activation of the MLP beside its gradients */
    RT_RECOMPUTE_NORMS, /* q and k after their norms and rope; nothing where a model has no such norms */
    RT_RECOMPUTE_MLP,   /* the MLP up to its last projection: one GEMM */
    RT_RECOMPUTE_BLOCK  /* everything but the layer's input */
} rt_recompute;

/* What forward keeps for backward, made by rt_decoder_forward; null trace: nothing is kept. r (layers): what each layer
 * computes again; null: none. With step values it is a forward of training: adapters drop out. RT_NONE: they do not. */
typedef struct rt_trace rt_trace;
int rt_trace_new(rt_trace **out, const rt_decoder *d, const rt_recompute *r, rt_view step, rt_err *e);
void rt_trace_free(rt_trace *t); /* accepts null; not before the plan is recorded */

/* hidden (N,C) = the normed output of the last layer. */
void rt_decoder_forward(rt_plan *p, const rt_decoder *d, const rt_tokens *t, rt_trace *trace, rt_view hidden);
/* Told of each bucket when its gradients are done. */
typedef struct rt_bucket_done {
    void (*fn)(void *ctx, rt_plan *p, uint32_t bucket);
    void *ctx;
} rt_bucket_done;
/* From dhidden (N,C) the gradients of all trained parameters (`=` or `+=`). done: null where nobody asks. */
void rt_decoder_backward(rt_plan *p, const rt_decoder *d, const rt_tokens *t, rt_trace *trace, rt_view dhidden,
                         const rt_bucket_done *done);
/* The gradients of a bucket lie in this row from here on. */
void rt_decoder_put_grads(rt_decoder *d, uint32_t bucket, rt_view grad);

/* logits (n,V) = hidden (n,C) times the head. */
void rt_decoder_logits(rt_plan *p, const rt_decoder *d, rt_view logits, rt_view hidden);
/* dhidden (n,C) = ; gradient of the head, if trained, +=. */
void rt_decoder_logits_backward(rt_plan *p, const rt_decoder *d, rt_view dlogits, rt_view hidden, rt_view dhidden);

/* ---- with a key/value cache, for generation ---- */
typedef struct rt_kv_cache {
    uint32_t pages, page; /* how many, positions of each */
    rt_view *k, *v;       /* (config.layers) each (pages*page, K*D), state */
} rt_kv_cache;
/* Declares the cache's buffers; the arrays live in the decoder's arena. */
int rt_decoder_cache(rt_decoder *d, rt_space *s, uint32_t pages, uint32_t page, rt_kv_cache *out, rt_err *e);
/* Where new tokens go and what they see. All i32. */
typedef struct rt_kv_rows {
    rt_view to;    /* (B*T,1) the row of the cache for each; outside of it: none */
    rt_view len;   /* (B,1) positions in use, the new ones included */
    rt_view table; /* (B,pages of a sequence) */
} rt_kv_rows;
/* t->T new tokens per sequence. hidden as in forward. t->start is not looked at. */
void rt_decoder_decode(rt_plan *p, const rt_decoder *d, const rt_tokens *t, const rt_kv_cache *cache,
                       const rt_kv_rows *rows, rt_view hidden);

#endif
