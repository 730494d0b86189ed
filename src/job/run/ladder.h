/* ladder.h - a run that survives its device: which device it is given, and what becomes of the run when that one fails.
 *
 * The rungs are those of --device auto (backend/registry.c): every usable CUDA GPU, then Vulkan GPUs, then the CPU.
 *
 * There is one way down, for every fault: the program executes itself again, with the same arguments and --resume, and
 * is told in RT_LADDER_VARIABLE which devices have failed. A sticky error, a driver that was reset and a kernel that
 * never ends cannot be undone within a process; a new one takes the last good state as a run does that was killed, to
 * the bit of its data order, and seals the same plan on the next rung with a fit of its own. Who uses the library has
 * the error, and resumes the run as he likes.
 *
 *   what failed         backend/watched.h: every call of the device is looked at, and how long it takes
 *   what is decided     here
 *   the state           the newest checkpoint; job/run/run_copy.c keeps a newer one in memory (--keep-host-copy)
 *   executing again     cli/again.c
 *   what is said of it  job/run/run_device.c: the log's line, the manifest, and when the CPU is too slow to go on
 *
 * A device that has failed is not taken again, but as often as retry:N says, so this comes to an end. What is not a
 * number stops a run on any device: that is the step's business, and no other rung would know better. */
#ifndef RT_JOB_RUN_LADDER_H
#define RT_JOB_RUN_LADDER_H

#include "backend/watched.h"
#include "job/run/run.h"

/* The devices that have failed, one a line, the newest last: "cuda:0 failed after step 37: ...". Whoever sets it has
 * those devices left alone. */
#define RT_LADDER_VARIABLE "RETORT_FAILED_DEVICES"

typedef struct rt_ladder {
    bool on;            /* a failure is not the end */
    uint32_t retries;   /* that one device gets */
    const char *failed; /* the variable as it came; null: it is not set */
    const char *newest; /* its last line */
    bool named;         /* somebody has named the device */
    bool begun;         /* the run is open: what was refused before is not the device's failure */
    char device[48];    /* "vulkan:0", which was taken; empty: none yet */
    bool host;          /* it is the CPU: there is nothing below it */
} rt_ladder;

/* What the next process is to do. */
typedef struct rt_job_again {
    bool wanted;    /* false: the run ends with its error */
    bool resume;    /* --resume is to be given */
    char text[700]; /* what has happened and what follows, a sentence */
    rt_str failed;  /* of the variable; the caller's */
} rt_job_again;

/* --on-device-failure of settings that are joined with those of the run. ranks: there are several, and it is off.
 * RT_USAGE. */
int rt_ladder_begin(rt_ladder *l, const rt_settings *s, bool ranks, const char *const *env, rt_err *e);
/* Names for rt_dev_opts.left_out, appended. */
void rt_ladder_left_out(const rt_ladder *l, rt_str *out);
/* Which device was taken. */
int rt_ladder_take(rt_ladder *l, rt_dev *d, rt_err *e);
/* What follows when the run has ended with rc and *why, or hangs (RT_DEVICE; step: those done). d: the device, still
 * open. resumable: settings of the run are on disk. */
void rt_ladder_decide(rt_job_again *out, const rt_ladder *l, rt_dev *d, int rc, const rt_err *why, uint32_t step,
                      bool resumable);

#endif
