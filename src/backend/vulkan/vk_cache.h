/* vk_cache.h - compiled pipelines kept from run to run: the driver's own cache, in a file below the user's.
 *
 * Owns: the file, one for each driver and device, XDG_CACHE_HOME/retort/vulkan-UUID.bin (or below HOME/.cache), and
 * what is believed of it. The driver gets no byte that was not written here for this very driver: a hash of all goes
 * before them, and what the driver's header says of vendor, device and build has to be this one's. Anything else is
 * passed over and replaced; a file that cannot be read or written costs time, never a run. */
#ifndef RT_BACKEND_VULKAN_VK_CACHE_H
#define RT_BACKEND_VULKAN_VK_CACHE_H

#include "base/err.h"
#include "base/str.h"

#include <stdbool.h>
#include <stdint.h>

#define VK_NO_PROTOTYPES
#include <vulkan/vulkan_core.h>

/* What a driver is known by. */
typedef struct rt_vk_driver_id {
    uint32_t vendor, device;
    uint8_t uuid[VK_UUID_SIZE]; /* pipelineCacheUUID */
} rt_vk_driver_id;

/* out is empty where neither variable names a folder. */
void rt_vk_cache_path(char *out, size_t size, const char *xdg_cache_home, const char *home, const rt_vk_driver_id *id);
/* The driver's bytes of a file as it was read; null: it is not one of this driver, or was cut or changed. */
const void *rt_vk_cache_take(const void *file, uint64_t bytes, const rt_vk_driver_id *id, uint64_t *out_bytes);
/* A file of the driver's bytes, appended to out. RT_NOMEM without a message. */
int rt_vk_cache_make(rt_str *out, const void *data, uint64_t bytes);

#endif
