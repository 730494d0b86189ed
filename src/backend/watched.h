/* watched.h - a device whose calls are watched: which of them failed, and how long one takes that does not come back.
 *
 * It is the seam once more, between whoever runs programs and the backend: every call is handed on. So whether it was
 * the device that failed is known of any backend and for any fault, and neither the backends nor exec know of it.
 * What is done about it is the caller's (job/run/ladder.h).
 *
 * Owns: the thread that looks at the clock. It counts its own ticks, so a process that was stopped for a while, or a
 * machine that slept, is no device that hangs. */
#ifndef RT_BACKEND_WATCHED_H
#define RT_BACKEND_WATCHED_H

#include "backend/backend.h"

/* A call has taken longer than it may: in the thread that watches, once, while the call is still under way. */
typedef void (*rt_hung_fn)(void *ctx, double seconds);

/* Takes the place of d, which is closed with it; on failure d is closed. */
int rt_dev_watch(rt_dev **out, rt_dev *d, rt_hung_fn hung, void *ctx, rt_err *e);
/* So many seconds a call may take from now on; 0: any. All of these accept a device that is not watched. */
void rt_dev_allow(rt_dev *d, double seconds);
/* What the last call has said that failed for the device's sake: RT_DEVICE, or RT_NOMEM for want of its memory; RT_OK:
 * none has since rt_dev_forgive. */
int rt_dev_fault(const rt_dev *d, rt_err *why);
void rt_dev_forgive(rt_dev *d);
/* Whether it was asked what it can do: a run is being made for it. */
bool rt_dev_asked(const rt_dev *d);

#endif
