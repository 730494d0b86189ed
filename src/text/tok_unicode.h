/* tok_unicode.h - code points as the tokenizers see them: UTF-8 in and out, and the classes pinned to the package that
 * we must agree with. Internal to text.
 *
 * Owns: the class bits, the table from code point to bits, repair of invalid UTF-8. Leaves patterns to tok_regex.c and
 * normalisation forms to tok_nfc.c. */
#ifndef RT_TEXT_TOK_UNICODE_H
#define RT_TEXT_TOK_UNICODE_H

#include "base/err.h"
#include "base/str.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

typedef struct rt_tok_range {
    uint32_t first, last;
} rt_tok_range;

typedef struct rt_tok_lower {
    uint32_t upper, lower;
} rt_tok_lower;

typedef struct rt_tok_category {
    uint32_t first, last;
    char name[3]; /* general category, two letters */
} rt_tok_category;

/* What a code point is. The letters of \p{...} are those of the regex engine that patterns were written for. */
enum {
    RT_CP_LETTER = 1 << 0,  /* \p{L} */
    RT_CP_NUMBER = 1 << 1,  /* \p{N} */
    RT_CP_MARK = 1 << 2,    /* \p{M} */
    RT_CP_SPACE = 1 << 3,   /* \s */
    RT_CP_NUMERIC = 1 << 4, /* Digits */
    RT_CP_WORD = 1 << 5,    /* Whitespace, single_word */
    RT_CP_PUNCT = 1 << 6,   /* Punctuation */
    RT_CP_ACCENT = 1 << 7,  /* StripAccents */
    RT_CP_NFC = 1 << 8,     /* these four: not left alone by the form */
    RT_CP_NFD = 1 << 9,
    RT_CP_NFKC = 1 << 10,
    RT_CP_NFKD = 1 << 11,
};

/* Bits of every code point below RT_CP_TABLE; all of the assigned planes but the tags and private use. */
enum { RT_CP_TABLE = 0x34000 };

uint16_t *rt_cp_table_new(void);    /* RT_CP_TABLE entries; null when out of memory; free with rt_free */
uint16_t rt_cp_search(uint32_t cp); /* the same without a table, slowly */
static inline uint16_t rt_cp_bits(const uint16_t *table, uint32_t cp)
{
    return cp < RT_CP_TABLE ? table[cp] : rt_cp_search(cp);
}

/* Lower case as Rust's char::to_lowercase: one code point, or two for U+0130. Returns how many. */
int rt_cp_lower(uint32_t cp, uint32_t out[2]);

/* The ranges that a property has for the regex engine beyond Unicode 14, and the whole of \w, as items of a PCRE2
 * character class (`\x{1C89}-\x{1C8A}...`). name is a general category of one or two letters; false when it is not one
 * that a list of additions can correct. */
bool rt_cp_newer_items(const char *name, rt_str *out);
void rt_cp_word_items(rt_str *out);
/* The whole of \p{L}, \p{N} or \p{M} ('L', 'N', 'M') as such items; false for another. */
bool rt_cp_all_items(char name, rt_str *out);

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

/* The characters that stand for bytes in byte-level vocabularies: GPT-2's table. */
uint32_t rt_byte_char(uint8_t byte);
int rt_char_byte(uint32_t cp); /* -1: stands for none */

#endif
