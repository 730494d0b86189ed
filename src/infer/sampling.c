/* sampling.c - how an id is chosen: what makes sense, and as the operand of `sample`. See engine.h. */
#include "infer/engine_internal.h"

#include <math.h>

const rt_sampling rt_sampling_greedy = { .top_p = 1.0, .repetition_penalty = 1.0 };

int rt_sampling_check(const rt_sampling *s, rt_err *e)
{
    if (!(s->temperature >= 0 && isfinite(s->temperature)))
        return rt_fail(e, RT_USAGE, "--temperature %g is out of range (0 or more)", s->temperature);
    if (!(s->top_p > 0 && s->top_p <= 1))
        return rt_fail(e, RT_USAGE, "--top-p %g is out of range (above 0, at most 1)", s->top_p);
    if (!(s->min_p >= 0 && s->min_p <= 1)) return rt_fail(e, RT_USAGE, "--min-p %g is out of range (0 to 1)", s->min_p);
    if (!(s->repetition_penalty > 0 && isfinite(s->repetition_penalty)))
        return rt_fail(e, RT_USAGE, "--repetition-penalty %g is out of range (above 0)", s->repetition_penalty);
    return RT_OK;
}

void rt_engine_set_how(rt_engine *g, uint32_t slot, const rt_sampling *s)
{
    float *how = g->hows + (size_t)slot * RT_HOW_COLS;
    how[RT_HOW_TEMPERATURE] = (float)s->temperature;
    how[RT_HOW_TOP_K] = (float)s->top_k;
    how[RT_HOW_TOP_P] = (float)s->top_p;
    how[RT_HOW_MIN_P] = (float)s->min_p;
    how[RT_HOW_PENALTY] = (float)s->repetition_penalty;
}
