/* vk_attn.c - dispatches of attention: forward, backward, over a cache. */
#include "backend/vulkan/vk_op.h"

enum { D_MOST = 512, DELTAS = 0, QUERIES = 1, KEYS = 2 }; /* of vk_attn.glsl; steps of vk_attn_bwd.comp */

/* Of a pass over so many partners: dot products, then columns of the result, for each block of 64. */
static uint64_t rounds_of(uint64_t partners, uint64_t D)
{
    return (vk_div_up(partners, 64) + 1) * (2 * D + 66 * vk_div_up(D, 64) + 40);
}
static uint64_t fwd_rounds(const rt_op *op) { return rounds_of(op->args.attn.T, op->args.attn.D); }
static uint64_t bwd_rounds(const rt_op *op)
{
    const rt_attn_args *a = &op->args.attn;
    return a->H / a->K * rounds_of(a->T, a->D);
}
static uint64_t decode_rounds(const rt_op *op) { return rounds_of(op->args.decode.S, op->args.decode.D); }

static bool is_narrow(uint32_t D, rt_need *need)
{
    if (D <= D_MOST) return true;
    snprintf(need->why_not, sizeof need->why_not, "a head has %u columns, over the %u of the shader", D, D_MOST);
    return false;
}

static bool fwd_need(const rt_plan *p, const rt_op *op, rt_need *need)
{
    (void)p;
    return vk_takes(need, "a workgroup for each query of a head, keys streamed") && is_narrow(op->args.attn.D, need);
}

static void fwd_emit(rt_vk_builder *b, const rt_bound_op *o)
{
    const rt_attn_args *a = &o->args.attn;
    rt_vk_dispatch d = { .shader = "vk_attn_fwd",
                         .spec = { o->slot[RT_ATTN_O].dtype },
                         .items = (uint64_t)a->B * a->T * a->H };
    rt_vk_push(b, o, &d);
}

static bool bwd_need(const rt_plan *p, const rt_op *op, rt_need *need)
{
    const rt_attn_args *a = &op->args.attn;
    (void)p;
    return vk_takes_with_work(need, "probabilities again: once for queries, once for keys",
                              (uint64_t)a->B * a->T * a->H * sizeof(float)) &&
           is_narrow(a->D, need);
}

static void bwd_emit(rt_vk_builder *b, const rt_bound_op *o)
{
    const rt_attn_args *a = &o->args.attn;
    uint64_t rows = (uint64_t)a->B * a->T;
    for (uint32_t step = DELTAS; step <= KEYS; step++) {
        rt_vk_dispatch d = { .shader = "vk_attn_bwd",
                             .spec = { o->slot[RT_ATTNB_DQ].dtype, step },
                             .items = rows * (step == KEYS ? a->K : a->H) };
        rt_vk_push(b, o, &d);
    }
}

static bool decode_need(const rt_plan *p, const rt_op *op, rt_need *need)
{
    (void)p;
    return vk_takes(need, "a workgroup for each query of a head, keys streamed") && is_narrow(op->args.decode.D, need);
}

static void decode_emit(rt_vk_builder *b, const rt_bound_op *o)
{
    const rt_decode_args *a = &o->args.decode;
    rt_vk_dispatch d = { .shader = "vk_attn_decode",
                         .spec = { o->slot[RT_DEC_O].dtype },
                         .items = (uint64_t)a->B * a->Q * a->H };
    rt_vk_push(b, o, &d);
}

const rt_vk_op rt_vk_attn_fwd = { fwd_need, fwd_emit, fwd_rounds };
const rt_vk_op rt_vk_attn_bwd = { bwd_need, bwd_emit, bwd_rounds };
const rt_vk_op rt_vk_attn_decode = { decode_need, decode_emit, decode_rounds };
