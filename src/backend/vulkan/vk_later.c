/* vk_later.c - ops that have no shader here yet. Each is refused in words, so that nothing is skipped silently. */
#include "backend/vulkan/vk_op.h"

static bool later_need(const rt_plan *p, const rt_op *op, rt_need *need)
{
    (void)p, (void)op;
    return vk_refuses(need, "backend vulkan has no shader for it yet (docs/vulkan.md)");
}

static void later_emit(rt_vk_builder *b, const rt_bound_op *o) { (void)b, (void)o; }

#define LATER(name) const rt_vk_op rt_vk_##name = { later_need, later_emit, NULL };
LATER(quant)
