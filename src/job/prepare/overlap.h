/* overlap.h - how much of the held-out text the training text has too, by 13-grams of token ids.
 *
 * Owns: the set of grams and the counting. A held-out position counts as shared when it and the twelve tokens before
 * it, in one document, stand in the training text as well: that position was learned by heart, not predicted. Only
 * positions that evaluation measures are counted, so prompts that every record begins with do not matter.
 *
 * Memory is bounded: of more than RT_OVERLAP_GRAMS grams every second, fourth, ... is looked at, chosen by its hash,
 * and the result says so. Grams are compared by 64-bit hashes. */
#ifndef RT_JOB_OVERLAP_H
#define RT_JOB_OVERLAP_H

#include "train/step.h"

enum { RT_OVERLAP_N = 13, RT_OVERLAP_GRAMS = 1 << 20 };

typedef struct rt_overlap_result {
    uint64_t grams, shared;  /* held-out positions that were looked at; of them in the training text too */
    uint64_t texts, touched; /* documents, or their pieces in rows, with such a position; of them with a shared one */
    uint32_t one_in;         /* one of so many grams was looked at; 1: all of them */
} rt_overlap_result;

typedef struct rt_overlap rt_overlap;
/* held: rows x T positions, as evaluation has them; must outlive it. most: grams to remember, at least 1. */
int rt_overlap_new(rt_overlap **out, const rt_batch *held, uint32_t rows, uint32_t T, uint64_t most, rt_err *e);
void rt_overlap_free(rt_overlap *o); /* accepts null */
/* A row of training text: tokens ids, start as in rt_batch. */
void rt_overlap_read(rt_overlap *o, const int32_t *ids, const int32_t *start, uint32_t tokens);
rt_overlap_result rt_overlap_count(const rt_overlap *o);

#endif
