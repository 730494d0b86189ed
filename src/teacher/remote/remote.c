/* remote.c - asking a server until it answers. See remote.h. */
#include "teacher/remote/remote.h"

#include "base/file.h"
#include "base/json.h"
#include "base/sys.h"
#include "teacher/remote/http.h"
#include "teacher/remote/wire.h"

#include <stdio.h>
#include <string.h>

enum { MOST_USELESS = 4, TOKEN_BYTES = 4096, TURN_MS = 100, SHOWN = RT_CLIENT_WHY };
static const double first_contact = 3, connect_seconds = 10, first_pause = 0.25, longest_pause = 10;

typedef enum state { IDLE, SENT, PAUSED, ANSWERED, REFUSED } state;
typedef struct asked {
    state state;
    rt_str url, body;
    const char *type;
    uint32_t failed;  /* times */
    uint32_t useless; /* answers, one after the other */
    double again;     /* clock; PAUSED */
    rt_err err;       /* REFUSED */
} asked;

struct rt_remote {
    const rt_remote_spec *spec;
    rt_client *http;
    rt_str token;
    asked slot[RT_CLIENT_SLOTS];
    bool answered;  /* ever */
    double failing; /* clock of the first failure since the last answer; 0: none */
    uint64_t repeats;
    char why[2 * SHOWN]; /* of the last failure */
};

/* ---- opening ---- */

static int read_token(rt_remote *r, rt_err *e)
{
    int rc;
    if (!r->spec->token_file) return RT_OK;
    RT_TRY(rt_file_read(r->spec->token_file, TOKEN_BYTES, &r->token, e));
    if (r->token.data) r->token.data[r->token.len = strcspn(r->token.data, "\r\n")] = 0;
    if (!r->token.len) RT_TRY(rt_fail(e, RT_INVALID, "%s holds no token in its first line", r->spec->token_file));
out:
    return rc;
}

int rt_remote_open(rt_remote **out, const rt_remote_spec *spec, rt_err *e)
{
    int rc;
    rt_remote *r = rt_alloc_zero(sizeof *r, 16);
    if (!r) RT_TRY(rt_no_memory(e, "a teacher"));
    r->spec = spec;
    RT_TRY(read_token(r, e));
    if (spec->ca_file && !rt_path_exists(spec->ca_file))
        RT_TRY(rt_fail(e, RT_NOT_FOUND, "%s, of ca-file=, is not there", spec->ca_file));
    const rt_client_opts o = { .token = r->token.data,
                               .ca_file = spec->ca_file,
                               .connect = connect_seconds < spec->timeout ? connect_seconds : spec->timeout,
                               .timeout = spec->timeout,
                               .most = 4 * RT_WIRE_MOST };
    RT_TRY(rt_client_open(&r->http, &o, e));
    *out = r;
    r = NULL;
out:
    rt_remote_close(r);
    return rc;
}

void rt_remote_close(rt_remote *r)
{
    if (!r) return;
    rt_client_close(r->http);
    for (uint32_t i = 0; i < RT_CLIENT_SLOTS; i++) {
        rt_str_free(&r->slot[i].url);
        rt_str_free(&r->slot[i].body);
    }
    rt_str_free(&r->token);
    rt_free(r);
}

void rt_remote_forget(rt_remote *r)
{
    for (uint32_t i = 0; i < RT_CLIENT_SLOTS; i++) {
        rt_client_drop(r->http, i);
        r->slot[i].state = IDLE;
    }
    r->failing = 0;
}

uint64_t rt_remote_repeats(const rt_remote *r) { return r->repeats; }

/* ---- sending ---- */

static int begin(rt_remote *r, uint32_t slot, rt_err *e)
{
    asked *a = &r->slot[slot];
    a->state = SENT;
    return rt_client_begin(r->http, slot, a->url.data, a->type, a->type ? a->body.data : NULL, a->body.len, e);
}

int rt_remote_ask(rt_remote *r, uint32_t slot, const char *path, const char *type, rt_str *body, rt_err *e)
{
    asked *a = &r->slot[slot];
    rt_str_free(&a->url);
    rt_str_free(&a->body);
    rt_str_printf(&a->url, "%s%s", r->spec->url, path);
    if (body) a->body = *body, *body = (rt_str){ 0 };
    a->type = type;
    a->failed = a->useless = 0;
    if (a->url.failed || a->body.failed) return rt_no_memory(e, "a question");
    int rc = begin(r, slot, e);
    return rc < 0 ? rc : rt_client_turn(r->http, 0, e);
}

/* ---- what has come ---- */

/* The message of a refusal: {"error": {"message"}}, {"message"}, {"detail"}, or the text as it is. */
static void say_why(const rt_client_reply *p, char out[SHOWN])
{
    json_t *j = p->body.len ? rt_json_load(p->body.data, p->body.len, 0, NULL) : NULL;
    const json_t *error = json_object_get(j, "error");
    const char *text = json_string_value(json_is_string(error) ? error : json_object_get(error, "message"));
    if (!text) text = json_string_value(json_object_get(j, "message"));
    if (!text) text = json_string_value(json_object_get(j, "detail"));
    if (!text) text = p->body.len && !j ? p->body.data : "it gives no reason";
    snprintf(out, SHOWN, "%s", text);
    rt_text_tame(out);
    json_decref(j);
}

static bool may_pass(const rt_client_reply *p)
{
    const long s = p->status;
    return s ? s == 200 || s == 408 || s == 429 || s == 500 || (s >= 502 && s <= 504) : !p->hopeless;
}

static int refused(const rt_remote *r, long status, const char *why, rt_err *e)
{
    const char *url = r->spec->url;
    if (!status) return rt_fail(e, RT_NETWORK, "%s: %s", url, why);
    if (status == 401 || status == 403)
        return rt_fail(e, RT_INVALID, "%s wants a token, or another one (token-file=FILE): %s", url, why);
    if (status >= 300 && status < 400)
        return rt_fail(e, RT_NETWORK, "%s answers from elsewhere (status %ld); give that address", url, status);
    if (status == 404 || status == 405 || status == 501)
        return rt_fail(e, RT_NETWORK, "%s is no such server (status %ld): %s", url, status, why);
    return rt_fail(e, RT_INVALID, "%s refuses (status %ld): %s", url, status, why);
}

/* The slot is asked again after a pause, which grows. */
static void ask_later(rt_remote *r, uint32_t slot)
{
    asked *a = &r->slot[slot];
    double seconds = first_pause;
    for (uint32_t i = 0; i < a->failed && seconds < longest_pause; i++) seconds *= 2;
    a->failed++;
    a->state = PAUSED;
    a->again = rt_now() + (seconds < longest_pause ? seconds : longest_pause);
    if (!r->failing) r->failing = rt_now();
}

/* A request is over: answered, to be asked again, or refused for good, which is said to who waits for it: answers to
 * what was asked before are of use. */
static void judge(rt_remote *r, uint32_t slot)
{
    char why[SHOWN];
    asked *a = &r->slot[slot];
    const rt_client_reply *p = rt_client_over(r->http, slot);
    if (p->status == 200 && !p->body.failed) {
        a->state = ANSWERED;
        return;
    }
    if (p->status)
        say_why(p, why);
    else
        snprintf(why, sizeof why, "%s", p->why);
    if (!may_pass(p)) {
        a->state = REFUSED;
        refused(r, p->status, why, &a->err);
        return;
    }
    if (p->status)
        snprintf(r->why, sizeof r->why, "status %ld: %s", p->status, why);
    else
        snprintf(r->why, sizeof r->why, "%s", why);
    ask_later(r, slot);
}

static int be_patient(const rt_remote *r, rt_err *e)
{
    const double most = r->answered ? r->spec->wait : first_contact, silent = r->failing ? rt_now() - r->failing : 0;
    if (silent <= most) return RT_OK;
    if (!r->answered)
        return rt_fail(e, RT_NETWORK, "%s does not answer (%s); is the server running, and is this its address?",
                       r->spec->url, r->why);
    return rt_fail(e, RT_NETWORK, "%s has not answered for %.0f s (%s); wait=SECONDS waits longer", r->spec->url,
                   silent, r->why);
}

static int serve_all(rt_remote *r, rt_err *e)
{
    int rc = RT_OK;
    const double now = rt_now();
    for (uint32_t i = 0; i < RT_CLIENT_SLOTS; i++) {
        asked *a = &r->slot[i];
        if (a->state == PAUSED && now >= a->again) {
            r->repeats++;
            RT_TRY(begin(r, i, e));
        }
        if (a->state == SENT && rt_client_over(r->http, i)) judge(r, i);
    }
out:
    return rc;
}

int rt_remote_wait(rt_remote *r, uint32_t slot, const rt_watch *watch, const rt_str **reply, rt_err *e)
{
    int rc;
    const asked *a = &r->slot[slot];
    for (;;) {
        RT_TRY(serve_all(r, e));
        if (a->state == REFUSED) RT_TRY(rt_fail(e, a->err.status, "%s", a->err.text));
        if (a->state == ANSWERED) break;
        RT_TRY(be_patient(r, e));
        RT_TRY(rt_client_turn(r->http, TURN_MS, e));
        const char *what = r->failing ? "waiting for the server to come back" : "waiting for the teacher's answer";
        RT_TRY(rt_watch_step(watch, what, 0, 0, e));
    }
    *reply = &rt_client_over(r->http, slot)->body;
out:
    return rc;
}

bool rt_remote_has(rt_remote *r, uint32_t slot)
{
    return rt_client_turn(r->http, 0, NULL) >= 0 && serve_all(r, NULL) >= 0 && r->slot[slot].state == ANSWERED;
}

void rt_remote_taken(rt_remote *r, uint32_t slot)
{
    r->slot[slot].state = IDLE;
    r->answered = true;
    r->failing = 0;
}

int rt_remote_again(rt_remote *r, uint32_t slot, const rt_err *why, rt_err *e)
{
    snprintf(r->why, sizeof r->why, "%.*s", (int)sizeof r->why - 1, why->text);
    ask_later(r, slot);
    if (++r->slot[slot].useless < MOST_USELESS) return be_patient(r, e);
    return rt_fail(e, RT_NETWORK, "%s answers what is of no use: %s; is this the address of the teacher's server?",
                   r->spec->url, r->why);
}
