/* append.c - see append.h. */
#include "base/append.h"

#include "base/file.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { TRIES = 100 }; /* a file that its writer removes at this moment */

static int fault(const rt_append *f, rt_err *e) { return rt_write_fail(e, "write", f->path, errno); }

int rt_append_cut(rt_append *f, uint64_t keep, rt_err *e)
{
    struct stat s;
    if (fstat(f->fd, &s) != 0) return fault(f, e);
    if ((uint64_t)s.st_size < keep)
        return rt_fail(e, RT_FORMAT, "%s has %" PRIu64 " bytes, and had %" PRIu64 ": it was truncated", f->path,
                       (uint64_t)s.st_size, keep);
    if (ftruncate(f->fd, (off_t)keep) != 0) return fault(f, e);
    return rt_folder_sync(f->path, e);
}

int rt_append_open(rt_append *f, const char *path, uint64_t keep, rt_err *e)
{
    *f = (rt_append){ path, open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666), false };
    int rc = f->fd < 0 ? fault(f, e) : rt_append_cut(f, keep, e);
    if (rc < 0) rt_append_close(f);
    return rc;
}

/* Whether the name is still that of the file which is open. */
static bool is_named(const rt_append *f)
{
    struct stat mine, there;
    return fstat(f->fd, &mine) == 0 && stat(f->path, &there) == 0 && mine.st_dev == there.st_dev &&
           mine.st_ino == there.st_ino;
}

/* 1: another file has the name by now, or none. */
static int claim(rt_append *f, rt_err *e)
{
    struct stat s;
    struct flock l = { .l_type = F_WRLCK, .l_whence = SEEK_SET };
    f->fd = open(f->path, O_RDWR | O_CREAT | O_EXCL | O_APPEND | O_CLOEXEC, 0666);
    f->created = f->fd >= 0;
    if (f->fd < 0 && errno == EEXIST) f->fd = open(f->path, O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC | O_NONBLOCK, 0666);
    if (f->fd < 0 || fstat(f->fd, &s) != 0) return fault(f, e);
    if (!S_ISREG(s.st_mode)) return rt_fail(e, RT_INVALID, "%s is not a regular file; name one that is", f->path);
    if (fcntl(f->fd, F_OFD_SETLK, &l) != 0) {
        if (errno == EAGAIN || errno == EACCES)
            return rt_fail(e, RT_INVALID, "another process is writing %s; wait for it, stop it, or name another file",
                           f->path);
        if (errno != ENOLCK && errno != EOPNOTSUPP && errno != ENOSYS && errno != EINVAL) return fault(f, e);
    }
    return is_named(f) ? RT_OK : 1;
}

int rt_append_open_alone(rt_append *f, const char *path, rt_err *e)
{
    int rc = 1;
    *f = (rt_append){ path, -1, false };
    for (int i = 0; i < TRIES && rc == 1; i++) {
        if (f->fd >= 0) close(f->fd);
        rc = claim(f, e);
    }
    if (rc == 1) rc = rt_fail(e, RT_IO, "%s cannot be written: other processes keep removing it", path);
    if (rc < 0) rt_append_drop(f);
    return rc;
}

int rt_append_held(const rt_append *f, rt_err *e)
{
    if (is_named(f)) return RT_OK;
    return rt_fail(e, RT_INVALID,
                   "%s was removed, moved or replaced while it was written: what is under that name now is not "
                   "this output, and nothing more is written",
                   f->path);
}

void rt_append_drop(rt_append *f)
{
    struct stat s;
    bool empty = f->path && f->fd >= 0 && f->created && fstat(f->fd, &s) == 0 && s.st_size == 0;
    if (empty && is_named(f)) unlink(f->path); /* before it is let go of: whoever waits for it finds it gone */
    rt_append_close(f);
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
