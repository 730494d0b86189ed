/* cases_int8.c - the cases of matmul_int8.
 *
 * Both operands are what their blocks say, so the sum is compared with the exact one. Rows of a are taken up to 8 at a
 * time, rows of b in chunks of about 32768 weights and 16 to a strip of at most 48 spans of 256; blocks of 32 also end
 * in the middle of a span. That an element has one sum, whatever the rows beside it, is tests/unit/test_int8.c's. */
#include "verify/values.h"

#include <math.h>

enum { M, N, K }; /* dimensions */
enum { ACC };

static const rt_op_flag flags[] = { RT_FLAG("out", "", "acc") };
static const rt_op_shape shapes[] = { { RT_SHAPE_ODD, { 3, 13, 7 } },     { RT_SHAPE_ONE, { 1, 1, 1 } },
                                      { RT_SHAPE_BIG, { 27, 797, 161 } }, { RT_SHAPE_DEEP, { 5, 47, 2309 } },
                                      { RT_SHAPE_FEW, { 1, 61, 2309 } },  { RT_SHAPE_FEW, { 2, 51, 601 } },
                                      { RT_SHAPE_FEW, { 4, 37, 400 } },   { RT_SHAPE_FEW, { 6, 19, 97 } },
                                      { RT_SHAPE_FEW, { 7, 35, 289 } },   { RT_SHAPE_DEEP, { 8, 23, 13000 } } };

static void fix(rt_op_case *c)
{
    c->dim[K] = rt_case_block(c, RT_MM_B, rt_case_block(c, RT_MM_A, c->dim[K]));
    if (c->shape_kind == RT_SHAPE_BIG && rt_dtype_table[c->sig.dtype[RT_MM_B]].block_elems == 256) c->dim[K] = 512;
}

static void layout(const rt_op_case *c, rt_layout *l)
{
    const uint32_t *d = c->dim;
    l->slot[RT_MM_OUT] = RT_SLOT(d[M], d[N], c->flag[ACC] ? rt_fill_normal : NULL);
    l->slot[RT_MM_A] = RT_SLOT(d[M], d[K], rt_fill_normal);
    l->slot[RT_MM_B] = RT_SLOT(d[N], d[K], rt_fill_normal);
    if (rt_case_has(c, RT_MM_BIAS)) l->slot[RT_MM_BIAS] = RT_SLOT(1, d[N], rt_fill_normal);
}

static void emit(rt_plan *p, const rt_op_case *c, const rt_view *v)
{
    (void)c;
    rt_emit_matmul_int8(p, v[RT_MM_OUT], v[RT_MM_A], v[RT_MM_B], v[RT_MM_BIAS]);
}

static double length(const double *x, uint32_t n)
{
    double sum = 0;
    for (uint32_t k = 0; k < n; k++) sum += x[k] * x[k];
    return sqrt(sum);
}

/* |a_m| |b_n| + |bias| + |out|, as for matmul. */
static void terms(rt_values *v, uint32_t slot, const double *want, double *scale)
{
    const rt_op_case *c = v->c;
    const uint32_t *d = c->dim;
    const double *a = rt_values_dense(v, RT_MM_A), *b = rt_values_dense(v, RT_MM_B);
    const double *bias = rt_values_dense(v, RT_MM_BIAS), *before = c->flag[ACC] ? rt_values_dense(v, slot) : NULL;
    double *column = rt_values_scratch(v, d[N] * sizeof *column);
    (void)want;
    if (!a || !b || !column) return;
    for (uint32_t n = 0; n < d[N]; n++) column[n] = length(b + (uint64_t)n * d[K], d[K]);
    for (uint32_t m = 0; m < d[M]; m++) {
        const double row = length(a + (uint64_t)m * d[K], d[K]);
        for (uint32_t n = 0; n < d[N]; n++) {
            const uint64_t i = (uint64_t)m * d[N] + n;
            scale[i] = row * column[n] + (bias ? fabs(bias[n]) : 0) + (before ? fabs(before[i]) : 0);
        }
    }
}

static double summed(const rt_op_case *c) { return c->dim[K]; }

const rt_op_set rt_op_set_matmul_int8 = {
    .kind = RT_OP_MATMUL_INT8,
    .ndims = 3,
    RT_TABLE(shapes, shapes),
    RT_TABLE(flags, flags),
    .fix = fix,
    .layout = layout,
    .emit = emit,
    .terms = terms,
    .serial_terms = summed,
};
