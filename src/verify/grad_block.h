/* grad_block.h - the decoder block of block.h as a gradient problem, and the data to run it with on any backend. */
#ifndef RT_VERIFY_GRAD_BLOCK_H
#define RT_VERIFY_GRAD_BLOCK_H

#include "verify/block.h"
#include "verify/grad.h"

/* The shapes whose gradients are checked: false past the last. */
bool rt_block_gradient_shape(uint32_t index, rt_block_shape *out);
/* Every parameter and the block's input against central differences, in double; samples as in grad.h. */
int rt_block_gradient_check(rt_dev *ref_double, uint32_t index, uint32_t samples, rt_grad_report *report, rt_err *e);

typedef struct rt_block_data {
    uint64_t seed;
    double spread; /* of every float */
} rt_block_data;
/* Writes everything that the block's two plans read, made from the seed and rounded once to the stored dtypes. */
int rt_block_fill(rt_exec *x, const rt_block *b, const rt_block_data *d, rt_err *e);

#endif
