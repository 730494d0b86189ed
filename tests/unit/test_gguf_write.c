/* test_gguf_write.c - GGUF outputs: what is written is read back as it was, for every family and kind of rope; layouts
 * that ggml accepts; what the format cannot say is refused. */
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
    snprintf(folder, sizeof folder, "/tmp/rt_gguf_write_XXXXXX");
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

static rt_model_config preset(const char *name)
{
    rt_model_config c = { 0 };
    const rt_preset *p = rt_preset_find(name);
    if (!p) fail_msg("no preset %s", name);
    rt_preset_fill(p, &c);
    return c;
}

/* An output of c in which every matrix has type d and every vector f32; tensors is freed by the caller. */
static rt_model_out output(const rt_model_config *c, rt_dtype d, rt_out_tensor **tensors)
{
    uint32_t n = rt_param_count(c);
    *tensors = calloc(n, sizeof **tensors);
    for (uint32_t i = 0; i < n; i++) {
        uint64_t shape[2];
        rt_out_tensor *t = &(*tensors)[i];
        assert_true(rt_param_at(c, i, &t->role, &t->layer));
        t->dtype = rt_role_shape(c, t->role, shape) == 2 ? d : RT_DTYPE_F32;
    }
    return (rt_model_out){ .to = RT_CONTAINER_GGUF,
                           .path = file,
                           .name = "Test 1",
                           .config = c,
                           .tensors = *tensors,
                           .tensor_count = n,
                           .replace = true };
}

static float value_of(uint32_t i, uint64_t row, uint64_t col) { return (float)(i % 7) + (float)(row * 3 + col) / 64; }

static int rows(void *ctx, uint32_t i, uint64_t row, uint64_t count, void *dst, uint32_t worker, rt_err *e)
{
    const rt_model_out *o = ctx;
    uint64_t shape[2];
    uint32_t rank = rt_role_shape(o->config, o->tensors[i].role, shape);
    float x[2048];
    (void)worker;
    (void)e;
    for (uint64_t r = 0; r < count; r++) {
        uint64_t cols = shape[rank - 1];
        assert_true(cols <= 2048);
        for (uint64_t k = 0; k < cols; k++) x[k] = value_of(i, row + r, k);
        rt_float_from_f32((char *)dst + rt_dtype_bytes(o->tensors[i].dtype, r * cols), x, o->tensors[i].dtype, cols);
    }
    return RT_OK;
}

static void write_model(const rt_model_out *o)
{
    rt_err e = { 0 };
    rt_pool *pool;
    rt_model_write_calls calls = { .rows = rows, .ctx = (void *)(uintptr_t)o };
    assert_int_equal(rt_pool_new(&pool, 1, &e), RT_OK);
    if (rt_model_write(o, &calls, pool, &e) < 0) fail_msg("%s", e.text);
    rt_pool_free(pool);
}

static void check_config(const rt_model_config *a, const rt_model_config *b)
{
    assert_ptr_equal(a->family, b->family);
    assert_int_equal(a->layers, b->layers);
    assert_int_equal(a->width, b->width);
    assert_int_equal(a->heads, b->heads);
    assert_int_equal(a->kv_heads, b->kv_heads);
    assert_int_equal(a->head_dim, b->head_dim);
    assert_int_equal(a->hidden, b->hidden);
    assert_int_equal(a->vocab, b->vocab);
    assert_int_equal(a->context, b->context);
    assert_int_equal(a->window, b->window);
    assert_true(a->qkv_bias == b->qkv_bias && a->o_bias == b->o_bias && a->mlp_bias == b->mlp_bias);
    assert_true(a->qk_norm == b->qk_norm && a->tied == b->tied && a->norm_eps == b->norm_eps);
    assert_memory_equal(a->layer_flags, b->layer_flags, a->layers);
    assert_true(a->rope.kind == b->rope.kind && a->rope.theta == b->rope.theta && a->rope.factor == b->rope.factor);
    assert_true(a->rope.original_context == b->rope.original_context);
    assert_true(a->rope.attention_factor == b->rope.attention_factor && a->rope.mscale == b->rope.mscale);
}

/* Every value in its place, by its canonical row. */
static void check_values(const rt_model_file *m, const rt_model_out *o)
{
    float x[2048];
    assert_int_equal(m->tensor_count, o->tensor_count);
    for (uint32_t i = 0; i < o->tensor_count; i++) {
        char name[RT_NAME_BYTES];
        const rt_tensor *t = gb_find(m, rt_role_gguf_name(name, o->tensors[i].role, o->tensors[i].layer));
        if (!t) fail_msg("no %s", name);
        for (uint64_t r = 0; r < rt_tensor_rows(t); r++) {
            rt_tensor_to_f32(x, t, r, 1);
            for (uint64_t k = 0; k < rt_tensor_cols(t); k++) {
                if (x[k] != value_of(i, r, k)) fail_msg("%s [%d, %d] is %g", name, (int)r, (int)k, (double)x[k]);
            }
        }
    }
}

static void round_trip(const rt_model_config *c)
{
    rt_out_tensor *tensors;
    rt_model_out o = output(c, RT_DTYPE_F32, &tensors);
    rt_model_file m;
    rt_err e = { 0 };
    write_model(&o);
    if (gb_open(&m, file, &e) < 0) fail_msg("%s", e.text);
    assert_true(m.has_config);
    for (uint32_t i = 0; i < m.note_count; i++) fail_msg("a note: %s", m.notes[i]);
    assert_string_equal(m.name, "Test 1");
    check_config(&m.config, c);
    check_values(&m, &o);
    gb_close(&m);
    free(tensors);
}

static void test_families(void **state)
{
    (void)state;
    for (size_t i = 0; rt_families[i]; i++) {
        char name[64];
        snprintf(name, sizeof name, "tiny-%s", rt_families[i]->name);
        rt_model_config c = preset(name);
        round_trip(&c);
    }
    rt_model_config c = preset("tiny-llama");
    c.qkv_bias = c.o_bias = c.mlp_bias = true;
    round_trip(&c);
}

static void test_ropes(void **state)
{
    (void)state;
    rt_model_config c = preset("tiny-llama");
    c.rope = (rt_rope_scaling){
        .kind = RT_ROPE_LLAMA3, .theta = 5e5, .factor = 8, .low_freq = 1, .high_freq = 4, .original_context = 128
    };
    round_trip(&c);
    c.rope = (rt_rope_scaling){ .kind = RT_ROPE_LINEAR, .theta = 1e4, .factor = 2.5 };
    round_trip(&c);
    c = preset("tiny-qwen2");
    c.rope = (rt_rope_scaling){ .kind = RT_ROPE_YARN, .theta = 1e6, .factor = 4, .original_context = 128 };
    round_trip(&c);
    c.rope.attention_factor = 1.5;
    c.rope.beta_fast = 16;
    round_trip(&c);
    c.rope.attention_factor = 0;
    c.rope.mscale = 0.7;
    c.rope.mscale_all_dim = 0.9;
    round_trip(&c);
}

/* The same without the config.json in the file: the keys alone say nearly everything. */
static void test_keys_alone(void **state)
{
    (void)state;
    rt_model_config c = preset("tiny-llama");
    rt_out_tensor *tensors;
    rt_model_out o = output(&c, RT_DTYPE_F32, &tensors);
    rt_model_file m;
    rt_map map;
    rt_str bytes = { 0 };
    rt_err e = { 0 };
    c.rope = (rt_rope_scaling){
        .kind = RT_ROPE_LLAMA3, .theta = 5e5, .factor = 8, .low_freq = 1, .high_freq = 4, .original_context = 8192
    };
    c.norm_eps = 1e-6;
    write_model(&o);
    assert_int_equal(rt_map_open(&map, file, &e), RT_OK);
    rt_str_append_n(&bytes, (const char *)map.data, map.size);
    rt_map_close(&map);
    char *at = memmem(bytes.data, bytes.len, RT_GGUF_KEY_CONFIG, strlen(RT_GGUF_KEY_CONFIG));
    assert_non_null(at);
    at[0] = 'R'; /* now a key of somebody else */
    gb_write(file, bytes.data, bytes.len);
    rt_str_free(&bytes);
    if (gb_open(&m, file, &e) < 0) fail_msg("%s", e.text);
    check_config(&m.config, &c);
    check_values(&m, &o);
    gb_close(&m);
    free(tensors);
}

/* ggml takes tensors only one right behind the other; the head ends on the alignment. */
static void test_layout(void **state)
{
    (void)state;
    rt_model_config c = preset("tiny-llama");
    rt_out_tensor *tensors;
    rt_arena a = { 0 };
    rt_file_layout l;
    rt_err e = { 0 };
    c.rope = (rt_rope_scaling){
        .kind = RT_ROPE_LLAMA3, .theta = 5e5, .factor = 8, .low_freq = 1, .high_freq = 4, .original_context = 8192
    };
    rt_model_out o = output(&c, RT_DTYPE_Q8_0, &tensors);
    assert_int_equal(rt_gguf_layout(&o, &a, &l, &e), RT_OK);
    uint64_t at = l.head.len;
    assert_int_equal(at % RT_GGUF_ALIGNMENT, 0);
    for (uint32_t i = 0; i < o.tensor_count; i++) {
        uint64_t shape[2], n;
        n = rt_role_shape(&c, tensors[i].role, shape) == 2 ? shape[0] * shape[1] : shape[0];
        assert_int_equal(l.offset[i], at);
        at = rt_align_up(at + rt_dtype_bytes(tensors[i].dtype, n), RT_GGUF_ALIGNMENT);
    }
    assert_int_equal(l.extra_offset, at);
    assert_int_equal(l.extra.len, c.head_dim / 2 * sizeof(float));
    assert_int_equal(l.size, rt_align_up(at + l.extra.len, RT_GGUF_ALIGNMENT));
    rt_str_free(&l.head);
    rt_str_free(&l.extra);
    rt_arena_free(&a);
    free(tensors);
}

/* ---- text ---- */

static const rt_span tokens[] = { { "<unk>", 5 }, { "<s>", 3 }, { "</s>", 4 }, { "a\0b", 3 }, { "", 0 } };
static const float scores[] = { 0, 0, 0, -1.5f, -2 };
static const int32_t types[] = { 2, 3, 3, 1, 4 };
static const rt_span merges[] = { { "a b", 3 }, { "b c", 3 } };

static rt_model_text text(const char *model)
{
    return (rt_model_text){
        .has_vocab = true,
        .vocab = { .model = model,
                   .pre = "gpt-2",
                   .tokens = tokens,
                   .token_count = 5,
                   .scores = scores,
                   .types = types,
                   .merges = merges,
                   .merge_count = 2,
                   .bos = 1,
                   .eos = 2,
                   .add_bos = 1,
                   .add_eos = 0,
                   .add_space_prefix = -1 },
        .unk = 0,
        .pad = 3,
        .eot = 4,
        .chat_template = { "{{ messages }}", 14 },
        .tokenizer_json = { "{\"version\": 1}", 14 },
        .tokenizer_config = { "{\"a\": 1}", 8 },
        .generation_config = { "{\"b\": 1}", 8 },
    };
}

static void test_text(void **state)
{
    (void)state;
    rt_model_config c = preset("tiny-llama");
    rt_model_text t = text("llama");
    rt_out_tensor *tensors;
    rt_model_out o = output(&c, RT_DTYPE_F32, &tensors);
    rt_model_file m;
    rt_err e = { 0 };
    o.text = &t;
    write_model(&o);
    if (gb_open(&m, file, &e) < 0) fail_msg("%s", e.text);
    const rt_vocab_spec *v = &m.text.vocab;
    assert_true(m.text.has_vocab);
    assert_string_equal(v->model, "llama");
    assert_string_equal(v->pre, "gpt-2");
    assert_int_equal(v->token_count, c.vocab); /* a token for each row of the embedding */
    for (int i = 0; i < 5; i++) {
        assert_int_equal(v->tokens[i].len, tokens[i].len);
        assert_memory_equal(v->tokens[i].data, tokens[i].data, tokens[i].len);
    }
    assert_memory_equal(v->scores, scores, sizeof scores);
    assert_memory_equal(v->types, types, sizeof types);
    assert_memory_equal(v->tokens[5].data, "[PAD5]", 6);
    assert_int_equal(v->types[5], RT_VOCAB_UNUSED);
    assert_int_equal(v->types[c.vocab - 1], RT_VOCAB_UNUSED);
    assert_int_equal(v->merge_count, 2);
    assert_memory_equal(v->merges[1].data, "b c", 3);
    assert_true(v->bos == 1 && v->eos == 2 && m.text.unk == 0 && m.text.pad == 3 && m.text.eot == 4);
    assert_true(v->add_bos == 1 && v->add_eos == 0 && v->add_space_prefix == -1);
    assert_int_equal(m.text.chat_template.len, 14);
    assert_memory_equal(m.text.tokenizer_json.data, t.tokenizer_json.data, 14);
    assert_memory_equal(m.text.tokenizer_config.data, "{\"a\": 1}", 8);
    assert_memory_equal(m.text.generation_config.data, "{\"b\": 1}", 8);
    gb_close(&m);
    free(tensors);
}

/* ---- refusals ---- */

static void refused(const rt_model_out *o, int status, const char *part)
{
    rt_arena a = { 0 };
    rt_file_layout l;
    rt_err e = { 0 };
    int rc = rt_gguf_layout(o, &a, &l, &e);
    if (rc != status || !strstr(e.text, part) || !strstr(e.text, file)) fail_msg("status %d, '%s'", rc, e.text);
    rt_str_free(&l.head);
    rt_str_free(&l.extra);
    rt_arena_free(&a);
}

static void test_refusals(void **state)
{
    (void)state;
    rt_out_tensor *tensors;
    rt_model_config c = preset("tiny-qwen2");
    rt_model_text t = text("gpt2");
    rt_model_out o = output(&c, RT_DTYPE_F32, &tensors);
    c.rope.kind = RT_ROPE_LLAMA3;
    refused(&o, RT_UNSUPPORTED, "no llama3 rope scaling in the family qwen2");
    c.rope.kind = RT_ROPE_PLAIN;
    t.vocab.token_count = c.vocab + 1;
    o.text = &t;
    refused(&o, RT_INVALID, "the tokenizer has 273 tokens, but the embedding only 272 rows");
    o.text = NULL;
    tensors[0].dtype = RT_DTYPE_U8;
    refused(&o, RT_INVALID, " as u8; choose another dtype");
    tensors[0].dtype = RT_DTYPE_Q4_K; /* 64 columns */
    refused(&o, RT_INVALID, " as q4_k; choose another dtype");
    free(tensors);
    c = preset("tiny-smollm3");
    o = output(&c, RT_DTYPE_F32, &tensors);
    c.layer_flags[1] |= RT_LAYER_NO_ROPE;
    refused(&o, RT_UNSUPPORTED, "layer 1");
    free(tensors);
    /* biases: llama.cpp reads them in llama alone, of the families that may have them or not */
    static const char *const biased[] = { "tiny-qwen3", "tiny-smollm3" };
    for (int i = 0; i < 2; i++) {
        c = preset(biased[i]);
        c.qkv_bias = c.o_bias = true;
        o = output(&c, RT_DTYPE_F32, &tensors);
        refused(&o, RT_UNSUPPORTED, "llama.cpp has no biases in the family");
        free(tensors);
    }
}

/* ---- file types ---- */

static void test_file_type(void **state)
{
    (void)state;
    static const struct {
        rt_dtype most, other;
        uint32_t type;
    } cases[] = {
        { RT_DTYPE_F32, RT_DTYPE_F32, 0 },    { RT_DTYPE_F16, RT_DTYPE_F16, 1 },
        { RT_DTYPE_BF16, RT_DTYPE_BF16, 32 }, { RT_DTYPE_Q8_0, RT_DTYPE_Q8_0, 7 },
        { RT_DTYPE_Q5_0, RT_DTYPE_Q5_0, 8 },  { RT_DTYPE_Q4_K, RT_DTYPE_Q6_K, 15 },
        { RT_DTYPE_Q4_K, RT_DTYPE_Q4_K, 14 }, { RT_DTYPE_Q5_0, RT_DTYPE_Q4_K, 14 },
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        rt_model_config c = preset("tiny-qwen2");
        rt_out_tensor *tensors;
        rt_str keys = { 0 };
        uint64_t count;
        rt_err e = { 0 };
        rt_model_out o = output(&c, cases[i].most, &tensors);
        for (uint32_t k = 0; k < o.tensor_count; k++)
            if (tensors[k].role == RT_ROLE_K) tensors[k].dtype = cases[i].other;
        assert_int_equal(rt_gguf_write_keys(&o, &keys, &count, &e), RT_OK);
        char *at = memmem(keys.data, keys.len, "general.file_type", 17);
        uint32_t got;
        assert_non_null(at);
        memcpy(&got, at + 17 + 4, 4);
        assert_int_equal(got, cases[i].type);
        rt_str_free(&keys);
        free(tensors);
    }
}

/* ---- memory ---- */

static int lay_out(const rt_model_out *o, rt_err *e)
{
    rt_arena a = { 0 };
    rt_file_layout l;
    int rc = rt_gguf_layout(o, &a, &l, e);
    rt_str_free(&l.head);
    rt_str_free(&l.extra);
    rt_arena_free(&a);
    return rc;
}

static void test_out_of_memory(void **state)
{
    (void)state;
    const rt_allocator failing = { failing_alloc, failing_free, NULL };
    rt_model_config c = preset("tiny-llama");
    rt_model_text t = text("llama");
    rt_out_tensor *tensors;
    rt_err e = { 0 };
    c.rope = (rt_rope_scaling){
        .kind = RT_ROPE_LLAMA3, .theta = 5e5, .factor = 8, .low_freq = 1, .high_freq = 4, .original_context = 8192
    };
    rt_model_out o = output(&c, RT_DTYPE_F32, &tensors);
    o.text = &t;
    assert_int_equal(rt_alloc_live(), 0);
    rt_allocator_set(&failing);
    allowed = -1;
    uint64_t before = rt_alloc_count();
    if (lay_out(&o, &e) < 0) fail_msg("%s", e.text);
    uint64_t total = rt_alloc_count() - before;
    assert_true(total > 10);
    for (uint64_t i = 0; i < total; i++) {
        allowed = (int64_t)i;
        e = (rt_err){ 0 };
        int rc = lay_out(&o, &e);
        allowed = -1;
        if (rc != RT_NOMEM || !e.text[0])
            fail_msg("allocation %llu: status %d, '%s'", (unsigned long long)i, rc, e.text);
        if (rt_alloc_live() != 0) fail_msg("allocation %llu: a leak", (unsigned long long)i);
    }
    rt_allocator_set(NULL);
    free(tensors);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_families),  cmocka_unit_test(test_ropes),         cmocka_unit_test(test_keys_alone),
        cmocka_unit_test(test_layout),    cmocka_unit_test(test_text),          cmocka_unit_test(test_refusals),
        cmocka_unit_test(test_file_type), cmocka_unit_test(test_out_of_memory),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
