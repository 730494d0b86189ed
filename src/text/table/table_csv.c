/* table_csv.c - rows of CSV and TSV: RFC 4180, with or without carriage returns, compressed or not.
 *
 * Owns: where a field ends. A quote opens a field only as its first byte; elsewhere it is a letter like others. Blank
 * lines are no rows. The bytes of one row are held together, and doubled when they do not hold one, so that a long row
 * is not looked at again and again. */
#include "base/json.h"
#include "text/table/data_stream.h"
#include "text/table/table.h"
#include "text/table/table_internal.h"

#include <string.h>

enum { MAX_COLUMNS = 1 << 14 };

struct rt_csv {
    char *path;
    char separator;
    rt_data_stream *stream;
    bool ended;    /* the stream */
    rt_str held;   /* bytes of the file from the next row on */
    size_t at;     /* in held: the next row */
    uint64_t line; /* of the next row */
    rt_span *keys; /* (column_count) `"name":`; null data: not wanted */
    uint32_t column_count, keys_cap;
    rt_str unread;       /* names of those not asked for, each with a newline behind it */
    const char *fault;   /* of the row given last, which has more or fewer fields than the header; null: none */
    uint32_t over_lines; /* of that row: quoted fields with newlines in them */
    rt_arena arena;
};

uint64_t rt_csv_at(const rt_csv *c) { return rt_data_stream_at(c->stream); }

bool rt_csv_reads(const rt_csv *c, const char *column)
{
    for (uint32_t i = 0; i < c->column_count; i++)
        if (c->keys[i].data && rt_table_is_key(c->keys[i], column)) return true;
    return false;
}

const char *rt_csv_fault(const rt_csv *c) { return c->fault; }
uint32_t rt_csv_over_lines(const rt_csv *c) { return c->over_lines; }
const char *rt_csv_unread(const rt_csv *c) { return c->unread.len ? c->unread.data : NULL; }

void rt_csv_close(rt_csv *c)
{
    if (!c) return;
    rt_data_stream_close(c->stream);
    rt_str_free(&c->held);
    rt_str_free(&c->unread);
    rt_free(c->keys);
    rt_arena_free(&c->arena);
    rt_free(c);
}

/* ---- bytes ---- */

/* Twice as many bytes as are held, or all that are left. */
static int fill(rt_csv *c, rt_err *e)
{
    const char *data;
    size_t len, have = c->held.len - c->at;
    if (have > RT_TABLE_ROW_LIMIT)
        return rt_fail(e, RT_INVALID, "%s:%llu: a row of more than %d MiB; a closing quote may be missing", c->path,
                       (unsigned long long)c->line, RT_TABLE_ROW_LIMIT >> 20);
    if (have && c->at) memmove(c->held.data, c->held.data + c->at, have);
    c->held.len = have;
    c->at = 0;
    do {
        int rc = rt_data_stream_next(c->stream, &data, &len, e);
        if (rc < 0) return rc;
        if (len) rt_str_append_n(&c->held, data, len);
        c->ended = len == 0;
    } while (!c->ended && c->held.len < 2 * have);
    return c->held.failed ? rt_no_memory(e, c->path) : RT_OK;
}

/* ---- fields ---- */

typedef enum { WHOLE, CUT, BAD } outcome; /* CUT: the bytes end before the field does */

typedef struct field {
    rt_span text;  /* without its quotes */
    bool quoted;   /* two quotes in it stand for one */
    bool last;     /* of its row */
    size_t end;    /* where the next field begins */
    uint64_t line; /* newlines in it */
} field;

static uint64_t newlines(const char *p, size_t len)
{
    uint64_t n = 0;
    for (const char *end = p + len; p < end && (p = memchr(p, '\n', (size_t)(end - p))); p++) n++;
    return n;
}

/* What ends a field at p: a separator, a line's end, or the end of the file. */
static outcome take_end(const rt_csv *c, size_t p, field *f)
{
    const char *d = c->held.data;
    size_t len = c->held.len;
    if (p < len && d[p] == '\r') {
        if (p + 1 == len && !c->ended) return CUT;
        if (p + 1 == len || d[p + 1] == '\n') p++;
    }
    f->last = p == len || d[p] == '\n';
    if (p == len && !c->ended) return CUT;
    f->end = p + (p < len);
    return f->last || d[p] == c->separator ? WHOLE : BAD;
}

static outcome take_quoted(const rt_csv *c, size_t p, field *f)
{
    const char *d = c->held.data, *end = d + c->held.len, *from = d + p + 1;
    f->quoted = true;
    for (const char *q = from;; q += 2) {
        q = q < end ? memchr(q, '"', (size_t)(end - q)) : NULL;
        if (!q) return c->ended ? BAD : CUT;
        if (q + 1 == end && !c->ended) return CUT;
        if (q + 1 < end && q[1] == '"') continue;
        f->text = (rt_span){ from, (size_t)(q - from) };
        f->line = newlines(from, f->text.len);
        return take_end(c, (size_t)(q + 1 - d), f);
    }
}

static outcome take_field(const rt_csv *c, size_t p, field *f)
{
    const char *d = c->held.data, *end = d + c->held.len, *from = d + p;
    *f = (field){ .text = { from, 0 } };
    if (from < end && *from == '"') return take_quoted(c, p, f);
    const char *q = from;
    while (q < end && *q != c->separator && *q != '\n') q++;
    if (q == end && !c->ended) return CUT;
    /* A carriage return belongs to the end of its line. */
    if (q > from && q[-1] == '\r' && (q == end || *q == '\n')) q--;
    f->text.len = (size_t)(q - from);
    return take_end(c, (size_t)(q - d), f);
}

/* The field as JSON: quotes that were doubled are single ones. */
static void put_field(rt_str *out, const field *f)
{
    const char *p = f->text.data, *end = p + f->text.len, *q;
    rt_str_append_n(out, "\"", 1);
    while (f->quoted && p < end && (q = memchr(p, '"', (size_t)(end - p)))) {
        rt_json_put_escaped(out, p, (size_t)(q + 1 - p));
        p = q + 2;
    }
    if (p < end) rt_json_put_escaped(out, p, (size_t)(end - p));
    rt_str_append_n(out, "\"", 1);
}

/* ---- rows ---- */

static int bad_field(const rt_csv *c, uint64_t line, const field *f, rt_err *e)
{
    if (c->ended && !f->text.len && !f->end)
        return rt_fail(e, RT_FORMAT, "%s:%llu: the quote that opens here is never closed", c->path,
                       (unsigned long long)line);
    return rt_fail(e, RT_FORMAT, "%s:%llu: text after a closing quote; a quote inside a quoted field is doubled",
                   c->path, (unsigned long long)(line + f->line));
}

static int ragged(rt_csv *c, bool more, uint64_t line, rt_err *e)
{
    c->fault =
        rt_arena_printf(&c->arena, "%s fields than the %u columns of the header; a field with a separator needs quotes",
                        more ? "more" : "fewer", c->column_count);
    if (!c->fault) return rt_no_memory(e, c->path);
    return rt_fail(e, RT_FORMAT, "%s:%llu: %s", c->path, (unsigned long long)line, c->fault);
}

/* The row at c->at into out. 1: taken; 0: the held bytes do not hold all of it; negative: a status. */
static int take_row(rt_csv *c, rt_str *out, rt_err *e)
{
    size_t p = c->at;
    uint64_t line = c->line, begin = c->line;
    bool any = false;
    field f = { 0 };
    uint32_t i = 0, over_lines = 0;
    rt_str_append_n(out, "{", 1);
    for (; !f.last; i++) {
        outcome got = take_field(c, p, &f);
        if (got == CUT) return 0;
        if (got == BAD) return bad_field(c, line, &f, e);
        line += f.line;
        p = f.end;
        over_lines += f.line > 0;
        if (i >= c->column_count || !c->keys[i].data) continue;
        if (any) rt_str_append_n(out, ",", 1);
        any = true;
        rt_str_append_n(out, c->keys[i].data, c->keys[i].len);
        put_field(out, &f);
    }
    rt_str_append_n(out, "}", 1);
    c->at = p;
    c->line = line + 1;
    c->over_lines = over_lines;
    if (i != c->column_count) return ragged(c, i > c->column_count, begin, e);
    return out->failed ? rt_no_memory(e, "a record") : 1;
}

/* Moves over line ends. 1: something follows; 0: nothing. */
static int pass_blank(rt_csv *c, rt_err *e)
{
    for (;;) {
        if (c->at < c->held.len) {
            char b = c->held.data[c->at];
            if (b == '\r' && c->at + 1 < c->held.len && c->held.data[c->at + 1] != '\n') return 1;
            if (b != '\n' && b != '\r') return 1;
            if (b == '\n' || c->at + 1 < c->held.len || c->ended) {
                c->line += b == '\n';
                c->at++;
                continue;
            }
        } else if (c->ended) {
            return 0;
        }
        int rc = fill(c, e);
        if (rc < 0) return rc;
    }
}

int rt_csv_next(rt_csv *c, rt_str *out, uint64_t *line, rt_err *e)
{
    size_t begin = out->len;
    int rc = pass_blank(c, e);
    if (rc <= 0) return rc;
    *line = c->line;
    c->fault = NULL;
    for (;;) {
        rc = take_row(c, out, e);
        if (rc != 0) return rc;
        out->len = begin;
        rc = fill(c, e);
        if (rc < 0) return rc;
    }
}

/* ---- the header ---- */

/* A column of the header; its name is in JSON, from which asked names differ in nothing but quotes and escapes. */
static int add_key(rt_csv *c, const rt_str *json, const char *const *columns, uint32_t count, rt_err *e)
{
    rt_span key = { NULL, 0 };
    if (c->column_count == MAX_COLUMNS) return rt_fail(e, RT_INVALID, "%s: more than %d columns", c->path, MAX_COLUMNS);
    if (!rt_grow((void **)&c->keys, &c->keys_cap, c->column_count + 1, sizeof *c->keys))
        return rt_no_memory(e, c->path);
    if (rt_table_asked((rt_span){ json->data + 1, json->len - 2 }, columns, count)) {
        key.data = rt_arena_printf(&c->arena, "%s:", json->data);
        if (!key.data) return rt_no_memory(e, c->path);
        key.len = strlen(key.data);
        for (uint32_t i = 0; i < c->column_count; i++)
            if (c->keys[i].len == key.len && memcmp(c->keys[i].data, key.data, key.len) == 0)
                return rt_fail(e, RT_FORMAT, "%s: the header has the column %.200s twice", c->path, json->data);
    } else {
        rt_str_append_n(&c->unread, json->data + 1, json->len - 2);
        rt_str_append_n(&c->unread, "\n", 1);
        if (c->unread.failed) return rt_no_memory(e, c->path);
    }
    c->keys[c->column_count++] = key;
    return RT_OK;
}

static int no_column(const rt_csv *c, const char *all, rt_err *e)
{
    const char *other = c->separator == '\t' ? ",;" : "\t;";
    const char *found = c->column_count == 1 ? strpbrk(all, other) : NULL;
    /* A tab is escaped in JSON. */
    if (c->column_count == 1 && c->separator != '\t' && strstr(all, "\\t")) found = "\t";
    if (found)
        return rt_fail(
            e, RT_INVALID,
            "%s: no column that is wanted is in it; its one column has a %s in its name: fields are separated "
            "by a comma in .csv and by a tab in .tsv, so name or write the file so",
            c->path,
            *found == '\t'  ? "tab"
            : *found == ';' ? ";"
                            : "comma");
    return rt_fail(e, RT_INVALID,
                   "%s: no column that is wanted is in it; its columns are %.200s; --columns says which are what",
                   c->path, all);
}

static int read_header(rt_csv *c, const char *const *columns, uint32_t count, rt_err *e)
{
    rt_str json = { 0 }, all = { 0 };
    int rc;
    field f = { 0 };
    RT_TRY(fill(c, e));
    if (c->held.len >= 3 && memcmp(c->held.data, "\xEF\xBB\xBF", 3) == 0) c->at = 3; /* a byte order mark */
    RT_TRY(pass_blank(c, e));
    if (rc == 0)
        RT_TRY(rt_fail(e, RT_FORMAT, "%s: the file is empty; its first line should name the columns", c->path));
    while (!f.last) {
        outcome got = take_field(c, c->at, &f);
        if (got == BAD) RT_TRY(bad_field(c, c->line, &f, e));
        if (got == CUT) {
            RT_TRY(fill(c, e));
            f.last = false;
            continue;
        }
        json.len = 0;
        put_field(&json, &f);
        if (json.failed) RT_TRY(rt_no_memory(e, c->path));
        RT_TRY(add_key(c, &json, columns, count, e));
        if (all.len < 200) rt_str_printf(&all, "%s%.*s", all.len ? ", " : "", 100, json.data);
        c->line += f.line;
        c->at = f.end;
    }
    c->line++;
    bool any = false;
    for (uint32_t i = 0; i < c->column_count; i++) any = any || c->keys[i].data;
    rc = any ? RT_OK : no_column(c, all.data ? all.data : "none", e);
out:
    rt_str_free(&json);
    rt_str_free(&all);
    return rc;
}

int rt_csv_open(rt_csv **out, const char *path, char separator, const char *const *columns, uint32_t count, rt_err *e)
{
    int rc;
    rt_csv *c = rt_alloc_zero(sizeof *c, 64);
    *out = NULL;
    if (!c) return rt_no_memory(e, path);
    c->separator = separator;
    c->line = 1;
    c->path = rt_arena_strdup(&c->arena, path);
    if (!c->path) RT_TRY(rt_no_memory(e, path));
    RT_TRY(rt_data_stream_open(&c->stream, path, e));
    RT_TRY(read_header(c, columns, count, e));
    *out = c;
    return RT_OK;
out:
    rt_csv_close(c);
    return rc;
}
