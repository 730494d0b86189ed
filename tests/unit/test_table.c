/* test_table.c - rows of Parquet, CSV and TSV files: golden ones, broken ones, and memory that runs out.
 *
 * The Parquet files are in tests/golden/tables, written by tools/gen_table_golden.py with the rows that pyarrow reads;
 * those in faults/ must be refused. tests/interop/test_parquet.py compares many more with pyarrow itself. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/file.h"
#include "memory_case.h"
#include "text/table/table.h"

#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define TABLES "tests/golden/tables/"

static const char *const golden[] = { "chat",          "nested",          "numbers",      "numbers_delta",
                                      "numbers_split", "numbers_rle",     "texts",        "texts_plain",
                                      "texts_length",  "texts_prefix",    "empty",        "left_out",
                                      "two_level",     "array_of_one",    "tuple_of_one", "bare_repeated",
                                      "bare_group",    "two_level_struct" };

/* ---- reading ---- */

/* All rows, a newline after each, or the status of what refused them. */
static int read_rows(const char *path, rt_table_kind kind, const char *const *columns, uint32_t count, rt_str *out,
                     rt_err *e)
{
    rt_table *t = NULL;
    int rc = rt_table_open(&t, path, kind, columns, count, e);
    while (rc >= 0 && (rc = rt_table_next(t, out, e)) == 1) rt_str_append(out, "\n");
    if (rc == 0) assert_int_equal(rt_table_next(t, out, e), 0); /* the end stays the end */
    rt_table_close(t);
    return rc;
}

static void expect_message(const rt_err *e, const char *words)
{
    char copy[300], *rest = copy;
    snprintf(copy, sizeof copy, "%s", words);
    for (char *word; (word = strsep(&rest, "|"));)
        if (!strstr(e->text, word)) fail_msg("'%s' is not in: %s", word, e->text);
}

/* A file that lives in memory alone. */
static void put_memory(char path[64], const void *data, size_t len)
{
    int fd = memfd_create("table", 0);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, data, len), (ssize_t)len);
    snprintf(path, 64, "/proc/self/fd/%d", fd);
}

static void drop_memory(const char *path)
{
    int fd;
    assert_int_equal(sscanf(path, "/proc/self/fd/%d", &fd), 1);
    close(fd);
}

/* ---- golden files ---- */

/* JSON values that are equal, numbers by value. */
static bool same(const json_t *a, const json_t *b)
{
    if (json_is_number(a) && json_is_number(b))
        return json_is_integer(a) == json_is_integer(b) ? json_equal(a, b)
                                                        : json_number_value(a) == json_number_value(b);
    if (json_typeof(a) != json_typeof(b)) return false;
    if (json_is_array(a)) {
        size_t n = json_array_size(a);
        for (size_t i = 0; i < n && n == json_array_size(b); i++)
            if (!same(json_array_get(a, i), json_array_get(b, i))) return false;
        return n == json_array_size(b);
    }
    if (json_is_object(a)) {
        const char *key;
        json_t *value;
        json_object_foreach((json_t *)(uintptr_t)a, key, value)
        {
            const json_t *other = json_object_get(b, key);
            if (!other || !same(value, other)) return false;
        }
        return json_object_size(a) == json_object_size(b);
    }
    return json_equal(a, b);
}

static void expect_rows(const char *name, rt_str got, rt_str want)
{
    char *a = got.data, *b = want.data;
    for (int row = 1;; row++) {
        char *x = a ? strsep(&a, "\n") : NULL, *y = b ? strsep(&b, "\n") : NULL;
        if (!(x && *x) && !(y && *y)) return;
        json_t *j = json_loads(x ? x : "", JSON_ALLOW_NUL, NULL), *k = json_loads(y ? y : "", JSON_ALLOW_NUL, NULL);
        if (!j || !k || !same(j, k)) fail_msg("%s, row %d: %s\nexpected %s", name, row, x ? x : "-", y ? y : "-");
        json_decref(j);
        json_decref(k);
    }
}

static void test_golden(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof golden / sizeof *golden; i++) {
        rt_err e = { 0 };
        rt_str got = { 0 }, want = { 0 };
        char path[200];
        snprintf(path, sizeof path, TABLES "%s.jsonl", golden[i]);
        assert_int_equal(rt_file_read(path, 1 << 20, &want, &e), RT_OK);
        snprintf(path, sizeof path, TABLES "%s.parquet", golden[i]);
        if (read_rows(path, RT_TABLE_PARQUET, NULL, 0, &got, &e) < 0) fail_msg("%s", e.text);
        expect_rows(golden[i], got, want);
        rt_str_free(&got);
        rt_str_free(&want);
    }
}

static void test_columns(void **state)
{
    (void)state;
    static const char *const some[] = { "text", "id", "none" }, *const none[] = { "nothing" };
    rt_err e = { 0 };
    rt_str got = { 0 };
    assert_int_equal(read_rows(TABLES "chat.parquet", RT_TABLE_PARQUET, some, 3, &got, &e), 0);
    assert_string_equal(got.data, "{\"id\":1}\n{\"id\":2}\n{\"id\":3}\n");
    got.len = 0;
    assert_int_equal(read_rows(TABLES "chat.parquet", RT_TABLE_PARQUET, none, 1, &got, &e), RT_INVALID);
    expect_message(&e, "chat.parquet|no column|id, messages");
    assert_int_equal(read_rows(TABLES "none.parquet", RT_TABLE_PARQUET, NULL, 0, &got, &e), RT_NOT_FOUND);
    rt_str_free(&got);
}

/* ---- faults ---- */

static void test_faults(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        int status;
        const char *words;
    } cases[] = {
        { "lzo", RT_UNSUPPORTED, "column text|LZO|ZSTD" },
        { "codec", RT_UNSUPPORTED, "column text|unknown codec (9)" },
        { "encrypted", RT_UNSUPPORTED, "column text|encrypted" },
        { "elsewhere", RT_UNSUPPORTED, "column text|another file" },
        { "int96", RT_UNSUPPORTED, "column text|INT96" },
        { "decimal", RT_UNSUPPORTED, "column text|decimal" },
        { "bit_packed", RT_UNSUPPORTED, "column text|BIT_PACKED" },
        { "no_dictionary", RT_UNSUPPORTED, "column text|RLE_DICTIONARY|dictionary is missing" },
        { "length", RT_FORMAT, "column text|values are broken" },
        { "more_rows", RT_FORMAT, "column text|ends before the last row" },
        { "fewer_rows", RT_FORMAT, "column text|more values than" },
        { "many_values", RT_FORMAT, "column text|levels are broken" },
        { "level", RT_FORMAT, "column text|levels are broken" },
        { "uneven", RT_FORMAT, "column m.b|ends before" },
        { "unfitting", RT_FORMAT, "column m.b|do not fit" },
        { "deep", RT_FORMAT, "nested too deeply" },
        { "snappy_size", RT_FORMAT, "column text|a page is broken" },
    };
    static const char *const columns[] = { "text", "m", "g" };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        rt_err e = { 0 };
        rt_str got = { 0 };
        char path[200];
        snprintf(path, sizeof path, TABLES "faults/%s.parquet", cases[i].name);
        int rc = read_rows(path, RT_TABLE_PARQUET, columns, 3, &got, &e);
        if (rc != cases[i].status) fail_msg("%s: status %d, %s", path, rc, e.text);
        expect_message(&e, cases[i].words);
        expect_message(&e, rt_path_base(path));
        rt_str_free(&got);
    }
}

/* What cannot be read is left out when nobody asked for it. */
static void test_left_out(void **state)
{
    (void)state;
    static const char *const asked[] = { "text", "day" };
    rt_err e = { 0 };
    rt_table *t = NULL;
    assert_int_equal(rt_table_open(&t, TABLES "left_out.parquet", RT_TABLE_PARQUET, NULL, 0, &e), RT_OK);
    assert_string_equal(rt_table_left_out(t), "day, nested");
    rt_table_close(t);
    assert_int_equal(rt_table_open(&t, TABLES "left_out.parquet", RT_TABLE_PARQUET, asked, 2, &e), RT_UNSUPPORTED);
    expect_message(&e, "column day|date");
    assert_int_equal(rt_table_open(&t, TABLES "faults/int96.parquet", RT_TABLE_PARQUET, NULL, 0, &e), RT_INVALID);
    expect_message(&e, "no column|text");
    assert_int_equal(rt_table_open(&t, TABLES "chat.parquet", RT_TABLE_PARQUET, NULL, 0, &e), RT_OK);
    assert_null(rt_table_left_out(t));
    rt_table_close(t);
}

/* Nothing of a file may be trusted: every file cut anywhere is refused, and with any byte changed it is read or
 * refused, with a message. */
static void test_alterations(void **state)
{
    (void)state;
    static const uint8_t flips[] = { 0x01, 0x80, 0xFF };
    for (size_t i = 0; i < sizeof golden / sizeof *golden; i++) {
        rt_err e = { 0 };
        rt_str file = { 0 }, got = { 0 };
        char path[200];
        snprintf(path, sizeof path, TABLES "%s.parquet", golden[i]);
        assert_int_equal(rt_file_read(path, 1 << 20, &file, &e), RT_OK);
        for (size_t n = 0; n < file.len; n++) {
            put_memory(path, file.data, n);
            got.len = 0;
            assert_int_equal(read_rows(path, RT_TABLE_PARQUET, NULL, 0, &got, &e), RT_FORMAT);
            drop_memory(path);
            for (size_t k = 0; k < sizeof flips; k++) {
                file.data[n] = (char)(file.data[n] ^ flips[k]);
                put_memory(path, file.data, file.len);
                file.data[n] = (char)(file.data[n] ^ flips[k]);
                got.len = 0;
                e = (rt_err){ 0 };
                int rc = read_rows(path, RT_TABLE_PARQUET, NULL, 0, &got, &e);
                if (rc != 0 && (!e.text[0] || (rc != RT_FORMAT && rc != RT_UNSUPPORTED && rc != RT_INVALID)))
                    fail_msg("%s, byte %d: status %d, '%s'", golden[i], (int)n, rc, e.text);
                drop_memory(path);
            }
        }
        rt_str_free(&file);
        rt_str_free(&got);
    }
}

/* A page with a checksum: any byte of it that changes is found. */
static void test_checksum(void **state)
{
    (void)state;
    rt_err e = { 0 };
    rt_str file = { 0 }, got = { 0 };
    char path[64];
    assert_int_equal(rt_file_read(TABLES "nested.parquet", 1 << 20, &file, &e), RT_OK);
    size_t found = 0;
    for (size_t n = 4; n < file.len / 3; n++) {
        file.data[n] ^= 4;
        put_memory(path, file.data, file.len);
        file.data[n] ^= 4;
        got.len = 0;
        int rc = read_rows(path, RT_TABLE_PARQUET, NULL, 0, &got, &e);
        found += rc == RT_FORMAT && strstr(e.text, "checksum");
        drop_memory(path);
    }
    assert_true(found > 50);
    rt_str_free(&file);
    rt_str_free(&got);
}

/* ---- CSV ---- */

static void test_csv(void **state)
{
    (void)state;
    static const struct {
        const char *file, *rows;
        rt_table_kind kind;
    } cases[] = {
        { "a,b\n1,2\n", "{\"a\":\"1\",\"b\":\"2\"}\n", RT_TABLE_CSV },
        { "\xEF\xBB\xBF"
          "a,b\r\n1,2\r\n3,4",
          "{\"a\":\"1\",\"b\":\"2\"}\n{\"a\":\"3\",\"b\":\"4\"}\n", RT_TABLE_CSV },
        { "a\n\"x, \"\"y\"\"\nz\"\n", "{\"a\":\"x, \\\"y\\\"\\nz\"}\n", RT_TABLE_CSV },
        { "a,b\n,\n\"\",\"\"\"\"\n", "{\"a\":\"\",\"b\":\"\"}\n{\"a\":\"\",\"b\":\"\\\"\"}\n", RT_TABLE_CSV },
        { "\n\na\n\n\r\n5\" pipe\n\n", "{\"a\":\"5\\\" pipe\"}\n", RT_TABLE_CSV },
        { "a\tb\n1,2\t\"x\ty\"\r\n", "{\"a\":\"1,2\",\"b\":\"x\\ty\"}\n", RT_TABLE_TSV },
        { "\"the \"\"key\"\"\",b\nx\\y,\x01\r\r\n", "{\"the \\\"key\\\"\":\"x\\\\y\",\"b\":\"\\u0001\\r\"}\n",
          RT_TABLE_CSV },
        { "a,b", "", RT_TABLE_CSV },
        { "a\n\"x\"", "{\"a\":\"x\"}\n", RT_TABLE_CSV },
        { "a\nx\r", "{\"a\":\"x\"}\n", RT_TABLE_CSV },
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        rt_err e = { 0 };
        rt_str got = { 0 };
        char path[64];
        rt_str_append(&got, "");
        put_memory(path, cases[i].file, strlen(cases[i].file));
        if (read_rows(path, cases[i].kind, NULL, 0, &got, &e) < 0) fail_msg("%s: %s", cases[i].file, e.text);
        assert_string_equal(got.data, cases[i].rows);
        drop_memory(path);
        rt_str_free(&got);
    }
}

static void test_csv_refused(void **state)
{
    (void)state;
    static const struct {
        const char *file;
        int status;
        const char *words;
    } cases[] = {
        { "", RT_FORMAT, "empty" },
        { "\r\n\n", RT_FORMAT, "empty" },
        { "a,b\n1,2\n\n3\n", RT_FORMAT, ":4:|fewer fields" },
        { "a,b\n\"1\n\n\",2\n3,4,5\n", RT_FORMAT, ":5:|more fields|2 columns" },
        { "a,b\n1,\"2\n3,4\n", RT_FORMAT, ":2:|never closed" },
        { "a,b\n1,\"2\n\n3\"4\n", RT_FORMAT, ":4:|after a closing quote" },
        { "a,a\n1,2\n", RT_FORMAT, "\"a\"|twice" },
        { "\"a", RT_FORMAT, ":1:|never closed" },
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        rt_err e = { 0 };
        rt_str got = { 0 };
        char path[64];
        put_memory(path, cases[i].file, strlen(cases[i].file));
        int rc = read_rows(path, RT_TABLE_CSV, NULL, 0, &got, &e);
        if (rc != cases[i].status) fail_msg("%s: status %d, %s", cases[i].file, rc, e.text);
        expect_message(&e, cases[i].words);
        drop_memory(path);
        rt_str_free(&got);
    }
}

/* Rows longer than what is read at once, and the lines that they begin in. */
static void test_csv_long(void **state)
{
    (void)state;
    enum { ROWS = 40, LENGTH = 300000 };
    static const char *const wanted[] = { "text" };
    rt_err e = { 0 };
    rt_str file = { 0 }, row = { 0 };
    rt_table *t = NULL;
    char path[64];
    rt_str_append(&file, "id,text\n");
    for (int i = 0; i < ROWS; i++) {
        rt_str_printf(&file, "%d,\"%d\n", i, i);
        for (int k = 0; k < i * LENGTH / ROWS; k++) rt_str_append_n(&file, k % 3 ? "x" : "\"\"", k % 3 ? 1 : 2);
        rt_str_append(&file, "\"\r\n");
    }
    put_memory(path, file.data, file.len);
    assert_int_equal(rt_table_open(&t, path, RT_TABLE_CSV, wanted, 1, &e), RT_OK);
    for (int i = 0; i < ROWS; i++) {
        row.len = 0;
        assert_int_equal(rt_table_next(t, &row, &e), 1);
        assert_int_equal(rt_table_line(t), 2 + 2 * i);
        json_t *j = json_loadb(row.data, row.len, 0, NULL);
        size_t digits = i < 10 ? 1 : 2;
        assert_int_equal(json_string_length(json_object_get(j, "text")), digits + 1 + (size_t)(i * LENGTH / ROWS));
        assert_int_equal(json_object_size(j), 1);
        json_decref(j);
    }
    assert_int_equal(rt_table_next(t, &row, &e), 0);
    assert_int_equal(rt_table_at(t), file.len);
    rt_table_close(t);
    drop_memory(path);
    rt_str_free(&file);
    rt_str_free(&row);
}

/* ---- memory ---- */

static int read_parquet(void *ctx, rt_err *e)
{
    rt_str got = { 0 };
    int rc = read_rows(ctx, RT_TABLE_PARQUET, NULL, 0, &got, e);
    rt_str_free(&got);
    return rc;
}

static int read_csv(void *ctx, rt_err *e)
{
    rt_str got = { 0 };
    int rc = read_rows(ctx, RT_TABLE_CSV, NULL, 0, &got, e);
    rt_str_free(&got);
    return rc;
}

static void test_memory(void **state)
{
    (void)state;
    static const char csv[] = "a,b\n1,\"2\"\"\"\n";
    char path[200];
    for (size_t i = 0; i < sizeof golden / sizeof *golden; i++) {
        snprintf(path, sizeof path, TABLES "%s.parquet", golden[i]);
        fail_each(read_parquet, path, 0);
    }
    put_memory(path, csv, sizeof csv - 1);
    fail_each(read_csv, path, 0);
    drop_memory(path);
}

int main(void)
{
    rt_json_init();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_golden),   cmocka_unit_test(test_columns),     cmocka_unit_test(test_faults),
        cmocka_unit_test(test_left_out), cmocka_unit_test(test_alterations), cmocka_unit_test(test_checksum),
        cmocka_unit_test(test_csv),      cmocka_unit_test(test_csv_refused), cmocka_unit_test(test_csv_long),
        cmocka_unit_test(test_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
