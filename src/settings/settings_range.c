/* settings_range.c - numbers that no run can have.
 *
 * Owns: ranges that depend on nothing else. Those of a file are looked at where it is read, so that all of its faults
 * are said at once and with their lines; job/prepare asks for each that a run takes, from wherever it came. */
#include "settings/settings_internal.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char *rt_setting_whole(rt_arena *a, const char *text)
{
    char *end;
    double v = strtod(text, &end);
    if (end == text || *end || !strpbrk(text, ".eE") || !(v >= 0 && v <= 1e15) || v != floor(v)) return text;
    return rt_arena_printf(a, "%.0f", v);
}

/* setting, the least and the most that it may be, whether these are in it, how it is said */
#define RANGES(X)                                                                                                      \
    X(beta, 0, 1, true, true, "0 to 1")                                                                                \
    X(alpha, 0, 1, true, true, "0 to 1")                                                                               \
    X(skew, 0, 1, true, false, "0 to below 1")                                                                         \
    X(temperature, 0, INFINITY, false, false, "above 0")                                                               \
    X(kd_weight, 0, INFINITY, true, false, "0 or above")                                                               \
    X(ce_weight, 0, INFINITY, true, false, "0 or above")                                                               \
    X(lr, 0, INFINITY, true, false, "0 or above")                                                                      \
    X(lr_floor, 0, 1, true, true, "0 to 1")                                                                            \
    X(eps, 0, INFINITY, false, false, "above 0")                                                                       \
    X(weight_decay, 0, INFINITY, true, false, "0 or above")                                                            \
    X(max_grad_norm, 0, INFINITY, true, false, "0 or above; 0 never clips")                                            \
    X(epochs, 0, INFINITY, false, false, "above 0")                                                                    \
    X(lora_alpha, 0, INFINITY, false, false, "above 0")                                                                \
    X(lora_dropout, 0, 1, true, false, "0 to below 1")                                                                 \
    X(lora_rank, 1, 4096, true, true, "1 to 4096")                                                                     \
    X(batch, 1, 1048576, true, true, "1 to 1048576")                                                                   \
    X(zero, 0, 2, true, true, "0 to 2")                                                                                \
    X(device_timeout, 0, INFINITY, true, false, "0 or above; 0 waits for ever")                                        \
    X(micro_batch, 1, INFINITY, true, false, "from 1")                                                                 \
    X(steps, 1, 1e9, true, true, "1 to 1000000000")

static bool holds(double v, double least, double most, bool from, bool to)
{
    return (v > least || (from && v == least)) && (v < most || (to && v == most));
}

int rt_settings_check_range(const rt_settings *s, rt_setting_id id, rt_err *e)
{
#define X(name, least, most, from, to, text)                                                                           \
    if (id == RT_SETTING_ID_##name && !holds((double)s->name, least, most, from, to))                                  \
        return rt_settings_out_of_range(s, id, text, e);
    RANGES(X)
#undef X
    return RT_OK;
}

/* Rows at a time that a file gives, of fewer rows in all: most often the command line's, over the file's own. */
static int check_rows(rt_setting_source *f)
{
    const rt_setting_entry *few = f->by[RT_SETTING_ID_micro_batch], *all = f->by[RT_SETTING_ID_batch];
    const rt_settings *s = &f->settings;
    if (!few || !few->where || !all || !s->given[RT_SETTING_ID_micro_batch] || !s->given[RT_SETTING_ID_batch] ||
        !s->batch || s->micro_batch <= s->batch)
        return RT_OK;
    rt_source_enter(f, few->where);
    return rt_source_keep(f, few->line,
                          rt_source_refuse(f, few->line,
                                           "'%s' is --micro-batch %" PRIu64 ", and --batch %" PRIu64 "%s is less: give "
                                           "--micro-batch %" PRIu64 ", too, or a larger --batch",
                                           few->name, s->micro_batch, s->batch,
                                           all->where ? "" : " of the command line", s->batch));
}

int rt_source_check_ranges(rt_setting_source *f)
{
    int rc = check_rows(f);
    if (rc < 0) return rc;
    for (int id = 0; id < RT_SETTING_COUNT_ALL; id++) {
        const rt_setting_entry *x = f->by[id];
        if (!x || !x->where || !f->settings.given[id]) continue;
        if (rt_settings_check_range(&f->settings, (rt_setting_id)id, f->e) >= 0) continue;
        rt_source_enter(f, x->where);
        rt_err_context(f->e, "%s:%u", x->where, x->line);
        f->e->status = RT_INVALID;
        RT_TRY(rt_source_keep(f, x->line, RT_INVALID));
    }
out:
    return rc;
}
