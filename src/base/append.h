/* append.h - files that grow line by line: what a run logs.
 *
 * Owns: opening one at a length that is known to be good, appending, and when it is on disk. Files that appear whole
 * are file.h. */
#ifndef RT_BASE_APPEND_H
#define RT_BASE_APPEND_H

#include "base/err.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct rt_append {
    const char *path; /* the caller's; null: not open */
    int fd;
    bool created; /* by rt_append_open_alone */
} rt_append;

/* Made where it is not there, with its name on disk; what follows the first `keep` bytes goes. RT_FORMAT when it has
 * fewer: their end is lost. path must outlive f. */
int rt_append_open(rt_append *f, const char *path, uint64_t keep, rt_err *e);
/* The same in two steps, for one process at a time: RT_INVALID while another has it open so, or when it is no regular
 * file. Nothing is cut off until it is clear how much of it is ours. */
int rt_append_open_alone(rt_append *f, const char *path, rt_err *e);
int rt_append_cut(rt_append *f, uint64_t keep, rt_err *e);
/* RT_INVALID when the name is no longer that of the file which is open: what is put would be in no file. */
int rt_append_held(const rt_append *f, rt_err *e);
int rt_append_put(rt_append *f, const void *data, size_t bytes, rt_err *e);
/* Everything that was put is on disk when this returns. Nothing is done for one that is not open. */
int rt_append_sync(rt_append *f, rt_err *e);
void rt_append_close(rt_append *f); /* accepts one that is not open */
/* The same; a file that rt_append_open_alone has made and that is still empty goes. */
void rt_append_drop(rt_append *f);

#endif
