/* test_inputs_more.c - what a run reads, asked directly: counts and lengths over several shards, weights, variables of
 * the chat template, and the record of the shards that a resumed run opens again. */
#include "train_case.h"

#include "job/prepare/inputs.h"

static rt_settings settings;
static rt_pool *pool;

static int set_up(void **state)
{
    rt_err e = { 0 };
    if (make_test_dir(state) != 0) return -1;
    rt_model_config c = tiny_config("tiny-qwen2", 1);
    write_model(in_dir("s"), &c, RT_DTYPE_F32, true);
    write_model(in_dir("chatty"), &c, RT_DTYPE_F32, false);
    settings = (rt_settings){ 0 };
    return rt_pool_new(&pool, 1, &e) == RT_OK && rt_dir_make(in_dir("run"), &e) == RT_OK ? 0 : -1;
}

static int tear_down(void **state)
{
    rt_pool_free(pool);
    pool = NULL;
    return remove_test_dir(state);
}

static void set(rt_setting_id id, const char *text)
{
    rt_err e = { 0 };
    if (rt_settings_set(&settings, id, text, &e) < 0) fail_msg("%s", e.text);
}

static char folder[600];
static rt_hub_env env;

static rt_inputs_opts options(void)
{
    snprintf(folder, sizeof folder, "%s/run", test_dir);
    return (rt_inputs_opts){ .env = &env, .pool = pool, .folder = folder };
}

static rt_inputs *open_all(void)
{
    rt_err e = { 0 };
    rt_inputs *in = NULL;
    rt_inputs_opts o = options();
    if (rt_inputs_open(&in, &settings, &o, &e) < 0) fail_msg("%s", e.text);
    if (rt_inputs_data(in, &settings, &o, &e) < 0) fail_msg("%s", e.text);
    return in;
}

/* 150 short records and 50 long ones, in two shards of one source and one of another. */
static void write_data(void)
{
    uint32_t lengths[200];
    for (int i = 0; i < 200; i++) lengths[i] = i % 4 == 3 ? 100 : 8;
    assert_int_equal(rt_dir_make(in_dir("d"), NULL), RT_OK);
    write_shard(in_dir("d/a.rtok"), lengths, 60, 272);
    write_shard(in_dir("d/b.rtok"), lengths + 60, 40, 272);
    write_shard(in_dir("c.rtok"), lengths + 100, 100, 272);
}

static void test_facts_over_shards(void **state)
{
    (void)state;
    static char spec[2][600];
    rt_err e = { 0 };
    rt_run_facts f;
    write_data();
    snprintf(spec[0], sizeof spec[0], "%s,weight=0.5", in_dir("d"));
    snprintf(spec[1], sizeof spec[1], "%s", in_dir("c.rtok"));
    set(RT_SETTING_ID_student, in_dir("s"));
    set(RT_SETTING_ID_vocab, "272");
    set(RT_SETTING_ID_data, spec[0]);
    set(RT_SETTING_ID_data, spec[1]);
    for (int again = 0; again < 2; again++) { /* the second time from what the first wrote down */
        rt_inputs *in = open_all();
        assert_int_equal(rt_inputs_facts(in, &f, &e), RT_OK);
        assert_int_equal(f.records, 200);
        assert_int_equal(f.length99, 100);
        assert_int_equal(f.student_dtype, RT_DTYPE_F32);
        assert_int_equal(in->train_count, 2);
        assert_int_equal(in->train_sources[0].count, 2);
        assert_int_equal(in->train_sources[1].count, 1);
        assert_true(in->train_sources[0].weight == 0.5);
        assert_true(in->train_sources[1].weight == 1.0 || in->train_sources[1].weight == 0.0);
        assert_ptr_equal(in->train_sources[1].shards, in->shards + 2);
        assert_int_equal(rt_shard_about(in->shards[0])->records, 60);
        assert_int_equal(rt_shard_about(in->shards[2])->records, 100);
        rt_inputs_close(in);
    }
}

/* What a run says of its rows is over all sources. */
static void test_counts_over_sources(void **state)
{
    (void)state;
    static char spec[2][600];
    rt_err e = { 0 };
    rt_run_facts f = { 0 };
    rt_resolved r = { .seq_len = 16, .held_out = 0.2 };
    write_data();
    snprintf(spec[0], sizeof spec[0], "%s", in_dir("d"));
    snprintf(spec[1], sizeof spec[1], "%s", in_dir("c.rtok"));
    set(RT_SETTING_ID_student, in_dir("s"));
    set(RT_SETTING_ID_vocab, "272");
    set(RT_SETTING_ID_data, spec[0]);
    set(RT_SETTING_ID_data, spec[1]);
    rt_inputs *in = open_all();
    if (rt_inputs_rows(in, &settings, &r, &f, &e) < 0) fail_msg("%s", e.text);
    const rt_rows_count *all = &in->counted, *a = rt_rows_of_source(in->train, 0), *b = rt_rows_of_source(in->train, 1);
    assert_int_equal(all->records, a->records + b->records);
    assert_int_equal(all->split, a->split + b->split);
    assert_int_equal(all->held, a->held + b->held);
    assert_int_equal(all->units, a->units + b->units);
    assert_int_equal(all->tokens, a->tokens + b->tokens);
    assert_int_equal(all->trained, a->trained + b->trained);
    assert_int_equal(all->per_epoch, a->per_epoch + b->per_epoch);
    assert_true(a->tokens > 0 && b->tokens > 0 && a->trained > 0 && b->trained > 0 && a->split > 0 && b->split > 0);
    assert_true(f.rows_per_epoch > 0);
    rt_inputs_close(in);
}

/* What evaluations take is counted as they take it. */
static void test_eval_weights(void **state)
{
    (void)state;
    static char train[600], eval[600];
    rt_err e = { 0 };
    rt_run_facts f;
    write_data();
    snprintf(train, sizeof train, "%s", in_dir("d"));
    snprintf(eval, sizeof eval, "%s,weight=0.25", in_dir("c.rtok"));
    set(RT_SETTING_ID_student, in_dir("s"));
    set(RT_SETTING_ID_vocab, "272");
    set(RT_SETTING_ID_data, train);
    set(RT_SETTING_ID_eval_data, eval);
    rt_inputs *in = open_all();
    assert_int_equal(rt_inputs_facts(in, &f, &e), RT_OK);
    assert_int_equal(f.eval_tokens, (75 * 8 + 25 * 100) / 4);
    rt_inputs_close(in);
}

/* Evaluation has sources of its own; they follow those of training. */
static void test_eval_data(void **state)
{
    (void)state;
    static char train[600], eval[600];
    write_data();
    snprintf(train, sizeof train, "%s", in_dir("d"));
    snprintf(eval, sizeof eval, "%s", in_dir("c.rtok"));
    set(RT_SETTING_ID_student, in_dir("s"));
    set(RT_SETTING_ID_vocab, "272");
    set(RT_SETTING_ID_data, train);
    set(RT_SETTING_ID_eval_data, eval);
    for (int again = 0; again < 2; again++) {
        rt_inputs *in = open_all();
        assert_int_equal(in->train_count, 1);
        assert_int_equal(in->eval_count, 1);
        assert_ptr_equal(in->train_sources[0].shards, in->shards);
        assert_ptr_equal(in->eval_sources[0].shards, in->shards + 2);
        assert_int_equal(rt_shard_about(in->eval_sources[0].shards[0])->records, 100);
        rt_inputs_close(in);
    }
}

/* A resumed run could not find it again. */
static void test_name_that_json_cannot_hold(void **state)
{
    (void)state;
    static const uint32_t lengths[] = { 20, 30 };
    static char data[600];
    rt_err e = { 0 };
    rt_inputs *in = NULL;
    rt_inputs_opts o = options();
    assert_int_equal(rt_dir_make(in_dir("d"), NULL), RT_OK);
    write_shard(in_dir("d/\xff.rtok"), lengths, 2, 272);
    snprintf(data, sizeof data, "%s", in_dir("d"));
    set(RT_SETTING_ID_student, in_dir("s"));
    set(RT_SETTING_ID_vocab, "272");
    set(RT_SETTING_ID_data, data);
    if (rt_inputs_open(&in, &settings, &o, &e) < 0) fail_msg("%s", e.text);
    assert_true(rt_inputs_data(in, &settings, &o, &e) < 0);
    assert_non_null(strstr(e.text, "not UTF-8"));
    rt_inputs_close(in);
}

static void test_template_variables(void **state)
{
    (void)state;
    rt_err e = { 0 };
    rt_inputs *in = NULL;
    rt_inputs_opts o = options();
    set(RT_SETTING_ID_student, in_dir("chatty"));
    set(RT_SETTING_ID_template_var, "who=me and = you");
    set(RT_SETTING_ID_template_var, "n=37");
    set(RT_SETTING_ID_template_var, "think=false");
    set(RT_SETTING_ID_template_var, "none=");
    if (rt_inputs_open(&in, &settings, &o, &e) < 0) fail_msg("%s", e.text);
    assert_string_equal(json_string_value(json_object_get(in->template_vars, "who")), "me and = you");
    assert_int_equal(json_integer_value(json_object_get(in->template_vars, "n")), 37);
    assert_true(json_is_false(json_object_get(in->template_vars, "think")));
    assert_string_equal(json_string_value(json_object_get(in->template_vars, "none")), "");
    assert_int_equal(json_object_size(in->template_vars), 4);
    rt_inputs_close(in);
    set(RT_SETTING_ID_template_var, "=x");
    in = NULL;
    assert_int_equal(rt_inputs_open(&in, &settings, &o, &e), RT_USAGE);
    assert_null(in);
}

/* What two sources of text held, added up. */
static void test_stats_of_sources(void **state)
{
    (void)state;
    static char one[600], two[600];
    put_text("one.jsonl", "{\"text\": \"abc\"}\n{\"text\": \"defgh\"}\n{\"nothing\": 1}\n");
    put_text("two.jsonl", "{\"prompt\": \"ab\", \"completion\": \"xyz\"}\n{\"text\": \"q\"}\n{\"text\": 5}\n"
                          "{\"messages\": [{\"role\": \"user\", \"content\": \"hi\"}]}\n");
    snprintf(one, sizeof one, "%s", in_dir("one.jsonl"));
    snprintf(two, sizeof two, "%s", in_dir("two.jsonl"));
    set(RT_SETTING_ID_student, in_dir("chatty"));
    set(RT_SETTING_ID_data, one);
    set(RT_SETTING_ID_data, two);
    set(RT_SETTING_ID_loss_on, "turns");
    set(RT_SETTING_ID_skip_bad, "2");
    rt_inputs *in = open_all();
    const rt_tokenize_stats *s = &in->stats;
    const rt_shard_info *a = rt_shard_about(in->shards[0]), *b = rt_shard_about(in->shards[1]);
    assert_int_equal(s->bad, 2);
    assert_non_null(strstr(s->first_bad, "one.jsonl"));
    assert_int_equal(s->no_target, 1);
    assert_int_equal(s->records, a->records + b->records);
    assert_int_equal(s->tokens, a->tokens + b->tokens);
    assert_int_equal(s->trained, a->trained + b->trained);
    assert_int_equal(s->kinds[RT_RECORD_TEXT], 3);
    assert_int_equal(s->kinds[RT_RECORD_COMPLETION], 1);
    assert_true(s->bytes > 0);
    assert_int_equal(in->notes.count, 2);
    assert_non_null(strstr(in->notes.text[0], "2 records at fault"));
    assert_non_null(strstr(in->notes.text[1], "completion"));
    rt_inputs_close(in);
}

/* A run's shards are those that it began with: another run begins. */
static void begin_anew(void)
{
    char path[700];
    snprintf(path, sizeof path, "%s/train.json", folder);
    assert_int_equal(unlink(path), 0);
}

/* Of one text the end is held out; of few records there is always one for each side; of one too short there is none. */
static void test_little_data(void **state)
{
    (void)state;
    static const uint32_t one[] = { 40 }, tiny[] = { 3 }, three[] = { 40, 40, 40 }, short_ones[] = { 1, 1, 1 };
    static char data[600], eval[600];
    rt_err e = { 0 };
    rt_run_facts f = { 0 };
    rt_resolved r = { .seq_len = 16, .held_out = 1e-9 };
    write_shard(in_dir("one.rtok"), one, 1, 272);
    write_shard(in_dir("short.rtok"), short_ones, 3, 272);
    snprintf(data, sizeof data, "%s", in_dir("one.rtok"));
    snprintf(eval, sizeof eval, "%s", in_dir("short.rtok"));
    set(RT_SETTING_ID_student, in_dir("s"));
    set(RT_SETTING_ID_vocab, "272");
    set(RT_SETTING_ID_data, data);
    rt_inputs *in = open_all();
    assert_int_equal(rt_inputs_rows(in, &settings, &r, &f, &e), RT_OK);
    assert_int_equal(rt_rows_of_source(in->train, 0)->trained, 37);
    assert_int_equal(rt_rows_of_source(in->held, 0)->trained, 1);
    assert_non_null(strstr(in->notes.text[in->notes.count - 1], "one text: its last"));
    rt_inputs_close(in);
    write_shard(in_dir("one.rtok"), tiny, 1, 272);
    begin_anew();
    in = open_all();
    assert_int_equal(rt_inputs_rows(in, &settings, &r, &f, &e), RT_INVALID);
    assert_non_null(strstr(e.text, "no record is left to train"));
    assert_non_null(strstr(e.text, "--eval-data"));
    rt_inputs_close(in);
    write_shard(in_dir("one.rtok"), three, 3, 272);
    begin_anew();
    in = open_all();
    assert_int_equal(rt_inputs_rows(in, &settings, &r, &f, &e), RT_OK);
    assert_int_equal(rt_rows_of_source(in->held, 0)->units + rt_rows_of_source(in->train, 0)->units, 9);
    assert_int_equal(rt_rows_of_source(in->held, 0)->held, 1);
    rt_inputs_close(in);
    set(RT_SETTING_ID_eval_data, eval);
    e = (rt_err){ 0 };
    in = open_all();
    assert_int_equal(rt_inputs_rows(in, &settings, &r, &f, &e), RT_INVALID);
    assert_true(e.text[0] && !strstr(e.text, "--eval-data"));
    rt_inputs_close(in);
}

/* A cache that another program wrote may lack what a run records: that is said, and is no want of memory. */
static void test_caches_of_others(void **state)
{
    (void)state;
    static const rt_cache_section section = { RT_KEEP_TOPK, 4, .T = 1 };
    static const char *const abouts[] = {
        "{\"made_by\": \"another\"}",
        "{\"teacher\": \"x\", \"keep\": \"topk:4\", \"temperature\": 1}",
        "{\"teacher\": {}, \"keep\": 4, \"temperature\": 1}",
        "{\"teacher\": {}, \"keep\": \"topk:4\", \"temperature\": 0}",
        "{\"teacher\": {}, \"keep\": \"topk:4\", \"temperature\": 1}",
        "{\"teacher\": {}, \"keep\": \"topk:4\\ncontent   0\", \"temperature\": 1}",
        "{\"teacher\": {\"name\": \"t\\nsaved     x\"}, \"keep\": \"topk:4\", \"temperature\": 1}",
    };
    for (int i = 0; i < 7; i++) {
        rt_err e = { 0 };
        rt_cache *c = NULL;
        json_t *about = json_loads(abouts[i], 0, NULL), *identity = NULL;
        char name[20];
        snprintf(name, sizeof name, "cache-%d", i);
        const char *path = in_dir(name);
        assert_int_equal(rt_cache_create(path, about, &section, 1, &e), RT_OK);
        assert_int_equal(rt_cache_open(&c, path, &e), RT_OK);
        assert_int_equal(rt_inputs_cache_says(c, path, &e), i != 4 ? RT_FORMAT : RT_OK);
        assert_int_equal(rt_inputs_cache_identity(&identity, path, &e), i != 4 ? RT_FORMAT : RT_OK);
        if (i < 4 && !strstr(e.text, "cache.json has no ")) fail_msg("%s", e.text);
        rt_cache_close(c);
        json_decref(about);
        json_decref(identity);
    }
}

/* A cache of one section, whose teacher is 32 wide and has 259 ids; ids: the hash of those that count, or null. */
static const char *make_cache(const char *name, const rt_cache_section *section, uint32_t count, json_t *ids)
{
    rt_err e = { 0 };
    static char path[600];
    char inner[40];
    rt_model_config c = tiny_config("tiny-llama", 2);
    json_t *about = json_pack("{s:{}, s:s, s:f, s:{s:i, s:o*}}", "teacher", "keep", rt_keep_name(section->keep),
                              "temperature", (double)section->T, "ids", "count", 259, "hash", ids);
    assert_non_null(about);
    snprintf(path, sizeof path, "%s/%s", test_dir, name);
    assert_int_equal(rt_cache_create(path, about, section, count, &e), RT_OK);
    json_decref(about);
    snprintf(inner, sizeof inner, "%s/teacher", name);
    write_model(in_dir(inner), &c, RT_DTYPE_F32, false);
    return path;
}

static int open_cache(const char *path, rt_hash128 *ids, rt_err *e)
{
    rt_inputs *in = NULL;
    const rt_inputs_opts o = options();
    settings = (rt_settings){ 0 };
    set(RT_SETTING_ID_student, in_dir("chatty"));
    set(RT_SETTING_ID_teacher, path);
    int rc = rt_inputs_open(&in, &settings, &o, e);
    if (rc >= 0) *ids = rt_pair_hash(&in->pair);
    rt_inputs_close(in);
    return rc;
}

/* What a cache says of itself is compared with the teacher in it: rows are copied, and room is made, by it. */
static void test_sizes_of_caches(void **state)
{
    (void)state;
    rt_err e = { 0 };
    rt_hash128 ids = { 0 };
    rt_cache_section hidden = { RT_KEEP_HIDDEN, 32, .T = 1, .dtype = RT_DTYPE_F32 };
    if (open_cache(make_cache("sound", &hidden, 1, NULL), &ids, &e) < 0) fail_msg("%s", e.text);
    hidden.n = 48;
    assert_int_equal(open_cache(make_cache("wide", &hidden, 1, NULL), &ids, &e), RT_FORMAT);
    assert_non_null(strstr(e.text, "hidden states of 48 numbers"));
    for (int i = 0; i < 2; i++) {
        uint32_t n = i ? 4000 : 64;
        const rt_cache_section lists[2] = { { RT_KEEP_TOPK, n, .T = 1 }, { RT_KEEP_TOPK, n, .T = 1, .target = true } };
        const char *path = make_cache(i ? "long" : "lists", lists, 2, rt_hash_to_json(ids));
        assert_int_equal(open_cache(path, &ids, &e), i ? RT_FORMAT : RT_OK);
    }
    assert_non_null(strstr(e.text, "lists 4000 ids"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_facts_over_shards, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_counts_over_sources, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_eval_data, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_eval_weights, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_name_that_json_cannot_hold, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_template_variables, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_stats_of_sources, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_little_data, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_caches_of_others, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_sizes_of_caches, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
