/* cuda_comm.h - parameters of what ranks need besides a collective. */
#ifndef RT_BACKEND_CUDA_KERNELS_CUDA_COMM_H
#define RT_BACKEND_CUDA_KERNELS_CUDA_COMM_H

#include "backend/cuda/kernels/cuda_args.h"

typedef struct rt_cuda_first_fault_params {
    rt_cuda_ptr all; /* (R) rt_fault, in the order of the ranks */
    rt_cuda_ptr out; /* rt_fault */
    uint32_t R;
} rt_cuda_first_fault_params;

typedef struct rt_cuda_take_slice_params {
    rt_cuda_ptr own, from; /* (n) f32 */
    uint32_t n;
    uint32_t acc; /* 1: own += */
} rt_cuda_take_slice_params;

/* Odd while a collective is under way; in pinned memory of the host. */
typedef struct rt_cuda_count_up_params {
    rt_cuda_ptr word; /* u32 */
} rt_cuda_count_up_params;

#endif
