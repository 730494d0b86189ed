/* serve_peer.c - connections as the server counts them: the bytes of requests that are still coming in, bounded in sum.
 * See serve_internal.h.
 *
 * evhttp tells of a request when all of it is there, and of a connection never, so its bufferevent is asked: what comes
 * in is counted by a callback of its buffer, and the connection that it belongs to is the argument of its own
 * callbacks, which are set right after it was accepted. */
#include "serve/serve_internal.h"

#include "base/sys.h"

#include <errno.h>
#include <event2/buffer.h>
#include <event2/bufferevent.h>
#include <event2/event.h>
#include <event2/http.h>
#include <sys/socket.h>

/* Bytes that every connection may send, whatever others do; seconds in which one that was refused may go on sending, so
 * that its client gets to read why. */
enum { SMALL = 64 << 10, REFUSED_SECONDS = 5 };

typedef enum peer_state { PEER_ACCEPTED, PEER_OPEN, PEER_TO_REFUSE, PEER_REFUSED } peer_state;

struct rt_peer {
    rt_server *server;
    struct bufferevent *b;
    struct evhttp_connection *c; /* null: it was accepted only now */
    evutil_socket_t fd;
    struct event *turn; /* what cannot be done while bytes come in; of one that was refused, its socket */
    peer_state state;
    uint64_t came; /* bytes of a request that is not there yet, as server->arriving has them */
    double until;  /* clock, of one that was refused */
    void (*lost)(struct evhttp_connection *c, void *ctx);
    void *ctx;
    rt_peer *before, *after;
};

static rt_peer *find(const rt_server *s, struct evhttp_connection *c)
{
    const evutil_socket_t fd = bufferevent_getfd(evhttp_connection_get_bufferevent(c));
    return fd >= 0 && (uint32_t)fd < s->peer_fds ? s->peer_of[fd] : NULL;
}

/* By its socket, whose number no other connection has while this one is there. */
static bool enter(rt_peer *p)
{
    rt_server *s = p->server;
    const uint32_t fds = s->peer_fds;
    p->fd = bufferevent_getfd(p->b);
    if (p->fd < 0) return false;
    if (!rt_grow((void **)&s->peer_of, &s->peer_fds, (uint32_t)p->fd + 1, sizeof *s->peer_of)) return false;
    for (uint32_t i = fds; i < s->peer_fds; i++) s->peer_of[i] = NULL;
    s->peer_of[p->fd] = p;
    return true;
}

static void peer_free(rt_peer *p)
{
    rt_server *s = p->server;
    s->arriving -= p->came;
    if (p->before) p->before->after = p->after;
    if (p->after) p->after->before = p->before;
    if (s->peers == p) s->peers = p->after;
    if (p->c) s->peer_of[p->fd] = NULL;
    if (p->turn) event_free(p->turn);
    rt_free(p);
}

static void on_lost(struct evhttp_connection *c, void *peer)
{
    rt_peer *p = peer;
    void (*lost)(struct evhttp_connection *, void *) = p->lost;
    void *ctx = p->ctx;
    peer_free(p);
    if (lost) lost(c, ctx);
}

/* ---- one that is refused: evhttp hears no more of it ---- */

static void on_rest(evutil_socket_t fd, short what, void *peer)
{
    static char nobodys[1 << 16];
    rt_peer *p = peer;
    ssize_t n = what & EV_READ ? recv(fd, nobodys, sizeof nobodys, 0) : 0;
    if (n > 0 && rt_now() < p->until) return;
    if (n < 0 && (errno == EAGAIN || errno == EINTR)) return;
    evhttp_connection_free(p->c); /* and on_lost */
}

static void tell(const rt_peer *p, struct evbuffer *out)
{
    rt_refusal why;
    rt_str json = { 0 };
    rt_refuse(&why, 429, NULL, "other requests take all the room that --max-uploads gives; try again later");
    rt_reply_error(&why, &json);
    if (json.data)
        evbuffer_add_printf(out,
                            "HTTP/1.1 429 Too Many Requests\r\nContent-Type: application/json\r\n"
                            "Content-Length: %zu\r\nRetry-After: 1\r\nConnection: close\r\n\r\n%s",
                            json.len, json.data);
    rt_plain_count(p->server, 429);
    rt_str_free(&json);
}

static void refuse(rt_peer *p)
{
    rt_server *s = p->server;
    const struct timeval most = { .tv_sec = REFUSED_SECONDS };
    struct evbuffer *in = bufferevent_get_input(p->b);
    bufferevent_disable(p->b, EV_READ);
    bufferevent_enable(p->b, EV_WRITE);
    s->arriving -= p->came;
    p->came = 0;
    p->state = PEER_REFUSED;
    p->until = rt_now() + REFUSED_SECONDS;
    evbuffer_drain(in, evbuffer_get_length(in));
    tell(p, bufferevent_get_output(p->b));
    event_free(p->turn);
    p->turn = event_new(s->base, bufferevent_getfd(p->b), EV_READ | EV_PERSIST, on_rest, p);
    if (!p->turn || event_add(p->turn, &most) < 0) evhttp_connection_free(p->c);
}

/* ---- all of them ---- */

/* The buffer that bytes are added to is not to be touched here. */
static void on_bytes(struct evbuffer *in, const struct evbuffer_cb_info *info, void *peer)
{
    rt_peer *p = peer;
    rt_server *s = p->server;
    (void)in;
    p->came += info->n_added;
    s->arriving += info->n_added;
    if (p->state != PEER_OPEN || p->came <= SMALL || s->arriving + s->unread <= s->max_uploads) return;
    p->state = PEER_TO_REFUSE;
    event_active(p->turn, EV_TIMEOUT, 1);
}

static void on_turn(evutil_socket_t fd, short what, void *peer)
{
    rt_peer *p = peer;
    struct evhttp_connection *c = NULL;
    (void)fd;
    (void)what;
    if (p->state == PEER_TO_REFUSE) refuse(p);
    if (p->state != PEER_ACCEPTED) return;
    bufferevent_getcb(p->b, NULL, NULL, NULL, (void **)&c);
    if (bufferevent_decref(p->b) || !c || !enter(p)) { /* it went at once; or no memory, and it is evhttp's alone */
        peer_free(p);
        return;
    }
    p->c = c;
    p->state = PEER_OPEN;
    evhttp_connection_set_closecb(c, on_lost, p);
}

/* What a client sends without being asked is not kept. Null, and the connection is evhttp's alone, without memory. */
struct bufferevent *rt_peer_new(struct event_base *base, rt_server *s, size_t most)
{
    struct bufferevent *b = bufferevent_socket_new(base, -1, 0);
    rt_peer *p = rt_alloc_zero(sizeof *p, _Alignof(rt_peer));
    if (p) *p = (rt_peer){ .server = s, .b = b, .turn = event_new(base, -1, 0, on_turn, p), .after = s->peers };
    if (!b || !p || !p->turn || !evbuffer_add_cb(bufferevent_get_input(b), on_bytes, p)) {
        if (p && p->turn) event_free(p->turn);
        if (b) bufferevent_free(b);
        rt_free(p);
        return NULL;
    }
    if (s->peers) s->peers->before = p;
    s->peers = p;
    bufferevent_setwatermark(b, EV_READ, 0, most);
    bufferevent_incref(b); /* until its turn, which comes before anything is read from it */
    event_active(p->turn, EV_TIMEOUT, 1);
    return b;
}

void rt_peer_heard(rt_server *s, struct evhttp_connection *c)
{
    rt_peer *p = find(s, c);
    if (!p) return;
    const uint64_t left = evbuffer_get_length(bufferevent_get_input(p->b)); /* of a request after this one */
    s->arriving -= p->came - left;
    p->came = left;
    if (p->state == PEER_TO_REFUSE) p->state = PEER_OPEN;
}

void rt_peer_tell(rt_server *s, struct evhttp_connection *c, void (*lost)(struct evhttp_connection *c, void *ctx),
                  void *ctx)
{
    rt_peer *p = find(s, c);
    if (p)
        p->lost = lost, p->ctx = ctx;
    else
        evhttp_connection_set_closecb(c, lost, ctx);
}

void rt_peers_free(rt_server *s)
{
    while (s->peers) {
        if (!s->peers->c) bufferevent_decref(s->peers->b);
        peer_free(s->peers);
    }
    rt_free(s->peer_of);
}
