/* loss_plan.c - see loss_plan.h. */
#include "train/loss_plan.h"

static rt_view part(rt_plan *p, rt_view v, uint32_t first, uint32_t count)
{
    return v.buf ? rt_view_rows(p, v, first, count) : RT_NONE;
}

rt_view rt_loss_mixed(rt_plan *p, rt_view mix, rt_view logits, rt_view share, rt_view vmask, uint32_t vocab, double T)
{
    rt_view out = mix.buf ? mix : rt_act(p, p->policy.scalar, logits.rows, vocab, "mixture");
    rt_emit_mix_logits(p, out, mix, logits, share, vmask, (float)T, 1.0f);
    return out;
}

/* What stands for the teacher's logits in a chunk: RT_NONE where there is none, or one that gives a list. */
static rt_view teacher_logits(rt_plan *p, const rt_decoder *student, const rt_decoder *teacher, const rt_loss_io *io,
                              const rt_loss_opts *o, uint32_t first, uint32_t n)
{
    const rt_loss_one one = { .decoder = teacher, .hidden = io->teacher_hidden };
    uint32_t count = io->mix ? io->mix->count : teacher != NULL;
    rt_view all = RT_NONE;
    for (uint32_t k = 0; k < count; k++) {
        const rt_loss_one *t = io->mix ? &io->mix->of[k] : &one;
        rt_view logits = rt_act(p, p->policy.logits, n, t->decoder->config.vocab, "teacher logits");
        rt_decoder_logits(p, t->decoder, logits, part(p, t->hidden, first, n));
        if (!io->mix) return logits;
        all = rt_loss_mixed(p, all, logits, part(p, t->share, first, n), io->vmask, student->config.vocab,
                            o->temperature);
    }
    return all;
}

static void chunk_loss(rt_plan *p, const rt_decoder *student, const rt_decoder *teacher, const rt_loss_io *io,
                       const rt_loss_opts *o, uint32_t index, uint32_t first, uint32_t n)
{
    rt_view hidden = part(p, io->hidden, first, n);
    rt_view logits = rt_act(p, p->policy.logits, n, student->config.vocab, "logits");
    rt_view from = teacher_logits(p, student, teacher, io, o, first, n);
    rt_decoder_logits(p, student, logits, hidden);
    bool distils = from.buf || io->list.id.buf;
    rt_kd_io kd = { .logits = logits,
                    .sums = io->sums,
                    .ce = part(p, io->ce, first, n),
                    .div = part(p, io->div, first, n),
                    .top1 = part(p, io->top1, first, n),
                    .fault = io->fault,
                    .target = part(p, io->target, first, n),
                    .step = io->step,
                    .teacher = from,
                    .tk_id = part(p, io->list.id, first, n),
                    .tk_logp = part(p, io->list.logp, first, n),
                    .tk_rest = part(p, io->list.rest, first, n),
                    .vmask = distils ? io->vmask : RT_NONE };
    rt_kd_opts opts = { .divergence = o->divergence,
                        .T = (float)o->temperature,
                        .mix = (float)o->mix,
                        .ce_weight = (float)o->ce_weight,
                        .kd_weight = distils ? (float)o->kd_weight : 0.0f,
                        .t2 = o->t2,
                        .grad = io->dhidden.buf != 0,
                        .site = RT_SITE_HEAD + index };
    rt_emit_kd_loss(p, &kd, &opts);
    if (io->dhidden.buf) rt_decoder_logits_backward(p, student, logits, hidden, part(p, io->dhidden, first, n));
}

void rt_loss_record(rt_plan *p, const rt_decoder *student, const rt_decoder *teacher, const rt_loss_io *io,
                    const rt_loss_opts *o, uint32_t chunk)
{
    uint32_t N = io->hidden.rows;
    if (chunk == 0) rt_plan_fail(p, RT_INVALID, "the head is cut in chunks of at least one token");
    for (uint32_t first = 0, i = 0; chunk && first < N; first += chunk, i++) {
        rt_plan_label(p, "head chunk %u", i);
        chunk_loss(p, student, teacher, io, o, i, first, N - first < chunk ? N - first : chunk);
    }
}
