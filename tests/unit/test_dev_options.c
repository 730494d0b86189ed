/* test_dev_options.c - what a user says about a device: options into a backend's own struct, what is refused and by
 * whom, the environment as a list, and settings as options. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "backend/backend.h"
#include "base/mem.h"
#include "job/device.h"

#include <string.h>

typedef struct own {
    const char *file;
    uint32_t count, colour;
    bool fast;
} own;

static const char *const colours[] = { "auto", "red", "green", NULL };
static const rt_dev_option_info table[] = {
    { "--file", RT_DEV_OPTION_TEXT, offsetof(own, file), NULL, "F", "a file" },
    { "--count", RT_DEV_OPTION_COUNT, offsetof(own, count), NULL, "N", "a count" },
    { "--fast", RT_DEV_OPTION_SWITCH, offsetof(own, fast), NULL, NULL, "a switch" },
    { "--colour", RT_DEV_OPTION_CHOICE, offsetof(own, colour), colours, "C", "a colour" },
    { 0 },
};

static void values_go_into_the_backends_own_struct(void **state)
{
    own o = { 0 };
    rt_err e = { 0 };
    (void)state;
    assert_int_equal(rt_dev_options_read(&o, table, NULL, &e), RT_OK);
    assert_int_equal(rt_dev_options_read(&o, table, &(rt_dev_opts){ 0 }, &e), RT_OK);
    assert_true(!o.file && !o.count && !o.fast && !o.colour);
    const rt_dev_opts given = RT_DEV_OPTIONS({ "file", "x" }, { "count", "7" }, { "fast", "on" }, { "colour", "green" },
                                             { "another backend's", "nonsense" });
    assert_int_equal(rt_dev_options_read(&o, table, &given, &e), RT_OK);
    assert_string_equal(o.file, "x");
    assert_int_equal(o.count, 7);
    assert_true(o.fast);
    assert_int_equal(o.colour, 2);
    assert_int_equal(rt_dev_options_read(NULL, table, &given, &e), RT_OK);
    assert_int_equal(rt_dev_options_read(NULL, NULL, &given, &e), RT_OK); /* a backend that takes none */
    /* the last one counts, and null is none */
    const rt_dev_opts twice = RT_DEV_OPTIONS({ "count", "1" }, { "count", "2" }, { "count", NULL });
    o = (own){ 0 };
    assert_int_equal(rt_dev_options_read(&o, table, &twice, &e), RT_OK);
    assert_int_equal(o.count, 2);
    const rt_dev_opts off = RT_DEV_OPTIONS({ "fast", "on" }, { "fast", "off" });
    assert_int_equal(rt_dev_options_read(&o, table, &off, &e), RT_OK);
    assert_false(o.fast);
}

static void wrong(const char *name, const char *value, const char *says)
{
    own o = { 0 };
    rt_err e = { 0 };
    assert_int_equal(rt_dev_options_read(&o, table, &RT_DEV_OPTIONS({ name, value }), &e), RT_USAGE);
    assert_string_equal(e.text, says);
    assert_int_equal(rt_dev_options_read(NULL, table, &RT_DEV_OPTIONS({ name, value }), NULL), RT_USAGE);
}

static void wrong_values_are_told_with_the_flag_and_what_it_takes(void **state)
{
    (void)state;
    wrong("colour", "blue", "--colour blue: it is auto, red or green");
    wrong("colour", "", "--colour : it is auto, red or green");
    wrong("fast", "yes", "--fast is on or off, not 'yes'");
    wrong("count", "-1", "--count takes a whole number, not '-1'");
    wrong("count", "", "--count takes a whole number, not ''");
    wrong("count", "3x", "--count takes a whole number, not '3x'");
    wrong("count", "4294967296", "--count takes a whole number, not '4294967296'");
}

/* By the registry: whichever backend is opened, all that was said has to be right. */
static void refused(const rt_dev_opts *o, const char *says)
{
    rt_dev *d = NULL;
    rt_err e = { 0 };
    assert_int_equal(rt_device_open(&d, "cpu", o, NULL, &e), RT_USAGE);
    assert_null(d);
    if (!strstr(e.text, says)) fail_msg("'%s' is not in: %s", says, e.text);
}

static void the_registry_refuses_what_no_backend_takes(void **state)
{
    rt_dev *d = NULL;
    rt_err e = { 0 };
    (void)state;
    refused(&RT_DEV_OPTIONS({ "thread", "1" }), "no backend takes an option 'thread'; there are: ");
    refused(&RT_DEV_OPTIONS({ "thread", "1" }), "cpu: threads isa");
    refused(&RT_DEV_OPTIONS({ "threads", "1" }, { "device-memory", "foo" }),
            "--device-memory foo: it is auto, device or managed");
    refused(&RT_DEV_OPTIONS({ "threads", "many" }), "--threads takes a whole number, not 'many'");
    const rt_dev_opts others =
        RT_DEV_OPTIONS({ "threads", "1" }, { "isa", "generic" }, { "kernels", "fast" }, { "sync", "on" });
    if (rt_device_open(&d, "cpu", &others, NULL, &e) < 0) fail_msg("%s", e.text);
    rt_dev_info info;
    assert_int_equal(d->api->info(d, &info, &e), RT_OK);
    assert_non_null(strstr(info.name, ", 1 thread, generic"));
    d->api->close(d);
}

static void every_table_is_whole(void **state)
{
    uint32_t rows = 0;
    (void)state;
    for (const rt_backend *const *b = rt_backends(); *b; b++)
        for (const rt_dev_option_info *f = (*b)->options; f && f->flag; f++, rows++) {
            assert_memory_equal(f->flag, "--", 2);
            assert_true(f->help && f->help[0]);
            assert_int_equal(f->metavar == NULL, f->kind == RT_DEV_OPTION_SWITCH);
            assert_int_equal(f->values != NULL, f->kind == RT_DEV_OPTION_CHOICE);
            assert_ptr_equal(rt_dev_option_find((*b)->options, f->flag + 2), f);
            assert_non_null(rt_backend_option(f->flag + 2));
        }
    assert_true(rows >= 7);
    assert_null(rt_backend_option("teacher"));
}

static void variables_are_found_by_their_whole_names(void **state)
{
    static const char *const env[] = { "HOMER=1", "HOME=/a=b", "HOME=/c", "EMPTY=", "NOTHING", NULL };
    (void)state;
    assert_string_equal(rt_dev_env(env, "HOME"), "/a=b");
    assert_string_equal(rt_dev_env(env, "EMPTY"), "");
    assert_null(rt_dev_env(env, "HOM"));
    assert_null(rt_dev_env(env, "NOTHING"));
    assert_null(rt_dev_env(NULL, "HOME"));
}

/* ---- settings ---- */

static const char *value_in(const rt_dev_opts *o, const char *name)
{
    for (uint32_t i = 0; i < o->count; i++)
        if (strcmp(o->option[i].name, name) == 0) return o->option[i].value;
    return NULL;
}

static void settings_become_options(void **state)
{
    static const char *const given[][3] = { { "device_memory", "device-memory", "managed" },
                                            { "kernels", "kernels", "ptx75" },
                                            { "cublaslt", "cublaslt", "none" },
                                            { "tune", "tune", "on" },
                                            { "sync", "sync", "off" },
                                            { "threads", "threads", "3" } };
    const size_t n = sizeof given / sizeof *given;
    static rt_settings s;
    rt_arena a = { 0 };
    rt_dev_opts o;
    rt_err e = { 0 };
    (void)state;
    assert_int_equal(rt_settings_device(&o, &s, &a, &e), RT_OK);
    assert_int_equal(o.count, 0); /* nothing given */
    assert_int_equal(rt_settings_set(&s, rt_setting_find("student"), "x", &e), RT_OK);
    for (size_t i = 0; i < n; i++)
        assert_int_equal(rt_settings_set(&s, rt_setting_find(given[i][0]), given[i][2], &e), RT_OK);
    assert_int_equal(rt_settings_device(&o, &s, &a, &e), RT_OK);
    assert_int_equal(o.count, n);
    for (size_t i = 0; i < n; i++) {
        assert_non_null(value_in(&o, given[i][1]));
        assert_string_equal(value_in(&o, given[i][1]), given[i][2]);
    }
    assert_int_equal(rt_settings_set(&s, rt_setting_find("threads"), "4097", &e), RT_OK);
    assert_int_equal(rt_settings_device(&o, &s, &a, &e), RT_USAGE);
    assert_string_equal(e.text, "--threads 4097 is out of range (0 to 4096; 0 takes all)");
    rt_arena_free(&a);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(values_go_into_the_backends_own_struct),
        cmocka_unit_test(wrong_values_are_told_with_the_flag_and_what_it_takes),
        cmocka_unit_test(the_registry_refuses_what_no_backend_takes),
        cmocka_unit_test(every_table_is_whole),
        cmocka_unit_test(variables_are_found_by_their_whole_names),
        cmocka_unit_test(settings_become_options),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
