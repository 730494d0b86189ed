/* update_plan.h - the update of a step and what it keeps: the norm, clipping and AdamW, the optimizer's state, and how
 * ranks share both out. For step_plan.c.
 *
 * With one rank, or with all of the state on every rank, an update reads whole gradients. Where the state is shared out
 * each rank gets the sums of its slices, the norm is added up over the ranks, each updates the rows that it owns and
 * all of them get the weights. */
#ifndef RT_TRAIN_UPDATE_PLAN_H
#define RT_TRAIN_UPDATE_PLAN_H

#include "train/step_plan.h"

/* After the models are declared: slices, then moments and masters. */
int rt_update_slices(rt_step_plan *s, rt_err *e);
int rt_update_moments(rt_step_plan *s, rt_err *e);
/* Where the gradients of a micro-batch go; more: earlier ones have left some. Where ranks share them out they are a
 * bucket's until its backward is done, added up while the next bucket's is computed, and a slice's from then on. */
void rt_update_grads(rt_step_plan *s, rt_plan *p, bool more);
void rt_update_done(void *step_plan, rt_plan *p, uint32_t bucket);
void rt_update_last(rt_step_plan *s, rt_plan *p);
void rt_update_record(rt_step_plan *s, rt_plan *p);
/* Before the first step; whether there is anything to do. */
void rt_update_record_start(rt_step_plan *s, rt_plan *p);
bool rt_update_needs_start(const rt_step_plan *s);

#endif
