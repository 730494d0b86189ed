/* tfevents.h - the numbers of a run in a file that TensorBoard opens.
 *
 * Owns: TFRecord framing (length, masked CRC-32C, data, masked CRC-32C) and the few protobuf fields that scalars need.
 * Leaves to others which numbers there are; rt_tfevents_line knows the lines of metrics.jsonl.
 *
 * A resumed run begins a new file. Cutting the old one back, as metrics.jsonl is cut back, would take bytes away from
 * under a TensorBoard that has read past them. Every file begins with a session start; that of a resumed run is at the
 * first step that will be done again, and TensorBoard forgets every point from this step on (it takes the first start
 * of a folder for a plain beginning, so the first file needs one too); its fast loader, which does not know session
 * starts, does the same when steps go back. Files are read in the order of their names, so each gets a later time in
 * its name than all that are there. */
#ifndef RT_REPORT_TFEVENTS_H
#define RT_REPORT_TFEVENTS_H

#include "base/err.h"

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

typedef struct rt_tfevents_opts {
    double now;       /* seconds since 1970 */
    const char *host; /* for the name of the file; null: as this machine is called */
    bool resumed;     /* there are earlier files, */
    uint64_t keep_to; /* and what they say after this step is void */
} rt_tfevents_opts;

typedef struct rt_tfevents_value {
    const char *tag; /* "train/loss" */
    double value;    /* stored as float; NaN and infinities too */
} rt_tfevents_value;

typedef struct rt_tfevents rt_tfevents;
/* Makes folder/events.out.tfevents.TIME.HOST.PID; the folder exists. */
int rt_tfevents_open(rt_tfevents **out, const char *folder, const rt_tfevents_opts *o, rt_err *e);
const char *rt_tfevents_path(const rt_tfevents *t);
/* Several values of one step in one record. What was written is on its way to the file after a flush; 64 KiB flush
 * themselves. */
int rt_tfevents_scalars(rt_tfevents *t, uint64_t step, double wall_time, const rt_tfevents_value *v, uint32_t count,
                        rt_err *e);
/* A line of metrics.jsonl: every number of a step as train/NAME (speed added), the mean of every measure of an
 * evaluation as held_out/NAME and its error as held_out_error/NAME. Other lines are left out. */
int rt_tfevents_line(rt_tfevents *t, const json_t *line, double wall_time, rt_err *e);
int rt_tfevents_flush(rt_tfevents *t, rt_err *e);
int rt_tfevents_sync(rt_tfevents *t, rt_err *e); /* the same, and on disk; accepts null */
/* Flushes, and tells when that failed. The file is closed whatever the answer; accepts null. */
int rt_tfevents_close(rt_tfevents *t, rt_err *e);

#endif
