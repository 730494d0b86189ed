/* cuda_options.h - what this backend can be told: its own options as typed values, and the environment.
 *
 * Variables are looked up where they matter: MANAGED_MEMORY (cuda_backend.c), the folders of cuBLASLt (cuda_lt.c) and
 * of the choices by timing (cuda_tune.c). */
#ifndef RT_BACKEND_CUDA_OPTIONS_H
#define RT_BACKEND_CUDA_OPTIONS_H

#include "backend/options.h"

typedef enum rt_cuda_memory { RT_CUDA_MEMORY_AUTO, RT_CUDA_MEMORY_DEVICE, RT_CUDA_MEMORY_MANAGED } rt_cuda_memory;

typedef struct rt_cuda_options {
    uint32_t memory;      /* rt_cuda_memory */
    const char *cublaslt; /* null: looked for; a path; "none": GEMMs by our own kernels */
    const char *kernels;  /* null or "auto": machine code; "ptx", "ptx80": the embedded PTX, compiled at open */
    bool tune;            /* the fastest of the library's algorithms for each GEMM, by timing */
    bool sync;            /* every op by itself, so that a fault names its op; slow */
    const char *const *env;
} rt_cuda_options;

extern const rt_dev_option_info rt_cuda_option_table[];
/* o may be null. */
int rt_cuda_options_read(rt_cuda_options *out, const rt_dev_opts *o, rt_err *e);

#endif
