/* test_file_clean.c - what killed processes leave behind is removed, and nothing else is. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/file.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static char folder[64];
static rt_arena arena;

static int set_up(void **state)
{
    (void)state;
    snprintf(folder, sizeof folder, "/tmp/retort-test-clean-XXXXXX");
    return mkdtemp(folder) ? 0 : -1;
}

static int tear_down(void **state)
{
    (void)state;
    rt_dir_remove(folder);
    rt_arena_free(&arena);
    return 0;
}

/* The number of a process that is no more. */
static long dead(void)
{
    pid_t pid = fork();
    if (pid == 0) _exit(0);
    assert_true(pid > 0);
    assert_int_equal(waitpid(pid, NULL, 0), pid);
    return (long)pid;
}

static char *name_of(const char *format, long pid)
{
    char name[200];
    snprintf(name, sizeof name, format, pid); /* every format here takes one long, or none */
    return rt_path_join(&arena, folder, name);
}

static char *put_file(const char *format, long pid)
{
    char *path = name_of(format, pid);
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    fclose(f);
    return path;
}

static void leftovers_of_the_dead_go(void **state)
{
    (void)state;
    long gone = dead();
    char *file = put_file(".model.safetensors.tmp-%ld-0", gone), *own = put_file(".a.tmp-%ld-12", (long)getpid());
    char *dir = name_of(".checkpoint-000010.tmp-%ld-3", gone);
    char *twice = name_of("..checkpoint-000010.tmp-%ld-3.tmp-1-7", gone); /* the last number is that of process 1 */
    assert_int_equal(rt_dir_make(dir, NULL), RT_OK);
    assert_int_equal(rt_dir_make(twice, NULL), RT_OK);
    assert_int_equal(rt_file_write(rt_path_join(&arena, dir, "state.json"), "{}", 2, NULL), RT_OK);
    rt_dir_clean(folder);
    assert_false(rt_path_exists(file));
    assert_false(rt_path_exists(own));
    assert_false(rt_path_exists(dir));
    assert_true(rt_path_exists(twice));
}

static void everything_else_stays(void **state)
{
    (void)state;
    long gone = dead(), parent = (long)getppid();
    static const char *const formats[] = { "model.tmp-%ld-0",   ".model.tmp-%ld",    ".model.tmp-%ld-",
                                           ".model.tmp-%ld-x",  ".model.tmp-%ld-0x", ".model.tmp--%ld-0",
                                           ".model.tmp-x%ld-0", ".model.%ld-0",      ".model.tmp-0%.0ld-0" };
    char *kept[sizeof formats / sizeof *formats];
    for (size_t i = 0; i < sizeof formats / sizeof *formats; i++)
        kept[i] = put_file(formats[i], i + 1 < sizeof formats / sizeof *formats ? gone : 0);
    char *living = put_file(".model.tmp-%ld-0", parent);
    rt_dir_clean(folder);
    for (size_t i = 0; i < sizeof formats / sizeof *formats; i++) assert_true(rt_path_exists(kept[i]));
    assert_true(rt_path_exists(living));
}

static void a_link_is_not_followed(void **state)
{
    (void)state;
    char *target = put_file("precious", 0), *link = name_of(".model.tmp-%ld-0", dead());
    assert_int_equal(symlink(target, link), 0);
    rt_dir_clean(folder);
    assert_false(rt_path_exists(link));
    assert_true(rt_path_exists(target));
    rt_dir_clean("/nonexistent/folder");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(leftovers_of_the_dead_go, set_up, tear_down),
        cmocka_unit_test_setup_teardown(everything_else_stays, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_link_is_not_followed, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
