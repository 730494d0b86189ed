/* tok_nfc.c - the four Unicode normalisation forms.
 *
 * Owns: finding the stretches that a form does not leave alone, reordering, composition. utf8proc gives the
 * decompositions, classes and compositions; code points that the tokenizers package does not know are left alone, so
 * that a newer utf8proc changes nothing. */
#include "text/tokenizer/tok_internal.h"

#include <utf8proc.h>

static const uint16_t form_bit[] = {
    [RT_NORM_NFC] = RT_CP_NFC, [RT_NORM_NFD] = RT_CP_NFD, [RT_NORM_NFKC] = RT_CP_NFKC, [RT_NORM_NFKD] = RT_CP_NFKD
};

/* The first position at or after at whose character has one of bits; len when there is none. ASCII never has. */
static size_t find_bits(const uint16_t *table, rt_tok_piece p, size_t at, uint16_t bits)
{
    while (at < p.len) {
        uint64_t word;
        while (p.len - at >= 8) {
            memcpy(&word, p.text + at, 8);
            if (word & 0x8080808080808080u) break;
            at += 8;
        }
        if (at >= p.len) break;
        uint32_t n;
        if (rt_cp_bits(table, rt_utf8_get(p.text + at, &n)) & bits) return at;
        at += n;
    }
    return p.len;
}

static uint8_t class_of(const uint16_t *table, uint32_t cp)
{
    /* All that is reordered is in the set of every form. */
    if (!(rt_cp_bits(table, cp) & RT_CP_NFD)) return 0;
    return (uint8_t)utf8proc_get_property((utf8proc_int32_t)cp)->combining_class;
}

/* Above the 21 bits of a code point: that it came out of the character of the one before it, and how many characters
 * more it took up in being composed. By these is counted which output comes from the first character of the text. */
static const uint32_t POINT = 0x1FFFFF, TAKEN = 1u << 21, MOST_TAKEN = 0x3FFu << 21, MORE = 1u << 31;

/* Appends the decomposition of cp. */
static int decompose(rt_tok_scratch *s, bool compat, uint32_t cp, uint32_t *count)
{
    if (!rt_grow((void **)&s->points, &s->point_cap, *count + 32, sizeof *s->points)) return rt_tok_out_of_memory(s->e);
    uint16_t bits = rt_cp_bits(s->t->table, cp);
    if (!(bits & (compat ? RT_CP_NFKD : RT_CP_NFD))) {
        s->points[(*count)++] = cp;
        return RT_OK;
    }
    utf8proc_int32_t out[32];
    int boundary = 0;
    utf8proc_ssize_t n = utf8proc_decompose_char(
        (utf8proc_int32_t)cp, out, 32, compat ? UTF8PROC_COMPAT | UTF8PROC_DECOMPOSE : UTF8PROC_DECOMPOSE, &boundary);
    if (n < 0 || n > 32) return rt_fail(s->e, RT_INTERNAL, "no decomposition of U+%04X", cp);
    for (utf8proc_ssize_t i = 0; i < n; i++) s->points[(*count)++] = (uint32_t)out[i] | (i > 0 ? MORE : 0);
    return RT_OK;
}

enum { SHORT_RUN = 32 };

/* Stable order by class of a run of marks; spare has room for as many. */
static void sort_run(const uint16_t *table, uint32_t *points, uint32_t count, uint32_t *spare)
{
    if (count > SHORT_RUN) {
        bool present[256] = { false };
        uint32_t out = 0;
        for (uint32_t i = 0; i < count; i++) present[class_of(table, points[i] & POINT)] = true;
        for (unsigned class = 1; class < 256; class ++)
            for (uint32_t i = 0; present[class] && i < count; i++)
                if (class_of(table, points[i] & POINT) == class) spare[out++] = points[i];
        memcpy(points, spare, count * sizeof *points);
        return;
    }
    for (uint32_t i = 1; i < count; i++) {
        uint32_t cp = points[i], k = i;
        uint8_t class = class_of(table, cp & POINT);
        for (; k > 0 && class_of(table, points[k - 1] & POINT) > class; k--) points[k] = points[k - 1];
        points[k] = cp;
    }
}

static int reorder(rt_tok_scratch *s, uint32_t count)
{
    const uint16_t *table = s->t->table;
    if (!rt_grow((void **)&s->points, &s->point_cap, 2 * count, sizeof *s->points)) return rt_tok_out_of_memory(s->e);
    for (uint32_t i = 0; i < count;) {
        uint32_t end = i;
        while (end < count && class_of(table, s->points[end] & POINT) != 0) end++;
        if (end - i > 1) sort_run(table, s->points + i, end - i, s->points + count);
        i = end + 1;
    }
    return RT_OK;
}

/* The composition of a pair, or 0. */
static uint32_t compose_pair(const uint16_t *table, uint32_t first, uint32_t second)
{
    utf8proc_int32_t pair[2] = { (utf8proc_int32_t)first, (utf8proc_int32_t)second };
    utf8proc_ssize_t n = utf8proc_normalize_utf32(pair, 2, UTF8PROC_COMPOSE | UTF8PROC_STABLE);
    if (n != 1 || !(rt_cp_bits(table, (uint32_t)pair[0]) & RT_CP_NFD)) return 0;
    return (uint32_t)pair[0];
}

static uint32_t compose(const uint16_t *table, uint32_t *points, uint32_t count)
{
    uint32_t out = 0, starter = RT_TOK_NONE;
    int last_class = -1; /* of what stands between the starter and here; -1: nothing */
    for (uint32_t i = 0; i < count; i++) {
        uint32_t cp = points[i] & POINT;
        int class = class_of(table, cp);
        if (starter != RT_TOK_NONE && (last_class == -1 || last_class < class)) {
            uint32_t joined = compose_pair(table, points[starter] & POINT, cp);
            if (joined) {
                uint32_t marks = points[starter] & ~POINT;
                if (!(points[i] & MORE) && (marks & MOST_TAKEN) != MOST_TAKEN) marks += TAKEN;
                points[starter] = joined | marks;
                continue;
            }
        }
        points[out] = points[i];
        if (class == 0) {
            starter = out;
            last_class = -1;
        } else {
            last_class = class;
        }
        out++;
    }
    return out;
}

/* Normalizes [start, end) of p, which no character outside takes part in. */
static int stretch(rt_tok_scratch *s, rt_norm_kind form, rt_tok_piece p, size_t start, size_t end, rt_str *out,
                   size_t *zero)
{
    bool compat = form == RT_NORM_NFKC || form == RT_NORM_NFKD;
    uint32_t count = 0, firsts = 0; /* firsts: characters that belong to the first one of the text */
    int rc = RT_OK;
    for (size_t i = start; i < end;) {
        uint32_t n;
        RT_TRY(decompose(s, compat, rt_utf8_get(p.text + i, &n), &count));
        if (i < p.zero) firsts++;
        i += n;
    }
    RT_TRY(reorder(s, count));
    if (form == RT_NORM_NFC || form == RT_NORM_NFKC) count = compose(s->t->table, s->points, count);
    for (uint32_t i = 0, seen = 0; i < count; i++) {
        if (!(s->points[i] & MORE)) seen++;
        rt_str_append_cp(out, s->points[i] & POINT);
        if (seen <= firsts) *zero = out->len;
        seen += (s->points[i] & MOST_TAKEN) / TAKEN;
    }
out:
    return rc;
}

int rt_tok_nf(rt_tok_scratch *s, rt_norm_kind form, rt_tok_piece *p, rt_str *out)
{
    const uint16_t *table = s->t->table;
    uint16_t bit = form_bit[form];
    size_t at = find_bits(table, *p, 0, bit);
    if (at == p->len) return RT_OK;
    int rc = RT_OK;
    size_t done = 0, zero = p->zero, changed_zero = 0;
    while (at < p->len) {
        /* A mark may join the character before it, so the stretch begins there; it ends where the next character that
         * is left alone begins: that one is a starter which joins nothing before it. */
        size_t start = at > done ? (size_t)(rt_utf8_before(p->text, p->text + at) - p->text) : at;
        size_t end = at;
        while (end < p->len) {
            uint32_t n;
            if (!(rt_cp_bits(table, rt_utf8_get(p->text + end, &n)) & bit)) break;
            end += n;
        }
        rt_str_append_n(out, p->text + done, start - done);
        changed_zero = 0;
        RT_TRY(stretch(s, form, *p, start, end, out, &changed_zero));
        if (start < p->zero) zero = changed_zero;
        done = end;
        at = find_bits(table, *p, end, bit);
    }
    rt_str_append_n(out, p->text + done, p->len - done);
    *p = (rt_tok_piece){ out->data, out->len, zero };
out:
    return rc;
}
