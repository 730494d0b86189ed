/* vk_gpu.h - what a GPU is and has, before it is opened: names, features, queues, heaps. */
#ifndef RT_BACKEND_VULKAN_VK_GPU_H
#define RT_BACKEND_VULKAN_VK_GPU_H

#include "backend/vulkan/vk_internal.h"

#define RT_VK_NO_FAMILY UINT32_MAX

/* Whether there is a device file of a GPU, or drivers are named in the environment: else whoever wants no software
 * device need not start the loader, which takes some time. */
bool rt_vk_may_have_gpu(const char *const *env);
/* RT_NO_BACKEND where there is none. */
int rt_vk_gpu_count(const rt_vk_driver *vk, uint32_t *count, rt_err *e);
/* RT_NO_BACKEND where there is none of that number. */
int rt_vk_gpu_read(const rt_vk_driver *vk, uint32_t index, rt_vk_gpu *g, rt_err *e);
/* RT_NO_BACKEND says what it lacks. */
int rt_vk_gpu_usable(const rt_vk_gpu *g, rt_err *e);
/* Reads the heaps again; types may be null. */
void rt_vk_gpu_memory(const rt_vk_driver *vk, rt_vk_gpu *g, VkPhysicalDeviceMemoryProperties *types);
/* "discrete GPU, RADV Mesa 24.1, Vulkan 1.3, subgroups of 64, ..." */
void rt_vk_gpu_text(char *out, size_t size, const rt_vk_gpu *g, rt_mem_kind memory);

#endif
