/* cuda_options.h - what this backend can be told: its own options as typed values, and the environment.
 *
 * Variables are looked up where they matter: MANAGED_MEMORY and RETORT_FP8_FAST_SUMS (cuda_backend.c), the folders of
 * cuBLASLt (cuda_lt.c) and of the choices by timing (cuda_tune.c). */
#ifndef RT_BACKEND_CUDA_OPTIONS_H
#define RT_BACKEND_CUDA_OPTIONS_H

#include "backend/options.h"

typedef enum rt_cuda_memory { RT_CUDA_MEMORY_AUTO, RT_CUDA_MEMORY_DEVICE, RT_CUDA_MEMORY_MANAGED } rt_cuda_memory;

/* GEMM algorithms by timing. */
typedef enum rt_cuda_tuning {
    RT_CUDA_TUNE_OFF,   /* the library's first; nothing is read or kept, but what a resumed run chose holds */
    RT_CUDA_TUNE_KNOWN, /* as chosen before; nothing is timed */
    RT_CUDA_TUNE_ON,    /* and what is not known is timed, for so many seconds */
    RT_CUDA_TUNE_ALL    /* without that limit */
} rt_cuda_tuning;

typedef struct rt_cuda_options {
    uint32_t memory;      /* rt_cuda_memory */
    const char *cublaslt; /* null: looked for; a path; "none": GEMMs by our own kernels */
    const char *kernels;  /* null or "auto": machine code; "ptx", "ptx80": the embedded PTX, compiled at open */
    uint32_t tune;        /* rt_cuda_tuning */
    bool sync;            /* every op by itself, so that a fault names its op; slow */
    const char *const *env;
} rt_cuda_options;

extern const rt_dev_option_info rt_cuda_option_table[];
/* o may be null. */
int rt_cuda_options_read(rt_cuda_options *out, const rt_dev_opts *o, rt_err *e);

#endif
