/* run_evidence.h - the evidence that a run leaves: manifest.json when it begins, completed when it ends, and
 * verdict.json. */
#ifndef RT_JOB_RUN_EVIDENCE_H
#define RT_JOB_RUN_EVIDENCE_H

#include "job/run/run.h"

/* OUT/run/manifest.json with all that is known before the first step. */
int rt_run_evidence_begin(rt_run *r, rt_err *e);
/* After the last step, while its weights are in memory: which parameters have moved. */
int rt_run_evidence_weights(rt_run *r, rt_err *e);
/* When everything else is written: verdict.json, and the manifest completed with the hashes of all files. */
int rt_run_evidence_end(rt_run *r, rt_run_summary *s, rt_err *e);

#endif
