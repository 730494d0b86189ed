/* cuda_dequant.c - launches of dequant: neighbours together, whatever their types. */
#include "backend/cuda/cuda_dequant_push.h"

static bool dequant_need(const rt_cuda_caps *c, const rt_plan *p, const rt_op *op, rt_need *need)
{
    (void)c;
    return cuda_takes(p, op, need, "neighbours together, eight values a lane and turn");
}

/* Can ops[i] be dequantised at once with those before it? */
static bool dequant_joins(const rt_bound_op *ops, uint32_t i)
{
    bool joins = ops[i].slot[RT_ROWS_Y].dtype == ops->slot[RT_ROWS_Y].dtype;
    for (uint32_t k = 0; k < i; k++) joins = joins && cuda_apart(&ops[k], &ops[i], 0);
    return joins;
}

/* Returns the number of its blocks. */
static uint64_t cut(const rt_bound_op *o, rt_cuda_dequant_tensor *t)
{
    rt_operand y = o->slot[RT_ROWS_Y], x = o->slot[RT_ROWS_X];
    uint64_t cols = y.cols;
    if (y.stride == cols && x.stride == cols) { /* without gaps: one long row */
        cols *= y.rows;
        y.rows = 1;
    }
    *t = cuda_dequant_rows(&y, &x, cols, RT_CUDA_BLOCK);
    return (uint64_t)y.rows * t->tiles;
}

static void dequant_emit(rt_cuda_builder *b, const rt_bound_op *ops)
{
    uint32_t n = rt_cuda_neighbours(b);
    uint64_t blocks = 0;
    rt_cuda_dequant_params p = { 0 };
    for (; p.count < n && p.count < RT_CUDA_DEQUANT_TENSORS; p.count++) {
        rt_cuda_dequant_tensor *t = &p.tensor[p.count];
        uint64_t own = cut(&ops[p.count], t);
        if (p.count && (!dequant_joins(ops, p.count) || blocks + own > RT_CUDA_GRID_MAX)) break;
        t->first = (uint32_t)blocks;
        blocks += own;
    }
    cuda_push_dequant(b, ops->slot[RT_ROWS_Y].dtype, (uint32_t)blocks, RT_CUDA_BLOCK, &p);
    rt_cuda_took(b, p.count);
}

const rt_cuda_op rt_cuda_dequant = { dequant_need, dequant_emit };
