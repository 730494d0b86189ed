/* vocab_import.c - the plain lists of GGUF and APR to tokenizer.json and tokenizer_config.json.
 *
 * Owns: the steps that stand around each kind of vocabulary, as the tokenizers package spells them, and the merges that
 * scores imply. The lists are first made into a tokenizer, which checks them and says what is added before and after a
 * text. */
#include "base/json.h"
#include "text/tokenizer/tok_gguf.h"
#include "text/tokenizer/tok_internal.h"
#include "text/tokenizer/vocab_convert.h"

#include <stdio.h>
#include <stdlib.h>

static void put_text(rt_str *s, rt_tok_text t) { rt_json_put_text(s, t.data, t.len); }

static bool is_added(const rt_tokenizer *t, uint32_t id) { return t->vocab.entries[id].flags & RT_TOKEN_ADDED; }

static bool is_padding(const rt_tokenizer *t, uint32_t id)
{
    return !t->vocab.entries[id].text.data || (t->vocab.entries[id].flags & RT_TOKEN_UNUSED);
}

/* ---- added tokens ---- */

/* The package numbers added tokens that the vocabulary lacks on from its size. So they may stay out of it only where
 * that gives the ids they have: all other tokens first, without a hole. */
static bool may_stay_out(const rt_tokenizer *t)
{
    uint32_t end = t->vocab.size, id = 0;
    while (end > 0 && is_padding(t, end - 1)) end--;
    while (id < end && !is_padding(t, id) && !is_added(t, id)) id++;
    while (id < end && !is_padding(t, id) && is_added(t, id)) id++;
    return id == end;
}

static void put_added(rt_str *s, const rt_tokenizer *t)
{
    const char *comma = "";
    rt_json_put_key(s, "added_tokens");
    rt_str_append(s, "[");
    for (uint32_t id = 0; id < t->vocab.size; id++) {
        if (is_padding(t, id) || !is_added(t, id)) continue;
        rt_str_printf(s, "%s{\"id\":%u,\"content\":", comma, id);
        put_text(s, t->vocab.entries[id].text);
        rt_str_printf(s,
                      ",\"single_word\":false,\"lstrip\":false,\"rstrip\":false,\"normalized\":false,\"special\":%s}",
                      t->vocab.entries[id].flags & RT_TOKEN_SPECIAL ? "true" : "false");
        comma = ",";
    }
    rt_str_append(s, "]");
}

/* ---- steps ---- */

static void put_pre(rt_str *s, const rt_tok_gguf_pre *p)
{
    rt_str_append(s, ",\"normalizer\":null,\"pre_tokenizer\":{\"type\":\"Sequence\",\"pretokenizers\":[");
    for (int i = 0; i < RT_TOK_PRE_PATTERNS && p->patterns[i]; i++) {
        rt_str_append(s, "{\"type\":\"Split\",\"pattern\":{\"Regex\":");
        rt_json_put_text(s, p->patterns[i], strlen(p->patterns[i]));
        rt_str_append(s, "},\"behavior\":\"Isolated\",\"invert\":false},");
    }
    rt_str_append(s,
                  "{\"type\":\"ByteLevel\",\"add_prefix_space\":false,\"trim_offsets\":false,\"use_regex\":false}]}");
    rt_str_append(
        s,
        ",\"decoder\":{\"type\":\"ByteLevel\",\"add_prefix_space\":false,\"trim_offsets\":false,\"use_regex\":false}");
}

#define MARK "\"\xE2\x96\x81\""

static void put_spm_steps(rt_str *s, bool prefix)
{
    rt_str_append(s, ",\"normalizer\":{\"type\":\"Sequence\",\"normalizers\":[");
    if (prefix) rt_str_append(s, "{\"type\":\"Prepend\",\"prepend\":" MARK "},");
    rt_str_append(s, "{\"type\":\"Replace\",\"pattern\":{\"String\":\" \"},\"content\":" MARK "}]}");
    rt_str_append(s, ",\"pre_tokenizer\":null,\"decoder\":{\"type\":\"Sequence\",\"decoders\":["
                     "{\"type\":\"Replace\",\"pattern\":{\"String\":" MARK "},\"content\":\" \"},"
                     "{\"type\":\"ByteFallback\"},{\"type\":\"Fuse\"}");
    if (prefix) rt_str_append(s, ",{\"type\":\"Strip\",\"content\":\" \",\"start\":1,\"stop\":0}");
    rt_str_append(s, "]}");
}

static void put_special(rt_str *s, const rt_tokenizer *t, const char *before, const uint32_t *ids, uint32_t count,
                        const char *after)
{
    for (uint32_t i = 0; i < count; i++) {
        rt_str_append(s, before);
        rt_str_append(s, "{\"SpecialToken\":{\"id\":");
        put_text(s, t->vocab.entries[ids[i]].text);
        rt_str_append(s, ",\"type_id\":0}}");
        rt_str_append(s, after);
    }
}

static void put_template_side(rt_str *s, const rt_tokenizer *t, const char *sequences)
{
    uint32_t before, after;
    const uint32_t *prefix = rt_tokenizer_prefix(t, &before), *suffix = rt_tokenizer_suffix(t, &after);
    rt_str_append(s, "[");
    put_special(s, t, "", prefix, before, ",");
    rt_str_append(s, sequences);
    put_special(s, t, ",", suffix, after, "");
    rt_str_append(s, "]");
}

static void put_post(rt_str *s, const rt_tokenizer *t)
{
    uint32_t before, after;
    const uint32_t *prefix = rt_tokenizer_prefix(t, &before), *suffix = rt_tokenizer_suffix(t, &after);
    rt_json_put_key(s, "post_processor");
    if (before + after == 0) {
        rt_str_append(s, "null");
        return;
    }
    rt_str_append(s, "{\"type\":\"TemplateProcessing\",\"single\":");
    put_template_side(s, t, "{\"Sequence\":{\"id\":\"A\",\"type_id\":0}}");
    rt_str_append(s, ",\"pair\":");
    put_template_side(s, t, "{\"Sequence\":{\"id\":\"A\",\"type_id\":0}},{\"Sequence\":{\"id\":\"B\",\"type_id\":1}}");
    rt_str_append(s, ",\"special_tokens\":{");
    for (uint32_t i = 0; i < before + after; i++) {
        uint32_t id = i < before ? prefix[i] : suffix[i - before];
        if (i >= before && before && id == prefix[0]) continue;
        rt_tok_text text = t->vocab.entries[id].text;
        if (i > 0) rt_str_append(s, ",");
        put_text(s, text);
        rt_str_append(s, ":{\"id\":");
        put_text(s, text);
        rt_str_printf(s, ",\"ids\":[%u],\"tokens\":[", id);
        put_text(s, text);
        rt_str_append(s, "]}");
    }
    rt_str_append(s, "}}");
}

/* ---- model ---- */

static void put_vocab(rt_str *s, const rt_tokenizer *t, bool without_added)
{
    const char *comma = "";
    rt_json_put_key(s, "vocab");
    rt_str_append(s, "{");
    for (uint32_t id = 0; id < t->vocab.size; id++) {
        if (is_padding(t, id) || (without_added && is_added(t, id))) continue;
        rt_str_append(s, comma);
        put_text(s, t->vocab.entries[id].text);
        rt_str_printf(s, ":%u", id);
        comma = ",";
    }
    rt_str_append(s, "}");
}

typedef struct pair {
    rt_tok_text text;
    size_t cut; /* bytes of the left part */
    float score;
    uint32_t id;
} pair;

/* Best score first; of one score, what transformers does when it converts a SentencePiece model. */
static int by_score(const void *a, const void *b)
{
    const pair *x = a, *y = b;
    if (x->score != y->score) return x->score > y->score ? -1 : 1;
    if (x->cut != y->cut) return x->cut > y->cut ? -1 : 1;
    size_t xr = x->text.len - x->cut, yr = y->text.len - y->cut;
    if (xr != yr) return xr > yr ? -1 : 1;
    return x->id < y->id ? -1 : x->id > y->id;
}

/* Whether the vocabulary has it as a token that is no padding. */
static bool known(const rt_tokenizer *t, const char *text, size_t len)
{
    uint32_t id = rt_tok_vocab_find(&t->vocab, text, len);
    return id != RT_TOK_NONE && !is_padding(t, id);
}

/* By scores, neighbours are joined whenever they spell a token: every cut of a token into two is a merge. */
static int score_pairs(const rt_tokenizer *t, const float *scores, pair **out, uint32_t *count, rt_err *e)
{
    pair *list = NULL;
    uint32_t n = 0, cap = 0;
    for (uint32_t id = 0; id < t->vocab.size; id++) {
        rt_tok_text s = t->vocab.entries[id].text;
        if (is_padding(t, id)) continue;
        for (size_t at = s.len ? rt_utf8_len(s.data[0]) : 0; at < s.len; at += rt_utf8_len(s.data[at])) {
            if (!known(t, s.data, at) || !known(t, s.data + at, s.len - at)) continue;
            if (!rt_grow((void **)&list, &cap, n + 1, sizeof *list)) {
                rt_free(list);
                return rt_no_memory(e, "tokenizer.json");
            }
            list[n++] = (pair){ s, at, scores[id], id };
        }
    }
    if (n > 0) qsort(list, n, sizeof *list, by_score);
    *out = list;
    *count = n;
    return RT_OK;
}

/* "left right", as every version of the package reads it; as a list where a token has a space in it. */
static void put_merge(rt_str *s, rt_str *both, rt_tok_text l, rt_tok_text r)
{
    if (memchr(l.data, ' ', l.len) || memchr(r.data, ' ', r.len)) {
        rt_str_append(s, "[");
        put_text(s, l);
        rt_str_append(s, ",");
        put_text(s, r);
        rt_str_append(s, "]");
        return;
    }
    both->len = 0;
    rt_str_append_n(both, l.data, l.len);
    rt_str_append_n(both, " ", 1);
    rt_str_append_n(both, r.data, r.len);
    if (!both->failed) rt_json_put_text(s, both->data, both->len);
}

static int put_score_merges(rt_str *s, const rt_tokenizer *t, const float *scores, rt_err *e)
{
    pair *list = NULL;
    uint32_t count = 0;
    rt_str both = { 0 };
    int rc = score_pairs(t, scores, &list, &count, e);
    if (rc < 0) return rc;
    rt_json_put_key(s, "merges");
    rt_str_append(s, "[");
    for (uint32_t i = 0; i < count; i++) {
        rt_tok_text whole = list[i].text;
        if (i > 0) rt_str_append(s, ",");
        put_merge(s, &both, (rt_tok_text){ whole.data, list[i].cut },
                  (rt_tok_text){ whole.data + list[i].cut, whole.len - list[i].cut });
    }
    rt_str_append(s, "]");
    if (both.failed) rc = rt_no_memory(e, "tokenizer.json");
    rt_str_free(&both);
    rt_free(list);
    return rc;
}

static void put_list_merges(rt_str *s, const rt_vocab_spec *v)
{
    rt_json_put_key(s, "merges");
    rt_str_append(s, "[");
    for (uint32_t i = 0; i < v->merge_count; i++) {
        if (i > 0) rt_str_append(s, ",");
        put_text(s, v->merges[i]);
    }
    rt_str_append(s, "]");
}

static int put_model(rt_str *s, const rt_tokenizer *t, const rt_vocab_spec *v, bool spm, rt_err *e)
{
    uint32_t unk = RT_TOK_NONE;
    for (uint32_t id = 0; id < t->vocab.size && unk == RT_TOK_NONE && spm; id++)
        if (v->types && v->types[id] == RT_VOCAB_UNKNOWN) unk = id;
    rt_json_put_key(s, "model");
    rt_str_append(s, "{\"type\":\"BPE\",\"dropout\":null,\"unk_token\":");
    if (unk != RT_TOK_NONE)
        put_text(s, t->vocab.entries[unk].text);
    else
        rt_str_append(s, "null");
    rt_str_printf(s,
                  ",\"continuing_subword_prefix\":null,\"end_of_word_suffix\":null,\"fuse_unk\":%s,"
                  "\"byte_fallback\":%s,\"ignore_merges\":%s",
                  spm ? "true" : "false", spm ? "true" : "false", t->model.ignore_merges ? "true" : "false");
    put_vocab(s, t, !spm && may_stay_out(t));
    int rc = RT_OK;
    if (spm)
        rc = put_score_merges(s, t, v->scores, e);
    else
        put_list_merges(s, v);
    rt_str_append(s, "}");
    return rc;
}

int rt_vocab_to_json(const rt_vocab_spec *v, rt_str *json, rt_err *e)
{
    bool spm = strcmp(v->model, "llama") == 0;
    rt_tokenizer *t = NULL;
    int rc;
    RT_TRY(rt_tokenizer_from_vocab(&t, v, e));
    rt_str_append(json, "{\"version\":\"1.0\",\"truncation\":null,\"padding\":null");
    put_added(json, t);
    if (spm)
        put_spm_steps(json, v->add_space_prefix != 0);
    else
        put_pre(json, rt_tok_gguf_pre_find(v->pre));
    put_post(json, t);
    RT_TRY(put_model(json, t, v, spm, e));
    rt_str_append(json, "}\n");
    if (json->failed) rc = rt_no_memory(e, "tokenizer.json");
out:
    rt_tokenizer_free(t);
    return rc;
}

/* ---- tokenizer_config.json ---- */

static void put_role(rt_str *s, const rt_vocab_spec *v, const char *key, int64_t id)
{
    if (id < 0 || id >= v->token_count) return;
    rt_json_put_key(s, key);
    put_text(s, v->tokens[id]);
}

int rt_vocab_to_config(const rt_model_text *t, rt_str *json, rt_err *e)
{
    rt_str_append(json, "{");
    if (t->has_vocab) {
        put_role(json, &t->vocab, "bos_token", t->vocab.bos);
        put_role(json, &t->vocab, "eos_token", t->vocab.eos);
        put_role(json, &t->vocab, "unk_token", t->unk);
        put_role(json, &t->vocab, "pad_token", t->pad);
    }
    if (t->chat_template.data) {
        rt_json_put_key(json, "chat_template");
        if (!rt_json_put_text(json, t->chat_template.data, t->chat_template.len))
            return rt_fail(e, RT_INVALID, "the chat template is not valid UTF-8 (at byte %zu)",
                           rt_utf8_valid(t->chat_template.data, t->chat_template.len));
    }
    rt_json_put_key(json, "clean_up_tokenization_spaces");
    rt_str_append(json, "false");
    /* The class that takes tokenizer.json as it is. */
    rt_json_put_key(json, "tokenizer_class");
    rt_str_append(json, "\"PreTrainedTokenizerFast\"}\n");
    return json->failed ? rt_no_memory(e, "tokenizer.json") : RT_OK;
}
