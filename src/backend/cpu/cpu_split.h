/* cpu_split.h - cutting an elementwise op into chunks, by shape alone, and walking a chunk row by row.
 *
 * Owns: the one way in which elementwise kernels are cut. When every operand lies without gaps the whole op is one long
 * row; otherwise rows are kept and wide ones are cut by columns. A kernel sees spans: n elements of one row. */
#ifndef RT_BACKEND_CPU_CPU_SPLIT_H
#define RT_BACKEND_CPU_CPU_SPLIT_H

#include "backend/cpu/cpu.h"
#include "backend/cpu/simd.h"

enum { RT_SPLIT_ELEMS = 16384 }; /* about one L1 of f32 per chunk: long enough to hide the hand-over */

typedef struct rt_cpu_span {
    uint64_t row, col, n;
} rt_cpu_span;
typedef void (*rt_span_fn)(const rt_bound_op *o, rt_cpu_span s, void *ctx);

typedef struct rt_split {
    const rt_bound_op *o;
    rt_span_fn fn;
    void *ctx;
    uint64_t rows, cols;
    uint64_t rows_per, cols_per; /* of a chunk */
    uint64_t col_cuts;           /* chunks side by side */
} rt_split;

/* Address of the first element of a span in a plain operand. */
RT_INLINE void *span_ptr(const rt_operand *p, rt_cpu_span s)
{
    return (uint8_t *)rt_host_ptr(p) + (s.row * p->stride + s.col) * rt_dtype_table[p->dtype].block_bytes;
}

static void split_chunk(void *ctx, uint32_t chunk, uint32_t worker)
{
    const rt_split *s = ctx;
    uint64_t r0 = chunk / s->col_cuts * s->rows_per, c0 = chunk % s->col_cuts * s->cols_per;
    uint64_t r1 = r0 + s->rows_per < s->rows ? r0 + s->rows_per : s->rows;
    uint64_t n = c0 + s->cols_per < s->cols ? s->cols_per : s->cols - c0;
    (void)worker;
    for (uint64_t r = r0; r < r1; r++) s->fn(s->o, (rt_cpu_span){ r, c0, n }, s->ctx);
}

RT_INLINE void split_cut(const rt_cpu_ctx *c, rt_split *s)
{
    s->cols_per = s->cols < RT_SPLIT_ELEMS ? s->cols : RT_SPLIT_ELEMS;
    s->rows_per = RT_SPLIT_ELEMS / s->cols_per;
    s->col_cuts = (s->cols + s->cols_per - 1) / s->cols_per;
    uint64_t chunks = (s->rows + s->rows_per - 1) / s->rows_per * s->col_cuts;
    rt_pool_run(c->pool, (uint32_t)chunks, split_chunk, s);
}

/* Runs fn over all elements of an op whose first `nslots` present operands have the shape of slot 0. */
__attribute__((unused)) static void split_run(const rt_cpu_ctx *c, const rt_bound_op *o, uint32_t nslots, rt_span_fn fn,
                                              void *ctx)
{
    rt_split s = { .o = o, .fn = fn, .ctx = ctx, .rows = o->slot[0].rows, .cols = o->slot[0].cols };
    bool dense = true;
    for (uint32_t i = 0; i < nslots; i++)
        if (o->slot[i].mem && o->slot[i].stride != o->slot[i].cols) dense = false;
    if (dense) {
        s.cols *= s.rows;
        s.rows = 1;
    }
    split_cut(c, &s);
}

/* The same where rows are never taken together; a wide one is cut at multiples of RT_SPLIT_ELEMS columns. */
__attribute__((unused)) static void split_rows(const rt_cpu_ctx *c, const rt_bound_op *o, rt_span_fn fn, void *ctx)
{
    rt_split s = { .o = o, .fn = fn, .ctx = ctx, .rows = o->slot[0].rows, .cols = o->slot[0].cols };
    split_cut(c, &s);
}

#endif
