/* cuda_optim.c - launches of adamw and clip. */
#include "backend/cuda/kernels/cuda_optim.h"

#include "backend/cuda/cuda_op.h"

static bool adamw_need(const rt_cuda_caps *c, const rt_plan *p, const rt_op *op, rt_need *need)
{
    (void)c;
    return cuda_takes(p, op, need, "neighbours together, one pass, f32 moments");
}

/* Can ops[i] be done in one run with those before it? */
static bool adamw_joins(const rt_bound_op *ops, uint32_t i)
{
    const rt_operand *s = ops[i].slot, *first = ops->slot;
    const rt_adamw_args *a = &ops[i].args.adamw, *b = &ops->args.adamw;
    bool joins = a->beta1 == b->beta1 && a->beta2 == b->beta2 && a->eps == b->eps &&
                 s[RT_ADAM_PARAM].dtype == first[RT_ADAM_PARAM].dtype &&
                 s[RT_ADAM_GRAD].dtype == first[RT_ADAM_GRAD].dtype;
    for (uint32_t k = RT_ADAM_STEP; k <= RT_ADAM_FAULT; k++)
        joins = joins && rt_cuda_addr(&s[k]) == rt_cuda_addr(&first[k]);
    for (uint32_t k = 0; k < i; k++) joins = joins && cuda_apart(&ops[k], &ops[i], 0);
    return joins;
}

static rt_cuda_adam_tensor adamw_tensor(const rt_bound_op *o)
{
    const rt_operand *s = o->slot;
    uint32_t shaped =
        1u << RT_ADAM_PARAM | 1u << RT_ADAM_MASTER | 1u << RT_ADAM_M | 1u << RT_ADAM_V | 1u << RT_ADAM_GRAD;
    rt_cuda_adam_tensor t = { .tile = cuda_tile(o, shaped, RT_CUDA_ADAM_WIDTH),
                              .param = cuda_mat(&s[RT_ADAM_PARAM]),
                              .master = cuda_mat(&s[RT_ADAM_MASTER]),
                              .m = cuda_mat(&s[RT_ADAM_M]),
                              .v = cuda_mat(&s[RT_ADAM_V]),
                              .grad = cuda_mat(&s[RT_ADAM_GRAD]),
                              .decay = o->args.adamw.weight_decay };
    t.blocks = cuda_tile_blocks(&t.tile, RT_CUDA_ADAM_PACKS * RT_CUDA_ADAM_TURNS, RT_CUDA_GRID_MAX);
    return t;
}

static void adamw_emit(rt_cuda_builder *b, const rt_bound_op *ops)
{
    const rt_operand *s = ops->slot;
    uint32_t n = rt_cuda_neighbours(b), blocks = 0;
    rt_cuda_adam_params p = { .step = rt_cuda_addr(&s[RT_ADAM_STEP]),
                              .gscale = rt_cuda_addr(&s[RT_ADAM_GSCALE]),
                              .fault = rt_cuda_addr(&s[RT_ADAM_FAULT]),
                              .beta1 = ops->args.adamw.beta1,
                              .beta2 = ops->args.adamw.beta2,
                              .eps = ops->args.adamw.eps };
    for (; p.count < n && p.count < RT_CUDA_ADAM_RUN; p.count++) {
        rt_cuda_adam_tensor *t = &p.tensor[p.count];
        if (p.count && !adamw_joins(ops, p.count)) break;
        *t = adamw_tensor(&ops[p.count]);
        if (t->blocks > RT_CUDA_GRID_MAX - blocks) break;
        t->first = blocks;
        blocks += t->blocks;
    }
    cuda_push_1d(b, "cuda_optim", CUDA_KERNEL2("adamw", s[RT_ADAM_PARAM].dtype, s[RT_ADAM_GRAD].dtype), blocks,
                 RT_CUDA_BLOCK, 0, &p, sizeof p);
    rt_cuda_took(b, p.count);
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
