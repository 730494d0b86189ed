/* cuda_choice.h - parameters of topk, draw and sample, which choose ids from logits, and of mix_logits. */
#ifndef RT_BACKEND_CUDA_KERNELS_CUDA_CHOICE_H
#define RT_BACKEND_CUDA_KERNELS_CUDA_CHOICE_H

#include "backend/cuda/kernels/cuda_args.h"

enum {
    RT_CUDA_CHOICE_THREADS = 1024,
    RT_CUDA_TOPK_THREADS = 512,  /* two blocks of a multiprocessor: one reads while the other ranks */
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

typedef struct rt_cuda_draw_params {
    rt_draw_args a;
    double scale; /* rt_draw_scale(T) */
    float end;    /* as far below the largest logit a weight is 0, whatever rounds */
    float steep;  /* log2(e) / T */
    float reach;  /* what is less far below has a depth of less than 2^49, and below 2^-126 of 0; 0: nothing has */
    rt_cuda_mat id, logp, entropy, x, key;
    rt_cuda_ptr vmask; /* 0: all ids */
    rt_cuda_ptr step;
} rt_cuda_draw_params;
enum { RT_CUDA_DRAW_THREADS = 512 };

typedef struct rt_cuda_mix_params {
    rt_mix_args a;
    uint32_t dtype; /* rt_dtype of x */
    rt_cuda_mat y, y0, x, weight;
    rt_cuda_ptr vmask; /* 0: all ids */
} rt_cuda_mix_params;

#endif
