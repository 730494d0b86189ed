/* config_json_write.c - a config.json that transformers loads, from a configuration and the file that it came from.
 *
 * Owns: the keys that are set anew, the printing (numbers in their shortest exact form, so that a file that was read is
 * written as it was). Keys that the configuration does not speak of stay as they are and where they are. */
#include "format/config/config_internal.h"

#include "base/json.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- keys ---- */

static bool write_shape(const rt_model_config *c, json_t *root)
{
    const rt_family *f = c->family;
    json_t *classes = json_array();
    /* Where the class has no such key it is written only when the width does not follow. */
    bool dim = f->head_dim_key || json_object_get(root, "head_dim") || (uint64_t)c->head_dim * c->heads != c->width;
    bool ok = classes && json_array_append_new(classes, json_string(f->hf_class)) == 0;
    if (!ok) {
        json_decref(classes);
        return false;
    }
    ok = rt_config_put(root, "architectures", classes);
    ok = rt_config_put(root, "model_type", json_string(f->name)) && ok;
    ok = rt_config_put(root, "vocab_size", json_integer(c->vocab)) && ok;
    ok = rt_config_put(root, "hidden_size", json_integer(c->width)) && ok;
    ok = rt_config_put(root, "intermediate_size", json_integer(c->hidden)) && ok;
    ok = rt_config_put(root, "num_hidden_layers", json_integer(c->layers)) && ok;
    ok = rt_config_put(root, "num_attention_heads", json_integer(c->heads)) && ok;
    ok = rt_config_put(root, "num_key_value_heads", json_integer(c->kv_heads)) && ok;
    if (dim) ok = rt_config_put(root, "head_dim", json_integer(c->head_dim)) && ok;
    return rt_config_put(root, "max_position_embeddings", json_integer(c->context)) && ok;
}

static bool write_switches(const rt_model_config *c, json_t *root)
{
    bool ok = true;
    if (!json_object_get(root, "hidden_act")) ok = rt_config_put(root, "hidden_act", json_string("silu"));
    if (c->family->bias == RT_BIAS_KEY) ok = rt_config_put(root, "attention_bias", json_boolean(c->o_bias)) && ok;
    if (c->family->mlp_bias) ok = rt_config_put(root, "mlp_bias", json_boolean(c->mlp_bias)) && ok;
    ok = rt_config_put(root, "rms_norm_eps", json_real(c->norm_eps)) && ok;
    ok = rt_config_put(root, "initializer_range", json_real(c->init_range)) && ok;
    return rt_config_put(root, "tie_word_embeddings", json_boolean(c->tied)) && ok;
}

static json_t *id_value(int64_t id) { return id < 0 ? json_null() : json_integer(id); }

/* A list stays a list, also of one. */
static bool write_ids(const rt_model_config *c, json_t *root)
{
    bool list = c->eos_count > 1 || json_is_array(json_object_get(root, "eos_token_id"));
    bool ok = rt_config_put(root, "bos_token_id", id_value(c->bos));
    ok = rt_config_put(root, "pad_token_id", id_value(c->pad)) && ok;
    if (!list || c->eos_count == 0)
        return rt_config_put(root, "eos_token_id", c->eos_count ? id_value(c->eos[0]) : json_null()) && ok;
    json_t *ids = json_array();
    for (uint32_t i = 0; i < c->eos_count && ids; i++)
        ok = json_array_append_new(ids, json_integer(c->eos[i])) == 0 && ok;
    return rt_config_put(root, "eos_token_id", ids) && ok;
}

/* Of a quantised type the key is left alone: it can say nothing true about it. */
static bool write_dtype(json_t *root, rt_dtype dtype)
{
    const char *name = dtype == RT_DTYPE_F32    ? "float32"
                       : dtype == RT_DTYPE_F16  ? "float16"
                       : dtype == RT_DTYPE_BF16 ? "bfloat16"
                                                : NULL;
    bool newer = json_object_get(root, "dtype") != NULL, older = json_object_get(root, "torch_dtype") != NULL,
         ok = true;
    if (!name) return true;
    if (newer) ok = rt_config_put(root, "dtype", json_string(name));
    if (older || !newer) ok = rt_config_put(root, "torch_dtype", json_string(name)) && ok;
    return ok;
}

static bool write_marker(const rt_model_config *c, json_t *root)
{
    json_t *ours = json_object_get(root, "retort");
    char digits[24];
    if (!c->random_init) {
        json_object_del(ours, "init");
        if (json_is_object(ours) && json_object_size(ours) == 0) json_object_del(root, "retort");
        return true;
    }
    if (!json_is_object(ours)) {
        if (!rt_config_put(root, "retort", json_object())) return false;
        ours = json_object_get(root, "retort");
    }
    snprintf(digits, sizeof digits, "%llu", (unsigned long long)c->init_seed);
    json_t *seed = c->init_seed > INT64_MAX ? json_string(digits) : json_integer((json_int_t)c->init_seed);
    json_t *init = json_object();
    if (rt_config_put(init, "seed", seed)) return rt_config_put(ours, "init", init);
    json_decref(init);
    return false;
}

/* ---- printing ---- */

static int append_text(const char *text, size_t n, void *out)
{
    rt_str_append_n(out, text, n);
    return ((rt_str *)out)->failed ? -1 : 0;
}

/* With a point, so that it stays a float; whole numbers without an exponent, as Python prints them. */
static void print_real(rt_str *out, double v)
{
    if (v == floor(v) && fabs(v) < 1e17)
        rt_str_printf(out, "%.1f", v);
    else
        rt_json_put_double(out, v);
}

static void print_value(rt_str *out, const json_t *v, int depth);

static void print_indent(rt_str *out, int depth) { rt_str_printf(out, "\n%*s", 2 * depth, ""); }

static void print_string(rt_str *out, const char *text, size_t n)
{
    json_t *s = json_stringn_nocheck(text, n);
    if (!s || json_dump_callback(s, append_text, out, JSON_ENCODE_ANY) != 0) out->failed = true;
    json_decref(s);
}

static void print_object(rt_str *out, const json_t *o, int depth)
{
    const char *key, *comma = "";
    json_t *value;
    rt_str_append(out, "{");
    json_object_foreach((json_t *)o, key, value)
    {
        rt_str_append(out, comma);
        print_indent(out, depth + 1);
        print_string(out, key, strlen(key));
        rt_str_append(out, ": ");
        print_value(out, value, depth + 1);
        comma = ",";
    }
    if (*comma) print_indent(out, depth);
    rt_str_append(out, "}");
}

static void print_array(rt_str *out, const json_t *list, int depth)
{
    size_t i;
    const json_t *item;
    rt_str_append(out, "[");
    json_array_foreach(list, i, item)
    {
        if (i > 0) rt_str_append(out, ",");
        print_indent(out, depth + 1);
        print_value(out, item, depth + 1);
    }
    if (json_array_size(list) > 0) print_indent(out, depth);
    rt_str_append(out, "]");
}

static void print_value(rt_str *out, const json_t *v, int depth)
{
    switch (json_typeof(v)) {
    case JSON_OBJECT: print_object(out, v, depth); break;
    case JSON_ARRAY: print_array(out, v, depth); break;
    case JSON_STRING: print_string(out, json_string_value(v), json_string_length(v)); break;
    case JSON_REAL: print_real(out, json_real_value(v)); break;
    case JSON_INTEGER: rt_str_printf(out, "%lld", (long long)json_integer_value(v)); break;
    case JSON_TRUE: rt_str_append(out, "true"); break;
    case JSON_FALSE: rt_str_append(out, "false"); break;
    case JSON_NULL: rt_str_append(out, "null"); break;
    }
}

/* ---- the file ---- */

static bool fill(const rt_model_config *c, rt_dtype dtype, json_t *root)
{
    bool ok = write_shape(c, root);
    ok = write_switches(c, root) && ok;
    ok = write_ids(c, root) && ok;
    ok = rt_config_write_rope(c, root) && ok;
    ok = rt_config_write_layers(c, root) && ok;
    ok = write_dtype(root, dtype) && ok;
    if (!c->json.data) ok = rt_config_put(root, "use_cache", json_true()) && ok;
    return write_marker(c, root) && ok;
}

int rt_config_to_json(const rt_model_config *c, rt_dtype dtype, rt_str *out, rt_err *e)
{
    int rc = RT_OK;
    json_error_t at;
    size_t start = out->len;
    RT_TRY(rt_config_check(c, "the configuration to be written", e));
    rt_json_init();
    rt_json_out_of_memory();
    json_t *root = c->json.data ? rt_json_load(c->json.data, c->json.len, 0, &at) : json_object();
    bool broken = !root && !rt_json_out_of_memory();
    bool ok = root && json_is_object(root) && fill(c, dtype, root);
    if (ok) {
        print_value(out, root, 0);
        rt_str_append(out, "\n");
    }
    if (broken || (root && !json_is_object(root)))
        rc = rt_fail(e, RT_INTERNAL, "the kept config.json is no JSON object any more");
    else if (!ok || out->failed)
        rc = rt_no_memory(e, "a config.json");
    if (rc < 0 && out->data) {
        out->len = start;
        out->data[start] = 0;
    }
    json_decref(root);
out:
    return rc;
}
