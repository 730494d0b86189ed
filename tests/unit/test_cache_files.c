/* test_cache_files.c - a cache as files: positions joined over writers and commits, several writers at once, one that
 * dies, files that become one, merging, and no damage that gives other values. */
#include "cache_case.h"

#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/stat.h>
#include <sys/wait.h>

enum { VOCAB = 300, K = 8, MOST_FILE = 1 << 20 };

static const rt_cache_section topk = { RT_KEEP_TOPK, K, .T = 1, .target = true };

/* What is read of the seed's block is what was written there. */
static void expect_block(const rt_cache *c, uint64_t seed, uint64_t have)
{
    static const rt_cache_section exact = { RT_KEEP_TOPK, K, .T = 1, .target = true };
    rt_cache_block b = new_block(&exact), r = new_block(&exact);
    rt_hash128 key = key_of(seed);
    assert_true(rt_cache_have(c, 0, &key) == have);
    fill_block(&exact, DIST_REAL, VOCAB, seed, have, &b);
    ok(rt_cache_get(c, 0, &key, have, &r, &case_err));
    for (uint32_t j = 0; j < (uint32_t)__builtin_popcountll(have); j++) {
        assert_true(b.target_logp[j] == r.target_logp[j]);
        assert_int_equal(b.id[j * K], r.id[j * K]);
        for (uint32_t i = 0; i < K; i++) {
            uint32_t was = 0; /* what lies close together may have changed places */
            while (was < K && b.id[j * K + was] != r.id[j * K + i]) was++;
            assert_true(was < K && fabsf(b.logp[j * K + was] - r.logp[j * K + i]) < 0.03f);
        }
    }
    free_block(&b);
    free_block(&r);
}

static void add(rt_cache_writer *w, uint64_t seed, uint64_t have)
{
    rt_cache_block b = new_block(&topk);
    fill_block(&topk, DIST_REAL, VOCAB, seed, have, &b);
    ok(rt_cache_writer_add(w, &b, &case_err));
    free_block(&b);
}

static rt_hash128 content(rt_cache *c)
{
    rt_hash128 h;
    ok(rt_cache_content(c, 0, NULL, &h, NULL, &case_err));
    return h;
}

static uint32_t count_files(void)
{
    rt_arena a = { 0 };
    char **names, **inside;
    uint32_t count, n, files = 0;
    ok(rt_dir_list(&names, &count, &a, case_path, &case_err));
    for (uint32_t i = 0; i < count; i++) {
        if (strncmp(names[i], "part-", 5) != 0) continue;
        ok(rt_dir_list(&inside, &n, &a, rt_path_join(&a, case_path, names[i]), &case_err));
        for (uint32_t j = 0; j < n; j++) files += strstr(inside[j], ".rtcache") != NULL;
    }
    rt_arena_free(&a);
    return files;
}

static void test_positions_join(void **state)
{
    (void)state;
    rt_cache_writer *w;
    rt_cache *c = new_cache(&topk, 1);
    ok(rt_cache_writer_new(&w, c, 0, &case_err));
    add(w, 1, 0x0f);
    add(w, 1, 0x3c); /* two of them are there, in the same file */
    expect_block(c, 1, 0);
    ok(rt_cache_writer_commit(w, &case_err));
    expect_block(c, 1, 0x3f);
    add(w, 1, 0xff0f);
    add(w, 2, UINT64_MAX);
    ok(rt_cache_writer_commit(w, &case_err));
    ok(rt_cache_writer_commit(w, &case_err)); /* nothing */
    rt_cache_writer_free(w);
    reopen(&c);
    expect_block(c, 1, 0xff3f);
    expect_block(c, 2, UINT64_MAX);
    expect_block(c, 3, 0);
    rt_cache_size size = rt_cache_size_of(c, 0);
    assert_int_equal(size.positions, 14 + 64);
    rt_hash128 parts = content(c);
    rt_cache_close(c);

    c = new_cache(&topk, 1); /* in one go, in another order */
    ok(rt_cache_writer_new(&w, c, 0, &case_err));
    add(w, 2, UINT64_MAX);
    add(w, 1, 0xff3f);
    ok(rt_cache_writer_commit(w, &case_err));
    rt_hash128 whole = content(c);
    assert_true(rt_hash_equal(parts, whole));
    add(w, 3, 1);
    ok(rt_cache_writer_commit(w, &case_err));
    whole = content(c);
    assert_false(rt_hash_equal(parts, whole));
    rt_cache_writer_free(w);
    rt_cache_close(c);
}

static void test_two_writers(void **state)
{
    (void)state;
    rt_cache_writer *w, *v;
    rt_cache *c = new_cache(&topk, 1), *d = NULL;
    ok(rt_cache_open(&d, case_path, &case_err));
    ok(rt_cache_writer_new(&w, c, 0, &case_err));
    ok(rt_cache_writer_new(&v, d, 0, &case_err));
    for (uint64_t i = 0; i < 20; i++) {
        add(w, i, 0x55);
        add(v, i + 10, 0xff); /* of ten blocks both have some */
        if (i % 4 == 0) ok(rt_cache_writer_commit(w, &case_err));
        if (i % 3 == 0) ok(rt_cache_writer_commit(v, &case_err));
    }
    ok(rt_cache_writer_commit(w, &case_err));
    ok(rt_cache_writer_commit(v, &case_err));
    rt_cache_writer_free(w);
    rt_cache_writer_free(v);
    rt_cache_close(d);
    reopen(&c);
    for (uint64_t i = 0; i < 30; i++) expect_block(c, i, i < 10 ? 0x55 : 0xff);
    rt_hash128 two = content(c);
    rt_cache_close(c);
    c = new_cache(&topk, 1);
    ok(rt_cache_writer_new(&w, c, 0, &case_err));
    for (uint64_t i = 0; i < 30; i++) add(w, i, i < 10 ? 0x55 : 0xff);
    ok(rt_cache_writer_commit(w, &case_err));
    rt_cache_writer_free(w);
    assert_true(rt_hash_equal(two, content(c)));
    rt_cache_close(c);
}

/* A process that is killed leaves what it had committed, and a file that the next writer removes. */
static void test_killed(void **state)
{
    (void)state;
    char command[200];
    rt_cache_writer *w;
    rt_cache *c = new_cache(&topk, 1);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        ok(rt_cache_writer_new(&w, c, 0, &case_err));
        add(w, 1, 7);
        ok(rt_cache_writer_commit(w, &case_err));
        add(w, 2, 7);
        raise(SIGKILL);
    }
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFSIGNALED(status));
    snprintf(command, sizeof command, "find %s -name '*retort-tmp*' | grep -q .", case_path);
    assert_int_equal(system(command), 0);
    reopen(&c);
    expect_block(c, 1, 7);
    expect_block(c, 2, 0);
    ok(rt_cache_writer_new(&w, c, 0, &case_err));
    assert_int_not_equal(system(command), 0);
    add(w, 3, 7); /* and is not committed */
    rt_cache_writer_free(w);
    assert_int_not_equal(system(command), 0);
    reopen(&c);
    expect_block(c, 1, 7);
    expect_block(c, 3, 0);
    assert_int_equal(count_files(), 1);
    rt_cache_close(c);
    c = new_cache(&topk, 1); /* a writer that commits nothing leaves nothing */
    ok(rt_cache_writer_new(&w, c, 0, &case_err));
    add(w, 3, 7);
    rt_cache_writer_free(w);
    snprintf(command, sizeof command, "test $(ls -A %s) = cache.json", case_path);
    assert_int_equal(system(command), 0);
    rt_cache_close(c);
}

static void test_many_commits(void **state)
{
    (void)state;
    enum { COMMITS = 600 };
    rt_cache_writer *w;
    rt_cache *c = new_cache(&topk, 1);
    for (uint64_t i = 0; i < COMMITS; i++) {
        if (i % 100 == 0) ok(rt_cache_writer_new(&w, c, 0, &case_err)); /* others go on where one has ended */
        add(w, i, 3);
        if (i > 0) add(w, i - 1, 5);
        ok(rt_cache_writer_commit(w, &case_err));
        assert_true(count_files() <= 7 * 7);
        if (i % 100 == 99) rt_cache_writer_free(w);
    }
    for (int again = 0; again < 2; again++) {
        for (uint64_t i = 0; i < COMMITS; i++) expect_block(c, i, i + 1 < COMMITS ? 7 : 3);
        reopen(&c);
    }
    assert_int_equal(rt_cache_size_of(c, 0).positions, 3 * COMMITS - 1);
    rt_cache_close(c);
}

static void test_merge(void **state)
{
    (void)state;
    char other[100];
    rt_cache_section two[2] = { topk, { RT_KEEP_HIDDEN, 32, .T = 1, .dtype = RT_DTYPE_BF16 } };
    rt_cache *a = new_cache(two, 2), *b = NULL, *whole, *another = NULL;
    write_one(a, 0, DIST_REAL, VOCAB, 1, 0xf1);
    write_one(a, 0, DIST_REAL, VOCAB, 2, 0xff);
    rt_cache_close(a);
    snprintf(other, sizeof other, "%s/b", case_root);
    assert_int_equal(rename(case_path, other), 0);
    ok(rt_cache_open(&a, other, &case_err));
    b = new_cache(two, 2);
    write_one(b, 0, DIST_REAL, VOCAB, 1, 0x3c);
    write_one(b, 1, DIST_REAL, VOCAB, 1, 0x3c);
    write_one(b, 0, DIST_REAL, VOCAB, 3, 0x1);
    ok(rt_cache_merge(b, a, NULL, &case_err));
    expect_block(b, 1, 0xfd);
    expect_block(b, 2, 0xff);
    expect_block(b, 3, 0x1);
    rt_hash128 merged = content(b);
    ok(rt_cache_merge(b, a, NULL, &case_err)); /* nothing more */
    assert_int_equal(rt_cache_size_of(b, 0).positions, 7 + 8 + 1);
    assert_int_equal(rt_cache_size_of(b, 1).positions, 4);
    refused(rt_cache_merge(b, b, NULL, &case_err), RT_INVALID, "itself");
    rt_cache_close(b);
    whole = new_cache(two, 2);
    write_one(whole, 0, DIST_REAL, VOCAB, 3, 0x1);
    write_one(whole, 0, DIST_REAL, VOCAB, 2, 0xff);
    write_one(whole, 0, DIST_REAL, VOCAB, 1, 0xfd);
    assert_true(rt_hash_equal(merged, content(whole)));
    rt_cache_close(whole);
    another = new_cache(&topk, 1);
    refused(rt_cache_merge(another, a, NULL, &case_err), RT_INVALID, "store different things");
    rt_cache_close(another);
    rt_cache_close(a);
    remove_all(other);
}

/* Stops at the first word. */
static int stop_now(void *ctx, const char *what, uint64_t done, uint64_t total)
{
    *(const char **)ctx = what;
    return done <= total;
}

/* A large cache takes a while to be read or joined: that is told, and can be stopped. */
static void test_watched(void **state)
{
    (void)state;
    char other[100];
    const char *said = NULL;
    rt_hash128 h;
    const rt_watch watch = { stop_now, (void *)&said };
    rt_cache *a = new_cache(&topk, 1), *b = NULL;
    write_one(a, 0, DIST_REAL, VOCAB, 1, 0xf1);
    refused(rt_cache_content(a, 0, &watch, &h, NULL, &case_err), RT_INTERRUPTED, "");
    assert_string_equal(said, "reading the cache");
    rt_cache_close(a);
    snprintf(other, sizeof other, "%s/b", case_root);
    assert_int_equal(rename(case_path, other), 0);
    ok(rt_cache_open(&a, other, &case_err));
    b = new_cache(&topk, 1);
    refused(rt_cache_merge(b, a, &watch, &case_err), RT_INTERRUPTED, "");
    assert_string_equal(said, "joining caches");
    assert_int_equal(count_files(), 0);
    ok(rt_cache_merge(b, a, NULL, &case_err));
    expect_block(b, 1, 0xf1);
    rt_cache_close(a);
    rt_cache_close(b);
    remove_all(other);
}

static void test_created(void **state)
{
    (void)state;
    char file[200];
    const rt_cache_section *s;
    rt_cache_section all[4] = { topk,
                                { RT_KEEP_TOPK, 300, .T = 0.5f, .exact = true },
                                { RT_KEEP_DRAWS, 50, .T = 1 },
                                { RT_KEEP_HIDDEN, 32, .T = 1, .dtype = RT_DTYPE_F16 } };
    rt_cache *c = new_cache(all, 4), *d;
    assert_int_equal(rt_cache_sections(c, &s), 4);
    for (int i = 0; i < 4; i++) {
        assert_true(s[i].keep == all[i].keep && s[i].n == all[i].n && s[i].T == all[i].T && s[i].exact == all[i].exact);
        assert_true(s[i].dtype == all[i].dtype && s[i].target == all[i].target);
    }
    assert_string_equal(json_string_value(json_object_get(rt_cache_about(c), "teacher")), "a model");
    assert_true(rt_cache_is(case_path));
    assert_false(rt_cache_is(case_root));
    assert_string_equal(rt_keep_name(RT_KEEP_DRAWS), "draws");
    refused(rt_cache_create(case_path, NULL, all, 4, &case_err), RT_INVALID, "not an empty folder");
    rt_cache_close(c);
    refused(rt_cache_open(&d, case_root, &case_err), RT_NOT_FOUND, "cache.json");
    all[0].n = 0;
    snprintf(file, sizeof file, "%s/x", case_root);
    refused(rt_cache_create(file, NULL, all, 1, &case_err), RT_INVALID, "size");
    refused(rt_cache_create(file, NULL, all, 0, &case_err), RT_INVALID, "sections");
    all[2].target = true;
    refused(rt_cache_create(file, NULL, all + 2, 1, &case_err), RT_INVALID, "targets");
    json_t *about = json_pack("{s:i}", "version", 7);
    refused(rt_cache_create(file, about, all + 1, 1, &case_err), RT_INVALID, "version");
    json_decref(about);
    assert_false(rt_path_exists(file));
    /* A newer one. */
    json_t *newer = json_pack("{s:s, s:i, s:[]}", "format", "retort teacher cache", "version", 2, "sections");
    snprintf(file, sizeof file, "%s/cache.json", case_path);
    ok(rt_checked_json_write(file, newer, NULL, &case_err));
    json_decref(newer);
    refused(rt_cache_open(&d, case_path, &case_err), RT_FORMAT, "use a newer retort");
}

/* ---- threads ---- */

enum { THREADS = 3, ROUNDS = 60 };

static const rt_cache *shared;
static atomic_bool writing;

static void *read_again_and_again(void *arg)
{
    (void)arg;
    rt_cache_block r = new_block(&topk);
    uintptr_t bad = 0;
    for (uint64_t i = 0; atomic_load(&writing) || i % 8; i++) {
        rt_hash128 key = key_of(i % ROUNDS);
        rt_err e = { 0 };
        uint64_t have = rt_cache_have(shared, 0, &key);
        if (have && (have != 3 || rt_cache_get(shared, 0, &key, have, &r, &e) < 0)) bad++;
    }
    free_block(&r);
    return (void *)bad;
}

/* While one thread commits, and joins files, others read. */
static void test_threads(void **state)
{
    (void)state;
    pthread_t threads[THREADS];
    rt_cache_writer *w;
    rt_cache *c = new_cache(&topk, 1);
    shared = c;
    atomic_store(&writing, true);
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, read_again_and_again, NULL), 0);
    ok(rt_cache_writer_new(&w, c, 0, &case_err));
    for (uint64_t i = 0; i < ROUNDS; i++) {
        add(w, i, 3);
        ok(rt_cache_writer_commit(w, &case_err));
    }
    rt_cache_writer_free(w);
    atomic_store(&writing, false);
    for (int i = 0; i < THREADS; i++) {
        void *bad;
        assert_int_equal(pthread_join(threads[i], &bad), 0);
        assert_null(bad);
    }
    for (uint64_t i = 0; i < ROUNDS; i++) expect_block(c, i, 3);
    rt_cache_close(c);
}

/* ---- damage ---- */

/* The whole block of a seed as it is read, or a message. */
static bool read_all(uint64_t seed, rt_cache_block *r)
{
    rt_cache *c = NULL;
    rt_hash128 key = key_of(seed);
    case_err = (rt_err){ 0 };
    bool read = rt_cache_open(&c, case_path, &case_err) == RT_OK;
    if (read) assert_true(rt_cache_have(c, 0, &key) == 0x7);
    read = read && rt_cache_get(c, 0, &key, 0x7, r, &case_err) == RT_OK;
    if (!read) assert_true(case_err.text[0] && case_err.status == RT_FORMAT);
    rt_cache_close(c);
    return read;
}

static void alter(const char *path, long at, uint8_t with)
{
    int fd = open(path, O_RDWR);
    uint8_t byte = 0;
    assert_true(fd >= 0 && pread(fd, &byte, 1, at) == 1);
    byte ^= with;
    assert_int_equal(pwrite(fd, &byte, 1, at), 1);
    close(fd);
}

static void test_every_byte(void **state)
{
    (void)state;
    static const char *const names[] = { "cache.json", "part-0/00000001.rtcache", "part-0/retort.lock" };
    char path[200];
    rt_cache_block b = new_block(&topk), r = new_block(&topk);
    rt_cache *c = new_cache(&topk, 1);
    write_one(c, 0, DIST_REAL, VOCAB, 1, 0x7);
    rt_cache_close(c);
    assert_true(read_all(1, &b));
    for (int f = 0; f < 3; f++) {
        uint64_t size, through = 0;
        snprintf(path, sizeof path, "%s/%s", case_path, names[f]);
        ok(rt_file_size(path, &size, &case_err));
        assert_true(size > 60 && size < MOST_FILE);
        for (uint64_t at = 0; at < size; at++)
            for (int i = 0; i < 3; i++) {
                const uint8_t with[] = { 1, 0x80, 0xff };
                alter(path, (long)at, with[i]);
                bool read = read_all(1, &r);
                through += read;
                if (read) {
                    assert_memory_equal(b.id, r.id, 3 * K * 4);
                    assert_memory_equal(b.logp, r.logp, 3 * K * 4);
                    assert_memory_equal(b.rest, r.rest, 3 * 4);
                    assert_memory_equal(b.target, r.target, 3 * 4);
                    assert_memory_equal(b.target_logp, r.target_logp, 3 * 4);
                }
                alter(path, (long)at, with[i]);
            }
        if (f < 2) assert_true(through <= 3 * 7); /* zeros before the index */
    }
    /* Cut anywhere, or with bytes behind it. */
    snprintf(path, sizeof path, "%s/%s", case_path, names[1]);
    uint64_t size;
    ok(rt_file_size(path, &size, &case_err));
    assert_int_equal(truncate(path, (off_t)size + 8), 0);
    assert_false(read_all(1, &r));
    for (uint64_t n = size; n-- > 0;) {
        assert_int_equal(truncate(path, (off_t)n), 0);
        assert_false(read_all(1, &r));
    }
    free_block(&b);
    free_block(&r);
}

/* A file of another cache is not one of this, though it would fit. */
static void test_foreign_file(void **state)
{
    (void)state;
    char command[300];
    rt_cache *c = new_cache(&topk, 1), *d;
    write_one(c, 0, DIST_REAL, VOCAB, 1, 0x7);
    rt_cache_close(c);
    snprintf(command, sizeof command, "mv %s %s/other", case_path, case_root);
    assert_int_equal(system(command), 0);
    rt_cache_section s = topk;
    s.T = 2;
    rt_cache_close(new_cache(&s, 1));
    snprintf(command, sizeof command, "mv %s/other/part-0 %s/", case_root, case_path);
    assert_int_equal(system(command), 0);
    refused(rt_cache_open(&d, case_path, &case_err), RT_FORMAT, "does not belong to the cache");
}

/* Names that no writer gives are somebody's own: they are neither read nor replaced. */
static void test_names_of_others(void **state)
{
    (void)state;
    char command[800];
    rt_cache *c = new_cache(&topk, 1);
    write_one(c, 0, DIST_REAL, VOCAB, 1, 7);
    snprintf(command, sizeof command,
             "cd %s && echo x | tee part-0/1.rtcache part-0/000000001.rtcache part-0/0000000x.rtcache >/dev/null && "
             "mkdir part-00 part-007 && echo x | tee part-00/00000001.rtcache part-1x >/dev/null",
             case_path);
    assert_int_equal(system(command), 0);
    reopen(&c);
    expect_block(c, 1, 7);
    for (uint64_t i = 2; i < 20; i++) write_one(c, 0, DIST_REAL, VOCAB, i, 7); /* joined meanwhile */
    reopen(&c);
    for (uint64_t i = 1; i < 20; i++) expect_block(c, i, 7);
    snprintf(command, sizeof command,
             "cd %s && test $(cat part-0/1.rtcache part-0/000000001.rtcache part-1x | tr -d '\\n') = xxx", case_path);
    assert_int_equal(system(command), 0);
    rt_cache_close(c);
}

/* Whose lock, or folder, was taken away writes nothing more and removes nothing; nor does a file that has come under
 * the name of the next one go. */
static void test_taken_away(void **state)
{
    (void)state;
    static const char *const how[] = { "rm part-0/retort.lock", "mv part-0 gone && mkdir part-0",
                                       "mv part-0 gone && mkdir part-0 && echo x >part-0/retort.lock",
                                       "echo x >part-0/00000002.rtcache" };
    char command[800];
    for (int i = 0; i < 4; i++) {
        rt_cache_writer *w;
        rt_cache *c = new_cache(&topk, 1);
        ok(rt_cache_writer_new(&w, c, 0, &case_err));
        add(w, 1, 7);
        ok(rt_cache_writer_commit(w, &case_err));
        add(w, 2, 7);
        snprintf(command, sizeof command, "cd %s && %s && find part-0 gone -type f 2>/dev/null | sort >../before",
                 case_path, how[i]);
        assert_int_equal(system(command), 0);
        refused(rt_cache_writer_commit(w, &case_err), RT_INVALID,
                i < 3 ? "no longer belongs to this process" : "is not replaced");
        rt_cache_writer_free(w);
        snprintf(command, sizeof command,
                 "cd %s && find part-0 gone -type f 2>/dev/null | grep -v retort-tmp | sort >../after && "
                 "grep -v retort-tmp ../before | cmp -s - ../after && "
                 "test ! -s part-0/00000002.rtcache -o x = \"$(cat part-0/00000002.rtcache)\"",
                 case_path);
        if (system(command) != 0) fail_msg("%s", how[i]);
        rt_cache_close(c);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_names_of_others), cmocka_unit_test(test_taken_away),
        cmocka_unit_test(test_positions_join),  cmocka_unit_test(test_two_writers),
        cmocka_unit_test(test_killed),          cmocka_unit_test(test_many_commits),
        cmocka_unit_test(test_merge),           cmocka_unit_test(test_created),
        cmocka_unit_test(test_every_byte),      cmocka_unit_test(test_foreign_file),
        cmocka_unit_test(test_threads),         cmocka_unit_test(test_watched),
    };
    return cmocka_run_group_tests(tests, open_case, close_case);
}
