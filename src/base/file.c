/* file.c - reading files: maps, whole contents; paths and lists of directories.
 *
 * Owns: what looks at files and changes none. Leaves everything that writes, renames or removes to file_write.c. */
#include "base/file.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

enum { READ_CHUNK = 32 << 10 };

static int open_fail(rt_err *e, const char *path, int code)
{
    if (code == ENOENT || code == ENOTDIR)
        return rt_fail(e, RT_NOT_FOUND, "%s: %s; check the path", path, strerror(code));
    const char *remedy = code == EACCES || code == EPERM    ? "; check its permissions and those of its folders"
                         : code == EMFILE || code == ENFILE ? "; raise the limit on open files (ulimit -n)"
                                                            : "";
    return rt_fail(e, RT_IO, "cannot open %s: %s%s", path, strerror(code), remedy);
}

/* Opens what can be read to an end: O_NONBLOCK keeps a named pipe without a writer from holding us up. */
static int open_to_read(const char *path, int *fd, struct stat *s, rt_err *e)
{
    do *fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    while (*fd < 0 && errno == EINTR);
    if (*fd < 0) return open_fail(e, path, errno);
    int rc = RT_OK;
    if (fstat(*fd, s) != 0) {
        rc = rt_fail(e, RT_IO, "cannot look at %s: %s", path, strerror(errno));
    } else if (S_ISDIR(s->st_mode)) {
        rc = rt_fail(e, RT_IO, "cannot read %s: it is a directory; name a file", path);
    } else if (!S_ISREG(s->st_mode)) {
        rc = rt_fail(e, RT_IO, "cannot read %s: it is not a regular file; copy it to one first", path);
    }
    if (rc < 0) close(*fd);
    return rc;
}

int rt_map_open(rt_map *m, const char *path, rt_err *e)
{
    static const uint8_t nothing[1];
    int fd;
    struct stat s;
    *m = (rt_map){ 0 };
    int rc = open_to_read(path, &fd, &s, e);
    if (rc < 0) return rc;
    if (s.st_size == 0) {
        *m = (rt_map){ nothing, 0 };
    } else if ((uint64_t)s.st_size > PTRDIFF_MAX) {
        rc = rt_fail(e, RT_IO, "cannot map %s: it is larger than the address space", path);
    } else {
        void *data = mmap(NULL, (size_t)s.st_size, PROT_READ, MAP_SHARED, fd, 0);
        if (data == MAP_FAILED) {
            int code = errno;
            rc = rt_fail(e, code == ENOMEM ? RT_NOMEM : RT_IO, "cannot map %s: %s", path, strerror(code));
        } else {
            *m = (rt_map){ data, (uint64_t)s.st_size };
        }
    }
    close(fd);
    return rc;
}

void rt_map_close(rt_map *m)
{
    if (m->size > 0) munmap((void *)(uintptr_t)m->data, (size_t)m->size);
    *m = (rt_map){ 0 };
}

static void advise(const rt_map *m, uint64_t begin, uint64_t end, int advice)
{
    if (begin < end) madvise((void *)(uintptr_t)(m->data + begin), (size_t)(end - begin), advice);
}

static uint64_t range_end(const rt_map *m, uint64_t offset, uint64_t bytes)
{
    if (offset >= m->size) return 0; /* no range at all */
    return bytes < m->size - offset ? offset + bytes : m->size;
}

void rt_map_will_need(const rt_map *m, uint64_t offset, uint64_t bytes)
{
    uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);
    advise(m, offset / page * page, range_end(m, offset, bytes), MADV_WILLNEED);
}

int rt_map_bring(const rt_map *m, uint64_t offset, uint64_t bytes, rt_err *e)
{
#ifdef MADV_POPULATE_READ
    uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE), begin = offset / page * page, end = range_end(m, offset, bytes);
    int failed;
    if (begin >= end) return RT_OK;
    do failed = madvise((void *)(uintptr_t)(m->data + begin), (size_t)(end - begin), MADV_POPULATE_READ);
    while (failed && (errno == EINTR || errno == EAGAIN));
    if (failed && (errno == EFAULT || errno == EIO || errno == EHWPOISON))
        return rt_fail(e, RT_IO, "bytes %llu to %llu cannot be read: the file was truncated, or its disk is failing",
                       (unsigned long long)offset, (unsigned long long)(offset + bytes));
#else
    (void)m, (void)offset, (void)bytes, (void)e;
#endif
    return RT_OK;
}

void rt_map_done_with(const rt_map *m, uint64_t offset, uint64_t bytes)
{
    /* Only pages that lie wholly inside: a neighbour may still be read. The pages stay in the system's cache. */
    uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE), end = range_end(m, offset, bytes);
    if (end < m->size) end = end / page * page;
    if (end > 0) advise(m, rt_align_up(offset, page), end, MADV_DONTNEED);
}

int rt_file_hash(const char *path, rt_hash128 *out, rt_err *e)
{
    enum { PIECE = 16 << 20 };
    int rc;
    rt_map m = { 0 };
    rt_hasher *h = rt_hasher_new();
    if (!h) RT_TRY(rt_fail(e, RT_NOMEM, "no memory to hash %s", path));
    RT_TRY(rt_map_open(&m, path, e));
    for (uint64_t at = 0; at < m.size; at += PIECE) {
        uint64_t n = m.size - at < PIECE ? m.size - at : PIECE;
        rt_hasher_add(h, m.data + at, n);
        rt_map_done_with(&m, at, n);
    }
    *out = rt_hasher_digest(h);
out:
    rt_map_close(&m);
    rt_hasher_free(h);
    return rc;
}

static int read_all(int fd, const char *path, uint64_t max, rt_str *out, rt_err *e)
{
    char buf[READ_CHUNK];
    for (uint64_t total = 0;;) {
        ssize_t n = read(fd, buf, sizeof buf);
        if (n == 0) return RT_OK;
        if (n < 0 && errno == EINTR) continue;
        if (n < 0) return rt_fail(e, RT_IO, "cannot read %s: %s", path, strerror(errno));
        total += (uint64_t)n;
        if (total > max) {
            char most[32];
            return rt_fail(e, RT_FORMAT, "%s is larger than %s; it cannot be what its name says", path,
                           rt_format_bytes(most, max));
        }
        rt_str_append_n(out, buf, (size_t)n);
        if (out->failed) return rt_fail(e, RT_NOMEM, "no memory for the contents of %s", path);
    }
}

int rt_file_read(const char *path, uint64_t max, rt_str *out, rt_err *e)
{
    int fd;
    struct stat s;
    int rc = open_to_read(path, &fd, &s, e);
    if (rc < 0) return rc;
    size_t before = out->len;
    rc = read_all(fd, path, max, out, e);
    if (rc < 0) {
        out->len = before;
        if (out->data) out->data[before] = '\0';
    }
    close(fd);
    return rc;
}

bool rt_path_exists(const char *path)
{
    struct stat s;
    return stat(path, &s) == 0;
}

bool rt_path_is_dir(const char *path)
{
    struct stat s;
    return stat(path, &s) == 0 && S_ISDIR(s.st_mode);
}

int rt_file_size(const char *path, uint64_t *out, rt_err *e)
{
    struct stat s;
    if (stat(path, &s) != 0) return open_fail(e, path, errno);
    *out = s.st_size > 0 ? (uint64_t)s.st_size : 0;
    return RT_OK;
}

static int by_bytes(const void *a, const void *b) { return strcmp(*(char *const *)a, *(char *const *)b); }

/* Collects into an array that grows outside the arena, which would keep every smaller one. */
static int list_names(DIR *dir, char ***names, uint32_t *count, rt_arena *a, const char *path, rt_err *e)
{
    uint32_t cap = 0;
    for (;;) {
        errno = 0;
        struct dirent *entry = readdir(dir);
        if (!entry && errno != 0) return rt_fail(e, RT_IO, "cannot list %s: %s", path, strerror(errno));
        if (!entry) return RT_OK;
        if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0) continue;
        char *name = rt_arena_strdup(a, entry->d_name);
        if (!name || !rt_grow((void **)names, &cap, *count + 1, sizeof **names))
            return rt_fail(e, RT_NOMEM, "no memory to list %s", path);
        (*names)[(*count)++] = name;
    }
}

int rt_dir_list(char ***names, uint32_t *count, rt_arena *a, const char *path, rt_err *e)
{
    char **found = NULL;
    uint32_t n = 0;
    *names = NULL;
    *count = 0;
    DIR *dir = opendir(path);
    if (!dir && errno == ENOMEM) return rt_fail(e, RT_NOMEM, "no memory to list %s", path);
    if (!dir) return open_fail(e, path, errno);
    int rc = list_names(dir, &found, &n, a, path, e);
    closedir(dir);
    char **kept = rc < 0 ? NULL : rt_arena_alloc(a, n * sizeof *kept);
    if (rc >= 0 && !kept) rc = rt_fail(e, RT_NOMEM, "no memory to list %s", path);
    if (rc >= 0) {
        if (n > 0) {
            qsort(found, n, sizeof *found, by_bytes);
            memcpy(kept, found, n * sizeof *kept);
        }
        *names = kept;
        *count = n;
    }
    rt_free(found);
    return rc;
}

uint64_t rt_dir_bytes(const char *path)
{
    rt_arena a = { 0 };
    char **names;
    uint32_t count = 0;
    uint64_t bytes = 0;
    struct stat s;
    if (rt_dir_list(&names, &count, &a, path, NULL) < 0) count = 0;
    for (uint32_t i = 0; i < count; i++) {
        char *one = rt_path_join(&a, path, names[i]);
        if (!one || lstat(one, &s) != 0) continue;
        bytes += S_ISDIR(s.st_mode) ? rt_dir_bytes(one) : S_ISREG(s.st_mode) ? (uint64_t)s.st_size : 0;
    }
    rt_arena_free(&a);
    return bytes;
}

char *rt_path_join(rt_arena *a, const char *dir, const char *name)
{
    size_t n = strlen(dir);
    if (n == 0 || dir[n - 1] == '/') return rt_arena_printf(a, "%s%s", dir, name);
    return rt_arena_printf(a, "%s/%s", dir, name);
}

const char *rt_path_base(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

bool rt_path_ends(const char *path, const char *suffix)
{
    size_t n = strlen(path), m = strlen(suffix);
    return n >= m && strcasecmp(path + n - m, suffix) == 0;
}
