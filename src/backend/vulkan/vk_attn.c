/* vk_attn.c - dispatches of attention: forward, backward, over a cache. */
#include "backend/vulkan/vk_op.h"

enum { D_MOST = 512, TILE = 64, WIDE = 32 }; /* of vk_attn.glsl and vk_attn_tile.glsl */
enum { DELTAS = 0, QUERIES = 1, KEYS = 2 };  /* steps of vk_attn_bwd.comp */

static uint64_t tiles_of(const rt_attn_args *a) { return vk_div_up(a->T, TILE); }
static uint32_t slices_but_one(const rt_attn_args *a) { return (uint32_t)vk_div_up(a->D, WIDE) - 1; }

/* Of a pass over a sequence in tiles of 32, with so many products of two tiles: of each slice of 16 columns six loads,
 * or of 32 columns four loads and 32 rows. */
static uint64_t tile_rounds(const rt_attn_args *a, uint32_t scores, uint32_t sums)
{
    uint64_t slice = scores * vk_div_up(a->D, 16) * 8 + sums * vk_div_up(a->D, WIDE) * 40;
    return (vk_div_up(a->T, WIDE) + 2) * (slice + 16);
}
static uint64_t fwd_rounds(const rt_op *op) { return tile_rounds(&op->args.attn, 1, 1); }
static uint64_t bwd_rounds(const rt_op *op)
{
    const rt_attn_args *a = &op->args.attn;
    return a->H / a->K * tile_rounds(a, 2, 2);
}
/* Of a query that passes over so many keys: dot products, then columns of the result, for each block of 64. */
static uint64_t decode_rounds(const rt_op *op)
{
    uint64_t D = op->args.decode.D;
    return (vk_div_up(op->args.decode.S, 64) + 1) * (2 * D + 66 * vk_div_up(D, 64) + 40);
}

static bool is_narrow(uint32_t D, rt_need *need)
{
    if (D <= D_MOST) return true;
    snprintf(need->why_not, sizeof need->why_not, "a head has %u columns, over the %u of the shader", D, D_MOST);
    return false;
}

static bool fwd_need(const rt_plan *p, const rt_op *op, rt_need *need)
{
    (void)p;
    return vk_takes(need, "tiles of 64 queries by 32 keys") && is_narrow(op->args.attn.D, need);
}

static void fwd_emit(rt_vk_builder *b, const rt_bound_op *o)
{
    const rt_attn_args *a = &o->args.attn;
    rt_vk_dispatch d = { .shader = "vk_attn_fwd",
                         .spec = { o->slot[RT_ATTN_O].dtype, slices_but_one(a) },
                         .items = a->B * a->H * tiles_of(a) };
    rt_vk_push(b, o, &d);
}

static bool bwd_need(const rt_plan *p, const rt_op *op, rt_need *need)
{
    const rt_attn_args *a = &op->args.attn;
    (void)p;
    return vk_takes_with_work(need, "tiles of 64 by 32, probabilities again for queries and for keys",
                              (uint64_t)a->B * a->T * a->H * sizeof(float)) &&
           is_narrow(a->D, need);
}

static void bwd_emit(rt_vk_builder *b, const rt_bound_op *o)
{
    const rt_attn_args *a = &o->args.attn;
    uint64_t items[] = { [DELTAS] = vk_div_up((uint64_t)a->B * a->T * a->H, 16),
                         [QUERIES] = a->B * a->H * tiles_of(a),
                         [KEYS] = a->B * a->K * tiles_of(a) };
    for (uint32_t step = DELTAS; step <= KEYS; step++) {
        rt_vk_dispatch d = { .shader = "vk_attn_bwd",
                             .spec = { o->slot[RT_ATTNB_DQ].dtype, step, slices_but_one(a) },
                             .items = items[step] };
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
