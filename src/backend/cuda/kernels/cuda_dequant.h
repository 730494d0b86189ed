/* cuda_dequant.h - parameters of dequant, and of embed from a quantised table. */
#ifndef RT_BACKEND_CUDA_KERNELS_CUDA_DEQUANT_H
#define RT_BACKEND_CUDA_KERNELS_CUDA_DEQUANT_H

#include "backend/cuda/kernels/cuda_args.h"

/* Values that are decoded together; those of a thread, which has two turns; tensors of a launch. */
enum { RT_CUDA_RUN = 8, RT_CUDA_DEQUANT_THREAD = 2 * RT_CUDA_RUN, RT_CUDA_DEQUANT_TENSORS = 8 };

/* The quantised types: name, elements, bytes of a block */
#define RT_FOR_QUANTS(X)                                                                                               \
    X(Q8_0, q8_0, 32, 34)                                                                                              \
    X(Q4_0, q4_0, 32, 18)                                                                                              \
    X(Q4_K, q4_k, 256, 144)                                                                                            \
    X(Q5_K, q5_k, 256, 176)                                                                                            \
    X(Q6_K, q6_k, 256, 210)                                                                                            \
    X(Q4_1, q4_1, 32, 20)                                                                                              \
    X(Q5_0, q5_0, 32, 22)                                                                                              \
    X(Q5_1, q5_1, 32, 24)                                                                                              \
    X(Q2_K, q2_k, 256, 84)                                                                                             \
    X(Q3_K, q3_k, 256, 110)                                                                                            \
    X(IQ4_NL, iq4_nl, 32, 18)                                                                                          \
    X(IQ4_XS, iq4_xs, 256, 136)

/* One row of y after another, cut into tiles; a block has one tile. */
typedef struct rt_cuda_dequant_tensor {
    rt_cuda_mat y;
    rt_cuda_mat ids; /* (rows,1) i32: row i of y is that row of x, NaN where it is not below V; absent: row i */
    rt_cuda_ptr x;
    uint64_t x_step; /* bytes of a row of blocks, gaps included */
    uint64_t cols;   /* of a row; operands without gaps are one row */
    uint32_t V;
    uint32_t x_dtype;
    uint32_t tiles; /* of a row */
    uint32_t first; /* block that has it */
    uint32_t whole; /* 8 values of y are aligned */
    uint32_t unused;
} rt_cuda_dequant_tensor;

/* Tensors that have nothing to do with one another, but for the dtype of y. */
typedef struct rt_cuda_dequant_params {
    uint32_t count, unused;
    rt_cuda_dequant_tensor tensor[RT_CUDA_DEQUANT_TENSORS];
} rt_cuda_dequant_params;

#endif
