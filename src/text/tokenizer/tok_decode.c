/* tok_decode.c - from ids to text: the decoders as a chain of stages, the same for a whole list of ids and for a
 * stream.
 *
 * Owns: the stages. A stage is fed the bytes of a token in one or more parts, is told where the token ends, and in the
 * end that there are no more; it feeds the next one. What it cannot decide yet it keeps. All parts are whole
 * characters. */
#include "text/tokenizer/tok_internal.h"

typedef struct stage {
    rt_str token;   /* the token so far, where a whole one is needed */
    rt_str hold;    /* bytes not given yet; for BPEDecoder the token before */
    uint32_t count; /* tokens ended, or characters cut from this one */
    bool any;       /* hold is a token (BPEDecoder), or a run of bytes is open (ByteFallback) */
    bool passing;   /* Strip: the start has been dealt with */
} stage;

struct rt_tok_stream {
    const rt_tokenizer *t;
    unsigned flags;
    bool eager; /* give characters of byte tokens as they become complete */
    bool begun; /* without decoders: a space goes before the next token */
    rt_tok_regex_scratch regex;
    size_t given; /* bytes of the tokens so far */
    rt_str *out;
    rt_err *e;
    stage stages[RT_TOK_MAX_STEPS];
};

static const char REPLACEMENT[] = "\xEF\xBF\xBD";

static int feed(rt_tok_stream *s, uint32_t k, const char *data, size_t len);
static int end_token(rt_tok_stream *s, uint32_t k);

/* Replaces every match of the pattern in text. given: bytes that all this is made of. */
static int replace(const rt_tok_dec *d, const uint16_t *table, rt_tok_regex_scratch *r, const rt_str *text, rt_str *out,
                   size_t given, rt_err *e)
{
    const char *data = text->data ? text->data : "";
    rt_tok_matches m = {
        .pattern = &d->pattern, .table = table, .scratch = r, .text = data, .len = text->len, .last_end = SIZE_MAX
    };
    size_t done = 0;
    int rc = RT_OK;
    while (out->len <= rt_tok_most(given) && (rc = rt_tok_match_next(&m, e)) > 0) {
        rt_str_append_n(out, data + done, m.start - done);
        rt_str_append_n(out, d->content.data, d->content.len);
        done = m.end;
    }
    rt_str_append_n(out, data + done, text->len - done);
    return rc < 0 ? rc : rt_tok_within(out->len, given, e);
}

/* The value of "<0x41>", or -1. Rust reads a sign before the digit too. */
static int byte_value(const char *text, size_t len)
{
    if (len != 6 || memcmp(text, "<0x", 3) != 0 || text[5] != '>') return -1;
    int value = 0;
    for (int i = 3; i < 5; i++) {
        char c = text[i];
        int digit = c >= '0' && c <= '9'   ? c - '0'
                    : c >= 'a' && c <= 'f' ? c - 'a' + 10
                    : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                           : -1;
        if (i == 3 && c == '+') digit = 0;
        if (digit < 0) return -1;
        value = value * 16 + digit;
    }
    return value;
}

/* Bytes of a byte-level token; a token with a character that stands for no byte is taken as it is. */
static void unmap(const char *data, size_t len, rt_str *out)
{
    size_t before = out->len;
    for (size_t i = 0; i < len;) {
        uint32_t n;
        int byte = rt_char_byte(rt_utf8_get(data + i, &n));
        if (byte < 0) {
            out->len = before;
            rt_str_append_n(out, data, len);
            return;
        }
        char c = (char)byte;
        rt_str_append_n(out, &c, 1);
        i += n;
    }
}

static void drop(rt_str *text, size_t n)
{
    if (n == 0) return;
    memmove(text->data, text->data + n, text->len - n);
    text->len -= n;
}

/* Gives the valid start of what is held, with U+FFFD for each stretch that cannot become valid (for each byte of it, as
 * ByteFallback does, when per_byte is set). What more bytes could complete stays, unless last. */
static int give_utf8(rt_tok_stream *s, uint32_t k, bool per_byte, bool last)
{
    rt_str *hold = &s->stages[k].hold;
    int rc = RT_OK;
    size_t at = 0;
    while (at < hold->len) {
        size_t good = rt_utf8_valid(hold->data + at, hold->len - at);
        RT_TRY(feed(s, k + 1, hold->data + at, good));
        at += good;
        if (at == hold->len) break;
        bool cut;
        size_t bad = rt_utf8_bad(hold->data + at, hold->len - at, &cut);
        if (cut && !last) break;
        for (size_t i = 0; i < (per_byte ? bad : 1); i++) RT_TRY(feed(s, k + 1, REPLACEMENT, 3));
        at += bad;
    }
    drop(hold, at);
out:
    return rc;
}

static int end_byte_level(rt_tok_stream *s, uint32_t k)
{
    stage *g = &s->stages[k];
    unmap(g->token.data ? g->token.data : "", g->token.len, &g->hold);
    return give_utf8(s, k, false, false);
}

/* The run of byte tokens is over. */
static int end_bytes(rt_tok_stream *s, uint32_t k)
{
    stage *g = &s->stages[k];
    int rc = RT_OK;
    if (!g->any) return RT_OK;
    g->any = false;
    if (s->eager) {
        RT_TRY(give_utf8(s, k, true, true));
        return end_token(s, k + 1);
    }
    if (rt_utf8_valid(g->hold.data, g->hold.len) == g->hold.len) {
        RT_TRY(feed(s, k + 1, g->hold.data, g->hold.len));
        RT_TRY(end_token(s, k + 1));
    } else {
        for (size_t i = 0; i < g->hold.len; i++) {
            RT_TRY(feed(s, k + 1, REPLACEMENT, 3));
            RT_TRY(end_token(s, k + 1));
        }
    }
    g->hold.len = 0;
out:
    return rc;
}

static int end_byte_fallback(rt_tok_stream *s, uint32_t k)
{
    stage *g = &s->stages[k];
    const char *data = g->token.data ? g->token.data : "";
    int value = byte_value(data, g->token.len);
    int rc;
    if (value >= 0) {
        char byte = (char)value;
        rt_str_append_n(&g->hold, &byte, 1);
        g->any = true;
        return s->eager ? give_utf8(s, k, true, false) : RT_OK;
    }
    RT_TRY(end_bytes(s, k));
    RT_TRY(feed(s, k + 1, data, g->token.len));
    RT_TRY(end_token(s, k + 1));
out:
    return rc;
}

static int end_metaspace(rt_tok_stream *s, uint32_t k)
{
    stage *g = &s->stages[k];
    const rt_tok_dec *d = &s->t->decs[k];
    bool first = g->count++ == 0;
    int rc = RT_OK;
    for (size_t i = 0; i < g->token.len;) {
        uint32_t n = rt_utf8_len(g->token.data[i]);
        bool mark = n == d->content.len && memcmp(g->token.data + i, d->content.data, n) == 0;
        if (!mark)
            RT_TRY(feed(s, k + 1, g->token.data + i, n));
        else if (!first || d->keep_first)
            RT_TRY(feed(s, k + 1, " ", 1));
        i += n;
    }
    rc = end_token(s, k + 1);
out:
    return rc;
}

static int end_replace(rt_tok_stream *s, uint32_t k)
{
    stage *g = &s->stages[k];
    int rc;
    g->hold.len = 0;
    RT_TRY(replace(&s->t->decs[k], s->t->table, &s->regex, &g->token, &g->hold, s->given, s->e));
    RT_TRY(feed(s, k + 1, g->hold.data, g->hold.len));
    RT_TRY(end_token(s, k + 1));
out:
    return rc;
}

/* BPEDecoder: the suffix is a space, but nothing in the last token. */
static int give_held(rt_tok_stream *s, uint32_t k, bool last)
{
    stage *g = &s->stages[k];
    rt_tok_text suffix = s->t->decs[k].content;
    int rc = RT_OK;
    size_t at = 0;
    if (!g->any) return RT_OK;
    while (at < g->hold.len) {
        const char *hit = memmem(g->hold.data + at, g->hold.len - at, suffix.data, suffix.len);
        size_t end = hit ? (size_t)(hit - g->hold.data) : g->hold.len;
        RT_TRY(feed(s, k + 1, g->hold.data + at, end - at));
        if (!hit) break;
        if (!last) RT_TRY(feed(s, k + 1, " ", 1));
        at = end + suffix.len;
    }
    rc = end_token(s, k + 1);
out:
    return rc;
}

static int end_bpe(rt_tok_stream *s, uint32_t k)
{
    stage *g = &s->stages[k];
    int rc = give_held(s, k, false);
    g->hold.len = 0;
    rt_str_append_n(&g->hold, g->token.data ? g->token.data : "", g->token.len);
    g->any = true;
    return rc;
}

/* Strip of a token that is there as a whole. */
static int end_strip(rt_tok_stream *s, uint32_t k)
{
    stage *g = &s->stages[k];
    const rt_tok_dec *d = &s->t->decs[k];
    const char *data = g->token.data ? g->token.data : "";
    size_t start = 0, stop = g->token.len, n = d->content.len;
    for (uint32_t i = 0; i < d->start && stop - start >= n && memcmp(data + start, d->content.data, n) == 0; i++)
        start += n;
    for (uint32_t i = 0; i < d->stop && stop >= n && memcmp(data + stop - n, d->content.data, n) == 0; i++) stop -= n;
    int rc = start < stop ? feed(s, k + 1, data + start, stop - start) : RT_OK;
    return rc < 0 ? rc : end_token(s, k + 1);
}

/* Strip that only looks at the start of a token needs not keep it. */
static int feed_strip(rt_tok_stream *s, uint32_t k, const char *data, size_t len)
{
    stage *g = &s->stages[k];
    const rt_tok_dec *d = &s->t->decs[k];
    while (!g->passing && len > 0) {
        if (g->count < d->start && len >= d->content.len && memcmp(data, d->content.data, d->content.len) == 0) {
            g->count++;
            data += d->content.len;
            len -= d->content.len;
        } else {
            g->passing = true;
        }
    }
    return feed(s, k + 1, data, len);
}

static int feed(rt_tok_stream *s, uint32_t k, const char *data, size_t len)
{
    if (len == 0) return RT_OK;
    if (k == s->t->dec_count) {
        rt_str_append_n(s->out, data, len);
        return RT_OK;
    }
    const rt_tok_dec *d = &s->t->decs[k];
    if (d->kind == RT_DEC_FUSE) return feed(s, k + 1, data, len);
    if (d->kind == RT_DEC_STRIP && d->stop == 0) return feed_strip(s, k, data, len);
    rt_str_append_n(&s->stages[k].token, data, len);
    return RT_OK;
}

static int end_token(rt_tok_stream *s, uint32_t k)
{
    if (k == s->t->dec_count) return RT_OK;
    stage *g = &s->stages[k];
    const rt_tok_dec *d = &s->t->decs[k];
    int rc = RT_OK;
    switch (d->kind) {
    case RT_DEC_BYTE_LEVEL: rc = end_byte_level(s, k); break;
    case RT_DEC_BYTE_FALLBACK: rc = end_byte_fallback(s, k); break;
    case RT_DEC_METASPACE: rc = end_metaspace(s, k); break;
    case RT_DEC_FUSE: break;
    case RT_DEC_REPLACE: rc = end_replace(s, k); break;
    case RT_DEC_BPE: rc = end_bpe(s, k); break;
    case RT_DEC_STRIP:
        if (d->stop > 0) {
            rc = end_strip(s, k);
        } else {
            g->count = 0;
            g->passing = false;
            rc = end_token(s, k + 1);
        }
        break;
    }
    g->token.len = 0;
    return rc;
}

/* No more tokens for any stage. */
static int finish(rt_tok_stream *s)
{
    int rc = RT_OK;
    for (uint32_t k = 0; k < s->t->dec_count; k++) {
        switch (s->t->decs[k].kind) {
        case RT_DEC_BYTE_LEVEL:
            RT_TRY(give_utf8(s, k, false, true));
            RT_TRY(end_token(s, k + 1));
            break;
        case RT_DEC_FUSE: RT_TRY(end_token(s, k + 1)); break;
        case RT_DEC_BYTE_FALLBACK: RT_TRY(end_bytes(s, k)); break;
        case RT_DEC_BPE: RT_TRY(give_held(s, k, true)); break;
        default: break;
        }
    }
out:
    return rc;
}

static void clear(rt_tok_stream *s)
{
    s->begun = false;
    for (uint32_t k = 0; k < s->t->dec_count; k++) {
        stage *g = &s->stages[k];
        g->token.len = g->hold.len = 0;
        g->token.failed = g->hold.failed = false;
        g->count = 0;
        g->any = g->passing = false;
    }
}

static int check_memory(const rt_tok_stream *s)
{
    bool failed = s->out->failed;
    for (uint32_t k = 0; k < s->t->dec_count; k++)
        failed = failed || s->stages[k].token.failed || s->stages[k].hold.failed;
    return failed ? rt_tok_out_of_memory(s->e) : RT_OK;
}

static int push(rt_tok_stream *s, uint32_t id)
{
    const rt_tok_vocab *v = &s->t->vocab;
    if (id >= v->size || !v->entries[id].text.data || (v->entries[id].flags & RT_TOKEN_UNUSED))
        return rt_fail(s->e, RT_INVALID, "id %u is not in the vocabulary (ids are below %u)", id, v->size);
    const rt_tok_entry *entry = &v->entries[id];
    if ((s->flags & RT_DECODE_SKIP_SPECIAL) && (entry->flags & RT_TOKEN_SPECIAL)) return RT_OK;
    if (!s->t->has_decoder && s->begun) rt_str_append_n(s->out, " ", 1);
    s->begun = true;
    s->given += entry->decode.len;
    s->regex.left += rt_tok_steps(entry->decode.len) - RT_TOK_STEPS;
    int rc = feed(s, 0, entry->decode.data, entry->decode.len);
    return rc < 0 ? rc : end_token(s, 0);
}

int rt_tok_stream_new(rt_tok_stream **out, const rt_tokenizer *t, unsigned flags, rt_err *e)
{
    rt_tok_stream *s = rt_alloc_zero(sizeof *s, 64);
    *out = NULL;
    if (!s) return rt_tok_out_of_memory(e);
    s->t = t;
    s->flags = flags;
    s->eager = true;
    int rc = rt_tok_regex_scratch_new(&s->regex, e);
    if (rc < 0) {
        rt_tok_stream_free(s);
        return rc;
    }
    *out = s;
    return RT_OK;
}

void rt_tok_stream_free(rt_tok_stream *s)
{
    if (!s) return;
    for (uint32_t k = 0; k < s->t->dec_count; k++) {
        rt_str_free(&s->stages[k].token);
        rt_str_free(&s->stages[k].hold);
    }
    rt_tok_regex_scratch_free(&s->regex);
    rt_free(s);
}

int rt_tok_stream_push(rt_tok_stream *s, uint32_t id, rt_str *out, rt_err *e)
{
    s->out = out;
    s->e = e;
    int rc = push(s, id);
    return rc < 0 ? rc : check_memory(s);
}

int rt_tok_stream_end(rt_tok_stream *s, rt_str *out, rt_err *e)
{
    s->out = out;
    s->e = e;
    int rc = finish(s);
    if (rc == RT_OK) rc = check_memory(s);
    clear(s);
    return rc;
}

int rt_tokenizer_decode(const rt_tokenizer *t, const uint32_t *ids, size_t count, unsigned flags, rt_str *out,
                        rt_err *e)
{
    rt_tok_stream *s = NULL;
    int rc;
    RT_TRY(rt_tok_stream_new(&s, t, flags, e));
    s->eager = false;
    s->out = out;
    s->e = e;
    for (size_t i = 0; i < count; i++) RT_TRY(push(s, ids[i]));
    RT_TRY(finish(s));
    RT_TRY(check_memory(s));
out:
    rt_tok_stream_free(s);
    return rc;
}

int rt_tok_token_bytes(const rt_tokenizer *t, rt_tok_regex_scratch *r, rt_tok_text token, rt_str *out, rt_str *next,
                       rt_err *e)
{
    int rc = RT_OK;
    rt_str_append_n(out, token.data, token.len);
    for (uint32_t k = 0; k < t->dec_count && rc == RT_OK; k++) {
        const rt_tok_dec *d = &t->decs[k];
        int value = byte_value(out->data, out->len);
        next->len = 0;
        if (d->kind == RT_DEC_BYTE_LEVEL) {
            unmap(out->data, out->len, next);
        } else if (d->kind == RT_DEC_BYTE_FALLBACK && value >= 0) {
            char byte = (char)value;
            rt_str_append_n(next, &byte, 1);
        } else if (d->kind == RT_DEC_REPLACE) {
            rc = replace(d, t->table, r, out, next, token.len, e);
        } else if (d->kind == RT_DEC_METASPACE) {
            for (size_t i = 0; i < out->len; i += rt_utf8_len(out->data[i])) {
                size_t n = rt_utf8_len(out->data[i]);
                bool mark = n == d->content.len && memcmp(out->data + i, d->content.data, n) == 0;
                rt_str_append_n(next, mark ? " " : out->data + i, mark ? 1 : n);
            }
        } else {
            continue;
        }
        out->len = 0;
        rt_str_append_n(out, next->data ? next->data : "", next->len);
        /* The byte of a byte token need not be a character; no later step looks at it. */
        if (d->kind == RT_DEC_BYTE_LEVEL || d->kind == RT_DEC_BYTE_FALLBACK) break;
    }
    if (rc == RT_OK && (out->failed || next->failed)) rc = rt_tok_out_of_memory(e);
    return rc;
}
