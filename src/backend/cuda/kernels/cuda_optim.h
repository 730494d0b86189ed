/* cuda_optim.h - parameters of adamw and clip. */
#ifndef RT_BACKEND_CUDA_KERNELS_CUDA_OPTIM_H
#define RT_BACKEND_CUDA_KERNELS_CUDA_OPTIM_H

#include "backend/cuda/kernels/cuda_args.h"

enum { RT_CUDA_ADAM_WIDTH = 4, RT_CUDA_ADAM_PACKS = 2 };

typedef struct rt_cuda_adam_params {
    rt_cuda_tile tile;
    rt_cuda_mat param, master, m, v, grad; /* master absent: param is f32 and its own */
    rt_cuda_ptr step, gscale, fault;       /* gscale, fault: 0 when absent */
    float beta1, beta2, eps, decay;
} rt_cuda_adam_params;

typedef struct rt_cuda_clip_params {
    rt_cuda_ptr scale, norm, nsq, fault, step; /* fault and step 0: not given */
    float max_norm;
    uint32_t site;
} rt_cuda_clip_params;

#endif
