/* cuda_dropout.h - parameters of dropout. */
#ifndef RT_BACKEND_CUDA_KERNELS_CUDA_DROPOUT_H
#define RT_BACKEND_CUDA_KERNELS_CUDA_DROPOUT_H

#include "backend/cuda/kernels/cuda_args.h"

typedef struct rt_cuda_dropout_params {
    rt_cuda_tile tile; /* rows are kept apart: a random word is that of a row and a column */
    rt_cuda_mat y, x;
    rt_cuda_ptr step;
    uint32_t stream, below;
    float scale;
    uint32_t acc; /* 1: y += */
} rt_cuda_dropout_params;

#endif
