/* utf8.c - see utf8.h. */
#include "base/utf8.h"

/* The length of a character that starts with first, and the bounds of its second byte, which exclude overlong forms,
 * surrogates and what is past U+10FFFF. 0: nothing starts so. */
static size_t sequence(unsigned char first, unsigned char *low, unsigned char *high)
{
    *low = 0x80;
    *high = 0xBF;
    if (first < 0x80) return 1;
    if (first < 0xC2 || first > 0xF4) return 0;
    if (first < 0xE0) return 2;
    if (first < 0xF0) {
        if (first == 0xE0) *low = 0xA0;
        if (first == 0xED) *high = 0x9F;
        return 3;
    }
    if (first == 0xF0) *low = 0x90;
    if (first == 0xF4) *high = 0x8F;
    return 4;
}

size_t rt_utf8_valid(const char *text, size_t len)
{
    const unsigned char *p = (const unsigned char *)text;
    size_t i = 0;
    while (i < len) {
        uint64_t word;
        while (len - i >= 8) {
            memcpy(&word, p + i, 8);
            if (word & 0x8080808080808080u) break;
            i += 8;
        }
        if (i >= len) break;
        unsigned char low, high;
        size_t n = sequence(p[i], &low, &high);
        if (n == 0 || n > len - i) return i;
        if (n > 1 && (p[i + 1] < low || p[i + 1] > high)) return i;
        for (size_t k = 2; k < n; k++)
            if ((p[i + k] & 0xC0) != 0x80) return i;
        i += n;
    }
    return i;
}

size_t rt_utf8_bad(const char *text, size_t len, bool *cut)
{
    const unsigned char *p = (const unsigned char *)text;
    unsigned char low, high;
    size_t n = sequence(p[0], &low, &high);
    *cut = false;
    if (n <= 1) return 1;
    size_t k = 1;
    while (k < n && k < len && p[k] >= low && p[k] <= high) {
        k++;
        low = 0x80;
        high = 0xBF;
    }
    *cut = k < n && k == len;
    return k;
}

void rt_utf8_repair(const char *text, size_t len, rt_str *out)
{
    while (len > 0) {
        size_t good = rt_utf8_valid(text, len);
        rt_str_append_n(out, text, good);
        text += good;
        len -= good;
        if (len == 0) return;
        bool cut;
        size_t bad = rt_utf8_bad(text, len, &cut);
        rt_str_append_n(out, "\xEF\xBF\xBD", 3);
        text += bad;
        len -= bad;
    }
}
