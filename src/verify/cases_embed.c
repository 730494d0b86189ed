/* cases_embed.c - the cases of embed_fwd and embed_bwd.
 *
 * Big: a chunk of the cpu forward is 16384 elements of y, in strips of 256 columns; of the backward, 64 columns. 4500
 * columns are more than a block of a GPU decodes. */
#include "verify/values.h"

#include <math.h>

enum { N, V, C };            /* dimensions */
enum { STRAY, REPEAT, ACC }; /* flags */

static const rt_op_flag fwd_flags[] = { RT_FLAG("ids outside the table", "", "stray") };
static const rt_op_flag bwd_flags[] = { RT_FLAG("ids outside the table", "", "stray"),
                                        RT_FLAG("few different ids", "", "repeats"), RT_FLAG("dtable", "", "acc") };
static const rt_op_shape fwd_shapes[] = { { RT_SHAPE_ODD, { 7, 11, 13 } },
                                          { RT_SHAPE_ONE, { 1, 1, 1 } },
                                          { RT_SHAPE_BIG, { 97, 53, 601 } },
                                          { RT_SHAPE_BIG, { 97, 53, 608 } },
                                          { RT_SHAPE_BIG, { 13, 7, 4500 } } };
static const rt_op_shape bwd_shapes[] = { { RT_SHAPE_ODD, { 13, 7, 11 } },
                                          { RT_SHAPE_ONE, { 1, 1, 1 } },
                                          { RT_SHAPE_BIG, { 307, 53, 211 } },
                                          { RT_SHAPE_BIG, { 2311, 53, 24 } } };

static void fix(rt_op_case *c) { c->dim[C] = rt_case_block(c, RT_EMBED_TABLE, c->dim[C]); }

static void fwd_layout(const rt_op_case *c, rt_layout *l)
{
    const uint32_t *d = c->dim;
    l->slot[RT_EMBED_Y] = RT_SLOT(d[N], d[C], NULL);
    l->slot[RT_EMBED_TABLE] = RT_SLOT(d[V], d[C], rt_fill_normal);
    l->slot[RT_EMBED_IDS] = RT_SLOT(d[N], 1, rt_fill_below, d[V], c->flag[STRAY] ? 4 : 0);
}

static void fwd_emit(rt_plan *p, const rt_op_case *c, const rt_view *v)
{
    (void)c;
    rt_emit_embed_fwd(p, v[RT_EMBED_Y], v[RT_EMBED_TABLE], v[RT_EMBED_IDS]);
}

const rt_op_set rt_op_set_embed_fwd = {
    .kind = RT_OP_EMBED_FWD,
    .ndims = 3,
    RT_TABLE(shapes, fwd_shapes),
    RT_TABLE(flags, fwd_flags),
    .fix = fix,
    .layout = fwd_layout,
    .emit = fwd_emit,
    .large = { .signature = "bf16.bf16", .dim = { 61, 47, 1536 } },
};

static void bwd_layout(const rt_op_case *c, rt_layout *l)
{
    const uint32_t *d = c->dim;
    uint32_t ids = c->flag[REPEAT] && d[V] > 3 ? 3 : d[V];
    l->slot[RT_EMBED_DTABLE] = RT_SLOT(d[V], d[C], c->flag[ACC] ? rt_fill_normal : NULL);
    l->slot[RT_EMBED_DY] = RT_SLOT(d[N], d[C], rt_fill_normal);
    /* strays are outside [0,ids), so with repeats some of them are ids that occur once */
    l->slot[RT_EMBED_BIDS] = RT_SLOT(d[N], 1, rt_fill_below, ids, c->flag[STRAY] ? 4 : 0);
}

static void bwd_emit(rt_plan *p, const rt_op_case *c, const rt_view *v)
{
    (void)c;
    rt_emit_embed_bwd(p, v[RT_EMBED_DTABLE], v[RT_EMBED_DY], v[RT_EMBED_BIDS]);
}

/* |dtable| + sum of |dy| */
static void bwd_terms(rt_values *v, uint32_t slot, const double *want, double *scale)
{
    const uint32_t *d = v->c->dim;
    const double *before = v->c->flag[ACC] ? rt_values_dense(v, slot) : NULL, *dy = rt_values_dense(v, RT_EMBED_DY);
    (void)want;
    for (uint64_t i = 0; i < (uint64_t)d[V] * d[C]; i++) scale[i] = before ? fabs(before[i]) : 0;
    for (uint32_t n = 0; n < d[N] && dy; n++) {
        int32_t id = *rt_values_row(v, RT_EMBED_BIDS, n);
        if (id < 0 || (uint32_t)id >= d[V]) continue;
        for (uint32_t k = 0; k < d[C]; k++) scale[(uint64_t)id * d[C] + k] += fabs(dy[(uint64_t)n * d[C] + k]);
    }
}

const rt_op_set rt_op_set_embed_bwd = {
    .kind = RT_OP_EMBED_BWD,
    .ndims = 3,
    RT_TABLE(shapes, bwd_shapes),
    RT_TABLE(flags, bwd_flags),
    .layout = bwd_layout,
    .emit = bwd_emit,
    .terms = bwd_terms,
    .large = { .signature = "f32.bf16", .dim = { 61, 47, 1536 }, .coarse = true },
};
