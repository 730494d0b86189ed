/* config_json.c - reads config.json as transformers' configuration classes do, or refuses it by the name of a key.
 *
 * Owns: which keys a family has, keys that would change the numbers and are not understood. Leaves rope to
 * config_rope.c, windows and layers without rope to config_layers.c, sense to config.c. */
#include "format/config/config_internal.h"

#include "base/json.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

/* ---- keys that are not understood ---- */

/* Keys of relatives of the families that change what is computed, with the one value at which they do not: a
 * number, or NAN when any value but null and false does. */
typedef struct foreign_key {
    const char *key;
    double harmless;
} foreign_key;

static const foreign_key foreign_keys[] = {
    { "pretraining_tp", 1 },
    { "quantization_config", NAN },
    { "compression_config", NAN },
    { "partial_rotary_factor", 1 },
    { "rotary_pct", 1 },
    { "rotary_percent", 1 },
    { "attention_multiplier", NAN },
    { "embedding_multiplier", 1 },
    { "residual_multiplier", 1 },
    { "logits_scaling", 1 },
    { "logit_scale", 1 },
    { "logit_scaling", 1 },
    { "lm_head_multiplier", 1 },
    { "key_multiplier", 1 },
    { "final_logit_softcapping", NAN },
    { "attn_logit_softcapping", NAN },
    { "logits_soft_cap", NAN },
    { "query_pre_attn_scalar", NAN },
    { "scale_emb", 1 },
    { "scale_depth", NAN },
    { "dim_model_base", NAN },
    { "use_mup", NAN },
    { "mup_attn_multiplier", NAN },
    { "mup_embeddings_multiplier", NAN },
    { "mup_width_multiplier", NAN },
    { "num_experts", 0 },
    { "num_local_experts", 0 },
    { "n_routed_experts", 0 },
    { "num_experts_per_tok", 0 },
    { "moe_intermediate_size", 0 },
    { "kv_lora_rank", NAN },
    { "q_lora_rank", NAN },
    { "alibi", NAN },
    { "use_alibi", NAN },
    { "attn_temperature_tuning", NAN },
    { "attention_chunk_size", NAN },
    { "attention_sink_size", 0 },
    { "use_attention_sinks", NAN },
    { "lm_head_bias", NAN },
    { "per_layer_config", NAN },
    { "text_config", NAN },
    { "vision_config", NAN },
};

static void refuse_foreign_keys(rt_config_reader *r)
{
    for (size_t i = 0; i < sizeof foreign_keys / sizeof foreign_keys[0]; i++) {
        const foreign_key *f = &foreign_keys[i];
        const json_t *v = json_object_get(r->at, f->key);
        if (!v || json_is_null(v) || json_is_false(v)) continue;
        if (json_is_number(v) && json_number_value(v) == f->harmless) continue;
        const char *hint = strcmp(f->key, "quantization_config") == 0
                               ? "; take the model that it was quantised from, or a GGUF of it"
                               : "";
        rt_config_fault(r, RT_UNSUPPORTED, "key \"%s\" changes the computation and is not supported%s", f->key, hint);
    }
}

/* ---- the file ---- */

static void read_family(rt_config_reader *r, rt_model_config *c)
{
    const char *type = rt_config_text(r, "model_type", NULL);
    if (r->rc < 0) return;
    if (!type) {
        rt_config_fault(r, RT_FORMAT, "there is no key \"model_type\": is this the config.json of a model?");
        return;
    }
    char known[200];
    c->family = rt_family_find(type);
    if (!c->family)
        rt_config_fault(r, RT_UNSUPPORTED, "model_type \"%.64s\" is not supported; the families are %s", type,
                        rt_family_list(known, sizeof known, false));
}

/* transformers loads the first of the list. */
static void read_architecture(rt_config_reader *r, const rt_model_config *c)
{
    const char *wanted = c->family->hf_class;
    const json_t *list = json_object_get(r->at, "architectures");
    if (r->rc < 0 || !list || json_is_null(list)) return;
    if (!json_is_array(list) || (json_array_size(list) > 0 && !json_is_string(json_array_get(list, 0)))) {
        rt_config_fault(r, RT_FORMAT, "key \"architectures\" must be a list of class names: correct the file");
        return;
    }
    const char *name = json_string_value(json_array_get(list, 0));
    if (name && strcasecmp(name, wanted) != 0)
        rt_config_fault(r, RT_UNSUPPORTED, "architecture \"%.64s\" is not supported; of model_type \"%s\" it is %s",
                        name, c->family->name, wanted);
}

static void read_shape(rt_config_reader *r, rt_model_config *c)
{
    const rt_family *f = c->family;
    c->layers = rt_config_u32(r, "num_hidden_layers", 1, RT_MAX_LAYERS, f->defaults.layers);
    c->width = rt_config_u32(r, "hidden_size", 1, UINT32_MAX, f->defaults.width);
    c->heads = rt_config_u32(r, "num_attention_heads", 1, UINT32_MAX, f->defaults.heads);
    c->hidden = rt_config_u32(r, "intermediate_size", 1, UINT32_MAX, f->defaults.hidden);
    c->vocab = rt_config_u32(r, "vocab_size", 1, UINT32_MAX, f->defaults.vocab);
    c->context = rt_config_u32(r, "max_position_embeddings", 1, UINT32_MAX, f->defaults.context);
    c->kv_heads = c->heads; /* also when the key is null */
    if (!json_is_null(json_object_get(r->at, "num_key_value_heads")))
        c->kv_heads = rt_config_u32(r, "num_key_value_heads", 1, UINT32_MAX,
                                    f->defaults.kv_heads ? f->defaults.kv_heads : c->heads);
    /* Where the class has a width of its own, it does not follow from the others when the key is absent, and must not
     * be null. */
    c->head_dim = f->defaults.head_dim ? f->defaults.head_dim : c->width / c->heads;
    if (f->defaults.head_dim || rt_config_has(r, "head_dim"))
        c->head_dim = rt_config_u32(r, "head_dim", 1, UINT32_MAX, c->head_dim);
}

static void read_switches(rt_config_reader *r, rt_model_config *c)
{
    const rt_family *f = c->family;
    const char *act = rt_config_text(r, "hidden_act", "silu");
    c->o_bias = f->bias == RT_BIAS_KEY && rt_config_bool(r, "attention_bias", false);
    c->qkv_bias = c->o_bias || f->bias == RT_BIAS_QKV;
    c->mlp_bias = f->mlp_bias && rt_config_bool(r, "mlp_bias", false);
    c->qk_norm = f->qk_norm;
    c->tied = rt_config_bool(r, "tie_word_embeddings", f->defaults.tied);
    c->norm_eps = rt_config_real(r, "rms_norm_eps", 1e-6);
    c->init_range = rt_config_real(r, "initializer_range", 0.02);
    if (strcmp(act, "silu") != 0 && strcmp(act, "swish") != 0)
        rt_config_fault(r, RT_UNSUPPORTED, "key \"hidden_act\" is \"%.64s\", but only \"silu\" is supported", act);
}

/* One id; -1 for null, for a negative number (which old files have for "none"), and after an error. */
static int64_t read_id(rt_config_reader *r, const char *key, const json_t *v)
{
    if (json_is_null(v)) return -1;
    if (!json_is_integer(v)) {
        rt_config_wrong_kind(r, key, strcmp(key, "eos_token_id") == 0 ? "a token id or a list of them" : "a token id",
                             v);
        return -1;
    }
    json_int_t n = json_integer_value(v);
    if (n > INT32_MAX)
        rt_config_fault(r, RT_FORMAT, "key \"%s\" is %lld, which is no token id: correct the file", key, (long long)n);
    return n < 0 || n > INT32_MAX ? -1 : n;
}

static int64_t read_id_or(rt_config_reader *r, const char *key, int64_t fallback)
{
    const json_t *v = json_object_get(r->at, key);
    return v ? read_id(r, key, v) : fallback;
}

static void read_ids(rt_config_reader *r, rt_model_config *c)
{
    const rt_family *f = c->family;
    const json_t *list = json_object_get(r->at, "eos_token_id"), *item;
    size_t i;
    c->bos = read_id_or(r, "bos_token_id", f->defaults.bos);
    c->pad = read_id_or(r, "pad_token_id", f->defaults.pad);
    if (!json_is_array(list)) {
        int64_t id = read_id_or(r, "eos_token_id", f->defaults.eos);
        if (id >= 0) c->eos[c->eos_count++] = id;
        return;
    }
    if (json_array_size(list) > RT_MAX_EOS) {
        rt_config_fault(r, RT_UNSUPPORTED, "key \"eos_token_id\" has %zu ids, but at most %d are supported",
                        json_array_size(list), RT_MAX_EOS);
        return;
    }
    json_array_foreach(list, i, item)
    {
        int64_t id = read_id(r, "eos_token_id", item);
        if (id >= 0) c->eos[c->eos_count++] = id;
    }
}

/* {"retort": {"init": {"seed": N}}}: the weights are random numbers. A seed past 2^63 is written as a string. */
static void read_marker(rt_config_reader *r, rt_model_config *c)
{
    const json_t *init = json_object_get(json_object_get(r->at, "retort"), "init");
    const json_t *seed = json_object_get(init, "seed");
    const char *digits = json_string_value(seed);
    bool good = json_is_integer(seed) && json_integer_value(seed) >= 0;
    char *end = NULL;
    if (!init || json_is_null(init)) return;
    if (good) c->init_seed = (uint64_t)json_integer_value(seed);
    if (digits && digits[0] >= '0' && digits[0] <= '9') {
        errno = 0;
        c->init_seed = strtoull(digits, &end, 10);
        good = *end == 0 && errno == 0;
    }
    if (!good) rt_config_fault(r, RT_FORMAT, "key \"retort.init.seed\" must be a whole number: correct the file");
    c->random_init = true;
}

static int read_all(rt_model_config *c, const json_t *root, const char *where, rt_err *e)
{
    rt_config_reader r = { .at = root, .path = "", .where = where, .e = e };
    if (!json_is_object(root)) {
        rt_config_fault(&r, RT_FORMAT, "the file must hold one JSON object, but holds %s", rt_config_kind(root));
        return r.rc;
    }
    read_family(&r, c);
    if (r.rc < 0) return r.rc;
    read_architecture(&r, c);
    refuse_foreign_keys(&r);
    read_shape(&r, c);
    if (r.rc < 0) return r.rc;
    read_switches(&r, c);
    read_ids(&r, c);
    rt_config_read_rope(&r, c);
    rt_config_read_layers(&r, c);
    read_marker(&r, c);
    return r.rc < 0 ? r.rc : rt_config_check(c, where, e);
}

int rt_config_from_json(rt_model_config *c, const char *text, size_t len, const char *where, rt_arena *a, rt_err *e)
{
    int rc = RT_OK;
    json_error_t at;
    memset(c, 0, sizeof *c);
    json_t *root = rt_json_load(text, len, JSON_DECODE_ANY, &at);
    if (!root) {
        if (rt_json_out_of_memory()) return rt_no_memory(e, where);
        return rt_fail(e, RT_FORMAT, "%s: line %d, column %d: not valid JSON: %s", where, at.line, at.column, at.text);
    }
    RT_TRY(read_all(c, root, where, e));
    c->json = rt_span_copy(a, text, len);
    if (!c->json.data) rc = rt_no_memory(e, "a model's configuration");
out:
    json_decref(root);
    return rc;
}
