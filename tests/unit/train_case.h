/* train_case.h - for tests of training and generation: tiny models on disk, token shards of known ids, a device. */
#ifndef RT_TESTS_TRAIN_CASE_H
#define RT_TESTS_TRAIN_CASE_H

#include "format_case.h"

#include "format/convert.h"
#include "format/init_random.h"
#include "infer/load.h"
#include "text/data/data_rows.h"
#include "text/tokenizer/vocab_convert.h"
#include "train/step.h"

/* A preset with less of everything: 32 wide, two layers unless the family needs four. */
static inline rt_model_config tiny_config(const char *preset, uint64_t seed)
{
    rt_model_config c = { 0 };
    const rt_preset *p = rt_preset_find(preset);
    assert_non_null(p);
    rt_preset_fill(p, &c);
    c.width = 32;
    c.head_dim = 8;
    c.hidden = 48;
    c.random_init = true;
    c.init_seed = seed;
    c.init_range = 0.1;
    return c;
}

/* Random weights in a Hugging Face directory, with a tokenizer of bytes unless `bare`. */
static inline void write_model(const char *path, const rt_model_config *c, rt_dtype dtype, bool bare)
{
    rt_err e = { 0 };
    rt_pool *pool = NULL;
    rt_str json = { 0 }, config = { 0 };
    uint32_t n = rt_param_count(c);
    rt_out_tensor *t = calloc(n, sizeof *t);
    rt_model_text text = { .unk = -1, .pad = -1, .eot = -1 };
    rt_json_init();
    for (uint32_t i = 0; i < n; i++) {
        rt_param_at(c, i, &t[i].role, &t[i].layer);
        t[i].dtype = dtype;
    }
    assert_int_equal(rt_byte_tokenizer_json(&json, c->vocab, &e), RT_OK);
    assert_int_equal(rt_byte_tokenizer_config(&config, &e), RT_OK);
    text.tokenizer_json = (rt_span){ json.data, json.len };
    text.tokenizer_config = (rt_span){ config.data, config.len };
    assert_int_equal(rt_pool_new(&pool, 1, &e), RT_OK);
    rt_model_out o = { .to = RT_CONTAINER_HF,
                       .path = path,
                       .name = "tiny",
                       .config = c,
                       .text = bare ? NULL : &text,
                       .tensors = t,
                       .tensor_count = n };
    if (rt_init_random(&o, &(rt_init_opts){ 0 }, pool, &e) < 0) fail_msg("%s", e.text);
    rt_pool_free(pool);
    rt_str_free(&json);
    rt_str_free(&config);
    free(t);
}

static inline rt_model_file *open_model(const char *path)
{
    rt_err e = { 0 };
    rt_model_file *m = NULL;
    if (rt_model_file_open(&m, path, &(rt_hub_env){ 0 }, &e) < 0) fail_msg("%s", e.text);
    return m;
}

/* The model at `from` in GGUF, its matrices in blocks of a mix. */
static inline __attribute__((unused)) void pack_model(const char *from, const char *path, const char *mix)
{
    rt_err e = { 0 };
    rt_pool *pool = NULL;
    rt_arena a = { 0 };
    rt_model_text text;
    rt_convert v = { 0 };
    rt_model_file *m = open_model(from);
    if (rt_model_text_for(&text, &m->text, RT_CONTAINER_GGUF, m->config.vocab, &a, NULL, &e) < 0)
        fail_msg("%s", e.text);
    rt_convert_opts o = { .to = RT_CONTAINER_GGUF, .path = path, .mix = rt_mix_find(mix), .text = &text };
    assert_int_equal(rt_pool_new(&pool, 1, &e), RT_OK);
    if (rt_convert_plan(&v, m, &o, &e) < 0 || rt_convert_run(&v, NULL, NULL, pool, &e) < 0) fail_msg("%s", e.text);
    rt_convert_free(&v);
    rt_pool_free(pool);
    rt_model_file_close(m);
    rt_arena_free(&a);
}

/* A preset with less of everything, in the folder of the test: made by whoever asks first. */
static inline rt_model_file *preset_model(const char *preset)
{
    rt_model_config c = tiny_config(preset, 9);
    char path[512];
    snprintf(path, sizeof path, "%s", in_dir(preset));
    if (!rt_path_exists(path)) write_model(path, &c, RT_DTYPE_F32, true);
    return open_model(path);
}

static inline rt_dev *open_device(const char *name, uint32_t threads)
{
    const rt_backend *b;
    rt_dev *d = NULL;
    rt_err e = { 0 };
    char count[RT_DEV_COUNT_TEXT];
    assert_int_equal(rt_backend_find(name, &b, &e), RT_OK);
    if (b->open(&d, 0, &RT_DEV_OPTIONS({ "threads", rt_dev_count(count, threads) }), &e) < 0) fail_msg("%s", e.text);
    return d;
}

/* A shard of documents, each `lengths[i]` tokens, every one a target; ids follow a pattern below vocab. */
static inline void write_shard(const char *path, const uint32_t *lengths, uint32_t count, uint32_t vocab)
{
    rt_err e = { 0 };
    rt_shard_writer *w = NULL;
    rt_shard_identity id = { .vocab = vocab };
    if (rt_shard_writer_new(&w, path, &id, &e) < 0) fail_msg("%s", e.text);
    for (uint32_t i = 0; i < count; i++) {
        uint32_t ids[256];
        assert_true(lengths[i] <= 256);
        for (uint32_t k = 0; k < lengths[i]; k++) ids[k] = (i * 31 + k * 7 + k * k * 3) % vocab;
        rt_encoded r = {
            .kind = RT_RECORD_TEXT, .ids = { ids, lengths[i], 256 }, .all_targets = true, .trained = lengths[i] - 1
        };
        if (rt_shard_writer_add(w, &r, 0, RT_PART_WHOLE, &e) < 0) fail_msg("%s", e.text);
    }
    if (rt_shard_writer_commit(w, "{}", &e) < 0) fail_msg("%s", e.text);
    rt_shard_writer_free(w);
}

static inline rt_step_opts step_options(const rt_model_config *student, const rt_model_config *teacher, uint32_t B,
                                        uint32_t T)
{
    return (rt_step_opts){
        .B = B,
        .T = T,
        .loss = { .divergence = RT_DIV_FORWARD_KL, .temperature = 1.0, .ce_weight = 0.1, .kd_weight = 0.9, .t2 = true },
        .beta1 = 0.9,
        .beta2 = 0.95,
        .eps = 1e-8,
        .weight_decay = 0.01,
        .max_grad_norm = 1.0,
        .policy = rt_policy_f32,
        .student = student,
        .teacher = teacher
    };
}

/* Some steps on rows of a pattern, so that weights and moments are not those of the beginning. */
static inline void train_some(rt_trainer *t, uint32_t first, uint32_t steps)
{
    enum { MOST = 512 };
    static int32_t ids[MOST], pos[MOST], start[MOST], target[MOST];
    uint32_t T = t->plan->opts.T, N = t->plan->opts.B * T, V = t->plan->opts.student->vocab;
    rt_err e = { 0 };
    rt_step_result r;
    assert_true(N <= MOST);
    for (uint32_t s = first; s < first + steps; s++) {
        for (uint32_t i = 0; i < N; i++) {
            ids[i] = (int32_t)((i * 13 + s * 5 + i * i) % V);
            pos[i] = (int32_t)(i % T);
        }
        for (uint32_t i = 0; i < N; i++) target[i] = i % T == T - 1 ? -1 : ids[i + 1];
        rt_batch b = { ids, pos, start, target, NULL };
        if (rt_trainer_step(t, &b, 1, s, 1e-3, 1, &r, &e) < 0) fail_msg("%s", e.text);
    }
}

#endif
