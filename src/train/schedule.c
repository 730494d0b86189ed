/* schedule.c - see schedule.h.
 *
 *   warm-up   lr step / warmup                                            step <= warmup
 *   then, with t = (step - warmup) / (steps - warmup):
 *   constant  lr
 *   linear    lr (1 - (1 - floor) t)
 *   cosine    lr (floor + (1 - floor) (1 + cos(pi t)) / 2)
 *   wsd       lr, and over the last `decay` steps linearly down to lr floor */
#include "train/schedule.h"

#include <math.h>
#include <stddef.h>
#include <string.h>

static const char *const names[] = { "constant", "linear", "cosine", "wsd", NULL };

const char *rt_schedule_name(rt_schedule_kind k) { return names[k]; }

const char *const *rt_schedule_names(void) { return names; }

bool rt_schedule_parse(const char *name, rt_schedule_kind *out)
{
    for (int i = 0; names[i]; i++)
        if (strcmp(name, names[i]) == 0) return *out = (rt_schedule_kind)i, true;
    return false;
}

static int moves(const rt_schedule *s, rt_err *e)
{
    if (s->lr == 0) return RT_OK; /* as it was said */
    for (uint32_t i = 1; i <= s->steps && i <= s->warmup + 2; i++)
        if (rt_schedule_lr(s, i) > 0) return RT_OK;
    return rt_fail(
        e, RT_INVALID,
        "every rate of this run is 0, since the last step of a %s schedule to 0 has rate 0; give more steps, "
        "--warmup or --lr-floor",
        names[s->kind]);
}

int rt_schedule_check(const rt_schedule *s, rt_err *e)
{
    if (s->steps == 0) return rt_fail(e, RT_INVALID, "a run of 0 steps trains nothing; give at least one");
    if (!(s->lr >= 0) || !isfinite(s->lr)) return rt_fail(e, RT_INVALID, "--lr %g is out of range (0 or above)", s->lr);
    if (!(s->floor >= 0 && s->floor <= 1))
        return rt_fail(e, RT_INVALID, "--lr-floor %g is out of range (0 to 1)", s->floor);
    if (s->kind == RT_SCHEDULE_WSD && (uint64_t)s->warmup + s->decay > s->steps)
        return rt_fail(e, RT_INVALID, "--warmup of %u and --decay of %u steps are longer than the run of %u; lower one",
                       s->warmup, s->decay, s->steps);
    return moves(s, e);
}

double rt_schedule_lr(const rt_schedule *s, uint32_t step)
{
    if (step < s->warmup) return s->lr * step / s->warmup;
    double t = s->steps > s->warmup ? fmin(1.0, (step - s->warmup) / (double)(s->steps - s->warmup)) : 0.0;
    switch (s->kind) {
    case RT_SCHEDULE_CONSTANT: break;
    case RT_SCHEDULE_LINEAR: return s->lr * (1.0 - (1.0 - s->floor) * t);
    case RT_SCHEDULE_COSINE:
        return s->lr * (s->floor + (1.0 - s->floor) * 0.5 * (1.0 + cos(3.14159265358979323846 * t)));
    case RT_SCHEDULE_WSD:
        if (s->decay && step + s->decay > s->steps)
            return s->lr * (1.0 - (1.0 - s->floor) * (double)(step + s->decay - s->steps) / s->decay);
        break;
    }
    return s->lr;
}
