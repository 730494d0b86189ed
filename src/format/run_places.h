/* run_places.h - where a run keeps its folders below OUT, for all who look there: checkpoints and the best models, the
 * control; and which run a path belongs to.
 *
 *   OUT/                    the model, and nothing of the run but:
 *   OUT/run/                its record (job/run/run.h)
 *   OUT/run/checkpoints/    checkpoint-NNNNNN/, best-NNNNNN/
 *   OUT/run/control/        with --control: a run of its own
 *
 * Owns: these places and those of older runs, which had checkpoints and control in OUT itself and keep them there. */
#ifndef RT_FORMAT_RUN_PLACES_H
#define RT_FORMAT_RUN_PLACES_H

#include "base/file.h"

#define RT_CHECKPOINTS "run/checkpoints"
#define RT_CHECKPOINT_PREFIX "checkpoint-"
#define RT_BEST_PREFIX "best-"

/* The step in a name such as checkpoint-000500; false for any other name, also for the same number spelt otherwise. */
bool rt_step_of_name(const char *name, const char *prefix, uint32_t *step);
/* The folder of the checkpoints of the run in OUT, there or not: OUT/run/checkpoints, or out itself for an older run.
 * Null without memory. */
const char *rt_checkpoints_of(rt_arena *a, const char *out);
/* The newest checkpoint of the run in OUT: its path in a, or null when there is none. */
int rt_checkpoint_newest(char **path, rt_arena *a, const char *out, rt_err *e);
/* Whether a path relative to OUT is a checkpoint or below one. */
bool rt_path_of_checkpoint(const char *name);
/* The folder of the run that a path names or lies in, also as one of its checkpoints; null: no run is there. */
char *rt_run_of_path(rt_arena *a, const char *path);
/* The run beside this path whose name is nearest to its own; null: there is none. */
char *rt_run_nearest(rt_arena *a, const char *path);
/* "distill", or "train" where the settings of the run in OUT name no teacher. */
const char *rt_run_command(const char *out);
/* The command line that continues the run in OUT: "retort distill --resume --out OUT"; null without memory. */
char *rt_run_resume_command(rt_arena *a, const char *out);
/* The one that trains the model in OUT further in a new run, with the teachers that it had, as they were named. */
char *rt_run_further_command(rt_arena *a, const char *out, const char *const *teachers, uint32_t count);
/* The folder of the control of the run in OUT, there or not; null without memory. */
char *rt_control_of(rt_arena *a, const char *out);

#endif
