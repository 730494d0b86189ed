/* cuda_optim.c - launches of adamw and clip. */
#include "backend/cuda/kernels/cuda_optim.h"

#include "backend/cuda/cuda_op.h"
#include "num/moment.h"

_Static_assert(sizeof(rt_cuda_adam_params) <= 4096 && sizeof(rt_cuda_narrow_params) <= 4096, "parameters of a kernel");

static bool adamw_need(const rt_cuda_caps *c, const rt_plan *p, const rt_op *op, rt_need *need)
{
    rt_dtype d = rt_plan_dtype(p, op->slot[RT_ADAM_M]);
    (void)c;
    return cuda_takes(p, op, need,
                      d == RT_DTYPE_BF16 ? "neighbours together, one pass, bf16 moments rounded by chance"
                      : d == RT_DTYPE_U8 ? "neighbours together, one pass, 8-bit moments, a warp for each block"
                                         : "neighbours together, one pass, f32 moments");
}

/* Can ops[i] be done in one run with those before it? */
static bool adamw_joins(const rt_bound_op *ops, uint32_t i)
{
    const rt_operand *s = ops[i].slot, *first = ops->slot;
    const rt_adamw_args *a = &ops[i].args.adamw, *b = &ops->args.adamw;
    bool joins = a->beta1 == b->beta1 && a->beta2 == b->beta2 && a->eps == b->eps &&
                 s[RT_ADAM_PARAM].dtype == first[RT_ADAM_PARAM].dtype && s[RT_ADAM_M].dtype == first[RT_ADAM_M].dtype &&
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

static rt_cuda_narrow_tensor narrow_tensor(const rt_bound_op *o)
{
    const rt_operand *s = o->slot;
    const rt_adamw_args *a = &o->args.adamw;
    const bool codes = s[RT_ADAM_M].dtype == RT_DTYPE_U8;
    const uint32_t W = RT_CUDA_ADAM_WIDTH;
    rt_cuda_narrow_tensor t = { .tile = { .rows = a->N, .cols = a->C, .packs = cuda_div_up(a->C, W), .whole = 1 },
                                .param = cuda_mat(&s[RT_ADAM_PARAM]),
                                .master = cuda_mat(&s[RT_ADAM_MASTER]),
                                .m = cuda_mat(&s[RT_ADAM_M]),
                                .v = cuda_mat(&s[RT_ADAM_V]),
                                .grad = cuda_mat(&s[RT_ADAM_GRAD]),
                                .exps = cuda_mat(&s[RT_ADAM_EXPS]),
                                .decay = a->weight_decay,
                                .stream = a->stream,
                                .row = a->row };
    if (codes) t.tile.packs = cuda_div_up(a->C, RT_MOMENT_BLOCK) * (RT_MOMENT_BLOCK / W);
    for (uint32_t i = RT_ADAM_PARAM; i <= RT_ADAM_GRAD; i++)
        if (i != RT_ADAM_EXPS && !cuda_aligned(&s[i], W)) t.tile.whole = 0;
    t.blocks = cuda_tile_blocks(&t.tile, RT_CUDA_ADAM_PACKS * RT_CUDA_ADAM_TURNS, RT_CUDA_GRID_MAX);
    return t;
}

static void narrow_emit(rt_cuda_builder *b, const rt_bound_op *ops)
{
    const rt_operand *s = ops->slot;
    uint32_t n = rt_cuda_neighbours(b), blocks = 0;
    rt_dtype to = s[RT_ADAM_PARAM].dtype, from = s[RT_ADAM_GRAD].dtype;
    rt_cuda_narrow_params p = { .step = rt_cuda_addr(&s[RT_ADAM_STEP]),
                                .gscale = rt_cuda_addr(&s[RT_ADAM_GSCALE]),
                                .fault = rt_cuda_addr(&s[RT_ADAM_FAULT]),
                                .beta1 = ops->args.adamw.beta1,
                                .beta2 = ops->args.adamw.beta2,
                                .eps = ops->args.adamw.eps };
    for (; p.count < n && p.count < RT_CUDA_NARROW_RUN; p.count++) {
        rt_cuda_narrow_tensor *t = &p.tensor[p.count];
        if (p.count && !adamw_joins(ops, p.count)) break;
        *t = narrow_tensor(&ops[p.count]);
        if (t->blocks > RT_CUDA_GRID_MAX - blocks) break;
        t->first = blocks;
        blocks += t->blocks;
    }
    cuda_push_1d(b, "cuda_optim",
                 s[RT_ADAM_M].dtype == RT_DTYPE_U8 ? CUDA_KERNEL2("adamw_u8", to, from)
                                                   : CUDA_KERNEL2("adamw_bf16", to, from),
                 blocks, RT_CUDA_BLOCK, 0, &p, sizeof p);
    rt_cuda_took(b, p.count);
}

static void adamw_emit(rt_cuda_builder *b, const rt_bound_op *ops)
{
    const rt_operand *s = ops->slot;
    if (s[RT_ADAM_M].dtype != RT_DTYPE_F32) {
        narrow_emit(b, ops);
        return;
    }
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
