/* jinja_unicode.c - classes and case of code points, on utf8proc.
 *
 * Owns: what utf8proc leaves out of Python's rules: mappings of one code point to several, and the few letters that are
 * lower or upper case without being in the category. Context (a final sigma, words) is for those who walk a string. */
#include "text/jinja/jinja_unicode.h"

#include <stddef.h>
#include <utf8proc.h>

typedef struct span {
    uint32_t first, last;
} span;

static bool in_spans(const span *spans, size_t n, uint32_t c)
{
    for (size_t i = 0; i < n; i++)
        if (c >= spans[i].first && c <= spans[i].last) return true;
    return false;
}
#define IN(spans, c) in_spans(spans, sizeof(spans) / sizeof *(spans), c)

static utf8proc_category_t category(uint32_t c) { return utf8proc_category((utf8proc_int32_t)c); }

bool rt_ju_space(uint32_t c)
{
    static const span spaces[] = { { 0x9, 0xD },       { 0x1C, 0x20 },     { 0x85, 0x85 },     { 0xA0, 0xA0 },
                                   { 0x1680, 0x1680 }, { 0x2000, 0x200A }, { 0x2028, 0x2029 }, { 0x202F, 0x202F },
                                   { 0x205F, 0x205F }, { 0x3000, 0x3000 } };
    return c < 0x80 ? c == ' ' || (c >= 0x9 && c <= 0xD) || (c >= 0x1C && c <= 0x1F) : IN(spaces, c);
}

bool rt_ju_printable(uint32_t c)
{
    if (c < 0x7F) return c >= ' ';
    switch (category(c)) {
    case UTF8PROC_CATEGORY_CN:
    case UTF8PROC_CATEGORY_CC:
    case UTF8PROC_CATEGORY_CF:
    case UTF8PROC_CATEGORY_CS:
    case UTF8PROC_CATEGORY_CO:
    case UTF8PROC_CATEGORY_ZS:
    case UTF8PROC_CATEGORY_ZL:
    case UTF8PROC_CATEGORY_ZP: return false;
    default: return true;
    }
}

bool rt_ju_alpha(uint32_t c)
{
    utf8proc_category_t k = category(c);
    return k >= UTF8PROC_CATEGORY_LU && k <= UTF8PROC_CATEGORY_LO;
}

bool rt_ju_alnum(uint32_t c)
{
    utf8proc_category_t k = category(c);
    return rt_ju_alpha(c) || (k >= UTF8PROC_CATEGORY_ND && k <= UTF8PROC_CATEGORY_NO);
}

bool rt_ju_decimal(uint32_t c) { return category(c) == UTF8PROC_CATEGORY_ND; }

bool rt_ju_digit(uint32_t c)
{
    static const span digits[] = {
        { 0xB2, 0xB3 },     { 0xB9, 0xB9 },       { 0x1369, 0x1371 },   { 0x19DA, 0x19DA },   { 0x2070, 0x2070 },
        { 0x2074, 0x2079 }, { 0x2080, 0x2089 },   { 0x2460, 0x2468 },   { 0x2474, 0x247C },   { 0x2488, 0x2490 },
        { 0x24EA, 0x24EA }, { 0x24F5, 0x24FD },   { 0x24FF, 0x24FF },   { 0x2776, 0x277E },   { 0x2780, 0x2788 },
        { 0x278A, 0x2792 }, { 0x10A40, 0x10A43 }, { 0x10E60, 0x10E68 }, { 0x11052, 0x1105A }, { 0x1F100, 0x1F10A },
    };
    return rt_ju_decimal(c) || IN(digits, c);
}

bool rt_ju_lower(uint32_t c)
{
    static const span other[] = {
        { 0xAA, 0xAA },       { 0xBA, 0xBA },       { 0x2B0, 0x2B8 },     { 0x2C0, 0x2C1 },     { 0x2E0, 0x2E4 },
        { 0x345, 0x345 },     { 0x37A, 0x37A },     { 0x1D2C, 0x1D6A },   { 0x1D78, 0x1D78 },   { 0x1D9B, 0x1DBF },
        { 0x2071, 0x2071 },   { 0x207F, 0x207F },   { 0x2090, 0x209C },   { 0x2170, 0x217F },   { 0x24D0, 0x24E9 },
        { 0x2C7C, 0x2C7D },   { 0xA69C, 0xA69D },   { 0xA770, 0xA770 },   { 0xA7F8, 0xA7F9 },   { 0xAB5C, 0xAB5F },
        { 0x10780, 0x10780 }, { 0x10783, 0x10785 }, { 0x10787, 0x107B0 }, { 0x107B2, 0x107BA },
    };
    return category(c) == UTF8PROC_CATEGORY_LL || IN(other, c);
}

bool rt_ju_upper(uint32_t c)
{
    static const span other[] = {
        { 0x2160, 0x216F }, { 0x24B6, 0x24CF }, { 0x1F130, 0x1F149 }, { 0x1F150, 0x1F169 }, { 0x1F170, 0x1F189 },
    };
    return category(c) == UTF8PROC_CATEGORY_LU || IN(other, c);
}

bool rt_ju_titled(uint32_t c) { return category(c) == UTF8PROC_CATEGORY_LT; }

bool rt_ju_ignorable(uint32_t c)
{
    static const span other[] = { { '\'', '\'' },     { '.', '.' },       { ':', ':' },       { 0xB7, 0xB7 },
                                  { 0x387, 0x387 },   { 0x55F, 0x55F },   { 0x5F4, 0x5F4 },   { 0x2018, 0x2019 },
                                  { 0x2024, 0x2024 }, { 0x2027, 0x2027 }, { 0xFE13, 0xFE13 }, { 0xFE52, 0xFE52 },
                                  { 0xFE55, 0xFE55 }, { 0xFF07, 0xFF07 }, { 0xFF0E, 0xFF0E }, { 0xFF1A, 0xFF1A } };
    switch (category(c)) {
    case UTF8PROC_CATEGORY_MN:
    case UTF8PROC_CATEGORY_ME:
    case UTF8PROC_CATEGORY_CF:
    case UTF8PROC_CATEGORY_LM:
    case UTF8PROC_CATEGORY_SK: return true;
    default: return IN(other, c);
    }
}

bool rt_ju_name_start(uint32_t c) { return c == '_' || rt_ju_alpha(c) || category(c) == UTF8PROC_CATEGORY_NL; }

bool rt_ju_name_part(uint32_t c)
{
    switch (category(c)) {
    case UTF8PROC_CATEGORY_MN:
    case UTF8PROC_CATEGORY_MC:
    case UTF8PROC_CATEGORY_ND:
    case UTF8PROC_CATEGORY_PC: return true;
    default: return rt_ju_name_start(c);
    }
}

uint32_t rt_ju_to_lower(uint32_t c, uint32_t out[3])
{
    if (c == 0x130) { /* I with a dot keeps its dot */
        out[0] = 'i';
        out[1] = 0x307;
        return 2;
    }
    out[0] = (uint32_t)utf8proc_tolower((utf8proc_int32_t)c);
    return 1;
}

uint32_t rt_ju_fold(uint32_t c, uint32_t out[3])
{
    utf8proc_int32_t folded[4];
    int boundary = 0;
    utf8proc_ssize_t n = utf8proc_decompose_char((utf8proc_int32_t)c, folded, 4, UTF8PROC_CASEFOLD, &boundary);
    if (n < 1 || n > 3) {
        out[0] = c;
        return 1;
    }
    for (utf8proc_ssize_t i = 0; i < n; i++) out[i] = (uint32_t)folded[i];
    return (uint32_t)n;
}

static uint32_t simple_upper(uint32_t c) { return (uint32_t)utf8proc_toupper((utf8proc_int32_t)c); }

/* A code point whose upper case is more than one (SpecialCasing of the Unicode data) folds to as many, and these in
 * upper case are it. Capitals that fold to two (U+0130, U+1E9E) are their own. */
uint32_t rt_ju_to_upper(uint32_t c, uint32_t out[3])
{
    uint32_t n = c < 0x80 || category(c) == UTF8PROC_CATEGORY_LU ? 1 : rt_ju_fold(c, out);
    if (n == 1) out[0] = c;
    for (uint32_t i = 0; i < n; i++) out[i] = simple_upper(out[i]);
    return n;
}

/* A title letter where there is one. Else of what it folds to the first that has a case is raised, and an iota that was
 * written below stays below. */
uint32_t rt_ju_to_title(uint32_t c, uint32_t out[3])
{
    enum { IOTA = 0x3B9, IOTA_BELOW = 0x345 };
    uint32_t title = (uint32_t)utf8proc_totitle((utf8proc_int32_t)c), first = 0;
    if (rt_ju_titled(title) || rt_ju_to_upper(c, out) == 1) {
        out[0] = title;
        return 1;
    }
    uint32_t n = rt_ju_fold(c, out);
    while (first + 1 < n && simple_upper(out[first]) == out[first]) first++;
    out[first] = simple_upper(out[first]);
    if (out[n - 1] == IOTA) out[n - 1] = IOTA_BELOW;
    return n;
}
