/* cuda_sums.h - parameters of bias_grad and norm_sq, and of the sum over partial rows that others end with too. */
#ifndef RT_BACKEND_CUDA_KERNELS_CUDA_SUMS_H
#define RT_BACKEND_CUDA_KERNELS_CUDA_SUMS_H

#include "backend/cuda/kernels/cuda_args.h"

/* out (1,C) = or += sum over P rows of part (P,C) f32; several at once */
enum { RT_CUDA_COLUMNS_WIDE = 32, RT_CUDA_COLUMNS_BLOCK = 1024, RT_CUDA_COLUMNS_RUN = 96 };
typedef struct rt_cuda_columns {
    rt_cuda_ptr out, part;
    uint32_t C, P, dtype, acc;
    uint32_t first, unused; /* block */
} rt_cuda_columns;
typedef struct rt_cuda_columns_params {
    uint32_t count, blocks;
    rt_cuda_columns tensor[RT_CUDA_COLUMNS_RUN];
} rt_cuda_columns_params;

/* Sums over `rows` rows of dy, for 16 packs of columns, to part (gridDim / stripes, C). */
typedef struct rt_cuda_bias_params {
    rt_cuda_mat dy;
    rt_cuda_ptr part;
    uint32_t N, C, rows, stripes, whole;
} rt_cuda_bias_params;
/* Threads of a block, and of a stripe; rows that a thread has under way. */
enum { RT_CUDA_BIAS_BLOCK = 256, RT_CUDA_BIAS_LANES = 16, RT_CUDA_BIAS_ROWS = 9 };

/* Of one block of norm_sq. */
typedef struct rt_cuda_norm_part {
    double sum;
    uint32_t row; /* the first with a number that is not finite; UINT32_MAX: none */
    uint32_t unused;
} rt_cuda_norm_part;

typedef struct rt_cuda_norm_tensor {
    rt_cuda_tile tile;
    rt_cuda_mat x;
    uint32_t C, site;
    uint32_t first, blocks; /* that add it up, and where their parts begin */
} rt_cuda_norm_tensor;

/* Tensors whose sums go, one behind the other, into the same out. */
enum { RT_CUDA_NORM_PACKS = 4, RT_CUDA_NORM_TURNS = 2, RT_CUDA_NORM_BLOCKS = 1024 };
enum { RT_CUDA_NORM_RUN = 60, RT_CUDA_NORM_PARTS = 8192, RT_CUDA_NORM_FINISH = 1024 };
typedef struct rt_cuda_norm_params {
    rt_cuda_ptr out, part, fault, step; /* fault and step 0: not given */
    uint32_t count, acc;                /* acc: of the first; the others add */
    rt_cuda_norm_tensor tensor[RT_CUDA_NORM_RUN];
} rt_cuda_norm_params;

#endif
