/* hash.h - XXH3-128 as identity of content: streaming and one-shot, and its text form. Not cryptographic. */
#ifndef RT_BASE_HASH_H
#define RT_BASE_HASH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct rt_hash128 {
    uint64_t hi, lo;
} rt_hash128;

typedef struct rt_hasher rt_hasher; /* streaming state; allocated */
rt_hasher *rt_hasher_new(void);     /* null when out of memory */
void rt_hasher_free(rt_hasher *h);
void rt_hasher_add(rt_hasher *h, const void *data, size_t bytes);
rt_hash128 rt_hasher_digest(const rt_hasher *h);

rt_hash128 rt_hash(const void *data, size_t bytes);
static inline bool rt_hash_equal(rt_hash128 a, rt_hash128 b) { return a.hi == b.hi && a.lo == b.lo; }
/* 32 hex digits and a terminator into buf; returns buf. */
char *rt_hash_text(char buf[33], rt_hash128 h);

#endif
