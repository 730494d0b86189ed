/* data_shard.h - files of token ids: our own, which know their tokenizer, records and targets, and those of others.
 *
 * Owns: the layout (docs/data.md has it byte by byte), writing shards so that they appear whole or not at all, and
 * reading records out of mapped ones. Which record comes when is data_rows.h. */
#ifndef RT_DATA_DATA_SHARD_H
#define RT_DATA_DATA_SHARD_H

#include "base/hash.h"
#include "text/data/dataset.h"

/* ---- writing (data_shard_write.c) ---- */

typedef struct rt_shard_identity {
    rt_hash128 tokenizer; /* rt_tokenizer_hash */
    uint32_t vocab;       /* ids are below this */
} rt_shard_identity;

typedef struct rt_shard_writer rt_shard_writer;
int rt_shard_writer_new(rt_shard_writer **out, const char *path, const rt_shard_identity *id, rt_err *e);
/* A record, or a part of one: parts of a text follow each other. source: for whoever reads the index. */
int rt_shard_writer_add(rt_shard_writer *w, const rt_encoded *r, uint32_t source, unsigned parts, rt_err *e);
uint64_t rt_shard_writer_tokens(const rt_shard_writer *w);
/* Nothing is added for now: gives back what only writing needs. */
int rt_shard_writer_rest(rt_shard_writer *w, rt_err *e);
/* Writes what is left, with text (JSON, for people and for the record) at the end, and puts the file in its place. */
int rt_shard_writer_commit(rt_shard_writer *w, const char *text, rt_err *e);
void rt_shard_writer_new_only(rt_shard_writer *w); /* as rt_writer_new_only (file.h) */
void rt_shard_writer_free(rt_shard_writer *w);     /* accepts null; what was not committed leaves nothing */

/* The same over as many shards as it takes. path ending in .rtok: one file. Otherwise a directory of that name, which
 * must not be there or be empty, with shard-00000.rtok and so on: a new one begins when a shard holds max_tokens
 * (0: 2^28). All appear together or not at all. (data_shard_set.c) */
typedef struct rt_shard_set rt_shard_set;
int rt_shard_set_new(rt_shard_set **out, const char *path, const rt_shard_identity *id, uint64_t max_tokens, rt_err *e);
void rt_shard_set_new_only(rt_shard_set *s); /* the same of one file; a folder replaces none that holds something */
int rt_shard_set_add(rt_shard_set *s, const rt_encoded *r, uint32_t source, unsigned parts, rt_err *e);
int rt_shard_set_commit(rt_shard_set *s, const char *text, uint32_t *shards, rt_err *e);
void rt_shard_set_free(rt_shard_set *s); /* accepts null; what was not committed leaves nothing */

/* ---- reading (data_shard.c) ---- */

typedef struct rt_shard_expect {
    const rt_hash128 *tokenizer; /* null: any. Files of others name none. */
    uint32_t vocab;              /* 0: as the file says; needed for files of others */
    uint32_t block;              /* files of others know no records: they are cut into so many tokens; 0: 2048 */
    const char *remedy;          /* what to do about a damaged one, outliving the shard; null: tokenize it again */
} rt_shard_expect;

typedef struct rt_shard_info {
    const char *path;
    bool own;             /* ours; else ids of others */
    uint32_t id_bytes;    /* 2 or 4 */
    uint32_t vocab;       /* 0: not known */
    rt_hash128 tokenizer; /* own */
    rt_hash128 content;   /* own: of everything behind the header; else of a sample and the size */
    rt_hash128 hash;      /* after rt_shard_check: own: content; else of the whole file */
    uint64_t records, tokens, trained;
    rt_span text; /* own: JSON about where it came from */
} rt_shard_info;

typedef struct rt_shard rt_shard;
/* RT_FORMAT for what is not a shard or is damaged, RT_INVALID for another tokenizer. Reads the index, not the ids. */
int rt_shard_open(rt_shard **out, const char *path, const rt_shard_expect *x, rt_err *e);
void rt_shard_close(rt_shard *s); /* accepts null */
const rt_shard_info *rt_shard_about(const rt_shard *s);
/* Reads every byte once, as fast as memory gives it, before any counts: ours must be what their header says; of all of
 * them rt_shard_about then has the hash. */
int rt_shard_check(rt_shard *s, rt_err *e);
/* That, and that every id is in the vocabulary. */
int rt_shard_verify(rt_shard *s, rt_err *e);

typedef struct rt_shard_record {
    rt_record_kind kind;
    const void *ids; /* (count) u32 or u16 */
    bool wide;       /* u32 */
    uint32_t count, trained;
    int64_t next;           /* the token behind the record, which its last one predicts; -1: none */
    const uint32_t *target; /* bits; null: all */
    const uint32_t *stop;   /* bits; null: none */
    uint16_t source;
} rt_shard_record;
/* i below the number of records. */
void rt_shard_get(const rt_shard *s, uint64_t i, rt_shard_record *out);
/* Of the ids of a record: equal for equal records, wherever they are. */
uint64_t rt_shard_record_hash(const rt_shard *s, uint64_t i);

static inline uint32_t rt_shard_id(const rt_shard_record *r, uint32_t i)
{
    return r->wide ? ((const uint32_t *)r->ids)[i] : ((const uint16_t *)r->ids)[i];
}

/* The least length that at least `share` of all records do not exceed; for defaults of the row length. */
int rt_shards_length(rt_shard *const *shards, uint32_t count, double share, uint32_t *out, rt_err *e);

#endif
