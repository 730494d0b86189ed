/* device_arg.c - see device_arg.h. */
#include "cli/device_arg.h"

#include "base/str.h"

#include <stdio.h>
#include <stdlib.h>

rt_dev_env rt_dev_env_get(void)
{
    const char *cuda = getenv("CUDA_PATH");
    return (rt_dev_env){ .managed_memory = getenv("MANAGED_MEMORY"),
                         .cuda_path = cuda ? cuda : getenv("CUDA_HOME"),
                         .conda_prefix = getenv("CONDA_PREFIX"),
                         .virtual_env = getenv("VIRTUAL_ENV"),
                         .home = getenv("HOME"),
                         .path = getenv("PATH"),
                         .cache = getenv("XDG_CACHE_HOME") };
}

int rt_device_arg_open(rt_dev **out, const char *name, const rt_dev_opts *o, bool say, rt_err *e)
{
    int rc;
    char why[160];
    rt_dev_env env = rt_dev_env_get();
    rt_dev_opts with_env = *o;
    rt_dev_info info;
    with_env.env = &env;
    RT_TRY(rt_device_open(out, name, &with_env, why, e));
    if (!say) return RT_OK;
    RT_TRY((*out)->api->info(*out, &info, e));
    printf("device    %s: %s%s%s%s\n", (*out)->api->name, info.name, why[0] ? " (no GPU: " : "", why,
           why[0] ? ")" : "");
out:
    return rc;
}

void rt_device_arg_end(rt_dev *d)
{
    rt_dev_info info;
    char code[32], context[32];
    if (d->api->info(d, &info, NULL) < 0 || !info.context_bytes) return;
    printf("code      %u modules, %s, beside %s of context; compiled or loaded after seal: %u\n", info.modules,
           rt_format_bytes(code, info.module_bytes), rt_format_bytes(context, info.context_bytes), info.late_loads);
}
