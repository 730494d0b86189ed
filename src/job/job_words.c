/* job_words.c - the words of other rooms' tables, for help and completion. See job.h. */
#include "job/job.h"

#include "format/model_write.h"
#include "op/args.h"
#include "train/schedule.h"

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

const char *const *rt_job_preset_names(void)
{
    enum { MOST = 64 };
    static const char *names[MOST + 1];
    uint32_t count;
    const rt_preset *p = rt_presets(&count);
    for (uint32_t i = 0; i < count && i < MOST; i++) names[i] = p[i].name;
    return names;
}
