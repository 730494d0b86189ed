/* tok_added.c - finding added tokens in a text: leftmost, then longest, as the tokenizers package does.
 *
 * Owns: the byte trie, the rules about whole words and surrounding space. Leaves to tokenizer.c which tokens go into
 * which trie. */
#include "text/tokenizer/tok_internal.h"

/* Of the search in one text. With tokens of up to 256 bytes that differ by their ends no text comes to as many. */
enum { STEPS_A_BYTE = 256, MORE_STEPS = 1 << 14 };

static uint32_t new_node(rt_tok_trie *t, uint8_t byte)
{
    if (!rt_grow((void **)&t->nodes, &t->cap, t->count + 1, sizeof *t->nodes)) return 0;
    t->nodes[t->count] = (rt_tok_trie_node){ .byte = byte };
    return t->count++;
}

static uint32_t child_of(const rt_tok_trie *t, uint32_t node, uint8_t byte)
{
    if (node == 0) return t->root[byte];
    uint32_t c = t->nodes[node].child;
    while (c != 0 && t->nodes[c].byte != byte) c = t->nodes[c].sibling;
    return c;
}

int rt_tok_trie_add(rt_tok_trie *t, rt_tok_text pattern, uint32_t index, rt_err *e)
{
    /* On such a token the package breaks down. */
    if (pattern.len == 0)
        return rt_fail(e, RT_FORMAT, "added_tokens: nothing is left of a token once it is normalized");
    if (t->count == 0) {
        new_node(t, 0);
        if (t->count == 0) return rt_tok_out_of_memory(e);
    }
    uint32_t node = 0;
    for (size_t i = 0; i < pattern.len; i++) {
        uint8_t byte = (uint8_t)pattern.data[i];
        uint32_t next = child_of(t, node, byte);
        if (next == 0) {
            next = new_node(t, byte);
            if (next == 0) return rt_tok_out_of_memory(e);
            if (node == 0) {
                t->root[byte] = next;
            } else {
                t->nodes[next].sibling = t->nodes[node].child;
                t->nodes[node].child = next;
            }
        }
        node = next;
    }
    if (t->nodes[node].match) /* The package takes either, from one load to the next. */
        return rt_fail(e, RT_FORMAT, "added_tokens: two tokens are found by the same text '%.*s'",
                       (int)(pattern.len < 60 ? pattern.len : 60), pattern.data);
    t->nodes[node].match = index + 1;
    t->patterns++;
    return RT_OK;
}

static void mark_pair(rt_tok_trie *t, unsigned first, unsigned second)
{
    unsigned pair = first << 8 | second;
    t->pairs[pair / 64] |= (uint64_t)1 << pair % 64;
}

void rt_tok_trie_finish(rt_tok_trie *t)
{
    unsigned firsts = 0;
    t->only_first = -1;
    for (unsigned b = 0; b < 256; b++) {
        uint32_t node = t->root[b];
        if (node == 0) continue;
        firsts++;
        t->only_first = (int)b;
        for (uint32_t c = t->nodes[node].child; c != 0; c = t->nodes[c].sibling) mark_pair(t, b, t->nodes[c].byte);
        if (t->nodes[node].match)
            for (unsigned second = 0; second < 256; second++) mark_pair(t, b, second);
    }
    if (firsts != 1) t->only_first = -1;
}

/* The longest pattern at at: its index + 1, and its length; 0 when there is none. Looking for a long token in vain from
 * every byte is work by the length of the text times that of the token; *left is what may still be done. */
static uint32_t longest_at(const rt_tok_trie *t, const char *text, size_t len, size_t at, size_t *found, uint64_t *left)
{
    uint32_t node = t->root[(uint8_t)text[at]], match = t->nodes[node].match;
    if (match) *found = 1;
    for (size_t i = at + 1; i < len; i++) {
        uint32_t next = t->nodes[node].child;
        for (; next != 0 && t->nodes[next].byte != (uint8_t)text[i] && *left > 0; --*left)
            next = t->nodes[next].sibling;
        node = next;
        if (node == 0 || *left == 0) break;
        --*left;
        if (t->nodes[node].match) {
            match = t->nodes[node].match;
            *found = i + 1 - at;
        }
    }
    return match;
}

/* The next match at or after *at, which becomes its start. With none *left is 0 when the search was given up. */
static uint32_t next_match(const rt_tok_trie *t, const char *text, size_t len, size_t *at, size_t *found,
                           uint64_t *left)
{
    size_t i = *at;
    while (i<len && * left> 0) {
        if (t->only_first >= 0) {
            const char *hit = memchr(text + i, t->only_first, len - i);
            if (!hit) return 0;
            i = (size_t)(hit - text);
        }
        uint8_t first = (uint8_t)text[i];
        if (t->root[first]) {
            unsigned pair = (unsigned)first << 8 | (i + 1 < len ? (uint8_t)text[i + 1] : 0);
            bool maybe = i + 1 == len || (t->pairs[pair / 64] >> pair % 64 & 1);
            uint32_t match = maybe ? longest_at(t, text, len, i, found, left) : 0;
            if (match && *left > 0) {
                *at = i;
                return match;
            }
        }
        i++;
    }
    return 0;
}

static bool word_before(const uint16_t *table, const char *text, size_t at)
{
    if (at == 0) return false;
    uint32_t n;
    return rt_cp_bits(table, rt_utf8_get(rt_utf8_before(text, text + at), &n)) & RT_CP_WORD;
}

static bool word_at(const uint16_t *table, const char *text, size_t len, size_t at)
{
    if (at == len) return false;
    uint32_t n;
    return rt_cp_bits(table, rt_utf8_get(text + at, &n)) & RT_CP_WORD;
}

static size_t space_left(const uint16_t *table, const char *text, size_t begin, size_t at)
{
    while (at > begin) {
        uint32_t n;
        const char *p = rt_utf8_before(text, text + at);
        if (!(rt_cp_bits(table, rt_utf8_get(p, &n)) & RT_CP_SPACE)) break;
        at = (size_t)(p - text);
    }
    return at;
}

static size_t space_right(const uint16_t *table, const char *text, size_t len, size_t at)
{
    while (at < len) {
        uint32_t n;
        if (!(rt_cp_bits(table, rt_utf8_get(text + at, &n)) & RT_CP_SPACE)) break;
        at += n;
    }
    return at;
}

int rt_tok_added_split(rt_tok_scratch *s, const rt_tok_trie *trie, rt_tok_piece p,
                       int (*piece)(rt_tok_scratch *, rt_tok_piece))
{
    const rt_tokenizer *t = s->t;
    int rc = RT_OK;
    size_t done = 0, at = 0, found = 0, spaces_end = 0; /* all from the last token that took it on is space up to it */
    uint32_t match;
    uint64_t left = MORE_STEPS + (uint64_t)STEPS_A_BYTE * p.len;
    while (trie && (match = next_match(trie, p.text, p.len, &at, &found, &left)) != 0) {
        const rt_tok_added *a = &t->added[match - 1];
        size_t start = at, stop = at + found;
        /* A match that is turned down still uses up its text: the search goes on behind it. */
        at = stop;
        if ((s->flags & RT_ENCODE_PLAIN) && a->special) continue;
        if (a->single_word && (word_before(t->table, p.text, start) || word_at(t->table, p.text, p.len, stop)))
            continue;
        if (a->lstrip) start = start > done ? space_left(t->table, p.text, done, start) : done;
        if (a->rstrip) {
            if (stop > spaces_end) spaces_end = space_right(t->table, p.text, p.len, stop);
            stop = spaces_end;
        }
        if (done < start) RT_TRY(piece(s, rt_tok_cut(p, done, start)));
        /* Space taken on the right may hold further tokens, which then begin before done; one of which nothing is left
         * is dropped. So it is in the package. */
        if (start < stop) RT_TRY(rt_tok_emit(s, a->id));
        done = stop;
    }
    if (left == 0)
        return rt_fail(s->e, RT_INVALID,
                       "looking for added tokens takes more than %d steps for each byte of a text of %zu bytes: a "
                       "token of the tokenizer is absurdly long, and the text is made of parts of it",
                       STEPS_A_BYTE, p.len);
    if (done < p.len) RT_TRY(piece(s, rt_tok_cut(p, done, p.len)));
out:
    return rc;
}
