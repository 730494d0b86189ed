/* run_loop.c - the loop: steps, evaluations, checkpoints, and the end. See run.h.
 *
 * Where the device runs by itself it is always given the next step before the result of the last is waited for, so that
 * reading rows, writing metrics and talking to the user cost it nothing; wherever somebody looks at the weights,
 * nothing is under way. */
#include "job/run_internal.h"

#include "base/sys.h"
#include "job/control.h"
#include "job/dump.h"

#include <math.h>
#include <string.h>

static bool stop_wanted(const rt_run *r) { return r->events.stop && r->events.stop(r->events.ctx); }

/* ---- rows ---- */

/* Rows of one optimizer step. Positions that are left over in the last micro-batch are padding. */
static int read_rows(rt_run *r, uint64_t *tokens, rt_err *e)
{
    int rc = RT_OK;
    const rt_resolved *v = &r->resolved;
    const rt_pair *pair = &r->in->pair;
    uint32_t rows = rt_run_least_rows(r);
    size_t T = v->seq_len, N = (size_t)r->micro_count * v->micro_batch * T;
    int32_t *ids = r->rows, *pos = ids + N, *start = pos + N, *target = start + N;
    *tokens = 0;
    for (uint32_t i = 0; i < v->batch; i++) {
        rt_row row = { .ids = ids + i * T, .target = target + i * T, .start = start + i * T, .pos = pos + i * T };
        RT_TRY(rt_rows_next(r->in->train, &row, e));
        if (rc == 0) RT_TRY(rt_fail(e, RT_INTERNAL, "the data ended, and it has no end"));
        *tokens += row.tokens;
        for (size_t k = 0; k < T; k++)
            if ((uint32_t)row.ids[k] >= rows || row.target[k] >= (int64_t)rows)
                RT_TRY(rt_fail(e, RT_INVALID,
                               "id %d is in the data, and an embedding has %u rows; the data is of "
                               "another tokenizer",
                               (uint32_t)row.ids[k] >= rows ? row.ids[k] : row.target[k], rows));
        for (size_t k = 0; r->in->teacher && k < T; k++)
            if (row.target[k] >= 0 && !rt_pair_has(pair, (uint32_t)row.target[k]))
                RT_TRY(rt_fail(e, RT_INVALID, "id %d is a target in the data, and teacher and student do not share it",
                               row.target[k]));
    }
    for (size_t k = v->batch * T; k < N; k++) {
        ids[k] = start[k] = 0;
        pos[k] = (int32_t)(k % T);
        target[k] = -1;
    }
    rc = RT_OK;
out:
    return rc;
}

/* ---- evaluation ---- */

/* Lower is better: forward KL with a teacher, else CE. */
static int evaluate(rt_run *r, rt_err *e)
{
    int rc;
    rt_eval_result v;
    RT_TRY(rt_evaluate(r->trainer, r->held, &v, NULL, e));
    RT_TRY(rt_samples_make(r->samples, r->trainer, r->state.step, &v, e));
    double now = v.teacher ? v.kl.mean : v.ce.mean;
    bool best = isnan(r->state.best) || now < r->state.best;
    RT_TRY(rt_run_metric(r, rt_eval_to_json(r->state.step, &v), e));
    r->last = v;
    if (best) {
        r->state.best = now;
        r->state.best_step = r->state.step;
        if (r->resolved.save_best && r->state.step > 0) RT_TRY(rt_run_write_best(r, e));
    }
    if (r->events.evaluated) r->events.evaluated(r->events.ctx, r->state.step, &v, best);
out:
    return rc;
}

/* ---- checkpoints ---- */

static int save(rt_run *r, rt_err *e)
{
    int rc;
    r->state.cursor = rt_rows_tell(r->in->train);
    RT_TRY(rt_checkpoint_save(r->out, r->trainer, &r->output, &r->state, e));
    rt_checkpoint_prune(r->out, r->resolved.keep);
    r->saved_at = rt_now();
    if (r->events.saved) {
        char *path = rt_arena_printf(&r->arena, "%s/checkpoint-%06u", r->out, r->state.step);
        if (path) r->events.saved(r->events.ctx, path);
    }
out:
    return rc;
}

/* ---- steps ---- */

/* What a person can do about numbers that are not finite, and that nothing is lost. */
static int explain_nonfinite(const rt_run *r, int rc, rt_err *e)
{
    if (rc != RT_NONFINITE || !e) return rc;
    rt_err what = *e;
    return rt_fail(e, rc,
                   "%.300s; checkpoints are as they were; a lower --lr or --max-grad-norm may help, or a look at "
                   "the rows around step %u",
                   what.text, r->state.step + 1);
}

/* Speed over the steps that lie not too far back. */
typedef struct pace {
    double seconds, tokens;
} pace;

static void keep_pace(pace *p, double seconds, double tokens)
{
    double old = p->seconds > 30.0 ? 30.0 / p->seconds : 1.0; /* what is older than half a minute fades */
    p->seconds = p->seconds * old + seconds;
    p->tokens = p->tokens * old + tokens;
}

static void report_step(rt_run *r, const rt_step_result *out, double lr, const pace *p)
{
    rt_exec_memory memory;
    const rt_trainer *t = r->trainer;
    double all = t->teacher_seconds + t->student_seconds + t->update_seconds;
    if (!r->events.step) return;
    rt_exec_memory_query(t->x, &memory);
    uint32_t left = r->resolved.steps - r->state.step;
    rt_run_line line = { .step = r->state.step,
                         .steps = r->resolved.steps,
                         .result = *out,
                         .lr = lr,
                         .tokens_per_second = p->seconds > 0 ? p->tokens / p->seconds : 0,
                         .teacher_share = all > 0 ? t->teacher_seconds / all : 0,
                         .seconds = r->state.seconds,
                         .remaining = r->state.seconds / r->state.step * left,
                         .memory = memory.total };
    r->events.step(r->events.ctx, &line);
}

static int step_metric(rt_run *r, const rt_step_result *v, double lr, uint64_t tokens, double seconds, rt_err *e)
{
    json_t *j = json_pack("{s:s, s:I, s:f, s:f, s:f, s:f, s:f, s:I, s:I, s:I, s:f}", "event", "step", "step",
                          (json_int_t)r->state.step, "loss", v->loss, "ce", v->ce, "grad_norm", v->grad_norm, "clip",
                          v->clip, "lr", lr, "rows", (json_int_t)r->resolved.batch, "tokens", (json_int_t)tokens,
                          "trained", (json_int_t)v->trained, "seconds", seconds);
    if (j && r->in->teacher) {
        json_object_set_new(j, "divergence", json_real(v->div));
        json_object_set_new(j, "agreement", json_real(v->agreement));
    }
    return rt_run_metric(r, j, e);
}

int rt_run_step(rt_run *r, uint32_t step, double lr, rt_step_result *out, uint64_t *tokens, rt_err *e)
{
    int rc = read_rows(r, tokens, e);
    if (rc >= 0) rc = rt_trainer_step(r->trainer, r->micro, r->micro_count, step, lr, r->resolved.seed, out, e);
    return explain_nonfinite(r, rc, e);
}

/* ---- steps under way ---- */

typedef struct flight {
    uint32_t step;
    uint64_t tokens;
    double lr, begun; /* begun: clock */
    rt_dump *dump;
} flight;

/* Steps that were begun, the oldest first, and what is known from those that ended. */
typedef struct course {
    flight flight[RT_STEPS_BEGUN];
    uint32_t count;
    bool stopping; /* the user wants an end */
    double ended;  /* clock when the last step did */
    pace pace;
} course;

static void course_free(course *c)
{
    for (uint32_t i = 0; i < RT_STEPS_BEGUN; i++) rt_dump_free(c->flight[i].dump);
}

/* Whether something looks at the weights, or the run may end, between this step and the next: then the next one is not
 * begun before this one has ended. */
static bool rests_after(const rt_run *r, uint32_t step)
{
    const rt_resolved *v = &r->resolved;
    uint64_t dump = rt_dump_picks(r->settings) ? r->settings->dump_step : 0;
    return step == v->steps || step % v->eval_every == 0 || step % v->save_every == 0 ||
           rt_now() - r->saved_at > RT_SAVE_SECONDS || (dump && (step == dump || step + 1 == dump)) ||
           (r->smoke.whole && step == RT_SMOKE_STEPS);
}

static int begin_step(rt_run *r, course *c, rt_err *e)
{
    int rc;
    flight *f = &c->flight[c->count];
    *f = (flight){ .step = r->state.step + c->count + 1, .begun = rt_now() };
    f->lr = rt_schedule_lr(&r->resolved.schedule, f->step);
    RT_TRY(read_rows(r, &f->tokens, e));
    RT_TRY(rt_dump_begin(&f->dump, r, f->step, e));
    RT_TRY(rt_trainer_begin(r->trainer, r->micro, r->micro_count, f->step, f->lr, r->resolved.seed, e));
    c->count++;
out:
    return rc;
}

static int end_step(rt_run *r, course *c, rt_err *e)
{
    int rc;
    rt_step_result out;
    const flight *f = &c->flight[0];
    RT_TRY(explain_nonfinite(r, rt_trainer_end(r->trainer, &out, e), e));
    double now = rt_now(), seconds = now - (c->ended > f->begun ? c->ended : f->begun);
    c->ended = now;
    r->state.step = f->step;
    r->state.tokens += f->tokens;
    r->state.trained += out.trained;
    r->state.seconds += seconds;
    keep_pace(&c->pace, seconds, (double)f->tokens);
    RT_TRY(step_metric(r, &out, f->lr, f->tokens, seconds, e));
    report_step(r, &out, f->lr, &c->pace);
    RT_TRY(rt_dump_end(f->dump, f->lr, &out, e));
    rt_dump_free(f->dump);
    for (uint32_t i = 1; i < RT_STEPS_BEGUN; i++) c->flight[i - 1] = c->flight[i];
    c->flight[--c->count].dump = NULL;
out:
    return rc;
}

/* One more step whose result is known. A device that runs by itself is given the next one before this one's result is
 * waited for; what is wrong with the next is told when this one has been dealt with. */
static int next_step(rt_run *r, course *c, rt_err *e)
{
    int rc, later = RT_OK;
    rt_err why = { 0 };
    if (!c->count) RT_TRY(begin_step(r, c, e));
    if (rt_exec_enqueues(r->trainer->x) && !c->stopping && !rests_after(r, r->state.step + 1))
        later = begin_step(r, c, &why);
    RT_TRY(end_step(r, c, e));
    if (later < 0 && e) *e = why;
    rc = later;
out:
    return rc;
}

/* ---- the end ---- */

/* What the model at the root says, beside what was said before. */
static int say_at_end(rt_run *r, rt_run_sample *out, rt_err *e)
{
    if (!r->samples || !r->samples->count) return RT_OK;
    const rt_sample_prompt *p = &r->samples->prompts[0];
    *out = (rt_run_sample){ .prompt = p->text, .before = p->before, .teacher = p->teacher };
    return rt_samples_say(r->samples, r->trainer, 0, &out->after, e);
}

/* The model at the root, loaded again from its files and measured: what a user will have. */
static int finish(rt_run *r, rt_run_summary *out, rt_err *e)
{
    int rc;
    uint32_t step = r->state.step, best_step = r->resolved.save_best ? r->state.best_step : 0;
    char *best_path = rt_best_path(&r->arena, r->out, best_step);
    bool earlier = best_step > 0 && best_step != step, there = best_path && rt_path_is_dir(best_path);
    /* The best was moved to the root already when a run that had come this far is resumed. */
    bool moved = earlier && !there && rt_run_has_root(r), best = earlier && (there || moved);
    out->before = r->first;
    out->after = r->last;
    rt_checkpoint_prune(r->out, r->resolved.keep); /* again, for a run that was killed just before it did */
    if (!best_path) RT_TRY(rt_fail(e, RT_NOMEM, "no memory for a path"));
    if (!moved) RT_TRY(rt_run_write_root(r, best ? best_path : NULL, e));
    rt_best_remove(r->out);
    out->is_best = best_step > 0 && (best || best_step == step);
    out->saved_step = best ? best_step : step;
    if (!best) RT_TRY(rt_output_read_back(r->out, r->trainer, &r->output, &out->difference, e));
    RT_TRY(rt_run_evidence_weights(r, e));
    RT_TRY(rt_output_reload(r->out, r->trainer, &r->output, e));
    RT_TRY(rt_evaluate(r->trainer, r->held, &out->saved, NULL, e));
    RT_TRY(say_at_end(r, &out->sample, e));
    RT_TRY(rt_run_write_card(r, out, e));
    if (r->settings->merge && r->resolved.lora.rank) RT_TRY(rt_run_write_merged(r, e));
    RT_TRY(rt_run_evidence_end(r, out, e));
    RT_TRY(rt_run_write_report(r, e));
out:
    return rc;
}

/* Steps, evaluations and checkpoints up to the last; *smoke: it ended when the first had been timed. */
static int train(rt_run *r, course *c, bool *smoke, rt_err *e)
{
    int rc = RT_OK;
    const rt_resolved *v = &r->resolved;
    while (r->state.step < v->steps) {
        RT_TRY(next_step(r, c, e));
        RT_TRY(rt_run_project(r, smoke, e));
        if (*smoke) goto out;
        if (r->opts->smoke) continue; /* only steps are timed */
        bool last = r->state.step == v->steps;
        c->stopping = !last && (c->stopping || stop_wanted(r));
        if (c->count) continue; /* the next one is under way, because nothing was to be done here */
        if (last || r->state.step % v->eval_every == 0) RT_TRY(evaluate(r, e));
        if (last || c->stopping || r->state.step % v->save_every == 0 || rt_now() - r->saved_at > RT_SAVE_SECONDS)
            RT_TRY(save(r, e));
        if (c->stopping)
            RT_TRY(rt_fail(e, RT_INTERRUPTED, "stopped after step %u of %u; --resume goes on from it", r->state.step,
                           v->steps));
    }
out:
    return rc;
}

int rt_run_train(rt_run *r, rt_run_summary *out, rt_err *e)
{
    int rc;
    course c = { 0 };
    *out = (rt_run_summary){ 0 };
    r->saved_at = rt_now();
    rt_dump_missed(r);
    if (r->resolved.seconds > 0) RT_TRY(rt_run_fit_time(r, e));
    RT_TRY(rt_run_evidence_begin(r, e));
    if (r->state.step == 0) {
        RT_TRY(evaluate(r, e));
        r->first = r->last;
    }
    RT_TRY(train(r, &c, &out->smoke, e));
    if (out->smoke) goto out;
    RT_TRY(finish(r, out, e));
    if (r->settings->control) RT_TRY(rt_control_train(r, out, e));
out:
    course_free(&c);
    return rc;
}
