/* vk_policy.h - decisions of this backend as pure functions: which memory, how much of it, what a device must have.
 *
 * Nothing here calls the driver or keeps state, so every case can be tested on any machine. */
#ifndef RT_BACKEND_VULKAN_VK_POLICY_H
#define RT_BACKEND_VULKAN_VK_POLICY_H

#include "backend/backend.h"
#include "backend/vulkan/vk_options.h"

#define VK_NO_PROTOTYPES
#include <vulkan/vulkan_core.h>

/* What was asked of a device. */
typedef struct rt_vk_features {
    uint32_t api;        /* VkPhysicalDeviceProperties.apiVersion */
    bool address;        /* bufferDeviceAddress: operands are addresses */
    bool timeline;       /* timelineSemaphore: tickets */
    bool int64;          /* shaderInt64: arithmetic of addresses */
    bool storage16;      /* storageBuffer16BitAccess: bf16 and f16 are stored */
    bool storage8;       /* storageBuffer8BitAccess: quantised blocks, e4m3, 8-bit moments */
    bool scalar;         /* scalarBlockLayout: structs as C has them */
    bool float64;        /* shaderFloat64: told, not needed */
    uint32_t push_bytes; /* maxPushConstantsSize */
    uint32_t threads;    /* maxComputeWorkGroupInvocations */
    uint32_t shared;     /* maxComputeSharedMemorySize */
} rt_vk_features;

enum { RT_VK_SHARED_BYTES = 16384, RT_VK_THREADS = 256, RT_VK_PUSH_BYTES = 128 };

/* Null: the device can be used. Else what it lacks, in words. */
const char *rt_vk_lacks(const rt_vk_features *f);

/* Mesa's software driver ends the loops of an invocation after so many rounds, all of them together and without a word;
 * so an op that may have more is refused there. Hardware has no such limit. */
enum { RT_VK_SOFTWARE_ROUNDS = 65535 };
static inline bool rt_vk_ends_loops(VkPhysicalDeviceType type, uint64_t rounds)
{
    return type == VK_PHYSICAL_DEVICE_TYPE_CPU && rounds > RT_VK_SOFTWARE_ROUNDS;
}

/* Where a run's memory lies: host and device share it (managed) on integrated and software devices, the device has its
 * own elsewhere. */
rt_mem_kind rt_vk_classify_memory(VkPhysicalDeviceType type);
/* What is used: as asked for on the command line; else as the environment's MANAGED_MEMORY says ("1", "0"; anything
 * else says nothing); else by class. */
rt_mem_kind rt_vk_memory_kind(rt_vk_memory asked, const char *managed_memory, rt_mem_kind by_class);
/* The memory type for a kind, of those in `types` (a bit each); VK_MAX_MEMORY_TYPES: there is none. Device memory is
 * device-local, and not host-visible where there is a choice; managed memory both, or at least host-visible; pinned is
 * the host's, cached where there is a choice. */
uint32_t rt_vk_memory_type(const VkPhysicalDeviceMemoryProperties *p, uint32_t types, rt_mem_kind kind);
/* Bytes that a run may take of a heap. budget: what the driver says is left, 0 when it does not say. Where the host's
 * memory is shared, no more than the system has available. */
uint64_t rt_vk_budget(rt_mem_kind by_class, uint64_t heap, uint64_t budget, uint64_t system_available);

#endif
