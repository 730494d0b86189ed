/* run_report.h - what a run leaves for people: its model card and its page. */
#ifndef RT_JOB_RUN_REPORT_H
#define RT_JOB_RUN_REPORT_H

#include "job/run/run.h"
#include "report/report.h"

/* OUT/README.md, the model card, and OUT/.gitignore, which leaves the run out of what is uploaded. */
int rt_run_write_card(rt_run *r, const rt_run_summary *s, rt_err *e);
/* OUT/run/report.html, with the control over it where there is one. */
int rt_run_write_report(rt_run *r, rt_err *e);

/* The control of the run whose folder OUT/run is, for a report; null when it has none, or none with a log. */
int rt_control_report(rt_report_run **out, const char *folder, rt_err *e);

#endif
