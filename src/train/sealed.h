/* sealed.h - records of a run in JSON that end with the hash of all that stands before it.
 *
 * Owns: the form of such a file, and hashes as JSON. A sealed record that was altered by accident
 * or by hand is found when it is read. It is no signature: whoever writes the record anew can seal it anew. */
#ifndef RT_TRAIN_SEALED_H
#define RT_TRAIN_SEALED_H

#include "base/err.h"
#include "base/hash.h"

#include <jansson.h>
#include <stdbool.h>

/* object: not empty, and without the key "hash". seal: what was written there; may be null. */
int rt_sealed_write(const char *path, const json_t *object, rt_hash128 *seal, rt_err *e);
/* *out is the caller's. RT_NOT_FOUND; RT_FORMAT when the hash is another or it is no object. */
int rt_sealed_read(json_t **out, const char *path, rt_err *e);

/* Any JSON file that a run writes. RT_NOT_FOUND; RT_FORMAT when it is not JSON. */
int rt_json_read(json_t **out, const char *path, rt_err *e);

json_t *rt_hash_to_json(rt_hash128 h); /* null when out of memory */
bool rt_hash_from_json(const json_t *j, rt_hash128 *h);
bool rt_hash_equal(rt_hash128 a, rt_hash128 b);

#endif
