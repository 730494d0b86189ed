/* device.c - see settings_device.h. */
#include "job/device.h"

#include <string.h>

static int memory_kind(const char *text, rt_device_memory *out, rt_err *e)
{
    static const char *const names[] = { "auto", "device", "managed" };
    for (int i = 0; i < 3; i++)
        if (strcmp(text, names[i]) == 0) {
            *out = (rt_device_memory)i;
            return RT_OK;
        }
    return rt_fail(e, RT_USAGE, "--device-memory %s: it is auto, device or managed", text);
}

int rt_settings_device(rt_dev_opts *out, const rt_settings *s, rt_err *e)
{
    enum { THREADS_MAX = 4096 };
    *out = (rt_dev_opts){ .threads = (uint32_t)s->threads, .kernels = s->kernels, .tune = s->tune, .sync = s->sync };
    if (s->threads > THREADS_MAX) return rt_fail(e, RT_USAGE, "--threads is at most %d", THREADS_MAX);
    if (s->cublaslt && strcmp(s->cublaslt, "auto") != 0) out->cublaslt = s->cublaslt;
    return s->device_memory ? memory_kind(s->device_memory, &out->memory, e) : RT_OK;
}
