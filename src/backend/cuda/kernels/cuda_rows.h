/* cuda_rows.h - parameters of the plain row ops: add, scale, cast, fill, copy. */
#ifndef RT_BACKEND_CUDA_KERNELS_CUDA_ROWS_H
#define RT_BACKEND_CUDA_KERNELS_CUDA_ROWS_H

#include "backend/cuda/kernels/cuda_args.h"

enum { RT_CUDA_ROWS_PACKS = 2 }; /* a thread has under way */
/* The same of a cast, by the bytes of an element of y: always 16 elements. */
#define RT_CUDA_CAST_PACKS(size) (size)

typedef struct rt_cuda_rows_params {
    rt_cuda_tile tile;
    rt_cuda_mat y, x, b; /* b: second operand of add */
    rt_cuda_ptr s;       /* scale: f32 factor in memory, or 0 */
    float alpha;
} rt_cuda_rows_params;

/* Copies count units of 1, 2, 4 or 16 bytes; strides count units. */
typedef struct rt_cuda_copy_params {
    rt_cuda_tile tile; /* packs of one unit */
    rt_cuda_mat y, x;
} rt_cuda_copy_params;

typedef struct rt_cuda_scatter_params {
    rt_cuda_mat y, x;
    rt_cuda_mat rows; /* (N,1) i32: where each row of x goes */
    uint64_t units;   /* of a row */
    uint32_t N, R;
} rt_cuda_scatter_params;

#endif
