/* test_apr_write.c - writing APR v2: what we write we read back, the footer, and every allocation failing in turn. */
#include "apr_case.h"

#include "base/json.h"
#include "format/apr/apr.h"
#include "format/model_write.h"

#include <jansson.h>

#include <math.h>

/* ---- what we write ---- */

static rt_model_config config;
static rt_out_tensor tensors[128];

static float value_at(uint32_t i, uint64_t k) { return (float)((i * 131 + k * 7) % 251) / 64 - 2; }

static int give_rows(void *ctx, uint32_t i, uint64_t row, uint64_t rows, void *dst, uint32_t worker, rt_err *e)
{
    (void)ctx, (void)worker, (void)e;
    uint64_t shape[2] = { 1, 1 };
    uint32_t rank = rt_role_shape(&config, tensors[i].role, shape);
    uint64_t cols = shape[rank - 1];
    for (uint64_t k = 0; k < rows * cols; k++) {
        float x = value_at(i, row * cols + k);
        rt_float_from_f32((uint8_t *)dst + k * rt_dtype_bytes(tensors[i].dtype, 1), &x, tensors[i].dtype, 1);
    }
    return RT_OK;
}

static void describe(rt_model_out *o, const char *preset, rt_dtype matrices, const rt_model_text *text)
{
    memset(&config, 0, sizeof config);
    rt_preset_fill(rt_preset_find(preset), &config);
    uint32_t count = rt_param_count(&config);
    assert_true(count <= 128);
    for (uint32_t i = 0; i < count; i++) {
        uint64_t shape[2];
        assert_true(rt_param_at(&config, i, &tensors[i].role, &tensors[i].layer));
        tensors[i].dtype = rt_role_shape(&config, tensors[i].role, shape) == 2 ? matrices : RT_DTYPE_F32;
    }
    *o = (rt_model_out){ .to = RT_CONTAINER_APR,
                         .path = in_dir("out.apr"),
                         .name = "a \"name\"",
                         .config = &config,
                         .text = text,
                         .tensors = tensors,
                         .tensor_count = count,
                         .replace = true };
}

static const rt_tok_text tokens[] = { { "a", 1 }, { "b\"\n", 3 }, { "\xC4\xA0", 2 }, { "<|x|>", 5 } };
static const rt_tok_text merges[] = { { "a b\"\n", 5 } };
static const int32_t kinds[] = { 1, 1, 1, 3 };
static const float scores[] = { 0, -1.5f, 3.4e-8f, -16777216 };

static rt_model_text some_text(void)
{
    static const char json[] = "{ \"version\": \"1.0\" }\n", conf[] = "{\"eos_token\": \"<|x|>\"}", gen[] = "{}",
                      chat[] = "{{ 'é\\n' }}";
    return (rt_model_text){ .tokenizer_json = { json, sizeof json - 1 },
                            .tokenizer_config = { conf, sizeof conf - 1 },
                            .generation_config = { gen, sizeof gen - 1 },
                            .chat_template = { chat, sizeof chat - 1 },
                            .has_vocab = true,
                            .vocab = { .model = "gpt2",
                                       .pre = "qwen2",
                                       .tokens = tokens,
                                       .token_count = 4,
                                       .types = kinds,
                                       .scores = scores,
                                       .merges = merges,
                                       .merge_count = 1,
                                       .bos = -1,
                                       .eos = 3,
                                       .add_bos = 0,
                                       .add_eos = -1,
                                       .add_space_prefix = -1 },
                            .unk = -1,
                            .pad = 0,
                            .eot = 3 };
}

static void same_span(rt_span a, rt_span b)
{
    assert_int_equal(a.len, b.len);
    assert_memory_equal(a.data, b.data, a.len);
}

static void check_text(const rt_model_text *got, const rt_model_text *want)
{
    same_span(got->tokenizer_json, want->tokenizer_json);
    same_span(got->tokenizer_config, want->tokenizer_config);
    same_span(got->generation_config, want->generation_config);
    same_span(got->chat_template, want->chat_template);
    assert_true(got->has_vocab);
    assert_int_equal(got->vocab.token_count, 4);
    for (int i = 0; i < 4; i++) {
        same_span(got->vocab.tokens[i], tokens[i]);
        assert_int_equal(got->vocab.types[i], kinds[i]);
        assert_true(got->vocab.scores[i] == scores[i]);
    }
    same_span(got->vocab.merges[0], merges[0]);
    assert_string_equal(got->vocab.model, "gpt2");
    assert_string_equal(got->vocab.pre, "qwen2");
    assert_int_equal(got->vocab.bos, -1);
    assert_int_equal(got->vocab.eos, 3);
    assert_int_equal(got->vocab.add_bos, 0);
    assert_int_equal(got->vocab.add_eos, -1);
    assert_int_equal(got->pad, 0);
    assert_int_equal(got->eot, 3);
}

static void check_values(const rt_model_file *m, rt_dtype matrices)
{
    for (uint32_t i = 0; i < rt_param_count(&config); i++) {
        char name[RT_NAME_BYTES];
        const rt_tensor *t = rt_model_file_find(m, rt_role_hf_name(name, tensors[i].role, tensors[i].layer));
        assert_non_null(t);
        uint64_t rows = rt_tensor_rows(t), cols = rt_tensor_cols(t);
        float *y = malloc(rows * cols * sizeof *y);
        rt_tensor_to_f32(y, t, 0, rows);
        for (uint64_t k = 0; k < rows * cols; k++) {
            float x = value_at(i, k);
            if (t->rank == 2 && matrices == RT_DTYPE_BF16) x = rt_bf16_to_f32(rt_bf16_from_f32(x));
            assert_true(y[k] == x);
        }
        assert_int_equal((t->data - m->parts[0].map.data) % 64, 0);
        free(y);
    }
}

static void test_round_trip(void **state)
{
    (void)state;
    rt_model_text text = some_text();
    rt_pool *pool = NULL;
    rt_err e = { 0 };
    assert_int_equal(rt_pool_new(&pool, 2, &e), RT_OK);
    for (int p = 0; rt_families[p]; p++) {
        rt_dtype matrices = p % 2 ? RT_DTYPE_F32 : RT_DTYPE_BF16;
        rt_model_out o;
        rt_model_file *m = NULL;
        rt_model_write_calls calls = { .rows = give_rows };
        char name[64];
        snprintf(name, sizeof name, "tiny-%s", rt_families[p]->name);
        describe(&o, name, matrices, p == 4 ? NULL : &text);
        if (rt_model_write(&o, &calls, pool, &e) < 0) fail_msg("%s", e.text);
        if (rt_model_file_open(&m, in_dir("out.apr"), NULL, &e) < 0) fail_msg("%s", e.text);
        if (rt_model_file_check(m, &e) < 0) fail_msg("%s", e.text);
        if (rt_model_file_check_bytes(m, pool, &e) < 0) fail_msg("%s", e.text);
        if (rt_model_file_check_bytes(m, NULL, &e) < 0) fail_msg("%s", e.text);
        assert_ptr_equal(m->config.family, config.family);
        assert_int_equal(m->config.layers, config.layers);
        assert_int_equal(m->config.head_dim, config.head_dim);
        assert_int_equal(m->config.window, config.window);
        assert_memory_equal(m->config.layer_flags, config.layer_flags, sizeof config.layer_flags);
        assert_true(m->config.rope.theta == config.rope.theta && m->config.norm_eps == config.norm_eps);
        assert_int_equal(m->config.tied, config.tied);
        assert_int_equal(m->config.o_bias, config.o_bias);
        assert_string_equal(m->name, "a \"name\"");
        assert_int_equal(m->note_count, 0);
        check_values(m, matrices);
        if (o.text)
            check_text(&m->text, &text);
        else
            assert_false(m->text.has_vocab || m->text.tokenizer_json.data);
        /* row-major; a vocabulary where there is one */
        assert_int_equal(m->parts[0].map.data[6], 0);
        assert_int_equal(m->parts[0].map.data[7], o.text ? 0x06 : 0x04);
        rt_model_file_close(m);
    }
    rt_pool_free(pool);
}

/* Each concept once: no name and alias together, no key twice. */
static void test_keys_once(void **state)
{
    (void)state;
    static const char *const aliases[] = { "hidden_dim",
                                           "d_model",
                                           "n_embd",
                                           "num_hidden_layers",
                                           "num_attention_heads",
                                           "n_layers",
                                           "n_head",
                                           "num_key_value_heads",
                                           "n_vocab",
                                           "max_seq_len",
                                           "norm_eps",
                                           "layer_norm_eps" };
    rt_model_text text = some_text();
    rt_model_out o;
    rt_file_layout l = { 0 };
    rt_arena a = { 0 };
    rt_err e = { 0 };
    describe(&o, "tiny-llama", RT_DTYPE_F32, &text);
    if (rt_apr_layout(&o, &a, &l, &e) < 0) fail_msg("%s", e.text);
    assert_true(l.footer_crc);
    assert_int_equal(l.head.len % 64, 0);
    assert_int_equal(l.size % 64, 0);
    size_t n = (uint8_t)l.head.data[20] | (size_t)(uint8_t)l.head.data[21] << 8;
    json_t *meta = json_loadb(l.head.data + 64, n, JSON_REJECT_DUPLICATES, NULL);
    assert_non_null(meta);
    for (size_t i = 0; i < sizeof aliases / sizeof aliases[0]; i++) assert_null(json_object_get(meta, aliases[i]));
    assert_int_equal(json_integer_value(json_object_get(meta, "rope_type")), 2);
    assert_int_equal(json_integer_value(json_object_get(meta, "hidden_size")), config.width);
    assert_string_equal(json_string_value(json_object_get(meta, "hf_architecture")), "LlamaForCausalLM");
    uint64_t parameters;
    assert_true(rt_config_parameters(&config, &parameters));
    assert_int_equal(json_integer_value(json_object_get(meta, "param_count")), parameters);
    json_decref(meta);
    rt_str_free(&l.head);
    rt_arena_free(&a);
}

static void expect_no_layout(const rt_model_out *o, int status, const char *words)
{
    rt_file_layout l = { 0 };
    rt_arena a = { 0 };
    rt_err e = { 0 };
    int rc = rt_apr_layout(o, &a, &l, &e);
    if (rc != status) fail_msg("%d: %s", rc, e.text);
    assert_says(&e, words);
    rt_str_free(&l.head);
    rt_arena_free(&a);
}

static void test_layout_refused(void **state)
{
    (void)state;
    rt_model_text text = some_text();
    rt_model_out o;
    describe(&o, "tiny-llama", RT_DTYPE_Q8_0, &text);
    expect_no_layout(&o, RT_INVALID, "q8_0|q4_k and q6_k|out.apr");
    describe(&o, "tiny-llama", RT_DTYPE_Q4_K, &text);
    expect_no_layout(&o, RT_INVALID, "whole blocks of q4_k");
    describe(&o, "tiny-llama", RT_DTYPE_F32, &text);
    text.chat_template = (rt_span){ "\xff", 1 };
    expect_no_layout(&o, RT_INVALID, "chat_template|UTF-8");
    text = some_text();
    static const rt_tok_text bad[] = { { "a", 1 }, { "\xC3", 1 } };
    text.vocab.tokens = bad;
    text.vocab.token_count = 2;
    expect_no_layout(&o, RT_INVALID, "entry 1|tokenizer.vocabulary|UTF-8");
    text = some_text();
    float infinite[4] = { INFINITY };
    text.vocab.scores = infinite;
    expect_no_layout(&o, RT_INVALID, "score of token 0");
}

static size_t layout_has(const rt_model_out *o, const char *word)
{
    rt_file_layout l = { 0 };
    rt_arena a = { 0 };
    rt_err e = { 0 };
    if (rt_apr_layout(o, &a, &l, &e) < 0) fail_msg("%s", e.text);
    size_t n = memmem(l.head.data, l.head.len, word, strlen(word)) ? l.head.len : 0;
    rt_str_free(&l.head);
    rt_arena_free(&a);
    return n;
}

/* What is left out when 16 MiB are too few. */
static void test_cap(void **state)
{
    (void)state;
    enum { BIG = 17 << 20 };
    rt_model_text text = some_text();
    rt_model_out o;
    describe(&o, "tiny-llama", RT_DTYPE_F32, &text);
    char *json = malloc(BIG);
    /* mostly white space: written without it */
    memset(json, ' ', BIG);
    json[0] = '{';
    memcpy(json + BIG - 9, "\"a\": [1]}", 9);
    text.tokenizer_json = (rt_span){ json, BIG };
    assert_true(layout_has(&o, "\"retort.tokenizer_json\":\"{\\\"a\\\":[1]}\"") > 0);
    /* no white space: left out, the vocabulary stays */
    memset(json, 'x', BIG);
    memcpy(json, "{\"a\":\"", 6);
    memcpy(json + BIG - 2, "\"}", 2);
    assert_int_equal(layout_has(&o, "retort.tokenizer_json"), 0);
    assert_true(layout_has(&o, "tokenizer.vocabulary") > 0);
    text.has_vocab = false;
    expect_no_layout(&o, RT_INVALID, "17825792|16777216|without the tokenizer");
    /* a vocabulary that is too large by itself */
    rt_tok_text huge[4] = { { json, BIG }, tokens[0], tokens[1], tokens[2] };
    text = some_text();
    text.vocab.tokens = huge;
    expect_no_layout(&o, RT_INVALID, "4 tokens|16777216|without the tokenizer");
    free(json);
}

/* Text and numbers as JSON reads them back. */
static void test_json_text(void **state)
{
    (void)state;
    static const char all[] = "q\" b\\ s/ \n\r\t\b\f \x01\x1f\x7f \xC3\xA9 \xF0\x9F\x98\x80 \0z";
    static const double numbers[] = {
        0, 1, -1.5, 1e-6, 1e22, 0.1, 1.0 / 3, 1e-300, 1000000, 5e-324, 1.7976931348623157e308
    };
    static const char *const bad[] = { "\xff", "\xC0\x80",      "\xE0\x80\x80", "\xED\xA0\x80", "\xF4\x90\x80\x80",
                                       "\xC3", "ok\xF0\x9F\x98" };
    rt_str s = { 0 };
    assert_true(rt_json_put_text(&s, all, sizeof all - 1));
    json_t *v = json_loadb(s.data, s.len, JSON_DECODE_ANY | JSON_ALLOW_NUL, NULL);
    assert_int_equal(json_string_length(v), sizeof all - 1);
    assert_memory_equal(json_string_value(v), all, sizeof all - 1);
    json_decref(v);
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        size_t before = s.len;
        assert_false(rt_json_put_text(&s, bad[i], strlen(bad[i])));
        assert_int_equal(s.len, before);
    }
    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++) {
        s.len = 0;
        rt_json_put_double(&s, numbers[i]);
        v = json_loadb(s.data, s.len, JSON_DECODE_ANY, NULL);
        assert_true(json_is_real(v) && json_real_value(v) == numbers[i]);
        json_decref(v);
        s.len = 0;
        rt_json_put_float(&s, (float)numbers[i]);
        if (isfinite((float)numbers[i])) assert_true(strtof(s.data, NULL) == (float)numbers[i]);
    }
    s.len = 0;
    rt_json_put_double(&s, 0.1);
    assert_string_equal(s.data, "0.1");
    rt_str_free(&s);
}

/* ---- footer ---- */

static void test_footer(void **state)
{
    (void)state;
    rt_err e = { 0 };
    rt_model_file *m = NULL;
    rt_pool *pool = NULL;
    apr_make(&file, META, two, 2);
    file.bytes[file.data + 5] ^= 1;
    m = expect_good(); /* opening does not read the whole file */
    assert_int_equal(rt_model_file_check_bytes(m, NULL, &e), RT_FORMAT);
    assert_says(&e, "good.apr|footer|CRC|damaged|copy it again");
    rt_model_file_close(m);
    /* several pieces whose sums are put together */
    enum { LARGE = 21 << 20 };
    apr_build_tensor t = { "x", 7, 1, { LARGE - 4096 }, NULL, 64 };
    apr_make(&file, META, &t, 1);
    uint8_t *bytes = calloc(1, LARGE);
    memcpy(bytes, file.bytes, file.data);
    apr_put(bytes + file.index + 2 + 1 + 2 + 8 + 8, LARGE - 4096, 8);
    for (size_t i = file.data; i < LARGE; i++) bytes[i] = (uint8_t)(i * 2654435761u >> 24);
    apr_fix_footer(bytes, LARGE);
    put_file("large.apr", bytes, LARGE);
    assert_int_equal(rt_pool_new(&pool, 2, &e), RT_OK);
    if (rt_model_file_open(&m, in_dir("large.apr"), NULL, &e) < 0) fail_msg("%s", e.text);
    if (rt_model_file_check_bytes(m, pool, &e) < 0) fail_msg("%s", e.text);
    rt_model_file_close(m);
    bytes[LARGE - 5] ^= 0x80;
    put_file("large.apr", bytes, LARGE);
    assert_int_equal(rt_model_file_open(&m, in_dir("large.apr"), NULL, &e), RT_OK);
    assert_int_equal(rt_model_file_check_bytes(m, pool, &e), RT_FORMAT);
    m->container = RT_CONTAINER_GGUF;
    assert_int_equal(rt_model_file_check_bytes(m, pool, &e), RT_OK);
    rt_model_file_close(m);
    rt_pool_free(pool);
    free(bytes);
}

/* ---- memory ---- */

static int read_all(void *ctx, rt_err *e)
{
    rt_model_file *m = NULL;
    int rc = rt_model_file_open(&m, ctx, NULL, e);
    if (rc == RT_OK) rc = rt_model_file_check_bytes(m, NULL, e);
    rt_model_file_close(m);
    return rc;
}

static int lay_out(void *ctx, rt_err *e)
{
    rt_file_layout l = { 0 };
    rt_arena a = { 0 };
    int rc = rt_apr_layout(ctx, &a, &l, e);
    rt_str_free(&l.head);
    rt_arena_free(&a);
    return rc;
}

static void test_allocations_fail(void **state)
{
    (void)state;
    apr_make(&file,
             META_HEAD ",\"name\":\"n\",\"chat_template\":\"c\",\"tokenizer.vocabulary\":[\"a\",\"b\",\"ab\"],"
                       "\"tokenizer.merges\":[\"a b\"],\"retort.vocab\":{\"model\":\"gpt2\",\"pre\":\"gpt-2\","
                       "\"types\":[1,1,1],\"scores\":[1,2,3]}}",
             two, 2);
    save("oom.apr");
    static char path[512];
    snprintf(path, sizeof path, "%s", in_dir("oom.apr"));
    fail_each(read_all, path, 0);
    rt_model_text text = some_text();
    rt_model_out o;
    describe(&o, "tiny-llama", RT_DTYPE_F32, &text);
    o.path = path;
    fail_each(lay_out, &o, 0);
}

int main(void)
{
    rt_json_init();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_round_trip),       cmocka_unit_test(test_keys_once),
        cmocka_unit_test(test_layout_refused),   cmocka_unit_test(test_cap),
        cmocka_unit_test(test_json_text),        cmocka_unit_test(test_footer),
        cmocka_unit_test(test_allocations_fail),
    };
    return cmocka_run_group_tests(tests, make_test_dir, remove_test_dir);
}
