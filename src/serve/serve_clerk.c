/* serve_clerk.c - see serve_clerk.h. */
#include "serve/serve_clerk.h"

#include <stddef.h>
#include <stdint.h>
#include <sys/eventfd.h>
#include <unistd.h>

static void append(rt_chore **first, rt_chore **last, rt_chore *c)
{
    c->next = NULL;
    if (*first)
        (*last)->next = c;
    else
        *first = c;
    *last = c;
}

static void *work(void *arg)
{
    rt_clerk *c = arg;
    const uint64_t one = 1;
    pthread_mutex_lock(&c->lock);
    for (;;) {
        rt_chore *chore = c->first;
        if (!chore && c->quit) break;
        if (!chore) {
            pthread_cond_wait(&c->changed, &c->lock);
            continue;
        }
        c->first = chore->next;
        chore->left_out = c->quit;
        pthread_mutex_unlock(&c->lock);
        if (!chore->left_out) chore->work(chore);
        pthread_mutex_lock(&c->lock);
        append(&c->ended, &c->ended_last, chore);
        if (c->ended == chore && write(c->wake, &one, sizeof one) < 0) continue; /* it is awake already */
    }
    pthread_mutex_unlock(&c->lock);
    return NULL;
}

int rt_clerk_start(rt_clerk *c, rt_err *e)
{
    c->wake = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    if (c->wake < 0)
        return rt_fail(e, RT_IO, "the server could not create an event descriptor: too many files are open");
    pthread_mutex_init(&c->lock, NULL);
    pthread_cond_init(&c->changed, NULL);
    if (pthread_create(&c->thread, NULL, work, c) != 0) {
        close(c->wake);
        return rt_fail(e, RT_NOMEM, "the server could not start its second thread");
    }
    c->running = true;
    return RT_OK;
}

void rt_clerk_put(rt_clerk *c, rt_chore *chore)
{
    pthread_mutex_lock(&c->lock);
    append(&c->first, &c->last, chore);
    pthread_cond_signal(&c->changed);
    pthread_mutex_unlock(&c->lock);
}

void rt_clerk_hear(rt_clerk *c)
{
    for (;;) {
        pthread_mutex_lock(&c->lock);
        rt_chore *chore = c->ended;
        if (chore) c->ended = chore->next;
        pthread_mutex_unlock(&c->lock);
        if (!chore) return;
        chore->done(chore);
    }
}

void rt_clerk_stop(rt_clerk *c)
{
    if (!c->running) return;
    pthread_mutex_lock(&c->lock);
    c->quit = true;
    pthread_cond_signal(&c->changed);
    pthread_mutex_unlock(&c->lock);
    pthread_join(c->thread, NULL);
    rt_clerk_hear(c);
    pthread_cond_destroy(&c->changed);
    pthread_mutex_destroy(&c->lock);
    close(c->wake);
    c->running = false;
}
