/* cpu_count.c - how many cores this process may use.
 *
 * Owns: affinity mask and cgroup quotas as a number of cores. Leaves the search for the cgroup to procfs.c. A cpuset
 * needs no reading here: the kernel applies it to the affinity mask. */
#include "base/pool.h"
#include "base/procfs.h"

#include <sched.h>
#include <stddef.h>
#include <unistd.h>

/* Nothing but white space is left. */
static bool at_end(const char *text)
{
    while (*text == ' ' || *text == '\t' || *text == '\n') text++;
    return *text == '\0';
}

/* Rounded up: half a core is one thread that sleeps half of the time. */
static uint32_t quota_cpus(uint64_t quota, uint64_t period)
{
    if (quota == 0 || period == 0) return 0;
    uint64_t cpus = quota / period + (quota % period != 0);
    return cpus < UINT32_MAX ? (uint32_t)cpus : UINT32_MAX;
}

uint32_t rt_cgroup_v2_cpus(const char *cpu_max)
{
    uint64_t quota, period;
    const char *rest;
    if (!cpu_max || !rt_proc_u64(cpu_max, &quota, &rest)) return 0; /* "max": no limit */
    if (*rest != ' ' || !rt_proc_u64(rest, &period, &rest) || !at_end(rest)) return 0;
    return quota_cpus(quota, period);
}

uint32_t rt_cgroup_v1_cpus(const char *quota_us, const char *period_us)
{
    uint64_t quota, period;
    const char *rest;
    if (!quota_us || !period_us) return 0;
    if (!rt_proc_u64(quota_us, &quota, &rest) || !at_end(rest)) return 0; /* "-1": no limit */
    if (!rt_proc_u64(period_us, &period, &rest) || !at_end(rest)) return 0;
    return quota_cpus(quota, period);
}

static void visit_group(void *ctx, const char *dir, bool v2)
{
    uint32_t *least = ctx, cpus = 0;
    char first[128], second[128];
    if (v2) {
        if (rt_proc_read_at(dir, "cpu.max", first, sizeof first)) cpus = rt_cgroup_v2_cpus(first);
    } else if (rt_proc_read_at(dir, "cpu.cfs_quota_us", first, sizeof first) &&
               rt_proc_read_at(dir, "cpu.cfs_period_us", second, sizeof second)) {
        cpus = rt_cgroup_v1_cpus(first, second);
    }
    if (cpus > 0 && (*least == 0 || cpus < *least)) *least = cpus;
}

uint32_t rt_cgroup_cpus(const char *proc_self)
{
    uint32_t least = 0;
    rt_cgroup_walk(proc_self, "cpu", visit_group, &least);
    return least;
}

static uint32_t affinity_cpus(void)
{
    cpu_set_t set[8]; /* one holds 1024 cores; Linux knows at most 8192 */
    CPU_ZERO_S(sizeof set, set);
    int count = sched_getaffinity(0, sizeof set, set) == 0 ? CPU_COUNT_S(sizeof set, set) : 0;
    if (count > 0) return (uint32_t)count;
    long online = sysconf(_SC_NPROCESSORS_ONLN);
    return online > 0 ? (uint32_t)online : 1;
}

uint32_t rt_cpu_count(void)
{
    uint32_t cores = affinity_cpus(), quota = rt_cgroup_cpus("/proc/self");
    return quota > 0 && quota < cores ? quota : cores;
}
