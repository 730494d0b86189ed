/* audit_internal.h - shared by audit_run.c (the order) and the other audit_*.c. */
#ifndef RT_JOB_AUDIT_INTERNAL_H
#define RT_JOB_AUDIT_INTERNAL_H

#include "job/audit_run.h"
#include "job/prepare/inputs.h"
#include "train/loop.h"

/* What of a run could be opened again. */
typedef struct rt_again {
    const rt_audit_opts *opts;
    rt_resolved recorded; /* from the recorded settings alone */
    rt_settings settings;
    rt_inputs *in;         /* models and data; null: not even the output could be opened */
    bool student, teacher; /* found again, with the values that the run began with */
    bool data;             /* shards and rows, as they were */
    rt_resolved resolved;  /* with the data's facts */
    rt_model_file *output; /* the root; null: cannot be opened */
    rt_dev *dev;           /* null: not needed so far */
    rt_trainer *trainer;   /* evaluation alone */
    rt_eval_set *held;
    rt_loop first; /* the rows of the first step */
} rt_again;

/* Each makes its checks and tells of them; negative only when the audit cannot continue (memory). */
int rt_audit_checkpoints(rt_audit *v, rt_err *e);
int rt_audit_models(rt_audit *v, rt_again *a, rt_err *e);
/* The files at the root and, where it is still there, the last checkpoint: same values, and moved as was said. */
int rt_audit_weights(rt_audit *v, rt_again *a, rt_err *e);

/* audit_device.c: a->dev, and whoever listens is told which. Negative only when not even the CPU can be opened. */
enum { RT_AUDIT_WHY = 500 };
int rt_audit_device_open(rt_audit *v, rt_again *a, rt_err *e);
/* It is not the CPU, and nobody asked for it by name: another one may take its place. */
bool rt_audit_device_chosen(const rt_again *a);
/* The CPU in its place, after a fault. Nothing may be open on it. */
int rt_audit_device_leave(rt_audit *v, rt_again *a, const rt_err *fault, rt_err *e);
void rt_audit_device_close(rt_again *a);
/* Does it compute as the run's did, but for the order of sums? */
bool rt_audit_same_backend(const rt_audit *v, const rt_again *a);

#endif
