/* budget.h - what evaluation takes of a run, in arithmetic.
 *
 * Owns: the cost of a position when it is trained and when it is evaluated, and how much of it a run should spend on
 * evaluation. Never from measured time: which records are held out decides the bits of a run. Pure. */
#ifndef RT_JOB_BUDGET_H
#define RT_JOB_BUDGET_H

#include "job/prepare/resolve.h"

enum {
    RT_EVALS_MOST = 20, /* of a run, besides the first and the one of the saved files */
    RT_EVALS_LEAST = 4,
    RT_EVALS_BESIDES = 2,
    RT_HELD_LEAST = 32 /* records, for an error bar */
};
/* The share of a run, at most, that evaluations take when nothing is said; above which one is warned. */
#define RT_EVAL_BUDGET 0.10
#define RT_EVAL_MUCH 0.25

/* Positions in a run: trained, and of one evaluation. */
typedef struct rt_run_positions {
    double trained, held;
} rt_run_positions;

/* The share of the run's arithmetic that so many evaluations are; 0 where something is not known. */
double rt_eval_share(const rt_run_facts *f, bool adapters, rt_run_positions n, double evaluations);
/* How many positions, over all evaluations, are RT_EVAL_BUDGET of a run that trains so many; 0: not known. */
double rt_eval_room(const rt_run_facts *f, bool adapters, double trained);

#endif
