/* append.c - see append.h. */
#include "base/append.h"

#include "base/file.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static int fault(const rt_append *f, rt_err *e)
{
    return rt_fail(e, RT_IO, "%s cannot be written: %s", f->path, strerror(errno));
}

int rt_append_open(rt_append *f, const char *path, uint64_t keep, rt_err *e)
{
    int rc = RT_OK;
    struct stat s;
    *f = (rt_append){ path, open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666) };
    if (f->fd < 0 || fstat(f->fd, &s) != 0) RT_TRY(fault(f, e));
    if ((uint64_t)s.st_size < keep)
        RT_TRY(rt_fail(e, RT_FORMAT, "%s has %" PRIu64 " bytes, and had %" PRIu64 ": its end is lost", path,
                       (uint64_t)s.st_size, keep));
    if (ftruncate(f->fd, (off_t)keep) != 0) RT_TRY(fault(f, e));
    RT_TRY(rt_folder_sync(path, e));
out:
    if (rc < 0) rt_append_close(f);
    return rc;
}

int rt_append_put(rt_append *f, const void *data, size_t bytes, rt_err *e)
{
    for (const char *at = data; bytes;) {
        ssize_t n = write(f->fd, at, bytes);
        if (n < 0 && errno == EINTR) continue;
        if (n < 0) return fault(f, e);
        at += n;
        bytes -= (size_t)n;
    }
    return RT_OK;
}

int rt_append_sync(rt_append *f, rt_err *e)
{
    int code;
    if (!f->path) return RT_OK;
    do code = fsync(f->fd) == 0 ? 0 : errno;
    while (code == EINTR);
    if (code == 0 || code == EINVAL || code == ENOTSUP) return RT_OK; /* a file system that cannot */
    errno = code;
    return fault(f, e);
}

void rt_append_close(rt_append *f)
{
    if (f->path && f->fd >= 0) close(f->fd);
    *f = (rt_append){ 0 };
}
