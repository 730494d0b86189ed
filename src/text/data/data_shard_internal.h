/* data_shard_internal.h - the bytes of a token shard, between its writer and its reader. Little endian. */
#ifndef RT_DATA_DATA_SHARD_INTERNAL_H
#define RT_DATA_DATA_SHARD_INTERNAL_H

#include "text/data/data_shard.h"

#if __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "shards are read in place, on machines that store the lowest byte first"
#endif

#define RT_SHARD_MAGIC "RTTOKENS"
enum { RT_SHARD_VERSION = 1 };

typedef struct rt_shard_header {
    char magic[8];
    uint32_t version, header_bytes;
    rt_hash128 tokenizer;
    uint32_t vocab, zero0;
    uint64_t records, tokens, trained;
    uint64_t index_at, text_at, text_bytes; /* the records begin behind the header; the file ends with the text */
    rt_hash128 content;                     /* of all bytes behind the header */
    rt_hash128 header;                      /* of the header with this field zero */
    uint8_t zero1[136];
} rt_shard_header;
_Static_assert(sizeof(rt_shard_header) == 256, "the header is 256 bytes long");

enum { RT_SHARD_ALL_TARGETS = 1, RT_SHARD_STOPS = 2 };

typedef struct rt_shard_entry {
    uint64_t at;             /* of the ids, in the file */
    uint32_t count, trained; /* tokens; targets but for the first token */
    uint64_t hash;           /* of the ids */
    uint16_t source;
    uint8_t kind, flags;
    uint32_t zero;
} rt_shard_entry;
_Static_assert(sizeof(rt_shard_entry) == 32, "an index entry is 32 bytes long");

/* Words behind the ids of a record. */
static inline uint64_t rt_shard_bit_words(const rt_shard_entry *x)
{
    uint64_t words = ((uint64_t)x->count + 31) / 32;
    return words * (!(x->flags & RT_SHARD_ALL_TARGETS) + !!(x->flags & RT_SHARD_STOPS));
}

rt_hash128 rt_shard_header_hash(const rt_shard_header *h);

#endif
