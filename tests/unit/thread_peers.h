/* thread_peers.h - threads as ranks: peers that meet at a barrier and read one another's memory. */
#ifndef RT_TESTS_THREAD_PEERS_H
#define RT_TESTS_THREAD_PEERS_H

#include "backend/peers.h"

#include <pthread.h>
#include <stdint.h>
#include <string.h>

enum { THREAD_RANKS = 8 };

typedef struct thread_world {
    uint32_t size;
    pthread_barrier_t barrier;
    const void *shown[THREAD_RANKS]; /* what each rank has in a call */
    rt_peers peers[THREAD_RANKS];
    struct thread_rank {
        struct thread_world *world;
        uint32_t rank;
    } rank[THREAD_RANKS];
} thread_world;

static inline void thread_meet(struct thread_rank *r, const void *shown)
{
    r->world->shown[r->rank] = shown;
    pthread_barrier_wait(&r->world->barrier);
}

static inline void thread_exchange(void *ctx, const void *send, void *recv, uint64_t bytes)
{
    struct thread_rank *r = ctx;
    thread_meet(r, send);
    for (uint32_t i = 0; i < r->world->size; i++)
        memcpy((char *)recv + i * bytes, (const char *)r->world->shown[i] + r->rank * bytes, bytes);
    pthread_barrier_wait(&r->world->barrier);
}

static inline void thread_gather(void *ctx, const void *part, void *all, uint64_t bytes)
{
    struct thread_rank *r = ctx;
    thread_meet(r, part);
    for (uint32_t i = 0; i < r->world->size; i++) memcpy((char *)all + i * bytes, r->world->shown[i], bytes);
    pthread_barrier_wait(&r->world->barrier);
}

static inline void thread_give_from(void *ctx, uint32_t rank, void *data, uint64_t bytes)
{
    struct thread_rank *r = ctx;
    thread_meet(r, data);
    if (r->rank != rank) memcpy(data, r->world->shown[rank], bytes);
    pthread_barrier_wait(&r->world->barrier);
}

static inline void thread_give(void *ctx, void *data, uint64_t bytes) { thread_give_from(ctx, 0, data, bytes); }

static inline void thread_world_begin(thread_world *w, uint32_t size)
{
    *w = (thread_world){ .size = size };
    pthread_barrier_init(&w->barrier, NULL, size);
    for (uint32_t i = 0; i < size; i++) {
        w->rank[i] = (struct thread_rank){ w, i };
        w->peers[i] = (rt_peers){ .rank = i,
                                  .size = size,
                                  .exchange = thread_exchange,
                                  .gather = thread_gather,
                                  .give = thread_give,
                                  .give_from = thread_give_from,
                                  .ctx = &w->rank[i] };
    }
}

/* fn(rank, ctx) in a thread for each rank. */
typedef struct thread_job {
    void (*fn)(rt_peers *p, void *ctx);
    rt_peers *peers;
    void *ctx;
} thread_job;
static inline void *thread_main(void *job)
{
    thread_job *j = job;
    j->fn(j->peers, j->ctx);
    return NULL;
}
static inline void thread_world_run(uint32_t size, void (*fn)(rt_peers *p, void *ctx), void *ctx)
{
    thread_world w;
    pthread_t thread[THREAD_RANKS];
    thread_job job[THREAD_RANKS];
    thread_world_begin(&w, size);
    for (uint32_t i = 0; i < size; i++) {
        job[i] = (thread_job){ fn, &w.peers[i], ctx };
        pthread_create(&thread[i], NULL, thread_main, &job[i]);
    }
    for (uint32_t i = 0; i < size; i++) pthread_join(thread[i], NULL);
    pthread_barrier_destroy(&w.barrier);
}

#endif
