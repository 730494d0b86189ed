/* str.c - the growing string, byte counts and durations as text, and the nearest word.
 *
 * Owns: text that does not depend on the locale (numbers are cut and rounded as integers). Leaves JSON quoting to the
 * printers. */
#include "base/str.h"

#include "base/mem.h"

#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

enum {
    STR_FIRST = 256,
    NEAREST_MAX = 63, /* letters of a word that rt_nearest looks at */
    UNITS = 7,        /* B KiB MiB GiB TiB PiB EiB: all that fits in 64 bits */
};

rt_span rt_span_copy(rt_arena *a, const char *data, size_t len)
{
    char *copy = rt_arena_alloc(a, len + 1);
    if (copy && len > 0) memcpy(copy, data, len);
    return (rt_span){ copy, len };
}

/* Makes room for extra characters and the terminator. */
static bool str_reserve(rt_str *s, size_t extra)
{
    if (s->failed) return false;
    if (s->data && extra < s->cap - s->len) return true;
    s->failed = true;
    if (extra > PTRDIFF_MAX - 1 - s->len) return false;
    size_t need = s->len + extra + 1, cap = s->cap ? s->cap : STR_FIRST;
    while (cap < need) cap = cap <= PTRDIFF_MAX / 2 ? 2 * cap : need;
    char *data = rt_alloc(cap, 16);
    if (!data) return false;
    if (s->len > 0) memcpy(data, s->data, s->len);
    data[s->len] = '\0';
    rt_free(s->data);
    s->data = data;
    s->cap = cap;
    s->failed = false;
    return true;
}

void rt_str_append(rt_str *s, const char *text) { rt_str_append_n(s, text, strlen(text)); }

void rt_str_append_n(rt_str *s, const char *text, size_t n)
{
    if (!str_reserve(s, n)) return;
    if (n > 0) memcpy(s->data + s->len, text, n);
    s->len += n;
    s->data[s->len] = '\0';
}

void rt_str_vprintf(rt_str *s, const char *format, va_list args)
{
    va_list again;
    va_copy(again, args);
    int n = vsnprintf(NULL, 0, format, args);
    if (n < 0) {
        s->failed = true;
    } else if (str_reserve(s, (size_t)n)) {
        vsnprintf(s->data + s->len, (size_t)n + 1, format, again);
        s->len += (size_t)n;
    }
    va_end(again);
}

void rt_str_printf(rt_str *s, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    rt_str_vprintf(s, format, args);
    va_end(args);
}

void rt_str_free(rt_str *s)
{
    if (!s) return;
    rt_free(s->data);
    *s = (rt_str){ 0 };
}

/* bytes * scale / 2^shift, rounded half up */
static uint64_t scaled(uint64_t bytes, uint32_t scale, uint32_t shift)
{
    unsigned __int128 x = (unsigned __int128)bytes * scale;
    if (shift > 0) x += (unsigned __int128)1 << (shift - 1);
    return (uint64_t)(x >> shift);
}

char *rt_text_tame(char *text)
{
    for (unsigned char *p = (unsigned char *)text; *p; p++) {
        bool c1 = p[0] == 0xC2 && p[1] >= 0x80 && p[1] < 0xA0; /* U+0080 to U+009F in UTF-8 */
        if (c1) *p++ = '?';
        if (c1 || (*p < ' ' && *p != '\n' && *p != '\t') || *p == 127) *p = '?';
    }
    return text;
}

/* ---- words of a shell ---- */

/* $'...' of bash, zsh and the next POSIX shell: control characters would be obeyed by the terminal that shows them. */
static void append_escaped(rt_str *out, const char *path, size_t len)
{
    for (size_t i = 0; i < len; i++) {
        unsigned char c = (unsigned char)path[i];
        if (c < ' ' || c == 127)
            rt_str_printf(out, "\\x%02x", c);
        else
            rt_str_printf(out, "%s%c", c == '\'' || c == '\\' ? "\\" : "", c);
    }
}

static bool has_control(const char *text, size_t len)
{
    for (size_t i = 0; i < len; i++)
        if ((unsigned char)text[i] < ' ' || text[i] == 127) return true;
    return false;
}

void rt_str_append_word(rt_str *out, const char *path, const char *more)
{
    static const char plain[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_./-+=:,@%";
    if (!path) return;
    const char *here = path[0] == '-' ? "./" : ""; /* a path, not a flag */
    size_t len = strlen(path);
    while (len > 1 && path[len - 1] == '/') len--;
    if (len && strspn(path, plain) >= len && strspn(more, plain) == strlen(more)) {
        rt_str_printf(out, " %s%.*s%s", here, (int)len, path, more);
        return;
    }
    bool control = has_control(path, len);
    rt_str_printf(out, control ? " $'%s" : " '%s", here);
    if (control) append_escaped(out, path, len);
    for (size_t i = 0; i < len && !control; i++)
        rt_str_append_n(out, path[i] == '\'' ? "'\\''" : path + i, path[i] == '\'' ? 4 : 1);
    rt_str_printf(out, "%s'", more);
}

const char *rt_shell_word(struct rt_arena *a, const char *path)
{
    rt_str text = { 0 };
    rt_str_append_word(&text, path, "");
    const char *word = text.data && !text.failed ? rt_arena_strdup(a, text.data + 1) : NULL;
    rt_str_free(&text);
    return word ? word : path;
}

char *rt_format_bytes(char *buf, uint64_t bytes)
{
    static const char *const names[UNITS] = { "B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB" };
    enum { SIZE = 32 };
    uint32_t unit = 0;
    /* Rounding decides the unit: 1023.9 KiB is 1.00 MiB, not 1024 KiB. */
    while (unit + 1 < UNITS && scaled(bytes, 1, 10 * unit) >= 1024) unit++;
    uint32_t shift = 10 * unit;
    uint64_t hundredths = scaled(bytes, 100, shift), tenths = scaled(bytes, 10, shift);
    if (unit == 0) {
        snprintf(buf, SIZE, "%u B", (unsigned)bytes);
    } else if (hundredths < 1000) {
        snprintf(buf, SIZE, "%u.%02u %s", (unsigned)(hundredths / 100), (unsigned)(hundredths % 100), names[unit]);
    } else if (tenths < 1000) {
        snprintf(buf, SIZE, "%u.%u %s", (unsigned)(tenths / 10), (unsigned)(tenths % 10), names[unit]);
    } else {
        snprintf(buf, SIZE, "%u %s", (unsigned)scaled(bytes, 1, shift), names[unit]);
    }
    return buf;
}

static char lower(char c) { return c >= 'A' && c <= 'Z' ? (char)(c - 'A' + 'a') : c; }

/* "" and "b" are 1; a letter alone or with "ib" is binary, with "b" decimal. 0 when it is no unit. */
static uint64_t parse_unit(const char *text)
{
    static const char letters[] = "kmgtpe";
    char first = lower(text[0]);
    if (first == '\0' || (first == 'b' && text[1] == '\0')) return 1;
    const char *at = strchr(letters, first);
    if (!at) return 0;
    uint32_t power = (uint32_t)(at - letters) + 1;
    const char *rest = text + 1;
    if (rest[0] == '\0' || (lower(rest[0]) == 'i' && lower(rest[1]) == 'b' && rest[2] == '\0'))
        return UINT64_C(1) << (10 * power);
    if (lower(rest[0]) != 'b' || rest[1] != '\0') return 0;
    uint64_t unit = 1;
    while (power-- > 0) unit *= 1000;
    return unit;
}

static bool is_digit(char c) { return c >= '0' && c <= '9'; }

bool rt_parse_bytes(const char *text, uint64_t *out)
{
    uint64_t whole = 0, part = 0, part_unit = 1;
    if (!text || !is_digit(*text)) return false;
    for (; is_digit(*text); text++)
        if (!rt_mul_u64(whole, 10, &whole) || !rt_add_u64(whole, (uint64_t)(*text - '0'), &whole)) return false;
    bool has_part = *text == '.';
    if (has_part) {
        if (!is_digit(*++text)) return false;
        for (; is_digit(*text); text++) {
            if (part_unit >= UINT64_C(10000000000000000000)) continue; /* below a byte even of an EiB */
            part = part * 10 + (uint64_t)(*text - '0');
            part_unit *= 10;
        }
    }
    if (*text == ' ' && text[1] != '\0') text++;
    uint64_t unit = parse_unit(text), bytes;
    if (unit == 0 || (has_part && unit == 1)) return false;
    uint64_t part_bytes = (uint64_t)((unsigned __int128)part * unit / part_unit);
    if (!rt_mul_u64(whole, unit, &bytes) || !rt_add_u64(bytes, part_bytes, &bytes)) return false;
    *out = bytes;
    return true;
}

static uint32_t min_u32(uint32_t a, uint32_t b) { return a < b ? a : b; }

/* Insertions, deletions, substitutions and swaps of neighbours. Both words have at most NEAREST_MAX letters. */
static uint32_t edit_distance(const char *a, uint32_t na, const char *b, uint32_t nb)
{
    uint32_t rows[3][NEAREST_MAX + 1];
    uint32_t *before = rows[0], *above = rows[1], *row = rows[2]; /* prefixes of a: i-2, i-1, i letters */
    for (uint32_t j = 0; j <= nb; j++) above[j] = before[j] = j;
    for (uint32_t i = 1; i <= na; i++) {
        row[0] = i;
        for (uint32_t j = 1; j <= nb; j++) {
            uint32_t d = above[j - 1] + (a[i - 1] != b[j - 1]);
            d = min_u32(d, min_u32(above[j], row[j - 1]) + 1);
            if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1]) d = min_u32(d, before[j - 2] + 1);
            row[j] = d;
        }
        uint32_t *oldest = before;
        before = above;
        above = row;
        row = oldest;
    }
    return above[nb];
}

const char *rt_nearest(const char *word, const char *const *list)
{
    if (!word || !list) return NULL;
    uint32_t n = (uint32_t)strnlen(word, NEAREST_MAX + 1);
    if (n == 0 || n > NEAREST_MAX) return NULL;
    const char *best = NULL;
    uint32_t best_distance = 4;
    for (; *list; list++) {
        uint32_t m = (uint32_t)strnlen(*list, NEAREST_MAX + 1);
        if (m > NEAREST_MAX) continue;
        bool begins = strncmp(*list, word, n) == 0 && ((*list)[n] == '-' || (*list)[n] == '_');
        uint32_t d = begins ? 1 : edit_distance(word, n, *list, m);
        /* Three edits make another word of a part: eos_token is no pad_token. */
        if (d < best_distance && (d > 2 ? 5 : 3) * d <= (n > m ? n : m)) {
            best = *list;
            best_distance = d;
        }
    }
    return best;
}

char *rt_format_duration(char *buf, double seconds)
{
    uint64_t s = seconds > 0 && isfinite(seconds) && seconds < 1e15 ? (uint64_t)(seconds + 0.5) : 0;
    if (s < 3600)
        snprintf(buf, 32, "%" PRIu64 ":%02" PRIu64, s / 60, s % 60);
    else
        snprintf(buf, 32, "%" PRIu64 "h%02" PRIu64, s / 3600, s / 60 % 60);
    return buf;
}

char *rt_format_seconds(char *buf, double s)
{
    if (s < 0.9995)
        snprintf(buf, 32, "%.3g ms", 1e3 * s);
    else if (s < 99.95)
        snprintf(buf, 32, "%.3g s", s);
    else
        snprintf(buf, 32, "%.3g min", s / 60);
    return buf;
}
