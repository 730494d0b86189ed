/* cuda_sums.c - launches of bias_grad and norm_sq. Both leave partial sums in scratch and add them up in order. */
#include "backend/cuda/kernels/cuda_sums.h"

#include "backend/cuda/cuda_sums_push.h"

/* ---- bias_grad ---- */

/* Enough blocks for any device, each with enough rows to be worth its partial sum. */
enum { BIAS_BLOCKS = 512, BIAS_ROWS = 32 };

typedef struct bias_cut {
    uint32_t stripes, rows, chunks;
} bias_cut;

static bias_cut cut_bias(const rt_rows_args *a, rt_dtype d)
{
    bias_cut c = { .stripes = (uint32_t)cuda_div_up(a->C, RT_CUDA_BIAS_LANES * cuda_width(d)) };
    uint64_t chunks = cuda_div_up(BIAS_BLOCKS, c.stripes);
    c.rows = (uint32_t)(cuda_div_up(cuda_div_up(a->N, chunks), BIAS_ROWS) * BIAS_ROWS);
    c.chunks = (uint32_t)cuda_div_up(a->N, c.rows);
    return c;
}

static bool bias_need(const rt_cuda_caps *c, const rt_plan *p, const rt_op *op, rt_need *need)
{
    (void)c;
    if (!cuda_takes(p, op, need, "stripes of columns, partial sums in order")) return false;
    bias_cut cut = cut_bias(&op->args.rows, rt_plan_dtype(p, op->slot[RT_BIASG_DY]));
    need->work_bytes = (uint64_t)cut.chunks * op->args.rows.C * sizeof(float);
    return true;
}

static void bias_emit(rt_cuda_builder *b, const rt_bound_op *o)
{
    const rt_operand *dy = &o->slot[RT_BIASG_DY];
    bias_cut cut = cut_bias(&o->args.rows, dy->dtype);
    rt_cuda_bias_params p = { .dy = cuda_mat(dy),
                              .part = rt_cuda_addr(&o->work),
                              .N = o->args.rows.N,
                              .C = o->args.rows.C,
                              .rows = cut.rows,
                              .stripes = cut.stripes,
                              .whole = cuda_aligned(dy, cuda_width(dy->dtype)) };
    cuda_push_1d(b, "cuda_sums", CUDA_KERNEL("bias_grad", dy->dtype), cut.stripes * cut.chunks, RT_CUDA_BLOCK, 0, &p,
                 sizeof p);
    cuda_push_columns(b, &o->slot[RT_BIASG_DB], p.part, cut.chunks, cuda_adds(o, RT_BIASG_DB));
}

/* ---- norm_sq ---- */

/* The tile's packs are those of the plan's view, whatever its alignment turns out to be. */
static uint32_t norm_blocks(const rt_rows_args *a, rt_dtype d)
{
    uint64_t packs = cuda_div_up((uint64_t)a->N * a->C, cuda_width(d));
    uint64_t n = cuda_div_up(packs, RT_CUDA_BLOCK * RT_CUDA_NORM_PACKS);
    return n < RT_CUDA_NORM_BLOCKS ? (uint32_t)n : RT_CUDA_NORM_BLOCKS;
}

static bool norm_need(const rt_cuda_caps *c, const rt_plan *p, const rt_op *op, rt_need *need)
{
    (void)c;
    if (!cuda_takes(p, op, need, "partial sums in double, added in order")) return false;
    uint32_t P = norm_blocks(&op->args.rows, rt_plan_dtype(p, op->slot[RT_NSQ_X]));
    need->work_bytes = P > 1 ? P * sizeof(rt_cuda_norm_part) : 0;
    return true;
}

static void norm_emit(rt_cuda_builder *b, const rt_bound_op *o)
{
    const rt_operand *x = &o->slot[RT_NSQ_X];
    rt_cuda_norm_params p = { .tile = cuda_tile(o, 1u << RT_NSQ_X, cuda_width(x->dtype)),
                              .x = cuda_mat(x),
                              .out = rt_cuda_addr(&o->slot[RT_NSQ_OUT]),
                              .part = rt_cuda_addr(&o->work),
                              .fault = rt_cuda_addr(&o->slot[RT_NSQ_FAULT]),
                              .step = rt_cuda_addr(&o->slot[RT_NSQ_STEP]),
                              .C = o->args.rows.C,
                              .P = norm_blocks(&o->args.rows, x->dtype),
                              .acc = cuda_adds(o, RT_NSQ_OUT),
                              .site = o->args.rows.site };
    cuda_push_1d(b, "cuda_sums", CUDA_KERNEL("norm_sq", x->dtype), p.P, RT_CUDA_BLOCK, 0, &p, sizeof p);
    if (p.P > 1) cuda_push_1d(b, "cuda_sums", "norm_sq_finish", 1, RT_CUDA_BLOCK, 0, &p, sizeof p);
}

const rt_cuda_op rt_cuda_bias_grad = { bias_need, bias_emit };
const rt_cuda_op rt_cuda_norm_sq = { norm_need, norm_emit };
