/* device.c - see device.h. */
#include "job/device.h"

#include "base/json.h"

enum { THREADS_MAX = 4096 };

/* The option's value as text: null where it is left to the backend. Lists and reals are no options. */
static const char *value_of(const rt_settings *s, int id, char count[RT_DEV_COUNT_TEXT])
{
    const rt_setting_info *f = &rt_setting_table[id];
    const void *value = (const char *)s + f->offset;
    switch (f->kind) {
    case RT_SETTING_TEXT: return *(const char *const *)value;
    case RT_SETTING_SWITCH: return *(const bool *)value ? "on" : s->given[id] ? "off" : NULL;
    case RT_SETTING_COUNT:
        return s->given[id] || *(const uint64_t *)value ? rt_dev_count(count, *(const uint64_t *)value) : NULL;
    default: return NULL;
    }
}

static int check_threads(uint64_t threads, rt_err *e)
{
    const rt_settings s = { .threads = threads };
    return threads <= THREADS_MAX ? RT_OK
                                  : rt_settings_out_of_range(&s, RT_SETTING_ID_threads, "0 to 4096; 0 takes all", e);
}

int rt_settings_device(rt_dev_opts *out, const rt_settings *s, rt_arena *a, rt_err *e)
{
    int rc;
    rt_dev_option *list = rt_arena_alloc(a, RT_SETTING_COUNT_ALL * sizeof *list);
    char(*text)[RT_DEV_COUNT_TEXT] = rt_arena_alloc(a, RT_SETTING_COUNT_ALL * sizeof *text);
    uint32_t count = 0;
    *out = (rt_dev_opts){ 0 };
    RT_TRY(check_threads(s->threads, e));
    for (int k = 0; list && text && k < 2 * RT_SETTING_COUNT_ALL; k++) { /* first those that somebody asks for */
        int i = k % RT_SETTING_COUNT_ALL;
        const char *name = rt_setting_table[i].flag + 2; /* after the dashes */
        if (rt_settings_asks(s, (rt_setting_id)i) != (k < RT_SETTING_COUNT_ALL)) continue;
        const char *value = rt_backend_option(name) ? value_of(s, i, text[i]) : NULL;
        if (value) list[count++] = (rt_dev_option){ name, value };
        if (value && k >= RT_SETTING_COUNT_ALL) out->defaults++;
    }
    if (!list || !text) RT_TRY(rt_no_memory(e, "the options of a device"));
    out->option = list;
    out->count = count;
out:
    return rc;
}

int rt_job_pool_new(rt_pool **out, uint64_t threads, rt_err *e)
{
    int rc = check_threads(threads, e);
    return rc < 0 ? rc : rt_pool_new(out, threads ? (uint32_t)threads : rt_cpu_count(), e);
}

const rt_settings *rt_job_settings_of_run(const rt_settings *now, rt_arena *a)
{
    json_t *j = NULL;
    char *path = now->out ? rt_arena_printf(a, "%s/run/settings.json", now->out) : NULL;
    rt_settings *was = rt_arena_alloc(a, sizeof *was);
    if (path) (void)rt_json_read(&j, path, NULL);
    json_object_del(j, "hash");
    bool read = j && was && rt_settings_from_record(was, j, a, NULL) >= 0;
    json_decref(j);
    if (!read) return NULL;
    rt_settings_overlay(was, now);
    return was;
}

int rt_job_device_open(rt_dev **out, const rt_settings *s, const char *left_out, const char *const *env, char *why,
                       rt_err *e)
{
    rt_arena a = { 0 };
    rt_dev_opts o;
    const char *name = s->given[RT_SETTING_ID_device] ? s->device : NULL;
    int rc = rt_settings_device(&o, s, &a, e);
    o.env = env;
    o.left_out = left_out;
    if (rc >= 0) rc = rt_device_open(out, name, &o, why, e);
    rt_arena_free(&a);
    return rc;
}

const rt_dev_option_info *rt_job_device_option(const char *name) { return rt_backend_option(name); }

void rt_job_device_close(rt_dev *d)
{
    if (d) d->api->close(d);
}

const char *rt_job_backend_name(uint32_t index)
{
    const rt_backend *const *all = rt_backends();
    for (uint32_t i = 0; all[i]; i++)
        if (i == index) return all[i]->name;
    return NULL;
}

void rt_job_backend_probe(uint32_t index, const char *const *env, rt_job_backend *out)
{
    const rt_backend *b = rt_backends()[index];
    *out = (rt_job_backend){ .name = b->name };
    int n = b->probe(&(rt_dev_opts){ .env = env }, out->devices, RT_JOB_DEVICES, out->why);
    out->count = n < RT_JOB_DEVICES ? (uint32_t)n : RT_JOB_DEVICES;
}
