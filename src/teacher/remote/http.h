/* http.h - requests over HTTP and HTTPS, several at a time, by libcurl.
 *
 * Owns: libcurl, which is opened at run time (no header and no archive of it is needed to build), the requests that are
 * under way, and what became of each. Proxies and certificates are libcurl's: it looks at http_proxy, https_proxy and
 * no_proxy. What is asked, and when to ask again, is remote.h's. One thread at a time. */
#ifndef RT_TEACHER_REMOTE_HTTP_H
#define RT_TEACHER_REMOTE_HTTP_H

#include "base/err.h"
#include "base/str.h"

enum { RT_CLIENT_SLOTS = 16, RT_CLIENT_WHY = 256 };

typedef struct rt_client_opts {
    const char *token; /* for Authorization: Bearer; null: none. The caller's, and outlives the rest */
    const char *ca_file; /* certificates that are trusted; null: those of the system. The same */
    double connect;    /* seconds for a connection, */
    double timeout;    /* and for a request as a whole */
    uint64_t most;     /* bytes of a reply */
} rt_client_opts;

/* What became of a request. */
typedef struct rt_client_reply {
    long status;   /* of HTTP; 0: there was no answer, and why says the reason */
    bool hopeless; /* asking again cannot help: the address is none, or a certificate is not trusted */
    rt_str body;
    char why[RT_CLIENT_WHY];
} rt_client_reply;

typedef struct rt_client rt_client;
/* RT_NOT_FOUND where there is no libcurl: the message names the packages that have it. */
int rt_client_open(rt_client **out, const rt_client_opts *o, rt_err *e);
void rt_client_close(rt_client *h); /* accepts null; ends what is under way */

/* Begins one in a slot where none is under way. body (len) of a POST with its type; null: GET. It stays the caller's
 * and must not change until the request is over. */
int rt_client_begin(rt_client *h, uint32_t slot, const char *url, const char *type, const char *body, size_t len,
                    rt_err *e);
/* Sends and receives, and returns when something has come, or after so many milliseconds. */
int rt_client_turn(rt_client *h, int milliseconds, rt_err *e);
/* The reply of a slot whose request is over, good until the next one begins there; null: it is under way, or none is.
 */
rt_client_reply *rt_client_over(rt_client *h, uint32_t slot);
/* What is under way in the slot ends, and what has come is forgotten. */
void rt_client_drop(rt_client *h, uint32_t slot);

#endif
