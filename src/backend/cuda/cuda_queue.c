/* cuda_queue.c - the copy queue: a second stream on which parameters that are not in device memory come in while the
 * first computes.
 *
 * Owns: that stream, the pinned stage that pieces of files are read into, and reading them: in a thread of the driver,
 * between the launches of a graph, so that what went wrong is kept and told by whoever waits. What waits for what is
 * derived elsewhere (exec/order.c); cuda_program.c records it as events. */
#include "backend/cuda/cuda_internal.h"

#include <string.h>

int rt_cuda_queue_open(rt_cuda_dev *d, bool reads, rt_err *e)
{
    int rc = RT_OK;
    void *host = NULL;
    if (!d->copies)
        RT_TRY(rt_cuda_status(&d->cu, d->cu.stream_new(&d->copies, RT_CU_STREAM_NON_BLOCKING), e, "making a stream"));
    if (!reads || d->read_stage) return RT_OK;
    RT_TRY(rt_cuda_status(&d->cu, d->cu.host_alloc(&host, RT_CUDA_STAGE_BYTES, 0), e, "pinning %u bytes of host memory",
                          RT_CUDA_STAGE_BYTES));
    d->read_stage = host;
out:
    return rc;
}

void rt_cuda_queue_close(rt_cuda_dev *d)
{
    if (d->copies) {
        d->cu.stream_wait(d->copies);
        d->cu.stream_free(d->copies);
    }
    if (d->read_stage) d->cu.host_free(d->read_stage);
}

/* As many whole rows as a stage has room for. */
uint64_t rt_cuda_fetch_piece(const rt_operand *x)
{
    uint64_t row = rt_dtype_bytes(x->dtype, x->cols);
    return x->reader ? RT_CUDA_STAGE_BYTES / row * row : x->rows * row;
}

/* In a thread of the driver, where nothing of CUDA may be called. */
static void read_piece(void *data)
{
    const rt_cuda_fetch *f = data;
    rt_cuda_dev *d = f->d;
    rt_err e = { 0 };
    if (atomic_load(&d->read_failed)) return;
    if (f->reader->read(f->reader->ctx, f->from, f->bytes, d->read_stage, &e) >= 0) return;
    d->read_err = e;
    atomic_store(&d->read_failed, true);
}

int rt_cuda_fetch_run(rt_cuda_fetch *f, rt_cu_stream stream, rt_err *e)
{
    int rc;
    rt_cuda_dev *d = f->d;
    rt_cu_ptr from = f->reader ? (rt_cu_ptr)(uintptr_t)d->read_stage : f->from;
    if (f->reader) RT_TRY(rt_cuda_status(&d->cu, d->cu.call_host(stream, read_piece, f), e, "reading parameters"));
    RT_TRY(rt_cuda_status(&d->cu, d->cu.copy(f->to, from, f->bytes, stream), e, "copying parameters"));
out:
    return rc;
}

int rt_cuda_read_status(rt_cuda_dev *d, rt_err *e)
{
    if (!atomic_load(&d->read_failed)) return RT_OK;
    if (e) *e = d->read_err;
    return d->read_err.status;
}
