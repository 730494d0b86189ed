/* cuda_quant.c - launches of quant, of dequant (neighbours together, whatever their types), and of quant_rows. */
#include "backend/cuda/kernels/cuda_quant.h"
#include "backend/cuda/cuda_dequant_push.h"
#include "backend/cuda/cuda_op.h"
#include "backend/cuda/kernels/cuda_scaled.h"

/* ---- quant ---- */

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

/* ---- dequant ---- */

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

/* ---- quant_rows ---- */

static bool rows_need(const rt_cuda_caps *c, const rt_plan *p, const rt_op *op, rt_need *need)
{
    (void)c;
    return cuda_takes(p, op, need, "warps for each row, kept in registers");
}

static void rows_emit(rt_cuda_builder *b, const rt_bound_op *o)
{
    const rt_operand *y = &o->slot[RT_QROWS_Y], *x = &o->slot[RT_QROWS_X];
    bool packed = rt_dtype_is_quant(x->dtype);
    uint32_t W = packed ? RT_CUDA_RUN : cuda_width(x->dtype);
    rt_cuda_quant_rows_params p = { .y = cuda_mat(y),
                                    .scale = cuda_mat(&o->slot[RT_QROWS_SCALE]),
                                    .x = cuda_mat(x),
                                    .N = o->args.rows.N,
                                    .C = o->args.rows.C,
                                    .x_dtype = x->dtype,
                                    .x_step = rt_dtype_bytes(x->dtype, x->stride),
                                    .whole = cuda_aligned(y, W) };
    rt_cuda_team t = cuda_team(cuda_div_up(p.C, W), RT_CUDA_QROWS_HOLDS, RT_CUDA_QROWS_MOST);
    p.held = !packed && t.holds && p.C % W == 0 && p.whole && cuda_aligned(x, W);
    p.team = t.threads;
    cuda_push_1d(b, "cuda_quant_rows", packed ? "quant_rows_packed" : CUDA_KERNEL("quant_rows", x->dtype),
                 (uint32_t)cuda_div_up(p.N, t.teams), t.threads * t.teams, 0, &p, sizeof p);
}

const rt_cuda_op rt_cuda_quant_rows = { rows_need, rows_emit };
