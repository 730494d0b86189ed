/* run_tune.c - what a device chose by timing, kept with the run: whoever resumes it gets the same choices, and the same
 * bits, wherever the device keeps them for other runs. */
#include "job/run/run_seal.h"

#include "job/run/run_internal.h"

static char *path_of(rt_run *r) { return rt_path_join(&r->arena, r->run, "products.tsv"); }

int rt_run_choices_read(rt_run *r, rt_err *e)
{
    rt_dev *d = r->opts->dev;
    char *path = path_of(r);
    if (!path) return rt_fail(e, RT_NOMEM, "no memory for a path");
    return r->opts->resume && d->api->choices_read ? d->api->choices_read(d, path, e) : RT_OK;
}

int rt_run_choices_keep(rt_run *r, rt_err *e)
{
    int rc;
    rt_dev *d = r->opts->dev;
    rt_dev_info info;
    char *path = path_of(r);
    if (!path) RT_TRY(rt_fail(e, RT_NOMEM, "no memory for a path"));
    RT_TRY(d->api->info(d, &info, e));
    if (*info.tuning && r->events.note && !r->opts->control_of) r->events.note(r->events.ctx, info.tuning);
    if (!r->temporary && d->api->choices_write) RT_TRY(d->api->choices_write(d, path, e));
out:
    return rc;
}
