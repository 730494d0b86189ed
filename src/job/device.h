/* device.h - the device that a job runs on, from its settings and the environment. The one place that opens one. */
#ifndef RT_JOB_DEVICE_H
#define RT_JOB_DEVICE_H

#include "backend/backend.h"
#include "base/pool.h"
#include "settings/settings.h"

/* Every setting that has a value and that a backend takes as an option by the name of its flag. The list is in a; the
 * environment is left to the caller. RT_USAGE for more threads than can be. */
int rt_settings_device(rt_dev_opts *out, const rt_settings *s, rt_arena *a, rt_err *e);

enum { RT_JOB_WHY = RT_DEV_WHY };
/* By the setting device. left_out: as rt_dev_opts has it. why (RT_JOB_WHY bytes, may be null): why an earlier one was
 * passed over where the choice was left open; else empty. */
int rt_job_device_open(rt_dev **out, const rt_settings *s, const char *left_out, const char *const *env, char *why,
                       rt_err *e);
/* The settings of the run in the setting out, with those that are given now: what was given when it began holds until
 * it is given anew. So a resumed run stays on the device it began on unless another one is set. Null where there is no
 * such run; a file that cannot be read is told of when the run is opened. */
const rt_settings *rt_job_settings_of_run(const rt_settings *now, rt_arena *a);
void rt_job_device_close(rt_dev *d); /* accepts null */
/* Threads of the host for work beside it; 0: all that this process may use. RT_USAGE for more than there can be. */
int rt_job_pool_new(rt_pool **out, uint64_t threads, rt_err *e);

/* What a backend takes under this name; null: none does. */
const rt_dev_option_info *rt_job_device_option(const char *name);

/* A backend of this binary, with its devices on this machine or the reason why it has none. */
enum { RT_JOB_DEVICES = 16 };
typedef struct rt_job_backend {
    const char *name;
    rt_dev_info devices[RT_JOB_DEVICES];
    uint32_t count;
    char why[RT_JOB_WHY];
} rt_job_backend;
const char *rt_job_backend_name(uint32_t index); /* null after the last */
/* index: of one that there is. */
void rt_job_backend_probe(uint32_t index, const char *const *env, rt_job_backend *out);

#endif
