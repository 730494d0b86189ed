/* tok_pretokenize.c - the pre-tokenizers: a piece of text goes through the steps, and what the last one leaves goes to
 * the model.
 *
 * Owns: splitting by matches and what becomes of the matches, byte-level and Metaspace. A step hands each part to the
 * next step at once; the parts of one step do not depend on one another, so that the order is that of the package,
 * which runs step by step over the whole text. */
#include "text/tokenizer/tok_internal.h"

static int run_step(rt_tok_scratch *s, uint32_t step, rt_tok_piece p);

/* Joins matches and gaps, given from left to right, as a behavior says, and hands on the parts. */
typedef struct joiner {
    rt_tok_scratch *s;
    uint32_t next; /* the step that gets the parts */
    rt_tok_piece p;
    rt_split_behavior behavior;
    bool pending, last_match;
    size_t start, end; /* the part that may still grow */
} joiner;

static int hand_on(const joiner *j, size_t start, size_t end)
{
    return start < end ? run_step(j->s, j->next, rt_tok_cut(j->p, start, end)) : RT_OK;
}

static int join(joiner *j, size_t start, size_t end, bool match)
{
    if (j->behavior == RT_SPLIT_ISOLATED) return hand_on(j, start, end);
    if (j->behavior == RT_SPLIT_REMOVED) return match ? RT_OK : hand_on(j, start, end);
    bool grow = false;
    if (j->behavior == RT_SPLIT_CONTIGUOUS) grow = match == j->last_match;
    if (j->behavior == RT_SPLIT_WITH_PREVIOUS) grow = match && !j->last_match;
    /* Read backwards in the package: a match joins the gap behind it. */
    if (j->behavior == RT_SPLIT_WITH_NEXT) grow = !match && j->last_match;
    j->last_match = match;
    if (grow && j->pending) {
        j->end = end;
        return RT_OK;
    }
    int rc = j->pending ? hand_on(j, j->start, j->end) : RT_OK;
    j->pending = true;
    j->start = start;
    j->end = end;
    return rc;
}

static int join_end(joiner *j) { return j->pending ? hand_on(j, j->start, j->end) : RT_OK; }

static int split_by_pattern(rt_tok_scratch *s, uint32_t step, rt_tok_piece p, const rt_tok_pre *pre,
                            rt_split_behavior behavior, bool invert)
{
    rt_tok_matches m = { .pattern = &pre->pattern,
                         .table = s->t->table,
                         .scratch = &s->regex,
                         .text = p.text,
                         .len = p.len,
                         .last_end = SIZE_MAX };
    joiner j = { .s = s, .next = step + 1, .p = p, .behavior = behavior };
    size_t done = 0;
    int rc;
    while ((rc = rt_tok_match_next(&m, s->e)) > 0) {
        size_t start = m.start, end = m.end;
        if (done != start) RT_TRY(join(&j, done, start, invert));
        RT_TRY(join(&j, start, end, !invert));
        done = end;
    }
    if (rc < 0) goto out;
    if (done != p.len) RT_TRY(join(&j, done, p.len, invert));
    rc = join_end(&j);
out:
    return rc;
}

/* Each character of a class is a match of its own. */
static int split_by_class(rt_tok_scratch *s, uint32_t step, rt_tok_piece p, uint16_t bits, rt_split_behavior behavior)
{
    joiner j = { .s = s, .next = step + 1, .p = p, .behavior = behavior };
    const uint16_t *table = s->t->table;
    size_t done = 0;
    int rc = RT_OK;
    for (size_t i = 0; i < p.len;) {
        uint32_t n;
        bool match = rt_cp_bits(table, rt_utf8_get(p.text + i, &n)) & bits;
        if (match) {
            if (done < i) RT_TRY(join(&j, done, i, false));
            RT_TRY(join(&j, i, i + n, true));
            done = i + n;
        }
        i += n;
    }
    if (done < p.len) RT_TRY(join(&j, done, p.len, false));
    rc = join_end(&j);
out:
    return rc;
}

/* Whitespace: \w+|[^\w\s]+ are the parts, space is dropped. */
static int split_words(rt_tok_scratch *s, uint32_t step, rt_tok_piece p)
{
    const uint16_t *table = s->t->table;
    size_t start = 0;
    uint16_t kind = RT_CP_SPACE; /* of the run that began at start */
    int rc = RT_OK;
    for (size_t i = 0; i < p.len;) {
        uint32_t n;
        uint16_t now = rt_cp_bits(table, rt_utf8_get(p.text + i, &n)) & (RT_CP_WORD | RT_CP_SPACE);
        if (now != kind) {
            if (kind != RT_CP_SPACE) RT_TRY(run_step(s, step + 1, rt_tok_cut(p, start, i)));
            start = i;
            kind = now;
        }
        i += n;
    }
    if (kind != RT_CP_SPACE) RT_TRY(run_step(s, step + 1, rt_tok_cut(p, start, p.len)));
out:
    return rc;
}

/* The buffer of a step, emptied. Parts made from it are used up before the step runs again. */
static rt_str *buffer(rt_tok_scratch *s, uint32_t step)
{
    s->step[step].len = 0;
    return &s->step[step];
}

/* Several steps that each make a text longer make it very long. */
static int check_made(rt_tok_scratch *s, const rt_str *b)
{
    if (b->failed) return rt_tok_out_of_memory(s->e);
    s->made += b->len;
    return rt_tok_within(s->made, s->given, s->e);
}

static int byte_level(rt_tok_scratch *s, uint32_t step, rt_tok_piece p, const rt_tok_pre *pre)
{
    if (pre->prefix_space && p.text[0] != ' ') {
        rt_str *b = buffer(s, step);
        rt_str_append_n(b, " ", 1);
        rt_str_append_n(b, p.text, p.len);
        int rc = check_made(s, b);
        if (rc < 0) return rc;
        p = (rt_tok_piece){ b->data, b->len, p.zero > 0 ? p.zero + 1 : 0 };
    }
    if (pre->use_regex) return split_by_pattern(s, step, p, pre, RT_SPLIT_ISOLATED, false);
    return run_step(s, step + 1, p);
}

/* A ByteLevel that is not the last step: what follows sees the characters that stand for the bytes. */
static int hand_mapped(rt_tok_scratch *s, uint32_t step, rt_tok_piece p)
{
    rt_str *b = buffer(s, step);
    size_t zero = 0;
    for (size_t i = 0; i < p.len; i++) {
        rt_str_append_cp(b, rt_byte_char((uint8_t)p.text[i]));
        if (i < p.zero) zero = b->len;
    }
    int rc = check_made(s, b);
    if (rc < 0) return rc;
    return run_step(s, step + 1, (rt_tok_piece){ b->data, b->len, zero });
}

static int metaspace(rt_tok_scratch *s, uint32_t step, rt_tok_piece p, const rt_tok_pre *pre)
{
    rt_tok_text mark = pre->replacement;
    rt_str *b = buffer(s, step);
    bool starts = p.text[0] == ' ' || (p.len >= mark.len && memcmp(p.text, mark.data, mark.len) == 0);
    size_t zero = 0;
    if (!starts && (pre->scheme == RT_PREPEND_ALWAYS || (pre->scheme == RT_PREPEND_FIRST && p.zero > 0))) {
        rt_str_append_n(b, mark.data, mark.len);
        if (p.zero > 0) zero = b->len;
    }
    for (size_t i = 0; i < p.len;) {
        const char *space = memchr(p.text + i, ' ', p.len - i);
        size_t end = space ? (size_t)(space - p.text) : p.len;
        if (i < p.zero) zero = b->len + ((p.zero < end ? p.zero : end) - i);
        rt_str_append_n(b, p.text + i, end - i);
        if (space) rt_str_append_n(b, mark.data, mark.len);
        if (space && end < p.zero) zero = b->len;
        i = end + 1;
    }
    int rc = check_made(s, b);
    if (rc < 0) return rc;
    p = (rt_tok_piece){ b->data, b->len, zero };
    return pre->split ? split_by_pattern(s, step, p, pre, RT_SPLIT_WITH_NEXT, false) : run_step(s, step + 1, p);
}

static int run_step(rt_tok_scratch *s, uint32_t step, rt_tok_piece p)
{
    if (p.len == 0) return RT_OK;
    if (step == s->t->pre_count) return rt_tok_word_encode(s, p.text, p.len);
    const rt_tok_pre *pre = &s->t->pres[step];
    switch (pre->kind) {
    case RT_PRE_BYTE_LEVEL: return byte_level(s, step, p, pre);
    case RT_PRE_BYTE_MAP: return hand_mapped(s, step, p);
    case RT_PRE_SPLIT: return split_by_pattern(s, step, p, pre, pre->behavior, pre->invert);
    case RT_PRE_DIGITS: return split_by_class(s, step, p, RT_CP_NUMERIC, pre->behavior);
    case RT_PRE_WHITESPACE: return split_words(s, step, p);
    case RT_PRE_WHITESPACE_SPLIT: return split_by_class(s, step, p, RT_CP_SPACE, RT_SPLIT_REMOVED);
    case RT_PRE_PUNCTUATION: return split_by_class(s, step, p, RT_CP_PUNCT, pre->behavior);
    case RT_PRE_METASPACE: return metaspace(s, step, p, pre);
    }
    return rt_fail(s->e, RT_INTERNAL, "pre-tokenizer %d", (int)pre->kind);
}

int rt_tok_pretokenize(rt_tok_scratch *s, rt_tok_piece p) { return run_step(s, 0, p); }
