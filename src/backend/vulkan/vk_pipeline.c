/* vk_pipeline.c - pipelines: a module of the binary and its specialisation constants, made once and kept by the device.
 *
 * All of a program's are made when it is prepared or sealed; one that is made later is counted. */
#include "backend/vulkan/vk_internal.h"

#include "base/file.h"

#include <stdio.h>

enum { CACHE_MOST = 256 << 20 }; /* bytes of a file that is believed */

static int new_cache(rt_vk_dev *d, const void *data, uint64_t bytes, rt_err *e)
{
    const VkPipelineCacheCreateInfo info = { .sType = VK_STRUCTURE_TYPE_PIPELINE_CACHE_CREATE_INFO,
                                             .initialDataSize = bytes,
                                             .pInitialData = data };
    return rt_vk_status(d->vk.cache_new(d->device, &info, NULL, &d->cache), e, "making a pipeline cache");
}

static int make_folder(const rt_vk_dev *d, rt_err *e)
{
    char folder[sizeof d->cache_path];
    snprintf(folder, sizeof folder, "%.*s", (int)(strrchr(d->cache_path, '/') - d->cache_path), d->cache_path);
    return rt_dir_make(folder, e);
}

int rt_vk_pipelines_begin(rt_vk_dev *d, const char *const *env, rt_err *e)
{
    rt_str file = { 0 };
    rt_err why = { 0 };
    const void *data = NULL;
    uint64_t bytes = 0;
    rt_vk_cache_path(d->cache_path, sizeof d->cache_path, rt_dev_env(env, "XDG_CACHE_HOME"), rt_dev_env(env, "HOME"),
                     &d->gpu.id);
    if (d->cache_path[0] && make_folder(d, &why) < 0) {
        snprintf(d->cache_fault, sizeof d->cache_fault, "pipelines are compiled in every run: %.110s", why.text);
        d->cache_path[0] = 0;
    }
    if (d->cache_path[0] && rt_file_read(d->cache_path, CACHE_MOST, &file, &why) >= 0)
        data = rt_vk_cache_take(file.data, file.len, &d->gpu.id, &bytes);
    if (data) d->cache_read = rt_hash(data, bytes);
    int rc = new_cache(d, data, bytes, e);
    if (rc < 0 && data) rc = new_cache(d, NULL, 0, e); /* a driver may want none of it */
    rt_str_free(&file);
    return rc;
}

/* Other processes may do the same: the file is whole at any time, and that of the last one stays. */
static int keep(rt_vk_dev *d, rt_err *e)
{
    int rc;
    size_t bytes = 0;
    rt_str file = { 0 };
    void *data = NULL;
    if (!d->cache || !d->cache_path[0] || d->npipelines == 0) return RT_OK;
    RT_TRY(rt_vk_status(d->vk.cache_data(d->device, d->cache, &bytes, NULL), e, "reading the pipeline cache"));
    data = rt_alloc(bytes + 1, 16);
    if (!data) RT_TRY(rt_fail(e, RT_NOMEM, "no memory for the pipeline cache"));
    RT_TRY(rt_vk_status(d->vk.cache_data(d->device, d->cache, &bytes, data), e, "reading the pipeline cache"));
    rt_hash128 now = rt_hash(data, bytes);
    if (now.hi == d->cache_read.hi && now.lo == d->cache_read.lo) goto out;
    if (rt_vk_cache_make(&file, data, bytes) < 0) RT_TRY(rt_fail(e, RT_NOMEM, "no memory for the pipeline cache"));
    RT_TRY(rt_file_write(d->cache_path, file.data, file.len, e));
out:
    rt_str_free(&file);
    rt_free(data);
    return rc;
}

static int make(rt_vk_dev *d, const rt_vk_image *image, const uint32_t spec[RT_VK_SPECS], VkPipeline *out, rt_err *e)
{
    int rc;
    VkShaderModule module = VK_NULL_HANDLE;
    struct {
        uint64_t counters;
        uint32_t spec[RT_VK_SPECS];
    } value = { .counters = d->counters ? d->counters->addr : 0 };
    VkSpecializationMapEntry map[RT_VK_SPECS + 1] = { [RT_VK_SPECS] = { RT_VK_SPECS, 0, sizeof value.counters } };
    memcpy(value.spec, spec, sizeof value.spec);
    for (uint32_t i = 0; i < RT_VK_SPECS; i++)
        map[i] = (VkSpecializationMapEntry){ i, (uint32_t)(offsetof(__typeof__(value), spec) + i * sizeof *spec),
                                             sizeof *spec };
    const VkSpecializationInfo constants = { RT_VK_SPECS + d->images.counted, map, sizeof value, &value };
    const VkShaderModuleCreateInfo code = { .sType = VK_STRUCTURE_TYPE_SHADER_MODULE_CREATE_INFO,
                                            .codeSize = image->bytes,
                                            .pCode = (const void *)(d->images.block + image->offset) };
    RT_TRY(rt_vk_status(d->vk.module_new(d->device, &code, NULL, &module), e, "loading shader %.48s", image->module));
    const VkComputePipelineCreateInfo info = { .sType = VK_STRUCTURE_TYPE_COMPUTE_PIPELINE_CREATE_INFO,
                                               .layout = d->layout,
                                               .stage = { .sType = VK_STRUCTURE_TYPE_PIPELINE_SHADER_STAGE_CREATE_INFO,
                                                          .stage = VK_SHADER_STAGE_COMPUTE_BIT,
                                                          .module = module,
                                                          .pName = "main",
                                                          .pSpecializationInfo = &constants } };
    RT_TRY(rt_vk_status(d->vk.pipelines_new(d->device, d->cache, 1, &info, NULL, out), e,
                        "making a pipeline of shader %.48s", image->module));
out:
    if (module) d->vk.module_free(d->device, module, NULL);
    return rc;
}

int rt_vk_pipeline_find(rt_vk_dev *d, const char *module, const uint32_t spec[RT_VK_SPECS], VkPipeline *out, rt_err *e)
{
    for (uint32_t i = 0; i < d->npipelines; i++) {
        const rt_vk_pipeline *p = &d->pipelines[i];
        if (strcmp(p->module, module) != 0 || memcmp(p->spec, spec, sizeof p->spec) != 0) continue;
        *out = p->pipeline;
        return RT_OK;
    }
    const rt_vk_image *image = rt_vk_images_find(&d->images, module);
    if (!image) return rt_fail(e, RT_INTERNAL, "this binary has no shader %s", module);
    if (!rt_grow((void **)&d->pipelines, &d->pipelines_cap, d->npipelines + 1, sizeof *d->pipelines))
        return rt_fail(e, RT_NOMEM, "no memory for a pipeline");
    rt_vk_pipeline *p = &d->pipelines[d->npipelines];
    *p = (rt_vk_pipeline){ 0 };
    memcpy(p->module, image->module, sizeof p->module);
    memcpy(p->spec, spec, sizeof p->spec);
    int rc = make(d, image, spec, &p->pipeline, e);
    if (rc < 0) return rc;
    d->npipelines++;
    if (d->sealed) d->late++;
    *out = p->pipeline;
    return RT_OK;
}

void rt_vk_pipelines_free(rt_vk_dev *d)
{
    keep(d, NULL); /* it costs the next run time, and nobody is there to be told */
    if (d->cache) d->vk.cache_free(d->device, d->cache, NULL);
    d->cache = VK_NULL_HANDLE;
    for (uint32_t i = 0; i < d->npipelines; i++) d->vk.pipeline_free(d->device, d->pipelines[i].pipeline, NULL);
    rt_free(d->pipelines);
    d->pipelines = NULL;
    d->npipelines = 0;
}
