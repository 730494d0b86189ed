/* file_write.c - writing files and directories so that they appear whole or not at all.
 *
 * Owns: temporary names, reserving, writing, flushing, renaming and removing. Leaves reading and paths to file.c.
 *
 * A temporary name is .NAME.retort-tmp-PID-N in the folder of its target, hidden and plain about whose it is: a process
 * that is killed cannot remove its own, and the next who holds the folder's lock does. The number of the process only
 * keeps names apart. Renaming stays inside one folder, hence inside one file system. */
#include "base/file.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define TEMP_MARK ".retort-tmp-"

enum {
    TEMP_TRIES = 1000,    /* names left by killed processes with the same id */
    TEMP_NAME_KEPT = 200, /* bytes of the target's name that a temporary name keeps, to stay below NAME_MAX */
    PUT_CHUNK = 1 << 30,  /* Linux writes at most about 2 GiB at a time */
    REMOVE_DEPTH = 2,
    SCRATCH_DEPTH = 4, /* the scratch folder of a plan holds run/data and run/checkpoints */
    SCRATCHES = 64,    /* of one process at a time that are locked */
    SCRATCH_AGE = 60,  /* seconds */
};

struct rt_writer {
    int fd; /* -1 once committed or given up */
    bool new_only;
    char *path, *temp;
    rt_arena arena; /* the names */
};

int rt_write_fail(rt_err *e, const char *what, const char *path, int code)
{
    const char *remedy = code == ENOSPC || code == EDQUOT    ? "; free some space or write to another disk"
                         : code == EACCES || code == EPERM   ? "; check the permissions of its folder"
                         : code == EROFS                     ? "; write to another folder"
                         : code == EFBIG                     ? "; raise the limit on the size of files (ulimit -f)"
                         : code == ENOENT || code == ENOTDIR ? "; create the folder first"
                         : code == EMFILE || code == ENFILE  ? "; raise the limit on open files (ulimit -n)"
                                                             : "";
    int status = code == ENOENT || code == ENOTDIR ? RT_NOT_FOUND : RT_IO;
    return rt_fail(e, status, "cannot %s %s: %s%s", what, path, strerror(code), remedy);
}

/* The length of path without slashes at its end; "/" stays. */
static size_t trimmed(const char *path)
{
    size_t n = strlen(path);
    while (n > 1 && path[n - 1] == '/') n--;
    return n;
}

static char *trim(rt_arena *a, const char *path) { return rt_arena_printf(a, "%.*s", (int)trimmed(path), path); }

/* The next temporary name for path, which has no slash at its end. */
static char *temp_name(rt_arena *a, const char *path)
{
    static atomic_uint number;
    const char *base = rt_path_base(path);
    return rt_arena_printf(a, "%.*s.%.*s" TEMP_MARK "%ld-%u", (int)(base - path), path, TEMP_NAME_KEPT, base,
                           (long)getpid(), atomic_fetch_add(&number, 1));
}

/* The folder of path is a temporary one of this process: it is synced as a whole before it gets its name. */
static bool in_temp_folder(const char *path)
{
    char mark[32];
    const char *end = rt_path_base(path), *begin = end;
    snprintf(mark, sizeof mark, TEMP_MARK "%ld-", (long)getpid());
    if (begin > path) begin--; /* the slash */
    end = begin;
    while (begin > path && begin[-1] != '/') begin--;
    return *begin == '.' && memmem(begin, (size_t)(end - begin), mark, strlen(mark)) != NULL;
}

/* The last temporary names that were made, but for those inside a temporary folder. None is ever made twice, so what is
 * in place already is no longer found under the name here. */
static char temps[16][4096];
static atomic_uint temp_count;

static void remember(const char *temp)
{
    if (in_temp_folder(temp)) return;
    unsigned at = atomic_fetch_add(&temp_count, 1) % (sizeof temps / sizeof *temps);
    snprintf(temps[at], sizeof *temps, "%s", temp);
}

/* File systems that cannot do this are left alone. Allocates nothing: what has its name already must not be lost for
 * want of memory. */
int rt_folder_sync(const char *path, rt_err *e)
{
    char folder[4096] = ".";
    size_t n = (size_t)(rt_path_base(path) - path);
    if (n >= sizeof folder) return RT_OK; /* longer than a path may be, so it was not opened either */
    if (n > 0) snprintf(folder, sizeof folder, "%.*s", (int)n, path);
    int rc = RT_OK, fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0) return RT_OK;
    if (fsync(fd) != 0 && errno != EINVAL && errno != EROFS && errno != ENOTSUP)
        rc = rt_write_fail(e, "flush the folder of", path, errno);
    close(fd);
    return rc;
}

/* ---- one file ---- */

static int create_temp(rt_writer *w, rt_err *e)
{
    for (int i = 0; i < TEMP_TRIES; i++) {
        w->temp = temp_name(&w->arena, w->path);
        if (!w->temp) return rt_fail(e, RT_NOMEM, "no memory to write %s", w->path);
        w->fd = open(w->temp, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0666);
        if (w->fd >= 0) return remember(w->temp), RT_OK;
        if (errno != EEXIST && errno != EINTR) break;
    }
    return rt_write_fail(e, "create", w->path, errno);
}

int rt_writer_open(rt_writer **out, const char *path, rt_err *e)
{
    *out = NULL;
    if (rt_path_is_dir(path) || *rt_path_base(path) == '\0')
        return rt_fail(e, RT_INVALID, "cannot write the file '%s': %s; name a file", path,
                       *path ? "it is a directory" : "the name is empty");
    rt_writer *w = rt_alloc_zero(sizeof *w, _Alignof(rt_writer));
    if (!w) return rt_fail(e, RT_NOMEM, "no memory to write %s", path);
    w->fd = -1;
    w->path = rt_arena_strdup(&w->arena, path);
    int rc = w->path ? create_temp(w, e) : rt_fail(e, RT_NOMEM, "no memory to write %s", path);
    if (rc < 0)
        rt_writer_free(w);
    else
        *out = w;
    return rc;
}

int rt_writer_reserve(rt_writer *w, uint64_t bytes, rt_err *e)
{
    char size[32];
    int code = 0;
    if (bytes > INT64_MAX) return rt_fail(e, RT_IO, "cannot write %s: no file can be that large", w->path);
    if (bytes > 0) {
        do code = fallocate(w->fd, 0, 0, (off_t)bytes) == 0 ? 0 : errno;
        while (code == EINTR);
    }
    /* Where blocks cannot be reserved, the length alone has to do; it also cuts a file that was longer. */
    if (code == 0 || code == EOPNOTSUPP || code == ENOSYS || code == EINVAL) {
        do code = ftruncate(w->fd, (off_t)bytes) == 0 ? 0 : errno;
        while (code == EINTR);
    }
    if (code == 0) return RT_OK;
    int rc = rt_write_fail(e, "write", w->path, code);
    rt_err_context(e, "%s are needed", rt_format_bytes(size, bytes));
    return rc;
}

int rt_writer_put(rt_writer *w, uint64_t offset, const void *data, uint64_t bytes, rt_err *e)
{
    const char *at = data;
    if (offset > INT64_MAX || bytes > INT64_MAX - offset)
        return rt_fail(e, RT_IO, "cannot write %s: no file can be that large", w->path);
    while (bytes > 0) {
        ssize_t n = pwrite(w->fd, at, bytes < PUT_CHUNK ? (size_t)bytes : (size_t)PUT_CHUNK, (off_t)offset);
        if (n < 0 && errno == EINTR) continue;
        if (n < 0) return rt_write_fail(e, "write", w->path, errno);
        if (n == 0) return rt_write_fail(e, "write", w->path, ENOSPC);
        at += n;
        offset += (uint64_t)n;
        bytes -= (uint64_t)n;
    }
    return RT_OK;
}

void rt_writer_begin_flush(rt_writer *w, uint64_t offset, uint64_t bytes)
{
    sync_file_range(w->fd, (off_t)offset, (off_t)bytes, SYNC_FILE_RANGE_WRITE);
}

const char *rt_writer_path(const rt_writer *w) { return w->temp; }

/* close() may report what a write could not. EINTR still closes. */
static int close_writer(rt_writer *w)
{
    int fd = w->fd;
    w->fd = -1;
    return fd < 0 || close(fd) == 0 || errno == EINTR ? 0 : errno;
}

void rt_writer_new_only(rt_writer *w) { w->new_only = true; }

/* 0, or the system's error: EEXIST for a new one whose name was taken meanwhile. */
static int give_name(const rt_writer *w)
{
    if (!w->new_only) return rename(w->temp, w->path) == 0 ? 0 : errno;
    if (renameat2(AT_FDCWD, w->temp, AT_FDCWD, w->path, RENAME_NOREPLACE) == 0) return 0;
    if (errno != EINVAL && errno != ENOSYS && errno != ENOTSUP) return errno;
    if (link(w->temp, w->path) == 0) return unlink(w->temp) == 0 ? 0 : errno;
    if (errno == EEXIST) return errno;
    return rt_path_exists(w->path) ? EEXIST : rename(w->temp, w->path) == 0 ? 0 : errno; /* no links there */
}

int rt_writer_commit(rt_writer *w, rt_err *e)
{
    int code;
    do code = fsync(w->fd) == 0 ? 0 : errno;
    while (code == EINTR);
    if (code == EINVAL || code == ENOTSUP) code = 0;
    int closed = close_writer(w);
    if (code == 0) code = closed;
    if (code != 0) {
        unlink(w->temp);
        return rt_write_fail(e, "write", w->path, code);
    }
    if ((code = give_name(w)) != 0) {
        unlink(w->temp);
        if (code == EEXIST)
            return rt_fail(e, RT_INVALID,
                           "%s appeared while it was being written, and is not replaced; name another output", w->path);
        return rt_write_fail(e, "put in place", w->path, code);
    }
    return in_temp_folder(w->path) ? RT_OK : rt_folder_sync(w->path, e);
}

void rt_writer_free(rt_writer *w)
{
    if (!w) return;
    if (w->fd >= 0) {
        close_writer(w);
        unlink(w->temp);
    }
    rt_arena_free(&w->arena);
    rt_free(w);
}

static int write_whole(const char *path, const void *data, uint64_t bytes, bool new_only, rt_err *e)
{
    int rc;
    rt_writer *w = NULL;
    RT_TRY(rt_writer_open(&w, path, e));
    w->new_only = new_only;
    RT_TRY(rt_writer_put(w, 0, data, bytes, e));
    rc = rt_writer_commit(w, e);
out:
    rt_writer_free(w);
    return rc;
}

int rt_file_write(const char *path, const void *data, uint64_t bytes, rt_err *e)
{
    return write_whole(path, data, bytes, false, e);
}

int rt_file_write_new(const char *path, const void *data, uint64_t bytes, rt_err *e)
{
    return write_whole(path, data, bytes, true, e);
}

/* ---- directories ---- */

int rt_dir_make_counted(const char *path, uint32_t *made, rt_err *e)
{
    rt_arena a = { 0 };
    char *copy = trim(&a, path);
    int rc = copy ? RT_OK : rt_fail(e, RT_NOMEM, "no memory to create %s", path);
    *made = 0;
    for (char *at = copy; rc == RT_OK; at++) {
        if (*at != '\0' && (*at != '/' || at == copy || at[-1] == '/')) continue;
        char was = *at;
        *at = '\0';
        if (mkdir(copy, 0777) == 0) {
            ++*made;
            rc = rt_folder_sync(copy, e); /* what is put into it is lost with its name */
        } else {
            int code = errno; /* an existing folder may also be unwritable, read-only or a mount point */
            if (!rt_path_is_dir(copy)) rc = rt_write_fail(e, "create the folder", path, code);
            if (rc == RT_OK) *made = 0;
        }
        *at = was;
        if (was == '\0') break;
    }
    rt_arena_free(&a);
    return rc;
}

int rt_dir_make(const char *path, rt_err *e)
{
    uint32_t made;
    return rt_dir_make_counted(path, &made, e);
}

void rt_dir_unmake(const char *path, uint32_t made)
{
    rt_arena a = { 0 };
    char *at = made ? trim(&a, path) : NULL;
    for (; at && made && rmdir(at) == 0; made--) {
        at[rt_path_base(at) - at] = '\0';
        at[trimmed(at)] = '\0';
    }
    rt_arena_free(&a);
}

static int make_temp(char **temp, rt_arena *a, const char *path, mode_t mode, rt_err *e)
{
    *temp = NULL;
    char *target = trim(a, path);
    if (!target) return rt_fail(e, RT_NOMEM, "no memory to create %s", path);
    const char *base = rt_path_base(target);
    if (*base == '\0' || strcmp(base, ".") == 0 || strcmp(base, "..") == 0)
        return rt_fail(e, RT_INVALID, "'%s' cannot be made anew; give the folder a name of its own", path);
    for (int i = 0; i < TEMP_TRIES; i++) {
        char *name = temp_name(a, target);
        if (!name) return rt_fail(e, RT_NOMEM, "no memory to create %s", path);
        if (mkdir(name, mode) == 0) {
            *temp = name;
            remember(name);
            return RT_OK;
        }
        if (errno != EEXIST) break;
    }
    return rt_write_fail(e, "create", path, errno);
}

int rt_dir_temp(char **temp, rt_arena *a, const char *path, rt_err *e) { return make_temp(temp, a, path, 0777, e); }

static void remove_folder(const char *path, int depth);

/* Scratch folders of this process: each is locked for as long as it is there, so that those of killed processes can be
 * told from it whatever their numbers are. */
static struct {
    pthread_mutex_t lock;
    struct {
        dev_t dev;
        ino_t ino;
        int fd;
    } held[SCRATCHES];
    unsigned count;
} scratches = { .lock = PTHREAD_MUTEX_INITIALIZER };

static void hold_scratch(const char *path)
{
    struct stat s;
    int fd = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0) return;
    if (fstat(fd, &s) != 0 || flock(fd, LOCK_EX | LOCK_NB) != 0) {
        close(fd); /* no locks here: then nobody removes what is left either */
        return;
    }
    pthread_mutex_lock(&scratches.lock);
    unsigned at = scratches.count; /* of more than there is room for the descriptor stays, and the lock with it */
    if (at < SCRATCHES) {
        scratches.held[at].dev = s.st_dev;
        scratches.held[at].ino = s.st_ino;
        scratches.held[at].fd = fd;
        scratches.count++;
    }
    pthread_mutex_unlock(&scratches.lock);
}

static void let_scratch_go(const struct stat *s)
{
    pthread_mutex_lock(&scratches.lock);
    for (unsigned i = 0; i < scratches.count; i++)
        if (scratches.held[i].dev == s->st_dev && scratches.held[i].ino == s->st_ino) {
            close(scratches.held[i].fd);
            scratches.held[i] = scratches.held[--scratches.count];
            break;
        }
    pthread_mutex_unlock(&scratches.lock);
}

/* Ours, of a killed process: one that is just being made is not locked yet, and is young. */
static bool is_left(const char *path)
{
    struct stat s;
    int fd = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    bool left = fd >= 0 && fstat(fd, &s) == 0 && s.st_uid == geteuid() && time(NULL) - s.st_mtime > SCRATCH_AGE &&
                flock(fd, LOCK_EX | LOCK_NB) == 0;
    if (fd >= 0) close(fd);
    return left;
}

/* What killed processes have left of the same name beside it. */
static void clean_scratch(const char *folder, const char *name)
{
    rt_arena a = { 0 };
    char **names;
    uint32_t count = 0;
    size_t n = strlen(name);
    if (rt_dir_list(&names, &count, &a, folder, NULL) < 0) count = 0;
    for (uint32_t i = 0; i < count; i++) {
        if (!rt_name_is_temp(names[i]) || strncmp(names[i] + 1, name, n) != 0 ||
            strncmp(names[i] + 1 + n, TEMP_MARK, strlen(TEMP_MARK)) != 0)
            continue;
        char *path = rt_path_join(&a, folder, names[i]);
        if (path && is_left(path)) remove_folder(path, SCRATCH_DEPTH);
    }
    rt_arena_free(&a);
}

int rt_dir_scratch(char **temp, rt_arena *a, const char *folder, const char *name, rt_err *e)
{
    const char *in = folder ? folder : "/tmp";
    char *path = rt_path_join(a, in, name);
    if (!path) return rt_no_memory(e, "a path");
    clean_scratch(in, name);
    int rc = make_temp(temp, a, path, 0700, e);
    if (rc == RT_OK) hold_scratch(*temp);
    return rc;
}

/* Names of the files inside a new folder are on disk. */
static int sync_inside(rt_arena *a, const char *temp, rt_err *e)
{
    char *inside = rt_path_join(a, temp, "");
    return inside ? rt_folder_sync(inside, e) : rt_fail(e, RT_NOMEM, "no memory to write %s", temp);
}

int rt_dir_commit(const char *temp, const char *path, rt_err *e)
{
    rt_arena a = { 0 };
    char *target = trim(&a, path);
    int rc = target ? sync_inside(&a, temp, e) : rt_fail(e, RT_NOMEM, "no memory to write %s", path);
    if (rc == RT_OK && rename(temp, target) != 0) {
        int code = errno;
        if (code == ENOTEMPTY || code == EEXIST)
            rc = rt_fail(e, RT_INVALID, "cannot write %s: it is a folder with files in it; choose another name", path);
        else if (code == ENOTDIR)
            rc = rt_fail(e, RT_INVALID, "cannot write %s: the file already exists; choose another name", path);
        else
            rc = rt_write_fail(e, "put in place", path, code);
    }
    if (rc == RT_OK) rc = rt_folder_sync(target, e);
    rt_arena_free(&a);
    return rc;
}

/* What was path is then called *old; on failure everything is as it was. */
static int exchange(const char *temp, const char *path, const char *aside, const char **old)
{
    *old = temp;
    if (renameat2(AT_FDCWD, temp, AT_FDCWD, path, RENAME_EXCHANGE) == 0) return 0;
    if (errno != EINVAL && errno != ENOSYS && errno != ENOTSUP) return errno;
    *old = aside;
    if (rename(path, aside) != 0) return errno;
    if (rename(temp, path) == 0) return 0;
    int code = errno;
    rename(aside, path);
    return code;
}

/* A file is asked for by its name, a folder with a slash behind it; links, FIFOs and devices are never ours. */
static bool is_known(int folder, const char *name, rt_known_fn known, void *ctx)
{
    struct stat s;
    char slashed[NAME_MAX + 2];
    if (fstatat(folder, name, &s, AT_SYMLINK_NOFOLLOW) != 0) return false;
    if (S_ISREG(s.st_mode)) return known(ctx, name);
    snprintf(slashed, sizeof slashed, "%s/", name);
    return S_ISDIR(s.st_mode) && known(ctx, slashed);
}

bool rt_dir_holds_only(const char *path, rt_known_fn known, void *ctx)
{
    struct stat s;
    bool only = lstat(path, &s) == 0 && S_ISDIR(s.st_mode);
    DIR *dir = only ? opendir(path) : NULL;
    only = dir != NULL;
    for (struct dirent *entry; only && (errno = 0, entry = readdir(dir));)
        only = strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0 ||
               is_known(dirfd(dir), entry->d_name, known, ctx);
    if (dir && errno != 0) only = false;
    if (dir) closedir(dir);
    return only;
}

int rt_dir_replace(const char *temp, const char *path, rt_known_fn known, void *ctx, rt_err *e)
{
    rt_arena a = { 0 };
    struct stat s;
    const char *old;
    char *target = trim(&a, path), *aside = target ? temp_name(&a, target) : NULL;
    int rc = aside ? sync_inside(&a, temp, e) : rt_fail(e, RT_NOMEM, "no memory to write %s", path);
    if (rc == RT_OK && lstat(target, &s) == 0 && S_ISLNK(s.st_mode))
        rc = rt_fail(e, RT_INVALID, "%s is a link and is not replaced; name the folder that it points to", path);
    if (rc == RT_OK && rt_path_exists(target) && !rt_dir_holds_only(target, known, ctx))
        rc = rt_fail(e, RT_INVALID, "%s holds what was not written there by retort, and is not replaced; move it away",
                     path);
    if (rc == RT_OK) {
        int code = exchange(temp, target, aside, &old);
        if (code != 0) rc = rt_write_fail(e, "replace", path, code);
    }
    /* The new one is certain before anything of the old one goes. */
    if (rc == RT_OK) rc = rt_folder_sync(target, e);
    if (rc == RT_OK) rt_dir_remove(old);
    rt_arena_free(&a);
    return rc;
}

/* Of the system, as it lies in what getdents64 gives. */
typedef struct entry {
    uint64_t inode;
    int64_t offset;
    unsigned short bytes;
    unsigned char type;
    char name[];
} entry;

static void remove_entry(int folder, const char *name, int depth);

/* Takes the descriptor. Allocates nothing and holds no lock: it may be called when a signal ends the process. */
static void remove_entries(int folder, int depth)
{
    _Alignas(entry) char buffer[2048];
    for (long n; (n = syscall(SYS_getdents64, folder, buffer, sizeof buffer)) > 0;)
        for (long at = 0; at < n;) {
            const entry *one = (const entry *)(const void *)(buffer + at);
            if (strcmp(one->name, ".") != 0 && strcmp(one->name, "..") != 0) remove_entry(folder, one->name, depth);
            at += one->bytes;
        }
    close(folder);
}

static void remove_entry(int folder, const char *name, int depth)
{
    if (unlinkat(folder, name, 0) == 0 || depth <= 1) return;
    int fd = openat(folder, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0) return;
    remove_entries(fd, depth - 1);
    unlinkat(folder, name, AT_REMOVEDIR);
}

static void remove_folder(const char *path, int depth)
{
    int fd = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0) return;
    remove_entries(fd, depth);
    rmdir(path);
}

void rt_dir_remove(const char *path)
{
    struct stat s;
    bool there = lstat(path, &s) == 0;
    remove_folder(path, REMOVE_DEPTH);
    if (there) let_scratch_go(&s);
}

void rt_temp_remove_all(void)
{
    for (unsigned i = 0; i < sizeof temps / sizeof *temps; i++)
        if (temps[i][0] && unlink(temps[i]) != 0) remove_folder(temps[i], SCRATCH_DEPTH);
}

/* A run of digits after *at; moves *at behind it. */
static bool pass_digits(const char **at)
{
    const char *begin = *at;
    while (**at >= '0' && **at <= '9') ++*at;
    return *at > begin;
}

bool rt_name_is_temp(const char *name)
{
    const char *end = NULL;
    if (*name != '.') return false;
    for (const char *at = name; (at = strstr(at, TEMP_MARK)); at++) end = at + strlen(TEMP_MARK);
    return end && pass_digits(&end) && *end++ == '-' && pass_digits(&end) && !*end;
}

void rt_dir_clean(const char *folder)
{
    rt_arena a = { 0 };
    char **names;
    uint32_t count = 0;
    if (rt_dir_list(&names, &count, &a, folder, NULL) < 0) count = 0;
    for (uint32_t i = 0; i < count; i++) {
        char *path = rt_name_is_temp(names[i]) ? rt_path_join(&a, folder, names[i]) : NULL;
        if (path && unlink(path) != 0) rt_dir_remove(path);
    }
    rt_arena_free(&a);
}
