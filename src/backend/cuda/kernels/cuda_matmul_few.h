/* cuda_matmul_few.h - parameters of GEMMs of few rows, shared by host C and device code. */
#ifndef RT_BACKEND_CUDA_KERNELS_CUDA_MATMUL_FEW_H
#define RT_BACKEND_CUDA_KERNELS_CUDA_MATMUL_FEW_H

#include "backend/cuda/kernels/cuda_args.h"

enum {
    RT_FEW_WARPS = 8,
    RT_FEW_THREADS = 32 * RT_FEW_WARPS,
    RT_FEW_TENSORS = 4,  /* GEMMs of one operand that a launch takes */
    RT_FEW_CHUNK = 256,  /* elements of K of a stage, packed weights; */
    RT_FEW_CHUNK_16 = 64 /* of 16 bits */
};

/* How much shared memory a warp has. A stage is `rows` weight rows of a chunk: of 16 bits 128 bytes each, packed up to
 * 15 more than the chunk has, since it begins anywhere, and so far apart that four rows are in four different quarters
 * of the banks. Packed weights have the factors of their groups beside them. */
#define RT_FEW_COPIES(bytes) (((bytes) + 14) / 16 + 1)
#define RT_FEW_PITCH(bytes) (RT_FEW_COPIES(bytes) * 16 + (96 - RT_FEW_COPIES(bytes) * 16 % 64) % 64)
#define RT_FEW_GROUP(dtype) ((dtype) == RT_DTYPE_Q2_K || (dtype) == RT_DTYPE_Q3_K || (dtype) == RT_DTYPE_Q6_K ? 16 : 32)
#define RT_FEW_FACTORS(dtype, rows) ((rows) * (RT_FEW_CHUNK / RT_FEW_GROUP(dtype) + 1) * 8)
/* Two blocks on a multiprocessor of 228 KB, where two stages leave that. */
#define RT_FEW_ROOM ((112 << 10) / RT_FEW_WARPS)
#define RT_FEW_STAGES_OF(room, stage) ((room) / (stage) < 2 ? 2 : (room) / (stage) > 4 ? 4 : (room) / (stage))
#define RT_FEW_STAGES(dtype, bytes, rows)                                                                              \
    RT_FEW_STAGES_OF(RT_FEW_ROOM - RT_FEW_FACTORS(dtype, rows), (rows) * RT_FEW_PITCH(bytes))
#define RT_FEW_WARP_BYTES(dtype, bytes, rows)                                                                          \
    (RT_FEW_STAGES(dtype, bytes, rows) * (rows) * RT_FEW_PITCH(bytes) + RT_FEW_FACTORS(dtype, rows))
enum { RT_FEW_STAGES_16 = 6, RT_FEW_WARP_BYTES_16 = RT_FEW_STAGES_16 * 16 * RT_FEW_CHUNK_16 * 2 };

/* One GEMM: out (M,N) = alpha a b' + bias, or += . */
typedef struct rt_cuda_few_tensor {
    rt_cuda_ptr b;   /* (N,K) */
    uint64_t b_step; /* bytes from row to row; */
    uint64_t b_row;  /* of a row */
    rt_cuda_mat out;
    rt_cuda_ptr bias; /* (N); 0: none */
    uint32_t N, out_type, bias_type, acc;
    float alpha;
    uint32_t first; /* block that begins it */
} rt_cuda_few_tensor;

typedef struct rt_cuda_few_params {
    rt_cuda_mat a; /* (M,K) */
    uint32_t M, K;
    uint32_t tiles_m; /* blocks that read the same weights, each for rows of its own */
    uint32_t split;   /* warps that share weight rows: chunk i of K is warp i % split's */
    uint32_t count, unused;
    rt_cuda_few_tensor tensor[RT_FEW_TENSORS];
} rt_cuda_few_params;

#endif
