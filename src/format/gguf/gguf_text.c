/* gguf_text.c - the tokenizer that a GGUF file carries: its vocabulary, special ids and chat template.
 *
 * Owns: tokenizer.* keys. Texts are spans into the mapped file; arrays of numbers are copied once, to be aligned. How
 * text becomes ids is the text room's. */
#include "format/gguf/gguf.h"

#include <string.h>

#define KEY "tokenizer.ggml."

/* -1 when absent. llama.cpp passes over an id that is outside of the vocabulary, and so do we, but we say so. */
static int read_id(rt_model_file *m, const rt_gguf *g, const char *key, int64_t otherwise, int64_t *out, rt_err *e)
{
    uint32_t id = UINT32_MAX;
    int rc = rt_gguf_get_u32(g, key, &id, e);
    *out = otherwise;
    if (rc < 0 || id == UINT32_MAX) return rc;
    if (id < m->text.vocab.token_count)
        *out = id;
    else
        rt_model_note(m, "key '%s' is %u, outside of the vocabulary of %u tokens; it was left out", key, id,
                      m->text.vocab.token_count);
    return RT_OK;
}

static int read_flag(const rt_gguf *g, const char *key, int *out, rt_err *e)
{
    bool value = false;
    int rc = rt_gguf_get_bool(g, key, &value, e);
    *out = rt_gguf_find(g, key) ? value : -1;
    return rc;
}

static int read_ids(rt_model_file *m, const rt_gguf *g, rt_err *e)
{
    int rc;
    rt_vocab_spec *v = &m->text.vocab;
    /* What llama.cpp takes for vocabularies of this kind when the keys are missing. */
    bool llama = strcmp(v->model, "llama") == 0 && v->token_count > 2;
    RT_TRY(read_id(m, g, KEY "bos_token_id", llama ? 1 : -1, &v->bos, e));
    RT_TRY(read_id(m, g, KEY "eos_token_id", llama ? 2 : -1, &v->eos, e));
    RT_TRY(read_id(m, g, KEY "unknown_token_id", llama ? 0 : -1, &m->text.unk, e));
    RT_TRY(read_id(m, g, KEY "padding_token_id", -1, &m->text.pad, e));
    RT_TRY(read_id(m, g, KEY "eot_token_id", -1, &m->text.eot, e));
    RT_TRY(read_flag(g, KEY "add_bos_token", &v->add_bos, e));
    RT_TRY(read_flag(g, KEY "add_eos_token", &v->add_eos, e));
    RT_TRY(read_flag(g, KEY "add_space_prefix", &v->add_space_prefix, e));
out:
    return rc;
}

static int check_length(const rt_gguf *g, const char *key, uint64_t count, uint32_t tokens, rt_err *e)
{
    if (count == 0 || count == tokens) return RT_OK;
    return rt_fail(e, RT_FORMAT, "%s: key '%s' has %llu entries for %u tokens; convert the model again", g->path, key,
                   (unsigned long long)count, tokens);
}

static int read_vocab(rt_model_file *m, const rt_gguf *g, rt_span model, rt_err *e)
{
    int rc;
    rt_vocab_spec *v = &m->text.vocab;
    rt_span pre = { 0 };
    uint64_t scores, types;
    v->model = rt_span_copy(&m->arena, model.data, model.len).data;
    if (!v->model) return rt_no_memory(e, g->path);
    RT_TRY(rt_gguf_get_string(g, KEY "pre", &pre, e));
    if (pre.data && !(v->pre = rt_span_copy(&m->arena, pre.data, pre.len).data)) return rt_no_memory(e, g->path);
    RT_TRY(rt_gguf_get_strings(g, KEY "tokens", &v->tokens, &v->token_count, &m->arena, e));
    if (v->token_count == 0)
        return rt_fail(e, RT_FORMAT,
                       "%s: has a tokenizer '%.60s' without tokens (key '" KEY "tokens'); convert the "
                       "model again",
                       g->path, v->model);
    RT_TRY(rt_gguf_get_strings(g, KEY "merges", &v->merges, &v->merge_count, &m->arena, e));
    RT_TRY(rt_gguf_get_f32s(g, KEY "scores", &v->scores, &scores, &m->arena, e));
    RT_TRY(rt_gguf_get_i32s(g, KEY "token_type", &v->types, &types, &m->arena, e));
    RT_TRY(check_length(g, KEY "scores", scores, v->token_count, e));
    RT_TRY(check_length(g, KEY "token_type", types, v->token_count, e));
    if (scores == 0) v->scores = NULL;
    if (types == 0) v->types = NULL;
    RT_TRY(read_ids(m, g, e));
    m->text.has_vocab = true;
out:
    return rc;
}

int rt_gguf_read_text(rt_model_file *m, const rt_gguf *g, rt_err *e)
{
    int rc;
    rt_model_text *t = &m->text;
    rt_span model = { 0 };
    t->unk = t->pad = t->eot = -1;
    t->vocab = (rt_vocab_spec){ .bos = -1, .eos = -1, .add_bos = -1, .add_eos = -1, .add_space_prefix = -1 };
    RT_TRY(rt_gguf_get_string(g, KEY "model", &model, e));
    RT_TRY(rt_gguf_get_string(g, "tokenizer.chat_template", &t->chat_template, e));
    RT_TRY(rt_gguf_get_string(g, "tokenizer.huggingface.json", &t->tokenizer_json, e));
    RT_TRY(rt_gguf_get_string(g, RT_GGUF_KEY_TOKENIZER_CONFIG, &t->tokenizer_config, e));
    RT_TRY(rt_gguf_get_string(g, RT_GGUF_KEY_GENERATION_CONFIG, &t->generation_config, e));
    /* Two words for a model that comes without. */
    bool none = model.len == 0 || (model.len == 4 && memcmp(model.data, "none", 4) == 0) ||
                (model.len == 8 && memcmp(model.data, "no_vocab", 8) == 0);
    if (!none) RT_TRY(read_vocab(m, g, model, e));
out:
    return rc;
}
