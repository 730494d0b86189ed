/* serve_route.c - which path is answered by what, and who may ask. See serve_internal.h. */
#include "serve/serve_internal.h"

#include "base/hash.h"
#include "base/sys.h"

#include <event2/buffer.h>
#include <event2/event.h>
#include <event2/http.h>
#include <string.h>

/* Bytes of a request that the clerk reads: a core tokenizes so many in about 5 ms. */
enum { LARGE = 64 << 10 };

typedef struct route {
    const char *path;
    bool below; /* the path goes on */
    bool post;
    bool open; /* without the token too */
    const char *type;
    rt_plain_fn plain; /* null: a completion, a chat, or a question to a teacher */
    bool chat, teacher;
} route;

static const route routes[] = {
    { .path = "/v1/completions", .post = true },
    { .path = "/v1/chat/completions", .post = true, .chat = true },
    { .path = "/v1/models", .plain = rt_plain_models },
    { .path = "/v1/models/", .below = true, .plain = rt_plain_model },
    { .path = "/tokenize", .post = true, .plain = rt_plain_tokenize },
    { .path = "/detokenize", .post = true, .plain = rt_plain_detokenize },
    { .path = "/tokenizer_info", .plain = rt_plain_tokenizer },
    { .path = "/teacher", .teacher = true },
    { .path = "/teacher/answers", .post = true, .teacher = true },
    { .path = "/health", .open = true, .plain = rt_plain_health },
    { .path = "/metrics", .type = "text/plain; version=0.0.4; charset=utf-8", .plain = rt_plain_metrics },
};

static const route *find(const char *path, rt_refusal *why)
{
    for (size_t i = 0; path && i < sizeof routes / sizeof *routes; i++) {
        const route *r = &routes[i];
        if (r->below ? strncmp(path, r->path, strlen(r->path)) == 0 : strcmp(path, r->path) == 0) return r;
    }
    rt_refuse(why, 404, NULL, "there is no %.200s here; docs/serving.md lists what there is",
              path ? path : "such path");
    return NULL;
}

static int check_method(struct evhttp_request *req, const route *r, rt_refusal *why)
{
    const enum evhttp_cmd_type is = evhttp_request_get_command(req);
    const char *allowed = r->post ? "POST" : "GET, HEAD";
    if (r->post ? is == EVHTTP_REQ_POST : is == EVHTTP_REQ_GET || is == EVHTTP_REQ_HEAD) return RT_OK;
    evhttp_add_header(evhttp_request_get_output_headers(req), "Allow", allowed);
    return rt_refuse(why, 405, NULL, "%s takes %s", r->path, allowed);
}

/* Compared in a time that says nothing of where they differ. */
static int check_token(const rt_server *s, struct evhttp_request *req, rt_refusal *why)
{
    static const char bearer[] = "Bearer ";
    const char *has = evhttp_find_header(evhttp_request_get_input_headers(req), "Authorization");
    const char *want = s->o->token;
    if (!want) return RT_OK;
    const bool is = has && strncasecmp(has, bearer, sizeof bearer - 1) == 0;
    const char *given = is ? has + sizeof bearer - 1 : "";
    const size_t n = strlen(want), m = strlen(given);
    unsigned char differ = n != m;
    for (size_t i = 0; i < n; i++) differ |= (unsigned char)(want[i] ^ (i < m ? given[i] : 0));
    return differ ? rt_refuse(why, 401, NULL, "a valid token is needed: Authorization: Bearer TOKEN") : RT_OK;
}

/* A seed for those who bring none: nobody can tell it beforehand, and no two requests have the same. */
static uint64_t fresh_seed(const rt_server *s)
{
    const struct {
        double now;
        uint64_t number;
        int64_t begun;
    } of = { rt_now(), s->number, s->o->env->now };
    return rt_hash(&of, sizeof of).lo;
}

/* A request that is read: at once, or by the clerk, where that takes long. */
typedef struct asked {
    rt_chore chore;
    rt_listener who;
    const route *route;
    rt_plain plain;
    struct evbuffer *body; /* of one that the clerk reads: its own, since the request may go meanwhile */
    rt_str out;            /* the reply of a plain one */
    rt_ask ask;            /* else what is asked for */
    rt_refusal why;
    int rc;
} asked;

static void read_request(asked *a)
{
    int rc;
    json_t *body = NULL;
    rt_json_forget();
    if (a->route->plain) {
        RT_TRY(a->route->plain(&a->plain, &a->out, &a->why));
        if (a->out.failed) RT_TRY(rt_refuse(&a->why, 500, NULL, "no memory for the reply"));
        goto out;
    }
    RT_TRY(rt_ask_body(&body, a->plain.body, a->plain.len, &a->why));
    RT_TRY(rt_ask_read(&a->ask, &a->plain.env, a->route->chat, body, &a->why));
out:
    json_decref(body);
    a->rc = rc;
}

/* What became of it goes to the client, or into the queue. */
static void reply(asked *a)
{
    rt_server *s = a->who.server;
    struct evhttp_request *req = a->who.req;
    if (a->rc < 0)
        rt_http_error(s, req, &a->why);
    else if (a->route->plain)
        rt_http_send(s, req, 200, a->route->type, a->out.data, a->out.len);
    else
        rt_call_new(s, req, &a->ask);
}

static void asked_free(asked *a)
{
    if (a->body) evbuffer_free(a->body);
    rt_str_free(&a->out);
    rt_ask_free(&a->ask);
}

static void work(rt_chore *c) { read_request((asked *)c); }

static void done(rt_chore *c)
{
    asked *a = (asked *)c;
    rt_server *s = a->who.server;
    s->reading--;
    s->unread -= a->plain.len;
    if (a->chore.left_out) a->rc = rt_refuse(&a->why, 503, NULL, "the server is shutting down");
    if (a->who.req) {
        rt_http_unwatch(&a->who);
        reply(a);
    }
    asked_free(a);
    rt_free(a);
}

static void on_gone(rt_listener *l) { l->server->cancelled++; }

/* For the clerk: the body is taken from the request, without a copy. */
static int put(const asked *now, struct evbuffer *in, rt_refusal *why)
{
    int rc;
    rt_server *s = now->who.server;
    asked *a = rt_alloc(sizeof *a, _Alignof(asked));
    if (s->unread > s->max_uploads)
        RT_TRY(rt_refuse(why, 429, NULL, "%u large requests wait to be read already; try again later", s->reading));
    if (!a) RT_TRY(rt_refuse(why, 500, NULL, "no memory for the request"));
    *a = *now;
    a->chore = (rt_chore){ .work = work, .done = done };
    a->body = evbuffer_new();
    if (!a->body || evbuffer_add_buffer(a->body, in) < 0 || rt_http_watch(&a->who, NULL) < 0) {
        if (a->who.closed) event_free(a->who.closed);
        if (a->body) evbuffer_free(a->body);
        RT_TRY(rt_refuse(why, 500, NULL, "no memory for the request"));
    }
    s->reading++;
    s->unread += a->plain.len;
    rt_clerk_put(&s->clerk, &a->chore);
    a = NULL;
    rc = RT_OK;
out:
    rt_free(a);
    return rc;
}

static int ask_teacher(rt_server *s, struct evhttp_request *req, const asked *a, rt_refusal *why)
{
    const char *query = evhttp_uri_get_query(evhttp_request_get_evhttp_uri(req));
    if (a->route->post && !a->plain.len) return rt_refuse(why, 400, NULL, "the question is empty");
    rt_call_teacher(s, req, a->plain.body, a->route->post ? a->plain.len : 0,
                    query && strcmp(query, "keep=hidden") == 0);
    return RT_OK;
}

static int answer(rt_server *s, struct evhttp_request *req, const route *r, const char *path, rt_refusal *why)
{
    struct evbuffer *in = evhttp_request_get_input_buffer(req);
    asked a = { .who = { .server = s, .req = req, .gone = on_gone },
                .route = r,
                .plain = { .server = s, .len = evbuffer_get_length(in), .rest = path + strlen(r->path) } };
    a.plain.env = (rt_ask_env){ .speaker = s->speaker,
                                .name = s->o->name,
                                .seed = fresh_seed(s),
                                .now = rt_serve_time(s),
                                .utc_offset = s->o->env->utc_offset };
    a.plain.body = a.plain.len ? (const char *)evbuffer_pullup(in, -1) : "";
    if (a.plain.len && !a.plain.body) return rt_refuse(why, 500, NULL, "no memory for the request");
    if (s->stopping && !r->plain) return rt_refuse(why, 503, NULL, "the server is shutting down");
    if (r->teacher) return ask_teacher(s, req, &a, why);
    if (a.plain.len > LARGE) return put(&a, in, why);
    read_request(&a);
    evbuffer_drain(in, a.plain.len);
    reply(&a);
    asked_free(&a);
    return RT_OK;
}

void rt_serve_route(struct evhttp_request *req, void *server)
{
    rt_server *s = server;
    rt_refusal why = { 0 };
    int rc = RT_INVALID;
    rt_http_begin(s, req);
    if (s->o->cors && evhttp_request_get_command(req) == EVHTTP_REQ_OPTIONS) {
        rt_http_preflight(s, req);
        return;
    }
    const char *path = evhttp_uri_get_path(evhttp_request_get_evhttp_uri(req));
    const route *r = find(path, &why);
    if (r) rc = r->open ? RT_OK : check_token(s, req, &why);
    if (r && rc >= 0) rc = check_method(req, r, &why);
    if (r && rc >= 0) rc = answer(s, req, r, path, &why);
    if (!r || rc < 0) rt_http_error(s, req, &why);
}
