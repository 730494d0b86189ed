/* vk_order.h - which ops of a program may run side by side, from the bytes that they declare. A pure function, so that
 * it can be tested without a device; vk_program.c records what it says. */
#ifndef RT_BACKEND_VULKAN_VK_ORDER_H
#define RT_BACKEND_VULKAN_VK_ORDER_H

#include "backend/backend.h"
#include "base/mem.h"

typedef struct rt_vk_extent {
    const rt_mem *mem;
    uint64_t begin, end;
    bool writes;
} rt_vk_extent;

/* What was touched since the last barrier. Starts as zeroes. */
typedef struct rt_vk_order {
    rt_vk_extent *list;
    uint32_t n, cap;
} rt_vk_order;

/* The next op of the list; barrier: one has to be before it. RT_NOMEM without a message. */
int rt_vk_order_op(rt_vk_order *w, const rt_bound_op *o, bool *barrier);
void rt_vk_order_free(rt_vk_order *w);

#endif
