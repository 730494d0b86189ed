/* test_cuda_tune.c - GEMMs by timing on a stand-in driver: the fastest candidate is taken, its choice is kept and
 * found again without timing, a run's own choices come first, time is bounded, what will not run is not timed, and a
 * file that is broken costs time and nothing else. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "cuda_case.h"
#include "memory_case.h"

#include "base/file.h"

#include <stdio.h>

static rt_arena arena;
static char folder[400]; /* of one test */
static char cache_line[500], home_line[500];
static const char *env[3];
static const rt_dev_option on = { "tune", "on" }, known = { "tune", "known" }, all = { "tune", "all" };
static const rt_dev_opts tuned = { .option = &on, .count = 1, .env = env },
                         as_known = { .option = &known, .count = 1, .env = env },
                         at_length = { .option = &all, .count = 1, .env = env };
static double most = -1; /* seconds for timing; negative: as the device has it */

static char *in_folder(const char *name) { return rt_path_join(&arena, folder, name); }
static char *shared_file(void) { return in_folder("retort/products.tsv"); }

/* The environment; null: the variable is not set. */
static void set_env(const char *home, const char *cache)
{
    uint32_t n = 0;
    snprintf(home_line, sizeof home_line, "HOME=%s", home ? home : "");
    snprintf(cache_line, sizeof cache_line, "XDG_CACHE_HOME=%s", cache ? cache : "");
    if (home) env[n++] = home_line;
    if (cache) env[n++] = cache_line;
    env[n] = NULL;
}

static int begin(void **state)
{
    char *temp, *base = getenv("TMPDIR");
    fresh(state);
    most = -1;
    if (rt_dir_temp(&temp, &arena, rt_path_join(&arena, base ? base : "/tmp", "retort-tune"), NULL) < 0) return -1;
    snprintf(folder, sizeof folder, "%s", temp);
    set_env("/nowhere", folder);
    return 0;
}

static int end(void **state)
{
    (void)state;
    rt_dir_remove(in_folder(".cache"));
    rt_dir_remove(folder);
    rt_arena_free(&arena);
    return 0;
}

static void put_text(const char *path, const char *text)
{
    rt_err e = { 0 };
    assert_int_equal(rt_dir_make(in_folder("retort"), &e), RT_OK);
    if (rt_file_write(path, text, strlen(text), &e) < 0) fail_msg("%s", e.text);
}

static const char *text_of(const char *path)
{
    rt_str text = { 0 };
    rt_err e = { 0 };
    if (rt_file_read(path, 1 << 20, &text, &e) < 0) fail_msg("%s", e.text);
    char *copy = rt_arena_strdup(&arena, text.data ? text.data : "");
    rt_str_free(&text);
    return copy;
}

/* What a device made of the two products. */
typedef struct made {
    char plan[8192]; /* as printed, with their algorithms */
    char said[400];
    rt_hash128 hash;
    uint64_t bytes;
} made;

/* from, to: a run's own file that is read before, and one that is written after; null: none. */
static made make(const rt_dev_opts *o, const char *from, const char *to)
{
    rt_err e = { 0 };
    fixture f;
    rt_exec *x;
    made m = { 0 };
    rt_str text = { 0 };
    rt_dev_info info;
    rt_exec_memory memory;
    rt_dev *d = open_ok(o);
    if (most >= 0) ((rt_cuda_dev *)d)->tune.most = most;
    assert_int_equal(record(&f, RT_DTYPE_BF16, &e), RT_OK);
    if (from) assert_int_equal(d->api->choices_read(d, from, &e), RT_OK);
    if (rt_exec_seal(&x, d, (const rt_plan *const *)&f.plan, 1, NULL, &e) < 0) fail_msg("%s", e.text);
    if (to) assert_int_equal(d->api->choices_write(d, to, &e), RT_OK);
    assert_int_equal(rt_exec_print(x, 0, RT_PRINT_TEXT, &text, &e), RT_OK);
    snprintf(m.plan, sizeof m.plan, "%s", text.data);
    rt_str_free(&text);
    assert_int_equal(rt_exec_hash(x, 0, &m.hash, &e), RT_OK);
    rt_exec_memory_query(x, &memory);
    m.bytes = memory.total;
    assert_int_equal(d->api->info(d, &info, &e), RT_OK);
    memcpy(m.said, info.tuning, sizeof m.said);
    rt_exec_free(x);
    d->api->close(d);
    forget(&f);
    assert_int_equal(s->live, 0);
    return m;
}

static void uses(const made *m, const char *algorithm)
{
    if (!strstr(m->plan, algorithm)) fail_msg("'%s' is not in:\n%s", algorithm, m->plan);
}
static void says(const made *m, const char *text)
{
    if (!strstr(m->said, text)) fail_msg("'%s' is not in: %s", text, m->said);
}

static bool same(const made *a, const made *b) { return memcmp(&a->hash, &b->hash, sizeof a->hash) == 0; }

static void times(float first, float second, float third)
{
    s->lt_ms[0] = first;
    s->lt_ms[1] = second;
    s->lt_ms[2] = third;
}

static void the_fastest_that_rounds_once_is_taken(void **state)
{
    (void)state;
    times(3, 1, 2);
    made plain = make(NULL, NULL, NULL), m = make(&tuned, NULL, NULL);
    uses(&plain, "algorithm 0 ");
    assert_string_equal(plain.said, "");
    uses(&m, "algorithm 1 ");
    says(&m, "2 GEMMs timed in ");
    says(&m, ", 0 as timed before; kept in ");
    assert_false(same(&plain, &m)); /* the choice is part of what a program is */
    rt_dir_remove(in_folder("retort"));
    s->lt_rounds = 2; /* the faster ones round a product before adding to it */
    m = make(&tuned, NULL, NULL);
    uses(&m, "algorithm 2 ");
    /* a difference within the scatter of times leaves the library's own choice */
    rt_dir_remove(in_folder("retort"));
    s->lt_rounds = 0;
    times(1, 0.99f, 0.985f);
    m = make(&tuned, NULL, NULL);
    uses(&m, "algorithm 0 ");
}

static void a_choice_is_found_again_without_timing(void **state)
{
    (void)state;
    times(3, 1, 2);
    made first = make(&tuned, NULL, NULL);
    s->log_len = 0;
    times(1, 3, 2);
    double before = s->clock;
    made second = make(&tuned, NULL, NULL);
    uses(&second, "algorithm 1 ");
    says(&second, "0 GEMMs timed in 0.0 s, 2 as timed before");
    assert_true(same(&first, &second));
    assert_true(s->clock - before <= 6 * 3); /* each: one that tells, the first launch, one into the graph */
    made plain = make(NULL, NULL, NULL);     /* nobody else is touched by the file */
    uses(&plain, "algorithm 0 ");
    /* another GPU, another library: timed for themselves, and all are kept */
    s->lt_version = 130200;
    made other = make(&tuned, NULL, NULL);
    uses(&other, "algorithm 0 ");
    says(&other, "2 GEMMs timed");
    assert_non_null(strstr(text_of(shared_file()), "cuBLASLt 130100\tnt 24x16x32 bf16 "));
    assert_non_null(strstr(text_of(shared_file()), "cuBLASLt 130200\tnt 24x16x32 bf16 "));
    s->lt_version = 130100;
    second = make(&tuned, NULL, NULL);
    says(&second, "0 GEMMs timed in 0.0 s, 2 as timed before");
}

static void a_run_keeps_its_choices(void **state)
{
    char *own = in_folder("own.tsv");
    (void)state;
    times(3, 1, 2);
    made first = make(&tuned, NULL, own);
    rt_dir_remove(in_folder("retort")); /* what later runs share is gone, or says otherwise */
    times(1, 3, 2);
    made again = make(NULL, own, NULL); /* --resume alone */
    assert_true(same(&first, &again));
    says(&again, "0 GEMMs timed in 0.0 s, 2 as timed before");
    made other = make(&tuned, NULL, NULL);
    uses(&other, "algorithm 0 ");
    again = make(&tuned, own, NULL);
    assert_true(same(&first, &again));
    /* without choices there is no file */
    make(NULL, NULL, in_folder("none.tsv"));
    assert_false(rt_path_exists(in_folder("none.tsv")));
}

static void a_broken_file_is_told_and_made_again(void **state)
{
    (void)state;
    times(3, 1, 2);
    make(&tuned, NULL, NULL);
    const char *good = text_of(shared_file());
    made m;
    put_text(shared_file(), "once\tupon\ta time\nGPU\tlib\tproduct\talgorithm\tmore\n\t\t\t\n\x01\ta\tb\tc\n\n# so\n");
    m = make(&tuned, NULL, NULL);
    uses(&m, "algorithm 1 ");
    says(&m, "2 GEMMs timed");
    says(&m, "4 lines there are no choices and were left out");
    assert_string_equal(text_of(shared_file()), good); /* it is whole again */
    /* cut off in the middle of a line, and with an algorithm that there is not */
    put_text(shared_file(), rt_arena_printf(&arena, "%.*s", (int)strlen(good) - 5, good));
    m = make(&tuned, NULL, NULL);
    uses(&m, "algorithm 1 ");
    says(&m, "1 GEMMs timed");
    says(&m, "1 choices are none that this library offers");
    m = make(&tuned, NULL, NULL);
    says(&m, "0 GEMMs timed in 0.0 s, 2 as timed before");
    assert_null(strstr(m.said, "none that"));
}

static void what_cannot_be_kept_is_told(void **state)
{
    (void)state;
    times(3, 1, 2);
    put_text(in_folder("file"), "not a folder");
    set_env("/nowhere", in_folder("file"));
    made m = make(&tuned, NULL, NULL);
    uses(&m, "algorithm 1 ");
    says(&m, "; not kept: ");
    set_env(folder, NULL);
    m = make(&tuned, NULL, NULL);
    assert_true(rt_path_exists(in_folder(".cache/retort/products.tsv")));
    set_env(NULL, NULL);
    m = make(&tuned, NULL, NULL);
    says(&m, "2 GEMMs timed");
    assert_null(strstr(m.said, "kept"));
    m = make(&RT_DEV_OPTIONS({ "tune", "all" }, { "cublaslt", "none" }), NULL, NULL);
    says(&m, "--tune all has nothing to time: there is no cuBLASLt");
    m = make(&RT_DEV_OPTIONS({ "tune", "on" }, { "cublaslt", "none" }), NULL, NULL);
    assert_string_equal(m.said, ""); /* nobody asked for it */
}

/* The rest is as the library has it, and stays so: the next run costs nothing and has the same bits. */
static void time_is_bounded(void **state)
{
    char *own = in_folder("own.tsv");
    (void)state;
    times(3, 1, 2);
    most = 0;
    made first = make(&tuned, NULL, own);
    uses(&first, "algorithm 0 ");
    says(&first, "0 GEMMs timed in 0.0 s, 0 as timed before; 2 as the library chose, after 0 s for timing (--tune all");
    assert_non_null(strstr(text_of(shared_file()), "\tnot timed\n"));
    most = -1;
    made second = make(&tuned, NULL, NULL);
    says(&second, "0 GEMMs timed in 0.0 s, 2 as timed before");
    assert_true(same(&first, &second));
    made longer = make(&at_length, NULL, NULL);
    uses(&longer, "algorithm 1 ");
    says(&longer, "2 GEMMs timed");
    assert_null(strstr(text_of(shared_file()), "not timed"));
    second = make(&tuned, NULL, NULL);
    assert_true(same(&longer, &second));
    /* whatever others have timed since, a run resumes as it began */
    second = make(&at_length, own, NULL);
    assert_true(same(&first, &second));
    assert_null(strstr(text_of(shared_file()), "not timed"));
}

static void known_choices_alone(void **state)
{
    char *own = in_folder("own.tsv");
    (void)state;
    times(3, 1, 2);
    made m = make(&as_known, NULL, own);
    uses(&m, "algorithm 0 ");
    says(&m, "0 GEMMs timed in 0.0 s, 0 as timed before; 2 as the library chose");
    assert_false(rt_path_exists(shared_file()));
    made fast = make(&tuned, NULL, NULL), again = make(&as_known, NULL, NULL);
    assert_true(same(&fast, &again));
    again = make(&tuned, own, NULL); /* it has the choices that it began with */
    assert_true(same(&m, &again));
}

/* Programs that are only weighed are not timed, and take the same memory before and after. */
static void what_will_not_run_is_not_timed(void **state)
{
    rt_err e = { 0 };
    fixture f;
    rt_exec *dry;
    rt_exec_memory memory;
    (void)state;
    times(3, 1, 2);
    s->lt_work[1] = 8192; /* the fastest takes more scratch than the library's first */
    rt_dev *d = open_ok(&tuned);
    assert_int_equal(record(&f, RT_DTYPE_BF16, &e), RT_OK);
    assert_int_equal(rt_exec_seal(&dry, d, (const rt_plan *const *)&f.plan, 1, &(rt_seal_opts){ .dry = true }, &e),
                     RT_OK);
    rt_exec_memory_query(dry, &memory);
    assert_true(s->clock <= 2 * 3); /* one that tells, for each of two ways to add a bias */
    rt_exec_free(dry);
    d->api->close(d);
    forget(&f);
    assert_false(rt_path_exists(shared_file()));
    made m = make(&tuned, NULL, NULL), again = make(&tuned, NULL, NULL);
    uses(&m, "algorithm 1 ");
    assert_true(m.bytes == memory.total && again.bytes == memory.total);
    assert_true(make(NULL, NULL, NULL).bytes < memory.total);
}

/* Without room to try them on, GEMMs are as the library has them. */
static void no_memory_to_time(void **state)
{
    (void)state;
    times(3, 1, 2);
    s->fail_name = "cuMemAlloc_v2";
    s->fail_at = 3; /* the first two tell how sums are rounded */
    s->fail_result = 2;
    made m = make(&tuned, NULL, NULL);
    says(&m, "1 GEMMs timed");
    says(&m, "; 1 as the library chose");
}

/* Every call of every function fails in turn while products are timed. */
static void every_failure_is_cleaned_up(void **state)
{
    uint64_t failures = 0;
    char *kept = in_folder("retort");
    (void)state;
    for (int n = 1;; n++) {
        rt_err e = { 0 };
        uint64_t before = rt_alloc_live();
        rt_dir_remove(kept);
        *s = FRESH;
        times(3, 1, 2);
        s->fail_name = "";
        s->fail_at = n;
        s->fail_result = 719;
        int rc = live_once(&tuned, &e);
        assert_int_equal(s->live, 0);
        assert_int_equal(rt_alloc_live(), before);
        if (s->fail_name) break;
        if (rc < 0) assert_true(e.text[0] != 0);
        failures += rc < 0;
    }
    assert_true(failures > 60);
}

/* A list put together, written and read. ctx: the file. */
static int keep_list(void *ctx, rt_err *e)
{
    int rc;
    rt_cuda_tuned list = { 0 };
    RT_TRY(rt_cuda_tuned_read(&list, ctx, e));
    RT_TRY(rt_cuda_tuned_put(&list, &(rt_cuda_choice){ "g", "l", "p", "a", true }, e));
    RT_TRY(rt_cuda_tuned_put(&list, &(rt_cuda_choice){ "g", "l", "p", "b", false }, e));
    RT_TRY(rt_cuda_tuned_write(&list, ctx, e));
out:
    rt_cuda_tuned_free(&list);
    return rc;
}

static void every_allocation_may_fail(void **state)
{
    static char path[500];
    (void)state;
    times(3, 1, 2);
    make(&tuned, NULL, NULL); /* there is a file to read */
    snprintf(path, sizeof path, "%s", shared_file());
    rt_arena_free(&arena); /* what was made with one allocator is not freed by another */
    fail_each(keep_list, path, 0);
    /* A whole life: what cannot be kept for later runs is no failure of this one. */
    const rt_allocator failing = { failing_alloc, failing_free, NULL };
    int whole = 0;
    rt_allocator_set(&failing);
    for (int n = 0; n < 200; n++) {
        rt_err e = { 0 };
        uint64_t live = rt_alloc_live();
        allowed = n;
        int rc = live_once(&tuned, &e);
        assert_true(rc >= 0 || rc == RT_NOMEM || rc == RT_NO_BACKEND);
        whole += rc >= 0;
        allowed = -1;
        assert_int_equal(rt_alloc_live(), live);
        assert_int_equal(s->live, 0);
    }
    rt_allocator_set(NULL);
    assert_in_range(whole, 1, 180);
}

int main(void)
{
#define T(f) cmocka_unit_test_setup_teardown(f, begin, end)
    const struct CMUnitTest tests[] = {
        T(the_fastest_that_rounds_once_is_taken),
        T(a_choice_is_found_again_without_timing),
        T(a_run_keeps_its_choices),
        T(a_broken_file_is_told_and_made_again),
        T(what_cannot_be_kept_is_told),
        T(time_is_bounded),
        T(known_choices_alone),
        T(what_will_not_run_is_not_timed),
        T(no_memory_to_time),
        T(every_failure_is_cleaned_up),
        T(every_allocation_may_fail),
    };
    return cmocka_run_group_tests(tests, find_standin, NULL);
}
