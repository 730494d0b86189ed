/* cases_comm.c - the cases of what ranks do together, here of one rank, for which every sum is its only term.
 *
 * tests/unit/test_all_reduce.c and test_slices.c have the others: threads as ranks, each with a device of its own. Big:
 * three pieces of the cpu's. */
#include "verify/values.h"

enum { N, C };
enum { FAULT };

static const rt_op_shape shapes[] = { { RT_SHAPE_ODD, { 7, 19 } },
                                      { RT_SHAPE_ONE, { 1, 1 } },
                                      { RT_SHAPE_BIG, { 3, 1048583 } } };
static const rt_op_flag flags[] = { RT_FLAG("fault", "", "fault", "fault-set") };

static void layout(const rt_op_case *c, rt_layout *l)
{
    l->slot[RT_REDUCE_X] = RT_SLOT(c->dim[N], c->dim[C], rt_fill_normal);
    if (c->flag[FAULT]) l->slot[RT_REDUCE_FAULT] = RT_SLOT(1, 4, rt_fill_fault, c->flag[FAULT] == 2);
}

static void emit(rt_plan *p, const rt_op_case *c, const rt_view *v)
{
    (void)c;
    rt_emit_all_reduce(p, v[RT_REDUCE_X], v[RT_REDUCE_FAULT], 1);
}

const rt_op_set rt_op_set_all_reduce = { .kind = RT_OP_ALL_REDUCE,
                                         .ndims = 2,
                                         RT_TABLE(shapes, shapes),
                                         RT_TABLE(flags, flags),
                                         .layout = layout,
                                         .emit = emit,
                                         .large = { .signature = "f32", .dim = { 61, 1536 } } };

/* ---- slices that ranks own ---- */

enum { ELEMS };       /* of the one row */
enum { SLICE, ADDS }; /* all of it; behind a third of it; before its last third; none */

static const rt_op_shape slice_shapes[] = { { RT_SHAPE_ODD, { 133 } },
                                            { RT_SHAPE_ONE, { 1 } },
                                            { RT_SHAPE_BIG, { 3145749 } } };
static const rt_op_flag slice_flags[] = { RT_FLAG("slice", "all", "behind", "before", "none"),
                                          RT_FLAG("own", "", "acc") };
static const rt_op_flag gather_flags[] = { RT_FLAG("slice", "all", "behind", "before", "none") };

static rt_slice slice_of(const rt_op_case *c)
{
    uint32_t n = c->dim[ELEMS], third = n / 3;
    switch (c->flag[SLICE]) {
    case 1: return (rt_slice){ third, n - third, n };
    case 2: return (rt_slice){ 0, n - third, n - third };
    case 3: return (rt_slice){ third, 0, n };
    default: return (rt_slice){ 0, n, n };
    }
}

static void scatter_layout(const rt_op_case *c, rt_layout *l)
{
    l->slot[RT_SCATTER_X] = RT_SLOT(1, c->dim[ELEMS], rt_fill_normal);
    uint32_t count = slice_of(c).count;
    if (count) l->slot[RT_SCATTER_OWN] = RT_SLOT(1, count, c->flag[ADDS] ? rt_fill_normal : NULL);
}

static void emit_scatter(rt_plan *p, const rt_op_case *c, const rt_view *v)
{
    rt_emit_reduce_scatter(p, v[RT_SCATTER_OWN], v[RT_SCATTER_X], slice_of(c), 1);
}

static void gather_layout(const rt_op_case *c, rt_layout *l)
{
    l->slot[RT_GATHER_X] = RT_SLOT(1, c->dim[ELEMS], rt_fill_normal);
}

static void emit_gather(rt_plan *p, const rt_op_case *c, const rt_view *v)
{
    rt_emit_all_gather(p, v[RT_GATHER_X], slice_of(c), 1);
}

const rt_op_set rt_op_set_reduce_scatter = { .kind = RT_OP_REDUCE_SCATTER,
                                             .ndims = 1,
                                             RT_TABLE(shapes, slice_shapes),
                                             RT_TABLE(flags, slice_flags),
                                             .layout = scatter_layout,
                                             .emit = emit_scatter };

const rt_op_set rt_op_set_all_gather = { .kind = RT_OP_ALL_GATHER,
                                         .ndims = 1,
                                         RT_TABLE(shapes, slice_shapes),
                                         RT_TABLE(flags, gather_flags),
                                         .layout = gather_layout,
                                         .emit = emit_gather };
