/* loop.c - see loop.h. */
#include "train/loop.h"

#include "base/sys.h"
#include "train/follow.h"

/* ---- rows ---- */

int rt_loop_begin(rt_loop *l, rt_err *e)
{
    const rt_peers *p = l->trainer ? l->trainer->peers : NULL;
    l->ranks = p ? p->size : 1;
    l->rank_micro = (rt_rank_rows(l->batch, l->ranks) + l->micro_batch - 1) / l->micro_batch;
    l->micro_count = l->rank_micro * l->ranks;
    if (p) l->trainer->rank_batch = l->batch;
    size_t B = (size_t)l->micro_batch * l->seq_len, N = l->micro_count * B;
    l->rows = rt_alloc(5 * N * sizeof *l->rows, 64);
    l->micro = rt_alloc(l->micro_count * sizeof *l->micro, 16);
    if (!l->rows || !l->micro) return rt_fail(e, RT_NOMEM, "no memory for a batch of %u rows", l->batch);
    for (uint32_t i = 0; i < l->micro_count; i++)
        l->micro[i] = (rt_batch){ l->rows + i * B, l->rows + N + i * B, l->rows + 2 * N + i * B,
                                  l->rows + 3 * N + i * B, l->rows + 4 * N + i * B };
    return RT_OK;
}

void rt_loop_free(rt_loop *l)
{
    rt_free(l->rows);
    rt_free(l->micro);
    l->rows = NULL;
    l->micro = NULL;
}

/* Positions in which nothing is learnt. */
static void pad(int32_t *ids, size_t N, size_t T, size_t from, size_t to)
{
    int32_t *pos = ids + N, *start = pos + N, *target = start + N, *group = target + N;
    for (size_t k = from; k < to; k++) {
        ids[k] = start[k] = group[k] = 0;
        pos[k] = (int32_t)(k % T);
        target[k] = -1;
    }
}

/* Each rank has as many micro-batches, and rows one after another in the order of one process. */
static size_t place_of(const rt_loop *l, uint32_t row)
{
    uint32_t rank = 0;
    while (rt_rank_first(l->batch, rank + 1, l->ranks) <= row) rank++;
    return (size_t)rank * l->rank_micro * l->micro_batch + row - rt_rank_first(l->batch, rank, l->ranks);
}

int rt_loop_read(rt_loop *l, uint64_t *tokens, rt_err *e)
{
    int rc = RT_OK;
    size_t T = l->seq_len, N = (size_t)l->micro_count * l->micro_batch * T;
    int32_t *ids = l->rows, *pos = ids + N, *start = pos + N, *target = start + N, *group = target + N;
    size_t end = 0; /* of the rows that are filled, as they lie */
    *tokens = 0;
    for (uint32_t row_of_step = 0; row_of_step < l->batch; row_of_step++) {
        size_t i = place_of(l, row_of_step);
        pad(ids, N, T, end, i * T);
        end = (i + 1) * T;
        rt_row row = { .ids = ids + i * T, .target = target + i * T, .start = start + i * T, .pos = pos + i * T };
        RT_TRY(rt_rows_next(l->source, &row, e));
        if (rc == 0) RT_TRY(rt_fail(e, RT_INTERNAL, "the source of rows ended before the run"));
        *tokens += row.tokens;
        rt_row_groups(&row, l->seq_len, group + i * T);
        for (size_t k = 0; k < T; k++)
            if ((uint32_t)row.ids[k] >= l->id_rows || row.target[k] >= (int64_t)l->id_rows)
                RT_TRY(rt_fail(e, RT_INVALID,
                               "id %d is in the data, and an embedding has %u rows; the data is of "
                               "another tokenizer",
                               (uint32_t)row.ids[k] >= l->id_rows ? row.ids[k] : row.target[k], l->id_rows));
        for (size_t k = 0; l->pair && k < T; k++)
            if (row.target[k] >= 0 && !rt_pair_has(l->pair, (uint32_t)row.target[k]))
                RT_TRY(rt_fail(e, RT_INVALID, "id %d is a target in the data, and teacher and student do not share it",
                               row.target[k]));
    }
    pad(ids, N, T, end, N);
    rc = RT_OK;
out:
    return rc;
}

/* ---- one step ---- */

/* What a person can do about numbers that are not finite, and that nothing is lost. */
static int explain_nonfinite(const rt_loop *l, int rc, rt_err *e)
{
    if (rc != RT_NONFINITE || !e) return rc;
    rt_err what = *e;
    return rt_fail(e, rc,
                   "%.300s; checkpoints are as they were; a lower --lr or --max-grad-norm may help, or a look at "
                   "the rows around step %u",
                   what.text, l->state.step + 1);
}

int rt_loop_try(rt_loop *l, uint32_t step, double lr, rt_step_result *out, rt_err *e)
{
    uint64_t tokens;
    int rc = rt_loop_read(l, &tokens, e);
    if (rc >= 0) rc = rt_trainer_step(l->trainer, l->micro, l->micro_count, step, lr, l->seed, out, e);
    return explain_nonfinite(l, rc, e);
}

/* Speed over the steps that lie not too far back. */
typedef struct pace {
    double seconds, tokens, steps;
} pace;

static void keep_pace(pace *p, double seconds, double tokens)
{
    double old = p->seconds > 30.0 ? 30.0 / p->seconds : 1.0; /* what is older than half a minute fades */
    p->seconds = p->seconds * old + seconds;
    p->tokens = p->tokens * old + tokens;
    p->steps = p->steps * old + 1;
}

/* ---- steps under way ---- */

typedef struct flight {
    uint32_t step;
    uint64_t tokens;
    double lr, begun; /* begun: clock */
} flight;

/* Steps that were begun, the oldest first, and what is known from those that ended. */
typedef struct course {
    flight flight[RT_STEPS_BEGUN];
    uint32_t count;
    bool stopping;    /* the user wants an end */
    rt_cursor before; /* of the rows of the step that was begun last */
    double ended;     /* clock when the last step did */
    pace pace;
} course;

/* Whether something looks at the weights, or the run may end, between this step and the next: then the next one is not
 * begun before this one has ended. */
static bool rests_after(const rt_loop *l, uint32_t step)
{
    return step == l->steps || step % l->eval_every == 0 || step % l->save_every == 0 ||
           rt_now() - l->saved_at > RT_SAVE_SECONDS || (l->alone && (step == l->alone || step + 1 == l->alone)) ||
           step == l->rest || (l->copy_every && step % l->copy_every == 0);
}

static int begin_step(rt_loop *l, course *c, rt_err *e)
{
    int rc;
    flight *f = &c->flight[c->count];
    *f = (flight){ .step = l->state.step + c->count + 1, .begun = rt_now() };
    f->lr = rt_schedule_lr(&l->schedule, f->step);
    c->before = rt_rows_tell(l->source);
    RT_TRY(rt_loop_read(l, &f->tokens, e));
    if (l->calls.before) RT_TRY(l->calls.before(l->calls.ctx, f->step, e));
    RT_TRY(rt_trainer_begin(l->trainer, l->micro, l->micro_count, f->step, f->lr, l->seed, e));
    c->count++;
out:
    return rc;
}

static int end_step(rt_loop *l, course *c, bool *ends, rt_err *e)
{
    int rc;
    const flight *f = &c->flight[0];
    rt_loop_step s = { .step = f->step, .lr = f->lr, .tokens = f->tokens };
    RT_TRY(explain_nonfinite(l, rt_trainer_end(l->trainer, &s.result, e), e));
    double now = rt_now();
    s.seconds = now - (c->ended > f->begun ? c->ended : f->begun);
    c->ended = now;
    l->state.step = f->step;
    l->state.tokens += f->tokens;
    l->state.trained += s.result.trained;
    l->state.seconds += s.seconds;
    keep_pace(&c->pace, s.seconds, (double)f->tokens);
    s.tokens_per_second = c->pace.seconds > 0 ? c->pace.tokens / c->pace.seconds : 0;
    s.seconds_per_step = c->pace.seconds / c->pace.steps;
    for (uint32_t i = 1; i < RT_STEPS_BEGUN; i++) c->flight[i - 1] = c->flight[i];
    c->count--;
    RT_TRY(l->calls.stepped(l->calls.ctx, &s, ends, e));
out:
    return rc;
}

/* One more step whose result is known. A device that runs by itself is given the next one before this one's result is
 * waited for; what is wrong with the next is told when this one has been dealt with. */
static int next_step(rt_loop *l, course *c, bool *ends, rt_err *e)
{
    int rc, later = RT_OK;
    rt_err why = { 0 };
    if (!c->count) RT_TRY(begin_step(l, c, e));
    if (rt_exec_enqueues(l->trainer->x) && !c->stopping && !rests_after(l, l->state.step + 1))
        later = begin_step(l, c, &why);
    RT_TRY(end_step(l, c, ends, e));
    if (later < 0 && e) *e = why;
    rc = later;
out:
    return rc;
}

/* ---- the loop ---- */

static bool wants_stop(const rt_loop *l) { return l->calls.stop && l->calls.stop(l->calls.ctx); }

static bool at_end(const rt_loop *l) { return l->enough || l->state.step >= l->steps; }

static bool every(const rt_loop *l, uint32_t steps) { return at_end(l) || l->state.step % steps == 0; }

static int save(rt_loop *l, rt_cursor at, rt_err *e)
{
    int rc;
    l->state.cursor = at;
    RT_TRY(l->calls.save(l->calls.ctx, e));
    l->saved_at = rt_now();
    l->saved_step = l->state.step;
out:
    return rc;
}

static int stopped(const rt_loop *l, rt_err *e)
{
    if (!l->state.step) return rt_fail(e, RT_INTERRUPTED, "stopped during step 1 of %u", l->steps);
    return rt_fail(e, RT_INTERRUPTED, "stopped after step %u of %u", l->state.step, l->steps);
}

/* What follows a step, or is left to follow it in a resumed run: its evaluation and its checkpoint. Whoever wants to
 * stop need not wait for the evaluation: it is made when the run is resumed. */
static int follow_step(rt_loop *l, bool stopping, rt_err *e)
{
    int rc = RT_OK;
    if (every(l, l->eval_every)) {
        rc = l->calls.evaluate(l->calls.ctx, e);
        if (rc < 0 && rc != RT_INTERRUPTED) return rc;
    }
    stopping = rc == RT_INTERRUPTED || (!at_end(l) && (stopping || wants_stop(l)));
    if (stopping || every(l, l->save_every) || rt_now() - l->saved_at > RT_SAVE_SECONDS) {
        RT_TRY(save(l, rt_rows_tell(l->source), e));
        stopping = stopping || (!at_end(l) && wants_stop(l));
    } else if (l->copy_every && l->state.step % l->copy_every == 0) {
        l->state.cursor = rt_rows_tell(l->source);
        RT_TRY(l->calls.copy(l->calls.ctx, e));
    }
    if (stopping) rc = stopped(l, e);
out:
    return rc;
}

/* A step that was given up, by somebody who stops or for want of what its teacher says, has changed nothing: the one
 * before it is saved, where that was not done yet, and a resumed run takes the same rows again. */
static int leave_step(rt_loop *l, const course *c, int why, rt_err *e)
{
    int rc;
    const rt_err reason = e ? *e : (rt_err){ 0 };
    if (l->state.step > l->saved_step && !l->steps_only) RT_TRY(save(l, c->before, e));
    if (why == RT_INTERRUPTED) return stopped(l, e);
    if (e) *e = reason;
    rc = why;
out:
    return rc;
}

int rt_loop_run(rt_loop *l, bool *ended, rt_err *e)
{
    int rc = RT_OK;
    course c = { 0 };
    *ended = false;
    l->saved_step = l->state.step;
    if (l->evaluate_first) RT_TRY(follow_step(l, false, e));
    while (!at_end(l)) {
        rc = next_step(l, &c, ended, e);
        if ((rc == RT_INTERRUPTED || rc == RT_NETWORK) && !c.count) rc = leave_step(l, &c, rc, e);
        RT_TRY(rc);
        if (*ended) goto out;
        if (l->steps_only) continue;
        c.stopping = !at_end(l) && (c.stopping || wants_stop(l));
        if (c.count) continue; /* the next one is under way, because nothing was to be done here */
        RT_TRY(follow_step(l, c.stopping, e));
    }
out:
    return rc;
}
