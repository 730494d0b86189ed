/* vk_driver.c - see vk_driver.h. */
#include "backend/vulkan/vk_driver.h"

#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>

static const rt_dynlib_symbol symbols[] = {
#define X(member, symbol) { #symbol, offsetof(rt_vk_driver, member), false },
    RT_VK_LIST(X)
#undef X
};

static const char *result_text(VkResult result)
{
    switch (result) {
    case VK_ERROR_OUT_OF_HOST_MEMORY: return "out of host memory";
    case VK_ERROR_OUT_OF_DEVICE_MEMORY: return "out of device memory";
    case VK_ERROR_INITIALIZATION_FAILED: return "the driver does not start";
    case VK_ERROR_DEVICE_LOST: return "the device was lost";
    case VK_ERROR_MEMORY_MAP_FAILED: return "memory cannot be mapped";
    case VK_ERROR_FEATURE_NOT_PRESENT: return "a feature is not there";
    case VK_ERROR_EXTENSION_NOT_PRESENT: return "an extension is not there";
    case VK_ERROR_INCOMPATIBLE_DRIVER: return "no driver is installed";
    case VK_ERROR_TOO_MANY_OBJECTS: return "too many allocations";
    case VK_TIMEOUT: return "it took too long";
    default: return "the driver does not say why";
    }
}

int rt_vk_status(VkResult result, rt_err *e, const char *format, ...)
{
    char what[200];
    va_list args;
    if (result == VK_SUCCESS) return RT_OK;
    va_start(args, format);
    vsnprintf(what, sizeof what, format, args);
    va_end(args);
    bool memory = result == VK_ERROR_OUT_OF_HOST_MEMORY || result == VK_ERROR_OUT_OF_DEVICE_MEMORY;
    return rt_fail(e, memory ? RT_NOMEM : RT_DEVICE, "%s: %s (VkResult %d)", what, result_text(result), (int)result);
}

int rt_vk_driver_open(rt_vk_driver *vk, rt_err *e)
{
    int rc;
    uint32_t version = 0;
    rt_err why = { 0 };
    const VkApplicationInfo app = { .sType = VK_STRUCTURE_TYPE_APPLICATION_INFO,
                                    .pApplicationName = "retort",
                                    .apiVersion = VK_API_VERSION_1_2 };
    const VkInstanceCreateInfo info = { .sType = VK_STRUCTURE_TYPE_INSTANCE_CREATE_INFO, .pApplicationInfo = &app };
    *vk = (rt_vk_driver){ 0 };
    if (rt_dynlib_open(&vk->lib, "libvulkan.so.1", &why) < 0)
        return rt_fail(e, RT_NO_BACKEND, "no Vulkan loader: libvulkan.so.1 is not on this machine");
    if (rt_dynlib_bind(&vk->lib, vk, symbols, sizeof symbols / sizeof *symbols, &why) < 0 ||
        vk->version(&version) != VK_SUCCESS || version < VK_API_VERSION_1_2)
        RT_TRY(rt_fail(e, RT_NO_BACKEND, "the Vulkan loader is older than 1.2: install a newer libvulkan1"));
    VkResult result = vk->instance_new(&info, NULL, &vk->instance);
    if (result == VK_ERROR_INCOMPATIBLE_DRIVER)
        RT_TRY(rt_fail(e, RT_NO_BACKEND,
                       "the Vulkan loader finds no driver: install the one of the GPU, or mesa-vulkan-drivers"));
    if (result != VK_SUCCESS) {
        rt_vk_status(result, &why, "starting Vulkan");
        RT_TRY(rt_fail(e, RT_NO_BACKEND, "%s", why.text));
    }
    return RT_OK;
out:
    rt_vk_driver_close(vk);
    return rc;
}

void rt_vk_driver_close(rt_vk_driver *vk)
{
    if (vk->instance) vk->instance_free(vk->instance, NULL);
    rt_dynlib_close(&vk->lib);
    *vk = (rt_vk_driver){ 0 };
}
