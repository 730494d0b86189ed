/* test_gguf.c - reading GGUF: every type of value, tensors and their places, and every way in which a file can be
 * wrong. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "gguf_case.h"

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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_values),      cmocka_unit_test(test_nested),           cmocka_unit_test(test_bad_keys),
        cmocka_unit_test(test_bad_header),  cmocka_unit_test(test_version_2),        cmocka_unit_test(test_truncated),
        cmocka_unit_test(test_bad_tensors), cmocka_unit_test(test_duplicate_tensor), cmocka_unit_test(test_alignment),
        cmocka_unit_test(test_tensors),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
