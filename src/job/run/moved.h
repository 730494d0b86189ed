/* moved.h - which parameters training has changed, and by how much: the values before against the values after.
 *
 * Owns: the comparison and its groups, one for each kind of tensor (all layers together), the two halves of adapters
 * apart. Before: the student's file, and for adapters their initial values. After: whoever calls has them. */
#ifndef RT_JOB_MOVED_H
#define RT_JOB_MOVED_H

#include "evidence/evidence.h"
#include "train/step.h"

typedef struct rt_moved_opts {
    const rt_decoder *model;
    const bool *trained; /* (model->param_count) */
    const rt_model_file *before;
    uint64_t seed;       /* of adapters */
    double weight_decay; /* shrinks matrices whatever their gradient, which is no movement */
    rt_dtype frozen;     /* frozen values are compared after they were rounded to this */
    /* Elements [first, first + n) of parameter i as they are now. */
    int (*after)(void *ctx, uint32_t i, uint64_t first, uint64_t n, float *out, rt_err *e);
    void *ctx;
} rt_moved_opts;

/* With adapters the model itself is not looked at: it is not written either. */
int rt_moved_measure(rt_moved_list *out, const rt_moved_opts *o, rt_err *e);

#endif
