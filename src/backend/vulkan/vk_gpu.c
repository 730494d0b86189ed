/* vk_gpu.c - what a GPU is and has, before it is opened. */
#include "backend/vulkan/vk_gpu.h"

#include <dirent.h>
#include <stdio.h>
#include <unistd.h>

bool rt_vk_may_have_gpu(const char *const *env)
{
    if (rt_dev_env(env, "VK_DRIVER_FILES") || rt_dev_env(env, "VK_ICD_FILENAMES")) return true;
    bool found = access("/dev/nvidiactl", F_OK) == 0 || access("/dev/dxg", F_OK) == 0;
    DIR *dri = opendir("/dev/dri");
    for (struct dirent *d; dri && !found && (d = readdir(dri));) found = strncmp(d->d_name, "renderD", 7) == 0;
    if (dri) closedir(dri);
    return found;
}

static void read_features(const rt_vk_driver *vk, rt_vk_gpu *g)
{
    VkPhysicalDeviceVulkan12Features v12 = { .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_2_FEATURES };
    VkPhysicalDeviceVulkan11Features v11 = { .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_1_FEATURES,
                                             .pNext = &v12 };
    VkPhysicalDeviceFeatures2 f = { .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_FEATURES_2, .pNext = &v11 };
    if (g->has.api < VK_API_VERSION_1_2) return;
    vk->gpu_features(g->handle, &f);
    g->has.address = v12.bufferDeviceAddress;
    g->has.timeline = v12.timelineSemaphore;
    g->has.storage8 = v12.storageBuffer8BitAccess;
    g->has.scalar = v12.scalarBlockLayout;
    g->has.storage16 = v11.storageBuffer16BitAccess;
    g->has.int64 = f.features.shaderInt64;
    g->has.float64 = f.features.shaderFloat64;
}

static void read_properties(const rt_vk_driver *vk, rt_vk_gpu *g)
{
    VkPhysicalDeviceDriverProperties driver = { .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_DRIVER_PROPERTIES };
    VkPhysicalDeviceMaintenance3Properties most = { .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_MAINTENANCE_3_PROPERTIES,
                                                    .pNext = &driver };
    VkPhysicalDeviceSubgroupProperties subgroup = { .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SUBGROUP_PROPERTIES,
                                                    .pNext = &most };
    VkPhysicalDeviceProperties2 p = { .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_PROPERTIES_2, .pNext = &subgroup };
    vk->gpu_properties(g->handle, &p);
    const VkPhysicalDeviceLimits *l = &p.properties.limits;
    g->type = p.properties.deviceType;
    g->id = (rt_vk_driver_id){ .vendor = p.properties.vendorID, .device = p.properties.deviceID };
    memcpy(g->id.uuid, p.properties.pipelineCacheUUID, sizeof g->id.uuid);
    g->tick = (double)l->timestampPeriod;
    snprintf(g->name, sizeof g->name, "%.95s", p.properties.deviceName);
    snprintf(g->driver, sizeof g->driver, "%.60s %.90s", driver.driverName, driver.driverInfo);
    g->subgroup = subgroup.subgroupSize;
    g->largest = most.maxMemoryAllocationSize;
    g->groups = l->maxComputeWorkGroupCount[0];
    g->has.api = p.properties.apiVersion;
    g->has.push_bytes = l->maxPushConstantsSize;
    g->has.threads = l->maxComputeWorkGroupInvocations;
    g->has.shared = l->maxComputeSharedMemorySize;
}

/* Does the driver say how much of its memory is left? */
static bool has_budget(const rt_vk_driver *vk, VkPhysicalDevice gpu)
{
    VkExtensionProperties list[512];
    uint32_t n = sizeof list / sizeof *list;
    bool found = false;
    if (vk->gpu_extensions(gpu, NULL, &n, list) < 0) return false;
    for (uint32_t i = 0; i < n; i++)
        found = found || strcmp(list[i].extensionName, VK_EXT_MEMORY_BUDGET_EXTENSION_NAME) == 0;
    return found;
}

void rt_vk_gpu_memory(const rt_vk_driver *vk, rt_vk_gpu *g, VkPhysicalDeviceMemoryProperties *types)
{
    VkPhysicalDeviceMemoryBudgetPropertiesEXT left = {
        .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_MEMORY_BUDGET_PROPERTIES_EXT
    };
    VkPhysicalDeviceMemoryProperties2 m = { .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_MEMORY_PROPERTIES_2,
                                            .pNext = g->says_budget ? &left : NULL };
    vk->gpu_memory(g->handle, &m);
    g->heap = g->budget = 0;
    for (uint32_t i = 0; i < m.memoryProperties.memoryHeapCount; i++) {
        const VkMemoryHeap *h = &m.memoryProperties.memoryHeaps[i];
        if (!(h->flags & VK_MEMORY_HEAP_DEVICE_LOCAL_BIT) || h->size <= g->heap) continue;
        g->heap = h->size;
        g->budget = left.heapBudget[i] > left.heapUsage[i] ? left.heapBudget[i] - left.heapUsage[i] : 0;
    }
    if (types) *types = m.memoryProperties;
}

/* The first family of queues that compute; without graphics where there is a choice. */
static uint32_t find_family(const rt_vk_driver *vk, VkPhysicalDevice gpu, uint32_t *clock_bits)
{
    VkQueueFamilyProperties list[32];
    uint32_t n = sizeof list / sizeof *list, best = RT_VK_NO_FAMILY;
    vk->gpu_queues(gpu, &n, list);
    for (uint32_t i = n; i-- > 0;) {
        bool computes = list[i].queueFlags & VK_QUEUE_COMPUTE_BIT, draws = list[i].queueFlags & VK_QUEUE_GRAPHICS_BIT;
        if (computes && (best == RT_VK_NO_FAMILY || !draws || (list[best].queueFlags & VK_QUEUE_GRAPHICS_BIT)))
            best = i;
    }
    *clock_bits = best == RT_VK_NO_FAMILY ? 0 : list[best].timestampValidBits;
    return best;
}

int rt_vk_gpu_count(const rt_vk_driver *vk, uint32_t *count, rt_err *e)
{
    *count = 0;
    int rc = rt_vk_status(vk->gpus(vk->instance, count, NULL), e, "listing devices");
    if (rc >= 0 && *count == 0) rc = rt_fail(e, RT_NO_BACKEND, "no Vulkan driver here has a device");
    return rc < 0 ? RT_NO_BACKEND : rc;
}

int rt_vk_gpu_read(const rt_vk_driver *vk, uint32_t index, rt_vk_gpu *g, rt_err *e)
{
    VkPhysicalDevice list[32];
    uint32_t n = sizeof list / sizeof *list;
    *g = (rt_vk_gpu){ 0 };
    VkResult result = vk->gpus(vk->instance, &n, list);
    if (result != VK_INCOMPLETE && result != VK_SUCCESS) return rt_vk_status(result, e, "listing devices");
    if (index >= n)
        return rt_fail(e, RT_NO_BACKEND,
                       "there is no vulkan:%u here: the Vulkan devices of this machine are numbered 0 to %u", index,
                       n ? n - 1 : 0);
    g->handle = list[index];
    read_properties(vk, g);
    read_features(vk, g);
    g->says_budget = has_budget(vk, g->handle);
    g->family = find_family(vk, g->handle, &g->clock_bits);
    rt_vk_gpu_memory(vk, g, NULL);
    return RT_OK;
}

int rt_vk_gpu_usable(const rt_vk_gpu *g, rt_err *e)
{
    const char *lacks = g->family == RT_VK_NO_FAMILY ? "it has no queue that computes" : rt_vk_lacks(&g->has);
    return lacks ? rt_fail(e, RT_NO_BACKEND, "%s cannot be used: %s", g->name, lacks) : RT_OK;
}

static const char *type_text(VkPhysicalDeviceType type)
{
    switch (type) {
    case VK_PHYSICAL_DEVICE_TYPE_DISCRETE_GPU: return "discrete GPU";
    case VK_PHYSICAL_DEVICE_TYPE_INTEGRATED_GPU: return "integrated GPU";
    case VK_PHYSICAL_DEVICE_TYPE_VIRTUAL_GPU: return "virtual GPU";
    case VK_PHYSICAL_DEVICE_TYPE_CPU: return "software device";
    default: return "device of another kind";
    }
}

/* A device that no proof has run on says so; a software device, on which all have, says who gets it. */
static const char *standing(VkPhysicalDeviceType type)
{
    if (type == VK_PHYSICAL_DEVICE_TYPE_CPU) return "taken only when it is named";
    return "shaders compiled and never run on such a device: retort verify --backend vulkan runs them";
}

void rt_vk_gpu_text(char *out, size_t size, const rt_vk_gpu *g, rt_mem_kind memory)
{
    const rt_vk_features *f = &g->has;
    snprintf(out, size, "%s, %s, Vulkan %u.%u, subgroups of %u, %s memory%s%s, %s; %s", type_text(g->type), g->driver,
             VK_API_VERSION_MAJOR(f->api), VK_API_VERSION_MINOR(f->api), g->subgroup,
             memory == RT_MEM_MANAGED ? "shared" : "device", f->storage16 ? ", 16-bit storage" : "",
             f->storage8 ? ", 8-bit storage" : "", f->float64 ? "float64" : "no float64", standing(g->type));
}
