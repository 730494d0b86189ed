/* cases_dropout.c - the cases of dropout.
 *
 * Which elements are kept is no matter of tolerance: one that is dropped must be 0 (or what was there), so a backend
 * whose random words are others fails by whole elements. Big: a chunk of the cpu's kernel is 16384 elements of the
 * whole op, or of one row where operands have gaps. */
#include "verify/values.h"

#include <math.h>

enum { N, C }; /* dimensions */

static const rt_op_shape shapes[] = { { RT_SHAPE_ODD, { 7, 19 } },
                                      { RT_SHAPE_ONE, { 1, 1 } },
                                      { RT_SHAPE_BIG, { 4, 33001 } } };

enum { ACC, SHARE, ROW, STREAM, SPECIAL };
static const rt_op_flag flags[] = { RT_FLAG("y", "", "acc"), RT_FLAG("p", "p0.1", "p0.5", "p0.9", "p0"),
                                    RT_FLAG("row", "", "row6000", "row-wraps"), RT_FLAG("stream", "", "stream7"),
                                    RT_RARE("values", "", "special") };

static void fill_step(const rt_op_case *c, const rt_fill *f)
{
    static const uint32_t row[] = { 0, 6000, UINT32_MAX - 2 };
    rt_step s = { .step = 12, .tokens = 34, .row = row[c->flag[ROW]], .seed = f->seed };
    memcpy(f->b, &s, sizeof s);
}

static void layout(const rt_op_case *c, rt_layout *l)
{
    l->slot[RT_DROP_Y] = RT_SLOT(c->dim[N], c->dim[C], c->flag[ACC] ? rt_fill_normal : NULL);
    l->slot[RT_DROP_X] = RT_SLOT(c->dim[N], c->dim[C], c->flag[SPECIAL] ? rt_fill_special : rt_fill_normal);
    l->slot[RT_DROP_STEP] = RT_SLOT(1, sizeof(rt_step), fill_step);
}

static void emit(rt_plan *p, const rt_op_case *c, const rt_view *v)
{
    static const float share[] = { 0.1f, 0.5f, 0.9f, 0.0f };
    rt_emit_dropout(p, v[RT_DROP_Y], v[RT_DROP_X], v[RT_DROP_STEP], share[c->flag[SHARE]], c->flag[STREAM] ? 7 : 0);
}

/* |y| as it was, and |x| / (1 - p) where it is kept */
static void terms(rt_values *v, uint32_t slot, const double *want, double *scale)
{
    const double *before = v->c->flag[ACC] ? rt_values_dense(v, slot) : NULL;
    for (uint64_t i = 0; i < (uint64_t)v->c->dim[N] * v->c->dim[C]; i++)
        scale[i] = before ? fabs(before[i]) + fabs(want[i] - before[i]) : fabs(want[i]);
}

/* Large: nothing is dropped, since a random word is that of its row and the pattern would not repeat. */
const rt_op_set rt_op_set_dropout = { .kind = RT_OP_DROPOUT,
                                      .ndims = 2,
                                      RT_TABLE(shapes, shapes),
                                      RT_TABLE(flags, flags),
                                      .layout = layout,
                                      .emit = emit,
                                      .terms = terms,
                                      .large = { .signature = "bf16", .dim = { 61, 1536 }, .flag = { [SHARE] = 3 } } };
