/* verify.h - proof of every op on this machine: the cases, and running them. What `retort verify` stands on.
 *
 * Owns: selection of cases, results, totals. A case runs its op on the tested backend and on `ref` in double with the
 * same inputs, and compares (see harness.c and compare.c). Nothing here prints. */
#ifndef RT_VERIFY_VERIFY_H
#define RT_VERIFY_VERIFY_H

#include "backend/backend.h"

#include <stdbool.h>
#include <stdint.h>

typedef enum rt_case_outcome { RT_CASE_PASS, RT_CASE_FAIL, RT_CASE_UNSUPPORTED } rt_case_outcome;

typedef struct rt_case_result {
    const char *name; /* "matmul/f32.q4_k.f32.bf16/787x523x256/nt,acc"; valid during the report */
    const char *op;   /* of op.h, or the family of cases that run more than one op: "block" */
    rt_case_outcome outcome;
    double
        error; /* the worst error found, as a part of what is allowed: at most 1 when it passes; 1e6: beyond measure */
    char text[300]; /* of a failure: which output, row, column, got, want, allowed; of an unsupported one: why */
    double seconds;
} rt_case_result;

typedef struct rt_verify_opts {
    const char *backend;   /* null: "cpu" */
    const rt_backend *api; /* used in place of looking `backend` up, unless null */
    const char *op;        /* cases of this op only; null: all */
    const char *name;      /* cases with this in their names only; null: all */
    bool quick;            /* every op and signature with one odd shape, every flag once */
    bool large;            /* instead of all others: one case of very many elements for each memory-bound op */
    uint64_t elements;     /* that a large case has more of; 0: 2^31, where signed 32-bit indices end */
    uint32_t threads;      /* of the device that is tested first; 0: the cores that this process may use */
    rt_dev_opts dev;       /* what else the device is told */
    uint64_t memory_limit; /* bytes of device memory for one case; 0: what the device has */
    void (*report)(void *ctx, const rt_case_result *r); /* after every case; may be null */
    bool (*stop)(void *ctx); /* asked between cases; true ends the run with RT_INTERRUPTED; may be null */
    void *ctx;
} rt_verify_opts;

typedef struct rt_verify_totals {
    uint32_t passed, failed, unsupported;
    double seconds;
} rt_verify_totals;

/* Runs the selected cases in order. RT_OK also when some failed: the totals say so. An error is something that kept the
 * cases from running: no such backend or op (RT_NO_BACKEND, RT_USAGE), memory (RT_NOMEM), a device that fails. The
 * totals hold what was done until then. */
int rt_verify_run(const rt_verify_opts *o, rt_verify_totals *out, rt_err *e);

/* Calls each with the name and op of every case that rt_verify_run would run; nothing is opened or run. */
typedef void (*rt_verify_list_fn)(void *ctx, const char *name, const char *op);
int rt_verify_list(const rt_verify_opts *o, rt_verify_list_fn each, void *ctx, rt_err *e);

#endif
