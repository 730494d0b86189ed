/* serve.h - a model behind HTTP: completions and chats as OpenAI's clients and lm-eval ask for them, with the exact
 * log-probabilities of prompts; and what a teacher says, for runs elsewhere (teacher/remote/wire.h).
 *
 * Owns: HTTP, the formats of requests and replies, the queue, time-outs, shutting down. The model, its text and its
 * engine are job/speaker.h, its answers as a teacher job/teaching.h; what is printed is the caller's.
 *
 * Three threads. The event loop has the sockets: it reads requests, tokenizes prompts, puts sequences into a queue and
 * writes replies; those that are large are read and written by the clerk, so that nobody waits for them but the other
 * large ones. The worker has the device: it takes sequences from the queue as there is room, steps the engine, and
 * notes in each sequence what was said. One lock stands between them; it is held to note and to format, never while the
 * engine computes or a socket is used. So answers that are asked for together are computed together, and /health
 * answers while a step takes its time. A client that leaves, or closes its side, cancels what it asked for.
 *
 * A question to a teacher waits in the same queue and is answered between two steps of the engine.
 *
 *     serve_run.c     the loop, its socket, shutting down        serve_worker.c   the other thread
 *     serve_route.c   which path is answered by what             serve_ask.c      a request's JSON (serve_fields.c)
 *     serve_call.c    a request under way                        serve_reply.c    a reply's JSON (serve_logps.c)
 *     serve_plain.c   /v1/models, /tokenize and the like     serve_clerk.c    the third thread
 *     serve_peer.c    connections, what comes in */
#ifndef RT_SERVE_SERVE_H
#define RT_SERVE_SERVE_H

#include "job/speaker.h"

typedef struct rt_serve_opts {
    const char *host;                   /* null: 127.0.0.1 */
    uint64_t port;                      /* 0: one that is free */
    const char *name;                   /* of the model, as clients call it */
    const char *cors;                   /* the origin whose pages may ask, or "*"; null: none */
    const char *token;                  /* that requests must bear; null: none */
    uint32_t slots, context, positions; /* as in rt_engine_opts; slots 0: RT_JOB_SLOTS */
    uint64_t top;                       /* likely ids that a request may ask for with each token */
    uint64_t max_queue;                 /* sequences that may wait for a slot */
    uint64_t max_body;                  /* bytes of a request */
    uint64_t max_uploads; /* bytes of large requests that come in or wait to be read, in all; 0: 8 times max_body */
    double timeout;       /* seconds that a request may take in all */
    double idle_timeout;  /* seconds without a byte from or to a client that has something to say or to hear */
    const rt_settings *where;
    const rt_job_env *env;
    const rt_watch *watch;                                                    /* of loading weights; null: nobody's */
    void (*listening)(void *ctx, const char *url, const rt_speaker_facts *f); /* from now on it answers */
    bool (*stop)(void *ctx); /* asked ten times a second; true: finish what is under way, then return */
    void (*stopping)(void *ctx, uint32_t requests); /* so many are still under way; may be null */
    void *ctx;
} rt_serve_opts;

/* Answers until stop says so. RT_USAGE with the flag's name for what is out of range; RT_IO where the address cannot be
 * had. A device that fails ends it with that status. */
int rt_serve(const rt_model_file *m, const rt_serve_opts *o, rt_err *e);

#endif
