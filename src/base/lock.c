/* lock.c - see lock.h. */
#include "base/lock.h"

#include "base/file.h"
#include "base/procfs.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define LOCK_NAME "retort.lock"
#define OWNER_NAME "retort.owner"
/* The first line: by it a file is known as ours. One that was created and not yet written to is empty, and one that was
 * not on disk when the power failed has a beginning of it, or zeros. */
#define MARK "retort.lock 1: whoever holds a lock on this file writes here, and nobody else does\n"

enum {
    TRIES = 100, /* a file that was removed when its lock was got; a holder that has not said who it is */
    HOLDER_BYTES = 320,
    COMMAND_BYTES = 160,
};

struct rt_lock {
    int fd;
    bool created;
    bool owner; /* there are no locks here: OWNER_NAME stands for it, and is this file */
    dev_t owner_dev;
    ino_t owner_ino;
    char *path, *owner_path;
    rt_arena arena; /* the names */
};

bool rt_lock_is_name(const char *name) { return strcmp(name, LOCK_NAME) == 0 || strcmp(name, OWNER_NAME) == 0; }

/* ---- who holds it ---- */

/* What is no plain character would be an escape sequence on somebody's terminal. */
static void make_plain(char *text)
{
    for (; *text; text++)
        if ((unsigned char)*text < 0x20 || (unsigned char)*text >= 0x7f) *text = '?';
}

/* "process 71 on host gpu1 since 2026-11-16T10:00:00Z: retort distill ...", of this process. */
static void describe_self(char text[HOLDER_BYTES])
{
    char host[64] = "", since[32] = "", command[COMMAND_BYTES + 3] = { 0 };
    time_t now = time(NULL);
    struct tm utc;
    if (gethostname(host, sizeof host - 1) != 0) snprintf(host, sizeof host, "unknown");
    if (gmtime_r(&now, &utc)) strftime(since, sizeof since, "%Y-%m-%dT%H:%M:%SZ", &utc);
    rt_proc_read("/proc/self/cmdline", command, sizeof command);
    size_t used = sizeof command;
    while (used > 0 && !command[used - 1]) used--;
    for (size_t i = 0; i < used; i++)
        if (!command[i]) command[i] = ' '; /* words end with a null */
    if (used > COMMAND_BYTES) memcpy(command + COMMAND_BYTES - 3, "...", sizeof "...");
    snprintf(text, HOLDER_BYTES, "process %ld on host %s since %s: %s", (long)getpid(), host, since,
             *command ? command : "retort");
    make_plain(text);
}

/* n bytes that begin as ours do; or less of it, and then nothing but zeros. */
static bool is_ours(const char *text, size_t n)
{
    size_t len = strnlen(text, n), mark = strlen(MARK), zeros = len;
    while (zeros < n && !text[zeros]) zeros++;
    return memcmp(text, MARK, len < mark ? len : mark) == 0 && (len >= mark || zeros == n);
}

/* Whether it is ours; holder: its second line, empty when it has none. */
static bool read_holder(int fd, char holder[HOLDER_BYTES])
{
    char text[sizeof MARK + HOLDER_BYTES] = "";
    ssize_t n = pread(fd, text, sizeof text - 1, 0);
    holder[0] = '\0';
    if (n < 0 || !is_ours(text, (size_t)n)) return false;
    if (strlen(text) < strlen(MARK)) return true;
    char *line = text + strlen(MARK), *end = strchr(line, '\n');
    if (end) *end = '\0';
    snprintf(holder, HOLDER_BYTES, "%.*s", HOLDER_BYTES - 1, line);
    make_plain(holder);
    return true;
}

/* For people alone: a full disk is no reason to fail. holder: null when nobody holds it any more. */
static void write_holder(int fd, const char *holder)
{
    char text[sizeof MARK + HOLDER_BYTES + 1];
    int n = snprintf(text, sizeof text, MARK "%s%s", holder ? holder : "", holder ? "\n" : "");
    if (pwrite(fd, text, (size_t)n, 0) == n) n = ftruncate(fd, n);
}

static int in_use(int fd, const char *what, const char *owner, rt_err *e)
{
    char holder[HOLDER_BYTES] = "";
    for (int i = 0; i < TRIES && read_holder(fd, holder) && !*holder; i++)
        nanosleep(&(struct timespec){ .tv_nsec = 1000000 }, NULL); /* whoever took it writes this next */
    if (!*holder) snprintf(holder, sizeof holder, "another process");
    if (owner)
        return rt_fail(e, RT_INVALID,
                       "%s is in use by %s; its file system has no locks, so if that process has ended, remove %s",
                       what, holder, owner);
    return rt_fail(e, RT_INVALID, "%s is in use by %s; wait for it, stop it, or name another folder", what, holder);
}

/* ---- taking ---- */

static int system_fail(const char *path, int code, rt_err *e)
{
    if (code == ENOENT || code == ENOTDIR)
        return rt_fail(e, RT_NOT_FOUND, "%s cannot be made: %s", path, strerror(code));
    return rt_fail(e, RT_IO, "%s cannot be locked: %s%s", path, strerror(code),
                   code == EACCES || code == EPERM ? "; check the permissions of the file and its folder" : "");
}

/* 0, or the system's error: EAGAIN when somebody else has it. */
static int try_lock(int fd, int command, short *type)
{
    struct flock l = { .l_type = *type, .l_whence = SEEK_SET };
    int code;
    do code = fcntl(fd, command, &l) == 0 ? 0 : errno;
    while (code == EINTR);
    *type = l.l_type;
    return code == EACCES ? EAGAIN : code;
}

static bool has_no_locks(int code) { return code == ENOLCK || code == EOPNOTSUPP || code == ENOSYS || code == EINVAL; }

/* Another file may have the name by now, or none. */
static bool still_named(int fd, const char *path)
{
    struct stat mine, there;
    return fstat(fd, &mine) == 0 && lstat(path, &there) == 0 && mine.st_dev == there.st_dev &&
           mine.st_ino == there.st_ino;
}

static int take_owner(rt_lock *l, const char *what, const char *holder, rt_err *e)
{
    int rc = RT_OK, fd = open(l->owner_path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0666);
    if (fd >= 0) {
        struct stat s;
        l->owner = fstat(fd, &s) == 0;
        if (!l->owner) rc = system_fail(l->owner_path, errno, e);
        l->owner_dev = s.st_dev;
        l->owner_ino = s.st_ino;
        write_holder(fd, holder);
    } else if (errno != EEXIST) {
        return system_fail(l->owner_path, errno, e);
    } else {
        fd = open(l->owner_path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
        rc = in_use(fd, what, l->owner_path, e);
    }
    if (fd >= 0) close(fd);
    return rc;
}

/* 1: the file that was opened is no longer the one of that name. */
static int take_file(rt_lock *l, const char *what, rt_err *e)
{
    char holder[HOLDER_BYTES];
    short type = F_WRLCK;
    struct stat s;
    l->fd = open(l->path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0666);
    l->created = l->fd >= 0;
    if (l->fd < 0 && errno == EEXIST) {
        l->fd = open(l->path, O_RDWR | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
        if (l->fd < 0 && errno == ENOENT) return 1;
    }
    if (l->fd < 0) return system_fail(l->path, errno, e);
    if (fstat(l->fd, &s) != 0 || !S_ISREG(s.st_mode) || !read_holder(l->fd, holder))
        return rt_fail(e, RT_INVALID, "%s is there and is no lock of retort's; move it away, or name another folder",
                       l->path);
    describe_self(holder);
    int code = try_lock(l->fd, F_OFD_SETLK, &type);
    if (code == EAGAIN) return in_use(l->fd, what, NULL, e);
    int rc = has_no_locks(code) ? take_owner(l, what, holder, e) : code ? system_fail(l->path, code, e) : RT_OK;
    if (rc < 0) return rc;
    if (!still_named(l->fd, l->path)) return 1;
    write_holder(l->fd, holder);
    /* Its name tells whose the other names in the folder are: it is on disk before they can be. */
    return l->created ? rt_folder_sync(l->path, e) : RT_OK;
}

static bool owner_named(const rt_lock *l)
{
    struct stat there;
    return !l->owner ||
           (lstat(l->owner_path, &there) == 0 && there.st_dev == l->owner_dev && there.st_ino == l->owner_ino);
}

static void let_go(rt_lock *l)
{
    if (l->owner && owner_named(l)) unlink(l->owner_path);
    if (l->fd >= 0) close(l->fd);
    l->owner = false;
    l->fd = -1;
}

static int new_lock(rt_lock **out, const char *folder, rt_err *e)
{
    rt_lock *l = rt_alloc_zero(sizeof *l, _Alignof(rt_lock));
    if (l) {
        l->fd = -1;
        l->path = rt_path_join(&l->arena, folder, LOCK_NAME);
        l->owner_path = rt_path_join(&l->arena, folder, OWNER_NAME);
    }
    *out = l;
    return l && l->path && l->owner_path ? RT_OK : rt_fail(e, RT_NOMEM, "no memory to lock %s", folder);
}

static void free_lock(rt_lock *l)
{
    if (!l) return;
    let_go(l);
    rt_arena_free(&l->arena);
    rt_free(l);
}

int rt_lock_take(rt_lock **out, const char *folder, const char *what, rt_err *e)
{
    rt_lock *l;
    int rc = new_lock(&l, folder, e);
    *out = NULL;
    if (rc == RT_OK) rc = 1;
    for (int i = 0; i < TRIES && rc == 1; i++) {
        let_go(l);
        rc = take_file(l, what, e);
    }
    if (rc == 1) rc = rt_fail(e, RT_IO, "%s cannot be locked: others remove it all the time", l->path);
    if (rc == RT_OK)
        *out = l;
    else
        free_lock(l);
    return rc;
}

int rt_lock_check(const char *folder, const char *what, rt_err *e)
{
    rt_lock *l;
    int fd, rc = new_lock(&l, folder, e);
    short type = F_WRLCK;
    if (rc == RT_OK && (fd = open(l->path, O_RDWR | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK)) >= 0) {
        if (try_lock(fd, F_OFD_GETLK, &type) == 0 && type != F_UNLCK) rc = in_use(fd, what, NULL, e);
        close(fd);
    }
    if (rc == RT_OK && (fd = open(l->owner_path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK)) >= 0) {
        rc = in_use(fd, what, l->owner_path, e);
        close(fd);
    }
    free_lock(l);
    return rc;
}

int rt_lock_held(const rt_lock *l, const char *what, rt_err *e)
{
    if (still_named(l->fd, l->path) && owner_named(l)) return RT_OK;
    return rt_fail(
        e, RT_INVALID,
        "%s no longer belongs to this process: its lock %s was removed, or the folder was moved or replaced; "
        "nothing more is written there",
        what, l->path);
}

void rt_lock_release(rt_lock *l)
{
    if (l) let_go(l);
}

void rt_lock_free(rt_lock *l, bool remove)
{
    if (!l) return;
    if (remove && l->created && still_named(l->fd, l->path))
        unlink(l->path); /* before it is let go of: nobody takes the lock of a file that still has the name */
    else
        write_holder(l->fd, NULL);
    free_lock(l);
}
