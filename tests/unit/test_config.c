/* test_config.c - config.json in and out: every family's defaults and keys, both rope forms, refusals by name, what is
 * kept when it is written again, and every allocation failing in turn. */
#include "format_case.h"

#include "format/config/config.h"

#include <jansson.h>

typedef struct loaded {
    rt_model_config c;
    rt_arena arena;
    rt_err e;
    int rc;
} loaded;

static loaded load(const char *text)
{
    loaded l = { .rc = 0 };
    l.rc = rt_config_from_json(&l.c, text, strlen(text), "dir/config.json", &l.arena, &l.e);
    return l;
}

static rt_model_config good(const char *text, rt_arena *keep)
{
    loaded l = load(text);
    if (l.rc < 0) fail_msg("%s: %s", text, l.e.text);
    *keep = l.arena;
    return l.c;
}

/* Read, forget the text. */
static rt_model_config read_config(const char *text)
{
    rt_arena a;
    rt_model_config c = good(text, &a);
    rt_arena_free(&a);
    c.json = (rt_span){ 0 };
    return c;
}

static void refused(const char *text, int status, const char *words)
{
    loaded l = load(text);
    if (l.rc != status) fail_msg("%s: status %d, not %d: %s", text, l.rc, status, l.e.text);
    assert_says(&l.e, "dir/config.json");
    assert_says(&l.e, words);
    rt_arena_free(&l.arena);
}

/* Written, and parsed again as plain JSON. */
static json_t *written(const rt_model_config *c, rt_dtype d)
{
    rt_err e = { 0 };
    rt_str s = { 0 };
    if (rt_config_to_json(c, d, &s, &e) < 0) fail_msg("%s", e.text);
    json_t *j = json_loads(s.data, 0, NULL);
    if (!j) fail_msg("not JSON: %s", s.data);
    rt_str_free(&s);
    return j;
}

static json_t *rewritten(const char *text)
{
    rt_arena a;
    rt_model_config c = good(text, &a);
    json_t *j = written(&c, RT_DTYPE_BF16);
    rt_arena_free(&a);
    return j;
}

static int64_t int_at(const json_t *j, const char *key) { return json_integer_value(json_object_get(j, key)); }
static const char *text_at(const json_t *j, const char *key)
{
    const char *s = json_string_value(json_object_get(j, key));
    return s ? s : "(none)";
}

/* ---- reading ---- */

/* An absent key has the value of the family's configuration class. */
static void defaults(void **state)
{
    (void)state;
    rt_model_config c = read_config("{\"model_type\":\"llama\"}");
    assert_true(c.family == rt_family_find("llama") && c.layers == 32 && c.width == 4096 && c.heads == 32 &&
                c.kv_heads == 32);
    assert_true(c.head_dim == 128 && c.hidden == 11008 && c.vocab == 32000 && c.context == 2048 && !c.tied);
    assert_true(c.rope.theta == 1e4 && c.norm_eps == 1e-6 && c.init_range == 0.02);
    assert_true(c.bos == 1 && c.eos_count == 1 && c.eos[0] == 2 && c.pad == -1 && !c.qkv_bias && !c.random_init);
    c = read_config("{\"model_type\":\"qwen2\"}");
    assert_true(c.qkv_bias && !c.o_bias && c.kv_heads == 32 && c.hidden == 22016 && c.vocab == 151936);
    assert_true(c.bos == -1 && c.eos_count == 0 && c.window == 0 && c.context == 32768 && c.rope.theta == 1e4);
    c = read_config("{\"model_type\":\"qwen3\",\"hidden_size\":2048}");
    assert_true(c.qk_norm && c.head_dim == 128 && c.heads == 32 && !c.qkv_bias);
    c = read_config("{\"model_type\":\"mistral\"}");
    assert_true(c.window == 4096 && c.layer_flags[0] == RT_LAYER_WINDOW && c.layer_flags[31] == RT_LAYER_WINDOW);
    assert_true(c.kv_heads == 8 && c.context == 131072 && c.hidden == 14336);
    c = read_config("{\"model_type\":\"smollm3\"}");
    assert_true(c.tied && c.rope.theta == 2e6 && c.layers == 36 && c.kv_heads == 4 && c.pad == 128004);
    assert_true(c.layer_flags[3] == RT_LAYER_NO_ROPE && c.layer_flags[2] == 0 && c.layer_flags[35] == RT_LAYER_NO_ROPE);
}

static void heads_and_biases(void **state)
{
    (void)state;
    rt_model_config c = read_config("{\"model_type\":\"llama\",\"hidden_size\":64,\"num_attention_heads\":4,"
                                    "\"num_key_value_heads\":2,\"head_dim\":32,\"attention_bias\":true,"
                                    "\"mlp_bias\":true,\"tie_word_embeddings\":true,\"hidden_act\":\"swish\"}");
    assert_true(c.head_dim == 32 && c.kv_heads == 2 && c.qkv_bias && c.o_bias && c.mlp_bias && c.tied);
    c = read_config("{\"model_type\":\"llama\",\"num_key_value_heads\":null,\"head_dim\":null}");
    assert_true(c.kv_heads == 32 && c.head_dim == 128);
    /* transformers gives these families no such switch, whatever the file says. */
    c = read_config("{\"model_type\":\"qwen2\",\"attention_bias\":false,\"mlp_bias\":true}");
    assert_true(c.qkv_bias && !c.o_bias && !c.mlp_bias);
    c = read_config("{\"model_type\":\"qwen3\",\"attention_bias\":true}");
    assert_true(c.qkv_bias && c.o_bias);
}

static void token_ids(void **state)
{
    (void)state;
    rt_model_config c = read_config("{\"model_type\":\"llama\",\"bos_token_id\":7,\"eos_token_id\":[3,5,9],"
                                    "\"pad_token_id\":-1}");
    assert_true(c.bos == 7 && c.eos_count == 3 && c.eos[0] == 3 && c.eos[2] == 9 && c.pad == -1);
    c = read_config("{\"model_type\":\"llama\",\"bos_token_id\":null,\"eos_token_id\":null}");
    assert_true(c.bos == -1 && c.eos_count == 0);
    refused("{\"model_type\":\"llama\",\"bos_token_id\":[1]}", RT_FORMAT, "bos_token_id|a token id|a list");
    refused("{\"model_type\":\"llama\",\"eos_token_id\":[1,\"x\"]}", RT_FORMAT, "eos_token_id");
    refused("{\"model_type\":\"llama\",\"eos_token_id\":99999999999}", RT_FORMAT, "eos_token_id|99999999999");
    refused("{\"model_type\":\"llama\",\"eos_token_id\":[1,2,3,4,5,6,7,8,9]}", RT_UNSUPPORTED, "eos_token_id|9|8");
}

static void windows(void **state)
{
    (void)state;
    rt_model_config c = read_config("{\"model_type\":\"mistral\",\"sliding_window\":null}");
    assert_true(c.window == 0 && c.layer_flags[0] == 0);
    c = read_config("{\"model_type\":\"qwen2\",\"num_hidden_layers\":4,\"use_sliding_window\":true,"
                    "\"sliding_window\":16,\"max_window_layers\":3}");
    assert_true(c.window == 16 && c.layer_flags[2] == 0 && c.layer_flags[3] == RT_LAYER_WINDOW);
    c = read_config("{\"model_type\":\"qwen2\",\"num_hidden_layers\":4,\"use_sliding_window\":false,"
                    "\"sliding_window\":16,\"max_window_layers\":0}");
    assert_true(c.window == 0 && c.layer_flags[3] == 0);
    /* No layer reaches max_window_layers: then there is no window. */
    c = read_config("{\"model_type\":\"qwen2\",\"num_hidden_layers\":4,\"use_sliding_window\":true}");
    assert_true(c.window == 0);
    c = read_config("{\"model_type\":\"qwen3\",\"num_hidden_layers\":3,\"use_sliding_window\":true,"
                    "\"sliding_window\":8,\"layer_types\":[\"sliding_attention\",\"full_attention\","
                    "\"sliding_attention\"]}");
    assert_true(c.window == 8 && c.layer_flags[0] == RT_LAYER_WINDOW && c.layer_flags[1] == 0);
    c = read_config("{\"model_type\":\"smollm3\",\"num_hidden_layers\":3,\"use_sliding_window\":true,"
                    "\"sliding_window\":8,\"no_rope_layers\":[0,1,1,1]}");
    assert_true(c.window == 8 && c.layer_flags[0] == (RT_LAYER_WINDOW | RT_LAYER_NO_ROPE) && c.layer_flags[1] == 0);
    c = read_config("{\"model_type\":\"smollm3\",\"num_hidden_layers\":4,\"no_rope_layer_interval\":2}");
    assert_true(c.layer_flags[1] == RT_LAYER_NO_ROPE && c.layer_flags[3] == RT_LAYER_NO_ROPE && !c.layer_flags[0]);
    refused("{\"model_type\":\"llama\",\"sliding_window\":128}", RT_UNSUPPORTED,
            "sliding_window|llama has no window|model_type");
    refused("{\"model_type\":\"mistral\",\"sliding_window\":0}", RT_FORMAT, "sliding_window");
    refused("{\"model_type\":\"mistral\",\"num_hidden_layers\":2,\"layer_types\":[\"full_attention\","
            "\"sliding_attention\"]}",
            RT_UNSUPPORTED, "layer_types|1 of 2");
    refused("{\"model_type\":\"qwen3\",\"num_hidden_layers\":1,\"layer_types\":[\"sliding_attention\"]}", RT_FORMAT,
            "layer_types|use_sliding_window");
    refused("{\"model_type\":\"qwen3\",\"num_hidden_layers\":2,\"layer_types\":[\"full_attention\"]}", RT_FORMAT,
            "layer_types|2");
    refused("{\"model_type\":\"qwen3\",\"num_hidden_layers\":1,\"layer_types\":[\"linear_attention\"]}", RT_UNSUPPORTED,
            "layer_types|linear_attention");
    refused("{\"model_type\":\"smollm3\",\"num_hidden_layers\":2,\"no_rope_layers\":[1]}", RT_FORMAT,
            "no_rope_layers|2");
    refused("{\"model_type\":\"smollm3\",\"num_hidden_layers\":1,\"no_rope_layers\":[\"a\"]}", RT_FORMAT,
            "no_rope_layers|entry 0");
    refused("{\"model_type\":\"smollm3\",\"no_rope_layer_interval\":0}", RT_FORMAT, "no_rope_layer_interval");
}

#define ROPE(body) "{\"model_type\":\"llama\",\"max_position_embeddings\":4096," body "}"

static void rope_forms(void **state)
{
    (void)state;
    rt_model_config c = read_config(ROPE("\"rope_theta\":500000.0,\"rope_scaling\":{\"rope_type\":\"llama3\","
                                         "\"factor\":8,\"low_freq_factor\":1,\"high_freq_factor\":4.0,"
                                         "\"original_max_position_embeddings\":8192}"));
    assert_true(c.rope.kind == RT_ROPE_LLAMA3 && c.rope.theta == 5e5 && c.rope.factor == 8 && c.rope.low_freq == 1);
    assert_true(c.rope.high_freq == 4 && c.rope.original_context == 8192);
    c = read_config(ROPE("\"rope_scaling\":{\"type\":\"linear\",\"factor\":2.5}"));
    assert_true(c.rope.kind == RT_ROPE_LINEAR && c.rope.factor == 2.5 && c.rope.theta == 1e4);
    c = read_config(ROPE("\"rope_parameters\":{\"rope_type\":\"yarn\",\"rope_theta\":1e6,\"factor\":4,"
                         "\"beta_fast\":16,\"beta_slow\":2,\"attention_factor\":0.7,\"mscale\":0.5,"
                         "\"mscale_all_dim\":0.25,\"truncate\":false,\"original_max_position_embeddings\":1024}"));
    assert_true(c.rope.kind == RT_ROPE_YARN && c.rope.theta == 1e6 && c.rope.beta_fast == 16 && c.rope.beta_slow == 2);
    assert_true(c.rope.attention_factor == 0.7 && c.rope.mscale == 0.5 && c.rope.mscale_all_dim == 0.25);
    assert_true(c.rope.no_truncate && c.rope.original_context == 1024);
    /* The original context is the whole one where it is not given, and a null factor their ratio. */
    c = read_config(ROPE("\"rope_scaling\":{\"type\":\"yarn\",\"factor\":2}"));
    assert_true(c.rope.original_context == 4096 && !c.rope.no_truncate);
    c = read_config(ROPE("\"rope_scaling\":{\"type\":\"yarn\",\"factor\":null,"
                         "\"original_max_position_embeddings\":1024}"));
    assert_true(c.rope.factor == 4);
    c = read_config(ROPE("\"rope_theta\":5,\"rope_scaling\":{},\"rope_parameters\":null"));
    assert_true(c.rope.kind == RT_ROPE_PLAIN && c.rope.theta == 5);
    c = read_config(ROPE("\"rope_parameters\":{\"rope_theta\":7,\"rope_type\":\"default\"}"));
    assert_true(c.rope.kind == RT_ROPE_PLAIN && c.rope.theta == 7);
}

static void rope_refusals(void **state)
{
    (void)state;
    refused(ROPE("\"rope_scaling\":{\"type\":\"dynamic\",\"factor\":2}"), RT_UNSUPPORTED, "dynamic|linear, llama3");
    refused(ROPE("\"rope_scaling\":{\"factor\":2}"), RT_FORMAT, "rope_scaling.rope_type");
    refused(ROPE("\"rope_scaling\":{\"type\":\"linear\"}"), RT_FORMAT, "rope_scaling.factor|missing");
    refused(ROPE("\"rope_scaling\":{\"type\":\"linear\",\"factor\":\"2\"}"), RT_FORMAT, "rope_scaling.factor|a number");
    refused(ROPE("\"rope_scaling\":{\"type\":\"linear\",\"factor\":-2}"), RT_INVALID, "factor|-2");
    refused(ROPE("\"rope_scaling\":{\"type\":\"linear\",\"rope_type\":\"yarn\",\"factor\":2}"), RT_FORMAT,
            "rope_type|type|differ");
    refused(ROPE("\"rope_scaling\":[1]"), RT_FORMAT, "rope_scaling|object");
    refused(ROPE("\"rope_scaling\":{\"type\":\"default\",\"mrope_section\":[1]}"), RT_UNSUPPORTED, "mrope_section");
    refused(ROPE("\"rope_parameters\":{\"rope_type\":\"default\",\"partial_rotary_factor\":0.5}"), RT_UNSUPPORTED,
            "rope_parameters.partial_rotary_factor");
    refused(ROPE("\"rope_parameters\":{\"full_attention\":{\"rope_theta\":1e4}}"), RT_UNSUPPORTED,
            "rope_parameters|between layers");
    refused(ROPE("\"rope_theta\":1e4,\"rope_parameters\":{\"rope_theta\":1e5}"), RT_FORMAT, "rope_theta|differ");
    refused(ROPE("\"rope_scaling\":{\"type\":\"linear\",\"factor\":2},\"rope_parameters\":{\"rope_type\":\"linear\","
                 "\"factor\":3}"),
            RT_FORMAT, "rope_scaling|rope_parameters|differ");
    refused(ROPE("\"original_max_position_embeddings\":9,\"rope_scaling\":{\"type\":\"yarn\",\"factor\":2}"), RT_FORMAT,
            "original_max_position_embeddings|differs");
    refused(ROPE("\"rope_theta\":0"), RT_INVALID, "theta");
    refused(ROPE("\"rope_theta\":null"), RT_FORMAT, "rope_theta|null");
    refused(ROPE("\"rope_scaling\":{\"type\":\"yarn\",\"factor\":2,\"attention_factor\":0}"), RT_FORMAT,
            "attention_factor");
    refused(ROPE("\"rope_scaling\":{\"type\":\"llama3\",\"factor\":2,\"low_freq_factor\":4,\"high_freq_factor\":1}"),
            RT_INVALID, "high_freq_factor");
}

static void refusals(void **state)
{
    (void)state;
    refused("{\"model_type\":\"gemma2\"}", RT_UNSUPPORTED, "gemma2|llama, qwen2, qwen3, mistral, smollm3");
    refused("{}", RT_FORMAT, "model_type");
    refused("{\"model_type\":5}", RT_FORMAT, "model_type|a string");
    refused("[]", RT_FORMAT, "one JSON object|a list");
    refused("{\"model_type\":", RT_FORMAT, "line 1|JSON");
    refused("", RT_FORMAT, "JSON");
    refused("{\"model_type\":\"llama\",\"architectures\":[\"LlamaForSequenceClassification\"]}", RT_UNSUPPORTED,
            "LlamaForSequenceClassification|LlamaForCausalLM");
    refused("{\"model_type\":\"llama\",\"architectures\":\"x\"}", RT_FORMAT, "architectures");
    refused("{\"model_type\":\"llama\",\"hidden_act\":\"gelu\"}", RT_UNSUPPORTED, "hidden_act|gelu");
    refused("{\"model_type\":\"llama\",\"hidden_size\":\"64\"}", RT_FORMAT, "hidden_size|whole number|a string");
    refused("{\"model_type\":\"llama\",\"hidden_size\":64.5}", RT_FORMAT, "hidden_size");
    refused("{\"model_type\":\"llama\",\"hidden_size\":-1}", RT_FORMAT, "hidden_size|-1");
    refused("{\"model_type\":\"llama\",\"num_hidden_layers\":5000}", RT_FORMAT, "num_hidden_layers|5000|1024");
    refused("{\"model_type\":\"llama\",\"tie_word_embeddings\":\"no\"}", RT_FORMAT,
            "tie_word_embeddings|true or false");
    refused("{\"model_type\":\"qwen3\",\"head_dim\":null}", RT_FORMAT, "head_dim|null");
    refused("{\"model_type\":\"llama\",\"num_attention_heads\":6,\"num_key_value_heads\":4,\"head_dim\":8}", RT_INVALID,
            "6 heads|4 key");
    refused("{\"model_type\":\"llama\",\"head_dim\":15}", RT_INVALID, "15|odd");
    refused("{\"model_type\":\"llama\",\"hidden_size\":4294967295}", RT_INVALID, "hidden_size");
    refused("{\"model_type\":\"llama\",\"rms_norm_eps\":-1}", RT_INVALID, "rms_norm_eps");
    static const char *const foreign[] = { "\"pretraining_tp\":2",
                                           "\"quantization_config\":{\"bits\":4}",
                                           "\"partial_rotary_factor\":0.5",
                                           "\"attention_multiplier\":0.1",
                                           "\"logits_scaling\":8.0",
                                           "\"scale_emb\":12",
                                           "\"num_experts\":8",
                                           "\"num_local_experts\":4",
                                           "\"final_logit_softcapping\":30.0",
                                           "\"alibi\":true" };
    for (size_t i = 0; i < sizeof foreign / sizeof foreign[0]; i++) {
        char text[200], key[64];
        snprintf(text, sizeof text, "{\"model_type\":\"llama\",%s}", foreign[i]);
        snprintf(key, sizeof key, "%.*s", (int)strcspn(foreign[i], ":"), foreign[i]);
        refused(text, RT_UNSUPPORTED, key);
    }
    /* The same keys where they say nothing. */
    read_config("{\"model_type\":\"llama\",\"pretraining_tp\":1,\"quantization_config\":null,\"num_experts\":0,"
                "\"partial_rotary_factor\":1.0,\"alibi\":false,\"logits_scaling\":1,\"architectures\":[]}");
}

static void the_mark_of_random_weights(void **state)
{
    (void)state;
    static const uint64_t seeds[] = { 0, 42, INT64_MAX, UINT64_MAX };
    for (size_t i = 0; i < 4; i++) {
        rt_model_config c = read_config("{\"model_type\":\"llama\"}"), back;
        rt_arena a = { 0 };
        rt_err e = { 0 };
        rt_str s = { 0 };
        c.random_init = true;
        c.init_seed = seeds[i];
        assert_int_equal(rt_config_to_json(&c, RT_DTYPE_F32, &s, &e), RT_OK);
        assert_int_equal(rt_config_from_json(&back, s.data, s.len, "x", &a, &e), RT_OK);
        assert_true(back.random_init && back.init_seed == seeds[i]);
        /* Trained weights lose the mark. */
        back.random_init = false;
        json_t *j = written(&back, RT_DTYPE_F32);
        assert_null(json_object_get(j, "retort"));
        json_decref(j);
        rt_str_free(&s);
        rt_arena_free(&a);
    }
    json_t *j = rewritten("{\"model_type\":\"llama\",\"retort\":{\"other\":1}}");
    assert_int_equal(int_at(json_object_get(j, "retort"), "other"), 1);
    json_decref(j);
    refused("{\"model_type\":\"llama\",\"retort\":{\"init\":{\"seed\":-1}}}", RT_FORMAT, "retort.init.seed");
    refused("{\"model_type\":\"llama\",\"retort\":{\"init\":{\"seed\":\"99999999999999999999\"}}}", RT_FORMAT,
            "retort.init.seed");
    refused("{\"model_type\":\"llama\",\"retort\":{\"init\":{}}}", RT_FORMAT, "retort.init.seed");
}

/* ---- writing ---- */

static void unknown_keys_and_forms_are_kept(void **state)
{
    (void)state;
    json_t *j = rewritten("{\"zebra\":{\"a\":[1,2.5,\"\\u00e9\"]},\"model_type\":\"qwen2\",\"dtype\":\"float32\","
                          "\"rope_parameters\":{\"rope_theta\":1e6,\"rope_type\":\"default\"},\"eos_token_id\":[5],"
                          "\"sliding_window\":32768,\"max_window_layers\":21,\"transformers_version\":\"4.40\"}");
    assert_string_equal(text_at(j, "dtype"), "bfloat16");
    assert_null(json_object_get(j, "torch_dtype"));
    assert_string_equal(text_at(j, "transformers_version"), "4.40");
    assert_true(json_is_object(json_object_get(j, "rope_parameters")));
    assert_null(json_object_get(j, "rope_scaling"));
    assert_null(json_object_get(j, "rope_theta"));
    assert_true(json_is_array(json_object_get(j, "eos_token_id")));
    assert_int_equal(int_at(j, "sliding_window"), 32768);
    assert_int_equal(int_at(j, "max_window_layers"), 21);
    assert_true(json_is_false(json_object_get(j, "use_sliding_window")));
    const json_t *list = json_object_get(json_object_get(j, "zebra"), "a");
    assert_string_equal(json_string_value(json_array_get(list, 2)), "\xc3\xa9");
    /* In the order of the file that was read. */
    assert_string_equal(json_object_iter_key(json_object_iter(j)), "zebra");
    json_decref(j);

    j = rewritten("{\"model_type\":\"llama\",\"torch_dtype\":\"float16\",\"rope_scaling\":{\"type\":\"linear\","
                  "\"factor\":2.0}}");
    const json_t *rope = json_object_get(j, "rope_scaling");
    assert_string_equal(text_at(rope, "type"), "linear");
    assert_null(json_object_get(rope, "rope_type"));
    assert_null(json_object_get(j, "rope_parameters"));
    assert_string_equal(text_at(j, "torch_dtype"), "bfloat16");
    assert_null(json_object_get(j, "dtype"));
    json_decref(j);
}

/* What the struct says wins over what the file said. */
static void changed_values_are_written(void **state)
{
    (void)state;
    rt_arena a;
    rt_model_config c = good("{\"model_type\":\"qwen3\",\"num_hidden_layers\":4,\"vocab_size\":100,"
                             "\"layer_types\":[\"full_attention\",\"full_attention\",\"full_attention\","
                             "\"full_attention\"],\"rope_scaling\":{\"rope_type\":\"yarn\",\"factor\":4.0,"
                             "\"beta_fast\":16.0,\"original_max_position_embeddings\":1024}}",
                             &a);
    c.layers = 2;
    c.vocab = 200;
    c.tied = true;
    c.window = 8;
    c.layer_flags[0] = RT_LAYER_WINDOW;
    c.rope.kind = RT_ROPE_LINEAR;
    json_t *j = written(&c, RT_DTYPE_Q4_K);
    assert_int_equal(int_at(j, "num_hidden_layers"), 2);
    assert_int_equal(int_at(j, "vocab_size"), 200);
    assert_true(json_is_true(json_object_get(j, "tie_word_embeddings")));
    assert_int_equal(json_array_size(json_object_get(j, "layer_types")), 2);
    assert_null(json_object_get(json_object_get(j, "rope_scaling"), "beta_fast"));
    assert_null(json_object_get(j, "torch_dtype")); /* a quantised type has no name there */
    json_decref(j);
    rt_arena_free(&a);
}

static void presets_come_back(void **state)
{
    (void)state;
    uint32_t count;
    const rt_preset *p = rt_presets(&count);
    for (uint32_t k = 0; k < count; k++) {
        static rt_model_config c, back;
        rt_err e = { 0 };
        rt_arena a = { 0 };
        rt_str s = { 0 };
        rt_preset_fill(&p[k], &c);
        if (rt_config_to_json(&c, RT_DTYPE_F32, &s, &e) < 0) fail_msg("%s", e.text);
        if (rt_config_from_json(&back, s.data, s.len, p[k].name, &a, &e) < 0) fail_msg("%s", e.text);
        assert_true(back.family == c.family && back.layers == c.layers && back.width == c.width);
        assert_true(back.heads == c.heads && back.kv_heads == c.kv_heads && back.head_dim == c.head_dim);
        assert_true(back.hidden == c.hidden && back.vocab == c.vocab && back.context == c.context);
        assert_true(back.qkv_bias == c.qkv_bias && back.o_bias == c.o_bias && back.tied == c.tied);
        assert_true(back.qk_norm == c.qk_norm && back.norm_eps == c.norm_eps && back.init_range == c.init_range);
        assert_true(back.window == c.window && back.bos == c.bos && back.pad == c.pad);
        assert_true(back.eos_count == c.eos_count && back.eos[0] == c.eos[0] && back.eos[1] == c.eos[1]);
        assert_true(back.rope.kind == c.rope.kind && back.rope.theta == c.rope.theta);
        assert_true(back.rope.factor == c.rope.factor && back.rope.original_context == c.rope.original_context);
        assert_memory_equal(back.layer_flags, c.layer_flags, c.layers);
        /* Written a second time it is the same text. */
        rt_str again = { 0 };
        assert_int_equal(rt_config_to_json(&back, RT_DTYPE_F32, &again, &e), RT_OK);
        assert_string_equal(again.data, s.data);
        rt_str_free(&again);
        rt_str_free(&s);
        rt_arena_free(&a);
    }
}

static void numbers_are_short_and_exact(void **state)
{
    (void)state;
    rt_err e = { 0 };
    rt_str s = { 0 };
    rt_model_config c = read_config("{\"model_type\":\"llama\",\"rms_norm_eps\":1e-05,\"rope_theta\":1000000.0,"
                                    "\"initializer_range\":0.041666666666666664}");
    assert_int_equal(rt_config_to_json(&c, RT_DTYPE_F32, &s, &e), RT_OK);
    assert_non_null(strstr(s.data, "\"rms_norm_eps\": 1e-05"));
    assert_non_null(strstr(s.data, "\"initializer_range\": 0.041666666666666664"));
    assert_non_null(strstr(s.data, "\"rope_theta\": 1000000.0"));
    rt_str_free(&s);
}

static void impossible_shapes_are_not_written(void **state)
{
    (void)state;
    static const struct {
        const char *preset, *words;
        size_t field; /* of a bool that is flipped */
    } wrong[] = { { "tiny-llama", "norms on q and k", offsetof(rt_model_config, qk_norm) },
                  { "tiny-qwen3", "norms on q and k", offsetof(rt_model_config, qk_norm) },
                  { "tiny-qwen2", "biases on q, k and v", offsetof(rt_model_config, qkv_bias) },
                  { "tiny-mistral", "no biases", offsetof(rt_model_config, o_bias) },
                  { "tiny-llama", "or on none", offsetof(rt_model_config, o_bias) },
                  { "tiny-qwen3", "MLP", offsetof(rt_model_config, mlp_bias) } };
    rt_str s = { 0 };
    rt_model_config c;
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        rt_err e = { 0 };
        rt_preset_fill(rt_preset_find(wrong[i].preset), &c);
        bool *flag = (bool *)((char *)&c + wrong[i].field);
        *flag = !*flag;
        assert_int_equal(rt_config_to_json(&c, RT_DTYPE_F32, &s, &e), RT_INVALID);
        assert_says(&e, wrong[i].words);
    }
    rt_err e = { 0 };
    rt_preset_fill(rt_preset_find("tiny-llama"), &c);
    c.layer_flags[0] = RT_LAYER_NO_ROPE;
    assert_int_equal(rt_config_check(&c, "here", &e), RT_INVALID);
    assert_says(&e, "here|layer 0|rope");
    rt_preset_fill(rt_preset_find("tiny-mistral"), &c);
    c.layer_flags[1] = 0;
    assert_int_equal(rt_config_check(&c, "here", &e), RT_INVALID);
    assert_says(&e, "here|1 of 2 layers");
    rt_preset_fill(rt_preset_find("tiny-qwen2"), &c);
    c.window = 5;
    assert_int_equal(rt_config_check(&c, "here", &e), RT_INVALID);
    assert_says(&e, "here|window is 5|0 layers");
    c.family = NULL;
    assert_int_equal(rt_config_check(&c, "here", &e), RT_INVALID);
    assert_null(s.data);
}

/* ---- memory ---- */

static int round_trip(void *ctx, rt_err *e)
{
    int rc;
    rt_model_config c;
    rt_arena a = { 0 };
    rt_str s = { 0 };
    RT_TRY(rt_config_from_json(&c, ctx, strlen(ctx), "dir/config.json", &a, e));
    RT_TRY(rt_config_to_json(&c, RT_DTYPE_BF16, &s, e));
out:
    rt_str_free(&s);
    rt_arena_free(&a);
    return rc;
}

static void out_of_memory(void **state)
{
    (void)state;
    static const char *const texts[] = {
        "{\"model_type\":\"smollm3\",\"num_hidden_layers\":3,\"use_sliding_window\":true,\"sliding_window\":8,"
        "\"layer_types\":[\"sliding_attention\",\"full_attention\",\"full_attention\"],\"eos_token_id\":[1,2],"
        "\"rope_scaling\":{\"type\":\"yarn\",\"factor\":2.0,\"truncate\":false}}",
        "{\"model_type\":\"qwen2\",\"num_hidden_layers\":2,\"use_sliding_window\":true,\"max_window_layers\":1,"
        "\"rope_parameters\":{\"rope_theta\":5.0},\"retort\":{\"init\":{\"seed\":5}}}"
    };
    for (size_t i = 0; i < 2; i++) fail_each(round_trip, (void *)(uintptr_t)texts[i], 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(defaults),
        cmocka_unit_test(heads_and_biases),
        cmocka_unit_test(token_ids),
        cmocka_unit_test(windows),
        cmocka_unit_test(rope_forms),
        cmocka_unit_test(rope_refusals),
        cmocka_unit_test(refusals),
        cmocka_unit_test(the_mark_of_random_weights),
        cmocka_unit_test(unknown_keys_and_forms_are_kept),
        cmocka_unit_test(changed_values_are_written),
        cmocka_unit_test(presets_come_back),
        cmocka_unit_test(numbers_are_short_and_exact),
        cmocka_unit_test(impossible_shapes_are_not_written),
        cmocka_unit_test(out_of_memory),
    };
    rt_json_init();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
