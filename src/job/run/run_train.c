/* run_train.c - training a run: what its loop records, evaluates and saves, and the end. See run.h. */
#include "job/run/run_internal.h"

#include "base/sys.h"
#include "job/prepare/rate.h"
#include "job/run/dump.h"
#include "job/run/run_cost.h"
#include "job/run/run_report.h"

#include <math.h>

/* ---- evaluation ---- */

/* Half of the rate, and of one that was far too high what would have been its default. */
static double lower_rate(const rt_run *r) { return fmin(r->resolved.schedule.lr / 2, r->resolved.lr_far); }

/* Worse than before the first step: once, until it is not. */
static void warn_if_risen(rt_run *r)
{
    rt_measure first = rt_eval_judged(&r->first), now = rt_eval_judged(&r->last);
    bool risen = r->last.documents >= RT_DOCUMENTS_LEAST && rt_measure_rose(first, now);
    if (risen && !r->risen)
        rt_run_note(r,
                    "held-out %s is %.4f after step %u, worse than the %.4f before the first step by more than two "
                    "standard errors; if it stays there, begin again with a lower rate: --lr %.3g",
                    r->last.teacher ? "KL" : "cross-entropy", now.mean, r->loop.state.step, first.mean, lower_rate(r));
    r->risen = risen;
}

/* The teacher as the user calls it; null: none. */
static const char *teacher_word(const rt_run *r)
{
    const rt_teachers *t = &r->in->teachers;
    return t->count > 1 ? "the teachers" : t->count ? t->list[0].model : NULL;
}

/* A model that carries nothing to its logits trains as any other: once, when it is first seen. */
static void warn_if_even(rt_run *r)
{
    rt_str text = { 0 };
    rt_eval_say_even(&text, &r->last, r->settings->student, teacher_word(r));
    if (text.len && !r->even) rt_run_note(r, "after step %u, %s", r->loop.state.step, text.data);
    r->even = r->even || text.len > 0;
    rt_str_free(&text);
}

static bool stops_early(const rt_run *r)
{
    return r->resolved.stop_if_worse && r->worse.in_row >= r->resolved.stop_if_worse;
}

static int evaluate(void *ctx, rt_err *e)
{
    int rc;
    rt_run *r = ctx;
    rt_eval_result v;
    double begun = rt_now();
    rc = rt_evaluate(r->trainer, r->held, &v, NULL, e);
    if (rc == RT_NONFINITE)
        rt_err_context(e, "%s%s%s after step %u", r->settings->student, r->in->teacher ? " beside " : "",
                       r->in->teacher ? teacher_word(r) : "", r->loop.state.step);
    RT_TRY(rc);
    RT_TRY(rt_samples_make(r->samples, r->trainer, r->loop.state.step, &v, e));
    r->pace.eval = rt_now() - begun - v.seconds + rt_run_smoke_scale(r, v.seconds);
    double now = rt_eval_judged(&v).mean;
    bool best = isnan(r->loop.state.best) || now < r->loop.state.best;
    RT_TRY(rt_run_metric(r, rt_eval_to_json(r->loop.state.step, &v), e));
    if (r->loop.state.step == 0 && rt_eval_set_rebase(r->held)) RT_TRY(rt_run_metric(r, rt_eval_base_json(r->held), e));
    r->last = v;
    r->evaluated = r->loop.state.step;
    if (r->loop.state.step == 0) r->first = v;
    rt_worse_take(&r->worse, rt_eval_judged(&v));
    if (best) {
        r->loop.state.best = now;
        r->loop.state.best_step = r->loop.state.step;
        if (r->resolved.save_best && r->loop.state.step > 0) RT_TRY(rt_run_write_best(r, e));
    }
    if (r->events.evaluated) r->events.evaluated(r->events.ctx, r->loop.state.step, &v, best);
    warn_if_even(r);
    warn_if_risen(r);
    r->loop.enough = stops_early(r);
out:
    return rc;
}

/* The rate of a run that was given none, after its first evaluation; it is in the record before the first step, and a
 * resumed run has it from there. */
static int choose_rate(rt_run *r, rt_err *e)
{
    int rc = RT_OK;
    rt_lr_class class;
    rt_str why = { 0 };
    if (!r->resolved.lr_open) return RT_OK;
    rt_resolve_rate(r->settings, &r->facts, &r->resolved, &r->first);
    if (rt_lr_class_parse(r->settings->lr_class, &class)) rt_lr_class_say(&why, class, &r->first);
    rt_run_note(r, "lr %.2e: %s", r->resolved.schedule.lr, why.data ? why.data : "");
    RT_TRY(rt_run_write_settings(r, e));
out:
    rt_str_free(&why);
    return rc;
}

/* ---- checkpoints ---- */

/* A checkpoint speaks of the logs. */
static int state_of_logs(rt_run *r, json_t **beside, rt_err *e)
{
    int rc;
    RT_TRY(rt_run_sync_logs(r, e));
    RT_TRY(rt_run_hashes_take(r, beside, e));
    r->loop.state.beside = *beside;
    RT_TRY(rt_run_holds(r, e));
out:
    return rc;
}

static int save(void *ctx, rt_err *e)
{
    int rc;
    rt_run *r = ctx;
    json_t *beside = NULL;
    double begun = rt_now();
    RT_TRY(state_of_logs(r, &beside, e));
    RT_TRY(rt_checkpoint_save(r->checkpoints, r->trainer, &r->output, &r->loop.state, e));
    RT_TRY(rt_run_holds(r, e));
    rt_checkpoint_prune(r->checkpoints, r->resolved.keep);
    r->pace.save = rt_now() - begun;
    if (r->events.saved) {
        char *path = rt_arena_printf(&r->arena, "%s/" RT_CHECKPOINT_PREFIX "%06u", r->checkpoints, r->loop.state.step);
        if (path) r->events.saved(r->events.ctx, path);
    }
out:
    r->loop.state.beside = NULL;
    json_decref(beside);
    return rc;
}

static int keep_copy(void *ctx, rt_err *e)
{
    int rc;
    rt_run *r = ctx;
    json_t *beside = NULL;
    RT_TRY(state_of_logs(r, &beside, e));
    RT_TRY(rt_run_copy_take(r, e));
out:
    r->loop.state.beside = NULL;
    json_decref(beside);
    return rc;
}

/* ---- steps ---- */

/* From the step that has just ended, by what each part took lately. A control does all of it again without a teacher.
 */
static double seconds_left(const rt_run *r, double step, double teacher_share)
{
    rt_pace p = r->pace;
    p.step = step;
    double left = rt_pace_left(&p, r->loop.state.step, r->resolved.steps, r->settings);
    if (r->settings->control) left += (1 - teacher_share) * rt_pace_total(&p, 0, r->resolved.steps, r->settings);
    return left;
}

static void report_step(rt_run *r, const rt_loop_step *s)
{
    rt_exec_memory memory;
    const rt_trainer *t = r->trainer;
    double all = t->teacher_seconds + t->student_seconds + t->update_seconds;
    double share = all > 0 ? t->teacher_seconds / all : 0;
    if (!r->events.step) return;
    rt_exec_memory_query(t->x, &memory);
    rt_run_line line = { .step = r->loop.state.step,
                         .steps = r->resolved.steps,
                         .result = s->result,
                         .lr = s->lr,
                         .tokens_per_second = s->tokens_per_second,
                         .distils = rt_step_plan_distils(t->plan),
                         .teacher_share = share,
                         .seconds = r->loop.state.seconds,
                         .remaining = seconds_left(r, s->seconds_per_step, share),
                         .memory = memory.total };
    r->events.step(r->events.ctx, &line);
}

static int step_metric(rt_run *r, const rt_loop_step *s, rt_err *e)
{
    const rt_step_result *v = &s->result;
    json_t *j = json_pack("{s:s, s:I, s:f, s:f, s:f, s:f, s:f, s:I, s:I, s:I, s:f}", "event", "step", "step",
                          (json_int_t)r->loop.state.step, "loss", v->loss, "ce", v->ce, "grad_norm", v->grad_norm,
                          "clip", v->clip, "lr", s->lr, "rows", (json_int_t)r->resolved.batch, "tokens",
                          (json_int_t)s->tokens, "trained", (json_int_t)v->trained, "seconds", s->seconds);
    if (j && r->in->teacher) {
        json_object_set_new(j, "divergence", json_real(v->div));
        json_object_set_new(j, "agreement", json_real(v->agreement));
    }
    return rt_run_metric(r, j, e);
}

static int before_step(void *ctx, uint32_t step, rt_err *e)
{
    rt_run *r = ctx;
    const rt_run_computing c = { step, r->loop.steps, 0, 0 };
    rt_run_device_stepping(r);
    if (r->events.computing && step == r->loop.state.step + 1) r->events.computing(r->events.ctx, &c);
    return rt_dump_begin(&r->dump, r, step, e);
}

static int stepped(void *ctx, const rt_loop_step *s, bool *ends, rt_err *e)
{
    int rc;
    rt_run *r = ctx;
    RT_TRY(step_metric(r, s, e));
    rt_run_device_stepped(r, s);
    report_step(r, s);
    if (rt_loss_trend_take(&r->losses, s->result.loss))
        rt_run_note(
            r,
            "the loss rises: its mean over the last %d steps is %.4f at step %u, and was %.4f at its lowest; if "
            "it does not fall again, begin again with a lower rate: --lr %.3g",
            RT_TREND_STEPS, r->losses.mean, s->step, r->losses.least, lower_rate(r));
    if (r->dump) {
        RT_TRY(rt_dump_end(r->dump, s->lr, &s->result, e));
        rt_dump_free(r->dump);
        r->dump = NULL;
    }
    rt_run_project(r, ends);
out:
    return rc;
}

static bool stop_wanted(void *ctx)
{
    const rt_run *r = ctx;
    return rt_run_device_slow(r) || (r->events.stop && r->events.stop(r->events.ctx));
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
    uint32_t step = r->loop.state.step, best_step = r->resolved.save_best ? r->loop.state.best_step : 0;
    char *best_path = rt_best_path(&r->arena, r->checkpoints, best_step);
    RT_TRY(rt_run_holds(r, e));
    RT_TRY(rt_run_root_clear(r, e));
    bool earlier = best_step > 0 && best_step != step, there = best_path && rt_path_is_dir(best_path);
    /* The best was moved to the root already when a run that had come this far is resumed. */
    bool moved = earlier && !there && rt_run_has_root(r), best = earlier && (there || moved);
    out->before = r->first;
    out->after = r->last;
    RT_TRY(rt_run_holds(r, e));
    rt_checkpoint_prune(r->checkpoints, r->resolved.keep); /* again, for a run that was killed just before it did */
    if (!best_path) RT_TRY(rt_no_memory(e, "a path"));
    if (best) RT_TRY(rt_run_best_check(r, best_path, e));
    if (!moved) RT_TRY(rt_run_write_root(r, best ? best_path : NULL, e));
    RT_TRY(rt_run_holds(r, e));
    rt_best_remove(r->checkpoints);
    out->is_best = best_step > 0 && (best || best_step == step);
    out->saved_step = best ? best_step : step;
    if (!best) RT_TRY(rt_output_read_back(r->out, r->trainer, &r->output, &out->difference, e));
    RT_TRY(rt_watch_step(&r->watch, "comparing weights with those before", 0, 0, e));
    RT_TRY(rt_run_evidence_weights(r, e));
    RT_TRY(rt_output_reload(r->out, r->trainer, &r->output, e));
    RT_TRY(rt_evaluate(r->trainer, r->held, &out->saved, NULL, e));
    RT_TRY(say_at_end(r, &out->sample, e));
    rt_watch_tell(&r->watch, "writing the evidence", 0, 0);
    if (r->settings->merge && r->resolved.lora.rank) RT_TRY(rt_run_write_merged(r, e));
    RT_TRY(rt_run_write_card(r, out, e));
    RT_TRY(rt_run_evidence_end(r, out, e));
    RT_TRY(rt_run_write_report(r, e));
out:
    return rc;
}

int rt_run_train_alone(rt_run *r, rt_run_summary *out, rt_err *e)
{
    int rc;
    const rt_resolved *v = &r->resolved;
    *out = r->ended ? *r->ended : (rt_run_summary){ 0 };
    if (r->ended) return RT_OK;
    r->loop.saved_at = rt_now();
    rt_dump_missed(r);
    if (r->samples) {
        r->samples->said = r->events.said;
        r->samples->ctx = r->events.ctx;
    }
    if (v->seconds > 0) {
        RT_TRY(rt_run_fit_time(r, e));
        RT_TRY(rt_run_supply_begin(r, e));
    }
    RT_TRY(rt_run_device_begin(r, e));
    RT_TRY(rt_run_copy_begin(r, e));
    if (r->loop.state.step == 0) RT_TRY(evaluate(r, e));
    RT_TRY(rt_run_measure_transfer(r, e));
    RT_TRY(choose_rate(r, e));
    RT_TRY(rt_run_evidence_begin(r, e));
    RT_TRY(rt_run_pace(r, 0, r->pace.eval, &r->pace, e));
    r->loop.steps = v->steps;
    r->loop.eval_every = v->eval_every;
    r->loop.save_every = v->save_every;
    r->loop.schedule = v->schedule;
    r->loop.alone = rt_dump_picks(r->settings) ? (uint32_t)r->settings->dump_step : 0;
    r->loop.rest = r->smoke.whole ? RT_SMOKE_STEPS : 0;
    r->loop.steps_only = r->opts->smoke;
    r->loop.evaluate_first = r->loop.state.step && r->evaluated != r->loop.state.step &&
                             (r->loop.state.step % v->eval_every == 0 || r->loop.state.step == v->steps);
    r->loop.calls = (rt_loop_calls){ before_step, stepped, evaluate, save, keep_copy, stop_wanted, r };
    r->loop.enough = stops_early(r); /* a resumed run that had ended */
    RT_TRY(rt_run_device_given_up(r, rt_loop_run(&r->loop, &out->smoke, e), e));
    rt_run_supply_end(r);
    out->stopped_early = !out->smoke && r->loop.state.step < v->steps;
    if (!out->smoke) RT_TRY(finish(r, out, e));
out:
    return rc;
}
