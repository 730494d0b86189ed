/* run_folder.h - whose OUT is: what a run may begin in, the lock that keeps others out, and what goes when a run could
 * not begin. */
#ifndef RT_JOB_RUN_FOLDER_H
#define RT_JOB_RUN_FOLDER_H

#include "job/run/run.h"

/* OUT, locked, and for a new run made. RT_INVALID when another process writes there, or when what is there is not ours;
 * nothing is changed then. */
int rt_run_take_folder(rt_run *r, rt_err *e);
/* OUT/run/data, when the settings are written. */
int rt_run_make_data(rt_run *r, rt_err *e);
/* Lets go of OUT; of a run that could not begin, removes what it has made. */
void rt_run_leave_folder(rt_run *r);

#endif
