/* format_case.h - for tests of the format room: an allocator that fails on demand, a temporary folder, small files. */
#ifndef RT_TESTS_FORMAT_CASE_H
#define RT_TESTS_FORMAT_CASE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/file.h"
#include "base/json.h"
#include "base/mem.h"

#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* ---- memory ---- */

static int64_t allowed = -1; /* allocations until the one that fails; negative: all are allowed */

static inline void *failing_alloc(void *ctx, size_t bytes, size_t align)
{
    (void)ctx;
    if (allowed == 0) return NULL;
    if (allowed > 0) allowed--;
    void *p = NULL;
    return posix_memalign(&p, align < sizeof(void *) ? sizeof(void *) : align, bytes) == 0 ? p : NULL;
}

static inline void failing_free(void *ctx, void *p)
{
    (void)ctx;
    free(p);
}

/* Runs work until no allocation fails: each failure must be RT_NOMEM with a message and leave nothing behind. work
 * answers its status; `optional` allocations may be lost without one (a note for a person). step: only every so many,
 * where one turn takes long. */
static inline void fail_every(uint64_t step, int (*work)(void *ctx, rt_err *e), void *ctx, int optional)
{
    const rt_allocator failing = { failing_alloc, failing_free, NULL };
    rt_err e = { 0 };
    rt_json_init();
    rt_allocator_set(&failing);
    allowed = -1;
    uint64_t before = rt_alloc_count(), live = rt_alloc_live();
    if (work(ctx, &e) < 0) fail_msg("without failures: %s", e.text);
    uint64_t total = rt_alloc_count() - before;
    assert_true(total > 0);
    for (uint64_t i = 0; i < total; i += step) {
        allowed = (int64_t)i;
        e = (rt_err){ 0 };
        int rc = work(ctx, &e);
        allowed = -1;
        if (rc == RT_OK && optional-- > 0) continue;
        if (rc != RT_NOMEM || !e.text[0])
            fail_msg("allocation %d of %d: status %d, '%s'", (int)i, (int)total, rc, e.text);
        if (rt_alloc_live() != live) fail_msg("allocation %d: %d blocks leaked", (int)i, (int)(rt_alloc_live() - live));
    }
    rt_allocator_set(NULL);
}

static inline void fail_each(int (*work)(void *ctx, rt_err *e), void *ctx, int optional)
{
    fail_every(1, work, ctx, optional);
}

/* ---- files ---- */

static char test_dir[64];

static inline int make_test_dir(void **state)
{
    (void)state;
    snprintf(test_dir, sizeof test_dir, "/tmp/retort-test-XXXXXX");
    return mkdtemp(test_dir) ? 0 : -1;
}

static inline int remove_entry(const char *path, const struct stat *s, int kind, struct FTW *w)
{
    (void)s, (void)kind, (void)w;
    return remove(path);
}

static inline int remove_test_dir(void **state)
{
    (void)state;
    return nftw(test_dir, remove_entry, 8, FTW_DEPTH | FTW_PHYS);
}

/* A path inside the test's folder; four can be used at a time. */
static inline const char *in_dir(const char *name)
{
    static char paths[4][512];
    static int next;
    char *p = paths[next++ % 4];
    snprintf(p, sizeof paths[0], "%s/%s", test_dir, name);
    return p;
}

/* Folders are made as needed. */
static inline void put_file(const char *name, const void *data, size_t n)
{
    char path[512];
    snprintf(path, sizeof path, "%s", in_dir(name));
    for (char *s = path + strlen(test_dir) + 1; (s = strchr(s, '/')); s++) {
        *s = 0;
        mkdir(path, 0777);
        *s = '/';
    }
    FILE *f = fopen(path, "wb");
    assert_non_null(f);
    assert_int_equal(fwrite(data, 1, n, f), n);
    assert_int_equal(fclose(f), 0);
}

static inline void put_text(const char *name, const char *text) { put_file(name, text, strlen(text)); }

/* The message holds every word, which are separated by '|'. */
static inline void assert_says(const rt_err *e, const char *words)
{
    char copy[300], *rest = copy;
    snprintf(copy, sizeof copy, "%s", words);
    for (char *w; (w = strsep(&rest, "|"));) {
        if (!strstr(e->text, w)) fail_msg("'%s' is not in: %s", w, e->text);
    }
}

#endif
