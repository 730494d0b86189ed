/* run_train.h - a run trained from where it stands to its end, and its control. */
#ifndef RT_JOB_RUN_TRAIN_H
#define RT_JOB_RUN_TRAIN_H

#include "job/run/run.h"

/* Steps, evaluations, checkpoints; then the model at the root, measured, with its evidence and its report. */
int rt_run_train_alone(rt_run *r, rt_run_summary *out, rt_err *e);
/* Then its control (control.c), or the rest of it, drawn over the report of r. The programs of r are given back first:
 * the two never share the memory of the device. */
int rt_run_train_control(rt_run *r, rt_run_summary *out, rt_err *e);

#endif
