/* tok_vocab.c - tokens by id and by spelling.
 *
 * Owns: the entries, the hash maps from strings to ids, the bytes that byte-level spellings stand for. Leaves merges to
 * tok_bpe.c and finding added tokens in text to tok_added.c. */
#include "text/tokenizer/tok_internal.h"

int rt_tok_out_of_memory(rt_err *e) { return rt_fail(e, RT_NOMEM, "out of memory for the tokenizer"); }

int rt_tok_within(size_t made, size_t given, rt_err *e)
{
    if (made <= rt_tok_most(given)) return RT_OK;
    return rt_fail(e, RT_INVALID,
                   "the tokenizer's steps make more than %zu bytes of %zu: its file is damaged, or a trap",
                   rt_tok_most(given), given);
}

uint64_t rt_tok_hash(const char *data, size_t len)
{
    uint64_t h = len, word;
    for (; len >= 8; data += 8, len -= 8) {
        memcpy(&word, data, 8);
        h = rt_tok_mix(h, word);
    }
    word = 0;
    memcpy(&word, data, len);
    return rt_tok_mix(h, word);
}

rt_tok_text rt_tok_keep(rt_tok_vocab *v, const char *data, size_t len)
{
    char *copy = rt_arena_alloc(&v->arena, len);
    if (!copy) return (rt_tok_text){ NULL, 0 };
    memcpy(copy, data, len);
    return (rt_tok_text){ copy, len };
}

rt_tok_entry *rt_tok_vocab_at(rt_tok_vocab *v, uint32_t id)
{
    if (id >= v->cap) {
        uint32_t before = v->cap;
        if (!rt_grow((void **)&v->entries, &v->cap, id + 1, sizeof *v->entries)) return NULL;
        memset(v->entries + before, 0, (v->cap - before) * sizeof *v->entries);
    }
    if (id >= v->size) v->size = id + 1;
    return &v->entries[id];
}

bool rt_tok_map_reserve(rt_tok_map *m, uint32_t count)
{
    uint64_t slots = 16;
    while (slots < 2 * (uint64_t)count) slots *= 2;
    if (slots > UINT32_MAX / 2) return false;
    m->slots = rt_alloc_zero((size_t)slots * sizeof *m->slots, 64);
    m->mask = (uint32_t)slots - 1;
    return m->slots != NULL;
}

static rt_tok_text key_of(const rt_tok_vocab *v, rt_tok_key by, uint32_t id)
{
    return by == RT_KEY_TEXT ? v->entries[id].text : v->raw[id];
}

int rt_tok_crowded(rt_err *e)
{
    return rt_fail(e, RT_FORMAT, "tokens of the vocabulary share one place in its table: it was made to be slow");
}

static int put(rt_tok_map *m, const rt_tok_vocab *v, rt_tok_key by, uint32_t id, rt_err *e)
{
    rt_tok_text key = key_of(v, by, id);
    uint32_t at = (uint32_t)rt_tok_hash(key.data, key.len) & m->mask, probes = 0;
    for (; m->slots[at]; at = (at + 1) & m->mask)
        if (++probes > RT_TOK_MAX_PROBES) return rt_tok_crowded(e);
    m->slots[at] = id + 1;
    m->used++;
    return RT_OK;
}

int rt_tok_map_add(rt_tok_map *m, const rt_tok_vocab *v, rt_tok_key by, uint32_t id, rt_err *e)
{
    int rc = RT_OK;
    if (!m->slots || m->used >= (m->mask + 1) / 2) {
        rt_tok_map old = *m;
        uint32_t slots = old.slots ? old.mask + 1 : 0;
        *m = (rt_tok_map){ 0 };
        if (!rt_tok_map_reserve(m, slots)) {
            *m = old;
            return rt_tok_out_of_memory(e);
        }
        for (uint32_t i = 0; i < slots && rc == RT_OK; i++)
            if (old.slots[i]) rc = put(m, v, by, old.slots[i] - 1, e);
        rt_free(old.slots);
    }
    return rc < 0 ? rc : put(m, v, by, id, e);
}

uint32_t rt_tok_map_find(const rt_tok_map *m, const rt_tok_vocab *v, rt_tok_key by, const char *data, size_t len)
{
    if (!m->slots) return RT_TOK_NONE;
    uint32_t at = (uint32_t)rt_tok_hash(data, len) & m->mask;
    for (; m->slots[at]; at = (at + 1) & m->mask) {
        uint32_t id = m->slots[at] - 1;
        rt_tok_text key = key_of(v, by, id);
        if (key.len == len && memcmp(key.data, data, len) == 0) return id;
    }
    return RT_TOK_NONE;
}

int rt_tok_vocab_add(rt_tokenizer *t, uint32_t id, const char *data, size_t len, const char *where, rt_err *e)
{
    rt_tok_vocab *v = &t->vocab;
    if (rt_tok_vocab_find(v, data, len) != RT_TOK_NONE)
        return rt_fail(e, RT_FORMAT, "%s: token '%.*s' occurs twice", where, (int)(len < 60 ? len : 60), data);
    rt_tok_entry *entry = rt_tok_vocab_at(v, id);
    if (!entry) return rt_tok_out_of_memory(e);
    if (entry->text.data)
        return rt_fail(e, RT_FORMAT, "%s: id %u is given to '%.*s' and to '%.*s'", where, id,
                       (int)(entry->text.len < 60 ? entry->text.len : 60), entry->text.data, (int)(len < 60 ? len : 60),
                       data);
    entry->text = rt_tok_keep(v, data, len);
    if (!entry->text.data) return rt_tok_out_of_memory(e);
    entry->decode = entry->text;
    entry->flags = RT_TOKEN_MODEL;
    v->model_count++;
    if (t->model.max_len < len) t->model.max_len = (uint32_t)len;
    return rt_tok_map_add(&v->model, v, RT_KEY_TEXT, id, e);
}

/* The bytes of a spelling all of whose characters stand for bytes; false when one does not. out has room for len. */
static bool unmap(rt_tok_text text, char *out, size_t *len)
{
    size_t n = 0;
    for (size_t i = 0; i < text.len;) {
        uint32_t step;
        int byte = rt_char_byte(rt_utf8_get(text.data + i, &step));
        if (byte < 0) return false;
        out[n++] = (char)byte;
        i += step;
    }
    *len = n;
    return true;
}

int rt_tok_vocab_make_raw(rt_tok_vocab *v, rt_err *e)
{
    if (v->size == 0) return RT_OK;
    v->raw = rt_alloc_zero(v->size * sizeof *v->raw, 64);
    if (!v->raw || !rt_tok_map_reserve(&v->by_raw, v->model_count)) return rt_tok_out_of_memory(e);
    for (uint32_t id = 0; id < v->size; id++) {
        const rt_tok_entry *entry = &v->entries[id];
        if (!(entry->flags & RT_TOKEN_MODEL) || entry->text.len == 0) continue;
        char *bytes = rt_arena_alloc(&v->arena, entry->text.len);
        if (!bytes) return rt_tok_out_of_memory(e);
        size_t len;
        if (!unmap(entry->text, bytes, &len)) continue;
        v->raw[id] = (rt_tok_text){ bytes, len };
        int rc = rt_tok_map_add(&v->by_raw, v, RT_KEY_RAW, id, e);
        if (rc < 0) return rc;
    }
    return RT_OK;
}

void rt_tok_vocab_free(rt_tok_vocab *v)
{
    rt_free(v->entries);
    rt_free(v->model.slots);
    rt_free(v->added.slots);
    rt_free(v->raw);
    rt_free(v->by_raw.slots);
    rt_arena_free(&v->arena);
}
