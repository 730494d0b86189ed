/* cuda_dequant.h - parameters of dequant. */
#ifndef RT_BACKEND_CUDA_KERNELS_CUDA_DEQUANT_H
#define RT_BACKEND_CUDA_KERNELS_CUDA_DEQUANT_H

#include "backend/cuda/kernels/cuda_args.h"

enum { RT_CUDA_DEQUANT_TILE = 4096 }; /* values of one row that a block expands */

typedef struct rt_cuda_dequant_params {
    rt_cuda_mat y;
    rt_cuda_ptr x;
    uint64_t x_step; /* bytes of a row of blocks, gaps included */
    uint64_t cols;   /* of a row; operands without gaps are one row */
    uint32_t tiles;  /* of a row */
    uint32_t whole;  /* 8 values of y are aligned */
    uint32_t y_dtype, unused;
} rt_cuda_dequant_params;

#endif
