/* registry.c - the list of backends, in the order in which `retort` tries and prints them: the ladder of --device auto;
 * devices by name, and the options of all. The only file of this room that names a concrete one. */
#include "backend/backend.h"

#include "base/str.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

extern const rt_backend rt_backend_cuda, rt_backend_cpu, rt_backend_vulkan, rt_backend_ref;

static const rt_backend *const all[] = { &rt_backend_cuda, &rt_backend_vulkan, &rt_backend_cpu, &rt_backend_ref, NULL };

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
    for (uint32_t i = 0; o && i < o->count - o->defaults; i++)
        asked = asked || (o->option[i].value && rt_dev_option_find(b->options, o->option[i].name));
    return asked;
}

/* Whether "cuda:1", or all of "cuda", is in a list of names. */
static bool is_listed(const char *list, const char *backend, int index)
{
    char name[32];
    size_t n = strlen(backend), whole = (size_t)snprintf(name, sizeof name, "%s:%d", backend, index);
    for (const char *at = list; at && *at;) {
        size_t word = strcspn(at, " ");
        if ((word == whole && memcmp(at, name, whole) == 0) || (word == n && memcmp(at, backend, n) == 0)) return true;
        at += word + strspn(at + word, " ");
    }
    return false;
}

static void add_why(char *why, const char *format, ...) __attribute__((format(printf, 2, 3)));
static void add_why(char *why, const char *format, ...)
{
    va_list args;
    size_t n = strlen(why);
    if (n >= RT_DEV_WHY - 3) return;
    if (n) n += (size_t)snprintf(why + n, RT_DEV_WHY - n, "; ");
    va_start(args, format);
    vsnprintf(why + n, RT_DEV_WHY - n, format, args);
    va_end(args);
}

/* Of a backend, the devices of a ladder, from `first` on, which may be the one that somebody has named. */
typedef struct rung {
    const rt_backend *api;
    int first, tried;
    bool named;
} rung;

/* The first of its devices that can be opened, with why those before it cannot. One that is there and cannot be used
 * (too old, taken by another program, nothing in this binary for it) is passed over; any other fault is told. A
 * software device is nobody's default, and of those that are to be left alone the caller knows why. */
static int open_usable(rt_dev **out, rung *g, const rt_dev_opts *o, char *why, rt_err *e)
{
    enum { MOST = 16 };
    int rc = RT_NO_BACKEND;
    char reason[160] = "";
    rt_dev_info devices[MOST];
    int count = g->api->probe(o, devices, MOST, reason);
    if (count <= 0) add_why(why, "%s", reason);
    for (int i = g->first; i < count; i++) {
        rt_err fault = { 0 };
        if (is_listed(o->left_out, g->api->name, i)) continue;
        if (i < MOST && devices[i].software && !(g->named && i == g->first)) {
            add_why(why, "%s:%d is passed over: a software device is taken only when it is named", g->api->name, i);
            continue;
        }
        rc = g->api->open(out, i, o, &fault);
        if (rc >= 0) (*out)->index = (uint32_t)i;
        if (rc >= 0) return rc;
        if (!g->tried++) (void)rt_fail(e, rc, "%s", fault.text);
        if (rc != RT_NO_BACKEND && rc != RT_DEVICE && rc != RT_NOMEM) break;
        add_why(why, "%s:%d is passed over: %.300s", g->api->name, i, fault.text);
    }
    return rc;
}

/* From a device on down the list. The reference, which is below the CPU, is never reached. */
static int open_first(rt_dev **out, const rt_backend *from, int first, const rt_dev_opts *opts, char *why, rt_err *e)
{
    char passed[RT_DEV_WHY] = "";
    rt_dev_opts o = opts ? *opts : (rt_dev_opts){ 0 };
    rt_err fault = { 0 };
    int rc = rt_fail(&fault, RT_NO_BACKEND, "no backend has a device");
    for (int i = 0; all[i]; i++) {
        rung g = { .api = all[i], .first = from ? first : 0, .named = from != NULL };
        if (from && from != all[i]) continue;
        o.unnamed = !from;
        from = NULL;
        rc = open_usable(out, &g, &o, passed, &fault);
        /* A wish that only this backend knows is not forgotten by taking another, unless its devices have failed. */
        bool skip = rc == RT_NO_BACKEND || rc == RT_DEVICE || rc == RT_NOMEM;
        if (rc >= 0 || !skip || (g.tried && !o.left_out && is_asked(all[i], &o))) break;
    }
    if (why) memcpy(why, passed, sizeof passed);
    return rc < 0 ? rt_fail(e, rc, "%s", fault.text) : rc;
}

int rt_device_open(rt_dev **out, const char *name, const rt_dev_opts *o, char *why, rt_err *e)
{
    const rt_backend *b;
    *out = NULL;
    if (why) why[0] = 0;
    int rc = check_options(o, e);
    if (rc < 0) return rc;
    if (!name || !name[0] || strcmp(name, "auto") == 0) return open_first(out, NULL, 0, o, why, e);
    const char *colon = strchr(name, ':');
    char *end = NULL;
    long index = colon ? strtol(colon + 1, &end, 10) : 0;
    if (colon && (end == colon + 1 || *end || index < 0 || index > 1023))
        return rt_fail(e, RT_USAGE, "'%s' is no device; write one as cuda:0", name);
    rc = find(name, colon ? (size_t)(colon - name) : strlen(name), &b, e);
    if (rc >= 0 && o && o->left_out) return open_first(out, b, (int)index, o, why, e);
    if (rc >= 0) rc = b->open(out, (int)index, o, e);
    if (rc >= 0) (*out)->index = (uint32_t)index;
    return rc;
}

const char *rt_device_of_rank(const char *name, const rt_dev_opts *o, uint32_t place, char text[32])
{
    const bool any = !name || !name[0] || strcmp(name, "auto") == 0;
    for (int i = 0; all[i]; i++) {
        if (!any && strcmp(name, all[i]->name) != 0) continue;
        int count = all[i]->probe(o, NULL, 0, NULL);
        if (count <= 0) continue;
        if (!all[i]->alike || count == 1) break;
        snprintf(text, 32, "%s:%u", all[i]->name, place % (uint32_t)count);
        return text;
    }
    return name;
}

const rt_policy *rt_device_policy(rt_dev *d) { return d->api->policy ? d->api->policy(d) : &rt_policy_f32; }
