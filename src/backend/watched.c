/* watched.c - see watched.h. */
#include "backend/watched.h"

#include "base/mem.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <time.h>

typedef struct watched {
    rt_dev base;
    rt_backend api; /* the inner one's, with the functions of this file */
    rt_dev *inner;
    rt_err fault;
    rt_hung_fn hung;
    void *ctx;
    atomic_uint_fast64_t calls; /* begun and ended: odd while one is under way */
    _Atomic double allowed;
    pthread_t thread;
    pthread_mutex_t lock; /* of end, with its condition */
    pthread_cond_t wake;
    bool end, asked;
} watched;

/* ---- the thread ---- */

/* A tick of so many seconds, or less where there is an end; true: there is. */
static bool rest(watched *w, double seconds)
{
    struct timespec until;
    clock_gettime(CLOCK_MONOTONIC, &until);
    long nanoseconds = until.tv_nsec + (long)(1e9 * seconds);
    until.tv_sec += nanoseconds / 1000000000;
    until.tv_nsec = nanoseconds % 1000000000;
    pthread_mutex_lock(&w->lock);
    while (!w->end && pthread_cond_timedwait(&w->wake, &w->lock, &until) != ETIMEDOUT) continue;
    bool end = w->end;
    pthread_mutex_unlock(&w->lock);
    return end;
}

static void *look(void *device)
{
    enum { TICKS = 8 }; /* of what a call may take */
    watched *w = device;
    uint_fast64_t last = 0;
    double taken = 0;
    for (bool told = false; !told;) {
        double allowed = atomic_load(&w->allowed), tick = allowed < TICKS ? allowed / TICKS : 1;
        if (!(tick > 0)) tick = 0.1; /* it may be told any time */
        if (rest(w, tick)) break;
        uint_fast64_t now = atomic_load(&w->calls);
        taken = now % 2 && now == last ? taken + tick : 0;
        last = now;
        told = allowed > 0 && taken >= allowed;
        if (told) w->hung(w->ctx, taken);
    }
    return NULL;
}

/* Signals are for the threads that wait for them. */
static int start(watched *w, rt_err *e)
{
    sigset_t all, was;
    pthread_condattr_t clock;
    pthread_mutex_init(&w->lock, NULL);
    pthread_condattr_init(&clock);
    pthread_condattr_setclock(&clock, CLOCK_MONOTONIC);
    pthread_cond_init(&w->wake, &clock);
    pthread_condattr_destroy(&clock);
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &was);
    int code = pthread_create(&w->thread, NULL, look, w);
    pthread_sigmask(SIG_SETMASK, &was, NULL);
    return code == 0 ? RT_OK : rt_fail(e, RT_NOMEM, "no thread to watch a device with: %s", strerror(code));
}

static void end_thread(watched *w)
{
    pthread_mutex_lock(&w->lock);
    w->end = true;
    pthread_cond_signal(&w->wake);
    pthread_mutex_unlock(&w->lock);
    pthread_join(w->thread, NULL);
    pthread_mutex_destroy(&w->lock);
    pthread_cond_destroy(&w->wake);
}

/* ---- calls ---- */

static watched *of(rt_dev *d) { return (watched *)d; }

static rt_dev *begin(rt_dev *d)
{
    atomic_fetch_add(&of(d)->calls, 1);
    return of(d)->inner;
}

static void end(rt_dev *d) { atomic_fetch_add(&of(d)->calls, 1); }

/* `why` is filled where the caller gave no place for it. */
static int ended(rt_dev *d, int rc, const rt_err *why, rt_err *e)
{
    end(d);
    if (rc == RT_DEVICE || rc == RT_NOMEM) of(d)->fault = *why;
    if (rc < 0 && e && e != why) *e = *why;
    return rc;
}

#define CALL(name, e, ...)                                                                                             \
    do {                                                                                                               \
        rt_err why = { 0 };                                                                                            \
        rt_dev *in = begin(d);                                                                                         \
        return ended(d, in->api->name(in, __VA_ARGS__, &why), &why, e);                                                \
    } while (0)

static int info(rt_dev *d, rt_dev_info *out, rt_err *e) { CALL(info, e, out); }
static int mem_new(rt_dev *d, uint64_t bytes, rt_mem_kind kind, rt_mem **out, rt_err *e)
{
    CALL(mem_new, e, bytes, kind, out);
}
static int copy(rt_dev *d, const rt_copy *c, rt_ticket *t, rt_err *e) { CALL(copy, e, c, t); }
static int prepare(rt_dev *d, const rt_bound_op *ops, uint32_t nops, rt_err *e) { CALL(prepare, e, ops, nops); }
static int seal(rt_dev *d, const rt_bound_op *ops, uint32_t nops, rt_prog **out, rt_err *e)
{
    CALL(seal, e, ops, nops, out);
}
static int run(rt_dev *d, rt_prog *g, rt_ticket *t, rt_err *e) { CALL(run, e, g, t); }
static int wait_for(rt_dev *d, rt_ticket t, rt_err *e) { CALL(wait, e, t); }
static int queue_times(rt_dev *d, rt_prog *g, rt_queue_times *out, rt_err *e) { CALL(queue_times, e, g, out); }
static int choices_write(rt_dev *d, const char *path, rt_err *e) { CALL(choices_write, e, path); }
static int choices_read(rt_dev *d, const char *path, rt_err *e) { CALL(choices_read, e, path); }

static void mem_free(rt_dev *d, rt_mem *m)
{
    rt_dev *in = begin(d);
    in->api->mem_free(in, m);
    end(d);
}

static void prog_free(rt_dev *d, rt_prog *g)
{
    rt_dev *in = begin(d);
    in->api->prog_free(in, g);
    end(d);
}

static bool supports(rt_dev *d, const rt_plan *p, const rt_op *op, rt_need *need)
{
    rt_dev *in = begin(d);
    of(d)->asked = true;
    bool yes = in->api->supports(in, p, op, need);
    end(d);
    return yes;
}

static double seconds(rt_dev *d, rt_ticket t) { return of(d)->inner->api->seconds(of(d)->inner, t); }
static const rt_policy *policy(rt_dev *d) { return of(d)->inner->api->policy(of(d)->inner); }
static void identity(rt_dev *d, rt_str *out) { of(d)->inner->api->identity(of(d)->inner, out); }

static void close_dev(rt_dev *d)
{
    if (!d) return;
    rt_dev *in = begin(d);
    in->api->close(in);
    end(d);
    end_thread(of(d));
    rt_free(d);
}

/* ---- see watched.h ---- */

int rt_dev_watch(rt_dev **out, rt_dev *d, rt_hung_fn hung, void *ctx, rt_err *e)
{
    watched *w = rt_alloc_zero(sizeof *w, _Alignof(watched));
    int rc = w ? RT_OK : rt_no_memory(e, "a device that is watched");
    const rt_backend *in = d->api;
    *out = NULL;
    if (w) {
        *w = (watched){ .base = { .index = d->index }, .api = *in, .inner = d, .hung = hung, .ctx = ctx };
        w->base.api = &w->api;
        w->api.close = close_dev;
        w->api.info = info;
        w->api.policy = in->policy ? policy : NULL;
        w->api.mem_new = mem_new;
        w->api.mem_free = mem_free;
        w->api.copy = copy;
        w->api.supports = supports;
        w->api.prepare = in->prepare ? prepare : NULL;
        w->api.seal = seal;
        w->api.run = run;
        w->api.wait = wait_for;
        w->api.seconds = in->seconds ? seconds : NULL;
        w->api.queue_times = in->queue_times ? queue_times : NULL;
        w->api.prog_free = prog_free;
        w->api.identity = in->identity ? identity : NULL;
        w->api.choices_write = in->choices_write ? choices_write : NULL;
        w->api.choices_read = in->choices_read ? choices_read : NULL;
        rc = start(w, e);
    }
    if (rc < 0) {
        rt_free(w);
        in->close(d);
        return rc;
    }
    *out = &w->base;
    return rc;
}

static bool is_watched(const rt_dev *d) { return d && d->api->close == close_dev; }

void rt_dev_allow(rt_dev *d, double seconds)
{
    if (is_watched(d)) atomic_store(&of(d)->allowed, seconds);
}

int rt_dev_fault(const rt_dev *d, rt_err *why)
{
    if (!is_watched(d)) return RT_OK;
    const watched *w = (const watched *)d;
    if (why) *why = w->fault;
    return w->fault.status;
}

void rt_dev_forgive(rt_dev *d)
{
    if (is_watched(d)) of(d)->fault = (rt_err){ 0 };
}

bool rt_dev_asked(const rt_dev *d) { return is_watched(d) && ((const watched *)d)->asked; }
