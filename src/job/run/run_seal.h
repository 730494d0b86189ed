/* run_seal.h - the programs of a run with memory behind them, and what the device chose by timing, kept with the run.
 */
#ifndef RT_JOB_RUN_SEAL_H
#define RT_JOB_RUN_SEAL_H

#include "job/run/run.h"

/* The trainer, without weights. RT_NOMEM when nothing fits that the user left free: it names what would. */
int rt_run_seal(rt_run *r, rt_err *e);

/* Of a run that goes on: what was chosen by timing when it began, given to the device before anything is sealed. */
int rt_run_choices_read(rt_run *r, rt_err *e);
/* When everything is sealed: the choices into OUT/run/products.tsv, and a word on what was timed. */
int rt_run_choices_keep(rt_run *r, rt_err *e);

#endif
