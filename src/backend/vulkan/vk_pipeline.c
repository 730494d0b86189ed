/* vk_pipeline.c - pipelines: a module of the binary and its specialisation constants, made once and kept by the device.
 *
 * All of a program's are made when it is prepared or sealed; one that is made later is counted. */
#include "backend/vulkan/vk_internal.h"

static int make(rt_vk_dev *d, const rt_vk_image *image, const uint32_t spec[RT_VK_SPECS], VkPipeline *out, rt_err *e)
{
    int rc;
    VkShaderModule module = VK_NULL_HANDLE;
    VkSpecializationMapEntry map[RT_VK_SPECS];
    for (uint32_t i = 0; i < RT_VK_SPECS; i++)
        map[i] = (VkSpecializationMapEntry){ i, i * (uint32_t)sizeof *spec, sizeof *spec };
    const VkSpecializationInfo constants = { RT_VK_SPECS, map, RT_VK_SPECS * sizeof *spec, spec };
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
    RT_TRY(rt_vk_status(d->vk.pipelines_new(d->device, VK_NULL_HANDLE, 1, &info, NULL, out), e,
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
    for (uint32_t i = 0; i < d->npipelines; i++) d->vk.pipeline_free(d->device, d->pipelines[i].pipeline, NULL);
    rt_free(d->pipelines);
    d->pipelines = NULL;
    d->npipelines = 0;
}
