/* remote.h - a teacher at an address: how it is named, and asking it until it answers.
 *
 * Owns: the word that names such a teacher with its options, several requests under way, asking again with growing
 * pauses, how long a server that has gone is waited for, and which of its replies can be helped by waiting at all. What
 * is in the requests is wire.h's or vllm.h's. */
#ifndef RT_TEACHER_REMOTE_REMOTE_H
#define RT_TEACHER_REMOTE_REMOTE_H

#include "base/mem.h"
#include "base/str.h"
#include "base/watch.h"

#include <stdbool.h>

/* ---- its name ---- */

/* URL,option=value,... */
typedef struct rt_remote_spec {
    const char *url;        /* without a slash at its end */
    bool vllm;              /* api=vllm: it is asked as vLLM is, else as `retort serve` */
    const char *keep;       /* keep=topk:64; null: not said */
    const char *cache;      /* cache=DIR; null: not said */
    const char *token_file; /* token-file=FILE; null: no token */
    const char *ca_file;    /* ca-file=FILE of certificates that are trusted; null: those of the system */
    const char *model;      /* model=NAME, as a request of vLLM's calls it; null: the only one it has */
    const char *tokenizer;  /* tokenizer=MODEL, of a vLLM; null: the student's */
    double wait;            /* wait=SECONDS for a server that has answered before */
    double timeout;         /* timeout=SECONDS of a request */
    uint32_t requests;      /* requests=N under way */
} rt_remote_spec;
/* Whether a teacher's name begins with http:// or https://. */
bool rt_remote_is(const char *name);
/* RT_USAGE for an option that is none. Strings live in a. */
int rt_remote_spec_parse(rt_remote_spec *out, const char *name, rt_arena *a, rt_err *e);

/* ---- asking ---- */

typedef struct rt_remote rt_remote;
/* spec outlives it. Nothing is sent yet. RT_NOT_FOUND without libcurl or token file. */
int rt_remote_open(rt_remote **out, const rt_remote_spec *spec, rt_err *e);
void rt_remote_close(rt_remote *r); /* accepts null; ends what is under way */

/* The path below the URL. type null: GET. Takes body, which is zeroes then. slot: below spec->requests. */
int rt_remote_ask(rt_remote *r, uint32_t slot, const char *path, const char *type, rt_str *body, rt_err *e);
/* The reply to what was asked in the slot, good until the slot is asked again; all the others are served meanwhile.
 *
 * What may pass is waited out: no connection, no answer in time, 408, 429, 500, 502 to 504. With a server that has not
 * answered yet that lasts a few seconds from the first failure on, with another one spec->wait; then RT_NETWORK.
 * RT_INVALID, with what the server says, where it refuses. RT_INTERRUPTED when whoever watches wants no more. */
int rt_remote_wait(rt_remote *r, uint32_t slot, const rt_watch *watch, const rt_str **reply, rt_err *e);
/* Whether the reply has come already. */
bool rt_remote_has(rt_remote *r, uint32_t slot);
/* What was waited for is an answer: nothing is missing any more. */
void rt_remote_taken(rt_remote *r, uint32_t slot);
/* It is none, with why: the slot is asked again, as after any other failure, but not for long: RT_NETWORK. */
int rt_remote_again(rt_remote *r, uint32_t slot, const rt_err *why, rt_err *e);
/* Nothing is asked any more, and what has failed is forgotten; whether it has answered ever is not. */
void rt_remote_forget(rt_remote *r);
/* What was asked again so far. */
uint64_t rt_remote_repeats(const rt_remote *r);

#endif
