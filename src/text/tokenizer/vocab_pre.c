/* vocab_pre.c - recognises the normalizer and pre-tokenizer of a tokenizer.json among those that GGUF has names for.
 *
 * Owns: bringing patterns into one spelling, and the comparison. Nothing is guessed: steps must be the same steps in
 * the same order. The table of names is tok_gguf.c's. */
#include "text/tokenizer/tok_gguf.h"
#include "text/tokenizer/tok_internal.h"

#include <string.h>

enum { MAX_DEPTH = 16 };
static const char mark[] = "\xE2\x96\x81";

typedef struct steps {
    rt_str patterns[RT_TOK_PRE_PATTERNS + 1];
    uint32_t count;
    bool bytes; /* ByteLevel was seen */
} steps;

static const char *type_of(const json_t *v)
{
    const char *type = json_string_value(json_object_get(v, "type"));
    return type ? type : "";
}

static bool is_true(const json_t *v, const char *key) { return json_is_true(json_object_get(v, key)); }

static int unsupported(const char *what, const char *type, rt_err *e)
{
    return rt_fail(e, RT_UNSUPPORTED, "%s '%.80s' has no equal in GGUF", what, type);
}

/* One spelling for a pattern: characters outside ASCII as \x{...}, ends of line as \r and \n, letters of hexadecimal
 * digits in upper case without leading zeroes. */
static void spell(rt_str *out, const char *pattern, size_t len)
{
    for (size_t i = 0; i < len;) {
        uint32_t n, cp = rt_utf8_get(pattern + i, &n);
        if (cp == '\\' && i + 1 < len) {
            uint32_t next_len;
            rt_utf8_get(pattern + i + 1, &next_len);
            rt_str_append_n(out, pattern + i, 1 + next_len);
            n = 1 + next_len;
        } else if (cp == '\r' || cp == '\n') {
            rt_str_append(out, cp == '\r' ? "\\r" : "\\n");
        } else if (cp >= 0x80) {
            rt_str_printf(out, "\\x{%X}", cp);
        } else {
            rt_str_append_n(out, pattern + i, 1);
        }
        i += n;
    }
}

static int add_pattern(steps *s, const char *pattern, size_t len, rt_err *e)
{
    if (s->bytes || s->count > RT_TOK_PRE_PATTERNS)
        return rt_fail(e, RT_UNSUPPORTED, "pre_tokenizer: this sequence of steps has no equal in GGUF");
    spell(&s->patterns[s->count++], pattern, len);
    return RT_OK;
}

/* Of a pattern that matches everywhere, to drop what is between matches and to isolate matches are the same. */
static bool matches_everywhere(const char *pattern)
{
    static const char tail[] = "\\s+(?!\\S)|\\s+";
    size_t len = strlen(pattern), n = sizeof tail - 1;
    return len >= n && strcmp(pattern + len - n, tail) == 0;
}

static int add_split(steps *s, const json_t *v, rt_err *e)
{
    const json_t *regex = json_object_get(json_object_get(v, "pattern"), "Regex");
    const char *behavior = json_string_value(json_object_get(v, "behavior"));
    bool invert = is_true(v, "invert");
    if (!json_is_string(regex))
        return rt_fail(e, RT_UNSUPPORTED, "pre_tokenizer: Split by a plain string has no equal in GGUF");
    bool isolated = behavior && strcmp(behavior, "Isolated") == 0 && !invert;
    bool kept = behavior && strcmp(behavior, "Removed") == 0 && invert && matches_everywhere(json_string_value(regex));
    if (!isolated && !kept)
        return rt_fail(e, RT_UNSUPPORTED, "pre_tokenizer: Split with behavior '%.40s'%s has no equal in GGUF",
                       behavior ? behavior : "", invert ? ", inverted," : "");
    return add_pattern(s, json_string_value(regex), json_string_length(regex), e);
}

static int collect(steps *s, const json_t *v, unsigned depth, rt_err *e)
{
    const char *type = type_of(v), *gpt2 = rt_tok_matcher_pattern(RT_MATCH_GPT2);
    int rc = RT_OK;
    if (!v || json_is_null(v)) return RT_OK;
    if (strcmp(type, "Sequence") == 0 && depth < MAX_DEPTH) {
        const json_t *list = json_object_get(v, "pretokenizers");
        for (size_t i = 0; i < json_array_size(list); i++) RT_TRY(collect(s, json_array_get(list, i), depth + 1, e));
    } else if (strcmp(type, "Split") == 0) {
        RT_TRY(add_split(s, v, e));
    } else if (strcmp(type, "Digits") == 0 && is_true(v, "individual_digits")) {
        RT_TRY(add_pattern(s, "\\p{N}", 5, e));
    } else if (strcmp(type, "ByteLevel") == 0 && !is_true(v, "add_prefix_space")) {
        if (!json_is_false(json_object_get(v, "use_regex"))) RT_TRY(add_pattern(s, gpt2, strlen(gpt2), e));
        s->bytes = true;
    } else if (strcmp(type, "ByteLevel") == 0) {
        RT_TRY(unsupported("pre_tokenizer", "ByteLevel with add_prefix_space", e));
    } else {
        RT_TRY(unsupported("pre_tokenizer", type, e));
    }
out:
    return rc;
}

static bool same_steps(const steps *s, const rt_tok_gguf_pre *p)
{
    for (uint32_t i = 0; i < RT_TOK_PRE_PATTERNS; i++) {
        if (!p->patterns[i]) return i == s->count;
        if (i >= s->count || !s->patterns[i].data || strcmp(s->patterns[i].data, p->patterns[i]) != 0) return false;
    }
    return s->count == RT_TOK_PRE_PATTERNS;
}

static const rt_tok_gguf_pre *find(const steps *s, bool ignore_merges)
{
    const rt_tok_gguf_pre *p;
    for (uint32_t i = 0; (p = rt_tok_gguf_pre_at(i)); i++)
        if (p->ignore_merges == ignore_merges && same_steps(s, p)) return p;
    return NULL;
}

/* GGUF has no normalizers. NFC is what Qwen's tokenizers have, and all GGUF files of them do without. */
static int check_normalizer(const json_t *v, rt_str *notes, rt_err *e)
{
    if (!v || json_is_null(v)) return RT_OK;
    const json_t *list = json_object_get(v, "normalizers");
    if (strcmp(type_of(v), "Sequence") == 0 && json_array_size(list) == 0) return RT_OK;
    if (strcmp(type_of(v), "NFC") != 0) return unsupported("normalizer", type_of(v), e);
    if (notes)
        rt_str_append(notes, "the normalizer NFC is lost, since GGUF has none: text that is not NFC gets other ids\n");
    return RT_OK;
}

int rt_vocab_pre_bytes(const json_t *root, bool ignore_merges, const char **name, rt_arena *a, rt_str *notes, rt_err *e)
{
    steps s = { .count = 0 };
    int rc;
    RT_TRY(check_normalizer(json_object_get(root, "normalizer"), notes, e));
    RT_TRY(collect(&s, json_object_get(root, "pre_tokenizer"), 0, e));
    for (uint32_t i = 0; i < s.count; i++)
        if (s.patterns[i].failed) RT_TRY(rt_fail(e, RT_NOMEM, "out of memory for the pre-tokenizer"));
    const rt_tok_gguf_pre *p = find(&s, ignore_merges);
    if (!p)
        RT_TRY(rt_fail(e, RT_UNSUPPORTED,
                       "pre_tokenizer: GGUF has no name for its %u pattern%s (the first is %.160s)%s; leave the "
                       "tokenizer out, or keep it as tokenizer.json",
                       s.count, s.count == 1 ? "" : "s", s.count ? s.patterns[0].data : "none",
                       ignore_merges ? " with ignore_merges" : ""));
    char *copy = rt_arena_strdup(a, p->names + 1);
    if (!copy) RT_TRY(rt_fail(e, RT_NOMEM, "out of memory for the pre-tokenizer"));
    copy[strcspn(copy, " ")] = 0;
    *name = copy;
out:
    for (uint32_t i = 0; i <= RT_TOK_PRE_PATTERNS; i++) rt_str_free(&s.patterns[i]);
    return rc;
}

/* ---- with byte fallback ---- */

static bool text_is(const json_t *v, const char *text)
{
    return json_is_string(v) && strcmp(json_string_value(v), text) == 0;
}

/* Prepend and Replace, alone or in this order. */
static int read_escape(const json_t *v, bool *prepend, bool *escape, rt_err *e)
{
    const char *type = type_of(v);
    int rc = RT_OK;
    if (!v || json_is_null(v)) return RT_OK;
    if (strcmp(type, "Sequence") == 0) {
        const json_t *list = json_object_get(v, "normalizers");
        for (size_t i = 0; i < json_array_size(list); i++) {
            const json_t *item = json_array_get(list, i);
            if (strcmp(type_of(item), "Sequence") == 0) return unsupported("normalizer", "nested Sequence", e);
            RT_TRY(read_escape(item, prepend, escape, e));
        }
    } else if (strcmp(type, "Prepend") == 0 && !*escape && !*prepend && text_is(json_object_get(v, "prepend"), mark)) {
        *prepend = true;
    } else if (strcmp(type, "Replace") == 0 && !*escape && text_is(json_object_get(v, "content"), mark) &&
               text_is(json_object_get(json_object_get(v, "pattern"), "String"), " ")) {
        *escape = true;
    } else {
        RT_TRY(unsupported("normalizer", type, e));
    }
out:
    return rc;
}

static int read_metaspace(const json_t *v, bool *prefix, rt_str *notes, rt_err *e)
{
    const char *scheme = json_string_value(json_object_get(v, "prepend_scheme"));
    if (!text_is(json_object_get(v, "replacement"), mark))
        return unsupported("pre_tokenizer", "Metaspace of its own", e);
    if (!scheme) scheme = json_is_false(json_object_get(v, "add_prefix_space")) ? "never" : "always";
    *prefix = strcmp(scheme, "never") != 0;
    if (*prefix && notes)
        rt_str_printf(
            notes,
            "Metaspace puts a space before a text only where there is none%s; with a GGUF vocabulary every text "
            "gets one\n",
            strcmp(scheme, "first") == 0 ? ", and not behind special tokens" : "");
    return RT_OK;
}

int rt_vocab_pre_spm(const json_t *root, bool *prefix_space, rt_str *notes, rt_err *e)
{
    const json_t *pre = json_object_get(root, "pre_tokenizer");
    bool prepend = false, escape = false;
    int rc;
    RT_TRY(read_escape(json_object_get(root, "normalizer"), &prepend, &escape, e));
    *prefix_space = prepend;
    if (!pre || json_is_null(pre)) {
        if (!escape) RT_TRY(unsupported("normalizer", "none", e));
        return RT_OK;
    }
    if (strcmp(type_of(pre), "Metaspace") != 0 || prepend || escape)
        RT_TRY(unsupported("pre_tokenizer", type_of(pre), e));
    RT_TRY(read_metaspace(pre, prefix_space, notes, e));
out:
    return rc;
}
