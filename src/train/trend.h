/* trend.h - whether the loss of training rises: a running mean against the lowest it has been.
 *
 * Pure: one loss after another. What to say of it is the caller's. */
#ifndef RT_TRAIN_TREND_H
#define RT_TRAIN_TREND_H

#include <stdbool.h>
#include <stdint.h>

/* Begins as {0}. */
typedef struct rt_loss_trend {
    double mean, least; /* running, over some RT_TREND_STEPS steps; the lowest so far */
    uint32_t count;     /* losses taken */
    bool rising;        /* it has risen and not fallen back since */
} rt_loss_trend;

enum { RT_TREND_STEPS = 20 };
/* True once each time that the mean comes to half as much again as its lowest; it counts anew when the mean has fallen
 * back to within a fifth of that. */
bool rt_loss_trend_take(rt_loss_trend *w, double loss);

#endif
