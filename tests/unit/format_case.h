/* format_case.h - for tests of the format room: a temporary folder, small files. */
#ifndef RT_TESTS_FORMAT_CASE_H
#define RT_TESTS_FORMAT_CASE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "temp_folder.h"

#include "base/file.h"
#include "memory_case.h"

#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* ---- files ---- */

static char test_dir[64];

static inline int make_test_dir(void **state)
{
    (void)state;
    snprintf(test_dir, sizeof test_dir, "%s/retort-test-XXXXXX", temp_folder());
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
