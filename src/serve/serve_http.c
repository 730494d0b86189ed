/* serve_http.c - replies as evhttp sends them, and connections that go before they have them. See serve_internal.h.
 *
 * While a request is worked on nothing is read from its connection, so only writing has a time-out then. What evhttp
 * refuses by itself (a request line that is none, a body that is too large) never comes here. */
#include "serve/serve_internal.h"

#include "base/sys.h"

#include <event2/buffer.h>
#include <event2/bufferevent.h>
#include <event2/event.h>
#include <event2/http.h>
#include <stdio.h>
#include <string.h>

int64_t rt_serve_time(const rt_server *s) { return s->o->env->now + (int64_t)(rt_now() - s->begun); }

static void set_timeouts(const rt_server *s, struct evhttp_connection *c, bool reading)
{
    const struct timeval t = { .tv_sec = (time_t)s->o->idle_timeout,
                               .tv_usec =
                                   (suseconds_t)((s->o->idle_timeout - (double)(time_t)s->o->idle_timeout) * 1e6) };
    bufferevent_set_timeouts(evhttp_connection_get_bufferevent(c), reading ? &t : NULL, &t);
}

static void on_lost(struct evhttp_connection *c, void *server)
{
    rt_server *s = server;
    (void)c;
    s->replying--;
}

static void on_complete(struct evhttp_request *req, void *server)
{
    rt_server *s = server;
    struct evhttp_connection *c = evhttp_request_get_connection(req);
    s->replying--;
    if (!c) return;
    rt_peer_tell(s, c, NULL, NULL);
    set_timeouts(s, c, true);
}

static void header(struct evhttp_request *req, const char *name, const char *value)
{
    evhttp_add_header(evhttp_request_get_output_headers(req), name, value);
}

void rt_http_begin(rt_server *s, struct evhttp_request *req)
{
    struct evhttp_connection *c = evhttp_request_get_connection(req);
    s->replying++;
    s->number++;
    set_timeouts(s, c, false);
    if (s->o->cors) header(req, "Access-Control-Allow-Origin", s->o->cors);
    rt_peer_heard(s, c);
    rt_peer_tell(s, c, on_lost, s);
    evhttp_request_set_on_complete_cb(req, on_complete, s);
}

/* The request is freed with its connection, but for one that was taken off it before. */
static void on_listener_lost(struct evhttp_connection *c, void *ctx)
{
    rt_listener *l = ctx;
    struct evhttp_request *req = l->req;
    (void)c;
    l->server->replying--;
    if (!evhttp_request_get_connection(req)) evhttp_request_free(req);
    l->req = NULL;
    if (l->closed) event_free(l->closed);
    l->closed = NULL;
    l->gone(l);
}

/* The client has closed its side, or all of it. */
static void on_closed(evutil_socket_t fd, short what, void *ctx)
{
    rt_listener *l = ctx;
    (void)fd;
    (void)what;
    evhttp_connection_free(evhttp_request_get_connection(l->req));
}

int rt_http_watch(rt_listener *l, rt_err *e)
{
    struct evhttp_connection *c = evhttp_request_get_connection(l->req);
    const evutil_socket_t fd = bufferevent_getfd(evhttp_connection_get_bufferevent(c));
    l->closed = event_new(l->server->base, fd, EV_CLOSED, on_closed, l);
    if (!l->closed || event_add(l->closed, NULL) < 0) return rt_no_memory(e, "a request");
    rt_peer_tell(l->server, c, on_listener_lost, l);
    return RT_OK;
}

void rt_http_unwatch(rt_listener *l)
{
    rt_peer_tell(l->server, evhttp_request_get_connection(l->req), on_lost, l->server);
    if (l->closed) event_free(l->closed);
    l->closed = NULL;
}

/* ---- replies ---- */

static const char *reason(uint32_t status)
{
    switch (status) {
    case 200: return "OK";
    case 204: return "No Content";
    case 400: return "Bad Request";
    case 401: return "Unauthorized";
    case 404: return "Not Found";
    case 405: return "Method Not Allowed";
    case 409: return "Conflict";
    case 429: return "Too Many Requests";
    case 503: return "Service Unavailable";
    default: return "Internal Server Error";
    }
}

/* evhttp would send a body to who asks for the head alone, who takes it for the next reply. */
void rt_http_send(rt_server *s, struct evhttp_request *req, uint32_t status, const char *type, const char *data,
                  size_t len)
{
    const bool head = evhttp_request_get_command(req) == EVHTTP_REQ_HEAD;
    struct evbuffer *b = head ? NULL : evbuffer_new();
    char length[24];
    rt_plain_count(s, status);
    header(req, "Content-Type", type ? type : "application/json");
    snprintf(length, sizeof length, "%zu", len);
    if (head) header(req, "Content-Length", length);
    if (s->stopping) header(req, "Connection", "close");
    if (b) evbuffer_add(b, data, len);
    evhttp_send_reply(req, (int)status, reason(status), b);
    if (b) evbuffer_free(b);
}

void rt_http_error(rt_server *s, struct evhttp_request *req, const rt_refusal *why)
{
    rt_str out = { 0 };
    rt_reply_error(why, &out);
    if (why->http == 429 || why->http == 503) header(req, "Retry-After", "1");
    if (why->http == 401) header(req, "WWW-Authenticate", "Bearer");
    rt_http_send(s, req, why->http, NULL, out.data ? out.data : "{}", out.data ? out.len : 2);
    rt_str_free(&out);
}

void rt_http_preflight(rt_server *s, struct evhttp_request *req)
{
    header(req, "Access-Control-Allow-Methods", "GET, HEAD, POST");
    header(req, "Access-Control-Allow-Headers", "Authorization, Content-Type");
    header(req, "Access-Control-Max-Age", "600");
    rt_plain_count(s, 204);
    evhttp_send_reply(req, 204, reason(204), NULL);
}

void rt_http_stream_begin(rt_server *s, struct evhttp_request *req)
{
    rt_plain_count(s, 200);
    header(req, "Content-Type", "text/event-stream; charset=utf-8");
    header(req, "Cache-Control", "no-cache");
    if (s->stopping) header(req, "Connection", "close");
    evhttp_send_reply_start(req, 200, "OK");
}

void rt_http_stream(struct evhttp_request *req, const char *data, size_t len)
{
    struct evbuffer *b = evbuffer_new();
    if (b) evbuffer_add(b, data, len);
    if (b) evhttp_send_reply_chunk(req, b);
    if (b) evbuffer_free(b);
}

void rt_http_stream_end(struct evhttp_request *req) { evhttp_send_reply_end(req); }
