/* cases_rows.c - the cases of the ops that take rows as they are: bias_grad, add, scale, cast, copy, fill, dequant,
 * quant.
 *
 * Big: a chunk of the cpu's elementwise kernels is 16384 elements of the whole op, or of one row where operands have
 * gaps; bias_grad goes by 64 columns and sums 64 rows at a time; copy by about 16384 elements in whole rows; dequant by
 * 32 strips of 1024, quant by 2. */
#include "verify/values.h"

#include <math.h>

enum { N, C }; /* dimensions */

static const rt_op_shape elementwise[] = { { RT_SHAPE_ODD, { 7, 19 } },
                                           { RT_SHAPE_ONE, { 1, 1 } },
                                           { RT_SHAPE_BIG, { 4, 33001 } } };
static const rt_op_shape by_rows[] = { { RT_SHAPE_ODD, { 7, 19 } },
                                       { RT_SHAPE_ONE, { 1, 1 } },
                                       { RT_SHAPE_BIG, { 211, 307 } } };

/* One of the same shape made from the other. */
static void pair(const rt_op_case *c, rt_layout *l, rt_fill_fn fill)
{
    l->slot[RT_ROWS_Y] = RT_SLOT(c->dim[N], c->dim[C], NULL);
    l->slot[RT_ROWS_X] = RT_SLOT(c->dim[N], c->dim[C], fill);
}

/* ---- bias_grad ---- */

static const rt_op_flag acc_flag[] = { RT_FLAG("db", "", "acc") };

static void bias_layout(const rt_op_case *c, rt_layout *l)
{
    l->slot[RT_BIASG_DB] = RT_SLOT(1, c->dim[C], c->flag[0] ? rt_fill_normal : NULL);
    l->slot[RT_BIASG_DY] = RT_SLOT(c->dim[N], c->dim[C], rt_fill_normal, 0.2, 1);
}

static void bias_emit(rt_plan *p, const rt_op_case *c, const rt_view *v)
{
    (void)c;
    rt_emit_bias_grad(p, v[RT_BIASG_DB], v[RT_BIASG_DY]);
}

/* |db| + sum of |dy| */
static void bias_terms(rt_values *v, uint32_t slot, const double *want, double *scale)
{
    const double *before = v->c->flag[0] ? rt_values_dense(v, slot) : NULL, *dy = rt_values_dense(v, RT_BIASG_DY);
    (void)want;
    for (uint32_t k = 0; k < v->c->dim[C]; k++) scale[k] = before ? fabs(before[k]) : 0;
    for (uint64_t i = 0; i < (uint64_t)v->c->dim[N] * v->c->dim[C] && dy; i++) scale[i % v->c->dim[C]] += fabs(dy[i]);
}

static double rows_summed(const rt_op_case *c) { return c->dim[N]; }

const rt_op_set rt_op_set_bias_grad = { .kind = RT_OP_BIAS_GRAD,
                                        .ndims = 2,
                                        RT_TABLE(shapes, by_rows),
                                        RT_TABLE(flags, acc_flag),
                                        .layout = bias_layout,
                                        .emit = bias_emit,
                                        .terms = bias_terms,
                                        .serial_terms = rows_summed,
                                        .large = { .signature = "f32.bf16", .dim = { 61, 1536 }, .coarse = true } };

/* ---- add ---- */

enum { ON, SPECIAL };
static const rt_op_flag add_flags[] = { RT_FLAG("in place", "", "on-a", "on-b"), RT_FLAG("values", "", "special") };

static void add_layout(const rt_op_case *c, rt_layout *l)
{
    rt_fill_fn fill = c->flag[SPECIAL] ? rt_fill_special : rt_fill_normal;
    l->slot[RT_ROWS_Y] = RT_SLOT(c->dim[N], c->dim[C], NULL,
                                 .in_place = c->flag[ON] ? 1 + (c->flag[ON] == 1 ? RT_ROWS_X : RT_ROWS_B) : 0);
    l->slot[RT_ROWS_X] = RT_SLOT(c->dim[N], c->dim[C], fill);
    l->slot[RT_ROWS_B] = RT_SLOT(c->dim[N], c->dim[C], fill);
}

static void add_emit(rt_plan *p, const rt_op_case *c, const rt_view *v)
{
    (void)c;
    rt_emit_add(p, v[RT_ROWS_Y], v[RT_ROWS_X], v[RT_ROWS_B]);
}

const rt_op_set rt_op_set_add = { .kind = RT_OP_ADD,
                                  .ndims = 2,
                                  RT_TABLE(shapes, elementwise),
                                  RT_TABLE(flags, add_flags),
                                  .layout = add_layout,
                                  .emit = add_emit,
                                  .large = { .signature = "bf16", .dim = { 61, 1536 } } };

/* ---- scale ---- */

enum { FACTOR = 2, ALPHA };
static const rt_op_flag scale_flags[] = { RT_FLAG("in place", "", "in-place"), RT_FLAG("values", "", "special"),
                                          RT_FLAG("s", "", "s"), RT_RARE("alpha", "", "alpha0", "alpha1") };

static void scale_layout(const rt_op_case *c, rt_layout *l)
{
    l->slot[RT_ROWS_Y] = RT_SLOT(c->dim[N], c->dim[C], NULL, .in_place = c->flag[ON] ? 1 + RT_ROWS_X : 0);
    l->slot[RT_ROWS_X] = RT_SLOT(c->dim[N], c->dim[C], c->flag[SPECIAL] ? rt_fill_special : rt_fill_normal);
    if (c->flag[FACTOR]) l->slot[RT_ROWS_B] = RT_SLOT(1, 1, rt_fill_normal);
}

static void scale_emit(rt_plan *p, const rt_op_case *c, const rt_view *v)
{
    static const float alpha[] = { -0.7f, 0.0f, 1.0f };
    rt_emit_scale(p, v[RT_ROWS_Y], v[RT_ROWS_X], v[RT_ROWS_B], alpha[c->flag[ALPHA]]);
}

const rt_op_set rt_op_set_scale = { .kind = RT_OP_SCALE,
                                    .ndims = 2,
                                    RT_TABLE(shapes, elementwise),
                                    RT_TABLE(flags, scale_flags),
                                    .layout = scale_layout,
                                    .emit = scale_emit,
                                    .large = { .signature = "bf16", .dim = { 61, 1536 }, .flag = { [FACTOR] = 1 } } };

/* ---- cast, fill ---- */

static const rt_op_flag cast_flags[] = { RT_FLAG("values", "", "special") };

static void cast_layout(const rt_op_case *c, rt_layout *l)
{
    pair(c, l, c->flag[0] ? rt_fill_special : rt_fill_normal);
}

static void cast_emit(rt_plan *p, const rt_op_case *c, const rt_view *v)
{
    (void)c;
    rt_emit_cast(p, v[RT_ROWS_Y], v[RT_ROWS_X]);
}

const rt_op_set rt_op_set_cast = { .kind = RT_OP_CAST,
                                   .ndims = 2,
                                   RT_TABLE(shapes, elementwise),
                                   RT_TABLE(flags, cast_flags),
                                   .layout = cast_layout,
                                   .emit = cast_emit,
                                   .large = { .signature = "bf16.f32", .dim = { 61, 1536 } } };

static const rt_op_flag fill_flags[] = { RT_FLAG("value", "zero", "tenth", "large", "nan", "-inf") };

static void fill_layout(const rt_op_case *c, rt_layout *l) { l->slot[RT_ROWS_Y] = RT_SLOT(c->dim[N], c->dim[C], NULL); }

static void fill_emit(rt_plan *p, const rt_op_case *c, const rt_view *v)
{
    static const float value[] = { 0.0f, 0.1f, -70000.0f, NAN, -INFINITY };
    rt_emit_fill(p, v[RT_ROWS_Y], value[c->flag[0]]);
}

const rt_op_set rt_op_set_fill = { .kind = RT_OP_FILL,
                                   .ndims = 2,
                                   RT_TABLE(shapes, elementwise),
                                   RT_TABLE(flags, fill_flags),
                                   .layout = fill_layout,
                                   .emit = fill_emit,
                                   .large = { .signature = "bf16", .dim = { 61, 1536 }, .flag = { 1 } } };

/* ---- copy ---- */

enum { ROWS };
static const rt_op_flag copy_flags[] = { RT_FLAG("rows", "", "rows", "rows-stray", "rows-few") };

static void block_fix(rt_op_case *c)
{
    c->dim[C] = rt_case_block(c, RT_ROWS_X, rt_case_block(c, RT_ROWS_Y, c->dim[C]));
}

/* Integers of any width: every byte by chance. */
static void fill_integers(const rt_op_case *c, const rt_fill *f)
{
    uint64_t n = rt_dtype_bytes(c->sig.dtype[RT_ROWS_X], (uint64_t)f->rows * f->cols);
    for (uint64_t i = 0; i < n; i++) f->b[i] = (uint8_t)rt_fill_word(f, i);
}

/* Any dtype is copied, so any bits must arrive: floats take special numbers. */
static rt_fill_fn any_fill(rt_dtype d) { return rt_dtype_is_float(d) ? rt_fill_special : fill_integers; }

static void copy_layout(const rt_op_case *c, rt_layout *l)
{
    rt_fill_fn fill = any_fill(c->sig.dtype[RT_ROWS_X]);
    uint32_t rows = c->flag[ROWS] == 3 && c->dim[N] > 2 ? 2 : c->dim[N] + 3; /* few: several land on one row */
    l->slot[RT_ROWS_X] = RT_SLOT(c->dim[N], c->dim[C], fill);
    if (!c->flag[ROWS]) {
        l->slot[RT_ROWS_Y] = RT_SLOT(c->dim[N], c->dim[C], NULL);
        return;
    }
    l->slot[RT_ROWS_Y] = RT_SLOT(rows, c->dim[C], fill);
    l->slot[RT_ROWS_B] = RT_SLOT(c->dim[N], 1, rt_fill_below, rows, c->flag[ROWS] == 2 ? 3 : 0);
}

static void copy_emit(rt_plan *p, const rt_op_case *c, const rt_view *v)
{
    (void)c;
    rt_emit_copy(p, v[RT_ROWS_Y], v[RT_ROWS_X], v[RT_ROWS_B]);
}

const rt_op_set rt_op_set_copy = { .kind = RT_OP_COPY,
                                   .ndims = 2,
                                   RT_TABLE(shapes, by_rows),
                                   RT_TABLE(flags, copy_flags),
                                   .fix = block_fix,
                                   .layout = copy_layout,
                                   .emit = copy_emit,
                                   .large = { .signature = "bf16", .dim = { 61, 1536 } } };

/* ---- dequant, quant ---- */

static const rt_op_flag dequant_flags[] = { RT_OPS_FLAG };
static const rt_op_shape dequant_shapes[] = { { RT_SHAPE_ODD, { 11, 769 } },
                                              { RT_SHAPE_ONE, { 1, 1 } },
                                              { RT_SHAPE_BIG, { 7, 16500 } } };
static const rt_op_shape quant_shapes[] = { { RT_SHAPE_ODD, { 3, 513 } },
                                            { RT_SHAPE_ONE, { 1, 1 } },
                                            { RT_SHAPE_BIG, { 3, 3200 } } };
static const rt_op_flag quant_flags[] = { RT_FLAG("values", "", "zeros", "nan") };

static void dequant_layout(const rt_op_case *c, rt_layout *l) { pair(c, l, rt_fill_normal); }

static void dequant_emit(rt_plan *p, const rt_op_case *c, const rt_view *v)
{
    enum { MOST = 11 }; /* more than a launch takes */
    uint32_t ops = rt_case_ops(v[RT_ROWS_Y], c->flag[0], MOST);
    for (uint32_t i = 0; i < ops; i++)
        rt_emit_dequant(p, rt_case_part(p, v[RT_ROWS_Y], i, ops), rt_case_part(p, v[RT_ROWS_X], i, ops));
}

const rt_op_set rt_op_set_dequant = { .kind = RT_OP_DEQUANT,
                                      .ndims = 2,
                                      RT_TABLE(shapes, dequant_shapes),
                                      RT_TABLE(flags, dequant_flags),
                                      .fix = block_fix,
                                      .layout = dequant_layout,
                                      .emit = dequant_emit,
                                      .large = { .signature = "bf16.q4_k", .dim = { 61, 1536 } } };

/* Normal; or with the first block all zero; or with one value that is not a number, which must stay visible. */
static void fill_values(const rt_op_case *c, const rt_fill *f)
{
    rt_fill_normal(c, f);
    uint32_t block = rt_dtype_table[c->sig.dtype[RT_ROWS_Y]].block_elems;
    for (uint32_t i = 0; c->flag[0] == 1 && i < block; i++) f->x[i] = 0;
    if (c->flag[0] == 2) f->x[f->cols / 2] = NAN;
}

static void quant_layout(const rt_op_case *c, rt_layout *l) { pair(c, l, fill_values); }

static void quant_emit(rt_plan *p, const rt_op_case *c, const rt_view *v)
{
    (void)c;
    rt_emit_quant(p, v[RT_ROWS_Y], v[RT_ROWS_X]);
}

const rt_op_set rt_op_set_quant = { .kind = RT_OP_QUANT,
                                    .ndims = 2,
                                    RT_TABLE(shapes, quant_shapes),
                                    RT_TABLE(flags, quant_flags),
                                    .fix = block_fix,
                                    .layout = quant_layout,
                                    .emit = quant_emit,
                                    .large = { .signature = "q8_0.bf16", .dim = { 61, 1536 } } };
