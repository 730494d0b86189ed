/* trend.c - see trend.h. */
#include "train/trend.h"

bool rt_loss_trend_take(rt_loss_trend *w, double loss)
{
    enum { BEGIN = 5 }; /* steps whose plain mean is the first that counts: one batch alone may be an easy one */
    uint32_t over = ++w->count < RT_TREND_STEPS ? w->count : RT_TREND_STEPS;
    bool was = w->rising;
    w->mean += (loss - w->mean) / over;
    if (w->count <= BEGIN || w->mean < w->least) w->least = w->mean;
    if (w->mean > 1.5 * w->least) w->rising = true;
    if (w->mean < 1.2 * w->least) w->rising = false;
    return w->rising && !was;
}
