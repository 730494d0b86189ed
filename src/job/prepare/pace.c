/* pace.c - see pace.h. */
#include "job/prepare/pace.h"

#include "train/loop.h"

#include <math.h>
#include <stdlib.h>

int rt_parse_duration(const char *text, double *seconds, rt_err *e)
{
    static const struct {
        char unit;
        double seconds;
    } units[] = { { 'h', 3600 }, { 'm', 60 }, { 's', 1 } };
    const char *at = text;
    double sum = 0;
    for (int i = 0; i < 3; i++) { /* largest first, each at most once */
        char *end;
        if (*at < '0' || *at > '9') break;
        double v = strtod(at, &end);
        if (*end != units[i].unit) continue;
        sum += v * units[i].seconds;
        at = end + 1;
    }
    if (*at || !(sum > 0) || !isfinite(sum))
        return rt_fail(e, RT_USAGE, "--time takes hours, minutes and seconds such as 8h, 90m or 1h30m, not '%s'", text);
    *seconds = sum;
    return RT_OK;
}

/* How often something happens at every k-th step of (done, steps], and at the last. */
static uint64_t times(rt_share every, uint64_t done, uint64_t steps)
{
    uint64_t k = rt_share_of(every, steps);
    if (k > steps) k = steps;
    return steps / k - done / k + (steps % k != 0);
}

/* From step `done` on, of which what follows it is counted from step `followed` on. */
static double sum(const rt_pace *p, uint64_t done, uint64_t followed, uint64_t steps, const rt_settings *every)
{
    uint64_t evals = times(every->eval_every, followed, steps), saves = times(every->save_every, followed, steps);
    double total = (double)(steps - done) * p->step + (double)evals * (p->eval + p->best) + p->finish;
    if (done == 0) total += p->eval;
    double by_clock = floor(total / RT_SAVE_SECONDS);
    return total + fmax((double)saves, by_clock) * p->save;
}

double rt_pace_total(const rt_pace *p, uint64_t done, uint64_t steps, const rt_settings *every)
{
    return sum(p, done, done, steps, every);
}

double rt_pace_left(const rt_pace *p, uint64_t step, uint64_t steps, const rt_settings *every)
{
    return sum(p, step, step - 1, steps, every);
}

double rt_pace_evaluations(const rt_pace *p, uint64_t steps, const rt_settings *every)
{
    return (double)(times(every->eval_every, 0, steps) + 2) * p->eval;
}

uint64_t rt_pace_steps(const rt_pace *p, double seconds, const rt_settings *every)
{
    uint64_t below = 0, above = 1000000000;
    while (above - below > 1) {
        uint64_t middle = below + (above - below) / 2;
        if (rt_pace_total(p, 0, middle, every) <= seconds)
            below = middle;
        else
            above = middle;
    }
    return below;
}
