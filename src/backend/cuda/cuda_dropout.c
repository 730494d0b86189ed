/* cuda_dropout.c - launches of dropout. */
#include "backend/cuda/kernels/cuda_dropout.h"

#include "backend/cuda/cuda_op.h"

static bool dropout_need(const rt_cuda_caps *c, const rt_plan *p, const rt_op *op, rt_need *need)
{
    (void)c;
    return cuda_takes(p, op, need, "one pass, 16-byte packs");
}

static void dropout_emit(rt_cuda_builder *b, const rt_bound_op *o)
{
    const rt_operand *y = &o->slot[RT_DROP_Y], *x = &o->slot[RT_DROP_X];
    const rt_dropout_args *a = &o->args.dropout;
    const uint32_t W = cuda_width(y->dtype);
    rt_cuda_dropout_params p = { .tile = { .rows = a->N,
                                           .cols = a->C,
                                           .packs = cuda_div_up(a->C, W),
                                           .whole = cuda_aligned(y, W) && cuda_aligned(x, W) },
                                 .y = cuda_mat(y),
                                 .x = cuda_mat(x),
                                 .step = rt_cuda_addr(&o->slot[RT_DROP_STEP]),
                                 .stream = a->stream,
                                 .below = rt_dropout_below(a->p),
                                 .scale = (float)rt_dropout_scale(a->p),
                                 .acc = cuda_adds(o, RT_DROP_Y) };
    cuda_push_1d(b, "cuda_dropout", CUDA_KERNEL("dropout", y->dtype), cuda_tile_blocks(&p.tile, 1, RT_CUDA_GRID_MAX),
                 RT_CUDA_BLOCK, 0, &p, sizeof p);
}

const rt_cuda_op rt_cuda_dropout = { dropout_need, dropout_emit };
