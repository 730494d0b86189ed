/* tok_json_steps.c - normalizers, pre-tokenizers and decoders of tokenizer.json.
 *
 * Owns: one reader per type, nested sequences flattened into one list of steps. A type that has no reader is refused by
 * name and place. Leaves what the steps do to tok_normalize.c, tok_pretokenize.c and tok_decode.c. */
#include "text/tokenizer/tok_json.h"

enum { MAX_NESTING = 16 };

typedef int (*read_fn)(rt_tokenizer *t, const rt_tok_json *v, unsigned depth, rt_err *e);

static int sequence(rt_tokenizer *t, const rt_tok_json *v, const char *key, read_fn read, unsigned depth, rt_err *e)
{
    rt_tok_json list = rt_tok_json_member(v, key);
    size_t count;
    int rc;
    if (depth >= MAX_NESTING) return rt_fail(e, RT_UNSUPPORTED, "%s: sequences are nested too deeply", v->path);
    RT_TRY(rt_tok_json_array(&list, &count, e));
    for (size_t i = 0; i < count; i++) {
        rt_tok_json item = rt_tok_json_item(&list, i);
        RT_TRY(rt_tok_json_object(&item, e));
        RT_TRY(read(t, &item, depth + 1, e));
    }
out:
    return rc;
}

/* A string member, kept by the tokenizer. */
static int kept_text(rt_tokenizer *t, const rt_tok_json *object, const char *key, rt_tok_text *out, rt_err *e)
{
    rt_tok_json v = rt_tok_json_member(object, key);
    rt_tok_text text;
    int rc = rt_tok_json_string(&v, &text, e);
    if (rc < 0) return rc;
    *out = rt_tok_keep(&t->vocab, text.data, text.len);
    return out->data ? RT_OK : rt_tok_out_of_memory(e);
}

/* The same for one character. */
static int kept_char(rt_tokenizer *t, const rt_tok_json *object, const char *key, rt_tok_text *out, rt_err *e)
{
    int rc = kept_text(t, object, key, out, e);
    if (rc < 0) return rc;
    if (out->len == 0 || rt_utf8_len(out->data[0]) != out->len)
        return rt_fail(e, RT_FORMAT, "%s.%s: expected one character", object->path, key);
    return RT_OK;
}

int rt_tok_json_pattern(rt_tokenizer *t, const rt_tok_json *object, bool matchers, rt_tok_pattern *out, rt_err *e)
{
    rt_tok_json v = rt_tok_json_member(object, "pattern");
    rt_tok_json text = rt_tok_json_member(&v, "String"), regex = rt_tok_json_member(&v, "Regex");
    rt_tok_text pattern;
    int rc;
    RT_TRY(rt_tok_json_object(&v, e));
    if (json_object_size(v.value) != 1 || (!text.value && !regex.value))
        return rt_fail(e, RT_FORMAT, "%s: expected one member, \"String\" or \"Regex\"", v.path);
    if (text.value) return kept_text(t, &v, "String", &out->literal, e);
    RT_TRY(rt_tok_json_string(&regex, &pattern, e));
    RT_TRY(rt_tok_pattern_compile(out, pattern.data, pattern.len, matchers, regex.path, e));
out:
    return rc;
}

/* Replacing empty matches has no clear meaning there: what is put in belongs to no character. */
static int replace_pattern(rt_tokenizer *t, const rt_tok_json *v, rt_tok_pattern *out, rt_err *e)
{
    int rc = rt_tok_json_pattern(t, v, false, out, e);
    if (rc < 0) return rc;
    uint32_t empty = out->literal.data && out->literal.len == 0;
    if (out->code) pcre2_pattern_info(out->code, PCRE2_INFO_MATCHEMPTY, &empty);
    return empty ? rt_fail(e, RT_UNSUPPORTED, "%s.pattern: a Replace that matches nothing is not supported", v->path)
                 : RT_OK;
}

/* ---- normalizers ----------------------------------------------------------------------------------------------------
 */

static int read_norm(rt_tokenizer *t, const rt_tok_json *v, rt_tok_text type, rt_tok_norm *n, rt_err *e)
{
    static const struct {
        const char *name;
        rt_norm_kind kind;
    } plain[] = { { "NFC", RT_NORM_NFC },         { "NFD", RT_NORM_NFD },
                  { "NFKC", RT_NORM_NFKC },       { "NFKD", RT_NORM_NFKD },
                  { "Lowercase", RT_NORM_LOWER }, { "StripAccents", RT_NORM_STRIP_ACCENTS },
                  { "Nmt", RT_NORM_NMT },         { "ByteLevel", RT_NORM_BYTE_LEVEL } };
    for (size_t i = 0; i < sizeof plain / sizeof plain[0]; i++) {
        if (!rt_tok_json_is(type, plain[i].name)) continue;
        n->kind = plain[i].kind;
        return RT_OK;
    }
    int rc;
    if (rt_tok_json_is(type, "Strip")) {
        n->kind = RT_NORM_STRIP;
        RT_TRY(rt_tok_json_bool(v, "strip_left", &n->left, e));
        RT_TRY(rt_tok_json_bool(v, "strip_right", &n->right, e));
    } else if (rt_tok_json_is(type, "Replace")) {
        n->kind = RT_NORM_REPLACE;
        RT_TRY(replace_pattern(t, v, &n->pattern, e));
        RT_TRY(kept_text(t, v, "content", &n->content, e));
    } else if (rt_tok_json_is(type, "Prepend")) {
        n->kind = RT_NORM_PREPEND;
        RT_TRY(kept_text(t, v, "prepend", &n->content, e));
    } else {
        RT_TRY(rt_tok_json_unknown(v, type, "the normalizer", e));
    }
out:
    return rc;
}

int rt_tok_json_normalizer(rt_tokenizer *t, const rt_tok_json *v, unsigned depth, rt_err *e)
{
    rt_tok_text type;
    rt_tok_norm n = { 0 };
    int rc;
    if (rt_tok_json_none(v)) return RT_OK;
    RT_TRY(rt_tok_json_type(v, &type, e));
    if (rt_tok_json_is(type, "Sequence")) return sequence(t, v, "normalizers", rt_tok_json_normalizer, depth, e);
    RT_TRY(read_norm(t, v, type, &n, e));
    RT_TRY(rt_tok_norm_add(t, &n, v->path, e));
    return RT_OK;
out:
    rt_tok_pattern_free(&n.pattern);
    return rc;
}

/* ---- pre-tokenizers -------------------------------------------------------------------------------------------------
 */

static int read_behavior(const rt_tok_json *v, bool required, rt_split_behavior *out, rt_err *e)
{
    static const char *const names[] = { "Removed", "Isolated", "MergedWithPrevious", "MergedWithNext", "Contiguous" };
    rt_tok_json b = rt_tok_json_member(v, "behavior");
    rt_tok_text text;
    *out = RT_SPLIT_ISOLATED;
    if (!required && !b.value) return RT_OK;
    int rc = rt_tok_json_string(&b, &text, e);
    if (rc < 0) return rc;
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        if (!rt_tok_json_is(text, names[i])) continue;
        *out = (rt_split_behavior)i;
        return RT_OK;
    }
    return rt_tok_json_unknown(&b, text, "the behavior", e);
}

/* The member of Metaspace that older files spell add_prefix_space. */
static int read_scheme(const rt_tok_json *v, rt_prepend_scheme *out, rt_err *e)
{
    rt_tok_json s = rt_tok_json_member(v, "prepend_scheme");
    rt_tok_text text = { "always", 6 };
    bool prefix;
    int rc;
    if (s.value) RT_TRY(rt_tok_json_string(&s, &text, e));
    RT_TRY(rt_tok_json_bool_or(v, "add_prefix_space", true, &prefix, e));
    if (rt_tok_json_is(text, "always"))
        *out = RT_PREPEND_ALWAYS;
    else if (rt_tok_json_is(text, "first"))
        *out = RT_PREPEND_FIRST;
    else if (rt_tok_json_is(text, "never"))
        *out = RT_PREPEND_NEVER;
    else
        return rt_tok_json_unknown(&s, text, "the scheme", e);
    if (!prefix && *out != RT_PREPEND_NEVER)
        return rt_fail(e, RT_FORMAT, "%s: add_prefix_space is false, but prepend_scheme is '%.*s'", v->path,
                       (int)text.len, text.data);
out:
    return rc;
}

static int read_byte_level(const rt_tok_json *v, rt_tok_pre *p, rt_err *e)
{
    const char *gpt2 = rt_tok_matcher_pattern(RT_MATCH_GPT2);
    bool trim;
    int rc;
    p->kind = RT_PRE_BYTE_LEVEL;
    RT_TRY(rt_tok_json_bool(v, "add_prefix_space", &p->prefix_space, e));
    RT_TRY(rt_tok_json_bool(v, "trim_offsets", &trim, e));
    RT_TRY(rt_tok_json_bool_or(v, "use_regex", true, &p->use_regex, e));
    RT_TRY(rt_tok_pattern_compile(&p->pattern, gpt2, strlen(gpt2), true, v->path, e));
out:
    return rc;
}

static int read_metaspace(rt_tokenizer *t, const rt_tok_json *v, rt_tok_pre *p, rt_err *e)
{
    int rc;
    p->kind = RT_PRE_METASPACE;
    RT_TRY(kept_char(t, v, "replacement", &p->replacement, e));
    RT_TRY(read_scheme(v, &p->scheme, e));
    RT_TRY(rt_tok_json_bool_or(v, "split", true, &p->split, e));
    p->pattern.literal = p->replacement;
out:
    return rc;
}

static int read_pre(rt_tokenizer *t, const rt_tok_json *v, rt_tok_text type, rt_tok_pre *p, rt_err *e)
{
    int rc = RT_OK;
    if (rt_tok_json_is(type, "ByteLevel")) return read_byte_level(v, p, e);
    if (rt_tok_json_is(type, "Metaspace")) return read_metaspace(t, v, p, e);
    if (rt_tok_json_is(type, "Whitespace")) {
        p->kind = RT_PRE_WHITESPACE;
    } else if (rt_tok_json_is(type, "WhitespaceSplit")) {
        p->kind = RT_PRE_WHITESPACE_SPLIT;
    } else if (rt_tok_json_is(type, "Digits")) {
        bool single;
        p->kind = RT_PRE_DIGITS;
        RT_TRY(rt_tok_json_bool(v, "individual_digits", &single, e));
        p->behavior = single ? RT_SPLIT_ISOLATED : RT_SPLIT_CONTIGUOUS;
    } else if (rt_tok_json_is(type, "Punctuation")) {
        p->kind = RT_PRE_PUNCTUATION;
        RT_TRY(read_behavior(v, false, &p->behavior, e));
    } else if (rt_tok_json_is(type, "Split")) {
        p->kind = RT_PRE_SPLIT;
        RT_TRY(rt_tok_json_pattern(t, v, true, &p->pattern, e));
        RT_TRY(read_behavior(v, true, &p->behavior, e));
        RT_TRY(rt_tok_json_bool(v, "invert", &p->invert, e));
    } else {
        RT_TRY(rt_tok_json_unknown(v, type, "the pre-tokenizer", e));
    }
out:
    return rc;
}

int rt_tok_json_pre_tokenizer(rt_tokenizer *t, const rt_tok_json *v, unsigned depth, rt_err *e)
{
    rt_tok_text type;
    rt_tok_pre p = { 0 };
    int rc;
    if (rt_tok_json_none(v)) return RT_OK;
    RT_TRY(rt_tok_json_type(v, &type, e));
    if (rt_tok_json_is(type, "Sequence")) return sequence(t, v, "pretokenizers", rt_tok_json_pre_tokenizer, depth, e);
    RT_TRY(read_pre(t, v, type, &p, e));
    RT_TRY(rt_tok_pre_add(t, &p, v->path, e));
    return RT_OK;
out:
    rt_tok_pattern_free(&p.pattern);
    return rc;
}

/* ---- decoders -------------------------------------------------------------------------------------------------------
 */

static int read_dec(rt_tokenizer *t, const rt_tok_json *v, rt_tok_text type, rt_tok_dec *d, rt_err *e)
{
    int rc = RT_OK;
    if (rt_tok_json_is(type, "ByteLevel")) {
        d->kind = RT_DEC_BYTE_LEVEL;
    } else if (rt_tok_json_is(type, "ByteFallback")) {
        d->kind = RT_DEC_BYTE_FALLBACK;
    } else if (rt_tok_json_is(type, "Fuse")) {
        d->kind = RT_DEC_FUSE;
    } else if (rt_tok_json_is(type, "Metaspace")) {
        rt_prepend_scheme scheme;
        d->kind = RT_DEC_METASPACE;
        RT_TRY(kept_char(t, v, "replacement", &d->content, e));
        RT_TRY(read_scheme(v, &scheme, e));
        d->keep_first = scheme == RT_PREPEND_NEVER;
    } else if (rt_tok_json_is(type, "Strip")) {
        rt_tok_json start = rt_tok_json_member(v, "start"), stop = rt_tok_json_member(v, "stop");
        d->kind = RT_DEC_STRIP;
        RT_TRY(kept_char(t, v, "content", &d->content, e));
        RT_TRY(rt_tok_json_uint(&start, &d->start, e));
        RT_TRY(rt_tok_json_uint(&stop, &d->stop, e));
    } else if (rt_tok_json_is(type, "Replace")) {
        d->kind = RT_DEC_REPLACE;
        RT_TRY(replace_pattern(t, v, &d->pattern, e));
        RT_TRY(kept_text(t, v, "content", &d->content, e));
    } else if (rt_tok_json_is(type, "BPEDecoder")) {
        d->kind = RT_DEC_BPE;
        RT_TRY(kept_text(t, v, "suffix", &d->content, e));
        if (d->content.len == 0)
            return rt_fail(e, RT_UNSUPPORTED, "%s.suffix: an empty suffix is not supported", v->path);
    } else {
        RT_TRY(rt_tok_json_unknown(v, type, "the decoder", e));
    }
out:
    return rc;
}

int rt_tok_json_decoder(rt_tokenizer *t, const rt_tok_json *v, unsigned depth, rt_err *e)
{
    rt_tok_text type;
    rt_tok_dec d = { 0 };
    int rc;
    if (rt_tok_json_none(v)) return RT_OK;
    RT_TRY(rt_tok_json_type(v, &type, e));
    if (rt_tok_json_is(type, "Sequence")) return sequence(t, v, "decoders", rt_tok_json_decoder, depth, e);
    RT_TRY(read_dec(t, v, type, &d, e));
    RT_TRY(rt_tok_dec_add(t, &d, v->path, e));
    return RT_OK;
out:
    rt_tok_pattern_free(&d.pattern);
    return rc;
}
