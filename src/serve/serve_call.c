/* serve_call.c - a request for completions or a chat, from its sequences in the queue to the end of its reply. See
 * serve_internal.h.
 *
 * A call lives until all its sequences have ended, whether anybody still listens or not: the worker writes into them.
 */
#include "serve/serve_internal.h"

#include "base/sys.h"

#include <event2/event.h>
#include <math.h>
#include <stddef.h>
#include <stdio.h>

/* Of a reply that the clerk writes: what a core writes in about 5 ms. */
enum { LARGE_ENTRIES = 2048, LARGE_BYTES = 256 << 10 };

static void call_free(rt_call *c)
{
    if (!c) return;
    if (c->before) c->before->after = c->after;
    if (c->after) c->after->before = c->before;
    if (c->who.server->calls == c) c->who.server->calls = c->after;
    if (c->who.closed) event_free(c->who.closed);
    for (uint32_t i = 0; i < c->count; i++) {
        rt_said_free(&c->each[i].said);
        rt_str_free(&c->each[i].question);
    }
    rt_free(c->each);
    rt_free(c->sent);
    rt_free(c->written);
    rt_free(c->over);
    rt_str_free(&c->out);
    rt_ask_free(&c->ask);
    rt_free(c);
}

/* The reply is given, or nobody waits for it. What has not ended is of no use any more. */
static void let_go(rt_call *c)
{
    if (c->who.closed) event_free(c->who.closed);
    c->who.closed = NULL;
    c->who.req = NULL;
    if (c->formatting) return; /* then it goes when that is done */
    if (c->ended == c->count)
        call_free(c);
    else
        rt_worker_cancel(&c->who.server->worker, c->each, c->count);
}

static void on_gone(rt_listener *l)
{
    rt_call *c = (rt_call *)l;
    c->who.server->cancelled++;
    let_go(c);
}

/* ---- replies ---- */

static void refuse(rt_call *c, const rt_refusal *why)
{
    rt_str out = { 0 };
    rt_http_unwatch(&c->who);
    if (!c->started) {
        rt_http_error(c->who.server, c->who.req, why);
    } else {
        rt_str_append(&out, "data: ");
        rt_reply_error(why, &out);
        rt_str_append(&out, "\n\n");
        if (!out.failed) rt_http_stream(c->who.req, out.data, out.len);
        rt_http_stream_end(c->who.req);
    }
    rt_str_free(&out);
    let_go(c);
}

/* Why a reply cannot be whole: a sequence has no end of its own. */
static const rt_err *failure(const rt_call *c)
{
    for (uint32_t i = 0; i < c->count; i++)
        if (c->each[i].said.err.status < 0) return &c->each[i].said.err;
    return NULL;
}

/* 500 is what may pass: whoever asks for a teacher tries that again. */
static uint32_t status_of(const rt_call *c, const rt_err *failed)
{
    if (!c->each[0].teaches || failed->status == RT_DEVICE) return 500;
    return failed->status == RT_NOT_FOUND ? 409 : 400;
}

/* What takes the loop's time: log-probabilities above all, each with its text. */
static bool is_large(const rt_call *c)
{
    uint64_t entries = 0, bytes = 0;
    for (uint32_t i = 0; i < c->count; i++) {
        entries += c->each[i].said.count + (uint64_t)c->each[i].said.likely_count;
        bytes += c->each[i].said.text.len + (c->ask.echo ? c->ask.prompt[i / c->ask.n].text.len : 0);
    }
    return !c->started && (entries > LARGE_ENTRIES || bytes > LARGE_BYTES);
}

static void format(rt_call *c)
{
    if (c->started)
        rt_reply_last(c, &c->out);
    else
        rt_reply_whole(c, &c->out);
}

static void give(rt_call *c)
{
    if (c->out.failed) {
        rt_refusal why = { 0 };
        rt_refuse(&why, 500, NULL, "no memory for the reply");
        refuse(c, &why);
        return;
    }
    rt_http_unwatch(&c->who);
    if (c->started) {
        rt_http_stream(c->who.req, c->out.data, c->out.len);
        rt_http_stream_end(c->who.req);
    } else {
        rt_http_send(c->who.server, c->who.req, 200, NULL, c->out.data, c->out.len);
    }
    let_go(c);
}

static rt_call *call_of(rt_chore *chore) { return (rt_call *)(void *)((char *)chore - offsetof(rt_call, chore)); }

static void format_large(rt_chore *chore) { format(call_of(chore)); }

static void send_large(rt_chore *chore)
{
    rt_call *c = call_of(chore);
    c->formatting = false;
    if (!c->who.req || chore->left_out)
        call_free(c);
    else
        give(c);
}

static void finish(rt_call *c)
{
    const rt_err *failed = failure(c);
    if (failed) {
        rt_refusal why = { .http = status_of(c, failed), .err = *failed };
        refuse(c, &why);
        return;
    }
    if (c->each[0].teaches) {
        const rt_str *said = &c->each[0].said.text;
        rt_http_unwatch(&c->who);
        rt_http_send(c->who.server, c->who.req, 200, "application/octet-stream", said->data, said->len);
        let_go(c);
        return;
    }
    if (is_large(c)) {
        c->formatting = true;
        c->chore = (rt_chore){ .work = format_large, .done = send_large };
        rt_clerk_put(&c->who.server->clerk, &c->chore);
        return;
    }
    format(c);
    give(c);
}

/* What a call has heard goes to its client. */
static void answer(rt_call *c)
{
    if (!c->who.req) {
        if (c->ended == c->count && !c->formatting) call_free(c);
        return;
    }
    if (c->ended == c->count) {
        finish(c);
        return;
    }
    if (!c->started || !c->out.len) return;
    rt_http_stream(c->who.req, c->out.data, c->out.len);
    c->out.len = 0;
}

void rt_calls_hear(rt_server *s)
{
    rt_call *heard = NULL;
    rt_worker_lock(&s->worker);
    for (rt_sequence *q; (q = rt_worker_news(&s->worker));) {
        rt_call *c = q->owner;
        c->ended += q->said.end != RT_END_NONE;
        if (c->started && c->who.req && !q->said.err.status) rt_reply_next(c, q->index, &c->out);
        if (!c->heard) c->next_heard = heard, heard = c;
        c->heard = true;
    }
    rt_worker_unlock(&s->worker);
    while (heard) {
        rt_call *c = heard;
        heard = c->next_heard;
        c->heard = false;
        answer(c);
    }
}

void rt_calls_time_out(rt_server *s, double now)
{
    for (rt_call *c = s->calls, *next; c; c = next) {
        rt_refusal why;
        next = c->after;
        if (!c->who.req || now < c->deadline) continue;
        rt_refuse(&why, 503, NULL, "the request took longer than %g seconds (--timeout)", s->o->timeout);
        s->timed_out++;
        refuse(c, &why);
    }
}

void rt_calls_end(rt_server *s, const rt_refusal *why)
{
    for (rt_call *c = s->calls, *next; c; c = next) {
        next = c->after;
        if (c->who.req) refuse(c, why);
    }
}

void rt_calls_free(rt_server *s)
{
    while (s->calls) call_free(s->calls);
}

/* ---- beginning ---- */

static rt_answer_opts opts_of(const rt_ask *a, uint32_t i)
{
    const rt_ask_prompt *p = &a->prompt[i / a->n];
    const int32_t top = a->logprobs > a->prompt_logprobs ? a->logprobs : a->prompt_logprobs;
    return (rt_answer_opts){ .prompt = p->ids.ids,
                             .count = p->ids.count,
                             .max_new = a->max_new,
                             .sampling = a->sampling,
                             .ordinal = p->equal * a->n + i % a->n,
                             .stop = a->stop,
                             .stops = a->stops,
                             .stop_ids = a->stop_ids.ids,
                             .stop_id_count = a->stop_ids.count,
                             .top = top > 0 ? (uint32_t)top : 0,
                             .on = a->on,
                             .special = a->special,
                             .joined = !a->chat,
                             .logp = a->logprobs >= 0,
                             .echo = a->prompt_logprobs >= 0 || (a->echo && a->logprobs >= 0) };
}

/* Every prompt can be answered at all. */
static int check(const rt_server *s, const rt_ask *a, rt_refusal *why)
{
    rt_err e = { 0 };
    for (uint32_t i = 0; i < a->prompts; i++) {
        const rt_answer_opts o = opts_of(a, i * a->n);
        if (rt_speaker_check(s->speaker, &o, &e) >= 0) continue;
        if (a->prompts > 1) rt_err_context(&e, "prompt %u", i);
        return rt_refuse(why, 400, a->chat ? "messages" : "prompt", "%s", e.text);
    }
    return RT_OK;
}

static rt_call *call_alloc(rt_server *s, struct evhttp_request *req, uint32_t n)
{
    rt_call *c = rt_alloc_zero(sizeof *c, 16);
    if (!c) return NULL;
    *c = (rt_call){ .who = { s, req, on_gone, NULL }, .created = rt_serve_time(s), .after = s->calls };
    c->deadline = s->o->timeout > 0 ? rt_now() + s->o->timeout : INFINITY;
    if (s->calls) s->calls->before = c;
    s->calls = c;
    c->each = rt_alloc_zero(n * sizeof *c->each, 16);
    c->sent = rt_alloc_zero(n * sizeof *c->sent, 16);
    c->written = rt_alloc_zero(n * sizeof *c->written, 16);
    c->over = rt_alloc_zero(n * sizeof *c->over, 16);
    if (!c->each || !c->sent || !c->written || !c->over) {
        call_free(c);
        return NULL;
    }
    c->count = n;
    return c;
}

static rt_call *call_new(rt_server *s, struct evhttp_request *req, rt_ask *ask)
{
    const uint32_t n = ask->prompts * ask->n;
    rt_call *c = call_alloc(s, req, n);
    if (!c) return NULL;
    c->ask = *ask;
    *ask = (rt_ask){ 0 };
    for (uint32_t i = 0; i < n; i++)
        c->each[i] = (rt_sequence){ .owner = c, .index = i, .o = opts_of(&c->ask, i), .streams = c->ask.stream };
    return c;
}

static void begin(rt_call *c)
{
    rt_server *s = c->who.server;
    snprintf(c->id, sizeof c->id, "%s-%llx-%llu", c->ask.chat ? "chatcmpl" : "cmpl", (long long)s->o->env->now,
             (unsigned long long)s->number);
    if (c->ask.stream) {
        rt_http_stream_begin(s, c->who.req);
        c->started = true;
        rt_reply_first(c, &c->out);
        if (c->out.len) rt_http_stream(c->who.req, c->out.data, c->out.len);
        c->out.len = 0;
    }
    rt_worker_put(&s->worker, c->each, c->count);
}

static int check_queue(rt_server *s, rt_refusal *why)
{
    if (!rt_worker_full(&s->worker, (uint32_t)s->o->max_queue)) return RT_OK;
    return rt_refuse(why, 429, NULL, "%u sequences are waiting already, the limit of --max-queue; try again later",
                     (unsigned)s->o->max_queue);
}

void rt_call_new(rt_server *s, struct evhttp_request *req, rt_ask *ask)
{
    rt_refusal why = { 0 };
    rt_err e = { 0 };
    rt_call *c = NULL;
    int rc = check(s, ask, &why);
    if (rc >= 0) rc = check_queue(s, &why);
    if (rc >= 0 && (!(c = call_new(s, req, ask)) || rt_http_watch(&c->who, &e) < 0))
        rc = rt_refuse(&why, 500, NULL, "no memory for the request");
    if (rc >= 0) {
        begin(c);
        return;
    }
    call_free(c);
    rt_ask_free(ask);
    rt_http_error(s, req, &why);
}

void rt_call_teacher(rt_server *s, struct evhttp_request *req, const char *question, size_t len, bool hidden)
{
    rt_refusal why = { 0 };
    rt_err e = { 0 };
    rt_str asked = { 0 };
    rt_call *c = NULL;
    int rc = check_queue(s, &why);
    if (len) rt_str_append_n(&asked, question, len);
    if (rc >= 0 && (asked.failed || !(c = call_alloc(s, req, 1)) || rt_http_watch(&c->who, &e) < 0))
        rc = rt_refuse(&why, 500, NULL, "no memory for the request");
    if (rc >= 0) {
        c->each[0] = (rt_sequence){ .owner = c, .teaches = true, .question = asked, .hidden = hidden };
        rt_worker_put(&s->worker, c->each, 1);
        return;
    }
    rt_str_free(&asked);
    call_free(c);
    rt_http_error(s, req, &why);
}
