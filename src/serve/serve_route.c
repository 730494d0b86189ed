/* serve_route.c - which path is answered by what, and who may ask. See serve_internal.h. */
#include "serve/serve_internal.h"

#include "base/hash.h"
#include "base/sys.h"

#include <event2/buffer.h>
#include <event2/http.h>
#include <string.h>

typedef struct route {
    const char *path;
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
    for (size_t i = 0; path && i < sizeof routes / sizeof *routes; i++)
        if (strcmp(path, routes[i].path) == 0) return &routes[i];
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

static int answer(rt_server *s, struct evhttp_request *req, const route *r, rt_refusal *why)
{
    int rc;
    struct evbuffer *in = evhttp_request_get_input_buffer(req);
    rt_plain p = { .server = s, .len = evbuffer_get_length(in) };
    rt_str out = { 0 };
    rt_ask ask = { 0 };
    json_t *body = NULL;
    p.env = (rt_ask_env){ .speaker = s->speaker,
                          .name = s->o->name,
                          .seed = fresh_seed(s),
                          .now = rt_serve_time(s),
                          .utc_offset = s->o->env->utc_offset };
    p.body = p.len ? (const char *)evbuffer_pullup(in, -1) : "";
    rt_json_forget();
    if (p.len && !p.body) RT_TRY(rt_refuse(why, 500, NULL, "no memory for the request"));
    if (r->plain) {
        RT_TRY(r->plain(&p, &out, why));
        if (out.failed) RT_TRY(rt_refuse(why, 500, NULL, "no memory for the reply"));
        rt_http_send(s, req, 200, r->type, out.data, out.len);
        goto out;
    }
    if (s->stopping) RT_TRY(rt_refuse(why, 503, NULL, "the server is shutting down"));
    if (r->teacher) {
        const char *query = evhttp_uri_get_query(evhttp_request_get_evhttp_uri(req));
        if (r->post && !p.len) RT_TRY(rt_refuse(why, 400, NULL, "the question is empty"));
        rt_call_teacher(s, req, p.body, r->post ? p.len : 0, query && strcmp(query, "keep=hidden") == 0);
        rc = RT_OK;
        goto out;
    }
    RT_TRY(rt_ask_body(&body, p.body, p.len, why));
    RT_TRY(rt_ask_read(&ask, &p.env, r->chat, body, why));
    evbuffer_drain(in, p.len);
    rt_call_new(s, req, &ask);
out:
    json_decref(body);
    rt_str_free(&out);
    return rc;
}

void rt_serve_route(struct evhttp_request *req, void *server)
{
    rt_server *s = server;
    rt_refusal why = { 0 };
    int rc = RT_INVALID;
    rt_http_begin(s, req);
    const route *r = find(evhttp_uri_get_path(evhttp_request_get_evhttp_uri(req)), &why);
    if (r) rc = r->open ? RT_OK : check_token(s, req, &why);
    if (r && rc >= 0) rc = check_method(req, r, &why);
    if (r && rc >= 0) rc = answer(s, req, r, &why);
    if (!r || rc < 0) rt_http_error(s, req, &why);
}
