/* vocab_export.c - tokenizer.json to the plain lists of GGUF and APR.
 *
 * Owns: types of tokens, merges as text, the order of scores that merges imply. The file is read by
 * rt_tokenizer_from_json, so what is not supported there is refused there. Leaves recognising the pre-tokenizer to
 * vocab_pre.c. */
#include "base/json.h"
#include "text/tokenizer/tok_gguf.h"
#include "text/tokenizer/tok_internal.h"
#include "text/tokenizer/vocab_convert.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>

/* ---- tokens and types ---- */

static bool is_byte_token(rt_tok_text t)
{
    return t.len == 6 && memcmp(t.data, "<0x", 3) == 0 && t.data[5] == '>' &&
           strspn(t.data + 3, "0123456789ABCDEF") >= 2;
}

static const rt_tok_added *added_of(const rt_tokenizer *t, uint32_t id)
{
    for (uint32_t i = 0; i < t->added_len; i++)
        if (t->added[i].id == id) return &t->added[i];
    return NULL;
}

static int32_t type_of(const rt_tokenizer *t, uint32_t id, bool spm)
{
    const rt_tok_entry *entry = &t->vocab.entries[id];
    if (spm && id == t->model.unk_id) return RT_VOCAB_UNKNOWN;
    if (entry->flags & RT_TOKEN_ADDED) {
        const rt_tok_added *a = added_of(t, id);
        return a && !a->special ? RT_VOCAB_USER_DEFINED : RT_VOCAB_CONTROL;
    }
    return spm && is_byte_token(entry->text) ? RT_VOCAB_BYTE : RT_VOCAB_NORMAL;
}

static int fill_tokens(const rt_tokenizer *t, bool spm, uint32_t vocab, rt_vocab_spec *out, rt_arena *a, rt_err *e)
{
    uint32_t size = t->vocab.size, count = vocab ? vocab : size;
    if (size > count)
        return rt_fail(e, RT_INVALID,
                       "the tokenizer has ids up to %u, but the model's embedding has %u rows: they do not belong "
                       "together",
                       size - 1, count);
    rt_tok_text *tokens = rt_arena_alloc(a, ((size_t)count + 1) * sizeof *tokens);
    int32_t *types = rt_arena_alloc(a, ((size_t)count + 1) * sizeof *types);
    if (!tokens || !types) return rt_no_memory(e, "the vocabulary");
    for (uint32_t id = 0; id < count; id++) {
        char pad[32];
        bool hole = id >= size || !t->vocab.entries[id].text.data;
        rt_tok_text text =
            hole ? (rt_tok_text){ pad, (size_t)snprintf(pad, sizeof pad, "[PAD%u]", id) } : t->vocab.entries[id].text;
        types[id] = hole ? RT_VOCAB_UNUSED : type_of(t, id, spm);
        tokens[id] = rt_span_copy(a, text.data, text.len);
        if (!tokens[id].data) return rt_no_memory(e, "the vocabulary");
    }
    out->tokens = tokens;
    out->types = types;
    out->token_count = count;
    return RT_OK;
}

/* ---- merges ---- */

static int by_rank(const void *a, const void *b)
{
    const rt_tok_merge *x = a, *y = b;
    return x->rank < y->rank ? -1 : x->rank > y->rank;
}

/* All merges in their order, allocated for the caller. */
static int sorted_merges(const rt_tokenizer *t, rt_tok_merge **out, rt_err *e)
{
    const rt_tok_model *m = &t->model;
    uint32_t n = 0;
    rt_tok_merge *list = rt_alloc(((size_t)m->merge_count + 1) * sizeof *list, 16);
    if (!list) return rt_no_memory(e, "the vocabulary");
    for (uint32_t at = 0; m->merges && at <= m->merge_mask; at++)
        if (m->merges[at].rank != RT_TOK_NONE) list[n++] = m->merges[at];
    qsort(list, n, sizeof *list, by_rank);
    *out = list;
    return RT_OK;
}

static int fill_merges(const rt_tokenizer *t, rt_vocab_spec *out, rt_arena *a, rt_err *e)
{
    uint32_t count = t->model.merge_count;
    rt_tok_merge *list = NULL;
    int rc;
    rt_tok_text *merges = rt_arena_alloc(a, ((size_t)count + 1) * sizeof *merges);
    if (!merges) return rt_no_memory(e, "the vocabulary");
    RT_TRY(sorted_merges(t, &list, e));
    for (uint32_t i = 0; i < count; i++) {
        rt_tok_text l = t->vocab.entries[list[i].left].text, r = t->vocab.entries[list[i].right].text;
        if (memchr(l.data, ' ', l.len) || memchr(r.data, ' ', r.len))
            RT_TRY(rt_fail(e, RT_UNSUPPORTED, "merge %u of the tokenizer has a space in a token, which GGUF cannot say",
                           i));
        char *both = rt_arena_alloc(a, l.len + r.len + 2);
        if (!both) RT_TRY(rt_no_memory(e, "the vocabulary"));
        memcpy(both, l.data, l.len);
        both[l.len] = ' ';
        memcpy(both + l.len + 1, r.data, r.len);
        merges[i] = (rt_tok_text){ both, l.len + r.len + 1 };
    }
    out->merges = merges;
    out->merge_count = count;
out:
    rt_free(list);
    return rc;
}

/* ---- scores ---- */

static bool has_merge(const rt_tokenizer *t, uint32_t left, uint32_t right)
{
    const rt_tok_model *m = &t->model;
    uint32_t at = (uint32_t)rt_tok_mix(left, right) & m->merge_mask;
    for (; m->merges[at].rank != RT_TOK_NONE; at = (at + 1) & m->merge_mask)
        if (m->merges[at].left == left && m->merges[at].right == right) return true;
    return false;
}

/* By scores every two neighbours that spell a token are joined; so every way to cut a token in two must be a merge. */
static int check_closed(const rt_tokenizer *t, rt_err *e)
{
    for (uint32_t id = 0; id < t->vocab.size; id++) {
        const rt_tok_entry *entry = &t->vocab.entries[id];
        if (!(entry->flags & RT_TOKEN_MODEL) || (entry->flags & RT_TOKEN_ADDED) || is_byte_token(entry->text)) continue;
        rt_tok_text s = entry->text;
        for (size_t at = rt_utf8_len(s.data[0]); at < s.len; at += rt_utf8_len(s.data[at])) {
            uint32_t l = rt_tok_vocab_find(&t->vocab, s.data, at);
            uint32_t r = rt_tok_vocab_find(&t->vocab, s.data + at, s.len - at);
            if (l == RT_TOK_NONE || r == RT_TOK_NONE || has_merge(t, l, r)) continue;
            return rt_fail(e, RT_UNSUPPORTED,
                           "the merges of the tokenizer are not those of a SentencePiece vocabulary: '%.*s' and '%.*s' "
                           "spell a token but are never merged, which a GGUF of this kind cannot say",
                           (int)(at < 60 ? at : 60), s.data, (int)(s.len - at < 60 ? s.len - at : 60), s.data + at);
        }
    }
    return RT_OK;
}

/* Tokens in the order in which their merges come; those whose merges are mixed with one another have one score. */
static int fill_scores(const rt_tokenizer *t, rt_vocab_spec *out, rt_arena *a, rt_err *e)
{
    uint32_t count = t->model.merge_count, group_end = 0;
    rt_tok_merge *list = NULL;
    float *scores = rt_arena_alloc(a, ((size_t)out->token_count + 1) * sizeof *scores);
    uint32_t *last = rt_alloc_zero(((size_t)out->token_count + 1) * sizeof *last, 16); /* index of its last merge + 1 */
    int rc = RT_OK;
    if (!scores || !last) RT_TRY(rt_no_memory(e, "the vocabulary"));
    RT_TRY(check_closed(t, e));
    RT_TRY(sorted_merges(t, &list, e));
    for (uint32_t i = 0; i < count; i++) last[list[i].result] = i + 1;
    for (uint32_t id = 0; id < out->token_count; id++) scores[id] = -(float)count - 1;
    float score = 0;
    for (uint32_t i = 0; i < count; i++) {
        if (i >= group_end) score = -(float)i;
        if (last[list[i].result] > group_end) group_end = last[list[i].result];
        scores[list[i].result] = score;
    }
    out->scores = scores;
out:
    rt_free(last);
    rt_free(list);
    return rc;
}

/* ---- the whole ---- */

static int fill_ends(const rt_tokenizer *t, rt_vocab_spec *out, rt_err *e)
{
    uint32_t before, after;
    const uint32_t *prefix = rt_tokenizer_prefix(t, &before), *suffix = rt_tokenizer_suffix(t, &after);
    if (before > 1 || after > 1)
        return rt_fail(e, RT_UNSUPPORTED,
                       "post_processor: it adds %u tokens before and %u after a text; GGUF can say one of each", before,
                       after);
    out->bos = before ? (int64_t)prefix[0] : -1;
    out->eos = after ? (int64_t)suffix[0] : -1;
    out->add_bos = before > 0;
    out->add_eos = after > 0;
    return RT_OK;
}

static void note_added(const rt_tokenizer *t, rt_str *notes)
{
    uint32_t lost = 0;
    for (uint32_t i = 0; i < t->added_len; i++)
        lost += t->added[i].lstrip || t->added[i].rstrip || t->added[i].single_word;
    if (notes && lost)
        rt_str_printf(notes,
                      "%u added tokens lose their rule about surrounding space or whole words, which GGUF has not\n",
                      lost);
}

static int check_model(const rt_tokenizer *t, bool *spm, rt_err *e)
{
    const rt_tok_model *m = &t->model;
    *spm = m->byte_fallback && !m->byte_level;
    if (m->prefix.len || m->suffix.len)
        return rt_fail(e, RT_UNSUPPORTED, "model: a prefix or suffix of subwords has no equal in GGUF");
    for (int b = 0; b < 256 && *spm; b++)
        if (m->byte_id[b] == RT_TOK_NONE)
            return rt_fail(e, RT_UNSUPPORTED, "model: byte_fallback without a token <0x%02X> has no equal in GGUF", b);
    if (*spm && m->ignore_merges)
        return rt_fail(e, RT_UNSUPPORTED, "model.ignore_merges has no equal in a GGUF vocabulary with scores");
    return RT_OK;
}

static int export(rt_tokenizer *t, const json_t *root, rt_vocab_spec *v, rt_arena *a, uint32_t vocab, rt_str *notes,
                  rt_err *e)
{
    bool spm, prefix_space;
    int rc;
    RT_TRY(check_model(t, &spm, e));
    if (spm)
        RT_TRY(rt_vocab_pre_spm(root, &prefix_space, notes, e));
    else
        RT_TRY(rt_vocab_pre_bytes(root, t->model.ignore_merges, &v->pre, a, notes, e));
    if (!spm && !t->model.byte_level)
        RT_TRY(rt_fail(e, RT_UNSUPPORTED,
                       "model: BPE that is neither byte-level nor has byte_fallback has no equal in "
                       "GGUF"));
    v->model = spm ? "llama" : "gpt2";
    if (spm) v->add_space_prefix = prefix_space;
    RT_TRY(fill_ends(t, v, e));
    RT_TRY(fill_tokens(t, spm, vocab, v, a, e));
    RT_TRY(spm ? fill_scores(t, v, a, e) : fill_merges(t, v, a, e));
    note_added(t, notes);
out:
    return rc;
}

int rt_vocab_from_json(rt_vocab_spec *out, rt_arena *a, rt_span tokenizer_json, uint32_t vocab, rt_str *notes,
                       rt_err *e)
{
    rt_tokenizer *t = NULL;
    json_t *root = NULL;
    rt_vocab_spec v = { .bos = -1, .eos = -1, .add_bos = -1, .add_eos = -1, .add_space_prefix = -1 };
    int rc;
    rt_json_init();
    RT_TRY(rt_model_tokenizer(&t, &(rt_model_text){ .tokenizer_json = tokenizer_json }, e));
    root = rt_json_load(tokenizer_json.data, tokenizer_json.len, JSON_ALLOW_NUL, NULL);
    if (!root) RT_TRY(rt_no_memory(e, "the vocabulary")); /* it was read a moment ago */
    RT_TRY(export(t, root, &v, a, vocab, notes, e));
    *out = v;
out:
    json_decref(root);
    rt_tokenizer_free(t);
    return rc;
}
