/* cuda_embed.c - launches of embed, forward and backward. */
#include "backend/cuda/kernels/cuda_embed.h"

#include "backend/cuda/cuda_dequant_push.h"

/* ---- forward ---- */

static bool fwd_need(const rt_cuda_caps *c, const rt_plan *p, const rt_op *op, rt_need *need)
{
    (void)c;
    bool quant = rt_dtype_is_quant(rt_plan_dtype(p, op->slot[RT_EMBED_TABLE]));
    return cuda_takes(p, op, need, quant ? "rows decoded as they are read" : "rows in packs");
}

/* Blocks are as wide as a row, or an equal part of it, has work for. */
static void push_decoded(rt_cuda_builder *b, const rt_bound_op *o)
{
    const rt_operand *y = &o->slot[RT_EMBED_Y];
    uint64_t warps = cuda_div_up(y->cols, 32 * RT_CUDA_DEQUANT_THREAD), tiles = cuda_div_up(32 * warps, RT_CUDA_BLOCK);
    uint32_t threads = 32 * (uint32_t)cuda_div_up(warps, tiles);
    rt_cuda_dequant_params p = { .count = 1 };
    rt_cuda_dequant_tensor *t = p.tensor;
    *t = cuda_dequant_rows(y, &o->slot[RT_EMBED_TABLE], y->cols, threads);
    t->ids = cuda_mat(&o->slot[RT_EMBED_IDS]);
    t->V = o->args.embed.V;
    cuda_push_dequant(b, y->dtype, y->rows * t->tiles, threads, &p);
}

static void fwd_emit(rt_cuda_builder *b, const rt_bound_op *o)
{
    const rt_operand *y = &o->slot[RT_EMBED_Y], *table = &o->slot[RT_EMBED_TABLE];
    enum { W = RT_CUDA_EMBED_PACK };
    if (rt_dtype_is_quant(table->dtype)) {
        push_decoded(b, o);
        return;
    }
    rt_cuda_embed_params p = { .y = cuda_mat(y),
                               .table = cuda_mat(table),
                               .ids = cuda_mat(&o->slot[RT_EMBED_IDS]),
                               .N = y->rows,
                               .C = y->cols,
                               .V = o->args.embed.V,
                               .whole = y->cols % W == 0 && cuda_aligned(y, W) && cuda_aligned(table, W) };
    cuda_push_1d(b, "cuda_embed", CUDA_KERNEL2("embed", y->dtype, table->dtype),
                 (uint32_t)cuda_div_up(y->rows, RT_CUDA_BLOCK / 32), RT_CUDA_BLOCK, 0, &p, sizeof p);
}

/* ---- backward ---- */

static bool bwd_need(const rt_cuda_caps *c, const rt_plan *p, const rt_op *op, rt_need *need)
{
    (void)c;
    if (!cuda_takes(p, op, need, "a block for each id, positions in order")) return false;
    need->work_bytes = cuda_div_up(op->args.embed.V, 2) * 2 * sizeof(rt_cuda_embed_seen);
    return true;
}

static void bwd_emit(rt_cuda_builder *b, const rt_bound_op *o)
{
    const rt_operand *dtable = &o->slot[RT_EMBED_DTABLE], *dy = &o->slot[RT_EMBED_DY];
    const rt_embed_args *a = &o->args.embed;
    uint32_t W = RT_CUDA_EMBED_COLS;
    rt_cuda_embed_bwd_params p = { .a = *a,
                                   .chunks = (uint32_t)cuda_div_up(a->C, RT_CUDA_EMBED_LANES * RT_CUDA_EMBED_PAIR * W),
                                   .whole = a->C % W == 0 && cuda_aligned(dtable, W) && cuda_aligned(dy, W),
                                   .wide = dtable->dtype == RT_DTYPE_F32,
                                   .dtable = cuda_mat(dtable),
                                   .dy = cuda_mat(dy),
                                   .ids = cuda_mat(&o->slot[RT_EMBED_BIDS]),
                                   .seen = rt_cuda_addr(&o->work) };
    cuda_push_1d(b, "cuda_embed", "embed_bwd_clear", (uint32_t)cuda_div_up(a->V, 2 * RT_CUDA_BLOCK), RT_CUDA_BLOCK, 0,
                 &p, sizeof p);
    cuda_push_1d(b, "cuda_embed", "embed_bwd_count", (uint32_t)cuda_div_up(a->N, RT_CUDA_BLOCK), RT_CUDA_BLOCK, 0, &p,
                 sizeof p);
    cuda_push_1d(b, "cuda_embed", CUDA_KERNEL("embed_bwd", dy->dtype), a->N * p.chunks, RT_CUDA_EMBED_LANES, 0, &p,
                 sizeof p);
}

const rt_cuda_op rt_cuda_embed_fwd = { fwd_need, fwd_emit };
const rt_cuda_op rt_cuda_embed_bwd = { bwd_need, bwd_emit };
