/* json.h - JSON, with jansson: where its memory comes from, reading a file, records that carry a checksum, and JSON
 * written straight into a string, for documents of hundreds of thousands of tokens, where a tree of values would cost
 * more than the text.
 *
 * jansson has one allocator for the whole process, so it must be set before the first value is made: the command line
 * does it when it starts, and rooms that use jansson do it again, which costs nothing. A checked record is an object
 * whose last member is the hash of all that stands before it, so that an alteration is found when it is read. It is no
 * signature: whoever writes the record anew can compute the hash anew. */
#ifndef RT_BASE_JSON_H
#define RT_BASE_JSON_H

#include "base/err.h"
#include "base/hash.h"
#include "base/str.h"

#include <jansson.h>

/* Routes jansson's memory through rt_alloc, once. */
void rt_json_init(void);
/* jansson tells only that something failed. True when, on this thread, memory was refused since the last call of this
 * function or of the next. */
bool rt_json_out_of_memory(void);
/* json_loadb after rt_json_init: null when the text is not JSON, when memory was refused, or when it has more than 4
 * million values, whose tree would take a gigabyte. at may be null. */
json_t *rt_json_load(const char *text, size_t len, size_t flags, json_error_t *at);

/* json_dumps of what was made on this thread: null also when memory was refused to any value since the last call, for
 * then members may be missing, which jansson says only to who asks after each. Freed with rt_free; j may be null. */
char *rt_json_dump(const json_t *j, size_t flags);
void rt_json_forget(void); /* where something begins: what was refused before is of no value that is made from now on */

/* The members of an object one at a time, so that a document takes the memory of one of them: a tree takes some 25
 * bytes for each of text, and 77 where somebody means it to. Begins with text and len, which outlive it; the rest zero.
 */
typedef struct rt_json_members {
    const char *text;
    size_t len, at;
    bool begun;
} rt_json_members;
/* 1: a member; *key is the caller's in any case; value: its text, of which only the end was looked for. 0: there are no
 * more, and nothing follows the object. RT_FORMAT, with the reason and its byte in why; RT_NOMEM. Keys may repeat. */
int rt_json_member(rt_json_members *m, json_t **key, rt_span *value, json_error_t *why);
/* The value of a member, or a part of it. *out is the caller's; why as above. */
int rt_json_parse_part(const rt_json_members *m, rt_span part, json_t **out, json_error_t *why);

/* Any JSON file. *out is the caller's. RT_NOT_FOUND; RT_FORMAT when it is not JSON. */
int rt_json_read(json_t **out, const char *path, rt_err *e);

/* object: not empty, and without the key "hash". checksum: what was written there; may be null. */
int rt_checked_json_write(const char *path, const json_t *object, rt_hash128 *checksum, rt_err *e);
/* *out is the caller's. RT_NOT_FOUND; RT_FORMAT when the hash is another or it is no object. */
int rt_checked_json_read(json_t **out, const char *path, rt_err *e);

/* The same of a record that was once written without a hash: *checked tells whether it has one that holds. Its hash is
 * taken out of *out, which is given whenever it is JSON, also with RT_FORMAT for a hash that is another. */
int rt_checked_json_read_old(json_t **out, bool *checked, const char *path, rt_err *e);

json_t *rt_hash_to_json(rt_hash128 h); /* null when out of memory */
bool rt_hash_from_json(const json_t *j, rt_hash128 *h);

/* Appends text in quotes; false, and nothing appended, when it is not valid UTF-8. */
bool rt_json_put_text(rt_str *s, const char *text, size_t len);
/* The same without the quotes, and unchecked: bytes that are no UTF-8 are appended as they are, for the reader of the
 * document to refuse. */
void rt_json_put_escaped(rt_str *s, const char *text, size_t len);
/* Appends the shortest number that reads back as the same double, or as the same float. Finite values only. */
void rt_json_put_double(rt_str *s, double x);
void rt_json_put_float(rt_str *s, float x);
/* A comma unless the text ends with a bracket that was just opened, then "key":. The key is plain ASCII. */
void rt_json_put_key(rt_str *s, const char *key);

#endif
