/* cuda_matmul.h - parameters of the product kernels, shared by host C and device code. */
#ifndef RT_BACKEND_CUDA_MATMUL_H
#define RT_BACKEND_CUDA_MATMUL_H

#include <stdint.h>

/* Storage of an operand as the kernels know it. */
enum { RT_CUDA_F32, RT_CUDA_BF16, RT_CUDA_F16 };

enum { RT_MATMUL_TILE = 64, RT_MATMUL_STEP = 16, RT_MATMUL_THREADS = 256 };

/* out (M,N) = alpha op(a) op(b) + bias, or += . Element (m,k) of op(a) is a[m a_row + k a_col], and so on. */
typedef struct rt_cuda_matmul_params {
    uint64_t a, b, bias, out; /* addresses; bias 0: none */
    uint64_t a_row, a_col, b_row, b_col, out_row;
    uint32_t M, N, K, acc;
    uint32_t a_type, b_type, bias_type, out_type;
    uint32_t tiles_n; /* tiles along N; a block's tile is (block / tiles_n, block % tiles_n) */
    float alpha;
} rt_cuda_matmul_params;

/* out (M,N) = bias in every row. */
typedef struct rt_cuda_bias_params {
    uint64_t out, bias, out_row;
    uint32_t M, N, out_type, bias_type;
} rt_cuda_bias_params;

#endif
