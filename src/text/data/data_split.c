/* data_split.c - the records of data files, as bytes with their place: lines of JSONL, values of JSON, rows of
 * tables, whole texts.
 *
 * Owns: where a record begins and ends. A JSON value is found by its brackets and strings alone; whether it is JSON is
 * for data_record.c. No more than one record is held, so memory does not grow with the file. */
#include "text/data/data_internal.h"

#include <stdio.h>
#include <string.h>

static const char *path_of(const rt_raw_reader *r) { return r->list->files[r->file].path; }

static int too_long(const rt_raw_reader *r, uint64_t line, rt_err *e)
{
    return rt_fail(e, RT_INVALID, "%s:%llu: a record of more than %d MiB; cut it into several", path_of(r),
                   (unsigned long long)line, RT_RAW_LIMIT >> 20);
}

/* More bytes, when there are none left; len stays 0 at the end of the file. */
static int fill(rt_raw_reader *r, rt_err *e)
{
    if (r->len > 0) return RT_OK;
    int rc = rt_data_stream_next(r->stream, &r->data, &r->len, e);
    if (rc < 0) r->len = 0;
    if (rc < 0 || r->len == 0) return rc;
    r->bytes += r->len;
    if (!r->any && r->len >= 3 && memcmp(r->data, "\xEF\xBB\xBF", 3) == 0) {
        r->data += 3; /* a byte order mark is no part of a text */
        r->len -= 3;
        r->at = 3;
    }
    r->any = true;
    return r->len > 0 ? RT_OK : fill(r, e);
}

static void skip(rt_raw_reader *r, size_t n)
{
    r->data += n;
    r->len -= n;
}

/* ---- lines ---- */

static bool blank(const char *text, size_t len)
{
    for (size_t i = 0; i < len; i++)
        if (!strchr(" \t\r", text[i]) || !text[i]) return false;
    return true;
}

static int next_line(rt_raw_reader *r, rt_str *text, rt_raw *out, rt_err *e)
{
    for (;;) {
        int rc = fill(r, e);
        if (rc < 0) return rc;
        if (r->len == 0 && r->carry.len == 0) return 0;
        const char *nl = r->len ? memchr(r->data, '\n', r->len) : NULL;
        size_t n = nl ? (size_t)(nl - r->data) : r->len;
        if (r->carry.len + n > RT_RAW_LIMIT) return too_long(r, r->line, e);
        if (!nl && r->len > 0) {
            rt_str_append_n(&r->carry, r->data, n);
            if (r->carry.failed) return rt_no_memory(e, "a record");
            skip(r, n);
            continue;
        }
        size_t begin = text->len;
        if (r->carry.len) rt_str_append_n(text, r->carry.data, r->carry.len);
        if (n) rt_str_append_n(text, r->data, n);
        if (text->failed) return rt_no_memory(e, "a record");
        r->carry.len = 0;
        if (nl) skip(r, n + 1);
        uint64_t line = r->line++;
        size_t len = text->len - begin;
        if (len == 0 || blank(text->data + begin, len)) {
            text->len = begin;
            continue;
        }
        *out = (rt_raw){ .begin = begin, .len = len, .file = r->file, .line = line, .parts = RT_PART_WHOLE };
        return 1;
    }
}

/* ---- JSON values ---- */

static bool is_space(char c) { return c == ' ' || c == '\t' || c == '\r' || c == '\n'; }

static int not_a_record(const rt_raw_reader *r, char c, rt_err *e)
{
    char shown[8];
    snprintf(shown, sizeof shown, c > ' ' && c < 127 ? "%c" : "\\x%02x", (unsigned char)c);
    if (r->after_array)
        return rt_fail(e, RT_FORMAT,
                       "%s:%llu: '%s' behind the end of the array; one file holds one array of records, "
                       "or records one after the other",
                       path_of(r), (unsigned long long)r->line, shown);
    return rt_fail(e, RT_FORMAT,
                   "%s:%llu: '%s' where a record (a JSON object) should begin; broken JSON, or not an "
                   "array of records",
                   path_of(r), (unsigned long long)r->line, shown);
}

/* To the first byte of the next object. 1: there; 0: none follows. */
static int find_object(rt_raw_reader *r, rt_err *e)
{
    for (;;) {
        int rc = fill(r, e);
        if (rc < 0) return rc;
        if (r->len == 0) {
            if (!r->in_array) return 0;
            return rt_fail(e, RT_FORMAT, "%s:%llu: the file ends inside the array; it is cut off", path_of(r),
                           (unsigned long long)r->line);
        }
        char c = *r->data;
        if (c == '{' && !r->after_array) return 1;
        if (c == '\n') r->line++;
        if (c == '[' && !r->in_array && !r->begun && !r->after_array)
            r->in_array = true;
        else if (c == ']' && r->in_array) {
            r->in_array = false;
            r->after_array = true;
        } else if (!is_space(c) && !(c == ',' && r->in_array))
            return not_a_record(r, c, e);
        skip(r, 1);
    }
}

typedef struct scan {
    uint32_t depth;
    bool string, escape, done;
} scan;

/* How many bytes belong to the object, up to the end of it or of the block. */
static size_t scan_object(scan *s, const char *data, size_t len, uint64_t *line)
{
    for (size_t i = 0; i < len; i++) {
        char c = data[i];
        if (c == '\n') ++*line;
        if (s->escape) {
            s->escape = false;
        } else if (s->string) {
            if (c == '\\') s->escape = true;
            if (c == '"') s->string = false;
        } else if (c == '"') {
            s->string = true;
        } else if (c == '{' || c == '[') {
            s->depth++;
        } else if ((c == '}' || c == ']') && --s->depth == 0) {
            s->done = true;
            return i + 1;
        }
    }
    return len;
}

static int next_value(rt_raw_reader *r, rt_str *text, rt_raw *out, rt_err *e)
{
    int rc = find_object(r, e);
    if (rc <= 0) return rc;
    scan s = { 0 };
    size_t begin = text->len;
    uint64_t line = r->line;
    r->begun = true;
    while (!s.done) {
        rc = fill(r, e);
        if (rc < 0) return rc;
        if (r->len == 0)
            return rt_fail(e, RT_FORMAT,
                           "%s:%llu: the file ends inside the record that begins here; it is cut off or "
                           "a bracket or quote is missing",
                           path_of(r), (unsigned long long)line);
        size_t n = scan_object(&s, r->data, r->len, &r->line);
        if (text->len - begin + n > RT_RAW_LIMIT) return too_long(r, line, e);
        rt_str_append_n(text, r->data, n);
        if (text->failed) return rt_no_memory(e, "a record");
        skip(r, n);
    }
    *out = (rt_raw){ .begin = begin, .len = text->len - begin, .file = r->file, .line = line, .parts = RT_PART_WHOLE };
    return 1;
}

/* ---- plain text ---- */

/* A letter that no white space, no digit and no composition reaches across a newline: Latin, Cyrillic, most of CJK. */
static bool cut_before(unsigned char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == 0xD0 || c == 0xD1 || (c >= 0xE4 && c <= 0xEC);
}

/* The last place in text[from, len) where a text may be cut, or 0. */
static size_t last_cut(const char *text, size_t from, size_t len)
{
    for (size_t i = len; i-- > from + 1;)
        if (text[i - 1] == '\n' && cut_before((unsigned char)text[i])) return i;
    return 0;
}

static uint64_t count_lines(const char *text, size_t len)
{
    uint64_t n = 0;
    for (const char *p = text, *end = text + len; p < end && (p = memchr(p, '\n', (size_t)(end - p))); p++) n++;
    return n;
}

static int next_part(rt_raw_reader *r, rt_str *text, rt_raw *out, rt_err *e)
{
    int rc;
    size_t cut = 0, seen = 0;
    while (cut == 0) {
        if ((rc = fill(r, e)) < 0) return rc;
        if (r->len == 0) break;
        if (r->carry.len + r->len > RT_RAW_LIMIT)
            return rt_fail(e, RT_INVALID,
                           "%s: a text of more than %d MiB that cannot be cut at a line without changing "
                           "ids; split the file, or turn it into JSONL with one {\"text\": ...} per document",
                           path_of(r), RT_RAW_LIMIT >> 20);
        rt_str_append_n(&r->carry, r->data, r->len);
        if (r->carry.failed) return rt_no_memory(e, "a record");
        skip(r, r->len);
        if (r->cut_text && r->carry.len >= RT_RAW_PART) {
            cut = last_cut(r->carry.data, seen, r->carry.len);
            seen = r->carry.len - 1;
        }
    }
    if (cut == 0 && r->carry.len == 0 && !r->begun) return 0;
    bool last = cut == 0;
    size_t n = last ? r->carry.len : cut;
    *out = (rt_raw){ .begin = text->len,
                     .len = n,
                     .file = r->file,
                     .line = r->line,
                     .at = r->at,
                     .parts = (r->begun ? 0 : RT_PART_FIRST) | (last ? RT_PART_LAST : 0) };
    if (n) rt_str_append_n(text, r->carry.data, n);
    if (text->failed) return rt_no_memory(e, "a record");
    r->line += n ? count_lines(r->carry.data, n) : 0;
    if (n < r->carry.len) memmove(r->carry.data, r->carry.data + n, r->carry.len - n);
    r->carry.len -= n;
    r->at += n;
    r->begun = !last;
    return 1;
}

/* ---- tables ---- */

static int next_row(rt_raw_reader *r, rt_str *text, rt_raw *out, rt_err *e)
{
    size_t begin = text->len;
    int rc = rt_table_next(r->table, text, e);
    const char *fault = rc < 0 ? rt_table_fault(r->table) : NULL;
    if (rc <= 0 && !fault) return rc;
    if (fault) {
        text->len = begin;
        rt_str_append(text, fault);
        if (text->failed) return rt_no_memory(e, "a record");
    }
    size_t len = text->len - begin;
    r->bytes += len;
    *out = (rt_raw){ .begin = begin,
                     .len = len,
                     .file = r->file,
                     .line = rt_table_line(r->table),
                     .parts = RT_PART_WHOLE,
                     .fault = fault != NULL,
                     .over = r->list->files[r->file].format == RT_DATA_TSV ? rt_table_over_lines(r->table) : 0,
                     .unread = r->unread };
    return 1;
}

/* ---- files ---- */

static bool table_has(const void *table, const char *column) { return rt_table_reads(table, column); }

/* What of the first table of a source is not read, for a person to hear of. */
static int keep_unread(rt_raw_reader *r, rt_err *e)
{
    const char *unread = rt_table_unread(r->table);
    r->unread = NULL;
    if (!unread || r->list->sources[r->list->files[r->file].source].first_file != r->file) return RT_OK;
    r->unread = rt_arena_strdup(&r->arena, unread);
    return r->unread ? RT_OK : rt_no_memory(e, "the columns of a table");
}

static int open_table(rt_raw_reader *r, rt_table_kind kind, rt_err *e)
{
    const char *path = path_of(r);
    if (r->columns) return rt_table_open(&r->table, path, kind, r->columns->name, r->columns->count, e);
    if (r->all_columns) return rt_table_open(&r->table, path, kind, NULL, 0, e);
    int rc = rt_table_open(&r->table, path, kind, rt_record_keys, rt_record_key_count, e);
    if (rc < 0 || rt_record_shape_of(table_has, r->table) != RT_SHAPE_NONE) return rc;
    /* What it has makes no record: with all columns read, the error of the first row names them all. */
    rt_table_close(r->table);
    return rt_table_open(&r->table, path, kind, NULL, 0, e);
}

static int begin_file(rt_raw_reader *r, rt_data_format format, rt_err *e)
{
    r->line = 1;
    r->at = 0;
    r->begun = r->in_array = r->after_array = r->any = false;
    if (format < RT_DATA_PARQUET) return rt_data_stream_open(&r->stream, path_of(r), e);
    int rc = open_table(r,
                        format == RT_DATA_PARQUET ? RT_TABLE_PARQUET
                        : format == RT_DATA_CSV   ? RT_TABLE_CSV
                                                  : RT_TABLE_TSV,
                        e);
    return rc < 0 ? rc : keep_unread(r, e);
}

static void end_file(rt_raw_reader *r)
{
    rt_data_stream_close(r->stream);
    rt_table_close(r->table);
    r->stream = NULL;
    r->table = NULL;
    r->len = r->carry.len = 0;
    r->carry.failed = false;
}

int rt_raw_next(rt_raw_reader *r, rt_str *text, rt_raw *out, rt_err *e)
{
    while (r->file < r->end) {
        const rt_data_file *f = &r->list->files[r->file];
        int rc = r->stream || r->table ? RT_OK : begin_file(r, f->format, e);
        if (rc == RT_OK) {
            rc = r->table                    ? next_row(r, text, out, e)
                 : f->format == RT_DATA_TEXT ? next_part(r, text, out, e)
                 : f->format == RT_DATA_JSON ? next_value(r, text, out, e)
                                             : next_line(r, text, out, e);
        }
        if (rc != 0) return rc;
        end_file(r);
        r->disk += f->size;
        r->file++;
    }
    return 0;
}

void rt_raw_reader_free(rt_raw_reader *r)
{
    if (!r) return;
    end_file(r);
    rt_str_free(&r->carry);
    rt_arena_free(&r->arena);
}
