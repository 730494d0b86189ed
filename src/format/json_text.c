/* json_text.c - see json_text.h. */
#include "format/json_text.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Bytes of the character at p, of which n remain; 0 when it is not one. */
static size_t char_len(const unsigned char *p, size_t n)
{
    if (p[0] < 0x80) return 1;
    size_t len = p[0] >= 0xC2 && p[0] < 0xE0   ? 2
                 : p[0] >= 0xE0 && p[0] < 0xF0 ? 3
                 : p[0] >= 0xF0 && p[0] < 0xF5 ? 4
                                               : 0;
    if (len == 0 || len > n) return 0;
    for (size_t i = 1; i < len; i++)
        if ((p[i] & 0xC0) != 0x80) return 0;
    bool bad = (p[0] == 0xE0 && p[1] < 0xA0) || (p[0] == 0xED && p[1] >= 0xA0) || (p[0] == 0xF0 && p[1] < 0x90) ||
               (p[0] == 0xF4 && p[1] >= 0x90);
    return bad ? 0 : len;
}

size_t rt_json_utf8(const char *text, size_t len)
{
    size_t at = 0;
    while (at < len) {
        size_t n = char_len((const unsigned char *)text + at, len - at);
        if (n == 0) break;
        at += n;
    }
    return at;
}

bool rt_json_put_text(rt_str *s, const char *text, size_t len)
{
    static const char with_letter[] = "\"\\\n\r\t\b\f", letters[] = "\"\\nrtbf";
    if (rt_json_utf8(text, len) != len) return false;
    rt_str_append_n(s, "\"", 1);
    size_t done = 0;
    for (size_t i = 0; i < len; i++) {
        unsigned char c = (unsigned char)text[i];
        if (c >= 0x20 && c != '"' && c != '\\') continue;
        if (i > done) rt_str_append_n(s, text + done, i - done);
        const char *known = c ? strchr(with_letter, c) : NULL;
        if (known)
            rt_str_printf(s, "\\%c", letters[known - with_letter]);
        else
            rt_str_printf(s, "\\u%04x", c);
        done = i + 1;
    }
    if (len > done) rt_str_append_n(s, text + done, len - done);
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
