/* tok_match.c - matching: PCRE2, literal text, and matchers of our own for the patterns that most models share.
 *
 * Owns: compiling, the just-in-time code where the machine allows it, going from match to match as the tokenizers
 * package does, and the known patterns, which give what PCRE2 gives (a test compares them). */
#include "text/tokenizer/tok_gguf.h"
#include "text/tokenizer/tok_internal.h"

static const char *const known[] = {
    [RT_MATCH_GPT2] = "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+",
    [RT_MATCH_LLAMA3] =
        "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}{1,3}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|"
        "\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+",
    [RT_MATCH_QWEN2] =
        "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|"
        "\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+",
    [RT_MATCH_QWEN35] = "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?[\\p{L}\\p{M}]+|\\p{N}|"
                        " ?[^\\s\\p{L}\\p{M}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+",
};

rt_tok_matcher rt_tok_matcher_of(const char *pattern, size_t len)
{
    for (int k = RT_MATCH_GPT2; k <= RT_MATCH_QWEN35; k++)
        if (strlen(known[k]) == len && memcmp(known[k], pattern, len) == 0) return (rt_tok_matcher)k;
    return RT_MATCH_NONE;
}

const char *rt_tok_matcher_pattern(rt_tok_matcher which) { return known[which]; }

/* The end of the run, from at, of characters that have one of bits (or, with none set, that have none of nots). */
static size_t run_of(const uint16_t *table, const char *text, size_t len, size_t at, uint16_t bits)
{
    while (at < len) {
        uint32_t n;
        if (!(rt_cp_bits(table, rt_utf8_get(text + at, &n)) & bits)) break;
        at += n;
    }
    return at;
}

static size_t run_without(const uint16_t *table, const char *text, size_t len, size_t at, uint16_t bits)
{
    while (at < len) {
        uint32_t n;
        if (rt_cp_bits(table, rt_utf8_get(text + at, &n)) & bits) break;
        at += n;
    }
    return at;
}

/* 's 't 're 've 'm 'll 'd at an apostrophe: the length, or 0. Ignoring case, the long s is an s too. */
static size_t contraction(const char *p, size_t len, bool no_case)
{
    unsigned fold = no_case ? 0x20 : 0;
    if (len < 2) return 0;
    unsigned a = (uint8_t)p[1] | fold, b = len > 2 ? (uint8_t)p[2] | fold : 0;
    if (a == 's' || a == 't' || a == 'm' || a == 'd') return 2;
    if (((a == 'r' || a == 'v') && b == 'e') || (a == 'l' && b == 'l')) return 3;
    return no_case && len > 2 && (uint8_t)p[1] == 0xC5 && (uint8_t)p[2] == 0xBF ? 3 : 0;
}

/* \s+(?!\S)|\s+ at a space: all of the run at the end of the text, else all but its last character, else that one. */
static size_t spaces(const char *text, size_t len, size_t at, size_t end)
{
    if (end == len) return end;
    size_t last = (size_t)(rt_utf8_before(text, text + end) - text);
    return last > at ? last : end;
}

static size_t match_gpt2(const uint16_t *table, const char *text, size_t len, size_t at)
{
    uint32_t n;
    uint32_t cp = rt_utf8_get(text + at, &n);
    if (cp == '\'') {
        size_t c = contraction(text + at, len - at, false);
        if (c) return at + c;
    }
    size_t from = at;
    uint16_t bits = rt_cp_bits(table, cp);
    if (cp == ' ' && at + 1 < len) {
        uint16_t next = rt_cp_bits(table, rt_utf8_get(text + at + 1, &n));
        if (!(next & RT_CP_SPACE)) {
            from = at + 1;
            bits = next;
        }
    }
    if (bits & RT_CP_LETTER) return run_of(table, text, len, from, RT_CP_LETTER);
    if (bits & RT_CP_NUMBER) return run_of(table, text, len, from, RT_CP_NUMBER);
    if (!(bits & RT_CP_SPACE)) return run_without(table, text, len, from, RT_CP_LETTER | RT_CP_NUMBER | RT_CP_SPACE);
    return spaces(text, len, at, run_of(table, text, len, at, RT_CP_SPACE));
}

static size_t newlines(const char *text, size_t len, size_t at)
{
    while (at < len && (text[at] == '\r' || text[at] == '\n')) at++;
    return at;
}

/* \s*[\r\n]+|\s+(?!\S)|\s+ : a run of space that holds a line end is matched up to its last one. */
static size_t spaces_and_lines(const uint16_t *table, const char *text, size_t len, size_t at)
{
    size_t end = run_of(table, text, len, at, RT_CP_SPACE);
    for (size_t i = end; i > at; i--)
        if (text[i - 1] == '\r' || text[i - 1] == '\n') return i;
    return spaces(text, len, at, end);
}

/* Llama 3, Qwen2 and Qwen3.5: letters are the bits that make a word; digits the most that stand together. */
static size_t match_lines(const uint16_t *table, const char *text, size_t len, size_t at, uint16_t letters,
                          unsigned digits)
{
    uint32_t n;
    uint32_t cp = rt_utf8_get(text + at, &n);
    uint16_t bits = rt_cp_bits(table, cp);
    if (bits & letters) return run_of(table, text, len, at + n, letters);
    if (cp == '\'') {
        size_t c = contraction(text + at, len - at, true);
        if (c) return at + c;
    }
    if (bits & RT_CP_NUMBER) {
        size_t end = at + n;
        for (unsigned k = 1; k < digits && end < len; k++) {
            if (!(rt_cp_bits(table, rt_utf8_get(text + end, &n)) & RT_CP_NUMBER)) break;
            end += n;
        }
        return end;
    }
    const uint16_t stop = (uint16_t)(letters | RT_CP_NUMBER | RT_CP_SPACE);
    uint16_t next = 0;
    uint32_t skip = n;
    if (at + n < len) next = rt_cp_bits(table, rt_utf8_get(text + at + skip, &n));
    if ((next & letters) && cp != '\r' && cp != '\n') return run_of(table, text, len, at + skip + n, letters);
    if (!(bits & RT_CP_SPACE)) return newlines(text, len, run_without(table, text, len, at + skip, stop));
    if (cp == ' ' && at + 1 < len && !(next & stop))
        return newlines(text, len, run_without(table, text, len, at + 1, stop));
    return spaces_and_lines(table, text, len, at);
}

size_t rt_tok_match_known(rt_tok_matcher which, const uint16_t *table, const char *text, size_t len, size_t at)
{
    if (which == RT_MATCH_GPT2) return match_gpt2(table, text, len, at);
    if (which == RT_MATCH_LLAMA3) return match_lines(table, text, len, at, RT_CP_LETTER, 3);
    if (which == RT_MATCH_QWEN2) return match_lines(table, text, len, at, RT_CP_LETTER, 1);
    return match_lines(table, text, len, at, RT_CP_LETTER | RT_CP_MARK, 1);
}

static void *pcre_alloc(size_t bytes, void *ctx)
{
    (void)ctx;
    return rt_alloc(bytes, 16);
}

static void pcre_free(void *p, void *ctx)
{
    (void)ctx;
    rt_free(p);
}

static int compile_failed(int code, const char *where, rt_err *e)
{
    PCRE2_UCHAR text[200] = "";
    if (code == PCRE2_ERROR_NOMEMORY || code == PCRE2_ERROR_HEAP_FAILED) return rt_tok_out_of_memory(e);
    pcre2_get_error_message(code, text, sizeof text);
    return rt_fail(e, RT_UNSUPPORTED, "%s: the pattern cannot be compiled: %s", where, (const char *)text);
}

/* The patterns that GGUF has names for: what an alternative reads in vain, a later one takes. They need no count. */
static bool is_published(const char *pattern, size_t len)
{
    const rt_tok_gguf_pre *pre;
    for (uint32_t i = 0; (pre = rt_tok_gguf_pre_at(i)); i++)
        for (int k = 0; k < RT_TOK_PRE_PATTERNS && pre->patterns[k]; k++)
            if (strlen(pre->patterns[k]) == len && memcmp(pre->patterns[k], pattern, len) == 0) return true;
    return false;
}

static int translate(rt_tok_pattern *p, const char *pattern, size_t len, const char *where, rt_str *out, rt_err *e)
{
    static const char spaces_at_end[] = "\\s+$", once[] = "(?<!\\s)\\s+$";
    uint32_t loops = 0;
    if (len > RT_TOK_MAX_PATTERN)
        return rt_fail(e, RT_UNSUPPORTED, "%s: a pattern of %zu bytes; at most %d are supported", where, len,
                       RT_TOK_MAX_PATTERN);
    /* Where the first space of a run does not lead to a match, no later one does. Compiled code knows that, PCRE2's
     * interpreter, which stands in where there is none, tries them all. */
    if (len == strlen(spaces_at_end) && memcmp(pattern, spaces_at_end, len) == 0)
        return rt_tok_regex_translate(once, strlen(once), where, NULL, out, e);
    bool counted = !is_published(pattern, len);
    int rc = rt_tok_regex_translate(pattern, len, where, counted ? &loops : NULL, out, e);
    /* Several alternatives may read the same bytes between two steps. */
    if (counted) p->weight = 1 + loops / 16;
    return rc;
}

int rt_tok_pattern_compile(rt_tok_pattern *p, const char *pattern, size_t len, bool matchers, const char *where,
                           rt_err *e)
{
    if (matchers) p->matcher = rt_tok_matcher_of(pattern, len);
    if (p->matcher != RT_MATCH_NONE) return RT_OK;
    rt_str text = { 0 };
    pcre2_general_context *general = NULL;
    pcre2_compile_context *context = NULL;
    int rc, code = PCRE2_ERROR_NOMEMORY;
    PCRE2_SIZE offset;
    RT_TRY(translate(p, pattern, len, where, &text, e));
    general = pcre2_general_context_create(pcre_alloc, pcre_free, NULL);
    if (general) context = pcre2_compile_context_create(general);
    if (context) {
        pcre2_set_newline(context, PCRE2_NEWLINE_LF);
        pcre2_set_parens_nest_limit(context, 100);
        p->code =
            pcre2_compile((PCRE2_SPTR)(text.data ? text.data : ""), text.len,
                          PCRE2_UTF | PCRE2_UCP | PCRE2_MULTILINE | PCRE2_NEVER_BACKSLASH_C, &code, &offset, context);
    }
    if (p->code)
        p->jit = pcre2_jit_compile(p->code, PCRE2_JIT_COMPLETE) == 0; /* else it is interpreted */
    else
        rc = compile_failed(code, where, e);
out:
    pcre2_compile_context_free(context);
    pcre2_general_context_free(general);
    rt_str_free(&text);
    return rc;
}

void rt_tok_pattern_free(rt_tok_pattern *p)
{
    pcre2_code_free(p->code);
    p->code = NULL;
}

/* Counts what a pattern does: one for the callout, and the bytes between it and the last one of this attempt. */
static int count_step(pcre2_callout_block *b, void *ctx)
{
    rt_tok_regex_scratch *r = ctx;
    if (b->start_match != r->attempt) r->attempt = r->last = b->start_match;
    size_t at = b->current_position, moved = at > r->last ? at - r->last : r->last - at;
    uint64_t steps = (uint64_t)r->weight * (1 + (uint64_t)moved);
    r->last = at;
    if (steps > r->left) return PCRE2_ERROR_CALLOUT;
    r->left -= steps;
    return 0;
}

enum { MAX_HEAP_KIB = 256 << 10 }; /* of the interpreter, where the stack of compiled code does not do */

int rt_tok_regex_scratch_new(rt_tok_regex_scratch *r, rt_err *e)
{
    pcre2_general_context *general = pcre2_general_context_create(pcre_alloc, pcre_free, NULL);
    if (general) {
        r->data = pcre2_match_data_create(1, general);
        r->context = pcre2_match_context_create(general);
        r->stack = pcre2_jit_stack_create(32 << 10, 1 << 20, general);
    }
    pcre2_general_context_free(general);
    if (!r->data || !r->context) return rt_tok_out_of_memory(e);
    r->left = rt_tok_steps(0);
    pcre2_set_heap_limit(r->context, MAX_HEAP_KIB);
    pcre2_set_callout(r->context, count_step, r);
    if (r->stack) pcre2_jit_stack_assign(r->context, NULL, r->stack); /* there is none where there is no JIT */
    return RT_OK;
}

void rt_tok_regex_scratch_free(rt_tok_regex_scratch *r)
{
    pcre2_match_data_free(r->data);
    pcre2_match_context_free(r->context);
    pcre2_jit_stack_free(r->stack);
}

static int search_failed(int code, rt_err *e)
{
    PCRE2_UCHAR text[200] = "";
    if (code == PCRE2_ERROR_NOMEMORY) return rt_tok_out_of_memory(e);
    if (code == PCRE2_ERROR_CALLOUT)
        return rt_fail(e, RT_INVALID,
                       "a pattern of the tokenizer takes more than %d steps for each byte of a text: it tries the same "
                       "bytes over and over; take the tokenizer of the published model",
                       RT_TOK_STEPS_A_BYTE);
    pcre2_get_error_message(code, text, sizeof text);
    return rt_fail(e, RT_INVALID, "a pattern of the tokenizer could not be matched: %s", (const char *)text);
}

/* The first match at or after at. 1, 0 or a status. */
static int search(rt_tok_matches *m, size_t at, rt_err *e)
{
    const rt_tok_pattern *p = m->pattern;
    if (p->literal.data) {
        const char *hit = p->literal.len == 1 ? memchr(m->text + at, p->literal.data[0], m->len - at)
                                              : memmem(m->text + at, m->len - at, p->literal.data, p->literal.len);
        if (!hit) return 0;
        m->start = (size_t)(hit - m->text);
        m->end = m->start + p->literal.len;
        return 1;
    }
    if (p->matcher != RT_MATCH_NONE) {
        if (at >= m->len) return 0;
        m->start = at;
        m->end = rt_tok_match_known(p->matcher, m->table, m->text, m->len, at);
        return 1;
    }
    int rc = PCRE2_ERROR_JIT_STACKLIMIT;
    m->scratch->weight = p->weight;
    m->scratch->attempt = SIZE_MAX;
    if (p->jit)
        rc = pcre2_jit_match(p->code, (PCRE2_SPTR)m->text, m->len, at, 0, m->scratch->data, m->scratch->context);
    if (rc == PCRE2_ERROR_JIT_STACKLIMIT)
        rc = pcre2_match(p->code, (PCRE2_SPTR)m->text, m->len, at, PCRE2_NO_UTF_CHECK | PCRE2_NO_JIT, m->scratch->data,
                         m->scratch->context);
    if (rc == PCRE2_ERROR_NOMATCH) return 0;
    if (rc < 0) return search_failed(rc, e);
    const PCRE2_SIZE *ends = pcre2_get_ovector_pointer(m->scratch->data);
    m->start = ends[0];
    m->end = ends[1];
    return 1;
}

int rt_tok_match_next(rt_tok_matches *m, rt_err *e)
{
    while (m->at <= m->len) {
        int rc = search(m, m->at, e);
        if (rc <= 0) return rc;
        if (m->end != m->start || m->end != m->last_end) {
            m->at = m->last_end = m->end;
            return 1;
        }
        /* An empty match where the last one ended: go on behind the next character. */
        m->at += m->at < m->len ? rt_utf8_len(m->text[m->at]) : 1;
    }
    return 0;
}
