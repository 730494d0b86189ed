/* test_gguf_model.c - models in GGUF: configurations of each architecture, text, split models, allocations that fail.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "gguf_case.h"
#include "memory_case.h"

/* ---- configurations ---- */

static void test_llama(void **state)
{
    (void)state;
    gguf_build b = model("llama");
    rt_model_file m;
    static const uint32_t per_layer[] = { 2 };
    gb_array(&b, "llama.attention.head_count_kv", RT_GGUF_U32, 1, per_layer, sizeof per_layer);
    gb_u32(&b, "llama.vocab_size", 5);
    gb_f32(&b, "llama.rope.freq_base", 500000);
    gb_u32(&b, "llama.rope.dimension_count", 4);
    gb_u32(&b, "llama.expert_count", 0);
    gb_string(&b, "general.name", "Little");
    gb_string(&b, "general.repo_url", "https://huggingface.co/quants/Little-GGUF");
    gb_string(&b, "general.source.url", "https://elsewhere.example/org/little");
    gb_string(&b, "general.source.repo_url", "https://huggingface.co/org/little");
    opened(&b, &m);
    const rt_model_config *c = &m.config;
    assert_true(m.has_config);
    assert_string_equal(m.name, "Little");
    assert_string_equal(m.hub, "org/little");
    assert_ptr_equal(c->family, rt_family_find("llama"));
    assert_int_equal(c->layers, 1);
    assert_int_equal(c->width, 8);
    assert_int_equal(c->heads, 2);
    assert_int_equal(c->kv_heads, 2);
    assert_int_equal(c->head_dim, 4);
    assert_int_equal(c->hidden, 12);
    assert_int_equal(c->vocab, 5);
    assert_int_equal(c->context, 64);
    assert_true(c->tied && !c->qkv_bias && !c->o_bias && !c->mlp_bias && !c->qk_norm);
    assert_true(c->norm_eps == 1e-5 && c->rope.theta == 500000 && c->rope.kind == RT_ROPE_PLAIN);
    assert_int_equal(c->bos, -1);
    assert_int_equal(c->eos_count, 0);
    assert_int_equal(m.note_count, 0);
    gb_close(&m);
}

static void test_families(void **state)
{
    (void)state;
    rt_model_file m;
    gguf_build b = model("qwen2");
    gb_tensor(&b, "blk.0.attn_q.bias", 0, 8, 0);
    gb_tensor(&b, "blk.0.attn_k.bias", 0, 8, 0);
    gb_tensor(&b, "blk.0.attn_v.bias", 0, 8, 0);
    gb_tensor(&b, "output.weight", 5, 8, 0);
    opened(&b, &m);
    assert_int_equal(m.config.family, rt_family_find("qwen2"));
    assert_true(m.config.qkv_bias && !m.config.tied);
    assert_int_equal(gb_find(&m, "blk.0.attn_q.weight")->swap_heads, 0);
    gb_close(&m);
    b = model("qwen3");
    gb_tensor(&b, "blk.0.attn_q_norm.weight", 0, 4, 0);
    gb_tensor(&b, "blk.0.attn_k_norm.weight", 0, 4, 0);
    opened(&b, &m);
    assert_true(m.config.family == rt_family_find("qwen3") && m.config.qk_norm);
    gb_close(&m);
    b = model("llama");
    gb_u32(&b, "llama.attention.sliding_window", 32);
    opened(&b, &m);
    assert_int_equal(m.config.family, rt_family_find("mistral"));
    assert_int_equal(m.config.window, 32);
    assert_int_equal(m.config.layer_flags[0], RT_LAYER_WINDOW);
    gb_close(&m);
    b = gb_new();
    gb_model_keys(&b, "smollm3");
    /* block_count is the second key; five layers, so that one is without rope */
    uint32_t five = 5;
    char *at = memmem(b.keys.data, b.keys.len, "block_count", 11);
    memcpy(at + 15, &five, 4);
    gb_model_tensors(&b);
    opened(&b, &m);
    assert_int_equal(m.config.family, rt_family_find("smollm3"));
    for (uint32_t i = 0; i < 5; i++) assert_int_equal(m.config.layer_flags[i], i == 3 ? RT_LAYER_NO_ROPE : 0);
    assert_int_equal(gb_find(&m, "blk.0.attn_k.weight")->swap_heads, 2);
    gb_close(&m);
}

static void test_biases_are_swapped(void **state)
{
    (void)state;
    gguf_build b = model("llama");
    rt_model_file m;
    float bias[8];
    static const char *const names[] = { "attn_q", "attn_k", "attn_v", "attn_output" };
    for (int i = 0; i < 4; i++) {
        char name[64];
        snprintf(name, sizeof name, "blk.0.%s.bias", names[i]);
        gb_tensor(&b, name, 0, 8, 0);
    }
    opened(&b, &m);
    assert_true(m.config.qkv_bias && m.config.o_bias);
    rt_tensor_to_f32(bias, gb_find(&m, "blk.0.attn_k.bias"), 0, 1);
    static const float want[] = { 0, 2, 1, 3, 4, 6, 5, 7 };
    assert_memory_equal(bias, want, sizeof want);
    gb_close(&m);
}

static void test_bad_config(void **state)
{
    (void)state;
    static const uint32_t differ[] = { 2, 1 };
    gguf_build b = gb_new();
    gb_string(&b, "general.architecture", "gemma3");
    gb_model_tensors(&b);
    refused(&b, RT_UNSUPPORTED, "architecture is 'gemma3'");
    b = gb_new();
    gb_string(&b, "general.architecture", "llama");
    gb_model_tensors(&b);
    refused(&b, RT_FORMAT, "key 'llama.block_count' is missing");
    b = model("llama");
    gb_u32(&b, "llama.expert_count", 8);
    refused(&b, RT_UNSUPPORTED, "mixture of experts");
    b = model("llama");
    gb_array(&b, "llama.attention.head_count_kv", RT_GGUF_U32, 2, differ, sizeof differ);
    refused(&b, RT_UNSUPPORTED, "not the same for all layers");
    b = model("llama");
    gb_u32(&b, "llama.attention.value_length", 8);
    refused(&b, RT_UNSUPPORTED, "llama.attention.value_length");
    b = model("llama");
    gb_u32(&b, "llama.rope.dimension_count", 2);
    refused(&b, RT_UNSUPPORTED, "llama.rope.dimension_count");
    b = model("llama");
    gb_string(&b, "llama.rope.scaling.type", "longrope");
    refused(&b, RT_UNSUPPORTED, "is 'longrope'");
    b = model("llama");
    gb_f32(&b, "llama.attn_logit_softcapping", 50);
    refused(&b, RT_UNSUPPORTED, "llama.attn_logit_softcapping");
    b = model("llama");
    gb_bool(&b, "llama.attention.causal", 0);
    refused(&b, RT_UNSUPPORTED, "llama.attention.causal");
    b = model("llama");
    gb_u32(&b, "llama.attention.key_length", 6);
    refused(&b, RT_FORMAT, "'blk.0.attn_q.weight' has another shape");
    b = model("llama");
    gb_u32(&b, "llama.attention.head_count_kv", 0);
    refused(&b, RT_INVALID, "key/value heads 0 is out of range (1 to 2)");
}

static void test_unknown_key(void **state)
{
    (void)state;
    gguf_build b = model("llama");
    rt_model_file m;
    gb_u32(&b, "llama.new_invention", 1);
    opened(&b, &m);
    assert_true(gb_noted(&m, "llama.new_invention"));
    gb_close(&m);
}

static void test_rope_scaling(void **state)
{
    (void)state;
    rt_model_file m;
    gguf_build b = model("llama");
    gb_f32(&b, "llama.rope.scaling.factor", 4);
    opened(&b, &m);
    assert_true(m.config.rope.kind == RT_ROPE_LINEAR && m.config.rope.factor == 4);
    gb_close(&m);
    b = model("llama");
    gb_string(&b, "llama.rope.scaling.type", "none");
    gb_f32(&b, "llama.rope.scaling.factor", 4);
    opened(&b, &m);
    assert_true(m.config.rope.kind == RT_ROPE_PLAIN);
    gb_close(&m);
    b = model("llama");
    gb_string(&b, "llama.rope.scaling.type", "yarn");
    gb_f32(&b, "llama.rope.scaling.factor", 4);
    gb_u32(&b, "llama.rope.scaling.original_context_length", 16);
    gb_f32(&b, "llama.rope.scaling.yarn_beta_fast", 24);
    opened(&b, &m);
    const rt_rope_scaling *s = &m.config.rope;
    assert_true(s->kind == RT_ROPE_YARN && s->factor == 4 && s->original_context == 16 && s->beta_fast == 24);
    assert_true(s->attention_factor == 0);
    gb_close(&m);
    b = model("llama");
    gb_string(&b, "llama.rope.scaling.type", "yarn");
    gb_f32(&b, "llama.rope.scaling.factor", 4);
    gb_f32(&b, "llama.rope.scaling.attn_factor", 2);
    opened(&b, &m);
    assert_float_equal(m.config.rope.attention_factor, 2 * 1.1386294361119891, 1e-9);
    assert_true(m.config.rope.original_context == 64);
    gb_close(&m);
}

static void factors_model(gguf_build *b, const float *factors, uint64_t n)
{
    *b = model("llama");
    gb_f32(b, "llama.rope.freq_base", 500000);
    gb_info(b, RT_GGUF_ROPE_FREQS, 1, &n, 0, b->data.len);
    gb_raw(&b->data, factors, n * 4);
    gb_pad(&b->data, 32);
}

static void test_llama3(void **state)
{
    (void)state;
    static const rt_rope_scaling sets[] = {
        { .kind = RT_ROPE_LLAMA3, .theta = 5e5, .factor = 8, .low_freq = 1, .high_freq = 4, .original_context = 8192 },
        { .kind = RT_ROPE_LLAMA3, .theta = 5e5, .factor = 32, .low_freq = 1, .high_freq = 4, .original_context = 8192 },
        { .kind = RT_ROPE_LLAMA3, .theta = 1e4, .factor = 4, .low_freq = 1, .high_freq = 4, .original_context = 2048 },
    };
    float factors[64];
    for (size_t i = 0; i < 3; i++) {
        rt_rope_scaling found = { .theta = sets[i].theta };
        rt_gguf_rope_factors(factors, 128, &sets[i]);
        assert_true(factors[0] == 1 && factors[63] == (float)sets[i].factor);
        assert_true(rt_gguf_rope_recover(&found, factors, 128));
        assert_true(found.kind == RT_ROPE_LLAMA3 && found.factor == sets[i].factor && found.low_freq == 1 &&
                    found.high_freq == 4 && found.original_context == sets[i].original_context);
        /* The two tables are the same statement. */
        float plain[64], scaled[64], scale;
        rt_err e = { 0 };
        rt_rope_scaling none = { .kind = RT_ROPE_PLAIN, .theta = sets[i].theta };
        assert_int_equal(rt_rope_freqs(plain, &scale, 128, &none, &e), RT_OK);
        assert_int_equal(rt_rope_freqs(scaled, &scale, 128, &sets[i], &e), RT_OK);
        for (int k = 0; k < 64; k++) assert_float_equal(plain[k] / factors[k] / scaled[k], 1, 1e-6);
        factors[40] *= 1.01f;
        assert_false(rt_gguf_rope_recover(&found, factors, 128));
    }
    gguf_build b;
    rt_model_file m;
    rt_gguf_rope_factors(factors, 4, &sets[0]);
    factors_model(&b, factors, 2);
    opened(&b, &m);
    assert_int_equal(m.tensor_count, 11); /* not among the parameters */
    assert_int_equal(m.config.rope.kind, RT_ROPE_LLAMA3);
    assert_true(rt_gguf_rope_fits(factors, 4, &m.config.rope));
    gb_close(&m);
    factors_model(&b, (const float[]){ 1, 1 }, 2);
    opened(&b, &m);
    assert_int_equal(m.config.rope.kind, RT_ROPE_PLAIN);
    gb_close(&m);
    factors_model(&b, (const float[]){ 3, 1 }, 2);
    refused(&b, RT_UNSUPPORTED, "not those of a known llama3 rope scaling");
    factors_model(&b, (const float[]){ 1, 0.5f }, 2);
    refused(&b, RT_UNSUPPORTED, "not those of a known llama3 rope scaling");
    factors_model(&b, (const float[]){ 1, 8, 8 }, 3);
    refused(&b, RT_FORMAT, "has 3 elements");
}

#define JSON(layers, more)                                                                                             \
    "{\"model_type\": \"llama\", \"architectures\": [\"LlamaForCausalLM\"], \"num_hidden_layers\": " layers            \
    ", \"hidden_size\": 8, \"num_attention_heads\": 2, \"num_key_value_heads\": 2, \"intermediate_size\": 12, "        \
    "\"vocab_size\": 5, \"max_position_embeddings\": 64, \"rms_norm_eps\": 1e-05, \"tie_word_embeddings\": true, "     \
    "\"hidden_act\": \"silu\", \"rope_theta\": 10000.0" more "}"

static void test_retort_config(void **state)
{
    (void)state;
    rt_model_file m;
    gguf_build b = model("llama");
    gb_string(&b, RT_GGUF_KEY_CONFIG, JSON("1", ", \"initializer_range\": 0.5, \"eos_token_id\": [3, 4]"));
    opened(&b, &m);
    assert_true(m.config.init_range == 0.5);
    assert_int_equal(m.config.eos_count, 2);
    assert_int_equal(m.note_count, 0);
    gb_close(&m);
    b = model("llama");
    gb_string(&b, RT_GGUF_KEY_CONFIG, JSON("2", ", \"initializer_range\": 0.5"));
    opened(&b, &m);
    assert_true(m.config.init_range == 0.02);
    assert_true(gb_noted(&m, "describes another model"));
    gb_close(&m);
    b = model("llama");
    gb_string(&b, RT_GGUF_KEY_CONFIG, "{");
    opened(&b, &m);
    assert_true(gb_noted(&m, "was left out"));
    gb_close(&m);
}

/* ---- text ---- */

static const char *const tokens[] = { "<unk>", "<s>", "</s>", "a", "b" };
static const float scores[] = { 0, 0, 0, -1, -2 };
static const int32_t types[] = { 2, 3, 3, 1, 1 };

static void text_keys(gguf_build *b, const char *tokenizer)
{
    gb_string(b, "tokenizer.ggml.model", tokenizer);
    gb_strings(b, "tokenizer.ggml.tokens", tokens, 5);
    gb_array(b, "tokenizer.ggml.scores", RT_GGUF_F32, 5, scores, sizeof scores);
    gb_array(b, "tokenizer.ggml.token_type", RT_GGUF_I32, 5, types, sizeof types);
}

static void test_text(void **state)
{
    (void)state;
    gguf_build b = model("llama");
    rt_model_file m;
    text_keys(&b, "llama");
    gb_strings(&b, "tokenizer.ggml.merges", (const char *[]){ "a b" }, 1);
    gb_string(&b, "tokenizer.ggml.pre", "default");
    gb_u32(&b, "tokenizer.ggml.padding_token_id", 3);
    gb_u32(&b, "tokenizer.ggml.eot_token_id", 4);
    gb_u32(&b, "tokenizer.ggml.eos_token_id", 99);
    gb_bool(&b, "tokenizer.ggml.add_bos_token", 1);
    gb_bool(&b, "tokenizer.ggml.add_eos_token", 0);
    gb_string(&b, "tokenizer.chat_template", "{{ x }}");
    gb_string(&b, "tokenizer.huggingface.json", "{}");
    opened(&b, &m);
    const rt_model_text *t = &m.text;
    assert_true(t->has_vocab);
    assert_string_equal(t->vocab.model, "llama");
    assert_string_equal(t->vocab.pre, "default");
    assert_int_equal(t->vocab.token_count, 5);
    assert_memory_equal(t->vocab.tokens[2].data, "</s>", 4);
    assert_memory_equal(t->vocab.scores, scores, sizeof scores);
    assert_memory_equal(t->vocab.types, types, sizeof types);
    assert_int_equal(t->vocab.merge_count, 1);
    assert_memory_equal(t->vocab.merges[0].data, "a b", 3);
    assert_int_equal(t->vocab.bos, 1);
    assert_int_equal(t->vocab.eos, 2); /* 99 is outside, so llama.cpp's own */
    assert_true(gb_noted(&m, "eos_token_id' is 99"));
    assert_int_equal(t->unk, 0);
    assert_int_equal(t->pad, 3);
    assert_int_equal(t->eot, 4);
    assert_int_equal(t->vocab.add_bos, 1);
    assert_int_equal(t->vocab.add_eos, 0);
    assert_int_equal(t->vocab.add_space_prefix, -1);
    assert_int_equal(t->chat_template.len, 7);
    assert_int_equal(t->tokenizer_json.len, 2);
    assert_null(t->tokenizer_config.data);
    assert_int_equal(m.config.bos, 1);
    assert_int_equal(m.config.pad, 3);
    assert_int_equal(m.config.eos_count, 2);
    gb_close(&m);
}

static void test_bad_text(void **state)
{
    (void)state;
    gguf_build b = model("llama");
    gb_string(&b, "tokenizer.ggml.model", "llama");
    gb_strings(&b, "tokenizer.ggml.tokens", tokens, 5);
    gb_array(&b, "tokenizer.ggml.scores", RT_GGUF_F32, 4, scores, 16);
    refused(&b, RT_FORMAT, "'tokenizer.ggml.scores' has 4 entries for 5 tokens");
    b = model("llama");
    gb_string(&b, "tokenizer.ggml.model", "llama");
    refused(&b, RT_FORMAT, "without tokens");
    b = model("llama");
    gb_string(&b, "tokenizer.ggml.model", "gpt2");
    gb_array(&b, "tokenizer.ggml.tokens", RT_GGUF_U8, 1, "a", 1);
    refused(&b, RT_FORMAT, "'tokenizer.ggml.tokens' is an array of u8, but must be an array of strings");
    b = model("llama");
    gb_string(&b, "tokenizer.ggml.model", "gpt2");
    gb_strings(&b, "tokenizer.ggml.tokens", tokens, 5);
    gb_array(&b, "tokenizer.ggml.token_type", RT_GGUF_F32, 5, scores, sizeof scores);
    refused(&b, RT_FORMAT, "must be an array of i32");
    b = model("llama");
    gb_u32(&b, "tokenizer.chat_template", 1);
    refused(&b, RT_FORMAT, "'tokenizer.chat_template' is a u32, but must be a string");
}

static void test_vocabulary_only(void **state)
{
    (void)state;
    static const char *const archs[] = { "llama", "gpt2", NULL };
    for (int i = 0; i < 3; i++) {
        gguf_build b = gb_new();
        rt_model_file m;
        if (archs[i]) gb_model_keys(&b, archs[i]);
        text_keys(&b, "llama");
        opened(&b, &m);
        assert_true(m.text.has_vocab && !m.has_config);
        assert_int_equal(m.tensor_count, 0);
        gb_close(&m);
    }
    gguf_build b = gb_new();
    rt_model_file m;
    gb_string(&b, "tokenizer.ggml.model", "none");
    gb_tensor(&b, "rope_freqs.weight", 0, 8, 1);
    opened(&b, &m);
    assert_true(!m.text.has_vocab && !m.has_config);
    assert_int_equal(m.tensor_count, 1);
    assert_true(gb_noted(&m, "does not name its architecture"));
    gb_close(&m);
}

/* ---- split models ---- */

static char *part_path(int no, int count)
{
    static char path[160];
    snprintf(path, sizeof path, "%s/split-%05d-of-%05d.gguf", folder, no, count);
    return path;
}

static void split_keys(gguf_build *b, uint16_t no, uint16_t count, int32_t total)
{
    gb_key(b, "split.no", RT_GGUF_U16, &no, 2);
    gb_key(b, "split.count", RT_GGUF_U16, &count, 2);
    gb_key(b, "split.tensors.count", RT_GGUF_I32, &total, 4);
}

/* Three parts: keys alone, all tensors but one, one. */
static void write_split(int32_t total)
{
    gguf_build b = gb_new();
    gb_model_keys(&b, "llama");
    split_keys(&b, 0, 3, total);
    gb_save(&b, part_path(1, 3));
    gb_free(&b);
    b = gb_new();
    split_keys(&b, 1, 3, total);
    gb_model_tensors(&b);
    gb_save(&b, part_path(2, 3));
    gb_free(&b);
    b = gb_new();
    split_keys(&b, 2, 3, total);
    gb_tensor(&b, "output.weight", 5, 8, 7);
    gb_save(&b, part_path(3, 3));
    gb_free(&b);
}

static void test_split(void **state)
{
    (void)state;
    rt_model_file m;
    rt_err e = { 0 };
    write_split(12);
    for (int given = 1; given <= 3; given++) {
        if (gb_open(&m, part_path(given, 3), &e) < 0) fail_msg("part %d: %s", given, e.text);
        assert_true(m.has_config && !m.config.tied);
        assert_int_equal(m.tensor_count, 12);
        assert_int_equal(m.part_count, 3);
        const rt_tensor *t = gb_find(&m, "output.weight");
        float first;
        memcpy(&first, t->data, 4);
        assert_true(first == 7);
        assert_non_null(strstr(m.parts[t->file].path, "-00003-of-00003"));
        gb_close(&m);
    }
}

static void test_bad_split(void **state)
{
    (void)state;
    rt_model_file m;
    rt_err e = { 0 };
    write_split(13);
    assert_int_equal(gb_open(&m, part_path(1, 3), &e), RT_FORMAT);
    assert_non_null(strstr(e.text, "hold 12 tensors, but should hold 13"));
    gb_close(&m);
    write_split(12);
    assert_int_equal(unlink(part_path(2, 3)), 0);
    assert_int_equal(gb_open(&m, part_path(1, 3), &e), RT_NOT_FOUND);
    assert_non_null(strstr(e.text, "part 2 of 3 is missing"));
    assert_non_null(strstr(e.text, "split-00002-of-00003.gguf"));
    gb_close(&m);
    /* A part under the name of another. */
    write_split(12);
    char other[160];
    snprintf(other, sizeof other, "%s", part_path(2, 3));
    assert_int_equal(rename(part_path(3, 3), other), 0);
    assert_int_equal(gb_open(&m, part_path(1, 3), &e), RT_FORMAT);
    assert_non_null(strstr(e.text, "by its name part 2 of 3, by its keys part 3 of 3"));
    gb_close(&m);
    write_split(12);
    assert_int_equal(rename(part_path(1, 3), file), 0);
    assert_int_equal(gb_open(&m, file, &e), RT_INVALID);
    assert_non_null(strstr(e.text, "does not end in '-00001-of-00003.gguf'"));
    gb_close(&m);
    gguf_build b = model("llama");
    split_keys(&b, 5, 3, 1);
    refused(&b, RT_FORMAT, "part 6 of 3");
}

/* ---- the vocabularies of llama.cpp, where they are ---- */

static void test_listed(void **state)
{
    (void)state;
    rt_model_file m;
    rt_err e = { 0 };
    const char *path = "../shared/data/tokenizers/ggml-vocab-gpt-2.gguf";
    if (!rt_path_exists(path)) skip();
    if (gb_open(&m, path, &e) < 0) fail_msg("%s", e.text);
    assert_int_equal(m.text.vocab.token_count, 50257);
    assert_int_equal(m.text.vocab.merge_count, 50000);
    assert_int_equal(m.text.vocab.bos, 50256);
    assert_string_equal(m.text.vocab.pre, "gpt-2");
    assert_false(m.has_config);
    gb_close(&m);
}

/* ---- memory ---- */

static void test_out_of_memory(void **state)
{
    (void)state;
    const rt_allocator failing = { failing_alloc, failing_free, NULL };
    gguf_build b = gb_new();
    rt_model_file m;
    rt_err e = { 0 };
    gb_model_keys(&b, "llama");
    text_keys(&b, "llama");
    gb_string(&b, RT_GGUF_KEY_CONFIG, JSON("1", ""));
    /* More than a block of the arena, so that later allocations fail too. */
    char *long_name = calloc(1, 1000);
    memset(long_name, 'n', 999);
    gb_string(&b, "general.name", long_name);
    free(long_name);
    gb_model_tensors(&b);
    for (int i = 0; i < 300; i++) {
        char name[300];
        snprintf(name, sizeof name, "extra.%0240d", i);
        gb_tensor(&b, name, 0, 8, 0);
    }
    gb_save(&b, file);
    gb_free(&b);
    assert_int_equal(rt_alloc_live(), 0);
    rt_allocator_set(&failing);
    allowed = -1;
    uint64_t before = rt_alloc_count();
    if (gb_open(&m, file, &e) < 0) fail_msg("%s", e.text);
    gb_close(&m);
    uint64_t total = rt_alloc_count() - before;
    assert_true(total > 20);
    for (uint64_t i = 0; i < total; i++) {
        allowed = (int64_t)i;
        e = (rt_err){ 0 };
        int rc = gb_open(&m, file, &e);
        allowed = -1;
        gb_close(&m);
        if (rc != RT_NOMEM || !e.text[0])
            fail_msg("allocation %llu of %llu: status %d, '%s'", (unsigned long long)i, (unsigned long long)total, rc,
                     e.text);
        if (rt_alloc_live() != 0) fail_msg("allocation %llu: a leak", (unsigned long long)i);
    }
    rt_allocator_set(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_llama),
        cmocka_unit_test(test_families),
        cmocka_unit_test(test_biases_are_swapped),
        cmocka_unit_test(test_bad_config),
        cmocka_unit_test(test_unknown_key),
        cmocka_unit_test(test_rope_scaling),
        cmocka_unit_test(test_llama3),
        cmocka_unit_test(test_retort_config),
        cmocka_unit_test(test_text),
        cmocka_unit_test(test_bad_text),
        cmocka_unit_test(test_vocabulary_only),
        cmocka_unit_test(test_split),
        cmocka_unit_test(test_bad_split),
        cmocka_unit_test(test_listed),
        cmocka_unit_test(test_out_of_memory),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
