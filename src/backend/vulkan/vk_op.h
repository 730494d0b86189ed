/* vk_op.h - what the host part of the op families shares: their names, refusals, how elementwise work is cut.
 *
 * Owns: nothing that runs; these are the decisions made once per op when a program is sealed. */
#ifndef RT_BACKEND_VULKAN_VK_OP_H
#define RT_BACKEND_VULKAN_VK_OP_H

#include "backend/vulkan/vk_launch.h"

#include <stdio.h>
#include <string.h>

#define X(kind, name, args, text) extern const rt_vk_op rt_vk_##name;
RT_OP_LIST(X)
#undef X

static inline uint64_t vk_div_up(uint64_t a, uint64_t b) { return (a + b - 1) / b; }

static inline bool vk_takes(rt_need *need, const char *kernel)
{
    *need = (rt_need){ .kernel = kernel };
    return true;
}

static inline bool vk_takes_with_work(rt_need *need, const char *kernel, uint64_t bytes)
{
    *need = (rt_need){ .kernel = kernel, .work_bytes = bytes };
    return true;
}

static inline bool vk_refuses(rt_need *need, const char *why)
{
    *need = (rt_need){ 0 };
    snprintf(need->why_not, sizeof need->why_not, "%s", why);
    return false;
}

static inline rt_dtype vk_dtype(const rt_plan *p, const rt_op *op, uint32_t slot)
{
    return rt_plan_dtype(p, op->slot[slot]);
}

/* Elementwise work on rows of C: without gaps in the operands of one shape (bit i of slots: slot i), and where 32 bits
 * count them, all rows are one. A workgroup takes RT_VK_PART elements of a row. */
enum { RT_VK_PART = 4 * RT_VK_GROUP };
typedef struct rt_vk_rows {
    uint32_t rows, cols;
} rt_vk_rows;
static inline rt_vk_rows vk_rows(const rt_bound_op *o, uint32_t slots)
{
    bool dense = true;
    rt_vk_rows r = { 0 };
    for (uint32_t i = 0; i < o->nslots; i++) {
        const rt_operand *s = &o->slot[i];
        if (!(slots >> i & 1) || !s->mem) continue;
        r = (rt_vk_rows){ s->rows, s->cols };
        dense = dense && (s->rows == 1 || s->stride == s->cols);
    }
    if (dense && (uint64_t)r.rows * r.cols < 1u << 31) r = (rt_vk_rows){ 1, r.rows * r.cols };
    return r;
}
static inline void vk_push_rows(rt_vk_builder *b, const rt_bound_op *o, const char *shader, uint32_t slots,
                                const uint32_t spec[RT_VK_SPECS])
{
    rt_vk_rows r = vk_rows(o, slots);
    rt_vk_dispatch d = { .shader = shader,
                         .spec = { spec[0], spec[1], spec[2] },
                         .own = { r.rows, r.cols },
                         .items = r.rows * vk_div_up(r.cols, RT_VK_PART) };
    rt_vk_push(b, o, &d);
}

#endif
