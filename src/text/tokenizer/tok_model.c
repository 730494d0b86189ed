/* tok_model.c - the tables of the model: merges by pair, scores as ranks, ids of bytes, and the shortcuts they allow.
 *
 * Owns: building and checking them. Leaves their use to tok_bpe.c. */
#include "text/tokenizer/tok_internal.h"

int rt_tok_merges_reserve(rt_tokenizer *t, uint32_t count, rt_err *e)
{
    uint64_t slots = 16;
    while (slots < 2 * (uint64_t)count) slots *= 2;
    t->model.merges = rt_alloc((size_t)slots * sizeof *t->model.merges, 64);
    if (!t->model.merges) return rt_tok_out_of_memory(e);
    memset(t->model.merges, 0xFF, (size_t)slots * sizeof *t->model.merges);
    t->model.merge_mask = (uint32_t)slots - 1;
    return RT_OK;
}

static int missing(const char *where, rt_tok_text token, rt_err *e)
{
    return rt_fail(e, RT_FORMAT, "%s: the vocabulary has no token '%.*s'", where,
                   (int)(token.len < 60 ? token.len : 60), token.data);
}

int rt_tok_merge_add(rt_tokenizer *t, uint32_t rank, rt_tok_text left, rt_tok_text right, const char *where, rt_err *e)
{
    rt_tok_model *m = &t->model;
    uint32_t a = rt_tok_vocab_find(&t->vocab, left.data, left.len),
             b = rt_tok_vocab_find(&t->vocab, right.data, right.len);
    if (a == RT_TOK_NONE) return missing(where, left, e);
    if (b == RT_TOK_NONE) return missing(where, right, e);
    size_t prefix = m->prefix.len;
    if (right.len < prefix)
        return rt_fail(e, RT_FORMAT, "%s: '%.*s' is shorter than the prefix of continuing subwords", where,
                       (int)right.len, right.data);
    char small[256];
    size_t len = left.len + right.len - prefix;
    char *joined = len <= sizeof small ? small : rt_alloc(len, 16);
    if (!joined) return rt_tok_out_of_memory(e);
    memcpy(joined, left.data, left.len);
    memcpy(joined + left.len, right.data + prefix, right.len - prefix);
    uint32_t result = rt_tok_vocab_find(&t->vocab, joined, len);
    int rc = result == RT_TOK_NONE ? missing(where, (rt_tok_text){ joined, len }, e) : RT_OK;
    if (joined != small) rt_free(joined);
    if (rc < 0) return rc;
    uint32_t at = (uint32_t)rt_tok_mix(a, b) & m->merge_mask, probes = 0;
    for (; m->merges[at].rank != RT_TOK_NONE && (m->merges[at].left != a || m->merges[at].right != b);
         at = (at + 1) & m->merge_mask)
        if (++probes > RT_TOK_MAX_PROBES) return rt_tok_crowded(e);
    if (m->merges[at].rank == RT_TOK_NONE) m->merge_count++;
    /* Of a pair that is listed twice the later rank counts, as in the package. */
    m->merges[at] = (rt_tok_merge){ a, b, rank, result };
    return RT_OK;
}

int rt_tok_scores_set(rt_tokenizer *t, const float *scores, rt_err *e)
{
    uint32_t size = t->vocab.size;
    t->model.spm = true;
    t->model.score_rank = rt_alloc((size_t)size * sizeof *t->model.score_rank, 64);
    if (!t->model.score_rank) return rt_tok_out_of_memory(e);
    for (uint32_t id = 0; id < size; id++) {
        float score = scores[id] + 0.0f; /* -0 and 0 are one score */
        if (score != score) return rt_fail(e, RT_FORMAT, "tokenizer.ggml.scores[%u] is not a number", id);
        uint32_t bits;
        memcpy(&bits, &score, sizeof bits);
        uint32_t ascending = bits & 0x80000000u ? ~bits : bits | 0x80000000u;
        t->model.score_rank[id] = ~ascending;
    }
    return RT_OK;
}

/* Whether U+2581 follows another character somewhere in the text. */
static bool has_inner_space(rt_tok_text text)
{
    static const char mark[] = "\xE2\x96\x81";
    for (size_t i = 0; i + 3 <= text.len; i++) {
        if (memcmp(text.data + i, mark, 3) != 0) continue;
        if (i > 0 && !(i >= 3 && memcmp(text.data + i - 3, mark, 3) == 0)) return true;
        i += 2;
    }
    return false;
}

static bool can_cut(const rt_tokenizer *t)
{
    const rt_tok_model *m = &t->model;
    if (m->byte_level || m->ignore_merges || m->prefix.len || m->suffix.len) return false;
    if (rt_tok_vocab_find(&t->vocab, "\xE2\x96\x81", 3) == RT_TOK_NONE) return false;
    if (m->spm) {
        for (uint32_t id = 0; id < t->vocab.size; id++)
            if ((t->vocab.entries[id].flags & RT_TOKEN_MODEL) && has_inner_space(t->vocab.entries[id].text))
                return false;
        return true;
    }
    for (uint32_t at = 0; at <= m->merge_mask; at++)
        if (m->merges[at].rank != RT_TOK_NONE && has_inner_space(t->vocab.entries[m->merges[at].result].text))
            return false;
    return true;
}

static void find_bytes(rt_tokenizer *t)
{
    static const char hex[] = "0123456789ABCDEF";
    rt_tok_model *m = &t->model;
    m->bytes_known = m->prefix.len == 0 && m->suffix.len == 0;
    for (unsigned b = 0; b < 256; b++) {
        char text[6] = { '<', '0', 'x', hex[b >> 4], hex[b & 15], '>' };
        size_t len = sizeof text;
        if (m->byte_level) len = rt_utf8_put(rt_byte_char((uint8_t)b), text);
        m->byte_id[b] = rt_tok_vocab_find(&t->vocab, text, len);
        /* llama.cpp falls back to a token that is the byte alone. */
        char alone = (char)b;
        if (m->spm && m->byte_id[b] == RT_TOK_NONE) m->byte_id[b] = rt_tok_vocab_find(&t->vocab, &alone, 1);
        if (m->byte_id[b] == RT_TOK_NONE) m->bytes_known = false;
    }
}

int rt_tok_model_finish(rt_tokenizer *t, rt_err *e)
{
    rt_tok_model *m = &t->model;
    m->byte_level = t->pre_count > 0 && t->pres[t->pre_count - 1].kind == RT_PRE_BYTE_LEVEL;
    m->unk_id = m->has_unk ? rt_tok_vocab_find(&t->vocab, m->unk.data, m->unk.len) : RT_TOK_NONE;
    if (m->byte_level) {
        int rc = rt_tok_vocab_make_raw(&t->vocab, e);
        if (rc < 0) return rc;
    }
    find_bytes(t);
    m->cut_space = can_cut(t);
    return RT_OK;
}
