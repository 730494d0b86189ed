/* gguf_config.c - the shape of a model from the keys of a GGUF file.
 *
 * Owns: what the keys mean, and what is left when they are silent: llama.cpp's rule. Biases, q/k norm and a head of its
 * own are there when their tensors are. Where the file carries the config.json that it was made from (retort.config),
 * and its shape is that of the keys, it is taken instead, since it says more. */
#include "format/gguf/gguf.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { KEY_BYTES = 160, MAX_UNKNOWN = 8 };

typedef struct reader {
    rt_model_file *m;
    const rt_gguf *g;
    const float *factors;
    uint64_t factor_count;
    bool present[RT_ROLE_COUNT + 1]; /* a tensor of this role is there */
    uint64_t embed_rows;             /* 0: no embedding */
    const char *arch;                /* prefix of the keys */
    char key[KEY_BYTES];
    rt_err *e;
} reader;

/* Keys that are understood or change no number. */
static const char *const known[] = {
    "block_count",
    "context_length",
    "embedding_length",
    "feed_forward_length",
    "vocab_size",
    "attention.head_count",
    "attention.head_count_kv",
    "attention.key_length",
    "attention.value_length",
    "attention.layer_norm_rms_epsilon",
    "attention.sliding_window",
    "rope.dimension_count",
    "rope.freq_base",
    "rope.scale_linear",
    "rope.scaling.type",
    "rope.scaling.factor",
    "rope.scaling.attn_factor",
    "rope.scaling.original_context_length",
    "rope.scaling.finetuned",
    "rope.scaling.yarn_ext_factor",
    "rope.scaling.yarn_attn_factor",
    "rope.scaling.yarn_beta_fast",
    "rope.scaling.yarn_beta_slow",
    "pooling_type",
    "tensor_data_layout",
    "expert_used_count",
};

/* Keys of which only the values that do nothing are supported. */
static const struct {
    const char *suffix;
    double nothing, also;
} neutral[] = {
    { "expert_count", 0, 0 },
    { "expert_shared_count", 0, 0 },
    { "nextn_predict_layers", 0, 0 },
    { "attn_logit_softcapping", 0, 0 },
    { "final_logit_softcapping", 0, 0 },
    { "logit_scale", 0, 1 },
    { "residual_scale", 0, 1 },
    { "embedding_scale", 0, 1 },
    { "attention.scale", 0, 0 },
    { "attention.clamp_kqv", 0, 0 },
    { "attention.max_alibi_bias", 0, 0 },
    { "attention.layer_norm_epsilon", 0, 0 },
    { "rope.scaling.alpha", 0, 0 },
    { "rope.scaling.yarn_log_multiplier", 0, 0 },
};

static const char *key_of(reader *r, const char *suffix)
{
    snprintf(r->key, sizeof r->key, "%s.%s", r->arch, suffix);
    return r->key;
}

static int get_u32(reader *r, const char *suffix, uint32_t *out)
{
    return rt_gguf_get_u32(r->g, key_of(r, suffix), out, r->e);
}
static int get_f64(reader *r, const char *suffix, double *out)
{
    return rt_gguf_get_f64(r->g, key_of(r, suffix), out, r->e);
}

static int need(reader *r, const char *suffix)
{
    if (rt_gguf_find(r->g, key_of(r, suffix))) return RT_OK;
    return rt_fail(r->e, RT_FORMAT, "%s: key '%s' is missing; convert the model again", r->g->path, r->key);
}

static int need_u32(reader *r, const char *suffix, uint32_t *out)
{
    int rc = need(r, suffix);
    return rc < 0 ? rc : get_u32(r, suffix, out);
}

static int refuse(reader *r, const char *suffix, const char *why)
{
    return rt_fail(r->e, RT_UNSUPPORTED, "%s: key '%s' %s; such a model is not supported", r->g->path,
                   key_of(r, suffix), why);
}

/* false when general.architecture is absent. */
static int read_family(reader *r, rt_model_config *c, bool *found)
{
    rt_span arch = { 0 };
    int rc = rt_gguf_get_string(r->g, "general.architecture", &arch, r->e);
    *found = false;
    if (rc < 0 || !arch.data) return rc;
    for (const rt_family *const *f = rt_families; *f && !*found; f++) {
        if (arch.len != strlen((*f)->gguf) || memcmp((*f)->gguf, arch.data, arch.len) != 0) continue;
        c->family = *f;
        r->arch = (*f)->gguf;
        *found = true;
    }
    char names[200];
    if (*found || r->m->tensor_count == 0) return RT_OK;
    return rt_fail(r->e, RT_UNSUPPORTED, "%s: its architecture is '%.*s'; those supported are %s", r->g->path,
                   arch.len > 60 ? 60 : (int)arch.len, arch.data, rt_family_list(names, sizeof names, true));
}

/* Of families that share an architecture the first is taken, unless it has no windows and the file has. */
static void choose_family(rt_model_config *c)
{
    const rt_family *first = c->family;
    if (c->window == 0 || first->windows != RT_WINDOW_NONE) return;
    for (const rt_family *const *f = rt_families; *f; f++) {
        if ((*f)->windows == RT_WINDOW_NONE || strcmp((*f)->gguf, first->gguf) != 0) continue;
        c->family = *f;
        return;
    }
}

static int check_neutral(reader *r)
{
    int rc = RT_OK;
    bool causal = true, parallel = false;
    for (size_t i = 0; i < sizeof neutral / sizeof neutral[0]; i++) {
        double v = neutral[i].nothing;
        RT_TRY(get_f64(r, neutral[i].suffix, &v));
        if (v != neutral[i].nothing && v != neutral[i].also)
            return refuse(r, neutral[i].suffix, i == 0 ? "says that it is a mixture of experts" : "is set");
    }
    RT_TRY(rt_gguf_get_bool(r->g, key_of(r, "attention.causal"), &causal, r->e));
    if (!causal) return refuse(r, "attention.causal", "is false: it is no decoder");
    RT_TRY(rt_gguf_get_bool(r->g, key_of(r, "use_parallel_residual"), &parallel, r->e));
    if (parallel) return refuse(r, "use_parallel_residual", "is true");
out:
    return rc;
}

static bool is_known(const char *suffix, size_t len)
{
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++)
        if (strlen(known[i]) == len && memcmp(known[i], suffix, len) == 0) return true;
    for (size_t i = 0; i < sizeof neutral / sizeof neutral[0]; i++)
        if (strlen(neutral[i].suffix) == len && memcmp(neutral[i].suffix, suffix, len) == 0) return true;
    return (len == 16 && memcmp(suffix, "attention.causal", 16) == 0) ||
           (len == 21 && memcmp(suffix, "use_parallel_residual", 21) == 0);
}

static void note_unknown(reader *r)
{
    size_t n = strlen(r->arch);
    uint32_t noted = 0;
    for (uint32_t i = 0; i < r->g->key_count && noted < MAX_UNKNOWN; i++) {
        rt_span k = r->g->keys[i].name;
        if (k.len <= n + 1 || memcmp(k.data, r->arch, n) != 0 || k.data[n] != '.') continue;
        if (is_known(k.data + n + 1, k.len - n - 1)) continue;
        rt_model_note(r->m, "key '%.*s' is not known to this reader and was left out", k.len > 100 ? 100 : (int)k.len,
                      k.data);
        noted++;
    }
}

static int read_shape(reader *r, rt_model_config *c)
{
    int rc;
    uint32_t value_dim, rope_dim;
    RT_TRY(need_u32(r, "block_count", &c->layers));
    RT_TRY(need_u32(r, "context_length", &c->context));
    RT_TRY(need_u32(r, "embedding_length", &c->width));
    RT_TRY(need_u32(r, "feed_forward_length", &c->hidden));
    RT_TRY(need_u32(r, "attention.head_count", &c->heads));
    c->kv_heads = c->heads;
    RT_TRY(get_u32(r, "attention.head_count_kv", &c->kv_heads));
    c->head_dim = c->heads ? c->width / c->heads : 0;
    RT_TRY(get_u32(r, "attention.key_length", &c->head_dim));
    value_dim = rope_dim = c->head_dim;
    RT_TRY(get_u32(r, "attention.value_length", &value_dim));
    if (value_dim != c->head_dim) return refuse(r, "attention.value_length", "differs from attention.key_length");
    RT_TRY(get_u32(r, "rope.dimension_count", &rope_dim));
    if (rope_dim != c->head_dim) return refuse(r, "rope.dimension_count", "differs from the width of a head");
    uint32_t vocab = r->m->text.vocab.token_count;
    RT_TRY(get_u32(r, "vocab_size", &vocab));
    if (r->embed_rows > UINT32_MAX)
        return rt_fail(r->e, RT_FORMAT, "%s: token_embd.weight has %llu rows; convert the model again", r->g->path,
                       (unsigned long long)r->embed_rows);
    c->vocab = r->embed_rows ? (uint32_t)r->embed_rows : vocab;
    if (vocab != 0 && vocab != c->vocab)
        rt_model_note(r->m, "the vocabulary has %u entries, the embedding %u rows; the rows count", vocab, c->vocab);
out:
    return rc;
}

static int read_yarn(reader *r, rt_model_config *c)
{
    int rc;
    double extra = 1, attn = 1;
    rt_rope_scaling *s = &c->rope;
    s->kind = RT_ROPE_YARN;
    s->original_context = c->context;
    RT_TRY(get_f64(r, "rope.scaling.original_context_length", &s->original_context));
    RT_TRY(get_f64(r, "rope.scaling.yarn_beta_fast", &s->beta_fast));
    RT_TRY(get_f64(r, "rope.scaling.yarn_beta_slow", &s->beta_slow));
    RT_TRY(get_f64(r, "rope.scaling.yarn_ext_factor", &extra));
    if (extra != 1 && extra != -1) return refuse(r, "rope.scaling.yarn_ext_factor", "is neither 1 nor left open");
    /* The first key is a factor on the default, the second is the whole. */
    RT_TRY(get_f64(r, "rope.scaling.attn_factor", &attn));
    if (attn != 1) s->attention_factor = attn * rt_gguf_yarn_default(s->factor);
    RT_TRY(get_f64(r, "rope.scaling.yarn_attn_factor", &s->attention_factor));
out:
    return rc;
}

static int read_rope(reader *r, rt_model_config *c)
{
    int rc;
    double factor = 0;
    rt_span type = { "linear", 6 }; /* llama.cpp's, of factor 1 when there is none */
    c->rope = (rt_rope_scaling){ .theta = 10000 };
    RT_TRY(get_f64(r, "rope.freq_base", &c->rope.theta));
    RT_TRY(get_f64(r, "rope.scale_linear", &factor));
    RT_TRY(get_f64(r, "rope.scaling.factor", &factor));
    RT_TRY(rt_gguf_get_string(r->g, key_of(r, "rope.scaling.type"), &type, r->e));
    bool linear = type.len == 6 && memcmp(type.data, "linear", 6) == 0;
    if (linear && factor != 0 && factor != 1) {
        c->rope.kind = RT_ROPE_LINEAR;
        c->rope.factor = factor;
    } else if (type.len == 4 && memcmp(type.data, "yarn", 4) == 0) {
        c->rope.factor = factor == 0 ? 1 : factor;
        RT_TRY(read_yarn(r, c));
    } else if (!linear && !(type.len == 4 && memcmp(type.data, "none", 4) == 0)) {
        char why[100];
        snprintf(why, sizeof why, "is '%.*s'", type.len > 60 ? 60 : (int)type.len, type.data);
        return refuse(r, "rope.scaling.type", why);
    }
out:
    return rc;
}

static void read_ids(const reader *r, rt_model_config *c)
{
    const rt_model_text *t = &r->m->text;
    c->bos = t->vocab.bos;
    c->pad = t->pad;
    if (t->vocab.eos >= 0) c->eos[c->eos_count++] = t->vocab.eos;
    if (t->eot >= 0 && t->eot != t->vocab.eos) c->eos[c->eos_count++] = t->eot;
}

static int read_keys(reader *r, rt_model_config *c)
{
    int rc;
    RT_TRY(check_neutral(r));
    RT_TRY(read_shape(r, c));
    RT_TRY(need(r, "attention.layer_norm_rms_epsilon"));
    RT_TRY(get_f64(r, "attention.layer_norm_rms_epsilon", &c->norm_eps));
    RT_TRY(read_rope(r, c));
    RT_TRY(get_u32(r, "attention.sliding_window", &c->window));
    choose_family(c);
    c->qkv_bias = r->present[RT_ROLE_Q_BIAS];
    c->o_bias = r->present[RT_ROLE_O_BIAS];
    c->mlp_bias = r->present[RT_ROLE_GATE_BIAS] || r->present[RT_ROLE_UP_BIAS] || r->present[RT_ROLE_DOWN_BIAS];
    c->qk_norm = r->present[RT_ROLE_Q_NORM];
    c->tied = !r->present[RT_ROLE_HEAD];
    c->init_range = 0.02;
    rt_config_usual_layers(c);
    read_ids(r, c);
out:
    return rc;
}

/* ---- the config.json that the file was made from ---- */

static bool same_f32(double a, double b) { return (float)a == (float)b; }

static bool same_yarn(const rt_rope_scaling *a, const rt_rope_scaling *b)
{
    float freq[1], scale_a, scale_b;
    /* Asked for the factor on cos and sin alone, which has several spellings. */
    if (rt_rope_freqs(freq, &scale_a, 2, a, NULL) < 0 || rt_rope_freqs(freq, &scale_b, 2, b, NULL) < 0) return false;
    return fabs((double)scale_a / (double)scale_b - 1) < 1e-5 && a->original_context == b->original_context &&
           same_f32(a->beta_fast != 0 ? a->beta_fast : 32, b->beta_fast != 0 ? b->beta_fast : 32) &&
           same_f32(a->beta_slow != 0 ? a->beta_slow : 1, b->beta_slow != 0 ? b->beta_slow : 1);
}

static bool same_rope(const reader *r, const rt_model_config *keys, const rt_model_config *json)
{
    const rt_rope_scaling *a = &keys->rope, *b = &json->rope;
    if (!same_f32(a->theta, b->theta)) return false;
    if (r->factors) return b->kind == RT_ROPE_LLAMA3 && rt_gguf_rope_fits(r->factors, json->head_dim, b);
    if (a->kind != b->kind) return false;
    if (a->kind != RT_ROPE_PLAIN && !same_f32(a->factor, b->factor)) return false;
    return a->kind != RT_ROPE_YARN || same_yarn(a, b);
}

static bool same_shape(const reader *r, const rt_model_config *a, const rt_model_config *b)
{
    return strcmp(a->family->gguf, b->family->gguf) == 0 && a->layers == b->layers && a->width == b->width &&
           a->heads == b->heads && a->kv_heads == b->kv_heads && a->head_dim == b->head_dim && a->hidden == b->hidden &&
           a->vocab == b->vocab && a->context == b->context && a->qkv_bias == b->qkv_bias && a->o_bias == b->o_bias &&
           a->mlp_bias == b->mlp_bias && a->qk_norm == b->qk_norm && a->tied == b->tied &&
           same_f32(a->norm_eps, b->norm_eps) && a->window == b->window && same_rope(r, a, b);
}

/* *used: c is now what config.json says. */
static int use_json(reader *r, rt_model_config *c, bool *used)
{
    rt_span text = { 0 };
    rt_model_config json;
    rt_err why = { 0 };
    char where[400];
    *used = false;
    int rc = rt_gguf_get_string(r->g, RT_GGUF_KEY_CONFIG, &text, r->e);
    if (rc < 0 || !text.data) return rc;
    snprintf(where, sizeof where, "%s: key '" RT_GGUF_KEY_CONFIG "'", r->g->path);
    memset(&json, 0, sizeof json);
    rc = rt_config_from_json(&json, text.data, text.len, where, &r->m->arena, &why);
    if (rc == RT_NOMEM) return rt_fail(r->e, rc, "%s", why.text);
    if (rc < 0) {
        rt_model_note(r->m, "the config.json in key '" RT_GGUF_KEY_CONFIG "' was left out: %s", why.text);
    } else if (!same_shape(r, c, &json)) {
        rt_model_note(r->m, "the config.json in key '" RT_GGUF_KEY_CONFIG
                            "' describes another model than the file's other keys and tensors, and was left out");
    } else {
        *c = json;
        *used = true;
    }
    return RT_OK;
}

static int read_factors(reader *r, rt_model_config *c)
{
    if (!r->factors) return RT_OK;
    if (r->factor_count != c->head_dim / 2)
        return rt_fail(r->e, RT_FORMAT,
                       "%s: tensor '" RT_GGUF_ROPE_FREQS "' has %llu elements, a head of %u asks for "
                       "%u; convert the model again",
                       r->g->path, (unsigned long long)r->factor_count, c->head_dim, c->head_dim / 2);
    if (c->rope.kind != RT_ROPE_PLAIN)
        return rt_fail(r->e, RT_UNSUPPORTED,
                       "%s: has both tensor '" RT_GGUF_ROPE_FREQS "' and key "
                       "'%s.rope.scaling.type'; such a model is not supported",
                       r->g->path, r->arch);
    return RT_OK;
}

static int recover_factors(reader *r, rt_model_config *c)
{
    if (!r->factors || rt_gguf_rope_recover(&c->rope, r->factors, c->head_dim)) return RT_OK;
    return rt_fail(r->e, RT_UNSUPPORTED,
                   "%s: the factors in tensor '" RT_GGUF_ROPE_FREQS "' are not those of a known "
                   "llama3 rope scaling; convert the model from its Hugging Face directory instead",
                   r->g->path);
}

int rt_gguf_read_config(rt_model_file *m, const rt_gguf *g, const float *factors, uint64_t factor_count, rt_err *e)
{
    int rc;
    bool found, used = false;
    reader r = { .m = m, .g = g, .factors = factors, .factor_count = factor_count, .e = e };
    rt_model_config *c = &m->config;
    *c = (rt_model_config){ .bos = -1, .pad = -1 };
    RT_TRY(read_family(&r, c, &found));
    if (!found || m->tensor_count == 0) {
        /* Whether there are biases, or a head, only tensors tell. */
        rt_model_note(m, m->tensor_count == 0 ? "the file has no tensors: a vocabulary only"
                                              : "the file does not name its architecture (key 'general.architecture')");
        goto out;
    }
    for (uint32_t i = 0; i < m->tensor_count; i++) {
        r.present[m->tensors[i].role] = true;
        if (m->tensors[i].role == RT_ROLE_EMBED && m->tensors[i].rank == 2) r.embed_rows = m->tensors[i].shape[0];
    }
    RT_TRY(read_keys(&r, c));
    RT_TRY(rt_config_check(c, g->path, e));
    RT_TRY(read_factors(&r, c));
    RT_TRY(use_json(&r, c, &used));
    if (!used) RT_TRY(recover_factors(&r, c));
    note_unknown(&r);
    m->has_config = true;
out:
    return rc;
}
