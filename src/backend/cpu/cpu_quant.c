/* cpu_quant.c - dequant and quant: rows of blocks to values and back; quant_rows: rows to e4m3 codes and scales.
 *
 * Owns: how the rows are handed out. The layouts are in cpu_dequant.h; the search for good scales is num/quant.h's, so
 * that the blocks are the same on every backend. A row is cut into strips of whole blocks; a chunk is a run of strips.
 */
#include "backend/cpu/cpu.h"
#include "backend/cpu/cpu_codes.h"
#include "num/quant.h"

enum {
    STRIP = 1024,
    DEQUANT_STRIPS = 32,
    QUANT_STRIPS = 2
}; /* a chunk of quant is small because its blocks are slow */

typedef struct strips {
    const rt_bound_op *o;
    uint64_t per_row, count; /* strips */
    uint32_t per_chunk;
} strips;

static void dequant_strip(const rt_operand *y, const rt_operand *x, uint64_t row, uint64_t c0, uint32_t n)
{
    const uint8_t *from = (const uint8_t *)rt_host_ptr(x) + row * row_bytes(x->dtype, x->stride);
    uint8_t *to = (uint8_t *)rt_host_ptr(y) + row * row_bytes(y->dtype, y->stride) + rt_dtype_bytes(y->dtype, c0);
    float strip[STRIP];
    if (y->dtype == RT_DTYPE_F32) {
        dequant_run((float *)to, from, x->dtype, c0, n);
        return;
    }
    dequant_run(strip, from, x->dtype, c0, n); /* n is a multiple of 32, and so of VL */
    RT_FOR_FLOAT(y->dtype, D, for (uint32_t i = 0; i < n; i += VL) vstore_t(to, i, vload(strip + i), D));
}

static void quant_strip(const rt_operand *y, const rt_operand *x, uint64_t row, uint64_t c0, uint32_t n)
{
    const uint8_t *from = (const uint8_t *)rt_host_ptr(x) + row * row_bytes(x->dtype, x->stride);
    uint8_t *to = (uint8_t *)rt_host_ptr(y) + row * row_bytes(y->dtype, y->stride) + rt_dtype_bytes(y->dtype, c0);
    float strip[STRIP];
    widen_run(strip, from, x->dtype, c0, n);
    rt_quant_from_f32(to, strip, y->dtype, n);
}

static void run_chunk(void *ctx, uint32_t chunk, uint32_t worker)
{
    const strips *s = ctx;
    const rt_operand *y = &s->o->slot[RT_ROWS_Y], *x = &s->o->slot[RT_ROWS_X];
    uint64_t i = (uint64_t)chunk * s->per_chunk, end = i + s->per_chunk < s->count ? i + s->per_chunk : s->count;
    (void)worker;
    for (; i < end; i++) {
        uint64_t row = i / s->per_row, c0 = i % s->per_row * STRIP;
        uint32_t n = s->o->args.rows.C - c0 < STRIP ? (uint32_t)(s->o->args.rows.C - c0) : STRIP;
        if (s->o->kind == RT_OP_QUANT)
            quant_strip(y, x, row, c0, n);
        else
            dequant_strip(y, x, row, c0, n);
    }
}

static void run_strips(const rt_cpu_ctx *c, const rt_bound_op *o, uint32_t per_chunk)
{
    const rt_rows_args *a = &o->args.rows;
    strips s = { .o = o, .per_row = ((uint64_t)a->C + STRIP - 1) / STRIP, .per_chunk = per_chunk };
    s.count = s.per_row * a->N;
    uint64_t chunks = (s.count + per_chunk - 1) / per_chunk;
    while (chunks > 1u << 20) { /* the pool counts chunks in 32 bits */
        s.per_chunk *= 2;
        chunks = (s.count + s.per_chunk - 1) / s.per_chunk;
    }
    rt_pool_run(c->pool, (uint32_t)chunks, run_chunk, &s);
}

RT_CPU_NO_WORK(dequant)
RT_CPU_NO_WORK(quant)

void RT_CPU(dequant)(const rt_cpu_ctx *c, const rt_bound_op *o) { run_strips(c, o, DEQUANT_STRIPS); }

void RT_CPU(quant)(const rt_cpu_ctx *c, const rt_bound_op *o) { run_strips(c, o, QUANT_STRIPS); }

/* ---- quant_rows: a chunk is some rows ---- */

enum { ROWS_ELEMS = 16384 }; /* of a chunk, about */

static void quant_some_rows(void *ctx, uint32_t chunk, uint32_t worker)
{
    const rt_bound_op *o = ctx;
    const rt_operand *x = &o->slot[RT_QROWS_X];
    uint64_t per = ROWS_ELEMS / o->args.rows.C + 1, row = chunk * per, rows = o->args.rows.N;
    (void)worker;
    for (uint64_t end = row + per < rows ? row + per : rows; row < end; row++)
        code_own_row(o, row, (const uint8_t *)rt_host_ptr(x) + row * row_bytes(x->dtype, x->stride), x->dtype);
}

RT_CPU_NO_WORK(quant_rows)

void RT_CPU(quant_rows)(const rt_cpu_ctx *c, const rt_bound_op *o)
{
    uint64_t per = ROWS_ELEMS / o->args.rows.C + 1;
    rt_pool_run(c->pool, (uint32_t)((o->args.rows.N + per - 1) / per), quant_some_rows, (void *)(uintptr_t)o);
}
