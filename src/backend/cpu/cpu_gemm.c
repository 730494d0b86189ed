/* cpu_gemm.c - matmul: out (M,N) = or += alpha op(a) (M,K) op(b) (K,N) + bias, by serial sgemm on fixed tiles; and
 * matmul_scaled, whose sums are multiplied by the scales of their row of a and of b where alpha is 1.
 *
 * Owns: the tiles of out, the panels of operands that are not f32, the epilogue. Leaves to others: the cut itself
 * (cpu_gemm_cut.h), few rows times stored rows (cpu_gemm_dots.c), OpenBLAS's own buffers (cpu_blas_guard.c).
 *
 * A chunk is one tile of out and belongs to one thread. Where a and b are f32 it is one sgemm over all of K straight
 * from and to the operands. Otherwise a panel of K is converted into the thread's scratch, multiplied, and the next
 * panel adds to the same f32 sums; an output that is not f32 is rounded once, from those sums. */
#include "backend/cpu/cpu_dequant.h"
#include "backend/cpu/cpu_gemm_cut.h"

#include <cblas.h>

typedef struct gemm {
    const rt_bound_op *o;
    const rt_matmul_args *g;
    const rt_operand *out, *a, *b, *bias, *sa, *sb; /* sa, sb: null but for matmul_scaled */
    rt_gemm_cut cut;
} gemm;

_Static_assert((int)RT_MM_OUT == 0 && (int)RT_MMS_OUT == 0, "out is the first slot of both");

typedef struct tile {
    uint32_t m0, m, n0, n; /* rows and columns of out */
    float *a, *b;          /* panels of converted operands, as they are stored */
    float *sums;           /* (m,n) when staged */
    float *bias, *scale;   /* (n) each */
} tile;

/* Floats from one row of scratch to the next: whole vectors, and rows do not fall on the same cache sets. */
static uint64_t pitch(uint64_t cols) { return rt_align_up(cols, 16) + 16; }

/* Floats of scratch of each part for one thread; returns their sum. */
static uint64_t scratch_floats(const rt_matmul_args *g, const rt_gemm_cut *t, uint64_t part[4])
{
    uint64_t k = t->panel;
    part[0] = !t->convert_a ? 0 : g->ta ? k * pitch(t->tm) : t->tm * pitch(k);
    part[1] = !t->convert_b ? 0 : g->tb ? t->tn * pitch(k) : k * pitch(t->tn);
    part[2] = t->stage ? t->tm * pitch(t->tn) : 0;
    part[3] = 2 * pitch(t->tn);
    return part[0] + part[1] + part[2] + part[3];
}

uint64_t RT_CPU(work_matmul)(const rt_cpu_work *w)
{
    const rt_matmul_args *g = &w->args->matmul;
    rt_gemm_cut t = rt_gemm_cut_of(g, w->dtype[RT_MM_OUT], w->dtype[RT_MM_A], w->dtype[RT_MM_B]);
    uint64_t part[4];
    if (t.dots) return RT_CPU(work_matmul_dots)(g, &t);
    return scratch_floats(g, &t, part) * sizeof(float) * w->threads;
}

uint64_t RT_CPU(work_matmul_scaled)(const rt_cpu_work *w)
{
    const rt_matmul_args *g = &w->args->matmul;
    rt_gemm_cut t = rt_gemm_cut_of(g, w->dtype[RT_MMS_OUT], w->dtype[RT_MMS_A], w->dtype[RT_MMS_B]);
    uint64_t part[4];
    return scratch_floats(g, &t, part) * sizeof(float) * w->threads;
}

static tile tile_of(const gemm *x, uint32_t chunk, uint32_t worker)
{
    const rt_gemm_cut *t = &x->cut;
    /* Neighbours share the rows of a or the columns of b, whichever is more, while they are in a cache. */
    uint32_t im = t->by_rows ? chunk / t->nn : chunk % t->nm, in = t->by_rows ? chunk % t->nn : chunk / t->nm;
    uint64_t part[4], floats = scratch_floats(x->g, t, part);
    tile y = { .m0 = rt_gemm_border(x->g->M, RT_GEMM_UNIT, t->nm, im),
               .n0 = rt_gemm_border(x->g->N, t->unit_n, t->nn, in) };
    y.m = rt_gemm_border(x->g->M, RT_GEMM_UNIT, t->nm, im + 1) - y.m0;
    y.n = rt_gemm_border(x->g->N, t->unit_n, t->nn, in + 1) - y.n0;
    y.a = (float *)rt_host_ptr(&x->o->work) + floats * worker;
    y.b = y.a + part[0];
    y.sums = y.b + part[1];
    y.bias = y.sums + part[2];
    y.scale = y.bias + part[3] / 2;
    return y;
}

/* Rows and columns of a stored operand as f32: in place when it is f32, else converted into scratch. */
static const float *panel_of(float *scratch, const rt_operand *x, uint64_t row0, uint32_t rows, uint64_t col0,
                             uint32_t cols, int *ld)
{
    const uint8_t *p = (const uint8_t *)rt_host_ptr(x) + row0 * row_bytes(x->dtype, x->stride);
    if (x->dtype == RT_DTYPE_F32) {
        *ld = (int)x->stride;
        return (const float *)p + col0;
    }
    uint64_t wide = pitch(cols), step = row_bytes(x->dtype, x->stride);
    for (uint32_t i = 0; i < rows; i++) widen_run(scratch + i * wide, p + i * step, x->dtype, col0, cols);
    *ld = (int)wide;
    return scratch;
}

/* scale: of every element; each, where it is not null: of column i besides. */
RT_INLINE void finish_row(void *out, const float *sums, const float *bias, float scale, const float *each, bool add,
                          uint32_t n, rt_dtype d)
{
    const vf s = vset(scale);
    uint32_t i = 0;
    for (; i + VL <= n; i += VL) {
        vf v = vload(sums + i) * s;
        if (each) v *= vload(each + i);
        if (bias) v += vload(bias + i);
        if (add) v += vload_t(out, i, d);
        vstore_t(out, i, v, d);
    }
    if (i < n) {
        vf v = vload_n(sums + i, n - i) * s;
        if (each) v *= vload_n(each + i, n - i);
        if (bias) v += vload_n(bias + i, n - i);
        if (add) v += vload_tn(out, i, n - i, d);
        vstore_tn(out, i, v, n - i, d);
    }
}

static const float *scale_of(const rt_operand *s, uint64_t row)
{
    return (const float *)rt_host_ptr(s) + row * s->stride;
}

/* Scales, bias, and for staged tiles what was there before and the one rounding. */
static void finish(const gemm *x, const tile *y)
{
    const rt_operand *out = x->out, *bias = x->bias;
    uint64_t step = row_bytes(out->dtype, out->stride), wide = pitch(y->n);
    uint8_t *row = (uint8_t *)rt_host_ptr(out) + y->m0 * step + rt_dtype_bytes(out->dtype, y->n0);
    const float *b = NULL;
    if (!x->cut.stage && !bias->mem) return;
    if (bias->mem) {
        widen_run(y->bias, rt_host_ptr(bias), bias->dtype, y->n0, y->n);
        b = y->bias;
    }
    bool add = x->cut.stage && (x->o->acc & 1u << RT_MM_OUT);
    for (uint32_t n = 0; x->sb && n < y->n; n++) y->scale[n] = *scale_of(x->sb, y->n0 + n);
    for (uint32_t i = 0; i < y->m; i++, row += step) {
        const float *sums = x->cut.stage ? y->sums + i * wide : (const float *)row;
        float scale = x->sa ? *scale_of(x->sa, y->m0 + i) : x->g->alpha == 0 ? 0.0f : 1.0f;
        RT_FOR_FLOAT(out->dtype, D, finish_row(row, sums, b, scale, x->sb ? y->scale : NULL, add, y->n, D));
    }
}

static void run_tile(void *ctx, uint32_t chunk, uint32_t worker)
{
    const gemm *x = ctx;
    const rt_matmul_args *g = x->g;
    const rt_operand *a = x->a, *b = x->b, *out = x->out;
    tile y = tile_of(x, chunk, worker);
    bool stage = x->cut.stage, add = !stage && (x->o->acc & 1u << RT_MM_OUT);
    float *c = stage ? y.sums : (float *)rt_host_ptr(out) + y.m0 * out->stride + y.n0;
    uint64_t ldc = stage ? pitch(y.n) : out->stride;
    /* With alpha 0 sgemm would not look at a and b and hide a NaN in them: the epilogue multiplies by 0 instead. */
    float alpha = g->alpha == 0 ? 1.0f : g->alpha;
    for (uint64_t k0 = 0; k0 < g->K; k0 += x->cut.panel) {
        uint32_t k = g->K - k0 < x->cut.panel ? (uint32_t)(g->K - k0) : x->cut.panel;
        int lda, ldb;
        const float *pa = g->ta ? panel_of(y.a, a, k0, k, y.m0, y.m, &lda) : panel_of(y.a, a, y.m0, y.m, k0, k, &lda);
        const float *pb = g->tb ? panel_of(y.b, b, y.n0, y.n, k0, k, &ldb) : panel_of(y.b, b, k0, k, y.n0, y.n, &ldb);
        cblas_sgemm(CblasRowMajor, g->ta ? CblasTrans : CblasNoTrans, g->tb ? CblasTrans : CblasNoTrans, (int)y.m,
                    (int)y.n, (int)k, alpha, pa, lda, pb, ldb, add || k0 > 0 ? 1.0f : 0.0f, c, (int)ldc);
    }
    finish(x, &y);
}

void RT_CPU(matmul)(const rt_cpu_ctx *c, const rt_bound_op *o)
{
    const rt_operand *s = o->slot;
    gemm x = { .o = o, .g = &o->args.matmul, .out = s, .a = s + RT_MM_A, .b = s + RT_MM_B, .bias = s + RT_MM_BIAS };
    x.cut = rt_gemm_cut_of(x.g, x.out->dtype, x.a->dtype, x.b->dtype);
    if (x.cut.dots)
        RT_CPU(matmul_dots)(c, o, &x.cut);
    else
        rt_pool_run(c->pool, x.cut.nm * x.cut.nn, run_tile, &x);
}

void RT_CPU(matmul_scaled)(const rt_cpu_ctx *c, const rt_bound_op *o)
{
    const rt_operand *s = o->slot;
    gemm x = { .o = o, .g = &o->args.matmul, .out = s, .a = s + RT_MMS_A, .b = s + RT_MMS_B, .bias = s + RT_MMS_BIAS };
    x.sa = s + RT_MMS_SA;
    x.sb = s + RT_MMS_SB;
    x.cut = rt_gemm_cut_of(x.g, x.out->dtype, x.a->dtype, x.b->dtype);
    rt_pool_run(c->pool, x.cut.nm * x.cut.nn, run_tile, &x);
}
