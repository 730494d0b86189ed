/* vk_absent.c - this backend in a binary that was built on a machine without Vulkan's headers: no device, and why. */
#include "backend/backend.h"

#include <stdio.h>

extern const rt_backend rt_backend_vulkan; /* for registry.c */

#define WHY "this binary was built without Vulkan's headers; install libvulkan-dev and glslang-tools and run make again"

static int probe(const rt_dev_opts *o, rt_dev_info *out, int cap, char *why)
{
    (void)out, (void)cap;
    if (why) snprintf(why, 160, "%s", o && o->unnamed ? "this binary has no Vulkan" : WHY);
    return 0;
}

static int open_dev(rt_dev **out, int index, const rt_dev_opts *o, rt_err *e)
{
    (void)index, (void)o;
    *out = NULL;
    return rt_fail(e, RT_NO_BACKEND, "%s", WHY);
}

const rt_backend rt_backend_vulkan = { .name = "vulkan", .probe = probe, .open = open_dev };
