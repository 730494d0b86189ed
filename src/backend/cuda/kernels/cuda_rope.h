/* cuda_rope.h - parameters of rope, both ways. */
#ifndef RT_BACKEND_CUDA_KERNELS_CUDA_ROPE_H
#define RT_BACKEND_CUDA_KERNELS_CUDA_ROPE_H

#include "backend/cuda/kernels/cuda_args.h"

enum { RT_CUDA_ROPE_ROWS = 2 }; /* that a thread has under way */

typedef struct rt_cuda_rope_params {
    rt_rope_args a;
    uint32_t rows;   /* of a block */
    uint32_t side;   /* rows that its threads have at a time */
    uint32_t lanes;  /* threads of a row, a pair of packs each */
    uint32_t chunks; /* blocks that share a row */
    uint32_t whole;  /* both halves of a head are whole, aligned packs */
    uint32_t back;   /* turns the other way */
    rt_cuda_mat y, x, pos;
    rt_cuda_ptr freq;
} rt_cuda_rope_params;

#endif
