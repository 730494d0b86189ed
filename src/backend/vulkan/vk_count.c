/* vk_count.c - see vk_count.h. */
#include "backend/vulkan/vk_count.h"

int rt_vk_counters_new(rt_vk_dev *d, rt_err *e)
{
    uint64_t words = RT_VK_COUNT_WORDS * RT_VK_COUNT_BANKS + RT_VK_COUNT_LINES;
    int rc = rt_vk_mem_new(&d->base, words * sizeof(uint32_t), RT_MEM_HOST_PINNED, &d->counters, e);
    if (rc >= 0) memset(d->counters->host, 0, d->counters->bytes);
    return rc;
}

int rt_vk_counters_take(rt_dev *dev, rt_vk_counts *out, rt_err *e)
{
    rt_vk_dev *d = (rt_vk_dev *)dev;
    uint64_t sum[RT_VK_COUNT_WORDS] = { 0 };
    int rc;
    if (!d->counters) RT_TRY(rt_fail(e, RT_UNSUPPORTED, "the shaders of this program do not count"));
    RT_TRY(rt_vk_wait(dev, d->submitted, e));
    const uint32_t *word = (const void *)d->counters->host;
    for (uint32_t i = 0; i < RT_VK_COUNT_BANKS * RT_VK_COUNT_WORDS; i++) sum[i % RT_VK_COUNT_WORDS] += word[i];
    memset(d->counters->host, 0, d->counters->bytes);
    *out = (rt_vk_counts){ sum[0], sum[1], sum[2], sum[3], sum[4] };
out:
    return rc;
}
