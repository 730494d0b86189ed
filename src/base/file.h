/* file.h - files: maps to read, atomic writers, directories, paths. Linux and other POSIX systems.
 *
 * Owns: every system call on files that the library makes for models and data. A map is read-only and shared; a writer
 * writes to a temporary name beside its target and appears under the target's name only when it is committed, so an
 * interrupted or failed write leaves nothing behind that looks like a result. Messages name the path and the reason
 * that the system gives; RT_NOT_FOUND for what is not there, RT_IO for the rest. */
#ifndef RT_BASE_FILE_H
#define RT_BASE_FILE_H

#include "base/err.h"
#include "base/hash.h"
#include "base/mem.h"
#include "base/str.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* ---- reading ---- */

/* A whole file in memory, read-only. data is not null, even for an empty file. */
typedef struct rt_map {
    const uint8_t *data;
    uint64_t size;
} rt_map;
int rt_map_open(rt_map *m, const char *path, rt_err *e);
void rt_map_close(rt_map *m); /* accepts zeroes; leaves zeroes */
/* Tells the system that a range will be read soon, or not again. Never fails. */
void rt_map_will_need(const rt_map *m, uint64_t offset, uint64_t bytes);
/* Reads a range now; RT_IO where touching it would end the process (a file that was cut, a disk that fails). On systems
 * that cannot say so it is read when it is touched. */
int rt_map_bring(const rt_map *m, uint64_t offset, uint64_t bytes, rt_err *e);
void rt_map_done_with(const rt_map *m, uint64_t offset, uint64_t bytes);

/* XXH3-128 of a file's bytes. Pages are let go as they are read: a file larger than memory is none too large. */
int rt_file_hash(const char *path, rt_hash128 *out, rt_err *e);

/* Appends the file's bytes to out; RT_FORMAT when it is larger than max. */
int rt_file_read(const char *path, uint64_t max, rt_str *out, rt_err *e);

/* ---- writing ---- */

typedef struct rt_writer rt_writer;
/* Creates a temporary file in the folder of path. RT_INVALID when path is a directory. */
int rt_writer_open(rt_writer **out, const char *path, rt_err *e);
/* Makes the file this long and, where the file system can, reserves its blocks, so that a full disk is found before
 * the work is done and not after. */
int rt_writer_reserve(rt_writer *w, uint64_t bytes, rt_err *e);
/* At an offset; from any number of threads at once. */
int rt_writer_put(rt_writer *w, uint64_t offset, const void *data, uint64_t bytes, rt_err *e);
/* Begins to bring a range to disk, so that committing need not wait for all of it; says and keeps nothing. */
void rt_writer_begin_flush(rt_writer *w, uint64_t offset, uint64_t bytes);
/* What has come under the name by then is not replaced: committing is RT_INVALID, and the temporary file goes. */
void rt_writer_new_only(rt_writer *w);
/* The temporary name, to read the file back before it is committed. */
const char *rt_writer_path(const rt_writer *w);
/* Everything to disk, then the rename. The writer is done afterwards, whatever the answer. */
int rt_writer_commit(rt_writer *w, rt_err *e);
void rt_writer_free(rt_writer *w); /* accepts null; removes the temporary file of a writer that was not committed */

/* The names in the folder of path are on disk: before that, a file that has got one may have lost it after a power
 * failure, whatever is known of its bytes. */
int rt_folder_sync(const char *path, rt_err *e);

/* The same for small files: whole content at once. */
int rt_file_write(const char *path, const void *data, uint64_t bytes, rt_err *e);
int rt_file_write_new(const char *path, const void *data, uint64_t bytes, rt_err *e); /* as rt_writer_new_only */

/* "cannot WHAT PATH: why", with what to do about it, of an errno: RT_IO, or RT_NOT_FOUND without the folder. */
int rt_write_fail(rt_err *e, const char *what, const char *path, int code);

/* ---- directories ---- */

bool rt_path_exists(const char *path);
bool rt_path_is_dir(const char *path);
int rt_file_size(const char *path, uint64_t *out, rt_err *e);
/* Like mkdir -p. */
int rt_dir_make(const char *path, rt_err *e);
/* The same, counting how many folders at the end of path this call has made; and rmdir of that many, from the last on,
 * which stops at the first that is not empty: what this process did not make, or what somebody has put there, stays. */
int rt_dir_make_counted(const char *path, uint32_t *made, rt_err *e);
void rt_dir_unmake(const char *path, uint32_t made);
/* A new empty directory beside path, for what is to become path: its name is allocated in a. Make it path with
 * rt_dir_commit (path must not exist, or be an empty directory), or remove it with rt_dir_remove. */
int rt_dir_temp(char **temp, rt_arena *a, const char *path, rt_err *e);
int rt_dir_commit(const char *temp, const char *path, rt_err *e);
/* One in a folder that others may use too (null: /tmp), for what is removed again: nobody else can look into it. It is
 * locked until rt_dir_remove; those of the same name that killed processes have left are removed. */
int rt_dir_scratch(char **temp, rt_arena *a, const char *folder, const char *name, rt_err *e);
/* Whether a name in a directory is one that its owner would have put there: that of a file, or, with a slash behind it,
 * of a folder. Of anything else (links, FIFOs) it is never asked. */
typedef bool (*rt_known_fn)(void *ctx, const char *name);
/* path is a directory, not a link to one, and every name in it is known. */
bool rt_dir_holds_only(const char *path, rt_known_fn known, void *ctx);
/* Puts temp in the place of the directory path, which is removed: in one step where the system can exchange names, else
 * in two, put back when the second fails. RT_INVALID when path is a link, or holds a name that is not known. */
int rt_dir_replace(const char *temp, const char *path, rt_known_fn known, void *ctx, rt_err *e);
/* Removes a directory and the files in it (one level of subdirectories too). Never follows links. For a directory that
 * this process has made (rt_dir_temp), or all of whose names are known. */
void rt_dir_remove(const char *path);
/* Whether a name is a temporary one of ours; removes all of them that are in a folder. Only for who holds the lock of
 * the folder (lock.h): to nobody else can it be said that their process is no more. */
bool rt_name_is_temp(const char *name);
void rt_dir_clean(const char *folder);
/* Removes what this process has under temporary names: for one that ends at once. May be called from a signal's
 * handler: it allocates nothing and takes no lock. */
void rt_temp_remove_all(void);
/* Names in a directory, sorted by bytes, without . and ..; allocated in a. */
int rt_dir_list(char ***names, uint32_t *count, rt_arena *a, const char *path, rt_err *e);
/* Bytes of all files below a folder; what cannot be read counts nothing, links are not followed. */
uint64_t rt_dir_bytes(const char *path);
/* dir/name, allocated in a; null when out of memory. */
char *rt_path_join(rt_arena *a, const char *dir, const char *name);
/* What follows the last slash; the path itself when there is none. */
const char *rt_path_base(const char *path);
bool rt_path_ends(const char *path, const char *suffix); /* case-insensitive */

#endif
