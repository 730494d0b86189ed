/* cuda_rows.c - launches of the plain row ops: add, scale, cast, fill, copy, dropout. */
#include "backend/cuda/kernels/cuda_rows.h"
#include "backend/cuda/kernels/cuda_dropout.h"

#include "backend/cuda/cuda_internal.h"
#include "backend/cuda/cuda_op.h"

#include <stdio.h>

static bool rows_need(const rt_cuda_caps *c, const rt_plan *p, const rt_op *op, rt_need *need)
{
    (void)c;
    return cuda_takes(p, op, need, "one pass, 16-byte packs");
}

/* slots: bit i set when slot i has the shape of the op. U packs of W elements are a thread's. */
static void rows_push(rt_cuda_builder *b, const rt_bound_op *o, const char *kernel, uint32_t slots, uint32_t W,
                      uint32_t U)
{
    rt_cuda_rows_params p = { .tile = cuda_tile(o, slots, W), .alpha = o->args.rows.alpha };
    p.y = cuda_mat(&o->slot[RT_ROWS_Y]);
    if (o->nslots > RT_ROWS_X) p.x = cuda_mat(&o->slot[RT_ROWS_X]);
    if (o->kind == RT_OP_ADD) p.b = cuda_mat(&o->slot[RT_ROWS_B]);
    if (o->kind == RT_OP_SCALE) p.s = rt_cuda_addr(&o->slot[RT_ROWS_B]);
    cuda_push_1d(b, "cuda_rows", kernel, cuda_tile_blocks(&p.tile, U, RT_CUDA_GRID_MAX), RT_CUDA_BLOCK, 0, &p,
                 sizeof p);
}

static void add_emit(rt_cuda_builder *b, const rt_bound_op *o)
{
    rt_dtype d = o->slot[RT_ROWS_Y].dtype;
    rows_push(b, o, CUDA_KERNEL("add", d), 7, cuda_width(d), RT_CUDA_ROWS_PACKS);
}

static void scale_emit(rt_cuda_builder *b, const rt_bound_op *o)
{
    rt_dtype d = o->slot[RT_ROWS_Y].dtype;
    rows_push(b, o, CUDA_KERNEL("scale", d), 3, cuda_width(d), RT_CUDA_ROWS_PACKS);
}

static void cast_emit(rt_cuda_builder *b, const rt_bound_op *o)
{
    rt_dtype y = o->slot[RT_ROWS_Y].dtype, x = o->slot[RT_ROWS_X].dtype;
    rows_push(b, o, CUDA_KERNEL2("cast", y, x), 3, cuda_width(y), RT_CUDA_CAST_PACKS(cuda_size(y)));
}

static void fill_emit(rt_cuda_builder *b, const rt_bound_op *o)
{
    rt_dtype d = o->slot[RT_ROWS_Y].dtype;
    rows_push(b, o, CUDA_KERNEL("fill", d), 1, cuda_width(d), RT_CUDA_ROWS_PACKS);
}

/* ---- copy ---- */

/* The widest unit, 16, 4, 2 or 1 bytes, of which all of these are multiples. */
static uint32_t unit_of(uint64_t bits) { return bits % 16 == 0 ? 16 : bits % 4 == 0 ? 4 : bits % 2 == 0 ? 2 : 1; }

static const char *by_unit(uint32_t unit, const char *const name[4])
{
    return name[unit == 16 ? 3 : unit == 4 ? 2 : unit == 2 ? 1 : 0];
}

static void copy_push(rt_cuda_builder *b, uint64_t y, uint64_t x, uint64_t y_step, uint64_t x_step, uint64_t rows,
                      uint64_t bytes)
{
    static const char *const kernel[] = { "copy_1", "copy_2", "copy_4", "copy_16" };
    uint32_t unit = unit_of(y | x | bytes | (rows > 1 ? y_step | x_step : 0));
    rt_cuda_copy_params p = { .tile = { .rows = rows, .cols = bytes / unit, .packs = bytes / unit, .whole = 1 },
                              .y = { y, y_step / unit },
                              .x = { x, x_step / unit } };
    cuda_push_1d(b, "cuda_rows", by_unit(unit, kernel), cuda_tile_blocks(&p.tile, RT_CUDA_ROWS_PACKS, RT_CUDA_GRID_MAX),
                 RT_CUDA_BLOCK, 0, &p, sizeof p);
}

static void scatter_push(rt_cuda_builder *b, const rt_bound_op *o, uint64_t y_step, uint64_t x_step, uint64_t bytes)
{
    static const char *const kernel[] = { "scatter_1", "scatter_2", "scatter_4", "scatter_16" };
    uint64_t y = rt_cuda_addr(&o->slot[RT_ROWS_Y]), x = rt_cuda_addr(&o->slot[RT_ROWS_X]);
    uint32_t unit = unit_of(y | x | bytes | y_step | x_step);
    rt_cuda_scatter_params p = { .y = { y, y_step / unit },
                                 .x = { x, x_step / unit },
                                 .rows = cuda_mat(&o->slot[RT_ROWS_B]),
                                 .units = bytes / unit,
                                 .N = o->args.rows.N,
                                 .R = o->args.rows.R };
    cuda_push_1d(b, "cuda_rows", by_unit(unit, kernel), p.N, RT_CUDA_BLOCK, 0, &p, sizeof p);
}

/* On the copy queue the engine that copies does it, beside the kernels: one piece of memory to another. */
static bool copy_need(const rt_cuda_caps *c, const rt_plan *p, const rt_op *op, rt_need *need)
{
    const rt_view *y = &op->slot[RT_ROWS_Y], *x = &op->slot[RT_ROWS_X];
    (void)c;
    if (op->queue != RT_QUEUE_COPY) return cuda_takes(p, op, need, "one pass, 16-byte packs");
    *need = (rt_need){ .kernel = rt_plan_buffer(p, *x)->cls == RT_CLASS_DISK ? "copy engine, read from a file"
                                                                             : "copy engine" };
    bool whole = (x->rows == 1 || x->stride == x->cols) && (y->rows == 1 || y->stride == y->cols);
    if (whole && !op->slot[RT_ROWS_B].buf) return true;
    snprintf(need->why_not, sizeof need->why_not, "the copy queue moves whole pieces, without gaps or row numbers");
    return false;
}

static void copy_emit(rt_cuda_builder *b, const rt_bound_op *o)
{
    const rt_operand *y = &o->slot[RT_ROWS_Y], *x = &o->slot[RT_ROWS_X];
    uint64_t ya = rt_cuda_addr(y), xa = rt_cuda_addr(x), rows = x->rows;
    uint64_t bytes = rt_dtype_bytes(x->dtype, x->cols), y_step = rt_dtype_bytes(y->dtype, y->stride);
    uint64_t x_step = rt_dtype_bytes(x->dtype, x->stride), tail;
    if (o->queue == RT_QUEUE_COPY) {
        rt_cuda_push_fetch(b, y, x);
        return;
    }
    if (o->slot[RT_ROWS_B].mem) {
        scatter_push(b, o, y_step, x_step, bytes);
        return;
    }
    if (rows > 1 && y_step == bytes && x_step == bytes) { /* without gaps: one long row */
        bytes *= rows;
        rows = 1;
    }
    tail = rows == 1 && (ya | xa) % 16 == 0 && bytes > 16 ? bytes % 16 : 0; /* what 16-byte units leave over */
    copy_push(b, ya, xa, y_step, x_step, rows, bytes - tail);
    if (tail) copy_push(b, ya + bytes - tail, xa + bytes - tail, 0, 0, 1, tail);
}

const rt_cuda_op rt_cuda_add = { rows_need, add_emit };
const rt_cuda_op rt_cuda_scale = { rows_need, scale_emit };
const rt_cuda_op rt_cuda_cast = { rows_need, cast_emit };
const rt_cuda_op rt_cuda_fill = { rows_need, fill_emit };
const rt_cuda_op rt_cuda_copy = { copy_need, copy_emit };

/* ---- dropout ---- */

static bool dropout_need(const rt_cuda_caps *c, const rt_plan *p, const rt_op *op, rt_need *need)
{
    (void)c;
    return cuda_takes(p, op, need, "one pass, 16-byte packs");
}

static void dropout_emit(rt_cuda_builder *b, const rt_bound_op *o)
{
    const rt_operand *y = &o->slot[RT_DROP_Y], *x = &o->slot[RT_DROP_X];
    const rt_dropout_args *a = &o->args.dropout;
    const uint32_t W = cuda_width(y->dtype);
    rt_cuda_dropout_params p = { .tile = { .rows = a->N,
                                           .cols = a->C,
                                           .packs = cuda_div_up(a->C, W),
                                           .whole = cuda_aligned(y, W) && cuda_aligned(x, W) },
                                 .y = cuda_mat(y),
                                 .x = cuda_mat(x),
                                 .step = rt_cuda_addr(&o->slot[RT_DROP_STEP]),
                                 .stream = a->stream,
                                 .below = rt_dropout_below(a->p),
                                 .scale = (float)rt_dropout_scale(a->p),
                                 .acc = cuda_adds(o, RT_DROP_Y) };
    cuda_push_1d(b, "cuda_dropout", CUDA_KERNEL("dropout", y->dtype), cuda_tile_blocks(&p.tile, 1, RT_CUDA_GRID_MAX),
                 RT_CUDA_BLOCK, 0, &p, sizeof p);
}

const rt_cuda_op rt_cuda_dropout = { dropout_need, dropout_emit };
