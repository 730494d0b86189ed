/* table_rows.h - for the fuzz targets of tables: a file of any bytes read as rows, each of them checked. */
#ifndef RT_TESTS_FUZZ_TABLE_ROWS_H
#define RT_TESTS_FUZZ_TABLE_ROWS_H

#include "base/json.h"
#include "base/utf8.h"
#include "text/table/table.h"

#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { MOST_ROWS = 500, MOST_BYTES = 16 << 20 };

static void require(int ok)
{
    if (!ok) __builtin_trap();
}

/* jansson takes no zero in a key, and has no integers above 63 bits; the rest must be an object. */
static void check_row(const rt_str *row)
{
    if (row->len > 1 << 20 || rt_utf8_valid(row->data, row->len) != row->len) return;
    if (memmem(row->data, row->len, "\\u0000", 6)) return;
    json_t *j = json_loadb(row->data, row->len, JSON_DECODE_INT_AS_REAL, NULL);
    require(json_is_object(j) && json_object_size(j) > 0);
    json_decref(j);
}

static void read_table(const uint8_t *data, size_t size, rt_table_kind kind, const char *const *columns, uint32_t count)
{
    rt_err e = { 0 };
    rt_str row = { 0 };
    rt_table *t = NULL;
    char path[64];
    uint64_t line = 0, bytes = 0;
    int fd = memfd_create("fuzz", 0);
    rt_json_init();
    require(fd >= 0 && write(fd, data, size) == (ssize_t)size);
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    int rc = rt_table_open(&t, path, kind, columns, count, &e);
    for (int n = 0; rc >= 0 && n < MOST_ROWS && bytes < MOST_BYTES && (rc = rt_table_next(t, &row, &e)) == 1; n++) {
        require(rt_table_line(t) > line && rt_table_at(t) <= size);
        line = rt_table_line(t);
        check_row(&row);
        bytes += row.len;
        row.len = 0;
    }
    require(rc >= 0 || ((rc == RT_FORMAT || rc == RT_INVALID || rc == RT_UNSUPPORTED) && e.text[0]));
    rt_table_close(t);
    rt_str_free(&row);
    close(fd);
}

#endif
