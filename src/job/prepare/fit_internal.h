/* fit_internal.h - what choosing a fit consists of: the search for the least time, and the order around it. */
#ifndef RT_JOB_FIT_INTERNAL_H
#define RT_JOB_FIT_INTERNAL_H

#include "job/prepare/fit.h"

typedef struct rt_fit_search {
    const rt_fit_ask *ask;
    rt_fit_need_fn need;
    void *ctx;
    uint32_t teacher_rows; /* that it should read at once; 0: as the student */
} rt_fit_search;

/* The most micro-batches of so many rows that the teacher should read at once; 0, 1: each by itself. */
uint32_t rt_fit_ahead(const rt_fit_search *s, uint32_t micro_batch);
int rt_fit_try(const rt_fit_search *s, const rt_fit_config *c, rt_fit_need *need, bool *fits, rt_err *e);
/* c itself where it fits; else, of what is free, the rows at a time and what each layer recomputes that take the least
 * time and fit. Where nothing does, c becomes the least memory that there is. */
int rt_fit_least(const rt_fit_search *s, rt_fit_config *c, bool micro_free, bool recompute_free, rt_fit_need *need,
                 bool *fits, rt_err *e);

#endif
