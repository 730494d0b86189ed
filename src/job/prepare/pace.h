/* pace.h - how long a run takes: durations as text, the whole of a run from the times of its parts, and back.
 *
 * Also how a duration is spelled. Pure: times are measured by whoever runs (run_smoke.c) or estimates
 * (run_cost.c). */
#ifndef RT_JOB_PACE_H
#define RT_JOB_PACE_H

#include "settings/settings.h"

#include <stdint.h>

/* Seconds of the parts of a run. */
typedef struct rt_pace {
    double step, eval, save; /* one optimizer step, one evaluation, one checkpoint */
    double best;             /* writing the best model after an evaluation; 0: it is not kept */
    double finish;           /* after the last step: the model at the root, read back and measured */
} rt_pace;

/* "8h", "90m", "1h30m", "45s", "1h30m20s"; RT_USAGE for anything else, and for nothing at all. */
int rt_parse_duration(const char *text, double *seconds, rt_err *e);

/* From step `done` to the end, evaluated and saved as often as every says: steps, evaluations (the one before the first
 * step, too, where done is 0), checkpoints by count and by the clock, the end. */
double rt_pace_total(const rt_pace *p, uint64_t done, uint64_t steps, const rt_settings *every);
/* When step `step`, from 1 on, has just ended and what follows it (an evaluation, a checkpoint) has not begun. */
double rt_pace_left(const rt_pace *p, uint64_t step, uint64_t steps, const rt_settings *every);
/* What the evaluations of a new run take of that, the one of the saved files too. */
double rt_pace_evaluations(const rt_pace *p, uint64_t steps, const rt_settings *every);
/* The most steps that end within seconds; 0: not even one. */
uint64_t rt_pace_steps(const rt_pace *p, double seconds, const rt_settings *every);

#endif
