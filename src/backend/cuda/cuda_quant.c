/* cuda_quant.c - the launch of quant. */
#include "backend/cuda/kernels/cuda_quant.h"

#include "backend/cuda/cuda_op.h"

static bool quant_need(const rt_cuda_caps *c, const rt_plan *p, const rt_op *op, rt_need *need)
{
    (void)c;
    return cuda_takes(p, op, need, "a warp for each block of values");
}

static void quant_emit(rt_cuda_builder *b, const rt_bound_op *o)
{
    const rt_operand *y = &o->slot[RT_ROWS_Y], *x = &o->slot[RT_ROWS_X];
    const rt_dtype_info *info = &rt_dtype_table[y->dtype];
    rt_cuda_quant_params p = { .y = rt_cuda_addr(y),
                               .x = cuda_mat(x),
                               .y_step = rt_dtype_bytes(y->dtype, y->stride),
                               .per_row = y->cols / info->block_elems,
                               .x_dtype = x->dtype,
                               .dtype = y->dtype,
                               .elems = info->block_elems,
                               .bytes = info->block_bytes };
    p.blocks = p.per_row * y->rows;
    cuda_push_1d(b, "cuda_quant", "quant", (uint32_t)cuda_div_up(p.blocks, RT_CUDA_QUANT_WARPS),
                 32 * RT_CUDA_QUANT_WARPS, 0, &p, sizeof p);
}

const rt_cuda_op rt_cuda_quant = { quant_need, quant_emit };
