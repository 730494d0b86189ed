/* test_run_places.c - where a run's checkpoints and its control lie: below OUT/run, or in OUT for a run that has them
 * there already. */
#include "format_case.h"

#include "format/run_places.h"

#include <sys/stat.h>

static rt_arena arena;

static void make(const char *name)
{
    rt_err e = { 0 };
    if (rt_dir_make(in_dir(name), &e) < 0) fail_msg("%s", e.text);
}

/* Paths from OUT on. */
static void assert_checkpoints(const char *out, const char *want)
{
    char folder[512];
    snprintf(folder, sizeof folder, "%s", in_dir(out));
    assert_string_equal(rt_checkpoints_of(&arena, folder), *want ? rt_path_join(&arena, folder, want) : folder);
}

static void assert_newest(const char *out, const char *want)
{
    rt_err e = { 0 };
    char *path, folder[512];
    snprintf(folder, sizeof folder, "%s", in_dir(out));
    assert_int_equal(rt_checkpoint_newest(&path, &arena, folder, &e), RT_OK);
    if (want)
        assert_string_equal(path, rt_path_join(&arena, folder, want));
    else
        assert_null(path);
}

static void checkpoints_lie_below_run(void **state)
{
    (void)state;
    assert_checkpoints("new", "run/checkpoints");
    assert_newest("new", NULL);
    make("new/run/checkpoints/checkpoint-000500");
    make("new/run/checkpoints/checkpoint-000040");
    make("new/run/checkpoints/best-000600");
    make("new/run/checkpoints/checkpoint-notes");
    make("new/checkpoint-000900"); /* somebody's */
    assert_checkpoints("new", "run/checkpoints");
    assert_newest("new", "run/checkpoints/checkpoint-000500");
}

static void an_older_run_keeps_them_in_out(void **state)
{
    (void)state;
    make("old/run");
    make("old/checkpoint-x");
    assert_checkpoints("old", "run/checkpoints"); /* none yet: they may lie where they do today */
    make("old/best-000003");
    assert_checkpoints("old", "");
    assert_newest("old", NULL);
    make("old/checkpoint-000007");
    assert_newest("old", "checkpoint-000007");
}

static void paths_of_checkpoints_are_known(void **state)
{
    (void)state;
    assert_true(rt_path_of_checkpoint("checkpoint-000001/state.json"));
    assert_true(rt_path_of_checkpoint("run/checkpoints/checkpoint-000001"));
    assert_true(rt_path_of_checkpoint("run/checkpoints/checkpoint-000001/state.json"));
    assert_false(rt_path_of_checkpoint("run/checkpoint-000001"));
    assert_false(rt_path_of_checkpoint("run/checkpoints/best-000001/config.json"));
    assert_false(rt_path_of_checkpoint("run/settings.json"));
}

static void a_control_lies_below_run(void **state)
{
    (void)state;
    char out[512];
    snprintf(out, sizeof out, "%s", in_dir("judged"));
    assert_string_equal(rt_control_of(&arena, out), in_dir("judged/run/control"));
    make("judged/control/notes"); /* no run */
    assert_string_equal(rt_control_of(&arena, out), in_dir("judged/run/control"));
    make("judged/control/run");
    assert_string_equal(rt_control_of(&arena, out), in_dir("judged/control"));
    make("judged/run/control");
    assert_string_equal(rt_control_of(&arena, out), in_dir("judged/run/control"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(checkpoints_lie_below_run),
        cmocka_unit_test(an_older_run_keeps_them_in_out),
        cmocka_unit_test(paths_of_checkpoints_are_known),
        cmocka_unit_test(a_control_lies_below_run),
    };
    int failed = cmocka_run_group_tests(tests, make_test_dir, remove_test_dir);
    rt_arena_free(&arena);
    return failed;
}
