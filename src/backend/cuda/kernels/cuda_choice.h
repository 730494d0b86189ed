/* cuda_choice.h - parameters of topk and sample, which choose ids from logits. */
#ifndef RT_BACKEND_CUDA_KERNELS_CUDA_CHOICE_H
#define RT_BACKEND_CUDA_KERNELS_CUDA_CHOICE_H

#include "backend/cuda/kernels/cuda_args.h"

enum {
    RT_CUDA_CHOICE_THREADS = 1024,
    RT_CUDA_CHOICE_SHARED = 2048 /* keys that are sorted in shared memory; more of them in scratch */
};

typedef struct rt_cuda_topk_params {
    rt_topk_args a;
    rt_cuda_mat id, logp, rest, x;
    rt_cuda_ptr vmask; /* 0: all ids */
    rt_cuda_ptr keys;  /* (N,room) u64, or 0 */
    uint64_t room;     /* a power of two, at least k */
} rt_cuda_topk_params;

typedef struct rt_cuda_sample_params {
    rt_sample_args a;
    rt_cuda_mat id, logp, seen, x, key, how; /* logp and seen may be absent */
    rt_cuda_ptr keys;                        /* (N,room) u64, or 0 */
    uint64_t room;                           /* a power of two, at least V */
} rt_cuda_sample_params;

#endif
