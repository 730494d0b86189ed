/* procfs.h - reading /proc, /sys and the cgroup tree without allocating. Internal to base.
 *
 * Owns: the head of a file as text, a file line by line, the directories of the control groups this process is in.
 * What the files in those directories mean is for cpu_count.c and sys.c. Nothing here fails loudly: a file that is not
 * there tells nothing, and the caller goes on with what it knows. */
#ifndef RT_BASE_PROCFS_H
#define RT_BASE_PROCFS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The first size-1 bytes of a file, terminated. false (and an empty text) when it cannot be read. */
bool rt_proc_read(const char *path, char *buf, size_t size);
/* The same for dir/name. */
bool rt_proc_read_at(const char *dir, const char *name, char *buf, size_t size);
/* A decimal number at the start of text, after blanks; end (may be null) is where it stopped. false when there is none
 * or it does not fit. */
bool rt_proc_u64(const char *text, uint64_t *out, const char **end);
/* The number after key at the start of a line of text: "MemTotal: 24684100 kB", "inactive_file 4096". */
bool rt_proc_field(const char *text, const char *key, uint64_t *out);

/* Calls visit for every line, without its newline, until it returns false. Lines over 8 KiB are left out. */
void rt_proc_lines(const char *path, bool (*visit)(void *ctx, char *line), void *ctx);

/* Calls visit for each directory that can limit this process in the cgroup v2 tree and in the v1 tree of controller
 * ("cpu", "memory"): its own group, then every parent up to the mount point. proc_self is "/proc/self"; tests pass a
 * directory of their own with the files `cgroup` and `mountinfo`. */
void rt_cgroup_walk(const char *proc_self, const char *controller, void (*visit)(void *ctx, const char *dir, bool v2),
                    void *ctx);

/* Cores by the least quota on that walk, 0 when there is none (cpu_count.c). */
uint32_t rt_cgroup_cpus(const char *proc_self);

/* Memory on that walk (sys.c): the least limit, 0 when there is none, and the least room below any limit (UINT64_MAX
 * when there is none). Page cache that the kernel can drop at once counts as room. */
typedef struct rt_cgroup_memory {
    uint64_t limit, room;
} rt_cgroup_memory;
rt_cgroup_memory rt_cgroup_memory_query(const char *proc_self);

#endif
