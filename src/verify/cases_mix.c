/* cases_mix.c - the cases of mix_logits: a first teacher or one more, rows that are not its own, vocabularies that
 * differ, what is not finite. */
#include "verify/values.h"

#include <math.h>

enum { N, V, U }; /* dimensions: rows, columns of y, of x */

/* Big: blocks of columns of the cpu's kernel, of which U ends in the second. */
static const rt_op_shape shapes[] = { { RT_SHAPE_ODD, { 7, 37, 41 } },
                                      { RT_SHAPE_ONE, { 1, 1, 1 } },
                                      { RT_SHAPE_BIG, { 5, 5003, 1500 } },
                                      { RT_SHAPE_WIDTH, { 3, 67, 67 } } };

enum { BEFORE, WEIGHT, TEMPERATURE, MASK, LOGITS };
enum { GIVEN, FIRST, IN_PLACE };
enum { SPECIAL = 1, SPREAD };
static const rt_op_flag flags[] = { RT_FLAG("y0", "", "first", "in-place"), RT_FLAG("weight", "", "weight"),
                                    RT_FLAG("temperature", "T1", "T2.5"),
                                    RT_FLAG("vocabulary", "", "vmask", "vmask-few"),
                                    RT_FLAG("logits", "", "special", "spread") };

/* Without a mask both have the same columns. */
static void fix(rt_op_case *c)
{
    if (!c->flag[MASK]) c->dim[U] = c->dim[V];
}

static void fill_x(const rt_op_case *c, const rt_fill *f)
{
    rt_fill g = *f;
    g.q = c->flag[LOGITS] == SPREAD ? 30 : 2;
    rt_fill_normal(c, &g);
    if (c->flag[LOGITS] == SPECIAL)
        f->x[(uint64_t)(f->rows / 2) * f->cols + f->cols / 3] = c->dim[V] % 2 ? NAN : INFINITY;
}

/* Logits of probabilities; every third row and some others hold nothing yet. */
static void fill_y0(const rt_op_case *c, const rt_fill *f)
{
    rt_fill g = *f;
    g.p = -6;
    g.q = c->flag[LOGITS] == SPREAD ? 30 : 2;
    rt_fill_normal(c, &g);
    for (uint64_t i = 0; i < (uint64_t)f->rows * f->cols; i++)
        if (i / f->cols % 3 == 1 || rt_fill_word(f, i) % 7 == 0) f->x[i] = (double)RT_MIX_FLOOR;
    if (c->flag[LOGITS] == SPECIAL) f->x[0] = NAN;
}

/* Rows of others, rows of its own, shares. With special logits one that means nothing. */
static void fill_weight(const rt_op_case *c, const rt_fill *f)
{
    for (uint32_t i = 0; i < f->rows; i++) f->x[i] = i % 3 == 0 ? 1 : i % 3 == 1 ? 0 : 0.3;
    if (c->flag[LOGITS] == SPECIAL) f->x[f->rows - 1] = f->rows % 2 ? -1 : NAN;
}

static void layout(const rt_op_case *c, rt_layout *l)
{
    const uint32_t *d = c->dim;
    l->slot[RT_MIX_Y] = RT_SLOT(d[N], d[V], NULL);
    if (c->flag[BEFORE] != FIRST) l->slot[RT_MIX_Y0] = RT_SLOT(d[N], d[V], fill_y0);
    if (c->flag[BEFORE] == IN_PLACE) l->slot[RT_MIX_Y].in_place = 1 + RT_MIX_Y0;
    l->slot[RT_MIX_X] = RT_SLOT(d[N], d[U], fill_x);
    if (c->flag[WEIGHT]) l->slot[RT_MIX_WEIGHT] = RT_SLOT(d[N], 1, fill_weight);
    if (c->flag[MASK])
        l->slot[RT_MIX_VMASK] = RT_SLOT(1, (d[V] + 31) / 32, rt_fill_bits, c->flag[MASK] == 1 ? 0.8 : 0.02, d[V]);
}

static float temperature(const rt_op_case *c) { return c->flag[TEMPERATURE] ? 2.5f : 1.0f; }

static void emit(rt_plan *p, const rt_op_case *c, const rt_view *v)
{
    rt_emit_mix_logits(p, v[RT_MIX_Y], v[RT_MIX_Y0], v[RT_MIX_X], v[RT_MIX_WEIGHT], v[RT_MIX_VMASK], temperature(c),
                       c->flag[BEFORE] == FIRST ? 1.0f : 0.4f);
}

/* How far x lies below the largest of its row, T for the logarithms, and what comes out. */
static void terms(rt_values *v, uint32_t slot, const double *want, double *scale)
{
    const uint32_t *d = v->c->dim, both = d[V] < d[U] ? d[V] : d[U];
    const double *x = rt_values_dense(v, RT_MIX_X), T = (double)temperature(v->c);
    const int32_t *mask = rt_values_row(v, RT_MIX_VMASK, 0);
    (void)slot;
    for (uint32_t r = 0; x && r < d[N]; r++, x += d[U], want += d[V], scale += d[V]) {
        double max = -INFINITY;
        for (uint32_t i = 0; i < both; i++)
            if (!mask || ((uint32_t)mask[i / 32] >> i % 32 & 1)) max = fmax(max, x[i]);
        for (uint32_t i = 0; i < d[V]; i++)
            scale[i] = want[i] == 0 ? 0 : fabs(want[i]) + (i < both ? fabs(x[i] - max) : 0) + T * (1 + log(d[V]));
    }
}

/* `ref` in float adds up the exponentials of a row one by one; all its logits have the error of the sum. */
static double serial(const rt_op_case *c) { return c->dim[V]; }

const rt_op_set rt_op_set_mix_logits = {
    .kind = RT_OP_MIX_LOGITS,
    .ndims = 3,
    RT_TABLE(shapes, shapes),
    RT_TABLE(flags, flags),
    .fix = fix,
    .layout = layout,
    .emit = emit,
    .terms = terms,
    .serial_terms = serial,
    .large = { .signature = "bf16.bf16", .dim = { 13, 32000, 32000 }, .flag = { [BEFORE] = GIVEN } }
};
