/* audit_device.c - the device on which the models of a run are measured again: the one that the run used where it is
 * here, with the options that the run gave it; else the CPU, and why. */
#include "job/audit_internal.h"

#include "job/device.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Who computed last, by the manifest. */
typedef struct used {
    const char *backend, *name; /* "cuda", "NVIDIA H200" */
} used;

static used last_used(const rt_audit *v)
{
    const json_t *list = json_object_get(v->manifest, "sessions"),
                 *last = json_array_get(list, json_array_size(list) - 1), *d = json_object_get(last, "device");
    used u = { json_string_value(json_object_get(d, "backend")), json_string_value(json_object_get(d, "name")) };
    return u;
}

bool rt_audit_same_backend(const rt_audit *v, const rt_again *a)
{
    used u = last_used(v);
    return u.backend && strcmp(u.backend, a->dev->api->name) == 0;
}

/* Kernels, libraries and memory as the run had them. What was only for its speed is left: timing, and threads, which
 * are this machine's. */
static int options_of_run(rt_dev_opts *out, rt_audit *v, const rt_again *a, rt_err *e)
{
    rt_settings s = v->settings;
    rt_settings_forget(&s, RT_SETTING_ID_tune);
    rt_settings_forget(&s, RT_SETTING_ID_sync);
    rt_settings_forget(&s, RT_SETTING_ID_threads);
    if (a->opts->threads) RT_SETTINGS_PUT(&s, threads, a->opts->threads);
    int rc = rt_settings_device(out, &s, &v->arena, e);
    out->env = a->opts->environment;
    return rc;
}

/* "cuda:1" of the settings: which device of its backend; the first when they do not say. */
static uint32_t index_of(const rt_settings *s)
{
    const char *colon = s->given[RT_SETTING_ID_device] && s->device ? strchr(s->device, ':') : NULL;
    return colon ? (uint32_t)strtoul(colon + 1, NULL, 10) : 0;
}

/* Is it the device of the run? GPUs by their names; the CPU's name says no more than how it is used. */
static bool matches(const rt_dev_info *d, const used *u)
{
    return d->host || (u->name && strcmp(d->name, u->name) == 0);
}

static int open_used(rt_audit *v, rt_again *a, const used *u, rt_err *e)
{
    int rc;
    char name[64];
    rt_dev_opts o;
    const rt_backend *b;
    rt_job_backend found = { 0 };
    uint32_t at = index_of(&v->settings);
    RT_TRY(rt_backend_find(u->backend, &b, e));
    RT_TRY(options_of_run(&o, v, a, e));
    int count = b->probe(&o, found.devices, RT_JOB_DEVICES, found.why);
    if (count <= 0) RT_TRY(rt_fail(e, RT_NO_BACKEND, "%s", found.why));
    found.count = count < RT_JOB_DEVICES ? (uint32_t)count : RT_JOB_DEVICES;
    if (at >= found.count || !matches(&found.devices[at], u))
        for (at = 0; at < found.count && !matches(&found.devices[at], u);) at++;
    if (at == found.count) RT_TRY(rt_fail(e, RT_NO_BACKEND, "there is %.90s", found.devices[0].name));
    snprintf(name, sizeof name, "%s:%u", b->name, at);
    RT_TRY(rt_device_open(&a->dev, name, &o, NULL, e));
out:
    return rc;
}

/* Nothing else is left to try when this fails. */
static int open_cpu(rt_again *a, const char *why, rt_err *e)
{
    char threads[RT_DEV_COUNT_TEXT];
    rt_dev_opts o = RT_DEV_OPTIONS({ "threads", a->opts->threads ? rt_dev_count(threads, a->opts->threads) : NULL });
    o.env = a->opts->environment;
    int rc = rt_device_open(&a->dev, "cpu", &o, NULL, e);
    if (rc >= 0 && a->opts->device) a->opts->device(a->opts->ctx, a->dev, why);
    return rc;
}

static void say_why(char *out, size_t size, const used *u, const char *how, const rt_err *why)
{
    snprintf(out, size, "%.90s, which the run used, %s: %.300s",
             u->name      ? u->name
             : u->backend ? u->backend
                          : "the device",
             how, why->text);
}

int rt_audit_device_open(rt_audit *v, rt_again *a, rt_err *e)
{
    rt_err why = { 0 };
    char text[RT_AUDIT_WHY];
    used u = last_used(v);
    int rc = RT_OK;
    a->dev = a->opts->dev;
    if (!a->dev && u.backend)
        rc = open_used(v, a, &u, &why);
    else if (!a->dev)
        rc = rt_fail(&why, RT_NO_BACKEND, "the manifest does not name it");
    if (rc >= 0) {
        if (a->opts->device) a->opts->device(a->opts->ctx, a->dev, "");
        return rc;
    }
    say_why(text, sizeof text, &u, "cannot be used here", &why);
    return open_cpu(a, text, e);
}

int rt_audit_device_leave(rt_audit *v, rt_again *a, const rt_err *fault, rt_err *e)
{
    char text[RT_AUDIT_WHY];
    used u = last_used(v);
    say_why(text, sizeof text, &u, "did not take the models", fault);
    rt_audit_device_close(a);
    return open_cpu(a, text, e);
}

bool rt_audit_device_chosen(const rt_again *a)
{
    rt_dev_info info = { 0 };
    return a->dev && !a->opts->dev && a->dev->api->info(a->dev, &info, NULL) >= 0 && !info.host;
}

void rt_audit_device_close(rt_again *a)
{
    if (a->dev != a->opts->dev) rt_job_device_close(a->dev);
    a->dev = NULL;
}
