/* json.c - see json.h. */
#include "base/json.h"

#include "base/file.h"
#include "base/mem.h"
#include "base/utf8.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static _Thread_local bool out_of_memory, loading, unmade;

/* jansson 2.14's lexer keeps a word in a buffer of 16 bytes that it doubles, passes over what it cannot keep, and
 * asserts when that was a part of a number. So what asks for a power of two while a text is read, and gets no memory,
 * is served from here; the value that comes next is asked for in another size as a rule, and ends the reading. */
static _Thread_local _Alignas(16) char spare[8192];
static _Thread_local size_t spare_used;

static void *json_alloc(size_t bytes)
{
    void *p = rt_alloc(bytes, 16);
    if (p) return p;
    out_of_memory = true;
    unmade = unmade || !loading;
    if (!loading || bytes < 32 || (bytes & (bytes - 1)) || bytes > sizeof spare - spare_used) return NULL;
    spare_used += bytes;
    return spare + spare_used - bytes;
}

static void json_free(void *p)
{
    uintptr_t at = (uintptr_t)p, from = (uintptr_t)spare;
    if (at < from || at >= from + sizeof spare) rt_free(p);
}

static void set_alloc_funcs(void) { json_set_alloc_funcs(json_alloc, json_free); }

void rt_json_init(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, set_alloc_funcs);
}

bool rt_json_out_of_memory(void)
{
    bool was = out_of_memory;
    out_of_memory = false;
    return was;
}

/* A value takes up to 230 bytes as a tree and three as text: what nobody's document needs is not begun. */
static bool has_too_many(const char *text, size_t len)
{
    enum { MOST_VALUES = 4000000 }; /* the largest vocabularies have 2 million, merges counted as lists */
    size_t values = 0;
    bool quoted = false;
    for (size_t i = 0; len > MOST_VALUES && i < len; i++) {
        char c = text[i];
        if (c == '"') quoted = !quoted;
        if (c == '\\' && quoted) i++;
        values += !quoted && (c == ',' || c == '[' || c == '{');
    }
    return values > MOST_VALUES;
}

json_t *rt_json_load(const char *text, size_t len, size_t flags, json_error_t *at)
{
    rt_json_init();
    out_of_memory = false;
    spare_used = 0;
    if (has_too_many(text, len)) {
        if (at) *at = (json_error_t){ .line = 1, .text = "too many values for such a document" };
        return NULL;
    }
    loading = true;
    json_t *j = json_loadb(text ? text : "", len, flags, at);
    loading = false;
    if (!out_of_memory) return j;
    json_decref(j); /* it may lack bytes */
    return NULL;
}

/* ---- writing ---- */

void rt_json_forget(void) { unmade = false; }

char *rt_json_dump(const json_t *j, size_t flags)
{
    char *text = j && !unmade ? json_dumps(j, flags) : NULL;
    if (text && unmade) { /* the text itself lacks bytes */
        rt_free(text);
        text = NULL;
    }
    unmade = false;
    return text;
}

/* How many bytes from the start of text need no escape. */
static size_t plain_bytes(const char *text, size_t len)
{
    const uint64_t ones = 0x0101010101010101u, tops = 0x8080808080808080u;
    size_t i = 0;
    for (; len - i >= 8; i += 8) {
        uint64_t x, quote, slash;
        memcpy(&x, text + i, 8);
        quote = x ^ ones * '"';
        slash = x ^ ones * '\\';
        /* The top bit of a byte is set where it is below 0x20, a quote or a backslash. A borrow may also set it in a
         * byte after such a one, but never before. */
        uint64_t hits = (((x - ones * 0x20) & ~x) | ((quote - ones) & ~quote) | ((slash - ones) & ~slash)) & tops;
        if (hits && __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__) return i + (size_t)__builtin_ctzll(hits) / 8;
        if (hits) break;
    }
    for (; i < len; i++) {
        unsigned char c = (unsigned char)text[i];
        if (c < 0x20 || c == '"' || c == '\\') break;
    }
    return i;
}

/* What stands behind the backslash of a character that has a letter; else 0. */
static char letter_of(char c)
{
    switch (c) {
    case '"':
    case '\\': return c;
    case '\n': return 'n';
    case '\r': return 'r';
    case '\t': return 't';
    case '\b': return 'b';
    case '\f': return 'f';
    default: return 0;
    }
}

void rt_json_put_escaped(rt_str *s, const char *text, size_t len)
{
    for (;;) {
        size_t n = plain_bytes(text, len);
        if (n) rt_str_append_n(s, text, n);
        if (n == len) return;
        char letter = letter_of(text[n]);
        if (letter)
            rt_str_append_n(s, (char[]){ '\\', letter }, 2);
        else
            rt_str_printf(s, "\\u%04x", (unsigned char)text[n]);
        text += n + 1;
        len -= n + 1;
    }
}

bool rt_json_put_text(rt_str *s, const char *text, size_t len)
{
    if (rt_utf8_valid(text, len) != len) return false;
    rt_str_append_n(s, "\"", 1);
    rt_json_put_escaped(s, text, len);
    rt_str_append_n(s, "\"", 1);
    return true;
}

/* JSON readers take a number without point or exponent for an integer. */
static void put_number(rt_str *s, const char *digits)
{
    rt_str_append(s, digits);
    if (!strpbrk(digits, ".e")) rt_str_append(s, ".0");
}

void rt_json_put_double(rt_str *s, double x)
{
    char buf[40];
    for (int digits = 1; digits <= 17; digits++) {
        snprintf(buf, sizeof buf, "%.*g", digits, x);
        if (strtod(buf, NULL) == x) break;
    }
    put_number(s, buf);
}

void rt_json_put_float(rt_str *s, float x)
{
    char buf[40];
    for (int digits = 1; digits <= 9; digits++) {
        snprintf(buf, sizeof buf, "%.*g", digits, (double)x);
        if (strtof(buf, NULL) == x) break;
    }
    put_number(s, buf);
}

void rt_json_put_key(rt_str *s, const char *key)
{
    char last = s->len > 0 ? s->data[s->len - 1] : '{';
    rt_str_printf(s, "%s\"%s\":", last == '{' || last == '[' ? "" : ",", key);
}

/* ---- files ---- */

json_t *rt_hash_to_json(rt_hash128 h)
{
    char text[33];
    return json_string(rt_hash_text(text, h));
}

bool rt_hash_from_json(const json_t *j, rt_hash128 *h)
{
    const char *s = json_string_value(j);
    char *end;
    char half[17] = { 0 };
    if (!s || strlen(s) != 32) return false;
    memcpy(half, s, 16);
    h->hi = strtoull(half, &end, 16);
    if (*end) return false;
    h->lo = strtoull(s + 16, &end, 16);
    return !*end;
}

static const char hash_begin[] = ",\n  \"hash\": \"", hash_end[] = "\"\n}\n";
enum { HASH_TEXT = 32, HASH_TAIL = sizeof hash_begin - 1 + HASH_TEXT + sizeof hash_end - 1, MOST_BYTES = 64 << 20 };

int rt_checked_json_write(const char *path, const json_t *object, rt_hash128 *checksum, rt_err *e)
{
    int rc;
    rt_str checked = { 0 };
    char hash[HASH_TEXT + 1], *text = rt_json_dump(object, JSON_INDENT(2) | JSON_REAL_PRECISION(17));
    if (!text) RT_TRY(rt_no_memory(e, path));
    size_t n = strlen(text) - strlen("\n}");
    rt_str_append_n(&checked, text, n);
    rt_hash128 own = rt_hash(text, n);
    rt_str_printf(&checked, "%s%s%s", hash_begin, rt_hash_text(hash, own), hash_end);
    if (checked.failed) RT_TRY(rt_no_memory(e, path));
    RT_TRY(rt_file_write(path, checked.data, checked.len, e));
    if (checksum) *checksum = own;
out:
    rt_str_free(&checked);
    rt_free(text);
    return rc;
}

static bool checksum_holds(const rt_str *text)
{
    char hash[HASH_TEXT + 1];
    if (text->len < HASH_TAIL) return false;
    const char *tail = text->data + text->len - HASH_TAIL;
    rt_hash_text(hash, rt_hash(text->data, text->len - HASH_TAIL));
    return memcmp(tail, hash_begin, sizeof hash_begin - 1) == 0 &&
           memcmp(tail + sizeof hash_begin - 1, hash, HASH_TEXT) == 0 &&
           strcmp(tail + sizeof hash_begin - 1 + HASH_TEXT, hash_end) == 0;
}

/* A record says a thing once. */
static int parse(json_t **out, const rt_str *text, const char *path, rt_err *e)
{
    *out = rt_json_load(text->data, text->len, JSON_REJECT_DUPLICATES, NULL);
    if (*out) return RT_OK;
    return rt_json_out_of_memory() ? rt_no_memory(e, path) : rt_fail(e, RT_FORMAT, "%s is not JSON", path);
}

int rt_json_read(json_t **out, const char *path, rt_err *e)
{
    int rc;
    rt_str text = { 0 };
    *out = NULL;
    RT_TRY(rt_file_read(path, MOST_BYTES, &text, e));
    RT_TRY(parse(out, &text, path, e));
out:
    rt_str_free(&text);
    return rc;
}

int rt_checked_json_read(json_t **out, const char *path, rt_err *e)
{
    int rc;
    rt_str text = { 0 };
    *out = NULL;
    RT_TRY(rt_file_read(path, MOST_BYTES, &text, e));
    if (!checksum_holds(&text))
        RT_TRY(rt_fail(e, RT_FORMAT, "%s is damaged or was altered (its hash is another)", path));
    RT_TRY(parse(out, &text, path, e));
out:
    rt_str_free(&text);
    return rc;
}

int rt_checked_json_read_old(json_t **out, bool *checked, const char *path, rt_err *e)
{
    int rc;
    rt_str text = { 0 };
    *out = NULL;
    RT_TRY(rt_file_read(path, MOST_BYTES, &text, e));
    RT_TRY(parse(out, &text, path, e));
    *checked = checksum_holds(&text);
    if (!*checked && json_object_get(*out, "hash"))
        rc = rt_fail(e, RT_FORMAT, "%s is damaged or was altered (its hash is another)", path);
    json_object_del(*out, "hash");
out:
    rt_str_free(&text);
    return rc;
}
