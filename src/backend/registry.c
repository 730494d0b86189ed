/* registry.c - the list of backends, in the order in which `retort` tries and prints them; devices by name, and the
 * options of all. The only file of this room that names a concrete one. */
#include "backend/backend.h"

#include "base/str.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

extern const rt_backend rt_backend_cuda, rt_backend_cpu, rt_backend_vulkan, rt_backend_ref;

static const rt_backend *const all[] = { &rt_backend_cuda, &rt_backend_cpu, &rt_backend_vulkan, &rt_backend_ref, NULL };

const rt_backend *const *rt_backends(void) { return all; }

static int find(const char *name, size_t len, const rt_backend **out, rt_err *e)
{
    char known[200] = "";
    *out = NULL;
    for (int i = 0; all[i]; i++) {
        if (strlen(all[i]->name) == len && memcmp(name, all[i]->name, len) == 0) {
            *out = all[i];
            return RT_OK;
        }
        if (i) strncat(known, ", ", sizeof known - strlen(known) - 1);
        strncat(known, all[i]->name, sizeof known - strlen(known) - 1);
    }
    return rt_fail(e, RT_NO_BACKEND, "no backend is called '%.*s'; this binary has: %s", (int)len, name, known);
}

int rt_backend_find(const char *name, const rt_backend **out, rt_err *e)
{
    if (!name) name = "";
    return find(name, strlen(name), out, e);
}

const rt_dev_option_info *rt_backend_option(const char *name)
{
    const rt_dev_option_info *found = NULL;
    for (int i = 0; all[i] && !found; i++) found = rt_dev_option_find(all[i]->options, name);
    return found;
}

static int refuse_option(const char *name, rt_err *e)
{
    rt_str known = { 0 };
    for (int i = 0; all[i]; i++) {
        if (!all[i]->options) continue;
        rt_str_printf(&known, "%s%s:", known.len ? "; " : "", all[i]->name);
        for (const rt_dev_option_info *f = all[i]->options; f->flag; f++) rt_str_printf(&known, " %s", f->flag + 2);
    }
    int rc = rt_fail(e, RT_USAGE, "no backend takes an option '%s'; there are: %s", name, known.data);
    rt_str_free(&known);
    return rc;
}

/* What a user says is looked at as a whole: a value that is wrong for a backend that is not opened is told all the
 * same. */
static int check_options(const rt_dev_opts *o, rt_err *e)
{
    int rc = RT_OK;
    for (uint32_t i = 0; o && i < o->count; i++)
        if (!rt_backend_option(o->option[i].name)) RT_TRY(refuse_option(o->option[i].name, e));
    for (int i = 0; all[i]; i++) RT_TRY(rt_dev_options_read(NULL, all[i]->options, o, e));
out:
    return rc;
}

/* What was said to this backend and to no other. */
static bool is_asked(const rt_backend *b, const rt_dev_opts *o)
{
    bool asked = false;
    for (uint32_t i = 0; o && i < o->count; i++)
        asked = asked || (o->option[i].value && rt_dev_option_find(b->options, o->option[i].name));
    return asked;
}

/* The first device of a backend that can be opened, with why those before it cannot. One that is there and cannot be
 * used (too old, taken by another program, nothing in this binary for it) is passed over; any other fault is told. */
static int open_usable(rt_dev **out, const rt_backend *b, int count, const rt_dev_opts *o, char *why, rt_err *e)
{
    int rc = RT_NO_BACKEND;
    size_t n = strlen(why);
    for (int i = 0; i < count; i++) {
        rt_err fault = { 0 };
        rc = b->open(out, i, o, &fault);
        if (rc >= 0) return rc;
        if (i == 0) (void)rt_fail(e, rc, "%s", fault.text);
        if (rc != RT_NO_BACKEND && rc != RT_DEVICE && rc != RT_NOMEM) break;
        if (n < RT_DEV_WHY - 1)
            n += (size_t)snprintf(why + n, RT_DEV_WHY - n, "%s%s:%d is passed over: %.300s", n ? "; " : "", b->name, i,
                                  fault.text);
    }
    return rc;
}

/* Vulkan and the reference are never chosen: the CPU, before them in the list, always has a device. */
static int open_first(rt_dev **out, const rt_dev_opts *o, char *why, rt_err *e)
{
    char reason[160], passed[RT_DEV_WHY] = "";
    rt_err fault = { 0 };
    int rc = rt_fail(&fault, RT_NO_BACKEND, "no backend has a device");
    for (int i = 0; all[i]; i++) {
        reason[0] = 0;
        int count = all[i]->probe(o, NULL, 0, reason);
        if (count <= 0)
            snprintf(passed, sizeof passed, "%.159s", reason);
        else
            rc = open_usable(out, all[i], count, o, passed, &fault);
        if (why) memcpy(why, passed, sizeof passed);
        /* A wish that only this backend knows is not forgotten by taking another. */
        bool skip = rc == RT_NO_BACKEND || rc == RT_DEVICE || rc == RT_NOMEM;
        if (rc >= 0 || !skip || (count > 0 && is_asked(all[i], o))) break;
    }
    return rc < 0 ? rt_fail(e, rc, "%s", fault.text) : rc;
}

int rt_device_open(rt_dev **out, const char *name, const rt_dev_opts *o, char *why, rt_err *e)
{
    const rt_backend *b;
    *out = NULL;
    if (why) why[0] = 0;
    int rc = check_options(o, e);
    if (rc < 0) return rc;
    if (!name || !name[0] || strcmp(name, "auto") == 0) return open_first(out, o, why, e);
    const char *colon = strchr(name, ':');
    char *end = NULL;
    long index = colon ? strtol(colon + 1, &end, 10) : 0;
    if (colon && (end == colon + 1 || *end || index < 0 || index > 1023))
        return rt_fail(e, RT_USAGE, "'%s' is no device; write one as cuda:0", name);
    rc = find(name, colon ? (size_t)(colon - name) : strlen(name), &b, e);
    return rc < 0 ? rc : b->open(out, (int)index, o, e);
}

const rt_policy *rt_device_policy(rt_dev *d) { return d->api->policy ? d->api->policy(d) : &rt_policy_f32; }
