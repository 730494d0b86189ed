/* vk_memory.c - allocations, copies through staging memory, submissions and their tickets.
 *
 * Owns: when host memory may be touched again, and the order of all that is submitted. A ticket is a value of the
 * device's one timeline semaphore. Every submission begins with a barrier behind all before it, so order is that of
 * the calls. An upload is taken into a stage and goes on by itself; a small download is delivered when its ticket is
 * waited for, a larger one ends when it returns. */
#include "backend/vulkan/vk_internal.h"

#include "base/str.h"

/* ---- allocations ---- */

static int bind_memory(rt_vk_dev *d, rt_mem *m, rt_mem_kind kind, rt_err *e)
{
    int rc;
    char text[32];
    void *host = NULL;
    VkMemoryRequirements needs;
    d->vk.buffer_needs(d->device, m->buffer, &needs);
    uint32_t type = rt_vk_memory_type(&d->types, needs.memoryTypeBits, kind);
    if (type == VK_MAX_MEMORY_TYPES) return rt_fail(e, RT_DEVICE, "%s has no memory of that kind", d->gpu.name);
    const VkMemoryAllocateFlagsInfo flags = { .sType = VK_STRUCTURE_TYPE_MEMORY_ALLOCATE_FLAGS_INFO,
                                              .flags = VK_MEMORY_ALLOCATE_DEVICE_ADDRESS_BIT };
    const VkMemoryAllocateInfo info = { .sType = VK_STRUCTURE_TYPE_MEMORY_ALLOCATE_INFO,
                                        .pNext = &flags,
                                        .allocationSize = needs.size,
                                        .memoryTypeIndex = type };
    const VkBufferDeviceAddressInfo where = { .sType = VK_STRUCTURE_TYPE_BUFFER_DEVICE_ADDRESS_INFO,
                                              .buffer = m->buffer };
    RT_TRY(rt_vk_status(d->vk.memory_new(d->device, &info, NULL, &m->memory), e, "allocating %s of %s memory",
                        rt_format_bytes(text, m->bytes),
                        kind == RT_MEM_HOST_PINNED ? "pinned host"
                        : kind == RT_MEM_MANAGED   ? "shared"
                                                   : "device"));
    RT_TRY(rt_vk_status(d->vk.buffer_bind(d->device, m->buffer, m->memory, 0), e, "binding memory"));
    if (kind != RT_MEM_DEVICE)
        RT_TRY(rt_vk_status(d->vk.memory_map(d->device, m->memory, 0, VK_WHOLE_SIZE, 0, &host), e, "mapping memory"));
    m->host = host;
    m->addr = d->vk.buffer_address(d->device, &where);
out:
    return rc;
}

static void release(rt_vk_dev *d, rt_mem *m)
{
    if (!m) return;
    if (m->buffer) d->vk.buffer_free(d->device, m->buffer, NULL);
    if (m->memory) d->vk.memory_free(d->device, m->memory, NULL); /* which also unmaps it */
    rt_free(m);
}

int rt_vk_mem_new(rt_dev *dev, uint64_t bytes, rt_mem_kind kind, rt_mem **out, rt_err *e)
{
    rt_vk_dev *d = (rt_vk_dev *)dev;
    int rc;
    char text[32], most[32];
    *out = NULL;
    rt_mem *m = rt_alloc_zero(sizeof *m, 16);
    if (!m) return rt_fail(e, RT_NOMEM, "no memory for an allocation");
    m->bytes = bytes;
    m->kind = kind == RT_MEM_DEVICE ? d->memory : kind;
    if (d->gpu.largest && bytes > d->gpu.largest)
        RT_TRY(rt_fail(e, RT_NOMEM,
                       "allocating %s: %s takes at most %s at once; use smaller micro-batches or a smaller model",
                       rt_format_bytes(text, bytes), d->gpu.name, rt_format_bytes(most, d->gpu.largest)));
    const VkBufferCreateInfo info = { .sType = VK_STRUCTURE_TYPE_BUFFER_CREATE_INFO,
                                      .size = rt_align_up(bytes ? bytes : 1, 256),
                                      .usage = VK_BUFFER_USAGE_STORAGE_BUFFER_BIT | VK_BUFFER_USAGE_TRANSFER_SRC_BIT |
                                               VK_BUFFER_USAGE_TRANSFER_DST_BIT |
                                               VK_BUFFER_USAGE_SHADER_DEVICE_ADDRESS_BIT };
    RT_TRY(rt_vk_status(d->vk.buffer_new(d->device, &info, NULL, &m->buffer), e, "making a buffer of %s",
                        rt_format_bytes(text, bytes)));
    RT_TRY(bind_memory(d, m, m->kind, e));
    if (m->kind == RT_MEM_DEVICE) d->own_bytes += bytes;
    *out = m;
    m = NULL;
out:
    release(d, m);
    return rc;
}

/* What may still use it is waited for. */
void rt_vk_mem_free(rt_dev *dev, rt_mem *m)
{
    rt_vk_dev *d = (rt_vk_dev *)dev;
    if (!m) return;
    rt_vk_wait(dev, d->submitted, NULL);
    if (m->kind == RT_MEM_DEVICE) d->own_bytes -= m->bytes;
    release(d, m);
}

/* ---- submissions and tickets ---- */

void rt_vk_barrier(const rt_vk_dev *d, VkCommandBuffer commands)
{
    const VkPipelineStageFlags stages = VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT | VK_PIPELINE_STAGE_TRANSFER_BIT;
    const VkMemoryBarrier all = { .sType = VK_STRUCTURE_TYPE_MEMORY_BARRIER,
                                  .srcAccessMask = VK_ACCESS_MEMORY_READ_BIT | VK_ACCESS_MEMORY_WRITE_BIT,
                                  .dstAccessMask = VK_ACCESS_MEMORY_READ_BIT | VK_ACCESS_MEMORY_WRITE_BIT };
    d->vk.barrier(commands, stages, stages, 0, 1, &all, 0, NULL, 0, NULL);
}

int rt_vk_commands_begin(rt_vk_dev *d, VkCommandBuffer commands, bool again, rt_err *e)
{
    const VkCommandBufferBeginInfo info = { .sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_BEGIN_INFO,
                                            .flags = again ? VK_COMMAND_BUFFER_USAGE_SIMULTANEOUS_USE_BIT
                                                           : VK_COMMAND_BUFFER_USAGE_ONE_TIME_SUBMIT_BIT };
    int rc = rt_vk_status(d->vk.commands_begin(commands, &info), e, "recording commands");
    if (rc >= 0) rt_vk_barrier(d, commands);
    return rc;
}

int rt_vk_submit(rt_vk_dev *d, const VkCommandBuffer *commands, uint32_t n, rt_ticket *t, rt_err *e)
{
    rt_ticket mine = d->submitted + 1;
    const VkTimelineSemaphoreSubmitInfo values = { .sType = VK_STRUCTURE_TYPE_TIMELINE_SEMAPHORE_SUBMIT_INFO,
                                                   .signalSemaphoreValueCount = 1,
                                                   .pSignalSemaphoreValues = &mine };
    const VkSubmitInfo info = { .sType = VK_STRUCTURE_TYPE_SUBMIT_INFO,
                                .pNext = &values,
                                .commandBufferCount = n,
                                .pCommandBuffers = commands,
                                .signalSemaphoreCount = 1,
                                .pSignalSemaphores = &d->timeline };
    int rc = rt_vk_status(d->vk.submit(d->queue, 1, &info, VK_NULL_HANDLE), e, "submitting to %s", d->gpu.name);
    if (rc < 0) return rc;
    d->submitted = mine;
    if (t) *t = mine;
    return RT_OK;
}

/* Small downloads that have arrived go to whom they are for; after a fault none ever will. */
static void deliver(rt_vk_dev *d, bool arrived)
{
    for (uint32_t i = 0; i < RT_VK_STAGES; i++) {
        rt_vk_stage *s = &d->stage[i];
        if (!s->to || (arrived && s->busy > d->done)) continue;
        if (arrived) memcpy(s->to, s->mem->host, s->to_bytes);
        s->to = NULL;
    }
}

int rt_vk_wait(rt_dev *dev, rt_ticket t, rt_err *e)
{
    rt_vk_dev *d = (rt_vk_dev *)dev;
    if (t <= d->done) return RT_OK;
    const VkSemaphoreWaitInfo info = {
        .sType = VK_STRUCTURE_TYPE_SEMAPHORE_WAIT_INFO, .semaphoreCount = 1, .pSemaphores = &d->timeline, .pValues = &t
    };
    int rc = rt_vk_status(d->vk.semaphores_wait(d->device, &info, UINT64_MAX), e, "waiting for %s", d->gpu.name);
    if (rc >= 0) d->done = t;
    deliver(d, rc >= 0);
    if (rc < 0 && !d->sync) rt_err_context(e, "%s: --sync names the op that failed", d->gpu.name);
    return rc;
}

/* ---- copies ---- */

int rt_vk_stages_new(rt_vk_dev *d, rt_err *e)
{
    int rc = RT_OK;
    VkCommandBuffer commands[RT_VK_STAGES];
    const VkCommandBufferAllocateInfo info = { .sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_ALLOCATE_INFO,
                                               .commandPool = d->pool,
                                               .level = VK_COMMAND_BUFFER_LEVEL_PRIMARY,
                                               .commandBufferCount = RT_VK_STAGES };
    RT_TRY(rt_vk_status(d->vk.commands_new(d->device, &info, commands), e, "making commands"));
    for (uint32_t i = 0; i < RT_VK_STAGES; i++) {
        d->stage[i].commands = commands[i];
        RT_TRY(rt_vk_mem_new(&d->base, RT_VK_STAGE_BYTES, RT_MEM_HOST_PINNED, &d->stage[i].mem, e));
    }
out:
    return rc;
}

void rt_vk_stages_free(rt_vk_dev *d)
{
    for (uint32_t i = 0; i < RT_VK_STAGES; i++) release(d, d->stage[i].mem);
}

/* What goes to the device: the host's bytes, or those of a reader from `at` on. */
typedef struct source {
    const uint8_t *host;
    const rt_reader *reader;
    uint64_t at;
} source;

/* Copies between the next stage, once it is free, and memory: to it when `from` is given, else from it. */
static int copy_piece(rt_vk_dev *d, rt_mem *m, uint64_t off, uint64_t bytes, const source *from, rt_vk_stage **used,
                      rt_err *e)
{
    int rc;
    rt_vk_stage *s = &d->stage[d->turn++ % RT_VK_STAGES];
    const VkBufferCopy region = { .srcOffset = from ? 0 : off, .dstOffset = from ? off : 0, .size = bytes };
    const VkMemoryBarrier to_host = { .sType = VK_STRUCTURE_TYPE_MEMORY_BARRIER,
                                      .srcAccessMask = VK_ACCESS_TRANSFER_WRITE_BIT,
                                      .dstAccessMask = VK_ACCESS_HOST_READ_BIT };
    RT_TRY(rt_vk_wait(&d->base, s->busy, e));
    if (from && from->reader) RT_TRY(from->reader->read(from->reader->ctx, from->at, bytes, s->mem->host, e));
    if (from && !from->reader) memcpy(s->mem->host, from->host + from->at, bytes);
    RT_TRY(rt_vk_commands_begin(d, s->commands, false, e));
    d->vk.copy(s->commands, from ? s->mem->buffer : m->buffer, from ? m->buffer : s->mem->buffer, 1, &region);
    if (!from)
        d->vk.barrier(s->commands, VK_PIPELINE_STAGE_TRANSFER_BIT, VK_PIPELINE_STAGE_HOST_BIT, 0, 1, &to_host, 0, NULL,
                      0, NULL);
    RT_TRY(rt_vk_status(d->vk.commands_end(s->commands), e, "recording commands"));
    RT_TRY(rt_vk_submit(d, &s->commands, 1, &s->busy, e));
    *used = s;
out:
    return rc;
}

static int upload(rt_vk_dev *d, rt_mem *m, uint64_t off, uint64_t bytes, source from, rt_err *e)
{
    int rc = RT_OK;
    rt_vk_stage *s;
    for (uint64_t n; bytes; bytes -= n, off += n, from.at += n) {
        n = bytes < RT_VK_STAGE_BYTES ? bytes : RT_VK_STAGE_BYTES;
        RT_TRY(copy_piece(d, m, off, n, &from, &s, e));
    }
out:
    return rc;
}

int rt_vk_fetch_run(rt_vk_dev *d, const rt_vk_fetch *f, rt_err *e)
{
    return upload(d, f->to, f->off, f->bytes, (source){ .reader = f->reader, .at = f->from }, e);
}

/* A piece is under way while the one before it is taken out. */
static int download(rt_vk_dev *d, const rt_copy *c, rt_err *e)
{
    int rc = RT_OK;
    uint8_t *to = c->host;
    rt_vk_stage *last = NULL, *next = NULL;
    uint64_t pending = 0;
    for (uint64_t at = 0, n; at < c->bytes || last; at += n) {
        n = c->bytes - at < RT_VK_STAGE_BYTES ? c->bytes - at : RT_VK_STAGE_BYTES;
        next = NULL;
        if (n) RT_TRY(copy_piece(d, c->mem, c->off + at, n, NULL, &next, e));
        if (last) {
            RT_TRY(rt_vk_wait(&d->base, last->busy, e));
            memcpy(to, last->mem->host, pending);
            to += pending;
        }
        last = next;
        pending = n;
    }
out:
    return rc;
}

/* Memory of the host, which no stage needs to stand in for: what may still use it is waited for. */
static int host_copy(rt_vk_dev *d, const rt_copy *c, rt_err *e)
{
    int rc = rt_vk_wait(&d->base, d->submitted, e);
    uint8_t *at = c->mem->host + c->off;
    if (rc >= 0) memcpy(c->to_device ? at : c->host, c->to_device ? c->host : at, c->bytes);
    return rc;
}

int rt_vk_mem_copy(rt_dev *dev, const rt_copy *c, rt_ticket *t, rt_err *e)
{
    rt_vk_dev *d = (rt_vk_dev *)dev;
    int rc = RT_OK;
    uint64_t end;
    if (t) *t = 0;
    if (!rt_add_u64(c->off, c->bytes, &end) || end > c->mem->bytes)
        return rt_fail(e, RT_INTERNAL, "copy of %llu bytes at offset %llu leaves an allocation of %llu bytes",
                       (unsigned long long)c->bytes, (unsigned long long)c->off, (unsigned long long)c->mem->bytes);
    if (!c->bytes) return RT_OK;
    if (c->mem->kind == RT_MEM_HOST_PINNED) return host_copy(d, c, e);
    if (c->to_device) {
        RT_TRY(upload(d, c->mem, c->off, c->bytes, (source){ .host = c->host }, e));
        if (t) *t = d->submitted;
    } else if (t && c->bytes <= RT_VK_SMALL) {
        rt_vk_stage *s;
        RT_TRY(copy_piece(d, c->mem, c->off, c->bytes, NULL, &s, e));
        s->to = c->host;
        s->to_bytes = (uint32_t)c->bytes;
        *t = s->busy;
    } else
        RT_TRY(download(d, c, e));
out:
    return rc;
}
