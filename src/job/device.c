/* device.c - see device.h. */
#include "job/device.h"

enum { THREADS_MAX = 4096 };

/* Null: out of memory. Lists and reals are no options. */
static const char *text_of(const rt_settings *s, const rt_setting_info *f, rt_arena *a)
{
    const void *value = (const char *)s + f->offset;
    switch (f->kind) {
    case RT_SETTING_TEXT: return *(const char *const *)value;
    case RT_SETTING_SWITCH: return *(const bool *)value ? "on" : "off";
    case RT_SETTING_COUNT: return rt_arena_printf(a, "%llu", (unsigned long long)*(const uint64_t *)value);
    default: return NULL;
    }
}

int rt_settings_device(rt_dev_opts *out, const rt_settings *s, rt_arena *a, rt_err *e)
{
    rt_dev_option *list = rt_arena_alloc(a, RT_SETTING_COUNT_ALL * sizeof *list);
    uint32_t count = 0;
    *out = (rt_dev_opts){ 0 };
    if (s->threads > THREADS_MAX) return rt_fail(e, RT_USAGE, "--threads is at most %d", THREADS_MAX);
    for (int i = 0; list && i < RT_SETTING_COUNT_ALL; i++) {
        const char *name = rt_setting_table[i].flag + 2; /* after the dashes */
        if (!s->given[i] || !rt_backend_option(name)) continue;
        list[count].name = name;
        list[count].value = text_of(s, &rt_setting_table[i], a);
        if (!list[count++].value) list = NULL;
    }
    if (!list) return rt_fail(e, RT_NOMEM, "no memory for the options of a device");
    out->option = list;
    out->count = count;
    return RT_OK;
}
