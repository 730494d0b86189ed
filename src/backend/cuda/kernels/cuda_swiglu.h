/* cuda_swiglu.h - parameters of swiglu, forward and backward. */
#ifndef RT_BACKEND_CUDA_KERNELS_CUDA_SWIGLU_H
#define RT_BACKEND_CUDA_KERNELS_CUDA_SWIGLU_H

#include "backend/cuda/kernels/cuda_args.h"

enum {
    RT_CUDA_SWIGLU_HOLDS = 4,  /* packs of its row that a thread keeps, where y is codes */
    RT_CUDA_SWIGLU_MOST = 1024 /* threads of the longest row */
};

typedef struct rt_cuda_swiglu_params {
    rt_cuda_tile tile;
    rt_cuda_mat y, g, u;    /* both; y.at 0: backward does not write it */
    rt_cuda_mat dg, du, dy; /* backward */
} rt_cuda_swiglu_params;

/* y (N,F) as codes, scale (N,1) from g and u */
typedef struct rt_cuda_coded_swiglu_params {
    rt_cuda_mat y, scale, g, u;
    uint32_t N, F;
    uint32_t team; /* threads of a row: whole warps; the block has some whole teams */
    uint32_t held; /* 1: a row is whole, aligned packs, no more than the team keeps */
} rt_cuda_coded_swiglu_params;

#endif
