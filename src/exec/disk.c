/* disk.c - buffers that are in no memory: a range of their class becomes rows of one of them, and whoever serves them
 * is asked. */
#include "exec/exec_internal.h"

void rt_exec_serve(rt_exec *x, rt_disk_fn fn, void *ctx)
{
    x->disk = fn;
    x->disk_ctx = ctx;
}

/* Copies are of whole rows. */
static rt_view rows_of(const rt_space *s, uint32_t index, uint64_t from, uint64_t bytes)
{
    const rt_buffer *b = &s->bufs[index];
    uint64_t row = rt_dtype_bytes(b->dtype, b->cols);
    return (rt_view){ index + 1, (uint32_t)(bytes / row), b->cols, from / row * b->cols, b->cols };
}

int rt_disk_read(void *ctx, uint64_t off, uint64_t bytes, void *to, rt_err *e)
{
    const rt_exec *x = ctx;
    if (!x->disk) return rt_fail(e, RT_INTERNAL, "a program reads parameters from a file, and none was opened for it");
    for (uint32_t i = 0; i < x->space->nbufs; i++) {
        const rt_buffer *b = &x->space->bufs[i];
        if (b->cls != RT_CLASS_DISK || off < x->space_off[i] || off + bytes > x->space_off[i] + b->bytes) continue;
        return x->disk(x->disk_ctx, rows_of(x->space, i, off - x->space_off[i], bytes), to, e);
    }
    return rt_fail(e, RT_INTERNAL, "bytes %llu to %llu of parameters on disk are in no buffer", (unsigned long long)off,
                   (unsigned long long)(off + bytes));
}
