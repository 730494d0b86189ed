/* cache_internal.h - what the files of the room share: the bytes of a file of blocks, the codes of positions, a file
 * being written, and an open cache. docs/teacher-cache.md is the format in words. */
#ifndef RT_TEACHER_CACHE_CACHE_INTERNAL_H
#define RT_TEACHER_CACHE_CACHE_INTERNAL_H

#include "base/file.h"
#include "teacher/cache/cache.h"

#include <pthread.h>

#if __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "files of blocks are read in place, on machines that store the lowest byte first"
#endif

/* ---- bytes of a file of blocks ---- */

#define RT_CACHE_MAGIC "RTBLOCKS"
enum {
    RT_CACHE_VERSION = 1,
    RT_CACHE_KEY_BYTES = 16,
    RT_CACHE_MOST_N = 1 << 20, /* of k, draws and columns: a block stays below 1 GiB */
};
/* The 16 bytes of a hash in the order of its digits, so that memcmp orders keys. */
void rt_cache_key_bytes(uint8_t bytes[RT_CACHE_KEY_BYTES], const rt_hash128 *key);

typedef struct rt_cache_header {
    char magic[8];
    uint32_t version, header_bytes;
    uint8_t cache[RT_CACHE_KEY_BYTES]; /* the hash in cache.json: a file is of one cache */
    uint32_t section, zero0;
    uint64_t blocks, positions;
    uint64_t index_at, bytes;           /* blocks lie from behind the header to the index; the file ends with it */
    uint8_t index[RT_CACHE_KEY_BYTES];  /* hash of the index */
    uint8_t header[RT_CACHE_KEY_BYTES]; /* hash of the header with this field zero */
    uint8_t zero1[24];
} rt_cache_header;
_Static_assert(sizeof(rt_cache_header) == 128, "the header is 128 bytes long");

/* Sorted by key; entries of one key have no position in common. */
typedef struct rt_cache_entry {
    uint8_t key[RT_CACHE_KEY_BYTES];
    uint64_t have;  /* never 0 */
    uint64_t at;    /* in the file */
    uint32_t bytes; /* of its records, one for each position in `have`, in order */
    uint32_t check; /* the low 32 bits of their XXH3-128 */
} rt_cache_entry;
_Static_assert(sizeof(rt_cache_entry) == 40, "an index entry is 40 bytes long");

uint32_t rt_cache_check(const uint8_t *block, uint32_t bytes);

/* ---- codes: one record for one position (cache_code.c, cache_topk.c, cache_draws.c) ---- */

/* The most bytes of a record, and the numbers that coding one needs for itself. */
uint64_t rt_cache_record_most(const rt_cache_section *s);
static inline uint32_t rt_cache_scratch_count(const rt_cache_section *s)
{
    return s->keep == RT_KEEP_HIDDEN ? 1 : 2 * s->n;
}
/* Entry j of b. RT_INVALID or RT_NONFINITE for what cannot be a teacher's. */
int rt_cache_record_put(const rt_cache_section *s, const rt_cache_block *b, uint32_t j, uint64_t *scratch, uint8_t *out,
                        uint32_t *bytes, rt_err *e);
/* The record at the front of `left` bytes, into entry j of b; b null: only its length. False when it is none. */
bool rt_cache_record_get(const rt_cache_section *s, const uint8_t *record, uint64_t left, rt_cache_block *b, uint32_t j,
                         uint64_t *scratch, uint32_t *bytes);
/* Each kind. */
int rt_cache_topk_put(const rt_cache_section *s, const rt_cache_block *b, uint32_t j, uint64_t *scratch, uint8_t *out,
                      uint32_t *bytes, rt_err *e);
bool rt_cache_topk_get(const rt_cache_section *s, const uint8_t *record, uint64_t left, rt_cache_block *b, uint32_t j,
                       uint64_t *scratch, uint32_t *bytes);
int rt_cache_draws_put(const rt_cache_section *s, const rt_cache_block *b, uint32_t j, uint64_t *scratch, uint8_t *out,
                       uint32_t *bytes, rt_err *e);
bool rt_cache_draws_get(const rt_cache_section *s, const uint8_t *record, uint64_t left, rt_cache_block *b, uint32_t j,
                        uint64_t *scratch, uint32_t *bytes);

/* ---- one file of blocks, mapped (cache_file.c) ---- */

typedef struct rt_cache_file {
    rt_map map;
    char *path;
    const rt_cache_header *header;
    const rt_cache_entry *entries; /* (header->blocks) */
    uint32_t part, number;         /* PART-part/NUMBER.rtcache */
} rt_cache_file;
#define RT_CACHE_FILE_NAME "%s/part-%" PRIu32 "/%08" PRIu32 ".rtcache"
/* RT_FORMAT when it is not sound, or of another cache. Reads header and index, no block. */
int rt_cache_file_open(rt_cache_file *f, const rt_cache *c, uint32_t part, uint32_t number, rt_err *e);
void rt_cache_file_close(rt_cache_file *f); /* accepts zeroes */
/* The first entry of a key; those that follow may have it too. Null: none. */
const rt_cache_entry *rt_cache_file_find(const rt_cache_file *f, const uint8_t key[RT_CACHE_KEY_BYTES]);
uint64_t rt_cache_file_have(const rt_cache_file *f, const uint8_t key[RT_CACHE_KEY_BYTES]);
/* RT_FORMAT when the bytes of a block are not those that were written. */
int rt_cache_file_check(const rt_cache_file *f, const rt_cache_entry *x, rt_err *e);
/* The records of `wanted`, a part of have, one after another into out, which has room for all of the block. */
bool rt_cache_records_cut(const rt_cache_section *s, const uint8_t *block, uint32_t bytes, uint64_t have,
                          uint64_t wanted, uint8_t *out, uint32_t *out_bytes);

/* ---- an open cache ---- */

struct rt_cache {
    char *path;
    json_t *about;
    uint8_t hash[RT_CACHE_KEY_BYTES]; /* that of cache.json */
    rt_cache_section sections[RT_CACHE_SECTIONS];
    uint32_t section_count;
    pthread_rwlock_t *lock; /* of files: a writer of this process adds to them */
    rt_cache_file *files;   /* (file_count) by part and number */
    uint32_t file_count, file_cap;
    rt_arena arena;
};
/* cache.json of c->path, checked. */
int rt_cache_about_read(rt_cache *c, rt_err *e);
/* The sections of cache.json, checked. */
int rt_cache_sections_from_json(rt_cache_section *out, uint32_t *count, const json_t *about, const char *path,
                                rt_err *e);
json_t *rt_cache_sections_to_json(const rt_cache_section *s, uint32_t count);
/* Takes the file, in its place among the others. Of the caller: the lock for writing. */
int rt_cache_files_add(rt_cache *c, rt_cache_file *f, rt_err *e);
/* Files of a part that are not known yet; last: the highest number there, 0 without files. */
int rt_cache_part_load(rt_cache *c, uint32_t part, uint32_t *last, rt_err *e);
/* "part-3" -> 3, "00000007.rtcache" -> 7. */
bool rt_cache_part_of(const char *name, uint32_t *part);

/* ---- a file of blocks being written (cache_pack.c) ---- */

typedef struct rt_cache_pack rt_cache_pack;
int rt_cache_pack_new(rt_cache_pack **out, const rt_cache *c, uint32_t section, uint32_t part, uint32_t number,
                      rt_err *e);
void rt_cache_pack_free(rt_cache_pack *p); /* accepts null; removes what was not committed */
uint64_t rt_cache_pack_have(const rt_cache_pack *p, const uint8_t key[RT_CACHE_KEY_BYTES]);
/* Records of positions that it does not have yet. */
int rt_cache_pack_put(rt_cache_pack *p, const uint8_t key[RT_CACHE_KEY_BYTES], uint64_t have, const uint8_t *records,
                      uint32_t bytes, rt_err *e);
/* The file is on disk under its name. */
int rt_cache_pack_commit(rt_cache_pack *p, rt_err *e);

/* ---- writing what is coded already (cache_write.c) ---- */

/* A block of a file of another cache with the same section, or the part of it that is missing. */
int rt_cache_writer_copy(rt_cache_writer *w, const rt_cache_file *from, const rt_cache_entry *x, rt_err *e);

#endif
