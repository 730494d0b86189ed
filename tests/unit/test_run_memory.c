/* test_run_memory.c - memory that ends while a run is opened, looked at before it starts, or followed by its control.
 */
#include "train_case.h"

#include "job/preview.h"
#include "job/run/run_internal.h"

typedef struct opened {
    rt_settings settings;
    rt_hub_env env;
    rt_run_opts opts;
    rt_dev *dev;
    rt_run *run;
} opened;

/* Paths that live as long as the settings that point to them. */
static const char *path_of(int i, const char *name)
{
    static char paths[3][600];
    snprintf(paths[i], sizeof paths[i], "%s/%s", test_dir, name);
    return paths[i];
}

static int open_run(opened *o, rt_err *e)
{
    int rc;
    rt_settings *s = &o->settings;
    const rt_backend *b;
    nftw(in_dir("out"), remove_entry, 8, FTW_DEPTH | FTW_PHYS);
    *s = (rt_settings){ 0 };
    RT_TRY(rt_backend_find("cpu", &b, e));
    RT_TRY(b->open(&o->dev, 0, &RT_DEV_OPTIONS({ "threads", "1" }), e));
    RT_TRY(rt_settings_set(s, RT_SETTING_ID_student, path_of(0, "s"), e));
    RT_TRY(rt_settings_set(s, RT_SETTING_ID_data, path_of(1, "d.rtok"), e));
    RT_TRY(rt_settings_set(s, RT_SETTING_ID_out, path_of(2, "out"), e));
    RT_TRY(rt_settings_set(s, RT_SETTING_ID_vocab, "272", e));
    RT_TRY(rt_settings_set(s, RT_SETTING_ID_threads, "1", e));
    RT_TRY(rt_settings_set(s, RT_SETTING_ID_steps, "2", e));
    RT_TRY(rt_settings_set(s, RT_SETTING_ID_batch, "2", e));
    RT_TRY(rt_settings_set(s, RT_SETTING_ID_seq_len, "16", e));
    RT_TRY(rt_settings_set(s, RT_SETTING_ID_held_out, "40%", e));
    o->opts = (rt_run_opts){ .env = &o->env, .dev = o->dev };
    RT_TRY(rt_run_open(&o->run, s, &o->opts, e));
out:
    return rc;
}

static void close_run(opened *o)
{
    rt_run_close(o->run);
    if (o->dev) o->dev->api->close(o->dev);
}

static int make_inputs(void **state)
{
    uint32_t lengths[20];
    if (make_test_dir(state) != 0) return -1;
    rt_model_config c = tiny_config("tiny-qwen2", 1);
    c.layers = 1;
    for (int i = 0; i < 20; i++) lengths[i] = 12 + (uint32_t)i;
    write_model(in_dir("s"), &c, RT_DTYPE_F32, true);
    write_shard(in_dir("d.rtok"), lengths, 20, 272);
    return 0;
}

static int open_and_close(void *ctx, rt_err *e)
{
    static opened o;
    (void)ctx;
    o = (opened){ 0 };
    int rc = open_run(&o, e);
    close_run(&o);
    return rc;
}

static void no_memory_at_open(void **state)
{
    (void)state;
    fail_every(7, open_and_close, NULL, 0); /* each turn waits for the disk */
}

static int look_at(void *ctx, rt_err *e)
{
    const opened *o = ctx;
    rt_preview *p = NULL;
    int rc = rt_preview_new(&p, o->run, e);
    rt_preview_free(p);
    return rc;
}

static void no_memory_for_the_preview(void **state)
{
    (void)state;
    static opened o;
    rt_err e = { 0 };
    if (open_run(&o, &e) < 0 || look_at(&o, &e) < 0) fail_msg("%s", e.text); /* the run keeps the shard that it read */
    fail_each(look_at, &o, 0);
    close_run(&o);
}

/* Whatever a control asks for is not there; each turn leaves less of what the run has put by. */
static void no_memory_for_the_control(void **state)
{
    (void)state;
    static opened o;
    const rt_allocator failing = { failing_alloc, failing_free, NULL };
    rt_run_summary summary;
    rt_err e = { 0 };
    rt_allocator_set(&failing);
    allowed = -1;
    if (open_run(&o, &e) < 0) fail_msg("%s", e.text);
    for (int i = 0; i < 100; i++) {
        e = (rt_err){ 0 };
        allowed = 0;
        int rc = rt_run_train_control(o.run, &summary, &e);
        allowed = -1;
        assert_int_equal(rc, RT_NOMEM);
        assert_true(e.text[0]);
    }
    close_run(&o);
    rt_allocator_set(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(no_memory_at_open),
        cmocka_unit_test(no_memory_for_the_preview),
        cmocka_unit_test(no_memory_for_the_control),
    };
    return cmocka_run_group_tests(tests, make_inputs, remove_test_dir);
}
