/* fit_need.h - what a configuration of a run needs, asked of a dry seal of its programs: the answer that fit.h takes.
 */
#ifndef RT_JOB_FIT_NEED_H
#define RT_JOB_FIT_NEED_H

#include "job/prepare/fit.h"
#include "train/step.h"

/* micro: micro-batches of a step (of an evaluation: 1). Nothing is allocated on the device. */
int rt_fit_ask_device(rt_dev *d, const rt_step_opts *o, uint32_t micro, rt_fit_need *out, rt_err *e);

/* The teacher's weights of an evaluation, of which nothing else is chosen. o->teacher_dtypes points to dtypes, which
 * are as stored and become what was chosen. asked AUTO: bf16 where the device has room for it and it saves something.
 */
int rt_fit_evaluation(rt_dev *d, rt_step_opts *o, rt_teacher_weights asked, rt_dtype *dtypes, rt_weights_choice *out,
                      rt_err *e);

#endif
