/* cuda_dequant_push.h - how rows of quantised blocks look to their kernel, for the ops that read them: dequant, and
 * embed from a quantised table. */
#ifndef RT_BACKEND_CUDA_CUDA_DEQUANT_PUSH_H
#define RT_BACKEND_CUDA_CUDA_DEQUANT_PUSH_H

#include "backend/cuda/cuda_op.h"
#include "backend/cuda/kernels/cuda_dequant.h"

/* Rows of so many columns, cut into the tiles of blocks of so many threads. */
static inline rt_cuda_dequant_tensor cuda_dequant_rows(const rt_operand *y, const rt_operand *x, uint64_t cols,
                                                       uint32_t threads)
{
    return (rt_cuda_dequant_tensor){ .y = cuda_mat(y),
                                     .x = rt_cuda_addr(x),
                                     .x_step = rt_dtype_bytes(x->dtype, x->stride),
                                     .cols = cols,
                                     .x_dtype = x->dtype,
                                     .tiles = (uint32_t)cuda_div_up(cols, threads * RT_CUDA_DEQUANT_THREAD),
                                     .whole = cuda_aligned(y, RT_CUDA_RUN) };
}

static inline void cuda_push_dequant(rt_cuda_builder *b, rt_dtype y, uint32_t blocks, uint32_t threads,
                                     const rt_cuda_dequant_params *p)
{
    cuda_push_1d(b, "cuda_dequant", CUDA_KERNEL("dequant", y), blocks, threads, 0, p, sizeof *p);
}

#endif
