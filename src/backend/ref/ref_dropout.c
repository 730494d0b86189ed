/* ref_dropout.c - dropout: which elements are kept is a function of the step values, the stream, the row and the column
 * (op/args.h), so nothing is stored and backward drops what forward dropped. */
#include "backend/ref/ref.h"

#include "base/rng.h"

#include <stdbool.h>

/* y += x / (1 - p) where an element is kept, 0 x where it is dropped: what is not finite stays visible */
void REF(dropout)(const rt_ref_call *c)
{
    const rt_dropout_args *a = &c->args->dropout;
    real *y = c->s[RT_DROP_Y];                /* (N,C) += */
    const real *x = c->s[RT_DROP_X];          /* (N,C) */
    const rt_step *step = c->s[RT_DROP_STEP]; /* step, seed and row of it */
    const uint64_t stream = (uint64_t)a->stream << 32 | step->step;
    const real scale = (real)rt_dropout_scale(a->p);
    for (uint32_t i = 0; i < a->N; i++)
        for (uint32_t j = 0; j < a->C; j++) {
            uint64_t index = (uint64_t)(step->row + i) << 32 | j / 4;
            bool kept = rt_philox(step->seed, stream, index).v[j % 4] >= rt_dropout_below(a->p);
            size_t at = (size_t)i * a->C + j;
            y[at] += (kept ? scale : 0) * x[at];
        }
}
