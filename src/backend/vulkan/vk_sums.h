/* vk_sums.h - sums over rows in two steps, for the families that need one: vk_sums.comp. */
#ifndef RT_BACKEND_VULKAN_VK_SUMS_H
#define RT_BACKEND_VULKAN_VK_SUMS_H

#include "backend/vulkan/vk_op.h"

enum { RT_VK_SUM_ROWS = 64, RT_VK_SUM_PARTS = 256 }; /* rows of a part, at least; parts, at most */

typedef struct rt_vk_parts {
    uint32_t count, rows; /* of each but the last */
} rt_vk_parts;
static inline rt_vk_parts vk_parts(uint64_t rows)
{
    uint64_t each = vk_div_up(rows, RT_VK_SUM_PARTS);
    if (each < RT_VK_SUM_ROWS) each = RT_VK_SUM_ROWS;
    return (rt_vk_parts){ (uint32_t)vk_div_up(rows, each), (uint32_t)each };
}

/* Slot `out` (1,C) = or += the sum of P rows (P,C) f32 that lie `at` floats into the scratch. */
static inline void vk_push_total(rt_vk_builder *b, const rt_bound_op *o, uint32_t out, uint32_t P, uint32_t at)
{
    rt_vk_dispatch d = {
        .shader = "vk_sums", .spec = { 0, 1, out }, .own = { P, at }, .items = vk_div_up(o->slot[out].cols, RT_VK_GROUP)
    };
    rt_vk_push(b, o, &d);
}

#endif
