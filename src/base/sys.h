/* sys.h - facts about the machine and the clock. Reads /proc and the like; keeps no state. */
#ifndef RT_BASE_SYS_H
#define RT_BASE_SYS_H

#include <stddef.h>
#include <stdint.h>

double rt_now(void); /* seconds on a monotonic clock */

typedef struct rt_sys_memory {
    uint64_t total, available; /* bytes; available is cut by the cgroup limit where there is one */
    uint64_t cgroup_limit;     /* 0: none */
} rt_sys_memory;
void rt_sys_memory_query(rt_sys_memory *out);
/* Resident memory of this process that no file backs, in bytes; 0 when the system does not tell. */
uint64_t rt_sys_process_memory(void);
/* "AMD EPYC 9474F", or "unknown". Always terminated. */
void rt_sys_cpu_name(char *buf, size_t size);
/* "Linux 6.1.0 x86_64", "Debian GNU/Linux 12 (bookworm)". Always terminated. */
void rt_sys_os_name(char *buf, size_t size);
/* The build id that the linker put into the running program, as hex digits; empty when it has none. */
enum { RT_BUILD_ID_TEXT = 65 };
void rt_sys_build_id(char buf[RT_BUILD_ID_TEXT]);
/* bytes of last-level cache of cpu 0, or 0 when the system does not tell */
uint64_t rt_sys_llc_bytes(void);

#endif
