/* cases_scaled.c - the cases of e4m3 codes with a scale for each row: quant_rows, matmul_scaled.
 *
 * quant_rows. Big: a chunk of the cpu kernel is about 16384 elements in whole rows, a strip 1024 columns; rows of 33001
 * columns are longer than a block of the CUDA kernel keeps. Every row has a magnitude of its own.
 *
 * matmul_scaled. Codes are made from normal values, as quant_rows makes them, but scales are any numbers: nothing in
 * the op asks for powers of two. Shapes are those of matmul (cases_matmul.c); where N and K are multiples of 16 the
 * library takes them, in three tiles of 256 by 128. What tensor cores cut off grows with K, so one is as long as a
 * model's longest. */
#include "num/e4m3.h"
#include "verify/tolerance.h"
#include "verify/values.h"

#include <math.h>

/* ---- quant_rows ---- */

enum { QN, QC }; /* dimensions */
enum { PLAIN, TIES, SPECIAL, ZEROS, LOST, TINY };

static const rt_op_flag quant_flags[] = { RT_FLAG("values", "", "ties", "special", "zeros", "lost", "tiny") };
static const rt_op_shape quant_shapes[] = { { RT_SHAPE_ODD, { 7, 19 } },
                                            { RT_SHAPE_ONE, { 1, 1 } },
                                            { RT_SHAPE_BIG, { 67, 3100 } },
                                            { RT_SHAPE_BIG, { 3, 33001 } },
                                            { RT_SHAPE_BIG, { 37, 8960 } } };

/* Row r of values: about 2^(r % 9 - 4); halves of the steps of e4m3; numbers of every kind; the first row 0; one value
 * of the middle row not finite; below what a scale reaches, where the dtype has such numbers. */
static void fill_rows(const rt_op_case *c, const rt_fill *f)
{
    uint8_t kind = c->flag[0];
    if (kind == SPECIAL) {
        rt_fill_special(c, f);
        return;
    }
    rt_fill_normal(c, f);
    for (uint32_t r = 0; r < f->rows; r++) {
        double *x = f->x + (uint64_t)r * f->cols, unit = exp2((double)(r % 9) - 4);
        for (uint32_t k = 0; k < f->cols; k++) {
            if (kind == TIES) x[k] = rint(128 * x[k]) / 128;
            x[k] *= kind == ZEROS && r == 0 ? 0 : kind == TINY ? 0x1p-135 : unit;
        }
    }
    if (kind == LOST) f->x[((uint64_t)f->rows / 2) * f->cols + f->cols / 2] = c->sig_index % 2 ? NAN : -INFINITY;
    if (kind == TIES && f->cols > 1) f->x[0] = 448 * 0x1p-4; /* the border between two scales */
}

static bool of_blocks(const rt_op_case *c) { return rt_dtype_is_quant(c->sig.dtype[RT_QROWS_X]); }

/* Blocks have no numbers of every kind. */
static uint32_t quant_allowed(const rt_op_case *c, uint32_t flag)
{
    return of_blocks(c) && flag == 0 ? 1u << PLAIN | 1u << ZEROS : UINT32_MAX;
}

static void quant_fix(rt_op_case *c) { c->dim[QC] = rt_case_block(c, RT_QROWS_X, c->dim[QC]); }

static void quant_layout(const rt_op_case *c, rt_layout *l)
{
    l->slot[RT_QROWS_Y] = RT_SLOT(c->dim[QN], c->dim[QC], NULL);
    l->slot[RT_QROWS_SCALE] = RT_SLOT(c->dim[QN], 1, NULL);
    l->slot[RT_QROWS_X] = RT_SLOT(c->dim[QN], c->dim[QC], fill_rows);
}

static void quant_emit(rt_plan *p, const rt_op_case *c, const rt_view *v)
{
    (void)c;
    rt_emit_quant_rows(p, v[RT_QROWS_Y], v[RT_QROWS_SCALE], v[RT_QROWS_X]);
}

const rt_op_set rt_op_set_quant_rows = { .kind = RT_OP_QUANT_ROWS,
                                         .ndims = 2,
                                         RT_TABLE(shapes, quant_shapes),
                                         RT_TABLE(flags, quant_flags),
                                         .allowed = quant_allowed,
                                         .fix = quant_fix,
                                         .layout = quant_layout,
                                         .emit = quant_emit,
                                         .large = { .signature = "bf16", .dim = { 61, 1536 } } };

/* ---- matmul_scaled ---- */

enum { M, N, K }; /* dimensions */
enum { ACC, CODES };

static const rt_op_flag flags[] = { RT_FLAG("out", "", "acc"), RT_RARE("codes", "", "nan") };
static const rt_op_shape shapes[] = { { RT_SHAPE_ODD, { 11, 13, 7 } },     { RT_SHAPE_ONE, { 1, 1, 1 } },
                                      { RT_SHAPE_BIG, { 787, 797, 37 } },  { RT_SHAPE_DEEP, { 29, 47, 2309 } },
                                      { RT_SHAPE_FEW, { 5, 61, 2309 } },   { RT_SHAPE_BIG, { 521, 272, 176 } },
                                      { RT_SHAPE_DEEP, { 144, 48, 2320 } } };
static const rt_op_shape long_shapes[] = { { RT_SHAPE_DEEP, { 80, 48, 18944 } } };

/* What the library takes; its rows may be any number. */
static bool even(const rt_op_case *c) { return (c->dim[N] | c->dim[K]) % 16 == 0; }

static void fix(rt_op_case *c)
{
    bool big = c->shape_kind & (RT_SHAPE_BIG | RT_SHAPE_DEEP);
    if (big && even(c) && c->strided != RT_STRIDED_ALIGNED) c->strided = RT_DENSE;
}

/* Codes of normal values that are quantised by rows: about 2^6 in size, the largest of a row at 224 to 448. */
static void fill_codes(const rt_op_case *c, const rt_fill *f)
{
    for (uint64_t i = 0; i < (uint64_t)f->rows * f->cols; i++)
        f->b[i] = rt_e4m3_from_f32((float)(100 * rt_fill_number(f, i)));
    if (c->flag[CODES]) f->b[f->cols / 2] = RT_E4M3_NAN;
}

static void layout(const rt_op_case *c, rt_layout *l)
{
    const uint32_t *d = c->dim;
    l->slot[RT_MMS_OUT] = RT_SLOT(d[M], d[N], c->flag[ACC] ? rt_fill_normal : NULL);
    l->slot[RT_MMS_A] = RT_SLOT(d[M], d[K], fill_codes);
    l->slot[RT_MMS_B] = RT_SLOT(d[N], d[K], fill_codes);
    l->slot[RT_MMS_SA] = RT_SLOT(d[M], 1, rt_fill_positive, 0.002, 0.01, .compact = true);
    l->slot[RT_MMS_SB] = RT_SLOT(d[N], 1, rt_fill_positive, 0.002, 0.01, .compact = true);
    if (rt_case_has(c, RT_MMS_BIAS)) l->slot[RT_MMS_BIAS] = RT_SLOT(1, d[N], rt_fill_normal);
}

static void emit(rt_plan *p, const rt_op_case *c, const rt_view *v)
{
    (void)c;
    rt_emit_matmul_scaled(p, v[RT_MMS_OUT], v[RT_MMS_A], v[RT_MMS_SA], v[RT_MMS_B], v[RT_MMS_SB], v[RT_MMS_BIAS]);
}

typedef struct size_of_row {
    double length, most;
} size_of_row;

static size_of_row measure(const double *x, uint32_t n, double scale)
{
    double squares = 0, most = 0;
    for (uint32_t k = 0; k < n; k++) {
        squares += x[k] * x[k];
        if (fabs(x[k]) > most) most = fabs(x[k]);
    }
    return (size_of_row){ sqrt(squares) * scale, most * scale };
}

/* |a_m| |b_n| + |bias| + |out|, as for matmul, of rows with their scales; and, where tensor cores may multiply codes,
 * what those cut off (tolerance.h). */
static void terms(rt_values *v, uint32_t slot, const double *want, double *scale)
{
    const rt_op_case *c = v->c;
    const uint32_t *d = c->dim;
    const double *a = rt_values_dense(v, RT_MMS_A), *b = rt_values_dense(v, RT_MMS_B);
    const double *sa = rt_values_dense(v, RT_MMS_SA), *sb = rt_values_dense(v, RT_MMS_SB);
    const double *bias = rt_values_dense(v, RT_MMS_BIAS), *before = c->flag[ACC] ? rt_values_dense(v, slot) : NULL;
    size_of_row *column = rt_values_scratch(v, d[N] * sizeof *column);
    (void)want;
    if (!a || !b || !sa || !sb || !column) return;
    for (uint32_t n = 0; n < d[N]; n++) column[n] = measure(b + (uint64_t)n * d[K], d[K], sb[n]);
    for (uint32_t m = 0; m < d[M]; m++) {
        size_of_row row = measure(a + (uint64_t)m * d[K], d[K], sa[m]);
        for (uint32_t n = 0; n < d[N]; n++) {
            uint64_t i = (uint64_t)m * d[N] + n;
            double product = row.length * column[n].length;
            scale[i] = product + (bias ? fabs(bias[n]) : 0) + (before ? fabs(before[i]) : 0);
            if (v->cuts_off && even(c)) scale[i] += rt_e4m3_cut_off(product, row.most * column[n].most, d[K]);
        }
    }
}

static double summed(const rt_op_case *c) { return c->dim[K]; }

const rt_op_set rt_op_set_matmul_scaled = {
    .kind = RT_OP_MATMUL_SCALED,
    .ndims = 3,
    RT_TABLE(shapes, shapes),
    RT_TABLE(more, long_shapes),
    RT_TABLE(flags, flags),
    .fix = fix,
    .layout = layout,
    .emit = emit,
    .terms = terms,
    .serial_terms = summed,
};
