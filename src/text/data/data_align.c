/* data_align.c - places in a text as places between its tokens.
 *
 * Where the tokens' bytes put together are the text, as for byte-level vocabularies, a token's place is the sum of the
 * lengths before it. Where they are not (a normalizer changed the text, a space was put in front), the text up to the
 * place is encoded alone: if that gives the beginning of the whole's ids, the place is there. If it does not, a token
 * lies across the place, and what is not known to lie inside counts as outside. */
#include "text/data/data_internal.h"

#include <string.h>

enum { MOST_BLANK = 8 }; /* bytes of white space before a place, each of which costs an encoding */

static bool is_blank(const char *text, size_t from, size_t to)
{
    for (size_t i = from; i < to; i++)
        if (!text[i] || !strchr(" \t\r\n", text[i])) return false;
    return true;
}

/* A mark at token i, which begins at `at`; the token before it begins at `before`. */
static void set_mark(rt_align_mark *m, const char *text, uint32_t i, size_t before, size_t at)
{
    bool inside = !m->end && i > 0 && at > m->at;
    m->token = i;
    m->across = inside ? i - 1 : i;
    m->blank = inside && is_blank(text, before, m->at);
}

/* false when the bytes of the tokens are not the text. */
static bool by_bytes(const rt_tokenizer *t, const char *text, size_t len, const rt_tok_ids *ids, rt_align_mark *marks,
                     uint32_t count)
{
    size_t at = 0, before = 0;
    uint32_t m = 0;
    for (uint32_t i = 0; i < ids->count; i++) {
        rt_token_info info;
        if (!rt_tokenizer_token(t, ids->ids[i], &info)) return false;
        size_t n = info.bytes.len;
        if (n > len - at || memcmp(text + at, info.bytes.data, n) != 0) return false;
        /* Marks that this token begins at or behind, or whose end it goes past. */
        while (m < count && (marks[m].end ? at + n > marks[m].at : at >= marks[m].at))
            set_mark(&marks[m++], text, i, before, at);
        before = at;
        at += n;
    }
    while (m < count) set_mark(&marks[m++], text, ids->count, before, at);
    return at == len;
}

static uint32_t common_head(const rt_tok_ids *a, const rt_tok_ids *b)
{
    uint32_t n = 0;
    while (n < a->count && n < b->count && a->ids[n] == b->ids[n]) n++;
    return n;
}

static uint32_t common_tail(const rt_tok_ids *a, const rt_tok_ids *b)
{
    uint32_t n = 0;
    while (n < a->count && n < b->count && a->ids[a->count - 1 - n] == b->ids[b->count - 1 - n]) n++;
    return n;
}

/* Whether a token begins in the white space before a mark: the nearest such place is looked for. */
static int find_blank(rt_align *a, const char *text, const rt_tok_ids *ids, rt_align_mark *mark, rt_err *e)
{
    int rc = RT_OK;
    for (size_t p = mark->at; p > 0 && mark->at - p < MOST_BLANK && is_blank(text, p - 1, p); p--) {
        a->spare.count = 0;
        RT_TRY(rt_tokenizer_encode(a->tok, a->scratch, text, p - 1, 0, &a->spare, e));
        if (a->spare.count >= mark->token || common_head(ids, &a->spare) < a->spare.count) continue;
        mark->across = a->spare.count;
        mark->blank = true;
        break;
    }
out:
    return rc;
}

static int by_encoding(rt_align *a, const char *text, size_t len, const rt_tok_ids *ids, rt_align_mark *mark, rt_err *e)
{
    int rc;
    a->spare.count = 0;
    mark->blank = false;
    RT_TRY(rt_tokenizer_encode(a->tok, a->scratch, text, mark->at, 0, &a->spare, e));
    mark->token = mark->across = common_head(ids, &a->spare);
    if (mark->token == a->spare.count || mark->end) return RT_OK;
    a->spare.count = 0;
    RT_TRY(rt_tokenizer_encode(a->tok, a->scratch, text + mark->at, len - mark->at, 0, &a->spare, e));
    mark->token = ids->count - common_tail(ids, &a->spare);
    if (mark->across > mark->token) mark->across = mark->token;
    if (mark->across < mark->token) RT_TRY(find_blank(a, text, ids, mark, e));
out:
    return rc;
}

int rt_align_tokens(rt_align *a, const char *text, size_t len, const rt_tok_ids *ids, rt_align_mark *marks,
                    uint32_t count, rt_err *e)
{
    int rc = RT_OK;
    if (by_bytes(a->tok, text, len, ids, marks, count)) return RT_OK;
    for (uint32_t i = 0; i < count; i++) RT_TRY(by_encoding(a, text, len, ids, &marks[i], e));
out:
    return rc;
}
