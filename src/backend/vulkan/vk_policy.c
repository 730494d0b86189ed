/* vk_policy.c - see vk_policy.h. */
#include "backend/vulkan/vk_policy.h"

#include <string.h>

const char *rt_vk_lacks(const rt_vk_features *f)
{
    if (f->api < VK_API_VERSION_1_2) return "its driver is older than Vulkan 1.2";
    if (!f->address) return "it has no bufferDeviceAddress";
    if (!f->timeline) return "it has no timelineSemaphore";
    if (!f->int64) return "it has no shaderInt64";
    if (!f->storage16) return "it has no storageBuffer16BitAccess";
    if (!f->storage8) return "it has no storageBuffer8BitAccess";
    if (!f->scalar) return "it has no scalarBlockLayout";
    if (f->push_bytes < RT_VK_PUSH_BYTES) return "it takes fewer than 128 bytes of push constants";
    if (f->threads < RT_VK_THREADS) return "its workgroups have fewer than 256 invocations";
    if (f->shared < RT_VK_SHARED_BYTES) return "its workgroups share less than 16 KiB";
    return NULL;
}

rt_mem_kind rt_vk_classify_memory(VkPhysicalDeviceType type)
{
    bool own = type == VK_PHYSICAL_DEVICE_TYPE_DISCRETE_GPU || type == VK_PHYSICAL_DEVICE_TYPE_VIRTUAL_GPU;
    return own ? RT_MEM_DEVICE : RT_MEM_MANAGED;
}

rt_mem_kind rt_vk_memory_kind(rt_vk_memory asked, const char *managed_memory, rt_mem_kind by_class)
{
    if (asked == RT_VK_MEMORY_DEVICE) return RT_MEM_DEVICE;
    if (asked == RT_VK_MEMORY_MANAGED) return RT_MEM_MANAGED;
    if (managed_memory && strcmp(managed_memory, "1") == 0) return RT_MEM_MANAGED;
    if (managed_memory && strcmp(managed_memory, "0") == 0) return RT_MEM_DEVICE;
    return by_class;
}

/* How well a type suits a kind; below 0: not at all. */
static int suits(VkMemoryPropertyFlags f, rt_mem_kind kind)
{
    const VkMemoryPropertyFlags host = VK_MEMORY_PROPERTY_HOST_VISIBLE_BIT | VK_MEMORY_PROPERTY_HOST_COHERENT_BIT;
    bool local = f & VK_MEMORY_PROPERTY_DEVICE_LOCAL_BIT, mapped = (f & host) == host;
    bool cached = f & VK_MEMORY_PROPERTY_HOST_CACHED_BIT;
    switch (kind) {
    case RT_MEM_DEVICE: return local ? 2 - mapped : -1;
    case RT_MEM_MANAGED: return mapped ? 1 + local : -1;
    default: return mapped ? 1 + cached : -1;
    }
}

uint32_t rt_vk_memory_type(const VkPhysicalDeviceMemoryProperties *p, uint32_t types, rt_mem_kind kind)
{
    uint32_t best = VK_MAX_MEMORY_TYPES;
    int most = -1;
    for (uint32_t i = 0; i < p->memoryTypeCount; i++) {
        int n = types >> i & 1 ? suits(p->memoryTypes[i].propertyFlags, kind) : -1;
        if (n <= most) continue;
        most = n;
        best = i;
    }
    return best;
}

uint64_t rt_vk_budget(rt_mem_kind by_class, uint64_t heap, uint64_t budget, uint64_t system_available)
{
    uint64_t left = budget && budget < heap ? budget : heap;
    if (by_class != RT_MEM_MANAGED) return left;
    return system_available < left ? system_available : left;
}
