/* device_arg.c - see device_arg.h. */
#include "cli/device_arg.h"

#include "base/str.h"

#include <stdio.h>
#include <unistd.h>

const char *const *rt_environment(void) { return (const char *const *)environ; }

int rt_device_arg_open(rt_dev **out, const char *name, const rt_dev_opts *o, bool say, rt_err *e)
{
    int rc;
    char why[160];
    rt_dev_opts with_env = *o;
    rt_dev_info info;
    with_env.env = rt_environment();
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

rt_flag rt_device_flag(const char *option, void *value)
{
    static const rt_flag_kind kinds[] = { [RT_DEV_OPTION_TEXT] = RT_FLAG_TEXT,
                                          [RT_DEV_OPTION_COUNT] = RT_FLAG_COUNT,
                                          [RT_DEV_OPTION_SWITCH] = RT_FLAG_BOOL,
                                          [RT_DEV_OPTION_CHOICE] = RT_FLAG_TEXT };
    const rt_dev_option_info *f = rt_backend_option(option);
    return (rt_flag){ f->flag, kinds[f->kind], value, f->metavar, f->help };
}
