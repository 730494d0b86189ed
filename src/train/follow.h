/* follow.h - a run of several ranks: what rank 0 tells the others, and the steps that they then make together.
 *
 * Rank 0 is the run: it reads rows, evaluates, saves and decides. The others have the same programs and weights, wait
 * for a word, and do what it says. The rows of a step are cut by rank from the order that one process would have, each
 * rank makes gradients of its own, and the update begins with their sum, which has the same bits everywhere; so have
 * weights and moments ever after. Owns: the words and their order. It knows no files and no settings. */
#ifndef RT_TRAIN_FOLLOW_H
#define RT_TRAIN_FOLLOW_H

#include "train/step.h"

typedef enum rt_word_kind {
    RT_WORD_END,   /* the run has ended */
    RT_WORD_OPEN,  /* programs: what follows is the caller's */
    RT_WORD_CLOSE, /* they are given back */
    RT_WORD_LOAD,  /* weights from files, by the seed */
    RT_WORD_PUT,   /* elements of weights or moments follow, from a checkpoint */
    RT_WORD_SHOW,  /* elements that ranks share out: each has to show what it owns */
    RT_WORD_STEP   /* its rows follow */
} rt_word_kind;

typedef struct rt_word {
    uint32_t kind;   /* rt_word_kind */
    uint32_t step;   /* of STEP: */
    uint32_t tokens; /* that are trained in all of its rows */
    uint32_t micro;  /* micro-batches of each rank */
    uint32_t row[2]; /* rows of the step before those of rank i: i * row[0] / row[1] */
    uint64_t seed;
    double lr;
    uint64_t first, count; /* of PUT and SHOW: elements; of what (rt_trainer_state_elems) of which parameter */
    uint32_t param;
    char what;
} rt_word;

/* Rank 0's, to all; or what rank 0 says next. */
void rt_word_say(rt_peers *p, const rt_word *w);
void rt_word_hear(rt_peers *p, rt_word *w);

/* Rows of the step before those of a rank. */
static inline uint32_t rt_rank_first(uint32_t batch, uint32_t rank, uint32_t ranks)
{
    return (uint32_t)((uint64_t)batch * rank / ranks);
}
/* Of the rank that has most. */
static inline uint32_t rt_rank_rows(uint32_t batch, uint32_t ranks) { return (batch + ranks - 1) / ranks; }

/* A rank that is not 0 does what was said: RT_WORD_PUT, RT_WORD_SHOW and RT_WORD_STEP. A step that is not finite is
 * rank 0's to report. */
int rt_trainer_follow(rt_trainer *t, const rt_word *w, rt_err *e);

#endif
