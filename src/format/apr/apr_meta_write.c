/* apr_meta_write.c - metadata of an APR output.
 *
 * Owns: the keys, each concept under one name, because a reader of the format drops all metadata where a name and its
 * alias stand together; what is left out when 16 MiB are too few. "retort.config" holds the whole config.json and
 * "retort.tokenizer_json" the whole tokenizer.json, so that a way through APR loses nothing. */
#include "base/json.h"
#include "base/utf8.h"
#include "format/apr/apr.h"

#include <jansson.h>
#include <math.h>

static void put_key_text(rt_str *s, const char *key, const char *text)
{
    rt_json_put_key(s, key);
    if (!rt_json_put_text(s, text, strlen(text))) rt_str_append(s, "null");
}

static void put_key_int(rt_str *s, const char *key, int64_t value)
{
    rt_json_put_key(s, key);
    rt_str_printf(s, "%lld", (long long)value);
}

static void put_key_real(rt_str *s, const char *key, double value)
{
    rt_json_put_key(s, key);
    rt_json_put_double(s, value);
}

/* A text that was read from a file; RT_INVALID when it cannot be said in JSON. */
static int put_key_span(rt_str *s, const char *key, rt_span text, rt_err *e)
{
    if (!text.data) return RT_OK;
    rt_json_put_key(s, key);
    if (rt_json_put_text(s, text.data, text.len)) return RT_OK;
    return rt_fail(e, RT_INVALID, "\"%s\" for an APR file is not valid UTF-8 text (at byte %zu)", key,
                   rt_utf8_valid(text.data, text.len));
}

static int put_config(const rt_model_out *o, rt_str *s, rt_err *e)
{
    const rt_model_config *c = o->config;
    const rt_family *f = c->family;
    rt_str config = { 0 };
    uint64_t elements = 0, bytes = 0;
    int rc;
    rt_config_parameters(c, &elements);
    for (uint32_t i = 0; i < o->tensor_count; i++) bytes += rt_out_tensor_bytes(o, i);
    put_key_text(s, "model_type", f->name);
    if (o->name) put_key_text(s, "name", o->name);
    put_key_int(s, "total_size", (int64_t)bytes);
    put_key_int(s, "param_count", (int64_t)elements);
    put_key_text(s, "architecture", f->name);
    put_key_text(s, "hf_architecture", f->hf_class);
    put_key_text(s, "hf_model_type", f->name);
    put_key_int(s, "hidden_size", c->width);
    put_key_int(s, "num_layers", c->layers);
    put_key_int(s, "num_heads", c->heads);
    put_key_int(s, "num_kv_heads", c->kv_heads);
    put_key_int(s, "head_dim", c->head_dim);
    put_key_int(s, "vocab_size", c->vocab);
    put_key_int(s, "intermediate_size", c->hidden);
    put_key_int(s, "max_position_embeddings", c->context);
    put_key_real(s, "rope_theta", c->rope.theta);
    put_key_int(s, "rope_type", 2);
    put_key_real(s, "rms_norm_eps", c->norm_eps);
    RT_TRY(rt_config_to_json(c, rt_out_main_dtype(o), &config, e));
    RT_TRY(put_key_span(s, "retort.config", (rt_span){ config.data, config.len }, e));
out:
    rt_str_free(&config);
    return rc;
}

/* ---- vocabulary ---- */

static int put_texts(rt_str *s, const char *key, const rt_tok_text *texts, uint32_t count, rt_err *e)
{
    rt_json_put_key(s, key);
    rt_str_append(s, "[");
    for (uint32_t i = 0; i < count; i++) {
        if (i > 0) rt_str_append_n(s, ",", 1);
        if (!rt_json_put_text(s, texts[i].data, texts[i].len))
            return rt_fail(e, RT_INVALID,
                           "entry %u of %s is not valid UTF-8, which an APR file cannot hold; convert without the "
                           "tokenizer or to another format",
                           i, key);
    }
    rt_str_append(s, "]");
    return RT_OK;
}

static int put_own(rt_str *s, const rt_model_text *t, rt_err *e)
{
    const rt_vocab_spec *v = &t->vocab;
    rt_json_put_key(s, "retort.vocab");
    rt_str_append(s, "{");
    put_key_text(s, "model", v->model);
    if (v->pre) put_key_text(s, "pre", v->pre);
    put_key_int(s, "add_bos", v->add_bos);
    put_key_int(s, "add_eos", v->add_eos);
    put_key_int(s, "add_space_prefix", v->add_space_prefix);
    put_key_int(s, "unk", t->unk);
    put_key_int(s, "pad", t->pad);
    put_key_int(s, "eot", t->eot);
    if (v->types) {
        rt_json_put_key(s, "types");
        for (uint32_t i = 0; i < v->token_count; i++) rt_str_printf(s, "%c%d", i > 0 ? ',' : '[', (int)v->types[i]);
        rt_str_append(s, "]");
    }
    if (v->scores) {
        rt_json_put_key(s, "scores");
        for (uint32_t i = 0; i < v->token_count; i++) {
            rt_str_append_n(s, i > 0 ? "," : "[", 1);
            if (!isfinite(v->scores[i]))
                return rt_fail(e, RT_INVALID, "the score of token %u is not a number that an APR file can hold", i);
            rt_json_put_float(s, v->scores[i]);
        }
        rt_str_append(s, "]");
    }
    rt_str_append(s, "}");
    return RT_OK;
}

static int put_vocab(rt_str *s, const rt_model_text *t, rt_err *e)
{
    const rt_vocab_spec *v = &t->vocab;
    int rc;
    if (!t->has_vocab || v->token_count == 0) return RT_OK;
    RT_TRY(put_texts(s, "tokenizer.vocabulary", v->tokens, v->token_count, e));
    RT_TRY(put_texts(s, "tokenizer.merges", v->merges, v->merge_count, e));
    if (v->bos >= 0) put_key_int(s, "tokenizer.bos_token_id", v->bos);
    if (v->eos >= 0) put_key_int(s, "tokenizer.eos_token_id", v->eos);
    RT_TRY(put_own(s, t, e));
out:
    return rc;
}

/* ---- tokenizer.json ---- */

/* The same file without spaces between its values. */
static int compact(rt_span text, rt_str *out, rt_err *e)
{
    json_error_t error;
    json_t *root = rt_json_load(text.data, text.len, JSON_ALLOW_NUL, &error);
    char *dump = rt_json_dump(root, JSON_COMPACT);
    int rc = RT_OK;
    if (!dump)
        rc = !root && !rt_json_out_of_memory()
                 ? rt_fail(e, RT_INVALID, "tokenizer.json is not valid JSON: line %d: %s", error.line, error.text)
                 : rt_no_memory(e, "the tokenizer of an APR file");
    else
        rt_str_append(out, dump);
    rt_free(dump);
    json_decref(root);
    return rc;
}

/* Appends the key when the whole then fits; else takes it back. One byte is for the closing brace. */
static int try_tokenizer(rt_str *s, rt_span text, bool *fits, rt_err *e)
{
    size_t before = s->len;
    int rc = put_key_span(s, "retort.tokenizer_json", text, e);
    *fits = s->len + 1 <= RT_APR_MAX_META;
    if (rc == RT_OK && !*fits && !s->failed) {
        s->len = before;
        s->data[before] = 0;
    }
    return rc;
}

static int put_tokenizer(rt_str *s, const rt_model_text *t, bool *in, rt_err *e)
{
    rt_str small = { 0 };
    int rc = RT_OK;
    *in = false;
    if (!t->tokenizer_json.data) return RT_OK;
    RT_TRY(try_tokenizer(s, t->tokenizer_json, in, e));
    if (*in) goto out;
    RT_TRY(compact(t->tokenizer_json, &small, e));
    if (small.failed) RT_TRY(rt_no_memory(e, "the tokenizer of an APR file"));
    RT_TRY(try_tokenizer(s, (rt_span){ small.data, small.len }, in, e));
out:
    rt_str_free(&small);
    return rc;
}

int rt_apr_meta_write(const rt_model_out *o, rt_str *out, bool *has_vocab, rt_err *e)
{
    const rt_model_text *t = o->text;
    bool whole = false, vocab = t && t->has_vocab && t->vocab.token_count > 0;
    int rc;
    rt_str_append(out, "{");
    RT_TRY(put_config(o, out, e));
    if (t) {
        RT_TRY(put_key_span(out, "chat_template", t->chat_template, e));
        RT_TRY(put_key_span(out, "retort.tokenizer_config", t->tokenizer_config, e));
        RT_TRY(put_key_span(out, "retort.generation_config", t->generation_config, e));
        RT_TRY(put_vocab(out, t, e));
        if (out->len + 1 <= RT_APR_MAX_META) RT_TRY(put_tokenizer(out, t, &whole, e));
    }
    rt_str_append(out, "}");
    if (out->failed) RT_TRY(rt_no_memory(e, "the metadata of an APR file"));
    if (out->len > RT_APR_MAX_META)
        RT_TRY(
            rt_fail(e, RT_INVALID,
                    "the metadata need %zu bytes for a vocabulary of %u tokens and %u merges, but an APR file allows "
                    "16777216; convert without the tokenizer or to another format",
                    out->len, t ? t->vocab.token_count : 0, t ? t->vocab.merge_count : 0));
    if (t && t->tokenizer_json.data && !whole && !vocab)
        RT_TRY(rt_fail(e, RT_INVALID,
                       "tokenizer.json (%zu bytes) and the other metadata (%zu bytes) are more than the 16777216 bytes "
                       "that an APR file allows; convert without the tokenizer or to another format",
                       t->tokenizer_json.len, out->len));
    *has_vocab = vocab || whole;
out:
    return rc;
}
