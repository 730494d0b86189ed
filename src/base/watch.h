/* watch.h - long work that somebody watches: it says how far it is, and hears when it is to stop.
 *
 * Owns: the one callback that loading, evaluating, sampling and saving share. Who watches, and what is shown of it, is
 * the caller's. */
#ifndef RT_BASE_WATCH_H
#define RT_BASE_WATCH_H

#include "base/err.h"

#include <stdint.h>

/* what: "evaluating", a static text. total 0: how much there is to do is not known. A nonzero answer: stop. */
typedef int (*rt_watch_fn)(void *ctx, const char *what, uint64_t done, uint64_t total);

typedef struct rt_watch {
    rt_watch_fn tell;
    void *ctx;
} rt_watch;

/* RT_INTERRUPTED when the work is to stop. w: null when nobody watches. */
int rt_watch_step(const rt_watch *w, const char *what, uint64_t done, uint64_t total, rt_err *e);
/* The same for work that is not to be left half done. */
void rt_watch_tell(const rt_watch *w, const char *what, uint64_t done, uint64_t total);

#endif
