/* cuda_matmul_scaled.c - the op matmul_scaled: GEMMs of e4m3 codes with a scale for each row of both operands. */
#include "backend/cuda/cuda_internal.h"
#include "backend/cuda/cuda_op.h"
#include "backend/cuda/kernels/cuda_scaled.h"

static bool need(const rt_cuda_caps *c, const rt_plan *p, const rt_op *op, rt_need *need)
{
    (void)c;
    return cuda_takes(p, op, need, "own tiles 64x64");
}

static void emit(rt_cuda_builder *b, const rt_bound_op *o)
{
    const rt_matmul_args *m = &o->args.matmul;
    const rt_operand *bias = &o->slot[RT_MMS_BIAS], *x = &o->slot[RT_MMS_A], *w = &o->slot[RT_MMS_B];
    rt_cuda_scaled_params p = { .out = cuda_mat(&o->slot[RT_MMS_OUT]),
                                .a = cuda_mat(x),
                                .b = cuda_mat(w),
                                .sa = cuda_mat(&o->slot[RT_MMS_SA]),
                                .sb = cuda_mat(&o->slot[RT_MMS_SB]),
                                .bias = rt_cuda_addr(bias),
                                .M = m->M,
                                .N = m->N,
                                .K = m->K,
                                .acc = cuda_adds(o, RT_MMS_OUT),
                                .out_type = o->slot[RT_MMS_OUT].dtype,
                                .bias_type = bias->dtype,
                                .packs = cuda_aligned(x, 4) && cuda_aligned(w, 4),
                                .tiles_n = (uint32_t)cuda_div_up(m->N, RT_SCALED_TILE) };
    uint64_t blocks = p.tiles_n * cuda_div_up(m->M, RT_SCALED_TILE);
    if (blocks > RT_CUDA_GRID_MAX) {
        rt_cuda_builder_fail(b, RT_UNSUPPORTED, "the GEMM has more tiles than a launch has blocks");
        return;
    }
    cuda_push_1d(b, "cuda_matmul_scaled", "matmul_scaled", (uint32_t)blocks, RT_CUDA_BLOCK, 0, &p, sizeof p);
}

const rt_cuda_op rt_cuda_matmul_scaled = { need, emit };
