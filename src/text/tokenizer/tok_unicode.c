/* tok_unicode.c - classes of code points, lower case, the characters that stand for bytes.
 *
 * Owns: reading the pinned ranges of tok_unicode_generated.h. Leaves to tok_regex.c how a class is said in a pattern,
 * and to tok_nfc.c the normalisation forms. */
#include "text/tokenizer/tok_unicode.h"

#include "base/mem.h"
#include "text/tokenizer/tok_unicode_generated.h"

#include <utf8proc.h>

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

static const struct class_ranges {
    const rt_tok_range *ranges;
    size_t count;
    uint16_t bit;
} classes[] = {
    { range_letter, COUNT(range_letter), RT_CP_LETTER },
    { range_number, COUNT(range_number), RT_CP_NUMBER },
    { range_mark, COUNT(range_mark), RT_CP_MARK },
    { range_space, COUNT(range_space), RT_CP_SPACE },
    { range_numeric, COUNT(range_numeric), RT_CP_NUMERIC },
    { range_word, COUNT(range_word), RT_CP_WORD },
    { range_punct, COUNT(range_punct), RT_CP_PUNCT },
    { range_accent, COUNT(range_accent), RT_CP_ACCENT },
    { range_nfc, COUNT(range_nfc), RT_CP_NFC },
    { range_nfd, COUNT(range_nfd), RT_CP_NFD },
    { range_nfkc, COUNT(range_nfkc), RT_CP_NFKC },
    { range_nfkd, COUNT(range_nfkd), RT_CP_NFKD },
};

uint16_t *rt_cp_table_new(void)
{
    uint16_t *table = rt_alloc_zero(RT_CP_TABLE * sizeof *table, 64);
    if (!table) return NULL;
    for (size_t c = 0; c < COUNT(classes); c++) {
        for (size_t i = 0; i < classes[c].count; i++) {
            rt_tok_range r = classes[c].ranges[i];
            for (uint32_t cp = r.first; cp <= r.last && cp < RT_CP_TABLE; cp++) table[cp] |= classes[c].bit;
        }
    }
    return table;
}

static bool in_ranges(const rt_tok_range *ranges, size_t count, uint32_t cp)
{
    size_t low = 0, high = count;
    while (low < high) {
        size_t mid = (low + high) / 2;
        if (cp < ranges[mid].first)
            high = mid;
        else if (cp > ranges[mid].last)
            low = mid + 1;
        else
            return true;
    }
    return false;
}

uint16_t rt_cp_search(uint32_t cp)
{
    unsigned bits = 0;
    for (size_t c = 0; c < COUNT(classes); c++)
        if (in_ranges(classes[c].ranges, classes[c].count, cp)) bits |= classes[c].bit;
    return (uint16_t)bits;
}

int rt_cp_lower(uint32_t cp, uint32_t out[2])
{
    if (cp == 0x130) {
        out[0] = 'i';
        out[1] = 0x307;
        return 2;
    }
    out[0] = (uint32_t)utf8proc_tolower((utf8proc_int32_t)cp);
    for (size_t i = 0; i < COUNT(newer_lower); i++)
        if (newer_lower[i].upper == cp) out[0] = newer_lower[i].lower;
    return 1;
}

static void append_item(rt_str *out, uint32_t first, uint32_t last)
{
    rt_str_printf(out, "\\x{%X}", first);
    if (last > first) rt_str_printf(out, "-\\x{%X}", last);
}

bool rt_cp_newer_items(const char *name, rt_str *out)
{
    static const char *const known[] = { "L",  "Lu", "Ll", "Lt", "Lm", "Lo", "M",  "Mc", "Me", "N",
                                         "Nd", "Nl", "No", "P",  "Pc", "Pd", "Ps", "Pe", "Pi", "Pf",
                                         "Po", "S",  "Sm", "Sc", "Sk", "So", "Z",  "Zs", "Zl", "Zp" };
    bool found = false;
    for (size_t i = 0; i < COUNT(known); i++) found = found || strcmp(name, known[i]) == 0;
    if (!found) return false;
    for (size_t i = 0; i < COUNT(newer_category); i++)
        if (strncmp(newer_category[i].name, name, strlen(name)) == 0)
            append_item(out, newer_category[i].first, newer_category[i].last);
    return true;
}

/* Whether cp is in the ranges, of which *at is the first that does not end before it; *next is where that changes. */
static bool range_state(const rt_tok_range *ranges, size_t count, size_t *at, uint32_t cp, uint32_t *next)
{
    while (*at < count && ranges[*at].last < cp) (*at)++;
    if (*at == count) return false;
    bool in = ranges[*at].first <= cp;
    uint32_t change = in ? ranges[*at].last + 1 : ranges[*at].first;
    if (change < *next) *next = change;
    return in;
}

/* \w of the regex engine is that of Rust except in a few code points, where it is the opposite. */
void rt_cp_word_items(rt_str *out)
{
    size_t i = 0, j = 0;
    bool open = false;
    uint32_t first = 0;
    for (uint32_t cp = 0, next; cp < 0x110000; cp = next) {
        next = 0x110000;
        bool in = range_state(range_word, COUNT(range_word), &i, cp, &next) !=
                  range_state(range_regex_word, COUNT(range_regex_word), &j, cp, &next);
        if (in && !open) first = cp;
        if (!in && open) append_item(out, first, cp - 1);
        open = in;
    }
    if (open) append_item(out, first, 0x10FFFF);
}

bool rt_cp_all_items(char name, rt_str *out)
{
    const struct class_ranges *c = name == 'L'   ? &classes[0]
                                   : name == 'N' ? &classes[1]
                                   : name == 'M' ? &classes[2]
                                                 : NULL;
    if (!c) return false;
    for (size_t i = 0; i < c->count; i++) append_item(out, c->ranges[i].first, c->ranges[i].last);
    return true;
}

/* Printable bytes stand for themselves; the 68 others, in order, have the characters from U+0100 on. */
static bool byte_is_itself(unsigned byte) { return (byte >= 0x21 && byte <= 0x7E) || (byte >= 0xA1 && byte != 0xAD); }

uint32_t rt_byte_char(uint8_t byte)
{
    if (byte_is_itself(byte)) return byte;
    if (byte <= 0x20) return 0x100u + byte;
    if (byte <= 0xA0) return 0x100u + 0x21 + (byte - 0x7Fu);
    return 0x100u + 0x21 + 0x22;
}

int rt_char_byte(uint32_t cp)
{
    if (cp < 0x100) return byte_is_itself(cp) ? (int)cp : -1;
    uint32_t k = cp - 0x100;
    if (k <= 0x20) return (int)k;
    if (k < 0x21 + 0x22) return (int)(k - 0x21 + 0x7F);
    return k == 0x21 + 0x22 ? 0xAD : -1;
}
