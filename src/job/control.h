/* control.h - the control of a run (--control): the same student trained without the teacher, so that what the teacher
 * gave can be told from what the text gave.
 *
 * Owns: what is the same (initial weights, tokens, rows in their order, steps, rate, every other setting) and what is
 * not (the loss is cross-entropy alone). The control is a run like any other, in OUT/control, after the run itself; it
 * reads the tokens of OUT/run/data. */
#ifndef RT_JOB_CONTROL_H
#define RT_JOB_CONTROL_H

#include "job/run.h"
#include "report/report.h"

/* Trains it, or goes on with it where it was stopped, and draws it over the report of r. The programs of r are given
 * back first: the two never share the memory of the device. */
int rt_control_train(rt_run *r, rt_run_summary *out, rt_err *e);
/* The control of the run whose folder OUT/run is, for a report; null when it has none. */
int rt_control_report(rt_report_run **out, const char *folder, rt_err *e);

#endif
