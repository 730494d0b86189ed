/* cuda_tensor_map.h - a matrix as Hopper's copy engine is told of it: CUtensorMap, filled in by the driver. */
#ifndef RT_BACKEND_CUDA_KERNELS_CUDA_TENSOR_MAP_H
#define RT_BACKEND_CUDA_KERNELS_CUDA_TENSOR_MAP_H

#include <stdalign.h>
#include <stdint.h>

typedef struct rt_cuda_tensor_map {
    alignas(64) uint64_t word[16];
} rt_cuda_tensor_map;

#endif
