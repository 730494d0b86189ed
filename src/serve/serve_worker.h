/* serve_worker.h - the thread that has the device: sequences wait for it in a queue, and what they are told is noted in
 * them.
 *
 * Owns: the queue, the lock, the thread. Device and engine are opened, used and closed in that thread alone. What a
 * sequence has been told may be read while the lock is held, or when its end has been seen. */
#ifndef RT_SERVE_SERVE_WORKER_H
#define RT_SERVE_SERVE_WORKER_H

#include "job/teaching.h"

#include <pthread.h>

/* An id with its log-probability and the likely ones at its place. */
typedef struct rt_place {
    uint32_t id;
    float logp;           /* NAN: not asked for, or the first of a prompt */
    uint32_t first, many; /* its likely ids in rt_said.likely, best first */
    uint32_t offset;      /* of an answer's: characters before it */
} rt_place;
typedef struct rt_likely_id {
    uint32_t id;
    float logp;
} rt_likely_id;

typedef struct rt_said {
    rt_place *place; /* (count) of the prompt as far as that was asked for, then of the answer */
    uint32_t count, place_cap, prompt;
    rt_likely_id *likely;
    uint32_t likely_count, likely_cap;
    rt_str text;  /* of the answer, as far as it is certain */
    rt_end end;   /* other than NONE: nothing is added any more */
    int32_t stop; /* which stop string ended it; -1 */
    rt_err err;   /* why it has no end of its own (RT_END_CANCELLED) */
} rt_said;

/* One answer that is wanted. */
typedef struct rt_sequence rt_sequence;
typedef struct rt_worker rt_worker;
struct rt_sequence {
    rt_worker *worker;
    void *owner;
    uint32_t index;
    rt_answer_opts o; /* fn and ctx are the worker's */
    bool streams;     /* its owner hears of every id, not of the end alone */
    bool teaches;     /* it is no text: said.text becomes a teacher's answer to question, or its description */
    rt_str question;  /* empty: for a description, */
    bool hidden;      /* with the head */
    rt_said said;
    bool begun, cancelled, noted;
    rt_sequence *next, *next_noted;
    rt_answer *answer; /* the thread's own */
};

struct rt_worker {
    rt_speaker *speaker;
    rt_teaching *teaching;
    const rt_engine_opts *engine;
    const rt_settings *where;
    const char *const *env;
    int wake; /* an eventfd: there is news */
    pthread_t thread;
    bool running;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    rt_sequence **active; /* (slots) the thread's own: those that have begun, or null */
    /* under the lock */
    bool ready, quit;
    rt_err failed; /* status: why the thread has ended by itself */
    rt_sequence *first, *last;
    uint32_t waiting, busy;
    rt_sequence *noted, *noted_last;
    rt_engine_stats stats;
};

/* Returns when the engine is sealed. w: speaker, teaching, engine, where and env are set. Stopped all the same when it
 * failed. */
int rt_worker_start(rt_worker *w, rt_err *e);
void rt_worker_stop(rt_worker *w); /* accepts zeroes; what is under way ends without a word */

/* Puts (count) sequences to the end of the queue. */
void rt_worker_put(rt_worker *w, rt_sequence *each, uint32_t count);
/* Ends (count) of them, those that wait at once and others soon; the end of each is news. */
void rt_worker_cancel(rt_worker *w, rt_sequence *each, uint32_t count);
/* Whether count more would have to wait, and as many as may wait already do. */
bool rt_worker_full(rt_worker *w, uint32_t most);

/* With the lock held in between: a sequence that has been told something since it was last given; null: none. */
void rt_worker_lock(rt_worker *w);
rt_sequence *rt_worker_news(rt_worker *w);
void rt_worker_unlock(rt_worker *w);

typedef struct rt_worker_state {
    uint32_t waiting, busy;
    rt_engine_stats stats;
    rt_err failed;
} rt_worker_state;
rt_worker_state rt_worker_state_of(rt_worker *w);

void rt_said_free(rt_said *s);

#endif
