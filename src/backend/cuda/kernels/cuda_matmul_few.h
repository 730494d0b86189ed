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

/* How much shared memory a warp has. A stage is 16 weight rows of a chunk: of 16 bits 128 bytes each, packed up to 31
 * more than the chunk has, since it begins anywhere, and so far apart that four rows are in four different quarters of
 * the banks. Packed weights have the factors of their groups beside them. COPIES are of 16 bytes, for two lanes. */
#define RT_FEW_BEFORE(dtype) ((dtype) == RT_DTYPE_Q4_K || (dtype) == RT_DTYPE_Q5_K ? 16 : 30)
#define RT_FEW_COPIES(dtype, bytes) (((bytes) + RT_FEW_BEFORE(dtype) + 31) / 32 * 2)
#define RT_FEW_PITCH(dtype, bytes)                                                                                     \
    (RT_FEW_COPIES(dtype, bytes) * 16 + (96 - RT_FEW_COPIES(dtype, bytes) * 16 % 64) % 64)
#define RT_FEW_GROUP(dtype) ((dtype) == RT_DTYPE_Q2_K || (dtype) == RT_DTYPE_Q3_K || (dtype) == RT_DTYPE_Q6_K ? 16 : 32)
#define RT_FEW_FACTORS(dtype) (16 * (RT_FEW_CHUNK / RT_FEW_GROUP(dtype) + 1) * 8)
#define RT_FEW_WARP_BYTES(dtype, bytes, stages) ((stages)*16 * RT_FEW_PITCH(dtype, bytes) + RT_FEW_FACTORS(dtype))
/* As many stages as leave two blocks on a multiprocessor of 228 KB. */
#define RT_FEW_STAGES_OF(n) ((n) < 2 ? 2 : (n) > 4 ? 4 : (n))
#define RT_FEW_STAGES(dtype, bytes)                                                                                    \
    RT_FEW_STAGES_OF(((112 << 10) / RT_FEW_WARPS - RT_FEW_FACTORS(dtype)) / (16 * RT_FEW_PITCH(dtype, bytes)))
enum { RT_FEW_STAGES_16 = 6, RT_FEW_WARP_BYTES_16 = RT_FEW_STAGES_16 * 16 * RT_FEW_CHUNK_16 * 2 };

/* More rows, packed weights: the warps of a block have weight rows of their own and the same chunk of K, of which the
 * rows of a are in shared memory too: two stages of them, and the sums of their groups. */
enum {
    RT_MANY_STAGES = 2,
    RT_MANY_PITCH = RT_FEW_CHUNK * 2 + 64 /* bytes: of a chunk of a row of a */
};
/* Warps of a block, 16 weight rows each: as many as its shared memory has room for. */
#define RT_MANY_WARPS(dtype, bytes) (RT_FEW_PITCH(dtype, bytes) > 256 ? 12 : 16)
#define RT_MANY_SUMS(columns) (16 * (columns)*4)
#define RT_MANY_BYTES(dtype, bytes, columns)                                                                           \
    (RT_MANY_WARPS(dtype, bytes) * RT_FEW_WARP_BYTES(dtype, bytes, RT_MANY_STAGES) + 2 * (columns)*RT_MANY_PITCH +     \
     RT_MANY_SUMS(columns))

/* One GEMM: out (M,N) = alpha a b' + bias, or += . */
typedef struct rt_cuda_few_tensor {
    rt_cuda_ptr b;   /* (N,K) */
    uint64_t b_step; /* bytes from row to row; */
    uint64_t b_row;  /* of a row */
    rt_cuda_mat out;
    rt_cuda_ptr bias; /* (N); 0: none */
    rt_cuda_ptr sums; /* (split,M,N) f32, where blocks have parts of K */
    uint32_t N, out_type, bias_type, acc;
    float alpha;
    uint32_t first;  /* block that begins it; */
    uint32_t blocks; /* of it, where a is one row */
    uint32_t unused;
} rt_cuda_few_tensor;

typedef struct rt_cuda_few_params {
    rt_cuda_mat a; /* (M,K) */
    uint32_t M, K;
    uint32_t tiles_m; /* blocks that read the same weights, each for rows of its own */
    uint32_t split; /* warps that share weight rows: chunk i of K is warp i % split's; with more rows, blocks that do */
    uint32_t count, unused;
    rt_cuda_few_tensor tensor[RT_FEW_TENSORS];
} rt_cuda_few_params;

#endif
