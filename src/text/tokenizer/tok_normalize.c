/* tok_normalize.c - the normalizers, one after the other.
 *
 * Owns: lower case, stripping, replacing, prepending, NMT's cleaning, bytes as characters. Leaves the Unicode forms to
 * tok_nfc.c. Each step reads a piece and writes the buffer that the piece is not in; a step that changes nothing leaves
 * the piece where it is. */
#include "text/tokenizer/tok_internal.h"

typedef enum { KEEP, DROP, SPACE } nmt_action;

static nmt_action nmt(uint32_t cp)
{
    if (cp >= 0x1 && cp <= 0x8) return DROP;
    if (cp == 0xB || (cp >= 0xE && cp <= 0x1F) || cp == 0x7F || cp == 0x8F || cp == 0x9F) return DROP;
    if (cp == 0x9 || cp == 0xA || cp == 0xC || cp == 0xD || cp == 0x1680) return SPACE;
    if ((cp >= 0x200B && cp <= 0x200F) || cp == 0x2028 || cp == 0x2029 || cp == 0x2581) return SPACE;
    return cp == 0xFEFF || cp == 0xFFFD ? SPACE : KEEP;
}

/* What one character becomes; returns how many code points. */
static int map_point(const rt_tokenizer *t, rt_norm_kind kind, uint32_t cp, uint32_t out[2])
{
    out[0] = cp;
    if (kind == RT_NORM_LOWER) {
        if (cp >= 0x80) return rt_cp_lower(cp, out);
        if (cp >= 'A' && cp <= 'Z') out[0] = cp + 32;
        return 1;
    }
    if (kind == RT_NORM_STRIP_ACCENTS) return rt_cp_bits(t->table, cp) & RT_CP_ACCENT ? 0 : 1;
    nmt_action action = nmt(cp);
    if (action == SPACE) out[0] = ' ';
    return action == DROP ? 0 : 1;
}

static void map_points(const rt_tokenizer *t, rt_norm_kind kind, rt_tok_piece *p, rt_str *out)
{
    size_t zero = 0;
    for (size_t i = 0; i < p->len;) {
        uint32_t n, points[2];
        int count = map_point(t, kind, rt_utf8_get(p->text + i, &n), points);
        for (int k = 0; k < count; k++) rt_str_append_cp(out, points[k]);
        if (i < p->zero) zero = out->len;
        i += n;
    }
    *p = (rt_tok_piece){ out->data, out->len, zero };
}

static void map_bytes(rt_tok_piece *p, rt_str *out)
{
    size_t zero = 0;
    for (size_t i = 0; i < p->len; i++) {
        rt_str_append_cp(out, rt_byte_char((uint8_t)p->text[i]));
        if (i < p->zero) zero = out->len;
    }
    *p = (rt_tok_piece){ out->data, out->len, zero };
}

static bool space_at(const rt_tokenizer *t, const char *p, uint32_t *n)
{
    return rt_cp_bits(t->table, rt_utf8_get(p, n)) & RT_CP_SPACE;
}

static void strip(const rt_tokenizer *t, const rt_tok_norm *n, rt_tok_piece *p)
{
    size_t start = 0, end = p->len;
    uint32_t len;
    while (n->left && start < end && space_at(t, p->text + start, &len)) start += len;
    while (n->right && end > start) {
        const char *last = rt_utf8_before(p->text, p->text + end);
        if (!space_at(t, last, &len)) break;
        end = (size_t)(last - p->text);
    }
    *p = rt_tok_cut(*p, start, end);
}

/* most: bytes that out may have, and a little more. */
static int replace(rt_tok_scratch *s, const rt_tok_norm *n, rt_tok_piece *p, rt_str *out, size_t most)
{
    rt_tok_matches m = { .pattern = &n->pattern,
                         .table = s->t->table,
                         .scratch = &s->regex,
                         .text = p->text,
                         .len = p->len,
                         .last_end = SIZE_MAX };
    size_t done = 0, zero = p->zero;
    int rc = RT_OK, any = 0;
    while (out->len <= most && (rc = rt_tok_match_next(&m, s->e)) > 0) {
        any = 1;
        rt_str_append_n(out, p->text + done, m.start - done);
        rt_str_append_n(out, n->content.data, n->content.len);
        /* What is put in belongs to the last character taken out. */
        if (m.end <= p->zero)
            zero = out->len + (p->zero - m.end);
        else if (m.start < p->zero)
            zero = out->len - n->content.len;
        done = m.end;
    }
    if (rc < 0 || !any) return rc;
    rt_str_append_n(out, p->text + done, p->len - done);
    *p = (rt_tok_piece){ out->data, out->len, zero };
    return RT_OK;
}

static void prepend(const rt_tok_norm *n, rt_tok_piece *p, rt_str *out)
{
    if (p->len == 0) return;
    rt_str_append_n(out, n->content.data, n->content.len);
    rt_str_append_n(out, p->text, p->len);
    *p = (rt_tok_piece){ out->data, out->len, p->zero > 0 ? p->zero + n->content.len : 0 };
}

static int apply(rt_tok_scratch *s, const rt_tok_norm *n, rt_tok_piece *p, rt_str *out, size_t most)
{
    switch (n->kind) {
    case RT_NORM_NFC:
    case RT_NORM_NFD:
    case RT_NORM_NFKC:
    case RT_NORM_NFKD: return rt_tok_nf(s, n->kind, p, out);
    case RT_NORM_LOWER:
    case RT_NORM_STRIP_ACCENTS:
    case RT_NORM_NMT: map_points(s->t, n->kind, p, out); return RT_OK;
    case RT_NORM_STRIP: strip(s->t, n, p); return RT_OK;
    case RT_NORM_REPLACE: return replace(s, n, p, out, most);
    case RT_NORM_PREPEND: prepend(n, p, out); return RT_OK;
    case RT_NORM_BYTE_LEVEL: map_bytes(p, out); return RT_OK;
    }
    return rt_fail(s->e, RT_INTERNAL, "normalizer %d", (int)n->kind);
}

int rt_tok_normalize(rt_tok_scratch *s, rt_tok_piece *p)
{
    int which = 0;
    size_t given = p->len;
    for (uint32_t i = 0; i < s->t->norm_count; i++) {
        rt_str *out = &s->normal[which];
        out->len = 0;
        const char *before = p->text;
        int rc = apply(s, &s->t->norms[i], p, out, rt_tok_most(given));
        if (rc >= 0) rc = rt_tok_within(out->len, given, s->e);
        if (rc < 0) return rc;
        if (out->failed) return rt_tok_out_of_memory(s->e);
        if (p->text != before && out->data && p->text == out->data) which = !which;
        if (p->len == 0) break;
    }
    return RT_OK;
}
