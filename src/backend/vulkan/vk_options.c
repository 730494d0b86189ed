/* vk_options.c - see vk_options.h. */
#include "backend/vulkan/vk_options.h"

static const char *const memories[] = {
    [RT_VK_MEMORY_AUTO] = "auto", [RT_VK_MEMORY_DEVICE] = "device", [RT_VK_MEMORY_MANAGED] = "managed", NULL
};

#define AT(member) offsetof(rt_vk_options, member)
const rt_dev_option_info rt_vk_option_table[] = {
    { "--device-memory", RT_DEV_OPTION_CHOICE, AT(memory), memories, "M", "Vulkan memory: auto, device or managed" },
    { "--sync", RT_DEV_OPTION_SWITCH, AT(sync), NULL, NULL, "Vulkan ops one by one, so that a fault names its op" },
    { 0 },
};

int rt_vk_options_read(rt_vk_options *out, const rt_dev_opts *o, rt_err *e)
{
    *out = (rt_vk_options){ .env = o ? o->env : NULL };
    return rt_dev_options_read(out, rt_vk_option_table, o, e);
}
