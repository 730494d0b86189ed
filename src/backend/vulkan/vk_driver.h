/* vk_driver.h - the Vulkan loader, opened at run time.
 *
 * Owns: the one list of its functions, and turning its results into statuses and sentences. Types and numbers come from
 * Vulkan's own headers, which are free and in every distribution; nothing is linked. Leaves to the rest of the room:
 * every use. */
#ifndef RT_BACKEND_VULKAN_VK_DRIVER_H
#define RT_BACKEND_VULKAN_VK_DRIVER_H

#include "base/dynlib.h"
#include "base/err.h"

#include <stdint.h>

#define VK_NO_PROTOTYPES
#include <vulkan/vulkan_core.h>

/* member, symbol */
#define RT_VK_LIST(X)                                                                                                  \
    X(version, vkEnumerateInstanceVersion)                                                                             \
    X(instance_new, vkCreateInstance)                                                                                  \
    X(instance_free, vkDestroyInstance)                                                                                \
    X(gpus, vkEnumeratePhysicalDevices)                                                                                \
    X(gpu_properties, vkGetPhysicalDeviceProperties2)                                                                  \
    X(gpu_features, vkGetPhysicalDeviceFeatures2)                                                                      \
    X(gpu_memory, vkGetPhysicalDeviceMemoryProperties2)                                                                \
    X(gpu_queues, vkGetPhysicalDeviceQueueFamilyProperties)                                                            \
    X(gpu_extensions, vkEnumerateDeviceExtensionProperties)                                                            \
    X(device_new, vkCreateDevice)                                                                                      \
    X(device_free, vkDestroyDevice)                                                                                    \
    X(device_wait, vkDeviceWaitIdle)                                                                                   \
    X(queue_get, vkGetDeviceQueue)                                                                                     \
    X(submit, vkQueueSubmit)                                                                                           \
    X(semaphore_new, vkCreateSemaphore)                                                                                \
    X(semaphore_free, vkDestroySemaphore)                                                                              \
    X(semaphores_wait, vkWaitSemaphores)                                                                               \
    X(buffer_new, vkCreateBuffer)                                                                                      \
    X(buffer_free, vkDestroyBuffer)                                                                                    \
    X(buffer_needs, vkGetBufferMemoryRequirements)                                                                     \
    X(buffer_bind, vkBindBufferMemory)                                                                                 \
    X(buffer_address, vkGetBufferDeviceAddress)                                                                        \
    X(memory_new, vkAllocateMemory)                                                                                    \
    X(memory_free, vkFreeMemory)                                                                                       \
    X(memory_map, vkMapMemory)                                                                                         \
    X(module_new, vkCreateShaderModule)                                                                                \
    X(module_free, vkDestroyShaderModule)                                                                              \
    X(layout_new, vkCreatePipelineLayout)                                                                              \
    X(layout_free, vkDestroyPipelineLayout)                                                                            \
    X(pipelines_new, vkCreateComputePipelines)                                                                         \
    X(pipeline_free, vkDestroyPipeline)                                                                                \
    X(cache_new, vkCreatePipelineCache)                                                                                \
    X(cache_free, vkDestroyPipelineCache)                                                                              \
    X(cache_data, vkGetPipelineCacheData)                                                                              \
    X(queries_new, vkCreateQueryPool)                                                                                  \
    X(queries_free, vkDestroyQueryPool)                                                                                \
    X(queries_reset, vkCmdResetQueryPool)                                                                              \
    X(queries_read, vkGetQueryPoolResults)                                                                             \
    X(timestamp, vkCmdWriteTimestamp)                                                                                  \
    X(pool_new, vkCreateCommandPool)                                                                                   \
    X(pool_free, vkDestroyCommandPool)                                                                                 \
    X(commands_new, vkAllocateCommandBuffers)                                                                          \
    X(commands_free, vkFreeCommandBuffers)                                                                             \
    X(commands_begin, vkBeginCommandBuffer)                                                                            \
    X(commands_end, vkEndCommandBuffer)                                                                                \
    X(bind, vkCmdBindPipeline)                                                                                         \
    X(push, vkCmdPushConstants)                                                                                        \
    X(dispatch, vkCmdDispatch)                                                                                         \
    X(barrier, vkCmdPipelineBarrier)                                                                                   \
    X(copy, vkCmdCopyBuffer)

typedef struct rt_vk_driver {
    rt_dynlib lib;
    VkInstance instance;
#define X(member, symbol) PFN_##symbol member;
    RT_VK_LIST(X)
#undef X
} rt_vk_driver;

/* Opens the loader and makes an instance of Vulkan 1.2. RT_NO_BACKEND, with what to do, when there is none, when it is
 * older, or when no driver is installed. */
int rt_vk_driver_open(rt_vk_driver *vk, rt_err *e);
void rt_vk_driver_close(rt_vk_driver *vk); /* accepts zeroes */

/* RT_OK, or result as a status with a sentence: "allocating 2.00 GiB: out of device memory (VkResult -2)". Memory is
 * RT_NOMEM, everything else RT_DEVICE. */
int rt_vk_status(VkResult result, rt_err *e, const char *format, ...) __attribute__((format(printf, 3, 4)));

#endif
