/* tok_gguf.c - a tokenizer from a GGUF vocabulary: plain arrays, and a name for the pre-tokenizer.
 *
 * Owns: the table from names to patterns, and the parts that llama.cpp puts around each kind of vocabulary. A pattern
 * is that of the models' own tokenizer.json where llama.cpp has to paraphrase it. Leaves reading GGUF to its callers.
 */
#include "text/tokenizer/tok_gguf.h"

#include "text/tokenizer/tok_internal.h"

#include <stdio.h>

#define CONTRACTIONS "(?i:'s|'t|'re|'ve|'m|'ll|'d)"
#define WORDS_UPPER_LOWER "[^\\r\\n\\p{L}\\p{N}]?[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]*[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]+"
#define WORDS_UPPER "[^\\r\\n\\p{L}\\p{N}]?[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]+[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]*"
#define REST " ?[^\\s\\p{L}\\p{N}]+[\\r\\n/]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"
#define GPT2 "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+"
#define LLAMA3                                                                                                         \
    CONTRACTIONS                                                                                                       \
    "|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}{1,3}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"
#define QWEN2                                                                                                          \
    CONTRACTIONS "|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"
#define QWEN35                                                                                                         \
    CONTRACTIONS                                                                                                       \
    "|[^\\r\\n\\p{L}\\p{N}]?[\\p{L}\\p{M}]+|\\p{N}| ?[^\\s\\p{L}\\p{M}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"
/* clang-format off */
#define DEEPSEEK_LETTERS \
    "\\s?[A-Za-z\\x{B5}\\x{C0}-\\x{D6}\\x{D8}-\\x{F6}\\x{F8}-\\x{1BA}\\x{1BC}-\\x{1BF}\\x{1C4}-\\x{293}" \
    "\\x{295}-\\x{2AF}\\x{370}-\\x{373}\\x{376}\\x{377}\\x{37B}-\\x{37D}\\x{37F}\\x{386}\\x{388}-\\x{38A}" \
    "\\x{38C}\\x{38E}-\\x{3A1}\\x{3A3}-\\x{3F5}\\x{3F7}-\\x{481}\\x{48A}-\\x{52F}\\x{531}-\\x{556}" \
    "\\x{10A0}-\\x{10C5}\\x{13A0}-\\x{13F5}\\x{13F8}-\\x{13FD}\\x{1C90}-\\x{1CBA}\\x{1CBD}-\\x{1CBF}" \
    "\\x{1D00}-\\x{1D2B}\\x{1D6B}-\\x{1D77}\\x{1D79}-\\x{1D9A}\\x{1E00}-\\x{1F15}\\x{1F18}-\\x{1F1D}" \
    "\\x{1F20}-\\x{1F45}\\x{1F48}-\\x{1F4D}\\x{1F50}-\\x{1F57}\\x{1F59}\\x{1F5B}\\x{1F5D}\\x{1F5F}-\\x{1F7D}" \
    "\\x{1F80}-\\x{1FB4}\\x{1FB6}-\\x{1FBC}\\x{1FBE}\\x{1FC2}-\\x{1FC4}\\x{1FC6}-\\x{1FCC}\\x{1FD0}-\\x{1FD3}" \
    "\\x{1FD6}-\\x{1FDB}\\x{1FE0}-\\x{1FEC}\\x{1FF2}-\\x{1FF4}\\x{1FF6}-\\x{1FFC}\\x{2102}\\x{2107}" \
    "\\x{210A}-\\x{2113}\\x{2115}\\x{2119}-\\x{211D}\\x{2124}\\x{2126}\\x{2128}\\x{212A}-\\x{212D}" \
    "\\x{212F}-\\x{2134}\\x{2139}\\x{213C}-\\x{213F}\\x{2145}-\\x{2149}\\x{214E}\\x{2183}\\x{2184}" \
    "\\x{2C00}-\\x{2C7B}\\x{2C7E}-\\x{2CE4}\\x{2CEB}-\\x{2CEE}\\x{2CF2}\\x{2CF3}\\x{A640}-\\x{A66D}" \
    "\\x{A680}-\\x{A69B}\\x{A722}-\\x{A76F}\\x{A771}-\\x{A787}\\x{A78B}-\\x{A78E}\\x{AB70}-\\x{ABBF}" \
    "\\x{FB00}-\\x{FB06}\\x{FB13}-\\x{FB17}\\x{FF21}-\\x{FF3A}\\x{FF41}-\\x{FF5A}\\x{10400}-\\x{1044F}" \
    "\\x{104B0}-\\x{104D3}\\x{104D8}-\\x{104FB}\\x{10C80}-\\x{10CB2}\\x{10CC0}-\\x{10CF2}" \
    "\\x{118A0}-\\x{118DF}\\x{1E900}-\\x{1E943}]+"
/* clang-format on */
#define DEEPSEEK_CJK "[\\x{4E00}-\\x{9FA5}\\x{800}-\\x{4E00}\\x{AC00}-\\x{D7FF}]+"
#define DEEPSEEK_PUNCT "\\s?[!-/:-~\\x{FF01}-\\x{FF0F}\\x{FF1A}-\\x{FF5E}\\x{2018}-\\x{201F}\\x{3000}-\\x{3002}]+"

static const rt_tok_gguf_pre pres[] = {
    { " gpt-2 phi-2 jina-es jina-de gigachat jina-v2-es jina-v2-de a.x-4.0 mellum modern-bert mpt olmo jais "
      "trillion granite-docling exaone4 ",
      false,
      false,
      { GPT2 } },
    { " llama-bpe llama3 llama-v3 falcon3 falcon-h1 pixtral midm-2.0 lfm2 jina-v5-nano ", true, true, { LLAMA3 } },
    { " dbrx smaug-bpe glm4 chatglm-bpe ", false, false, { LLAMA3 } },
    { " qwen2 deepseek-r1-qwen kormo f2llmv2 stablelm2 megrez hunyuan solar-open grok-2 ", false, false, { QWEN2 } },
    { " qwen35 ", false, false, { QWEN35 } },
    { " starcoder refact command-r smollm codeshell exaone minerva-7b mellum2 ", false, false, { "\\p{N}", GPT2 } },
    { " deepseek-llm ",
      false,
      false,
      { "[\\r\\n]", DEEPSEEK_LETTERS, DEEPSEEK_PUNCT, "\\s+$", DEEPSEEK_CJK, "\\p{N}+" } },
    { " deepseek-coder ", false, false, { "[\\r\\n]", "\\s?\\p{L}+", "\\s?\\p{P}+", DEEPSEEK_CJK, "\\p{N}" } },
    { " deepseek-v3 hunyuan-dense joyai-llm ",
      false,
      false,
      { "\\p{N}{1,3}", "[\\x{4E00}-\\x{9FA5}\\x{3040}-\\x{309F}\\x{30A0}-\\x{30FF}]+",
        "[!\"#$%&'()*+,\\-./:;<=>?@\\[\\\\\\]^_`{|}~][A-Za-z]+|[^\\r\\n\\p{L}\\p{P}\\p{S}]?[\\p{L}\\p{M}]+| "
        "?[\\p{P}\\p{S}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+" } },
    { " tekken ", true, true, { WORDS_UPPER_LOWER "|" WORDS_UPPER "|\\p{N}|" REST } },
    { " gpt-4o llama4 kanana2 talkie minimax-m2 ",
      false,
      false,
      { WORDS_UPPER_LOWER CONTRACTIONS "?|" WORDS_UPPER CONTRACTIONS "?|\\p{N}{1,3}|" REST } },
    { " falcon ", false, false, { "[\\p{P}\\$\\+<=>\\^~\\|`]+", GPT2, "[0-9][0-9][0-9]" } },
    { " default ", false, false, { "[\\p{P}\\$\\+<=>\\^~\\|]+", GPT2, "\\p{N}+", "[0-9][0-9][0-9]" } },
};

const rt_tok_gguf_pre *rt_tok_gguf_pre_at(uint32_t i) { return i < sizeof pres / sizeof pres[0] ? &pres[i] : NULL; }

const rt_tok_gguf_pre *rt_tok_gguf_pre_find(const char *name)
{
    char word[64];
    if (strchr(name, ' ') || (size_t)snprintf(word, sizeof word, " %s ", name) >= sizeof word) return NULL;
    for (size_t i = 0; i < sizeof pres / sizeof pres[0]; i++)
        if (strstr(pres[i].names, word)) return &pres[i];
    return NULL;
}

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
