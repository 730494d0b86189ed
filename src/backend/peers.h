/* peers.h - the other ranks of a run, as a backend sees them.
 *
 * Owns: the struct of functions by which ranks exchange bytes, whatever carries them (src/comm has MPI's). Every rank
 * calls the same functions in the same order with the same number of bytes, one at a time. None of them can fail: a
 * rank that is lost ends all of them, and whoever made the peers sees to that. */
#ifndef RT_BACKEND_PEERS_H
#define RT_BACKEND_PEERS_H

#include "op/args.h"

#include <stdbool.h>

typedef struct rt_peers {
    uint32_t rank, size;
    /* Part i of send, so many bytes, goes to rank i, and part i of recv comes from it; both (size parts). */
    void (*exchange)(void *ctx, const void *send, void *recv, uint64_t bytes);
    /* all (size parts): the part of each rank, in their order. */
    void (*gather)(void *ctx, const void *part, void *all, uint64_t bytes);
    /* What rank 0 has in data, to all; or what another has. */
    void (*give)(void *ctx, void *data, uint64_t bytes);
    void (*give_from)(void *ctx, uint32_t rank, void *data, uint64_t bytes);
    /* Ends all of them, for a rank that can do no more than say why; in any thread. Null: nobody does. */
    void (*lost)(void *ctx, const char *sentence);
    void *ctx;
    const char *const *host; /* (size) where each is; null: not known */
    /* Set by a rank that leaves while others wait for it: the only thing left to do is to end them. */
    bool torn;
} rt_peers;

/* A fault of any rank becomes that of all: of the first that has one, which is then named in it. all (size). */
static inline void rt_peers_fault(const rt_peers *p, rt_fault *f, rt_fault *all)
{
    p->gather(p->ctx, f, all, sizeof *f);
    for (uint32_t r = p->size; r-- > 0;)
        if (all[r].set) {
            *f = all[r];
            if (f->set == 1) f->set = 1 + r; /* else it was named before */
        }
}

/* Where the slice of each rank lies in what they have cut among them. */
typedef struct rt_part {
    uint32_t first, count;
} rt_part;
/* all (size) */
static inline void rt_peers_slices(const rt_peers *p, const rt_slice_args *a, rt_part *all)
{
    const rt_part own = { a->first, a->count };
    p->gather(p->ctx, &own, all, sizeof own);
}

/* part (ranks, n): the first becomes the sum, in their order. */
static inline void rt_peers_add(float *part, uint64_t n, uint32_t ranks)
{
    for (uint32_t r = 1; r < ranks; r++) {
        const float *of = part + r * n;
        for (uint64_t i = 0; i < n; i++) part[i] += of[i];
    }
}

/* x (size * slice) of every rank added up, in their order, in place and on all of them: each rank adds up a slice of
 * its own. So every rank sends and receives what a ring would, every element is added up once, in one order, and all
 * have the same bits. work: as large as x. */
static inline void rt_peers_sum(const rt_peers *p, float *x, float *work, uint64_t slice)
{
    p->exchange(p->ctx, x, work, slice * sizeof *x);
    rt_peers_add(work, slice, p->size);
    p->gather(p->ctx, work, x, slice * sizeof *x);
}

#endif
