/* append.h - files that grow line by line: what a run logs.
 *
 * Owns: opening one at a length that is known to be good, appending, and when it is on disk. Files that appear whole
 * are file.h. */
#ifndef RT_BASE_APPEND_H
#define RT_BASE_APPEND_H

#include "base/err.h"

#include <stddef.h>
#include <stdint.h>

typedef struct rt_append {
    const char *path; /* the caller's; null: not open */
    int fd;
} rt_append;

/* Made where it is not there, with its name on disk; what follows the first `keep` bytes goes. RT_FORMAT when it has
 * fewer: their end is lost. path must outlive f. */
int rt_append_open(rt_append *f, const char *path, uint64_t keep, rt_err *e);
int rt_append_put(rt_append *f, const void *data, size_t bytes, rt_err *e);
/* Everything that was put is on disk when this returns. Nothing is done for one that is not open. */
int rt_append_sync(rt_append *f, rt_err *e);
void rt_append_close(rt_append *f); /* accepts one that is not open */

#endif
