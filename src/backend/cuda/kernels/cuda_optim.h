/* cuda_optim.h - parameters of adamw and clip. */
#ifndef RT_BACKEND_CUDA_KERNELS_CUDA_OPTIM_H
#define RT_BACKEND_CUDA_KERNELS_CUDA_OPTIM_H

#include "backend/cuda/kernels/cuda_args.h"

typedef struct rt_cuda_adam_tensor {
    rt_cuda_tile tile;
    rt_cuda_mat param, master, m, v, grad; /* master absent: param is f32 and its own */
    uint32_t first, blocks;                /* that have it */
    float decay;
    uint32_t unused;
} rt_cuda_adam_tensor;

/* Tensors of one step, which have nothing to do with one another. A block computes the bias corrections once, so it has
 * more than one turn. */
enum { RT_CUDA_ADAM_WIDTH = 4, RT_CUDA_ADAM_PACKS = 2, RT_CUDA_ADAM_TURNS = 2, RT_CUDA_ADAM_RUN = 30 };
typedef struct rt_cuda_adam_params {
    rt_cuda_ptr step, gscale, fault; /* gscale, fault: 0 when absent */
    float beta1, beta2, eps;
    uint32_t count;
    rt_cuda_adam_tensor tensor[RT_CUDA_ADAM_RUN];
} rt_cuda_adam_params;

/* The same where moments are narrower than f32 (num/moment.h). A row is never joined with the next; packs are those of
 * whole blocks where moments have 8 bits, so that a warp has a block. */
typedef struct rt_cuda_narrow_tensor {
    rt_cuda_tile tile;
    rt_cuda_mat param, master, m, v, grad;
    rt_cuda_mat exps; /* with codes of 8 bits */
    uint32_t first, blocks;
    float decay;
    uint32_t stream, row; /* of the random words */
    uint32_t unused;
} rt_cuda_narrow_tensor;

enum { RT_CUDA_NARROW_RUN = 26 };
typedef struct rt_cuda_narrow_params {
    rt_cuda_ptr step, gscale, fault; /* gscale, fault: 0 when absent */
    float beta1, beta2, eps;
    uint32_t count;
    rt_cuda_narrow_tensor tensor[RT_CUDA_NARROW_RUN];
} rt_cuda_narrow_params;

typedef struct rt_cuda_clip_params {
    rt_cuda_ptr scale, norm, nsq, fault, step; /* fault and step 0: not given */
    float max_norm;
    uint32_t site;
} rt_cuda_clip_params;

#endif
