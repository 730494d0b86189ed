/* cases_rmsnorm.c - the cases of rmsnorm forward and backward, plain, per head, and fused with the residual sum.
 *
 * Big: a chunk of the cpu kernels is about 16384 elements in whole rows. Widths that are whole vectors are there for
 * kernels that keep a group in registers: one has 64 to 512 threads for it. */
#include "verify/values.h"

#include <math.h>

enum { N, H, D }; /* dimensions: rows, heads, width of a head */
enum { HEADS, EPS, ROW, IN_PLACE, ACC_DX, ACC_DW };
enum { ROW_OF_ZEROS = 1, ROW_LOST }; /* values of flag ROW */

/* The same list for all four, each allows what it has. */
static const rt_op_flag flags[] = {
    RT_FLAG("heads", "", "heads"),         RT_FLAG("eps", "", "eps0.3"), RT_FLAG("a row apart", "", "zeros", "lost"),
    RT_FLAG("in place", "", "on1", "on2"), RT_FLAG("dx", "", "dx+="),    RT_FLAG("dw", "", "dw+="),
};
static const rt_op_shape shapes[] = { { RT_SHAPE_ODD, { 5, 3, 13 } },    { RT_SHAPE_ONE, { 1, 1, 1 } },
                                      { RT_SHAPE_BIG, { 101, 3, 211 } }, { RT_SHAPE_BIG, { 29, 1, 2309 } },
                                      { RT_SHAPE_BIG, { 259, 3, 64 } },  { RT_SHAPE_BIG, { 37, 1, 1408 } },
                                      { RT_SHAPE_BIG, { 61, 1, 4608 } } };

static bool is_fused(const rt_op_case *c)
{
    return c->set->kind == RT_OP_ADD_RMSNORM_FWD || c->set->kind == RT_OP_ADD_RMSNORM_BWD;
}
static bool is_backward(const rt_op_case *c)
{
    return c->set->kind == RT_OP_RMSNORM_BWD || c->set->kind == RT_OP_ADD_RMSNORM_BWD;
}

static uint32_t allowed(const rt_op_case *c, uint32_t flag)
{
    bool codes = rt_case_codes(c); /* of whole rows, which do not lie on values */
    switch (flag) {
    case HEADS: return is_fused(c) || codes ? 1 : 3;
    case ROW: return codes ? 7 : 3;
    case IN_PLACE:
        if (c->set->kind == RT_OP_ADD_RMSNORM_FWD) return 7;
        return c->set->kind == RT_OP_RMSNORM_BWD || codes ? 1 : 3;
    case ACC_DX: return is_backward(c) ? 3 : 1;
    case ACC_DW: return is_backward(c) && rt_case_has(c, RT_RMSB_DW) ? 3 : 1;
    default: return 3;
    }
}

static void fix(rt_op_case *c)
{
    if (!c->flag[HEADS]) c->dim[H] = 1;
    if (c->flag[HEADS] && c->dim[H] == 1) c->dim[H] = 2;
    if (is_backward(c) && c->flag[IN_PLACE]) c->flag[ACC_DX] = 0; /* what is there is dres */
    rt_case_hold_codes(c, c->dim[D]);
}

static float eps_of(const rt_op_case *c) { return c->flag[EPS] ? 0.3f : 1e-5f; }

/* normal; row 0 all zeros: then eps is all that is left under the root; one value of the middle row not a number */
static void fill_x(const rt_op_case *c, const rt_fill *f)
{
    rt_fill_normal(c, f);
    for (uint32_t k = 0; c->flag[ROW] == ROW_OF_ZEROS && k < f->cols; k++) f->x[k] = 0;
    if (c->flag[ROW] == ROW_LOST) f->x[((uint64_t)f->rows / 2) * f->cols + f->cols / 2] = NAN;
}

/* ---- forward ---- */

static void fwd_layout(const rt_op_case *c, rt_layout *l)
{
    const uint32_t *d = c->dim, wide = d[H] * d[D];
    l->slot[RT_RMS_Y] = RT_SLOT(d[N], wide, NULL, .in_place = c->flag[IN_PLACE] ? 1 + RT_RMS_X : 0);
    if (rt_case_codes(c)) l->slot[RT_RMS_SCALE] = RT_SLOT(d[N], 1, NULL);
    l->slot[RT_RMS_X] = RT_SLOT(d[N], wide, fill_x);
    l->slot[RT_RMS_W] = RT_SLOT(1, d[D], rt_fill_normal, 1, 0.3);
}

static void fwd_emit(rt_plan *p, const rt_op_case *c, const rt_view *v)
{
    rt_emit_rmsnorm_fwd(p, v[RT_RMS_Y], v[RT_RMS_SCALE], v[RT_RMS_X], v[RT_RMS_W], c->dim[H], eps_of(c));
}

static void add_fwd_layout(const rt_op_case *c, rt_layout *l)
{
    const uint32_t *d = c->dim;
    uint8_t on = c->flag[IN_PLACE];
    l->slot[RT_ARMS_Y] = RT_SLOT(d[N], d[D], NULL);
    if (rt_case_codes(c)) l->slot[RT_ARMS_SCALE] = RT_SLOT(d[N], 1, NULL);
    l->slot[RT_ARMS_H] = RT_SLOT(d[N], d[D], NULL, .in_place = on == 1 ? 1 + RT_ARMS_X : on == 2 ? 1 + RT_ARMS_RES : 0);
    l->slot[RT_ARMS_X] = RT_SLOT(d[N], d[D], fill_x);
    l->slot[RT_ARMS_RES] = RT_SLOT(d[N], d[D], fill_x);
    l->slot[RT_ARMS_W] = RT_SLOT(1, d[D], rt_fill_normal, 1, 0.3);
}

static void add_fwd_emit(rt_plan *p, const rt_op_case *c, const rt_view *v)
{
    rt_emit_add_rmsnorm_fwd(p, v[RT_ARMS_Y], v[RT_ARMS_SCALE], v[RT_ARMS_H], v[RT_ARMS_X], v[RT_ARMS_RES], v[RT_ARMS_W],
                            eps_of(c));
}

/* ---- backward ---- */

static void bwd_layout(const rt_op_case *c, rt_layout *l)
{
    const uint32_t *d = c->dim, wide = d[H] * d[D];
    bool fused = is_fused(c);
    l->slot[RT_RMSB_DX] = RT_SLOT(d[N], wide, c->flag[ACC_DX] ? rt_fill_normal : NULL,
                                  .in_place = c->flag[IN_PLACE] ? 1 + RT_RMSB_DRES : 0);
    if (rt_case_has(c, RT_RMSB_DW)) l->slot[RT_RMSB_DW] = RT_SLOT(1, d[D], c->flag[ACC_DW] ? rt_fill_normal : NULL);
    l->slot[RT_RMSB_DY] = RT_SLOT(d[N], wide, rt_fill_normal);
    l->slot[RT_RMSB_X] = RT_SLOT(d[N], wide, fill_x);
    l->slot[RT_RMSB_W] = RT_SLOT(1, d[D], rt_fill_normal, 1, 0.3);
    if (fused) l->slot[RT_RMSB_DRES] = RT_SLOT(d[N], wide, rt_fill_normal);
}

static void bwd_emit(rt_plan *p, const rt_op_case *c, const rt_view *v)
{
    rt_emit_rmsnorm_bwd(p, v[RT_RMSB_DX], v[RT_RMSB_DW], v[RT_RMSB_DY], v[RT_RMSB_X], v[RT_RMSB_W], c->dim[H],
                        eps_of(c));
}

static void add_bwd_emit(rt_plan *p, const rt_op_case *c, const rt_view *v)
{
    rt_emit_add_rmsnorm_bwd(p, v[RT_RMSB_DX], v[RT_RMSB_DW], v[RT_RMSB_DY], v[RT_RMSB_X], v[RT_RMSB_W], v[RT_RMSB_DRES],
                            eps_of(c));
}

/* dx: r |dy w| + |x| r^3 mean(|dy w x|) + |dx| + |dres|;  dw: sum of |dy x r| + |dw| */
static void bwd_terms(rt_values *v, uint32_t slot, const double *want, double *scale)
{
    const uint32_t *d = v->c->dim;
    const double *dy = rt_values_dense(v, RT_RMSB_DY), *x = rt_values_dense(v, RT_RMSB_X);
    const double *w = rt_values_dense(v, RT_RMSB_W);
    const double *before = v->layout.slot[slot].fill ? rt_values_dense(v, slot) : NULL;
    const double *dres = is_fused(v->c) && slot == RT_RMSB_DX ? rt_values_dense(v, RT_RMSB_DRES) : NULL;
    uint64_t n = (uint64_t)v->view[slot].rows * v->view[slot].cols;
    (void)want;
    for (uint64_t i = 0; i < n; i++) scale[i] = (before ? fabs(before[i]) : 0) + (dres ? fabs(dres[i]) : 0);
    for (uint64_t g = 0; g < (uint64_t)d[N] * d[H] && dy && x && w; g++) {
        const double *xi = x + g * d[D], *dyi = dy + g * d[D];
        double sum = 0, mean = 0;
        for (uint32_t k = 0; k < d[D]; k++) {
            sum += xi[k] * xi[k];
            mean += fabs(dyi[k] * w[k] * xi[k]) / d[D];
        }
        double r = 1 / sqrt(sum / d[D] + (double)eps_of(v->c));
        for (uint32_t k = 0; k < d[D]; k++) {
            if (slot == RT_RMSB_DX)
                scale[g * d[D] + k] += r * fabs(dyi[k] * w[k]) + fabs(xi[k]) * r * r * r * mean;
            else
                scale[k] += fabs(dyi[k] * xi[k]) * r;
        }
    }
}

static double width(const rt_op_case *c) { return c->dim[D]; }
static double width_and_rows(const rt_op_case *c) { return c->dim[D] + (double)c->dim[N] * c->dim[H]; }

#define COMMON .ndims = 3, RT_TABLE(shapes, shapes), RT_TABLE(flags, flags), .allowed = allowed, .fix = fix

const rt_op_set rt_op_set_rmsnorm_fwd = { .kind = RT_OP_RMSNORM_FWD,
                                          COMMON,
                                          .layout = fwd_layout,
                                          .emit = fwd_emit,
                                          .serial_terms = width,
                                          .large = { .signature = "bf16.bf16.bf16", .dim = { 61, 1, 1536 } } };
const rt_op_set rt_op_set_add_rmsnorm_fwd = { .kind = RT_OP_ADD_RMSNORM_FWD,
                                              COMMON,
                                              .layout = add_fwd_layout,
                                              .emit = add_fwd_emit,
                                              .serial_terms = width,
                                              .large = { .signature = "bf16.bf16.bf16", .dim = { 61, 1, 1536 } } };
const rt_op_set rt_op_set_rmsnorm_bwd = { .kind = RT_OP_RMSNORM_BWD,
                                          COMMON,
                                          .layout = bwd_layout,
                                          .emit = bwd_emit,
                                          .terms = bwd_terms,
                                          .serial_terms = width_and_rows,
                                          .large = { .signature = "bf16.f32.bf16", .dim = { 509, 1, 896 } } };
const rt_op_set rt_op_set_add_rmsnorm_bwd = { .kind = RT_OP_ADD_RMSNORM_BWD,
                                              COMMON,
                                              .layout = bwd_layout,
                                              .emit = add_bwd_emit,
                                              .terms = bwd_terms,
                                              .serial_terms = width_and_rows,
                                              .large = { .signature = "bf16.f32.bf16", .dim = { 509, 1, 896 } } };
