/* cuda_rope.h - parameters of rope, both ways. */
#ifndef RT_BACKEND_CUDA_KERNELS_CUDA_ROPE_H
#define RT_BACKEND_CUDA_KERNELS_CUDA_ROPE_H

#include "backend/cuda/kernels/cuda_args.h"

typedef struct rt_cuda_rope_params {
    rt_rope_args a;
    uint32_t rows;  /* of a block */
    uint32_t whole; /* both halves of a head are whole, aligned packs */
    uint32_t back;  /* turns the other way */
    uint32_t unused;
    rt_cuda_mat y, x, pos;
    rt_cuda_ptr freq;
} rt_cuda_rope_params;

#endif
