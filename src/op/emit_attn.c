/* emit_attn.c - emitters of attention: forward, backward, decode.
 *
 * Owns: what a head layout (T, H, K, D) asks of q, k, v, o and lse. Heads lie side by side in a row: q and o have H of
 * D columns, k and v have K of them; head h of q reads head h / (H/K) of k and v. */
#include "op/emit_internal.h"

enum { MAX_HEAD_WIDTH = 256, HEAD_WIDTH_UNIT = 8 };

/* What the numbers must be by themselves. T is called by the name it has in the op. false: refused. */
static bool attn_numbers(emit *e, const rt_attn_shape *s, const char *T_name)
{
    if (!s) {
        emit_fail(e, "no shape (T, H, K, D) is given");
        return false;
    }
    if (s->T == 0 || s->T > INT32_MAX) emit_fail(e, "%s is %u, expected 1 to %d", T_name, s->T, INT32_MAX);
    if (s->H == 0 || s->K == 0) emit_fail(e, "H is %u and K is %u: neither may be 0", s->H, s->K);
    if (s->D == 0 || s->D % HEAD_WIDTH_UNIT != 0 || s->D > MAX_HEAD_WIDTH)
        emit_fail(e, "D is %u, expected a multiple of %d up to %d", s->D, HEAD_WIDTH_UNIT, MAX_HEAD_WIDTH);
    if (s->K != 0 && s->H % s->K != 0) emit_fail(e, "H is %u, expected a multiple of K, which is %u", s->H, s->K);
    if (s->window > INT32_MAX) emit_fail(e, "window is %u, expected 0 (none) to %d", s->window, INT32_MAX);
    emit_finite(e, "scale", s->scale);
    return e->ok;
}

/* 1/sqrt(D) rounded once from double: the same bits on every machine. */
static float attn_scale(const rt_attn_shape *s) { return s->scale != 0 ? s->scale : (float)(1 / sqrt((double)s->D)); }

/* Every slot in `wide` has the rows and columns of q, every slot in `narrow` those of k. */
static void attn_operands(emit *e, const rt_attn_shape *s, int q, uint64_t wide, uint64_t narrow)
{
    rt_view v = e->s[q];
    uint64_t wide_cols = (uint64_t)s->H * s->D, narrow_cols = (uint64_t)s->K * s->D;
    if (v.rows % s->T != 0)
        emit_fail(e, "%s is (%u,%u): its %u rows are not a multiple of T, which is %u", emit_slot_name(e, q), v.rows,
                  v.cols, v.rows, s->T);
    for (int i = 0; i < RT_MAX_SLOTS; i++) {
        if (wide >> i & 1) emit_shape(e, i, v.rows, wide_cols, "the rows of q, H*D columns");
        if (narrow >> i & 1) emit_shape(e, i, v.rows, narrow_cols, "the rows of q, K*D columns");
    }
    e->args.attn = (rt_attn_args){ v.rows / s->T, s->T, s->H, s->K, s->D, s->window, attn_scale(s), s->rounded };
}

static void attn_lse_and_start(emit *e, int q, int lse, int start, uint32_t H)
{
    emit_shape(e, lse, e->s[q].rows, H, "the rows of q, a column for each head");
    emit_shape(e, start, e->s[q].rows, 1, "the first position of its document for each row of q");
}

#define BIT(slot) (UINT64_C(1) << (slot))

void rt_emit_attn_fwd(rt_plan *p, rt_view o, rt_view lse, rt_view q, rt_view k, rt_view v, rt_view start,
                      const rt_attn_shape *s)
{
    emit e;
    if (!emit_begin(&e, p, RT_OP_ATTN_FWD, EMIT_SLOTS(o, lse, q, k, v, start))) return;
    if (!attn_numbers(&e, s, "T")) return;
    attn_operands(&e, s, RT_ATTN_Q, BIT(RT_ATTN_Q) | BIT(RT_ATTN_O), BIT(RT_ATTN_K) | BIT(RT_ATTN_V));
    attn_lse_and_start(&e, RT_ATTN_Q, RT_ATTN_LSE, RT_ATTN_START, s->H);
    emit_end(&e);
}

void rt_emit_attn_bwd(rt_plan *p, rt_view dq, rt_view dk, rt_view dv, rt_view d_o, rt_view q, rt_view k, rt_view v,
                      rt_view o, rt_view lse, rt_view start, const rt_attn_shape *s)
{
    emit e;
    if (!emit_begin(&e, p, RT_OP_ATTN_BWD, EMIT_SLOTS(dq, dk, dv, d_o, q, k, v, o, lse, start))) return;
    if (!attn_numbers(&e, s, "T")) return;
    attn_operands(&e, s, RT_ATTNB_Q, BIT(RT_ATTNB_Q) | BIT(RT_ATTNB_O) | BIT(RT_ATTNB_DO) | BIT(RT_ATTNB_DQ),
                  BIT(RT_ATTNB_K) | BIT(RT_ATTNB_V) | BIT(RT_ATTNB_DK) | BIT(RT_ATTNB_DV));
    attn_lse_and_start(&e, RT_ATTNB_Q, RT_ATTNB_LSE, RT_ATTNB_START, s->H);
    emit_end(&e);
}

/* Rows of cache of each of B sequences; 0: refused. */
static uint32_t cache_rows(emit *e, const rt_attn_shape *s, uint32_t B)
{
    const rt_view kc = e->s[RT_DEC_KC], table = e->s[RT_DEC_TABLE];
    if (!emit_has(e, RT_DEC_TABLE)) {
        if (kc.rows % B != 0)
            emit_fail(e, "kc is (%u,%u): its %u rows are not a multiple of the %u sequences of q", kc.rows, kc.cols,
                      kc.rows, B);
        return e->ok ? kc.rows / B : 0;
    }
    emit_shape(e, RT_DEC_TABLE, B, table.cols, "the pages of each sequence of q");
    if (s->page == 0 || s->page % RT_CACHE_PAGE != 0)
        emit_fail(e, "page is %u, expected a multiple of %d", s->page, RT_CACHE_PAGE);
    else if (kc.rows % s->page != 0)
        emit_fail(e, "kc is (%u,%u): its %u rows are not a multiple of a page, which is %u", kc.rows, kc.cols, kc.rows,
                  s->page);
    else if ((uint64_t)table.cols * s->page > INT32_MAX)
        emit_fail(e, "table is (%u,%u): %u pages of %u rows are too long for a sequence", table.rows, table.cols,
                  table.cols, s->page);
    return e->ok ? table.cols * s->page : 0;
}

void rt_emit_attn_decode(rt_plan *p, rt_view o, rt_view q, rt_view kc, rt_view vc, rt_view len, rt_view table,
                         const rt_attn_shape *s)
{
    emit e;
    if (!emit_begin(&e, p, RT_OP_ATTN_DECODE, EMIT_SLOTS(o, q, kc, vc, len, table))) return;
    if (!attn_numbers(&e, s, "T")) return;
    uint32_t B = q.rows / s->T, S = 0;
    if (B == 0 || q.rows % s->T != 0)
        emit_fail(&e, "q is (%u,%u): its %u rows are not a multiple of T, the %u new tokens of a sequence", q.rows,
                  q.cols, q.rows, s->T);
    else
        S = cache_rows(&e, s, B);
    if (e.ok && S < s->T)
        emit_fail(&e, "kc is (%u,%u): %u rows for each of %u sequences cannot hold %u new tokens", kc.rows, kc.cols, S,
                  B, s->T);
    emit_shape(&e, RT_DEC_Q, q.rows, (uint64_t)s->H * s->D, "H*D columns");
    emit_like(&e, RT_DEC_O, RT_DEC_Q);
    emit_shape(&e, RT_DEC_KC, kc.rows, (uint64_t)s->K * s->D, "K*D columns");
    emit_like(&e, RT_DEC_VC, RT_DEC_KC);
    emit_shape(&e, RT_DEC_LEN, B, 1, "a length for each sequence");
    e.args.decode = (rt_decode_args){ B, s->T, S, s->H, s->K, s->D, s->window, attn_scale(s), table.buf ? s->page : 0 };
    emit_end(&e);
}
