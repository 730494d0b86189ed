/* json.h - JSON files, with jansson: where its memory comes from, reading a file, and records that carry a checksum.
 *
 * jansson has one allocator for the whole process, so it must be set before the first value is made: the command line
 * does it when it starts, and rooms that use jansson do it again, which costs nothing. A checked record is an object
 * whose last member is the hash of all that stands before it, so that an alteration is found when it is read. It is no
 * signature: whoever writes the record anew can compute the hash anew. */
#ifndef RT_BASE_JSON_H
#define RT_BASE_JSON_H

#include "base/err.h"
#include "base/hash.h"

#include <jansson.h>
#include <stdbool.h>

/* Routes jansson's memory through rt_alloc, once. */
void rt_json_init(void);
/* jansson tells only that something failed. True when, on this thread, memory was refused since the last call. */
bool rt_json_out_of_memory(void);

/* Any JSON file. *out is the caller's. RT_NOT_FOUND; RT_FORMAT when it is not JSON. */
int rt_json_read(json_t **out, const char *path, rt_err *e);

/* object: not empty, and without the key "hash". checksum: what was written there; may be null. */
int rt_checked_json_write(const char *path, const json_t *object, rt_hash128 *checksum, rt_err *e);
/* *out is the caller's. RT_NOT_FOUND; RT_FORMAT when the hash is another or it is no object. */
int rt_checked_json_read(json_t **out, const char *path, rt_err *e);

json_t *rt_hash_to_json(rt_hash128 h); /* null when out of memory */
bool rt_hash_from_json(const json_t *j, rt_hash128 *h);

#endif
