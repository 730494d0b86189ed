/* emit_layer.c - emitters of what a decoder layer is made of, attention apart: embed, rmsnorm in its four forms,
 * matmul in its three forms, bias_grad, rope, swiglu.
 *
 * Owns: which shapes fit together in these ops. The checks themselves are in emit_internal.h; what is true of operands
 * in general (dtypes, aliasing, bounds, written before) is rt_plan_record's. */
#include "op/emit_internal.h"

void rt_emit_embed_fwd(rt_plan *p, rt_view y, rt_view table, rt_view ids)
{
    emit e;
    if (!emit_begin(&e, p, RT_OP_EMBED_FWD, EMIT_SLOTS(y, table, ids))) return;
    emit_shape(&e, RT_EMBED_Y, y.rows, table.cols, "the columns of table");
    emit_shape(&e, RT_EMBED_IDS, y.rows, 1, "an id for each row of y");
    e.args.embed = (rt_embed_args){ y.rows, table.rows, table.cols };
    emit_end(&e);
}

void rt_emit_embed_bwd(rt_plan *p, rt_view dtable, rt_view dy, rt_view ids)
{
    emit e;
    if (!emit_begin(&e, p, RT_OP_EMBED_BWD, EMIT_SLOTS(dtable, dy, ids))) return;
    emit_shape(&e, RT_EMBED_DY, dy.rows, dtable.cols, "the columns of dtable");
    emit_shape(&e, RT_EMBED_BIDS, dy.rows, 1, "an id for each row of dy");
    e.args.embed = (rt_embed_args){ dy.rows, dtable.rows, dtable.cols };
    emit_end(&e);
}

/* ---- rmsnorm ---- */

/* x: the slot that is normalised, heads groups to a row, each as wide as slot w. */
static void rmsnorm_groups(emit *e, int x, int w, uint32_t heads, float eps)
{
    rt_view v = e->s[x];
    emit_positive(e, "eps", eps);
    if (heads == 0 || v.cols % heads != 0) {
        emit_fail(e, "%s is (%u,%u): its %u columns are not %u heads of equal width", emit_slot_name(e, x), v.rows,
                  v.cols, v.cols, heads);
        return;
    }
    emit_shape(e, w, 1, v.cols / heads, "the width of a head");
    e->args.rmsnorm = (rt_rmsnorm_args){ v.rows, heads, v.cols / heads, eps };
}

void rt_emit_rmsnorm_fwd(rt_plan *p, rt_view y, rt_view scale, rt_view x, rt_view w, uint32_t heads, float eps)
{
    emit e;
    if (!emit_begin(&e, p, RT_OP_RMSNORM_FWD, EMIT_SLOTS(y, scale, x, w))) return;
    rmsnorm_groups(&e, RT_RMS_X, RT_RMS_W, heads, eps);
    emit_like(&e, RT_RMS_Y, RT_RMS_X);
    emit_coded(&e);
    if (emit_has(&e, RT_RMS_SCALE) && heads != 1)
        emit_fail(&e, "y is e4m3, which is made of whole rows, and there are %u heads", heads);
    emit_end(&e);
}

void rt_emit_rmsnorm_bwd(rt_plan *p, rt_view dx, rt_view dw, rt_view dy, rt_view x, rt_view w, uint32_t heads,
                         float eps)
{
    emit e;
    if (!emit_begin(&e, p, RT_OP_RMSNORM_BWD, EMIT_SLOTS(dx, dw, dy, x, w))) return;
    rmsnorm_groups(&e, RT_RMSB_X, RT_RMSB_W, heads, eps);
    emit_like(&e, RT_RMSB_DX, RT_RMSB_X);
    emit_like(&e, RT_RMSB_DY, RT_RMSB_X);
    emit_like(&e, RT_RMSB_DW, RT_RMSB_W);
    emit_end(&e);
}

void rt_emit_add_rmsnorm_fwd(rt_plan *p, rt_view y, rt_view scale, rt_view h, rt_view x, rt_view res, rt_view w,
                             float eps)
{
    emit e;
    if (!emit_begin(&e, p, RT_OP_ADD_RMSNORM_FWD, EMIT_SLOTS(y, scale, h, x, res, w))) return;
    rmsnorm_groups(&e, RT_ARMS_X, RT_ARMS_W, 1, eps);
    emit_like(&e, RT_ARMS_Y, RT_ARMS_X);
    emit_coded(&e);
    emit_like(&e, RT_ARMS_H, RT_ARMS_X);
    emit_like(&e, RT_ARMS_RES, RT_ARMS_X);
    emit_end(&e);
}

void rt_emit_add_rmsnorm_bwd(rt_plan *p, rt_view dx, rt_view dw, rt_view dy, rt_view h, rt_view w, rt_view dres,
                             float eps)
{
    emit e;
    if (!emit_begin(&e, p, RT_OP_ADD_RMSNORM_BWD, EMIT_SLOTS(dx, dw, dy, h, w, dres))) return;
    rmsnorm_groups(&e, RT_RMSB_X, RT_RMSB_W, 1, eps);
    emit_like(&e, RT_RMSB_DX, RT_RMSB_X);
    emit_like(&e, RT_RMSB_DY, RT_RMSB_X);
    emit_like(&e, RT_RMSB_DRES, RT_RMSB_X);
    emit_like(&e, RT_RMSB_DW, RT_RMSB_W);
    emit_end(&e);
}

/* ---- matmul ---- */

static bool is_transpose(char c) { return c == 'n' || c == 't'; }

void rt_emit_matmul(rt_plan *p, rt_view out, rt_view a, rt_view b, rt_view bias, const char *transposes, float alpha)
{
    emit e;
    if (!emit_begin(&e, p, RT_OP_MATMUL, EMIT_SLOTS(out, a, b, bias))) return;
    if (!transposes || !is_transpose(transposes[0]) || !is_transpose(transposes[1]) || transposes[2] != '\0') {
        emit_fail(&e, "transposes is \"%s\", expected nn, nt, tn or tt", transposes ? transposes : "");
        return;
    }
    bool ta = transposes[0] == 't', tb = transposes[1] == 't';
    uint32_t M = ta ? a.cols : a.rows, K = ta ? a.rows : a.cols, N = tb ? b.rows : b.cols;
    uint32_t K_of_b = tb ? b.cols : b.rows;
    rt_dtype d = rt_plan_dtype(p, b);
    if (rt_dtype_is_quant(d) && ta)
        emit_fail(&e, "b is %s, which takes transposes nn or nt, not %s", rt_dtype_name(d), transposes);
    if (K_of_b != K)
        emit_fail(&e, "a is (%u,%u) transposed %c, so b must have %u %s; it has %u", a.rows, a.cols, transposes[0], K,
                  tb ? "columns" : "rows", K_of_b);
    emit_shape(&e, RT_MM_OUT, M, N, "the rows of op(a), the columns of op(b)");
    emit_shape(&e, RT_MM_BIAS, 1, N, "a value for each column of out");
    emit_finite(&e, "alpha", alpha);
    e.args.matmul = (rt_matmul_args){ M, N, K, ta, tb, alpha };
    emit_end(&e);
}

void rt_emit_matmul_int8(rt_plan *p, rt_view out, rt_view a, rt_view b, rt_view bias)
{
    emit e;
    if (!emit_begin(&e, p, RT_OP_MATMUL_INT8, EMIT_SLOTS(out, a, b, bias))) return;
    if (a.cols != b.cols)
        emit_fail(&e, "a is (%u,%u), so b must have %u columns; it has %u", a.rows, a.cols, a.cols, b.cols);
    emit_shape(&e, RT_MM_OUT, a.rows, b.rows, "the rows of a, the rows of b");
    emit_shape(&e, RT_MM_BIAS, 1, b.rows, "a value for each column of out");
    e.args.matmul = (rt_matmul_args){ a.rows, b.rows, a.cols, 0, 1, 1.0f };
    emit_end(&e);
}

void rt_emit_matmul_scaled(rt_plan *p, rt_view out, rt_view a, rt_view sa, rt_view b, rt_view sb, rt_view bias)
{
    emit e;
    if (!emit_begin(&e, p, RT_OP_MATMUL_SCALED, EMIT_SLOTS(out, a, b, sa, sb, bias))) return;
    if (a.cols != b.cols)
        emit_fail(&e, "a is (%u,%u), so b must have %u columns; it has %u", a.rows, a.cols, a.cols, b.cols);
    emit_shape(&e, RT_MMS_OUT, a.rows, b.rows, "the rows of a, the rows of b");
    emit_shape(&e, RT_MMS_SA, a.rows, 1, "a scale for each row of a");
    emit_shape(&e, RT_MMS_SB, b.rows, 1, "a scale for each row of b");
    emit_shape(&e, RT_MMS_BIAS, 1, b.rows, "a value for each column of out");
    e.args.matmul = (rt_matmul_args){ a.rows, b.rows, a.cols, 0, 1, 1.0f };
    emit_end(&e);
}

void rt_emit_bias_grad(rt_plan *p, rt_view db, rt_view dy)
{
    emit e;
    if (!emit_begin(&e, p, RT_OP_BIAS_GRAD, EMIT_SLOTS(db, dy))) return;
    emit_shape(&e, RT_BIASG_DB, 1, dy.cols, "a value for each column of dy");
    e.args.rows = (rt_rows_args){ .N = dy.rows, .C = dy.cols };
    emit_end(&e);
}

/* ---- rope ---- */

static void emit_rope(rt_plan *p, rt_op_kind kind, rt_view y, rt_view x, rt_view freq, rt_view pos, float scale)
{
    emit e;
    if (!emit_begin(&e, p, kind, EMIT_SLOTS(y, x, freq, pos))) return;
    uint64_t D = 2 * (uint64_t)freq.cols; /* so a head is never odd: a pair has a frequency or is not there */
    if (x.cols % D != 0)
        emit_fail(&e, "%s is (%u,%u): its columns are not heads of %llu, twice the %u frequencies of freq",
                  emit_slot_name(&e, RT_ROPE_X), x.rows, x.cols, (unsigned long long)D, freq.cols);
    emit_shape(&e, RT_ROPE_FREQ, 1, freq.cols, "a frequency for each pair of a head");
    emit_like(&e, RT_ROPE_Y, RT_ROPE_X);
    emit_shape(&e, RT_ROPE_POS, x.rows, 1, "a position for each row");
    emit_positive(&e, "scale", scale);
    e.args.rope = (rt_rope_args){ x.rows, (uint32_t)(x.cols / D), (uint32_t)D, scale };
    emit_end(&e);
}

void rt_emit_rope_fwd(rt_plan *p, rt_view y, rt_view x, rt_view freq, rt_view pos, float scale)
{
    emit_rope(p, RT_OP_ROPE_FWD, y, x, freq, pos, scale);
}

void rt_emit_rope_bwd(rt_plan *p, rt_view dx, rt_view dy, rt_view freq, rt_view pos, float scale)
{
    emit_rope(p, RT_OP_ROPE_BWD, dx, dy, freq, pos, scale);
}

/* ---- swiglu ---- */

void rt_emit_swiglu_fwd(rt_plan *p, rt_view y, rt_view scale, rt_view g, rt_view u)
{
    emit e;
    if (!emit_begin(&e, p, RT_OP_SWIGLU_FWD, EMIT_SLOTS(y, scale, g, u))) return;
    emit_like(&e, RT_GLU_U, RT_GLU_G);
    emit_like(&e, RT_GLU_Y, RT_GLU_G);
    emit_coded(&e);
    e.args.swiglu = (rt_swiglu_args){ g.rows, g.cols };
    emit_end(&e);
}

void rt_emit_swiglu_bwd(rt_plan *p, rt_view dg, rt_view du, rt_view y, rt_view dy, rt_view g, rt_view u)
{
    emit e;
    if (!emit_begin(&e, p, RT_OP_SWIGLU_BWD, EMIT_SLOTS(dg, du, y, dy, g, u))) return;
    emit_like(&e, RT_GLUB_U, RT_GLUB_G);
    emit_like(&e, RT_GLUB_DY, RT_GLUB_G);
    emit_like(&e, RT_GLUB_DG, RT_GLUB_G);
    emit_like(&e, RT_GLUB_DU, RT_GLUB_G);
    if (y.buf) emit_like(&e, RT_GLUB_Y, RT_GLUB_G);
    e.args.swiglu = (rt_swiglu_args){ g.rows, g.cols };
    emit_end(&e);
}
