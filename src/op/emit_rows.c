/* emit_rows.c - emitters of the ops that take rows as they are: add, scale, cast, copy, fill, quant,
 * dequant, quant_rows, dropout.
 *
 * Owns: that their operands have one shape, except where copy scatters rows. */
#include "op/emit_internal.h"

void rt_emit_add(rt_plan *p, rt_view y, rt_view a, rt_view b)
{
    emit e;
    if (!emit_begin(&e, p, RT_OP_ADD, EMIT_SLOTS(y, a, b))) return;
    emit_like(&e, RT_ROWS_B, RT_ROWS_X);
    emit_like(&e, RT_ROWS_Y, RT_ROWS_X);
    e.args.rows = (rt_rows_args){ .N = y.rows, .C = y.cols };
    emit_end(&e);
}

void rt_emit_scale(rt_plan *p, rt_view y, rt_view x, rt_view s, float alpha)
{
    emit e;
    if (!emit_begin(&e, p, RT_OP_SCALE, EMIT_SLOTS(y, x, s))) return;
    emit_like(&e, RT_ROWS_Y, RT_ROWS_X);
    emit_shape(&e, RT_ROWS_B, 1, 1, "one factor");
    emit_finite(&e, "alpha", alpha);
    e.args.rows = (rt_rows_args){ .N = y.rows, .C = y.cols, .alpha = alpha };
    emit_end(&e);
}

/* y and x of one shape, and nothing else. */
static void emit_pair(rt_plan *p, rt_op_kind kind, rt_view y, rt_view x)
{
    emit e;
    if (!emit_begin(&e, p, kind, EMIT_SLOTS(y, x))) return;
    emit_like(&e, RT_ROWS_Y, RT_ROWS_X);
    e.args.rows = (rt_rows_args){ .N = y.rows, .C = y.cols };
    emit_end(&e);
}

void rt_emit_cast(rt_plan *p, rt_view y, rt_view x) { emit_pair(p, RT_OP_CAST, y, x); }

void rt_emit_dequant(rt_plan *p, rt_view y, rt_view x) { emit_pair(p, RT_OP_DEQUANT, y, x); }

void rt_emit_quant(rt_plan *p, rt_view y, rt_view x) { emit_pair(p, RT_OP_QUANT, y, x); }

void rt_emit_quant_rows(rt_plan *p, rt_view y, rt_view scale, rt_view x)
{
    emit e;
    if (!emit_begin(&e, p, RT_OP_QUANT_ROWS, EMIT_SLOTS(y, scale, x))) return;
    emit_like(&e, RT_QROWS_Y, RT_QROWS_X);
    emit_shape(&e, RT_QROWS_SCALE, x.rows, 1, "a scale for each row of x");
    e.args.rows = (rt_rows_args){ .N = x.rows, .C = x.cols };
    emit_end(&e);
}

void rt_emit_copy(rt_plan *p, rt_view y, rt_view x, rt_view rows)
{
    emit e;
    if (!emit_begin(&e, p, RT_OP_COPY, EMIT_SLOTS(y, x, rows))) return;
    if (emit_has(&e, RT_ROWS_B)) {
        emit_shape(&e, RT_ROWS_Y, y.rows, x.cols, "the columns of x");
        emit_shape(&e, RT_ROWS_B, x.rows, 1, "where each row of x goes");
    } else {
        emit_like(&e, RT_ROWS_Y, RT_ROWS_X);
    }
    e.args.rows = (rt_rows_args){ .N = x.rows, .C = x.cols, .R = emit_has(&e, RT_ROWS_B) ? y.rows : 0 };
    emit_end(&e);
}

/* Any value, non-finite ones too: a mask is filled with -inf, a guard with NaN. */
void rt_emit_fill(rt_plan *p, rt_view y, float value)
{
    emit e;
    if (!emit_begin(&e, p, RT_OP_FILL, EMIT_SLOTS(y))) return;
    e.args.rows = (rt_rows_args){ .N = y.rows, .C = y.cols, .alpha = value };
    emit_end(&e);
}

void rt_emit_dropout(rt_plan *p, rt_view y, rt_view x, rt_view step, float drop, uint32_t stream)
{
    emit e;
    if (!emit_begin(&e, p, RT_OP_DROPOUT, EMIT_SLOTS(y, x, step))) return;
    emit_like(&e, RT_DROP_Y, RT_DROP_X);
    emit_step(&e, RT_DROP_STEP);
    if (!(drop >= 0 && drop < 1)) emit_fail(&e, "p is %g, expected 0 <= p < 1", (double)drop);
    e.args.dropout = (rt_dropout_args){ x.rows, x.cols, drop, stream };
    emit_end(&e);
}
