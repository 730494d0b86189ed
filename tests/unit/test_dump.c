/* test_dump.c - preview and dump of a run when memory ends: every allocation fails in turn, nothing leaks, no folder is
 * left half-written, the run is where it was, and what is made afterwards is what was made before. */
#include "train_case.h"

#include "base/json.h"
#include "job/preview.h"
#include "job/run/dump.h"
#include "job/run/run_internal.h"

static rt_dev *dev;
static rt_settings settings;
static rt_run *run;

static void set(const char *name, const char *value)
{
    rt_err e = { 0 };
    if (rt_settings_set(&settings, rt_setting_find(name), value, &e) < 0) fail_msg("%s", e.text);
}

/* A run of two steps that has been trained: rows and gradients of the second are in memory. */
static void open_run(void)
{
    static const rt_hub_env none;
    static rt_run_opts o = { .env = &none };
    static char teacher[512], student[512], data[512], out[512];
    const char *const names[] = { "teacher", "student", "data", "out" };
    char *const paths[] = { teacher, student, data, out };
    rt_err e = { 0 };
    rt_run_summary summary;
    for (int i = 0; i < 4; i++) {
        snprintf(paths[i], 512, "%s", in_dir(names[i]));
        set(names[i], paths[i]);
    }
    set("steps", "2");
    set("batch", "2");
    set("seq_len", "16");
    set("threads", "1");
    set("dump_step", "1");
    o.dev = dev = open_device("cpu", 1);
    if (rt_run_open(&run, &settings, &o, &e) < 0) fail_msg("%s", e.text);
    if (rt_run_train(run, &summary, &e) < 0) fail_msg("%s", e.text);
}

static int set_up(void **state)
{
    rt_model_config c = tiny_config("tiny-qwen2", 1), d = tiny_config("tiny-llama", 2);
    const rt_allocator failing = { failing_alloc, failing_free, NULL };
    rt_str text = { 0 };
    if (make_test_dir(state) != 0) return -1;
    write_model(in_dir("student"), &c, RT_DTYPE_F32, false);
    write_model(in_dir("teacher"), &d, RT_DTYPE_F32, false);
    for (int i = 0; i < 40; i++) rt_str_printf(&text, "{\"text\": \"%03d-%03d-%05d\"}\n", i * 17, i * i % 997, i * 331);
    assert_int_equal(mkdir(in_dir("data"), 0777), 0);
    put_file("data/d.jsonl", text.data, text.len);
    rt_str_free(&text);
    rt_json_init();
    rt_allocator_set(&failing);
    open_run();
    return 0;
}

static int tear_down(void **state)
{
    rt_run_close(run);
    dev->api->close(dev);
    assert_int_equal(rt_alloc_live(), 0);
    rt_allocator_set(NULL);
    return remove_test_dir(state);
}

/* From `dense` on only some of them: they are those of equal numbers in one list. */
static void fail_in_turn(int (*work)(rt_err *e), uint64_t dense, void (*after)(void))
{
    rt_err e = { 0 };
    uint64_t before = rt_alloc_count();
    if (work(&e) < 0) fail_msg("%s", e.text);
    uint64_t total = rt_alloc_count() - before, live = rt_alloc_live();
    assert_true(total > 10);
    for (uint64_t i = 0; i < total; i += i < dense || total - i < 40 ? 1 : 29) {
        e = (rt_err){ 0 };
        allowed = (int64_t)i;
        int rc = work(&e);
        allowed = -1;
        if (rc != RT_NOMEM || !e.text[0])
            fail_msg("allocation %d of %d: status %d '%s'", (int)i, (int)total, rc, e.text);
        if (rt_alloc_live() != live) fail_msg("allocation %d of %d: leaked", (int)i, (int)total);
        after();
    }
}

/* ---- preview ---- */

static char first_sample[600];

static int preview(rt_err *e)
{
    rt_preview *p = NULL;
    int rc = rt_preview_new(&p, run, e);
    if (rc == RT_OK) {
        assert_true(p->sample_count == 2 && p->looked && p->overlap.texts > 0);
        snprintf(first_sample, sizeof first_sample, "%s|%s|%s", p->objective, p->samples[0].pieces[0].text,
                 p->samples[0].pieces[1].text);
    }
    rt_preview_free(p);
    return rc;
}

static void nothing(void) {}

static void test_preview(void **state)
{
    (void)state;
    char before[600];
    rt_err e = { 0 };
    run->loop.state.step = 0; /* of a run that goes on nothing is read */
    rt_cursor at = rt_rows_tell(run->in->train);
    assert_int_equal(preview(&e), RT_OK);
    memcpy(before, first_sample, sizeof before);
    fail_in_turn(preview, UINT64_MAX, nothing);
    assert_int_equal(rt_rows_seek(run->in->train, &at, &e), RT_OK);
    assert_int_equal(preview(&e), RT_OK);
    assert_string_equal(before, first_sample);
    rt_cursor now = rt_rows_tell(run->in->train);
    assert_true(now.row == at.row && now.rows == at.rows && now.draw == at.draw && now.epoch == at.epoch);
    run->loop.state.step = 2;
}

/* ---- dump ---- */

static int dump(rt_err *e)
{
    rt_dump *d = NULL;
    const rt_step_result result = { .loss = 1.5, .ce = 1.25, .trained = 3 };
    int rc = rt_dump_begin(&d, run, 1, e);
    if (rc == RT_OK) assert_non_null(d);
    if (rc == RT_OK) rc = rt_dump_end(d, 0.5, &result, e);
    rt_dump_free(d);
    return rc;
}

static void no_dump(void)
{
    rt_arena a = { 0 };
    char **names;
    uint32_t count;
    rt_err e = { 0 };
    assert_int_equal(rt_dir_list(&names, &count, &a, run->run, &e), RT_OK);
    for (uint32_t i = 0; i < count; i++) {
        if (strstr(names[i], "dump")) fail_msg("%s is left", names[i]);
    }
    rt_arena_free(&a);
}

static int dump_and_remove(rt_err *e)
{
    int rc = dump(e);
    if (rc == RT_OK) rt_dir_remove(in_dir("out/run/dump-000001"));
    return rc;
}

static void test_dump(void **state)
{
    (void)state;
    rt_err e = { 0 };
    rt_dump *d = NULL;
    rt_dir_remove(in_dir("out/run/dump-000001")); /* the run's own */
    fail_in_turn(dump_and_remove, 120, no_dump);
    assert_int_equal(dump(&e), RT_OK);
    assert_int_equal(dump(&e), RT_OK); /* in the place of the one that is there */
    assert_true(rt_path_exists(in_dir("out/run/dump-000001/step.json")));
    assert_int_equal(rt_dump_begin(&d, run, 2, &e), RT_OK); /* another step than the one that is wanted */
    assert_null(d);
    assert_int_equal(rt_dump_end(NULL, 0, NULL, &e), RT_OK);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(test_preview), cmocka_unit_test(test_dump) };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
