/* cuda_dequant.c - launches of dequant: one kernel for each quantised type. */
#include "backend/cuda/kernels/cuda_dequant.h"

#include "backend/cuda/cuda_op.h"

static const char *kernel_of(rt_dtype d)
{
    switch (d) {
    case RT_DTYPE_Q8_0: return "dequant_q8_0";
    case RT_DTYPE_Q4_0: return "dequant_q4_0";
    case RT_DTYPE_Q4_K: return "dequant_q4_k";
    case RT_DTYPE_Q5_K: return "dequant_q5_k";
    case RT_DTYPE_Q6_K: return "dequant_q6_k";
    case RT_DTYPE_Q4_1: return "dequant_q4_1";
    case RT_DTYPE_Q5_0: return "dequant_q5_0";
    case RT_DTYPE_Q5_1: return "dequant_q5_1";
    case RT_DTYPE_Q2_K: return "dequant_q2_k";
    case RT_DTYPE_Q3_K: return "dequant_q3_k";
    case RT_DTYPE_IQ4_NL: return "dequant_iq4_nl";
    case RT_DTYPE_IQ4_XS: return "dequant_iq4_xs";
    default: return NULL;
    }
}

static bool dequant_need(const rt_cuda_caps *c, const rt_plan *p, const rt_op *op, rt_need *need)
{
    (void)c;
    return cuda_takes(p, op, need, kernel_of(rt_plan_dtype(p, op->slot[RT_ROWS_X])));
}

static void dequant_emit(rt_cuda_builder *b, const rt_bound_op *o)
{
    const rt_operand *y = &o->slot[RT_ROWS_Y], *x = &o->slot[RT_ROWS_X];
    uint64_t rows = y->rows, cols = y->cols;
    rt_operand line = *y;
    if (rows == 1 || (y->stride == cols && x->stride == cols)) { /* without gaps: one long row */
        cols *= rows;
        rows = line.rows = 1;
    }
    rt_cuda_dequant_params p = { .y = cuda_mat(y),
                                 .x = rt_cuda_addr(x),
                                 .x_step = rt_dtype_bytes(x->dtype, x->stride),
                                 .cols = cols,
                                 .tiles = (uint32_t)cuda_div_up(cols, RT_CUDA_DEQUANT_TILE),
                                 .whole = cuda_aligned(&line, 8),
                                 .y_dtype = y->dtype };
    cuda_push_1d(b, "cuda_dequant", kernel_of(x->dtype), (uint32_t)(rows * p.tiles), RT_CUDA_BLOCK, 0, &p, sizeof p);
}

const rt_cuda_op rt_cuda_dequant = { dequant_need, dequant_emit };
