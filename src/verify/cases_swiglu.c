/* cases_swiglu.c - the cases of swiglu, both ways.
 *
 * Big: a chunk of the cpu's elementwise kernels is 16384 elements: of the whole op where all operands lie without gaps,
 * else of one row; four rows of 33001 are three chunks each way. Codes: rows as one warp and as nine keep them. */
#include "verify/values.h"

#include <math.h>

enum { N, F }; /* dimensions */
enum { ON_G, ON_U, SPREAD, Y };
enum { SPREAD_WIDE = 1, SPREAD_LOST }; /* values of flag SPREAD */
enum { Y_APART, Y_ON_DY, Y_NOT };      /* values of flag Y */

static const rt_op_flag fwd_flags[] = { RT_FLAG("in place of g", "", "on-g"), RT_FLAG("in place of u", "", "on-u"),
                                        RT_FLAG("spread of g", "", "wide", "lost") };
static const rt_op_flag bwd_flags[] = { RT_FLAG("dg in place of g", "", "dg-on-g"),
                                        RT_FLAG("du in place of u", "", "du-on-u"), RT_FLAG("spread of g", "", "wide"),
                                        RT_FLAG("y", "", "y-on-dy", "no-y") };
static const rt_op_shape shapes[] = { { RT_SHAPE_ODD, { 5, 19 } },
                                      { RT_SHAPE_ONE, { 1, 1 } },
                                      { RT_SHAPE_BIG, { 4, 33001 } } };
static const rt_op_shape coded_shapes[] = { { RT_SHAPE_BIG, { 67, 576 } }, { RT_SHAPE_BIG, { 37, 8960 } } };

/* Codes do not lie on values. */
static uint32_t fwd_allowed(const rt_op_case *c, uint32_t flag)
{
    if (!rt_case_codes(c)) return 3;
    return flag <= ON_U ? 1 : 7;
}

static void fwd_fix(rt_op_case *c)
{
    if (c->flag[ON_G]) c->flag[ON_U] = 0;
    rt_case_hold_codes(c, c->dim[F]);
}

/* One value of the middle row not a number, where it is to be lost. */
static void fill_g(const rt_op_case *c, const rt_fill *f)
{
    rt_fill_normal(c, f);
    if (c->flag[SPREAD] == SPREAD_LOST) f->x[((uint64_t)f->rows / 2) * f->cols + f->cols / 2] = NAN;
}

static void fwd_layout(const rt_op_case *c, rt_layout *l)
{
    const uint32_t *d = c->dim;
    uint8_t on = c->flag[ON_G] ? 1 + RT_GLU_G : c->flag[ON_U] ? 1 + RT_GLU_U : 0;
    l->slot[RT_GLU_Y] = RT_SLOT(d[N], d[F], NULL, .in_place = on);
    if (rt_case_codes(c)) l->slot[RT_GLU_SCALE] = RT_SLOT(d[N], 1, NULL);
    l->slot[RT_GLU_G] = RT_SLOT(d[N], d[F], fill_g, 0, c->flag[SPREAD] == SPREAD_WIDE ? 25 : 1);
    l->slot[RT_GLU_U] = RT_SLOT(d[N], d[F], rt_fill_normal);
}

static void fwd_emit(rt_plan *p, const rt_op_case *c, const rt_view *v)
{
    (void)c;
    rt_emit_swiglu_fwd(p, v[RT_GLU_Y], v[RT_GLU_SCALE], v[RT_GLU_G], v[RT_GLU_U]);
}

const rt_op_set rt_op_set_swiglu_fwd = {
    .kind = RT_OP_SWIGLU_FWD,
    .ndims = 2,
    RT_TABLE(shapes, shapes),
    RT_TABLE(more, coded_shapes),
    RT_TABLE(flags, fwd_flags),
    .allowed = fwd_allowed,
    .fix = fwd_fix,
    .layout = fwd_layout,
    .emit = fwd_emit,
    .large = { .signature = "bf16.bf16", .dim = { 61, 4864 } },
};

static void bwd_layout(const rt_op_case *c, rt_layout *l)
{
    const uint32_t *d = c->dim;
    l->slot[RT_GLUB_DG] = RT_SLOT(d[N], d[F], NULL, .in_place = c->flag[ON_G] ? 1 + RT_GLUB_G : 0);
    l->slot[RT_GLUB_DU] = RT_SLOT(d[N], d[F], NULL, .in_place = c->flag[ON_U] ? 1 + RT_GLUB_U : 0);
    if (c->flag[Y] != Y_NOT)
        l->slot[RT_GLUB_Y] = RT_SLOT(d[N], d[F], NULL, .in_place = c->flag[Y] == Y_ON_DY ? 1 + RT_GLUB_DY : 0);
    l->slot[RT_GLUB_DY] = RT_SLOT(d[N], d[F], rt_fill_normal);
    l->slot[RT_GLUB_G] = RT_SLOT(d[N], d[F], rt_fill_normal, 0, c->flag[SPREAD] ? 25 : 1);
    l->slot[RT_GLUB_U] = RT_SLOT(d[N], d[F], rt_fill_normal);
}

static void bwd_emit(rt_plan *p, const rt_op_case *c, const rt_view *v)
{
    (void)c;
    rt_emit_swiglu_bwd(p, v[RT_GLUB_DG], v[RT_GLUB_DU], v[RT_GLUB_Y], v[RT_GLUB_DY], v[RT_GLUB_G], v[RT_GLUB_U]);
}

/* dg: |dy u s| (1 + |g| (1 - s)): the terms of 1 + g (1 - s) cancel near g = -1.28 */
static void bwd_terms(rt_values *v, uint32_t slot, const double *want, double *scale)
{
    uint64_t n = (uint64_t)v->c->dim[N] * v->c->dim[F];
    const double *dy = rt_values_dense(v, RT_GLUB_DY), *g = rt_values_dense(v, RT_GLUB_G),
                 *u = rt_values_dense(v, RT_GLUB_U);
    (void)slot;
    (void)want;
    for (uint64_t i = 0; i < n && dy && g && u; i++) {
        double s = 1 / (1 + exp(-g[i]));
        scale[i] = fabs(dy[i] * u[i] * s) * (1 + fabs(g[i]) * (1 - s));
    }
}

const rt_op_set rt_op_set_swiglu_bwd = {
    .kind = RT_OP_SWIGLU_BWD,
    .ndims = 2,
    RT_TABLE(shapes, shapes),
    RT_TABLE(flags, bwd_flags),
    .layout = bwd_layout,
    .emit = bwd_emit,
    .terms = bwd_terms,
    .large = { .signature = "bf16", .dim = { 61, 4864 } },
};
