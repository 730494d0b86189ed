/* cuda_swiglu.h - parameters of swiglu, forward and backward. */
#ifndef RT_BACKEND_CUDA_KERNELS_CUDA_SWIGLU_H
#define RT_BACKEND_CUDA_KERNELS_CUDA_SWIGLU_H

#include "backend/cuda/kernels/cuda_args.h"

typedef struct rt_cuda_swiglu_params {
    rt_cuda_tile tile;
    rt_cuda_mat y, g, u;    /* both; y.at 0: backward does not write it */
    rt_cuda_mat dg, du, dy; /* backward */
} rt_cuda_swiglu_params;

#endif
