/* vk_image.c - see vk_image.h. */
#include "backend/vulkan/vk_image.h"

#include <string.h>

extern const uint8_t rt_embed_vk_shaders[], rt_embed_vk_shaders_end[];

bool rt_vk_images_parse(rt_vk_images *out, const void *block, size_t bytes)
{
    const rt_vk_block *head = block;
    *out = (rt_vk_images){ 0 };
    if (bytes < sizeof *head || memcmp(head->magic, "RTSPIRV", 8) != 0) return false;
    if (head->count > (bytes - sizeof *head) / sizeof(rt_vk_image)) return false;
    const rt_vk_image *list = (const void *)(head + 1);
    for (uint32_t i = 0; i < head->count; i++)
        if (list[i].offset > bytes || list[i].bytes > bytes - list[i].offset || list[i].bytes % 4 != 0) return false;
    *out = (rt_vk_images){ block, list, head->count, head->counted == 1 };
    return true;
}

rt_vk_images rt_vk_images_own(void)
{
    rt_vk_images own;
    rt_vk_images_parse(&own, rt_embed_vk_shaders, (size_t)(rt_embed_vk_shaders_end - rt_embed_vk_shaders));
    return own;
}

const rt_vk_image *rt_vk_images_find(const rt_vk_images *all, const char *module)
{
    for (uint32_t i = 0; i < all->count; i++)
        if (strncmp(all->list[i].module, module, sizeof all->list[i].module) == 0) return &all->list[i];
    return NULL;
}
