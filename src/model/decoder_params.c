/* decoder_params.c - the buffers of a decoder: parameters, gradients, adapters, the rope table.
 *
 * Projections that read one input share a buffer where they can (same dtype, all trained or all frozen), so that one
 * product serves them; each parameter is then a view of some of its rows, and nobody else has to know. */
#include "model/decoder_internal.h"

#include <stdio.h>

#define NOWHERE UINT32_MAX /* a buffer that no plan has */

typedef struct builder {
    rt_decoder *d;
    rt_space *space;
    const rt_decoder_opts *o;
} builder;

char *rt_param_name(char buf[RT_NAME_BYTES], const rt_param *p)
{
    rt_role_hf_name(buf, p->role, p->layer);
    size_t n = strlen(buf), tail = strlen(".weight");
    if (p->part && n > tail) snprintf(buf + n - tail, RT_NAME_BYTES - (n - tail), ".lora_%c.weight", p->part);
    return buf;
}

uint64_t rt_decoder_trained(const rt_decoder *d)
{
    uint64_t n = 0;
    for (uint32_t i = 0; i < d->param_count; i++)
        if (d->params[i].grad.buf) n += (uint64_t)d->params[i].value.rows * d->params[i].value.cols;
    return n;
}

/* The index of a parameter; those of a layer follow one another. */
static uint32_t find(const rt_decoder *d, rt_role role, uint32_t layer)
{
    for (uint32_t i = 0; i < d->model_params; i++)
        if (d->params[i].role == role && (!rt_role_per_layer(role) || d->params[i].layer == layer)) return i;
    return RT_NO_PARAM;
}

static bool is_trained(const builder *b, uint32_t param)
{
    if (!b->o->train || (b->o->lora.rank && !b->o->both)) return false;
    return !b->o->frozen || !b->o->frozen[param];
}

static bool is_norm(rt_role r)
{
    return r == RT_ROLE_ATTN_NORM || r == RT_ROLE_MLP_NORM || r == RT_ROLE_FINAL_NORM || r == RT_ROLE_Q_NORM ||
           r == RT_ROLE_K_NORM;
}

/* As the file has it. But devices whose activations have 16 bits multiply operands of one dtype, and would round a
 * plain weight or bias to that before every GEMM: it is kept so rounded. */
static rt_dtype stored_as(const builder *b, uint32_t param)
{
    const rt_policy *p = b->o->policy;
    if (!b->o->dtypes) return p->weight;
    rt_dtype d = b->o->dtypes[param];
    bool narrow = p->act == RT_DTYPE_BF16 || p->act == RT_DTYPE_F16;
    return narrow && rt_dtype_is_float(d) && !is_norm(b->d->params[param].role) ? p->act : d;
}

/* The head's gradient is written once per chunk of tokens, the embedding's by every token. */
static rt_dtype grad_dtype(const builder *b, uint32_t param)
{
    rt_role r = b->d->params[param].role;
    bool many = b->o->accumulate || r == RT_ROLE_EMBED || r == RT_ROLE_HEAD;
    return many ? b->o->policy->grad_many : b->o->policy->grad;
}

/* Vectors, the embedding and the head stay on the device: they are small, or read by more than one program. */
static rt_class home_of(const builder *b, uint32_t param)
{
    uint64_t shape[2];
    rt_role r = b->d->params[param].role;
    return rt_role_per_layer(r) && rt_role_shape(&b->d->config, r, shape) == 2 ? b->o->home : RT_CLASS_PARAM;
}

static rt_view declare(builder *b, rt_class cls, rt_dtype dtype, uint64_t rows, uint64_t cols, const char *what)
{
    char name[RT_NAME_BYTES + 48];
    snprintf(name, sizeof name, "%s %s%s", b->o->name, what, cls == RT_CLASS_GRAD ? " gradient" : "");
    return rt_space_buf(b->space, cls, dtype, (uint32_t)rows, (uint32_t)cols, name);
}

/* The weights or the gradients of a parameter, or of several that are joined: on their own, or in their bucket. */
static rt_view declare_trained(builder *b, const rt_param *of, rt_class cls, rt_dtype dtype, uint64_t rows,
                               uint64_t cols, const char *what)
{
    char name[64];
    rt_decoder *d = b->d;
    if (!d->bucket) return declare(b, cls, dtype, rows, cols, what);
    uint32_t i = rt_bucket_of(d, of->role, of->layer);
    if (cls == RT_CLASS_GRAD && b->o->grads_apart) { /* as the values, which were declared right before */
        d->bucket[i].grad = d->bucket[i].value;
        d->bucket[i].grad.buf = NOWHERE;
        return (rt_view){ NOWHERE, (uint32_t)rows, (uint32_t)cols, d->bucket[i].value.cols - rows * cols, cols };
    }
    snprintf(name, sizeof name, "%s bucket %u%s", b->o->name, i, cls == RT_CLASS_GRAD ? " gradient" : "");
    return rt_space_more(b->space, cls == RT_CLASS_GRAD ? &d->bucket[i].grad : &d->bucket[i].value, cls, dtype,
                         (uint32_t)rows, (uint32_t)cols, name);
}

/* One scale for each row of an e4m3 matrix. */
static rt_view declare_scale(builder *b, uint32_t param, uint64_t rows, const char *what)
{
    char name[RT_NAME_BYTES + 32];
    if (stored_as(b, param) != RT_DTYPE_E4M3) return RT_NONE;
    snprintf(name, sizeof name, "%s scales", what);
    return declare(b, RT_CLASS_PARAM, b->o->policy->scalar, rows, 1, name);
}

static rt_view declare_value(builder *b, uint32_t param, uint64_t rows, uint64_t cols, const char *what)
{
    rt_dtype dtype = stored_as(b, param);
    return is_trained(b, param) ? declare_trained(b, &b->d->params[param], RT_CLASS_PARAM, dtype, rows, cols, what)
                                : declare(b, home_of(b, param), dtype, rows, cols, what);
}

/* A parameter by itself. */
static void declare_one(builder *b, uint32_t param)
{
    rt_param *p = &b->d->params[param];
    uint64_t shape[2];
    char name[RT_NAME_BYTES];
    uint32_t rank = rt_role_shape(&b->d->config, p->role, shape);
    uint64_t rows = rank == 2 ? shape[0] : 1, cols = shape[rank - 1];
    rt_param_name(name, p);
    p->value = declare_value(b, param, rows, cols, name);
    p->scale = declare_scale(b, param, rows, name);
    if (is_trained(b, param)) p->grad = declare_trained(b, p, RT_CLASS_GRAD, grad_dtype(b, param), rows, cols, name);
}

static bool can_join(const builder *b, const rt_linear *l)
{
    for (uint32_t i = 1; i < l->parts; i++)
        if (stored_as(b, l->param[i]) != stored_as(b, l->param[0]) ||
            is_trained(b, l->param[i]) != is_trained(b, l->param[0]))
            return false;
    return l->parts > 1;
}

/* Part [at, at + count) of a buffer of weights (rows) or of biases (columns of one row). */
static rt_view slice(rt_view whole, uint64_t at, uint32_t count, bool rows)
{
    if (!whole.buf) return RT_NONE;
    rt_view v = whole;
    v.off += rows ? at * whole.stride : at;
    if (rows)
        v.rows = count;
    else
        v.cols = count;
    return v;
}

static void declare_weights(builder *b, rt_linear *l, const char *what)
{
    rt_decoder *d = b->d;
    uint64_t shape[2], rows = 0, at = 0;
    char name[64];
    for (uint32_t i = 0; i < l->parts; i++) {
        rt_role_shape(&d->config, d->params[l->param[i]].role, shape);
        l->cols[i] = (uint32_t)shape[0];
        rows += shape[0];
    }
    l->joined = can_join(b, l);
    if (!l->joined) {
        for (uint32_t i = 0; i < l->parts; i++) declare_one(b, l->param[i]);
        return;
    }
    uint32_t first = l->param[0];
    snprintf(name, sizeof name, "layers.%u.%s", d->params[first].layer, what);
    l->weight = declare_value(b, first, rows, shape[1], name);
    l->scale = declare_scale(b, first, rows, name);
    if (is_trained(b, first))
        l->grad = declare_trained(b, &d->params[first], RT_CLASS_GRAD, grad_dtype(b, first), rows, shape[1], name);
    for (uint32_t i = 0; i < l->parts; at += l->cols[i++]) {
        d->params[l->param[i]].value = slice(l->weight, at, l->cols[i], true);
        d->params[l->param[i]].scale = slice(l->scale, at, l->cols[i], true);
        d->params[l->param[i]].grad = slice(l->grad, at, l->cols[i], true);
    }
}

/* Biases of a group are always joined: they are plain floats, and the group is frozen or trained as its first is. */
static void declare_biases(builder *b, rt_linear *l, const rt_role *roles, uint32_t layer, const char *what)
{
    rt_decoder *d = b->d;
    uint64_t all = 0, at = 0;
    char name[64];
    uint32_t first = find(d, roles[0], layer);
    if (first == RT_NO_PARAM) return;
    for (uint32_t i = 0; i < l->parts; i++) all += l->cols[i];
    snprintf(name, sizeof name, "layers.%u.%s bias", layer, what);
    bool trained = false;
    for (uint32_t i = 0; i < l->parts; i++) trained = trained || is_trained(b, find(d, roles[i], layer));
    l->has_bias = true;
    const rt_param *of = &d->params[first];
    l->bias = trained ? declare_trained(b, of, RT_CLASS_PARAM, stored_as(b, first), 1, all, name)
                      : declare(b, RT_CLASS_PARAM, stored_as(b, first), 1, all, name);
    if (trained) l->dbias = declare_trained(b, of, RT_CLASS_GRAD, grad_dtype(b, first), 1, all, name);
    for (uint32_t i = 0; i < l->parts; at += l->cols[i++]) {
        uint32_t param = find(d, roles[i], layer);
        d->params[param].value = slice(l->bias, at, l->cols[i], false);
        if (is_trained(b, param)) d->params[param].grad = slice(l->dbias, at, l->cols[i], false);
    }
}

static void declare_adapters(builder *b, rt_linear *l)
{
    rt_decoder *d = b->d;
    char name[RT_NAME_BYTES];
    for (uint32_t i = 0; i < l->parts; i++) {
        const rt_param *base = &d->params[l->param[i]];
        l->adapter[i] = RT_NO_PARAM;
        if (!b->o->lora.rank || !(b->o->lora.roles >> base->role & 1)) continue;
        l->adapter[i] = d->param_count;
        for (int half = 0; half < 2; half++) {
            rt_param *p = &d->params[d->param_count++];
            uint32_t rows = half ? l->cols[i] : b->o->lora.rank, cols = half ? b->o->lora.rank : base->value.cols;
            *p = (rt_param){ .role = base->role, .layer = base->layer, .part = half ? 'B' : 'A' };
            rt_param_name(name, p);
            rt_dtype weight = b->o->policy->weight,
                     grad = b->o->accumulate ? b->o->policy->grad_many : b->o->policy->grad;
            p->value = b->o->train ? declare_trained(b, p, RT_CLASS_PARAM, weight, rows, cols, name)
                                   : declare(b, RT_CLASS_PARAM, weight, rows, cols, name);
            if (b->o->train) p->grad = declare_trained(b, p, RT_CLASS_GRAD, grad, rows, cols, name);
        }
    }
}

static void declare_linear(builder *b, rt_linear *l, uint32_t layer, uint32_t parts, const rt_role *weights,
                           const rt_role *biases, const char *what)
{
    l->parts = parts;
    l->coded = layer >= b->o->coded.first && layer < b->o->coded.end;
    for (uint32_t i = 0; i < parts; i++) l->param[i] = find(b->d, weights[i], layer);
    declare_weights(b, l, what);
    declare_biases(b, l, biases, layer, what);
    declare_adapters(b, l);
}

static void declare_layer(builder *b, uint32_t layer)
{
    static const rt_role qkv[] = { RT_ROLE_Q, RT_ROLE_K, RT_ROLE_V },
                         qkv_bias[] = { RT_ROLE_Q_BIAS, RT_ROLE_K_BIAS, RT_ROLE_V_BIAS }, out[] = { RT_ROLE_O },
                         out_bias[] = { RT_ROLE_O_BIAS }, gate_up[] = { RT_ROLE_GATE, RT_ROLE_UP },
                         gate_up_bias[] = { RT_ROLE_GATE_BIAS, RT_ROLE_UP_BIAS }, down[] = { RT_ROLE_DOWN },
                         down_bias[] = { RT_ROLE_DOWN_BIAS };
    rt_decoder *d = b->d;
    rt_layer *l = &d->layers[layer];
    l->attn_norm = find(d, RT_ROLE_ATTN_NORM, layer);
    l->mlp_norm = find(d, RT_ROLE_MLP_NORM, layer);
    l->q_norm = find(d, RT_ROLE_Q_NORM, layer);
    l->k_norm = find(d, RT_ROLE_K_NORM, layer);
    declare_one(b, l->attn_norm);
    declare_linear(b, &l->qkv, layer, 3, qkv, qkv_bias, "qkv");
    if (d->config.qk_norm) declare_one(b, l->q_norm), declare_one(b, l->k_norm);
    declare_linear(b, &l->out, layer, 1, out, out_bias, "out");
    declare_one(b, l->mlp_norm);
    declare_linear(b, &l->gate_up, layer, 2, gate_up, gate_up_bias, "gate_up");
    declare_linear(b, &l->down, layer, 1, down, down_bias, "down");
}

/* Backward goes no further down than something is trained. */
static void find_lowest(rt_decoder *d)
{
    d->embed_trained = d->params[d->embed].grad.buf != 0;
    d->lowest = d->config.layers;
    for (uint32_t i = 0; i < d->param_count; i++)
        if (rt_role_per_layer(d->params[i].role) && d->params[i].grad.buf && d->params[i].layer < d->lowest)
            d->lowest = d->params[i].layer;
    if (d->embed_trained) d->lowest = 0;
}

/* The model's only parameter is its head. */
static int build_head(builder *b, rt_err *e)
{
    rt_decoder *d = b->d;
    d->model_params = d->param_count = 1;
    d->params = rt_arena_alloc(&d->arena, sizeof *d->params);
    if (!d->params) return rt_fail(e, RT_NOMEM, "no memory for the parameters of %s", b->o->name);
    *d->params = (rt_param){ .role = d->config.tied ? RT_ROLE_EMBED : RT_ROLE_HEAD };
    d->embed = d->final_norm = RT_NO_PARAM;
    d->lowest = d->config.layers;
    declare_one(b, d->head);
    return rt_space_status(b->space, e);
}

static int build(builder *b, rt_err *e)
{
    rt_decoder *d = b->d;
    if (b->o->head_only) return build_head(b, e);
    uint32_t adapters = b->o->lora.rank ? 2 * (uint32_t)__builtin_popcount(b->o->lora.roles) * d->config.layers : 0;
    d->model_params = d->param_count = rt_param_count(&d->config);
    d->params = rt_arena_alloc(&d->arena, ((size_t)d->model_params + adapters) * sizeof *d->params);
    d->layers = rt_arena_alloc(&d->arena, (size_t)d->config.layers * sizeof *d->layers);
    if (!d->params || !d->layers) return rt_fail(e, RT_NOMEM, "no memory for the parameters of %s", b->o->name);
    for (uint32_t i = 0; i < d->model_params; i++) rt_param_at(&d->config, i, &d->params[i].role, &d->params[i].layer);
    d->embed = find(d, RT_ROLE_EMBED, 0);
    d->final_norm = find(d, RT_ROLE_FINAL_NORM, 0);
    if (b->o->buckets && b->o->train) {
        d->bucket_count = d->config.layers + 2;
        d->bucket = rt_arena_alloc(&d->arena, (size_t)d->bucket_count * sizeof *d->bucket);
        if (!d->bucket) return rt_fail(e, RT_NOMEM, "no memory for the parameters of %s", b->o->name);
    }
    d->head = d->config.tied ? d->embed : find(d, RT_ROLE_HEAD, 0);
    declare_one(b, d->embed);
    for (uint32_t i = 0; i < d->config.layers; i++) declare_layer(b, i);
    declare_one(b, d->final_norm);
    if (!d->config.tied) declare_one(b, d->head);
    d->freq = declare(b, RT_CLASS_INPUT, b->o->policy->scalar, 1, d->config.head_dim / 2, "rope frequencies");
    find_lowest(d);
    for (uint32_t i = 0; d->bucket && i < d->param_count; i++)
        d->params[i].bucket = rt_bucket_of(d, d->params[i].role, d->params[i].layer);
    return rt_space_status(b->space, e);
}

static void put_linear(rt_linear *l, uint32_t buf)
{
    if (l->grad.buf) l->grad.buf = buf;
    if (l->dbias.buf) l->dbias.buf = buf;
}

void rt_decoder_put_grads(rt_decoder *d, uint32_t bucket, rt_view grad)
{
    d->bucket[bucket].grad.buf = grad.buf;
    for (uint32_t i = 0; i < d->param_count; i++)
        if (d->params[i].grad.buf && d->params[i].bucket == bucket) d->params[i].grad.buf = grad.buf;
    for (uint32_t i = 0; i < d->config.layers; i++) {
        if (rt_bucket_of(d, RT_ROLE_ATTN_NORM, i) != bucket) continue;
        rt_layer *l = &d->layers[i];
        put_linear(&l->qkv, grad.buf);
        put_linear(&l->out, grad.buf);
        put_linear(&l->gate_up, grad.buf);
        put_linear(&l->down, grad.buf);
    }
}

/* Only GEMMs of a layer's forward take e4m3. */
static int check_e4m3(const rt_model_config *c, const rt_decoder_opts *o, rt_err *e)
{
    rt_role role;
    uint32_t layer;
    uint64_t shape[2];
    char name[RT_NAME_BYTES];
    if (o->train && o->coded.first < o->coded.end)
        return rt_fail(e, RT_INVALID, "%s: nothing is trained through weights that are multiplied as e4m3", o->name);
    for (uint32_t i = 0; o->dtypes && !o->head_only && rt_param_at(c, i, &role, &layer); i++) {
        if (o->dtypes[i] != RT_DTYPE_E4M3) continue;
        if (!rt_role_per_layer(role) || rt_role_shape(c, role, shape) != 2)
            return rt_fail(e, RT_INVALID, "%s cannot be e4m3; only matrices of layers can",
                           rt_role_hf_name(name, role, layer));
        if (o->train)
            return rt_fail(e, RT_INVALID, "%s is e4m3, and nothing is trained through such weights; keep it in bf16",
                           rt_role_hf_name(name, role, layer));
    }
    return RT_OK;
}

/* Away from the device they are read by forward alone. */
static int check_home(const rt_decoder_opts *o, rt_err *e)
{
    if (!rt_class_is_away(o->home) || (!o->train && !o->lora.rank && !o->head_only)) return RT_OK;
    return rt_fail(e, RT_INVALID,
                   "%s: the parameters of a model that is trained, or is a head alone, are on the device", o->name);
}

int rt_decoder_new(rt_decoder **out, rt_space *s, const rt_model_config *c, const rt_decoder_opts *o, rt_err *e)
{
    int rc;
    float *freq = NULL;
    rt_decoder *d = rt_alloc_zero(sizeof *d, 16);
    builder b = { d, s, o };
    if (!d) RT_TRY(rt_fail(e, RT_NOMEM, "no memory for a model"));
    RT_TRY(rt_config_check_shape(c, o->name, e));
    RT_TRY(check_e4m3(c, o, e));
    RT_TRY(check_home(o, e));
    if (o->lora.rank && (o->lora.roles & ~(uint32_t)RT_LORA_ROLES || !o->lora.roles))
        RT_TRY(rt_fail(e, RT_INVALID, "adapters stand beside q, k, v, o, gate, up and down projections only"));
    if (!(o->lora.dropout >= 0 && o->lora.dropout < 1))
        RT_TRY(rt_fail(e, RT_INVALID, "a dropout of %g is out of range (0 to below 1)", o->lora.dropout));
    d->config = *c;
    d->policy = *o->policy;
    d->lora = o->lora;
    RT_TRY(build(&b, e));
    freq = rt_alloc(sizeof *freq * (c->head_dim / 2), 16);
    if (!freq) RT_TRY(rt_fail(e, RT_NOMEM, "no memory for a rope table"));
    RT_TRY(rt_rope_freqs(freq, &d->rope_scale, c->head_dim, &c->rope, e));
    *out = d;
    d = NULL;
out:
    rt_free(freq);
    rt_decoder_free(d);
    return rc;
}

void rt_decoder_free(rt_decoder *d)
{
    if (!d) return;
    rt_arena_free(&d->arena);
    rt_free(d);
}
