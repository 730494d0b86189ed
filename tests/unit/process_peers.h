/* process_peers.h - processes as ranks: peers that meet in shared memory. For what keeps state of its own in a process,
 * as the stand-in for NVIDIA's libraries does. */
#ifndef RT_TESTS_PROCESS_PEERS_H
#define RT_TESTS_PROCESS_PEERS_H

#include "backend/peers.h"

#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { PROCESS_RANKS = 8, PROCESS_AREA = 1 << 20 };

typedef struct process_world {
    atomic_uint arrived;
    uint32_t size;
    char why[PROCESS_RANKS][400]; /* what a rank says was wrong; empty: nothing */
    _Alignas(64) char area[PROCESS_RANKS][PROCESS_AREA];
} process_world;

typedef struct process_rank {
    process_world *world;
    rt_peers peers;
} process_rank;

static inline void process_meet(process_world *w)
{
    uint32_t turn = atomic_fetch_add(&w->arrived, 1) / w->size + 1;
    while (atomic_load(&w->arrived) < turn * w->size) nanosleep(&(struct timespec){ .tv_nsec = 20000 }, NULL);
}

static inline void process_show(process_rank *r, const void *data, uint64_t bytes)
{
    if (bytes > PROCESS_AREA) _exit(99);
    memcpy(r->world->area[r->peers.rank], data, bytes);
    process_meet(r->world);
}

static inline void process_exchange(void *ctx, const void *send, void *recv, uint64_t bytes)
{
    process_rank *r = ctx;
    process_show(r, send, bytes * r->peers.size);
    for (uint32_t i = 0; i < r->peers.size; i++)
        memcpy((char *)recv + i * bytes, r->world->area[i] + r->peers.rank * bytes, bytes);
    process_meet(r->world);
}

static inline void process_gather(void *ctx, const void *part, void *all, uint64_t bytes)
{
    process_rank *r = ctx;
    process_show(r, part, bytes);
    for (uint32_t i = 0; i < r->peers.size; i++) memcpy((char *)all + i * bytes, r->world->area[i], bytes);
    process_meet(r->world);
}

static inline void process_give(void *ctx, void *data, uint64_t bytes)
{
    process_rank *r = ctx;
    process_show(r, data, bytes);
    memcpy(data, r->world->area[0], bytes);
    process_meet(r->world);
}

/* fn of each rank, which fills why; returns the first that did, with its rank. Null: all is well. */
static inline const char *process_world_run(uint32_t size, void (*fn)(rt_peers *p, void *ctx, char why[400]), void *ctx)
{
    static char text[500];
    process_world *w = mmap(NULL, sizeof *w, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    pid_t child[PROCESS_RANKS];
    text[0] = 0;
    if (w == MAP_FAILED) return "no shared memory";
    w->size = size;
    fflush(NULL);
    for (uint32_t i = 0; i < size; i++) {
        child[i] = fork();
        if (child[i]) continue;
        process_rank r = { .world = w,
                           .peers = { .rank = i,
                                      .size = size,
                                      .exchange = process_exchange,
                                      .gather = process_gather,
                                      .give = process_give } };
        r.peers.ctx = &r;
        fn(&r.peers, ctx, w->why[i]);
        _exit(0);
    }
    for (uint32_t i = 0; i < size; i++) {
        int status = 0;
        waitpid(child[i], &status, 0);
        if (status && !text[0]) snprintf(text, sizeof text, "rank %u of %u ended with status %#x", i, size, status);
    }
    for (uint32_t i = 0; i < size && !text[0]; i++)
        if (w->why[i][0]) snprintf(text, sizeof text, "rank %u of %u: %.399s", i, size, w->why[i]);
    munmap(w, sizeof *w);
    return text[0] ? text : NULL;
}

#endif
