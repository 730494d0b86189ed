/* tok_word.c - see tok_word.h. */
#include "text/tokenizer/tok_word.h"

#include "base/mem.h"

#include <string.h>

enum { SPELLINGS = 2 };

struct rt_tok_word {
    const rt_tokenizer *tokenizer;
    rt_tok_ids spelling[SPELLINGS]; /* the second: after a space; empty where that is no other */
};

static bool ends_with(const rt_tok_ids *ids, const rt_tok_ids *tail)
{
    return ids->count >= tail->count &&
           memcmp(ids->ids + ids->count - tail->count, tail->ids, tail->count * sizeof *tail->ids) == 0;
}

int rt_tok_word_new(rt_tok_word **out, const rt_tokenizer *t, const char *text, rt_err *e)
{
    int rc;
    rt_str spaced = { 0 };
    rt_tok_scratch *scratch = NULL;
    rt_tok_word *w = rt_alloc_zero(sizeof *w, 16);
    if (!w) RT_TRY(rt_no_memory(e, "a word"));
    w->tokenizer = t;
    RT_TRY(rt_tok_scratch_new(&scratch, t, e));
    RT_TRY(rt_tokenizer_encode(t, scratch, text, strlen(text), RT_ENCODE_PLAIN, &w->spelling[0], e));
    if (w->spelling[0].count == 0) RT_TRY(rt_fail(e, RT_INVALID, "the word '%s' has no tokens", text));
    rt_str_printf(&spaced, " %s", text);
    if (spaced.failed) RT_TRY(rt_no_memory(e, "a word"));
    if (*text != ' ')
        RT_TRY(rt_tokenizer_encode(t, scratch, spaced.data, spaced.len, RT_ENCODE_PLAIN, &w->spelling[1], e));
    /* A space that is a token of its own is not part of the word, which would be found twice. */
    if (ends_with(&w->spelling[1], &w->spelling[0])) w->spelling[1].count = 0;
    rc = RT_OK;
    *out = w;
    w = NULL;
out:
    rt_tok_word_free(w);
    rt_tok_scratch_free(scratch);
    rt_str_free(&spaced);
    return rc;
}

void rt_tok_word_free(rt_tok_word *w)
{
    if (!w) return;
    for (int i = 0; i < SPELLINGS; i++) rt_free(w->spelling[i].ids);
    rt_free(w);
}

/* Letters, digits, the underscore; of other scripts every byte. */
static bool of_a_word(unsigned char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c >= 0x80;
}

static bool begins_as_word(const rt_tokenizer *t, int32_t id)
{
    rt_token_info info;
    return id >= 0 && rt_tokenizer_token(t, (uint32_t)id, &info) && !info.special && info.bytes.len &&
           of_a_word((unsigned char)info.bytes.data[0]);
}

static bool ends_as_word(const rt_tokenizer *t, int32_t id)
{
    rt_token_info info;
    return id >= 0 && rt_tokenizer_token(t, (uint32_t)id, &info) && !info.special && info.bytes.len &&
           of_a_word((unsigned char)info.bytes.data[info.bytes.len - 1]);
}

/* Whether a word goes on from one id into the next. */
static bool joined(const rt_tokenizer *t, int32_t left, int32_t right)
{
    return ends_as_word(t, left) && begins_as_word(t, right);
}

uint32_t rt_tok_word_at(const rt_tok_word *w, int32_t before, const int32_t *next, uint32_t n)
{
    for (int s = 0; s < SPELLINGS; s++) {
        const rt_tok_ids *ids = &w->spelling[s];
        uint32_t len = 0;
        while (len < ids->count && len < n && next[len] >= 0 && (uint32_t)next[len] == ids->ids[len]) len++;
        if (len == 0 || len < ids->count || joined(w->tokenizer, before, next[0])) continue;
        if (len == n || !joined(w->tokenizer, next[len - 1], next[len])) return len;
    }
    return 0;
}
