/* ladder.c - see ladder.h. */
#include "job/run/ladder.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_RETRIES = 100, MOST_FAILURES = 1000 };

/* ---- what a user says ---- */

static int parse(rt_ladder *l, const char *text, rt_err *e)
{
    char *end;
    l->on = !l->named;
    if (!text || strcmp(text, "auto") == 0) return RT_OK;
    l->on = strcmp(text, "stop") != 0;
    if (strcmp(text, "stop") == 0 || strcmp(text, "degrade") == 0) return RT_OK;
    if (strncmp(text, "retry:", 6) == 0 && text[6] >= '0' && text[6] <= '9') {
        unsigned long n = strtoul(text + 6, &end, 10);
        l->retries = (uint32_t)n;
        if (!*end && n <= MOST_RETRIES) return RT_OK;
    }
    return rt_fail(e, RT_USAGE, "--on-device-failure %s is none of degrade, stop, retry:N (N up to %d) and auto", text,
                   MOST_RETRIES);
}

int rt_ladder_begin(rt_ladder *l, const rt_settings *s, bool ranks, const char *const *env, rt_err *e)
{
    const char *device = s->given[RT_SETTING_ID_device] ? s->device : NULL;
    *l = (rt_ladder){ .named = device && strcmp(device, "auto") != 0 };
    int rc = parse(l, s->on_device_failure, e);
    if (rc >= 0 && s->given[RT_SETTING_ID_device_timeout])
        rc = rt_settings_check_range(s, RT_SETTING_ID_device_timeout, e);
    if (ranks) l->on = false;
    const char *failed = rt_dev_env(env, RT_LADDER_VARIABLE);
    if (ranks || !failed || !*failed) return rc;
    const char *line = strrchr(failed, '\n');
    l->failed = failed;
    l->newest = line ? line + 1 : failed;
    return rc;
}

/* ---- devices that have failed ---- */

static const char *next_line(const char *at)
{
    at += strcspn(at, "\n");
    return *at ? at + 1 : NULL;
}

static uint32_t failures_of(const char *lines, const char *name, size_t len)
{
    uint32_t n = 0;
    for (const char *at = lines; at; at = next_line(at)) n += strcspn(at, " \n") == len && memcmp(at, name, len) == 0;
    return n;
}

void rt_ladder_left_out(const rt_ladder *l, rt_str *out)
{
    for (const char *at = l->failed; at; at = next_line(at)) {
        size_t len = strcspn(at, " \n");
        if (failures_of(l->failed, at, len) > l->retries)
            rt_str_printf(out, "%s%.*s", out->len ? " " : "", (int)len, at);
    }
}

int rt_ladder_take(rt_ladder *l, rt_dev *d, rt_err *e)
{
    rt_dev_info info;
    int rc = d->api->info(d, &info, e);
    snprintf(l->device, sizeof l->device, "%s:%" PRIu32, d->api->name, d->index);
    l->host = rc >= 0 && info.host;
    return rc;
}

/* ---- what follows ---- */

typedef enum cause { NOT_THE_DEVICE, FAILED, CANNOT } cause;

/* A device that fails, or, where others have failed or nobody has named it, one that cannot do what the run needs. A
 * run that does not fit where it began is told so: a slower device is no answer to that. Numbers that make no sense
 * after a call has failed are of that call. */
static cause find_cause(const rt_ladder *l, rt_dev *d, int rc, bool resumable)
{
    int fault = rt_dev_fault(d, NULL);
    if (rc == RT_DEVICE || (rc == RT_INTERNAL && fault && l->begun)) return FAILED;
    if (rc == RT_NOMEM && fault == RT_NOMEM && (l->begun || resumable)) return FAILED;
    if (l->begun) return NOT_THE_DEVICE;
    if (rc == RT_NOMEM && l->failed) return CANNOT;
    return rc == RT_UNSUPPORTED && rt_dev_asked(d) && (l->failed || !l->named) ? CANNOT : NOT_THE_DEVICE;
}

static void one_line(char *text)
{
    for (; *text; text++)
        if ((unsigned char)*text < ' ') *text = ' ';
}

void rt_ladder_decide(rt_job_again *out, const rt_ladder *l, rt_dev *d, int rc, const rt_err *why, uint32_t step,
                      bool resumable)
{
    char what[480], when[40] = "before the first step";
    cause c = l->on && l->device[0] && !l->host ? find_cause(l, d, rc, resumable) : NOT_THE_DEVICE;
    uint32_t n = 0;
    *out = (rt_job_again){ 0 };
    for (const char *at = l->failed; at; at = next_line(at)) n++;
    if (c == NOT_THE_DEVICE || n >= MOST_FAILURES) return;
    rt_err fault;
    if (rc == RT_INTERNAL && rt_dev_fault(d, &fault)) why = &fault;
    if (step) snprintf(when, sizeof when, "after step %" PRIu32, step);
    snprintf(what, sizeof what, "%s %s %s: %.400s", l->device, c == CANNOT ? "cannot take the run," : "failed", when,
             why->text);
    one_line(what);
    rt_str_printf(&out->failed, "%s%s%s", l->failed ? l->failed : "", l->failed ? "\n" : "", what);
    if (out->failed.failed) return;
    bool again = failures_of(out->failed.data, l->device, strlen(l->device)) <= l->retries;
    snprintf(out->text, sizeof out->text, "%s; the run %s on %s device", what, resumable ? "is resumed" : "begins anew",
             again ? "the same" : "the next");
    out->resume = resumable;
    out->wanted = true;
}
