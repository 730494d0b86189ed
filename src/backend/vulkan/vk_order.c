/* vk_order.c - where a program needs a barrier: before a dispatch that touches bytes which one since the last barrier
 * writes, or writes bytes which one of those touches.
 *
 * Owns: that rule, over the bytes that ops declare. Dispatches of one op hand on scratch, so there is one between them.
 * A barrier is for all that came before it, so what came before the last one is forgotten; the longer the list since
 * then, the more may run side by side. */
#include "backend/vulkan/vk_order.h"

#include <string.h>

/* Bytes of an operand, gaps included. */
static rt_vk_extent extent_of(const rt_operand *o, bool writes)
{
    uint64_t elems = (o->rows - 1) * (o->rows == 1 ? 0 : o->stride) + o->cols;
    return (rt_vk_extent){ o->mem, o->off, o->off + rt_dtype_bytes(o->dtype, elems), writes };
}

static uint32_t extents_of(const rt_bound_op *o, rt_vk_extent out[RT_MAX_SLOTS + 1])
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < o->nslots; i++)
        if (o->slot[i].mem && o->slot[i].rows && o->slot[i].cols)
            out[n++] = extent_of(&o->slot[i], rt_op_specs[o->kind].slot[i].access != RT_READ);
    if (o->work.mem) out[n++] = extent_of(&o->work, true);
    return n;
}

static bool meet(const rt_vk_extent *a, const rt_vk_extent *b)
{
    return (a->writes || b->writes) && a->mem == b->mem && a->begin < b->end && b->begin < a->end;
}

int rt_vk_order_op(rt_vk_order *w, const rt_bound_op *o, bool *barrier)
{
    rt_vk_extent mine[RT_MAX_SLOTS + 1];
    uint32_t n = extents_of(o, mine);
    *barrier = false;
    for (uint32_t i = 0; i < w->n && !*barrier; i++)
        for (uint32_t k = 0; k < n && !*barrier; k++) *barrier = meet(&w->list[i], &mine[k]);
    if (*barrier) w->n = 0;
    if (!rt_grow((void **)&w->list, &w->cap, w->n + n, sizeof *w->list)) return RT_NOMEM;
    memcpy(w->list + w->n, mine, n * sizeof *mine);
    w->n += n;
    return RT_OK;
}

void rt_vk_order_free(rt_vk_order *w)
{
    rt_free(w->list);
    *w = (rt_vk_order){ 0 };
}
