/* cuda_optim.c - launches of adamw and clip. */
#include "backend/cuda/kernels/cuda_optim.h"

#include "backend/cuda/cuda_op.h"

static bool adamw_need(const rt_cuda_caps *c, const rt_plan *p, const rt_op *op, rt_need *need)
{
    (void)c;
    return cuda_takes(p, op, need, "one pass, f32 moments");
}

static void adamw_emit(rt_cuda_builder *b, const rt_bound_op *o)
{
    enum { BLOCKS_OF_SM = 8 }; /* a block computes the bias corrections once, so it has more than one turn */
    const rt_operand *s = o->slot;
    const rt_adamw_args *a = &o->args.adamw;
    uint32_t shaped =
        1u << RT_ADAM_PARAM | 1u << RT_ADAM_MASTER | 1u << RT_ADAM_M | 1u << RT_ADAM_V | 1u << RT_ADAM_GRAD;
    rt_cuda_adam_params p = { .tile = cuda_tile(o, shaped, RT_CUDA_ADAM_WIDTH),
                              .param = cuda_mat(&s[RT_ADAM_PARAM]),
                              .master = cuda_mat(&s[RT_ADAM_MASTER]),
                              .m = cuda_mat(&s[RT_ADAM_M]),
                              .v = cuda_mat(&s[RT_ADAM_V]),
                              .grad = cuda_mat(&s[RT_ADAM_GRAD]),
                              .step = rt_cuda_addr(&s[RT_ADAM_STEP]),
                              .gscale = rt_cuda_addr(&s[RT_ADAM_GSCALE]),
                              .fault = rt_cuda_addr(&s[RT_ADAM_FAULT]),
                              .beta1 = a->beta1,
                              .beta2 = a->beta2,
                              .eps = a->eps,
                              .decay = a->weight_decay };
    uint32_t most = rt_cuda_builder_caps(b)->sms * BLOCKS_OF_SM;
    cuda_push_1d(b, "cuda_optim", CUDA_KERNEL2("adamw", s[RT_ADAM_PARAM].dtype, s[RT_ADAM_GRAD].dtype),
                 cuda_tile_blocks(&p.tile, RT_CUDA_ADAM_PACKS, most), RT_CUDA_BLOCK, 0, &p, sizeof p);
}

static bool clip_need(const rt_cuda_caps *c, const rt_plan *p, const rt_op *op, rt_need *need)
{
    (void)c;
    return cuda_takes(p, op, need, "one thread, double");
}

static void clip_emit(rt_cuda_builder *b, const rt_bound_op *o)
{
    rt_cuda_clip_params p = { .scale = rt_cuda_addr(&o->slot[RT_CLIP_SCALE]),
                              .norm = rt_cuda_addr(&o->slot[RT_CLIP_NORM]),
                              .nsq = rt_cuda_addr(&o->slot[RT_CLIP_NSQ]),
                              .fault = rt_cuda_addr(&o->slot[RT_CLIP_FAULT]),
                              .step = rt_cuda_addr(&o->slot[RT_CLIP_STEP]),
                              .max_norm = o->args.clip.max_norm,
                              .site = o->args.clip.site };
    cuda_push_1d(b, "cuda_optim", "clip", 1, 32, 0, &p, sizeof p);
}

const rt_cuda_op rt_cuda_adamw = { adamw_need, adamw_emit };
const rt_cuda_op rt_cuda_clip = { clip_need, clip_emit };
