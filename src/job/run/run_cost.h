/* run_cost.h - what a run will cost, before its first step: memory, arithmetic, time, disk, and whether it fits.
 *
 * Owns: the figures and their text and JSON. They come from the programs of an open run, dry or not; time is measured
 * on its device when it is asked for. `retort plan`, the C API and OUT/run/plan.txt show these and no others. */
#ifndef RT_JOB_RUN_COST_H
#define RT_JOB_RUN_COST_H

#include "job/prepare/pace.h"
#include "job/run/run.h"

/* What each of several ranks has and sends, with the optimizer's state whole on it or shared out. */
typedef struct rt_run_placement {
    rt_exec_memory memory;
    double summed, gathered; /* bytes of gradients that are added up; of weights that are gathered after the update */
    uint32_t calls;          /* collectives of a step */
} rt_run_placement;

typedef struct rt_run_cost {
    rt_exec_memory memory; /* what the run allocates on its device */
    const char *peak_program, *peak_op, *peak_label;
    /* Of the teacher's forward, where its layers are copied in: the share of that which computing hides, by arithmetic,
     * or where it is timed by the times of its ops; positions of a pass. */
    double hidden;
    uint32_t pass;
    uint64_t process;                  /* bytes of the process besides, rows and texts; 0: the device is not the host */
    uint64_t teacher, student, update; /* flops of an optimizer step */
    uint64_t checkpoint, model;        /* bytes of one, state.json not counted; of a model alone */
    uint64_t disk;                     /* at most: kept checkpoints, one being written, the best, the model */
    bool timed;                        /* the rest is there */
    double teacher_seconds, student_seconds, update_seconds, rows_seconds; /* of an optimizer step */
    rt_pace pace;
    double total;                              /* seconds of the whole run */
    rt_run_placement placement[RT_ZERO_COUNT]; /* of several ranks, by --zero */
    double evaluations;                        /* of it, with their samples */
} rt_run_cost;

int rt_run_cost_new(rt_run_cost *out, const rt_run *r, rt_err *e);
/* Adds time: every distinct op is run for a moment on the device, and the disk is tried. The run has not begun. */
int rt_run_cost_time(rt_run_cost *c, rt_run *r, rt_err *e);
/* A page for people. ops: every op of every program behind it. */
int rt_run_cost_text(const rt_run_cost *c, const rt_run *r, bool ops, rt_str *out, rt_err *e);
json_t *rt_run_cost_json(const rt_run_cost *c, const rt_run *r); /* null when out of memory */

/* What of the transfer to a teacher whose layers are not on the device is hidden, measured before the first step and
 * said in a note; nothing where there is none, or where a device has one queue. */
int rt_run_measure_transfer(rt_run *r, rt_err *e);

/* OUT/run/plan.txt. */
int rt_run_write_plan(rt_run *r, rt_err *e);

#endif
