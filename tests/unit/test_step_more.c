/* test_step_more.c - what mutants of model and train showed that no other test asks: tensors larger than one piece of a
 * copy, steps of seven digits, documents in more than one shard, what is counted, and bounds at their very edge. */
#include "train_case.h"

#include "base/json.h"
#include "job/run/run.h"
#include "train/checkpoint.h"
#include "train/evaluate.h"

#include <fcntl.h>
#include <math.h>
#include <unistd.h>

enum { T = 16, B = 2 };

static rt_trainer *trainer_of(rt_dev *d, const rt_model_config *c, const rt_model_file *m, const bool *frozen,
                              rt_lora l)
{
    rt_err e = { 0 };
    rt_trainer *t = NULL;
    rt_step_opts o = step_options(c, NULL, B, T);
    o.loss.ce_weight = 1;
    o.frozen = frozen;
    o.lora = l;
    if (rt_trainer_open(&t, d, &o, &(rt_seal_opts){ 0 }, &e) < 0) fail_msg("%s", e.text);
    if (rt_trainer_load(t, m, NULL, NULL, 5, &e) < 0) fail_msg("%s", e.text);
    return t;
}

static void assert_same_values(rt_trainer *a, rt_trainer *b, char what, uint32_t i, double within)
{
    rt_err e = { 0 };
    uint64_t n = rt_trainer_elems(a, i);
    float *x = malloc(n * sizeof *x), *y = malloc(n * sizeof *y);
    assert_true(x && y);
    assert_int_equal(rt_trainer_read(a, what, i, x, &e), RT_OK);
    assert_int_equal(rt_trainer_read(b, what, i, y, &e), RT_OK);
    for (uint64_t k = 0; k < n; k++)
        if (!(fabs((double)x[k] - y[k]) <= within)) fail_msg("%c of parameter %u differs at %d", what, i, (int)k);
    free(x);
    free(y);
}

/* The embedding has more elements than checkpoints and outputs copy at a time. */
static void test_more_than_a_piece(void **state)
{
    (void)state;
    rt_err e = { 0 };
    rt_model_config c = tiny_config("tiny-qwen2", 1);
    c.vocab = 70000; /* x 32 = 2.24 M: two whole pieces and a rest */
    write_model(in_dir("s"), &c, RT_DTYPE_F32, true);
    rt_model_file *m = open_model(in_dir("s"));
    rt_dev *d = open_device("cpu", 1);
    rt_trainer *a = trainer_of(d, &c, m, NULL, (rt_lora){ 0 }), *b = trainer_of(d, &c, m, NULL, (rt_lora){ 0 });
    uint32_t embed = a->plan->student->embed;
    train_some(a, 1, 2);
    rt_output o = { .student = m, .dtype = RT_DTYPE_F32 };
    rt_progress_state s = { .step = 2, .best = NAN };
    if (rt_checkpoint_save(in_dir("."), a, &o, &s, &e) < 0) fail_msg("%s", e.text);
    if (rt_checkpoint_load(in_dir("checkpoint-000002"), b, &e) < 0) fail_msg("%s", e.text);
    for (const char *k = "wmv"; *k; k++) assert_same_values(a, b, *k, embed, 0);

    rt_output_difference diff;
    if (rt_output_read_back(in_dir("checkpoint-000002"), b, &o, &diff, &e) < 0) fail_msg("%s", e.text);
    assert_true(diff.max == 0 && diff.rmse == 0);
    float last = 3.0f; /* of all elements the very last */
    uint64_t n = rt_trainer_elems(b, embed);
    assert_int_equal(rt_trainer_write_part(b, 'w', embed, n - 1, 1, &last, &e), RT_OK);
    if (rt_output_read_back(in_dir("checkpoint-000002"), b, &o, &diff, &e) < 0) fail_msg("%s", e.text);
    assert_true(diff.max > 2.0);
    assert_string_equal(diff.worst, "model.embed_tokens.weight");
    uint64_t all = rt_decoder_trained(b->plan->student);
    assert_true(fabs(diff.rmse - diff.max / sqrt((double)all)) < 1e-9 * diff.rmse);
    if (rt_output_reload(in_dir("checkpoint-000002"), b, &o, &e) < 0) fail_msg("%s", e.text);
    assert_same_values(a, b, 'w', embed, 0);
    rt_trainer_free(a);
    rt_trainer_free(b);
    d->api->close(d);
    rt_model_file_close(m);
}

/* A checkpoint as far as whoever removes one looks: a record that lists its files. */
static void put_checkpoint(const char *name)
{
    rt_err e = { 0 };
    char path[400];
    snprintf(path, sizeof path, "keep/%s/x", name);
    put_text(path, "1");
    snprintf(path, sizeof path, "%s/%s/state.json", in_dir("keep"), name);
    json_t *j = json_pack("{s:{s:o}}", "files", "x", rt_hash_to_json(rt_hash("1", 1)));
    assert_int_equal(rt_checked_json_write(path, j, NULL, &e), RT_OK);
    json_decref(j);
}

/* Names of seven digits sort before those of six by bytes. */
static void test_steps_of_seven_digits(void **state)
{
    (void)state;
    char folder[512];
    snprintf(folder, sizeof folder, "%s", in_dir("keep"));
    put_checkpoint("checkpoint-999998");
    put_checkpoint("checkpoint-999999");
    put_checkpoint("checkpoint-1000000");
    put_checkpoint("checkpoint-1000001");
    rt_checkpoint_prune(folder, 2);
    assert_true(rt_path_exists(in_dir("keep/checkpoint-1000001")));
    assert_true(rt_path_exists(in_dir("keep/checkpoint-1000000")));
    assert_false(rt_path_exists(in_dir("keep/checkpoint-999999")));
    assert_false(rt_path_exists(in_dir("keep/checkpoint-999998")));
}

/* Documents that are cut into pieces, in three shards: each is one document. */
static void test_documents_of_shards(void **state)
{
    (void)state;
    enum { SHARDS = 3 };
    static const uint32_t lengths[SHARDS][4] = { { 60, 9, 70, 5 }, { 33, 40, 3, 90 }, { 80, 17, 64, 31 } };
    rt_err e = { 0 };
    rt_shard *shards[SHARDS];
    rt_rows *rows = NULL;
    rt_eval_set *set = NULL;
    rt_eval_result r;
    rt_model_config c = tiny_config("tiny-qwen2", 1);
    write_model(in_dir("s"), &c, RT_DTYPE_F32, true);
    rt_model_file *m = open_model(in_dir("s"));
    rt_dev *d = open_device("cpu", 1);
    rt_trainer *t = trainer_of(d, &c, m, NULL, (rt_lora){ 0 });
    for (int i = 0; i < SHARDS; i++) {
        char name[32];
        snprintf(name, sizeof name, "%d.rtok", i);
        write_shard(in_dir(name), lengths[i], 4, 272);
        if (rt_shard_open(&shards[i], in_dir(name), &(rt_shard_expect){ 0 }, &e) < 0) fail_msg("%s", e.text);
    }
    for (uint32_t each = 1; each <= SHARDS; each += SHARDS - 1) { /* three sources of one, one source of three */
        rt_rows_source from[SHARDS];
        for (uint32_t i = 0; i < SHARDS; i++) from[i] = (rt_rows_source){ "some", shards + i, each, 0, 0 };
        rt_rows_opts o = { .seq_len = T, .in_order = true, .epochs = 1 };
        if (rt_rows_open(&rows, from, SHARDS / each, &o, &e) < 0) fail_msg("%s", e.text);
        if (rt_eval_set_new(&set, rows, B, T, 0, &e) < 0) fail_msg("%s", e.text);
        if (rt_evaluate(t, set, &r, NULL, &e) < 0) fail_msg("%s", e.text);
        assert_int_equal(r.documents, 12);
        assert_int_equal(r.positions, 502 - 12);
        rt_eval_set_free(set);
        rt_rows_close(rows);
    }
    for (int i = 0; i < SHARDS; i++) rt_shard_close(shards[i]);
    rt_trainer_free(t);
    d->api->close(d);
    rt_model_file_close(m);
}

/* What a run says that it trains. */
static void test_trained_is_counted(void **state)
{
    (void)state;
    rt_model_config c = tiny_config("tiny-qwen2", 1);
    bool frozen[64] = { true }; /* the embedding, which is the head too */
    write_model(in_dir("s"), &c, RT_DTYPE_F32, true);
    rt_model_file *m = open_model(in_dir("s"));
    rt_dev *d = open_device("cpu", 1);
    rt_trainer *whole = trainer_of(d, &c, m, NULL, (rt_lora){ 0 }),
               *part = trainer_of(d, &c, m, frozen, (rt_lora){ 0 });
    rt_trainer *adapters = trainer_of(d, &c, m, NULL, (rt_lora){ 3, 6.0, 1u << RT_ROLE_Q | 1u << RT_ROLE_DOWN, 0 });
    uint64_t q = c.heads * c.head_dim;
    assert_int_equal(rt_decoder_trained(whole->plan->student), rt_model_file_parameters(m));
    assert_int_equal(rt_decoder_trained(part->plan->student),
                     rt_model_file_parameters(m) - (uint64_t)c.vocab * c.width);
    assert_int_equal(rt_decoder_trained(adapters->plan->student),
                     c.layers * 3 * ((c.width + q) + (c.hidden + c.width)));
    rt_trainer_free(whole);
    rt_trainer_free(part);
    rt_trainer_free(adapters);
    d->api->close(d);
    rt_model_file_close(m);
}

/* As many rows as the number of a row can be, and more. */
static void test_cache_at_its_limit(void **state)
{
    (void)state;
    rt_err e = { 0 };
    rt_space *space = NULL;
    rt_decoder *d = NULL;
    rt_kv_cache cache;
    rt_model_config c = tiny_config("tiny-qwen2", 1);
    assert_int_equal(rt_space_new(&space, &e), RT_OK);
    rt_decoder_opts o = { .name = "model", .policy = &rt_policy_f32 };
    assert_int_equal(rt_decoder_new(&d, space, &c, &o, &e), RT_OK);
    if (rt_decoder_cache(d, space, 1, INT32_MAX, &cache, &e) < 0) fail_msg("%s", e.text);
    assert_int_equal(cache.k[1].rows, INT32_MAX);
    assert_int_equal(rt_decoder_cache(d, space, 1u << 16, 1u << 16, &cache, &e), RT_INVALID);
    assert_non_null(strstr(e.text, "65536 pages of 65536"));
    rt_decoder_free(d);
    rt_space_free(space);
}

/* PEFT reads these; a dropout would be applied by whoever trains on. Nothing is left in memory either. */
static void test_adapter_configuration(void **state)
{
    (void)state;
    rt_err e = { 0 };
    rt_model_config c = tiny_config("tiny-qwen2", 1);
    write_model(in_dir("s"), &c, RT_DTYPE_F32, true);
    rt_model_file *m = open_model(in_dir("s"));
    rt_dev *d = open_device("cpu", 1);
    rt_lora lora = { 3, 6.0, 1u << RT_ROLE_Q | 1u << RT_ROLE_DOWN, 0.05 };
    rt_trainer *t = trainer_of(d, &c, m, NULL, lora);
    rt_output o = { .student = m, .dtype = RT_DTYPE_F32, .lora = lora, .base_name = "the base" };
    uint64_t live = rt_alloc_live();
    if (rt_output_write(in_dir("adapter"), t, &o, &e) < 0) fail_msg("%s", e.text);
    if (rt_output_merged(in_dir("merged"), t, &o, &e) < 0) fail_msg("%s", e.text);
    if (rt_output_merged(in_dir("merged"), t, &o, &e) < 0) fail_msg("again: %s", e.text);
    assert_int_equal(rt_alloc_live(), live);
    json_t *j = json_load_file(in_dir("adapter/adapter_config.json"), 0, NULL);
    assert_non_null(j);
    assert_true(json_number_value(json_object_get(j, "lora_dropout")) == 0.05);
    assert_true(json_number_value(json_object_get(j, "lora_alpha")) == 6.0);
    assert_int_equal(json_integer_value(json_object_get(j, "r")), 3);
    assert_true(json_is_false(json_object_get(j, "fan_in_fan_out")));
    assert_string_equal(json_string_value(json_object_get(j, "bias")), "none");
    assert_string_equal(json_string_value(json_object_get(j, "base_model_name_or_path")), "the base");
    assert_int_equal(json_array_size(json_object_get(j, "target_modules")), 2);
    json_decref(j);
    rt_trainer_free(t);
    d->api->close(d);
    rt_model_file_close(m);
}

/* A gradient whose square is beyond f32: the message names the parameter, and no weight has moved. */
static void test_gradient_that_is_not_finite(void **state)
{
    (void)state;
    rt_err e = { 0 };
    rt_step_result r;
    int32_t ids[B * T], pos[B * T], start[B * T] = { 0 }, target[B * T];
    static float w[272 * 32];
    rt_model_config c = tiny_config("tiny-llama", 1); /* its head is a parameter of its own */
    write_model(in_dir("s"), &c, RT_DTYPE_F32, true);
    rt_model_file *m = open_model(in_dir("s"));
    rt_dev *d = open_device("cpu", 1);
    rt_trainer *t = trainer_of(d, &c, m, NULL, (rt_lora){ 0 });
    const rt_decoder *model = t->plan->student;
    assert_true(model->head > 0 && rt_trainer_elems(t, model->head) <= 272 * 32);
    assert_int_equal(rt_trainer_write(t, 'w', model->head, w, &e), RT_OK); /* logits are 0, whatever is hidden */
    for (uint32_t i = 0; i < c.width; i++) w[i] = 1e30f;
    assert_int_equal(rt_trainer_write(t, 'w', model->final_norm, w, &e), RT_OK);
    for (int i = 0; i < B * T; i++) {
        ids[i] = i * 7 % 200;
        pos[i] = i % T;
        target[i] = i % T == T - 1 ? -1 : (i + 1) * 7 % 200;
    }
    rt_batch b = { ids, pos, start, target, NULL };
    assert_int_equal(rt_trainer_step(t, &b, 1, 1, 1e-3, 1, &r, &e), RT_NONFINITE);
    if (!strstr(e.text, "lm_head.weight")) fail_msg("%s", e.text);
    assert_int_equal(rt_trainer_read(t, 'w', model->head, w, &e), RT_OK);
    for (uint64_t i = 0; i < rt_trainer_elems(t, model->head); i++) assert_true(w[i] == 0.0f);
    rt_trainer_free(t);
    d->api->close(d);
    rt_model_file_close(m);
}

/* Tokens of 24 and of 25 bytes in a message: the longer one is cut, and says so. */
static void test_long_tokens_are_cut(void **state)
{
    (void)state;
    static const char a[] = "aaaaaaaaaaaaaaaaaaaaaaaaa", b[] = "bbbbbbbbbbbbbbbbbbbbbbbbb"; /* 25 each */
    for (uint32_t len = 24; len <= 25; len++) {
        rt_tok_text own[2] = { { "x", 1 }, { a, len } }, other[2] = { { "x", 1 }, { b, len } };
        rt_vocab_spec v = { "gpt2",    "gpt-2",       .token_count = 2, .bos = -1,
                            .eos = -1, .add_bos = -1, .add_eos = -1,    .add_space_prefix = -1 };
        rt_tokenizer *s = NULL, *t = NULL;
        rt_pair p = { 0 };
        rt_err e = { 0 };
        v.tokens = own;
        assert_int_equal(rt_tokenizer_from_vocab(&s, &v, &e), RT_OK);
        v.tokens = other;
        assert_int_equal(rt_tokenizer_from_vocab(&t, &v, &e), RT_OK);
        assert_int_equal(rt_pair_check(&p, s, 2, t, 2, 0, &e), RT_INVALID);
        assert_non_null(strstr(e.text, len == 24 ? "'aaaaaaaaaaaaaaaaaaaaaaaa'" : "'aaaaaaaaaaaaaaaaaaaaaaaa...'"));
        rt_pair_free(&p);
        rt_tokenizer_free(s);
        rt_tokenizer_free(t);
    }
}

/* ---- opening a run ---- */

/* A run that fails early closes no file that is not its own. */
static void test_failed_open_leaves_files_open(void **state)
{
    (void)state;
    static rt_settings s;
    rt_err e = { 0 };
    rt_run *r = NULL;
    s = (rt_settings){ 0 };
    assert_int_equal(rt_run_open(&r, &s, &(rt_run_opts){ 0 }, &e), RT_USAGE);
    assert_null(r);
    assert_true(fcntl(STDOUT_FILENO, F_GETFD) >= 0);
}

/* The first number of positions that 32 bits cannot count is refused by the flags that made it. */
static void test_too_many_positions(void **state)
{
    rt_err e = { 0 };
    rt_step_plan *s = NULL;
    rt_model_config c = tiny_config("tiny-qwen2", 1);
    rt_step_opts o = step_options(&c, NULL, 1u << 16, 1u << 16);
    (void)state;
    assert_int_equal(rt_step_plan_new(&s, &o, &e), RT_INVALID);
    assert_non_null(strstr(e.text, "--micro-batch 65536 of --seq-len 65536 is out of range"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_more_than_a_piece, make_test_dir, remove_test_dir),
        cmocka_unit_test_setup_teardown(test_steps_of_seven_digits, make_test_dir, remove_test_dir),
        cmocka_unit_test_setup_teardown(test_documents_of_shards, make_test_dir, remove_test_dir),
        cmocka_unit_test_setup_teardown(test_trained_is_counted, make_test_dir, remove_test_dir),
        cmocka_unit_test(test_cache_at_its_limit),
        cmocka_unit_test_setup_teardown(test_adapter_configuration, make_test_dir, remove_test_dir),
        cmocka_unit_test_setup_teardown(test_gradient_that_is_not_finite, make_test_dir, remove_test_dir),
        cmocka_unit_test(test_long_tokens_are_cut),
        cmocka_unit_test(test_too_many_positions),
        cmocka_unit_test(test_failed_open_leaves_files_open),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
