/* job_shared.c - small parts of several jobs: who watches one, as inputs and long work tell it; the words
 * of other rooms' tables, for help and completion; lists of layers. See job_internal.h and job.h. */
#include "job/job_internal.h"

#include "base/sys.h"
#include "format/model_write.h"
#include "op/args.h"
#include "train/schedule.h"

#include <stdlib.h>

/* ---- who watches ---- */

void rt_job_tell_progress(void *ctx, const char *what, uint64_t done, uint64_t total)
{
    rt_job_tell *t = ctx;
    t->at = rt_now();
    t->what = what;
    t->done = done;
    t->total = total;
    if (t->progress && t->progress(t->ctx, what, done, total)) t->stopped = true;
}

bool rt_job_tell_stop(void *ctx)
{
    rt_job_tell *t = ctx;
    bool late = rt_now() - t->at > RT_JOB_TELL_SECONDS;
    if (late) rt_job_tell_progress(t, t->what ? t->what : "tokenizing", t->done, t->total);
    return t->stopped;
}

int rt_job_tell_watch(void *ctx, const char *what, uint64_t done, uint64_t total)
{
    rt_job_tell *t = ctx;
    rt_job_tell_progress(t, what, done, total);
    return t->stopped;
}

/* ---- words ---- */

const char *const *rt_job_dtype_names(void) { return rt_mix_names(); }

const char *rt_job_dtype_find(const char *text)
{
    const rt_mix *mix = rt_mix_find(text);
    return mix ? rt_mix_name(mix) : NULL;
}

const char *const *rt_job_schedule_names(void) { return rt_schedule_names(); }

const char *const *rt_job_divergence_names(void)
{
    static const char *const names[] = {
#define X(name, word, label, title, mix) word,
        RT_DIVERGENCE_LIST(X)
#undef X
            NULL
    };
    return names;
}

const char *const *rt_job_backend_names(void)
{
    enum { MOST = 16 };
    static const char *names[MOST + 1];
    for (uint32_t i = 0; i < MOST && rt_backends()[i]; i++) names[i] = rt_backends()[i]->name;
    return names;
}

const char *const *rt_job_preset_names(void)
{
    enum { MOST = 64 };
    static const char *names[MOST + 1];
    uint32_t count;
    const rt_preset *p = rt_presets(&count);
    for (uint32_t i = 0; i < count && i < MOST; i++) names[i] = p[i].name;
    return names;
}

static int bad_layers(const char *flag, const char *text, rt_err *e)
{
    return rt_fail(e, RT_USAGE, "%s takes numbers and ranges such as 0,2,4-7, not '%s'", flag, text);
}

int rt_job_layers_parse(uint32_t *list, uint32_t *count, const char *flag, const char *text, rt_err *e)
{
    const char *p = text;
    char *end;
    *count = 0;
    for (;;) {
        unsigned long first = strtoul(p, &end, 10), last = first;
        if (end == p || p[0] < '0' || p[0] > '9') return bad_layers(flag, text, e);
        if (*end == '-') {
            p = end + 1;
            last = strtoul(p, &end, 10);
            if (end == p || p[0] < '0' || p[0] > '9' || last < first) return bad_layers(flag, text, e);
        }
        if (last >= RT_MAX_LAYERS || last - first >= RT_MAX_LAYERS - *count)
            return rt_fail(e, RT_USAGE, "%s %s: no model has so many layers", flag, text);
        for (unsigned long i = first; i <= last; i++) list[(*count)++] = (uint32_t)i;
        if (*end == 0) return RT_OK;
        if (*end != ',') return bad_layers(flag, text, e);
        p = end + 1;
    }
}
