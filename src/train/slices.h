/* slices.h - who owns what of the optimizer's state, where several ranks share it.
 *
 * Owns: the cut. A bucket (model/decoder.h) is cut into as many slices as there are ranks, between rows of its
 * parameters: what a row has in common (the blocks of 8-bit moments, the place of its random words) stays together, and
 * a vector is not cut. What one bucket cannot share out evenly the next ones make up for, so that what ranks own in all
 * differs by less than two rows. The same on every rank. */
#ifndef RT_TRAIN_SLICES_H
#define RT_TRAIN_SLICES_H

#include "model/decoder.h"

typedef struct rt_slices {
    uint32_t ranks, rank; /* ranks 0: every rank has all of the state */
    uint32_t *cut;        /* (param_count, ranks + 1) rows of a parameter before those of each rank */
    rt_slice *bucket;     /* (bucket_count) of this rank */
} rt_slices;

/* Of a decoder with buckets; what is in a lives as long as the slices. */
int rt_slices_new(rt_slices *s, rt_arena *a, const rt_decoder *d, uint32_t ranks, uint32_t rank, rt_err *e);

/* Rows of a parameter before those of a rank, and how many are its own. */
static inline uint32_t rt_slices_first(const rt_slices *s, uint32_t param, uint32_t rank)
{
    return s->cut[(size_t)param * (s->ranks + 1) + rank];
}
static inline uint32_t rt_slices_rows(const rt_slices *s, uint32_t param, uint32_t rank)
{
    return rt_slices_first(s, param, rank + 1) - rt_slices_first(s, param, rank);
}

#endif
