/* http_curl.c - see http.h. Numbers of options and errors are those of curl.h, which have never changed. */
#include "teacher/remote/http.h"

#include "base/dynlib.h"
#include "base/mem.h"

#include <stdio.h>
#include <string.h>

/* ---- the library ---- */

struct curl_slist;
typedef struct curl_message {
    int message;
    void *easy;
    union {
        void *whatever;
        int result;
    } data;
} curl_message;

#define CURL_LIST(X)                                                                                                   \
    X(curl_global_init, int, (long flags))                                                                             \
    X(curl_easy_init, void *, (void))                                                                                  \
    X(curl_easy_setopt, int, (void *easy, int option, ...))                                                            \
    X(curl_easy_getinfo, int, (void *easy, int info, ...))                                                             \
    X(curl_easy_cleanup, void, (void *easy))                                                                           \
    X(curl_easy_strerror, const char *, (int code))                                                                    \
    X(curl_slist_append, struct curl_slist *, (struct curl_slist * list, const char *line))                            \
    X(curl_slist_free_all, void, (struct curl_slist * list))                                                           \
    X(curl_multi_init, void *, (void))                                                                                 \
    X(curl_multi_add_handle, int, (void *multi, void *easy))                                                           \
    X(curl_multi_remove_handle, int, (void *multi, void *easy))                                                        \
    X(curl_multi_perform, int, (void *multi, int *running))                                                            \
    X(curl_multi_poll, int, (void *multi, void *extra, unsigned count, int ms, int *changed))                          \
    X(curl_multi_info_read, curl_message *, (void *multi, int *left))                                                  \
    X(curl_multi_cleanup, int, (void *multi))

typedef struct curl_calls {
#define X(name, result, arguments) result(*name) arguments;
    CURL_LIST(X)
#undef X
} curl_calls;

static const rt_dynlib_symbol symbols[] = {
#define X(name, result, arguments) { #name, offsetof(curl_calls, name), false },
    CURL_LIST(X)
#undef X
};

enum {
    GLOBAL_ALL = 3,
    MESSAGE_DONE = 1,
    INFO_STATUS = 0x200002,
    INFO_PRIVATE = 0x100015,
    OPT_WRITEDATA = 10001,
    OPT_URL = 10002,
    OPT_ERRORBUFFER = 10010,
    OPT_POSTFIELDS = 10015,
    OPT_USERAGENT = 10018,
    OPT_HTTPHEADER = 10023,
    OPT_CAINFO = 10065,
    OPT_WRITEFUNCTION = 20011,
    OPT_POST = 47,
    OPT_HTTPGET = 80,
    OPT_NOSIGNAL = 99,
    OPT_PRIVATE = 10103,
    OPT_TIMEOUT_MS = 155,
    OPT_CONNECTTIMEOUT_MS = 156,
    OPT_PROTOCOLS = 181,
    OPT_POSTFIELDSIZE_LARGE = 30120,
    PROTOCOLS_HTTP_HTTPS = 3,
    FAILED_PROTOCOL = 1,
    FAILED_URL = 3,
    FAILED_TLS_ENGINE = 53,
    FAILED_CERTIFICATE = 60,
    FAILED_CA_FILE = 77
};

typedef struct request {
    rt_client *of;
    void *easy; /* null: none is under way */
    struct curl_slist *headers;
    char error[RT_CLIENT_WHY]; /* libcurl's CURL_ERROR_SIZE */
    bool too_large, over;
    rt_client_reply reply;
} request;

struct rt_client {
    rt_client_opts o;
    rt_dynlib lib;
    curl_calls c;
    void *multi;
    request slot[RT_CLIENT_SLOTS];
};

static int find_library(rt_client *h, rt_err *e)
{
    static const char *const names[] = { "libcurl.so.4", "libcurl-gnutls.so.4" };
    int rc = RT_NOT_FOUND;
    rt_err why = { 0 };
    for (size_t i = 0; rc < 0 && i < sizeof names / sizeof *names; i++) rc = rt_dynlib_open(&h->lib, names[i], &why);
    if (rc >= 0) rc = rt_dynlib_bind(&h->lib, &h->c, symbols, sizeof symbols / sizeof *symbols, &why);
    if (rc >= 0) return RT_OK;
    return rt_fail(e, RT_NOT_FOUND,
                   "a server is asked by libcurl, which is not here (%s); install it (Debian: libcurl4 or "
                   "libcurl3-gnutls)",
                   why.text);
}

int rt_client_open(rt_client **out, const rt_client_opts *o, rt_err *e)
{
    int rc;
    rt_client *h = rt_alloc_zero(sizeof *h, 16);
    if (!h) RT_TRY(rt_no_memory(e, "requests"));
    h->o = *o;
    for (uint32_t i = 0; i < RT_CLIENT_SLOTS; i++) h->slot[i].of = h;
    RT_TRY(find_library(h, e));
    if (h->c.curl_global_init(GLOBAL_ALL) != 0 || !(h->multi = h->c.curl_multi_init()))
        RT_TRY(rt_fail(e, RT_NETWORK, "%s cannot begin", h->lib.path));
    *out = h;
    h = NULL;
out:
    rt_client_close(h);
    return rc;
}

static void end(request *r)
{
    const curl_calls *c = &r->of->c;
    if (!r->easy) return;
    c->curl_multi_remove_handle(r->of->multi, r->easy);
    c->curl_easy_cleanup(r->easy);
    c->curl_slist_free_all(r->headers);
    r->easy = NULL;
    r->headers = NULL;
}

void rt_client_close(rt_client *h)
{
    if (!h) return;
    for (uint32_t i = 0; i < RT_CLIENT_SLOTS; i++) {
        end(&h->slot[i]);
        rt_str_free(&h->slot[i].reply.body);
    }
    if (h->multi) h->c.curl_multi_cleanup(h->multi);
    rt_dynlib_close(&h->lib);
    rt_free(h);
}

/* ---- a request ---- */

static size_t take(char *data, size_t size, size_t count, void *slot)
{
    request *r = slot;
    const size_t n = size * count;
    r->too_large = r->too_large || r->reply.body.len + n > r->of->o.most;
    if (r->too_large) return 0;
    rt_str_append_n(&r->reply.body, data, n);
    return r->reply.body.failed ? 0 : n;
}

/* False when memory was refused. */
static bool add_header(request *r, const char *name, const char *value)
{
    rt_str line = { 0 };
    if (!value) return true;
    rt_str_printf(&line, "%s%s", name, value);
    struct curl_slist *more = line.failed ? NULL : r->of->c.curl_slist_append(r->headers, line.data);
    rt_str_free(&line);
    if (more) r->headers = more;
    return more != NULL;
}

int rt_client_begin(rt_client *h, uint32_t slot, const char *url, const char *type, const char *body, size_t len,
                    rt_err *e)
{
    request *r = &h->slot[slot];
    const curl_calls *c = &h->c;
    end(r);
    rt_str_free(&r->reply.body);
    r->reply = (rt_client_reply){ 0 };
    r->over = r->too_large = false;
    r->error[0] = 0;
    if (!(r->easy = c->curl_easy_init())) return rt_no_memory(e, "a request");
    /* Expect: is left out, since a server that does not know it makes every request wait for a second. */
    bool kept = add_header(r, "Content-Type: ", type) && add_header(r, "Expect:", "") &&
                add_header(r, "Authorization: Bearer ", h->o.token);
    kept = kept && c->curl_easy_setopt(r->easy, OPT_URL, url) == 0;
    if (!kept) return rt_no_memory(e, "a request");
    c->curl_easy_setopt(r->easy, OPT_PRIVATE, (void *)r);
    c->curl_easy_setopt(r->easy, OPT_ERRORBUFFER, r->error);
    c->curl_easy_setopt(r->easy, OPT_WRITEFUNCTION, take);
    c->curl_easy_setopt(r->easy, OPT_WRITEDATA, (void *)r);
    c->curl_easy_setopt(r->easy, OPT_USERAGENT, "retort");
    c->curl_easy_setopt(r->easy, OPT_HTTPHEADER, r->headers);
    c->curl_easy_setopt(r->easy, OPT_NOSIGNAL, 1L);
    c->curl_easy_setopt(r->easy, OPT_PROTOCOLS, (long)PROTOCOLS_HTTP_HTTPS);
    c->curl_easy_setopt(r->easy, OPT_CONNECTTIMEOUT_MS, (long)(1e3 * h->o.connect));
    c->curl_easy_setopt(r->easy, OPT_TIMEOUT_MS, (long)(1e3 * h->o.timeout));
    c->curl_easy_setopt(r->easy, body ? OPT_POST : OPT_HTTPGET, 1L);
    if (h->o.ca_file) c->curl_easy_setopt(r->easy, OPT_CAINFO, h->o.ca_file);
    if (body) {
        c->curl_easy_setopt(r->easy, OPT_POSTFIELDSIZE_LARGE, (int64_t)len);
        c->curl_easy_setopt(r->easy, OPT_POSTFIELDS, body);
    }
    if (c->curl_multi_add_handle(h->multi, r->easy) != 0) return rt_no_memory(e, "a request");
    return RT_OK;
}

void rt_client_drop(rt_client *h, uint32_t slot)
{
    end(&h->slot[slot]);
    h->slot[slot].over = false;
}

/* What libcurl says of a request that has ended. */
static void note(request *r, int result)
{
    rt_client_reply *p = &r->reply;
    r->over = true;
    if (result == 0) {
        r->of->c.curl_easy_getinfo(r->easy, INFO_STATUS, &p->status);
        return;
    }
    p->hopeless = result == FAILED_PROTOCOL || result == FAILED_URL || result == FAILED_TLS_ENGINE ||
                  result == FAILED_CERTIFICATE || result == FAILED_CA_FILE || r->too_large;
    if (r->too_large)
        snprintf(p->why, sizeof p->why, "its answer is longer than %llu bytes", (unsigned long long)r->of->o.most);
    else
        snprintf(p->why, sizeof p->why, "%.180s%s", r->error[0] ? r->error : r->of->c.curl_easy_strerror(result),
                 result == FAILED_CERTIFICATE && !r->of->o.ca_file ? "; ca-file=FILE names certificates to trust" : "");
    rt_text_tame(p->why);
}

int rt_client_turn(rt_client *h, int milliseconds, rt_err *e)
{
    int running = 0, changed = 0, left = 0;
    const curl_calls *c = &h->c;
    bool over = false;
    for (int pass = 0; pass < 2 && !over; pass++) {
        if (pass && c->curl_multi_poll(h->multi, NULL, 0, milliseconds, &changed) != 0) break;
        if (c->curl_multi_perform(h->multi, &running) != 0)
            return rt_fail(e, RT_NETWORK, "%s cannot go on with its requests", h->lib.path);
        for (curl_message *m; (m = c->curl_multi_info_read(h->multi, &left));) {
            request *r = NULL;
            if (m->message != MESSAGE_DONE) continue;
            const int result = m->data.result;
            c->curl_easy_getinfo(m->easy, INFO_PRIVATE, (void **)&r);
            note(r, result);
            end(r);
            over = true;
        }
    }
    return RT_OK;
}

rt_client_reply *rt_client_over(rt_client *h, uint32_t slot)
{
    return h->slot[slot].over ? &h->slot[slot].reply : NULL;
}
