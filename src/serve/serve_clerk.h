/* serve_clerk.h - a thread beside the loop for what takes long: reading a large request, writing a large reply.
 *
 * Owns: its queue and its thread. What is done there, and what may be looked at meanwhile, is who asks for it. */
#ifndef RT_SERVE_SERVE_CLERK_H
#define RT_SERVE_SERVE_CLERK_H

#include "base/err.h"

#include <pthread.h>
#include <stdbool.h>

typedef struct rt_chore rt_chore;
struct rt_chore {
    void (*work)(rt_chore *c); /* in the clerk's thread; left out when it is stopped before */
    void (*done)(rt_chore *c); /* then, in the loop's; the chore is its own again */
    bool left_out;
    rt_chore *next;
};

typedef struct rt_clerk {
    int wake; /* an eventfd: chores are done */
    pthread_t thread;
    bool running;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    /* under the lock */
    bool quit;
    rt_chore *first, *last, *ended, *ended_last;
} rt_clerk;

int rt_clerk_start(rt_clerk *c, rt_err *e);
/* Returns when the chore under way is done; what is then still to be heard is heard here. Accepts zeroes. */
void rt_clerk_stop(rt_clerk *c);
void rt_clerk_put(rt_clerk *c, rt_chore *chore); /* in the order in which they come */
/* Calls done of those that are. */
void rt_clerk_hear(rt_clerk *c);

#endif
