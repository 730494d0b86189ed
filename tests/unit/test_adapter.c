/* test_adapter.c - a LoRA folder opened as a model: the values of every row, scales, adapters over adapters, what a
 * reader asks for in pieces, the base's name, and memory that is out. The command line's side is tests/cli/adapter.sh.
 */
#include "format_case.h"

#include "format/adapter.h"
#include "format/convert.h"
#include "format/tensor_file.h"

#include <math.h>

#define CONFIG                                                                                                         \
    "{\"model_type\":\"llama\",\"num_hidden_layers\":1,\"hidden_size\":8,\"num_attention_heads\":2,"                   \
    "\"num_key_value_heads\":1,\"intermediate_size\":6,\"vocab_size\":5,\"tie_word_embeddings\":true}"
#define Q "model.layers.0.self_attn.q_proj"
#define DOWN "model.layers.0.mlp.down_proj"

/* Values that are no sums of few bits, and others for each tensor. */
static float value(uint32_t tensor, uint64_t i) { return sinf((float)(tensor * 131 + i * 7 + 1)); }

static int put_values(void *ctx, uint32_t tensor, uint64_t first, uint64_t n, void *dst, rt_err *e)
{
    (void)e;
    for (uint64_t i = 0; i < n; i++) ((float *)dst)[i] = value(*(uint32_t *)ctx + tensor, first + i);
    return RT_OK;
}

static void put_tensors(const char *path, const rt_named_tensor *t, uint32_t count, uint32_t first)
{
    rt_err e = { 0 };
    if (rt_tensor_file_write(in_dir(path), t, count, put_values, &first, NULL, &e) < 0) fail_msg("%s", e.text);
}

static void put_base(const char *folder)
{
    static const struct {
        const char *name;
        uint64_t rows, cols;
    } all[] = { { "model.embed_tokens.weight", 5, 8 },
                { "model.layers.0.input_layernorm.weight", 8, 0 },
                { Q ".weight", 8, 8 },
                { "model.layers.0.self_attn.k_proj.weight", 4, 8 },
                { "model.layers.0.self_attn.v_proj.weight", 4, 8 },
                { "model.layers.0.self_attn.o_proj.weight", 8, 8 },
                { "model.layers.0.post_attention_layernorm.weight", 8, 0 },
                { "model.layers.0.mlp.gate_proj.weight", 6, 8 },
                { "model.layers.0.mlp.up_proj.weight", 6, 8 },
                { DOWN ".weight", 8, 6 },
                { "model.norm.weight", 8, 0 } };
    enum { N = sizeof all / sizeof *all };
    rt_named_tensor list[N];
    char path[64];
    for (int i = 0; i < N; i++)
        list[i] = (rt_named_tensor){ all[i].name, RT_DTYPE_F32, all[i].cols ? 2 : 1, { all[i].rows, all[i].cols } };
    snprintf(path, sizeof path, "%s/config.json", folder);
    put_text(path, CONFIG);
    snprintf(path, sizeof path, "%s/model.safetensors", folder);
    put_tensors(path, list, N, 0);
}

/* Over q (rank r) and down (rank s); keys: the rest of its configuration. */
static void put_adapter(const char *folder, const char *keys, uint64_t r, uint64_t s, uint32_t first)
{
    const rt_named_tensor list[] = {
        { "base_model.model." DOWN ".lora_A.weight", RT_DTYPE_F32, 2, { s, 6 } },
        { "base_model.model." DOWN ".lora_B.weight", RT_DTYPE_F32, 2, { 8, s } },
        { "base_model.model." Q ".lora_A.weight", RT_DTYPE_F32, 2, { r, 8 } },
        { "base_model.model." Q ".lora_B.default.weight", RT_DTYPE_F32, 2, { 8, r } },
    };
    char path[64], text[400];
    snprintf(path, sizeof path, "%s/adapter_config.json", folder);
    snprintf(text, sizeof text, "{\"peft_type\":\"LORA\",\"target_modules\":[\"q_proj\",\"down_proj\"],%s}", keys);
    put_text(path, text);
    snprintf(path, sizeof path, "%s/adapter_model.safetensors", folder);
    put_tensors(path, list, 4, first);
}

static rt_model_file *opened(const char *folder)
{
    rt_err e = { 0 };
    rt_model_file *m;
    if (rt_model_file_open(&m, in_dir(folder), NULL, &e) < 0) fail_msg("%s", e.text);
    if (rt_model_file_check(m, &e) < 0) fail_msg("%s", e.text);
    return m;
}

/* Of q at row, col: its adapter's tensors begin at `first`. */
static double added(uint32_t first, uint32_t rank, double scale, uint64_t row, uint64_t col)
{
    double sum = 0;
    for (uint32_t k = 0; k < rank; k++) sum += (double)value(first + 3, row * rank + k) * value(first + 2, k * 8 + col);
    return scale * sum;
}

static void assert_q(const rt_model_file *m, uint32_t first, uint32_t rank, double scale,
                     double (*more)(uint64_t, uint64_t))
{
    float y[64];
    const rt_tensor *t = rt_model_file_find(m, Q ".weight");
    assert_non_null(t);
    assert_int_equal(t->store, RT_STORE_MERGED);
    assert_int_equal(t->dtype, RT_DTYPE_F32);
    rt_tensor_to_f32(y, t, 0, 8);
    for (uint64_t i = 0; i < 64; i++) {
        double want = value(2, i) + added(first, rank, scale, i / 8, i % 8) + (more ? more(i / 8, i % 8) : 0);
        if (fabs(y[i] - want) > 2e-6) fail_msg("element %d: %.9g, not %.9g", (int)i, y[i], want);
    }
}

static void values_are_w_plus_scaled_b_a(void **state)
{
    (void)state;
    put_base("base");
    put_adapter("lora", "\"r\":3,\"lora_alpha\":6,\"base_model_name_or_path\":\"../base\"", 3, 3, 20);
    rt_model_file *m = opened("lora");
    assert_q(m, 20, 3, 2, NULL);
    assert_string_equal(m->name, "lora");
    assert_int_equal(m->adapter->matrices, 2);
    assert_false(m->config.random_init);
    assert_int_equal(m->tensor_count, 11);
    /* In pieces that begin and end within rows, the same bits. */
    const rt_tensor *t = rt_model_file_find(m, DOWN ".weight");
    float all[48], part[48];
    rt_tensor_to_f32(all, t, 0, 8);
    for (uint64_t at = 0; at < 48; at += 5) rt_tensor_range_to_f32(part + at, t, at, 48 - at < 5 ? 48 - at : 5);
    assert_memory_equal(all, part, sizeof all);
    /* What has no adapter is the file's. */
    assert_int_equal(rt_model_file_find(m, "model.layers.0.self_attn.o_proj.weight")->store, RT_STORE_PLAIN);
    rt_model_file_close(m);
}

static void scales(void **state)
{
    (void)state;
    const char *base = "\"base_model_name_or_path\":\"../base\"";
    char keys[300];
    snprintf(keys, sizeof keys, "\"r\":4,\"lora_alpha\":6,\"use_rslora\":true,%s", base);
    put_adapter("rs", keys, 4, 4, 20);
    rt_model_file *m = opened("rs");
    assert_q(m, 20, 4, 3, NULL); /* 6 / sqrt(4) */
    rt_model_file_close(m);
    snprintf(keys, sizeof keys,
             "\"r\":2,\"lora_alpha\":6,\"rank_pattern\":{\"self_attn.q_proj\":4},"
             "\"alpha_pattern\":{\"k_proj\":1,\"q_proj\":2},%s",
             base);
    put_adapter("pattern", keys, 4, 2, 20);
    m = opened("pattern");
    assert_q(m, 20, 4, 0.5, NULL);
    assert_float_equal(rt_model_file_find(m, DOWN ".weight")->pair->scale, 3, 0);
    rt_model_file_close(m);
}

static double first_one(uint64_t row, uint64_t col) { return added(20, 3, 2, row, col); }

static void an_adapter_over_an_adapter(void **state)
{
    (void)state;
    put_adapter("second", "\"r\":2,\"lora_alpha\":1,\"base_model_name_or_path\":\"../lora\"", 2, 2, 40);
    rt_model_file *m = opened("second");
    assert_q(m, 40, 2, 0.5, first_one);
    assert_int_equal(m->part_count, 3);
    assert_ptr_equal(rt_tensor_under(rt_model_file_find(m, Q ".weight"))->pair, NULL);
    rt_model_file_close(m);
}

/* The base's place on the hub is not that of the base with an adapter. */
static void on_no_hub(void **state)
{
    (void)state;
    char config[sizeof CONFIG + 64] = CONFIG;
    put_base("little");
    snprintf(strrchr(config, '}'), 64, ",\"_name_or_path\":\"org/little\"}");
    put_text("little/config.json", config);
    put_adapter("over", "\"r\":2,\"lora_alpha\":1,\"base_model_name_or_path\":\"../little\"", 2, 2, 40);
    rt_model_file *base = opened("little"), *m = opened("over");
    assert_string_equal(base->hub, "org/little");
    assert_null(m->hub);
    rt_model_file_close(base);
    rt_model_file_close(m);
}

/* Merged as a model, the values are the same; unmerged for llama.cpp, it is no model. */
static void written(void **state)
{
    (void)state;
    rt_err e = { 0 };
    rt_pool *pool;
    rt_convert v = { 0 };
    rt_hash128 a, b;
    uint64_t bytes;
    rt_model_file *m = opened("lora"), *back;
    assert_int_equal(rt_pool_new(&pool, 1, &e), RT_OK);
    const rt_convert_opts o = { .to = RT_CONTAINER_GGUF, .path = in_dir("merged.gguf") };
    if (rt_convert_plan(&v, m, &o, &e) < 0 || rt_convert_run(&v, NULL, NULL, pool, &e) < 0) fail_msg("%s", e.text);
    assert_int_equal(v.same, v.tensor_count); /* the base is f32, so merging rounds nothing more */
    assert_int_equal(rt_model_content_hash(m, pool, &a, NULL, &e), RT_OK);
    back = opened("merged.gguf");
    assert_int_equal(rt_model_content_hash(back, pool, &b, NULL, &e), RT_OK);
    assert_true(rt_hash_equal(a, b));
    if (rt_adapter_write_gguf(m, in_dir("lora.gguf"), RT_DTYPE_F16, true, &bytes, &e) < 0) fail_msg("%s", e.text);
    rt_model_file_close(back);
    assert_int_equal(rt_model_file_open(&back, in_dir("lora.gguf"), NULL, &e), RT_UNSUPPORTED);
    assert_says(&e, "lora.gguf|an adapter for llama.cpp");
    rt_convert_free(&v);
    rt_model_file_close(m);
    rt_pool_free(pool);
}

static int open_it(void *ctx, rt_err *e)
{
    rt_model_file *m;
    int rc = rt_model_file_open(&m, ctx, NULL, e);
    if (rc == RT_OK) rt_model_file_close(m);
    return rc;
}

static void out_of_memory(void **state)
{
    (void)state;
    char path[512];
    put_text("lora/tokenizer.json", "{\"model\":{\"vocab\":{\"a\":0}},\"added_tokens\":[{\"id\":1}]}");
    snprintf(path, sizeof path, "%s", in_dir("lora"));
    fail_every(1, open_it, path, 2); /* the note */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(values_are_w_plus_scaled_b_a),
        cmocka_unit_test(scales),
        cmocka_unit_test(an_adapter_over_an_adapter),
        cmocka_unit_test(on_no_hub),
        cmocka_unit_test(written),
        cmocka_unit_test(out_of_memory),
    };
    return cmocka_run_group_tests(tests, make_test_dir, remove_test_dir);
}
