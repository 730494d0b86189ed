/* vk_rows.c - dispatches of the plain row ops: add, scale, cast, fill, copy. */
#include "backend/vulkan/vk_op.h"

enum { ADD, SCALE, CAST, FILL }; /* of vk_rows.comp */

static bool rows_need(const rt_plan *p, const rt_op *op, rt_need *need)
{
    (void)p, (void)op;
    return vk_takes(need, "one pass, an element at a time");
}

static void rows_push(rt_vk_builder *b, const rt_bound_op *o, uint32_t which, uint32_t slots)
{
    const rt_operand *s = o->slot;
    rt_dtype x = o->nslots > RT_ROWS_X ? s[RT_ROWS_X].dtype : RT_DTYPE_F32;
    vk_push_rows(b, o, "vk_rows", slots, (const uint32_t[RT_VK_SPECS]){ which, s[RT_ROWS_Y].dtype, x });
}

static void add_emit(rt_vk_builder *b, const rt_bound_op *o) { rows_push(b, o, ADD, 7); }
static void scale_emit(rt_vk_builder *b, const rt_bound_op *o) { rows_push(b, o, SCALE, 3); }
static void cast_emit(rt_vk_builder *b, const rt_bound_op *o) { rows_push(b, o, CAST, 3); }
static void fill_emit(rt_vk_builder *b, const rt_bound_op *o) { rows_push(b, o, FILL, 1); }

/* ---- copy ---- */

static bool copy_need(const rt_plan *p, const rt_op *op, rt_need *need)
{
    if (rt_plan_buffer(p, op->slot[RT_ROWS_X])->cls == RT_CLASS_DISK)
        return vk_takes(need, "read by the host, while the device goes on");
    return vk_takes(need, "one pass, a unit at a time");
}

/* By row numbers those of all rows behind are compared. */
static uint64_t copy_rounds(const rt_op *op) { return op->slot[RT_ROWS_B].buf ? op->args.rows.N : 0; }

/* The same operand in units of so many bytes, a whole number of which its rows and their distance are. */
static void in_units(rt_operand *o, uint32_t unit)
{
    o->stride = rt_dtype_bytes(o->dtype, o->stride) / unit;
    o->cols = (uint32_t)(rt_dtype_bytes(o->dtype, o->cols) / unit);
    o->dtype = unit == 4 ? RT_DTYPE_U32 : unit == 2 ? RT_DTYPE_I16 : RT_DTYPE_U8;
}

static void copy_emit(rt_vk_builder *b, const rt_bound_op *o)
{
    rt_bound_op c = *o;
    uint64_t bits = 0;
    if (o->slot[RT_ROWS_X].reader) {
        rt_vk_push_fetch(b, &o->slot[RT_ROWS_Y], &o->slot[RT_ROWS_X]);
        return;
    }
    for (uint32_t i = RT_ROWS_Y; i <= RT_ROWS_X; i++) { /* memory begins on multiples of 16 */
        const rt_operand *s = &o->slot[i];
        bits |= s->off | rt_dtype_bytes(s->dtype, s->cols) | rt_dtype_bytes(s->dtype, s->stride);
    }
    uint32_t unit = bits % 4 == 0 ? 4 : bits % 2 == 0 ? 2 : 1;
    bool by_rows = o->slot[RT_ROWS_B].mem;
    in_units(&c.slot[RT_ROWS_Y], unit);
    in_units(&c.slot[RT_ROWS_X], unit);
    rt_vk_rows r = by_rows ? (rt_vk_rows){ o->args.rows.N, c.slot[RT_ROWS_X].cols } : vk_rows(&c, 3);
    rt_vk_dispatch d = { .shader = "vk_copy",
                         .spec = { unit, by_rows },
                         .own = { r.rows, r.cols },
                         .items = r.rows * vk_div_up(r.cols, RT_VK_PART) };
    rt_vk_push(b, &c, &d);
}

const rt_vk_op rt_vk_add = { rows_need, add_emit, NULL };
const rt_vk_op rt_vk_scale = { rows_need, scale_emit, NULL };
const rt_vk_op rt_vk_cast = { rows_need, cast_emit, NULL };
const rt_vk_op rt_vk_fill = { rows_need, fill_emit, NULL };
const rt_vk_op rt_vk_copy = { copy_need, copy_emit, copy_rounds };

/* ---- what ranks do together: a run of several is refused when it is sealed, and told what can do it ---- */

static bool reduce_need(const rt_plan *p, const rt_op *op, rt_need *need)
{
    (void)p;
    (void)op;
    return vk_refuses(need, "sums over ranks are computed on the CPU; give --device cpu, or start one rank");
}

static void reduce_emit(rt_vk_builder *b, const rt_bound_op *o)
{
    (void)b;
    (void)o;
}

const rt_vk_op rt_vk_all_reduce = { reduce_need, reduce_emit, NULL };
const rt_vk_op rt_vk_reduce_scatter = { reduce_need, reduce_emit, NULL };
const rt_vk_op rt_vk_all_gather = { reduce_need, reduce_emit, NULL };
