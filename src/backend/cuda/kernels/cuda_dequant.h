/* cuda_dequant.h - parameters of dequant. */
#ifndef RT_BACKEND_CUDA_KERNELS_CUDA_DEQUANT_H
#define RT_BACKEND_CUDA_KERNELS_CUDA_DEQUANT_H

#include "backend/cuda/kernels/cuda_args.h"

/* A block expands RT_CUDA_DEQUANT_TILE values of one row; it first brings their bytes into shared memory. The widest
 * type has 34 bytes for 32 values. */
enum { RT_CUDA_DEQUANT_TILE = 8192, RT_CUDA_DEQUANT_BYTES = RT_CUDA_DEQUANT_TILE / 32 * 34 };

typedef struct rt_cuda_dequant_params {
    rt_cuda_mat y;
    rt_cuda_ptr x;
    uint64_t x_step; /* bytes of a row of blocks, gaps included */
    uint64_t cols;   /* of a row; operands without gaps are one row */
    uint64_t tiles;  /* of a row */
    uint32_t whole;  /* 16 values of y are aligned */
    uint32_t y_dtype;
} rt_cuda_dequant_params;

#endif
