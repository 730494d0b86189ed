/* gguf_keys_write.c - the keys of a GGUF output: everything that llama.cpp asks for, as its converter writes it, and
 * the config.json beside it, so that nothing is lost on the way back.
 *
 * Owns: which keys there are and what they say. The header and the tensors' descriptions are gguf_layout.c. */
#include "format/gguf/gguf.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { QUANTIZATION_VERSION = 2, KEY_BYTES = 160 };
#define TOK "tokenizer.ggml."

typedef struct writer {
    const rt_model_out *o;
    rt_str *out;
    uint64_t count;
    char key[KEY_BYTES];
} writer;

/* ---- single keys ---- */

static void put_string(writer *w, const char *text, size_t len)
{
    uint64_t n = len;
    rt_gguf_append(w->out, &n, 8);
    rt_gguf_append(w->out, text, len);
}

static void begin(writer *w, const char *key, uint32_t type)
{
    put_string(w, key, strlen(key));
    rt_gguf_append(w->out, &type, 4);
    w->count++;
}

static void begin_array(writer *w, const char *key, uint32_t type, uint64_t count)
{
    begin(w, key, RT_GGUF_ARRAY);
    rt_gguf_append(w->out, &type, 4);
    rt_gguf_append(w->out, &count, 8);
}

static void key_value(writer *w, const char *key, uint32_t type, const void *value, size_t bytes)
{
    begin(w, key, type);
    rt_gguf_append(w->out, value, bytes);
}

static void key_u32(writer *w, const char *key, uint32_t value) { key_value(w, key, RT_GGUF_U32, &value, 4); }

static void key_f32(writer *w, const char *key, double value)
{
    float f = (float)value;
    key_value(w, key, RT_GGUF_F32, &f, 4);
}

static void key_span(writer *w, const char *key, rt_span text)
{
    if (!text.data) return;
    begin(w, key, RT_GGUF_STRING);
    put_string(w, text.data, text.len);
}

static void key_text(writer *w, const char *key, const char *text)
{
    key_span(w, key, (rt_span){ text, strlen(text) });
}

/* -1: not given, no key */
static void key_id(writer *w, const char *key, int64_t id)
{
    if (id >= 0) key_u32(w, key, (uint32_t)id);
}
static void key_flag(writer *w, const char *key, int value)
{
    uint8_t set = value != 0;
    if (value >= 0) key_value(w, key, RT_GGUF_BOOL, &set, 1);
}

static const char *arch(writer *w, const char *suffix)
{
    snprintf(w->key, sizeof w->key, "%s.%s", w->o->config->family->gguf, suffix);
    return w->key;
}

/* ---- what the file is ---- */

/* The type of which the layers' matrices have most elements. */
static rt_dtype most_used(const rt_model_out *o, bool seen[RT_DTYPE_COUNT])
{
    uint64_t elems[RT_DTYPE_COUNT] = { 0 };
    rt_dtype best = RT_DTYPE_F32;
    for (uint32_t i = 0; i < o->tensor_count; i++) {
        uint64_t shape[2];
        const rt_out_tensor *t = &o->tensors[i];
        if (rt_role_shape(o->config, t->role, shape) != 2 || !rt_role_per_layer(t->role)) continue;
        seen[t->dtype] = true;
        elems[t->dtype] += shape[0] * shape[1];
        if (elems[t->dtype] > elems[best]) best = t->dtype;
    }
    return best;
}

/* llama.cpp's number for the mixture; a mixture is named by its small type, also where most rows fell back from it. */
static uint32_t file_type(const bool seen[RT_DTYPE_COUNT], rt_dtype most)
{
    bool better = seen[RT_DTYPE_Q6_K] || seen[RT_DTYPE_Q8_0];
    if (seen[RT_DTYPE_Q2_K]) return 10;
    if (seen[RT_DTYPE_Q3_K]) return 12;
    if (seen[RT_DTYPE_Q4_K]) return better ? 15 : 14;
    if (seen[RT_DTYPE_Q5_K]) return better ? 17 : 16;
    switch (most) {
    case RT_DTYPE_F16: return 1;
    case RT_DTYPE_Q4_0: return 2;
    case RT_DTYPE_Q4_1: return 3;
    case RT_DTYPE_Q8_0: return 7;
    case RT_DTYPE_Q5_0: return 8;
    case RT_DTYPE_Q5_1: return 9;
    case RT_DTYPE_Q6_K: return 18;
    case RT_DTYPE_IQ4_NL: return 25;
    case RT_DTYPE_IQ4_XS: return 30;
    case RT_DTYPE_BF16: return 32;
    default: return 0;
    }
}

/* "494M", "1.5B": at least two digits. */
static void put_size_label(writer *w)
{
    static const struct {
        double unit;
        const char *letter;
    } units[] = { { 1e12, "T" }, { 1e9, "B" }, { 1e6, "M" }, { 1e3, "K" } };
    char text[32];
    uint64_t n;
    size_t u = 0;
    if (!rt_config_parameters(w->o->config, &n)) return;
    while (u < 3 && (double)n < units[u].unit) u++;
    double scaled = (double)n / units[u].unit;
    snprintf(text, sizeof text, "%.*f%s", scaled < 9.5 ? 1 : 0, scaled, units[u].letter);
    key_text(w, "general.size_label", text);
}

static void put_general(writer *w, uint32_t type)
{
    key_text(w, "general.architecture", w->o->config->family->gguf);
    key_text(w, "general.type", "model");
    if (w->o->name) key_text(w, "general.name", w->o->name);
    put_size_label(w);
    key_u32(w, "general.file_type", type);
    key_u32(w, "general.quantization_version", QUANTIZATION_VERSION);
}

/* ---- its shape ---- */

/* llama.cpp multiplies its own default by attn_factor, and its converter writes the whole under another name. */
static void put_yarn(writer *w, const rt_rope_scaling *s)
{
    double own = rt_gguf_yarn_default(s->factor), whole = s->attention_factor;
    if (whole == 0 && s->mscale != 0 && s->mscale_all_dim != 0 && s->factor > 1)
        whole = (0.1 * s->mscale * log(s->factor) + 1) / (0.1 * s->mscale_all_dim * log(s->factor) + 1);
    if (whole != 0) {
        key_f32(w, arch(w, "rope.scaling.attn_factor"), whole / own);
        key_f32(w, arch(w, "rope.scaling.yarn_attn_factor"), whole);
    }
    if (s->beta_fast != 0) key_f32(w, arch(w, "rope.scaling.yarn_beta_fast"), s->beta_fast);
    if (s->beta_slow != 0) key_f32(w, arch(w, "rope.scaling.yarn_beta_slow"), s->beta_slow);
    key_u32(w, arch(w, "rope.scaling.original_context_length"), (uint32_t)s->original_context);
}

static void put_rope(writer *w)
{
    const rt_model_config *c = w->o->config;
    key_u32(w, arch(w, "rope.dimension_count"), c->head_dim);
    key_f32(w, arch(w, "rope.freq_base"), c->rope.theta);
    if (c->rope.kind != RT_ROPE_LINEAR && c->rope.kind != RT_ROPE_YARN) return;
    key_text(w, arch(w, "rope.scaling.type"), c->rope.kind == RT_ROPE_LINEAR ? "linear" : "yarn");
    key_f32(w, arch(w, "rope.scaling.factor"), c->rope.factor);
    if (c->rope.kind == RT_ROPE_YARN) put_yarn(w, &c->rope);
}

static void put_shape(writer *w)
{
    const rt_model_config *c = w->o->config;
    key_u32(w, arch(w, "block_count"), c->layers);
    key_u32(w, arch(w, "context_length"), c->context);
    key_u32(w, arch(w, "embedding_length"), c->width);
    key_u32(w, arch(w, "feed_forward_length"), c->hidden);
    key_u32(w, arch(w, "vocab_size"), c->vocab);
    key_u32(w, arch(w, "attention.head_count"), c->heads);
    key_u32(w, arch(w, "attention.head_count_kv"), c->kv_heads);
    key_u32(w, arch(w, "attention.key_length"), c->head_dim);
    key_u32(w, arch(w, "attention.value_length"), c->head_dim);
    key_f32(w, arch(w, "attention.layer_norm_rms_epsilon"), c->norm_eps);
    if (c->window) key_u32(w, arch(w, "attention.sliding_window"), c->window);
    put_rope(w);
}

/* ---- its tokenizer ---- */

/* The embedding may have more rows than the tokenizer has tokens; llama.cpp wants a token for each. */
static void put_tokens(writer *w, const rt_vocab_spec *v, uint32_t rows)
{
    bool llama = strcmp(v->model, "llama") == 0;
    begin_array(w, TOK "tokens", RT_GGUF_STRING, rows);
    for (uint32_t i = 0; i < rows; i++) {
        char padding[32];
        if (i < v->token_count)
            put_string(w, v->tokens[i].data, v->tokens[i].len);
        else
            put_string(w, padding, (size_t)snprintf(padding, sizeof padding, "[PAD%u]", i));
    }
    if (v->scores || llama) {
        begin_array(w, TOK "scores", RT_GGUF_F32, rows);
        for (uint32_t i = 0; i < rows; i++) {
            float score = i >= v->token_count ? -10000.0f : v->scores ? v->scores[i] : -(float)i;
            rt_gguf_append(w->out, &score, 4);
        }
    }
    begin_array(w, TOK "token_type", RT_GGUF_I32, rows);
    for (uint32_t i = 0; i < rows; i++) {
        int32_t type = i >= v->token_count ? RT_VOCAB_UNUSED : v->types ? v->types[i] : RT_VOCAB_NORMAL;
        rt_gguf_append(w->out, &type, 4);
    }
    /* A byte-level vocabulary may have none, but llama.cpp looks for the key. */
    if (!v->merges && strcmp(v->model, "gpt2") != 0) return;
    begin_array(w, TOK "merges", RT_GGUF_STRING, v->merge_count);
    for (uint32_t i = 0; i < v->merge_count; i++) put_string(w, v->merges[i].data, v->merges[i].len);
}

static int put_vocab(writer *w, const rt_model_text *t, rt_err *e)
{
    const rt_vocab_spec *v = &t->vocab;
    uint32_t rows = w->o->config->vocab;
    if (v->token_count > rows)
        return rt_fail(e, RT_INVALID,
                       "%s: the tokenizer has %u tokens, but the embedding only %u rows; GGUF needs a row for each: "
                       "take the tokenizer that belongs to the model",
                       w->o->path, v->token_count, rows);
    key_text(w, TOK "model", v->model);
    if (v->pre)
        key_text(w, TOK "pre", v->pre);
    else if (strcmp(v->model, "llama") == 0)
        key_text(w, TOK "pre", "default");
    put_tokens(w, v, rows);
    key_id(w, TOK "bos_token_id", v->bos);
    key_id(w, TOK "eos_token_id", v->eos);
    key_id(w, TOK "eot_token_id", t->eot);
    key_id(w, TOK "unknown_token_id", t->unk);
    key_id(w, TOK "padding_token_id", t->pad);
    key_flag(w, TOK "add_bos_token", v->add_bos);
    key_flag(w, TOK "add_eos_token", v->add_eos);
    key_flag(w, TOK "add_space_prefix", v->add_space_prefix);
    return RT_OK;
}

static int put_text(writer *w, rt_err *e)
{
    int rc = RT_OK;
    const rt_model_text *t = w->o->text;
    if (t && t->has_vocab)
        RT_TRY(put_vocab(w, t, e));
    else
        key_text(w, TOK "model", "none");
    if (!t) goto out;
    key_span(w, "tokenizer.chat_template", t->chat_template);
    key_span(w, "tokenizer.huggingface.json", t->tokenizer_json);
    key_span(w, RT_GGUF_KEY_TOKENIZER_CONFIG, t->tokenizer_config);
    key_span(w, RT_GGUF_KEY_GENERATION_CONFIG, t->generation_config);
out:
    return rc;
}

void rt_gguf_write_adapter_keys(const rt_model_file *m, double alpha, rt_str *out, uint64_t *count)
{
    writer w = { .out = out };
    key_text(&w, "general.architecture", m->config.family->gguf);
    key_text(&w, "general.type", "adapter");
    key_text(&w, "general.name", m->name);
    key_text(&w, "adapter.type", "lora");
    key_f32(&w, "adapter.lora.alpha", alpha);
    *count = w.count;
}

int rt_gguf_write_keys(const rt_model_out *o, rt_str *out, uint64_t *count, rt_err *e)
{
    int rc;
    bool seen[RT_DTYPE_COUNT] = { false };
    rt_str json = { 0 };
    writer w = { .o = o, .out = out };
    rt_dtype most = most_used(o, seen);
    put_general(&w, file_type(seen, most));
    put_shape(&w);
    RT_TRY(put_text(&w, e));
    bool half = most == RT_DTYPE_F32 || most == RT_DTYPE_F16;
    RT_TRY(rt_config_to_json(o->config, half ? most : RT_DTYPE_BF16, &json, e));
    key_span(&w, RT_GGUF_KEY_CONFIG, (rt_span){ json.data, json.len });
    *count = w.count;
    if (out->failed) rc = rt_no_memory(e, o->path);
out:
    rt_str_free(&json);
    return rc;
}
