/* vk_cache.c - see vk_cache.h. */
#include "backend/vulkan/vk_cache.h"

#include "base/hash.h"

#include <stdio.h>
#include <string.h>

/* Before the driver's bytes. */
typedef struct head {
    char magic[8];
    uint64_t bytes;
    rt_hash128 hash; /* of them */
} head;
static const char magic[8] = "RTVKPC1";

void rt_vk_cache_path(char *out, size_t size, const char *xdg_cache_home, const char *home, const rt_vk_driver_id *id)
{
    char uuid[2 * VK_UUID_SIZE + 1];
    int n = 0;
    for (uint32_t i = 0; i < VK_UUID_SIZE; i++) snprintf(uuid + (size_t)2 * i, 3, "%02x", id->uuid[i]);
    if (xdg_cache_home && xdg_cache_home[0] == '/')
        n = snprintf(out, size, "%s/retort/vulkan-%s.bin", xdg_cache_home, uuid);
    else if (home && home[0] == '/')
        n = snprintf(out, size, "%s/.cache/retort/vulkan-%s.bin", home, uuid);
    if (n <= 0 || (size_t)n >= size) out[0] = 0;
}

const void *rt_vk_cache_take(const void *file, uint64_t bytes, const rt_vk_driver_id *id, uint64_t *out_bytes)
{
    head h;
    VkPipelineCacheHeaderVersionOne v;
    *out_bytes = 0;
    if (bytes < sizeof h + sizeof v) return NULL;
    const uint8_t *data = (const uint8_t *)file + sizeof h;
    memcpy(&h, file, sizeof h);
    memcpy(&v, data, sizeof v);
    if (memcmp(h.magic, magic, sizeof magic) != 0 || h.bytes != bytes - sizeof h) return NULL;
    rt_hash128 is = rt_hash(data, h.bytes);
    if (is.hi != h.hash.hi || is.lo != h.hash.lo) return NULL;
    if (v.headerSize < sizeof v || v.headerVersion != VK_PIPELINE_CACHE_HEADER_VERSION_ONE ||
        v.vendorID != id->vendor || v.deviceID != id->device ||
        memcmp(v.pipelineCacheUUID, id->uuid, VK_UUID_SIZE) != 0)
        return NULL;
    *out_bytes = h.bytes;
    return data;
}

int rt_vk_cache_make(rt_str *out, const void *data, uint64_t bytes)
{
    head h = { .bytes = bytes, .hash = rt_hash(data, bytes) };
    memcpy(h.magic, magic, sizeof magic);
    rt_str_append_n(out, (const char *)&h, sizeof h);
    rt_str_append_n(out, data, bytes);
    return out->failed ? RT_NOMEM : RT_OK;
}
