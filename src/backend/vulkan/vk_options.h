/* vk_options.h - what this backend can be told. The environment's MANAGED_MEMORY is looked up in vk_backend.c. */
#ifndef RT_BACKEND_VULKAN_VK_OPTIONS_H
#define RT_BACKEND_VULKAN_VK_OPTIONS_H

#include "backend/options.h"

typedef enum rt_vk_memory { RT_VK_MEMORY_AUTO, RT_VK_MEMORY_DEVICE, RT_VK_MEMORY_MANAGED } rt_vk_memory;

typedef struct rt_vk_options {
    uint32_t memory; /* rt_vk_memory; managed: memory that host and device share */
    bool sync;       /* every op by itself, so that a fault names its op; slow */
    const char *const *env;
} rt_vk_options;

extern const rt_dev_option_info rt_vk_option_table[];
/* o may be null. */
int rt_vk_options_read(rt_vk_options *out, const rt_dev_opts *o, rt_err *e);

#endif
