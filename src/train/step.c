/* step.c - see step.h. */
#include "train/step_internal.h"

#include "base/rng.h"
#include "train/follow.h"

#include <math.h>
#include <stdio.h>

uint32_t rt_batch_trained(const rt_batch *b, uint32_t positions)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < positions; i++) n += b->target[i] >= 0;
    return n;
}

/* Room for what a source gives of a micro-batch. */
static int serve_new(rt_trainer *t, rt_err *e)
{
    const rt_step_opts *o = &t->plan->opts;
    const rt_source_shape *shape = &o->source;
    size_t rows = (size_t)o->B * o->T, n = shape->n > shape->held_n ? shape->n : shape->held_n;
    rt_source_out *s = &t->served;
    if (shape->form == RT_FORM_HIDDEN) {
        s->dtype = o->policy.act;
        s->hidden = rt_alloc_zero((size_t)rt_dtype_bytes(s->dtype, rows * o->teacher->width), 64);
        return s->hidden ? RT_OK : rt_no_memory(e, "a teacher's hidden states");
    }
    if (!rt_source_lists(shape)) return RT_OK;
    s->id = rt_alloc_zero(rows * n * sizeof *s->id, 64);
    s->logp = rt_alloc_zero(rows * n * sizeof *s->logp, 64);
    s->rest = rt_alloc_zero(rows * sizeof *s->rest, 64);
    s->add = rt_alloc_zero(rows * sizeof *s->add, 64);
    s->target_logp = rt_alloc_zero(rows * sizeof *s->target_logp, 64);
    bool whole = s->id && s->logp && s->rest && s->add && s->target_logp;
    return whole ? RT_OK : rt_no_memory(e, "a teacher's lists");
}

static void serve_free(rt_source_out *s)
{
    rt_free(s->id);
    rt_free(s->logp);
    rt_free(s->rest);
    rt_free(s->add);
    rt_free(s->target_logp);
    rt_free(s->hidden);
}

int rt_trainer_open(rt_trainer **out, rt_dev *d, const rt_step_opts *o, const rt_seal_opts *seal, rt_err *e)
{
    int rc;
    const rt_plan *plans[RT_PROGRAM_MOST];
    rt_dev_info info;
    rt_step_opts of_device = *o;
    rt_trainer *t = rt_alloc_zero(sizeof *t, 16);
    if (!t) RT_TRY(rt_no_memory(e, "a run"));
    RT_TRY(d->api->info(d, &info, e));
    if (!of_device.head_bytes) of_device.head_bytes = info.head_bytes;
    if (seal && seal->peers) of_device.rank = seal->peers->rank;
    RT_TRY(rt_step_plan_new(&t->plan, &of_device, e));
    uint32_t n = rt_step_plan_list(t->plan, plans);
    RT_TRY(rt_exec_seal(&t->x, d, plans, n, seal, e));
    if (!seal || !seal->dry) RT_TRY(rt_step_plan_attach(t->plan, t->x, e));
    if (t->plan->ahead_rows.buf) {
        t->rows = rt_alloc(t->plan->ahead_rows.rows * sizeof *t->rows, 64);
        if (!t->rows) RT_TRY(rt_no_memory(e, "a run"));
    }
    size_t most = (size_t)o->B * o->T > o->picks ? (size_t)o->B * o->T : o->picks;
    if (o->other_count && !(t->shares = rt_alloc(most * sizeof *t->shares, 64))) RT_TRY(rt_no_memory(e, "a run"));
    RT_TRY(serve_new(t, e));
    RT_TRY(rt_step_reading_new(t, !seal || !seal->dry, e));
    if (seal && !seal->dry) t->peers = seal->peers;
    *out = t;
    t = NULL;
out:
    rt_trainer_free(t);
    return rc;
}

void rt_trainer_free(rt_trainer *t)
{
    if (!t) return;
    if (t->peers && t->peers->rank == 0 && !t->peers->torn) rt_word_say(t->peers, &(rt_word){ .kind = RT_WORD_CLOSE });
    rt_exec_free(t->x);
    rt_disk_feed_free(t->feed);
    rt_step_plan_free(t->plan);
    rt_free(t->rows);
    rt_free(t->shares);
    rt_free(t->rank_rows);
    for (uint32_t k = 0; k < RT_TEACHERS_MOST; k++) rt_reading_free(&t->reading[k]);
    serve_free(&t->served);
    rt_free(t);
}

/* ---- loading ---- */

/* B is zero so that a fresh adapter changes nothing. */
void rt_adapter_init(float *w, const rt_param *p, uint32_t index, uint64_t seed)
{
    uint64_t n = (uint64_t)p->value.rows * p->value.cols;
    float bound = 1.0f / sqrtf((float)p->value.cols);
    for (uint64_t i = 0; i < n; i += 4) {
        rt_rng4 r = rt_philox(seed, 0x61646170746572ull + index, i / 4);
        for (uint64_t k = i; k < n && k < i + 4; k++)
            w[k] = p->part == 'A' ? (2.0f * rt_rng_unit(r.v[k - i]) - 1.0f) * bound : 0.0f;
    }
}

static int init_adapters(rt_trainer *t, uint64_t seed, rt_err *e)
{
    int rc = RT_OK;
    const rt_decoder *d = t->plan->student;
    float *w = NULL;
    for (uint32_t i = d->model_params; i < d->param_count; i++) {
        rt_free(w);
        w = rt_alloc(rt_trainer_elems(t, i) * sizeof *w, 64);
        if (!w) RT_TRY(rt_fail(e, RT_NOMEM, "no memory to begin an adapter"));
        rt_adapter_init(w, &d->params[i], i, seed);
        RT_TRY(rt_trainer_write(t, 'w', i, w, e));
    }
out:
    rt_free(w);
    return rc;
}

/* Moments of 8 bits are 0 before the first step; no op fills bytes. */
static int clear_codes(rt_trainer *t, rt_err *e)
{
    enum { PIECE = 1 << 20 };
    int rc = RT_OK;
    uint8_t *zero = NULL;
    for (uint32_t i = 0; i < t->plan->student->param_count; i++)
        for (const char *k = "mvs"; *k && t->plan->moments[i].exps.buf; k++) {
            uint64_t all = rt_trainer_state_elems(t, *k, i);
            if (!zero) zero = rt_alloc_zero(PIECE, 64);
            if (!zero) RT_TRY(rt_no_memory(e, "the optimizer's state"));
            for (uint64_t first = 0; first < all; first += PIECE) {
                uint64_t n = all - first < PIECE ? all - first : PIECE;
                RT_TRY(rt_trainer_write_state(t, *k, i, first, n, zero, e));
            }
        }
out:
    rt_free(zero);
    return rc;
}

int rt_trainer_load(rt_trainer *t, const rt_model_file *student, const rt_model_file *teacher, const uint32_t *vmask,
                    uint64_t seed, rt_err *e)
{
    int rc;
    const uint32_t none[4] = { 0 };
    rt_step_plan *s = t->plan;
    if (s->teacher) RT_TRY(rt_disk_feed_add(&t->feed, t->x, s->teacher, teacher, e));
    if (s->teacher) RT_TRY(rt_load_weights(t->x, s->teacher, teacher, t->watch, e));
    RT_TRY(rt_load_weights(t->x, s->student, student, t->watch, e));
    RT_TRY(init_adapters(t, seed, e));
    if (s->plan[RT_PROGRAM_START]) RT_TRY(rt_exec_run(t->x, s->index[RT_PROGRAM_START], NULL, e));
    RT_TRY(clear_codes(t, e));
    RT_TRY(rt_exec_write(t->x, s->fault, none, sizeof none, e));
    if (s->vmask.buf) RT_TRY(rt_exec_write(t->x, s->vmask, vmask, (uint64_t)s->vmask.cols * sizeof *vmask, e));
out:
    return rc;
}

/* ---- running ---- */

/* Enqueued: programs and what is written between them follow one another without the host, until it waits for a
 * result. timed: the step whose run of this program it is; null: not timed. */
static int run(rt_trainer *t, rt_program which, rt_step_begun *timed, rt_err *e)
{
    uint32_t program = t->plan->index[which];
    return timed ? rt_exec_run_timed(t->x, program, &timed->ran[which], e) : rt_exec_run(t->x, program, NULL, e);
}

static double took(const rt_trainer *t, const rt_step_begun *b, rt_program which)
{
    return rt_exec_seconds(t->x, &b->ran[which]);
}

/* After a step, whose micro-batches all take the same time. */
static void add_times(rt_trainer *t, const rt_step_begun *b)
{
    uint32_t ahead = t->rows ? t->plan->opts.ahead : 1;
    rt_program teacher = t->rows ? RT_PROGRAM_AHEAD : RT_PROGRAM_TEACHER;
    if (t->plan->plan[RT_PROGRAM_TEACHER])
        t->teacher_seconds += (t->rows ? (b->micro + ahead - 1) / ahead : b->readings) * took(t, b, teacher);
    t->student_seconds += took(t, b, RT_PROGRAM_FIRST);
    if (b->micro > 1) t->student_seconds += (b->micro - 1) * took(t, b, RT_PROGRAM_NEXT);
    t->update_seconds += took(t, b, RT_PROGRAM_UPDATE);
}

/* A micro-batch into these tokens, which may have room for several. */
static int write_tokens(rt_trainer *t, const rt_tokens *to, uint32_t place, const rt_batch *b, rt_err *e)
{
    int rc = RT_OK;
    uint32_t n = t->plan->opts.B * t->plan->opts.T;
    rt_view v[] = { to->ids, to->pos, to->start };
    const int32_t *from[] = { b->ids, b->pos, b->start };
    for (int i = 0; i < 3; i++) {
        v[i].off += (uint64_t)place * n;
        v[i].rows = n;
        RT_TRY(rt_exec_write(t->x, v[i], from[i], n * sizeof(int32_t), e));
    }
out:
    return rc;
}

/* The teacher reads so many micro-batches at once; where there are fewer, the last again. */
static int write_ahead(rt_trainer *t, const rt_batch *micro, uint32_t count, rt_err *e)
{
    int rc = RT_OK;
    for (uint32_t i = 0; i < t->plan->opts.ahead; i++)
        RT_TRY(write_tokens(t, &t->plan->ahead_tokens, i, &micro[i < count ? i : count - 1], e));
out:
    return rc;
}

static int read_ahead(rt_trainer *t, const rt_batch *micro, uint32_t count, rt_step_begun *timed, rt_err *e)
{
    int rc;
    RT_TRY(write_ahead(t, micro, count, e));
    RT_TRY(run(t, RT_PROGRAM_AHEAD, timed, e));
out:
    return rc;
}

int rt_trainer_measure_teacher(rt_trainer *t, const rt_batch *micro, uint32_t count, rt_exec_span *out, rt_err *e)
{
    int rc;
    const rt_step_plan *s = t->plan;
    rt_program which = t->rows ? RT_PROGRAM_AHEAD : RT_PROGRAM_TEACHER;
    RT_TRY(t->rows ? write_ahead(t, micro, count, e) : write_tokens(t, &s->tokens, 0, &micro[0], e));
    RT_TRY(rt_exec_measure(t->x, s->index[which], out, e));
out:
    return rc;
}

/* Micro-batch i of a step, after the teacher has read it. */
static int write_micro(rt_trainer *t, const rt_batch *micro, uint32_t i, uint32_t count, rt_step_begun *timed,
                       rt_err *e)
{
    int rc;
    rt_step_plan *s = t->plan;
    uint32_t n = s->opts.B * s->opts.T, place = i % s->opts.ahead;
    if (place == 0) RT_TRY(read_ahead(t, micro + i, count - i, timed, e));
    for (uint32_t k = 0; k < n; k++) t->rows[k] = (int32_t)(place * n + k);
    RT_TRY(rt_exec_write(t->x, s->ahead_rows, t->rows, n * sizeof(int32_t), e));
    RT_TRY(write_tokens(t, &s->tokens, 0, &micro[i], e));
    RT_TRY(rt_exec_write(t->x, s->target, micro[i].target, n * sizeof(int32_t), e));
    RT_TRY(rt_step_write_shares(t, &micro[i], e));
out:
    return rc;
}

/* ---- what a source gives ---- */

static int ask_source(rt_trainer *t, const rt_batch *b, rt_source_use use, rt_err *e)
{
    const rt_step_opts *o = &t->plan->opts;
    const rt_source_rows rows = { b->ids, b->start, b->target, o->B, o->T };
    if (!t->source)
        return rt_fail(e, RT_INTERNAL, "the programs want a teacher's %s, and no source was given",
                       rt_source_form_name(o->source.form));
    return t->source->fill(t->source, use, &rows, &t->served, e);
}

/* Scalars in the dtype of the buffer, which only the specification has wider. */
static int write_scalars(rt_trainer *t, rt_view v, float *from, rt_err *e) { return rt_step_move(t, v, NULL, from, e); }

static int write_list(rt_trainer *t, const rt_step_list *l, rt_err *e)
{
    int rc;
    rt_source_out *s = &t->served;
    RT_TRY(rt_exec_write(t->x, l->id, s->id, (uint64_t)l->id.rows * l->id.cols * sizeof *s->id, e));
    RT_TRY(write_scalars(t, l->logp, s->logp, e));
    RT_TRY(write_scalars(t, l->rest, s->rest, e));
out:
    return rc;
}

/* A teacher that is none of the programs, for rows that are trained on. */
static int write_served(rt_trainer *t, const rt_batch *b, rt_step_begun *step, rt_err *e)
{
    int rc;
    const rt_step_opts *o = &t->plan->opts;
    uint32_t N = o->B * o->T;
    RT_TRY(ask_source(t, b, RT_USE_TRAIN, e));
    if (o->source.form == RT_FORM_HIDDEN) {
        rt_view to = t->plan->teacher_hidden;
        RT_TRY(rt_exec_write(t->x, to, t->served.hidden, rt_dtype_bytes(t->served.dtype, (uint64_t)N * to.cols), e));
        return RT_OK;
    }
    for (uint32_t i = 0; i < N; i++) step->add += b->target[i] >= 0 ? (double)t->served.add[i] : 0;
    RT_TRY(write_list(t, &t->plan->list, e));
out:
    return rc;
}

static int write_rows(rt_trainer *t, const rt_batch *b, rt_err *e)
{
    int rc;
    rt_step_plan *s = t->plan;
    RT_TRY(write_tokens(t, &s->tokens, 0, b, e));
    RT_TRY(rt_exec_write(t->x, s->target, b->target, (uint64_t)s->opts.B * s->opts.T * sizeof(int32_t), e));
    RT_TRY(rt_step_write_shares(t, b, e));
out:
    return rc;
}

/* ---- live teachers ---- */

static int read_by_teachers(rt_trainer *t, const rt_batch *b, rt_step_begun *step, bool timed, rt_err *e)
{
    int rc = RT_OK;
    uint32_t passes = rt_trainer_passes(t, b, e);
    if (!passes) return e && e->status < 0 ? e->status : RT_INVALID;
    for (uint32_t pass = 0; pass < passes; pass++) {
        for (uint32_t k = 0; k <= t->plan->opts.other_count; k++)
            if (t->plan->opts.prompts[k]) RT_TRY(rt_step_write_reading(t, k, pass, e));
        RT_TRY(run(t, RT_PROGRAM_TEACHER, timed && pass == 0 ? step : NULL, e));
        step->readings++;
    }
out:
    return rc;
}

/* step: the one that it is of, with timed: its runs are timed. */
static int write_batch(rt_trainer *t, const rt_batch *b, rt_step_begun *step, bool timed, rt_err *e)
{
    int rc;
    const rt_step_plan *s = t->plan;
    RT_TRY(write_rows(t, b, e));
    if (s->opts.source.form != RT_FORM_LIVE) return write_served(t, b, step, e);
    if (s->teacher) RT_TRY(read_by_teachers(t, b, step, timed, e));
out:
    return rc;
}

/* Where in a micro-batch a head's fault is. */
static uint32_t fault_position(const rt_trainer *t, const rt_fault *f)
{
    return (f->site - RT_SITE_HEAD) * t->plan->opts.chunk + f->row;
}

/* ", rank 1 on node7": what a sum over ranks found is of all of them, and each has it for its own. */
static void name_rank(char *text, size_t size, const rt_peers *p, uint32_t rank)
{
    size_t n = strlen(text);
    if (rank >= p->size) return;
    snprintf(text + n, size - n, ", rank %u%s%s", rank, p->host ? " on " : "", p->host ? p->host[rank] : "");
}

/* A fault record as a sentence. Evaluation has no step: it is 0 there. whose: logits, where the fault is in a head. */
static int fault_message(const rt_trainer *t, const rt_fault *f, const char *whose, rt_err *e)
{
    char name[RT_NAME_BYTES], when[128] = "evaluation";
    const rt_decoder *d = t->plan->student;
    if (f->step) snprintf(when, sizeof when, "step %u", f->step);
    if (t->peers) name_rank(when, sizeof when, t->peers, f->set - 1);
    if (f->site >= RT_SITE_NORM) return rt_fail(e, RT_NONFINITE, "%s: the norm of the gradient is not finite", when);
    if (f->site >= RT_SITE_GRAD) {
        uint32_t i = f->site - RT_SITE_GRAD, rank = f->set - 1, row = f->row;
        const rt_slices *slices = &t->plan->slices;
        if (i < d->param_count && rank < slices->ranks) row += rt_slices_first(slices, i, rank);
        return rt_fail(e, RT_NONFINITE, "%s: the gradient of %s is not finite, first in row %u", when,
                       i < d->param_count ? rt_param_name(name, &d->params[i]) : "an unknown tensor", row);
    }
    uint32_t position = fault_position(t, f), T = t->plan->opts.T;
    return rt_fail(e, RT_NONFINITE,
                   "%s: the %slogits of row %u, position %u of a micro-batch are not finite (or its target is "
                   "outside the vocabulary)",
                   when, whose, position / T, position % T);
}

/* ---- results ---- */

static int ask_scalars(rt_trainer *t, rt_view v, rt_scalars *to, rt_ticket *ticket, rt_err *e)
{
    return rt_exec_read_later(t->x, v, to, rt_dtype_bytes(t->plan->opts.policy.scalar, v.cols), ticket, e);
}

static double scalar(const rt_trainer *t, const rt_scalars *s, uint32_t i)
{
    return t->plan->opts.policy.scalar == RT_DTYPE_F64 ? s->f64[i] : s->f32[i];
}

/* What the host wants to know of a step, as it is behind the step's last program. */
static int ask_result(rt_trainer *t, rt_step_begun *b, rt_err *e)
{
    int rc;
    const rt_step_plan *s = t->plan;
    RT_TRY(rt_exec_read_later(t->x, s->fault, &b->fault, sizeof b->fault, NULL, e));
    RT_TRY(ask_scalars(t, s->sums, &b->sums, NULL, e));
    RT_TRY(ask_scalars(t, s->norm, &b->norm, NULL, e));
    RT_TRY(ask_scalars(t, s->clip, &b->clip, &b->ticket, e));
out:
    return rc;
}

/* Every op that makes a number which is not finite records a fault; a number that is not finite without one was never
 * computed. */
static int check_finite(const rt_step_begun *b, const rt_step_result *r, const double sums[4], rt_err *e)
{
    const char *what = !isfinite(r->ce)                           ? "the cross-entropy"
                       : !isfinite(r->div)                        ? "the divergence"
                       : !isfinite(r->grad_norm)                  ? "the norm of the gradient"
                       : !isfinite(r->clip)                       ? "the factor of clipping"
                       : !isfinite(sums[2]) || !isfinite(sums[3]) ? "a count of positions"
                                                                  : NULL;
    if (!what) return RT_OK;
    return rt_fail(e, RT_NONFINITE,
                   "step %u: %s is not finite, and no op of the step says where it began: the device may not compute "
                   "what it is told; retort verify tries every op",
                   b->step, what);
}

static int collect(const rt_trainer *t, const rt_step_begun *b, rt_step_result *out, rt_err *e)
{
    int rc;
    const rt_loss_opts *o = &t->plan->opts.loss;
    double sums[4];
    if (b->fault.set)
        RT_TRY(fault_message(t, &b->fault, rt_step_plan_distils(t->plan) ? "student's or the teacher's " : "", e));
    for (uint32_t i = 0; i < 4; i++) sums[i] = scalar(t, &b->sums, i);
    out->grad_norm = scalar(t, &b->norm, 0);
    out->clip = scalar(t, &b->clip, 0);
    out->ce = sums[0] / b->tokens;
    out->div = (sums[1] + b->add) / b->tokens;
    RT_TRY(check_finite(b, out, sums, e));
    out->agreement = sums[2] / b->tokens;
    out->trained = (uint64_t)sums[3];
    if (out->trained != b->tokens)
        RT_TRY(rt_fail(e, RT_INTERNAL, "step %u: the device trained %llu positions and the host had counted %u",
                       b->step, (unsigned long long)out->trained, b->tokens));
    out->loss = o->ce_weight * out->ce;
    if (rt_step_plan_distils(t->plan)) out->loss += rt_loss_kd_weight(o) * out->div;
out:
    return rc;
}

/* ---- a step ---- */

/* What sources add to the divergence of a step, over all ranks; before the update, while no rank is further. */
static void share_added(rt_trainer *t, rt_step_begun *b)
{
    double all[RT_STEP_RANKS];
    const rt_peers *p = t->peers;
    if (!p || !rt_source_lists(&t->plan->opts.source)) return;
    p->gather(p->ctx, &b->add, all, sizeof *all);
    b->add = 0;
    for (uint32_t r = 0; r < p->size; r++) b->add += all[r];
}

static int run_micro(rt_trainer *t, const rt_batch *micro, uint32_t i, uint32_t count, rt_step_begun *b, rt_err *e)
{
    int rc;
    rt_step_begun *timed = i < 2 ? b : NULL; /* the first of each program */
    RT_TRY(t->rows ? write_micro(t, micro, i, count, timed, e) : write_batch(t, &micro[i], b, timed != NULL, e));
    RT_TRY(run(t, i == 0 ? RT_PROGRAM_FIRST : RT_PROGRAM_NEXT, timed, e));
out:
    return rc;
}

int rt_step_begin(rt_trainer *t, const rt_batch *micro, uint32_t count, uint32_t row, const rt_step *values, rt_err *e)
{
    int rc;
    rt_step_plan *s = t->plan;
    rt_step v = *values;
    rt_step_begun *b = &t->begun[t->begin_count % RT_STEPS_BEGUN];
    *b = (rt_step_begun){ .step = v.step, .tokens = v.tokens, .micro = count };
    v.row = row * s->opts.T;
    RT_TRY(rt_exec_write(t->x, s->step, &v, sizeof v, e));
    for (uint32_t i = 0; i < count; i++) {
        v.row = (row + i * s->opts.B) * s->opts.T;
        /* Several ranks give up no step: the others would wait for this one. */
        if (t->peers)
            rt_watch_tell(t->step_watch, "computing a step", i, count);
        else if (!rt_exec_enqueues(t->x))
            RT_TRY(rt_watch_step(t->step_watch, "computing a step", i, count, e));
        if (i && s->opts.lora.dropout > 0) RT_TRY(rt_exec_write(t->x, s->step, &v, sizeof v, e));
        RT_TRY(run_micro(t, micro, i, count, b, e));
    }
    share_added(t, b);
    RT_TRY(run(t, RT_PROGRAM_UPDATE, b, e));
    RT_TRY(ask_result(t, b, e));
    t->begin_count++;
out:
    if (rc < 0 && t->peers) t->peers->torn = true;
    return rc;
}

int rt_trainer_begin(rt_trainer *t, const rt_batch *micro, uint32_t count, uint32_t step, double lr, uint64_t seed,
                     rt_err *e)
{
    int rc;
    rt_step_plan *s = t->plan;
    rt_step v = { .step = step, .lr = (float)lr, .seed = seed };
    if (t->begin_count - t->end_count == RT_STEPS_BEGUN)
        RT_TRY(rt_fail(e, RT_INTERNAL, "step %u: as many as can be are under way", step));
    for (uint32_t i = 0; i < count; i++) v.tokens += rt_batch_trained(&micro[i], s->opts.B * s->opts.T);
    if (count == 0 || v.tokens == 0)
        RT_TRY(rt_fail(e, RT_INVALID, "step %u has no position that is trained; look at the data's mask", step));
    if (t->peers) {
        RT_TRY(rt_step_lead(t, micro, count, &v, e));
        count /= t->peers->size;
    }
    if (count > 1 && !s->opts.accumulate)
        RT_TRY(rt_fail(e, RT_INTERNAL, "%u micro-batches for a plan that was recorded for one", count));
    RT_TRY(rt_step_begin(t, micro, count, 0, &v, e));
out:
    return rc;
}

int rt_trainer_end(rt_trainer *t, rt_step_result *out, rt_err *e)
{
    int rc;
    const rt_step_begun *b = &t->begun[t->end_count % RT_STEPS_BEGUN];
    *out = (rt_step_result){ 0 };
    if (t->end_count == t->begin_count) RT_TRY(rt_fail(e, RT_INTERNAL, "no step is under way"));
    RT_TRY(rt_exec_wait(t->x, b->ticket, e));
    t->end_count++;
    RT_TRY(collect(t, b, out, e));
    add_times(t, b);
out:
    return rc;
}

int rt_trainer_step(rt_trainer *t, const rt_batch *micro, uint32_t count, uint32_t step, double lr, uint64_t seed,
                    rt_step_result *out, rt_err *e)
{
    int rc = rt_trainer_begin(t, micro, count, step, lr, seed, e);
    return rc < 0 ? rc : rt_trainer_end(t, out, e);
}

/* ---- looking, without training ---- */

/* Each model's cross-entropy tells whose logits are at fault. */
static int check_fault(rt_trainer *t, const rt_eval_out *seen, rt_err *e)
{
    rt_fault f;
    const char *whose = rt_step_plan_distils(t->plan) ? "student's or the teacher's " : "";
    int rc = rt_exec_read(t->x, t->plan->fault, &f, sizeof f, e);
    if (rc < 0 || !f.set) return rc;
    if (f.site < RT_SITE_GRAD && t->plan->teacher && seen->ce && seen->teacher_ce) {
        uint32_t i = fault_position(t, &f);
        bool student = !isfinite(seen->ce[i]), teacher = !isfinite(seen->teacher_ce[i]);
        if (student != teacher) whose = student ? "student's " : "teacher's ";
    }
    return fault_message(t, &f, whose, e);
}

static int read_column(rt_trainer *t, rt_view v, float *out, rt_err *e)
{
    return out && v.buf ? rt_step_move(t, v, out, NULL, e) : RT_OK;
}

/* A teacher that is not asked lists nothing: all of its mass is the rest. */
static int write_nothing(rt_trainer *t, rt_err *e)
{
    int rc;
    const rt_step_list *l = &t->plan->held[0];
    size_t n = (size_t)l->id.rows * l->id.cols;
    for (size_t i = 0; i < n; i++) t->served.id[i] = -1;
    for (uint32_t i = 0; i < l->id.rows; i++) t->served.rest[i] = 1;
    RT_TRY(write_list(t, l, e));
    if (t->plan->held[1].id.buf != l->id.buf) RT_TRY(write_list(t, &t->plan->held[1], e));
out:
    return rc;
}

/* The teacher of rows that are looked at. */
static int write_held(rt_trainer *t, const rt_batch *b, rt_err *e)
{
    int rc;
    rt_step_begun nobody = { 0 };
    const rt_step_plan *s = t->plan;
    if (!rt_source_lists(&s->opts.source)) return write_batch(t, b, &nobody, false, e);
    RT_TRY(write_rows(t, b, e));
    if (!t->source) return write_nothing(t, e);
    if (s->held[1].id.buf != s->held[0].id.buf) {
        RT_TRY(ask_source(t, b, RT_USE_HELD_LOSS, e));
        RT_TRY(write_list(t, &s->held[1], e));
    }
    RT_TRY(ask_source(t, b, RT_USE_HELD, e));
    RT_TRY(write_list(t, &s->held[0], e));
out:
    return rc;
}

/* Of a teacher without logits its own cross-entropy comes with its lists. */
static void take_teacher_ce(const rt_trainer *t, const rt_batch *b, float *ce)
{
    for (uint32_t i = 0; ce && i < t->plan->opts.B * t->plan->opts.T; i++)
        ce[i] = b->target[i] >= 0 ? -t->served.target_logp[i] : 0;
}

int rt_trainer_eval(rt_trainer *t, const rt_batch *b, const rt_eval_out *out, rt_err *e)
{
    int rc;
    rt_step_plan *s = t->plan;
    rt_step v = { .tokens = 1 };
    RT_TRY(rt_exec_write(t->x, s->step, &v, sizeof v, e));
    RT_TRY(write_held(t, b, e));
    RT_TRY(run(t, RT_PROGRAM_EVAL, NULL, e));
    RT_TRY(read_column(t, s->eval.ce, out->ce, e));
    RT_TRY(read_column(t, s->eval.div, out->div, e));
    RT_TRY(read_column(t, s->eval.kl, out->kl, e));
    RT_TRY(read_column(t, s->eval.top1, out->top1, e));
    RT_TRY(read_column(t, s->eval.teacher_ce, out->teacher_ce, e));
    if (rt_source_lists(&s->opts.source)) take_teacher_ce(t, b, out->teacher_ce);
    RT_TRY(rt_step_mix_ce(t, b, out->teacher_ce, e));
    RT_TRY(check_fault(t, out, e));
out:
    return rc;
}

int rt_trainer_logits(rt_trainer *t, const rt_batch *b, const int32_t *pick, float *student, float *teacher, rt_err *e)
{
    int rc;
    rt_step_plan *s = t->plan;
    RT_TRY(write_held(t, b, e));
    RT_TRY(rt_exec_write(t->x, s->pick, pick, (uint64_t)s->opts.picks * sizeof *pick, e));
    RT_TRY(rt_step_write_picked_shares(t, b, pick, e));
    RT_TRY(run(t, RT_PROGRAM_LOGITS, NULL, e));
    RT_TRY(read_column(t, s->logits, student, e));
    RT_TRY(read_column(t, s->teacher_logits, teacher, e));
out:
    return rc;
}
