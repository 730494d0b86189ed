/* cache_write.c - one process that adds blocks to a cache.
 *
 * Each writer has a part of the folder for itself, by its lock: the first part that nobody holds, with the files that
 * are there. A killed writer's unfinished file has a temporary name and goes when the next takes the part. So that many
 * commits do not make many files, eight of about the same size become one, in which every entry keeps its records.
 * Where the lock was taken away, or the folder, nothing is written and no name goes (lock.h). */
#include "base/lock.h"
#include "teacher/cache/cache_internal.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>
#include <unistd.h>

enum {
    MOST_PARTS = 1 << 16,
    LOCK_TRIES = 100, /* an empty part that its writer removes at this moment */
    JOINED = 8,       /* files of a level */
    LEVEL_BITS = 3,   /* a level: sizes up to eight times the lowest */
};
#define JOINED_BYTES (UINT64_C(1) << 30) /* what is as large is left alone */

struct rt_cache_writer {
    rt_cache *c;
    uint32_t section, part;
    uint32_t next; /* number of the next file */
    rt_lock *lock;
    char *folder;
    rt_cache_pack *pack; /* null: nothing since the last commit */
    uint8_t *records;    /* a block, coded; (64 * record_most) as far as it was needed */
    uint64_t records_cap;
    uint64_t *scratch;
    rt_arena arena;
};

/* ---- a part of the folder ---- */

/* 1: somebody else has it. */
static int try_part(rt_cache_writer *w, rt_err *e)
{
    int rc = RT_NOT_FOUND;
    w->folder = rt_arena_printf(&w->arena, "%s/part-%" PRIu32, w->c->path, w->part);
    if (!w->folder) return rt_no_memory(e, "a writer");
    for (int i = 0; i < LOCK_TRIES && rc == RT_NOT_FOUND; i++) {
        rc = rt_dir_make(w->folder, e);
        if (rc == RT_OK) rc = rt_lock_take(&w->lock, w->folder, "a part of the cache", e);
    }
    return rc == RT_INVALID ? 1 : rc;
}

static int take_part(rt_cache_writer *w, rt_err *e)
{
    int rc = 1;
    for (w->part = 0; w->part < MOST_PARTS && rc == 1; w->part += rc == 1) rc = try_part(w, e);
    if (rc == 1) return rt_fail(e, RT_INVALID, "%s already has %d writers, the maximum", w->c->path, MOST_PARTS);
    if (rc < 0) return rc;
    rt_dir_clean(w->folder);
    pthread_rwlock_wrlock(w->c->lock);
    rc = rt_cache_part_load(w->c, w->part, &w->next, e);
    pthread_rwlock_unlock(w->c->lock);
    w->next++;
    return rc;
}

int rt_cache_writer_new(rt_cache_writer **out, rt_cache *c, uint32_t section, rt_err *e)
{
    int rc;
    rt_cache_writer *w = rt_alloc_zero(sizeof *w, _Alignof(rt_cache_writer));
    *out = NULL;
    if (!w) RT_TRY(rt_no_memory(e, "a writer"));
    w->c = c;
    w->section = section;
    if (section >= c->section_count) RT_TRY(rt_fail(e, RT_INVALID, "%s has no section %u", c->path, section));
    w->scratch = rt_alloc(rt_cache_scratch_count(&c->sections[section]) * sizeof *w->scratch, 16);
    if (!w->scratch) RT_TRY(rt_no_memory(e, "a writer"));
    RT_TRY(take_part(w, e));
    *out = w;
    w = NULL;
out:
    rt_cache_writer_free(w);
    return rc;
}

static bool part_is_empty(const rt_cache_writer *w)
{
    for (uint32_t i = 0; i < w->c->file_count; i++)
        if (w->c->files[i].part == w->part) return false;
    return true;
}

void rt_cache_writer_free(rt_cache_writer *w)
{
    if (!w) return;
    rt_cache_pack_free(w->pack);
    if (w->lock) {
        pthread_rwlock_rdlock(w->c->lock);
        bool empty = part_is_empty(w);
        pthread_rwlock_unlock(w->c->lock);
        rt_lock_free(w->lock, empty);
        if (empty) rt_dir_unmake(w->folder, 1);
    }
    rt_free(w->records);
    rt_free(w->scratch);
    rt_arena_free(&w->arena);
    rt_free(w);
}

/* ---- adding ---- */

static int make_room(rt_cache_writer *w, uint64_t bytes, rt_err *e)
{
    if (bytes <= w->records_cap) return RT_OK;
    rt_free(w->records);
    w->records = rt_alloc((size_t)bytes, 16);
    w->records_cap = w->records ? bytes : 0;
    return w->records ? RT_OK : rt_no_memory(e, "a block");
}

/* Of these positions, those that are nowhere yet. */
static uint64_t missing_of(const rt_cache_writer *w, const uint8_t key[RT_CACHE_KEY_BYTES], uint64_t have)
{
    pthread_rwlock_rdlock(w->c->lock);
    for (uint32_t i = 0; i < w->c->file_count && have; i++)
        if (w->c->files[i].header->section == w->section) have &= ~rt_cache_file_have(&w->c->files[i], key);
    pthread_rwlock_unlock(w->c->lock);
    return w->pack ? have & ~rt_cache_pack_have(w->pack, key) : have;
}

uint64_t rt_cache_writer_have(const rt_cache_writer *w, const rt_hash128 *key)
{
    uint8_t bytes[RT_CACHE_KEY_BYTES];
    rt_cache_key_bytes(bytes, key);
    return ~missing_of(w, bytes, UINT64_MAX);
}

static int still_ours(const rt_cache_writer *w, rt_err *e) { return rt_lock_held(w->lock, w->folder, e); }

static int put(rt_cache_writer *w, const uint8_t key[RT_CACHE_KEY_BYTES], uint64_t have, const uint8_t *records,
               uint32_t bytes, rt_err *e)
{
    int rc = w->pack ? RT_OK : still_ours(w, e);
    if (rc == RT_OK && !w->pack) rc = rt_cache_pack_new(&w->pack, w->c, w->section, w->part, w->next, e);
    return rc < 0 ? rc : rt_cache_pack_put(w->pack, key, have, records, bytes, e);
}

int rt_cache_writer_add(rt_cache_writer *w, const rt_cache_block *b, rt_err *e)
{
    int rc;
    uint8_t key[RT_CACHE_KEY_BYTES];
    const rt_cache_section *s = &w->c->sections[w->section];
    rt_cache_key_bytes(key, &b->key);
    uint64_t missing = missing_of(w, key, b->have);
    uint32_t j = 0, bytes = 0, n;
    if (!missing) return RT_OK;
    RT_TRY(make_room(w, (uint64_t)__builtin_popcountll(missing) * rt_cache_record_most(s), e));
    for (uint64_t left = b->have; left; left &= left - 1, j++) {
        if (!(missing & left & -left)) continue;
        RT_TRY(rt_cache_record_put(s, b, j, w->scratch, w->records + bytes, &n, e));
        bytes += n;
    }
    rc = put(w, key, missing, w->records, bytes, e);
out:
    return rc;
}

int rt_cache_writer_copy(rt_cache_writer *w, const rt_cache_file *from, const rt_cache_entry *x, rt_err *e)
{
    const uint8_t *block = from->map.data + x->at;
    uint64_t missing = missing_of(w, x->key, x->have);
    uint32_t bytes;
    int rc = missing ? rt_cache_file_check(from, x, e) : RT_OK;
    if (rc < 0 || !missing) return rc;
    if (missing == x->have) return put(w, x->key, missing, block, x->bytes, e);
    if ((rc = make_room(w, x->bytes, e)) < 0) return rc;
    if (!rt_cache_records_cut(&w->c->sections[w->section], block, x->bytes, x->have, missing, w->records, &bytes))
        return rt_fail(e, RT_FORMAT, "%s holds a record that cannot be read", from->path);
    return put(w, x->key, missing, w->records, bytes, e);
}

/* ---- committing, and joining files of a size ---- */

static unsigned level_of(const rt_cache_file *f)
{
    return (63 - (unsigned)__builtin_clzll(f->header->bytes)) / LEVEL_BITS;
}

/* The first files of the part that are of one level and enough to be joined. */
static bool find_level(const rt_cache_writer *w, rt_cache_file found[JOINED])
{
    uint32_t n = 0;
    pthread_rwlock_rdlock(w->c->lock);
    for (unsigned level = 0; level <= 63 / LEVEL_BITS && n < JOINED; level++) {
        n = 0;
        for (uint32_t i = 0; i < w->c->file_count && n < JOINED; i++) {
            const rt_cache_file *f = &w->c->files[i];
            if (f->part == w->part && f->header->section == w->section && f->header->bytes < JOINED_BYTES / JOINED &&
                level_of(f) == level)
                found[n++] = *f;
        }
    }
    pthread_rwlock_unlock(w->c->lock);
    return n == JOINED;
}

static int copy_entry(rt_cache_writer *w, rt_cache_pack *p, const rt_cache_file *f, const rt_cache_entry *x, rt_err *e)
{
    const uint8_t *block = f->map.data + x->at;
    uint64_t missing = x->have & ~rt_cache_pack_have(p, x->key);
    uint32_t bytes;
    int rc = rt_cache_file_check(f, x, e);
    if (rc < 0 || !missing) return rc;
    if (missing == x->have) return rt_cache_pack_put(p, x->key, missing, block, x->bytes, e);
    if ((rc = make_room(w, x->bytes, e)) < 0) return rc;
    if (!rt_cache_records_cut(&w->c->sections[w->section], block, x->bytes, x->have, missing, w->records, &bytes))
        return rt_fail(e, RT_FORMAT, "%s holds a record that cannot be read", f->path);
    return rt_cache_pack_put(p, x->key, missing, w->records, bytes, e);
}

/* The file of the pack takes the place of `gone` among those of the cache; they lose their names when it has its own.
 */
static int replace(rt_cache_writer *w, rt_cache_pack *p, const rt_cache_file *gone, uint32_t count, rt_err *e)
{
    rt_cache_file f;
    rt_cache *c = w->c;
    int rc = still_ours(w, e);
    if (rc == RT_OK) rc = rt_cache_pack_commit(p, e);
    if (rc == RT_OK) rc = rt_cache_file_open(&f, c, w->part, w->next, e);
    if (rc < 0) return rc;
    w->next++;
    pthread_rwlock_wrlock(c->lock);
    rc = rt_cache_files_add(c, &f, e);
    if (rc < 0) rt_cache_file_close(&f);
    for (uint32_t k = 0; rc == RT_OK && k < count; k++)
        for (uint32_t i = 0; i < c->file_count; i++) {
            if (c->files[i].part != gone[k].part || c->files[i].number != gone[k].number) continue;
            unlink(c->files[i].path); /* one that stays says what is said twice */
            rt_cache_file_close(&c->files[i]);
            c->file_count--;
            memmove(c->files + i, c->files + i + 1, (c->file_count - i) * sizeof *c->files);
            break;
        }
    pthread_rwlock_unlock(c->lock);
    return rc;
}

static int join(rt_cache_writer *w, const rt_cache_file files[JOINED], rt_err *e)
{
    int rc;
    rt_cache_pack *p = NULL;
    RT_TRY(still_ours(w, e));
    RT_TRY(rt_cache_pack_new(&p, w->c, w->section, w->part, w->next, e));
    for (uint32_t k = 0; k < JOINED; k++)
        for (uint64_t i = 0; i < files[k].header->blocks; i++)
            RT_TRY(copy_entry(w, p, &files[k], &files[k].entries[i], e));
    rc = replace(w, p, files, JOINED, e);
out:
    rt_cache_pack_free(p);
    return rc;
}

int rt_cache_writer_commit(rt_cache_writer *w, rt_err *e)
{
    rt_cache_file found[JOINED];
    if (!w->pack) return RT_OK;
    int rc = replace(w, w->pack, NULL, 0, e);
    rt_cache_pack_free(w->pack);
    w->pack = NULL;
    while (rc == RT_OK && find_level(w, found)) rc = join(w, found, e);
    return rc;
}
