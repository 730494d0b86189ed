/* emit_loss.c - emitters of what reads logits: kd_loss, mix_logits, topk, draw, sample.
 *
 * Owns: which options of the loss make sense together (section 5 of the design). What they mean is defined by
 * `backend/ref`. */
#include "num/draw.h"
#include "op/emit_internal.h"

rt_div_mix rt_divergence_mix(rt_divergence d)
{
    static const rt_div_mix of[RT_DIV_COUNT] = {
#define X(name, word, label, title, mix) RT_MIX_##mix,
        RT_DIVERGENCE_LIST(X)
#undef X
    };
    return (unsigned)d < RT_DIV_COUNT ? of[d] : RT_MIX_NONE;
}

static void kd_options(emit *e, const rt_kd_opts *o)
{
    if ((unsigned)o->divergence >= RT_DIV_COUNT)
        emit_fail(e, "divergence is %u, expected 0 to %u", (unsigned)o->divergence, (unsigned)RT_DIV_COUNT - 1);
    emit_positive(e, "T", o->T);
    /* A mixture that is all p (or all q) has no q (or p) left to learn from. */
    if (rt_divergence_mix(o->divergence) == RT_MIX_SKEW && !(o->mix >= 0 && o->mix < 1))
        emit_fail(e, "mix is %g, expected 0 <= mix < 1 for a skewed divergence", (double)o->mix);
    if (!(o->mix >= 0 && o->mix <= 1)) emit_fail(e, "mix is %g, expected 0 <= mix <= 1", (double)o->mix);
    emit_not_negative(e, "ce_weight", o->ce_weight);
    emit_not_negative(e, "kd_weight", o->kd_weight);
    if (o->ce_weight == 0 && o->kd_weight == 0) emit_fail(e, "ce_weight and kd_weight are both 0: there is no loss");
}

/* The teacher is given as full logits, or as all three parts of top-k, or not at all. */
static void kd_teacher(emit *e, const rt_kd_opts *o)
{
    rt_view logits = e->s[RT_KD_LOGITS], teacher = e->s[RT_KD_TEACHER], tk_id = e->s[RT_KD_TK_ID];
    bool full = emit_has(e, RT_KD_TEACHER), id = emit_has(e, RT_KD_TK_ID), logp = emit_has(e, RT_KD_TK_LOGP);
    bool rest = emit_has(e, RT_KD_TK_REST), topk = id || logp || rest;
    if (full && topk)
        emit_fail(e, "teacher is given as full logits and as top-k (%s); expected one of the two",
                  id     ? "tk_id"
                  : logp ? "tk_logp"
                         : "tk_rest");
    if (topk && !(id && logp && rest))
        emit_fail(e, "%s is missing: a top-k teacher is tk_id, tk_logp and tk_rest",
                  !id     ? "tk_id"
                  : !logp ? "tk_logp"
                          : "tk_rest");
    if (o->kd_weight > 0 && !full && !topk) emit_fail(e, "kd_weight is %g without a teacher", (double)o->kd_weight);
    if (full) {
        emit_shape(e, RT_KD_TEACHER, logits.rows, teacher.cols, "the rows of logits");
        if (teacher.cols != logits.cols && !emit_has(e, RT_KD_VMASK))
            emit_fail(e, "teacher is (%u,%u) and logits is (%u,%u): vocabularies that differ need vmask", teacher.rows,
                      teacher.cols, logits.rows, logits.cols);
    } else if (topk) {
        if (tk_id.cols > logits.cols)
            emit_fail(e, "tk_id is (%u,%u): k is over the %u columns of logits", tk_id.rows, tk_id.cols, logits.cols);
        emit_shape(e, RT_KD_TK_ID, logits.rows, tk_id.cols, "the rows of logits");
        emit_like(e, RT_KD_TK_LOGP, RT_KD_TK_ID);
        emit_shape(e, RT_KD_TK_REST, logits.rows, 1, "the mass left over in each row of logits");
    }
}

void rt_emit_kd_loss(rt_plan *p, const rt_kd_io *io, const rt_kd_opts *o)
{
    emit e;
    if (!emit_begin(&e, p, RT_OP_KD_LOSS,
                    EMIT_SLOTS(io->logits, io->sums, io->ce, io->div, io->top1, io->fault, io->target, io->step,
                               io->teacher, io->tk_id, io->tk_logp, io->tk_rest, io->vmask)))
        return;
    uint32_t N = io->logits.rows, V = io->logits.cols;
    kd_options(&e, o);
    kd_teacher(&e, o);
    emit_shape(&e, RT_KD_SUMS, 1, 4, "CE, divergence, agreements, positions");
    emit_shape(&e, RT_KD_CE, N, 1, "a value for each row of logits");
    emit_shape(&e, RT_KD_DIV, N, 1, "a value for each row of logits");
    emit_shape(&e, RT_KD_TOP1, N, 1, "a value for each row of logits");
    emit_shape(&e, RT_KD_TARGET, N, 1, "a token for each row of logits");
    emit_fault(&e, RT_KD_FAULT);
    emit_step(&e, RT_KD_STEP);
    emit_vmask(&e, RT_KD_VMASK, V);
    e.args.kd = (rt_kd_args){ .N = N,
                              .V = V,
                              .U = io->teacher.cols,
                              .k = io->tk_id.cols,
                              .divergence = (uint32_t)o->divergence,
                              .T = o->T,
                              .mix = o->mix,
                              .ce_weight = o->ce_weight,
                              .kd_weight = o->kd_weight,
                              .t2 = o->t2,
                              .grad = o->grad,
                              .site = o->site };
    emit_end(&e);
}

void rt_emit_mix_logits(rt_plan *p, rt_view y, rt_view y0, rt_view x, rt_view weight, rt_view vmask, float T, float w)
{
    emit e;
    if (!emit_begin(&e, p, RT_OP_MIX_LOGITS, EMIT_SLOTS(y, y0, x, weight, vmask))) return;
    emit_like(&e, RT_MIX_Y0, RT_MIX_Y);
    emit_shape(&e, RT_MIX_X, y.rows, x.cols, "the rows of y");
    emit_shape(&e, RT_MIX_WEIGHT, y.rows, 1, "a value for each row of y");
    emit_vmask(&e, RT_MIX_VMASK, y.cols);
    if (x.cols != y.cols && !emit_has(&e, RT_MIX_VMASK))
        emit_fail(&e, "x is (%u,%u) and y is (%u,%u): vocabularies that differ need vmask", x.rows, x.cols, y.rows,
                  y.cols);
    emit_positive(&e, "T", T);
    emit_positive(&e, "w", w);
    e.args.mix = (rt_mix_args){ y.rows, y.cols, x.cols, T, w };
    emit_end(&e);
}

void rt_emit_draw(rt_plan *p, rt_view id, rt_view logp, rt_view entropy, rt_view x, rt_view vmask, rt_view key,
                  rt_view step, float T)
{
    emit e;
    if (!emit_begin(&e, p, RT_OP_DRAW, EMIT_SLOTS(id, logp, entropy, x, vmask, key, step))) return;
    if (id.cols > RT_DRAW_MOST)
        emit_fail(&e, "id is (%u,%u): at most %u draws for a row", id.rows, id.cols, (unsigned)RT_DRAW_MOST);
    if (x.cols > RT_DRAW_IDS) emit_fail(&e, "x is (%u,%u): at most %u columns", x.rows, x.cols, (unsigned)RT_DRAW_IDS);
    emit_shape(&e, RT_DRAW_ID, x.rows, id.cols, "the rows of x");
    emit_like(&e, RT_DRAW_LOGP, RT_DRAW_ID);
    emit_shape(&e, RT_DRAW_ENTROPY, x.rows, 1, "a value for each row of x");
    emit_vmask(&e, RT_DRAW_VMASK, x.cols);
    emit_shape(&e, RT_DRAW_KEY, x.rows, 2, "two words for each row of x");
    emit_step(&e, RT_DRAW_STEP);
    emit_positive(&e, "T", T);
    e.args.draw = (rt_draw_args){ x.rows, x.cols, id.cols, T };
    emit_end(&e);
}

void rt_emit_topk(rt_plan *p, rt_view id, rt_view logp, rt_view rest, rt_view x, rt_view vmask, float T)
{
    emit e;
    if (!emit_begin(&e, p, RT_OP_TOPK, EMIT_SLOTS(id, logp, rest, x, vmask))) return;
    if (id.cols > x.cols) emit_fail(&e, "id is (%u,%u): k is over the %u columns of x", id.rows, id.cols, x.cols);
    emit_shape(&e, RT_TOPK_ID, x.rows, id.cols, "the rows of x");
    emit_like(&e, RT_TOPK_LOGP, RT_TOPK_ID);
    emit_shape(&e, RT_TOPK_REST, x.rows, 1, "the mass left over in each row of x");
    emit_vmask(&e, RT_TOPK_VMASK, x.cols);
    emit_positive(&e, "T", T);
    e.args.topk = (rt_topk_args){ x.rows, x.cols, id.cols, T };
    emit_end(&e);
}

void rt_emit_sample(rt_plan *p, rt_view id, rt_view logp, rt_view seen, rt_view x, rt_view key, rt_view how)
{
    emit e;
    if (!emit_begin(&e, p, RT_OP_SAMPLE, EMIT_SLOTS(id, logp, seen, x, key, how))) return;
    emit_shape(&e, RT_SAMPLE_ID, x.rows, 1, "an id for each row of x");
    emit_shape(&e, RT_SAMPLE_LOGP, x.rows, 1, "a value for each row of x");
    emit_shape(&e, RT_SAMPLE_SEEN, x.rows, ((uint64_t)x.cols + 31) / 32, "a bit for each element of x");
    emit_shape(&e, RT_SAMPLE_KEY, x.rows, 2, "two words for each row of x");
    emit_shape(&e, RT_SAMPLE_HOW, x.rows, RT_HOW_COLS, "how each row of x chooses");
    e.args.sample = (rt_sample_args){ x.rows, x.cols };
    emit_end(&e);
}
