/* test_inputs.c - what a run reads: several sources counted together, lengths, template variables, padding, and the
 * index that lets a resumed run do without the text. */
#include "job/prepare/inputs.h"
#include "train_case.h"

typedef struct opened {
    rt_pool *pool;
    rt_settings settings;
    rt_inputs *in;
    rt_run_facts facts;
    char folder[512];
} opened;

static void set(opened *o, rt_setting_id id, const char *text)
{
    rt_err e = { 0 };
    if (rt_settings_set(&o->settings, id, text, &e) < 0) fail_msg("%s", e.text);
}

/* Records of `count` bytes each; the byte tokenizer adds the end of the text. */
static void put_texts(const char *name, uint32_t records, uint32_t bytes, uint32_t odd)
{
    rt_str s = { 0 };
    for (uint32_t i = 0; i < records; i++) {
        rt_str_append(&s, "{\"text\": \"");
        for (uint32_t k = 0; k < bytes; k++) rt_str_printf(&s, "%c", 'a' + (int)((i * odd + k * k) % 26));
        rt_str_append(&s, "\"}\n");
    }
    put_file(name, s.data, s.len);
    rt_str_free(&s);
}

static void open_settings(opened *o, const char *first, const char *second)
{
    rt_err e = { 0 };
    memset(o, 0, sizeof *o);
    assert_int_equal(rt_settings_defaults(&o->settings, &e), RT_OK);
    set(o, RT_SETTING_ID_student, strdup(in_dir("model")));
    set(o, RT_SETTING_ID_data, strdup(in_dir(first)));
    if (second) set(o, RT_SETTING_ID_data, strdup(in_dir(second)));
    assert_int_equal(rt_pool_new(&o->pool, 2, &e), RT_OK);
    snprintf(o->folder, sizeof o->folder, "%s", in_dir("tokens"));
    assert_int_equal(rt_dir_make(o->folder, &e), RT_OK);
}

static void open_inputs(opened *o)
{
    rt_err e = { 0 };
    rt_inputs_opts io = { .env = &(rt_hub_env){ 0 }, .pool = o->pool, .folder = o->folder };
    if (rt_inputs_open(&o->in, &o->settings, &io, &e) < 0 || rt_inputs_data(o->in, &o->settings, &io, &e) < 0 ||
        rt_inputs_facts(o->in, &o->facts, &e) < 0)
        fail_msg("%s", e.text);
}

static void close_inputs(opened *o)
{
    rt_inputs_close(o->in);
    rt_pool_free(o->pool);
    free((void *)(uintptr_t)o->settings.student);
    for (uint32_t i = 0; i < o->settings.data.count; i++) free((void *)(uintptr_t)o->settings.data.text[i]);
    rt_dir_remove(o->folder);
}

/* 60 records of 10 tokens and 40 of 50: every count is the sum of both sources. */
static void test_two_sources(void **state)
{
    (void)state;
    opened o;
    put_texts("short.jsonl", 60, 9, 7);
    put_texts("long.jsonl", 40, 49, 5);
    open_settings(&o, "short.jsonl", "long.jsonl");
    open_inputs(&o);
    const rt_tokenize_stats *s = &o.in->stats;
    assert_int_equal(o.facts.records, 100);
    assert_int_equal(s->records, 100);
    assert_int_equal(s->kinds[RT_RECORD_TEXT], 100);
    assert_int_equal(s->tokens, 60 * 10 + 40 * 50);
    assert_int_equal(s->trained, 60 * 9 + 40 * 49);
    assert_true(s->bytes >= 60 * 9 + 40 * 49);
    assert_int_equal(s->bad, 0);
    assert_int_equal(s->no_target, 0);
    assert_int_equal(o.facts.length99, 50);
    assert_int_equal(o.in->train_count, 2);
    assert_int_equal(o.in->train_sources[0].count, 1);
    close_inputs(&o);
}

/* A completion without a token is counted, not lost; both sources' are. */
static void test_without_targets(void **state)
{
    (void)state;
    opened o;
    const char *empty = "{\"prompt\": \"abc\", \"completion\": \"\"}\n", *full = "{\"text\": \"abcdefgh\"}\n";
    char text[512];
    snprintf(text, sizeof text, "%s%s%s", full, empty, full);
    put_text("a.jsonl", text);
    put_text("b.jsonl", text);
    open_settings(&o, "a.jsonl", "b.jsonl");
    open_inputs(&o);
    uint64_t kept = o.in->stats.kinds[RT_RECORD_COMPLETION];
    assert_int_equal(o.in->stats.records, 6);
    assert_int_equal(kept, 2);
    assert_int_equal(o.in->stats.kinds[RT_RECORD_TEXT], 4);
    close_inputs(&o);
}

static void test_template_vars(void **state)
{
    (void)state;
    opened o;
    put_texts("short.jsonl", 30, 9, 7);
    open_settings(&o, "short.jsonl", NULL);
    set(&o, RT_SETTING_ID_template_var, "enable_thinking=false");
    set(&o, RT_SETTING_ID_template_var, "depth=12");
    set(&o, RT_SETTING_ID_template_var, "mode=plain words");
    open_inputs(&o);
    const json_t *v = o.in->template_vars;
    assert_int_equal(json_object_size(v), 3);
    assert_true(json_is_false(json_object_get(v, "enable_thinking")));
    assert_int_equal(json_integer_value(json_object_get(v, "depth")), 12);
    assert_string_equal(json_string_value(json_object_get(v, "mode")), "plain words");
    close_inputs(&o);
}

/* Rows are filled up with the tokenizer's padding, 256 here; the held-out part is not trained on. */
static void test_rows(void **state)
{
    (void)state;
    opened o;
    rt_err e = { 0 };
    int32_t ids[32], target[32], start[32], pos[32];
    rt_row row = { .ids = ids, .target = target, .start = start, .pos = pos };
    rt_resolved r = { .seq_len = 32, .held_out = 0.2 };
    put_texts("short.jsonl", 50, 20, 7);
    open_settings(&o, "short.jsonl", NULL);
    open_inputs(&o);
    if (rt_inputs_rows(o.in, &o.settings, &r, &o.facts, &e) < 0) fail_msg("%s", e.text);
    assert_true(o.in->counted.held > 0 && o.in->counted.held < 30);
    /* Two records do not fit into a row; copies of what is held out are on neither side. */
    assert_int_equal(o.facts.rows_per_epoch, 50 - o.in->counted.held - o.in->counted.copies);
    assert_int_equal(rt_rows_next(o.in->train, &row, &e), 1);
    assert_int_equal(row.tokens, 21);
    for (uint32_t i = 21; i < 32; i++) assert_true(ids[i] == 256 && target[i] == -1);
    uint64_t held = 0;
    while (rt_rows_next(o.in->held, &row, &e) == 1) held += row.doc_count;
    assert_int_equal(held, o.in->counted.held);
    close_inputs(&o);
}

/* The second time the tokens are there, and the text need not be. */
static void test_without_text(void **state)
{
    (void)state;
    opened o, again;
    put_texts("gone.jsonl", 40, 12, 3);
    open_settings(&o, "gone.jsonl", NULL);
    open_inputs(&o);
    assert_int_equal(unlink(in_dir("gone.jsonl")), 0);
    rt_inputs_close(o.in);
    open_settings(&again, "gone.jsonl", NULL);
    open_inputs(&again);
    assert_int_equal(again.facts.records, 40);
    assert_int_equal(again.in->stats.records, 0); /* nothing was tokenized now */
    close_inputs(&again);
    o.in = NULL;
    close_inputs(&o);
}

static int set_up(void **state)
{
    int rc = make_test_dir(state);
    rt_model_config c = tiny_config("tiny-qwen2", 3);
    write_model(in_dir("model"), &c, RT_DTYPE_F32, false);
    return rc;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_two_sources),   cmocka_unit_test(test_without_targets),
        cmocka_unit_test(test_template_vars), cmocka_unit_test(test_rows),
        cmocka_unit_test(test_without_text),
    };
    return cmocka_run_group_tests(tests, set_up, remove_test_dir);
}
