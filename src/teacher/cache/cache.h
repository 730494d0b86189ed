/* cache.h - what a teacher says, on disk: found by the tokens that it had read, not by their order in some run.
 *
 * A cache is a folder: cache.json (what it is of, and how it was made), folders part-N with files of blocks, one for
 * each process that writes at the same time, and beside them what a student needs of the teacher: its tokenizer, and
 * for hidden states its head. docs/teacher-cache.md is the format, for others to read.
 *
 * A block is up to RT_CACHE_BLOCK neighbouring positions of one document, of which those are kept that were wanted. Its
 * key is a hash of every token of the document up to the block's last position; so a position is found whatever rows,
 * batches, seeds or epochs it comes in, and equal beginnings of documents are kept once.
 *
 * Owns: keys, blocks, their codes and checksums, files of them, looking them up, merging. It knows no model, no device
 * and no settings; cache.json is a JSON object to it, of which it reads the sections. */
#ifndef RT_TEACHER_CACHE_CACHE_H
#define RT_TEACHER_CACHE_CACHE_H

#include "base/hash.h"
#include "base/json.h"
#include "base/mem.h"
#include "base/watch.h"
#include "num/dtype.h"

/* ---- keys (cache_key.c) ---- */

enum { RT_CACHE_BLOCK = 64 };

/* The positions [first, first + count) of a row: of one document, beginning at a multiple of RT_CACHE_BLOCK in it. */
typedef struct rt_cache_place {
    rt_hash128 key;
    uint32_t first, count; /* in the row */
    uint64_t wanted;       /* bit i: position first + i has a target; never 0 */
} rt_cache_place;
/* Those of a row of T positions that have a target: ids, start (first position of each position's document), target
 * (T). Appends to places, which has room for RT_CACHE_PLACES(T); returns how many. The key of a block is over its
 * document's ids from the first to the block's last, chained block by block. */
#define RT_CACHE_PLACES(T) (T)
uint32_t rt_cache_places(const int32_t *ids, const int32_t *start, const int32_t *target, uint32_t T,
                         rt_cache_place *places);

/* ---- what is kept (cache.c) ---- */

typedef enum rt_keep { RT_KEEP_TOPK, RT_KEEP_DRAWS, RT_KEEP_HIDDEN } rt_keep;
enum { RT_KEEP_KINDS = 3 };
const char *rt_keep_name(rt_keep k); /* "topk" */

/* One way of keeping a position. A cache has one or more. */
typedef struct rt_cache_section {
    rt_keep keep;
    uint32_t n;     /* k, draws, or columns of the hidden state */
    float T;        /* temperature; of hidden states 1 */
    rt_dtype dtype; /* of hidden states: f32, bf16, f16 */
    bool target;    /* TOPK: besides, the log-probability of each position's target, exactly as f32 */
    bool exact;     /* TOPK: log-probabilities and rest as f32; else in 10 and 16 bits (cache_topk.c says the error) */
} rt_cache_section;
enum { RT_CACHE_SECTIONS = 4 };

/* Values of the positions of one block, dense: entry j is of the j-th set bit of `have`. */
typedef struct rt_cache_block {
    rt_hash128 key;
    uint64_t have;
    /* TOPK (count,n): ids descending by logp, ties by the lower id, unused entries -1 at the end; logp natural, over Vc
     * at T; rest: the mass left. What is read is in the order of the logp that is read, in which rounding makes ties.
     * DRAWS (count,n): distinct ids, unused entries -1; logp = log(times drawn / n); entropy: of the teacher at T */
    int32_t *id;
    float *logp;
    float *rest;        /* (count) TOPK */
    float *entropy;     /* (count) DRAWS */
    int32_t *target;    /* (count) TOPK with targets: the id, */
    float *target_logp; /* (count) and its log-probability */
    void *hidden;       /* HIDDEN (count,n) dtype */
} rt_cache_block;

/* ---- reading (cache_read.c) ---- */

typedef struct rt_cache rt_cache;
/* Whether path is a folder with a cache.json of ours. */
bool rt_cache_is(const char *path);
/* RT_FORMAT for what is damaged; checks the indexes, and every block's checksum when it is read. */
int rt_cache_open(rt_cache **out, const char *path, rt_err *e);
void rt_cache_close(rt_cache *c);                /* accepts null */
const json_t *rt_cache_about(const rt_cache *c); /* cache.json */
uint32_t rt_cache_sections(const rt_cache *c, const rt_cache_section **out);
typedef struct rt_cache_size {
    uint64_t blocks, positions, bytes; /* bytes: of files of blocks, index included */
} rt_cache_size;
rt_cache_size rt_cache_size_of(const rt_cache *c, uint32_t section);
/* Of all blocks of a section, whatever files they lie in and in whatever order: equal for equal contents. positions:
 * those in it, each once, however many files have it; may be null. */
int rt_cache_content(rt_cache *c, uint32_t section, const rt_watch *watch, rt_hash128 *out, uint64_t *positions,
                     rt_err *e);

/* Which of these positions of the block are there. Safe from several threads, like the next. */
uint64_t rt_cache_have(const rt_cache *c, uint32_t section, const rt_hash128 *key);
/* The positions `wanted` of a block, all of which are there, into b's arrays, dense by the bits of wanted; b->have
 * becomes wanted. Arrays that the section does not have are left alone. RT_FORMAT names a damaged file. */
int rt_cache_get(const rt_cache *c, uint32_t section, const rt_hash128 *key, uint64_t wanted, rt_cache_block *b,
                 rt_err *e);

/* ---- writing (cache_write.c) ---- */

/* RT_INVALID for a path where no cache may be begun: what is there is neither an empty folder nor what a killed process
 * left of one that was just begun. */
int rt_cache_check_empty(const char *path, rt_err *e);
/* A new cache in a folder that is not there or empty; about becomes cache.json, with the sections in it. Takes no
 * reference. */
int rt_cache_create(const char *path, const json_t *about, const rt_cache_section *sections, uint32_t count, rt_err *e);

/* One process that adds to a section; several may at once, each with files of its own. */
typedef struct rt_cache_writer rt_cache_writer;
int rt_cache_writer_new(rt_cache_writer **out, rt_cache *c, uint32_t section, rt_err *e);
/* Safe from one thread. What is there already is not written again: positions are joined with those that are. */
int rt_cache_writer_add(rt_cache_writer *w, const rt_cache_block *b, rt_err *e);
/* Which of the positions of a block are there, those included that were added and not committed. */
uint64_t rt_cache_writer_have(const rt_cache_writer *w, const rt_hash128 *key);
/* Everything so far is on disk under its name when this returns, so a kill loses nothing of it; and is found in the
 * cache that the writer was made with. */
int rt_cache_writer_commit(rt_cache_writer *w, rt_err *e);
void rt_cache_writer_free(rt_cache_writer *w); /* accepts null; what was not committed leaves nothing */

/* ---- joining (cache_merge.c) ---- */

/* Every block of `from` into a cache with the same sections; who may be joined with whom is the caller's question. */
int rt_cache_merge(rt_cache *into, const rt_cache *from, const rt_watch *watch, rt_err *e);

#endif
