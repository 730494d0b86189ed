/* schedule.h - the learning rate of every step, as a pure function. */
#ifndef RT_TRAIN_SCHEDULE_H
#define RT_TRAIN_SCHEDULE_H

#include "base/err.h"

#include <stdbool.h>
#include <stdint.h>

typedef enum rt_schedule_kind {
    RT_SCHEDULE_CONSTANT,
    RT_SCHEDULE_LINEAR,
    RT_SCHEDULE_COSINE,
    RT_SCHEDULE_WSD
} rt_schedule_kind;
const char *rt_schedule_name(rt_schedule_kind k); /* "constant", "linear", "cosine", "wsd" */
bool rt_schedule_parse(const char *name, rt_schedule_kind *out);
/* The names, ended by a null. */
const char *const *rt_schedule_names(void);

typedef struct rt_schedule {
    rt_schedule_kind kind;
    double lr;       /* the highest */
    double floor;    /* share of lr that is never gone below after warm-up: 0.1 ends at a tenth */
    uint32_t warmup; /* steps of linear rise: step 1 has lr / warmup */
    uint32_t decay;  /* WSD: steps of the fall at the end */
    uint32_t steps;  /* of the run */
} rt_schedule;

/* step from 1 to steps; the last step has the floor (LINEAR, COSINE, WSD). */
double rt_schedule_lr(const rt_schedule *s, uint32_t step);
/* RT_INVALID when the parts do not fit together. */
int rt_schedule_check(const rt_schedule *s, rt_err *e);

#endif
