/* cuda_matmul_one.h - sizes of GEMMs of one row, shared by host C and device code; their parameters are those of
 * cuda_matmul_few.h. */
#ifndef RT_BACKEND_CUDA_KERNELS_CUDA_MATMUL_ONE_H
#define RT_BACKEND_CUDA_KERNELS_CUDA_MATMUL_ONE_H

#include "backend/cuda/kernels/cuda_matmul_few.h"

enum {
    RT_ONE_WARPS = 16,                   /* most of a block, which has a multiprocessor to itself */
    RT_ONE_PACKS = 8,                    /* weights of 16 bits: packs of 8 that a lane has of a row, at most; */
    RT_ONE_PART = RT_ONE_PACKS * 32 * 8, /* elements of a row that are a warp's */
    RT_ONE_DIGITS = 3                    /* packed weights: bytes that an element of a becomes */
};

/* Packed weights. Of a chunk of a: its digits, of each two groups the eight sums that MMAs begin with, a sum for each
 * group, the scale of the chunk. */
#define RT_ONE_GROUPS(dtype) (RT_FEW_CHUNK / RT_FEW_GROUP(dtype))
#define RT_ONE_CHUNK_BYTES(dtype) (RT_FEW_CHUNK * RT_ONE_DIGITS + RT_ONE_GROUPS(dtype) * 20 + 16)
#define RT_ONE_STAGES(bytes) ((bytes) > 192 ? 2 : 3)
#define RT_ONE_WARP_BYTES(dtype, bytes) RT_FEW_WARP_BYTES(dtype, bytes, RT_ONE_STAGES(bytes))

#endif
