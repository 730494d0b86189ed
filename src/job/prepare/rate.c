/* rate.c - see rate.h. */
#include "job/prepare/rate.h"

#include <math.h>
#include <string.h>

static const char *const names[] = { "near", "far", "random" };

const char *rt_lr_class_name(rt_lr_class c) { return names[c]; }

bool rt_lr_class_parse(const char *name, rt_lr_class *out)
{
    for (int i = 0; i < 3; i++)
        if (strcmp(name, names[i]) == 0) return *out = (rt_lr_class)i, true;
    return false;
}

rt_lr_class rt_lr_class_of(const rt_eval_result *first, uint32_t vocab)
{
    bool far = first->teacher ? first->kl.mean >= 1.0 : first->ce.mean > 0.4 * log(vocab);
    return far ? RT_LR_FAR : RT_LR_NEAR;
}

/* A trained student that learns from text: what others publish. */
static double by_size(const rt_run_facts *f, bool adapters)
{
    if (adapters) return 2e-4;
    if (f->student_parameters <= 1000000000ull) return 5e-5;
    return f->student_parameters <= 3500000000ull ? 3e-5 : 1e-5;
}

double rt_lr_default(rt_lr_class c, const rt_run_facts *f, bool adapters)
{
    static const double base[] = { [RT_LR_NEAR] = 1.3e-4, [RT_LR_FAR] = 1.3e-3, [RT_LR_RANDOM] = 5e-4 };
    if (c == RT_LR_NEAR && !f->teacher) return by_size(f, adapters);
    return base[c] * 896.0 / f->student->width * (adapters ? 2 : 1);
}

void rt_lr_class_say(rt_str *out, rt_lr_class c, const rt_eval_result *first)
{
    if (first->teacher)
        rt_str_printf(out, "the student is %s the teacher (KL %.3g nats at the start)",
                      c == RT_LR_FAR ? "far from" : "near", first->kl.mean);
    else
        rt_str_printf(out, "the student is %s trained (cross-entropy %.3g nats at the start)",
                      c == RT_LR_FAR ? "far from" : "already", first->ce.mean);
}
