/* cuda_sums_push.h - the launch that ends every sum over rows: partial rows, added up in order. */
#ifndef RT_BACKEND_CUDA_CUDA_SUMS_PUSH_H
#define RT_BACKEND_CUDA_CUDA_SUMS_PUSH_H

#include "backend/cuda/cuda_op.h"
#include "backend/cuda/kernels/cuda_sums.h"

/* out (1,C) = or += sum of the P rows at part (P,C) f32 */
static inline void cuda_push_columns(rt_cuda_builder *b, const rt_operand *out, uint64_t part, uint32_t P, bool acc)
{
    rt_cuda_columns_params p = {
        .out = rt_cuda_addr(out), .part = part, .C = out->cols, .P = P, .dtype = out->dtype, .acc = acc
    };
    cuda_push_1d(b, "cuda_sums", "sum_columns", (uint32_t)cuda_div_up(out->cols, RT_CUDA_COLUMNS_WIDE),
                 RT_CUDA_COLUMNS_BLOCK, 0, &p, sizeof p);
}

#endif
