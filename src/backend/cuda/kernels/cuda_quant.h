/* cuda_quant.h - parameters of quant. */
#ifndef RT_BACKEND_CUDA_KERNELS_CUDA_QUANT_H
#define RT_BACKEND_CUDA_KERNELS_CUDA_QUANT_H

#include "backend/cuda/kernels/cuda_args.h"

enum { RT_CUDA_QUANT_WARPS = 4 }; /* of a block; each makes one block of values at a time */

typedef struct rt_cuda_quant_params {
    rt_cuda_ptr y;
    rt_cuda_mat x;
    uint64_t y_step;          /* bytes of a row of blocks, gaps included */
    uint64_t blocks, per_row; /* blocks of values */
    uint32_t x_dtype, dtype;
    uint32_t elems, bytes; /* of a block of values */
} rt_cuda_quant_params;

#endif
