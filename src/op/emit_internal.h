/* emit_internal.h - what every emitter does before it records: is the operand there, has it the shape that the others
 * ask for, is the number one that the op can work with. For emit_*.c only.
 *
 * Owns: the wording of refusals: the op, the operand, what it has, what was expected. Every refusal here is RT_INVALID
 * and sticks to the plan; the first one is kept, so an emitter runs its checks one after another without asking.
 * Leaves dtypes, aliasing, bounds and "was it written" to rt_plan_record. */
#ifndef RT_OP_EMIT_INTERNAL_H
#define RT_OP_EMIT_INTERNAL_H

#include "op/emit.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>

typedef struct emit {
    rt_plan *p;
    rt_op_kind kind;
    const rt_op_spec *spec;
    bool ok; /* no refusal so far */
    rt_view s[RT_MAX_SLOTS];
    rt_args args; /* cleared first, so that no op carries bytes that nobody set */
} emit;

/* The views of an op in the order of its slots, and how many they are. */
#define EMIT_SLOTS(...)                                                                                                \
    (const rt_view[]){ __VA_ARGS__ }, (uint32_t)(sizeof((const rt_view[]){ __VA_ARGS__ }) / sizeof(rt_view))

__attribute__((format(printf, 2, 3))) static inline void emit_fail(emit *e, const char *format, ...)
{
    char text[sizeof e->p->err.text];
    va_list args;
    if (!e->ok) return;
    e->ok = false;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    rt_plan_fail(e->p, RT_INVALID, "%s: %s", e->spec->name, text);
}

static inline bool emit_has(const emit *e, int slot) { return e->s[slot].buf != 0; }

static inline const char *emit_slot_name(const emit *e, int slot) { return e->spec->slot[slot].name; }

static inline void emit_check_slot(emit *e, int slot)
{
    const char *name = emit_slot_name(e, slot);
    rt_view v = e->s[slot];
    if (!emit_has(e, slot)) {
        if (!e->spec->slot[slot].optional) emit_fail(e, "%s is missing", name);
        return;
    }
    const rt_buffer *b = rt_plan_buffer(e->p, v);
    if (!b) { /* a view that was made for another plan */
        emit_fail(e, "%s is a view of a buffer that this plan does not have", name);
        return;
    }
    if (v.rows == 0 || v.cols == 0) emit_fail(e, "%s is (%u,%u): no dimension may be 0", name, v.rows, v.cols);
    if (v.rows > INT32_MAX || v.cols > INT32_MAX)
        emit_fail(e, "%s is (%u,%u): a dimension is over %d", name, v.rows, v.cols, INT32_MAX);
    uint32_t block = rt_dtype_table[b->dtype].block_elems;
    if (v.cols % block != 0)
        emit_fail(e, "%s is (%u,%u) %s, so its columns must be a multiple of %u", name, v.rows, v.cols,
                  rt_dtype_name(b->dtype), block);
}

/* false: the plan has failed, now or before, and the emitter returns. */
static inline bool emit_begin(emit *e, rt_plan *p, rt_op_kind kind, const rt_view *views, uint32_t nviews)
{
    memset(e, 0, sizeof *e);
    e->p = p;
    e->kind = kind;
    e->spec = &rt_op_specs[kind];
    e->ok = p->err.status == RT_OK && p->space->err.status == RT_OK;
    if (e->ok && nviews != rt_op_slots(kind)) {
        e->ok = false;
        rt_plan_fail(p, RT_INTERNAL, "%s: emitted with %u operands, it has %u", e->spec->name, nviews,
                     rt_op_slots(kind));
    }
    if (!e->ok) return false;
    memcpy(e->s, views, nviews * sizeof *views);
    for (uint32_t i = 0; i < nviews; i++) emit_check_slot(e, (int)i);
    return e->ok;
}

static inline void emit_end(emit *e)
{
    if (e->ok) rt_plan_record(e->p, e->kind, &e->args, e->s);
}

/* The slot, when it is there, is (rows,cols); why says where the two come from. */
static inline void emit_shape(emit *e, int slot, uint64_t rows, uint64_t cols, const char *why)
{
    rt_view v = e->s[slot];
    if (!emit_has(e, slot) || (v.rows == rows && v.cols == cols)) return;
    emit_fail(e, "%s is (%u,%u), expected (%llu,%llu): %s", emit_slot_name(e, slot), v.rows, v.cols,
              (unsigned long long)rows, (unsigned long long)cols, why);
}

/* The slot, when it is there, has the shape of another. */
static inline void emit_like(emit *e, int slot, int other)
{
    rt_view v = e->s[slot], o = e->s[other];
    if (!emit_has(e, slot) || (v.rows == o.rows && v.cols == o.cols)) return;
    emit_fail(e, "%s is (%u,%u), expected (%u,%u): the shape of %s", emit_slot_name(e, slot), v.rows, v.cols, o.rows,
              o.cols, emit_slot_name(e, other));
}

static inline void emit_finite(emit *e, const char *name, float x)
{
    if (!isfinite(x)) emit_fail(e, "%s is %g, expected a finite number", name, (double)x);
}

static inline void emit_positive(emit *e, const char *name, float x)
{
    if (!(isfinite(x) && x > 0)) emit_fail(e, "%s is %g, expected a finite number above 0", name, (double)x);
}

static inline void emit_not_negative(emit *e, const char *name, float x)
{
    if (!(isfinite(x) && x >= 0)) emit_fail(e, "%s is %g, expected a finite number not below 0", name, (double)x);
}

/* ---- operands that several ops have ---- */

/* y as codes has a scale for each row, and else none. */
static inline void emit_coded(emit *e)
{
    rt_dtype d = rt_plan_dtype(e->p, e->s[RT_CODED_Y]);
    if (d == RT_DTYPE_E4M3 && !emit_has(e, RT_CODED_SCALE)) emit_fail(e, "y is e4m3, and its scale is missing");
    if (d != RT_DTYPE_E4M3 && emit_has(e, RT_CODED_SCALE))
        emit_fail(e, "scale is given, but y is %s: only codes, e4m3, have scales", rt_dtype_name(d));
    emit_shape(e, RT_CODED_SCALE, e->s[RT_CODED_Y].rows, 1, "a scale for each row of y");
}

static inline void emit_step(emit *e, int slot)
{
    emit_shape(e, slot, 1, sizeof(rt_step), "the bytes of the step values");
}

static inline void emit_fault(emit *e, int slot) { emit_shape(e, slot, 1, 4, "the words of the fault record"); }

/* A fault record holds the step at which it was set, so who may set one needs both. */
static inline void emit_fault_and_step(emit *e, int fault, int step)
{
    if (emit_has(e, fault) != emit_has(e, step))
        emit_fail(e, "%s is given without %s: fault and step are given together",
                  emit_slot_name(e, emit_has(e, fault) ? fault : step),
                  emit_slot_name(e, emit_has(e, fault) ? step : fault));
    emit_fault(e, fault);
    emit_step(e, step);
}

/* One bit for each of V ids. */
static inline void emit_vmask(emit *e, int slot, uint32_t V)
{
    emit_shape(e, slot, 1, ((uint64_t)V + 31) / 32, "a bit for each column of the logits");
}

#endif
