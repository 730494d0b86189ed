/* cache_read.c - an open cache: its files found, blocks looked up in them and read. */
#include "teacher/cache/cache_internal.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    LIST_TRIES = 16,     /* files that a writer has joined, and removed, since their names were listed */
    SCRATCH_HERE = 1024, /* entries that are sorted without memory of their own */
};

/* ---- files ---- */

/* Only a name that a writer gives: "1.rtcache" and "part-007" are somebody's own. */
static bool number_in(const char *name, const char *before, int digits, const char *behind, uint32_t *number)
{
    char text[40];
    size_t n = strlen(before);
    if (strncmp(name, before, n) != 0 || name[n] < '0' || name[n] > '9') return false;
    unsigned long long x = strtoull(name + n, NULL, 10);
    *number = (uint32_t)x;
    snprintf(text, sizeof text, "%s%0*" PRIu32 "%s", before, digits, *number, behind);
    return x <= UINT32_MAX && strcmp(name, text) == 0;
}

bool rt_cache_part_of(const char *name, uint32_t *part) { return number_in(name, "part-", 1, "", part); }

static bool is_before(const rt_cache_file *a, const rt_cache_file *b)
{
    return a->part != b->part ? a->part < b->part : a->number < b->number;
}

int rt_cache_files_add(rt_cache *c, rt_cache_file *f, rt_err *e)
{
    if (!rt_grow((void **)&c->files, &c->file_cap, c->file_count + 1, sizeof *c->files))
        return rt_no_memory(e, "the files of a cache");
    uint32_t i = c->file_count++;
    for (; i > 0 && is_before(f, &c->files[i - 1]); i--) c->files[i] = c->files[i - 1];
    c->files[i] = *f;
    return RT_OK;
}

static bool is_known(const rt_cache *c, uint32_t part, uint32_t number)
{
    for (uint32_t i = 0; i < c->file_count; i++)
        if (c->files[i].part == part && c->files[i].number == number) return true;
    return false;
}

int rt_cache_part_load(rt_cache *c, uint32_t part, uint32_t *last, rt_err *e)
{
    int rc = RT_OK;
    rt_arena a = { 0 };
    char **names = NULL, *folder = rt_arena_printf(&a, "%s/part-%" PRIu32, c->path, part);
    uint32_t count = 0, number;
    *last = 0;
    if (!folder) RT_TRY(rt_no_memory(e, "the files of a cache"));
    RT_TRY(rt_dir_list(&names, &count, &a, folder, e));
    for (uint32_t i = 0; i < count; i++) {
        rt_cache_file f;
        if (!number_in(names[i], "", 8, ".rtcache", &number)) continue;
        if (number > *last) *last = number;
        if (is_known(c, part, number)) continue;
        RT_TRY(rt_cache_file_open(&f, c, part, number, e));
        if ((rc = rt_cache_files_add(c, &f, e)) < 0) {
            rt_cache_file_close(&f);
            goto out;
        }
    }
out:
    rt_arena_free(&a);
    return rc;
}

static void close_files(rt_cache *c)
{
    for (uint32_t i = 0; i < c->file_count; i++) rt_cache_file_close(&c->files[i]);
    c->file_count = 0;
}

static int load_files(rt_cache *c, rt_err *e)
{
    int rc;
    rt_arena a = { 0 };
    char **names;
    uint32_t count, part, last;
    RT_TRY(rt_dir_list(&names, &count, &a, c->path, e));
    for (uint32_t i = 0; i < count; i++) {
        if (!rt_cache_part_of(names[i], &part)) continue;
        RT_TRY(rt_cache_part_load(c, part, &last, e));
    }
out:
    rt_arena_free(&a);
    return rc;
}

/* ---- opening ---- */

/* Threads that read all the time, as a run's do, must not keep a commit waiting, which by default they do. Nobody takes
 * the lock twice. */
static bool init_lock(pthread_rwlock_t *lock)
{
    pthread_rwlockattr_t kind;
    if (pthread_rwlockattr_init(&kind) != 0) return false;
    pthread_rwlockattr_setkind_np(&kind, PTHREAD_RWLOCK_PREFER_WRITER_NONRECURSIVE_NP);
    bool made = pthread_rwlock_init(lock, &kind) == 0;
    pthread_rwlockattr_destroy(&kind);
    return made;
}

int rt_cache_open(rt_cache **out, const char *path, rt_err *e)
{
    int rc;
    rt_cache *c = rt_alloc_zero(sizeof *c, _Alignof(rt_cache));
    *out = NULL;
    if (!c) RT_TRY(rt_no_memory(e, "a cache"));
    c->path = rt_arena_strdup(&c->arena, path);
    pthread_rwlock_t *lock = rt_arena_alloc(&c->arena, sizeof *lock);
    if (!c->path || !lock || !init_lock(lock)) RT_TRY(rt_no_memory(e, "a cache"));
    c->lock = lock;
    rt_json_init();
    RT_TRY(rt_cache_about_read(c, e));
    rc = RT_NOT_FOUND;
    for (int i = 0; i < LIST_TRIES && rc == RT_NOT_FOUND; i++) {
        close_files(c);
        rc = load_files(c, e);
    }
    RT_TRY(rc);
    *out = c;
    c = NULL;
out:
    rt_cache_close(c);
    return rc;
}

void rt_cache_close(rt_cache *c)
{
    if (!c) return;
    close_files(c);
    rt_free(c->files);
    if (c->lock) pthread_rwlock_destroy(c->lock);
    json_decref(c->about);
    rt_arena_free(&c->arena);
    rt_free(c);
}

const json_t *rt_cache_about(const rt_cache *c) { return c->about; }

uint32_t rt_cache_sections(const rt_cache *c, const rt_cache_section **out)
{
    *out = c->sections;
    return c->section_count;
}

rt_cache_size rt_cache_size_of(const rt_cache *c, uint32_t section)
{
    rt_cache_size size = { 0 };
    pthread_rwlock_rdlock(c->lock);
    for (uint32_t i = 0; i < c->file_count; i++) {
        const rt_cache_header *h = c->files[i].header;
        if (h->section != section) continue;
        size.blocks += h->blocks;
        size.positions += h->positions;
        size.bytes += h->bytes;
    }
    pthread_rwlock_unlock(c->lock);
    return size;
}

/* ---- blocks ---- */

uint64_t rt_cache_have(const rt_cache *c, uint32_t section, const rt_hash128 *key)
{
    uint8_t bytes[RT_CACHE_KEY_BYTES];
    uint64_t have = 0;
    rt_cache_key_bytes(bytes, key);
    pthread_rwlock_rdlock(c->lock);
    for (uint32_t i = 0; i < c->file_count; i++)
        if (c->files[i].header->section == section) have |= rt_cache_file_have(&c->files[i], bytes);
    pthread_rwlock_unlock(c->lock);
    return have;
}

/* The positions `take` of an entry, into their places among those that are wanted. */
static int read_entry(const rt_cache_section *s, const rt_cache_file *f, const rt_cache_entry *x, uint64_t take,
                      rt_cache_block *b, uint64_t *scratch, rt_err *e)
{
    int rc = rt_cache_file_check(f, x, e);
    uint32_t at = 0, n;
    for (uint64_t left = x->have; rc == RT_OK && left && take; left &= left - 1) {
        uint64_t bit = left & -left;
        rt_cache_block *into = take & bit ? b : NULL;
        uint32_t j = (uint32_t)__builtin_popcountll(b->have & (bit - 1));
        if (!rt_cache_record_get(s, f->map.data + x->at + at, x->bytes - at, into, j, scratch, &n))
            return rt_fail(e, RT_FORMAT, "%s holds a record that cannot be read; remove it, and fill the cache again",
                           f->path);
        at += n;
        take &= ~bit;
    }
    return rc;
}

static int read_block(const rt_cache *c, uint32_t section, const uint8_t key[RT_CACHE_KEY_BYTES], uint64_t wanted,
                      rt_cache_block *b, uint64_t *scratch, rt_err *e)
{
    int rc = RT_OK;
    for (uint32_t i = 0; i < c->file_count && wanted; i++) {
        const rt_cache_file *f = &c->files[i];
        if (f->header->section != section) continue;
        const rt_cache_entry *end = f->entries + f->header->blocks;
        for (const rt_cache_entry *x = rt_cache_file_find(f, key);
             x && x < end && wanted && memcmp(x->key, key, sizeof x->key) == 0; x++) {
            if (!(x->have & wanted)) continue;
            rc = read_entry(&c->sections[section], f, x, x->have & wanted, b, scratch, e);
            if (rc < 0) return rc;
            wanted &= ~x->have;
        }
    }
    return wanted ? rt_fail(e, RT_INVALID, "%s: the cache does not have all of the positions asked for", c->path) : rc;
}

int rt_cache_get(const rt_cache *c, uint32_t section, const rt_hash128 *key, uint64_t wanted, rt_cache_block *b,
                 rt_err *e)
{
    uint8_t bytes[RT_CACHE_KEY_BYTES];
    uint64_t here[SCRATCH_HERE], *scratch = here, *more = NULL;
    uint32_t need = rt_cache_scratch_count(&c->sections[section]);
    if (need > SCRATCH_HERE) {
        scratch = more = rt_alloc(need * sizeof *more, _Alignof(uint64_t) * 2);
        if (!more) return rt_no_memory(e, "a block of a cache");
    }
    rt_cache_key_bytes(bytes, key);
    b->key = *key;
    b->have = wanted;
    pthread_rwlock_rdlock(c->lock);
    int rc = read_block(c, section, bytes, wanted, b, scratch, e);
    pthread_rwlock_unlock(c->lock);
    rt_free(more);
    return rc;
}
