/* sys.c - the clock, and what this machine is.
 *
 * Owns: reading memory sizes, names and cache sizes from the kernel. Leaves CPU features to backend/cpu and the count
 * of usable cores to cpu_count.c. */
#include "base/sys.h"

#include "base/procfs.h"

#include <elf.h>
#include <link.h>
#include <stdio.h>
#include <string.h>
#include <sys/utsname.h>
#include <time.h>
#include <unistd.h>

double rt_now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static uint64_t below(uint64_t from, uint64_t take) { return from > take ? from - take : 0; }

static void visit_memory_group(void *ctx, const char *dir, bool v2)
{
    rt_cgroup_memory *m = ctx;
    char number[64], stat[8192];
    uint64_t limit = 0, usage = 0, droppable = 0;
    const char *limit_file = v2 ? "memory.max" : "memory.limit_in_bytes";
    const char *usage_file = v2 ? "memory.current" : "memory.usage_in_bytes";
    if (!rt_proc_read_at(dir, limit_file, number, sizeof number)) return;
    /* v2 writes "max" where there is no limit, v1 a number that no machine has. */
    if (!rt_proc_u64(number, &limit, NULL) || limit >= UINT64_C(1) << 62) return;
    if (rt_proc_read_at(dir, usage_file, number, sizeof number)) rt_proc_u64(number, &usage, NULL);
    if (rt_proc_read_at(dir, "memory.stat", stat, sizeof stat))
        rt_proc_field(stat, v2 ? "inactive_file" : "total_inactive_file", &droppable);
    uint64_t room = below(limit, below(usage, droppable));
    if (m->limit == 0 || limit < m->limit) m->limit = limit;
    if (room < m->room) m->room = room;
}

rt_cgroup_memory rt_cgroup_memory_query(const char *proc_self)
{
    rt_cgroup_memory m = { 0, UINT64_MAX };
    rt_cgroup_walk(proc_self, "memory", visit_memory_group, &m);
    return m;
}

void rt_sys_memory_query(rt_sys_memory *out)
{
    char text[4096];
    uint64_t total = 0, available = 0;
    *out = (rt_sys_memory){ 0 };
    rt_proc_read("/proc/meminfo", text, sizeof text);
    if (rt_proc_field(text, "MemTotal", &total)) out->total = total * 1024;
    if (rt_proc_field(text, "MemAvailable", &available)) out->available = available * 1024;
    rt_cgroup_memory m = rt_cgroup_memory_query("/proc/self");
    out->cgroup_limit = m.limit;
    if (m.room < out->available) out->available = m.room;
}

/* Copies a value up to the end of its line, without blanks or quotes around it. */
static void copy_value(char *buf, size_t size, const char *value)
{
    while (*value == ' ' || *value == '\t' || *value == '"') value++;
    size_t n = strcspn(value, "\n");
    while (n > 0 && strchr(" \t\"", value[n - 1])) n--;
    snprintf(buf, size, "%.*s", (int)n, value);
}

/* The value of "key<blanks>: value" or "key=value" at the start of a line; null when it is not there. */
static const char *find_value(const char *text, const char *key, char separator)
{
    size_t n = strlen(key);
    for (const char *line = text; line; line = strchr(line, '\n')) {
        if (*line == '\n') line++;
        if (strncmp(line, key, n) != 0) continue;
        const char *at = line + n;
        while (*at == ' ' || *at == '\t') at++;
        if (*at == separator) return at + 1;
    }
    return NULL;
}

void rt_sys_cpu_name(char *buf, size_t size)
{
    char text[4096]; /* the first core's lines are enough */
    if (size == 0) return;
    rt_proc_read("/proc/cpuinfo", text, sizeof text);
    const char *name = find_value(text, "model name", ':');
    const char *maker = find_value(text, "CPU implementer", ':'), *part = find_value(text, "CPU part", ':');
    buf[0] = '\0';
    if (name) {
        copy_value(buf, size, name);
    } else if (maker && part) {
        char maker_id[32], part_id[32]; /* Arm kernels give numbers only */
        copy_value(maker_id, sizeof maker_id, maker);
        copy_value(part_id, sizeof part_id, part);
        snprintf(buf, size, "Arm implementer %s part %s", maker_id, part_id);
    }
    if (buf[0] == '\0') snprintf(buf, size, "unknown");
}

void rt_sys_os_name(char *buf, size_t size)
{
    struct utsname u;
    char text[4096], distribution[128] = "";
    if (size == 0) return;
    if (!rt_proc_read("/etc/os-release", text, sizeof text)) rt_proc_read("/usr/lib/os-release", text, sizeof text);
    const char *pretty = find_value(text, "PRETTY_NAME", '=');
    if (pretty) copy_value(distribution, sizeof distribution, pretty);
    if (uname(&u) != 0) {
        snprintf(buf, size, "%s", distribution[0] ? distribution : "unknown");
    } else {
        snprintf(buf, size, "%s %s %s%s%s", u.sysname, u.release, u.machine, distribution[0] ? ", " : "", distribution);
    }
}

uint64_t rt_sys_llc_bytes(void)
{
    uint64_t best_level = 0, best_bytes = 0;
    for (int i = 0; i < 16; i++) {
        char dir[64], text[64];
        uint64_t level, bytes;
        const char *unit;
        snprintf(dir, sizeof dir, "/sys/devices/system/cpu/cpu0/cache/index%d", i);
        if (!rt_proc_read_at(dir, "level", text, sizeof text) || !rt_proc_u64(text, &level, NULL)) continue;
        if (!rt_proc_read_at(dir, "type", text, sizeof text) || strncmp(text, "Instruction", 11) == 0) continue;
        if (!rt_proc_read_at(dir, "size", text, sizeof text) || !rt_proc_u64(text, &bytes, &unit)) continue;
        bytes *= *unit == 'K' ? 1024 : *unit == 'M' ? 1024 * 1024 : 1;
        if (level > best_level) {
            best_level = level;
            best_bytes = bytes;
        }
    }
#ifdef _SC_LEVEL3_CACHE_SIZE
    /* Where /sys is hidden, the C library may know from the processor itself. */
    long l3 = best_bytes ? 0 : sysconf(_SC_LEVEL3_CACHE_SIZE);
    if (l3 > 0) best_bytes = (uint64_t)l3;
#endif
    return best_bytes;
}

uint64_t rt_sys_process_memory(void)
{
    char text[8192];
    uint64_t kib = 0;
    rt_proc_read("/proc/self/status", text, sizeof text);
    return rt_proc_field(text, "RssAnon", &kib) ? kib * 1024 : 0;
}

/* Notes: name size, content size, type, then name and content, each padded to four bytes. */
static bool find_build_id(const uint8_t *at, size_t bytes, char *buf)
{
    ElfW(Nhdr) n;
    while (bytes >= sizeof n) {
        memcpy(&n, at, sizeof n);
        size_t name = ((size_t)n.n_namesz + 3) & ~(size_t)3, content = ((size_t)n.n_descsz + 3) & ~(size_t)3;
        if (name > bytes - sizeof n || content > bytes - sizeof n - name) return false;
        if (n.n_type == NT_GNU_BUILD_ID && n.n_namesz == 4 && memcmp(at + sizeof n, "GNU", 4) == 0 &&
            2 * (size_t)n.n_descsz < RT_BUILD_ID_TEXT) {
            for (size_t i = 0; i < n.n_descsz; i++) snprintf(buf + 2 * i, 3, "%02x", at[sizeof n + name + i]);
            return true;
        }
        at += sizeof n + name + content;
        bytes -= sizeof n + name + content;
    }
    return false;
}

/* The program itself comes first, and is the only one that is asked. */
static int visit_program(struct dl_phdr_info *info, size_t size, void *buf)
{
    (void)size;
    for (ElfW(Half) i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *p = &info->dlpi_phdr[i];
        if (p->p_type == PT_NOTE && find_build_id((const uint8_t *)(info->dlpi_addr + p->p_vaddr), p->p_memsz, buf))
            break;
    }
    return 1;
}

void rt_sys_build_id(char buf[RT_BUILD_ID_TEXT])
{
    buf[0] = 0;
    dl_iterate_phdr(visit_program, buf);
}
