/* run_smoke.h - the first steps of a run time themselves: what the whole will take, and how many steps fit into --time.
 */
#ifndef RT_JOB_RUN_SMOKE_H
#define RT_JOB_RUN_SMOKE_H

#include "job/prepare/pace.h"
#include "job/run/run.h"

enum { RT_SMOKE_STEPS = 10 };
/* Seconds of the parts of this run when a step and an evaluation take so long; saving is tried on its disk. */
int rt_run_pace(rt_run *r, double step, double eval, rt_pace *out, rt_err *e);
/* --time: steps are timed, undone, and the settings completed with as many as fit. */
int rt_run_fit_time(rt_run *r, rt_err *e);
/* After every step; true: the run was for this alone and ends. */
int rt_run_project(rt_run *r, bool *ends, rt_err *e);

#endif
