/* cases_matmul.c - the cases of matmul.
 *
 * Big: the cpu kernels cut out into tiles of at most 512 by 512, and, while there are few of them, down to about 200,
 * so these shapes give three or four tiles each way. Deep: three panels of 768 along K, where an operand is converted.
 * Few: up to 8 rows by stored rows go by dot products, in chunks of 32768 weights; and rows around the sizes of kernels
 * for few rows (8, 16, 64, of which several blocks), with K of whole packs that splits evenly and unevenly; one row by
 * more weights than a GPU takes at once, for one signature of each type of b. Even:
 * multiples of 8 where tensor cores take them, in three tiles of 256 by 128, with a long sum and a longer one. The
 * block of a quantised b lies along its rows: K when it is stored (N,K), else N. */
#include "verify/values.h"

#include <math.h>

enum { M, N, K }; /* dimensions */
enum { TA, TB, ACC, ALPHA };

static const rt_op_flag flags[] = { RT_FLAG("a", "n", "t"), RT_FLAG("b", "n", "t"), RT_FLAG("out", "", "acc"),
                                    RT_RARE("alpha", "", "alpha-0.75", "alpha0") };
static const rt_op_shape shapes[] = { { RT_SHAPE_ODD, { 11, 13, 7 } },     { RT_SHAPE_ONE, { 1, 1, 1 } },
                                      { RT_SHAPE_BIG, { 787, 797, 37 } },  { RT_SHAPE_DEEP, { 29, 47, 2309 } },
                                      { RT_SHAPE_FEW, { 5, 61, 2309 } },   { RT_SHAPE_BIG, { 520, 264, 168 } },
                                      { RT_SHAPE_DEEP, { 136, 24, 2312 } } };
static const rt_op_shape few[] = { { RT_SHAPE_FEW, { 1, 83, 2560 } }, { RT_SHAPE_FEW, { 2, 48, 520 } },
                                   { RT_SHAPE_FEW, { 3, 40, 96 } },   { RT_SHAPE_FEW, { 7, 17, 1288 } },
                                   { RT_SHAPE_FEW, { 8, 35, 264 } },  { RT_SHAPE_FEW, { 9, 29, 2080 } },
                                   { RT_SHAPE_FEW, { 16, 64, 800 } }, { RT_SHAPE_FEW, { 33, 18, 1032 } },
                                   { RT_SHAPE_FEW, { 64, 35, 544 } }, { RT_SHAPE_FEW, { 100, 13, 264 } },
                                   { RT_SHAPE_FEW, { 1, 6423, 776 } } };
enum { TALL = 1000 };

static bool quantised(const rt_op_case *c) { return rt_dtype_is_quant(c->sig.dtype[RT_MM_B]); }

static bool even(const rt_op_case *c)
{
    return c->shape_kind & (RT_SHAPE_BIG | RT_SHAPE_DEEP) && (c->dim[M] | c->dim[N] | c->dim[K]) % 8 == 0;
}

static uint32_t allowed(const rt_op_case *c, uint32_t flag)
{
    return flag == TA && quantised(c) ? 1 : flag == ALPHA ? 7 : 3;
}

static void fix(rt_op_case *c)
{
    bool big = c->shape_kind == RT_SHAPE_BIG && !even(c);
    if (even(c)) {
        if (c->strided != RT_STRIDED_ALIGNED) c->strided = RT_DENSE;
        if (quantised(c)) c->dim[M] = 8; /* dequantised, it is what the plain types are */
    }
    if (c->shape_kind == RT_SHAPE_FEW) {
        const rt_dtype *d = c->sig.dtype;
        const bool tall = d[RT_MM_OUT] == RT_DTYPE_F32 && d[RT_MM_A] == RT_DTYPE_BF16 && !rt_case_has(c, RT_MM_BIAS);
        c->flag[TA] = 0;
        c->flag[TB] = 1;
        if (c->dim[N] > TALL && !tall) c->dim[N] = 19;
        if (c->dim[K] % 8 == 0 && c->strided != RT_STRIDED_ALIGNED && c->strided != RT_STRIDED_OUT)
            c->strided = RT_DENSE;
    }
    /* Without bias, which takes most signatures, the largest shape: three whole tiles of 512 each way. */
    if (big && !rt_case_has(c, RT_MM_BIAS) && !quantised(c)) {
        c->dim[M] = 1031;
        c->dim[N] = 1033;
    }
    if (big && quantised(c) && c->flag[TB]) c->dim[N] = 523; /* K is a whole block: keep it lean */
    uint32_t *along = c->flag[TB] ? &c->dim[K] : &c->dim[N];
    *along = rt_case_block(c, RT_MM_B, *along);
}

static void layout(const rt_op_case *c, rt_layout *l)
{
    const uint32_t *d = c->dim;
    bool ta = c->flag[TA], tb = c->flag[TB];
    l->slot[RT_MM_OUT] = RT_SLOT(d[M], d[N], c->flag[ACC] ? rt_fill_normal : NULL);
    l->slot[RT_MM_A] = RT_SLOT(ta ? d[K] : d[M], ta ? d[M] : d[K], rt_fill_normal);
    l->slot[RT_MM_B] = RT_SLOT(tb ? d[N] : d[K], tb ? d[K] : d[N], rt_fill_normal);
    if (rt_case_has(c, RT_MM_BIAS)) l->slot[RT_MM_BIAS] = RT_SLOT(1, d[N], rt_fill_normal);
}

static float alpha_of(const rt_op_case *c)
{
    static const float alpha[] = { 1.0f, -0.75f, 0.0f };
    return alpha[c->flag[ALPHA]];
}

static void emit(rt_plan *p, const rt_op_case *c, const rt_view *v)
{
    static const char *const transposes[2][2] = { { "nn", "nt" }, { "tn", "tt" } };
    rt_emit_matmul(p, v[RT_MM_OUT], v[RT_MM_A], v[RT_MM_B], v[RT_MM_BIAS], transposes[c->flag[TA]][c->flag[TB]],
                   alpha_of(c));
}

/* The length of row i of op(x): x is (rows,cols), or transposed (cols,rows). */
static double length(const double *x, uint32_t rows, uint32_t cols, bool transposed, uint32_t i)
{
    double sum = 0;
    for (uint32_t k = 0; k < cols; k++) {
        double y = transposed ? x[(uint64_t)k * rows + i] : x[(uint64_t)i * cols + k];
        sum += y * y;
    }
    return sqrt(sum);
}

/* |alpha| |a_m| |b_n| + |bias| + |out|: the lengths bound the sum of |a| |b| (Cauchy-Schwarz) at the cost of a vector.
 */
static void terms(rt_values *v, uint32_t slot, const double *want, double *scale)
{
    const rt_op_case *c = v->c;
    const uint32_t *d = c->dim;
    const double *a = rt_values_dense(v, RT_MM_A), *b = rt_values_dense(v, RT_MM_B);
    const double *bias = rt_values_dense(v, RT_MM_BIAS), *before = c->flag[ACC] ? rt_values_dense(v, slot) : NULL;
    double *column = rt_values_scratch(v, d[N] * sizeof *column);
    (void)want;
    if (!a || !b || !column) return;
    for (uint32_t n = 0; n < d[N]; n++) column[n] = length(b, d[N], d[K], !c->flag[TB], n);
    for (uint32_t m = 0; m < d[M]; m++) {
        double row = fabs((double)alpha_of(c)) * length(a, d[M], d[K], c->flag[TA], m);
        for (uint32_t n = 0; n < d[N]; n++) {
            uint64_t i = (uint64_t)m * d[N] + n;
            scale[i] = row * column[n] + (bias ? fabs(bias[n]) : 0) + (before ? fabs(before[i]) : 0);
        }
    }
}

const rt_op_set rt_op_set_matmul = {
    .kind = RT_OP_MATMUL,
    .ndims = 3,
    RT_TABLE(shapes, shapes),
    RT_TABLE(more, few),
    RT_TABLE(flags, flags),
    .allowed = allowed,
    .fix = fix,
    .layout = layout,
    .emit = emit,
    .terms = terms,
};
