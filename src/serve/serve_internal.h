/* serve_internal.h - shared by the files of the event loop: the server, a request under way, replies. All of it belongs
 * to the loop's thread. */
#ifndef RT_SERVE_SERVE_INTERNAL_H
#define RT_SERVE_SERVE_INTERNAL_H

#include "serve/serve.h"
#include "serve/serve_ask.h"
#include "serve/serve_clerk.h"
#include "serve/serve_worker.h"

struct bufferevent;
struct event;
struct event_base;
struct evhttp;
struct evhttp_bound_socket;
struct evhttp_connection;
struct evhttp_request;

enum { RT_SERVE_STATUSES = 10 };
typedef struct rt_call rt_call;
typedef struct rt_peer rt_peer;
typedef struct rt_server {
    const rt_serve_opts *o;
    rt_engine_opts engine;
    rt_speaker *speaker;
    rt_teaching *teaching;
    rt_worker worker;
    rt_clerk clerk;
    struct event_base *base;
    struct evhttp *http;
    struct evhttp_bound_socket *bound; /* null: nobody new is heard */
    struct event *tick, *news, *chores;
    double begun;    /* clock */
    uint64_t number; /* of the last request */
    rt_call *calls;
    rt_peer *peers;    /* connections */
    rt_peer **peer_of; /* (peer_fds) of a socket */
    uint32_t peer_fds;
    uint32_t reading;                  /* requests that the clerk reads, */
    uint64_t unread;                   /* bytes of them, */
    uint64_t arriving;                 /* and of those that are not there yet */
    uint64_t max_uploads;              /* bytes of both that may be there before large requests are refused */
    uint32_t replying;                 /* requests that have not had the end of their reply */
    bool stopping;                     /* no new ones */
    double stopped;                    /* clock of when the last call had gone; 0: some are there */
    uint64_t count[RT_SERVE_STATUSES]; /* replies, by status */
    uint64_t cancelled, timed_out;
} rt_server;

/* Somebody who waits for a reply. */
typedef struct rt_listener rt_listener;
struct rt_listener {
    rt_server *server;
    struct evhttp_request *req; /* null: nobody hears any more */
    void (*gone)(rt_listener *l);
    struct event *closed; /* looks whether the client has closed its side */
};

/* A request for completions or a chat. */
struct rt_call {
    rt_listener who; /* first: a pointer to it is one to this */
    rt_chore chore;  /* the reply is written by the clerk, */
    bool formatting; /* at this moment */
    rt_ask ask;
    rt_sequence *each;        /* (count) of prompt i / n */
    uint32_t *sent, *written; /* (count) of each: places and bytes of text that are in the reply */
    bool *over;               /* (count) its end is in the reply */
    uint32_t count, ended;
    rt_str out; /* what is to be sent next */
    bool started, heard;
    double deadline; /* clock */
    int64_t created;
    char id[40];
    rt_call *before, *after, *next_heard;
};

/* ---- serve_http.c: replies as bytes, connections ---- */

int64_t rt_serve_time(const rt_server *s); /* seconds since 1970 */
/* First of all for every request: time-outs as they are while it is worked on. */
void rt_http_begin(rt_server *s, struct evhttp_request *req);
/* A whole reply. type null: JSON. */
void rt_http_send(rt_server *s, struct evhttp_request *req, uint32_t status, const char *type, const char *data,
                  size_t len);
void rt_http_error(rt_server *s, struct evhttp_request *req, const rt_refusal *why);
/* To a browser that asks whether a page of another origin may ask. */
void rt_http_preflight(rt_server *s, struct evhttp_request *req);
void rt_http_stream_begin(rt_server *s, struct evhttp_request *req);
void rt_http_stream(struct evhttp_request *req, const char *data, size_t len);
void rt_http_stream_end(struct evhttp_request *req);
/* Its `gone` is called when the client goes or closes its side; req is no more then. */
int rt_http_watch(rt_listener *l, rt_err *e);
void rt_http_unwatch(rt_listener *l);

/* ---- serve_peer.c: connections, and what of requests is still coming in ---- */

/* Of one that is accepted now; most: bytes that it may be ahead of what is read. Null without memory. */
struct bufferevent *rt_peer_new(struct event_base *base, rt_server *s, size_t most);
/* Its request is there. */
void rt_peer_heard(rt_server *s, struct evhttp_connection *c);
/* Who is told when it goes; lost: null for nobody. */
void rt_peer_tell(rt_server *s, struct evhttp_connection *c, void (*lost)(struct evhttp_connection *c, void *ctx),
                  void *ctx);
void rt_peers_free(rt_server *s); /* when evhttp has closed all */

/* ---- serve_call.c ---- */

/* Takes the ask. Replies by itself where it is refused. */
void rt_call_new(rt_server *s, struct evhttp_request *req, rt_ask *ask);
/* A question to a teacher (len bytes), or for its description where there are none. */
void rt_call_teacher(rt_server *s, struct evhttp_request *req, const char *question, size_t len, bool hidden);
/* There is news of sequences. */
void rt_calls_hear(rt_server *s);
/* Those that have had their time, at this clock. */
void rt_calls_time_out(rt_server *s, double now);
/* All of them, whose clients are told why. */
void rt_calls_end(rt_server *s, const rt_refusal *why);
void rt_calls_free(rt_server *s); /* when there is no worker any more */

/* ---- serve_reply.c: JSON of replies, appended to out; serve_logps.c: of log-probabilities ---- */

/* {"error": ...} */
void rt_reply_error(const rt_refusal *why, rt_str *out);
/* Everything, when all sequences have ended. */
void rt_reply_whole(const rt_call *c, rt_str *out);
/* Events of a stream: the first ones, what sequence i was told since, and the last. */
void rt_reply_first(const rt_call *c, rt_str *out);
void rt_reply_next(const rt_call *c, uint32_t i, rt_str *out);
void rt_reply_last(const rt_call *c, rt_str *out);

void rt_json_put_any(rt_str *out, const char *text, size_t len); /* in quotes, repaired where it is no UTF-8 */
/* "logprobs" of a reply for places first .. end - 1 of sequence i, counted over what the reply shows: the prompt where
 * it is echoed, then the answer. */
void rt_logps_of_completion(const rt_call *c, uint32_t i, uint32_t first, uint32_t end, rt_str *out);
void rt_logps_of_chat(const rt_call *c, uint32_t i, uint32_t first, uint32_t end, rt_str *out);
/* "prompt_logprobs" as vLLM has them. */
void rt_logps_of_prompt(const rt_call *c, uint32_t i, rt_str *out);

/* ---- serve_plain.c: what is answered at once ---- */

typedef struct rt_plain {
    rt_server *server;
    rt_ask_env env;
    const char *body; /* (len) */
    size_t len;
    const char *rest; /* of a path that goes on behind the route's */
} rt_plain;
typedef int (*rt_plain_fn)(const rt_plain *p, rt_str *out, rt_refusal *why);
int rt_plain_models(const rt_plain *p, rt_str *out, rt_refusal *why);
int rt_plain_model(const rt_plain *p, rt_str *out, rt_refusal *why);
int rt_plain_tokenize(const rt_plain *p, rt_str *out, rt_refusal *why);
int rt_plain_detokenize(const rt_plain *p, rt_str *out, rt_refusal *why);
int rt_plain_tokenizer(const rt_plain *p, rt_str *out, rt_refusal *why);
int rt_plain_health(const rt_plain *p, rt_str *out, rt_refusal *why);
int rt_plain_metrics(const rt_plain *p, rt_str *out, rt_refusal *why);
void rt_plain_count(rt_server *s, uint32_t status); /* a reply, for the metrics */

/* ---- serve_route.c ---- */

/* What evhttp calls for every request; server: an rt_server. */
void rt_serve_route(struct evhttp_request *req, void *server);

#endif
