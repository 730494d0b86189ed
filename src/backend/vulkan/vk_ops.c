/* vk_ops.c - the table from op kind to its entry. No slot is empty. */
#include "backend/vulkan/vk_internal.h"
#include "backend/vulkan/vk_op.h"

static const rt_vk_op *const table[RT_OP_COUNT] = {
#define X(kind, name, args, text) [RT_OP_##kind] = &rt_vk_##name,
    RT_OP_LIST(X)
#undef X
};

const rt_vk_op *rt_vk_op_find(rt_op_kind kind) { return table[kind]; }
