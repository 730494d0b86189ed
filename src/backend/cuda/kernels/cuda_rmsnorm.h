/* cuda_rmsnorm.h - parameters of rmsnorm in its four forms. */
#ifndef RT_BACKEND_CUDA_KERNELS_CUDA_RMSNORM_H
#define RT_BACKEND_CUDA_KERNELS_CUDA_RMSNORM_H

#include "backend/cuda/kernels/cuda_args.h"

enum {
    RT_CUDA_NORM_HOLDS = 4, /* packs of its group that a thread of the forward keeps */
    /* backward: */
    RT_CUDA_NORM_BLOCK = 512, /* threads of the longest block */
    RT_CUDA_NORM_GROUPS = 2,  /* that a team has at a time, a pack of each in a thread */
    RT_CUDA_NORM_LONG = 4     /* packs of a thread in groups too long for that, one at a time */
};

typedef struct rt_cuda_rmsnorm_params {
    rt_rmsnorm_args a;
    uint32_t team;   /* threads of a group: a power of two, or backward whole warps */
    uint32_t held;   /* forward: a group is whole, aligned packs in every operand, as many as a team keeps */
    uint32_t stages; /* backward: 2, groups are fetched while those before them are worked on; or 1 */
    uint32_t unused;
    rt_cuda_mat y, h;      /* forward; h absent without a residual */
    rt_cuda_mat scale;     /* forward, of y as codes */
    rt_cuda_mat x, res;    /* both; backward: x is h of the forward, res is dres */
    rt_cuda_mat dx, dy;    /* backward */
    rt_cuda_ptr w, part;   /* part (blocks,D) f32: 0 when no weight gradient is wanted */
    uint32_t w_dtype, acc; /* acc: dx += */
} rt_cuda_rmsnorm_params;

#endif
