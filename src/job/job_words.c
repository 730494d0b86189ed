/* job_words.c - the words of other rooms' tables, for help and completion, and lists of layers. See job.h. */
#include "job/job_internal.h"

#include "format/model_write.h"
#include "op/args.h"
#include "train/schedule.h"

#include <stdlib.h>

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
