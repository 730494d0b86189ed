/* test_model_write.c - outputs of the one writing loop: their bytes, their names, and that nothing is left of those
 * that fail. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "format/hf/hf.h"
#include "format/model_write.h"

#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>
#include <zlib.h>

enum { MAX_TENSORS = 64 };

static char folder[64];
static rt_arena arena; /* paths */
static rt_pool *pool;
static int64_t allowed = -1; /* allocations until the one that fails; negative: all are allowed */
static pthread_mutex_t alloc_lock = PTHREAD_MUTEX_INITIALIZER;

static void *failing_alloc(void *ctx, size_t bytes, size_t align)
{
    (void)ctx;
    pthread_mutex_lock(&alloc_lock);
    bool fails = allowed == 0;
    if (allowed > 0) allowed--;
    pthread_mutex_unlock(&alloc_lock);
    void *p = NULL;
    if (fails) return NULL;
    return posix_memalign(&p, align < sizeof(void *) ? sizeof(void *) : align, bytes) == 0 ? p : NULL;
}
static void failing_free(void *ctx, void *p)
{
    (void)ctx;
    free(p);
}

static int set_up(void **state)
{
    (void)state;
    /* In memory where that can be: hundreds of outputs, each flushed to disk, would take their time. */
    const char *place = access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp";
    snprintf(folder, sizeof folder, "%s/retort-test-write-XXXXXX", place);
    return mkdtemp(folder) && rt_pool_new(&pool, 3, NULL) == RT_OK ? 0 : -1;
}

static int tear_down(void **state)
{
    (void)state;
    rt_pool_free(pool);
    rt_dir_remove(folder);
    bool left = rt_path_exists(folder);
    rt_arena_free(&arena);
    return left ? -1 : 0;
}

static const char *at(const char *name)
{
    char *path = rt_path_join(&arena, folder, name);
    assert_non_null(path);
    return path;
}

static uint32_t entries(const char *path)
{
    rt_err e = { 0 };
    rt_arena a = { 0 };
    char **names;
    uint32_t count;
    assert_int_equal(rt_dir_list(&names, &count, &a, path, &e), RT_OK);
    rt_arena_free(&a);
    return count;
}

static void expect_says(const rt_err *e, const char *a, const char *b)
{
    if (!strstr(e->text, a) || !strstr(e->text, b)) fail_msg("'%s' should say '%s' and '%s'", e->text, a, b);
}

/* ---- a model whose values are known ---- */

typedef struct source {
    rt_model_config config;
    rt_out_tensor tensors[MAX_TENSORS];
    rt_model_out out;
    rt_model_write_calls calls;
    /* what happens */
    uint32_t fail_tensor; /* its rows fail; UINT32_MAX: none */
    int progress_answer, check_answer;
    uint64_t last, total, calls_made;
    char checked[256];
    uint32_t checked_entries;
} source;

static float value(uint32_t tensor, uint64_t row, uint64_t col)
{
    return (float)(int)(tensor * 7919 + row * 131 + col * 3) / 16.0f - 1000.0f;
}

static int give_rows(void *ctx, uint32_t i, uint64_t row, uint64_t rows, void *dst, uint32_t worker, rt_err *e)
{
    const source *s = ctx;
    const rt_out_tensor *t = &s->tensors[i];
    uint64_t shape[2];
    uint64_t cols = rt_role_shape(&s->config, t->role, shape) == 1 ? shape[0] : shape[1];
    if (worker >= rt_pool_threads(pool)) return rt_fail(e, RT_INTERNAL, "no such worker");
    if (i == s->fail_tensor) return rt_fail(e, RT_NONFINITE, "tensor %u is bad", i);
    for (uint64_t r = 0; r < rows; r++) {
        for (uint64_t c = 0; c < cols; c++) {
            float x = value(i, row + r, c);
            rt_float_from_f32((uint8_t *)dst + rt_dtype_bytes(t->dtype, r * cols + c), &x, t->dtype, 1);
        }
    }
    return RT_OK;
}

static int see_progress(void *ctx, uint64_t done, uint64_t total)
{
    source *s = ctx;
    s->last = done;
    s->total = total;
    s->calls_made++;
    return s->progress_answer;
}

static int see_check(void *ctx, const char *path, rt_err *e)
{
    source *s = ctx;
    snprintf(s->checked, sizeof s->checked, "%s", path);
    s->checked_entries = rt_path_is_dir(path) ? entries(path) : 0;
    return s->check_answer < 0 ? rt_fail(e, s->check_answer, "not the same") : RT_OK;
}

static void make_source(source *s, const char *family, rt_container to, const char *path, rt_dtype matrix,
                        rt_dtype vector)
{
    *s = (source){ .fail_tensor = UINT32_MAX };
    s->config = (rt_model_config){ .family = rt_family_find(family),
                                   .layers = 2,
                                   .width = 8,
                                   .heads = 2,
                                   .kv_heads = 1,
                                   .head_dim = 6,
                                   .hidden = 10,
                                   .vocab = 11,
                                   .context = 16,
                                   .qkv_bias = strcmp(family, "qwen2") == 0,
                                   .norm_eps = 1e-6,
                                   .init_range = 0.02,
                                   .bos = -1,
                                   .pad = -1 };
    s->config.rope.theta = 10000;
    uint32_t count = rt_param_count(&s->config);
    assert_in_range(count, 1, MAX_TENSORS);
    for (uint32_t i = 0; i < count; i++) {
        uint64_t shape[2];
        rt_param_at(&s->config, i, &s->tensors[i].role, &s->tensors[i].layer);
        s->tensors[i].dtype = rt_role_shape(&s->config, s->tensors[i].role, shape) == 2 ? matrix : vector;
    }
    s->out = (rt_model_out){
        .to = to, .path = path, .name = "tiny", .config = &s->config, .tensors = s->tensors, .tensor_count = count
    };
    s->calls = (rt_model_write_calls){ give_rows, see_progress, see_check, s };
}

static int write_it(source *s, rt_err *e)
{
    *e = (rt_err){ 0 };
    return rt_model_write(&s->out, &s->calls, pool, e);
}

/* The tensors of these safetensors files are those of the source, each once. */
static void expect_values(const source *s, const char *const *paths, uint32_t path_count)
{
    rt_err e = { 0 };
    rt_model_file m = { 0 };
    uint32_t part;
    for (uint32_t i = 0; i < path_count; i++) {
        assert_int_equal(rt_model_add_part(&m, paths[i], &part, &e), RT_OK);
        assert_int_equal(rt_safetensors_read(&m, part, NULL, &e), RT_OK);
    }
    assert_int_equal(m.tensor_count, s->out.tensor_count);
    for (uint32_t i = 0; i < s->out.tensor_count; i++) {
        char name[RT_NAME_BYTES];
        const rt_tensor *t = NULL;
        rt_role_hf_name(name, s->tensors[i].role, s->tensors[i].layer);
        for (uint32_t k = 0; k < m.tensor_count; k++)
            if (strcmp(m.tensors[k].name, name) == 0) t = &m.tensors[k];
        assert_non_null(t);
        assert_int_equal(t->dtype, s->tensors[i].dtype);
        uint64_t rows = rt_tensor_rows(t), cols = rt_tensor_cols(t);
        float *got = calloc(rows * cols, sizeof *got);
        rt_tensor_to_f32(got, t, 0, rows);
        for (uint64_t k = 0; k < rows * cols; k++) {
            float x = value(i, k / cols, k % cols);
            if (t->dtype == RT_DTYPE_BF16) x = rt_bf16_to_f32(rt_bf16_from_f32(x));
            if (got[k] != x) fail_msg("%s[%d]: %g, expected %g", name, (int)k, (double)got[k], (double)x);
        }
        free(got);
    }
    for (uint32_t i = 0; i < m.part_count; i++) rt_map_close(&m.parts[i].map);
    rt_arena_free(&m.arena);
}

static void expect_text(const char *path, const char *text)
{
    rt_err e = { 0 };
    rt_str s = { 0 };
    if (rt_file_read(path, 1 << 20, &s, &e) != RT_OK) fail_msg("%s", e.text);
    assert_string_equal(s.data ? s.data : "", text);
    rt_str_free(&s);
}

/* ---- whole outputs ---- */

static void test_one_file(void **state)
{
    (void)state;
    source s;
    rt_err e;
    make_source(&s, "qwen2", RT_CONTAINER_SAFETENSORS, at("one"), RT_DTYPE_BF16, RT_DTYPE_F32);
    assert_int_equal(write_it(&s, &e), RT_OK);
    expect_values(&s, (const char *[]){ at("one") }, 1);
    assert_int_equal(s.last, s.total);
    assert_in_range(s.calls_made, 1, 1 + s.out.tensor_count);
    assert_non_null(strstr(s.checked, "/.one.retort-tmp-"));
    assert_int_equal(write_it(&s, &e), RT_INVALID);
    expect_says(&e, at("one"), "already there");
    s.out.replace = true;
    s.tensors[0].dtype = RT_DTYPE_F32;
    assert_int_equal(write_it(&s, &e), RT_OK);
    expect_values(&s, (const char *[]){ at("one") }, 1);
    s.calls.progress = NULL;
    s.calls.check = NULL;
    assert_int_equal(write_it(&s, &e), RT_OK);
    assert_int_equal(entries(folder), 1);
    unlink(at("one"));
}

static void test_folder(void **state)
{
    (void)state;
    source s;
    rt_err e;
    rt_side_file side[] = { { "merges.txt", { "a b\n", 4 } } };
    rt_model_text text = { .tokenizer_json = { "{}", 2 },
                           .tokenizer_config = { "{\"chat_template\": \"x\\ny\"}", 25 },
                           .generation_config = { "{\"a\": 1}", 8 },
                           .chat_template = { "x\ny", 3 },
                           .side = side,
                           .side_count = 1 };
    make_source(&s, "qwen2", RT_CONTAINER_HF, at("hf/"), RT_DTYPE_BF16, RT_DTYPE_BF16);
    s.out.text = &text;
    assert_int_equal(write_it(&s, &e), RT_OK);
    expect_values(&s, (const char *[]){ at("hf/model.safetensors") }, 1);
    assert_int_equal(entries(at("hf")), 6);
    assert_int_equal(s.checked_entries, 6);
    assert_non_null(strstr(s.checked, "/.hf.retort-tmp-"));
    expect_text(at("hf/merges.txt"), "a b\n");
    expect_text(at("hf/generation_config.json"), "{\"a\": 1}");
    expect_text(at("hf/tokenizer.json"), "{}");
    expect_text(at("hf/tokenizer_config.json"), text.tokenizer_config.data);
    rt_str config = { 0 };
    rt_model_config back;
    assert_int_equal(rt_file_read(at("hf/config.json"), 1 << 20, &config, &e), RT_OK);
    assert_int_equal(rt_config_from_json(&back, config.data, config.len, "config.json", &arena, &e), RT_OK);
    assert_int_equal(back.hidden, s.config.hidden);
    assert_non_null(strstr(config.data, "bfloat16"));
    rt_str_free(&config);

    /* Not replaced unasked, and then nothing changes. */
    assert_int_equal(write_it(&s, &e), RT_INVALID);
    expect_says(&e, "hf", "not empty");
    /* Replaced: what the new one does not have is gone. */
    s.out.replace = true;
    text.side_count = 0;
    text.chat_template = (rt_span){ "other", 5 };
    assert_int_equal(write_it(&s, &e), RT_OK);
    assert_false(rt_path_exists(at("hf/merges.txt")));
    expect_text(at("hf/chat_template.jinja"), "other");
    expect_text(at("hf/tokenizer_config.json"), "{\"chat_template\": \"other\"}");
    text = (rt_model_text){ .chat_template = { "alone", 5 } };
    assert_int_equal(write_it(&s, &e), RT_OK);
    expect_text(at("hf/chat_template.jinja"), "alone");
    assert_int_equal(entries(at("hf")), 3);
    assert_int_equal(entries(folder), 1);
    rt_dir_remove(at("hf"));
}

/* One template in all places: what is said already stays as it is written, and the rest of a file always does. */
static void test_template(void **state)
{
    static const struct {
        const char *was, *now; /* tokenizer_config.json */
        bool new, had, file;   /* template_new, template_file; whether chat_template.jinja is written */
    } cases[] = {
        { "{\"chat_template\": \"t\\n\"}", "{\"chat_template\": \"t\\n\"}", false, false, false },
        { "{\"chat_template\": \"t\\n\"}", "{\"chat_template\": \"t\\n\"}", false, true, true },
        /* numbers that no reader of ours holds, keys of other objects, and one key twice */
        { "{\"n\": 1000000000000000019884624838, \"o\": {\"chat_template\": \"x\"}, \"chat_template\" : \"\\\"}\"\n}",
          "{\"n\": 1000000000000000019884624838, \"o\": {\"chat_template\": \"x\"}, \"chat_template\" : \"t\\n\"\n}",
          false, false, true },
        { "{\"n\": 1000000000000000019884624838656, \"chat_template\": \"t\\u000a\"}",
          "{\"n\": 1000000000000000019884624838656, \"chat_template\": \"t\\u000a\"}", true, false, true },
        { "{\"chat_template\": \"a\", \"chat_template\": \"b\"}",
          "{\"chat_template\": \"a\", \"chat_template\": \"t\\n\"}", false, true, true },
        { " { \"a\": [1, {}], \"b\": null}", " { \"a\": [1, {}], \"b\": null}", false, true, true },
        { " { \"a\": [1, {}], \"b\": null}", " {\"chat_template\": \"t\\n\", \"a\": [1, {}], \"b\": null}", true, false,
          true },
        { "{}", "{\"chat_template\": \"t\\n\"}", true, false, true },
        { "{\"chat_template\": null}", "{\"chat_template\": null}", false, true, true },
        { "{\"chat_template\": null}", "{\"chat_template\": \"t\\n\"}", true, true, true },
        /* in a list it is the default; the others stay, which a file would hide */
        { "{\"chat_template\": [{\"name\": \"rag\"}, {\"template\": \"d\", \"name\": \"default\"}], \"z\": 1}",
          "{\"chat_template\": [{\"name\": \"rag\"}, {\"template\": \"t\\n\", \"name\": \"default\"}], \"z\": 1}", true,
          false, false },
        { "{\"chat_template\": [{\"name\": \"rag\"}]}",
          "{\"chat_template\": [{\"name\": \"default\", \"template\": \"t\\n\"}, {\"name\": \"rag\"}]}", true, false,
          false },
        { "not JSON", "not JSON", true, false, true },
        { "{\"chat_template", "{\"chat_template", false, false, true },
    };
    (void)state;
    source s;
    rt_err e;
    make_source(&s, "qwen2", RT_CONTAINER_HF, at("hf/"), RT_DTYPE_BF16, RT_DTYPE_BF16);
    s.out.replace = true;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        uint64_t bytes;
        rt_model_text text = { .tokenizer_config = { cases[i].was, strlen(cases[i].was) },
                               .chat_template = { "t\n", 2 },
                               .template_new = cases[i].new,
                               .template_file = cases[i].had };
        s.out.text = &text;
        assert_int_equal(write_it(&s, &e), RT_OK);
        expect_text(at("hf/tokenizer_config.json"), cases[i].now);
        assert_int_equal(rt_path_exists(at("hf/chat_template.jinja")), cases[i].file);
        if (cases[i].file) expect_text(at("hf/chat_template.jinja"), "t\n");
        assert_int_equal(rt_model_write_bytes(&s.out, &bytes, &e), RT_OK);
        assert_int_equal(bytes, rt_dir_bytes(at("hf")));
    }
    rt_dir_remove(at("hf"));

    /* Beside an adapter nothing else tells which class reads it. */
    rt_model_text text = { .tokenizer_json = { "{}", 2 }, .tokenizer_config = { "{\"a\": 1}", 8 } };
    uint64_t bytes = 0;
    assert_int_equal(rt_dir_make(at("lora"), &e), RT_OK);
    assert_int_equal(rt_model_write_text(&text, at("lora"), &bytes, &e), RT_OK);
    expect_text(at("lora/tokenizer_config.json"), "{\"tokenizer_class\": \"PreTrainedTokenizerFast\", \"a\": 1}");
    assert_int_equal(bytes, 2 + 54);
    text.tokenizer_config = (rt_span){ "{\"tokenizer_class\": \"X\"}", 24 };
    assert_int_equal(rt_model_write_text(&text, at("lora"), NULL, &e), RT_OK);
    expect_text(at("lora/tokenizer_config.json"), "{\"tokenizer_class\": \"X\"}");
    text.tokenizer_config = (rt_span){ 0 };
    assert_int_equal(rt_model_write_text(&text, at("lora"), NULL, &e), RT_OK);
    expect_text(at("lora/tokenizer_config.json"), "{\"tokenizer_class\": \"PreTrainedTokenizerFast\"}\n");
    rt_dir_remove(at("lora"));
}

static void test_shards(void **state)
{
    (void)state;
    source s;
    rt_err e;
    make_source(&s, "qwen2", RT_CONTAINER_HF, at("hf"), RT_DTYPE_F32, RT_DTYPE_F32);
    uint64_t largest = 11 * 8 * 4;
    s.out.shard_bytes = 1000;
    assert_int_equal(write_it(&s, &e), RT_OK);
    const char *paths[MAX_TENSORS];
    char **names;
    uint32_t count, shards = 0;
    assert_int_equal(rt_dir_list(&names, &count, &arena, at("hf"), &e), RT_OK);
    rt_str index = { 0 };
    assert_int_equal(rt_file_read(at("hf/model.safetensors.index.json"), 1 << 20, &index, &e), RT_OK);
    for (uint32_t i = 0; i < count; i++) {
        if (!rt_path_ends(names[i], ".safetensors")) continue;
        char want[64];
        snprintf(want, sizeof want, "model-%05u-of-%05u.safetensors", shards + 1, count - 2);
        assert_string_equal(names[i], want);
        assert_non_null(strstr(index.data, want));
        paths[shards++] = rt_path_join(&arena, at("hf"), names[i]);
    }
    assert_int_equal(shards, count - 2); /* and config.json and the index */
    assert_in_range(shards, 3, MAX_TENSORS - 1);
    expect_values(&s, paths, shards);
    uint64_t total = 0;
    char text[64];
    for (uint32_t i = 0; i < s.out.tensor_count; i++) total += rt_out_tensor_bytes(&s.out, i);
    snprintf(text, sizeof text, "\"total_size\": %d", (int)total);
    assert_non_null(strstr(index.data, text));
    for (uint32_t i = 0; i < s.out.tensor_count; i++) {
        char name[RT_NAME_BYTES];
        snprintf(text, sizeof text, "\"%.60s", rt_role_hf_name(name, s.tensors[i].role, s.tensors[i].layer));
        assert_non_null(strstr(index.data, text));
    }
    assert_non_null(strstr(index.data, ".safetensors\"\n  }\n}"));
    rt_str_free(&index);
    rt_dir_remove(at("hf"));
    /* A tensor larger than a file may be has one of its own; exactly full is not over. */
    s.out.shard_bytes = 1;
    assert_int_equal(write_it(&s, &e), RT_OK);
    assert_int_equal(entries(at("hf")), s.out.tensor_count + 2);
    rt_dir_remove(at("hf"));
    s.out.shard_bytes = total;
    assert_int_equal(write_it(&s, &e), RT_OK);
    assert_int_equal(entries(at("hf")), 2);
    assert_true(total > largest);
    rt_dir_remove(at("hf"));
}

/* ---- the loop itself, over a layout of the test's own ---- */

static uint64_t lay_out_loosely(const source *s, rt_file_layout *l)
{
    uint32_t count = s->out.tensor_count;
    *l = (rt_file_layout){ .footer_crc = true };
    l->offset = rt_arena_alloc(&arena, count * sizeof *l->offset);
    rt_str_append(&l->head, "some head");
    l->size = 100; /* a gap behind the head */
    for (uint32_t k = 0; k < count; k++) {
        uint32_t i = count - 1 - k; /* against the order of the tensors, with gaps */
        l->offset[i] = l->size;
        l->size += rt_out_tensor_bytes(&s->out, i) + k % 3 * 5000;
    }
    rt_str_append(&l->extra, "extra");
    l->extra_offset = l->size + 10;
    l->size += 30;
    return l->size + 4;
}

static void fill_file(source *s, const char *name, uint32_t threads)
{
    rt_err e = { 0 };
    rt_file_layout l;
    rt_pool *own;
    uint64_t size = lay_out_loosely(s, &l);
    rt_out_file file = { .count = s->out.tensor_count, .path = at(name), .layout = l };
    assert_int_equal(rt_pool_new(&own, threads, &e), RT_OK);
    assert_int_equal(rt_writer_open(&file.writer, file.path, &e), RT_OK);
    assert_int_equal(rt_writer_reserve(file.writer, size, &e), RT_OK);
    rt_pool *was = pool;
    pool = own;
    assert_int_equal(rt_write_fill(&s->out, &file, 1, &s->calls, own, &e), RT_OK);
    pool = was;
    assert_int_equal(rt_writer_commit(file.writer, &e), RT_OK);
    rt_writer_free(file.writer);
    rt_str_free(&file.layout.head);
    rt_str_free(&file.layout.extra);
    rt_pool_free(own);
}

static void expect_filled(const source *s, const char *name)
{
    rt_err e = { 0 };
    rt_map m;
    rt_file_layout l;
    uint64_t size = lay_out_loosely(s, &l);
    assert_int_equal(rt_map_open(&m, at(name), &e), RT_OK);
    assert_int_equal(m.size, size);
    assert_memory_equal(m.data, "some head\0\0", 11);
    assert_memory_equal(m.data + l.extra_offset, "extra\0", 6);
    uint32_t crc = (uint32_t)crc32(0, m.data, (uInt)(size - 4)), footer = 0;
    for (int i = 3; i >= 0; i--) footer = footer << 8 | m.data[size - 4 + i];
    assert_int_equal(footer, crc);
    for (uint32_t i = 0; i < s->out.tensor_count; i++) {
        const rt_out_tensor *t = &s->tensors[i];
        uint64_t shape[2];
        bool vector = rt_role_shape(&s->config, t->role, shape) == 1;
        uint64_t rows = shape[0], cols = vector ? 1 : shape[1];
        uint32_t heads = s->out.to == RT_CONTAINER_GGUF ? rt_role_swap_heads(&s->config, t->role) : 0;
        for (uint64_t r = 0; r < rows; r++) {
            uint64_t stored = r;
            if (heads) { /* HF rows as (heads, 2, D/2, cols), stored as (heads, D/2, 2, cols) */
                uint64_t D = rows / heads, h = r / D, j = r % D / (D / 2), k = r % D % (D / 2);
                stored = h * D + 2 * k + j;
            }
            for (uint64_t c = 0; c < cols; c++) {
                float got, want = vector ? value(i, 0, r) : value(i, r, c);
                memcpy(&got, m.data + l.offset[i] + (stored * cols + c) * sizeof got, sizeof got);
                if (got != want) fail_msg("tensor %u row %d: %g, expected %g", i, (int)r, (double)got, (double)want);
            }
        }
    }
    rt_map_close(&m);
    rt_str_free(&l.head);
    rt_str_free(&l.extra);
}

static void test_fill(void **state)
{
    (void)state;
    source s;
    /* Rows of q and k change places in the llama family, also those of a bias; not in qwen2, nor in other formats. */
    static const struct {
        const char *family;
        rt_container to;
    } kinds[] = { { "llama", RT_CONTAINER_GGUF }, { "qwen2", RT_CONTAINER_GGUF }, { "llama", RT_CONTAINER_APR } };
    for (size_t k = 0; k < sizeof kinds / sizeof kinds[0]; k++) {
        make_source(&s, kinds[k].family, kinds[k].to, "unused", RT_DTYPE_F32, RT_DTYPE_F32);
        s.config.qkv_bias = true;
        s.out.tensor_count = rt_param_count(&s.config);
        for (uint32_t i = 0; i < s.out.tensor_count; i++) {
            rt_param_at(&s.config, i, &s.tensors[i].role, &s.tensors[i].layer);
            s.tensors[i].dtype = RT_DTYPE_F32;
        }
        fill_file(&s, "filled", 2);
        expect_filled(&s, "filled");
    }
    assert_int_equal(rt_role_swap_heads(&(rt_model_config){ .family = rt_family_find("llama"), .heads = 2 }, RT_ROLE_Q),
                     2);
    unlink(at("filled"));
}

/* Several pieces of several rows; a matrix with rows longer than a piece; any number of threads. */
static void test_pieces(void **state)
{
    (void)state;
    source s;
    make_source(&s, "llama", RT_CONTAINER_GGUF, "unused", RT_DTYPE_F32, RT_DTYPE_F32);
    s.config.layers = 1;
    s.config.width = 1100;
    s.config.vocab = 2003; /* 8.8 MB: three pieces */
    s.config.hidden = 3;
    s.config.head_dim = 700; /* q: 1400 rows of 4400 bytes: two pieces, swapped */
    s.config.tied = true;
    s.out.tensor_count = rt_param_count(&s.config);
    for (uint32_t i = 0; i < s.out.tensor_count; i++)
        rt_param_at(&s.config, i, &s.tensors[i].role, &s.tensors[i].layer);
    rt_str one = { 0 }, many = { 0 };
    rt_err e = { 0 };
    fill_file(&s, "one", 1);
    fill_file(&s, "many", 5);
    assert_int_equal(s.last, s.total);
    expect_filled(&s, "many");
    assert_int_equal(rt_file_read(at("one"), 1 << 30, &one, &e), RT_OK);
    assert_int_equal(rt_file_read(at("many"), 1 << 30, &many, &e), RT_OK);
    assert_int_equal(one.len, many.len);
    assert_memory_equal(one.data, many.data, one.len);
    rt_str_free(&one);
    rt_str_free(&many);
    unlink(at("one"));
    unlink(at("many"));
}

/* ---- what fails ---- */

static void expect_nothing_left(source *s, int status, const char *a, const char *b)
{
    rt_err e;
    static const rt_container to[] = { RT_CONTAINER_HF, RT_CONTAINER_SAFETENSORS };
    for (int i = 0; i < 2; i++) {
        s->out.to = to[i];
        s->out.shard_bytes = 700;
        assert_int_equal(write_it(s, &e), status);
        assert_int_equal(e.status, status);
        expect_says(&e, a, b);
        assert_int_equal(entries(folder), 0);
    }
}

static void test_failures(void **state)
{
    (void)state;
    source s;
    make_source(&s, "qwen2", RT_CONTAINER_HF, at("out"), RT_DTYPE_F32, RT_DTYPE_F32);
    s.fail_tensor = 9;
    expect_nothing_left(&s, RT_NONFINITE, "tensor 9", "is bad");
    s.fail_tensor = UINT32_MAX;
    s.progress_answer = RT_INTERRUPTED;
    expect_nothing_left(&s, RT_INTERRUPTED, at("out"), "interrupted");
    s.progress_answer = 0;
    s.check_answer = RT_FORMAT;
    expect_nothing_left(&s, RT_FORMAT, "not the same", "");
    s.check_answer = 0;

    struct rlimit was, small; /* stands for a disk that is full */
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &was), 0);
    small = was;
    small.rlim_cur = 600;
    signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
    rt_err e[2];
    int rc[2];
    uint64_t made = s.calls_made;
    for (int i = 0; i < 2; i++) {
        s.out.to = i ? RT_CONTAINER_HF : RT_CONTAINER_SAFETENSORS;
        rc[i] = write_it(&s, &e[i]);
    }
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &was), 0);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(rc[i], RT_IO);
        expect_says(&e[i], "are needed", "cannot write");
    }
    assert_int_equal(s.calls_made, made); /* found before any work was done */
    assert_int_equal(entries(folder), 0);
}

static void expect_refused(source *s, int status, const char *a, const char *b)
{
    rt_err e;
    uint32_t before = entries(folder);
    assert_int_equal(write_it(s, &e), status);
    expect_says(&e, a, b);
    assert_int_equal(entries(folder), before);
}

static void test_refused(void **state)
{
    (void)state;
    source s;
    rt_err e;
    const char *out = at("out");
    make_source(&s, "qwen2", RT_CONTAINER_HF, out, RT_DTYPE_Q8_0, RT_DTYPE_F32);
    expect_refused(&s, RT_INVALID, "q8_0", "model.embed_tokens.weight");
    s.out.to = RT_CONTAINER_GGUF;
    expect_refused(&s, RT_INVALID, "rows of 'model.embed_tokens.weight' have 8", "blocks of 32");
    make_source(&s, "qwen2", RT_CONTAINER_HF, out, RT_DTYPE_F32, RT_DTYPE_F32);
    s.out.tensor_count--;
    expect_refused(&s, RT_INTERNAL, out, "tensors");
    s.out.tensor_count++;
    s.tensors[3].layer = 1;
    expect_refused(&s, RT_INTERNAL, out, "tensor 3");
    make_source(&s, "qwen2", RT_CONTAINER_HF, at("absent/out"), RT_DTYPE_F32, RT_DTYPE_F32);
    expect_refused(&s, RT_NOT_FOUND, "absent/out", "create the folder");

    /* A file where a folder should be, and the other way round, whatever is allowed. */
    make_source(&s, "qwen2", RT_CONTAINER_HF, out, RT_DTYPE_F32, RT_DTYPE_F32);
    s.out.replace = true;
    assert_int_equal(rt_file_write(out, "x", 1, &e), RT_OK);
    expect_refused(&s, RT_INVALID, out, "is a file");
    unlink(out);
    assert_int_equal(rt_dir_make(out, &e), RT_OK);
    s.out.to = RT_CONTAINER_SAFETENSORS;
    expect_refused(&s, RT_INVALID, out, "is a directory");
    /* Folders with anything but a model in them stay. */
    s.out.to = RT_CONTAINER_HF;
    assert_int_equal(rt_file_write(at("out/thesis.tex"), "x", 1, &e), RT_OK);
    expect_refused(&s, RT_INVALID, out, "no model");
    assert_int_equal(rt_file_write(at("out/config.json"), "{}", 2, &e), RT_OK);
    expect_refused(&s, RT_INVALID, out, "'thesis.tex'");
    assert_int_equal(rt_dir_make(at("out/checkpoint"), &e), RT_OK);
    expect_refused(&s, RT_INVALID, out, "'checkpoint'");
    expect_text(at("out/thesis.tex"), "x");
    rt_dir_remove(out);
    /* An empty one is as good as none. */
    s.out.replace = false;
    assert_int_equal(rt_dir_make(out, &e), RT_OK);
    assert_int_equal(write_it(&s, &e), RT_OK);
    rt_dir_remove(out);
    /* A side file cannot be anywhere else than beside the model. */
    rt_side_file side = { "../evil", { "x", 1 } };
    rt_model_text text = { .side = &side, .side_count = 1 };
    s.out.text = &text;
    expect_refused(&s, RT_INVALID, "../evil", "beside a model");
}

static void test_out_of_memory(void **state)
{
    (void)state;
    rt_model_text text = { .tokenizer_config = { "{\"chat_template\": \"a\"}", 22 }, .chat_template = { "x", 1 } };
    static const rt_container to[] = { RT_CONTAINER_HF, RT_CONTAINER_SAFETENSORS };
    source s;
    rt_err e;
    for (int k = 0; k < 2; k++) {
        make_source(&s, "qwen2", to[k], at("out"), RT_DTYPE_F32, RT_DTYPE_F32);
        s.out.text = &text;
        s.out.shard_bytes = 1500;
        s.calls.check = NULL;
        rt_allocator_set(&(rt_allocator){ failing_alloc, failing_free, NULL });
        uint64_t live = rt_alloc_live();
        int n = 0, rc = RT_NOMEM;
        for (; n < 5000 && rc != RT_OK; n++) {
            allowed = n;
            rc = write_it(&s, &e);
            allowed = -1;
            if (rc == RT_OK) break;
            if (rc != RT_NOMEM) fail_msg("allocation %d: %s", n, e.text);
            assert_int_equal(e.status, RT_NOMEM);
            assert_int_equal(rt_alloc_live(), live);
            assert_int_equal(entries(folder), 0);
        }
        rt_allocator_set(NULL);
        assert_in_range(n, 10, 4999);
        rt_dir_remove(at("out"));
        unlink(at("out"));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_one_file), cmocka_unit_test(test_folder),  cmocka_unit_test(test_shards),
        cmocka_unit_test(test_fill),     cmocka_unit_test(test_pieces),  cmocka_unit_test(test_failures),
        cmocka_unit_test(test_template), cmocka_unit_test(test_refused), cmocka_unit_test(test_out_of_memory),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
