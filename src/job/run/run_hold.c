/* run_hold.c - whether OUT is still the run's: somebody may remove its lock, or move or replace the folder, while the
 * run is going on. */
#include "job/run/run_internal.h"

int rt_run_holds(const rt_run *r, rt_err *e)
{
    int rc = r->lock ? rt_lock_held(r->lock, r->out, e) : RT_OK;
    if (rc < 0 && e) {
        rt_err what = *e;
        rt_fail(e, rc, "%.400s; find its folder and resume there: retort %s --resume --out OUT", what.text,
                r->settings->teacher.count ? "distill" : "train");
    }
    return rc < 0 || !r->opts->control_of ? rc : rt_run_holds(r->opts->control_of, e);
}

int rt_run_failed(const rt_run *r, int rc, rt_err *e)
{
    return rc < 0 && rc != RT_INTERRUPTED && rt_run_holds(r, NULL) < 0 ? rt_run_holds(r, e) : rc;
}
