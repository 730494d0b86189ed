/* test_file_clean.c - temporary names of ours are removed, whatever process made them, and nothing else is. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/file.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
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

/* The number says nothing: it may be that of a process on another host, or of one that came later. */
static void ours_go(void **state)
{
    (void)state;
    char *file = put_file(".model.safetensors.retort-tmp-%ld-0", 4711),
         *own = put_file(".a.retort-tmp-%ld-12", (long)getpid());
    char *living = put_file(".model.retort-tmp-%ld-0", (long)getppid());
    char *dir = name_of(".checkpoint-000010.retort-tmp-%ld-3", 4711);
    char *twice = name_of("..checkpoint-000010.retort-tmp-%ld-3.retort-tmp-1-7", 4711);
    assert_int_equal(rt_dir_make(dir, NULL), RT_OK);
    assert_int_equal(rt_dir_make(twice, NULL), RT_OK);
    assert_int_equal(rt_file_write(rt_path_join(&arena, dir, "state.json"), "{}", 2, NULL), RT_OK);
    rt_dir_clean(folder);
    assert_false(rt_path_exists(file));
    assert_false(rt_path_exists(own));
    assert_false(rt_path_exists(living));
    assert_false(rt_path_exists(dir));
    assert_false(rt_path_exists(twice));
}

static void everything_else_stays(void **state)
{
    (void)state;
    static const char *const formats[] = {
        "model.retort-tmp-%ld-0",    ".model.retort-tmp-%ld",
        ".model.retort-tmp-%ld-",    ".model.retort-tmp-%ld-x",
        ".model.retort-tmp-%ld-0x",  ".model.retort-tmp--%ld-0",
        ".model.retort-tmp-x%ld-0",  ".model.%ld-0",
        ".x.retort-tmp-%ld-0.saved", ".x.tmp-%ld-1",
    };
    char *kept[sizeof formats / sizeof *formats];
    for (size_t i = 0; i < sizeof formats / sizeof *formats; i++) kept[i] = put_file(formats[i], 4711);
    rt_dir_clean(folder);
    for (size_t i = 0; i < sizeof formats / sizeof *formats; i++) assert_true(rt_path_exists(kept[i]));
}

static void a_link_is_not_followed(void **state)
{
    (void)state;
    char *target = put_file("precious", 0), *link = name_of(".model.retort-tmp-%ld-0", 4711L);
    assert_int_equal(symlink(target, link), 0);
    rt_dir_clean(folder);
    assert_false(rt_path_exists(link));
    assert_true(rt_path_exists(target));
    rt_dir_clean("/nonexistent/folder");
}

static char *put_scratch(const char *format, long number, time_t age)
{
    char *path = name_of(format, number), *inner = rt_path_join(&arena, path, "run/data");
    const struct timespec times[2] = { { .tv_sec = time(NULL) - age }, { .tv_sec = time(NULL) - age } };
    assert_int_equal(rt_dir_make(inner, NULL), RT_OK);
    assert_int_equal(rt_file_write(rt_path_join(&arena, inner, "train-00.tokens"), "x", 1, NULL), RT_OK);
    assert_int_equal(utimensat(AT_FDCWD, path, times, 0), 0);
    return path;
}

/* A killed process's scratch folder goes with the next of its name; that of a living one does not, nor a young one. */
static void scratch_of_the_killed_goes(void **state)
{
    (void)state;
    char *left = put_scratch(".retort-x.retort-tmp-%ld-0", 4711, 1000);
    char *young = put_scratch(".retort-x.retort-tmp-%ld-0", 4712, 0);
    char *living = put_scratch(".retort-x.retort-tmp-%ld-0", 4713, 1000);
    char *other = put_scratch(".retort-y.retort-tmp-%ld-0", 4714, 1000);
    char *longer = put_scratch(".retort-x.old.retort-tmp-%ld-0", 4715, 1000);
    char *plain = put_scratch("retort-x.%ld", 4716, 1000);
    char *link = name_of(".retort-x.retort-tmp-%ld-0", 4717L), *mine, *next;
    int fd = open(living, O_RDONLY | O_DIRECTORY);
    assert_int_equal(symlink(plain, link), 0);
    assert_int_equal(flock(fd, LOCK_EX), 0);
    assert_int_equal(rt_dir_scratch(&mine, &arena, folder, "retort-x", NULL), RT_OK);
    assert_false(rt_path_exists(left));
    assert_true(rt_path_exists(young) && rt_path_exists(living) && rt_path_exists(other) && rt_path_exists(longer));
    assert_true(rt_path_exists(rt_path_join(&arena, plain, "run/data/train-00.tokens")));
    /* One's own is locked until it is removed. */
    const struct timespec old[2] = { { .tv_sec = 1 }, { .tv_sec = 1 } };
    assert_int_equal(utimensat(AT_FDCWD, mine, old, 0), 0);
    assert_int_equal(rt_dir_scratch(&next, &arena, folder, "retort-x", NULL), RT_OK);
    assert_true(rt_path_exists(mine));
    rt_dir_remove(mine);
    rt_dir_remove(next);
    assert_false(rt_path_exists(mine) || rt_path_exists(next));
    close(fd);
    assert_int_equal(rt_dir_scratch(&mine, &arena, folder, "retort-x", NULL), RT_OK);
    assert_false(rt_path_exists(living));
    rt_dir_remove(mine);
    char *const all[] = { young, other, longer, plain };
    for (int i = 0; i < 4; i++) rt_dir_remove(rt_path_join(&arena, all[i], "run"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(ours_go, set_up, tear_down),
        cmocka_unit_test_setup_teardown(everything_else_stays, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_link_is_not_followed, set_up, tear_down),
        cmocka_unit_test_setup_teardown(scratch_of_the_killed_goes, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
