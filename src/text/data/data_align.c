/* data_align.c - places in a text as places between its tokens.
 *
 * Where the tokens' bytes put together are the text, as for byte-level vocabularies, a token's place is the sum of the
 * lengths before it. Where they are not (a normalizer changed the text, a space was put in front), the text up to the
 * place is encoded alone: if that gives the beginning of the whole's ids, the place is there. If it does not, a token
 * lies across the place, and what is not known to lie inside counts as outside. */
#include "text/data/data_internal.h"

#include <string.h>

/* false when the bytes of the tokens are not the text. */
static bool by_bytes(const rt_tokenizer *t, const char *text, size_t len, const rt_tok_ids *ids, rt_align_mark *marks,
                     uint32_t count)
{
    size_t at = 0;
    uint32_t m = 0;
    for (uint32_t i = 0; i < ids->count; i++) {
        rt_token_info info;
        if (!rt_tokenizer_token(t, ids->ids[i], &info)) return false;
        size_t n = info.bytes.len;
        if (n > len - at || memcmp(text + at, info.bytes.data, n) != 0) return false;
        /* Marks that this token begins at or behind, or whose end it goes past. */
        while (m < count && (marks[m].end ? at + n > marks[m].at : at >= marks[m].at)) marks[m++].token = i;
        at += n;
    }
    while (m < count) marks[m++].token = ids->count;
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

static int by_encoding(rt_align *a, const char *text, size_t len, const rt_tok_ids *ids, rt_align_mark *mark, rt_err *e)
{
    int rc;
    a->spare.count = 0;
    RT_TRY(rt_tokenizer_encode(a->tok, a->scratch, text, mark->at, 0, &a->spare, e));
    mark->token = common_head(ids, &a->spare);
    if (mark->token == a->spare.count || mark->end) return RT_OK;
    a->spare.count = 0;
    RT_TRY(rt_tokenizer_encode(a->tok, a->scratch, text + mark->at, len - mark->at, 0, &a->spare, e));
    mark->token = ids->count - common_tail(ids, &a->spare);
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
