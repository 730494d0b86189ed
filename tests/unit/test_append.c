/* test_append.c - files that grow: kept lengths, what is lost is said and not made up, what cannot be written. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/append.h"
#include "base/file.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static char folder[64], path[100];

static int set_up(void **state)
{
    (void)state;
    snprintf(folder, sizeof folder, "/tmp/retort-test-append-XXXXXX");
    if (!mkdtemp(folder)) return -1;
    snprintf(path, sizeof path, "%s/log", folder);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    rt_dir_remove(folder);
    return 0;
}

static void expect_text(const char *want)
{
    rt_str s = { 0 };
    assert_int_equal(rt_file_read(path, 1000, &s, NULL), RT_OK);
    assert_int_equal(s.len, strlen(want));
    assert_memory_equal(s.data ? s.data : "", want, s.len);
    rt_str_free(&s);
}

static void test_grows(void **state)
{
    (void)state;
    rt_append f = { 0 };
    rt_err e = { 0 };
    assert_int_equal(rt_append_sync(&f, &e), RT_OK); /* not open */
    rt_append_close(&f);
    assert_int_equal(rt_append_open(&f, path, 0, &e), RT_OK);
    assert_int_equal(rt_append_put(&f, "one\n", 4, &e), RT_OK);
    assert_int_equal(rt_append_put(&f, "two\n", 4, &e), RT_OK);
    assert_int_equal(rt_append_sync(&f, &e), RT_OK);
    rt_append_close(&f);
    expect_text("one\ntwo\n");
    assert_int_equal(rt_append_open(&f, path, 4, &e), RT_OK); /* the rest goes */
    assert_int_equal(rt_append_put(&f, "2\n", 2, &e), RT_OK);
    rt_append_close(&f);
    expect_text("one\n2\n");
    assert_int_equal(rt_append_open(&f, path, 6, &e), RT_OK);
    rt_append_close(&f);
    expect_text("one\n2\n");
}

/* A file that has lost its end is left as it is; it used to be filled up with zeros. */
static void test_lost_end(void **state)
{
    (void)state;
    rt_append f;
    rt_err e = { 0 };
    assert_int_equal(rt_file_write(path, "one\n", 4, &e), RT_OK);
    assert_int_equal(rt_append_open(&f, path, 5, &e), RT_FORMAT);
    assert_null(f.path);
    if (!strstr(e.text, "has 4 bytes, and had 5: it was truncated")) fail_msg("%s", e.text);
    expect_text("one\n");
}

/* One writer: a second one hears of it, whatever came into the file; the first lets go when it closes. */
static void test_alone(void **state)
{
    (void)state;
    rt_append f, g;
    rt_err e = { 0 };
    assert_int_equal(rt_append_open_alone(&f, path, &e), RT_OK);
    assert_int_equal(rt_append_put(&f, "one\n", 4, &e), RT_OK);
    assert_int_equal(rt_append_open_alone(&g, path, &e), RT_INVALID);
    if (!strstr(e.text, "another process is writing")) fail_msg("%s", e.text);
    expect_text("one\n");
    rt_append_drop(&f);
    expect_text("one\n"); /* it is not empty */
    assert_int_equal(rt_append_open_alone(&g, path, &e), RT_OK);
    expect_text("one\n"); /* nothing is cut off by opening */
    assert_int_equal(rt_append_cut(&g, 5, &e), RT_FORMAT);
    assert_int_equal(rt_append_cut(&g, 2, &e), RT_OK);
    expect_text("on");
    rt_append_close(&g);
    assert_int_equal(rt_append_open_alone(&g, folder, &e), RT_IO);
    assert_int_equal(rt_append_open_alone(&g, "/dev/null", &e), RT_INVALID);
}

/* An empty file goes with the one that made it, and with nobody else. */
static void test_dropped(void **state)
{
    (void)state;
    rt_append f, g;
    rt_err e = { 0 };
    assert_int_equal(rt_append_open_alone(&f, path, &e), RT_OK);
    rt_append_drop(&f);
    assert_false(rt_path_exists(path));
    assert_int_equal(rt_file_write(path, "", 0, &e), RT_OK);
    assert_int_equal(rt_append_open_alone(&f, path, &e), RT_OK);
    rt_append_drop(&f);
    assert_true(rt_path_exists(path));
    unlink(path);
    assert_int_equal(rt_append_open_alone(&f, path, &e), RT_OK);
    unlink(path); /* another takes the name */
    assert_int_equal(rt_append_open_alone(&g, path, &e), RT_OK);
    rt_append_drop(&f);
    assert_true(rt_path_exists(path));
    rt_append_drop(&g);
    rt_append_drop(&g); /* not open */
}

/* Of a file that has lost its name nothing more can be kept. */
static void test_held(void **state)
{
    (void)state;
    rt_append f;
    rt_err e = { 0 };
    assert_int_equal(rt_append_open_alone(&f, path, &e), RT_OK);
    assert_int_equal(rt_append_put(&f, "one\n", 4, &e), RT_OK);
    assert_int_equal(rt_append_held(&f, &e), RT_OK);
    unlink(path);
    assert_int_equal(rt_append_held(&f, &e), RT_INVALID);
    assert_non_null(strstr(e.text, "was removed, moved or replaced"));
    assert_int_equal(rt_file_write(path, "two\n", 4, &e), RT_OK);
    assert_int_equal(rt_append_held(&f, &e), RT_INVALID);
    rt_append_drop(&f);
    expect_text("two\n");
}

static void test_faults(void **state)
{
    (void)state;
    rt_append f;
    rt_err e = { 0 };
    assert_int_equal(rt_append_open(&f, "/nonexistent/log", 0, &e), RT_NOT_FOUND);
    if (!strstr(e.text, "cannot write /nonexistent/log: ") || !strstr(e.text, "; create the folder first"))
        fail_msg("%s", e.text);
    assert_int_equal(rt_append_open(&f, folder, 0, &e), RT_IO);
    if (access("/dev/full", W_OK) != 0) return;
    f = (rt_append){ .path = "/dev/full" };
    FILE *full = fopen("/dev/full", "w");
    f.fd = fileno(full);
    assert_int_equal(rt_append_put(&f, "x", 1, &e), RT_IO);
    if (!strstr(e.text, "No space left")) fail_msg("%s", e.text);
    fclose(full);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_grows, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_lost_end, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_alone, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_dropped, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_held, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_faults, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
