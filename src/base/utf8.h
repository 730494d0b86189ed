/* utf8.h - UTF-8 in and out, and the repair of what is not UTF-8. */
#ifndef RT_BASE_UTF8_H
#define RT_BASE_UTF8_H

#include "base/str.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* The code point at p, which is the start of a character of valid UTF-8; *len gets its length in bytes. */
static inline uint32_t rt_utf8_get(const char *text, uint32_t *len)
{
    const unsigned char *p = (const unsigned char *)text;
    if (p[0] < 0x80) {
        *len = 1;
        return p[0];
    }
    if (p[0] < 0xE0) {
        *len = 2;
        return (uint32_t)(p[0] & 0x1F) << 6 | (p[1] & 0x3F);
    }
    if (p[0] < 0xF0) {
        *len = 3;
        return (uint32_t)(p[0] & 0x0F) << 12 | (uint32_t)(p[1] & 0x3F) << 6 | (p[2] & 0x3F);
    }
    *len = 4;
    return (uint32_t)(p[0] & 0x07) << 18 | (uint32_t)(p[1] & 0x3F) << 12 | (uint32_t)(p[2] & 0x3F) << 6 | (p[3] & 0x3F);
}

/* Length of the character that starts with this byte, in valid UTF-8. */
static inline uint32_t rt_utf8_len(char first)
{
    unsigned char c = (unsigned char)first;
    return c < 0x80 ? 1 : c < 0xE0 ? 2 : c < 0xF0 ? 3 : 4;
}

/* Start of the character before p; start < p, valid UTF-8. */
static inline const char *rt_utf8_before(const char *start, const char *p)
{
    do p--;
    while (p > start && ((unsigned char)*p & 0xC0) == 0x80);
    return p;
}

/* Characters of valid UTF-8. */
static inline size_t rt_utf8_count(const char *text, size_t len)
{
    size_t n = 0;
    for (size_t i = 0; i < len; i++) n += ((unsigned char)text[i] & 0xC0) != 0x80;
    return n;
}

/* Writes a code point and returns its length; out has room for 4. */
static inline uint32_t rt_utf8_put(uint32_t cp, char *out)
{
    if (cp < 0x80) {
        out[0] = (char)cp;
        return 1;
    }
    if (cp < 0x800) {
        out[0] = (char)(0xC0 | cp >> 6);
        out[1] = (char)(0x80 | (cp & 0x3F));
        return 2;
    }
    if (cp < 0x10000) {
        out[0] = (char)(0xE0 | cp >> 12);
        out[1] = (char)(0x80 | (cp >> 6 & 0x3F));
        out[2] = (char)(0x80 | (cp & 0x3F));
        return 3;
    }
    out[0] = (char)(0xF0 | cp >> 18);
    out[1] = (char)(0x80 | (cp >> 12 & 0x3F));
    out[2] = (char)(0x80 | (cp >> 6 & 0x3F));
    out[3] = (char)(0x80 | (cp & 0x3F));
    return 4;
}

static inline void rt_str_append_cp(rt_str *s, uint32_t cp)
{
    char buf[4];
    rt_str_append_n(s, buf, rt_utf8_put(cp, buf));
}

/* Length of the longest prefix that is valid UTF-8 and ends with a whole character. */
size_t rt_utf8_valid(const char *text, size_t len);
/* What stands at the start of text, which is not a valid character: how many bytes one U+FFFD stands for, as Python's
 * errors="replace" counts them. *cut is true when the text ends before the character does, so that more could complete
 * it. */
size_t rt_utf8_bad(const char *text, size_t len, bool *cut);
/* Appends text with every such stretch replaced by U+FFFD. */
void rt_utf8_repair(const char *text, size_t len, rt_str *out);

#endif
