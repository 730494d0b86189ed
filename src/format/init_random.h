/* init_random.h - weights of a model that has learned nothing: the same numbers for one seed, whatever the format, the
 * dtype or the number of threads.
 *
 * Owns: the distribution (matrices and embeddings normal with the configuration's range, norms 1, biases 0, as Hugging
 * Face begins its models; output projections are not scaled down), the counter-based numbers that it draws, and writing
 * such a model. Which shape is config.h; how files are written is model_write.h.
 *
 * Element e of parameter i (the order of rt_param_at, rows of the canonical order) takes 16 bits of
 * Philox 4x32-10(seed, stream i, index e / 8): of its four words, from the first and its low half on, the (e % 8)th.
 * They choose one of 65536 values, the middle quantiles of the normal distribution, which is multiplied by the range in
 * f32 and only then rounded to the dtype. So the values end at 4.33 times the range, and their variance is 0.99998 of
 * the distribution's: nothing that a network notices. */
#ifndef RT_FORMAT_INIT_RANDOM_H
#define RT_FORMAT_INIT_RANDOM_H

#include "format/model_write.h"

enum { RT_NORMAL_VALUES = 65536 };

/* q (RT_NORMAL_VALUES): q[i] is the f32 nearest to the normal quantile of (i + 1/2) / 65536. Computed with operations
 * that IEEE 754 rounds exactly, so it is the same on every machine. */
void rt_normal_quantiles(float *q);
/* y (n) = the values of elements [first, first + n) of a parameter, times scale. */
void rt_normal_fill(float *y, uint64_t n, const float *q, float scale, uint64_t seed, uint64_t stream, uint64_t first);

typedef struct rt_init_opts {
    rt_progress_fn progress; /* may be null */
    void *ctx;
} rt_init_opts;
/* Writes o with random values: seed and range come from o->config (init_seed, init_range), which should say
 * random_init. What was written is opened again and its tensors checked against the configuration before it gets its
 * name. */
int rt_init_random(const rt_model_out *o, const rt_init_opts *opts, rt_pool *pool, rt_err *e);

#endif
