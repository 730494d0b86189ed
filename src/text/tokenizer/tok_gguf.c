/* tok_gguf.c - a tokenizer from a GGUF vocabulary: plain arrays, and a name for the pre-tokenizer.
 *
 * Owns: the parts that llama.cpp puts around each kind of vocabulary. Leaves the patterns to tok_gguf_pre.c and reading
 * GGUF to its callers. */
#include "text/tokenizer/tok_gguf.h"

#include "text/tokenizer/tok_internal.h"

#include <stdio.h>

static int add_vocab(rt_tokenizer *t, const rt_vocab_spec *spec, rt_err *e)
{
    int rc = RT_OK;
    if (spec->token_count == 0) return rt_fail(e, RT_FORMAT, "tokenizer.ggml.tokens is empty");
    if (spec->token_count > UINT32_MAX / 4 || !rt_tok_map_reserve(&t->vocab.model, spec->token_count))
        return rt_tok_out_of_memory(e);
    for (uint32_t id = 0; id < spec->token_count; id++) {
        rt_tok_text token = spec->tokens[id];
        char where[64], empty[32];
        snprintf(where, sizeof where, "tokenizer.ggml.tokens[%u]", id);
        if (token.len == 0) { /* as llama.cpp names it, so that it can be found by no text */
            token = (rt_tok_text){ empty, (size_t)snprintf(empty, sizeof empty, "[EMPTY_%u]", id) };
        }
        if (rt_utf8_valid(token.data, token.len) != token.len)
            return rt_fail(e, RT_FORMAT, "%s: not valid UTF-8", where);
        RT_TRY(rt_tok_vocab_add(t, id, token.data, token.len, where, e));
        if (spec->types && spec->types[id] == RT_VOCAB_UNUSED) t->vocab.entries[id].flags |= RT_TOKEN_UNUSED;
    }
out:
    return rc;
}

static int add_merges(rt_tokenizer *t, const rt_vocab_spec *spec, rt_err *e)
{
    int rc;
    if (spec->merge_count > UINT32_MAX / 4) return rt_tok_out_of_memory(e);
    RT_TRY(rt_tok_merges_reserve(t, spec->merge_count, e));
    for (uint32_t i = 0; i < spec->merge_count; i++) {
        rt_tok_text both = spec->merges[i];
        char where[64];
        snprintf(where, sizeof where, "tokenizer.ggml.merges[%u]", i);
        const char *space = both.len > 1 ? memchr(both.data + 1, ' ', both.len - 1) : NULL;
        if (!space) return rt_fail(e, RT_FORMAT, "%s: expected two tokens with a space between", where);
        size_t at = (size_t)(space - both.data);
        RT_TRY(rt_tok_merge_add(t, i, (rt_tok_text){ both.data, at }, (rt_tok_text){ space + 1, both.len - at - 1 },
                                where, e));
    }
out:
    return rc;
}

/* Tokens that are found in the text before the model sees it. */
static int add_added(rt_tokenizer *t, const rt_vocab_spec *spec, rt_err *e)
{
    int rc = RT_OK;
    for (uint32_t id = 0; spec->types && id < spec->token_count; id++) {
        int32_t type = spec->types[id];
        if (type < RT_VOCAB_NORMAL || type > RT_VOCAB_BYTE)
            return rt_fail(e, RT_FORMAT, "tokenizer.ggml.token_type[%u] is %d; types are from 1 to 6", id, type);
        if (type != RT_VOCAB_CONTROL && type != RT_VOCAB_USER_DEFINED && type != RT_VOCAB_UNKNOWN) continue;
        rt_tok_added a = { .id = id, .content = t->vocab.entries[id].text, .special = type != RT_VOCAB_USER_DEFINED };
        RT_TRY(rt_tok_added_add(t, &a, "tokenizer.ggml.token_type", e));
    }
out:
    return rc;
}

static int add_split(rt_tokenizer *t, const char *pattern, rt_err *e)
{
    rt_tok_pre p = { .kind = RT_PRE_SPLIT, .behavior = RT_SPLIT_ISOLATED };
    int rc = rt_tok_pattern_compile(&p.pattern, pattern, strlen(pattern), true, "tokenizer.ggml.pre", e);
    if (rc == RT_OK) rc = rt_tok_pre_add(t, &p, "tokenizer.ggml.pre", e);
    if (rc < 0) rt_tok_pattern_free(&p.pattern);
    return rc;
}

static int add_bpe(rt_tokenizer *t, const rt_vocab_spec *spec, bool *add_bos, rt_err *e)
{
    int rc;
    if (!spec->pre)
        return rt_fail(e, RT_UNSUPPORTED,
                       "tokenizer.ggml.pre is missing: how the text is split is not known; convert the model again");
    const rt_tok_gguf_pre *pre = rt_tok_gguf_pre_find(spec->pre);
    if (!pre)
        return rt_fail(e, RT_UNSUPPORTED, "tokenizer.ggml.pre: the pre-tokenizer '%.60s' is not supported", spec->pre);
    RT_TRY(add_merges(t, spec, e));
    for (int i = 0; i < RT_TOK_PRE_PATTERNS && pre->patterns[i]; i++) RT_TRY(add_split(t, pre->patterns[i], e));
    rt_tok_pre bytes = { .kind = RT_PRE_BYTE_LEVEL };
    rt_tok_dec decode = { .kind = RT_DEC_BYTE_LEVEL };
    RT_TRY(rt_tok_pre_add(t, &bytes, "tokenizer.ggml.pre", e));
    RT_TRY(rt_tok_dec_add(t, &decode, "tokenizer.ggml.pre", e));
    t->model.ignore_merges = pre->ignore_merges;
    *add_bos = pre->add_bos;
out:
    return rc;
}

static int add_spm(rt_tokenizer *t, const rt_vocab_spec *spec, rt_err *e)
{
    static const rt_tok_text space = { " ", 1 }, mark = { "\xE2\x96\x81", 3 };
    int rc;
    if (!spec->scores) return rt_fail(e, RT_FORMAT, "tokenizer.ggml.scores is missing");
    RT_TRY(rt_tok_scores_set(t, spec->scores, e));
    rt_tok_norm prepend = { .kind = RT_NORM_PREPEND, .content = mark };
    rt_tok_norm escape = { .kind = RT_NORM_REPLACE, .pattern = { .literal = space }, .content = mark };
    if (spec->add_space_prefix != 0) RT_TRY(rt_tok_norm_add(t, &prepend, "normalizer", e));
    RT_TRY(rt_tok_norm_add(t, &escape, "normalizer", e));
    const rt_tok_dec chain[] = { { .kind = RT_DEC_REPLACE, .pattern = { .literal = mark }, .content = space },
                                 { .kind = RT_DEC_BYTE_FALLBACK },
                                 { .kind = RT_DEC_FUSE },
                                 { .kind = RT_DEC_STRIP, .content = space, .start = 1 } };
    for (int i = 0; i < (spec->add_space_prefix != 0 ? 4 : 3); i++) RT_TRY(rt_tok_dec_add(t, &chain[i], "decoder", e));
out:
    return rc;
}

static int add_ends(rt_tokenizer *t, const rt_vocab_spec *spec, bool add_bos, rt_err *e)
{
    int rc = RT_OK;
    bool bos = spec->add_bos < 0 ? add_bos : spec->add_bos != 0, eos = spec->add_eos > 0;
    if (bos && (spec->bos < 0 || spec->bos >= spec->token_count))
        return rt_fail(
            e, RT_FORMAT,
            "tokenizer.ggml.bos_token_id is missing or outside the vocabulary, but the token is to be added");
    if (eos && (spec->eos < 0 || spec->eos >= spec->token_count))
        return rt_fail(
            e, RT_FORMAT,
            "tokenizer.ggml.eos_token_id is missing or outside the vocabulary, but the token is to be added");
    if (bos) RT_TRY(rt_tok_post_add(t, (uint32_t)spec->bos, e));
    RT_TRY(rt_tok_post_add(t, RT_TOK_SEQUENCE, e));
    if (eos) RT_TRY(rt_tok_post_add(t, (uint32_t)spec->eos, e));
out:
    return rc;
}

int rt_tokenizer_from_vocab(rt_tokenizer **out, const rt_vocab_spec *spec, rt_err *e)
{
    bool bpe = strcmp(spec->model, "gpt2") == 0, add_bos = true;
    int rc;
    *out = NULL;
    if (!bpe && strcmp(spec->model, "llama") != 0)
        return rt_fail(e, RT_UNSUPPORTED, "tokenizer.ggml.model: the model '%.60s' is not supported", spec->model);
    rt_tokenizer *t = rt_tok_new();
    if (!t) return rt_tok_out_of_memory(e);
    t->has_decoder = true;
    RT_TRY(add_vocab(t, spec, e));
    RT_TRY(bpe ? add_bpe(t, spec, &add_bos, e) : add_spm(t, spec, e));
    RT_TRY(add_added(t, spec, e));
    RT_TRY(add_ends(t, spec, add_bos, e));
    RT_TRY(rt_tok_finish(t, e));
    *out = t;
    return RT_OK;
out:
    rt_tokenizer_free(t);
    return rc;
}
