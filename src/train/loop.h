/* loop.h - the loop of training: the rows of each step, the steps under way, and when to evaluate, save and stop.
 *
 * Owns: the state of progress and the order of things between two steps. What an evaluation, a checkpoint or a line of
 * the log is, its caller says through rt_loop_calls; settings are resolved before they come here.
 *
 * Where the device runs by itself it is always given the next step before the result of the last is waited for, so that
 * reading rows, writing metrics and talking to the user cost it nothing; wherever somebody looks at the weights,
 * nothing is under way. */
#ifndef RT_TRAIN_LOOP_H
#define RT_TRAIN_LOOP_H

#include "teacher/pair.h"
#include "train/checkpoint.h"
#include "train/schedule.h"

enum { RT_SAVE_SECONDS = 1800 }; /* a checkpoint at least so often */

/* A step whose result is known. */
typedef struct rt_loop_step {
    uint32_t step;
    rt_step_result result;
    double lr;
    uint64_t tokens; /* positions, padding not counted */
    double seconds;
    double tokens_per_second; /* over the last steps, */
    double seconds_per_step;  /* and over the same */
} rt_loop_step;

typedef struct rt_loop_calls {
    int (*before)(void *ctx, uint32_t step, rt_err *e); /* its rows are read, it has not begun; may be null */
    int (*stepped)(void *ctx, const rt_loop_step *s, bool *ends, rt_err *e);
    int (*evaluate)(void *ctx, rt_err *e); /* these two: nothing is under way; RT_INTERRUPTED: it is to be made again */
    int (*save)(void *ctx, rt_err *e);
    int (*copy)(void *ctx, rt_err *e); /* the state is kept, less safely than that; null with copy_every 0 */
    bool (*stop)(void *ctx);           /* asked after every step; may be null */
    void *ctx;
} rt_loop_calls;

typedef struct rt_loop {
    rt_trainer *trainer;
    rt_rows *source;     /* without an end */
    const rt_pair *pair; /* null: no teacher */
    uint32_t id_rows;    /* of the smaller embedding: every id of the data is below it */
    uint32_t batch, micro_batch, seq_len;
    uint32_t steps, eval_every, save_every;
    uint32_t copy_every; /* 0: never */
    rt_schedule schedule;
    uint64_t seed;
    uint32_t alone;  /* a step beside which no other is under way; 0: none */
    uint32_t rest;   /* a step after which nothing is under way, besides those that are evaluated or saved; 0: none */
    bool enough;     /* `evaluate` may set it: the run ends with this step as if there were no more */
    bool steps_only; /* nothing is evaluated or saved */
    bool evaluate_first; /* the evaluation of the state's step is still to be made */
    rt_loop_calls calls;
    /* the loop's own */
    rt_progress_state state;
    double saved_at;     /* clock of the last checkpoint, */
    uint32_t saved_step; /* and its step; 0: there is none */
    int32_t *rows;   /* (5, batch padded to micro-batches, T): ids, positions, starts, targets, groups of one step */
    rt_batch *micro; /* (micro_count): rank after rank */
    uint32_t micro_count;
    uint32_t ranks, rank_micro; /* of the trainer; micro-batches of each */
} rt_loop;

/* Room for the rows of a step. Other members may still change before rt_loop_run. */
int rt_loop_begin(rt_loop *l, rt_err *e);
void rt_loop_free(rt_loop *l); /* what rt_loop_begin made */
/* The rows of the next step, in micro; positions that are left over in the last micro-batch are padding. tokens: those
 * that are not. */
int rt_loop_read(rt_loop *l, uint64_t *tokens, rt_err *e);
/* Rows and one step of training by itself; neither the state nor a call hears of it. */
int rt_loop_try(rt_loop *l, uint32_t step, double lr, rt_step_result *out, rt_err *e);
/* Steps, evaluations and checkpoints from the state to the last step, or until there are enough. *ended: `stepped`
 * wanted an end. After a checkpoint of the last step that has ended: RT_INTERRUPTED when `stop` did, or whoever watches
 * the trainer's steps; RT_NETWORK from a source that is asked over one. A state whose evaluation is missing has that
 * done first. */
int rt_loop_run(rt_loop *l, bool *ended, rt_err *e);

#endif
