/* host.h - what backends that compute in host memory share: allocations, copies, tickets, operand pointers.
 *
 * `ref` and `cpu` run synchronously, so a ticket is done when it is returned. */
#ifndef RT_BACKEND_HOST_H
#define RT_BACKEND_HOST_H

#include "backend/backend.h"

struct rt_mem {
    uint8_t *base;
    uint64_t bytes;
};

int rt_host_mem_new(rt_dev *d, uint64_t bytes, rt_mem_kind kind, rt_mem **out, rt_err *e);
void rt_host_mem_free(rt_dev *d, rt_mem *m);
int rt_host_copy(rt_dev *d, const rt_copy *c, rt_ticket *t, rt_err *e);
int rt_host_wait(rt_dev *d, rt_ticket t, rt_err *e);

/* A copy of what is in no memory, straight to where it goes. */
static inline bool rt_host_fetches(const rt_bound_op *o) { return o->kind == RT_OP_COPY && o->slot[RT_ROWS_X].reader; }
int rt_host_fetch(const rt_bound_op *o, rt_err *e);

/* Element (0,0) of an operand; null when it is absent. */
static inline void *rt_host_ptr(const rt_operand *o) { return o->mem ? o->mem->base + o->off : 0; }

#endif
