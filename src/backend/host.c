/* host.c - allocations, copies and waiting for backends that compute in host memory.
 *
 * Owns: struct rt_mem and the bounds of copies into it. Leaves to the backends: devices, tickets and programs. */
#include "backend/host.h"

#include "base/mem.h"

#include <string.h>
#include <sys/mman.h>

enum {
    MEM_ALIGN = 256,       /* what backend.h promises for scratch; also covers every vector width */
    HUGE_PAGE = 2u << 20,  /* bytes */
    HUGE_LEAST = 4u << 20, /* smaller allocations gain nothing from huge pages */
};

/* Streaming kernels lose a good part of the memory rate to 4 KiB pages. Where the system leaves huge pages to advice
 * this is the advice; where it does not take it, nothing changes but speed. */
static void advise_huge(void *base, uint64_t bytes)
{
#ifdef MADV_HUGEPAGE
    (void)madvise(base, bytes / HUGE_PAGE * HUGE_PAGE, MADV_HUGEPAGE);
#else
    (void)base;
    (void)bytes;
#endif
}

int rt_host_mem_new(rt_dev *d, uint64_t bytes, rt_mem_kind kind, rt_mem **out, rt_err *e)
{
    (void)d;
    (void)kind; /* host memory is all three kinds at once */
    *out = NULL;
    bool huge = bytes >= HUGE_LEAST;
    rt_mem *m = rt_alloc(sizeof *m, 0);
    uint8_t *base = m && bytes <= SIZE_MAX ? rt_alloc(bytes ? (size_t)bytes : 1, huge ? HUGE_PAGE : MEM_ALIGN) : NULL;
    if (!base) {
        char text[32];
        rt_free(m);
        return rt_fail(e, RT_NOMEM, "cannot allocate %s of host memory", rt_format_bytes(text, bytes));
    }
    if (huge) advise_huge(base, bytes);
    m->base = base;
    m->bytes = bytes;
    *out = m;
    return RT_OK;
}

void rt_host_mem_free(rt_dev *d, rt_mem *m)
{
    (void)d;
    if (!m) return;
    rt_free(m->base);
    rt_free(m);
}

int rt_host_copy(rt_dev *d, const rt_copy *c, rt_ticket *t, rt_err *e)
{
    (void)d;
    uint64_t end;
    if (!rt_add_u64(c->off, c->bytes, &end) || end > c->mem->bytes)
        return rt_fail(e, RT_INTERNAL, "copy of %llu bytes at offset %llu leaves an allocation of %llu bytes",
                       (unsigned long long)c->bytes, (unsigned long long)c->off, (unsigned long long)c->mem->bytes);
    if (c->bytes) { /* memcpy forbids null pointers even for nothing */
        uint8_t *device = c->mem->base + c->off;
        memcpy(c->to_device ? device : c->host, c->to_device ? c->host : device, c->bytes);
    }
    if (t) *t = 0;
    return RT_OK;
}

int rt_host_fetch(const rt_bound_op *o, rt_err *e)
{
    const rt_operand *x = &o->slot[RT_ROWS_X];
    uint64_t bytes = x->rows * rt_dtype_bytes(x->dtype, x->cols);
    return x->reader->read(x->reader->ctx, x->off, bytes, rt_host_ptr(&o->slot[RT_ROWS_Y]), e);
}

int rt_host_wait(rt_dev *d, rt_ticket t, rt_err *e)
{
    (void)d;
    (void)t;
    (void)e;
    return RT_OK;
}
