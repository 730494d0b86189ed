/* budget.h - what evaluation takes of a run, in arithmetic.
 *
 * Owns: the cost of a position when it is trained and when it is evaluated, and how much of it a run should spend on
 * evaluation. Never from measured time: which records are held out decides the bits of a run. Pure. */
#ifndef RT_JOB_BUDGET_H
#define RT_JOB_BUDGET_H

#include "base/str.h"
#include "job/prepare/resolve.h"

enum {
    RT_EVALS_MOST = 20, /* of a run, besides the first and the one of the saved files */
    RT_EVALS_LEAST = 4,
    RT_EVALS_BESIDES = 2,
    RT_HELD_LEAST = 32,       /* records, for an error bar */
    RT_EVAL_ROWS_WANTED = 16, /* of one evaluation: there are fewer evaluations before there are fewer rows than that */
    RT_EVAL_ROWS_LEAST = 8
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

/* Rows of each evaluation, where all together may measure so many; evaluations: besides the first and the last, 0: as
 * many as go with it. */
double rt_eval_rows_for(double room, double evaluations);
/* "--eval-rows 8 --eval-every 50%": flags with which a run takes about RT_EVAL_BUDGET, where there are such. */
bool rt_eval_advise(rt_str *out, double room);

#endif
