/* str.h - a growing string for printers, and text helpers that more than one room needs.
 *
 * Errors are sticky: after an allocation failure further appends do nothing and `failed` stays set, so printers carry
 * no checks and the caller asks once at the end. */
#ifndef RT_BASE_STR_H
#define RT_BASE_STR_H

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A piece of text or bytes that need not be terminated; data null: absent. */
typedef struct rt_span {
    const char *data;
    size_t len;
} rt_span;
struct rt_arena;
/* A copy in the arena with a zero after it; data is null when out of memory. */
rt_span rt_span_copy(struct rt_arena *a, const char *data, size_t len);

typedef struct rt_str {
    char *data; /* always terminated once anything was appended; null before */
    size_t len, cap;
    bool failed;
} rt_str;

void rt_str_append(rt_str *s, const char *text);
void rt_str_append_n(rt_str *s, const char *text, size_t n);
void rt_str_printf(rt_str *s, const char *format, ...) __attribute__((format(printf, 2, 3)));
void rt_str_vprintf(rt_str *s, const char *format, va_list args) __attribute__((format(printf, 2, 0)));
void rt_str_free(rt_str *s); /* accepts null; leaves an empty string */

/* Control characters, which a terminal would obey, become '?'; line breaks and tabs stay. For what people are told:
 * names in it come from files and may hold anything. Returns text. */
char *rt_text_tame(char *text);

/* " path" and more after it, quoted where a shell would need it: for commands that a person may copy. A slash at the
 * path's end is left out. path null: nothing. */
void rt_str_append_word(rt_str *s, const char *path, const char *more);
/* The same without the blank, in the arena; path itself when out of memory. */
const char *rt_shell_word(struct rt_arena *a, const char *path);

/* "1.50 GiB", "512 B": binary units, three significant digits. buf needs 32 bytes; returns buf. */
char *rt_format_bytes(char *buf, uint64_t bytes);
/* "512", "64K", "24GiB", "1.5G", "200MB": binary for K/KiB/M/MiB/..., decimal for KB/MB/GB. false when malformed. */
bool rt_parse_bytes(const char *text, uint64_t *out);
/* Of a null-terminated list, the entry nearest to word by edit distance, or null when none is near (more than
 * a third of the letters, or over 3, differ). A word left out at the end ("--loss" of "--loss-on") is one edit. */
const char *rt_nearest(const char *word, const char *const *list);

/* "0:45", "12:03", "8h05": for people. buf needs 32 bytes; returns buf. */
char *rt_format_duration(char *buf, double seconds);
/* "8.2 ms", "1.35 s", "2.5 min": of one thing. buf needs 32 bytes; returns buf. */
char *rt_format_seconds(char *buf, double seconds);

#endif
