/* test_gguf.c - reading GGUF: every type of value, tensors and their places, configurations of each architecture, split
 * models, and every way in which a file can be wrong. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "gguf_build.h"
#include "memory_case.h"

static char folder[64], file[96];

static int make_folder(void **state)
{
    (void)state;
    snprintf(folder, sizeof folder, "/tmp/rt_gguf_XXXXXX");
    if (!mkdtemp(folder)) return -1;
    snprintf(file, sizeof file, "%s/model.gguf", folder);
    return 0;
}

static int remove_folder(void **state)
{
    (void)state;
    rt_dir_remove(folder);
    return 0;
}

/* Saves, frees, opens; the caller closes. */
static int open_built(gguf_build *b, rt_model_file *m, rt_err *e)
{
    *e = (rt_err){ 0 };
    gb_save(b, file);
    gb_free(b);
    return gb_open(m, file, e);
}

/* What is built must be refused: status, the file's name and a part of the message. */
static void refused(gguf_build *b, int status, const char *part)
{
    rt_model_file m;
    rt_err e;
    int rc = open_built(b, &m, &e);
    if (rc != status) fail_msg("status %d, expected %d, '%s' (for '%s')", rc, status, e.text, part);
    if (!strstr(e.text, file) || !strstr(e.text, part)) fail_msg("'%s' lacks '%s'", e.text, part);
    gb_close(&m);
}

static gguf_build model(const char *arch)
{
    gguf_build b = gb_new();
    gb_model_keys(&b, arch);
    gb_model_tensors(&b);
    return b;
}

static void opened(gguf_build *b, rt_model_file *m)
{
    rt_err e;
    if (open_built(b, m, &e) < 0) fail_msg("%s", e.text);
}

/* ---- keys ---- */

static void test_values(void **state)
{
    (void)state;
    static const uint8_t bytes[8] = { 0xFE, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF };
    static const uint32_t same[] = { 7, 7, 7 }, differ[] = { 7, 7, 8 };
    double f64 = 0.1, out = 0;
    uint32_t u = 0, count;
    bool flag = false;
    rt_span s = { 0 };
    const rt_span *list;
    rt_arena a = { 0 };
    rt_gguf g;
    rt_err e = { 0 };
    gguf_build b = gb_new();
    gb_key(&b, "u8", RT_GGUF_U8, bytes, 1);
    gb_key(&b, "i8", RT_GGUF_I8, bytes, 1);
    gb_key(&b, "u16", RT_GGUF_U16, bytes, 2);
    gb_key(&b, "i16", RT_GGUF_I16, bytes, 2);
    gb_u32(&b, "u32", 4000000000u);
    gb_key(&b, "i32", RT_GGUF_I32, bytes, 4);
    gb_f32(&b, "f32", 1e-5f);
    gb_bool(&b, "bool", 1);
    gb_string(&b, "string", "text");
    gb_key(&b, "u64", RT_GGUF_U64, bytes, 8);
    gb_key(&b, "i64", RT_GGUF_I64, bytes, 8);
    gb_key(&b, "f64", RT_GGUF_F64, &f64, 8);
    gb_array(&b, "same", RT_GGUF_U32, 3, same, sizeof same);
    gb_array(&b, "differ", RT_GGUF_U32, 3, differ, sizeof differ);
    gb_strings(&b, "strings", (const char *[]){ "", "one", "two three" }, 3);
    gb_save(&b, file);
    gb_free(&b);
    rt_map map;
    assert_int_equal(rt_map_open(&map, file, &e), RT_OK);
    if (rt_gguf_parse(&g, &map, file, &e) < 0) fail_msg("%s", e.text);
    static const struct {
        const char *key;
        double value;
    } numbers[] = {
        { "u8", 254 }, { "i8", -2 },    { "u16", 65534 }, { "i16", -2 },  { "u32", 4e9 },
        { "i32", -2 }, { "f32", 1e-5 }, { "i64", -2 },    { "f64", 0.1 }, { "u64", 18446744073709551614.0 }
    };
    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++) {
        assert_int_equal(rt_gguf_get_f64(&g, numbers[i].key, &out, &e), RT_OK);
        if (out != numbers[i].value) fail_msg("%s is %.17g", numbers[i].key, out);
    }
    assert_int_equal(rt_gguf_get_u32(&g, "u32", &u, &e), RT_OK);
    assert_int_equal(u, 4000000000u);
    assert_int_equal(rt_gguf_get_u32(&g, "same", &u, &e), RT_OK);
    assert_int_equal(u, 7);
    assert_int_equal(rt_gguf_get_u32(&g, "differ", &u, &e), RT_UNSUPPORTED);
    assert_non_null(strstr(e.text, "'differ' is not the same for all layers"));
    assert_int_equal(rt_gguf_get_u32(&g, "i32", &u, &e), RT_FORMAT);
    assert_int_equal(rt_gguf_get_u32(&g, "u64", &u, &e), RT_FORMAT);
    assert_int_equal(rt_gguf_get_u32(&g, "string", &u, &e), RT_FORMAT);
    assert_non_null(strstr(e.text, "'string' is a string, but must be a whole number"));
    assert_int_equal(rt_gguf_get_f64(&g, "same", &out, &e), RT_FORMAT);
    assert_int_equal(rt_gguf_get_bool(&g, "bool", &flag, &e), RT_OK);
    assert_true(flag);
    assert_int_equal(rt_gguf_get_bool(&g, "u8", &flag, &e), RT_FORMAT);
    assert_int_equal(rt_gguf_get_string(&g, "string", &s, &e), RT_OK);
    assert_int_equal(s.len, 4);
    assert_memory_equal(s.data, "text", 4);
    assert_int_equal(rt_gguf_get_string(&g, "u8", &s, &e), RT_FORMAT);
    assert_int_equal(rt_gguf_get_strings(&g, "strings", &list, &count, &a, &e), RT_OK);
    assert_int_equal(count, 3);
    assert_int_equal(list[0].len, 0);
    assert_memory_equal(list[2].data, "two three", 9);
    assert_int_equal(rt_gguf_get_strings(&g, "same", &list, &count, &a, &e), RT_FORMAT);
    u = 5;
    assert_int_equal(rt_gguf_get_u32(&g, "absent", &u, &e), RT_OK);
    assert_int_equal(u, 5);
    rt_arena_free(&a);
    rt_gguf_free(&g);
    rt_map_close(&map);
}

/* Arrays in arrays are stepped over, to a depth. */
static void test_nested(void **state)
{
    (void)state;
    for (uint32_t depth = 1; depth <= RT_GGUF_MAX_DEPTH + 1; depth++) {
        gguf_build b = model("llama");
        uint32_t array = RT_GGUF_ARRAY, u8 = RT_GGUF_U8;
        rt_str value = { 0 };
        for (uint32_t i = 1; i < depth; i++) {
            gb_raw(&value, &array, 4);
            gb_u64(&value, 1);
        }
        gb_raw(&value, &u8, 4);
        gb_u64(&value, 3);
        gb_raw(&value, "abc", 3);
        gb_key(&b, "nested", RT_GGUF_ARRAY, value.data, value.len);
        gb_u32(&b, "llama.attention.head_count_kv", 1); /* is found behind it */
        rt_str_free(&value);
        if (depth > RT_GGUF_MAX_DEPTH) {
            refused(&b, RT_FORMAT, "'nested'");
            continue;
        }
        rt_model_file m;
        rt_err e;
        /* one key/value head does not fit the tensors, which comes after the keys */
        assert_int_equal(open_built(&b, &m, &e), RT_FORMAT);
        assert_non_null(strstr(e.text, "attn_k"));
        gb_close(&m);
    }
}

static void bad_key(const void *bytes, size_t n, const char *part)
{
    gguf_build b = gb_new();
    gb_string(&b, "general.architecture", "llama");
    gb_raw(&b.keys, bytes, n);
    b.key_count++;
    gb_raw(&b.data, "0123456789abcdef0123456789abcdef", 32); /* room for the least that a key takes */
    refused(&b, RT_FORMAT, part);
}

static void test_bad_keys(void **state)
{
    (void)state;
    bad_key("\1\0\0\0\0\0\0\0k\15\0\0\0", 13, "has type 13");
    bad_key("\1\0\0\0\0\0\0\0k\xFF\xFF\xFF\xFF", 13, "has type 4294967295");
    bad_key("\1\0\0\0\0\0\0\0k\11\0\0\0\15\0\0\0\1\0\0\0\0\0\0\0", 25, "array of type 13");
    bad_key("\0\0\0\0\0\0\0\0\4\0\0\0\0\0\0\0", 16, "empty");
    bad_key("\2\0\0\0\0\0\0\0k\0\4\0\0\0\0\0\0\0", 18, "not text");
    bad_key("\1\0\0\0\0\0\0\x10k\4\0\0\0\0\0\0\0", 17, "key 1 at byte");
    /* a string, an array of numbers, of strings and of arrays, all longer than the file */
    bad_key("\1\0\0\0\0\0\0\0k\10\0\0\0\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF", 21, "'k'");
    bad_key("\1\0\0\0\0\0\0\0k\11\0\0\0\14\0\0\0\1\0\0\0\0\0\0\x20", 25, "'k'");
    bad_key("\1\0\0\0\0\0\0\0k\11\0\0\0\10\0\0\0\xFF\xFF\xFF\xFF\xFF\xFF\xFF\x7F", 25, "'k'");
    bad_key("\1\0\0\0\0\0\0\0k\11\0\0\0\11\0\0\0\xFF\xFF\xFF\xFF\xFF\xFF\xFF\x7F", 25, "'k'");
    bad_key("\24\0\0\0\0\0\0\0general.architecture\4\0\0\0\0\0\0\0", 36, "'general.architecture' is there twice");
}

static void test_bad_header(void **state)
{
    (void)state;
    gguf_build b = model("llama");
    b.version = 1;
    refused(&b, RT_UNSUPPORTED, "GGUF version 1; versions 2 and 3 are read");
    b = model("llama");
    b.version = 4;
    refused(&b, RT_UNSUPPORTED, "GGUF version 4");
    b = model("llama");
    b.version = 0x03000000;
    refused(&b, RT_UNSUPPORTED, "big-endian");
    b = model("llama");
    b.key_count = UINT64_MAX;
    refused(&b, RT_FORMAT, "18446744073709551615 keys");
    b = model("llama");
    b.tensor_count = UINT64_C(1) << 62;
    refused(&b, RT_FORMAT, "4611686018427387904 tensors");
    b = model("llama");
    b.tensor_count++;
    refused(&b, RT_FORMAT, "tensor 11");
    rt_model_file m;
    rt_err e = { 0 };
    gb_write(file, "GGML\3\0\0\0", 8);
    assert_int_equal(gb_open(&m, file, &e), RT_FORMAT);
    assert_non_null(strstr(e.text, "not a GGUF file"));
    gb_close(&m);
    gb_write(file, "", 0);
    assert_int_equal(gb_open(&m, file, &e), RT_FORMAT);
    gb_close(&m);
}

static void test_version_2(void **state)
{
    (void)state;
    gguf_build b = model("llama");
    rt_model_file m;
    b.version = 2;
    opened(&b, &m);
    assert_true(m.has_config);
    gb_close(&m);
}

/* Cut at every byte: refused, with the file's name, and nothing read outside of it (sanitizers watch). */
static void test_truncated(void **state)
{
    (void)state;
    gguf_build b = gb_new();
    static const char *const tokens[] = { "a", "b", "c", "d", "e" };
    rt_str whole = { 0 };
    rt_model_file m;
    gb_model_keys(&b, "llama");
    gb_string(&b, "tokenizer.ggml.model", "gpt2");
    gb_strings(&b, "tokenizer.ggml.tokens", tokens, 5);
    gb_model_tensors(&b);
    gb_bytes(&b, &whole);
    gb_free(&b);
    /* The last tensor ends where the file does: 8 x 4 is a multiple of the alignment. */
    for (size_t n = 0; n < whole.len; n += n < 1200 || n > whole.len - 40 ? 1 : 37) {
        rt_err e = { 0 };
        gb_write(file, whole.data, n);
        int rc = gb_open(&m, file, &e);
        if (rc != RT_FORMAT || !strstr(e.text, file)) fail_msg("%zu of %zu bytes: %d '%s'", n, whole.len, rc, e.text);
        gb_close(&m);
    }
    rt_str_free(&whole);
}

/* ---- tensors ---- */

static void test_bad_tensors(void **state)
{
    (void)state;
    static const uint64_t one[] = { 8 }, huge[] = { UINT64_C(1) << 40, UINT64_C(1) << 40 }, most[] = { UINT64_MAX };
    static const uint64_t nine[9] = { 1, 1, 1, 1, 1, 1, 1, 1, 1 }, row[] = { 1, 31 };
    gguf_build b = model("llama");
    gb_info(&b, "x", 1, one, 0, 1 << 20);
    refused(&b, RT_FORMAT, "past the end of the file");
    b = model("llama");
    gb_info(&b, "x", 1, one, 0, UINT64_MAX - 31);
    refused(&b, RT_FORMAT, "'x'");
    b = model("llama");
    gb_info(&b, "x", 1, one, 0, 4);
    refused(&b, RT_FORMAT, "offset 4 of tensor 'x' is not a multiple of 32");
    b = model("llama");
    gb_info(&b, "x", 1, one, 0, 32);
    refused(&b, RT_FORMAT, "'token_embd.weight' and 'x' overlap");
    b = model("llama");
    gb_info(&b, "x", 2, huge, 0, 0);
    refused(&b, RT_FORMAT, "impossible shape");
    b = model("llama");
    gb_info(&b, "x", 1, most, 24, 0);
    refused(&b, RT_FORMAT, "'x'");
    b = model("llama");
    gb_info(&b, "x", 9, nine, 0, 0);
    refused(&b, RT_FORMAT, "9 dimensions");
    b = model("llama");
    gb_info(&b, "x", 2, row, 8, 0);
    refused(&b, RT_FORMAT, "whole q8_0 blocks");
    b = model("llama");
    gb_info(&b, "x", 1, one, 16, 0);
    refused(&b, RT_UNSUPPORTED, "tensor 'x' has type IQ2_XXS");
    b = model("llama");
    gb_info(&b, "x", 1, one, 99, 0);
    refused(&b, RT_FORMAT, "type number 99");
    b = model("llama");
    gb_info(&b, "", 1, one, 0, 0);
    refused(&b, RT_FORMAT, "the name of tensor 11");
    b = model("llama");
    gb_u32(&b, "general.alignment", 48);
    refused(&b, RT_FORMAT, "general.alignment is 48");
    b = model("llama");
    gb_u32(&b, "general.alignment", 0);
    refused(&b, RT_FORMAT, "general.alignment is 0");
    b = model("llama");
    gb_string(&b, "general.alignment", "32");
    refused(&b, RT_FORMAT, "'general.alignment' is a string");
}

/* Names are compared where all formats meet. */
static void test_duplicate_tensor(void **state)
{
    (void)state;
    gguf_build b = model("llama");
    rt_model_file *m = NULL;
    rt_err e = { 0 };
    rt_hub_env env = { 0 };
    gb_tensor(&b, "blk.0.attn_v.weight", 8, 8, 0);
    gb_save(&b, file);
    gb_free(&b);
    assert_int_equal(rt_model_file_open(&m, file, &env, &e), RT_FORMAT);
    if (!strstr(e.text, file) || !strstr(e.text, "model.layers.0.self_attn.v_proj.weight")) fail_msg("%s", e.text);
    assert_null(m);
}

static void test_alignment(void **state)
{
    (void)state;
    gguf_build b = gb_new();
    rt_model_file m;
    float first;
    b.alignment = 256;
    gb_model_keys(&b, "qwen2");
    gb_u32(&b, "general.alignment", 256);
    gb_model_tensors(&b);
    for (int i = 0; i < 3; i++)
        gb_tensor(&b, (const char *[]){ "blk.0.attn_q.bias", "blk.0.attn_k.bias", "blk.0.attn_v.bias" }[i], 0, 8, 0);
    opened(&b, &m);
    const rt_tensor *t = gb_find(&m, "blk.0.ffn_up.weight");
    assert_int_equal((size_t)(t->data - m.parts[0].map.data) % 256, 0);
    memcpy(&first, t->data, 4);
    assert_true(first == 800);
    gb_close(&m);
}

static void test_tensors(void **state)
{
    (void)state;
    gguf_build b = model("llama");
    rt_model_file m;
    float row[8];
    gb_tensor(&b, "output.weight", 5, 8, 2000);
    gb_tensor(&b, "unheard.of", 3, 4, 0);
    opened(&b, &m);
    assert_int_equal(m.tensor_count, 13);
    const rt_tensor *t = gb_find(&m, "blk.0.ffn_down.weight");
    assert_string_equal(t->name, "model.layers.0.mlp.down_proj.weight");
    assert_int_equal(t->role, RT_ROLE_DOWN);
    assert_int_equal(t->rank, 2);
    assert_int_equal(t->shape[0], 8);
    assert_int_equal(t->shape[1], 12);
    assert_int_equal(gb_find(&m, "unheard.of")->role, RT_ROLE_NONE);
    /* Heads of four rows, stored as 0 2 1 3. */
    t = gb_find(&m, "blk.0.attn_q.weight");
    assert_int_equal(t->swap_heads, 2);
    static const int stored[] = { 0, 2, 1, 3, 4, 6, 5, 7 };
    for (int r = 0; r < 8; r++) {
        rt_tensor_to_f32(row, t, (uint64_t)r, 1);
        assert_true(row[0] == (float)(200 + 8 * stored[r]));
    }
    assert_int_equal(gb_find(&m, "blk.0.attn_v.weight")->swap_heads, 0);
    gb_close(&m);
}

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
    opened(&b, &m);
    const rt_model_config *c = &m.config;
    assert_true(m.has_config);
    assert_string_equal(m.name, "Little");
    assert_int_equal(c->family, RT_FAMILY_LLAMA);
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
    assert_int_equal(m.config.family, RT_FAMILY_QWEN2);
    assert_true(m.config.qkv_bias && !m.config.tied);
    assert_int_equal(gb_find(&m, "blk.0.attn_q.weight")->swap_heads, 0);
    gb_close(&m);
    b = model("qwen3");
    gb_tensor(&b, "blk.0.attn_q_norm.weight", 0, 4, 0);
    gb_tensor(&b, "blk.0.attn_k_norm.weight", 0, 4, 0);
    opened(&b, &m);
    assert_true(m.config.family == RT_FAMILY_QWEN3 && m.config.qk_norm);
    gb_close(&m);
    b = model("llama");
    gb_u32(&b, "llama.attention.sliding_window", 32);
    opened(&b, &m);
    assert_int_equal(m.config.family, RT_FAMILY_MISTRAL);
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
    assert_int_equal(m.config.family, RT_FAMILY_SMOLLM3);
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
    refused(&b, RT_INVALID, "key/value heads is 0");
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
        cmocka_unit_test(test_values),
        cmocka_unit_test(test_nested),
        cmocka_unit_test(test_bad_keys),
        cmocka_unit_test(test_bad_header),
        cmocka_unit_test(test_version_2),
        cmocka_unit_test(test_truncated),
        cmocka_unit_test(test_bad_tensors),
        cmocka_unit_test(test_duplicate_tensor),
        cmocka_unit_test(test_alignment),
        cmocka_unit_test(test_tensors),
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
