/* cuda_scaled.h - parameters of the kernels of e4m3 codes with a scale for each row. */
#ifndef RT_BACKEND_CUDA_KERNELS_CUDA_SCALED_H
#define RT_BACKEND_CUDA_KERNELS_CUDA_SCALED_H

#include "backend/cuda/kernels/cuda_args.h"

enum {
    RT_CUDA_QROWS_HOLDS = 4,   /* packs of its row, or runs of decoded values, that a thread keeps */
    RT_CUDA_QROWS_MOST = 1024, /* threads of the longest row */
    RT_SCALED_TILE = 64,       /* of our own GEMM: a block owns so many rows and columns of out */
    RT_SCALED_STEP = 16        /* and steps so far along K */
};

/* y (N,C), scale (N,1) from x (N,C) */
typedef struct rt_cuda_quant_rows_params {
    rt_cuda_mat y, scale, x;
    uint32_t N, C;
    uint32_t team;    /* threads of a row: whole warps; the block has some whole teams */
    uint32_t held;    /* of floats, 1: a row is whole, aligned packs, no more than the team keeps */
    uint32_t x_dtype; /* of blocks, */
    uint32_t whole;   /* 1: eight codes of y are aligned, */
    uint64_t x_step;  /* and bytes of a row of x, gaps included */
} rt_cuda_quant_rows_params;

/* out (M,N) = or += sa[i] sb[j] (a b')[i,j] + bias[j] */
typedef struct rt_cuda_scaled_params {
    rt_cuda_mat out, a, b, sa, sb;
    rt_cuda_ptr bias; /* (N); 0: none */
    uint32_t M, N, K, acc;
    uint32_t out_type, bias_type; /* rt_dtype */
    uint32_t packs;               /* 1: four codes along a row of a and of b are aligned */
    uint32_t tiles_n;
} rt_cuda_scaled_params;

#endif
