/* run_internal.h - what an open run consists of. The files named run_* share it; each has a header with what it does.
 */
#ifndef RT_JOB_RUN_INTERNAL_H
#define RT_JOB_RUN_INTERNAL_H

#include "base/lock.h"
#include "evidence/evidence.h"
#include "job/prepare/pace.h"
#include "job/run/run.h"
#include "job/run/samples.h"
#include "report/tfevents.h"
#include "train/loop.h"

typedef struct rt_dump rt_dump;

/* What the first steps of a run took (run_smoke.c). */
typedef struct rt_smoke {
    double opened; /* clock when the run was opened */
    double first;  /* seconds of the first step, which also touches memory for the first time */
    bool whole;    /* this process began the run */
} rt_smoke;

struct rt_run {
    rt_arena arena;
    rt_settings *settings;
    const rt_run_opts *opts;
    rt_run_events events;
    rt_inputs *in;
    rt_run_facts facts;
    rt_resolved resolved;
    rt_settings asked; /* as they were before rows were counted */
    rt_fit fit;
    uint64_t free_memory;                      /* of the device, before anything was allocated */
    bool *frozen;                              /* (parameters of the student) */
    rt_dtype *student_dtypes, *teacher_dtypes; /* as stored; the teacher's null without one */
    rt_dtype *teacher_bf16;                    /* the teacher's when its matrices are expanded */
    rt_trainer *trainer;
    rt_eval_set *held;
    rt_samples *samples; /* null: none */
    rt_output output;
    rt_model_text text; /* of the output */
    rt_loop loop;
    rt_dump *dump; /* of the step under way; null: it is not dumped */
    rt_pool *pool;
    const char *out, *run, *data, *metrics_path, *settings_path, *yaml_path;
    rt_lock *lock;                /* of OUT/run, from before anything is written to the end; null: OUT is temporary */
    uint32_t run_made, data_made; /* folders that this process made: OUT/run and those above it; OUT/run/data */
    bool data_linked;             /* OUT/run/data was made a link */
    int metrics_fd;               /* -1: not open */
    rt_tfevents *events_file;     /* the same numbers for TensorBoard */
    bool fresh;                   /* nothing was in OUT when its lock was taken */
    bool temporary;               /* OUT is a folder of this process: a plan or a smoke test */
    bool begun;                   /* settings are written: what is in OUT can be resumed */
    rt_smoke smoke;
    rt_eval_result first, last;
    rt_evidence *evidence; /* from the first step on */
};

#endif
