/* procfs.c - small texts of /proc and /sys, and the walk over this process's control groups.
 *
 * Owns: finding the directories, with the paths as the kernel writes them (mount roots, escapes, hybrid v1 + v2
 * layouts). Leaves the meaning of the files to cpu_count.c and sys.c. Fixed buffers throughout: these facts are asked
 * for when memory may already be short. */
#include "base/procfs.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum {
    LINE_MAX_BYTES = 8192,
    PATH_BYTES = 4096,
};

/* Bytes read, 0 at the end or on error. */
static size_t read_some(int fd, char *buf, size_t size)
{
    ssize_t n;
    do n = read(fd, buf, size);
    while (n < 0 && errno == EINTR);
    return n > 0 ? (size_t)n : 0;
}

bool rt_proc_read(const char *path, char *buf, size_t size)
{
    size_t used = 0, n = 0;
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd >= 0) {
        while (used + 1 < size && (n = read_some(fd, buf + used, size - 1 - used)) > 0) used += n;
        close(fd);
    }
    buf[used] = '\0';
    return used > 0;
}

bool rt_proc_read_at(const char *dir, const char *name, char *buf, size_t size)
{
    char path[PATH_BYTES];
    int n = snprintf(path, sizeof path, "%s/%s", dir, name);
    buf[0] = '\0';
    return n > 0 && n < (int)sizeof path && rt_proc_read(path, buf, size);
}

bool rt_proc_u64(const char *text, uint64_t *out, const char **end)
{
    while (*text == ' ' || *text == '\t') text++;
    if (*text < '0' || *text > '9') return false;
    uint64_t x = 0;
    for (; *text >= '0' && *text <= '9'; text++)
        if (__builtin_mul_overflow(x, 10u, &x) || __builtin_add_overflow(x, (uint64_t)(*text - '0'), &x)) return false;
    *out = x;
    if (end) *end = text;
    return true;
}

bool rt_proc_field(const char *text, const char *key, uint64_t *out)
{
    size_t n = strlen(key);
    for (const char *line = text; line; line = strchr(line, '\n')) {
        if (*line == '\n') line++;
        if (strncmp(line, key, n) == 0 && (line[n] == ' ' || line[n] == '\t' || line[n] == ':'))
            return rt_proc_u64(line + n + (line[n] == ':'), out, NULL);
    }
    return false;
}

void rt_proc_lines(const char *path, bool (*visit)(void *ctx, char *line), void *ctx)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) return;
    char buf[LINE_MAX_BYTES + 1];
    size_t used = 0, n;
    bool go_on = true, skipping = false;
    while (go_on && (n = read_some(fd, buf + used, LINE_MAX_BYTES - used)) > 0) {
        used += n;
        char *line = buf, *newline;
        while (go_on && (newline = memchr(line, '\n', used - (size_t)(line - buf)))) {
            *newline = '\0';
            if (!skipping) go_on = visit(ctx, line);
            skipping = false;
            line = newline + 1;
        }
        used -= (size_t)(line - buf);
        memmove(buf, line, used);
        if (used == LINE_MAX_BYTES) {
            skipping = true;
            used = 0;
        }
    }
    close(fd);
    buf[used] = '\0';
    if (go_on && !skipping && used > 0) visit(ctx, buf);
}

/* Whether word is an entry of a comma-separated list of n bytes. */
static bool list_has(const char *list, size_t n, const char *word)
{
    size_t length = strlen(word);
    for (const char *end = list + n, *at = list; at < end;) {
        const char *comma = memchr(at, ',', (size_t)(end - at));
        const char *stop = comma ? comma : end;
        if ((size_t)(stop - at) == length && memcmp(at, word, length) == 0) return true;
        at = stop + 1;
    }
    return false;
}

typedef struct walk {
    const char *controller;
    void (*visit)(void *ctx, const char *dir, bool v2);
    void *ctx;
    bool v2;               /* the tree being looked for */
    bool found;            /* /proc/self/cgroup names a group in it */
    bool inside;           /* false: take mounts of which the group cannot be shown to be a part */
    uint32_t mounts;       /* mounts that were walked */
    char path[PATH_BYTES]; /* the process's group in that tree, without a trailing slash: "" is the root */
} walk;

/* "4:cpu,cpuacct:/a/b" is a v1 tree, "0::/a/b" the v2 one. */
static bool cgroup_line(void *ctx, char *line)
{
    walk *w = ctx;
    const char *controllers = strchr(line, ':');
    if (!controllers) return true;
    const char *path = strchr(++controllers, ':');
    if (!path) return true;
    size_t n = (size_t)(path++ - controllers), length = strlen(path);
    if (w->v2 ? n != 0 : !list_has(controllers, n, w->controller)) return true;
    if (path[0] != '/' || length >= sizeof w->path) return true;
    while (length > 0 && path[length - 1] == '/') length--;
    memcpy(w->path, path, length);
    w->path[length] = '\0';
    w->found = true;
    return false;
}

/* Undoes the octal escapes of mountinfo (blank, tab, newline, backslash) in place. */
static void unescape(char *s)
{
    char *to = s;
    for (; *s; s++) {
        if (s[0] == '\\' && s[1] >= '0' && s[1] <= '3' && s[2] >= '0' && s[2] <= '7' && s[3] >= '0' && s[3] <= '7') {
            *to++ = (char)((s[1] - '0') * 64 + (s[2] - '0') * 8 + (s[3] - '0'));
            s += 3;
        } else {
            *to++ = *s;
        }
    }
    *to = '\0';
}

/* The part of the group's path below the mount's root, or null when the group is not below it. */
static const char *below_root(const char *path, const char *root)
{
    size_t n = strlen(root);
    while (n > 0 && root[n - 1] == '/') n--;
    if (strncmp(path, root, n) != 0 || (path[n] != '/' && path[n] != '\0')) return NULL;
    /* A group outside our cgroup namespace reads "/../x": the mount does not show it. */
    return strstr(path + n, "/..") ? NULL : path + n;
}

static void walk_up(walk *w, const char *mount, const char *below)
{
    char dir[PATH_BYTES];
    size_t base = strlen(mount);
    int n = snprintf(dir, sizeof dir, "%s%s", mount, below);
    if (n < 0 || n >= (int)sizeof dir) return;
    w->mounts++;
    for (;;) {
        w->visit(w->ctx, dir, w->v2);
        if (strlen(dir) <= base) return;
        *strrchr(dir, '/') = '\0'; /* below begins with a slash, so this never cuts into the mount point */
    }
}

/* "31 23 0:28 /root /mount/point rw,relatime shared:1 - cgroup cgroup rw,cpu,cpuacct" */
static bool mount_line(void *ctx, char *line)
{
    walk *w = ctx;
    char *dash = strstr(line, " - ");
    if (!dash) return true;
    *dash = '\0';
    char *save = NULL, *field[5] = { 0 };
    char *tail[3] = { 0 }; /* file system, source, options */
    for (int i = 0; i < 3; i++) tail[i] = strtok_r(i ? NULL : dash + 3, " ", &save);
    for (int i = 0; i < 5; i++) field[i] = strtok_r(i ? NULL : line, " ", &save);
    if (!tail[2] || !field[4]) return true;
    if (strcmp(tail[0], w->v2 ? "cgroup2" : "cgroup") != 0) return true;
    if (!w->v2 && !list_has(tail[2], strlen(tail[2]), w->controller)) return true;
    char *root = field[3], *mount = field[4];
    unescape(root);
    unescape(mount);
    const char *below = below_root(w->path, root);
    if (below) {
        walk_up(w, mount, below);
    } else if (!w->inside) {
        walk_up(w, mount, "");
    }
    return true;
}

/* The mounts of control groups among our own, as they were when they were first asked for: the list is long, the kernel
 * writes it anew for every reader, and free memory is asked for at every seal. */
static struct {
    pthread_once_t once;
    bool cut; /* there are more */
    size_t len;
    char text[4 * LINE_MAX_BYTES];
} own_mounts = { .once = PTHREAD_ONCE_INIT };

static bool keep_mount(void *ctx, char *line)
{
    size_t n = strlen(line) + 1;
    (void)ctx;
    if (!strstr(line, " - cgroup")) return true;
    own_mounts.cut = n > sizeof own_mounts.text - own_mounts.len;
    if (own_mounts.cut) return false;
    memcpy(own_mounts.text + own_mounts.len, line, n);
    own_mounts.len += n;
    return true;
}

static void read_own_mounts(void) { rt_proc_lines("/proc/self/mountinfo", keep_mount, NULL); }

static void walk_mounts(walk *w, const char *mounts)
{
    if (strcmp(mounts, "/proc/self/mountinfo") == 0) pthread_once(&own_mounts.once, read_own_mounts);
    if (own_mounts.cut || strcmp(mounts, "/proc/self/mountinfo") != 0) {
        rt_proc_lines(mounts, mount_line, w);
        return;
    }
    char line[LINE_MAX_BYTES + 1]; /* it is taken apart */
    for (const char *at = own_mounts.text; at < own_mounts.text + own_mounts.len; at += strlen(at) + 1)
        mount_line(w, strcpy(line, at));
}

void rt_cgroup_walk(const char *proc_self, const char *controller, void (*visit)(void *ctx, const char *dir, bool v2),
                    void *ctx)
{
    char groups[PATH_BYTES], mounts[PATH_BYTES];
    int n = snprintf(groups, sizeof groups, "%s/cgroup", proc_self);
    int m = snprintf(mounts, sizeof mounts, "%s/mountinfo", proc_self);
    if (n < 0 || m < 0 || n >= (int)sizeof groups || m >= (int)sizeof mounts) return;
    for (int v2 = 0; v2 <= 1; v2++) {
        walk w = { .controller = controller, .visit = visit, .ctx = ctx, .v2 = v2, .inside = true };
        rt_proc_lines(groups, cgroup_line, &w);
        if (!w.found) continue;
        walk_mounts(&w, mounts);
        if (w.mounts > 0) continue;
        /* Some containers name a group that no mount shows; what is mounted is then the container's own group. */
        w.inside = false;
        walk_mounts(&w, mounts);
    }
}
