/* tok_unicode.h - code points as the tokenizers see them: the classes pinned to the package that we must agree with.
 *
 * Owns: the class bits, the table from code point to bits. Leaves patterns to tok_regex.c, normalisation forms to
 * tok_nfc.c and UTF-8 itself to base. */
#ifndef RT_TOKENIZER_TOK_UNICODE_H
#define RT_TOKENIZER_TOK_UNICODE_H

#include "base/utf8.h"

typedef struct rt_cp_run {
    uint32_t first; /* the run goes on to the first of the next one */
    uint16_t bits;
} rt_cp_run;

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
    RT_CP_REGEX_WORD = 1 << 12, /* \w of the regex engine: a few code points are otherwise than in WORD */
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

/* Items of a PCRE2 character class (`\x{1C89}-\x{1C8A}...`): all code points that have the bit, and those that a
 * property has for the regex engine beyond Unicode 14. name is a general category of one or two letters; false when it
 * is not one that a list of additions can correct. */
void rt_cp_items(uint16_t bit, rt_str *out);
bool rt_cp_newer_items(const char *name, rt_str *out);

/* The characters that stand for bytes in byte-level vocabularies: GPT-2's table. */
uint32_t rt_byte_char(uint8_t byte);
int rt_char_byte(uint32_t cp); /* -1: stands for none */

#endif
