/* dump.h - one step of a run written down whole (--dump-step), so that anyone can compute it again:
 * tools/check_step.py.
 *
 *   OUT/run/dump-000003/student/           the student before the step, f32, as others load it (adapters: the adapters)
 *                       logits.safetensors "student" and "teacher": f32 logits of up to RT_DUMP_PICKS trained positions
 *                       step.json          rows (ids, positions, document starts, targets), which positions the logits
 *                                          are of, the objective, the ids that both models share, the rate, the loss
 * and its parts, the norm of every parameter's gradient before clipping
 *
 * Owns: these files. Logits come from a program that only looks; those that train are the same with and without it. */
#ifndef RT_JOB_DUMP_H
#define RT_JOB_DUMP_H

#include "job/run/run.h"

enum { RT_DUMP_PICKS = 64 };
/* Of rt_step_opts: 0 where no step is to be dumped. */
uint32_t rt_dump_picks(const rt_settings *s);

/* Says so when a run goes on behind the step that is wanted, which was not dumped when it was run. */
void rt_dump_missed(const rt_run *r);

typedef struct rt_dump rt_dump;
/* Before a step, with its rows read. *out stays null unless the step is the one that was asked for. */
int rt_dump_begin(rt_dump **out, rt_run *r, uint32_t step, rt_err *e);
/* After it. Accepts null. The folder appears whole, in the place of one that an interrupted run left. */
int rt_dump_end(rt_dump *d, double lr, const rt_step_result *result, rt_err *e);
void rt_dump_free(rt_dump *d); /* accepts null; what was not ended leaves nothing */

#endif
