/* rate.h - the learning rate of a student that was given none.
 *
 * Owns: the classes of students, what decides between them, and the rate of each; docs/training.md has the runs that
 * the numbers come from. Pure: the first evaluation is handed in. */
#ifndef RT_JOB_RATE_H
#define RT_JOB_RATE_H

#include "format/metrics.h"
#include "job/prepare/resolve.h"

typedef enum rt_lr_class {
    RT_LR_NEAR,  /* it is almost its teacher, or trained */
    RT_LR_FAR,   /* it was trained and then cut, or rounded hard: much is to be found again */
    RT_LR_RANDOM /* its weights are random, by its configuration */
} rt_lr_class;
const char *rt_lr_class_name(rt_lr_class c); /* "near", "far", "random" */
bool rt_lr_class_parse(const char *name, rt_lr_class *out);

/* Near or far, by what was measured before step 1; vocab: rows of the student's embedding. */
rt_lr_class rt_lr_class_of(const rt_eval_result *first, uint32_t vocab);
double rt_lr_default(rt_lr_class c, const rt_run_facts *f, bool adapters);
/* "the student is far from the teacher (KL 9.35 nats at the start)" */
void rt_lr_class_say(rt_str *out, rt_lr_class c, const rt_eval_result *first);

#endif
