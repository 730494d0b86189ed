/* vk_count.h - what instrumented shaders counted: make bench-vulkan alone has such.
 *
 * Owns: the memory of the counters, which vk_count.glsl lays out. Leaves to bench/bench_vulkan.c: what is compared. */
#ifndef RT_BACKEND_VULKAN_VK_COUNT_H
#define RT_BACKEND_VULKAN_VK_COUNT_H

#include "backend/vulkan/vk_internal.h"

enum { RT_VK_COUNT_WORDS = 5, RT_VK_COUNT_BANKS = 64, RT_VK_COUNT_LINES = 65536 };

/* Bytes that invocations asked for; bytes that a cache of 4 MiB fetches and writes back, in lines of 64; operations. */
typedef struct rt_vk_counts {
    uint64_t loaded, stored, fetched, written, flops;
} rt_vk_counts;

int rt_vk_counters_new(rt_vk_dev *d, rt_err *e);
/* What was counted since the last call. RT_UNSUPPORTED where shaders do not count. */
int rt_vk_counters_take(rt_dev *dev, rt_vk_counts *out, rt_err *e);

#endif
