/* tok_unicode.c - classes of code points, lower case, the characters that stand for bytes.
 *
 * Owns: reading the pinned runs of tok_unicode_generated.h. Leaves to tok_regex.c how a class is said in a pattern,
 * and to tok_nfc.c the normalisation forms. */
#include "text/tokenizer/tok_unicode.h"

#include "base/mem.h"
#include "text/tokenizer/tok_unicode_generated.h"

#include <utf8proc.h>

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

uint16_t *rt_cp_table_new(void)
{
    uint16_t *table = rt_alloc(RT_CP_TABLE * sizeof *table, 64);
    if (!table) return NULL;
    for (uint32_t cp = 0, i = 0; cp < RT_CP_TABLE; cp++) {
        if (i + 1 < COUNT(runs) && runs[i + 1].first == cp) i++;
        table[cp] = runs[i].bits;
    }
    return table;
}

uint16_t rt_cp_search(uint32_t cp)
{
    size_t low = 0, high = COUNT(runs); /* the run of cp is in [low, high) */
    while (high - low > 1) {
        size_t mid = (low + high) / 2;
        if (runs[mid].first <= cp)
            low = mid;
        else
            high = mid;
    }
    return runs[low].bits;
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

void rt_cp_items(uint16_t bit, rt_str *out)
{
    for (size_t i = 0; i < COUNT(runs); i++) {
        if (!(runs[i].bits & bit)) continue;
        uint32_t first = runs[i].first;
        while (i + 1 < COUNT(runs) && runs[i + 1].bits & bit) i++;
        append_item(out, first, i + 1 < COUNT(runs) ? runs[i + 1].first - 1 : 0x10FFFF);
    }
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
