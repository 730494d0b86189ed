/* vocab_text.c - what an output of another format needs of a model's text (rt_model_text_for).
 *
 * Owns: which form each container wants, and the ids that go with a vocabulary. Leaves the forms to vocab_export.c and
 * vocab_import.c. */
#include "text/data/model_text.h"
#include "text/tokenizer/vocab_convert.h"

#include <stdio.h>
#include <string.h>

/* A list that is shorter than the embedding, as APR files have them, is filled up. */
static int pad_vocab(rt_vocab_spec *v, uint32_t vocab, rt_arena *a, rt_err *e)
{
    uint32_t count = v->token_count;
    if (vocab == 0 || count == vocab) return RT_OK;
    if (count > vocab)
        return rt_fail(
            e, RT_INVALID,
            "the vocabulary has %u tokens, but the model's embedding has %u rows: they do not belong together", count,
            vocab);
    rt_tok_text *tokens = rt_arena_alloc(a, (size_t)vocab * sizeof *tokens);
    int32_t *types = rt_arena_alloc(a, (size_t)vocab * sizeof *types);
    float *scores = v->scores ? rt_arena_alloc(a, (size_t)vocab * sizeof *scores) : NULL;
    if (!tokens || !types || (v->scores && !scores)) return rt_no_memory(e, "the tokenizer of an output");
    for (uint32_t i = 0; i < vocab; i++) {
        types[i] = i >= count ? RT_VOCAB_UNUSED : v->types ? v->types[i] : RT_VOCAB_NORMAL;
        if (scores) scores[i] = i < count ? v->scores[i] : -1e6f;
        if (i < count) {
            tokens[i] = v->tokens[i];
            continue;
        }
        char *name = rt_arena_printf(a, "[PAD%u]", i);
        if (!name) return rt_no_memory(e, "the tokenizer of an output");
        tokens[i] = (rt_tok_text){ name, strlen(name) };
    }
    v->tokens = tokens;
    v->types = types;
    v->scores = scores;
    v->token_count = vocab;
    return RT_OK;
}

static int to_lists(rt_model_text *out, uint32_t vocab, rt_arena *a, rt_str *notes, rt_err *e)
{
    rt_text_source *s = NULL;
    int rc = RT_OK;
    if (!out->has_vocab && out->tokenizer_json.data) {
        RT_TRY(rt_vocab_from_json(&out->vocab, a, out->tokenizer_json, vocab, notes, e));
        RT_TRY(rt_text_from_model(&s, out, NULL, "the tokenizer", e));
        if (out->vocab.bos < 0) out->vocab.bos = s->bos;
        if (out->vocab.eos < 0) out->vocab.eos = s->eos;
        out->unk = s->unk;
        out->pad = s->pad;
        out->eot = s->end_of_turn >= 0 && s->end_of_turn != out->vocab.eos ? s->end_of_turn : -1;
        out->has_vocab = true;
    }
    if (out->has_vocab) RT_TRY(pad_vocab(&out->vocab, vocab, a, e));
out:
    rt_text_close(s);
    return rc;
}

static int keep(rt_span *out, rt_str *text, rt_arena *a, rt_err *e)
{
    *out = rt_span_copy(a, text->data, text->len);
    return out->data ? RT_OK : rt_no_memory(e, "the tokenizer of an output");
}

static int to_files(rt_model_text *out, rt_arena *a, rt_err *e)
{
    rt_str text = { 0 };
    int rc = RT_OK;
    if (!out->has_vocab) return RT_OK;
    if (!out->tokenizer_json.data) {
        RT_TRY(rt_vocab_to_json(&out->vocab, &text, e));
        RT_TRY(keep(&out->tokenizer_json, &text, a, e));
    }
    if (!out->tokenizer_config.data) {
        rt_str_free(&text);
        RT_TRY(rt_vocab_to_config(out, &text, e));
        RT_TRY(keep(&out->tokenizer_config, &text, a, e));
    }
out:
    rt_str_free(&text);
    return rc;
}

int rt_model_text_for(rt_model_text *out, const rt_model_text *t, rt_container to, uint32_t vocab, rt_arena *a,
                      rt_str *notes, rt_err *e)
{
    rt_model_text made = *t;
    bool lists = to == RT_CONTAINER_GGUF || to == RT_CONTAINER_APR;
    rt_err why = { 0 };
    int rc = lists ? to_lists(&made, vocab, a, notes, &why) : to_files(&made, a, &why);
    if (rc == RT_UNSUPPORTED && to == RT_CONTAINER_APR && t->tokenizer_json.data) {
        /* APR holds the whole tokenizer.json; readers that want lists go without. */
        if (notes) rt_str_printf(notes, "no vocabulary for other readers of APR: %s\n", why.text);
        made = *t;
        rc = RT_OK;
    }
    if (rc == RT_OK)
        *out = made;
    else
        rt_fail(e, rc, "%s", why.text);
    return rc;
}
