/* loss_plan.c - see loss_plan.h. */
#include "train/loss_plan.h"

static rt_view part(rt_plan *p, rt_view v, uint32_t first, uint32_t count)
{
    return v.buf ? rt_view_rows(p, v, first, count) : RT_NONE;
}

static void chunk_loss(rt_plan *p, const rt_decoder *student, const rt_decoder *teacher, const rt_loss_io *io,
                       const rt_loss_opts *o, uint32_t index, uint32_t first, uint32_t n)
{
    rt_view hidden = part(p, io->hidden, first, n);
    rt_view logits = rt_act(p, p->policy.logits, n, student->config.vocab, "logits"), from = RT_NONE;
    if (teacher) {
        from = rt_act(p, p->policy.logits, n, teacher->config.vocab, "teacher logits");
        rt_decoder_logits(p, teacher, from, part(p, io->teacher_hidden, first, n));
    }
    rt_decoder_logits(p, student, logits, hidden);
    bool distils = teacher || io->list.id.buf;
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
