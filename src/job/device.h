/* device.h - what the settings say about a device, as the options that opening one takes. */
#ifndef RT_JOB_DEVICE_H
#define RT_JOB_DEVICE_H

#include "backend/backend.h"
#include "settings/settings.h"

/* Every setting that is given and that a backend takes as an option by the name of its flag. The list is in a; the
 * environment is left to the caller. RT_USAGE for more threads than can be. */
int rt_settings_device(rt_dev_opts *out, const rt_settings *s, rt_arena *a, rt_err *e);

#endif
