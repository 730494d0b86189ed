/* serve_worker.c - see serve_worker.h. */
#include "serve/serve_worker.h"

#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

void rt_worker_lock(rt_worker *w) { pthread_mutex_lock(&w->lock); }
void rt_worker_unlock(rt_worker *w) { pthread_mutex_unlock(&w->lock); }

/* ---- news; the lock is held ---- */

static void note(rt_worker *w, rt_sequence *q)
{
    const uint64_t one = 1;
    if (q->noted) return;
    q->noted = true;
    q->next_noted = NULL;
    if (w->noted)
        w->noted_last->next_noted = q;
    else
        w->noted = q;
    w->noted_last = q;
    if (w->noted == q && write(w->wake, &one, sizeof one) < 0) return; /* it is awake already */
}

rt_sequence *rt_worker_news(rt_worker *w)
{
    rt_sequence *q = w->noted;
    if (!q) return NULL;
    w->noted = q->next_noted;
    q->noted = false;
    return q;
}

/* ---- what a sequence is told ---- */

static bool keep_place(rt_said *s, const rt_token_event *t, uint32_t offset, uint32_t top)
{
    const uint32_t many = t->likely.rank_count < top ? t->likely.rank_count : top;
    if (!rt_grow((void **)&s->place, &s->place_cap, s->count + 1, sizeof *s->place) ||
        !rt_grow((void **)&s->likely, &s->likely_cap, s->likely_count + many + 1, sizeof *s->likely))
        return false;
    s->place[s->count++] = (rt_place){ t->id, t->likely.logp, s->likely_count, many, offset };
    for (uint32_t i = 0; i < many; i++)
        s->likely[s->likely_count++] = (rt_likely_id){ (uint32_t)t->likely.id[i], t->likely.each[i] };
    s->prompt += t->prompt;
    return true;
}

static void on_answer(void *ctx, const rt_answer_event *a)
{
    rt_sequence *q = ctx;
    rt_worker *w = q->worker;
    rt_said *s = &q->said;
    rt_worker_lock(w);
    bool kept = a->token->id == UINT32_MAX || keep_place(s, a->token, a->offset, q->o.top);
    rt_str_append_n(&s->text, a->text, a->len);
    if (!kept || s->text.failed) q->cancelled = true, rt_no_memory(&s->err, "an answer");
    s->end = a->end;
    s->stop = a->stop;
    for (uint32_t i = 0; a->end != RT_END_NONE && i < w->engine->slots; i++)
        if (w->active[i] == q) w->active[i] = NULL;
    if (a->end == RT_END_NONFINITE) rt_fail(&s->err, RT_NONFINITE, "a logit is not finite; the model is damaged");
    if (a->end != RT_END_NONE || (q->streams && !a->token->prompt)) note(w, q);
    rt_worker_unlock(w);
}

/* ---- the thread ---- */

/* The first of the queue, when there is room for it. */
static rt_sequence *take(rt_worker *w)
{
    rt_worker_lock(w);
    rt_sequence *q = w->first;
    if (q && !q->teaches && !rt_speaker_has_room(w->speaker, &q->o)) q = NULL;
    if (q) {
        w->first = q->next;
        w->waiting--;
        q->begun = true;
    }
    rt_worker_unlock(w);
    return q;
}

/* A teacher's answer is made at once, between two steps of the engine. */
static int teach(rt_worker *w, rt_sequence *q, rt_err *e)
{
    rt_str out = { 0 };
    rt_err why = { 0 };
    const rt_str *asked = &q->question;
    const int rc = asked->len ? rt_teaching_answer(w->teaching, asked->data, asked->len, &out, &why)
                              : rt_teaching_describe(w->teaching, q->hidden, &out, &why);
    rt_worker_lock(w);
    q->said.text = out;
    q->said.end = rc < 0 ? RT_END_CANCELLED : RT_END_STOP;
    q->said.err = why;
    note(w, q);
    rt_worker_unlock(w);
    if (rc == RT_DEVICE && e) *e = why;
    return rc == RT_DEVICE ? rc : RT_OK;
}

static int begin_waiting(rt_worker *w, rt_err *fatal)
{
    int rc = RT_OK;
    for (rt_sequence *q; rc >= 0 && (q = take(w));) {
        rt_err e = { 0 };
        uint32_t slot = 0;
        if (q->teaches) {
            rc = teach(w, q, fatal);
            if (rt_speaker_busy(w->speaker)) break; /* nobody waits for two of them */
            continue;
        }
        while (w->active[slot]) slot++;
        if (rt_speaker_begin(w->speaker, &q->o, &q->answer, &e) >= 0) {
            w->active[slot] = q;
            continue;
        }
        rt_worker_lock(w);
        q->said.end = RT_END_CANCELLED;
        q->said.err = e;
        note(w, q);
        rt_worker_unlock(w);
    }
    return rc;
}

/* Those that nobody wants any more. */
static void end_cancelled(rt_worker *w)
{
    for (uint32_t i = 0; i < w->engine->slots; i++) {
        rt_worker_lock(w);
        rt_sequence *q = w->active[i];
        const bool over = q && q->cancelled;
        rt_worker_unlock(w);
        if (over) rt_speaker_cancel(w->speaker, q->answer);
    }
}

/* The device has failed: whoever waits or is under way hears of it. */
static void fail_all(rt_worker *w, const rt_err *e)
{
    rt_worker_lock(w);
    w->failed = *e;
    for (uint32_t i = 0; i < w->engine->slots; i++)
        if (w->active[i]) {
            w->active[i]->said.end = RT_END_CANCELLED;
            w->active[i]->said.err = *e;
            note(w, w->active[i]);
        }
    for (rt_sequence *q = w->first; q; q = q->next) {
        q->said.end = RT_END_CANCELLED;
        q->said.err = *e;
        note(w, q);
    }
    w->first = NULL;
    w->waiting = 0;
    rt_worker_unlock(w);
}

static int open_engine(rt_worker *w, rt_err *e)
{
    int rc;
    RT_TRY(rt_speaker_seal(w->speaker, w->engine, w->where, w->env, e));
    if (!(w->active = rt_alloc_zero(w->engine->slots * sizeof *w->active, 16))) RT_TRY(rt_no_memory(e, "a server"));
out:
    return rc;
}

/* Whether there is something to do; waits for it. */
static bool wait_for_work(rt_worker *w)
{
    rt_worker_lock(w);
    w->stats = rt_speaker_stats(w->speaker);
    w->busy = rt_speaker_busy(w->speaker);
    while (!w->quit && !w->first && !w->busy) pthread_cond_wait(&w->changed, &w->lock);
    const bool go_on = !w->quit;
    rt_worker_unlock(w);
    return go_on;
}

static void *work(void *arg)
{
    rt_worker *w = arg;
    rt_err e = { 0 };
    int rc = open_engine(w, &e);
    rt_worker_lock(w);
    w->ready = true;
    if (rc < 0) w->failed = e;
    pthread_cond_broadcast(&w->changed);
    rt_worker_unlock(w);
    while (rc >= 0 && wait_for_work(w)) {
        end_cancelled(w);
        rc = begin_waiting(w, &e);
        if (rc >= 0) rc = rt_speaker_step(w->speaker, &e);
        if (rc < 0) fail_all(w, &e);
    }
    rt_teaching_unseal(w->teaching);
    rt_speaker_unseal(w->speaker);
    return NULL;
}

int rt_worker_start(rt_worker *w, rt_err *e)
{
    int rc = RT_OK;
    w->wake = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    if (w->wake < 0)
        return rt_fail(e, RT_IO, "the server could not create an event descriptor: too many files are open");
    pthread_mutex_init(&w->lock, NULL);
    pthread_cond_init(&w->changed, NULL);
    if (pthread_create(&w->thread, NULL, work, w) != 0) {
        close(w->wake);
        return rt_fail(e, RT_NOMEM, "the server could not start its device thread");
    }
    w->running = true;
    rt_worker_lock(w);
    while (!w->ready) pthread_cond_wait(&w->changed, &w->lock);
    if (w->failed.status < 0) {
        rc = w->failed.status;
        if (e) *e = w->failed;
    }
    rt_worker_unlock(w);
    return rc;
}

void rt_worker_stop(rt_worker *w)
{
    if (!w->running) return;
    rt_worker_lock(w);
    w->quit = true;
    pthread_cond_broadcast(&w->changed);
    rt_worker_unlock(w);
    pthread_join(w->thread, NULL);
    pthread_cond_destroy(&w->changed);
    pthread_mutex_destroy(&w->lock);
    close(w->wake);
    rt_free(w->active);
    w->running = false;
}

/* ---- for the loop ---- */

void rt_worker_put(rt_worker *w, rt_sequence *each, uint32_t count)
{
    rt_worker_lock(w);
    for (uint32_t i = 0; i < count; i++) {
        rt_sequence *q = &each[i];
        q->worker = w;
        q->o.fn = on_answer;
        q->o.ctx = q;
        q->next = NULL;
        if (w->first)
            w->last->next = q;
        else
            w->first = q;
        w->last = q;
    }
    w->waiting += count;
    pthread_cond_broadcast(&w->changed);
    rt_worker_unlock(w);
}

static void leave_queue(rt_worker *w, rt_sequence *q)
{
    rt_sequence *before = NULL, *at = w->first;
    for (; at != q; at = at->next) before = at;
    if (before)
        before->next = q->next;
    else
        w->first = q->next;
    if (w->last == q) w->last = before;
    w->waiting--;
    q->said.end = RT_END_CANCELLED;
}

void rt_worker_cancel(rt_worker *w, rt_sequence *each, uint32_t count)
{
    rt_worker_lock(w);
    for (uint32_t i = 0; i < count; i++) {
        rt_sequence *q = &each[i];
        q->cancelled = true;
        if (q->said.end != RT_END_NONE || q->begun) continue;
        leave_queue(w, q);
        note(w, q);
    }
    rt_worker_unlock(w);
}

bool rt_worker_full(rt_worker *w, uint32_t most)
{
    rt_worker_lock(w);
    const uint32_t free = w->engine->slots > w->busy ? w->engine->slots - w->busy : 0;
    const bool full = w->waiting >= most + free;
    rt_worker_unlock(w);
    return full;
}

rt_worker_state rt_worker_state_of(rt_worker *w)
{
    rt_worker_lock(w);
    const rt_worker_state s = { .waiting = w->waiting, .busy = w->busy, .stats = w->stats, .failed = w->failed };
    rt_worker_unlock(w);
    return s;
}

void rt_said_free(rt_said *s)
{
    rt_free(s->place);
    rt_free(s->likely);
    rt_str_free(&s->text);
}
