/* job_tell.c - who watches a job, as inputs and long work tell it. See job_internal.h. */
#include "job/job_internal.h"

#include "base/sys.h"

void rt_job_tell_progress(void *ctx, const char *what, uint64_t done, uint64_t total)
{
    rt_job_tell *t = ctx;
    t->at = rt_now();
    t->what = what;
    t->done = done;
    t->total = total;
    if (t->progress && t->progress(t->ctx, what, done, total)) t->stopped = true;
}

bool rt_job_tell_stop(void *ctx)
{
    rt_job_tell *t = ctx;
    bool late = rt_now() - t->at > RT_JOB_TELL_SECONDS;
    if (late) rt_job_tell_progress(t, t->what ? t->what : "tokenizing", t->done, t->total);
    return t->stopped;
}

int rt_job_tell_watch(void *ctx, const char *what, uint64_t done, uint64_t total)
{
    rt_job_tell *t = ctx;
    rt_job_tell_progress(t, what, done, total);
    return t->stopped;
}
