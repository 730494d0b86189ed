/* cases_comm.c - the cases of what ranks do together, here of one rank, for which every sum is its only term.
 *
 * tests/unit/test_all_reduce.c has the others: threads as ranks, each with a device of its own. Big: three pieces of
 * the cpu's. */
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
