/* environment.c - what this binary is and what it takes from the process it runs in; the device in a line. */
#include "cli/cli.h"

#include <retort.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

const char rt_cli_version[] = RETORT_VERSION;
const char rt_cli_build[] = RT_BUILD_ID;

static const char *variable(const char *name)
{
    const char *value = getenv(name);
    return value && value[0] ? value : NULL;
}

rt_job_env rt_cli_env(uint64_t given)
{
    time_t now = given ? (time_t)given : time(NULL);
    struct tm local;
    return (rt_job_env){
        .hub = { variable("HF_HUB_CACHE"), variable("HF_HOME"), variable("XDG_CACHE_HOME"), variable("HOME"), NULL },
        .environment = (const char *const *)environ,
        .scratch = variable("TMPDIR"),
        .now = now,
        .utc_offset = localtime_r(&now, &local) ? (int32_t)local.tm_gmtoff : 0,
        .version = rt_cli_version,
        .build = rt_cli_build,
    };
}

int rt_placed_model_open(rt_placed_model *m, const char *spec, const rt_where *w, rt_err *e)
{
    int rc = RT_OK;
    m->env = rt_cli_env(0);
    m->env.hub.base = w->base;
    m->where.threads = w->threads;
    if (w->device) RT_TRY(rt_settings_set(&m->where, RT_SETTING_ID_device, w->device, e));
    RT_TRY(rt_model_file_open(&m->file, spec, &m->env.hub, e));
out:
    return rc;
}

void rt_print_device(rt_dev *d, const char *why)
{
    rt_dev_info info;
    if (d->api->info(d, &info, NULL) < 0) return;
    rt_say("device", "%s: %s%s%s%s", d->api->name, info.name,
           !why[0]     ? ""
           : info.host ? " (no GPU: "
                       : " (",
           why, why[0] ? ")" : "");
    if (info.warning[0]) rt_say("warning", "%s", info.warning);
}

void rt_print_device_end(rt_dev *d)
{
    rt_dev_info info;
    char code[32], context[32];
    if (d->api->info(d, &info, NULL) < 0 || !info.modules) return;
    if (!info.context_bytes) {
        rt_say("code", "%u pipelines; compiled or loaded after seal: %u", info.modules, info.late_loads);
        return;
    }
    rt_say("code", "%u modules, %s, beside %s of context; compiled or loaded after seal: %u", info.modules,
           rt_format_bytes(code, info.module_bytes), rt_format_bytes(context, info.context_bytes), info.late_loads);
}

rt_flag rt_device_flag(const char *option, void *value)
{
    static const rt_flag_kind kinds[] = { [RT_DEV_OPTION_TEXT] = RT_FLAG_TEXT,
                                          [RT_DEV_OPTION_COUNT] = RT_FLAG_COUNT,
                                          [RT_DEV_OPTION_SWITCH] = RT_FLAG_BOOL,
                                          [RT_DEV_OPTION_CHOICE] = RT_FLAG_TEXT };
    const rt_dev_option_info *f = rt_job_device_option(option);
    return (rt_flag){ f->flag, kinds[f->kind], value, f->metavar, f->help };
}
