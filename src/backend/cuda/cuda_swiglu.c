/* cuda_swiglu.c - launches of swiglu, forward and backward. */
#include "backend/cuda/kernels/cuda_swiglu.h"

#include "backend/cuda/cuda_op.h"

static bool swiglu_need(const rt_cuda_caps *c, const rt_plan *p, const rt_op *op, rt_need *need)
{
    (void)c;
    return cuda_takes(p, op, need, "one pass, 16-byte packs");
}

static void swiglu_push(rt_cuda_builder *b, const rt_cuda_swiglu_params *p, const char *kernel)
{
    cuda_push_1d(b, "cuda_swiglu", kernel, cuda_tile_blocks(&p->tile, 1, RT_CUDA_GRID_MAX), RT_CUDA_BLOCK, 0, p,
                 sizeof *p);
}

static void fwd_emit(rt_cuda_builder *b, const rt_bound_op *o)
{
    rt_dtype d = o->slot[RT_GLU_Y].dtype;
    rt_cuda_swiglu_params p = { .tile = cuda_tile(o, 7, cuda_width(d)),
                                .y = cuda_mat(&o->slot[RT_GLU_Y]),
                                .g = cuda_mat(&o->slot[RT_GLU_G]),
                                .u = cuda_mat(&o->slot[RT_GLU_U]) };
    swiglu_push(b, &p, CUDA_KERNEL("swiglu_fwd", d));
}

static void bwd_emit(rt_cuda_builder *b, const rt_bound_op *o)
{
    rt_dtype d = o->slot[RT_GLUB_DG].dtype;
    rt_cuda_swiglu_params p = { .tile = cuda_tile(o, 63, cuda_width(d)),
                                .dg = cuda_mat(&o->slot[RT_GLUB_DG]),
                                .du = cuda_mat(&o->slot[RT_GLUB_DU]),
                                .y = cuda_mat(&o->slot[RT_GLUB_Y]),
                                .dy = cuda_mat(&o->slot[RT_GLUB_DY]),
                                .g = cuda_mat(&o->slot[RT_GLUB_G]),
                                .u = cuda_mat(&o->slot[RT_GLUB_U]) };
    swiglu_push(b, &p, CUDA_KERNEL("swiglu_bwd", d));
}

const rt_cuda_op rt_cuda_swiglu_fwd = { swiglu_need, fwd_emit };
const rt_cuda_op rt_cuda_swiglu_bwd = { swiglu_need, bwd_emit };
