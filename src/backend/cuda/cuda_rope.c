/* cuda_rope.c - launches of rope, both ways. */
#include "backend/cuda/kernels/cuda_rope.h"

#include "backend/cuda/cuda_op.h"

enum { TABLE_MAX = 32768 }; /* bytes of cosines and sines that a block keeps */

static bool rope_need(const rt_cuda_caps *c, const rt_plan *p, const rt_op *op, rt_need *need)
{
    uint32_t D = op->args.rope.D, most = TABLE_MAX / (uint32_t)sizeof(float);
    (void)c;
    if (!cuda_takes(p, op, need, "angles in double, once for all heads of a row")) return false;
    if (D <= most) return true;
    snprintf(need->why_not, sizeof need->why_not, "a head has %u columns, over the %u of the kernel", D, most);
    return false;
}

static void rope_emit(rt_cuda_builder *b, const rt_bound_op *o)
{
    const rt_operand *y = &o->slot[RT_ROPE_Y], *x = &o->slot[RT_ROPE_X];
    const rt_rope_args *a = &o->args.rope;
    uint32_t W = cuda_width(y->dtype), row_bytes = a->D * (uint32_t)sizeof(float);
    uint64_t pairs = cuda_div_up(a->D / 2, W) * a->H, chunks = cuda_div_up(pairs, RT_CUDA_BLOCK);
    uint64_t lanes = cuda_div_up(pairs, chunks), side = RT_CUDA_BLOCK / lanes, rows = side * RT_CUDA_ROPE_ROWS;
    if (rows > TABLE_MAX / row_bytes) rows = TABLE_MAX / row_bytes;
    if (rows > a->N) rows = a->N;
    if (side > rows) side = rows;
    rt_cuda_rope_params p = { .a = *a,
                              .rows = (uint32_t)rows,
                              .side = (uint32_t)side,
                              .lanes = (uint32_t)lanes,
                              .chunks = (uint32_t)chunks,
                              .whole = a->D / 2 % W == 0 && cuda_aligned(y, W) && cuda_aligned(x, W),
                              .back = o->kind == RT_OP_ROPE_BWD,
                              .y = cuda_mat(y),
                              .x = cuda_mat(x),
                              .pos = cuda_mat(&o->slot[RT_ROPE_POS]),
                              .freq = rt_cuda_addr(&o->slot[RT_ROPE_FREQ]) };
    cuda_push_1d(b, "cuda_rope", CUDA_KERNEL("rope", y->dtype), (uint32_t)(cuda_div_up(a->N, rows) * chunks),
                 (uint32_t)(side * lanes), p.rows * row_bytes, &p, sizeof p);
}

const rt_cuda_op rt_cuda_rope_fwd = { rope_need, rope_emit };
const rt_cuda_op rt_cuda_rope_bwd = { rope_need, rope_emit };
