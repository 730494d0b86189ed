/* record.c - appending an op: what it reads must have been written, what it writes is remembered, `+=` becomes `=`
 * where nothing is there yet. All by element ranges (region.h), so parts of a buffer have histories of their own. */
#include "op/plan_internal.h"

static const bool class_defined[RT_CLASS_COUNT] = {
#define X(name, text, keeps, defined) defined,
    RT_CLASS_LIST(X)
#undef X
};

static bool add_whole(rt_region *g, const rt_buffer *b)
{
    rt_region whole = { &(rt_rect){ 0, b->rows, 0, b->cols }, 1, 1 };
    return rt_region_add(g, &whole);
}

/* What has been written of a view's buffer; null after an error. */
static rt_region *written(rt_plan *p, rt_view v)
{
    if (v.buf & RT_ACT_BIT) return &p->written_acts[v.buf & ~RT_ACT_BIT];
    rt_space *s = p->space;
    if (!rt_grow((void **)&p->written_space, &p->written_space_cap, s->nbufs, sizeof *p->written_space)) {
        rt_plan_fail(p, RT_NOMEM, "no memory to track %u buffers", s->nbufs);
        return NULL;
    }
    while (p->nwritten_space < s->nbufs) {
        const rt_buffer *b = &s->bufs[p->nwritten_space];
        rt_region *g = &p->written_space[p->nwritten_space++];
        *g = (rt_region){ 0 };
        if (class_defined[b->cls] && !add_whole(g, b)) rt_plan_fail(p, RT_NOMEM, "no memory to track '%s'", b->name);
    }
    return p->err.status ? NULL : &p->written_space[v.buf - 1];
}

void rt_plan_assume_defined(rt_plan *p, rt_view v)
{
    const rt_buffer *b = rt_plan_buffer(p, v);
    if (p->err.status) return;
    if (!b) {
        rt_plan_fail(p, RT_INVALID, "a view without a buffer cannot be assumed to be defined");
        return;
    }
    rt_region *g = written(p, v);
    if (g && !add_whole(g, b)) rt_plan_fail(p, RT_NOMEM, "no memory to track '%s'", b->name);
}

static void check_bounds(rt_plan *p, rt_op_kind kind, const rt_view *slots)
{
    const rt_op_spec *spec = &rt_op_specs[kind];
    RT_FOR_SLOTS (i, kind) {
        rt_view v = slots[i];
        const rt_buffer *b = rt_plan_buffer(p, v);
        if (!b) {
            if (v.buf)
                rt_plan_fail(p, RT_INVALID, "%s: operand '%s' names a buffer of another plan", spec->name,
                             spec->slot[i].name);
            else if (!spec->slot[i].optional)
                rt_plan_fail(p, RT_INVALID, "%s: operand '%s' is missing", spec->name, spec->slot[i].name);
            continue;
        }
        uint64_t elems = (uint64_t)b->rows * b->cols, block = rt_dtype_table[b->dtype].block_elems, end;
        bool fits = v.rows && v.cols && (v.rows == 1 || v.stride >= v.cols) && v.off % block == 0 &&
                    v.cols % block == 0 && (v.rows == 1 || v.stride % block == 0) &&
                    rt_mul_u64(v.rows - 1, v.stride, &end) && rt_add_u64(end, v.cols, &end) &&
                    rt_add_u64(end, v.off, &end) && end <= elems;
        if (!fits)
            rt_plan_fail(p, RT_INVALID, "%s: operand '%s' does not lie inside buffer '%s' (%u,%u) %s", spec->name,
                         spec->slot[i].name, b->name, b->rows, b->cols, rt_dtype_name(b->dtype));
    }
}

static bool is_gapless(rt_view v) { return v.rows == 1 || v.stride == v.cols; }

/* What is not in the device's memory is read by a copy alone, as one piece. */
static void check_away(rt_plan *p, rt_op_kind kind, const rt_view *slots)
{
    RT_FOR_SLOTS (i, kind) {
        const rt_buffer *b = rt_plan_buffer(p, slots[i]);
        if (!b || !rt_class_is_away(b->cls)) continue;
        bool fetched = kind == RT_OP_COPY && i == RT_ROWS_X && !slots[RT_ROWS_B].buf && is_gapless(slots[i]) &&
                       is_gapless(slots[RT_ROWS_Y]);
        if (!fetched)
            rt_plan_fail(p, RT_INVALID, "%s: operand '%s' is the %s '%s', which only a copy without gaps can read",
                         rt_op_name(kind), rt_op_specs[kind].slot[i].name, rt_class_name(b->cls), b->name);
    }
}

static bool same_view(rt_view a, rt_view b)
{
    return a.buf == b.buf && a.off == b.off && a.rows == b.rows && a.cols == b.cols &&
           (a.stride == b.stride || a.rows == 1);
}

/* 1: they share elements, 0: they do not, -1: out of memory (told to the plan) */
static int overlap(rt_plan *p, rt_view a, rt_view b)
{
    rt_region ga = { 0 }, gb = { 0 };
    const rt_buffer *buf = rt_plan_buffer(p, a);
    int hit = -1;
    if (a.buf != b.buf) return 0;
    if (rt_region_of_view(&ga, buf, a) && rt_region_of_view(&gb, buf, b))
        hit = rt_region_overlap(&ga, &gb);
    else
        rt_plan_fail(p, RT_NOMEM, "no memory to compare operands");
    rt_region_free(&ga);
    rt_region_free(&gb);
    return hit;
}

/* Outputs may overlap another operand only where the op says that it works in place, and then exactly.
 * Returns the slots that do, as bits. */
static uint32_t check_alias(rt_plan *p, rt_op_kind kind, const rt_view *slots)
{
    const rt_op_spec *spec = &rt_op_specs[kind];
    uint32_t in_place = 0;
    RT_FOR_SLOTS (i, kind) {
        if (!slots[i].buf || spec->slot[i].access == RT_READ) continue;
        RT_FOR_SLOTS (j, kind) {
            if (j == i || !slots[j].buf || (j < i && spec->slot[j].access != RT_READ)) continue;
            if (overlap(p, slots[i], slots[j]) != 1) continue;
            if ((spec->slot[i].alias >> j & 1) && same_view(slots[i], slots[j])) {
                in_place |= 1u << i;
                continue;
            }
            rt_plan_fail(p, RT_INVALID, "%s: output '%s' overlaps operand '%s' in buffer '%s'", spec->name,
                         spec->slot[i].name, spec->slot[j].name, rt_plan_buffer(p, slots[i])->name);
        }
    }
    return in_place;
}

/* The parts of a view that nothing wrote yet. false: out of memory (told to the plan). */
static bool unwritten(rt_plan *p, rt_view v, rt_region *left, uint64_t *left_elems)
{
    rt_region want = { 0 };
    rt_region *have = written(p, v);
    bool ok = have && rt_region_of_view(&want, rt_plan_buffer(p, v), v) && rt_region_subtract(left, &want, have);
    if (!ok) rt_plan_fail(p, RT_NOMEM, "no memory to track '%s'", rt_plan_buffer(p, v)->name);
    *left_elems = ok ? rt_region_elems(left) : 0;
    rt_region_free(&want);
    return ok;
}

static void check_read(rt_plan *p, rt_op_kind kind, uint32_t slot, rt_view v)
{
    rt_region left = { 0 };
    uint64_t n;
    if (unwritten(p, v, &left, &n) && n)
        rt_plan_fail(
            p, RT_INVALID,
            "%s: operand '%s' reads '%s' before anything wrote it (%llu of %llu elements, first at row %u, column %u)",
            rt_op_name(kind), rt_op_specs[kind].slot[slot].name, rt_plan_buffer(p, v)->name, (unsigned long long)n,
            (unsigned long long)v.rows * v.cols, left.rect[0].r0, left.rect[0].c0);
    rt_region_free(&left);
}

/* Fills with 0 what `+=` would otherwise add to garbage. */
static void fill_gaps(rt_plan *p, rt_view v, const rt_region *left)
{
    uint32_t C = rt_plan_buffer(p, v)->cols;
    for (uint32_t i = 0; i < left->n; i++) {
        rt_rect r = left->rect[i];
        rt_view gap = { v.buf, r.r1 - r.r0, r.c1 - r.c0, (uint64_t)r.r0 * C + r.c0, C };
        rt_args a = { .rows = { .N = gap.rows, .C = gap.cols, .alpha = 0.0f } };
        rt_view slots[RT_MAX_SLOTS] = { gap };
        rt_plan_record(p, RT_OP_FILL, &a, slots);
    }
}

/* Does this slot add (true), or is it the first to write and assigns? */
static bool resolve_accum(rt_plan *p, rt_view v, bool sparse)
{
    rt_region left = { 0 };
    uint64_t n;
    bool adds = true;
    if (unwritten(p, v, &left, &n)) {
        if (n == (uint64_t)v.rows * v.cols && !sparse)
            adds = false;
        else if (n)
            fill_gaps(p, v, &left);
    }
    rt_region_free(&left);
    return adds;
}

static void mark_written(rt_plan *p, rt_view v)
{
    rt_region add = { 0 };
    rt_region *have = written(p, v);
    if (!have || !rt_region_of_view(&add, rt_plan_buffer(p, v), v) || !rt_region_add(have, &add))
        rt_plan_fail(p, RT_NOMEM, "no memory to track '%s'", rt_plan_buffer(p, v)->name);
    rt_region_free(&add);
}

void rt_plan_record(rt_plan *p, rt_op_kind kind, const rt_args *args, const rt_view *slots)
{
    uint32_t acc = 0, in_place = 0;
    if (p->err.status) return;
    check_bounds(p, kind, slots);
    if (!p->err.status) check_away(p, kind, slots);
    if (!p->err.status) rt_plan_check_dtypes(p, kind, slots);
    if (!p->err.status) in_place = check_alias(p, kind, slots);
    RT_FOR_SLOTS (i, kind) {
        rt_access access = rt_op_access(kind, i, slots);
        if (slots[i].buf && !p->err.status &&
            (access == RT_READ || access == RT_READ_WRITE || access == RT_WRITE_SPARSE))
            check_read(p, kind, i, slots[i]);
    }
    RT_FOR_SLOTS (i, kind) {
        rt_access access = rt_op_access(kind, i, slots);
        if (!slots[i].buf || p->err.status || (access != RT_ACCUM && access != RT_ACCUM_SPARSE)) continue;
        /* in place: what is there is the operand that the op reads, not a sum to add to */
        if (!(in_place >> i & 1) && resolve_accum(p, slots[i], access == RT_ACCUM_SPARSE)) acc |= 1u << i;
    }
    if (p->err.status) return;
    if (!rt_grow((void **)&p->ops, &p->ops_cap, p->nops + 1, sizeof *p->ops)) {
        rt_plan_fail(p, RT_NOMEM, "no memory for another op");
        return;
    }
    rt_op *op = &p->ops[p->nops];
    *op = (rt_op){ .kind = kind, .queue = p->queue, .acc = acc, .args = *args, .label = p->label };
    RT_FOR_SLOTS (i, kind) op->slot[i] = slots[i];
    RT_FOR_SLOTS (i, kind)
        if (slots[i].buf && rt_op_access(kind, i, slots) != RT_READ) mark_written(p, slots[i]);
    p->nops++;
}
