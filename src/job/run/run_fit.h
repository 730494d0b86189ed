/* run_fit.h - a run made to fit into the memory of its device. */
#ifndef RT_JOB_RUN_FIT_H
#define RT_JOB_RUN_FIT_H

#include "job/run/run.h"

/* Before settings are resolved: what the user left free, and what the device is. */
int rt_run_fit_begin(rt_run *r, rt_err *e);
/* After: rows at a time, recomputing, the teacher's weights. */
int rt_run_fit(rt_run *r, rt_err *e);
/* The same, within what is asked. */
int rt_run_choose_fit(rt_run *r, const rt_fit_ask *ask, rt_err *e);
/* What was chosen, into the settings. */
void rt_run_keep_fit(rt_run *r);
rt_step_opts rt_run_step_opts(const rt_run *r, const rt_fit_config *c);

#endif
