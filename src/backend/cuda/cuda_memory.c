/* cuda_memory.c - allocations, copies through pinned staging, tickets.
 *
 * Owns: when host memory may be touched again. An upload is taken into a pinned buffer and goes on by itself while the
 * caller prepares the next; small ones lie behind one another in it, so that those of many steps do not wait for the
 * GPU. What comes from the device is delivered when its ticket is waited for; a download that no stage has room for
 * ends when it returns. All of that is enqueued on the device's one stream, so order is that of the calls. Also the
 * copy queue that programs have beside that stream, and reading files on it.
 */
#include "backend/cuda/cuda_internal.h"

#include "base/str.h"

#include <string.h>

static int pin(rt_cuda_dev *d, uint8_t **out, uint32_t bytes, rt_err *e)
{
    void *host = NULL;
    int rc = rt_cuda_status(&d->cu, d->cu.host_alloc(&host, bytes, 0), e, "pinning %u bytes of host memory", bytes);
    if (rc >= 0) *out = host;
    return rc;
}

int rt_cuda_stages_new(rt_cuda_dev *d, rt_err *e)
{
    int rc = RT_OK;
    for (uint32_t i = 0; i < RT_CUDA_STAGES; i++) {
        rt_cuda_stage *s = &d->stage[i];
        RT_TRY(pin(d, &s->host, RT_CUDA_STAGE_BYTES, e));
        RT_TRY(rt_cuda_status(&d->cu, d->cu.event_new(&s->free, RT_CU_EVENT_NO_TIMING), e, "making an event"));
    }
    RT_TRY(pin(d, &d->box, RT_CUDA_LETTERS * RT_CUDA_LETTER_BYTES, e));
    for (uint32_t i = 0; i < RT_CUDA_EVENTS; i++) {
        RT_TRY(rt_cuda_status(&d->cu, d->cu.event_new(&d->event[i], 0), e, "making an event"));
        RT_TRY(rt_cuda_status(&d->cu, d->cu.event_new(&d->begin[i], 0), e, "making an event"));
    }
out:
    return rc;
}

void rt_cuda_stages_free(rt_cuda_dev *d)
{
    for (uint32_t i = 0; i < RT_CUDA_STAGES; i++) {
        if (d->stage[i].host) d->cu.host_free(d->stage[i].host);
        if (d->stage[i].free) d->cu.event_free(d->stage[i].free);
    }
    if (d->box) d->cu.host_free(d->box);
    for (uint32_t i = 0; i < RT_CUDA_EVENTS; i++) {
        if (d->event[i]) d->cu.event_free(d->event[i]);
        if (d->begin[i]) d->cu.event_free(d->begin[i]);
    }
}

static int allocate(rt_cuda_dev *d, rt_mem *m, uint64_t bytes, rt_err *e)
{
    char text[32];
    void *host = NULL;
    int result;
    if (m->kind == RT_MEM_HOST_PINNED) {
        result = d->cu.host_alloc(&host, bytes, 0);
        m->addr = (rt_cu_ptr)(uintptr_t)host; /* one address space: the device reads it under the same address */
    } else if (m->kind == RT_MEM_MANAGED)
        result = d->cu.mem_alloc_managed(&m->addr, bytes, RT_CU_ATTACH_GLOBAL);
    else
        result = d->cu.mem_alloc(&m->addr, bytes);
    return rt_cuda_status(&d->cu, result, e, "allocating %s of %s memory", rt_format_bytes(text, bytes),
                          m->kind == RT_MEM_HOST_PINNED ? "pinned host"
                          : m->kind == RT_MEM_MANAGED   ? "managed"
                                                        : "device");
}

int rt_cuda_mem_new(rt_dev *dev, uint64_t bytes, rt_mem_kind kind, rt_mem **out, rt_err *e)
{
    rt_cuda_dev *d = (rt_cuda_dev *)dev;
    int rc;
    rt_mem *m = NULL;
    *out = NULL;
    RT_TRY(rt_cuda_enter(d, e));
    m = rt_alloc_zero(sizeof *m, 16);
    if (!m) RT_TRY(rt_fail(e, RT_NOMEM, "no memory for an allocation"));
    m->bytes = bytes;
    m->kind = kind == RT_MEM_DEVICE ? d->memory : kind;
    RT_TRY(allocate(d, m, bytes ? bytes : 1, e));
    if (m->kind == RT_MEM_DEVICE) d->own_bytes += bytes;
    *out = m;
    m = NULL;
out:
    rt_free(m);
    return rc;
}

void rt_cuda_mem_free(rt_dev *dev, rt_mem *m)
{
    rt_cuda_dev *d = (rt_cuda_dev *)dev;
    if (!m) return;
    rt_cuda_enter(d, NULL);
    if (m->kind == RT_MEM_HOST_PINNED)
        d->cu.host_free((void *)(uintptr_t)m->addr);
    else
        d->cu.mem_free(m->addr);
    if (m->kind == RT_MEM_DEVICE) d->own_bytes -= m->bytes;
    rt_free(m);
}

/* ---- tickets ---- */

int rt_cuda_begin(rt_cuda_dev *d, const rt_ticket *t, rt_err *e)
{
    if (!t) return RT_OK;
    return rt_cuda_status(&d->cu, d->cu.event_record(d->begin[(d->ticket + 1) % RT_CUDA_EVENTS], d->stream), e,
                          "recording an event");
}

double rt_cuda_seconds(rt_dev *dev, rt_ticket t)
{
    rt_cuda_dev *d = (rt_cuda_dev *)dev;
    float ms = 0;
    uint32_t i = t % RT_CUDA_EVENTS;
    if (rt_cuda_enter(d, NULL) < 0 || d->cu.event_elapsed(&ms, d->begin[i], d->event[i]) != RT_CU_SUCCESS) return 0;
    return ms / 1000.0;
}

int rt_cuda_ticket(rt_cuda_dev *d, rt_ticket *t, rt_err *e)
{
    rt_ticket mine = d->ticket + 1;
    if (!t) return RT_OK;
    int rc =
        rt_cuda_status(&d->cu, d->cu.event_record(d->event[mine % RT_CUDA_EVENTS], d->stream), e, "recording an event");
    if (rc >= 0) *t = d->ticket = mine;
    return rc;
}

/* Letters that have arrived go to whom they are for; after a fault none ever will. */
static void deliver(rt_cuda_dev *d, bool arrived)
{
    for (uint32_t i = 0; i < RT_CUDA_LETTERS; i++) {
        rt_cuda_letter *l = &d->letter[i];
        if (!l->to || (arrived && l->ticket > d->done)) continue;
        if (arrived) memcpy(l->to, l->at, l->bytes);
        l->to = NULL;
    }
}

int rt_cuda_wait(rt_dev *dev, rt_ticket t, rt_err *e)
{
    rt_cuda_dev *d = (rt_cuda_dev *)dev;
    int rc;
    if (t <= d->done) return RT_OK;
    RT_TRY(rt_cuda_enter(d, e));
    RT_TRY(rt_cuda_status(&d->cu, d->cu.event_wait(d->event[t % RT_CUDA_EVENTS]), e, "waiting for the GPU"));
    d->done = t;
    RT_TRY(rt_cuda_aside_status(d, e));
    deliver(d, true);
    return RT_OK;
out:
    deliver(d, false);
    if (!d->sync) rt_err_context(e, "%s: --sync names the op that failed", d->name);
    return rc;
}

/* ---- copies ---- */

/* The next stage, when the copies that used it are done and what came into it is where it belongs. */
static int turn_to_next(rt_cuda_dev *d, rt_cuda_stage **out, rt_err *e)
{
    rt_cuda_stage *s = &d->stage[++d->filling % RT_CUDA_STAGES];
    int rc = rt_cuda_status(&d->cu, d->cu.event_wait(s->free), e, "waiting for a copy");
    for (rt_cuda_letter *l = d->letter; rc >= 0 && l < d->letter + RT_CUDA_LETTERS; l++) {
        if (!l->to || l->in != s) continue;
        memcpy(l->to, l->at, l->bytes);
        l->to = NULL;
    }
    s->used = 0;
    *out = s;
    return rc;
}

enum { STAGE_ALIGN = 256 };

static int upload(rt_cuda_dev *d, rt_cu_ptr to, const uint8_t *from, uint64_t bytes, rt_err *e)
{
    int rc = RT_OK;
    while (bytes) {
        rt_cuda_stage *s = &d->stage[d->filling % RT_CUDA_STAGES];
        if (s->used == RT_CUDA_STAGE_BYTES) RT_TRY(turn_to_next(d, &s, e));
        uint64_t left = RT_CUDA_STAGE_BYTES - s->used, n = bytes < left ? bytes : left;
        memcpy(s->host + s->used, from, n);
        RT_TRY(rt_cuda_status(&d->cu, d->cu.copy_to_device(to, s->host + s->used, n, d->stream), e, "uploading"));
        RT_TRY(rt_cuda_status(&d->cu, d->cu.event_record(s->free, d->stream), e, "recording an event"));
        s->used += rt_align_up(n, STAGE_ALIGN);
        to += n;
        from += n;
        bytes -= n;
    }
out:
    return rc;
}

/* Two pieces are under way at a time, each with a stage of its own: one is taken out while the next arrives. */
static int download(rt_cuda_dev *d, uint8_t *to, rt_cu_ptr from, uint64_t bytes, rt_err *e)
{
    int rc = RT_OK;
    uint64_t asked = 0, taken = 0;
    rt_cuda_stage *at[2] = { NULL, NULL };
    while (taken < bytes) {
        while (asked < bytes && asked - taken < 2 * (uint64_t)RT_CUDA_STAGE_BYTES) {
            rt_cuda_stage **s = &at[asked / RT_CUDA_STAGE_BYTES % 2];
            uint64_t n = bytes - asked < RT_CUDA_STAGE_BYTES ? bytes - asked : RT_CUDA_STAGE_BYTES;
            RT_TRY(turn_to_next(d, s, e));
            (*s)->used = RT_CUDA_STAGE_BYTES;
            RT_TRY(
                rt_cuda_status(&d->cu, d->cu.copy_to_host((*s)->host, from + asked, n, d->stream), e, "downloading"));
            RT_TRY(rt_cuda_status(&d->cu, d->cu.event_record((*s)->free, d->stream), e, "recording an event"));
            asked += n;
        }
        rt_cuda_stage *s = at[taken / RT_CUDA_STAGE_BYTES % 2];
        uint64_t n = bytes - taken < RT_CUDA_STAGE_BYTES ? bytes - taken : RT_CUDA_STAGE_BYTES;
        RT_TRY(rt_cuda_status(&d->cu, d->cu.event_wait(s->free), e, "waiting for a download"));
        memcpy(to + taken, s->host, n);
        taken += n;
    }
out:
    return rc;
}

/* Without waiting, into the box or a stage; false when there are too many letters, the download is too large, or nobody
 * will wait for it. */
static bool post(rt_cuda_dev *d, const rt_copy *c, rt_ticket *t, int *out, rt_err *e)
{
    int rc = RT_OK;
    uint32_t i = 0;
    rt_cuda_stage *s = NULL;
    while (i < RT_CUDA_LETTERS && d->letter[i].to) i++;
    if (!t || i == RT_CUDA_LETTERS || c->bytes == 0 || c->bytes > RT_CUDA_STAGE_BYTES) return false;
    uint8_t *place = d->box + i * RT_CUDA_LETTER_BYTES;
    if (c->bytes > RT_CUDA_LETTER_BYTES) {
        s = &d->stage[d->filling % RT_CUDA_STAGES];
        if (RT_CUDA_STAGE_BYTES - s->used < c->bytes) RT_TRY(turn_to_next(d, &s, e));
        place = s->host + s->used;
        s->used += rt_align_up(c->bytes, STAGE_ALIGN);
    }
    RT_TRY(rt_cuda_status(&d->cu, d->cu.copy_to_host(place, c->mem->addr + c->off, c->bytes, d->stream), e,
                          "downloading"));
    if (s) RT_TRY(rt_cuda_status(&d->cu, d->cu.event_record(s->free, d->stream), e, "recording an event"));
    RT_TRY(rt_cuda_ticket(d, t, e));
    d->letter[i] = (rt_cuda_letter){ .to = c->host, .in = s, .at = place, .bytes = (uint32_t)c->bytes, .ticket = *t };
out:
    *out = rc;
    return true;
}

/* Memory of the host, which no stage needs to stand in for: what may still read it is waited for. */
static int host_copy(rt_cuda_dev *d, const rt_copy *c, rt_ticket *t, rt_err *e)
{
    uint8_t *at = (uint8_t *)(uintptr_t)c->mem->addr + c->off;
    int rc = rt_cuda_status(&d->cu, d->cu.stream_wait(d->stream), e, "waiting for the GPU");
    if (rc < 0) return rc;
    memcpy(c->to_device ? at : c->host, c->to_device ? c->host : at, c->bytes);
    if (t) *t = 0;
    return RT_OK;
}

int rt_cuda_mem_copy(rt_dev *dev, const rt_copy *c, rt_ticket *t, rt_err *e)
{
    rt_cuda_dev *d = (rt_cuda_dev *)dev;
    int rc;
    uint64_t end;
    if (!rt_add_u64(c->off, c->bytes, &end) || end > c->mem->bytes)
        return rt_fail(e, RT_INTERNAL, "copy of %llu bytes at offset %llu leaves an allocation of %llu bytes",
                       (unsigned long long)c->bytes, (unsigned long long)c->off, (unsigned long long)c->mem->bytes);
    RT_TRY(rt_cuda_enter(d, e));
    if (c->mem->kind == RT_MEM_HOST_PINNED) return host_copy(d, c, t, e);
    if (c->to_device) {
        RT_TRY(upload(d, c->mem->addr + c->off, c->host, c->bytes, e));
        return rt_cuda_ticket(d, t, e);
    }
    if (post(d, c, t, &rc, e)) return rc;
    RT_TRY(download(d, c->host, c->mem->addr + c->off, c->bytes, e));
    if (t) *t = 0;
out:
    return rc;
}

/* ---- the copy queue: a second stream, on which what is not in device memory comes in while the first computes. What
 * waits for what is derived elsewhere (exec/order.c); cuda_program.c records it as events. Files are read in a thread
 * of the driver, between the launches of a graph, so what goes wrong there is kept and told by whoever waits. ---- */

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
    if (atomic_load(&d->aside_failed)) return;
    if (f->reader->read(f->reader->ctx, f->from, f->bytes, d->read_stage, &e) < 0) rt_cuda_aside_fail(d, &e);
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

void rt_cuda_aside_fail(rt_cuda_dev *d, const rt_err *why)
{
    if (atomic_exchange(&d->aside_taken, true)) return;
    d->aside_err = *why;
    atomic_store(&d->aside_failed, true);
}

int rt_cuda_aside_status(rt_cuda_dev *d, rt_err *e)
{
    if (!atomic_load(&d->aside_failed)) return RT_OK;
    if (e) *e = d->aside_err;
    return d->aside_err.status;
}
