/* apr_vocab.c - the vocabulary that APR metadata carry.
 *
 * Owns: tokenizer.vocabulary, tokenizer.merges and the two ids, which every writer of the format gives, and
 * "retort.vocab", where we put what a tokenizer needs besides: kind, name of the pre-tokenizer, types, scores. Without
 * it a byte-level vocabulary is taken for what it is only where its tokens prove it (Qwen's); otherwise it is kept
 * unread and a note says so. */
#include "base/json.h"
#include "format/apr/apr.h"

#include <jansson.h>
#include <stdio.h>
#include <string.h>

static int wrong(const rt_model_file *m, const char *key, const char *what, rt_err *e)
{
    return rt_fail(e, RT_FORMAT, "%s: key \"%s\" of the metadata must be %s", m->parts[0].path, key, what);
}

static json_int_t id_of(const json_t *object, const char *key, json_int_t fallback)
{
    const json_t *v = json_object_get(object, key);
    return json_is_integer(v) ? json_integer_value(v) : fallback;
}

/* One merge: "left right", or a list of the two. */
static bool merge_parts(const json_t *v, const json_t **left, const json_t **right)
{
    *left = v;
    *right = NULL;
    if (json_is_string(v)) return true;
    *left = json_array_get(v, 0);
    *right = json_array_get(v, 1);
    return json_array_size(v) == 2 && json_is_string(*left) && json_is_string(*right);
}

/* All texts of a list in one piece of memory. */
static int read_texts(rt_model_file *m, const json_t *list, const char *key, bool pairs, rt_tok_text **out, rt_err *e)
{
    size_t count = json_array_size(list), total = 0, at = 0, i;
    const json_t *item, *left, *right;
    json_array_foreach(list, i, item)
    {
        if (!merge_parts(item, &left, &right) || (right && !pairs))
            return wrong(m, key, pairs ? "a list of merges" : "a list of strings", e);
        total += json_string_length(left) + (right ? json_string_length(right) + 1 : 0);
    }
    rt_tok_text *texts = rt_arena_alloc(&m->arena, (count + 1) * sizeof *texts);
    char *bytes = rt_arena_alloc(&m->arena, total + 1);
    if (!texts || !bytes) return rt_no_memory(e, m->parts[0].path);
    json_array_foreach(list, i, item)
    {
        merge_parts(item, &left, &right);
        size_t n = json_string_length(left), begin = at;
        memcpy(bytes + at, json_string_value(left), n);
        at += n;
        if (right) {
            bytes[at++] = ' ';
            memcpy(bytes + at, json_string_value(right), json_string_length(right));
            at += json_string_length(right);
        }
        texts[i] = (rt_tok_text){ bytes + begin, at - begin };
    }
    *out = texts;
    return RT_OK;
}

/* ---- what we wrote ---- */

static int read_types(rt_model_file *m, const json_t *list, rt_vocab_spec *v, rt_err *e)
{
    size_t i;
    const json_t *item;
    if (!list) return RT_OK;
    if (json_array_size(list) != v->token_count)
        return wrong(m, "retort.vocab.types", "a list with a number for each token", e);
    int32_t *types = rt_arena_alloc(&m->arena, (size_t)v->token_count * sizeof *types);
    if (!types) return rt_no_memory(e, m->parts[0].path);
    json_array_foreach(list, i, item)
    {
        json_int_t type = json_is_integer(item) ? json_integer_value(item) : 0;
        if (type < RT_VOCAB_NORMAL || type > RT_VOCAB_BYTE)
            return wrong(m, "retort.vocab.types", "a list of numbers from 1 to 6", e);
        types[i] = (int32_t)type;
    }
    v->types = types;
    return RT_OK;
}

static int read_scores(rt_model_file *m, const json_t *list, rt_vocab_spec *v, rt_err *e)
{
    size_t i;
    const json_t *item;
    if (!list) return RT_OK;
    if (json_array_size(list) != v->token_count)
        return wrong(m, "retort.vocab.scores", "a list with a number for each token", e);
    float *scores = rt_arena_alloc(&m->arena, (size_t)v->token_count * sizeof *scores);
    if (!scores) return rt_no_memory(e, m->parts[0].path);
    json_array_foreach(list, i, item)
    {
        if (!json_is_number(item)) return wrong(m, "retort.vocab.scores", "a list of numbers", e);
        scores[i] = (float)json_number_value(item);
    }
    v->scores = scores;
    return RT_OK;
}

static int read_own(rt_model_file *m, const json_t *own, rt_vocab_spec *v, rt_err *e)
{
    const char *model = json_string_value(json_object_get(own, "model"));
    const char *pre = json_string_value(json_object_get(own, "pre"));
    int rc;
    if (!model) return wrong(m, "retort.vocab.model", "a string", e);
    v->model = rt_arena_strdup(&m->arena, model);
    v->pre = pre ? rt_arena_strdup(&m->arena, pre) : NULL;
    if (!v->model || (pre && !v->pre)) return rt_no_memory(e, m->parts[0].path);
    RT_TRY(read_types(m, json_object_get(own, "types"), v, e));
    RT_TRY(read_scores(m, json_object_get(own, "scores"), v, e));
    v->add_bos = (int)id_of(own, "add_bos", -1);
    v->add_eos = (int)id_of(own, "add_eos", -1);
    v->add_space_prefix = (int)id_of(own, "add_space_prefix", -1);
    m->text.unk = id_of(own, "unk", -1);
    m->text.pad = id_of(own, "pad", -1);
    m->text.eot = id_of(own, "eot", -1);
    m->text.has_vocab = true;
out:
    return rc;
}

/* ---- what others wrote ---- */

enum { QWEN_END = 151643 };

static bool is_text(rt_tok_text t, const char *word)
{
    return t.len == strlen(word) && memcmp(t.data, word, t.len) == 0;
}

static int32_t qwen_type(rt_tok_text t)
{
    if (t.len > 4 && memcmp(t.data, "<|", 2) == 0 && memcmp(t.data + t.len - 2, "|>", 2) == 0) return RT_VOCAB_CONTROL;
    if (t.len > 4 && memcmp(t.data, "[PAD", 4) == 0) return RT_VOCAB_UNUSED;
    return RT_VOCAB_USER_DEFINED;
}

/* Qwen's vocabulary is known by where its own tokens are. */
static int read_qwen(rt_model_file *m, rt_vocab_spec *v, rt_err *e)
{
    int32_t *types = rt_arena_alloc(&m->arena, (size_t)v->token_count * sizeof *types);
    if (!types) return rt_no_memory(e, m->parts[0].path);
    for (uint32_t i = 0; i < v->token_count; i++) types[i] = i < QWEN_END ? RT_VOCAB_NORMAL : qwen_type(v->tokens[i]);
    v->types = types;
    v->model = "gpt2";
    v->pre = "qwen2";
    v->add_bos = v->add_eos = 0;
    m->text.has_vocab = true;
    rt_model_note(m,
                  "the vocabulary is Qwen's by its tokens; kinds of tokens and the pre-tokenizer are taken from that");
    return RT_OK;
}

int rt_apr_vocab_read(rt_model_file *m, const json_t *meta, rt_err *e)
{
    const json_t *tokens = json_object_get(meta, "tokenizer.vocabulary");
    const json_t *merges = json_object_get(meta, "tokenizer.merges"), *own = json_object_get(meta, "retort.vocab");
    rt_vocab_spec *v = &m->text.vocab;
    rt_tok_text *texts = NULL, *pairs = NULL;
    int rc;
    if (!tokens || json_is_null(tokens)) return RT_OK;
    if (!json_is_array(tokens)) return wrong(m, "tokenizer.vocabulary", "a list of strings", e);
    if (merges && !json_is_null(merges) && !json_is_array(merges))
        return wrong(m, "tokenizer.merges", "a list of merges", e);
    if (json_array_size(tokens) == 0) return RT_OK;
    *v = (rt_vocab_spec){ .add_bos = -1, .add_eos = -1, .add_space_prefix = -1 };
    RT_TRY(read_texts(m, tokens, "tokenizer.vocabulary", false, &texts, e));
    v->tokens = texts;
    v->token_count = (uint32_t)json_array_size(tokens);
    RT_TRY(read_texts(m, merges, "tokenizer.merges", true, &pairs, e));
    v->merges = pairs;
    v->merge_count = (uint32_t)json_array_size(merges);
    v->bos = id_of(meta, "tokenizer.bos_token_id", -1);
    v->eos = id_of(meta, "tokenizer.eos_token_id", -1);
    if (v->bos < -1 || v->bos >= v->token_count) v->bos = -1;
    if (v->eos < -1 || v->eos >= v->token_count) v->eos = -1;
    if (json_is_object(own)) return read_own(m, own, v, e);
    if (v->merge_count > 0 && v->token_count > QWEN_END + 2 && is_text(v->tokens[QWEN_END], "<|endoftext|>") &&
        is_text(v->tokens[QWEN_END + 1], "<|im_start|>"))
        return read_qwen(m, v, e);
    rt_model_note(m, "the metadata hold a vocabulary of %u tokens, but not how text is split; it is left out",
                  v->token_count);
out:
    return rc;
}
