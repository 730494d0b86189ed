/* standin.h - how a test speaks with the stand-in for libcuda and cuBLASLt: what machine it plays, which call fails,
 * what was called. Found with dlsym, since nothing links with it. */
#ifndef RT_TESTS_CUDA_STANDIN_H
#define RT_TESTS_CUDA_STANDIN_H

#include <stdint.h>

struct rt_cu_launch;

/* What a capture recorded, in order: 'k' a kernel, 'm' a product, 'n' a collective, 'c' a copy, 'h' a call of the host,
 * 'r' an event recorded, 'w' an event waited for. */
typedef struct standin_step {
    char what;
    const void *stream, *event;
    uint64_t to, from, bytes; /* of a copy */
} standin_step;
enum { STANDIN_COPY_MS = 4, STANDIN_WAIT_MS = 1 };
enum { STANDIN_STEPS = 4096 };

typedef struct standin {
    /* The machine; set before a device is opened. */
    int devices, capability, driver_version, integrated; /* 1, 90, 13000, 0 */
    int init_result, integrated_result;                  /* 0 */
    int first_capability;                                /* of the first device alone; 0: as the others */
    int code_result;                                     /* of loading machine code; 0: it loads, as PTX does */
    int lt_version, lt_cudart;                           /* 130100, 13000 */
    int lt_refuses;                                      /* 1: has no algorithm for anything */
    int lt_rounds;                                       /* so many of its candidates round a product first */
    float lt_ms[3];                                      /* what a product by each of its candidates takes */
    int lt_fast;                                         /* products of codes that were asked to add up fast */
    uint32_t lt_work[3];                                 /* scratch of each of its candidates; 0: 4096 */
    int nccl_version;                                    /* 22809 */
    int nccl_fault;                                      /* what a communicator is asked and says by itself */
    int nccl_absent;                                     /* 1: this rank never comes to a collective */
    uint64_t memory, module_bytes;                       /* 8 GiB; what a module takes of it */
    int lazy;                                            /* 1: functions in graphs are found not loaded */
    int clean;                                           /* 1: new device memory is 0, not 0xff */
    uint64_t hidden;                                     /* bytes that are called free and cannot be had */
    void (*hook)(const char *name);                      /* told of every call */
    /* told of every launch */
    void (*launched)(const struct rt_cu_launch *how, void **params);
    /* The n-th call from now of a function by this name ("": of any) returns this result; null: none does. */
    const char *fail_name;
    int fail_at, fail_result;
    int sticky; /* 1: and so does every call after it */
    /* What happened. */
    uint64_t calls;    /* of anything */
    uint64_t launches; /* of kernels */
    uint64_t overlaps; /* launches that need not wait for the end of the kernel before */
    int lost;          /* a call has failed, and it was sticky */
    int nccl_aborts;   /* communicators that were given up */
    int64_t live;      /* objects made and not freed: allocations, modules, streams, events, graphs, ... */
    uint64_t used;     /* bytes of device memory */
    double clock;      /* milliseconds that products and graphs took, and outside of these copies and waits */
    standin_step step[STANDIN_STEPS]; /* of the last capture */
    uint32_t steps;
    char log[1 << 16]; /* names of calls, one a line, repeats left out; asking and events are not listed */
    uint32_t log_len;
} standin;

typedef standin *(*standin_get_fn)(void); /* symbol "standin_get" */

/* The machine that is played unless a test says otherwise. */
#define STANDIN_MACHINE                                                                                                \
    .devices = 1, .capability = 90, .driver_version = 13000, .lt_version = 130100, .lt_cudart = 13000,                 \
    .nccl_version = 22809, .memory = 8ull << 30, .module_bytes = 1 << 20

#endif
