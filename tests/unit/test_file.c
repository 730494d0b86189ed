/* test_file.c - maps, atomic writers and directories: what is there afterwards, what is not, and what is said. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/file.h"
#include "base/pool.h"
#include "memory_case.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

static char folder[64]; /* of this run; removed at the end */
static rt_arena arena;
static int set_up(void **state)
{
    (void)state;
    snprintf(folder, sizeof folder, "/tmp/retort-test-file-XXXXXX");
    return mkdtemp(folder) ? 0 : -1;
}

static int tear_down(void **state)
{
    (void)state;
    static const char *const deep[] = { "d/e", "full", "h", "oom", "r", "u" }; /* removing goes two levels deep */
    for (size_t i = 0; i < sizeof deep / sizeof deep[0]; i++) rt_dir_remove(rt_path_join(&arena, folder, deep[i]));
    rt_dir_remove(folder);
    bool left = rt_path_exists(folder);
    rt_arena_free(&arena);
    if (left) return -1;
    return 0;
}

static const char *at(const char *name)
{
    char *path = rt_path_join(&arena, folder, name);
    assert_non_null(path);
    return path;
}

static void put(const char *name, const char *text)
{
    FILE *f = fopen(at(name), "wb");
    assert_non_null(f);
    assert_int_equal(fwrite(text, 1, strlen(text), f), strlen(text));
    assert_int_equal(fclose(f), 0);
}

static void expect_text(const char *path, const char *text)
{
    rt_err e = { 0 };
    rt_str s = { 0 };
    assert_int_equal(rt_file_read(path, 1 << 20, &s, &e), RT_OK);
    assert_int_equal(s.len, strlen(text));
    if (s.len > 0) assert_memory_equal(s.data, text, s.len);
    rt_str_free(&s);
}

static uint32_t entries(const char *path)
{
    rt_err e = { 0 };
    char **names;
    uint32_t count;
    assert_int_equal(rt_dir_list(&names, &count, &arena, path, &e), RT_OK);
    return count;
}

static void expect_says(const rt_err *e, const char *a, const char *b)
{
    if (!strstr(e->text, a) || !strstr(e->text, b)) fail_msg("'%s' should say '%s' and '%s'", e->text, a, b);
}

static void test_map(void **state)
{
    (void)state;
    rt_err e = { 0 };
    rt_map m = { 0 };
    put("map", "seven b");
    assert_int_equal(rt_map_open(&m, at("map"), &e), RT_OK);
    assert_int_equal(m.size, 7);
    assert_memory_equal(m.data, "seven b", 7);
    rt_map_will_need(&m, 0, 7);
    rt_map_will_need(&m, 5, UINT64_MAX);
    rt_map_will_need(&m, UINT64_MAX, 1);
    rt_map_done_with(&m, 0, 7);
    rt_map_done_with(&m, 3, UINT64_MAX);
    rt_map_done_with(&m, 9, 1);
    assert_memory_equal(m.data, "seven b", 7);
    rt_map_close(&m);
    assert_null(m.data);
    rt_map_close(&m);

    put("empty", "");
    assert_int_equal(rt_map_open(&m, at("empty"), &e), RT_OK);
    assert_int_equal(m.size, 0);
    assert_non_null(m.data);
    rt_map_will_need(&m, 0, 1);
    rt_map_done_with(&m, 0, 1);
    rt_map_close(&m);

    /* Many pages, some of them let go: what is read again is the same. */
    rt_writer *w;
    char *block = calloc(1, 1 << 20);
    for (int i = 0; i < 1 << 20; i++) block[i] = (char)(i / 4096);
    assert_int_equal(rt_writer_open(&w, at("pages"), &e), RT_OK);
    assert_int_equal(rt_writer_put(w, 0, block, 1 << 20, &e), RT_OK);
    assert_int_equal(rt_writer_commit(w, &e), RT_OK);
    rt_writer_free(w);
    assert_int_equal(rt_map_open(&m, at("pages"), &e), RT_OK);
    assert_memory_equal(m.data, block, 1 << 20);
    rt_map_done_with(&m, 100, 1 << 19);
    assert_memory_equal(m.data, block, 1 << 20);
    rt_map_close(&m);
    free(block);
}

static void test_reading_fails(void **state)
{
    (void)state;
    rt_err e = { 0 };
    rt_map m;
    rt_str s = { 0 };
    uint64_t size;
    assert_int_equal(rt_map_open(&m, at("absent"), &e), RT_NOT_FOUND);
    expect_says(&e, "absent", "No such file");
    assert_null(m.data);
    assert_int_equal(rt_map_open(&m, folder, &e), RT_IO);
    expect_says(&e, folder, "is a directory");
    assert_int_equal(mkfifo(at("pipe"), 0600), 0);
    assert_int_equal(rt_map_open(&m, at("pipe"), &e), RT_IO);
    expect_says(&e, "pipe", "not a regular file");
    put("plain", "x");
    assert_int_equal(rt_map_open(&m, at("plain/below"), &e), RT_NOT_FOUND);

    put("five", "12345");
    rt_str_append(&s, "kept");
    assert_int_equal(rt_file_read(at("five"), 4, &s, &e), RT_FORMAT);
    expect_says(&e, "five", "larger than 4 B");
    assert_string_equal(s.data, "kept");
    assert_int_equal(rt_file_read(at("five"), 5, &s, &e), RT_OK);
    assert_string_equal(s.data, "kept12345");
    assert_int_equal(rt_file_read(at("absent"), 5, &s, &e), RT_NOT_FOUND);
    assert_string_equal(s.data, "kept12345");
    rt_str_free(&s);

    assert_int_equal(rt_file_size(at("five"), &size, &e), RT_OK);
    assert_int_equal(size, 5);
    assert_int_equal(rt_file_size(at("absent"), &size, &e), RT_NOT_FOUND);
    if (geteuid() != 0) {
        chmod(at("five"), 0);
        assert_int_equal(rt_map_open(&m, at("five"), &e), RT_IO);
        expect_says(&e, "five", "permissions");
    }
}

static void test_writer(void **state)
{
    (void)state;
    rt_err e = { 0 };
    rt_writer *w, *second;
    assert_int_equal(rt_dir_make(at("w"), &e), RT_OK);
    assert_int_equal(rt_writer_open(&w, at("w/name"), &e), RT_OK);
    assert_int_equal(rt_writer_open(&second, at("w/name"), &e), RT_OK);
    assert_string_not_equal(rt_writer_path(w), rt_writer_path(second));
    const char *base = rt_path_base(rt_writer_path(w));
    assert_memory_equal(base, ".name.retort-tmp-", strlen(".name.retort-tmp-"));
    assert_false(rt_path_exists(at("w/name")));
    assert_int_equal(rt_writer_reserve(w, 11, &e), RT_OK);
    assert_int_equal(rt_writer_put(w, 6, "world", 5, &e), RT_OK);
    assert_int_equal(rt_writer_put(w, 0, "hello ", 6, &e), RT_OK);
    expect_text(rt_writer_path(w), "hello world");
    assert_int_equal(rt_writer_commit(w, &e), RT_OK);
    expect_text(at("w/name"), "hello world");
    rt_writer_free(w);
    assert_int_equal(rt_writer_put(second, 0, "shorter", 7, &e), RT_OK);
    assert_int_equal(rt_writer_commit(second, &e), RT_OK);
    rt_writer_free(second);
    expect_text(at("w/name"), "shorter");
    assert_int_equal(entries(at("w")), 1);

    /* Given up: nothing is left, and what was there stays. */
    assert_int_equal(rt_writer_open(&w, at("w/name"), &e), RT_OK);
    assert_int_equal(rt_writer_put(w, 0, "lost", 4, &e), RT_OK);
    rt_writer_free(w);
    rt_writer_free(NULL);
    expect_text(at("w/name"), "shorter");
    assert_int_equal(entries(at("w")), 1);

    /* Reserving less than was written cuts; nothing is reserved for an empty file. */
    assert_int_equal(rt_writer_open(&w, at("w/cut"), &e), RT_OK);
    assert_int_equal(rt_writer_put(w, 0, "12345678", 8, &e), RT_OK);
    assert_int_equal(rt_writer_reserve(w, 3, &e), RT_OK);
    assert_int_equal(rt_writer_commit(w, &e), RT_OK);
    rt_writer_free(w);
    expect_text(at("w/cut"), "123");
    assert_int_equal(rt_file_write(at("w/none"), "", 0, &e), RT_OK);
    expect_text(at("w/none"), "");

    /* A name as long as names may be, and one without a folder. */
    char name[256], here[512];
    memset(name, 'n', 255);
    name[255] = '\0';
    assert_int_equal(rt_file_write(rt_path_join(&arena, at("w"), name), "long", 4, &e), RT_OK);
    assert_non_null(getcwd(here, sizeof here));
    assert_int_equal(chdir(at("w")), 0);
    assert_int_equal(rt_file_write("bare", "bare", 4, &e), RT_OK);
    assert_int_equal(chdir(here), 0);
    expect_text(at("w/bare"), "bare");
    rt_dir_remove(at("w"));
    assert_false(rt_path_exists(at("w")));
}

static void test_writing_fails(void **state)
{
    (void)state;
    rt_err e = { 0 };
    rt_writer *w;
    assert_int_equal(rt_writer_open(&w, folder, &e), RT_INVALID);
    expect_says(&e, folder, "is a directory");
    assert_null(w);
    assert_int_equal(rt_writer_open(&w, "", &e), RT_INVALID);
    assert_int_equal(rt_writer_open(&w, at("absent/name"), &e), RT_NOT_FOUND);
    expect_says(&e, "absent/name", "create the folder");
    assert_int_equal(rt_writer_open(&w, "/proc/retort", &e), RT_NOT_FOUND);

    /* A limit on file sizes stands for a disk that fills up. */
    struct rlimit was, small;
    assert_int_equal(rt_dir_make(at("full"), &e), RT_OK);
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &was), 0);
    small = was;
    small.rlim_cur = 10000;
    signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
    char *block = calloc(1, 20000);
    assert_int_equal(rt_writer_open(&w, at("full/name"), &e), RT_OK);
    int reserved = rt_writer_reserve(w, 20000, &e);
    rt_err reserve_error = e;
    int written = rt_writer_put(w, 0, block, 20000, &e);
    rt_writer_free(w);
    int whole = rt_file_write(at("full/name"), block, 20000, &(rt_err){ 0 });
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &was), 0);
    free(block);
    assert_int_equal(reserved, RT_IO);
    expect_says(&reserve_error, "full/name", "19.5 KiB are needed");
    assert_int_equal(written, RT_IO);
    expect_says(&e, "full/name", "File too large");
    assert_int_equal(whole, RT_IO);
    assert_int_equal(entries(at("full")), 0);

    assert_int_equal(rt_writer_open(&w, at("full/name"), &e), RT_OK);
    assert_int_equal(rt_writer_reserve(w, UINT64_MAX, &e), RT_IO);
    assert_int_equal(rt_writer_put(w, UINT64_MAX - 1, "abc", 3, &e), RT_IO);
    /* Something else takes the name meanwhile. */
    assert_int_equal(rt_dir_make(at("full/name"), &e), RT_OK);
    assert_int_equal(rt_writer_commit(w, &e), RT_IO);
    expect_says(&e, "full/name", "directory");
    rt_writer_free(w);
    assert_int_equal(entries(at("full")), 1);
}

enum { PIECE = 1000, PIECES = 64 };
static void put_piece(void *ctx, uint32_t chunk, uint32_t worker)
{
    (void)worker;
    char data[PIECE];
    memset(data, (int)chunk, sizeof data);
    if (rt_writer_put(ctx, (uint64_t)chunk * PIECE, data, PIECE, NULL) < 0) abort();
}

static void test_threads(void **state)
{
    (void)state;
    rt_err e = { 0 };
    rt_writer *w;
    rt_pool *pool;
    rt_str s = { 0 };
    assert_int_equal(rt_pool_new(&pool, 3, &e), RT_OK);
    assert_int_equal(rt_writer_open(&w, at("many"), &e), RT_OK);
    rt_pool_run(pool, PIECES, put_piece, w);
    assert_int_equal(rt_writer_commit(w, &e), RT_OK);
    assert_int_equal(rt_file_read(at("many"), 1 << 20, &s, &e), RT_OK);
    assert_int_equal(s.len, PIECE * PIECES);
    for (int i = 0; i < PIECE * PIECES; i++) assert_int_equal(s.data[i], i / PIECE);
    rt_str_free(&s);
    rt_writer_free(w);
    rt_pool_free(pool);
}

static void test_directories(void **state)
{
    (void)state;
    rt_err e = { 0 };
    char *temp, **names;
    uint32_t count;
    assert_int_equal(rt_dir_make(at("d/e//f/"), &e), RT_OK);
    assert_int_equal(rt_dir_make(at("d/e/f"), &e), RT_OK);
    assert_true(rt_path_is_dir(at("d/e/f")));
    assert_false(rt_path_is_dir(at("d/none")));
    put("d/file", "x");
    assert_int_equal(rt_dir_make(at("d/file"), &e), RT_IO);
    assert_int_equal(rt_dir_make(at("d/file/below"), &e), RT_IO);
    put("d/B", "");
    put("d/a", "");
    assert_int_equal(rt_dir_list(&names, &count, &arena, at("d"), &e), RT_OK);
    assert_int_equal(count, 4);
    static const char *const sorted[] = { "B", "a", "e", "file" };
    for (int i = 0; i < 4; i++) assert_string_equal(names[i], sorted[i]);
    assert_int_equal(rt_dir_list(&names, &count, &arena, at("none"), &e), RT_NOT_FOUND);
    assert_int_equal(rt_dir_list(&names, &count, &arena, at("d/e/f"), &e), RT_OK);
    assert_int_equal(count, 0);

    assert_int_equal(rt_dir_temp(&temp, &arena, at("new//"), &e), RT_OK);
    assert_memory_equal(rt_path_base(temp), ".new.retort-tmp-", strlen(".new.retort-tmp-"));
    assert_true(rt_path_is_dir(temp));
    assert_int_equal(rt_file_write(rt_path_join(&arena, temp, "x"), "new", 3, &e), RT_OK);
    assert_int_equal(rt_dir_commit(temp, at("new"), &e), RT_OK);
    expect_text(at("new/x"), "new");
    assert_int_equal(rt_dir_temp(&temp, &arena, at("new"), &e), RT_OK);
    assert_int_equal(rt_dir_commit(temp, at("new"), &e), RT_INVALID);
    expect_says(&e, "new", "files in it");
    assert_int_equal(rt_dir_commit(temp, at("d/file"), &e), RT_INVALID);
    expect_says(&e, "d/file", "the file already exists");
    /* An empty folder is replaced as if it were not there. */
    assert_int_equal(rt_dir_make(at("hollow"), &e), RT_OK);
    assert_int_equal(rt_dir_commit(temp, at("hollow"), &e), RT_OK);
    assert_false(rt_path_exists(temp));

    static const char *const bad[] = { "", ".", "..", "/", "d/..", "x/." };
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        assert_int_equal(rt_dir_temp(&temp, &arena, bad[i], &e), RT_INVALID);
    assert_int_equal(rt_dir_temp(&temp, &arena, at("none/new"), &e), RT_NOT_FOUND);
}

/* Only folders that the call itself has made are counted, and only empty ones go again. */
static void test_unmake(void **state)
{
    (void)state;
    rt_err e = { 0 };
    uint32_t made = 9;
    assert_int_equal(rt_dir_make_counted(at("u/v//w/"), &made, &e), RT_OK);
    assert_int_equal(made, 3);
    assert_int_equal(rt_dir_make_counted(at("u/v/w"), &made, &e), RT_OK);
    assert_int_equal(made, 0);
    rt_dir_unmake(at("u/v/w"), 0);
    assert_true(rt_path_is_dir(at("u/v/w")));
    rt_dir_unmake(at("u/v//w/"), 2);
    assert_false(rt_path_exists(at("u/v")));
    assert_true(rt_path_is_dir(at("u")));
    assert_int_equal(rt_dir_make_counted(at("u/v/w"), &made, &e), RT_OK);
    assert_int_equal(made, 2);
    put("u/v/note", "x"); /* somebody else's */
    rt_dir_unmake(at("u/v/w"), 3);
    assert_false(rt_path_exists(at("u/v/w")));
    expect_text(at("u/v/note"), "x");
    assert_int_equal(rt_dir_make_counted(at("u/v/note/below"), &made, &e), RT_IO);
    assert_int_equal(made, 0);
    rt_dir_unmake(at("u/v/note"), 1);
    expect_text(at("u/v/note"), "x");
    assert_int_equal(unlink(at("u/v/note")), 0);
    assert_int_equal(chdir(at("u/v")), 0); /* a path without a folder ends where it began */
    assert_int_equal(rt_dir_make_counted("bare", &made, &e), RT_OK);
    rt_dir_unmake("bare", 5);
    assert_int_equal(entries(at("u/v")), 0);
    assert_int_equal(chdir("/"), 0);
}

static bool is_old(void *ctx, const char *name) { return strcmp(name, ctx) == 0; }

static bool is_any(void *ctx, const char *name) { return ctx == NULL && *name; }

static void test_holds_only(void **state)
{
    (void)state;
    rt_err e = { 0 };
    char *temp, x[] = "x";
    assert_int_equal(rt_dir_make(at("h/old"), &e), RT_OK);
    assert_true(rt_dir_holds_only(at("h/old"), is_old, x));
    put("h/old/x", "old");
    assert_true(rt_dir_holds_only(at("h/old"), is_old, x));
    assert_false(rt_dir_holds_only(at("h/old/x"), is_any, NULL)); /* no directory */
    assert_false(rt_dir_holds_only(at("h/none"), is_any, NULL));
    assert_int_equal(symlink(at("h/old"), at("h/link")), 0);
    assert_false(rt_dir_holds_only(at("h/link"), is_old, x));
    for (int kind = 0; kind < 3; kind++) { /* a folder, a link and a FIFO under the name of a file */
        char sub[] = "x/";
        assert_int_equal(unlink(at("h/old/x")), 0);
        assert_int_equal(kind == 0   ? mkdir(at("h/old/x"), 0777)
                         : kind == 1 ? symlink(folder, at("h/old/x"))
                                     : mkfifo(at("h/old/x"), 0666),
                         0);
        assert_false(rt_dir_holds_only(at("h/old"), is_old, x));
        assert_int_equal(rt_dir_holds_only(at("h/old"), is_old, sub), kind == 0);
        assert_int_equal(kind == 0 ? rmdir(at("h/old/x")) : unlink(at("h/old/x")), 0);
        put("h/old/x", "old");
    }
    put("h/old/.note", "mine");
    assert_false(rt_dir_holds_only(at("h/old"), is_old, x));
    assert_int_equal(rt_dir_temp(&temp, &arena, at("h/old"), &e), RT_OK);
    assert_int_equal(rt_dir_replace(temp, at("h/old"), is_old, x, &e), RT_INVALID);
    expect_says(&e, "h/old", "not written there by retort");
    expect_text(at("h/old/.note"), "mine");
    expect_text(at("h/old/x"), "old");
    rt_dir_remove(temp);
}

static void test_replace_and_remove(void **state)
{
    (void)state;
    rt_err e = { 0 };
    char *temp;
    assert_int_equal(rt_dir_make(at("r/old/sub"), &e), RT_OK);
    put("r/old/x", "old");
    put("r/old/sub/y", "old");
    put("outside", "stays");
    assert_int_equal(symlink(at("outside"), at("r/old/link")), 0);
    assert_int_equal(symlink(folder, at("r/old/sub/link")), 0);
    assert_int_equal(rt_dir_temp(&temp, &arena, at("r/old"), &e), RT_OK);
    assert_int_equal(rt_file_write(rt_path_join(&arena, temp, "x"), "new", 3, &e), RT_OK);
    assert_int_equal(rt_dir_replace(temp, at("r/old/"), is_any, NULL, &e), RT_INVALID); /* a link is nobody's file */
    assert_int_equal(unlink(at("r/old/link")), 0);
    assert_int_equal(rt_dir_replace(temp, at("r/old/"), is_any, NULL, &e), RT_OK);
    expect_text(at("r/old/x"), "new");
    expect_text(at("outside"), "stays");
    assert_int_equal(entries(at("r/old")), 1);
    assert_int_equal(entries(at("r")), 1);

    assert_int_equal(symlink(at("r/old"), at("r/link")), 0);
    assert_int_equal(rt_dir_temp(&temp, &arena, at("r/link"), &e), RT_OK);
    assert_int_equal(rt_dir_replace(temp, at("r/link"), is_any, NULL, &e), RT_INVALID);
    expect_says(&e, "r/link", "is a link");
    rt_dir_remove(at("r/link"));
    expect_text(at("r/old/x"), "new");
    assert_int_equal(rt_dir_replace(temp, at("r/none"), is_any, NULL, &e), RT_NOT_FOUND);
    rt_dir_remove(temp);
    assert_false(rt_path_exists(temp));
    rt_dir_remove(at("none"));
}

static void test_paths(void **state)
{
    (void)state;
    assert_string_equal(rt_path_join(&arena, "a", "b"), "a/b");
    assert_string_equal(rt_path_join(&arena, "a/", "b"), "a/b");
    assert_string_equal(rt_path_join(&arena, "", "b"), "b");
    assert_string_equal(rt_path_base("a/b.c"), "b.c");
    assert_string_equal(rt_path_base("b.c"), "b.c");
    assert_string_equal(rt_path_base("a/"), "");
    assert_true(rt_path_ends("model.GGUF", ".gguf"));
    assert_false(rt_path_ends("gguf", ".gguf"));
    assert_false(rt_path_ends("model.gguf.gz", ".gguf"));
}

/* Paths of the loop below, which must not allocate for them. */
static char oom[80], oom_file[80], oom_deep[80];

static int everything(rt_err *e)
{
    int rc;
    rt_arena a = { 0 };
    rt_str s = { 0 };
    char *temp = NULL, **names;
    uint32_t count;
    RT_TRY(rt_file_write(oom_file, "text", 4, e));
    RT_TRY(rt_file_read(oom_file, 100, &s, e));
    RT_TRY(rt_dir_make(oom_deep, e));
    RT_TRY(rt_dir_list(&names, &count, &a, oom, e));
    RT_TRY(rt_dir_temp(&temp, &a, oom_deep, e));
    RT_TRY(rt_dir_replace(temp, oom_deep, is_any, NULL, e));
    RT_TRY(rt_dir_temp(&temp, &a, oom_deep, e));
    RT_TRY(rt_dir_commit(temp, oom_deep, e));
out:
    if (temp) rt_dir_remove(temp);
    rt_str_free(&s);
    rt_arena_free(&a);
    return rc;
}

/* Every allocation fails in turn: out of memory is said, and no temporary name stays. */
static void test_out_of_memory(void **state)
{
    (void)state;
    rt_err e = { 0 };
    snprintf(oom, sizeof oom, "%s/oom", folder);
    snprintf(oom_file, sizeof oom_file, "%s/oom/file", folder);
    snprintf(oom_deep, sizeof oom_deep, "%s/oom/deep", folder);
    assert_int_equal(rt_dir_make(oom, &e), RT_OK);
    uint64_t live = rt_alloc_live();
    rt_allocator_set(&(rt_allocator){ failing_alloc, failing_free, NULL });
    int n = 0, rc = RT_NOMEM;
    for (; n < 1000 && rc != RT_OK; n++) {
        e = (rt_err){ 0 };
        allowed = n;
        rc = everything(&e);
        allowed = -1;
        if (rc != RT_OK) {
            assert_int_equal(rc, RT_NOMEM);
            assert_int_equal(e.status, RT_NOMEM);
        }
        assert_int_equal(rt_alloc_live(), live);
        rt_arena list = { 0 };
        char **names;
        uint32_t count;
        assert_int_equal(rt_dir_list(&names, &count, &list, oom, &e), RT_OK);
        for (uint32_t i = 0; i < count; i++) assert_int_not_equal(names[i][0], '.');
        rt_arena_free(&list);
    }
    rt_allocator_set(NULL);
    assert_in_range(n, 5, 999);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_map),
        cmocka_unit_test(test_reading_fails),
        cmocka_unit_test(test_writer),
        cmocka_unit_test(test_writing_fails),
        cmocka_unit_test(test_threads),
        cmocka_unit_test(test_directories),
        cmocka_unit_test(test_unmake),
        cmocka_unit_test(test_holds_only),
        cmocka_unit_test(test_replace_and_remove),
        cmocka_unit_test(test_paths),
        cmocka_unit_test(test_out_of_memory),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
