/* tok_bpe.c - from a word to ids: symbols, merges, and the cache of words.
 *
 * Owns: BPE by ranks of pairs, and SentencePiece's merges by score, which are the same procedure with another rank:
 * always the best pair, of equals the leftmost. Leaves the tables to tok_model.c. */
#include "text/tokenizer/tok_internal.h"

#include <pthread.h>

enum {
    FEW_SYMBOLS = 64,    /* up to here the best pair is looked for, beyond it is kept in a heap */
    LONG_WORD = 1 << 20, /* bytes; beyond one thread at a time has the memory that merging takes, 33 to 40 a byte */
    MAX_WORD = 16 << 20,
};

static pthread_mutex_t long_words = PTHREAD_MUTEX_INITIALIZER;

int rt_tok_emit(rt_tok_scratch *s, uint32_t id)
{
    rt_tok_ids *out = s->out;
    if (out->count == out->cap &&
        (out->count == UINT32_MAX || !rt_grow((void **)&out->ids, &out->cap, out->count + 1, sizeof *out->ids)))
        return rt_tok_out_of_memory(s->e);
    out->ids[out->count++] = id;
    return RT_OK;
}

static inline uint32_t merge_slot(const rt_tok_model *m, uint32_t left, uint32_t right)
{
    return (uint32_t)rt_tok_mix(left, right) & m->merge_mask;
}

/* Rank and result of joining symbol a with b, which follows it. */
static inline void rate(const rt_tokenizer *t, const char *text, rt_tok_sym *a, const rt_tok_sym *b)
{
    const rt_tok_model *m = &t->model;
    a->rank = RT_TOK_NONE;
    if (m->spm) {
        uint32_t len = a->len + b->len;
        if (len > m->max_len) return;
        a->result = rt_tok_vocab_find(&t->vocab, text + a->start, len);
        if (a->result != RT_TOK_NONE) a->rank = m->score_rank[a->result];
        return;
    }
    for (uint32_t at = merge_slot(m, a->id, b->id); m->merges[at].rank != RT_TOK_NONE; at = (at + 1) & m->merge_mask) {
        if (m->merges[at].left == a->id && m->merges[at].right == b->id) {
            a->rank = m->merges[at].rank;
            a->result = m->merges[at].result;
            return;
        }
    }
}

static void merge_few(rt_tok_scratch *s, const char *text)
{
    const rt_tokenizer *t = s->t;
    rt_tok_sym *sym = s->syms;
    uint32_t n = s->sym_count;
    for (uint32_t i = 0; i + 1 < n; i++) rate(t, text, &sym[i], &sym[i + 1]);
    while (n > 1) {
        uint32_t best = 0;
        for (uint32_t i = 1; i + 1 < n; i++)
            if (sym[i].rank < sym[best].rank) best = i;
        if (sym[best].rank == RT_TOK_NONE) break;
        sym[best].id = sym[best].result;
        sym[best].len += sym[best + 1].len;
        memmove(&sym[best + 1], &sym[best + 2], (n - best - 2) * sizeof *sym);
        n--;
        if (best + 1 < n) rate(t, text, &sym[best], &sym[best + 1]);
        if (best > 0) rate(t, text, &sym[best - 1], &sym[best]);
    }
    s->sym_count = n;
}

/* A heap of rank << 32 | position, the least on top. */
static int heap_push(rt_tok_scratch *s, uint64_t key)
{
    if (!rt_grow((void **)&s->heap, &s->heap_cap, s->heap_count + 1, sizeof *s->heap))
        return rt_tok_out_of_memory(s->e);
    uint32_t at = s->heap_count++;
    while (at > 0 && s->heap[(at - 1) / 4] > key) {
        s->heap[at] = s->heap[(at - 1) / 4];
        at = (at - 1) / 4;
    }
    s->heap[at] = key;
    return RT_OK;
}

static uint64_t heap_pop(rt_tok_scratch *s)
{
    uint64_t top = s->heap[0], key = s->heap[--s->heap_count];
    uint32_t at = 0, n = s->heap_count;
    for (;;) {
        uint32_t first = 4 * at + 1, least = first;
        if (first >= n) break;
        for (uint32_t c = first + 1; c < n && c < first + 4; c++)
            if (s->heap[c] < s->heap[least]) least = c;
        if (s->heap[least] >= key) break;
        s->heap[at] = s->heap[least];
        at = least;
    }
    s->heap[at] = key;
    return top;
}

static int offer(rt_tok_scratch *s, const char *text, uint32_t at)
{
    rt_tok_sym *a = &s->syms[at];
    if (a->next == RT_TOK_NONE) {
        a->rank = RT_TOK_NONE;
        return RT_OK;
    }
    rate(s->t, text, a, &s->syms[a->next]);
    return a->rank == RT_TOK_NONE ? RT_OK : heap_push(s, (uint64_t)a->rank << 32 | at);
}

static int merge_many(rt_tok_scratch *s, const char *text)
{
    rt_tok_sym *sym = s->syms;
    uint32_t n = s->sym_count;
    int rc = RT_OK;
    s->heap_count = 0;
    for (uint32_t i = 0; i < n; i++) {
        sym[i].prev = i > 0 ? i - 1 : RT_TOK_NONE;
        sym[i].next = i + 1 < n ? i + 1 : RT_TOK_NONE;
    }
    for (uint32_t i = 0; i < n; i++) RT_TRY(offer(s, text, i));
    while (s->heap_count > 0) {
        uint64_t key = heap_pop(s);
        uint32_t at = (uint32_t)key;
        rt_tok_sym *a = &sym[at];
        /* An entry is out of date when the pair is gone or is another one now. */
        if (a->len == 0 || a->rank != key >> 32) continue;
        rt_tok_sym *b = &sym[a->next];
        a->id = a->result;
        a->len += b->len;
        a->next = b->next;
        b->len = 0;
        if (a->next != RT_TOK_NONE) sym[a->next].prev = at;
        RT_TRY(offer(s, text, at));
        if (a->prev != RT_TOK_NONE) RT_TRY(offer(s, text, a->prev));
    }
    uint32_t kept = 0;
    for (uint32_t i = 0; i < n; i++)
        if (sym[i].len) sym[kept++] = sym[i];
    s->sym_count = kept;
out:
    return rc;
}

static inline int add_symbol(rt_tok_scratch *s, uint32_t id, uint32_t start, uint32_t len)
{
    if (s->sym_count == s->sym_cap && !rt_grow((void **)&s->syms, &s->sym_cap, s->sym_count + 1, sizeof *s->syms))
        return rt_tok_out_of_memory(s->e);
    rt_tok_sym *sym = &s->syms[s->sym_count++];
    sym->id = id;
    sym->start = start;
    sym->len = len;
    return RT_OK;
}

static uint32_t byte_token(const rt_tok_vocab *v, uint8_t byte)
{
    static const char hex[] = "0123456789ABCDEF";
    char text[6] = { '<', '0', 'x', hex[byte >> 4], hex[byte & 15], '>' };
    return rt_tok_vocab_find(v, text, sizeof text);
}

/* The bytes of an unknown character as tokens; *done is false when one is missing, and nothing is added. */
static int add_bytes(rt_tok_scratch *s, const char *text, uint32_t len, uint32_t start, bool *done)
{
    *done = false;
    for (uint32_t k = 0; k < len; k++)
        if (byte_token(&s->t->vocab, (uint8_t)text[k]) == RT_TOK_NONE) return RT_OK;
    *done = true;
    for (uint32_t k = 0; k < len; k++) {
        int rc = add_symbol(s, byte_token(&s->t->vocab, (uint8_t)text[k]), start, 1);
        if (rc < 0) return rc;
    }
    return RT_OK;
}

/* The character as the vocabulary spells it: with the prefix unless it is first, with the suffix if it is last. */
static rt_tok_text spelled(rt_tok_scratch *s, const char *text, uint32_t len, bool first, bool last)
{
    const rt_tok_model *m = &s->t->model;
    if ((first || m->prefix.len == 0) && (!last || m->suffix.len == 0)) return (rt_tok_text){ text, len };
    rt_str *b = &s->mapped;
    b->len = 0;
    if (!first) rt_str_append_n(b, m->prefix.data, m->prefix.len);
    rt_str_append_n(b, text, len);
    if (last) rt_str_append_n(b, m->suffix.data, m->suffix.len);
    return (rt_tok_text){ b->data, b->len };
}

typedef struct unknown {
    bool held;
    uint32_t start, len;
} unknown;

static int flush_unknown(rt_tok_scratch *s, unknown *u)
{
    if (!u->held) return RT_OK;
    u->held = false;
    return add_symbol(s, s->t->model.unk_id, u->start, u->len);
}

/* A character that is neither in the vocabulary nor spelled by byte tokens. Without an unknown token it is dropped. */
static int add_unknown(rt_tok_scratch *s, unknown *u, uint32_t start, uint32_t len)
{
    const rt_tok_model *m = &s->t->model;
    if (!m->has_unk) return RT_OK;
    if (m->unk_id == RT_TOK_NONE)
        return rt_fail(
            s->e, RT_INVALID,
            "the text has a character without a token, and the unknown token '%.*s' is not in the vocabulary",
            (int)(m->unk.len < 60 ? m->unk.len : 60), m->unk.data);
    if (u->held && m->fuse_unk) {
        u->len += len;
        return RT_OK;
    }
    int rc = flush_unknown(s, u);
    *u = (unknown){ true, start, len };
    return rc;
}

/* Symbols of a word whose text is as the vocabulary spells it. */
static int symbols_of_text(rt_tok_scratch *s, const char *text, uint32_t len)
{
    const rt_tokenizer *t = s->t;
    unknown u = { 0 };
    int rc = RT_OK;
    for (uint32_t i = 0, n; i < len; i += n) {
        n = rt_utf8_len(text[i]);
        if (t->model.spm) {
            RT_TRY(add_symbol(s, RT_TOK_NONE, i, n));
            continue;
        }
        rt_tok_text c = spelled(s, text + i, n, i == 0, i + n == len);
        if (s->mapped.failed) return rt_tok_out_of_memory(s->e);
        uint32_t id = rt_tok_vocab_find(&t->vocab, c.data, c.len);
        if (id != RT_TOK_NONE) {
            RT_TRY(flush_unknown(s, &u));
            RT_TRY(add_symbol(s, id, i, n));
            continue;
        }
        /* Byte tokens do not end a run of unknown characters, which then comes behind them; so it is in the package. */
        bool done = false;
        if (t->model.byte_fallback) RT_TRY(add_bytes(s, c.data, (uint32_t)c.len, i, &done));
        if (!done) RT_TRY(add_unknown(s, &u, i, n));
    }
    rc = flush_unknown(s, &u);
out:
    return rc;
}

static int symbols_of_bytes(rt_tok_scratch *s, const char *text, uint32_t len)
{
    for (uint32_t i = 0; i < len; i++) {
        int rc = add_symbol(s, s->t->model.byte_id[(uint8_t)text[i]], i, 1);
        if (rc < 0) return rc;
    }
    return RT_OK;
}

/* SentencePiece: symbols get their ids at the end, and what has none becomes byte tokens. */
static int emit_spm(rt_tok_scratch *s, const char *text)
{
    const rt_tokenizer *t = s->t;
    int rc = RT_OK;
    for (uint32_t i = 0; i < s->sym_count; i++) {
        const rt_tok_sym *sym = &s->syms[i];
        uint32_t id = rt_tok_vocab_find(&t->vocab, text + sym->start, sym->len);
        if (id != RT_TOK_NONE) {
            RT_TRY(rt_tok_emit(s, id));
            continue;
        }
        for (uint32_t k = 0; k < sym->len; k++) {
            uint8_t byte = (uint8_t)text[sym->start + k];
            if (t->model.byte_id[byte] == RT_TOK_NONE)
                return rt_fail(s->e, RT_INVALID,
                               "the text has a character without a token, and there is no token <0x%02X>", byte);
            RT_TRY(rt_tok_emit(s, t->model.byte_id[byte]));
        }
    }
out:
    return rc;
}

static int encode_uncached(rt_tok_scratch *s, const char *text, uint32_t len)
{
    const rt_tokenizer *t = s->t;
    const rt_tok_model *m = &t->model;
    int rc;
    s->sym_count = 0;
    /* A symbol is a byte at least. */
    if (len > LONG_WORD && !rt_grow((void **)&s->syms, &s->sym_cap, len, sizeof *s->syms))
        return rt_tok_out_of_memory(s->e);
    if (m->ignore_merges) {
        uint32_t id = m->byte_level ? rt_tok_map_find(&t->vocab.by_raw, &t->vocab, RT_KEY_RAW, text, len)
                                    : rt_tok_vocab_find(&t->vocab, text, len);
        if (id != RT_TOK_NONE) return rt_tok_emit(s, id);
    }
    if (m->byte_level && m->bytes_known) {
        RT_TRY(symbols_of_bytes(s, text, len));
    } else if (m->byte_level) {
        rt_str *b = &s->spelled_bytes;
        b->len = 0;
        for (uint32_t i = 0; i < len; i++) rt_str_append_cp(b, rt_byte_char((uint8_t)text[i]));
        if (b->failed) return rt_tok_out_of_memory(s->e);
        text = b->data;
        RT_TRY(symbols_of_text(s, text, (uint32_t)b->len));
    } else {
        RT_TRY(symbols_of_text(s, text, len));
    }
    if (s->sym_count <= FEW_SYMBOLS)
        merge_few(s, text);
    else
        RT_TRY(merge_many(s, text));
    if (m->spm) return emit_spm(s, text);
    for (uint32_t i = 0; i < s->sym_count; i++) RT_TRY(rt_tok_emit(s, s->syms[i].id));
out:
    return rc;
}

static int encode_word(rt_tok_scratch *s, const char *text, size_t len)
{
    if (len <= LONG_WORD) return encode_uncached(s, text, (uint32_t)len);
    if (len > MAX_WORD)
        return rt_fail(
            s->e, RT_INVALID,
            "a stretch of %zu bytes that the tokenizer has no place to cut; at most %d are supported: divide "
            "the text into records",
            len, MAX_WORD);
    pthread_mutex_lock(&long_words);
    int rc = encode_uncached(s, text, (uint32_t)len);
    rt_free(s->syms);
    rt_free(s->heap);
    s->syms = NULL;
    s->heap = NULL;
    s->sym_count = s->sym_cap = s->heap_count = s->heap_cap = 0;
    pthread_mutex_unlock(&long_words);
    return rc;
}

static inline uint64_t load64(const char *p)
{
    uint64_t v;
    memcpy(&v, p, 8);
    return v;
}

/* Up to eight bytes, the rest zero. */
static inline uint64_t load_part(const char *p, size_t n)
{
    if (n >= 8) return load64(p);
    if (n >= 4) {
        uint32_t low, high;
        memcpy(&low, p, 4);
        memcpy(&high, p + n - 4, 4);
        return low | (uint64_t)high << (8 * (n - 4));
    }
    uint64_t v = 0;
    for (size_t i = 0; i < n; i++) v |= (uint64_t)(uint8_t)p[i] << (8 * i);
    return v;
}

static inline uint64_t word_hash(const uint64_t key[3], size_t len)
{
    uint64_t hash = rt_tok_mix(key[0], len);
    return len > 8 ? rt_tok_mix(hash ^ key[1], key[2]) : hash;
}

static inline rt_cached_word *word_set(const rt_tok_scratch *s, uint64_t hash)
{
    return &s->words[hash & (s->word_slots - 2)];
}

/* Of the two places the first holds the newer word. */
static inline void put_word(rt_cached_word *set, const rt_cached_word *w)
{
    if (set[0].len) set[1] = set[0];
    set[0] = *w;
}

/* A cache that stays small because there is no memory is still a cache. */
static void grow_words(rt_tok_scratch *s)
{
    rt_cached_word *old = s->words;
    uint32_t slots = s->word_slots;
    rt_cached_word *bigger = rt_alloc_zero((size_t)8 * slots * sizeof *bigger, 64);
    if (!bigger) return;
    s->words = bigger;
    s->word_slots = 8 * slots;
    for (uint32_t i = 0; i < slots; i++)
        if (old[i].len) put_word(word_set(s, word_hash(old[i].key, old[i].len)), &old[i]);
    rt_free(old);
}

static void cache_word(rt_tok_scratch *s, const uint64_t key[3], uint8_t len, uint32_t from)
{
    uint32_t count = s->out->count - from;
    if (count > RT_WORD_IDS) return;
    if (s->word_count >= s->word_slots / 2 && s->word_slots < RT_WORD_SLOTS) grow_words(s);
    rt_cached_word w = { .len = len, .count = (uint8_t)count };
    memcpy(w.key, key, sizeof w.key);
    if (count) memcpy(w.ids, s->out->ids + from, count * sizeof *w.ids);
    put_word(word_set(s, word_hash(key, len)), &w);
    s->word_count++;
}

static int encode_cached(rt_tok_scratch *s, const char *text, size_t len)
{
    uint64_t key[3] = { load_part(text, len), 0, 0 };
    if (len > 8) key[1] = load_part(text + 8, len - 8);
    if (len > 16) key[2] = load_part(text + 16, len - 16);
    const rt_cached_word *set = word_set(s, word_hash(key, len));
    for (int k = 0; k < 2; k++) {
        const rt_cached_word *w = &set[k];
        if (w->len != len || w->key[0] != key[0] || w->key[1] != key[1] || w->key[2] != key[2]) continue;
        rt_tok_ids *out = s->out;
        if (out->cap - out->count < RT_WORD_IDS &&
            (out->count > UINT32_MAX - RT_WORD_IDS ||
             !rt_grow((void **)&out->ids, &out->cap, out->count + RT_WORD_IDS, sizeof *out->ids)))
            return rt_tok_out_of_memory(s->e);
        memcpy(out->ids + out->count, w->ids, sizeof w->ids);
        out->count += w->count;
        return RT_OK;
    }
    uint32_t from = s->out->count;
    int rc = encode_uncached(s, text, (uint32_t)len);
    if (rc == RT_OK) cache_word(s, key, (uint8_t)len, from);
    return rc;
}

/* The end of the part that begins at at: before the next U+2581 that follows another character. */
static size_t cut_at(const char *text, size_t len, size_t at)
{
    static const char mark[] = "\xE2\x96\x81";
    size_t i = at;
    while (len - i >= 3 && memcmp(text + i, mark, 3) == 0) i += 3;
    const char *next = i < len ? memmem(text + i, len - i, mark, 3) : NULL;
    return next ? (size_t)(next - text) : len;
}

int rt_tok_word_encode(rt_tok_scratch *s, const char *text, size_t len)
{
    if (s->t->model.cut_space) {
        for (size_t at = 0, end; at < len; at = end) {
            end = cut_at(text, len, at);
            int rc =
                end - at <= RT_WORD_KEY ? encode_cached(s, text + at, end - at) : encode_word(s, text + at, end - at);
            if (rc < 0) return rc;
        }
        return RT_OK;
    }
    return len <= RT_WORD_KEY ? encode_cached(s, text, len) : encode_word(s, text, len);
}
