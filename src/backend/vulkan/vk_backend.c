/* vk_backend.c - GPUs that speak Vulkan as devices: probe, open, what they are, what they support.
 *
 * Owns: the order in which a device is opened and closed. Leaves to others: what a GPU has (vk_gpu.c), what the backend
 * can be told (vk_options.c), memory and copies (vk_memory.c), pipelines (vk_pipeline.c), programs (vk_program.c),
 * decisions (vk_policy.c). A software device is one like any other here; the registry takes none by itself. */
#include "backend/vulkan/vk_count.h"
#include "backend/vulkan/vk_gpu.h"
#include "base/hash.h"
#include "base/sys.h"

#include <stdio.h>

extern const rt_backend rt_backend_vulkan; /* for registry.c */
static const rt_backend without_clock;

/* ---- what there is ---- */

/* The loader, shaders for it, and how many devices it sees: RT_NO_BACKEND says what is missing. */
static int look(rt_vk_driver *vk, rt_vk_images *images, uint32_t *count, rt_err *e)
{
    int rc;
    *vk = (rt_vk_driver){ 0 };
    *images = rt_vk_images_own();
    if (images->count == 0)
        RT_TRY(rt_fail(e, RT_NO_BACKEND,
                       "the shaders were left out of this binary: it was built without glslangValidator; install "
                       "glslang-tools and run make again"));
    RT_TRY(rt_vk_driver_open(vk, e));
    RT_TRY(rt_vk_gpu_count(vk, count, e));
out:
    return rc;
}

static void describe(rt_dev_info *out, const rt_vk_gpu *g, rt_mem_kind memory)
{
    rt_sys_memory system;
    rt_mem_kind by_class = rt_vk_classify_memory(g->type);
    rt_sys_memory_query(&system);
    *out = (rt_dev_info){ .memory_total = g->heap, .software = g->type == VK_PHYSICAL_DEVICE_TYPE_CPU };
    out->memory_free = rt_vk_budget(by_class, g->heap, g->budget, system.available);
    snprintf(out->name, sizeof out->name, "%s", g->name);
    rt_vk_gpu_text(out->detail, sizeof out->detail, g, memory);
}

static rt_mem_kind memory_kind(const rt_vk_options *o, const rt_vk_gpu *g)
{
    return rt_vk_memory_kind((rt_vk_memory)o->memory, rt_dev_env(o->env, "MANAGED_MEMORY"),
                             rt_vk_classify_memory(g->type));
}

static int probe(const rt_dev_opts *o, rt_dev_info *out, int cap, char *why)
{
    rt_vk_driver vk;
    rt_vk_images images;
    rt_vk_options own;
    rt_err e = { 0 };
    rt_vk_gpu g;
    uint32_t count = 0;
    int good = 0;
    if (o && o->unnamed && !rt_vk_may_have_gpu(o->env)) {
        if (why) snprintf(why, 160, "Vulkan: there is no device file of a GPU");
        return 0;
    }
    if (look(&vk, &images, &count, &e) >= 0 && rt_vk_options_read(&own, o, &e) >= 0)
        for (uint32_t i = 0; i < count; i++) {
            int rc = rt_vk_gpu_read(&vk, i, &g, &e);
            if (rc >= 0) rc = rt_vk_gpu_usable(&g, &e);
            if (rc >= 0) good++;
            if (i >= (uint32_t)(cap > 0 ? cap : 0)) continue;
            describe(&out[i], &g, memory_kind(&own, &g));
            if (rc < 0) snprintf(out[i].detail, sizeof out[i].detail, "not usable: %.300s", e.text);
        }
    rt_vk_driver_close(&vk);
    if (why) snprintf(why, 160, "%.159s", good ? "" : e.text);
    return good ? (int)count : 0;
}

/* ---- open and close ---- */

static void close_dev(rt_dev *dev)
{
    rt_vk_dev *d = (rt_vk_dev *)dev;
    if (!d) return;
    if (d->device) {
        d->vk.device_wait(d->device);
        rt_vk_mem_free(dev, d->counters);
        rt_vk_stages_free(d);
        rt_vk_pipelines_free(d);
        rt_vk_clock_free(d);
        if (d->layout) d->vk.layout_free(d->device, d->layout, NULL);
        if (d->pool) d->vk.pool_free(d->device, d->pool, NULL);
        if (d->timeline) d->vk.semaphore_free(d->device, d->timeline, NULL);
        d->vk.device_free(d->device, NULL);
    }
    rt_vk_driver_close(&d->vk);
    rt_free(d);
}

static int make_device(rt_vk_dev *d, rt_err *e)
{
    const float priority = 1;
    const char *const extensions[] = { VK_EXT_MEMORY_BUDGET_EXTENSION_NAME };
    const VkDeviceQueueCreateInfo queue = { .sType = VK_STRUCTURE_TYPE_DEVICE_QUEUE_CREATE_INFO,
                                            .queueFamilyIndex = d->gpu.family,
                                            .queueCount = 1,
                                            .pQueuePriorities = &priority };
    VkPhysicalDeviceVulkan12Features v12 = { .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_2_FEATURES,
                                             .storageBuffer8BitAccess = VK_TRUE,
                                             .scalarBlockLayout = VK_TRUE,
                                             .timelineSemaphore = VK_TRUE,
                                             .bufferDeviceAddress = VK_TRUE };
    VkPhysicalDeviceVulkan11Features v11 = { .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_1_FEATURES,
                                             .pNext = &v12,
                                             .storageBuffer16BitAccess = VK_TRUE };
    const VkPhysicalDeviceFeatures2 features = { .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_FEATURES_2,
                                                 .pNext = &v11,
                                                 .features = { .shaderInt64 = VK_TRUE } };
    const VkDeviceCreateInfo info = { .sType = VK_STRUCTURE_TYPE_DEVICE_CREATE_INFO,
                                      .pNext = &features,
                                      .queueCreateInfoCount = 1,
                                      .pQueueCreateInfos = &queue,
                                      .enabledExtensionCount = d->gpu.says_budget,
                                      .ppEnabledExtensionNames = extensions };
    int rc = rt_vk_status(d->vk.device_new(d->gpu.handle, &info, NULL, &d->device), e, "opening %s", d->gpu.name);
    if (rc >= 0) d->vk.queue_get(d->device, d->gpu.family, 0, &d->queue);
    return rc;
}

static int start(rt_vk_dev *d, const char *const *env, rt_err *e)
{
    int rc;
    const VkSemaphoreTypeCreateInfo counts = { .sType = VK_STRUCTURE_TYPE_SEMAPHORE_TYPE_CREATE_INFO,
                                               .semaphoreType = VK_SEMAPHORE_TYPE_TIMELINE };
    const VkSemaphoreCreateInfo semaphore = { .sType = VK_STRUCTURE_TYPE_SEMAPHORE_CREATE_INFO, .pNext = &counts };
    const VkCommandPoolCreateInfo pool = { .sType = VK_STRUCTURE_TYPE_COMMAND_POOL_CREATE_INFO,
                                           .flags = VK_COMMAND_POOL_CREATE_RESET_COMMAND_BUFFER_BIT,
                                           .queueFamilyIndex = d->gpu.family };
    const VkPushConstantRange range = { VK_SHADER_STAGE_COMPUTE_BIT, 0, RT_VK_PUSH_BYTES };
    const VkPipelineLayoutCreateInfo layout = { .sType = VK_STRUCTURE_TYPE_PIPELINE_LAYOUT_CREATE_INFO,
                                                .pushConstantRangeCount = 1,
                                                .pPushConstantRanges = &range };
    RT_TRY(make_device(d, e));
    RT_TRY(rt_vk_status(d->vk.semaphore_new(d->device, &semaphore, NULL, &d->timeline), e, "making a semaphore"));
    RT_TRY(rt_vk_status(d->vk.pool_new(d->device, &pool, NULL, &d->pool), e, "making a pool of commands"));
    RT_TRY(rt_vk_status(d->vk.layout_new(d->device, &layout, NULL, &d->layout), e, "making a layout"));
    rt_vk_gpu_memory(&d->vk, &d->gpu, &d->types);
    RT_TRY(rt_vk_stages_new(d, e));
    RT_TRY(rt_vk_pipelines_begin(d, env, e));
    RT_TRY(rt_vk_clock_new(d, e));
    if (d->images.counted) RT_TRY(rt_vk_counters_new(d, e));
out:
    return rc;
}

static int open_dev(rt_dev **out, int index, const rt_dev_opts *o, rt_err *e)
{
    int rc;
    uint32_t count = 0;
    rt_vk_options own;
    *out = NULL;
    rt_vk_dev *d = rt_alloc_zero(sizeof *d, 16);
    if (!d) return rt_fail(e, RT_NOMEM, "no memory for a device");
    d->base.api = &rt_backend_vulkan;
    RT_TRY(rt_vk_options_read(&own, o, e));
    RT_TRY(look(&d->vk, &d->images, &count, e));
    RT_TRY(rt_vk_gpu_read(&d->vk, (uint32_t)index, &d->gpu, e));
    RT_TRY(rt_vk_gpu_usable(&d->gpu, e));
    d->by_class = rt_vk_classify_memory(d->gpu.type);
    d->memory = memory_kind(&own, &d->gpu);
    d->sync = own.sync;
    RT_TRY(start(d, own.env, e));
    if (!d->clock.queries) d->base.api = &without_clock;
    *out = &d->base;
    return RT_OK;
out:
    close_dev(&d->base);
    return rc;
}

/* ---- facts of an open device ---- */

static int info(rt_dev *dev, rt_dev_info *out, rt_err *e)
{
    rt_vk_dev *d = (rt_vk_dev *)dev;
    (void)e;
    rt_vk_gpu_memory(&d->vk, &d->gpu, NULL);
    describe(out, &d->gpu, d->memory);
    snprintf(out->warning, sizeof out->warning, "%s", d->cache_fault);
    out->modules = d->npipelines;
    out->late_loads = d->late;
    out->own_bytes = d->own_bytes;
    return RT_OK;
}

/* Shaders, and the driver that compiles them, decide bits. */
static void identity(rt_dev *dev, rt_str *out)
{
    const rt_vk_dev *d = (const rt_vk_dev *)dev;
    char hex[33];
    rt_hash128 h = { 0 };
    for (uint32_t i = 0; i < d->images.count; i++) {
        rt_hash128 one = rt_hash(d->images.block + d->images.list[i].offset, d->images.list[i].bytes);
        h.hi ^= one.hi;
        h.lo ^= one.lo;
    }
    rt_str_printf(out, "vulkan %s %04x:%04x, %s; shaders %s", d->gpu.name, d->gpu.id.vendor, d->gpu.id.device,
                  d->gpu.driver, rt_hash_text(hex, h));
}

static bool supports(rt_dev *dev, const rt_plan *p, const rt_op *op, rt_need *need)
{
    const rt_vk_dev *d = (const rt_vk_dev *)dev;
    *need = (rt_need){ 0 };
    RT_FOR_SLOTS (i, op->kind) {
        const rt_slot_spec *slot = &rt_op_specs[op->kind].slot[i];
        if (!op->slot[i].buf || slot->rule == RT_RULE_ANY || rt_plan_dtype(p, op->slot[i]) != RT_DTYPE_F64) continue;
        snprintf(need->why_not, sizeof need->why_not, "%s is f64: vulkan computes in f32; f64 is for ref", slot->name);
        return false;
    }
    const rt_vk_op *entry = rt_vk_op_find(op->kind);
    uint64_t rounds = entry->rounds ? entry->rounds(op) : 0;
    if (!entry->need(p, op, need)) return false;
    if (!rt_vk_ends_loops(d->gpu.type, rounds)) return true;
    *need = (rt_need){ 0 };
    snprintf(need->why_not, sizeof need->why_not,
             "its loops may have %llu rounds, and a software device ends them at %d; use --device cpu",
             (unsigned long long)rounds, RT_VK_SOFTWARE_ROUNDS);
    return false;
}

/* A queue may have no clock: a device of such is one of a backend that has none. */
#define EVERYTHING_ELSE                                                                                                \
    .name = "vulkan", .async = true, .options = rt_vk_option_table, .probe = probe, .open = open_dev,                  \
    .close = close_dev, .info = info, .mem_new = rt_vk_mem_new, .mem_free = rt_vk_mem_free, .copy = rt_vk_mem_copy,    \
    .supports = supports, .prepare = rt_vk_prepare, .seal = rt_vk_seal, .run = rt_vk_run, .wait = rt_vk_wait,          \
    .prog_free = rt_vk_prog_free, .identity = identity,
const rt_backend rt_backend_vulkan = { EVERYTHING_ELSE.seconds = rt_vk_seconds };
static const rt_backend without_clock = { EVERYTHING_ELSE };
#undef EVERYTHING_ELSE
