/* cuda_sums.c - launches of bias_grad and norm_sq. Both leave partial sums in scratch and add them up in order. */
#include "backend/cuda/kernels/cuda_sums.h"

#include "backend/cuda/cuda_numbers.h"
#include "backend/cuda/cuda_op.h"

/* ---- bias_grad ---- */

enum { BIAS_ROWS = RT_CUDA_BIAS_ROWS * RT_CUDA_BIAS_BLOCK / RT_CUDA_BIAS_LANES };

typedef struct bias_cut {
    uint32_t stripes, rows, chunks;
} bias_cut;

/* Each block with enough rows to be worth its partial sum: of 8,192 rows of 1,152 columns a thread has 18, nine of them
 * under way at once. Of 264 blocks those are 261, about two for each of 132 multiprocessors. */
static bias_cut cut_bias(const rt_cuda_caps *caps, const rt_rows_args *a, rt_dtype d)
{
    bias_cut c = { .stripes = (uint32_t)cuda_div_up(a->C, RT_CUDA_BIAS_LANES * cuda_width(d)) };
    uint64_t chunks = cuda_div_up(rt_cuda_numbers_of(caps->sm)->bias_blocks, c.stripes);
    c.rows = (uint32_t)(cuda_div_up(cuda_div_up(a->N, chunks), BIAS_ROWS) * BIAS_ROWS);
    c.chunks = (uint32_t)cuda_div_up(a->N, c.rows);
    return c;
}

static bool bias_need(const rt_cuda_caps *c, const rt_plan *p, const rt_op *op, rt_need *need)
{
    if (!cuda_takes(p, op, need, "stripes of columns, partial sums in order")) return false;
    bias_cut cut = cut_bias(c, &op->args.rows, rt_plan_dtype(p, op->slot[RT_BIASG_DY]));
    need->work_bytes = (uint64_t)cut.chunks * op->args.rows.C * sizeof(float);
    need->work_stays = true;
    return true;
}

static void bias_emit(rt_cuda_builder *b, const rt_bound_op *o)
{
    const rt_operand *dy = &o->slot[RT_BIASG_DY];
    bias_cut cut = cut_bias(rt_cuda_builder_caps(b), &o->args.rows, dy->dtype);
    rt_cuda_bias_params p = { .dy = cuda_mat(dy),
                              .part = rt_cuda_addr(&o->work),
                              .N = o->args.rows.N,
                              .C = o->args.rows.C,
                              .rows = cut.rows,
                              .stripes = cut.stripes,
                              .whole = cuda_aligned(dy, cuda_width(dy->dtype)) };
    cuda_push_1d(b, "cuda_sums", CUDA_KERNEL("bias_grad", dy->dtype), cut.stripes * cut.chunks, RT_CUDA_BIAS_BLOCK, 0,
                 &p, sizeof p);
    rt_cuda_sum_later(b, &o->slot[RT_BIASG_DB], p.part, cut.chunks, cuda_adds(o, RT_BIASG_DB));
}

/* ---- norm_sq: a run of tensors at once, since most are small ---- */

/* The tile's packs are those of the plan's view, whatever its alignment turns out to be. */
static uint32_t norm_blocks(const rt_rows_args *a, rt_dtype d)
{
    uint64_t packs = cuda_div_up((uint64_t)a->N * a->C, cuda_width(d));
    uint64_t n = cuda_div_up(packs, RT_CUDA_BLOCK * RT_CUDA_NORM_PACKS * RT_CUDA_NORM_TURNS);
    return n < RT_CUDA_NORM_BLOCKS ? (uint32_t)n : RT_CUDA_NORM_BLOCKS;
}

/* Any op may be the first of a run, and the run's parts lie in its scratch. */
static bool norm_need(const rt_cuda_caps *c, const rt_plan *p, const rt_op *op, rt_need *need)
{
    (void)c;
    if (!cuda_takes(p, op, need, "neighbours together, partial sums in double, added in order")) return false;
    need->work_bytes = RT_CUDA_NORM_PARTS * sizeof(rt_cuda_norm_part);
    return true;
}

/* Can ops[i] be added up in one run with those before it? */
static bool norm_joins(const rt_bound_op *ops, uint32_t i)
{
    const rt_bound_op *o = &ops[i];
    bool joins = cuda_adds(o, RT_NSQ_OUT) && o->slot[RT_NSQ_X].dtype == ops->slot[RT_NSQ_X].dtype;
    for (uint32_t k = 0; k < o->nslots; k++)
        joins = joins && (k == RT_NSQ_X || rt_cuda_addr(&o->slot[k]) == rt_cuda_addr(&ops->slot[k]));
    for (uint32_t k = 0; k < i; k++) joins = joins && cuda_apart(&ops[k], o, 1u << RT_NSQ_OUT | 1u << RT_NSQ_FAULT);
    return joins;
}

static void norm_emit(rt_cuda_builder *b, const rt_bound_op *ops)
{
    uint32_t n = rt_cuda_neighbours(b);
    rt_dtype dtype = ops->slot[RT_NSQ_X].dtype;
    uint32_t blocks = 0;
    rt_cuda_norm_params p = { .out = rt_cuda_addr(&ops->slot[RT_NSQ_OUT]),
                              .part = rt_cuda_addr(&ops->work),
                              .fault = rt_cuda_addr(&ops->slot[RT_NSQ_FAULT]),
                              .step = rt_cuda_addr(&ops->slot[RT_NSQ_STEP]),
                              .acc = cuda_adds(ops, RT_NSQ_OUT) };
    for (; p.count < n && p.count < RT_CUDA_NORM_RUN; p.count++) {
        const rt_bound_op *o = &ops[p.count];
        uint32_t own = norm_blocks(&o->args.rows, dtype);
        if (p.count && (!norm_joins(ops, p.count) || blocks + own > RT_CUDA_NORM_PARTS)) break;
        p.tensor[p.count] = (rt_cuda_norm_tensor){ .tile = cuda_tile(o, 1u << RT_NSQ_X, cuda_width(dtype)),
                                                   .x = cuda_mat(&o->slot[RT_NSQ_X]),
                                                   .C = o->args.rows.C,
                                                   .site = o->args.rows.site,
                                                   .first = blocks,
                                                   .blocks = own };
        blocks += own;
    }
    cuda_push_1d(b, "cuda_sums", CUDA_KERNEL("norm_sq", dtype), blocks, RT_CUDA_BLOCK, 0, &p, sizeof p);
    cuda_push_1d(b, "cuda_sums", "norm_sq_finish", 1, RT_CUDA_NORM_FINISH, 0, &p, sizeof p);
    rt_cuda_took(b, p.count);
}

const rt_cuda_op rt_cuda_bias_grad = { bias_need, bias_emit };
const rt_cuda_op rt_cuda_norm_sq = { norm_need, norm_emit };
