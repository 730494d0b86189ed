/* vk_launch.h - what an op family of this backend sees: dispatches, and the operands that shaders find.
 *
 * Owns: the entry of one op (what it needs, which dispatches it becomes) and the builder that collects them. An op is
 * turned into dispatches once, when its program is sealed; running submits them again. Leaves to vk_program.c:
 * recording and submitting; to vk_pipeline.c: pipelines; to vk_ops.c: the table from op kind to entry.
 *
 * A shader gets 128 bytes of push constants: the address of its operands (rt_vk_slot, RT_MAX_SLOTS of them and the
 * scratch), four words, and the op's arguments. What chooses code, such as the dtype that most of the bytes have, is a
 * specialisation constant instead, so that a pipeline holds no branch on it. Work is cut by shapes alone: a workgroup
 * takes items id, id + workgroups, ... so that no limit on their number is met. */
#ifndef RT_BACKEND_VULKAN_VK_LAUNCH_H
#define RT_BACKEND_VULKAN_VK_LAUNCH_H

#include "backend/backend.h"

#include <stdbool.h>
#include <stdint.h>

enum {
    RT_VK_SPECS = 3,  /* specialisation constants 0, 1, 2 of every shader */
    RT_VK_WORDS = 4,  /* acc, slots present, and two of the op's own */
    RT_VK_GROUP = 128 /* invocations of a workgroup, where the shader says no other */
};

/* An operand as shaders see it (vk_common.glsl). */
typedef struct rt_vk_slot {
    uint64_t at, stride; /* address of element (0,0), elements from row to row */
    uint32_t dtype, cols;
} rt_vk_slot;

typedef struct rt_vk_builder rt_vk_builder; /* collects the dispatches of one program at seal */

/* One dispatch, fixed at seal. shader: stem of the .comp file ("vk_rmsnorm"); spec: its constants; items: what the
 * workgroups share among themselves, one each; own: the words 2 and 3. Errors stick in the builder. */
typedef struct rt_vk_dispatch {
    const char *shader;
    uint32_t spec[RT_VK_SPECS];
    uint32_t own[RT_VK_WORDS - 2];
    uint64_t items;
} rt_vk_dispatch;
void rt_vk_push(rt_vk_builder *b, const rt_bound_op *o, const rt_vk_dispatch *d);

/* y, without gaps, = what the reader of x has. */
void rt_vk_push_fetch(rt_vk_builder *b, const rt_operand *y, const rt_operand *x);

/* One op kind on this backend; each is defined in the vk_<family>.c of its family as rt_vk_<op>. */
typedef struct rt_vk_op {
    bool (*need)(const rt_plan *p, const rt_op *op, rt_need *need); /* false: need->why_not */
    void (*emit)(rt_vk_builder *b, const rt_bound_op *op);
    /* Rounds of all loops of one invocation, not below what they are; null: few, whatever the shape. */
    uint64_t (*rounds)(const rt_op *op);
} rt_vk_op;

#endif
