/* cache_merge.c - caches as wholes: one taken into another, and a hash of what is in one. */
#include "teacher/cache/cache_internal.h"

#include <inttypes.h>
#include <string.h>

static bool is_same(const rt_cache_section *a, const rt_cache_section *b)
{
    return a->keep == b->keep && a->n == b->n && a->T == b->T && a->dtype == b->dtype && a->target == b->target &&
           a->exact == b->exact;
}

enum { WATCH_BLOCKS = 1024 }; /* between two words to whoever watches */

static uint64_t blocks_of(const rt_cache *c, uint32_t section) { return rt_cache_size_of(c, section).blocks; }

static int merge_section(rt_cache *into, const rt_cache *from, uint32_t section, const rt_watch *watch, rt_err *e)
{
    int rc;
    uint64_t done = 0, all = blocks_of(from, section);
    rt_cache_writer *w = NULL;
    RT_TRY(rt_cache_writer_new(&w, into, section, e));
    for (uint32_t k = 0; k < from->file_count; k++) {
        const rt_cache_file *f = &from->files[k];
        if (f->header->section != section) continue;
        for (uint64_t i = 0; i < f->header->blocks; i++) {
            if (done++ % WATCH_BLOCKS == 0) RT_TRY(rt_watch_step(watch, "joining caches", done - 1, all, e));
            RT_TRY(rt_cache_writer_copy(w, f, &f->entries[i], e));
        }
    }
    rc = rt_cache_writer_commit(w, e);
out:
    rt_cache_writer_free(w);
    return rc;
}

int rt_cache_merge(rt_cache *into, const rt_cache *from, const rt_watch *watch, rt_err *e)
{
    int rc = RT_OK;
    if (into == from || strcmp(into->path, from->path) == 0)
        return rt_fail(e, RT_INVALID, "%s cannot be joined with itself", into->path);
    bool same = into->section_count == from->section_count;
    for (uint32_t i = 0; same && i < into->section_count; i++) same = is_same(&into->sections[i], &from->sections[i]);
    if (!same)
        return rt_fail(e, RT_INVALID, "%s and %s store different things; only caches with equal sections can be joined",
                       into->path, from->path);
    for (uint32_t i = 0; i < into->section_count && rc == RT_OK; i++) rc = merge_section(into, from, i, watch, e);
    return rc;
}

/* ---- content ---- */

typedef struct total {
    uint64_t hi, lo, positions;
} total;

/* The hash of a position is that of its key, its place in the block, and the hash of its record. */
static void add_position(total *s, const uint8_t key[RT_CACHE_KEY_BYTES], unsigned place, const uint8_t *record,
                         uint32_t bytes)
{
    uint8_t text[2 * RT_CACHE_KEY_BYTES + 1];
    rt_hash128 h = rt_hash(record, bytes);
    memcpy(text, key, RT_CACHE_KEY_BYTES);
    text[RT_CACHE_KEY_BYTES] = (uint8_t)place;
    rt_cache_key_bytes(text + RT_CACHE_KEY_BYTES + 1, &h);
    h = rt_hash(text, sizeof text);
    s->lo += h.lo;
    s->hi += h.hi + (s->lo < h.lo);
    s->positions++;
}

static int add_entry(total *sum, const rt_cache *c, const rt_cache_file *f, const rt_cache_entry *x, rt_err *e)
{
    uint64_t fresh = x->have; /* what is read of a position is the first file's */
    for (const rt_cache_file *g = c->files; g < f && fresh; g++)
        if (g->header->section == f->header->section) fresh &= ~rt_cache_file_have(g, x->key);
    uint32_t at = 0, n;
    int rc = rt_cache_file_check(f, x, e);
    for (uint64_t left = x->have; rc == RT_OK && left; left &= left - 1, at += n) {
        const uint8_t *record = f->map.data + x->at + at;
        if (!rt_cache_record_get(&c->sections[f->header->section], record, x->bytes - at, NULL, 0, NULL, &n))
            return rt_fail(e, RT_FORMAT, "%s holds a record that cannot be read", f->path);
        if (fresh & left & -left) add_position(sum, x->key, (unsigned)__builtin_ctzll(left), record, n);
    }
    return rc;
}

int rt_cache_content(rt_cache *c, uint32_t section, const rt_watch *watch, rt_hash128 *out, uint64_t *positions,
                     rt_err *e)
{
    int rc = RT_OK;
    total s = { 0 };
    uint64_t done = 0, all = blocks_of(c, section);
    pthread_rwlock_rdlock(c->lock);
    for (uint32_t k = 0; k < c->file_count && rc == RT_OK; k++) {
        const rt_cache_file *f = &c->files[k];
        for (uint64_t i = 0; f->header->section == section && i < f->header->blocks && rc == RT_OK; i++) {
            if (done++ % WATCH_BLOCKS == 0) rc = rt_watch_step(watch, "reading the cache", done - 1, all, e);
            if (rc == RT_OK) rc = add_entry(&s, c, f, &f->entries[i], e);
        }
    }
    pthread_rwlock_unlock(c->lock);
    uint8_t text[24];
    rt_store_le(text, s.lo, 8);
    rt_store_le(text + 8, s.hi, 8);
    rt_store_le(text + 16, s.positions, 8);
    *out = rt_hash(text, sizeof text);
    if (positions) *positions = s.positions;
    return rc;
}
