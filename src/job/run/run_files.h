/* run_files.h - what a run has on disk besides checkpoints: its settings, its log, its models. */
#ifndef RT_JOB_RUN_FILES_H
#define RT_JOB_RUN_FILES_H

#include "job/run/run.h"

/* Of the run in OUT; RT_FORMAT when they are not. */
int rt_run_read_settings(rt_run *r, rt_settings *was, rt_err *e);
/* Settings of the run that is resumed, joined with what the user gave now. */
int rt_run_join_settings(rt_run *r, rt_err *e);
int rt_run_write_settings(rt_run *r, rt_err *e);
/* keep: bytes of metrics.jsonl that stay. */
int rt_run_open_metrics(rt_run *r, uint64_t keep, rt_err *e);
int rt_run_metric(rt_run *r, json_t *line, rt_err *e); /* takes the reference */
void rt_run_close_metrics(rt_run *r);
/* The model in memory into OUT/best-NNNNNN, whole or not at all. */
int rt_run_write_best(rt_run *r, rt_err *e);
/* The files of the model at the root: moved from a folder (OUT/best-NNNNNN), or, from null, the model in memory. */
int rt_run_write_root(rt_run *r, const char *from, rt_err *e);
/* With adapters: OUT/merged, the model with them added in. */
int rt_run_write_merged(rt_run *r, rt_err *e);
/* Whether the root holds a whole model. */
bool rt_run_has_root(const rt_run *r);
/* The first evaluation and the last, from the metrics of a resumed run; left as they are when there is none. */
void rt_run_read_evals(rt_run *r);

#endif
