/* tok_json.c - tokenizer.json: the file as a whole, its added tokens; the tokenizer of a model.
 *
 * Owns: the order in which the parts are read. Leaves the model to tok_json_model.c, the steps before and after it to
 * tok_json_steps.c, and members with their messages to tok_json_get.c. */
#include "text/tokenizer/tok_json.h"

#include "base/json.h"

/* The package ignores the ids in the list: a token that the vocabulary has keeps its id there, the others are numbered
 * on from its size. Where the list says otherwise, one of the two is wrong. */
static int added_token(rt_tokenizer *t, const rt_tok_json *v, uint32_t *next, rt_err *e)
{
    rt_tok_added a = { 0 };
    rt_tok_json content = rt_tok_json_member(v, "content"), id = rt_tok_json_member(v, "id");
    int rc;
    RT_TRY(rt_tok_json_object(v, e));
    RT_TRY(rt_tok_json_uint(&id, &a.id, e));
    RT_TRY(rt_tok_json_string(&content, &a.content, e));
    RT_TRY(rt_tok_json_bool(v, "single_word", &a.single_word, e));
    RT_TRY(rt_tok_json_bool(v, "lstrip", &a.lstrip, e));
    RT_TRY(rt_tok_json_bool(v, "rstrip", &a.rstrip, e));
    RT_TRY(rt_tok_json_bool(v, "normalized", &a.normalized, e));
    RT_TRY(rt_tok_json_bool(v, "special", &a.special, e));
    uint32_t known = rt_tok_vocab_find(&t->vocab, a.content.data, a.content.len);
    if (known == RT_TOK_NONE)
        known = rt_tok_map_find(&t->vocab.added, &t->vocab, RT_KEY_TEXT, a.content.data, a.content.len);
    if (a.content.len == 0) return RT_OK;
    if (known == RT_TOK_NONE) known = (*next)++;
    if (known != a.id)
        return rt_fail(e, RT_FORMAT,
                       "%s: '%.*s' is listed with id %u, but has id %u by the vocabulary; save the tokenizer again",
                       v->path, (int)(a.content.len < 60 ? a.content.len : 60), a.content.data, a.id, known);
    rc = rt_tok_added_add(t, &a, v->path, e);
out:
    return rc;
}

static int added_tokens(rt_tokenizer *t, const rt_tok_json *v, rt_err *e)
{
    if (rt_tok_json_none(v)) return RT_OK;
    size_t count;
    uint32_t next = t->vocab.model_count;
    int rc;
    RT_TRY(rt_tok_json_array(v, &count, e));
    for (size_t i = 0; i < count; i++) {
        rt_tok_json item = rt_tok_json_item(v, i);
        RT_TRY(added_token(t, &item, &next, e));
    }
out:
    return rc;
}

static int read_parts(rt_tokenizer *t, const rt_tok_json *root, rt_err *e)
{
    rt_tok_json version = rt_tok_json_member(root, "version");
    rt_tok_json model = rt_tok_json_member(root, "model"), added = rt_tok_json_member(root, "added_tokens");
    rt_tok_json norm = rt_tok_json_member(root, "normalizer"), pre = rt_tok_json_member(root, "pre_tokenizer");
    rt_tok_json post = rt_tok_json_member(root, "post_processor"), decoder = rt_tok_json_member(root, "decoder");
    rt_tok_text text;
    int rc;
    if (version.value) {
        RT_TRY(rt_tok_json_string(&version, &text, e));
        if (!rt_tok_json_is(text, "1.0")) return rt_tok_json_unknown(&version, text, "the file's version", e);
    }
    RT_TRY(rt_tok_json_model(t, &model, e));
    RT_TRY(rt_tok_json_normalizer(t, &norm, 0, e));
    RT_TRY(rt_tok_json_pre_tokenizer(t, &pre, 0, e));
    RT_TRY(rt_tok_json_decoder(t, &decoder, 0, e));
    t->has_decoder = !rt_tok_json_none(&decoder);
    RT_TRY(added_tokens(t, &added, e));
    RT_TRY(rt_tok_json_post_processor(t, &post, 0, e));
    RT_TRY(rt_tok_finish(t, e));
out:
    return rc;
}

int rt_tokenizer_from_json(rt_tokenizer **out, const char *text, size_t len, rt_err *e)
{
    json_error_t error;
    rt_tokenizer *t = NULL;
    int rc = RT_OK;
    *out = NULL;
    json_t *root = rt_json_load(text, len, JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL, &error);
    if (!root) {
        if (rt_json_out_of_memory()) return rt_tok_out_of_memory(e);
        /* jansson has no keys with a NUL in them; no published vocabulary has either. */
        int status = json_error_code(&error) == json_error_null_byte_in_key ? RT_UNSUPPORTED : RT_FORMAT;
        return rt_fail(e, status, "tokenizer.json: line %d, column %d: %s", error.line, error.column, error.text);
    }
    rt_tok_json top = { .value = root };
    if (!json_is_object(root)) RT_TRY(rt_fail(e, RT_FORMAT, "tokenizer.json: expected an object"));
    t = rt_tok_new();
    if (!t) RT_TRY(rt_tok_out_of_memory(e));
    RT_TRY(read_parts(t, &top, e));
    *out = t;
    t = NULL;
out:
    rt_tokenizer_free(t);
    json_decref(root);
    return rc;
}

int rt_model_tokenizer(rt_tokenizer **out, const rt_model_text *t, rt_err *e)
{
    *out = NULL;
    rt_json_init();
    if (t->tokenizer_json.data) {
        rt_json_out_of_memory();
        int rc = rt_tokenizer_from_json(out, t->tokenizer_json.data, t->tokenizer_json.len, e);
        /* jansson gives no reason when it has no memory for its first buffer. */
        return rc == RT_FORMAT && rt_json_out_of_memory() ? rt_fail(e, RT_NOMEM, "out of memory for the tokenizer")
                                                          : rc;
    }
    if (t->has_vocab) return rt_tokenizer_from_vocab(out, &t->vocab, e);
    for (uint32_t i = 0; i < t->side_count; i++)
        if (strcmp(t->side[i].name, "tokenizer.model") == 0)
            return rt_fail(e, RT_NOT_FOUND,
                           "the model has a tokenizer.model (SentencePiece), but no tokenizer.json, which is needed; "
                           "save it with transformers: AutoTokenizer.from_pretrained(DIR).save_pretrained(DIR)");
    return rt_fail(e, RT_NOT_FOUND,
                   "the model has no tokenizer: neither a tokenizer.json beside its weights nor a vocabulary in its "
                   "metadata (tokenizer.ggml.tokens of GGUF, tokenizer.vocabulary of APR); name a tokenizer.json or a "
                   "model that has one");
}
