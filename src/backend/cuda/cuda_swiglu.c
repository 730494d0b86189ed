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

static bool fwd_need(const rt_cuda_caps *c, const rt_plan *p, const rt_op *op, rt_need *need)
{
    if (!op->slot[RT_GLU_SCALE].buf) return swiglu_need(c, p, op, need);
    return cuda_takes(p, op, need, "warps for each row, kept in registers, e4m3 codes of it");
}

static void coded_emit(rt_cuda_builder *b, const rt_bound_op *o)
{
    const rt_operand *y = &o->slot[RT_GLU_Y], *g = &o->slot[RT_GLU_G], *u = &o->slot[RT_GLU_U];
    uint32_t W = cuda_width(g->dtype), F = o->args.swiglu.F;
    rt_cuda_team t = cuda_team(cuda_div_up(F, W), RT_CUDA_SWIGLU_HOLDS, RT_CUDA_SWIGLU_MOST);
    rt_cuda_coded_swiglu_params p = { .y = cuda_mat(y),
                                      .scale = cuda_mat(&o->slot[RT_GLU_SCALE]),
                                      .g = cuda_mat(g),
                                      .u = cuda_mat(u),
                                      .N = o->args.swiglu.N,
                                      .F = F,
                                      .team = t.threads,
                                      .held = t.holds && F % W == 0 && cuda_aligned(y, W) && cuda_aligned(g, W) &&
                                              cuda_aligned(u, W) };
    cuda_push_1d(b, "cuda_swiglu", CUDA_KERNEL("coded_swiglu_fwd", g->dtype), (uint32_t)cuda_div_up(p.N, t.teams),
                 t.threads * t.teams, 0, &p, sizeof p);
}

static void fwd_emit(rt_cuda_builder *b, const rt_bound_op *o)
{
    if (o->slot[RT_GLU_SCALE].mem) {
        coded_emit(b, o);
        return;
    }
    rt_dtype d = o->slot[RT_GLU_Y].dtype;
    rt_cuda_swiglu_params p = { .tile = cuda_tile(o, 1u << RT_GLU_Y | 1u << RT_GLU_G | 1u << RT_GLU_U, cuda_width(d)),
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

const rt_cuda_op rt_cuda_swiglu_fwd = { fwd_need, fwd_emit };
const rt_cuda_op rt_cuda_swiglu_bwd = { swiglu_need, bwd_emit };
