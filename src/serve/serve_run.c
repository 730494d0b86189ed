/* serve_run.c - the server as a whole: its socket, its loop, and how it ends. See serve.h. */
#include "serve/serve_internal.h"

#include "base/sys.h"

#include <errno.h>
#include <event2/event.h>
#include <event2/http.h>
#include <event2/listener.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { HEADERS = 64 << 10, SPARE_READ = 128 << 10, MOST_BODIES = 8 };
/* Replies that clients do not take are waited for so long after the last answer. */
static const double LINGER = 5.0;

static void say_nothing(int severity, const char *text)
{
    (void)severity;
    (void)text;
}

/* ---- events ---- */

static void on_news(evutil_socket_t fd, short what, void *server)
{
    uint64_t many;
    (void)what;
    if (read(fd, &many, sizeof many) < 0) return;
    rt_calls_hear(server);
}

static void on_chores(evutil_socket_t fd, short what, void *server)
{
    uint64_t many;
    rt_server *s = server;
    (void)what;
    if (read(fd, &many, sizeof many) < 0) return;
    rt_clerk_hear(&s->clerk);
}

/* A socket could not be accepted: no descriptor is left. It is tried again with the next tick. */
static void on_accept_error(struct evconnlistener *l, void *ctx)
{
    (void)ctx;
    evconnlistener_disable(l);
}

static void tell_stopping(const rt_server *s)
{
    uint32_t requests = 0;
    for (const rt_call *c = s->calls; c; c = c->after) requests++;
    if (requests && s->o->stopping) s->o->stopping(s->o->ctx, requests);
}

static void begin_stop(rt_server *s)
{
    s->stopping = true;
    evhttp_del_accept_socket(s->http, s->bound);
    s->bound = NULL;
}

static void on_tick(evutil_socket_t fd, short what, void *server)
{
    rt_server *s = server;
    const double now = rt_now();
    const rt_worker_state w = rt_worker_state_of(&s->worker);
    (void)fd;
    (void)what;
    if (w.failed.status < 0) {
        rt_refusal why = { .http = 500, .err = w.failed };
        rt_calls_end(s, &why);
    }
    rt_calls_time_out(s, now);
    if (s->bound) evconnlistener_enable(evhttp_bound_socket_get_listener(s->bound));
    const bool asked = s->o->stop && s->o->stop(s->o->ctx);
    if (!s->stopping && (w.failed.status < 0 || asked)) {
        begin_stop(s);
        if (w.failed.status >= 0) tell_stopping(s);
    }
    if (!s->stopping || s->calls || s->reading) return;
    if (!s->stopped) s->stopped = now;
    if (!s->replying || now - s->stopped > LINGER) event_base_loopbreak(s->base);
}

/* ---- opening ---- */

/* What a client sends without being asked is not kept. */
static struct bufferevent *new_connection(struct event_base *base, void *server)
{
    rt_server *s = server;
    return rt_peer_new(base, s, s->o->max_body + SPARE_READ);
}

/* Time-outs begin when they are set. By itself libevent counts them from when it last waited, so that who is sent a
 * reply that took long to format would be late from the start. */
static struct event_base *base_new(void)
{
    struct event_config *config = event_config_new();
    struct event_base *base = NULL;
    if (config && event_config_set_flag(config, EVENT_BASE_FLAG_NO_CACHE_TIME) == 0)
        base = event_base_new_with_config(config);
    if (config) event_config_free(config);
    return base;
}

static int listen_to(rt_server *s, rt_err *e)
{
    const char *host = s->o->host ? s->o->host : "127.0.0.1";
    errno = 0;
    s->bound = evhttp_bind_socket_with_handle(s->http, host, (uint16_t)s->o->port);
    if (!s->bound)
        return rt_fail(e, RT_IO, "cannot listen on %s, port %u: %s; give another --host or --port", host,
                       (unsigned)s->o->port, errno ? strerror(errno) : "the address is not known");
    evconnlistener_set_error_cb(evhttp_bound_socket_get_listener(s->bound), on_accept_error);
    return RT_OK;
}

static int open_loop(rt_server *s, rt_err *e)
{
    int rc;
    const int methods = EVHTTP_REQ_GET | EVHTTP_REQ_POST | EVHTTP_REQ_HEAD | EVHTTP_REQ_PUT | EVHTTP_REQ_DELETE |
                        EVHTTP_REQ_OPTIONS | EVHTTP_REQ_PATCH;
    const struct timeval idle = { .tv_sec = (time_t)(s->o->idle_timeout < 1 ? 1 : s->o->idle_timeout) };
    event_set_log_callback(say_nothing);
    if (!(s->base = base_new()) || !(s->http = evhttp_new(s->base))) RT_TRY(rt_no_memory(e, "a server"));
    evhttp_set_gencb(s->http, rt_serve_route, s);
    evhttp_set_allowed_methods(s->http, (ev_uint16_t)methods);
    evhttp_set_max_body_size(s->http, (ev_ssize_t)s->o->max_body);
    evhttp_set_max_headers_size(s->http, HEADERS);
    evhttp_set_timeout_tv(s->http, &idle);
    evhttp_set_flags(s->http, EVHTTP_SERVER_LINGERING_CLOSE);
    evhttp_set_bevcb(s->http, new_connection, s);
    rc = listen_to(s, e);
out:
    return rc;
}

static int watch(rt_server *s, rt_err *e)
{
    const struct timeval tenth = { .tv_usec = 100000 };
    s->news = event_new(s->base, s->worker.wake, EV_READ | EV_PERSIST, on_news, s);
    s->chores = event_new(s->base, s->clerk.wake, EV_READ | EV_PERSIST, on_chores, s);
    s->tick = event_new(s->base, -1, EV_PERSIST, on_tick, s);
    const bool made = s->news && s->chores && s->tick;
    if (!made || event_add(s->news, NULL) < 0 || event_add(s->chores, NULL) < 0 || event_add(s->tick, &tenth) < 0)
        return rt_no_memory(e, "a server");
    return RT_OK;
}

/* "http://127.0.0.1:8080", with the port that the system has chosen. */
static void tell_listening(rt_server *s)
{
    struct sockaddr_storage at = { 0 };
    socklen_t len = sizeof at;
    rt_str url = { 0 };
    const char *host = s->o->host ? s->o->host : "127.0.0.1";
    const rt_speaker_facts f = rt_speaker_facts_of(s->speaker);
    (void)getsockname(evhttp_bound_socket_get_fd(s->bound), (struct sockaddr *)&at, &len);
    const unsigned port = ntohs(at.ss_family == AF_INET6 ? ((struct sockaddr_in6 *)&at)->sin6_port
                                                         : ((struct sockaddr_in *)&at)->sin_port);
    rt_str_printf(&url, strchr(host, ':') ? "http://[%s]:%u" : "http://%s:%u", host, port);
    if (s->o->listening && url.data) s->o->listening(s->o->ctx, url.data, &f);
    rt_str_free(&url);
}

static void close_all(rt_server *s)
{
    rt_refusal why = { 0 };
    rt_refuse(&why, 503, NULL, "the server is shutting down");
    rt_calls_end(s, &why);
    rt_clerk_stop(&s->clerk);
    rt_worker_stop(&s->worker);
    if (s->http) evhttp_free(s->http);
    rt_peers_free(s);
    rt_calls_free(s);
    if (s->news) event_free(s->news);
    if (s->chores) event_free(s->chores);
    if (s->tick) event_free(s->tick);
    if (s->base) event_base_free(s->base);
    libevent_global_shutdown();
    rt_teaching_free(s->teaching);
    rt_speaker_free(s->speaker);
}

static int check_opts(const rt_serve_opts *o, rt_err *e)
{
    for (const char *c = o->cors; c && *c; c++)
        if (*c <= ' ' || *c == 127) return rt_fail(e, RT_USAGE, "--cors takes one origin, or *, without blanks");
    if (o->port > 65535)
        return rt_fail(e, RT_USAGE, "--port %llu is out of range (0 to 65535)", (unsigned long long)o->port);
    if (o->slots > RT_JOB_MOST_SLOTS)
        return rt_fail(e, RT_USAGE, "--slots %u is out of range (1 to %d)", o->slots, RT_JOB_MOST_SLOTS);
    if (o->top > 1000)
        return rt_fail(e, RT_USAGE, "--top-logprobs %llu is out of range (0 to 1000)", (unsigned long long)o->top);
    if (o->max_queue > 1000000)
        return rt_fail(e, RT_USAGE, "--max-queue %llu is out of range (0 to 1000000)",
                       (unsigned long long)o->max_queue);
    if (o->max_body < 1024 || o->max_body > 1u << 30)
        return rt_fail(e, RT_USAGE, "--max-body %llu is out of range (1K to 1G)", (unsigned long long)o->max_body);
    if (o->max_uploads && o->max_uploads < o->max_body)
        return rt_fail(e, RT_USAGE, "--max-uploads %llu is less than --max-body, %llu: no large request would pass",
                       (unsigned long long)o->max_uploads, (unsigned long long)o->max_body);
    if (o->timeout < 0 || o->timeout > 1e9)
        return rt_fail(e, RT_USAGE, "--timeout %g is out of range (0 to 1000000000)", o->timeout);
    if (o->idle_timeout < 0.1 || o->idle_timeout > 1e6)
        return rt_fail(e, RT_USAGE, "--idle-timeout %g is out of range (0.1 to 1000000)", o->idle_timeout);
    return RT_OK;
}

int rt_serve(const rt_model_file *m, const rt_serve_opts *o, rt_err *e)
{
    int rc;
    rt_server s = { .o = o, .begun = rt_now() };
    RT_TRY(check_opts(o, e));
    s.max_uploads = o->max_uploads ? o->max_uploads : MOST_BODIES * o->max_body;
    s.engine = (rt_engine_opts){ .slots = o->slots ? o->slots : RT_JOB_SLOTS,
                                 .context = o->context,
                                 .positions = o->positions,
                                 .top = (uint32_t)o->top,
                                 .echo = true,
                                 .watch = o->watch };
    RT_TRY(rt_speaker_new(&s.speaker, m, e));
    RT_TRY(rt_teaching_new(&s.teaching, m, s.speaker, o->env, e));
    RT_TRY(open_loop(&s, e));
    s.worker.teaching = s.teaching;
    s.worker.speaker = s.speaker;
    s.worker.engine = &s.engine;
    s.worker.where = o->where;
    s.worker.env = o->env->environment;
    RT_TRY(rt_worker_start(&s.worker, e));
    RT_TRY(rt_clerk_start(&s.clerk, e));
    RT_TRY(watch(&s, e));
    tell_listening(&s);
    if (event_base_dispatch(s.base) < 0) RT_TRY(rt_fail(e, RT_IO, "the event loop has failed"));
    const rt_worker_state w = rt_worker_state_of(&s.worker);
    rc = w.failed.status;
    if (rc < 0 && e) *e = w.failed;
out:
    close_all(&s);
    return rc;
}
