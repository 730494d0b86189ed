/* record_writes.c - a library to preload: everything that a process does to files below RECORD_ROOT, in order, to the
 * file RECORD_LOG, for tools/crash_test.py.
 *
 * Owns: the list of calls that change files. What cannot be recorded (maps that write, files without a name, copies
 * inside the kernel, stdio) is recorded as forbidden: the reader fails. That nothing is missing is shown there: the
 * records played again give the folder that the process left.
 *
 * A record is a line of JSON-free text, "NAME fd offset bytes path-bytes other-bytes\n", then the two paths and the
 * data. Paths are absolute. */
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

enum { FDS = 4096 };
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static int log_fd = -1;
static char root[PATH_MAX];
static bool below[FDS]; /* descriptors of what lies below the root */

#define REAL(name)                                                                                                     \
    static __typeof__(&name) real;                                                                                     \
    if (!real) real = (__typeof__(&name))dlsym(RTLD_NEXT, #name)

static void fail(const char *what)
{
    dprintf(2, "record_writes: %s\n", what);
    _exit(99);
}

__attribute__((constructor)) static void begin(void)
{
    const char *log = getenv("RECORD_LOG"), *where = getenv("RECORD_ROOT");
    if (!log || !where) return;
    if (!realpath(where, root)) fail("RECORD_ROOT is not there");
    log_fd = (int)syscall(SYS_openat, AT_FDCWD, log, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
    if (log_fd < 0) fail("RECORD_LOG cannot be written");
    /* Children would write the same log. */
    unsetenv("LD_PRELOAD");
}

/* The absolute path without links in its folder; false: not below the root. */
static bool resolve(int at, const char *path, char *out)
{
    char joined[2 * PATH_MAX], folder[PATH_MAX], link[64];
    if (log_fd < 0 || !path) return false;
    if (path[0] == '/') {
        snprintf(joined, sizeof joined, "%s", path);
    } else if (at == AT_FDCWD) {
        if (!getcwd(folder, sizeof folder)) return false;
        snprintf(joined, sizeof joined, "%s/%s", folder, path);
    } else {
        snprintf(link, sizeof link, "/proc/self/fd/%d", at);
        ssize_t n = readlink(link, folder, sizeof folder - 1);
        if (n < 0) return false;
        folder[n] = '\0';
        snprintf(joined, sizeof joined, "%s/%s", folder, path);
    }
    size_t n = strlen(joined);
    while (n > 1 && joined[n - 1] == '/') joined[--n] = '\0';
    char *base = strrchr(joined, '/');
    *base++ = '\0';
    if (!realpath(joined[0] ? joined : "/", folder)) return false;
    int len = strcmp(base, ".") == 0 || !*base
                  ? snprintf(out, PATH_MAX, "%s", folder)
                  : snprintf(out, PATH_MAX, "%s/%s", strcmp(folder, "/") ? folder : "", base);
    n = strlen(root);
    return len < PATH_MAX && strncmp(out, root, n) == 0 && (out[n] == '/' || !out[n]);
}

static void put(const void *data, size_t bytes)
{
    const char *at = data;
    while (bytes) {
        ssize_t n = syscall(SYS_write, log_fd, at, bytes);
        if (n < 0) fail("the log cannot be written");
        at += n;
        bytes -= (size_t)n;
    }
}

static void record(const char *name, int fd, long long offset, const char *path, const char *other, const void *data,
                   size_t bytes)
{
    char head[200];
    int code = errno;
    size_t a = path ? strlen(path) : 0, b = other ? strlen(other) : 0;
    int n = snprintf(head, sizeof head, "%s %d %lld %zu %zu %zu\n", name, fd, offset, bytes, a, b);
    put(head, (size_t)n);
    put(path, a);
    put(other, b);
    if (data) put(data, bytes);
    errno = code;
}

static bool watched(int fd) { return fd >= 0 && fd < FDS && below[fd]; }

/* ---- opening and closing ---- */

static int opened(int fd, int at, const char *path, int flags)
{
    char full[PATH_MAX];
    bool in = fd >= 0 && resolve(at, path, full);
    if (fd >= 0 && fd < FDS) below[fd] = in;
    if (!in) return fd;
    if (fd >= FDS || (flags & O_TMPFILE) == O_TMPFILE) fail("a descriptor or a file that cannot be recorded");
    record(flags & O_CREAT   ? flags & O_TRUNC ? "create-truncate" : "create"
           : flags & O_TRUNC ? "truncate"
                             : "open",
           fd, flags & O_APPEND ? 1 : 0, full, NULL, NULL, 0);
    return fd;
}

static int open_any(int at, const char *path, int flags, int mode)
{
    pthread_mutex_lock(&lock);
    int fd = (int)syscall(SYS_openat, at, path, flags | O_LARGEFILE, mode);
    opened(fd, at, path, flags);
    pthread_mutex_unlock(&lock);
    return fd;
}

#define MODE_OF(flags)                                                                                                 \
    int mode = 0;                                                                                                      \
    if ((flags) & (O_CREAT | __O_TMPFILE)) {                                                                           \
        va_list args;                                                                                                  \
        va_start(args, flags);                                                                                         \
        mode = va_arg(args, int);                                                                                      \
        va_end(args);                                                                                                  \
    }

int open(const char *path, int flags, ...)
{
    MODE_OF(flags)
    return open_any(AT_FDCWD, path, flags, mode);
}
int open64(const char *path, int flags, ...)
{
    MODE_OF(flags)
    return open_any(AT_FDCWD, path, flags, mode);
}
int openat(int at, const char *path, int flags, ...)
{
    MODE_OF(flags)
    return open_any(at, path, flags, mode);
}
int openat64(int at, const char *path, int flags, ...)
{
    MODE_OF(flags)
    return open_any(at, path, flags, mode);
}
int creat(const char *path, mode_t mode) { return open_any(AT_FDCWD, path, O_CREAT | O_WRONLY | O_TRUNC, (int)mode); }

int close(int fd)
{
    pthread_mutex_lock(&lock);
    if (watched(fd)) record("close", fd, 0, NULL, NULL, NULL, 0);
    if (fd >= 0 && fd < FDS) below[fd] = false;
    int rc = (int)syscall(SYS_close, fd);
    pthread_mutex_unlock(&lock);
    return rc;
}

static FILE *stdio(const char *path, const char *mode, FILE *(*real)(const char *, const char *))
{
    char full[PATH_MAX];
    if (strpbrk(mode, "wa+") && resolve(AT_FDCWD, path, full)) fail("stdio writes below the root");
    return real(path, mode);
}
FILE *fopen(const char *path, const char *mode)
{
    REAL(fopen);
    return stdio(path, mode, real);
}
FILE *fopen64(const char *path, const char *mode)
{
    REAL(fopen64);
    return stdio(path, mode, real);
}

/* ---- bytes ---- */

ssize_t write(int fd, const void *data, size_t bytes)
{
    bool in = watched(fd);
    if (in) pthread_mutex_lock(&lock);
    ssize_t n = syscall(SYS_write, fd, data, bytes);
    if (in && n > 0) record("write", fd, 0, NULL, NULL, data, (size_t)n);
    if (in) pthread_mutex_unlock(&lock);
    return n;
}

static ssize_t pwrite_any(int fd, const void *data, size_t bytes, off_t offset)
{
    bool in = watched(fd);
    if (in) pthread_mutex_lock(&lock);
    ssize_t n = syscall(SYS_pwrite64, fd, data, bytes, offset);
    if (in && n > 0) record("pwrite", fd, offset, NULL, NULL, data, (size_t)n);
    if (in) pthread_mutex_unlock(&lock);
    return n;
}
ssize_t pwrite(int fd, const void *data, size_t bytes, off_t offset) { return pwrite_any(fd, data, bytes, offset); }
ssize_t pwrite64(int fd, const void *data, size_t bytes, off_t offset) { return pwrite_any(fd, data, bytes, offset); }

static int length_any(int fd, off_t bytes, const char *name, long number, int mode, off_t from)
{
    bool in = watched(fd);
    if (in) pthread_mutex_lock(&lock);
    int rc = (int)(number == SYS_ftruncate ? syscall(SYS_ftruncate, fd, bytes)
                                           : syscall(SYS_fallocate, fd, mode, from, bytes));
    if (in && rc == 0) record(name, fd, from + bytes, NULL, NULL, NULL, 0);
    if (in && mode) fail("fallocate with a mode");
    if (in) pthread_mutex_unlock(&lock);
    return rc;
}
int ftruncate(int fd, off_t bytes) { return length_any(fd, bytes, "ftruncate", SYS_ftruncate, 0, 0); }
int ftruncate64(int fd, off_t bytes) { return length_any(fd, bytes, "ftruncate", SYS_ftruncate, 0, 0); }
int fallocate(int fd, int mode, off_t from, off_t n)
{
    return length_any(fd, n, "fallocate", SYS_fallocate, mode, from);
}
int fallocate64(int fd, int mode, off_t from, off_t n)
{
    return length_any(fd, n, "fallocate", SYS_fallocate, mode, from);
}

static off_t seek_any(int fd, off_t offset, int whence)
{
    bool in = watched(fd);
    if (in) pthread_mutex_lock(&lock);
    off_t at = syscall(SYS_lseek, fd, offset, whence);
    if (in && at >= 0) record("seek", fd, at, NULL, NULL, NULL, 0);
    if (in) pthread_mutex_unlock(&lock);
    return at;
}
off_t lseek(int fd, off_t offset, int whence) { return seek_any(fd, offset, whence); }
off_t lseek64(int fd, off_t offset, int whence) { return seek_any(fd, offset, whence); }

static int sync_any(int fd, long number)
{
    bool in = watched(fd);
    if (in) pthread_mutex_lock(&lock);
    int rc = (int)syscall(number, fd);
    if (in && rc == 0) record("fsync", fd, 0, NULL, NULL, NULL, 0);
    if (in) pthread_mutex_unlock(&lock);
    return rc;
}
int fsync(int fd) { return sync_any(fd, SYS_fsync); }
int fdatasync(int fd) { return sync_any(fd, SYS_fdatasync); }

/* ---- names ---- */

static int rename_any(int from_at, const char *from, int to_at, const char *to, unsigned flags)
{
    char a[PATH_MAX], b[PATH_MAX];
    pthread_mutex_lock(&lock);
    bool in_a = resolve(from_at, from, a), in_b = resolve(to_at, to, b);
    int rc = (int)syscall(SYS_renameat2, from_at, from, to_at, to, flags);
    if (rc == 0 && in_a != in_b) fail("a name moved into or out of the root");
    if (rc == 0 && in_a && (flags & ~1u) != 0 && flags != RENAME_EXCHANGE) fail("a rename that cannot be recorded");
    if (rc == 0 && in_a) record(flags == RENAME_EXCHANGE ? "exchange" : "rename", -1, 0, a, b, NULL, 0);
    pthread_mutex_unlock(&lock);
    return rc;
}
int rename(const char *from, const char *to) { return rename_any(AT_FDCWD, from, AT_FDCWD, to, 0); }
int renameat(int a, const char *from, int b, const char *to) { return rename_any(a, from, b, to, 0); }
int renameat2(int a, const char *from, int b, const char *to, unsigned flags)
{
    return rename_any(a, from, b, to, flags);
}

static int unlink_any(int at, const char *path, int flags)
{
    char full[PATH_MAX];
    pthread_mutex_lock(&lock);
    bool in = resolve(at, path, full);
    int rc = (int)syscall(SYS_unlinkat, at, path, flags);
    if (in && rc == 0) record(flags & AT_REMOVEDIR ? "rmdir" : "unlink", -1, 0, full, NULL, NULL, 0);
    pthread_mutex_unlock(&lock);
    return rc;
}
int unlink(const char *path) { return unlink_any(AT_FDCWD, path, 0); }
int rmdir(const char *path) { return unlink_any(AT_FDCWD, path, AT_REMOVEDIR); }
int unlinkat(int at, const char *path, int flags) { return unlink_any(at, path, flags); }
int remove(const char *path)
{
    int rc = unlink_any(AT_FDCWD, path, 0);
    return rc != 0 && errno == EISDIR ? unlink_any(AT_FDCWD, path, AT_REMOVEDIR) : rc;
}

static int mkdir_any(int at, const char *path, mode_t mode)
{
    char full[PATH_MAX];
    pthread_mutex_lock(&lock);
    int rc = (int)syscall(SYS_mkdirat, at, path, mode);
    if (rc == 0 && resolve(at, path, full)) record("mkdir", -1, 0, full, NULL, NULL, 0);
    pthread_mutex_unlock(&lock);
    return rc;
}
int mkdir(const char *path, mode_t mode) { return mkdir_any(AT_FDCWD, path, mode); }
int mkdirat(int at, const char *path, mode_t mode) { return mkdir_any(at, path, mode); }

int symlink(const char *to, const char *path)
{
    char full[PATH_MAX];
    pthread_mutex_lock(&lock);
    int rc = (int)syscall(SYS_symlinkat, to, AT_FDCWD, path);
    if (rc == 0 && resolve(AT_FDCWD, path, full)) record("symlink", -1, 0, full, to, NULL, 0);
    pthread_mutex_unlock(&lock);
    return rc;
}

/* ---- what must not be ---- */

static void *map_any(void *at, size_t bytes, int prot, int flags, int fd, off_t offset)
{
    if (watched(fd) && (prot & PROT_WRITE) && (flags & MAP_SHARED)) fail("a map that writes below the root");
    return (void *)syscall(SYS_mmap, at, bytes, prot, flags, fd, offset);
}
void *mmap(void *at, size_t bytes, int prot, int flags, int fd, off_t offset)
{
    return map_any(at, bytes, prot, flags, fd, offset);
}
void *mmap64(void *at, size_t bytes, int prot, int flags, int fd, off_t offset)
{
    return map_any(at, bytes, prot, flags, fd, offset);
}

#define FORBIDDEN(type, name, parameters, fd)                                                                          \
    type name parameters                                                                                               \
    {                                                                                                                  \
        if (watched(fd)) fail(#name " below the root");                                                                \
        errno = ENOSYS;                                                                                                \
        return (type)-1;                                                                                               \
    }
FORBIDDEN(ssize_t, copy_file_range, (int a, off64_t *x, int to, off64_t *y, size_t n, unsigned f),
          ((void)a, (void)x, (void)y, (void)n, (void)f, to))
FORBIDDEN(ssize_t, sendfile, (int to, int a, off_t *x, size_t n), ((void)a, (void)x, (void)n, to))
FORBIDDEN(ssize_t, writev, (int fd, const struct iovec *v, int n), ((void)v, (void)n, fd))
FORBIDDEN(ssize_t, pwritev, (int fd, const struct iovec *v, int n, off_t o), ((void)v, (void)n, (void)o, fd))
int link(const char *from, const char *to)
{
    char full[PATH_MAX];
    if (resolve(AT_FDCWD, to, full)) fail("a second name below the root");
    return (int)syscall(SYS_linkat, AT_FDCWD, from, AT_FDCWD, to, 0);
}
int truncate(const char *path, off_t bytes)
{
    char full[PATH_MAX];
    if (resolve(AT_FDCWD, path, full)) fail("truncate below the root");
    return (int)syscall(SYS_truncate, path, bytes);
}
