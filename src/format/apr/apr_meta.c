/* apr_meta.c - APR metadata to a configuration and to what travels with the weights for text.
 *
 * Owns: the names that each concept goes by, which of them must be there, and what rope_type says about the rows of q
 * and k. The configuration itself is read by config.json's reader, from the same keys under their Hugging Face names,
 * so that a key means one thing in every format. Leaves the vocabulary to apr_vocab.c. */
#include "base/json.h"
#include "format/apr/apr.h"

#include <jansson.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

/* A concept: its name in config.json, then its names in metadata, the first of which is what APR calls it. Of several
 * that are present the last one in the file counts, and null counts as absent. */
typedef struct concept {
    const char *hf, *names[6];
    bool required;
}
concept;

static const concept concepts[] = {
    { "hidden_size", { "hidden_size", "hidden_dim", "d_model", "n_embd" }, true },
    { "num_hidden_layers", { "num_layers", "num_hidden_layers", "n_layers", "n_layer" }, true },
    { "num_attention_heads", { "num_heads", "num_attention_heads", "n_heads", "n_head" }, true },
    { "num_key_value_heads", { "num_kv_heads", "num_key_value_heads", "n_kv_heads" }, false },
    { "vocab_size", { "vocab_size", "n_vocab" }, true },
    { "intermediate_size", { "intermediate_size", "ffn_dim", "intermediate_dim", "n_inner" }, true },
    { "max_position_embeddings", { "max_position_embeddings", "max_seq_len", "context_length", "n_ctx" }, false },
    { "rms_norm_eps", { "rms_norm_eps", "layer_norm_eps", "norm_eps" }, true },
    { "rope_theta", { "rope_theta" }, true },
    { "head_dim", { "head_dim" }, false },
    /* Not APR's own, but files carry them: either read, or refused by config.json's reader. */
    { "rope_scaling", { "rope_scaling" }, false },
    { "sliding_window", { "sliding_window" }, false },
    { "use_sliding_window", { "use_sliding_window" }, false },
    { "max_window_layers", { "max_window_layers" }, false },
    { "layer_types", { "layer_types" }, false },
    { "no_rope_layers", { "no_rope_layers" }, false },
    { "no_rope_layer_interval", { "no_rope_layer_interval" }, false },
    { "hidden_act", { "hidden_act" }, false },
    { "initializer_range", { "initializer_range" }, false },
    { "partial_rotary_factor", { "partial_rotary_factor" }, false },
    { "num_experts", { "num_experts", "num_local_experts", "n_routed_experts" }, false },
    { "num_experts_per_tok", { "num_experts_per_tok" }, false },
    { "moe_intermediate_size", { "moe_intermediate_size" }, false },
    { "bos_token_id", { "bos_token_id", "tokenizer.bos_token_id" }, false },
    { "eos_token_id", { "eos_token_id", "tokenizer.eos_token_id" }, false },
    { "pad_token_id", { "pad_token_id", "tokenizer.pad_token_id" }, false },
};
enum { CONCEPTS = sizeof concepts / sizeof concepts[0], NAMES = 6 };

static const char *text_of(const json_t *meta, const char *key)
{
    const char *text = json_string_value(json_object_get(meta, key));
    return text && *text ? text : NULL;
}

/* ---- family ---- */

static const rt_family *family_named(const char *text)
{
    const rt_family *const *f = rt_families;
    while (*f && strcasecmp(text, (*f)->name) != 0 && strcasecmp(text, (*f)->hf_class) != 0 &&
           !((*f)->alias && strcasecmp(text, (*f)->alias) == 0))
        f++;
    return *f;
}

static int read_family(const rt_model_file *m, const json_t *meta, const rt_family **out, rt_err *e)
{
    static const char *const keys[] = { "hf_model_type", "hf_architecture", "architecture", "model_type" };
    const char *first = NULL, *key = NULL;
    char names[200];
    for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++) {
        const char *text = text_of(meta, keys[i]);
        if (text && (*out = family_named(text))) return RT_OK;
        if (text && !first) {
            first = text;
            key = keys[i];
        }
    }
    if (!first)
        return rt_fail(e, RT_FORMAT,
                       "%s: the metadata say nothing about the family of the model (architecture, hf_architecture, "
                       "hf_model_type or model_type); convert it again from its source",
                       m->parts[0].path);
    return rt_fail(e, RT_UNSUPPORTED, "%s: %s '%.60s' is not supported; the families are %s", m->parts[0].path, key,
                   first, rt_family_list(names, sizeof names, false));
}

/* ---- configuration ---- */

/* Some writers give every number a point. A new reference; null when out of memory. */
static json_t *as_integer(json_t *v)
{
    double x = json_is_real(v) ? json_real_value(v) : 0.5;
    if (x != (double)(int32_t)(x > -2e9 && x < 2e9 ? x : 0.5)) return json_incref(v);
    return json_integer((json_int_t)x);
}

/* What the concept has in the metadata; null when absent. */
static json_t *value_of(json_t *meta, const concept *c)
{
    const char *key;
    json_t *value, *found = NULL;
    json_object_foreach(meta, key, value)
    {
        if (json_is_null(value)) continue;
        for (int i = 0; i < NAMES && c->names[i]; i++)
            if (strcmp(key, c->names[i]) == 0) found = value;
    }
    return found;
}

static bool has_tensor(const rt_model_file *m, rt_role role)
{
    for (uint32_t i = 0; i < m->tensor_count; i++)
        if (m->tensors[i].role == role) return true;
    return false;
}

/* Keys that metadata lack and tensors tell. */
static bool put_switches(const rt_model_file *m, const rt_family *f, json_t *config)
{
    bool ok = json_object_set_new(config, "model_type", json_string(f->name)) == 0 &&
              json_object_set_new(config, "tie_word_embeddings", json_boolean(!has_tensor(m, RT_ROLE_HEAD))) == 0;
    if (ok && f->bias == RT_BIAS_KEY)
        ok = json_object_set_new(config, "attention_bias", json_boolean(has_tensor(m, RT_ROLE_Q_BIAS))) == 0;
    if (ok && f->mlp_bias)
        ok = json_object_set_new(config, "mlp_bias", json_boolean(has_tensor(m, RT_ROLE_GATE_BIAS))) == 0;
    return ok;
}

static int missing_keys(const rt_model_file *m, const bool *present, rt_err *e)
{
    char list[200] = "";
    size_t used = 0;
    for (int i = 0; i < CONCEPTS; i++)
        if (concepts[i].required && !present[i] && used < sizeof list)
            used += (size_t)snprintf(list + used, sizeof list - used, "%s%s", used ? ", " : "", concepts[i].names[0]);
    if (used == 0) return RT_OK;
    return rt_fail(e, RT_FORMAT,
                   "%s: the metadata lack %s, without which the model cannot be computed; convert it again from its "
                   "source",
                   m->parts[0].path, list);
}

static int make_config(rt_model_file *m, json_t *meta, json_t *config, const char *where, rt_err *e)
{
    const rt_family *family = NULL;
    bool present[CONCEPTS] = { false };
    char *text = NULL;
    int rc;
    RT_TRY(read_family(m, meta, &family, e));
    for (int i = 0; i < CONCEPTS; i++) {
        json_t *v = value_of(meta, &concepts[i]);
        present[i] = v != NULL;
        if (v && json_object_set_new(config, concepts[i].hf, as_integer(v)) != 0)
            RT_TRY(rt_no_memory(e, m->parts[0].path));
    }
    RT_TRY(missing_keys(m, present, e));
    /* Without a word about them there are as many as heads; without the key, config.json has a number of its own. */
    if (!json_object_get(config, "num_key_value_heads") &&
        json_object_set_new(config, "num_key_value_heads", json_null()) != 0)
        RT_TRY(rt_no_memory(e, m->parts[0].path));
    if (!put_switches(m, family, config) || !(text = rt_json_dump(config, JSON_INDENT(2))))
        RT_TRY(rt_no_memory(e, m->parts[0].path));
    RT_TRY(rt_config_from_json(&m->config, text, strlen(text), where, &m->arena, e));
    /* config.json has one key for the biases of all four; here each has its tensors. */
    if (family->bias == RT_BIAS_KEY) m->config.o_bias = has_tensor(m, RT_ROLE_O_BIAS);
out:
    rt_free(text);
    return rc;
}

static int read_config(rt_model_file *m, json_t *meta, rt_err *e)
{
    const json_t *own = json_object_get(meta, "retort.config");
    char *where = rt_arena_printf(&m->arena, "%s, metadata%s", m->parts[0].path, own ? ", retort.config" : "");
    if (!where) return rt_no_memory(e, m->parts[0].path);
    int rc;
    if (json_is_string(own)) {
        rc = rt_config_from_json(&m->config, json_string_value(own), json_string_length(own), where, &m->arena, e);
    } else {
        json_t *config = json_object();
        rc = config ? make_config(m, meta, config, where, e) : rt_no_memory(e, m->parts[0].path);
        json_decref(config);
    }
    m->has_config = rc == RT_OK;
    return rc;
}

/* ---- order of rows ---- */

static bool says(const char *text, const char *word) { return text && strcasestr(text, word) != NULL; }

/* The tool that these files come from derived rope_type from the name of the architecture and left the rows as they
 * were. So 0 in a file made from GGUF means GGUF's order of rows; in one made from Hugging Face weights it means
 * nothing; and without a source it cannot be told. Files of ours carry 2 and retort.config. */
static int read_rope_type(rt_model_file *m, const json_t *meta, bool *adjacent, rt_err *e)
{
    const json_t *v = json_object_get(meta, "rope_type");
    const char *source = text_of(meta, "original_format");
    if (!source) source = text_of(meta, "source");
    *adjacent = false;
    if (!v || json_is_null(v)) return RT_OK;
    if (!json_is_number(v) || (json_number_value(v) != 0 && json_number_value(v) != 2))
        return rt_fail(e, RT_UNSUPPORTED, "%s: rope_type in the metadata is neither 0 (adjacent pairs) nor 2 (halves)",
                       m->parts[0].path);
    if (json_number_value(v) == 2) return RT_OK;
    if (rt_role_swap_heads(&m->config, RT_ROLE_Q) == 0)
        return rt_fail(
            e, RT_UNSUPPORTED,
            "%s: rope_type is 0 (adjacent pairs), but models of the family %s rotate halves (2); correct the "
            "key if the weights are as they were published",
            m->parts[0].path, m->config.family->name);
    if (says(source, "gguf")) {
        rt_model_note(m, "rope_type is 0 and the file was made from GGUF: rows of q and k are put back into the order "
                         "of Hugging Face");
        *adjacent = true;
        return RT_OK;
    }
    if (says(source, "safetensors") || says(source, "hf") || says(source, "hugging") || says(source, "pytorch")) {
        rt_model_note(m, "rope_type is 0, but the file was made from %.40s: rows of q and k are taken as they are",
                      source);
        return RT_OK;
    }
    return rt_fail(e, RT_UNSUPPORTED,
                   "%s: rope_type is 0 (adjacent pairs) and original_format does not say what the file was made from, "
                   "so the order of the rows of q and k is not known; convert the model again from its source",
                   m->parts[0].path);
}

/* ---- text ---- */

static int keep_text(rt_model_file *m, const json_t *meta, const char *key, rt_span *out, rt_err *e)
{
    const json_t *v = json_object_get(meta, key);
    if (!v || json_is_null(v)) return RT_OK;
    if (!json_is_string(v))
        return rt_fail(e, RT_FORMAT, "%s: key \"%s\" of the metadata must be a string", m->parts[0].path, key);
    *out = rt_span_copy(&m->arena, json_string_value(v), json_string_length(v));
    return out->data ? RT_OK : rt_no_memory(e, m->parts[0].path);
}

static int read_text(rt_model_file *m, const json_t *meta, rt_err *e)
{
    rt_span name = { NULL, 0 };
    int rc;
    m->text.unk = m->text.pad = m->text.eot = -1;
    RT_TRY(keep_text(m, meta, "chat_template", &m->text.chat_template, e));
    RT_TRY(keep_text(m, meta, "retort.tokenizer_json", &m->text.tokenizer_json, e));
    RT_TRY(keep_text(m, meta, "retort.tokenizer_config", &m->text.tokenizer_config, e));
    RT_TRY(keep_text(m, meta, "retort.generation_config", &m->text.generation_config, e));
    if (text_of(meta, "name") && !strchr(text_of(meta, "name"), '/')) RT_TRY(keep_text(m, meta, "name", &name, e));
    if (name.data) m->name = name.data;
    RT_TRY(rt_apr_vocab_read(m, meta, e));
out:
    return rc;
}

int rt_apr_meta_read(rt_model_file *m, const char *text, size_t len, bool *rope_adjacent, rt_err *e)
{
    json_error_t error;
    int rc;
    json_t *meta = rt_json_load(text, len, JSON_ALLOW_NUL, &error);
    if (!meta) {
        if (rt_json_out_of_memory()) return rt_no_memory(e, m->parts[0].path);
        return rt_fail(e, RT_FORMAT, "%s: the metadata are not valid JSON: line %d, column %d: %s; the file is damaged",
                       m->parts[0].path, error.line, error.column, error.text);
    }
    if (!json_is_object(meta))
        RT_TRY(rt_fail(e, RT_FORMAT, "%s: the metadata must be a JSON object", m->parts[0].path));
    RT_TRY(read_config(m, meta, e));
    RT_TRY(read_rope_type(m, meta, rope_adjacent, e));
    RT_TRY(read_text(m, meta, e));
out:
    json_decref(meta);
    return rc;
}
