/* exec.h - seal and run: a set of plans becomes a set of programs on one set of allocations.
 *
 * Owns: lowering, placement, workspace, memory limits, the allocations, guard bands and poison. After rt_exec_seal
 * returns, nothing is allocated on the host or on the device until rt_exec_free; running cannot fail for want of
 * memory, of a kernel or of an algorithm. The device and the space must outlive the exec; the plans need not.
 *
 * A dry seal is the same set without memory: what a run would allocate is then known before anything is, and no limit
 * is held against it. */
#ifndef RT_EXEC_EXEC_H
#define RT_EXEC_EXEC_H

#include "backend/backend.h"

typedef struct rt_exec rt_exec;

typedef struct rt_seal_opts {
    uint64_t memory_limit; /* bytes of device memory for everything; 0: what the device has free */
    bool poison;   /* arena slices are NaN before their first use and again after their last: a wrong lifetime shows */
    bool guards;   /* bands around every buffer, checked by rt_exec_check */
    bool no_reuse; /* every activation its own place: results must not change */
    rt_peers *peers; /* the ranks that run these programs together; null: this one alone. They outlive the exec */
    bool dry;        /* everything is settled and nothing allocated: it can be asked, printed and hashed, never run */
} rt_seal_opts;

typedef struct rt_exec_memory {
    uint64_t by_class[RT_CLASS_COUNT]; /* bytes; ACT is the arena, the maximum over the programs */
    uint64_t total;                    /* allocated on the device */
    uint64_t host, disk;               /* in the host's memory beside it, and in files */
    uint32_t peak_program, peak_op;    /* where the arena is fullest */
    uint64_t peak_live;                /* bytes of activations and scratch alive there; <= by_class[ACT] */
} rt_exec_memory;

/* Order: recording errors; supports, lowering; lifetimes, placement; code loaded; memory limit; allocation; backend
 * seal. A dry seal ends after placement. */
int rt_exec_seal(rt_exec **out, rt_dev *d, const rt_plan *const *plans, uint32_t nplans, const rt_seal_opts *o,
                 rt_err *e);
void rt_exec_free(rt_exec *x); /* accepts null */

/* Bytes in and out of a buffer of the space, from the start of the view's buffer + view offset; the view must be
 * without gaps. Write returns when data may be reused; read when data is there. */
int rt_exec_write(rt_exec *x, rt_view v, const void *data, uint64_t bytes, rt_err *e);
int rt_exec_read(rt_exec *x, rt_view v, void *data, uint64_t bytes, rt_err *e);
/* A read that does not wait: data is there when t, or a later ticket, has been waited for, and has to be kept until
 * then. t may be null. */
int rt_exec_read_later(rt_exec *x, rt_view v, void *data, uint64_t bytes, rt_ticket *t, rt_err *e);
int rt_exec_run(rt_exec *x, uint32_t program, rt_ticket *t, rt_err *e); /* t may be null */
int rt_exec_wait(rt_exec *x, rt_ticket t, rt_err *e);
/* A run that is to be timed: by the device's clock where it has one, else by the host's. A device that is enqueued to
 * and has no clock is waited for, before and after. */
typedef struct rt_exec_timing {
    rt_ticket ticket;
    double waited; /* seconds, by the host's clock */
} rt_exec_timing;
int rt_exec_run_timed(rt_exec *x, uint32_t program, rt_exec_timing *t, rt_err *e);
/* How long it took, once it is done. */
double rt_exec_seconds(const rt_exec *x, const rt_exec_timing *t);
/* Whether a run is only enqueued when rt_exec_run returns, so that the host has work to do meanwhile. */
bool rt_exec_enqueues(const rt_exec *x);
/* With guards: RT_INTERNAL naming the first buffer whose band was overwritten. */
int rt_exec_check(rt_exec *x, rt_err *e);

/* Buffers of class DISK have no memory. fn fills `to` with the values of v, rows of such a buffer, when a program
 * copies them; it is called from any thread, one call at a time, and has to be there before the first run. */
typedef int (*rt_disk_fn)(void *ctx, rt_view v, void *to, rt_err *e);
void rt_exec_serve(rt_exec *x, rt_disk_fn fn, void *ctx);

/* A program on a device whose queues run side by side, where op i takes seconds[i]. */
typedef struct rt_exec_span {
    double total, compute, copy; /* from begin to end; the ops of a queue alone, those of the comm queue in compute */
} rt_exec_span;
rt_exec_span rt_exec_span_of(const rt_exec *x, uint32_t program, const double *seconds);
/* The same, measured on a device whose queues run side by side, of a run whose inputs are there; compute is what is
 * left of the whole when the other ops did not wait for copies. RT_UNSUPPORTED where nothing runs beside anything. */
int rt_exec_measure(rt_exec *x, uint32_t program, rt_exec_span *out, rt_err *e);
/* The share of copying that the other ops hide; 1 where nothing is copied. */
double rt_exec_hidden(const rt_exec_span *s);

void rt_exec_memory_query(const rt_exec *x, rt_exec_memory *out);
const rt_plan *rt_exec_plan(const rt_exec *x, uint32_t program); /* as lowered: the very ops that run */
/* Appends which ops plain kernels do in any of the programs, and why: "attn_fwd, attn_bwd (heads of fewer than 32
 * columns)". Nothing where all ops have the fast kernels of the backend. */
void rt_exec_plain(const rt_exec *x, rt_str *out);
int rt_exec_print(const rt_exec *x, uint32_t program, rt_print format, rt_str *out, rt_err *e);
/* Of the lowered plan and of everything that decides bits: backend, kernels, ISA, library versions. */
int rt_exec_hash(const rt_exec *x, uint32_t program, rt_hash128 *out, rt_err *e);

#endif
