/* cuda_choice.c - launches of topk, sample, draw and mix_logits: a block has a row of logits. Keys that pass what a
 * block sorts in shared memory are in scratch. */
#include "backend/cuda/kernels/cuda_choice.h"

#include "backend/cuda/cuda_op.h"
#include "num/draw.h"

#include <float.h>

/* Keys of a row in scratch: a power of two, 0 when shared memory is enough. */
static uint64_t room_of(uint32_t n)
{
    uint64_t room = 2;
    if (n <= RT_CUDA_CHOICE_SHARED) return 0;
    while (room < n) room *= 2;
    return room;
}

/* ---- topk ---- */

static bool topk_need(const rt_cuda_caps *c, const rt_plan *p, const rt_op *op, rt_need *need)
{
    (void)c;
    if (!cuda_takes(p, op, need, "digits of the order, then a sort")) return false;
    need->work_bytes = op->args.topk.N * room_of(op->args.topk.k) * sizeof(uint64_t);
    return true;
}

static void topk_emit(rt_cuda_builder *b, const rt_bound_op *o)
{
    const rt_operand *x = &o->slot[RT_TOPK_X];
    rt_cuda_topk_params p = { .a = o->args.topk,
                              .id = cuda_mat(&o->slot[RT_TOPK_ID]),
                              .logp = cuda_mat(&o->slot[RT_TOPK_LOGP]),
                              .rest = cuda_mat(&o->slot[RT_TOPK_REST]),
                              .x = cuda_mat(x),
                              .vmask = rt_cuda_addr(&o->slot[RT_TOPK_VMASK]),
                              .room = room_of(o->args.topk.k) };
    p.keys = p.room ? rt_cuda_addr(&o->work) : 0;
    cuda_push_1d(b, "cuda_topk", CUDA_KERNEL("topk", x->dtype), p.a.N, RT_CUDA_TOPK_THREADS, 0, &p, sizeof p);
}

/* ---- sample ---- */

static bool sample_need(const rt_cuda_caps *c, const rt_plan *p, const rt_op *op, rt_need *need)
{
    (void)c;
    if (!cuda_takes(p, op, need, "digits of the order, a sort as deep as the draw")) return false;
    need->work_bytes = op->args.sample.N * room_of(op->args.sample.V) * sizeof(uint64_t);
    return true;
}

static void sample_emit(rt_cuda_builder *b, const rt_bound_op *o)
{
    const rt_operand *x = &o->slot[RT_SAMPLE_X];
    rt_cuda_sample_params p = { .a = o->args.sample,
                                .id = cuda_mat(&o->slot[RT_SAMPLE_ID]),
                                .logp = cuda_mat(&o->slot[RT_SAMPLE_LOGP]),
                                .seen = cuda_mat(&o->slot[RT_SAMPLE_SEEN]),
                                .x = cuda_mat(x),
                                .key = cuda_mat(&o->slot[RT_SAMPLE_KEY]),
                                .how = cuda_mat(&o->slot[RT_SAMPLE_HOW]),
                                .room = room_of(o->args.sample.V) };
    p.keys = p.room ? rt_cuda_addr(&o->work) : 0;
    cuda_push_1d(b, "cuda_sample", CUDA_KERNEL("sample", x->dtype), p.a.N, RT_CUDA_CHOICE_THREADS, 0, &p, sizeof p);
}

/* ---- draw ---- */

static bool draw_need(const rt_cuda_caps *c, const rt_plan *p, const rt_op *op, rt_need *need)
{
    (void)c;
    return cuda_takes(p, op, need, "integer weights, a warp for each draw");
}

static void draw_emit(rt_cuda_builder *b, const rt_bound_op *o)
{
    const rt_operand *x = &o->slot[RT_DRAW_X];
    const double scale = rt_draw_scale(o->args.draw.T), end = (RT_DRAW_END + 0x1p31) / scale;
    rt_cuda_draw_params p = { .a = o->args.draw,
                              .scale = scale,
                              .end = end < (double)FLT_MAX ? (float)end : INFINITY,
                              .steep = (float)(scale * 0x1p-32),
                              .reach = scale < 0x1p90 ? (float)(0x1p49 / scale) : 0,
                              .id = cuda_mat(&o->slot[RT_DRAW_ID]),
                              .logp = cuda_mat(&o->slot[RT_DRAW_LOGP]),
                              .entropy = cuda_mat(&o->slot[RT_DRAW_ENTROPY]),
                              .x = cuda_mat(x),
                              .key = cuda_mat(&o->slot[RT_DRAW_KEY]),
                              .vmask = rt_cuda_addr(&o->slot[RT_DRAW_VMASK]),
                              .step = rt_cuda_addr(&o->slot[RT_DRAW_STEP]) };
    cuda_push_1d(b, "cuda_draw", CUDA_KERNEL("draw", x->dtype), p.a.N, RT_CUDA_DRAW_THREADS, 0, &p, sizeof p);
}

/* ---- mix_logits ---- */

static bool mix_need(const rt_cuda_caps *c, const rt_plan *p, const rt_op *op, rt_need *need)
{
    (void)c;
    return cuda_takes(p, op, need, "a block for each row");
}

static void mix_emit(rt_cuda_builder *b, const rt_bound_op *o)
{
    const rt_operand *y = &o->slot[RT_MIX_Y];
    rt_cuda_mix_params p = { .a = o->args.mix,
                             .dtype = o->slot[RT_MIX_X].dtype,
                             .y = cuda_mat(y),
                             .y0 = cuda_mat(&o->slot[RT_MIX_Y0]),
                             .x = cuda_mat(&o->slot[RT_MIX_X]),
                             .weight = cuda_mat(&o->slot[RT_MIX_WEIGHT]),
                             .vmask = rt_cuda_addr(&o->slot[RT_MIX_VMASK]) };
    cuda_push_1d(b, "cuda_mix", CUDA_KERNEL("mix", y->dtype), p.a.N, RT_CUDA_CHOICE_THREADS, 0, &p, sizeof p);
}

const rt_cuda_op rt_cuda_mix_logits = { mix_need, mix_emit };
const rt_cuda_op rt_cuda_draw = { draw_need, draw_emit };
const rt_cuda_op rt_cuda_topk = { topk_need, topk_emit };
const rt_cuda_op rt_cuda_sample = { sample_need, sample_emit };
