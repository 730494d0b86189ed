/* watch.c - see watch.h. */
#include "base/watch.h"

#include <stddef.h>

int rt_watch_step(const rt_watch *w, const char *what, uint64_t done, uint64_t total, rt_err *e)
{
    if (!w || !w->tell || !w->tell(w->ctx, what, done, total)) return RT_OK;
    return rt_fail(e, RT_INTERRUPTED, "stopped while %s", what);
}

void rt_watch_tell(const rt_watch *w, const char *what, uint64_t done, uint64_t total)
{
    if (w && w->tell) (void)w->tell(w->ctx, what, done, total);
}
