/* cache_pack.c - a file of blocks as it grows: records go to the file at once and on to disk by and by, so that the end
 * does not wait for them; the index is kept until then. */
#include "teacher/cache/cache_internal.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum { FLUSH_BYTES = 8 << 20 };

struct rt_cache_pack {
    rt_writer *file;
    uint64_t flushed; /* bytes from the first on that are on their way to disk */
    rt_cache_header header;  /* at: header.index_at is where the next block goes */
    rt_cache_entry *entries; /* (header.blocks) */
    uint32_t *slots;         /* (slot_count) entry + 1, 0: free; a power of two, at least twice the entries */
    uint32_t entry_cap, slot_count;
};

int rt_cache_pack_new(rt_cache_pack **out, const rt_cache *c, uint32_t section, uint32_t part, uint32_t number,
                      rt_err *e)
{
    int rc;
    rt_arena a = { 0 };
    char *path = rt_arena_printf(&a, RT_CACHE_FILE_NAME, c->path, part, number);
    rt_cache_pack *p = rt_alloc_zero(sizeof *p, _Alignof(rt_cache_pack));
    *out = NULL;
    if (!p || !path) RT_TRY(rt_no_memory(e, "a file of blocks"));
    p->header = (rt_cache_header){
        .version = RT_CACHE_VERSION, .header_bytes = sizeof p->header, .section = section, .index_at = sizeof p->header
    };
    memcpy(p->header.magic, RT_CACHE_MAGIC, sizeof p->header.magic);
    memcpy(p->header.cache, c->hash, sizeof p->header.cache);
    RT_TRY(rt_writer_open(&p->file, path, e));
    rt_writer_new_only(p->file); /* nothing that was kept goes, whoever else writes here */
    *out = p;
    p = NULL;
out:
    rt_cache_pack_free(p);
    rt_arena_free(&a);
    return rc;
}

void rt_cache_pack_free(rt_cache_pack *p)
{
    if (!p) return;
    rt_writer_free(p->file);
    rt_free(p->entries);
    rt_free(p->slots);
    rt_free(p);
}

static uint32_t slot_of(const rt_cache_pack *p, const uint8_t key[RT_CACHE_KEY_BYTES])
{
    return (uint32_t)rt_load_le(key, 4) & (p->slot_count - 1);
}

uint64_t rt_cache_pack_have(const rt_cache_pack *p, const uint8_t key[RT_CACHE_KEY_BYTES])
{
    uint64_t have = 0;
    if (p->slot_count == 0) return 0;
    for (uint32_t i = slot_of(p, key); p->slots[i]; i = (i + 1) & (p->slot_count - 1)) {
        const rt_cache_entry *x = &p->entries[p->slots[i] - 1];
        if (memcmp(x->key, key, sizeof x->key) == 0) have |= x->have;
    }
    return have;
}

static void put_slot(rt_cache_pack *p, uint32_t entry)
{
    uint32_t i = slot_of(p, p->entries[entry].key);
    while (p->slots[i]) i = (i + 1) & (p->slot_count - 1);
    p->slots[i] = entry + 1;
}

static int make_room(rt_cache_pack *p, rt_err *e)
{
    uint32_t n = (uint32_t)p->header.blocks;
    if (n >= 1u << 30) return rt_fail(e, RT_INVALID, "a file of blocks is full; commit more often");
    if (!rt_grow((void **)&p->entries, &p->entry_cap, n + 1, sizeof *p->entries))
        return rt_no_memory(e, "the index of a file of blocks");
    if (2 * (n + 1) <= p->slot_count) return RT_OK;
    uint32_t count = p->slot_count ? 2 * p->slot_count : 256;
    uint32_t *slots = rt_alloc_zero(count * sizeof *slots, _Alignof(uint32_t));
    if (!slots) return rt_no_memory(e, "the index of a file of blocks");
    rt_free(p->slots);
    p->slots = slots;
    p->slot_count = count;
    for (uint32_t i = 0; i < n; i++) put_slot(p, i);
    return RT_OK;
}

int rt_cache_pack_put(rt_cache_pack *p, const uint8_t key[RT_CACHE_KEY_BYTES], uint64_t have, const uint8_t *records,
                      uint32_t bytes, rt_err *e)
{
    rt_cache_header *h = &p->header;
    int rc = make_room(p, e);
    if (rc == RT_OK) rc = rt_writer_put(p->file, h->index_at, records, bytes, e);
    if (rc < 0) return rc;
    rt_cache_entry *x = &p->entries[h->blocks];
    *x = (rt_cache_entry){ .have = have, .at = h->index_at, .bytes = bytes, .check = rt_cache_check(records, bytes) };
    memcpy(x->key, key, sizeof x->key);
    put_slot(p, (uint32_t)h->blocks++);
    h->index_at += bytes;
    h->positions += (uint32_t)__builtin_popcountll(have);
    if (h->index_at - p->flushed >= FLUSH_BYTES) {
        rt_writer_begin_flush(p->file, p->flushed, h->index_at - p->flushed);
        p->flushed = h->index_at;
    }
    return RT_OK;
}

static int by_key(const void *a, const void *b)
{
    const rt_cache_entry *x = a, *y = b;
    int order = memcmp(x->key, y->key, sizeof x->key);
    return order ? order : x->at < y->at ? -1 : 1;
}

int rt_cache_pack_commit(rt_cache_pack *p, rt_err *e)
{
    int rc;
    static const uint8_t zeros[8];
    rt_cache_header *h = &p->header;
    uint64_t end = rt_align_up(h->index_at, 8), index_bytes = h->blocks * sizeof *p->entries;
    if (h->blocks > 1) qsort(p->entries, (size_t)h->blocks, sizeof *p->entries, by_key);
    RT_TRY(rt_writer_put(p->file, h->index_at, zeros, end - h->index_at, e));
    h->index_at = end;
    h->bytes = end + index_bytes;
    rt_hash128 hash = rt_hash(p->entries, (size_t)index_bytes);
    rt_cache_key_bytes(h->index, &hash);
    hash = rt_hash(h, sizeof *h);
    rt_cache_key_bytes(h->header, &hash);
    RT_TRY(rt_writer_put(p->file, end, p->entries, index_bytes, e));
    RT_TRY(rt_writer_put(p->file, 0, h, sizeof *h, e));
    rc = rt_writer_commit(p->file, e);
out:
    return rc;
}
