/* run_device.c - what is said and kept of the device of a run, and of one that it takes the place of: the log's line,
 * how long the device may take for an answer, and whether the CPU is too slow to go on.
 *
 * Owns: that rule. The CPU takes the place of a device that has failed only if the rest takes at most SLOWER times what
 * it would have taken by the steps so far. It is measured, since nobody knows before: its first steps are steps of the
 * run, and when they are too slow they are kept as a checkpoint and the run ends. */
#include "job/run/run_internal.h"

#include "backend/watched.h"
#include "base/sys.h"

#include <math.h>
#include <stdio.h>

enum {
    SLOWER = 3,        /* and a minute in any case */
    TIMED = 2,         /* steps that tell how fast the CPU is: the first one also touches memory for the first time */
    STEPS = 10,        /* that a device may take for an answer, */
    LEAST_SECONDS = 60 /* but no less than that */
};

static const char *failed_of(const rt_run *r) { return r->opts->device ? r->opts->device->failed : NULL; }

/* Seconds that were left on the device that has failed; NaN: nobody knows. */
static double left_before(const rt_run *r)
{
    const rt_progress_state *s = &r->loop.state;
    return s->step ? s->seconds / s->step * (r->resolved.steps - s->step) : NAN;
}

int rt_run_device_begin(rt_run *r, rt_err *e)
{
    int rc = RT_OK;
    const rt_run_device *d = r->opts->device;
    rt_dev_info info;
    const char *failed = failed_of(r);
    if (!failed || r->temporary) return RT_OK;
    RT_TRY(r->opts->dev->api->info(r->opts->dev, &info, e));
    RT_TRY(
        rt_run_metric(r,
                      json_pack("{s:s, s:I, s:s, s:s, s:s}", "event", "device", "step", (json_int_t)r->loop.state.step,
                                "device", d->name, "name", info.name, "failed", failed),
                      e));
    rt_run_note(r, "from step %u on %s computes; before, %.250s", r->loop.state.step + 1, d->name, failed);
    if (!info.host) goto out;
    r->moved = (rt_run_moved){ .from = r->loop.state.step, .left = left_before(r) };
    r->moved.timed = !isnan(r->moved.left);
    if (!r->moved.timed && !d->asked)
        RT_TRY(rt_fail(e, RT_DEVICE,
                       "%.300s; how long the run takes on the CPU nobody knows, since no step of it is done: --device "
                       "cpu begins there, --on-device-failure degrade does by itself",
                       failed));
out:
    return rc;
}

static double most_of(const rt_run_moved *m) { return fmax(LEAST_SECONDS, SLOWER * m->left); }

bool rt_run_device_slow(const rt_run *r)
{
    const rt_run_moved *m = &r->moved;
    return m->slow || (m->timed && m->begun > 0 && rt_now() - m->begun > most_of(m));
}

void rt_run_device_stepping(rt_run *r)
{
    if (r->moved.timed && !(r->moved.begun > 0)) r->moved.begun = rt_now();
}

void rt_run_device_stepped(rt_run *r, const rt_loop_step *s)
{
    const rt_settings *given = r->settings;
    rt_run_moved *m = &r->moved;
    if (!given->given[RT_SETTING_ID_device_timeout])
        rt_dev_allow(r->opts->dev, fmax(LEAST_SECONDS, STEPS * s->seconds_per_step));
    if (m->timed && s->step >= m->from + TIMED) {
        m->rest = s->seconds * (r->resolved.steps - s->step);
        m->slow = m->rest > most_of(m);
        m->timed = false;
    }
}

int rt_run_device_given_up(const rt_run *r, int rc, rt_err *e)
{
    char rest[32], left[32];
    const rt_run_moved *m = &r->moved;
    if (rc != RT_INTERRUPTED || !rt_run_device_slow(r)) return rc;
    return rt_fail(
        e, RT_DEVICE,
        "%.200s; on the CPU the rest would take %s%s, more than %d times the %s that were left; a checkpoint "
        "of step %u is kept: --resume goes on, --resume --device cpu does so on the CPU",
        failed_of(r), m->slow ? "" : "more than ", rt_format_duration(rest, m->slow ? m->rest : most_of(m)), SLOWER,
        rt_format_duration(left, m->left), r->loop.state.step);
}
