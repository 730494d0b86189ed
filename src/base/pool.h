/* pool.h - a fixed pool of threads that runs numbered chunks.
 *
 * Owns: threads, and how many this process may use. A job is cut by its caller into chunks whose number does not
 * depend on the number of threads; which thread runs which chunk is free. So results do not depend on the pool.
 * One job at a time per pool; submit from one thread. After rt_pool_new nothing is allocated. */
#ifndef RT_BASE_POOL_H
#define RT_BASE_POOL_H

#include "base/err.h"

#include <stdint.h>

typedef struct rt_pool rt_pool;
/* chunk in [0, chunks); worker in [0, rt_pool_threads): an index for per-thread scratch */
typedef void (*rt_chunk_fn)(void *ctx, uint32_t chunk, uint32_t worker);

/* threads >= 1, including the caller, which works too. */
int rt_pool_new(rt_pool **out, uint32_t threads, rt_err *e);
void rt_pool_free(rt_pool *p); /* accepts null */
uint32_t rt_pool_threads(const rt_pool *p);
/* Runs fn for every chunk and returns when all are done. Everything written before the call is visible to the chunks,
 * and everything they wrote is visible after it. */
void rt_pool_run(rt_pool *p, uint32_t chunks, rt_chunk_fn fn, void *ctx);

/* Cores this process may use: affinity mask, cut by the cgroup (v1 or v2) quota rounded up; at least 1. */
uint32_t rt_cpu_count(void);
/* The quota part of it, as a pure function of the two files' texts: cgroup v2 `cpu.max` ("max 100000"), or v1 quota and
 * period. 0 when there is no limit. For tests. */
uint32_t rt_cgroup_v2_cpus(const char *cpu_max);
uint32_t rt_cgroup_v1_cpus(const char *quota_us, const char *period_us);

#endif
