/* cache_file.c - one file of blocks: mapped, its header and index checked, its blocks found and checked one by one. */
#include "teacher/cache/cache_internal.h"

#include <inttypes.h>
#include <stddef.h>
#include <string.h>

static int damaged(const char *path, const char *what, rt_err *e)
{
    return rt_fail(e, RT_FORMAT, "%s is damaged (%s); remove it, and fill the cache again", path, what);
}

static bool hash_is(const uint8_t expected[RT_CACHE_KEY_BYTES], const void *data, size_t bytes)
{
    uint8_t found[RT_CACHE_KEY_BYTES];
    rt_hash128 h = rt_hash(data, bytes);
    rt_cache_key_bytes(found, &h);
    return memcmp(found, expected, sizeof found) == 0;
}

static int check_header(const rt_cache_file *f, const rt_cache *c, rt_err *e)
{
    rt_cache_header h;
    if (f->map.size < sizeof h) return damaged(f->path, "it is shorter than its header", e);
    memcpy(&h, f->map.data, sizeof h);
    if (memcmp(h.magic, RT_CACHE_MAGIC, sizeof h.magic) != 0) return damaged(f->path, "it is not a file of blocks", e);
    if (h.version > RT_CACHE_VERSION)
        return rt_fail(e, RT_FORMAT, "%s has version %u of the format, and this retort reads %u; use a newer retort",
                       f->path, h.version, RT_CACHE_VERSION);
    memset(h.header, 0, sizeof h.header);
    if (!hash_is(f->header->header, &h, sizeof h)) return damaged(f->path, "the hash of its header is wrong", e);
    if (memcmp(h.cache, c->hash, sizeof h.cache) != 0)
        return rt_fail(e, RT_FORMAT, "%s does not belong to the cache %s; move it away", f->path, c->path);
    uint64_t index_bytes;
    if (h.header_bytes != sizeof h || h.section >= c->section_count || h.bytes != f->map.size || h.index_at % 8 ||
        h.index_at < sizeof h || !rt_mul_u64(h.blocks, sizeof(rt_cache_entry), &index_bytes) || h.index_at > h.bytes ||
        index_bytes != h.bytes - h.index_at)
        return damaged(f->path, "its sections overlap or exceed its size", e);
    return RT_OK;
}

static int check_index(const rt_cache_file *f, const rt_cache *c, rt_err *e)
{
    const rt_cache_header *h = f->header;
    uint64_t most = rt_cache_record_most(&c->sections[h->section]), positions = 0, same = 0;
    if (!hash_is(h->index, f->entries, (size_t)(h->bytes - h->index_at)))
        return damaged(f->path, "the hash of its index is wrong", e);
    for (uint64_t i = 0; i < h->blocks; i++) {
        const rt_cache_entry *x = &f->entries[i];
        uint32_t count = (uint32_t)__builtin_popcountll(x->have);
        int order = i ? memcmp(x[-1].key, x->key, sizeof x->key) : -1;
        same = order == 0 ? same : 0;
        if (order > 0 || x->have & same || !x->have || x->at < sizeof *h || x->at > h->index_at ||
            x->bytes > h->index_at - x->at || x->bytes > count * most || x->bytes < count)
            return damaged(f->path, "its index is inconsistent", e);
        same |= x->have;
        positions += count;
    }
    return positions == h->positions ? RT_OK
                                     : damaged(f->path, "its index and its header count different positions", e);
}

int rt_cache_file_open(rt_cache_file *f, const rt_cache *c, uint32_t part, uint32_t number, rt_err *e)
{
    int rc;
    rt_arena a = { 0 };
    *f = (rt_cache_file){ .part = part, .number = number };
    char *path = rt_arena_printf(&a, RT_CACHE_FILE_NAME, c->path, part, number);
    size_t bytes = path ? strlen(path) + 1 : 0;
    if (path) f->path = rt_alloc(bytes, 1 << 4);
    if (!f->path) RT_TRY(rt_no_memory(e, "a file of blocks"));
    memcpy(f->path, path, bytes);
    RT_TRY(rt_map_open(&f->map, f->path, e));
    f->header = (const rt_cache_header *)(const void *)f->map.data;
    RT_TRY(check_header(f, c, e));
    f->entries = (const rt_cache_entry *)(const void *)(f->map.data + f->header->index_at);
    RT_TRY(check_index(f, c, e));
out:
    rt_arena_free(&a);
    if (rc < 0) rt_cache_file_close(f);
    return rc;
}

void rt_cache_file_close(rt_cache_file *f)
{
    rt_map_close(&f->map);
    rt_free(f->path);
    *f = (rt_cache_file){ 0 };
}

static int compare(const rt_cache_file *f, uint64_t i, const uint8_t key[RT_CACHE_KEY_BYTES])
{
    return memcmp(f->entries[i].key, key, RT_CACHE_KEY_BYTES);
}

/* Keys are spread evenly: from where it should be, in steps that double, then by halves. */
const rt_cache_entry *rt_cache_file_find(const rt_cache_file *f, const uint8_t key[RT_CACHE_KEY_BYTES])
{
    uint64_t n = f->header->blocks, front = 0;
    for (int i = 0; i < 4; i++) front = front << 8 | key[i];
    if (n == 0) return NULL;
    uint64_t guess = n >> 32 ? n / 2 : front * n >> 32, low = guess, high = guess;
    /* The first that is not below the key lies in [low, high]. */
    for (uint64_t step = 1; low > 0 && compare(f, low, key) >= 0; step *= 2) {
        high = low;
        low = low > step ? low - step : 0;
    }
    for (uint64_t step = 1; high < n && compare(f, high, key) < 0; step *= 2) {
        low = high + 1;
        high = n - high > step ? high + step : n;
    }
    while (low < high) {
        uint64_t middle = low + (high - low) / 2;
        if (compare(f, middle, key) < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return low < n && compare(f, low, key) == 0 ? &f->entries[low] : NULL;
}

uint64_t rt_cache_file_have(const rt_cache_file *f, const uint8_t key[RT_CACHE_KEY_BYTES])
{
    uint64_t have = 0;
    const rt_cache_entry *end = f->entries + f->header->blocks;
    for (const rt_cache_entry *x = rt_cache_file_find(f, key); x && x < end && memcmp(x->key, key, sizeof x->key) == 0;
         x++)
        have |= x->have;
    return have;
}

int rt_cache_file_check(const rt_cache_file *f, const rt_cache_entry *x, rt_err *e)
{
    if (rt_cache_check(f->map.data + x->at, x->bytes) == x->check) return RT_OK;
    return damaged(f->path, "the checksum of a block is wrong", e);
}
