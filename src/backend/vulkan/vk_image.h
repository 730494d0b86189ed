/* vk_image.h - the shaders inside this binary: SPIR-V by name.
 *
 * Owns: the form of the embedded block, which tools/pack_shaders.py writes. Leaves to vk_pipeline.c: making pipelines
 * of them. */
#ifndef RT_BACKEND_VULKAN_VK_IMAGE_H
#define RT_BACKEND_VULKAN_VK_IMAGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The block: this header, `count` records, then the modules, each aligned to 16. Little-endian. */
typedef struct rt_vk_block {
    char magic[8]; /* "RTSPIRV" */
    uint32_t count;
    uint32_t counted; /* 1: the shaders count what they do (vk_count.h) */
} rt_vk_block;

typedef struct rt_vk_image {
    char module[48];        /* "vk_rmsnorm" */
    uint64_t offset, bytes; /* from the start of the block */
} rt_vk_image;

typedef struct rt_vk_images {
    const uint8_t *block;
    const rt_vk_image *list;
    uint32_t count;
    bool counted;
} rt_vk_images;

/* Those of this binary. None (count 0) when it was built without glslangValidator. */
rt_vk_images rt_vk_images_own(void);
/* Reads a block; false when it is not one. */
bool rt_vk_images_parse(rt_vk_images *out, const void *block, size_t bytes);
/* Null when the binary has none of that name. */
const rt_vk_image *rt_vk_images_find(const rt_vk_images *all, const char *module);

#endif
