/* cuda_matmul.h - parameters of our own GEMMs, shared by host C and device code. */
#ifndef RT_BACKEND_CUDA_KERNELS_CUDA_MATMUL_H
#define RT_BACKEND_CUDA_KERNELS_CUDA_MATMUL_H

#include "backend/cuda/kernels/cuda_args.h"

/* On ordinary cores (cuda_matmul.cu): a block owns a tile of out and steps along K. */
enum { RT_MATMUL_TILE = 128, RT_MATMUL_STEP = 8, RT_MATMUL_THREADS = 256 };
/* On tensor cores (cuda_matmul_mma.cu): each warp owns 64 x 64 of the block's tile. */
enum {
    RT_MMA_M = 256,
    RT_MMA_N = 128,
    RT_MMA_STEP = 64,
    RT_MMA_THREADS = RT_MMA_M / 64 * (RT_MMA_N / 64) * 32,
    RT_MMA_STAGE = (RT_MMA_M + RT_MMA_N) * RT_MMA_STEP * 2, /* bytes of a step in shared memory */
    RT_MMA_MOST_STAGES = 4
};
enum { RT_MATMUL_PACK = 8 }; /* elements that a thread writes at once */

/* out (M,N) = alpha op(a) op(b) + bias, or += . a is stored (M,K), or (K,M) where ta; b (K,N), or (N,K) where tb; both
 * of one type. The first `whole` tiles are a block each. Each tile behind them is `parts` blocks, a part of K each,
 * whose sums a second launch joins: the blocks that are left for a last wave take less time so. */
typedef struct rt_cuda_matmul_params {
    rt_cuda_mat a, b, out;
    rt_cuda_ptr bias; /* (N); 0: none */
    rt_cuda_ptr sums; /* (tiles that are cut,parts,rows of a tile,columns of a tile) f32; 0: no tile is cut */
    uint32_t M, N, K, ta, tb, acc;
    uint32_t out_type, bias_type;     /* rt_dtype */
    uint32_t packs_a, packs_b;        /* 1: packs of 4 along a row are aligned (ordinary cores alone ask) */
    uint32_t packs_out;               /* 1: packs of 8 of out and bias are */
    uint32_t tile_m, tile_n;          /* elements of a tile */
    uint32_t tiles_m, tiles_n, whole; /* tiles of out */
    uint32_t parts, part_K;
    uint32_t stages; /* tensor cores alone: steps in shared memory */
    float alpha;
} rt_cuda_matmul_params;

/* out (M,N) = bias in every row. */
typedef struct rt_cuda_bias_params {
    rt_cuda_mat out;
    rt_cuda_ptr bias;
    uint32_t M, N, out_type, bias_type;
} rt_cuda_bias_params;

#endif
