/* vk_clock.c - how long programs took, by the device's clock: a timestamp once all before a run is done, and one once
 * the run is. Those of the last runs are kept. */
#include "backend/vulkan/vk_internal.h"

static int record_mark(rt_vk_dev *d, uint32_t pair, uint32_t which, rt_err *e)
{
    rt_vk_clock *c = &d->clock;
    VkCommandBuffer commands = c->mark[pair][which];
    int rc = rt_vk_commands_begin(d, commands, true, e);
    if (rc < 0) return rc;
    if (which == 0) d->vk.queries_reset(commands, c->queries, 2 * pair, 2);
    d->vk.timestamp(commands, VK_PIPELINE_STAGE_BOTTOM_OF_PIPE_BIT, c->queries, 2 * pair + which);
    return rt_vk_status(d->vk.commands_end(commands), e, "recording timestamps");
}

int rt_vk_clock_new(rt_vk_dev *d, rt_err *e)
{
    int rc = RT_OK;
    rt_vk_clock *c = &d->clock;
    const VkQueryPoolCreateInfo queries = { .sType = VK_STRUCTURE_TYPE_QUERY_POOL_CREATE_INFO,
                                            .queryType = VK_QUERY_TYPE_TIMESTAMP,
                                            .queryCount = 2 * RT_VK_CLOCK_RUNS };
    const VkCommandBufferAllocateInfo commands = { .sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_ALLOCATE_INFO,
                                                   .commandPool = d->pool,
                                                   .level = VK_COMMAND_BUFFER_LEVEL_PRIMARY,
                                                   .commandBufferCount = 2 * RT_VK_CLOCK_RUNS };
    if (!d->gpu.clock_bits) return RT_OK;
    RT_TRY(rt_vk_status(d->vk.queries_new(d->device, &queries, NULL, &c->queries), e, "making timestamps"));
    RT_TRY(rt_vk_status(d->vk.commands_new(d->device, &commands, c->mark[0]), e, "making commands"));
    for (uint32_t i = 0; i < RT_VK_CLOCK_RUNS; i++)
        for (uint32_t which = 0; which < 2; which++) RT_TRY(record_mark(d, i, which, e));
out:
    return rc;
}

void rt_vk_clock_free(rt_vk_dev *d)
{
    if (d->clock.queries) d->vk.queries_free(d->device, d->clock.queries, NULL);
}

const VkCommandBuffer *rt_vk_clock_next(rt_vk_dev *d, uint32_t *pair)
{
    rt_vk_clock *c = &d->clock;
    *pair = 0;
    if (!c->queries) return NULL;
    *pair = c->turn++ % RT_VK_CLOCK_RUNS;
    c->of[*pair] = 0;
    return c->mark[*pair];
}

/* 0 where there is no clock, or the run is not one of the last. */
double rt_vk_seconds(rt_dev *dev, rt_ticket t)
{
    rt_vk_dev *d = (rt_vk_dev *)dev;
    const rt_vk_clock *c = &d->clock;
    uint64_t at[2], mask = d->gpu.clock_bits < 64 ? (UINT64_C(1) << d->gpu.clock_bits) - 1 : UINT64_MAX;
    for (uint32_t i = 0; t && i < RT_VK_CLOCK_RUNS; i++)
        if (c->of[i] == t && d->vk.queries_read(d->device, c->queries, 2 * i, 2, sizeof at, at, sizeof *at,
                                                VK_QUERY_RESULT_64_BIT | VK_QUERY_RESULT_WAIT_BIT) == VK_SUCCESS)
            return (double)((at[1] - at[0]) & mask) * d->gpu.tick * 1e-9;
    return 0;
}
