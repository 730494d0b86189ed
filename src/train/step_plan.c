/* step_plan.c - see step_plan.h. */
#include "train/update_plan.h"

#include <stdio.h>

uint32_t rt_head_chunk(uint32_t tokens, uint64_t token_bytes, uint64_t room)
{
    enum { STEP = 16 };
    uint64_t fit = room / token_bytes / STEP * STEP;
    if (fit < STEP) fit = STEP;
    if (fit >= tokens) return tokens;
    uint64_t chunks = (tokens + fit - 1) / fit; /* as even as steps of 16 allow, so that the last is no remnant */
    return (uint32_t)(((tokens + chunks - 1) / chunks + STEP - 1) / STEP * STEP);
}

static uint32_t default_chunk(const rt_step_opts *o)
{
    uint64_t outcomes = (uint64_t)o->student->vocab + (o->teacher ? o->teacher->vocab : 0);
    uint64_t bytes = rt_dtype_bytes(o->policy.logits, outcomes);
    if (o->other_count) bytes += rt_dtype_bytes(o->policy.scalar, o->student->vocab); /* the mixture */
    return rt_head_chunk(o->B * o->T, bytes, o->head_bytes ? o->head_bytes : 64u << 20);
}

static rt_view column(rt_step_plan *s, rt_class cls, rt_dtype d, const char *name)
{
    return rt_space_buf(s->space, cls, d, s->opts.B * s->opts.T, 1, name);
}

static void declare_picks(rt_step_plan *s)
{
    const rt_step_opts *o = &s->opts;
    rt_dtype d = o->policy.logits;
    s->pick = rt_space_buf(s->space, RT_CLASS_INPUT, RT_DTYPE_I32, o->picks, 1, "picked positions");
    s->logits = rt_space_buf(s->space, RT_CLASS_OUTPUT, d, o->picks, o->student->vocab, "picked logits");
    if (s->teacher && !o->other_count)
        s->teacher_logits =
            rt_space_buf(s->space, RT_CLASS_OUTPUT, d, o->picks, o->teacher->vocab, "picked teacher logits");
    if (!o->other_count) return;
    d = o->policy.scalar;
    s->teacher_logits = rt_space_buf(s->space, RT_CLASS_OUTPUT, d, o->picks, o->student->vocab, "picked mixture");
    for (uint32_t k = 0; k <= o->other_count; k++)
        s->pick_share[k] = rt_space_buf(s->space, RT_CLASS_INPUT, d, o->picks, 1, "picked shares");
}

/* ---- several teachers ---- */

static rt_decoder *teacher_at(const rt_step_plan *s, uint32_t k) { return k ? s->more[k - 1].decoder : s->teacher; }
static rt_view hidden_at(const rt_step_plan *s, uint32_t k) { return k ? s->more[k - 1].hidden : s->teacher_hidden; }
static rt_view ahead_at(const rt_step_plan *s, uint32_t k) { return k ? s->more[k - 1].ahead_hidden : s->ahead_hidden; }
/* Live ones and heads; one that gives lists is none of them. */
static uint32_t teachers_of(const rt_step_plan *s) { return s->teacher ? 1 + s->opts.other_count : 0; }

/* The hidden states of a teacher by position of the student, and, where it has a prompt, what it reads. */
static rt_view declare_hidden(rt_step_plan *s, uint32_t k, uint32_t width)
{
    const rt_step_opts *o = &s->opts;
    rt_step_reading *r = &s->reading[k];
    rt_view v = rt_space_buf(s->space, RT_CLASS_OUTPUT, o->policy.act, o->B * o->T, width, "teacher hidden");
    if (!o->prompts[k]) return v;
    uint32_t len = o->T + rt_prompt_extra(o->prompts[k]), n = o->B * len;
    r->tokens = (rt_tokens){ .B = o->B, .T = len };
    r->tokens.ids = rt_space_buf(s->space, RT_CLASS_INPUT, RT_DTYPE_I32, n, 1, "teacher's ids");
    r->tokens.pos = rt_space_buf(s->space, RT_CLASS_INPUT, RT_DTYPE_I32, n, 1, "teacher's positions");
    r->tokens.start = rt_space_buf(s->space, RT_CLASS_INPUT, RT_DTYPE_I32, n, 1, "teacher's document starts");
    r->place = rt_space_buf(s->space, RT_CLASS_INPUT, RT_DTYPE_I32, n, 1, "teacher's places");
    return v;
}

static void declare_several(rt_step_plan *s)
{
    const rt_step_opts *o = &s->opts;
    rt_dtype scalar = o->policy.scalar;
    uint32_t ahead = o->ahead > 1 ? o->ahead * o->B * o->T : 0;
    for (uint32_t k = 0; o->other_count && k <= o->other_count; k++)
        s->share[k] = column(s, RT_CLASS_INPUT, scalar, "teacher's share");
    for (uint32_t k = 0; k < o->other_count; k++) {
        uint32_t width = o->others[k].config->width;
        rt_step_more *m = &s->more[k];
        m->hidden = declare_hidden(s, k + 1, width);
        if (ahead)
            m->ahead_hidden =
                rt_space_buf(s->space, RT_CLASS_OUTPUT, o->policy.act, ahead, width, "teacher hidden ahead");
        m->teacher_ce = column(s, RT_CLASS_OUTPUT, scalar, "evaluation teacher ce");
    }
}

/* What a teacher with a prompt reads in a pass, put where the student has it. */
static void record_reading(rt_step_plan *s, rt_plan *p, uint32_t k)
{
    const rt_step_reading *r = &s->reading[k];
    rt_view all = hidden_at(s, k), own = rt_act(p, p->policy.act, r->place.rows, all.cols, "teacher's own hidden");
    rt_decoder_forward(p, teacher_at(s, k), &r->tokens, NULL, own);
    rt_plan_assume_defined(p, all);
    rt_emit_copy(p, all, own, r->place);
}

/* The teachers' forwards, one after another: what one needs while it computes the next has after it. */
static void record_teachers(rt_step_plan *s, rt_plan *p, const rt_tokens *tokens, bool ahead)
{
    for (uint32_t k = 0; k < teachers_of(s); k++)
        if (s->reading[k].tokens.B)
            record_reading(s, p, k);
        else
            rt_decoder_forward(p, teacher_at(s, k), tokens, NULL, ahead ? ahead_at(s, k) : hidden_at(s, k));
}

/* Null where there are not several. */
static const rt_loss_mix *mix_of(const rt_step_plan *s, rt_loss_mix *m)
{
    m->count = teachers_of(s);
    for (uint32_t k = 0; k < m->count; k++) m->of[k] = (rt_loss_one){ teacher_at(s, k), hidden_at(s, k), s->share[k] };
    return m->count > 1 ? m : NULL;
}

static void declare_ahead(rt_step_plan *s)
{
    const rt_step_opts *o = &s->opts;
    rt_space *sp = s->space;
    uint32_t rows = o->ahead * o->B * o->T;
    s->ahead_tokens = (rt_tokens){ .B = o->ahead * o->B, .T = o->T };
    s->ahead_tokens.ids = rt_space_buf(sp, RT_CLASS_INPUT, RT_DTYPE_I32, rows, 1, "ids ahead");
    s->ahead_tokens.pos = rt_space_buf(sp, RT_CLASS_INPUT, RT_DTYPE_I32, rows, 1, "positions ahead");
    s->ahead_tokens.start = rt_space_buf(sp, RT_CLASS_INPUT, RT_DTYPE_I32, rows, 1, "document starts ahead");
    s->ahead_rows = column(s, RT_CLASS_INPUT, RT_DTYPE_I32, "rows ahead");
    s->ahead_hidden = rt_space_buf(sp, RT_CLASS_OUTPUT, o->policy.act, rows, o->teacher->width, "teacher hidden ahead");
}

/* whose: "teacher's" */
static rt_step_list declare_list(rt_step_plan *s, uint32_t n, const char *whose)
{
    char id[64], logp[64], rest[64];
    uint32_t rows = s->opts.B * s->opts.T;
    rt_dtype scalar = s->opts.policy.scalar;
    snprintf(id, sizeof id, "%s ids", whose);
    snprintf(logp, sizeof logp, "%s log-probabilities", whose);
    snprintf(rest, sizeof rest, "%s rest", whose);
    return (rt_step_list){ .id = rt_space_buf(s->space, RT_CLASS_INPUT, RT_DTYPE_I32, rows, n, id),
                           .logp = rt_space_buf(s->space, RT_CLASS_INPUT, scalar, rows, n, logp),
                           .rest = rt_space_buf(s->space, RT_CLASS_INPUT, scalar, rows, 1, rest) };
}

/* Programs run one after another, so that the lists of training and of evaluation share their buffers where they are of
 * one size; evaluation reads both of its own. */
static void declare_lists(rt_step_plan *s)
{
    const rt_step_opts *o = &s->opts;
    const rt_source_shape *shape = &o->source;
    if (!o->eval_only) s->list = declare_list(s, shape->n, "teacher's");
    bool same = s->list.id.buf && shape->n == shape->held_n;
    s->held[0] = same ? s->list : declare_list(s, shape->held_n, "held-out teacher's");
    s->held[1] = o->loss.temperature == 1 ? s->held[0] : declare_list(s, shape->held_n, "held-out teacher's at T");
}

static void declare_data(rt_step_plan *s)
{
    const rt_step_opts *o = &s->opts;
    rt_dtype scalar = o->policy.scalar;
    rt_space *sp = s->space;
    s->tokens = (rt_tokens){ .B = o->B, .T = o->T };
    s->tokens.ids = column(s, RT_CLASS_INPUT, RT_DTYPE_I32, "ids");
    s->tokens.pos = column(s, RT_CLASS_INPUT, RT_DTYPE_I32, "positions");
    s->tokens.start = column(s, RT_CLASS_INPUT, RT_DTYPE_I32, "document starts");
    s->target = column(s, RT_CLASS_INPUT, RT_DTYPE_I32, "targets");
    s->step = rt_space_buf(sp, RT_CLASS_STEP, RT_DTYPE_U8, 1, sizeof(rt_step), "step values");
    s->fault = rt_space_buf(sp, RT_CLASS_STATE, RT_DTYPE_U32, 1, 4, "fault");
    s->sums = rt_space_buf(sp, RT_CLASS_OUTPUT, scalar, 1, 4, "sums");
    s->eval_sums = rt_space_buf(sp, RT_CLASS_OUTPUT, scalar, 1, 4, "evaluation sums");
    s->nsq = rt_space_buf(sp, RT_CLASS_OUTPUT, scalar, 1, 1, "gradient norm squared");
    s->norm = rt_space_buf(sp, RT_CLASS_OUTPUT, scalar, 1, 1, "gradient norm");
    s->clip = rt_space_buf(sp, RT_CLASS_OUTPUT, scalar, 1, 1, "gradient scale");
    s->eval.ce = column(s, RT_CLASS_OUTPUT, scalar, "evaluation ce");
    if (!rt_step_plan_distils(s)) return;
    if (rt_source_lists(&o->source)) declare_lists(s);
    if (s->teacher) s->teacher_hidden = declare_hidden(s, 0, o->teacher->width);
    if (s->teacher && o->ahead > 1) declare_ahead(s);
    declare_several(s);
    s->eval.div = column(s, RT_CLASS_OUTPUT, scalar, "evaluation divergence");
    s->eval.kl = column(s, RT_CLASS_OUTPUT, scalar, "evaluation forward kl");
    s->eval.top1 = column(s, RT_CLASS_OUTPUT, scalar, "evaluation agreement");
    if (s->teacher) s->eval.teacher_ce = column(s, RT_CLASS_OUTPUT, scalar, "evaluation teacher ce");
    if (o->vmask)
        s->vmask = rt_space_buf(sp, RT_CLASS_INPUT, RT_DTYPE_U32, 1, (o->student->vocab + 31) / 32, "common ids");
}

static int declare_models(rt_step_plan *s, rt_err *e)
{
    int rc;
    const rt_step_opts *o = &s->opts;
    rt_decoder_opts student = { .name = "student",
                                .policy = &o->policy,
                                .dtypes = o->student_dtypes,
                                .coded = o->student_coded,
                                .train = !o->eval_only,
                                .accumulate = o->accumulate || o->ranks > 1, /* what is added up is f32 */
                                .frozen = o->frozen,
                                .lora = o->lora,
                                .buckets = o->ranks > 1 && o->zero && !o->eval_only,
                                .grads_apart = o->zero == RT_ZERO_GRADS };
    rt_decoder_opts teacher = { .name = "teacher",
                                .policy = &o->policy,
                                .dtypes = o->teacher_dtypes,
                                .coded = o->teacher_coded,
                                .home = o->teacher_home,
                                .head_only = o->source.form == RT_FORM_HIDDEN };
    RT_TRY(rt_decoder_new(&s->student, s->space, o->student, &student, e));
    if (o->teacher) RT_TRY(rt_decoder_new(&s->teacher, s->space, o->teacher, &teacher, e));
    for (uint32_t k = 0; k < o->other_count; k++) {
        char name[32];
        snprintf(name, sizeof name, "teacher %u", k + 2);
        teacher.name = name;
        teacher.dtypes = o->others[k].dtypes;
        teacher.coded = o->others[k].coded;
        RT_TRY(rt_decoder_new(&s->more[k].decoder, s->space, o->others[k].config, &teacher, e));
    }
    if (!o->eval_only && !rt_decoder_trained(s->student))
        RT_TRY(rt_fail(e, RT_INVALID, "every parameter of the student is frozen; nothing would be trained"));
    uint32_t named = rt_recompute_named(&o->recompute), reached = o->student->layers - s->student->lowest;
    if (named != RT_RECOMPUTE_ALL && named > reached)
        RT_TRY(rt_fail(e, RT_INVALID, "--recompute names %u layers, and backward reaches %u of the student; lower it",
                       named, reached));
out:
    return rc;
}

/* Each teacher's hidden state of this micro-batch: it is there, or is taken from what was computed ahead. */
static void take_hidden(rt_step_plan *s, rt_plan *p)
{
    for (uint32_t k = 0; k < teachers_of(s); k++) {
        rt_plan_assume_defined(p, s->ahead_hidden.buf ? ahead_at(s, k) : hidden_at(s, k));
        if (!s->ahead_hidden.buf) continue;
        rt_plan_label(p, "teacher's rows");
        rt_emit_embed_fwd(p, hidden_at(s, k), ahead_at(s, k), s->ahead_rows);
    }
}

/* more: what earlier micro-batches left is added to. */
static int record_micro(rt_step_plan *s, rt_plan *p, bool more, rt_err *e)
{
    int rc;
    const rt_decoder *d = s->student;
    uint32_t N = s->opts.B * s->opts.T, C = d->config.width;
    rt_trace *trace = NULL;
    rt_recompute levels[RT_MAX_LAYERS];
    rt_loss_mix mix;
    rt_recompute_levels(&s->opts.recompute, d->lowest, d->config.layers, levels);
    RT_TRY(rt_trace_new(&trace, d, levels, s->step, e));
    take_hidden(s, p);
    rt_update_grads(s, p, more);
    if (more) rt_plan_assume_defined(p, s->sums);
    rt_loss_io io = { .hidden = rt_act(p, p->policy.act, N, C, "hidden"),
                      .teacher_hidden = s->teacher_hidden,
                      .mix = mix_of(s, &mix),
                      .list = s->list,
                      .target = s->target,
                      .step = s->step,
                      .fault = s->fault,
                      .sums = s->sums,
                      .vmask = s->vmask };
    io.dhidden = rt_act(p, p->policy.act, N, C, "dhidden");
    rt_decoder_forward(p, d, &s->tokens, trace, io.hidden);
    rt_loss_record(p, d, s->teacher, &io, &s->opts.loss, s->opts.chunk);
    const rt_bucket_done done = { rt_update_done, s };
    rt_decoder_backward(p, d, &s->tokens, trace, io.dhidden, &done);
    rt_update_last(s, p);
out:
    rt_trace_free(trace);
    return rc;
}

static void take_list(rt_plan *p, rt_kd_io *io, const rt_step_list *l, uint32_t first, uint32_t n)
{
    if (!l->id.buf) return;
    io->tk_id = rt_view_rows(p, l->id, first, n);
    io->tk_logp = rt_view_rows(p, l->logp, first, n);
    io->tk_rest = rt_view_rows(p, l->rest, first, n);
}

/* One teacher more, at temperature 1 and at the loss's. */
static void mix_in(rt_step_plan *s, rt_plan *p, rt_view mixed[2], rt_view logits, rt_view share)
{
    double T = s->opts.loss.temperature;
    uint32_t V = s->student->config.vocab;
    mixed[0] = rt_loss_mixed(p, mixed[0], logits, share, s->vmask, V, 1);
    mixed[1] = T == 1 ? mixed[0] : rt_loss_mixed(p, mixed[1], logits, share, s->vmask, V, T);
}

/* One chunk of evaluation: the student's values against the teacher, and, where the teacher has logits, its own CE.
 * Logits stay as they are, so kd_loss may read them more than once. */
static void record_eval_chunk(rt_step_plan *s, rt_plan *p, rt_view hidden, uint32_t first, uint32_t n)
{
    const rt_loss_opts *o = &s->opts.loss;
    rt_view logits = rt_act(p, p->policy.logits, n, s->student->config.vocab, "logits"), from = RT_NONE;
    rt_view mixed[2] = { RT_NONE, RT_NONE };
    rt_decoder_logits(p, s->student, logits, rt_view_rows(p, hidden, first, n));
    rt_kd_io io = { .logits = logits,
                    .sums = s->eval_sums,
                    .ce = rt_view_rows(p, s->eval.ce, first, n),
                    .fault = s->fault,
                    .target = rt_view_rows(p, s->target, first, n),
                    .step = s->step };
    rt_kd_opts kd = { .divergence = RT_DIV_FORWARD_KL, .T = 1.0f, .ce_weight = 1.0f, .site = RT_SITE_HEAD };
    if (!rt_step_plan_distils(s)) {
        rt_emit_kd_loss(p, &io, &kd);
        return;
    }
    for (uint32_t k = 0; k < teachers_of(s); k++) {
        rt_kd_io own = io;
        rt_decoder *d = teacher_at(s, k);
        own.logits = rt_act(p, p->policy.logits, n, d->config.vocab, "teacher logits");
        rt_decoder_logits(p, d, own.logits, rt_view_rows(p, hidden_at(s, k), first, n));
        own.ce = rt_view_rows(p, k ? s->more[k - 1].teacher_ce : s->eval.teacher_ce, first, n);
        rt_emit_kd_loss(p, &own, &kd);
        from = own.logits;
        if (!s->opts.other_count) continue;
        mix_in(s, p, mixed, from, rt_view_rows(p, s->share[k], first, n));
    }
    io.teacher = s->opts.other_count ? mixed[0] : from;
    take_list(p, &io, &s->held[0], first, n);
    io.vmask = s->vmask;
    io.div = rt_view_rows(p, s->eval.kl, first, n);
    io.top1 = rt_view_rows(p, s->eval.top1, first, n);
    kd.kd_weight = 1.0f;
    rt_emit_kd_loss(p, &io, &kd);
    io.ce = io.top1 = RT_NONE;
    take_list(p, &io, &s->held[1], first, n);
    io.div = rt_view_rows(p, s->eval.div, first, n);
    if (s->opts.other_count) io.teacher = mixed[1];
    kd = (rt_kd_opts){ .divergence = o->divergence,
                       .T = (float)o->temperature,
                       .mix = (float)o->mix,
                       .kd_weight = 1.0f,
                       .site = RT_SITE_HEAD };
    rt_emit_kd_loss(p, &io, &kd);
}

static void record_eval(rt_step_plan *s, rt_plan *p)
{
    uint32_t N = s->opts.B * s->opts.T, chunk = s->opts.chunk;
    rt_view hidden = rt_act(p, p->policy.act, N, s->student->config.width, "hidden");
    for (uint32_t k = 0; k < teachers_of(s); k++) rt_plan_assume_defined(p, hidden_at(s, k));
    rt_decoder_forward(p, s->student, &s->tokens, NULL, hidden);
    for (uint32_t first = 0; first < N; first += chunk) {
        rt_plan_label(p, "head chunk %u", first / chunk);
        record_eval_chunk(s, p, hidden, first, N - first < chunk ? N - first : chunk);
    }
}

/* Rows of the hidden state are picked as rows of an embedding are. */
static void record_picked(rt_plan *p, const rt_step_plan *s, const rt_decoder *d, rt_view hidden, rt_view logits)
{
    rt_view few = rt_act(p, p->policy.act, s->opts.picks, d->config.width, "picked hidden");
    rt_emit_embed_fwd(p, few, hidden, s->pick);
    rt_decoder_logits(p, d, logits, few);
}

static void record_logits(rt_step_plan *s, rt_plan *p)
{
    rt_view hidden = rt_act(p, p->policy.act, s->opts.B * s->opts.T, s->student->config.width, "hidden");
    rt_decoder_forward(p, s->student, &s->tokens, NULL, hidden);
    record_picked(p, s, s->student, hidden, s->logits);
    rt_view mixed = RT_NONE;
    for (uint32_t k = 0; k < teachers_of(s); k++) {
        rt_decoder *d = teacher_at(s, k);
        rt_plan_assume_defined(p, hidden_at(s, k));
        rt_view own = s->opts.other_count ? rt_act(p, p->policy.logits, s->opts.picks, d->config.vocab, "picked logits")
                                          : s->teacher_logits;
        record_picked(p, s, d, hidden_at(s, k), own);
        if (!s->opts.other_count) return;
        rt_emit_mix_logits(p, s->teacher_logits, mixed, own, s->pick_share[k], s->vmask,
                           (float)s->opts.loss.temperature, 1.0f);
        mixed = s->teacher_logits;
    }
}

/* Programs that a run with these options has. */
static bool is_there(const rt_step_plan *s, int program)
{
    switch (program) {
    case RT_PROGRAM_TEACHER: return s->teacher && s->opts.source.form == RT_FORM_LIVE;
    case RT_PROGRAM_AHEAD: return s->ahead_hidden.buf != 0 && !s->opts.eval_only;
    case RT_PROGRAM_NEXT: return s->opts.accumulate && !s->opts.eval_only;
    case RT_PROGRAM_LOGITS: return s->opts.picks > 0;
    case RT_PROGRAM_EVAL: return true;
    case RT_PROGRAM_START: return rt_update_needs_start(s);
    default: return !s->opts.eval_only;
    }
}

static int record_all(rt_step_plan *s, rt_err *e)
{
    static const char *const names[] = {
#define X(name, text) text,
        RT_PROGRAM_LIST(X)
#undef X
    };
    int rc = RT_OK;
    uint32_t n = 0;
    for (int i = 0; i < RT_PROGRAM_COUNT; i++) {
        if (!is_there(s, i)) continue;
        RT_TRY(rt_plan_new(&s->plan[i], s->space, names[i], &s->opts.policy, e));
        s->index[i] = n++;
        rt_plan *p = s->plan[i];
        switch (i) {
        case RT_PROGRAM_TEACHER: record_teachers(s, p, &s->tokens, false); break;
        case RT_PROGRAM_AHEAD: record_teachers(s, p, &s->ahead_tokens, true); break;
        case RT_PROGRAM_UPDATE: rt_update_record(s, p); break;
        case RT_PROGRAM_EVAL: record_eval(s, p); break;
        case RT_PROGRAM_LOGITS: record_logits(s, p); break;
        case RT_PROGRAM_START: rt_update_record_start(s, p); break;
        default: RT_TRY(record_micro(s, p, i == RT_PROGRAM_NEXT, e));
        }
        RT_TRY(rt_plan_status(p, e));
    }
out:
    return rc;
}

static int record_samples(rt_step_plan *s, rt_err *e)
{
    int rc = RT_OK;
    rt_generate_opts o = rt_generate_defaults;
    if (!(o.context = s->opts.sample_context)) return RT_OK;
    RT_TRY(rt_generator_record(&s->student_says, s->space, s->student, &s->opts.policy, &o, e));
    if (s->plan[RT_PROGRAM_TEACHER] && !s->opts.other_count && !s->opts.prompts[0]) /* it reads what a student reads */
        RT_TRY(rt_generator_record(&s->teacher_says, s->space, s->teacher, &s->opts.policy, &o, e));
out:
    return rc;
}

int rt_step_plan_new(rt_step_plan **out, const rt_step_opts *o, rt_err *e)
{
    int rc;
    rt_step_plan *s = rt_alloc_zero(sizeof *s, 16);
    if (!s) RT_TRY(rt_no_memory(e, "the programs of a run"));
    s->opts = *o;
    if (!o->B || !o->T || (uint64_t)o->B * o->T > UINT32_MAX)
        RT_TRY(rt_fail(e, RT_INVALID, "--micro-batch %u of --seq-len %u is out of range (1 to %u positions); lower one",
                       o->B, o->T, UINT32_MAX));
    if ((uint64_t)o->B * o->T * (o->ahead ? o->ahead : 1) > UINT32_MAX)
        RT_TRY(rt_fail(e, RT_INVALID,
                       "--teacher-batch of %u micro-batches is out of range (%u positions at most); lower it", o->ahead,
                       UINT32_MAX));
    if (o->other_count && (!o->teacher || o->source.form != RT_FORM_LIVE || o->other_count >= RT_TEACHERS_MOST))
        RT_TRY(rt_fail(e, RT_INTERNAL, "%u more teachers beside one that is not live, or too many", o->other_count));
    for (uint32_t k = 0; k <= o->other_count; k++)
        if (o->prompts[k] && (!o->teacher || o->source.form != RT_FORM_LIVE || o->ahead > 1))
            RT_TRY(rt_fail(e, RT_INTERNAL, "a prompt of a teacher that is not live, or that reads ahead"));
    if (!s->opts.chunk) s->opts.chunk = default_chunk(o);
    RT_TRY(rt_space_new(&s->space, e));
    RT_TRY(declare_models(s, e));
    declare_data(s);
    RT_TRY(rt_update_slices(s, e));
    RT_TRY(rt_update_moments(s, e));
    if (s->opts.picks) declare_picks(s);
    if (s->space->err.status < 0) {
        if (e) *e = s->space->err;
        RT_TRY(s->space->err.status);
    }
    RT_TRY(record_all(s, e));
    RT_TRY(record_samples(s, e));
    *out = s;
    s = NULL;
out:
    rt_step_plan_free(s);
    return rc;
}

void rt_step_plan_free(rt_step_plan *s)
{
    if (!s) return;
    for (int i = 0; i < RT_PROGRAM_COUNT; i++) rt_plan_free(s->plan[i]);
    rt_generator_free(s->student_says);
    rt_generator_free(s->teacher_says);
    rt_decoder_free(s->student);
    rt_decoder_free(s->teacher);
    for (uint32_t k = 0; k < s->opts.other_count; k++) rt_decoder_free(s->more[k].decoder);
    rt_space_free(s->space);
    rt_arena_free(&s->arena);
    rt_free(s);
}

/* The step's own programs. */
static uint32_t list_own(const rt_step_plan *s, const rt_plan **plans)
{
    uint32_t n = 0;
    for (int i = 0; i < RT_PROGRAM_COUNT; i++)
        if (s->plan[i]) plans[n++] = s->plan[i];
    return n;
}

uint32_t rt_step_plan_list(const rt_step_plan *s, const rt_plan *plans[RT_PROGRAM_MOST])
{
    const rt_generator *says[] = { s->student_says, s->teacher_says };
    uint32_t n = list_own(s, plans);
    for (int i = 0; i < 2; i++) {
        if (!says[i]) continue;
        rt_generator_plans(says[i], plans + n);
        n += RT_GENERATOR_PROGRAMS;
    }
    return n;
}

int rt_step_plan_attach(rt_step_plan *s, rt_exec *x, rt_err *e)
{
    int rc = RT_OK;
    const rt_plan *own[RT_PROGRAM_COUNT];
    uint32_t n = list_own(s, own);
    if (s->student_says) RT_TRY(rt_generator_attach(s->student_says, x, n, e));
    if (s->teacher_says) RT_TRY(rt_generator_attach(s->teacher_says, x, n + RT_GENERATOR_PROGRAMS, e));
out:
    return rc;
}
